#include "broker/http/prometheus.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/json_print.h"
#include "common/base/version.h"
#include "common/schema/stats.h"
#include "common/text/json.h"
#include "common/schema/words.h"

struct writer {
    const struct sl_job_stats *store;
    uint64_t now_ns;
    struct sl_text *out;
};

// --- lines ---------------------------------------------------------------------------------------

static void put_family(struct sl_text *out, const char *type, const char *name, const char *help)
{
    sl_text_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_value(struct sl_text *out, double value)
{
    if (isnan(value))
        sl_text_puts(out, " NaN\n");
    else if (isinf(value))
        sl_text_puts(out, value > 0 ? " +Inf\n" : " -Inf\n");
    else {
        sl_text_puts(out, " ");
        sl_text_json_number(out, value);
        sl_text_puts(out, "\n");
    }
}

static void put_label(struct sl_text *out, const char *name, const char *value)
{
    sl_text_printf(out, "%s=\"", name);
    for (const char *c = value; *c; c++) {
        if (*c == '\n')
            sl_text_puts(out, "\\n");
        else if (*c == '"' || *c == '\\')
            sl_text_printf(out, "\\%c", *c);
        else
            sl_text_add(out, c, 1);
    }
    sl_text_puts(out, "\"");
}

// FAMILY{job="...",id="...",LABEL="..."} VALUE. Labels: names and texts, then NULL.
__attribute__((sentinel)) static void put_named(struct sl_text *out, const char *family,
                                                const char *job, const char *id, double value, ...)
{
    va_list labels;
    const char *label;
    sl_text_printf(out, "%s{", family);
    put_label(out, "job", job);
    sl_text_puts(out, ",");
    put_label(out, "id", id);
    va_start(labels, value);
    while ((label = va_arg(labels, const char *))) {
        sl_text_puts(out, ",");
        put_label(out, label, va_arg(labels, const char *));
    }
    va_end(labels);
    sl_text_puts(out, "}");
    put_value(out, value);
}

// The same of a job with statistics.
#define put_sample(w, family, job, ...)                                                            \
    put_named((w)->out, family, (job)->name, (job)->key, __VA_ARGS__, (const char *)NULL)

// The next job with metrics, from number *i on; NULL after the last one.
static const struct sl_job_stats_job *next_job(const struct writer *w, uint32_t *i)
{
    while (*i < w->store->n_jobs) {
        const struct sl_job_stats_job *job = &w->store->jobs[(*i)++];
        if (w->now_ns < job->at_ns || w->now_ns - job->at_ns < SL_JOB_STATS_FRESH_S * 1000000000ull)
            return job;
    }
    return NULL;
}

#define FOR_EACH_JOB(w, job)                                                                       \
    for (uint32_t job##_i_ = 0; job##_i_ == 0; job##_i_ = 1)                                       \
        for (const struct sl_job_stats_job *job; (job = next_job((w), &job##_i_));)

// --- families ------------------------------------------------------------------------------------

// Introduces the family of that number; NULL: there are not so many.
static const struct sl_field *put_fields_family(const struct writer *w, const struct sl_fields *r,
                                                unsigned number)
{
    const struct sl_field *f = sl_fields_family(r, number);
    if (f)
        put_family(w->out, f->family.type, f->family.name, f->family.help);
    return f;
}

static void put_job_families(const struct writer *w)
{
    const struct sl_field *f;
    for (unsigned n = 1; (f = put_fields_family(w, &sl_stats_fields, n)); n++) {
        FOR_EACH_JOB(w, job)
        {
            double value = sl_json_number(job->stats, f->path);
            if (!isnan(value))
                put_sample(w, f->family.name, job, value);
        }
    }
}

// Also of jobs without statistics: those that wait, and those that ended long ago.
static void put_states(const struct writer *w)
{
    put_family(w->out, "gauge", "sluice_job_state", "1 for the state that the job is in.");
    for (uint32_t k = 0; k < w->store->n_states; k++) {
        const struct sl_job_stats_state *job = &w->store->states[k];
        for (const char *const *state = sl_job_state_words; *state; state++)
            put_sample(w, "sluice_job_state", job, strcmp(job->state, *state) == 0, "state",
                       *state);
    }
}

static void put_facts(const struct writer *w)
{
    put_family(w->out, "gauge", "sluice_job_info", "1; what the job is, in its labels.");
    FOR_EACH_JOB(w, job)
    {
        put_sample(w, "sluice_job_info", job, 1, "updates",
                   sl_json_string(job->stats, "updates.mode"), "cache_policy",
                   sl_json_string(job->stats, "cache.policy"));
    }
    put_family(w->out, "gauge", "sluice_bottleneck", "1 for the role that limits the job now.");
    FOR_EACH_JOB(w, job)
    {
        const char *role = sl_json_string(job->stats, "bottleneck_role");
        for (const char *const *of = sl_bottleneck_words; *of; of++)
            put_sample(w, "sluice_bottleneck", job, strcmp(role, *of) == 0, "role", *of);
    }
}

static void put_metrics(const struct writer *w)
{
    static const struct {
        const char *family, *value, *help;
    } table[] = {
        {"sluice_validation_metric", "metric.value", "Newest result on the validation vertices."},
        {"sluice_validation_metric_best", "best.value", "Best result so far."},
    };
    for (size_t f = 0; f < SL_COUNT_OF(table); f++) {
        put_family(w->out, "gauge", table[f].family, table[f].help);
        FOR_EACH_JOB(w, job)
        {
            double value = sl_json_number(job->stats, table[f].value);
            if (!isnan(value))
                put_sample(w, table[f].family, job, value, "metric",
                           sl_json_string(job->stats, "metric.name"));
        }
    }
    put_family(w->out, "counter", "sluice_feature_bytes_total",
               "Bytes of feature rows gathered, by their source.");
    FOR_EACH_JOB(w, job)
    {
        put_sample(w, "sluice_feature_bytes_total", job,
                   sl_json_number(job->stats, "totals.hit_bytes"), "tier", "cache");
        put_sample(w, "sluice_feature_bytes_total", job,
                   sl_json_number(job->stats, "totals.matched_bytes"), "tier", "batch");
        put_sample(w, "sluice_feature_bytes_total", job,
                   sl_json_number(job->stats, "totals.miss_bytes"), "tier", "store");
    }
}

static void put_stage_families(const struct writer *w)
{
    const struct sl_field *f;
    char path[64];
    for (unsigned n = 1; (f = put_fields_family(w, &sl_stats_stage_fields, n)); n++) {
        FOR_EACH_JOB(w, job)
        {
            for (size_t i = 0; i < SL_LIVE_STAGES; i++) {
                snprintf(path, sizeof path, "stages.%s.%s", sl_stats_stage_names[i], f->path);
                double value = sl_json_number(job->stats, path);
                if (!isnan(value))
                    put_sample(w, f->family.name, job, value, "stage", sl_stats_stage_names[i]);
            }
        }
    }
}

// The buckets of one stage; counts are by bucket and become cumulative here.
static void put_histogram(const struct writer *w, const struct sl_job_stats_job *job,
                          const char *stage)
{
    const cJSON *all = sl_json_at(job->stats, "histograms"), *bounds = sl_json_at(all, "le");
    const cJSON *histogram = sl_json_at(all, stage), *counts = sl_json_at(histogram, "counts");
    const cJSON *bound = bounds ? bounds->child : NULL;
    double sum = sl_json_number(histogram, "sum"), count = 0;
    char le[SL_NUMBER_TEXT_BYTES];
    if (!cJSON_IsArray(counts) || isnan(sum))
        return;
    for (const cJSON *c = counts->child; c; c = c->next) {
        count += c->valuedouble;
        if (!c->next || !bound || !cJSON_IsNumber(bound))
            continue; // the last one is +Inf and comes below
        sl_number_text(bound->valuedouble, le);
        bound = bound->next;
        put_sample(w, "sluice_stage_duration_seconds_bucket", job, count, "stage", stage, "le", le);
    }
    put_sample(w, "sluice_stage_duration_seconds_bucket", job, count, "stage", stage, "le", "+Inf");
    put_sample(w, "sluice_stage_duration_seconds_sum", job, sum, "stage", stage);
    put_sample(w, "sluice_stage_duration_seconds_count", job, count, "stage", stage);
}

static void put_histograms(const struct writer *w)
{
    put_family(w->out, "histogram", "sluice_stage_duration_seconds",
               "Time that a stage took for one batch.");
    FOR_EACH_JOB(w, job)
    {
        for (size_t i = 0; i < SL_STATS_HISTOGRAMS; i++)
            put_histogram(w, job, sl_stats_stage_names[sl_stats_histograms[i]]);
    }
}

// Objects of a list of the line, and the members that tell them apart: labels of their samples.
struct members {
    const char *list;
    const struct sl_fields *record;
    const char *labels[3][2]; // the last ones may be left out
};

static const char *label_of(const cJSON *object, const char *member, char number[32])
{
    const cJSON *item = member ? sl_json_at(object, member) : NULL;
    if (!item)
        return "";
    if (!cJSON_IsNumber(item))
        return sl_json_string(object, member);
    snprintf(number, 32, "%.0f", item->valuedouble);
    return number;
}

static double value_of(const cJSON *object, const struct sl_field *f,
                       const struct sl_job_stats_job *job)
{
    const char *state = sl_json_string(object, "state");
    return f ? sl_json_number(object, f->path) : !job->over && *state && strcmp(state, "gone") != 0;
}

// One sample for each object; without a field, whether it is a worker that lives.
static void put_members(const struct writer *w, const struct members *m, const char *family,
                        const struct sl_field *f)
{
    const cJSON *object;
    char number[3][32];
    FOR_EACH_JOB(w, job)
    {
        cJSON_ArrayForEach(object, sl_json_at(job->stats, m->list))
        {
            double value = value_of(object, f, job);
#define LABEL(i) m->labels[i][1], label_of(object, m->labels[i][0], number[i])
            if (!isnan(value))
                put_sample(w, family, job, value, LABEL(0), LABEL(1), LABEL(2));
        }
    }
}

static void put_lists(const struct writer *w)
{
    static const struct members lists[] = {
        {"workers",
         &sl_stats_worker_fields,
         {{"name", "worker"}, {"role", "role"}, {"device", "device"}}},
        {"devices",
         &sl_stats_device_fields,
         {{"index", "device"}, {"kind", "kind"}, {"name", "name"}}},
        {"links",
         &sl_stats_link_fields,
         {{"kind", "kind"}, {"reader", "reader"}, {"from", "from"}}},
        {"nodes", &sl_stats_node_fields, {{"rank", "node"}, {"host", "host"}}},
        {"wires", &sl_stats_wire_fields, {{"node", "node"}, {"from", "from"}}},
        {"types", &sl_stats_type_fields, {{"name", "type"}}},
        {"relations",
         &sl_stats_relation_fields,
         {{"source", "source"}, {"name", "relation"}, {"target", "target"}}},
        {"held",
         &sl_stats_held_fields,
         {{"worker", "worker"}, {"device", "device"}, {"type", "type"}}},
    };
    const struct sl_field *f;
    put_family(w->out, "gauge", "sluice_worker_up", "Whether a worker's process lives.");
    put_members(w, &lists[0], "sluice_worker_up", NULL);
    for (size_t i = 0; i < SL_COUNT_OF(lists); i++)
        for (unsigned n = 1; (f = put_fields_family(w, lists[i].record, n)); n++)
            put_members(w, &lists[i], f->family.name, f);
}

static void put_server(const struct sl_prometheus_server *server, struct sl_text *out)
{
    const struct {
        const char *type, *name, *help;
        uint64_t value;
    } families[] = {
        {"counter", "sluice_http_requests_total", "Requests answered by this server.",
         server->requests},
        {"counter", "sluice_http_refused_total",
         "Requests refused for their origin, token or size.", server->refused},
        {"gauge", "sluice_http_connections", "Open connections to this server.",
         server->connections},
        {"gauge", "sluice_http_open_requests",
         "Requests that are not answered yet, this one and event streams among them.",
         server->open},
        {"gauge", "sluice_http_streams", "Open event streams.", server->streams},
    };
    put_family(out, "gauge", "sluice_build_info", "1; the version, in its labels.");
    sl_text_puts(out, "sluice_build_info{version=\"" SL_VERSION "\"} 1\n");
    for (size_t i = 0; i < SL_COUNT_OF(families); i++) {
        put_family(out, families[i].type, families[i].name, families[i].help);
        sl_text_printf(out, "%s %" PRIu64 "\n", families[i].name, families[i].value);
    }
}

void sl_prometheus_write(const struct sl_job_stats *store, uint64_t now_ns,
                         const struct sl_prometheus_server *server, struct sl_text *out)
{
    struct writer w = {.store = store, .now_ns = now_ns, .out = out};
    put_server(server, out);
    put_states(&w);
    put_facts(&w);
    put_job_families(&w);
    put_metrics(&w);
    put_stage_families(&w);
    put_histograms(&w);
    put_lists(&w);
}
