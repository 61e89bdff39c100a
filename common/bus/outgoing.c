/*
 * outgoing.c - libzmq tells when it is done with a message's bytes (zmq_msg_init_data), from its
 * own thread: the count of a peer is taken down there, and up by the thread that sends. Only the
 * latter gives places to peers, and only places whose count is zero, so a count belongs to one
 * peer until all of its messages have gone.
 *
 * Memory orders: whoever frees a message's bytes (let_go, acquire) has seen them written (the
 * sender's count, release), whatever libzmq does between.
 */
#include "common/bus/outgoing.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

struct lying {
    uint8_t peer[SL_OUTGOING_NAME_BYTES];
    size_t n_peer;
    _Atomic uint64_t bytes;
};

struct sl_outgoing {
    struct lying peers[SL_OUTGOING_PEERS];
};

// In front of a message's bytes.
struct head {
    struct lying *of;
    size_t bytes;
};

struct sl_outgoing *sl_outgoing_new(void)
{
    return calloc(1, sizeof(struct sl_outgoing));
}

void sl_outgoing_free(struct sl_outgoing *o)
{
    free(o);
}

static void let_go(void *data, void *hint)
{
    struct head *head = hint;
    (void)data;
    atomic_fetch_sub_explicit(&head->of->bytes, head->bytes, memory_order_acq_rel);
    free(head);
}

// The peer's place, or one that is free; NULL when there is none.
static struct lying *find(struct sl_outgoing *o, const uint8_t *peer, size_t n_peer)
{
    struct lying *idle = NULL;
    for (int i = 0; i < SL_OUTGOING_PEERS; i++) {
        struct lying *l = &o->peers[i];
        if (atomic_load_explicit(&l->bytes, memory_order_relaxed) == 0)
            idle = idle ? idle : l;
        else if (l->n_peer == n_peer && memcmp(l->peer, peer, n_peer) == 0)
            return l;
    }
    if (idle) {
        memcpy(idle->peer, peer, n_peer);
        idle->n_peer = n_peer;
    }
    return idle;
}

int sl_outgoing_message(struct sl_outgoing *o, const uint8_t *peer, size_t n_peer,
                        const Sl__Control__Envelope *body, size_t bytes, zmq_msg_t *out)
{
    if (n_peer == 0 || bytes < SL_OUTGOING_COUNTED_BYTES) {
        if (zmq_msg_init_size(out, bytes) != 0)
            return sl_fail(SL_ENOMEM, "control bus: no memory for a message of %zu bytes", bytes);
        sl__control__envelope__pack(body, zmq_msg_data(out));
        return SL_OK;
    }
    struct lying *l = find(o, peer, n_peer);
    if (!l ||
        atomic_load_explicit(&l->bytes, memory_order_relaxed) + bytes > SL_OUTGOING_PEER_BYTES)
        return SL_EAGAIN;
    struct head *head = malloc(sizeof *head + bytes);
    if (!head)
        return sl_fail(SL_ENOMEM, "control bus: no memory for a message of %zu bytes", bytes);
    *head = (struct head){.of = l, .bytes = bytes};
    if (zmq_msg_init_data(out, head + 1, bytes, let_go, head) != 0) {
        free(head);
        return sl_fail(SL_ENOMEM, "control bus: no memory for a message");
    }
    sl__control__envelope__pack(body, (uint8_t *)(head + 1));
    atomic_fetch_add_explicit(&l->bytes, bytes, memory_order_release);
    return SL_OK;
}
