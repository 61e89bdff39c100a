#include "dataset/vertex_writer.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/npy.h"
#include "common/base/threads.h"
#include "dataset/scramble.h"
#include "dataset/split_writer.h"

enum { VERTICES_PER_TICK = 65536 };

// ---- rows made in parallel, written in order ----------------------------------------------------

struct block {
    const struct sl_vertex_job *job;
    void (*row)(const void *context, uint64_t vertex, float *out);
    int32_t (*label)(const void *context, uint64_t vertex);
    const void *context;
    uint32_t feat_dim;
    uint64_t first, n; // vertices of this block
    union {
        float *features; // (n, feat_dim)
        int32_t *labels; // (n)
        void *bytes;
    } out;
};

static int fill_lane(void *context, int lane)
{
    struct block *b = context;
    uint64_t per_lane = sl_div_up(b->n, (uint64_t)b->job->threads);
    uint64_t begin = SL_MIN(per_lane * (uint64_t)lane, b->n);
    uint64_t end = SL_MIN(begin + per_lane, b->n);
    for (uint64_t i = begin; i < end; i++) {
        if (b->row)
            b->row(b->context, b->first + i, &b->out.features[i * b->feat_dim]);
        else
            b->out.labels[i] = b->label(b->context, b->first + i);
        if (i % 4096 == 4095)
            sl_progress_add(b->job->progress, 4096);
    }
    return SL_OK;
}

static int write_blocks(struct block *b, struct sl_npy_writer *w, size_t row_bytes)
{
    const struct sl_vertex_job *job = b->job;
    uint64_t rows = SL_MAX(job->block_bytes / row_bytes, (size_t)1);
    rows = SL_MIN(rows, job->n_nodes);
    b->out.bytes = malloc(rows * row_bytes);
    if (!b->out.bytes)
        return sl_fail(SL_ENOMEM, "write %s: no memory for a block of vertices", job->st->final);
    int rc = SL_OK;
    for (b->first = 0; rc == SL_OK && b->first < job->n_nodes; b->first += b->n) {
        b->n = SL_MIN(rows, job->n_nodes - b->first);
        rc = sl_threads_run(job->threads, fill_lane, b);
        if (rc == SL_OK)
            rc = sl_npy_writer_append(w, b->out.bytes, b->n * row_bytes);
        if (rc == SL_OK)
            rc = sl_interrupt_check();
        sl_progress_set(job->progress, b->first + b->n);
    }
    free(b->out.bytes);
    return rc;
}

static int write_file(struct block *b, const char *name, enum sl_dtype dtype, int ndim,
                      const uint64_t *shape, size_t row_bytes)
{
    char path[SL_STAGING_PATH_BYTES];
    struct sl_npy_writer *w;
    SL_TRY(sl_npy_writer_open(sl_staging_file(b->job->st, name, path), dtype, ndim, shape, &w));
    return sl_npy_writer_close(&w, write_blocks(b, w, row_bytes));
}

int sl_vertex_write_features(const struct sl_vertex_job *job, uint32_t feat_dim,
                             void (*row)(const void *context, uint64_t vertex, float *out),
                             const void *context)
{
    struct block b = {.job = job, .row = row, .context = context, .feat_dim = feat_dim};
    uint64_t shape[2] = {job->n_nodes, feat_dim};
    sl_progress_begin(job->progress, "features", job->n_nodes, "vertices");
    return write_file(&b, "node_feat.npy", SL_DTYPE_F32, 2, shape, feat_dim * sizeof(float));
}

int sl_vertex_write_labels(const struct sl_vertex_job *job,
                           int32_t (*label)(const void *context, uint64_t vertex),
                           const void *context)
{
    struct block b = {.job = job, .label = label, .context = context};
    sl_progress_begin(job->progress, "labels", job->n_nodes, "vertices");
    return write_file(&b, "node_label.npy", SL_DTYPE_I32, 1, &job->n_nodes, sizeof(int32_t));
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
    struct sl_scramble permutation;
    uint64_t n_train, n_val;
};

static enum sl_split list_of(const void *context, uint64_t vertex)
{
    const struct random_split *s = context;
    uint64_t place = sl_scramble_apply(&s->permutation, vertex);
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
    sl_scramble_init(&s.permutation, job->n_nodes, seed, 1);
    return sl_vertex_write_lists(job, list_of, &s);
}
