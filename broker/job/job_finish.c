/*
 * job_finish.c - ends a job: writes parameters and report, sends the last message to the clients.
 *
 * What is left is written when no worker is, so nothing in the arena moves any more: its version
 * names a complete set of parameters, whatever was going on when the workers were stopped.
 */
#include "broker/job/job.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/job/divergence.h"
#include "broker/job/learned.h"
#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/data/typed_json.h"
#include "broker/sharding/type_figures.h"
#include "common/arena/param_store.h"
#include "common/arena/seat.h"

// --- the end begins ------------------------------------------------------------------------------

static void send_stop(struct sl_job *job)
{
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STOP;
    e.stop = &stop;
    for (uint32_t i = 0; i < job->workers.n; i++)
        if (job->workers.list[i].alive && job->workers.list[i].greeted)
            sl_bus_send(job->bus, &job->workers.list[i].peer, &e);
}

void sl_job_end(struct sl_job *job, enum sl_outcome outcome, const char *fmt, ...)
{
    if (job->state >= SL_JOB_FINISHING)
        return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(job->message, sizeof job->message, fmt, ap);
    va_end(ap);
    sl_split_end(&job->split);
    sl_saving_stop(&job->saving);
    sl_trace_end(&job->trace);
    sl_job_end_pause(job);
    sl_switches_end(&job->switches, SL_MIN(sl_job_epoch(job), job->config.epochs - 1),
                    job->meter.sums.standby_batches);
    sl_job_sample_memory(job);
    job->outcome = outcome;
    job->state = SL_JOB_FINISHING;
    sl_rundir_end(&job->rundir);
    sl_phases_stop(&job->phases);
    sl_access_forecast_cancel(&job->foresight);
    atomic_store(&job->row_work.cancel, true);
    if (job->arena.base)
        sl_arena_abort(&job->arena, SL_ABORT_STOP);
    sl_live_publish_node(&job->live);
    sl_job_nodes_end(job);
    if (!job->workers_placed) {
        sl_job_conclude(job);
        return;
    }
    sl_external_desk_close(&job->desk);
    send_stop(job);
    sl_worker_pool_dismiss_external(
        &job->workers, job->message[0] ? job->message : "the job is done: its epochs are over");
    sl_worker_pool_stop(&job->workers, SL_WORKER_STOP_MS);
    SL_FAILPOINT(BROKER_STOP);
}

void sl_job_end_broken(struct sl_job *job, enum sl_job_numbers numbers, const char *what)
{
    if (job->state < SL_JOB_FINISHING)
        job->numbers = numbers;
    sl_job_end(job, SL_OUTCOME_FAILED, "%s", what);
}

void sl_job_check_memory(struct sl_job *job)
{
    const uint64_t bound = job->config.memory_bytes, held = job->memory.held_bytes;
    char found[SL_UNITS_BYTES], wanted[SL_UNITS_BYTES];
    if (bound == 0 || held <= bound)
        return;
    sl_job_end(job, SL_OUTCOME_FAILED,
               "memory: the job's processes hold %s, wanted at most %s: give the job again with "
               "memory set to %llu or more, or with fewer workers%s",
               sl_units_exact_bytes(found, held), sl_units_exact_bytes(wanted, bound),
               (unsigned long long)sl_align_up(held + held / 8, (uint64_t)1 << 20),
               job->saving.enabled ? ": it goes on from its last checkpoint"
                                   : ", and with another output: there is no checkpoint");
}

// Nothing that comes of a data set that was changed in place counts.
bool sl_job_check_data(struct sl_job *job)
{
    if (sl_dataset_check_held(&job->dataset) == SL_OK)
        return true;
    sl_job_end(job, SL_OUTCOME_FAILED, "%s", sl_error_message());
    return false;
}

// --- what is left --------------------------------------------------------------------------------

static const char *status_word(enum sl_outcome outcome)
{
    switch (outcome) {
    case SL_OUTCOME_DONE: return "done";
    case SL_OUTCOME_STOPPED: return "stopped";
    default: return "failed";
    }
}

// Batches trained so far, those of an unfinished epoch included.
static uint64_t batches_trained(struct sl_job *job)
{
    const struct sl_phases *p = &job->phases;
    struct sl_arena *a = &job->arena;
    uint64_t n = p->done;
    for (uint32_t k = 0; k < p->n_open; k++) {
        const struct sl_open_phase *o = &p->open[(p->first_open + k) % SL_ARENA_PHASES];
        uint64_t cells = sl_div_up(o->spec.n_items, o->spec.batch_size);
        for (uint32_t i = 0; o->step.purpose == SL_PURPOSE_TRAIN && i < cells; i++)
            n += sl_cell_state(sl_ledger_word(a, o->seq, i)) == SL_CELL_DONE;
    }
    return n;
}

// model.safetensors holds the final parameters, model.best.safetensors those of the best epoch.
// `last`: the final ones are of use.
static int save_parameters(struct sl_job *job, bool last, char sha256[SL_SHA256_HEX_BYTES])
{
    char path[4200], note[96], title[SL_MEASURE_TITLE];
    const float *values = sl_param_store_params(&job->arena, sl_param_store_version(&job->arena));
    const struct sl_phases *p = &job->phases;
    if (job->params.n == 0)
        return SL_OK; // external trainers have theirs
    uint64_t per_epoch = sl_phases_batches(&job->config, job->dataset.split[SL_SPLIT_TRAIN].n);
    uint64_t batches = sl_phases_batches_of(&job->config, job->dataset.split[SL_SPLIT_TRAIN].n,
                                            sl_param_store_version(&job->arena));
    if (last) {
        SL_TRY(sl_params_sha256(&job->params, values, batches, sha256));
        snprintf(note, sizeof note, "after %u of %u epochs", p->trained, job->config.epochs);
        SL_TRY(sl_params_save(&job->params, values, batches,
                              sl_rundir_file(&job->rundir, "model.safetensors", path, sizeof path),
                              job->config.name, note));
    }
    SL_TRY(sl_job_check_rows(job));
    if (!p->best.has)
        return SL_OK;
    snprintf(note, sizeof note, "epoch %u, the best validation %s (%.4f)", p->best.epoch + 1,
             sl_measure_title(p->measure, job->config.evaluate.k, title), p->best.value);
    return sl_params_save(&job->params, sl_param_store_best(&job->arena),
                          (p->best.epoch + 1) * per_epoch,
                          sl_rundir_file(&job->rundir, "model.best.safetensors", path, sizeof path),
                          job->config.name, note);
}

// Of the first worker of that role on a GPU that found one.
static enum sl_store_way store_way(struct sl_job *job, enum sl_role role)
{
    uint32_t way = SL_STORE_WAY_NONE;
    for (uint32_t d = 0; d < job->config.n_devices && way == SL_STORE_WAY_NONE; d++) {
        const uint32_t seat = role == SL_ROLE_TRAINER ? sl_seat_trainer(&job->arena, d)
                                                      : sl_seat_sampler(&job->arena, d);
        way = atomic_load(&sl_seat(&job->arena, seat)->store_way);
    }
    return way < SL_STORE_WAY_COUNT ? (enum sl_store_way)way : SL_STORE_WAY_NONE;
}

static void add_process(struct sl_job *job, const struct sl_pool_worker *w)
{
    const struct sl_report_process process = {w->name, w->pid, (double)w->peak_rss_bytes,
                                              w->starts};
    if (w->starts > 0) // else nobody was ever wanted there
        sl_report_add_process(&job->report, &process);
}

static void add_processes(struct sl_job *job)
{
    const struct sl_report_process broker = {"broker", getpid(),
                                             (double)job->memory.broker_peak_bytes, 1};
    sl_report_add_process(&job->report, &broker);
    for (uint32_t i = 0; i < job->workers.n; i++)
        add_process(job, &job->workers.list[i]);
    for (uint32_t i = 0; i < job->nodes.pool.n; i++)
        add_process(job, &job->nodes.pool.list[i]);
}

// Who sits where at the end; a standby trainer is named as what it is.
static uint32_t describe_seats(struct sl_job *job, struct sl_report_seat *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < job->workers.n; i++) {
        const struct sl_pool_worker *w = &job->workers.list[i];
        enum sl_duty duty = sl_split_duty(&job->split, w->role, w->device);
        if (duty == SL_DUTY_NONE)
            continue;
        const struct sl_seat *seat = sl_seat(&job->arena, w->slot);
        out[n++] = (struct sl_report_seat){
            .device = sl_placement_shown(&job->config, w->device),
            .name = w->name,
            .role = duty == SL_DUTY_STANDBY ? "standby" : sl_role_name(w->role),
            .has_cache = w->role == SL_ROLE_TRAINER && sl_cache_keeps(job->config.cache.policy),
            .cache_rows = atomic_load(&seat->cache_rows),
            .load_seconds = (double)job->cache_load_ns[w->device] * 1e-9,
        };
    }
    return n;
}

static const struct sl_shard_plan *lent(const struct sl_job *job, enum sl_peer_memory_kind kind)
{
    return sl_store_may_share(&job->config, kind) ? &job->split.store.plan[kind] : NULL;
}

// Where features and graph were.
static void describe_store(struct sl_job *job, struct sl_report_totals *to)
{
    const struct sl_row_cache rows = sl_arena_rows(&job->arena);
    const enum sl_store_way way = store_way(job, SL_ROLE_TRAINER);
    const enum sl_store_way graph = store_way(job, SL_ROLE_SAMPLER);
    const uint64_t all = sl_job_copied_bytes(job, SL_SHARED_FEATURES);
    const uint64_t of_graph = sl_job_copied_bytes(job, SL_SHARED_OFFSETS);
    to->store.features = sl_features_kinds[job->config.store.features].word;
    to->store.feature_bytes = (double)sl_features_bytes(&job->dataset);
    to->reads = rows.shape.n_slots > 0;
    to->store.cache_bytes = (double)sl_row_cache_bytes(&rows.shape);
    to->store.cache_rows = (double)rows.shape.n_slots;
    to->store.window = rows.shape.window;
    if (rows.head) {
        to->store.depth = atomic_load(&rows.head->depth);
        to->store.latency_seconds = (double)atomic_load(&rows.head->latency_ns) * 1e-9;
        to->store.reads_per_second = (double)atomic_load(&rows.head->reads_per_s);
    }
    to->gpus = way != SL_STORE_WAY_NONE;
    to->store.gpu_way = sl_store_ways[way].word;
    to->store.gpu_reason = sl_store_ways[way].why;
    to->store.copy_bytes = (double)(all - of_graph);
    to->store.copy_page_bytes = sl_store_ways[way].page_bytes;
    to->gpu_samples = graph != SL_STORE_WAY_NONE;
    to->store.graph_way = sl_store_ways[graph].word;
    to->store.graph_reason = sl_store_ways[graph].why;
    to->store.graph_copy_bytes = (double)of_graph;
    to->store.graph_copy_page_bytes = sl_store_ways[graph].page_bytes;
    to->store.prefer = sl_store_preference_words[job->config.store.prefer];
    to->store.prefer_reason = job->config.store.prefer_why;
}

// As their links said last.
static void describe_nodes(struct sl_job *job, struct sl_report_totals *to)
{
    sl_live_nodes_poll(&job->live.nodes, &job->arena);
    to->several_nodes = job->live.nodes.n > 0;
    to->nodes = sl_live_nodes_list(&job->live.nodes);
    to->wires = sl_live_nodes_wire_list(&job->live.nodes);
}

// What caches hold at the end.
static cJSON *list_held(const struct sl_job *job)
{
    const struct sl_typed *typed = &job->dataset.typed;
    cJSON *list = cJSON_CreateArray();
    for (uint32_t i = 0; i < job->workers.n; i++) {
        const struct sl_pool_worker *w = &job->workers.list[i];
        struct sl_stats_held held = {.worker = w->name,
                                     .device = sl_placement_shown(&job->config, w->device)};
        if (w->role != SL_ROLE_TRAINER ||
            sl_split_duty(&job->split, w->role, w->device) == SL_DUTY_NONE)
            continue;
        for (uint32_t t = 0; t < typed->n_types; t++) {
            if (!sl_type_figures_held(&job->arena, typed, w->device, t, &held))
                continue;
            cJSON *entry = cJSON_CreateObject();
            sl_fields_write(&sl_stats_held_fields, &held, entry);
            cJSON_AddItemToArray(list, entry);
        }
    }
    return list;
}

static void describe_types(const struct sl_job *job, struct sl_report_totals *to)
{
    to->typed = job->dataset.typed.n_types > 0;
    to->types = sl_typed_types_to_json(&job->dataset);
    to->relations = sl_typed_relations_to_json(&job->dataset);
    to->holds = to->typed && sl_cache_keeps(job->config.cache.policy);
    to->cache.held = to->holds ? list_held(job) : NULL;
    if (to->typed)
        sl_type_figures_add(&job->arena, &job->dataset.typed, to->types, to->relations);
}

// Of what learned rows are rows of; NULL: there are none.
static const char *name_topology(const struct sl_job *job, char *buf, size_t bytes)
{
    if (!job->rows.head)
        return NULL;
    snprintf(buf, bytes, "%016" PRIx64, sl_dataset_topology_digest(&job->dataset));
    return buf;
}

static int write_report(struct sl_job *job, const char *sha256)
{
    struct sl_report_seat seats[2 * SL_CONFIG_MAX_DEVICES];
    char path[4200], digest[33], reason[160], topology[17];
    struct sl_relation_text relation;
    const bool links = sl_config_is_links(&job->config);
    const struct sl_phases *p = &job->phases;
    const struct sl_epoch_order order = sl_phases_order(p);
    struct sl_report_outcome outcome = {
        .totals = {.status = status_word(job->outcome),
                   .message = job->outcome == SL_OUTCOME_DONE ? NULL : job->message,
                   .cache.row_bytes = (double)job->split.need.row_bytes,
                   .cache.rank_seconds = p->ranking.seconds,
                   .cache.presample_seconds = p->presample_seconds,
                   .batches.scheduled = (double)p->scheduled,
                   .batches.trained = (double)batches_trained(job),
                   .epochs_reason = *job->epochs_note ? job->epochs_note : NULL,
                   .stopped_early.epoch = (double)p->trained - 1,
                   .stopped_early.reason =
                       p->stopped_early ? sl_phases_stop_reason(p, reason, sizeof reason) : NULL,
                   .widens = job->widened.bytes > 0,
                   .val_edges_added = (double)job->widened.n_added,
                   .warnings = job->warnings,
                   .num_params = (double)job->params.n,
                   .test_seconds = p->test_seconds,
                   .params_sha256 = *sha256 ? sha256 : NULL,
                   .samples_digest = sl_phases_digest(p, digest) ? digest : NULL,
                   .embedding_sha256 = *job->rows_sha256 ? job->rows_sha256 : NULL,
                   .topology_digest = name_topology(job, topology, sizeof topology),
                   .pair_relation =
                       links ? sl_typed_linked_text(&job->dataset.typed, &relation) : NULL,
                   .start_seconds = (double)(job->running_ns - job->start_ns) * 1e-9,
                   .first_update_seconds = p->first_update_ns
                                               ? (double)(p->first_update_ns - job->start_ns) * 1e-9
                                               : NAN,
                   .wall_seconds = (double)(sl_now_ns() - job->start_ns) * 1e-9,
                   .paused_seconds = sl_pauses_total_seconds(&job->pauses),
                   .peak_memory = (double)job->memory.peak_bytes,
                   .peak_held = (double)job->memory.held_peak_bytes,
                   .arena.bytes = (double)(job->arena.bytes - job->acts_bytes),
                   .arena.file_bytes = (double)job->acts_bytes,
                   .arena.payload_bytes = (double)job->arena.h->spec.payload_bytes,
                   .arena.block_bytes_max = (double)job->block_bytes_max,
                   .order.kind = sl_order_words[job->config.order.kind],
                   .walks = order.walk != NULL,
                   .order.sequences = order.n_sequences,
                   .order.shuffling_error = order.error,
                   .order.uniform_error = order.uniform_error,
                   .order.seconds = order.seconds,
                   .order.spread_input_nodes = (double)job->probe_input_nodes},
        .config_json = job->config_json,
        .seats = seats,
        .n_seats = describe_seats(job, seats),
        .n_nodes = job->split.need.n_nodes,
        .plan = {[SL_PEER_MEMORY_FEATURES] = lent(job, SL_PEER_MEMORY_FEATURES),
                 [SL_PEER_MEMORY_GRAPH] = lent(job, SL_PEER_MEMORY_GRAPH)},
        .edge_bytes = sl_store_edge_bytes(&job->config, &job->dataset),
        .arena = &job->arena,
        .best = &p->best,
        .judged = &p->judged,
        .test = p->has_test ? &p->test : NULL,
    };
    describe_store(job, &outcome.totals);
    describe_nodes(job, &outcome.totals);
    describe_types(job, &outcome.totals);
    add_processes(job);
    job->report_text = sl_report_finish(&job->report, &job->config, &outcome);
    cJSON *const made[] = {outcome.totals.nodes, outcome.totals.wires, outcome.totals.types,
                           outcome.totals.relations, outcome.totals.cache.held};
    for (size_t i = 0; i < SL_COUNT_OF(made); i++)
        cJSON_Delete(made[i]);
    if (!job->report_text)
        return sl_fail(SL_ENOMEM, "no memory for the report");
    if (job->rundir.path[0])
        SL_TRY(sl_report_write(sl_rundir_file(&job->rundir, "report.json", path, sizeof path),
                               job->report_text));
    if (job->options.report_path)
        SL_TRY(sl_report_write(job->options.report_path, job->report_text));
    return SL_OK;
}

// Writing may take longer than clients wait for the end of a job.
void sl_job_emit_saving(struct sl_job *job)
{
    Sl__Control__Progress progress = SL__CONTROL__PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    progress.phase = "save";
    progress.epochs = sl_config_told_epochs(&job->config);
    progress.seconds_left = -1;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_PROGRESS;
    e.progress = &progress;
    sl_clients_send(&job->clients, SL_WANTS_PROGRESS, &e);
}

/*
 * On several nodes no checkpoint can be made once one of them is lost. Where there is none from
 * before, nothing is left that would be in the way of the same command.
 */
static bool begins_anew(const struct sl_job *job)
{
    return job->nodes.n > 1 && job->saving.enabled && job->saving.n_written == 0 &&
           !job->resumed.path[0] && job->outcome != SL_OUTCOME_DONE &&
           job->numbers == SL_NUMBERS_FINITE;
}

static void say_where_it_goes_on(struct sl_job *job)
{
    size_t n = strlen(job->message), room = sizeof job->message - n;
    if (job->saving.n_written)
        snprintf(job->message + n, room, " after update %llu, from which the same command goes on",
                 (unsigned long long)job->saving.written_version);
    else if (begins_anew(job))
        snprintf(job->message + n, room,
                 " before the first checkpoint: the same command begins anew");
    else if (job->nodes.n > 1 && job->resumed.path[0])
        snprintf(job->message + n, room, ": the same command goes on from update %llu",
                 (unsigned long long)job->resumed.version);
}

// What could not be written makes a success a failure, and a failure no other failure.
static void note_error(struct sl_job *job)
{
    sl_joblog_write(&job->log, SL_LOG_ERROR, "%s", sl_error_message());
    if (job->outcome != SL_OUTCOME_DONE)
        return;
    job->outcome = SL_OUTCOME_FAILED;
    snprintf(job->message, sizeof job->message, "%s", sl_error_message());
    if (job->saving.n_written)
        say_where_it_goes_on(job);
}

// "done: 6 of 6 epochs in 12.3 s, test accuracy 0.912"
static void emit_end(struct sl_job *job)
{
    const struct sl_phases *p = &job->phases;
    char test[80] = "", value[SL_MEASURE_TEXT], title[SL_MEASURE_TITLE];
    if (p->has_test)
        snprintf(test, sizeof test, ", test %s %s",
                 sl_measure_title(p->measure, job->config.evaluate.k, title),
                 sl_measure_text(p->test.value[p->measure], value));
    bool done = job->outcome == SL_OUTCOME_DONE;
    if (sl_config_is_endless(&job->config)) {
        sl_timeline_emit(&job->timeline, "end", done, "%s: %u epochs in %.3g s; %s",
                         status_word(job->outcome), p->trained,
                         (double)(sl_now_ns() - job->start_ns) * 1e-9, job->message);
        return;
    }
    sl_timeline_emit(&job->timeline, "end", done, "%s: %u of %u epochs in %.3g s%s%s%s",
                     status_word(job->outcome), p->trained, job->config.epochs,
                     (double)(sl_now_ns() - job->start_ns) * 1e-9, test, done ? "" : "; ",
                     done ? "" : job->message);
}

// What is to be said of a job whose numbers went wrong.
static struct sl_divergence divergence(const struct sl_job *job)
{
    const struct sl_phases *p = &job->phases;
    const uint64_t updates = sl_phases_updates(&job->config, job->dataset.split[SL_SPLIT_TRAIN].n);
    struct sl_divergence d = {.config = &job->config,
                              .phases = p,
                              .epochs = job->report.epochs,
                              .run = job->rundir.path,
                              .version = sl_param_store_version(&job->arena),
                              .evaluated = job->numbers == SL_NUMBERS_OF_EVALUATION};
    // Beside an evaluation, which is the oldest phase that is open, updates have gone on.
    if (d.evaluated)
        d.version = SL_MIN(d.version, updates * (sl_phases_at(p, 0)->step.epoch + 1));
    return d;
}

// Writes the last checkpoint, unless it is of no use: where the numbers of its next update are not
// finite, or its loss has grown too far, it would only take the place of an older one. True where
// the final parameters are of use.
static bool save_checkpoint(struct sl_job *job)
{
    const struct sl_divergence d = divergence(job);
    const bool useful =
        job->numbers == SL_NUMBERS_FINITE || (d.evaluated && !sl_divergence_has_grown(&d));
    if (useful)
        sl_saving_finish(&job->saving, status_word(job->outcome));
    return useful;
}

// The whole message of a job whose numbers went wrong, with the checkpoints that there are.
static void describe_divergence(struct sl_job *job)
{
    const struct sl_divergence d = divergence(job);
    char what[sizeof job->message];
    if (job->numbers == SL_NUMBERS_FINITE)
        return;
    snprintf(what, sizeof what, "%s", job->message);
    sl_divergence_describe(&d, what, job->message, sizeof job->message);
}

void sl_job_warn(struct sl_job *job, const char *text)
{
    cJSON_AddItemToArray(job->warnings, cJSON_CreateString(text));
    sl_joblog_write(&job->log, SL_LOG_WARN, "%s", text);
    sl_timeline_emit(&job->timeline, "warning", false, "%s", text);
}

// Says of a job that is done whether it has learned anything.
static int judge(struct sl_job *job)
{
    const struct sl_phases *p = &job->phases;
    const struct sl_learned l = {.config = &job->config,
                                 .dataset = &job->dataset,
                                 .epochs = job->report.epochs,
                                 .best = &p->best,
                                 .measure = p->measure,
                                 .test = p->has_test ? &p->test : NULL};
    const cJSON *w;
    if (job->outcome != SL_OUTCOME_DONE || sl_config_is_external(&job->config))
        return SL_OK;
    cJSON *found = cJSON_CreateArray();
    int rc = sl_learned_judge(&l, found);
    cJSON_ArrayForEach(w, found)
    {
        sl_job_warn(job, w->valuestring);
    }
    cJSON_Delete(found);
    return rc;
}

// The test was of the best epoch's parameters, or of the last ones.
static void end_tensorboard(struct sl_job *job)
{
    const struct sl_phases *p = &job->phases;
    const uint64_t epochs = p->best.has ? p->best.epoch + 1 : p->trained;
    sl_tensorboard_end_run(
        &job->tensorboard, job->outcome == SL_OUTCOME_DONE, p->has_test ? &p->test : NULL,
        sl_phases_updates(&job->config, job->dataset.split[SL_SPLIT_TRAIN].n) * epochs);
}

// What is said of the job, and its parameters.
static void write_rest(struct sl_job *job)
{
    char sha256[SL_SHA256_HEX_BYTES] = "";
    const bool keeps = !begins_anew(job);
    if (keeps && (save_parameters(job, job->useful, sha256) < 0 || judge(job) < 0))
        note_error(job);
    if (job->outcome != SL_OUTCOME_DONE)
        sl_joblog_write(&job->log, SL_LOG_INFO, "the job ends: %s", job->message);
    if (keeps && write_report(job, sha256) < 0)
        note_error(job);
    sl_live_log(&job->live);
    end_tensorboard(job);
    emit_end(job);
}

// What is kept of the job. Where there was to be a run directory and is none nothing has run, and
// nothing is left. False while a thread writes: called again when it has.
static bool write_results(struct sl_job *job)
{
    if ((!job->rundir.path[0] && !job->options.no_output) || !job->running_ns)
        return true;
    if (job->ending == SL_ENDING_NOTHING) {
        job->ending = SL_ENDING_CHECKPOINT;
        sl_job_emit_saving(job);
        job->useful = save_checkpoint(job);
    }
    if (!sl_saving_is_idle(&job->saving))
        return false;
    if (job->ending == SL_ENDING_CHECKPOINT) {
        job->ending = SL_ENDING_ROWS;
        describe_divergence(job);
        if (job->outcome == SL_OUTCOME_STOPPED || job->nodes.lost)
            say_where_it_goes_on(job);
        sl_job_save_rows(job);
    }
    if (job->row_work.busy)
        return false;
    job->ending = SL_ENDING_ALL;
    write_rest(job);
    return true;
}

void sl_job_conclude(struct sl_job *job)
{
    if (!sl_saving_is_idle(&job->saving))
        return; // called again once that checkpoint is written
    job->awaits_best = job->phases.keeping.busy;
    if (job->awaits_best)
        return; // called again once they are there
    if (!job->nodes.concluded && !sl_job_nodes_have_state(job))
        return; // called again when it is there, or does not come
    if (!job->nodes.concluded && !write_results(job))
        return;
    if (!sl_job_nodes_left(job))
        return;
    sl_run_files_flush(&job->files);
    job->state = SL_JOB_ENDED;
    job->ended_ns = sl_now_ns();
    if (!job->told)
        sl_job_emit_finished(job);
}

void sl_job_emit_finished(struct sl_job *job)
{
    if (job->clients.n == 0)
        return;
    Sl__Control__Finished finished = SL__CONTROL__FINISHED__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    finished.exit_status = (int32_t)job->outcome;
    finished.message = job->message;
    finished.run_directory = job->running_ns ? job->rundir.path : "";
    finished.alone = job->options.over_nodes && !job->nodes.met;
    // A report too long for a message is read from the run directory.
    if (job->report_text && strlen(job->report_text) < SL_BUS_MESSAGE_MAX / 2)
        finished.report_json = job->report_text;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_FINISHED;
    e.finished = &finished;
    sl_clients_send(&job->clients, 0, &e);
    job->told = true;
}
