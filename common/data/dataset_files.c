#include "common/data/dataset_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/threads.h"
#include "common/data/scan.h"

#define SHARD_ADVICE                                                                               \
    "a shard has both node_part.npy and node_row.npy, as `sluice partition --out` writes them"

static const struct {
    const char *name;
    unsigned need;
    const char *missing; // why it is wanted and what it looks like
} file_specs[SL_FILE_COUNT] = {
    [SL_FILE_INDPTR] = {"indptr.npy", ~0u,
                        "a graph needs offsets (num_nodes + 1, int64): the in-neighbours of vertex "
                        "v are indices[indptr[v]] to indices[indptr[v + 1] - 1]"},
    [SL_FILE_INDICES] = {"indices.npy", ~0u,
                         "a graph needs its in-neighbours (num_edges, int32 or int64)"},
    [SL_FILE_EDGE_WEIGHT] = {"edge_weight.npy", SL_NEED_WEIGHTS,
                             "weighted sampling needs it: one weight for each edge, in the order "
                             "of indices.npy (num_edges, float32, finite and not negative)"},
    [SL_FILE_FEAT] = {"node_feat.npy", SL_NEED_FEATURES,
                      "training needs features (num_nodes x feat_dim, float32 or float16), or "
                      "features.kind \"learned\""},
    [SL_FILE_LABEL] =
        {"node_label.npy", SL_NEED_LABELS,
         "training needs labels (num_nodes, int32 or another integer type, -1 = "
         "none; of a multilabel or regression task num_nodes x num_classes); task.kind "
         "\"link\" learns edges and needs none"},
    [SL_FILE_TRAIN] = {"train_idx.npy", SL_NEED_TRAIN,
                       "training needs the ids of the training vertices (int32 or int64)"},
    [SL_FILE_VAL] = {"val_idx.npy", 0, ""},
    [SL_FILE_TEST] = {"test_idx.npy", 0, ""},
    [SL_FILE_VERTEX_MAP] = {"vertex_map.npy", 0, ""},
    [SL_FILE_PART] = {"node_part.npy", ~0u, SHARD_ADVICE},
    [SL_FILE_ROW] = {"node_row.npy", ~0u, SHARD_ADVICE},
    [SL_FILE_TRAIN_EDGES] = {"train_edges.npy", 0, ""},
    [SL_FILE_VAL_EDGES] = {"val_edges.npy", 0, ""},
    [SL_FILE_TEST_EDGES] = {"test_edges.npy", 0, ""},
    [SL_FILE_TRAIN_EDGE_WEIGHT] = {"train_edge_weight.npy", 0, ""},
    [SL_FILE_VAL_EDGE_WEIGHT] = {"val_edge_weight.npy", 0, ""},
    [SL_FILE_TEST_EDGE_WEIGHT] = {"test_edge_weight.npy", 0, ""},
    [SL_FILE_TRAIN_NEG] = {"train_neg.npy", 0, ""},
    [SL_FILE_VAL_NEG] = {"val_neg.npy", 0, ""},
    [SL_FILE_TEST_NEG] = {"test_neg.npy", 0, ""},
    [SL_FILE_TRAIN_NEG_TARGET] = {"train_neg_target.npy", 0, ""},
    [SL_FILE_VAL_NEG_TARGET] = {"val_neg_target.npy", 0, ""},
    [SL_FILE_TEST_NEG_TARGET] = {"test_neg_target.npy", 0, ""},
    [SL_FILE_EDGE_TIME] = {"edge_time.npy", SL_NEED_TIMES,
                           "sampling by time needs it: the time of each edge, in the order of "
                           "indices.npy (num_edges, int64), rising in each vertex's list, as "
                           "`sluice import edgelist --times` writes it"},
    [SL_FILE_NODE_TIME] = {"node_time.npy", SL_NEED_TIMES,
                           "sampling by time needs it: the time of each vertex as a seed, whose "
                           "batch has no later edge (num_nodes, int64): numpy.save it"},
    [SL_FILE_EDGE_FEAT] = {"edge_feat.npy", SL_NEED_EDGE_FEATURES,
                           "model.edge_features needs it: a row for each edge, in the order of "
                           "indices.npy (num_edges x any, float32 or float16)"},
};

const char *sl_dataset_file_name(enum sl_dataset_file f)
{
    return file_specs[f].name;
}

const char *sl_dataset_feat_name(const struct sl_dataset *ds, uint32_t type)
{
    const struct sl_stripes *s = sl_dataset_stripes(ds->files, type);
    if (s)
        return s->file[0].path;
    return ds->typed.n_types ? ds->files->typed[type].name : file_specs[SL_FILE_FEAT].name;
}

int sl_dataset_map_stripes(struct sl_dataset *ds, uint32_t type,
                           const struct sl_dataset_known_files *known, struct sl_npy *out)
{
    struct sl_stripes *s = sl_dataset_stripes(ds->files, type);
    for (uint32_t i = 0; known && i < s->n; i++)
        s->file[i].was = sl_dataset_known_file(known, s->file[i].path);
    int rc = sl_stripes_map(s, &ds->files->n_units, out);
    for (uint32_t i = 0; i < s->n; i++)
        s->file[i].was = NULL;
    return rc;
}

int sl_dataset_map_files(struct sl_dataset *ds, unsigned need,
                         const struct sl_dataset_known_files *known)
{
    char path[sizeof ds->path + 32];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    ds->files->opened_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    for (int f = 0; f < SL_FILE_COUNT; f++) {
        // Of a whole data set node_part.npy is what a partition left, for others.
        if ((f == SL_FILE_PART || f == SL_FILE_ROW) && ds->shard.count == 0)
            continue;
        if ((f == SL_FILE_FEAT || f == SL_FILE_EDGE_TIME || f == SL_FILE_EDGE_FEAT) &&
            ds->typed.n_types)
            continue; // each type, or relation, has its own
        // Mapped by who reads it: a job that does not read it does not depend on it.
        if (f == SL_FILE_EDGE_FEAT && !(need & SL_NEED_EDGE_FEATURES) && !known)
            continue;
        if (f == SL_FILE_FEAT && sl_dataset_stripes(ds->files, 0)) {
            SL_TRY(sl_dataset_map_stripes(ds, 0, known, &ds->files->npy[f]));
            continue;
        }
        const struct sl_file_id *was =
            known ? sl_dataset_known_file(known, file_specs[f].name) : NULL;
        snprintf(path, sizeof path, "%s/%s", ds->path, file_specs[f].name);
        // Nobody has looked at what may be there by now.
        int rc = known && !was ? SL_ENOENT : sl_npy_open_same(path, was, &ds->files->npy[f]);
        const bool needed = need & file_specs[f].need;
        if (rc == SL_ENOENT && !was && !needed)
            continue;
        if ((rc == SL_EFORMAT || rc == SL_EUNSUPPORTED) && f >= SL_FILE_EDGE_TIME && !was &&
            !needed)
            continue; // a file of the user's, of the same name
        if (rc == SL_ENOENT && !was)
            return sl_fail(SL_ENOENT, "data set %s: has no %s: %s", ds->path, file_specs[f].name,
                           file_specs[f].missing);
        SL_TRY(rc);
    }
    return sl_dataset_map_types(ds, need, known);
}

uint32_t sl_dataset_parts(const struct sl_dataset *ds,
                          struct sl_dataset_part out[SL_DATASET_PARTS_MAX])
{
    uint32_t n = 0;
    for (int f = 0; f < SL_FILE_COUNT; f++) {
        const struct sl_npy *npy = &ds->files->npy[f];
        if (npy->map && npy->id.inode)
            out[n++] = (struct sl_dataset_part){file_specs[f].name, &npy->id};
    }
    for (uint32_t t = 0; t < ds->files->n_ranges; t++) {
        const struct sl_stripes *s = &ds->files->stripes[t];
        for (uint32_t i = 0; i < s->n; i++)
            out[n++] = (struct sl_dataset_part){s->file[i].path, &s->file[i].id};
    }
    for (uint32_t i = 0; i < ds->files->n_typed; i++) {
        const struct sl_typed_file *file = &ds->files->typed[i];
        if (file->npy.map && file->npy.id.inode)
            out[n++] = (struct sl_dataset_part){file->name, &file->npy.id};
    }
    return n;
}

struct sl_dataset_found sl_dataset_describe_npy(const struct sl_dataset *ds, const char *file,
                                                const struct sl_npy *npy)
{
    struct sl_dataset_found out;
    char shape[128];
    const bool absolute = file[0] == '/';
    snprintf(out.text, sizeof out.text, "%s%s%s: is %s %s", absolute ? "" : ds->path,
             absolute ? "" : "/", file, sl_npy_dtype_name(npy->head.dtype),
             sl_npy_shape_text(&npy->head, shape, sizeof shape));
    return out;
}

struct sl_dataset_found sl_dataset_describe(const struct sl_dataset *ds, enum sl_dataset_file f)
{
    const char *name = f == SL_FILE_FEAT ? sl_dataset_feat_name(ds, 0) : file_specs[f].name;
    return sl_dataset_describe_npy(ds, name, &ds->files->npy[f]);
}

// ---- copies -------------------------------------------------------------------------------------

enum { CONVERT_ELEMS = 1 << 17 };

struct conversion {
    const struct sl_npy *from;
    uint64_t *to64; // one of the two
    uint32_t *to32;
};

static bool convert_block(void *ctx, uint64_t block)
{
    const struct conversion *c = ctx;
    enum sl_dtype dtype = c->from->head.dtype;
    uint64_t end = SL_MIN(c->from->n_elems, (block + 1) * CONVERT_ELEMS);
    for (uint64_t i = block * CONVERT_ELEMS; i < end; i++) {
        uint64_t x = sl_scan_load(c->from->data, dtype, i);
        if (c->to64)
            c->to64[i] = x;
        else
            c->to32[i] = (uint32_t)x;
    }
    return false;
}

int sl_dataset_own(struct sl_dataset *ds, enum sl_dataset_file f, size_t elem_bytes, void **out)
{
    uint64_t n = ds->files->npy[f].n_elems;
    // One more than needed, so that an empty list is no special case.
    *out = calloc(n + 1, elem_bytes);
    if (!*out)
        return sl_fail(SL_ENOMEM, "%s/%s: no memory for a copy of %" PRIu64 " elements", ds->path,
                       file_specs[f].name, n);
    ds->files->owned[f] = *out;
    return SL_OK;
}

void sl_dataset_convert(struct sl_dataset *ds, enum sl_dataset_file f, size_t elem_bytes,
                        int threads)
{
    struct conversion c = {.from = &ds->files->npy[f]};
    if (elem_bytes == 8)
        c.to64 = ds->files->owned[f];
    else
        c.to32 = ds->files->owned[f];
    sl_threads_first(sl_div_up(c.from->n_elems, CONVERT_ELEMS), threads, convert_block, &c);
}

const struct sl_file_id *sl_dataset_known_file(const struct sl_dataset_known_files *known,
                                               const char *name)
{
    for (uint32_t i = 0; i < known->n; i++)
        if (strcmp(known->file[i].name, name) == 0)
            return &known->file[i].id;
    return NULL;
}
