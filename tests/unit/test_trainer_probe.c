// The training step that is measured before the first batch.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_farm.h"

#include "trainer/probe.h"

enum { DEVICE = 2 };

struct scene {
    struct farm f;
    struct farm_trainer t;
    struct sl_block *block;
};

static void scene_init(struct scene *s, const struct sl_config *c)
{
    *s = (struct scene){0};
    farm_init_small(&s->f, c, sl_kernels_ref());
    farm_prepare(&s->f, &s->t, DEVICE);
    farm_set_duty(&s->f, DEVICE, SL_DUTY_WORK);
    s->block = farm_block(&s->f, s->f.g->ds.split[SL_SPLIT_TRAIN].ids, 20, 0, 0);
}

static void scene_fini(struct scene *s)
{
    farm_release(&s->t);
    free(s->block);
    farm_fini(&s->f);
}

static int probe(struct scene *s, struct sl_trainer_probe *out)
{
    const struct sl_trainer_spec spec = farm_trainer_spec(&s->t);
    return sl_trainer_probe(&spec, out);
}

static const uint64_t LATER_NS = 500000000000;

// Once it sleeps, has slept long by the clock, and sleeps again.
static void *offer_later(void *arg)
{
    struct scene *s = arg;
    farm_until(atomic_load(&s->f.arena.h->progress.waiters) == 1);
    sl_clock_advance(LATER_NS);
    uint64_t expired = sl_event_expired();
    farm_until(sl_event_expired() > expired);
    farm_until(atomic_load(&s->f.arena.h->progress.waiters) == 1);
    sl_probe_offer(&s->f.arena, FARM_SAMPLER, s->block);
    return NULL;
}

LOOP_TEST(step_is_measured_once_there_is_a_block, 0, 2)
{
    struct sl_config c = farm_job(2);
    c.updates.mode = _i ? SL_UPDATE_ASYNC : SL_UPDATE_ORDERED;
    c.updates.batches_per_update = _i ? 1 : 2;
    struct scene s;
    scene_init(&s, &c);
    uint64_t params_bytes = s.f.model.n_params * sizeof(float);
    float *params = fixture_params(&s.f.model, 21);
    pthread_t sampler;
    ck_assert_int_eq(pthread_create(&sampler, NULL, offer_later, &s), 0);
    struct sl_trainer_probe out;
    ck_assert_int_eq(probe(&s, &out), SL_OK);
    pthread_join(sampler, NULL);
    ck_assert_uint_gt(out.train_ns, 0);
    ck_assert_uint_lt(out.train_ns, LATER_NS); // waiting is not part of it
    uint64_t features = (uint64_t)s.block->n_input * FARM_FEATURES * sizeof(float);
    ck_assert_uint_ge(out.step_bytes, 2 * features + s.t.model.pool.peak_bytes +
                                          s.block->n_input * 4ull * sizeof(uint32_t) +
                                          (_i ? params_bytes : 0));
    ck_assert_uint_le(out.step_bytes, 3 * features + s.t.model.pool.peak_bytes +
                                          s.block->n_input * 4ull * sizeof(uint32_t) +
                                          (_i ? params_bytes : 0));
    ck_assert_uint_gt(s.t.model.pool.peak_bytes, 0);
    // Nothing of the job has changed.
    ck_assert_uint_eq(sl_param_store_version(&s.f.arena), 0);
    ck_assert_int_eq(memcmp(sl_param_store_params(&s.f.arena, 0), params, params_bytes), 0);
    const float *slot = _i ? sl_param_store_device_gradient(&s.f.arena, DEVICE)
                           : sl_param_store_gradient(&s.f.arena, 0);
    for (uint64_t i = 0; i < s.f.model.n_params; i++)
        ck_assert(slot[i] == 0);
    free(params);
    scene_fini(&s);
}

LOOP_TEST(throttle_of_the_duty_counts, 0, 2)
{
    struct sl_config c = farm_job(2);
    c.throttle.train = 5000; // nobody sleeps for it
    c.throttle.standby = 7000;
    struct scene s;
    scene_init(&s, &c);
    farm_set_duty(&s.f, DEVICE, _i ? SL_DUTY_STANDBY : SL_DUTY_WORK);
    sl_probe_offer(&s.f.arena, FARM_SAMPLER, s.block);
    struct sl_trainer_probe out;
    ck_assert_int_eq(probe(&s, &out), SL_OK);
    ck_assert_uint_ge(out.train_ns, _i ? 7000000000000 : 5000000000000);
    scene_fini(&s);
}

LOOP_TEST(waiting_ends_with_the_job, 0, 2)
{
    struct sl_config c = farm_job(2);
    struct scene s;
    scene_init(&s, &c);
    if (_i)
        atomic_store(&s.t.stop, true);
    else
        sl_arena_abort(&s.f.arena, SL_ABORT_STOP);
    struct sl_trainer_probe out;
    ck_assert_int_eq(probe(&s, &out), SL_EABORTED);
    scene_fini(&s);
}

TEST(block_of_another_model_is_refused)
{
    struct sl_config c = farm_job(2);
    struct scene s;
    scene_init(&s, &c);
    s.block->n_hops = 1;
    sl_probe_offer(&s.f.arena, FARM_SAMPLER, s.block);
    struct sl_trainer_probe out;
    ck_assert_int_eq(probe(&s, &out), SL_EPROTO);
    scene_fini(&s);
}

RUN_TESTS(.timeout_s = 120)
