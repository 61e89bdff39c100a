/*
 * What layers ask of a hop's edges: sums of rows, self-loops, the scales of a GCN.
 *
 * Rows are cut into parts of about equal work (parallel.c) and a row is one thread's, so its
 * weights are added up in the order of its edges whatever the number of threads. Taking self-loops
 * out moves what follows: each part's loops are counted first, and a part then writes behind the
 * edges that the parts before it keep.
 */
#include "kernels/kernels_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

enum { EDGE_BYTES = 8, GRAIN_SOURCES = 1 << 14 };

static float row_sum(const struct sl_csr_view *csr, const float *weight, uint32_t i)
{
    uint32_t begin = csr->indptr[i], end = csr->indptr[i + 1];
    if (!weight)
        return (float)(end - begin);
    float sum = 0;
    for (uint32_t e = begin; e < end; e++)
        sum += weight[e];
    return sum;
}

// ---- row_sums -----------------------------------------------------------------------------------

struct sums {
    const struct sl_csr_view *csr;
    const float *weight;
    const uint32_t *degrees;
    enum sl_row_sum what;
    float *out;
};

static void sum_rows(const void *context, uint32_t begin, uint32_t end)
{
    const struct sums *s = context;
    for (uint32_t i = begin; i < end; i++) {
        float sum = row_sum(s->csr, s->weight, i), above = 1.0f;
        if (s->what == SL_ROW_SCALE_UP)
            above = (float)(s->degrees ? s->degrees[i] : s->csr->indptr[i + 1] - s->csr->indptr[i]);
        if (s->what != SL_ROW_SUM)
            sum = sum > 0 ? above / sum : 0.0f;
        s->out[i] = sum;
    }
}

int sl_cpu_row_sums(const struct sl_csr_view *csr, const float *weight, const uint32_t *degrees,
                    enum sl_row_sum what, float *out)
{
    SL_TRY(sl_check_row_sums(csr, weight, degrees, what, out));
    struct sums s = {csr, weight, degrees, what, out};
    sl_cpu_parallel_rows(csr, EDGE_BYTES, sum_rows, &s);
    return SL_OK;
}

// ---- self-loops ---------------------------------------------------------------------------------

SL_SIMD(uint32_t, loops_of_row,
        (const uint32_t *indices, uint32_t begin, uint32_t end, uint32_t row),
        (indices, begin, end, row))
{
    uint32_t n = 0;
    for (uint32_t e = begin; e < end; e++)
        n += indices[e] == row;
    return n;
}

static uint32_t loops_of_part(const struct sl_csr_view *csr, uint32_t part, uint32_t n_parts)
{
    uint32_t n = 0, end = sl_cpu_row_split(csr, part + 1, n_parts);
    for (uint32_t i = sl_cpu_row_split(csr, part, n_parts); i < end; i++)
        n += loops_of_row(csr->indices, csr->indptr[i], csr->indptr[i + 1], i);
    return n;
}

struct count {
    const struct sl_csr_view *csr;
    uint32_t n_parts;
    _Atomic uint32_t n_loops; // relaxed: the region's end orders it
};

static void count_part(void *context, uint32_t part)
{
    struct count *c = context;
    atomic_fetch_add_explicit(&c->n_loops, loops_of_part(c->csr, part, c->n_parts),
                              memory_order_relaxed);
}

int sl_cpu_count_loops(const struct sl_csr_view *csr, uint32_t *n_loops)
{
    SL_TRY(sl_check_count_loops(csr, n_loops));
    struct count c = {.csr = csr, .n_parts = sl_cpu_row_parts(csr, EDGE_BYTES)};
    sl_cpu_parallel_parts(c.n_parts, count_part, &c);
    *n_loops = atomic_load_explicit(&c.n_loops, memory_order_relaxed);
    return SL_OK;
}

struct fix {
    const struct sl_fix_loops_args *args;
    uint32_t n_parts;
    uint32_t *begins; // (n_parts + 1) loops of each part, then where it writes
};

static void fix_count_part(void *context, uint32_t part)
{
    const struct fix *f = context;
    f->begins[part] = loops_of_part(&f->args->csr, part, f->n_parts);
}

// Row i from `to` on; returns where the next one begins.
static uint32_t fix_row(const struct sl_fix_loops_args *args, uint32_t i, uint32_t to)
{
    const struct sl_csr_view *csr = &args->csr;
    const uint32_t begin = to;
    float sum = 0;
    for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++) {
        if (csr->indices[e] == i)
            continue;
        if (args->weight)
            sum += args->out_weight[to] = args->weight[e];
        args->indices[to++] = csr->indices[e];
    }
    if (!args->append_self)
        return to;
    if (args->weight)
        args->out_weight[to] = to > begin ? sum / (float)(to - begin) : 1.0f;
    args->indices[to++] = i;
    return to;
}

static void fix_part(void *context, uint32_t part)
{
    const struct fix *f = context;
    uint32_t to = f->begins[part], end = sl_cpu_row_split(&f->args->csr, part + 1, f->n_parts);
    for (uint32_t i = sl_cpu_row_split(&f->args->csr, part, f->n_parts); i < end; i++) {
        f->args->indptr[i] = to;
        to = fix_row(f->args, i, to);
    }
}

int sl_cpu_fix_loops(const struct sl_fix_loops_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_fix_loops(args, ws));
    const struct sl_csr_view *csr = &args->csr;
    struct fix f = {.args = args, .n_parts = sl_cpu_row_parts(csr, EDGE_BYTES)};
    f.begins = sl_mempool_alloc(ws, ((size_t)f.n_parts + 1) * sizeof *f.begins);
    if (!f.begins)
        return sl_fail(SL_ENOMEM, "fix_loops: no memory for %u counts", f.n_parts);
    sl_cpu_parallel_parts(f.n_parts, fix_count_part, &f);
    uint32_t to = 0;
    for (uint32_t p = 0; p < f.n_parts; p++) {
        uint32_t first = sl_cpu_row_split(csr, p, f.n_parts);
        uint32_t last = sl_cpu_row_split(csr, p + 1, f.n_parts);
        uint32_t kept = csr->indptr[last] - csr->indptr[first] - f.begins[p];
        f.begins[p] = to;
        to += kept + (args->append_self ? last - first : 0);
    }
    sl_cpu_parallel_parts(f.n_parts, fix_part, &f);
    args->indptr[csr->n_dst] = to;
    if (args->n_edges)
        *args->n_edges = to;
    return SL_OK;
}

// ---- gcn_scales ---------------------------------------------------------------------------------

struct scales {
    const struct sl_gcn_scales_args *args;
    const uint32_t *out_degrees; // (n_src) of the hop; NULL: args->degrees are taken
};

static float inverse_root(uint64_t degree)
{
    return degree ? 1.0f / sqrtf((float)degree) : 0.0f;
}

static float source_scale(const struct scales *s, uint32_t j)
{
    const struct sl_gcn_scales_args *args = s->args;
    if (!s->out_degrees)
        return inverse_root((uint64_t)args->degrees[j] + args->own_loop);
    return inverse_root((uint64_t)s->out_degrees[j] + (args->own_loop && j < args->csr.n_dst));
}

static void scale_sources(void *context, uint64_t begin, uint64_t end)
{
    const struct scales *s = context;
    for (uint64_t j = begin; j < end; j++)
        s->args->col_scale[j] = source_scale(s, (uint32_t)j);
}

static void scale_rows(const void *context, uint32_t begin, uint32_t end)
{
    const struct scales *s = context;
    const struct sl_gcn_scales_args *args = s->args;
    const struct sl_csr_view *csr = &args->csr;
    for (uint32_t i = begin; i < end; i++) {
        uint32_t full = args->degrees ? args->degrees[i] : csr->indptr[i + 1] - csr->indptr[i];
        float root = inverse_root((uint64_t)full + args->own_loop);
        float sampled = row_sum(csr, args->weight, i);
        float up = sampled > 0 ? (float)full / sampled : 0.0f;
        args->row_scale[i] = up * root;
        if (args->self_scale)
            args->self_scale[i] = root * source_scale(s, i);
    }
}

int sl_cpu_gcn_scales(const struct sl_gcn_scales_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_gcn_scales(args, ws));
    const struct sl_csr_view *csr = &args->csr;
    struct scales s = {.args = args};
    if (!args->degrees) {
        uint32_t *out = sl_mempool_zalloc(ws, csr->n_src * sizeof *out);
        if (!out)
            return sl_fail(SL_ENOMEM, "gcn_scales: no memory for %u degrees", csr->n_src);
        for (uint32_t e = 0; e < csr->n_edges; e++)
            out[csr->indices[e]]++;
        s.out_degrees = out;
    }
    sl_cpu_parallel_range(csr->n_src, GRAIN_SOURCES, 16, scale_sources, &s);
    sl_cpu_parallel_rows(csr, EDGE_BYTES, scale_rows, &s);
    return SL_OK;
}
