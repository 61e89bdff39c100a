/*
 * nodes_link.h - the links of several nodes, all of them in one process: what common/arena/nodes.h
 * says they do, with copies from arena to arena in place of messages.
 *
 * Whatever no message brings is made useless (NaN) before it is waited for: the rest of a gradient
 * slot, the others' slices of the next version and of its state.
 */
#ifndef SL_TESTS_UNIT_NODES_LINK_H
#define SL_TESTS_UNIT_NODES_LINK_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/error.h"
#include "common/arena/nodes.h"
#include "common/arena/param_store.h"

enum { LINK_NODES = 8, LINK_WORKER = 999 };

// Of one node to another: what of a step has been sent.
struct link_pair {
    uint64_t making; // version that the step makes
    uint32_t cell;   // the next one
    bool batches, slice;
};

struct link {
    uint32_t n;
    struct sl_arena *arena[LINK_NODES];
    int64_t clock_ns[LINK_NODES]; // of each node's clock, minus that of node 0
    struct link_pair pair[LINK_NODES][LINK_NODES];
    uint64_t random;
    uint64_t moved, flips;
    int rc; // what was wrong; its message is recorded
};

static inline void link_spoil(float *values, struct sl_nodes_part part)
{
    for (uint64_t i = 0; i < part.n; i++)
        values[part.first + i] = NAN;
}

static inline void link_copy(float *to, const float *from, struct sl_nodes_part part)
{
    memcpy(to + part.first, from + part.first, part.n * sizeof *to);
}

static inline void link_begin(struct link *l, uint32_t from, uint32_t to,
                              const struct sl_nodes_step *step)
{
    struct link_pair *p = &l->pair[from][to];
    const struct sl_arena *a = l->arena[to];
    *p = (struct link_pair){.making = step->version + 1,
                            .cell = sl_nodes_first_cell(l->arena[from], step, from)};
    link_spoil(sl_nodes_params(a, step), sl_nodes_slice(a, from));
    for (uint32_t i = 0; i < a->h->spec.n_state; i++)
        link_spoil(sl_param_store_state(a, step->version + 1, i), sl_nodes_slice(a, from));
}

static inline int link_send_batch(struct link *l, uint32_t from, uint32_t to,
                                  const struct sl_nodes_step *mine,
                                  const struct sl_nodes_step *theirs)
{
    struct link_pair *p = &l->pair[from][to];
    struct sl_nodes_batch b;
    sl_nodes_fill_batch(l->arena[from], mine, p->cell, &b);
    if (p->cell != SL_NODES_NO_CELL) {
        float *slot = sl_nodes_gradient(l->arena[to], p->cell);
        link_spoil(slot, (struct sl_nodes_part){0, l->arena[to]->h->spec.n_params});
        link_copy(slot, sl_nodes_gradient(l->arena[from], p->cell),
                  sl_nodes_gradient_part(l->arena[to], to));
    }
    const int rc = sl_nodes_batch_arrived(l->arena[to], theirs, from, p->cell, &b,
                                          l->clock_ns[to] - l->clock_ns[from]);
    p->batches = p->cell == SL_NODES_NO_CELL || p->cell + l->n >= mine->first_cell + mine->n_cells;
    p->cell += l->n;
    return rc;
}

// One message, where one can go. SL_EAGAIN: none.
static inline int link_send(struct link *l, uint32_t from, uint32_t to)
{
    struct link_pair *p = &l->pair[from][to];
    struct sl_nodes_step mine, theirs;
    struct sl_nodes_made made;
    if (sl_nodes_next(l->arena[from], &mine) < 0 || sl_nodes_next(l->arena[to], &theirs) < 0 ||
        mine.version != theirs.version)
        return SL_EAGAIN;
    if (p->making != mine.version + 1)
        link_begin(l, from, to, &mine);
    if (!p->batches) {
        if (p->cell != SL_NODES_NO_CELL && !sl_nodes_cell_is_done(l->arena[from], &mine, p->cell))
            return SL_EAGAIN;
        return link_send_batch(l, from, to, &mine, &theirs);
    }
    if (p->slice || !sl_nodes_is_made(l->arena[from], &mine))
        return SL_EAGAIN;
    sl_nodes_fill_made(&mine, &made);
    p->slice = true;
    link_copy(sl_nodes_params(l->arena[to], &theirs), sl_nodes_params(l->arena[from], &mine),
              sl_nodes_slice(l->arena[from], from));
    return sl_nodes_check_made(&theirs, from, &made);
}

static inline int link_flip(struct link *l, uint32_t node)
{
    struct sl_nodes_step step;
    if (sl_nodes_next(l->arena[node], &step) < 0)
        return SL_EAGAIN;
    for (uint32_t i = 0; i < l->n; i++) {
        const struct link_pair *out = &l->pair[node][i], *in = &l->pair[i][node];
        if (i != node && (out->making != step.version + 1 || in->making != step.version + 1 ||
                          !out->slice || !in->slice))
            return SL_EAGAIN;
    }
    const int rc = sl_nodes_flip(l->arena[node], &step, LINK_WORKER);
    l->flips += rc == SL_OK;
    return rc;
}

static inline int link_fetch_state(struct link *l)
{
    struct sl_arena *a = l->arena[0];
    uint64_t v;
    if (!sl_nodes_state_is_wanted(a, &v))
        return SL_EAGAIN;
    for (uint32_t k = 1; k < l->n; k++)
        if (!sl_nodes_has_state(l->arena[k], v))
            return SL_EAGAIN;
    for (uint32_t k = 1; k < l->n; k++)
        for (uint32_t i = 0; i < a->h->spec.n_state; i++)
            link_copy(sl_param_store_state(a, v, i), sl_param_store_state(l->arena[k], v, i),
                      sl_nodes_slice(a, k));
    sl_nodes_state_arrived(a, v);
    return SL_OK;
}

// One look at everything, beginning at random. Whether anything moved.
static inline bool link_poll(struct link *l)
{
    const uint64_t before = l->moved;
    const uint32_t n = l->n * l->n;
    l->random = l->random * 6364136223846793005u + 1442695040888963407u;
    for (uint32_t k = 0; k < n && l->rc == SL_OK; k++) {
        const uint32_t i = (uint32_t)((l->random >> 33) + k) % n, from = i / l->n, to = i % l->n;
        int rc = from == to ? link_flip(l, from) : link_send(l, from, to);
        if (rc == SL_EAGAIN)
            continue;
        l->moved++;
        l->rc = rc;
    }
    l->moved += link_fetch_state(l) == SL_OK;
    return l->moved != before;
}

#endif
