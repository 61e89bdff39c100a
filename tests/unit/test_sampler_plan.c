// What a job says about sampling, and the sizes that are measured before it begins.
#include "config/config.h"
#include "sampler/plan.h"
#include "tests/unit/sampler_fixture.h"
#include "tests/unit/suite.h"

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

TEST(training_and_evaluation_have_plans_of_their_own)
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
    config.model.degrees = SL_DEGREES_BLOCK; // those the trainer counts
    train = sl_plan_of(&config, SL_PHASE_TRAIN);
    eval = sl_plan_of(&config, SL_PHASE_EVAL);
    ck_assert(!train.degrees && !eval.degrees);
}

TEST(the_job_says_how_neighbours_are_chosen)
{
    ck_assert_int_eq((int)sl_plan_of(&config, SL_PHASE_TRAIN).kind, SL_SAMPLER_KHOP);
    config.sampler.kind = SL_SAMPLER_WALK;
    config.sampler.paths = 10;
    config.sampler.length = 3;
    config.sampler.restart = 0.5;
    for (int i = 0; i < 2; i++) {
        struct sl_draw_plan plan = sl_plan_of(&config, i ? SL_PHASE_EVAL : SL_PHASE_TRAIN);
        ck_assert_int_eq((int)plan.kind, SL_SAMPLER_WALK);
        ck_assert_uint_eq(plan.paths, 10);
        ck_assert_uint_eq(plan.length, 3);
        ck_assert(plan.restart == 0.5f);
    }
}

TEST(pre_sampling_draws_as_training_does)
{
    struct sl_draw_plan train = sl_plan_of(&config, SL_PHASE_TRAIN);
    struct sl_draw_plan presample = sl_plan_of(&config, SL_PHASE_PRESAMPLE);
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    struct sl_block *a = fixture_draw(&drawer, &train, 2, 3, seeds, 128);
    struct sl_block *b = fixture_draw(&drawer, &presample, 2, 3, seeds, 128);
    ck_assert_uint_eq(a->bytes, b->bytes);
    ck_assert_int_eq(memcmp(a, b, a->bytes), 0);
    free(a);
    free(b);
}

TEST(a_job_with_a_cache_needs_room_for_ranks)
{
    struct sl_block_estimate without, with;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &without), SL_OK);
    config.cache.policy = SL_CACHE_PRESC;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &with), SL_OK);
    uint64_t ranks = sl_drawer_marked_bytes(with.probe) - with.probe->bytes;
    ck_assert_uint_ge(ranks, with.probe->n_input * 4ull);
    ck_assert_uint_ge(with.max_bytes, without.max_bytes + ranks);
    ck_assert_uint_gt(with.mean_bytes, without.mean_bytes);
    sl_block_estimate_fini(&without);
    sl_block_estimate_fini(&with);
}

// Of one batch the mean is the largest.
TEST(with_a_pool_one_large_batch_is_enough)
{
    for (int large = 0; large < 2; large++) {
        struct sl_block_estimate pool, apart;
        config.sampler.batch_size = large ? 1024 : 128;
        config.allocation.cores = SL_CORES_POOL;
        ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &pool), SL_OK);
        config.allocation.cores = SL_CORES_FIXED;
        ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &apart), SL_OK);
        ck_assert_int_eq(pool.mean_bytes == pool.probe->bytes, large);
        ck_assert_uint_lt(apart.mean_bytes, apart.probe->bytes);
        sl_block_estimate_fini(&pool);
        sl_block_estimate_fini(&apart);
    }
}

TEST(the_largest_training_probe_is_kept)
{
    struct sl_block_estimate e, again;
    config.evaluate.full = false; // its blocks are larger, but nobody trains on them
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &e), SL_OK);
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &again), SL_OK);
    ck_assert_uint_eq(e.probe->n_hops, 2);
    ck_assert_uint_eq(e.probe->n_seeds, 128);
    ck_assert_uint_eq(e.probe->epoch, UINT32_MAX);
    ck_assert_uint_eq(e.probe->flags, 0);
    ck_assert_uint_le(e.probe->bytes, e.max_bytes);
    // Every sampler has the same one, so it does not matter whose is taken.
    ck_assert_uint_eq(e.probe->bytes, again.probe->bytes);
    ck_assert_int_eq(memcmp(e.probe, again.probe, e.probe->bytes), 0);
    sl_block_estimate_fini(&e);
    sl_block_estimate_fini(&again);
    ck_assert_ptr_null(e.probe);
    sl_block_estimate_fini(&e);
}

enum { TIMEOUT_S = 60 };

TEST(the_time_of_a_batch_is_measured)
{
    struct sl_block_estimate e;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &e), SL_OK);
    ck_assert_uint_gt(e.t_sample_ns, 1000);
    ck_assert_uint_lt(e.t_sample_ns, TIMEOUT_S * 1000000000ull); // in nanoseconds
    sl_block_estimate_fini(&e);
    config.throttle.sample = 2.5;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &e), SL_OK);
    ck_assert_uint_eq(e.t_sample_ns, 2500000000u);
    sl_block_estimate_fini(&e);
}

TEST(an_error_of_the_kernel_leaves_nothing)
{
    config.sampler.kind = SL_SAMPLER_WEIGHTED;
    fx.topology.view.weight_prefix = NULL;
    struct sl_block_estimate e;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &e), SL_EINVAL);
    ck_assert_ptr_null(e.probe);
}

TEST(the_measured_size_holds_for_an_epoch)
{
    struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_TRAIN);
    struct sl_block_estimate guess, real = real_epoch(&plan, SL_SPLIT_TRAIN, 128);
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &guess), SL_OK);
    ck_assert_uint_ge(guess.max_bytes, real.max_bytes);
    ck_assert_uint_le(guess.max_bytes, 2 * real.max_bytes);
    ck_assert_uint_ge(guess.mean_bytes, real.mean_bytes * 8 / 10);
    ck_assert_uint_le(guess.mean_bytes, real.mean_bytes * 12 / 10);
    sl_block_estimate_fini(&guess);
}

TEST(sampled_evaluation_counts_too)
{
    struct sl_block_estimate without, with;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &without), SL_OK);
    config.evaluate.full = false;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &with), SL_OK);
    struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_EVAL);
    struct sl_block_estimate real = real_epoch(&plan, SL_SPLIT_VAL, 64);
    ck_assert_uint_gt(real.max_bytes, without.max_bytes); // its fanouts are larger
    ck_assert_uint_ge(with.max_bytes, real.max_bytes);
    sl_block_estimate_fini(&without);
    sl_block_estimate_fini(&with);
}

TEST(a_batch_of_more_than_the_training_set)
{
    config.sampler.batch_size = 1 << 20;
    struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_TRAIN);
    const struct sl_vertex_list *list = &fx.topology.dataset.split[SL_SPLIT_TRAIN];
    struct sl_block_estimate guess;
    struct sl_block *b = fixture_draw(&drawer, &plan, 0, 0, list->ids, (uint32_t)list->n);
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &guess), SL_OK);
    ck_assert_uint_ge(guess.max_bytes, b->bytes);
    free(b);
    sl_block_estimate_fini(&guess);
}

TEST(one_training_vertex)
{
    fx.topology.dataset.split[SL_SPLIT_TRAIN].n = 1;
    fx.topology.dataset.split[SL_SPLIT_VAL].n = 0;
    config.evaluate.full = false;
    struct sl_block_estimate guess;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &guess), SL_OK);
    ck_assert_uint_ge(guess.max_bytes, sizeof(struct sl_block));
    ck_assert_uint_ge(guess.mean_bytes, sizeof(struct sl_block));
    sl_block_estimate_fini(&guess);
}

TEST(probing_changes_no_batch)
{
    struct sl_draw_plan plan = sl_plan_of(&config, SL_PHASE_TRAIN);
    const uint32_t *seeds = fx.split[SL_SPLIT_TRAIN];
    struct sl_block *before = fixture_draw(&drawer, &plan, 0, 0, seeds, 128);
    struct sl_block_estimate guess;
    ck_assert_int_eq(sl_plan_measure(&config, &drawer, NULL, &guess), SL_OK);
    struct sl_block *after = fixture_draw(&drawer, &plan, 0, 0, seeds, 128);
    ck_assert_uint_eq(before->bytes, after->bytes);
    ck_assert_int_eq(memcmp(before, after, before->bytes), 0);
    free(before);
    free(after);
    sl_block_estimate_fini(&guess);
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = TIMEOUT_S)
