// cpu_internal.h - what the files of this folder share: threads, Philox words, the mask, products.
#ifndef SL_KERNELS_CPU_CPU_INTERNAL_H
#define SL_KERNELS_CPU_CPU_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/simd.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/kernels.h"
#include "kernels/kernels_internal.h"

// ---- threads.c, parallel.c ----------------------------------------------------------------------

/*
 * Calls body(context, part) for every part below n_parts, on the back end's threads, in no stated
 * order. With one thread or one part it is a plain loop: no parallel region is entered.
 */
void sl_cpu_parallel_parts(uint32_t n_parts, void (*body)(void *context, uint32_t part),
                           void *context);

// The calling thread among those of a call: below the caller's sl_cpu_threads().
uint32_t sl_cpu_thread_number(void);

/*
 * Splits 0 .. n into some contiguous ranges a thread, each a multiple of `align` long (but the
 * last) and of at least `grain`: small work stays on the calling thread, and of large work a thread
 * whose core is taken away keeps the others waiting for one range at most.
 */
void sl_cpu_parallel_range(uint64_t n, uint64_t grain, uint64_t align,
                           void (*body)(void *context, uint64_t begin, uint64_t end),
                           void *context);

/*
 * Defines a loop for sl_cpu_parallel_range(), compiled as SL_SIMD does: of `context`, `begin` and
 * `end`. SL_CPU_ROWS() likewise for sl_cpu_parallel_rows().
 */
#define SL_CPU_RANGE(name)                                                                         \
    SL_SIMD_VOID(name, (void *context, uint64_t begin, uint64_t end), (context, begin, end))
#define SL_CPU_ROWS(name)                                                                          \
    SL_SIMD_VOID(name, (const void *context, uint32_t begin, uint32_t end), (context, begin, end))

typedef void sl_cpu_rows_fn(const void *context, uint32_t begin, uint32_t end);

// Calls body for ranges of the rows of csr that together are all, parts as sl_cpu_row_parts() cuts.
void sl_cpu_parallel_rows(const struct sl_csr_view *csr, uint64_t edge_bytes, sl_cpu_rows_fn *body,
                          const void *context);

/*
 * Boundaries of a csr's rows cut into n_parts of about equal work, counted as edges plus rows: part
 * p is rows sl_cpu_row_split(csr, p, n_parts) .. sl_cpu_row_split(csr, p + 1, n_parts).
 */
uint32_t sl_cpu_row_split(const struct sl_csr_view *csr, uint32_t p, uint32_t n_parts);

/*
 * Into how many such parts to cut work that moves `edge_bytes` an edge and a row: one where a
 * single thread does it all or the work is small, otherwise several a thread, because hub rows and
 * other processes on the cores disturb a static split. At most the number of rows.
 */
uint32_t sl_cpu_row_parts(const struct sl_csr_view *csr, uint64_t edge_bytes);
// The same for work that a row can be divided for: more than rows where these have many edges.
uint32_t sl_cpu_edge_parts(const struct sl_csr_view *csr, uint64_t edge_bytes);

// ---- philox.c -----------------------------------------------------------------------------------

enum { SL_CPU_PHILOX_LANES = 32 };

/*
 * words[4 * i ..] = the Philox block at position first + i (64-bit: the high half goes into the
 * group field) of (seed; stream, tag, batch, epoch). n is a multiple of SL_CPU_PHILOX_LANES.
 */
void sl_cpu_philox_words(uint64_t seed, uint32_t stream, uint32_t tag, uint32_t batch,
                         uint32_t epoch, uint64_t first, uint32_t n, uint32_t *words);

// number[l] = word 0 of the block {word0, position[l], batch, epoch} of the seed, for
// SL_CPU_PHILOX_LANES positions.
void sl_cpu_philox_numbers(uint64_t seed, uint32_t word0, const uint32_t *position, uint32_t batch,
                           uint32_t epoch, uint32_t *number);

// ---- bias_act.c ---------------------------------------------------------------------------------

// n numbers of bf16 as f32.
void sl_cpu_widen(const uint16_t *x, uint64_t n, float *to);

// What follows a result (rows, dim), whoever made it.
struct sl_cpu_epilogue {
    uint32_t dim;
    const float *bias; // (dim) or NULL
    enum sl_activation act;
    const struct sl_dropout *dropout; // NULL when off; element (i, j) is i * dim + j
    uint16_t *rounded;                // (rows, rounded_ld) what y becomes, as bf16; or NULL
    uint64_t rounded_ld;
};

// Rows begin .. end of columns first .. last, which stand at `y`, by the calling thread; all of
// y (rows, ld), by all threads. Bits do not depend on how y is cut.
void sl_cpu_epilogue_apply(const struct sl_cpu_epilogue *e, uint64_t begin, uint64_t end,
                           uint32_t first, uint32_t last, float *y, uint64_t ld);
void sl_cpu_epilogue_pass(const struct sl_cpu_epilogue *e, uint64_t rows, float *y, uint64_t ld);

// What comes before the first reading of a gradient dy (rows, dim): bias_act_backward.
struct sl_cpu_prologue {
    float *dy;
    uint64_t rows;
    uint32_t dim;
    struct sl_bias_act_gradient of;
    float *sums; // (chunks, dim) for _rows
};

enum { SL_CPU_PROLOGUE_ROWS = 256 }; // of a chunk, whose columns are summed by themselves

// All of it, by all threads.
void sl_cpu_prologue_pass(const struct sl_cpu_prologue *p);
// The same in pieces: _begin; then rows begin .. end, which are whole chunks or end with the last
// one, by the calling thread; _finish once all rows are done. Bits do not depend on how they are
// cut.
int sl_cpu_prologue_begin(struct sl_cpu_prologue *p, struct sl_mempool *ws);
void sl_cpu_prologue_rows(const struct sl_cpu_prologue *p, uint64_t begin, uint64_t end);
void sl_cpu_prologue_finish(const struct sl_cpu_prologue *p);

// ---- dropout.c ----------------------------------------------------------------------------------

// Masks and scales x[0 .. n), which are elements first .. first + n of the layer.
void sl_cpu_dropout_span(const struct sl_dropout *dropout, uint64_t first, uint64_t n, float *x);

static inline int sl_cpu_dropout_is_on(const struct sl_dropout *dropout)
{
    return dropout && dropout->rate > 0.0f;
}

// ---- gemm.c, gemm_blocks.c, gemm_list.c ---------------------------------------------------------

// How bf16 products are made; AUTO asks the processor. Set by tests and measurements.
enum sl_cpu_bf16_path {
    SL_CPU_BF16_AUTO,
    SL_CPU_BF16_ROUNDED, // of f32 numbers that bf16 can hold
    SL_CPU_BF16_PAIRS,   // by the processor's instruction, where sl_isa_has_bf16()
    SL_CPU_BF16_AMX,     // by that for whole tiles, where sl_isa() is SL_ISA_AMX
};
void sl_cpu_gemm_set_bf16_path(enum sl_cpu_bf16_path path);
enum sl_cpu_bf16_path sl_cpu_gemm_bf16_path(void); // never AUTO

// Whether products leave out the zeros of a (gemm_list.c); AUTO looks at it. Set by tests and
// measurements.
enum sl_cpu_lists { SL_CPU_LISTS_AUTO, SL_CPU_LISTS_NEVER, SL_CPU_LISTS_ALWAYS };
void sl_cpu_gemm_set_lists(enum sl_cpu_lists lists);

// Two matrices, which are multiplied along k.
struct sl_cpu_operands {
    uint64_t k;
    const void *a, *b; // op(a) (m, k), op(b) (k, n): f32, or bf16
    uint64_t lda, ldb;
    int a_bf16, b_bf16;
};

static inline struct sl_cpu_rows sl_cpu_rows_a(const struct sl_cpu_operands *of)
{
    return (struct sl_cpu_rows){of->a, of->lda, of->a_bf16};
}

static inline struct sl_cpu_rows sl_cpu_rows_b(const struct sl_cpu_operands *of)
{
    return (struct sl_cpu_rows){of->b, of->ldb, of->b_bf16};
}

// c (m, n) = alpha op(a) op(b) + beta c, row-major; of[1] adds a second such product in the same
// pass over c, with the bits of one after the other. Sizes are at least 1, but of[1].k may be 0.
struct sl_cpu_gemm {
    enum sl_transpose ta, tb;
    uint64_t m, n;
    struct sl_cpu_operands of[2]; // a second one only where a is not transposed
    float alpha, beta;
    float *c; // NULL: what follows is all that is kept of it, as bf16; beta is 0 then
    uint64_t ldc;
    // Of c, applied while it is in the cache, or NULL; not where a is transposed.
    const struct sl_cpu_epilogue *after;
    // Of a, which it is applied to before it is read, or NULL; likewise, but where a is transposed.
    struct sl_cpu_prologue *before;
    // A second product of the same a, or n is 0; where a is transposed and b is not.
    struct sl_weight_gradient twin;
    int twin_bf16; // its b
};

// Whether c need not be kept: all of k is added to a block of rows before the next one.
int sl_cpu_gemm_fits_blocks(enum sl_cpu_words words, const struct sl_cpu_gemm *g);
// Bits depend on the operands alone.
int sl_cpu_gemm_blocks(enum sl_cpu_words words, const struct sl_cpu_gemm *g, struct sl_mempool *ws);

// Sums of `segments` parts of a long k: those of the first are in c (m, n), the others' in `sums`
// (segments - 1, m, n), and are added to c in order.
struct sl_cpu_segments {
    uint64_t m, n, segments;
    const float *sums;
    float *c;
    uint64_t ldc;
};
void sl_cpu_gemm_add_segments(struct sl_cpu_segments *s);

#endif
