/*
 * gemm_tile.h - the innermost loop of a product: one tile of c from one panel of a and one of b.
 *
 * A tile has `mr` rows and up to three vectors of columns. Every element is one chain of
 * multiply-adds over k in ascending order, in a register of its own, whatever its row and column:
 * that is what makes an element's bits a function of its row of a, its column of b and k alone.
 *
 * Operands are words of 32 bits along k: a word is one f32, or a pair of bf16 that follow each
 * other in k, the first in the lower half, which one instruction multiplies and adds.
 */
#ifndef SL_KERNELS_CPU_GEMM_TILE_H
#define SL_KERNELS_CPU_GEMM_TILE_H

#include <stdint.h>

enum {
    // k is cut at multiples of so many words, and the parts are added up in order.
    SL_TILE_K = 256,
    // Packed rows of an a that is not transposed stand this far apart (no power of two).
    SL_TILE_A_STRIDE = SL_TILE_K + 16,
    SL_TILE_VECTORS_MAX = 3,
    SL_TILE_LINE = 16,   // words
    SL_LIST_STEP = 4,    // entries; lists end with zeros
    SL_LIST_SLICE = 128, // words of k: as many rows of a panel fit the first-level cache
    SL_LIST_VECTORS_MAX = 4,
};

// An operand in memory: rows of f32, or of bf16.
struct sl_cpu_rows {
    const void *p;
    uint64_t ld;
    int bf16;
};

static inline struct sl_cpu_rows sl_cpu_rows_from(struct sl_cpu_rows x, uint64_t element)
{
    x.p = (const char *)x.p + element * (x.bf16 ? sizeof(uint16_t) : sizeof(float));
    return x;
}

struct sl_cpu_tile {
    uint64_t k;     // words, at most SL_TILE_K
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

// Rows of a as lists of their words that are not zero (gemm_list.c), in ascending k.
struct sl_cpu_list {
    // (rows, slices) and one more: where the entries of a row in a slice of k begin, a multiple of
    // SL_LIST_STEP.
    uint32_t *begin;
    uint32_t *at; // where in a panel of b the row of k begins, in floats
    float *word;
    uint64_t slices;        // of SL_LIST_SLICE words
    float *panels, *turned; // scratch
};

// Lines that are read later: of rows of `width` words of 4 bytes, `rows` in all.
struct sl_cpu_lines {
    const float *row;
    uint64_t ld, width, rows, column;
};

// Rows of c from a slice of lists and one panel of b.
struct sl_cpu_listed {
    const struct sl_cpu_list *list;
    uint64_t slice;
    const float *b;
    float *sums; // (rows, listed_nr) from slice to slice
    float *c;    // (rows, columns) with ldc: written in the last slice
    uint64_t ldc;
    uint64_t rows, columns; // at most listed_nr
    float alpha;
    int accumulate;
    struct sl_cpu_lines *next; // of the two operands
    uint64_t fetches;          // of their lines, a row
};

// What the words of a tile's operands hold.
enum sl_cpu_words {
    SL_CPU_WORDS_F32,
    SL_CPU_WORDS_ROUNDED, // f32 that bf16 can hold
    SL_CPU_WORDS_PAIRS,   // of bf16; where sl_isa_has_bf16()
};

struct sl_cpu_tiles {
    uint32_t mr, lanes, nr;
    // [a is transposed][vectors of columns - 1]
    void (*multiply[2][SL_TILE_VECTORS_MAX])(const struct sl_cpu_tile *t);
    uint32_t listed_nr; // columns of a panel for lists; 0 = none
    void (*listed[SL_LIST_VECTORS_MAX])(const struct sl_cpu_listed *t);
    // Before a thread's first tile and behind its last one. Tiles that have them (AMX) take k in
    // whole lines of words, zeros behind the last, and a as rows whichever way it lies.
    void (*begin)(void), (*end)(void);
};

// Those of the instruction set in use (common/base/isa.h); amx: of pairs those for AMX.
const struct sl_cpu_tiles *sl_cpu_gemm_tiles(enum sl_cpu_words words, int amx);

extern const struct sl_cpu_tiles sl_cpu_gemm_amx; // gemm_amx.c

// ---- gemm_pack.c --------------------------------------------------------------------------------

// How many values of k a word holds.
static inline uint64_t sl_cpu_per_word(enum sl_cpu_words words)
{
    return words == SL_CPU_WORDS_PAIRS ? 2 : 1;
}

// Words from a panel of `width` columns to the next. A power of two between them would put all of
// them into the same sets of the cache.
static inline uint64_t sl_cpu_panel_words(uint64_t width)
{
    return SL_TILE_K * width + SL_TILE_LINE;
}

/*
 * A matrix as words in panels (words of k, width), with zeros behind its last column and, in the
 * last word, behind its last row: x (k, columns), or with `trans` x (columns, k). k is at most that
 * of SL_TILE_K words.
 */
void sl_cpu_gemm_pack(enum sl_cpu_words words, int trans, struct sl_cpu_rows x, uint64_t k,
                      uint64_t columns, uint64_t width, float *panels);

// One row of k values as words, those of x from its begin on.
void sl_cpu_gemm_pack_row(enum sl_cpu_words words, struct sl_cpu_rows x, uint64_t k, float *to);

// A packed panel of SL_TILE_LINE columns as rows of words, `ld` words apart.
void sl_cpu_gemm_turn(const float *panel, uint64_t words, float *rows, uint64_t ld);

// ---- gemm_list.c --------------------------------------------------------------------------------

// Whether lists are faster than all of x (rows, columns), as far as some of its rows say; each
// element is multiplied `used` times. They change no bit.
int sl_cpu_gemm_lists_pay(enum sl_cpu_words words, struct sl_cpu_rows x, uint64_t rows,
                          uint64_t columns, uint64_t used);

// Memory for the lists of `rows` rows and at most SL_TILE_K words of k.
uint64_t sl_cpu_gemm_list_floats(int trans, uint64_t rows);
// Returns what follows them.
float *sl_cpu_gemm_list_place(float *memory, int trans, uint64_t rows, struct sl_cpu_list *list);

// The lists of x (rows, k), or with `trans` of x (k, rows); b's panels have `step` floats a word.
void sl_cpu_gemm_list(enum sl_cpu_words words, int trans, struct sl_cpu_rows x, uint64_t k,
                      uint64_t rows, uint64_t step, struct sl_cpu_list *list);

#endif
