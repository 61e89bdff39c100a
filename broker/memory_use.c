#include "broker/memory_use.h"

#include <unistd.h>

#include "broker/supervise.h"
#include "broker/usage.h"
#include "common/base/bits.h"

void sl_memory_use_look(struct sl_memory_use *m, struct sl_crew *crew)
{
    struct sl_usage_total total = {0};
    struct sl_usage usage;
    if (sl_usage_read(getpid(), &usage)) {
        sl_usage_add(&total, &usage);
        m->broker_peak_bytes = SL_MAX(m->broker_peak_bytes, usage.peak_bytes);
    }
    for (uint32_t i = 0; i < crew->n; i++) {
        struct sl_member *member = &crew->members[i];
        m->member_bytes[i] = 0;
        if (!member->alive || !sl_usage_read(member->pid, &usage))
            continue;
        sl_usage_add(&total, &usage);
        m->member_bytes[i] = usage.anon_bytes;
        member->peak_rss_bytes = SL_MAX(member->peak_rss_bytes, usage.peak_bytes);
    }
    m->bytes = sl_usage_bytes(&total);
    m->private_bytes = total.anon_bytes;
    m->held_bytes = total.anon_bytes + total.shmem_bytes;
    m->held_peak_bytes = SL_MAX(m->held_peak_bytes, m->held_bytes);
    m->peak_bytes = SL_MAX(m->peak_bytes, m->bytes);
}
