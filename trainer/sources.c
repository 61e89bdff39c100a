#include "trainer/sources.h"

#include "common/base/bits.h"
#include "common/base/error.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, CHUNK_ROWS = 4096 };

// An edge's source above the edge's position.
static uint64_t pack(uint32_t vertex, uint32_t edge)
{
    return (uint64_t)vertex << 32 | edge;
}

// One stable pass of the sort, by the digit of the vertex from bit `shift` on.
static void sort_digit(const uint64_t *from, uint64_t *to, uint32_t n, int shift)
{
    uint32_t at[DIGITS] = {0};
    for (uint32_t i = 0; i < n; i++)
        at[from[i] >> (32 + shift) & (DIGITS - 1)]++;
    uint32_t sum = 0;
    for (uint32_t d = 0; d < DIGITS; d++) {
        uint32_t count = at[d];
        at[d] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < n; i++)
        to[at[from[i] >> (32 + shift) & (DIGITS - 1)]++] = from[i];
}

// Sorts by vertex; returns the one of both arrays that has the result.
static uint64_t *sort(uint64_t *a, uint64_t *b, uint32_t n, uint32_t n_vertices)
{
    for (int shift = 0; shift < 32 && (n_vertices - 1) >> shift != 0; shift += DIGIT_BITS) {
        sort_digit(a, b, n, shift);
        uint64_t *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

int sl_sources_find(const struct sl_layer_env *env, const struct sl_infer_piece *piece,
                    struct sl_sources *out)
{
    const struct sl_csr_view *csr = &piece->csr;
    uint32_t n_edges = csr->indptr[csr->n_dst];
    *out = (struct sl_sources){.csr = *csr};
    uint32_t *local = sl_layer_words(env, n_edges), *ids = sl_layer_words(env, n_edges);
    uint64_t *a = (uint64_t *)(void *)sl_layer_words(env, 2 * (uint64_t)n_edges);
    uint64_t *b = (uint64_t *)(void *)sl_layer_words(env, 2 * (uint64_t)n_edges);
    if (!local || !ids || !a || !b)
        return SL_ENOMEM;
    for (uint32_t e = 0; e < n_edges; e++)
        a[e] = pack(csr->indices[e], e);
    const uint64_t *sorted = sort(a, b, n_edges, csr->n_src);
    for (uint32_t i = 0; i < n_edges; i++) {
        uint32_t vertex = (uint32_t)(sorted[i] >> 32);
        if (out->n == 0 || ids[out->n - 1] != vertex)
            ids[out->n++] = vertex;
        local[(uint32_t)sorted[i]] = out->n - 1;
    }
    out->ids = ids;
    out->csr.indices = local;
    out->csr.n_src = out->n;
    return SL_OK;
}

uint32_t sl_sources_columns(const struct sl_sources *sources, uint32_t unit, uint32_t n_columns)
{
    uint64_t units = SL_SOURCES_FLOATS / SL_MAX((uint64_t)sources->n * unit, (uint64_t)1);
    return (uint32_t)SL_MIN(SL_MAX(units, (uint64_t)1) * unit, (uint64_t)n_columns);
}

int sl_sources_product(const struct sl_layer_env *env, const struct sl_infer_piece *piece,
                       const struct sl_sources *sources, uint32_t d_in, const float *weight,
                       uint32_t columns, float **chunk, float *y)
{
    if (!*chunk)
        *chunk = sl_layer_floats(env, (uint64_t)SL_MIN(sources->n, (uint32_t)CHUNK_ROWS) * d_in);
    if (!*chunk)
        return SL_ENOMEM;
    for (uint32_t at = 0; at < sources->n; at += CHUNK_ROWS) {
        uint32_t rows = SL_MIN(sources->n - at, (uint32_t)CHUNK_ROWS);
        SL_TRY(env->kernels->gather_rows(piece->x, piece->x_dtype, piece->csr.n_src, d_in,
                                         sources->ids + at, rows, *chunk));
        SL_TRY(env->kernels->gemm(env->precision, SL_NO_TRANS, SL_TRANS, rows, columns, d_in, 1,
                                  *chunk, d_in, weight, d_in, 0, y + (uint64_t)at * columns,
                                  columns, env->pool));
    }
    return SL_OK;
}
