/*
 * threads.h - the same work on several threads, with one result.
 */
#ifndef SL_BASE_THREADS_H
#define SL_BASE_THREADS_H

// Threads that this process may run at once (its CPU affinity), at least 1.
int sl_threads_default(void);

/*
 * Calls body(context, thread) on `n_threads` threads, the caller's being thread 0, and waits for
 * all. The result is that of the first thread (by number) that failed, with its message recorded
 * in the caller's thread. A body that should stop early after another failed looks at its own flag
 * in the context. When the system gives fewer threads, bodies run one after another on those it
 * gave, so a body must not wait for another.
 */
int sl_threads_run(int n_threads, int (*body)(void *context, int thread), void *context);

#endif
