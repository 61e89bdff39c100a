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
 * A GRAPH WITH TYPES is drawn in steps: a relation in a hop. What is above holds for each step in
 * place of a hop. A step's rows are the vertices of its target type that were known before the hop,
 * and its first appearances get numbers behind the known vertices of its source type, which the
 * steps of that type hand on from one to the next. One table and one row of values serve all types,
 * since a vertex has one id. Where rows are kept from hop to hop each relation has arrays of its
 * own, and each step values of its own, as other relations come in between; a relation that a hop
 * leaves out gets empty rows there. A plain graph is one type and one relation, whose steps are its
 * hops. Which steps there are, and where each finds its counts, the processor knows beforehand.
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

// Values that the table goes down through before it is cleared. Few under emulation, so that its
// tests use them up.
#ifdef SL_SIMT
static const uint64_t STAMPS = 1 << 14;
#else
static const uint64_t STAMPS = UINT32_MAX;
#endif

enum { ALIGN = 256 }; // bytes, of arrays

// A batch that is under way.
struct attempt {
    struct sl_draw_args args; // its seeds have been copied
    struct sl_rank_index ranks;
    struct sl_draw_steps plan;
    struct sl_draw_batch batch;
    struct sl_draw_hop *hop; // of each step
    uint32_t *degrees;
    struct sl_draw_vertices
        *vertices;                // (n_steps + SL_DRAW_FOUND) on the device, behind the control
    struct sl_draw_edges *edges;  // (n_steps)
    uint32_t **nodes;             // (n_types) on the device
    struct sl_draw_array *arrays; // of a delivery by relation, on the device
    uint32_t n_arrays;
};

struct sl_draw_state {
    struct sl_draw_wanted wanted;
    uint32_t n_types, n_relations; // that there is room for in
    void *lists;                   // all that has so many elements
    uint32_t *told;                // what struct sl_drawn has by type and relation
    unsigned char *slab;
    uint64_t slab_bytes;
    unsigned long long *table;
    uint64_t slots, limit; // entries; where the last batch began
    unsigned char *host;   // pinned: the control as it was copied back, then what is copied there
    uint64_t host_bytes;
    bool is_drawing;    // draw() has asked for
    struct attempt now; // ... this, and nobody has waited for it
};

static int check(struct sl_draw_state **state, const struct sl_draw_args *args)
{
    if (!state)
        return sl_fail(SL_EINVAL, "draw: state is NULL");
    if (*state && (*state)->is_drawing)
        return sl_fail(SL_EINVAL, "draw: the state has a batch that nobody has waited for");
    return sl_draw_check(args);
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

// The control, and behind it what all steps count.
static uint64_t control_bytes(const struct sl_draw_steps *p)
{
    return sizeof(struct sl_draw_control) +
           p->n_steps * (sizeof(struct sl_draw_edges) + sizeof(struct sl_draw_vertices)) +
           SL_DRAW_FOUND * sizeof(struct sl_draw_vertices);
}

static uint64_t cleared_bytes(const struct sl_draw_steps *p)
{
    return sl_align_up(control_bytes(p), ALIGN) + p->values / 32 * sizeof(struct sl_rank_word);
}

// Where step counts are in a control, on the device or as it was copied back.
static const struct sl_draw_edges *edges_behind(const struct sl_draw_control *c)
{
    return (const struct sl_draw_edges *)(c + 1);
}

static const struct sl_draw_vertices *vertices_behind(const struct sl_draw_control *c,
                                                      const struct sl_draw_steps *p)
{
    return (const struct sl_draw_vertices *)(edges_behind(c) + p->n_steps);
}

// A step's arrays, as large as those of step `size`.
static void place_step(struct cursor *c, const struct sl_draw_args *args,
                       const struct sl_draw_steps *p, const struct sl_draw_step *size,
                       struct sl_draw_hop *hop)
{
    const uint64_t rows = *sl_draw_rows(p, size->hop, p->types->relation[size->relation].target);
    hop->indptr = (uint32_t *)place(c, rows + 1, sizeof *hop->indptr);
    hop->indices = (uint32_t *)place(c, size->edges, sizeof *hop->indices);
    if (sl_draw_counts_visits(args))
        hop->visits = (float *)place(c, size->edges, sizeof *hop->visits);
    if (args->edge_ids)
        hop->edge_ids = (uint64_t *)place(c, size->edges, sizeof *hop->edge_ids);
}

// Each step's own, and the most that any wants of what they share.
struct shared_room {
    uint64_t rows, padded, scratch;
};

static struct shared_room lay_out_steps(struct cursor *c, struct attempt *a)
{
    const struct sl_draw_args *args = &a->args;
    const struct sl_draw_steps *p = &a->plan;
    const struct sl_draw_sampler *sampler = sl_draw_sampler_of(args->kind);
    struct shared_room room = {0, 0, 0};
    uint64_t value = sl_align_up(args->n_seeds, 32);
    for (uint32_t k = 0; k < p->n_steps; k++) {
        const struct sl_draw_step *step = &p->step[k];
        struct sl_draw_hop *hop = &a->hop[k];
        const uint64_t rows =
            *sl_draw_rows(p, step->hop, p->types->relation[step->relation].target);
        if (step->earlier != SL_DRAW_NO_STEP)
            *hop = a->hop[step->earlier];
        else
            place_step(c, args, p, args->expand_new ? sl_draw_last(p, step->relation) : step, hop);
        if (step->earlier == SL_DRAW_NO_STEP || !sl_draw_shares_values(args, p)) {
            hop->first_value = (uint32_t)value;
            value += step->fanout != 0 ? sl_align_up(step->edges, 32) : 0;
        }
        room.rows = SL_MAX(room.rows, rows);
        room.padded = SL_MAX(room.padded, rows * step->take);
        if (sampler->scratch_bytes && step->fanout != 0)
            room.scratch = SL_MAX(room.scratch, sampler->scratch_bytes(args, step->fanout, rows));
    }
    return room;
}

// The arrays that a delivery by relation has at most: of edges three a step, of nodes one a type.
static uint32_t most_arrays(const struct attempt *a)
{
    return a->args.types && a->args.deliver.to ? 3 * a->plan.n_steps + a->plan.types->n_types : 0;
}

// What all steps share, and each step's own, at their places; returns how much it is.
static uint64_t lay_out(unsigned char *base, struct attempt *a)
{
    struct cursor c = {base, 0};
    const struct sl_draw_args *args = &a->args;
    const struct sl_draw_steps *p = &a->plan;
    struct sl_draw_batch *b = &a->batch;
    // These two are cleared together.
    b->control = (struct sl_draw_control *)place(&c, control_bytes(p), 1);
    b->words = (struct sl_rank_word *)place(&c, p->values / 32, sizeof *b->words);
    a->edges = (struct sl_draw_edges *)edges_behind(b->control);
    a->vertices = (struct sl_draw_vertices *)vertices_behind(b->control, p);
    b->seeds = a->vertices + SL_DRAW_SEEDS;
    for (uint32_t t = 0; t < p->types->n_types; t++)
        a->nodes[t] = (uint32_t *)place(&c, *sl_draw_rows(p, p->n_hops, t), sizeof *a->nodes[t]);
    a->degrees = args->degree_of
                     ? (uint32_t *)place(&c, *sl_draw_rows(p, p->n_hops, 0), sizeof(uint32_t))
                     : NULL;
    const struct shared_room room = lay_out_steps(&c, a);
    uint64_t *start = (uint64_t *)place(&c, room.rows, sizeof *start);
    uint32_t *degree = (uint32_t *)place(&c, room.rows, sizeof *degree);
    uint32_t *count = (uint32_t *)place(&c, room.rows, sizeof *count);
    uint64_t *sums = (uint64_t *)place(&c, 1, SL_SCAN_BYTES);
    uint32_t *places = (uint32_t *)place(&c, room.padded, sizeof *places);
    float *visits =
        (float *)place(&c, sl_draw_counts_visits(args) ? room.padded : 0, sizeof *visits);
    uint64_t *ids = NULL;
    if (args->edge_ids && room.padded > 0)
        ids = (uint64_t *)place(&c, room.padded, sizeof *ids);
    uint32_t *more = (uint32_t *)place(&c, room.scratch, 1);
    for (uint32_t k = 0; k < p->n_steps; k++) {
        a->hop[k].start = start;
        a->hop[k].degree = degree;
        a->hop[k].count = count;
        a->hop[k].sums = sums;
        a->hop[k].padded = places;
        a->hop[k].padded_visits = visits;
        a->hop[k].padded_ids = ids;
        a->hop[k].scratch = more;
    }
    if (most_arrays(a) > 0)
        a->arrays = (struct sl_draw_array *)place(&c, most_arrays(a), sizeof *a->arrays);
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

// In the host's memory: the seeds, the control as it was copied back, and the list of arrays.
static uint64_t control_at(const struct attempt *a)
{
    return sl_align_up((uint64_t)a->args.n_seeds * sizeof(uint32_t), ALIGN);
}

static uint64_t arrays_at(const struct attempt *a)
{
    return sl_align_up(control_at(a) + control_bytes(&a->plan), ALIGN);
}

static int grow_host(struct sl_draw_state *s, const struct attempt *a)
{
    const uint64_t bytes = arrays_at(a) + most_arrays(a) * sizeof(struct sl_draw_array);
    if (bytes <= s->host_bytes)
        return SL_OK;
    unsigned char *old = s->host;
    const uint64_t old_bytes = s->host_bytes;
    s->host = (unsigned char *)sl_cuda_host_alloc(bytes);
    s->host_bytes = s->host ? bytes : 0;
    if (s->host && old) // of an attempt before, which is done: its seeds
        memcpy(s->host, old, SL_MIN(control_at(a), old_bytes));
    sl_cuda_host_free(old, old_bytes);
    return s->host ? SL_OK : sl_fail_prefix(SL_ENOMEM, "sampling: pinned memory of a batch");
}

// The table of the batch: as many entries as planned, and stamps below all that are in it.
static int prepare_table(struct sl_draw_state *s, const struct sl_draw_steps *p,
                         struct sl_draw_batch *b)
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

// What step k is told of its place among the others.
static void describe_step(const struct attempt *a, uint32_t k, struct sl_draw_hop *hop)
{
    const struct sl_draw_args *args = &a->args;
    const struct sl_draw_steps *p = &a->plan;
    const struct sl_draw_step *step = &p->step[k];
    const struct sl_draw_relation *r = &p->types->relation[step->relation];
    const uint32_t h = step->hop;
    hop->b = a->batch;
    hop->b.topology_indptr =
        (const uint64_t *)((uintptr_t)hop->b.topology_indptr + r->shift * sizeof(uint64_t));
    hop->b.seed = sl_rng_relation_seed(args->seed, step->relation);
    hop->hop = h;
    hop->fanout = step->fanout;
    hop->replace = args->replace;
    hop->rows = &a->vertices[*sl_draw_at(p, h, r->target)];
    hop->before = &a->vertices[step->before];
    // Edges that are there from hops before are counted with them, and keep their numbers.
    hop->known =
        sl_draw_shares_values(args, p) ? &a->vertices[*sl_draw_at(p, 0, r->source)] : hop->before;
    hop->found = &a->vertices[SL_DRAW_FOUND + k];
    hop->edges = &a->edges[k];
    hop->row_nodes = a->nodes[r->target];
    hop->nodes = a->nodes[r->source];
    hop->nodes_room = (uint32_t)*sl_draw_rows(p, p->n_hops, r->source);
    hop->first_row = NULL;
    hop->first_edge = NULL;
    if (step->earlier != SL_DRAW_NO_STEP) {
        hop->first_row = &a->vertices[*sl_draw_at(p, h - 1, r->target)].n;
        hop->first_edge = &a->edges[step->earlier].n;
    }
    hop->rows_room = (uint32_t)*sl_draw_rows(p, h, r->target);
    hop->next_rows_room = (uint32_t)*sl_draw_rows(p, h + 1, r->source);
    hop->edges_room = (uint32_t)step->edges;
    hop->take = step->take;
    hop->walk.paths = args->paths;
    hop->walk.length = args->length;
    hop->walk.along = r->along;
    hop->walk.restart = r->returns ? 1.0f : args->restart;
}

// What the attempt does not have yet, with the room that is wanted now.
static int prepare(struct sl_draw_state *s, struct attempt *a)
{
    memset(&a->batch, 0, sizeof a->batch);
    SL_TRY(sl_draw_make_steps(&s->wanted, &a->args, &a->plan));
    memset(a->hop, 0, a->plan.n_steps * sizeof *a->hop);
    describe(&a->args, &a->batch);
    uint64_t bytes = lay_out(NULL, a);
    SL_TRY(grow(&s->slab, &s->slab_bytes, bytes));
    SL_TRY(grow_host(s, a));
    SL_TRY(prepare_table(s, &a->plan, &a->batch));
    lay_out(s->slab, a);
    for (uint32_t k = 0; k < a->plan.n_steps; k++)
        describe_step(a, k, &a->hop[k]);
    return SL_OK;
}

static int draw_step(const struct sl_draw_args *args, const struct sl_draw_hop *hop)
{
    if (hop->fanout == 0)
        return sl_draw_uniform_indptr(hop);
    SL_TRY(sl_draw_sampler_of(args->kind)->draw(hop));
    return sl_draw_number(hop);
}

// The arrays of the block in their order, in the host's memory.
static uint32_t list_arrays(const struct attempt *a, struct sl_draw_array *out)
{
    const struct sl_draw_args *args = &a->args;
    const struct sl_draw_steps *p = &a->plan;
    uint32_t n = 0;
    for (uint32_t i = 0; i < (args->expand_new ? p->types->n_relations : p->n_steps); i++) {
        const struct sl_draw_step *step = args->expand_new ? sl_draw_last(p, i) : &p->step[i];
        if (!step)
            continue;
        const struct sl_draw_hop *hop = &a->hop[step - p->step];
        const uint32_t *ids = (const uint32_t *)(const void *)hop->edge_ids;
        const uint32_t *visits = (const uint32_t *)(const void *)hop->visits;
        out[n++] = {hop->indptr, hop->edges, &hop->rows->n, 1, 1, 0, 0};
        out[n++] = {hop->indices, hop->edges, &hop->edges->n, 1, 0, 0, 0};
        if (ids)
            out[n++] = {ids, hop->edges, &hop->edges->n, 2, 0, 0, 0};
        if (visits)
            out[n++] = {visits, hop->edges, &hop->edges->n, 1, 0, 0, 0};
    }
    for (uint32_t t = 0; t < p->types->n_types; t++)
        out[n++] = {a->nodes[t], NULL, &a->vertices[*sl_draw_at(p, p->n_hops, t)].n, 1, 0, 0, 0};
    return n;
}

static int deliver_runs(struct sl_draw_state *s, const struct attempt *a)
{
    const struct sl_draw_delivery *d = &a->args.deliver;
    const struct sl_draw_steps *p = &a->plan;
    struct sl_draw_array *host = (struct sl_draw_array *)(void *)(s->host + arrays_at(a));
    const uint32_t n = list_arrays(a, host), n_types = p->types->n_types;
    uint64_t nodes_room = 0;
    for (uint32_t t = 0; t < n_types; t++)
        nodes_room += *sl_draw_rows(p, p->n_hops, t);
    SL_CUDA_TRY(cudaMemcpyAsync(a->arrays, host, n * sizeof *host, cudaMemcpyHostToDevice,
                                sl_cuda_stream()));
    const struct sl_runs_delivery runs = {a->arrays,
                                          n,
                                          n_types,
                                          a->vertices,
                                          a->edges,
                                          p->n_steps + SL_DRAW_FOUND,
                                          p->n_steps,
                                          (unsigned char *)d->to,
                                          d->at,
                                          d->capacity,
                                          (unsigned char *)d->also,
                                          d->also_capacity};
    return sl_draw_deliver_runs(&a->batch, &runs, nodes_room);
}

static int deliver(struct sl_draw_state *s, const struct attempt *a)
{
    const struct sl_draw_delivery *d = &a->args.deliver;
    if (a->args.types)
        return deliver_runs(s, a);
    const struct sl_delivery delivery = {a->hop,
                                         a->args.n_hops,
                                         a->args.expand_new,
                                         a->degrees,
                                         d->ranks != NULL,
                                         a->ranks,
                                         (unsigned char *)d->to,
                                         d->at,
                                         d->capacity,
                                         (unsigned char *)d->also,
                                         d->also_capacity};
    return sl_draw_deliver(&a->batch, &delivery);
}

// Asks for all of it: the control is at the beginning of s->host when that is done.
static int run(struct sl_draw_state *s, const struct attempt *a)
{
    const struct sl_draw_args *args = &a->args;
    const struct sl_draw_steps *p = &a->plan;
    const struct sl_draw_batch *b = &a->batch;
    const uint64_t seeds_bytes = (uint64_t)args->n_seeds * sizeof(uint32_t);
    SL_CUDA_TRY(cudaMemsetAsync(b->control, 0, cleared_bytes(p), sl_cuda_stream()));
    if (seeds_bytes > 0)
        SL_CUDA_TRY(cudaMemcpyAsync(a->nodes[0], s->host, seeds_bytes, cudaMemcpyHostToDevice,
                                    sl_cuda_stream()));
    SL_TRY(sl_draw_seeds(b, a->nodes[0], args->n_seeds));
    for (uint32_t k = 0; k < p->n_steps; k++)
        SL_TRY(draw_step(args, &a->hop[k]));
    if (args->degree_of)
        SL_TRY(sl_draw_degrees(&a->hop[p->n_steps - 1], args->degree_of, a->degrees));
    if (args->deliver.to)
        SL_TRY(deliver(s, a));
    SL_CUDA_TRY(cudaMemcpyAsync(s->host + control_at(a), b->control, control_bytes(p),
                                cudaMemcpyDeviceToHost, sl_cuda_stream()));
    return SL_OK;
}

// A little more than was wanted: batches differ.
static uint64_t with_reserve(uint64_t wanted)
{
    return wanted + wanted / 8;
}

static const struct sl_draw_control *heard(const struct sl_draw_state *s, const struct attempt *a)
{
    return (const struct sl_draw_control *)(const void *)(s->host + control_at(a));
}

// What a step wanted beyond its room, for the next attempt: true if there was none such.
static bool learn_step(struct sl_draw_state *s, const struct sl_draw_steps *p, uint32_t k,
                       const struct sl_draw_edges *edges, const struct sl_draw_vertices *found)
{
    const struct sl_draw_step *step = &p->step[k];
    const struct sl_draw_types *t = p->types;
    const uint32_t source = t->relation[step->relation].source;
    uint64_t *more_edges = &s->wanted.edges[(uint64_t)step->hop * t->n_relations + step->relation];
    uint64_t *more_rows = &s->wanted.rows[(uint64_t)(step->hop + 1) * t->n_types + source];
    bool fits = true;
    if (edges->wanted > step->edges) {
        *more_edges = SL_MAX(*more_edges, with_reserve(edges->wanted));
        fits = false;
    }
    if (step->fanout != 0 && found->wanted > *sl_draw_rows(p, step->hop + 1, source)) {
        *more_rows = SL_MAX(*more_rows, with_reserve(found->wanted));
        fits = false;
    }
    return fits;
}

// SL_OK, or SL_EAGAIN where something had no room: the state then knows what is wanted.
static int learn(struct sl_draw_state *s, const struct attempt *a)
{
    const struct sl_draw_steps *p = &a->plan;
    const struct sl_draw_control *c = heard(s, a);
    const struct sl_draw_edges *edges = edges_behind(c);
    const struct sl_draw_vertices *vertices = vertices_behind(c, p);
    bool fits = true;
    uint64_t all = 0;
    if (c->full) { // nobody has counted what there is beyond
        s->wanted.slots = SL_MAX(s->wanted.slots, 2 * p->slots);
        return SL_EAGAIN;
    }
    for (uint32_t k = 0; k < p->n_steps; k++) {
        if (edges[k].wanted > UINT32_MAX)
            return sl_fail(SL_EUNSUPPORTED,
                           "draw: hop %u has %llu edges: fewer than 2^32 are supported in a batch; "
                           "use smaller batches or fanouts",
                           p->step[k].hop, (unsigned long long)edges[k].wanted);
        fits = learn_step(s, p, k, &edges[k], &vertices[SL_DRAW_FOUND + k]) && fits;
    }
    if (!fits)
        return SL_EAGAIN;
    for (uint32_t t = 0; t < p->types->n_types; t++)
        all += vertices[*sl_draw_at(p, p->n_hops, t)].n;
    s->wanted.largest = SL_MAX(s->wanted.largest, all);
    return SL_OK;
}

// What a graph with types has by type and relation.
static void tell_types(const struct sl_draw_state *s, const struct attempt *a, struct sl_drawn *out)
{
    const struct sl_draw_steps *p = &a->plan;
    const struct sl_draw_edges *edges = edges_behind(heard(s, a));
    const struct sl_draw_vertices *vertices = vertices_behind(heard(s, a), p);
    const uint32_t n_types = p->types->n_types, n_relations = p->types->n_relations;
    uint32_t *nodes = s->told, *drawn = s->told + (p->n_hops + 1) * n_types;
    for (uint32_t i = 0; i < (p->n_hops + 1) * n_types; i++)
        nodes[i] = vertices[p->at[i]].n;
    memset(drawn, 0, (uint64_t)p->n_hops * n_relations * sizeof *drawn);
    for (uint32_t k = 0; k < p->n_steps; k++)
        drawn[p->step[k].hop * n_relations + p->step[k].relation] = edges[k].n;
    out->type_nodes = nodes;
    out->relation_edges = drawn;
}

static void tell(const struct sl_draw_state *s, const struct attempt *a, struct sl_drawn *out)
{
    const struct sl_draw_steps *p = &a->plan;
    const struct sl_draw_control *c = heard(s, a);
    const struct sl_draw_vertices *vertices = vertices_behind(c, p);
    memset(out, 0, sizeof *out);
    out->end = c->end;
    for (uint32_t i = 0; i < SL_DRAW_PLACES; i++)
        out->read[i] = c->read[i];
    if (a->args.types) {
        tell_types(s, a, out);
        return;
    }
    out->n_nodes[0] = vertices[SL_DRAW_SEEDS].n;
    for (uint32_t h = 0; h < p->n_hops; h++) {
        out->n_nodes[h + 1] = vertices[SL_DRAW_FOUND + h].n;
        out->n_edges[h] = edges_behind(c)[h].n;
        out->indptr[h] = a->hop[h].indptr;
        out->indices[h] = a->hop[h].indices;
        out->visits[h] = a->hop[h].visits;
        out->edge_ids[h] = a->hop[h].edge_ids;
    }
    out->nodes = a->nodes[0];
    out->degrees = a->degrees;
}

// --- entry ---------------------------------------------------------------------------------------

// Room for what there is of each step, type and relation. All that is known of batches begins anew
// with a graph of more of them.
static int make_lists(struct sl_draw_state *s, const struct sl_draw_args *args)
{
    struct attempt *a = &s->now;
    const uint64_t types = args->types ? args->types->n_types : 1;
    const uint64_t relations = args->types ? args->types->n_relations : 1;
    const uint64_t by_type = (SL_DRAW_HOPS_MAX + 1) * types, steps = SL_DRAW_HOPS_MAX * relations;
    if (types == s->n_types && relations == s->n_relations)
        return SL_OK;
    struct cursor c = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        s->wanted.rows = (uint64_t *)place(&c, by_type, sizeof *s->wanted.rows);
        s->wanted.edges = (uint64_t *)place(&c, steps, sizeof *s->wanted.edges);
        s->told = (uint32_t *)place(&c, by_type + steps, sizeof *s->told);
        a->plan.step = (struct sl_draw_step *)place(&c, steps, sizeof *a->plan.step);
        a->plan.rows = (uint64_t *)place(&c, by_type, sizeof *a->plan.rows);
        a->plan.at = (uint32_t *)place(&c, by_type, sizeof *a->plan.at);
        a->plan.last = (uint32_t *)place(&c, relations, sizeof *a->plan.last);
        a->nodes = (uint32_t **)place(&c, types, sizeof *a->nodes);
        a->hop = (struct sl_draw_hop *)place(&c, steps, sizeof *a->hop);
        if (pass == 0) {
            free(s->lists);
            s->n_types = s->n_relations = 0;
            s->lists = calloc(1, c.at);
            if (!s->lists)
                return sl_fail(SL_ENOMEM, "draw: no memory for %llu steps",
                               (unsigned long long)steps);
            c.base = (unsigned char *)s->lists;
            c.at = 0;
        }
    }
    s->n_types = (uint32_t)types;
    s->n_relations = (uint32_t)relations;
    return SL_OK;
}

static int begin(struct sl_draw_state *s, const struct sl_draw_args *args)
{
    const uint64_t seeds_bytes = (uint64_t)args->n_seeds * sizeof(uint32_t);
    struct attempt *a = &s->now;
    a->args = *args;
    if (args->deliver.ranks)
        a->ranks = *args->deliver.ranks;
    SL_TRY(make_lists(s, args));
    SL_TRY(prepare(s, a));
    if (seeds_bytes > 0)
        memcpy(s->host, args->seeds, seeds_bytes);
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
        int rc = learn(s, a);
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
    free(state->lists);
    free(state);
}

uint64_t sl_cuda_draw_bytes(const struct sl_draw_state *state)
{
    return state ? state->slab_bytes + state->slots * sizeof *state->table : 0;
}
