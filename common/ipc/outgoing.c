/*
 * outgoing.c - libzmq tells when it is done with a message's bytes (zmq_msg_init_data), from its
 * own thread: the count of a peer is taken down there, and up by the thread that sends. Only the
 * latter gives places to peers, and only places whose count is zero, so a count belongs to one
 * peer until all of its messages have gone.
 */
#include "common/ipc/outgoing.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/base/error.h"

struct lying {
    struct sl_bus_peer peer;
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
    atomic_fetch_sub_explicit(&head->of->bytes, head->bytes, memory_order_relaxed);
    free(head);
}

// The peer's place, or one that is free; NULL when there is none.
static struct lying *find(struct sl_outgoing *o, const struct sl_bus_peer *to)
{
    struct lying *idle = NULL;
    for (int i = 0; i < SL_OUTGOING_PEERS; i++) {
        struct lying *l = &o->peers[i];
        if (atomic_load_explicit(&l->bytes, memory_order_relaxed) == 0)
            idle = idle ? idle : l;
        else if (sl_bus_same_peer(&l->peer, to))
            return l;
    }
    if (idle)
        idle->peer = *to;
    return idle;
}

int sl_outgoing_message(struct sl_outgoing *o, const struct sl_bus_peer *to, size_t bytes,
                        zmq_msg_t *out)
{
    if (!to || bytes < SL_OUTGOING_COUNTED_BYTES)
        return zmq_msg_init_size(out, bytes) == 0
                   ? SL_OK
                   : sl_fail(SL_ENOMEM, "control bus: no memory for a message of %zu bytes", bytes);
    struct lying *l = find(o, to);
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
    atomic_fetch_add_explicit(&l->bytes, bytes, memory_order_relaxed);
    return SL_OK;
}
