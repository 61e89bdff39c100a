// Traces: what is drawn of a batch, where a trace is cut, and what a client may do to it.
#include "common/base/clock.h"
#include "tests/unit/await.h"
#include "common/arena/nodes.h"
#include "tests/unit/broker_phases_fixture.h"
#include "tests/unit/json_at.h"
#include "tests/unit/suite.h"

#include "broker/job/job.h"

enum { SAMPLER = 1, TRAINER = 2, UNKNOWN_WORKER = 77, PER_UPDATE = 2 };

static struct sl_job *job;
static struct sl_bus *client;
static struct sl_bus_peer peer;

// What has come to the client.
static struct {
    cJSON *events; // array
    uint64_t chunks;
    bool last, ok;
    char message[512];
} got;

// A bus between the job and one client, whose first message tells the job its address.
static void connect_client(void)
{
    char endpoint[128];
    char key[SL_BUS_KEY_TEXT];
    Sl__Control__Describe hello = SL__CONTROL__DESCRIBE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT, *m;
    sl_bus_new_endpoint(endpoint, sizeof endpoint, key);
    must(sl_bus_bind(endpoint, key, &job->bus));
    sl_clients_init(&job->clients, job->bus);
    must(sl_bus_connect(endpoint, key, &client));
    e.body_case = SL__CONTROL__ENVELOPE__BODY_DESCRIBE;
    e.describe = &hello;
    must(sl_bus_send(client, NULL, &e));
    must(sl_bus_receive(job->bus, AWAIT_MS, &peer, &m));
    sl_bus_message_free(m);
}

static void trace_setup(void)
{
    static struct sl_pool_worker workers[4];
    setup();
    snprintf(config.name, sizeof config.name, "unit");
    config.n_devices = 2;
    config.devices[0] = config.devices[1] = (struct sl_device_config){.n_cores = 1};
    config.evaluate.full = false;
    config.evaluate.every = 0;
    make_arena();
    job = calloc(1, sizeof *job);
    sl_job_wire(job);
    job->config = config;
    job->arena = t.arena;
    job->state = SL_JOB_RUNNING;
    memset(workers, 0, sizeof workers);
    for (uint32_t i = 0; i < SL_COUNT_OF(workers); i++) {
        workers[i].slot = i;
        workers[i].role = i < 2 ? SL_ROLE_SAMPLER : SL_ROLE_TRAINER;
        workers[i].device = i % 2;
    }
    // Sampler 0 on device 0, trainer 0 on device 1.
    workers[0].worker = SAMPLER;
    workers[3].worker = TRAINER;
    snprintf(workers[0].name, sizeof workers[0].name, "sampler 0");
    snprintf(workers[3].name, sizeof workers[3].name, "trainer 0");
    job->workers.list = workers;
    job->workers.n = SL_COUNT_OF(workers);
    sl_joblog_init(&job->log, &job->clients);
    connect_client();
    memset(&got, 0, sizeof got);
    got.events = cJSON_CreateArray();
}

static void poll_job(void)
{
    job->phases = t.phases;
    sl_trace_poll(&job->trace);
}

static void ask(double seconds, uint64_t taken)
{
    Sl__Control__Trace request = SL__CONTROL__TRACE__INIT;
    request.seconds = seconds;
    request.taken = taken;
    job->phases = t.phases;
    sl_trace_on_request(&job->trace, &peer, &request);
}

static void begin(double seconds)
{
    ask(seconds, 0);
    ck_assert(job->trace.on);
}

static void take_events(const char *text)
{
    size_t bytes = strlen(text) + 3;
    char *array = malloc(bytes);
    snprintf(array, bytes, "[%s]", text);
    cJSON *events = cJSON_Parse(array), *e;
    ck_assert_msg(events != NULL, "no JSON: %.200s", array);
    while ((e = cJSON_DetachItemFromArray(events, 0)) != NULL)
        cJSON_AddItemToArray(got.events, e);
    cJSON_Delete(events);
    free(array);
}

// Takes what is under way to the client: all that comes before what is sent to it now.
static void receive(bool confirms)
{
    Sl__Control__Progress mark = SL__CONTROL__PROGRESS__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT, *m;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_PROGRESS;
    e.progress = &mark;
    must(sl_bus_send(job->bus, &peer, &e));
    for (;;) {
        must(sl_bus_receive(client, AWAIT_MS, NULL, &m));
        if (m->body_case == SL__CONTROL__ENVELOPE__BODY_PROGRESS)
            break;
        ck_assert_int_eq(m->body_case, SL__CONTROL__ENVELOPE__BODY_TRACE_CHUNK);
        if (*m->trace_chunk->events) {
            take_events(m->trace_chunk->events);
            got.chunks++;
        }
        if (m->trace_chunk->last) {
            got.last = true;
            got.ok = m->trace_chunk->ok;
            snprintf(got.message, sizeof got.message, "%s", m->trace_chunk->message);
        }
        sl_bus_message_free(m);
        if (confirms && job->trace.on)
            ask(0, got.chunks);
    }
    sl_bus_message_free(m);
}

static void receive_last(void)
{
    receive(false);
    ck_assert(got.last);
}

static void end_and_receive(void)
{
    sl_trace_end(&job->trace);
    receive_last();
    ck_assert(!job->trace.on);
}

static const char *text_of(const cJSON *e, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(e, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static int count(const char *phase, const char *name)
{
    int n = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, got.events) n +=
        !strcmp(text_of(e, "ph"), phase) && (!name || !strcmp(text_of(e, "name"), name));
    return n;
}

// The first event of that phase and name.
static const cJSON *find(const char *phase, const char *name)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, got.events) if (!strcmp(text_of(e, "ph"), phase) &&
                                          !strcmp(text_of(e, "name"), name)) return e;
    ck_abort_msg("no event '%s' of phase %s", name, phase);
}

static void expect_slice(const char *name, double pid, double tid, double ts, double dur)
{
    const cJSON *e = find("X", name);
    ck_assert_double_eq(number(e, "pid"), pid);
    ck_assert_double_eq(number(e, "tid"), tid);
    ck_assert_double_eq_tol(number(e, "ts"), ts, 1e-6);
    ck_assert_double_eq_tol(number(e, "dur"), dur, 1e-6);
}

// --- a batch by hand, whose times are microseconds after `from` ----------------------------------

static void draw(uint64_t from, uint32_t worker)
{
    struct sl_lease l;
    must(sl_ledger_claim_sample(&t.arena, worker, SL_AHEAD_ALL, 1, &l));
    struct sl_batch_entry *e = l.entry;
    e->sampler = worker;
    e->sampling_at_ns = from + 1000000;
    e->sample_wait_ns = 100000;
    e->sample_ns = 200000;
    e->copy_ns = 30000;
    e->mark_ns = 4000;
    e->ready_at_ns = from + 1500000;
    e->n_seeds = 10;
    e->n_input = 100;
    e->n_edges = 300;
    e->payload_bytes = 4096;
    must(sl_ledger_publish(&t.arena, &l));
}

static void train(uint64_t from, uint32_t worker)
{
    struct sl_lease l;
    struct sl_update u;
    must(sl_ledger_claim_train(&t.arena, worker, 1, &l));
    struct sl_batch_entry *e = l.entry;
    e->payload_bytes = 0; // it has no chunks
    e->trainer = worker;
    e->claimed_at_ns = from + 2000000;
    e->extract_from_ns = from + 2100000;
    e->extract_ns = 400000;
    e->taken_at_ns = from + 2600000;
    e->train_from_ns = from + 3000000;
    e->done_at_ns = from + 4000000;
    e->hits = 25;
    e->loss = 20;
    e->weight = 10;
    e->counted = 10;
    must(sl_ledger_complete(&t.arena, &l));
    while (sl_param_store_begin_update(&t.arena, worker, &u) == SL_OK) {
        *sl_param_store_update_entry(&t.arena, &u) = (struct sl_update_entry){
            .from_ns = from + 4100000, .took_ns = 50000, .applier = worker};
        sl_param_store_commit_update(&t.arena, &u);
    }
}

TEST(all_stages_of_a_batch)
{
    begin(60);
    uint64_t from = job->trace.from_ns;
    for (int i = 0; i < PER_UPDATE; i++)
        draw(from, SAMPLER);
    for (int i = 0; i < PER_UPDATE; i++)
        train(from, TRAINER);
    poll_job();
    end_and_receive();
    expect_slice("sample", 2, 1, 1000, 500);
    expect_slice("wait for memory", 2, 1, 1000, 100);
    expect_slice("draw", 2, 1, 1100, 200);
    expect_slice("copy", 2, 1, 1300, 30);
    expect_slice("mark", 2, 1, 1330, 4);
    expect_slice("extract", 3, 2, 2100, 400);
    expect_slice("wait for version", 3, 3, 2600, 400);
    expect_slice("train", 3, 3, 3000, 1000);
    expect_slice("apply", 3, 3, 4100, 50);
    ck_assert_int_eq(count("X", "sample"), 2);
    ck_assert_int_eq(count("X", "train"), 2);
    ck_assert_int_eq(count("X", "apply"), 1);
    ck_assert_double_eq_tol(number(find("b", "queued"), "ts"), 1500, 1e-6);
    ck_assert_double_eq_tol(number(find("e", "queued"), "ts"), 2000, 1e-6);
    ck_assert_str_eq(text_of(find("b", "queued"), "id"), text_of(find("e", "queued"), "id"));
    ck_assert_int_eq(count("s", "batch"), 2);
    ck_assert_int_eq(count("t", "batch"), 2);
    ck_assert_int_eq(count("f", "batch"), 2);
    const cJSON *args = at(find("X", "extract"), "args");
    ck_assert_double_eq_tol(number(args, "hit_rate"), 0.25, 1e-9);
    args = at(find("X", "train"), "args");
    ck_assert_double_eq_tol(number(args, "loss"), 2, 1e-9);
    ck_assert_double_eq(number(args, "epoch"), 0);
    args = at(find("X", "sample"), "args");
    ck_assert_double_eq(number(args, "edges"), 300);
    ck_assert_double_eq(number(args, "input_nodes"), 100);
}

TEST(an_arrow_begins_within_its_slice)
{
    begin(60);
    uint64_t from = job->trace.from_ns;
    draw(from, SAMPLER);
    train(from, TRAINER);
    end_and_receive();
    double tail = number(find("s", "batch"), "ts");
    ck_assert_double_ge(tail, 1000);
    ck_assert_double_lt(tail, 1500);
    ck_assert_double_eq_tol(number(find("f", "batch"), "ts"), 3000, 1e-6);
    ck_assert_str_eq(text_of(find("f", "batch"), "bp"), "e");
}

TEST(threads_and_processes_have_names)
{
    begin(60);
    draw(job->trace.from_ns, SAMPLER);
    train(job->trace.from_ns, TRAINER);
    end_and_receive();
    const char *const names[] = {"sampler 0", "trainer 0 extract", "trainer 0 train", "job unit"};
    for (size_t i = 0; i < SL_COUNT_OF(names); i++) {
        int n = 0;
        const cJSON *e;
        cJSON_ArrayForEach(e, got.events) n +=
            !strcmp(text_of(cJSON_GetObjectItem(e, "args"), "name"), names[i]);
        ck_assert_msg(n == 1, "'%s' is named %d times", names[i], n);
    }
    ck_assert_int_eq(count("M", "process_name"), 3);
    ck_assert_int_eq(count("M", "process_sort_index"), 3);
}

TEST(a_stage_that_had_begun_is_cut)
{
    begin(60);
    // All times are 1.25 ms earlier: the batch was half drawn when the trace began.
    draw(job->trace.from_ns - 1250000, SAMPLER);
    end_and_receive();
    expect_slice("sample", 2, 1, 0, 250);
    expect_slice("draw", 2, 1, 0, 50);
    ck_assert_int_eq(count("X", "wait for memory"), 0);
}

TEST(what_was_over_before_is_left_out)
{
    begin(60);
    uint64_t from = job->trace.from_ns - 2050000;
    draw(from, SAMPLER);
    train(from, TRAINER);
    end_and_receive();
    ck_assert_int_eq(count("X", "sample"), 0);
    ck_assert_int_eq(count("b", "queued"), 0);
    ck_assert_int_eq(count("X", "extract"), 1);
    ck_assert_int_eq(count("X", "train"), 1);
    // An arrow without a beginning would lead from nowhere.
    ck_assert_int_eq(count("s", NULL) + count("t", NULL) + count("f", NULL), 0);
}

TEST(what_begins_after_the_end_is_left_out)
{
    begin(0.0022); // seconds: in the middle of the extraction
    draw(job->trace.from_ns, SAMPLER);
    train(job->trace.from_ns, TRAINER);
    end_and_receive();
    ck_assert_int_eq(count("X", "sample"), 1);
    ck_assert_int_eq(count("X", "extract"), 1);
    ck_assert_int_eq(count("X", "train"), 0);
}

TEST(batches_before_the_trace_are_not_told)
{
    uint64_t now = sl_now_ns();
    draw(now - 1000000000, SAMPLER);
    train(now - 1000000000, TRAINER);
    begin(60);
    end_and_receive();
    ck_assert_int_eq(count("X", NULL), 0);
}

TEST(each_batch_once_over_several_looks)
{
    begin(60);
    uint64_t from = job->trace.from_ns;
    for (int i = 0; i < 4; i++) { // an epoch: the phase ends with the last one
        draw(from, SAMPLER);
        poll_job();
        train(from, TRAINER);
        if (i < 3)
            poll_job();
    }
    job->phases = t.phases;
    sl_trace_on_phase(&job->trace, sl_phases_at(&job->phases, 0));
    poll_job();
    end_and_receive();
    ck_assert_int_eq(count("X", "sample"), 4);
    ck_assert_int_eq(count("X", "train"), 4);
    ck_assert_int_eq(count("X", "apply"), 2);
    uint32_t seen = 0;
    const cJSON *e;
    cJSON_ArrayForEach(e, got.events) if (!strcmp(text_of(e, "name"), "train")) seen |=
        1u << (int)number(cJSON_GetObjectItem(e, "args"), "batch");
    ck_assert_uint_eq(seen, 15);
}

TEST(a_batch_that_is_drawn_again_is_told_again)
{
    struct sl_evicted evicted;
    begin(60);
    uint64_t from = job->trace.from_ns;
    draw(from, SAMPLER);
    draw(from, SAMPLER);
    poll_job();
    must(sl_ledger_evict(&t.arena, 0, &evicted));
    poll_job();
    draw(from + 10000000, SAMPLER); // the same batch
    train(from, TRAINER);
    train(from + 10000000, TRAINER);
    end_and_receive();
    ck_assert_int_eq(count("X", "sample"), 3);
    ck_assert_int_eq(count("X", "train"), 2);
}

// Its cells are passed by samplers and trainers here, and nothing is known of them until they come.
TEST(batches_of_other_nodes_are_left_out)
{
    struct sl_nodes_step s;
    begin(60);
    uint64_t from = job->trace.from_ns;
    must(sl_nodes_next(&t.arena, &s));
    t.arena.h->spec.nodes.n = 2;
    atomic_store(sl_ledger_cell(&t.arena, s.seq, 1), sl_cell_word(s.seq, 0, 0, SL_CELL_ELSEWHERE));
    draw(from, SAMPLER);
    train(from, TRAINER);
    poll_job();
    struct sl_nodes_batch b = {
        .magic = SL_NODES_BATCH_MAGIC, .version = s.version, .epoch = s.epoch, .cell = 1};
    b.entry = *sl_ledger_entry(&t.arena, s.seq, 0);
    must(sl_nodes_batch_arrived(&t.arena, &s, 1, 1, &b, 0));
    poll_job();
    end_and_receive();
    ck_assert_int_eq(count("X", "sample"), 1);
    ck_assert_int_eq(count("X", "train"), 1);
}

TEST(an_unknown_worker_is_left_out)
{
    begin(60);
    draw(job->trace.from_ns, UNKNOWN_WORKER);
    train(job->trace.from_ns, UNKNOWN_WORKER);
    end_and_receive();
    ck_assert_int_eq(count("X", NULL), 0);
    ck_assert(got.ok);
}

TEST(a_worker_that_was_replaced_is_known)
{
    begin(60);
    draw(job->trace.from_ns, SAMPLER);
    job->workers.list[0].worker = 9;
    sl_trace_on_seats(&job->trace);
    draw(job->trace.from_ns, 9);
    end_and_receive();
    ck_assert_int_eq(count("X", "sample"), 2);
    expect_slice("sample", 2, 1, 1000, 500);
}

TEST(events_and_counters)
{
    begin(60);
    draw(job->trace.from_ns, SAMPLER);
    sl_trace_on_event(&job->trace, "scale", "it said \"2\"\nand \\");
    poll_job();
    end_and_receive();
    const cJSON *e = find("i", "scale");
    ck_assert_str_eq(text_of(cJSON_GetObjectItem(e, "args"), "text"), "it said \"2\"\nand \\");
    bool queued = false;
    cJSON_ArrayForEach(e, got.events) if (!strcmp(text_of(e, "name"), "queued batches")) queued |=
        number(cJSON_GetObjectItem(e, "args"), "queued batches") == 1;
    ck_assert(queued);
    ck_assert_int_ge(count("C", "queued bytes"), 2);
    ck_assert_int_ge(count("C", "version"), 2);
}

TEST(off_it_does_nothing)
{
    draw(sl_now_ns(), SAMPLER);
    poll_job();
    sl_trace_on_event(&job->trace, "scale", "nobody listens");
    sl_trace_end(&job->trace);
    receive(false);
    ck_assert_uint_eq(got.chunks, 0);
    ck_assert(!got.last);
}

// --- clients -------------------------------------------------------------------------------------

static void expect_refusal(const char *part)
{
    got.last = false;
    receive_last();
    ck_assert(!got.ok);
    ck_assert_msg(strstr(got.message, part) != NULL, "'%s' has no '%s'", got.message, part);
}

TEST(a_second_trace_is_refused)
{
    begin(60);
    Sl__Control__Trace request = SL__CONTROL__TRACE__INIT;
    request.seconds = 5;
    peer.request = 1; // another client of the same daemon
    sl_trace_on_request(&job->trace, &peer, &request);
    request.seconds = 0; // nor can it end the other one's
    sl_trace_on_request(&job->trace, &peer, &request);
    peer.request = 0;
    ck_assert(job->trace.on);
    expect_refusal("another client traces this job, for ");
    end_and_receive();
}

TEST(a_trace_that_can_not_be)
{
    ask(SL_TRACE_SECONDS_MAX + 1, 0);
    expect_refusal("found 601 seconds, wanted more than 0 and at most 600");
    ask(-1, 0);
    expect_refusal("found -1 seconds");
    ask(0.0 / 0.0, 0);
    expect_refusal("nan seconds");
    job->state = SL_JOB_STARTING;
    ask(1, 0);
    expect_refusal("still starting");
    job->state = SL_JOB_FINISHING;
    ask(1, 0);
    expect_refusal("ending");
    ck_assert(!job->trace.on);
}

TEST(it_ends_by_itself)
{
    begin(500);
    draw(job->trace.from_ns, SAMPLER);
    poll_job();
    ck_assert(job->trace.on);
    sl_clock_advance(500 * 1000000000ull);
    poll_job();
    ck_assert(!job->trace.on);
    receive_last();
    ck_assert(got.ok);
    ck_assert_int_eq(count("X", "sample"), 1);
    ck_assert_msg(strstr(got.message, "events of 500.0 s") != NULL, "%s", got.message);
}

TEST(the_client_ends_it)
{
    begin(600);
    draw(job->trace.from_ns, SAMPLER);
    ask(0, 0);
    ck_assert(!job->trace.on);
    receive_last();
    ck_assert(got.ok);
    ck_assert_int_eq(count("X", "sample"), 1);
    begin(600); // and may begin another one
    end_and_receive();
}

// So many events that a chunk is full.
static void fill_a_chunk(void)
{
    char text[4000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 150; i++)
        sl_trace_on_event(&job->trace, "filler", text);
}

TEST(a_client_that_reads_gets_everything)
{
    begin(600);
    for (int i = 0; i < 3 * SL_TRACE_AHEAD; i++) {
        fill_a_chunk();
        poll_job();
        receive(true);
    }
    end_and_receive();
    ck_assert_int_eq(count("i", "filler"), 3 * SL_TRACE_AHEAD * 150);
    ck_assert_msg(!strstr(got.message, "dropped"), "%s", got.message);
}

TEST(a_client_that_does_not_read_loses_events_and_its_place)
{
    begin(600);
    for (int i = 0; i < 3 * SL_TRACE_AHEAD; i++)
        fill_a_chunk();
    // What is held for it is bounded.
    for (int i = 0; job->trace.on && i <= SL_CLIENT_MISSED_MAX + 1; i++)
        poll_job();
    ck_assert(!job->trace.on);
    receive_last();
    ck_assert(!got.ok);
    ck_assert_uint_le(got.chunks, SL_TRACE_AHEAD + 1);
    ck_assert_msg(strstr(got.message, "events were dropped") != NULL, "%s", got.message);
}

TEST(a_client_that_confirms_what_it_has_not_got)
{
    begin(600);
    ask(0, 1u << 30);
    for (int i = 0; i < 3 * SL_TRACE_AHEAD; i++)
        fill_a_chunk();
    end_and_receive();
    ck_assert_uint_le(got.chunks, SL_TRACE_AHEAD + 1);
}

RUN_TESTS(.setup = trace_setup, .timeout_s = AWAIT_CASE_S)
