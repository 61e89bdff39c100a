#include "dataset/vertex_writer.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/npy.h"
#include "common/base/threads.h"
#include "dataset/permutation.h"
#include "dataset/split_writer.h"

enum { VERTICES_PER_TICK = 65536 };

// ---- rows computed in parallel, written in order ------------------------------------------------

struct block {
    const struct sl_vertex_job *job;
    void (*row)(const void *context, uint64_t vertex, void *out);
    const void *context;
    size_t row_bytes;
    uint64_t first, n; // vertices of this block
    char *rows;        // (n, row_bytes)
};

static int fill_lane(void *context, int lane)
{
    struct block *b = context;
    uint64_t per_lane = sl_div_up(b->n, (uint64_t)b->job->threads);
    uint64_t begin = SL_MIN(per_lane * (uint64_t)lane, b->n);
    uint64_t end = SL_MIN(begin + per_lane, b->n);
    for (uint64_t i = begin; i < end; i++) {
        b->row(b->context, b->first + i, b->rows + i * b->row_bytes);
        if (i % 4096 == 4095)
            sl_progress_add(b->job->progress, 4096);
    }
    return SL_OK;
}

static int write_blocks(struct block *b, struct sl_npy_writer *w)
{
    const struct sl_vertex_job *job = b->job;
    uint64_t rows = SL_MAX(job->block_bytes / b->row_bytes, (size_t)1);
    rows = SL_MIN(rows, job->n_nodes);
    b->rows = malloc(rows * b->row_bytes);
    if (!b->rows)
        return sl_fail(SL_ENOMEM, "write %s: no memory for a block of vertices", job->st->final);
    int rc = SL_OK;
    for (b->first = 0; rc == SL_OK && b->first < job->n_nodes; b->first += b->n) {
        b->n = SL_MIN(rows, job->n_nodes - b->first);
        rc = sl_threads_run(job->threads, fill_lane, b);
        if (rc == SL_OK)
            rc = sl_npy_writer_append(w, b->rows, b->n * b->row_bytes);
        if (rc == SL_OK)
            rc = sl_interrupt_check();
        sl_progress_set(job->progress, b->first + b->n);
    }
    free(b->rows);
    return rc;
}

int sl_vertex_write_rows(const struct sl_vertex_job *job, const char *what, const char *name,
                         enum sl_dtype dtype, uint32_t n_columns,
                         void (*row)(const void *context, uint64_t vertex, void *out),
                         const void *context)
{
    char path[SL_STAGING_PATH_BYTES];
    const uint64_t shape[2] = {job->n_nodes, n_columns};
    struct block b = {.job = job,
                      .row = row,
                      .context = context,
                      .row_bytes = SL_MAX(n_columns, 1u) * sl_dtype_bytes(dtype)};
    struct sl_npy_writer *w;
    sl_progress_begin(job->progress, what, job->n_nodes, "vertices");
    SL_TRY(sl_npy_writer_open(sl_staging_file(job->st, name, path), dtype, n_columns ? 2 : 1, shape,
                              &w));
    return sl_npy_writer_close(&w, write_blocks(&b, w));
}

// ---- the split ----------------------------------------------------------------------------------

int sl_vertex_write_lists(const struct sl_vertex_job *job,
                          enum sl_split (*list)(const void *context, uint64_t vertex),
                          const void *context)
{
    struct sl_split_writer lists = {0};
    sl_progress_begin(job->progress, "split", job->n_nodes, "vertices");
    int rc = sl_split_writer_open(&lists, job->st, job->n_nodes);
    for (uint64_t v = 0; rc == SL_OK && v < job->n_nodes; v++) {
        rc = sl_split_writer_put(&lists, list(context, v), v);
        if (rc == SL_OK && v % VERTICES_PER_TICK == VERTICES_PER_TICK - 1) {
            rc = sl_interrupt_check();
            sl_progress_set(job->progress, v);
        }
    }
    sl_progress_set(job->progress, job->n_nodes);
    return sl_split_writer_close(&lists, rc);
}

// A seeded permutation; who comes first in it trains.
struct random_split {
    struct sl_permutation permutation;
    uint64_t n_train, n_val;
};

static enum sl_split list_of(const void *context, uint64_t vertex)
{
    const struct random_split *s = context;
    uint64_t place = sl_permutation_apply(&s->permutation, vertex);
    return place < s->n_train              ? SL_SPLIT_TRAIN
           : place < s->n_train + s->n_val ? SL_SPLIT_VAL
                                           : SL_SPLIT_TEST;
}

int sl_vertex_write_split(const struct sl_vertex_job *job, uint64_t seed, double train_ratio,
                          double val_ratio)
{
    struct random_split s;
    s.n_train = SL_MIN((uint64_t)llround(train_ratio * (double)job->n_nodes), job->n_nodes);
    s.n_val = SL_MIN((uint64_t)llround(val_ratio * (double)job->n_nodes), job->n_nodes - s.n_train);
    sl_permutation_init(&s.permutation, job->n_nodes, seed, 1);
    return sl_vertex_write_lists(job, list_of, &s);
}
