#include "broker/telemetry/live_nodes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"

void sl_live_nodes_fini(struct sl_live_nodes *v)
{
    free(v->list);
    *v = (struct sl_live_nodes){0};
}

static bool is_told(const struct sl_arena *a)
{
    return a->base && sl_nodes_any(a) && a->h->spec.nodes.rank == 0;
}

static const struct sl_node_work *work_of(const struct sl_live_node *node, uint64_t i)
{
    return &node->work[i % SL_LIVE_NODE_ROWS];
}

static const struct sl_node_wire *wire_of(const struct sl_live_node *node, uint64_t i)
{
    return &node->wire[i % SL_LIVE_NODE_ROWS];
}

// A link's row is the newer of the two parts: it is sent with what the broker has written by then.
static void take(struct sl_live_node *node, const struct sl_arena *a, uint32_t rank)
{
    struct sl_node_work work;
    struct sl_node_wire wire;
    if (!sl_node_figures_work(a, rank, &work) || !sl_node_figures_wire(a, rank, &wire) ||
        (node->n > 0 && wire.at_ns <= wire_of(node, node->n - 1)->at_ns))
        return;
    wire.host[sizeof wire.host - 1] = '\0';
    node->work[node->n % SL_LIVE_NODE_ROWS] = work;
    node->wire[node->n % SL_LIVE_NODE_ROWS] = wire;
    node->n++;
    node->seen_ns = sl_now_ns();
}

int sl_live_nodes_poll(struct sl_live_nodes *v, const struct sl_arena *a)
{
    if (!is_told(a))
        return SL_OK;
    if (!v->list) {
        v->list = calloc(a->h->spec.nodes.n, sizeof *v->list);
        if (!v->list)
            return sl_fail(SL_ENOMEM, "no memory for the figures of %u nodes", a->h->spec.nodes.n);
        v->n = a->h->spec.nodes.n;
    }
    for (uint32_t i = 0; i < v->n; i++)
        take(&v->list[i], a, i);
    return SL_OK;
}

bool sl_live_nodes_are_last(const struct sl_live_nodes *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->list[i].n == 0 || !wire_of(&v->list[i], v->list[i].n - 1)->last)
            return false;
    return true;
}

// --- of one node ---------------------------------------------------------------------------------

// The newest rows of a node, and those that they are compared with.
struct rows {
    const struct sl_node_work *work, *work_before;
    const struct sl_node_wire *wire, *wire_before;
    double seconds; // between the wires; 0: there is nothing to compare
};

static bool rows_of(const struct sl_live_nodes *v, uint32_t rank, struct rows *out)
{
    const struct sl_live_node *node = &v->list[rank];
    if (node->n == 0)
        return false;
    const uint64_t last = node->n - 1;
    const uint64_t first = last - SL_MIN(last, (uint64_t)SL_LIVE_NODE_ROWS - 1);
    *out = (struct rows){.work = work_of(node, last),
                         .work_before = work_of(node, first),
                         .wire = wire_of(node, last),
                         .wire_before = wire_of(node, first)};
    out->seconds = (double)(out->wire->at_ns - out->wire_before->at_ns) * 1e-9;
    return true;
}

static double rate(double now, double before, double seconds)
{
    return seconds > 0 && now >= before ? (now - before) / seconds : NAN;
}

// Sums over the peers, but of the waits the greatest: a node waits for all at the same time.
static struct sl_node_peer sum_of(const struct sl_live_nodes *v, const struct sl_node_wire *wire)
{
    struct sl_node_peer sum = {0};
    for (uint32_t i = 0; i < v->n; i++) {
        const struct sl_node_peer *p = &wire->peer[i];
        sum.out_bytes += p->out_bytes;
        sum.in_bytes += p->in_bytes;
        sum.late_ns = SL_MAX(sum.late_ns, p->late_ns);
        sum.wire_ns = SL_MAX(sum.wire_ns, p->wire_ns);
        sum.rows += p->rows;
        sum.row_bytes += p->row_bytes;
        sum.asks += p->asks;
        sum.ask_ns += p->ask_ns;
    }
    return sum;
}

void sl_live_nodes_tell(const struct sl_live_nodes *v, uint32_t node, struct sl_stats_node *out)
{
    struct rows r;
    sl_fields_clear(&sl_stats_node_fields, out);
    out->rank = node;
    if (!rows_of(v, node, &r))
        return;
    const struct sl_node_peer now = sum_of(v, r.wire), before = sum_of(v, r.wire_before);
    const double work_seconds = (double)(r.work->at_ns - r.work_before->at_ns) * 1e-9;
    out->host = r.wire->host;
    out->samplers = (double)r.work->samplers;
    out->trainers = (double)r.work->trainers;
    out->batches = (double)r.work->batches;
    out->input_nodes = (double)r.work->input_nodes;
    out->sent_bytes = (double)now.out_bytes;
    out->received_bytes = (double)now.in_bytes;
    out->late_seconds = (double)now.late_ns * 1e-9;
    out->wire_seconds = (double)now.wire_ns * 1e-9;
    out->remote_rows = (double)now.rows;
    out->remote_bytes = (double)now.row_bytes;
    if (now.asks > 0) {
        out->remote_share = (double)now.rows / (double)SL_MAX(r.work->input_nodes, UINT64_C(1));
        out->remote_seconds = (double)now.ask_ns * 1e-9 / (double)now.asks;
    }
    out->memory = (double)r.work->memory_bytes;
    out->age = (double)(sl_now_ns() - v->list[node].seen_ns) * 1e-9;
    out->queue = (double)r.work->queue;
    out->batches_per_second =
        rate((double)r.work->batches, (double)r.work_before->batches, work_seconds);
    out->sent_per_second = rate((double)now.out_bytes, (double)before.out_bytes, r.seconds);
    out->received_per_second = rate((double)now.in_bytes, (double)before.in_bytes, r.seconds);
    out->draws = r.work->sampling;
    out->blocked = r.work->blocked;
    out->trains = r.work->training;
    out->extracts = r.work->extracting;
    out->waits = r.work->waiting;
    out->late = rate((double)now.late_ns, (double)before.late_ns, r.seconds) * 1e-9;
    out->wire = rate((double)now.wire_ns, (double)before.wire_ns, r.seconds) * 1e-9;
    out->asks = rate((double)now.ask_ns, (double)before.ask_ns, r.seconds) * 1e-9;
    out->cpu_load = r.work->cpu_load;
}

bool sl_live_nodes_next_wire(const struct sl_live_nodes *v, uint32_t *at, struct sl_stats_wire *out)
{
    struct rows r;
    while (v->n <= SL_STATS_WIRED_MAX && *at < v->n * v->n) {
        const uint32_t node = *at / v->n, from = *at % v->n;
        ++*at;
        if (node == from || !rows_of(v, node, &r))
            continue;
        const struct sl_node_peer *p = &r.wire->peer[from];
        *out = (struct sl_stats_wire){
            .node = node,
            .from = from,
            .bytes = (double)p->in_bytes,
            .late_seconds = (double)p->late_ns * 1e-9,
            .wire_seconds = (double)p->wire_ns * 1e-9,
            .rows = (double)p->rows,
            .row_bytes = (double)p->row_bytes,
            .asks = (double)p->asks,
            .ask_seconds = (double)p->ask_ns * 1e-9,
        };
        return true;
    }
    return false;
}

static void add_entry(cJSON *list, const struct sl_fields *fields, const void *record)
{
    cJSON *entry = cJSON_CreateObject();
    sl_fields_write(fields, record, entry);
    cJSON_AddItemToArray(list, entry);
}

cJSON *sl_live_nodes_list(const struct sl_live_nodes *v)
{
    cJSON *list = v->n ? cJSON_CreateArray() : NULL;
    struct sl_stats_node node;
    for (uint32_t i = 0; list && i < v->n; i++) {
        sl_live_nodes_tell(v, i, &node);
        add_entry(list, &sl_stats_node_totals, &node);
    }
    return list;
}

cJSON *sl_live_nodes_wire_list(const struct sl_live_nodes *v)
{
    cJSON *list = v->n ? cJSON_CreateArray() : NULL;
    struct sl_stats_wire wire;
    uint32_t at = 0;
    while (list && sl_live_nodes_next_wire(v, &at, &wire))
        add_entry(list, &sl_stats_wire_fields, &wire);
    return list;
}

// --- who waits for whom --------------------------------------------------------------------------

static const char *name_of(const struct sl_live_nodes *v, uint32_t rank,
                           char out[SL_LIVE_NODE_NAME_BYTES])
{
    const struct sl_live_node *node = &v->list[rank];
    snprintf(out, SL_LIVE_NODE_NAME_BYTES, "host %s (rank %u)",
             node->n ? wire_of(node, node->n - 1)->host : "?", rank);
    return out;
}

// Shares of the last seconds that a node's updates waited for another one.
struct waited {
    double late, wire;
};

static struct waited waited_of(const struct rows *r, uint32_t from)
{
    const struct sl_node_peer *now = &r->wire->peer[from], *before = &r->wire_before->peer[from];
    struct waited w = {0};
    if (r->seconds > 0) {
        w.late = (double)(now->late_ns - before->late_ns) * 1e-9 / r->seconds;
        w.wire = (double)(now->wire_ns - before->wire_ns) * 1e-9 / r->seconds;
    }
    return w;
}

// The node that the others wait for most, by the mean over them.
static uint32_t find_latest(const struct sl_live_nodes *v, double *late)
{
    uint32_t latest = 0;
    *late = 0;
    for (uint32_t from = 0; from < v->n; from++) {
        double sum = 0;
        struct rows r;
        for (uint32_t node = 0; node < v->n; node++)
            if (node != from && rows_of(v, node, &r))
                sum += waited_of(&r, from).late;
        if (sum / (v->n - 1) > *late) {
            *late = sum / (v->n - 1);
            latest = from;
        }
    }
    return latest;
}

// The mean over the nodes of how long each waits for the wire, and the pair that waits most.
static double find_wire(const struct sl_live_nodes *v, uint32_t *at, uint32_t *from)
{
    double sum = 0, most = 0;
    struct rows r;
    *at = 0;
    *from = 1;
    for (uint32_t node = 0; node < v->n; node++) {
        double mine = 0;
        for (uint32_t peer = 0; peer < v->n; peer++) {
            if (peer == node || !rows_of(v, node, &r))
                continue;
            const double wire = waited_of(&r, peer).wire;
            mine = SL_MAX(mine, wire);
            if (wire > most) {
                most = wire;
                *at = node;
                *from = peer;
            }
        }
        sum += mine;
    }
    return sum / v->n;
}

// Of this node's asks: the node that took longest in all.
static void find_asks(const struct sl_live_nodes *v, struct sl_live_node_names *names,
                      struct sl_live_node_waits *out)
{
    struct rows r;
    uint64_t most = 0;
    if (!rows_of(v, 0, &r))
        return;
    for (uint32_t peer = 1; peer < v->n; peer++) {
        const struct sl_node_peer *now = &r.wire->peer[peer], *before = &r.wire_before->peer[peer];
        const uint64_t ns = now->ask_ns - before->ask_ns, asks = now->asks - before->asks;
        if (asks == 0 || ns <= most)
            continue;
        most = ns;
        out->ask_seconds = (double)ns * 1e-9 / (double)asks;
        out->row_bytes = (double)(now->row_bytes - before->row_bytes) / r.seconds;
        out->asks_of = name_of(v, peer, names->asks_of);
    }
}

bool sl_live_nodes_waits(const struct sl_live_nodes *v, struct sl_live_node_names *names,
                         struct sl_live_node_waits *out)
{
    uint32_t at, from;
    struct rows r;
    *out = (struct sl_live_node_waits){0};
    if (!v->list || !rows_of(v, 0, &r) || !(r.seconds > 0))
        return false;
    const uint32_t latest = find_latest(v, &out->late);
    out->late_is_own = latest == 0;
    out->late_of = name_of(v, latest, names->late_of);
    if (rows_of(v, latest, &r)) {
        out->training = r.work->training;
        out->extracting = r.work->extracting;
        out->waiting = r.work->waiting;
    }
    out->wire = find_wire(v, &at, &from);
    out->wire_at = name_of(v, at, names->wire_at);
    out->wire_from = name_of(v, from, names->wire_from);
    if (rows_of(v, at, &r))
        out->wire_bytes = rate((double)r.wire->peer[from].in_bytes,
                               (double)r.wire_before->peer[from].in_bytes, r.seconds);
    find_asks(v, names, out);
    return true;
}
