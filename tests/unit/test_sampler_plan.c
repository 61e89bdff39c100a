// What a job says about sampling, and the sizes that are measured before it begins.
#include "config/config.h"
#include "sampler/plan.h"
#include "tests/unit/sampler_fixture.h"

static struct fixture fx;
static struct sl_drawer drawer;
static struct sl_config config;

static void setup(void)
{
    fx = fixture_graph(6000);
    ck_assert_int_eq(sl_drawer_init(&drawer, &fx.topology, sl_kernels_cpu()), SL_OK);
    memset(&config, 0, sizeof config);
    config.seed = 5;
    config.model.kind = SL_MODEL_GRAPHSAGE;
    config.sampler.n_fanout = 2;
    config.sampler.fanout[0] = 10;
    config.sampler.fanout[1] = 5;
    config.sampler.batch_size = 128;
    config.evaluate.full = true;
    config.evaluate.n_fanout = 3;
    config.evaluate.fanout[0] = config.evaluate.fanout[1] = -1;
    config.evaluate.fanout[2] = 7;
    config.evaluate.batch_size = 64;
}

static void teardown(void)
{
    sl_drawer_fini(&drawer);
    fixture_free(&fx);
}

// Largest and mean block of the list's batches in an epoch.
static struct sl_block_estimate real_epoch(const struct sl_draw_plan *plan, enum sl_split split,
                                           uint32_t batch_size)
{
    const struct sl_vertex_list *list = &fx.topology.dataset.split[split];
    struct sl_block_estimate e = {0};
    uint32_t batches = 0;
    for (uint64_t at = 0; at < list->n; at += batch_size, batches++) {
        uint32_t n = (uint32_t)SL_MIN((uint64_t)batch_size, list->n - at);
        struct sl_block *b = fixture_draw(&drawer, plan, 0, batches, list->ids + at, n);
        e.max_bytes = SL_MAX(e.max_bytes, b->bytes);
        e.mean_bytes += b->bytes;
        free(b);
    }
    e.mean_bytes /= batches;
    return e;
}

START_TEST(training_and_evaluation_have_plans_of_their_own)
{
    struct sl_draw_plan train = sl_plan_of(&config, SL_PHASE_TRAIN);
    struct sl_draw_plan eval = sl_plan_of(&config, SL_PHASE_EVAL);
    ck_assert_uint_eq(train.n_hops, 2);
    ck_assert_int_eq(train.fanout[0], 10);
    ck_assert_int_eq(train.fanout[1], 5);
    ck_assert_uint_eq(train.stream, SL_RNG_SAMPLE);
    ck_assert_uint_eq(eval.n_hops, 3);
    ck_assert_int_eq(eval.fanout[1], -1);
    ck_assert_int_eq(eval.fanout[2], 7);
    ck_assert_uint_eq(eval.stream, SL_RNG_EVAL_SAMPLE);
    ck_assert_uint_eq(train.seed, 5);
    ck_assert_uint_eq(eval.seed, 5);
    ck_assert(!train.degrees && !eval.degrees);
    config.model.kind = SL_MODEL_GCN;
    train = sl_plan_of(&config, SL_PHASE_TRAIN);
    eval = sl_plan_of(&config, SL_PHASE_EVAL);
    ck_assert(train.degrees && eval.degrees);
}
END_TEST

START_TEST(the_measured_size_holds_for_an_epoch)
{
    struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_TRAIN);
    struct sl_block_estimate guess, real = real_epoch(&plan, SL_SPLIT_TRAIN, 128);
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, &guess), SL_OK);
    ck_assert_uint_ge(guess.max_bytes, real.max_bytes);
    ck_assert_uint_le(guess.max_bytes, 2 * real.max_bytes);
    ck_assert_uint_ge(guess.mean_bytes, real.mean_bytes * 8 / 10);
    ck_assert_uint_le(guess.mean_bytes, real.mean_bytes * 12 / 10);
}
END_TEST

START_TEST(sampled_evaluation_counts_too)
{
    struct sl_block_estimate without, with;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, &without), SL_OK);
    config.evaluate.full = false;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, &with), SL_OK);
    struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_EVAL);
    struct sl_block_estimate real = real_epoch(&plan, SL_SPLIT_VAL, 64);
    ck_assert_uint_gt(real.max_bytes, without.max_bytes); // its fanouts are larger
    ck_assert_uint_ge(with.max_bytes, real.max_bytes);
}
END_TEST

START_TEST(a_batch_of_more_than_the_training_set)
{
    config.sampler.batch_size = 1 << 20;
    struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_TRAIN);
    const struct sl_vertex_list *list = &fx.topology.dataset.split[SL_SPLIT_TRAIN];
    struct sl_block_estimate guess;
    struct sl_block *b = fixture_draw(&drawer, &plan, 0, 0, list->ids, (uint32_t)list->n);
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, &guess), SL_OK);
    ck_assert_uint_ge(guess.max_bytes, b->bytes);
    free(b);
}
END_TEST

START_TEST(one_training_vertex)
{
    fx.topology.dataset.split[SL_SPLIT_TRAIN].n = 1;
    fx.topology.dataset.split[SL_SPLIT_VAL].n = 0;
    config.evaluate.full = false;
    struct sl_block_estimate guess;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, &guess), SL_OK);
    ck_assert_uint_ge(guess.max_bytes, sizeof(struct sl_block));
    ck_assert_uint_ge(guess.mean_bytes, sizeof(struct sl_block));
}
END_TEST

START_TEST(probing_changes_no_batch)
{
    struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_TRAIN);
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    struct sl_block *before = fixture_draw(&drawer, &plan, 0, 0, seeds, 128);
    struct sl_block_estimate guess;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, &guess), SL_OK);
    struct sl_block *after = fixture_draw(&drawer, &plan, 0, 0, seeds, 128);
    ck_assert_uint_eq(before->bytes, after->bytes);
    ck_assert_int_eq(memcmp(before, after, before->bytes), 0);
    free(before);
    free(after);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler_plan");
    TCase *c = tcase_create("plan");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, training_and_evaluation_have_plans_of_their_own);
    tcase_add_test(c, the_measured_size_holds_for_an_epoch);
    tcase_add_test(c, sampled_evaluation_counts_too);
    tcase_add_test(c, a_batch_of_more_than_the_training_set);
    tcase_add_test(c, one_training_vertex);
    tcase_add_test(c, probing_changes_no_batch);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
