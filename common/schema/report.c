#include "common/schema/report.h"

#include <stdlib.h>

#include "common/base/error.h"

#define OF_TOTALS(...)     SL_FIELD(sl_report_totals, __VA_ARGS__)
#define OF_EPOCH(...)      SL_FIELD(sl_report_epoch, __VA_ARGS__)
#define OF_STAGE(...)      SL_FIELD(sl_report_stage, __VA_ARGS__)
#define OF_ALLOCATION(...) SL_FIELD(sl_report_allocation, __VA_ARGS__)
#define OF_SCALE(...)      SL_FIELD(sl_report_scale, __VA_ARGS__)
#define OF_RESTART(...)    SL_FIELD(sl_report_restart, __VA_ARGS__)
#define OF_RESUME(...)     SL_FIELD(sl_report_resume, __VA_ARGS__)
#define OF_PROCESS(...)    SL_FIELD(sl_report_process, __VA_ARGS__)
#define OF_CACHE(...)      SL_FIELD(sl_report_cache, __VA_ARGS__)
#define OF_HELD(...)       SL_FIELD(sl_report_held, __VA_ARGS__)
#define OF_HELD_EDGES(...) SL_FIELD(sl_report_held_edges, __VA_ARGS__)

#define TABLE(name, ...)                                                                           \
    static const struct sl_field name##_list[] = {__VA_ARGS__};                                    \
    const struct sl_fields name = SL_FIELDS(name##_list);

// clang-format off
TABLE(sl_report_stage_fields, SL_REPORT_STAGE(OF_STAGE))
TABLE(sl_report_fields, SL_REPORT(OF_TOTALS, SL_MEMBER_NONE, SL_MEMBER_NONE, SL_FIELD_NULLABLE))
TABLE(sl_report_epoch_fields, SL_REPORT_EPOCH(OF_EPOCH, SL_MEMBER_NONE, SL_MEMBER_NONE))
TABLE(sl_report_allocation_fields, SL_REPORT_ALLOCATION(OF_ALLOCATION))
TABLE(sl_report_scale_fields, SL_REPORT_SCALE(OF_SCALE, SL_MEMBER_NONE, SL_MEMBER_NONE))
TABLE(sl_report_restart_fields, SL_REPORT_RESTART(OF_RESTART))
TABLE(sl_report_resume_fields, SL_REPORT_RESUME(OF_RESUME))
TABLE(sl_report_process_fields, SL_REPORT_PROCESS(OF_PROCESS))
TABLE(sl_report_cache_fields, SL_REPORT_CACHE(OF_CACHE))
TABLE(sl_report_held_fields, SL_REPORT_HELD(OF_HELD))
TABLE(sl_report_held_edges_fields, SL_REPORT_HELD_EDGES(OF_HELD_EDGES))
// clang-format on

int sl_read_report_init(struct sl_read_report *r, const cJSON *report)
{
    struct sl_report_epoch e;
    *r = (struct sl_read_report){0};
    sl_fields_read(&sl_report_fields, report, &r->of);
    r->epochs = calloc((size_t)cJSON_GetArraySize(r->of.epochs) + 1, sizeof *r->epochs);
    if (!r->epochs)
        return sl_fail(SL_ENOMEM, "no memory for a report");
    SL_FOR_EACH_ENTRY(e, sl_report_epoch_fields, r->of.epochs)
    {
        r->epochs[r->n_epochs++] = e;
    }
    r->last = r->n_epochs ? &r->epochs[r->n_epochs - 1] : NULL;
    return SL_OK;
}

void sl_read_report_fini(struct sl_read_report *r)
{
    free(r->epochs);
    *r = (struct sl_read_report){0};
}
