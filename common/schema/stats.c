#include "common/schema/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/json.h"

const char *const sl_stats_stage_names[SL_LIVE_STAGES] = {
    "sample", "mark", "copy", "extract", "train", "evaluate", "wait", "backpressure",
};

const enum sl_live_stage sl_stats_histograms[SL_STATS_HISTOGRAMS] = {
    SL_LIVE_SAMPLE, SL_LIVE_EXTRACT, SL_LIVE_TRAIN, SL_LIVE_WAIT};

#define OF_LINE(...)     SL_FIELD(sl_stats, __VA_ARGS__)
#define OF_DEVICE(...)   SL_FIELD(sl_stats_device, __VA_ARGS__)
#define OF_WORKER(...)   SL_FIELD(sl_stats_worker, __VA_ARGS__)
#define OF_STAGE(...)    SL_FIELD(sl_stats_stage, __VA_ARGS__)
#define OF_LINK(...)     SL_FIELD(sl_stats_link, __VA_ARGS__)
#define OF_NODE(...)     SL_FIELD(sl_stats_node, __VA_ARGS__)
#define OF_WIRE(...)     SL_FIELD(sl_stats_wire, __VA_ARGS__)
#define OF_TYPE(...)     SL_FIELD(sl_stats_type, __VA_ARGS__)
#define OF_RELATION(...) SL_FIELD(sl_stats_relation, __VA_ARGS__)
#define OF_HELD(...)     SL_FIELD(sl_stats_held, __VA_ARGS__)

static const struct sl_field line_fields[] = {
    SL_STATS(OF_LINE, SL_MEMBER_NONE, SL_MEMBER_NONE, SL_FIELD_NULLABLE, SL_FIELD_BY_HAND)};
static const struct sl_field device_fields[] = {SL_STATS_DEVICE(OF_DEVICE, SL_FIELD_BY_HAND)};
static const struct sl_field worker_fields[] = {SL_STATS_WORKER(OF_WORKER)};
static const struct sl_field stage_fields[] = {SL_STATS_STAGE(OF_STAGE)};
static const struct sl_field link_fields[] = {SL_STATS_LINK(OF_LINK)};
static const struct sl_field node_fields[] = {SL_STATS_NODE(OF_NODE)};
static const struct sl_field node_totals[] = {SL_STATS_NODE_TOTALS(OF_NODE)};
static const struct sl_field wire_fields[] = {SL_STATS_WIRE(OF_WIRE)};
static const struct sl_field type_fields[] = {SL_STATS_TYPE(OF_TYPE)};
static const struct sl_field type_counts[] = {SL_STATS_TYPE_COUNTS(OF_TYPE)};
static const struct sl_field relation_fields[] = {SL_STATS_RELATION(OF_RELATION)};
static const struct sl_field held_fields[] = {SL_STATS_HELD(OF_HELD)};
static const struct sl_field relation_counts[] = {SL_STATS_RELATION_COUNTS(OF_RELATION)};

const struct sl_fields sl_stats_fields = SL_FIELDS(line_fields);
const struct sl_fields sl_stats_device_fields = SL_FIELDS(device_fields);
const struct sl_fields sl_stats_worker_fields = SL_FIELDS(worker_fields);
const struct sl_fields sl_stats_stage_fields = SL_FIELDS(stage_fields);
const struct sl_fields sl_stats_link_fields = SL_FIELDS(link_fields);
const struct sl_fields sl_stats_node_fields = SL_FIELDS(node_fields);
const struct sl_fields sl_stats_node_totals = SL_FIELDS(node_totals);
const struct sl_fields sl_stats_wire_fields = SL_FIELDS(wire_fields);
const struct sl_fields sl_stats_type_fields = SL_FIELDS(type_fields);
const struct sl_fields sl_stats_type_counts = SL_FIELDS(type_counts);
const struct sl_fields sl_stats_relation_fields = SL_FIELDS(relation_fields);
const struct sl_fields sl_stats_held_fields = SL_FIELDS(held_fields);
const struct sl_fields sl_stats_relation_counts = SL_FIELDS(relation_counts);

bool sl_stats_link_is_peer(const struct sl_stats_link *link)
{
    char own[16];
    snprintf(own, sizeof own, "%.0f", link->reader);
    return strcmp(link->from, "memory") != 0 && strcmp(link->from, own) != 0;
}

// --- reading -------------------------------------------------------------------------------------

static void join_roles(const cJSON *roles, char *out, size_t n)
{
    const cJSON *item;
    out[0] = '\0';
    cJSON_ArrayForEach(item, roles)
    {
        size_t used = strlen(out);
        if (cJSON_IsString(item))
            snprintf(out + used, n - used, "%s%s", used ? " + " : "", item->valuestring);
    }
}

// A list of the line as an array of records (owned), at most n_max of them. NULL: no memory.
static void *take_list(const cJSON *line, const char *key, const struct sl_fields *fields,
                       size_t record_bytes, size_t n_max, size_t *n)
{
    const cJSON *list = sl_json_at(line, key), *item;
    const size_t wanted = SL_MIN((size_t)cJSON_GetArraySize(list), n_max);
    char *records = calloc(wanted + 1, record_bytes);
    *n = 0;
    cJSON_ArrayForEach(item, list)
    {
        if (records && *n < wanted)
            sl_fields_read(fields, item, records + (*n)++ * record_bytes);
    }
    return records;
}

#define TAKE_LIST(s, line, list, fields, n_max)                                                    \
    (s)->list = take_list((line), #list, &(fields), sizeof *(s)->list, (n_max), &(s)->n_##list)

static int take_lists(const cJSON *line, struct sl_stats *s)
{
    const cJSON *item;
    size_t i = 0;
    TAKE_LIST(s, line, devices, sl_stats_device_fields, SL_STATS_DEVICES_MAX);
    TAKE_LIST(s, line, workers, sl_stats_worker_fields, SL_STATS_WORKERS_MAX);
    TAKE_LIST(s, line, links, sl_stats_link_fields, SL_STATS_LINKS_MAX);
    TAKE_LIST(s, line, nodes, sl_stats_node_fields, SL_STATS_NODES_MAX);
    TAKE_LIST(s, line, wires, sl_stats_wire_fields, SL_STATS_WIRES_MAX);
    TAKE_LIST(s, line, types, sl_stats_type_fields, SL_STATS_TYPES_MAX);
    TAKE_LIST(s, line, relations, sl_stats_relation_fields, SL_STATS_RELATIONS_MAX);
    TAKE_LIST(s, line, held, sl_stats_held_fields, SL_STATS_HELD_MAX);
    if (!s->devices || !s->workers || !s->links || !s->nodes || !s->wires || !s->types ||
        !s->relations || !s->held)
        return sl_fail(SL_ENOMEM, "no memory for %d workers in a view",
                       cJSON_GetArraySize(sl_json_at(line, "workers")));
    cJSON_ArrayForEach(item, sl_json_at(line, "devices"))
    {
        if (i < s->n_devices)
            join_roles(sl_json_at(item, "roles"), s->devices[i].roles, sizeof s->devices[i].roles);
        i++;
    }
    return SL_OK;
}

static size_t take_numbers(const cJSON *array, double *out, size_t n_max)
{
    const cJSON *item;
    size_t n = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (n < n_max)
            out[n++] = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
    return n;
}

static void take_histograms(const cJSON *from, struct sl_stats *s)
{
    for (int h = 0; h < SL_STATS_HISTOGRAMS; h++) {
        const cJSON *one = sl_json_at(from, sl_stats_stage_names[sl_stats_histograms[h]]);
        size_t n = take_numbers(sl_json_at(one, "counts"), s->counts[h], SL_STATS_BUCKETS_MAX);
        s->n_buckets = SL_MAX(s->n_buckets, n);
    }
    size_t edges = take_numbers(sl_json_at(from, "le"), s->le, SL_STATS_BUCKETS_MAX);
    for (size_t i = edges; i < SL_STATS_BUCKETS_MAX; i++)
        s->le[i] = INFINITY;
}

int sl_stats_take(cJSON *line, struct sl_stats *out)
{
    const cJSON *stages = sl_json_at(line, "stages");
    *out = (struct sl_stats){.line = line};
    sl_fields_read(&sl_stats_fields, line, out);
    if (!*out->metric.title) // of an older daemon
        out->metric.title = out->metric.name;
    for (int i = 0; i < SL_LIVE_STAGES; i++)
        sl_fields_read(&sl_stats_stage_fields, sl_json_at(stages, sl_stats_stage_names[i]),
                       &out->stages[i]);
    take_histograms(sl_json_at(line, "histograms"), out);
    int rc = take_lists(line, out);
    if (rc != SL_OK)
        sl_stats_fini(out);
    return rc;
}

void sl_stats_fini(struct sl_stats *s)
{
    cJSON_Delete(s->line);
    free(s->devices);
    free(s->workers);
    free(s->links);
    free(s->nodes);
    free(s->wires);
    free(s->types);
    free(s->relations);
    free(s->held);
    *s = (struct sl_stats){0};
}
