#include "trainer/feed/asking.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena/asks.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/arena/segment.h"

enum { NO_SLOT_MS = 10 }; // between looks for a slot that a dead worker's ask still has

int sl_asking_init(struct sl_asking *k, const struct sl_dataset *shard, struct sl_arena *arena,
                   uint32_t worker)
{
    *k = (struct sl_asking){
        .dataset = shard, .arena = arena, .asks = sl_asks_of(arena), .worker = worker};
    const struct sl_asks_shape *s = &k->asks.shape;
    if (s->n_slots == 0 || s->n_nodes != shard->shard.count ||
        s->row_bytes != sl_dataset_widest_row(shard))
        return sl_fail(SL_EINVAL,
                       "data set %s: is one of %u shards with rows of %u bytes, and the job asks "
                       "for rows of %u bytes from %u nodes",
                       shard->path, shard->shard.count, (unsigned)sl_dataset_widest_row(shard),
                       s->n_slots ? s->row_bytes : 0, s->n_slots ? s->n_nodes : 0);
    k->next = calloc(s->n_nodes, sizeof *k->next);
    for (int i = 0; i < SL_ASKS_EACH; i++)
        k->to[i] = calloc(s->max_rows, sizeof *k->to[i]);
    for (int i = 0; i < SL_ASKS_EACH; i++)
        if (!k->to[i] || !k->next)
            return sl_fail(SL_ENOMEM, "no memory to ask other nodes for rows");
    return SL_OK;
}

void sl_asking_fini(struct sl_asking *k)
{
    free(k->own[0]);
    free(k->next);
    for (int i = 0; i < SL_ASKS_EACH; i++)
        free(k->to[i]);
    *k = (struct sl_asking){0};
}

// --- which rows are whose ------------------------------------------------------------------------

static int grow(struct sl_asking *k, uint32_t n)
{
    if (n <= k->own_room)
        return SL_OK;
    free(k->own[0]);
    const uint64_t room = sl_pow2_at_least(n);
    uint32_t *all = malloc(room * 4 * sizeof *all);
    k->own[0] = all;
    k->own_room = all ? (uint32_t)room : 0;
    if (!all)
        return sl_fail(SL_ENOMEM, "no memory for a list of %" PRIu32 " rows", n);
    k->own[1] = all + room;
    k->elsewhere[0] = all + 2 * room;
    k->elsewhere[1] = all + 3 * room;
    return SL_OK;
}

static int split(struct sl_asking *k, const uint32_t *vertices, const uint32_t *to, uint32_t n,
                 uint32_t *n_own)
{
    const struct sl_shard *shard = &k->dataset->shard;
    uint32_t own = 0, others = 0;
    SL_TRY(grow(k, n));
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = vertices[i], place = to ? to[i] : i;
        if (v - k->table.first >= k->table.n) // of one before the first: a very large number
            return sl_fail(SL_ERANGE,
                           "features: vertex %" PRIu32 " at %" PRIu32 ", wanted one from %" PRIu64
                           " to before %" PRIu64,
                           v, i, k->table.first, k->table.first + k->table.n);
        const struct sl_shard_place at = sl_shard_place(shard, v);
        if (at.part == shard->index) {
            k->own[0][own] = (uint32_t)k->table.rows_before + at.row;
            k->own[1][own++] = place;
        } else {
            k->elsewhere[0][others] = v;
            k->elsewhere[1][others++] = place;
        }
    }
    *n_own = own;
    return SL_OK;
}

// --- asks ----------------------------------------------------------------------------------------

// A reading: asks are written and taken in turns.
struct reading {
    struct sl_ask ask[SL_ASKS_EACH];
    uint32_t sent, taken; // asks
    uint32_t at, n;       // rows of others: that have been asked for, and all
};

// The vertices of one ask, those of a node side by side. What goes where is noted in to[].
static void write_ask(struct sl_asking *k, struct reading *r)
{
    const struct sl_shard *shard = &k->dataset->shard;
    const struct sl_ask *ask = &r->ask[r->sent % SL_ASKS_EACH];
    uint32_t *to = k->to[r->sent % SL_ASKS_EACH], *end = ask->head->end;
    const uint32_t n_nodes = k->asks.shape.n_nodes,
                   n = SL_MIN(k->asks.shape.max_rows, r->n - r->at);
    const uint32_t *vertices = k->elsewhere[0] + r->at, *places = k->elsewhere[1] + r->at;
    memset(end, 0, n_nodes * sizeof *end);
    for (uint32_t i = 0; i < n; i++)
        end[sl_shard_place(shard, vertices[i]).part]++;
    for (uint32_t node = 0, at = 0; node < n_nodes; node++) {
        k->next[node] = at;
        at += end[node];
        end[node] = at;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = k->next[sl_shard_place(shard, vertices[i]).part]++;
        ask->vertices[at] = vertices[i];
        to[at] = places[i];
    }
    ask->head->n = n;
    ask->head->row_bytes = (uint32_t)k->table.row_bytes;
    r->at += n;
}

// As many as may be under way.
static void send(struct sl_asking *k, struct reading *r)
{
    while (r->at < r->n && r->sent - r->taken < SL_ASKS_EACH) {
        struct sl_ask *ask = &r->ask[r->sent % SL_ASKS_EACH];
        if (!sl_asks_take(&k->asks, k->worker, ask))
            return;
        write_ask(k, r);
        sl_asks_send(k->arena, &k->asks, ask);
        r->sent++;
        SL_FAILPOINT(TRAINER_ASKED);
    }
}

// The oldest ask's rows, once they are there.
static int take(struct sl_asking *k, const struct sl_heartbeat *pulse, struct reading *r, char *out)
{
    const struct sl_ask *ask = &r->ask[r->taken % SL_ASKS_EACH];
    const uint32_t *to = k->to[r->taken % SL_ASKS_EACH];
    const size_t bytes = k->table.row_bytes;
    for (;;) {
        const uint32_t seen = sl_event_read(&ask->head->answered);
        if (sl_ask_state(ask) == SL_ASK_ANSWERED)
            break;
        if (sl_heartbeat_stopping(pulse))
            return SL_EABORTED;
        sl_event_wait(&ask->head->answered, seen, SL_ARENA_WAIT_MS);
    }
    for (uint32_t i = 0; i < ask->head->n; i++)
        memcpy(out + to[i] * bytes, ask->rows + i * bytes, bytes);
    k->come.rows += ask->head->n;
    k->come.bytes += ask->head->n * bytes;
    sl_asks_give_back(k->arena, &k->asks, ask);
    r->taken++;
    return SL_OK;
}

static int take_all(struct sl_asking *k, const struct sl_heartbeat *pulse, struct reading *r,
                    void *out)
{
    while (r->taken < r->sent || r->at < r->n) {
        if (r->taken < r->sent) {
            SL_TRY(take(k, pulse, r, out));
        } else if (sl_heartbeat_stopping(pulse)) {
            return SL_EABORTED;
        } else {
            struct sl_event *progress = &k->arena->h->progress;
            sl_event_wait(progress, sl_event_read(progress), NO_SLOT_MS);
        }
        send(k, r);
    }
    return SL_OK;
}

int sl_asking_read(struct sl_asking *k, const struct sl_heartbeat *pulse, sl_read_own own,
                   void *ctx, const uint32_t *vertices, const uint32_t *to, uint32_t n, void *out)
{
    struct reading r = {0};
    uint32_t n_own = 0;
    if (n == 0)
        return SL_OK;
    // What is no vertex is told of the last type's.
    k->table = sl_dataset_table_of(k->dataset, vertices[0]);
    SL_TRY(split(k, vertices, to, n, &n_own));
    r.n = n - n_own;
    send(k, &r);
    int rc = n_own ? own(ctx, k->own[0], k->own[1], n_own, out) : SL_OK;
    if (rc == SL_OK)
        rc = take_all(k, pulse, &r, out);
    for (; r.taken < r.sent; r.taken++)
        sl_asks_give_back(k->arena, &k->asks, &r.ask[r.taken % SL_ASKS_EACH]);
    return rc;
}
