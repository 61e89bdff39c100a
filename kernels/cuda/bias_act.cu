/*
 * Bias, activation and dropout in one pass, and their backward.
 *
 * FORWARD goes over the array in groups of four elements, whatever the row length: a group is one
 * Philox block of the mask. It reads and writes y once (8 bytes an element), which is its floor.
 * Ten rounds of Philox are 20 wide multiplications a group, by their count about half of what an
 * H100 can do in the time of the memory. The bias comes out of the first-level cache.
 *
 * Written as bf16 elsewhere (bias_act_bf16) it is 6 bytes an element, or 10 where f32 is wanted
 * beside, and a product that reads it converts nothing.
 *
 * BACKWARD reads dy and y and writes dy (12 bytes an element, its floor). With a bias gradient the
 * same pass adds up columns (dense.cuh), so that no element is read twice; a second kernel adds the
 * segments, 512 KiB of partial sums at most. Rows whose length is no multiple of four, or arrays
 * that are not aligned, have groups that cross rows: there dy is masked first and added up in a
 * pass of its own (4 bytes an element more). Output layers are of that kind, and have neither
 * activation nor dropout, so that nothing is masked.
 *
 * As in cpu/ a derivative is taken from the output. Only relu can tell from it what was dropped:
 * the others draw the mask again, because an output of 0 may be the activation of 0.
 */
#include "kernels/cuda/dense.cuh"

#include "kernels/check.h"
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/bf16.cuh"

// ---- forward ------------------------------------------------------------------------------------

struct bias_act_forward {
    const float *x;
    float *y;      // NULL: to bf16 alone
    uint16_t *out; // rows of `pitch`; NULL: to f32 alone
    uint64_t pitch;
    const float *bias; // (dim) or NULL
    uint64_t n;
    uint32_t dim;
    enum sl_activation act;
    struct sl_mask mask;
};

// Where element `at`, of column `column`, is in rows that are `pitch` apart.
static __device__ __forceinline__ uint64_t place_in_rows(uint64_t at, uint32_t column, uint32_t dim,
                                                         uint64_t pitch)
{
    return pitch == dim ? at : (at - column) / dim * pitch + column;
}

static __device__ __forceinline__ uint16_t *rounded_place(const struct bias_act_forward &f,
                                                          uint64_t at, uint32_t column)
{
    return f.out + place_in_rows(at, column, f.dim, f.pitch);
}

// Whether groups of four elements of aligned rows of f32 are 8 aligned bytes each of these of bf16.
static bool groups_are_whole(const void *p, uint32_t dim, uint64_t pitch)
{
    return (uintptr_t)p % 8 == 0 && (pitch == dim || (dim | pitch) % 4 == 0);
}

template <bool ALIGNED> static __global__ void bias_act_kernel(struct bias_act_forward f)
{
    uint64_t step = sl_group_step();
    struct sl_column_walk walk = sl_walk_columns(f.dim);
    for (uint64_t group = sl_first_group(); 4 * group < f.n; group += step, sl_walk_on(&walk)) {
        uint64_t at = 4 * group;
        uint32_t width = sl_group_width(at, f.n), columns[4], alive = 15;
        float v[4];
        sl_load4<ALIGNED>(f.x + at, width, v);
        if (f.bias || f.out)
            sl_four_columns(walk.column, f.dim, columns);
        if (f.bias) {
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                v[j] += f.bias[columns[j]];
        }
        if (f.mask.on)
            alive = sl_mask_group(f.mask, group);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            float a = sl_activate(f.act, v[j]);
            v[j] = alive >> j & 1 ? a * f.mask.scale : 0.0f;
        }
        if (f.y)
            sl_store4<ALIGNED>(f.y + at, width, v);
        if (!f.out)
            continue;
        if (ALIGNED && width == 4 && columns[3] == columns[0] + 3) {
            sl_store_bf16(rounded_place(f, at, columns[0]), v);
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                if (j < width)
                    *rounded_place(f, at + j, columns[j]) = sl_bf16_bits(v[j]);
        }
    }
}

int sl_cuda_bias_act(float *y, uint64_t rows, uint32_t dim, const float *bias,
                     enum sl_activation act, const struct sl_dropout *dropout)
{
    SL_TRY(sl_check_bias_act(y, rows, dim, bias, act, dropout));
    struct bias_act_forward f = {y, y, nullptr, 0, bias, rows * dim, dim, act, sl_mask_of(dropout)};
    if (f.n == 0 || (!bias && act == SL_ACT_NONE && !f.mask.on))
        return SL_OK;
    SL_LAUNCH_ALIGNED(sl_aligned16(y), bias_act_kernel, sl_element_blocks(f.n), SL_BLOCK, 0, f);
    return SL_OK;
}

int sl_cuda_bias_act_bf16(const float *x, uint64_t rows, uint32_t dim, const float *bias,
                          enum sl_activation act, const struct sl_dropout *dropout, float *y,
                          uint16_t *out, uint64_t ld)
{
    SL_TRY(sl_check_bias_act_bf16(x, rows, dim, bias, act, dropout, y, out, ld));
    struct bias_act_forward f = {x, y, out, ld, bias, rows * dim, dim, act, sl_mask_of(dropout)};
    if (f.n == 0)
        return SL_OK;
    bool aligned = sl_aligned16(x, y) && groups_are_whole(out, dim, ld);
    SL_LAUNCH_ALIGNED(aligned, bias_act_kernel, sl_element_blocks(f.n), SL_BLOCK, 0, f);
    return SL_OK;
}

// ---- backward -----------------------------------------------------------------------------------

struct bias_act_backward {
    float *dy;
    const void *y;      // NULL where act is none
    uint64_t y_bf16_ld; // 0: of f32
    uint64_t n;
    uint32_t dim;
    enum sl_activation act;
    float keep; // what undoes the survivors' scale
    struct sl_mask mask;
};

// The gradients of group `group`, of which y and dy are at hand.
static __device__ __forceinline__ void mask_group(const struct bias_act_backward &b, uint64_t group,
                                                  const float (&y)[4], float (&dy)[4])
{
    uint32_t alive = 15;
    if (b.mask.on && b.act != SL_ACT_RELU)
        alive = sl_mask_group(b.mask, group);
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        float slope = sl_activation_slope(b.act, y[j], b.keep);
        bool lives = (alive >> j & 1) && slope != 0.0f;
        dy[j] = lives ? dy[j] * b.mask.scale * slope : 0.0f;
    }
}

// y's elements from `at`, of column `column`, on.
template <bool ALIGNED>
static __device__ __forceinline__ void load_output(const struct bias_act_backward &b, uint64_t at,
                                                   uint32_t column, uint32_t width, float (&y)[4])
{
    if (!b.y_bf16_ld) {
        sl_load4<ALIGNED>(static_cast<const float *>(b.y) + at, width, y);
        return;
    }
    const uint16_t *from = static_cast<const uint16_t *>(b.y);
    if (ALIGNED && width == 4) {
        sl_load_bf16(from + place_in_rows(at, column, b.dim, b.y_bf16_ld), y);
        return;
    }
    uint32_t columns[4];
    sl_four_columns(column, b.dim, columns);
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        uint64_t place = place_in_rows(at + j, columns[j], b.dim, b.y_bf16_ld);
        y[j] = j < width ? sl_widen(sl_bf16{from[place]}) : 0.0f;
    }
}

template <bool ALIGNED> static __global__ void mask_gradient(struct bias_act_backward b)
{
    uint64_t step = sl_group_step();
    struct sl_column_walk walk = sl_walk_columns(b.dim);
    for (uint64_t group = sl_first_group(); 4 * group < b.n; group += step, sl_walk_on(&walk)) {
        uint64_t at = 4 * group;
        uint32_t width = sl_group_width(at, b.n);
        float dy[4], y[4] = {1.0f, 1.0f, 1.0f, 1.0f};
        sl_load4<ALIGNED>(b.dy + at, width, dy);
        if (b.act != SL_ACT_NONE)
            load_output<ALIGNED>(b, at, walk.column, width, y);
        mask_group(b, group, y, dy);
        sl_store4<ALIGNED>(b.dy + at, width, dy);
    }
}

// Sums of dy's columns into partial (segments, dim), or of the only segment onto dbias. MASKS: of
// the masked dy, which is written.
template <bool ALIGNED, bool MASKS>
__global__ void sum_gradient(struct sl_columns g, struct bias_act_backward b, float *partial,
                             float *dbias)
{
    __shared__ float shared[4 * SL_BLOCK];
    struct sl_column_place at = sl_place<ALIGNED>(g);
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 2
    for (uint64_t r = at.begin + at.y; r < at.end; r += at.ty) {
        float *row = b.dy + r * g.dim, dy[4];
        sl_load_columns<ALIGNED>(g, at, row, dy);
        if (MASKS) { // ALIGNED, and a row is whole groups
            float y[4] = {1.0f, 1.0f, 1.0f, 1.0f};
            if (b.act != SL_ACT_NONE && at.first < g.dim)
                load_output<ALIGNED>(b, r * g.dim + at.first, at.first, 4, y);
            mask_group(b, (r * g.dim + at.first) / 4, y, dy);
            sl_store_columns<ALIGNED>(g, at, row, dy);
        }
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
            sums[j] += dy[j];
    }
    sl_block_columns(g, at, sums, shared);
    if (g.segments > 1) {
        sl_store_partial<ALIGNED>(g, at, sums, partial);
        return;
    }
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
        if (at.y == 0 && sl_column<ALIGNED>(g, at, j) < g.dim)
            dbias[sl_column<ALIGNED>(g, at, j)] += sums[j];
}

struct add_to_bias {
    float *dbias;

    __device__ void operator()(uint32_t column, float sum, float) const
    {
        dbias[column] += sum;
    }
};

static int launch_masks(const struct bias_act_backward *b, bool aligned)
{
    SL_LAUNCH_ALIGNED(aligned, mask_gradient, sl_element_blocks(b->n), SL_BLOCK, 0, *b);
    return SL_OK;
}

static int launch_sums(const struct bias_act_backward *b, uint64_t rows, uint32_t dim, bool aligned,
                       bool masks, float *dbias)
{
    struct sl_columns g = sl_columns_of(rows, dim);
    void *scratch; // large enough for the sums of more than one segment
    SL_TRY(sl_cuda_scratch(&scratch));
    float *partial = static_cast<float *>(scratch);
    dim3 grid = sl_columns_grid(&g);
    if (aligned && masks)
        SL_LAUNCH((sum_gradient<true, true>), grid, SL_BLOCK, 0, g, *b, partial, dbias);
    else if (aligned)
        SL_LAUNCH((sum_gradient<true, false>), grid, SL_BLOCK, 0, g, *b, partial, dbias);
    else
        SL_LAUNCH((sum_gradient<false, false>), grid, SL_BLOCK, 0, g, *b, partial, dbias);
    if (g.segments == 1)
        return SL_OK;
    struct add_to_bias add = {dbias};
    SL_LAUNCH((sl_finish_columns<float, struct add_to_bias>), sl_finish_blocks(dim), SL_BLOCK, 0,
              partial, (const float *)nullptr, g.segments, dim, add);
    return SL_OK;
}

int sl_cuda_bias_act_backward(float *dy, const void *y, uint64_t y_bf16_ld, uint64_t rows,
                              uint32_t dim, enum sl_activation act,
                              const struct sl_dropout *dropout, float *dbias)
{
    SL_TRY(sl_check_bias_act_backward(dy, y, y_bf16_ld, rows, dim, act, dropout, dbias));
    float keep = dropout ? 1.0f - dropout->rate : 1.0f;
    struct bias_act_backward b = {dy,  y,   y_bf16_ld, rows * dim,
                                  dim, act, keep,      sl_mask_of(dropout)};
    bool masks = act != SL_ACT_NONE || b.mask.on;
    bool of_y = y_bf16_ld ? groups_are_whole(y, dim, y_bf16_ld) : (uintptr_t)y % 16 == 0;
    bool aligned = sl_aligned16(dy) && (act == SL_ACT_NONE || of_y);
    if (b.n == 0)
        return SL_OK;
    if (!dbias)
        return masks ? launch_masks(&b, aligned) : SL_OK;
    bool in_rows = aligned && dim % 4 == 0;
    if (masks && !in_rows) {
        SL_TRY(launch_masks(&b, aligned));
        masks = false;
    }
    return launch_sums(&b, rows, dim, in_rows, masks, dbias);
}
