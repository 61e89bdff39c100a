#include "trainer/feed/rows.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "trainer/feed/typed_block.h"

void sl_row_source_fini(struct sl_row_source *s)
{
    sl_row_places_fini(&s->places);
    sl_buffer_fini(&s->raw);
    sl_buffer_fini(&s->edges);
}

// Rows of a table that is in memory; the back end looks whether it has them.
static int copy_from(const void *table, uint64_t n_rows, uint64_t bytes,
                     const struct sl_kernels *kernels, const uint32_t *rows, const uint32_t *to,
                     uint32_t n, uint32_t n_places, void *out)
{
    // The back end moves f32 as they are and on all cores, so rows of whole words go its way,
    // whatever they hold.
    const uint32_t words = (uint32_t)(bytes / sizeof(float));
    if (bytes % sizeof(float) == 0)
        return to ? kernels->gather_rows_to(table, SL_DTYPE_F32, n_rows, words, rows, to, n,
                                            n_places, out)
                  : kernels->gather_rows(table, SL_DTYPE_F32, n_rows, words, rows, n, out);
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i] >= n_rows)
            return sl_fail(SL_ERANGE,
                           "features: vertex %" PRIu32 " at %" PRIu32 ", wanted one below %" PRIu64,
                           rows[i], i, n_rows);
        memcpy((char *)out + (to ? to[i] : i) * bytes, (const char *)table + rows[i] * bytes,
               bytes);
    }
    return SL_OK;
}

struct sl_row_range sl_row_range(const struct sl_dataset *ds, uint32_t range)
{
    if (ds->typed.n_types == 0)
        return (struct sl_row_range){.n = ds->n_nodes,
                                     .row_bytes = sl_rows_bytes(ds),
                                     .dim = ds->feat_dim,
                                     .dtype = ds->feat_dtype,
                                     .rows = ds->feat};
    const struct sl_vertex_type *type = &ds->typed.type[range];
    return (struct sl_row_range){.first = type->first,
                                 .n = type->n,
                                 .row_bytes = sl_type_row_bytes(type),
                                 .dim = type->feat_dim,
                                 .dtype = type->feat_dtype,
                                 .rows = type->feat};
}

// --- the order of copies -------------------------------------------------------------------------

/*
 * Rows of a large table that is mapped are copied in the order in which they lie. As a batch names
 * them each is on another page, and where that page lies is looked up in memory, too; side by side
 * they share what was looked up: of a table of 0.5 GB in pages of 4 KiB 68,400 rows of 512 bytes
 * took an EPYC 17.5 ms of processor time, and 12.5 in order, with the sorting. The table is cut
 * into pieces, and rows are sorted by piece.
 */
enum {
    ORDER_MIN_ROWS = 1 << 12,         // of a copy
    ORDER_MIN_TABLE_BYTES = 16 << 20, // where the pages of a smaller one lie is known
    ORDER_MAX_ROW_BYTES = 1 << 12,    // a longer one has its pages for itself
    ORDER_PIECE_BYTES = 2 << 20,      // whose pages a processor knows at once; or more, for
    ORDER_PIECES = (1 << 11) - 1,     // ... at most so many
    ORDER_PARTS = 16,                 // of the rows, a thread each, at most
    ORDER_AHEAD = 16,                 // a piece's place that is asked for: in its next line
};

struct order {
    const uint32_t *vertices, *to; // to NULL: to their own places
    uint32_t first, n_rows;        // of the range
    uint32_t n, n_parts, n_pieces, shift;
    uint32_t *next;         // (n_parts, n_pieces + 1) how many rows; then where the next one goes
    uint32_t *row, *placed; // (n)
};

static uint32_t piece_of(const struct order *o, uint32_t i)
{
    const uint32_t row = o->vertices[i] - o->first;
    return row < o->n_rows ? row >> o->shift : o->n_pieces;
}

static uint32_t part_begin(const struct order *o, uint32_t part)
{
    return (uint32_t)((uint64_t)o->n * part / o->n_parts);
}

static void count_part(void *context, uint32_t part)
{
    const struct order *o = context;
    uint32_t *count = o->next + part * (o->n_pieces + 1);
    memset(count, 0, (o->n_pieces + 1) * sizeof *count);
    for (uint32_t i = part_begin(o, part); i < part_begin(o, part + 1); i++)
        count[piece_of(o, i)]++;
}

static void place_part(void *context, uint32_t part)
{
    const struct order *o = context;
    uint32_t *next = o->next + part * (o->n_pieces + 1);
    for (uint32_t i = part_begin(o, part); i < part_begin(o, part + 1); i++) {
        const uint32_t at = next[piece_of(o, i)]++;
        __builtin_prefetch(&o->row[at + ORDER_AHEAD], 1);
        __builtin_prefetch(&o->placed[at + ORDER_AHEAD], 1);
        o->row[at] = o->vertices[i] - o->first;
        o->placed[at] = o->to ? o->to[i] : i;
    }
}

// Whether all of them are rows of the range.
static bool order_rows(struct order *o, const struct sl_row_range *range)
{
    uint32_t begin = 0;
    while (range->row_bytes << o->shift < ORDER_PIECE_BYTES || range->n >> o->shift >= ORDER_PIECES)
        o->shift++;
    o->n_pieces = (uint32_t)(range->n >> o->shift) + 1;
    sl_kernels_run(o->n_parts, count_part, o);
    for (uint32_t piece = 0; piece <= o->n_pieces; piece++)
        for (uint32_t part = 0; part < o->n_parts; part++) {
            uint32_t *next = &o->next[part * (o->n_pieces + 1) + piece];
            const uint32_t count = *next;
            if (piece == o->n_pieces && count > 0)
                return false;
            *next = begin;
            begin += count;
        }
    sl_kernels_run(o->n_parts, place_part, o);
    return true;
}

// Which rows of their range the vertices are, and their places (NULL: their own), in the order in
// which they are best copied: valid until s->places are used again. Of a vertex that is not in the
// range it is a number that no row has.
static int rows_of(struct sl_row_source *s, const struct sl_row_range *range,
                   const uint32_t *vertices, uint32_t n, const uint32_t **out, const uint32_t **to)
{
    const bool orders = n >= ORDER_MIN_ROWS && range->row_bytes <= ORDER_MAX_ROW_BYTES &&
                        range->n * range->row_bytes >= ORDER_MIN_TABLE_BYTES;
    *out = vertices;
    if (!orders && range->first == 0)
        return SL_OK;
    SL_TRY(sl_row_places_grow(&s->places, n));
    struct order o = {
        .vertices = vertices,
        .to = *to,
        .first = (uint32_t)range->first,
        .n_rows = (uint32_t)range->n,
        .n = n,
        .n_parts = SL_MIN(n / ORDER_MIN_ROWS, (uint32_t)ORDER_PARTS),
        .next = s->places.slot,
        .row = s->places.row,
        .placed = s->places.missing_at,
    };
    *out = o.row;
    if (orders && order_rows(&o, range)) {
        *to = o.placed;
        return SL_OK;
    }
    for (uint32_t i = 0; i < n; i++)
        o.row[i] = vertices[i] - o.first;
    return SL_OK;
}

// -------------------------------------------------------------------------------------------------

// Counted from the first slot of the width on, or back.
static void shift_slots(struct sl_row_places *p, uint32_t by)
{
    for (uint32_t i = 0; by && i < p->n_found; i++)
        p->slot[i] += by;
}

// What the cache has is copied first; a row whose slot has moved meanwhile is read, too.
static int copy_found(struct sl_row_source *s, const struct sl_row_range *range,
                      const struct sl_kernels *kernels, const uint32_t *to, uint32_t n_places,
                      void *out)
{
    struct sl_row_places *p = &s->places;
    const struct sl_row_cache *c = &s->shared;
    const struct sl_row_slots slots = sl_row_cache_slots(c, range->row_bytes);
    for (uint32_t i = 0; to && i < p->n_found; i++)
        p->found_at[i] = to[p->found_at[i]];
    for (uint32_t i = 0; to && i < p->n_missing; i++)
        p->missing_at[i] = to[p->missing_at[i]];
    shift_slots(p, -slots.first);
    if (p->n_found)
        SL_TRY(copy_from(slots.rows, slots.n, slots.row_bytes, kernels, p->slot, p->found_at,
                         p->n_found, n_places, out));
    shift_slots(p, slots.first);
    sl_row_cache_check(c, p);
    return SL_OK;
}

// Rows of a shard that this node has mapped: the places from n_others on.
static int copy_own(struct sl_row_source *s, const struct sl_kernels *kernels, uint32_t n_others,
                    uint32_t n_places, void *out)
{
    const struct sl_dataset *ds = s->dataset;
    struct sl_row_places *p = &s->places;
    if (n_others == p->n_missing)
        return SL_OK;
    const struct sl_feature_table table = sl_dataset_table_of(ds, p->row[n_others]);
    for (uint32_t i = n_others; i < p->n_missing; i++)
        p->row[i] = sl_shard_place(&ds->shard, p->row[i]).row;
    return copy_from(table.rows, table.n_rows, table.row_bytes, kernels, p->row + n_others,
                     p->missing_at + n_others, p->n_missing - n_others, n_places, out);
}

// As sl_rows_copy(), of vertices of one range.
static int copy_range(struct sl_row_source *s, const struct sl_row_range *range,
                      const struct sl_kernels *kernels, const uint32_t *vertices,
                      const uint32_t *to, uint32_t n, uint32_t n_places, void *out)
{
    if (!s->reader) {
        const uint32_t *rows;
        SL_TRY(rows_of(s, range, vertices, n, &rows, &to));
        return copy_from(range->rows, range->n, range->row_bytes, kernels, rows, to, n, n_places,
                         out);
    }
    if (!s->shared.shape.n_slots && !s->dataset->shard.count)
        return sl_reading_read(s->reader, vertices, to, n, out);
    SL_TRY(sl_row_places_grow(&s->places, n));
    sl_row_cache_find(&s->shared, vertices, n, &s->places);
    SL_TRY(copy_found(s, range, kernels, to, n_places, out));
    struct sl_row_places *p = &s->places;
    const uint32_t others = sl_reading_sort(s->reader, p->row, p->missing_at, p->n_missing);
    SL_TRY(copy_own(s, kernels, others, n_places, out));
    return sl_reading_read(s->reader, p->row, p->missing_at, others, out);
}

int sl_rows_copy_of(struct sl_row_source *s, uint32_t range, const struct sl_kernels *kernels,
                    const uint32_t *vertices, const uint32_t *to, uint32_t n, uint32_t n_places,
                    void *out)
{
    const struct sl_row_range of = sl_row_range(s->dataset, range);
    return copy_range(s, &of, kernels, vertices, to, n, n_places, out);
}

int sl_rows_copy(struct sl_row_source *s, const struct sl_kernels *kernels,
                 const uint32_t *vertices, const uint32_t *to, uint32_t n, uint32_t n_places,
                 void *out)
{
    return sl_rows_copy_of(s, 0, kernels, vertices, to, n, n_places, out);
}

// --- typed blocks --------------------------------------------------------------------------------

int sl_rows_take(const struct sl_row_range *range, const void *table, uint64_t n_rows,
                 const struct sl_kernels *kernels, const uint32_t *rows, const uint32_t *to,
                 uint32_t n, uint32_t n_places, bool as_stored, void *out)
{
    if (as_stored)
        return copy_from(table, n_rows, range->row_bytes, kernels, rows, to, n, n_places, out);
    return to ? kernels->gather_rows_to(table, range->dtype, n_rows, range->dim, rows, to, n,
                                        n_places, out)
              : kernels->gather_rows(table, range->dtype, n_rows, range->dim, rows, n, out);
}

int sl_rows_convert_of(struct sl_row_source *s, uint32_t range, const struct sl_kernels *kernels,
                       const uint32_t *vertices, const uint32_t *to, uint32_t n, uint32_t n_places,
                       float *out)
{
    const struct sl_row_range of = sl_row_range(s->dataset, range);
    const uint32_t *rows = NULL;
    if (!s->reader) {
        SL_TRY(rows_of(s, &of, vertices, n, &rows, &to));
        return sl_rows_take(&of, of.rows, of.n, kernels, rows, to, n, n_places, false, out);
    }
    if (of.dtype == SL_DTYPE_F32)
        return copy_range(s, &of, kernels, vertices, to, n, n_places, out);
    SL_TRY(sl_buffer_grow(&s->raw, sl_device_host(), SL_BUFFER_HOST, n * of.row_bytes,
                          "input features"));
    SL_TRY(copy_range(s, &of, kernels, vertices, NULL, n, n, s->raw.p));
    return sl_rows_take(&of, s->raw.p, n, kernels, NULL, to, n, n_places, false, out);
}

int sl_rows_copy_typed(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, bool as_stored, void *out)
{
    const struct sl_typed *typed = &s->dataset->typed;
    const struct sl_block_type *part = sl_block_types(block);
    const enum sl_typed_layout layout = as_stored ? SL_TYPED_AS_STORED : SL_TYPED_F32;
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const struct sl_row_range range = sl_row_range(s->dataset, t);
        const uint32_t n = sl_typed_block_rows(block, t);
        const uint32_t *vertices = sl_block_nodes(block) + part[t].first;
        void *rows = (char *)out + sl_typed_rows_at(block, typed, t, layout);
        if (range.row_bytes == 0 || n == 0)
            continue;
        const int rc = as_stored ? sl_rows_copy_of(s, t, kernels, vertices, NULL, n, n, rows)
                                 : sl_rows_convert_of(s, t, kernels, vertices, NULL, n, n, rows);
        if (rc < 0)
            return sl_fail_prefix(rc, "type \"%s\"", typed->type[t].name);
    }
    return SL_OK;
}

// --- features of edges ---------------------------------------------------------------------------

int sl_rows_fail_unnumbered(const struct sl_block *block)
{
    return sl_fail(SL_EPROTO,
                   "block of batch %" PRIu64 ": has no numbers of edges, whose features are read: "
                   "sampler and trainer do not agree on the job",
                   block->batch);
}

// A kernel counts rows in 32 bits: windows of so many edges each.
int sl_rows_copy_edge_set(struct sl_row_source *s, const struct sl_kernels *kernels,
                          const struct sl_relation *r, const uint64_t *ids, uint32_t n, float *out)
{
    const uint64_t window = s->edge_window ? s->edge_window : UINT32_MAX;
    const uint64_t row_bytes = r->feat_dim * sl_dtype_bytes(r->feat_dtype);
    uint32_t *row, *to;
    SL_TRY(sl_row_places_grow(&s->places, n));
    row = s->places.row;
    to = s->places.missing_at;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] != SL_EDGE_OF_ITSELF &&
            (ids[i] < r->first_edge || ids[i] - r->first_edge >= r->n_edges))
            return sl_fail(SL_ERANGE,
                           "features of edges: edge %" PRIu64 ", wanted one from %" PRIu64
                           " to before %" PRIu64,
                           ids[i], r->first_edge, r->first_edge + r->n_edges);
    for (uint64_t begin = 0; begin < r->n_edges; begin += window) {
        uint32_t n_here = 0;
        for (uint32_t i = 0; i < n; i++) {
            const uint64_t at = ids[i] - r->first_edge - begin; // of one before: very large
            row[n_here] = (uint32_t)at;
            to[n_here] = i;
            n_here += at < window;
        }
        if (n_here > 0)
            SL_TRY(kernels->gather_rows_to((const char *)r->feat + begin * row_bytes, r->feat_dtype,
                                           SL_MIN(window, r->n_edges - begin), r->feat_dim, row, to,
                                           n_here, n, out));
    }
    return SL_OK;
}

int sl_rows_copy_edges(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, uint64_t first, void *out)
{
    const struct sl_typed *typed = &s->dataset->typed;
    const struct sl_block_run *runs = sl_block_runs(block);
    for (uint32_t i = sl_block_typed(block)->n_runs; i-- > 0;) {
        const struct sl_block_run *run = &runs[i];
        const struct sl_relation *r = &typed->relation[run->relation];
        if (r->feat_dim == 0 || sl_typed_edge_owner(block, run) != run)
            continue;
        if (!(block->flags & SL_BLOCK_HAS_EDGE_IDS))
            return sl_rows_fail_unnumbered(block);
        const int rc =
            sl_rows_copy_edge_set(s, kernels, r, sl_run_edge_ids(sl_block_here(block), run),
                                  run->n_edges, (float *)(void *)((char *)out + first));
        if (rc < 0)
            return sl_fail_prefix(rc, "relation %s", sl_relation_text(typed, run->relation).text);
        first += sl_typed_edge_bytes(typed, run);
    }
    return SL_OK;
}

bool sl_rows_any(const struct sl_dataset *ds)
{
    bool any = ds->feat_dim > 0;
    for (uint32_t t = 0; t < ds->typed.n_types; t++)
        any |= ds->typed.type[t].feat_dim > 0;
    return any;
}

uint64_t sl_rows_block_bytes(const struct sl_dataset *ds, const struct sl_block *block)
{
    return ds->typed.n_types ? sl_typed_block_bytes(block, &ds->typed, SL_TYPED_AS_STORED)
                             : block->n_input * sl_rows_bytes(ds);
}

uint64_t sl_rows_cached_bytes(const struct sl_dataset *ds, const struct sl_block *block,
                              uint64_t near, const struct sl_reading *reader)
{
    const bool typed = ds->typed.n_types > 0;
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < sl_row_ranges(ds); r++) {
        const struct sl_row_range range = sl_row_range(ds, r);
        const uint64_t each = range.row_bytes;
        uint32_t n = typed ? sl_typed_block_rows(block, r) : block->n_input - (uint32_t)near;
        if (typed && reader && each)
            n = sl_reading_count(reader, sl_block_nodes(block) + sl_block_types(block)[r].first, n);
        bytes += each ? SL_MIN(n, range.n) * (each + sizeof(uint64_t)) : 0;
    }
    return bytes;
}

int sl_rows_copy_block(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, void *out)
{
    return s->dataset->typed.n_types ? sl_rows_copy_typed(s, kernels, block, true, out)
                                     : sl_rows_copy(s, kernels, sl_block_nodes(block), NULL,
                                                    block->n_input, block->n_input, out);
}
