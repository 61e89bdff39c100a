// Gradients applied as they come, within a bound; and what becomes of trainers that are killed, in
// either mode.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_oracle.h"

#include "common/base/log.h"

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
    const struct sl_sync_spec spec = {.config = &c,
                                      .n_params = f.model.n_params,
                                      .tensors = f.model.tensor,
                                      .n_tensors = f.model.n_tensors,
                                      .arena = &f.arena,
                                      .worker = 1,
                                      .device = 3,
                                      .kernels = sl_kernels_ref(),
                                      .pulse = &f.pulse};
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
    const struct sl_sync_spec spec = {.config = &c,
                                      .n_params = f.model.n_params,
                                      .tensors = f.model.tensor,
                                      .n_tensors = f.model.n_tensors,
                                      .arena = &f.arena,
                                      .worker = 1,
                                      .device = 3,
                                      .kernels = sl_kernels_ref(),
                                      .memory = &device,
                                      .pulse = &f.pulse};
    ck_assert_int_eq(sl_sync_init(&sync, &spec), SL_OK);
    ck_assert_uint_eq(pinned, 1);
    sl_sync_fini(&sync);
    ck_assert_uint_eq(pinned, 0);
    sl_sync_fini(&sync);
    farm_fini(&f);
}

// --- processes that are killed ---

#ifndef __SANITIZE_THREAD__

static const char *const ORDERED_POINTS[] = {
    "trainer_claimed:3", "trainer_extracted:2", "trainer_gradient:2",
    "trainer_done:3",    "trainer_apply",       "trainer_flipped",
    "trainer_cache",     "standby_asleep:2",    "standby_woken:2",
};
static const char *const ASYNC_POINTS[] = {
    "trainer_claimed:3",  "trainer_extracted:2", "trainer_joined:3",
    "trainer_gradient:2", "trainer_offered:2",   "trainer_done:3",
    "trainer_apply:2",    "trainer_flipped:2",   "standby_woken:2",
};

// A process to be killed: on duty on the last device, or the standby trainer beside the sampler;
// and the one that takes its place.
struct victim {
    pid_t pid, next_pid;
    uint32_t worker, next_worker, device;
    enum sl_duty duty;
};

static void replace(struct farm *f, struct victim *v)
{
    v->pid = v->next_pid;
    v->worker = v->next_worker;
    farm_wake(f, v->pid, v->device, v->duty);
}

// Waits for the end of the phase, and buries and replaces the victim once it is dead. True if so.
static bool wait_and_replace(struct farm *f, struct victim *v, uint64_t seq)
{
    bool died = false;
    while (!sl_ledger_phase_complete(&f->arena, seq)) {
        int status;
        if (waitpid(v->pid, &status, WNOHANG) == v->pid) {
            ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
                          "trainer ended with status %x", (unsigned)status);
            ck_assert(!died);
            died = true;
            farm_bury(f, v->worker, v->device);
            replace(f, v);
        }
        farm_sleep_ms(1);
    }
    return died;
}

static bool is_dead(const struct victim *v)
{
    siginfo_t info = {0};
    ck_assert_int_eq(waitid(P_PID, (id_t)v->pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == v->pid;
}

static void reap(struct farm *f, struct victim *v)
{
    sl_arena_abort(&f->arena, SL_ABORT_STOP);
    int status;
    ck_assert_int_eq(waitpid(v->pid, &status, 0), v->pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "trainer ended with status %x",
                  (unsigned)status);
}

// The victim is alone: the standby trainer of a single device, or the only one on duty.
static void kill_at(const char *point, const struct sl_config *config)
{
    struct sl_config c = *config;
    struct farm f;
    farm_init_small(&f, &c, sl_kernels_ref());
    bool ordered = c.updates.mode == SL_UPDATE_ORDERED, died = false;
    float *wanted = ordered ? oracle_train(&f) : NULL;
    bool standby = strncmp(point, "standby", 7) == 0;
    struct victim v = {.device = standby ? 0 : FARM_DEVICES - 1,
                       .duty = standby ? SL_DUTY_STANDBY : SL_DUTY_WORK};
    atomic_store(&farm_seat(&f, v.device)->cache_rows, FARM_NODES / 2);
    if (strncmp(point, "trainer_cache", 13) == 0)
        farm_publish_order(&f, 1);
    v.pid = farm_fork(&f, v.device, point, &v.worker);
    v.next_pid = farm_fork(&f, v.device, "", &v.next_worker);
    farm_wake(&f, v.pid, v.device, v.duty);
    farm_start_sampler(&f);
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        uint64_t first = f.version, seq = farm_open_train(&f, epoch);
        died |= wait_and_replace(&f, &v, seq);
        oracle_check_entries(&f, seq);
        if (!ordered)
            check_bound(&f, seq, first);
        if (standby) // or the next epoch is sampled before it finds that this one is over
            farm_until(is_dead(&v) ||
                       atomic_load(&farm_seat(&f, 0)->activity) == SL_ACTIVITY_ASLEEP);
    }
    ck_assert_msg(died, "nobody reached %s", point);
    if (ordered)
        oracle_compare(&f, wanted);
    reap(&f, &v);
    free(wanted);
    farm_fini(&f);
}

LOOP_TEST(killed_in_ordered_mode_no_bit_changes, 0, SL_COUNT_OF(ORDERED_POINTS))
{
    struct sl_config c = farm_job(2);
    kill_at(ORDERED_POINTS[_i], &c);
}

LOOP_TEST(killed_in_async_mode_nothing_is_lost, 0, SL_COUNT_OF(ASYNC_POINTS))
{
    struct sl_config c = async_job(2);
    kill_at(ASYNC_POINTS[_i], &c);
}

#endif

int main(void)
{
    sl_log_set_level(SL_LOG_ERROR);
#ifdef __SANITIZE_THREAD__
    printf("SKIP: trainers that are killed: ThreadSanitizer does not see other processes\n");
#endif
    return run_tests((struct unit_case){.timeout_s = 120});
}
