/*
 * Validation: every byte of a data set is read once, file after file in a fixed order, each file by
 * all threads (scan.h). After it nothing that later code does with an id, an offset or a label can
 * leave its array, so samplers and trainers check nothing. Features cannot lead anywhere: a NaN
 * among them spoils the training, and no more. They are the most of a large data set, of which a
 * sample is looked at unless the whole is asked for.
 *
 * The scans say only where the first bad element is; the messages are written here.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/data/dataset_internal.h"
#include "common/data/overlap.h"
#include "common/data/scan.h"
#include "common/data/weightless.h"

int sl_dataset_validate_offsets(struct sl_dataset *ds, int threads)
{
    const struct sl_npy *npy = &ds->files->npy[SL_FILE_INDPTR];
    const uint64_t *p = ds->indptr;
    uint64_t n = ds->n_nodes;
    char found[32], before[32];
    // Words come from the file itself: a negative int32 is shown as it was written.
    if (p[0] != 0)
        return sl_fail(SL_EFORMAT, "%s/indptr.npy: element 0 is %s, wanted 0: offsets start at 0",
                       ds->path, sl_scan_int_text(npy->data, npy->head.dtype, 0, found));
    uint64_t bad = sl_scan_offsets(p, n + 1, ds->n_edges, threads, &ds->max_degree);
    if (bad != SL_SCAN_OK) {
        sl_scan_int_text(npy->data, npy->head.dtype, bad, found);
        sl_scan_int_text(npy->data, npy->head.dtype, bad - 1, before);
        bool negative = sl_dtype_is_signed(npy->head.dtype) && (int64_t)p[bad] < 0;
        if (negative || p[bad] < p[bad - 1])
            return sl_fail(SL_EFORMAT,
                           "%s/indptr.npy: element %" PRIu64 " is %s, less than element %" PRIu64
                           " (%s): offsets must not fall",
                           ds->path, bad, found, bad - 1, before);
        if (p[bad] > ds->n_edges)
            return sl_fail(SL_EFORMAT,
                           "%s/indptr.npy: element %" PRIu64
                           " is %s, wanted at most num_edges = %" PRIu64
                           ": correct metadata.json, indptr.npy or indices.npy",
                           ds->path, bad, found, ds->n_edges);
        return sl_fail(SL_EUNSUPPORTED,
                       "%s/indptr.npy: vertex %" PRIu64 " has %" PRIu64
                       " in-edges, wanted fewer than 2^32",
                       ds->path, bad - 1, p[bad] - p[bad - 1]);
    }
    if (p[n] != ds->n_edges)
        return sl_fail(
            SL_EFORMAT,
            "%s/indptr.npy: element %" PRIu64 " (the last) is %s, wanted num_edges = %" PRIu64
            ": correct metadata.json, indptr.npy or indices.npy",
            ds->path, n, sl_scan_int_text(npy->data, npy->head.dtype, n, found), ds->n_edges);
    return SL_OK;
}

struct sl_dataset_sampling sl_dataset_sampling = {.above = (uint64_t)1 << 30,
                                                  .sample = (uint64_t)256 << 20};

uint64_t sl_dataset_feat_plan(const struct sl_dataset *ds, bool full)
{
    const uint64_t bytes =
        ds->feat ? sl_dataset_rows(ds) * ds->feat_dim * sl_dtype_bytes(ds->feat_dtype) : 0;
    return full || bytes <= sl_dataset_sampling.above ? bytes : sl_dataset_sampling.sample;
}

static int validate_indices(struct sl_dataset *ds, int threads,
                            const struct sl_dataset_watch *watch)
{
    struct sl_scan_lists lists;
    uint64_t bad = sl_scan_neighbours(ds, threads, watch, &lists);
    ds->loop_free = !lists.have_loops;
    ds->lists_rise = lists.rise;
    if (bad == SL_SCAN_OK)
        return SL_OK;
    // The vertex whose list it is in: the last one with indptr[v] <= bad.
    uint64_t low = 0, high = ds->n_nodes;
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (ds->indptr[mid] <= bad)
            low = mid;
        else
            high = mid;
    }
    char found[32];
    return sl_fail(SL_EFORMAT,
                   "%s/indices.npy: element %" PRIu64 " (an in-neighbour of vertex %" PRIu64
                   ") is %s, wanted a vertex id from 0 to %" PRIu64 ": ids must be below num_nodes",
                   ds->path, bad, low, sl_scan_int_text(ds->indices, ds->indices_dtype, bad, found),
                   ds->n_nodes - 1);
}

static int validate_weights(const struct sl_dataset *ds, int threads)
{
    if (!ds->edge_weight)
        return SL_OK;
    uint64_t bad = sl_scan_weights(ds->edge_weight, ds->n_edges, threads);
    if (bad == SL_SCAN_OK)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s/edge_weight.npy: element %" PRIu64 " is %g, wanted a finite number >= 0",
                   ds->path, bad, (double)ds->edge_weight[bad]);
}

static int validate_features(struct sl_dataset *ds, bool full, int threads,
                             const struct sl_dataset_watch *watch)
{
    if (!ds->feat)
        return SL_OK;
    ds->feat_checked = sl_dataset_feat_plan(ds, full);
    uint64_t bad = sl_scan_finite(ds->feat, ds->feat_dtype, sl_dataset_rows(ds) * ds->feat_dim,
                                  ds->feat_checked, threads, watch);
    if (bad == SL_SCAN_OK)
        return SL_OK;
    // An element with all exponent bits set is an infinity when its fraction is zero.
    bool nan, negative;
    if (ds->feat_dtype == SL_DTYPE_F16) {
        uint16_t bits = ((const uint16_t *)ds->feat)[bad];
        nan = bits & 0x3ff;
        negative = bits >> 15;
    } else {
        float x = ((const float *)ds->feat)[bad];
        nan = isnan(x);
        negative = signbit(x);
    }
    return sl_fail(SL_EFORMAT,
                   "%s/node_feat.npy: row %" PRIu64 ", column %" PRIu64
                   " is %s, wanted finite numbers: replace it, for example with numpy.nan_to_num",
                   ds->path, bad / ds->feat_dim, bad % ds->feat_dim,
                   nan        ? "NaN"
                   : negative ? "-Inf"
                              : "Inf");
}

static int validate_list(const struct sl_dataset *ds, enum sl_dataset_file f, int threads)
{
    const struct sl_npy *npy = &ds->files->npy[f];
    if (!npy->map)
        return SL_OK;
    enum sl_dtype dtype = npy->head.dtype;
    char found[32];
    uint64_t bad = sl_scan_ids(npy->data, dtype, npy->n_elems, ds->n_nodes, threads);
    if (bad != SL_SCAN_OK)
        return sl_fail(SL_EFORMAT,
                       "%s/%s: element %" PRIu64
                       " is %s, wanted a vertex id below num_nodes = %" PRIu64,
                       ds->path, sl_dataset_file_name(f), bad,
                       sl_scan_int_text(npy->data, dtype, bad, found), ds->n_nodes);
    int rc = sl_scan_duplicates(npy->data, dtype, npy->n_elems, ds->n_nodes, threads, &bad);
    if (rc < 0)
        return sl_fail_prefix(rc, "%s/%s", ds->path, sl_dataset_file_name(f));
    if (bad == SL_SCAN_OK)
        return SL_OK;
    uint64_t id = sl_scan_load(npy->data, dtype, bad), first = 0;
    while (sl_scan_load(npy->data, dtype, first) != id)
        first++;
    return sl_fail(SL_EFORMAT,
                   "%s/%s: element %" PRIu64 " is %" PRIu64 ", which element %" PRIu64
                   " is already: each vertex may be listed once (numpy.unique)",
                   ds->path, sl_dataset_file_name(f), bad, id, first);
}

// The lists of a split are for training and for judging what has not been trained on.
static int validate_disjoint(const struct sl_dataset *ds, int threads)
{
    struct sl_overlap_list list[SL_SPLIT_COUNT];
    struct sl_overlaps found;
    char text[SL_OVERLAPS_TEXT_BYTES];
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        const struct sl_npy *npy = &ds->files->npy[SL_FILE_TRAIN + s];
        list[s] = (struct sl_overlap_list){npy->data, npy->head.dtype, npy->n_elems};
    }
    int rc = sl_overlaps_find(list, ds->n_nodes, threads, &found);
    if (rc < 0)
        return sl_fail_prefix(rc, "data set %s", ds->path);
    if (found.n == 0)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "data set %s: %s: results on training vertices say nothing about new ones: take "
                   "them out of one list (numpy.setdiff1d), or if it is intended put \"splits\": "
                   "\"overlap\" into metadata.json",
                   ds->path, sl_overlaps_text(&found, text));
}

int sl_dataset_validate(struct sl_dataset *ds, bool full, int threads,
                        const struct sl_dataset_watch *watch)
{
    const struct sl_npy *npy = ds->files->npy;
    uint64_t start_ns = sl_now_ns(), n_bytes = sl_dataset_feat_plan(ds, full);
    for (int f = 0; f < SL_FILE_COUNT; f++)
        n_bytes += f == SL_FILE_FEAT ? 0 : npy[f].file_bytes;
    if (watch)
        watch->begin(watch->ctx, n_bytes);
    SL_TRY(sl_dataset_validate_offsets(ds, threads));
    sl_scan_report(watch, npy[SL_FILE_INDPTR].file_bytes);
    SL_TRY(validate_indices(ds, threads, watch));
    SL_TRY(validate_weights(ds, threads));
    sl_weightless_count(ds, threads);
    sl_scan_report(watch, npy[SL_FILE_EDGE_WEIGHT].file_bytes);
    SL_TRY(validate_features(ds, full, threads, watch));
    SL_TRY(sl_dataset_validate_labels(ds, threads));
    // n_nodes different ids below n_nodes are a permutation, so a map is checked as the lists are.
    for (int f = SL_FILE_TRAIN; f <= SL_FILE_VERTEX_MAP; f++)
        SL_TRY(validate_list(ds, (enum sl_dataset_file)f, threads));
    if (!ds->may_overlap)
        SL_TRY(validate_disjoint(ds, threads));
    SL_TRY(sl_dataset_validate_shard(ds));
    SL_TRY(sl_dataset_validate_pairs(ds, threads));
    double seconds = (double)SL_MAX(1, sl_now_ns() - start_ns) * 1e-9;
    sl_log_debug("data set %s: %" PRIu64 " bytes validated in %.3f s (%.1f GB/s)", ds->path,
                 n_bytes, seconds, (double)n_bytes * 1e-9 / seconds);
    return SL_OK;
}
