// Importers: what is read, what is dropped, and how what cannot be read is explained.
#include <math.h>

#include "cli/command.h"
#include "dataset/line_scan.h"
#include "dataset/text_reader.h"
#include "tests/unit/import_fixture.h"
#include "tests/unit/suite.h"

// Imports a file of the test's directory to the data set `to` there.
#define IMPORT(kind, from, to, ...)                                                                \
    RUN(sl_command_import, "import", kind, in_dir(from), "-q", "--out", in_dir(to), __VA_ARGS__)

// ---- numbers ------------------------------------------------------------------------------------

TEST(real_numbers_equal_the_c_librarys)
{
    static const char *const texts[] = {
        "0",
        "-0",
        "1",
        "-1.5",
        "+2",
        ".5",
        "5.",
        "1e3",
        "1E-3",
        "3.14159265358979323846",
        "1e22",
        "1e23",
        "9007199254740993",
        "123456789012345678901234567890",
        "1e-320",
        "4.9e-324",
        "1.7976931348623157e308",
        "0.1",
        "-0.30000000000000004",
        "179769313486231570000e289",
        "00001.5",
        "0.000000000000000000000000000000000000012345",
    };
    for (size_t i = 0; i < SL_COUNT_OF(texts); i++) {
        char line[128];
        double x;
        snprintf(line, sizeof line, "%s,\n", texts[i]);
        const char *end = sl_line_scan_real(line, &x);
        ck_assert_msg(end && *end == ',', "'%s' was not taken whole", texts[i]);
        double wanted = strtod(texts[i], NULL);
        ck_assert_msg(memcmp(&x, &wanted, sizeof x) == 0, "'%s': %a, wanted %a", texts[i], x,
                      wanted);
    }
    srand(7);
    for (int i = 0; i < 20000; i++) {
        char line[128];
        double x, wanted;
        snprintf(line, sizeof line, "%.*g\n", 1 + rand() % 17,
                 (rand() - RAND_MAX / 2) * pow(10, rand() % 40 - 30));
        wanted = strtod(line, NULL);
        ck_assert_ptr_nonnull(sl_line_scan_real(line, &x));
        ck_assert_msg(x == wanted, "%s is %a, wanted %a", line, x, wanted);
    }
}

TEST(what_is_no_number_is_refused)
{
    static const char *const texts[] = {"",   ".",   "-",   "+",   "-.", "e5",
                                        "1e", "1e+", "nan", "inf", "x"};
    for (size_t i = 0; i < SL_COUNT_OF(texts); i++) {
        char line[16];
        double x;
        snprintf(line, sizeof line, "%s\n", texts[i]);
        ck_assert_msg(!sl_line_scan_real(line, &x), "'%s'", texts[i]);
    }
}

TEST(whole_numbers_know_their_limit)
{
    uint64_t x;
    bool fits;
    ck_assert(*sl_line_scan_uint("18446744073709551615\n", &x, &fits) == '\n');
    ck_assert(fits && x == UINT64_MAX);
    ck_assert(*sl_line_scan_uint("18446744073709551616\n", &x, &fits) == '\n');
    ck_assert(!fits);
    ck_assert_ptr_nonnull(sl_line_scan_uint("0000000000000000000000000000017\n", &x, &fits));
    ck_assert(fits && x == 17);
    ck_assert_ptr_null(sl_line_scan_uint("-1\n", &x, &fits));
}

// ---- blocks of lines ----------------------------------------------------------------------------

// Reads a file through the reader and compares it with the text that was written.
static void assert_reads(const char *name, const char *text, size_t n)
{
    struct sl_text_reader *r;
    const char *begin, *end;
    size_t at = 0;
    must(sl_text_reader_open(in_dir(name), &r));
    for (;;) {
        must(sl_text_reader_next(r, &begin, &end));
        if (begin == end)
            break;
        ck_assert(end[-1] == '\n' && *end == '\0');
        size_t m = (size_t)(end - begin);
        if (at + m == n + 1)
            m--; // the newline that the last line lacked
        ck_assert_uint_le(at + m, n);
        ck_assert_int_eq(memcmp(begin, text + at, m), 0);
        at += m;
    }
    ck_assert_uint_eq(at, n);
    must(sl_text_reader_next(r, &begin, &end)); // and again nothing
    ck_assert(begin == end);
    sl_text_reader_close(r);
}

TEST(long_and_short_lines_come_whole)
{
    // Lines from empty to 3 MB, so that they cross blocks and outgrow them.
    size_t n = 0, capacity = 16 << 20;
    char *text = malloc(capacity);
    for (size_t length = 0; n + length + 1 < capacity; length = length * 3 / 2 + 1) {
        memset(text + n, 'a' + (int)(length % 26), length);
        n += length;
        text[n++] = '\n';
        if (length > 3000000)
            length = 0;
    }
    write_file("plain", text, n);
    assert_reads("plain", text, n);
    write_gz("packed.gz", text, n);
    assert_reads("packed.gz", text, n);
    write_file("cut", text, n - 1); // no newline at the end
    assert_reads("cut", text, n - 1);
    write_file("empty", text, 0);
    assert_reads("empty", text, 0);
    write_file("newline", "\n", 1);
    assert_reads("newline", "\n", 1);
    free(text);
}

TEST(a_reader_may_be_closed_early)
{
    char *text = calloc(1, 8 << 20);
    memset(text, '\n', 8 << 20);
    write_file("plain", text, 8 << 20);
    for (int blocks = 0; blocks < 4; blocks++) {
        struct sl_text_reader *r;
        const char *begin, *end;
        must(sl_text_reader_open(in_dir("plain"), &r));
        for (int i = 0; i < blocks; i++)
            must(sl_text_reader_next(r, &begin, &end));
        sl_text_reader_close(r);
    }
    free(text);
}

// ---- edge lists ---------------------------------------------------------------------------------

static const char messy[] = "# comment\n% another\n\n0 1\n1\t2\r\n  2,0  \n3;3\n0 1\n5 0";

static const struct {
    const char *options[3];
    const char *wanted;
} edgelists[] = {
    {{NULL}, "0<2,5 1<0,0 2<1 3<3 of 6"},
    {{"--dedup"}, "0<2,5 1<0 2<1 3<3 of 6"},
    {{"--remove-self-loops"}, "0<2,5 1<0,0 2<1 of 6"},
    {{"--undirected"}, "0<1,1,2,5 1<0,0,2 2<0,1 3<3 5<0 of 6"},
    {{"--symmetrise"}, "0<1,2,5 1<0,2 2<0,1 3<3 5<0 of 6"},
    {{"--symmetrise", "--remove-self-loops"}, "0<1,2,5 1<0,2 2<0,1 5<0 of 6"},
    {{"--relabel"}, "0<2,4 1<0,0 2<1 3<3 of 5"},
    {{"--num-nodes", "9"}, "0<2,5 1<0,0 2<1 3<3 of 9"},
    {{"--skip-lines", "4"}, "0<2,5 1<0 2<1 3<3 of 6"},
};

LOOP_TEST(an_edge_list_is_read, 0, SL_COUNT_OF(edgelists))
{
    write_text("messy.txt", messy);
    const char *const *o = edgelists[_i].options;
    imported(IMPORT("edgelist", "messy.txt", "a", o[0], o[1], o[2]));
    ck_assert_str_eq(topology("a"), edgelists[_i].wanted);
    ck_assert_int_eq(count_hidden(), 0);
}

static const struct {
    const char *options[3];
    const char *wanted;
} weighted[] = {
    {{NULL}, "0<1:2 1<0:0.5,0:7,2:0.001 2<2:0 of 3"},
    {{"--no-weights"}, "0<1 1<0,0,2 2<2 of 3"},
    {{"--undirected"}, "0<1:0.5,1:2,1:7 1<0:0.5,0:2,0:7,2:0.001 2<1:0.001,2:0 of 3"},
    {{"--dedup"}, "0<1:2 1<0:0.5,2:0.001 2<2:0 of 3"},
    {{"--dedup", "--duplicates", "sum"}, "0<1:2 1<0:7.5,2:0.001 2<2:0 of 3"},
    // An edge of the file beats a reverse that was made, wherever it stands.
    {{"--symmetrise"}, "0<1:2 1<0:0.5,2:0.001 2<1:0.001,2:0 of 3"},
    {{"--symmetrise", "--duplicates", "sum"}, "0<1:2 1<0:7.5,2:0.001 2<1:0.001,2:0 of 3"},
    {{"--symmetrise", "--duplicates", "max"}, "0<1:2 1<0:7,2:0.001 2<1:0.001,2:0 of 3"},
    {{"--symmetrise", "--duplicates", "mean"}, "0<1:2 1<0:3.75,2:0.001 2<1:0.001,2:0 of 3"},
};

LOOP_TEST(weights_follow_their_edges, 0, SL_COUNT_OF(weighted))
{
    write_text("w.txt", "0 1 0.5\n2 1 1e-3\n1 0 2\n0 1 7\n2 2 -0\n");
    const char *const *o = weighted[_i].options;
    imported(IMPORT("edgelist", "w.txt", "a", o[0], o[1], o[2]));
    ck_assert_str_eq(topology("a"), weighted[_i].wanted);
}

// Positive, but 0 as float32: they are edges of weight 0 then, which is said. Each counts once.
TEST(weights_that_float32_does_not_hold_are_counted)
{
    write_text("w.txt", "0 1 1e-46\n2 1 1e-45\n1 0 0\n2 0 3e-100\n");
    capture_begin();
    const int rc = RUN(sl_command_import, "import", "edgelist", in_dir("w.txt"), "--out",
                       in_dir("a"), "--undirected");
    char *text = capture_end();
    imported(rc);
    ck_assert_str_eq(topology("a"), "0<1:0,1:0,2:0 1<0:0,0:0,2:1.4013e-45 2<0:0,1:1.4013e-45 of 3");
    ck_assert_ptr_nonnull(strstr(text, "weights lost"));
    ck_assert_ptr_nonnull(strstr(text, " 2 became 0, for float32 holds nothing below 1.4e-45"));
    free(text);
}

// Above 2^53, where a double has not every number.
TEST(the_seed_of_a_split_is_kept_to_the_last_bit)
{
    char text[4096] = "";
    write_text("e.txt", "0 1\n1 2\n2 3\n3 0\n");
    imported(
        IMPORT("edgelist", "e.txt", "a", "--split", "0.5,0.25,0.25", "--seed", "9007199254740993"));
    FILE *f = fopen(in_dir("a/metadata.json"), "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, f), 0);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "\"split_seed\":\t9007199254740993"));
}

// Made of several lines, a reverse edge follows the rule as others do.
TEST(reverse_edges_that_were_made_follow_the_rule)
{
    write_text("w.txt", "0 1 3\n0 1 5\n");
    imported(IMPORT("edgelist", "w.txt", "a", "--symmetrise", "--duplicates", "mean"));
    ck_assert_str_eq(topology("a"), "0<1:4 1<0:4 of 2");
}

TEST(a_rule_for_duplicates_has_to_have_some)
{
    write_text("w.txt", "0 1 3e38\n0 1 3e38\n");
    ck_assert_int_eq(IMPORT("edgelist", "w.txt", "a", "--duplicates", "sum"), SL_EINVAL);
    assert_message_has("--duplicates sum without --dedup or --symmetrise");
    ck_assert_int_eq(IMPORT("edgelist", "w.txt", "a", "--duplicates", "sum", "--dedup"),
                     SL_EFORMAT);
    assert_message_has("edge 0 -> 1: its weights are 6e+38 together: wanted at most float32's");
    ck_assert_int_eq(count_entries(), 1); // the text itself
}

TEST(relabelled_vertices_keep_their_ids_in_a_file)
{
    struct sl_npy ids;
    write_text("r.txt", "4000000000 7\n7 123456\n");
    imported(IMPORT("edgelist", "r.txt", "a", "--relabel"));
    ck_assert_str_eq(topology("a"), "0<2 1<0 of 3");
    must(sl_npy_open(in_dir("a/node_id.npy"), &ids));
    const int64_t wanted[] = {7, 123456, 4000000000};
    ck_assert_uint_eq(ids.n_elems, 3);
    ck_assert_int_eq(memcmp(ids.data, wanted, sizeof wanted), 0);
    sl_npy_close(&ids);
}

TEST(gzip_is_read_as_plain_text_is)
{
    write_gz("messy.gz", messy, strlen(messy));
    imported(IMPORT("edgelist", "messy.gz", "a", NULL));
    ck_assert_str_eq(topology("a"), edgelists[0].wanted);
}

static const struct {
    const char *text;
    const char *option, *value;
    const char *message;
} broken[] = {
    {"0 1\n\n1 -2\n", NULL, NULL, "line 3: found '-2': wanted vertex ids from 0"},
    {"source,target\n0,1\n", NULL, NULL, "line 1: found 'source': wanted 'source target"},
    {"0 1\n2\n", NULL, NULL, "line 2: found 'the end of the line'"},
    {"0 1\n2 3x\n", NULL, NULL, "found '3x'"},
    {"0 1\n1.5 2\n", NULL, NULL, "found '1.5'"},
    {"0 4294967294\n", NULL, NULL, "found '4294967294': wanted vertex ids up to 4294967293"},
    {"0 99999999999999999999999\n", NULL, NULL, "wanted vertex ids up to"},
    {"0 1\n0 5\n", "--num-nodes", "5", "line 2: found '5': wanted vertex ids below --num-nodes 5"},
    {"0 1\n1 2 3\n", NULL, NULL, "line 2: found '3': wanted 2 columns as in"},
    {"0 1 2\n1 2\n", NULL, NULL, "line 2: found 'the end of the line': wanted a weight"},
    {"0 1 2\n1 2 -1\n", NULL, NULL, "found '-1': wanted a weight from 0"},
    {"0 1 2\n1 2 1e39\n", NULL, NULL, "found '1e39': wanted a weight from 0 to 3.4028235e+38"},
    {"0 1 nan\n", NULL, NULL, "found 'nan': wanted a weight"},
    {"0 1 1e300\n", NULL, NULL, "found '1e300': wanted a weight"},
    {"0 1 2 3\n", NULL, NULL, "line 1: found 4 columns: wanted"},
    {"", NULL, NULL, "found no edge in 0 lines"},
    {"# nothing\n\n", NULL, NULL, "found no edge in 2 lines"},
    {"0 1\n", "--skip-lines", "5", "found no edge in 1 lines"},
    {"0 4000000000\n", NULL, NULL, "give --relabel"},
    {"from,to,when\nu,v,3\n", "--relabel", NULL, "'when': wanted a weight from 0"},
    {"from,to,when\nu,v,3\n", "--relabel", NULL, "--skip-lines 1 leaves it out"},
    {"u,v\n", "--relabel", "--bipartite=2", "found 'u': wanted whole numbers: the vertices of two"},
    {"0 1\n\x01\x02x 3\n", NULL, NULL, "line 2: found '??x'"},
};

LOOP_TEST(a_broken_edge_list_is_explained, 0, SL_COUNT_OF(broken))
{
    write_text("broken.txt", broken[_i].text);
    ck_assert_int_eq(IMPORT("edgelist", "broken.txt", "a", broken[_i].option, broken[_i].value),
                     SL_EFORMAT);
    assert_message_has("broken.txt");
    assert_message_has(broken[_i].message);
    ck_assert_int_eq(count_entries(), 1); // the text itself
}

TEST(zero_bytes_in_the_text_are_refused)
{
    write_file("zero.txt", "0 1\n# a\0b\n2\0 3\n", 15);
    ck_assert_int_eq(IMPORT("edgelist", "zero.txt", "a", NULL), SL_EFORMAT);
    assert_message_has("line 3");
}

TEST(damaged_gzip_is_said)
{
    // Numbers without a pattern, so that the packed file is long enough to be cut.
    size_t n = 0;
    char *text = malloc(2 << 20);
    uint32_t x = 1;
    for (int i = 0; i < 100000; i++) {
        x = x * 1664525u + 1013904223u;
        n += (size_t)sprintf(text + n, "%u %u\n", x >> 12 & 0xfff, x >> 8 & 0xff);
    }
    write_gz("whole.gz", text, n);
    FILE *f = fopen(in_dir("whole.gz"), "rb");
    char *packed = malloc(2 << 20);
    size_t m = fread(packed, 1, 2 << 20, f);
    fclose(f);
    write_file("cut.gz", packed, m / 2);
    ck_assert_int_eq(IMPORT("edgelist", "cut.gz", "a", NULL), SL_EFORMAT);
    assert_message_has("damaged gzip near byte");
    assert_message_has("it ends too early");
    memset(packed + m / 2, 0x55, 64);
    write_file("bent.gz", packed, m);
    ck_assert_int_eq(IMPORT("edgelist", "bent.gz", "a", NULL), SL_EFORMAT);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "bent.gz"));
    write_text("text.gz", "0 1\n");
    ck_assert_int_eq(IMPORT("edgelist", "text.gz", "a", NULL), SL_EFORMAT);
    assert_message_has("does not begin with gzip's mark");
    ck_assert(!exists("a"));
    free(text);
    free(packed);
}

static const struct {
    const char *source, *option, *second;
    int code;
    const char *message;
} unreadable[] = {
    {"missing.txt", NULL, NULL, SL_ENOENT, "missing.txt"},
    {".", NULL, NULL, SL_EINVAL, "it is a directory"},
    {"missing.txt", "--relabel", "--num-nodes=5", SL_EINVAL, "leave one out"},
    {"missing.txt", "--undirected", "--symmetrise", SL_EINVAL, "leave one out"},
    {"missing.txt", "--symetrise", NULL, SL_EINVAL, "did you mean --symmetrise?"},
};

LOOP_TEST(what_can_not_be_opened_is_said, 0, SL_COUNT_OF(unreadable))
{
    ck_assert_int_eq(IMPORT("edgelist", unreadable[_i].source, "a", unreadable[_i].option,
                            unreadable[_i].second),
                     unreadable[_i].code);
    assert_message_has(unreadable[_i].message);
    ck_assert_int_eq(count_entries(), 0);
}

TEST(little_memory_gives_the_same_files)
{
    static const char *const files[] = {"indptr.npy", "indices.npy", "edge_weight.npy",
                                        "node_id.npy"};
    FILE *f = fopen(in_dir("big.txt"), "w");
    uint32_t x = 1;
    for (int i = 0; i < 400000; i++) {
        x = x * 1664525u + 1013904223u;
        fprintf(f, "%u %u %u\n", (x >> 16) % 3000 * 17, (x >> 4) % 999, i);
    }
    fclose(f);
    imported(IMPORT("edgelist", "big.txt", "a", "--relabel", "--symmetrise"));
    imported(IMPORT("edgelist", "big.txt", "b", "--relabel", "--symmetrise", "--memory", "1MiB"));
    for (size_t i = 0; i < SL_COUNT_OF(files); i++) {
        char a[64], b[64];
        snprintf(a, sizeof a, "a/%s", files[i]);
        snprintf(b, sizeof b, "b/%s", files[i]);
        ck_assert_msg(same_file(a, b), "%s differs", files[i]);
    }
}

// ---- Matrix Market ------------------------------------------------------------------------------

#define HEADING "%%MatrixMarket matrix coordinate "

static const struct {
    const char *text, *option;
    const char *wanted; // the topology, or what the message says
    bool refused;
} matrices[] = {
    {HEADING "real general\n%\n3 3 3\n1 2 .5\n 3 1\t2\r\n\n2 2 0\n", NULL, "0<2:2 1<0:0.5,1:0 of 3",
     false},
    {HEADING "pattern general\n4 4 2\n1 2\n1 2\n", NULL, "1<0,0 of 4", false},
    {HEADING "pattern general\n4 4 2\n1 2\n1 2\n", "--dedup", "1<0 of 4", false},
    {HEADING "pattern general\n4 4 2\n1 2\n1 2\n", "--symmetrise", "0<1 1<0 of 4", false},
    {"%%MatrixMarket matrix Coordinate Integer Symmetric\n3 3 3\n1 1 4\n2 1 7\n3 2 1\n", NULL,
     "0<0:4,1:7 1<0:7,2:1 2<1:1 of 3", false},
    {HEADING "complex Hermitian\n2 2 1\n2 1 -1 5\n", "--no-weights", "0<1 1<0 of 2", false},
    {HEADING "real general\n2 2 0\n", NULL, " of 2", false},
    {HEADING "integer symmetric\n2 2 1\n2 1 1\n", NULL, "0<1 1<0 of 2", false},
    {HEADING "integer symmetric\n2 2 1\n2 1 1\n", "--weights", "0<1:1 1<0:1 of 2", false},
    // As scipy writes uint32 and uint64.
    {HEADING "unsigned-integer general\n3 3 2\n1 2 7\n2 3 9\n", NULL, "1<0:7 2<1:9 of 3", false},
    {HEADING "unsigned-integer general\n3 3 2\n1 2 7\n2 3 9\n", "--no-weights", "1<0 2<1 of 3",
     false},
    {"%MATRIXMARKET MATRIX Coordinate Pattern\tGeneral \r\n2 2 1\n1 2\n", NULL, "1<0 of 2", false},
    {"1 2\n", NULL, "line 1: found '1': wanted '%%MatrixMarket matrix coordinate", true},
    {"% sym unweighted\n1 2\n", NULL, "(lines of edges without it: 'sluice import edgelist')",
     true},
    {"%%MatrixMarket matrix array real general\n", NULL, "found a matrix of kind 'array'", true},
    {HEADING "complex general\n2 2 1\n2 1 1 5\n", NULL, "found values of kind 'complex'", true},
    {HEADING "real skew-symmetric\n2 2 1\n2 1 1\n", NULL, "a matrix that is 'skew-", true},
    {HEADING "real genral\n2 2 1\n2 1 1\n", NULL,
     "a matrix that is 'genral': wanted 'general', 'symmetric'", true},
    {HEADING "real genral\n2 2 1\n2 1 1\n", "--no-weights", "a matrix that is 'genral'", true},
    {HEADING "whole general\n2 2 1\n2 1 1\n", "--no-weights",
     "values of kind 'whole': wanted 'real'", true},
    {HEADING "real\n2 2 1\n2 1 1\n", NULL, "a matrix that is ''", true},
    {"%%%MatrixMarket matrix coordinate real general\n", NULL,
     "line 1: found '%%%MatrixMarket': wanted '%%M", true},
    {HEADING "real general\n2 3 1\n1 2 1\n", NULL, "line 2: found 2 rows and 3 columns", true},
    {HEADING "real general\n2 2\n1 2 1\n", NULL, "wanted the number of entries", true},
    {HEADING "real general\n0 0 0\n", NULL, "found '0': wanted a whole number from 1", true},
    {HEADING "real general\n2 2 1\n0 1 1\n", NULL, "line 3: found '0': wanted a whole", true},
    {HEADING "real general\n2 2 1\n1 3 1\n", NULL, "found '3': wanted a whole number from 1 to 2",
     true},
    {HEADING "real general\n2 2 1\n1 2 -1\n", NULL, "found '-1': wanted a weight from 0", true},
    {HEADING "real general\n2 2 1\n1 2 1 1\n", NULL, "wanted no fourth column", true},
    {HEADING "pattern general\n2 2 1\n1 2 1\n", NULL, "wanted two columns", true},
    {HEADING "pattern general\n2 2 2\n1 2\n", NULL, "found 1 entries: wanted 2", true},
    {HEADING "pattern general\n2 2 1\n1 2\n2 1\n", NULL, "wanted the end of the file", true},
    {HEADING "pattern general\n", NULL, "found no size in 1 lines", true},
    {"", NULL, "found no size in 0 lines", true},
};

LOOP_TEST(a_matrix_is_read_or_explained, 0, SL_COUNT_OF(matrices))
{
    write_text("m.mtx", matrices[_i].text);
    int rc = IMPORT("mtx", "m.mtx", "a", matrices[_i].option);
    if (!matrices[_i].refused) {
        imported(rc);
        ck_assert_str_eq(topology("a"), matrices[_i].wanted);
        return;
    }
    ck_assert_int_eq(rc, SL_EFORMAT);
    assert_message_has("m.mtx");
    assert_message_has(matrices[_i].wanted);
    ck_assert_int_eq(count_entries(), 1); // the text itself
}

// ---- OGB ----------------------------------------------------------------------------------------

// A data set as OGB packs it: 5 vertices, 6 edges, 2 features, 3 classes.
static void make_ogb(void)
{
    static const char edges[] = "0,1\n1,2\n2,0\n3,1\n0,1\n4,4\n";
    static const char feat[] = "0.5,-1\n1e-3,2\n3,4\n5,6\n7,8.25\n";
    ck_assert_int_eq(mkdir(in_dir("src"), 0755), 0);
    ck_assert_int_eq(mkdir(in_dir("src/raw"), 0755), 0);
    ck_assert_int_eq(mkdir(in_dir("src/split"), 0755), 0);
    ck_assert_int_eq(mkdir(in_dir("src/split/time"), 0755), 0);
    write_gz("src/raw/num-node-list.csv.gz", "5\n", 2);
    write_gz("src/raw/num-edge-list.csv.gz", "6\n", 2);
    write_gz("src/raw/edge.csv.gz", edges, strlen(edges));
    write_gz("src/raw/node-feat.csv.gz", feat, strlen(feat));
    write_gz("src/raw/node-label.csv.gz", "2\n0\nnan\n1.0\n0\n", 14);
    write_gz("src/split/time/train.csv.gz", "3\n0\n", 4);
    write_gz("src/split/time/valid.csv.gz", "1\n", 2);
    write_gz("src/split/time/test.csv.gz", "4\n", 2);
}

static int import_ogb(const char *option, const char *second)
{
    return IMPORT("ogb", "src", "a", option, second);
}

TEST(an_ogb_data_set_is_read)
{
    struct sl_dataset ds;
    static const float feat[] = {0.5f, -1, 1e-3f, 2, 3, 4, 5, 6, 7, 8.25f};
    static const int32_t label[] = {2, 0, -1, 1, 0};
    make_ogb();
    imported(import_ogb(NULL, NULL));
    ck_assert_str_eq(topology("a"), "0<2 1<0,0,3 2<1 4<4 of 5");
    open_dataset("a", SL_NEED_TRAINING, &ds);
    ck_assert_uint_eq(ds.feat_dim, 2);
    ck_assert_int_eq(memcmp(ds.feat, feat, sizeof feat), 0);
    ck_assert_uint_eq(ds.n_classes, 3);
    ck_assert_int_eq(memcmp(ds.label, label, sizeof label), 0);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, 2);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].ids[0], 3);
    ck_assert_uint_eq(ds.split[SL_SPLIT_VAL].ids[0], 1);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TEST].ids[0], 4);
    sl_dataset_close(&ds);
}

TEST(ogb_inverse_edges_are_added_and_merged)
{
    make_ogb();
    imported(import_ogb("--symmetrise", "--remove-self-loops"));
    ck_assert_str_eq(topology("a"), "0<1,2 1<0,2,3 2<0,1 3<1 of 5");
}

TEST(ogb_edges_are_doubled_as_its_loader_does)
{
    // Nothing is merged, and a self-loop is there twice; of ogbn-products without being asked.
    make_ogb();
    imported(import_ogb("--add-inverse-edge", NULL));
    ck_assert_str_eq(topology("a"), "0<1,1,2 1<0,0,2,3 2<0,1 3<1 4<4,4 of 5");
    ck_assert_int_eq(import_ogb("--add-inverse-edge", "--symmetrise"), SL_EINVAL);
    assert_message_has("leave one out");
    ck_assert_int_eq(rename(in_dir("src"), in_dir("ogbn_products_pyg")), 0);
    imported(IMPORT("ogb", "ogbn_products_pyg", "b", NULL));
    ck_assert_str_eq(topology("b"), "0<1,1,2 1<0,0,2,3 2<0,1 3<1 4<4,4 of 5");
    imported(IMPORT("ogb", "ogbn_products_pyg", "c", "--no-add-inverse-edge"));
    ck_assert_str_eq(topology("c"), "0<2 1<0,0,3 2<1 4<4 of 5");
    ck_assert_int_eq(rename(in_dir("ogbn_products_pyg"), in_dir("ogbn_arxiv")), 0);
    imported(IMPORT("ogb", "ogbn_arxiv", "d", NULL));
    ck_assert_str_eq(topology("d"), "0<2 1<0,0,3 2<1 4<4 of 5");
}

TEST(several_label_columns_are_a_matrix)
{
    static const char labels[] = "1,0,1\n0,0,0\nnan,nan,nan\n1,1,1\n0,nan,1\n";
    static const float wanted[5][3] = {
        {1, 0, 1}, {0, 0, 0}, {NAN, NAN, NAN}, {1, 1, 1}, {0, NAN, 1}};
    struct sl_dataset ds;
    float row[3];
    make_ogb();
    write_gz("src/raw/node-label.csv.gz", labels, strlen(labels));
    imported(import_ogb(NULL, NULL));
    open_dataset("a", SL_NEED_TRAINING, &ds);
    ck_assert_int_eq(ds.task, SL_TASK_MULTILABEL);
    ck_assert_uint_eq(ds.n_classes, 3);
    for (uint64_t v = 0; v < 5; v++) {
        sl_dataset_targets(&ds, v, row);
        for (int d = 0; d < 3; d++)
            ck_assert(isnan(wanted[v][d]) ? isnan(row[d]) : row[d] == wanted[v][d]);
    }
    sl_dataset_close(&ds);
}

TEST(ogb_without_features_labels_and_split_is_a_graph)
{
    make_ogb();
    ck_assert_int_eq(remove(in_dir("src/raw/node-feat.csv.gz")), 0);
    ck_assert_int_eq(remove(in_dir("src/raw/node-label.csv.gz")), 0);
    for (const char *const *f = (const char *[]){"train", "valid", "test", NULL}; *f; f++) {
        char name[64];
        snprintf(name, sizeof name, "src/split/time/%s.csv.gz", *f);
        ck_assert_int_eq(remove(in_dir(name)), 0);
    }
    ck_assert_int_eq(rmdir(in_dir("src/split/time")), 0);
    imported(import_ogb(NULL, NULL));
    ck_assert_str_eq(topology("a"), "0<2 1<0,0,3 2<1 4<4 of 5");
    ck_assert(!exists("a/node_feat.npy"));
}

static const struct {
    const char *file, *text; // text NULL = the file is removed
    int code;
    const char *message;
} broken_ogb[] = {
    {"raw/num-node-list", NULL, SL_ENOENT, "there is no raw/num-node-list.csv.gz"},
    {"raw/num-node-list", "5\n6\n", SL_EUNSUPPORTED, "several graphs"},
    {"raw/num-node-list", "0\n", SL_EFORMAT, "found no vertices"},
    {"raw/num-node-list", "4\n", SL_EFORMAT, "found '4': wanted a vertex from 0 to 3"},
    {"raw/num-edge-list", "7\n", SL_EFORMAT, "found 6 edges: wanted 7"},
    {"raw/edge", NULL, SL_ENOENT, "there is no raw/edge.csv.gz"},
    {"raw/edge", "0,1\n0,1,2\n", SL_EFORMAT, "line 2: found '2': wanted two columns"},
    {"raw/edge", "0,1\n\n1,2\n", SL_EFORMAT, "line 3: found '1': wanted no line behind a blank"},
    {"raw/edge", "0,-1\n", SL_EFORMAT, "found '-1'"},
    {"raw/node-feat", "1,2\n3\n", SL_EFORMAT,
     "line 2: found 'the end of the line': wanted a finite"},
    {"raw/node-feat", "1,2\n3,4,5\n", SL_EFORMAT, "wanted as many columns"},
    {"raw/node-feat", "1,2\n3,nan\n", SL_EFORMAT,
     "found 'nan': wanted a finite number up to 3.4028235e+38 (float32) in column 2"},
    {"raw/node-feat", "1,2\n1e39,3\n", SL_EFORMAT,
     "found '1e39': wanted a finite number up to 3.4028235e+38 (float32) in column 1"},
    {"raw/node-feat", "1\n2\n", SL_EFORMAT, "found 2 rows: wanted one for each of the 5"},
    {"raw/node-feat", "1\n2\n3\n4\n5\n6\n", SL_EFORMAT, "wanted one for each of the 5"},
    {"raw/node-feat", "", SL_EFORMAT, "found 0 rows"},
    {"raw/node-label", "1,0\n0,2\n", SL_EFORMAT, "vertex 1: found 2: wanted 0 or 1"},
    {"raw/node-label", "1,0\n0\n", SL_EFORMAT, "line 2: found 'the end of the line'"},
    {"raw/node-label", "1\n2\n0.5\n", SL_EFORMAT, "line 3: found '0.5': wanted a class"},
    {"raw/node-label", "-0.5\n", SL_EFORMAT, "found '-0.5': wanted a class"},
    {"raw/node-label", "nan\nnan\nnan\nnan\nnan\n", SL_EFORMAT, "no vertex has a label"},
    {"split/time/valid", NULL, SL_ENOENT, "split/time/valid"},
    {"split/time/test", "5\n", SL_EFORMAT, "found '5': wanted a vertex from 0 to 4"},
};

LOOP_TEST(a_broken_ogb_data_set_is_explained, 0, SL_COUNT_OF(broken_ogb))
{
    char name[128];
    make_ogb();
    snprintf(name, sizeof name, "src/%s.csv.gz", broken_ogb[_i].file);
    if (broken_ogb[_i].text)
        write_gz(name, broken_ogb[_i].text, strlen(broken_ogb[_i].text));
    else
        ck_assert_int_eq(remove(in_dir(name)), 0);
    ck_assert_int_eq(import_ogb(NULL, NULL), broken_ogb[_i].code);
    assert_message_has(broken_ogb[_i].message);
    ck_assert_int_eq(count_entries(), 1);
}

TEST(one_of_several_splits_must_be_named)
{
    make_ogb();
    ck_assert_int_eq(mkdir(in_dir("src/split/random"), 0755), 0);
    ck_assert_int_eq(import_ogb(NULL, NULL), SL_EINVAL);
    assert_message_has("give --split with one of: ");
    ck_assert_int_eq(import_ogb("--split", "sales"), SL_ENOENT);
    assert_message_has("--split 'sales': wanted one of: ");
    imported(import_ogb("--split", "time"));
}

TEST(other_layouts_are_named)
{
    ck_assert_int_eq(mkdir(in_dir("src"), 0755), 0);
    ck_assert_int_eq(import_ogb(NULL, NULL), SL_ENOENT);
    assert_message_has("wanted the unpacked directory of an OGB node or link data set");
    ck_assert_int_eq(mkdir(in_dir("src/raw"), 0755), 0);
    write_text("src/raw/data.npz", "");
    ck_assert_int_eq(import_ogb(NULL, NULL), SL_EFORMAT);
    assert_message_has("raw/data.npz: is not a zip file (numpy's .npz, PyTorch's .pt): it is");
    ck_assert_int_eq(remove(in_dir("src/raw/data.npz")), 0);
    write_text("src/raw/triplet-type-list.csv.gz", "");
    ck_assert_int_eq(import_ogb(NULL, NULL), SL_ENOENT);
    assert_message_has("raw/num-node-dict.csv.gz: is not there: wanted the unpacked directory");
    ck_assert_int_eq(remove(in_dir("src/raw/triplet-type-list.csv.gz")), 0);
    write_text("src/raw/edge_index_dict.npz", "");
    ck_assert_int_eq(import_ogb(NULL, NULL), SL_ENOENT);
    assert_message_has("raw/num_nodes_dict.npz: is not there: wanted the unpacked directory");
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
