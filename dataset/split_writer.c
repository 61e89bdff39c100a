#include "dataset/split_writer.h"

#include "common/base/error.h"
#include "common/data/dataset_files.h"
#include "common/base/bits.h"
#include "common/base/interrupt.h"
#include "common/data/npy.h"
#include "dataset/import.h"
#include "dataset/permutation.h"

#include <math.h>
#include <string.h>

int sl_split_writer_open_list(const struct sl_staging *st, enum sl_split split, uint64_t n_nodes,
                              struct sl_npy_writer **out)
{
    char path[SL_STAGING_PATH_BYTES];
    const char *name = sl_dataset_file_name((enum sl_dataset_file)(SL_FILE_TRAIN + (int)split));
    return sl_npy_writer_open_ids(sl_staging_file(st, name, path), n_nodes, out);
}

int sl_split_writer_open(struct sl_split_writer *s, const struct sl_staging *st, uint64_t n_nodes)
{
    for (int i = 0; i < SL_SPLIT_COUNT; i++)
        SL_TRY(sl_split_writer_open_list(st, (enum sl_split)i, n_nodes, &s->w[i]));
    return SL_OK;
}

int sl_split_writer_put(struct sl_split_writer *s, enum sl_split split, uint64_t vertex)
{
    if (split >= SL_SPLIT_COUNT)
        return SL_OK;
    s->n[split]++;
    return sl_npy_writer_append_id(s->w[split], vertex);
}

int sl_split_writer_close(struct sl_split_writer *s, int rc)
{
    for (int i = 0; i < SL_SPLIT_COUNT; i++)
        rc = sl_npy_writer_close(&s->w[i], rc);
    return rc;
}

// --- a split by ratio and seed -------------------------------------------------------------------

enum { SCRAMBLE_OF_SPLIT = 1, VERTICES_PER_TICK = 65536 };

// node_label.npy as the import wrote it; .map is NULL where there is none.
struct labels {
    struct sl_npy npy;
    uint64_t n_columns;
};

static bool is_labelled(const struct labels *l, uint64_t v)
{
    const void *data = l->npy.data;
    if (!l->npy.map)
        return true;
    if (l->npy.head.dtype == SL_DTYPE_I32)
        return ((const int32_t *)data)[v] >= 0;
    for (uint64_t i = v * l->n_columns; i < (v + 1) * l->n_columns; i++) {
        bool unknown = l->npy.head.dtype == SL_DTYPE_I8 ? ((const int8_t *)data)[i] < 0
                                                        : isnan(((const float *)data)[i]);
        if (!unknown)
            return true;
    }
    return false;
}

// How many of n vertices each part gets; what is rounded never adds up to more than n.
static void count_parts(const double *share, uint64_t n, uint64_t *parts)
{
    uint64_t left = n;
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        parts[s] = SL_MIN((uint64_t)llround(share[s] * (double)n), left);
        left -= parts[s];
    }
    // Shares of 1 leave nobody out: what rounding left over is tested on.
    if (share[0] + share[1] + share[2] > 1 - 1e-9)
        parts[SL_SPLIT_TEST] += left;
}

static enum sl_split part_of(const uint64_t *parts, uint64_t place)
{
    int s = 0;
    for (; s < SL_SPLIT_COUNT && place >= parts[s]; s++)
        place -= parts[s];
    return (enum sl_split)s; // SL_SPLIT_COUNT: none
}

static int fill_lists(struct sl_import *im, uint64_t n_nodes, const struct labels *labels,
                      struct sl_split_writer *lists)
{
    struct sl_permutation permutation;
    uint64_t n = 0, number = 0, parts[SL_SPLIT_COUNT];
    for (uint64_t v = 0; v < n_nodes; v++)
        n += is_labelled(labels, v);
    if (n == 0)
        return SL_OK;
    count_parts(im->split_share, n, parts);
    sl_permutation_init(&permutation, n, im->seed, SCRAMBLE_OF_SPLIT);
    for (uint64_t v = 0; v < n_nodes; v++) {
        if (v % VERTICES_PER_TICK == 0) {
            SL_TRY(sl_interrupt_check());
            sl_progress_set(&im->making.progress, v);
        }
        if (!is_labelled(labels, v))
            continue;
        enum sl_split s = part_of(parts, sl_permutation_apply(&permutation, number++));
        SL_TRY(sl_split_writer_put(lists, s, v));
    }
    return SL_OK;
}

int sl_split_draw(struct sl_import *im, uint64_t n_nodes)
{
    char path[SL_STAGING_PATH_BYTES];
    struct labels labels = {.n_columns = im->vertices.n_classes};
    struct sl_split_writer lists = {0};
    if (!im->split)
        return SL_OK;
    sl_progress_begin(&im->making.progress, "split", n_nodes, "vertices");
    if (im->vertices.task != SL_TASK_NONE)
        SL_TRY(sl_npy_open(sl_staging_file(&im->making.st, "node_label.npy", path), &labels.npy));
    int rc = sl_split_writer_open(&lists, &im->making.st, n_nodes);
    if (rc == SL_OK)
        rc = fill_lists(im, n_nodes, &labels, &lists);
    im->vertices.has_split = true;
    memcpy(im->vertices.n_split, lists.n, sizeof lists.n);
    sl_npy_close(&labels.npy);
    return sl_split_writer_close(&lists, rc);
}
