// Edge lists whose vertices have names, with tables of features, labels and splits beside them.
#include <math.h>

#include "cli/command.h"
#include "common/data/dataset.h"
#include "common/data/names.h"
#include "dataset/metadata.h"
#include "dataset/name_key.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

enum { OPTIONS = 12 };

// Imports edges.txt to the data set `to`.
static int import(const char *to, const char *const options[OPTIONS])
{
    const char *words[6 + OPTIONS] = {"import", "edgelist", NULL, "-q", "--out", NULL};
    char edges[4096], out[4096], paths[OPTIONS][4096];
    snprintf(edges, sizeof edges, "%s", in_dir("edges.txt"));
    snprintf(out, sizeof out, "%s", in_dir(to));
    words[2] = edges;
    words[5] = out;
    for (int i = 0; i < OPTIONS && options[i]; i++) {
        bool file =
            i > 0 && (!strcmp(options[i - 1], "--features") ||
                      !strcmp(options[i - 1], "--labels") || !strcmp(options[i - 1], "--splits"));
        snprintf(paths[i], sizeof paths[i], "%s", file ? in_dir(options[i]) : options[i]);
        words[6 + i] = paths[i];
    }
    return run_words(&sl_command_import, SL_COUNT_OF(words), words);
}

#define IMPORT(to, ...) import(to, (const char *const[OPTIONS]){__VA_ARGS__})

static const char *names_text(const char *what, uint64_t n)
{
    static char text[4096];
    struct sl_names names;
    size_t used = 0;
    must(sl_names_open(in_dir("a"), what, n, &names));
    for (uint64_t i = 0; i < n; i++) {
        const char *name;
        size_t n_name;
        must(sl_names_get(&names, i, &name, &n_name));
        used += (size_t)sprintf(text + used, "%s%.*s", i ? "|" : "", (int)n_name, name);
    }
    sl_names_close(&names);
    return text;
}

// "7<a a<7,b" : who has in-edges, by name.
static const char *edges_text(const struct sl_dataset *ds)
{
    static char text[4096];
    struct sl_names names;
    size_t used = 0, n;
    const char *name;
    text[0] = '\0';
    must(sl_names_open(ds->path, SL_NAMES_VERTEX, ds->n_nodes, &names));
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++) {
            must(sl_names_get(&names, v, &name, &n));
            if (e == ds->indptr[v])
                used += (size_t)sprintf(text + used, "%s%.*s<", used ? " " : "", (int)n, name);
            must(sl_names_get(&names, sl_dataset_source(ds, e), &name, &n));
            used +=
                (size_t)sprintf(text + used, "%s%.*s", e == ds->indptr[v] ? "" : ",", (int)n, name);
            if (ds->edge_weight)
                used += (size_t)sprintf(text + used, ":%g", (double)ds->edge_weight[e]);
        }
    sl_names_close(&names);
    return text;
}

static void open_dataset(const char *name, struct sl_dataset *ds)
{
    must(sl_dataset_open(in_dir(name), SL_NEED_TOPOLOGY, SL_CHECK_FULL, 1, ds));
}

// ---- names --------------------------------------------------------------------------------------

static const struct {
    const char *text, *names, *edges;
    const char *option, *value;
} lists[] = {
    {"b a\na c\n", "a|b|c", "a<b c<a", NULL, NULL},
    {"10 9\n9 x\n-1 10\n", "9|10|-1|x", "9<10 10<-1 x<9", NULL, NULL},
    {"4294967295 18446744073709551616\n", "4294967295|18446744073709551616",
     "18446744073709551616<4294967295", NULL, NULL},
    {"99999999999999999999999999999999999 1\n1 07\n07 7\n",
     "1|7|99999999999999999999999999999999999|07",
     "1<99999999999999999999999999999999999 7<07 07<1", NULL, NULL},
    {"\"a,b\",\"say \"\"no\"\"\"\nNew York,\"a,b\"\n", "New York|a,b|say \"no\"",
     "a,b<New York say \"no\"<a,b", NULL, NULL},
    {"New York\tBoston\nBoston\tSan Jos\xc3\xa9\n", "Boston|New York|San Jos\xc3\xa9",
     "Boston<New York San Jos\xc3\xa9<Boston", NULL, NULL},
    {"x y 2\ny x 0.5\nx y 3\n", "x|y", "x<y:0.5 y<x:2,x:3", NULL, NULL},
    {"x y 2\ny x 0.5\nx y 3\n", "x|y", "x<y:0.5 y<x:5", "--duplicates", "sum"},
    {"x x\n", "x", "x<x", NULL, NULL},
    {"source,target\nsource,u\n", "source|target|u", "target<source u<source", "--columns", "1,2"},
    {"id,to,from\n1,b,a\n2,a,c\n", "a|b|c", "a<c b<a", "--columns", "from,to"},
    {"0 1\n1 0\n1 2\n", "0|1|2", "0<1 1<0 2<1", NULL, NULL},
    // Two sides, numbered alone: 1 of the second is another vertex.
    {"% bip unweighted\n% 3 2 2\n1 1\n2 1\n1 2\n", "1|2|3|4", "1<3,4 2<3 3<1,2 4<1", NULL, NULL},
};

LOOP_TEST(any_text_is_a_name, 0, SL_COUNT_OF(lists))
{
    struct sl_dataset ds;
    char wanted[256];
    write_text("edges.txt", lists[_i].text);
    must(IMPORT("a", "--relabel", lists[_i].option, lists[_i].value,
                lists[_i].option && !strcmp(lists[_i].option, "--duplicates") ? "--dedup" : NULL));
    open_dataset("a", &ds);
    ck_assert_str_eq(names_text(SL_NAMES_VERTEX, ds.n_nodes), lists[_i].names);
    snprintf(wanted, sizeof wanted, "%s", lists[_i].edges);
    ck_assert_str_eq(edges_text(&ds), wanted);
    sl_dataset_close(&ds);
    ck_assert_int_eq(count_hidden(), 0);
}

TEST(names_that_are_all_numbers_are_an_array_too)
{
    struct sl_npy ids;
    write_text("edges.txt", "9223372036854775807 7\n7 123456\n");
    must(IMPORT("a", "--relabel"));
    must(sl_npy_open(in_dir("a/node_id.npy"), &ids));
    ck_assert_uint_eq(ids.n_elems, 3);
    ck_assert_int_eq(((const int64_t *)ids.data)[2], INT64_MAX);
    sl_npy_close(&ids);
    write_text("edges.txt", "9223372036854775808 7\n7 123456\n");
    must(IMPORT("b", "--relabel"));
    ck_assert(!exists("b/node_id.npy") && exists("b/vertex_names.npy"));
    write_text("edges.txt", "1 7\n7 01\n");
    must(IMPORT("c", "--relabel"));
    ck_assert(!exists("c/node_id.npy"));
}

// ---- tables -------------------------------------------------------------------------------------

static const char edges[] = "alice,bob\nbob,carol\n7,alice\n";

// Vertices: 7, alice, bob, carol, and dave, whom only the features have.
TEST(tables_are_joined_by_name)
{
    struct sl_dataset ds;
    write_text("edges.txt", edges);
    write_text("f.csv", "name,x,y\ncarol,1,2\n\"dave\",3,4\n7,5,6\n# nobody\nbob,7,8\nalice,9,0\n");
    write_text("l.tsv", "name\tkind\ndave\tdog\nalice\tcat\n7\t\ncarol\tdog\n");
    write_text("s.csv", "carol;test\nalice;TRAIN\nbob;validation\ndave;valid\n7;\n");
    must(IMPORT("a", "--relabel", "--features", "f.csv", "--labels", "l.tsv", "--splits", "s.csv"));
    open_dataset("a", &ds);
    ck_assert_uint_eq(ds.n_nodes, 5);
    ck_assert_str_eq(names_text(SL_NAMES_VERTEX, 5), "7|alice|bob|carol|dave");
    const float features[] = {5, 6, 9, 0, 7, 8, 1, 2, 3, 4};
    ck_assert_int_eq(memcmp(ds.feat, features, sizeof features), 0);
    const int32_t labels[] = {-1, 0, -1, 1, 1};
    ck_assert_uint_eq(ds.n_classes, 2);
    ck_assert_int_eq(memcmp(ds.label, labels, sizeof labels), 0);
    ck_assert_str_eq(names_text(SL_NAMES_CLASS, 2), "cat|dog");
    ck_assert(ds.split[SL_SPLIT_TRAIN].n == 1 && ds.split[SL_SPLIT_TRAIN].ids[0] == 1);
    ck_assert(ds.split[SL_SPLIT_VAL].n == 2 && ds.split[SL_SPLIT_VAL].ids[1] == 4);
    ck_assert(ds.split[SL_SPLIT_TEST].n == 1 && ds.split[SL_SPLIT_TEST].ids[0] == 3);
    sl_dataset_close(&ds);
    cJSON *metadata = sl_metadata_read(in_dir("a"));
    cJSON *source = cJSON_GetObjectItem(metadata, "source");
    ck_assert(cJSON_GetObjectItem(source, "edges_read")->valueint == 3);
    ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(source, "labels")), "l.tsv");
    ck_assert(cJSON_HasObjectItem(source, "vertex_names"));
    ck_assert(cJSON_HasObjectItem(source, "class_names"));
    cJSON_Delete(metadata);
    capture_begin();
    must(RUN(sl_command_inspect, "inspect", in_dir("a")));
    char *text = capture_end();
    assert_has(text, "from '7' to 'dave'");
    assert_has(text, "from 'cat' to 'dog'");
    free(text);
}

TEST(tables_are_joined_by_id)
{
    struct sl_dataset ds;
    write_text("edges.txt", "0 1\n2 0\n");
    write_text("f.csv", "3 1 2\n0 5 6\n02 7 8\n1 9 0\n");
    write_text("l.csv", "vertex,class\n3,2\n1,0\n2,nan\n0,-1\n");
    WRITE_I64("s.npy", 0, -1, 2, 1);
    must(IMPORT("a", "--features", "f.csv", "--labels", "l.csv", "--splits", "s.npy"));
    open_dataset("a", &ds);
    ck_assert_uint_eq(ds.n_nodes, 4); // the features have one more than the edges
    const float features[] = {5, 6, 9, 0, 7, 8, 1, 2};
    ck_assert_int_eq(memcmp(ds.feat, features, sizeof features), 0);
    const int32_t labels[] = {-1, 0, -1, 2};
    ck_assert_int_eq(memcmp(ds.label, labels, sizeof labels), 0);
    ck_assert(ds.split[SL_SPLIT_TRAIN].n == 1 && ds.split[SL_SPLIT_VAL].ids[0] == 3 &&
              ds.split[SL_SPLIT_TEST].ids[0] == 2);
    ck_assert(!exists("a/class_names.npy") && !exists("a/vertex_names.npy"));
    sl_dataset_close(&ds);
}

TEST(arrays_have_a_row_for_each_vertex)
{
    struct sl_dataset ds;
    const float rows[] = {1, 2, 3, 4, 5, 6, 7, 8};
    write_text("edges.txt", "0 1\n2 0\n");
    write_npy("f.npy", SL_DTYPE_F32, 2, (uint64_t[]){4, 2}, rows);
    WRITE_I32("l.npy", 0, 1, 1, -1);
    must(IMPORT("a", "--features", "f.npy", "--labels", "l.npy", "--f16"));
    open_dataset("a", &ds);
    ck_assert_uint_eq(ds.n_nodes, 4);
    ck_assert(ds.feat_dim == 2 && ds.feat_dtype == SL_DTYPE_F16 && ds.label[2] == 1);
    sl_dataset_close(&ds);
}

TEST(labels_are_numbers_or_several)
{
    struct sl_dataset ds;
    float targets[2];
    write_text("edges.txt", edges);
    write_text("l.csv", "alice,0.25\nbob,-1\ncarol,nan\n");
    must(IMPORT("a", "--relabel", "--labels", "l.csv", "--task", "regression"));
    open_dataset("a", &ds);
    ck_assert_int_eq(ds.task, SL_TASK_REGRESSION);
    sl_dataset_targets(&ds, 1, targets);
    ck_assert(targets[0] == 0.25f);
    sl_dataset_targets(&ds, 2, targets);
    ck_assert(targets[0] == -1);
    sl_dataset_targets(&ds, 3, targets);
    ck_assert(isnan(targets[0]));
    sl_dataset_close(&ds);
    write_text("l.csv", "alice,0,1\nbob,1,nan\n");
    must(IMPORT("b", "--relabel", "--labels", "l.csv"));
    open_dataset("b", &ds);
    ck_assert_int_eq(ds.task, SL_TASK_MULTILABEL);
    sl_dataset_targets(&ds, 1, targets);
    ck_assert(targets[0] == 0 && targets[1] == 1);
    sl_dataset_close(&ds);
}

TEST(classes_by_name_are_numbered_in_their_order)
{
    struct sl_dataset ds;
    write_text("edges.txt", edges);
    write_text("l.csv", "bob,b\nalice,10\n7,9\ncarol,a\n"); // text: so 9 and 10 are names too
    must(IMPORT("a", "--relabel", "--labels", "l.csv"));
    open_dataset("a", &ds);
    ck_assert_str_eq(names_text(SL_NAMES_CLASS, 4), "9|10|a|b");
    const int32_t labels[] = {0, 1, 3, 2};
    ck_assert_int_eq(memcmp(ds.label, labels, sizeof labels), 0);
    sl_dataset_close(&ds);
}

// ---- what is refused ----------------------------------------------------------------------------

static const struct {
    const char *features, *labels, *splits;
    const char *message;
} refused[] = {
    {"alice,1\nbob,2\ncarol,3\n", NULL, NULL, "found 3 rows, none of vertex '7': wanted one for"},
    {"alice,1\nbob,2\n7,3\n", NULL, NULL, "none of vertex 'carol'"},
    {"alice,1\nbob,2\ncarol,3\n7,4\nbob,5\n", NULL, NULL,
     "line 5: found 'bob' a second time, after line 2"},
    {"alice,1\nbob,2,3\n", NULL, NULL, "line 2: found 'bob': wanted 1 features, as in the first"},
    {"alice,1\nbob,x\n", NULL, NULL, "line 2: found 'x': wanted a number"},
    {"alice,1\nbob,nan\n", NULL, NULL, "line 2: found 'nan': wanted a finite number"},
    {"alice,1\nbob,1e39\n", NULL, NULL,
     "line 2: found '1e39': wanted a finite number that float32"},
    {"alice\nbob\n", NULL, NULL, "wanted features behind the vertex"},
    {"", NULL, NULL, "found no row"},
    {"name,x\n", NULL, NULL, "found no row"},
    {"alice,1\n\"bob,2\n", NULL, NULL, "wanted a quote that its field closes"},
    {"alice,1\n,2\n", NULL, NULL, "line 2: found 'an empty field': wanted a vertex"},
    {NULL, "alice,0\nbobby,1\n", NULL, "line 2: found 'bobby': wanted a vertex of an edge"},
    {NULL, "alice,0\nbob,1\nalice,0\n", NULL, "line 3: found 'alice' a second time, after line 1"},
    {NULL, "alice,0\nbob,0.5\n", NULL, "line 2, vertex 'bob'"},
    {NULL, "alice,0,1\nbob,1\n", NULL, "line 2: found 'bob': wanted 2 label columns"},
    {NULL, "alice,0\nbob,1,1\n", NULL, "line 2: found 'bob': wanted 1 label column, as in"},
    {NULL, "alice,\nbob,nan\n", NULL, "no vertex has a label"},
    {NULL, NULL, "alice,train\nbob,tset\n", "line 2: found 'tset': wanted train, val (valid"},
    {NULL, NULL, "alice,train\nbobby,test\n", "line 2: found 'bobby': wanted a vertex"},
    {NULL, NULL, "alice,train\nbob,val\nalice,test\n", "line 3: found 'alice' a second time"},
};

LOOP_TEST(tables_that_do_not_fit_are_explained, 0, SL_COUNT_OF(refused))
{
    const char *options[OPTIONS] = {"--relabel"};
    int n = 1;
    write_text("edges.txt", edges);
    if (refused[_i].features) {
        write_text("f.csv", refused[_i].features);
        options[n++] = "--features";
        options[n++] = "f.csv";
    }
    if (refused[_i].labels) {
        write_text("l.csv", refused[_i].labels);
        options[n++] = "--labels";
        options[n++] = "l.csv";
    }
    if (refused[_i].splits) {
        write_text("s.csv", refused[_i].splits);
        options[n++] = "--splits";
        options[n++] = "s.csv";
    }
    ck_assert_int_eq(import("a", options), SL_EFORMAT);
    assert_message_has(refused[_i].message);
    ck_assert(!exists("a"));
    ck_assert_int_eq(count_hidden(), 0);
}

TEST(ids_that_do_not_fit_are_explained)
{
    write_text("edges.txt", "0 1\n2 0\n");
    write_text("f.csv", "0,1\n1,2\nx,3\n2,4\n");
    ck_assert_int_eq(IMPORT("a", "--features", "f.csv"), SL_EFORMAT);
    assert_message_has("line 3: found 'x': wanted a vertex from 0 to 4294967293");
    write_text("f.csv", "0,1\n1,2\n3,4\n");
    ck_assert_int_eq(IMPORT("a", "--features", "f.csv"), SL_EFORMAT);
    assert_message_has("found 3 rows, none of vertex '2'");
    write_text("l.csv", "0,1\n1,2\n3,1\n");
    ck_assert_int_eq(IMPORT("a", "--labels", "l.csv"), SL_EFORMAT);
    assert_message_has("line 3: found '3': wanted a vertex below the largest");
    WRITE_I32("s.npy", 0, 1, 3);
    ck_assert_int_eq(IMPORT("a", "--splits", "s.npy"), SL_EFORMAT);
    assert_message_has("row 2: found 3: wanted 0 (train)");
    WRITE_I32("s.npy", 0, 1);
    ck_assert_int_eq(IMPORT("a", "--splits", "s.npy"), SL_EFORMAT);
    assert_message_has("found shape (2,): wanted (3)");
    ck_assert(!exists("a"));
}

static const struct {
    const char *text, *message;
    const char *options[OPTIONS];
} bad[] = {
    {"source,target\na,b\n", "line 1: found 'source': wanted an edge, not a heading row", {NULL}},
    {"FromNodeId\tToNodeId\n1\t2\n", "wanted an edge, not a heading row", {NULL}},
    {"user,item\n1,2\n2,3\n", "the first edge is 'user item', all others are numbers", {NULL}},
    {"a,b\na,\n", "line 2: found 'the end of the line': wanted a vertex's name", {NULL}},
    {"a,b\n,a\n", "line 2: found 'an empty field': wanted a vertex's name", {NULL}},
    {"a,b,x\n", "found 'x': wanted a weight", {NULL}},
    {"a b\n", "f.npy: the rows of an array have no names", {"--features", "f.npy"}},
    {"a b\n", "--splits and --split both given", {"--splits", "s.csv", "--split", "0.5,0.5"}},
    {"a b\n", "--task without --labels", {"--task", "regression"}},
    {"a b\n", "f.csv", {"--features", "f.csv"}}, // it is not there
};

LOOP_TEST(what_is_no_list_of_names_is_explained, 0, SL_COUNT_OF(bad))
{
    const char *options[OPTIONS] = {"--relabel"};
    for (int i = 0; bad[_i].options[i]; i++)
        options[i + 1] = bad[_i].options[i];
    write_text("edges.txt", bad[_i].text);
    ck_assert_int_lt(import("a", options), 0);
    assert_message_has(bad[_i].message);
    ck_assert(!exists("a"));
}

TEST(names_without_relabel_are_pointed_to_it)
{
    write_text("edges.txt", "alice bob\n");
    ck_assert_int_eq(IMPORT("a", NULL), SL_EFORMAT);
    assert_message_has("found 'alice': wanted");
    assert_message_has("--relabel takes any names");
    write_text("edges.txt", "4294967295 1\n");
    ck_assert_int_eq(IMPORT("a", NULL), SL_EFORMAT);
    assert_message_has("give --relabel");
    must(IMPORT("a", "--relabel"));
}

TEST(a_long_name_is_one_until_it_is_too_long)
{
    char *text = malloc(3 * SL_NAME_MAX_BYTES);
    struct sl_dataset ds;
    memset(text, 'x', SL_NAME_MAX_BYTES);
    strcpy(text + SL_NAME_MAX_BYTES, " y\n");
    write_text("edges.txt", text);
    must(IMPORT("a", "--relabel"));
    open_dataset("a", &ds);
    ck_assert_uint_eq(ds.n_nodes, 2);
    sl_dataset_close(&ds);
    strcpy(text + SL_NAME_MAX_BYTES, "x y\n");
    write_text("edges.txt", text);
    ck_assert_int_eq(IMPORT("b", "--relabel"), SL_EFORMAT);
    assert_message_has("wanted a vertex's name, of 1 to 4096 bytes");
    free(text);
}

// ---- memory -------------------------------------------------------------------------------------

// What the tables below say of a vertex is a function of its name.
static void assert_joined(const struct sl_dataset *ds, const struct sl_names *names,
                          const struct sl_names *classes, uint64_t v)
{
    char name[64], class[64];
    const char *text;
    size_t n;
    uint32_t x;
    const float *row = (const float *)ds->feat + 2 * v;
    must(sl_names_get(names, v, &text, &n));
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    if (sscanf(name, "name %u", &x) == 1) {
        ck_assert(row[0] == (float)x && row[1] == 0.5f && ds->label[v] == -1);
    } else if (sscanf(name, "v, %u", &x) == 1) {
        ck_assert(row[0] == 3 && row[1] == (float)x);
        must(sl_names_get(classes, (uint64_t)ds->label[v], &text, &n));
        snprintf(class, sizeof class, "class %u", x % 100);
        ck_assert(n == strlen(class) && memcmp(text, class, n) == 0);
    } else {
        ck_assert_int_eq(sscanf(name, "%u", &x), 1);
        ck_assert(row[0] == (float)(x / 3) && row[1] == 1 && ds->label[v] == -1);
    }
}

static void assert_all_joined(const char *to, uint64_t n)
{
    struct sl_dataset ds;
    struct sl_names names, classes;
    open_dataset(to, &ds);
    ck_assert_uint_eq(ds.n_nodes, 3 * n);
    must(sl_names_open(ds.path, SL_NAMES_VERTEX, ds.n_nodes, &names));
    must(sl_names_open(ds.path, SL_NAMES_CLASS, 100, &classes));
    for (uint64_t v = 0; v < ds.n_nodes; v++)
        assert_joined(&ds, &names, &classes, v);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        for (uint64_t i = 0; i < ds.split[s].n; i++) {
            const char *text;
            size_t n_text;
            must(sl_names_get(&names, ds.split[s].ids[i], &text, &n_text));
            ck_assert(strncmp(text, "name ", 5) == 0);
            ck_assert((text[n_text - 1] % 2 == 1) == (s == SL_SPLIT_TRAIN));
        }
    ck_assert(ds.split[SL_SPLIT_TRAIN].n == n / 2 && ds.split[SL_SPLIT_TEST].n == n / 2);
    sl_names_close(&names);
    sl_names_close(&classes);
    sl_dataset_close(&ds);
}

TEST(little_memory_makes_the_same_files)
{
    static const char *const files[] = {
        "indptr.npy",     "indices.npy",    "edge_weight.npy", "vertex_names.npy",
        "node_feat.npy",  "node_label.npy", "train_idx.npy",   "vertex_name_offsets.npy",
        "class_names.npy"};
    enum { N = 30000 };
    FILE *e = fopen(in_dir("edges.txt"), "w"), *f = fopen(in_dir("f.csv"), "w");
    FILE *l = fopen(in_dir("l.csv"), "w"), *s = fopen(in_dir("s.csv"), "w");
    for (uint32_t i = 0; i < N; i++) {
        uint32_t v = i * 7919 % N; // each once, in another order
        fprintf(e, "name %u,%u,%u\n%u,\"v, %u\",1\n", v, v * 3, i, v * 3, v);
        fprintf(f, "name %u,%u,0.5\n%u,%u,1\n\"v, %u\",3,%u\n", v, v, v * 3, v, v, v);
        fprintf(l, "\"v, %u\",class %u\n", v, v % 100);
        fprintf(s, "name %u,%s\n", v, v % 2 ? "train" : "test");
    }
    fclose(e);
    fclose(f);
    fclose(l);
    fclose(s);
    must(IMPORT("a", "--relabel", "--features", "f.csv", "--labels", "l.csv", "--splits", "s.csv"));
    must(IMPORT("b", "--relabel", "--features", "f.csv", "--labels", "l.csv", "--splits", "s.csv",
                "--memory", "1MiB"));
    for (size_t i = 0; i < SL_COUNT_OF(files); i++) {
        char a[64], b[64];
        snprintf(a, sizeof a, "a/%s", files[i]);
        snprintf(b, sizeof b, "b/%s", files[i]);
        ck_assert_msg(same_file(a, b), "%s differs", files[i]);
    }
    assert_all_joined("b", N);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
