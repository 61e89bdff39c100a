/*
 * trainer_farm.h - a whole job in one process, for tests: a real arena, a thread that samples, and
 * threads, or processes that can be killed, that run sl_trainer_run(); the test's own thread is the
 * broker.
 *
 * The sampler sits on device 0, where a standby trainer may sit beside it; trainers sit on the last
 * devices.
 */
#ifndef SL_TESTS_UNIT_TRAINER_FARM_H
#define SL_TESTS_UNIT_TRAINER_FARM_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/arena/param_store.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/visit_counts.h"
#include "common/arena/seat.h"
#include "tests/unit/asserts.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/loop.h"
#include "trainer/model/sync.h"

#ifndef FARM_DEVICES // a test may want more
#define FARM_DEVICES 4
#endif

enum {
    FARM_TRAINERS = 3, // on duty at most: device 0 samples
    FARM_CELLS = 64,
    FARM_SAMPLER = 100,
    FARM_PROBE_BYTES = 1 << 20,
    // The small graph.
    FARM_NODES = 150,
    FARM_FEATURES = 6,
    FARM_CLASSES = 4,
};

struct farm_trainer {
    struct farm *farm;
    uint32_t worker, device;
    struct sl_model model;
    struct sl_gather gather;
    pthread_t thread;
    bool running;
    _Atomic bool stop;
    int rc;
};

struct farm {
    struct sl_config config;
    struct fixture_graph *g, small; // `small` is used by farm_init_small()
    const struct sl_kernels *kernels;
    int fd;
    struct sl_arena arena;
    struct sl_heartbeat pulse; // of the test's own thread
    uint32_t *rank_of;         // of the published order
    struct sl_model model;     // for its layout
    _Atomic bool stop;
    pthread_t sampler;
    bool sampling;
    struct farm_trainer trainer[8];
    uint32_t n_trainers;                    // threads started so far
    uint32_t n_workers;                     // ids given so far
    uint32_t rank_generation;               // of phases opened from now on
    uint64_t version;                       // parameters' version after the phases opened so far
    const struct sl_collective *collective; // of trainers started from now on
    const struct sl_device *device;         // of theirs; NULL = the host
};

// Of the farms that are made from now on.
static struct sl_nodes_spec farm_nodes;

static inline void farm_sleep_ms(uint32_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

// A small job with everything on.
static inline struct sl_config farm_job(uint32_t batches_per_update)
{
    struct sl_config c = fixture_config(SL_MODEL_GRAPHSAGE, 2, 7);
    c.model.dropout = 0.3;
    c.model.input_dropout = 0.1;
    c.sampler.fanout[0] = 4;
    c.sampler.fanout[1] = 3;
    c.updates.batches_per_update = batches_per_update;
    c.optimizer.weight_decay = 1e-3;
    return c;
}

// Arena and initial parameters; no thread yet.
static inline void farm_init(struct farm *f, const struct sl_config *config,
                             struct fixture_graph *g, const struct sl_kernels *kernels)
{
    *f = (struct farm){.config = *config, .g = g, .kernels = kernels};
    ck_assert_int_eq(fixture_model(&f->model, &f->config, g->ds.feat_dim, g->ds.n_classes, kernels),
                     SL_OK);
    struct sl_arena_spec spec = {
        .n_devices = FARM_DEVICES,
        .n_cells = FARM_CELLS,
        .n_train = g->ds.split[SL_SPLIT_TRAIN].n,
        .nodes = farm_nodes,
        .n_params = f->model.n_params,
        .n_state = sl_sync_state_arrays(config->optimizer.kind),
        .async = config->updates.mode == SL_UPDATE_ASYNC,
        .staleness = config->updates.staleness,
        .exchange = config->updates.exchange == SL_EXCHANGE_NCCL,
        .batches_per_update = config->updates.batches_per_update,
        .hot_rows = g->ds.n_nodes,
        .probe_bytes = FARM_PROBE_BYTES,
        .act_banks = SL_MIN(f->model.n_layers - 1, 2u),
        .act_rows = g->ds.n_nodes,
        .act_width = sl_model_infer_width(&f->model),
        .jumping_width = sl_jumping_width(&f->model.jumping),
        .predict_rows = SL_MAX(g->ds.split[SL_SPLIT_VAL].n, g->ds.split[SL_SPLIT_TEST].n),
        .predict_words = sl_dataset_predict_words(&g->ds),
        .payload_bytes = 24 * SL_ARENA_CHUNK_BYTES,
    };
    f->fd = sl_arena_memfd();
    ck_assert_int_ge(f->fd, 0);
    ck_assert_int_eq(sl_arena_create(f->fd, &spec, &f->arena), SL_OK);
    f->pulse = (struct sl_heartbeat){.arena = &f->arena};
    float *p = fixture_params(&f->model, 21);
    memcpy(sl_param_store_params(&f->arena, 0), p, f->model.n_params * sizeof *p);
    free(p);
    sl_seat_set_duty(&f->arena, 0, SL_DUTY_WORK);
}

// The same on a small graph of the farm's own.
static inline void farm_init_small(struct farm *f, const struct sl_config *config,
                                   const struct sl_kernels *kernels)
{
    struct fixture_graph g = fixture_graph(FARM_NODES, FARM_FEATURES, FARM_CLASSES, 31);
    farm_init(f, config, &g, kernels);
    f->small = g;
    f->g = &f->small;
}

// Without options, by the reference.
static inline void farm_init_plain(struct farm *f, uint32_t batches_per_update)
{
    const struct sl_config c = farm_job(batches_per_update);
    farm_init_small(f, &c, sl_kernels_ref());
}

// --- the hotness order ---

// Some order of the vertices becomes the hotness order; phases opened from now on have its ranks.
static inline void farm_publish_order(struct farm *f, uint32_t generation)
{
    uint32_t n = (uint32_t)f->g->ds.n_nodes;
    uint32_t *order = sl_visit_counts_order(&f->arena), *rank = fixture_alloc(n * sizeof *rank);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    struct fixture_rng r = {.seed = generation};
    for (uint32_t i = n; i-- > 1;) {
        uint32_t j = fixture_word(&r) % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (uint32_t i = 0; i < n; i++)
        rank[order[i]] = i;
    free(f->rank_of);
    f->rank_of = rank;
    f->rank_generation = generation;
    sl_visit_counts_publish(&f->arena, generation);
}

static inline struct sl_seat *farm_seat(struct farm *f, uint32_t device)
{
    return sl_seat(&f->arena, sl_seat_trainer(&f->arena, device));
}

// Of worker 1, as the trainer of a device without a thread.
static inline struct sl_sync_spec farm_sync_spec(struct farm *f, const struct sl_config *config,
                                                 uint32_t device)
{
    return (struct sl_sync_spec){.config = config,
                                 .n_params = f->model.n_params,
                                 .tensors = f->model.tensor,
                                 .n_tensors = f->model.n_tensors,
                                 .arena = &f->arena,
                                 .worker = 1,
                                 .device = device,
                                 .kernels = sl_kernels_ref(),
                                 .pulse = &f->pulse};
}

// --- the sampler ---

static inline const uint32_t *farm_seeds(struct farm *f, const struct sl_lease *lease, uint32_t *n)
{
    const struct sl_phase_spec *spec = &lease->phase->spec;
    uint64_t first = sl_phase_range(lease->phase, lease->cell, n);
    if (spec->set == SL_SET_TRAIN)
        return sl_arena_order(&f->arena, spec->order_bank) + first;
    return f->g->ds.split[spec->set == SL_SET_VAL ? SL_SPLIT_VAL : SL_SPLIT_TEST].ids + first;
}

static inline struct sl_block *farm_block(struct farm *f, const uint32_t *seeds, uint32_t n,
                                          uint32_t epoch, uint32_t cell)
{
    return fixture_block(&f->g->ds, seeds, n, f->config.model.layers, f->config.sampler.fanout,
                         epoch, cell);
}

// Draws the batch of a lease and publishes it.
static inline void farm_publish(struct farm *f, const struct sl_lease *lease)
{
    uint32_t n;
    const uint32_t *seeds = farm_seeds(f, lease, &n);
    struct sl_block *b = farm_block(f, seeds, n, lease->phase->spec.epoch, lease->cell);
    if (lease->phase->spec.rank_generation)
        b = fixture_rank(b, f->rank_of, lease->phase->spec.rank_generation);
    struct sl_extent extent;
    int rc;
    while ((rc = sl_payload_alloc(&f->arena, lease, b->bytes, 100, &extent)) == SL_ETIMEDOUT)
        ;
    if (rc == SL_OK) {
        memcpy(f->arena.base + extent.offset, b, b->bytes);
        lease->entry->payload_offset = extent.offset;
        lease->entry->payload_bytes = extent.bytes;
        lease->entry->n_seeds = b->n_seeds;
        lease->entry->n_input = b->n_input;
        lease->entry->n_edges = b->n_edges;
        lease->entry->sampler = FARM_SAMPLER;
        sl_ledger_publish(&f->arena, lease);
    }
    free(b);
}

// One batch, drawn and published by the caller.
static inline struct sl_lease farm_sample_one(struct farm *f)
{
    struct sl_lease lease;
    ck_assert_int_eq(sl_ledger_claim_sample(&f->arena, FARM_SAMPLER, SL_AHEAD_ALL, 0, &lease),
                     SL_OK);
    farm_publish(f, &lease);
    return lease;
}

static inline void *farm_sample(void *arg)
{
    struct farm *f = arg;
    sl_seat_set_activity(&f->arena, 0, SL_ACTIVITY_BUSY);
    while (!atomic_load(&f->stop)) {
        struct sl_lease lease;
        int rc = sl_ledger_claim_sample(&f->arena, FARM_SAMPLER, SL_AHEAD_ALL, 50, &lease);
        if (rc == SL_EABORTED)
            break;
        if (rc == SL_OK)
            farm_publish(f, &lease);
    }
    return NULL;
}

static inline void farm_start_sampler(struct farm *f)
{
    f->sampling = pthread_create(&f->sampler, NULL, farm_sample, f) == 0;
    ck_assert(f->sampling);
}

// --- the trainers ---

static inline struct sl_trainer_spec farm_trainer_spec(struct farm_trainer *t)
{
    struct farm *f = t->farm;
    uint32_t slot = sl_seat_trainer(&f->arena, t->device);
    return (struct sl_trainer_spec){
        .arena = &f->arena,
        .worker = t->worker,
        .device = t->device,
        .config = &f->config,
        .dataset = &f->g->ds,
        .collective = f->collective,
        .model = &t->model,
        .gather = &t->gather,
        .stats = sl_stats_slot(&f->arena, slot),
        .stop = &t->stop,
    };
}

static inline void *farm_train(void *arg)
{
    struct farm_trainer *t = arg;
    const struct sl_trainer_spec spec = farm_trainer_spec(t);
    sl_stats_begin(spec.stats, t->worker);
    t->rc = sl_trainer_run(&spec);
    return NULL;
}

static inline void farm_prepare(struct farm *f, struct farm_trainer *t, uint32_t device)
{
    const struct sl_device *memory = f->device ? f->device : sl_device_host();
    const struct sl_compute compute = {memory, f->kernels,
                                       memory->is_host ? f->kernels : sl_kernels_cpu()};
    t->farm = f;
    t->worker = ++f->n_workers;
    t->device = device;
    ck_assert_int_eq(
        fixture_model(&t->model, &f->config, f->g->ds.feat_dim, f->g->ds.n_classes, f->kernels),
        SL_OK);
    t->model.env.device = compute.device;
    sl_gather_init(&t->gather, &compute, &f->g->ds, SL_GATHER_FASTER);
}

static inline void farm_release(struct farm_trainer *t)
{
    sl_gather_fini(&t->gather);
    sl_model_fini(&t->model);
}

static inline uint32_t farm_on_duty(struct farm *f)
{
    return atomic_load(&sl_schedule_of(&f->arena)->trainers);
}

// The duty of a device's trainer, and how many are on duty.
static inline void farm_set_duty(struct farm *f, uint32_t device, enum sl_duty duty)
{
    uint32_t n = 0, seat = sl_seat_trainer(&f->arena, device);
    for (uint32_t d = 0; d < FARM_DEVICES; d++)
        n += d == device ? duty == SL_DUTY_WORK : farm_seat(f, d)->duty == SL_DUTY_WORK;
    atomic_store(&sl_schedule_of(&f->arena)->trainers, n);
    sl_seat_set_duty(&f->arena, seat, duty);
}

// A thread as the trainer of a device that has none.
static inline struct farm_trainer *farm_start(struct farm *f, uint32_t device, enum sl_duty duty)
{
    struct farm_trainer *t = &f->trainer[f->n_trainers++];
    ck_assert_uint_le(f->n_trainers, SL_COUNT_OF(f->trainer));
    farm_prepare(f, t, device);
    farm_set_duty(f, device, duty);
    ck_assert_int_eq(pthread_create(&t->thread, NULL, farm_train, t), 0);
    t->running = true;
    return t;
}

// One more trainer on duty, on the last device that has none.
static inline void farm_start_trainer(struct farm *f)
{
    farm_start(f, FARM_DEVICES - 1 - farm_on_duty(f), SL_DUTY_WORK);
}

// As the message Stop does, while the job goes on.
static inline void farm_stop_trainer(struct farm *f, struct farm_trainer *t)
{
    atomic_store(&t->stop, true);
    sl_event_signal(&f->arena.h->work);
    pthread_join(t->thread, NULL);
    t->running = false;
    ck_assert_int_eq(t->rc, SL_OK);
    farm_release(t);
    farm_set_duty(f, t->device, SL_DUTY_NONE);
    sl_seat_vacate(&f->arena, sl_seat_trainer(&f->arena, t->device));
}

/*
 * A process that is to be the trainer of a device, with SLUICE_FAILPOINT: stopped until
 * farm_wake(). Returns its id, *worker its number. It is made before the farm has threads: a child
 * of a process with threads may inherit an allocator that one of them has locked (GCC 12's
 * AddressSanitizer).
 */
static inline pid_t farm_fork(struct farm *f, uint32_t device, const char *failpoint,
                              uint32_t *worker)
{
    ck_assert(!f->sampling && f->n_trainers == 0);
    struct farm_trainer t = {0};
    farm_prepare(f, &t, device);
    *worker = t.worker;
    fflush(NULL);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        raise(SIGSTOP);
        setenv("SLUICE_FAILPOINT", failpoint, 1);
        if (sl_failpoint_init() < 0)
            _exit(2);
        sl_failpoint_bind(f->arena.h->failpoint);
        const struct sl_trainer_spec spec = farm_trainer_spec(&t);
        sl_stats_begin(spec.stats, t.worker);
        _exit(sl_trainer_run(&spec) == SL_OK ? 0 : 1);
    }
    int status;
    ck_assert(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    farm_release(&t);
    return pid;
}

static inline void farm_wake(struct farm *f, pid_t pid, uint32_t device, enum sl_duty duty)
{
    farm_set_duty(f, device, duty);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
}

// What the broker does about a dead trainer.
static inline void farm_bury(struct farm *f, uint32_t worker, uint32_t device)
{
    struct sl_reclaimed ignored;
    sl_ledger_reclaim(&f->arena, worker, &ignored);
    sl_seat_vacate(&f->arena, sl_seat_trainer(&f->arena, device));
}

static inline void farm_fini(struct farm *f)
{
    sl_arena_abort(&f->arena, SL_ABORT_STOP);
    atomic_store(&f->stop, true);
    for (uint32_t i = 0; i < f->n_trainers; i++) {
        if (!f->trainer[i].running)
            continue;
        pthread_join(f->trainer[i].thread, NULL);
        ck_assert_int_eq(f->trainer[i].rc, SL_OK);
        farm_release(&f->trainer[i]);
    }
    if (f->sampling)
        pthread_join(f->sampler, NULL);
    free(f->rank_of);
    sl_model_fini(&f->model);
    sl_arena_detach(&f->arena);
    close(f->fd);
    fixture_graph_free(&f->small);
}

// --- the broker ---

// The epoch's order: the training list, rotated.
static inline void farm_order(const struct farm *f, uint32_t epoch, uint32_t *out)
{
    const struct sl_vertex_list *list = &f->g->ds.split[SL_SPLIT_TRAIN];
    for (uint64_t i = 0; i < list->n; i++)
        out[i] = list->ids[(i * 7 + epoch * 11) % list->n];
}

static inline uint64_t farm_open(struct farm *f, const struct sl_phase_spec *spec)
{
    uint64_t seq;
    ck_assert_int_eq(sl_ledger_open_phase(&f->arena, spec, &seq), SL_OK);
    return seq;
}

static inline uint32_t farm_batches(const struct farm *f)
{
    return (uint32_t)sl_div_up(f->g->ds.split[SL_SPLIT_TRAIN].n, f->config.sampler.batch_size);
}

static inline uint64_t farm_open_train(struct farm *f, uint32_t epoch)
{
    farm_order(f, epoch, sl_arena_order(&f->arena, epoch));
    const struct sl_phase_spec spec = {
        .kind = SL_PHASE_TRAIN,
        .set = SL_SET_TRAIN,
        .epoch = epoch,
        .order_bank = epoch & 1,
        .rank_generation = f->rank_generation,
        .batch_size = (uint32_t)f->config.sampler.batch_size,
        .n_items = f->g->ds.split[SL_SPLIT_TRAIN].n,
        .first_version = f->version,
    };
    f->version += sl_div_up(farm_batches(f), f->config.updates.batches_per_update);
    return farm_open(f, &spec);
}

// Waits until the condition holds; the test's own time-out is the only bound, since a test may move
// the clock.
#define farm_until(condition)                                                                      \
    do {                                                                                           \
        while (!(condition))                                                                       \
            farm_sleep_ms(1);                                                                      \
    } while (0)

static inline void farm_wait(struct farm *f, uint64_t seq)
{
    farm_until(sl_ledger_phase_complete(&f->arena, seq));
}

// Waits until a thread has looked at all there is and found out what that means for it: it has
// begun to look after this call, and come to the end of that look.
static inline void farm_comes_round(struct farm *f, uint32_t device, enum sl_thread thread)
{
    const struct sl_worker_slot *slot =
        sl_stats_slot(&f->arena, sl_seat_trainer(&f->arena, device));
    uint64_t beats = atomic_load(&slot->words.beats[thread]);
    farm_until(atomic_load(&slot->words.beats[thread]) >= beats + 4); // two a turn
}

static inline void farm_trainers_come_round(struct farm *f)
{
    for (uint32_t i = 0; i < f->n_trainers; i++)
        for (uint32_t thread = 0; f->trainer[i].running && thread <= SL_THREAD_EXTRACT; thread++)
            farm_comes_round(f, f->trainer[i].device, (enum sl_thread)thread);
}

// Full-neighbour inference of a split with the given parameters.
static inline struct sl_loss_result farm_infer(struct farm *f, enum sl_vertex_set set,
                                               enum sl_param_set params, uint32_t rows)
{
    uint32_t layers = f->config.model.layers;
    uint64_t seq = 0, n_cells = 0;
    for (uint32_t l = 0; l < layers; l++) {
        bool last = l + 1 == layers;
        const struct sl_phase_spec spec = {
            .kind = SL_PHASE_INFER,
            .set = last ? set : SL_SET_ALL,
            .params = params,
            .layer = l,
            .last_layer = last,
            .batch_size = rows,
            .n_items = last ? f->g->ds.split[set == SL_SET_VAL ? SL_SPLIT_VAL : SL_SPLIT_TEST].n
                            : f->g->ds.n_nodes,
        };
        n_cells = sl_div_up(spec.n_items, rows);
        seq = farm_open(f, &spec);
    }
    farm_wait(f, seq);
    struct sl_loss_result sum = {0};
    for (uint32_t c = 0; c < n_cells; c++) {
        const struct sl_batch_entry *e = sl_ledger_entry(&f->arena, seq, c);
        sum.loss += e->loss;
        sum.correct += e->correct;
        sum.counted += e->counted;
    }
    return sum;
}

#endif
