// A job's phases in an arena whose work the test itself does. For one test program each.
#ifndef SL_TESTS_UNIT_BROKER_PHASES_FIXTURE_H
#define SL_TESTS_UNIT_BROKER_PHASES_FIXTURE_H

#include "tests/unit/test_data_fixture.h"

#include <math.h>
#include <stdbool.h>

#include "broker/epochs/phases.h"
#include "common/data/shuffle.h"
#include "common/base/clock.h"
#include "common/arena/param_store.h"
#include "common/arena/visit_counts.h"
#include "common/arena/ledger_internal.h"
#include "common/arena/seat.h"
#include "tests/unit/broker_predictions.h"

static struct sl_config config;
static struct sl_plan plan;
static struct sl_nodes_spec nodes; // of the arena
static struct sl_phases_setup phases_setup;
static uint32_t vertices[300000];
static int32_t labels[SL_COUNT_OF(vertices)];
static struct sl_dataset dataset = {.task = SL_TASK_MULTICLASS, .n_classes = 3, .label = labels};

static struct {
    struct sl_phases phases;
    struct sl_loss_sum loss;
    struct sl_arena arena;
    uv_loop_t loop;
    int fd;
    int epochs;
    double losses[8], accuracies[8]; // of the first epochs
    bool complete;
    struct sl_epoch last;
    int ranked; // calls of on_ranked
} t;

static inline void on_epoch(void *ctx, const struct sl_epoch *figures)
{
    t.epochs++;
    t.last = *figures;
    if (figures->epoch < SL_COUNT_OF(t.losses)) {
        t.losses[(size_t)figures->epoch] = figures->loss;
        t.accuracies[(size_t)figures->epoch] = figures->on_val.value[SL_MEASURE_ACCURACY];
    }
}

static inline void on_complete(void *ctx)
{
    t.complete = true;
}

static inline void on_ranked(void *ctx, double seconds)
{
    ck_assert_double_ge(seconds, 0);
    t.ranked++;
}

static inline void on_error(void *ctx, int rc)
{
    ck_abort_msg("%s", sl_error_message());
}

static inline void setup(void)
{
    memset(&config, 0, sizeof config);
    memset(&t, 0, sizeof t);
    config.model.layers = 3;
    config.sampler.batch_size = 10;
    config.updates.batches_per_update = 2;
    config.allocation.samplers = config.allocation.trainers = 1;
    config.epochs = 4;
    config.seed = 11;
    config.evaluate.every = 1;
    config.evaluate.full = true;
    for (uint32_t i = 0; i < SL_COUNT_OF(vertices); i++)
        vertices[i] = i;
    plan = (struct sl_plan){
        .config = &config,
        .n_nodes = 5000,
        .split = {{35, vertices}, {20, vertices}, {30, vertices}},
    };
    phases_setup = (struct sl_phases_setup){
        .loop = &t.loop,
        .dataset = &dataset,
        .events = {.on_epoch = on_epoch,
                   .on_complete = on_complete,
                   .on_error = on_error,
                   .on_ranked = on_ranked},
    };
}

// The plan as text: t, v, e, x and p are training, validation, an epoch's test, the test and
// pre-sampling.
static inline void expect_plan(const char *want)
{
    static const char letter[] = "ptevx";
    char got[512] = "";
    struct sl_plan_step s = sl_plan_first(&plan);
    for (size_t n = 0; s.purpose != SL_PURPOSE_END; s = sl_plan_after(&plan, s))
        n += (size_t)snprintf(got + n, sizeof got - n, "%c%u%s", letter[s.purpose], s.epoch,
                              s.layer == 0   ? " "
                              : s.layer == 1 ? "' "
                                             : "\" ");
    ck_assert_str_eq(got, want);
}

// The arena, and phases that are not started yet.
static inline void init_arena(void)
{
    dataset.n_nodes = plan.n_nodes;
    const struct sl_arena_spec spec = {
        .n_devices = 2,
        .n_cells = (uint32_t)sl_phases_cells_max(&plan),
        .n_train = plan.split[SL_SPLIT_TRAIN].n,
        .nodes = nodes,
        .n_params = 3,
        .n_state = 2,
        .batches_per_update = config.updates.batches_per_update,
        .async = config.updates.mode == SL_UPDATE_ASYNC,
        .staleness = config.updates.staleness,
        .visit_rows = sl_ranking_needs_visits(&config) ? plan.n_nodes : 0,
        .hot_rows = sl_ranking_is_needed(&config) ? plan.n_nodes : 0,
        .predict_rows = SL_MAX(plan.split[SL_SPLIT_VAL].n, plan.split[SL_SPLIT_TEST].n),
        .predict_words = sl_dataset_predict_words(&dataset),
        .payload_bytes = 4 * SL_ARENA_CHUNK_BYTES,
    };
    t.fd = sl_arena_memfd();
    ck_assert_int_ge(t.fd, 0);
    must(sl_arena_create(t.fd, &spec, &t.arena));
    uv_loop_init(&t.loop);
    phases_setup.plan = plan;
    phases_setup.judged = sl_measure_choose(config.evaluate.metric, &dataset);
    must(sl_phases_init(&t.phases, &phases_setup, &t.arena));
}

static inline void make_arena(void)
{
    init_arena();
    sl_phases_start(&t.phases);
}

static inline uint64_t opened(void)
{
    return sl_ledger_opened(&t.arena);
}

static inline const struct sl_phase *phase(uint64_t seq)
{
    return sl_ledger_phase(&t.arena, seq);
}

static inline bool gated(uint64_t seq)
{
    return atomic_load(&sl_ledger_phase(&t.arena, seq)->gate) != 0;
}

// Draws one cell of the current phase. Vertex 7 is an input node of every batch, vertex 9 of those
// of even epochs.
static inline void sample_one(void)
{
    struct sl_lease l;
    must(sl_ledger_claim_sample(&t.arena, 1, SL_AHEAD_ALL, 1, &l));
    const struct sl_phase_spec *spec = &l.phase->spec;
    l.entry->digest = l.cell + 1;
    l.entry->n_input = 2;
    if (spec->count_visits)
        sl_visit_counts_count(&t.arena, (uint32_t[]){7, spec->epoch % 2 ? 8 : 9}, 2);
    if (spec->kind == SL_PHASE_PRESAMPLE)
        must(sl_ledger_complete(&t.arena, &l));
    else
        must(sl_ledger_publish(&t.arena, &l));
}

// Of an evaluation the first `correct` vertices of the cell are right.
static inline void train_one(uint64_t correct)
{
    struct sl_lease l;
    struct sl_update u;
    uint32_t items;
    must(sl_ledger_claim_train(&t.arena, 2, 1, &l));
    sl_phase_range(l.phase, l.cell, &items);
    leave_predictions(&t.arena, &l, true, 0, correct);
    l.entry->loss = l.entry->weight = items;
    l.entry->hits = l.phase->spec.rank_generation ? 1 : 0;
    must(sl_ledger_complete(&t.arena, &l));
    for (; sl_param_store_begin_update(&t.arena, 2, &u) == SL_OK;
         sl_param_store_commit_update(&t.arena, &u)) {
        sl_param_store_params(&t.arena, u.version + 1)[0] = (float)(u.version + 1);
        *sl_param_store_update_entry(&t.arena, &u) =
            (struct sl_update_entry){.from_ns = sl_now_ns()};
    }
}

// Does all work of the current phase that is left, as one sampler and one trainer would.
static inline void work_through(uint64_t correct_each)
{
    uint64_t seq = sl_ledger_current(&t.arena, SL_LANE_MAIN);
    struct sl_phase_spec spec = phase(seq)->spec;
    uint32_t n = (uint32_t)sl_div_up(spec.n_items, spec.batch_size);
    for (uint32_t i = 0; i < n; i++)
        if (sl_cell_state(sl_ledger_word(&t.arena, seq, i)) == SL_CELL_PENDING)
            sample_one();
    for (uint32_t i = 0; spec.kind != SL_PHASE_PRESAMPLE && i < n; i++)
        train_one(correct_each);
    ck_assert_uint_eq(sl_ledger_current(&t.arena, SL_LANE_MAIN), seq + 1);
}

#endif
