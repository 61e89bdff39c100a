#include "broker/epochs/switches.h"

#include <stdio.h>

#include "broker/log/timeline.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/arena/seat.h"

enum { EVERY_MS = 10000 };

static void count(struct sl_switches *s, uint32_t epoch)
{
    uint64_t before = s->n;
    for (uint32_t d = 0; d < s->arena->h->spec.n_devices; d++) {
        uint64_t n = atomic_load(&sl_seat(s->arena, sl_seat_trainer(s->arena, d))->switches);
        // A seat counts anew when its worker dies.
        s->n += n < s->seen[d] ? n : n - s->seen[d];
        s->seen[d] = n;
    }
    if (before == 0 && s->n > 0) {
        s->since_ns = sl_now_ns();
        s->since_epoch = epoch;
    }
}

static void emit(struct sl_switches *s, uint32_t epoch, uint64_t all)
{
    uint64_t batches = all - s->batches_told;
    uint32_t first = SL_MIN(s->since_epoch, epoch);
    char when[48];
    if (first == epoch)
        snprintf(when, sizeof when, "epoch %u", epoch + 1);
    else
        snprintf(when, sizeof when, "epochs %u to %u", first + 1, epoch + 1);
    sl_timeline_emit_of(s->timeline, epoch, "switch", true,
                        "standby trainers were switched on %s in %s (%s)", SL_PLURAL(s->n, "time"),
                        when, SL_PLURAL(batches, "batch"));
    s->n = 0;
    s->batches_told = all;
    s->told_at_ns = sl_now_ns();
}

static bool is_long_ago(uint64_t ns)
{
    return sl_now_ns() - ns >= EVERY_MS * 1000000ull;
}

void sl_switches_watch(struct sl_switches *s, uint32_t epoch, uint64_t batches)
{
    count(s, epoch);
    if (s->n > 0 && is_long_ago(s->told_at_ns) && is_long_ago(s->since_ns))
        emit(s, epoch, batches);
}

void sl_switches_end_epoch(struct sl_switches *s, uint32_t epoch, uint64_t batches)
{
    count(s, epoch);
    // Those of the next epoch, which may have begun, wait for its end.
    if (s->n > 0 && s->since_epoch <= epoch && is_long_ago(s->told_at_ns))
        emit(s, epoch, batches);
}

void sl_switches_end(struct sl_switches *s, uint32_t epoch, uint64_t batches)
{
    if (!s->arena->base)
        return;
    count(s, epoch);
    if (s->n > 0)
        emit(s, epoch, batches);
}
