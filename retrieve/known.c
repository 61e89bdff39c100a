#include "retrieve/known.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"

enum { VERTICES_PER_LOOK = 4096, FIRST = 1024 };

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int append(struct sl_known *k, uint64_t edge)
{
    if (k->n == k->capacity) {
        const uint64_t more = SL_MAX(2 * k->capacity, (uint64_t)FIRST);
        uint64_t *edges = realloc(k->edges, more * sizeof *edges);
        if (!edges)
            return sl_fail(SL_ENOMEM, "no memory for %llu known edges", (unsigned long long)more);
        k->edges = edges;
        k->capacity = more;
    }
    k->edges[k->n++] = edge;
    return SL_OK;
}

// Edges that are known: the lists where they stand, and the vertices that their ends may be.
struct part {
    uint64_t first_row;
    uint64_t first_target, n_targets; // a list for each
    uint64_t first_source, n_sources;
};

static struct part part_of(const struct sl_dataset *ds)
{
    const struct sl_relation *r = sl_dataset_linked(ds);
    if (!r)
        return (struct part){.n_targets = ds->n_nodes, .n_sources = ds->n_nodes};
    const struct sl_vertex_type *source = &ds->typed.type[r->source],
                                *target = &ds->typed.type[r->target];
    return (struct part){r->first_row, target->first, target->n, source->first, source->n};
}

// The number, from vertex `first` on, that people know a vertex by.
static uint32_t name_of(const struct sl_dataset *ds, uint64_t v, uint64_t first)
{
    return (uint32_t)((ds->vertex_map ? ds->vertex_map[v] : v) - first);
}

static int find(struct sl_known *k, const struct sl_dataset *ds, const uint64_t *wanted)
{
    const struct part p = part_of(ds);
    for (uint64_t i = 0; i < p.n_targets; i++) {
        const uint64_t *list = &ds->indptr[p.first_row + i];
        if (i % VERTICES_PER_LOOK == 0)
            SL_TRY(sl_interrupt_check());
        for (uint64_t e = list[0]; e < list[1]; e++) {
            const uint32_t u = name_of(ds, sl_dataset_source(ds, e), p.first_source);
            if (wanted[u / 64] >> (u & 63) & 1)
                SL_TRY(
                    append(k, (uint64_t)u << 32 | name_of(ds, p.first_target + i, p.first_target)));
        }
    }
    return SL_OK;
}

int sl_known_find(struct sl_known *k, const struct sl_dataset *ds, const uint32_t *vertices,
                  uint64_t n)
{
    uint64_t *wanted = calloc(part_of(ds).n_sources / 64 + 1, sizeof *wanted);
    if (!wanted)
        return sl_fail(SL_ENOMEM, "no memory for a bit a vertex");
    for (uint64_t i = 0; i < n; i++)
        wanted[vertices[i] / 64] |= (uint64_t)1 << (vertices[i] & 63);
    k->n = 0;
    int rc = find(k, ds, wanted);
    free(wanted);
    if (k->n)
        qsort(k->edges, k->n, sizeof *k->edges, by_value);
    return rc;
}

bool sl_known_has(const struct sl_known *k, uint32_t source, uint32_t target)
{
    const uint64_t edge = (uint64_t)source << 32 | target;
    return k->n && bsearch(&edge, k->edges, k->n, sizeof *k->edges, by_value) != NULL;
}

void sl_known_fini(struct sl_known *k)
{
    free(k->edges);
    *k = (struct sl_known){0};
}
