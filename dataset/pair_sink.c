#include "dataset/pair_sink.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/narrow.h"
#include "common/data/npy.h"

enum { BATCH = 4096 };

// Where element e of an array goes: to (e % run) * step + e / run * hop, from `to` on.
struct order {
    uint64_t run, step, hop;
};

// Rows of n numbers, as they lie.
static struct order order_of(const struct sl_npy_header *h, uint64_t n)
{
    if (h->fortran)
        return (struct order){h->shape[0], n, 1};
    return (struct order){UINT64_MAX, 1, 0};
}

static int fail_shape(const struct sl_array_reader *r, const char *wanted)
{
    char shape[128];
    return sl_fail(SL_EFORMAT, "import %s: found shape %s: wanted %s", sl_array_name(r),
                   sl_npy_shape_text(sl_array_header(r), shape, sizeof shape), wanted);
}

static bool is_column(const struct sl_npy_header *h)
{
    return h->ndim == 1 || (h->ndim == 2 && h->shape[1] == 1);
}

static int put_ids(struct sl_array_reader *r, const struct order *o, uint64_t n_nodes, uint32_t *to)
{
    int64_t x[BATCH];
    SL_TRY(sl_array_check_ids(r));
    for (uint64_t first = 0; sl_array_left(r) > 0;) {
        const uint64_t n = SL_MIN(sl_array_left(r), (uint64_t)BATCH);
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_array_read_integers(r, n, x));
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t e = first + i;
            if ((uint64_t)x[i] >= n_nodes)
                return sl_fail(SL_EFORMAT,
                               "import %s: element %" PRIu64 ": found %" PRId64
                               ": wanted a vertex from 0 to %" PRIu64,
                               sl_array_name(r), e, x[i], n_nodes - 1);
            to[e % o->run * o->step + e / o->run * o->hop] = (uint32_t)x[i];
        }
        first += n;
    }
    return SL_OK;
}

static int create(struct sl_import *im, enum sl_dataset_file f, uint64_t n_nodes, uint64_t rows,
                  uint64_t columns, struct sl_npy_writer **w, void *data)
{
    char path[SL_STAGING_PATH_BYTES];
    return sl_npy_create_mapped(sl_staging_file(&im->making.st, sl_dataset_file_name(f), path),
                                n_nodes > INT32_MAX ? SL_DTYPE_U32 : SL_DTYPE_I32, 2,
                                (uint64_t[]){rows, columns}, w, data);
}

int sl_pair_sink_put(struct sl_import *im, enum sl_dataset_file f, struct sl_array_reader *pairs,
                     uint64_t n_nodes, uint64_t *n)
{
    const struct sl_npy_header *h = sl_array_header(pairs);
    struct sl_npy_writer *w;
    uint32_t *to;
    if (h->ndim != 2 || h->shape[1] != 2)
        return fail_shape(pairs, "(number of pairs, 2)");
    const struct order order = order_of(h, 2);
    *n = h->shape[0];
    SL_TRY(create(im, f, n_nodes, *n, 2, &w, &to));
    return sl_npy_writer_close(&w, put_ids(pairs, &order, n_nodes, to));
}

int sl_pair_sink_put_sides(struct sl_import *im, enum sl_dataset_file f,
                           struct sl_array_reader *sources, struct sl_array_reader *targets,
                           uint64_t n_nodes, uint64_t *n)
{
    static const struct order order = {UINT64_MAX, 2, 0};
    struct sl_npy_writer *w;
    char wanted[64];
    uint32_t *to;
    if (!is_column(sl_array_header(sources)))
        return fail_shape(sources, "one dimension, the sources of pairs");
    *n = sl_array_count(sources);
    snprintf(wanted, sizeof wanted, "(%" PRIu64 ",), as many as sources", *n);
    if (!is_column(sl_array_header(targets)) || sl_array_count(targets) != *n)
        return fail_shape(targets, wanted);
    SL_TRY(create(im, f, n_nodes, *n, 2, &w, &to));
    int rc = put_ids(sources, &order, n_nodes, to);
    if (rc == SL_OK)
        rc = put_ids(targets, &order, n_nodes, to + 1);
    return sl_npy_writer_close(&w, rc);
}

int sl_pair_sink_put_targets(struct sl_import *im, enum sl_dataset_file f,
                             struct sl_array_reader *targets, uint64_t n_nodes, uint64_t n,
                             uint32_t *k)
{
    const struct sl_npy_header *h = sl_array_header(targets);
    struct sl_npy_writer *w;
    char wanted[96];
    uint32_t *to;
    snprintf(wanted, sizeof wanted, "(%" PRIu64 ", k), k targets for each pair", n);
    if (h->ndim != 2 || h->shape[0] != n || h->shape[1] == 0 || h->shape[1] >= UINT32_MAX)
        return fail_shape(targets, wanted);
    *k = (uint32_t)h->shape[1];
    const struct order order = order_of(h, *k);
    SL_TRY(create(im, f, n_nodes, n, *k, &w, &to));
    return sl_npy_writer_close(&w, put_ids(targets, &order, n_nodes, to));
}

static int put_weights(struct sl_array_reader *r, struct sl_npy_writer *w)
{
    double x[BATCH];
    float y[BATCH];
    while (sl_array_left(r) > 0) {
        const uint64_t n = SL_MIN(sl_array_left(r), (uint64_t)BATCH);
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_array_read_doubles(r, n, x));
        for (uint64_t i = 0; i < n; i++) {
            if (!sl_import_is_weight(x[i]))
                return sl_fail(SL_EFORMAT,
                               "import %s: element %" PRIu64
                               ": found %g: wanted a weight from 0 to " SL_FLOAT32_LARGEST
                               " (float32; --no-weights reads none)",
                               sl_array_name(r), sl_array_count(r) - sl_array_left(r) - n + i,
                               x[i]);
            y[i] = (float)x[i];
        }
        SL_TRY(sl_npy_writer_append(w, y, n * sizeof *y));
    }
    return SL_OK;
}

int sl_pair_sink_put_weights(struct sl_import *im, enum sl_dataset_file f,
                             struct sl_array_reader *weights, uint64_t n)
{
    char path[SL_STAGING_PATH_BYTES], wanted[64];
    struct sl_npy_writer *w;
    snprintf(wanted, sizeof wanted, "(%" PRIu64 ",), a weight for each pair", n);
    if (!is_column(sl_array_header(weights)) || sl_array_count(weights) != n)
        return fail_shape(weights, wanted);
    SL_TRY(sl_npy_writer_open(sl_staging_file(&im->making.st, sl_dataset_file_name(f), path),
                              SL_DTYPE_F32, 1, &n, &w));
    return sl_npy_writer_close(&w, put_weights(weights, w));
}
