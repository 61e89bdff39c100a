// Parameters as the broker knows them: layout, initial values, the files.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <math.h>
#include <stdbool.h>

#include "broker/rundir/params.h"
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

TEST(tensors_lie_one_after_another)
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

TEST(initial_values_are_the_documented_draws)
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

TEST(every_tensor_has_draws_of_its_own)
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

TEST(nonsense_is_refused)
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

TEST(the_files_data_is_what_was_hashed)
{
    char hex[SL_SHA256_HEX_BYTES], other[SL_SHA256_HEX_BYTES], path[1100];
    must(sl_params_from_hello(&params, &hello));
    float *v = calloc(params.n, sizeof *v);
    sl_params_initialise(&params, 99, v);
    must(sl_params_sha256(&params, v, 0, hex));
    snprintf(path, sizeof path, "%s", in_dir("m.safetensors"));
    must(sl_params_save(&params, v, 0, path, "job", "final"));
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
    must(sl_params_sha256(&params, v, 0, other));
    ck_assert_str_ne(hex, other);
    free(v);
    free(back);
    sl_params_fini(&params);
}

// --- reading ---

TEST(tensors_stacked_by_relation_are_of_the_same_ones_in_the_same_order)
{
    static const char *const order[] = {"a -r-> b, b -s-> a", "b -s-> a, a -r-> b", "a -r-> b"};
    hello.stacked = (char *)order[0];
    must(sl_params_from_hello(&params, &hello));
    float *v = calloc(params.n, sizeof *v);
    const float *const state[] = {v};
    must(sl_params_save(&params, v, 0, in_dir("r.safetensors"), "job", "note"));
    must(sl_params_save_state(&params, state, 1, in_dir("m.safetensors"), "job", "note"));
    must(sl_params_load(&params, in_dir("r.safetensors"), v));
    must(sl_params_load_state(&params, in_dir("m.safetensors"), &v, 1));
    sl_params_fini(&params);
    for (int i = 1; i < 3; i++) {
        hello.stacked = (char *)order[i];
        must(sl_params_from_hello(&params, &hello));
        ck_assert_int_eq(sl_params_load(&params, in_dir("r.safetensors"), v), SL_EFORMAT);
        assert_message_has(i == 1 ? "relation 0" : "relation 1");
        assert_message_has(i == 1 ? "found 'a -r-> b', wanted 'b -s-> a'"
                                  : "found 'b -s-> a', wanted ''");
        ck_assert_int_eq(sl_params_import(&params, in_dir("r.safetensors"), NULL, v, NULL),
                         SL_EFORMAT);
        ck_assert_int_eq(sl_params_load_state(&params, in_dir("m.safetensors"), &v, 1), SL_EFORMAT);
        sl_params_fini(&params);
    }
    hello.stacked = (char *)protobuf_c_empty_string; // of tensors that have names of relations
    must(sl_params_from_hello(&params, &hello));
    must(sl_params_load(&params, in_dir("r.safetensors"), v));
    free(v);
    sl_params_fini(&params);
}

// The model's two tensors, of other shapes or names, in a file.
static const char *write_tensors(const char *first, uint64_t rows, uint64_t columns,
                                 const char *second, uint64_t n)
{
    static float data[10000];
    for (size_t i = 0; i < SL_COUNT_OF(data); i++)
        data[i] = (float)i;
    const struct sl_safetensor given[] = {
        {.name = second, .ndim = 1, .shape = {n}, .data = data + 5000},
        {.name = first, .ndim = 2, .shape = {rows, columns}, .data = data},
    };
    const char *path = in_dir("w.safetensors");
    must(sl_safetensors_write(path, given, 2, NULL, 0));
    return path;
}

TEST(a_file_is_read_by_names_in_any_order)
{
    must(sl_params_from_hello(&params, &hello));
    float *v = calloc(params.n, sizeof *v);
    must(
        sl_params_load(&params, write_tensors("convs.0.lin.weight", 70, 33, "convs.0.bias", 7), v));
    ck_assert_float_eq(v[0], 0);
    ck_assert_float_eq(v[70 * 33 - 1], 70 * 33 - 1);
    ck_assert_float_eq(v[70 * 33], 5000);
    ck_assert_float_eq(v[params.n - 1], 5006);
    free(v);
    sl_params_fini(&params);
}

TEST(a_file_of_another_model_is_refused_with_all_differences)
{
    must(sl_params_from_hello(&params, &hello));
    float *v = calloc(params.n, sizeof *v);
    ck_assert_int_eq(
        sl_params_load(&params, write_tensors("convs.0.lin.weight", 33, 70, "convs.0.bias", 8), v),
        SL_EFORMAT);
    assert_message_has("2 differences");
    assert_message_has("'convs.0.lin.weight': found shape (33, 70), wanted (70, 33)");
    assert_message_has("'convs.0.bias': found shape (8), wanted (7)");
    ck_assert_int_eq(
        sl_params_load(&params, write_tensors("convs.0.lin_l.weight", 70, 33, "convs.0.bias", 7),
                       v),
        SL_EFORMAT);
    assert_message_has("'convs.0.lin.weight' (70, 33) is missing");
    assert_message_has("'convs.0.lin_l.weight' is not a tensor of this model");
    ck_assert_int_eq(sl_params_load(&params, in_dir("none"), v), SL_ENOENT);
    for (uint64_t i = 0; i < params.n; i++)
        ck_assert_float_eq(v[i], 0);
    free(v);
    sl_params_fini(&params);
}

TEST(a_counter_takes_no_floats_and_is_an_integer_in_the_file)
{
    struct sl_safetensors_file f;
    tensor[1].role = SL_PARAM_COUNTER;
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO); // it has a shape
    tensor[1].n_shape = 0;
    must(sl_params_from_hello(&params, &hello));
    ck_assert_uint_eq(params.n, 70 * 33);
    float *v = calloc(params.n, sizeof *v);
    v[0] = 3;
    must(sl_params_save(&params, v, 1234, in_dir("c.safetensors"), "job", "note"));
    must(sl_safetensors_open(in_dir("c.safetensors"), &f));
    const struct sl_safetensor *t = sl_safetensors_find(&f, "convs.0.bias");
    ck_assert(t && t->ndim == 0 && t->dtype == SL_DTYPE_I64);
    ck_assert_int_eq(*(const int64_t *)t->data, 1234);
    sl_safetensors_close(&f);
    v[0] = 0;
    must(sl_params_load(&params, in_dir("c.safetensors"), v));
    ck_assert_float_eq(v[0], 3);
    sl_params_fini(&params);
    tensor[0].n_shape = 0; // only counters are scalars
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO);
    tensor[0].n_shape = 2;
    tensor[0].role = 9;
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO);
    free(v);
}

TEST(a_twin_has_the_values_of_another_tensor_and_stands_in_the_file)
{
    struct sl_safetensors_file f;
    tensor[1].role = SL_PARAM_TWIN;
    tensor[1].twin = 1;
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO); // of another shape
    tensor[1].n_shape = 2;
    memcpy(shape[1], shape[0], sizeof shape[1]);
    tensor[1].twin = 2;
    ck_assert_int_eq(sl_params_from_hello(&params, &hello), SL_EPROTO); // of nobody
    tensor[1].twin = 1;
    must(sl_params_from_hello(&params, &hello));
    ck_assert_uint_eq(params.n, 70 * 33);
    float *v = calloc(params.n, sizeof *v);
    sl_params_initialise(&params, 5, v);
    must(sl_params_save(&params, v, 0, in_dir("t.safetensors"), "job", "note"));
    must(sl_safetensors_open(in_dir("t.safetensors"), &f));
    const struct sl_safetensor *t = sl_safetensors_find(&f, tensor[1].name);
    ck_assert(t && t->ndim == 2);
    ck_assert_mem_eq(t->data, v, params.n * sizeof *v);
    sl_safetensors_close(&f);
    must(sl_params_load(&params, in_dir("t.safetensors"), v));
    // Others have one of the two alone, or two that differ.
    struct sl_safetensor given[] = {
        {.name = tensor[0].name, .ndim = 2, .shape = {70, 33}, .data = v},
        {.name = tensor[1].name, .ndim = 2, .shape = {70, 33}, .data = v},
    };
    must(sl_safetensors_write(in_dir("u.safetensors"), given, 1, NULL, 0));
    must(sl_params_load(&params, in_dir("u.safetensors"), v));
    float *other = calloc(params.n, sizeof *other);
    given[1].data = other;
    must(sl_safetensors_write(in_dir("u.safetensors"), given, 2, NULL, 0));
    ck_assert_int_eq(sl_params_load(&params, in_dir("u.safetensors"), v), SL_EFORMAT);
    assert_message_has("found other values of 'convs.0.bias' than of 'convs.0.lin.weight'");
    must(sl_params_save_state(&params, (const float *const[]){v}, 1, in_dir("s.safetensors"), "job",
                              "note"));
    must(sl_safetensors_open(in_dir("s.safetensors"), &f));
    ck_assert_uint_eq(f.n_tensors, 1); // as PyTorch's optimizers have it
    sl_safetensors_close(&f);
    free(other);
    free(v);
    sl_params_fini(&params);
}

// The model's two tensors under longer names, all 1 but the last of the second, beside a third.
static const char *write_foreign(const char *prefix, float last, const char *third)
{
    static float ones[70 * 33], second[7];
    static const float zero;
    char names[2][64];
    for (size_t i = 0; i < SL_COUNT_OF(ones); i++)
        ones[i] = 1;
    memcpy(second, ones, sizeof second);
    second[6] = last;
    for (int i = 0; i < 2; i++)
        snprintf(names[i], sizeof names[i], "%s%s", prefix, tensor[i].name);
    const struct sl_safetensor given[] = {
        {.name = names[0], .ndim = 2, .shape = {70, 33}, .data = ones},
        {.name = names[1], .ndim = 1, .shape = {7}, .data = second},
        {.name = third, .ndim = 1, .shape = {1}, .data = &zero},
    };
    must(sl_safetensors_write(in_dir("f.safetensors"), given, third ? 3 : 2, NULL, 0));
    return in_dir("f.safetensors");
}

static const char *const prefixes[] = {"model.", "module.", "_orig_mod.module."};

LOOP_TEST(names_behind_a_prefix_are_told_and_read_without_it, 0, SL_COUNT_OF(prefixes))
{
    char said[128];
    const char *prefix = prefixes[_i];
    must(sl_params_from_hello(&params, &hello));
    float *v = calloc(params.n, sizeof *v);
    const char *path = write_foreign(prefix, 2, NULL);
    ck_assert_int_eq(sl_params_import(&params, path, NULL, v, NULL), SL_EFORMAT);
    snprintf(said, sizeof said, "import-weights --strip-prefix %s`", prefix);
    assert_message_has(said);
    must(sl_params_import(&params, path, prefix, v, NULL));
    ck_assert(v[0] == 1 && v[params.n - 1] == 2);
    ck_assert_int_eq(sl_params_import(&params, path, "net.", v, NULL), SL_EINVAL);
    assert_message_has("no name begins with 'net.': the first one is '");
    // What is not the model's is a difference still, and names do not fall together.
    path = write_foreign(prefix, 2, "head.bias");
    ck_assert_int_eq(sl_params_import(&params, path, prefix, v, NULL), SL_EFORMAT);
    assert_message_has("'head.bias' is not a tensor of this model");
    path = write_foreign(prefix, 2, "convs.0.bias");
    ck_assert_int_eq(sl_params_import(&params, path, prefix, v, NULL), SL_EINVAL);
    assert_message_has("there are two tensors 'convs.0.bias'");
    free(v);
    sl_params_fini(&params);
}

static const struct {
    const char *name; // of the second tensor, which is a running statistic
    float value;
    const char *said; // NULL: it is taken
} values[] = {
    {"norms.0.running_mean", NAN, "tensor norms.0.running_mean: [6]: found nan"},
    {"norms.0.running_mean", INFINITY, "[6]: found inf"},
    {"norms.0.running_mean", -1, NULL},
    {"norms.0.running_var", -1, "tensor norms.0.running_var: [6]: found -1"},
    {"norms.0.running_var", 0, NULL},
    {"running_variance", -1, NULL},
};

LOOP_TEST(values_that_no_training_leaves_are_refused_by_name, 0, SL_COUNT_OF(values))
{
    tensor[1].role = SL_PARAM_RUNNING;
    tensor[1].name = (char *)values[_i].name;
    must(sl_params_from_hello(&params, &hello));
    float *v = calloc(params.n, sizeof *v);
    const char *path = write_foreign("", values[_i].value, NULL);
    ck_assert_int_eq(sl_params_import(&params, path, NULL, v, NULL),
                     values[_i].said ? SL_EFORMAT : SL_OK);
    if (values[_i].said)
        assert_message_has(values[_i].said);
    must(sl_params_load(&params, path, v)); // sluice's own are what they are
    free(v);
    sl_params_fini(&params);
}

TEST(the_optimizers_arrays_are_named_as_pytorch_names_them)
{
    struct sl_safetensors_file f;
    tensor[1].role = SL_PARAM_RUNNING;
    must(sl_params_from_hello(&params, &hello));
    float *a = calloc(params.n, sizeof *a), *b = calloc(params.n, sizeof *b);
    for (uint64_t i = 0; i < params.n; i++) {
        a[i] = (float)i;
        b[i] = -(float)i;
    }
    const float *from[2] = {a, b};
    must(sl_params_save_state(&params, from, 2, in_dir("o.safetensors"), "job", "note"));
    must(sl_safetensors_open(in_dir("o.safetensors"), &f));
    ck_assert_uint_eq(f.n_tensors, 2);
    ck_assert_ptr_nonnull(sl_safetensors_find(&f, "exp_avg.convs.0.lin.weight"));
    sl_safetensors_close(&f);
    float *c = calloc(params.n, sizeof *c), *d = calloc(params.n, sizeof *d);
    float *into[2] = {c, d};
    must(sl_params_load_state(&params, in_dir("o.safetensors"), into, 2));
    ck_assert_int_eq(memcmp(a, c, 70 * 33 * sizeof *a), 0);
    ck_assert_int_eq(memcmp(b, d, 70 * 33 * sizeof *a), 0);
    // Another optimizer's file does not fit.
    ck_assert_int_eq(sl_params_load_state(&params, in_dir("o.safetensors"), into, 1), SL_EFORMAT);
    assert_message_has("momentum_buffer.convs.0.lin.weight");
    free(a);
    free(b);
    free(c);
    free(d);
    sl_params_fini(&params);
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 10)
