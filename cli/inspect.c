// `sluice inspect`: validates a data set and describes it, and what a batch of it costs.
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/utf8.h"
#include "common/data/dataset.h"
#include "common/data/features_kind.h"
#include "common/data/names.h"
#include "common/data/dataset_files.h"
#include "common/data/npy.h"
#include "common/data/overlap.h"
#include "dataset/batch_estimate.h"
#include "dataset/pair_audit.h"
#include "cli/command.h"
#include "cli/dataset_command.h"
#include "cli/inspect_labels.h"
#include "cli/inspect_types.h"
#include "cli/output.h"
#include "common/text/table.h"
#include "common/text/units.h"

enum { DEGREE_BINS = 66, HISTOGRAM_COLUMNS = 40 };

#define ESTIMATE_EDGES UINT64_C(5000000)

static const char *const split_names[SL_SPLIT_COUNT] = {"train", "validation", "test"};
static const char *const split_keys[SL_SPLIT_COUNT] = {"train", "val", "test"};

struct inspection {
    const char *path, *fanout;
    int output;
    bool full;
    struct sl_dataset ds;
    double open_seconds;
    // In-degrees: bin 0 holds degree 0, bin b degrees of 2^(b-1) to 2^b - 1.
    uint64_t bins[DEGREE_BINS];
    uint32_t n_bins;
    uint64_t min_degree, max_degree;
    double min_weight, mean_weight, max_weight; // where edges have weights
    uint64_t n_within; // edges of a graph of two sides that join vertices of one
    struct sl_label_summary labels;
    struct sl_types_summary types;
    struct sl_batch_estimate batch;
    struct sl_pair_audit pairs[SL_SPLIT_COUNT];
    struct sl_overlaps overlaps;               // of a data set that says that there may be some
    struct sl_names vertex_names, class_names; // n 0: it has none
    char no_edge_features[512];                // why none of those that lie there can be used
    char no_times[512];                        // of a file that is of no relation, likewise
};

// ---- looking ------------------------------------------------------------------------------------

static void count_degrees(struct inspection *in)
{
    const struct sl_dataset *ds = &in->ds;
    const uint64_t n = sl_dataset_lists(ds);
    in->min_degree = n ? UINT64_MAX : 0;
    for (uint64_t v = 0; v < n; v++) {
        uint64_t d = sl_dataset_degree(ds, v);
        in->min_degree = SL_MIN(in->min_degree, d);
        in->max_degree = SL_MAX(in->max_degree, d);
        in->bins[d ? 64 - __builtin_clzll(d) : 0]++;
    }
    for (uint32_t b = 0; b < DEGREE_BINS; b++)
        if (in->bins[b])
            in->n_bins = b + 1;
}

static void count_weights(struct inspection *in)
{
    const struct sl_dataset *ds = &in->ds;
    double sum = 0;
    if (!ds->edge_weight || ds->n_edges == 0)
        return;
    in->min_weight = in->max_weight = (double)ds->edge_weight[0];
    for (uint64_t v = 0; v < sl_dataset_lists(ds); v++) {
        double of_vertex = 0;
        for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++) {
            double w = (double)ds->edge_weight[e] + 0.0; // makes -0 a 0
            in->min_weight = SL_MIN(in->min_weight, w);
            in->max_weight = SL_MAX(in->max_weight, w);
            of_vertex += w;
        }
        sum += of_vertex;
    }
    in->mean_weight = sum / (double)ds->n_edges;
}

static void count_within(struct inspection *in)
{
    const struct sl_dataset *ds = &in->ds;
    for (uint64_t v = 0; ds->first_side && v < ds->n_nodes; v++)
        for (uint64_t e = ds->indptr[v]; e < ds->indptr[v + 1]; e++)
            in->n_within += (v < ds->first_side) == (sl_dataset_source(ds, e) < ds->first_side);
}

static int find_overlaps(struct inspection *in)
{
    const struct sl_dataset *ds = &in->ds;
    struct sl_overlap_list list[SL_SPLIT_COUNT];
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        list[s] = (struct sl_overlap_list){ds->split[s].ids, SL_DTYPE_U32, ds->split[s].n};
    return ds->may_overlap ? sl_overlaps_find(list, sl_dataset_labelled(ds), 0, &in->overlaps)
                           : SL_OK;
}

static double mean_degree(const struct inspection *in)
{
    const uint64_t n = sl_dataset_lists(&in->ds);
    return n ? (double)in->ds.n_edges / (double)n : 0;
}

// Calls show() for each file of the data set's directory, by name.
static uint64_t each_file(const struct inspection *in,
                          void (*show)(void *to, const char *name, uint64_t bytes), void *to)
{
    struct dirent **entries;
    uint64_t sum = 0;
    int n = scandir(in->ds.path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[4400];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", in->ds.path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            sum += (uint64_t)st.st_size;
            show(to, entries[i]->d_name, (uint64_t)st.st_size);
        }
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return sum;
}

// ---- text ---------------------------------------------------------------------------------------

static void show_file(void *to, const char *name, uint64_t bytes)
{
    char a[SL_UNITS_BYTES];
    sl_table_row(to, "  %s|%s", name, sl_units_bytes(a, bytes));
}

static int open_names(const struct sl_dataset *ds, const char *what, uint64_t n,
                      struct sl_names *out)
{
    int rc = n ? sl_names_open(ds->path, what, n, out) : SL_ENOENT;
    return rc == SL_ENOENT ? SL_OK : rc < 0 ? rc : sl_names_check(out);
}

// The first and the last of the names.
static void show_names(struct sl_table *t, const char *row, const struct sl_names *names)
{
    char shown[2][48];
    for (int i = 0; i < 2 && names->n; i++) {
        const char *text = "";
        size_t n = 0;
        sl_names_get(names, i ? names->n - 1 : 0, &text, &n); // was checked
        snprintf(shown[i], sizeof shown[i], "%.*s", (int)SL_MIN(n, sizeof shown[i] - 1), text);
        for (char *p = shown[i]; *p; p++)
            *p = *p == '|' ? '?' : *p;
        sl_utf8_clean(shown[i]);
    }
    if (names->n)
        sl_table_row(t, "%s|from '%s' to '%s'", row, shown[0], shown[1]);
}

static void show_sides(struct sl_table *t, const struct inspection *in)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    if (in->ds.first_side)
        sl_table_row(t, "sides|%s vertices, then %s; %s edges within a side",
                     sl_units_grouped(a, in->ds.first_side),
                     sl_units_grouped(b, in->ds.n_nodes - in->ds.first_side),
                     sl_units_grouped(c, in->n_within));
}

// Pairs that models of links learn and are judged by.
static void show_pairs(const struct inspection *in, int s, struct sl_table *t)
{
    char a[SL_UNITS_BYTES];
    const struct sl_pair_list *list = &in->ds.edges[s];
    const struct sl_negatives *neg = &in->ds.negatives[s];
    const struct sl_pair_audit *found = &in->pairs[s];
    if (list->ids)
        sl_table_row(t, "%s edges|%s pairs%s", split_names[s], sl_units_grouped(a, list->n),
                     list->weight ? ", with weights" : "");
    if (found->n_repeated)
        sl_table_row(t, "|%s stand there before", sl_units_grouped(a, found->n_repeated));
    if (found->n_loops)
        sl_table_row(t, "|%s of a vertex and itself", sl_units_grouped(a, found->n_loops));
    if (found->n_in_graph)
        sl_table_row(t, "|%s are edges of the graph: a model sees what it is judged by",
                     sl_units_grouped(a, found->n_in_graph));
    if (found->n_in_train)
        sl_table_row(t, "|%s are in train_edges.npy, or their reverses are",
                     sl_units_grouped(a, found->n_in_train));
    if (neg->ids && neg->per_positive)
        sl_table_row(t, "%s negatives|%" PRIu32 " targets for each edge", split_names[s],
                     neg->per_positive);
    else if (neg->ids)
        sl_table_row(t, "%s negatives|%s pairs", split_names[s], sl_units_grouped(a, neg->n));
}

// One whose name begins so.
static bool has_file(const struct sl_dataset *ds, const char *name)
{
    struct sl_dataset_part parts[SL_DATASET_PARTS_MAX];
    const uint32_t n = sl_dataset_parts(ds, parts);
    for (uint32_t i = 0; i < n; i++)
        if (strncmp(parts[i].name, name, strlen(name)) == 0)
            return true;
    return false;
}

static void show_times(struct sl_table *t, const struct sl_dataset *ds)
{
    const bool edges = has_file(ds, "edge_time."), nodes = has_file(ds, "node_time.npy");
    if (edges || nodes)
        sl_table_row(t, "times|%s%s%s",
                     !edges           ? ""
                     : ds->times_rise ? "of edges, rising in each list"
                                      : "of edges, but no whole numbers that rise in each list, as "
                                        "sampler.time needs them",
                     edges && nodes ? "; " : "", nodes ? "of vertices" : "");
}

static void show_stripes(struct sl_table *t, const struct sl_dataset *ds)
{
    char a[SL_UNITS_BYTES], head[SL_TYPE_NAME_BYTES + 24];
    for (uint32_t r = 0; r < ds->files->n_ranges; r++) {
        const struct sl_stripes *s = sl_dataset_stripes(ds->files, r);
        snprintf(head, sizeof head, "  %s%sin turns from",
                 ds->typed.n_types ? ds->typed.type[r].name : "", ds->typed.n_types ? " " : "");
        for (uint32_t i = 0; s && i < s->n; i++)
            sl_table_row(t, "%s|%s, %s", i ? "" : head, s->file[i].path,
                         sl_units_bytes(a, s->file[i].id.bytes));
    }
}

static void print_overview(const struct inspection *in)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], text[SL_OVERLAP_TEXT_BYTES];
    const struct sl_dataset *ds = &in->ds;
    struct sl_table t;
    sl_table_init(&t, "l l", NULL);
    sl_table_row(&t, "name|%s", ds->name);
    sl_table_row(&t, "validated|%s in %s", ds->validated_now ? "now" : "before; opened again",
                 sl_units_seconds(a, in->open_seconds));
    if (ds->feat_checked < sl_features_bytes(ds))
        sl_table_row(&t, "|of the features %s of %s, a sample: --full checks all",
                     sl_units_bytes(a, ds->feat_checked), sl_units_bytes(b, sl_features_bytes(ds)));
    sl_table_row(&t, "vertices|%s", sl_units_grouped(a, ds->n_nodes));
    show_sides(&t, in);
    sl_table_row(&t, "edges|%s%s", sl_units_grouped(a, ds->n_edges),
                 ds->edge_weight ? ", with weights" : "");
    if (ds->edge_weight)
        sl_table_row(&t,
                     "weights|min %g, mean %.4g, max %g, %s vertices whose edges weigh nothing, %s "
                     "edges of weight 0",
                     in->min_weight, in->mean_weight, in->max_weight,
                     sl_units_grouped(a, ds->weightless_vertices),
                     sl_units_grouped(b, ds->weightless_edges));
    show_times(&t, ds);
    sl_table_row(&t, "in-degree|min %s, mean %.1f, max %s, %s %s without",
                 sl_units_grouped(a, in->min_degree), mean_degree(in),
                 sl_units_grouped(b, in->max_degree),
                 sl_units_grouped((char[SL_UNITS_BYTES]){0}, in->bins[0]),
                 ds->typed.n_types ? "rows" : "vertices");
    if (ds->typed.n_types)
        sl_table_row(&t, "types|%" PRIu32 " of vertices, %" PRIu32 " relations of %s rows",
                     ds->typed.n_types, ds->typed.n_relations,
                     sl_units_grouped(a, ds->typed.n_rows));
    else if (ds->feat)
        sl_table_row(&t, "features|%" PRIu32 " x %s, %s a vertex", ds->feat_dim,
                     sl_npy_dtype_name(ds->feat_dtype),
                     sl_units_bytes(a, ds->feat_dim * sl_dtype_bytes(ds->feat_dtype)));
    else
        sl_table_row(&t, "features|none");
    if (ds->typed.plain.feat)
        sl_table_row(&t, "of edges|%" PRIu32 " x %s, %s", ds->typed.plain.feat_dim,
                     sl_npy_dtype_name(ds->typed.plain.feat_dtype),
                     sl_units_bytes(a, sl_relation_feature_bytes(&ds->typed.plain)));
    if (ds->shard.count)
        sl_table_row(&t, "shard|%u of %u (the first is 0): features of %s vertices, %.1f %%",
                     ds->shard.index, ds->shard.count, sl_units_grouped(a, ds->shard.n_local),
                     100.0 * (double)ds->shard.n_local / (double)SL_MAX(ds->n_nodes, 1u));
    if (ds->shard.count)
        sl_table_row(&t, "|of %016" PRIx64 "%s%s, all of its shards have digest %016" PRIx64,
                     ds->shard.whole, ds->files->whole ? ", " : "",
                     ds->files->whole ? ds->files->whole : "", ds->shard.digest);
    show_stripes(&t, ds);
    sl_label_summary_row(&in->labels, &t);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        if (ds->split[s].n)
            sl_table_row(&t, "%s|%s vertices, %.1f %%", split_names[s],
                         sl_units_grouped(a, ds->split[s].n),
                         100.0 * (double)ds->split[s].n / (double)sl_dataset_labelled(ds));
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        show_pairs(in, s, &t);
    for (uint32_t i = 0; i < in->overlaps.n; i++)
        sl_table_row(&t, "%s|%s and %s share %s", i ? "" : "overlap",
                     split_names[in->overlaps.pair[i].a], split_names[in->overlaps.pair[i].b],
                     sl_overlap_text(&in->overlaps.pair[i].of, text));
    show_names(&t, "vertex names", &in->vertex_names);
    show_names(&t, "class names", &in->class_names);
    if (ds->vertex_map)
        sl_table_row(&t, "order|changed: vertex_map.npy has the ids from before");
    sl_table_row(&t, "digest|%016" PRIx64, ds->digest);
    sl_table_row(&t, "files|");
    uint64_t sum = each_file(in, show_file, &t);
    sl_table_row(&t, "  together|%s", sl_units_bytes(a, sum));
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
    if (in->no_edge_features[0])
        printf("\nNo model can read the features of edges: %s\n", in->no_edge_features);
    if (in->no_times[0])
        printf("\nNo job can sample by time: %s\n", in->no_times);
}

static void print_degrees(const struct inspection *in)
{
    char a[SL_UNITS_BYTES], from[SL_UNITS_BYTES], to[SL_UNITS_BYTES];
    char bar[HISTOGRAM_COLUMNS + 1];
    uint64_t largest = 1;
    struct sl_table t;
    for (uint32_t b = 0; b < in->n_bins; b++)
        largest = SL_MAX(largest, in->bins[b]);
    sl_table_init(
        &t, "r r r l",
        (const char *[]){"in-degree", in->ds.typed.n_types ? "rows" : "vertices", "share", ""});
    for (uint32_t b = 0; b < in->n_bins; b++) {
        int n = (int)ceil((double)in->bins[b] / (double)largest * HISTOGRAM_COLUMNS);
        memset(bar, '#', (size_t)n);
        bar[n] = '\0';
        uint64_t low = b ? UINT64_C(1) << (b - 1) : 0;
        uint64_t high = b ? low * 2 - 1 : 0;
        sl_units_grouped(from, low);
        sl_units_grouped(to, high);
        sl_table_row(&t, "%s%s%s|%s|%.1f %%|%s", from, high > low ? " - " : "",
                     high > low ? to : "", sl_units_grouped(a, in->bins[b]),
                     100.0 * (double)in->bins[b] / (double)SL_MAX(sl_dataset_lists(&in->ds), 1u),
                     bar);
    }
    printf("\n");
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
}

static void print_batch(const struct inspection *in)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct sl_batch_estimate *e = &in->batch;
    if (e->n_batches == 0)
        return;
    printf("\nA batch of %" PRIu64 " with fanout ", e->batch_size);
    for (uint32_t i = 0; i < e->n_hops; i++)
        printf("%s%" PRId64, i ? "," : "", e->fanout[i]);
    printf(" (mean of %" PRIu32 " drawn): %s edges, %s input vertices (%.1f %% of all),\n"
           "a block of %s",
           e->n_batches, sl_units_grouped(a, (uint64_t)e->edges),
           sl_units_grouped(b, (uint64_t)e->input_nodes),
           100 * e->input_nodes / (double)in->ds.n_nodes,
           sl_units_bytes((char[SL_UNITS_BYTES]){0}, e->block_bytes));
    if (in->ds.feat)
        printf(" and %s of features", sl_units_bytes(a, e->feature_bytes));
    printf(".\n");
}

// ---- JSON ---------------------------------------------------------------------------------------

static void show_file_json(void *to, const char *name, uint64_t bytes)
{
    cJSON_AddNumberToObject(to, name, (double)bytes);
}

static void add_batch(cJSON *root, const struct inspection *in)
{
    const struct sl_batch_estimate *e = &in->batch;
    cJSON *batch = cJSON_AddObjectToObject(root, "batch");
    cJSON *fanout = cJSON_AddArrayToObject(batch, "fanout");
    for (uint32_t i = 0; i < e->n_hops; i++)
        cJSON_AddItemToArray(fanout, cJSON_CreateNumber((double)e->fanout[i]));
    cJSON_AddNumberToObject(batch, "batch_size", (double)e->batch_size);
    cJSON_AddNumberToObject(batch, "drawn", e->n_batches);
    cJSON_AddNumberToObject(batch, "edges", e->edges);
    cJSON_AddNumberToObject(batch, "input_nodes", e->input_nodes);
    cJSON_AddNumberToObject(batch, "block_bytes", e->block_bytes);
    cJSON_AddNumberToObject(batch, "feature_bytes", e->feature_bytes);
}

static void add_digest(cJSON *to, const char *key, uint64_t digest)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    cJSON_AddStringToObject(to, key, text);
}

static void add_shard(cJSON *root, const struct sl_dataset *ds)
{
    const struct sl_shard *s = &ds->shard;
    if (s->count == 0)
        return;
    cJSON *shard = cJSON_AddObjectToObject(root, "shard");
    cJSON_AddNumberToObject(shard, "index", s->index);
    cJSON_AddNumberToObject(shard, "count", s->count);
    cJSON_AddNumberToObject(shard, "rows", (double)s->n_local);
    add_digest(shard, "whole", s->whole);
    add_digest(shard, "digest", s->digest);
}

static void add_pairs(cJSON *root, const struct inspection *in)
{
    cJSON *edges = cJSON_AddObjectToObject(root, "edges");
    cJSON *found = cJSON_AddObjectToObject(root, "edges_found");
    cJSON *negatives = cJSON_AddObjectToObject(root, "negatives");
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        const struct sl_pair_list *list = &in->ds.edges[s];
        const struct sl_negatives *neg = &in->ds.negatives[s];
        if (list->ids) {
            cJSON_AddNumberToObject(edges, split_keys[s], (double)list->n);
            cJSON *o = cJSON_AddObjectToObject(found, split_keys[s]);
            cJSON_AddBoolToObject(o, "weights", list->weight != NULL);
            cJSON_AddNumberToObject(o, "repeated", (double)in->pairs[s].n_repeated);
            cJSON_AddNumberToObject(o, "loops", (double)in->pairs[s].n_loops);
            cJSON_AddNumberToObject(o, "in_graph", (double)in->pairs[s].n_in_graph);
            cJSON_AddNumberToObject(o, "in_train", (double)in->pairs[s].n_in_train);
        }
        if (neg->ids) {
            cJSON *o = cJSON_AddObjectToObject(negatives, split_keys[s]);
            cJSON_AddNumberToObject(o, "pairs", (double)neg->n);
            cJSON_AddNumberToObject(o, "per_positive", neg->per_positive);
        }
    }
}

static void add_sides(cJSON *root, const struct inspection *in)
{
    if (in->ds.first_side == 0)
        return;
    cJSON *sides = cJSON_AddObjectToObject(root, "sides");
    cJSON_AddNumberToObject(sides, "first", (double)in->ds.first_side);
    cJSON_AddNumberToObject(sides, "second", (double)(in->ds.n_nodes - in->ds.first_side));
    cJSON_AddNumberToObject(sides, "edges_within", (double)in->n_within);
}

static cJSON *to_json(const struct inspection *in)
{
    const struct sl_dataset *ds = &in->ds;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "sluice.inspect/1");
    cJSON_AddStringToObject(root, "path", ds->path);
    cJSON_AddStringToObject(root, "name", ds->name);
    add_digest(root, "digest", ds->digest);
    cJSON_AddBoolToObject(root, "validated_now", ds->validated_now);
    cJSON_AddNumberToObject(root, "feature_bytes_checked", (double)ds->feat_checked);
    cJSON_AddBoolToObject(root, "reordered", ds->vertex_map != NULL);
    cJSON_AddBoolToObject(root, "vertex_names", in->vertex_names.n > 0);
    cJSON_AddBoolToObject(root, "class_names", in->class_names.n > 0);
    cJSON_AddNumberToObject(root, "open_seconds", in->open_seconds);
    cJSON_AddNumberToObject(root, "num_nodes", (double)ds->n_nodes);
    cJSON_AddNumberToObject(root, "num_edges", (double)ds->n_edges);
    cJSON_AddBoolToObject(root, "edge_weight", ds->edge_weight != NULL);
    if (ds->edge_weight) {
        cJSON *weights = cJSON_AddObjectToObject(root, "edge_weights");
        cJSON_AddNumberToObject(weights, "min", in->min_weight);
        cJSON_AddNumberToObject(weights, "mean", in->mean_weight);
        cJSON_AddNumberToObject(weights, "max", in->max_weight);
        cJSON_AddNumberToObject(weights, "weightless_edges", (double)ds->weightless_edges);
        cJSON_AddNumberToObject(weights, "weightless_vertices", (double)ds->weightless_vertices);
    }
    cJSON_AddBoolToObject(root, "edge_time", has_file(ds, "edge_time."));
    cJSON_AddBoolToObject(root, "edge_times_rise", ds->times_rise);
    cJSON_AddBoolToObject(root, "node_time", has_file(ds, "node_time.npy"));
    cJSON *degree = cJSON_AddObjectToObject(root, "in_degree");
    cJSON_AddNumberToObject(degree, "min", (double)in->min_degree);
    cJSON_AddNumberToObject(degree, "mean", mean_degree(in));
    cJSON_AddNumberToObject(degree, "max", (double)in->max_degree);
    cJSON_AddNumberToObject(degree, "zero", (double)in->bins[0]);
    cJSON *histogram = cJSON_AddArrayToObject(degree, "histogram");
    for (uint32_t b = 0; b < in->n_bins; b++) {
        cJSON *bin = cJSON_CreateObject();
        cJSON_AddNumberToObject(bin, "from", b ? ldexp(1, (int)b - 1) : 0);
        cJSON_AddNumberToObject(bin, "count", (double)in->bins[b]);
        cJSON_AddItemToArray(histogram, bin);
    }
    cJSON_AddNumberToObject(root, "feat_dim", ds->feat_dim);
    if (ds->feat)
        cJSON_AddStringToObject(root, "feat_dtype", sl_npy_dtype_name(ds->feat_dtype));
    if (ds->typed.plain.feat) {
        cJSON_AddNumberToObject(root, "edge_feat_dim", ds->typed.plain.feat_dim);
        cJSON_AddStringToObject(root, "edge_feat_dtype",
                                sl_npy_dtype_name(ds->typed.plain.feat_dtype));
        cJSON_AddNumberToObject(root, "edge_feature_bytes",
                                (double)sl_relation_feature_bytes(&ds->typed.plain));
    }
    if (in->no_edge_features[0])
        cJSON_AddStringToObject(root, "no_edge_features", in->no_edge_features);
    if (in->no_times[0])
        cJSON_AddStringToObject(root, "no_times", in->no_times);
    add_sides(root, in);
    sl_types_summary_to_json(&in->types, root);
    add_shard(root, ds);
    cJSON_AddNumberToObject(root, "num_classes", ds->n_classes);
    sl_label_summary_to_json(&in->labels, root);
    cJSON *split = cJSON_AddObjectToObject(root, "split");
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        cJSON_AddNumberToObject(split, split_keys[s], (double)ds->split[s].n);
    add_pairs(root, in);
    cJSON *overlap = cJSON_AddObjectToObject(root, "overlap");
    for (uint32_t i = 0; i < in->overlaps.n; i++) {
        char pair[16];
        snprintf(pair, sizeof pair, "%s_%s", split_keys[in->overlaps.pair[i].a],
                 split_keys[in->overlaps.pair[i].b]);
        cJSON_AddNumberToObject(overlap, pair, (double)in->overlaps.pair[i].of.n);
    }
    cJSON *files = cJSON_AddObjectToObject(root, "files");
    uint64_t sum = each_file(in, show_file_json, files);
    cJSON_AddNumberToObject(root, "bytes", (double)sum);
    if (in->batch.n_batches)
        add_batch(root, in);
    return root;
}

// ---- the command --------------------------------------------------------------------------------

// Whether there may be features of edges, by the names of files.
static bool may_have_edge_features(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *e;
    bool has = false;
    while (folder && !has && (e = readdir(folder)))
        has = strncmp(e->d_name, "edge_feat.", strlen("edge_feat.")) == 0;
    if (folder)
        closedir(folder);
    return has;
}

// A job that reads no features of edges does not look at their files, so they are no reason to
// refuse the data set.
static int open_all(struct inspection *in)
{
    const unsigned need = SL_NEED_TOPOLOGY | SL_TAKES_SHARD;
    const enum sl_dataset_check check = in->full ? SL_CHECK_FULL : SL_CHECK_CACHED;
    int rc = SL_ENOENT; // a file of such a name may be of no relation
    if (may_have_edge_features(in->path))
        rc = sl_dataset_check_open(in->path, need | SL_NEED_EDGE_FEATURES, check, false, &in->ds);
    if (rc >= 0)
        return rc;
    if (rc != SL_ENOENT)
        snprintf(in->no_edge_features, sizeof in->no_edge_features, "%s", sl_error_message());
    return sl_dataset_check_open(in->path, need, check, false, &in->ds);
}

static int inspect(void *state)
{
    struct inspection *in = state;
    SL_TRY(sl_batch_estimate_parse("inspect", in->fanout, &in->batch));
    uint64_t begin = sl_now_ns();
    SL_TRY(open_all(in));
    in->open_seconds = (double)(sl_now_ns() - begin) * 1e-9;
    if (in->ds.typed.n_types &&
        sl_dataset_refuse_strays(&in->ds, "edge_time", sl_dataset_time_file(&in->ds, 0)) < 0)
        snprintf(in->no_times, sizeof in->no_times, "%s", sl_error_message());
    SL_TRY(open_names(&in->ds, SL_NAMES_VERTEX, in->ds.n_nodes, &in->vertex_names));
    SL_TRY(open_names(&in->ds, SL_NAMES_CLASS, in->ds.n_classes, &in->class_names));
    count_degrees(in);
    count_weights(in);
    count_within(in);
    SL_TRY(find_overlaps(in));
    SL_TRY(sl_types_summary_make(&in->types, &in->ds));
    SL_TRY(sl_label_summary_make(&in->labels, &in->ds));
    // These go by the list of all sources of a vertex, which a graph of several types has not.
    const bool plain = in->ds.typed.n_types == 0;
    for (int s = 0; s < SL_SPLIT_COUNT && plain; s++)
        SL_TRY(sl_pair_audit_run(&in->ds, (enum sl_split)s, &in->pairs[s]));
    if (plain)
        SL_TRY(sl_batch_estimate_run(&in->ds, ESTIMATE_EDGES, &in->batch));
    if (in->output == SL_OUTPUT_JSON)
        return sl_output_json_pages(to_json(in), "inspect");
    print_overview(in);
    sl_types_summary_print(&in->types);
    print_degrees(in);
    sl_label_summary_print(&in->labels);
    print_batch(in);
    return SL_EXIT_OK;
}

static void release(void *state)
{
    struct inspection *in = state;
    sl_dataset_close(&in->ds);
    sl_names_close(&in->vertex_names);
    sl_names_close(&in->class_names);
    sl_label_summary_fini(&in->labels);
    sl_types_summary_fini(&in->types);
}

#define AT(kind, field) SL_OPTION_AT(kind, inspection, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "output", .letter = 'o', AT(CHOICE, output), .choices = sl_output_names,
     .help = "how to print"},
    {.name = "full", AT(FLAG, full),
     .help = "check all again: of features larger than 1 GiB it is a sample otherwise"},
    {.name = "fanout", AT(TEXT, fanout), .placeholder = "LIST",
     .help = "of the batch that is estimated; -1 takes all neighbours"},
    {.name = "batch-size", AT(UINT, batch.batch_size), .placeholder = "N", .min = 1, .max = 1e9,
     .help = "seeds of that batch"},
    {0},
};
// clang-format on

const struct sl_command sl_command_inspect = {
    .name = "inspect",
    .help = "validate and describe a data set",
    .about = "Validates a data set directory and describes it: sizes, degrees, classes, split, "
             "and what a mini-batch of it looks like. A validation that passed is remembered, "
             "so the next start is quick.",
    .example = "sluice inspect data/planted\n"
               "sluice inspect data/planted -o json --fanout 10,10 --batch-size 512",
    .operands = {{"DIR", offsetof(struct inspection, path)}},
    .options = {{options}},
    .bytes = sizeof(struct inspection),
    .defaults = &(const struct inspection){.fanout = "15,10,5", .batch = {.batch_size = 1024}},
    .run = inspect,
    .fini = release,
};
