#include "common/data/id_list.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/npy.h"

static int fail_id(const char *path, bool pairs, uint64_t i, int64_t found, uint64_t n_nodes)
{
    char at[64];
    if (pairs)
        snprintf(at, sizeof at, "the %s of pair %" PRIu64, i % 2 ? "target" : "source", i / 2);
    else
        snprintf(at, sizeof at, "entry %" PRIu64, i);
    return sl_fail(SL_EINVAL, "%s: %s is %" PRId64 ", wanted a vertex from 0 to %" PRIu64, path, at,
                   found, n_nodes - 1);
}

static int take_id(const char *path, const struct sl_npy *npy, bool pairs, uint64_t i,
                   uint64_t n_nodes, uint32_t *out)
{
    int64_t v;
    switch (npy->head.dtype) {
    case SL_DTYPE_I32: v = ((const int32_t *)npy->data)[i]; break;
    case SL_DTYPE_U32: v = ((const uint32_t *)npy->data)[i]; break;
    case SL_DTYPE_I64: v = ((const int64_t *)npy->data)[i]; break;
    case SL_DTYPE_U64:
        v = (int64_t)SL_MIN(((const uint64_t *)npy->data)[i], (uint64_t)INT64_MAX);
        break;
    default:
        return sl_fail(SL_EFORMAT,
                       "%s: found %s, wanted vertex ids as int32 or int64: save "
                       "a.astype(numpy.int64)",
                       path, sl_npy_dtype_name(npy->head.dtype));
    }
    if (v < 0 || (uint64_t)v >= n_nodes)
        return fail_id(path, pairs, i, v, n_nodes);
    *out = (uint32_t)v;
    return SL_OK;
}

static bool has_shape(const struct sl_npy_header *head, bool pairs)
{
    return pairs ? head->ndim == 2 && head->shape[1] == 2 : head->ndim == 1;
}

static int read_ids(const char *path, uint64_t n_nodes, bool pairs, uint32_t **ids, uint64_t *n)
{
    char shape[128];
    struct sl_npy npy;
    SL_TRY(sl_npy_open(path, &npy));
    int rc = SL_OK;
    if (!has_shape(&npy.head, pairs))
        rc = sl_fail(
            SL_EFORMAT, "%s: found shape %s, wanted %s%s", path,
            sl_npy_shape_text(&npy.head, shape, sizeof shape),
            pairs ? "(n, 2): a source and a target in each row" : "one dimension of vertex ids",
            pairs && npy.head.ndim == 2 && npy.head.shape[0] == 2 ? ": save edge_index.T.copy()"
                                                                  : "");
    else if (!(*ids = malloc(SL_MAX(npy.n_elems, (uint64_t)1) * sizeof **ids)))
        rc =
            sl_fail(SL_ENOMEM, "%s: no memory for %llu ids", path, (unsigned long long)npy.n_elems);
    for (uint64_t i = 0; rc == SL_OK && i < npy.n_elems; i++)
        rc = take_id(path, &npy, pairs, i, n_nodes, &(*ids)[i]);
    *n = npy.n_elems / (pairs ? 2 : 1);
    sl_npy_close(&npy);
    return rc;
}

int sl_id_list_read(const char *path, uint64_t n_nodes, uint32_t **ids, uint64_t *n)
{
    return read_ids(path, n_nodes, false, ids, n);
}

int sl_id_pairs_read(const char *path, uint64_t n_nodes, uint32_t **pairs, uint64_t *n)
{
    return read_ids(path, n_nodes, true, pairs, n);
}
