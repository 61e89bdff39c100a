// The HTTP server before a control bus of the test's own: what it answers, what it refuses, and
// that nobody can hold it up.
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "broker/http/control_call.h"
#include "common/base/clock.h"
#include "tests/unit/http_fixture.h"
#include "tests/unit/suite.h"

static const char stats[] = "{\"schema\":\"sluice.stats/1\",\"job\":\"a\",\"id\":\"7\","
                            "\"seconds\":1,\"samplers\":1,\"trainers\":2}";
static const char secret[] = "Authorization: Bearer " TOKEN "\r\n";

// --- the other side: a daemon that knows one job -------------------------------------------------

static pthread_t daemon_thread;
static atomic_bool daemon_ends, daemon_is_mute, daemon_is_deaf, daemon_hears_nothing;
static atomic_int n_described, n_scaled, n_listed;
static struct sl_bus_peer subscriber, slow;
static atomic_bool subscribed;
static _Atomic(const char *) to_tell;

static void answer(const struct sl_bus_peer *to, int code, const char *message, const char *json)
{
    Sl__Control__Answer a = SL__CONTROL__ANSWER__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    a.ok = code == SL_OK;
    a.code = code;
    a.message = (char *)message;
    a.json = (char *)json;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_ANSWER;
    e.answer = &a;
    sl_bus_send(bus, to, &e);
}

static void answer_scale(const struct sl_bus_peer *to, const Sl__Control__Scale *scale)
{
    Sl__Control__ScaleDone d = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    char json[128];
    snprintf(json, sizeof json, "{\"schema\":\"sluice.scale/1\",\"ok\":%s,\"samplers\":%u}",
             scale->samplers < 9 ? "true" : "false", scale->has_samplers ? scale->samplers : 0);
    d.ok = scale->samplers < 9;
    d.message = (char *)"told";
    d.json = json;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_SCALE_DONE;
    e.scale_done = &d;
    sl_bus_send(bus, to, &e);
}

// Statistics, or where the job is.
static void send_line(const char *json)
{
    Sl__Control__Stats body = SL__CONTROL__STATS__INIT;
    Sl__Control__JobState state = SL__CONTROL__JOB_STATE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    body.json = state.json = (char *)json;
    if (strstr(json, "sluice.stats/1")) {
        e.body_case = SL__CONTROL__ENVELOPE__BODY_STATS;
        e.stats = &body;
    } else {
        e.body_case = SL__CONTROL__ENVELOPE__BODY_JOB_STATE;
        e.job_state = &state;
    }
    e.job = (char *)"7";
    sl_bus_send(bus, &subscriber, &e);
}

// The bus is the daemon thread's: it is asked to send, and waited for.
static void tell_line(const char *json)
{
    atomic_store(&to_tell, json);
    AWAIT(!atomic_load(&to_tell));
}

static void take(const struct sl_bus_peer *from, const Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE:
        subscriber = *from;
        send_line(stats);
        atomic_store(&subscribed, true);
        break;
    case SL__CONTROL__ENVELOPE__BODY_LIST:
        atomic_fetch_add(&n_listed, 1);
        answer(from, SL_OK, "",
               "{\"schema\":\"sluice.jobs/1\",\"jobs\":["
               "{\"id\":\"6\",\"name\":\"old\",\"state\":\"failed\"},"
               "{\"id\":\"7\",\"name\":\"a\",\"state\":\"running\"}]}");
        break;
    case SL__CONTROL__ENVELOPE__BODY_DESCRIBE:
        if (strcmp(m->job, "slow") == 0)
            slow = *from; // the next one is answered first
        else if (strcmp(m->job, "7") == 0)
            answer(from, SL_OK, "", "{\"schema\":\"sluice.describe/1\",\"id\":\"7\"}");
        else
            answer(from, SL_ENOENT, "no job 'x'; nearest: a", NULL);
        break;
    case SL__CONTROL__ENVELOPE__BODY_SCALE:
        atomic_fetch_add(&n_scaled, 1);
        answer_scale(from, m->scale);
        break;
    case SL__CONTROL__ENVELOPE__BODY_PAUSE:
        answer(from, SL_EINVAL, "it is paused", NULL);
        if (slow.n)
            answer(&slow, SL_OK, "", "{\"id\":\"slow\"}");
        break;
    default: break;
    }
}

static void *daemon_main(void *arg)
{
    while (!atomic_load(&daemon_ends)) {
        struct sl_bus_peer from;
        Sl__Control__Envelope *m;
        const char *json = atomic_load(&to_tell);
        if (json) {
            send_line(json);
            atomic_store(&to_tell, NULL);
        }
        bool deaf = atomic_load(&daemon_is_deaf);
        atomic_store(&daemon_hears_nothing, deaf);
        if (deaf || sl_bus_receive(bus, json ? 0 : 2, &from, &m) != SL_OK)
            continue;
        if (m->body_case == SL__CONTROL__ENVELOPE__BODY_DESCRIBE)
            atomic_fetch_add(&n_described, 1);
        if (!atomic_load(&daemon_is_mute) || m->body_case == SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE)
            take(&from, m);
        sl_bus_message_free(m);
    }
    return NULL;
}

static void start(void)
{
    bind_bus();
    ck_assert_int_eq(pthread_create(&daemon_thread, NULL, daemon_main, NULL), 0);
    start_server((struct sl_http_options){.token_file = make_token()});
    AWAIT(atomic_load(&subscribed));
}

static void stop(void)
{
    sl_http_stop(http);
    atomic_store(&daemon_ends, true);
    pthread_join(daemon_thread, NULL);
    sl_bus_close(bus, 0);
    unlink(token_path);
}

// --- this side: a browser by hand ----------------------------------------------------------------

static int open_socket(void)
{
    return connect_as(geteuid());
}

// A request on a connection of its own; headers and body as given. Its whole answer.
static const char *ask(const char *method, const char *path, const char *headers, const char *body)
{
    char request[4096];
    int fd = open_socket();
    snprintf(request, sizeof request,
             "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n%sContent-Length: "
             "%zu\r\n\r\n%s",
             method, path, port, headers, strlen(body), body);
    put(fd, request);
    const char *got = read_until(fd, "");
    close(fd);
    return got;
}

static const char *get(const char *path)
{
    return ask("GET", path, "", "");
}

static const char *ask_host(const char *headers)
{
    char request[1024];
    int fd = open_socket();
    snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\nConnection: close\r\n%s\r\n",
             headers);
    put(fd, request);
    const char *got = read_until(fd, "");
    close(fd);
    return got;
}

static void expect_status(const char *got, int status)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "HTTP/1.1 %d ", status);
    ck_assert_msg(strncmp(got, wanted, strlen(wanted)) == 0, "wanted %d, found: %.300s", status,
                  got);
}

static void expect_in(const char *got, const char *what)
{
    ck_assert_msg(strstr(got, what) != NULL, "no '%s' in: %.1000s", what, got);
}

// --- answers -------------------------------------------------------------------------------------

CASE(.name = "server", .setup = start, .teardown = stop, .timeout_s = AWAIT_CASE_S)

TEST(the_page_and_its_headers)
{
    const char *got = get("/");
    expect_status(got, 200);
    expect_in(got, "<title>sluice</title>");
    expect_in(got, "Content-Security-Policy: default-src 'self'");
    expect_in(got, "X-Content-Type-Options: nosniff");
    expect_in(got, "Referrer-Policy: no-referrer");
    expect_in(got, "Cache-Control: no-store");
    ck_assert_ptr_null(strstr(got, "Access-Control"));
    expect_status(get("/page.js"), 200);
    expect_in(get("/page.css"), "text/css");
    expect_status(get("/?job=7"), 200);
}

TEST(head_has_no_body)
{
    const char *got = ask("HEAD", "/page.js", "", "");
    expect_status(got, 200);
    ck_assert_str_eq(strstr(got, "\r\n\r\n"), "\r\n\r\n");
}

TEST(long_answers_are_compressed_for_who_can_take_it)
{
    const char *got = ask("GET", "/page.js", "Accept-Encoding: br, gzip\r\n", "");
    expect_in(got, "Content-Encoding: gzip");
    ck_assert_int_eq((unsigned char)strstr(got, "\r\n\r\n")[4], 0x1f);
    ck_assert_ptr_null(strstr(get("/page.js"), "Content-Encoding"));
}

TEST(what_is_not_there_is_404)
{
    expect_status(get("/nothing"), 404);
    expect_in(get("/nothing"), "text/plain");
    const char *api[] = {"/api", "/api/", "/api/jobs/", "/api/jobs/a/b/c", "/api/nothing"};
    for (size_t i = 0; i < sizeof api / sizeof *api; i++) {
        const char *got = get(api[i]);
        expect_status(got, 404);
        expect_in(got, "{\"error\":\"");
    }
    expect_status(get("/api/jobs/x/stats"), 404);
}

// What was sent to the server may not have been heard yet.
static void expect_soon(const char *path, const char *what)
{
    AWAIT(strstr(get(path), what));
}

TEST(statistics_and_metrics_come_from_what_was_heard)
{
    expect_soon("/api/jobs/7/stats", stats);
    expect_in(get("/api/jobs/a/stats"), stats);
    expect_in(get("/api/jobs/7/history"), "\"trainers\":[2]");
    const char *got = get("/metrics");
    expect_in(got, "text/plain; version=0.0.4");
    expect_in(got, "sluice_trainers{job=\"a\",id=\"7\"} 2\n");
}

TEST(states_come_from_the_list_and_from_what_changes)
{
    expect_soon("/metrics", "sluice_job_state{job=\"old\",id=\"6\",state=\"failed\"} 1\n");
    expect_soon("/metrics", "sluice_job_state{job=\"a\",id=\"7\",state=\"running\"} 1\n");
    tell_line("{\"id\":\"7\",\"name\":\"a\",\"state\":\"done\"}");
    expect_soon("/metrics", "sluice_job_state{job=\"a\",id=\"7\",state=\"done\"} 1\n");
    expect_in(get("/metrics"), "sluice_job_state{job=\"a\",id=\"7\",state=\"running\"} 0\n");
}

TEST(lists_and_descriptions_are_asked_for)
{
    expect_in(get("/api/jobs"), "sluice.jobs/1");
    expect_in(get("/api/jobs/7"), "sluice.describe/1");
    const char *got = get("/api/jobs/x");
    expect_status(got, 404);
    expect_in(got, "nearest: a");
}

TEST(a_slow_answer_keeps_nobody_waiting)
{
    int fd = open_socket();
    put_get(fd, "/api/jobs/slow", "");
    AWAIT(atomic_load(&n_described) == 1);
    expect_in(get("/api/jobs/7"), "sluice.describe/1");
    expect_in(get("/api/jobs"), "sluice.jobs/1");
    expect_in(ask("POST", "/api/jobs/7/pause", secret, ""), "it is paused");
    expect_in(read_until(fd, "}"), "{\"id\":\"slow\"}");
    close(fd);
}

TEST(questions_at_the_same_moment_share_an_answer)
{
    int fds[5];
    atomic_store(&daemon_is_deaf, true);
    AWAIT(atomic_load(&daemon_hears_nothing)); // it was listening when it was told
    for (int i = 0; i < 5; i++)
        put_get(fds[i] = open_socket(), "/api/jobs/7", "");
    expect_soon("/metrics", "\nsluice_http_open_requests 6\n"); // and the one that looks
    atomic_store(&daemon_is_deaf, false);
    for (int i = 0; i < 5; i++) {
        expect_status(read_until(fds[i], "}"), 200);
        close(fds[i]);
    }
    ck_assert_int_eq(atomic_load(&n_described), 1);
    // So does one that comes a moment later; where this machine takes too long, the next one does.
    int before;
    AWAIT((before = atomic_load(&n_described), get("/api/jobs/7"), get("/api/jobs/7"),
           atomic_load(&n_described) < before + 2));
    sl_clock_advance(500 * 1000000ull);
    before = atomic_load(&n_described);
    expect_status(get("/api/jobs/7"), 200);
    ck_assert_int_eq(atomic_load(&n_described), before + 1);
}

TEST(one_connection_serves_many_requests)
{
    int fd = open_socket();
    for (int i = 0; i < 20; i++) {
        put_get(fd, "/api/jobs", "");
        expect_in(read_until(fd, "\"running\"}]}"), "200 OK");
    }
    close(fd);
}

// --- refusals ------------------------------------------------------------------------------------

TEST(another_host_is_refused)
{
    char own[64];
    snprintf(own, sizeof own, "Host: localhost:%d\r\n", port);
    expect_status(ask_host(own), 200);
    expect_status(ask_host("Host: evil.example\r\n"), 403);
    expect_status(ask_host("Host: 127.0.0.1.evil.example\r\n"), 403);
    expect_status(ask_host("Host: 0.0.0.0\r\n"), 403);
    ck_assert(strncmp(ask_host(""), "HTTP/1.1 4", 10) == 0);
}

TEST(another_origin_is_refused)
{
    char own[128];
    snprintf(own, sizeof own, "Host: localhost:%d\r\nOrigin: http://localhost:%d\r\n", port, port);
    expect_status(ask_host(own), 200);
    expect_status(ask_host("Host: localhost:1\r\nOrigin: http://evil.example\r\n"), 403);
    expect_status(ask_host("Host: localhost:1\r\nOrigin: null\r\n"), 403);
    expect_status(ask_host("Host: localhost:1\r\nOrigin: http://localhost:2\r\n"), 403);
}

TEST(a_change_needs_the_token)
{
    const char *body = "{\"samplers\":2}";
    const char *got = ask("POST", "/api/jobs/7/scale", "", body);
    expect_status(got, 401);
    expect_in(got, "WWW-Authenticate: Bearer");
    expect_status(ask("POST", "/api/jobs/7/scale", "Authorization: Bearer open-sesamE\r\n", body),
                  401);
    expect_status(ask("POST", "/api/jobs/7/stop", "Authorization: Basic b3Blbg==\r\n", ""), 401);
    ck_assert_int_eq(atomic_load(&n_scaled), 0);
    expect_status(ask("POST", "/api/jobs/7/scale", secret, body), 200);
    ck_assert_int_eq(atomic_load(&n_scaled), 1);
}

TEST(other_methods_are_refused)
{
    const char *got = ask("GET", "/api/jobs/7/scale", secret, "");
    expect_status(got, 405);
    expect_in(got, "Allow: POST");
    expect_in(ask("POST", "/api/jobs", secret, ""), "Allow: GET, HEAD");
    expect_status(ask("DELETE", "/api/jobs/7", secret, ""), 405);
    expect_status(ask("PUT", "/", secret, ""), 405);
    expect_status(ask("OPTIONS", "/api/jobs/7/scale", "", ""), 405);
}

// Before any of it is sent; the server closes, too.
TEST(a_body_that_is_large_or_of_unknown_length_is_refused)
{
    static const struct {
        const char *header, *status, *part;
    } bodies[] = {{"Content-Length: 10485760", "HTTP/1.1 413 ", "16 KiB"},
                  {"Transfer-Encoding: chunked", "HTTP/1.1 411 ", ""}};
    for (int i = 0; i < 2; i++) {
        char request[512];
        int fd = open_socket();
        snprintf(request, sizeof request,
                 "POST /api/jobs/7/scale HTTP/1.1\r\nHost: localhost:%d\r\n%s%s\r\n\r\n", port,
                 secret, bodies[i].header);
        put(fd, request);
        const char *got = read_until(fd, "");
        expect_in(got, bodies[i].status);
        expect_in(got, bodies[i].part);
        close(fd);
    }
}

TEST(headers_without_end_are_refused)
{
    static char filler[60000];
    int fd = open_socket();
    memset(filler, 'x', sizeof filler - 1);
    put(fd, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Filler: ");
    send(fd, filler, strlen(filler), MSG_NOSIGNAL);
    const char *got = read_until(fd, "");
    ck_assert_msg(!*got || strncmp(got, "HTTP/1.1 431", 12) == 0, "%.100s", got);
    close(fd);
    expect_status(get("/"), 200);
}

// Whether the other side has closed; takes what it had said before.
static bool is_closed(int fd)
{
    char some[4096];
    ssize_t n = recv(fd, some, sizeof some, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

TEST(garbage_is_no_request)
{
    static const char *const texts[] = {"\r\n\r\n", "\x16\x03\x01\x02\x00\x01\xfc", "GET\r\n\r\n",
                                        "GET / HTTP/9.9\r\n\r\n", "POST /api/jobs/7/scale"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int fd = open_socket();
        put(fd, texts[i]);
        shutdown(fd, SHUT_WR);
        AWAIT((sl_clock_advance(1000000000), is_closed(fd))); // a request may be long in coming
        close(fd);
    }
    expect_status(get("/"), 200);
}

TEST(without_a_token_nothing_can_be_changed)
{
    sl_http_stop(http);
    start_server((struct sl_http_options){0});
    const char *got = ask("POST", "/api/jobs/7/scale", secret, "{\"samplers\":2}");
    expect_status(got, 403);
    expect_in(got, "--http-token");
    expect_status(ask("POST", "/api/jobs/7/stop", "Authorization: Bearer \r\n", ""), 403);
    ck_assert_int_eq(atomic_load(&n_scaled), 0);
}

TEST(a_port_that_is_taken_is_named)
{
    char listen[16];
    struct sl_http *second;
    snprintf(listen, sizeof listen, "%d", port);
    const struct sl_http_options options = {.listen = listen, .endpoint = endpoint};
    ck_assert_int_eq(sl_http_start(&options, &second), SL_EEXIST);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), listen));
    ck_assert_ptr_null(second);
}

// --- changes -------------------------------------------------------------------------------------

TEST(a_new_split_is_asked_for_and_answered)
{
    const char *got = ask("POST", "/api/jobs/7/scale", secret, "{\"samplers\":3,\"trainers\":1}");
    expect_status(got, 200);
    expect_in(got, "\"samplers\":3}");
    got = ask("POST", "/api/jobs/7/scale", secret, "{\"samplers\":9}");
    expect_status(got, 409);
    expect_in(got, "\"ok\":false");
    got = ask("POST", "/api/jobs/7/pause", secret, "");
    expect_status(got, 409);
    expect_in(got, "{\"ok\":false,\"message\":\"it is paused\"}");
}

TEST(bad_bodies_are_refused_with_the_reason)
{
    static const char *const bad[][2] = {
        {"", "nothing to change"},
        {"{}", "nothing to change"},
        {"{", "no JSON object"},
        {"[1]", "no JSON object"},
        {"{\"samplers\":1} x", "no JSON object"},
        {"{\"samplers\":-1}", "'samplers'"},
        {"{\"samplers\":1.5}", "'samplers'"},
        {"{\"samplers\":\"2\"}", "'samplers'"},
        {"{\"samplers\":1e99}", "'samplers'"},
        {"{\"sampler\":2}", "'sampler'"},
        {"{\"samplers\":2,\"dry_run\":1}", "'dry_run'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *got = ask("POST", "/api/jobs/7/scale", secret, bad[i][0]);
        expect_status(got, 400);
        expect_in(got, bad[i][1]);
    }
    expect_status(ask("POST", "/api/jobs/7/pause", secret, "{\"samplers\":2}"), 400);
    ck_assert_int_eq(atomic_load(&n_scaled), 0);
}

TEST(who_does_not_answer_is_given_up)
{
    atomic_store(&daemon_is_mute, true);
    int fd = open_socket();
    put_get(fd, "/api/jobs/7", "");
    AWAIT(atomic_load(&n_described) == 1);
    sl_clock_advance(5 * 1000000000ull);
    expect_status(read_until(fd, "}"), 504);
    close(fd);
    expect_status(get("/metrics"), 200);
}

// --- the event stream ----------------------------------------------------------------------------

static int open_stream(const char *query)
{
    char path[64];
    int fd = open_socket();
    snprintf(path, sizeof path, "/api/stream%s", query);
    put_get(fd, path, "Accept: text/event-stream\r\n");
    return fd;
}

TEST(a_stream_begins_with_what_is_known_and_goes_on)
{
    int fd = open_stream("");
    const char *got = read_until(fd, "\"seconds\":1,");
    expect_in(got, "text/event-stream");
    expect_in(got, "event: hello\ndata: {\"version\":");
    expect_in(got, "\"steered\":true}");
    expect_in(got, "event: stats\ndata: {");
    tell_line("{\"schema\":\"sluice.stats/1\",\"job\":\"a\",\"id\":\"7\",\"seconds\":2}");
    expect_in(read_until(fd, "\"seconds\":2}"), "event: stats\n");
    close(fd);
}

TEST(a_stream_of_one_job_leaves_the_others_out)
{
    int fd = open_stream("?job=8");
    const char *got = read_until(fd, "hello");
    tell_line("{\"schema\":\"sluice.stats/1\",\"job\":\"a\",\"id\":\"7\",\"seconds\":2}");
    expect_soon("/api/jobs/7/stats", "\"seconds\":2}");
    sl_clock_advance(5 * 1000000000ull);
    got = read_until(fd, "event: ping");
    expect_in(got, "event: ping");
    ck_assert_ptr_null(strstr(got, "stats"));
    close(fd);
}

TEST(too_many_streams_are_refused_and_the_page_still_comes)
{
    int fds[65];
    for (int i = 0; i < 65; i++) {
        fds[i] = open_stream("");
        expect_status(read_until(fds[i], "}"), i < 64 ? 200 : 503);
    }
    expect_status(get("/"), 200);
    for (int i = 0; i < 65; i++)
        close(fds[i]);
}

// A reader that sleeps is cut off, not waited for: its socket takes little, and then it falls
// behind in the feed or is silent for too long.
TEST(a_stream_that_is_not_read_is_cut_off)
{
    static char line[32 << 10];
    expect_soon("/api/jobs/7/stats", stats); // from here on it is known
    int fd = open_stream("");
    int small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    read_until(fd, "hello");
    int n = snprintf(line, sizeof line,
                     "{\"schema\":\"sluice.stats/1\",\"job\":\"a\",\"id\":\"7\",\"seconds\":2,"
                     "\"filler\":\"");
    memset(line + n, 'x', sizeof line - (size_t)n - 3);
    strcpy(line + sizeof line - 3, "\"}");
    for (int i = 0; i < 600; i++) { // 19 MB
        tell_line(line);
        if (i % 20 == 0)
            expect_status(get("/api/jobs/7/stats"), 200); // nobody waits for it
    }
    expect_soon("/metrics", "\nsluice_http_streams 0\n");
    close(fd);
}

// --- the end -------------------------------------------------------------------------------------

TEST(it_stops_with_streams_and_questions_open)
{
    atomic_store(&daemon_is_mute, true);
    int stream = open_stream(""), idle = open_socket(), question = open_socket();
    put_get(question, "/api/jobs/7", "");
    read_until(stream, "hello");
    AWAIT(atomic_load(&n_described) == 1);
    ck_assert_uint_eq(sl_http_stop(http), 0); // all have been answered
    http = NULL;
    read_until(stream, ""); // ends
    expect_in(read_until(question, "}"), "is being stopped");
    close(stream);
    close(idle);
    close(question);
}

// The broker of a job says how the job ended, and stops its server at once.
static atomic_bool server_stops;

// The broker of one job: it says more once its server has been told to stop, and last how it ended.
static void *broker_main(void *arg)
{
    Sl__Control__Finished finished = SL__CONTROL__FINISHED__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    char line[128];
    AWAIT(atomic_load(&server_stops));
    for (int i = 0; i < 300; i++) // which takes a while, and is answered all along
        expect_status(get("/metrics"), 200);
    for (int i = 0; i < 50; i++) {
        snprintf(line, sizeof line,
                 "{\"schema\":\"sluice.stats/1\",\"job\":\"a\",\"id\":\"7\",\"last\":%d}", i);
        send_line(line);
    }
    e.body_case = SL__CONTROL__ENVELOPE__BODY_FINISHED;
    e.finished = &finished;
    sl_bus_send(bus, &subscriber, &e);
    return NULL;
}

CASE(.name = "question", .timeout_s = AWAIT_CASE_S)

TEST(what_was_said_last_is_still_told)
{
    pthread_t broker;
    char key[SL_BUS_KEY_TEXT];
    Sl__Control__Envelope *m;
    sl_bus_new_endpoint(endpoint, sizeof endpoint, key);
    ck_assert_int_eq(sl_bus_bind(endpoint, key, &bus), SL_OK);
    start_server((struct sl_http_options){.key = key, .last_word_ms = AWAIT_MS});
    ck_assert_int_eq(sl_bus_receive(bus, AWAIT_MS, &subscriber, &m), SL_OK);
    sl_bus_message_free(m);
    send_line(stats);
    int stream = open_stream("");
    read_until(stream, "\"seconds\":1,");
    ck_assert_int_eq(pthread_create(&broker, NULL, broker_main, NULL), 0);
    atomic_store(&server_stops, true);
    ck_assert_uint_eq(sl_http_stop(http), 0);
    pthread_join(broker, NULL);
    const char *got = read_until(stream, "");
    expect_in(got, "\"last\":49}");
    expect_in(got, "event: finished");
    close(stream);
    sl_bus_close(bus, 0);
}

CASE(.setup = start, .teardown = stop, .timeout_s = AWAIT_CASE_S)

TEST(who_sends_drop_by_drop_is_cut_off)
{
    int stream = open_stream(""), fd = open_socket();
    char byte;
    put(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n");
    read_until(stream, "hello");
    expect_soon("/metrics", "\nsluice_http_connections 3\n"); // and the one that looks
    for (int seconds = 0; seconds < 18; seconds += 6) {       // 15 for a request
        ck_assert_int_eq(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
        ck_assert_msg(errno == EAGAIN, "cut off after %d s", seconds);
        put(fd, "X-A: b\r\n");
        sl_clock_advance(6 * 1000000000ull);
        read_until(stream, "event: ping"); // it has looked for what is overdue since
    }
    ck_assert_str_eq(read_until(fd, ""), "");
    close(fd);
    close(stream);
    expect_status(get("/"), 200);
}

CASE(.timeout_s = AWAIT_CASE_S)

// 5 s, for a split 30 s; a job that is told to stop has better things to do than to answer, in 2 s.
LOOP_TEST(a_question_has_its_time, 0, 4)
{
    static const struct {
        enum sl_control_call_kind kind;
        uint64_t ms;
        int code;
    } kinds[] = {{SL_CONTROL_CALL_DESCRIBE, 5000, SL_ETIMEDOUT},
                 {SL_CONTROL_CALL_PAUSE, 5000, SL_ETIMEDOUT},
                 {SL_CONTROL_CALL_SCALE, 30000, SL_ETIMEDOUT},
                 {SL_CONTROL_CALL_STOP, 2000, SL_OK}};
    const struct sl_control_call question = {.kind = kinds[_i].kind, .job = "7"};
    struct sl_reply reply = {0};
    ck_assert_uint_eq(sl_control_call_patience_ms(&question), kinds[_i].ms);
    sl_control_call_give_up(&question, &reply);
    ck_assert_int_eq(reply.code, kinds[_i].code);
    ck_assert_ptr_nonnull(reply.message);
    sl_reply_fini(&reply);
}

RUN_TESTS()
