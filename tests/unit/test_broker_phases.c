// The plan of a job, and how its phases are opened ahead, gated and read, without any worker.
#include "common/base/clock.h" // before the fixture, which has a global `t`

#include "tests/unit/broker_phases_fixture.h"
#include "tests/unit/suite.h"

// --- the plan ---

TEST(an_epoch_is_trained_and_evaluated_layer_by_layer)
{
    config.epochs = 2;
    expect_plan("t0 v0 v0' v0\" t1 v1 v1' v1\" x1 x1' x1\" ");
}

TEST(a_sampled_evaluation_is_one_phase)
{
    config.epochs = 2;
    config.evaluate.full = false;
    expect_plan("t0 v0 t1 v1 x1 ");
}

TEST(evaluation_may_be_rare_but_ends_the_job)
{
    config.evaluate.full = false;
    config.epochs = 5;
    config.evaluate.every = 2;
    expect_plan("t0 t1 v1 t2 t3 v3 t4 v4 x4 ");
    config.evaluate.every = 0;
    expect_plan("t0 t1 t2 t3 t4 v4 x4 ");
}

TEST(empty_splits_are_left_out)
{
    config.epochs = 2;
    plan.split[SL_SPLIT_VAL].n = 0;
    expect_plan("t0 t1 x1 x1' x1\" ");
    struct sl_phase_spec spec = sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_TEST, 1, 2});
    ck_assert_uint_eq(spec.params, SL_PARAMS_CURRENT); // nothing was found to be the best
    plan.split[SL_SPLIT_TEST].n = 0;
    expect_plan("t0 t1 ");
}

TEST(a_test_of_each_epoch_comes_before_its_validation_and_leaves_it_the_last_layer)
{
    config.epochs = 2;
    config.evaluate.test = SL_TEST_EACH;
    expect_plan("t0 e0 e0' e0\" v0\" t1 e1 e1' e1\" v1\" x1 x1' x1\" ");
    config.evaluate.full = false;
    expect_plan("t0 e0 v0 t1 e1 v1 x1 ");
    config.evaluate.every = 0;
    expect_plan("t0 t1 e1 v1 x1 ");
    struct sl_phase_spec spec =
        sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_TEST_EPOCH, 1, 0});
    ck_assert_uint_eq(spec.set, SL_SET_TEST);
    ck_assert_uint_eq(spec.n_items, 30);
    ck_assert_uint_eq(spec.params, SL_PARAMS_CURRENT);
    plan.split[SL_SPLIT_VAL].n = 0;
    expect_plan("t0 t1 e1 x1 ");
    plan.split[SL_SPLIT_TEST].n = 0;
    expect_plan("t0 t1 ");
}

TEST(a_test_set_that_is_never_evaluated_is_none)
{
    struct sl_dataset huge = dataset;
    huge.n_nodes = 5000;
    memcpy(huge.split, plan.split, sizeof huge.split);
    huge.split[SL_SPLIT_TEST].n = SL_COUNT_OF(vertices);
    config.epochs = 1;
    config.evaluate.full = false;
    config.evaluate.batch_size = 10;
    plan = sl_plan_make(&config, &huge);
    expect_plan("t0 v0 x0 ");
    ck_assert_uint_eq(sl_phases_cells_max(&plan), SL_COUNT_OF(vertices) / 10);
    config.evaluate.test = SL_TEST_NEVER;
    plan = sl_plan_make(&config, &huge);
    expect_plan("t0 v0 ");
    ck_assert_uint_eq(sl_phases_cells_max(&plan), 4); // of training
    ck_assert_uint_eq(plan.split[SL_SPLIT_TEST].n, 0);
}

TEST(a_training_phase_knows_its_first_version)
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

TEST(inference_covers_all_vertices_until_the_last_layer)
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

static uint32_t wanted_of(enum sl_purpose purpose, uint32_t layer)
{
    return sl_plan_spec(&plan, (struct sl_plan_step){purpose, 0, layer}).wanted_splits;
}

// A validation behind the test of an epoch is its last layer alone, and reads what that left.
TEST(hidden_layers_are_computed_for_whom_they_are_read)
{
    const uint32_t val = 1u << SL_SPLIT_VAL, test = 1u << SL_SPLIT_TEST;
    for (uint32_t layer = 0; layer < 2; layer++) {
        ck_assert_uint_eq(wanted_of(SL_PURPOSE_VALIDATE, layer), val);
        ck_assert_uint_eq(wanted_of(SL_PURPOSE_TEST_EPOCH, layer), val | test);
        ck_assert_uint_eq(wanted_of(SL_PURPOSE_TEST, layer), test);
    }
    plan.split[SL_SPLIT_VAL].n = 0;
    ck_assert_uint_eq(wanted_of(SL_PURPOSE_TEST_EPOCH, 0), test);
}

// With validation edges as input the test's graph is another one, and its layers are nobody else's.
TEST(a_validation_behind_a_test_on_another_graph_has_layers_of_its_own)
{
    const enum sl_purpose purposes[] = {SL_PURPOSE_TEST_EPOCH, SL_PURPOSE_VALIDATE};
    config.task.kind = SL_JOB_LINKS;
    config.evaluate.test = SL_TEST_EACH;
    config.epochs = 2;
    for (int wider = 0; wider < 2; wider++) {
        config.evaluate.val_edges_as_input = wider;
        struct sl_plan_step step = sl_plan_after_epoch(&plan, 0);
        uint32_t steps[2] = {0, 0};
        for (int i = 0; i < 2; i++)
            for (; step.purpose == purposes[i]; step = sl_plan_after(&plan, step)) {
                const struct sl_phase_spec spec = sl_plan_spec(&plan, step);
                if (!spec.last_layer)
                    ck_assert_uint_eq(spec.val_edges, wider && i == 0);
                steps[i]++;
            }
        ck_assert_int_eq(step.purpose, SL_PURPOSE_TRAIN);
        ck_assert_uint_eq(steps[0], config.model.layers + 1);
        ck_assert_uint_eq(steps[1], wider ? config.model.layers + 1 : 1);
    }
}

TEST(cells_of_inference_are_neither_tiny_nor_many)
{
    static const struct {
        uint64_t n_nodes;
        uint32_t rows;
    } of[] = {
        {1, 1024},        {1025, 1024},       {65536, 1024},         {65537, 1025},
        {169343, 2646},   {262144, 4096},     {262145, 4096},        {16777216, 4096},
        {16777217, 4097}, {111059956, 27115}, {4294967294, 1048576},
    };
    for (size_t i = 0; i < SL_COUNT_OF(of); i++) {
        plan.n_nodes = of[i].n_nodes;
        struct sl_phase_spec spec =
            sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_VALIDATE, 0, 0});
        ck_assert_uint_eq(spec.batch_size, of[i].rows);
        ck_assert_uint_le(sl_div_up(spec.n_items, spec.batch_size), 4096);
    }
}

TEST(the_largest_phase_decides_the_cells)
{
    ck_assert_uint_eq(sl_phases_cells_max(&plan), 5); // 5000 vertices in chunks of 1024
    plan.split[SL_SPLIT_TRAIN].n = 1000;
    ck_assert_uint_eq(sl_phases_cells_max(&plan), 100);
    config.evaluate.full = false;
    config.evaluate.batch_size = 1;
    plan.split[SL_SPLIT_TEST].n = 777;
    ck_assert_uint_eq(sl_phases_cells_max(&plan), 777);
}

// --- phases in an arena ---

TEST(phases_are_opened_ahead_and_gated_behind_an_evaluation)
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

TEST(the_order_of_an_epoch_is_written_before_it_opens)
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

TEST(an_order_by_proximity_is_written_before_its_epoch_opens)
{
    // A ring, in which neighbours stand together.
    static uint64_t indptr[36];
    static uint32_t indices[35];
    uint32_t seen[35] = {0}, near = 0;
    for (uint32_t v = 0; v < 35; v++) {
        indptr[v + 1] = v + 1;
        indices[v] = (v + 1) % 35;
    }
    plan.n_nodes = dataset.n_edges = 35;
    dataset.indptr = indptr;
    dataset.indices = indices;
    dataset.indices_dtype = SL_DTYPE_U32;
    config.order.kind = SL_ORDER_PROXIMITY;
    config.order.sequences = 2;
    make_arena();
    ck_assert_uint_eq(opened(), 0);
    ck_assert_ptr_null(sl_phases_order(&t.phases).walk);
    uv_run(&t.loop, UV_RUN_DEFAULT); // a walk is never the loop's own work
    ck_assert_uint_gt(opened(), 0);
    ck_assert_uint_eq(sl_phases_order(&t.phases).n_sequences, 2);
    const uint32_t *order = sl_arena_order(&t.arena, 0);
    for (uint32_t i = 0; i < 35; i++) {
        seen[order[i]]++;
        near += i >= 2 && order[i] == (order[i - 2] + 1) % 35;
    }
    for (uint32_t v = 0; v < 35; v++)
        ck_assert_uint_eq(seen[v], 1);
    ck_assert_uint_ge(near, 35 - 2 - 2 * 2);
    ck_assert_int_ne(memcmp(order, sl_arena_order(&t.arena, 1), 35 * sizeof *order), 0);
}

TEST(an_epoch_two_ahead_waits_for_its_bank)
{
    config.evaluate.every = 0;
    make_arena();
    ck_assert_uint_eq(opened(), 2); // t0 and t1; the order of t2 would go where t0's is
    work_through(1);
    sl_phases_poll(&t.phases);
    ck_assert_uint_eq(opened(), 3);
}

TEST(a_large_order_comes_from_the_thread_pool)
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

TEST(the_view_follows_the_work)
{
    struct sl_phases_view view;
    make_arena();
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_str_eq(view.phase, "train");
    ck_assert_uint_eq(view.total, 4);
    ck_assert_uint_eq(view.done, 0);
    work_through(1);
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_uint_eq(view.done, 4);
    ck_assert_double_eq_tol(view.loss, 1, 1e-12);
    sl_phases_poll(&t.phases);
    work_through(1);
    sl_phases_poll(&t.phases);
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_str_eq(view.phase, "evaluate");
    ck_assert_uint_eq(view.done, 5); // the first layer's chunks
    ck_assert_uint_eq(view.total, 5 + 5 + 1);
}

TEST(the_time_left_has_the_test_in_it)
{
    struct sl_phases_view view;
    config.epochs = 2;
    config.evaluate.full = false;
    config.evaluate.batch_size = 10;
    make_arena();
    for (int i = 0; i < 2; i++) {
        work_through(1);
        sl_phases_poll(&t.phases);
    }
    // As if training and evaluation had begun a second ago and the 20 vertices had taken 1000 s.
    t.phases.first_ns = sl_now_ns() - UINT64_C(1000000000);
    t.phases.train_share = 1;
    t.phases.evaluate_seconds = 1000;
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_str_eq(view.phase, "train");
    ck_assert_double_ge(view.seconds_left, 1500); // 30 vertices are tested
    ck_assert_double_lt(view.seconds_left, 1600);
    for (int i = 0; i < 2; i++) {
        work_through(1);
        sl_phases_poll(&t.phases);
    }
    t.phases.evaluate_seconds = 1000;
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_str_eq(view.phase, "test");
    ck_assert_double_eq(view.seconds_left, 1500);
    sample_one();
    train_one(1);
    sl_ledger_phase_complete(&t.arena, 5); // looks
    t.phases.test_seconds = 400;           // as if those 10 vertices had
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_uint_eq(view.done, 1);
    ck_assert_uint_eq(view.total, 3);
    ck_assert_double_ge(view.seconds_left, 800);
    ck_assert_double_lt(view.seconds_left, 900);
}

TEST(digests_depend_on_the_order_of_batches)
{
    char one[33], two[33];
    config.digest = true;
    make_arena();
    ck_assert(!sl_phases_digest(&t.phases, one));
    work_through(1);
    sl_phases_poll(&t.phases);
    ck_assert(sl_phases_digest(&t.phases, one));
    // Each epoch's is made of the one before (16 bytes, at first 0) and of its blocks'.
    static const uint64_t same[] = {0, 0, 1, 2, 3, 4}, other[] = {0, 0, 1, 2, 4, 3};
    XXH128_hash_t h = XXH3_128bits(same, sizeof same);
    snprintf(two, sizeof two, "%016llx%016llx", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
    ck_assert_str_eq(one, two);
    h = XXH3_128bits(other, sizeof other);
    snprintf(two, sizeof two, "%016llx%016llx", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
    ck_assert_str_ne(one, two);
}

TEST(nothing_is_opened_after_a_stop)
{
    make_arena();
    sl_phases_stop(&t.phases);
    uint64_t before = opened();
    work_through(1);
    sl_phases_poll(&t.phases);
    ck_assert_uint_eq(opened(), before);
    ck_assert_int_eq(t.epochs, 0);
}

// --- ranking ---

static const struct sl_phase_spec *spec_of(uint64_t seq)
{
    return &phase(seq)->spec;
}

static void cached(enum sl_cache_policy policy)
{
    config.cache.policy = policy;
    config.cache.presample_epochs = policy == SL_CACHE_PRESC ? 1 : 0;
    config.evaluate.every = 0;
    config.epochs = 3;
    plan.split[SL_SPLIT_VAL].n = plan.split[SL_SPLIT_TEST].n = 0;
}

static void work_and_poll(void)
{
    work_through(1);
    sl_phases_poll(&t.phases);
}

TEST(the_oracle_samples_all_epochs_ahead)
{
    cached(SL_CACHE_OPTIMAL);
    expect_plan("p0 p1 p2 t0 t1 t2 ");
    config.cache.policy = SL_CACHE_PRESC;
    expect_plan("t0 t1 t2 ");
}

TEST(pre_sampling_draws_the_batches_of_training)
{
    uint32_t want[35];
    cached(SL_CACHE_OPTIMAL);
    make_arena();
    static const uint64_t open_before[] = {2, 3, 3, 5, 6, 6};
    for (uint32_t i = 0; i < 6; i++) {
        uint64_t seq = i + 1;
        ck_assert_uint_eq(opened(), open_before[i]);
        const struct sl_phase_spec *spec = spec_of(seq);
        ck_assert_uint_eq(spec->kind, i < 3 ? SL_PHASE_PRESAMPLE : SL_PHASE_TRAIN);
        ck_assert_uint_eq(spec->epoch, i % 3);
        ck_assert_uint_eq(spec->order_bank, i & 1);
        ck_assert_uint_eq(spec->count_visits, i < 3);
        ck_assert_uint_eq(spec->rank_generation, i < 3 ? 0 : 1);
        ck_assert(sl_shuffle_order(11, i % 3, vertices, 35, NULL, want));
        const uint32_t *got = sl_arena_order(&t.arena, spec->order_bank);
        ck_assert_int_eq(memcmp(want, got, sizeof want), 0);
        work_and_poll();
    }
    ck_assert(t.complete);
    ck_assert_int_eq(t.epochs, 3);
    ck_assert_uint_eq(t.phases.done, 12); // what was drawn ahead is not trained
    ck_assert_uint_eq(t.phases.scheduled, 12);
    ck_assert_double_gt(t.phases.presample_seconds, 0);
}

TEST(presc_ranks_when_its_epochs_are_sampled_not_trained)
{
    cached(SL_CACHE_PRESC);
    config.cache.presample_epochs = 2;
    make_arena();
    ck_assert_uint_eq(opened(), 2);
    ck_assert(spec_of(1)->count_visits && spec_of(2)->count_visits);
    for (int i = 0; i < 7; i++)
        sample_one();
    work_through(1); // epoch 0; of epoch 1 one batch is not drawn yet
    sl_phases_poll(&t.phases);
    ck_assert_int_eq(t.ranked, 0);
    ck_assert_uint_eq(opened(), 2);
    sample_one();
    sl_phases_poll(&t.phases);
    ck_assert_int_eq(t.ranked, 1);
    ck_assert_uint_eq(opened(), 3);
    ck_assert_uint_eq(spec_of(3)->rank_generation, 1);
    ck_assert_uint_eq(spec_of(3)->count_visits, 0);
    ck_assert_uint_eq(spec_of(2)->rank_generation, 0);
}

TEST(the_order_is_by_visits_which_are_then_forgotten)
{
    cached(SL_CACHE_PRESC);
    config.cache.presample_epochs = 2;
    config.cache.report_optimal = true;
    make_arena();
    work_and_poll();
    ck_assert_uint_eq(sl_visit_counts_generation(&t.arena), 0);
    for (int i = 0; i < 4; i++)
        sample_one();
    sl_phases_poll(&t.phases);
    ck_assert_uint_eq(sl_visit_counts_generation(&t.arena), 1);
    const uint32_t *order = sl_visit_counts_order(&t.arena);
    ck_assert_uint_eq(order[0], 7); // 8 visits
    ck_assert_uint_eq(order[1], 8); // 4, as 9 has
    ck_assert_uint_eq(order[2], 9);
    ck_assert_uint_eq(order[3], 0);
    ck_assert_uint_eq(order[4999], 4999);
    ck_assert_uint_eq(atomic_load(&sl_visit_counts_visits(&t.arena)[7]), 0);
    ck_assert_uint_eq(spec_of(3)->count_visits, 1);
}

LOOP_TEST(within_a_tier_vertices_stand_by_id, 0, 4)
{
    static const uint64_t ends[][2] = {{1, 3}, {2, 5000}, {3, 3}, {4, 700}};
    static const uint32_t wanted[][5] = {
        {9, 7, 8, 0, 1}, {8, 9, 0, 1, 2}, {7, 8, 9, 0, 1}, {0, 7, 8, 9, 1}};
    cached(SL_CACHE_PRESC);
    config.cache.presample_epochs = 2;
    make_arena();
    // 9 is the hottest, then 8, then 7.
    sl_visit_counts_count(&t.arena, (uint32_t[]){9, 9, 9, 9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8, 8},
                          16);
    sl_visit_counts_set_tiers(&t.arena, ends[_i], 2);
    work_and_poll();
    for (int i = 0; i < 4; i++)
        sample_one();
    sl_phases_poll(&t.phases);
    ck_assert_uint_eq(sl_visit_counts_generation(&t.arena), 1);
    const uint32_t *order = sl_visit_counts_order(&t.arena);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(order[i], wanted[_i][i]);
    static bool seen[5000]; // whatever the tiers, every vertex has its place
    for (uint32_t i = 0; i < 5000; i++) {
        ck_assert(order[i] < 5000 && !seen[order[i]]);
        seen[order[i]] = true;
    }
}

TEST(a_batch_given_up_for_memory_counts_as_sampled)
{
    struct sl_lease again, last;
    struct sl_evicted evicted;
    cached(SL_CACHE_PRESC);
    make_arena();
    for (int i = 0; i < 3; i++)
        sample_one();
    sl_phases_poll(&t.phases);
    sl_ledger_entry(&t.arena, 1, 2)->payload_bytes = SL_ARENA_CHUNK_BYTES;
    must(sl_ledger_evict(&t.arena, sl_tag_make(1, 0, 0), &evicted));
    must(sl_ledger_claim_sample(&t.arena, 1, SL_AHEAD_ALL, 1, &again));
    ck_assert_uint_eq(again.cell, 2);
    must(sl_ledger_claim_sample(&t.arena, 1, SL_AHEAD_ALL, 1, &last));
    ck_assert_uint_eq(last.cell, 3);
    sl_phases_poll(&t.phases);
    ck_assert_int_eq(t.ranked, 0);
    must(sl_ledger_publish(&t.arena, &last));
    sl_phases_poll(&t.phases);
    ck_assert_int_eq(t.ranked, 1);
}

TEST(random_and_degree_are_ranked_before_the_first_epoch)
{
    static const int64_t sources[] = {3, 3, 3, 4, 4, 0};
    cached(SL_CACHE_DEGREE);
    dataset.indices = sources;
    dataset.n_edges = SL_COUNT_OF(sources);
    dataset.indices_dtype = SL_DTYPE_I64;
    make_arena();
    ck_assert_int_eq(t.ranked, 1);
    ck_assert_uint_eq(spec_of(1)->rank_generation, 1);
    ck_assert_uint_eq(spec_of(1)->count_visits, 0);
    const uint32_t *order = sl_visit_counts_order(&t.arena);
    ck_assert_uint_eq(order[0], 3);
    ck_assert_uint_eq(order[1], 4);
    ck_assert_uint_eq(order[2], 0);
    ck_assert_uint_eq(order[3], 1);
}

// Each of the 35 seeds samples vertex 4999, the last of them 4998 too.
TEST(expected_visits_are_ranked_before_the_first_epoch)
{
    static uint64_t indptr[5001];
    static int32_t sources[36];
    cached(SL_CACHE_EXPECTED);
    for (uint32_t e = 0; e < 35; e++)
        sources[e] = 4999;
    sources[35] = 4998;
    for (uint32_t v = 0; v <= 5000; v++)
        indptr[v] = v < 35 ? v : 36;
    config.sampler.n_fanout = 1;
    config.sampler.fanout[0] = 2;
    dataset.indptr = indptr;
    dataset.indices = sources;
    dataset.n_edges = SL_COUNT_OF(sources);
    dataset.indices_dtype = SL_DTYPE_I32;
    dataset.split[SL_SPLIT_TRAIN] = plan.split[SL_SPLIT_TRAIN];
    make_arena();
    ck_assert_int_eq(t.ranked, 1);
    ck_assert_uint_eq(spec_of(1)->rank_generation, 1);
    ck_assert_uint_eq(spec_of(1)->count_visits, 0);
    const uint32_t *order = sl_visit_counts_order(&t.arena);
    ck_assert_uint_eq(order[0], 4999); // 35 visits
    ck_assert_uint_eq(order[1], 0);    // seeds, and 4998: 1
    ck_assert_uint_eq(order[35], 34);
    ck_assert_uint_eq(order[36], 4998);
    ck_assert_uint_eq(order[37], 35); // none
}

TEST(a_random_order_depends_on_the_seed)
{
    cached(SL_CACHE_RANDOM);
    make_arena();
    ck_assert_int_eq(t.ranked, 1);
    uint32_t first = sl_visit_counts_order(&t.arena)[0],
             second = sl_visit_counts_order(&t.arena)[1];
    sl_phases_stop(&t.phases);
    sl_phases_fini(&t.phases);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&t.loop), 0);
    memset(&t, 0, sizeof t);
    config.seed = 12;
    make_arena();
    ck_assert(first != sl_visit_counts_order(&t.arena)[0] ||
              second != sl_visit_counts_order(&t.arena)[1]);
}

TEST(too_few_epochs_for_presc_are_not_ranked)
{
    cached(SL_CACHE_PRESC);
    config.epochs = config.cache.presample_epochs = 2;
    ck_assert(!sl_ranking_is_needed(&config) && !sl_ranking_needs_visits(&config));
    make_arena();
    work_and_poll();
    work_and_poll();
    ck_assert(t.complete);
    ck_assert_int_eq(t.ranked, 0);
}

TEST(a_large_graph_is_ranked_on_the_thread_pool)
{
    struct sl_phases_view view;
    cached(SL_CACHE_RANDOM);
    plan.n_nodes = 100000;
    make_arena();
    ck_assert_uint_eq(opened(), 0);
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_str_eq(view.phase, "rank");
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(t.ranked, 1);
    ck_assert_uint_eq(opened(), 2);
    ck_assert_double_gt(t.phases.ranking.seconds, 0);
}

TEST(a_stop_ends_a_ranking_under_way)
{
    cached(SL_CACHE_RANDOM);
    plan.n_nodes = 3000000;
    make_arena();
    sl_phases_stop(&t.phases);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(t.ranked, 0);
    ck_assert_uint_eq(opened(), 0);
    ck_assert_uint_eq(sl_visit_counts_generation(&t.arena), 0);
}

TEST(sampled_evaluations_of_ranked_epochs_carry_ranks)
{
    cached(SL_CACHE_PRESC);
    config.evaluate.full = false;
    config.evaluate.every = 1;
    plan.split[SL_SPLIT_VAL].n = plan.split[SL_SPLIT_TEST].n = 20;
    for (uint32_t e = 0; e < 3; e++) {
        struct sl_plan_step step = {SL_PURPOSE_VALIDATE, e, 0};
        ck_assert_uint_eq(sl_plan_spec(&plan, step).rank_generation, e > 0);
        ck_assert_uint_eq(sl_plan_spec(&plan, step).count_visits, 0);
    }
    ck_assert_uint_eq(
        sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_TEST, 2, 0}).rank_generation, 1);
}

// --- the optimal hit rate ---

static void set_seat(uint32_t device, enum sl_duty duty, uint64_t rows)
{
    struct sl_seat *seat = sl_seat(&t.arena, sl_seat_trainer(&t.arena, device));
    sl_seat_set_duty(&t.arena, sl_seat_trainer(&t.arena, device), duty);
    atomic_store(&seat->cache_rows, rows);
}

TEST(the_optimal_hit_rate_is_that_of_the_trainers_capacity)
{
    cached(SL_CACHE_PRESC);
    config.cache.report_optimal = true;
    make_arena();
    set_seat(0, SL_DUTY_STANDBY, 5000);
    set_seat(1, SL_DUTY_WORK, 1);
    work_and_poll();
    ck_assert(!t.last.cache.ranked && !t.last.has_optimal);
    ck_assert_uint_eq(t.last.cache.rows, 0);
    work_and_poll();
    ck_assert(t.last.cache.ranked && t.last.has_optimal);
    ck_assert_uint_eq(t.last.cache.rows, 1);
    ck_assert_double_eq_tol(t.last.cache.optimal_hit_rate, 0.5,
                            1e-12); // vertex 7 is half of all visits
    ck_assert_uint_eq(t.last.cache.hits, 4);
    set_seat(1, SL_DUTY_WORK, 2);
    work_and_poll();
    // Epochs 1 and 2 together: 8 visits of vertex 7, 4 of 8 and of 9.
    ck_assert_double_eq_tol(t.last.cache.optimal_hit_rate, 0.75, 1e-12);
    ck_assert_int_eq(t.epochs, 3);
    ck_assert(t.complete);
}

TEST(without_normal_trainers_the_standby_caches_count)
{
    cached(SL_CACHE_RANDOM);
    make_arena();
    set_seat(0, SL_DUTY_STANDBY, 77);
    set_seat(1, SL_DUTY_NONE, 99);
    work_and_poll();
    ck_assert_uint_eq(t.last.cache.rows, 77);
    ck_assert(!t.last.has_optimal);
}

// Trains as if nothing had to wait for the broker, which looks only at the end.
TEST(epochs_are_told_in_order_while_the_optimum_is_sought)
{
    cached(SL_CACHE_RANDOM);
    config.cache.report_optimal = true;
    plan.n_nodes = 100000;
    make_arena();
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert_uint_eq(opened(), 2);
    work_through(1);
    work_through(1);
    sl_phases_poll(&t.phases);
    ck_assert_int_eq(t.epochs, 0); // the thread is at it
    ck_assert(!t.complete);
    sl_phases_poll(&t.phases);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(t.epochs, 2);
    ck_assert_uint_eq(t.last.epoch, 1);
    ck_assert(t.last.has_optimal && t.last.cache.optimal_hit_rate >= 0);
    work_and_poll();
    ck_assert(!t.complete);
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(t.epochs, 3);
    ck_assert(t.complete);
}

TEST(a_stop_tells_the_epoch_that_waits)
{
    cached(SL_CACHE_RANDOM);
    config.cache.report_optimal = true;
    plan.n_nodes = 1000000;
    make_arena();
    uv_run(&t.loop, UV_RUN_DEFAULT);
    work_and_poll();
    ck_assert_int_eq(t.epochs, 0);
    sl_phases_stop(&t.phases);
    ck_assert_int_eq(t.epochs, 1);
    ck_assert(t.last.has_optimal && isnan(t.last.cache.optimal_hit_rate));
    uv_run(&t.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(t.epochs, 1);
}

// --- scheduling ---

TEST(an_epoch_has_the_split_and_the_switches_of_its_end)
{
    config.evaluate.every = 0;
    make_arena();
    _Atomic uint64_t *switches = &sl_seat(&t.arena, sl_seat_trainer(&t.arena, 1))->switches;
    sl_seat_set_duty(&t.arena, sl_seat_sampler(&t.arena, 0), SL_DUTY_WORK);
    sl_seat_set_duty(&t.arena, sl_seat_sampler(&t.arena, 1), SL_DUTY_WORK);
    sl_seat_set_duty(&t.arena, sl_seat_trainer(&t.arena, 0), SL_DUTY_STANDBY);
    sl_seat_set_duty(&t.arena, sl_seat_trainer(&t.arena, 1), SL_DUTY_WORK);
    atomic_store(switches, 2);
    work_and_poll();
    ck_assert_uint_eq(t.last.samplers, 2);
    ck_assert_uint_eq(t.last.trainers, 1);
    ck_assert_uint_eq(t.last.switches, 2);
    atomic_store(switches, 3);
    sl_phases_poll(&t.phases);
    atomic_store(switches, 1); // its worker died; another one was switched on once
    work_and_poll();
    ck_assert_uint_eq(t.last.switches, 2);
}

TEST(one_knows_where_training_is)
{
    uint32_t epoch;
    uint64_t done;
    config.epochs = 2;
    make_arena();
    ck_assert(sl_phases_trains(&t.phases, &epoch, &done));
    ck_assert_uint_eq(epoch, 0);
    ck_assert_uint_eq(done, 0);
    for (int i = 0; i < 4; i++)
        sample_one();
    train_one(1);
    train_one(1);
    sl_ledger_phase_complete(&t.arena, 1); // looks
    ck_assert(sl_phases_trains(&t.phases, &epoch, &done));
    ck_assert_uint_eq(done, 2);
    train_one(1);
    train_one(1);
    sl_phases_poll(&t.phases);
    ck_assert(!sl_phases_trains(&t.phases, &epoch, &done)); // evaluates
    ck_assert_uint_eq(epoch, 1);
    ck_assert_uint_eq(done, 0);
    for (int i = 0; i < 3; i++)
        work_and_poll();
    ck_assert(sl_phases_trains(&t.phases, &epoch, &done));
    ck_assert_uint_eq(epoch, 1);
    for (int i = 0; i < 7; i++)
        work_and_poll();
    ck_assert(t.complete);
    ck_assert(!sl_phases_trains(&t.phases, &epoch, &done));
    ck_assert_uint_eq(epoch, 2);
}

TEST(async_updates_are_as_many_as_batches)
{
    config.updates.mode = SL_UPDATE_ASYNC;
    ck_assert_uint_eq(sl_phases_updates(&config, 35), 4);
    ck_assert_uint_eq(
        sl_plan_spec(&plan, (struct sl_plan_step){SL_PURPOSE_TRAIN, 3, 0}).first_version, 12);
}

TEST(pre_sampling_is_shown)
{
    struct sl_phases_view view;
    cached(SL_CACHE_OPTIMAL);
    make_arena();
    work_and_poll();
    sample_one();
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_str_eq(view.phase, "presample");
    ck_assert_uint_eq(view.epoch, 1);
    ck_assert_uint_eq(view.done, 5);
    ck_assert_uint_eq(view.total, 12);
    work_and_poll();
    work_and_poll();
    sl_phases_view(&t.phases, &t.loss, &view);
    ck_assert_str_eq(view.phase, "train");
    ck_assert_uint_eq(view.epoch, 0);
}

RUN_TESTS(.setup = setup, .timeout_s = 30)
