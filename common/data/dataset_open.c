/*
 * Opening a data set directory.
 *
 *   path -> metadata.json -> map each file -> types and shapes -> digest -> validate, or find the
 *   record that says it was done, or take the one that was handed over -> convert what is not
 *   usable as it is -> needs
 *
 * Nothing of a file is used before the step that vouches for it: sizes are checked against headers
 * before anything is read through a mapping (npy.c), shapes against metadata.json before contents,
 * contents before ids are narrowed to 32 bits. Of a record that was handed over the contents are
 * believed, and each file is compared with what it says as soon as it is open.
 *
 * Limits: a file that another program shortens while it is mapped kills its readers with SIGBUS;
 * data sets are to be replaced (written aside and renamed), never rewritten in place. What is found
 * of such changes: dataset_hold.c.
 */
#include "common/data/dataset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/error.h"
#include "common/data/dataset_internal.h"

static int resolve_path(const char *path, struct sl_dataset *ds)
{
    struct stat st;
    char *real = realpath(path, NULL);
    if (!real && errno == ENOENT)
        return sl_fail(SL_ENOENT,
                       "data set %s: no such directory: correct the path, or make one with "
                       "`sluice generate` or `sluice import`",
                       path);
    if (!real)
        return sl_fail_errno(errno == EACCES    ? SL_EACCESS
                             : errno == ENOTDIR ? SL_ENOENT
                             : errno == ENOMEM  ? SL_ENOMEM
                                                : SL_EIO,
                             errno, "data set %s: cannot be opened", path);
    int rc = SL_OK;
    if (stat(real, &st) < 0)
        rc = sl_fail_errno(SL_EIO, errno, "data set %s", path);
    else if (!S_ISDIR(st.st_mode))
        rc = sl_fail(SL_ENOENT,
                     "data set %s: is not a directory: wanted a directory with metadata.json, "
                     "indptr.npy, indices.npy and so on",
                     path);
    else if (strlen(real) >= sizeof ds->path)
        rc = sl_fail(SL_EINVAL, "data set %s: its path is longer than %zu bytes", path,
                     sizeof ds->path - 1);
    else
        strcpy(ds->path, real);
    free(real);
    return rc;
}

int sl_dataset_begin(struct sl_dataset *ds, const char *path)
{
    *ds = (struct sl_dataset){.files = calloc(1, sizeof *ds->files)};
    if (!ds->files)
        return sl_fail(SL_ENOMEM, "data set %s: out of memory", path);
    SL_TRY(resolve_path(path, ds));
    memcpy(ds->files->directory, ds->path, sizeof ds->path);
    return SL_OK;
}

// ---- types and shapes ---------------------------------------------------------------------------

static int check_ids(const struct sl_dataset *ds, enum sl_dataset_file f)
{
    const struct sl_npy_header *h = &ds->files->npy[f].head;
    if (sl_dataset_is_id_type(h->dtype) && h->ndim == 1)
        return SL_OK;
    bool mask = f >= SL_FILE_TRAIN && f <= SL_FILE_TEST && sl_dtype_bytes(h->dtype) == 1;
    return sl_fail(SL_EFORMAT, "%s, wanted one dimension of int32 or int64%s",
                   sl_dataset_describe(ds, f).text,
                   mask ? ": if it is a mask, save numpy.flatnonzero(mask)" : "");
}

static int check_topology(struct sl_dataset *ds)
{
    const struct sl_npy *npy = ds->files->npy;
    const uint64_t *n_offsets = &npy[SL_FILE_INDPTR].head.shape[0];
    SL_TRY(check_ids(ds, SL_FILE_INDPTR));
    SL_TRY(check_ids(ds, SL_FILE_INDICES));
    if (*n_offsets != sl_dataset_lists(ds) + 1 && ds->typed.n_types)
        return sl_fail(
            SL_EFORMAT,
            "%s, wanted %" PRIu64 " elements: the relations of metadata.json have %" PRIu64
            " rows, one for each vertex of the target type of each, and one more is "
            "needed",
            sl_dataset_describe(ds, SL_FILE_INDPTR).text, ds->typed.n_rows + 1, ds->typed.n_rows);
    if (*n_offsets != sl_dataset_lists(ds) + 1)
        return sl_fail(SL_EFORMAT,
                       "%s, wanted %" PRIu64 " elements: metadata.json says num_nodes = %" PRIu64
                       ", which needs one more",
                       sl_dataset_describe(ds, SL_FILE_INDPTR).text, ds->n_nodes + 1, ds->n_nodes);
    if (npy[SL_FILE_INDICES].n_elems != ds->n_edges)
        return sl_fail(SL_EFORMAT,
                       "%s, wanted %" PRIu64 " elements: metadata.json says num_edges = %" PRIu64,
                       sl_dataset_describe(ds, SL_FILE_INDICES).text, ds->n_edges, ds->n_edges);
    ds->indices = npy[SL_FILE_INDICES].data;
    ds->indices_dtype = npy[SL_FILE_INDICES].head.dtype;

    const struct sl_npy *w = &npy[SL_FILE_EDGE_WEIGHT];
    if (!w->map)
        return SL_OK;
    if (w->head.dtype != SL_DTYPE_F32 || w->head.ndim != 1)
        return sl_fail(SL_EFORMAT,
                       "%s, wanted one dimension of float32: save w.astype(numpy.float32)",
                       sl_dataset_describe(ds, SL_FILE_EDGE_WEIGHT).text);
    if (w->n_elems != ds->n_edges)
        return sl_fail(SL_EFORMAT, "%s, wanted one weight an edge: num_edges = %" PRIu64,
                       sl_dataset_describe(ds, SL_FILE_EDGE_WEIGHT).text, ds->n_edges);
    ds->edge_weight = w->data;
    return SL_OK;
}

static int check_features(struct sl_dataset *ds, const struct sl_dataset_metadata *m)
{
    const struct sl_npy *x = &ds->files->npy[SL_FILE_FEAT];
    if (!x->map)
        return SL_OK;
    if (x->head.dtype != SL_DTYPE_F32 && x->head.dtype != SL_DTYPE_F16)
        return sl_fail(SL_EFORMAT, "%s, wanted float32 or float16: save x.astype(numpy.float32)",
                       sl_dataset_describe(ds, SL_FILE_FEAT).text);
    if (x->head.ndim != 2 || x->head.shape[0] != sl_dataset_rows(ds) ||
        x->head.shape[1] != m->feat_dim || m->feat_dim == 0)
        return sl_fail(SL_EFORMAT,
                       "%s, wanted (%s, feat_dim) with feat_dim > 0: metadata.json says "
                       "(%" PRIu64 ", %" PRIu64 ")",
                       sl_dataset_describe(ds, SL_FILE_FEAT).text,
                       ds->shard.count ? "shard.rows" : "num_nodes", sl_dataset_rows(ds),
                       m->feat_dim);
    ds->feat_dim = (uint32_t)m->feat_dim;
    ds->feat_dtype = x->head.dtype;
    ds->feat = x->data;
    return SL_OK;
}

static int check_vertex_map(const struct sl_dataset *ds)
{
    const struct sl_npy *map = &ds->files->npy[SL_FILE_VERTEX_MAP];
    if (!map->map)
        return SL_OK;
    SL_TRY(check_ids(ds, SL_FILE_VERTEX_MAP));
    if (map->n_elems != ds->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "%s, wanted the earlier id of each vertex: num_nodes = %" PRIu64
                       ": move the file away if it belongs to another data set",
                       sl_dataset_describe(ds, SL_FILE_VERTEX_MAP).text, ds->n_nodes);
    return SL_OK;
}

// ---- conversion ---------------------------------------------------------------------------------

static int take_offsets(struct sl_dataset *ds, int threads)
{
    const struct sl_npy *npy = &ds->files->npy[SL_FILE_INDPTR];
    if (sl_dtype_bytes(npy->head.dtype) == 8) {
        ds->indptr = npy->data;
        return SL_OK;
    }
    void *owned;
    SL_TRY(sl_dataset_own(ds, SL_FILE_INDPTR, 8, &owned));
    sl_dataset_convert(ds, SL_FILE_INDPTR, 8, threads);
    ds->indptr = owned;
    return SL_OK;
}

int sl_dataset_take_ids(struct sl_dataset *ds, enum sl_dataset_file f, int threads,
                        const uint32_t **out)
{
    const struct sl_npy *npy = &ds->files->npy[f];
    void *owned = NULL;
    if (!npy->map)
        return SL_OK;
    if (sl_dtype_bytes(npy->head.dtype) == 4) {
        *out = npy->data;
        return SL_OK;
    }
    SL_TRY(sl_dataset_own(ds, f, 4, &owned));
    sl_dataset_convert(ds, f, 4, threads);
    *out = owned;
    return SL_OK;
}

int sl_dataset_take_numbers(struct sl_dataset *ds, enum sl_dataset_file f, int threads,
                            uint64_t even, uint64_t odd, const uint32_t **out)
{
    void *owned = NULL;
    if (!ds->files->npy[f].map || (even == 0 && odd == 0))
        return sl_dataset_take_ids(ds, f, threads, out);
    SL_TRY(sl_dataset_own(ds, f, sizeof **out, &owned));
    sl_dataset_convert(ds, f, sizeof **out, threads);
    uint32_t *ids = owned;
    for (uint64_t i = 0; i < ds->files->npy[f].n_elems; i++)
        ids[i] += (uint32_t)(i % 2 ? odd : even);
    *out = ids;
    return SL_OK;
}

static int take_lists(struct sl_dataset *ds, int threads)
{
    const struct sl_typed *t = &ds->typed;
    const uint64_t first = t->n_types ? t->type[t->listed].first : 0;
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        enum sl_dataset_file f = (enum sl_dataset_file)(SL_FILE_TRAIN + s);
        ds->split[s].n = ds->files->npy[f].n_elems;
        SL_TRY(sl_dataset_take_numbers(ds, f, threads, first, first, &ds->split[s].ids));
    }
    return sl_dataset_take_pairs(ds, threads);
}

// ---- needs that depend on contents --------------------------------------------------------------

static int check_training_set(const struct sl_dataset *ds, unsigned need)
{
    const struct sl_vertex_list *train = &ds->split[SL_SPLIT_TRAIN];
    if (!(need & SL_NEED_TRAIN))
        return SL_OK;
    if (train->n == 0)
        return sl_fail(SL_EFORMAT,
                       "%s/train_idx.npy: the training set is empty: list the vertices to train on",
                       ds->path);
    if (!(need & SL_NEED_LABELS))
        return SL_OK;
    if (ds->typed.n_types && ds->typed.listed != 0)
        return sl_fail(SL_EFORMAT,
                       "%s/train_idx.npy: lists vertices of type %s (\"list_type\" in "
                       "metadata.json), wanted those of %s, which have the labels",
                       ds->path, ds->typed.type[ds->typed.listed].name, ds->typed.type[0].name);
    uint64_t i = 0;
    while (i < train->n && !sl_dataset_is_labelled(ds, train->ids[i]))
        i++;
    if (i == train->n)
        return sl_fail(SL_EFORMAT,
                       "%s/train_idx.npy: none of its %" PRIu64
                       " vertices has a label (all are %s in node_label.npy)",
                       ds->path, train->n, ds->label ? "-1 or NaN" : "negative or NaN");
    return SL_OK;
}

// How to be sure of the contents.
struct trust {
    const struct sl_dataset_known *known; // they were validated elsewhere; NULL: as `check` says
    enum sl_dataset_check check;
    const struct sl_dataset_watch *watch;
};

static int trust_contents(struct sl_dataset *ds, const struct trust *trust, int threads)
{
    const bool full = trust->check == SL_CHECK_FULL;
    if (trust->known)
        return sl_dataset_known_take(trust->known, ds);
    if (!full && sl_dataset_record_load(ds))
        return SL_OK;
    SL_TRY(sl_dataset_validate(ds, full, threads, trust->watch));
    ds->validated_now = true;
    sl_dataset_record_save(ds);
    return SL_OK;
}

static int open_all(struct sl_dataset *ds, struct sl_dataset_metadata *m, const char *path,
                    unsigned need, const struct trust *trust, int threads)
{
    SL_TRY(sl_dataset_begin(ds, path));
    sl_dataset_faults_begin(ds->files);
    SL_TRY(sl_dataset_metadata_read(ds, trust->known, m));
    SL_TRY(sl_dataset_refuse_shard(ds, need));
    SL_TRY(sl_dataset_take_described(ds, need));
    if (ds->described) { // metadata.json is all of it, and has been compared
        ds->digest = sl_dataset_digest(ds, m);
        return SL_OK;
    }
    SL_TRY(sl_dataset_map_files(ds, need, trust->known ? &trust->known->files : NULL));
    SL_TRY(check_topology(ds));
    SL_TRY(sl_dataset_check_shard(ds));
    SL_TRY(check_features(ds, m));
    SL_TRY(sl_dataset_check_types(ds));
    SL_TRY(sl_dataset_check_labels(ds, m));
    for (int f = SL_FILE_TRAIN; f <= SL_FILE_TEST; f++)
        if (ds->files->npy[f].map)
            SL_TRY(check_ids(ds, (enum sl_dataset_file)f));
    SL_TRY(sl_dataset_check_pairs(ds));
    SL_TRY(check_vertex_map(ds));
    SL_TRY(sl_dataset_check_times(ds, need));

    SL_TRY(take_offsets(ds, threads));
    ds->digest = sl_dataset_digest(ds, m);
    SL_TRY(trust_contents(ds, trust, threads));
    SL_TRY(sl_dataset_take_labels(ds, threads));
    SL_TRY(take_lists(ds, threads));
    SL_TRY(sl_dataset_take_times(ds, need, threads));
    SL_TRY(sl_dataset_take_ids(ds, SL_FILE_VERTEX_MAP, threads, &ds->vertex_map));
    return trust->known ? SL_OK : check_training_set(ds, need);
}

static int open_with(const char *path, unsigned need, const struct trust *trust, int threads,
                     struct sl_dataset *out)
{
    struct sl_dataset_metadata m = {0};
    *out = (struct sl_dataset){0};
    int rc = open_all(out, &m, path, need, trust, threads);
    sl_dataset_metadata_fini(&m);
    if (rc < 0)
        sl_dataset_close(out);
    return rc;
}

int sl_dataset_open(const char *path, unsigned need, enum sl_dataset_check check, int threads,
                    struct sl_dataset *out)
{
    return sl_dataset_open_watched(path, need, check, threads, NULL, out);
}

int sl_dataset_open_watched(const char *path, unsigned need, enum sl_dataset_check check,
                            int threads, const struct sl_dataset_watch *watch,
                            struct sl_dataset *out)
{
    const struct trust trust = {.check = check, .watch = watch};
    return open_with(path, need, &trust, threads, out);
}

int sl_dataset_open_recorded(const char *path, unsigned need, const char *record, int threads,
                             struct sl_dataset *out)
{
    struct sl_dataset_known known;
    *out = (struct sl_dataset){0};
    SL_TRY(sl_dataset_known_read(record, &known));
    const struct trust trust = {.known = &known};
    int rc = open_with(path, need, &trust, threads, out);
    sl_dataset_known_fini(&known);
    return rc;
}

void sl_dataset_close(struct sl_dataset *ds)
{
    if (ds->files) {
        sl_dataset_faults_end(ds->files);
        sl_dataset_release(ds);
    }
    for (int f = 0; ds->files && f < SL_FILE_COUNT; f++) {
        sl_npy_close(&ds->files->npy[f]);
        free(ds->files->owned[f]);
    }
    if (ds->files) {
        sl_dataset_close_types(ds);
        for (uint32_t t = 0; t < ds->files->n_ranges; t++)
            sl_stripes_fini(&ds->files->stripes[t]);
        free(ds->files->stripes);
        free(ds->files->whole);
    }
    free(ds->files);
    *ds = (struct sl_dataset){0};
}
