// .npy files: what is accepted, what is refused and how, and that a writer leaves all or nothing.
#include "common/data/npy.h"

#include <signal.h>
#include <sys/resource.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

// A whole file in memory: version, dictionary, then n_data bytes of data.
struct image {
    unsigned char bytes[1024];
    size_t n, n_header;
};

static struct image image_of(int version, const char *dict, size_t n_data)
{
    struct image m = {.n = 0};
    size_t prefix = version == 1 ? 10 : 12, n = strlen(dict);
    memcpy(m.bytes, "\x93NUMPY", 6);
    m.bytes[6] = (unsigned char)version;
    m.bytes[8] = (unsigned char)(n & 0xff);
    m.bytes[9] = (unsigned char)(n >> 8);
    memcpy(m.bytes + prefix, dict, n);
    m.n_header = prefix + n;
    m.n = m.n_header + n_data;
    return m;
}

// The same, the dictionary followed by as many spaces as align the data.
static struct image aligned_image_of(int version, const char *dict, size_t n_data)
{
    char padded[512];
    size_t prefix = version == 1 ? 10 : 12, n = strlen(dict);
    snprintf(padded, sizeof padded, "%s%*s", dict, (int)(3 - (prefix + n + 3) % 4), "");
    return image_of(version, padded, n_data);
}

static int parse(const struct image *m, struct sl_npy_header *out)
{
    return sl_npy_parse_header(m->bytes, m->n, m->n, "file.npy", out);
}

static void refused(int code, const char *dict, const char *part)
{
    // Enough data for any of the small shapes used here, so that it is the text that is refused.
    struct sl_npy_header h;
    struct image m = image_of(1, dict, 24);
    int rc = parse(&m, &h);
    ck_assert_msg(rc == code, "%s: got %d: %s", dict, rc, rc ? sl_error_message() : "accepted");
    assert_message_has("file.npy");
    assert_message_has(part);
}

static const char plain[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }        \n";

TEST(versions_are_read)
{
    for (int version = 1; version <= 3; version++) {
        struct sl_npy_header h;
        struct image m = aligned_image_of(version, plain, 24);
        must(parse(&m, &h));
        ck_assert_int_eq(h.dtype, SL_DTYPE_F32);
        ck_assert_int_eq(h.ndim, 2);
        ck_assert_uint_eq(h.shape[0], 2);
        ck_assert_uint_eq(h.shape[1], 3);
        ck_assert_uint_eq(h.data_bytes, 24);
        ck_assert_uint_eq(h.data_offset, m.n_header);
    }
}

TEST(spelling_may_vary)
{
    static const char *const dicts[] = {
        "{\"shape\": (6,), \"fortran_order\": False, \"descr\": \"<f4\"}        \n",
        "{'shape':(6L,),'descr':'<f4','fortran_order':True}                \n",
        "{ 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 6 , ) , }\n",
    };
    for (size_t i = 0; i < SL_COUNT_OF(dicts); i++) {
        struct sl_npy_header h;
        struct image m = aligned_image_of(1, dicts[i], 24);
        must(parse(&m, &h));
        ck_assert_int_eq(h.ndim, 1);
        ck_assert_uint_eq(h.shape[0], 6);
    }
}

TEST(types_of_numpy_are_refused_with_a_way_out)
{
    refused(SL_EUNSUPPORTED, "{'descr': '>f4', 'fortran_order': False, 'shape': (6,)}",
            "big-endian");
    refused(SL_EUNSUPPORTED, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
            "ascontiguousarray");
    refused(SL_EUNSUPPORTED, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 6)}",
            "dimensions");
}

static void foreign(const char *dict, size_t n_data, struct sl_npy_header *h)
{
    struct image m = image_of(1, dict, n_data); // not aligned
    must(sl_npy_parse_foreign(m.bytes, m.n, m.n, "file.npy", h));
}

TEST(who_converts_may_have_other_orders)
{
    struct sl_npy_header h;
    foreign("{'descr': '>i8', 'fortran_order': True, 'shape': (2, 3), } \n", 48, &h);
    ck_assert(h.big_endian && h.fortran && h.dtype == SL_DTYPE_I64);
    foreign("{'descr': '>f4', 'fortran_order': True, 'shape': (3,), }\n", 12, &h);
    ck_assert(h.big_endian && !h.fortran); // one dimension has one order
    foreign("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n", 3, &h);
    ck_assert(!h.big_endian && !h.fortran && !h.boolean);
    foreign("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }\n", 3, &h);
    ck_assert(h.dtype == SL_DTYPE_U8 && h.boolean);
    struct image m = image_of(1, "{'descr': '>i8', 'fortran_order': False, 'shape': (9,), }\n", 24);
    ck_assert_int_eq(sl_npy_parse_foreign(m.bytes, m.n, m.n, "file.npy", &h), SL_EFORMAT);
    assert_message_has("truncated");
}

// Whoever maps it and whoever converts it.
TEST(what_is_no_number_is_refused_by_its_type)
{
    static const struct {
        const char *descr, *said;
    } other[] = {
        {"'|S1'", "found type '|S1', text: wanted numbers"},
        {"'<U3'", "found type '<U3', text: wanted numbers"},
        {"'|S0'", "'|S0', text"},
        {"'|O'", "'|O', Python objects (pickled): wanted numbers"},
        {"'|V2'", "'|V2', bytes without a type: wanted numbers"},
        {"'<c16'", "'<c16', complex numbers: wanted numbers"},
        {"'<M8[ns]'", "'<M8[ns]', dates: wanted numbers"},
        {"'<m8[s]'", "'<m8[s]', time differences: wanted numbers"},
        {"'<f16'", "'<f16', floats of this machine's own: wanted numbers"},
        {"'<q7'", "'<q7', which is not known: wanted numbers"},
        {"[('a', '<f4')]", "structured"},
    };
    char dict[128];
    struct sl_npy_header h;
    for (size_t i = 0; i < SL_COUNT_OF(other); i++) {
        snprintf(dict, sizeof dict, "{'descr': %s, 'fortran_order': False, 'shape': (3,), }\n",
                 other[i].descr);
        refused(SL_EUNSUPPORTED, dict, other[i].said);
        struct image m = image_of(1, dict, 3);
        ck_assert_int_eq(sl_npy_parse_foreign(m.bytes, m.n, m.n, "file.npy", &h), SL_EUNSUPPORTED);
        assert_message_has(other[i].said);
    }
}

static int parse_text(const char *dict, size_t n_data, struct sl_npy_header *h)
{
    struct image m = image_of(1, dict, n_data);
    return sl_npy_parse_text(m.bytes, m.n, m.n, "file.npy", h);
}

TEST(text_is_for_who_asks_for_it)
{
    struct sl_npy_header h;
    must(parse_text("{'descr': '|S3', 'fortran_order': False, 'shape': (), }\n", 3, &h));
    ck_assert(h.dtype == SL_DTYPE_U8 && h.ndim == 1 && h.shape[0] == 3 && h.data_bytes == 3);
    must(parse_text("{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }\n", 24, &h));
    ck_assert(h.dtype == SL_DTYPE_U8 && h.ndim == 2 && h.shape[0] == 2 && h.shape[1] == 12);
    static const char *const bad[] = {
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n",
        "{'descr': '|S0', 'fortran_order': False, 'shape': (3,), }\n",
        "{'descr': '|Sx', 'fortran_order': False, 'shape': (3,), }\n",
        "{'descr': '|S99999999999', 'fortran_order': False, 'shape': (3,), }\n",
        "{'descr': '|S2', 'fortran_order': False, 'shape': (1, 1, 1, 24), }\n",
    };
    for (size_t i = 0; i < SL_COUNT_OF(bad); i++)
        ck_assert_int_eq(parse_text(bad[i], 24, &h), SL_EUNSUPPORTED);
}

TEST(malformed_headers_are_refused)
{
    static const char *const dicts[] = {
        "",
        "{",
        "{}",
        "[]",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}",
        "{'descr': 4, 'fortran_order': False, 'shape': (6,)}",
        "{'descr': 'f4', 'fortran_order': False, 'shape': (6,)}",
        "{'fortran_order': False, 'shape': (6,), 'descr': '<f4",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (6,",
    };
    for (size_t i = 0; i < SL_COUNT_OF(dicts); i++)
        refused(SL_EFORMAT, dicts[i], NULL);
}

TEST(not_an_npy_file_is_said)
{
    struct sl_npy_header h;
    ck_assert_int_eq(sl_npy_parse_header("PK\x03\x04 a zip file", 16, 16, "x.npz", &h), SL_EFORMAT);
    assert_message_has("x.npz: is not a NumPy .npy file");
    ck_assert_int_eq(sl_npy_parse_header("", 0, 0, "x.npy", &h), SL_EFORMAT);
    assert_message_has("empty");
    struct image m = image_of(4, plain, 24);
    ck_assert_int_eq(parse(&m, &h), SL_EUNSUPPORTED);
    assert_message_has("version 4.0");
    m = image_of(1, plain, 24);
    ck_assert_int_eq(sl_npy_parse_header(m.bytes, 40, 40, "x.npy", &h), SL_EFORMAT);
    assert_message_has("truncated inside");
}

TEST(size_must_be_exactly_what_the_header_says)
{
    WRITE_F32("a.npy", 1, 2, 3, 4);
    struct sl_npy npy;
    must(sl_npy_open(in_dir("a.npy"), &npy));
    ck_assert_uint_eq(npy.head.data_offset % 64, 0);
    uint64_t whole = npy.file_bytes;
    ck_assert_uint_eq(whole, npy.head.data_offset + 16);
    sl_npy_close(&npy);

    ck_assert_int_eq(truncate(in_dir("a.npy"), (off_t)whole - 1), 0);
    ck_assert_int_eq(sl_npy_open(in_dir("a.npy"), &npy), SL_EFORMAT);
    assert_message_has("truncated");
    assert_message_has("float32 (4,)");
    ck_assert_int_eq(truncate(in_dir("a.npy"), (off_t)whole + 3), 0);
    ck_assert_int_eq(sl_npy_open(in_dir("a.npy"), &npy), SL_EFORMAT);
    assert_message_has("has 3 bytes after the data");
    ck_assert_int_eq(truncate(in_dir("a.npy"), 0), 0);
    ck_assert_int_eq(sl_npy_open(in_dir("a.npy"), &npy), SL_EFORMAT);
    assert_message_has("empty");
    ck_assert_ptr_null(npy.map);
}

TEST(every_type_goes_round)
{
    static const enum sl_dtype types[] = {SL_DTYPE_F32, SL_DTYPE_F16, SL_DTYPE_F64, SL_DTYPE_I8,
                                          SL_DTYPE_U8,  SL_DTYPE_I16, SL_DTYPE_U16, SL_DTYPE_I32,
                                          SL_DTYPE_I64, SL_DTYPE_U32, SL_DTYPE_U64};
    unsigned char data[6 * 8];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + 1);
    for (size_t i = 0; i < SL_COUNT_OF(types); i++) {
        struct sl_npy npy;
        write_npy("t.npy", types[i], 2, (uint64_t[]){2, 3}, data);
        must(sl_npy_open(in_dir("t.npy"), &npy));
        ck_assert_int_eq(npy.head.dtype, types[i]);
        ck_assert_int_eq(npy.head.ndim, 2);
        ck_assert_uint_eq(npy.n_elems, 6);
        ck_assert_mem_eq(npy.data, data, 6 * sl_dtype_bytes(types[i]));
        sl_npy_close(&npy);
    }
}

TEST(empty_and_scalar_arrays_are_read)
{
    struct sl_npy npy;
    write_npy("e.npy", SL_DTYPE_I64, 1, (uint64_t[]){0}, "");
    must(sl_npy_open(in_dir("e.npy"), &npy));
    ck_assert_uint_eq(npy.n_elems, 0);
    ck_assert_int_eq(npy.head.ndim, 1);
    sl_npy_close(&npy);
    float x = 2;
    write_npy("s.npy", SL_DTYPE_F32, 0, NULL, &x);
    must(sl_npy_open(in_dir("s.npy"), &npy));
    ck_assert_uint_eq(npy.n_elems, 1);
    ck_assert_int_eq(npy.head.ndim, 0);
    sl_npy_close(&npy);
    // No overflow where another dimension is 0.
    write_npy("z.npy", SL_DTYPE_F32, 2, (uint64_t[]){0, 1000000}, "");
    must(sl_npy_open(in_dir("z.npy"), &npy));
    ck_assert_uint_eq(npy.n_elems, 0);
    sl_npy_close(&npy);
}

TEST(what_is_not_a_file_is_an_error)
{
    struct sl_npy npy;
    ck_assert_int_eq(sl_npy_open(in_dir("none.npy"), &npy), SL_ENOENT);
    assert_message_has("none.npy");
    ck_assert_int_eq(sl_npy_open(dir, &npy), SL_EFORMAT);
    assert_message_has("not a regular file");
    ck_assert_int_eq(mkfifo(in_dir("pipe.npy"), 0600), 0);
    ck_assert_int_eq(sl_npy_open(in_dir("pipe.npy"), &npy), SL_EFORMAT); // and does not hang
}

// ---- writers ------------------------------------------------------------------------------------

TEST(streamed_rows_are_counted_at_the_end)
{
    // 9,000,000 bytes in pieces of 1 to 3,000,016: below and above the buffer.
    enum { N = 3000000, WIDTH = 3 };
    uint8_t *data = malloc(N * WIDTH);
    for (size_t i = 0; i < N * WIDTH; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 24);
    struct sl_npy_writer *w;
    must(sl_npy_writer_open(in_dir("r.npy"), SL_DTYPE_U8, 2, (uint64_t[]){SL_NPY_ROWS_LATER, WIDTH},
                            &w));
    ck_assert_int_ne(access(in_dir("r.npy"), F_OK), 0); // nothing under its name yet
    for (size_t at = 0, n = 1; at < N * WIDTH; at += n, n = n * 5 % 3000017) {
        n = SL_MIN(n, N * WIDTH - at);
        must(sl_npy_writer_append(w, data + at, n));
    }
    must(sl_npy_writer_commit(w));
    struct sl_npy npy;
    must(sl_npy_open(in_dir("r.npy"), &npy));
    ck_assert_uint_eq(npy.head.shape[0], N);
    ck_assert_uint_eq(npy.head.shape[1], WIDTH);
    ck_assert_uint_eq(npy.head.data_offset % 64, 0);
    ck_assert_mem_eq(npy.data, data, N * WIDTH);
    sl_npy_close(&npy);
    free(data);
    ck_assert_int_eq(count_entries(), 1); // no temporary file
}

// Both widths over several buffers of the writer, and a file of which one element is left.
TEST(ids_are_as_wide_as_the_file)
{
    enum { N = 700001 };
    const uint64_t limits[] = {(uint64_t)INT32_MAX, (uint64_t)INT32_MAX + 1};
    for (int wide = 0; wide < 2; wide++) {
        struct sl_npy_writer *w;
        struct sl_npy npy;
        must(sl_npy_writer_open_ids(in_dir("ids.npy"), limits[wide], &w));
        for (uint64_t i = 0; i < N; i++)
            must(sl_npy_writer_append_id(w, i * 3000 % limits[wide]));
        must(sl_npy_writer_close(&w, SL_OK));
        ck_assert_ptr_null(w);
        must(sl_npy_open(in_dir("ids.npy"), &npy));
        ck_assert_int_eq(npy.head.dtype, wide ? SL_DTYPE_I64 : SL_DTYPE_I32);
        ck_assert_uint_eq(npy.n_elems, N);
        for (uint64_t i = 0; i < N; i++)
            ck_assert_int_eq(wide ? ((const int64_t *)npy.data)[i] : ((const int32_t *)npy.data)[i],
                             (int64_t)(i * 3000 % limits[wide]));
        sl_npy_close(&npy);
    }
    struct sl_npy_writer *w;
    must(sl_npy_writer_open(in_dir("two.npy"), SL_DTYPE_I32, 1, (uint64_t[]){2}, &w));
    must(sl_npy_writer_append_id(w, 1));
    must(sl_npy_writer_append_id(w, 2));
    ck_assert_int_eq(sl_npy_writer_append_id(w, 3), SL_EINVAL);
    ck_assert_int_eq(sl_npy_writer_close(&w, SL_EIO), SL_EIO);
    ck_assert_int_ne(access(in_dir("two.npy"), F_OK), 0);
    ck_assert_int_eq(sl_npy_writer_close(&w, SL_OK), SL_OK);
}

TEST(wrong_amount_is_refused_and_leaves_the_old_file)
{
    struct sl_npy_writer *w;
    WRITE_I32("x.npy", 7);
    must(sl_npy_writer_open(in_dir("x.npy"), SL_DTYPE_I32, 1, (uint64_t[]){3}, &w));
    must(sl_npy_writer_append(w, (int32_t[]){1, 2}, 8));
    ck_assert_int_eq(sl_npy_writer_append(w, (int32_t[]){3, 4}, 8), SL_EINVAL); // one too many
    ck_assert_int_eq(sl_npy_writer_commit(w), SL_EINVAL);                       // one missing
    assert_message_has("8 bytes appended, wanted 12");
    must(sl_npy_writer_open(in_dir("x.npy"), SL_DTYPE_I32, 2, (uint64_t[]){SL_NPY_ROWS_LATER, 2},
                            &w));
    must(sl_npy_writer_append(w, (int32_t[]){1, 2, 3}, 12));
    ck_assert_int_eq(sl_npy_writer_commit(w), SL_EINVAL);
    assert_message_has("not whole rows");
    struct sl_npy npy;
    must(sl_npy_open(in_dir("x.npy"), &npy));
    ck_assert_int_eq(((const int32_t *)npy.data)[0], 7);
    sl_npy_close(&npy);
    ck_assert_int_eq(count_entries(), 1);
}

TEST(mapped_file_is_filled_in_any_order)
{
    struct sl_npy_writer *w;
    void *data;
    must(sl_npy_create_mapped(in_dir("m.npy"), SL_DTYPE_F32, 2, (uint64_t[]){1000, 3}, &w, &data));
    ck_assert_uint_eq((uintptr_t)data % 64, 0);
    float *x = data;
    ck_assert_float_eq(x[2999], 0);
    for (int i = 2999; i >= 0; i -= 2)
        x[i] = (float)i;
    must(sl_npy_writer_commit(w));
    struct sl_npy npy;
    must(sl_npy_open(in_dir("m.npy"), &npy));
    for (int i = 0; i < 3000; i++)
        ck_assert_float_eq(((const float *)npy.data)[i], i % 2 ? (float)i : 0);
    sl_npy_close(&npy);
    ck_assert_int_eq(count_entries(), 1);
}

TEST(abort_leaves_nothing)
{
    struct sl_npy_writer *w;
    void *data;
    must(sl_npy_create_mapped(in_dir("m.npy"), SL_DTYPE_F32, 1, (uint64_t[]){1000}, &w, &data));
    ck_assert_int_ne(access(in_dir("m.npy"), F_OK), 0); // before it is whole
    sl_npy_writer_abort(w);
    must(sl_npy_writer_open(in_dir("m.npy"), SL_DTYPE_F32, 1, (uint64_t[]){1000}, &w));
    must(sl_npy_writer_append(w, "abcd", 4));
    sl_npy_writer_abort(w);
    sl_npy_writer_abort(NULL);
    ck_assert_int_eq(count_entries(), 0);
}

TEST(full_disk_is_an_error_and_not_a_signal)
{
    // A limit on file sizes stands for the disk's end.
    struct rlimit limit = {1 << 20, 1 << 20};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct sl_npy_writer *w;
    void *data;
    uint64_t n = 4 << 20;
    ck_assert_int_eq(sl_npy_create_mapped(in_dir("m.npy"), SL_DTYPE_U8, 1, &n, &w, &data), SL_EIO);
    assert_message_has("m.npy");
    ck_assert_ptr_null(w);
    must(sl_npy_writer_open(in_dir("m.npy"), SL_DTYPE_U8, 1, &n, &w));
    char *zeros = calloc(1, n);
    int rc = sl_npy_writer_append(w, zeros, n);
    ck_assert_int_eq(rc, SL_EIO);
    sl_npy_writer_abort(w);
    free(zeros);
    ck_assert_int_eq(count_entries(), 0);
}

TEST(impossible_requests_are_refused)
{
    struct sl_npy_writer *w;
    void *data;
    uint64_t n = SL_NPY_ROWS_LATER, huge[2] = {(uint64_t)1 << 40, (uint64_t)1 << 40};
    ck_assert_int_eq(sl_npy_create_mapped(in_dir("m.npy"), SL_DTYPE_U8, 1, &n, &w, &data),
                     SL_EINVAL);
    ck_assert_int_eq(sl_npy_writer_open(in_dir("m.npy"), SL_DTYPE_BF16, 1, &n, &w), SL_EINVAL);
    ck_assert_int_eq(sl_npy_writer_open(in_dir("m.npy"), SL_DTYPE_F32, 5, huge, &w), SL_EINVAL);
    ck_assert_int_eq(sl_npy_writer_open(in_dir("m.npy"), SL_DTYPE_F32, 2, huge, &w), SL_EINVAL);
    ck_assert_int_eq(sl_npy_writer_open(in_dir("no/m.npy"), SL_DTYPE_F32, 1, &n, &w), SL_ENOENT);
    ck_assert_int_eq(count_entries(), 0);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
