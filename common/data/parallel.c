/*
 * Memory orders: blocks are handed out by a relaxed fetch_add (only uniqueness matters), the lowest
 * bad block is kept by relaxed compare-and-swap, and pthread_join orders everything the threads
 * wrote before the caller's reads. A thread may miss a fresher `lowest_bad` and visit a block in
 * vain; it can never leave out a block below it, since blocks are handed out in ascending order
 * and a thread stops only at a block that is above a bad one.
 */
#include "common/data/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/bits.h"
#include "common/base/threads.h"

enum { MAX_THREADS = 256 };

struct pass {
    _Alignas(SL_CACHE_LINE) _Atomic uint64_t next_block;
    _Alignas(SL_CACHE_LINE) _Atomic uint64_t lowest_bad;
    uint64_t n_blocks;
    bool (*visit)(void *ctx, uint64_t block);
    void *ctx;
};

static void *work(void *arg)
{
    struct pass *p = arg;
    for (;;) {
        uint64_t b = atomic_fetch_add_explicit(&p->next_block, 1, memory_order_relaxed);
        if (b >= p->n_blocks || b > atomic_load_explicit(&p->lowest_bad, memory_order_relaxed))
            return NULL;
        if (!p->visit(p->ctx, b))
            continue;
        uint64_t seen = atomic_load_explicit(&p->lowest_bad, memory_order_relaxed);
        while (b < seen &&
               !atomic_compare_exchange_weak_explicit(&p->lowest_bad, &seen, b,
                                                      memory_order_relaxed, memory_order_relaxed))
            ;
        return NULL;
    }
}

uint64_t sl_parallel_first(uint64_t n_blocks, int threads, bool (*visit)(void *ctx, uint64_t block),
                           void *ctx)
{
    struct pass p = {
        .lowest_bad = SL_PARALLEL_NONE, .n_blocks = n_blocks, .visit = visit, .ctx = ctx};
    pthread_t helpers[MAX_THREADS];
    int n_helpers = 0;
    if (threads <= 0)
        threads = sl_threads_default();
    threads = (int)SL_MIN((uint64_t)SL_MIN(threads, MAX_THREADS), n_blocks);
    // A thread that cannot be had only makes the pass slower.
    while (n_helpers < threads - 1 && pthread_create(&helpers[n_helpers], NULL, work, &p) == 0)
        n_helpers++;
    work(&p);
    for (int i = 0; i < n_helpers; i++)
        pthread_join(helpers[i], NULL);
    return atomic_load_explicit(&p.lowest_bad, memory_order_relaxed);
}
