// Who is wanted and who is there: workers that die, hang or cannot start while a job runs.
#include "tests/unit/broker_ring_job.h"
#include "tests/unit/suite.h"

// What the client does about what it hears.
static struct {
    void (*on_epoch)(void); // the first one
    void (*on_progress)(const char *phase);
    int scaled; // -1: refused
    char message[1024];
} plan;

static void take(const Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE:
        if (client.epochs == 1 && plan.on_epoch)
            plan.on_epoch();
        break;
    case SL__CONTROL__ENVELOPE__BODY_PROGRESS:
        if (plan.on_progress)
            plan.on_progress(m->progress->phase);
        break;
    case SL__CONTROL__ENVELOPE__BODY_SCALE_DONE:
        plan.scaled = m->scale_done->ok ? 1 : -1;
        snprintf(plan.message, sizeof plan.message, "%s", m->scale_done->message);
        SEND(STOP); // that is what the test was about
        break;
    default: break;
    }
}

static int run_job(const char *extra)
{
    return ring_job_run((struct sl_job_options){0}, extra);
}

static void reset_client(void)
{
    client_reset();
    client.on_message = take;
    client.kill = true;
    client.samplers = 2;
    client.trainers = 1;
    memset(&plan, 0, sizeof plan);
}

static void setup(void)
{
    ring_setup();
    reset_client();
}

static int count_restarts(void)
{
    return cJSON_GetArraySize(at(client.report, "restarts"));
}

#define JOB(epochs_) "\"epochs\": " #epochs_ ", \"allocation\": {\"samplers\": 1, \"trainers\": 1}"

// --- those who can take a batch now --------------------------------------------------------------

TEST(a_standby_trainer_works_while_the_only_trainer_loads_again)
{
    // The trainer dies over its fourth batch, and the one after it never gets as far as Hello.
    setenv("FAKE_WORKER", "trainer:hold3=1 trainer:stuck=2", 1);
    ck_assert_int_eq(run_job(JOB(3)), 0);
    ck_assert_int_eq(count_restarts(), 1);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "epochs")), 3);
}

// --- starts that cannot be ----------------------------------------------------------------------

TEST(a_failed_start_of_a_replacement_is_one_more_death)
{
    setenv("FAKE_WORKER", "sampler:hold3=0 sampler:failed=1", 1);
    ck_assert_int_eq(run_job(JOB(3)), 0);
    ck_assert_int_eq(count_restarts(), 2);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "epochs")), 3);
    ck_assert_msg(strstr(client.lines, "could not start: node_feat.npy: found no features"), "%s",
                  client.lines);
}

TEST(a_replacement_that_never_starts_ends_the_job)
{
    setenv("FAKE_WORKER", "sampler:hold3=0 sampler:failed>0", 1);
    ck_assert_int_eq(run_job(JOB(3)), 1);
    ck_assert_int_eq(count_restarts(), SL_WORKER_DEATHS_MAX);
    ck_assert_msg(strstr(client.message, "sampler 0 died 5 times in a row"), "%s", client.message);
}

static void ask_for_two_samplers(void)
{
    SEND(SCALE);
}

// The job runs on as before, and the report has what was asked for.
static void assert_rolled_back(int status, const char *why)
{
    ck_assert_msg(status == SL_OUTCOME_STOPPED, "%d: %s", status, client.message);
    ck_assert_int_eq(plan.scaled, -1);
    ck_assert_msg(strstr(plan.message, why) &&
                      strstr(plan.message, "the split is 1 sampler and 1 trainer again"),
                  "%s", plan.message);
    const cJSON *scale = cJSON_GetArrayItem(at(client.report, "scales"), 0);
    ck_assert(cJSON_IsFalse(at(scale, "ok")));
    ck_assert_double_eq(at(at(scale, "from"), "samplers")->valuedouble, 1);
    ck_assert_double_eq(at(at(scale, "to"), "samplers")->valuedouble, 2);
}

TEST(a_split_whose_worker_never_starts_is_rolled_back)
{
    setenv("FAKE_WORKER", "sampler:failed>0", 1);
    stage->epochs = 1; // the second waits for the test's end
    plan.on_epoch = ask_for_two_samplers;
    assert_rolled_back(run_job(JOB(1000000)), "sampler 1 died 5 times in a row");
    ck_assert_int_eq(count_restarts(), SL_WORKER_DEATHS_MAX);
}

// The arena that is large enough for the first split, and the one that the refusal names.
TEST(a_split_whose_batches_the_arena_does_not_hold_is_refused)
{
    enum { ONE = 2 * SL_ARENA_CHUNK_BYTES }; // a mini-batch of 100000 bytes
    char job[256];
    unsigned long long size = 4 * ONE;
    for (int i = 0; i < 2; i++) {
        reset_client();
        plan.on_epoch = ask_for_two_samplers;
        stage->epochs = 1;
        snprintf(job, sizeof job, JOB(1000000) ", \"arena\": {\"memory\": %llu}", size);
        snprintf(output, sizeof output, "%s/out%d", dir, i);
        ck_assert_int_eq(run_job(job), SL_OUTCOME_STOPPED);
        ck_assert_msg(plan.scaled == (i ? 1 : -1), "%s", plan.message);
        const char *advice = strstr(plan.message, "set arena.memory to ");
        if (i == 0)
            ck_assert_msg(strstr(plan.message, "2 samplers and 1 trainer hold 5 of them at once") &&
                              advice && sscanf(advice, "set arena.memory to %llu", &size) == 1,
                          "%s", plan.message);
    }
}

static void lose_the_sampler_program(void)
{
    ck_assert_int_eq(unlink(in_dir("bin/sluice-sampler")), 0);
    ask_for_two_samplers();
}

TEST(a_split_whose_worker_can_not_be_started_is_rolled_back)
{
    stage->epochs = 1;
    plan.on_epoch = lose_the_sampler_program;
    assert_rolled_back(run_job(JOB(1000000)), "bin/sluice-sampler': no such file");
    ck_assert_int_eq(count_restarts(), 0);
}

// --- time that is up -----------------------------------------------------------------------------

static void let_the_start_take_too_long(const char *phase)
{
    plan.on_progress = NULL;
    ck_assert_str_eq(phase, "start");
    sl_clock_advance(SL_WORKER_START_SECONDS * 1000000000ull);
}

TEST(a_worker_that_hangs_at_the_start_ends_the_job)
{
    setenv("FAKE_WORKER", "sampler:stuck trainer:stuck", 1); // all: nobody is quicker than another
    plan.on_progress = let_the_start_take_too_long;
    ck_assert_int_eq(run_job(JOB(3)), 1);
    ck_assert_str_eq(client.message, "sampler 0 was not ready within 900 s");
}

static void stop_kindly(void)
{
    client.kill = false;
    SEND(STOP);
}

static void let_patience_run_out(const char *phase)
{
    if (strcmp(phase, "finish") == 0)
        sl_clock_advance(SL_WORKER_STOP_MS * 1000000ull);
}

TEST(workers_that_do_not_leave_are_killed)
{
    setenv("FAKE_WORKER", "sampler:deaf trainer:deaf", 1);
    plan.on_epoch = stop_kindly;
    plan.on_progress = let_patience_run_out;
    ck_assert_int_eq(run_job(JOB(1000)), SL_OUTCOME_STOPPED);
    ck_assert_int_eq(count_restarts(), 0); // it was us
}

// --- those who can take a batch now, one by one --------------------------------------------------

// A job of three devices whose processes the test invents.
static struct sl_job *make_job(void)
{
    const struct sl_arena_spec spec = {.n_devices = 3,
                                       .n_cells = 4,
                                       .n_params = 1,
                                       .batches_per_update = 1,
                                       .payload_bytes = SL_ARENA_CHUNK_BYTES};
    struct sl_job *job = calloc(1, sizeof *job);
    sl_job_wire(job);
    job->config.n_devices = spec.n_devices;
    job->arena_fd = sl_arena_memfd();
    must(sl_arena_create(job->arena_fd, &spec, &job->arena));
    job->workers.n = 2 * spec.n_devices;
    job->workers.list = calloc(job->workers.n, sizeof *job->workers.list);
    for (uint32_t i = 0; i < job->workers.n; i++)
        job->workers.list[i] = (struct sl_pool_worker){.slot = i, .wanted = true};
    return job;
}

static void free_job(struct sl_job *job)
{
    sl_arena_detach(&job->arena);
    close(job->arena_fd);
    free(job->workers.list);
    free(job);
}

static uint32_t published(struct sl_job *job)
{
    sl_split_publish(&job->split);
    return atomic_load(&sl_schedule_of(&job->arena)->trainers);
}

TEST(trainers_count_that_can_take_a_batch_now)
{
    struct sl_job *job = make_job();
    struct sl_pool_worker *one = sl_split_worker(&job->split, SL_ROLE_TRAINER, 1);
    struct sl_pool_worker *two = sl_split_worker(&job->split, SL_ROLE_TRAINER, 2);
    sl_seat_set_duty(&job->arena, one->slot, SL_DUTY_WORK);
    sl_seat_set_duty(&job->arena, two->slot, SL_DUTY_WORK);
    ck_assert_uint_eq(published(job), 0); // they are not started
    one->alive = two->alive = true;
    ck_assert_uint_eq(published(job), 0); // they load
    one->ready = true;
    ck_assert_uint_eq(published(job), 1);
    two->ready = true;
    ck_assert_uint_eq(published(job), 2);
    two->leaving = true;
    ck_assert_uint_eq(published(job), 1);
    two->leaving = false;
    sl_seat_set_duty(&job->arena, two->slot, SL_DUTY_STANDBY);
    ck_assert_uint_eq(published(job), 1);
    one->alive = false;
    uint32_t seen = sl_event_read(&job->arena.h->work);
    ck_assert_uint_eq(published(job), 0);
    ck_assert_uint_ne(sl_event_read(&job->arena.h->work), seen); // who sleeps looks again
    free_job(job);
}

// Samplers and trainers of the largest split that is named, and the most batches in hand.
static void assert_most(const struct sl_role_split *s, uint32_t samplers, uint32_t trainers,
                        uint64_t batches)
{
    const struct sl_roles named = sl_split_largest_named(s);
    ck_assert_uint_eq(named.samplers, samplers);
    ck_assert_uint_eq(named.trainers, trainers);
    ck_assert_uint_eq(sl_split_batches_most(s), batches);
}

TEST(the_arena_is_for_every_split_that_may_come)
{
    struct sl_job *job = make_job();
    struct sl_role_split *s = &job->split;
    struct sl_config *c = &job->config;
    c->n_devices = 12;
    c->updates.batches_per_update = 100;
    s->roles = (struct sl_roles){1, 1};
    c->allocation.samplers = c->allocation.trainers = 1;
    assert_most(s, 1, 1, 4);
    c->schedule[0] = (struct sl_schedule_config){.epoch = 1, .samplers = 2, .trainers = 10};
    c->schedule[1] = (struct sl_schedule_config){.epoch = 2, .samplers = 11, .trainers = 1};
    c->n_schedule = 2;
    assert_most(s, 2, 10, 23);
    s->next_schedule = 1; // the first one is over
    assert_most(s, 11, 1, 14);
    s->next_schedule = 2;
    // The broker chooses: one samples and eleven train, or as many as an update has batches.
    c->allocation.samplers_auto = c->allocation.trainers_auto = true;
    assert_most(s, 1, 1, 2 * 11 + 1 + 1);
    c->updates.batches_per_update = 3;
    assert_most(s, 1, 1, 2 * 3 + 9 + 1);
    s->pinned = true;
    assert_most(s, 1, 1, 4);
    s->pinned = false;
    // Of a pool: as many of either as there are cores.
    s->pool.n = 4;
    assert_most(s, 1, 1, 2 * 3 + 4 + 1);
    c->allocation.trainers_auto = false;
    assert_most(s, 1, 1, 2 * 1 + 4 + 1);
    free_job(job);
}

int main(int argc, char **argv)
{
    int status = fake_worker_main(argc, argv);
    if (status >= 0)
        return status;
    return run_tests((struct unit_case){
        .setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = AWAIT_CASE_S});
}
