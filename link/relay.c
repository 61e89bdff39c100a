#include "link/relay.h"

#include <stdlib.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "link/node_link.h"

// A message on its way to another node, or from this one to itself.
struct out {
    struct out *next;
    uint32_t to;
    struct sl_world_request request;
    size_t n;
    uint8_t bytes[];
};

struct sl_link_relay {
    struct out *out; // owned: those under way
    struct out *own; // owned: to this node, in order
    // The one that is being received; bytes NULL: none.
    uint8_t *bytes;
    size_t n;
    uint32_t from;
    struct sl_world_request request;
};

int sl_link_relay_init(struct sl_node_link *l)
{
    l->relay = calloc(1, sizeof *l->relay);
    return l->relay ? SL_OK : sl_fail(SL_ENOMEM, "%s: no memory", l->world.doing);
}

static void free_list(struct out *o)
{
    for (struct out *next; o; o = next) {
        next = o->next;
        free(o);
    }
}

void sl_link_relay_fini(struct sl_node_link *l)
{
    struct sl_link_relay *r = l->relay;
    if (!r)
        return;
    free_list(r->out);
    free_list(r->own);
    free(r->bytes);
    free(r);
    l->relay = NULL;
}

// --- what goes -----------------------------------------------------------------------------------

int sl_link_relay_send(struct sl_node_link *l, const Sl__Control__Envelope *m)
{
    struct sl_link_relay *r = l->relay;
    const uint32_t to = l->world.rank == 0 ? m->node : 0;
    const size_t n = sl__control__envelope__get_packed_size(m);
    if (to >= l->world.size)
        return sl_fail(SL_EPROTO, "a message is for node %u of %u", to, l->world.size);
    struct out *o = calloc(1, sizeof *o + n), **end = &r->own;
    if (!o)
        return sl_fail(SL_ENOMEM, "a message of %zu bytes to %s: no memory", n,
                       sl_world_name(&l->world, to).text);
    *o = (struct out){.to = to, .n = n};
    sl__control__envelope__pack(m, o->bytes);
    if (to == l->world.rank) {
        while (*end)
            end = &(*end)->next;
        *end = o;
        return SL_OK;
    }
    int rc = l->world.table->send(to, SL_WORLD_TAG_RELAY, o->bytes, n, &o->request);
    if (rc < 0) {
        free(o);
        return sl_fail_prefix(rc, "%s: %s", l->world.doing, sl_world_name(&l->world, to).text);
    }
    o->next = r->out;
    r->out = o;
    return SL_OK;
}

static int test_sent(struct sl_node_link *l)
{
    for (struct out **at = &l->relay->out; *at;) {
        struct out *o = *at;
        int rc = l->world.table->test(&o->request);
        if (rc == SL_EAGAIN) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        free(o);
        SL_TRY(rc);
    }
    return SL_OK;
}

// --- what comes ----------------------------------------------------------------------------------

static int begin_receive(struct sl_node_link *l)
{
    struct sl_link_relay *r = l->relay;
    int rc = l->world.table->probe(SL_WORLD_TAG_RELAY, &r->from, &r->n);
    if (rc != SL_OK)
        return rc;
    if (r->n == 0 || r->n > SL_BUS_REQUEST_MAX)
        return sl_fail(SL_EPROTO, "%s: %s sends a message of %zu bytes: wanted 1 to %u",
                       l->world.doing, sl_world_name(&l->world, r->from).text, r->n,
                       SL_BUS_REQUEST_MAX);
    r->bytes = malloc(r->n);
    if (!r->bytes)
        return sl_fail(SL_ENOMEM, "%s: no memory for a message of %zu bytes", l->world.doing, r->n);
    rc = l->world.table->receive(r->from, SL_WORLD_TAG_RELAY, r->bytes, r->n, &r->request);
    if (rc < 0) {
        free(r->bytes);
        r->bytes = NULL;
    }
    return rc;
}

static int unpack(const struct sl_node_link *l, uint32_t from, const uint8_t *bytes, size_t n,
                  Sl__Control__Envelope **out)
{
    if (sl_envelope_read(bytes, n, out) != SL_REFUSAL_NONE) {
        sl_bus_message_free(*out);
        return sl_fail(SL_EPROTO, "%s: %s sends %zu bytes that are no message", l->world.doing,
                       sl_world_name(&l->world, from).text, n);
    }
    (*out)->node = from;
    if ((*out)->body_case == SL__CONTROL__ENVELOPE__BODY_TRACE && (*out)->trace->from_ns)
        (*out)->trace->from_ns -= (uint64_t)l->clock_ahead_ns[from];
    return SL_OK;
}

int sl_link_relay_next(struct sl_node_link *l, Sl__Control__Envelope **out)
{
    struct sl_link_relay *r = l->relay;
    struct out *own = r->own;
    if (own) {
        r->own = own->next;
        int rc = unpack(l, l->world.rank, own->bytes, own->n, out);
        free(own);
        return rc;
    }
    int rc = r->bytes ? SL_OK : begin_receive(l);
    if (rc == SL_OK)
        rc = l->world.table->test(&r->request);
    if (rc == SL_EAGAIN)
        return rc;
    if (rc == SL_OK)
        rc = unpack(l, r->from, r->bytes, r->n, out);
    free(r->bytes);
    r->bytes = NULL;
    return rc;
}

int sl_link_relay_poll(struct sl_node_link *l, bool *moved)
{
    Sl__Control__Envelope *m;
    int rc;
    while ((m = sl_worker_take_message(&l->worker)) != NULL) {
        *moved = true;
        rc = sl_link_relay_send(l, m);
        sl_bus_message_free(m);
        SL_TRY(rc);
    }
    SL_TRY(test_sent(l));
    while ((rc = sl_link_relay_next(l, &m)) == SL_OK) {
        *moved = true;
        // A broker that is stopped: who asks it knows how long to wait.
        if (sl_worker_send(&l->worker, m) < 0)
            sl_log_warn("%s", sl_error_message());
        sl_bus_message_free(m);
    }
    return rc == SL_EAGAIN ? SL_OK : rc;
}

int sl_link_relay_quiet(struct sl_node_link *l, bool *quiet)
{
    bool moved;
    SL_TRY(sl_link_relay_poll(l, &moved));
    *quiet = !l->relay->out && !l->relay->bytes;
    return SL_OK;
}
