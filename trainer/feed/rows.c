#include "trainer/feed/rows.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/error.h"
#include "trainer/feed/typed_block.h"

void sl_row_source_fini(struct sl_row_source *s)
{
    sl_row_places_fini(&s->places);
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

// What the cache has is copied first; a row whose slot has moved meanwhile is read, too.
static int copy_found(struct sl_row_source *s, const struct sl_kernels *kernels, const uint32_t *to,
                      uint32_t n_places, void *out)
{
    struct sl_row_places *p = &s->places;
    const struct sl_row_cache *c = &s->shared;
    for (uint32_t i = 0; to && i < p->n_found; i++)
        p->found_at[i] = to[p->found_at[i]];
    for (uint32_t i = 0; to && i < p->n_missing; i++)
        p->missing_at[i] = to[p->missing_at[i]];
    if (p->n_found)
        SL_TRY(copy_from(c->rows, c->shape.n_slots, c->shape.row_bytes, kernels, p->slot,
                         p->found_at, p->n_found, n_places, out));
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
    for (uint32_t i = n_others; i < p->n_missing; i++)
        p->row[i] = sl_shard_place(&ds->shard, p->row[i]).row;
    return copy_from(ds->feat, sl_dataset_rows(ds), sl_rows_bytes(ds), kernels, p->row + n_others,
                     p->missing_at + n_others, p->n_missing - n_others, n_places, out);
}

int sl_rows_copy(struct sl_row_source *s, const struct sl_kernels *kernels,
                 const uint32_t *vertices, const uint32_t *to, uint32_t n, uint32_t n_places,
                 void *out)
{
    if (!s->reader)
        return copy_from(s->dataset->feat, s->dataset->n_nodes, sl_rows_bytes(s->dataset), kernels,
                         vertices, to, n, n_places, out);
    if (!s->shared.shape.n_slots && !s->dataset->shard.count)
        return sl_reading_read(s->reader, vertices, to, n, out);
    SL_TRY(sl_row_places_grow(&s->places, n));
    sl_row_cache_find(&s->shared, vertices, n, &s->places);
    SL_TRY(copy_found(s, kernels, to, n_places, out));
    struct sl_row_places *p = &s->places;
    const uint32_t others = sl_reading_sort(s->reader, p->row, p->missing_at, p->n_missing);
    SL_TRY(copy_own(s, kernels, others, n_places, out));
    return sl_reading_read(s->reader, p->row, p->missing_at, others, out);
}

// --- typed blocks --------------------------------------------------------------------------------

int sl_rows_copy_typed(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, bool as_stored, void *out)
{
    const struct sl_typed *typed = &s->dataset->typed;
    const struct sl_block_type *part = sl_block_types(block);
    const uint32_t *nodes = sl_block_nodes(block);
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const struct sl_vertex_type *type = &typed->type[t];
        const uint32_t n = sl_typed_block_rows(block, t);
        void *rows = (char *)out + sl_typed_rows_at(block, typed, t, as_stored);
        if (type->feat_dim == 0 || n == 0)
            continue;
        SL_TRY(sl_row_places_grow(&s->places, n));
        uint32_t *row = s->places.row;
        for (uint32_t i = 0; i < n; i++) // of a vertex before the type's it is a very large number
            row[i] = nodes[part[t].first + i] - (uint32_t)type->first;
        int rc;
        if (as_stored)
            rc = copy_from(type->feat, type->n, type->feat_dim * sl_dtype_bytes(type->feat_dtype),
                           kernels, row, NULL, n, n, rows);
        else
            rc = kernels->gather_rows(type->feat, type->feat_dtype, type->n, type->feat_dim, row, n,
                                      rows);
        if (rc < 0)
            return sl_fail_prefix(rc, "type \"%s\"", type->name);
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
    return ds->typed.n_types ? sl_typed_rows_at(block, &ds->typed, ds->typed.n_types, true)
                             : block->n_input * sl_rows_bytes(ds);
}

int sl_rows_copy_block(struct sl_row_source *s, const struct sl_kernels *kernels,
                       const struct sl_block *block, void *out)
{
    return s->dataset->typed.n_types ? sl_rows_copy_typed(s, kernels, block, true, out)
                                     : sl_rows_copy(s, kernels, sl_block_nodes(block), NULL,
                                                    block->n_input, block->n_input, out);
}
