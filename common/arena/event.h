/*
 * event.h - futex waits between processes: bounded, abortable, cheap when nobody waits.
 *
 * An event is a counter. The waiter reads it, looks at the condition, and sleeps only while the
 * counter still has the value it read; the signaller changes the condition first and the counter
 * after. A process killed while it sleeps leaves `waiters` too high: that costs its peers one
 * system call a signal and nothing else.
 */
#ifndef SL_ARENA_EVENT_H
#define SL_ARENA_EVENT_H

#include <stdatomic.h>
#include <stdint.h>

struct sl_event {
    _Alignas(64) _Atomic uint32_t count;
    _Atomic uint32_t waiters;
};

// The value to hand to sl_event_wait(): read it before looking at the condition.
static inline uint32_t sl_event_read(struct sl_event *e)
{
    return atomic_load_explicit(&e->count, memory_order_seq_cst); // pairs with signal's increment
}

// Wakes every waiter. Call it after the condition has changed.
void sl_event_signal(struct sl_event *e);

// Returns when the counter differs from `seen` or timeout_ms (at least 1) has passed. Spins for a
// few microseconds first: a wake across cores costs 80.
void sl_event_wait(struct sl_event *e, uint32_t seen, uint32_t timeout_ms);

// The limits of all waits that this process's threads sleep in right now, added up: how soon, and
// how often, they would come round though nobody woke them.
uint64_t sl_event_sleeping_ms(void);

// Waits of this process that ended at their limit, because nobody signalled.
uint64_t sl_event_expired(void);

#endif
