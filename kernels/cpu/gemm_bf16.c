/*
 * Products of f32 matrices whose operands are rounded to bf16, summed in f32.
 *
 * Problem. Activations and weights are f32 masters; the processor's bf16 units want 16-bit
 * operands. Converting whole matrices first would cost a trip to memory; making one primitive for
 * every batch's number of rows would cost more than the product.
 *
 * Design. The product is cut into tiles of (n, k), each tile of op(b) is converted once, and the
 * tiles of op(a) that meet it are converted one after the other just before use, so converted data
 * is read from the cache. Both live in the caller's pool and keep the orientation of the originals.
 * There are two ways to multiply a pair of tiles:
 *
 *   primitive  oneDNN's matmul on bf16, where the processor multiplies bf16 natively (avx512_bf16,
 *              AMX). Tiles have few distinct shapes: the last tile of a dimension is padded with
 *              zeros to a class (gemm_primitive.c keeps a bounded cache of primitives).
 *   rounded    elsewhere: operands become f32 numbers that bf16 can hold and sgemm multiplies them.
 *              The products of two bf16 numbers are exact in f32, so the contract is the same one
 *              and only the order of additions differs. It is not a fast path: it lets a bf16 job
 *              run, and be tested, anywhere. oneDNN's own emulation on AVX-512 without bf16 is
 *              slower than this (figures: README.md).
 */
#include "kernels/cpu/cpu_internal.h"

#include <dnnl.h>
#include <stdatomic.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/cpu/vector.h"

enum {
    TILE_M = 1024,
    TILE_N = 1024,
    TILE_K = 1024,
    QUANTUM_M = 32, // what a dimension that fits one tile is padded to
    QUANTUM_K = 32, // (a row of an AMX tile holds 32 bf16)
    TAIL_MIN = 64,
    GRAIN_ELEMENTS = 1 << 14,
};

static _Atomic int forced_path = SL_CPU_BF16_AUTO;

void sl_cpu_gemm_set_bf16_path(enum sl_cpu_bf16_path path)
{
    atomic_store_explicit(&forced_path, (int)path, memory_order_relaxed);
}

enum sl_cpu_bf16_path sl_cpu_gemm_bf16_path(void)
{
    int path = atomic_load_explicit(&forced_path, memory_order_relaxed);
    if (path != SL_CPU_BF16_AUTO)
        return (enum sl_cpu_bf16_path)path;
    switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_avx512_core_bf16:
    case dnnl_cpu_isa_avx512_core_amx: return SL_CPU_BF16_PRIMITIVE;
    default: return SL_CPU_BF16_ROUNDED;
    }
}

// ---- conversion ---------------------------------------------------------------------------------

// A (rows, cols) part of a matrix with its leading dimension.
struct part {
    const float *x;
    uint64_t ld, rows, cols;
};

// Where it goes: dense (padded_rows, padded_cols), zeros behind rows and cols.
struct conversion {
    struct part from;
    uint64_t padded_cols;
    void *to;
    int native; // to bf16; else to f32 numbers that bf16 holds (never padded)
};

SL_SIMD static void convert_row_bf16(const float *restrict x, uint64_t n, uint16_t *restrict to)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = sl_float_to_bf16(x[i]);
}

SL_SIMD static void convert_row_rounded(const float *restrict x, uint64_t n, float *restrict to)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)sl_float_to_bf16(x[i]) << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

static void convert_rows(void *context, uint64_t begin, uint64_t end)
{
    const struct conversion *v = context;
    for (uint64_t i = begin; i < end; i++) {
        uint64_t cols = i < v->from.rows ? v->from.cols : 0; // a row of padding has none
        const float *x = v->from.x + i * v->from.ld;
        if (!v->native) {
            convert_row_rounded(x, cols, (float *)v->to + i * v->padded_cols);
            continue;
        }
        uint16_t *to = (uint16_t *)v->to + i * v->padded_cols;
        convert_row_bf16(x, cols, to);
        memset(to + cols, 0, (v->padded_cols - cols) * sizeof *to);
    }
}

static void convert(struct conversion *v, uint64_t padded_rows)
{
    sl_cpu_parallel_range(padded_rows, GRAIN_ELEMENTS / v->padded_cols, 1, convert_rows, v);
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
    int native; // the primitive path
    // From the pool. Converted tiles are bf16 or rounded f32; the others serve the primitive path.
    void *a_tile, *b_tile;
    float *a_wide, *b_wide; // the tiles again in f32, for a shape without a primitive
    float *c_tile;          // a padded or scaled result
};

// One tile's place and size.
struct tile {
    uint64_t m0, n0, k0;
    uint64_t m, n, k;
    uint64_t m_padded, k_padded; // as converted
};

static struct part part_of(const struct operand *o, uint64_t row, uint64_t col, uint64_t rows,
                           uint64_t cols)
{
    if (o->trans)
        return (struct part){o->x + col * o->ld + row, o->ld, cols, rows};
    return (struct part){o->x + row * o->ld + col, o->ld, rows, cols};
}

// The size that a tile's dimension is padded to: few values, so few primitives.
static uint64_t size_class(uint64_t tile, uint64_t whole, uint64_t tile_max, uint64_t quantum)
{
    if (whole <= tile_max)
        return sl_align_up(tile, quantum);
    return SL_MAX(sl_pow2_at_least(tile), (uint64_t)TAIL_MIN);
}

SL_SIMD static void put_rows(const float *restrict from, uint64_t rows, uint64_t cols, float alpha,
                             int accumulate, float *restrict c, uint64_t ldc)
{
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t j = 0; j < cols; j++) {
            float v = alpha * from[i * cols + j];
            c[i * ldc + j] = accumulate ? c[i * ldc + j] + v : v;
        }
}

SL_SIMD static void widen(const uint16_t *restrict from, uint64_t n, float *restrict to)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

// The rounded path: dense f32 tiles of rounded numbers.
static int multiply_rounded(const struct product *p, const struct tile *t, const float *a,
                            const float *b, int accumulate)
{
    return sl_cpu_gemm_f32(p->a.trans ? SL_TRANS : SL_NO_TRANS, p->b.trans ? SL_TRANS : SL_NO_TRANS,
                           t->m, t->n, t->k, p->alpha, a, p->a.trans ? t->m_padded : t->k_padded, b,
                           p->b.trans ? t->k_padded : t->n, accumulate ? 1.0f : 0.0f,
                           p->c + t->m0 * p->ldc + t->n0, p->ldc);
}

static int multiply_native(const struct product *p, const struct tile *t, int accumulate)
{
    float *c = p->c + t->m0 * p->ldc + t->n0;
    int direct = t->m_padded == t->m && p->alpha == 1.0f;
    struct sl_cpu_bf16_shape shape = {
        .m = (uint32_t)t->m_padded,
        .n = (uint32_t)t->n,
        .k = (uint32_t)t->k_padded,
        .a_trans = (uint32_t)p->a.trans,
        .b_trans = (uint32_t)p->b.trans,
        .accumulate = direct && accumulate,
        .ldc = direct ? p->ldc : t->n,
    };
    int rc = sl_cpu_gemm_primitive(&shape, p->a_tile, p->b_tile, direct ? c : p->c_tile);
    if (rc == SL_EUNSUPPORTED) {
        widen(p->a_tile, t->m_padded * t->k_padded, p->a_wide);
        widen(p->b_tile, t->k_padded * t->n, p->b_wide);
        return multiply_rounded(p, t, p->a_wide, p->b_wide, accumulate);
    }
    SL_TRY(rc);
    if (!direct)
        put_rows(p->c_tile, t->m, t->n, p->alpha, accumulate, c, p->ldc);
    return SL_OK;
}

// Converts op(b)'s tile (t.k, t.n), then meets every tile of op(a) that belongs to it.
static int run_column(const struct product *p, struct tile t)
{
    t.k_padded = p->native ? size_class(t.k, p->k, TILE_K, QUANTUM_K) : t.k;
    struct conversion b = {.from = part_of(&p->b, t.k0, t.n0, t.k, t.n),
                           .padded_cols = p->b.trans ? t.k_padded : t.n,
                           .to = p->b_tile,
                           .native = p->native};
    convert(&b, p->b.trans ? t.n : t.k_padded);

    for (t.m0 = 0; t.m0 < p->m; t.m0 += TILE_M) {
        t.m = SL_MIN(p->m - t.m0, (uint64_t)TILE_M);
        t.m_padded = p->native ? size_class(t.m, p->m, TILE_M, QUANTUM_M) : t.m;
        struct conversion a = {.from = part_of(&p->a, t.m0, t.k0, t.m, t.k),
                               .padded_cols = p->a.trans ? t.m_padded : t.k_padded,
                               .to = p->a_tile,
                               .native = p->native};
        convert(&a, p->a.trans ? t.k_padded : t.m_padded);

        int accumulate = t.k0 > 0 || p->beta != 0.0f;
        if (p->native)
            SL_TRY(multiply_native(p, &t, accumulate));
        else
            SL_TRY(multiply_rounded(p, &t, p->a_tile, p->b_tile, accumulate));
    }
    return SL_OK;
}

int sl_cpu_gemm_bf16(enum sl_transpose ta, enum sl_transpose tb, uint64_t m, uint64_t n, uint64_t k,
                     float alpha, const float *a, uint64_t lda, const float *b, uint64_t ldb,
                     float beta, float *c, uint64_t ldc, struct sl_mempool *ws)
{
    struct product p = {
        .a = {a, lda, ta == SL_TRANS},
        .b = {b, ldb, tb == SL_TRANS},
        .m = m,
        .n = n,
        .k = k,
        .alpha = alpha,
        .beta = beta,
        .c = c,
        .ldc = ldc,
    };
    p.native = sl_cpu_gemm_bf16_path() == SL_CPU_BF16_PRIMITIVE;
    uint64_t tile_m = sl_align_up(SL_MIN(m, (uint64_t)TILE_M), TAIL_MIN);
    uint64_t tile_n = SL_MIN(n, (uint64_t)TILE_N);
    uint64_t tile_k = sl_align_up(SL_MIN(k, (uint64_t)TILE_K), TAIL_MIN);
    uint64_t a_count = tile_m * tile_k, b_count = tile_k * tile_n, c_count = tile_m * tile_n;
    size_t width = p.native ? sizeof(uint16_t) : sizeof(float);
    p.a_tile = sl_mempool_alloc(ws, a_count * width);
    p.b_tile = sl_mempool_alloc(ws, b_count * width);
    if (p.native) {
        p.a_wide = sl_mempool_alloc(ws, a_count * sizeof *p.a_wide);
        p.b_wide = sl_mempool_alloc(ws, b_count * sizeof *p.b_wide);
        p.c_tile = sl_mempool_alloc(ws, c_count * sizeof *p.c_tile);
    }
    if (!p.a_tile || !p.b_tile || (p.native && (!p.a_wide || !p.b_wide || !p.c_tile)))
        return sl_fail(SL_ENOMEM, "gemm: no memory for bf16 tiles of %llu x %llu x %llu",
                       (unsigned long long)tile_m, (unsigned long long)tile_n,
                       (unsigned long long)tile_k);

    struct tile t = {0};
    for (t.n0 = 0; t.n0 < n; t.n0 += TILE_N)
        for (t.k0 = 0; t.k0 < k; t.k0 += TILE_K) {
            t.n = SL_MIN(n - t.n0, (uint64_t)TILE_N);
            t.k = SL_MIN(k - t.k0, (uint64_t)TILE_K);
            SL_TRY(run_column(&p, t));
        }
    return SL_OK;
}
