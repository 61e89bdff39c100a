#include "common/data/edge_lookup.h"

#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/rising.h"

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t key_of(uint32_t source, uint32_t target)
{
    return (uint64_t)source << 32 | target;
}

static uint64_t count_listed(const struct sl_dataset *ds)
{
    uint64_t n = 0;
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        n += ds->edges[s].ids ? ds->edges[s].n : 0;
    return n;
}

uint64_t sl_edge_lookup_bytes(const struct sl_dataset *ds, bool lists)
{
    return lists ? count_listed(ds) * sizeof(uint64_t) : 0;
}

int sl_edge_lookup_init(struct sl_edge_lookup *l, const struct sl_dataset *ds, bool lists)
{
    *l = (struct sl_edge_lookup){.ds = ds};
    const uint64_t n = lists ? count_listed(ds) : 0;
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

// Lists in no order, one id after the other.
static void scan_lists(const struct sl_dataset *ds, uint32_t n, const uint32_t *pairs, bool *has)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *indptr = &ds->indptr[sl_dataset_linked_row(ds, pairs[2 * i + 1])];
        const uint64_t end = indptr[1];
        uint64_t e = indptr[0];
        while (e < end && sl_dataset_source(ds, e) != pairs[2 * i])
            e++;
        has[i] = e < end;
    }
}

static void search_lists(const struct sl_dataset *ds, uint32_t n, const uint32_t *pairs, bool *has)
{
    struct sl_rising r;
    uint64_t end[SL_RISING_LANES];
    uint32_t pair[SL_RISING_LANES], lanes = 0; // those whose list is not empty
    r.ids = ds->indices;
    r.words = sl_dtype_bytes(ds->indices_dtype) == sizeof(uint64_t) ? 2 : 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t *indptr = &ds->indptr[sl_dataset_linked_row(ds, pairs[2 * i + 1])];
        pair[lanes] = i;
        r.at[lanes] = indptr[0];
        r.n[lanes] = indptr[1] - indptr[0];
        r.key[lanes] = pairs[2 * i];
        end[lanes] = indptr[1];
        lanes += indptr[1] > indptr[0];
        has[i] = false;
    }
    sl_rising_find(&r, lanes);
    for (uint32_t l = 0; l < lanes; l++)
        has[pair[l]] = r.at[l] < end[l] && sl_rising_id(&r, r.at[l]) == r.key[l];
}

// Those that are no edges so far.
static void search_listed(const struct sl_edge_lookup *l, uint32_t n, const uint32_t *pairs,
                          bool *has)
{
    const uint64_t *low[SL_RISING_LANES]; // the last one that is not above the key, or the first
    uint64_t key[SL_RISING_LANES];
    uint32_t pair[SL_RISING_LANES], lanes = 0;
    for (uint32_t i = 0; i < n; i++) {
        pair[lanes] = i;
        low[lanes] = l->listed;
        key[lanes] = key_of(pairs[2 * i], pairs[2 * i + 1]);
        lanes += !has[i];
    }
    for (uint64_t left = l->n_listed; left > 1 && lanes > 0; left -= left / 2)
        for (uint32_t i = 0; i < lanes; i++)
            low[i] += left / 2 & -(uint64_t)(low[i][left / 2] <= key[i]);
    for (uint32_t i = 0; i < lanes; i++)
        has[pair[i]] = *low[i] == key[i];
}

void sl_edge_lookup_each(const struct sl_edge_lookup *l, uint32_t n, const uint32_t *pairs,
                         bool *has)
{
    for (uint32_t i = 0; i < n; i += SL_RISING_LANES) {
        const uint32_t some = SL_MIN(n - i, (uint32_t)SL_RISING_LANES);
        const uint32_t *these = pairs + 2 * (size_t)i;
        (l->ds->lists_rise ? search_lists : scan_lists)(l->ds, some, these, has + i);
        if (l->n_listed)
            search_listed(l, some, these, has + i);
    }
}

bool sl_edge_lookup_has(const struct sl_edge_lookup *l, uint32_t source, uint32_t target)
{
    const uint32_t pair[] = {source, target};
    bool has;
    sl_edge_lookup_each(l, 1, pair, &has);
    return has;
}

void sl_edge_lookup_fini(struct sl_edge_lookup *l)
{
    free(l->listed);
    *l = (struct sl_edge_lookup){0};
}
