/*
 * Products whose bits depend on the operands alone: of f32, or of f32 rounded to bf16, which are
 * multiplied in pairs where the processor can (gemm_tile.h says what a word is). A step of k is a
 * word, and all that follows is the same for each kind of them.
 *
 * Problem. A library's sgemm chooses among kernels by the number of rows, columns and threads, and
 * splits a long reduction over threads. Each choice rounds in another order: a row's result would
 * depend on how many rows stand beside it, and a weight's gradient on the number of cores.
 *
 * Design. k is cut at multiples of SL_TILE_K and nowhere else. Within a part an element is one
 * chain of multiply-adds in ascending k (gemm_tile.h); the parts are added to c in order. Every
 * tile has the same shape: rows that are missing are computed from zeros and not written. Threads
 * divide rows and columns of c, so where they divide, and in what order blocks are visited, changes
 * no bit.
 *
 * Where a is transposed (weight gradients) k is a batch's rows and c is small: threads that divide
 * c would each read most of both operands. There a long k has segments, as many as k alone says.
 * One thread adds up all of a segment: the first one in c, each of the others in a matrix of its
 * own; these are added to c in order.
 *
 * A part of the work packs what it reads often: b's columns into panels of `nr` of SL_TILE_K rows,
 * a transposed a's rows into panels of `mr`. b's panels (about 256 KiB) stay in the second-level
 * cache while a's stream by. Panels are a line longer than they need to be, since a power of two
 * between them would put all of them into the same sets of the cache. What is read once or a few
 * times stays where it is: rows of a, and b where c has few rows and vectors are wide.
 *
 * Two products of the same transposed a (a layer's weight gradients) go side by side, part of k by
 * part of k, so that what is made of a is made once.
 *
 * Where most of a is zero, lists of the rest take its place (gemm_list.c): wider panels of b, and
 * tiles of one row. They change no bit, so a sample of a may decide.
 *
 *                      b: panels of nr columns
 *                     +----+----+----+
 *                 k   | ---> packed  |
 *                     +----+----+----+
 *     a: +---k---+    +----+----+----+
 *     mr | panel |    |tile|tile|tile|  c: block of BLOCK_ROWS rows, panel by panel
 *        +-------+    +----+----+----+
 *
 * What follows a product (bias, activation, dropout) is applied to a block of c when all of k has
 * been added to it, while it is in the cache. What comes before a weight gradient (the mask of dy,
 * and its columns' sums) is applied to a part of k when it is packed, where one thread reads it.
 *
 * Where the reduction is long and c is small (weight gradients) operands stream from memory and are
 * used for a short time: each tile fetches a line of some rows of the next part of k, one at a
 * time, since a burst of them fills the line-fill buffers and stalls the tile's own reads.
 */
#include "kernels/cpu/cpu_internal.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/vector.h"

enum {
    // In whole tiles; their part of c stays in a cache: of the first level, or where packing a of
    // them is to be worth it, of the second.
    BLOCK_ROWS = 24,
    BLOCK_ROWS_TRANS = 240,
    BLOCK_ROWS_LISTED = 256, // so that a panel of b is read often enough
    BLOCK_COLUMNS = 288,     // most columns of b that are packed at once
    PARTS_AT_ONCE = 8,       // of k, where there are many rows to use them: c is met block by block
    MANY_ROWS = 960,
    THREAD_ROWS = 256,         // fewer repeat too much packing of b;
    THREAD_ROWS_TRANS = 128,   // but packing a transposed a costs as much
    THREAD_PRODUCTS = 1 << 18, // fewer are not worth a thread
    PARTS_PER_THREAD = 4,
    SEGMENTS_MAX = 8,      // of k; a power of two
    SEGMENT_MIN = 2048,    // of k: adding up fewer takes more than one in a hundred
    SUMS_FLOATS = 1 << 21, // of segments' sums: beyond them c is met band by band
    FEW_ROWS = 64,         // of c: fewer do not repay packing b for wide vectors
    LINE = SL_TILE_LINE,
};

struct product {
    const struct sl_cpu_tiles *tiles;
    enum sl_cpu_words words;
    uint64_t per_word; // values of k
    int a_trans, b_trans, b_packed;
    int listed[2]; // of each: a as lists of what is not zero
    uint64_t m, n;
    struct sl_cpu_operands of[2];
    uint64_t parts_of[2], parts; // of k: of each, of both
    float alpha;
    int accumulate;
    float *c; // NULL: a block of it at a time, in the thread's scratch
    uint64_t ldc;
    const struct sl_cpu_epilogue *after;
    const struct sl_cpu_prologue *before;
    uint64_t segments;
    float *sums; // of the second segment and those behind it: (segments - 1, m, n)
    // How threads divide c, in multiples of a tile.
    uint64_t part_rows, part_columns, parts_down, parts_across;
    uint64_t parts_at_once, block_columns, block_rows;
    // For each thread: panels of b and its twin, those of a, a block of c.
    float *scratch;
    uint64_t scratch_floats, b_floats, a_floats;
    const struct product *twin; // of the same a, and cut where this one is; or NULL
};

// Elements of a row in a line of the cache.
SL_INLINE uint64_t per_line(struct sl_cpu_rows x)
{
    return x.bf16 ? 2 * LINE : LINE;
}

SL_INLINE void prefetch_rows(struct sl_cpu_rows x, uint64_t begin, uint64_t end, uint64_t columns)
{
    const uint64_t each = x.bf16 ? sizeof(uint16_t) : sizeof(float);
    const char *row = sl_cpu_rows_from(x, begin * x.ld).p;
    for (uint64_t i = begin; i < end; i++, row += x.ld * each)
        for (uint64_t j = 0; j < columns * each; j += SL_CACHE_LINE)
            __builtin_prefetch(row + j, 0, 2);
}

// A part of k: words k0 on of a pair of operands.
struct part {
    const struct sl_cpu_operands *of;
    uint64_t first, values; // of k
    uint64_t words;         // that tiles take
    int listed;
};

// By AMX: k in whole lines, a as rows.
SL_INLINE int in_lines(const struct product *p)
{
    return p->tiles->begin != NULL;
}

static struct part part_at(const struct product *p, uint64_t i)
{
    const int second = i >= p->parts_of[0];
    const struct sl_cpu_operands *of = &p->of[second];
    const uint64_t step = SL_TILE_K * p->per_word;
    const uint64_t first = (second ? i - p->parts_of[0] : i) * step;
    const uint64_t values = SL_MIN(of->k - first, step);
    const uint64_t words = sl_div_up(values, p->per_word);
    return (struct part){of, first, values, in_lines(p) ? sl_align_up(words, LINE) : words,
                         p->listed[second]};
}

// Where the part begins in row `i` of a; in column `j` of b.
static struct sl_cpu_rows a_at(const struct product *p, const struct part *part, uint64_t i)
{
    const uint64_t ld = part->of->lda;
    return sl_cpu_rows_from(sl_cpu_rows_a(part->of),
                            p->a_trans ? part->first * ld + i : i * ld + part->first);
}

static struct sl_cpu_rows b_at(const struct product *p, const struct part *part, uint64_t j)
{
    const uint64_t ld = part->of->ldb;
    return sl_cpu_rows_from(sl_cpu_rows_b(part->of),
                            p->b_trans ? j * ld + part->first : part->first * ld + j);
}

// Whether rows of a, which is not transposed, are words as they lie.
static int lies_in_words(const struct product *p, const struct part *part)
{
    if (p->words != SL_CPU_WORDS_PAIRS)
        return p->words == SL_CPU_WORDS_F32;
    return part->of->a_bf16 && part->of->lda % 2 == 0 && part->values == 2 * part->words;
}

// One panel of a that is not transposed: rows as they are.
static void pack_a_rows(const struct product *p, const struct part *part, uint64_t i0,
                        uint64_t rows, float *panel)
{
    const uint64_t packed = sl_div_up(part->values, p->per_word);
    for (uint64_t i = 0; i < p->tiles->mr; i++, panel += SL_TILE_A_STRIDE) {
        const uint64_t words = i < rows ? packed : 0;
        if (i < rows)
            sl_cpu_gemm_pack_row(p->words, a_at(p, part, i0 + i), part->values, panel);
        memset(panel + words, 0, (part->words - words) * sizeof *panel);
    }
}

static void pack_panels(const struct product *p, const struct part *part, int trans,
                        struct sl_cpu_rows x, uint64_t columns, uint64_t width, float *panels)
{
    const uint64_t packed = sl_div_up(part->values, p->per_word), left = part->words - packed;
    sl_cpu_gemm_pack(p->words, trans, x, part->values, columns, width, panels);
    for (uint64_t j = 0; left > 0 && j < columns; j += width, panels += sl_cpu_panel_words(width))
        memset(panels + packed * width, 0, left * width * sizeof *panels);
}

// ---- blocks -------------------------------------------------------------------------------------

// A rectangle of c for a segment of k, by one thread.
struct block {
    const struct product *of;
    uint64_t m0, m1, n0, n1;
    uint64_t part0, part1; // of k
    float *whole;          // all of c, or NULL
    float *c;              // rows m0 on of columns n0 on
    uint64_t ldc;
    int accumulate;
    float *a_panels, *b_panels;
    struct sl_cpu_list *list; // in a_panels
    int a_is_there;           // a_panels are made: by the twin
};

// Rows of a that is transposed.
static void pack_a(const struct product *p, const struct block *block, const struct part *part)
{
    const struct sl_cpu_rows a = a_at(p, part, block->m0);
    const uint64_t rows = block->m1 - block->m0;
    if (!in_lines(p)) {
        pack_panels(p, part, 0, a, rows, p->tiles->mr, block->a_panels);
        return;
    }
    float *to = block->a_panels, *panel = to + sl_align_up(rows, LINE) * SL_TILE_A_STRIDE;
    pack_panels(p, part, 0, a, rows, LINE, panel);
    for (uint64_t i = 0; i < rows; i += LINE, panel += sl_cpu_panel_words(LINE))
        sl_cpu_gemm_turn(panel, part->words, to + i * SL_TILE_A_STRIDE, SL_TILE_A_STRIDE);
}

// What tile `i` of `n` fetches of a later part: a line's width of some rows of an operand.
static void fetch_next(const struct product *p, const struct block *block, uint64_t later,
                       uint64_t i, uint64_t n, struct sl_cpu_tile *t)
{
    const struct sl_cpu_operands *of =
        &p->of[0]; // a second product has an a that is not transposed
    const uint64_t in_a = per_line(sl_cpu_rows_a(of)), in_b = per_line(sl_cpu_rows_b(of));
    const uint64_t of_a = sl_div_up(block->m1 - block->m0, in_a);
    const uint64_t lines = of_a + sl_div_up(block->n1 - block->n0, in_b);
    const uint64_t least = p->per_word - 1; // since a step fetches one row
    uint64_t shift = least;                 // 2^shift tiles share the rows
    while (shift < 4 && lines << (shift + 1) <= n)
        shift++;
    const uint64_t line = i >> shift;
    const uint64_t rows = SL_TILE_K * p->per_word >> shift;
    const uint64_t row = (i & ((1u << shift) - 1)) * rows;
    t->next = t->a, t->ld_next = 0, t->next_shift = shift - least;
    if (line >= lines || later >= block->part1)
        return;
    const struct part part = part_at(p, later);
    if (row + rows > part.values)
        return;
    const struct sl_cpu_rows next = line < of_a ? a_at(p, &part, block->m0 + line * in_a)
                                                : b_at(p, &part, block->n0 + (line - of_a) * in_b);
    t->ld_next = next.bf16 ? next.ld / 2 : next.ld;
    t->next = sl_cpu_rows_from(next, row * next.ld).p;
}

// The tile's rows of a, packed if they have to be; the next ones are prefetched.
static void set_rows(const struct product *p, const struct block *block, const struct part *part,
                     uint64_t i, struct sl_cpu_tile *t)
{
    const uint64_t mr = p->tiles->mr, next = i + mr;
    t->a = t->next = block->a_panels;
    t->lda = SL_TILE_A_STRIDE;
    if (p->a_trans) {
        t->a += in_lines(p) ? (i - block->m0) * SL_TILE_A_STRIDE
                            : (i - block->m0) / mr * sl_cpu_panel_words(mr);
        return;
    }
    if (t->rows == mr && lies_in_words(p, part)) {
        t->a = a_at(p, part, i).p;
        t->lda = part->of->lda / p->per_word;
    } else {
        pack_a_rows(p, part, i, t->rows, block->a_panels);
    }
    prefetch_rows(a_at(p, part, 0), next, SL_MIN(next + mr, p->m), part->values);
}

static struct sl_cpu_lines lines_from(struct sl_cpu_rows x, uint64_t width, uint64_t rows)
{
    const uint64_t in_word = x.bf16 ? 2 : 1;
    return (struct sl_cpu_lines){
        .row = x.p, .ld = x.ld / in_word, .width = sl_div_up(width, in_word), .rows = rows};
}

// What is read for a later part of k.
static void lines_of(const struct product *p, const struct block *block, uint64_t later,
                     struct sl_cpu_lines lines[2])
{
    if (!p->a_trans || p->b_trans || later >= block->part1)
        return;
    const struct part part = part_at(p, later);
    if (!block->a_is_there)
        lines[0] = lines_from(a_at(p, &part, block->m0), block->m1 - block->m0, part.values);
    lines[1] = lines_from(b_at(p, &part, block->n0), block->n1 - block->n0, part.values);
}

// Adds one part of k without the zeros of a. Panel by panel, since b is what the tiles read.
static void multiply_listed(const struct product *p, const struct block *block, uint64_t index,
                            int accumulate, const float *panels)
{
    const struct part part = part_at(p, index);
    const uint64_t nr = p->tiles->listed_nr;
    struct sl_cpu_list *list = block->list;
    struct sl_cpu_lines next[2] = {{0}};
    struct sl_cpu_listed t = {.list = list,
                              .ldc = block->ldc,
                              .rows = block->m1 - block->m0,
                              .alpha = p->alpha,
                              .accumulate = accumulate,
                              .next = next};
    t.sums = sl_cpu_gemm_list_place(block->a_panels, p->a_trans, p->block_rows, list);
    if (!block->a_is_there)
        sl_cpu_gemm_list(p->words, p->a_trans, a_at(p, &part, block->m0), part.values, t.rows, nr,
                         list);
    lines_of(p, block, index + 1, next);
    const uint64_t lines = part.values * (sl_div_up(block->m1 - block->m0, LINE) +
                                          sl_div_up(block->n1 - block->n0, LINE));
    t.fetches = sl_div_up(lines, t.rows * list->slices * sl_div_up(block->n1 - block->n0, nr));
    for (uint64_t j = block->n0; j < block->n1; j += nr, panels += sl_cpu_panel_words(nr)) {
        t.b = panels;
        t.c = block->c + (j - block->n0);
        t.columns = SL_MIN(nr, block->n1 - j);
        for (t.slice = 0; t.slice < list->slices; t.slice++)
            p->tiles->listed[(t.columns - 1) / p->tiles->lanes](&t);
    }
}

// Adds one part of k: `panels` are those of b for it.
static void multiply_part(const struct product *p, const struct block *block, uint64_t index,
                          const float *panels)
{
    const struct sl_cpu_tiles *tiles = p->tiles;
    const uint64_t mr = tiles->mr, nr = tiles->nr;
    const uint64_t across = sl_div_up(block->n1 - block->n0, nr);
    const uint64_t n_tiles = across * sl_div_up(block->m1 - block->m0, mr);
    const int streams = p->a_trans && !p->b_trans && p->parts_at_once == 1 && !in_lines(p);
    const struct part part = part_at(p, index);
    struct sl_cpu_tile t = {.k = part.words,
                            .ldc = block->ldc,
                            .alpha = p->alpha,
                            .accumulate = block->accumulate || index > block->part0};
    if (part.listed) {
        multiply_listed(p, block, index, t.accumulate, panels);
        return;
    }
    if (p->a_trans && !block->a_is_there)
        pack_a(p, block, &part);
    uint64_t done = 0;
    for (uint64_t i = block->m0; i < block->m1; i += mr) {
        t.rows = SL_MIN(mr, block->m1 - i);
        set_rows(p, block, &part, i, &t);
        const float *panel = panels;
        for (uint64_t j = block->n0; j < block->n1; j += nr, panel += sl_cpu_panel_words(nr)) {
            t.columns = SL_MIN(nr, block->n1 - j);
            t.b = p->b_packed ? panel : b_at(p, &part, j).p;
            t.ldb = p->b_packed ? nr : part.of->ldb;
            t.c = block->c + (i - block->m0) * block->ldc + (j - block->n0);
            if (streams)
                fetch_next(p, block, index + 1, done++, n_tiles, &t);
            tiles->multiply[p->a_trans][(t.columns - 1) / tiles->lanes](&t);
        }
    }
}

// Words of b's panels for one part of k.
static uint64_t panels_words(const struct product *p)
{
    return p->b_floats / p->parts_at_once;
}

static void pack_b(const struct block *block, uint64_t first, uint64_t end)
{
    const struct product *p = block->of;
    float *panels = block->b_panels;
    for (uint64_t i = first; p->b_packed && i < end; i++, panels += panels_words(p)) {
        const struct part part = part_at(p, i);
        pack_panels(p, &part, p->b_trans, b_at(p, &part, block->n0), block->n1 - block->n0,
                    part.listed ? p->tiles->listed_nr : p->tiles->nr, panels);
    }
}

// All of k for a few hundred columns, of one product or of two.
static void multiply_columns(struct block blocks[2], uint32_t n_blocks)
{
    const struct product *p = blocks[0].of;
    const uint64_t m0 = blocks[0].m0, m1 = blocks[0].m1, part1 = blocks[0].part1;
    for (uint64_t first = blocks[0].part0; first < part1; first += p->parts_at_once) {
        const uint64_t end = SL_MIN(first + p->parts_at_once, part1);
        for (uint32_t b = 0; b < n_blocks; b++)
            pack_b(&blocks[b], first, end);
        if (p->before && blocks[0].n0 == 0) { // no block has read these rows of a
            const struct part from = part_at(p, first), last = part_at(p, end - 1);
            sl_cpu_prologue_rows(p->before, from.first, last.first + last.values);
        }
        for (uint64_t row = m0; row < m1; row += p->block_rows) {
            const uint64_t row_end = SL_MIN(row + p->block_rows, m1);
            for (uint64_t i = first; i < end; i++)
                for (uint32_t b = 0; b < n_blocks; b++) {
                    struct block *block = &blocks[b];
                    block->m0 = row, block->m1 = row_end;
                    if (block->whole)
                        block->c = block->whole + row * block->ldc + block->n0;
                    multiply_part(block->of, block, i,
                                  block->b_panels + (i - first) * panels_words(block->of));
                }
            if (p->after && end == part1)
                sl_cpu_epilogue_apply(p->after, row, row_end, (uint32_t)blocks[0].n0,
                                      (uint32_t)blocks[0].n1, blocks[0].c, blocks[0].ldc);
        }
    }
}

// The part's rows and columns of c, and its segment of k.
static struct block block_at(const struct product *p, uint64_t part)
{
    const uint64_t segment = part % p->segments, rectangle = part / p->segments;
    const uint64_t m0 = rectangle % p->parts_down * p->part_rows;
    const uint64_t n0 = rectangle / p->parts_down * p->part_columns;
    struct block block = {.of = p,
                          .m0 = m0,
                          .m1 = SL_MIN(m0 + p->part_rows, p->m),
                          .n0 = n0,
                          .n1 = SL_MIN(n0 + p->part_columns, p->n),
                          .part0 = p->parts * segment / p->segments,
                          .part1 = p->parts * (segment + 1) / p->segments,
                          .whole = p->c,
                          .ldc = p->c ? p->ldc : p->block_columns,
                          .accumulate = p->accumulate};
    if (segment > 0) {
        block.whole = p->sums + (segment - 1) * p->m * p->n;
        block.ldc = p->n;
        block.accumulate = 0;
    }
    return block;
}

static void multiply_blocks(const struct product *p, uint32_t part)
{
    const struct product *const both[] = {p, p->twin};
    float *scratch = p->scratch + (uint64_t)sl_cpu_thread_number() * p->scratch_floats;
    struct sl_cpu_list list;
    for (uint64_t at = 0;; at++) {
        struct block blocks[2];
        uint32_t n_blocks = 0;
        for (uint32_t i = 0; i < 2 && both[i]; i++) {
            struct block block = block_at(both[i], part);
            block.n0 += at * both[i]->block_columns;
            block.n1 = SL_MIN(block.n0 + both[i]->block_columns, block.n1);
            block.b_panels = i > 0 ? scratch + p->b_floats : scratch;
            block.a_panels = scratch + p->b_floats + (p->twin ? p->twin->b_floats : 0);
            block.c = block.a_panels + p->a_floats;
            block.list = &list;
            block.a_is_there = n_blocks > 0;
            if (block.m0 < block.m1 && block.n0 < block.n1) // else the last band, or narrower
                blocks[n_blocks++] = block;
        }
        if (n_blocks == 0)
            return;
        multiply_columns(blocks, n_blocks);
    }
}

static void multiply_rectangle(void *context, uint32_t part)
{
    const struct product *p = context;
    if (p->tiles->begin)
        p->tiles->begin();
    multiply_blocks(p, part);
    if (p->tiles->end)
        p->tiles->end();
}

// ---- products -----------------------------------------------------------------------------------

// A power of two.
static uint64_t segments_of(uint64_t k)
{
    uint64_t segments = 1;
    while (segments < SEGMENTS_MAX && k >= 2 * segments * SEGMENT_MIN)
        segments *= 2;
    return segments;
}

// Divides c among the threads that there is work for; returns into how many parts.
static uint64_t divide(struct product *p)
{
    const uint64_t mr = p->tiles->mr, nr = p->tiles->nr;
    const uint64_t panels = sl_div_up(p->n, nr), strips = sl_div_up(p->m, mr);
    const uint64_t words = (p->of[0].k + p->of[1].k) / p->per_word;
    const uint64_t worth = SL_MAX(p->m * p->n * words / THREAD_PRODUCTS, 1);
    uint64_t threads = SL_MIN((uint64_t)sl_cpu_threads(), worth);
    // So many that, with the segments, each thread has an equal share.
    for (uint64_t left = p->segments; left > 1 && threads % 2 == 0; left /= 2)
        threads /= 2;
    uint64_t down = 1, across = 1;
    if (threads > 1) {
        const uint64_t rows = p->a_trans ? THREAD_ROWS_TRANS : THREAD_ROWS;
        down = SL_MIN(SL_MAX(p->m / rows, 1), threads * PARTS_PER_THREAD);
        across = SL_MIN(panels, sl_div_up(threads, down));
        if (down * across < threads) // too few columns
            down = SL_MIN(strips, sl_div_up(threads, across));
    }
    p->part_rows = sl_div_up(strips, down) * mr;
    p->part_columns = sl_div_up(panels, across) * nr;
    p->parts_down = sl_div_up(p->m, p->part_rows);
    p->parts_across = sl_div_up(p->n, p->part_columns);
    return p->parts_down * p->parts_across;
}

static uint64_t panels_floats(uint64_t columns, uint64_t width)
{
    return sl_div_up(columns, width) * sl_cpu_panel_words(width);
}

// What a becomes is as sparse as the output whose gradient it is.
static int lists_pay(const struct product *p, const struct sl_cpu_operands *of)
{
    if (of->k == 0 || p->tiles->listed_nr == 0)
        return 0;
    struct sl_cpu_rows a = sl_cpu_rows_a(of);
    if (!p->a_trans)
        return sl_cpu_gemm_lists_pay(p->words, a, p->m, of->k, p->n);
    if (p->before && p->before->of.act != SL_ACT_NONE) {
        const uint64_t ld = p->before->of.y_bf16_ld;
        a = (struct sl_cpu_rows){p->before->of.y, ld ? ld : of->lda, ld != 0};
    }
    return sl_cpu_gemm_lists_pay(p->words, a, of->k, p->m, p->n);
}

// What depends on n, once c is divided.
static void cut_columns(struct product *p)
{
    const uint64_t nr = p->tiles->nr;
    const int lists = p->listed[0] || p->listed[1];
    p->part_columns = sl_div_up(sl_div_up(p->n, nr), p->parts_across) * nr;
    const uint64_t columns = SL_MIN(p->n, p->part_columns);
    const uint64_t blocks = sl_div_up(columns, BLOCK_COLUMNS);
    p->block_columns = sl_div_up(sl_div_up(columns, blocks), nr) * nr;
    p->b_floats =
        p->parts_at_once * SL_MAX(panels_floats(p->block_columns, nr),
                                  lists ? panels_floats(p->block_columns, p->tiles->listed_nr) : 0);
    p->b_packed = lists || !p->a_trans || p->b_trans || p->words != SL_CPU_WORDS_F32 ||
                  p->m > FEW_ROWS || nr <= LINE || p->n % p->tiles->lanes != 0;
}

static struct product twin_of(const struct product *p, const struct sl_cpu_gemm *g, float *sums)
{
    const struct sl_weight_gradient *t = &g->twin;
    struct product twin = *p;
    twin.n = t->n;
    twin.of[0].b = t->b;
    twin.of[0].ldb = t->ldb;
    twin.of[0].b_bf16 = g->twin_bf16;
    twin.c = t->c;
    twin.ldc = t->ldc;
    twin.sums = sums;
    cut_columns(&twin);
    return twin;
}

_Static_assert(SL_TILE_K % SL_CPU_PROLOGUE_ROWS == 0, "parts of k are whole chunks");

// Where a part of k is read by several rectangles of c, all of a comes before all products.
static int place_before(struct product *p, struct sl_cpu_prologue *before, uint64_t rectangles,
                        struct sl_mempool *ws)
{
    p->before = NULL;
    if (before && rectangles > 1)
        sl_cpu_prologue_pass(before);
    if (!before || rectangles > 1)
        return SL_OK;
    p->before = before;
    return sl_cpu_prologue_begin(before, ws);
}

// A band of rows of c, by all threads.
static void multiply_band(struct product *p, uint64_t parts)
{
    sl_cpu_parallel_parts((uint32_t)parts, multiply_rectangle, p);
    for (const struct product *q = p; q; q = q->twin) {
        struct sl_cpu_segments sums = {q->m, q->n, q->segments, q->sums, q->c, q->ldc};
        sl_cpu_gemm_add_segments(&sums);
    }
}

int sl_cpu_gemm_fits_blocks(enum sl_cpu_words words, const struct sl_cpu_gemm *g)
{
    const uint64_t step = SL_TILE_K * sl_cpu_per_word(words);
    return sl_div_up(g->of[0].k, step) + sl_div_up(g->of[1].k, step) <= PARTS_AT_ONCE;
}

int sl_cpu_gemm_blocks(enum sl_cpu_words words, const struct sl_cpu_gemm *g, struct sl_mempool *ws)
{
    const uint64_t per_word = sl_cpu_per_word(words), m = g->m;
    struct product p = {
        .tiles = sl_cpu_gemm_tiles(words, sl_cpu_gemm_bf16_path() == SL_CPU_BF16_AMX),
        .words = words,
        .per_word = per_word,
        .a_trans = g->ta == SL_TRANS,
        .b_trans = g->tb == SL_TRANS,
        .m = m,
        .n = g->n,
        .of = {g->of[0], g->of[1]},
        .parts_of = {sl_div_up(g->of[0].k, SL_TILE_K * per_word),
                     sl_div_up(g->of[1].k, SL_TILE_K * per_word)},
        .alpha = g->alpha,
        .accumulate = g->beta != 0.0f,
        .c = g->c,
        .ldc = g->ldc,
        .after = g->after,
        .before = g->before,
        .segments = g->ta == SL_TRANS ? segments_of(sl_div_up(g->of[0].k, per_word)) : 1,
    };
    p.parts = p.parts_of[0] + p.parts_of[1];
    const uint64_t mr = p.tiles->mr, n = g->n + g->twin.n;
    p.listed[0] = lists_pay(&p, &g->of[0]);
    p.listed[1] = lists_pay(&p, &g->of[1]);
    const int lists = p.listed[0] || p.listed[1];
    p.block_rows = p.a_trans ? BLOCK_ROWS_TRANS : BLOCK_ROWS;
    p.block_rows = lists ? BLOCK_ROWS_LISTED : sl_div_up(p.block_rows, mr) * mr;
    uint64_t band = m;
    if (p.segments > 1) {
        band = SL_MIN(SL_MAX(SUMS_FLOATS / ((p.segments - 1) * n), mr), m);
        p.sums = sl_mempool_alloc(ws, (p.segments - 1) * band * n * sizeof *p.sums);
        if (!p.sums)
            return sl_fail(SL_ENOMEM, "gemm: no memory for the sums of %llu segments",
                           (unsigned long long)p.segments);
    }
    p.m = band;
    const uint64_t rectangles = divide(&p), parts = rectangles * p.segments;
    SL_TRY(place_before(&p, g->before, rectangles * sl_div_up(m, band), ws));
    const uint64_t threads = SL_MIN((uint64_t)sl_cpu_threads(), parts);
    p.parts_at_once =
        !p.c || p.part_rows > MANY_ROWS ? SL_MIN(p.parts, (uint64_t)PARTS_AT_ONCE) : 1;
    cut_columns(&p);
    struct product twin = {0};
    if (g->twin.n > 0) {
        twin = twin_of(&p, g, p.sums ? p.sums + (p.segments - 1) * band * g->n : NULL);
        p.twin = &twin;
    }
    const uint64_t rows = SL_MIN(band, p.block_rows);
    p.a_floats = panels_floats(rows, mr);
    if (!p.a_trans)
        p.a_floats = mr * SL_TILE_A_STRIDE;
    else if (in_lines(&p))
        p.a_floats = sl_align_up(rows, LINE) * SL_TILE_A_STRIDE + panels_floats(rows, LINE);
    if (lists)
        p.a_floats = SL_MAX(p.a_floats, sl_cpu_gemm_list_floats(p.a_trans, p.block_rows) +
                                            p.block_rows * p.tiles->listed_nr);
    p.a_floats = sl_align_up(p.a_floats, LINE);
    const uint64_t c_floats = p.c ? 0 : p.block_rows * p.block_columns;
    p.scratch_floats = sl_align_up(p.b_floats + twin.b_floats + p.a_floats + c_floats, LINE);
    p.scratch = sl_mempool_alloc(ws, threads * p.scratch_floats * sizeof *p.scratch);
    if (!p.scratch)
        return sl_fail(SL_ENOMEM, "gemm: no memory for %llu KiB of packed operands",
                       (unsigned long long)(threads * p.scratch_floats * sizeof *p.scratch >> 10));
    for (uint64_t i = 0; i < m; i += band) { // one, but for a transposed a
        p.m = twin.m = SL_MIN(band, m - i);
        p.of[0].a = twin.of[0].a = sl_cpu_rows_from(sl_cpu_rows_a(&g->of[0]), i).p;
        p.c = g->c + i * g->ldc;
        twin.c = g->twin.n > 0 ? g->twin.c + i * g->twin.ldc : NULL;
        multiply_band(&p, parts);
    }
    if (p.before)
        sl_cpu_prologue_finish(p.before);
    return SL_OK;
}
