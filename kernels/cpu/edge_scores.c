/*
 * The scores of attention that looks at both rows of an edge: a head's vector times the leaky relu
 * of their sum, and the gradients of the rows and of the vectors.
 *
 * Problem. As in heads.c a row is read for every edge, from anywhere; but no product can be taken
 * out of the sum over a head's columns, since the kink lies between the sum of the rows and the
 * head's vector.
 *
 * Design. Vectors lie within a head and have 8 columns, so that heads of 8 columns have them too.
 * Those behind a head's last whole vector are one more that ends at its last column, with the lanes
 * that were there before left out. Forward goes edge by edge: the row's own columns and the heads'
 * vectors stay in the first-level cache, the other row is asked for some edges ahead. Backward goes
 * chunk by chunk of a head's columns, 32 at most, with sums in registers over all edges of the row.
 * Narrower heads are plain loops.
 *
 * Invariant. A sum's order depends on the shapes alone; threads own whole rows.
 */
#include "kernels/kernels_internal.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum {
    LANES = SL_LANES_8,
    LINE = 16, // floats
    CHUNK_VECTORS = 4,
    PREFETCH_FLOATS = 12 * 64, // of other rows, ahead
};

static const sl_v8_u32 lane_numbers = {0, 1, 2, 3, 4, 5, 6, 7};

// 1 or the slope, for the sign of each lane.
SL_INLINE void slopes_at(const sl_v8 *x, float negative_slope, sl_v8 *out)
{
    const sl_v8_u32 positive = (sl_v8_u32)(*x > 0.0f);
    const sl_v8 one = (sl_v8){0} + 1.0f, slope = (sl_v8){0} + negative_slope;
    *out = (sl_v8)((positive & (sl_v8_u32)one) | (~positive & (sl_v8_u32)slope));
}

// Of one number: looked up, since a branch on the sign goes the wrong way half the time.
SL_INLINE float slope_at(float x, float negative_slope)
{
    const float slopes[] = {negative_slope, 1.0f};
    return slopes[x > 0.0f];
}

// How many edges ahead rows of this width are asked for.
SL_INLINE uint32_t edges_ahead(uint64_t width)
{
    return (uint32_t)SL_MAX(PREFETCH_FLOATS / SL_MAX(width, (uint64_t)1), (uint64_t)1);
}

// ---- forward ------------------------------------------------------------------------------------

// att * leaky(own + other) of 8 columns.
SL_INLINE void add_terms(const float *att, const float *own, const float *other, float slope,
                         sl_v8 *terms)
{
    sl_v8 x = *(const sl_v8_at *)own + *(const sl_v8_at *)other, slopes;
    slopes_at(&x, slope, &slopes);
    *terms = x * slopes * *(const sl_v8_at *)att;
}

SL_INLINE float score_wide(const float *att, const float *own, const float *other, uint32_t dim,
                           float slope, const sl_v8_u32 *is_rest)
{
    sl_v8 sum = {0}, terms;
    uint32_t whole = dim - dim % LANES;
    for (uint32_t c = 0; c < whole; c += LANES) {
        add_terms(att + c, own + c, other + c, slope, &terms);
        sum += terms;
    }
    if (whole < dim) {
        uint32_t c = dim - LANES;
        add_terms(att + c, own + c, other + c, slope, &terms);
        sum += (sl_v8)(*is_rest & (sl_v8_u32)terms);
    }
    sum += __builtin_shuffle(sum, (sl_v8_u32){4, 5, 6, 7, 0, 1, 2, 3});
    sum += __builtin_shuffle(sum, (sl_v8_u32){2, 3, 0, 1, 6, 7, 4, 5});
    return sum[0] + sum[1];
}

SL_INLINE float score_narrow(const float *att, const float *own, const float *other, uint32_t dim,
                             float slope)
{
    float sum = 0.0f;
    for (uint32_t c = 0; c < dim; c++) {
        float x = own[c] + other[c];
        sum += x * slope_at(x, slope) * att[c];
    }
    return sum;
}

SL_CPU_ROWS(score_rows)
{
    const struct sl_edge_scores_args *args = context;
    const struct sl_csr_view *csr = &args->csr;
    const uint32_t heads = args->heads, dim = args->dim;
    const uint64_t width = (uint64_t)heads * dim;
    const uint32_t last = csr->indptr[csr->n_dst] - 1; // unused when there is no edge
    const uint32_t ahead = edges_ahead(width);
    const sl_v8_u32 is_rest = (sl_v8_u32)(lane_numbers >= LANES - dim % LANES);
    for (uint32_t row = begin; row < end; row++)
        for (uint32_t e = csr->indptr[row]; e < csr->indptr[row + 1]; e++) {
            const float *own = args->dst + row * width;
            const float *other = args->src + csr->indices[e] * width;
            const float *next = args->src + csr->indices[SL_MIN(e + ahead, last)] * width;
            for (uint64_t c = 0; c < width; c += LINE)
                __builtin_prefetch(next + c, 0, 3);
            float *score = args->score + (uint64_t)e * heads;
            for (uint32_t h = 0; h < heads; h++) {
                uint64_t c = (uint64_t)h * dim;
                score[h] = dim >= LANES ? score_wide(args->att + c, own + c, other + c, dim,
                                                     args->negative_slope, &is_rest)
                                        : score_narrow(args->att + c, own + c, other + c, dim,
                                                       args->negative_slope);
            }
        }
}

int sl_cpu_edge_scores(const struct sl_edge_scores_args *args)
{
    SL_TRY(sl_check_edge_scores(args));
    sl_cpu_parallel_rows(&args->csr, (uint64_t)args->heads * args->dim * sizeof(float), score_rows,
                         args);
    return SL_OK;
}

// ---- backward -----------------------------------------------------------------------------------

// Columns of one head of a row.
struct place {
    uint32_t row, head;
    uint64_t column;
};

// down of 8 columns, of which those in `fresh` have not been there yet.
SL_INLINE void finish_vector(const struct sl_edge_scores_grad_args *args, uint64_t at,
                             const float *att, const sl_v8 *slopes, const sl_v8_u32 *fresh)
{
    sl_v8 down = *slopes * *(const sl_v8_at *)att;
    if (args->beta != 0.0f)
        down = *(const sl_v8_at *)(args->down + at) + (sl_v8)(*fresh & (sl_v8_u32)down);
    *(sl_v8_at *)(args->down + at) = down;
}

// 8 * n_vectors columns from `place` on; n_vectors and with_att are constants.
SL_INLINE void grad_chunk(const struct sl_edge_scores_grad_args *args, const struct place *place,
                          int n_vectors, int with_att, const sl_v8_u32 *fresh)
{
    const uint32_t *indices = args->csr.indices;
    const uint64_t heads = args->heads, width = heads * args->dim, column = place->column;
    const uint32_t begin = args->csr.indptr[place->row], end = args->csr.indptr[place->row + 1];
    const uint32_t last = args->csr.indptr[args->csr.n_dst] - 1; // unused when there is no edge
    const uint32_t ahead = edges_ahead((uint64_t)n_vectors * LANES);
    const float *own = args->own + place->row * width + column;
    sl_v8 slopes[CHUNK_VECTORS], sums[CHUNK_VECTORS];

#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++)
        slopes[v] = sums[v] = (sl_v8){0};
    for (uint32_t e = begin; e < end; e++) {
        const float *next = args->other + indices[SL_MIN(e + ahead, last)] * width + column;
#pragma GCC unroll 2
        for (int v = 0; v < n_vectors; v += LINE / LANES)
            __builtin_prefetch(next + v * LANES, 0, 3);
        const float *other = args->other + indices[e] * width + column;
        const float weight = args->dscore[(args->edge ? args->edge[e] : e) * heads + place->head];
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            sl_v8 x = *(const sl_v8_at *)(own + v * LANES) + *(const sl_v8_at *)(other + v * LANES);
            sl_v8 part;
            slopes_at(&x, args->negative_slope, &part);
            part *= weight;
            slopes[v] += part;
            if (with_att)
                sums[v] += part * x;
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++) {
        uint64_t at = place->row * width + column + v * LANES;
        finish_vector(args, at, args->att + column + v * LANES, &slopes[v], fresh);
        if (with_att)
            *(sl_v8_at *)(args->datt + at) = sums[v];
    }
}

SL_INLINE void grad_narrow(const struct sl_edge_scores_grad_args *args, const struct place *place)
{
    const uint64_t heads = args->heads, width = heads * args->dim, column = place->column;
    const uint64_t at = place->row * width + column;
    float slopes[LANES] = {0}, sums[LANES] = {0};
    for (uint32_t e = args->csr.indptr[place->row]; e < args->csr.indptr[place->row + 1]; e++) {
        const float *other = args->other + args->csr.indices[e] * width + column;
        float weight = args->dscore[(args->edge ? args->edge[e] : e) * heads + place->head];
        for (uint32_t c = 0; c < args->dim; c++) {
            float x = args->own[at + c] + other[c];
            float part = weight * slope_at(x, args->negative_slope);
            slopes[c] += part;
            sums[c] += part * x;
        }
    }
    for (uint32_t c = 0; c < args->dim; c++) {
        args->down[at + c] =
            (args->beta != 0.0f ? args->down[at + c] : 0.0f) + slopes[c] * args->att[column + c];
        if (args->datt)
            args->datt[at + c] = sums[c];
    }
}

SL_INLINE void grad_head(const struct sl_edge_scores_grad_args *args, struct place place,
                         int with_att)
{
    const uint64_t end = place.column + args->dim;
    const sl_v8_u32 all = ~(sl_v8_u32){0};
    if (args->dim < LANES) {
        grad_narrow(args, &place);
        return;
    }
    for (; place.column + 4 * LANES <= end; place.column += 4 * LANES)
        grad_chunk(args, &place, 4, with_att, &all);
    for (; place.column + 2 * LANES <= end; place.column += 2 * LANES)
        grad_chunk(args, &place, 2, with_att, &all);
    for (; place.column + LANES <= end; place.column += LANES)
        grad_chunk(args, &place, 1, with_att, &all);
    if (place.column == end)
        return;
    const sl_v8_u32 fresh = (sl_v8_u32)(lane_numbers >= LANES - args->dim % LANES);
    place.column = end - LANES;
    grad_chunk(args, &place, 1, with_att, &fresh);
}

SL_INLINE void grad_rows(const struct sl_edge_scores_grad_args *args, uint32_t begin, uint32_t end,
                         int with_att)
{
    for (uint32_t row = begin; row < end; row++)
        for (uint32_t h = 0; h < args->heads; h++)
            grad_head(args, (struct place){row, h, (uint64_t)h * args->dim}, with_att);
}

SL_CPU_ROWS(grad_rows_plain)
{
    grad_rows(context, begin, end, 0);
}

SL_CPU_ROWS(grad_rows_att)
{
    grad_rows(context, begin, end, 1);
}

int sl_cpu_edge_scores_backward(const struct sl_edge_scores_grad_args *args)
{
    SL_TRY(sl_check_edge_scores_backward(args));
    sl_cpu_parallel_rows(&args->csr, (uint64_t)args->heads * args->dim * sizeof(float),
                         args->datt ? grad_rows_att : grad_rows_plain, args);
    return SL_OK;
}
