// Who hears of a job, whom an answer is for, and what the service manager is told.
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "broker/log/client.h"
#include "broker/daemon/notify.h"
#include "broker/daemon/route.h"
#include "broker/daemon/subscriber.h"
#include "common/base/clock.h"
#include "tests/unit/await.h"
#include "tests/unit/daemon_fixture.h"
#include "tests/unit/suite.h"

static char key[SL_BUS_KEY_TEXT];

static char endpoint[128];
static struct sl_bus *daemon_bus;
static struct sl_subscribers subscribers;

static void begin(void)
{
    dir_begin();
    sl_bus_new_endpoint(endpoint, sizeof endpoint, key);
    ck_assert_int_eq(sl_bus_bind(endpoint, key, &daemon_bus), SL_OK);
    sl_subscribers_init(&subscribers, daemon_bus);
}

static void end(void)
{
    sl_subscribers_fini(&subscribers);
    sl_bus_close(daemon_bus, 0);
    dir_end();
}

// A client, and the name under which the daemon knows it.
static struct sl_bus *client(struct sl_bus_peer *peer)
{
    struct sl_bus *bus;
    Sl__Control__List list = SL__CONTROL__LIST__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT, *m;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_LIST;
    e.list = &list;
    ck_assert_int_eq(sl_bus_connect(endpoint, key, &bus), SL_OK);
    ck_assert_int_eq(sl_bus_send(bus, NULL, &e), SL_OK);
    ck_assert_int_eq(sl_bus_receive(daemon_bus, AWAIT_MS, peer, &m), SL_OK);
    sl_bus_message_free(m);
    return bus;
}

static void tell(uint64_t job, unsigned wants, const char *text)
{
    Sl__Control__Event event = SL__CONTROL__EVENT__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    event.json = (char *)text;
    e.body_case = SL__CONTROL__ENVELOPE__BODY_EVENT;
    e.event = &event;
    sl_subscribers_send(&subscribers, job, wants, &e);
}

static void hears(struct sl_bus *bus, const char *text)
{
    Sl__Control__Envelope *m;
    ck_assert_int_eq(sl_bus_receive(bus, AWAIT_MS, NULL, &m), SL_OK);
    ck_assert_str_eq(m->event->json, text);
    sl_bus_message_free(m);
}

// What is sent to it now is the next that it hears: messages to one client keep their order.
static void has_heard_all(struct sl_bus *bus, const struct sl_bus_peer *peer)
{
    Sl__Control__Event event = SL__CONTROL__EVENT__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    event.json = (char *)"the last word";
    e.body_case = SL__CONTROL__ENVELOPE__BODY_EVENT;
    e.event = &event;
    ck_assert_int_eq(sl_bus_send(daemon_bus, peer, &e), SL_OK);
    hears(bus, "the last word");
}

TEST(who_has_subscribed_hears_of_his_job)
{
    struct sl_bus_peer pa, pb;
    struct sl_bus *a = client(&pa), *b = client(&pb);
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &pa, 1, SL_WANTS_PROGRESS), SL_OK);
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &pb, 2, SL_WANTS_STATS), SL_OK);
    tell(1, 0, "one");
    tell(2, 0, "two");
    tell(1, SL_WANTS_STATS, "statistics of one");
    tell(2, SL_WANTS_STATS, "statistics of two");
    hears(a, "one");
    has_heard_all(a, &pa);
    hears(b, "two");
    hears(b, "statistics of two");
    has_heard_all(b, &pb);
    sl_bus_close(a, 0);
    sl_bus_close(b, 0);
}

TEST(who_hears_of_all_hears_each_message_once)
{
    struct sl_bus_peer peer;
    struct sl_bus *a = client(&peer);
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &peer, 1, 0), SL_OK);
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &peer, 2, 0), SL_OK);
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &peer, 0, 0), SL_OK);
    ck_assert_uint_eq(subscribers.n, 1);
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &peer, 1, SL_WANTS_STATS), SL_OK);
    ck_assert_uint_eq(subscribers.n, 1);
    tell(1, SL_WANTS_STATS, "a line");
    tell(99, 0, "of a job to come");
    hears(a, "a line");
    hears(a, "of a job to come");
    has_heard_all(a, &peer);
    sl_bus_close(a, 0);
}

TEST(what_is_wanted_is_what_was_said_last)
{
    struct sl_bus_peer peer;
    struct sl_bus *a = client(&peer);
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &peer, 1, SL_WANTS_PROGRESS), SL_OK);
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &peer, 1, SL_WANTS_STATS), SL_OK);
    ck_assert_uint_eq(subscribers.n, 1);
    tell(1, SL_WANTS_PROGRESS, "progress");
    tell(1, SL_WANTS_STATS, "statistics");
    hears(a, "statistics");
    has_heard_all(a, &peer);
    sl_bus_close(a, 0);
}

TEST(who_has_gone_is_dropped_and_holds_nobody_up)
{
    struct sl_bus_peer gone, here;
    struct sl_bus *a = client(&gone), *b = client(&here);
    sl_subscribers_add(&subscribers, &gone, 1, 0);
    here.request = 5;
    sl_subscribers_add(&subscribers, &here, 1, 0);
    ck_assert_uint_eq(subscribers.list[1].peer.request, 0); // what comes answers nothing
    sl_bus_close(a, 0);
    AWAIT((tell(1, 0, "x"), subscribers.n == 1));
    ck_assert(sl_bus_same_peer(&subscribers.list[0].peer, &here));
    hears(b, "x");
    sl_bus_close(b, 0);
}

// One that is stopped in a debugger: its queue fills up, and then it is dropped.
TEST(who_does_not_read_is_dropped_and_holds_nobody_up)
{
    struct sl_bus_peer peer;
    struct sl_bus *a = client(&peer);
    char *line = malloc(8192);
    memset(line, 'x', 8191);
    line[8191] = '\0';
    sl_subscribers_add(&subscribers, &peer, 1, 0);
    int sent = 0, taken = 0; // what is not taken is refused at once: a send that waits never ends
    for (; subscribers.n == 1; sent++) {
        ck_assert_int_lt(sent, 100000);
        tell(1, 0, line);
        if (subscribers.n == 1 && subscribers.list[0].missed == 0)
            taken = sent + 1;
    }
    ck_assert_int_gt(taken, 0);
    ck_assert_int_eq(sent, taken + SL_CLIENT_MISSED_MAX + 1);
    free(line);
    sl_bus_close(a, 0);
}

TEST(a_full_table_lets_go_of_who_misses_most)
{
    struct sl_bus_peer peer = {.n = 4};
    for (uint32_t i = 0; i < SL_SUBSCRIBERS_MAX; i++) {
        memcpy(peer.id, &i, 4);
        ck_assert_int_eq(sl_subscribers_add(&subscribers, &peer, 1, 0), SL_OK);
    }
    peer.n = 5;
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &peer, 1, 0), SL_EAGAIN);
    tell(1, 0, "nobody is there");
    ck_assert_int_eq(sl_subscribers_add(&subscribers, &peer, 1, 0), SL_OK);
    ck_assert_uint_eq(subscribers.n, SL_SUBSCRIBERS_MAX);
}

// --- routes --------------------------------------------------------------------------------------

static struct sl_routes routes;

static struct sl_route *find(uint64_t job, uint64_t request)
{
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    e.request = request;
    return sl_routes_find(&routes, job, &e);
}

static uint64_t add(const struct sl_bus_peer *peer, uint64_t job,
                    Sl__Control__Envelope__BodyCase asked)
{
    return sl_routes_add(&routes, peer, job, asked)->request.id;
}

TEST(an_answer_finds_who_has_asked)
{
    struct sl_bus_peer a = {.id = "a", .n = 1}, b = {.id = "b", .n = 1, .request = 5};
    uint64_t to_a = add(&a, 1, SL__CONTROL__ENVELOPE__BODY_SCALE);
    uint64_t to_b = add(&b, 1, SL__CONTROL__ENVELOPE__BODY_TRACE);
    struct sl_route *route = find(1, to_b);
    ck_assert_ptr_nonnull(route);
    ck_assert(sl_bus_same_peer(&route->peer, &b));
    ck_assert_uint_eq(route->peer.request, 5);
    ck_assert_int_eq(route->asked, SL__CONTROL__ENVELOPE__BODY_TRACE);
    ck_assert_ptr_null(find(2, to_b)); // another job cannot use it
    sl_routes_remove(&routes, route);
    ck_assert_ptr_null(find(1, to_b));
    ck_assert(sl_bus_same_peer(&find(1, to_a)->peer, &a));
    ck_assert_ptr_null(find(1, 0));
}

TEST(a_trace_has_one_route)
{
    struct sl_bus_peer a = {.id = "a", .n = 1}, b = {.id = "b", .n = 1};
    struct sl_bus_peer once_more = {.id = "a", .n = 1, .request = 1};
    uint64_t begin = add(&a, 1, SL__CONTROL__ENVELOPE__BODY_TRACE);
    ck_assert_uint_eq(add(&a, 1, SL__CONTROL__ENVELOPE__BODY_TRACE), begin);
    ck_assert_uint_eq(routes.n, 1);
    ck_assert_uint_ne(add(&b, 1, SL__CONTROL__ENVELOPE__BODY_TRACE), begin);
    ck_assert_uint_ne(add(&once_more, 1, SL__CONTROL__ENVELOPE__BODY_TRACE), begin);
    ck_assert_uint_ne(add(&a, 2, SL__CONTROL__ENVELOPE__BODY_TRACE), begin); // another job
    ck_assert_uint_ne(add(&a, 1, SL__CONTROL__ENVELOPE__BODY_SCALE), begin); // no trace
}

TEST(what_nobody_answers_is_forgotten_in_the_end)
{
    struct sl_bus_peer peer = {.id = "a", .n = 1};
    uint64_t last = 0, first = add(&peer, 1, SL__CONTROL__ENVELOPE__BODY_SCALE);
    for (int i = 0; i < SL_ROUTES_MAX; i++)
        last = add(&peer, 2, SL__CONTROL__ENVELOPE__BODY_SCALE);
    ck_assert_uint_eq(routes.n, SL_ROUTES_MAX);
    ck_assert_ptr_null(find(1, first));
    ck_assert_ptr_null(sl_routes_of(&routes, 1));
    ck_assert_ptr_nonnull(find(2, last));
    struct sl_route *route;
    while ((route = sl_routes_of(&routes, 2)))
        sl_routes_remove(&routes, route);
    ck_assert_uint_eq(routes.n, 0);
}

// --- the service manager -------------------------------------------------------------------------

static int manager(const char *name, bool abstract)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(to.sun_path, sizeof to.sun_path, "%s", name);
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    if (abstract)
        to.sun_path[0] = '\0';
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&to, abstract ? n : sizeof to), 0);
    ck_assert_int_eq(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

static void is_told(int fd, const char *want)
{
    char text[256];
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, AWAIT_MS), 1);
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    ck_assert_str_eq(text, want);
}

// A datagram is there as soon as it has been sent.
static void is_told_nothing(int fd)
{
    char text[256];
    ck_assert_int_eq(recv(fd, text, sizeof text, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
}

TEST(a_service_manager_is_told)
{
    struct sl_notify notify;
    int fd = manager(in_dir("notify"), false);
    setenv("WATCHDOG_USEC", "600000000", 1);
    sl_notify_init(&notify);
    ck_assert_ptr_null(getenv("NOTIFY_SOCKET")); // not for children
    ck_assert_ptr_null(getenv("WATCHDOG_USEC"));
    sl_notify_send(&notify, "READY=1");
    is_told(fd, "READY=1");
    ck_assert_uint_eq(notify.watchdog_ns, 300000000000ull);
    sl_notify_poll(&notify);
    is_told(fd, "WATCHDOG=1");
    sl_notify_poll(&notify);
    is_told_nothing(fd); // not due
    sl_clock_advance(notify.watchdog_ns);
    sl_notify_poll(&notify);
    is_told(fd, "WATCHDOG=1");
    is_told_nothing(fd);
    close(fd);
    sl_notify_send(&notify, "STATUS=nobody listens"); // is no harm
    sl_notify_fini(&notify);
}

TEST(an_abstract_socket_is_found)
{
    struct sl_notify notify;
    char name[64];
    snprintf(name, sizeof name, "@sluice-test-%d", (int)getpid());
    int fd = manager(name, true);
    setenv("WATCHDOG_USEC", "40000", 1);
    setenv("WATCHDOG_PID", "1", 1); // meant for somebody else
    sl_notify_init(&notify);
    ck_assert_uint_eq(notify.watchdog_ns, 0);
    sl_notify_send(&notify, "STOPPING=1");
    is_told(fd, "STOPPING=1");
    sl_notify_poll(&notify);
    sl_notify_fini(&notify);
    close(fd);
}

TEST(without_a_service_manager_nothing_happens)
{
    static const char *const names[] = {NULL, "", "@", "relative", "/nowhere/at/all"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct sl_notify notify;
        if (names[i])
            setenv("NOTIFY_SOCKET", names[i], 1);
        sl_notify_init(&notify);
        sl_notify_send(&notify, "READY=1");
        sl_notify_poll(&notify);
        sl_notify_fini(&notify);
    }
}

RUN_TESTS(.setup = begin, .teardown = end, .timeout_s = AWAIT_CASE_S)
