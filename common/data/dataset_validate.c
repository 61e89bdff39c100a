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
    uint64_t n = sl_dataset_lists(ds);
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
                           " (%s)%s: offsets must not fall",
                           ds->path, bad, found, bad - 1, before,
                           sl_dataset_row_text(ds, bad - 1).text);
        if (p[bad] > ds->n_edges)
            return sl_fail(SL_EFORMAT,
                           "%s/indptr.npy: element %" PRIu64
                           " is %s, wanted at most num_edges = %" PRIu64
                           ": correct metadata.json, indptr.npy or indices.npy",
                           ds->path, bad, found, ds->n_edges);
        return sl_fail(SL_EUNSUPPORTED,
                       "%s/indptr.npy: %s %" PRIu64 "%s has %" PRIu64
                       " in-edges, wanted fewer than 2^32",
                       ds->path, ds->typed.n_types ? "row" : "vertex", bad - 1,
                       sl_dataset_row_text(ds, bad - 1).text, p[bad] - p[bad - 1]);
    }
    if (p[n] != ds->n_edges)
        return sl_fail(
            SL_EFORMAT,
            "%s/indptr.npy: element %" PRIu64 " (the last) is %s, wanted num_edges = %" PRIu64
            ": correct metadata.json, indptr.npy or indices.npy",
            ds->path, n, sl_scan_int_text(npy->data, npy->head.dtype, n, found), ds->n_edges);
    return sl_dataset_validate_bounds(ds);
}

struct sl_dataset_sampling sl_dataset_sampling = {.above = (uint64_t)1 << 30,
                                                  .sample = (uint64_t)256 << 20};

static uint64_t plan_of(uint64_t bytes, bool full)
{
    return full || bytes <= sl_dataset_sampling.above ? bytes : sl_dataset_sampling.sample;
}

static uint64_t bytes_of(const struct sl_dataset *ds, const struct sl_vertex_type *t)
{
    return t->feat ? sl_dataset_type_rows(ds, t) * sl_type_row_bytes(t) : 0;
}

uint64_t sl_dataset_feat_plan(const struct sl_dataset *ds, bool full)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ds->typed.n_types; i++)
        sum += plan_of(bytes_of(ds, &ds->typed.type[i]), full);
    for (uint32_t i = 0; i < sl_typed_edge_sets(&ds->typed); i++)
        sum += plan_of(sl_relation_feature_bytes(sl_typed_edge_set(&ds->typed, i)), full);
    if (ds->feat)
        sum += plan_of(sl_dataset_rows(ds) * ds->feat_dim * sl_dtype_bytes(ds->feat_dtype), full);
    return sum;
}

static int validate_rows(struct sl_dataset *ds, const struct sl_scan_rows *rows, int threads,
                         const struct sl_dataset_watch *watch)
{
    struct sl_scan_lists lists;
    uint64_t bad = sl_scan_neighbours(ds, rows, threads, watch, &lists);
    ds->loop_free = ds->loop_free && !lists.have_loops;
    ds->lists_rise = ds->lists_rise && lists.rise;
    if (bad == SL_SCAN_OK)
        return SL_OK;
    // The vertex whose list it is in: the last one with indptr[v] <= bad.
    uint64_t low = rows->first_row, high = low + rows->n_rows;
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (ds->indptr[mid] <= bad)
            low = mid;
        else
            high = mid;
    }
    char found[32];
    sl_scan_int_text(ds->indices, ds->indices_dtype, bad, found);
    if (ds->typed.n_types) {
        const struct sl_relation *r = &ds->typed.relation[sl_typed_relation_of(&ds->typed, low)];
        return sl_fail(SL_EFORMAT,
                       "%s/indices.npy: element %" PRIu64 "%s is %s, wanted an id from %" PRIu64
                       " to before %" PRIu64 ", a vertex of type %s",
                       ds->path, bad, sl_dataset_row_text(ds, low).text, found, rows->first,
                       rows->first + rows->n, ds->typed.type[r->source].name);
    }
    return sl_fail(SL_EFORMAT,
                   "%s/indices.npy: element %" PRIu64 " (an in-neighbour of vertex %" PRIu64
                   ") is %s, wanted a vertex id from 0 to %" PRIu64 ": ids must be below num_nodes",
                   ds->path, bad, low, found, ds->n_nodes - 1);
}

static int validate_indices(struct sl_dataset *ds, int threads,
                            const struct sl_dataset_watch *watch)
{
    const struct sl_typed *t = &ds->typed;
    ds->loop_free = ds->lists_rise = true;
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_vertex_type *source = &t->type[t->relation[i].source],
                                    *target = &t->type[t->relation[i].target];
        const struct sl_scan_rows rows = {t->relation[i].first_row, target->n, target->first,
                                          source->first, source->n};
        SL_TRY(validate_rows(ds, &rows, threads, watch));
    }
    const struct sl_scan_rows all = {.n_rows = ds->n_nodes, .n = ds->n_nodes};
    return t->n_types ? SL_OK : validate_rows(ds, &all, threads, watch);
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

// Features of a file, or of stripes in its place.
struct features {
    const char *file;
    const struct sl_stripes *stripes; // or NULL
    const void *x;                    // (rows, dim)
    enum sl_dtype dtype;
    uint64_t rows, dim;
};

static int validate_matrix(struct sl_dataset *ds, const struct features *f, bool full, int threads,
                           const struct sl_dataset_watch *watch)
{
    const uint64_t checked = plan_of(f->rows * f->dim * sl_dtype_bytes(f->dtype), full);
    uint64_t bad = sl_scan_finite(f->x, f->dtype, f->rows * f->dim, checked, threads, watch);
    ds->feat_checked += checked;
    if (bad == SL_SCAN_OK)
        return SL_OK;
    // An element with all exponent bits set is an infinity when its fraction is zero.
    bool nan, negative;
    if (f->dtype == SL_DTYPE_F16) {
        uint16_t bits = ((const uint16_t *)f->x)[bad];
        nan = bits & 0x3ff;
        negative = bits >> 15;
    } else {
        float x = ((const float *)f->x)[bad];
        nan = isnan(x);
        negative = signbit(x);
    }
    const char *found = nan ? "NaN" : negative ? "-Inf" : "Inf";
    const uint64_t row = bad / f->dim, column = bad % f->dim;
    if (!f->stripes)
        return sl_fail(SL_EFORMAT,
                       "%s/%s: row %" PRIu64 ", column %" PRIu64 " is %s, wanted finite numbers: "
                       "replace it, for example with numpy.nan_to_num",
                       ds->path, f->file, row, column, found);
    uint32_t k;
    uint64_t at;
    sl_stripes_place(f->stripes->unit_bytes, f->stripes->n, bad * sl_dtype_bytes(f->dtype), &k,
                     &at);
    return sl_fail(SL_EFORMAT,
                   "%s: at byte %" PRIu64 ", row %" PRIu64 ", column %" PRIu64
                   " of the features, is %s, wanted finite numbers: replace it in %s, for example "
                   "with numpy.nan_to_num, and make the stripes again by `sluice stripe --force`",
                   f->stripes->file[k].path, at, row, column, found, f->file);
}

static int validate_features(struct sl_dataset *ds, bool full, int threads,
                             const struct sl_dataset_watch *watch)
{
    ds->feat_checked = 0;
    for (uint32_t i = 0; i < ds->typed.n_types; i++) {
        const struct sl_vertex_type *t = &ds->typed.type[i];
        const struct sl_stripes *stripes = sl_dataset_stripes(ds->files, i);
        const struct features f = {ds->files->typed[i].name,    stripes,    t->feat, t->feat_dtype,
                                   sl_dataset_type_rows(ds, t), t->feat_dim};
        if (t->feat)
            SL_TRY(validate_matrix(ds, &f, full, threads, watch));
    }
    for (uint32_t i = 0; i < sl_typed_edge_sets(&ds->typed); i++) {
        const struct sl_relation *r = sl_typed_edge_set(&ds->typed, i);
        if (!r->feat)
            continue;
        const struct features f = {ds->typed.n_types ? sl_dataset_edge_feat_file(ds, i)->name
                                                     : sl_dataset_file_name(SL_FILE_EDGE_FEAT),
                                   NULL,
                                   r->feat,
                                   r->feat_dtype,
                                   r->n_edges,
                                   r->feat_dim};
        SL_TRY(validate_matrix(ds, &f, full, threads, watch));
    }
    const struct features f = {"node_feat.npy",
                               ds->typed.n_types ? NULL : sl_dataset_stripes(ds->files, 0),
                               ds->feat,
                               ds->feat_dtype,
                               sl_dataset_rows(ds),
                               ds->feat_dim};
    return ds->feat ? validate_matrix(ds, &f, full, threads, watch) : SL_OK;
}

static int validate_list(const struct sl_dataset *ds, enum sl_dataset_file f, int threads)
{
    const struct sl_npy *npy = &ds->files->npy[f];
    if (!npy->map)
        return SL_OK;
    enum sl_dtype dtype = npy->head.dtype;
    char found[32];
    const uint64_t n = f == SL_FILE_VERTEX_MAP ? ds->n_nodes : sl_dataset_listed(ds);
    uint64_t bad = sl_scan_ids(npy->data, dtype, npy->n_elems, n, threads);
    if (bad != SL_SCAN_OK && n < ds->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "%s/%s: element %" PRIu64 " is %s, wanted a vertex of type %s, from 0 to "
                       "before %" PRIu64,
                       ds->path, sl_dataset_file_name(f), bad,
                       sl_scan_int_text(npy->data, dtype, bad, found),
                       ds->typed.type[ds->typed.listed].name, n);
    if (bad != SL_SCAN_OK)
        return sl_fail(SL_EFORMAT,
                       "%s/%s: element %" PRIu64
                       " is %s, wanted a vertex id below num_nodes = %" PRIu64,
                       ds->path, sl_dataset_file_name(f), bad,
                       sl_scan_int_text(npy->data, dtype, bad, found), ds->n_nodes);
    int rc = sl_scan_duplicates(npy->data, dtype, npy->n_elems, n, threads, &bad);
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

// Of a graph of several types a map keeps each type's ids to itself.
static int validate_map_types(const struct sl_dataset *ds)
{
    const struct sl_npy *npy = &ds->files->npy[SL_FILE_VERTEX_MAP];
    for (uint32_t i = 0; npy->map && i < ds->typed.n_types; i++) {
        const struct sl_vertex_type *t = &ds->typed.type[i];
        for (uint64_t v = t->first; v < t->first + t->n; v++) {
            const uint64_t id = sl_scan_load(npy->data, npy->head.dtype, v);
            if (id < t->first || id - t->first >= t->n)
                return sl_fail(SL_EFORMAT,
                               "%s/%s: element %" PRIu64 " is %" PRIu64
                               ", wanted a vertex of type %s, from %" PRIu64 " to before %" PRIu64,
                               ds->path, sl_dataset_file_name(SL_FILE_VERTEX_MAP), v, id, t->name,
                               t->first, t->first + t->n);
        }
    }
    return SL_OK;
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
    int rc = sl_overlaps_find(list, sl_dataset_listed(ds), threads, &found);
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
        n_bytes += f == SL_FILE_FEAT || f == SL_FILE_EDGE_FEAT ? 0 : npy[f].file_bytes;
    if (watch)
        watch->begin(watch->ctx, n_bytes);
    SL_TRY(sl_dataset_validate_offsets(ds, threads));
    sl_scan_report(watch, npy[SL_FILE_INDPTR].file_bytes);
    SL_TRY(validate_indices(ds, threads, watch));
    SL_TRY(validate_weights(ds, threads));
    sl_weightless_count(ds, threads);
    sl_scan_report(watch, npy[SL_FILE_EDGE_WEIGHT].file_bytes);
    sl_dataset_validate_times(ds, threads);
    sl_scan_report(watch, npy[SL_FILE_EDGE_TIME].file_bytes + npy[SL_FILE_NODE_TIME].file_bytes);
    SL_TRY(validate_features(ds, full, threads, watch));
    SL_TRY(sl_dataset_validate_labels(ds, threads));
    // n_nodes different ids below n_nodes are a permutation, so a map is checked as the lists are.
    for (int f = SL_FILE_TRAIN; f <= SL_FILE_VERTEX_MAP; f++)
        SL_TRY(validate_list(ds, (enum sl_dataset_file)f, threads));
    SL_TRY(validate_map_types(ds));
    if (!ds->may_overlap)
        SL_TRY(validate_disjoint(ds, threads));
    SL_TRY(sl_dataset_validate_shard(ds));
    SL_TRY(sl_dataset_validate_pairs(ds, threads));
    double seconds = (double)SL_MAX(1, sl_now_ns() - start_ns) * 1e-9;
    sl_log_debug("data set %s: %" PRIu64 " bytes validated in %.3f s (%.1f GB/s)", ds->path,
                 n_bytes, seconds, (double)n_bytes * 1e-9 / seconds);
    return SL_OK;
}
