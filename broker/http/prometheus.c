#include "broker/http/prometheus.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/version.h"
#include "common/schema/stats.h"

// All of the daemon's list (broker/daemon/registry.h).
static const char *const states[] = {"queued", "starting", "running", "paused",     "finishing",
                                     "done",   "failed",   "stopped", "interrupted"};

struct writer {
    const struct sl_store *store;
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

// NAME{job="...",id="...": the caller adds labels and closes it.
static void open_named(struct sl_text *out, const char *name, const char *job, const char *id)
{
    sl_text_printf(out, "%s{", name);
    put_label(out, "job", job);
    sl_text_puts(out, ",");
    put_label(out, "id", id);
}

static void open_sample(struct sl_text *out, const char *name, const struct sl_store_job *job)
{
    open_named(out, name, job->name, job->key);
}

static void add_label(struct sl_text *out, const char *name, const char *value)
{
    sl_text_puts(out, ",");
    put_label(out, name, value ? value : "");
}

static void close_sample(struct sl_text *out, double value)
{
    sl_text_puts(out, "}");
    put_value(out, value);
}

// The next job that is told of from number *i on; NULL after the last one.
static const struct sl_store_job *next_job(const struct writer *w, uint32_t *i)
{
    while (*i < w->store->n_jobs) {
        const struct sl_store_job *job = &w->store->jobs[(*i)++];
        if (w->now_ns < job->at_ns || w->now_ns - job->at_ns < SL_STORE_FRESH_S * 1000000000ull)
            return job;
    }
    return NULL;
}

#define FOR_EACH_JOB(w, job)                                                                       \
    for (uint32_t job##_i_ = 0; job##_i_ == 0; job##_i_ = 1)                                       \
        for (const struct sl_store_job *job; (job = next_job((w), &job##_i_));)

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
            double value = sl_store_number(job->stats, f->path);
            if (isnan(value))
                continue;
            open_sample(w->out, f->family.name, job);
            close_sample(w->out, value);
        }
    }
}

// Also of jobs without statistics: those that wait, and those that ended long ago.
static void put_states(const struct writer *w)
{
    put_family(w->out, "gauge", "sluice_job_state", "1 for the state that the job is in.");
    for (uint32_t k = 0; k < w->store->n_states; k++) {
        const struct sl_store_state *job = &w->store->states[k];
        for (size_t i = 0; i < SL_COUNT_OF(states); i++) {
            open_named(w->out, "sluice_job_state", job->name, job->key);
            add_label(w->out, "state", states[i]);
            close_sample(w->out, strcmp(job->state, states[i]) == 0);
        }
    }
}

static void put_facts(const struct writer *w)
{
    put_family(w->out, "gauge", "sluice_job_info", "1; what the job is, in its labels.");
    FOR_EACH_JOB(w, job)
    {
        open_sample(w->out, "sluice_job_info", job);
        add_label(w->out, "updates", sl_store_string(job->stats, "updates.mode"));
        add_label(w->out, "cache_policy", sl_store_string(job->stats, "cache.policy"));
        close_sample(w->out, 1);
    }
    put_family(w->out, "gauge", "sluice_bottleneck", "1 for the role that limits the job now.");
    FOR_EACH_JOB(w, job)
    {
        static const char *const roles[] = {"samplers", "trainers", "memory", "updates", "none"};
        const char *role = sl_store_string(job->stats, "bottleneck_role");
        for (size_t i = 0; i < SL_COUNT_OF(roles); i++) {
            open_sample(w->out, "sluice_bottleneck", job);
            add_label(w->out, "role", roles[i]);
            close_sample(w->out, role && strcmp(role, roles[i]) == 0);
        }
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
            double value = sl_store_number(job->stats, table[f].value);
            if (isnan(value))
                continue;
            open_sample(w->out, table[f].family, job);
            add_label(w->out, "metric", sl_store_string(job->stats, "metric.name"));
            close_sample(w->out, value);
        }
    }
    put_family(w->out, "counter", "sluice_feature_bytes_total",
               "Bytes of feature rows gathered, by where they lay.");
    FOR_EACH_JOB(w, job)
    {
        open_sample(w->out, "sluice_feature_bytes_total", job);
        add_label(w->out, "tier", "cache");
        close_sample(w->out, sl_store_number(job->stats, "totals.hit_bytes"));
        open_sample(w->out, "sluice_feature_bytes_total", job);
        add_label(w->out, "tier", "store");
        close_sample(w->out, sl_store_number(job->stats, "totals.miss_bytes"));
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
                double value = sl_store_number(job->stats, path);
                if (isnan(value))
                    continue;
                open_sample(w->out, f->family.name, job);
                add_label(w->out, "stage", sl_stats_stage_names[i]);
                close_sample(w->out, value);
            }
        }
    }
}

// The buckets of one stage; counts are by bucket and become cumulative here.
static void put_histogram(const struct writer *w, const struct sl_store_job *job, const char *stage)
{
    static const char name[] = "sluice_stage_duration_seconds";
    const cJSON *all = cJSON_GetObjectItemCaseSensitive(job->stats, "histograms");
    const cJSON *le = cJSON_GetObjectItemCaseSensitive(all, "le");
    const cJSON *histogram = cJSON_GetObjectItemCaseSensitive(all, stage);
    const cJSON *counts = cJSON_GetObjectItemCaseSensitive(histogram, "counts");
    const cJSON *bound = le ? le->child : NULL;
    double sum = sl_store_number(histogram, "sum"), count = 0;
    if (!cJSON_IsArray(counts) || isnan(sum))
        return;
    for (const cJSON *c = counts->child; c; c = c->next) {
        struct sl_text text = {0};
        count += c->valuedouble;
        if (!c->next || !bound || !cJSON_IsNumber(bound))
            continue; // the last one is +Inf and comes below
        sl_text_json_number(&text, bound->valuedouble);
        bound = bound->next;
        open_sample(w->out, "sluice_stage_duration_seconds_bucket", job);
        add_label(w->out, "stage", stage);
        add_label(w->out, "le", text.s);
        close_sample(w->out, count);
        sl_text_fini(&text);
    }
    open_sample(w->out, "sluice_stage_duration_seconds_bucket", job);
    add_label(w->out, "stage", stage);
    add_label(w->out, "le", "+Inf");
    close_sample(w->out, count);
    for (int i = 0; i < 2; i++) {
        char part[64];
        snprintf(part, sizeof part, "%s_%s", name, i ? "count" : "sum");
        open_sample(w->out, part, job);
        add_label(w->out, "stage", stage);
        close_sample(w->out, i ? count : sum);
    }
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

static void put_member_label(struct sl_text *out, const cJSON *object, const char *member,
                             const char *label)
{
    char number[32];
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, member);
    if (cJSON_IsNumber(item)) {
        snprintf(number, sizeof number, "%.0f", item->valuedouble);
        add_label(out, label, number);
    } else {
        add_label(out, label, cJSON_GetStringValue(item));
    }
}

// Objects of a list of the line, and the members that tell them apart: labels of their samples.
struct members {
    const char *list;
    const struct sl_fields *record;
    const char *labels[3][2];
};

static double value_of(const cJSON *object, const struct sl_field *f,
                       const struct sl_store_job *job)
{
    if (f)
        return sl_store_number(object, f->path);
    const char *state = sl_store_string(object, "state");
    return !job->over && state && strcmp(state, "gone") != 0;
}

// One sample for each object; without a field, whether it is a worker that lives.
static void put_members(const struct writer *w, const struct members *m, const char *family,
                        const struct sl_field *f)
{
    const cJSON *object;
    FOR_EACH_JOB(w, job)
    {
        cJSON_ArrayForEach(object, cJSON_GetObjectItemCaseSensitive(job->stats, m->list))
        {
            double value = value_of(object, f, job);
            if (isnan(value))
                continue;
            open_sample(w->out, family, job);
            for (size_t i = 0; i < SL_COUNT_OF(m->labels); i++)
                put_member_label(w->out, object, m->labels[i][0], m->labels[i][1]);
            close_sample(w->out, value);
        }
    }
}

static void put_workers_and_devices(const struct writer *w)
{
    static const struct members lists[] = {
        {"workers",
         &sl_stats_worker_fields,
         {{"name", "worker"}, {"role", "role"}, {"device", "device"}}},
        {"devices",
         &sl_stats_device_fields,
         {{"index", "device"}, {"kind", "kind"}, {"name", "name"}}},
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
    put_family(out, "gauge", "sluice_build_info", "1; the version, in its labels.");
    sl_text_puts(out, "sluice_build_info{version=\"" SL_VERSION "\"} 1\n");
    put_family(out, "counter", "sluice_http_requests_total", "Requests answered by this server.");
    sl_text_printf(out, "sluice_http_requests_total %" PRIu64 "\n", server->requests);
    put_family(out, "counter", "sluice_http_refused_total",
               "Requests refused for their origin, token or size.");
    sl_text_printf(out, "sluice_http_refused_total %" PRIu64 "\n", server->refused);
    put_family(out, "gauge", "sluice_http_connections", "Open connections to this server.");
    sl_text_printf(out, "sluice_http_connections %" PRIu32 "\n", server->connections);
    put_family(out, "gauge", "sluice_http_open_requests",
               "Requests that are not answered yet, this one and event streams among them.");
    sl_text_printf(out, "sluice_http_open_requests %" PRIu32 "\n", server->open);
    put_family(out, "gauge", "sluice_http_streams", "Open event streams.");
    sl_text_printf(out, "sluice_http_streams %" PRIu32 "\n", server->streams);
}

void sl_prometheus_write(const struct sl_store *store, uint64_t now_ns,
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
    put_workers_and_devices(&w);
}
