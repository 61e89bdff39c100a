// Shards of a data set: found, refused where a whole data set is wanted, checked.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/dataset_internal.h"
#include "common/data/scan.h"

#define AGAIN "write the shards again (sluice partition --out)"

static const char *whole_of(const struct sl_dataset *ds)
{
    return ds->files->whole ? ds->files->whole : "that was partitioned";
}

int sl_dataset_refuse_shard(const struct sl_dataset *ds, unsigned need)
{
    const struct sl_shard *s = &ds->shard;
    if (ds->files->n_shards)
        return sl_fail(SL_EINVAL,
                       "data set %s: holds %u shards, one for each node: run it with \"nodes\": "
                       "\"auto\" under mpirun or srun, or open the whole data set %s",
                       ds->path, ds->files->n_shards, whole_of(ds));
    if (s->count == 0 || need & SL_TAKES_SHARD)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "data set %s: is shard %u of %u (the first is 0): features of %.3g %% of the "
                   "vertices are on other nodes: run it with \"nodes\": \"auto\" under mpirun or "
                   "srun, or open the whole data set %s",
                   ds->path, s->index, s->count,
                   ds->n_nodes ? 100 - 100 * (double)s->n_local / (double)ds->n_nodes : 0,
                   whole_of(ds));
}

// ---- the one of a node --------------------------------------------------------------------------

static uint32_t shards_of(const struct sl_dataset *ds)
{
    return ds->files->n_shards ? ds->files->n_shards : ds->shard.count;
}

static int choose(const struct sl_dataset *ds, uint32_t index, uint32_t count, char *out,
                  size_t n_out)
{
    const uint32_t n_shards = shards_of(ds);
    if (n_shards && n_shards != count)
        return sl_fail(
            SL_EINVAL,
            "data set %s: is of %u shards, and the job has %u nodes: run it on %u nodes, or "
            "write other shards (sluice partition %s --parts %u --out)",
            ds->path, n_shards, count, n_shards, ds->files->whole ? ds->files->whole : "DIR",
            count);
    if (ds->shard.count && ds->shard.index != index)
        return sl_fail(SL_EINVAL,
                       "data set %s: is shard %u of %u, wanted shard %u on this node: give each "
                       "node its own, or the directory of all",
                       ds->path, ds->shard.index, count, index);
    const int n = ds->files->n_shards ? snprintf(out, n_out, "%s/%u", ds->path, index)
                                      : snprintf(out, n_out, "%s", ds->path);
    if (n < 0 || (size_t)n >= n_out)
        return sl_fail(SL_EINVAL, "data set %s: its path is longer than %zu bytes", ds->path,
                       n_out - 1);
    return SL_OK;
}

int sl_shard_find(const char *path, uint32_t index, uint32_t count, char *out, size_t n_out)
{
    struct sl_dataset ds;
    struct sl_dataset_metadata m = {0};
    int rc = sl_dataset_begin(&ds, path);
    if (rc == SL_OK)
        rc = sl_dataset_metadata_read(&ds, NULL, &m);
    if (rc == SL_OK)
        rc = choose(&ds, index, count, out, n_out);
    sl_dataset_metadata_fini(&m);
    sl_dataset_close(&ds);
    return rc;
}

int sl_shards_at(const char *path, uint32_t *count)
{
    struct sl_dataset ds;
    struct sl_dataset_metadata m = {0};
    int rc = sl_dataset_begin(&ds, path);
    if (rc == SL_OK)
        rc = sl_dataset_metadata_read(&ds, NULL, &m);
    *count = rc == SL_OK ? shards_of(&ds) : 0;
    sl_dataset_metadata_fini(&m);
    sl_dataset_close(&ds);
    return rc;
}

// ---- rows ---------------------------------------------------------------------------------------

struct sl_feature_table sl_dataset_table(const struct sl_dataset *ds, uint32_t of)
{
    struct sl_feature_table out = {.n = ds->n_nodes,
                                   .n_rows = sl_dataset_rows(ds),
                                   .row_bytes = ds->feat_dim * sl_dtype_bytes(ds->feat_dtype),
                                   .rows = ds->feat};
    if (ds->typed.n_types == 0)
        return out;
    const struct sl_vertex_type *type = ds->typed.type;
    for (; type < &ds->typed.type[of]; type++)
        out.rows_before += sl_dataset_type_rows(ds, type);
    out.first = type->first;
    out.n = type->n;
    out.n_rows = sl_dataset_type_rows(ds, type);
    out.row_bytes = sl_type_row_bytes(type);
    out.rows = type->feat;
    return out;
}

struct sl_feature_table sl_dataset_table_of(const struct sl_dataset *ds, uint64_t v)
{
    return sl_dataset_table(ds, ds->typed.n_types ? sl_typed_type_of(&ds->typed, v) : 0);
}

uint64_t sl_dataset_feature_rows(const struct sl_dataset *ds)
{
    uint64_t n = ds->typed.n_types ? 0 : sl_dataset_rows(ds);
    for (uint32_t t = 0; t < ds->typed.n_types; t++)
        n += ds->typed.type[t].feat_dim ? sl_dataset_type_rows(ds, &ds->typed.type[t]) : 0;
    return n;
}

uint64_t sl_dataset_widest_row(const struct sl_dataset *ds)
{
    uint64_t widest = ds->typed.n_types ? 0 : ds->feat_dim * sl_dtype_bytes(ds->feat_dtype);
    for (uint32_t t = 0; t < ds->typed.n_types; t++)
        widest = SL_MAX(widest, sl_type_row_bytes(&ds->typed.type[t]));
    return widest;
}

// ---- checks -------------------------------------------------------------------------------------

int sl_dataset_check_shard(struct sl_dataset *ds)
{
    const struct sl_npy *part = &ds->files->npy[SL_FILE_PART], *row = &ds->files->npy[SL_FILE_ROW];
    if (ds->shard.count == 0)
        return SL_OK;
    const bool is_part = part->head.dtype == SL_DTYPE_U8 || part->head.dtype == SL_DTYPE_U16;
    if (!is_part || part->head.ndim != 1 || part->n_elems != ds->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "%s, wanted uint8 or uint16 and the part of each vertex: num_nodes = "
                       "%" PRIu64 ": " AGAIN,
                       sl_dataset_describe(ds, SL_FILE_PART).text, ds->n_nodes);
    if (row->head.dtype != SL_DTYPE_U32 || row->head.ndim != 1 || row->n_elems != ds->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "%s, wanted uint32 and the row of each vertex among its part's: num_nodes = "
                       "%" PRIu64 ": " AGAIN,
                       sl_dataset_describe(ds, SL_FILE_ROW).text, ds->n_nodes);
    ds->shard.part = part->data;
    ds->shard.part_dtype = part->head.dtype;
    ds->shard.row = row->data;
    return SL_OK;
}

// The vertices from `first` to before `end`, which are all, or a type's. n (count): those of each
// part afterwards.
static int validate_range(const struct sl_dataset *ds, uint32_t first, uint32_t end, uint32_t *n)
{
    const struct sl_shard *s = &ds->shard;
    memset(n, 0, s->count * sizeof *n);
    for (uint32_t v = first; v < end; v++) {
        const struct sl_shard_place at = sl_shard_place(s, v);
        if (at.part >= s->count)
            return sl_fail(SL_EFORMAT,
                           "%s/node_part.npy: element %u is %u, wanted less than shard.count = %u "
                           "of metadata.json: " AGAIN,
                           ds->path, v, at.part, s->count);
        if (at.row != n[at.part])
            return sl_fail(SL_EFORMAT,
                           "%s/node_row.npy: element %u is %u, wanted %u: so many vertices%s "
                           "before it are in its part %u: " AGAIN,
                           ds->path, v, at.row, n[at.part], ds->typed.n_types ? " of its type" : "",
                           at.part);
        n[at.part]++;
    }
    return SL_OK;
}

static int validate_types(const struct sl_dataset *ds, uint32_t *n)
{
    const struct sl_typed *t = &ds->typed;
    for (uint32_t i = 0; i < t->n_types; i++) {
        const struct sl_vertex_type *type = &t->type[i];
        SL_TRY(validate_range(ds, (uint32_t)type->first, (uint32_t)(type->first + type->n), n));
        if (n[ds->shard.index] != type->n_local)
            return sl_fail(SL_EFORMAT,
                           "%s/metadata.json: \"shard.type_rows[%u]\" is %" PRIu64
                           ", wanted %u: so many vertices of type \"%s\" are in part %u of "
                           "node_part.npy: " AGAIN,
                           ds->path, i, type->n_local, n[ds->shard.index], type->name,
                           ds->shard.index);
    }
    return SL_OK;
}

// n (count): memory for a number a part.
static int validate_places(const struct sl_dataset *ds, uint32_t *n)
{
    const struct sl_shard *s = &ds->shard;
    if (ds->typed.n_types > 0)
        return validate_types(ds, n);
    SL_TRY(validate_range(ds, 0, (uint32_t)ds->n_nodes, n));
    if (n[s->index] == s->n_local)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s/metadata.json: \"shard.rows\" is %" PRIu64 ", wanted %u: so many vertices "
                   "are in part %u of node_part.npy: " AGAIN,
                   ds->path, s->n_local, n[s->index], s->index);
}

int sl_dataset_validate_shard(const struct sl_dataset *ds)
{
    const struct sl_npy *part = &ds->files->npy[SL_FILE_PART];
    if (ds->shard.count == 0)
        return SL_OK;
    uint32_t *n = calloc(ds->shard.count, sizeof *n);
    if (!n)
        return sl_fail(SL_ENOMEM, "data set %s: no memory for a number a shard", ds->path);
    int rc = validate_places(ds, n);
    free(n);
    const uint64_t found = XXH3_64bits(part->data, part->head.data_bytes);
    // Another partition may have as many vertices in this part: rows would be other vertices'.
    if (rc == SL_OK && found != ds->files->partition)
        rc = sl_fail(SL_EFORMAT,
                     "%s/node_part.npy: its digest is %016" PRIx64 ", wanted %016" PRIx64
                     " (\"shard.partition\" of metadata.json): it is of another partition: " AGAIN,
                     ds->path, found, ds->files->partition);
    return rc;
}
