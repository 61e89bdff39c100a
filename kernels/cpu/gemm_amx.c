/*
 * Products of f32 matrices whose operands are rounded to bf16, by oneDNN: what processors with AMX
 * compute them with.
 *
 * Problem. Activations and weights are f32 masters; the tiles want 16-bit operands. Converting
 * whole matrices first would cost a trip to memory; making one primitive for every batch's number
 * of rows would cost more than the product, and each would round in an order of its own.
 *
 * Design. k is cut at multiples of TILE_K, n at multiples of TILE_N, and rows of op(a) into strips
 * of a fixed number, the last one with zeros behind its own: there are few shapes, and an element's
 * bits depend neither on the rows beside it nor on who computes it. A strip is converted right
 * before oneDNN's matmul for one thread multiplies it (gemm_primitive.c), so that converted data is
 * read from the cache; results leave through a tile in the cache, one part of k after the other;
 * bias and activation follow while the strip's rows of c are there.
 *
 * Where a is not transposed threads divide its rows, and each converts the tiles of b that a few
 * parts of k need. Where it is (weight gradients) k is a batch's rows and the longest side: it has
 * segments, as many as k and m say, and a thread adds up all of one, the first in c, others in
 * matrices of their own, which are added to c in order. So each part of a and b is converted once,
 * for a second product of the same a (`twin`) too, and the gradient's mask and column sums are
 * computed on the way.
 *
 * What the library has no code for, and what the system does not let it use, is multiplied by
 * gemm_blocks.c. Its emulation of bf16 where there is none is slower than that.
 */
#include "kernels/cpu/cpu_internal.h"

#include <stdatomic.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "kernels/cpu/vector.h"

enum {
    // Rows of a strip. Where a is transposed it has few in all (weight gradients), which threads
    // that outnumber the segments divide: at most so many, a multiple of STEP.
    STRIP_ROWS = 256,
    STRIP_ROWS_TRANS = 128,
    STEP_ROWS_TRANS = 64,
    TILE_N = 1024,
    TILE_K = 1024,
    QUANTUM_K = 32, // what k is padded to when it fits one tile (a row of an AMX tile)
    TAIL_MIN = 64,
    PARTS_AT_ONCE = 2,  // of k, whose tiles of b a thread holds: both terms of most layers
    SEGMENTS_MAX = 16,  // of k; a power of two
    SEGMENT_MIN = 1024, // of k: adding up the results takes one in a hundred
    SUMS_ROWS = 4096,   // of segments' sums
};

_Static_assert(TILE_K % SL_CPU_PROLOGUE_ROWS == 0, "parts of k are whole chunks");

// ---- conversion ---------------------------------------------------------------------------------

// A (rows, cols) part of a matrix with its leading dimension.
struct rectangle {
    struct sl_cpu_rows x;
    uint64_t rows, cols;
};

// To dense (padded_rows, padded_cols) bf16, zeros behind rows and cols.
static void convert(struct rectangle from, uint64_t padded_rows, uint64_t padded_cols, uint16_t *to)
{
    for (uint64_t i = 0; i < from.rows; i++, to += padded_cols) {
        const void *row = sl_cpu_rows_from(from.x, i * from.x.ld).p;
        if (!from.x.bf16) {
            sl_cpu_round_row(row, from.cols, padded_cols, to);
            continue;
        }
        memcpy(to, row, from.cols * sizeof *to);
        memset(to + from.cols, 0, (padded_cols - from.cols) * sizeof *to);
    }
    memset(to, 0, (padded_rows - from.rows) * padded_cols * sizeof *to);
}

// ---- products -----------------------------------------------------------------------------------

struct product {
    const struct sl_cpu_gemm *g;
    int a_trans, b_trans;
    uint64_t strip_rows;
    uint64_t parts_of[2], parts; // of k: of each pair of operands, of both
    // What a thread takes at a time: rows of c, where a is transposed of a segment of k.
    uint64_t range_rows, ranges, segments;
    float *sums[2]; // of the second segment and those behind it: (segments - 1, m, n), and twin's
    const struct sl_cpu_prologue *before; // of a, by whoever converts it; or NULL
    // From the pool, for each thread: PARTS_AT_ONCE tiles of b, strips of a, as many results.
    uint16_t *b_tiles, *a_strips;
    float *c_strips;
    uint64_t a_count, b_count, c_count; // elements: of a thread's strips, of a tile, of a result
    _Atomic int rc;                     // of the last one that failed
};

// What belongs to a thread.
struct scratch {
    uint16_t *b, *a;
    float *c;
};

// A tile of op(b) (k, n), at k0, n0.
struct tile {
    struct sl_cpu_rows b;
    uint64_t n0, n, k0, k, k_padded;
    const struct sl_cpu_operands *of;
};

// The size that a part of k is padded to: few values, so few primitives.
static uint64_t padded_k(uint64_t part, uint64_t whole)
{
    if (whole <= TILE_K)
        return sl_align_up(part, QUANTUM_K);
    return SL_MAX(sl_pow2_at_least(part), (uint64_t)TAIL_MIN);
}

// Part `index` of k, columns n0 on of n.
static struct tile tile_at(const struct product *p, uint64_t index, uint64_t n0, uint64_t n)
{
    const int second = index >= p->parts_of[0];
    const struct sl_cpu_operands *of = &p->g->of[second];
    struct tile t = {.of = of, .b = sl_cpu_rows_b(of), .n0 = n0};
    t.k0 = (index - (second ? p->parts_of[0] : 0)) * TILE_K;
    t.n = SL_MIN(n - n0, (uint64_t)TILE_N);
    t.k = SL_MIN(of->k - t.k0, (uint64_t)TILE_K);
    t.k_padded = padded_k(t.k, of->k);
    return t;
}

static struct rectangle rectangle_of(struct sl_cpu_rows x, int trans, uint64_t row, uint64_t col,
                                     uint64_t rows, uint64_t cols)
{
    if (trans)
        return (struct rectangle){sl_cpu_rows_from(x, col * x.ld + row), cols, rows};
    return (struct rectangle){sl_cpu_rows_from(x, row * x.ld + col), rows, cols};
}

static void convert_b(const struct product *p, const struct tile *t, uint16_t *to)
{
    const struct rectangle from = rectangle_of(t->b, p->b_trans, t->k0, t->n0, t->k, t->n);
    convert(from, p->b_trans ? t->n : t->k_padded, p->b_trans ? t->k_padded : t->n, to);
}

static void convert_a(const struct product *p, const struct tile *t, uint64_t row, uint64_t rows,
                      uint16_t *to)
{
    const struct rectangle from =
        rectangle_of(sl_cpu_rows_a(t->of), p->a_trans, row, t->k0, rows, t->k);
    convert(from, p->a_trans ? t->k_padded : p->strip_rows,
            p->a_trans ? p->strip_rows : t->k_padded, to);
}

// To c, or added to it: one result, and then another one, which may be NULL.
SL_SIMD_VOID(put_rows,
             (const float *restrict from, const float *restrict then, uint64_t rows, uint64_t cols,
              float alpha, int accumulate, float *restrict c, uint64_t ldc),
             (from, then, rows, cols, alpha, accumulate, c, ldc))
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < cols; j++) {
            float v = alpha * from[i * cols + j];
            v = accumulate ? c[i * ldc + j] + v : v;
            c[i * ldc + j] = then ? v + alpha * then[i * cols + j] : v;
        }
}

static struct sl_cpu_bf16_shape shape_of(const struct product *p, const struct tile *t)
{
    return (struct sl_cpu_bf16_shape){.m = (uint32_t)p->strip_rows,
                                      .n = (uint32_t)t->n,
                                      .k = (uint32_t)t->k_padded,
                                      .a_trans = (uint32_t)p->a_trans,
                                      .b_trans = (uint32_t)p->b_trans};
}

// Of one strip, which stands converted at `a`.
static int multiply_strip(const struct product *p, const struct tile *t, const uint16_t *a,
                          const uint16_t *b, float *result)
{
    const struct sl_cpu_bf16_shape shape = shape_of(p, t);
    return sl_cpu_gemm_primitive(&shape, a, b, result);
}

// ---- rows of c ----------------------------------------------------------------------------------

// Adds parts first .. last of k, at most PARTS_AT_ONCE, whose tiles of b are there, to rows of c.
static int add_parts(const struct product *p, const struct scratch *s, uint64_t n0, uint64_t first,
                     uint64_t last, uint64_t row, uint64_t rows)
{
    const struct sl_cpu_gemm *g = p->g;
    struct tile t = {0};
    for (uint64_t i = first; i < last; i++) {
        t = tile_at(p, i, n0, g->n);
        convert_a(p, &t, row, rows, s->a);
        SL_TRY(multiply_strip(p, &t, s->a, s->b + (i - first) * p->b_count,
                              s->c + (i - first) * p->c_count));
    }
    put_rows(s->c, last - first > 1 ? s->c + p->c_count : NULL, rows, t.n, g->alpha,
             first > 0 || g->beta != 0.0f, g->c + row * g->ldc + n0, g->ldc);
    if (g->after && last == p->parts)
        sl_cpu_epilogue_apply(g->after, row, row + rows, (uint32_t)n0, (uint32_t)(n0 + t.n));
    return SL_OK;
}

static int multiply_rows(const struct product *p, const struct scratch *s, uint64_t begin,
                         uint64_t end)
{
    for (uint64_t n0 = 0; n0 < p->g->n; n0 += TILE_N)
        for (uint64_t first = 0; first < p->parts; first += PARTS_AT_ONCE) {
            const uint64_t last = SL_MIN(first + PARTS_AT_ONCE, p->parts);
            for (uint64_t i = first; i < last; i++) {
                const struct tile t = tile_at(p, i, n0, p->g->n);
                convert_b(p, &t, s->b + (i - first) * p->b_count);
            }
            for (uint64_t row = begin; row < end; row += p->strip_rows)
                SL_TRY(add_parts(p, s, n0, first, last, row, SL_MIN(p->strip_rows, end - row)));
        }
    return SL_OK;
}

// ---- segments of k ------------------------------------------------------------------------------

// One of the products of the same a: what they do not share.
struct target {
    struct sl_cpu_rows b;
    uint64_t n;
    float *c;
    uint64_t ldc;
    int accumulate;
};

static struct target target_of(const struct product *p, int twin, uint64_t segment)
{
    const struct sl_cpu_gemm *g = p->g;
    struct target t = {sl_cpu_rows_b(&g->of[0]), g->n, g->c, g->ldc, g->beta != 0.0f};
    if (twin)
        t = (struct target){{g->twin.b, g->twin.ldb, g->twin_bf16},
                            g->twin.n,
                            g->twin.c,
                            g->twin.ldc,
                            g->beta != 0.0f};
    if (segment > 0) {
        t.c = p->sums[twin] + (segment - 1) * g->m * t.n;
        t.ldc = t.n;
        t.accumulate = 0;
    }
    return t;
}

// Part `index` of k of both products, strips of rows begin .. end.
static int add_part(const struct product *p, const struct scratch *s, uint64_t index,
                    struct target targets[2], uint64_t begin, uint64_t end)
{
    const uint64_t most = SL_MAX(targets[0].n, targets[1].n);
    const uint64_t a_count = p->strip_rows * TILE_K;
    for (uint64_t n0 = 0; n0 < most; n0 += TILE_N)
        for (int which = 0; which < 2; which++) {
            const struct target *to = &targets[which];
            if (n0 >= to->n)
                continue;
            struct tile t = tile_at(p, index, n0, to->n);
            t.b = to->b;
            convert_b(p, &t, s->b);
            for (uint64_t row = begin; row < end; row += p->strip_rows) {
                const uint64_t rows = SL_MIN(p->strip_rows, end - row);
                uint16_t *a = s->a + (row - begin) / p->strip_rows * a_count;
                if (n0 == 0 && which == 0)
                    convert_a(p, &t, row, rows, a);
                SL_TRY(multiply_strip(p, &t, a, s->b, s->c));
                put_rows(s->c, NULL, rows, t.n, p->g->alpha, to->accumulate,
                         to->c + row * to->ldc + n0, to->ldc);
            }
        }
    targets[0].accumulate = targets[1].accumulate = 1;
    return SL_OK;
}

static int multiply_segment(const struct product *p, const struct scratch *s, uint64_t segment,
                            uint64_t begin, uint64_t end)
{
    struct target targets[] = {target_of(p, 0, segment), target_of(p, 1, segment)};
    for (uint64_t i = p->parts * segment / p->segments; i < p->parts * (segment + 1) / p->segments;
         i++) {
        if (p->before)
            sl_cpu_prologue_rows(p->before, i * TILE_K, SL_MIN((i + 1) * TILE_K, p->g->of[0].k));
        SL_TRY(add_part(p, s, i, targets, begin, end));
    }
    return SL_OK;
}

static void add_segments(const struct product *p)
{
    for (int twin = 0; twin < 2; twin++) {
        const struct target to = target_of(p, twin, 0);
        struct sl_cpu_segments sums = {p->g->m, to.n, p->segments, p->sums[twin], to.c, to.ldc};
        sl_cpu_gemm_add_segments(&sums);
    }
}

// ---- both ---------------------------------------------------------------------------------------

static void multiply_range(void *context, uint32_t part)
{
    struct product *p = context;
    const uint64_t thread = (uint64_t)sl_cpu_thread_number();
    const struct scratch s = {p->b_tiles + thread * PARTS_AT_ONCE * p->b_count,
                              p->a_strips + thread * p->a_count,
                              p->c_strips + thread * PARTS_AT_ONCE * p->c_count};
    const uint64_t begin = part % p->ranges * p->range_rows;
    const uint64_t end = SL_MIN(begin + p->range_rows, p->g->m);
    const int rc = p->a_trans ? multiply_segment(p, &s, part / p->ranges, begin, end)
                              : multiply_rows(p, &s, begin, end);
    if (rc < 0)
        atomic_store_explicit(&p->rc, rc, memory_order_relaxed);
}

// SL_EUNSUPPORTED when the library has no code for a tile of n columns; those inside are as the
// first, and nothing depends on the number of rows.
static int ask_library(const struct product *p, uint64_t n)
{
    const uint64_t parts[] = {0, p->parts_of[0] - 1, p->parts_of[0] % p->parts, p->parts - 1};
    for (uint32_t i = 0; i < 2 * SL_COUNT_OF(parts) && n > 0; i++) {
        const uint64_t n0 = i % 2 ? (n - 1) / TILE_N * TILE_N : 0;
        const struct tile t = tile_at(p, parts[i / 2], n0, n);
        const struct sl_cpu_bf16_shape shape = shape_of(p, &t);
        int rc = sl_cpu_gemm_primitive_find(&shape);
        if (rc < 0)
            return rc;
    }
    return SL_OK;
}

// Each range converts b for itself, so there are few; several a thread where b is met often.
static void divide_rows(struct product *p)
{
    const uint64_t strips = sl_div_up(p->g->m, p->strip_rows);
    const uint64_t threads = (uint64_t)sl_cpu_threads();
    uint64_t ranges = threads == 1 ? 1 : SL_MAX(threads, SL_MIN(strips / 8, 4 * threads));
    p->segments = 1;
    if (p->a_trans) {
        // Segments change bits: they are what m and k say, so that a product has the same beside
        // another one of the same a. Ranges fill threads up.
        while (p->segments < SEGMENTS_MAX && p->g->of[0].k >= 2 * p->segments * SEGMENT_MIN &&
               (2 * p->segments - 1) * p->g->m <= SUMS_ROWS)
            p->segments *= 2;
        ranges = sl_div_up(threads, p->segments);
    }
    p->range_rows = sl_div_up(strips, SL_MIN(strips, ranges)) * p->strip_rows;
    p->ranges = sl_div_up(p->g->m, p->range_rows);
}

static int allocate(struct product *p, uint64_t threads, struct sl_mempool *ws)
{
    const struct sl_cpu_gemm *g = p->g;
    const uint64_t tile_n = SL_MIN(SL_MAX(g->n, g->twin.n), (uint64_t)TILE_N);
    const uint64_t tile_k =
        sl_align_up(SL_MIN(SL_MAX(g->of[0].k, g->of[1].k), (uint64_t)TILE_K), TAIL_MIN);
    p->b_count = sl_align_up(tile_k * tile_n, 32);
    p->a_count = p->a_trans ? p->range_rows * TILE_K : p->strip_rows * tile_k;
    p->c_count = p->strip_rows * tile_n;
    p->b_tiles = sl_mempool_alloc(ws, threads * PARTS_AT_ONCE * p->b_count * sizeof *p->b_tiles);
    p->a_strips = sl_mempool_alloc(ws, threads * p->a_count * sizeof *p->a_strips);
    p->c_strips = sl_mempool_alloc(ws, threads * PARTS_AT_ONCE * p->c_count * sizeof *p->c_strips);
    const uint64_t floats = (p->segments - 1) * g->m * (g->n + g->twin.n);
    if (floats > 0) {
        p->sums[0] = sl_mempool_alloc(ws, floats * sizeof *p->sums[0]);
        p->sums[1] = p->sums[0] ? p->sums[0] + (p->segments - 1) * g->m * g->n : NULL;
    }
    if (p->b_tiles && p->a_strips && p->c_strips && (floats == 0 || p->sums[0]))
        return SL_OK;
    return sl_fail(SL_ENOMEM, "gemm: no memory for bf16 tiles of %llu x %llu x %llu",
                   (unsigned long long)p->range_rows, (unsigned long long)tile_n,
                   (unsigned long long)tile_k);
}

// A thread that converts all of a part of a does the prologue; otherwise it comes before.
static int place_before(struct product *p, struct sl_mempool *ws)
{
    struct sl_cpu_prologue *before = p->g->before;
    if (before && p->ranges > 1)
        sl_cpu_prologue_pass(before);
    if (!before || p->ranges > 1)
        return SL_OK;
    SL_TRY(sl_cpu_prologue_begin(before, ws));
    p->before = before;
    return SL_OK;
}

int sl_cpu_gemm_strips(const struct sl_cpu_gemm *g, struct sl_mempool *ws)
{
    struct product p = {
        .g = g,
        .a_trans = g->ta == SL_TRANS,
        .b_trans = g->tb == SL_TRANS,
        .strip_rows = STRIP_ROWS,
        .parts_of = {sl_div_up(g->of[0].k, TILE_K), sl_div_up(g->of[1].k, TILE_K)},
    };
    p.parts = p.parts_of[0] + p.parts_of[1];
    if (p.a_trans)
        p.strip_rows = SL_MIN(sl_align_up(g->m, STEP_ROWS_TRANS), (uint64_t)STRIP_ROWS_TRANS);
    int rc = ask_library(&p, g->n);
    if (rc == SL_OK)
        rc = ask_library(&p, g->twin.n);
    if (rc == SL_EUNSUPPORTED)
        return sl_cpu_gemm_blocks(sl_isa_has_bf16() ? SL_CPU_WORDS_PAIRS : SL_CPU_WORDS_ROUNDED, g,
                                  ws);
    SL_TRY(rc);
    divide_rows(&p);
    const uint64_t parts = p.ranges * p.segments;
    SL_TRY(allocate(&p, SL_MIN((uint64_t)sl_cpu_threads(), parts), ws));
    SL_TRY(place_before(&p, ws));
    sl_cpu_parallel_parts((uint32_t)parts, multiply_range, &p);
    add_segments(&p);
    if (p.before)
        sl_cpu_prologue_finish(p.before);
    rc = atomic_load_explicit(&p.rc, memory_order_relaxed);
    return rc == SL_OK ? SL_OK : sl_fail(rc, "gemm: oneDNN failed on bf16 operands");
}
