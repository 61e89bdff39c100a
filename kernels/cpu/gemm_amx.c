/*
 * Products of f32 matrices whose operands are rounded to bf16, by oneDNN: what processors with AMX
 * compute them with.
 *
 * Problem. Activations and weights are f32 masters; the tiles want 16-bit operands. Converting
 * whole matrices first would cost a trip to memory; making one primitive for every batch's number
 * of rows would cost more than the product, and each would round in an order of its own.
 *
 * Design. Rows of op(a) are cut into strips, and a thread takes a range of them: it converts a tile
 * of op(b), (TILE_K, TILE_N), then one strip after the other just before it is multiplied by
 * oneDNN's matmul for one thread (gemm_primitive.c), so converted data is read from the cache. A
 * strip has always the same number of rows, the last one zeros behind its own, and n and k are cut
 * at fixed places: an element's bits depend neither on the rows beside it nor on who computes it.
 * Results leave through a tile in the cache, one part of k after the other. Threads share nothing
 * and never meet before the end.
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
    // Rows of a strip: many for the weights to be read for, few where a is transposed and has few
    // rows in all (weight gradients), which the threads divide among themselves.
    STRIP_ROWS = 256,
    STRIP_ROWS_TRANS = 64,
    TILE_N = 1024,
    TILE_K = 1024,
    QUANTUM_K = 32, // what k is padded to when it fits one tile (a row of an AMX tile)
    TAIL_MIN = 64,
};

// ---- conversion ---------------------------------------------------------------------------------

// A (rows, cols) part of a matrix with its leading dimension.
struct part {
    const float *x;
    uint64_t ld, rows, cols;
};

// Where it goes: dense (padded_rows, padded_cols) bf16, zeros behind rows and cols.
struct conversion {
    struct part from;
    uint64_t padded_cols;
    uint16_t *to;
};

SL_SIMD_VOID(convert_row, (const float *restrict x, uint64_t n, uint16_t *restrict to), (x, n, to))
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = sl_float_to_bf16(x[i]);
}

static void convert_rows(const struct conversion *v, uint64_t padded_rows)
{
    for (uint64_t i = 0; i < padded_rows; i++) {
        uint64_t cols = i < v->from.rows ? v->from.cols : 0; // a row of padding has none
        uint16_t *to = v->to + i * v->padded_cols;
        convert_row(v->from.x + i * v->from.ld, cols, to);
        memset(to + cols, 0, (v->padded_cols - cols) * sizeof *to);
    }
}

// ---- tiles --------------------------------------------------------------------------------------

struct operand {
    const float *x;
    uint64_t ld;
    int trans;
};

struct product {
    struct operand a, b;
    uint64_t m, n, k;
    float alpha, beta;
    float *c;
    uint64_t ldc;
    uint64_t strip_rows;
    uint64_t range_rows; // of one part of the work: a multiple of a strip
    // From the pool, for each thread: a tile of b, a strip of a and its result.
    uint16_t *b_tiles, *a_strips;
    float *c_strips;
    uint64_t a_count, b_count, c_count; // elements of a thread's
    _Atomic int rc;                     // of the last part that failed
};

// One tile of op(b), and what belongs to the thread.
struct tile {
    uint64_t n0, k0;
    uint64_t n, k, k_padded;
    uint16_t *b, *a;
    float *c;
};

static struct part part_of(const struct operand *o, uint64_t row, uint64_t col, uint64_t rows,
                           uint64_t cols)
{
    if (o->trans)
        return (struct part){o->x + col * o->ld + row, o->ld, cols, rows};
    return (struct part){o->x + row * o->ld + col, o->ld, rows, cols};
}

// The size that a tile of k is padded to: few values, so few primitives.
static uint64_t padded_k(uint64_t tile, uint64_t whole)
{
    if (whole <= TILE_K)
        return sl_align_up(tile, QUANTUM_K);
    return SL_MAX(sl_pow2_at_least(tile), (uint64_t)TAIL_MIN);
}

SL_SIMD_VOID(put_rows,
             (const float *restrict from, uint64_t rows, uint64_t cols, float alpha, int accumulate,
              float *restrict c, uint64_t ldc),
             (from, rows, cols, alpha, accumulate, c, ldc))
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < cols; j++) {
            float v = alpha * from[i * cols + j];
            c[i * ldc + j] = accumulate ? c[i * ldc + j] + v : v;
        }
}

// The sizes of the tile at n0, k0.
static void measure_tile(const struct product *p, struct tile *t)
{
    t->n = SL_MIN(p->n - t->n0, (uint64_t)TILE_N);
    t->k = SL_MIN(p->k - t->k0, (uint64_t)TILE_K);
    t->k_padded = padded_k(t->k, p->k);
}

static struct sl_cpu_bf16_shape shape_of(const struct product *p, const struct tile *t)
{
    return (struct sl_cpu_bf16_shape){.m = (uint32_t)p->strip_rows,
                                      .n = (uint32_t)t->n,
                                      .k = (uint32_t)t->k_padded,
                                      .a_trans = (uint32_t)p->a.trans,
                                      .b_trans = (uint32_t)p->b.trans};
}

static int multiply_strip(const struct product *p, const struct tile *t, uint64_t m0, uint64_t rows)
{
    struct conversion v = {.from = part_of(&p->a, m0, t->k0, rows, t->k),
                           .padded_cols = p->a.trans ? p->strip_rows : t->k_padded,
                           .to = t->a};
    const struct sl_cpu_bf16_shape shape = shape_of(p, t);
    convert_rows(&v, p->a.trans ? t->k_padded : p->strip_rows);
    SL_TRY(sl_cpu_gemm_primitive(&shape, t->a, t->b, t->c));
    put_rows(t->c, rows, t->n, p->alpha, t->k0 > 0 || p->beta != 0.0f, p->c + m0 * p->ldc + t->n0,
             p->ldc);
    return SL_OK;
}

static int multiply_rows(const struct product *p, struct tile t, uint64_t begin, uint64_t end)
{
    for (t.n0 = 0; t.n0 < p->n; t.n0 += TILE_N)
        for (t.k0 = 0; t.k0 < p->k; t.k0 += TILE_K) {
            measure_tile(p, &t);
            struct conversion b = {.from = part_of(&p->b, t.k0, t.n0, t.k, t.n),
                                   .padded_cols = p->b.trans ? t.k_padded : t.n,
                                   .to = t.b};
            convert_rows(&b, p->b.trans ? t.n : t.k_padded);
            for (uint64_t i = begin; i < end; i += p->strip_rows)
                SL_TRY(multiply_strip(p, &t, i, SL_MIN(p->strip_rows, end - i)));
        }
    return SL_OK;
}

static void multiply_range(void *context, uint32_t part)
{
    struct product *p = context;
    const uint64_t thread = (uint64_t)sl_cpu_thread_number();
    const uint64_t begin = part * p->range_rows;
    struct tile t = {.b = p->b_tiles + thread * p->b_count,
                     .a = p->a_strips + thread * p->a_count,
                     .c = p->c_strips + thread * p->c_count};
    int rc = multiply_rows(p, t, begin, SL_MIN(begin + p->range_rows, p->m));
    if (rc < 0)
        atomic_store_explicit(&p->rc, rc, memory_order_relaxed);
}

// SL_EUNSUPPORTED when the library has no code for a tile of this product; those inside are as the
// first, and nothing depends on the number of rows.
static int ask_library(const struct product *p)
{
    const uint64_t last_n = (p->n - 1) / TILE_N * TILE_N, last_k = (p->k - 1) / TILE_K * TILE_K;
    for (int i = 0; i < 4; i++) {
        struct tile t = {.n0 = i & 1 ? last_n : 0, .k0 = i & 2 ? last_k : 0};
        measure_tile(p, &t);
        const struct sl_cpu_bf16_shape shape = shape_of(p, &t);
        int rc = sl_cpu_gemm_primitive_find(&shape);
        if (rc < 0)
            return rc;
    }
    return SL_OK;
}

static int multiply(const struct sl_cpu_gemm *g, struct sl_mempool *ws)
{
    struct product p = {
        .a = {g->of[0].a, g->of[0].lda, g->ta == SL_TRANS},
        .b = {g->of[0].b, g->of[0].ldb, g->tb == SL_TRANS},
        .m = g->m,
        .n = g->n,
        .k = g->of[0].k,
        .alpha = g->alpha,
        .beta = g->beta,
        .c = g->c,
        .ldc = g->ldc,
        .strip_rows = g->ta == SL_TRANS ? STRIP_ROWS_TRANS : STRIP_ROWS,
    };
    int rc = ask_library(&p);
    if (rc == SL_EUNSUPPORTED)
        return sl_cpu_gemm_blocks(sl_isa_has_bf16() ? SL_CPU_WORDS_PAIRS : SL_CPU_WORDS_ROUNDED, g,
                                  ws);
    SL_TRY(rc);

    // Each range converts b for itself, so there are few; several a thread where b is met often.
    const uint64_t strips = sl_div_up(p.m, p.strip_rows);
    const uint64_t most = (uint64_t)sl_cpu_threads();
    const uint64_t ranges =
        SL_MIN(strips, most == 1 ? 1 : SL_MAX(most, SL_MIN(strips / 8, 4 * most)));
    p.range_rows = sl_div_up(strips, ranges) * p.strip_rows;
    const uint64_t parts = sl_div_up(p.m, p.range_rows), threads = SL_MIN(most, parts);

    const uint64_t tile_n = SL_MIN(p.n, (uint64_t)TILE_N);
    const uint64_t tile_k = sl_align_up(SL_MIN(p.k, (uint64_t)TILE_K), TAIL_MIN);
    p.a_count = p.strip_rows * tile_k;
    p.b_count = sl_align_up(tile_k * tile_n, 32);
    p.c_count = p.strip_rows * tile_n;
    p.b_tiles = sl_mempool_alloc(ws, threads * p.b_count * sizeof *p.b_tiles);
    p.a_strips = sl_mempool_alloc(ws, threads * p.a_count * sizeof *p.a_strips);
    p.c_strips = sl_mempool_alloc(ws, threads * p.c_count * sizeof *p.c_strips);
    if (!p.b_tiles || !p.a_strips || !p.c_strips)
        return sl_fail(SL_ENOMEM, "gemm: no memory for bf16 tiles of %llu x %llu x %llu",
                       (unsigned long long)p.strip_rows, (unsigned long long)tile_n,
                       (unsigned long long)tile_k);
    sl_cpu_parallel_parts((uint32_t)parts, multiply_range, &p);
    rc = atomic_load_explicit(&p.rc, memory_order_relaxed);
    return rc == SL_OK ? SL_OK : sl_fail(rc, "gemm: oneDNN failed on bf16 operands");
}

int sl_cpu_gemm_strips(const struct sl_cpu_gemm *g, struct sl_mempool *ws)
{
    struct sl_cpu_gemm one = *g;
    one.of[1].k = 0;
    SL_TRY(multiply(&one, ws));
    if (g->of[1].k == 0)
        return SL_OK;
    one.of[0] = g->of[1];
    one.beta = 1;
    return multiply(&one, ws);
}
