#include "dataset/pair_audit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "dataset/edge_sort.h"

// Pairs as sorted keys, and which of them were met.
struct audit {
    const uint64_t *keys; // (n)
    uint64_t n;
    uint8_t *met; // (n)
};

// The first key from `begin` to `end` - 1 that is not below `key`; end: all are.
static uint64_t find(const struct audit *a, uint64_t begin, uint64_t end, uint64_t key)
{
    while (begin < end) {
        const uint64_t mid = begin + (end - begin) / 2;
        if (a->keys[mid] < key)
            begin = mid + 1;
        else
            end = mid;
    }
    return begin;
}

static void meet(const struct audit *a, uint64_t begin, uint64_t end, uint64_t key)
{
    for (uint64_t i = find(a, begin, end, key); i < end && a->keys[i] == key && !a->met[i]; i++)
        a->met[i] = 1;
}

static uint64_t count_met(const struct audit *a)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < a->n; i++)
        n += a->met[i];
    return n;
}

static uint64_t count_in_graph(const struct audit *a, const struct sl_dataset *ds)
{
    memset(a->met, 0, a->n);
    for (uint64_t i = 0; i < a->n;) {
        const uint32_t v = (uint32_t)(a->keys[i] >> 32);
        const uint64_t end = v == UINT32_MAX ? a->n : find(a, i, a->n, sl_edge_key(0, v + 1));
        for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++)
            meet(a, i, end, sl_edge_key(sl_dataset_source(ds, e), v));
        i = end;
    }
    return count_met(a);
}

static uint64_t count_in_train(const struct audit *a, const struct sl_pair_list *train)
{
    memset(a->met, 0, a->n);
    for (uint64_t i = 0; i < train->n; i++) {
        const uint32_t u = train->ids[2 * i], v = train->ids[2 * i + 1];
        meet(a, 0, a->n, sl_edge_key(u, v));
        meet(a, 0, a->n, sl_edge_key(v, u));
    }
    return count_met(a);
}

int sl_pair_audit_run(const struct sl_dataset *ds, enum sl_split split, struct sl_pair_audit *out)
{
    const struct sl_pair_list *list = &ds->edges[split];
    *out = (struct sl_pair_audit){0};
    if (list->n == 0)
        return SL_OK;
    struct sl_radix_array data = {.keys = malloc(list->n * sizeof *data.keys)};
    struct sl_radix_array scratch = {.keys = malloc(list->n * sizeof *scratch.keys)};
    int rc = SL_OK;
    if (!data.keys || !scratch.keys)
        SL_TRY_OUT(sl_fail(SL_ENOMEM, "data set %s: no memory to look through %" PRIu64 " pairs",
                           ds->path, list->n));
    for (uint64_t i = 0; i < list->n; i++) {
        out->n_loops += list->ids[2 * i] == list->ids[2 * i + 1];
        data.keys[i] = sl_edge_key(list->ids[2 * i], list->ids[2 * i + 1]);
    }
    sl_radix_sort(&data, &scratch, list->n);
    for (uint64_t i = 1; i < list->n; i++)
        out->n_repeated += data.keys[i] == data.keys[i - 1];
    const struct audit a = {data.keys, list->n, (uint8_t *)scratch.keys};
    if (split != SL_SPLIT_TRAIN) {
        out->n_in_graph = count_in_graph(&a, ds);
        out->n_in_train = count_in_train(&a, &ds->edges[SL_SPLIT_TRAIN]);
    }
out:
    free(data.keys);
    free(scratch.keys);
    return rc;
}
