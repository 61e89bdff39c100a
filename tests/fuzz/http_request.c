/*
 * What a request brings, apart from HTTP itself: five lines and a body.
 *
 *     what the server is told to listen on / Host / Origin / Authorization / path
 *
 * Nobody is let in but with one of this machine's own names and with the token.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <sodium.h>

#include "broker/http/http_internal.h"
#include "common/text/text.h"
#include "common/base/error.h"
#include "tests/fuzz/fuzz.h"

static const char secret[] = "open-sesame";

// Said another way than in the product: the name, and behind it nothing or a port.
static bool names_this_machine(const char *host)
{
    unsigned port;
    char more;
    size_t n = strcspn(host, "]") + (*host == '[');
    n = *host == '[' ? n : strcspn(host, ":");
    bool ours = (n == 9 && strncasecmp(host, "127.0.0.1", n) == 0) ||
                (n == 9 && strncasecmp(host, "localhost", n) == 0) ||
                (n == 5 && strncasecmp(host, "[::1]", n) == 0);
    return ours && (!host[n] || (host[n] == ':' && strspn(host + n + 1, "0123456789") > 0 &&
                                 sscanf(host + n + 1, "%u%c", &port, &more) == 1 && port <= 65535));
}

static void check_guard(const char *host, const char *origin, const char *authorization)
{
    struct sl_guard_token token;
    crypto_generichash(token.hash, sizeof token.hash, (const unsigned char *)secret,
                       sizeof secret - 1, NULL, 0);
    if (sl_guard_token_fits(&token, authorization)) {
        size_t n = strlen(authorization);
        FUZZ_WANT(n >= sizeof secret - 1 &&
                  strcmp(authorization + n - (sizeof secret - 1), secret) == 0);
    }
    FUZZ_WANT(!sl_guard_host_is_ours(host) || names_this_machine(host));
    if (sl_guard_origin_is_ours(origin, host))
        FUZZ_WANT(strcasecmp(origin + 7, host) == 0);
}

static void check_path(const char *path)
{
    static struct sl_http_request r;
    memset(&r, 0, sizeof r);
    sl_http_route(path, &r);
    bool of_job = r.target == SL_TARGET_JOB || r.target == SL_TARGET_STATS ||
                  r.target == SL_TARGET_HISTORY || r.target == SL_TARGET_ACTION;
    FUZZ_WANT(!of_job || (*r.job && !strchr(r.job, '/') && strstr(path, r.job)));
}

static void check_body(const char *body)
{
    static const enum sl_control_call_kind kinds[] = {SL_CONTROL_CALL_SCALE, SL_CONTROL_CALL_PAUSE,
                                                      SL_CONTROL_CALL_STOP};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct sl_control_call q = {.kind = kinds[i]};
        struct sl_text text = {0};
        char why[256];
        bool taken = sl_control_call_read_body(body, strlen(body), &q, why, sizeof why);
        FUZZ_WANT(taken == !*why);
        FUZZ_WANT(!taken || kinds[i] != SL_CONTROL_CALL_SCALE || q.has_samplers || q.has_trainers ||
                  q.undo);
        FUZZ_WANT(q.samplers <= 65535 && q.trainers <= 65535);
        sl_text_json_string(&text, why);
        sl_text_fini(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sl_guard_address address;
    char *text = fuzz_text(data, n), *rest = text;
    const char *listen = fuzz_line(&rest), *host = fuzz_line(&rest), *origin = fuzz_line(&rest);
    const char *authorization = fuzz_line(&rest), *path = fuzz_line(&rest);
    if (sl_guard_parse_listen(listen, &address) == SL_OK)
        FUZZ_WANT(address.host && address.n > 0);
    check_guard(host, origin, authorization);
    check_path(path);
    check_body(rest);
    free(text);
    return 0;
}
