#include "link/rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena/asks.h"
#include "common/arena/arena.h"
#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/data/features_kind.h"
#include "link/node_link.h"

// What one ask has to do with one node.
struct route {
    bool sending, receiving;
    uint32_t n, row_bytes; // rows, and of each
    uint64_t asked_ns;
    struct sl_world_request send, receive;
};

// An ask that is under way, or was.
struct going {
    bool busy;
    char *messages; // one behind the other
};

// Asks whose rows a node has yet to send, the oldest first: a ring of slots.
struct queue {
    uint32_t first, n;
    uint32_t *slot; // (n_slots)
};

enum step { FREE, READING, COPYING, SENDING };

struct answer {
    enum step step;
    uint32_t to;
    size_t message_bytes;
    struct sl_link_ask *message;   // room for the largest one
    uint32_t at;                   // rows that are copied
    struct sl_feature_table table; // of its vertices
    char *rows;                    // (max_rows, row_bytes)
    struct sl_world_request request;
};

struct sl_link_rows {
    struct sl_node_link *link;
    struct sl_asks asks;
    uint64_t calls; // that have been looked at
    bool reads_ahead;
    struct going *going;  // (n_slots)
    struct route *routes; // (n_slots, n_nodes)
    struct queue *queues; // (n_nodes)
    struct answer answer[SL_LINK_ANSWERS];
    struct answer *current; // is read or copied; NULL: none
};

static const struct sl_world_table *table_of(const struct sl_link_rows *r)
{
    return r->link->world.table;
}

// What is counted of a node (node_figures.h).
static struct sl_node_peer *peer_of(const struct sl_link_rows *r, uint32_t node)
{
    return &r->link->counted.peer[node];
}

static int fail_at(const struct sl_link_rows *r, int rc, uint32_t node)
{
    return sl_fail_prefix(rc, "rows of features: %s", sl_world_name(&r->link->world, node).text);
}

static struct route *route_of(const struct sl_link_rows *r, uint32_t slot, uint32_t node)
{
    return &r->routes[(uint64_t)slot * r->asks.shape.n_nodes + node];
}

static size_t message_bytes(uint32_t n)
{
    return sizeof(struct sl_link_ask) + n * sizeof(uint32_t);
}

// --- asking --------------------------------------------------------------------------------------

// Receives are posted first, so that no node waits for this one.
static int ask_node(struct sl_link_rows *r, uint32_t slot, const struct sl_ask *ask, uint32_t node,
                    struct sl_link_ask *message)
{
    const uint32_t first = node ? ask->head->end[node - 1] : 0, n = ask->head->end[node] - first;
    const size_t row_bytes = ask->head->row_bytes;
    struct route *route = route_of(r, slot, node);
    struct queue *q = &r->queues[node];
    *message = (struct sl_link_ask){.magic = SL_LINK_ASK_MAGIC,
                                    .shards = r->link->dataset.shard.digest,
                                    .n = n,
                                    .row_bytes = (uint32_t)row_bytes};
    memcpy(message + 1, ask->vertices + first, n * sizeof *ask->vertices);
    *route = (struct route){.n = n, .row_bytes = (uint32_t)row_bytes, .asked_ns = sl_now_ns()};
    int rc = table_of(r)->receive(node, SL_WORLD_TAG_ROWS, ask->rows + first * row_bytes,
                                  n * row_bytes, &route->receive);
    if (rc < 0)
        return fail_at(r, rc, node);
    route->receiving = true;
    q->slot[(q->first + q->n++) % r->asks.shape.n_slots] = slot;
    rc = table_of(r)->send(node, SL_WORLD_TAG_ASK, message, message_bytes(n), &route->send);
    if (rc < 0)
        return fail_at(r, rc, node);
    route->sending = true;
    peer_of(r, node)->out_bytes += message_bytes(n);
    return SL_OK;
}

// Whether a worker has written what may be sent.
static int check_ask(const struct sl_link_rows *r, const struct sl_ask *ask)
{
    const struct sl_asks_shape *s = &r->asks.shape;
    uint32_t end = 0;
    bool good = ask->head->row_bytes - 1 < s->row_bytes && ask->head->n <= s->max_rows &&
                ask->head->end[s->n_nodes - 1] == ask->head->n;
    for (uint32_t node = 0; node < s->n_nodes; node++) {
        good &= ask->head->end[node] >= end &&
                (node != r->link->world.rank || ask->head->end[node] == end);
        end = ask->head->end[node];
    }
    return good ? SL_OK
                : sl_fail(SL_EPROTO, "rows of features: a worker's ask for %u rows is damaged",
                          ask->head->n);
}

static int begin(struct sl_link_rows *r, uint32_t slot, const struct sl_ask *ask)
{
    const uint32_t n_nodes = r->asks.shape.n_nodes;
    struct going *going = &r->going[slot];
    SL_TRY(check_ask(r, ask));
    // Each message begins where its header may lie.
    const size_t each = sl_align_up(sizeof(struct sl_link_ask), 8);
    if (!going->messages)
        going->messages = malloc(n_nodes * (each + 8) + r->asks.shape.max_rows * sizeof(uint32_t));
    if (!going->messages)
        return sl_fail(SL_ENOMEM, "rows of features: no memory to ask for them");
    going->busy = true;
    char *at = going->messages;
    for (uint32_t node = 0; node < n_nodes; node++) {
        const uint32_t n = ask->head->end[node] - (node ? ask->head->end[node - 1] : 0);
        if (n == 0)
            continue;
        SL_TRY(ask_node(r, slot, ask, node, (struct sl_link_ask *)(void *)at));
        at += sl_align_up(message_bytes(n), 8);
    }
    SL_FAILPOINT(LINK_ASKED);
    return SL_OK;
}

// What workers have asked for since.
static int look_for_asks(struct sl_link_rows *r, bool *moved)
{
    const uint64_t calls = atomic_load(r->asks.calls);
    if (calls == r->calls)
        return SL_OK;
    r->calls = calls;
    for (uint32_t slot = 0; slot < r->asks.shape.n_slots; slot++) {
        const struct sl_ask ask = sl_asks_at(&r->asks, slot);
        const enum sl_ask_state state = sl_ask_state(&ask);
        if (r->going[slot].busy)
            continue;
        if (state == SL_ASK_ORPHAN)
            sl_asks_free(&ask);
        if (state != SL_ASK_ASKED)
            continue;
        SL_TRY(begin(r, slot, &ask));
        *moved = true;
    }
    return SL_OK;
}

// Ends the ask once nothing of it is under way.
static int look_at_slot(struct sl_link_rows *r, uint32_t slot)
{
    for (uint32_t node = 0; node < r->asks.shape.n_nodes; node++) {
        struct route *route = route_of(r, slot, node);
        if (route->sending) {
            int rc = table_of(r)->test(&route->send);
            if (rc == SL_EAGAIN)
                return SL_OK;
            if (rc < 0)
                return fail_at(r, rc, node);
            route->sending = false;
        }
        if (route->receiving)
            return SL_OK;
    }
    const struct sl_ask ask = sl_asks_at(&r->asks, slot);
    r->going[slot].busy = false;
    sl_asks_answer(&ask);
    return SL_OK;
}

static void count(struct sl_link_rows *r, uint32_t node, const struct route *route)
{
    struct sl_node_peer *peer = peer_of(r, node);
    const uint64_t bytes = (uint64_t)route->n * route->row_bytes;
    peer->in_bytes += bytes;
    peer->rows += route->n;
    peer->row_bytes += bytes;
    peer->asks++;
    peer->ask_ns += sl_now_ns() - route->asked_ns;
}

// The oldest rows that are to come of each node. Later ones cannot be there yet.
static int take_rows(struct sl_link_rows *r, bool *moved)
{
    for (uint32_t node = 0; node < r->asks.shape.n_nodes; node++) {
        struct queue *q = &r->queues[node];
        while (q->n > 0) {
            struct route *route = route_of(r, q->slot[q->first], node);
            int rc = table_of(r)->test(&route->receive);
            if (rc == SL_EAGAIN &&
                sl_now_ns() - route->asked_ns > SL_WORLD_ANSWER_S * SL_WORLD_SECOND)
                rc = sl_fail(SL_ETIMEDOUT, "%u rows that it was asked for did not come for %d s",
                             route->n, SL_WORLD_ANSWER_S);
            if (rc == SL_EAGAIN)
                break;
            if (rc < 0)
                return fail_at(r, rc, node);
            route->receiving = false;
            count(r, node, route);
            q->first = (q->first + 1) % r->asks.shape.n_slots;
            q->n--;
            *moved = true;
        }
    }
    for (uint32_t slot = 0; slot < r->asks.shape.n_slots; slot++)
        if (r->going[slot].busy)
            SL_TRY(look_at_slot(r, slot));
    return SL_OK;
}

// --- answering -----------------------------------------------------------------------------------

static struct answer *free_answer(struct sl_link_rows *r)
{
    for (int i = 0; i < SL_LINK_ANSWERS; i++)
        if (r->answer[i].step == FREE)
            return &r->answer[i];
    return NULL;
}

// Takes the next ask off the wire.
static int read_ask(struct sl_link_rows *r, bool *moved)
{
    struct answer *a = free_answer(r);
    uint32_t from;
    size_t n;
    if (!a)
        return SL_OK;
    int rc = table_of(r)->probe(SL_WORLD_TAG_ASK, &from, &n);
    if (rc < 0)
        return rc == SL_EAGAIN ? SL_OK : rc;
    const struct sl_asks_shape *s = &r->asks.shape;
    if (n < sizeof *a->message || n > message_bytes(s->max_rows))
        return sl_fail(SL_EPROTO, "rows of features: %s asks with %zu bytes, wanted %zu to %zu",
                       sl_world_name(&r->link->world, from).text, n, sizeof *a->message,
                       message_bytes(s->max_rows));
    if (!a->message)
        a->message = malloc(message_bytes(s->max_rows));
    if (!a->rows)
        a->rows = malloc((size_t)s->max_rows * s->row_bytes);
    if (!a->message || !a->rows)
        return sl_fail(SL_ENOMEM, "rows of features: no memory to answer with");
    a->to = from;
    a->message_bytes = n;
    rc = table_of(r)->receive(from, SL_WORLD_TAG_ASK, a->message, n, &a->request);
    if (rc < 0)
        return fail_at(r, rc, from);
    a->step = READING;
    r->current = a;
    *moved = true;
    return SL_OK;
}

static const uint32_t *vertices_of(const struct answer *a)
{
    return (const uint32_t *)(const void *)(a->message + 1);
}

// Whether all of it is this node's to give.
static int check_message(const struct sl_link_rows *r, struct answer *a)
{
    const struct sl_dataset *ds = &r->link->dataset;
    const struct sl_link_ask *m = a->message;
    const struct sl_world_name from = sl_world_name(&r->link->world, a->to);
    if (m->magic != SL_LINK_ASK_MAGIC || message_bytes(m->n) != a->message_bytes)
        return sl_fail(SL_EPROTO, "rows of features: %s sends %zu bytes that are no ask", from.text,
                       a->message_bytes);
    a->table = sl_dataset_table_of(ds, m->n ? vertices_of(a)[0] : 0);
    if (m->shards != ds->shard.digest || m->row_bytes != a->table.row_bytes ||
        m->row_bytes - 1 >= r->asks.shape.row_bytes)
        return sl_fail(SL_EPROTO,
                       "rows of features: %s asks for rows of %u bytes of shards %016" PRIx64
                       ", this node has rows of %u bytes of shards %016" PRIx64,
                       from.text, m->row_bytes, m->shards, (unsigned)a->table.row_bytes,
                       ds->shard.digest);
    for (uint32_t i = 0; i < m->n; i++) {
        const uint32_t v = vertices_of(a)[i];
        if (v - a->table.first >= a->table.n) // of one before the first: a very large number
            return sl_fail(SL_EPROTO,
                           "rows of features: %s asks for vertex %u, wanted one from %" PRIu64
                           " to before %" PRIu64,
                           from.text, v, a->table.first, a->table.first + a->table.n);
        const uint32_t part = sl_shard_place(&ds->shard, v).part;
        if (part != ds->shard.index)
            return sl_fail(SL_EPROTO,
                           "rows of features: %s asks this node, which has part %u, for vertex %u, "
                           "which is in part %u",
                           from.text, ds->shard.index, v, part);
    }
    return SL_OK;
}

static const char *row_of(const struct sl_link_rows *r, const struct answer *a, uint32_t i)
{
    const struct sl_shard *shard = &r->link->dataset.shard;
    return (const char *)a->table.rows +
           sl_shard_place(shard, vertices_of(a)[i]).row * a->table.row_bytes;
}

// Rows that may be on a drive are asked for all at once, before the first is touched.
static void read_ahead(const struct sl_link_rows *r, const struct answer *a)
{
    for (uint32_t i = 0; r->reads_ahead && i < a->message->n; i++)
        sl_advise(row_of(r, a, i), a->table.row_bytes, MADV_WILLNEED);
}

// A piece; the answer leaves with the last one.
static int copy_rows(struct sl_link_rows *r, struct answer *a)
{
    const size_t row_bytes = a->table.row_bytes;
    const uint32_t piece = (uint32_t)SL_MAX(SL_LINK_PIECE_BYTES / row_bytes, (size_t)1);
    const uint32_t end = SL_MIN(a->message->n, a->at + piece);
    for (; a->at < end; a->at++)
        memcpy(a->rows + a->at * row_bytes, row_of(r, a, a->at), row_bytes);
    if (a->at < a->message->n)
        return SL_OK;
    SL_FAILPOINT(LINK_ANSWERING);
    r->current = NULL;
    int rc = table_of(r)->send(a->to, SL_WORLD_TAG_ROWS, a->rows, a->message->n * row_bytes,
                               &a->request);
    if (rc < 0)
        return fail_at(r, rc, a->to);
    a->step = SENDING;
    peer_of(r, a->to)->out_bytes += a->message->n * row_bytes;
    return SL_OK;
}

static int go_on_with(struct sl_link_rows *r, struct answer *a, bool *moved)
{
    if (a->step == READING) {
        int rc = table_of(r)->test(&a->request);
        if (rc == SL_EAGAIN)
            return SL_OK;
        if (rc < 0)
            return fail_at(r, rc, a->to);
        SL_TRY(check_message(r, a));
        peer_of(r, a->to)->in_bytes += a->message_bytes;
        read_ahead(r, a);
        a->at = 0;
        a->step = COPYING;
    }
    *moved = true;
    return copy_rows(r, a);
}

// Answers that have left.
static int free_answers(struct sl_link_rows *r, bool *all)
{
    *all = true;
    for (int i = 0; i < SL_LINK_ANSWERS; i++) {
        struct answer *a = &r->answer[i];
        if (a->step == SENDING) {
            int rc = table_of(r)->test(&a->request);
            if (rc < 0 && rc != SL_EAGAIN)
                return fail_at(r, rc, a->to);
            if (rc == SL_OK)
                a->step = FREE;
        }
        *all &= a->step == FREE;
    }
    return SL_OK;
}

static int answer(struct sl_link_rows *r, bool *moved)
{
    bool all;
    SL_TRY(free_answers(r, &all));
    if (!r->current)
        SL_TRY(read_ask(r, moved));
    return r->current ? go_on_with(r, r->current, moved) : SL_OK;
}

// --- the part ------------------------------------------------------------------------------------

static int make(struct sl_link_rows *r)
{
    const struct sl_asks_shape *s = &r->asks.shape;
    r->going = calloc(s->n_slots, sizeof *r->going);
    r->routes = calloc((size_t)s->n_slots * s->n_nodes, sizeof *r->routes);
    r->queues = calloc(s->n_nodes, sizeof *r->queues);
    bool good = r->going && r->routes && r->queues;
    for (uint32_t i = 0; good && i < s->n_nodes; i++)
        good = (r->queues[i].slot = calloc(s->n_slots, sizeof(uint32_t))) != NULL;
    return good ? SL_OK : sl_fail(SL_ENOMEM, "rows of features: no memory for %u asks", s->n_slots);
}

int sl_link_rows_init(struct sl_node_link *link)
{
    const struct sl_asks asks = sl_asks_of(&link->worker.arena);
    const struct sl_dataset *ds = &link->dataset;
    if (asks.shape.n_slots == 0)
        return SL_OK;
    if (asks.shape.n_nodes != link->world.size || ds->shard.count != link->world.size ||
        ds->shard.index != link->world.rank)
        return sl_fail(SL_EPROTO,
                       "data set %s: is shard %u of %u, wanted shard %u of %u, which is this "
                       "node's",
                       ds->path, ds->shard.index, ds->shard.count, link->world.rank,
                       link->world.size);
    link->rows = calloc(1, sizeof *link->rows);
    if (!link->rows)
        return sl_fail(SL_ENOMEM, "rows of features: no memory");
    *link->rows = (struct sl_link_rows){
        .link = link,
        .asks = asks,
        .reads_ahead = sl_features_kinds[link->config.store.features].drive,
    };
    return make(link->rows);
}

int sl_link_rows_poll(struct sl_node_link *link, bool *moved)
{
    struct sl_link_rows *r = link->rows;
    if (!r)
        return SL_OK;
    SL_TRY(answer(r, moved));
    SL_TRY(take_rows(r, moved));
    return look_for_asks(r, moved);
}

// Receives are over with their message or without it; what is behind them is thrown away.
static int cancel(struct sl_link_rows *r, bool *quiet)
{
    const uint32_t n = r->asks.shape.n_slots * r->asks.shape.n_nodes;
    for (uint32_t i = 0; i < n; i++) {
        struct route *route = &r->routes[i];
        if (route->receiving && route->n) {
            SL_TRY(table_of(r)->cancel(&route->receive));
            route->n = 0; // cancelled
        }
        if (route->receiving)
            route->receiving = table_of(r)->test(&route->receive) == SL_EAGAIN;
        if (route->sending)
            route->sending = table_of(r)->test(&route->send) == SL_EAGAIN;
        *quiet &= !route->receiving && !route->sending;
    }
    return SL_OK;
}

int sl_link_rows_quiet(struct sl_node_link *link, bool *quiet)
{
    struct sl_link_rows *r = link->rows;
    bool answered, moved;
    *quiet = true;
    if (!r)
        return SL_OK;
    if (r->current && r->current->step == READING)
        SL_TRY(go_on_with(r, r->current, &moved));
    if (r->current && r->current->step == COPYING)
        r->current->step = FREE;
    if (r->current && r->current->step == FREE)
        r->current = NULL;
    SL_TRY(free_answers(r, &answered));
    *quiet = answered;
    return cancel(r, quiet);
}

void sl_link_rows_fini(struct sl_node_link *link)
{
    struct sl_link_rows *r = link->rows;
    if (!r)
        return;
    for (uint32_t i = 0; r->going && i < r->asks.shape.n_slots; i++)
        free(r->going[i].messages);
    for (uint32_t i = 0; r->queues && i < r->asks.shape.n_nodes; i++)
        free(r->queues[i].slot);
    for (int i = 0; i < SL_LINK_ANSWERS; i++) {
        free(r->answer[i].message);
        free(r->answer[i].rows);
    }
    free(r->going);
    free(r->routes);
    free(r->queues);
    free(r);
    link->rows = NULL;
}
