/*
 * The two products of attention with the rows of features: aggregate_heads, a weighted sum of rows
 * with a weight a head, and edge_dot, its gradient in the weights.
 *
 * Problem. As in aggregate.c a row of 0.2 to 4 KiB is read for every edge, from anywhere, and must
 * be in flight before it is asked for; but a vector of sixteen columns now has its own factor, and
 * where the width of a head is no multiple of sixteen, several.
 *
 * Design of aggregate_heads. Chunks of 64 columns, prefetch and the overlapping last chunk are
 * those of aggregate.c, where the reasons are. The factors of a vector of columns are made in one
 * of three ways, chosen by the width of a head alone:
 *
 *     ONE    every vector lies in one head (width a multiple of 16, or one head): a broadcast
 *     TWO    a vector touches at most two heads (width 8, or above 16): two broadcasts under a mask
 *     MANY   narrower heads: sixteen table look-ups
 *
 * Which heads, and the mask, are found once a chunk of a row, by counting columns.
 *
 * Design of edge_dot. The other row, a[i], stays in the first-level cache for all edges of row i.
 * The products of a head are summed in lanes and the lanes in a tree; heads of 8 columns go two to
 * a vector and the tree stops a level early. The columns behind a head's last whole vector are one
 * more vector that ends at its last column, with the lanes that were there before cleared.
 *
 * Invariant. A sum's order depends on the shapes alone; threads own whole rows.
 */
#include "kernels/kernels_internal.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/vector.h"

enum {
    CHUNK_VECTORS = 4,
    CHUNK = CHUNK_VECTORS * SL_LANES, // columns
    PREFETCH_EDGES = 12,              // of a chunk's columns
};

enum kind { ONE, TWO, MANY };

// Of the two halves of a vector of columns, which are 8 lanes each: vector.h says why.
enum { HALVES = 2, HALF = SL_LANES_8 };
static const sl_v8_u32 lane_numbers[HALVES] = {{0, 1, 2, 3, 4, 5, 6, 7},
                                               {8, 9, 10, 11, 12, 13, 14, 15}};

// ---- aggregate_heads ----------------------------------------------------------------------------

// A column: its head, and its place within the head.
struct place {
    uint32_t head, at;
};

// Where the factors of one vector of columns are.
struct spot {
    uint32_t first, second;     // heads
    sl_v8_u32 in_first[HALVES]; // TWO: mask of the lanes of the first head
    uint32_t heads[SL_LANES];   // MANY
};

// The place of `n` columns further on.
SL_INLINE void step(struct place *place, uint32_t n, uint32_t dim)
{
    place->at += n;
    while (place->at >= dim) {
        place->at -= dim;
        place->head++;
    }
}

// Of n_vectors from column `first` on.
SL_INLINE void find_spots(const struct sl_aggregate_heads_args *args, enum kind kind,
                          uint32_t first, int n_vectors, struct spot *spots)
{
    struct place place = {first / args->dim, first % args->dim};
#pragma GCC unroll 4
    for (int v = 0; v < n_vectors; v++) {
        struct spot *spot = &spots[v];
        spot->first = place.head;
        if (kind == TWO) {
            spot->second = SL_MIN(place.head + 1, args->heads - 1); // the same where it is last
            const uint32_t n = SL_MIN(args->dim - place.at, SL_LANES);
            for (int half = 0; half < HALVES; half++)
                spot->in_first[half] = (sl_v8_u32)(lane_numbers[half] < n);
        }
        if (kind == MANY) {
            for (int l = 0; l < SL_LANES; l++) {
                spot->heads[l] = place.head;
                step(&place, 1, args->dim);
            }
        } else {
            step(&place, SL_LANES, args->dim);
        }
    }
}

// The factors of half a vector of columns, from the weights of an edge.
SL_INLINE void load_factors(enum kind kind, const float *weight, const struct spot *spot, int half,
                            sl_v8 *out)
{
    if (kind == ONE) {
        *out = (sl_v8){0} + weight[spot->first];
    } else if (kind == TWO) {
        const sl_v8 first = (sl_v8){0} + weight[spot->first];
        const sl_v8 second = (sl_v8){0} + weight[spot->second];
        const sl_v8_u32 mask = spot->in_first[half];
        *out = (sl_v8)((mask & (sl_v8_u32)first) | (~mask & (sl_v8_u32)second));
    } else {
        float lanes[HALF];
        for (int l = 0; l < HALF; l++)
            lanes[l] = weight[spot->heads[half * HALF + l]];
        memcpy(out, lanes, sizeof lanes);
    }
}

// Columns first .. first + 16 * n_vectors of destination `row`; n_vectors is a constant up to 4.
SL_INLINE void heads_chunk(const struct sl_aggregate_heads_args *args, enum kind kind, uint32_t row,
                           uint32_t first, const struct spot *spots, int n_vectors)
{
    const uint32_t *indices = args->csr.indices;
    uint64_t heads = args->heads, width = heads * args->dim;
    uint32_t begin = args->csr.indptr[row], end = args->csr.indptr[row + 1];
    uint32_t last = args->csr.indptr[args->csr.n_dst] - 1; // unused when there is no edge
    sl_v8 sum[HALVES * CHUNK_VECTORS];

#pragma GCC unroll 8
    for (int v = 0; v < HALVES * n_vectors; v++)
        sum[v] = (sl_v8){0};
    for (uint32_t e = begin; e < end; e++) {
        uint32_t ahead = SL_MIN(e + PREFETCH_EDGES, last);
        const float *next = args->x + indices[ahead] * width + first;
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++)
            __builtin_prefetch(next + v * SL_LANES, 0, 3);
        if (args->edge)
            __builtin_prefetch(args->weight + args->edge[ahead] * heads, 0, 3);
        const float *weight = args->weight + (args->edge ? args->edge[e] : e) * heads;
        const float *x = args->x + indices[e] * width + first;
#pragma GCC unroll 8
        for (int v = 0; v < HALVES * n_vectors; v++) {
            sl_v8 factors;
            load_factors(kind, weight, &spots[v / HALVES], v % HALVES, &factors);
            sum[v] += factors * *(const sl_v8_at *)(x + v * HALF);
        }
    }
    float *y = args->y + row * width + first;
#pragma GCC unroll 8
    for (int v = 0; v < HALVES * n_vectors; v++)
        *(sl_v8_at *)(y + v * HALF) = sum[v];
}

// The same for a number of vectors that is not a constant.
SL_INLINE void heads_wide(const struct sl_aggregate_heads_args *args, enum kind kind, uint32_t row,
                          uint32_t first, const struct spot *spots, uint32_t n_vectors)
{
    switch (n_vectors) {
    case 1: heads_chunk(args, kind, row, first, spots, 1); break;
    case 2: heads_chunk(args, kind, row, first, spots, 2); break;
    case 3: heads_chunk(args, kind, row, first, spots, 3); break;
    case 4: heads_chunk(args, kind, row, first, spots, 4); break;
    }
}

// Rows of fewer columns than one vector has.
SL_INLINE void heads_narrow(const struct sl_aggregate_heads_args *args, uint32_t begin,
                            uint32_t end)
{
    uint64_t heads = args->heads, width = heads * args->dim;
    for (uint32_t row = begin; row < end; row++) {
        float sum[SL_LANES] = {0};
        for (uint32_t e = args->csr.indptr[row]; e < args->csr.indptr[row + 1]; e++) {
            const float *weight = args->weight + (args->edge ? args->edge[e] : e) * heads;
            const float *x = args->x + args->csr.indices[e] * width;
            uint32_t c = 0;
            for (uint32_t h = 0; h < heads; h++)
                for (uint32_t k = 0; k < args->dim; k++, c++)
                    sum[c] += weight[h] * x[c];
        }
        memcpy(args->y + row * width, sum, width * sizeof *sum);
    }
}

SL_INLINE void heads_rows(const struct sl_aggregate_heads_args *args, enum kind kind,
                          uint32_t begin, uint32_t end)
{
    uint32_t width = args->heads * args->dim;
    if (width < SL_LANES) {
        heads_narrow(args, begin, end);
        return;
    }
    struct spot spots[CHUNK_VECTORS] = {{0}};
    uint32_t found = UINT32_MAX; // the column that they begin at
    for (uint32_t row = begin; row < end; row++) {
        for (struct sl_stretch at = {0}; at.end < width;) {
            at = sl_next_stretch(at.end, width, CHUNK);
            const uint32_t n_vectors = (at.end - at.first) / SL_LANES;
            if (found != at.first)
                find_spots(args, kind, at.first, (int)n_vectors, spots);
            found = at.first;
            heads_wide(args, kind, row, at.first, spots, n_vectors);
        }
    }
}

#define VARIANT(name, kind)                                                                        \
    SL_CPU_ROWS(rows_##name)                                                                       \
    {                                                                                              \
        heads_rows(context, kind, begin, end);                                                     \
    }
VARIANT(one, ONE)
VARIANT(two, TWO)
VARIANT(many, MANY)

static sl_cpu_rows_fn *const variants[] = {[ONE] = rows_one, [TWO] = rows_two, [MANY] = rows_many};

int sl_cpu_aggregate_heads(const struct sl_aggregate_heads_args *args)
{
    SL_TRY(sl_check_aggregate_heads(args));
    enum kind kind = MANY;
    if (args->heads == 1 || args->dim % SL_LANES == 0)
        kind = ONE;
    else if (args->dim == SL_LANES / 2 || args->dim > SL_LANES)
        kind = TWO;
    sl_cpu_parallel_rows(&args->csr, (uint64_t)args->heads * args->dim * sizeof(float),
                         variants[kind], args);
    return SL_OK;
}

// ---- edge_dot -----------------------------------------------------------------------------------

struct dot {
    const struct sl_csr_view *csr;
    uint32_t heads, dim;
    const float *a, *b;
    float *out;
};

// Adds the lanes of each half, in a tree: lane 0 ends as the sum of the lower half, lane 4 as that
// of the upper one.
SL_INLINE void sum_halves(const sl_v8 half[HALVES], sl_v8 *sum)
{
    *sum = __builtin_shuffle(half[0], half[1], (sl_v8_u32){0, 1, 2, 3, 8, 9, 10, 11}) +
           __builtin_shuffle(half[0], half[1], (sl_v8_u32){4, 5, 6, 7, 12, 13, 14, 15});
    *sum += __builtin_shuffle(*sum, (sl_v8_u32){2, 3, 0, 1, 6, 7, 4, 5});
    *sum += __builtin_shuffle(*sum, (sl_v8_u32){1, 0, 3, 2, 5, 4, 7, 6});
}

// <a, b> over `dim` >= 16 columns, of which `rest` lie behind the last whole vector; what is at the
// same place of `next` is fetched.
SL_INLINE float dot_wide(const float *a, const float *b, const float *next, uint32_t dim,
                         const sl_v8_u32 is_rest[HALVES], uint32_t rest)
{
    sl_v8 halves[HALVES] = {{0}}, sum;
    uint32_t whole = dim - rest;
    for (uint32_t c = 0; c < whole; c += SL_LANES) {
        __builtin_prefetch(next + c, 0, 3);
#pragma GCC unroll 2
        for (int h = 0; h < HALVES; h++)
            halves[h] +=
                *(const sl_v8_at *)(a + c + h * HALF) * *(const sl_v8_at *)(b + c + h * HALF);
    }
    if (rest) {
        uint32_t c = dim - SL_LANES;
        __builtin_prefetch(next + c, 0, 3);
#pragma GCC unroll 2
        for (int h = 0; h < HALVES; h++) {
            sl_v8 product =
                *(const sl_v8_at *)(a + c + h * HALF) * *(const sl_v8_at *)(b + c + h * HALF);
            halves[h] += (sl_v8)(is_rest[h] & (sl_v8_u32)product);
        }
    }
    sum_halves(halves, &sum);
    return sum[0] + sum[HALF / 2];
}

SL_INLINE void dot_heads(const struct dot *dot, const float *a, const float *b, const float *next,
                         const sl_v8_u32 is_rest[HALVES], float *out)
{
    uint32_t dim = dot->dim;
    if (dim >= SL_LANES) {
        for (uint32_t h = 0; h < dot->heads; h++, a += dim, b += dim, next += dim)
            out[h] = dot_wide(a, b, next, dim, is_rest, dim % SL_LANES);
        return;
    }
    uint32_t h = 0;
    for (; dim == SL_LANES / 2 && h + 1 < dot->heads; h += 2) {
        __builtin_prefetch(next + h * dim, 0, 3);
        sl_v8 halves[HALVES], sum;
#pragma GCC unroll 2
        for (int i = 0; i < HALVES; i++)
            halves[i] = *(const sl_v8_at *)(a + h * dim + i * HALF) *
                        *(const sl_v8_at *)(b + h * dim + i * HALF);
        sum_halves(halves, &sum);
        out[h] = sum[0];
        out[h + 1] = sum[HALF / 2];
    }
    for (; h < dot->heads; h++) {
        __builtin_prefetch(next + h * dim, 0, 3);
        float sum = 0.0f;
        for (uint32_t c = h * dim; c < (h + 1) * dim; c++)
            sum += a[c] * b[c];
        out[h] = sum;
    }
}

SL_CPU_ROWS(dot_rows)
{
    const struct dot *dot = context;
    const struct sl_csr_view *csr = dot->csr;
    uint64_t heads = dot->heads, width = heads * dot->dim;
    uint32_t last = csr->indptr[csr->n_dst] - 1; // unused when there is no edge
    // As many lines in flight as the chunks of aggregate have.
    uint32_t ahead = (uint32_t)SL_MAX((uint64_t)PREFETCH_EDGES * CHUNK / SL_MAX(width, CHUNK), 1);
    sl_v8_u32 is_rest[HALVES];
    for (int h = 0; h < HALVES; h++)
        is_rest[h] = (sl_v8_u32)(lane_numbers[h] >= SL_LANES - dot->dim % SL_LANES);
    for (uint32_t row = begin; row < end; row++)
        for (uint32_t e = csr->indptr[row]; e < csr->indptr[row + 1]; e++)
            dot_heads(dot, dot->a + row * width, dot->b + csr->indices[e] * width,
                      dot->b + csr->indices[SL_MIN(e + ahead, last)] * width, is_rest,
                      dot->out + e * heads);
}

int sl_cpu_edge_dot(const struct sl_csr_view *csr, uint32_t heads, uint32_t dim, const float *a,
                    const float *b, float *out)
{
    SL_TRY(sl_check_edge_dot(csr, heads, dim, a, b, out));
    struct dot dot = {.csr = csr, .heads = heads, .dim = dim, .a = a, .b = b, .out = out};
    sl_cpu_parallel_rows(csr, (uint64_t)heads * dim * sizeof(float), dot_rows, &dot);
    return SL_OK;
}
