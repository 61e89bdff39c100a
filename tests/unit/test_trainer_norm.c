// Norms: one row, and how tensors start. Golden files and whole models have the rest.

#include "common/base/error.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/model/norm.h"

enum { ROWS = 13, DIM = 5, VALUES = ROWS * DIM };
static const double EPS = 1e-5;

struct scene {
    struct sl_mempool pool;
    struct sl_layer_env env;
    struct sl_norm norm;
    uint64_t offset[SL_NORM_TENSORS];
    float params[4 * DIM], gradient[4 * DIM];
    float x[VALUES], y[VALUES], dy[VALUES], dx[VALUES];
    struct sl_norm_tape tape;
};

static void scene_init(struct scene *s, enum sl_norm_kind kind, int back_end)
{
    memset(s, 0, sizeof *s);
    s->env = (struct sl_layer_env){.kernels = back_end ? sl_kernels_cpu() : sl_kernels_ref(),
                                   .device = sl_device_host(),
                                   .pool = &s->pool,
                                   .notes = &s->pool};
    for (uint32_t t = 0; t < SL_NORM_TENSORS; t++)
        s->offset[t] = t * DIM;
    s->norm = (struct sl_norm){.kind = kind, .dim = DIM, .offset = s->offset};
    struct fixture_rng r = {.seed = 8};
    for (uint32_t i = 0; i < 4 * DIM; i++)
        s->params[i] = fixture_float(&r, 0.5f) + 1;
    for (uint32_t i = 0; i < VALUES; i++) {
        s->x[i] = fixture_float(&r, 2) + (float)(i % DIM); // columns of different means
        s->dy[i] = fixture_float(&r, 1);
    }
}

static void near(const char *what, uint64_t i, double found, double wanted)
{
    ck_assert_msg(fabs(found - wanted) <= 2e-5 * fmax(1, fabs(wanted)),
                  "%s[%llu]: found %.9g, wanted %.9g", what, (unsigned long long)i, found, wanted);
}

// One row has no variance: it is normalised by the running statistics and leaves them as they are.
LOOP_TEST(one_row_in_training, 0, 2)
{
    struct scene s;
    scene_init(&s, SL_NORM_BATCH, _i);
    ck_assert_int_eq(sl_norm_forward(&s.env, &s.norm, s.params, s.x, 1, true, s.y, &s.tape), SL_OK);
    ck_assert_int_eq(sl_norm_backward(&s.env, &s.norm, s.params, &s.tape, s.dy, s.gradient, s.dx),
                     SL_OK);
    for (uint32_t c = 0; c < DIM; c++) {
        const double inverse = 1 / sqrt((double)s.params[3 * DIM + c] + EPS);
        const double z = ((double)s.x[c] - (double)s.params[2 * DIM + c]) * inverse;
        near("y", c, (double)s.y[c], z * (double)s.params[c] + (double)s.params[DIM + c]);
        near("dx", c, (double)s.dx[c], (double)s.dy[c] * (double)s.params[c] * inverse);
        near("dgamma", c, (double)s.gradient[c], (double)s.dy[c] * z);
        near("dbeta", c, (double)s.gradient[DIM + c], (double)s.dy[c]);
    }
    ck_assert_mem_eq(s.gradient + 2 * DIM, s.params + 2 * DIM, 2 * DIM * sizeof(float));
    sl_mempool_fini(&s.pool);
}

TEST(tensors_are_those_of_torch)
{
    struct sl_tensor t[SL_NORM_TENSORS];
    ck_assert_uint_eq(sl_norm_describe(SL_NORM_NONE, 4, "norms.0", t), 0);
    ck_assert_uint_eq(sl_norm_describe(SL_NORM_LAYER, 4, "norms.1", t), 2);
    ck_assert_str_eq(t[0].name, "norms.1.weight");
    ck_assert_str_eq(t[1].name, "norms.1.bias");
    ck_assert(t[0].init_constant == 1 && t[1].init_constant == 0);
    ck_assert_uint_eq(sl_norm_describe(SL_NORM_BATCH, 4, "convs.2.nn.norms.0", t), 5);
    ck_assert_str_eq(t[0].name, "convs.2.nn.norms.0.module.weight");
    ck_assert_str_eq(t[2].name, "convs.2.nn.norms.0.module.running_mean");
    ck_assert_str_eq(t[3].name, "convs.2.nn.norms.0.module.running_var");
    ck_assert_str_eq(t[4].name, "convs.2.nn.norms.0.module.num_batches_tracked");
    ck_assert_int_eq(t[1].role, SL_TENSOR_LEARNED);
    ck_assert_int_eq(t[2].role, SL_TENSOR_RUNNING);
    ck_assert(t[2].init_constant == 0 && t[3].init_constant == 1);
    ck_assert_int_eq(t[4].role, SL_TENSOR_COUNTER);
    ck_assert_uint_eq(t[4].rank, 0);
    ck_assert_uint_eq(sl_tensor_count(&t[4]), 0);
    ck_assert_uint_eq(sl_tensor_count(&t[3]), 4);
}

RUN_TESTS(.timeout_s = 20)
