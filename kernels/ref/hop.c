// hop.c - what layers ask of a hop's edges: sums of rows, self-loops, the scales of a GCN.
#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

static double row_sum(const struct sl_csr_view *csr, const float *weight, uint32_t i)
{
    double sum = weight ? 0 : csr->indptr[i + 1] - csr->indptr[i];
    for (uint32_t e = csr->indptr[i]; weight && e < csr->indptr[i + 1]; e++)
        sum += (double)weight[e];
    return sum;
}

int sl_ref_row_sums(const struct sl_csr_view *csr, const float *weight, const uint32_t *degrees,
                    enum sl_row_sum what, float *out)
{
    SL_TRY(sl_check_row_sums(csr, weight, degrees, what, out));
    for (uint32_t i = 0; i < csr->n_dst; i++) {
        uint32_t edges = csr->indptr[i + 1] - csr->indptr[i];
        double sum = row_sum(csr, weight, i), full = degrees ? degrees[i] : edges;
        if (what == SL_ROW_SUM)
            out[i] = (float)sum;
        else if (!(sum > 0))
            out[i] = 0.0f;
        else
            out[i] = (float)((what == SL_ROW_INVERSE ? 1.0 : full) / sum);
    }
    return SL_OK;
}

int sl_ref_count_loops(const struct sl_csr_view *csr, uint32_t *n_loops)
{
    SL_TRY(sl_check_count_loops(csr, n_loops));
    *n_loops = 0;
    for (uint32_t i = 0; i < csr->n_dst; i++)
        for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++)
            *n_loops += csr->indices[e] == i;
    return SL_OK;
}

int sl_ref_fix_loops(const struct sl_fix_loops_args *args, struct sl_mempool *ws)
{
    (void)ws;
    SL_TRY(sl_check_fix_loops(args, ws));
    const struct sl_csr_view *csr = &args->csr;
    uint32_t to = 0;
    for (uint32_t i = 0; i < csr->n_dst; i++) {
        double sum = 0;
        args->indptr[i] = to;
        for (uint32_t e = csr->indptr[i]; e < csr->indptr[i + 1]; e++) {
            if (csr->indices[e] == i)
                continue;
            if (args->weight)
                sum += (double)(args->out_weight[to] = args->weight[e]);
            args->indices[to++] = csr->indices[e];
        }
        if (!args->append_self)
            continue;
        uint32_t others = to - args->indptr[i];
        if (args->weight)
            args->out_weight[to] = others ? (float)(sum / others) : 1.0f;
        args->indices[to++] = i;
    }
    args->indptr[csr->n_dst] = to;
    if (args->n_edges)
        *args->n_edges = to;
    return SL_OK;
}

// Of source j: in the whole graph, or how many edges of the hop begin there. Slow, and the formula.
static uint64_t source_degree(const struct sl_gcn_scales_args *args, uint32_t j)
{
    const struct sl_csr_view *csr = &args->csr;
    if (args->degrees)
        return (uint64_t)args->degrees[j] + args->own_loop;
    uint64_t degree = args->own_loop && j < csr->n_dst;
    for (uint32_t e = 0; e < csr->n_edges; e++)
        degree += csr->indices[e] == j;
    return degree;
}

static double inverse_root(uint64_t degree)
{
    return degree ? 1.0 / sqrt((double)degree) : 0.0;
}

int sl_ref_gcn_scales(const struct sl_gcn_scales_args *args, struct sl_mempool *ws)
{
    (void)ws;
    SL_TRY(sl_check_gcn_scales(args, ws));
    const struct sl_csr_view *csr = &args->csr;
    for (uint32_t j = 0; j < csr->n_src; j++)
        args->col_scale[j] = (float)inverse_root(source_degree(args, j));
    for (uint32_t i = 0; i < csr->n_dst; i++) {
        uint64_t in = csr->indptr[i + 1] - csr->indptr[i];
        uint64_t full = args->degrees ? args->degrees[i] : in;
        double sampled = row_sum(csr, args->weight, i), root = inverse_root(full + args->own_loop);
        args->row_scale[i] = (float)(sampled > 0 ? (double)full / sampled * root : 0.0);
        if (args->self_scale)
            args->self_scale[i] = (float)(root * inverse_root(source_degree(args, i)));
    }
    return SL_OK;
}
