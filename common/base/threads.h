/*
 * threads.h - the same work on several threads, with one result.
 *
 * For work that is long or done once: threads are started for a call and gone after it. The
 * operations of a batch have threads that stay (kernels/cpu/threads.c).
 */
#ifndef SL_BASE_THREADS_H
#define SL_BASE_THREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Threads that this process may run at once (its CPU affinity), at least 1.
int sl_threads_default(void);

// pthread_create(), for a thread that no signal interrupts: signals are for the threads of whoever
// uses this code. Its code: 0, or an errno.
int sl_thread_start(pthread_t *out, void *(*body)(void *), void *context);

/*
 * Calls body(context, thread) on `n_threads` threads, the caller's being thread 0, and waits for
 * all. The result is that of the first thread (by number) that failed, with its message recorded
 * in the caller's thread. A body that should stop early after another failed looks at its own flag
 * in the context. When the system gives fewer threads, bodies run one after another on those it
 * gave, so a body must not wait for another.
 */
int sl_threads_run(int n_threads, int (*body)(void *context, int thread), void *context);

// memcpy() by as many threads as sl_threads_default() says, until *cancel (or NULL) is set.
void sl_threads_copy(void *to, const void *from, uint64_t bytes, const atomic_bool *cancel);

#define SL_THREADS_NONE UINT64_MAX

/*
 * Calls visit(ctx, b) for b = 0 .. n_blocks - 1, each at most once, from up to `threads` threads
 * (0 = all cores of this process), the caller among them. visit() returns true when the block is
 * bad. Returns the lowest bad block, or SL_THREADS_NONE: every block below the one returned has
 * been visited and is good, however many threads ran; blocks above it may have been left out.
 */
uint64_t sl_threads_first(uint64_t n_blocks, int threads, bool (*visit)(void *ctx, uint64_t block),
                          void *ctx);

#endif
