/*
 * dense.cuh - what the dense families share: groups of four, columns of tall matrices, scratch.
 *
 * ELEMENTS. An array of n floats is n / 4 groups of four, one a thread, over a grid that covers the
 * GPU once: 16 bytes a load where the arrays are aligned to that, four loads of 4 bytes elsewhere
 * (the lines are the same, so they come out of the first-level cache). A group of an activation is
 * one Philox block of the dropout mask.
 *
 * COLUMNS. Sums over the rows of a (rows, dim) matrix are taken by blocks of 256 threads, each with
 * a strip of at most 128 columns and a segment of the rows:
 *
 *          strip 0      strip 1
 *        +------------+------+      tx threads side by side, 4 columns each; ty of them below each
 *   seg 0|  block     |      |      other take rows ty apart. A block adds its ty sums up in shared
 *        +------------+------+      memory, and sl_finish_columns adds the segments' sums, both in
 *   seg 1|            |      |      a fixed tree.
 *        +------------+------+
 *
 * How many segments there are depends on rows and dim alone: neither on the GPU nor on timing. So a
 * sum has the same bits on every run and on every GPU (and under emulation).
 *
 * SCRATCH. Slots without a `ws` take theirs from SL_SCRATCH_BYTES of device memory that each thread
 * has from its first such call to its end. A thread's operations run in order, so one piece is
 * enough.
 */
#ifndef SL_KERNELS_CUDA_DENSE_CUH
#define SL_KERNELS_CUDA_DENSE_CUH

#include "kernels/cuda/cuda.cuh"

enum {
    SL_BLOCK = 256,          // threads of a block, everywhere in the dense families
    SL_COLUMN_STRIP = 128,   // columns of a block at most
    SL_COLUMN_BLOCKS = 1024, // strips times segments at most, unless there are more strips
    SL_COLUMN_ROWS = 8,      // rows that a thread has to add at least, but for the only segment
    SL_TALLY_BLOCKS = 512,   // blocks that sum up a whole array
    SL_SCRATCH_BYTES = SL_COLUMN_BLOCKS * SL_COLUMN_STRIP * 4,
    SL_WORKSPACE_BYTES = 32 << 20, // of cuBLASLt: gemm_lt.h
};

// scratch.cu. *out: the calling thread's SL_SCRATCH_BYTES of device memory, aligned to 256 bytes;
// what is in them is valid until the thread's next operation. SL_ENOMEM.
int sl_cuda_scratch(void **out);
// Likewise SL_WORKSPACE_BYTES, from the thread's first product by cuBLASLt on.
int sl_cuda_workspace(void **out);

// ---- elements -----------------------------------------------------------------------------------

// Whether all of these begin at a multiple of 16 bytes; NULL does.
template <typename... E> static inline bool sl_aligned16(const E *...p)
{
    return ((((uintptr_t)p & 15u) == 0) && ...);
}

// kernel<true> or kernel<false>, by whether the arrays are aligned to 16 bytes.
#define SL_LAUNCH_ALIGNED(aligned, kernel, ...)                                                    \
    do {                                                                                           \
        if (aligned)                                                                               \
            SL_LAUNCH(kernel<true>, __VA_ARGS__);                                                  \
        else                                                                                       \
            SL_LAUNCH(kernel<false>, __VA_ARGS__);                                                 \
    } while (0)

// Blocks for n elements, four a thread.
static inline uint32_t sl_element_blocks(uint64_t n)
{
    uint64_t wanted = (n + 4 * SL_BLOCK - 1) / (4 * SL_BLOCK), most = 16ull * sl_cuda_processors();
    return (uint32_t)SL_MIN(SL_MAX(wanted, (uint64_t)1), most);
}

// This thread's first group and the distance to its next.
static __device__ __forceinline__ uint64_t sl_first_group(void)
{
    return (uint64_t)blockIdx.x * SL_BLOCK + threadIdx.x;
}

static __device__ __forceinline__ uint64_t sl_group_step(void)
{
    return (uint64_t)gridDim.x * SL_BLOCK;
}

// Elements of the group at `at` that exist: 4, but for the last.
static __device__ __forceinline__ uint32_t sl_group_width(uint64_t at, uint64_t n)
{
    return n - at < 4 ? (uint32_t)(n - at) : 4u;
}

template <bool ALIGNED>
static __device__ __forceinline__ void sl_load4(const float *p, uint32_t width, float (&v)[4])
{
    if (ALIGNED && width == 4) {
        float4 q = *reinterpret_cast<const float4 *>(p);
        v[0] = q.x;
        v[1] = q.y;
        v[2] = q.z;
        v[3] = q.w;
        return;
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        v[j] = j < width ? p[j] : 0.0f;
}

template <bool ALIGNED>
static __device__ __forceinline__ void sl_store4(float *p, uint32_t width, const float (&v)[4])
{
    if (ALIGNED && width == 4) {
        *reinterpret_cast<float4 *>(p) = make_float4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        if (j < width)
            p[j] = v[j];
}

// The column of a thread's next group: what `(4 * group) % dim` is, without a division a group.
struct sl_column_walk {
    uint32_t column, step, dim;
};

static __device__ __forceinline__ struct sl_column_walk sl_walk_columns(uint32_t dim)
{
    struct sl_column_walk w;
    w.column = (uint32_t)(4 * sl_first_group() % dim);
    w.step = (uint32_t)(4 * sl_group_step() % dim);
    w.dim = dim;
    return w;
}

static __device__ __forceinline__ void sl_walk_on(struct sl_column_walk *w)
{
    // Without a sum that could pass 2^32.
    w->column =
        w->column >= w->dim - w->step ? w->column - (w->dim - w->step) : w->column + w->step;
}

// The four columns from `column` on, beginning again at the end of a row.
static __device__ __forceinline__ void sl_four_columns(uint32_t column, uint32_t dim,
                                                       uint32_t (&out)[4])
{
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        out[j] = column;
        column = column + 1 == dim ? 0 : column + 1;
    }
}

// ---- the dropout mask ---------------------------------------------------------------------------

// A mask as kernels take it. Its definition: struct sl_dropout in kernels.h, kernels/ref/mask.h.
struct sl_mask {
    uint64_t seed;
    uint32_t epoch, batch, layer;
    uint32_t on;       // 0: everything lives, with a scale of 1
    float rate, scale; // scale of the survivors
};

static inline struct sl_mask sl_mask_of(const struct sl_dropout *dropout)
{
    struct sl_mask mask = {0, 0, 0, 0, 0, 0.0f, 1.0f};
    if (dropout && dropout->rate != 0.0f) {
        mask.seed = dropout->seed;
        mask.epoch = dropout->epoch;
        mask.batch = dropout->batch;
        mask.layer = dropout->layer;
        mask.on = 1;
        mask.rate = dropout->rate;
        mask.scale = 1.0f / (1.0f - dropout->rate);
    }
    return mask;
}

// Which of elements 4 * group to 4 * group + 3 live: a bit each.
static __device__ __forceinline__ uint32_t sl_mask_group(const struct sl_mask &mask, uint64_t group)
{
    uint32_t word0 = sl_rng_word0(SL_RNG_DROPOUT, mask.layer, (uint32_t)(group >> 32));
    struct sl_rng_block block =
        sl_philox(mask.seed, word0, (uint32_t)group, mask.batch, mask.epoch);
    uint32_t alive = 0;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        alive |= (uint32_t)(sl_rng_unit(block.w[j]) >= mask.rate) << j;
    return alive;
}

// ---- columns ------------------------------------------------------------------------------------

struct sl_columns {
    uint64_t rows;
    uint32_t dim;
    uint32_t tx; // a power of two up to 32: threads side by side; SL_BLOCK / tx below each other
    uint32_t strips, segments;
};

static inline struct sl_columns sl_columns_of(uint64_t rows, uint32_t dim)
{
    struct sl_columns g;
    g.rows = rows;
    g.dim = dim;
    g.tx = 1;
    while (g.tx < SL_COLUMN_STRIP / 4 && 4 * g.tx < dim)
        g.tx *= 2;
    g.strips = (uint32_t)(((uint64_t)dim + 4 * g.tx - 1) / (4 * g.tx));
    uint64_t most = SL_MAX(SL_COLUMN_BLOCKS / g.strips, 1u);
    uint64_t wanted = rows / ((uint64_t)SL_COLUMN_ROWS * (SL_BLOCK / g.tx));
    g.segments = (uint32_t)SL_MIN(SL_MAX(wanted, (uint64_t)1), most);
    return g;
}

static inline dim3 sl_columns_grid(const struct sl_columns *g)
{
    return dim3(g->strips, g->segments);
}

// A thread's place in its block.
struct sl_column_place {
    uint32_t x, y, ty; // y below ty
    uint32_t first;    // its first column: the others are behind it (ALIGNED) or tx apart
    uint64_t begin, end;
};

template <bool ALIGNED>
static __device__ __forceinline__ struct sl_column_place sl_place(const struct sl_columns &g)
{
    struct sl_column_place at;
    at.x = threadIdx.x & (g.tx - 1);
    at.y = threadIdx.x / g.tx;
    at.ty = SL_BLOCK / g.tx;
    at.first = blockIdx.x * 4 * g.tx + (ALIGNED ? 4 * at.x : at.x);
    at.begin = g.rows * blockIdx.y / g.segments;
    at.end = g.rows * (blockIdx.y + 1) / g.segments;
    return at;
}

template <bool ALIGNED>
static __device__ __forceinline__ uint32_t sl_column(const struct sl_columns &g,
                                                     const struct sl_column_place &at, uint32_t j)
{
    return at.first + (ALIGNED ? j : j * g.tx);
}

// This thread's four columns of a row; 0 behind its end. ALIGNED: dim is a multiple of 4 as well.
template <bool ALIGNED>
static __device__ __forceinline__ void sl_load_columns(const struct sl_columns &g,
                                                       const struct sl_column_place &at,
                                                       const float *row, float (&v)[4])
{
    if constexpr (ALIGNED) {
        sl_load4<true>(row + at.first, at.first < g.dim ? 4 : 0, v);
    } else {
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            v[j] = at.first + j * g.tx < g.dim ? row[at.first + j * g.tx] : 0.0f;
    }
}

template <bool ALIGNED>
static __device__ __forceinline__ void sl_store_columns(const struct sl_columns &g,
                                                        const struct sl_column_place &at,
                                                        float *row, const float (&v)[4])
{
    if constexpr (ALIGNED) {
        sl_store4<true>(row + at.first, at.first < g.dim ? 4 : 0, v);
    } else {
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            if (at.first + j * g.tx < g.dim)
                row[at.first + j * g.tx] = v[j];
    }
}

/*
 * Adds up the block's sums of a column, in a tree; the threads of the first row (at.y == 0) get the
 * totals in `sums`. All threads of the block call it; `shared` has room for 4 * SL_BLOCK and may be
 * used again after the call.
 */
template <typename T>
static __device__ __forceinline__ void sl_block_columns(const struct sl_columns &g,
                                                        const struct sl_column_place &at,
                                                        T (&sums)[4], T *shared)
{
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        shared[j * SL_BLOCK + threadIdx.x] = sums[j];
    for (uint32_t half = at.ty / 2; half > 0; half /= 2) {
        __syncthreads();
        if (at.y < half)
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                sums[j] += shared[j * SL_BLOCK + threadIdx.x + half * g.tx];
                shared[j * SL_BLOCK + threadIdx.x] = sums[j];
            }
    }
    __syncthreads();
}

// partial[segment, column] of (segments, dim) = what sl_block_columns left in the first row.
template <bool ALIGNED, typename T>
static __device__ __forceinline__ void sl_store_partial(const struct sl_columns &g,
                                                        const struct sl_column_place &at,
                                                        const T (&sums)[4], T *partial)
{
    if (at.y != 0)
        return;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t c = sl_column<ALIGNED>(g, at, j);
        if (c < g.dim)
            partial[(uint64_t)blockIdx.y * g.dim + c] = sums[j];
    }
}

enum { SL_FINISH_COLUMNS = 32, SL_FINISH_ROWS = SL_BLOCK / SL_FINISH_COLUMNS };

/*
 * Adds the segments' sums; one thread a column then calls finish(column, sum of a, sum of b). b may
 * be NULL (0). A block has 32 columns and 8 threads for each, which read every 8th segment.
 */
template <typename T, class FINISH>
__global__ void sl_finish_columns(const T *a, const T *b, uint32_t segments, uint32_t dim,
                                  FINISH finish)
{
    __shared__ T sums[2][SL_FINISH_ROWS][SL_FINISH_COLUMNS];
    uint32_t x = threadIdx.x % SL_FINISH_COLUMNS, y = threadIdx.x / SL_FINISH_COLUMNS;
    uint32_t c = blockIdx.x * SL_FINISH_COLUMNS + x;
    T sum_a = 0, sum_b = 0;
    if (c < dim) {
#pragma unroll 4
        for (uint32_t s = y; s < segments; s += SL_FINISH_ROWS) {
            sum_a += a[(uint64_t)s * dim + c];
            if (b)
                sum_b += b[(uint64_t)s * dim + c];
        }
    }
    sums[0][y][x] = sum_a;
    sums[1][y][x] = sum_b;
    for (uint32_t half = SL_FINISH_ROWS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (y < half) {
            sums[0][y][x] += sums[0][y + half][x];
            sums[1][y][x] += sums[1][y + half][x];
        }
    }
    if (y == 0 && c < dim)
        finish(c, sums[0][0][x], sums[1][0][x]);
}

static inline uint32_t sl_finish_blocks(uint32_t dim)
{
    return (uint32_t)(((uint64_t)dim + SL_FINISH_COLUMNS - 1) / SL_FINISH_COLUMNS);
}

#endif
