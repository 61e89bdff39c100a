#include "dataset/edge_times.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/npy.h"
#include "common/data/scan.h"

enum { ROWS_A_STEP = 4096 };

struct pass {
    struct sl_npy indptr, indices, weight;                  // weight: times, by their bits
    struct sl_npy_writer *to_indices, *to_time, *to_weight; // to_weight: NULL where it is not kept
    uint64_t *key; // of a row's edges: time, place in the row
};

static int by_key(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int write_row(struct pass *p, uint64_t first, uint64_t n)
{
    const uint32_t *bits = (const uint32_t *)p->weight.data + first;
    bool rises = true;
    for (uint64_t i = 0; i < n; i++) {
        p->key[i] = (uint64_t)bits[i] << 32 | i;
        rises = rises && (i == 0 || p->key[i] > p->key[i - 1]);
    }
    if (!rises)
        qsort(p->key, n, sizeof *p->key, by_key);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t from = first + (uint32_t)p->key[i];
        const int64_t time = (int64_t)(p->key[i] >> 32);
        SL_TRY(sl_npy_writer_append_id(p->to_indices,
                                       sl_scan_load(p->indices.data, p->indices.head.dtype, from)));
        SL_TRY(sl_npy_writer_append(p->to_time, &time, sizeof time));
        if (p->to_weight)
            SL_TRY(sl_npy_writer_append(p->to_weight, &bits[(uint32_t)p->key[i]], sizeof *bits));
    }
    return SL_OK;
}

static int write_rows(struct pass *p, struct sl_progress *progress)
{
    const int64_t *indptr = p->indptr.data;
    for (uint64_t v = 0; v + 1 < p->indptr.n_elems; v++) {
        if (v % ROWS_A_STEP == 0)
            SL_TRY(sl_interrupt_check());
        SL_TRY(write_row(p, (uint64_t)indptr[v], (uint64_t)(indptr[v + 1] - indptr[v])));
        sl_progress_add(progress, (uint64_t)(indptr[v + 1] - indptr[v]));
    }
    return SL_OK;
}

static int open_pass(struct pass *p, const struct sl_staging *st, uint64_t max_degree, bool keep)
{
    char path[SL_STAGING_PATH_BYTES];
    p->key = malloc((max_degree + 1) * sizeof *p->key);
    if (!p->key)
        return sl_fail(SL_ENOMEM, "sorting edges by time: no memory for %" PRIu64 " edges",
                       max_degree);
    SL_TRY(sl_npy_open(sl_staging_file(st, "indptr.npy", path), &p->indptr));
    SL_TRY(sl_npy_open(sl_staging_file(st, "edge_weight.npy", path), &p->weight));
    const uint64_t *n = &p->weight.n_elems;
    if (keep)
        SL_TRY(sl_npy_writer_open(path, SL_DTYPE_F32, 1, n, &p->to_weight));
    SL_TRY(sl_npy_open(sl_staging_file(st, "indices.npy", path), &p->indices));
    SL_TRY(sl_npy_writer_open(path, p->indices.head.dtype, 1, n, &p->to_indices));
    return sl_npy_writer_open(sl_staging_file(st, "edge_time.npy", path), SL_DTYPE_I64, 1, n,
                              &p->to_time);
}

int sl_edge_times_write(const struct sl_staging *st, uint64_t max_degree, bool keep,
                        struct sl_progress *progress)
{
    struct pass p = {0};
    char path[SL_STAGING_PATH_BYTES];
    int rc = open_pass(&p, st, max_degree, keep);
    if (rc == SL_OK) {
        sl_progress_begin(progress, "times", p.weight.n_elems, "edges");
        rc = write_rows(&p, progress);
    }
    rc = sl_npy_writer_close(&p.to_indices, rc);
    rc = sl_npy_writer_close(&p.to_time, rc);
    rc = sl_npy_writer_close(&p.to_weight, rc);
    sl_npy_close(&p.indptr);
    sl_npy_close(&p.indices);
    sl_npy_close(&p.weight);
    free(p.key);
    if (rc == SL_OK && !keep && unlink(sl_staging_file(st, "edge_weight.npy", path)) != 0)
        rc = sl_fail_errno(SL_EIO, errno, "remove %s", path);
    return rc;
}
