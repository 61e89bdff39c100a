#include "common/bus/zap_auth.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "common/base/error.h"
#include "common/base/threads.h"
#include "common/bus/curve_keys.h"

#define ZAP_ENDPOINT "inproc://zeromq.zap.01"
#define ZAP_DOMAIN   "sluice"

enum {
    KEY_BYTES = 32,
    FIELD_BYTES = 256, // of a request's frame; a longer one is cut and then matches nothing
    // Frames of a request: version, id, domain, address, routing id, mechanism, key.
    N_FIELDS = 7,
    // A peer over TCP may vanish without a word, or come and say nothing.
    HANDSHAKE_MS = 5000,
    HEARTBEAT_MS = 5000,
    SILENCE_MS = 20000,
};

struct sl_zap_auth {
    void *socket;
    pthread_t thread;
    bool running;
    uint32_t n;
    uint8_t keys[SL_CURVE_CLIENTS_MAX][KEY_BYTES];
};

struct field {
    uint8_t bytes[FIELD_BYTES];
    size_t n;
};

static bool is_text(const struct field *f, const char *text)
{
    return f->n == strlen(text) && memcmp(f->bytes, text, f->n) == 0;
}

static bool knows(const struct sl_zap_auth *gate, const struct field *key)
{
    for (uint32_t i = 0; i < gate->n && key->n == KEY_BYTES; i++)
        if (memcmp(gate->keys[i], key->bytes, KEY_BYTES) == 0)
            return true;
    return false;
}

// One request; false once the context ends.
static bool take_request(struct sl_zap_auth *gate, struct field fields[N_FIELDS], int *n_fields)
{
    int more = 1;
    for (*n_fields = 0; more;) {
        struct field spare;
        struct field *f = *n_fields < N_FIELDS ? &fields[*n_fields] : &spare;
        int n = zmq_recv(gate->socket, f->bytes, sizeof f->bytes, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        f->n = (size_t)n; // larger than the buffer when it was cut
        (*n_fields)++;
        size_t size = sizeof more;
        zmq_getsockopt(gate->socket, ZMQ_RCVMORE, &more, &size);
    }
    return true;
}

static void answer(struct sl_zap_auth *gate, const struct field *id, bool welcome)
{
    const char *status = welcome ? "200" : "400";
    const char *text = welcome ? "OK" : "this key is not in the list";
    zmq_send(gate->socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(gate->socket, id->bytes, id->n <= sizeof id->bytes ? id->n : 0, ZMQ_SNDMORE);
    zmq_send(gate->socket, status, 3, ZMQ_SNDMORE);
    zmq_send(gate->socket, text, strlen(text), ZMQ_SNDMORE);
    zmq_send(gate->socket, "", 0, ZMQ_SNDMORE); // user id
    zmq_send(gate->socket, "", 0, 0);           // metadata
}

static void *serve(void *arg)
{
    struct sl_zap_auth *gate = arg;
    struct field fields[N_FIELDS];
    int n;
    while (take_request(gate, fields, &n)) {
        bool welcome = n == N_FIELDS && is_text(&fields[0], "1.0") &&
                       is_text(&fields[2], ZAP_DOMAIN) && is_text(&fields[5], "CURVE") &&
                       knows(gate, &fields[6]);
        if (n < 2)
            fields[1].n = 0;
        answer(gate, &fields[1], welcome);
    }
    int linger = 0;
    zmq_setsockopt(gate->socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(gate->socket);
    return NULL;
}

static int start_thread(struct sl_zap_auth *gate)
{
    int err = sl_thread_start(&gate->thread, serve, gate);
    if (err)
        return sl_fail_errno(SL_ESYS, err,
                             "TCP: starting the thread that checks the clients' keys");
    gate->running = true;
    return SL_OK;
}

int sl_zap_auth_open(void *zmq_context, const struct sl_curve *keys, struct sl_zap_auth **out)
{
    int rc;
    *out = NULL;
    if (keys->daemon_key[0])
        return sl_fail(SL_EINVAL, "TCP: these are a client's keys; wanted the daemon's, of the "
                                  "file daemon.key that 'sluice keygen' writes");
    if (keys->n_clients == 0)
        return sl_fail(SL_EINVAL, "TCP: the daemon's keys name no client, so nobody could connect: "
                                  "make one with 'sluice keygen'");
    struct sl_zap_auth *gate = calloc(1, sizeof *gate);
    if (!gate)
        return sl_fail(SL_ENOMEM, "TCP: no memory for the clients' keys");
    for (uint32_t i = 0; i < keys->n_clients; i++)
        if (!zmq_z85_decode(gate->keys[gate->n++], keys->client[i])) {
            rc = sl_fail(SL_EFORMAT, "TCP: '%s' is no key", keys->client[i]);
            goto out;
        }
    gate->socket = zmq_socket(zmq_context, ZMQ_REP);
    if (!gate->socket || zmq_bind(gate->socket, ZAP_ENDPOINT) != 0) {
        rc = sl_fail_errno(SL_ESYS, errno, "TCP: opening the socket for checks of keys");
        goto out;
    }
    SL_TRY_OUT(start_thread(gate));
    *out = gate;
    return SL_OK;
out:
    if (gate->socket)
        zmq_close(gate->socket);
    free(gate);
    return rc;
}

void sl_zap_auth_close(struct sl_zap_auth *gate)
{
    if (!gate)
        return;
    if (gate->running)
        pthread_join(gate->thread, NULL);
    free(gate);
}

// --- sockets -------------------------------------------------------------------------------------

static int set(void *socket, int option, const void *value, size_t bytes)
{
    if (zmq_setsockopt(socket, option, value, bytes) == 0)
        return SL_OK;
    return sl_fail_errno(SL_ESYS, errno, "TCP: setting ZeroMQ option %d", option);
}

static int arm(void *socket, const struct sl_curve *keys)
{
    if (!zmq_has("curve"))
        return sl_fail(SL_EUNSUPPORTED, "TCP: this ZeroMQ was built without CURVE, and nothing is "
                                        "sent unencrypted: install one with libsodium");
    SL_TRY(set(socket, ZMQ_CURVE_SECRETKEY, keys->secret_key, SL_CURVE_KEY_TEXT));
    return set(socket, ZMQ_CURVE_PUBLICKEY, keys->public_key, SL_CURVE_KEY_TEXT);
}

int sl_zap_auth_bound_silence(void *zmq_socket)
{
    static const int timing[][2] = {{ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS},
                                    {ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS},
                                    {ZMQ_HEARTBEAT_TIMEOUT, SILENCE_MS}};
    for (size_t i = 0; i < sizeof timing / sizeof timing[0]; i++)
        SL_TRY(set(zmq_socket, timing[i][0], &timing[i][1], sizeof(int)));
    return SL_OK;
}

int sl_zap_auth_arm_server(void *zmq_socket, const struct sl_curve *keys)
{
    int yes = 1;
    SL_TRY(arm(zmq_socket, keys));
    SL_TRY(set(zmq_socket, ZMQ_CURVE_SERVER, &yes, sizeof yes));
    SL_TRY(set(zmq_socket, ZMQ_ZAP_DOMAIN, ZAP_DOMAIN, strlen(ZAP_DOMAIN)));
#ifdef ZMQ_ZAP_ENFORCE_DOMAIN
    // Should there ever be no gate: nobody gets in, instead of everybody.
    SL_TRY(set(zmq_socket, ZMQ_ZAP_ENFORCE_DOMAIN, &yes, sizeof yes));
#endif
    return SL_OK;
}

int sl_zap_auth_arm_client(void *zmq_socket, const struct sl_curve *keys)
{
    if (!keys->daemon_key[0])
        return sl_fail(SL_EINVAL,
                       "TCP: these are the daemon's keys; wanted a client's, of the file "
                       "client.key that 'sluice keygen' writes");
    SL_TRY(arm(zmq_socket, keys));
    return set(zmq_socket, ZMQ_CURVE_SERVERKEY, keys->daemon_key, SL_CURVE_KEY_TEXT);
}
