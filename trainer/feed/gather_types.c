// gather_types.c - a typed block's rows, of several widths: type after type.
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "trainer/feed/gather.h"
#include "trainer/feed/gather_internal.h"
#include "trainer/feed/typed_block.h"

enum { ROWS_ALIGN = 64 }; // of each type's rows that are staged

// A type's part of a typed block.
struct part {
    struct sl_row_range range;
    enum sl_dtype dtype; // of its rows where they are moved by a device, and their width
    uint32_t dim;
    uint32_t first, n;     // input nodes
    struct sl_spread held; // of its rows
    void *x;
};

// --- parts of typed blocks -----------------------------------------------------------------------

static const struct sl_typed *types_of(const struct sl_gather *g)
{
    return &g->source.dataset->typed;
}

enum sl_typed_layout sl_gather_layout(const struct sl_gather *g)
{
    return g->half ? SL_TYPED_AS_STORED : g->near_rows ? SL_TYPED_NEAR : SL_TYPED_F32;
}

// Where the rows of vertices end and those of edges begin.
static uint64_t vertices_end(const struct sl_gather_job *j)
{
    return sl_typed_rows_at(j->block, types_of(j->g), types_of(j->g)->n_types,
                            sl_gather_layout(j->g));
}

static uint32_t hits_of_types(const struct sl_gather_job *j)
{
    uint32_t n = 0;
    for (uint32_t t = 0; j->type_hits && t < types_of(j->g)->n_types; t++)
        n += j->type_hits[t];
    return n;
}

// False: it has no rows with features.
static bool find_part(const struct sl_gather_job *j, uint32_t t, struct part *out)
{
    const struct sl_gather *g = j->g;
    const enum sl_typed_layout layout = sl_gather_layout(g);
    const struct sl_row_range range = sl_row_range(g->source.dataset, t);
    const bool pairs = g->half && range.dtype == SL_DTYPE_F16;
    *out = (struct part){
        .range = range,
        .dtype = pairs ? SL_DTYPE_F32 : range.dtype,
        .dim = pairs ? range.dim / 2 : range.dim,
        .first = sl_block_types(j->block)[t].first,
        .n = sl_typed_layout_rows(j->block, t, layout),
        .x = (char *)j->to->x + sl_typed_rows_at(j->block, types_of(g), t, layout),
    };
    if (out->n == 0 || range.row_bytes == 0)
        return false;
    if (j->cache)
        sl_cache_spread(j->cache, j->block, t, &out->held);
    return true;
}

// Pairs of half precision are moved as one number, where all widths are even.
static bool moves_types(const struct sl_gather *g)
{
    bool all = true;
    for (uint32_t t = 0; t < types_of(g)->n_types; t++)
        all &= !g->half || sl_row_range(g->source.dataset, t).row_bytes % sizeof(float) == 0;
    return all;
}

// Whether the cache has rows of this block.
static bool is_any_held(const struct sl_gather_job *j)
{
    struct part p;
    bool any = false;
    for (uint32_t t = 0; j->cache && t < types_of(j->g)->n_types; t++)
        any |= find_part(j, t, &p) && sl_gather_is_held(&p.held);
    return any;
}

bool sl_gather_holds_types(const struct sl_gather_job *j)
{
    struct part p;
    bool all = j->cache != NULL;
    for (uint32_t t = 0; all && t < types_of(j->g)->n_types; t++)
        all = !find_part(j, t, &p) || sl_gather_holds_all(&p.held, p.range.n);
    return all;
}

// The lists of a part in those of the block, which have been made.
static struct sl_row_split lists_of(const struct sl_gather_job *j, const struct part *p)
{
    struct sl_row_split s = sl_gather_lists_in(j->g->lists.p, j->block->n_input);
    s.hit_row += p->first;
    s.hit_to += p->first;
    s.miss_row += p->first;
    s.miss_to += p->first;
    return s;
}

// By the processor.
static int split_part(const struct sl_gather_job *j, const struct part *p, struct sl_row_split *out)
{
    *out = lists_of(j, p);
    if (!sl_gather_is_held(&p->held)) { // the block may have no ranks
        memcpy(out->miss_row, sl_block_nodes(j->block) + p->first, p->n * sizeof *out->miss_row);
        for (uint32_t i = 0; i < p->n; i++)
            out->miss_to[i] = i;
        out->n_misses = p->n;
        return SL_OK;
    }
    return j->g->compute.host->split_rows(sl_block_nodes(j->block) + p->first,
                                          sl_block_ranks(j->block) + p->first, p->n, &p->held, out);
}

// The store's rows of these vertices, where a part's are computed with.
static int rows_to_part(struct sl_gather_job *j, uint32_t t, const struct part *p,
                        const uint32_t *vertices, const uint32_t *to, uint32_t n)
{
    return sl_gather_from_store(j->g, t, vertices, to, n, p->n, p->x);
}

static int part_on_host(struct sl_gather_job *j, uint32_t t, const struct part *p)
{
    const struct sl_gather *g = j->g;
    struct sl_row_split s;
    if (!sl_gather_is_held(&p->held))
        return rows_to_part(j, t, p, sl_block_nodes(j->block) + p->first, NULL, p->n);
    SL_TRY(split_part(j, p, &s));
    j->type_hits[t] = s.n_hits;
    if (s.n_hits)
        SL_TRY(sl_rows_take(&p->range, p->held.near, p->held.n_near, g->compute.kernels, s.hit_row,
                            s.hit_to, s.n_hits, p->n, g->half, p->x));
    return s.n_misses ? rows_to_part(j, t, p, s.miss_row, s.miss_to, s.n_misses) : SL_OK;
}

int sl_gather_types_on_host(struct sl_gather_job *j)
{
    const struct sl_typed *typed = types_of(j->g);
    struct part p;
    SL_TRY(sl_gather_grow_lists(j->g, j->block->n_input));
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const int rc = find_part(j, t, &p) ? part_on_host(j, t, &p) : SL_OK;
        if (rc < 0)
            return sl_fail_prefix(rc, "type \"%s\"", typed->type[t].name);
    }
    j->hits = hits_of_types(j);
    return sl_rows_copy_edges(&j->g->source, j->g->compute.kernels, j->block, vertices_end(j),
                              j->to->x);
}

int sl_gather_begin_types(struct sl_gather_job *j)
{
    const uint32_t n_types = types_of(j->g)->n_types;
    const uint64_t bytes = 2 * n_types * sizeof *j->type_hits;
    SL_TRY(sl_buffer_grow(&j->g->type_hits, sl_device_host(), SL_BUFFER_HOST, bytes, "counts"));
    j->type_hits = j->g->type_hits.p;
    j->type_matched = j->type_hits + n_types;
    memset(j->type_hits, 0, bytes);
    return SL_OK;
}

// --- on a GPU ------------------------------------------------------------------------------------

static struct sl_hits *hits_of_type(const struct sl_gather_job *j, uint32_t t)
{
    return (struct sl_hits *)(void *)(j->counts + 1) + t;
}

// The rows of a typed block, gathered by the processor, in one copy.
static int staged_types(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const uint64_t bytes = vertices_end(j);
    SL_TRY(sl_buffer_grow(&g->rows, device, SL_BUFFER_HOST, bytes, "input features"));
    SL_TRY(sl_rows_copy_typed(&g->source, g->compute.host, j->block, g->half, g->rows.p));
    return bytes > 0 ? device->copy(j->to->x, g->rows.p, bytes) : SL_OK;
}

// A part's hits; and from the table of all its type's rows, if there is one, its misses. Ids are
// those of all vertices, so a table begins where that of vertex 0 would be.
static int gather_part(const struct sl_gather_job *j, uint32_t t, const struct part *p,
                       const void *table)
{
    const struct sl_kernels *kernels = j->g->compute.kernels;
    const uint32_t *nodes = sl_view_nodes(j->to->block) + p->first;
    const uint64_t end = p->range.first + p->range.n;
    if (table)
        table = (const void *)((uintptr_t)table - p->range.first * p->range.row_bytes);
    if (!sl_gather_is_held(&p->held))
        return table ? kernels->gather_rows(table, p->dtype, end, p->dim, nodes, p->n, p->x)
                     : SL_OK;
    const struct sl_gather_ranked_args args = {
        .cache = p->held,
        .store = table,
        .n_rows = table ? end : 0,
        .dtype = p->dtype,
        .dim = p->dim,
        .nodes = nodes,
        .ranks = sl_view_ranks(j->to->block) + p->first,
        .n = p->n,
        .out = p->x,
        .hits = hits_of_type(j, t),
    };
    return kernels->gather_ranked(&args);
}

// In place.
static int mapped_types(struct sl_gather_job *j)
{
    struct part p;
    for (uint32_t t = 0; t < types_of(j->g)->n_types; t++)
        if (find_part(j, t, &p))
            SL_TRY(gather_part(j, t, &p, j->g->store.types[t]));
    return SL_OK;
}

// --- misses of several types, staged ---

// The misses of a part as they are stored, at byte `at` of what is staged; in its lists the rows
// that matched are behind the hits.
struct sl_gather_staged_type {
    uint32_t n, n_hits, n_matched;
    uint64_t at;
};

static bool is_looked_for(const struct part *p)
{
    return p->range.row_bytes > SL_GATHER_MATCH_ROW_BYTES;
}

// Hits are gathered meanwhile. *bytes: of all misses.
static int list_type_misses(struct sl_gather_job *j, struct sl_gather_staged_type *staged,
                            uint64_t *bytes)
{
    struct sl_gather *g = j->g;
    struct sl_row_split s;
    struct part p;
    *bytes = 0;
    SL_TRY(sl_gather_grow_lists(g, j->block->n_input));
    for (uint32_t t = 0; t < types_of(g)->n_types; t++) {
        staged[t] = (struct sl_gather_staged_type){.at = *bytes};
        if (!find_part(j, t, &p))
            continue;
        SL_TRY(gather_part(j, t, &p, NULL));
        SL_TRY(split_part(j, &p, &s));
        if (j->before && is_looked_for(&p))
            j->type_matched[t] = sl_match_find(&g->match, &j->before->matchable, &s);
        j->matched += j->type_matched[t];
        staged[t].n = s.n_misses;
        staged[t].n_hits = s.n_hits;
        staged[t].n_matched = j->type_matched[t];
        *bytes += sl_align_up(s.n_misses * p.range.row_bytes, (uint64_t)ROWS_ALIGN);
    }
    return SL_OK;
}

static int grow_device_lists(struct sl_gather_job *j, struct sl_row_split *there)
{
    const uint32_t n = j->block->n_input;
    SL_TRY(sl_buffer_grow(&j->g->device_lists, j->g->compute.device, SL_BUFFER_DEVICE,
                          (size_t)n * SL_GATHER_LISTS * sizeof(uint32_t), "lists of input nodes"));
    *there = sl_gather_lists_in(j->g->device_lists.p, n);
    return SL_OK;
}

// What the batch before had, from the device's memory to its places.
static int place_type_matches(struct sl_gather_job *j, const struct sl_gather_staged_type *staged)
{
    struct sl_gather *g = j->g;
    const struct sl_matchable_type *before = j->before->matchable.types.p;
    struct sl_row_split there;
    struct part p;
    SL_TRY(grow_device_lists(j, &there));
    SL_TRY(g->compute.device->copy(there.hit_row, g->lists.p,
                                   2 * (size_t)j->block->n_input * sizeof *there.hit_row));
    for (uint32_t t = 0; t < types_of(g)->n_types; t++) {
        if (staged[t].n_matched == 0 || !find_part(j, t, &p))
            continue;
        const uint64_t from = p.first + (uint64_t)staged[t].n_hits;
        SL_TRY(g->compute.kernels->gather_rows_to(
            (char *)j->before->x + before[t].at, SL_DTYPE_F32, before[t].n_rows, p.dim,
            there.hit_row + from, there.hit_to + from, staged[t].n_matched, p.n, p.x));
    }
    return SL_OK;
}

static int send_type_misses(struct sl_gather_job *j, const struct sl_gather_staged_type *staged,
                            uint64_t bytes)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const uint32_t n = j->block->n_input;
    struct sl_row_split there;
    struct part p;
    SL_TRY(sl_buffer_grow(&g->rows, device, SL_BUFFER_HOST, bytes, "input features"));
    SL_TRY(sl_buffer_grow(&g->staged, device, SL_BUFFER_DEVICE, bytes, "input features"));
    SL_TRY(grow_device_lists(j, &there));
    SL_TRY(device->copy(there.miss_to, sl_gather_lists_in(g->lists.p, n).miss_to,
                        n * sizeof *there.miss_to));
    for (uint32_t t = 0; t < types_of(g)->n_types; t++) {
        if (staged[t].n == 0 || !find_part(j, t, &p))
            continue;
        SL_TRY(sl_rows_copy_of(&g->source, t, g->compute.host, lists_of(j, &p).miss_row, NULL,
                               staged[t].n, staged[t].n, (char *)g->rows.p + staged[t].at));
    }
    return device->copy(g->staged.p, g->rows.p, bytes);
}

static int staged_type_misses(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    struct sl_gather_staged_type *staged;
    struct part p;
    uint64_t bytes;
    SL_TRY(sl_buffer_grow(&g->staged_types, sl_device_host(), SL_BUFFER_HOST,
                          types_of(g)->n_types * sizeof *staged, "counts"));
    j->staged = staged = g->staged_types.p;
    SL_TRY(list_type_misses(j, staged, &bytes));
    if (j->matched)
        SL_TRY(place_type_matches(j, staged));
    if (bytes == 0)
        return SL_OK;
    SL_TRY(send_type_misses(j, staged, bytes));
    for (uint32_t t = 0; t < types_of(g)->n_types; t++)
        if (staged[t].n > 0 && find_part(j, t, &p))
            SL_TRY(g->compute.kernels->gather_rows_to(
                (char *)g->staged.p + staged[t].at, p.dtype, staged[t].n, p.dim, NULL,
                sl_gather_lists_in(g->device_lists.p, j->block->n_input).miss_to + p.first,
                staged[t].n, p.n, p.x));
    return SL_OK;
}

// Rows of edges, whose numbers have 64 bits, are the processor's to gather.
static int stage_edges(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    const struct sl_device *device = g->compute.device;
    const uint64_t first = vertices_end(j);
    const uint64_t bytes = sl_typed_block_bytes(j->block, types_of(g), sl_gather_layout(g)) - first;
    if (bytes == 0)
        return SL_OK;
    SL_TRY(sl_buffer_grow(&g->edge_rows, device, SL_BUFFER_HOST, bytes, "features of edges"));
    SL_TRY(sl_rows_copy_edges(&g->source, g->compute.host, j->block, 0, g->edge_rows.p));
    return device->copy((char *)j->to->x + first, g->edge_rows.p, bytes);
}

static int vertices_on_device(struct sl_gather_job *j, bool in_place)
{
    if (!moves_types(j->g))
        return staged_types(j);
    if (in_place)
        return mapped_types(j);
    return j->before || is_any_held(j) ? staged_type_misses(j) : staged_types(j);
}

int sl_gather_types_on_device(struct sl_gather_job *j, bool in_place)
{
    memset(j->counts + 1, 0, types_of(j->g)->n_types * sizeof(struct sl_hits));
    memset(j->type_matched, 0, types_of(j->g)->n_types * sizeof *j->type_matched);
    j->matched = 0;
    SL_TRY(vertices_on_device(j, in_place));
    return stage_edges(j);
}

bool sl_gather_matches_types(const struct sl_gather *g)
{
    bool any = false;
    for (uint32_t t = 0; t < types_of(g)->n_types; t++)
        any |= sl_row_range(g->source.dataset, t).row_bytes > SL_GATHER_MATCH_ROW_BYTES;
    return any && moves_types(g);
}

int sl_gather_note_types(struct sl_gather_job *j)
{
    struct sl_gather *g = j->g;
    struct sl_matchable *out = &j->to->matchable;
    const struct sl_gather_staged_type *staged = j->staged;
    const uint32_t n_types = types_of(g)->n_types;
    struct part p;
    if (!staged)
        return SL_OK;
    SL_TRY(sl_match_begin(&g->match, g->source.dataset->n_nodes, g->compute.device,
                          j->block->n_input, out));
    SL_TRY(sl_buffer_grow(&out->types, sl_device_host(), SL_BUFFER_HOST,
                          n_types * sizeof(struct sl_matchable_type), "counts"));
    for (uint32_t t = 0; t < n_types; t++) {
        if (!find_part(j, t, &p) || !is_looked_for(&p))
            continue;
        const struct sl_row_split s = lists_of(j, &p);
        const struct sl_match_batch batch = {
            .vertices = sl_block_nodes(j->block) + p.first,
            .n = p.n,
            .rows = {s.miss_to, s.hit_to + staged[t].n_hits},
            .n_rows = {staged[t].n, staged[t].n_matched},
        };
        ((struct sl_matchable_type *)out->types.p)[t] =
            (struct sl_matchable_type){(uint64_t)((char *)p.x - (char *)j->to->x), p.n};
        sl_match_add(&g->match, &batch, out);
    }
    return SL_OK;
}

void sl_gather_settle_types(struct sl_gather_job *j)
{
    const uint32_t n_types = types_of(j->g)->n_types;
    for (uint32_t t = 0; t < n_types; t++)
        j->type_hits[t] = sl_gather_hits_of(hits_of_type(j, t));
    j->hits = hits_of_types(j);
}

void sl_gather_count_types(const struct sl_gather_job *j)
{
    for (uint32_t t = 0; t < types_of(j->g)->n_types; t++)
        sl_cache_count(j->cache, t, hits_of_type(j, t),
                       sl_typed_block_rows(j->block, t) - j->type_hits[t] - j->type_matched[t]);
}
