#include "partition/parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/data/npy.h"

uint64_t sl_parts_limit(uint64_t n, uint32_t n_parts, double slack)
{
    return SL_MAX((uint64_t)((1 + slack) * (double)n / n_parts), (n + n_parts - 1) / n_parts);
}

uint8_t *sl_parts_training(const struct sl_dataset *ds)
{
    const struct sl_vertex_list *train = &ds->split[SL_SPLIT_TRAIN];
    uint8_t *bits = calloc(ds->n_nodes / 8 + 1, 1);
    for (uint64_t i = 0; bits && i < train->n; i++) {
        const uint32_t v = sl_vertex_at(train, i);
        bits[v / 8] |= (uint8_t)(1u << v % 8);
    }
    return bits;
}

int sl_parts_tick(struct sl_progress *progress, uint64_t v)
{
    if (v % SL_PARTS_TICK != 0 && v + 1 != progress->total)
        return SL_OK;
    sl_progress_set(progress, v + 1);
    return sl_interrupt_check();
}

// ---- how even -----------------------------------------------------------------------------------

static struct sl_parts_spread spread_of(const struct sl_parts_task *t, const uint64_t *n)
{
    struct sl_parts_spread s = {.least = UINT64_MAX};
    for (uint32_t p = 0; p < t->n_parts; p++) {
        s.n += n[p];
        s.fullest = SL_MAX(s.fullest, n[p]);
        s.least = SL_MIN(s.least, n[p]);
        s.n_empty += n[p] == 0;
    }
    s.is_even = s.fullest <= sl_parts_limit(s.n, t->n_parts, t->slack);
    return s;
}

int sl_parts_count(const struct sl_parts_task *t, const uint16_t *part,
                   struct sl_parts_spread *vertices, struct sl_parts_spread *training)
{
    uint64_t *n = calloc(2 * (size_t)t->n_parts, sizeof *n);
    if (!n)
        return sl_fail(SL_ENOMEM, "partition: no memory for two numbers a part");
    uint64_t *n_training = n + t->n_parts;
    for (uint64_t v = 0; v < t->ds->n_nodes; v++) {
        n[part[v]]++;
        n_training[part[v]] += sl_parts_is_training(t->training, v);
    }
    *vertices = spread_of(t, n);
    *training = spread_of(t, n_training);
    free(n);
    return SL_OK;
}

static uint32_t next_empty(const uint64_t *n, uint32_t n_parts, uint32_t p)
{
    while (p < n_parts && n[p] > 0)
        p++;
    return p;
}

int sl_parts_fill_empty(uint32_t n_parts, uint64_t n_nodes, uint16_t *part, uint32_t *n_moved)
{
    uint64_t *n = calloc(n_parts, sizeof *n);
    *n_moved = 0;
    if (!n)
        return sl_fail(SL_ENOMEM, "partition: no memory for a number a part");
    for (uint64_t v = 0; v < n_nodes; v++)
        n[part[v]]++;
    uint32_t empty = next_empty(n, n_parts, 0);
    // What parts have above the mean is enough for all that have nothing.
    for (uint64_t v = n_nodes; v-- > 0 && empty < n_parts;) {
        if (n[part[v]] <= n_nodes / n_parts)
            continue;
        n[part[v]]--;
        n[empty]++;
        part[v] = (uint16_t)empty;
        ++*n_moved;
        empty = next_empty(n, n_parts, empty);
    }
    free(n);
    return SL_OK;
}

// ---- what is cut --------------------------------------------------------------------------------

int sl_parts_cut(const struct sl_parts_task *t, const uint16_t *part, uint64_t *n_cut)
{
    const struct sl_dataset *ds = t->ds;
    uint64_t cut = 0;
    const uint64_t n_lists = sl_dataset_lists(ds);
    sl_progress_begin(t->progress, "cut", n_lists, "lists");
    for (uint64_t list = 0; list < n_lists; list++) {
        const uint64_t v = sl_dataset_list_vertex(ds, list);
        for (uint64_t e = ds->indptr[list]; e < ds->indptr[list + 1]; e++)
            cut += part[sl_dataset_source(ds, e)] != part[v];
        SL_TRY(sl_parts_tick(t->progress, list));
    }
    *n_cut = cut;
    return SL_OK;
}

// ---- the file -----------------------------------------------------------------------------------

static int append_bytes(struct sl_npy_writer *w, uint64_t n_nodes, const uint16_t *part)
{
    uint8_t bytes[4096];
    for (uint64_t v = 0; v < n_nodes;) {
        uint32_t n = 0;
        while (n < sizeof bytes && v < n_nodes)
            bytes[n++] = (uint8_t)part[v++];
        SL_TRY(sl_npy_writer_append(w, bytes, n));
    }
    return SL_OK;
}

int sl_parts_write(const char *path, uint32_t n_parts, uint64_t n_nodes, const uint16_t *part)
{
    struct sl_npy_writer *w;
    const bool narrow = n_parts <= 256;
    SL_TRY(sl_npy_writer_open(path, narrow ? SL_DTYPE_U8 : SL_DTYPE_U16, 1, &n_nodes, &w));
    int rc = narrow ? append_bytes(w, n_nodes, part)
                    : sl_npy_writer_append(w, part, n_nodes * sizeof *part);
    if (rc == SL_OK)
        rc = sl_interrupt_check();
    return sl_npy_writer_close(&w, rc);
}

static bool is_integer(enum sl_dtype t)
{
    return t != SL_DTYPE_F16 && t != SL_DTYPE_F32 && t != SL_DTYPE_F64;
}

static int take(const char *path, const struct sl_npy *npy, uint32_t n_parts, uint64_t n_nodes,
                uint16_t *part)
{
    char shape[128];
    const size_t bytes = sl_dtype_bytes(npy->head.dtype);
    if (npy->head.ndim != 1 || npy->n_elems != n_nodes || !is_integer(npy->head.dtype))
        return sl_fail(SL_EFORMAT,
                       "%s: is %s %s, wanted one dimension of integers, the part of each of "
                       "%" PRIu64 " vertices",
                       path, sl_npy_dtype_name(npy->head.dtype),
                       sl_npy_shape_text(&npy->head, shape, sizeof shape), n_nodes);
    for (uint64_t v = 0; v < n_nodes; v++) {
        uint64_t p = 0; // little-endian; a negative one becomes a large one
        memcpy(&p, (const char *)npy->data + v * bytes, bytes);
        if (p >= n_parts)
            return sl_fail(SL_EFORMAT,
                           "%s: element %" PRIu64 " is no part from 0 to %u: give --parts as it "
                           "was made",
                           path, v, n_parts - 1);
        part[v] = (uint16_t)p;
    }
    return SL_OK;
}

int sl_parts_read(const char *path, uint32_t n_parts, uint64_t n_nodes, uint16_t *part)
{
    struct sl_npy npy;
    int rc = sl_npy_open(path, &npy);
    if (rc == SL_ENOENT)
        return sl_fail(SL_ENOENT, "%s: there is no such file", path);
    SL_TRY(rc);
    rc = take(path, &npy, n_parts, n_nodes, part);
    sl_npy_close(&npy);
    return rc;
}
