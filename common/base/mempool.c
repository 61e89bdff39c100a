#include "common/base/mempool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/bits.h"

#define SLAB_MIN_BYTES ((size_t)2 << 20)
#define HUGE_BYTES     ((size_t)2 << 20)
#define SMALL_BYTES    ((size_t)256 << 10) // less would leave most of a huge page unused

// Notes of a piece of memory, which may be where the processor cannot write.
struct sl_mempool_slab {
    struct sl_mempool_slab *next;
    char *base;
    size_t bytes, used;
};

static const struct sl_memory PAGES = {.alloc = sl_pages_alloc, .free = sl_pages_free};

static size_t pages_round(size_t bytes)
{
    return sl_align_up(SL_MAX(bytes, (size_t)1), bytes <= SMALL_BYTES ? (size_t)4096 : HUGE_BYTES);
}

void *sl_pages_alloc(size_t bytes)
{
    size_t n = pages_round(bytes);
    size_t extra = n <= SMALL_BYTES ? 0 : HUGE_BYTES;
    char *p = mmap(NULL, n + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (extra == 0)
        return p;
    // Huge pages need 2 MiB alignment: cut what sticks out on both sides.
    char *aligned = (char *)sl_align_up((uintptr_t)p, extra);
    if (aligned > p)
        munmap(p, (size_t)(aligned - p));
    size_t tail = (size_t)(p + n + extra - (aligned + n));
    if (tail)
        munmap(aligned + n, tail);
    madvise(aligned, n, MADV_HUGEPAGE); // a hint: where the kernel refuses, small pages do
    return aligned;
}

void sl_pages_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, pages_round(bytes));
}

size_t sl_pages_trim(void *p, size_t bytes, size_t keep)
{
    size_t have = pages_round(bytes), left = pages_round(keep);
    if (left >= have)
        return bytes;
    munmap((char *)p + left, have - left);
    return left;
}

void sl_mempool_init(struct sl_mempool *pool)
{
    sl_mempool_init_on(pool, NULL);
}

void sl_mempool_init_on(struct sl_mempool *pool, const struct sl_memory *memory)
{
    *pool = (struct sl_mempool){.memory = memory};
}

static const struct sl_memory *memory_of(const struct sl_mempool *pool)
{
    return pool->memory ? pool->memory : &PAGES;
}

static void free_slabs(struct sl_mempool *pool)
{
    while (pool->head) {
        struct sl_mempool_slab *slab = pool->head;
        pool->head = slab->next;
        memory_of(pool)->free(slab->base, slab->bytes);
        free(slab);
    }
}

void sl_mempool_fini(struct sl_mempool *pool)
{
    free_slabs(pool);
    sl_mempool_init_on(pool, pool->memory);
}

static int add_slab(struct sl_mempool *pool, size_t payload)
{
    size_t bytes = pages_round(SL_MAX(payload, SLAB_MIN_BYTES));
    struct sl_mempool_slab *slab = malloc(sizeof *slab);
    char *base = slab ? memory_of(pool)->alloc(bytes) : NULL;
    if (!base) {
        free(slab);
        return -1;
    }
    *slab = (struct sl_mempool_slab){.next = pool->head, .base = base, .bytes = bytes};
    pool->head = slab;
    return 0;
}

void *sl_mempool_alloc(struct sl_mempool *pool, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL; // a size that overflowed on its way here
    size_t need = sl_align_up(SL_MAX(bytes, (size_t)1), SL_CACHE_LINE);
    if (!pool->head || pool->head->bytes - pool->head->used < need)
        if (add_slab(pool, SL_MAX(need, pool->used_bytes / 2)) < 0)
            return NULL;
    void *p = pool->head->base + pool->head->used;
    pool->head->used += need;
    pool->used_bytes += need;
    pool->peak_bytes = SL_MAX(pool->peak_bytes, pool->used_bytes);
    return p;
}

void *sl_mempool_zalloc(struct sl_mempool *pool, size_t bytes)
{
    void *p = sl_mempool_alloc(pool, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

struct sl_mempool_mark sl_mempool_mark(const struct sl_mempool *pool)
{
    return (struct sl_mempool_mark){pool->head, pool->head ? pool->head->used : 0,
                                    pool->used_bytes};
}

void sl_mempool_release(struct sl_mempool *pool, struct sl_mempool_mark mark)
{
    if (pool->head) // a slab that came later is empty then
        pool->head->used = pool->head == mark.head ? mark.slab_used : 0;
    pool->used_bytes = mark.used_bytes;
}

void sl_mempool_reset(struct sl_mempool *pool)
{
    if (pool->head && pool->head->next) {
        // More than one slab: give them back and take one that holds the peak, with a margin.
        free_slabs(pool);
        add_slab(pool, pool->peak_bytes + pool->peak_bytes / 8);
    }
    if (pool->head)
        pool->head->used = 0;
    pool->used_bytes = 0;
}
