#include "trainer/model/needed_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

// Of all rows: more than that are nearly all. On ogbn-arxiv the lists of a layer that needs nine
// tenths cost what its other rows do.
enum { NEARLY_ALL = 7, NEARLY_ALL_OF = 8, CHUNK_ROWS = 4096 };

// ---- marks --------------------------------------------------------------------------------------

int sl_marks_init(struct sl_marks *m, uint64_t n_nodes)
{
    *m = (struct sl_marks){.n_nodes = n_nodes};
    m->bits = calloc(n_nodes / 64 + 1, sizeof *m->bits);
    if (!m->bits)
        return sl_fail(SL_ENOMEM, "no memory for a bit for each of %llu vertices",
                       (unsigned long long)n_nodes);
    return SL_OK;
}

void sl_marks_free(struct sl_marks *m)
{
    free(m->bits);
    *m = (struct sl_marks){0};
}

static void mark(struct sl_marks *m, uint64_t v)
{
    uint64_t bit = (uint64_t)1 << (v % 64);
    m->n += !(m->bits[v / 64] & bit);
    m->bits[v / 64] |= bit;
}

static void mark_sources(struct sl_marks *m, const struct sl_dataset *ds, uint64_t row)
{
    bool narrow = sl_dtype_bytes(ds->indices_dtype) == sizeof(uint32_t);
    for (uint64_t e = ds->indptr[row]; e < ds->indptr[row + 1]; e++)
        mark(m, narrow ? ((const uint32_t *)ds->indices)[e] : ((const uint64_t *)ds->indices)[e]);
}

// Of a relation, where some of the vertices are of its target type.
static void mark_relation(struct sl_marks *m, const struct sl_dataset *ds,
                          const struct sl_relation *r, const uint32_t *ids, uint64_t n,
                          uint64_t limit)
{
    const struct sl_vertex_type *target = &ds->typed.type[r->target];
    for (uint64_t i = 0; i < n && m->n <= limit; i++)
        if (ids[i] - target->first < target->n)
            mark_sources(m, ds, sl_relation_row(&ds->typed, r, ids[i]));
}

static bool is_among(const struct sl_vertex_type *type, const uint32_t *ids, uint64_t n)
{
    uint64_t i = 0;
    while (i < n && ids[i] - type->first >= type->n)
        i++;
    return i < n;
}

void sl_marks_add(struct sl_marks *m, const struct sl_dataset *ds, const uint32_t *ids, uint64_t n,
                  uint64_t limit)
{
    const struct sl_typed *t = &ds->typed;
    for (uint64_t i = 0; i < n && m->n <= limit; i++) {
        mark(m, ids[i]);
        if (t->n_types == 0)
            mark_sources(m, ds, ids[i]);
    }
    for (uint32_t type = 0; type < t->n_types; type++) {
        if (!is_among(&t->type[type], ids, n))
            continue;
        for (uint32_t r = 0; r < t->n_relations; r++)
            if (t->relation[r].target == type)
                mark_relation(m, ds, &t->relation[r], ids, n, limit);
    }
}

// Word k of the marks, without the vertices outside of first .. end - 1.
static uint64_t word_between(const struct sl_marks *m, uint64_t k, uint64_t first, uint64_t end)
{
    uint64_t word = m->bits[k];
    if (k == first / 64)
        word &= ~(uint64_t)0 << (first % 64);
    if (k == end / 64)
        word &= ~(~(uint64_t)0 << (end % 64));
    return word;
}

uint32_t sl_marks_list(const struct sl_marks *m, uint64_t first, uint64_t n, uint32_t *ids)
{
    const uint64_t end = SL_MIN(first + n, m->n_nodes);
    uint32_t listed = 0;
    for (uint64_t k = first / 64; k * 64 < end; k++)
        for (uint64_t word = word_between(m, k, first, end); word; word &= word - 1)
            ids[listed++] = (uint32_t)(k * 64 + (uint64_t)__builtin_ctzll(word));
    return listed;
}

// ---- layers -------------------------------------------------------------------------------------

static void add_splits(struct sl_marks *m, const struct sl_dataset *ds, uint32_t sets,
                       uint64_t limit)
{
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        if (sets >> s & 1)
            sl_marks_add(m, ds, ds->split[s].ids, ds->split[s].n, limit);
}

static void add_marked(struct sl_marks *m, const struct sl_dataset *ds,
                       const struct sl_marks *above, uint64_t limit)
{
    uint32_t ids[CHUNK_ROWS];
    for (uint64_t first = 0; first < above->n_nodes; first += CHUNK_ROWS) {
        uint32_t n = sl_marks_list(above, first, CHUNK_ROWS, ids);
        sl_marks_add(m, ds, ids, n, limit);
    }
}

int sl_needed_rows_find(struct sl_needed_rows *needed, const struct sl_dataset *ds, uint32_t sets,
                        uint32_t n_layers)
{
    const uint64_t limit = ds->n_nodes * NEARLY_ALL / NEARLY_ALL_OF;
    *needed = (struct sl_needed_rows){0};
    for (uint32_t l = n_layers - 1; l-- > 0;) {
        struct sl_marks *m = &needed->layer[l];
        int rc = sl_marks_init(m, ds->n_nodes);
        if (rc < 0) {
            sl_needed_rows_free(needed);
            return rc;
        }
        if (l + 2 == n_layers)
            add_splits(m, ds, sets, limit);
        else
            add_marked(m, ds, &needed->layer[l + 1], limit);
        if (m->n > limit) {
            sl_marks_free(m);
            break;
        }
    }
    needed->sets = sets;
    return SL_OK;
}

void sl_needed_rows_free(struct sl_needed_rows *needed)
{
    for (int l = 0; l < SL_CONFIG_MAX_LAYERS; l++)
        sl_marks_free(&needed->layer[l]);
    needed->sets = 0;
}
