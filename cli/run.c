/*
 * run.c - `sluice run`: one job in the foreground.
 *
 * Everything that can be known before a process is started is checked here: the job file, the data
 * set, where the results go. Then the private broker is started (launch.h) and this process is its
 * client: it shows what the broker tells, hands Ctrl-C on, and ends with the job.
 *
 *   first SIGINT, SIGTERM, SIGHUP or   Stop: workers leave, a checkpoint and the report are
 *   SIGUSR1                            written
 *   second                             Stop with kill: workers are killed first
 *   third, or no answer in time        the broker is killed; its workers die with it
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/command.h"
#include "cli/dispatch.h"
#include "cli/job_check.h"
#include "cli/job_end.h"
#include "cli/trainer_subprocess.h"
#include "cli/output.h"
#include "broker/placement/budget.h"
#include "broker/scheduler/capacity.h"
#include "broker/workers/launch.h"
#include "broker/epochs/metrics.h"
#include "broker/sharding/gpus.h"
#include "broker/sharding/shard_preference.h"
#include "cli/run_summary.h"
#include "cli/run_view.h"
#include "cli/session.h"
#include "cli/store_view.h"
#include "nodes/launcher.h"
#include "common/text/units.h"
#include "broker/epochs/phases.h"
#include "broker/placement/placement.h"
#include "broker/rundir/rundir.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/memory.h"
#include "common/base/stopped.h"
#include "common/base/failpoint.h"
#include "common/data/expected_visits.h"
#include "common/bus/bus.h"
#include "common/storage/row_reader.h"

enum {
    STOP_MS = 8000,        // for the broker to answer a Stop
    KILL_MS = 1500,        // ... one with kill
    SAVE_MS = 120000,      // ... which says that it writes the last checkpoint
    LEAVE_MS = 3000,       // for the broker to end after its last word
    LOOK_MS = 200,         // between two looks at signals
    LAST_MESSAGE_MS = 300, // for a message of a dead broker to arrive
    STOPPED_LOOKS = 30,    // of several nodes, at a broker that was stopped: its link has done more
                           // than that, where it has one (link/loop.h)
};

struct run {
    struct sl_job_check check;
    int output; // enum sl_output
    const char *http, *http_token;
    bool http_open;
    char *dataset_record; // owned
    struct sl_launch broker;
    struct sl_session session; // with the broker; its end is seen by `broker`
    struct sl_run_view view;
    bool is_one_of_several; // processes that a launcher has started
    uint32_t rank;          // among them
    int signal_fd;
    int n_signals;
    bool stopped;                    // the broker was, and is killed
    uint64_t kill_at_ns;             // 0 = never
    Sl__Control__Envelope *finished; // Finished
};

// --- dry run -------------------------------------------------------------------------------------

enum { ROLES_BYTES = 2048 }; // of a pool all of them

static enum sl_duty duty_of(const struct sl_config *c, enum sl_role role, uint32_t device)
{
    const struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    return sl_placement_duty(split, c->n_devices, sl_placement_switches(c, device), role, device);
}

// "sampler 0, standby trainer 1"
static const char *roles_text(const struct sl_config *c, uint32_t shown, char out[ROLES_BYTES])
{
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t d = 0; d < c->n_devices; d++)
        for (enum sl_role role = SL_ROLE_SAMPLER; role < SL_ROLE_COUNT; role++) {
            const enum sl_duty duty = duty_of(c, role, d);
            if (sl_placement_shown(c, d) == shown && duty != SL_DUTY_NONE && n < ROLES_BYTES)
                n += (size_t)snprintf(out + n, ROLES_BYTES - n, "%s%s%s %u", n ? ", " : "",
                                      duty == SL_DUTY_STANDBY ? "standby " : "", sl_role_name(role),
                                      sl_placement_role_index(c->n_devices, role, d));
        }
    return out[0] ? out : "nothing";
}

static void add_role_devices(cJSON *to, const char *key, const struct sl_config *c,
                             enum sl_role role, enum sl_duty duty)
{
    cJSON *list = cJSON_AddArrayToObject(to, key);
    for (uint32_t shown = 0; shown < sl_placement_shown_devices(c); shown++) {
        bool has = false;
        for (uint32_t d = 0; d < c->n_devices; d++)
            has |= sl_placement_shown(c, d) == shown && duty_of(c, role, d) == duty;
        if (has)
            cJSON_AddItemToArray(list, cJSON_CreateNumber(shown));
    }
}

// Where features would be on this machine, now, and what of them the machine's cache would have.
struct store {
    enum sl_features features;
    enum sl_cache_policy policy;
    const char *why;                // "auto" became that policy, or NULL
    struct sl_row_cache_shape rows; // no slots: there is none
    double inputs, hit_rate;        // of a mini-batch, as sampling is expected to be; 0: not known
    double reads_per_s;             // of blocks, by the drive; 0: not measured
    double drive_seconds;           // that it takes for a mini-batch's other rows
    enum sl_store_way way;          // how GPUs get what no cache has
    struct sl_store_view view[SL_PEER_MEMORY_PLANNED]; // who holds what together
    struct sl_config config;                           // with what "auto" is here
};

static int goes_on(void *ctx, uint64_t n)
{
    (void)ctx;
    (void)n;
    return SL_OK;
}

// What the hottest vertices are to a mini-batch; only of uniform sampling something is known.
static int forecast(const struct sl_config *c, const struct sl_dataset *ds, struct store *out)
{
    const struct sl_visits_watch watch = {.on_vertices = goes_on};
    const struct sl_visits_sampling sampling = sl_config_sampling(c);
    if (!(sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_UNIFORM))
        return SL_OK;
    uint32_t *visits = malloc(SL_MAX(ds->n_nodes, (uint64_t)1) * sizeof *visits);
    if (!visits)
        return sl_fail(SL_ENOMEM, "no memory for the expected visits of the vertices");
    int rc = sl_visits_expect(ds, &sampling, &watch, visits);
    if (rc == SL_OK)
        rc = sl_visits_forecast(visits, ds->n_nodes,
                                sl_phases_batches(c, ds->split[SL_SPLIT_TRAIN].n),
                                out->rows.n_slots, &out->inputs, &out->hit_rate);
    free(visits);
    return rc;
}

// How long the drive takes for the rows that the cache does not have, as fast as it is right now.
static int measure_drive(const struct sl_dataset *ds, struct store *out)
{
    const struct sl_row_options options = {0};
    struct sl_row_reader *reader;
    SL_TRY(sl_row_reader_open(ds, &options, &reader));
    out->reads_per_s = sl_row_reader_profile(reader).reads_per_s;
    sl_row_reader_close(reader);
    // A row begins anywhere in a block.
    const double blocks = 1 + ((double)out->rows.row_bytes - 1) / SL_ROW_BLOCK_BYTES;
    if (out->reads_per_s > 0)
        out->drive_seconds = out->inputs * (1 - out->hit_rate) * blocks / out->reads_per_s;
    return SL_OK;
}

static bool reads_files(const struct sl_gpus *gpus, const struct sl_device_config *d)
{
    return d->index < gpus->report.n && gpus->report.gpu[d->index].maps_files;
}

// As the broker finds it once it knows what the arena and a step take.
static enum sl_store_way find_way(const struct sl_config *c, const struct sl_dataset *ds,
                                  uint64_t available)
{
    const struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    const struct sl_budget_need need = {.row_bytes = ds->feat_dim * sl_dtype_bytes(ds->feat_dtype),
                                        .n_nodes = ds->n_nodes};
    struct sl_shard_inputs q = {.cached = true,
                                .feature_bytes = sl_features_bytes(ds),
                                .available_bytes = available,
                                .spare_bytes = UINT64_MAX};
    bool files = true;
    for (uint32_t i = 0; i < c->n_devices; i++) {
        const struct sl_device_config *d = &c->devices[i];
        const enum sl_duty duty =
            sl_placement_duty(split, c->n_devices, sl_placement_switches(c, i), SL_ROLE_TRAINER, i);
        if (d->kind == SL_DEVICE_CPU || duty == SL_DUTY_NONE)
            continue;
        q.gpus = true;
        q.cached &= sl_budget_expects_all_rows(c, i, duty, &need, available);
        files = files && reads_files(sl_gpus_known(), d);
    }
    const enum sl_store_way way = sl_capacity_store_way(c, &q);
    return way == SL_STORE_WAY_COPY && files ? SL_STORE_WAY_FILE : way;
}

static int find_store(const struct run *r, struct store *out)
{
    struct sl_config c = r->check.config;
    const struct sl_dataset *ds = &r->check.dataset;
    uint64_t available = sl_device_memory_available();
    if (c.memory_bytes)
        available = SL_MIN(available, c.memory_bytes);
    sl_capacity_settle_store(&c, ds, available);
    struct sl_store_foreseen found;
    const bool foreseen = sl_store_foresees(&c, ds);
    if (foreseen)
        SL_TRY(sl_store_foresee(&c, ds, NULL, &found));
    sl_store_prefer(&c, ds, available, foreseen ? &found : NULL);
    *out = (struct store){.features = c.store.features,
                          .policy = c.cache.policy,
                          .why = c.cache.why,
                          .way = find_way(&c, ds, available),
                          .config = c};
    SL_TRY(sl_store_view_find(&out->config, ds, available, foreseen ? &found : NULL, out->view));
    SL_TRY(sl_capacity_rows(&c, ds->n_nodes, ds->feat_dim * sl_dtype_bytes(ds->feat_dtype),
                            available, &out->rows));
    if (!out->rows.n_slots)
        return SL_OK;
    SL_TRY(forecast(&c, ds, out));
    return measure_drive(ds, out);
}

static void print_rows(const struct store *s, uint64_t n_batches)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    if (!s->rows.n_slots)
        return;
    printf("cache       %s for %s of these rows, %.3g %%, in the memory of the machine",
           sl_units_bytes(a, sl_row_cache_bytes(&s->rows)), sl_units_grouped(b, s->rows.n_slots),
           100.0 * (double)s->rows.n_slots / (double)s->rows.n_rows);
    if (s->inputs > 0)
        printf("\n  a mini-batch has at most about %s input nodes (%s), of which the hottest rows "
               "there are about %.0f %%",
               sl_units_grouped(a, (uint64_t)s->inputs),
               sl_units_bytes(c, s->inputs * (double)s->rows.row_bytes), 100 * s->hit_rate);
    printf("\n");
    if (s->reads_per_s > 0)
        printf("drive       %s blocks of 4 KiB a second, measured now",
               sl_units_grouped(a, (uint64_t)s->reads_per_s));
    if (s->drive_seconds > 0)
        printf(": at most about %s for a mini-batch, %s an epoch, beside training",
               sl_units_seconds(b, s->drive_seconds),
               sl_units_seconds(c, s->drive_seconds * (double)n_batches));
    if (s->reads_per_s > 0)
        printf("\n");
}

static void print_plan_text(const struct run *r, const struct store *store, uint64_t n_params)
{
    const struct sl_config *c = &r->check.config;
    const struct sl_dataset *ds = &r->check.dataset;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], reason[192], device[512], roles[ROLES_BYTES];
    uint64_t n_train = ds->split[SL_SPLIT_TRAIN].n;
    printf("job         %s\n", c->name);
    printf("data set    %s: %s vertices, %s edges, %u features, %u classes\n", c->dataset,
           sl_units_grouped(a, ds->n_nodes), sl_units_grouped(b, ds->n_edges), ds->feat_dim,
           ds->n_classes);
    if (sl_config_is_external(c))
        printf("model       external: batches are for %s that attach\n",
               SL_PLURAL(c->allocation.trainers, "trainer"));
    else
        printf("model       %s, layers %u, hidden %u: %s parameters\n",
               sl_model_kind_name(c->model.kind), c->model.layers, c->model.hidden,
               sl_units_grouped(a, n_params));
    if (sl_config_is_endless(c))
        printf("epochs      until it is stopped, of %s mini-batches\n",
               sl_units_grouped(a, sl_phases_batches(c, n_train)));
    else if (sl_config_is_external(c))
        printf("epochs      %u of %s mini-batches\n", c->epochs,
               sl_units_grouped(a, sl_phases_batches(c, n_train)));
    else
        printf("epochs      %u of %s mini-batches, %s updates each\n", c->epochs,
               sl_units_grouped(a, sl_phases_batches(c, n_train)),
               sl_units_grouped(b, sl_phases_updates(c, n_train)));
    printf("split       %s, %s (%s)\n", SL_PLURAL(c->allocation.samplers, "sampler"),
           SL_PLURAL(c->allocation.trainers, "trainer"),
           sl_placement_reason(c, reason, sizeof reason));
    for (uint32_t i = 0; i < sl_placement_shown_devices(c); i++)
        printf("  %s: %s\n", sl_placement_device_text(c, i, device, sizeof device),
               roles_text(c, i, roles));
    printf("features    %s, %s\n", sl_units_bytes(a, sl_features_bytes(ds)),
           sl_features_kinds[store->features].drive ? "read from the drive"
                                                    : "mapped, in memory as far as there is room");
    sl_run_summary_way(stdout, "them", sl_store_ways[store->way].word,
                       sl_store_ways[store->way].why, (double)sl_features_bytes(ds), 0);
    printf("kept        %s%s%s\n", sl_cache_words[store->policy],
           store->why ? ", chosen automatically: " : "", store->why ? store->why : "");
    print_rows(store, sl_phases_batches(c, n_train));
    if (store->config.store.prefer_why && sl_config_gpus(c) > 0)
        printf("prefer      %s, chosen automatically: %s\n",
               sl_store_preference_words[store->config.store.prefer],
               store->config.store.prefer_why);
    for (int kind = 0; kind < SL_PEER_MEMORY_PLANNED; kind++)
        sl_store_view_print(&store->view[kind], stdout);
    if (!sl_config_is_external(c))
        printf("judged by   %s%s%s\n", sl_measure_name(r->check.judging.choice.measure),
               isnan(r->check.judging.choice.share) ? "" : ", chosen automatically: ",
               sl_measure_reason(&r->check.judging.choice, reason, sizeof reason));
    for (int i = 0; i < SL_SPLIT_COUNT; i++)
        if (*r->check.judging.warning[i])
            printf("  %s\n", r->check.judging.warning[i]);
    if (!sl_config_is_external(c))
        printf("precision   %s%s\n", sl_precision_words[sl_config_precision(c)],
               c->precision == SL_CONFIG_PRECISION_AUTO ? ", chosen automatically" : "");
    if (c->memory_bytes)
        printf("memory      at most %s for all processes, pages of files aside\n",
               sl_units_bytes(a, c->memory_bytes));
    else
        printf("memory      what there is: %s now\n",
               sl_units_bytes(a, sl_device_memory_available()));
    printf("output      %s\n\nNothing was started. '-o json' has this and the resolved job.\n",
           c->output);
}

static int print_plan_json(const struct run *r, const struct store *s, uint64_t n_params)
{
    const struct sl_config *c = &r->check.config;
    uint64_t n_train = r->check.dataset.split[SL_SPLIT_TRAIN].n;
    char reason[192];
    cJSON *plan = cJSON_CreateObject();
    cJSON_AddStringToObject(plan, "schema", "sluice.plan/1");
    char *resolved = sl_config_to_json(c);
    cJSON_AddItemToObject(plan, "config", cJSON_Parse(resolved));
    free(resolved);
    cJSON_AddNumberToObject(plan, "num_nodes", (double)r->check.dataset.n_nodes);
    cJSON_AddNumberToObject(plan, "num_edges", (double)r->check.dataset.n_edges);
    cJSON_AddNumberToObject(plan, "num_params", (double)n_params);
    cJSON_AddNumberToObject(plan, "batches_per_epoch", (double)sl_phases_batches(c, n_train));
    cJSON_AddNumberToObject(plan, "updates_per_epoch", (double)sl_phases_updates(c, n_train));
    if (*r->check.epochs_note)
        cJSON_AddStringToObject(plan, "epochs_reason", r->check.epochs_note);
    cJSON *precision = cJSON_AddObjectToObject(plan, "precision");
    cJSON_AddStringToObject(precision, "asked", sl_precision_words[c->precision]);
    cJSON_AddStringToObject(precision, "used", sl_precision_words[sl_config_precision(c)]);
    cJSON *cache = cJSON_AddObjectToObject(plan, "cache");
    cJSON_AddStringToObject(cache, "policy", sl_cache_words[s->policy]);
    if (s->why)
        cJSON_AddStringToObject(cache, "why", s->why);
    cJSON *store = cJSON_AddObjectToObject(plan, "store");
    cJSON_AddStringToObject(store, "features", sl_features_kinds[s->features].word);
    cJSON_AddNumberToObject(store, "feature_bytes", (double)sl_features_bytes(&r->check.dataset));
    if (s->way != SL_STORE_WAY_NONE) {
        cJSON_AddStringToObject(store, "gpu_way", sl_store_ways[s->way].word);
        cJSON_AddStringToObject(store, "gpu_reason", sl_store_ways[s->way].why);
    }
    cJSON_AddNumberToObject(store, "cache_rows", (double)s->rows.n_slots);
    cJSON_AddNumberToObject(store, "cache_bytes", (double)sl_row_cache_bytes(&s->rows));
    cJSON_AddNumberToObject(store, "reads_per_second", s->reads_per_s);
    cJSON_AddNumberToObject(store, "drive_seconds", s->drive_seconds);
    cJSON_AddNumberToObject(store, "input_nodes", s->inputs);
    cJSON_AddNumberToObject(store, "hit_rate", s->hit_rate);
    cJSON_AddStringToObject(store, "prefer", sl_store_preference_words[s->config.store.prefer]);
    if (s->config.store.prefer_why)
        cJSON_AddStringToObject(store, "prefer_reason", s->config.store.prefer_why);
    sl_store_view_add(&s->view[SL_PEER_MEMORY_FEATURES], store);
    if (s->view[SL_PEER_MEMORY_GRAPH].shown)
        sl_store_view_add(&s->view[SL_PEER_MEMORY_GRAPH], cJSON_AddObjectToObject(store, "graph"));
    cJSON *split = cJSON_AddObjectToObject(plan, "allocation");
    cJSON_AddStringToObject(split, "reason", sl_placement_reason(c, reason, sizeof reason));
    add_role_devices(split, "sampler_devices", c, SL_ROLE_SAMPLER, SL_DUTY_WORK);
    add_role_devices(split, "trainer_devices", c, SL_ROLE_TRAINER, SL_DUTY_WORK);
    add_role_devices(split, "standby_devices", c, SL_ROLE_TRAINER, SL_DUTY_STANDBY);
    return sl_output_json_pages(plan, "the plan");
}

// The trainer says what the model is, as before the first epoch of a job.
static int count_params(const struct run *r, uint64_t *n)
{
    struct sl_params params = {0};
    char *job = NULL;
    if (sl_config_is_external(&r->check.config))
        return SL_OK; // a model of the user's
    SL_TRY(sl_trainer_subprocess_fit(r->check.config_json, r->check.job, NULL, &job));
    int rc = sl_trainer_subprocess_describe(job, &r->check.dataset, &params);
    *n = params.n;
    sl_params_fini(&params);
    free(job);
    return rc;
}

static int show_plan(const struct run *r)
{
    static struct store store; // too large for a stack
    uint64_t n_params = 0;
    SL_TRY(find_store(r, &store));
    SL_TRY(count_params(r, &n_params));
    if (r->output == SL_OUTPUT_JSON)
        return print_plan_json(r, &store, n_params);
    print_plan_text(r, &store, n_params);
    return SL_OK;
}

// --- the broker's client -------------------------------------------------------------------------

static void send_stop(struct run *r, bool kill)
{
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(STOP, stop, &stop);
    stop.kill = kill;
    sl_session_send(&r->session, &e);
}

static void on_signal(struct run *r)
{
    struct signalfd_siginfo info;
    while (read(r->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        r->n_signals++;
        if (r->n_signals == 1) {
            sl_progress_line(&r->view.progress, "%s",
                             r->check.over_nodes
                                 ? "stopping: told by the user, or by the launcher as when a "
                                   "process of another node has ended"
                                 : "stopping (once more kills)");
            send_stop(r, false);
            r->kill_at_ns = sl_now_ns() + STOP_MS * 1000000ull;
        } else if (r->n_signals == 2) {
            send_stop(r, true);
            r->kill_at_ns = sl_now_ns() + KILL_MS * 1000000ull;
        } else {
            sl_launch_kill(&r->broker);
        }
    }
}

// Shows a message, or keeps it when it is how the job ended.
static void on_message(struct run *r, Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_FINISHED) {
        r->finished = m;
        return;
    }
    if (r->kill_at_ns && m->body_case == SL__CONTROL__ENVELOPE__BODY_PROGRESS &&
        strcmp(m->progress->phase, "save") == 0)
        r->kill_at_ns = sl_now_ns() + SAVE_MS * 1000000ull;
    sl_run_view_message(&r->view, m);
    sl_bus_message_free(m);
}

static void receive(struct run *r, int timeout_ms)
{
    Sl__Control__Envelope *m;
    while (!r->finished && sl_bus_receive(r->session.bus, timeout_ms, NULL, &m) == SL_OK)
        on_message(r, m);
}

// Until the broker has said how the job ended, or is gone. True when it is gone.
static bool follow(struct run *r, struct sl_exit_status *death)
{
    struct sl_stopped stopped = {0};
    for (;;) {
        receive(r, 0);
        if (r->finished)
            return false;
        if (sl_launch_wait(&r->broker, 0, death)) {
            on_signal(r); // a signal may be why it is gone
            receive(r, LAST_MESSAGE_MS);
            return true;
        }
        uint64_t now = sl_now_ns();
        if (r->check.over_nodes && sl_stopped_look(&stopped, r->broker.pid, now) >= STOPPED_LOOKS &&
            !r->stopped) {
            r->stopped = true; // other nodes wait for it
            sl_launch_kill(&r->broker);
        }
        if (r->kill_at_ns && now >= r->kill_at_ns) {
            sl_launch_kill(&r->broker);
            r->kill_at_ns = 0;
        }
        struct pollfd fds[] = {
            {.fd = sl_bus_fd(r->session.bus), .events = POLLIN},
            {.fd = r->signal_fd, .events = POLLIN},
            {.fd = r->broker.pidfd, .events = POLLIN},
        };
        poll(fds, SL_COUNT_OF(fds), LOOK_MS);
        on_signal(r);
    }
}

// It has said its last word. Of several nodes the others may still write what they have.
static void wait_for_broker(struct run *r)
{
    struct sl_exit_status death;
    const uint64_t ms = r->check.over_nodes ? SAVE_MS : LEAVE_MS;
    const uint64_t until = sl_now_ns() + ms * 1000000ull;
    while (!sl_launch_wait(&r->broker, LOOK_MS, &death)) {
        on_signal(r);
        if (sl_now_ns() >= until)
            sl_launch_kill(&r->broker);
    }
}

// What can be done with what a killed broker has left.
static void tell_outlook(const struct run *r, char *buf, size_t bytes)
{
    char outlook[SL_RESUME_OUTLOOK_BYTES];
    if (sl_resume_outlook(r->check.config.output, outlook) < 0)
        snprintf(buf, bytes, "%s", sl_error_message());
    else
        snprintf(buf, bytes, "the same command%s %s",
                 r->check.checkpoint ? " without --checkpoint" : "", outlook);
}

// Of several processes that a launcher has started: which one it is that says so.
static int name_node(const struct run *r, int rc)
{
    char host[HOST_NAME_MAX + 1] = "";
    if (rc >= 0 || !r->is_one_of_several)
        return rc;
    gethostname(host, sizeof host - 1);
    return sl_fail_prefix(rc, "host %s (rank %u)", host, r->rank);
}

// The last message does not reach a command that stood still when it came, as after Ctrl-Z. What it
// says is in the broker's exit status and in its report. False: it did not come to that.
static bool recall_end(const struct run *r, pid_t broker, const struct sl_exit_status *death,
                       int *rc)
{
    struct sl_job_end end;
    Sl__Control__Finished f = SL__CONTROL__FINISHED__INIT;
    const bool follows = r->check.node > 0; // another node has the report
    if (!death->known || death->signal)
        return false;
    char *report = follows ? NULL : sl_job_end_report(r->check.config.output, broker, &end);
    const bool ended = report ? end.exit_status == death->exit_status
                              : follows && death->exit_status == SL_EXIT_OK;
    if (report) {
        f.exit_status = end.exit_status;
        f.message = end.message;
        f.run_directory = end.directory;
        f.report_json = report;
    }
    if (ended)
        *rc = sl_job_check_result(&r->check, &f, follows ? SL_OUTPUT_TEXT : r->output);
    free(report);
    return ended;
}

// The command's result when the broker went without saying it.
static int broker_lost(struct run *r, pid_t broker, const struct sl_exit_status *death)
{
    char how[160], then[1024], folder[32] = "log";
    int rc;
    if (recall_end(r, broker, death, &rc))
        return rc;
    if (r->check.node > 0)
        snprintf(folder, sizeof folder, SL_RUNDIR_OF_NODE "%u", r->check.node);
    tell_outlook(r, then, sizeof then);
    if (r->n_signals && !r->stopped)
        return sl_fail(SL_EABORTED, "job '%s': killed: %s", r->check.config.name, then);
    // It could not even begin to talk, and has said why on the standard error that we share.
    if (death->known && !death->signal && death->exit_status == SL_EXIT_USAGE)
        return SL_EXIT_USAGE;
    sl_exit_status_describe(death, how, sizeof how);
    if (r->stopped)
        snprintf(how, sizeof how, "was stopped (SIGSTOP) for %d s, and is killed", STOPPED_LOOKS);
    return name_node(
        r, sl_fail(SL_EFAILED,
                   "job '%s': the broker %s and its workers with it ('%s/%s' may say why): %s",
                   r->check.config.name, how, r->check.config.output, folder, then));
}

// The signals that stop a job, but for those that the parent process ignores (nohup).
static void stop_signals(sigset_t *out)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    sigemptyset(out);
    for (size_t i = 0; i < SL_COUNT_OF(all); i++) {
        struct sigaction now;
        if (sigaction(all[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(out, all[i]);
    }
}

static int run_job(struct run *r)
{
    struct sl_exit_status death;
    sigset_t caught, before;
    const bool follows = r->check.node > 0; // another node, which shows and keeps everything
    SL_FAILPOINT(RUN_CHECKED);
    stop_signals(&caught);
    sigprocmask(SIG_BLOCK, &caught, &before);
    r->signal_fd = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (r->signal_fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "catching signals");
    int keep_fd = r->check.over_nodes ? sl_launcher_keep_descriptor() : -1;
    if (keep_fd < -1)
        return keep_fd;
    const struct sl_launch_job job = {
        .config_json = r->check.config_json,
        .dataset_record = r->dataset_record,
        .name = r->check.config.name,
        .output = r->check.config.output,
        .report_path = follows ? NULL : r->check.report,
        .error_fd = -1,
        .resume = r->check.resume.content == SL_RUNDIR_CHECKPOINTS ? r->check.resume.checkpoint.name
                                                                   : NULL,
        .http = follows ? NULL : r->http,
        .http_token_file = r->http_token,
        .http_open = r->http_open,
        .over_nodes = r->check.over_nodes,
        .nodes = r->check.nodes,
        .node = r->check.node,
        .keep_fd = keep_fd,
    };
    SL_TRY(sl_launch_broker(&job, &r->broker));
    SL_FAILPOINT(RUN_LAUNCHED);
    sl_run_view_init(&r->view, r->check.quiet, r->check.config.epochs,
                     r->check.judging.choice.measure);
    int rc = sl_bus_connect(r->broker.endpoint, r->broker.key, &r->session.bus);
    if (rc < 0) {
        sl_launch_kill(&r->broker);
        sl_launch_wait(&r->broker, LEAVE_MS, &death);
        return rc;
    }
    sl_session_subscribe(&r->session, true, false);
    const pid_t broker = r->broker.pid;
    bool gone = follow(r, &death);
    sl_run_view_end(&r->view);
    rc = r->finished ? sl_job_check_result(&r->check, r->finished->finished,
                                           follows ? SL_OUTPUT_TEXT : r->output)
                     : broker_lost(r, broker, &death);
    if (rc < 0 && r->check.over_nodes) {
        // Before the broker ends: its link ends the world then, and this process with it.
        fprintf(stderr, "sluice: %s\n", sl_error_message());
        rc = sl_exit_status(rc);
        if (r->finished ? r->finished->finished->alone : gone)
            sl_launcher_abort(rc);
    }
    if (!gone)
        wait_for_broker(r);
    return rc;
}

// --- the command ---------------------------------------------------------------------------------

static int init(const struct sl_command *c, void *state)
{
    ((struct run *)state)->signal_fd = -1;
    return SL_OK;
}

static int run(void *state)
{
    struct run *r = state;
    if ((r->http_token || r->http_open) && !r->http)
        return sl_fail(SL_EINVAL,
                       "run: --http-%s without --http PORT: there is no page that it could be for",
                       r->http_token ? "token" : "open");
    const uint32_t n = sl_launcher_size(&r->rank);
    r->is_one_of_several = n != 1 && !sl_launcher_is_batch();
    int rc = sl_job_check_run(&r->check, false);
    if (rc < 0 && r->is_one_of_several) {
        name_node(r, rc);
        fprintf(stderr, "sluice: %s\n", sl_error_message());
        sl_launcher_abort(SL_EXIT_USAGE);
        return SL_EXIT_USAGE;
    }
    if (rc < 0)
        return sl_job_check_status(rc);
    if (!r->check.dry_run) {
        r->dataset_record = sl_dataset_record(&r->check.dataset);
        if (!r->dataset_record)
            return sl_fail(SL_ENOMEM, "no memory for a data set's record");
        sl_dataset_close(&r->check.dataset); // the workers map it themselves
        return run_job(r);
    }
    return show_plan(r);
}

static void release(void *state)
{
    struct run *r = state;
    sl_bus_message_free(r->finished);
    sl_bus_close(r->session.bus, 0);
    sl_job_check_fini(&r->check);
    free(r->dataset_record);
    if (r->signal_fd >= 0)
        close(r->signal_fd);
}

#define AT(kind, field) SL_OPTION_AT(kind, run, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "dry-run", AT(FLAG, check.dry_run),
     .help = "check everything, show what would run (with -o json the resolved job, too), start "
             "nothing"},
    {.name = "http", AT(TEXT, http), .placeholder = "PORT",
     .help = "show the job in a browser, at this port of this machine; 0 takes any that is free, "
             "and the address is shown"},
    {.name = "http-open", AT(FLAG, http_open),
     .help = "let other users of this machine see that page; without it only those who know the "
             "secret of --http-token do"},
    {.name = "http-token", AT(TEXT, http_token), .placeholder = "FILE",
     .help = "with the secret in this file the page may scale, pause and stop the job"},
    {.name = "output", .letter = 'o', .alias = "format", AT(CHOICE, output),
     .choices = sl_output_names,
     .help = "what standard output gets: a summary, or the report as JSON"},
    {0},
};
// clang-format on

const struct sl_command sl_command_run = {
    .name = "run",
    .help = "run a job in the foreground: progress, then a summary",
    .about = "Trains the model that a job file describes: starts samplers and trainers, shows "
             "how far they\nare, and ends with a summary. The results go to the job's output "
             "directory; a run that was\nstopped there continues from its newest "
             "checkpoint. Ctrl-C (or SIGTERM, SIGUSR1) stops\nthe job and keeps what was "
             "done; a second one kills. 'sluice stats', 'top', 'scale', 'pause' and\n'stop' "
             "work on it from another terminal.",
    .example = "sluice run job.json --set epochs=5 --report report.json\n"
               "sluice run job.json --http 8080\n"
               "sluice run job.json --quiet -o json | jq .test",
    .operands = {{"JOB.json", offsetof(struct run, check.job)}},
    .options = {{sl_job_check_options, offsetof(struct run, check)}, {options}},
    .bytes = sizeof(struct run),
    .init = init,
    .run = run,
    .fini = release,
};
