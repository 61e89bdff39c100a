#include "trainer/feed/gather.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "trainer/feed/edge_rows.h"
#include "trainer/feed/gather_internal.h"
#include "trainer/feed/hop.h"
#include "trainer/feed/typed_block.h"

enum {
    // Gathered by the processor while the piece before crosses the bus: some hundred microseconds.
    PIECE_BYTES = 8 << 20,
    NARROW_BYTES = 512 << 10, // of f32 at once, on their way to bf16
    TRIALS = 3,               // of each way; the first of them warms up
};

void sl_gather_init(struct sl_gather *g, const struct sl_compute *compute,
                    const struct sl_dataset *dataset, enum sl_gather_way way)
{
    *g = (struct sl_gather){.compute = *compute, .source.dataset = dataset, .way = way};
    sl_store_init(&g->store, compute->device, dataset);
}

int sl_gather_place(struct sl_gather *g, struct sl_seat *seat, struct sl_dataset *dataset,
                    const struct sl_store_plan *plan)
{
    g->store.told = &seat->store_way;
    SL_TRY(sl_store_place(&g->store, dataset, plan));
    // A cache that is expected to have every row may miss some all the same.
    if (!g->store.there && plan->way != SL_STORE_WAY_CACHED)
        g->way = SL_GATHER_STAGED;
    return SL_OK;
}

bool sl_gather_holds_all(const struct sl_spread *s, uint64_t n)
{
    if (s->n_near >= n)
        return true;
    if (s->n_parts == 0 || s->n_near < s->first || s->end < n)
        return false;
    for (uint64_t i = 0; i < s->n_parts; i++) // its rows are first + i, first + i + n_parts, ...
        if (s->first + i + s->part[i].n * s->n_parts < n)
            return false;
    return true;
}

int sl_gather_grow_lists(struct sl_gather *g, uint32_t n)
{
    return sl_buffer_grow(&g->lists, g->compute.device, SL_BUFFER_HOST,
                          (size_t)n * SL_GATHER_LISTS * sizeof(uint32_t), "lists of input nodes");
}

// What the cache has not, as lists of the processor's: of a block without ranks everything.
static int list_rows(struct sl_gather_job *j, struct sl_row_split *out)
{
    const uint32_t n = j->n_rows, *nodes = sl_block_nodes(j->block);
    SL_TRY(sl_gather_grow_lists(j->g, n));
    *out = sl_gather_lists_in(j->g->lists.p, n);
    if (sl_gather_is_held(&j->spread))
        return j->g->compute.kernels->split_rows(nodes, sl_block_ranks(j->block), n, &j->spread,
                                                 out);
    memcpy(out->miss_row, nodes, n * sizeof *nodes);
    for (uint32_t i = 0; i < n; i++)
        out->miss_to[i] = i;
    out->n_misses = n;
    return SL_OK;
}

// Whether rows become bf16 on their way.
static bool narrows(const struct sl_gather *g)
{
    return g->half && g->near_rows;
}

// Words of a row as it is moved; of bf16 as layers have them (sl_layer_pitch).
static uint32_t width_of(const struct sl_gather *g)
{
    const uint32_t dim = g->source.dataset->feat_dim;
    return narrows(g) ? (uint32_t)sl_align_up(dim, 8) / 2 : g->half ? dim / 2 : dim;
}

// How many of a plain block's rows are brought to where they are computed with: the first ones.
static uint32_t rows_of(const struct sl_gather *g, const struct sl_block *block)
{
    return g->near_rows ? block->n_nodes[block->n_hops - 1] : block->n_input;
}

// Bytes of a plain block's rows of vertices.
static uint64_t vertex_bytes(const struct sl_gather *g, const struct sl_block *block)
{
    return (uint64_t)rows_of(g, block) * width_of(g) * sizeof(float);
}

// Bytes of a block's rows where they are computed with.
static uint64_t bytes_of(const struct sl_gather *g, const struct sl_block *block)
{
    const struct sl_typed *typed = &g->source.dataset->typed;
    return sl_gather_is_typed(block)
               ? sl_typed_block_bytes(block, typed, sl_gather_layout(g))
               : sl_edge_rows_end(block, typed->plain.feat_dim, vertex_bytes(g, block), NULL);
}

// --- on CPU cores --------------------------------------------------------------------------------

// Piece by piece through f32 that stays in the cache.
static int narrow_rows(struct sl_gather *g, const uint32_t *vertices, uint32_t n, void *x)
{
    const struct sl_kernels *kernels = g->compute.kernels;
    const uint32_t dim = g->source.dataset->feat_dim;
    const uint64_t pitch = 2 * (uint64_t)width_of(g), row_bytes = dim * sizeof(float);
    const uint32_t piece = (uint32_t)SL_MAX(NARROW_BYTES / row_bytes, (uint64_t)1);
    SL_TRY(sl_buffer_grow(&g->rows, g->compute.device, SL_BUFFER_HOST, SL_MIN(n, piece) * row_bytes,
                          "input features"));
    for (uint32_t at = 0; at < n; at += SL_MIN(piece, n - at)) {
        const uint32_t rows = SL_MIN(piece, n - at);
        SL_TRY(
            sl_rows_convert_of(&g->source, 0, kernels, vertices + at, NULL, rows, rows, g->rows.p));
        SL_TRY(kernels->bias_act_bf16(g->rows.p, rows, dim, NULL, SL_ACT_NONE, NULL, NULL,
                                      (uint16_t *)x + at * pitch, pitch));
    }
    return SL_OK;
}

int sl_gather_from_store(struct sl_gather *g, uint32_t range, const uint32_t *vertices,
                         const uint32_t *to, uint32_t n, uint32_t n_places, void *x)
{
    const struct sl_kernels *kernels = g->compute.kernels;
    if (narrows(g)) // all of them, in their order
        return narrow_rows(g, vertices, n, x);
    return g->half ? sl_rows_copy_of(&g->source, range, kernels, vertices, to, n, n_places, x)
                   : sl_rows_convert_of(&g->source, range, kernels, vertices, to, n, n_places, x);
}

static int vertices_on_host(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    const uint32_t n = j->n_rows;
    if (j->dim == 0) // learned rows alone
        return SL_OK;
    if (!sl_gather_is_held(&j->spread))
        return sl_gather_from_store(g, 0, sl_block_nodes(j->block), NULL, n, n, j->to->x);
    struct sl_row_split s = {0};
    SL_TRY(list_rows(j, &s));
    j->hits = s.n_hits;
    if (s.n_hits)
        SL_TRY(g->compute.kernels->gather_rows_to(j->spread.near, j->dtype, j->spread.n_near,
                                                  j->dim, s.hit_row, s.hit_to, s.n_hits, n,
                                                  j->to->x));
    return sl_gather_from_store(g, 0, s.miss_row, s.miss_to, s.n_misses, n, j->to->x);
}

static int on_host(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    const uint64_t vertices = vertex_bytes(g, j->block);
    j->to->block = sl_block_here(j->block);
    if (sl_gather_is_typed(j->block))
        return sl_gather_types_on_host(j);
    SL_TRY(vertices_on_host(j));
    return sl_edge_rows_copy_block(&g->source, g->compute.host, j->block, vertices,
                                   (char *)j->to->x + vertices);
}

// --- on a GPU ------------------------------------------------------------------------------------

// Where the arrays begin that a sampler's GPU writes.
static uint64_t first_drawn(const struct sl_block *block)
{
    if (!sl_gather_is_typed(block))
        return block->hop[0].indptr_offset;
    return sl_block_typed(block)->n_runs > 0 ? sl_block_runs(block)[0].indptr_offset
                                             : block->nodes_offset;
}

// Where those end.
static uint64_t end_drawn(const struct sl_block *block)
{
    return sl_gather_is_typed(block) ? block->nodes_offset + block->n_input * sizeof(uint32_t)
                                     : block->bytes;
}

// What the sampler's GPU wrote of the block, where that is this one: from behind the labels to the
// ranks, of a typed one to its tables, since the processor has written those and the ranks.
static int bring_near(struct sl_gather_job *j, uint64_t *bytes)
{
    const struct sl_near_block *near = &j->g->near;
    const struct sl_device *device = j->g->compute.device;
    const uint64_t first = first_drawn(j->block), n = end_drawn(j->block) - first;
    *bytes = 0;
    if (!near->base)
        return SL_OK;
    SL_TRY(device->copy((char *)j->to->arrays.p + first, near->base + first, n));
    SL_FAILPOINT(LENT_BLOCK);
    SL_TRY(device->sync());
    if (sl_peer_import_is_good(near->borrowed))
        *bytes = n;
    return SL_OK;
}

// The block's arrays in the device's memory; its header stays where it is.
static int bring_block(struct sl_gather_job *j)
{
    const struct sl_device *device = j->g->compute.device;
    struct sl_batch_buffer *to = j->to;
    SL_TRY(sl_buffer_grow(&to->arrays, device, SL_BUFFER_DEVICE, j->block->bytes, "mini-batches"));
    SL_TRY(sl_buffer_grow(&to->counts, device, SL_BUFFER_HOST,
                          sizeof *j->counts +
                              j->g->source.dataset->typed.n_types * sizeof(struct sl_hits),
                          "counts"));
    j->counts = to->counts.p;
    *j->counts = (struct sl_batch_counts){0};
    to->block = (struct sl_block_view){.header = j->block, .base = to->arrays.p};
    SL_TRY(bring_near(j, &j->near_bytes));
    const uint64_t before = j->near_bytes ? first_drawn(j->block) : j->block->bytes;
    const uint64_t behind = before + j->near_bytes;
    SL_TRY(device->copy(to->arrays.p, j->block, before));
    if (behind == j->block->bytes)
        return SL_OK;
    return device->copy((char *)to->arrays.p + behind, (const char *)j->block + behind,
                        j->block->bytes - behind);
}

static int count_loops(struct sl_gather_job *j)
{
    struct sl_block_view *view = &j->to->block;
    if (!j->g->counts_loops)
        return SL_OK;
    for (uint32_t h = 0; h < j->block->n_hops; h++) {
        const struct sl_csr_view hop = sl_hop_csr(*view, h);
        SL_TRY(j->g->compute.kernels->count_loops(&hop, &j->counts->n_loops[h]));
    }
    view->n_loops = j->counts->n_loops;
    return SL_OK;
}

// Hits from wherever they are held; misses from the store in place, or with a store of NULL left
// for others to bring.
static int gather_ranked(struct sl_gather_job *j, const void *store)
{
    const struct sl_dataset *ds = j->g->source.dataset;
    const struct sl_gather_ranked_args args = {
        .cache = j->spread,
        .store = store,
        .n_rows = store ? ds->n_nodes : 0,
        .dtype = j->dtype,
        .dim = j->dim,
        .nodes = sl_view_nodes(j->to->block),
        .ranks = sl_view_ranks(j->to->block),
        .n = j->block->n_input,
        .out = j->to->x,
        .hits = &j->counts->hits,
    };
    return j->g->compute.kernels->gather_ranked(&args);
}

static int mapped(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    if (sl_gather_is_held(&j->spread))
        return gather_ranked(j, g->store.there);
    return g->compute.kernels->gather_rows(g->store.there, j->dtype, g->source.dataset->n_nodes,
                                           j->dim, sl_view_nodes(j->to->block), j->block->n_input,
                                           j->to->x);
}

// The store's rows of `vertices`, one after the other, to device memory `to`.
static int send_rows(struct sl_gather *g, const uint32_t *vertices, uint32_t n, char *to)
{
    const struct sl_device *device = g->compute.device;
    const uint64_t row_bytes = sl_rows_bytes(g->source.dataset);
    const uint32_t piece = (uint32_t)SL_MAX(PIECE_BYTES / row_bytes, (uint64_t)1);
    SL_TRY(sl_buffer_grow(&g->rows, device, SL_BUFFER_HOST, n * row_bytes, "input features"));
    for (uint32_t at = 0; at < n; at += SL_MIN(piece, n - at)) {
        uint32_t rows = SL_MIN(piece, n - at);
        char *from = (char *)g->rows.p + at * row_bytes;
        SL_TRY(sl_rows_copy(&g->source, g->compute.host, vertices + at, NULL, rows, rows, from));
        SL_TRY(device->copy(to + at * row_bytes, from, rows * row_bytes));
    }
    return SL_OK;
}

/*
 * The misses in j->lists, and where they go in the split, in the device's memory. With a cache the
 * device makes the lists, of the ranks that it has, and the processor gets those of the misses: as
 * long as they may be, since how long they are comes with them, in one wait.
 */
static int list_misses(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const struct sl_block_view block = j->to->block;
    const uint32_t n = j->block->n_input;
    struct sl_row_split *there = &j->counts->split;
    SL_TRY(sl_buffer_grow(&g->device_lists, device, SL_BUFFER_DEVICE,
                          (size_t)n * SL_GATHER_LISTS * sizeof(uint32_t), "lists of input nodes"));
    *there = sl_gather_lists_in(g->device_lists.p, n);
    if (!sl_gather_is_held(&j->spread))
        return list_rows(j, &j->lists);
    SL_TRY(sl_gather_grow_lists(g, n));
    j->lists = sl_gather_lists_in(g->lists.p, n);
    SL_TRY(g->compute.kernels->split_rows(sl_view_nodes(block), sl_view_ranks(block), n, &j->spread,
                                          there));
    SL_TRY(device->copy(j->lists.miss_row, there->miss_row, n * sizeof *there->miss_row));
    if (j->before)
        SL_TRY(device->copy(j->lists.miss_to, there->miss_to, n * sizeof *there->miss_to));
    SL_TRY(device->sync());
    j->lists.n_misses = there->n_misses;
    return SL_OK;
}

// What the batch before had, from the device's memory to its places.
static int place_matched(struct sl_gather_job *j)
{
    const struct sl_device *device = j->g->compute.device;
    const struct sl_row_split *s = &j->lists, *there = &j->counts->split;
    SL_TRY(device->copy(there->hit_row, s->hit_row, j->matched * sizeof *s->hit_row));
    SL_TRY(device->copy(there->hit_to, s->hit_to, j->matched * sizeof *s->hit_to));
    return j->g->compute.kernels->gather_rows_to(
        j->before->x, SL_DTYPE_F32, j->before->matchable.n_rows, j->dim, there->hit_row,
        there->hit_to, j->matched, j->block->n_input, j->to->x);
}

// What neither the cache nor the batch before has, from the store.
static int stage(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const struct sl_row_split *s = &j->lists, *there = &j->counts->split;
    const uint32_t n = s->n_misses;
    if (j->matched ||
        !sl_gather_is_held(&j->spread)) // else they are there as the device has listed them
        SL_TRY(device->copy(there->miss_to, s->miss_to, n * sizeof *s->miss_to));
    SL_TRY(sl_buffer_grow(&g->staged, device, SL_BUFFER_DEVICE,
                          n * sl_rows_bytes(g->source.dataset), "input features"));
    SL_TRY(send_rows(g, s->miss_row, n, g->staged.p));
    return g->compute.kernels->gather_rows_to(g->staged.p, j->dtype, n, j->dim, NULL,
                                              there->miss_to, n, j->block->n_input, j->to->x);
}

// The processor does nothing for a hit.
static int staged(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_dataset *ds = g->source.dataset;
    const uint32_t n = j->block->n_input;
    j->lists = (struct sl_row_split){0};
    j->matched = 0;
    if (sl_gather_is_held(&j->spread))
        SL_TRY(gather_ranked(j, NULL));
    if (sl_gather_holds_all(&j->spread, ds->n_nodes))
        return SL_OK;
    if (!sl_gather_is_held(&j->spread) && !j->before && j->dtype == SL_DTYPE_F32)
        return send_rows(g, sl_block_nodes(j->block), n, j->to->x); // in their order
    SL_TRY(list_misses(j));
    if (j->lists.n_misses == 0)
        return SL_OK;
    if (j->before)
        j->matched = sl_match_find(&g->match, &j->before->matchable, &j->lists);
    if (j->matched) // the device works on it while the processor gathers the rest
        SL_TRY(place_matched(j));
    return stage(j);
}

// Features of a plain block's edges, whose numbers have 64 bits, are the processor's to gather.
static int stage_edges(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const uint64_t vertices = vertex_bytes(g, j->block), bytes = bytes_of(g, j->block) - vertices;
    if (bytes == 0)
        return SL_OK;
    SL_TRY(sl_buffer_grow(&g->edge_rows, device, SL_BUFFER_HOST, bytes, "features of edges"));
    SL_TRY(
        sl_edge_rows_copy_block(&g->source, g->compute.host, j->block, vertices, g->edge_rows.p));
    return device->copy((char *)j->to->x + vertices, g->edge_rows.p, bytes);
}

static int go(struct sl_gather_job *j, enum sl_gather_way way)
{
    j->counts->hits = (struct sl_hits){0};
    if (sl_gather_is_typed(j->block))
        SL_TRY(sl_gather_types_on_device(j, way == SL_GATHER_MAPPED));
    else
        SL_TRY(way == SL_GATHER_MAPPED ? mapped(j) : staged(j));
    if (!sl_gather_is_typed(j->block))
        SL_TRY(stage_edges(j));
    if (j->cache && j->cache->plan.n_parts > 0)
        SL_FAILPOINT(LENT_GATHERING);
    SL_TRY(j->g->compute.device->sync());
    if (sl_gather_is_typed(j->block))
        sl_gather_settle_types(j);
    else
        j->hits = sl_gather_hits_of(&j->counts->hits);
    return SL_OK;
}

// A batch before, of which something is looked for.
static bool follows(const struct sl_gather_job *j)
{
    return j->before && j->before->matchable.n > 0;
}

static int time_way(struct sl_gather_job *j, enum sl_gather_way way, uint64_t *best_ns)
{
    *best_ns = UINT64_MAX;
    for (int i = 0; i < TRIALS; i++) {
        uint64_t start = sl_now_ns();
        SL_TRY(go(j, way));
        if (i > 0)
            *best_ns = SL_MIN(*best_ns, sl_now_ns() - start);
    }
    return SL_OK;
}

// Whether the way that misses go is known and can be gone.
static bool is_settled(const struct sl_gather_job *j)
{
    const struct sl_gather *g = j->g;
    const bool again = g->unmatched && follows(j);
    return g->way == SL_GATHER_STAGED || (g->way == SL_GATHER_MAPPED && g->store.there && !again);
}

// Finds out which way misses go from now on.
static int settle(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    uint64_t mapped_ns, staged_ns;
    if (!sl_store_pin(&g->store)) {
        g->way = SL_GATHER_STAGED;
        return SL_OK;
    }
    if (g->way == SL_GATHER_MAPPED && !g->unmatched)
        return SL_OK;
    SL_TRY(time_way(j, SL_GATHER_MAPPED, &mapped_ns));
    SL_TRY(time_way(j, SL_GATHER_STAGED, &staged_ns));
    g->way = mapped_ns < staged_ns ? SL_GATHER_MAPPED : SL_GATHER_STAGED;
    g->unmatched = g->way == SL_GATHER_MAPPED && j->before && !follows(j);
    sl_log_info("features: rows go to the device %s: %" PRIu32 " input nodes, %" PRIu32
                " of them cached and %" PRIu32 " in the batch before, take %.3f ms in place and "
                "%.3f ms through copies",
                g->way == SL_GATHER_MAPPED ? "in place" : "through copies", j->block->n_input,
                j->hits, j->matched, (double)mapped_ns / 1e6, (double)staged_ns / 1e6);
    if (g->way == SL_GATHER_STAGED) {
        sl_store_unpin(&g->store);
        sl_store_set_way(&g->store, SL_STORE_WAY_FASTER);
    } else if (!g->unmatched) { // else what it takes is counted until that is known
        sl_buffer_fini(&g->rows);
        sl_buffer_fini(&g->staged);
    }
    return SL_OK;
}

// The batch's features by what is held of them now.
static int gather_once(struct sl_gather_job *j, uint64_t *start_ns)
{
    struct sl_gather *g = j->g;
    // Where all rows are held there are no misses: nothing is pinned for them, nor tried.
    bool misses = sl_gather_is_typed(j->block)
                      ? !sl_gather_holds_types(j)
                      : !sl_gather_holds_all(&j->spread, g->source.dataset->n_nodes);
    g->missed |= misses && j->cache;
    bool tries = misses && !is_settled(j), gives_back = !misses && g->store.there && !g->missed;
    if (tries)
        SL_TRY(settle(j));
    if (gives_back)
        sl_store_unpin(&g->store);
    if (tries || gives_back)
        *start_ns = sl_now_ns(); // that is not part of the batch
    j->matched = 0;
    return go(j, misses ? g->way : SL_GATHER_STAGED);
}

// Of a typed block that is found type by type.
static void find_spread(struct sl_gather_job *j)
{
    if (j->cache)
        sl_cache_open(j->cache);
    if (j->cache && !sl_gather_is_typed(j->block))
        sl_cache_spread(j->cache, j->block, 0, &j->spread);
}

static int on_device(struct sl_gather_job *j, uint64_t *start_ns)
{
    SL_TRY(bring_block(j));
    SL_TRY(count_loops(j));
    SL_TRY(gather_once(j, start_ns));
    while (j->cache && !sl_cache_is_good(j->cache)) { // each time fewer lenders
        find_spread(j);
        SL_TRY(gather_once(j, start_ns));
    }
    if (!j->cache)
        return SL_OK;
    if (sl_gather_is_typed(j->block))
        sl_gather_count_types(j);
    else
        sl_cache_count(j->cache, 0, &j->counts->hits, j->block->n_input - j->hits - j->matched);
    return SL_OK;
}

// Whether rows are looked for in the batch before.
static bool matches(const struct sl_gather *g)
{
    return !g->compute.device->is_host &&
           (g->source.reader || sl_rows_bytes(g->source.dataset) > SL_GATHER_MATCH_ROW_BYTES ||
            sl_gather_matches_types(g));
}

// For the batch after this one.
static int note(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    if (!j->before || (g->way == SL_GATHER_MAPPED && !g->unmatched))
        return SL_OK;
    if (sl_gather_is_typed(j->block))
        return sl_gather_note_types(j);
    const struct sl_match_batch batch = {
        .vertices = sl_block_nodes(j->block),
        .n = j->block->n_input,
        .rows = {j->lists.miss_to, j->lists.hit_to},
        .n_rows = {j->lists.n_misses, j->matched},
    };
    return sl_match_note(&g->match, g->source.dataset->n_nodes, g->compute.device, &batch,
                         &j->to->matchable);
}

int sl_gather_reserve(const struct sl_gather *g, const struct sl_block *block,
                      struct sl_batch_buffer *to)
{
    to->matchable.n = 0; // until all of x is there
    SL_TRY(sl_buffer_grow(&to->features, g->compute.device, SL_BUFFER_DEVICE, bytes_of(g, block),
                          "input features"));
    to->x = to->features.p;
    return SL_OK;
}

int sl_gather_block(struct sl_gather *g, struct sl_cache *cache, const struct sl_block *block,
                    const struct sl_batch_buffer *before, struct sl_batch_buffer *to,
                    struct sl_gathered *out)
{
    SL_TRY(sl_gather_reserve(g, block, to));
    return sl_gather_rows(g, cache, block, before, to, out);
}

// Of the store's type.
static void count_bytes(const struct sl_gather_job *j, struct sl_gathered *out)
{
    const struct sl_dataset *ds = j->g->source.dataset;
    const bool typed = sl_gather_is_typed(j->block);
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < sl_row_ranges(ds); r++) {
        const uint64_t each = sl_row_range(ds, r).row_bytes;
        const uint64_t rows = typed ? sl_typed_block_rows(j->block, r) : j->block->n_input;
        out->hit_bytes += (typed ? j->type_hits[r] : j->hits) * each;
        out->matched_bytes += (typed ? j->type_matched[r] : j->matched) * each;
        out->bare += typed && each == 0 ? rows : 0;
        bytes += rows * each;
    }
    out->miss_bytes = bytes - out->hit_bytes - out->matched_bytes;
}

int sl_gather_rows(struct sl_gather *g, struct sl_cache *cache, const struct sl_block *block,
                   const struct sl_batch_buffer *before, struct sl_batch_buffer *to,
                   struct sl_gathered *out)
{
    const struct sl_dataset *ds = g->source.dataset;
    struct sl_gather_job job = {
        .g = g, .cache = cache, .block = block, .to = to, .dim = width_of(g)};
    job.n_rows = rows_of(g, block);
    job.dtype = g->half ? SL_DTYPE_F32 : ds->feat_dtype;
    job.before = matches(g) ? before : NULL;
    uint64_t start = sl_now_ns(), cpu_ns = sl_thread_cpu_ns();
    const struct sl_reading *reader = g->source.reader;
    const struct sl_asking_count none = {0}, remote = reader ? sl_reading_remote(reader) : none;
    if (sl_gather_is_typed(block))
        SL_TRY(sl_gather_begin_types(&job));
    find_spread(&job);
    SL_TRY(g->compute.device->is_host ? on_host(&job) : on_device(&job, &start));
    SL_TRY(note(&job));
    *out = (struct sl_gathered){
        .from_ns = start,
        .ns = sl_now_ns() - start,
        .cpu_ns = sl_thread_cpu_ns() - cpu_ns,
        .hits = job.hits,
        .matched = job.matched,
        .near_bytes = job.near_bytes,
        .x_bytes = bytes_of(g, block),
    };
    if (reader)
        out->remote = (struct sl_asking_count){sl_reading_remote(reader).rows - remote.rows,
                                               sl_reading_remote(reader).bytes - remote.bytes};
    count_bytes(&job, out);
    return SL_OK;
}

void sl_batch_buffer_fini(struct sl_batch_buffer *b)
{
    sl_buffer_fini(&b->arrays);
    sl_buffer_fini(&b->counts);
    sl_buffer_fini(&b->features);
    sl_matchable_fini(&b->matchable);
    *b = (struct sl_batch_buffer){0};
}

void sl_gather_fini(struct sl_gather *g)
{
    sl_store_fini(&g->store);
    sl_buffer_fini(&g->lists);
    sl_buffer_fini(&g->device_lists);
    sl_buffer_fini(&g->rows);
    sl_buffer_fini(&g->staged);
    sl_buffer_fini(&g->edge_rows);
    sl_buffer_fini(&g->type_hits);
    sl_buffer_fini(&g->staged_types);
    sl_match_fini(&g->match);
    sl_row_source_fini(&g->source);
    *g = (struct sl_gather){0};
}
