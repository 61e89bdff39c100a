#include "common/data/id_list.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/npy.h"

static int take_id(const char *path, const struct sl_npy *npy, uint64_t i, uint64_t n_nodes,
                   uint32_t *out)
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
        return sl_fail(SL_EFORMAT, "%s: found %s, wanted vertex ids as int32 or int64", path,
                       sl_npy_dtype_name(npy->head.dtype));
    }
    if (v < 0 || (uint64_t)v >= n_nodes)
        return sl_fail(SL_EINVAL, "%s: entry %llu is %lld, wanted a vertex from 0 to %llu", path,
                       (unsigned long long)i, (long long)v, (unsigned long long)(n_nodes - 1));
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
        rc = sl_fail(SL_EFORMAT, "%s: found shape %s, wanted %s", path,
                     sl_npy_shape_text(&npy.head, shape, sizeof shape),
                     pairs ? "(n, 2): a source and a target in each row"
                           : "one dimension of vertex ids");
    else if (!(*ids = malloc(SL_MAX(npy.n_elems, (uint64_t)1) * sizeof **ids)))
        rc =
            sl_fail(SL_ENOMEM, "%s: no memory for %llu ids", path, (unsigned long long)npy.n_elems);
    for (uint64_t i = 0; rc == SL_OK && i < npy.n_elems; i++)
        rc = take_id(path, &npy, i, n_nodes, &(*ids)[i]);
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
