// Jumping knowledge: outputs and gradients against plain loops, inference a layer at a time.
#include <check.h>

#include "common/base/error.h"
#include "tests/unit/trainer_fixture.h"
#include "trainer/model/jumping.h"

enum { LAYERS_MAX = 4, HIDDEN = 6, OUTPUTS = 3, ROWS = 9, VALUES = ROWS * HIDDEN };

struct scene {
    struct sl_mempool pool;
    struct sl_layer_env env;
    struct sl_jumping j;
    struct sl_jumping_tape tape;
    uint32_t columns; // of lin.weight
    float params[OUTPUTS * (LAYERS_MAX * HIDDEN + 1)],
        gradient[OUTPUTS * (LAYERS_MAX * HIDDEN + 1)];
    float h[LAYERS_MAX][VALUES];
};

static void scene_init(struct scene *s, enum sl_jumping_kind kind, uint32_t layers, int back_end)
{
    memset(s, 0, sizeof *s);
    s->env = (struct sl_layer_env){.kernels = back_end ? sl_kernels_cpu() : sl_kernels_ref(),
                                   .device = sl_device_host(),
                                   .pool = &s->pool,
                                   .notes = &s->pool};
    s->columns = kind == SL_JUMPING_CAT ? layers * HIDDEN : HIDDEN;
    s->j = (struct sl_jumping){.kind = kind,
                               .n_layers = layers,
                               .hidden = HIDDEN,
                               .n_outputs = OUTPUTS,
                               .offset = {0, (uint64_t)OUTPUTS * s->columns}};
    struct fixture_rng r = {.seed = 4};
    for (size_t i = 0; i < SL_COUNT_OF(s->params); i++)
        s->params[i] = fixture_float(&r, 1);
    s->tape.rows = ROWS;
    for (uint32_t l = 0; l < layers; l++) {
        for (uint32_t i = 0; i < VALUES; i++)
            s->h[l][i] = fmaxf(fixture_float(&r, 1), 0); // as relu leaves them: zeros are equal
        s->tape.h[l] = s->h[l];
    }
}

// out (columns) = J of one row.
static void naive_row(const struct scene *s, uint32_t i, double *out)
{
    for (uint32_t k = 0; k < HIDDEN; k++) {
        double max = (double)s->h[0][i * HIDDEN + k];
        for (uint32_t l = 0; l < s->j.n_layers; l++) {
            double v = (double)s->h[l][i * HIDDEN + k];
            max = fmax(max, v);
            if (s->j.kind == SL_JUMPING_CAT)
                out[l * HIDDEN + k] = v;
            else
                out[k] = s->j.kind == SL_JUMPING_MAX ? max : v; // the last one stays
        }
    }
}

static void naive(const struct scene *s, double out[ROWS][OUTPUTS])
{
    for (uint32_t i = 0; i < ROWS; i++) {
        double row[LAYERS_MAX * HIDDEN];
        naive_row(s, i, row);
        for (uint32_t o = 0; o < OUTPUTS; o++) {
            out[i][o] = (double)s->params[s->j.offset[1] + o];
            for (uint32_t k = 0; k < s->columns; k++)
                out[i][o] += row[k] * (double)s->params[o * s->columns + k];
        }
    }
}

static void near(const char *what, uint64_t i, double found, double wanted)
{
    ck_assert_msg(fabs(found - wanted) <= 1e-5 * fmax(1, fabs(wanted)),
                  "%s[%llu]: found %.9g, wanted %.9g", what, (unsigned long long)i, found, wanted);
}

START_TEST(outputs_are_those_of_plain_loops)
{
    for (int kind = SL_JUMPING_LAST; kind <= SL_JUMPING_MAX; kind++)
        for (uint32_t layers = 1; layers <= LAYERS_MAX; layers++) {
            struct scene s;
            scene_init(&s, (enum sl_jumping_kind)kind, layers, _i);
            double wanted[ROWS][OUTPUTS];
            naive(&s, wanted);
            float *found;
            ck_assert_int_eq(sl_jumping_forward(&s.env, &s.j, s.params, &s.tape, &found), SL_OK);
            for (uint32_t i = 0; i < ROWS * OUTPUTS; i++)
                near("outputs", i, (double)found[i], wanted[i / OUTPUTS][i % OUTPUTS]);
            sl_mempool_fini(&s.pool);
        }
}
END_TEST

// What J is to element (i, k) of layer l: lin's columns it reaches, or none.
static double naive_dh(const struct scene *s, uint32_t l, uint32_t i, uint32_t k, const float *dout)
{
    uint32_t column = s->j.kind == SL_JUMPING_CAT ? l * HIDDEN + k : k;
    if (s->j.kind == SL_JUMPING_LAST && l + 1 < s->j.n_layers)
        return 0;
    for (uint32_t other = 0; s->j.kind == SL_JUMPING_MAX && other < s->j.n_layers; other++) {
        float mine = s->h[l][i * HIDDEN + k], its = s->h[other][i * HIDDEN + k];
        if (its > mine || (its == mine && other < l)) // the first of equals has it
            return 0;
    }
    double sum = 0;
    for (uint32_t o = 0; o < OUTPUTS; o++)
        sum += (double)dout[i * OUTPUTS + o] * (double)s->params[o * s->columns + column];
    return sum;
}

static void check_gradients(struct scene *s, float *dout)
{
    double sums[OUTPUTS][LAYERS_MAX * HIDDEN + 1] = {{0}};
    for (uint32_t i = 0; i < ROWS; i++) {
        double row[LAYERS_MAX * HIDDEN + 1];
        naive_row(s, i, row);
        row[s->columns] = 1; // the bias
        for (uint32_t o = 0; o < OUTPUTS; o++)
            for (uint32_t k = 0; k <= s->columns; k++)
                sums[o][k] += (double)dout[i * OUTPUTS + o] * row[k];
    }
    for (size_t i = 0; i < SL_COUNT_OF(s->gradient); i++)
        s->gradient[i] = 1; // it is added to
    ck_assert_int_eq(sl_jumping_gradient(&s->env, &s->j, &s->tape, dout, s->gradient), SL_OK);
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        for (uint32_t k = 0; k < s->columns; k++)
            near("dweight", k, (double)s->gradient[o * s->columns + k], 1 + sums[o][k]);
        near("dbias", o, (double)s->gradient[s->j.offset[1] + o], 1 + sums[o][s->columns]);
    }
    for (uint32_t l = s->j.n_layers; l-- > 0;) {
        bool last = l + 1 == s->j.n_layers;
        float dy[VALUES];
        for (uint32_t i = 0; i < VALUES; i++)
            dy[i] = last ? NAN : 2; // assigned; added to
        ck_assert_int_eq(sl_jumping_backward(&s->env, &s->j, s->params, &s->tape, l, dout, dy),
                         SL_OK);
        for (uint32_t i = 0; i < VALUES; i++)
            near("dh", i, (double)dy[i],
                 (last ? 0 : 2) + naive_dh(s, l, i / HIDDEN, i % HIDDEN, dout));
    }
}

START_TEST(gradients_are_those_of_plain_loops)
{
    for (int kind = SL_JUMPING_LAST; kind <= SL_JUMPING_MAX; kind++)
        for (uint32_t layers = 1; layers <= LAYERS_MAX; layers++) {
            struct scene s;
            scene_init(&s, (enum sl_jumping_kind)kind, layers, _i);
            float *outputs, dout[ROWS * OUTPUTS];
            struct fixture_rng r = {.seed = 9};
            for (uint32_t i = 0; i < ROWS * OUTPUTS; i++)
                dout[i] = fixture_float(&r, 1);
            ck_assert_int_eq(sl_jumping_forward(&s.env, &s.j, s.params, &s.tape, &outputs), SL_OK);
            check_gradients(&s, dout);
            sl_mempool_fini(&s.pool);
        }
}
END_TEST

// A layer at a time, each of them `times` times, as when a trainer died in it.
static void infer(struct scene *s, uint32_t times, double wanted[ROWS][OUTPUTS])
{
    const uint32_t width = sl_jumping_width(&s->j), last = s->j.n_layers - 1;
    float bank[ROWS * 2 * HIDDEN], found[ROWS * OUTPUTS], h[VALUES];
    ck_assert_uint_le(width, 2 * HIDDEN);
    for (size_t i = 0; i < SL_COUNT_OF(bank); i++)
        bank[i] = NAN;
    for (uint32_t l = 0; width && l < last; l++)
        for (uint32_t k = 0; k < times; k++)
            ck_assert_int_eq(sl_jumping_gather(&s->env, &s->j, s->params, l, s->h[l], ROWS, bank),
                             SL_OK);
    for (uint32_t k = 0; k < times; k++) {
        memcpy(h, s->h[last], sizeof h);
        ck_assert_int_eq(sl_jumping_finish(&s->env, &s->j, s->params, h, ROWS, bank, found), SL_OK);
    }
    for (uint32_t i = 0; i < ROWS * OUTPUTS; i++)
        near("inferred", i, (double)found[i], wanted[i / OUTPUTS][i % OUTPUTS]);
}

START_TEST(inference_layer_by_layer_may_be_repeated)
{
    for (int kind = SL_JUMPING_LAST; kind <= SL_JUMPING_MAX; kind++)
        for (uint32_t layers = 1; layers <= LAYERS_MAX; layers++)
            for (uint32_t times = 1; times <= 3; times++) {
                struct scene s;
                scene_init(&s, (enum sl_jumping_kind)kind, layers, _i);
                double wanted[ROWS][OUTPUTS];
                naive(&s, wanted);
                infer(&s, times, wanted);
                sl_mempool_fini(&s.pool);
            }
}
END_TEST

START_TEST(widths_and_tensors)
{
    struct sl_jumping j = {.kind = SL_JUMPING_CAT, .n_layers = 3, .hidden = 16, .n_outputs = 5};
    struct sl_tensor t[SL_JUMPING_TENSORS];
    ck_assert_uint_eq(sl_jumping_describe(&j, t), 2);
    ck_assert_str_eq(t[0].name, "lin.weight");
    ck_assert_uint_eq(t[0].shape[0], 5);
    ck_assert_uint_eq(t[0].shape[1], 48);
    ck_assert_float_eq_tol(t[0].init_bound, 1 / sqrtf(48), 1e-7f);
    ck_assert_str_eq(t[1].name, "lin.bias");
    ck_assert_uint_eq(t[1].rank, 1);
    ck_assert_uint_eq(t[1].shape[0], 5);
    ck_assert_float_eq_tol(t[1].init_bound, 1 / sqrtf(48), 1e-7f);
    ck_assert_uint_eq(sl_jumping_width(&j), 10);
    j.n_layers = 2;
    ck_assert_uint_eq(sl_jumping_width(&j), 5);
    j.n_layers = 1;
    ck_assert_uint_eq(sl_jumping_width(&j), 0);
    j.n_layers = 3;
    j.kind = SL_JUMPING_MAX;
    ck_assert_uint_eq(sl_jumping_width(&j), 16);
    j.kind = SL_JUMPING_LAST;
    ck_assert_uint_eq(sl_jumping_width(&j), 0);
    ck_assert_uint_eq(sl_jumping_describe(&j, t), 2);
    ck_assert_uint_eq(t[0].shape[1], 16);
    j.kind = SL_JUMPING_NONE;
    ck_assert_uint_eq(sl_jumping_width(&j), 0);
    ck_assert_uint_eq(sl_jumping_describe(&j, t), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trainer jumping");
    TCase *tc = tcase_create("jumping");
    tcase_set_timeout(tc, 20);
    tcase_add_loop_test(tc, outputs_are_those_of_plain_loops, 0, 2);
    tcase_add_loop_test(tc, gradients_are_those_of_plain_loops, 0, 2);
    tcase_add_loop_test(tc, inference_layer_by_layer_may_be_repeated, 0, 2);
    tcase_add_test(tc, widths_and_tensors);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
