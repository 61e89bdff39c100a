// gather_rows: copies and conversions are exact, whatever the thread count.
#include "tests/kernels/harness.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

static void compare(struct suite *t, enum sl_dtype dtype, uint32_t n_rows, uint32_t dim, uint64_t n,
                    size_t skew)
{
    if (!t_affords(t, (double)n * dim))
        return;
    t_begin(t, "gather_rows %s n_rows=%u dim=%u n=%llu skew=%zu",
            dtype == SL_DTYPE_F16 ? "f16" : "f32", n_rows, dim, (unsigned long long)n, skew);
    size_t count = (size_t)n_rows * dim;
    const void *table = dtype == SL_DTYPE_F16 ? (void *)t_random_halves(t, count)
                                              : (void *)t_random_floats(t, count);
    uint32_t *rows = t_random_ids(t, n, n_rows);
    size_t bytes = n * dim * sizeof(float);
    float *want = t_alloc(t, bytes, 0);
    t_expect_ok(t, t->ref->gather_rows(table, dtype, n_rows, dim, rows, n, want), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        float *got = t_alloc(t, bytes, skew);
        sl_kernels_set_threads(*threads);
        t_expect_ok(t, t->dev->gather_rows(table, dtype, n_rows, dim, rows, n, got), "dev");
        t_same_bits(t, "out", got, want, bytes);
    }
    t_end(t);
}

// A GPU makes one NaN of all.
static void same_halves(struct suite *t, const char *what, const float *got, const float *want,
                        size_t n)
{
    if (t->device->is_host)
        t_same_bits(t, what, got, want, n * sizeof *got);
    else
        t_close(t, what, got, want, n, 0, 0);
}

// Every one of the 65536 half numbers, infinities, NaN and subnormals included.
static void every_half(struct suite *t)
{
    enum { DIM = 64, ROWS = 65536 / DIM };
    t_begin(t, "gather_rows converts every f16");
    uint16_t *table = t_alloc(t, 65536 * sizeof *table, 0);
    uint32_t *rows = t_alloc(t, ROWS * sizeof *rows, 0);
    for (uint32_t i = 0; i < 65536; i++)
        table[i] = (uint16_t)i;
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = i;
    float *want = t_alloc(t, 65536 * sizeof *want, 0), *got = t_alloc(t, 65536 * sizeof *got, 0);
    t_expect_ok(t, t->ref->gather_rows(table, SL_DTYPE_F16, ROWS, DIM, rows, ROWS, want), "ref");
    t_expect_ok(t, t->dev->gather_rows(table, SL_DTYPE_F16, ROWS, DIM, rows, ROWS, got), "dev");
    same_halves(t, "out", got, want, 65536);
    t_expect(t, want[0x3c00] == 1.0f && want[0xc000] == -2.0f && want[1] == 5.9604644775390625e-8f,
             "the reference decodes 0x3c00, 0xc000, 0x0001 as %g, %g, %g", (double)want[0x3c00],
             (double)want[0xc000], (double)want[1]);
    const uint32_t quiet = 0xffc02000; // 0xfc01, which is a signalling NaN
    t_expect(t, memcmp(&want[0xfc01], &quiet, sizeof quiet) == 0, "the reference decodes a NaN");
    // Rows of one element take the scalar conversion.
    float *one = t_alloc(t, sizeof *one, 0);
    for (uint32_t i = 0; i < 65536; i += t->is_emulated ? 61 : 1) {
        uint32_t row = i;
        t_expect_ok(t, t->dev->gather_rows(table, SL_DTYPE_F16, 65536, 1, &row, 1, one), "dev");
        same_halves(t, "one", one, &want[i], 1);
    }
    t_end(t);
}

static void bad_ids(struct suite *t)
{
    t_begin(t, "gather_rows refuses a row id outside the table");
    float *table = t_random_floats(t, 10 * 4), *out = t_alloc(t, 20 * 4 * sizeof(float), 0);
    uint32_t *rows = t_random_ids(t, 20, 10);
    memset(out, 0, 20 * 4 * sizeof(float));
    rows[13] = 10;
    const struct sl_kernels *both[] = {t->ref, t->dev};
    for (size_t i = 0; i < SL_COUNT_OF(both); i++) {
        int rc = both[i]->gather_rows(table, SL_DTYPE_F32, 10, 4, rows, 20, out);
        t_expect_code(t, rc, SL_ERANGE, both[i]->name);
        t_expect(t,
                 strstr(sl_error_message(), "id 10 ") && strstr(sl_error_message(), "position 13"),
                 "the message does not name the id: %s", sl_error_message());
        if (both[i] == t->ref || t->device->is_host) // a GPU has written the others
            t_expect(t, out[0] == 0.0f, "something was written");
    }
    rows[13] = 9;
    int rc = t->dev->gather_rows(table, SL_DTYPE_F32, 10, 4, rows, 20, out);
    t_expect_ok(t, rc, "with the last row's id");
    rc = t->dev->gather_rows(table, SL_DTYPE_I64, 10, 4, rows, 20, out);
    t_expect_code(t, rc, SL_EINVAL, "with a dtype of i64");
    t_end(t);
}

static void check(struct suite *t)
{
    static const uint32_t dims[] = {1, 3, 15, 16, 17, 31, 64, 100, 127, 128, 256, 257, 602};
    for (int half = 0; half < 2; half++) {
        enum sl_dtype dtype = half ? SL_DTYPE_F16 : SL_DTYPE_F32;
        for (size_t d = 0; d < SL_COUNT_OF(dims); d++) {
            static const uint64_t counts[] = {0, 1, 7, 500};
            for (size_t c = 0; c < SL_COUNT_OF(counts); c++)
                compare(t, dtype, 1 + t_random_below(t, 300), dims[d], counts[c], 0);
            // Large enough for streaming stores and for several threads; all alignments.
            uint64_t large = (2u << 20) / (dims[d] * 4) + 3;
            for (size_t skew = 0; skew < 32; skew += 4)
                if (skew % 16 == 0 || dims[d] == 100 || dims[d] == 128)
                    compare(t, dtype, 5000, dims[d], large, skew);
        }
    }
    every_half(t);
    bad_ids(t);
}

void test_gather_rows(struct suite *t)
{
    t_each_isa(t, check);
}
