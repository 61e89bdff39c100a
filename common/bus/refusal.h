// refusal.h - counts refused messages by reason, and logs them in at most one line a second.
#ifndef SL_BUS_REFUSAL_H
#define SL_BUS_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

enum sl_refusal {
    SL_REFUSAL_MALFORMED,
    SL_REFUSAL_OVERSIZED,
    SL_REFUSAL_FOREIGN,
    SL_REFUSAL_OTHER_VERSION,
    SL_REFUSAL_COUNT,
    SL_REFUSAL_NONE = SL_REFUSAL_COUNT, // the message is fine
};

// Zeroed at first.
struct sl_refusals {
    uint64_t total;
    uint64_t untold[SL_REFUSAL_COUNT];
    uint64_t told_ns; // when the last line was written; 0 = never
};

void sl_refusals_count(struct sl_refusals *r, enum sl_refusal why);

// Logs the refusals since the last line; at most one line a second, unless `now`.
void sl_refusals_log(struct sl_refusals *r, bool now);

#endif
