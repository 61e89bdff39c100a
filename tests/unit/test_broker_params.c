// Parameters as the broker knows them: layout, initial values, the files.
#include "tests/unit/test_data_fixture.h"

#include <math.h>
#include <stdbool.h>

#include "broker/params.h"
#include "common/base/philox.h"

static Sl__Control__Hello hello;
static Sl__Control__Tensor tensor[2];
static Sl__Control__Tensor *list[2] = {&tensor[0], &tensor[1]};
static uint64_t shape[2][3];
static struct sl_params params;

static void setup(void)
{
    dir_begin();
    sl__control__hello__init(&hello);
    for (int i = 0; i < 2; i++) {
        sl__control__tensor__init(&tensor[i]);
        tensor[i].shape = shape[i];
    }
    shape[0][0] = 70;
    shape[0][1] = 33;
    tensor[0].name = "convs.0.lin.weight";
    tensor[0].n_shape = 2;
    tensor[0].init_bound = 0.25f;
    shape[1][0] = 7;
    tensor[1].name = "convs.0.bias";
    tensor[1].n_shape = 1;
    tensor[1].init_constant = 3;
    hello.tensors = list;
    hello.n_tensors = 2;
}

START_TEST(tensors_lie_one_after_another)
{
    must(sl_params_from_hello(&params, &hello));
    ck_assert_uint_eq(params.n, 70 * 33 + 7);
    ck_assert_uint_eq(params.tensors[0].offset, 0);
    ck_assert_uint_eq(params.tensors[1].offset, 70 * 33);
    ck_assert(sl_params_agree(&params, &hello));
    shape[1][0] = 8;
    ck_assert(!sl_params_agree(&params, &hello));
    shape[1][0] = 7;
    hello.n_tensors = 1;
    ck_assert(!sl_params_agree(&params, &hello));
    sl_params_fini(&params);
}
END_TEST

START_TEST(initial_values_are_the_documented_draws)
{
    must(sl_params_from_hello(&params, &hello));
    float *v = calloc(params.n, sizeof *v);
    sl_params_initialise(&params, 99, v);
    double sum = 0, least = 1, most = -1;
    for (uint64_t e = 0; e < 70 * 33; e++) {
        struct sl_rng_block b =
            sl_philox(99, sl_rng_word0(SL_RNG_INIT, 0, 0), (uint32_t)(e / 4), 0, 0);
        float want = (2.0f * sl_rng_unit(b.w[e % 4]) - 1.0f) * 0.25f;
        ck_assert_msg(v[e] == want, "element %llu: %g, wanted %g", (unsigned long long)e, v[e],
                      want);
        sum += v[e];
        least = fmin(least, v[e]);
        most = fmax(most, v[e]);
    }
    ck_assert_double_le(fabs(sum / (70 * 33)), 0.02);
    ck_assert(least >= -0.25 && least < -0.24 && most <= 0.25 && most > 0.24);
    for (uint64_t e = 70 * 33; e < params.n; e++)
        ck_assert_float_eq(v[e], 3);
    free(v);
    sl_params_fini(&params);
}
END_TEST

START_TEST(every_tensor_has_draws_of_its_own)
{
    float v[2][12] = {{0}};
    shape[0][0] = shape[1][0] = 6;
    shape[0][1] = 1;
    tensor[1].init_constant = 0;
    tensor[1].init_bound = 0.25f;
    must(sl_params_from_hello(&params, &hello));
    sl_params_initialise(&params, 1, v[0]);
    sl_params_initialise(&params, 2, v[1]);
    ck_assert_int_ne(memcmp(v[0], v[0] + 6, 24), 0);
    ck_assert_int_ne(memcmp(v[0], v[1], 24), 0);
    sl_params_fini(&params);
}
END_TEST

START_TEST(nonsense_is_refused)
{
    tensor[0].name = "";
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO);
    tensor[0].name = "w";
    shape[0][1] = 0;
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO);
    shape[0][0] = shape[0][1] = (uint64_t)1 << 40;
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO);
    tensor[0].n_shape = 0;
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO);
    hello.n_tensors = 0;
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO);
    ck_assert_ptr_null(params.tensors);
}
END_TEST

START_TEST(the_files_data_is_what_was_hashed)
{
    char hex[SL_SHA256_HEX_BYTES], other[SL_SHA256_HEX_BYTES], path[1100];
    must(sl_params_from_hello(&params, &hello));
    float *v = calloc(params.n, sizeof *v);
    sl_params_initialise(&params, 99, v);
    must(sl_params_sha256(&params, v, hex));
    snprintf(path, sizeof path, "%s", in_dir("m.safetensors"));
    must(sl_params_save(&params, v, path, "job", "final"));
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    uint64_t header;
    ck_assert_uint_eq(fread(&header, 8, 1, f), 1);
    ck_assert_int_eq(fseek(f, (long)(8 + header), SEEK_SET), 0);
    float *back = calloc(params.n + 1, sizeof *back);
    ck_assert_uint_eq(fread(back, 4, params.n + 1, f), params.n);
    fclose(f);
    ck_assert_int_eq(memcmp(back, v, params.n * 4), 0);
    v[params.n - 1] = 2.5f;
    must(sl_params_sha256(&params, v, other));
    ck_assert_str_ne(hex, other);
    free(v);
    free(back);
    sl_params_fini(&params);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broker params");
    TCase *c = tcase_create("params");
    tcase_add_unchecked_fixture(c, scratch_begin, scratch_end);
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_set_timeout(c, 10);
    tcase_add_test(c, tensors_lie_one_after_another);
    tcase_add_test(c, initial_values_are_the_documented_draws);
    tcase_add_test(c, every_tensor_has_draws_of_its_own);
    tcase_add_test(c, nonsense_is_refused);
    tcase_add_test(c, the_files_data_is_what_was_hashed);
    suite_add_tcase(s, c);
    return run_suite(s);
}
