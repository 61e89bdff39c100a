#include "broker/epochs/pauses.h"

#include "common/base/bits.h"
#include "common/base/clock.h"

void sl_pauses_begin(struct sl_pauses *p, uint64_t now_ns)
{
    p->last[p->n++ % SL_PAUSES_KEPT] = (struct sl_span){now_ns, UINT64_MAX};
}

void sl_pauses_end(struct sl_pauses *p, uint64_t now_ns)
{
    struct sl_span *last = &p->last[(p->n - 1) % SL_PAUSES_KEPT];
    if (!sl_pauses_is_open(p))
        return;
    last->to_ns = now_ns;
    p->total_ns += now_ns - last->from_ns;
}

double sl_pauses_open_seconds(const struct sl_pauses *p)
{
    const struct sl_span *last = &p->last[(p->n - 1) % SL_PAUSES_KEPT];
    return sl_pauses_is_open(p) ? (double)(sl_now_ns() - last->from_ns) * 1e-9 : 0;
}

double sl_pauses_total_seconds(const struct sl_pauses *p)
{
    return (double)p->total_ns * 1e-9 + sl_pauses_open_seconds(p);
}

uint64_t sl_pauses_within_ns(const struct sl_pauses *p, struct sl_span span)
{
    uint64_t ns = 0;
    for (uint64_t i = 0; p && i < SL_MIN(p->n, (uint64_t)SL_PAUSES_KEPT); i++) {
        uint64_t from = SL_MAX(p->last[i].from_ns, span.from_ns);
        uint64_t to = SL_MIN(p->last[i].to_ns, span.to_ns);
        ns += to > from ? to - from : 0;
    }
    return ns;
}
