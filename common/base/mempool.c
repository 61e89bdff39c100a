#include "common/base/mempool.h"

#include <string.h>
#include <sys/mman.h>

#include "common/base/bits.h"

enum { HEADER_BYTES = 64 };
#define SLAB_MIN_BYTES ((size_t)2 << 20)

struct sl_mempool_slab {
    struct sl_mempool_slab *next;
    size_t bytes; // whole mapping
    size_t used;  // header included
};

_Static_assert(sizeof(struct sl_mempool_slab) <= HEADER_BYTES, "a slab's header fits its slot");

static size_t pages_round(size_t bytes)
{
    return sl_align_up(bytes, (size_t)2 << 20);
}

void *sl_pages_alloc(size_t bytes)
{
    size_t n = pages_round(bytes);
    size_t extra = (size_t)2 << 20;
    char *p = mmap(NULL, n + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
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
    memset(pool, 0, sizeof *pool);
}

static void free_slabs(struct sl_mempool *pool)
{
    while (pool->head) {
        struct sl_mempool_slab *slab = pool->head;
        pool->head = slab->next;
        sl_pages_free(slab, slab->bytes);
    }
}

void sl_mempool_fini(struct sl_mempool *pool)
{
    free_slabs(pool);
    sl_mempool_init(pool);
}

static int add_slab(struct sl_mempool *pool, size_t payload)
{
    size_t bytes = pages_round(SL_MAX(payload + HEADER_BYTES, SLAB_MIN_BYTES));
    struct sl_mempool_slab *slab = sl_pages_alloc(bytes);
    if (!slab)
        return -1;
    slab->next = pool->head;
    slab->bytes = bytes;
    slab->used = HEADER_BYTES;
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
    void *p = (char *)pool->head + pool->head->used;
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

void sl_mempool_reset(struct sl_mempool *pool)
{
    if (pool->head && pool->head->next) {
        // More than one slab: give them back and take one that holds the peak, with a margin.
        free_slabs(pool);
        add_slab(pool, pool->peak_bytes + pool->peak_bytes / 8);
    }
    if (pool->head)
        pool->head->used = HEADER_BYTES;
    pool->used_bytes = 0;
}
