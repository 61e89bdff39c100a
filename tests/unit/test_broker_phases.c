// The plan of a job, and how its phases are opened ahead, gated and read, without any worker.
#include "tests/unit/test_data_fixture.h"

#include <stdbool.h>

#include "broker/phases.h"
#include "broker/shuffle.h"
#include "common/ipc/board.h"

static struct sl_config config;
static struct sl_phases_setup plan;
static uint32_t vertices[100000];

static struct {
    struct sl_phases phases;
    struct sl_arena arena;
    uv_loop_t loop;
    int fd;
    int epochs;
    bool complete;
    struct sl_epoch_figures last;
} t;

static void on_epoch(void *ctx, const struct sl_epoch_figures *figures)
{
    t.epochs++;
    t.last = *figures;
}

static void on_complete(void *ctx)
{
    t.complete = true;
}

static void on_error(void *ctx)
{
    ck_abort_msg("%s", sl_error_message());
}

static void setup(void)
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
    plan = (struct sl_phases_setup){
        .loop = &t.loop,
        .config = &config,
        .n_nodes = 5000,
        .split = {{35, vertices}, {20, vertices}, {30, vertices}},
        .events = {on_epoch, on_complete, on_error},
    };
}

// --- the plan ---

static void expect_plan(const char *want)
{
    static const char letter[] = "tvx";
    char got[512] = "";
    struct sl_plan_step s = {SL_PURPOSE_TRAIN, 0, 0};
    for (size_t n = 0; s.purpose != SL_PURPOSE_END; s = sl_plan_after(&plan, s))
        n += (size_t)snprintf(got + n, sizeof got - n, "%c%u%s", letter[s.purpose], s.epoch,
                              s.layer == 0   ? " "
                              : s.layer == 1 ? "' "
                                             : "\" ");
    ck_assert_str_eq(got, want);
}

START_TEST(an_epoch_is_trained_and_evaluated_layer_by_layer)
{
    config.epochs = 2;
    expect_plan("t0 v0 v0' v0\" t1 v1 v1' v1\" x1 x1' x1\" ");
}
END_TEST

START_TEST(a_sampled_evaluation_is_one_phase)
{
    config.epochs = 2;
    config.evaluate.full = false;
    expect_plan("t0 v0 t1 v1 x1 ");
}
END_TEST

START_TEST(evaluation_may_be_rare_but_ends_the_job)
{
    config.evaluate.full = false;
    config.epochs = 5;
    config.evaluate.every = 2;
    expect_plan("t0 t1 v1 t2 t3 v3 t4 v4 x4 ");
    config.evaluate.every = 0;
    expect_plan("t0 t1 t2 t3 t4 v4 x4 ");
}
END_TEST

START_TEST(empty_splits_are_left_out)
{
    config.epochs = 2;
    plan.split[SL_SPLIT_VAL].n = 0;
    expect_plan("t0 t1 x1 x1' x1\" ");
    struct sl_phase_spec spec = sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_TEST, 1, 2});
    ck_assert_uint_eq(spec.params, SL_PARAMS_CURRENT); // nothing was found to be the best
    plan.split[SL_SPLIT_TEST].n = 0;
    expect_plan("t0 t1 ");
}
END_TEST

START_TEST(a_training_phase_knows_its_first_version)
{
    // 35 vertices in batches of 10 are 4 batches and 2 updates an epoch.
    struct sl_phase_spec spec = sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_TRAIN, 3, 0});
    ck_assert_uint_eq(spec.kind, SL_PHASE_TRAIN);
    ck_assert_uint_eq(spec.set, SL_SET_TRAIN);
    ck_assert_uint_eq(spec.n_items, 35);
    ck_assert_uint_eq(spec.first_version, 6);
    ck_assert_uint_eq(sl_phases_batches(&config, 35), 4);
    ck_assert_uint_eq(sl_phases_updates(&config, 35), 2);
}
END_TEST

START_TEST(inference_covers_all_vertices_until_the_last_layer)
{
    struct sl_phase_spec spec =
        sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_VALIDATE, 0, 1});
    ck_assert_uint_eq(spec.kind, SL_PHASE_INFER);
    ck_assert_uint_eq(spec.set, SL_SET_ALL);
    ck_assert_uint_eq(spec.n_items, 5000);
    ck_assert_uint_eq(spec.layer, 1);
    ck_assert_uint_eq(spec.last_layer, 0);
    ck_assert_uint_eq(spec.params, SL_PARAMS_CURRENT);
    spec = sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_TEST, 0, 2});
    ck_assert_uint_eq(spec.set, SL_SET_TEST);
    ck_assert_uint_eq(spec.n_items, 30);
    ck_assert_uint_eq(spec.last_layer, 1);
    ck_assert_uint_eq(spec.params, SL_PARAMS_BEST);
}
END_TEST

START_TEST(chunks_of_inference_are_neither_tiny_nor_many)
{
    static const uint64_t sizes[] = {1, 1023, 1024, 1025, 4194304, 4194305, 4294967294, 111059956};
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++) {
        plan.n_nodes = sizes[i];
        struct sl_phase_spec spec =
            sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_VALIDATE, 0, 0});
        ck_assert_uint_ge(spec.batch_size, 1024);
        ck_assert_uint_le(sl_div_up(spec.n_items, spec.batch_size), 4096);
    }
}
END_TEST

START_TEST(the_largest_phase_decides_the_cells)
{
    ck_assert_uint_eq(sl_phases_cells_max(&plan), 5); // 5000 vertices in chunks of 1024
    plan.split[SL_SPLIT_TRAIN].n = 1000;
    ck_assert_uint_eq(sl_phases_cells_max(&plan), 100);
    config.evaluate.full = false;
    config.evaluate.batch_size = 1;
    plan.split[SL_SPLIT_TEST].n = 777;
    ck_assert_uint_eq(sl_phases_cells_max(&plan), 777);
}
END_TEST

// --- phases in an arena ---

static void make_arena(void)
{
    const struct sl_arena_spec spec = {
        .n_workers = 2,
        .n_cells = (uint32_t)sl_phases_cells_max(&plan),
        .n_train = plan.split[SL_SPLIT_TRAIN].n,
        .n_params = 3,
        .n_state = 2,
        .batches_per_update = config.updates.batches_per_update,
        .payload_bytes = 4 * SL_ARENA_CHUNK_BYTES,
    };
    t.fd = sl_arena_memfd();
    ck_assert_int_ge(t.fd, 0);
    must(sl_arena_create(t.fd, &spec, &t.arena));
    uv_loop_init(&t.loop);
    must(sl_phases_init(&t.phases, &plan, &t.arena));
    sl_phases_start(&t.phases);
}

static uint64_t opened(void)
{
    return atomic_load(&t.arena.h->opened);
}

static const struct sl_phase *phase(uint64_t seq)
{
    return sl_ledger_phase(&t.arena, seq);
}

static bool gated(uint64_t seq)
{
    return atomic_load(&sl_ledger_phase(&t.arena, seq)->gate) != 0;
}

// Does all work of the current phase, as one sampler and one trainer would.
static void work_through(uint64_t correct_each)
{
    uint64_t seq = atomic_load(&t.arena.h->current);
    struct sl_phase_spec spec = phase(seq)->spec;
    uint64_t n = sl_div_up(spec.n_items, spec.batch_size);
    struct sl_lease l;
    struct sl_update u;
    for (uint64_t i = 0; spec.kind != SL_PHASE_INFER && i < n; i++) {
        must(sl_ledger_claim_sample(&t.arena, 1, 1, &l));
        ck_assert_uint_eq(l.seq, seq);
        l.entry->digest = l.cell + 1;
        must(sl_ledger_publish(&t.arena, &l));
    }
    for (uint64_t i = 0; i < n; i++) {
        must(sl_ledger_claim_train(&t.arena, 2, 1, &l));
        ck_assert_uint_eq(l.seq, seq);
        uint32_t items;
        sl_phase_range(l.phase, l.cell, &items);
        l.entry->counted = items;
        l.entry->correct = correct_each;
        l.entry->loss = items;
        must(sl_ledger_complete(&t.arena, &l));
        while (sl_board_begin_update(&t.arena, 2, &u) == SL_OK) {
            sl_board_params(&t.arena, u.version + 1)[0] = (float)(u.version + 1);
            sl_board_commit_update(&t.arena, &u);
        }
    }
}

START_TEST(phases_are_opened_ahead_and_gated_behind_an_evaluation)
{
    make_arena();
    // t0 v0 v0' v0" t1 v1 v1' v1": the ring is full; t1 waits for what v0 finds.
    ck_assert_uint_eq(opened(), 8);
    ck_assert(!gated(1) && !gated(2) && !gated(4) && gated(5) && !gated(6));
    for (int i = 0; i < 4; i++) {
        ck_assert(gated(5));
        work_through(1);
        sl_phases_poll(&t.phases);
    }
    ck_assert(!gated(5));
    ck_assert_int_eq(t.epochs, 1);
}
END_TEST

START_TEST(the_order_of_an_epoch_is_written_before_it_opens)
{
    uint32_t want[35];
    make_arena();
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        ck_assert(sl_shuffle_order(11, epoch, vertices, 35, NULL, want));
        ck_assert_int_eq(memcmp(want, sl_arena_order(&t.arena, epoch), sizeof want), 0);
    }
    for (int i = 0; i < 4; i++) {
        work_through(1);
        sl_phases_poll(&t.phases);
    }
    ck_assert(sl_shuffle_order(11, 2, vertices, 35, NULL, want));
    ck_assert_int_eq(memcmp(want, sl_arena_order(&t.arena, 2), sizeof want), 0);
}
END_TEST

START_TEST(an_epoch_two_ahead_waits_for_its_bank)
{
    config.evaluate.every = 0;
    make_arena();
    ck_assert_uint_eq(opened(), 2); // t0 and t1; the order of t2 would go where t0's is
    work_through(1);
    sl_phases_poll(&t.phases);
    ck_assert_uint_eq(opened(), 3);
}
END_TEST

START_TEST(a_large_order_comes_from_the_thread_pool)
{
    uint32_t *want = malloc(sizeof vertices);
    plan.split[SL_SPLIT_TRAIN].n = SL_COUNT_OF(vertices);
    config.sampler.batch_size = 1000;
    make_arena();
    ck_assert_uint_eq(opened(), 0);
    uv_run(&t.loop, UV_RUN_DEFAULT); // both shuffles
    ck_assert_uint_gt(opened(), 4);
    ck_assert(sl_shuffle_order(11, 1, vertices, SL_COUNT_OF(vertices), NULL, want));
    ck_assert_int_eq(memcmp(want, sl_arena_order(&t.arena, 1), sizeof vertices), 0);
    free(want);
}
END_TEST

START_TEST(the_best_parameters_are_those_that_were_evaluated)
{
    static const uint64_t found[] = {3, 9, 9, 5};
    make_arena();
    for (int e = 0; e < 4; e++) {
        ck_assert(!t.complete);
        for (int i = 0; i < 4; i++) {
            work_through(i == 3 ? found[e] : 1);
            sl_phases_poll(&t.phases);
        }
        ck_assert_int_eq(t.epochs, e + 1);
        ck_assert_double_eq_tol(t.last.val_accuracy, (double)found[e] / 20, 1e-12);
    }
    ck_assert_uint_eq(t.phases.best_epoch, 1); // of equals the first one
    ck_assert_float_eq(sl_board_best(&t.arena)[0], 4);
    for (int i = 0; i < 3; i++) {
        work_through(6);
        sl_phases_poll(&t.phases);
    }
    ck_assert(t.complete);
    ck_assert_double_eq_tol(t.phases.test_accuracy, 0.2, 1e-12);
    ck_assert_uint_eq(t.phases.done, 16);
    ck_assert_uint_eq(t.phases.scheduled, 16);
}
END_TEST

START_TEST(a_gated_test_of_one_phase_opens)
{
    config.evaluate.full = false;
    config.evaluate.batch_size = 100;
    config.epochs = 1;
    make_arena();
    ck_assert_uint_eq(opened(), 3);
    ck_assert(gated(3));
    for (int i = 0; i < 3; i++) {
        work_through(2);
        sl_phases_poll(&t.phases);
    }
    ck_assert(t.complete);
}
END_TEST

START_TEST(the_view_follows_the_work)
{
    struct sl_phases_view view;
    make_arena();
    sl_phases_view(&t.phases, &view);
    ck_assert_str_eq(view.phase, "train");
    ck_assert_uint_eq(view.total, 4);
    ck_assert_uint_eq(view.done, 0);
    work_through(1);
    sl_phases_view(&t.phases, &view);
    ck_assert_uint_eq(view.done, 4);
    ck_assert_double_eq_tol(view.loss, 1, 1e-12);
    sl_phases_poll(&t.phases);
    work_through(1);
    sl_phases_poll(&t.phases);
    sl_phases_view(&t.phases, &view);
    ck_assert_str_eq(view.phase, "evaluate");
    ck_assert_uint_eq(view.done, 5); // the first layer's chunks
    ck_assert_uint_eq(view.total, 5 + 5 + 1);
}
END_TEST

START_TEST(digests_depend_on_the_order_of_batches)
{
    char one[33], two[33];
    config.digest = true;
    make_arena();
    ck_assert(!sl_phases_digest(&t.phases, one));
    work_through(1);
    sl_phases_poll(&t.phases);
    ck_assert(sl_phases_digest(&t.phases, one));
    static const uint64_t same[] = {1, 2, 3, 4}, other[] = {1, 2, 4, 3};
    XXH128_hash_t h = XXH3_128bits(same, sizeof same);
    snprintf(two, sizeof two, "%016llx%016llx", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
    ck_assert_str_eq(one, two);
    h = XXH3_128bits(other, sizeof other);
    snprintf(two, sizeof two, "%016llx%016llx", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
    ck_assert_str_ne(one, two);
}
END_TEST

START_TEST(nothing_is_opened_after_a_stop)
{
    make_arena();
    sl_phases_stop(&t.phases);
    uint64_t before = opened();
    work_through(1);
    sl_phases_poll(&t.phases);
    ck_assert_uint_eq(opened(), before);
    ck_assert_int_eq(t.epochs, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broker phases");
    TCase *c = tcase_create("phases");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_set_timeout(c, 30);
    tcase_add_test(c, an_epoch_is_trained_and_evaluated_layer_by_layer);
    tcase_add_test(c, a_sampled_evaluation_is_one_phase);
    tcase_add_test(c, evaluation_may_be_rare_but_ends_the_job);
    tcase_add_test(c, empty_splits_are_left_out);
    tcase_add_test(c, a_training_phase_knows_its_first_version);
    tcase_add_test(c, inference_covers_all_vertices_until_the_last_layer);
    tcase_add_test(c, chunks_of_inference_are_neither_tiny_nor_many);
    tcase_add_test(c, the_largest_phase_decides_the_cells);
    tcase_add_test(c, phases_are_opened_ahead_and_gated_behind_an_evaluation);
    tcase_add_test(c, the_order_of_an_epoch_is_written_before_it_opens);
    tcase_add_test(c, an_epoch_two_ahead_waits_for_its_bank);
    tcase_add_test(c, a_large_order_comes_from_the_thread_pool);
    tcase_add_test(c, the_best_parameters_are_those_that_were_evaluated);
    tcase_add_test(c, a_gated_test_of_one_phase_opens);
    tcase_add_test(c, the_view_follows_the_work);
    tcase_add_test(c, digests_depend_on_the_order_of_batches);
    tcase_add_test(c, nothing_is_opened_after_a_stop);
    suite_add_tcase(s, c);
    return run_suite(s);
}
