// Gradients applied as they come, within a bound.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_oracle.h"

static struct sl_config async_job(uint32_t staleness)
{
    struct sl_config c = farm_job(1);
    c.updates.mode = SL_UPDATE_ASYNC;
    c.updates.staleness = staleness;
    return c;
}

// Each batch was applied exactly once, to a version of its own, not further from its base than the
// bound; returns the largest distance.
static uint64_t check_bound(struct farm *f, uint64_t seq, uint64_t first_version)
{
    uint32_t n = farm_batches(f);
    uint64_t furthest = 0;
    bool seen[FARM_CELLS] = {false};
    for (uint32_t i = 0; i < n; i++) {
        const struct sl_update_entry *e = sl_ledger_update(&f->arena, seq, i);
        ck_assert_uint_ge(e->applied_version, first_version);
        ck_assert_uint_lt(e->applied_version, first_version + n);
        ck_assert(!seen[e->applied_version - first_version]);
        seen[e->applied_version - first_version] = true;
        ck_assert_uint_le(e->base_version, e->applied_version);
        ck_assert_uint_le(e->applied_version - e->base_version, f->config.updates.staleness);
        furthest = SL_MAX(furthest, e->applied_version - e->base_version);
    }
    ck_assert_uint_ge(sl_param_store_version(&f->arena), first_version + n);
    return furthest;
}

static double mean_loss(struct farm *f, uint64_t seq)
{
    double loss = 0;
    uint64_t counted = 0;
    for (uint32_t i = 0; i < farm_batches(f); i++) {
        loss += sl_ledger_entry(&f->arena, seq, i)->loss;
        counted += sl_ledger_entry(&f->arena, seq, i)->counted;
    }
    return loss / (double)counted;
}

// One trainer always has the newest parameters, so it does what the ordered mode does.
LOOP_TEST(one_trainer_gives_the_bits_of_a_plain_loop, 0, 3)
{
    struct sl_config c = async_job((uint32_t)_i);
    struct farm f;
    farm_init_small(&f, &c, sl_kernels_ref());
    float *wanted = oracle_train(&f);
    farm_start_sampler(&f);
    farm_start_trainer(&f);
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        uint64_t first = f.version, seq = farm_open_train(&f, epoch);
        farm_wait(&f, seq);
        oracle_check_entries(&f, seq);
        ck_assert_uint_eq(check_bound(&f, seq, first), 0);
    }
    oracle_compare(&f, wanted);
    farm_fini(&f);
    free(wanted);
}

// Three trainers on duty and a standby trainer beside the sampler.
LOOP_TEST(every_gradient_is_applied_once_and_within_the_bound, 0, 5)
{
    static const uint32_t staleness[] = {0, 1, 2, 4, 100};
    struct sl_config c = async_job(staleness[_i]);
    c.sampler.batch_size = 2; // 25 batches
    c.model.dropout = c.model.input_dropout = 0;
    c.throttle.train = 0.001; // so that they meet
    struct farm f;
    farm_init_small(&f, &c, sl_kernels_ref());
    farm_start_sampler(&f);
    for (int i = 0; i < FARM_TRAINERS; i++)
        farm_start_trainer(&f);
    farm_start(&f, 0, SL_DUTY_STANDBY);
    double first_loss = 0, last_loss = 0;
    uint64_t furthest = 0;
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        uint64_t first = f.version, seq = farm_open_train(&f, epoch);
        farm_wait(&f, seq);
        oracle_check_entries(&f, seq);
        uint64_t far = check_bound(&f, seq, first);
        furthest = SL_MAX(furthest, far);
        last_loss = mean_loss(&f, seq);
        first_loss = epoch ? first_loss : last_loss;
    }
    ck_assert_uint_eq(sl_param_store_version(&f.arena), f.version);
    ck_assert_msg(last_loss < first_loss / 2, "loss %g, then %g", first_loss, last_loss);
    if (staleness[_i] > 0)
        ck_assert_uint_gt(furthest, 0); // they did run side by side
    farm_fini(&f);
}

TEST(batches_given_back_by_one_that_leaves_are_trained_by_others)
{
    struct sl_config c = async_job(2);
    c.throttle.train = 0.003;
    struct farm f;
    farm_init_small(&f, &c, sl_kernels_ref());
    farm_start_sampler(&f);
    farm_start_trainer(&f);
    farm_start_trainer(&f);
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        uint64_t first = f.version, seq = farm_open_train(&f, epoch);
        if (epoch == 1) {
            farm_until(sl_cell_state(sl_ledger_word(&f.arena, seq, 2)) >= SL_CELL_TRAINING);
            farm_stop_trainer(&f, &f.trainer[0]);
        }
        farm_wait(&f, seq);
        oracle_check_entries(&f, seq);
        check_bound(&f, seq, first);
    }
    farm_fini(&f);
}

// A gradient is outstanding that nobody computes: joining waits until its trainer is proved dead.
TEST(joining_is_bounded_and_goes_on_after_a_death)
{
    struct sl_config c = async_job(0);
    struct farm f;
    farm_init_small(&f, &c, sl_kernels_ref());
    float *params = fixture_alloc(f.model.n_params * sizeof *params);
    uint64_t version;
    ck_assert_int_eq(sl_param_store_join(&f.arena, 2, 9, params, &version), SL_OK);
    struct sl_sync sync;
    const struct sl_sync_spec spec = farm_sync_spec(&f, &c, 3);
    ck_assert_int_eq(sl_sync_init(&sync, &spec), SL_OK);
    uint64_t expired = sl_event_expired();
    ck_assert_int_eq(sl_sync_join(&sync, 30, &version), SL_ETIMEDOUT);
    ck_assert_uint_gt(sl_event_expired(), expired); // it slept
    farm_bury(&f, 9, 2);
    ck_assert_int_eq(sl_sync_join(&sync, 30, &version), SL_OK);
    ck_assert_uint_eq(version, 0);
    ck_assert_int_eq(
        memcmp(sync.joined, sl_param_store_params(&f.arena, 0), f.model.n_params * sizeof(float)),
        0);
    sl_arena_abort(&f.arena, SL_ABORT_STOP);
    ck_assert_int_eq(sl_sync_join(&sync, 30, &version), SL_EABORTED);
    sl_sync_fini(&sync);
    free(params);
    farm_fini(&f);
}

static uint32_t pinned; // pieces that are

static void *count_alloc(size_t n)
{
    pinned++;
    return sl_device_host()->host_alloc(n);
}

static void count_free(void *p, size_t n)
{
    pinned--;
    sl_device_host()->host_free(p, n);
}

// They go to the device with every batch.
TEST(joined_parameters_are_where_the_device_copies_from)
{
    struct sl_config c = async_job(0);
    struct farm f;
    struct sl_device device = *sl_device_host();
    device.host_alloc = count_alloc;
    device.host_free = count_free;
    farm_init_small(&f, &c, sl_kernels_ref());
    struct sl_sync sync;
    struct sl_sync_spec spec = farm_sync_spec(&f, &c, 3);
    spec.memory = &device;
    ck_assert_int_eq(sl_sync_init(&sync, &spec), SL_OK);
    ck_assert_uint_eq(pinned, 1);
    sl_sync_fini(&sync);
    ck_assert_uint_eq(pinned, 0);
    sl_sync_fini(&sync);
    farm_fini(&f);
}

RUN_TESTS(.quiet = true, .timeout_s = 120)
