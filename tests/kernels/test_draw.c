// draw: whole batches of a device, integer for integer what the reference draws hop by hop with its
// renumbering map.
#include "tests/kernels/harness.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

struct graph {
    struct sl_topology_view topology;
    uint32_t *degree_of; // anything: draw looks it up
};

static const struct {
    enum sl_dtype dtype;
    const char *name;
} dtypes[] = {
    {SL_DTYPE_I32, "i32"}, {SL_DTYPE_U64, "u64"}, {SL_DTYPE_U32, "u32"}, {SL_DTYPE_I64, "i64"}};

static const char *const way_names[] = {"fused", "three-phase"};

// What a batch of the reference has.
struct batch {
    uint32_t n_nodes[SL_DRAW_HOPS_MAX + 1], n_edges[SL_DRAW_HOPS_MAX];
    uint32_t *nodes, *indptr[SL_DRAW_HOPS_MAX], *indices[SL_DRAW_HOPS_MAX];
    float *visits[SL_DRAW_HOPS_MAX];
    uint64_t *edge_ids[SL_DRAW_HOPS_MAX];
};

// ---- graphs -------------------------------------------------------------------------------------

static void *widen(struct suite *t, const uint32_t *indices, uint64_t n)
{
    uint64_t *wide = t_alloc(t, n * sizeof *wide, 0);
    for (uint64_t e = 0; e < n; e++)
        wide[e] = indices[e];
    return wide;
}

// Vertex 0 is a hub of `hub` neighbours where that is not 0; a quarter of the others has none. Four
// of ten weights are zero, all of vertex 1's are, and the others go over twelve orders of
// magnitude.
static struct graph make_graph(struct suite *t, uint32_t n, uint32_t degree, uint32_t hub,
                               enum sl_dtype dtype)
{
    struct sl_csr_view csr = t_random_csr(t, n, n, degree, hub);
    struct graph g = {.topology = {.n_nodes = n, .indices_dtype = dtype}};
    uint64_t *indptr = t_alloc(t, ((size_t)n + 1) * sizeof *indptr, 0);
    float *weight = t_alloc(t, csr.n_edges * sizeof *weight, 0);
    double *prefix = t_alloc(t, csr.n_edges * sizeof *prefix, 0);
    for (uint32_t v = 0; v <= n; v++)
        indptr[v] = csr.indptr[v];
    for (uint32_t e = 0; e < csr.n_edges; e++) {
        static const float scale[] = {1e-6f, 1e-3f, 1.0f, 1.0f, 1e3f, 1e6f};
        weight[e] = t_random_below(t, 10) < 4
                        ? 0.0f
                        : scale[t_random_below(t, 6)] * (1.5f + t_random_float(t));
    }
    for (uint64_t e = n > 1 ? indptr[1] : 0; n > 1 && e < indptr[2]; e++)
        weight[e] = 0.0f;
    g.topology.indptr = indptr;
    g.topology.indices =
        sl_dtype_bytes(dtype) == 8 ? widen(t, csr.indices, csr.n_edges) : (const void *)csr.indices;
    t_expect_ok(t, t->ref->weight_prefix(&g.topology, weight, prefix), "weight_prefix");
    g.topology.weight_prefix = prefix;
    g.degree_of = t_random_ids(t, n, UINT32_MAX);
    return g;
}

// n_seeds different vertices, the hub among them.
static uint32_t *make_seeds(struct suite *t, const struct graph *g, uint32_t n_seeds)
{
    uint32_t *seeds = t_random_places(t, n_seeds, g->topology.n_nodes);
    bool has_hub = n_seeds == 0;
    for (uint32_t i = 0; i < n_seeds; i++)
        has_hub = has_hub || seeds[i] == 0;
    if (!has_hub)
        seeds[t_random_below(t, n_seeds)] = 0;
    return seeds;
}

// ---- the reference ------------------------------------------------------------------------------

static uint64_t edges_bound(const struct sl_draw_args *args, const uint32_t *nodes, uint32_t first,
                            uint32_t n_dst, uint32_t h)
{
    if (args->kind == SL_SAMPLER_WALK)
        return (uint64_t)(n_dst - first) * args->paths * args->length;
    uint64_t edges = 0;
    for (uint32_t i = first; i < n_dst; i++) {
        const uint64_t *indptr = args->topology->indptr + nodes[i];
        uint64_t degree = indptr[1] - indptr[0];
        const uint64_t most = args->replace ? UINT64_MAX : degree;
        edges += args->fanout[h] < 0 ? degree : SL_MIN(most, (uint64_t)args->fanout[h]);
    }
    return edges;
}

static void draw_hop(struct suite *t, const struct sl_draw_args *args, uint32_t h,
                     struct sl_idmap *map, struct batch *b)
{
    uint32_t n_dst = b->n_nodes[h], n_nodes = n_dst;
    const bool keeps = args->expand_new && h > 0;
    const uint32_t first = keeps ? b->n_nodes[h - 1] : 0, kept = keeps ? b->n_edges[h - 1] : 0;
    uint64_t bound = kept + edges_bound(args, b->nodes, first, n_dst, h);
    b->indptr[h] = t_alloc(t, ((size_t)n_dst + 1) * sizeof(uint32_t), 0);
    b->indices[h] = t_alloc(t, bound * sizeof(uint32_t), 0);
    b->visits[h] = t_alloc(t, bound * sizeof(float), 0);
    b->edge_ids[h] = args->edge_ids ? t_alloc(t, bound * sizeof(uint64_t), 0) : NULL;
    if (keeps && args->edge_ids)
        memcpy(b->edge_ids[h], b->edge_ids[h - 1], kept * sizeof(uint64_t));
    if (keeps) {
        memcpy(b->indptr[h], b->indptr[h - 1], ((size_t)first + 1) * sizeof(uint32_t));
        memcpy(b->indices[h], b->indices[h - 1], kept * sizeof(uint32_t));
        memcpy(b->visits[h], b->visits[h - 1], kept * sizeof(float));
    }
    const struct sl_khop_args hop = {
        .topology = args->topology,
        .seed = args->seed,
        .stream = args->stream,
        .epoch = args->epoch,
        .batch = args->batch,
        .hop = h,
        .fanout = args->fanout[h],
        .replace = args->replace,
        .n_dst = n_dst,
        .first_row = first,
        .nodes = b->nodes,
        .n_nodes = &n_nodes,
        .nodes_capacity = (uint32_t)args->topology->n_nodes,
        .map = map,
        .indptr = b->indptr[h],
        .indices = b->indices[h],
        .indices_capacity = bound,
        .n_edges = &b->n_edges[h],
        .paths = args->paths,
        .length = args->length,
        .restart = args->restart,
        .visits = b->visits[h],
        .edge_ids = b->edge_ids[h],
    };
    int rc = t->ref->sample[args->kind](&hop);
    t_expect_ok(t, rc, "the reference");
    b->n_nodes[h + 1] = n_nodes;
}

static struct batch draw_reference(struct suite *t, const struct sl_draw_args *args)
{
    struct batch b = {0};
    struct sl_idmap *map = NULL;
    b.nodes = t_alloc(t, args->topology->n_nodes * sizeof *b.nodes, 0);
    t_expect_ok(t, sl_idmap_create(64, &map), "idmap");
    for (uint32_t i = 0; i < args->n_seeds; i++) {
        uint32_t local;
        t_expect_ok(t,
                    sl_idmap_insert(map, args->seeds[i], b.nodes, &b.n_nodes[0],
                                    (uint32_t)args->topology->n_nodes, &local),
                    "seed");
    }
    for (uint32_t h = 0; h < args->n_hops; h++)
        draw_hop(t, args, h, map, &b);
    sl_idmap_destroy(map);
    return b;
}

// ---- comparison ---------------------------------------------------------------------------------

// That n words of the device are these.
static void same_words(struct suite *t, const char *what, uint32_t h, const void *got,
                       const void *want, uint64_t n)
{
    char name[32];
    void *copy = t_alloc(t, n * sizeof(uint32_t), 0);
    snprintf(name, sizeof name, "%s of hop %u", what, h);
    if (n > 0)
        t_expect_ok(t, t->device->copy(copy, got, n * sizeof(uint32_t)), "copy");
    t_same_bits(t, name, copy, want, n * sizeof(uint32_t));
}

static void same_degrees(struct suite *t, const struct sl_draw_args *args, const struct batch *want,
                         const struct sl_drawn *got)
{
    uint32_t n = want->n_nodes[args->n_hops];
    uint32_t *degrees = t_alloc(t, n * sizeof *degrees, 0);
    for (uint32_t i = 0; i < n; i++)
        degrees[i] = args->degree_of[want->nodes[i]];
    same_words(t, "degrees", args->n_hops, got->degrees, degrees, n);
}

// ---- delivery -----------------------------------------------------------------------------------

// Every third vertex is hot, in one tier.
static struct sl_rank_index *make_index(struct suite *t, uint64_t n_nodes)
{
    struct sl_rank_index *index = t_alloc(t, sizeof *index, 0);
    uint64_t bytes = (n_nodes + 31) / 32 * sizeof(uint64_t), hot = 0;
    uint64_t *words = t_alloc(t, bytes, 0);
    memset(words, 0, bytes);
    for (uint64_t v = 0; v < n_nodes; v += 3, hot++) {
        if (words[v / 32] == 0)
            words[v / 32] = hot << 32;
        words[v / 32] |= UINT64_C(1) << v % 32;
    }
    *index = (struct sl_rank_index){.n_nodes = n_nodes, .n_tiers = 1, .words = words};
    return index;
}

// Appends an array to what is wanted of a delivery.
static void append(unsigned char *want, uint64_t *at, const void *words, uint64_t n)
{
    *at = sl_align_up(*at, SL_DRAW_ALIGN);
    memcpy(want + *at, words, n * sizeof(uint32_t));
    *at += n * sizeof(uint32_t);
}

enum { DELIVERY_AT = 2 * SL_DRAW_ALIGN, DELIVERY_SLACK = 256, UNTOUCHED = 0x5a };

// The bytes that are wanted; *end is where they end.
static unsigned char *expect_delivery(struct suite *t, const struct sl_draw_args *args,
                                      const struct batch *b, const struct sl_rank_index *index,
                                      uint64_t *end)
{
    const uint32_t n = b->n_nodes[args->n_hops];
    uint64_t bytes = DELIVERY_AT + DELIVERY_SLACK, at = DELIVERY_AT;
    for (uint32_t h = 0; h < args->n_hops; h++)
        bytes +=
            4 * SL_DRAW_ALIGN + 4 * ((uint64_t)b->n_nodes[h] + 1 + 3 * (uint64_t)b->n_edges[h]);
    bytes += 3 * (SL_DRAW_ALIGN + 4 * (uint64_t)n);
    unsigned char *want = t_alloc(t, bytes, 0);
    memset(want, UNTOUCHED, bytes);
    for (uint32_t h = args->expand_new ? args->n_hops - 1 : 0; h < args->n_hops; h++) {
        append(want, &at, b->indptr[h], (uint64_t)b->n_nodes[h] + 1);
        append(want, &at, b->indices[h], b->n_edges[h]);
        if (args->kind == SL_SAMPLER_WALK)
            append(want, &at, b->visits[h], b->n_edges[h]);
        if (args->edge_ids)
            append(want, &at, b->edge_ids[h], 2 * (uint64_t)b->n_edges[h]);
    }
    append(want, &at, b->nodes, n);
    uint32_t *words = t_alloc(t, n * sizeof *words, 0);
    for (uint32_t i = 0; args->degree_of && i < n; i++)
        words[i] = args->degree_of[b->nodes[i]];
    if (args->degree_of)
        append(want, &at, words, n);
    if (index) {
        t_expect_ok(t, t->ref->mark_ranks(index, b->nodes, n, words), "ranks");
        append(want, &at, words, n);
    }
    *end = at;
    return want;
}

// The batch in one piece, with ranks and without; nothing where a byte is missing. Two of the eight
// ways for each batch: the many batches meet them all.
static void compare_delivery(struct suite *t, struct sl_draw_state **state,
                             const struct sl_draw_args *args, const struct batch *b)
{
    for (int k = 0; k < 2; k++) {
        const uint32_t way = t_random_below(t, 8);
        const struct sl_rank_index *index = way % 2 ? make_index(t, args->topology->n_nodes) : NULL;
        const uint64_t missing = way / 2 % 2;
        struct sl_draw_args with = *args;
        struct sl_drawn got;
        uint64_t end;
        unsigned char *want = expect_delivery(t, args, b, index, &end);
        const uint64_t bytes = end + DELIVERY_SLACK;
        if (missing)
            memset(want, UNTOUCHED, bytes);
        unsigned char *found = t_alloc(t, bytes, 0);
        memset(found, UNTOUCHED, bytes);
        // The second place has room where the first one has, or lacks a byte.
        const uint64_t lacks = way / 4;
        unsigned char *also = t_alloc(t, bytes, 0);
        memset(also, UNTOUCHED, bytes);
        with.deliver = (struct sl_draw_delivery){.to = found,
                                                 .at = DELIVERY_AT,
                                                 .capacity = end - missing,
                                                 .ranks = index,
                                                 .also = also,
                                                 .also_capacity = end - lacks};
        if (!t_expect_ok(t, t->dev->draw(state, &with), "draw with delivery"))
            return;
        t_expect_code(t, t->dev->draw(state, &with), SL_EINVAL, "a second one before the wait");
        if (!t_expect_ok(t, t->dev->draw_wait(*state, &got), "waiting for it"))
            return;
        t_expect(t, got.end == end, "it ends at %llu, wanted %llu", (unsigned long long)got.end,
                 (unsigned long long)end);
        t_same_bits(t, "delivery", found, want, bytes);
        if (lacks)
            memset(want, UNTOUCHED, bytes);
        t_same_bits(t, "second delivery", also, want, bytes);
    }
}

static int draw(struct suite *t, struct sl_draw_state **state, const struct sl_draw_args *args,
                struct sl_drawn *out)
{
    SL_TRY(t->dev->draw(state, args));
    return t->dev->draw_wait(*state, out);
}

// Draws the batch with the state, and compares all of it with a reference's of the same graph.
static void compare_with(struct suite *t, struct sl_draw_state **state,
                         const struct sl_draw_args *args, const struct batch *reference,
                         struct sl_drawn *drawn)
{
    const struct batch want = *reference;
    struct sl_drawn got;
    memset(&got, 0xff, sizeof got);
    if (!t_expect_ok(t, draw(t, state, args, &got), "draw"))
        return;
    *drawn = got;
    for (uint32_t h = 0; h <= args->n_hops; h++)
        if (!t_expect(t, got.n_nodes[h] == want.n_nodes[h], "%u vertices before hop %u, wanted %u",
                      got.n_nodes[h], h, want.n_nodes[h]))
            return;
    for (uint32_t h = 0; h < args->n_hops; h++) {
        if (!t_expect(t, got.n_edges[h] == want.n_edges[h], "%u edges of hop %u, wanted %u",
                      got.n_edges[h], h, want.n_edges[h]))
            return;
        same_words(t, "indptr", h, got.indptr[h], want.indptr[h], (uint64_t)want.n_nodes[h] + 1);
        same_words(t, "indices", h, got.indices[h], want.indices[h], want.n_edges[h]);
        if (args->kind == SL_SAMPLER_WALK)
            same_words(t, "visits", h, got.visits[h], want.visits[h], want.n_edges[h]);
        else
            t_expect(t, !got.visits[h], "visits of what is no walk");
        if (args->edge_ids)
            same_words(t, "edge numbers", h, got.edge_ids[h], want.edge_ids[h],
                       2 * (uint64_t)want.n_edges[h]);
        else
            t_expect(t, !got.edge_ids[h], "edge numbers that nobody asked for");
    }
    same_words(t, "vertices", args->n_hops, got.nodes, want.nodes, want.n_nodes[args->n_hops]);
    if (args->degree_of)
        same_degrees(t, args, &want, &got);
    else
        t_expect(t, !got.degrees, "degrees that nobody asked for");
    compare_delivery(t, state, args, &want);
}

static void compare(struct suite *t, struct sl_draw_state **state, const struct sl_draw_args *args)
{
    const struct batch want = draw_reference(t, args);
    struct sl_drawn drawn;
    compare_with(t, state, args, &want, &drawn);
}

static struct sl_draw_args args_of(const struct graph *g, enum sl_sampler_kind kind,
                                   const uint32_t *seeds, uint32_t n_seeds)
{
    return (struct sl_draw_args){.kind = kind,
                                 .topology = &g->topology,
                                 .n_hops = 1,
                                 .fanout = {3, 3, 3, 3, 3, 3, 3, 3},
                                 .paths = 4,
                                 .length = 3,
                                 .restart = 0.25f,
                                 .seed = 0x123456789abcdefull,
                                 .stream = SL_RNG_SAMPLE,
                                 .epoch = 3,
                                 .batch = 5,
                                 .seeds = seeds,
                                 .n_seeds = n_seeds};
}

static bool replaces(enum sl_sampler_kind kind)
{
    return sl_sampler_flags[kind] & SL_SAMPLER_REPLACES;
}

// ---- cases --------------------------------------------------------------------------------------

// Two hops of every kind, with all fanouts at which another kernel or another width begins.
static void fanouts(struct suite *t)
{
    static const int64_t fanout[] = {1, 2, 4, 5, 9, 16, 17, 31, 32, 33, 64, 100, -1};
    // Of the last ones the first hop fills several blocks of threads, as the second always does.
    static const uint32_t n_seeds[] = {1, 7, 33, 70};
    int turn = 0;
    for (int kind = 0; kind < SL_SAMPLER_KINDS; kind++)
        for (size_t f = 0; f < SL_COUNT_OF(fanout); f++)
            for (size_t s = 0; s < SL_COUNT_OF(n_seeds); s++, turn++) {
                int way = turn / 3 % 2, type = turn % 4;
                t_begin(t, "draw %s fanout=%lld seeds=%u %s %s%s", sl_sampler_words[kind],
                        (long long)fanout[f], n_seeds[s], dtypes[type].name, way_names[way],
                        turn / 2 % 2 ? ", new vertices" : "");
                struct graph g = make_graph(t, 300, 12, 180, dtypes[type].dtype);
                uint32_t *seeds = make_seeds(t, &g, n_seeds[s]);
                struct sl_draw_args args =
                    args_of(&g, (enum sl_sampler_kind)kind, seeds, n_seeds[s]);
                struct sl_draw_state *state = NULL;
                args.renumbering = (enum sl_renumbering)way;
                args.expand_new = turn / 2 % 2;
                args.edge_ids = kind != SL_SAMPLER_WALK && turn % 5 > 1;
                args.replace = replaces(args.kind) && (f + s) % 3 > 0;
                args.n_hops = 2;
                args.fanout[0] = fanout[f];
                args.degree_of = turn % 2 ? g.degree_of : NULL;
                compare(t, &state, &args);
                t->dev->draw_end(state);
                t_end(t);
            }
}

// Paths and lengths at which groups are wider, or lists leave shared memory.
static void walks(struct suite *t)
{
    static const struct {
        uint32_t paths, length;
        float restart;
        int64_t fanout;
    } walk[] = {{1, 1, 0, 1},        {4, 4, 0, 3},     {5, 5, 0.5f, -1}, {8, 9, 1.0f, 4},
                {17, 3, 0.1f, 20},   {33, 2, 0.3f, 5}, {70, 1, 0, -1},   {1, 200, 0.1f, 10},
                {2, 900, 0.05f, 40}, {40, 8, 0.2f, -1}};
    for (size_t w = 0; w < SL_COUNT_OF(walk); w++) {
        t_begin(t, "draw walk paths=%u length=%u restart=%g fanout=%lld", walk[w].paths,
                walk[w].length, (double)walk[w].restart, (long long)walk[w].fanout);
        struct graph g = make_graph(t, 120, 6, 40, dtypes[w % 4].dtype);
        uint32_t n_seeds = walk[w].length > 100 ? 3 : 35, *seeds = make_seeds(t, &g, n_seeds);
        struct sl_draw_args args = args_of(&g, SL_SAMPLER_WALK, seeds, n_seeds);
        struct sl_draw_state *state = NULL;
        args.paths = walk[w].paths;
        args.length = walk[w].length;
        args.restart = walk[w].restart;
        args.fanout[0] = walk[w].fanout;
        compare(t, &state, &args);
        t->dev->draw_end(state);
        t_end(t);
    }
}

// Fanouts whose sets and lists are in scratch memory.
static void large_fanouts(struct suite *t)
{
    static const struct {
        enum sl_sampler_kind kind;
        int64_t fanout;
    } large[] = {{SL_SAMPLER_KHOP, 1000},     {SL_SAMPLER_KHOP, 1024},
                 {SL_SAMPLER_KHOP, 1300},     {SL_SAMPLER_KHOP, 2499},
                 {SL_SAMPLER_WEIGHTED, 300},  {SL_SAMPLER_WEIGHTED, 700},
                 {SL_SAMPLER_WEIGHTED, 2000}, {SL_SAMPLER_KHOP, 262144}};
    // Then again with replacement, but for the last one, which would be millions of edges.
    for (size_t i = 0; i < 2 * SL_COUNT_OF(large) - 1; i++) {
        const size_t l = i % SL_COUNT_OF(large);
        const bool replace = i >= SL_COUNT_OF(large);
        t_begin(t, "draw %s fanout=%lld of a hub of 2500%s", sl_sampler_words[large[l].kind],
                (long long)large[l].fanout, replace ? ", with replacement" : "");
        struct graph g = make_graph(t, 400, 5, 2500, dtypes[l % 4].dtype);
        uint32_t *seeds = make_seeds(t, &g, 9);
        struct sl_draw_args args = args_of(&g, large[l].kind, seeds, 9);
        struct sl_draw_state *state = NULL;
        args.fanout[0] = large[l].fanout;
        args.edge_ids = true;
        args.replace = replace;
        compare(t, &state, &args);
        t->dev->draw_end(state);
        t_end(t);
    }
}

// One state for batches of all sizes and kinds, one after the other: its memory grows, its table is
// used again with other stamps, and it begins again when they are used up. Then all of them twice
// more, of which the last round may take no more memory. The second may: the room that a hop wanted
// late in the first round is given to the batches before it as well, when they come again.
static void many_batches(struct suite *t)
{
    enum { BATCHES = 20, ROUNDS = 3 };
    for (int way = 0; way < 2; way++) {
        t_begin(t, "draw %d batches with one state, %s, again and again", BATCHES, way_names[way]);
        struct graph g = make_graph(t, 500, 10, 400, SL_DTYPE_I64);
        struct sl_draw_state *state = NULL;
        struct sl_draw_args all[BATCHES];
        uint64_t bytes = 0;
        t_expect(t, t->dev->draw_bytes(NULL) == 0, "no state has bytes");
        for (uint32_t i = 0; i < ROUNDS * BATCHES; i++) {
            struct sl_draw_args *args = &all[i % BATCHES];
            if (i < BATCHES) {
                uint32_t n_seeds = i % 5 == 4 ? 200 : 1 + t_random_below(t, 40);
                enum sl_sampler_kind kind =
                    (enum sl_sampler_kind)t_random_below(t, SL_SAMPLER_KINDS);
                *args = args_of(&g, kind, make_seeds(t, &g, n_seeds), n_seeds);
                args->renumbering = (enum sl_renumbering)way;
                args->batch = i;
                args->epoch = i / 7;
                args->expand_new = i % 2;
                args->edge_ids = kind != SL_SAMPLER_WALK && i % 3 > 0;
                args->n_hops = 1 + t_random_below(t, 4);
                for (uint32_t h = 0; h < args->n_hops; h++)
                    args->fanout[h] = t_random_below(t, 8) ? 1 + (int64_t)t_random_below(t, 6) : -1;
            }
            compare(t, &state, args);
            if (i == 2 * BATCHES - 1)
                bytes = t->dev->draw_bytes(state);
        }
        t_expect(t, bytes > 0 && t->dev->draw_bytes(state) == bytes,
                 "%llu bytes after two rounds, %llu after three", (unsigned long long)bytes,
                 (unsigned long long)t->dev->draw_bytes(state));
        t->dev->draw_end(state);
        t_end(t);
    }
}

/*
 * A state that has met one seed has a table for a few vertices. Seeds that find no place there must
 * not be taken for duplicates.
 */
static void few_then_many(struct suite *t)
{
    t_begin(t, "draw 1 seed, then 1500 with the same state");
    struct graph g = make_graph(t, 2000, 1, 0, SL_DTYPE_U32);
    struct sl_draw_state *state = NULL;
    for (uint32_t n = 1; n <= 1500; n += 1499) {
        struct sl_draw_args args = args_of(&g, SL_SAMPLER_KHOP, make_seeds(t, &g, n), n);
        args.n_hops = 1;
        args.fanout[0] = 1;
        compare(t, &state, &args);
    }
    t->dev->draw_end(state);
    t_end(t);
}

/*
 * A hop amid others that finds more vertices than all that have room at the end so far: the table
 * has to hold them before anybody can count them. Batches grow, each with a state of its own and
 * all with one; the largest are most of the work, and too much where each access is looked at:
 * there the graph is smaller too.
 */
static void large_between(struct suite *t)
{
    static const uint32_t n_seeds[] = {8, 32, 128};
    static const int64_t fanout[][3] = {{15, 10, 5}, {-1, -1, 1}, {2, 40, 1}};
    for (size_t f = 0; f < 2 * SL_COUNT_OF(fanout); f++) {
        const int64_t *each = fanout[f / 2];
        t_begin(t, "draw fanouts of %lld, %lld and %lld, %s%s", (long long)each[0],
                (long long)each[1], (long long)each[2], way_names[f / 2 % 2],
                f % 2 ? ", new vertices" : "");
        struct graph g = t->is_checked ? make_graph(t, 3000, 30, 500, SL_DTYPE_U32)
                                       : make_graph(t, 12000, 30, 2000, SL_DTYPE_U32);
        struct sl_draw_state *kept = NULL;
        const size_t too_many = !t->is_checked ? 0 : each[0] < 0 ? 2 : 1;
        for (size_t s = 0; s < SL_COUNT_OF(n_seeds) - too_many; s++) {
            uint32_t *seeds = make_seeds(t, &g, n_seeds[s]);
            struct sl_draw_args args = args_of(&g, SL_SAMPLER_KHOP, seeds, n_seeds[s]);
            args.n_hops = 3;
            memcpy(args.fanout, each, 3 * sizeof *each);
            args.renumbering = (enum sl_renumbering)(f / 2 % 2);
            args.expand_new = f % 2;
            const struct batch want = draw_reference(t, &args);
            struct sl_draw_state *fresh = NULL;
            struct sl_drawn drawn;
            compare_with(t, &fresh, &args, &want, &drawn);
            compare_with(t, &kept, &args, &want, &drawn);
            t->dev->draw_end(fresh);
        }
        t->dev->draw_end(kept);
        t_end(t);
    }
}

// The smallest there are, and eight hops.
static void corners(struct suite *t)
{
    for (int kind = 0; kind < SL_SAMPLER_KINDS; kind++)
        for (int c = 0; c < 4; c++) {
            static const char *const names[] = {"one vertex with a loop", "one vertex alone",
                                                "no seeds", "8 hops"};
            t_begin(t, "draw %s of %s", sl_sampler_words[kind], names[c]);
            struct graph g =
                make_graph(t, c < 2 ? 1 : 200, c == 1 ? 0 : 3, c == 0 ? 5 : 0, SL_DTYPE_U32);
            uint32_t n_seeds = c == 2 ? 0 : 1, *seeds = make_seeds(t, &g, n_seeds);
            struct sl_draw_args args = args_of(&g, (enum sl_sampler_kind)kind, seeds, n_seeds);
            struct sl_draw_state *state = NULL;
            args.n_hops = c == 3 ? SL_DRAW_HOPS_MAX : 2;
            args.expand_new = kind % 2;
            args.degree_of = g.degree_of;
            for (int again = 0; again < 2; again++)
                compare(t, &state, &args);
            t->dev->draw_end(state);
            t_end(t);
        }
}

// ---- edges that lie in several places -----------------------------------------------------------

// The place of edge e, found by walking through the runs as they are dealt out, and which of the
// part's elements it is.
static uint32_t place_of(const struct sl_spread *s, uint64_t e, uint64_t *at)
{
    uint64_t dealt[SL_PARTS_MAX] = {0};
    const uint64_t run = (uint64_t)1 << s->shift;
    uint32_t p = 0;
    *at = e;
    if (e < s->n_near)
        return SL_PARTS_MAX;
    if (s->n_parts == 0 || e < s->first || e >= s->end)
        return SL_PARTS_MAX + 1;
    for (uint64_t i = s->first; i + run <= e; i += run) {
        dealt[p] += run;
        p = p + 1 == s->n_parts ? 0 : p + 1;
    }
    const uint64_t found = dealt[p] + (e - s->first) % run;
    if (found >= s->part[p].n)
        return SL_PARTS_MAX + 1;
    *at = found;
    return p;
}

/*
 * The graph with its edges near and in parts: some parts are there half or not at all, what is near
 * reaches into them or leaves a gap, rows begin and end anywhere. What is read elsewhere is not
 * where it was: such edges lead beyond the graph there, and have sums that are no numbers.
 */
static struct sl_topology_view held_view(struct suite *t, const struct sl_topology_view *g,
                                         uint32_t n_parts, uint32_t shift)
{
    const uint64_t n = g->indptr[g->n_nodes], run = (uint64_t)1 << shift;
    const size_t each = sl_dtype_bytes(g->indices_dtype);
    struct sl_topology_view v = *g;
    char *far = t_copy(t, g->indices, n * each, 0), *memory[SL_PARTS_MAX + 1];
    double *far_sums = t_copy(t, g->weight_prefix, n * sizeof *far_sums, 0);
    double *sums[SL_PARTS_MAX + 1];
    v.held = (struct sl_spread){.n_near = t_random_below(t, (uint32_t)n / 2 + 1),
                                .first = t_random_below(t, (uint32_t)n / 2 + 1),
                                .n_parts = n_parts,
                                .shift = shift};
    v.held.end = n - t_random_below(t, (uint32_t)n / 8 + 1);
    for (uint32_t p = 0; p <= SL_PARTS_MAX; p++) {
        const uint64_t all = sl_div_up((n - v.held.first) / SL_MAX(n_parts, 1u) + run, run) * run;
        const uint64_t some = p == SL_PARTS_MAX ? v.held.n_near
                              : p >= n_parts    ? 0
                              : p % 3 == 1      ? all / 2
                              : p % 5 == 2      ? 0
                                                : all;
        memory[p] = some ? t_alloc(t, some * each, 0) : NULL;
        sums[p] = some ? t_alloc(t, some * sizeof **sums, 0) : NULL;
        v.sums[p] = sums[p];
        if (p < SL_PARTS_MAX)
            v.held.part[p] = (struct sl_part){memory[p], some};
    }
    v.held.near = memory[SL_PARTS_MAX];
    for (uint64_t e = 0; e < n; e++) {
        uint64_t at;
        const uint32_t p = place_of(&v.held, e, &at);
        if (p > SL_PARTS_MAX)
            continue;
        memcpy(memory[p] + at * each, far + e * each, each);
        sums[p][at] = far_sums[e];
        memset(far + e * each, 0x7f, each);
        memset(&far_sums[e], 0xff, sizeof *far_sums);
    }
    v.indices = far;
    v.weight_prefix = far_sums;
    return v;
}

// One hop of all neighbours reads each edge of the seeds once.
static void expect_reads(struct suite *t, const struct sl_draw_args *args,
                         const struct sl_drawn *drawn)
{
    const struct sl_topology_view *v = args->topology;
    uint64_t want[SL_DRAW_PLACES] = {0}, at;
    for (uint32_t i = 0; i < args->n_seeds; i++)
        for (uint64_t e = v->indptr[args->seeds[i]]; e < v->indptr[args->seeds[i] + 1]; e++)
            want[place_of(&v->held, e, &at)] += sl_dtype_bytes(v->indices_dtype);
    for (uint32_t p = 0; p < SL_DRAW_PLACES; p++)
        t_expect(t, drawn->read[p] == (args->count_reads ? want[p] : 0),
                 "%llu bytes in place %u, wanted %llu", (unsigned long long)drawn->read[p], p,
                 (unsigned long long)want[p]);
}

static void edges_in_parts(struct suite *t)
{
    static const uint32_t parts[] = {0, 1, 2, 3, 7, SL_PARTS_MAX}, shifts[] = {0, 1, 4, 7};
    static const int64_t fanout[] = {4, 20, 60, -1};
    int turn = 0;
    for (int kind = 0; kind < SL_SAMPLER_KINDS; kind++)
        for (size_t p = 0; p < SL_COUNT_OF(parts); p++)
            for (size_t f = 0; f < SL_COUNT_OF(fanout); f++, turn++) {
                const uint32_t shift = shifts[turn % SL_COUNT_OF(shifts)];
                t_begin(t, "draw %s fanout=%lld of edges in %u parts, runs of %u",
                        sl_sampler_words[kind], (long long)fanout[f], parts[p], 1u << shift);
                struct graph g = make_graph(t, 300, 12, 180, dtypes[turn % 4].dtype);
                uint32_t *seeds = make_seeds(t, &g, 40);
                struct sl_draw_args args = args_of(&g, (enum sl_sampler_kind)kind, seeds, 40);
                struct sl_draw_state *state = NULL;
                struct sl_drawn drawn;
                args.n_hops = fanout[f] < 0 ? 1 : 2;
                args.expand_new = turn % 2;
                args.edge_ids = kind != SL_SAMPLER_WALK && turn % 3 < 2;
                args.fanout[0] = fanout[f];
                const struct batch want = draw_reference(t, &args);
                const struct sl_topology_view held = held_view(t, &g.topology, parts[p], shift);
                args.topology = &held;
                args.count_reads = turn % 3 != 0;
                memset(&drawn, 0, sizeof drawn);
                compare_with(t, &state, &args, &want, &drawn);
                if (kind == SL_SAMPLER_KHOP && fanout[f] < 0)
                    expect_reads(t, &args, &drawn);
                t->dev->draw_end(state);
                t_end(t);
            }
}

// Refused, and the state is as good as before.
static void refused(struct suite *t)
{
    t_begin(t, "draw refuses what it cannot draw");
    struct graph g = make_graph(t, 100, 6, 0, SL_DTYPE_I32);
    uint32_t *seeds = make_seeds(t, &g, 50);
    const struct sl_draw_args good = args_of(&g, SL_SAMPLER_KHOP, seeds, 50);
    struct sl_draw_args bad;
    struct sl_draw_state *state = NULL;
    struct sl_drawn drawn;
    struct sl_topology_view topology = g.topology;
#define REFUSED(code, what, ...)                                                                   \
    do {                                                                                           \
        bad = good;                                                                                \
        __VA_ARGS__;                                                                               \
        t_expect_code(t, draw(t, &state, &bad, &drawn), code, what);                               \
        compare(t, &state, &good);                                                                 \
    } while (0)
    REFUSED(SL_EINVAL, "no hops", bad.n_hops = 0);
    REFUSED(SL_EINVAL, "nine hops", bad.n_hops = SL_DRAW_HOPS_MAX + 1);
    REFUSED(SL_EINVAL, "no fanout", bad.fanout[0] = 0);
    REFUSED(SL_EINVAL, "too large a fanout", bad.fanout[0] = (1 << 18) + 1);
    REFUSED(SL_EINVAL, "an unknown kind", bad.kind = (enum sl_sampler_kind)7);
    REFUSED(SL_EINVAL, "an unknown renumbering", bad.renumbering = (enum sl_renumbering)7);
    REFUSED(SL_EINVAL, "no seeds", bad.seeds = NULL);
    REFUSED(SL_EINVAL, "no paths", bad.kind = SL_SAMPLER_WALK; bad.paths = 0);
    REFUSED(SL_EINVAL, "edges of walks", bad.kind = SL_SAMPLER_WALK; bad.edge_ids = true);
    REFUSED(SL_EINVAL, "restart", bad.kind = SL_SAMPLER_WALK; bad.restart = 1.5f);
    topology.weight_prefix = NULL;
    REFUSED(SL_EINVAL, "no weights", bad.kind = SL_SAMPLER_WEIGHTED; bad.topology = &topology);
    topology.indices_dtype = SL_DTYPE_F32;
    REFUSED(SL_EINVAL, "neighbours that are floats", bad.topology = &topology);
    uint32_t *wrong = t_copy(t, seeds, 50 * sizeof *wrong, 0);
    wrong[49] = 100;
    REFUSED(SL_ERANGE, "a seed that is no vertex", bad.seeds = wrong);
    for (int way = 0; way < 2; way++) {
        wrong[49] = wrong[3];
        REFUSED(SL_EINVAL, "a seed twice", bad.seeds = wrong;
                bad.renumbering = (enum sl_renumbering)way);
        bad = good;
        bad.seeds = wrong;
        draw(t, &state, &bad, &drawn);
        char name[64];
        snprintf(name, sizeof name, "seed %u is at position 49", wrong[49]);
        t_expect(t, strstr(sl_error_message(), name) != NULL, "the message: %s",
                 sl_error_message());
    }
    struct sl_rank_index index = *make_index(t, 99);
    REFUSED(SL_EINVAL, "a place that is not aligned", bad.deliver.to = (char *)wrong + 4);
    REFUSED(SL_EINVAL, "a second place that is not aligned", bad.deliver.to = wrong;
            bad.deliver.also = (char *)wrong + 4);
    REFUSED(SL_EINVAL, "a beginning that is not aligned", bad.deliver.to = wrong;
            bad.deliver.at = 4);
    REFUSED(SL_EINVAL, "an index of another graph", bad.deliver.to = wrong;
            bad.deliver.ranks = &index);
#undef REFUSED
    t_expect_code(t, t->dev->draw_wait(state, &drawn), SL_EINVAL, "a wait for nothing");
    t->dev->draw_end(state);
    t->dev->draw_end(NULL);
    t_end(t);
}

// Graphs that say they have more neighbours than there can be: nobody goes to look for them.
static void too_many(struct suite *t)
{
    const uint64_t most = UINT32_MAX;
    const struct {
        const char *name;
        uint64_t indptr[3];
        enum sl_sampler_kind kind;
        int64_t fanout;
    } graphs[] = {{"a degree of 2^32 - 1", {0, 1, most + 1}, SL_SAMPLER_KHOP, 4},
                  {"a degree of 2^33", {0, 1, 2 * most + 3}, SL_SAMPLER_KHOP, -1},
                  {"a degree of 2^33 in walks", {0, 1, 2 * most + 3}, SL_SAMPLER_WALK, 4},
                  {"a degree of 2^33 by weight", {0, 0, 2 * most + 3}, SL_SAMPLER_WEIGHTED, 4},
                  {"2^33 edges in a hop", {0, most - 1, 2 * (most - 1)}, SL_SAMPLER_KHOP, -1}};
    uint32_t *indices, *seeds;
    for (size_t k = 0; k < SL_COUNT_OF(graphs); k++) {
        t_begin(t, "draw refuses %s", graphs[k].name);
        indices = t_alloc(t, 4 * sizeof *indices, 0);
        memset(indices, 0, 4 * sizeof *indices);
        struct graph g = {
            .topology = {.n_nodes = 2,
                         .indptr = t_copy(t, graphs[k].indptr, sizeof graphs[k].indptr, 0),
                         .indices = indices,
                         .indices_dtype = SL_DTYPE_U32,
                         .weight_prefix = t_alloc(t, 64, 0)}};
        seeds = t_alloc(t, 2 * sizeof *seeds, 0);
        seeds[0] = 1;
        seeds[1] = 0;
        struct sl_draw_args args = args_of(&g, graphs[k].kind, seeds, 2);
        struct sl_draw_state *state = NULL;
        struct sl_drawn drawn;
        args.fanout[0] = graphs[k].fanout;
        args.n_hops = 2;
        t_expect_code(t, draw(t, &state, &args, &drawn), SL_EUNSUPPORTED, graphs[k].name);
        t->dev->draw_end(state);
        t_end(t);
    }
}

void test_draw(struct suite *t)
{
    corners(t);
    fanouts(t);
    walks(t);
    large_fanouts(t);
    many_batches(t);
    few_then_many(t);
    large_between(t);
    edges_in_parts(t);
    refused(t);
    too_many(t);
}
