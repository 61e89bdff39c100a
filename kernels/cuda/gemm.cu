/*
 * Matrix products: cuBLASLt where it can be found (gemm_lt.h), a tiled kernel of our own elsewhere.
 *
 * PRECISION.     cuBLASLt                                   our own
 *      f32       f32 operands, f32 products and sums        the same
 *      tf32      the library rounds or cuts operands        rounded to nearest, ties to even
 *      bf16      operands are rounded to bf16 by us         rounded likewise, as f32 numbers
 *
 * For bf16 the contract says how operands round (nearest, ties to even), so they are converted into
 * `ws` rather than left to the library's "fast" mode, whose rounding is not specified. That costs
 * 6 bytes an operand's element (read 4, write 2) and saves 2 of the 4 that the product would read;
 * rows of the copy are padded to 16 bytes, so that tensor cores take any leading dimension. What is
 * bf16 in memory already is multiplied where it lies.
 *
 * BIAS goes into the library's epilogue where nothing follows it and it is aligned to 16 bytes, as
 * the library's kernels may load it so. Else, and with an activation, it is one more pass over c
 * (gemm_lt.cc says why relu is not the library's). Our own kernel does both at its end.
 *
 * OUR OWN. A block of 256 threads makes 64 x 64 elements of c from strips of 16 of k in shared
 * memory, 4 x 4 a thread in registers; the next strip is read while this one is multiplied. A
 * result of few tiles with a long reduction (a weight gradient) is cut into runs of k whose sums go
 * to `ws` and are added in order. Cuts depend on the sizes alone, so that bits are the same on
 * every GPU.
 */
#include "kernels/cuda/dense.cuh"

#include "kernels/check.h"
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/gemm_lt.h"
#include "kernels/cuda/runtime.cuh"

static_assert((int)SL_WORKSPACE_BYTES == (int)SL_LT_WORKSPACE_BYTES, "one workspace, one size");

enum {
    TILE = 64,         // rows and columns of c
    TILE_K = 16,       // of a and b at a time
    TILE_PITCH = 68,   // a strip's row in shared memory: off the banks, still aligned for 16 bytes
    SPLIT_TILES = 256, // fewer tiles than this, and k is split
    SPLIT_BLOCKS = 512,
    SPLIT_K_MIN = 512,
    SPLITS_MAX = 64,
    FINISH_COLUMNS = 32, // a block of the last step: 32 columns, 8 rows
    FINISH_ROWS = SL_BLOCK / FINISH_COLUMNS,
};

// A product as kernels take it.
struct product {
    uint64_t m, n, k;
    const void *a, *b;
    uint64_t lda, ldb, ldc;
    float alpha, beta;
    float *c;
    const float *bias; // (n) or NULL
    enum sl_activation act;
    enum sl_precision precision;
    uint32_t a_stored, b_stored; // as bf16
    uint64_t run;                // of k that a block takes
    float *partial;              // (splits, m, n), or NULL: c is made at once
};

// ---- rounding -----------------------------------------------------------------------------------

static __device__ __forceinline__ float round_operand(float x, enum sl_precision precision)
{
    if (precision == SL_PRECISION_F32)
        return x;
    return __uint_as_float(sl_round_bits(x, precision == SL_PRECISION_BF16 ? 16 : 13));
}

// out (rows, pitch) bf16 = x (rows, cols) with leading dimension ld; what is behind cols stays.
template <bool ALIGNED>
static __global__ void to_bf16(struct sl_columns g, const float *x, uint64_t ld, uint16_t *out,
                               uint64_t pitch)
{
    struct sl_column_place at = sl_place<ALIGNED>(g);
    for (uint64_t r = at.begin + at.y; r < at.end; r += at.ty) {
        float v[4];
        sl_load_columns<ALIGNED>(g, at, x + r * ld, v);
        uint16_t *row = out + r * pitch;
        if constexpr (ALIGNED) {
            if (at.first < g.dim)
                sl_store_bf16(row + at.first, v);
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                if (sl_column<ALIGNED>(g, at, j) < g.dim)
                    row[sl_column<ALIGNED>(g, at, j)] = sl_bf16_bits(v[j]);
        }
    }
}

// ---- our own product ----------------------------------------------------------------------------

// c's element from the sum of its products.
static __device__ __forceinline__ void put(const struct product &p, uint64_t i, uint64_t j,
                                           float sum)
{
    float *c = p.c + i * p.ldc + j, v = p.alpha * sum;
    if (p.beta != 0.0f) // what c held is not read when beta is 0: it may be anything
        v += *c;
    if (p.bias)
        v += p.bias[j];
    *c = sl_activate(p.act, v);
}

/*
 * Four of the 64 x 16 elements of a strip, into registers: rows `first` on of the long side (m or
 * n), columns k0 on, 0 outside. ALONG_K: neighbours in memory are neighbours along k.
 */
template <bool ALONG_K, typename E>
static __device__ __forceinline__ void fetch(const E *x, uint64_t ld, uint64_t first,
                                             uint64_t limit, uint64_t k0, uint64_t k_end,
                                             float (&v)[4])
{
#pragma unroll
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t i = ALONG_K ? threadIdx.x / TILE_K + 16 * r : threadIdx.x % TILE;
        uint32_t l = ALONG_K ? threadIdx.x % TILE_K : threadIdx.x / TILE + 4 * r;
        uint64_t row = first + i, col = k0 + l;
        v[r] = 0.0f;
        if (row < limit && col < k_end)
            v[r] = sl_widen(ALONG_K ? x[row * ld + col] : x[col * ld + row]);
    }
}

// The same of what is f32 or bf16.
template <bool ALONG_K>
static __device__ __forceinline__ void fetch(const void *x, uint32_t stored, uint64_t ld,
                                             uint64_t first, uint64_t limit, uint64_t k0,
                                             uint64_t k_end, float (&v)[4])
{
    if (stored)
        fetch<ALONG_K>(static_cast<const sl_bf16 *>(x), ld, first, limit, k0, k_end, v);
    else
        fetch<ALONG_K>(static_cast<const float *>(x), ld, first, limit, k0, k_end, v);
}

// The same elements into shared memory, rounded: strip[k][row].
template <bool ALONG_K>
static __device__ __forceinline__ void keep(const float (&v)[4], enum sl_precision precision,
                                            float (*strip)[TILE_PITCH])
{
#pragma unroll
    for (uint32_t r = 0; r < 4; r++) {
        uint32_t i = ALONG_K ? threadIdx.x / TILE_K + 16 * r : threadIdx.x % TILE;
        uint32_t l = ALONG_K ? threadIdx.x % TILE_K : threadIdx.x / TILE + 4 * r;
        strip[l][i] = round_operand(v[r], precision);
    }
}

static __device__ __forceinline__ void multiply_strips(const float (*a)[TILE_PITCH],
                                                       const float (*b)[TILE_PITCH], uint32_t x,
                                                       uint32_t y, float (&sums)[4][4])
{
#pragma unroll
    for (uint32_t l = 0; l < TILE_K; l++) {
        float4 of_a = *reinterpret_cast<const float4 *>(&a[l][4 * y]);
        float4 of_b = *reinterpret_cast<const float4 *>(&b[l][4 * x]);
        const float left[4] = {of_a.x, of_a.y, of_a.z, of_a.w};
        const float right[4] = {of_b.x, of_b.y, of_b.z, of_b.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                sums[i][j] = fmaf(left[i], right[j], sums[i][j]);
    }
}

// blockIdx.x: the tile, columns first; blockIdx.y: the run of k.
template <bool A_ALONG_K, bool B_ALONG_K>
__global__ void __launch_bounds__(SL_BLOCK) gemm_tiles(struct product p)
{
    __shared__ __align__(16) float a[TILE_K][TILE_PITCH], b[TILE_K][TILE_PITCH];
    uint32_t across = (uint32_t)((p.n + TILE - 1) / TILE);
    uint64_t row = (uint64_t)(blockIdx.x / across) * TILE;
    uint64_t col = (uint64_t)(blockIdx.x % across) * TILE;
    uint64_t begin = blockIdx.y * p.run, end = p.k - begin < p.run ? p.k : begin + p.run;
    uint32_t x = threadIdx.x % 16, y = threadIdx.x / 16;
    float sums[4][4] = {}, next_a[4], next_b[4];
    fetch<A_ALONG_K>(p.a, p.a_stored, p.lda, row, p.m, begin, end, next_a);
    fetch<B_ALONG_K>(p.b, p.b_stored, p.ldb, col, p.n, begin, end, next_b);
    for (uint64_t k0 = begin; k0 < end; k0 += TILE_K) {
        keep<A_ALONG_K>(next_a, p.precision, a);
        keep<B_ALONG_K>(next_b, p.precision, b);
        __syncthreads();
        fetch<A_ALONG_K>(p.a, p.a_stored, p.lda, row, p.m, k0 + TILE_K, end, next_a);
        fetch<B_ALONG_K>(p.b, p.b_stored, p.ldb, col, p.n, k0 + TILE_K, end, next_b);
        multiply_strips(a, b, x, y, sums);
        __syncthreads();
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            uint64_t r = row + 4 * y + i, s = col + 4 * x + j;
            if (r >= p.m || s >= p.n)
                continue;
            if (p.partial)
                p.partial[((uint64_t)blockIdx.y * p.m + r) * p.n + s] = sums[i][j];
            else
                put(p, r, s, sums[i][j]);
        }
}

// The runs' sums in order, and what follows a product. No runs: beta c + bias and the activation.
static __global__ void finish_product(struct product p, uint32_t runs)
{
    uint32_t across = (uint32_t)((p.n + FINISH_COLUMNS - 1) / FINISH_COLUMNS);
    uint64_t i = (uint64_t)(blockIdx.x / across) * FINISH_ROWS + threadIdx.x / FINISH_COLUMNS;
    uint64_t j = (uint64_t)(blockIdx.x % across) * FINISH_COLUMNS + threadIdx.x % FINISH_COLUMNS;
    if (i >= p.m || j >= p.n)
        return;
    float sum = 0.0f;
#pragma unroll 4
    for (uint32_t s = 0; s < runs; s++)
        sum += p.partial[((uint64_t)s * p.m + i) * p.n + j];
    put(p, i, j, sum);
}

// Blocks of a grid's first dimension for tiles of (rows, columns).
static int tiles_of(const struct product *p, uint32_t rows, uint32_t columns, uint32_t *out)
{
    uint64_t down = (p->m + rows - 1) / rows, across = (p->n + columns - 1) / columns;
    if (across > INT32_MAX || down > INT32_MAX || down * across > INT32_MAX)
        return sl_fail(
            SL_EUNSUPPORTED,
            "gemm: a result of %llu x %llu has %llu x %llu tiles: a launch takes 2^31 - 1",
            (unsigned long long)p->m, (unsigned long long)p->n, (unsigned long long)down,
            (unsigned long long)across);
    *out = (uint32_t)(down * across);
    return SL_OK;
}

static int finish(const struct product *p, uint32_t runs)
{
    uint32_t blocks = 0;
    SL_TRY(tiles_of(p, FINISH_ROWS, FINISH_COLUMNS, &blocks));
    SL_LAUNCH(finish_product, blocks, SL_BLOCK, 0, *p, runs);
    return SL_OK;
}

// How many runs k is cut into, and how long they are.
static uint32_t split(struct product *p, uint32_t tiles)
{
    uint64_t runs = 1;
    if (tiles < SPLIT_TILES)
        runs = SL_MIN((uint64_t)(SPLIT_BLOCKS / tiles), p->k / SPLIT_K_MIN);
    runs = SL_MIN(SL_MAX(runs, (uint64_t)1), (uint64_t)SPLITS_MAX);
    p->run = (p->k + runs - 1) / runs;
    p->run = (p->run + TILE_K - 1) / TILE_K * TILE_K;
    return (uint32_t)((p->k + p->run - 1) / p->run);
}

static int multiply_ourselves(struct product *p, bool ta, bool tb, struct sl_mempool *ws)
{
    uint32_t tiles = 0;
    SL_TRY(tiles_of(p, TILE, TILE, &tiles));
    uint32_t runs = split(p, tiles);
    if (runs > 1) {
        uint64_t bytes = runs * p->m * p->n * sizeof(float); // 8 MiB at most
        p->partial = static_cast<float *>(sl_mempool_alloc(ws, bytes));
        if (!p->partial)
            return sl_fail(SL_ENOMEM, "gemm: no device memory for %llu bytes of partial sums",
                           (unsigned long long)bytes);
    }
    dim3 grid(tiles, runs);
    if (!ta && !tb)
        SL_LAUNCH((gemm_tiles<true, false>), grid, SL_BLOCK, 0, *p);
    else if (!ta)
        SL_LAUNCH((gemm_tiles<true, true>), grid, SL_BLOCK, 0, *p);
    else if (!tb)
        SL_LAUNCH((gemm_tiles<false, false>), grid, SL_BLOCK, 0, *p);
    else
        SL_LAUNCH((gemm_tiles<false, true>), grid, SL_BLOCK, 0, *p);
    return runs > 1 ? finish(p, runs) : SL_OK;
}

// ---- the library's ------------------------------------------------------------------------------

// *operand (rows, cols) becomes a copy as bf16, in ws, whose leading dimension is a multiple of 8;
// what is stored so stays where it is.
static int convert(uint32_t stored, uint64_t rows, uint64_t cols, struct sl_mempool *ws,
                   const void **operand, uint64_t *pitch)
{
    if (stored)
        return SL_OK;
    const float *x = static_cast<const float *>(*operand);
    const uint64_t ld = *pitch;
    *pitch = (cols + 7) / 8 * 8;
    uint64_t bytes = rows * *pitch * sizeof(uint16_t);
    uint16_t *copy = static_cast<uint16_t *>(sl_mempool_alloc(ws, bytes));
    if (!copy)
        return sl_fail(SL_ENOMEM, "gemm: no device memory for %llu bytes of bf16 operands",
                       (unsigned long long)bytes);
    struct sl_columns g = sl_columns_of(rows, (uint32_t)cols);
    if (cols % 4 == 0 && ld % 4 == 0 && sl_aligned16(x))
        SL_LAUNCH(to_bf16<true>, sl_columns_grid(&g), SL_BLOCK, 0, g, x, ld, copy, *pitch);
    else
        SL_LAUNCH(to_bf16<false>, sl_columns_grid(&g), SL_BLOCK, 0, g, x, ld, copy, *pitch);
    *operand = copy;
    return SL_OK;
}

// Whether the library adds the bias.
static bool takes_bias(const struct product *p)
{
    return p->act == SL_ACT_NONE && p->bias && sl_aligned16(p->bias);
}

// *done: it is queued, but for what follow() adds.
static int multiply_by_library(const struct product *p, bool ta, bool tb, struct sl_mempool *ws,
                               bool *done)
{
    *done = false;
    if (!sl_lt_is_there() || p->m > INT32_MAX || p->n > INT32_MAX || p->k > INT32_MAX)
        return SL_OK;
    struct sl_lt_product q = {};
    q.m = p->m;
    q.n = p->n;
    q.k = p->k;
    q.ta = ta;
    q.tb = tb;
    q.bf16 = p->precision == SL_PRECISION_BF16;
    q.tf32 = p->precision == SL_PRECISION_TF32;
    q.alpha = p->alpha;
    q.beta = p->beta;
    q.a = p->a;
    q.b = p->b;
    q.lda = p->lda;
    q.ldb = p->ldb;
    q.ldc = p->ldc;
    q.c = p->c;
    q.bias = takes_bias(p) ? p->bias : nullptr;
    q.stream = sl_cuda_stream();
    SL_TRY(sl_cuda_workspace(&q.workspace));
    if (q.bf16) {
        SL_TRY(convert(p->a_stored, ta ? p->k : p->m, ta ? p->m : p->k, ws, &q.a, &q.lda));
        SL_TRY(convert(p->b_stored, tb ? p->n : p->k, tb ? p->k : p->n, ws, &q.b, &q.ldb));
    }
    // What the library refuses our own kernel can do; what the GPU refuses nobody can.
    int rc = sl_lt_multiply(&q, done);
    return rc < 0 && sl_cuda_faulted() ? rc : SL_OK;
}

// The bias and the activation over c, behind the library's product.
static int follow(const struct product *p)
{
    if (p->act == SL_ACT_NONE && (!p->bias || takes_bias(p)))
        return SL_OK;
    if (p->ldc == p->n && p->n <= UINT32_MAX)
        return sl_cuda_bias_act(p->c, p->m, (uint32_t)p->n, p->bias, p->act, nullptr);
    struct product rest = *p;
    rest.beta = 1.0f;
    rest.alpha = 0.0f;
    return finish(&rest, 0);
}

static int run(struct product *p, bool ta, bool tb, struct sl_mempool *ws)
{
    if (p->m == 0 || p->n == 0)
        return SL_OK;
    if (p->k == 0 || p->alpha == 0.0f) {
        bool changes = p->beta == 0.0f || p->bias || p->act != SL_ACT_NONE;
        return changes ? finish(p, 0) : SL_OK;
    }
    bool done;
    SL_TRY(multiply_by_library(p, ta, tb, ws, &done));
    return done ? follow(p) : multiply_ourselves(p, ta, tb, ws);
}

// `p` with the precision of one product.
static void take_precision(struct product *p, enum sl_precision precision)
{
    p->precision = sl_precision_kind(precision);
    p->a_stored = (precision & SL_PRECISION_A) != 0;
    p->b_stored = (precision & SL_PRECISION_B) != 0;
}

int sl_cuda_gemm(enum sl_precision precision, enum sl_transpose ta, enum sl_transpose tb,
                 uint64_t m, uint64_t n, uint64_t k, float alpha, const void *a, uint64_t lda,
                 const void *b, uint64_t ldb, float beta, float *c, uint64_t ldc,
                 struct sl_mempool *ws)
{
    SL_TRY(sl_check_gemm(precision, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, ws));
    struct product p = {};
    take_precision(&p, precision);
    p.m = m;
    p.n = n;
    p.k = k;
    p.a = a;
    p.b = b;
    p.lda = lda;
    p.ldb = ldb;
    p.ldc = ldc;
    p.alpha = alpha;
    p.beta = beta;
    p.c = c;
    return run(&p, ta == SL_TRANS, tb == SL_TRANS, ws);
}

int sl_cuda_gemm_bias_act(const struct sl_gemm_bias_act_args *args, struct sl_mempool *ws)
{
    if (args->c_bf16)
        return sl_fail(SL_EUNSUPPORTED, "gemm_bias_act: c as bf16 is for cores");
    SL_TRY(sl_check_gemm_bias_act(args, ws));
    if (args->dropout.rate > 0.0f) {
        struct sl_gemm_bias_act_args product = *args;
        product.bias = nullptr;
        product.act = SL_ACT_NONE;
        product.dropout.rate = 0.0f;
        SL_TRY(sl_cuda_gemm_bias_act(&product, ws));
        return args->n > 0 ? sl_cuda_bias_act(args->c, args->m, (uint32_t)args->n, args->bias,
                                              args->act, &args->dropout)
                           : SL_OK;
    }
    struct product p = {};
    take_precision(&p, sl_precision_first(args->precision));
    p.m = args->m;
    p.n = args->n;
    p.k = args->k;
    p.a = args->a;
    p.b = args->b;
    p.lda = args->lda;
    p.ldb = args->ldb;
    p.ldc = args->ldc;
    p.alpha = 1.0f;
    p.beta = args->beta;
    p.c = args->c;
    if (args->k2 > 0) {
        SL_TRY(run(&p, false, true, ws));
        take_precision(&p, sl_precision_second(args->precision));
        p.k = args->k2;
        p.a = args->a2;
        p.b = args->b2;
        p.lda = args->lda2;
        p.ldb = args->ldb2;
        p.beta = 1.0f;
    }
    p.bias = args->bias;
    p.act = args->act;
    return run(&p, false, true, ws);
}

int sl_cuda_weight_gradients(const struct sl_weight_gradients_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_weight_gradients(args, ws));
    const struct sl_bias_act_gradient *before = &args->before;
    if (sl_gradient_changes(before) && args->m > 0)
        SL_TRY(sl_cuda_bias_act_backward(args->a, before->y, before->y_bf16_ld, args->k,
                                         (uint32_t)args->m, before->act, &before->dropout,
                                         before->dbias));
    // What both read is rounded once.
    const void *a = args->a;
    uint64_t lda = args->lda;
    int stored = 0;
    if (sl_precision_kind(args->precision) == SL_PRECISION_BF16 && args->m > 0 && args->k > 0 &&
        args->of[0].n > 0 && args->of[1].n > 0) {
        SL_TRY(convert(0, args->k, args->m, ws, &a, &lda));
        stored = SL_PRECISION_A;
    }
    for (int i = 0; i < 2; i++) {
        const struct sl_weight_gradient *of = &args->of[i];
        const int precision =
            i ? sl_precision_second(args->precision) : sl_precision_first(args->precision);
        SL_TRY(sl_cuda_gemm((enum sl_precision)(precision | stored), SL_TRANS, SL_NO_TRANS, args->m,
                            of->n, args->k, 1, a, lda, of->b, of->ldb, 1, of->c, of->ldc, ws));
    }
    return SL_OK;
}
