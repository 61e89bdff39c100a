// Who sums gradients with whom: trainers join when they are ready, together, and leave when dead.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <cjson/cJSON.h>

#include "broker/job/job.h"
#include "common/base/clock.h"
#include "common/arena/group.h"

enum { N = 4, SECOND = 1000000000 };

static struct sl_job job;
static struct sl_pool_worker members[2 * N];
static struct sl_clients clients;
static uint32_t next_worker;

static struct sl_pool_worker *trainer(uint32_t device)
{
    return &members[N + device];
}

static void setup(void)
{
    const struct sl_arena_spec spec = {
        .n_devices = N,
        .n_cells = 8,
        .n_train = 80,
        .n_params = 3,
        .n_state = 1,
        .exchange = 1,
        .batches_per_update = 4,
        .payload_bytes = 4 * SL_ARENA_CHUNK_BYTES,
    };
    memset(&job, 0, sizeof job);
    memset(members, 0, sizeof members);
    next_worker = 10;
    snprintf(job.config.name, sizeof job.config.name, "test");
    job.config.n_devices = N;
    job.config.updates.exchange = SL_EXCHANGE_NCCL;
    job.config.updates.batches_per_update = 4;
    for (uint32_t d = 0; d < N; d++)
        job.config.devices[d] = (struct sl_device_config){.kind = SL_DEVICE_CUDA, .index = d};
    sl_job_wire(&job);
    job.split.roles = (struct sl_roles){1, 3};
    job.workers.n = 2 * N;
    job.workers.list = members;
    for (uint32_t i = 0; i < 2 * N; i++) {
        members[i].role = i < N ? SL_ROLE_SAMPLER : SL_ROLE_TRAINER;
        members[i].device = i % N;
        members[i].slot = i;
    }
    job.split.stage = SL_SPLIT_RUNS;
    sl_joblog_init(&job.log, &clients);
    must(sl_timeline_init(&job.timeline));
    int fd = sl_arena_memfd();
    must(fd);
    must(sl_arena_create(fd, &spec, &job.arena));
    job.phases.arena = &job.arena;
    job.phases.setup.plan.config = &job.config;
}

static void teardown(void)
{
    sl_timeline_fini(&job.timeline);
    sl_joblog_fini(&job.log);
    sl_arena_detach(&job.arena);
}

// A process is started there, says Ready, dies.
static void start(uint32_t device)
{
    struct sl_pool_worker *w = trainer(device);
    w->wanted = w->alive = true;
    w->ready = false;
    w->worker = next_worker++;
}

static void begin(uint32_t device)
{
    start(device);
    trainer(device)->ready = true;
}

static void die(uint32_t device)
{
    trainer(device)->alive = trainer(device)->ready = false;
}

// The group's devices as text, "123", and its generation.
static void expect(const char *devices, uint64_t generation)
{
    char found[N + 1] = "";
    struct sl_group_view view;
    sl_trainer_group_form(&job.group);
    for (uint32_t d = 0; d < N; d++) {
        ck_assert(sl_group_read(&job.arena, trainer(d)->worker, &view));
        if (trainer(d)->worker && view.rank < view.n) {
            ck_assert_uint_eq(view.rank, strlen(found)); // in the order of their devices
            found[strlen(found)] = (char)('0' + d);
        }
    }
    ck_assert(sl_group_read(&job.arena, 0, &view));
    ck_assert_str_eq(found, devices);
    ck_assert_uint_eq(view.n, strlen(devices));
    ck_assert_uint_eq(view.generation, generation);
    ck_assert_uint_eq(job.group.n, view.n);
    ck_assert_uint_eq(job.group.generation, generation);
}

static void all_begin(void)
{
    for (uint32_t d = 1; d < N; d++)
        begin(d);
    expect("123", 1);
}

TEST(all_come_together_when_a_job_starts)
{
    job.split.stage = SL_SPLIT_STARTS;
    expect("", 0);
    begin(3);
    expect("", 0);
    job.group.waiting_ns = sl_now_ns() - 100ull * SECOND; // however long it takes
    expect("", 0);
    begin(1);
    start(2);
    expect("", 0);
    trainer(2)->ready = true;
    expect("123", 1);
    expect("123", 1); // nothing has changed
    ck_assert_uint_eq(job.timeline.n, 0);
    job.split.stage = SL_SPLIT_RUNS; // now it is told, once
    expect("123", 1);
    expect("123", 1);
    ck_assert_uint_eq(job.timeline.n, 1);
    ck_assert_ptr_nonnull(strstr(job.timeline.events[0].line, "\"kind\":\"exchange\""));
    ck_assert_ptr_nonnull(
        strstr(job.timeline.events[0].line, "3 trainers sum gradients by NCCL (generation 1)"));
}

TEST(scouts_form_no_group)
{
    job.split.stage = SL_SPLIT_STARTS;
    job.split.scouting = true;
    job.split.roles = (struct sl_roles){1, 1};
    begin(3);
    expect("", 0);
    job.split.scouting = false;
    job.split.roles = (struct sl_roles){1, 3};
    expect("", 0); // the others are about to be started
    job.split.roles = (struct sl_roles){1, 1};
    expect("3", 1);
}

TEST(a_death_takes_off_and_a_replacement_joins)
{
    all_begin();
    die(2);
    expect("13", 2);
    begin(2);
    expect("123", 3);
    const char *first = job.timeline.events[0].line, *last = job.timeline.events[2].line;
    ck_assert_uint_eq(job.timeline.n, 3);
    ck_assert_ptr_nonnull(strstr(first, "(generation 1)"));
    ck_assert_ptr_nonnull(strstr(last, "(generation 3)"));
}

// Between two looks: its successor is not what it was.
TEST(a_replacement_is_not_the_member_that_it_replaces)
{
    all_begin();
    die(2);
    start(2);
    expect("13", 2);
}

TEST(who_is_told_to_leave_stays_until_it_is_dead)
{
    all_begin();
    job.split.roles.trainers = 2;
    trainer(1)->wanted = false;
    trainer(1)->leaving = true;
    expect("123", 1);
    die(1);
    trainer(1)->leaving = false;
    expect("23", 2);
}

TEST(who_is_leaving_does_not_join)
{
    job.split.roles.trainers = 2;
    begin(2);
    begin(3);
    expect("23", 1);
    begin(1);
    trainer(1)->wanted = false;
    trainer(1)->leaving = true;
    expect("23", 1);
}

TEST(those_who_come_at_the_same_time_join_together)
{
    job.split.roles.trainers = 1;
    begin(3);
    expect("3", 1);
    ck_assert_ptr_nonnull(strstr(job.timeline.events[0].line, "1 trainer sums gradients"));
    job.split.roles.trainers = 3;
    expect("3", 1);
    begin(2); // trainer 1 is not even started: a sampler sits there still
    expect("3", 1);
    start(1);
    expect("3", 1);
    trainer(1)->ready = true;
    expect("123", 2);
}

TEST(nobody_waits_for_long)
{
    all_begin();
    die(1);
    die(2);
    expect("3", 2);
    begin(2);
    expect("3", 2);
    ck_assert_uint_gt(job.group.waiting_ns, 0);
    job.group.waiting_ns -= 9ull * SECOND;
    expect("3", 2);
    job.group.waiting_ns -= 2ull * SECOND;
    expect("23", 3);
    ck_assert_uint_eq(job.group.waiting_ns, 0);
    begin(1); // anew
    expect("123", 4);
}

TEST(where_nobody_works_on_nobody_waits)
{
    all_begin();
    for (uint32_t d = 1; d < N; d++)
        die(d);
    expect("", 2);
    ck_assert_ptr_nonnull(strstr(job.timeline.events[1].line, "no trainer is left"));
    start(1); // dies again and again, perhaps
    expect("", 2);
    begin(2);
    expect("2", 3);
}

TEST(without_an_exchange_there_is_no_group)
{
    job.arena.h->spec.exchange = 0;
    for (uint32_t d = 1; d < N; d++)
        begin(d);
    sl_trainer_group_form(&job.group);
    ck_assert_uint_eq(job.group.generation, 0);
    ck_assert_uint_eq(job.timeline.n, 0);
}

RUN_TESTS(.setup = setup, .teardown = teardown, .timeout_s = 60)
