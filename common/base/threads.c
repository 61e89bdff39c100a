/*
 * Memory orders: blocks are handed out by a relaxed fetch_add (only uniqueness matters), the lowest
 * bad block is kept by relaxed compare-and-swap, and pthread_join orders everything the threads
 * wrote before the caller's reads. A thread may miss a fresher `lowest_bad` and visit a block in
 * vain; it can never leave out a block below it, since blocks are handed out in ascending order
 * and a thread stops only at a block that is above a bad one.
 */
#include "common/base/threads.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

struct lane {
    pthread_t thread;
    bool started;
    int (*body)(void *, int);
    void *context;
    int number;
    int rc;
    char *message; // messages are recorded per thread: this one travels to the caller
};

int sl_threads_default(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return SL_MAX(1, CPU_COUNT(&set));
    // More cores than a cpu_set_t can name.
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)SL_MIN(n, (long)INT_MAX);
}

int sl_thread_start(pthread_t *out, void *(*body)(void *), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int err = pthread_create(out, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

static void *run_lane(void *arg)
{
    struct lane *lane = arg;
    lane->rc = lane->body(lane->context, lane->number);
    if (lane->rc < 0)
        lane->message = strdup(sl_error_message());
    return NULL;
}

int sl_threads_run(int n_threads, int (*body)(void *context, int thread), void *context)
{
    struct lane *lanes = calloc((size_t)n_threads, sizeof *lanes);
    if (!lanes)
        return sl_fail(SL_ENOMEM, "no memory to start %d threads", n_threads);
    for (int i = 0; i < n_threads; i++) {
        lanes[i].body = body;
        lanes[i].context = context;
        lanes[i].number = i;
        if (i > 0)
            lanes[i].started = pthread_create(&lanes[i].thread, NULL, run_lane, &lanes[i]) == 0;
    }
    for (int i = 0; i < n_threads; i++)
        if (!lanes[i].started)
            run_lane(&lanes[i]);
    for (int i = 0; i < n_threads; i++)
        if (lanes[i].started)
            pthread_join(lanes[i].thread, NULL);
    int rc = SL_OK;
    for (int i = 0; i < n_threads; i++) {
        if (rc == SL_OK && lanes[i].rc < 0)
            rc = sl_fail(lanes[i].rc, "%s",
                         lanes[i].message ? lanes[i].message : sl_strerror(lanes[i].rc));
        free(lanes[i].message);
    }
    free(lanes);
    return rc;
}

// ---- blocks -------------------------------------------------------------------------------------

struct pass {
    _Alignas(SL_CACHE_LINE) _Atomic uint64_t next_block;
    _Alignas(SL_CACHE_LINE) _Atomic uint64_t lowest_bad;
    uint64_t n_blocks;
    bool (*visit)(void *ctx, uint64_t block);
    void *ctx;
};

static int visit_blocks(void *context, int thread)
{
    struct pass *p = context;
    for (;;) {
        uint64_t b = atomic_fetch_add_explicit(&p->next_block, 1, memory_order_relaxed);
        if (b >= p->n_blocks || b > atomic_load_explicit(&p->lowest_bad, memory_order_relaxed))
            return SL_OK;
        if (!p->visit(p->ctx, b))
            continue;
        uint64_t seen = atomic_load_explicit(&p->lowest_bad, memory_order_relaxed);
        while (b < seen &&
               !atomic_compare_exchange_weak_explicit(&p->lowest_bad, &seen, b,
                                                      memory_order_relaxed, memory_order_relaxed))
            ;
        return SL_OK;
    }
}

uint64_t sl_threads_first(uint64_t n_blocks, int threads, bool (*visit)(void *ctx, uint64_t block),
                          void *ctx)
{
    struct pass p = {
        .lowest_bad = SL_THREADS_NONE, .n_blocks = n_blocks, .visit = visit, .ctx = ctx};
    if (threads <= 0)
        threads = sl_threads_default();
    threads = (int)SL_MIN((uint64_t)threads, SL_MAX(n_blocks, 1));
    // Without memory for threads the pass is only slower.
    if (sl_threads_run(threads, visit_blocks, &p) < 0)
        visit_blocks(&p, 0);
    return atomic_load_explicit(&p.lowest_bad, memory_order_relaxed);
}

// ---- copies -------------------------------------------------------------------------------------

enum { PIECE_BYTES = 4 << 20 };

struct copying {
    char *to;
    const char *from;
    uint64_t bytes;
    const atomic_bool *cancel;
};

static bool copy_piece(void *context, uint64_t piece)
{
    const struct copying *c = context;
    const uint64_t at = piece * PIECE_BYTES;
    if (c->cancel && atomic_load(c->cancel))
        return true;
    memcpy(c->to + at, c->from + at, SL_MIN((uint64_t)PIECE_BYTES, c->bytes - at));
    return false;
}

void sl_threads_copy(void *to, const void *from, uint64_t bytes, const atomic_bool *cancel)
{
    struct copying c = {.to = to, .from = from, .bytes = bytes, .cancel = cancel};
    (void)sl_threads_first(sl_div_up(bytes, (uint64_t)PIECE_BYTES), 0, copy_piece, &c);
}
