// Ordered updates and the loop on a real arena, with threads as trainers.
#include "tests/unit/trainer_farm.h"

#include "tests/unit/suite.h"
#include "tests/unit/trainer_oracle.h"
#include "trainer/infer/evaluate.h"

static void train_like_plain(const struct sl_config *config, const struct sl_kernels *kernels,
                             uint32_t n_trainers)
{
    struct sl_config c = *config;
    c.allocation.trainers = n_trainers;
    struct farm f;
    farm_init_small(&f, &c, kernels);
    float *wanted = oracle_train(&f);
    farm_start_sampler(&f);
    for (uint32_t i = 0; i < n_trainers; i++)
        farm_start_trainer(&f);
    oracle_run_epochs(&f);
    oracle_compare(&f, wanted);
    farm_fini(&f);
    free(wanted);
}

// 50 training vertices in batches of 8: 7 batches, the last of 2; updates of 1, 2, 3 and 16.
LOOP_TEST(any_number_of_trainers_gives_the_same_bits, 1, FARM_TRAINERS + 1)
{
    static const uint32_t per_update[] = {1, 2, 3, 16};
    for (size_t i = 0; i < SL_COUNT_OF(per_update); i++) {
        struct sl_config c = farm_job(per_update[i]);
        train_like_plain(&c, sl_kernels_ref(), (uint32_t)_i);
    }
}

// Running statistics are chained in the order of the batches, whoever trains them.
LOOP_TEST(running_statistics_too, 0, 3)
{
    sl_kernels_set_threads(1);
    struct sl_config c = farm_job(2);
    c.model.norm = SL_NORM_BATCH;
    c.optimizer.kind = SL_OPTIMIZER_ADAMW;
    train_like_plain(&c, _i ? sl_kernels_cpu() : sl_kernels_ref(), 1 + (uint32_t)_i);
}

// A trainer dies with a lease on the first batch while the only other one already holds the next
// two: it must give way, or nobody could ever train the first batch.
TEST(batches_of_a_dead_trainer_are_trained_by_the_only_other_one)
{
    struct farm f;
    farm_init_plain(&f, 1);
    float *wanted = oracle_train(&f);
    farm_start_sampler(&f);
    uint64_t seq = farm_open_train(&f, 0);
    struct sl_lease dead;
    ck_assert_int_eq(sl_ledger_claim_train(&f.arena, 9, 5000, &dead), SL_OK);
    ck_assert_uint_eq(dead.cell, 0);
    farm_start_trainer(&f);
    farm_until(sl_cell_state(sl_ledger_word(&f.arena, seq, 2)) == SL_CELL_TRAINING);
    ck_assert_uint_eq(sl_param_store_version(&f.arena), 0);
    struct sl_reclaimed reclaimed;
    sl_ledger_reclaim(&f.arena, 9, &reclaimed);
    ck_assert_uint_eq(reclaimed.retrain, 1);
    farm_wait(&f, seq);
    for (uint32_t epoch = 1; epoch < ORACLE_EPOCHS; epoch++)
        farm_wait(&f, farm_open_train(&f, epoch));
    oracle_compare(&f, wanted);
    farm_fini(&f);
    free(wanted);
}

// --- updates alone ---

struct updates {
    struct farm f;
    struct sl_sync sync;
    struct sl_lease lease[2];
};

// A farm without threads with one phase, and a sync for worker 1. n cells are sampled and claimed.
static void updates_init(struct updates *u, uint32_t per_update, uint32_t n)
{
    struct sl_config c = farm_job(per_update);
    c.optimizer.kind = SL_OPTIMIZER_SGD;
    c.optimizer.lr = 1;
    c.optimizer.weight_decay = 0;
    farm_init_small(&u->f, &c, sl_kernels_ref());
    const struct sl_sync_spec spec = farm_sync_spec(&u->f, &c, 1);
    ck_assert_int_eq(sl_sync_init(&u->sync, &spec), SL_OK);
    farm_open_train(&u->f, 0);
    for (uint32_t i = 0; i < n; i++) {
        farm_sample_one(&u->f);
        ck_assert_int_eq(sl_ledger_claim_train(&u->f.arena, 1, 0, &u->lease[i]), SL_OK);
    }
}

static void updates_fini(struct updates *u)
{
    sl_sync_fini(&u->sync);
    farm_fini(&u->f);
}

// Completes batch i with a constant gradient.
static void updates_complete(struct updates *u, uint32_t i, float gradient, double weight)
{
    float *g = sl_param_store_gradient(&u->f.arena, u->lease[i].cell);
    for (uint64_t k = 0; k < u->f.model.n_params; k++)
        g[k] = gradient;
    u->lease[i].entry->weight = weight;
    ck_assert_int_eq(sl_ledger_complete(&u->f.arena, &u->lease[i]), SL_OK);
}

static void assert_moved_by(struct updates *u, uint64_t version, float by)
{
    ck_assert_uint_eq(sl_param_store_version(&u->f.arena), version);
    float *start = fixture_params(&u->f.model, 21);
    for (uint64_t k = 0; k < u->f.model.n_params; k++)
        ck_assert_float_eq_tol(sl_param_store_params(&u->f.arena, version)[k], start[k] - by,
                               1e-5f);
    free(start);
}

TEST(update_divides_the_summed_gradient_by_the_seeds)
{
    struct updates u;
    updates_init(&u, 2, 2);
    updates_complete(&u, 1, 6, 5);
    ck_assert_int_eq(sl_sync_help(&u.sync), SL_OK);
    ck_assert_uint_eq(sl_param_store_version(&u.f.arena), 0); // the first batch is missing
    updates_complete(&u, 0, 2, 3);
    ck_assert_int_eq(sl_sync_help(&u.sync), SL_OK);
    assert_moved_by(&u, 1, (2.0f + 6.0f) / 8);
    ck_assert_uint_eq(u.sync.applied, 1);
    ck_assert_int_eq(sl_sync_help(&u.sync), SL_OK);
    ck_assert_uint_eq(sl_param_store_version(&u.f.arena), 1);
    updates_fini(&u);
}

TEST(update_without_labelled_seeds_moves_nothing)
{
    struct updates u;
    updates_init(&u, 1, 1);
    updates_complete(&u, 0, 0, 0);
    ck_assert_int_eq(sl_sync_help(&u.sync), SL_OK);
    assert_moved_by(&u, 1, 0);
    updates_fini(&u);
}

TEST(update_of_a_dead_trainer_is_done_again)
{
    struct updates u;
    updates_init(&u, 1, 1);
    updates_complete(&u, 0, 4, 4);
    struct sl_update half;
    ck_assert_int_eq(sl_param_store_begin_update(&u.f.arena, 9, &half), SL_OK);
    // It wrote rubbish into the other bank before it died.
    for (uint64_t k = 0; k < u.f.model.n_params; k++)
        sl_param_store_params(&u.f.arena, 1)[k] = NAN;
    ck_assert_int_eq(sl_sync_help(&u.sync), SL_OK);
    ck_assert_uint_eq(sl_param_store_version(&u.f.arena), 0); // its lock holds
    struct sl_reclaimed reclaimed;
    sl_ledger_reclaim(&u.f.arena, 9, &reclaimed);
    ck_assert_int_eq(sl_sync_help(&u.sync), SL_OK);
    assert_moved_by(&u, 1, 1);
    updates_fini(&u);
}

// The time of an update is the last applier's alone: those who died before the commit add nothing,
// neither to the batch nor to the update.
TEST(time_of_an_update_that_is_done_again_counts_once)
{
    struct updates u;
    struct sl_reclaimed reclaimed;
    updates_init(&u, 1, 1);
    u.lease[0].entry->train_ns = 7;
    updates_complete(&u, 0, 4, 4);
    for (int deaths = 0; deaths < 3; deaths++) {
        pid_t pid = fork();
        if (pid == 0) {
            setenv("SLUICE_FAILPOINT", "trainer_applied", 1);
            if (sl_failpoint_init() == SL_OK)
                sl_sync_help(&u.sync);
            _exit(0);
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        ck_assert_uint_eq(sl_param_store_version(&u.f.arena), 0);
        ck_assert(!sl_param_store_is_applied(&u.f.arena, u.lease[0].seq, 0));
        sl_ledger_reclaim(&u.f.arena, 1, &reclaimed);
    }
    const struct sl_update_entry *e = sl_ledger_update(&u.f.arena, u.lease[0].seq, 0);
    ck_assert_uint_ne(e->from_ns, 0); // as the dead one left it
    ck_assert_int_eq(sl_sync_help(&u.sync), SL_OK);
    assert_moved_by(&u, 1, 1);
    ck_assert(sl_param_store_is_applied(&u.f.arena, u.lease[0].seq, 0));
    ck_assert_uint_eq(u.lease[0].entry->train_ns, 7);
    ck_assert_uint_eq(e->took_ns, u.sync.apply_ns);
    ck_assert_uint_eq(e->applier, 1);
    updates_fini(&u);
}

TEST(waiting_for_a_version_helps_times_out_and_notices_the_end)
{
    struct updates u;
    updates_init(&u, 1, 2);
    ck_assert_int_eq(sl_sync_wait(&u.sync, &u.lease[0], 0), SL_OK);
    uint64_t expired = sl_event_expired();
    ck_assert_int_eq(sl_sync_wait(&u.sync, &u.lease[1], 30), SL_ETIMEDOUT);
    ck_assert_uint_gt(sl_event_expired(), expired); // it slept
    struct sl_lease first = u.lease[0];
    updates_complete(&u, 0, 4, 4);
    // Nobody else applies the update that this batch waits for.
    ck_assert_int_eq(sl_sync_wait(&u.sync, &u.lease[1], 30), SL_OK);
    assert_moved_by(&u, 1, 1);
    ck_assert_int_eq(sl_sync_wait(&u.sync, &first, 30), SL_ESTALE);
    sl_arena_abort(&u.f.arena, SL_ABORT_STOP);
    ck_assert_int_eq(sl_sync_wait(&u.sync, &u.lease[1], 30), SL_EABORTED);
    updates_fini(&u);
}

TEST(arena_of_another_shape_is_refused)
{
    struct updates u;
    updates_init(&u, 1, 1);
    struct sl_sync other;
    struct sl_config c = u.f.config;
    struct sl_sync_spec spec = farm_sync_spec(&u.f, &c, 1);
    spec.n_params++;
    ck_assert_int_eq(sl_sync_init(&other, &spec), SL_EPROTO);
    spec = farm_sync_spec(&u.f, &c, 1);
    spec.device = FARM_DEVICES;
    ck_assert_int_eq(sl_sync_init(&other, &spec), SL_EPROTO);
    spec.device = 0;
    c.optimizer.kind = SL_OPTIMIZER_ADAM;
    ck_assert_int_eq(sl_sync_init(&other, &spec), SL_EPROTO);
    c = u.f.config;
    c.updates.mode = SL_UPDATE_ASYNC;
    ck_assert_int_eq(sl_sync_init(&other, &spec), SL_EPROTO);
    updates_fini(&u);
}

// --- phases of evaluation through the loop ---

static struct sl_loss_result direct(struct farm *f, const float *params, enum sl_split split,
                                    const int64_t *fanout)
{
    struct sl_loss_result sum = {0};
    const struct sl_vertex_list *list = &f->g->ds.split[split];
    for (uint64_t first = 0; first < list->n; first += f->config.sampler.batch_size) {
        uint32_t n = (uint32_t)SL_MIN(f->config.sampler.batch_size, list->n - first);
        struct sl_block *b =
            fixture_block(&f->g->ds, list->ids + first, n, f->config.model.layers, fanout, 0, 0);
        float *x = fixture_input(&f->g->ds, b);
        struct sl_loss_result part;
        ck_assert_int_eq(sl_model_evaluate(&f->model, params, sl_block_here(b), x, &part, NULL),
                         SL_OK);
        sum.loss += part.loss;
        sum.correct += part.correct;
        sum.counted += part.counted;
        free(x);
        free(b);
    }
    return sum;
}

static void assert_same_result(struct sl_loss_result found, struct sl_loss_result wanted)
{
    ck_assert_uint_eq(found.counted, wanted.counted);
    ck_assert_uint_eq(found.correct, wanted.correct);
    ck_assert_double_eq_tol(found.loss, wanted.loss, 1e-4 * wanted.loss);
}

// What was left for the validation list has as many right as were counted.
static void assert_predictions(struct farm *f, uint64_t correct)
{
    const uint32_t *class = sl_arena_predictions(&f->arena);
    const struct sl_vertex_list *list = &f->g->ds.split[SL_SPLIT_VAL];
    uint64_t right = 0;
    for (uint64_t i = 0; i < list->n; i++) {
        ck_assert_uint_lt(class[i], FARM_CLASSES);
        right += (int32_t) class[i] == f->g->label[list->ids[i]];
    }
    ck_assert_uint_eq(right, correct);
}

LOOP_TEST(evaluation_phases_count_with_the_parameters_they_name, 0, 2)
{
    static const int64_t all[] = {-1, -1, -1};
    struct sl_config c = farm_job(2);
    c.model.kind = _i ? SL_MODEL_GCN : SL_MODEL_GRAPHSAGE;
    c.model.layers = 3;
    c.sampler.fanout[2] = 2;
    struct farm f;
    farm_init_small(&f, &c, sl_kernels_ref());
    float *best = fixture_params(&f.model, 77);
    memcpy(sl_param_store_best(&f.arena), best, f.model.n_params * sizeof *best);
    farm_start_sampler(&f);
    farm_start_trainer(&f);
    farm_start_trainer(&f);
    farm_wait(&f, farm_open_train(&f, 0));
    const float *now = sl_param_store_params(&f.arena, f.version);
    struct sl_loss_result val = farm_infer(&f, SL_SET_VAL, SL_PARAMS_CURRENT, 11);
    assert_same_result(val, direct(&f, now, SL_SPLIT_VAL, all));
    assert_predictions(&f, val.correct);
    assert_same_result(farm_infer(&f, SL_SET_TEST, SL_PARAMS_BEST, 40),
                       direct(&f, best, SL_SPLIT_TEST, all));
    const struct sl_phase_spec spec = {.kind = SL_PHASE_EVAL,
                                       .set = SL_SET_VAL,
                                       .params = SL_PARAMS_CURRENT,
                                       .batch_size = (uint32_t)c.sampler.batch_size,
                                       .n_items = f.g->ds.split[SL_SPLIT_VAL].n};
    memset(sl_arena_predictions(&f.arena), 0xff, spec.n_items * sizeof(uint32_t));
    uint64_t seq = farm_open(&f, &spec);
    farm_wait(&f, seq);
    struct sl_loss_result sum = {0};
    for (uint32_t i = 0; i < sl_div_up(spec.n_items, spec.batch_size); i++) {
        sum.loss += sl_ledger_entry(&f.arena, seq, i)->loss;
        sum.correct += sl_ledger_entry(&f.arena, seq, i)->correct;
        sum.counted += sl_ledger_entry(&f.arena, seq, i)->counted;
    }
    assert_same_result(sum, direct(&f, now, SL_SPLIT_VAL, c.sampler.fanout));
    assert_predictions(&f, sum.correct);
    struct sl_worker_totals figures;
    uint64_t batches = 0, training = 0;
    for (uint32_t d = 1; d <= 2; d++) {
        uint32_t slot = sl_seat_trainer(&f.arena, FARM_DEVICES - d);
        ck_assert(sl_stats_read(sl_stats_slot(&f.arena, slot), &figures));
        batches += figures.batches;
        training += figures.training;
    }
    ck_assert_uint_eq(training, farm_batches(&f));
    ck_assert_uint_ge(batches, farm_batches(&f) + sl_div_up(spec.n_items, spec.batch_size));
    free(best);
    farm_fini(&f);
}

TEST(impossible_phase_of_inference_is_refused)
{
    struct farm f;
    farm_init_plain(&f, 1);
    const struct sl_phase_spec wrong[] = {
        {.kind = SL_PHASE_INFER, .set = SL_SET_ALL, .layer = 2, .batch_size = 10, .n_items = 20},
        {.kind = SL_PHASE_INFER, .set = SL_SET_TRAIN, .batch_size = 10, .n_items = 20},
        {.kind = SL_PHASE_INFER, .set = SL_SET_ALL, .batch_size = 1000, .n_items = FARM_NODES + 1},
    };
    for (size_t i = 0; i < SL_COUNT_OF(wrong); i++) {
        struct sl_lease lease;
        struct sl_loss_result result;
        uint64_t edges;
        farm_open(&f, &wrong[i]);
        while (sl_ledger_claim_train(&f.arena, 1, 0, &lease) == SL_OK) {
            ck_assert_int_eq(sl_evaluate_infer(&f.model,
                                               sl_evaluate_params(&f.arena, &lease.phase->spec),
                                               &f.g->ds, &f.arena, &lease, &result, &edges),
                             SL_EPROTO);
            ck_assert_int_eq(sl_ledger_complete(&f.arena, &lease), SL_OK);
        }
    }
    farm_fini(&f);
}

TEST(an_abort_wakes_everybody)
{
    struct farm f;
    farm_init_plain(&f, 2);
    farm_start_trainer(&f);
    farm_start_trainer(&f);
    // One trainer waits for a version that never comes, all wait for batches.
    farm_open_train(&f, 0);
    farm_trainers_come_round(&f);
    struct sl_event *events[] = {&f.arena.h->work, &f.arena.h->progress};
    uint32_t seen[SL_COUNT_OF(events)];
    for (uint32_t i = 0; i < SL_COUNT_OF(events); i++)
        seen[i] = sl_event_read(events[i]);
    sl_arena_abort(&f.arena, SL_ABORT_STOP);
    for (uint32_t i = 0; i < SL_COUNT_OF(events); i++)
        ck_assert_msg(sl_event_read(events[i]) != seen[i], "event %u is not signalled", i);
    farm_fini(&f); // joins
}

RUN_TESTS(.timeout_s = 120)
