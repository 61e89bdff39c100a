#include "trainer/model/sources.h"

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

int sl_sources_number(const struct sl_layer_env *env, const uint32_t *vertices, uint64_t n,
                      uint32_t n_vertices, struct sl_source_numbering *out)
{
    if (n > UINT32_MAX)
        return sl_fail(SL_EUNSUPPORTED, "inference: a piece of %llu edges, wanted less than 2^32",
                       (unsigned long long)n);
    uint32_t *local = sl_layer_note(env, n * sizeof *local);
    uint32_t *ids = sl_layer_note(env, n * sizeof *ids), count = 0;
    uint64_t *a = sl_layer_note(env, n * sizeof *a), *b = sl_layer_note(env, n * sizeof *b);
    if (!local || !ids || !a || !b)
        return SL_ENOMEM;
    for (uint32_t e = 0; e < n; e++)
        a[e] = pack(vertices[e], e);
    const uint64_t *sorted = sort(a, b, (uint32_t)n, n_vertices);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t vertex = (uint32_t)(sorted[i] >> 32);
        if (count == 0 || ids[count - 1] != vertex)
            ids[count++] = vertex;
        local[(uint32_t)sorted[i]] = count - 1;
    }
    *out = (struct sl_source_numbering){.n = count, .ids = ids, .local = local};
    return SL_OK;
}

// *out (n, the device's): the rows of the piece's x that are these vertices', which it has.
static int rows_of(const struct sl_layer_env *env, const struct sl_infer_piece *piece,
                   const struct sl_source_numbering *sources, const uint32_t **out)
{
    const uint32_t *rows = sources->ids;
    if (piece->x_ids) {
        uint32_t *places = sl_layer_note(env, sources->n * sizeof *places), at = 0;
        if (!places)
            return SL_ENOMEM;
        for (uint32_t i = 0; i < sources->n; i++) { // both ascend
            while (piece->x_ids[at] != sources->ids[i])
                at++;
            places[i] = at;
        }
        rows = places;
    }
    return sl_layer_upload_words(env, rows, sources->n, out);
}

int sl_sources_find(const struct sl_layer_env *env, const struct sl_infer_piece *piece,
                    struct sl_sources *out)
{
    struct sl_source_numbering sources;
    const struct sl_csr_view *lists = &piece->lists;
    SL_TRY(sl_sources_number(env, lists->indices, lists->n_edges, lists->n_src, &sources));
    *out = (struct sl_sources){.n = sources.n, .csr = piece->csr, .lists = *lists};
    out->csr.n_src = out->lists.n_src = sources.n;
    out->lists.indices = sources.local;
    SL_TRY(sl_layer_upload_words(env, sources.local, lists->n_edges, &out->csr.indices));
    return rows_of(env, piece, &sources, &out->rows);
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
    const struct sl_rounded_operand w = sl_rounded_weights_find(env->rounded, weight, d_in);
    for (uint32_t at = 0; at < sources->n; at += CHUNK_ROWS) {
        uint32_t rows = SL_MIN(sources->n - at, (uint32_t)CHUNK_ROWS);
        SL_TRY(env->kernels->gather_rows(piece->x, piece->x_dtype, piece->csr.n_src, d_in,
                                         sources->rows + at, rows, *chunk));
        SL_TRY(env->kernels->gemm(env->precision | (w.bf16 ? SL_PRECISION_B : 0), SL_NO_TRANS,
                                  SL_TRANS, rows, columns, d_in, 1, *chunk, d_in, w.p, w.ld, 0,
                                  y + (uint64_t)at * columns, columns, env->pool));
    }
    return SL_OK;
}
