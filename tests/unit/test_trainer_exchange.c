// Sums of gradients among trainers on a real arena: threads and processes as trainers, the test as
// the broker, and a collective of host memory (fake_collective.h).
#include "tests/unit/trainer_farm.h"

#include "tests/unit/fake_collective.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_oracle.h"
#include "trainer/model/allreduce.h"

static struct sl_config group_job(uint32_t batches_per_update)
{
    struct sl_config c = farm_job(batches_per_update);
    c.updates.exchange = SL_EXCHANGE_NCCL;
    return c;
}

// For sums whose order is nobody's choice: another order is another rounding, of which Adam makes
// whole steps where a gradient is nearly 0; plain steps keep it as small as it is.
static struct sl_config unsorted_job(uint32_t batches_per_update)
{
    struct sl_config c = group_job(batches_per_update);
    c.optimizer.kind = SL_OPTIMIZER_SGD;
    c.optimizer.lr = 0.1;
    return c;
}

static void start(struct farm *f, const struct sl_config *c, const struct sl_kernels *kernels)
{
    fake_start();
    farm_init_small(f, c, kernels);
    f->collective = &fake_collective;
}

static void end(struct farm *f)
{
    farm_fini(f);
    fake_end();
}

// The threads that run, and a process where `worker` is not 0.
static void form(struct farm *f, uint32_t worker, uint32_t device)
{
    struct sl_group_member members[8];
    uint32_t n = 0;
    if (worker)
        members[n++] = (struct sl_group_member){worker, device};
    for (uint32_t i = 0; i < f->n_trainers; i++)
        if (f->trainer[i].running)
            members[n++] = (struct sl_group_member){f->trainer[i].worker, f->trainer[i].device};
    sl_group_form(&f->arena, members, n);
}

// `worker` is rank 0; rank 1 is nobody that the test runs.
static void form_with_a_stranger(struct farm *f, uint32_t worker)
{
    const struct sl_group_member members[] = {{worker, 1}, {worker + 1000, 2}};
    sl_group_form(&f->arena, members, SL_COUNT_OF(members));
}

// A job of the group's with so many trainers, which have met.
static void start_together(struct farm *f, uint32_t batches_per_update, uint32_t n_trainers)
{
    const struct sl_config c = group_job(batches_per_update);
    start(f, &c, sl_kernels_ref());
    for (uint32_t i = 0; i < n_trainers; i++)
        farm_start_trainer(f);
    if (n_trainers > 0)
        form(f, 0, 0);
}

// The epochs behind the first one, and what all of them have come to; frees `wanted`.
static void finish(struct farm *f, float *wanted)
{
    for (uint32_t epoch = 1; epoch < ORACLE_EPOCHS; epoch++)
        farm_wait(f, farm_open_train(f, epoch));
    oracle_compare(f, wanted);
    end(f);
    free(wanted);
}

static void compare_nearly(struct farm *f, const float *wanted)
{
    ck_assert_uint_eq(sl_param_store_version(&f->arena), f->version);
    const float *found = sl_param_store_params(&f->arena, f->version);
    for (uint64_t i = 0; i < f->model.n_params; i++)
        ck_assert_msg(fabsf(found[i] - wanted[i]) <= 2e-4f * (1 + fabsf(wanted[i])),
                      "parameter %llu: found %.9g, wanted %.9g", (unsigned long long)i, found[i],
                      wanted[i]);
}

static void train_grouped(const struct sl_config *c, const struct sl_kernels *kernels,
                          uint32_t n_members)
{
    struct farm f;
    start(&f, c, kernels);
    float *wanted = oracle_train_grouped(&f, n_members), *alone = oracle_train(&f);
    farm_start_sampler(&f);
    for (uint32_t i = 0; i < n_members; i++)
        farm_start_trainer(&f);
    form(&f, 0, 0);
    oracle_run_epochs(&f);
    oracle_compare(&f, wanted); // bit for bit
    if (n_members == 1)
        oracle_compare(&f, alone);
    // Before a batch norm a bias has no gradient but rounding, which Adam makes steps of.
    if (c->model.norm != SL_NORM_BATCH)
        compare_nearly(&f, alone);
    ck_assert_uint_eq(atomic_load(&fake_world->n_sums), f.version); // one for each update
    end(&f);
    free(wanted);
    free(alone);
}

// Steps so large that the second update has numbers that are not finite: who makes it says so.
TEST(a_sum_that_is_not_finite_ends_the_job)
{
    struct sl_config c = unsorted_job(2);
    struct farm f;
    c.optimizer.lr = 1e30;
    start(&f, &c, sl_kernels_ref());
    farm_start_sampler(&f);
    farm_start_trainer(&f);
    form(&f, 0, 0);
    farm_open_train(&f, 0);
    pthread_join(f.trainer[0].thread, NULL);
    f.trainer[0].running = false;
    farm_release(&f.trainer[0]);
    ck_assert_int_eq(f.trainer[0].rc, SL_ENOTFINITE);
    const uint64_t version = sl_param_store_version(&f.arena);
    ck_assert_uint_lt(version, f.version);
    for (uint64_t i = 0; i < f.model.n_params; i++)
        ck_assert(isfinite(sl_param_store_params(&f.arena, version)[i]));
    end(&f);
}

// 7 batches an epoch, the last of 2 seeds; updates of 1, 2, 3 and 16: members without a batch, a
// short last update, an update of all batches.
LOOP_TEST(bits_depend_on_the_number_of_members_alone, 1, FARM_TRAINERS + 1)
{
    static const uint32_t per_update[] = {1, 2, 3, 16};
    for (size_t i = 0; i < SL_COUNT_OF(per_update); i++) {
        struct sl_config c = group_job(per_update[i]);
        train_grouped(&c, sl_kernels_ref(), (uint32_t)_i);
    }
}

// They go to the batches' own slots, in the order of the batches.
LOOP_TEST(running_statistics_are_those_of_the_board, 1, FARM_TRAINERS + 1)
{
    sl_kernels_set_threads(1);
    struct sl_config c = group_job(3);
    c.model.norm = SL_NORM_BATCH;
    c.optimizer.kind = SL_OPTIMIZER_ADAMW;
    train_grouped(&c, sl_kernels_cpu(), (uint32_t)_i);
}

TEST(clipped_gradients_too)
{
    struct sl_config c = group_job(3);
    c.optimizer.clip_norm = 0.01;
    struct farm f;
    float *params[2];
    for (int grouped = 0; grouped < 2; grouped++) {
        c.updates.exchange = grouped ? SL_EXCHANGE_NCCL : SL_EXCHANGE_BOARD;
        start(&f, &c, sl_kernels_ref());
        farm_start_sampler(&f);
        farm_start_trainer(&f);
        if (grouped)
            form(&f, 0, 0);
        oracle_run_epochs(&f);
        uint64_t bytes = f.model.n_params * sizeof(float);
        params[grouped] = fixture_alloc(bytes);
        memcpy(params[grouped], sl_param_store_params(&f.arena, f.version), bytes);
        if (grouped)
            oracle_compare(&f, params[0]);
        end(&f);
    }
    free(params[0]);
    free(params[1]);
}

// Nobody trains before there is a group; evaluation needs none.
TEST(without_a_group_nothing_is_trained)
{
    struct farm f;
    start_together(&f, 2, 0);
    float *wanted = oracle_train_grouped(&f, 2);
    farm_start_sampler(&f);
    farm_start_trainer(&f);
    farm_start_trainer(&f);
    farm_infer(&f, SL_SET_VAL, SL_PARAMS_CURRENT, 32);
    uint64_t seq = farm_open_train(&f, 0);
    farm_until(sl_cell_state(sl_ledger_word(&f.arena, seq, 0)) == SL_CELL_READY);
    farm_trainers_come_round(&f);
    ck_assert_uint_eq(sl_cell_state(sl_ledger_word(&f.arena, seq, 0)), SL_CELL_READY);
    form(&f, 0, 0);
    farm_wait(&f, seq);
    farm_infer(&f, SL_SET_VAL, SL_PARAMS_CURRENT, 32);
    finish(&f, wanted);
}

// Members come and go while an epoch runs: communicators are rebuilt, nothing is lost.
TEST(members_may_come_and_go)
{
    struct sl_config c = unsorted_job(4);
    struct farm f;
    start(&f, &c, sl_kernels_ref());
    float *wanted = oracle_train(&f);
    farm_start_sampler(&f);
    farm_start_trainer(&f);
    form(&f, 0, 0);
    farm_wait(&f, farm_open_train(&f, 0));
    farm_start_trainer(&f);
    farm_start_trainer(&f);
    uint64_t seq = farm_open_train(&f, 1);
    form(&f, 0, 0); // while it is trained
    farm_wait(&f, seq);
    oracle_check_entries(&f, seq);
    seq = farm_open_train(&f, 2);
    farm_stop_trainer(&f, &f.trainer[1]); // what it held it gives back
    struct sl_reclaimed nothing;
    sl_ledger_reclaim(&f.arena, f.trainer[1].worker, &nothing);
    form(&f, 0, 0);
    ck_assert_uint_eq(nothing.retrain + nothing.resample + nothing.finished, 0);
    farm_wait(&f, seq);
    oracle_check_entries(&f, seq);
    compare_nearly(&f, wanted);
    // The first epoch's members are not the last one's; others may have had nothing to sum.
    ck_assert_uint_ge(atomic_load(&fake_world->n_groups), 2);
    end(&f);
    free(wanted);
}

static _Atomic bool *to_stop;

static int aggregate_and_stop(const struct sl_aggregate_args *args)
{
    atomic_store(to_stop, true);
    return sl_kernels_ref()->aggregate(args);
}

TEST(who_stops_in_the_middle_of_a_batch_gives_it_back)
{
    struct sl_config c = group_job(1);
    struct sl_kernels kernels = *sl_kernels_ref();
    kernels.aggregate = aggregate_and_stop;
    struct farm f;
    start(&f, &c, &kernels);
    to_stop = &f.trainer[0].stop;
    farm_start_trainer(&f);
    form(&f, 0, 0);
    uint64_t seq = farm_open_train(&f, 0);
    farm_sample_one(&f);
    farm_until(atomic_load(to_stop));
    farm_stop_trainer(&f, &f.trainer[0]);
    ck_assert_uint_eq(sl_cell_state(sl_ledger_word(&f.arena, seq, 0)), SL_CELL_READY);
    end(&f);
}

// What waits for the device never ends on a GPU while a sum is in this thread's queue.
static void free_behind_sums(void *p, size_t bytes)
{
    ck_assert_msg(!fake_me.out, "memory is given back while a sum goes on");
    sl_device_host()->memory.free(p, bytes);
}

static void host_free_behind_sums(void *p, size_t bytes)
{
    ck_assert_msg(!fake_me.out, "host memory is given back while a sum goes on");
    sl_device_host()->host_free(p, bytes);
}

static int sync_behind_sums(void)
{
    ck_assert_msg(!fake_me.out, "the device is waited for while a sum goes on");
    return sl_device_host()->sync();
}

TEST(who_stops_in_a_sum_gives_it_up_before_waiting_for_the_device)
{
    struct sl_config c = group_job(1);
    struct sl_device device = *sl_device_host();
    struct farm f;
    device.memory.free = free_behind_sums;
    device.host_free = host_free_behind_sums;
    device.sync = sync_behind_sums;
    start(&f, &c, sl_kernels_ref());
    f.device = &device;
    farm_start_trainer(&f);
    struct farm_trainer *t = &f.trainer[0];
    atomic_store(&fake_world->group[0].met, 1u << 1); // the stranger comes, and never sums
    form_with_a_stranger(&f, t->worker);
    uint64_t seq = farm_open_train(&f, 0);
    farm_sample_one(&f);
    farm_until(atomic_load(&fake_world->group[0].posted[0]) == 1);
    farm_stop_trainer(&f, t);
    ck_assert_uint_eq(atomic_load(&fake_world->n_aborts), 1);
    ck_assert_uint_eq(sl_cell_state(sl_ledger_word(&f.arena, seq, 0)), SL_CELL_PENDING);
    end(&f);
}

// The first ones are certain to be reached by each of several trainers.
static const char *const deaths[] = {"trainer_claimed:3", "trainer_gradient:3", "trainer_held:3",
                                     "trainer_reduce:2",  "trainer_reduced:2",  "trainer_written:2",
                                     "trainer_counted:2", "trainer_done:2",     "trainer_apply:2",
                                     "trainer_flipped:2"};
enum { DEATHS_OF_ANY = 8 };

// A process and `n_threads` threads train; the process dies at the point, and a thread takes its
// place.
static void die(const char *failpoint, uint32_t n_threads)
{
    struct sl_config c = unsorted_job(3);
    struct farm f;
    start(&f, &c, sl_kernels_ref());
    float *wanted = oracle_train(&f);
    uint32_t worker, device = FARM_DEVICES - 1;
    pid_t pid = farm_fork(&f, device, failpoint, &worker);
    farm_wake(&f, pid, device, SL_DUTY_WORK);
    farm_start_sampler(&f);
    for (uint32_t i = 0; i < n_threads; i++)
        farm_start_trainer(&f);
    form(&f, worker, device);
    uint64_t seq = farm_open_train(&f, 0);
    int status = 0;
    farm_until(waitpid(pid, &status, WNOHANG) == pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: ended with %x",
                  failpoint, status);
    farm_bury(&f, worker, device);
    form(&f, 0, 0);
    farm_start(&f, device, SL_DUTY_WORK);
    form(&f, 0, 0);
    for (uint32_t epoch = 0; epoch < ORACLE_EPOCHS; epoch++) {
        seq = epoch > 0 ? farm_open_train(&f, epoch) : seq;
        farm_wait(&f, seq);
        oracle_check_entries(&f, seq);
    }
    if (n_threads == 0)
        oracle_compare(&f, wanted); // all that was lost was drawn and trained again, in order
    compare_nearly(&f, wanted);
    end(&f);
    free(wanted);
}

LOOP_TEST(a_member_may_die_anywhere, 0, 3 * DEATHS_OF_ANY)
{
    die(deaths[_i / 3], (uint32_t)_i % 3);
}

LOOP_TEST(the_only_member_may_die_while_it_applies, DEATHS_OF_ANY, SL_COUNT_OF(deaths))
{
    die(deaths[_i], 0);
}

// A communicator that fails though nobody died is not used again; the job goes on when the broker
// makes a new group.
TEST(a_broken_communicator_waits_for_the_next_generation)
{
    struct farm f;
    start_together(&f, 2, 0);
    float *wanted = oracle_train_grouped(&f, 2);
    farm_start_sampler(&f);
    farm_start_trainer(&f);
    farm_start_trainer(&f);
    atomic_store(&fake_world->fails, 1);
    form(&f, 0, 0);
    uint64_t seq = farm_open_train(&f, 0);
    farm_until(atomic_load(&fake_world->fails) == 0);
    farm_trainers_come_round(&f);
    ck_assert_uint_eq(sl_param_store_version(&f.arena), 0);
    sl_group_form(&f.arena, NULL, 0);
    form(&f, 0, 0);
    farm_wait(&f, seq);
    finish(&f, wanted);
}

// A member without a loop around it: the test calls it step by step.
static int open_alone(struct sl_exchange *x, struct farm *f, uint32_t worker)
{
    static struct sl_update_runs runs;
    runs.n_params = f->model.n_params;
    const struct sl_exchange_spec spec = {
        .arena = &f->arena,
        .worker = worker,
        .compute = {.device = sl_device_host(), .kernels = f->kernels},
        .collective = &fake_collective,
        .runs = &runs,
        .pulse = &f->pulse,
    };
    return sl_exchange_init(x, &spec);
}

// Its lease is gone by the time it has computed: the sum has a gradient by then that is somebody
// else's to count, so none of the sum is kept.
TEST(a_batch_that_was_taken_away_takes_the_sum_with_it)
{
    struct farm f;
    start_together(&f, 4, 0);
    enum { WORKER = 7 };
    const struct sl_group_member member = {WORKER, 1};
    struct sl_lease first, second, third;
    struct sl_exchange x;
    ck_assert_int_eq(open_alone(&x, &f, WORKER), SL_OK);
    farm_open_train(&f, 0);
    for (int i = 0; i < 3; i++)
        farm_sample_one(&f);
    sl_group_form(&f.arena, &member, 1);
    ck_assert_int_eq(sl_ledger_claim_train(&f.arena, WORKER, 0, &first), SL_OK);
    ck_assert_int_eq(sl_ledger_claim_train(&f.arena, WORKER, 0, &second), SL_OK);
    float *gradient = calloc(f.model.n_params, sizeof *gradient);
    gradient[0] = 1;
    ck_assert_int_eq(sl_exchange_add(&x, &first, gradient), SL_OK);
    ck_assert_int_eq(sl_exchange_keep(&x, &first), SL_OK);
    ck_assert_uint_eq(x.n_held, 1);
    sl_ledger_return(&f.arena, &second);
    ck_assert_int_eq(sl_exchange_add(&x, &second, gradient), SL_OK);
    ck_assert_int_eq(sl_exchange_keep(&x, &second), SL_OK);
    ck_assert_uint_eq(x.n_held, 0);
    farm_sample_one(&f); // the first one again
    ck_assert_int_eq(sl_ledger_claim_train(&f.arena, WORKER, 0, &third), SL_OK);
    ck_assert_int_eq(sl_exchange_add(&x, &third, gradient), SL_OK);
    ck_assert_int_eq(sl_exchange_keep(&x, &third), SL_OK);
    ck_assert(x.n_held == 1 && x.sum[0] == 1);
    free(gradient);
    sl_exchange_fini(&x);
    end(&f);
}

// A member that comes when an update is reduced but its batches are still held by those who summed
// it: they will complete them, and would not come to a second sum.
TEST(what_is_reduced_is_not_summed_again)
{
    struct farm f;
    start_together(&f, 1, 0);
    enum { OLD = 7, NEW = 8 };
    const struct sl_group_member members[] = {{OLD, 1}, {NEW, 2}};
    struct sl_group_view old;
    struct sl_lease lease;
    farm_open_train(&f, 0);
    farm_sample_one(&f);
    sl_group_form(&f.arena, members, 1);
    ck_assert_int_eq(sl_ledger_claim_train(&f.arena, OLD, 0, &lease), SL_OK);
    ck_assert_int_eq(sl_ledger_hold(&f.arena, &lease), SL_OK);
    ck_assert(sl_group_read(&f.arena, OLD, &old));
    ck_assert_int_eq(sl_group_count_written(&f.arena, &old, 0), SL_OK);
    ck_assert(sl_group_is_reduced(&f.arena, 0));

    sl_group_form(&f.arena, members, 2);
    ck_assert(sl_group_read(&f.arena, OLD, &old));
    uint8_t name[SL_GROUP_NAME_BYTES];
    ck_assert_int_eq(fake_unique_id(name), SL_OK);
    sl_group_name(&f.arena, &old, name);
    atomic_store(&fake_world->group[0].met, 1u << old.rank);
    struct sl_exchange x;
    ck_assert_int_eq(open_alone(&x, &f, NEW), SL_OK);
    ck_assert_int_eq(sl_exchange_help(&x), SL_OK);
    ck_assert_int_eq(x.state, SL_EXCHANGE_TOGETHER);
    ck_assert_uint_eq(atomic_load(&fake_world->group[0].posted[1]), 0);
    sl_exchange_fini(&x);
    end(&f);
}

static int no_nccl(uint8_t id[SL_COLLECTIVE_ID_BYTES])
{
    memset(id, 0, SL_COLLECTIVE_ID_BYTES);
    return sl_fail(SL_ENOENT, "fake: there is no NCCL");
}

static int no_use(uint8_t id[SL_COLLECTIVE_ID_BYTES])
{
    memset(id, 0, SL_COLLECTIVE_ID_BYTES);
    return sl_fail(SL_EUNSUPPORTED, "fake: NCCL's settings do not allow it");
}

static struct sl_lease claim_late(struct farm *f)
{
    struct sl_lease lease;
    ck_assert_int_eq(sl_ledger_claim_sample(&f->arena, FARM_SAMPLER, SL_AHEAD_ALL, 0, &lease),
                     SL_OK);
    return lease;
}

static void until_state(struct farm *f, const struct sl_lease *lease, enum sl_cell_state state)
{
    farm_until(sl_cell_state(sl_ledger_word(&f->arena, lease->seq, lease->cell)) ==
               (uint32_t)state);
}

// What a member has claimed ahead fills the memory that a batch of somebody else's needs, for whose
// update it waits.
TEST(who_is_ahead_makes_room)
{
    struct farm f;
    start_together(&f, 2, 2);
    float *wanted = oracle_train_grouped(&f, 2);
    uint64_t seq = farm_open_train(&f, 0);
    struct sl_lease held = farm_sample_one(&f), late[2], ahead[2];
    until_state(&f, &held, SL_CELL_HELD);
    for (int i = 0; i < 2; i++) {
        late[i] = claim_late(&f);
        ahead[i] = farm_sample_one(&f);
        until_state(&f, &ahead[i], SL_CELL_TRAINING);
    }
    struct sl_extent rest;
    const struct sl_lease nobody = {.tag = UINT64_MAX};
    while (sl_payload_alloc(&f.arena, &nobody, 1, 0, &rest) == SL_OK)
        ;
    for (int i = 0; i < 2; i++)
        farm_publish(&f, &late[i]); // waits for memory
    farm_start_sampler(&f);
    farm_wait(&f, seq);
    ck_assert_uint_ge(atomic_load(&sl_ledger_of(&f.arena)->evicted), 1);
    finish(&f, wanted);
}

enum { THROTTLE_S = 1000 };

// What never comes to pass though nobody died: a bound, and words.
TEST(a_meeting_has_a_bound)
{
    struct farm f;
    start_together(&f, 1, 0);
    enum { FIRST = 7, SECOND = 8 };
    const struct sl_group_member members[] = {{FIRST, 1}, {SECOND, 2}};
    struct sl_group_view view;
    uint8_t name[SL_GROUP_NAME_BYTES];
    sl_group_form(&f.arena, members, 2);
    ck_assert(sl_group_read(&f.arena, FIRST, &view));
    struct sl_exchange x;
    ck_assert_int_eq(open_alone(&x, &f, SECOND), SL_OK);
    ck_assert_int_eq(sl_exchange_help(&x), SL_OK);
    ck_assert_int_eq(x.state, SL_EXCHANGE_APART); // no name yet
    ck_assert_int_eq(fake_unique_id(name), SL_OK);
    sl_group_name(&f.arena, &view, name);
    ck_assert_int_eq(sl_exchange_help(&x), SL_OK);
    ck_assert_int_eq(x.state, SL_EXCHANGE_MEETING);
    // Of each look at most a second counts, however long the process was stopped before it: that
    // is what it takes here.
    x.waited_ns = 550 * 1000000000ull;
    sl_clock_advance(60 * 1000000000ull);
    ck_assert_int_eq(sl_exchange_help(&x), SL_OK);
    ck_assert_int_eq(x.state, SL_EXCHANGE_MEETING);
    x.waited_ns = 601 * 1000000000ull;
    ck_assert_int_eq(sl_exchange_help(&x), SL_OK);
    ck_assert_int_eq(x.state, SL_EXCHANGE_BROKEN);
    ck_assert_uint_eq(atomic_load(&fake_world->n_aborts), 1);
    x.waited_ns = 50 * 1000000000ull; // a peer that is killed may take long to be gone
    ck_assert_int_eq(sl_exchange_help(&x), SL_OK);
    x.waited_ns = 61 * 1000000000ull; // the broker does not say that somebody has died
    ck_assert_int_eq(sl_exchange_help(&x), SL_EDEVICE);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "have not met within 600 s"));
    sl_exchange_fini(&x);
    end(&f);
}

// Lets time pass until the throttled trainers' batch is in the wanted state.
static void throttled_until(struct farm *f, const struct sl_lease *lease, enum sl_cell_state state)
{
    farm_until(
        (sl_clock_advance(THROTTLE_S * 1000000000ull),
         sl_cell_state(sl_ledger_word(&f->arena, lease->seq, lease->cell)) == (uint32_t)state));
}

// Idle trainers look around ten times a second, and no more often: what others do wakes them.
TEST(an_idle_member_sleeps)
{
    enum { THREADS = 4 };
    struct farm f;
    start_together(&f, 2, 2);
    farm_open_train(&f, 0);
    struct sl_lease first = farm_sample_one(&f);
    until_state(&f, &first, SL_CELL_HELD);
    // The threads that extract wait for a batch, the others for what the group does.
    farm_until(atomic_load(&f.arena.h->progress.waiters) == THREADS &&
               sl_event_sleeping_ms() > (THREADS - 1) * SL_ARENA_WAIT_MS);
    uint32_t seen = sl_event_read(&f.arena.h->progress);
    struct sl_lease second = farm_sample_one(&f);
    farm_until(sl_param_store_version(&f.arena) == 1);
    ck_assert_uint_ne(sl_event_read(&f.arena.h->progress), seen);
    (void)second;
    end(&f);
}

// While the job is paused nobody claims anything, but what is in hand is finished: the sum wants
// also those who have nothing to do any more.
TEST(a_pause_does_not_keep_a_sum_waiting)
{
    struct sl_config c = group_job(2);
    c.throttle.train = THROTTLE_S;
    struct farm f;
    start(&f, &c, sl_kernels_ref());
    farm_start_trainer(&f);
    farm_start_trainer(&f);
    form(&f, 0, 0);
    farm_open_train(&f, 0);
    struct sl_lease first = farm_sample_one(&f);
    throttled_until(&f, &first, SL_CELL_HELD);
    struct sl_lease second = farm_sample_one(&f);
    until_state(&f, &second, SL_CELL_TRAINING);
    sl_arena_pause(&f.arena, true);
    // Whoever holds the first one sleeps where it hears of the second one. So may the threads that
    // extract, or elsewhere: nothing says where a pause finds them.
    farm_until(atomic_load(&f.arena.h->progress.waiters) >= 1);
    ck_assert_uint_eq(sl_param_store_version(&f.arena), 0);
    farm_until(
        (sl_clock_advance(THROTTLE_S * 1000000000ull), sl_param_store_version(&f.arena) == 1));
    sl_arena_pause(&f.arena, false);
    end(&f);
}

// At once, also where a peer could be the reason of other failures.
LOOP_TEST(without_nccl_the_trainer_says_so, 0, 2)
{
    struct sl_config c = group_job(2);
    struct sl_collective none = fake_collective;
    none.unique_id = _i ? no_use : no_nccl;
    struct farm f;
    start(&f, &c, sl_kernels_ref());
    f.collective = &none;
    farm_start_trainer(&f);
    struct farm_trainer *t = &f.trainer[0];
    form_with_a_stranger(&f, t->worker);
    pthread_join(t->thread, NULL);
    t->running = false;
    ck_assert_int_eq(t->rc, _i ? SL_EUNSUPPORTED : SL_ENOENT);
    sl_model_fini(&t->model);
    end(&f);
}

TEST(an_arena_without_a_group_is_refused)
{
    struct sl_config c = farm_job(2);
    struct farm f;
    start(&f, &c, sl_kernels_ref());
    struct sl_exchange x;
    ck_assert_int_eq(open_alone(&x, &f, 1), SL_EPROTO);
    sl_exchange_fini(&x);
    end(&f);
}

RUN_TESTS(.timeout_s = 120)
