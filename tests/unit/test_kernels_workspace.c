// What operations of cores pack for themselves is given back when they are over.
#include "common/base/error.h"
#include "kernels/kernels.h"
#include "tests/unit/kernels_fixture.h"
#include "tests/unit/suite.h"

enum { ROWS = 5000, WIDE = 48, NARROW = 32 }; // rows: several segments of a long k

static void assert_ok(int rc)
{
    ck_assert_msg(rc == SL_OK, "%s", sl_error_message());
}

// Those that the products begin with, and how many bytes of the pool are used after them.
LOOP_TEST(products_give_their_workspace_back, SL_PRECISION_F32, SL_PRECISION_BF16 + 1)
{
    const struct sl_kernels *k = sl_kernels_cpu();
    const enum sl_precision precision = (enum sl_precision)_i;
    static float a[ROWS * WIDE], b[ROWS * NARROW], w[NARROW * WIDE], c[ROWS * NARROW];
    struct sl_mempool ws = {0};
    for (int i = 0; i < ROWS * WIDE; i++)
        a[i] = (float)(i % 7);
    for (int i = 0; i < ROWS * NARROW; i++)
        b[i] = (float)(i % 5);
    sl_mempool_alloc(&ws, 100);
    const size_t used = ws.used_bytes;
    assert_ok(k->gemm(precision, SL_NO_TRANS, SL_TRANS, ROWS, NARROW, WIDE, 1, a, WIDE, w, WIDE, 0,
                      c, NARROW, &ws));
    ck_assert_uint_eq(ws.used_bytes, used);
    ck_assert_uint_gt(ws.peak_bytes, used); // it has taken some
    for (int round = 0; round < 3; round++) {
        const struct sl_weight_gradients_args args = {
            .precision = precision,
            .m = WIDE,
            .k = ROWS,
            .a = a,
            .lda = WIDE,
            .of = {{.n = NARROW, .b = b, .ldb = NARROW, .c = w, .ldc = NARROW}}};
        assert_ok(k->weight_gradients(&args, &ws));
        ck_assert_uint_eq(ws.used_bytes, used);
    }
    sl_mempool_fini(&ws);
}

TEST(a_transpose_gives_its_workspace_back)
{
    static const uint32_t indptr[] = {0, 2, 3}, indices[] = {3, 0, 3};
    const struct sl_csr_view csr = {
        .n_dst = 2, .n_src = 4, .n_edges = 3, .indptr = indptr, .indices = indices};
    uint32_t t_indptr[5], t_indices[3];
    struct sl_mempool ws = {0};
    assert_ok(sl_kernels_cpu()->transpose(&csr, t_indptr, t_indices, NULL, &ws));
    ck_assert_uint_eq(t_indptr[4], 3);
    ck_assert_uint_eq(ws.used_bytes, 0);
    ck_assert_uint_gt(ws.peak_bytes, 0);
    sl_mempool_fini(&ws);
}

RUN_TESTS(.timeout_s = 60)
