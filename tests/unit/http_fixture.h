// http_fixture.h - an HTTP server on a control bus of the test's own, and a browser by hand.
#ifndef SL_TESTS_UNIT_HTTP_FIXTURE_H
#define SL_TESTS_UNIT_HTTP_FIXTURE_H

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/http/http.h"
#include "common/base/error.h"
#include "common/bus/bus.h"
#include "tests/unit/await.h"

#define TOKEN "open-sesame"

static char endpoint[128], token_path[] = "/tmp/sluice-http-XXXXXX";
static struct sl_bus *bus;
static struct sl_http *http;
static int port;

static inline void bind_bus(void)
{
    char unused[SL_BUS_KEY_TEXT];
    ck_assert_int_eq(sl_bus_new_endpoint(endpoint, sizeof endpoint, unused), SL_OK);
    ck_assert_int_eq(sl_bus_bind(endpoint, NULL, &bus), SL_OK);
}

// The path of a file with the token.
static inline const char *make_token(void)
{
    int fd = mkstemp(token_path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, TOKEN "\n", strlen(TOKEN) + 1), (ssize_t)strlen(TOKEN) + 1);
    close(fd);
    return token_path;
}

static inline void start_server(struct sl_http_options options)
{
    options.listen = "0";
    options.endpoint = endpoint;
    ck_assert_msg(sl_http_start(&options, &http) == SL_OK, "%s", sl_error_message());
    ck_assert_int_eq(sscanf(sl_http_url(http), "http://127.0.0.1:%d/", &port), 1);
}

// A connection whose socket is this user's.
static inline int connect_as(uid_t user)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setfsuid(user);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setfsuid(geteuid());
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static inline void put(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

// `headers`: whole lines, or "".
static inline void put_get(int fd, const char *path, const char *headers)
{
    char request[512];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n", path, port,
             headers);
    put(fd, request);
}

// Reads until `wanted` is there ("": until the other side closes); the text so far.
static inline const char *read_until(int fd, const char *wanted)
{
    static char got[1 << 18];
    size_t n = 0;
    got[0] = '\0';
    while (n < sizeof got - 1 && !(*wanted && strstr(got, wanted))) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ck_assert_msg(poll(&p, 1, AWAIT_MS) == 1, "neither '%s' nor the end comes: %.300s", wanted,
                      got);
        ssize_t part = recv(fd, got + n, sizeof got - 1 - n, 0);
        if (part <= 0)
            break;
        n += (size_t)part;
        got[n] = '\0';
    }
    return got;
}

#endif
