#include "broker/http/guard.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sodium.h>

#include "common/base/error.h"
#include "common/base/log.h"

// --- the address ---------------------------------------------------------------------------------

static const struct {
    const char *text;
    bool v6;
} loopbacks[] = {{"127.0.0.1", false}, {"localhost", false}, {"[::1]", true}};

enum { N_LOOPBACKS = sizeof loopbacks / sizeof *loopbacks };

// A port number and nothing else; -1 for what is none.
static long parse_port(const char *text)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return -1;
    errno = 0;
    long port = strtol(text, &end, 10);
    return errno || *end || port > 65535 ? -1 : port;
}

int sl_guard_parse_listen(const char *text, struct sl_guard_address *out)
{
    const char *colon = strrchr(text, ':');
    const char *port_text = colon ? colon + 1 : text;
    bool v6 = false, known = !colon;
    for (int i = 0; colon && i < N_LOOPBACKS; i++) {
        size_t n = strlen(loopbacks[i].text);
        if ((size_t)(colon - text) == n && strncmp(text, loopbacks[i].text, n) == 0) {
            known = true;
            v6 = loopbacks[i].v6;
        }
    }
    long port = parse_port(port_text);
    if (colon && !known && port >= 0)
        return sl_fail(SL_EINVAL,
                       "the page: listening on '%s': only this machine's own address is served, "
                       "since anyone who reaches the port sees the jobs. Use '127.0.0.1:%ld', and "
                       "'ssh -L %ld:127.0.0.1:%ld HOST' from another machine",
                       text, port, port, port);
    if (port < 0)
        return sl_fail(SL_EINVAL,
                       "the page: listening on '%s': wanted a port from 0 (any free one) to 65535, "
                       "or ADDRESS:PORT with the address 127.0.0.1, localhost or [::1]",
                       text);
    memset(out, 0, sizeof *out);
    if (v6) {
        out->at.v6.sin6_family = AF_INET6;
        out->at.v6.sin6_port = htons((uint16_t)port);
        out->at.v6.sin6_addr = in6addr_loopback;
        out->n = sizeof out->at.v6;
        out->host = "[::1]";
    } else {
        out->at.v4.sin_family = AF_INET;
        out->at.v4.sin_port = htons((uint16_t)port);
        out->at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        out->n = sizeof out->at.v4;
        out->host = "127.0.0.1";
    }
    return SL_OK;
}

// --- Host and Origin -----------------------------------------------------------------------------

bool sl_guard_host_is_ours(const char *host)
{
    for (int i = 0; host && i < N_LOOPBACKS; i++) {
        size_t n = strlen(loopbacks[i].text);
        if (strncasecmp(host, loopbacks[i].text, n) != 0)
            continue;
        if (!host[n] || (host[n] == ':' && parse_port(host + n + 1) >= 0))
            return true;
    }
    return false;
}

bool sl_guard_origin_is_ours(const char *origin, const char *host)
{
    static const char scheme[] = "http://";
    if (!origin)
        return true;
    return host && strncasecmp(origin, scheme, sizeof scheme - 1) == 0 &&
           strcasecmp(origin + sizeof scheme - 1, host) == 0;
}

// --- the token -----------------------------------------------------------------------------------

static void hash_of(const char *text, size_t n, uint8_t out[SL_GUARD_TOKEN_HASH])
{
    crypto_generichash(out, SL_GUARD_TOKEN_HASH, (const unsigned char *)text, n, NULL, 0);
}

// A new file with a fresh token. SL_EEXIST when there is one by now.
static int make_token(const char *path)
{
    uint8_t random[24];
    char text[2 * sizeof random + 2];
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return SL_EEXIST;
    if (fd < 0)
        return sl_fail_errno(SL_EACCESS, errno, "the page's token: making '%s'", path);
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(text, sizeof text - 1, random, sizeof random);
    size_t n = strlen(text);
    text[n++] = '\n';
    ssize_t written = write(fd, text, n);
    int err = errno;
    close(fd);
    sodium_memzero(text, sizeof text);
    if (written == (ssize_t)n) {
        sl_log_info("the page's token was made: %s", path);
        return SL_OK;
    }
    unlink(path);
    return sl_fail_errno(SL_EACCESS, written < 0 ? err : ENOSPC, "the page's token: writing '%s'",
                         path);
}

// The first line without its end; the length, or a failure.
static int read_line(const char *path, char *out, size_t bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return sl_fail_errno(SL_EACCESS, errno, "the page's token: opening '%s'", path);
    int rc = SL_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        rc = sl_fail(SL_EACCESS, "the page's token: '%s' is not a file", path);
    else if (st.st_mode & (S_IWGRP | S_IWOTH))
        rc = sl_fail(SL_EACCESS,
                     "the page's token: others may write to '%s'; run 'chmod 600 %s' and put a "
                     "new token into it",
                     path, path);
    else if (st.st_mode & (S_IRGRP | S_IROTH))
        sl_log_warn("the page's token: others may read '%s'; 'chmod 600 %s' keeps it from them",
                    path, path);
    ssize_t n = rc == SL_OK ? read(fd, out, bytes - 1) : 0;
    if (n < 0)
        rc = sl_fail_errno(SL_EACCESS, errno, "the page's token: reading '%s'", path);
    close(fd);
    if (rc < 0)
        return rc;
    out[n] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return (int)strlen(out);
}

int sl_guard_read_token(const char *path, struct sl_guard_token *out)
{
    char line[SL_GUARD_TOKEN_MAX + 2];
    if (sodium_init() < 0)
        return sl_fail(SL_ESYS, "the page's token: libsodium does not start");
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        int rc = make_token(path);
        if (rc < 0 && rc != SL_EEXIST)
            return rc;
    }
    int n = read_line(path, line, sizeof line);
    SL_TRY(n);
    if (n < SL_GUARD_TOKEN_MIN || n > SL_GUARD_TOKEN_MAX)
        return sl_fail(SL_EACCESS,
                       "the page's token: the first line of '%s' has %s%d characters, wanted %d to "
                       "%d. Remove the file to have a token made",
                       path, n > SL_GUARD_TOKEN_MAX ? "more than " : "",
                       n > SL_GUARD_TOKEN_MAX ? SL_GUARD_TOKEN_MAX : n, SL_GUARD_TOKEN_MIN,
                       SL_GUARD_TOKEN_MAX);
    for (int i = 0; i < n; i++)
        if (!isgraph((unsigned char)line[i]))
            return sl_fail(SL_EACCESS,
                           "the page's token: character %d of '%s' is a blank, a control character "
                           "or not ASCII, which a header cannot carry",
                           i + 1, path);
    hash_of(line, (size_t)n, out->hash);
    sodium_memzero(line, sizeof line);
    return SL_OK;
}

bool sl_guard_token_fits(const struct sl_guard_token *token, const char *authorization)
{
    static const char bearer[] = "Bearer ";
    uint8_t hash[SL_GUARD_TOKEN_HASH];
    if (!authorization || strncasecmp(authorization, bearer, sizeof bearer - 1) != 0)
        return false;
    const char *given = authorization + sizeof bearer - 1;
    given += strspn(given, " ");
    hash_of(given, strlen(given), hash);
    return sodium_memcmp(hash, token->hash, sizeof hash) == 0;
}
