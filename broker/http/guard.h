/*
 * guard.h - which requests are allowed: by address, Host, Origin and token (the user of a
 * connection: peer.h).
 *
 * The server listens on loopback alone, but a browser that shows somebody else's page can reach
 * loopback too. Three things keep such a page out:
 *
 *   Host     must name this machine. A name that an attacker has made to resolve to 127.0.0.1 (DNS
 *            rebinding) is another one. Any port will do: with `ssh -L` it is the tunnel's.
 *   Origin   where there is one, must be http:// and the very Host: another page's script, also one
 *            of another port of this machine, says where it comes from.
 *   token    what changes a job needs `Authorization: Bearer TOKEN`, which no form can send. Other
 *            users of this machine need it for reading, too.
 */
#ifndef SL_BROKER_HTTP_GUARD_H
#define SL_BROKER_HTTP_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include <netinet/in.h>
#include <sys/socket.h>

enum {
    SL_GUARD_TOKEN_MIN = 8,
    SL_GUARD_TOKEN_MAX = 512,
    SL_GUARD_TOKEN_HASH = 32, // bytes
};

struct sl_guard_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    socklen_t n;
    const char *host; // for the URL: "127.0.0.1", "[::1]"
};

// "8080", "0", "127.0.0.1:8080", "localhost:8080", "[::1]:8080". SL_EINVAL for anything else, with
// the way to reach the page from another machine.
int sl_guard_parse_listen(const char *text, struct sl_guard_address *out);

// host, origin: the headers; NULL when there is none.
bool sl_guard_host_is_ours(const char *host);
bool sl_guard_origin_is_ours(const char *origin, const char *host);

struct sl_guard_token {
    uint8_t hash[SL_GUARD_TOKEN_HASH];
};

// Reads the token from the file's first line; a file that is not there is made, with a fresh token
// in it that only its owner can read. SL_EACCES.
int sl_guard_read_token(const char *path, struct sl_guard_token *out);
// authorization: the header, or NULL. Takes as long whatever is wrong with it.
bool sl_guard_token_fits(const struct sl_guard_token *token, const char *authorization);

#endif
