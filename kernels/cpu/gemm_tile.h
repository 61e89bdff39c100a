/*
 * gemm_tile.h - the innermost loop of a product: one tile of c from one panel of a and one of b.
 *
 * A tile has `mr` rows and up to three vectors of columns. Every element is one chain of
 * multiply-adds over k in ascending order, in a register of its own, whatever its row and column:
 * that is what makes an element's bits a function of its row of a, its column of b and k alone.
 */
#ifndef SL_KERNELS_CPU_GEMM_TILE_H
#define SL_KERNELS_CPU_GEMM_TILE_H

#include <stdint.h>

enum {
    // k is cut at multiples of this, and the parts are added up in order.
    SL_TILE_K = 256,
    // Packed rows of an a that is not transposed stand this far apart (no power of two).
    SL_TILE_A_STRIDE = SL_TILE_K + 16,
    SL_TILE_VECTORS_MAX = 3,
};

struct sl_cpu_tile {
    uint64_t k;     // at most SL_TILE_K
    const float *a; // (mr, k) with lda, or transposed: a panel (k, mr) dense
    const float *b; // (k, columns in whole vectors) with ldb
    uint64_t lda, ldb;
    // Where a is transposed, what is multiplied later: step k fetches next[(k >> shift) * ld_next].
    const float *next;
    uint64_t ld_next, next_shift;
    float *c; // (rows, columns) with ldc
    uint64_t ldc;
    uint64_t rows, columns; // what is written: at most mr and nr
    float alpha;
    int accumulate; // c += alpha a b; else c = alpha a b and the old c is not read
};

struct sl_cpu_tiles {
    uint32_t mr, lanes, nr;
    // [a is transposed][vectors of columns - 1]
    void (*multiply[2][SL_TILE_VECTORS_MAX])(const struct sl_cpu_tile *t);
};

// Those of the instruction set in use (common/base/isa.h).
const struct sl_cpu_tiles *sl_cpu_gemm_tiles(void);

#endif
