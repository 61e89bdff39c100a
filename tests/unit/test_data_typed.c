// Data sets of several types of vertices and relations: opened, checked, remembered, refused.
#include "common/data/dataset.h"

#include <math.h>

#include "common/data/dataset_contents.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#define TYPES                                                                                      \
    "\"types\": [{\"name\": \"paper\", \"count\": 4, \"feat_dim\": 2}, {\"name\": \"author\", "    \
    "\"count\": 3}, {\"name\": \"venue\", \"count\": 2, \"feat_dim\": 1}]"
#define WRITES "{\"source\": \"author\", \"name\": \"writes\", \"target\": \"paper\", \"edges\": 4}"
#define REVERSE                                                                                    \
    "{\"source\": \"paper\", \"name\": \"rev_writes\", \"target\": \"author\", \"edges\": 4, "     \
    "\"reverse_of\": \"writes\"}"
#define CITES                                                                                      \
    "{\"source\": \"paper\", \"name\": \"cites\", "                                                \
    "\"target\": \"paper\", \"edges\": 4}"
#define HOSTS                                                                                      \
    "{\"source\": \"venue\", \"name\": \"hosts\", "                                                \
    "\"target\": \"paper\", \"edges\": 0}"
#define RELATIONS "\"relations\": [" WRITES ", " REVERSE ", " CITES ", " HOSTS "]"
#define SIZES     "\"num_nodes\": 9, \"num_edges\": 12, \"num_classes\": 2"

static void write_metadata(const char *keys)
{
    char text[2048];
    snprintf(text, sizeof text, "{%s}", keys);
    write_text("metadata.json", text);
}

/*
 * Papers 0 to 3, authors 4 to 6, venues 7 and 8. Rows 0 to 3 are of who writes a paper, 4 to 6 of
 * what an author writes, 7 to 10 of what a paper is cited by (paper 3 by itself), 11 to 14 of its
 * venue, which none has.
 */
static void typed_begin(void)
{
    dir_begin();
    write_metadata(SIZES ", " TYPES ", " RELATIONS ", \"label_type\": \"paper\"");
    WRITE_I64("indptr.npy", 0, 2, 3, 3, 4, 6, 7, 8, 8, 9, 11, 12, 12, 12, 12, 12);
    WRITE_I32("indices.npy", 4, 5, 6, 4, 0, 3, 0, 1, 0, 0, 1, 3);
    WRITE_F32("edge_weight.npy", 1, 1, 0, 1, 1, 1, 1, 1, 2, 0, 0, 1);
    write_npy("node_feat.paper.npy", SL_DTYPE_F32, 2, (uint64_t[]){4, 2},
              (float[]){0, 1, 2, 3, 4, 5, 6, 7});
    write_npy("node_feat.venue.npy", SL_DTYPE_F16, 2, (uint64_t[]){2, 1},
              (uint16_t[]){0x3c00, 0x4000});
    WRITE_I32("node_label.npy", 0, 1, 1, -1);
    WRITE_I64("train_idx.npy", 3, 1);
    WRITE_I64("val_idx.npy", 0);
}

static int open_it(enum sl_dataset_check check, struct sl_dataset *ds)
{
    return sl_dataset_open(dir, SL_NEED_TRAINING, check, 2, ds);
}

static void refused(int code, const char *a, const char *b)
{
    struct sl_dataset ds;
    int rc = open_it(SL_CHECK_FULL, &ds);
    ck_assert_msg(rc == code, "got %d, wanted %d: %s", rc, code,
                  rc ? sl_error_message() : "it opened");
    assert_message_has(a);
    assert_message_has(b);
    ck_assert_ptr_null(ds.files);
    ck_assert_ptr_null(ds.typed.type);
}

CASE(.setup = typed_begin, .begin = scratch_begin, .end = scratch_end)

TEST(it_opens_with_its_tables)
{
    struct sl_dataset ds;
    must(open_it(SL_CHECK_FULL, &ds));
    const struct sl_typed *t = &ds.typed;
    ck_assert_uint_eq(t->n_types, 3);
    ck_assert_uint_eq(t->n_relations, 4);
    ck_assert_uint_eq(t->n_rows, 15);
    ck_assert_uint_eq(sl_dataset_lists(&ds), 15);
    ck_assert_uint_eq(sl_dataset_labelled(&ds), 4);
    ck_assert_uint_eq(t->type[2].first, 7);
    ck_assert_ptr_null(t->type[1].feat);
    ck_assert_float_eq(((const float *)t->type[0].feat)[7], 7);
    ck_assert_uint_eq(((const uint16_t *)t->type[2].feat)[1], 0x4000);
    ck_assert_uint_eq(t->relation[1].reverse_of, 0);
    ck_assert_uint_eq(t->relation[0].reverse_of, SL_NO_RELATION);
    // Author 6 is the last row of the second relation: paper 1 wrote nobody else.
    const uint64_t row = sl_relation_row(t, &t->relation[1], 6);
    ck_assert_uint_eq(row, 6);
    ck_assert_uint_eq(sl_dataset_degree(&ds, row), 1);
    ck_assert_uint_eq(sl_dataset_source(&ds, ds.indptr[row]), 1);
    for (uint64_t r = 0; r < t->n_rows; r++)
        ck_assert_uint_eq(sl_typed_relation_of(t, r), r < 4 ? 0 : r < 7 ? 1 : r < 11 ? 2 : 3);
    ck_assert_uint_eq(ds.max_degree, 2);
    ck_assert_int_eq(ds.loop_free, false); // paper 3 cites itself
    ck_assert_int_eq(ds.lists_rise, true);
    ck_assert_uint_eq(ds.weightless_edges, 3);
    ck_assert_uint_eq(ds.weightless_vertices, 2); // of row 1; and of row 9
    ck_assert_uint_eq(ds.feat_checked, 8 * 4 + 2 * 2);
    sl_dataset_close(&ds);
}

// Ids that are equal as numbers in different types are no self-loop.
TEST(loops_are_of_one_type)
{
    struct sl_dataset ds;
    WRITE_I32("indices.npy", 4, 5, 6, 4, 0, 3, 0, 1, 0, 0, 1, 2);
    must(open_it(SL_CHECK_FULL, &ds));
    ck_assert_int_eq(ds.loop_free, true);
    sl_dataset_close(&ds);
}

// ---- what is remembered -------------------------------------------------------------------------

TEST(a_file_of_features_that_changes_is_named)
{
    struct sl_dataset ds, again;
    must(open_it(SL_CHECK_FULL, &ds));
    char *record = sl_dataset_record(&ds);
    must(sl_dataset_hold(&ds));
    must(sl_dataset_check_held(&ds));
    must(sl_dataset_open_recorded(dir, SL_NEED_TRAINING, record, 1, &again));
    ck_assert_uint_eq(again.digest, ds.digest);
    ck_assert_uint_eq(again.max_degree, 2);
    sl_dataset_close(&again);
    FILE *f = fopen(in_dir("node_feat.venue.npy"), "ab");
    fputc(0, f);
    fclose(f);
    ck_assert_int_eq(sl_dataset_check_held(&ds), SL_ECHANGED);
    assert_message_has("node_feat.venue.npy");
    ck_assert_int_eq(sl_dataset_open_recorded(dir, SL_NEED_TRAINING, record, 1, &again),
                     SL_ECHANGED);
    assert_message_has("node_feat.venue.npy");
    free(record);
    sl_dataset_close(&ds);
}

// ---- times --------------------------------------------------------------------------------------

enum { TIMED = SL_NEED_TOPOLOGY | SL_NEED_TIMES };
#define WRITES_TIME "edge_time.author.writes.paper.npy"
#define CITES_TIME  "edge_time.paper.cites.paper.npy"

static void write_times(void)
{
    WRITE_I64(WRITES_TIME, 5, 5, INT64_MIN, -2); // paper 0 has two of them
    WRITE_I64(CITES_TIME, 9, -7, 9, 0);          // as has paper 2
    WRITE_I64("node_time.npy", 1, 2, 3, -5);
}

// For who validates, and for who is handed the record; relations without have none.
TEST(times_are_by_relation)
{
    struct sl_dataset ds;
    char *record = NULL;
    write_times();
    for (int recorded = 0; recorded < 2; recorded++) {
        must(recorded ? sl_dataset_open_recorded(dir, TIMED, record, 2, &ds)
                      : sl_dataset_open(dir, TIMED, SL_CHECK_FULL, 2, &ds));
        ck_assert_int_eq(ds.times_rise, 1);
        ck_assert_ptr_null(ds.edge_time);
        ck_assert_int_eq(ds.typed.relation[0].time[1], 5);
        ck_assert_int_eq(ds.typed.relation[2].time[1], -7);
        ck_assert_ptr_null(ds.typed.relation[1].time);
        ck_assert_ptr_null(ds.typed.relation[3].time);
        ck_assert_int_eq(ds.node_time[3], -5);
        free(record);
        record = sl_dataset_record(&ds);
        sl_dataset_close(&ds);
    }
    free(record);
}

// Files of the user's of the same names hurt nobody who needs no times; a data set without has the
// digest that it had.
TEST(times_that_nobody_needs)
{
    struct sl_dataset ds;
    must(open_it(SL_CHECK_FULL, &ds));
    const uint64_t digest = ds.digest;
    ck_assert_int_eq(ds.times_rise, 0);
    sl_dataset_close(&ds);
    WRITE_F32(CITES_TIME, 9, 8);
    write_text(WRITES_TIME, "mine");
    must(open_it(SL_CHECK_FULL, &ds));
    ck_assert_int_eq(ds.times_rise, 0);
    ck_assert_uint_ne(ds.digest, digest);
    sl_dataset_close(&ds);
}

static void times_refused(int code, const char *a, const char *b)
{
    struct sl_dataset ds;
    ck_assert_int_eq(sl_dataset_open(dir, TIMED, SL_CHECK_FULL, 2, &ds), code);
    assert_message_has(a);
    assert_message_has(b);
    ck_assert_ptr_null(ds.files);
}

TEST(times_that_cannot_be)
{
    times_refused(SL_ENOENT, "has no node_time.npy", "the time of each vertex as a seed");
    write_times();
    WRITE_I64(CITES_TIME, 9, 7, 6, 0);
    times_refused(SL_EFORMAT,
                  CITES_TIME ": element 2 (edge 1 of row 9 (relation paper -cites-> paper, paper "
                             "2)) is 6, earlier than the one before it, 7",
                  "sort each list by time");
    WRITE_I64(CITES_TIME, 9, 7, 7);
    times_refused(SL_EFORMAT, CITES_TIME ": is int64 (3,)", "edges of the relation = 4");
    write_times();
    WRITE_I64("node_time.npy", 1, 2, 3, 4, 5, 6, 7, 8, 9);
    times_refused(SL_EFORMAT, "node_time.npy: is int64 (9,)", "count of type paper = 4");
    write_times();
    ck_assert_int_eq(unlink(in_dir(CITES_TIME)), 0);
    ck_assert_int_eq(unlink(in_dir(WRITES_TIME)), 0);
    WRITE_I64("edge_time.npy", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0); // of all edges
    times_refused(SL_ENOENT, "has no edge_time.SOURCE.NAME.TARGET.npy, such as " WRITES_TIME,
                  "are of any time");
}

// ---- features of edges --------------------------------------------------------------------------

enum { OF_EDGES = SL_NEED_TRAINING | SL_NEED_EDGE_FEATURES };
#define WRITES_FEAT "edge_feat.author.writes.paper.npy"
#define CITES_FEAT  "edge_feat.paper.cites.paper.npy"

static void write_edge_features(void)
{
    write_npy(WRITES_FEAT, SL_DTYPE_F32, 2, (uint64_t[]){4, 2}, (float[]){0, 1, 2, 3, 4, 5, 6, -7});
    write_npy(CITES_FEAT, SL_DTYPE_F16, 1, (uint64_t[]){4},
              (uint16_t[]){0x3c00, 0x4000, 0, 0xbc00}); // a number is a column
}

// For who validates, and for who is handed the record, be it without need; the others have none.
TEST(features_of_edges_are_by_relation)
{
    struct sl_dataset ds;
    char *record = NULL;
    write_edge_features();
    for (int i = 0; i < 3; i++) {
        const unsigned need = i < 2 ? OF_EDGES : SL_NEED_TOPOLOGY;
        must(record ? sl_dataset_open_recorded(dir, need, record, 1, &ds)
                    : sl_dataset_open(dir, need, SL_CHECK_FULL, 2, &ds));
        const struct sl_relation *r = ds.typed.relation;
        ck_assert(r[0].feat_dim == 2 && r[0].feat_dtype == SL_DTYPE_F32);
        ck_assert_float_eq(((const float *)r[0].feat)[7], -7);
        ck_assert(r[2].feat_dim == 1 && r[2].feat_dtype == SL_DTYPE_F16);
        ck_assert_uint_eq(((const uint16_t *)r[2].feat)[3], 0xbc00);
        ck_assert(r[1].feat_dim == 0 && !r[1].feat && r[3].feat_dim == 0 && !r[3].feat);
        ck_assert_uint_eq(ds.feat_checked, 8 * 4 + 2 * 2 + 8 * 4 + 4 * 2);
        free(record);
        record = sl_dataset_record(&ds);
        sl_dataset_close(&ds);
    }
    free(record);
}

// Jobs that read none are the same with and without; those that do have another digest, and both
// remember what they have checked.
TEST(features_of_edges_that_nobody_reads)
{
    struct sl_dataset ds;
    uint64_t digest;
    must(open_it(SL_CHECK_CACHED, &ds));
    digest = ds.digest;
    sl_dataset_close(&ds);
    write_edge_features();
    write_npy("edge_feat.paper.rev_writes.author.npy", SL_DTYPE_I64, 1, (uint64_t[]){4},
              (int64_t[]){1, 2, 3, 4});
    must(open_it(SL_CHECK_FULL, &ds));
    ck_assert_uint_eq(ds.digest, digest);
    ck_assert_uint_eq(ds.typed.relation[0].feat_dim, 0);
    sl_dataset_close(&ds);
    ck_assert_int_eq(sl_dataset_open(dir, OF_EDGES, SL_CHECK_FULL, 2, &ds), SL_EFORMAT);
    assert_message_has("edge_feat.paper.rev_writes.author.npy: is int64");
    assert_message_has("astype(numpy.float32)");
    ck_assert_int_eq(unlink(in_dir("edge_feat.paper.rev_writes.author.npy")), 0);
    must(sl_dataset_open(dir, OF_EDGES, SL_CHECK_FULL, 2, &ds));
    ck_assert_uint_ne(ds.digest, digest);
    sl_dataset_close(&ds);
}

static void edges_refused(int code, const char *a, const char *b)
{
    struct sl_dataset ds;
    ck_assert_int_eq(sl_dataset_open(dir, OF_EDGES, SL_CHECK_FULL, 2, &ds), code);
    assert_message_has(a);
    assert_message_has(b);
    ck_assert_ptr_null(ds.files);
}

// A name that is misspelt is not taken for a relation without.
TEST(files_of_edges_that_are_of_no_relation)
{
    struct sl_dataset ds;
    write_edge_features();
    write_npy("edge_feat.paper.cite.paper.npy", SL_DTYPE_F32, 1, (uint64_t[]){4}, (float[4]){0});
    write_npy("edge_time.paper.cite.paper.npy", SL_DTYPE_I64, 1, (uint64_t[]){4}, (int64_t[4]){0});
    write_npy("node_time.npy", SL_DTYPE_I64, 1, (uint64_t[]){4}, (int64_t[4]){0});
    must(open_it(SL_CHECK_FULL, &ds)); // nobody asks for them
    sl_dataset_close(&ds);
    edges_refused(SL_EFORMAT,
                  "has edge_feat.paper.cite.paper.npy, which is of none of its relations",
                  "such as " WRITES_FEAT);
    ck_assert_int_eq(sl_dataset_open(dir, OF_EDGES | SL_NEED_TIMES, SL_CHECK_FULL, 2, &ds),
                     SL_EFORMAT);
    assert_message_has("has edge_time.paper.cite.paper.npy, which is of none");
}

TEST(features_of_edges_that_cannot_be)
{
    edges_refused(SL_ENOENT, "has no edge_feat.SOURCE.NAME.TARGET.npy, such as " WRITES_FEAT,
                  "model.edge_features");
    write_edge_features();
    write_npy(CITES_FEAT, SL_DTYPE_F32, 2, (uint64_t[]){3, 2}, (float[6]){0});
    edges_refused(SL_EFORMAT, CITES_FEAT ": is float32 (3, 2)", "4 edges of the relation");
    write_npy(CITES_FEAT, SL_DTYPE_F32, 3, (uint64_t[]){4, 1, 1}, (float[4]){0});
    edges_refused(SL_EFORMAT, CITES_FEAT, "wanted (edges, numbers of each)");
    write_npy(CITES_FEAT, SL_DTYPE_F32, 2, (uint64_t[]){4, 2},
              (float[]){0, 1, 2, 3, 4, INFINITY, 6, 7});
    edges_refused(SL_EFORMAT, CITES_FEAT ": row 2, column 1 is Inf", "nan_to_num");
}

TEST(features_are_in_digest_and_contents)
{
    struct sl_dataset_content found[2][SL_DATASET_PARTS_MAX + 1];
    struct sl_dataset ds;
    uint64_t digest[2];
    uint32_t n[2];
    for (int i = 0; i < 2; i++) {
        must(open_it(SL_CHECK_FULL, &ds));
        digest[i] = ds.digest;
        n[i] = sl_dataset_contents(&ds, found[i]);
        ck_assert_uint_eq(n[i], 9);
        for (uint32_t k = 0; k < n[i]; k++)
            if (i == 1)
                ck_assert_int_eq(found[0][k].digest != found[1][k].digest, k == 8);
        sl_dataset_close(&ds);
        write_npy("node_feat.venue.npy", SL_DTYPE_F16, 2, (uint64_t[]){2, 1},
                  (uint16_t[]){0x3c00, 0x4001});
    }
    ck_assert_uint_ne(digest[0], digest[1]);
}

// ---- what is refused ----------------------------------------------------------------------------

static const struct {
    const char *keys;
    int code;
    const char *a, *b;
} metadata[] = {
    {SIZES ", " TYPES, SL_EFORMAT, "\"relations\" is no list", "as in"},
    {SIZES ", " RELATIONS, SL_EFORMAT, "\"types\" is no list", "as in"},
    {SIZES ", \"types\": [3], " RELATIONS, SL_EFORMAT, "\"types\" is no list of objects", ""},
    {SIZES ", \"types\": [{\"name\": \"a/b\", \"count\": 9}], " RELATIONS, SL_EFORMAT,
     "\"types[0].name\" is \"a/b\"", "letters, digits"},
    {SIZES ", \"types\": [{\"count\": 9}], " RELATIONS, SL_EFORMAT, "\"types[0].name\" is missing",
     ""},
    {SIZES ", \"types\": [{\"name\": \"a\", \"count\": -1}], " RELATIONS, SL_EFORMAT,
     "\"types[0].count\" is -1", "whole number"},
    {SIZES ", \"types\": [{\"name\": \"a\"}], " RELATIONS, SL_EFORMAT, "has no \"types[0].count\"",
     ""},
    {SIZES
     ", \"types\": [{\"name\": \"a\", \"count\": 2}, {\"name\": \"a\", \"count\": 7}], " RELATIONS,
     SL_EFORMAT, "\"types\" has \"a\" twice", ""},
    {SIZES ", " TYPES ", \"relations\": [{\"source\": \"writer\", \"name\": \"x\", \"target\": "
           "\"paper\", \"edges\": 12}]",
     SL_EFORMAT, "\"relations[0].source\" is \"writer\"", "one of \"types\""},
    {SIZES ", " TYPES ", \"relations\": [" WRITES ", " WRITES "]", SL_EFORMAT,
     "author -writes-> paper at 0 and at 1", ""},
    {SIZES ", " TYPES ", \"relations\": [" REVERSE "]", SL_EFORMAT,
     "\"relations[0].reverse_of\" is \"writes\"", "from author to paper"},
    {SIZES ", " TYPES ", \"relations\": [" REVERSE ", {\"source\": \"author\", \"name\": "
           "\"writes\", \"target\": \"paper\", \"edges\": 8}]",
     SL_EFORMAT, "\"relations[0].reverse_of\" is \"writes\", which has 8 edges", "wanted 4"},
    {"\"num_nodes\": 8, \"num_edges\": 12, " TYPES ", " RELATIONS, SL_EFORMAT,
     "\"num_nodes\" is 8, wanted 9", ""},
    {"\"num_nodes\": 9, \"num_edges\": 13, " TYPES ", " RELATIONS, SL_EFORMAT,
     "\"num_edges\" is 13, wanted 12", ""},
    {SIZES ", \"feat_dim\": 2, " TYPES ", " RELATIONS, SL_EUNSUPPORTED,
     "has \"types\" and \"feat_dim\"", "features by type"},
    {SIZES ", \"first_side\": 4, " TYPES ", " RELATIONS, SL_EUNSUPPORTED,
     "has \"types\" and \"first_side\"", ""},
    {SIZES ", \"label_type\": \"author\", " TYPES ", " RELATIONS, SL_EFORMAT,
     "\"label_type\" is \"author\", wanted \"paper\"", "in front"},
};

LOOP_TEST(bad_metadata, 0, SL_COUNT_OF(metadata))
{
    write_metadata(metadata[_i].keys);
    refused(metadata[_i].code, metadata[_i].a, metadata[_i].b);
}

TEST(offsets_are_one_more_than_rows)
{
    WRITE_I64("indptr.npy", 0, 2, 3, 3, 4, 6, 7, 8, 12);
    refused(SL_EFORMAT, "indptr.npy: is int64 (9,), wanted 16 elements", "15 rows");
}

TEST(offsets_rise_within_a_relation)
{
    WRITE_I64("indptr.npy", 0, 2, 3, 3, 4, 6, 7, 8, 8, 11, 9, 12, 12, 12, 12, 12);
    refused(SL_EFORMAT, "element 10 is 9, less than element 9 (11)",
            "(relation paper -cites-> paper, paper 2)");
}

TEST(relations_begin_where_they_say)
{
    WRITE_I64("indptr.npy", 0, 2, 3, 3, 5, 6, 7, 8, 8, 9, 11, 12, 12, 12, 12, 12);
    refused(SL_EFORMAT, "element 4 is 5, wanted 4, where relation 1", "paper -rev_writes-> author");
}

// The source of each relation, in both widths: the one before the first, the one behind the last.
static const struct {
    int edge, id;
    const char *text;
} bad_sources[] = {
    {0, 3,
     "element 0 (relation author -writes-> paper, paper 0) is 3, wanted an id from 4 to "
     "before 7, a vertex of type author"},
    {3, 7, "element 3 (relation author -writes-> paper, paper 3) is 7"},
    {5, 4,
     "element 5 (relation paper -rev_writes-> author, author 0) is 4, wanted an id from 0 to "
     "before 4"},
    {11, -1, "element 11 (relation paper -cites-> paper, paper 3) is -1"},
};

LOOP_TEST(sources_are_of_their_type, 0, 2 * SL_COUNT_OF(bad_sources))
{
    int32_t narrow[] = {4, 5, 6, 4, 0, 3, 0, 1, 0, 0, 1, 3};
    int64_t wide[12];
    narrow[bad_sources[_i / 2].edge] = bad_sources[_i / 2].id;
    for (int i = 0; i < 12; i++)
        wide[i] = narrow[i];
    write_list("indices.npy", _i % 2 ? SL_DTYPE_I64 : SL_DTYPE_I32, 12,
               _i % 2 ? (void *)wide : (void *)narrow);
    refused(SL_EFORMAT, bad_sources[_i / 2].text, "indices.npy");
}

TEST(features_are_those_of_metadata)
{
    write_npy("node_feat.venue.npy", SL_DTYPE_F16, 2, (uint64_t[]){1, 2}, (uint16_t[]){0, 0});
    refused(SL_EFORMAT, "node_feat.venue.npy: is float16 (1, 2)", "(2, 1) of type \"venue\"");
    write_npy("node_feat.venue.npy", SL_DTYPE_I32, 2, (uint64_t[]){2, 1}, (int32_t[]){0, 0});
    refused(SL_EFORMAT, "node_feat.venue.npy: is int32", "float32 or float16");
    ck_assert_int_eq(remove(in_dir("node_feat.venue.npy")), 0);
    refused(SL_ENOENT, "has no node_feat.venue.npy", "\"venue\"");
}

TEST(features_that_no_type_has_are_refused)
{
    write_npy("node_feat.author.npy", SL_DTYPE_F32, 2, (uint64_t[]){3, 1}, (float[]){1, 2, 3});
    refused(SL_EFORMAT, "node_feat.author.npy", "(3, 0) of type \"author\"");
}

TEST(features_are_finite)
{
    write_npy("node_feat.paper.npy", SL_DTYPE_F32, 2, (uint64_t[]){4, 2},
              (float[]){0, 1, 2, 3, 4, NAN, 6, 7});
    refused(SL_EFORMAT, "node_feat.paper.npy: row 2, column 1 is NaN", "finite");
    write_npy("node_feat.paper.npy", SL_DTYPE_F32, 2, (uint64_t[]){4, 2},
              (float[]){0, 1, 2, 3, 4, 5, 6, 7});
    write_npy("node_feat.venue.npy", SL_DTYPE_F16, 2, (uint64_t[]){2, 1},
              (uint16_t[]){0x3c00, 0xfc00});
    refused(SL_EFORMAT, "node_feat.venue.npy: row 1, column 0 is -Inf", "finite");
}

TEST(labels_and_lists_are_of_the_first_type)
{
    WRITE_I32("node_label.npy", 0, 1, 1, -1, 0, 0, 0, 0, 0);
    refused(SL_EFORMAT, "node_label.npy: is int32 (9,)", "the count of the first of \"types\" = 4");
    WRITE_I32("node_label.npy", 0, 1, 1, -1);
    WRITE_I64("val_idx.npy", 4);
    refused(SL_EFORMAT, "val_idx.npy: element 0 is 4", "type paper, from 0 to before 4");
}

RUN_TESTS(.setup = typed_begin, .begin = scratch_begin, .end = scratch_end)
