#include "trainer/feed/gather.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "trainer/feed/hop.h"
#include "trainer/feed/typed_block.h"

enum {
    // Gathered by the processor while the piece before crosses the bus: some hundred microseconds.
    PIECE_BYTES = 8 << 20,
    TRIALS = 3, // of each way; the first of them warms up
    // Looking for a row in the batch before touches two lines of memory; reading one as short does.
    MATCH_ROW_BYTES = 128,
};

// Where rows of the store and of the cache go, while one batch is gathered.
struct job {
    struct sl_gather *g;
    struct sl_cache *cache; // NULL: none
    const struct sl_block *block;
    enum sl_dtype dtype; // of the rows that are moved, and their width
    uint32_t dim;
    struct sl_spread spread;              // of the rows that are held, for this block
    const struct sl_batch_buffer *before; // NULL: nothing is looked for in it
    struct sl_batch_buffer *to;
    struct sl_batch_counts *counts; // of a GPU
    struct sl_row_split lists; // staged: of the misses, and behind the hits of what was matched
    uint32_t hits, matched;
    uint64_t near_bytes; // of the block
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

static bool is_typed(const struct sl_block *block)
{
    return block->flags & SL_BLOCK_TYPED;
}

static bool is_held(const struct sl_spread *s)
{
    return s->n_near > 0 || s->n_parts > 0;
}

// Whether all of n rows are held: there are no misses then.
static bool holds_all(const struct sl_spread *s, uint64_t n)
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

static int grow_lists(struct sl_gather *g, uint32_t n)
{
    return sl_buffer_grow(&g->lists, g->compute.device, SL_BUFFER_HOST,
                          (size_t)n * SL_GATHER_LISTS * sizeof(uint32_t), "lists of input nodes");
}

// The lists of a split in memory for SL_GATHER_LISTS times n words.
static struct sl_row_split lists_in(void *words, uint32_t n)
{
    uint32_t *p = words;
    return (struct sl_row_split){
        .hit_row = p,
        .hit_to = p + n,
        .miss_row = p + 2 * (size_t)n,
        .miss_to = p + 3 * (size_t)n,
    };
}

// What the cache has not, as lists of the processor's: of a block without ranks everything.
static int list_rows(struct job *j, struct sl_row_split *out)
{
    const uint32_t n = j->block->n_input, *nodes = sl_block_nodes(j->block);
    SL_TRY(grow_lists(j->g, n));
    *out = lists_in(j->g->lists.p, n);
    if (is_held(&j->spread))
        return j->g->compute.kernels->split_rows(nodes, sl_block_ranks(j->block), n, &j->spread,
                                                 out);
    memcpy(out->miss_row, nodes, n * sizeof *nodes);
    for (uint32_t i = 0; i < n; i++)
        out->miss_to[i] = i;
    out->n_misses = n;
    return SL_OK;
}

// Words of a row as it is moved.
static uint32_t width_of(const struct sl_gather *g)
{
    const uint32_t dim = g->source.dataset->feat_dim;
    return g->half ? dim / 2 : dim;
}

// Bytes of a block's rows where they are computed with.
static uint64_t bytes_of(const struct sl_gather *g, const struct sl_block *block)
{
    const struct sl_typed *typed = &g->source.dataset->typed;
    return is_typed(block) ? sl_typed_block_bytes(block, typed, g->half)
                           : (uint64_t)block->n_input * width_of(g) * sizeof(float);
}

// Where the rows of a typed block's vertices end and those of its edges begin.
static uint64_t vertices_end(const struct job *j)
{
    const struct sl_typed *typed = &j->g->source.dataset->typed;
    return sl_typed_rows_at(j->block, typed, typed->n_types, j->g->half);
}

// All rows of a typed block to the processor's memory.
static int copy_types(struct job *j, const struct sl_kernels *kernels, void *to)
{
    struct sl_gather *g = j->g;
    SL_TRY(sl_rows_copy_typed(&g->source, kernels, j->block, g->half, to));
    return sl_rows_copy_edges(&g->source, kernels, j->block, vertices_end(j), to);
}

// --- on CPU cores --------------------------------------------------------------------------------

// Misses that do not lie in a mapped file: to their places at once where they are what is computed
// with, else by memory of their own.
static int place_read(struct job *j, const struct sl_row_split *s)
{
    struct sl_gather *g = j->g;
    const struct sl_kernels *kernels = g->compute.kernels;
    const struct sl_dataset *ds = g->source.dataset;
    if (j->dtype == SL_DTYPE_F32)
        return sl_rows_copy(&g->source, kernels, s->miss_row, s->miss_to, s->n_misses,
                            j->block->n_input, j->to->x);
    SL_TRY(sl_buffer_grow(&g->rows, g->compute.device, SL_BUFFER_HOST,
                          s->n_misses * sl_rows_bytes(ds), "input features"));
    SL_TRY(
        sl_rows_copy(&g->source, kernels, s->miss_row, NULL, s->n_misses, s->n_misses, g->rows.p));
    return kernels->gather_rows_to(g->rows.p, ds->feat_dtype, s->n_misses, ds->feat_dim, NULL,
                                   s->miss_to, s->n_misses, j->block->n_input, j->to->x);
}

static int on_host(struct job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_kernels *kernels = g->compute.kernels;
    const struct sl_dataset *ds = g->source.dataset;
    const struct sl_block *block = j->block;
    const uint32_t n = block->n_input;
    j->to->block = sl_block_here(block);
    if (is_typed(block))
        return copy_types(j, kernels, j->to->x);
    if (j->dim == 0) // learned rows alone
        return SL_OK;
    if (!is_held(&j->spread) && !g->source.reader)
        return kernels->gather_rows(ds->feat, j->dtype, ds->n_nodes, j->dim, sl_block_nodes(block),
                                    n, j->to->x);
    struct sl_row_split s = {0};
    SL_TRY(list_rows(j, &s));
    j->hits = s.n_hits;
    if (s.n_hits)
        SL_TRY(kernels->gather_rows_to(j->spread.near, j->dtype, j->spread.n_near, j->dim,
                                       s.hit_row, s.hit_to, s.n_hits, n, j->to->x));
    if (g->source.reader)
        return place_read(j, &s);
    return kernels->gather_rows_to(ds->feat, j->dtype, ds->n_nodes, j->dim, s.miss_row, s.miss_to,
                                   s.n_misses, n, j->to->x);
}

// --- on a GPU ------------------------------------------------------------------------------------

// Where the arrays begin that a sampler's GPU writes.
static uint64_t first_drawn(const struct sl_block *block)
{
    if (!is_typed(block))
        return block->hop[0].indptr_offset;
    return sl_block_typed(block)->n_runs > 0 ? sl_block_runs(block)[0].indptr_offset
                                             : block->nodes_offset;
}

// What the sampler's GPU wrote of the block, where that is this one: from behind the labels on. (Of
// a typed one its tables are read in the header's memory alone, and are not there.)
static int bring_near(struct job *j, uint64_t *bytes)
{
    const struct sl_near_block *near = &j->g->near;
    const struct sl_device *device = j->g->compute.device;
    const uint64_t first = first_drawn(j->block);
    *bytes = 0;
    if (!near->base)
        return SL_OK;
    SL_TRY(
        device->copy((char *)j->to->arrays.p + first, near->base + first, j->block->bytes - first));
    SL_FAILPOINT(LENT_BLOCK);
    SL_TRY(device->sync());
    if (sl_peer_import_is_good(near->borrowed))
        *bytes = j->block->bytes - first;
    return SL_OK;
}

// The block's arrays in the device's memory; its header stays where it is.
static int bring_block(struct job *j)
{
    const struct sl_device *device = j->g->compute.device;
    struct sl_batch_buffer *to = j->to;
    SL_TRY(sl_buffer_grow(&to->arrays, device, SL_BUFFER_DEVICE, j->block->bytes, "mini-batches"));
    SL_TRY(sl_buffer_grow(&to->counts, device, SL_BUFFER_HOST, sizeof *j->counts, "counts"));
    j->counts = to->counts.p;
    *j->counts = (struct sl_batch_counts){0};
    to->block = (struct sl_block_view){.header = j->block, .base = to->arrays.p};
    SL_TRY(bring_near(j, &j->near_bytes));
    return device->copy(to->arrays.p, j->block, j->block->bytes - j->near_bytes);
}

static int count_loops(struct job *j)
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
static int gather_ranked(struct job *j, const void *store)
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

static int mapped(struct job *j)
{
    struct sl_gather *g = j->g;
    if (is_held(&j->spread))
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
static int list_misses(struct job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const struct sl_block_view block = j->to->block;
    const uint32_t n = j->block->n_input;
    struct sl_row_split *there = &j->counts->split;
    SL_TRY(sl_buffer_grow(&g->device_lists, device, SL_BUFFER_DEVICE,
                          (size_t)n * SL_GATHER_LISTS * sizeof(uint32_t), "lists of input nodes"));
    *there = lists_in(g->device_lists.p, n);
    if (!is_held(&j->spread))
        return list_rows(j, &j->lists);
    SL_TRY(grow_lists(g, n));
    j->lists = lists_in(g->lists.p, n);
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
static int place_matched(struct job *j)
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
static int stage(struct job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const struct sl_row_split *s = &j->lists, *there = &j->counts->split;
    const uint32_t n = s->n_misses;
    if (j->matched || !is_held(&j->spread)) // else they are there as the device has listed them
        SL_TRY(device->copy(there->miss_to, s->miss_to, n * sizeof *s->miss_to));
    SL_TRY(sl_buffer_grow(&g->staged, device, SL_BUFFER_DEVICE,
                          n * sl_rows_bytes(g->source.dataset), "input features"));
    SL_TRY(send_rows(g, s->miss_row, n, g->staged.p));
    return g->compute.kernels->gather_rows_to(g->staged.p, j->dtype, n, j->dim, NULL,
                                              there->miss_to, n, j->block->n_input, j->to->x);
}

// The processor does nothing for a hit.
static int staged(struct job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_dataset *ds = g->source.dataset;
    const uint32_t n = j->block->n_input;
    j->lists = (struct sl_row_split){0};
    j->matched = 0;
    if (is_held(&j->spread))
        SL_TRY(gather_ranked(j, NULL));
    if (holds_all(&j->spread, ds->n_nodes))
        return SL_OK;
    if (!is_held(&j->spread) && !j->before && j->dtype == SL_DTYPE_F32)
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

static uint32_t hits_of(const struct sl_hits *hits)
{
    uint32_t n = hits->near;
    for (uint32_t i = 0; i < SL_PARTS_MAX; i++)
        n += hits->part[i];
    return n;
}

// The rows of a typed block, gathered by the processor, in one copy.
static int staged_types(struct job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const uint64_t bytes = bytes_of(g, j->block);
    SL_TRY(sl_buffer_grow(&g->rows, device, SL_BUFFER_HOST, bytes, "input features"));
    SL_TRY(copy_types(j, g->compute.host, g->rows.p));
    return bytes > 0 ? device->copy(j->to->x, g->rows.p, bytes) : SL_OK;
}

// Rows of edges, whose numbers have 64 bits, are the processor's to gather.
static int staged_edges(struct job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const uint64_t first = vertices_end(j), bytes = bytes_of(g, j->block) - first;
    if (bytes == 0)
        return SL_OK;
    SL_TRY(sl_buffer_grow(&g->rows, device, SL_BUFFER_HOST, bytes, "features of edges"));
    SL_TRY(sl_rows_copy_edges(&g->source, g->compute.host, j->block, 0, g->rows.p));
    return device->copy((char *)j->to->x + first, g->rows.p, bytes);
}

/*
 * The same in place. Ids are those of all vertices, so a table begins where that of vertex 0 would
 * be; a type's part of a block has vertices of that type alone.
 */
static int mapped_types(struct job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_typed *typed = &g->source.dataset->typed;
    const struct sl_block_type *part = sl_block_types(j->block);
    const uint32_t *nodes = sl_view_nodes(j->to->block);
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const struct sl_vertex_type *type = &typed->type[t];
        const uint64_t row_bytes = type->feat_dim * sl_dtype_bytes(type->feat_dtype);
        const uint32_t n = sl_typed_block_rows(j->block, t);
        if (type->feat_dim == 0 || n == 0)
            continue;
        const void *table = (const void *)((uintptr_t)g->store.types[t] - type->first * row_bytes);
        SL_TRY(g->compute.kernels->gather_rows(
            table, type->feat_dtype, type->first + type->n, type->feat_dim, nodes + part[t].first,
            n, (float *)(void *)((char *)j->to->x + sl_typed_rows_at(j->block, typed, t, false))));
    }
    return staged_edges(j);
}

static int go(struct job *j, enum sl_gather_way way)
{
    j->counts->hits = (struct sl_hits){0};
    if (is_typed(j->block))
        SL_TRY(way == SL_GATHER_MAPPED ? mapped_types(j) : staged_types(j));
    else
        SL_TRY(way == SL_GATHER_MAPPED ? mapped(j) : staged(j));
    if (j->spread.n_parts > 0)
        SL_FAILPOINT(LENT_GATHERING);
    SL_TRY(j->g->compute.device->sync());
    j->hits = hits_of(&j->counts->hits);
    return SL_OK;
}

// A batch before, of which something is looked for.
static bool follows(const struct job *j)
{
    return j->before && j->before->matchable.n > 0;
}

static int time_way(struct job *j, enum sl_gather_way way, uint64_t *best_ns)
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
static bool is_settled(const struct job *j)
{
    const struct sl_gather *g = j->g;
    const bool again = g->unmatched && follows(j);
    return g->way == SL_GATHER_STAGED || (g->way == SL_GATHER_MAPPED && g->store.there && !again);
}

// Finds out which way misses go from now on.
static int settle(struct job *j)
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
static int gather_once(struct job *j, uint64_t *start_ns)
{
    struct sl_gather *g = j->g;
    // Where all rows are held there are no misses: nothing is pinned for them, nor tried.
    bool misses = !holds_all(&j->spread, g->source.dataset->n_nodes);
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

static int on_device(struct job *j, uint64_t *start_ns)
{
    SL_TRY(bring_block(j));
    SL_TRY(count_loops(j));
    SL_TRY(gather_once(j, start_ns));
    while (j->cache && !sl_cache_is_good(j->cache)) { // each time fewer lenders
        sl_cache_spread(j->cache, j->block, &j->spread);
        SL_TRY(gather_once(j, start_ns));
    }
    if (j->cache)
        sl_cache_count(j->cache, &j->counts->hits, j->block->n_input - j->hits - j->matched);
    return SL_OK;
}

// Whether rows are looked for in the batch before.
static bool matches(const struct sl_gather *g)
{
    return !g->compute.device->is_host &&
           (g->source.reader || sl_rows_bytes(g->source.dataset) > MATCH_ROW_BYTES);
}

// For the batch after this one.
static int note(struct job *j)
{
    struct sl_gather *g = j->g;
    if (!j->before || (g->way == SL_GATHER_MAPPED && !g->unmatched))
        return SL_OK;
    const struct sl_match_batch batch = {
        .vertices = sl_block_nodes(j->block),
        .n = j->block->n_input,
        .rows = {j->lists.miss_to, j->lists.hit_to},
        .n_rows = {j->lists.n_misses, j->matched},
    };
    return sl_match_note(&g->match, g->source.dataset->n_nodes, g->compute.device, &batch,
                         &j->to->matchable);
}

// Rows of several widths are gathered by the processor.
static int check_typed(const struct sl_gather *g, const struct sl_block *block)
{
    const bool reads = g->source.reader;
    if (!is_typed(block) || g->compute.device->is_host ||
        !(reads || block->flags & SL_BLOCK_HAS_RANKS))
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED, "features of a graph with types on a GPU: found %s, wanted %s",
                   reads ? "a drive or other nodes to read them from" : "a cache",
                   reads ? "store.features \"memory\"" : "cache.policy \"none\"");
}

int sl_gather_reserve(const struct sl_gather *g, const struct sl_block *block,
                      struct sl_batch_buffer *to)
{
    to->matchable.n = 0; // until all of x is there
    SL_TRY(check_typed(g, block));
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

int sl_gather_rows(struct sl_gather *g, struct sl_cache *cache, const struct sl_block *block,
                   const struct sl_batch_buffer *before, struct sl_batch_buffer *to,
                   struct sl_gathered *out)
{
    const struct sl_dataset *ds = g->source.dataset;
    struct job job = {.g = g, .cache = cache, .block = block, .to = to, .dim = width_of(g)};
    job.dtype = g->half ? SL_DTYPE_F32 : ds->feat_dtype;
    job.before = matches(g) && !is_typed(block) ? before : NULL;
    uint64_t start = sl_now_ns(), cpu_ns = sl_thread_cpu_ns();
    const struct sl_reading *reader = g->source.reader;
    const uint64_t remote = reader ? sl_reading_remote_rows(reader) : 0;
    if (cache)
        sl_cache_spread(cache, block, &job.spread);
    SL_TRY(g->compute.device->is_host ? on_host(&job) : on_device(&job, &start));
    SL_TRY(note(&job));
    const uint64_t row_bytes = sl_rows_bytes(ds);
    *out = (struct sl_gathered){
        .from_ns = start,
        .ns = sl_now_ns() - start,
        .cpu_ns = sl_thread_cpu_ns() - cpu_ns,
        .hits = job.hits,
        .matched = job.matched,
        .hit_bytes = job.hits * row_bytes,
        .matched_bytes = job.matched * row_bytes,
        .near_bytes = job.near_bytes,
        .remote = reader ? sl_reading_remote_rows(reader) - remote : 0,
        .miss_bytes =
            sl_rows_block_bytes(ds, block) - (job.hits + (uint64_t)job.matched) * row_bytes,
    };
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
    sl_match_fini(&g->match);
    sl_row_source_fini(&g->source);
    *g = (struct sl_gather){0};
}
