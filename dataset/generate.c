/*
 * From a generator's functions to a data set directory.
 *
 *   edge numbers -> threads draw chunks -> edge_sort -> csc_writer -> indptr, indices
 *   vertices     -> threads fill blocks -> npy writers -> features, labels; then the split
 *
 * Memory: edges are sorted within --memory (spilled to the output's file system beyond that),
 * vertex data goes through one block buffer. Nothing here is proportional to vertices or edges.
 */
#include "dataset/generate.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/json_print.h"
#include "common/data/npy.h"
#include "dataset/edge_sort.h"
#include "dataset/metadata.h"
#include "common/base/threads.h"
#include "common/text/units.h"
#include "dataset/permutation.h"
#include "dataset/split_writer.h"

enum { EDGES_PER_CHUNK = 16384, VERTICES_PER_TICK = 65536 };

const struct sl_generator_kind *const sl_generator_kinds[] = {
    &sl_generate_bipartite, &sl_generate_citation, &sl_generate_planted,
    &sl_generate_rmat,      &sl_generate_typed,
};
const size_t sl_generator_n_kinds = SL_COUNT_OF(sl_generator_kinds);

int sl_generate_init(struct sl_generate *run, const struct sl_generator_kind *kind)
{
    *run = (struct sl_generate){
        .kind = kind,
        .seed = 1,
        .memory_bytes = UINT64_C(1) << 30,
        .feat_dim = 64,
        .classes = 12,
        .train_ratio = 0.5,
        .val_ratio = 0.25,
        .context = calloc(1, kind->context_bytes),
    };
    if (!run->context)
        return sl_fail(SL_ENOMEM, "generate %s: no memory", kind->name);
    kind->defaults(run, run->context);
    return SL_OK;
}

void sl_generate_fini(struct sl_generate *run)
{
    if (run->context && run->kind->close)
        run->kind->close(run->context);
    free(run->context);
    sl_dataset_builder_fini(&run->making);
}

// ---- options ------------------------------------------------------------------------------------

int sl_generate_check_edges(const struct sl_generate *run, const char *option, bool given)
{
    if (run->edges_given && given)
        return sl_fail(SL_EINVAL, "generate %s: --edges and --%s both given: leave one out",
                       run->kind->name, option);
    return SL_OK;
}

uint64_t sl_generate_n_edges(const struct sl_generate *run, double wanted)
{
    return run->edges_given ? run->edges : (uint64_t)SL_MAX(llround(wanted), 1ll);
}

// ---- weights ------------------------------------------------------------------------------------

float sl_generate_year_weight(uint32_t year)
{
    static const float quarters[4] = {1, 1.18920711f, 1.41421356f, 1.68179283f}; // 2^(i / 4)
    return ldexpf(quarters[year % 4], (int)(year / 4));
}

// ---- edges --------------------------------------------------------------------------------------

struct edge_work {
    struct sl_generate *run;
    struct sl_edge_sort *sort;
    _Atomic uint64_t next; // first edge that nobody has taken
    _Atomic bool failed;
};

static int draw_lane(void *context, int lane)
{
    struct edge_work *w = context;
    const struct sl_generator *g = &w->run->generator;
    size_t ways = g->both_ways ? 2 : 1;
    uint64_t *keys = malloc(EDGES_PER_CHUNK * ways * sizeof *keys);
    if (!keys)
        return sl_fail(SL_ENOMEM, "generate %s: no memory", w->run->kind->name);
    int rc = SL_OK;
    while (rc == SL_OK && !atomic_load_explicit(&w->failed, memory_order_relaxed)) {
        uint64_t first = atomic_fetch_add(&w->next, EDGES_PER_CHUNK);
        if (first >= g->n_edges)
            break;
        size_t n = (size_t)SL_MIN((uint64_t)EDGES_PER_CHUNK, g->n_edges - first);
        g->draw_edges(w->run->context, first, n, keys);
        rc = sl_edge_sort_add(w->sort, lane, keys, NULL, n * ways);
        if (rc == SL_OK)
            rc = sl_interrupt_check();
        sl_progress_add(&w->run->making.progress, n);
    }
    if (rc < 0)
        atomic_store(&w->failed, true);
    free(keys);
    return rc;
}

static int make_topology(struct sl_generate *run, int threads)
{
    const struct sl_generator *g = &run->generator;
    struct sl_progress *progress = &run->making.progress;
    struct edge_work work = {.run = run};
    // A lane needs a few thousand edges to be worth anything.
    int lanes = (int)SL_MAX(SL_MIN((uint64_t)threads, run->memory_bytes >> 18), UINT64_C(1));
    SL_TRY(sl_edge_sort_create(run->making.st.dir, run->memory_bytes, lanes, false, &work.sort));
    if (!g->draw_all)
        sl_progress_begin(progress, "edges", g->n_edges, "edges");
    int rc =
        g->draw_all ? g->draw_all(run, work.sort, lanes) : sl_threads_run(lanes, draw_lane, &work);
    if (rc == SL_OK)
        rc = sl_edge_sort_finish(work.sort);
    if (rc == SL_OK) {
        sl_progress_begin(progress, "topology", g->n_edges * (g->both_ways ? 2 : 1), "edges");
        const uint64_t n_rows = g->n_rows ? g->n_rows : g->n_nodes;
        const struct sl_csc_plan plan = {
            .n_nodes = n_rows,
            .duplicates = g->dedup ? SL_DUPLICATES_FIRST : SL_DUPLICATES_KEEP,
            .weighted = g->weight != NULL,
            .weight = g->weight,
            .context = run->context,
        };
        struct sl_csc_files *files = NULL;
        rc = sl_csc_open(&run->making.st, n_rows, g->n_nodes, plan.weighted, &run->csc, &files);
        if (rc == SL_OK)
            rc = sl_csc_put(files, work.sort, &plan, progress);
        rc = sl_csc_close(files, rc);
    }
    sl_edge_sort_destroy(work.sort);
    return rc;
}

// ---- vertices: rows computed in parallel, written in order --------------------------------------

struct block {
    struct sl_generate *run;
    int threads;
    void (*row)(const void *context, uint64_t vertex, void *out); // from several threads
    size_t row_bytes;
    uint64_t n_nodes;  // vertices of all blocks
    uint64_t first, n; // of this block
    char *rows;        // (n, row_bytes)
};

static int fill_lane(void *context, int lane)
{
    struct block *b = context;
    uint64_t per_lane = sl_div_up(b->n, (uint64_t)b->threads);
    uint64_t begin = SL_MIN(per_lane * (uint64_t)lane, b->n);
    uint64_t end = SL_MIN(begin + per_lane, b->n);
    for (uint64_t i = begin; i < end; i++) {
        b->row(b->run->context, b->first + i, b->rows + i * b->row_bytes);
        if (i % 4096 == 4095)
            sl_progress_add(&b->run->making.progress, 4096);
    }
    return SL_OK;
}

static int write_blocks(struct block *b, struct sl_npy_writer *w)
{
    struct sl_generate *run = b->run;
    const uint64_t n_nodes = b->n_nodes;
    const uint64_t bytes =
        SL_MAX(SL_MIN(run->memory_bytes / 16, UINT64_C(64) << 20), UINT64_C(65536));
    const uint64_t rows = SL_MIN(SL_MAX(bytes / b->row_bytes, UINT64_C(1)), n_nodes);
    b->rows = malloc(rows * b->row_bytes);
    if (!b->rows)
        return sl_fail(SL_ENOMEM, "write %s: no memory for a block of vertices",
                       run->making.st.final);
    int rc = SL_OK;
    for (b->first = 0; rc == SL_OK && b->first < n_nodes; b->first += b->n) {
        b->n = SL_MIN(rows, n_nodes - b->first);
        rc = sl_threads_run(b->threads, fill_lane, b);
        if (rc == SL_OK)
            rc = sl_npy_writer_append(w, b->rows, b->n * b->row_bytes);
        if (rc == SL_OK)
            rc = sl_interrupt_check();
        sl_progress_set(&run->making.progress, b->first + b->n);
    }
    free(b->rows);
    return rc;
}

// A file with a row of `dim` for each vertex (0: a number each); `what` names the stage.
static int write_rows(struct sl_generate *run, int threads, const char *what, enum sl_dtype dtype,
                      const struct sl_generator_features *f)
{
    char path[SL_STAGING_PATH_BYTES];
    const uint64_t shape[2] = {f->n, f->dim};
    struct block b = {.run = run,
                      .threads = threads,
                      .row = f->row,
                      .row_bytes = SL_MAX(f->dim, 1u) * sl_dtype_bytes(dtype),
                      .n_nodes = f->n};
    struct sl_npy_writer *w;
    sl_progress_begin(&run->making.progress, what, f->n, "vertices");
    SL_TRY(sl_npy_writer_open(sl_staging_file(&run->making.st, f->file, path), dtype,
                              f->dim ? 2 : 1, shape, &w));
    return sl_npy_writer_close(&w, write_blocks(&b, w));
}

// ---- the split ----------------------------------------------------------------------------------

static uint64_t n_labelled(const struct sl_generate *run)
{
    const struct sl_generator *g = &run->generator;
    return g->n_labelled ? g->n_labelled : g->n_nodes;
}

// list(context, vertex): the list that a vertex is in, or SL_SPLIT_COUNT for none.
static int write_lists(struct sl_generate *run,
                       enum sl_split (*list)(const void *context, uint64_t vertex),
                       const void *context)
{
    struct sl_split_writer lists = {0};
    struct sl_progress *progress = &run->making.progress;
    const uint64_t n_nodes = n_labelled(run);
    sl_progress_begin(progress, "split", n_nodes, "vertices");
    int rc = sl_split_writer_open(&lists, &run->making.st, n_nodes);
    for (uint64_t v = 0; rc == SL_OK && v < n_nodes; v++) {
        rc = sl_split_writer_put(&lists, list(context, v), v);
        if (rc == SL_OK && v % VERTICES_PER_TICK == VERTICES_PER_TICK - 1) {
            rc = sl_interrupt_check();
            sl_progress_set(progress, v);
        }
    }
    sl_progress_set(progress, n_nodes);
    return sl_split_writer_close(&lists, rc);
}

// A seeded permutation; who comes first in it trains.
struct random_split {
    struct sl_permutation permutation;
    uint64_t n_train, n_val;
};

static enum sl_split list_of(const void *context, uint64_t vertex)
{
    const struct random_split *s = context;
    uint64_t place = sl_permutation_apply(&s->permutation, vertex);
    return place < s->n_train              ? SL_SPLIT_TRAIN
           : place < s->n_train + s->n_val ? SL_SPLIT_VAL
                                           : SL_SPLIT_TEST;
}

// round(ratio * n_nodes) vertices each; the test set gets the rest.
static int write_split(struct sl_generate *run)
{
    struct random_split s;
    const uint64_t n = n_labelled(run);
    s.n_train = SL_MIN((uint64_t)llround(run->train_ratio * (double)n), n);
    s.n_val = SL_MIN((uint64_t)llround(run->val_ratio * (double)n), n - s.n_train);
    sl_permutation_init(&s.permutation, n, run->seed, 1);
    return write_lists(run, list_of, &s);
}

// ---- metadata and summary -----------------------------------------------------------------------

static int write_metadata(const struct sl_generate *run)
{
    const struct sl_generator *g = &run->generator;
    const struct sl_metadata m = {
        .name = sl_dataset_builder_name(&run->making),
        .n_nodes = run->csc.n_nodes,
        .n_edges = run->csc.n_edges,
        .feat_dim = g->feat_dim,
        .n_classes = g->n_classes,
        .directed = !g->both_ways,
        .first_side = g->first_side,
    };
    cJSON *root = sl_metadata_to_json(&m);
    if (g->describe_types) {
        cJSON_DeleteItemFromObject(root, "feat_dim");
        cJSON_DeleteItemFromObject(root, "directed");
        g->describe_types(run->context, root);
    }
    cJSON *parameters = cJSON_AddObjectToObject(root, "generator");
    cJSON_AddStringToObject(parameters, "kind", run->kind->name);
    sl_json_put_whole(parameters, "seed", run->seed);
    cJSON_AddNumberToObject(parameters, "edges_drawn", (double)g->n_edges);
    cJSON_AddBoolToObject(parameters, "dedup", g->dedup);
    cJSON_AddBoolToObject(parameters, "weights", g->weight != NULL);
    g->describe(run->context, parameters);
    if (g->n_classes) {
        cJSON_AddNumberToObject(parameters, "train_ratio", run->train_ratio);
        cJSON_AddNumberToObject(parameters, "val_ratio", run->val_ratio);
    }
    return sl_metadata_write(&run->making.st, root);
}

static void summarise(void *context, struct sl_table *t)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct sl_generate *run = context;
    const struct sl_generator *g = &run->generator;
    const struct sl_csc_summary *s = &run->csc;
    sl_table_row(t, "vertices|%s", sl_units_grouped(a, s->n_nodes));
    sl_table_row(t, "edges|%s stored%s%s", sl_units_grouped(a, s->n_edges),
                 g->both_ways ? " (both directions)" : "", g->weight ? ", with weights" : "");
    if (g->dedup)
        sl_table_row(t, "duplicates|%s dropped", sl_units_grouped(a, s->n_duplicates));
    sl_table_row(t, "in-degree|mean %.1f, largest %s, %s %s without",
                 (double)s->n_edges / (double)s->n_nodes, sl_units_grouped(a, s->max_degree),
                 sl_units_grouped(b, s->n_isolated), g->n_rows ? "rows" : "vertices");
    if (g->feat_dim)
        sl_table_row(t, "features|%" PRIu32 " x float32", g->feat_dim);
    if (g->n_classes)
        sl_table_row(t, "classes|%" PRIu32, g->n_classes);
    if (g->summarise)
        g->summarise(run->context, t);
}

static int make_all(void *context)
{
    struct sl_generate *run = context;
    const struct sl_generator *g = &run->generator;
    int threads =
        run->threads ? (int)run->threads : SL_MIN(sl_threads_default(), SL_GENERATE_THREADS_MAX);
    SL_TRY(make_topology(run, threads));
    const struct sl_generator_features of_all = {"node_feat.npy", g->n_nodes, g->feat_dim,
                                                 g->features},
                                       truth = {"node_truth.npy", g->n_nodes, g->truth_dim,
                                                g->truth},
                                       labels = {"node_label.npy", n_labelled(run), 0, g->label};
    if (g->feat_dim)
        SL_TRY(write_rows(run, threads, "features", SL_DTYPE_F32, &of_all));
    for (uint32_t i = 0; i < g->n_by_type; i++)
        SL_TRY(write_rows(run, threads, "features", SL_DTYPE_F32, &g->by_type[i]));
    if (g->truth_dim)
        SL_TRY(write_rows(run, threads, "truth", SL_DTYPE_F32, &truth));
    if (g->n_classes) {
        SL_TRY(write_rows(run, threads, "labels", SL_DTYPE_I32, &labels));
        SL_TRY(g->list ? write_lists(run, g->list, run->context) : write_split(run));
    }
    return write_metadata(run);
}

int sl_generate_run(struct sl_generate *run)
{
    SL_TRY(run->kind->prepare(run, run->context, &run->generator));
    if (run->train_ratio + run->val_ratio > 1 + 1e-9)
        return sl_fail(
            SL_EINVAL, "generate %s: --train-ratio %g + --val-ratio %g is %g: wanted at most 1",
            run->kind->name, run->train_ratio, run->val_ratio, run->train_ratio + run->val_ratio);
    return sl_dataset_builder_run(&run->making, run, make_all, summarise);
}
