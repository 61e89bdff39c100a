/*
 * What models of links learn and are judged by, a set for each split: pairs that are edges
 * (SPLIT_edges.npy), a weight for each of them, and pairs that are none. These come in two forms
 * under two names, since (n, 2) could be either: pairs that all edges of the split share
 * (SPLIT_neg.npy), or k targets for each edge, whose source they share (SPLIT_neg_target.npy).
 */
#include <inttypes.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/data/dataset_internal.h"
#include "common/data/scan.h"

static enum sl_dataset_file file_of(enum sl_dataset_file first, int split)
{
    return (enum sl_dataset_file)((int)first + split);
}

static bool is_there(const struct sl_dataset *ds, enum sl_dataset_file f)
{
    return ds->files->npy[f].map != NULL;
}

// ---- types and shapes ---------------------------------------------------------------------------

static int check_pairs(const struct sl_dataset *ds, enum sl_dataset_file f, const char *advice)
{
    const struct sl_npy_header *h = &ds->files->npy[f].head;
    if (!is_there(ds, f) || (sl_dataset_is_id_type(h->dtype) && h->ndim == 2 && h->shape[1] == 2))
        return SL_OK;
    const bool columns = h->ndim == 2 && h->shape[0] == 2 && h->shape[1] != 2;
    const bool other_type = !sl_dataset_is_id_type(h->dtype) && h->ndim == 2 && h->shape[1] == 2;
    return sl_fail(SL_EFORMAT, "%s, wanted (n, 2) of int32 or int64: a source and a target a row%s",
                   sl_dataset_describe(ds, f).text,
                   columns      ? ": save edge_index.T.copy()"
                   : other_type ? ": save a.astype(numpy.int64)"
                                : advice);
}

// What goes with the edges of a split has no meaning without them.
static int need_edges(const struct sl_dataset *ds, enum sl_dataset_file f, int s)
{
    const enum sl_dataset_file edges = file_of(SL_FILE_TRAIN_EDGES, s);
    if (is_there(ds, edges))
        return SL_OK;
    return sl_fail(SL_EFORMAT, "data set %s: has %s and no %s: wanted the edges that it goes with",
                   ds->path, sl_dataset_file_name(f), sl_dataset_file_name(edges));
}

static int check_weights(const struct sl_dataset *ds, int s)
{
    const enum sl_dataset_file f = file_of(SL_FILE_TRAIN_EDGE_WEIGHT, s),
                               edges = file_of(SL_FILE_TRAIN_EDGES, s);
    const struct sl_npy *w = &ds->files->npy[f];
    if (!is_there(ds, f))
        return SL_OK;
    SL_TRY(need_edges(ds, f, s));
    const uint64_t n = ds->files->npy[edges].head.shape[0];
    if (w->head.dtype == SL_DTYPE_F32 && w->head.ndim == 1 && w->n_elems == n)
        return SL_OK;
    return sl_fail(SL_EFORMAT, "%s, wanted float32 (%" PRIu64 ",), a weight for each pair of %s%s",
                   sl_dataset_describe(ds, f).text, n, sl_dataset_file_name(edges),
                   w->head.dtype == SL_DTYPE_F32 ? "" : ": save w.astype(numpy.float32)");
}

static int check_targets(const struct sl_dataset *ds, int s)
{
    const enum sl_dataset_file f = file_of(SL_FILE_TRAIN_NEG_TARGET, s),
                               edges = file_of(SL_FILE_TRAIN_EDGES, s);
    const struct sl_npy_header *h = &ds->files->npy[f].head;
    SL_TRY(need_edges(ds, f, s));
    const uint64_t n = ds->files->npy[edges].head.shape[0];
    if (sl_dataset_is_id_type(h->dtype) && h->ndim == 2 && h->shape[0] == n && h->shape[1] > 0 &&
        h->shape[1] < UINT32_MAX)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s, wanted (%" PRIu64 ", k) of int32 or int64: k targets for each pair of %s "
                   "(pairs that all of them share go into %s)",
                   sl_dataset_describe(ds, f).text, n, sl_dataset_file_name(edges),
                   sl_dataset_file_name(file_of(SL_FILE_TRAIN_NEG, s)));
}

static int check_negatives(const struct sl_dataset *ds, int s)
{
    const enum sl_dataset_file pairs = file_of(SL_FILE_TRAIN_NEG, s),
                               targets = file_of(SL_FILE_TRAIN_NEG_TARGET, s);
    char advice[128];
    if (is_there(ds, pairs) && is_there(ds, targets))
        return sl_fail(SL_EFORMAT,
                       "data set %s: has %s and %s: wanted one of them: pairs that all edges "
                       "share, or targets for each edge",
                       ds->path, sl_dataset_file_name(pairs), sl_dataset_file_name(targets));
    // Training without a list of edges is on all edges of the graph.
    if (is_there(ds, pairs) && s != SL_SPLIT_TRAIN)
        SL_TRY(need_edges(ds, pairs, s));
    snprintf(advice, sizeof advice, " (targets for each edge go into %s)",
             sl_dataset_file_name(targets));
    SL_TRY(check_pairs(ds, pairs, advice));
    return is_there(ds, targets) ? check_targets(ds, s) : SL_OK;
}

// Pairs of a typed graph are of one relation.
static int check_relation(const struct sl_dataset *ds)
{
    if (ds->typed.n_types == 0 || ds->typed.linked != SL_NO_RELATION)
        return SL_OK;
    for (int f = SL_FILE_TRAIN_EDGES; f <= SL_FILE_TRAIN_NEG; f++)
        if (is_there(ds, (enum sl_dataset_file)f))
            return sl_fail(SL_EFORMAT,
                           "data set %s: has %s, and metadata.json does not say of which relation "
                           "its pairs are: add it, such as \"pair_relation\": \"%s\"",
                           ds->path, sl_dataset_file_name((enum sl_dataset_file)f),
                           sl_relation_text(&ds->typed, 0).text);
    return SL_OK;
}

int sl_dataset_check_pairs(const struct sl_dataset *ds)
{
    SL_TRY(check_relation(ds));
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        SL_TRY(check_pairs(ds, file_of(SL_FILE_TRAIN_EDGES, s), ""));
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        SL_TRY(check_weights(ds, s));
        SL_TRY(check_negatives(ds, s));
    }
    return SL_OK;
}

// ---- contents -----------------------------------------------------------------------------------

// What the first or the second of a pair may be.
struct end {
    uint64_t first, n; // ids; in files they are numbers from 0 to n - 1
    char of[SL_TYPE_NAME_BYTES + 48];
};

static struct end end_of(const struct sl_dataset *ds, bool target)
{
    const struct sl_relation *r = sl_dataset_linked(ds);
    struct end end = {.n = ds->n_nodes, .of = "vertex id below num_nodes"};
    if (!r)
        return end;
    const struct sl_vertex_type *type = &ds->typed.type[target ? r->target : r->source];
    end.first = type->first;
    end.n = type->n;
    snprintf(end.of, sizeof end.of, "number within type %s, below its count", type->name);
    return end;
}

// The first id of a file that is none of what its elements, even and odd, may be.
static bool find_stranger(const struct sl_dataset *ds, enum sl_dataset_file f, uint64_t even,
                          uint64_t odd, int threads, uint64_t *at, char found[32])
{
    const struct sl_npy *npy = &ds->files->npy[f];
    if (!npy->map)
        return false;
    if (even == odd) {
        *at = sl_scan_ids(npy->data, npy->head.dtype, npy->n_elems, even, threads);
    } else {
        uint64_t i = 0;
        while (i < npy->n_elems &&
               sl_scan_load(npy->data, npy->head.dtype, i) < (i % 2 ? odd : even))
            i++;
        *at = i < npy->n_elems ? i : SL_SCAN_OK;
    }
    if (*at == SL_SCAN_OK)
        return false;
    sl_scan_int_text(npy->data, npy->head.dtype, *at, found);
    return true;
}

static int validate_pairs(const struct sl_dataset *ds, enum sl_dataset_file f, int threads)
{
    char found[32];
    uint64_t bad;
    if (!is_there(ds, f))
        return SL_OK;
    const struct end source = end_of(ds, false), target = end_of(ds, true);
    if (!find_stranger(ds, f, source.n, target.n, threads, &bad, found))
        return SL_OK;
    const struct end *end = bad % 2 ? &target : &source;
    return sl_fail(SL_EFORMAT, "%s/%s: the %s of pair %" PRIu64 " is %s, wanted a %s = %" PRIu64,
                   ds->path, sl_dataset_file_name(f), bad % 2 ? "target" : "source", bad / 2, found,
                   end->of, end->n);
}

static int validate_targets(const struct sl_dataset *ds, enum sl_dataset_file f, int threads)
{
    char found[32];
    uint64_t bad;
    if (!is_there(ds, f))
        return SL_OK;
    const struct end end = end_of(ds, true);
    if (!find_stranger(ds, f, end.n, end.n, threads, &bad, found))
        return SL_OK;
    const uint64_t k = ds->files->npy[f].head.shape[1];
    return sl_fail(SL_EFORMAT,
                   "%s/%s: row %" PRIu64 ", column %" PRIu64 " is %s, wanted a %s = %" PRIu64,
                   ds->path, sl_dataset_file_name(f), bad / k, bad % k, found, end.of, end.n);
}

static int validate_weights(const struct sl_dataset *ds, enum sl_dataset_file f, int threads)
{
    const struct sl_npy *npy = &ds->files->npy[f];
    const float *w = npy->data;
    if (!npy->map)
        return SL_OK;
    uint64_t bad = sl_scan_weights(w, npy->n_elems, threads);
    if (bad == SL_SCAN_OK)
        return SL_OK;
    return sl_fail(SL_EFORMAT, "%s/%s: element %" PRIu64 " is %g, wanted a finite number >= 0",
                   ds->path, sl_dataset_file_name(f), bad, (double)w[bad]);
}

int sl_dataset_validate_pairs(const struct sl_dataset *ds, int threads)
{
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        SL_TRY(validate_pairs(ds, file_of(SL_FILE_TRAIN_EDGES, s), threads));
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        SL_TRY(validate_weights(ds, file_of(SL_FILE_TRAIN_EDGE_WEIGHT, s), threads));
        SL_TRY(validate_pairs(ds, file_of(SL_FILE_TRAIN_NEG, s), threads));
        SL_TRY(validate_targets(ds, file_of(SL_FILE_TRAIN_NEG_TARGET, s), threads));
    }
    return SL_OK;
}

// ---- conversion ---------------------------------------------------------------------------------

static int take_pairs(struct sl_dataset *ds, enum sl_dataset_file f, int threads,
                      const uint32_t **out)
{
    if (!is_there(ds, f))
        return SL_OK;
    const struct end source = end_of(ds, false), target = end_of(ds, true);
    return sl_dataset_take_numbers(ds, f, threads, source.first, target.first, out);
}

int sl_dataset_take_pairs(struct sl_dataset *ds, int threads)
{
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        const enum sl_dataset_file edges = file_of(SL_FILE_TRAIN_EDGES, s),
                                   pairs = file_of(SL_FILE_TRAIN_NEG, s),
                                   targets = file_of(SL_FILE_TRAIN_NEG_TARGET, s);
        const struct sl_npy *npy = ds->files->npy;
        struct sl_negatives *neg = &ds->negatives[s];
        ds->edges[s].n = npy[edges].n_elems / 2;
        ds->edges[s].weight = npy[file_of(SL_FILE_TRAIN_EDGE_WEIGHT, s)].data;
        SL_TRY(take_pairs(ds, edges, threads, &ds->edges[s].ids));
        neg->n = npy[pairs].n_elems / 2 + npy[targets].n_elems;
        neg->per_positive = is_there(ds, targets) ? (uint32_t)npy[targets].head.shape[1] : 0;
        SL_TRY(take_pairs(ds, pairs, threads, &neg->ids));
        if (is_there(ds, targets)) {
            const uint64_t first = end_of(ds, true).first;
            SL_TRY(sl_dataset_take_numbers(ds, targets, threads, first, first, &neg->ids));
        }
    }
    return SL_OK;
}
