/*
 * pauses.h - when a job was paused, so that paused time does not count as training.
 *
 * Spans are of the monotonic clock. The newest SL_PAUSES_KEPT are kept, which is what a phase that
 * is being read can overlap; the total is of all.
 */
#ifndef SL_BROKER_EPOCHS_PAUSES_H
#define SL_BROKER_EPOCHS_PAUSES_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_PAUSES_KEPT = 64 };

// A span of monotonic time.
struct sl_span {
    uint64_t from_ns, to_ns;
};

static inline double sl_span_seconds(struct sl_span s)
{
    return s.to_ns > s.from_ns ? (double)(s.to_ns - s.from_ns) * 1e-9 : 0;
}

struct sl_pauses {
    struct sl_span last[SL_PAUSES_KEPT]; // ring; one that has not ended goes to UINT64_MAX
    uint64_t n;                          // ever
    uint64_t total_ns;                   // of those that have ended
};

void sl_pauses_begin(struct sl_pauses *p, uint64_t now_ns);
void sl_pauses_end(struct sl_pauses *p, uint64_t now_ns); // none has begun: nothing

// Whether the job is paused now.
static inline bool sl_pauses_is_open(const struct sl_pauses *p)
{
    return p->n > 0 && p->last[(p->n - 1) % SL_PAUSES_KEPT].to_ns == UINT64_MAX;
}

double sl_pauses_open_seconds(
    const struct sl_pauses *p); // since the one now began; 0: there is none
double sl_pauses_total_seconds(const struct sl_pauses *p); // of all, until now

// Of the span, what is paused. p may be NULL: none.
uint64_t sl_pauses_within_ns(const struct sl_pauses *p, struct sl_span span);

// The span's length without pauses.
static inline double sl_pauses_seconds_without(const struct sl_pauses *p, struct sl_span span)
{
    return sl_span_seconds(span) - (double)sl_pauses_within_ns(p, span) * 1e-9;
}

#endif
