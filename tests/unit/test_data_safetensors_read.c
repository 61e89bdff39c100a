// Files of others as .safetensors: what is read, and everything that is refused.
#include "common/data/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <sys/mman.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static const float weight[6] = {1, 2, 3, 4, 5, 6};
static const float bias[2] = {-1, 0.5f};

// Writes a file by hand: this header, then n_data bytes 0, 1, 2, ...
static void write_raw(const char *name, const char *header, size_t n_data)
{
    size_t n = strlen(header), total = 8 + n + n_data;
    unsigned char *bytes = calloc(1, total);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + n + i] = (unsigned char)i;
    write_file(name, bytes, total);
    free(bytes);
}

static void assert_refused(const char *header, size_t n_data, int code, const char *part)
{
    struct sl_safetensors_file f;
    write_raw("r", header, n_data);
    int rc = sl_safetensors_open(in_dir("r"), &f);
    if (rc != code)
        ck_abort_msg("%s: returned %d (%s)", header, rc, rc < 0 ? sl_error_message() : "");
    ck_assert_ptr_null(f.tensors);
    ck_assert_ptr_null(f.mapping);
    assert_message_has(part);
    assert_message_has("/r: ");
}

TEST(what_is_written_is_read)
{
    const int64_t count = 77;
    const struct sl_safetensor some[] = {
        {"convs.0.lin.weight", SL_DTYPE_F32, 2, {2, 3}, weight},
        {"norms.0.num_batches_tracked", SL_DTYPE_I64, 0, {0}, &count},
        {"none", SL_DTYPE_F32, 2, {0, 7}, NULL},
        {"convs.0.bias", SL_DTYPE_F32, 1, {2}, bias}};
    const struct sl_safetensors_note notes[] = {{"format", "pt"}, {"job", "a \"b\"\n"}};
    struct sl_safetensors_file f;
    float out[6];
    must(sl_safetensors_write(in_dir("m"), some, 4, notes, 2));
    must(sl_safetensors_open(in_dir("m"), &f));
    ck_assert_uint_eq(f.n_tensors, 4);
    for (int i = 0; i < 4; i++) {
        const struct sl_safetensor *t = sl_safetensors_find(&f, some[i].name);
        ck_assert_ptr_nonnull(t);
        ck_assert_int_eq(t->dtype, some[i].dtype);
        ck_assert_int_eq(t->ndim, some[i].ndim);
        ck_assert_mem_eq(t->shape, some[i].shape, sizeof t->shape);
    }
    ck_assert_str_eq(f.tensors[0].name, "norms.0.num_batches_tracked"); // order of the data
    ck_assert_int_eq(*(const int64_t *)f.tensors[0].data, 77);
    ck_assert_int_eq(sl_safetensor_floats(&f.tensors[0], out), SL_EUNSUPPORTED);
    const struct sl_safetensor *w = sl_safetensors_find(&f, "convs.0.lin.weight");
    ck_assert_uint_eq(sl_safetensor_count(w), 6);
    must(sl_safetensor_floats(w, out));
    ck_assert_mem_eq(out, weight, sizeof weight);
    ck_assert_uint_eq(sl_safetensor_count(sl_safetensors_find(&f, "none")), 0);
    must(sl_safetensor_floats(sl_safetensors_find(&f, "none"), out));
    ck_assert_ptr_null(sl_safetensors_find(&f, "convs.0"));
    ck_assert_str_eq(sl_safetensors_note(&f, "job"), "a \"b\"\n");
    ck_assert_ptr_null(sl_safetensors_note(&f, "other"));
    sl_safetensors_close(&f);
    sl_safetensors_close(&f); // of a closed one
}

TEST(files_of_no_tensors_are_read)
{
    struct sl_safetensors_file f;
    must(sl_safetensors_write(in_dir("z"), NULL, 0, NULL, 0));
    must(sl_safetensors_open(in_dir("z"), &f));
    ck_assert_uint_eq(f.n_tensors, 0);
    ck_assert_ptr_null(sl_safetensors_find(&f, "w"));
    sl_safetensors_close(&f);
}

TEST(every_float_type_is_converted)
{
    // 1, -2, smallest subnormal half, inf; 0.1 in each type; and a float64.
    struct sl_safetensors_file f;
    float out[4];
    unsigned char file[512] = {0};
    const char *header = "{\"h\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]},"
                         "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[8,12]},"
                         "\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[12,20]},"
                         "\"i\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[20,24]}}";
    const uint16_t half[6] = {0x3c00, 0xc000, 0x0001, 0x7c00, 0x3dcd, 0xc2f7};
    const double d = 0.1;
    const int32_t i = -5;
    size_t n = strlen(header);
    file[0] = (unsigned char)n;
    file[1] = (unsigned char)(n >> 8);
    memcpy(file + 8, header, n);
    memcpy(file + 8 + n, half, 12);
    memcpy(file + 8 + n + 12, &d, 8);
    memcpy(file + 8 + n + 20, &i, 4);
    write_file("t", file, 8 + n + 24);
    must(sl_safetensors_open(in_dir("t"), &f));
    must(sl_safetensor_floats(sl_safetensors_find(&f, "h"), out));
    ck_assert(out[0] == 1 && out[1] == -2 && out[2] == 0x1p-24f && isinf(out[3]));
    must(sl_safetensor_floats(sl_safetensors_find(&f, "b"), out));
    ck_assert(out[0] == 0.10009765625f && out[1] == -123.5f);
    must(sl_safetensor_floats(sl_safetensors_find(&f, "d"), out));
    ck_assert(out[0] == 0.1f);
    ck_assert_int_eq(*(const int32_t *)sl_safetensors_find(&f, "i")->data, -5);
    ck_assert_int_eq(sl_safetensor_floats(sl_safetensors_find(&f, "i"), out), SL_EUNSUPPORTED);
    sl_safetensors_close(&f);
}

TEST(doubles_beyond_float32_are_refused_by_name_and_place)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F64\",\"shape\":[2,3],\"data_offsets\":[0,48]}}";
    struct sl_safetensors_file f;
    unsigned char file[256] = {sizeof header - 1};
    double x[6] = {1, -1e300, INFINITY, NAN, 3e38, 1e-300};
    float out[6];
    memcpy(file + 8, header, sizeof header - 1);
    for (int pass = 0; pass < 2; pass++) {
        memcpy(file + 8 + sizeof header - 1, x, sizeof x);
        write_file("t", file, 8 + sizeof header - 1 + sizeof x);
        must(sl_safetensors_open(in_dir("t"), &f));
        int rc = sl_safetensor_floats(&f.tensors[0], out);
        ck_assert_int_eq(rc, pass == 0 ? SL_EFORMAT : SL_OK);
        if (pass == 0)
            assert_message_has("tensor w: [0, 1]: found -1e+300: float32 holds at most 3.40282");
        sl_safetensors_close(&f);
        x[1] = -3e38; // and what was not finite before stays so
    }
    ck_assert(out[1] == -3e38f && isinf(out[2]) && isnan(out[3]) && out[5] == 0);
}

TEST(unaligned_data_is_aligned_for_the_caller)
{
    struct sl_safetensors_file f;
    for (int pad = 0; pad < 8; pad++) {
        char header[200];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                 "\"n\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[4,12]}}%*s",
                 pad, "");
        write_raw("u", header, 12);
        must(sl_safetensors_open(in_dir("u"), &f));
        ck_assert_str_eq(f.tensors[0].name, "a");
        ck_assert_uint_eq((uintptr_t)f.tensors[0].data % 4, 0);
        ck_assert_uint_eq((uintptr_t)f.tensors[1].data % 8, 0);
        ck_assert_mem_eq(f.tensors[0].data, ((unsigned char[]){0, 1, 2, 3}), 4);
        ck_assert_mem_eq(f.tensors[1].data, ((unsigned char[]){4, 5, 6, 7, 8, 9, 10, 11}), 8);
        sl_safetensors_close(&f);
    }
}

TEST(headers_of_odd_order_and_space_are_read)
{
    struct sl_safetensors_file f;
    write_raw(
        "o",
        "{ \"b\":{\"data_offsets\":[4,8],\"shape\":[1,1,1,1],\"dtype\":\"F32\"},\n"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
        "\"__metadata__\":{},\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}} \n",
        8);
    must(sl_safetensors_open(in_dir("o"), &f));
    ck_assert_uint_eq(f.n_tensors, 3);
    ck_assert_str_eq(f.tensors[0].name, "a");
    ck_assert_str_eq(f.tensors[1].name, "e");
    ck_assert_str_eq(f.tensors[2].name, "b");
    sl_safetensors_close(&f);
}

// An entry of one tensor.
#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(places_must_cover_the_data)
{
    assert_refused("{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[1]", "[4,8]") "}", 8,
                   SL_EFORMAT, "tensors a and b overlap at byte 4");
    assert_refused("{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[0,4]") "}", 4,
                   SL_EFORMAT, "overlap at byte 0");
    assert_refused("{" T("a", "F32", "[3]", "[0,12]") "," T("e", "F32", "[0]", "[4,4]") "}", 12,
                   SL_EFORMAT, "overlap");
    assert_refused("{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}", 12,
                   SL_EFORMAT, "tensor b begins at byte 8 of the data, wanted 4: a hole");
    assert_refused("{" T("a", "F32", "[1]", "[4,8]") "}", 8, SL_EFORMAT, "wanted 0: a hole");
    assert_refused("{" T("a", "F32", "[1]", "[0,4]") "}", 8, SL_EFORMAT,
                   "has 8 bytes of data, its tensors end at 4");
    assert_refused("{}", 1, SL_EFORMAT, "its tensors end at 0");
    assert_refused("{" T("a", "F32", "[2]", "[0,8]") "}", 7, SL_EFORMAT, "truncated");
    assert_refused("{" T("a", "F32", "[2]", "[8,0]") "}", 8, SL_EFORMAT, "8 to 0");
    assert_refused("{" T("a", "F32", "[2]", "[0,9007199254740992]") "}", 8, SL_EFORMAT,
                   "truncated");
}

TEST(sizes_must_agree)
{
    assert_refused("{" T("a", "F64", "[2]", "[0,8]") "}", 8, SL_EFORMAT,
                   "tensor a: has 8 bytes (0 to 8), its type F64 and shape need 16");
    assert_refused("{" T("a", "BF16", "[2]", "[0,8]") "}", 8, SL_EFORMAT, "need 4");
    assert_refused("{" T("a", "F32", "[]", "[0,0]") "}", 0, SL_EFORMAT, "need 4");
    assert_refused("{" T("a", "F32", "[0,5]", "[0,4]") "}", 4, SL_EFORMAT, "need 0");
    assert_refused("{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, SL_EFORMAT,
                   "more than memory");
    assert_refused("{" T("a", "F32", "[2147483648,2147483648,4]", "[0,0]") "}", 0, SL_EFORMAT,
                   "more than memory");
}

TEST(fields_must_be_what_they_are)
{
    assert_refused("{" T("a", "F8_E4M3", "[1]", "[0,1]") "}", 1, SL_EUNSUPPORTED, "F8_E4M3");
    assert_refused("{" T("a", "f32", "[1]", "[0,4]") "}", 4, SL_EUNSUPPORTED, "type f32");
    assert_refused("{" T("a", "F32", "[1,1,1,1,1]", "[0,4]") "}", 4, SL_EUNSUPPORTED,
                   "5 dimensions");
    assert_refused("{" T("a", "F32", "[-1]", "[0,4]") "}", 4, SL_EFORMAT, "whole numbers");
    assert_refused("{" T("a", "F32", "[1.5]", "[0,4]") "}", 4, SL_EFORMAT, "whole numbers");
    assert_refused("{" T("a", "F32", "[1e300]", "[0,4]") "}", 4, SL_EFORMAT, "whole numbers");
    assert_refused("{" T("a", "F32", "[\"1\"]", "[0,4]") "}", 4, SL_EFORMAT, "whole numbers");
    assert_refused("{" T("a", "F32", "1", "[0,4]") "}", 4, SL_EFORMAT, "\"shape\" is not a list");
    assert_refused("{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, SL_EFORMAT, "two whole numbers");
    assert_refused("{" T("a", "F32", "[1]", "[0]") "}", 4, SL_EFORMAT, "two whole numbers");
    assert_refused("{" T("a", "F32", "[1]", "[null,4]") "}", 4, SL_EFORMAT, "two whole numbers");
    assert_refused("{" T("a", "F32", "[1]", "[-4,0]") "}", 4, SL_EFORMAT, "two whole numbers");
    assert_refused("{\"a\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, SL_EFORMAT,
                   "\"dtype\" is not a string");
    assert_refused("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, SL_EFORMAT,
                   "has no \"dtype\"");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, SL_EFORMAT,
                   "has no \"shape\"");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, SL_EFORMAT,
                   "has no \"data_offsets\"");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],"
                   "\"data_offsets\":[0,4]}}",
                   4, SL_EFORMAT, "repeated key \"shape\"");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
                   SL_EFORMAT, "unknown key \"x\"");
    assert_refused("{\"a\":[]}", 0, SL_EFORMAT, "not a JSON object");
    assert_refused("{" T("", "F32", "[1]", "[0,4]") "}", 4, SL_EFORMAT, "without a name");
    assert_refused("{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8,
                   SL_EFORMAT, "two tensors of this name");
    assert_refused("{\"__metadata__\":5}", 0, SL_EFORMAT, "__metadata__");
    assert_refused("{\"__metadata__\":{\"k\":1}}", 0, SL_EFORMAT, "\"k\" is not a string");
    assert_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, SL_EFORMAT, "twice");
}

TEST(headers_must_be_json)
{
    char deep[4000] = "{\"a\":";
    assert_refused("", 0, SL_EFORMAT, "not a JSON object");
    assert_refused("[]", 0, SL_EFORMAT, "not a JSON object");
    assert_refused("{", 0, SL_EFORMAT, "not a JSON object");
    assert_refused("{]", 0, SL_EFORMAT, "not valid JSON");
    assert_refused(" {}", 0, SL_EFORMAT, "not a JSON object");
    assert_refused("{}x", 0, SL_EFORMAT, "not valid JSON near byte 3");
    assert_refused("{} {}", 0, SL_EFORMAT, "not valid JSON");
    assert_refused("{\"a\":{\"dtype\":\"F32\"", 0, SL_EFORMAT, "not valid JSON");
    memset(deep + 5, '[', sizeof deep - 6);
    assert_refused(deep, 0, SL_EFORMAT, "not valid JSON");
}

TEST(header_lengths_are_checked_first)
{
    // 2^63, one more than there is, and longer than any header is.
    static const unsigned char huge[16] = {0, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'};
    static const unsigned char most[10] = {255, 255, 255, 255, 255, 255, 255, 255, '{', '}'};
    static const unsigned char past[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    struct sl_safetensors_file f;
    write_file("h", huge, sizeof huge);
    ck_assert_int_eq(sl_safetensors_open(in_dir("h"), &f), SL_EFORMAT);
    assert_message_has("says that its header has 9223372036854775808 bytes, the file has 8");
    write_file("h", most, sizeof most);
    ck_assert_int_eq(sl_safetensors_open(in_dir("h"), &f), SL_EFORMAT);
    write_file("h", past, sizeof past);
    ck_assert_int_eq(sl_safetensors_open(in_dir("h"), &f), SL_EFORMAT);
    // A sparse file whose header is a gigabyte of zeros: refused without being read.
    FILE *file = fopen(in_dir("g"), "wb");
    const uint64_t n = 1u << 30;
    ck_assert_uint_eq(fwrite(&n, 1, 8, file), 8);
    ck_assert_int_eq(ftruncate(fileno(file), (off_t)(8 + n)), 0);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(sl_safetensors_open(in_dir("g"), &f), SL_EUNSUPPORTED);
    assert_message_has("1073741824 bytes, more than");
}

TEST(what_is_no_file_is_refused)
{
    struct sl_safetensors_file f;
    ck_assert_int_eq(sl_safetensors_open(in_dir("missing"), &f), SL_ENOENT);
    ck_assert_int_eq(sl_safetensors_open(dir, &f), SL_EFORMAT);
    assert_message_has("not a regular file");
    write_file("e", "", 0);
    ck_assert_int_eq(sl_safetensors_open(in_dir("e"), &f), SL_EFORMAT);
    assert_message_has("has 0 bytes");
    ck_assert_int_eq(mkfifo(in_dir("pipe"), 0600), 0);
    ck_assert_int_eq(sl_safetensors_open(in_dir("pipe"), &f), SL_EFORMAT);
    write_file("s", "1234567", 7);
    ck_assert_int_eq(sl_safetensors_open(in_dir("s"), &f), SL_EFORMAT);
    if (geteuid() != 0) {
        ck_assert_int_eq(chmod(in_dir("s"), 0), 0);
        ck_assert_int_eq(sl_safetensors_open(in_dir("s"), &f), SL_EACCESS);
    }
}

// A whole file into bytes (at most n).
static size_t load(const char *name, unsigned char *bytes, size_t n)
{
    FILE *f = fopen(in_dir(name), "rb");
    ck_assert_ptr_nonnull(f);
    n = fread(bytes, 1, n, f);
    fclose(f);
    return n;
}

TEST(truncated_files_are_refused_at_every_length)
{
    const struct sl_safetensor some[] = {{"weight", SL_DTYPE_F32, 2, {2, 3}, weight},
                                         {"bias", SL_DTYPE_F32, 1, {2}, bias}};
    unsigned char bytes[1024];
    struct sl_safetensors_file f;
    must(sl_safetensors_write(in_dir("m"), some, 2, NULL, 0));
    size_t n = load("m", bytes, sizeof bytes);
    for (size_t k = 0; k < n; k++) {
        write_file("k", bytes, k);
        ck_assert_int_eq(sl_safetensors_open(in_dir("k"), &f), SL_EFORMAT);
    }
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 30)
