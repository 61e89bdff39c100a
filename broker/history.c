#include "broker/history.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/json.h"

// The lists of struct sl_report by the names that they have here.
static const struct {
    const char *key;
    size_t at;
} lists[] = {
    {"epochs", offsetof(struct sl_report, epochs)},
    {"allocations", offsetof(struct sl_report, allocations)},
    {"scales", offsetof(struct sl_report, scales)},
    {"restarts", offsetof(struct sl_report, restarts)},
    {"resumes", offsetof(struct sl_report, resumes)},
};

static double whole(double x)
{
    return x >= 0 && x < 1e18 ? x : 0;
}

char *sl_history_write(const struct sl_report *r)
{
    cJSON *history = cJSON_CreateObject();
    for (size_t i = 0; i < SL_COUNT_OF(lists); i++) {
        cJSON *list = *(cJSON *const *)((const char *)r + lists[i].at);
        // Written at once and changed by nobody meanwhile: a reference will do.
        cJSON_AddItemReferenceToObject(history, lists[i].key, list);
    }
    cJSON *of = cJSON_AddObjectToObject(history, "sums");
#define WRITE(type, name) cJSON_AddNumberToObject(of, #name, (double)r->name);
    SL_REPORT_SUMS(WRITE)
    char *text = cJSON_PrintUnformatted(history);
    cJSON_Delete(history);
    return text;
}

int sl_history_read(struct sl_report *r, const cJSON *history)
{
    const cJSON *of = cJSON_GetObjectItemCaseSensitive(history, "sums");
    for (size_t i = 0; i < SL_COUNT_OF(lists); i++) {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(history, lists[i].key);
        cJSON **into = (cJSON **)((char *)r + lists[i].at);
        if (!cJSON_IsArray(list))
            return sl_fail(SL_EFORMAT, "the report so far: '%s' is no list", lists[i].key);
        cJSON *copy = cJSON_Duplicate(list, true);
        if (!copy)
            return sl_fail(SL_ENOMEM, "no memory for the report so far");
        cJSON_Delete(*into);
        *into = copy;
    }
#define TO_uint64_t(x)   (uint64_t) whole(x)
#define TO_uint32_t(x)   (uint32_t) whole(x)
#define TO_bool(x)       ((x) != 0)
#define TO_double(x)     (x)
#define READ(type, name) r->name = TO_##type(sl_json_number(of, #name));
    SL_REPORT_SUMS(READ)
    return SL_OK;
}

char *sl_history_metrics(const cJSON *history)
{
    const cJSON *epoch;
    char *all = strdup("");
    size_t n = 0;
    cJSON_ArrayForEach(epoch, cJSON_GetObjectItemCaseSensitive(history, "epochs"))
    {
        char *line = cJSON_PrintUnformatted(epoch);
        size_t more = line ? strlen(line) : 0;
        char *longer = line && all ? realloc(all, n + more + 2) : NULL;
        if (!longer) {
            free(line);
            free(all);
            return NULL;
        }
        all = longer;
        memcpy(all + n, line, more);
        memcpy(all + n + more, "\n", 2);
        n += more + 1;
        free(line);
    }
    return all;
}

void sl_history_add_resume(struct sl_report *r, uint64_t update, uint32_t epoch, uint32_t batch,
                           double seconds)
{
    cJSON *e = cJSON_CreateObject();
    cJSON_AddNumberToObject(e, "update", (double)update);
    cJSON_AddNumberToObject(e, "epoch", epoch);
    cJSON_AddNumberToObject(e, "batch", batch);
    cJSON_AddNumberToObject(e, "seconds_before", seconds);
    cJSON_AddItemToArray(r->resumes, e);
}
