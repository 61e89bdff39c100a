// The HTTP server and the other users of its machine: what they are told, and what is left of it
// for the job's own user when they take all that they can get.
#include "broker/http/http_internal.h"
#include "broker/http/peer.h"
#include "tests/unit/http_fixture.h"
#include "tests/unit/suite.h"

enum { STRANGER = 65534 };

static void start(const char *token_file, bool open)
{
    bind_bus(); // of a daemon that never answers
    start_server((struct sl_http_options){.token_file = token_file, .open = open});
}

static void stop(void)
{
    sl_http_stop(http);
    sl_bus_close(bus, 0);
    unlink(token_path);
}

// The status; the rest of the answer up to `wanted` in *got where that is not NULL.
static int get_as(uid_t user, const char *path, const char *headers, const char *wanted,
                  const char **got)
{
    int fd = connect_as(user), status = 0;
    char closing[256];
    snprintf(closing, sizeof closing, "Connection: close\r\n%s", headers);
    put_get(fd, path, closing);
    const char *text = read_until(fd, wanted);
    close(fd);
    sscanf(text, "HTTP/1.1 %d", &status);
    if (got)
        *got = text;
    return status;
}

static bool is_root(void)
{
    if (geteuid() != 0)
        printf("SKIP: only root can have another user's socket\n");
    return geteuid() == 0;
}

static const char *const kept[] = {"/metrics",          "/api/jobs",           "/api/jobs/7",
                                   "/api/jobs/7/stats", "/api/jobs/7/history", "/api/stream"};
enum { N_KEPT = sizeof kept / sizeof *kept };

TEST(another_user_is_refused_and_told_how_to_be_let_in)
{
    const char *got;
    if (!is_root())
        return;
    start(NULL, false);
    for (int i = 0; i < N_KEPT; i++) {
        ck_assert_int_eq(get_as(STRANGER, kept[i], "", "", &got), 403);
        ck_assert_msg(strstr(got, "--http-token FILE") && strstr(got, "--http-open"), "%s", got);
    }
    ck_assert_int_eq(get_as(STRANGER, "/", "", "", NULL), 200); // the page, which has no job in it
    ck_assert_int_eq(get_as(geteuid(), "/metrics", "", "", NULL), 200);
    ck_assert_int_eq(get_as(geteuid(), "/api/stream", "", "event: hello", NULL), 200);
    stop();
}

TEST(another_user_with_the_token_is_let_in)
{
    static const char header[] = "Authorization: Bearer " TOKEN "\r\n";
    const char *got;
    if (!is_root())
        return;
    start(make_token(), false);
    for (int i = 0; i < N_KEPT; i++) {
        ck_assert_int_eq(get_as(STRANGER, kept[i], "", "", &got), 401);
        ck_assert_msg(strstr(got, "Authorization: Bearer"), "%s", got);
    }
    ck_assert_int_eq(get_as(STRANGER, "/metrics", header, "", NULL), 200);
    ck_assert_int_eq(get_as(STRANGER, "/api/stream", header, "event: hello", NULL), 200);
    // A browser's event stream sends no header.
    ck_assert_int_eq(get_as(STRANGER, "/api/stream?token=" TOKEN, "", "event: hello", NULL), 200);
    ck_assert_int_eq(get_as(STRANGER, "/api/stream?token=open-sesamf", "", "", NULL), 401);
    ck_assert_int_eq(get_as(STRANGER, "/metrics?token=" TOKEN, "", "", NULL), 401);
    stop();
}

TEST(an_open_server_is_read_by_all_and_steered_by_none)
{
    if (!is_root())
        return;
    start(NULL, true);
    ck_assert_int_eq(get_as(STRANGER, "/metrics", "", "", NULL), 200);
    ck_assert_int_eq(get_as(STRANGER, "/api/stream", "", "event: hello", NULL), 200);
    int fd = connect_as(STRANGER), status = 0;
    char post[256];
    snprintf(post, sizeof post,
             "POST /api/jobs/7/stop HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n"
             "Content-Length: 0\r\n\r\n",
             port);
    put(fd, post);
    sscanf(read_until(fd, ""), "HTTP/1.1 %d", &status);
    ck_assert_int_eq(status, 403);
    close(fd);
    stop();
}

TEST(others_have_a_part_of_the_streams)
{
    int fds[SL_HTTP_FOREIGN_STREAMS];
    const char *got;
    if (!is_root())
        return;
    start(NULL, true);
    for (int i = 0; i < SL_HTTP_FOREIGN_STREAMS; i++) {
        fds[i] = connect_as(STRANGER);
        put_get(fds[i], "/api/stream", "");
        ck_assert_ptr_nonnull(strstr(read_until(fds[i], "event: hello"), "event: hello"));
    }
    ck_assert_int_eq(get_as(STRANGER, "/api/stream", "", "", &got), 503);
    ck_assert_msg(strstr(got, "of other users"), "%s", got);
    ck_assert_int_eq(get_as(geteuid(), "/api/stream", "", "event: hello", NULL), 200);
    for (int i = 0; i < SL_HTTP_FOREIGN_STREAMS; i++)
        close(fds[i]);
    // Their places are free again once the server has seen that they have gone.
    AWAIT(get_as(STRANGER, "/api/stream", "", "event: hello", NULL) == 200);
    stop();
}

TEST(others_have_a_part_of_the_connections)
{
    int fds[SL_HTTP_FOREIGN];
    if (!is_root())
        return;
    start(NULL, false);
    for (int i = 0; i < SL_HTTP_FOREIGN; i++)
        fds[i] = connect_as(STRANGER);
    // One more is hung up on, whatever it asks: who only waited would be, too, after a while.
    int more = connect_as(STRANGER);
    (void)!send(more, "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", 35, MSG_NOSIGNAL);
    const char *got = read_until(more, "");
    ck_assert_msg(!*got, "it is answered: %.100s", got);
    close(more);
    ck_assert_int_eq(get_as(geteuid(), "/metrics", "", "", NULL), 200);
    for (int i = 0; i < SL_HTTP_FOREIGN; i++)
        close(fds[i]);
    AWAIT(get_as(STRANGER, "/", "", "", NULL) == 200);
    stop();
}

// --- whose a connection is -----------------------------------------------------------------------

// Both ends of a connection; the first one is of `user`.
static void connect_pair(int family, uid_t user, int ends[2])
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t n = family == AF_INET ? sizeof v4 : sizeof v6;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(family, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, at, n), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, at, &n), 0);
    setfsuid(user);
    ends[0] = socket(family, SOCK_STREAM, 0);
    setfsuid(geteuid());
    ck_assert_int_eq(connect(ends[0], at, n), 0);
    ends[1] = accept(listener, NULL, NULL);
    ck_assert_int_ge(ends[1], 0);
    close(listener);
}

static const int families[] = {AF_INET, AF_INET6};

LOOP_TEST(the_kernel_tells_whose_a_connection_is, 0, 2)
{
    uid_t user = 12345;
    int ends[2];
    int probe = socket(families[_i], SOCK_STREAM, 0);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (families[_i] == AF_INET6 &&
        (probe < 0 || bind(probe, (struct sockaddr *)&v6, sizeof v6) != 0)) {
        printf("SKIP: no IPv6 here\n");
        return;
    }
    close(probe);
    uid_t wanted = geteuid() == 0 ? STRANGER : geteuid();
    connect_pair(families[_i], wanted, ends);
    ck_assert(sl_peer_user(ends[1], &user));
    ck_assert_uint_eq(user, wanted);
    // Half closed it is still that user's: the answer is yet to be read.
    shutdown(ends[0], SHUT_WR);
    ck_assert(sl_peer_user(ends[1], &user));
    ck_assert_uint_eq(user, wanted);
    // Closed it is nobody's, and above all not root's.
    close(ends[0]);
    ck_assert(!sl_peer_user(ends[1], &user));
    close(ends[1]);
    ck_assert(!sl_peer_user(ends[1], &user));
}

RUN_TESTS(.timeout_s = AWAIT_CASE_S)
