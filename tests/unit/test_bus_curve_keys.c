// Keys: their files, and the control bus over TCP that only known keys get on.
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <arpa/inet.h>
#include <netinet/in.h>

#include "common/base/clock.h"
#include "common/bus/zap_auth.h"
#include "tests/unit/bus_fixture.h"
#include "tests/unit/suite.h"

static struct sl_curve scratch;

static char *get_file(const char *path)
{
    static char text[1 << 16];
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

// --- files ---------------------------------------------------------------------------------------

CASE(.name = "files", .setup = make_base, .teardown = remove_base, .timeout_s = 30)

TEST(the_first_keygen_makes_both_files)
{
    struct stat st;
    umask(0);
    must(sl_curve_generate(in_base("keys"), NULL));
    ck_assert_int_eq(stat(in_base("keys"), &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0700);
    ck_assert_int_eq(stat(in_base("keys/daemon.key"), &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0600);
    ck_assert_int_eq(stat(in_base("keys/client.key"), &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0600);
    must(sl_curve_read(in_base("keys/daemon.key"), &daemon_keys));
    must(sl_curve_read(in_base("keys/client.key"), &client_keys));
    ck_assert_uint_eq(daemon_keys.n_clients, 1);
    ck_assert_str_eq(daemon_keys.client[0], client_keys.public_key);
    ck_assert_str_eq(client_keys.daemon_key, daemon_keys.public_key);
    ck_assert_str_eq(daemon_keys.daemon_key, "");
    ck_assert_str_ne(client_keys.secret_key, daemon_keys.secret_key);
    ck_assert_ptr_null(strstr(get_file(in_base("keys/client.key")), daemon_keys.secret_key));
}

TEST(the_next_keygen_adds_a_client)
{
    must(sl_curve_generate(in_base("keys"), NULL));
    must(sl_curve_read(in_base("keys/daemon.key"), &daemon_keys));
    must(sl_curve_generate(in_base("keys"), "laptop"));
    must(sl_curve_read(in_base("keys/daemon.key"), &scratch));
    must(sl_curve_read(in_base("keys/laptop.key"), &client_keys));
    ck_assert_uint_eq(scratch.n_clients, 2);
    ck_assert_str_eq(scratch.secret_key, daemon_keys.secret_key);
    ck_assert_str_eq(scratch.client[0], daemon_keys.client[0]);
    ck_assert_str_eq(scratch.client[1], client_keys.public_key);
    ck_assert_str_eq(client_keys.daemon_key, daemon_keys.public_key);
    ck_assert_int_ne(access(in_base("keys/daemon.key.new"), F_OK), 0);
    // The same client again: nothing changes.
    ck_assert_int_eq(sl_curve_generate(in_base("keys"), "laptop"), SL_EEXIST);
    expect_message("laptop.key");
    must(sl_curve_read(in_base("keys/daemon.key"), &scratch));
    ck_assert_uint_eq(scratch.n_clients, 2);
}

TEST(keygens_at_once_lose_no_client)
{
    enum { N = 8 };
    pid_t pids[N];
    for (int i = 0; i < N; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            char name[16];
            snprintf(name, sizeof name, "c%d", i);
            _exit(sl_curve_generate(in_base("keys"), name) == SL_OK ? 0 : 1);
        }
    }
    for (int i = 0; i < N; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    must(sl_curve_read(in_base("keys/daemon.key"), &daemon_keys));
    ck_assert_uint_eq(daemon_keys.n_clients, N);
}

TEST(a_bad_name_makes_nothing)
{
    static const char *const names[] = {"", "..", ".x", "a/b", "daemon", "a b", "\n"};
    char path[128];
    snprintf(path, sizeof path, "%s", in_base("keys"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_int_eq(sl_curve_generate(path, names[i]), SL_EINVAL);
    char name[66];
    memset(name, 'x', 65);
    name[65] = '\0';
    ck_assert_int_eq(sl_curve_generate(path, name), SL_EINVAL);
    ck_assert_int_ne(access(path, F_OK), 0);
    name[64] = '\0';
    must(sl_curve_generate(path, name));
}

TEST(a_client_s_list_has_a_bound)
{
    must(sl_curve_generate(in_base("keys"), NULL));
    char key[SL_CURVE_KEY_TEXT], secret[SL_CURVE_KEY_TEXT];
    FILE *f = fopen(in_base("keys/daemon.key"), "a");
    for (int i = 1; i < SL_CURVE_CLIENTS_MAX; i++) {
        ck_assert_int_eq(zmq_curve_keypair(key, secret), 0);
        fprintf(f, "client = %s\n", key);
    }
    fclose(f);
    must(sl_curve_read(in_base("keys/daemon.key"), &daemon_keys));
    ck_assert_uint_eq(daemon_keys.n_clients, SL_CURVE_CLIENTS_MAX);
    ck_assert_int_eq(sl_curve_generate(in_base("keys"), "more"), SL_ERANGE);
    ck_assert_int_ne(access(in_base("keys/more.key"), F_OK), 0);
    f = fopen(in_base("keys/daemon.key"), "a");
    fprintf(f, "client = %s\n", key);
    fclose(f);
    ck_assert_int_eq(sl_curve_read(in_base("keys/daemon.key"), &scratch), SL_ERANGE);
}

TEST(a_file_that_others_may_read_is_refused)
{
    static const mode_t modes[] = {0640, 0604, 0620, 0602, 0644};
    must(sl_curve_generate(in_base("keys"), NULL));
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        ck_assert_int_eq(chmod(in_base("keys/client.key"), modes[i]), 0);
        ck_assert_int_eq(sl_curve_read(in_base("keys/client.key"), &scratch), SL_EACCESS);
        expect_message("chmod 600");
        ck_assert_str_eq(scratch.secret_key, "");
    }
    // Nor is a list of clients that others may write added to.
    ck_assert_int_eq(chmod(in_base("keys/daemon.key"), 0666), 0);
    ck_assert_int_eq(sl_curve_generate(in_base("keys"), "two"), SL_EACCESS);
    ck_assert_int_ne(access(in_base("keys/two.key"), F_OK), 0);
}

TEST(what_is_no_key_file_is_named_with_its_line)
{
    must(sl_curve_generate(in_base("keys"), NULL));
    must(sl_curve_read(in_base("keys/daemon.key"), &daemon_keys));
    must(sl_curve_read(in_base("keys/client.key"), &client_keys));
    const char *p = daemon_keys.public_key, *s = daemon_keys.secret_key;
    const char *path = in_base("test.key");
    char text[1024];
#define EXPECT(message, ...)                                                                       \
    do {                                                                                           \
        snprintf(text, sizeof text, __VA_ARGS__);                                                  \
        put_file(path, text);                                                                      \
        ck_assert_int_eq(sl_curve_read(path, &scratch), SL_EFORMAT);                               \
        expect_message(message);                                                                   \
        expect_message(path);                                                                      \
        ck_assert_msg(!strstr(sl_error_message(), s), "the secret is in the message");             \
    } while (0)
    EXPECT("'public = ...' is missing", "%s", "");
    EXPECT("'secret = ...' is missing", "public = %s\n", p);
    EXPECT("line 2", "# a comment\nwhat is this\n");
    EXPECT("line 3", "\npublic = %s\npublic = %s\n", p, p);
    EXPECT("line 1: 'privat'", "privat = %s\n", s);
    EXPECT("line 1", "secret = %.39s\n", s);
    EXPECT("line 1", "secret = %s0\n", s);
    EXPECT("line 1", "secret = %.39s~\n", s);
    EXPECT("not of one pair", "public = %s\nsecret = %s\n", client_keys.public_key, s);
    EXPECT("'daemon'", "public = %s\nsecret = %s\ndaemon = %s\nclient = %s\n", p, s, p, p);
#undef EXPECT
    snprintf(text, sizeof text, "  public=%s\r\n\tsecret \t= %s", p,
             s); // as an editor may leave it
    put_file(path, text);
    must(sl_curve_read(path, &scratch));
    ck_assert_str_eq(scratch.secret_key, s);
    ck_assert_int_eq(sl_curve_read(in_base("none.key"), &scratch), SL_ENOENT);
    ck_assert_int_lt(sl_curve_read(base, &scratch), 0);
    ck_assert_int_lt(sl_curve_read("/dev/null", &scratch), 0);
}

// --- the bus over TCP ----------------------------------------------------------------------------

static struct sl_bus *broker;
static char endpoint[128], tcp[64];

static void open_broker(void)
{
    make_base();
    make_keys();
    snprintf(endpoint, sizeof endpoint, "ipc://%s/control.sock", base);
    must(sl_bus_bind(endpoint, NULL, &broker));
    int rc = SL_EEXIST;
    for (int port = 21000 + getpid() % 20000; rc == SL_EEXIST; port++) {
        sl_bus_close(broker, 0);
        must(sl_bus_bind(endpoint, NULL, &broker));
        snprintf(tcp, sizeof tcp, "tcp://127.0.0.1:%d", port);
        rc = sl_bus_add_tcp(broker, tcp, &daemon_keys);
    }
    must(rc);
}

static void close_broker(void)
{
    sl_bus_close(broker, 0);
    ck_assert_msg(access(endpoint + strlen("ipc://"), F_OK) != 0, "the socket's file is left");
    remove_base();
}

CASE(.name = "tcp", .setup = open_broker, .teardown = close_broker, .timeout_s = 30)

TEST(local_and_distant_clients_share_a_bus)
{
    struct sl_bus *near, *far;
    struct sl_bus_peer near_peer, far_peer;
    must(sl_bus_connect(endpoint, NULL, &near));
    must(sl_bus_connect_tcp(tcp, &client_keys, &far));
    must(send_text(near, NULL, "near"));
    expect_text(broker, &near_peer, "near");
    must(send_text(far, NULL, "far"));
    expect_text(broker, &far_peer, "far");
    ck_assert(!sl_bus_same_peer(&near_peer, &far_peer));
    ck_assert(sl_bus_is_far(&far_peer) && !sl_bus_is_far(&near_peer));
    ck_assert(sl_bus_same_peer(&far_peer, &far_peer));
    must(send_text(broker, &far_peer, "for far"));
    must(send_text(broker, &near_peer, "for near"));
    expect_text(near, NULL, "for near");
    expect_text(far, NULL, "for far");
    // A peer's id is whole: nothing else of it says by which socket it came.
    struct sl_bus_peer again = {.n = far_peer.n};
    memcpy(again.id, far_peer.id, far_peer.n);
    must(send_text(broker, &again, "again"));
    expect_text(far, NULL, "again");
    sl_bus_close(near, 0);
    sl_bus_close(far, 0);
}

// What it sends waits on its own side once some of it waits here.
TEST(who_asks_faster_than_it_is_heard_costs_tens_of_mib)
{
    enum { MIB = 1 << 20, MORE_THAN_HELD = 200 };
    const int one = 1, none = 0, give_up_ms = 1000, small = 64 << 10;
    Sl__Control__Envelope *m;
    struct sl_bus *other;
    void *context = zmq_ctx_new(), *client = zmq_socket(context, ZMQ_DEALER);
    must(sl_zap_auth_arm_client(client, &client_keys));
    zmq_setsockopt(client, ZMQ_SNDHWM, &one, sizeof one);
    zmq_setsockopt(client, ZMQ_SNDBUF, &small, sizeof small);
    zmq_setsockopt(client, ZMQ_SNDTIMEO, &give_up_ms, sizeof give_up_ms);
    zmq_setsockopt(client, ZMQ_LINGER, &none, sizeof none);
    ck_assert_int_eq(zmq_connect(client, tcp), 0);
    uint8_t *noise = calloc(1, MIB);
    int sent = 0;
    while (sent < MORE_THAN_HELD && zmq_send(client, noise, MIB, 0) == MIB)
        sent++;
    ck_assert_int_gt(sent, 0);
    ck_assert_int_le(sent, 64); // what waits, and what is in sockets and in the client
    free(noise);
    must(sl_bus_connect_tcp(tcp, &client_keys, &other)); // nobody else is kept waiting
    must(send_text(other, NULL, "other"));
    expect_text(broker, NULL, "other");
    // A request that is too large to be one is refused where it is asked.
    char *text = calloc(1, SL_BUS_REQUEST_MAX + 1);
    memset(text, 'x', SL_BUS_REQUEST_MAX);
    ck_assert_int_eq(send_text(other, NULL, text), SL_ERANGE);
    expect_message("at most 2097152");
    free(text);
    sl_bus_close(other, 0);
    zmq_close(client);
    zmq_ctx_term(context);
    while (sl_bus_receive(broker, 0, NULL, &m) == SL_OK)
        sl_bus_message_free(m);
}

TEST(one_descriptor_tells_of_both)
{
    struct sl_bus *near, *far;
    Sl__Control__Envelope *m;
    struct pollfd fd = {.fd = sl_bus_fd(broker), .events = POLLIN};
    must(sl_bus_connect(endpoint, NULL, &near));
    must(sl_bus_connect_tcp(tcp, &client_keys, &far));
    struct sl_bus *senders[] = {far, near, far};
    for (int i = 0; i < 3; i++) {
        must(send_text(senders[i], NULL, "wake"));
        int rc = SL_EAGAIN;
        for (int k = 0; k < 50 && rc != SL_OK; k++) {
            ck_assert_int_eq(poll(&fd, 1, SOON_MS), 1);
            rc = sl_bus_receive(broker, 0, NULL, &m);
        }
        must(rc);
        sl_bus_message_free(m);
        while (sl_bus_receive(broker, 0, NULL, &m) == SL_OK)
            sl_bus_message_free(m);
    }
    sl_bus_close(near, 0);
    sl_bus_close(far, 0);
}

// Whether the handshake of one who calls with these keys (NULL: in the clear) ends well: nothing
// that it sends is read before that.
static bool gets_in(const struct sl_curve *keys)
{
    int linger = 0;
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    use_keys(socket, keys);
    void *monitor = monitor_of(context, socket);
    ck_assert_int_eq(zmq_connect(socket, tcp), 0);
    bool gets_in = is_let_in(monitor);
    zmq_close(monitor);
    zmq_close(socket);
    zmq_ctx_term(context);
    return gets_in;
}

TEST(only_known_keys_get_in)
{
    struct sl_bus *client;
    // Another daemon's client, that knows this daemon's public key.
    memcpy(stranger_keys.daemon_key, client_keys.daemon_key, SL_CURVE_KEY_TEXT);
    ck_assert(!gets_in(&stranger_keys));
    // A known client that takes another for the daemon: it talks to nobody but the right one.
    scratch = client_keys;
    memcpy(scratch.daemon_key, stranger_keys.public_key, SL_CURVE_KEY_TEXT);
    ck_assert(!gets_in(&scratch));
    ck_assert(!gets_in(NULL)); // in the clear
    ck_assert(gets_in(&client_keys));
    must(sl_bus_connect_tcp(tcp, &client_keys, &client));
    must(send_text(client, NULL, "known"));
    expect_text(broker, NULL, "known");
    sl_bus_close(client, 0);
}

TEST(noise_on_the_port_harms_nobody)
{
    int port = atoi(strrchr(tcp, ':') + 1);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fds[20];
    for (int i = 0; i < 20; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(fds[i], (struct sockaddr *)&address, sizeof address), 0);
        static const char *const greetings[] = {"GET / HTTP/1.1\r\n\r\n", "\xff", "",
                                                "\xff\0\0\0\0\0\0\0\1\x7f\3"};
        const char *text = greetings[i % 4];
        ck_assert_int_ge(send(fds[i], text, i % 4 == 3 ? 11 : strlen(text), MSG_NOSIGNAL), 0);
    }
    struct sl_bus *client;
    must(sl_bus_connect_tcp(tcp, &client_keys, &client));
    must(send_text(client, NULL, "through"));
    expect_text(broker, NULL, "through");
    sl_bus_close(client, 0);
    for (int i = 0; i < 20; i++)
        close(fds[i]);
}

TEST(the_other_side_s_keys_are_refused)
{
    struct sl_bus *bus, *second;
    ck_assert_int_eq(sl_bus_connect_tcp(tcp, &daemon_keys, &bus), SL_EINVAL);
    expect_message("client.key");
    ck_assert_ptr_null(bus);
    ck_assert_int_eq(sl_bus_connect_tcp("ipc://@x", &client_keys, &bus), SL_EINVAL);
    char other[128];
    char key[SL_BUS_KEY_TEXT];
    sl_bus_new_endpoint(other, sizeof other, key);
    must(sl_bus_bind(other, NULL, &second));
    ck_assert_int_eq(sl_bus_add_tcp(second, "tcp://127.0.0.1:1", &client_keys), SL_EINVAL);
    expect_message("daemon.key");
    scratch = daemon_keys;
    scratch.n_clients = 0;
    ck_assert_int_eq(sl_bus_add_tcp(second, "tcp://127.0.0.1:1", &scratch), SL_EINVAL);
    expect_message("keygen");
    ck_assert_int_eq(sl_bus_add_tcp(second, tcp, &daemon_keys), SL_EEXIST);
    expect_message(tcp);
    sl_bus_close(second, 0);
}

RUN_TESTS()
