#include "broker/rundir/history.h"

#include <stdlib.h>

#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/text/text.h"

char *sl_history_write(const struct sl_report *r)
{
    cJSON *history = cJSON_CreateObject();
    sl_fields_write(&sl_report_kept, r, history);
    char *text = sl_json_line(history);
    cJSON_Delete(history);
    return text;
}

// A list becomes the report's own, a number that cannot have been counted 0.
static int take_over(const struct sl_field *f, struct sl_report *r, const struct sl_report *from)
{
    void *into = (char *)r + f->at;
    if (f->type != SL_FIELD_TREE) {
        double x = sl_field_number(f, from);
        *(double *)into = f->type == SL_FIELD_REAL || (x >= 0 && x < 1e18) ? x : 0;
        return SL_OK;
    }
    cJSON *list = sl_field_tree(f, from);
    if (!cJSON_IsArray(list))
        return sl_fail(SL_EFORMAT, "the report so far: '%s' is no list", f->path);
    cJSON *copy = cJSON_Duplicate(list, true);
    if (!copy)
        return sl_fail(SL_ENOMEM, "no memory for the report so far");
    cJSON_Delete(*(cJSON **)into);
    *(cJSON **)into = copy;
    return SL_OK;
}

int sl_history_read(struct sl_report *r, const cJSON *history)
{
    struct sl_report from;
    sl_fields_read(&sl_report_kept, history, &from);
    for (size_t i = 0; i < sl_report_kept.n; i++)
        SL_TRY(take_over(&sl_report_kept.fields[i], r, &from));
    return SL_OK;
}

char *sl_history_metrics(const cJSON *history)
{
    const cJSON *epoch;
    struct sl_text all = {0};
    cJSON_ArrayForEach(epoch, cJSON_GetObjectItemCaseSensitive(history, "epochs"))
    {
        char *line = sl_json_line(epoch);
        all.failed = all.failed || !line;
        sl_text_printf(&all, "%s\n", line ? line : "");
        free(line);
    }
    return sl_text_take(&all);
}
