#include "trainer/loop.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/seat.h"
#include "trainer/infer/evaluate.h"
#include "trainer/model/allreduce.h"
#include "trainer/feed/prefetch.h"
#include "trainer/model/objective.h"
#include "trainer/model/parameters.h"
#include "trainer/feed/compute.h"
#include "trainer/model/sync.h"

struct loop {
    const struct sl_trainer_spec *spec;
    struct sl_compute compute;
    struct sl_heartbeat pulse;
    struct sl_sync sync;
    struct sl_exchange exchange; // where the job has a group
    struct sl_prefetch extract;
    struct sl_parameters parameters;
    struct sl_buffer result;  // host: struct sl_loss_result of the batch that is computed
    struct sl_buffer outputs; // host: of an evaluated batch, where a GPU has computed them
    struct sl_worker_totals figures;
    uint64_t completed;     // batches, but for those that the exchange completes
    uint64_t trained;       // of them, those of training
    uint64_t idle_since_ns; // when the computing thread last ran out of work
    uint64_t looked_ns;     // when the device was last asked for what is in use
    uint32_t cores_seen;    // version of the cores that the computing thread has (seat.h)
    struct {
        bool on;                  // the next batch is measured
        struct sl_core_time from; // when the last one was over
        uint64_t batches;         // trained so far
    } cores;                      // of a pool
};

static void publish(struct loop *t, uint64_t current_tag)
{
    t->figures.current_tag = current_tag;
    // A batch that is held is computed and may yet be lost: it is not work done.
    t->figures.batches = t->completed + t->exchange.completed;
    t->figures.training = t->trained + t->exchange.completed; // which evaluates nothing
    sl_stats_poll_device(&t->figures, t->compute.device, &t->looked_ns);
    if (t->spec->stats)
        sl_stats_publish(t->spec->stats, &t->figures);
}

// Fills the cell's entry in, and counts what it took.
static void record(struct loop *t, const struct sl_work *work, const struct sl_loss_result *result,
                   const struct sl_work_times *when)
{
    struct sl_batch_entry *entry = work->lease.entry;
    sl_work_record(work, t->spec->worker, when);
    entry->loss = result->loss;
    entry->weight = result->weight;
    entry->correct = result->correct;
    entry->counted = result->counted;

    bool trains = work->lease.phase->spec.kind == SL_PHASE_TRAIN;
    t->figures.edges += entry->n_edges;
    t->figures.bytes += work->gathered.hit_bytes + work->gathered.matched_bytes;
    t->figures.bytes += work->gathered.miss_bytes;
    t->figures.stage_ns[SL_STAGE_EXTRACT] += work->gathered.ns;
    t->figures.stage_ns[trains ? SL_STAGE_TRAIN : SL_STAGE_EVALUATE] += entry->train_ns;
    t->figures.stage_ns[SL_STAGE_WAIT] += when->wait_ns;
}

/*
 * What a batch takes of a pool's cores, since the one before was over: so what lies between them
 * counts too. The first ones touch fresh memory and tell nothing; later on some of many are
 * measured, since the helpers read their clocks at each loop.
 */
static void measure_cores(struct loop *t)
{
    enum { COLD = 2, FIRST = 16, ONE_OF = 8 };
    if (t->spec->config->allocation.cores != SL_CORES_POOL)
        return;
    uint64_t n = t->cores.batches;
    t->cores.on = n >= COLD && (n < FIRST || n % ONE_OF == 0);
    sl_kernels_measure(t->cores.on);
    t->cores.from = sl_kernels_core_time();
}

// Neither is less than the job's throttle.
static void record_cores(struct loop *t, const struct sl_work *work)
{
    struct sl_batch_entry *entry = work->lease.entry;
    entry->train_cpu_ns = entry->helpers_cpu_ns = entry->train_threads = 0;
    t->cores.batches++;
    if (!t->cores.on)
        return;
    struct sl_core_time now = sl_kernels_core_time();
    uint64_t least_ns = (uint64_t)(t->spec->config->throttle.train * 1e9);
    uint64_t own_ns = now.own_ns - t->cores.from.own_ns + work->gathered.cpu_ns;
    uint64_t all_ns = SL_MAX(own_ns + now.helpers_ns - t->cores.from.helpers_ns, least_ns);
    entry->train_cpu_ns = SL_MAX(own_ns, least_ns);
    entry->helpers_cpu_ns = all_ns - entry->train_cpu_ns;
    entry->train_threads = now.threads;
    // The largest step so far: activations, and two batches' rows.
    struct sl_seat *seat =
        sl_seat(t->spec->arena, sl_seat_trainer(t->spec->arena, t->spec->device));
    uint64_t bytes =
        sl_model_peak_bytes(t->spec->model) + SL_PREFETCH_BUFFERS * work->gathered.x_bytes;
    if (bytes > atomic_load_explicit(&seat->step_bytes, memory_order_relaxed))
        atomic_store_explicit(&seat->step_bytes, bytes, memory_order_relaxed);
}

// Hands a batch over whose entry is written and whose gradient is in its slot.
static int complete(struct loop *t, const struct sl_work *work)
{
    bool trains = work->lease.phase->spec.kind == SL_PHASE_TRAIN;
    bool offers = trains && t->sync.async;
    if (offers)
        sl_param_store_offer(t->spec->arena, t->spec->device, &work->lease);
    int rc = sl_ledger_complete(t->spec->arena, &work->lease);
    t->completed++;
    t->trained += trains;
    if (rc != SL_ESTALE)
        return rc;
    if (offers) // it will never count
        sl_param_store_withdraw(t->spec->arena, t->spec->device, t->spec->worker);
    return SL_OK;
}

static int help(struct loop *t)
{
    uint64_t before = t->sync.apply_ns;
    t->extract.looked = sl_event_read(&t->spec->arena->h->progress);
    int rc = sl_sync_help(&t->sync);
    t->figures.stage_ns[SL_STAGE_TRAIN] += t->sync.apply_ns - before;
    return rc;
}

// Where a batch's parameters are and its gradient goes, in the parameter store.
struct batch_params {
    uint64_t version;
    const float *params;
    float *slot;
};

// Waits until the batch may be computed. SL_OK; SL_EAGAIN when it was given back for an earlier
// one; SL_ESTALE; SL_EABORTED.
static int wait_for_version(struct loop *t, const struct sl_work *work, struct batch_params *out)
{
    struct sl_arena *a = t->spec->arena;
    const struct sl_lease *lease = &work->lease;
    int rc;
    while ((rc = sl_sync_wait(&t->sync, lease, SL_ARENA_WAIT_MS)) == SL_ETIMEDOUT)
        if (sl_prefetch_must_yield(&t->extract, work)) {
            sl_ledger_return(a, lease);
            return SL_EAGAIN;
        }
    out->version = sl_param_store_cell_version(a, lease->phase, lease->cell);
    out->params = sl_param_store_params(a, out->version);
    out->slot = sl_param_store_gradient(a, lease->cell);
    return rc;
}

// The same in async mode. No other batch is waited for, so there is never a reason to give way.
static int join(struct loop *t, struct batch_params *out)
{
    int rc;
    while ((rc = sl_sync_join(&t->sync, SL_ARENA_WAIT_MS, &out->version)) == SL_ETIMEDOUT) {
    }
    out->params = t->sync.joined;
    out->slot = sl_param_store_device_gradient(t->spec->arena, t->spec->device);
    return rc;
}

// Learned rows are those of the version by now; their gradient goes to the batch's slot.
static struct sl_row_slot take_rows(const struct loop *t, const struct sl_work *work)
{
    const struct sl_row_slot slot = sl_row_table_slot(t->spec->rows, work->lease.cell);
    t->spec->model->learned.rows = t->spec->rows->values;
    t->spec->model->learned.gradient = slot.gradient;
    return slot;
}

static void leave_rows(const struct loop *t, const struct sl_work *work,
                       const struct sl_row_slot *slot)
{
    *slot->n = sl_model_learned_ids(t->spec->model, work->block, slot->ids);
}

// The batch's gradient into its slot, or where the job has a group into the sum. The one wait for
// the device is at the end: then result and gradient are there, and nothing uses the work's buffer.
static int compute_gradient(struct loop *t, const struct sl_work *work,
                            const struct batch_params *from, struct sl_loss_result *result)
{
    const float *params;
    float *gradient = sl_parameters_gradient(&t->parameters, from->slot);
    SL_TRY(sl_parameters_take(&t->parameters, SL_PARAMETERS_VERSION, from->version, from->params,
                              &params));
    struct sl_row_slot rows = {0};
    if (t->spec->rows)
        rows = take_rows(t, work);
    SL_TRY(sl_model_train(t->spec->model, params, work->block, work->x, gradient, result));
    if (t->spec->rows)
        leave_rows(t, work, &rows);
    if (!t->sync.exchange)
        return sl_parameters_deliver(&t->parameters, from->slot);
    SL_TRY(sl_exchange_add(t->sync.exchange, &work->lease, gradient));
    return t->compute.device->sync();
}

// Hands the batch over, whose gradient has been delivered.
static int hand_over(struct loop *t, const struct sl_work *work)
{
    return t->sync.exchange ? sl_exchange_keep(t->sync.exchange, &work->lease) : complete(t, work);
}

static int train(struct loop *t, struct sl_work *work, uint64_t wait_ns)
{
    struct sl_arena *a = t->spec->arena;
    struct batch_params params;
    uint64_t start = sl_now_ns(), applied = t->sync.apply_ns;
    int rc = t->sync.async ? join(t, &params) : wait_for_version(t, work, &params);
    applied = t->sync.apply_ns - applied;
    t->figures.stage_ns[SL_STAGE_TRAIN] += applied;
    if (rc < 0) {
        sl_prefetch_release(&t->extract, work);
        return rc == SL_EAGAIN || rc == SL_ESTALE ? SL_OK : rc;
    }
    uint64_t began = sl_now_ns();
    struct sl_loss_result *result = t->result.p;
    rc = compute_gradient(t, work, &params, result);
    sl_prefetch_release(&t->extract, work);
    if (rc < 0 && t->sync.async)
        sl_param_store_withdraw(a, t->spec->device, t->spec->worker);
    SL_TRY(rc);
    const struct sl_config *config = t->spec->config;
    double least_seconds = work->standby ? config->throttle.standby : config->throttle.train;
    sl_heartbeat_sleep(&t->pulse, began + (uint64_t)(least_seconds * 1e9));
    const struct sl_work_times when = {
        .taken_ns = start,
        .from_ns = began,
        .to_ns = sl_now_ns(),
        .wait_ns = wait_ns + began - start - SL_MIN(applied, began - start),
    };
    record(t, work, result, &when);
    record_cores(t, work);
    measure_cores(t);
    SL_TRY(hand_over(t, work));
    return help(t);
}

// The parameters that a phase of evaluation uses, on the device.
static int evaluated_params(struct loop *t, const struct sl_lease *lease, const float **out)
{
    struct sl_arena *a = t->spec->arena;
    const struct sl_phase_spec *spec = &lease->phase->spec;
    const bool current = spec->params == SL_PARAMS_CURRENT;
    return sl_parameters_take(&t->parameters, current ? SL_PARAMETERS_VERSION : SL_PARAMETERS_PHASE,
                              current ? sl_param_store_version(a) : lease->seq,
                              sl_evaluate_params(a, spec), out);
}

// The model's outputs (rows, n_outputs) where the processor may read them, until the next batch;
// its loss, too, is there afterwards.
static int bring_outputs(struct loop *t, const float *outputs, uint64_t rows, const float **out)
{
    const struct sl_device *device = t->compute.device;
    *out = outputs;
    if (device->is_host)
        return SL_OK;
    size_t bytes = rows * t->spec->model->n_outputs * sizeof *outputs;
    SL_TRY(sl_buffer_grow(&t->outputs, device, SL_BUFFER_HOST, bytes, "outputs"));
    *out = t->outputs.p;
    SL_TRY(device->copy(t->outputs.p, outputs, bytes));
    return device->sync();
}

// Sampled evaluation of one block: its loss, and its seeds' predictions at their places in the
// list. A block that is evaluated again writes the same.
static int evaluate_block(struct loop *t, const struct sl_work *work, struct sl_loss_result *result)
{
    struct sl_arena *a = t->spec->arena;
    struct sl_model *model = t->spec->model;
    const struct sl_phase *phase = work->lease.phase;
    const struct sl_arena_spec *room = &a->h->spec;
    uint32_t n, words = sl_dataset_predict_words(t->spec->dataset);
    uint64_t first = sl_phase_range(phase, work->lease.cell, &n);
    if (first + n > room->predict_rows || words != room->predict_words ||
        n != work->block.header->n_seeds)
        return sl_fail(SL_EPROTO,
                       "the arena has room for %llu predictions of %u words, wanted %llu of %u",
                       (unsigned long long)room->predict_rows, room->predict_words,
                       (unsigned long long)(first + n), words);
    const float *params, *outputs;
    SL_TRY(evaluated_params(t, &work->lease, &params));
    SL_TRY(sl_model_evaluate(model, params, work->block, work->x, result, &outputs));
    SL_TRY(bring_outputs(t, outputs, n, &outputs));
    sl_objective_predict(model->objective, outputs, n,
                         (uint32_t *)sl_arena_predictions(a) + first * words);
    return SL_OK;
}

static int evaluate(struct loop *t, struct sl_work *work, uint64_t wait_ns)
{
    struct sl_arena *a = t->spec->arena;
    const struct sl_phase_spec *spec = &work->lease.phase->spec;
    struct sl_loss_result *result = t->result.p;
    uint64_t began = sl_now_ns();
    t->cores.on = false; // the next batch would have this in it
    if (t->spec->rows)
        t->spec->model->learned.rows =
            spec->params == SL_PARAMS_BEST ? t->spec->rows->best : t->spec->rows->values;
    if (spec->kind == SL_PHASE_EVAL) {
        int rc = evaluate_block(t, work, result);
        sl_prefetch_release(&t->extract, work);
        SL_TRY(rc);
    } else {
        struct sl_batch_entry *entry = work->lease.entry;
        const float *params;
        uint64_t edges;
        SL_TRY(evaluated_params(t, &work->lease, &params));
        SL_TRY(sl_evaluate_infer(t->spec->model, params, t->spec->dataset, a, &work->lease, result,
                                 &edges));
        SL_TRY(t->compute.device->sync());
        sl_phase_range(work->lease.phase, work->lease.cell, &entry->n_seeds);
        entry->n_edges = edges;
    }
    const struct sl_work_times when = {
        .taken_ns = began, .from_ns = began, .to_ns = sl_now_ns(), .wait_ns = wait_ns};
    record(t, work, result, &when);
    return complete(t, work);
}

// The part of the idle time that neither sleep nor extraction explains is waiting for a ready
// batch.
static uint64_t idle_ns(const struct loop *t, const struct sl_work *work)
{
    uint64_t idle = sl_now_ns() - SL_MAX(t->idle_since_ns, work->woken_at_ns);
    return idle - SL_MIN(idle, work->gathered.ns);
}

static int step(struct loop *t)
{
    struct sl_work work;
    uint32_t cores_seen = t->cores_seen;
    SL_TRY(sl_compute_follow_cores(t->spec->arena, t->spec->device, &t->cores_seen));
    t->cores.on &= cores_seen == t->cores_seen;
    const struct sl_exchange *x = t->sync.exchange;
    uint32_t wait_ms = x ? sl_exchange_poll_ms(x) : SL_ARENA_WAIT_MS;
    int rc = sl_prefetch_next(&t->extract, wait_ms, &work);
    // Nothing to do for a while: perhaps whoever was applying an update has died.
    if (rc == SL_ETIMEDOUT) {
        publish(t, 0); // what the device says of itself goes on
        return help(t);
    }
    SL_TRY(rc);
    publish(t, work.lease.tag);
    uint64_t wait_ns = idle_ns(t, &work);
    rc = work.lease.phase->spec.kind == SL_PHASE_TRAIN ? train(t, &work, wait_ns)
                                                       : evaluate(t, &work, wait_ns);
    // Asked to leave while the job goes on: somebody else must train it.
    if (rc == SL_EABORTED)
        sl_ledger_return(t->spec->arena, &work.lease);
    t->idle_since_ns = sl_now_ns();
    publish(t, 0);
    return rc;
}

static int join_group(struct loop *t)
{
    const struct sl_trainer_spec *spec = t->spec;
    const struct sl_exchange_spec exchange = {
        .arena = spec->arena,
        .worker = spec->worker,
        .compute = t->compute,
        .collective = spec->collective,
        .runs = &t->sync.runs,
        .pulse = &t->pulse,
    };
    if (!sl_group_exists(spec->arena))
        return SL_OK;
    SL_TRY(sl_exchange_init(&t->exchange, &exchange));
    t->sync.exchange = &t->exchange;
    return SL_OK;
}

int sl_trainer_run(const struct sl_trainer_spec *spec)
{
    struct loop t = {
        .spec = spec,
        .compute = sl_trainer_compute(spec),
        .pulse = {.arena = spec->arena, .stop = spec->stop, .slot = spec->stats},
    };
    spec->model->pulse = &t.pulse;
    const struct sl_sync_spec sync = {
        .config = spec->config,
        .n_params = spec->model->n_params,
        .tensors = spec->model->tensor,
        .n_tensors = spec->model->n_tensors,
        .arena = spec->arena,
        .worker = spec->worker,
        .device = spec->device,
        .kernels = t.compute.host,
        .memory = t.compute.device,
        .pulse = &t.pulse,
        .rows = spec->rows,
    };
    const struct sl_prefetch_spec extract = {
        .arena = spec->arena,
        .worker = spec->worker,
        .device = spec->device,
        .dataset = spec->dataset,
        .compute = t.compute,
        .on_gpu = sl_config_on_gpu(spec->config, spec->device),
        .gather = spec->gather,
        .fetches = spec->fetches,
        .shape = sl_model_block_shape(spec->model),
        .keeps_rows = sl_model_keeps_features(spec->model),
        .pulse = &t.pulse,
    };
    int rc = sl_sync_init(&t.sync, &sync);
    if (rc == SL_OK)
        rc = sl_parameters_init(&t.parameters, t.compute.device, spec->model->n_params,
                                &spec->model->rounded, sl_group_exists(spec->arena));
    if (rc == SL_OK)
        rc = sl_buffer_grow(&t.result, t.compute.device, SL_BUFFER_HOST,
                            sizeof(struct sl_loss_result), "a batch's loss");
    if (rc == SL_OK)
        rc = join_group(&t);
    if (rc == SL_OK)
        rc = sl_prefetch_start(&t.extract, &extract);
    t.idle_since_ns = sl_now_ns();
    while (rc == SL_OK && !sl_heartbeat_stopping(&t.pulse))
        rc = step(&t);
    // A sum that the others leave too never ends by itself, and what follows waits for the device.
    sl_exchange_leave(&t.exchange);
    // Memory that a lost GPU did not give is its fault and no lack of memory.
    if (rc == SL_ENOMEM && t.compute.device->sync() == SL_EDEVICE)
        rc = SL_EDEVICE;
    sl_prefetch_stop(&t.extract);
    sl_exchange_fini(&t.exchange);
    sl_parameters_fini(&t.parameters);
    sl_buffer_fini(&t.result);
    sl_buffer_fini(&t.outputs);
    sl_sync_fini(&t.sync);
    spec->model->pulse = NULL;
    return rc == SL_EABORTED ? SL_OK : rc;
}
