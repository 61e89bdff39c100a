#include "link/results.h"

#include <stdlib.h>

#include "common/arena/nodes.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"

enum { ALIGNMENT = _Alignof(struct sl_nodes_result) };

struct peer {
    struct sl_world_request in, out;
    bool receiving, sending;
    uint32_t cell;                // that is awaited of it; from n_cells on: none
    struct sl_nodes_result *came; // (room) owned
};

struct sl_link_results {
    struct sl_arena *arena;
    bool evaluating, cancelled;
    struct sl_nodes_eval eval;       // the last one that has begun
    uint32_t own;                    // the next cell of this node's
    size_t room;                     // bytes of the longest message
    struct sl_nodes_result *leaving; // (room) owned: what is on its way
    struct peer *peer;               // (size) owned; this node's is unused
};

static int fail_at(const struct sl_node_link *l, int rc, uint32_t node)
{
    return sl_fail_prefix(rc, "%s: an evaluation: %s", l->world.doing,
                          sl_world_name(&l->world, node).text);
}

// --- an evaluation begins ------------------------------------------------------------------------

static int grow(struct sl_nodes_result **bytes, size_t room)
{
    free(*bytes);
    *bytes = aligned_alloc(ALIGNMENT, room);
    return *bytes ? SL_OK : sl_fail(SL_ENOMEM, "no memory for %zu bytes of an evaluation", room);
}

// Room for its first cell, which is the longest one. Nothing is under way.
static int make_room(struct sl_node_link *l, const struct sl_nodes_eval *e)
{
    struct sl_link_results *r = l->results;
    const size_t room = sl_align_up(sl_nodes_result_bytes(r->arena, e, 0), ALIGNMENT);
    if (room <= r->room)
        return SL_OK;
    SL_TRY(grow(&r->leaving, room));
    for (uint32_t i = 0; i < l->world.size; i++)
        SL_TRY(grow(&r->peer[i].came, room));
    r->room = room;
    return SL_OK;
}

// The next message of a node, while it has one.
static int await(struct sl_node_link *l, uint32_t node)
{
    struct sl_link_results *r = l->results;
    struct peer *p = &r->peer[node];
    if (p->cell >= r->eval.n_cells)
        return SL_OK;
    const size_t n = sl_nodes_result_bytes(r->arena, &r->eval, p->cell);
    int rc = l->world.table->receive(node, SL_WORLD_TAG_RESULT, p->came, n, &p->in);
    if (rc < 0)
        return fail_at(l, rc, node);
    p->receiving = true;
    return SL_OK;
}

static bool is_sending(const struct sl_node_link *l)
{
    for (uint32_t i = 0; i < l->world.size; i++)
        if (l->results->peer[i].sending)
            return true;
    return false;
}

static int begin(struct sl_node_link *l, bool *moved)
{
    struct sl_link_results *r = l->results;
    struct sl_nodes_eval e;
    int rc = sl_nodes_next_eval(r->arena, &e);
    // The memory of the one before may still be on its way.
    if (rc == SL_EAGAIN || rc == SL_EABORTED || (rc == SL_OK && is_sending(l)))
        return SL_OK;
    SL_TRY(rc);
    SL_TRY(make_room(l, &e));
    r->eval = e;
    r->evaluating = *moved = true;
    r->own = l->world.rank;
    for (uint32_t i = 0; i < l->world.size; i++) {
        r->peer[i].cell = i;
        if (i != l->world.rank)
            SL_TRY(await(l, i));
    }
    if (r->own >= e.n_cells) // it has none
        sl_nodes_give_results(r->arena, &e);
    return SL_OK;
}

// --- messages ------------------------------------------------------------------------------------

static int test_sent(struct sl_node_link *l, bool *moved)
{
    for (uint32_t i = 0; i < l->world.size; i++) {
        struct peer *p = &l->results->peer[i];
        int rc = p->sending ? l->world.table->test(&p->out) : SL_EAGAIN;
        if (rc == SL_EAGAIN)
            continue;
        p->sending = false;
        *moved = true;
        if (rc < 0)
            return fail_at(l, rc, i);
    }
    return SL_OK;
}

static int send_result(struct sl_node_link *l, uint32_t cell)
{
    struct sl_link_results *r = l->results;
    const size_t n = sl_nodes_result_bytes(r->arena, &r->eval, cell);
    sl_nodes_fill_result(r->arena, &r->eval, cell, r->leaving);
    SL_FAILPOINT(LINK_RESULT);
    for (uint32_t i = 0; i < l->world.size; i++) {
        struct peer *p = &r->peer[i];
        if (i == l->world.rank)
            continue;
        int rc = l->world.table->send(i, SL_WORLD_TAG_RESULT, r->leaving, n, &p->out);
        if (rc < 0)
            return fail_at(l, rc, i);
        p->sending = true;
        l->counted.peer[i].out_bytes += n;
    }
    return SL_OK;
}

// Own cells that are done, in order, one at a time.
static int send_results(struct sl_node_link *l, bool *moved)
{
    struct sl_link_results *r = l->results;
    const struct sl_nodes_eval *e = &r->eval;
    if (r->own >= e->n_cells || is_sending(l) || !sl_nodes_result_is_there(r->arena, e, r->own))
        return SL_OK;
    *moved = true;
    SL_TRY(send_result(l, r->own));
    r->own += l->world.size;
    if (r->own >= e->n_cells)
        sl_nodes_give_results(r->arena, e);
    return SL_OK;
}

static int take_results(struct sl_node_link *l, bool *moved)
{
    struct sl_link_results *r = l->results;
    for (uint32_t i = 0; i < l->world.size; i++) {
        struct peer *p = &r->peer[i];
        while (p->receiving) {
            int rc = l->world.table->test(&p->in);
            if (rc == SL_EAGAIN)
                break;
            p->receiving = false;
            *moved = true;
            if (rc < 0)
                return fail_at(l, rc, i);
            l->counted.peer[i].in_bytes += sl_nodes_result_bytes(r->arena, &r->eval, p->cell);
            rc = sl_nodes_result_arrived(r->arena, &r->eval, i, p->cell, p->came,
                                         -l->clock_ahead_ns[i]);
            if (rc < 0)
                return fail_at(l, rc, i);
            p->cell += l->world.size;
            SL_TRY(await(l, i));
        }
    }
    return SL_OK;
}

static bool is_over(const struct sl_node_link *l)
{
    const struct sl_link_results *r = l->results;
    for (uint32_t i = 0; i < l->world.size; i++)
        if (r->peer[i].receiving)
            return false;
    return r->own >= r->eval.n_cells;
}

// --- the part ------------------------------------------------------------------------------------

int sl_link_results_init(struct sl_node_link *l)
{
    struct sl_link_results *r = l->results = calloc(1, sizeof *r);
    if (r)
        r->peer = calloc(l->world.size, sizeof *r->peer);
    if (!r || !r->peer)
        return sl_fail(SL_ENOMEM, "evaluations over %u nodes: no memory", l->world.size);
    r->arena = &l->worker.arena;
    return SL_OK;
}

int sl_link_results_poll(struct sl_node_link *l, bool *moved)
{
    struct sl_link_results *r = l->results;
    if (!r || l->world.size == 1)
        return SL_OK;
    SL_TRY(test_sent(l, moved));
    if (!r->evaluating)
        SL_TRY(begin(l, moved));
    if (!r->evaluating)
        return SL_OK;
    SL_TRY(take_results(l, moved));
    SL_TRY(send_results(l, moved));
    r->evaluating = !is_over(l);
    return SL_OK;
}

int sl_link_results_quiet(struct sl_node_link *l, bool *quiet)
{
    struct sl_link_results *r = l->results;
    bool moved = false;
    *quiet = true;
    if (!r || !r->peer)
        return SL_OK;
    SL_TRY(test_sent(l, &moved));
    for (uint32_t i = 0; i < l->world.size; i++) {
        struct peer *p = &r->peer[i];
        if (p->receiving && !r->cancelled)
            SL_TRY(l->world.table->cancel(&p->in));
        if (p->receiving)
            p->receiving = l->world.table->test(&p->in) == SL_EAGAIN;
        *quiet &= !p->receiving && !p->sending;
    }
    r->cancelled = true;
    return SL_OK;
}

void sl_link_results_fini(struct sl_node_link *l)
{
    struct sl_link_results *r = l->results;
    if (!r)
        return;
    for (uint32_t i = 0; r->peer && i < l->world.size; i++)
        free(r->peer[i].came);
    free(r->peer);
    free(r->leaving);
    free(r);
    l->results = NULL;
}
