// Parameters as .safetensors: layout, order, padding, hash.
#include "common/data/safetensors.h"

#include <cjson/cJSON.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static const float weight[6] = {1, 2, 3, 4, 5, 6};
static const float bias[2] = {-1, 0.5f};

static const struct sl_safetensor two[] = {
    {"convs.0.lin_l.weight", SL_DTYPE_F32, 2, {2, 3}, weight},
    {"convs.0.lin_l.bias", SL_DTYPE_F32, 1, {2}, bias},
};

// The whole file (free() it); its header's JSON and where its data starts.
static unsigned char *read_back(const char *name, size_t *n, cJSON **json, size_t *data_at)
{
    FILE *f = fopen(in_dir(name), "rb");
    ck_assert_ptr_nonnull(f);
    unsigned char *bytes = malloc(1 << 20);
    *n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    ck_assert_uint_ge(*n, 8);
    uint64_t n_header = 0;
    for (int i = 7; i >= 0; i--)
        n_header = n_header << 8 | bytes[i];
    ck_assert_uint_le(n_header, *n - 8);
    ck_assert_uint_eq(n_header % 8, 0);
    ck_assert_int_eq(bytes[8], '{');
    *json = cJSON_ParseWithLength((const char *)bytes + 8, n_header);
    ck_assert_ptr_nonnull(*json);
    *data_at = 8 + n_header;
    return bytes;
}

static void assert_tensor(const cJSON *item, const char *name, int ndim, const double *shape,
                          double begin, double end)
{
    ck_assert_str_eq(item->string, name);
    ck_assert_str_eq(cJSON_GetObjectItem(item, "dtype")->valuestring, "F32");
    const cJSON *dims = cJSON_GetObjectItem(item, "shape");
    ck_assert_int_eq(cJSON_GetArraySize(dims), ndim);
    for (int i = 0; i < ndim; i++)
        ck_assert_double_eq(cJSON_GetArrayItem(dims, i)->valuedouble, shape[i]);
    const cJSON *offsets = cJSON_GetObjectItem(item, "data_offsets");
    ck_assert_int_eq(cJSON_GetArraySize(offsets), 2);
    ck_assert_double_eq(cJSON_GetArrayItem(offsets, 0)->valuedouble, begin);
    ck_assert_double_eq(cJSON_GetArrayItem(offsets, 1)->valuedouble, end);
}

TEST(layout_is_that_of_the_format)
{
    size_t n, at;
    cJSON *json;
    must(sl_safetensors_write(in_dir("m.safetensors"), two, 2, NULL, 0));
    unsigned char *bytes = read_back("m.safetensors", &n, &json, &at);
    ck_assert_int_eq(cJSON_GetArraySize(json), 2);
    assert_tensor(json->child, "convs.0.lin_l.weight", 2, (double[]){2, 3}, 0, 24);
    assert_tensor(json->child->next, "convs.0.lin_l.bias", 1, (double[]){2}, 24, 32);
    ck_assert_uint_eq(n, at + 32);
    ck_assert_mem_eq(bytes + at, weight, 24);
    ck_assert_mem_eq(bytes + at + 24, bias, 8);
    cJSON_Delete(json);
    free(bytes);
    ck_assert_int_eq(count_entries(), 1);
}

TEST(every_header_length_is_padded)
{
    char name[20] = "";
    for (int i = 0; i < 17; i++) {
        size_t n, at;
        cJSON *json;
        strcat(name, "x");
        struct sl_safetensor t = {name, SL_DTYPE_F32, 1, {2}, bias};
        must(sl_safetensors_write(in_dir("p"), &t, 1, NULL, 0));
        unsigned char *bytes = read_back("p", &n, &json, &at);
        assert_tensor(json->child, name, 1, (double[]){2}, 0, 8);
        ck_assert_uint_eq(n, at + 8);
        cJSON_Delete(json);
        free(bytes);
    }
}

TEST(notes_and_odd_names_are_escaped)
{
    size_t n, at;
    cJSON *json;
    const struct sl_safetensors_note notes[] = {{"format", "pt"}, {"job", "a \"b\"\n"}};
    const struct sl_safetensor t = {"quote\" back\\slash", SL_DTYPE_F32, 1, {2}, bias};
    must(sl_safetensors_write(in_dir("n"), &t, 1, notes, 2));
    unsigned char *bytes = read_back("n", &n, &json, &at);
    const cJSON *meta = cJSON_GetObjectItem(json, "__metadata__");
    ck_assert_str_eq(cJSON_GetObjectItem(meta, "format")->valuestring, "pt");
    ck_assert_str_eq(cJSON_GetObjectItem(meta, "job")->valuestring, "a \"b\"\n");
    assert_tensor(meta->next, "quote\" back\\slash", 1, (double[]){2}, 0, 8);
    cJSON_Delete(json);
    free(bytes);
}

TEST(scalars_empty_tensors_and_no_tensors_are_files)
{
    size_t n, at;
    cJSON *json;
    const struct sl_safetensor some[] = {{"scalar", SL_DTYPE_F32, 0, {0}, bias},
                                         {"none", SL_DTYPE_F32, 2, {0, 7}, NULL}};
    must(sl_safetensors_write(in_dir("s"), some, 2, NULL, 0));
    unsigned char *bytes = read_back("s", &n, &json, &at);
    assert_tensor(json->child, "scalar", 0, NULL, 0, 4);
    assert_tensor(json->child->next, "none", 2, (double[]){0, 7}, 4, 4);
    ck_assert_uint_eq(n, at + 4);
    cJSON_Delete(json);
    free(bytes);
    must(sl_safetensors_write(in_dir("z"), NULL, 0, NULL, 0));
    bytes = read_back("z", &n, &json, &at);
    ck_assert_uint_eq(n, at);
    cJSON_Delete(json);
    free(bytes);
}

TEST(integers_lie_before_floats)
{
    // So that they are aligned whatever the floats' sizes.
    size_t n, at;
    cJSON *json;
    const int64_t count = 77;
    char hex[SL_SHA256_HEX_BYTES], moved[SL_SHA256_HEX_BYTES];
    const struct sl_safetensor some[] = {{"w", SL_DTYPE_F32, 1, {1}, bias},
                                         {"n", SL_DTYPE_I64, 0, {0}, &count},
                                         {"v", SL_DTYPE_NONE, 1, {2}, bias}};
    const struct sl_safetensor half = {"h", SL_DTYPE_F16, 1, {2}, bias};
    must(sl_safetensors_write(in_dir("i"), some, 3, NULL, 0));
    unsigned char *bytes = read_back("i", &n, &json, &at);
    ck_assert_str_eq(json->child->string, "n");
    ck_assert_str_eq(cJSON_GetObjectItem(json->child, "dtype")->valuestring, "I64");
    assert_tensor(json->child->next, "w", 1, (double[]){1}, 8, 12);
    assert_tensor(json->child->next->next, "v", 1, (double[]){2}, 12, 20);
    ck_assert_mem_eq(bytes + at, &count, 8);
    ck_assert_uint_eq(n, at + 20);
    cJSON_Delete(json);
    free(bytes);
    const struct sl_safetensor in_order[] = {some[1], some[0], some[2]};
    must(sl_safetensors_sha256(some, 3, hex));
    must(sl_safetensors_sha256(in_order, 3, moved));
    ck_assert_str_eq(hex, moved);
    ck_assert_int_eq(sl_safetensors_write(in_dir("i"), &half, 1, NULL, 0), SL_EINVAL);
}

TEST(names_must_be_unique_and_there)
{
    const struct sl_safetensor twice[] = {{"w", SL_DTYPE_F32, 1, {2}, bias},
                                          {"w", SL_DTYPE_F32, 1, {2}, bias}};
    const struct sl_safetensor cases[] = {{"w", SL_DTYPE_F32, 1, {2}, bias},
                                          {"W", SL_DTYPE_F32, 1, {2}, bias}};
    const struct sl_safetensor unnamed = {"", SL_DTYPE_F32, 1, {2}, bias};
    const struct sl_safetensor reserved = {"__metadata__", SL_DTYPE_F32, 1, {2}, bias};
    const struct sl_safetensor huge = {
        "h", SL_DTYPE_F32, 2, {(uint64_t)1 << 40, (uint64_t)1 << 40}, bias};
    ck_assert_int_eq(sl_safetensors_write(in_dir("a"), twice, 2, NULL, 0), SL_EINVAL);
    assert_message_has("two tensors of this name");
    ck_assert_int_eq(sl_safetensors_write(in_dir("a"), &unnamed, 1, NULL, 0), SL_EINVAL);
    ck_assert_int_eq(sl_safetensors_write(in_dir("a"), &reserved, 1, NULL, 0), SL_EINVAL);
    ck_assert_int_eq(sl_safetensors_write(in_dir("a"), &huge, 1, NULL, 0), SL_EINVAL);
    ck_assert_int_eq(count_entries(), 0);
    must(sl_safetensors_write(in_dir("a"), cases, 2, NULL, 0)); // names differ by case
    ck_assert_int_eq(sl_safetensors_write(in_dir("no/a"), two, 2, NULL, 0), SL_ENOENT);
}

TEST(hash_is_sha256_of_the_data)
{
    // FIPS 180-2: SHA-256 of "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq".
    char hex[SL_SHA256_HEX_BYTES], again[SL_SHA256_HEX_BYTES];
    float f[14];
    memcpy(f, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", sizeof f);
    const struct sl_safetensor whole = {"x", SL_DTYPE_F32, 2, {2, 7}, f};
    const struct sl_safetensor split[] = {{"a", SL_DTYPE_F32, 1, {5}, f},
                                          {"b", SL_DTYPE_F32, 1, {0}, f},
                                          {"c", SL_DTYPE_F32, 1, {9}, f + 5}};
    must(sl_safetensors_sha256(&whole, 1, hex));
    ck_assert_str_eq(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    must(sl_safetensors_sha256(split, 3, again));
    ck_assert_str_eq(hex, again);
    must(sl_safetensors_sha256(two, 2, again));
    ck_assert_str_ne(hex, again);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 20)
