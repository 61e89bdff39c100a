#include "common/data/part_order.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <xxhash.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/npy.h"
#include "common/data/shuffle.h"

// Which part each vertex is in.
struct parts {
    struct sl_npy file; // of a whole data set
    const void *part;   // (n_nodes)
    enum sl_dtype dtype;
};

static int open_file(const struct sl_dataset *ds, struct parts *p)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/node_part.npy", ds->path);
    int rc = sl_npy_open(path, &p->file);
    if (rc == SL_ENOENT)
        return sl_fail(
            SL_EINVAL,
            "order.kind: found parts, and data set %s has no partition: run 'sluice "
            "partition %s --parts N', N being the nodes of the job, or take another order",
            ds->path, ds->path);
    SL_TRY(rc);
    const struct sl_npy_header *h = &p->file.head;
    if ((h->dtype != SL_DTYPE_U8 && h->dtype != SL_DTYPE_U16) || h->ndim != 1 ||
        p->file.n_elems != ds->n_nodes)
        return sl_fail(
            SL_EFORMAT,
            "%s: found %s with %llu elements, wanted uint8 or uint16 and the part of each "
            "vertex: num_nodes = %llu: make it again (sluice partition --force)",
            path, sl_npy_dtype_name(h->dtype), (unsigned long long)p->file.n_elems,
            (unsigned long long)ds->n_nodes);
    p->part = p->file.data;
    p->dtype = h->dtype;
    return SL_OK;
}

static int open_parts(const struct sl_dataset *ds, struct parts *p)
{
    *p = (struct parts){.part = ds->shard.part, .dtype = ds->shard.part_dtype};
    return ds->shard.count ? SL_OK : open_file(ds, p);
}

static uint32_t part_of(const struct parts *p, uint32_t v)
{
    return p->dtype == SL_DTYPE_U8 ? ((const uint8_t *)p->part)[v] : ((const uint16_t *)p->part)[v];
}

// The vertices by part, in the order of the list.
static int sort_vertices(struct sl_part_order *o, const struct parts *p,
                         const struct sl_vertex_list *train)
{
    for (uint64_t i = 0; i < train->n; i++)
        o->n_parts = SL_MAX(o->n_parts, part_of(p, sl_vertex_at(train, i)) + 1);
    o->end = calloc(o->n_parts + 2, sizeof *o->end);
    o->vertex = malloc((train->n + 1) * sizeof *o->vertex);
    o->place = malloc((train->n + 1) * sizeof *o->place);
    if (!o->end || !o->vertex || !o->place)
        return sl_fail(SL_ENOMEM, "no memory for the order of %llu training vertices",
                       (unsigned long long)train->n);
    // Counted two behind, so that each end[p + 1] is the place of the next one while it fills.
    for (uint64_t i = 0; i < train->n; i++)
        o->end[part_of(p, sl_vertex_at(train, i)) + 2]++;
    for (uint32_t i = 0; i < o->n_parts; i++)
        o->end[i + 2] += o->end[i + 1];
    for (uint64_t i = 0; i < train->n; i++) {
        const uint32_t v = sl_vertex_at(train, i);
        o->vertex[o->end[part_of(p, v) + 1]++] = v;
    }
    return SL_OK;
}

// The part with the most left.
static uint32_t fullest(const struct sl_part_order *o, const uint64_t *used)
{
    uint32_t most = 0;
    for (uint32_t p = 1; p < o->n_parts; p++)
        if (o->end[p + 1] - used[p] > o->end[most + 1] - used[most])
            most = p;
    return most;
}

// Which places of the order are whose.
static int deal_places(struct sl_part_order *o, uint64_t n, uint32_t batch_size,
                       uint32_t batches_per_update)
{
    uint64_t *used = malloc((o->n_parts + 1) * sizeof *used);
    if (!used)
        return sl_fail(SL_ENOMEM, "no memory for the order of %u parts", o->n_parts);
    for (uint32_t p = 0; p < o->n_parts; p++)
        used[p] = o->end[p];
    for (uint64_t at = 0; at < n;) {
        uint32_t p = (uint32_t)(at / batch_size % batches_per_update % o->n_parts);
        for (const uint64_t end = SL_MIN((at / batch_size + 1) * batch_size, n); at < end; at++) {
            if (used[p] == o->end[p + 1])
                p = fullest(o, used);
            o->place[used[p]++] = (uint32_t)at;
        }
    }
    free(used);
    return SL_OK;
}

int sl_part_order_open(struct sl_part_order *o, const struct sl_dataset *ds,
                       const struct sl_vertex_list *train, uint32_t batch_size,
                       uint32_t batches_per_update)
{
    struct parts p;
    *o = (struct sl_part_order){0};
    int rc = open_parts(ds, &p);
    if (rc == SL_OK)
        rc = sort_vertices(o, &p, train);
    if (rc == SL_OK)
        rc = deal_places(o, train->n, batch_size, batches_per_update);
    sl_npy_close(&p.file);
    if (rc < 0)
        sl_part_order_close(o);
    return rc;
}

bool sl_part_order_fill(const struct sl_part_order *o, uint64_t seed, uint32_t epoch,
                        const atomic_bool *cancel, uint32_t *out)
{
    for (uint64_t i = 0; i < o->end[o->n_parts]; i++)
        out[o->place[i]] = o->vertex[i];
    for (uint32_t p = 0; p < o->n_parts; p++)
        if (!sl_shuffle_places(seed, epoch, o->place, o->end[p], o->end[p + 1], cancel, out))
            return false;
    return true;
}

void sl_part_order_close(struct sl_part_order *o)
{
    free(o->end);
    free(o->vertex);
    free(o->place);
    *o = (struct sl_part_order){0};
}

int sl_part_order_identity(const struct sl_dataset *ds, uint64_t *out)
{
    struct parts p;
    int rc = open_parts(ds, &p);
    if (rc == SL_OK)
        *out = XXH3_64bits_withSeed(p.part, ds->n_nodes * sl_dtype_bytes(p.dtype),
                                    sl_dataset_identity(ds));
    sl_npy_close(&p.file);
    return rc;
}
