#include "common/data/edge_lookup.h"

#include <stdlib.h>

#include "common/base/error.h"

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t key_of(uint32_t source, uint32_t target)
{
    return (uint64_t)source << 32 | target;
}

int sl_edge_lookup_init(struct sl_edge_lookup *l, const struct sl_dataset *ds, bool lists)
{
    *l = (struct sl_edge_lookup){.ds = ds};
    uint64_t n = 0;
    for (int s = 0; lists && s < SL_SPLIT_COUNT; s++)
        n += ds->edges[s].ids ? ds->edges[s].n : 0;
    if (n == 0)
        return SL_OK;
    l->listed = malloc(n * sizeof *l->listed);
    if (!l->listed)
        return sl_fail(SL_ENOMEM, "no memory to look %llu listed edges up", (unsigned long long)n);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        for (uint64_t i = 0; ds->edges[s].ids && i < ds->edges[s].n; i++)
            l->listed[l->n_listed++] = key_of(ds->edges[s].ids[2 * i], ds->edges[s].ids[2 * i + 1]);
    qsort(l->listed, n, sizeof *l->listed, by_value);
    return SL_OK;
}

// Whether the list of `target` has `source`.
static bool is_neighbour(const struct sl_dataset *ds, uint32_t source, uint32_t target)
{
    uint64_t low = ds->indptr[target], high = ds->indptr[target + 1];
    if (ds->lists_rise)
        while (low < high) { // the first one that is not below the source
            const uint64_t middle = low + (high - low) / 2;
            if (sl_dataset_source(ds, middle) < source)
                low = middle + 1;
            else
                high = middle;
        }
    else
        while (low < high && sl_dataset_source(ds, low) != source)
            low++;
    return low < ds->indptr[target + 1] && sl_dataset_source(ds, low) == source;
}

bool sl_edge_lookup_has(const struct sl_edge_lookup *l, uint32_t source, uint32_t target)
{
    if (is_neighbour(l->ds, source, target))
        return true;
    const uint64_t key = key_of(source, target);
    return l->n_listed && bsearch(&key, l->listed, l->n_listed, sizeof key, by_value) != NULL;
}

void sl_edge_lookup_fini(struct sl_edge_lookup *l)
{
    free(l->listed);
    *l = (struct sl_edge_lookup){0};
}
