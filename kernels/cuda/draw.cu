/*
 * draw.cu - all hops of a batch on the GPU, integer for integer what the processor's samplers draw.
 *
 * PROBLEM. A hop needs to know how many vertices the hops before it found, and a processor that
 * asks waits a round trip for each answer, in which the GPU does nothing. Local numbers are by
 * first appearance in the order of rows and slots, but a GPU's threads come in no order.
 *
 * COUNTS stay on the GPU (struct sl_draw_control). Grids are sized by bounds, blocks go round until
 * the counts there are done, and the processor asks (draw) and waits (draw_wait) once a batch, with
 * another batch in the thread's other queue meanwhile if it likes. Arrays are sized by bounds as
 * well where these are moderate: rows times fanout, at most the vertices of the graph. Beyond that,
 * and where there is no bound (all neighbours), they have the size of what batches wanted so far.
 * A hop that finds its arrays too small says what it wants and does nothing, and nothing follows
 * it; the processor sees that at the end, makes room and draws the batch again, which gives the
 * same integers, as all of it follows from counters. So memory grows in the first
 * batches, with the largest batch and not with the graph, and afterwards nothing is allocated.
 *
 * A HOP, uniform:
 *
 *     indptr     a scan of what rows take (scan.cuh): min(degree, fanout), or with replacement
 *                the fanout of those that have neighbours; keeps starts and degrees
 *     draw       each row's positions, its neighbours, their places in the table    pass 1 of edges
 *     rank       a scan of one bit an edge
 *     look_up    from places to numbers; the list of vertices                       pass 2 of edges
 *
 * which is 4 launches, and 6 where rows and edges fill several blocks. By weight and by walks a row
 * knows how many neighbours it has when it has drawn them: they are put into `take` places a row,
 * counted, and moved together by the kernel that puts them into the table (settle): 5 to 7. A batch
 * is that for each hop, and 2 copies, a memset and a launch for the seeds, and one for the degrees:
 * 17 to 23 commands for three uniform hops.
 *
 * WHERE A VERTEX IS DRAWN ONCE (expand_new), a hop's rows and edges are those of the hop before
 * with the new ones behind them. So all hops have the same arrays, each a longer part of them, and
 * so they are delivered. A hop begins at what the one before has come to (first_row,
 * first_edge), on the GPU; counts, values and rooms of edges go on from hop to hop.
 *
 * NUMBERS. FastGL's Fused-Map (section 4.3) numbers a vertex while it is put into the hash table,
 * by what an atomic add returns: one pass over the edges to fill, one to look up, no waiting
 * between. The numbers then depend on who came first. DGL's order of phases (fill; flag and number;
 * look up) has them by first appearance, and reads the table a third time for it. This one takes no
 * more passes than Fused-Map and its numbers are by first appearance:
 *
 *   - A value is the position of an edge among all of the batch: seeds are 0 .. n - 1, and each
 *     hop's edges begin at a multiple of 32 behind those of the hop before. What comes first has
 *     the smaller value.
 *   - The table keeps the smallest value of each vertex (atomic minimum), and that atomic's result
 *     says whose value was displaced. One bit a value, turned when it becomes the smallest and
 *     turned back when it is displaced, is on in the end exactly for the first appearances. Turns
 *     are exclusive ors, which commute: no order of threads can change the outcome.
 *   - A vertex's number is how many bits are on before its value: a scan over the words of bits,
 *     1/32 of the edges, gives that for the words' beginnings and a population count does the rest.
 *     The table is never written again: it has values, not numbers, and later hops find the same
 *     number by the same count. What is a bit's word and the count before it are 8 bytes, 1/4 byte
 *     an edge, which stay in the cache.
 *
 * Three-phase is there for comparison (fused = false): the same tables, with vertices written and
 * read again, and a pass that reads the table to flag first appearances in place of turns. Both
 * give the same numbers. Beside what drawing reads (a neighbour: a sector of 32 bytes, where a row
 * is longer than its fanout), an edge moves
 *
 *     fused          table 32 + its place 4 + place 4 + table 32 + number 4  =  76 bytes
 *     three-phase    + vertex 4 + 4 + place 4 + table 32                     = 120 bytes
 *
 * of which a table that fits the second-level cache takes nothing from memory: then fused moves 12.
 * The floor of any method with a table is one visit to it and the number, 36 bytes. These are
 * counted from the code, not measured: no GPU has run it yet.
 *
 * THE TABLE is open addressing with 8 bytes an entry, vertex << 32 | base + value, sized to twice
 * the vertices of the largest batch so far, and a batch uses as much of it as it can need. Batches
 * go down: each takes its base below the one before, so that an entry whose low half is not below
 * the batch's limit is of an earlier batch, which is to say empty. Nothing is cleared but once in
 * 2^32 edges. It is claimed by compare-and-swap, and after that only its value falls; what would
 * change nothing is seen by a plain read first. A search of SL_DRAW_PROBES entries counts as a full
 * table: the batch is drawn again with a larger one.
 *
 * LIMITS. Edges of all hops together stay below 2^32, and vertices too. Seeds are looked at by the
 * processor, duplicates are found by the table; both fail the batch.
 *
 * FAILURE. Nothing is written beyond an array for any input: all places follow from counts that
 * were compared with the room. A failed draw leaves a state that can be drawn with again.
 */
#include "kernels/cuda/draw.cuh"

#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/runtime.cuh"
#include "kernels/khop_internal.h"
#include "kernels/walk_internal.h"
#include "kernels/weighted_internal.h"

// Room for a hop's edges, and for vertices, below which nothing is saved. Small under emulation, so
// that its tests outgrow them, and use up the stamps.
#ifdef SL_SIMT
enum { FIRST_EDGES = 1 << 10, FIRST_NODES = 1 << 8 };
static const uint64_t STAMPS = 1 << 14;
#else
enum { FIRST_EDGES = 1 << 22, FIRST_NODES = 1 << 22 };
static const uint64_t STAMPS = UINT32_MAX;
#endif

enum {
    ALIGN = 256,        // bytes, of arrays
    LEAST_SLOTS = 64,   // of the table
    ALL_ROWS_EDGES = 4, // edges a row to begin with where there is no bound
};

// The room of one attempt.
struct plan {
    uint32_t n_hops;
    uint64_t rows[SL_DRAW_HOPS_MAX + 1], edges[SL_DRAW_HOPS_MAX];
    uint32_t take[SL_DRAW_HOPS_MAX]; // places a row; 0 where rows are counted first
    uint64_t values;                 // of the table: a multiple of 32
    uint64_t slots;                  // of the table, a power of two
};

// A batch that is under way.
struct attempt {
    struct sl_draw_args args; // its seeds have been copied
    struct sl_rank_index ranks;
    struct plan plan;
    struct sl_draw_batch batch;
    struct sl_draw_hop hop[SL_DRAW_HOPS_MAX];
    uint32_t *degrees;
};

struct sl_draw_state {
    // What batches wanted where the first room was too small.
    uint64_t wanted_rows[SL_DRAW_HOPS_MAX + 1], wanted_edges[SL_DRAW_HOPS_MAX];
    uint64_t largest;      // vertices of a batch
    uint64_t wanted_slots; // entries, where the table was full
    unsigned char *slab;
    uint64_t slab_bytes;
    unsigned long long *table;
    uint64_t slots, limit; // entries; where the last batch began
    unsigned char *host;   // pinned: the control as it was copied back, then the seeds
    uint64_t host_bytes;
    bool is_drawing;    // draw() has asked for
    struct attempt now; // ... this, and nobody has waited for it
};

// --- arguments -----------------------------------------------------------------------------------

#define SAMPLER(extra, constant, word, kernel, flags) &sl_draw_##kernel,
static const struct sl_draw_sampler *const samplers[] = {SL_SAMPLER_LIST(SAMPLER, )};
#define FLAGS(extra, constant, word, kernel, flags) flags,
static const unsigned sampler_flags[] = {
    SL_SAMPLER_LIST(FLAGS, )}; // the plug-in has no data of others

static bool counts_visits(const struct sl_draw_args *args)
{
    return sampler_flags[args->kind] & SL_SAMPLER_VISITS;
}

// Whatever can be wrong with a hop by itself, in the words of the processor's samplers.
static int check_hop(const struct sl_draw_args *args, uint32_t h)
{
    uint32_t n = args->n_seeds;
    uint64_t id;
    struct sl_khop_args hop;
    memset(&hop, 0, sizeof hop);
    hop.topology = args->topology;
    hop.hop = h;
    hop.fanout = args->fanout[h];
    hop.replace = args->replace;
    hop.n_dst = n;
    hop.n_nodes = &n;
    hop.nodes_capacity = n;
    hop.paths = args->paths;
    hop.length = args->length;
    hop.restart = args->restart;
    hop.edge_ids = args->edge_ids ? &id : NULL;
    return samplers[args->kind]->check(&hop);
}

static int check_delivery(const struct sl_draw_args *args)
{
    const struct sl_draw_delivery *d = &args->deliver;
    if (!d->to)
        return SL_OK;
    if ((uintptr_t)d->to % SL_DRAW_ALIGN || (uintptr_t)d->also % SL_DRAW_ALIGN ||
        d->at % SL_DRAW_ALIGN)
        return sl_fail(SL_EINVAL,
                       "draw: delivery at byte %llu of %p and of %p: wanted multiples of %d",
                       (unsigned long long)d->at, d->to, d->also, (int)SL_DRAW_ALIGN);
    if (d->ranks &&
        (d->ranks->n_nodes < args->topology->n_nodes || d->ranks->n_tiers > SL_RANK_TIERS_MAX ||
         (d->ranks->n_tiers > 0 && !d->ranks->words)))
        return sl_fail(SL_EINVAL,
                       "draw: an index of %u tiers and %llu vertices, of a graph of %llu: wanted "
                       "at most %d, as many, and its words",
                       d->ranks->n_tiers, (unsigned long long)d->ranks->n_nodes,
                       (unsigned long long)args->topology->n_nodes, (int)SL_RANK_TIERS_MAX);
    return SL_OK;
}

static int check(struct sl_draw_state **state, const struct sl_draw_args *args)
{
    if (!state || !args || !args->topology)
        return sl_fail(SL_EINVAL, "draw: state, args or topology is NULL");
    if (*state && (*state)->is_drawing)
        return sl_fail(SL_EINVAL, "draw: the state has a batch that nobody has waited for");
    if ((unsigned)args->kind >= SL_SAMPLER_KINDS)
        return sl_fail(SL_EINVAL, "draw: there is no sampler of kind %d", (int)args->kind);
    if (args->n_hops < 1 || args->n_hops > SL_DRAW_HOPS_MAX)
        return sl_fail(SL_EINVAL, "draw: %u hops: wanted 1 to %d", args->n_hops, SL_DRAW_HOPS_MAX);
    if (args->renumbering != SL_RENUMBER_FUSED && args->renumbering != SL_RENUMBER_THREE_PHASE)
        return sl_fail(SL_EINVAL, "draw: %d is no way of renumbering", (int)args->renumbering);
    if (args->n_seeds > 0 && !args->seeds)
        return sl_fail(SL_EINVAL, "draw: seeds is NULL");
    const uint64_t n_nodes = args->topology->n_nodes;
    if (n_nodes > UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "draw: a graph of %llu vertices: at most %u are supported on a GPU",
                       (unsigned long long)n_nodes, UINT32_MAX);
    for (uint32_t h = 0; h < args->n_hops; h++)
        SL_TRY(check_hop(args, h));
    for (uint32_t i = 0; i < args->n_seeds; i++)
        if (args->seeds[i] >= n_nodes)
            return sl_fail(SL_ERANGE, "draw: seed %u at position %u: the graph has %llu vertices",
                           args->seeds[i], i, (unsigned long long)n_nodes);
    return check_delivery(args);
}

// --- room ----------------------------------------------------------------------------------------

static uint64_t edges_room(const struct sl_draw_state *s, const struct sl_draw_args *args,
                           const struct plan *p, uint32_t h)
{
    const uint64_t rows = p->rows[h], most = (uint64_t)UINT32_MAX - 31;
    const uint64_t kept = args->expand_new && h > 0 ? p->edges[h - 1] : 0; // at most
    uint64_t room;
    if (p->take[h] > 0 || args->fanout[h] > 0) {
        uint64_t each = p->take[h] > 0 ? p->take[h] : (uint64_t)args->fanout[h];
        room = SL_MIN(kept + rows * each, SL_MAX(s->wanted_edges[h], (uint64_t)FIRST_EDGES));
    } else {
        uint64_t first = SL_MIN(kept + rows * ALL_ROWS_EDGES, (uint64_t)FIRST_EDGES);
        room = SL_MAX(s->wanted_edges[h], first);
    }
    return SL_MAX(SL_MIN(SL_MAX(room, kept), most), 1ull);
}

// A bound of what is known after hop h.
static uint64_t rows_after(const struct sl_draw_args *args, const struct plan *p, uint32_t h)
{
    return p->rows[args->expand_new ? 0 : h] + p->edges[h];
}

static int make_plan(const struct sl_draw_state *s, const struct sl_draw_args *args, struct plan *p)
{
    const uint64_t n_nodes = args->topology->n_nodes;
    memset(p, 0, sizeof *p);
    p->n_hops = args->n_hops;
    p->rows[0] = args->n_seeds;
    p->values = sl_align_up(args->n_seeds, 32);
    uint64_t inserted = 0; // at most, of a hop's vertices: before it is known what room they have
    const struct sl_draw_sampler *sampler = samplers[args->kind];
    for (uint32_t h = 0; h < p->n_hops; h++) {
        p->take[h] = sampler->take ? sampler->take(args, args->fanout[h]) : 0;
        p->edges[h] = edges_room(s, args, p, h);
        if (!args->expand_new || h + 1 == p->n_hops)
            p->values += sl_align_up(p->edges[h], 32);
        const uint64_t known = rows_after(args, p, h);
        inserted = SL_MAX(inserted, known);
        uint64_t rows = SL_MIN(known, SL_MAX(s->wanted_rows[h + 1], (uint64_t)FIRST_NODES));
        p->rows[h + 1] = SL_MAX(SL_MIN(rows, n_nodes), p->rows[h]);
    }
    if (p->values >= UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "draw: %u seeds and the edges of %u hops come to %llu: fewer than 2^32 are "
                       "supported in a batch; use smaller batches or fanouts",
                       args->n_seeds, args->n_hops, (unsigned long long)p->values);
    uint64_t expected = s->largest > 0 ? s->largest + s->largest / 4 : (uint64_t)FIRST_NODES;
    expected = SL_MIN(SL_MAX(expected, (uint64_t)args->n_seeds), p->rows[p->n_hops]);
    uint64_t wanted = SL_MIN(s->wanted_slots, sl_pow2_at_least(2 * SL_MIN(inserted, n_nodes)));
    p->slots = SL_MAX(sl_pow2_at_least(2 * expected), wanted);
    p->slots = SL_MIN(SL_MAX(p->slots, (uint64_t)LEAST_SLOTS), 1ull << 31);
    return SL_OK;
}

// --- memory --------------------------------------------------------------------------------------

struct cursor {
    unsigned char *base; // NULL: to find out how much it is
    uint64_t at;
};

static void *place(struct cursor *c, uint64_t n, uint64_t bytes_each)
{
    uint64_t at = c->at;
    c->at = sl_align_up(at + SL_MAX(n, 1ull) * bytes_each, ALIGN);
    return c->base ? c->base + at : NULL;
}

static uint64_t cleared_bytes(const struct plan *p)
{
    return sl_align_up(sizeof(struct sl_draw_control), ALIGN) +
           p->values / 32 * sizeof(struct sl_rank_word);
}

// A hop's arrays, as large as those of hop `size`.
static void place_hop(struct cursor *c, const struct sl_draw_args *args, const struct plan *p,
                      uint32_t size, struct sl_draw_hop *hop)
{
    hop->indptr = (uint32_t *)place(c, p->rows[size] + 1, sizeof *hop->indptr);
    hop->indices = (uint32_t *)place(c, p->edges[size], sizeof *hop->indices);
    if (counts_visits(args))
        hop->visits = (float *)place(c, p->edges[size], sizeof *hop->visits);
    if (args->edge_ids)
        hop->edge_ids = (uint64_t *)place(c, p->edges[size], sizeof *hop->edge_ids);
}

// What all hops share, and each hop's own, at their places; returns how much it is.
static uint64_t lay_out(unsigned char *base, const struct sl_draw_args *args, const struct plan *p,
                        struct sl_draw_batch *b, uint32_t **degrees, struct sl_draw_hop *hops)
{
    struct cursor c = {base, 0};
    const struct sl_draw_sampler *sampler = samplers[args->kind];
    uint64_t scratch = 0, padded = 0, rows = 0, value = sl_align_up(args->n_seeds, 32);
    // These two are cleared together.
    b->control = (struct sl_draw_control *)place(&c, 1, sizeof *b->control);
    b->words = (struct sl_rank_word *)place(&c, p->values / 32, sizeof *b->words);
    b->nodes = (uint32_t *)place(&c, p->rows[p->n_hops], sizeof *b->nodes);
    b->nodes_room = (uint32_t)p->rows[p->n_hops];
    *degrees = args->degree_of ? (uint32_t *)place(&c, p->rows[p->n_hops], 4) : NULL;
    for (uint32_t h = 0; h < p->n_hops; h++) {
        struct sl_draw_hop *hop = &hops[h];
        if (args->expand_new && h > 0) {
            *hop = hops[0];
        } else {
            place_hop(&c, args, p, args->expand_new ? p->n_hops - 1 : h, hop);
            hop->first_value = (uint32_t)value;
            value += sl_align_up(p->edges[h], 32);
        }
        rows = SL_MAX(rows, p->rows[h]);
        padded = SL_MAX(padded, p->rows[h] * p->take[h]);
        if (sampler->scratch_bytes)
            scratch = SL_MAX(scratch, sampler->scratch_bytes(args, h, p->rows[h]));
    }
    uint64_t *start = (uint64_t *)place(&c, rows, sizeof *start);
    uint32_t *degree = (uint32_t *)place(&c, rows, sizeof *degree);
    uint32_t *count = (uint32_t *)place(&c, rows, sizeof *count);
    uint64_t *sums = (uint64_t *)place(&c, 1, SL_SCAN_BYTES);
    uint32_t *places = (uint32_t *)place(&c, padded, sizeof *places);
    float *visits = (float *)place(&c, counts_visits(args) ? padded : 0, sizeof *visits);
    uint64_t *ids = NULL;
    if (args->edge_ids && padded > 0)
        ids = (uint64_t *)place(&c, padded, sizeof *ids);
    uint32_t *more = (uint32_t *)place(&c, scratch, 1);
    for (uint32_t h = 0; h < p->n_hops; h++) {
        hops[h].start = start;
        hops[h].degree = degree;
        hops[h].count = count;
        hops[h].sums = sums;
        hops[h].padded = places;
        hops[h].padded_visits = visits;
        hops[h].padded_ids = ids;
        hops[h].scratch = more;
    }
    return c.at;
}

// Device memory of at least `bytes`, with nothing of what was in it.
static int grow(unsigned char **p, uint64_t *have, uint64_t bytes)
{
    if (bytes <= *have)
        return SL_OK;
    sl_cuda_free(*p, *have);
    *have = 0;
    *p = (unsigned char *)sl_cuda_alloc(bytes);
    if (!*p)
        return sl_fail_prefix(SL_ENOMEM, "sampling: memory of a batch");
    *have = bytes;
    return SL_OK;
}

static int grow_host(struct sl_draw_state *s, uint64_t bytes)
{
    if (bytes <= s->host_bytes)
        return SL_OK;
    sl_cuda_host_free(s->host, s->host_bytes);
    s->host_bytes = 0;
    s->host = (unsigned char *)sl_cuda_host_alloc(bytes);
    if (!s->host)
        return sl_fail_prefix(SL_ENOMEM, "sampling: pinned memory of a batch");
    s->host_bytes = bytes;
    return SL_OK;
}

// The table of the batch: as many entries as planned, and stamps below all that are in it.
static int prepare_table(struct sl_draw_state *s, const struct plan *p, struct sl_draw_batch *b)
{
    bool clear = s->limit < p->values;
    if (p->slots > s->slots) {
        uint64_t bytes = s->slots * sizeof *s->table;
        unsigned char *table = (unsigned char *)s->table;
        s->table = NULL;
        s->slots = 0;
        int rc = grow(&table, &bytes, p->slots * sizeof *s->table);
        s->table = (unsigned long long *)table;
        SL_TRY(rc);
        s->slots = p->slots;
        clear = true;
    }
    if (clear) {
        s->limit = 0; // again, should this fail
        SL_CUDA_TRY(cudaMemsetAsync(s->table, 0xff, s->slots * sizeof *s->table, sl_cuda_stream()));
        s->limit = SL_MAX(STAMPS, p->values);
    }
    b->table = s->table;
    b->mask = (uint32_t)(p->slots - 1);
    b->shift = 32 - (uint32_t)__builtin_ctzll(p->slots);
    b->limit = (uint32_t)s->limit;
    s->limit -= p->values;
    b->base = (uint32_t)s->limit;
    return SL_OK;
}

// --- one attempt ---------------------------------------------------------------------------------

static void describe(const struct sl_draw_args *args, struct sl_draw_batch *b)
{
    const struct sl_topology_view *t = args->topology;
    b->topology_indptr = t->indptr;
    b->n_nodes = (uint32_t)t->n_nodes;
    b->topology_indices = (const uint32_t *)t->indices;
    b->wide = sl_dtype_bytes(t->indices_dtype) == 8;
    b->weight_prefix = t->weight_prefix;
    b->held = t->held;
    memcpy(b->sums, t->sums, sizeof b->sums);
    b->counts_reads = args->count_reads;
    b->seed = args->seed;
    b->stream = args->stream;
    b->epoch = args->epoch;
    b->batch = args->batch;
    b->fused = args->renumbering == SL_RENUMBER_FUSED;
    b->complaints = sl_cuda_complaints();
}

// What the attempt does not have yet, with the room that is wanted now.
static int prepare(struct sl_draw_state *s, struct attempt *a)
{
    const struct sl_draw_args *args = &a->args;
    memset(&a->batch, 0, sizeof a->batch);
    memset(a->hop, 0, sizeof a->hop);
    SL_TRY(make_plan(s, args, &a->plan));
    describe(args, &a->batch);
    uint64_t bytes = lay_out(NULL, args, &a->plan, &a->batch, &a->degrees, a->hop);
    SL_TRY(grow(&s->slab, &s->slab_bytes, bytes));
    SL_TRY(prepare_table(s, &a->plan, &a->batch));
    lay_out(s->slab, args, &a->plan, &a->batch, &a->degrees, a->hop);
    for (uint32_t h = 0; h < a->plan.n_hops; h++) {
        struct sl_draw_hop *hop = &a->hop[h];
        hop->b = a->batch;
        hop->hop = h;
        hop->fanout = args->fanout[h];
        hop->replace = args->replace;
        if (args->expand_new && h > 0) {
            hop->first_row = &a->batch.control->rows[h - 1];
            hop->first_edge = &a->batch.control->edges[h - 1];
        }
        hop->rows_room = (uint32_t)a->plan.rows[h];
        hop->next_rows_room = (uint32_t)a->plan.rows[h + 1];
        hop->edges_room = (uint32_t)a->plan.edges[h];
        hop->take = a->plan.take[h];
        hop->walk.paths = args->paths;
        hop->walk.length = args->length;
        hop->walk.restart = args->restart;
    }
    return SL_OK;
}

static int draw_hop(const struct sl_draw_args *args, const struct sl_draw_hop *hop)
{
    SL_TRY(samplers[args->kind]->draw(hop));
    return sl_draw_number(hop);
}

// Asks for all of it: the control is at the beginning of s->host when that is done.
static int run(struct sl_draw_state *s, const struct attempt *a)
{
    const struct sl_draw_args *args = &a->args;
    const struct sl_draw_batch *b = &a->batch;
    const uint64_t seeds_bytes = (uint64_t)args->n_seeds * sizeof(uint32_t);
    SL_CUDA_TRY(cudaMemsetAsync(b->control, 0, cleared_bytes(&a->plan), sl_cuda_stream()));
    if (seeds_bytes > 0)
        SL_CUDA_TRY(cudaMemcpyAsync(b->nodes, s->host + sizeof(struct sl_draw_control), seeds_bytes,
                                    cudaMemcpyHostToDevice, sl_cuda_stream()));
    SL_TRY(sl_draw_seeds(b, args->n_seeds));
    for (uint32_t h = 0; h < args->n_hops; h++)
        SL_TRY(draw_hop(args, &a->hop[h]));
    if (args->degree_of)
        SL_TRY(sl_draw_degrees(b, args->n_hops, args->degree_of, a->degrees));
    if (args->deliver.to) {
        const struct sl_delivery delivery = {a->hop,
                                             args->n_hops,
                                             args->expand_new,
                                             a->degrees,
                                             args->deliver.ranks != NULL,
                                             a->ranks,
                                             (unsigned char *)args->deliver.to,
                                             args->deliver.at,
                                             args->deliver.capacity,
                                             (unsigned char *)args->deliver.also,
                                             args->deliver.also_capacity};
        SL_TRY(sl_draw_deliver(b, &delivery));
    }
    SL_CUDA_TRY(cudaMemcpyAsync(s->host, b->control, sizeof *b->control, cudaMemcpyDeviceToHost,
                                sl_cuda_stream()));
    return SL_OK;
}

// A little more than was wanted: batches differ.
static uint64_t with_reserve(uint64_t wanted)
{
    return wanted + wanted / 8;
}

// SL_OK, or SL_EAGAIN where something had no room: the state then knows what is wanted.
static int learn(struct sl_draw_state *s, const struct plan *p)
{
    const struct sl_draw_control *c = (const struct sl_draw_control *)s->host;
    if (c->full) { // nobody has counted what there is beyond
        s->wanted_slots = SL_MAX(s->wanted_slots, 2 * p->slots);
        return SL_EAGAIN;
    }
    for (uint32_t h = 0; h < p->n_hops; h++) {
        if (c->wanted_edges[h] > UINT32_MAX)
            return sl_fail(SL_EUNSUPPORTED,
                           "draw: hop %u has %llu edges: fewer than 2^32 are supported in a batch; "
                           "use smaller batches or fanouts",
                           h, (unsigned long long)c->wanted_edges[h]);
        if (c->wanted_edges[h] > p->edges[h]) {
            s->wanted_edges[h] = with_reserve(c->wanted_edges[h]);
            return SL_EAGAIN;
        }
        if (c->wanted_rows[h + 1] > p->rows[h + 1]) {
            s->wanted_rows[h + 1] = with_reserve(c->wanted_rows[h + 1]);
            return SL_EAGAIN;
        }
    }
    s->largest = SL_MAX(s->largest, (uint64_t)c->wanted_rows[p->n_hops]);
    return SL_OK;
}

static void tell(const struct sl_draw_state *s, const struct attempt *a, struct sl_drawn *out)
{
    const struct sl_draw_control *c = (const struct sl_draw_control *)s->host;
    memset(out, 0, sizeof *out);
    out->n_nodes[0] = c->wanted_rows[0];
    for (uint32_t h = 0; h < a->plan.n_hops; h++) {
        out->n_nodes[h + 1] = c->wanted_rows[h + 1];
        out->n_edges[h] = (uint32_t)c->wanted_edges[h];
        out->indptr[h] = a->hop[h].indptr;
        out->indices[h] = a->hop[h].indices;
        out->visits[h] = a->hop[h].visits;
        out->edge_ids[h] = a->hop[h].edge_ids;
    }
    out->nodes = a->batch.nodes;
    out->degrees = a->degrees;
    out->end = c->end;
    for (uint32_t i = 0; i < SL_DRAW_PLACES; i++)
        out->read[i] = c->read[i];
}

// --- entry ---------------------------------------------------------------------------------------

static int begin(struct sl_draw_state *s, const struct sl_draw_args *args)
{
    const uint64_t seeds_bytes = (uint64_t)args->n_seeds * sizeof(uint32_t);
    struct attempt *a = &s->now;
    a->args = *args;
    if (args->deliver.ranks)
        a->ranks = *args->deliver.ranks;
    SL_TRY(grow_host(s, sizeof(struct sl_draw_control) + seeds_bytes));
    if (seeds_bytes > 0)
        memcpy(s->host + sizeof(struct sl_draw_control), args->seeds, seeds_bytes);
    SL_TRY(prepare(s, a));
    return run(s, a);
}

static int finish(struct sl_draw_state *s, struct sl_drawn *out)
{
    // Each hop's edges and vertices can be too many once, and again when an earlier hop's room
    // changed nothing for it; the table twofold each time.
    enum { ATTEMPTS = 4 * SL_DRAW_HOPS_MAX + 12 };
    struct attempt *a = &s->now;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        SL_TRY(sl_cuda_heard());
        int rc = learn(s, &a->plan);
        if (rc == SL_OK)
            tell(s, a, out);
        if (rc != SL_EAGAIN)
            return rc;
        SL_TRY(prepare(s, a));
        SL_TRY(run(s, a));
    }
    return sl_fail(SL_EDEVICE, "draw: batch %u of epoch %u found no room in %d attempts",
                   a->args.batch, a->args.epoch, (int)ATTEMPTS);
}

int sl_cuda_draw(struct sl_draw_state **state, const struct sl_draw_args *args)
{
    SL_TRY(check(state, args));
    SL_TRY(sl_cuda_enter());
    if (!*state)
        *state = (struct sl_draw_state *)calloc(1, sizeof **state);
    if (!*state)
        return sl_fail(SL_ENOMEM, "draw: no memory for %zu bytes", sizeof **state);
    SL_TRY(begin(*state, args));
    (*state)->is_drawing = true;
    return SL_OK;
}

int sl_cuda_draw_wait(struct sl_draw_state *state, struct sl_drawn *out)
{
    if (!state || !out || !state->is_drawing)
        return sl_fail(SL_EINVAL, "draw_wait: no state, no batch that it draws, or out is NULL");
    state->is_drawing = false;
    return finish(state, out);
}

void sl_cuda_draw_end(struct sl_draw_state *state)
{
    if (!state)
        return;
    sl_cuda_free(state->slab, state->slab_bytes);
    sl_cuda_free(state->table, state->slots * sizeof *state->table);
    sl_cuda_host_free(state->host, state->host_bytes);
    free(state);
}

uint64_t sl_cuda_draw_bytes(const struct sl_draw_state *state)
{
    return state ? state->slab_bytes + state->slots * sizeof *state->table : 0;
}
