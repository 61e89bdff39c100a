#include "link/updates.h"

#include <stdlib.h>
#include <string.h>

#include "common/arena/nodes.h"
#include "common/arena/param_store.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"

enum what { BATCH, GRADIENT, MADE, SLICE, STATE };

// One message.
struct item {
    struct sl_world_request request;
    enum what what;
    uint32_t index; // BATCH: of the header
    uint32_t cell;
    bool last; // of a cell, or of all
};

// Messages that are under way, in order: [over, n).
struct queue {
    struct item *item; // (room) owned
    uint32_t n, over, room;
};

struct peer {
    struct queue in, out;
    struct queue state_in, state_out;
    struct sl_nodes_batch *batch; // (cells) owned: headers that come
    struct sl_nodes_made made;
    uint64_t since_ns; // what is missing of it has been waited for since then, at the earliest
};

struct sl_link_updates {
    struct sl_arena *arena;
    struct peer *peer; // (size) owned; this node's is unused
    bool stepping;     // `step` is under way
    bool aborted;      // no further one is
    struct sl_nodes_step step;
    uint32_t next_cell;         // own one that is to be sent, SL_NODES_NO_CELL: none is left
    uint32_t n_sent;            // own headers
    struct sl_nodes_batch *own; // (cells) owned
    bool sent_made, cancelled;
    struct sl_nodes_made made;
    uint64_t since_ns; // this node has done what it could; 0: it has not
    // state
    uint64_t asked, wanted; // versions: of the first node; of another one, what is asked of it
    bool asking, owing;
};

// --- messages ------------------------------------------------------------------------------------

static struct item *add(struct queue *q, enum what what)
{
    if (q->n == q->room) {
        const uint32_t room = q->room ? 2 * q->room : 16;
        struct item *more = realloc(q->item, room * sizeof *more);
        if (!more)
            return NULL;
        q->item = more;
        q->room = room;
    }
    q->item[q->n] = (struct item){.what = what};
    return &q->item[q->n++];
}

struct message {
    enum what what;
    uint32_t peer, index, cell;
    void *bytes;
    size_t n;
};

static int post(struct sl_node_link *l, struct queue *q, bool out, enum sl_world_tag tag,
                const struct message *m)
{
    struct sl_world *w = &l->world;
    struct sl_node_peer *figures = &l->counted.peer[m->peer];
    *(out ? &figures->out_bytes : &figures->in_bytes) += m->n;
    for (size_t done = 0; done < m->n;) {
        const size_t piece = SL_MIN(m->n - done, (size_t)SL_WORLD_CHUNK_BYTES);
        struct item *item = add(q, m->what);
        if (!item)
            return sl_fail(SL_ENOMEM, "%s: no memory for a message", w->doing);
        char *at = (char *)m->bytes + done;
        int rc = out ? w->table->send(m->peer, tag, at, piece, &item->request)
                     : w->table->receive(m->peer, tag, at, piece, &item->request);
        if (rc < 0) {
            q->n--;
            return sl_fail_prefix(rc, "%s: %s", w->doing, sl_world_name(w, m->peer).text);
        }
        item->index = m->index;
        item->cell = m->cell;
        done += piece;
        item->last = done == m->n;
    }
    return SL_OK;
}

// The next message of the queue is over. SL_EAGAIN: it is not, or there is none.
static int take(struct sl_world *w, uint32_t peer, struct queue *q, struct item *out)
{
    if (q->over == q->n)
        return SL_EAGAIN;
    int rc = w->table->test(&q->item[q->over].request);
    if (rc == SL_EAGAIN)
        return rc;
    if (rc < 0)
        return sl_fail_prefix(rc, "%s: %s", w->doing, sl_world_name(w, peer).text);
    *out = q->item[q->over++];
    if (q->over == q->n)
        q->over = q->n = 0;
    return SL_OK;
}

// Lets go of what is over.
static int sweep(struct sl_world *w, uint32_t peer, struct queue *q, bool *moved)
{
    struct item item;
    int rc;
    while ((rc = take(w, peer, q, &item)) == SL_OK)
        *moved = true;
    return rc == SL_EAGAIN ? SL_OK : rc;
}

static int post_floats(struct sl_node_link *l, struct queue *q, bool out, enum sl_world_tag tag,
                       struct message m, float *from, struct sl_nodes_part part)
{
    m.bytes = from + part.first;
    m.n = part.n * sizeof(float);
    return post(l, q, out, tag, &m);
}

// --- a step begins -------------------------------------------------------------------------------

static int expect_of(struct sl_node_link *l, uint32_t node)
{
    struct sl_link_updates *u = l->updates;
    const struct sl_nodes_step *s = &u->step;
    const struct sl_nodes_part part = sl_nodes_gradient_part(u->arena, l->world.rank);
    struct peer *p = &u->peer[node];
    uint32_t cell = sl_nodes_first_cell(u->arena, s, node), index = 0;
    do {
        const struct message m = {.what = BATCH,
                                  .peer = node,
                                  .index = index,
                                  .cell = cell,
                                  .bytes = &p->batch[index],
                                  .n = sizeof *p->batch};
        SL_TRY(post(l, &p->in, false, SL_WORLD_TAG_UPDATE, &m));
        if (cell == SL_NODES_NO_CELL)
            break;
        const struct message g = {.what = GRADIENT, .peer = node, .index = index++, .cell = cell};
        SL_TRY(post_floats(l, &p->in, false, SL_WORLD_TAG_UPDATE, g,
                           sl_nodes_gradient(u->arena, cell), part));
        cell += l->world.size;
    } while (cell < s->first_cell + s->n_cells);
    const struct message made = {
        .what = MADE, .peer = node, .bytes = &p->made, .n = sizeof p->made};
    SL_TRY(post(l, &p->in, false, SL_WORLD_TAG_UPDATE, &made));
    const struct message slice = {.what = SLICE, .peer = node};
    return post_floats(l, &p->in, false, SL_WORLD_TAG_UPDATE, slice, sl_nodes_params(u->arena, s),
                       sl_nodes_slice(u->arena, node));
}

static int begin_step(struct sl_node_link *l, bool *moved)
{
    struct sl_link_updates *u = l->updates;
    int rc = sl_nodes_next(u->arena, &u->step);
    if (rc == SL_EAGAIN)
        return SL_OK;
    u->aborted = rc == SL_EABORTED;
    if (u->aborted)
        return SL_OK;
    SL_TRY(rc);
    u->stepping = *moved = true;
    u->sent_made = false;
    u->n_sent = 0;
    u->next_cell = sl_nodes_first_cell(u->arena, &u->step, l->world.rank);
    u->since_ns = 0;
    for (uint32_t i = 0; i < l->world.size; i++) {
        u->peer[i].since_ns = 0;
        if (i != l->world.rank)
            SL_TRY(expect_of(l, i));
    }
    return SL_OK;
}

// --- a step --------------------------------------------------------------------------------------

static int send_batch(struct sl_node_link *l, uint32_t cell)
{
    struct sl_link_updates *u = l->updates;
    struct sl_nodes_batch *header = &u->own[u->n_sent++];
    sl_nodes_fill_batch(u->arena, &u->step, cell, header);
    for (uint32_t i = 0; i < l->world.size; i++) {
        struct message m = {
            .what = BATCH, .peer = i, .cell = cell, .bytes = header, .n = sizeof *header};
        if (i == l->world.rank)
            continue;
        SL_TRY(post(l, &u->peer[i].out, true, SL_WORLD_TAG_UPDATE, &m));
        SL_FAILPOINT(LINK_SENDING);
        m.what = GRADIENT;
        if (cell != SL_NODES_NO_CELL)
            SL_TRY(post_floats(l, &u->peer[i].out, true, SL_WORLD_TAG_UPDATE, m,
                               sl_nodes_gradient(u->arena, cell),
                               sl_nodes_gradient_part(u->arena, i)));
    }
    return SL_OK;
}

// Own cells that are done, in order.
static int send_batches(struct sl_node_link *l, bool *moved)
{
    struct sl_link_updates *u = l->updates;
    const struct sl_nodes_step *s = &u->step;
    if (u->next_cell == SL_NODES_NO_CELL && u->n_sent == 0) {
        *moved = true;
        u->since_ns = sl_now_ns();
        return send_batch(l, SL_NODES_NO_CELL);
    }
    while (u->next_cell != SL_NODES_NO_CELL && sl_nodes_cell_is_done(u->arena, s, u->next_cell)) {
        *moved = true;
        SL_TRY(send_batch(l, u->next_cell));
        u->next_cell += l->world.size;
        if (u->next_cell >= s->first_cell + s->n_cells) {
            u->next_cell = SL_NODES_NO_CELL;
            u->since_ns = sl_now_ns();
        }
    }
    return SL_OK;
}

static int send_slice(struct sl_node_link *l, bool *moved)
{
    struct sl_link_updates *u = l->updates;
    // The last batch may have become done, and the slice made of it, since batches were sent.
    if (u->sent_made || u->next_cell != SL_NODES_NO_CELL || !sl_nodes_is_made(u->arena, &u->step))
        return SL_OK;
    u->sent_made = *moved = true;
    sl_nodes_fill_made(&u->step, &u->made);
    u->made.at_ns = u->since_ns = sl_now_ns();
    SL_FAILPOINT(LINK_MADE);
    for (uint32_t i = 0; i < l->world.size; i++) {
        struct message m = {.what = MADE, .peer = i, .bytes = &u->made, .n = sizeof u->made};
        if (i == l->world.rank)
            continue;
        SL_TRY(post(l, &u->peer[i].out, true, SL_WORLD_TAG_UPDATE, &m));
        m.what = SLICE;
        SL_TRY(post_floats(l, &u->peer[i].out, true, SL_WORLD_TAG_UPDATE, m,
                           sl_nodes_params(u->arena, &u->step),
                           sl_nodes_slice(u->arena, l->world.rank)));
    }
    return SL_OK;
}

// Since when this node has missed something of node `from`, and nothing else: 0 while it has not.
static uint64_t missed_since(const struct sl_link_updates *u, uint32_t from)
{
    return u->since_ns ? SL_MAX(u->since_ns, u->peer[from].since_ns) : 0;
}

// Something of node `from` is here, which had it ready at that time of its own clock: how long this
// node's update waited for it.
static void count_wait(struct sl_node_link *l, uint32_t from, uint64_t ready_ns)
{
    struct sl_link_updates *u = l->updates;
    const uint64_t since = missed_since(u, from), now = sl_now_ns();
    if (since == 0)
        return;
    sl_node_peer_waited(&l->counted.peer[from], since, ready_ns - (uint64_t)l->clock_ahead_ns[from],
                        now);
    u->peer[from].since_ns = now;
}

// What is waited for so long is told before it is over: it is not ready, as far as is known.
static void count_long_waits(struct sl_node_link *l)
{
    struct sl_link_updates *u = l->updates;
    const uint64_t now = sl_now_ns();
    for (uint32_t i = 0; i < l->world.size; i++) {
        const struct queue *in = &u->peer[i].in;
        const uint64_t since = missed_since(u, i);
        if (i == l->world.rank || in->over == in->n || since == 0 || now - since < SL_WORLD_SECOND)
            continue;
        const enum what what = in->item[in->over].what;
        if ((what == BATCH || what == GRADIENT) == u->sent_made)
            continue; // this node's own slice is what is missing
        sl_node_peer_waited(&l->counted.peer[i], since, now, now);
        u->peer[i].since_ns = now;
    }
}

// A batch of another node is here, with its gradient where there is one.
static int take_batch(struct sl_node_link *l, uint32_t from, const struct item *item)
{
    struct sl_link_updates *u = l->updates;
    const struct sl_nodes_batch *batch = &u->peer[from].batch[item->index];
    SL_FAILPOINT(LINK_ARRIVED);
    if (item->cell != SL_NODES_NO_CELL)
        count_wait(l, from, batch->entry.done_at_ns);
    return sl_nodes_batch_arrived(u->arena, &u->step, from, item->cell, batch,
                                  -l->clock_ahead_ns[from]);
}

static int take_item(struct sl_node_link *l, uint32_t from, const struct item *item)
{
    struct sl_link_updates *u = l->updates;
    const struct peer *p = &u->peer[from];
    const bool alone =
        item->cell == SL_NODES_NO_CELL || sl_nodes_gradient_part(u->arena, l->world.rank).n == 0;
    int rc = SL_OK;
    if ((item->what == MADE || item->what == SLICE) && u->sent_made)
        count_wait(l, from, p->made.at_ns);
    switch (item->what) {
    case BATCH:
        rc = sl_nodes_check_batch(u->arena, &u->step, from, item->cell, &p->batch[item->index]);
        if (rc == SL_OK && alone)
            rc = take_batch(l, from, item);
        break;
    case GRADIENT: rc = item->last ? take_batch(l, from, item) : SL_OK; break;
    case MADE: rc = sl_nodes_check_made(&u->step, from, &p->made); break;
    case SLICE:
    case STATE: break;
    }
    return rc < 0 ? sl_fail_prefix(rc, "%s", sl_world_name(&l->world, from).text) : rc;
}

static int take_items(struct sl_node_link *l, bool *moved)
{
    struct sl_link_updates *u = l->updates;
    for (uint32_t i = 0; i < l->world.size; i++) {
        struct item item;
        int rc = SL_EAGAIN;
        while (i != l->world.rank && (rc = take(&l->world, i, &u->peer[i].in, &item)) == SL_OK) {
            *moved = true;
            SL_TRY(take_item(l, i, &item));
        }
        if (rc != SL_EAGAIN)
            return rc;
    }
    return SL_OK;
}

static int sweep_sent(struct sl_node_link *l, bool *moved)
{
    struct sl_link_updates *u = l->updates;
    for (uint32_t i = 0; i < l->world.size; i++)
        if (i != l->world.rank) {
            SL_TRY(sweep(&l->world, i, &u->peer[i].out, moved));
            SL_TRY(sweep(&l->world, i, &u->peer[i].state_out, moved));
        }
    return SL_OK;
}

static bool is_still(const struct sl_node_link *l)
{
    const struct sl_link_updates *u = l->updates;
    for (uint32_t i = 0; i < l->world.size; i++)
        if (u->peer[i].in.n || u->peer[i].out.n || u->peer[i].state_in.n)
            return false;
    return true;
}

static int end_step(struct sl_node_link *l, bool *moved)
{
    struct sl_link_updates *u = l->updates;
    if (!u->sent_made || !is_still(l))
        return SL_OK;
    SL_FAILPOINT(LINK_SLICES);
    int rc = sl_nodes_flip(u->arena, &u->step, l->worker.id);
    if (rc == SL_EAGAIN || rc == SL_EABORTED)
        return SL_OK;
    SL_TRY(rc);
    SL_FAILPOINT(LINK_FLIPPED);
    u->stepping = false;
    *moved = true;
    return SL_OK;
}

// --- state ---------------------------------------------------------------------------------------

static int move_state(struct sl_node_link *l, uint32_t peer, bool out, uint64_t version)
{
    struct sl_link_updates *u = l->updates;
    struct queue *q = out ? &u->peer[peer].state_out : &u->peer[peer].state_in;
    const struct sl_nodes_part part = sl_nodes_slice(u->arena, out ? l->world.rank : peer);
    const struct message m = {.what = STATE, .peer = peer};
    for (uint32_t i = 0; i < u->arena->h->spec.n_state; i++)
        SL_TRY(post_floats(l, q, out, SL_WORLD_TAG_STATE, m,
                           sl_param_store_state(u->arena, version, i), part));
    return SL_OK;
}

static int ask_state(struct sl_node_link *l)
{
    struct sl_link_updates *u = l->updates;
    u->asking = true;
    for (uint32_t i = 1; i < l->world.size; i++) {
        const struct message m = {
            .what = STATE, .peer = i, .bytes = &u->asked, .n = sizeof u->asked};
        SL_TRY(post(l, &u->peer[i].state_out, true, SL_WORLD_TAG_STATE, &m));
        SL_TRY(move_state(l, i, false, u->asked));
    }
    return SL_OK;
}

// The first node: asks for what its broker wants, and takes it.
static int gather_state(struct sl_node_link *l, bool *moved)
{
    struct sl_link_updates *u = l->updates;
    bool all = true;
    if (!u->asking && sl_nodes_state_is_wanted(u->arena, &u->asked)) {
        *moved = true;
        SL_TRY(ask_state(l));
    }
    for (uint32_t i = 1; i < l->world.size && u->asking; i++) {
        SL_TRY(sweep(&l->world, i, &u->peer[i].state_in, moved));
        all &= u->peer[i].state_in.n == 0 && u->peer[i].state_out.n == 0;
    }
    if (u->asking && all) {
        u->asking = false;
        sl_nodes_state_arrived(u->arena, u->asked);
        sl_arena_ring(u->arena);
    }
    return SL_OK;
}

// Another node: gives what it is asked for.
static int give_state(struct sl_node_link *l, bool *moved)
{
    struct sl_link_updates *u = l->updates;
    struct sl_world_request request;
    uint32_t from;
    size_t n;
    int rc = u->owing ? SL_EAGAIN : l->world.table->probe(SL_WORLD_TAG_STATE, &from, &n);
    if (rc == SL_OK) {
        if (from != 0 || n != sizeof u->wanted)
            return sl_fail(SL_EPROTO, "%s: %s asks for state with %zu bytes: wanted %zu, of rank 0",
                           l->world.doing, sl_world_name(&l->world, from).text, n,
                           sizeof u->wanted);
        SL_TRY(l->world.table->receive(0, SL_WORLD_TAG_STATE, &u->wanted, n, &request));
        while ((rc = l->world.table->test(&request)) == SL_EAGAIN)
            SL_TRY(sl_world_look(&l->world));
        SL_TRY(rc);
        u->owing = *moved = true;
    } else if (rc != SL_EAGAIN) {
        return rc;
    }
    if (!u->owing || !sl_nodes_has_state(u->arena, u->wanted))
        return SL_OK;
    u->owing = false;
    return move_state(l, 0, true, u->wanted);
}

// --- the part ------------------------------------------------------------------------------------

int sl_link_updates_init(struct sl_node_link *l)
{
    struct sl_link_updates *u = l->updates = calloc(1, sizeof *u);
    if (!u)
        return sl_fail(SL_ENOMEM, "updates over %u nodes: no memory", l->world.size);
    u->arena = &l->worker.arena;
    const uint32_t cells =
        (uint32_t)sl_div_up(u->arena->h->spec.batches_per_update, l->world.size) + 1;
    u->own = calloc(cells, sizeof *u->own);
    u->peer = calloc(l->world.size, sizeof *u->peer);
    bool all = u->own && u->peer;
    for (uint32_t i = 0; all && i < l->world.size; i++) {
        u->peer[i].batch = calloc(cells, sizeof *u->peer[i].batch);
        all = u->peer[i].batch != NULL;
    }
    return all ? SL_OK : sl_fail(SL_ENOMEM, "updates over %u nodes: no memory", l->world.size);
}

int sl_link_updates_poll(struct sl_node_link *l, bool *moved)
{
    struct sl_link_updates *u = l->updates;
    if (!u || l->world.size == 1)
        return SL_OK;
    SL_TRY(sweep_sent(l, moved));
    SL_TRY(l->world.rank == 0 ? gather_state(l, moved) : give_state(l, moved));
    if (!u->stepping && !u->aborted)
        SL_TRY(begin_step(l, moved));
    if (!u->stepping)
        return SL_OK;
    SL_TRY(send_batches(l, moved));
    SL_TRY(take_items(l, moved));
    count_long_waits(l);
    SL_TRY(send_slice(l, moved));
    SL_TRY(sweep_sent(l, moved));
    return end_step(l, moved);
}

static int cancel_all(struct sl_world *w, struct queue *q)
{
    for (uint32_t i = q->over; i < q->n; i++)
        SL_TRY(w->table->cancel(&q->item[i].request));
    return SL_OK;
}

int sl_link_updates_quiet(struct sl_node_link *l, bool *quiet)
{
    struct sl_link_updates *u = l->updates;
    bool moved = false;
    *quiet = true;
    if (!u || !u->peer)
        return SL_OK;
    for (uint32_t i = 0; i < l->world.size; i++) {
        struct peer *p = &u->peer[i];
        if (!u->cancelled) {
            SL_TRY(cancel_all(&l->world, &p->in));
            SL_TRY(cancel_all(&l->world, &p->state_in));
        }
        SL_TRY(sweep(&l->world, i, &p->in, &moved));
        SL_TRY(sweep(&l->world, i, &p->state_in, &moved));
        SL_TRY(sweep(&l->world, i, &p->out, &moved));
        SL_TRY(sweep(&l->world, i, &p->state_out, &moved));
        *quiet &= p->in.n == 0 && p->out.n == 0 && p->state_in.n == 0 && p->state_out.n == 0;
    }
    u->cancelled = true;
    return SL_OK;
}

void sl_link_updates_fini(struct sl_node_link *l)
{
    struct sl_link_updates *u = l->updates;
    if (!u)
        return;
    for (uint32_t i = 0; u->peer && i < l->world.size; i++) {
        free(u->peer[i].in.item);
        free(u->peer[i].out.item);
        free(u->peer[i].state_in.item);
        free(u->peer[i].state_out.item);
        free(u->peer[i].batch);
    }
    free(u->peer);
    free(u->own);
    free(u);
    l->updates = NULL;
}
