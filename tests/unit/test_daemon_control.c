// What a daemon answers: over a real bus, to a real client, without any broker.
#include <math.h>
#include <sys/resource.h>

#include "broker/daemon/record.h"
#include "tests/unit/daemon_bus_fixture.h"
#include "tests/unit/json_at.h"
#include "tests/unit/suite.h"

static char core[16]; // one that the test may run on

static void begin(void)
{
    struct sl_cores allowed;
    uint16_t list[1];
    ck_assert_int_eq(sl_cores_allowed(&allowed), SL_OK);
    ck_assert_uint_eq(sl_cores_list(&allowed, list, 1), 1);
    snprintf(core, sizeof core, "%u", list[0]);
    daemon_begin(cores_of(core));
}

static Sl__Control__Envelope *hear(void)
{
    Sl__Control__Envelope *m;
    ck_assert_int_eq(sl_bus_receive(client, AWAIT_MS, NULL, &m), SL_OK);
    return m;
}

// The first message that comes back.
static Sl__Control__Envelope *request(Sl__Control__Envelope *body, const char *job)
{
    send_to_daemon(client, body, job);
    uv_run(&d->loop.uv, UV_RUN_DEFAULT); // what the thread pool was asked for
    return hear();
}

// An answer's JSON and whether it is one of consent; `part` is in its message.
static cJSON *check(Sl__Control__Envelope *m, bool ok, const char *part)
{
    ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_ANSWER);
    ck_assert_msg(m->answer->ok == ok && strstr(m->answer->message, part), "%s: '%s', wanted '%s'",
                  m->answer->ok ? "consent" : "refusal", m->answer->message, part);
    ck_assert(ok || m->answer->code < 0);
    cJSON *j = cJSON_Parse(m->answer->json);
    sl_bus_message_free(m);
    return j;
}

static const char *config(const char *name, const char *cores)
{
    char devices[128];
    snprintf(devices, sizeof devices, "[{\"kind\": \"cpu\", \"cores\": \"%s\"}]", cores);
    return job_text(name, devices);
}

static Sl__Control__Envelope *submit(const char *json, const char *report, const char *checkpoint)
{
    Sl__Control__Submit m = SL__CONTROL__SUBMIT__INIT;
    m.config_json = (char *)json;
    m.report = (char *)report;
    m.checkpoint = (char *)checkpoint;
    BODY(body, submit, SUBMIT, &m);
    return request(&body, "");
}

// A job that waits behind the holder.
static struct sl_entry *waiting(const char *name)
{
    cJSON *j = check(submit(config(name, core), "", ""), true, "");
    struct sl_entry *e;
    ck_assert_int_eq(sl_registry_find(&d->registry, words(j, "id"), &e), SL_OK);
    cJSON_Delete(j);
    return e;
}

TEST(a_submitted_job_waits_and_is_recorded)
{
    char path[600];
    struct sl_entry *back;
    cJSON *j = check(submit(config("a", core), "/r.json", "000000000007"), true, "");
    ck_assert_str_eq(words(j, "state"), "queued");
    ck_assert_ptr_nonnull(strstr(words(j, "why"), "which job 1 'holder' has"));
    snprintf(path, sizeof path, "%.500s/%.20s.json", d->state_dir, words(j, "id"));
    ck_assert_int_eq(sl_record_read(path, &back), SL_OK);
    ck_assert_str_eq(back->report, "/r.json");
    ck_assert_str_eq(back->checkpoint, "000000000007");
    sl_entry_free(back);
    cJSON_Delete(j);
}

TEST(a_job_that_can_not_be_is_refused_and_forgotten)
{
    char *long_name = calloc(1, 6000), *endless = calloc(1, (1 << 20) + 10);
    memset(long_name, 'x', 5999);
    memset(endless, ' ', (1 << 20) + 9);
    waiting("a");
    check(submit("{", "", ""), false, "the job");
    check(submit("", "", ""), false, "the job");
    check(submit(endless, "", ""), false, "bytes");
    check(submit(config("b", core), "relative.json", ""), false, "absolute");
    long_name[0] = '/';
    check(submit(config("b", core), long_name, ""), false, "too long");
    check(submit(config("b", core), "", long_name), false, "--checkpoint");
    check(submit(config("a", core), "", ""), false, "job 2 is called 'a' too");
    check(submit(config("c", "1023"), "", ""), false, "core 1023");
    d->stopping = true;
    check(submit(config("d", core), "", ""), false, "stopping");
    ck_assert_uint_eq(d->registry.n, 2);
    free(long_name);
    free(endless);
}

TEST(a_job_that_can_not_be_recorded_is_refused)
{
    char moved[600];
    snprintf(moved, sizeof moved, "%.500s.away", d->state_dir);
    ck_assert_int_eq(rename(d->state_dir, moved), 0);
    check(submit(config("a", core), "", ""), false, "cannot record the job");
    ck_assert_uint_eq(d->registry.n, 1);
    ck_assert_int_eq(rename(moved, d->state_dir), 0);
    waiting("a");
}

TEST(the_list_has_the_daemon_and_all_jobs)
{
    Sl__Control__List m = SL__CONTROL__LIST__INIT;
    waiting("a");
    d->registry.n_damaged = 3;
    BODY(body, list, LIST, &m);
    cJSON *j = check(request(&body, ""), true, "");
    ck_assert_str_eq(words(j, "schema"), "sluice.jobs/1");
    ck_assert_str_eq(words(j, "daemon.cores"), core);
    ck_assert_str_eq(words(j, "daemon.free_cores"), ""); // the holder has it
    ck_assert_double_eq(number(j, "daemon.damaged_records"), 3);
    ck_assert_int_eq(cJSON_GetArraySize(at(j, "jobs")), 2);
    cJSON_Delete(j);
}

// Everything that only a running job can do, in the form that is expected as an answer.
TEST(what_a_job_that_does_not_run_can_not_do_is_refused)
{
    static const char *const jobs[] = {"a", "1", "over", "nowhere"};
    static const char *const why[] = {"does not run yet: it waits for core", "still saving",
                                      "is over since", "'nowhere'"};
    Sl__Control__Scale scale = SL__CONTROL__SCALE__INIT;
    Sl__Control__Trace trace = SL__CONTROL__TRACE__INIT;
    Sl__Control__Pause pause = SL__CONTROL__PAUSE__INIT;
    waiting("a");
    struct sl_entry *over = waiting("over");
    over->state = SL_ENTRY_DONE;
    over->ended = 1000;
    for (int i = 0; i < 4; i++) {
        BODY(s, scale, SCALE, &scale);
        Sl__Control__Envelope *m = request(&s, jobs[i]);
        ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_SCALE_DONE);
        ck_assert(!m->scale_done->ok);
        ck_assert_ptr_nonnull(strstr(m->scale_done->message, why[i]));
        cJSON *j = cJSON_Parse(m->scale_done->json);
        ck_assert_str_eq(words(j, "message"), m->scale_done->message);
        cJSON_Delete(j);
        sl_bus_message_free(m);

        BODY(t, trace, TRACE, &trace);
        m = request(&t, jobs[i]);
        ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_TRACE_CHUNK);
        ck_assert(m->trace_chunk->last && !m->trace_chunk->ok);
        ck_assert_ptr_nonnull(strstr(m->trace_chunk->message, why[i]));
        sl_bus_message_free(m);

        BODY(p, pause, PAUSE, &pause);
        check(request(&p, jobs[i]), false, why[i]);
    }
}

static Sl__Control__Envelope *stop(const char *job)
{
    Sl__Control__Stop m = SL__CONTROL__STOP__INIT;
    BODY(body, stop, STOP, &m);
    return request(&body, job);
}

static Sl__Control__Envelope *resume(const char *job, const char *checkpoint)
{
    Sl__Control__Resume m = SL__CONTROL__RESUME__INIT;
    m.checkpoint = (char *)checkpoint;
    BODY(body, resume, RESUME, &m);
    return request(&body, job);
}

static void leave_checkpoint(const struct sl_entry *e, const char *name)
{
    char path[5000];
    mkdir(e->output, 0700);
    snprintf(path, sizeof path, "%s/checkpoints", e->output);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/checkpoints/%s", e->output, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

TEST(a_waiting_job_is_taken_out_of_the_queue_and_put_back)
{
    struct sl_entry *a = waiting("a"), *b = waiting("b");
    check(stop("a"), true, "before it began");
    ck_assert_int_eq(a->state, SL_ENTRY_STOPPED);
    ck_assert_int_eq(a->exit_status, 130);
    check(stop("a"), false, "is over since");
    leave_checkpoint(a, "000000000003");
    cJSON *j = check(resume("a", "000000000003"), true, "queued again");
    ck_assert_str_eq(words(j, "state"), "queued");
    cJSON_Delete(j);
    ck_assert_int_gt(a->order, b->order);
    ck_assert_str_eq(a->checkpoint, "000000000003");
    ck_assert_str_eq(a->message, "");
    ck_assert(!a->stopping);
    cJSON_Delete(check(resume("a", ""), true, "queued already"));
}

TEST(a_waiting_job_takes_another_checkpoint)
{
    char path[600];
    struct sl_entry *a = waiting("a"), *back;
    leave_checkpoint(a, "000000000003");
    check(resume("a", "000000000004"), false,
          "no checkpoint '000000000004': the newest one is "
          "000000000003");
    ck_assert_ptr_null(a->checkpoint);
    cJSON_Delete(check(resume("a", "000000000003"), true, "now for checkpoint 000000000003"));
    ck_assert_str_eq(a->checkpoint, "000000000003");
    cJSON_Delete(check(resume("a", ""), true, "queued already"));
    snprintf(path, sizeof path, "%.500s/%s.json", d->state_dir, a->id);
    ck_assert_int_eq(sl_record_read(path, &back), SL_OK);
    ck_assert_str_eq(back->checkpoint, "000000000003");
    sl_entry_free(back);
}

// What can be seen at once is not told only when its turn has come.
TEST(what_a_job_needs_to_go_on_is_looked_at_before_it_waits)
{
    char data[300], away[300];
    struct sl_entry *a = waiting("a");
    snprintf(data, sizeof data, "%s/data", dir);
    snprintf(away, sizeof away, "%s/away", dir);
    check(stop("a"), true, "before it began");
    check(resume("a", "000000000001"), false, "it has none at all");
    ck_assert_int_eq(rename(data, away), 0);
    check(resume("a", ""), false, "its data set");
    write_text(data, "");
    check(resume("a", ""), false, "not a directory");
    ck_assert_int_eq(unlink(data), 0);
    ck_assert_int_eq(rename(away, data), 0);
    a->began = true;
    check(resume("a", ""), false, "is gone");
    ck_assert_int_eq(a->state, SL_ENTRY_STOPPED);
    ck_assert_uint_eq(a->resumed, 0);
    a->began = false; // it never had one
    cJSON_Delete(check(resume("a", ""), true, "queued again"));
}

TEST(a_job_that_has_no_place_is_refused)
{
    char path[300], json[4096];
    const char *proc = config("a", core);
    char *at = strstr(proc, "\"output\": ");
    snprintf(json, sizeof json, "%.*s\"output\": \"/proc/x/y\"}", (int)(at - proc), proc);
    check(submit(json, "", ""), false, "'/proc'");
    snprintf(path, sizeof path, "%s/run-b", dir);
    write_text(path, "a file");
    check(submit(config("b", core), "", ""), false, "is not a directory");
    ck_assert_uint_eq(d->registry.n, 1);
}

TEST(what_can_not_go_on_is_refused)
{
    struct sl_entry *a = waiting("a"), *b = waiting("b");
    char *long_name = calloc(1, 100);
    memset(long_name, 'x', 99);
    check(resume("1", ""), false, "still saving");
    a->state = SL_ENTRY_DONE;
    check(resume("a", ""), false, "more epochs");
    a->state = SL_ENTRY_FAILED;
    check(resume("a", long_name), false, "names no checkpoint");
    snprintf(b->name, sizeof b->name, "a"); // meanwhile another one has its name
    check(resume("2", ""), false, "is called 'a' too");
    snprintf(b->name, sizeof b->name, "b");
    d->stopping = true;
    check(resume("2", ""), false, "stopping");
    ck_assert_int_eq(a->state, SL_ENTRY_FAILED);
    ck_assert_uint_eq(a->resumed, 0);
    free(long_name);
}

// It ends by itself, and is not gone on with then.
TEST(a_job_whose_old_broker_still_saves_can_be_stopped)
{
    struct sl_entry *holder = d->registry.entries[0];
    check(stop("holder"), true, "still saving");
    ck_assert(holder->stopping);
    ck_assert_int_eq(holder->state, SL_ENTRY_INTERRUPTED);
}

static Sl__Control__Envelope *subscribe(const char *job, bool stats)
{
    Sl__Control__Subscribe m = SL__CONTROL__SUBSCRIBE__INIT;
    m.progress = true;
    m.stats = stats;
    BODY(body, subscribe, SUBSCRIBE, &m);
    return request(&body, job);
}

TEST(who_subscribes_learns_where_the_job_is)
{
    waiting("a");
    Sl__Control__Envelope *m = subscribe("a", true);
    ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_JOB_STATE);
    ck_assert_str_eq(m->job, "2");
    sl_bus_message_free(m);
    // The end comes before the answer to the stop.
    m = stop("a");
    ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_JOB_STATE);
    ck_assert_ptr_nonnull(strstr(m->job_state->json, "\"stopped\""));
    sl_bus_message_free(m);
    m = hear();
    ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_FINISHED);
    ck_assert_int_eq(m->finished->exit_status, 130);
    ck_assert_str_eq(m->finished->run_directory, "");
    sl_bus_message_free(m);
    check(hear(), true, "before it began");
    check(subscribe("nowhere", false), false, "nowhere");
}

static void put_run(const struct sl_entry *e, const char *name, const char *contents)
{
    char path[5000];
    mkdir(e->output, 0700);
    snprintf(path, sizeof path, "%s/%s", e->output, name);
    write_text(path, contents);
}

static const char report[] = "{\"schema\": \"sluice.report/1\", \"job\": \"a\", \"status\": "
                             "\"done\", \"config\": {}, \"devices\": [], \"epochs\": [{\"epoch\": "
                             "0}], \"allocations\": [], \"scales\": [], \"restarts\": []}";

TEST(a_job_that_is_over_tells_its_end_and_its_report_at_once)
{
    struct sl_entry *a = waiting("a");
    a->state = SL_ENTRY_FAILED;
    a->exit_status = 1;
    snprintf(a->message, sizeof a->message, "because");
    put_run(a, "report.json", report);
    sl_bus_message_free(subscribe("a", false)); // where it is
    Sl__Control__Envelope *m = hear();
    ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_FINISHED);
    ck_assert_int_eq(m->finished->exit_status, 1);
    ck_assert_str_eq(m->finished->message, "because");
    ck_assert_str_eq(m->finished->report_json, report);
    ck_assert_str_eq(m->finished->run_directory, a->output);
    sl_bus_message_free(m);
}

static cJSON *describe(const char *job)
{
    Sl__Control__Describe m = SL__CONTROL__DESCRIBE__INIT;
    BODY(body, describe, DESCRIBE, &m);
    return check(request(&body, job), true, "");
}

TEST(a_job_without_a_broker_is_described_from_what_it_left)
{
    struct sl_entry *a = waiting("a");
    cJSON *j = describe("a");
    ck_assert_str_eq(words(j, "schema"), "sluice.describe/1");
    ck_assert_str_eq(words(j, "state"), "queued");
    ck_assert_str_eq(words(j, "config.name"), "a");
    ck_assert_int_eq(cJSON_GetArraySize(at(j, "epochs")), 0);
    ck_assert(!cJSON_HasObjectItem(j, "report"));
    cJSON_Delete(j);

    a->state = SL_ENTRY_DONE;
    a->started = sl_daemon_now();
    put_run(a, "config.json", a->config_json);
    put_run(a, "report.json", report);
    put_run(a, "events.jsonl", "{\"time\": 1, \"kind\": \"start\"}\n{\"time\": 2, \"ki");
    j = describe("a");
    ck_assert_str_eq(words(j, "id"), a->id);
    ck_assert_str_eq(words(j, "state"), "done");
    ck_assert_int_eq(cJSON_GetArraySize(at(j, "epochs")), 1);
    ck_assert_int_eq(cJSON_GetArraySize(at(j, "events")), 1);
    ck_assert_str_eq(words(j, "report.status"), "done");
    ck_assert(cJSON_IsNull(at(j, "pid")));
    cJSON_Delete(j);

    a->submitted = sl_daemon_now() + 10; // what is there is another run's
    a->state = SL_ENTRY_FAILED;
    j = describe("a");
    ck_assert(!cJSON_HasObjectItem(j, "report"));
    ck_assert_str_eq(words(j, "state"), "failed");
    cJSON_Delete(j);
}

TEST(a_report_that_is_too_long_for_a_message_is_left_where_it_is)
{
    struct sl_entry *a = waiting("a");
    char path[5000];
    a->state = SL_ENTRY_DONE;
    a->started = sl_daemon_now();
    put_run(a, "config.json", a->config_json);
    put_run(a, "report.json", report);
    snprintf(path, sizeof path, "%s/report.json", a->output);
    ck_assert_int_eq(truncate(path, 40 << 20), 0);
    cJSON *j = describe("a");
    ck_assert(!cJSON_HasObjectItem(j, "report"));
    cJSON_Delete(j);
    sl_bus_message_free(subscribe("a", false));
    Sl__Control__Envelope *m = hear();
    ck_assert_str_eq(m->finished->report_json, "");
    ck_assert_str_eq(m->finished->run_directory, a->output);
    sl_bus_message_free(m);
}

TEST(what_nobody_asks_a_daemon_is_passed_over)
{
    Sl__Control__Attach attach = SL__CONTROL__ATTACH__INIT;
    Sl__Control__List list = SL__CONTROL__LIST__INIT;
    BODY(odd, attach, ATTACH, &attach);
    send_to_daemon(client, &odd, "");
    BODY(body, list, LIST, &list);
    cJSON_Delete(check(request(&body, ""), true, ""));
}

TEST(an_answer_that_is_too_large_is_refused)
{
    char name[32];
    Sl__Control__List list = SL__CONTROL__LIST__INIT;
    for (int i = 0; i < 1500; i++) { // a record's text may be as odd as this
        snprintf(name, sizeof name, "j%d", i);
        struct sl_entry *e = add_entry(&d->registry, name, core);
        e->state = SL_ENTRY_DONE;
        memset(e->message, 1, sizeof e->message - 1);
    }
    BODY(body, list, LIST, &list);
    check(request(&body, ""), false, "larger than a message");
}

TEST(without_descriptors_a_job_waits)
{
    struct rlimit before, limit;
    struct sl_entry *a = waiting("a");
    d->registry.entries[0]->orphan_until_ns = 0; // the core is free
    d->registry.entries[0]->state = SL_ENTRY_DONE;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = dup(0);
    close(next);
    limit = before;
    limit.rlim_cur = (rlim_t)next + 10;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    d->look_at_queue = true;
    sl_daemon_start_jobs(d);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(a->state, SL_ENTRY_QUEUED);
    ck_assert_ptr_nonnull(strstr(a->message, "file descriptors"));
    ck_assert(d->look_at_queue);
}

RUN_TESTS(.setup = begin, .teardown = daemon_end, .timeout_s = AWAIT_CASE_S)
