/*
 * mempool.h - bump allocation for everything one mini-batch needs.
 *
 * A pool grows to the largest batch it has met and then allocates nothing: sl_mempool_reset()
 * keeps the memory. Not thread-safe; one pool a thread. Blocks are aligned to 64 bytes.
 */
#ifndef SL_BASE_MEMPOOL_H
#define SL_BASE_MEMPOOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_mempool_slab;

// Where a pool takes its memory from. alloc gives at least 64-byte alignment, or NULL; thread-safe.
struct sl_memory {
    void *(*alloc)(size_t bytes);
    void (*free)(void *p, size_t bytes);
};

struct sl_mempool {
    const struct sl_memory *memory; // NULL: sl_pages_alloc()
    struct sl_mempool_slab *head;   // slab being filled; older ones behind it until the next reset
    size_t used_bytes;              // since the last reset
    size_t peak_bytes;              // largest used_bytes ever
};

// A zeroed struct is a valid empty pool; nothing is allocated before the first use.
void sl_mempool_init(struct sl_mempool *pool);
// A pool of a device's memory (common/device/device.h), which its owner may not look into.
void sl_mempool_init_on(struct sl_mempool *pool, const struct sl_memory *memory);
void sl_mempool_fini(struct sl_mempool *pool);

// Memory valid until the next reset (not zeroed); NULL only when the system has none.
void *sl_mempool_alloc(struct sl_mempool *pool, size_t bytes);
void *sl_mempool_zalloc(struct sl_mempool *pool, size_t bytes); // only of the process's own memory

// sl_mempool_release() gives back what has been taken since sl_mempool_mark(): the next to be taken
// lies there again, in memory that the caches still have. No reset between the two.
struct sl_mempool_mark {
    struct sl_mempool_slab *head;
    size_t slab_used, used_bytes;
};
struct sl_mempool_mark sl_mempool_mark(const struct sl_mempool *pool);
void sl_mempool_release(struct sl_mempool *pool, struct sl_mempool_mark mark);

// Forgets everything; merges the slabs into one so that the next batch of this size needs no more.
void sl_mempool_reset(struct sl_mempool *pool);

// Anonymous memory, not pre-faulted, in huge pages if granted and not little; NULL: there is none.
void *sl_pages_alloc(size_t bytes);
void sl_pages_free(void *p, size_t bytes);
// Gives the end of such memory back, except the page with the last of the first `keep` bytes (more
// than 0); returns the remaining size, which sl_pages_free() takes from then on.
size_t sl_pages_trim(void *p, size_t bytes, size_t keep);

#ifdef __cplusplus
}
#endif

#endif
