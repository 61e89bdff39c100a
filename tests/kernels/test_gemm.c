// gemm: all precisions, storages and orientations, sizes around the tiles' borders; and that an
// element's bits depend on the operands alone, with each instruction set of the processor.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "kernels/cpu/cpu_internal.h"

// Below this are the ways of bf16 that the processor has, within the limit on its instructions.
static int bf16_paths(void)
{
    return sl_isa_has_bf16() ? SL_CPU_BF16_AMX + (sl_isa() >= SL_ISA_AMX) : SL_CPU_BF16_PAIRS;
}

struct shape {
    enum sl_precision precision;
    int ta, tb;
    uint64_t m, n, k;
    float alpha, beta;
    uint32_t pad; // added to every leading dimension
};

static int call(struct suite *t, const struct sl_kernels *kernels, const struct shape *s,
                const void *a, uint64_t lda, const void *b, uint64_t ldb, float *c)
{
    return kernels->gemm(s->precision, s->ta ? SL_TRANS : SL_NO_TRANS,
                         s->tb ? SL_TRANS : SL_NO_TRANS, s->m, s->n, s->k, s->alpha, a, lda, b, ldb,
                         s->beta, c, s->n + s->pad, t_ws(t, kernels));
}

// What a second result's address is off by: on a GPU whole vectors only, since the library there
// chooses by alignment to 16 bytes, and c of a pool is always aligned to them.
static size_t random_skew(struct suite *t)
{
    return t_random_below(t, 8) * (t->device->is_host ? 4 : 16);
}

/*
 * How far a sum of k products below 1 may be off. In any order, if partial sums of a part of k are
 * added up, as oneDNN does. A GPU's thread adds one after the other: each addition rounds by up to
 * half a unit of a partial sum, which wanders to about sqrt(k), that is by 3.4e-8 sqrt(k) on
 * average, and k of these make 3.4e-8 k.
 *
 * Tensor cores do not round, they cut: each product and partial sum is brought to the largest
 * exponent of its group and loses what is below 2^-24 of it at the worst (Fasi, Higham, Mikaitis
 * and Pranesh, Numerical behavior of NVIDIA tensor cores, 2021). These errors have the sign of what
 * is cut, so they add up: k times 2^-24 of a partial sum, which is sqrt(k) / 3 or so.
 */
static double allowed_error(const struct suite *t, enum sl_precision precision, uint64_t k)
{
    const bool cuts = !t->device->is_host && !t->is_emulated && precision != SL_PRECISION_F32;
    const double n = (double)k;
    return 1e-6 + 3e-7 * sqrt(n) * 2 + (t->device->is_host ? 0.0 : 4e-8 * n) +
           (cuts ? n * sqrt(n) / 3 * 0x1p-24 : 0.0);
}

static void compare(struct suite *t, struct shape s)
{
    static const char *const paths[] = {"auto", "rounded", "pairs", "amx"}, *const precisions[] = {
                                                                                "f32", "bf16",
                                                                                "tf32"};
    if (!t_affords(t, (double)s.m * (double)s.n * (double)s.k / 8))
        return;
    t_begin(t, "gemm %s %c%c m=%llu n=%llu k=%llu alpha=%g beta=%g pad=%u path=%s",
            precisions[s.precision], s.ta ? 'T' : 'N', s.tb ? 'T' : 'N', (unsigned long long)s.m,
            (unsigned long long)s.n, (unsigned long long)s.k, (double)s.alpha, (double)s.beta,
            s.pad, paths[sl_cpu_gemm_bf16_path()]);
    uint64_t lda = (s.ta ? s.m : s.k) + s.pad, ldb = (s.tb ? s.k : s.n) + s.pad, ldc = s.n + s.pad;
    const float *a = t_random_floats(t, (s.ta ? s.k : s.m) * lda);
    const float *b = t_random_floats(t, (s.tb ? s.n : s.k) * ldb);
    size_t count = s.m * ldc;
    // With beta 0 the old c is NaN, which must not come through.
    float *before =
        s.beta == 0.0f ? t_alloc(t, count * sizeof(float), 0) : t_random_floats(t, count);
    float *want = t_copy(t, before, count * sizeof(float), 0);
    t_expect_ok(t, call(t, t->ref, &s, a, lda, b, ldb, want), "ref");
    // The reference does not round to tf32, which changes an operand by 2^-11 of it at most: six
    // standard deviations of such a sum are 1e-3 sqrt(k). Tensor cores may ignore the low 13 bits
    // (wgmma, .tf32): twice as much.
    double absolute = allowed_error(t, s.precision, s.k);
    if (s.precision == SL_PRECISION_TF32)
        absolute += 2e-3 * sqrt((double)s.k);
    for (const int *threads = t_threads; *threads; threads++) {
        float *got = t_copy(t, before, count * sizeof(float), 0);
        float *again = t_copy(t, before, count * sizeof(float), random_skew(t));
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, call(t, t->dev, &s, a, lda, b, ldb, got), "dev");
        // The gaps between rows stay as they were.
        t_close(t, "c", got, want, count, 1e-5, absolute);
        t_expect_ok(t, call(t, t->dev, &s, a, lda, b, ldb, again), "dev again");
        t_same_bits(t, "c of a second run", again, got, count * sizeof(float));
    }
    t_end(t);
}

static void sizes(struct suite *t, enum sl_precision precision)
{
    static const uint64_t all[] = {1, 3, 15, 16, 17, 31, 64, 100, 127, 128, 257};
    for (int trans = 0; trans < 4; trans++)
        for (int i = 0; i < 24; i++) {
            struct shape s = {.precision = precision,
                              .ta = trans & 1,
                              .tb = trans >> 1,
                              .alpha = 1,
                              .beta = (float)(i & 1)};
            s.m = all[t_random_below(t, SL_COUNT_OF(all))];
            s.n = all[t_random_below(t, SL_COUNT_OF(all))];
            s.k = all[t_random_below(t, SL_COUNT_OF(all))];
            s.pad = i % 3 == 0 ? t_random_below(t, 20) : 0;
            s.alpha = i % 5 == 4 ? 0.5f : 1.0f;
            compare(t, s);
        }
    // Around the tiles of the bf16 path, one dimension at a time.
    static const uint64_t borders[] = {1023, 1024, 1025, 1088, 2049};
    for (int trans = 0; trans < 4; trans++)
        for (size_t i = 0; i < SL_COUNT_OF(borders); i++)
            for (int which = 0; which < 3; which++) {
                struct shape s = {.precision = precision,
                                  .ta = trans & 1,
                                  .tb = trans >> 1,
                                  .m = 33,
                                  .n = 20,
                                  .k = 40,
                                  .alpha = 1,
                                  .beta = (float)(i & 1)};
                *(which == 0 ? &s.m : which == 1 ? &s.n : &s.k) = borders[i];
                compare(t, s);
            }
}

static void degenerate(struct suite *t)
{
    compare(t, (struct shape){SL_PRECISION_F32, 0, 0, 0, 5, 5, 1, 0, 0});
    compare(t, (struct shape){SL_PRECISION_F32, 0, 0, 5, 0, 5, 1, 0, 0});
    compare(t, (struct shape){SL_PRECISION_F32, 0, 0, 5, 5, 0, 1, 0, 3});
    compare(t, (struct shape){SL_PRECISION_F32, 0, 0, 5, 5, 0, 1, 1, 0});
    compare(t, (struct shape){SL_PRECISION_BF16, 1, 0, 5, 5, 0, 1, 0, 0});
    t_begin(t, "gemm refuses bad arguments");
    float x[16] = {0};
    int rc = t->dev->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_NO_TRANS, 4, 4, 4, 1, x, 3, x, 4, 0, x,
                          4, t_ws(t, t->dev));
    t_expect_code(t, rc, SL_EINVAL, "lda below k");
    rc = t->dev->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_NO_TRANS, 4, 4, 4, 1, x, 4, x, 4, 2, x, 4,
                      t_ws(t, t->dev));
    t_expect_code(t, rc, SL_EINVAL, "beta of 2");
    t_end(t);
}

// Numbers that bf16 rounding treats specially: ties go to even, NaN and infinity stay.
static void rounding(struct suite *t)
{
    static const struct {
        uint32_t from, to;
    } known[] = {
        {0x3f800000, 0x3f800000}, // 1
        {0x3f808000, 0x3f800000}, // a tie: down to even
        {0x3f818000, 0x3f820000}, // a tie: up to even
        {0x3f808001, 0x3f810000}, // above a tie
        {0x3f807fff, 0x3f800000}, // below a tie
        {0x7f7fffff, 0x7f800000}, // the largest finite rounds to infinity
        {0x7f800000, 0x7f800000}, // infinity
        {0xbf808001, 0xbf810000}, // negative
    };
    t_begin(t, "gemm bf16 rounds to nearest even");
    for (size_t i = 0; i < SL_COUNT_OF(known); i++) {
        float a, one = 1.0f, c, want;
        memcpy(&a, &known[i].from, sizeof a);
        memcpy(&want, &known[i].to, sizeof want);
        const struct sl_kernels *both[] = {t->ref, t->dev};
        for (size_t b = 0; b < SL_COUNT_OF(both); b++) {
            int rc = both[b]->gemm(SL_PRECISION_BF16, SL_NO_TRANS, SL_NO_TRANS, 1, 1, 1, 1.0f, &a,
                                   1, &one, 1, 0.0f, &c, 1, t_ws(t, both[b]));
            t_expect_ok(t, rc, both[b]->name);
            t_expect(t, c == want, "%s rounds %08x to %a, wanted %a", both[b]->name, known[i].from,
                     (double)c, (double)want);
        }
    }
    float nan = NAN, one = 1.0f, c = 0.0f;
    int rc = t->dev->gemm(SL_PRECISION_BF16, SL_NO_TRANS, SL_NO_TRANS, 1, 1, 1, 1.0f, &nan, 1, &one,
                          1, 0.0f, &c, 1, t_ws(t, t->dev));
    t_expect_ok(t, rc, "NaN");
    t_expect(t, isnan(c), "NaN became %g", (double)c);
    t_end(t);
}

// ---- operands that are bf16 in memory -----------------------------------------------------------

// x (rows, ld) as bf16, wherever it is misaligned to.
static const void *stored(struct suite *t, const float *x, uint64_t rows, uint64_t ld)
{
    uint16_t *out = t_alloc(t, rows * ld * sizeof *out, t_random_below(t, 4) * 4);
    if (rows * ld > 0)
        t_expect_ok(
            t, t->ref->bias_act_bf16(x, rows, (uint32_t)ld, NULL, SL_ACT_NONE, NULL, NULL, out, ld),
            "stored");
    return out;
}

// What was rounded when it was written is what would be rounded when it is read. (A GPU's library
// chooses by alignment, and may add up in another order.)
static void compare_stored(struct suite *t, const char *what, const float *got, const float *want,
                           const float *rounded, size_t n, double absolute)
{
    t_close(t, what, got, want, n, 1e-5, absolute);
    if (t->is_emulated || t->device->is_host)
        t_same_bits(t, "the same of operands that are rounded when they are read", got, rounded,
                    n * sizeof *got);
}

static void stored_gemm(struct suite *t, struct shape s)
{
    if (!t_affords(t, (double)s.m * (double)s.n * (double)s.k / 4))
        return;
    const uint64_t lda = (s.ta ? s.m : s.k) + s.pad, ldb = (s.tb ? s.k : s.n) + s.pad;
    const uint64_t count = s.m * (s.n + s.pad), a_rows = s.ta ? s.k : s.m,
                   b_rows = s.tb ? s.n : s.k;
    for (int which = 1; which <= 3; which++) {
        t_begin(t, "gemm stored=%d %c%c m=%llu n=%llu k=%llu pad=%u", which, s.ta ? 'T' : 'N',
                s.tb ? 'T' : 'N', (unsigned long long)s.m, (unsigned long long)s.n,
                (unsigned long long)s.k, s.pad);
        const float *a = t_random_floats(t, a_rows * lda), *b = t_random_floats(t, b_rows * ldb);
        const void *a16 = which & 1 ? stored(t, a, a_rows, lda) : a;
        const void *b16 = which & 2 ? stored(t, b, b_rows, ldb) : b;
        float *before = t_random_floats(t, count);
        float *want = t_copy(t, before, count * sizeof *want, 0);
        float *got = t_copy(t, before, count * sizeof *got, 0);
        float *rounded = t_copy(t, before, count * sizeof *rounded, 0);
        s.precision = SL_PRECISION_BF16;
        t_expect_ok(t, call(t, t->dev, &s, a, lda, b, ldb, rounded), "dev, of f32");
        s.precision |= which * SL_PRECISION_A;
        t_expect_ok(t, call(t, t->ref, &s, a16, lda, b16, ldb, want), "ref");
        t_expect_ok(t, call(t, t->dev, &s, a16, lda, b16, ldb, got), "dev");
        compare_stored(t, "c", got, want, rounded, count, allowed_error(t, SL_PRECISION_BF16, s.k));
        t_end(t);
    }
}

static void stored_operands(struct suite *t)
{
    static const uint64_t sizes[][3] = {
        {1, 1, 1}, {17, 64, 31}, {64, 65, 128}, {129, 8, 257}, {40, 40, 1088}};
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++)
        for (int trans = 0; trans < 4; trans++)
            stored_gemm(t, (struct shape){.ta = trans & 1,
                                          .tb = trans >> 1,
                                          .m = sizes[i][0],
                                          .n = sizes[i][1],
                                          .k = sizes[i][2],
                                          .alpha = i == 2 ? 0.5f : 1.0f,
                                          .beta = (float)(i & 1),
                                          .pad = i == 1 || i == 2 ? 3 : 0});
}

// Pairs of bf16 as they lie, which are moved without the instruction that multiplies them: by
// their definition (gemm_tile.h).
static void joined_pairs(struct suite *t)
{
    static const uint64_t ks[] = {1, 2, 5, 31, 33, 64, 2 * SL_TILE_K - 1};
    static const uint64_t widths[] = {6, 8, 16, 48, 64};
    for (size_t i = 0; i < SL_COUNT_OF(ks) * SL_COUNT_OF(widths) * 2; i++) {
        const uint64_t k = ks[i / 2 % SL_COUNT_OF(ks)], width = widths[i % SL_COUNT_OF(widths)];
        const uint64_t columns = 1 + t_random_below(t, 150);
        const int trans = i & 1;
        t_begin(t, "gemm's pairs of bf16 k=%llu columns=%llu width=%llu trans=%d",
                (unsigned long long)k, (unsigned long long)columns, (unsigned long long)width,
                trans);
        const uint64_t ld = (trans ? k : columns) + t_random_below(t, 9);
        const uint16_t *x = t_random_halves(t, (trans ? columns : k) * ld);
        const uint64_t words = (k + 1) / 2, step = sl_cpu_panel_words(width);
        uint32_t *got = t_alloc(t, sl_div_up(columns, width) * step * sizeof *got, 0);
        sl_cpu_gemm_pack(SL_CPU_WORDS_PAIRS, trans, (struct sl_cpu_rows){x, ld, 1}, k, columns,
                         width, (float *)(void *)got);
        for (uint64_t e = 0; e < sl_div_up(columns, width) * width * words; e++) {
            const uint64_t column = e / words, at = 2 * (e % words);
            uint32_t want = 0;
            for (uint64_t l = at; l < SL_MIN(at + 2, k) && column < columns; l++)
                want |= (uint32_t)x[trans ? column * ld + l : l * ld + column] << 16 * (l - at);
            const uint32_t found = got[column / width * step + at / 2 * width + column % width];
            if (!t_expect(t, found == want, "column %llu, k %llu: %08x, wanted %08x",
                          (unsigned long long)column, (unsigned long long)at, found, want))
                break;
        }
        t_end(t);
    }
}

// Nobody takes words that say nothing.
static void refused_precisions(struct suite *t)
{
    t_begin(t, "gemm and what cannot be an operand");
    float x[4] = {1, 2, 3, 4}, c[4];
    struct shape s = {SL_PRECISION_BF16 | SL_PRECISION_B, 0, 1, 2, 2, 2, 1, 0, 0};
    t_expect_ok(t, call(t, t->dev, &s, x, 2, x, 2, c), "b of bf16");
    static const int bad[] = {3, SL_PRECISION_A, SL_PRECISION_TF32 | SL_PRECISION_B,
                              SL_PRECISION_BF16 | SL_PRECISION_A2};
    for (size_t i = 0; i < SL_COUNT_OF(bad); i++) {
        s.precision = (enum sl_precision)bad[i];
        t_expect_code(t, call(t, t->dev, &s, x, 2, x, 2, c), SL_EINVAL, "no precision");
    }
    t_end(t);
}

// ---- bits ---------------------------------------------------------------------------------------

static void begin_bits(struct suite *t, const char *what, const struct shape *s)
{
    t_begin(t, "gemm bits of %s: %s %c%c m=%llu n=%llu k=%llu isa=%s path=%d", what,
            s->precision == SL_PRECISION_BF16 ? "bf16" : "f32", s->ta ? 'T' : 'N',
            s->tb ? 'T' : 'N', (unsigned long long)s->m, (unsigned long long)s->n,
            (unsigned long long)s->k, sl_isa_name(sl_isa()), (int)sl_cpu_gemm_bf16_path());
}

// A batch of rows, whatever its size and its place among others, has the bits of the whole.
static void rows_have_their_bits(struct suite *t, struct shape s)
{
    static const uint64_t borders[] = {239, 240, 241, 255, 256, 257, 511, 961};
    static const int threads[] = {1, 2, 4};
    if (!t_affords(t, (double)s.m * (double)s.n * (double)s.k * 8))
        return;
    begin_bits(t, "rows", &s);
    const uint64_t ldb = s.tb ? s.k : s.n;
    const float *a = t_random_floats(t, s.m * s.k), *b = t_random_floats(t, s.n * s.k);
    const float *before = t_random_floats(t, s.m * s.n);
    float *whole = t_copy(t, before, s.m * s.n * sizeof *whole, 0);
    float *part = t_alloc(t, s.m * s.n * sizeof *part, 4);
    sl_kernels_set_threads(1);
    t_expect_ok(t, call(t, t->dev, &s, a, s.k, b, ldb, whole), "all rows");
    for (uint64_t i = 1; i <= 64 + SL_COUNT_OF(borders); i++) {
        struct shape few = s;
        few.m = i <= 64 ? i : borders[i - 65];
        const uint64_t first = t_random_below(t, (uint32_t)(s.m - few.m + 1));
        const size_t bytes = few.m * s.n * sizeof *part;
        memcpy(part, before + first * s.n, bytes);
        sl_kernels_set_threads(threads[i % SL_COUNT_OF(threads)]);
        t_expect_ok(t, call(t, t->dev, &few, a + first * s.k, s.k, b, ldb, part), "few rows");
        if (!t_expect(t, memcmp(part, whole + first * s.n, bytes) == 0,
                      "%llu rows from row %llu, %d threads: other bits than in the whole",
                      (unsigned long long)few.m, (unsigned long long)first,
                      threads[i % SL_COUNT_OF(threads)]))
            break;
    }
    t_end(t);
}

static void threads_have_the_same_bits(struct suite *t, struct shape s)
{
    static const int threads[] = {2, 3, 4, 8};
    if (!t_affords(t, (double)s.m * (double)s.n * (double)s.k))
        return;
    begin_bits(t, "threads", &s);
    const uint64_t lda = s.ta ? s.m : s.k, ldb = s.tb ? s.k : s.n;
    const size_t bytes = s.m * s.n * sizeof(float);
    const float *a = t_random_floats(t, s.m * s.k), *b = t_random_floats(t, s.n * s.k);
    const float *before = t_random_floats(t, s.m * s.n);
    float *one = t_copy(t, before, bytes, 0);
    sl_kernels_set_threads(1);
    t_expect_ok(t, call(t, t->dev, &s, a, lda, b, ldb, one), "one thread");
    for (size_t i = 0; i < SL_COUNT_OF(threads); i++) {
        float *many = t_copy(t, before, bytes, 4);
        sl_kernels_set_threads(threads[i]);
        t_expect_ok(t, call(t, t->dev, &s, a, lda, b, ldb, many), "several threads");
        t_expect(t, memcmp(many, one, bytes) == 0, "%d threads: other bits than one", threads[i]);
    }
    t_end(t);
}

// Sums of segments that are too many for one pass: every column of a as if it stood alone.
static void bands_have_their_bits(struct suite *t)
{
    const struct shape s = {.ta = 1, .m = 1100, .n = 300, .k = 16384, .alpha = 1};
    static const uint64_t firsts[] = {0, 500, 980, 1092};
    if (!t_affords(t, (double)s.m * (double)s.n * (double)s.k))
        return;
    begin_bits(t, "bands", &s);
    const float *a = t_random_floats(t, s.m * s.k), *b = t_random_floats(t, s.n * s.k);
    float *whole = t_alloc(t, s.m * s.n * sizeof *whole, 0);
    sl_kernels_set_threads(2);
    t_expect_ok(t, call(t, t->dev, &s, a, s.m, b, s.n, whole), "all rows");
    sl_kernels_set_threads(1);
    for (size_t i = 0; i < SL_COUNT_OF(firsts); i++) {
        struct shape few = s;
        few.m = 8;
        float *part = t_alloc(t, few.m * s.n * sizeof *part, 4);
        t_expect_ok(t, call(t, t->dev, &few, a + firsts[i], s.m, b, s.n, part), "few rows");
        t_expect(t, memcmp(part, whole + firsts[i] * s.n, few.m * s.n * sizeof *part) == 0,
                 "8 rows from row %llu: other bits than in the whole",
                 (unsigned long long)firsts[i]);
    }
    t_end(t);
}

// Leaving out the zeros of a changes no bit, whatever is zero and however many.
static void lists_have_the_same_bits(struct suite *t, struct shape s, uint32_t zeros_of_8)
{
    static const int threads[] = {1, 3};
    begin_bits(t, "lists", &s);
    const uint64_t lda = (s.ta ? s.m : s.k) + s.pad, ldb = (s.tb ? s.k : s.n) + s.pad;
    const uint64_t n_a = (s.ta ? s.k : s.m) * lda;
    const size_t bytes = s.m * (s.n + s.pad) * sizeof(float);
    float *a = t_copy(t, t_random_floats(t, n_a), n_a * sizeof *a, 0);
    const float *b = t_random_floats(t, (s.tb ? s.n : s.k) * ldb);
    const float *before = t_random_floats(t, bytes / sizeof(float));
    for (uint64_t i = 0; i < n_a; i++) // some rows and columns have nothing else
        if (t_random_below(t, 8) < zeros_of_8 || i / lda % 7 == 3 || i % lda % 11 == 5)
            a[i] = i % 3 ? 0.0f : -0.0f;
    float *all = t_copy(t, before, bytes, 0);
    sl_kernels_set_threads(1);
    sl_cpu_gemm_set_lists(SL_CPU_LISTS_NEVER);
    t_expect_ok(t, call(t, t->dev, &s, a, lda, b, ldb, all), "all words");
    for (size_t i = 0; i < SL_COUNT_OF(threads); i++) {
        for (int lists = SL_CPU_LISTS_AUTO; lists <= SL_CPU_LISTS_ALWAYS; lists += 2) {
            float *listed = t_copy(t, before, bytes, 4 * i);
            sl_kernels_set_threads(threads[i]);
            sl_cpu_gemm_set_lists((enum sl_cpu_lists)lists);
            t_expect_ok(t, call(t, t->dev, &s, a, lda, b, ldb, listed), "lists");
            t_expect(t, memcmp(listed, all, bytes) == 0,
                     "%u of 8 words are zero, lists %d, %d threads: other bits than of all words",
                     zeros_of_8, lists, threads[i]);
        }
    }
    sl_cpu_gemm_set_lists(SL_CPU_LISTS_AUTO);
    t_end(t);
}

static void bits_of_lists(struct suite *t, enum sl_precision precision)
{
    static const uint64_t sizes[][3] = {
        {1, 1, 1},     {3, 17, 9},    {16, 64, 128},  {17, 65, 129}, {33, 130, 255},
        {40, 47, 257}, {257, 70, 31}, {300, 300, 90}, {64, 48, 600}, {256, 100, 4200},
    };
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++)
        for (int trans = 0; trans < 4; trans++) {
            struct shape s = {.precision = precision,
                              .ta = trans & 1,
                              .tb = trans >> 1,
                              .m = sizes[i][0],
                              .n = sizes[i][1],
                              .k = sizes[i][2],
                              .alpha = i % 4 == 3 ? 0.3f : 1.0f,
                              .beta = (float)(i & 1),
                              .pad = i % 3 == 0 ? 5 : 0};
            lists_have_the_same_bits(t, s, (uint32_t)(2 * i + (uint64_t)trans) % 9);
        }
    // Several parts of k before c is met again.
    const struct shape long_rows = {
        .precision = precision, .tb = 1, .m = 1100, .n = 70, .k = 1300, .alpha = 1};
    lists_have_the_same_bits(t, long_rows, 6);
}

static void bits(struct suite *t, enum sl_precision precision)
{
    static const uint64_t widths[] = {1, 8, 16, 40, 47, 48, 49, 97, 256, 300};
    static const uint64_t depths[] = {1, 100, 255, 256, 257, 602, 1025};
    for (size_t i = 0; i < SL_COUNT_OF(widths); i++) {
        struct shape s = {.precision = precision, .m = 1300, .n = widths[i], .alpha = 1};
        s.k = depths[i % SL_COUNT_OF(depths)];
        s.tb = (int)(i & 1);
        s.beta = (float)(i >> 1 & 1);
        rows_have_their_bits(t, s);
    }
    // A forward product, and gradients of weights: of hidden layers, of classes, of heads.
    static const uint64_t gradients[][3] = {
        {256, 256, 1500}, {256, 128, 777}, {47, 256, 1024}, {40, 256, 3000},  {8, 256, 3000},
        {8, 8, 20000},    {1, 3, 5000},    {47, 256, 9000}, {256, 128, 4100},
    };
    threads_have_the_same_bits(
        t,
        (struct shape){.precision = precision, .tb = 1, .m = 2100, .n = 47, .k = 300, .alpha = 1});
    for (size_t i = 0; i < SL_COUNT_OF(gradients); i++)
        threads_have_the_same_bits(t, (struct shape){.precision = precision,
                                                     .ta = 1,
                                                     .m = gradients[i][0],
                                                     .n = gradients[i][1],
                                                     .k = gradients[i][2],
                                                     .alpha = 1,
                                                     .beta = 1});
}

static void bits_of_each_precision(struct suite *t)
{
    bits(t, SL_PRECISION_F32);
    bits(t, SL_PRECISION_BF16);
    bits_of_lists(t, SL_PRECISION_F32);
    bits_of_lists(t, SL_PRECISION_BF16);
}

void test_gemm(struct suite *t)
{
    if (t->device->is_host) {
        t_each_isa(t, bits_of_each_precision);
        bands_have_their_bits(t);
    }
    degenerate(t);
    refused_precisions(t);
    if (!t->device->is_host)
        stored_operands(t);
    else
        joined_pairs(t);
    sizes(t, SL_PRECISION_F32);
    compare(t, (struct shape){SL_PRECISION_F32, 1, 0, 64, 47, 20000, 1, 1, 0});
    if (!t->device->is_host)
        sizes(t, SL_PRECISION_TF32);
    const int paths = t->device->is_host ? bf16_paths() : SL_CPU_BF16_ROUNDED + 1;
    for (int path = SL_CPU_BF16_ROUNDED; path < paths; path++) {
        sl_cpu_gemm_set_bf16_path((enum sl_cpu_bf16_path)path);
        rounding(t);
        sizes(t, SL_PRECISION_BF16);
        if (t->device->is_host)
            stored_operands(t);
        compare(t, (struct shape){SL_PRECISION_BF16, 1, 0, 64, 47, 5000, 1, 1, 0});
    }
    sl_cpu_gemm_set_bf16_path(SL_CPU_BF16_AUTO);
}

// ---- gemm_bias_act ------------------------------------------------------------------------------

// Dropout is a pass of its own here, and with it bias and activation. (A GPU's library may add a
// bias before it rounds.)
static int one_after_the_other(struct suite *t, struct sl_gemm_bias_act_args args)
{
    const struct sl_gemm_bias_act_args whole = args;
    if (args.k2 > 0) {
        SL_TRY(t->dev->gemm(args.precision, SL_NO_TRANS, SL_TRANS, args.m, args.n, args.k, 1,
                            args.a, args.lda, args.b, args.ldb, args.beta, args.c, args.ldc,
                            t_ws(t, t->dev)));
        args.k = args.k2, args.a = args.a2, args.b = args.b2;
        args.lda = args.lda2, args.ldb = args.ldb2;
        args.beta = 1, args.k2 = 0;
    }
    if (whole.dropout.rate > 0)
        args.bias = NULL, args.act = SL_ACT_NONE, args.dropout.rate = 0;
    SL_TRY(t->dev->gemm_bias_act(&args, t_ws(t, t->dev)));
    if (args.n == 0 || whole.dropout.rate <= 0)
        return SL_OK;
    return t->dev->bias_act(args.c, args.m, (uint32_t)args.n, whole.bias, whole.act,
                            &whole.dropout);
}

// What is rounded beside c, or without it, is c, rounded; what is behind its columns stays.
static void compare_rounded(struct suite *t, struct sl_gemm_bias_act_args args)
{
    const uint64_t ld = args.ldc_bf16 = args.n + t_random_below(t, 9);
    uint16_t *got = args.c_bf16 = t_alloc(t, args.m * ld * sizeof *got, t_random_below(t, 4) * 2);
    uint16_t *want = t_copy(t, got, args.m * ld * sizeof *got, 0);
    uint16_t *alone = t_copy(t, got, args.m * ld * sizeof *got, t_random_below(t, 4) * 2);
    t_expect_ok(t, t->dev->gemm_bias_act(&args, t_ws(t, t->dev)), "dev, c as bf16 too");
    for (uint64_t i = 0; args.n > 0 && i < args.m; i++)
        t_expect_ok(t,
                    t->ref->bias_act_bf16(args.c + i * args.ldc, 1, (uint32_t)args.n, NULL,
                                          SL_ACT_NONE, NULL, NULL, want + i * ld, ld),
                    "rounded");
    t_same_bits(t, "c as bf16", got, want, args.m * ld * sizeof *got);
    if (args.beta != 0.0f)
        return;
    args.c = NULL, args.c_bf16 = alone;
    t_expect_ok(t, t->dev->gemm_bias_act(&args, t_ws(t, t->dev)), "dev, c as bf16 alone");
    t_same_bits(t, "c as bf16 alone", alone, want, args.m * ld * sizeof *got);
    t_expect_ok(t, t->ref->gemm_bias_act(&args, &t->ws), "ref, c as bf16 alone");
}

static void compare_fused(struct suite *t, struct sl_gemm_bias_act_args args, bool biased)
{
    if (!t_affords(t, (double)args.m * (double)args.n * (double)args.k / 8))
        return;
    t_begin(t, "gemm_bias_act %s m=%llu n=%llu k=%llu+%llu beta=%g ldc=%llu bias=%d act=%d drop=%g",
            args.precision == SL_PRECISION_BF16 ? "bf16" : "f32", (unsigned long long)args.m,
            (unsigned long long)args.n, (unsigned long long)args.k, (unsigned long long)args.k2,
            (double)args.beta, (unsigned long long)args.ldc, (int)biased, (int)args.act,
            (double)args.dropout.rate);
    args.a = t_random_floats(t, args.m * args.lda);
    args.b = t_random_floats(t, args.n * args.ldb);
    float *a2 = args.k2 > 0 ? t_random_floats(t, args.m * args.lda2) : NULL;
    // The one of two that has many zeros is multiplied without them (kernels/cpu/gemm_list.c).
    for (uint64_t i = 0; args.k2 > args.k && i < args.m * args.lda2; i++)
        a2[i] *= i % 4 == 0;
    args.a2 = a2;
    args.b2 = args.k2 > 0 ? t_random_floats(t, args.n * args.ldb2) : NULL;
    args.bias = biased ? t_random_floats(t, args.n) : NULL;
    size_t count = args.m * args.ldc, bytes = count * sizeof(float);
    // With beta 0 the old c is NaN, which must not come through.
    float *before = args.beta == 0.0f ? t_alloc(t, bytes, 0) : t_random_floats(t, count);
    float *want = args.c = t_copy(t, before, bytes, 0);
    t_expect_ok(t, t->ref->gemm_bias_act(&args, &t->ws), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        float *got = args.c = t_copy(t, before, bytes, 0);
        float *again = t_copy(t, before, bytes, random_skew(t));
        if (t->device->is_host)
            compare_rounded(t, args);
        memcpy(got, before, bytes);
        t_expect_ok(t, t->dev->gemm_bias_act(&args, t_ws(t, t->dev)), "dev");
        // As for gemm; an activation of slope 1 at most makes no error larger, and what dropout
        // leaves is doubled at most.
        t_close(t, "c", got, want, count, 1e-5,
                2 * allowed_error(t, args.precision, args.k + args.k2));
        args.c = again;
        t_expect_ok(t, t->dev->gemm_bias_act(&args, t_ws(t, t->dev)), "dev again");
        t_same_bits(t, "c of a second run", again, got, bytes);
        float *apart = args.c = t_copy(t, before, bytes, 0);
        t_expect_ok(t, one_after_the_other(t, args), "dev, apart");
        t_same_bits(t, "c of one product after the other", apart, got, bytes);
    }
    t_end(t);
}

// Every choice of what is stored as bf16 of the four operands.
static void stored_fused(struct suite *t, struct sl_gemm_bias_act_args args)
{
    const struct {
        const void **operand;
        uint64_t rows, ld;
        int flag;
    } of[] = {{&args.a, args.m, args.lda, SL_PRECISION_A},
              {&args.b, args.n, args.ldb, SL_PRECISION_B},
              {&args.a2, args.m, args.lda2, SL_PRECISION_A2},
              {&args.b2, args.n, args.ldb2, SL_PRECISION_B2}};
    for (unsigned which = 1; which < 16; which++) {
        if (!t_affords(t, (double)args.m * (double)args.n * (double)(args.k + args.k2)))
            continue;
        t_begin(t, "gemm_bias_act stored=%u m=%llu n=%llu k=%llu+%llu act=%d drop=%g", which,
                (unsigned long long)args.m, (unsigned long long)args.n, (unsigned long long)args.k,
                (unsigned long long)args.k2, (int)args.act, (double)args.dropout.rate);
        const size_t count = args.m * args.ldc, bytes = count * sizeof(float);
        float *bias = t_random_floats(t, args.n);
        args.bias = bias;
        args.precision = SL_PRECISION_BF16;
        for (size_t i = 0; i < SL_COUNT_OF(of); i++)
            *of[i].operand = t_random_floats(t, of[i].rows * of[i].ld);
        float *rounded = args.c = t_alloc(t, bytes, 0);
        t_expect_ok(t, t->dev->gemm_bias_act(&args, t_ws(t, t->dev)), "dev, of f32");
        for (size_t i = 0; i < SL_COUNT_OF(of); i++) {
            if (!(which >> i & 1))
                continue;
            *of[i].operand = stored(t, *of[i].operand, of[i].rows, of[i].ld);
            args.precision |= of[i].flag;
        }
        float *want = args.c = t_alloc(t, bytes, 0);
        t_expect_ok(t, t->ref->gemm_bias_act(&args, &t->ws), "ref");
        float *got = args.c = t_alloc(t, bytes, 0);
        t_expect_ok(t, t->dev->gemm_bias_act(&args, t_ws(t, t->dev)), "dev");
        compare_stored(t, "c", got, want, rounded, count,
                       2 * allowed_error(t, SL_PRECISION_BF16, args.k + args.k2));
        t_end(t);
    }
}

void test_gemm_bias_act(struct suite *t)
{
    for (int i = 0; i < 2; i++)
        stored_fused(t, (struct sl_gemm_bias_act_args){.m = i ? 33 : 70,
                                                       .n = i ? 64 : 47,
                                                       .k = 40,
                                                       .lda = 40,
                                                       .ldb = 43,
                                                       .k2 = i ? 24 : 17,
                                                       .lda2 = 24,
                                                       .ldb2 = 24,
                                                       .ldc = i ? 64 : 47,
                                                       .act = SL_ACT_RELU,
                                                       .dropout = {.rate = i ? 0.5f : 0}});
    static const uint64_t all[] = {1, 3, 15, 16, 17, 31, 64, 100, 127, 128, 257};
    for (int i = 0; i < 96; i++) {
        struct sl_gemm_bias_act_args args = {.beta = (float)(i & 1)};
        args.act = (enum sl_activation)(i / 2 % 4);
        args.precision = i % 7 == 6 ? SL_PRECISION_BF16 : SL_PRECISION_F32;
        args.m = all[t_random_below(t, SL_COUNT_OF(all))];
        args.n = all[t_random_below(t, SL_COUNT_OF(all))];
        args.k = all[t_random_below(t, SL_COUNT_OF(all))];
        uint32_t pad = i % 3 == 0 ? t_random_below(t, 20) : 0;
        args.lda = args.k + pad, args.ldb = args.k + pad, args.ldc = args.n + pad;
        if (pad == 0 && i % 5 < 2)
            args.dropout = (struct sl_dropout){.rate = 0.5f, .seed = 7, .batch = i, .layer = 2};
        compare_fused(t, args, i / 8 % 3 != 0);
        args.k2 = all[t_random_below(t, SL_COUNT_OF(all))];
        args.lda2 = args.k2 + pad, args.ldb2 = args.k2 + pad;
        compare_fused(t, args, i / 8 % 3 != 0);
    }
    // So many columns that rows are met in parts, by one thread and by several.
    struct sl_gemm_bias_act_args wide = {
        .m = 70, .n = 700, .k = 300, .k2 = 1, .lda2 = 1, .ldb2 = 1};
    wide.lda = wide.ldb = wide.k, wide.ldc = wide.n;
    wide.dropout = (struct sl_dropout){.rate = 0.3f, .seed = 9, .layer = 1};
    for (wide.act = SL_ACT_NONE; wide.act <= SL_ACT_LEAKY_RELU; wide.act++)
        compare_fused(t, wide, wide.act != SL_ACT_ELU);
    // So many rows that several parts of both are met at once: in f32, and in bf16 in each way.
    for (int path = SL_CPU_BF16_AUTO; path < bf16_paths(); path++) {
        struct sl_gemm_bias_act_args args = {.m = 1500, .n = 49, .k = 600, .k2 = 2500};
        args.act = SL_ACT_RELU;
        args.dropout = (struct sl_dropout){.rate = 0.5f, .seed = 3};
        args.precision = path != SL_CPU_BF16_AUTO ? SL_PRECISION_BF16 : SL_PRECISION_F32;
        args.lda = args.ldb = args.k;
        args.lda2 = args.ldb2 = args.k2;
        args.ldc = args.n;
        sl_cpu_gemm_set_bf16_path((enum sl_cpu_bf16_path)path);
        compare_fused(t, args, true);
    }
    sl_cpu_gemm_set_bf16_path(SL_CPU_BF16_AUTO);
    struct sl_gemm_bias_act_args none = {.m = 0, .n = 5, .k = 3, .lda = 3, .ldb = 3, .ldc = 5};
    compare_fused(t, none, true);
    none.m = 4, none.k = 0; // nothing but the bias
    none.act = SL_ACT_ELU;
    compare_fused(t, none, true);
    none.k2 = 7, none.lda2 = none.ldb2 = 7; // nothing but the second product
    compare_fused(t, none, true);
    t_begin(t, "gemm_bias_act refuses bad arguments");
    float *x = t_random_floats(t, 16), *c = t_random_floats(t, 16);
    struct sl_gemm_bias_act_args good = {.m = 2, .n = 2, .k = 2, .a = x, .b = x, .c = c};
    good.lda = good.ldb = good.ldc = 2;
    t_expect_ok(t, t->dev->gemm_bias_act(&good, t_ws(t, t->dev)), "good arguments");
    struct sl_gemm_bias_act_args bad = good;
    bad.beta = 2;
    t_expect_code(t, t->dev->gemm_bias_act(&bad, t_ws(t, t->dev)), SL_EINVAL, "beta 2");
    bad = good, bad.c = NULL;
    t_expect_code(t, t->dev->gemm_bias_act(&bad, t_ws(t, t->dev)), SL_EINVAL, "c NULL");
    bad.beta = 1, bad.c_bf16 = (uint16_t *)(void *)x, bad.ldc_bf16 = 2;
    const int rc = t->dev->gemm_bias_act(&bad, t_ws(t, t->dev)); // a GPU has no c_bf16
    t_expect_code(t, rc, t->device->is_host ? SL_EINVAL : SL_EUNSUPPORTED, "c NULL, beta 1");
    bad = good, bad.ldc = 1;
    t_expect_code(t, t->dev->gemm_bias_act(&bad, t_ws(t, t->dev)), SL_EINVAL, "ldc 1");
    bad = good, bad.act = (enum sl_activation)9;
    t_expect_code(t, t->dev->gemm_bias_act(&bad, t_ws(t, t->dev)), SL_EINVAL, "activation 9");
    bad = good, bad.dropout.rate = 1;
    t_expect_code(t, t->dev->gemm_bias_act(&bad, t_ws(t, t->dev)), SL_EINVAL, "dropout of all");
    bad = good, bad.dropout.rate = 0.5f, bad.m = 1, bad.ldc = 3;
    t_expect_code(t, t->dev->gemm_bias_act(&bad, t_ws(t, t->dev)), SL_EINVAL, "dropout, ldc 3");
    bad = good, bad.b = NULL;
    t_expect_code(t, t->dev->gemm_bias_act(&bad, t_ws(t, t->dev)), SL_EINVAL, "no b");
    bad = good, bad.k2 = bad.lda2 = bad.ldb2 = 2, bad.a2 = x;
    t_expect_code(t, t->dev->gemm_bias_act(&bad, t_ws(t, t->dev)), SL_EINVAL, "no second b");
    t_end(t);
}

// ---- weight_gradients ---------------------------------------------------------------------------

// Compared with the bits of bias_act_backward and gemm, which have their own tests; `dense_of_8` of
// 8 words of a, or of the output that says what is left of it, are not zero.
static void compare_gradients(struct suite *t, struct sl_weight_gradients_args args,
                              uint32_t dense_of_8)
{
    const uint64_t n_a = args.k * args.lda, bytes = n_a * sizeof(float);
    struct sl_bias_act_gradient *first = &args.before;
    const bool has_bias = first->dbias != NULL;
    if (!t_affords(t, (double)args.m * (double)args.k * (double)(args.of[0].n + args.of[1].n)))
        return;
    t_begin(t,
            "weight_gradients %s m=%llu k=%llu n=%llu,%llu dense=%u/8 act=%d rate=%g bias=%d "
            "path=%d isa=%s",
            args.precision == SL_PRECISION_F32    ? "f32"
            : args.precision == SL_PRECISION_BF16 ? "bf16"
                                                  : "stored",
            (unsigned long long)args.m, (unsigned long long)args.k,
            (unsigned long long)args.of[0].n, (unsigned long long)args.of[1].n, dense_of_8,
            (int)first->act, (double)first->dropout.rate, has_bias, (int)sl_cpu_gemm_bf16_path(),
            sl_isa_name(sl_isa()));
    float *a = t_copy(t, t_random_floats(t, n_a), bytes, 0), *y = t_random_floats(t, n_a);
    for (uint64_t i = 0; i < n_a; i++)
        if (t_random_below(t, 8) >= dense_of_8)
            *(first->act ? &y[i] : &a[i]) = 0.0f;
    float *before[2], *want[2], *given = t_copy(t, a, bytes, 0);
    float *bias = t_random_floats(t, args.m + 1);
    float *want_bias = has_bias ? t_copy(t, bias, args.m * sizeof *bias, 0) : NULL;
    sl_kernels_set_threads(1);
    first->y = first->act ? y : NULL;
    if (args.m > 0)
        t_expect_ok(t,
                    t->dev->bias_act_backward(a, first->y, first->y_bf16_ld, args.k,
                                              (uint32_t)args.m, first->act, &first->dropout,
                                              want_bias),
                    "bias_act_backward");
    for (int i = 0; i < 2; i++) {
        struct sl_weight_gradient *of = &args.of[i];
        const size_t count = args.m * of->ldc;
        const enum sl_precision precision =
            i ? sl_precision_second(args.precision) : sl_precision_first(args.precision);
        of->b = t_random_floats(t, args.k * of->ldb);
        if (precision != sl_precision_kind(precision))
            of->b = stored(t, of->b, args.k, of->ldb);
        before[i] = t_random_floats(t, count);
        want[i] = t_copy(t, before[i], count * sizeof(float), 0);
        t_expect_ok(t,
                    t->dev->gemm(precision, SL_TRANS, SL_NO_TRANS, args.m, of->n, args.k, 1, a,
                                 args.lda, of->b, of->ldb, 1, want[i], of->ldc, t_ws(t, t->dev)),
                    "gemm");
    }
    for (const int *threads = t_threads; *threads; threads++) {
        for (int i = 0; i < 2; i++)
            args.of[i].c = t_copy(t, before[i], args.m * args.of[i].ldc * sizeof(float), 0);
        args.a = t_copy(t, given, bytes, 0);
        first->dbias = has_bias ? t_copy(t, bias, args.m * sizeof *bias, 0) : NULL;
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->weight_gradients(&args, t_ws(t, t->dev)), "dev");
        for (int i = 0; i < 2; i++)
            t_same_bits(t, i ? "the second" : "the first", args.of[i].c, want[i],
                        args.m * args.of[i].ldc * sizeof(float));
        t_same_bits(t, "a", args.a, a, bytes);
        if (has_bias)
            t_same_bits(t, "dbias", first->dbias, want_bias, args.m * sizeof *bias);
    }
    t_end(t);
}

// What comes before the products, one kind after the other.
static struct sl_bias_act_gradient gradient_before(size_t kind)
{
    static float some;
    static const struct {
        enum sl_activation act;
        float rate;
        float *dbias;
    } kinds[] = {{SL_ACT_RELU, 0.5f, &some},
                 {SL_ACT_NONE, 0, &some},
                 {SL_ACT_ELU, 0.5f, NULL},
                 {SL_ACT_NONE, 0.5f, &some},
                 {SL_ACT_RELU, 0, &some}};
    kind %= SL_COUNT_OF(kinds);
    return (struct sl_bias_act_gradient){
        .act = kinds[kind].act,
        .dropout = {.rate = kinds[kind].rate, .seed = 5, .batch = 9, .layer = 3},
        .dbias = kinds[kind].dbias};
}

static void gradients_in(struct suite *t, enum sl_precision precision)
{
    // m, k, n, n: tiles' and blocks' borders, few rows, segments, nothing.
    static const uint64_t sizes[][4] = {
        {1, 1, 1, 1},        {8, 255, 48, 49},    {47, 300, 256, 256}, {256, 513, 128, 128},
        {257, 700, 64, 1},   {300, 600, 300, 20}, {65, 512, 20, 700},  {40, 4200, 256, 96},
        {256, 9000, 64, 65}, {5, 7, 0, 3},        {5, 7, 3, 0},        {5, 0, 3, 3},
        {0, 5, 3, 3},
    };
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++)
        for (uint32_t dense = 2; dense <= 8; dense += 6) {
            struct sl_weight_gradients_args args = {
                .precision = precision, .m = sizes[i][0], .k = sizes[i][1]};
            const uint64_t pad = i % 3 == 1 ? 5 : 0;
            if (pad == 0)
                args.before = gradient_before(i + dense);
            args.lda = args.m + pad;
            for (int j = 0; j < 2; j++) {
                args.of[j].n = sizes[i][2 + j];
                args.of[j].ldb = args.of[j].n + pad;
                args.of[j].ldc = args.of[j].n + 2 * pad;
            }
            compare_gradients(t, args, dense);
        }
}

static void gradients(struct suite *t)
{
    gradients_in(t, SL_PRECISION_F32);
    for (int path = SL_CPU_BF16_AUTO; path < bf16_paths(); path++) {
        sl_cpu_gemm_set_bf16_path((enum sl_cpu_bf16_path)path);
        gradients_in(t, SL_PRECISION_BF16);
    }
    for (int of = SL_PRECISION_B; of <= SL_PRECISION_B2; of *= 4)
        gradients_in(t, SL_PRECISION_BF16 | of);
    sl_cpu_gemm_set_bf16_path(SL_CPU_BF16_AUTO);
}

void test_weight_gradients(struct suite *t)
{
    t_each_isa(t, gradients);
    // Sums of segments that are too many for one pass.
    struct sl_weight_gradients_args bands = {
        .m = 1100, .k = 16384, .lda = 1100, .before = gradient_before(0)};
    bands.of[0].n = bands.of[0].ldb = bands.of[0].ldc = 260;
    bands.of[1].n = bands.of[1].ldb = bands.of[1].ldc = 40;
    compare_gradients(t, bands, 8);
    // c in several blocks of columns, and of rows, of which the first comes with what is before.
    struct sl_weight_gradients_args blocks = {
        .m = 300, .k = 5000, .lda = 300, .before = gradient_before(0)};
    blocks.of[0].n = blocks.of[0].ldb = blocks.of[0].ldc = 700;
    blocks.of[1].n = blocks.of[1].ldb = blocks.of[1].ldc = 300;
    compare_gradients(t, blocks, 8);
    for (int path = SL_CPU_BF16_AUTO; path < bf16_paths() && t->device->is_host; path++) {
        sl_cpu_gemm_set_bf16_path((enum sl_cpu_bf16_path)path);
        blocks.precision = SL_PRECISION_BF16;
        blocks.of[0].n = blocks.of[0].ldb = blocks.of[0].ldc = 1100;
        compare_gradients(t, blocks, 8);
    }
    sl_cpu_gemm_set_bf16_path(SL_CPU_BF16_AUTO);
    t_begin(t, "weight_gradients refuses bad arguments");
    float *x = t_random_floats(t, 16), *c = t_random_floats(t, 16);
    struct sl_weight_gradients_args bad = {
        .m = 2, .k = 2, .a = x, .lda = 2, .of = {{2, x, 2, c, 2}, {2, x, 2, c + 8, 2}}};
    t_expect_ok(t, t->dev->weight_gradients(&bad, t_ws(t, t->dev)), "good arguments");
    bad.of[1].ldc = 1;
    t_expect_code(t, t->dev->weight_gradients(&bad, t_ws(t, t->dev)), SL_EINVAL, "ldc 1");
    bad.of[1].ldc = 2, bad.of[0].b = NULL;
    t_expect_code(t, t->dev->weight_gradients(&bad, t_ws(t, t->dev)), SL_EINVAL, "no b");
    bad.of[0].b = x, bad.before.act = SL_ACT_RELU;
    t_expect_code(t, t->dev->weight_gradients(&bad, t_ws(t, t->dev)), SL_EINVAL, "no y");
    bad.before.y = x, bad.lda = 3;
    t_expect_code(t, t->dev->weight_gradients(&bad, t_ws(t, t->dev)), SL_EINVAL, "lda 3");
    t_end(t);
}
