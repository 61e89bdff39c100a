#include "broker/history.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

// The lists and sums of struct sl_report by the names that they have here.
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

enum kind { U64, U32, F64, FLAG };
static const struct {
    const char *key;
    enum kind kind;
    size_t at;
} sums[] = {
    {"allocations_left_out", U64, offsetof(struct sl_report, allocations_left_out)},
    {"scales_left_out", U64, offsetof(struct sl_report, scales_left_out)},
    {"restarts_left_out", U64, offsetof(struct sl_report, restarts_left_out)},
    {"resampled", U64, offsetof(struct sl_report, resampled)},
    {"retrained", U64, offsetof(struct sl_report, retrained)},
    {"evicted", U64, offsetof(struct sl_report, evicted)},
    {"unranked", U32, offsetof(struct sl_report, n_unranked)},
    {"ranked", U32, offsetof(struct sl_report, n_ranked)},
    {"unranked_seconds", F64, offsetof(struct sl_report, unranked_seconds)},
    {"ranked_seconds", F64, offsetof(struct sl_report, ranked_seconds)},
    {"hits", U64, offsetof(struct sl_report, hits)},
    {"misses", U64, offsetof(struct sl_report, misses)},
    {"has_optimal", FLAG, offsetof(struct sl_report, has_optimal)},
    {"optimal_hit_rate", F64, offsetof(struct sl_report, optimal_hit_rate)},
    {"switches", U64, offsetof(struct sl_report, switches)},
    {"standby_batches", U64, offsetof(struct sl_report, standby_batches)},
    {"has_saved", FLAG, offsetof(struct sl_report, has_saved)},
    {"seconds_saved", F64, offsetof(struct sl_report, seconds_saved)},
};

static double get(const struct sl_report *r, size_t i)
{
    const void *at = (const char *)r + sums[i].at;
    switch (sums[i].kind) {
    case U64: return (double)*(const uint64_t *)at;
    case U32: return *(const uint32_t *)at;
    case FLAG: return *(const bool *)at;
    case F64: break;
    }
    return *(const double *)at;
}

static void set(struct sl_report *r, size_t i, double value)
{
    void *at = (char *)r + sums[i].at;
    bool count = value >= 0 && value < 1e18;
    switch (sums[i].kind) {
    case U64: *(uint64_t *)at = count ? (uint64_t)value : 0; return;
    case U32: *(uint32_t *)at = count ? (uint32_t)value : 0; return;
    case FLAG: *(bool *)at = value != 0; return;
    case F64: *(double *)at = value; return;
    }
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
    for (size_t i = 0; i < SL_COUNT_OF(sums); i++)
        cJSON_AddNumberToObject(of, sums[i].key, get(r, i));
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
    for (size_t i = 0; i < SL_COUNT_OF(sums); i++) {
        const cJSON *sum = cJSON_GetObjectItemCaseSensitive(of, sums[i].key);
        set(r, i, cJSON_IsNumber(sum) ? sum->valuedouble : NAN);
    }
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

double sl_history_seconds_before(const cJSON *resumes)
{
    // The newest is of all runs before it, as far as they were kept.
    const cJSON *last = cJSON_GetArrayItem(resumes, cJSON_GetArraySize(resumes) - 1);
    const cJSON *seconds = cJSON_GetObjectItemCaseSensitive(last, "seconds_before");
    return cJSON_IsNumber(seconds) ? seconds->valuedouble : 0;
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
