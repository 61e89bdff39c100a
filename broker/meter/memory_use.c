#include "broker/meter/memory_use.h"

#include <unistd.h>

#include "broker/workers/worker_pool.h"
#include "broker/meter/usage.h"
#include "common/base/bits.h"

void sl_memory_use_poll(struct sl_memory_use *m, struct sl_worker_pool *workers,
                        const struct sl_usage_shared *shared)
{
    struct sl_usage_total total = {0};
    struct sl_usage usage;
    if (sl_usage_read(getpid(), shared, &usage)) {
        sl_usage_add(&total, SL_USAGE_BROKER, &usage);
        m->broker_peak_bytes = SL_MAX(m->broker_peak_bytes, usage.peak_bytes);
    }
    for (uint32_t i = 0; i < workers->n; i++) {
        struct sl_pool_worker *w = &workers->list[i];
        m->worker_bytes[i] = 0;
        if (!w->alive || !sl_usage_read(w->pid, shared, &usage))
            continue;
        sl_usage_add(&total, w->role == SL_ROLE_SAMPLER ? SL_USAGE_SAMPLERS : SL_USAGE_TRAINERS,
                     &usage);
        m->worker_bytes[i] = usage.private_bytes;
        w->peak_rss_bytes = SL_MAX(w->peak_rss_bytes, usage.peak_bytes);
    }
    m->bytes = sl_usage_used(&total, shared);
    m->private_bytes = total.private_bytes;
    m->held_bytes = sl_usage_held(&total, shared);
    m->held_peak_bytes = SL_MAX(m->held_peak_bytes, m->held_bytes);
    m->peak_bytes = SL_MAX(m->peak_bytes, m->bytes);
}
