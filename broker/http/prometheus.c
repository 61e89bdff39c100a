#include "broker/http/prometheus.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/version.h"

/*
 * Families with one sample a job: X(type, name, path in sluice.stats/1, help).
 */
#define JOB_FAMILIES(X)                                                                            \
    X(gauge, "sluice_job_epoch", "epoch", "Epoch the job is in, from 0.")                          \
    X(gauge, "sluice_job_epochs", "epochs", "Epochs the job has in all.")                          \
    X(gauge, "sluice_phase_cells_done", "done", "Batches of the present phase that are done.")     \
    X(gauge, "sluice_phase_cells", "total", "Batches of the present phase.")                       \
    X(gauge, "sluice_job_running_seconds", "seconds", "Seconds since the job began.")              \
    X(gauge, "sluice_job_left_seconds", "seconds_left",                                            \
      "Seconds until the job is expected to end.")                                                 \
    X(gauge, "sluice_loss", "loss", "Mean training loss of this epoch so far.")                    \
    X(gauge, "sluice_samplers", "samplers", "Sampler processes.")                                  \
    X(gauge, "sluice_trainers", "trainers", "Trainer processes, standby trainers left out.")       \
    X(gauge, "sluice_standby_trainers", "standby.there", "Standby trainers on sampler devices.")   \
    X(gauge, "sluice_standby_trainers_awake", "standby.awake", "Standby trainers that train now.") \
    X(gauge, "sluice_queue_batches", "queue.batches", "Batches that lie ready in the queue.")      \
    X(gauge, "sluice_queue_bytes", "queue.bytes", "Bytes of the batches that lie ready.")          \
    X(gauge, "sluice_queue_sampling_batches", "queue.sampling", "Batches being sampled.")          \
    X(gauge, "sluice_queue_training_batches", "queue.training", "Batches being trained on.")       \
    X(gauge, "sluice_arena_used_bytes", "queue.used_bytes", "Bytes of the arena that are taken.")  \
    X(gauge, "sluice_arena_capacity_bytes", "queue.capacity_bytes",                                \
      "Bytes of the arena for blocks.")                                                            \
    X(gauge, "sluice_cache_hit_ratio", "cache.hit_rate",                                           \
      "Share of input rows found in a cache, over the last seconds.")                              \
    X(gauge, "sluice_parameters_version", "updates.version", "Version of the parameters.")         \
    X(gauge, "sluice_staleness_mean_updates", "updates.staleness_mean",                            \
      "Mean number of updates that a gradient fell behind.")                                       \
    X(gauge, "sluice_staleness_max_updates", "updates.staleness_max",                              \
      "Most updates that a gradient fell behind.")                                                 \
    X(gauge, "sluice_memory_used_bytes", "memory.used", "Memory of the job's processes.")          \
    X(gauge, "sluice_memory_peak_bytes", "memory.peak", "Most memory of the job's processes.")     \
    X(gauge, "sluice_memory_limit_bytes", "memory.limit", "Memory the job may use.")               \
    X(gauge, "sluice_cpu_load_cores", "cpu_load", "Cores that the job's processes keep busy.")     \
    X(counter, "sluice_batches_total", "totals.batches", "Batches trained on.")                    \
    X(counter, "sluice_edges_total", "totals.edges", "Edges sampled.")                             \
    X(counter, "sluice_input_nodes_total", "totals.input_nodes", "Input nodes of all batches.")    \
    X(counter, "sluice_cache_hits_total", "totals.cache_hits", "Input rows found in a cache.")     \
    X(counter, "sluice_cache_misses_total", "totals.cache_misses",                                 \
      "Input rows read from the store.")                                                           \
    X(counter, "sluice_block_bytes_total", "totals.block_bytes", "Bytes of sampled blocks.")       \
    X(counter, "sluice_updates_total", "totals.updates", "Updates of the parameters.")             \
    X(counter, "sluice_epochs_total", "totals.epochs", "Epochs that are complete.")                \
    X(counter, "sluice_switches_total", "totals.switches", "Times a standby trainer was woken.")   \
    X(counter, "sluice_resampled_total", "totals.resampled", "Batches drawn again after a death.") \
    X(counter, "sluice_retrained_total", "totals.retrained",                                       \
      "Batches trained again after a death.")                                                      \
    X(counter, "sluice_evicted_total", "totals.evicted", "Ready batches given up for memory.")     \
    X(counter, "sluice_restarts_total", "totals.restarts", "Workers that died and were replaced.") \
    X(counter, "sluice_checkpoints_total", "totals.checkpoints", "Checkpoints written.")

static const struct job_family {
    const char *type, *name, *path, *help;
} job_families[] = {
#define JOB_FAMILY(type, name, path, help) {#type, name, path, help},
    JOB_FAMILIES(JOB_FAMILY)
#undef JOB_FAMILY
};

// Families with one sample for each of a job's workers and devices: members of the list's objects.
struct member_family {
    const char *type, *name, *member, *help;
};

static const struct member_family worker_families[] = {
    {"gauge", "sluice_worker_busy_ratio", "busy", "Share of the last seconds a worker worked."},
    {"gauge", "sluice_worker_wait_ratio", "wait", "Share of the last seconds a worker waited."},
    {"gauge", "sluice_worker_memory_bytes", "memory", "Memory of a worker's process."},
    {"counter", "sluice_worker_batches_total", "batches", "Batches that a worker has done."},
    {"counter", "sluice_worker_restarts_total", "restarts", "Times a worker was replaced."},
};

static const struct member_family device_families[] = {
    {"gauge", "sluice_device_memory_bytes", "memory_used", "Memory the job uses on a device."},
    {"gauge", "sluice_device_memory_budget_bytes", "memory_budget", "Memory a device may use."},
    {"gauge", "sluice_device_gpu_memory_used_bytes", "gpu_memory_used",
     "Memory in use on a device's GPU, by whomever."},
    {"gauge", "sluice_device_gpu_memory_bytes", "gpu_memory_total", "Memory of a device's GPU."},
    {"gauge", "sluice_device_cpu_load_ratio", "cpu_load", "Share of a device's cores in use."},
    {"gauge", "sluice_device_gpu_load_ratio", "gpu_load",
     "Share of the last second in which a device's GPU ran a kernel, of whomever."},
    {"gauge", "sluice_device_gpu_memory_load_ratio", "gpu_memory_load",
     "Share of the last second in which a device's GPU read or wrote its memory."},
};

static const char *const stages[] = {"sample", "mark",     "copy", "extract",
                                     "train",  "evaluate", "wait", "backpressure"};
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

static void put_job_families(const struct writer *w)
{
    for (size_t f = 0; f < SL_COUNT_OF(job_families); f++) {
        const struct job_family *family = &job_families[f];
        put_family(w->out, family->type, family->name, family->help);
        FOR_EACH_JOB(w, job)
        {
            double value = sl_store_number(job->stats, family->path);
            if (isnan(value))
                continue;
            open_sample(w->out, family->name, job);
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

static void put_stage_family(const struct writer *w, const char *type, const char *name,
                             const char *member, const char *help)
{
    char path[64];
    put_family(w->out, type, name, help);
    FOR_EACH_JOB(w, job)
    {
        for (size_t i = 0; i < SL_COUNT_OF(stages); i++) {
            snprintf(path, sizeof path, "stages.%s.%s", stages[i], member);
            double value = sl_store_number(job->stats, path);
            if (isnan(value))
                continue;
            open_sample(w->out, name, job);
            add_label(w->out, "stage", stages[i]);
            close_sample(w->out, value);
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

static void put_stages(const struct writer *w)
{
    static const char *const measured[] = {"sample", "extract", "train", "wait"};
    put_stage_family(w, "gauge", "sluice_stage_busy_ratio", "busy",
                     "Share of its role's time that a stage took over the last seconds.");
    put_stage_family(w, "counter", "sluice_stage_seconds_total", "seconds",
                     "Seconds that a stage took, over all workers.");
    put_stage_family(w, "counter", "sluice_stage_operations_total", "count",
                     "Times that a stage was gone through.");
    put_family(w->out, "histogram", "sluice_stage_duration_seconds",
               "Time that a stage took for one batch.");
    FOR_EACH_JOB(w, job)
    {
        for (size_t i = 0; i < SL_COUNT_OF(measured); i++)
            put_histogram(w, job, measured[i]);
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

// One sample for each object of the list; `member` "up" is made from the worker's state.
static void put_members(const struct writer *w, const struct member_family *family,
                        const char *list, const char *const labels[][2], size_t n_labels)
{
    const cJSON *object;
    put_family(w->out, family->type, family->name, family->help);
    FOR_EACH_JOB(w, job)
    {
        const cJSON *objects = cJSON_GetObjectItemCaseSensitive(job->stats, list);
        cJSON_ArrayForEach(object, objects)
        {
            double value = sl_store_number(object, family->member);
            if (strcmp(family->member, "up") == 0) {
                const char *state = sl_store_string(object, "state");
                value = !job->over && state && strcmp(state, "gone") != 0;
            }
            if (isnan(value))
                continue;
            open_sample(w->out, family->name, job);
            for (size_t i = 0; i < n_labels; i++)
                put_member_label(w->out, object, labels[i][0], labels[i][1]);
            close_sample(w->out, value);
        }
    }
}

static void put_workers_and_devices(const struct writer *w)
{
    static const struct member_family up = {"gauge", "sluice_worker_up", "up",
                                            "Whether a worker's process lives."};
    static const char *const of_worker[][2] = {
        {"name", "worker"}, {"role", "role"}, {"device", "device"}};
    static const char *const of_device[][2] = {
        {"index", "device"}, {"kind", "kind"}, {"name", "name"}};
    put_members(w, &up, "workers", of_worker, SL_COUNT_OF(of_worker));
    for (size_t i = 0; i < SL_COUNT_OF(worker_families); i++)
        put_members(w, &worker_families[i], "workers", of_worker, SL_COUNT_OF(of_worker));
    for (size_t i = 0; i < SL_COUNT_OF(device_families); i++)
        put_members(w, &device_families[i], "devices", of_device, SL_COUNT_OF(of_device));
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
    put_stages(&w);
    put_workers_and_devices(&w);
}
