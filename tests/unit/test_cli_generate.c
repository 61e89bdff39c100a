// Generators: the same bytes whatever the threads and the memory, the shape that was asked for, and
// nothing left behind by what fails.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cjson/cJSON.h>

#include "dataset/batch_estimate.h"
#include "cli/command.h"
#include "dataset/generate.h"
#include "dataset/staging.h"
#include "common/data/dataset.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

static const char *const all_files[] = {
    "indptr.npy",      "indices.npy", "node_feat.npy", "node_label.npy",
    "train_idx.npy",   "val_idx.npy", "test_idx.npy",  "metadata.json",
    "edge_weight.npy", // the last: planted graphs have none
};

static void generated(int rc)
{
    if (rc != 0)
        ck_abort_msg("%d: %s", rc, sl_error_message());
}

#define MAKE(name, ...)                                                                            \
    generated(RUN(sl_command_generate, "generate", __VA_ARGS__, "--out", in_dir(name), "-q"))

static void open_dataset(const char *name, unsigned need, struct sl_dataset *ds)
{
    must(sl_dataset_open(in_dir(name), need, SL_CHECK_FULL, 2, ds));
}

static uint32_t source_of(const struct sl_dataset *ds, uint64_t edge)
{
    return ((const uint32_t *)ds->indices)[edge]; // int32 below 2^31
}

static void same_datasets(const char *a, const char *b, size_t n_files, const char *const *files)
{
    for (size_t i = 0; i < n_files; i++) {
        char x[256], y[256];
        snprintf(x, sizeof x, "%s/%s", a, files[i]);
        snprintf(y, sizeof y, "%s/%s", b, files[i]);
        ck_assert_msg(same_file(x, y), "%s and %s differ", x, y);
    }
}

// ---- the same arguments, the same bytes ---------------------------------------------------------

static const struct {
    const char *threads, *memory;
} ways[] = {{"1", "1GiB"}, {"3", "1GiB"}, {"2", "1MiB"}, {"5", "1500KiB"}};

LOOP_TEST(planted_bytes_do_not_depend_on_threads_or_memory, 0, SL_COUNT_OF(ways))
{
    MAKE("a", "planted", "--nodes", "20011", "--degree", "12", "--feat-dim", "5", "--name", "x",
         "--threads", "2");
    MAKE("b", "planted", "--nodes", "20011", "--degree", "12", "--feat-dim", "5", "--name", "x",
         "--threads", ways[_i].threads, "--memory", ways[_i].memory);
    same_datasets("a", "b", SL_COUNT_OF(all_files) - 1, all_files);
}

LOOP_TEST(rmat_bytes_do_not_depend_on_threads_or_memory, 0, SL_COUNT_OF(ways))
{
    MAKE("a", "rmat", "--nodes", "10000", "--edges", "300k", "--feat-dim", "3", "--classes", "4",
         "--name", "x", "--weights", "--threads", "2");
    MAKE("b", "rmat", "--nodes", "10000", "--edges", "300k", "--feat-dim", "3", "--classes", "4",
         "--name", "x", "--weights", "--threads", ways[_i].threads, "--memory", ways[_i].memory);
    same_datasets("a", "b", SL_COUNT_OF(all_files), all_files);
}

LOOP_TEST(citation_bytes_do_not_depend_on_threads_or_memory, 0, SL_COUNT_OF(ways))
{
    MAKE("a", "citation", "--nodes", "20011", "--topics", "17", "--feat-dim", "5", "--name", "x",
         "--weights", "--threads", "2");
    MAKE("b", "citation", "--nodes", "20011", "--topics", "17", "--feat-dim", "5", "--name", "x",
         "--weights", "--threads", ways[_i].threads, "--memory", ways[_i].memory);
    same_datasets("a", "b", SL_COUNT_OF(all_files), all_files);
}

LOOP_TEST(bipartite_bytes_do_not_depend_on_threads_or_memory, 0, SL_COUNT_OF(ways))
{
    static const char *const files[] = {
        "indptr.npy",    "indices.npy",    "node_feat.npy", "node_truth.npy", "train_edges.npy",
        "val_edges.npy", "test_edges.npy", "users.npy",     "items.npy",      "metadata.json"};
    MAKE("a", "bipartite", "--users", "20011", "--items", "3001", "--degree", "12", "--feat-dim",
         "5", "--name", "x", "--truth", "--threads", "2");
    MAKE("b", "bipartite", "--users", "20011", "--items", "3001", "--degree", "12", "--feat-dim",
         "5", "--name", "x", "--truth", "--threads", ways[_i].threads, "--memory", ways[_i].memory);
    same_datasets("a", "b", SL_COUNT_OF(files), files);
}

TEST(another_seed_makes_another_graph)
{
    MAKE("a", "planted", "--nodes", "1000");
    MAKE("b", "planted", "--nodes", "1000", "--seed", "2");
    ck_assert(!same_file("a/indices.npy", "b/indices.npy"));
    ck_assert(!same_file("a/node_feat.npy", "b/node_feat.npy"));
    ck_assert(!same_file("a/node_label.npy", "b/node_label.npy"));
    ck_assert(!same_file("a/train_idx.npy", "b/train_idx.npy"));
}

// What the features alone allow is asked of these: a vertex is the same with and without edges.
LOOP_TEST(no_edges_leave_the_vertices_as_they_are, 0, (int)sl_generator_n_kinds)
{
    static const char *const files[] = {"node_feat.npy", "node_label.npy", "train_idx.npy",
                                        "val_idx.npy", "test_idx.npy"};
    const char *kind = sl_generator_kinds[_i]->name;
    struct sl_dataset ds;
    if (sl_generator_kinds[_i]->of_sides || strcmp(kind, "typed") == 0)
        return; // users_and_items_without_edges; test_typed_data.py
    MAKE("a", kind, "--nodes", "3000", "--classes", "5", "--feat-dim", "7");
    MAKE("b", kind, "--nodes", "3000", "--classes", "5", "--feat-dim", "7", "--edges", "0");
    same_datasets("a", "b", SL_COUNT_OF(files), files);
    open_dataset("a", SL_NEED_TRAINING, &ds);
    ck_assert_uint_gt(ds.n_edges, 3000);
    sl_dataset_close(&ds);
    open_dataset("b", SL_NEED_TRAINING, &ds);
    ck_assert_uint_eq(ds.n_nodes, 3000);
    ck_assert_uint_eq(ds.n_edges, 0);
    sl_dataset_close(&ds);
}

// ---- shape: R-MAT -------------------------------------------------------------------------------

static int descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

// Share of the edges that end in the hundredth of the vertices with most of them.
static double top_percent(const struct sl_dataset *ds)
{
    uint64_t *d = malloc(ds->n_nodes * sizeof *d), sum = 0;
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        d[v] = sl_dataset_degree(ds, v);
    qsort(d, ds->n_nodes, sizeof *d, descending);
    for (uint64_t i = 0; i < ds->n_nodes / 100; i++)
        sum += d[i];
    free(d);
    return (double)sum / (double)ds->n_edges;
}

TEST(rmat_degrees_are_skewed)
{
    struct sl_dataset ds;
    MAKE("a", "rmat", "--scale", "14");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    ck_assert_uint_eq(ds.n_nodes, 1 << 14);
    ck_assert_uint_eq(ds.n_edges, 16 << 14);
    double skewed = top_percent(&ds);
    ck_assert_msg(skewed > 0.15, "the top hundredth has %.3f of the edges", skewed);
    sl_dataset_close(&ds);

    // The four quadrants alike: no skew beyond chance.
    MAKE("b", "rmat", "--scale", "14", "--a", "0.25", "--b", "0.25", "--c", "0.25");
    open_dataset("b", SL_NEED_TOPOLOGY, &ds);
    double even = top_percent(&ds);
    ck_assert_msg(even < 0.025, "the top hundredth has %.3f of the edges", even);
    sl_dataset_close(&ds);
}

TEST(rmat_ids_tell_nothing_about_degrees)
{
    struct sl_dataset ds;
    MAKE("a", "rmat", "--scale", "14");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    // Without scrambling the lower half of the ids would have three quarters of the edges.
    double low = (double)ds.indptr[ds.n_nodes / 2] / (double)ds.n_edges;
    ck_assert_msg(low > 0.4 && low < 0.6, "the lower half has %.3f of the edges", low);
    uint64_t even = 0;
    for (uint64_t v = 0; v < ds.n_nodes; v += 2)
        even += sl_dataset_degree(&ds, v);
    ck_assert(fabs((double)even / (double)ds.n_edges - 0.5) < 0.1);
    sl_dataset_close(&ds);
}

TEST(rmat_takes_any_number_of_vertices)
{
    static const char *const sizes[] = {"1", "2", "3", "1000", "1025"};
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++) {
        struct sl_dataset ds;
        MAKE("a", "rmat", "--force", "--nodes", sizes[i], "--edges", "5000");
        open_dataset("a", SL_NEED_TOPOLOGY, &ds); // which checks that ids are in range
        ck_assert_uint_eq(ds.n_nodes, strtoul(sizes[i], NULL, 10));
        ck_assert_uint_eq(ds.n_edges, 5000);
        sl_dataset_close(&ds);
    }
}

TEST(rmat_dedup_keeps_each_edge_once)
{
    struct sl_dataset ds;
    MAKE("a", "rmat", "--scale", "8", "--edges", "100k", "--dedup");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    ck_assert_uint_lt(ds.n_edges, 65536);
    for (uint64_t v = 0; v < ds.n_nodes; v++)
        for (uint64_t e = ds.indptr[v] + 1; e < ds.indptr[v + 1]; e++)
            ck_assert_uint_lt(source_of(&ds, e - 1), source_of(&ds, e));
    sl_dataset_close(&ds);
}

// A weight is a function of the source alone, and takes one of 32 values.
TEST(rmat_weights_belong_to_sources)
{
    struct sl_dataset ds;
    float of[1 << 10] = {0};
    uint32_t n_of_year[SL_GENERATE_YEARS] = {0};
    MAKE("a", "rmat", "--scale", "10", "--edge-factor", "200", "--weights");
    open_dataset("a", SL_NEED_WEIGHTS, &ds);
    for (uint64_t e = 0; e < ds.n_edges; e++) {
        uint32_t u = source_of(&ds, e);
        ck_assert(of[u] == 0 || of[u] == ds.edge_weight[e]);
        of[u] = ds.edge_weight[e];
    }
    for (uint32_t u = 0; u < 1 << 10; u++)
        for (uint32_t year = 0; year < SL_GENERATE_YEARS; year++)
            n_of_year[year] += of[u] == sl_generate_year_weight(year);
    uint32_t sum = 0, n_sources = 0;
    for (uint32_t year = 0; year < SL_GENERATE_YEARS; year++) {
        ck_assert_uint_gt(n_of_year[year], 5); // of about 30
        sum += n_of_year[year];
    }
    for (uint32_t u = 0; u < 1 << 10; u++)
        n_sources += of[u] > 0;
    ck_assert_uint_eq(sum, n_sources);
    sl_dataset_close(&ds);
}

TEST(year_weights_double_every_four_years)
{
    for (uint32_t year = 0; year < SL_GENERATE_YEARS; year++) {
        double wanted = exp2(year / 4.0);
        ck_assert_double_eq_tol((double)sl_generate_year_weight(year) / wanted, 1, 1e-6);
    }
}

// ---- shape: citations ---------------------------------------------------------------------------

TEST(papers_cite_earlier_ones_once)
{
    struct sl_dataset ds;
    MAKE("a", "citation", "--nodes", "30000", "--topics", "30", "--feat-dim", "0");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    for (uint64_t v = 0; v < ds.n_nodes; v++) {
        for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++) {
            ck_assert_uint_lt(source_of(&ds, e), v);
            if (e > ds.indptr[v])
                ck_assert_uint_lt(source_of(&ds, e - 1), source_of(&ds, e));
        }
    }
    double mean = (double)ds.n_edges / (double)ds.n_nodes; // of 15 drawn
    ck_assert_msg(mean > 13 && mean <= 15, "%.2f references a paper", mean);
    sl_dataset_close(&ds);
}

LOOP_TEST(papers_cite_their_topic_as_often_as_asked_for, 0, 4)
{
    static const char *const wanted[] = {"0", "0.5", "0.8", "1"};
    struct sl_dataset ds;
    uint64_t same = 0, near = 0, all = 0;
    MAKE("a", "citation", "--nodes", "100k", "--topics", "20", "--feat-dim", "0", "--homophily",
         wanted[_i]);
    open_dataset("a", SL_NEED_LABELS, &ds);
    // From the middle on, where few are dropped as duplicates.
    for (uint64_t v = ds.n_nodes / 2; v < ds.n_nodes; v++) {
        for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++) {
            int apart = abs(ds.label[v] - ds.label[source_of(&ds, e)]);
            same += apart == 0;
            near += apart == 1 || apart == 19;
            all++;
        }
    }
    double found = (double)same / (double)all, homophily = strtod(wanted[_i], NULL);
    ck_assert_msg(fabs(found - homophily) < 0.02, "wanted %s, found %.4f", wanted[_i], found);
    // Topics beside it on the ring: ln 2 / ln 11 of the rest.
    double beside = (double)near / (double)all, expected = (1 - homophily) * log(2) / log(11);
    ck_assert_msg(fabs(beside - expected) < 0.02, "%.4f beside it, wanted %.4f", beside, expected);
    sl_dataset_close(&ds);
}

TEST(papers_cite_recent_and_famous_ones)
{
    struct sl_dataset ds;
    MAKE("a", "citation", "--nodes", "100k", "--topics", "10", "--feat-dim", "0", "--homophily",
         "1");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    uint64_t *cited = calloc(ds.n_nodes, sizeof *cited), top = 0;
    double age = 0, n_late = 0;
    for (uint64_t v = 0; v < ds.n_nodes; v++) {
        for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++) {
            uint32_t u = source_of(&ds, e);
            cited[u]++;
            if (v > ds.n_nodes * 9 / 10) {
                age += (double)(v - u);
                n_late++;
            }
        }
    }
    // Exponential with a mean of an eighth of all (cut off at the first paper, and taken to eras).
    double share = age / n_late / (double)ds.n_nodes;
    ck_assert_msg(share > 0.11 && share < 0.15, "mean age of %.3f of all", share);
    qsort(cited, ds.n_nodes, sizeof *cited, descending);
    for (uint64_t i = 0; i < ds.n_nodes / 100; i++)
        top += cited[i];
    // An era's 512 papers: the first hundredth of ranks has sqrt(1 / 100) of the citations.
    double skew = (double)top / (double)ds.n_edges;
    ck_assert_msg(skew > 0.07 && skew < 0.2, "the top hundredth has %.3f of the citations", skew);
    free(cited);
    sl_dataset_close(&ds);
}

TEST(only_papers_of_the_training_topics_are_listed)
{
    enum { NODES = 10050, TOPICS = 25, ROUNDS = 402 };
    struct sl_dataset ds;
    uint32_t last[SL_SPLIT_COUNT] = {0}, first[SL_SPLIT_COUNT], of_topic[TOPICS] = {0};
    MAKE("a", "citation", "--nodes", "10050", "--topics", "25", "--train-topics", "3",
         "--train-ratio", "0.5", "--val-ratio", "0.25", "--feat-dim", "4");
    open_dataset("a", SL_NEED_TRAINING, &ds);
    ck_assert_uint_eq(ds.n_classes, TOPICS);
    for (uint32_t v = 0; v < NODES; v++)
        of_topic[ds.label[v]]++;
    for (uint32_t topic = 0; topic < TOPICS; topic++)
        ck_assert_uint_eq(of_topic[topic], ROUNDS);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, 3 * 201);
    ck_assert_uint_eq(ds.split[SL_SPLIT_VAL].n, 3 * 101);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TEST].n, 3 * 100);
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        const struct sl_vertex_list *list = &ds.split[s];
        for (uint64_t i = 0; i < list->n; i++)
            ck_assert_int_lt(ds.label[list->ids[i]], 3);
        first[s] = list->ids[0];
        last[s] = list->ids[list->n - 1];
    }
    // In the order of time.
    ck_assert_uint_lt(last[SL_SPLIT_TRAIN], first[SL_SPLIT_VAL]);
    ck_assert_uint_lt(last[SL_SPLIT_VAL], first[SL_SPLIT_TEST]);
    sl_dataset_close(&ds);
}

TEST(newer_papers_weigh_more)
{
    struct sl_dataset ds;
    MAKE("a", "citation", "--nodes", "3200", "--topics", "4", "--feat-dim", "0", "--weights");
    open_dataset("a", SL_NEED_WEIGHTS, &ds);
    for (uint64_t e = 0; e < ds.n_edges; e++)
        ck_assert_float_eq(ds.edge_weight[e], sl_generate_year_weight(source_of(&ds, e) / 100));
    sl_dataset_close(&ds);
    MAKE("b", "citation", "--nodes", "3200", "--topics", "4", "--feat-dim", "0");
    ck_assert(!exists("b/edge_weight.npy"));
    ck_assert(same_file("a/indices.npy", "b/indices.npy"));
}

TEST(classes_group_topics)
{
    struct sl_dataset one, some;
    MAKE("a", "citation", "--nodes", "1000", "--topics", "20");
    MAKE("b", "citation", "--nodes", "1000", "--topics", "20", "--classes", "6");
    open_dataset("a", SL_NEED_TRAINING, &one);
    open_dataset("b", SL_NEED_TRAINING, &some);
    ck_assert_uint_eq(some.n_classes, 6);
    for (uint32_t v = 0; v < 1000; v++)
        ck_assert_int_eq(some.label[v], one.label[v] % 6);
    ck_assert(same_file("a/node_feat.npy", "b/node_feat.npy")); // of topics
    sl_dataset_close(&one);
    sl_dataset_close(&some);
}

TEST(citation_works_at_its_smallest)
{
    static const char *const sizes[][2] = {{"2", "1"}, {"4", "2"}, {"5", "2"}, {"40", "20"}};
    for (size_t i = 0; i < SL_COUNT_OF(sizes); i++) {
        struct sl_dataset ds;
        MAKE("a", "citation", "--force", "--nodes", sizes[i][0], "--topics", sizes[i][1],
             "--train-topics", "1", "--edges", "500", "--weights");
        open_dataset("a", SL_NEED_TRAINING | SL_NEED_WEIGHTS, &ds);
        for (uint64_t v = 0; v < ds.n_nodes; v++)
            for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++)
                ck_assert_uint_lt(source_of(&ds, e), v);
        ck_assert_uint_ge(ds.n_edges, 1);
        sl_dataset_close(&ds);
    }
}

// ---- shape: users and items ---------------------------------------------------------------------

static bool has_source(const struct sl_dataset *ds, uint32_t v, uint32_t u)
{
    for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++)
        if (source_of(ds, e) == u)
            return true;
    return false;
}

TEST(users_and_items_without_edges)
{
    struct sl_dataset ds;
    MAKE("a", "bipartite", "--users", "300", "--items", "90", "--tastes", "5");
    MAKE("b", "bipartite", "--users", "300", "--items", "90", "--tastes", "5", "--edges", "0");
    ck_assert(same_file("a/node_feat.npy", "b/node_feat.npy"));
    ck_assert(exists("a/val_edges.npy") && !exists("b/val_edges.npy"));
    open_dataset("b", SL_NEED_FEATURES, &ds);
    ck_assert_uint_eq(ds.n_nodes, 390);
    ck_assert_uint_eq(ds.n_edges, 0);
    ck_assert_uint_eq(ds.first_side, 300);
    ck_assert_uint_eq(ds.edges[SL_SPLIT_TRAIN].n, 0);
    sl_dataset_close(&ds);
}

TEST(held_out_items_are_not_in_the_graph)
{
    struct sl_dataset ds;
    MAKE("a", "bipartite", "--users", "1000", "--items", "200", "--edges", "9999", "--tastes", "20",
         "--val", "0.1", "--test", "0.2", "--feat-dim", "0");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    ck_assert_uint_eq(ds.edges[SL_SPLIT_VAL].n, 1000);
    ck_assert_uint_eq(ds.edges[SL_SPLIT_TEST].n, 2000);
    ck_assert_uint_eq(ds.edges[SL_SPLIT_TRAIN].n, 6999);
    ck_assert_uint_eq(ds.n_edges, 2 * 6999);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        for (uint64_t i = 0; i < ds.edges[s].n; i++) {
            const uint32_t *pair = ds.edges[s].ids + 2 * i;
            ck_assert_uint_lt(pair[0], 1000);
            ck_assert_uint_ge(pair[1], 1000);
            ck_assert_int_eq(has_source(&ds, pair[1], pair[0]), s == SL_SPLIT_TRAIN);
            ck_assert_int_eq(has_source(&ds, pair[0], pair[1]), s == SL_SPLIT_TRAIN);
        }
    sl_dataset_close(&ds);
}

TEST(bipartite_works_at_its_smallest)
{
    struct sl_dataset ds;
    MAKE("a", "bipartite", "--users", "1", "--items", "1", "--edges", "1", "--tastes", "1",
         "--tastes-each", "1", "--feat-dim", "1", "--truth");
    open_dataset("a", SL_NEED_FEATURES, &ds);
    ck_assert_uint_eq(ds.n_edges, 2);
    sl_dataset_close(&ds);
}

// ---- shape: planted partition -------------------------------------------------------------------

LOOP_TEST(planted_homophily_is_what_was_asked_for, 0, 4)
{
    static const char *const wanted[] = {"0", "0.3", "0.6", "1"};
    struct sl_dataset ds;
    uint64_t same = 0;
    MAKE("a", "planted", "--nodes", "20000", "--homophily", wanted[_i], "--multi-edges",
         "--feat-dim", "0");
    open_dataset("a", SL_NEED_LABELS, &ds);
    ck_assert_uint_eq(ds.n_edges, 20000 * 18);
    for (uint64_t v = 0; v < ds.n_nodes; v++)
        for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++)
            same += ds.label[v] == ds.label[source_of(&ds, e)];
    double found = (double)same / (double)ds.n_edges;
    ck_assert_msg(fabs(found - strtod(wanted[_i], NULL)) < 0.005, "wanted %s, found %.4f",
                  wanted[_i], found);
    sl_dataset_close(&ds);
}

TEST(planted_degrees_follow_a_power_law)
{
    struct sl_dataset ds;
    MAKE("a", "planted", "--nodes", "100000", "--multi-edges", "--feat-dim", "0");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    // Exponent 2.5: the number of vertices above d falls as d^-1.5, so by 2^4.5 = 22.6 from 32 to
    // 256.
    double above_32 = 0, above_256 = 0;
    for (uint64_t v = 0; v < ds.n_nodes; v++) {
        above_32 += sl_dataset_degree(&ds, v) >= 32;
        above_256 += sl_dataset_degree(&ds, v) >= 256;
    }
    ck_assert_msg(above_32 / above_256 > 17 && above_32 / above_256 < 30,
                  "%.0f above 32, %.0f above 256", above_32, above_256);
    ck_assert_uint_gt(ds.max_degree, 1000);
    sl_dataset_close(&ds);
}

TEST(planted_is_undirected_and_simple)
{
    struct sl_dataset ds;
    uint64_t forward = 0, backward = 0;
    MAKE("a", "planted", "--nodes", "3000", "--degree", "40", "--feat-dim", "0");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    for (uint64_t v = 0; v < ds.n_nodes; v++) {
        for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++) {
            uint64_t u = source_of(&ds, e);
            ck_assert_uint_ne(u, v);
            if (e > ds.indptr[v])
                ck_assert_uint_lt(source_of(&ds, e - 1), u);
            // The sum over edges of a hash of the ordered pair is the same both ways.
            forward += u * 0x9E3779B97F4A7C15u ^ v * 0xC2B2AE3D27D4EB4Fu;
            backward += v * 0x9E3779B97F4A7C15u ^ u * 0xC2B2AE3D27D4EB4Fu;
        }
    }
    ck_assert_uint_eq(forward, backward);
    sl_dataset_close(&ds);
}

TEST(planted_directed_stores_one_direction)
{
    struct sl_dataset ds;
    MAKE("a", "planted", "--nodes", "2000", "--edges", "10000", "--directed", "--multi-edges");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    ck_assert_uint_eq(ds.n_edges, 10000);
    sl_dataset_close(&ds);
}

TEST(planted_works_at_its_smallest)
{
    struct sl_dataset ds;
    MAKE("a", "planted", "--nodes", "4", "--classes", "2", "--edges", "100", "--homophily", "1",
         "--multi-edges");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    ck_assert_uint_eq(ds.n_edges, 200);
    for (uint64_t v = 0; v < 4; v++)
        for (uint64_t e = ds.indptr[v]; e < ds.indptr[v + 1]; e++)
            ck_assert_uint_ne(source_of(&ds, e), v);
    sl_dataset_close(&ds);
}

// Nearest class mean, the means taken from the training vertices: what features tell.
static double nearest_mean_accuracy(const struct sl_dataset *ds, const float *x)
{
    size_t dim = ds->feat_dim, n_right = 0;
    double *means = calloc(ds->n_classes * dim, sizeof *means);
    double *counts = calloc(ds->n_classes, sizeof *counts);
    for (uint64_t i = 0; i < ds->split[SL_SPLIT_TRAIN].n; i++) {
        uint32_t v = ds->split[SL_SPLIT_TRAIN].ids[i];
        counts[ds->label[v]]++;
        for (size_t d = 0; d < dim; d++)
            means[(size_t)ds->label[v] * dim + d] += x[v * dim + d];
    }
    for (uint64_t i = 0; i < ds->split[SL_SPLIT_VAL].n; i++) {
        uint32_t v = ds->split[SL_SPLIT_VAL].ids[i], best = 0;
        double best_distance = INFINITY;
        for (uint32_t c = 0; c < ds->n_classes; c++) {
            double distance = 0;
            for (size_t d = 0; d < dim; d++) {
                double y = x[v * dim + d] - means[c * dim + d] / counts[c];
                distance += y * y;
            }
            if (distance < best_distance) {
                best = c;
                best_distance = distance;
            }
        }
        n_right += (int32_t)best == ds->label[v];
    }
    free(means);
    free(counts);
    return (double)n_right / (double)ds->split[SL_SPLIT_VAL].n;
}

// x -> mean of x over in-neighbours.
static float *neighbour_mean(const struct sl_dataset *ds, const float *x)
{
    size_t dim = ds->feat_dim;
    float *out = calloc(ds->n_nodes * dim, sizeof *out);
    for (uint64_t v = 0; v < ds->n_nodes; v++) {
        for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++)
            for (size_t d = 0; d < dim; d++)
                out[v * dim + d] += x[source_of(ds, e) * dim + d];
        for (size_t d = 0; d < dim; d++)
            out[v * dim + d] /= (float)SL_MAX(sl_dataset_degree(ds, v), 1u);
    }
    return out;
}

TEST(citation_topics_are_learnt_better_with_structure)
{
    struct sl_dataset ds;
    MAKE("a", "citation", "--nodes", "40000", "--topics", "12", "--train-topics", "12");
    open_dataset("a", SL_NEED_TRAINING, &ds);
    float *one = neighbour_mean(&ds, ds.feat);
    double alone = nearest_mean_accuracy(&ds, ds.feat), with = nearest_mean_accuracy(&ds, one);
    ck_assert_msg(alone > 0.4 && alone < 0.62, "features alone: %.3f", alone);
    ck_assert_msg(with > 0.8, "mean over references: %.3f", with);
    free(one);
    sl_dataset_close(&ds);
}

TEST(split_has_the_sizes_asked_for_and_no_overlap)
{
    struct sl_dataset ds;
    MAKE("a", "planted", "--nodes", "1000", "--train-ratio", "0.6", "--val-ratio", "0.1");
    open_dataset("a", SL_NEED_TRAINING, &ds);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TRAIN].n, 600);
    ck_assert_uint_eq(ds.split[SL_SPLIT_VAL].n, 100);
    ck_assert_uint_eq(ds.split[SL_SPLIT_TEST].n, 300);
    bool seen[1000] = {false};
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        for (uint64_t i = 0; i < ds.split[s].n; i++) {
            ck_assert(!seen[ds.split[s].ids[i]]);
            seen[ds.split[s].ids[i]] = true;
        }
    }
    sl_dataset_close(&ds);
}

// ---- refusals -----------------------------------------------------------------------------------

static const struct {
    const char *words[8]; // a NULL ends them
    int code;
    const char *message;
} refused[] = {
    {{"planted", "--train-ratio", "0.8", "--val-ratio", "0.3"}, SL_EINVAL, "wanted at most 1"},
    {{"planted", "--nodes", "5", "--classes", "4"}, SL_EINVAL, "2 vertices each"},
    {{"planted", "--classes", "0"}, SL_EINVAL, "wanted 1 class or more"},
    {{"planted", "--edges", "5", "--degree", "3"}, SL_EINVAL, "leave one out"},
    {{"planted", "--edges", "0", "--degree", "3"}, SL_EINVAL, "leave one out"},
    {{"planted", "--homophily", "1.2"}, SL_ERANGE, "--homophily"},
    {{"planted", "--nodes", "4294967295"}, SL_ERANGE, "wanted 1 to 4294967294"},
    {{"planted", "--memory", "1000"}, SL_ERANGE, "--memory"},
    {{"planted", "--homofily", "0.5"}, SL_EINVAL, "did you mean --homophily?"},
    {{"rmat"}, SL_EINVAL, "no number of vertices given"},
    {{"rmat", "--scale", "3", "--nodes", "8"}, SL_EINVAL, "both given"},
    {{"rmat", "--scale", "3", "--a", "0.9"}, SL_EINVAL, "wanted at most 1"},
    {{"rmat", "--scale", "3", "--edges", "4", "--edge-factor", "2"}, SL_EINVAL, "leave one out"},
    {{"citation", "--topics", "5", "--train-topics", "6"}, SL_EINVAL, "no more than there are"},
    {{"citation", "--topics", "5", "--classes", "6"}, SL_EINVAL, "a class is a topic"},
    {{"citation", "--nodes", "199"}, SL_EINVAL, "2 papers a topic"},
    {{"citation", "--nodes", "1", "--topics", "1", "--train-topics", "1"}, SL_EINVAL, "2 papers"},
    {{"citation", "--edges", "5", "--avg-degree", "3"}, SL_EINVAL, "leave one out"},
    {{"citation", "--train-ratio", "0.9", "--val-ratio", "0.2"}, SL_EINVAL, "wanted at most 1"},
    {{"citation", "--exponent", "2"}, SL_ERANGE, "--exponent"},
    {{"citation", "--avg-degree", "0"}, SL_ERANGE, "--avg-degree"},
    {{"citation", "--topics", "0"}, SL_ERANGE, "--topics"},
    {{"bipartite", "--items", "0"}, SL_ERANGE, "--items"},
    {{"bipartite", "--users", "4294967294"}, SL_EINVAL, "wanted at most 4294967294 together"},
    {{"bipartite", "--items", "9"}, SL_EINVAL, "--tastes 200 of --items 9"},
    {{"bipartite", "--tastes", "2"}, SL_EINVAL, "--tastes-each 3 of --tastes 2"},
    {{"bipartite", "--edges", "7"}, SL_EINVAL, "7 edges for --users 50000"},
    {{"bipartite", "--users", "9", "--edges", "90001"}, SL_EINVAL, "only 90000 pairs"},
    {{"bipartite", "--users", "9", "--edges", "89999"}, SL_EINVAL, "than the 10000 items that"},
    {{"bipartite", "--stray", "0", "--degree", "150"}, SL_EINVAL, "150 items of a user's tastes"},
    {{"bipartite", "--val", "0.5", "--test", "0.5"}, SL_EINVAL, "as each user keeps one"},
    {{"bipartite", "--edges", "5", "--degree", "3"}, SL_EINVAL, "leave one out"},
    {{"bipartite", "--nodes", "5"}, SL_EINVAL, "--nodes"},
    {{"rmta", "--scale", "3"}, SL_EINVAL, "did you mean 'rmat'?"},
};

LOOP_TEST(bad_arguments_are_refused_before_anything_is_made, 0, SL_COUNT_OF(refused))
{
    const char *words[12] = {"generate"};
    size_t n = 1;
    for (; refused[_i].words[n - 1]; n++)
        words[n] = refused[_i].words[n - 1];
    words[n++] = "--out";
    words[n++] = in_dir("a");
    ck_assert_int_eq(run_words(&sl_command_generate, n, words), refused[_i].code);
    assert_message_has(refused[_i].message);
    ck_assert_int_eq(count_entries(), 0);
}

TEST(an_existing_data_set_is_replaced_only_by_force)
{
    MAKE("a", "rmat", "--scale", "4");
    ck_assert_int_eq(
        RUN(sl_command_generate, "generate", "rmat", "--scale", "5", "--out", in_dir("a"), "-q"),
        SL_EEXIST);
    assert_message_has("--force");
    struct sl_dataset ds;
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    ck_assert_uint_eq(ds.n_nodes, 16);
    sl_dataset_close(&ds);
    MAKE("a", "rmat", "--scale", "5", "--force");
    open_dataset("a", SL_NEED_TOPOLOGY, &ds);
    ck_assert_uint_eq(ds.n_nodes, 32);
    sl_dataset_close(&ds);
    ck_assert_int_eq(count_hidden(), 0);
}

TEST(force_does_not_remove_what_is_not_a_data_set)
{
    ck_assert_int_eq(mkdir(in_dir("a"), 0755), 0);
    write_text("a/thesis.txt", "three years");
    ck_assert_int_eq(RUN(sl_command_generate, "generate", "rmat", "--scale", "4", "--out",
                         in_dir("a"), "-q", "--force"),
                     SL_EEXIST);
    assert_message_has("is not a data set");
    ck_assert(exists("a/thesis.txt"));
    ck_assert_int_eq(count_hidden(), 0);
}

TEST(a_missing_parent_is_said)
{
    ck_assert_int_eq(
        RUN(sl_command_generate, "generate", "rmat", "--scale", "4", "--out", in_dir("no/a"), "-q"),
        SL_ENOENT);
    assert_message_has("there is no directory");
}

// ---- what fails leaves nothing ------------------------------------------------------------------

TEST(a_full_disk_leaves_nothing)
{
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){30000, 30000});
    ck_assert_int_eq(
        RUN(sl_command_generate, "generate", "rmat", "--scale", "12", "--out", in_dir("a"), "-q"),
        SL_EIO);
    ck_assert_int_eq(count_entries(), 0);
}

// A process that generates "a", and stands still in the middle of it, the more so the later.
static pid_t generate_until(const char *failpoint)
{
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        setenv("SLUICE_FAILPOINT", failpoint, 1);
        _exit(sl_exit_status(RUN(sl_command_generate, "generate", "rmat", "--scale", "12", "--out",
                                 in_dir("a"), "-q")));
    }
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert_msg(WIFSTOPPED(status), "it ended, with status %d, before %s", status, failpoint);
    ck_assert_int_eq(count_hidden(), 1);
    return pid;
}

LOOP_TEST(an_interrupt_leaves_nothing, 0, 2)
{
    static const char *const moments[] = {"command_staged:1:stop", "command_staged:4:stop"};
    pid_t pid = generate_until(moments[_i]);
    kill(pid, SIGINT);
    kill(pid, SIGCONT);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 130);
    ck_assert_int_eq(count_entries(), 0);
}

TEST(what_a_killed_process_left_is_removed_by_the_next)
{
    pid_t pid = generate_until("command_staged:1:stop");
    // While it lives its directory is locked and stays.
    MAKE("b", "rmat", "--scale", "4");
    struct sl_staging st;
    must(sl_staging_open(in_dir("a"), false, &st));
    ck_assert_int_eq(count_hidden(), 2);
    sl_staging_abort(&st);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ck_assert(!exists("a"));
    ck_assert_int_eq(count_hidden(), 1);
    MAKE("a", "rmat", "--scale", "4");
    ck_assert_int_eq(count_hidden(), 0);
    ck_assert(exists("a/metadata.json"));
}

// Another process that looks for what was left finds a directory that was made just now and is not
// locked yet: it is removing it, or has done so.
enum { SWEEPS_AND_HOLDS, SWEPT, SWEEPERS };
static int sweeps = -1, swept;

int flock(int fd, int how)
{
    char link[64], locked[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (sweeps < 0 || swept == 3 || readlink(link, locked, sizeof locked - 1) < 0)
        return (int)syscall(SYS_flock, fd, how);
    ck_assert_int_eq(rmdir(locked), 0);
    swept++;
    if (sweeps == SWEPT)
        return (int)syscall(SYS_flock, fd, how);
    errno = EWOULDBLOCK;
    return -1;
}

LOOP_TEST(a_directory_that_is_swept_before_it_is_locked_is_made_again, 0, SWEEPERS)
{
    struct sl_staging st;
    sweeps = _i;
    must(sl_staging_open(in_dir("a"), false, &st));
    ck_assert_int_eq(swept, 3);
    ck_assert_int_eq(access(st.dir, F_OK), 0);
    ck_assert_int_eq(count_hidden(), 1);
    sl_staging_abort(&st);
    ck_assert_int_eq(count_hidden(), 0);
}

// ---- the estimate of a batch --------------------------------------------------------------------

TEST(an_estimate_with_all_neighbours_counts_exactly)
{
    struct sl_dataset ds;
    struct sl_batch_estimate e = {.batch_size = 100};
    tiny_begin(); // 5 vertices, 7 edges
    must(sl_dataset_open(dir, SL_NEED_TOPOLOGY, SL_CHECK_FULL, 1, &ds));
    must(sl_batch_estimate_parse("inspect", "-1,-1", &e));
    must(sl_batch_estimate_run(&ds, 1, &e));
    // Training vertices 3 and 1 have the in-neighbours {0} and {0, 2, 3}: 4 edges, inputs 0 to 3.
    // The second hop adds those of 0 (none) and 2 (1 and 3): 4 + 6 edges.
    ck_assert(e.edges == 10 && e.input_nodes == 4);
    ck_assert(e.feature_bytes == 4 * 3 * 4);
    ck_assert(e.block_bytes == 4 * (2 * 4 + 2 + 4 + 10));
    must(sl_batch_estimate_parse("inspect", "1", &e));
    must(sl_batch_estimate_run(&ds, 1, &e));
    ck_assert(e.edges == 2);
    sl_dataset_close(&ds);
}

TEST(a_malformed_fanout_is_refused)
{
    static const char *const bad[] = {"", "5,", "5,,5", "0", "-2", "a", "1,2,3,4,5,6,7,8,9", "5 5"};
    struct sl_batch_estimate e = {0};
    for (size_t i = 0; i < SL_COUNT_OF(bad); i++) {
        ck_assert_msg(sl_batch_estimate_parse("inspect", bad[i], &e) == SL_EINVAL, "'%s'", bad[i]);
        assert_message_has("wanted 1 to 8 numbers");
    }
    must(sl_batch_estimate_parse("inspect", "15,-1", &e));
    ck_assert(e.n_hops == 2 && e.fanout[0] == 15 && e.fanout[1] == -1);
}

TEST(the_summary_is_json_when_asked)
{
    capture_begin();
    MAKE("d", "planted", "--nodes", "1000", "--feat-dim", "3", "-o", "json");
    char *text = capture_end();
    cJSON *made = cJSON_Parse(text);
    ck_assert_msg(made != NULL, "no JSON: %s", text);
    const cJSON *metadata = cJSON_GetObjectItem(made, "metadata");
    ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(made, "schema")), "sluice.made/1");
    ck_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(made, "directory")), in_dir("d"));
    ck_assert_double_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(metadata, "num_nodes")), 1000);
    ck_assert_double_gt(cJSON_GetNumberValue(cJSON_GetObjectItem(made, "bytes")), 3 * 4 * 1000);
    cJSON_Delete(made);
    free(text);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
