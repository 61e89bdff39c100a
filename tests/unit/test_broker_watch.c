// Whole jobs with fake workers, watched: statistics, events, the description, pauses.
#include "tests/unit/broker_ring_job.h"
#include "tests/unit/suite.h"

enum { MESSAGES_MAX = 4096 };

// What the client has heard beside what every client hears, and what it does about it.
static struct {
    void (*then)(const Sl__Control__Envelope *m); // may send; NULL: only listens
    int n_stats, n_events, n_answers;
    int steps; // a test's own
    cJSON *stat[MESSAGES_MAX], *event[MESSAGES_MAX];
    struct {
        bool ok;
        char message[512];
        cJSON *json;
    } answer[64];
} heard;

static cJSON *parse(const char *text)
{
    cJSON *json = cJSON_Parse(text);
    ck_assert_msg(json != NULL, "no JSON: %s", text);
    ck_assert_msg(strchr(text, '\n') == NULL, "more than one line: %s", text);
    return json;
}

static void take(const Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_STATS:
        heard.stat[heard.n_stats++] = parse(m->stats->json);
        break;
    case SL__CONTROL__ENVELOPE__BODY_EVENT:
        heard.event[heard.n_events++] = parse(m->event->json);
        break;
    case SL__CONTROL__ENVELOPE__BODY_ANSWER:
        heard.answer[heard.n_answers].ok = m->answer->ok;
        snprintf(heard.answer[heard.n_answers].message, sizeof heard.answer[0].message, "%s",
                 m->answer->message);
        heard.answer[heard.n_answers++].json = m->answer->json[0] ? parse(m->answer->json) : NULL;
        break;
    default: break;
    }
    if (heard.then)
        heard.then(m);
}

static bool checks; // as the daemon's jobs do

static int run_job(const char *extra)
{
    return ring_job_run((struct sl_job_options){.id = "7", .checks = checks}, extra);
}

static void reset_client(void)
{
    for (int i = 0; i < heard.n_stats; i++)
        cJSON_Delete(heard.stat[i]);
    for (int i = 0; i < heard.n_events; i++)
        cJSON_Delete(heard.event[i]);
    for (int i = 0; i < heard.n_answers; i++)
        cJSON_Delete(heard.answer[i].json);
    memset(&heard, 0, sizeof heard);
    client_reset();
    client.on_message = take;
    client.samplers = client.trainers = 2;
}

static void setup(void)
{
    ring_setup();
    reset_client();
    client.stats = true;
    checks = false;
}

static int count_events(const char *kind)
{
    int n = 0;
    for (int i = 0; i < heard.n_events; i++)
        n += strcmp(words(heard.event[i], "kind"), kind) == 0;
    return n;
}

static bool is_event(const Sl__Control__Envelope *m, const char *kind)
{
    return m->body_case == SL__CONTROL__ENVELOPE__BODY_EVENT &&
           strcmp(words(heard.event[heard.n_events - 1], "kind"), kind) == 0;
}

static bool is_line(const Sl__Control__Envelope *m)
{
    return m->body_case == SL__CONTROL__ENVELOPE__BODY_STATS;
}

// All epochs may be trained. A test that acts after the second one opens two of them first.
static void open_all(void)
{
    atomic_store(&stage->epochs, UINT32_MAX);
}

static const cJSON *last_line(void)
{
    return heard.stat[heard.n_stats - 1];
}

#define EPOCHS(n_) "\"epochs\": " #n_ ", \"allocation\": {\"samplers\": 1, \"trainers\": 2}"

// --- statistics ----------------------------------------------------------------------------------

// Half a second goes by after each epoch; after each line one may begin. The rest of a second
// passes by itself: a line with every look would come before.
static void let_time_pass(const Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE)
        pass_seconds(0.5);
    if (is_line(m))
        atomic_fetch_add(&stage->epochs, 1);
}

TEST(a_line_comes_at_once_and_then_each_second)
{
    stage->epochs = 0;
    heard.then = let_time_pass;
    ck_assert_int_eq(run_job(EPOCHS(8)), 0);
    ck_assert_str_eq(words(heard.stat[0], "state"), "starting");
    double first = number(heard.stat[1], "seconds"), last_seconds = 0;
    for (int i = 0; i < heard.n_stats; i++) {
        ck_assert_str_eq(words(heard.stat[i], "schema"), "sluice.stats/1");
        ck_assert_str_eq(words(heard.stat[i], "job"), "fake");
        ck_assert_str_eq(words(heard.stat[i], "id"), "7");
        ck_assert_int_eq(cJSON_GetArraySize(at(heard.stat[i], "devices")), 5);
        // One for each second that has begun: some more than there are are too many.
        last_seconds = number(heard.stat[i], "seconds");
        ck_assert_msg(i < 1 || i - 1 <= last_seconds - first + 1, "%d lines in %.3f s", i,
                      last_seconds - first);
    }
    ck_assert_int_ge(heard.n_stats, 8);
    const cJSON *last = NULL;
    double batches = 0;
    bool moves = false;
    for (int i = 2; i < heard.n_stats; i++) {
        if (strcmp(words(heard.stat[i], "state"), "running") != 0)
            continue;
        last = heard.stat[i];
        ck_assert_double_ge(number(at(last, "totals"), "batches"), batches);
        batches = number(at(last, "totals"), "batches");
        moves |= number(at(last, "rates"), "batches") > 0;
    }
    ck_assert_ptr_nonnull(last);
    ck_assert(moves && batches > 0);
    ck_assert_double_eq(number(last, "loss"), 2);
    ck_assert_str_eq(words(at(last, "metric"), "name"), "accuracy");
}

// Another client, which has asked, hears three lines before the job goes on.
static void wait_for_others_lines(const Sl__Control__Envelope *m)
{
    struct sl_bus *own = client.bus, *other;
    Sl__Control__Envelope *line;
    if (m->body_case != SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE || client.epochs != 2)
        return;
    must(sl_bus_connect(client.endpoint, client.key, &other));
    client.bus = other;
    client.stats = true;
    SEND(SUBSCRIBE);
    client.bus = own;
    for (int lines = 0; lines < 3;) {
        must(sl_bus_receive(other, AWAIT_MS, NULL, &line));
        lines += line->body_case == SL__CONTROL__ENVELOPE__BODY_STATS;
        sl_bus_message_free(line);
        pass_seconds(1);
    }
    sl_bus_close(other, 0);
    open_all();
}

TEST(who_does_not_ask_gets_no_lines)
{
    client.stats = false;
    heard.then = wait_for_others_lines;
    stage->epochs = 2;
    ck_assert_int_eq(run_job(EPOCHS(6)), 0);
    ck_assert_int_eq(heard.n_stats, 0);
    ck_assert_int_eq(client.epochs, 6);
    ck_assert_int_gt(heard.n_events, 6);
}

// --- events --------------------------------------------------------------------------------------

// Workers get ready once the client hears, so that it misses no event however busy the machine is.
static void let_it_start(const Sl__Control__Envelope *m)
{
    if (is_line(m))
        atomic_store(&stage->held, false);
}

TEST(events_are_told_and_kept_in_the_run_directory)
{
    char line[8192];
    int n = 0;
    setenv("FAKE_WORKER", "sampler:hold<1", 1);
    heard.then = let_it_start;
    stage->held = true;
    ck_assert_int_eq(run_job("\"epochs\": 4, \"checkpoint\": {\"every_updates\": 3}"), 0);
    ck_assert_int_eq(count_events("start"), 1);
    ck_assert_int_eq(count_events("epoch"), 4);
    ck_assert_int_eq(count_events("death"), 1);
    ck_assert_int_ge(count_events("checkpoint"), 1);
    ck_assert_int_eq(count_events("end"), 1);
    ck_assert_str_eq(words(heard.event[heard.n_events - 1], "kind"), "end");
    FILE *f = fopen(in_dir("out/events.jsonl"), "r");
    ck_assert(f != NULL);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        cJSON *kept = parse(line);
        ck_assert_msg(cJSON_Compare(kept, heard.event[n], true), "event %d: %s", n, line);
        cJSON_Delete(kept);
        n++;
    }
    fclose(f);
    ck_assert_int_eq(n, heard.n_events);
}

TEST(an_epochs_event_is_of_that_epoch)
{
    int epoch = 0;
    ck_assert_int_eq(run_job("\"epochs\": 3"), 0);
    for (int i = 0; i < heard.n_events; i++)
        if (strcmp(words(heard.event[i], "kind"), "epoch") == 0)
            ck_assert_double_eq(number(heard.event[i], "epoch"), epoch++);
    ck_assert_int_eq(epoch, 3);
}

// --- the description -----------------------------------------------------------------------------

static void describe_after_two_epochs(const Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE && client.epochs == 2)
        SEND(DESCRIBE);
    else if (m->body_case == SL__CONTROL__ENVELOPE__BODY_ANSWER)
        open_all();
}

TEST(a_job_describes_itself)
{
    client.stats = false;
    heard.then = describe_after_two_epochs;
    stage->epochs = 2;
    ck_assert_int_eq(run_job(EPOCHS(6)), 0);
    ck_assert_int_eq(heard.n_answers, 1);
    ck_assert(heard.answer[0].ok);
    const cJSON *d = heard.answer[0].json;
    ck_assert_str_eq(words(d, "schema"), "sluice.describe/1");
    ck_assert_str_eq(words(d, "job"), "fake");
    ck_assert_str_eq(words(d, "id"), "7");
    ck_assert_str_eq(words(d, "state"), "running");
    ck_assert_str_eq(words(d, "output"), output);
    ck_assert_double_eq(number(d, "pid"), getpid());
    ck_assert_str_eq(words(at(d, "config"), "name"), "fake");
    ck_assert_int_eq(cJSON_GetArraySize(at(d, "devices")), 5);
    ck_assert_int_ge(cJSON_GetArraySize(at(d, "epochs")), 2);
    ck_assert_double_eq(number(d, "epochs_left_out"), 0);
    ck_assert_int_ge(cJSON_GetArraySize(at(d, "allocations")), 1);
    ck_assert_int_ge(cJSON_GetArraySize(at(d, "events")), 3);
    ck_assert_str_eq(words(at(d, "stats"), "schema"), "sluice.stats/1");
}

// --- pauses --------------------------------------------------------------------------------------

enum { PAUSE_S = 1000 }; // longer than the test may take

static char params_before[80], digest_before[40];

static void pause_and_go_on(const Sl__Control__Envelope *m)
{
    bool epoch = m->body_case == SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE;
    if (epoch && (client.epochs == 2 || client.epochs == 5)) {
        SEND(PAUSE);
    } else if (is_event(m, "pause")) {
        pass_seconds(PAUSE_S);
        SEND(RESUME);
    } else if (is_event(m, "resume")) {
        atomic_store(&stage->epochs, client.epochs < 5 ? 5 : UINT32_MAX);
    }
}

TEST(a_pause_changes_nothing_but_the_time)
{
    double paused = 0;
    ck_assert_int_eq(run_job(EPOCHS(8)), 0);
    ck_assert_double_eq(number(client.report, "paused_seconds"), 0);
    snprintf(params_before, sizeof params_before, "%s", words(client.report, "params_sha256"));
    snprintf(digest_before, sizeof digest_before, "%s", words(client.report, "samples_digest"));

    setup();
    heard.then = pause_and_go_on;
    stage->epochs = 2;
    ck_assert_int_eq(run_job(EPOCHS(8)), 0);
    ck_assert_str_eq(words(client.report, "params_sha256"), params_before);
    ck_assert_str_eq(words(client.report, "samples_digest"), digest_before);
    ck_assert_int_eq(count_events("pause"), 2);
    ck_assert_int_eq(count_events("resume"), 2);
    ck_assert_double_ge(number(client.report, "paused_seconds"), 2 * PAUSE_S);
    const cJSON *e;
    cJSON_ArrayForEach(e, at(client.report, "epochs"))
    {
        paused += number(e, "paused_seconds");
        double seconds = number(e, "seconds") + number(e, "evaluate_seconds");
        ck_assert_msg(seconds < PAUSE_S - 1, "an epoch took %.3f s: the pause is in it", seconds);
        double deepest = number(e, "batches") * (1 + 1e-6); // all of them, all the time
        ck_assert_double_le(number(at(e, "queue"), "depth_mean"), deepest);
    }
    ck_assert_double_eq_tol(paused, number(client.report, "paused_seconds"), 0.02);
}

static void pause_for_three_lines(const Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE && client.epochs == 2)
        SEND(PAUSE);
    if (!is_line(m) || strcmp(words(last_line(), "state"), "paused") != 0)
        return;
    pass_seconds(1);
    if (++heard.steps == 3) {
        open_all();
        SEND(RESUME);
    }
}

TEST(a_paused_job_does_nothing)
{
    heard.then = pause_for_three_lines;
    stage->epochs = 2;
    ck_assert_int_eq(run_job(EPOCHS(6)), 0);
    const cJSON *first = NULL;
    for (int i = 0; i < heard.n_stats; i++) {
        const cJSON *s = heard.stat[i];
        if (strcmp(words(s, "state"), "paused") != 0)
            continue;
        if (first) {
            ck_assert_double_eq(number(at(s, "updates"), "version"),
                                number(at(first, "updates"), "version"));
            ck_assert_str_eq(words(at(s, "updates"), "exchange"), "board");
            ck_assert(cJSON_IsNull(at(at(s, "updates"), "group")));
            ck_assert_double_eq(number(at(s, "totals"), "batches"),
                                number(at(first, "totals"), "batches"));
        }
        first = s;
        const cJSON *w;
        cJSON_ArrayForEach(w, at(s, "workers"))
            ck_assert_msg(strcmp(words(w, "state"), "paused") == 0, "%s is %s", words(w, "name"),
                          words(w, "state"));
    }
    ck_assert(first != NULL);
}

static void pause_twice(const Sl__Control__Envelope *m)
{
    static const Sl__Control__Envelope__BodyCase steps[] = {
        SL__CONTROL__ENVELOPE__BODY_RESUME, SL__CONTROL__ENVELOPE__BODY_PAUSE,
        SL__CONTROL__ENVELOPE__BODY_PAUSE, SL__CONTROL__ENVELOPE__BODY_RESUME};
    bool answer = m->body_case == SL__CONTROL__ENVELOPE__BODY_ANSWER;
    bool begins = m->body_case == SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE && heard.steps == 0;
    if ((answer || begins) && heard.steps < 4)
        client_send(steps[heard.steps++]);
    if (heard.n_answers == 4)
        open_all();
}

TEST(what_is_so_already_is_said)
{
    heard.then = pause_twice;
    stage->epochs = 1;
    ck_assert_int_eq(run_job(EPOCHS(6)), 0);
    ck_assert_int_eq(heard.n_answers, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_msg(heard.answer[i].ok, "%s", heard.answer[i].message);
    ck_assert_str_eq(heard.answer[0].message, "it is not paused");
    ck_assert_msg(strncmp(heard.answer[1].message, "pausing at update ", 18) == 0, "%s",
                  heard.answer[1].message);
    ck_assert_msg(strncmp(heard.answer[2].message, "paused already, for ", 20) == 0, "%s",
                  heard.answer[2].message);
    ck_assert_msg(strncmp(heard.answer[3].message, "going on after update ", 22) == 0, "%s",
                  heard.answer[3].message);
}

static void pause_at_the_first_line(const Sl__Control__Envelope *m)
{
    if (is_line(m) && heard.n_stats == 1)
        SEND(PAUSE);
    else if (m->body_case == SL__CONTROL__ENVELOPE__BODY_ANSWER)
        atomic_store(&stage->held, false);
}

TEST(a_job_that_starts_is_not_paused)
{
    heard.then = pause_at_the_first_line;
    stage->held = true;
    ck_assert_int_eq(run_job("\"epochs\": 2"), 0);
    ck_assert_int_eq(heard.n_answers, 1);
    ck_assert(!heard.answer[0].ok);
    ck_assert_str_eq(heard.answer[0].message, "the job is starting: pause it once it trains");
}

static void pause_and_stop(const Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE && client.epochs == 2) {
        SEND(PAUSE);
    } else if (is_event(m, "pause")) {
        pass_seconds(PAUSE_S);
        SEND(STOP);
    }
}

TEST(a_paused_job_can_be_stopped)
{
    heard.then = pause_and_stop;
    stage->epochs = 2;
    ck_assert_int_eq(run_job(EPOCHS(50)), SL_OUTCOME_STOPPED);
    ck_assert_str_eq(words(client.report, "status"), "stopped");
    ck_assert_double_ge(number(client.report, "paused_seconds"), PAUSE_S);
    ck_assert_double_lt(number(client.report, "paused_seconds"), 2 * PAUSE_S);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "epochs")), 2);
}

static void kill_while_paused(const Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE && client.epochs == 2) {
        SEND(PAUSE);
    } else if (is_line(m) && strcmp(words(last_line(), "state"), "paused") == 0 &&
               heard.steps == 0) {
        const cJSON *w;
        cJSON_ArrayForEach(
            w, at(last_line(), "workers")) if (strcmp(words(w, "name"), "trainer 0") == 0)
            kill((pid_t)number(w, "pid"), SIGKILL);
        heard.steps = 1;
    } else if (is_line(m) && heard.steps == 1) {
        const cJSON *w;
        cJSON_ArrayForEach(
            w, at(last_line(), "workers")) if (strcmp(words(w, "name"), "trainer 0") == 0 &&
                                               number(w, "restarts") == 1 &&
                                               strcmp(words(w, "state"), "paused") == 0)
            heard.steps = 2;
        if (heard.steps == 2) {
            open_all();
            SEND(RESUME);
        }
    }
}

TEST(a_worker_that_is_killed_while_paused_is_replaced)
{
    heard.then = kill_while_paused;
    stage->epochs = 2;
    ck_assert_int_eq(run_job(EPOCHS(6)), 0);
    ck_assert_int_eq(heard.steps, 2);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "restarts")), 1);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "epochs")), 6);
}

static void scale_while_paused(const Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE && client.epochs == 2) {
        SEND(PAUSE);
    } else if (is_event(m, "pause")) {
        SEND(SCALE);
    } else if (m->body_case == SL__CONTROL__ENVELOPE__BODY_SCALE_DONE) {
        heard.steps = m->scale_done->ok ? (int)m->scale_done->samplers : -1;
        open_all();
        SEND(RESUME);
    }
}

TEST(the_split_changes_while_a_job_is_paused)
{
    heard.then = scale_while_paused;
    stage->epochs = 2;
    ck_assert_int_eq(run_job(EPOCHS(6)), 0);
    ck_assert_int_eq(heard.steps, 2);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "scales")), 1);
    ck_assert_int_eq(count_events("resume"), 1);
}

// --- checks --------------------------------------------------------------------------------------

#define CHECKPOINTS ", \"checkpoint\": {\"every_updates\": 2}"

TEST(a_job_that_has_waited_goes_on_from_its_checkpoint)
{
    checks = true;
    heard.then = pause_and_stop;
    stage->epochs = 2;
    ck_assert_int_eq(run_job(EPOCHS(6) CHECKPOINTS), SL_OUTCOME_STOPPED);
    reset_client();
    open_all();
    ck_assert_int_eq(run_job(EPOCHS(6) CHECKPOINTS), 0);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "resumes")), 1);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "epochs")), 6);
    ck_assert_msg(strncmp(words(heard.event[0], "text"), "goes on from ", 13) == 0, "%s",
                  words(heard.event[0], "text"));
}

TEST(a_job_whose_output_is_taken_meanwhile_is_refused)
{
    checks = true;
    ck_assert_int_eq(run_job("\"epochs\": 1"), 0);
    reset_client();
    ck_assert_int_eq(run_job("\"epochs\": 1"), SL_OUTCOME_REFUSED);
    ck_assert_msg(strstr(client.message, "earlier run") != NULL, "%s", client.message);
}

TEST(a_job_whose_data_set_is_spoilt_meanwhile_is_refused)
{
    static int32_t indices[N_NODES] = {N_NODES}; // one too many
    checks = true;
    write_list("indices.npy", SL_DTYPE_I32, N_NODES, indices);
    ck_assert_int_eq(run_job("\"epochs\": 1"), SL_OUTCOME_REFUSED);
    ck_assert_msg(strstr(client.message, "indices.npy") != NULL, "%s", client.message);
    ck_assert(access(output, F_OK) != 0);
}

int main(int argc, char **argv)
{
    int status = fake_worker_main(argc, argv);
    if (status >= 0)
        return status;
    return run_tests((struct unit_case){
        .setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = AWAIT_CASE_S});
}
