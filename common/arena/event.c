#include "common/arena/event.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"

enum { SPIN_NS = 5000 };

static _Atomic uint64_t sleeping_ms, expired;

uint64_t sl_event_sleeping_ms(void)
{
    return atomic_load(&sleeping_ms);
}

uint64_t sl_event_expired(void)
{
    return atomic_load(&expired);
}

static inline void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

void sl_event_signal(struct sl_event *e)
{
    // seq_cst on both sides: either the waiter sees the new count, or we see the waiter.
    atomic_fetch_add_explicit(&e->count, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&e->waiters, memory_order_seq_cst) != 0)
        syscall(SYS_futex, &e->count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void sl_event_wait(struct sl_event *e, uint32_t seen, uint32_t timeout_ms)
{
    uint64_t until = sl_now_ns() + SPIN_NS;
    do {
        if (atomic_load_explicit(&e->count, memory_order_acquire) != seen)
            return;
        relax();
    } while (sl_now_ns() < until);

    timeout_ms = timeout_ms ? timeout_ms : 1;
    struct timespec limit = {.tv_sec = timeout_ms / 1000,
                             .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    atomic_fetch_add(&sleeping_ms, timeout_ms);
    atomic_fetch_add_explicit(&e->waiters, 1, memory_order_seq_cst);
    // EINTR, EAGAIN and a time-out all mean the same to the caller: look again.
    if (syscall(SYS_futex, &e->count, FUTEX_WAIT, seen, &limit, NULL, 0) < 0 && errno == ETIMEDOUT)
        atomic_fetch_add(&expired, 1);
    atomic_fetch_sub_explicit(&e->waiters, 1, memory_order_seq_cst);
    atomic_fetch_sub(&sleeping_ms, timeout_ms);
}
