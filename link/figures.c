#include "link/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "link/node_link.h"

#define FIGURES_MAGIC 0x31475246454c4f4eull

// Written as it lies: all nodes are of one build.
struct message {
    uint64_t magic;
    uint64_t rank;
    struct sl_node_work work;
    struct sl_node_wire wire;
};

// To the first node, or, there, from one of the others.
struct wire {
    struct message message;
    struct sl_world_request request;
    bool busy; // under way, or awaited
    bool last; // it was sent, or came
    bool cancelled;
};

struct sl_link_figures {
    uint64_t told_ns,
        quiet_ns;       // when the last row was written; since when all have ended. 0: never
    struct wire wire[]; // of the first node one for each rank, else one
};

int sl_link_figures_init(struct sl_node_link *l)
{
    const uint32_t n = l->world.rank == 0 ? l->world.size : 1;
    l->figures = calloc(1, sizeof *l->figures + n * sizeof(struct wire));
    if (!l->figures)
        return sl_fail(SL_ENOMEM, "%s: no memory for the figures of %u nodes", l->world.doing, n);
    snprintf(l->counted.host, sizeof l->counted.host, "%s", l->world.member[l->world.rank].host);
    return SL_OK;
}

void sl_link_figures_fini(struct sl_node_link *l)
{
    free(l->figures);
    l->figures = NULL;
}

// --- the own row ---------------------------------------------------------------------------------

static void write_own(struct sl_node_link *l)
{
    l->counted.at_ns = l->figures->told_ns = sl_now_ns();
    sl_node_figures_put_wire(&l->worker.arena, l->world.rank, &l->counted);
}

// To the first node, unless a row is on its way there.
static int send_own(struct sl_node_link *l)
{
    struct wire *to = &l->figures->wire[0];
    if (l->world.rank == 0 || to->busy || to->last)
        return SL_OK;
    to->message.magic = FIGURES_MAGIC;
    to->message.rank = l->world.rank;
    to->message.wire = l->counted;
    // Where the broker has not written anything yet, or is writing, what it wrote before stays.
    sl_node_figures_work(&l->worker.arena, l->world.rank, &to->message.work);
    SL_TRY(l->world.table->send(0, SL_WORLD_TAG_FIGURES, &to->message, sizeof to->message,
                                &to->request));
    to->busy = true;
    to->last = l->counted.last;
    return SL_OK;
}

// --- messages ------------------------------------------------------------------------------------

static int take(struct sl_node_link *l, uint32_t from, struct wire *w)
{
    struct message *m = &w->message;
    if (m->magic != FIGURES_MAGIC || m->rank != from)
        return sl_fail(SL_EPROTO,
                       "%s: %s sends figures of rank %llu, with magic 0x%llx: wanted %u, "
                       "0x%llx",
                       l->world.doing, sl_world_name(&l->world, from).text,
                       (unsigned long long)m->rank, (unsigned long long)m->magic, from,
                       FIGURES_MAGIC);
    m->wire.host[sizeof m->wire.host - 1] = '\0';
    sl_node_figures_put_work(&l->worker.arena, from, &m->work);
    sl_node_figures_put_wire(&l->worker.arena, from, &m->wire);
    w->last = m->wire.last != 0;
    return SL_OK;
}

// All that has come of a node: a receive is always under way, but after its last row.
static int receive(struct sl_node_link *l, uint32_t from, bool *moved)
{
    struct wire *w = &l->figures->wire[from];
    while (!w->last) {
        if (!w->busy)
            SL_TRY(l->world.table->receive(from, SL_WORLD_TAG_FIGURES, &w->message,
                                           sizeof w->message, &w->request));
        w->busy = true;
        int rc = l->world.table->test(&w->request);
        if (rc == SL_EAGAIN)
            return SL_OK;
        w->busy = false;
        SL_TRY(rc);
        *moved = true;
        SL_TRY(take(l, from, w));
    }
    return SL_OK;
}

static int poll_wires(struct sl_node_link *l, bool *moved)
{
    struct wire *to = &l->figures->wire[0];
    if (l->world.rank != 0 && to->busy) {
        int rc = l->world.table->test(&to->request);
        if (rc == SL_EAGAIN)
            return SL_OK;
        SL_TRY(rc);
        to->busy = false;
    }
    for (uint32_t from = 1; l->world.rank == 0 && from < l->world.size; from++)
        SL_TRY(receive(l, from, moved));
    return SL_OK;
}

// Nothing that counts comes any more, and the broker has written what it had to.
static int end(struct sl_node_link *l)
{
    if (!l->counted.last) {
        l->counted.last = 1;
        write_own(l);
    }
    return send_own(l);
}

int sl_link_figures_poll(struct sl_node_link *l, bool *moved)
{
    const struct sl_link_figures *w = l->figures;
    SL_TRY(poll_wires(l, moved));
    if (l->notes.ended && l->notes.ended[l->world.rank])
        return end(l);
    if (w->told_ns && sl_now_ns() - w->told_ns < SL_WORLD_SECOND)
        return SL_OK;
    write_own(l);
    return send_own(l);
}

// --- the end -------------------------------------------------------------------------------------

// Whether nothing is under way with a node any more; `late`: what has not come will not.
static int let_go(struct sl_node_link *l, uint32_t from, bool late, bool *over)
{
    struct wire *w = &l->figures->wire[from];
    if (w->last && !w->busy)
        return SL_OK;
    if (!late || !w->busy) {
        *over = false;
        return SL_OK;
    }
    if (!w->cancelled)
        SL_TRY(l->world.table->cancel(&w->request));
    w->cancelled = true;
    int rc = l->world.table->test(&w->request);
    w->busy = rc == SL_EAGAIN;
    w->last = !w->busy;
    *over &= !w->busy;
    return w->busy ? SL_OK : rc;
}

int sl_link_figures_quiet(struct sl_node_link *l, bool *over)
{
    struct sl_link_figures *w = l->figures;
    const uint64_t now = sl_now_ns();
    bool moved;
    if (!w->quiet_ns)
        w->quiet_ns = now;
    SL_TRY(poll_wires(l, &moved));
    SL_TRY(end(l));
    *over = l->world.rank == 0 || (w->wire[0].last && !w->wire[0].busy);
    for (uint32_t from = 1; l->world.rank == 0 && from < l->world.size; from++)
        SL_TRY(let_go(l, from, now - w->quiet_ns >= SL_LINK_LAST_S * SL_WORLD_SECOND, over));
    return SL_OK;
}
