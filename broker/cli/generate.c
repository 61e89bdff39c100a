/*
 * From a generator's functions to a data set directory.
 *
 *   edge numbers -> threads draw chunks -> edge_sort -> csc_writer -> indptr, indices
 *   vertices     -> threads fill blocks -> npy writers -> features, labels; then the split
 *
 * Memory: edges are sorted within --memory (spilled to the output's file system beyond that),
 * vertex data goes through one block buffer. Nothing here is proportional to vertices or edges.
 */
#include "broker/cli/generate.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "broker/cli/command.h"
#include "broker/cli/csc_writer.h"
#include "broker/cli/edge_sort.h"
#include "broker/cli/made.h"
#include "broker/cli/metadata.h"
#include "broker/cli/threads.h"
#include "broker/cli/progress.h"
#include "broker/cli/staging.h"
#include "broker/cli/table.h"
#include "broker/cli/units.h"
#include "broker/cli/vertex_writer.h"

enum { EDGES_PER_CHUNK = 16384, THREADS_MAX = 256 };
enum { COMMON_OPTIONS = 14, KIND_OPTIONS_MAX = 10 };

// More vertices would not fit 32-bit ids (2^32 - 1 is kept free).
#define NODES_MAX 4294967294.0

const struct sl_generate_common SL_GENERATE_DEFAULTS = {
    .seed = 1,
    .memory_bytes = UINT64_C(1) << 30,
    .feat_dim = 64,
    .classes = 12,
    .train_ratio = 0.5,
    .val_ratio = 0.25,
};

// ---- options ------------------------------------------------------------------------------------

static void common_options(struct sl_generate_common *c, struct sl_option *options)
{
    const struct sl_option common[COMMON_OPTIONS] = {
        {.name = "out",
         .type = SL_OPTION_TEXT,
         .value = &c->out,
         .placeholder = "DIR",
         .required = true,
         .help = "the data set directory to make"},
        {.name = "force",
         .type = SL_OPTION_FLAG,
         .value = &c->force,
         .help = "replace a data set of that name"},
        {.name = "name",
         .type = SL_OPTION_TEXT,
         .value = &c->name,
         .placeholder = "NAME",
         .help = "its name in metadata.json, else DIR's last part"},
        {.name = "nodes",
         .type = SL_OPTION_UINT,
         .value = &c->nodes,
         .placeholder = "N",
         .min = 1,
         .max = NODES_MAX,
         .no_default = c->nodes == 0,
         .help = "number of vertices"},
        {.name = "edges",
         .type = SL_OPTION_UINT,
         .value = &c->edges,
         .placeholder = "M",
         .min = 1,
         .max = 1e13,
         .no_default = true,
         .help = "number of edges to draw"},
        {.name = "feat-dim",
         .type = SL_OPTION_UINT,
         .value = &c->feat_dim,
         .placeholder = "D",
         .max = 65536,
         .help = "features of a vertex, 0 for none"},
        {.name = "classes",
         .type = SL_OPTION_UINT,
         .value = &c->classes,
         .placeholder = "C",
         .max = 1e6,
         .no_default = c->classes == SL_GENERATE_CLASSES_AUTO,
         .help = "labels 0 to C - 1, 0 for none"},
        {.name = "train-ratio",
         .type = SL_OPTION_REAL,
         .value = &c->train_ratio,
         .placeholder = "R",
         .min = 0,
         .max = 1,
         .help = "share of the vertices to train on"},
        {.name = "val-ratio",
         .type = SL_OPTION_REAL,
         .value = &c->val_ratio,
         .placeholder = "R",
         .min = 0,
         .max = 1,
         .help = "share to validate on; the rest is for testing"},
        {.name = "seed",
         .type = SL_OPTION_UINT,
         .value = &c->seed,
         .placeholder = "N",
         .help = "the same arguments and seed make the same bytes"},
        {.name = "memory",
         .type = SL_OPTION_SIZE,
         .value = &c->memory_bytes,
         .placeholder = "SIZE",
         .min = SL_EDGE_SORT_MIN_BYTES,
         .max = 1e15,
         .help = "for sorting edges; what does not fit is spilled beside DIR"},
        {.name = "threads",
         .type = SL_OPTION_UINT,
         .value = &c->threads,
         .placeholder = "N",
         .min = 0,
         .max = THREADS_MAX,
         .no_default = true,
         .help = "else one for each core"},
        {.name = "quiet",
         .letter = 'q',
         .type = SL_OPTION_FLAG,
         .value = &c->quiet,
         .help = "no progress and no summary"},
        sl_output_option(&c->output),
    };
    memcpy(options, common, sizeof common);
}

int sl_generate_parse(struct sl_generate_common *c, const struct sl_command_usage *kind, int argc,
                      char **argv)
{
    struct sl_option options[COMMON_OPTIONS + KIND_OPTIONS_MAX];
    common_options(c, options);
    memcpy(options + COMMON_OPTIONS, kind->options, kind->n_options * sizeof *options);
    struct sl_command_usage usage = *kind;
    usage.options = options;
    usage.n_options = COMMON_OPTIONS + kind->n_options;
    return sl_options_parse(&usage, argc, argv);
}

int sl_generate_check_edges(const struct sl_generate_common *c, const char *kind,
                            const char *option, bool given)
{
    if (c->edges && given)
        return sl_fail(SL_EINVAL, "generate %s: --edges and --%s both given: leave one out", kind,
                       option);
    return SL_OK;
}

static struct sl_option real_option(const char *name, const char *placeholder, double *value,
                                    double min, double max, const char *help)
{
    return (struct sl_option){.name = name,
                              .type = SL_OPTION_REAL,
                              .value = value,
                              .placeholder = placeholder,
                              .min = min,
                              .max = max,
                              .help = help};
}

struct sl_option sl_generate_degree_option(const char *name, double *value, bool *given,
                                           const char *help)
{
    struct sl_option o = real_option(name, "D", value, 1e-3, 1e6, help);
    o.given = given;
    return o;
}

// Well above 2: to draw a rank is to divide by exponent - 2.
struct sl_option sl_generate_exponent_option(double *value, const char *help)
{
    return real_option("exponent", "X", value, 2.05, 100, help);
}

struct sl_option sl_generate_homophily_option(double *value, const char *help)
{
    return real_option("homophily", "P", value, 0, 1, help);
}

struct sl_option sl_generate_noise_option(double *value, const char *help)
{
    return real_option("noise", "SD", value, 0, 1e6, help);
}

// ---- weights ------------------------------------------------------------------------------------

float sl_generate_year_weight(uint32_t year)
{
    static const float quarters[4] = {1, 1.18920711f, 1.41421356f, 1.68179283f}; // 2^(i / 4)
    return ldexpf(quarters[year % 4], (int)(year / 4));
}

// ---- edges --------------------------------------------------------------------------------------

struct edge_work {
    const struct sl_generator *g;
    struct sl_edge_sort *sort;
    struct sl_progress *progress;
    _Atomic uint64_t next; // first edge that nobody has taken
    _Atomic bool failed;
};

static int draw_lane(void *context, int lane)
{
    struct edge_work *w = context;
    const struct sl_generator *g = w->g;
    size_t ways = g->both_ways ? 2 : 1;
    uint64_t *keys = malloc(EDGES_PER_CHUNK * ways * sizeof *keys);
    if (!keys)
        return sl_fail(SL_ENOMEM, "generate %s: no memory", g->kind);
    int rc = SL_OK;
    while (rc == SL_OK && !atomic_load_explicit(&w->failed, memory_order_relaxed)) {
        uint64_t first = atomic_fetch_add(&w->next, EDGES_PER_CHUNK);
        if (first >= g->n_edges)
            break;
        size_t n = (size_t)SL_MIN((uint64_t)EDGES_PER_CHUNK, g->n_edges - first);
        g->draw_edges(g->context, first, n, keys);
        rc = sl_edge_sort_add(w->sort, lane, keys, NULL, n * ways);
        if (rc == SL_OK)
            rc = sl_interrupt_check();
        sl_progress_add(w->progress, n);
    }
    if (rc < 0)
        atomic_store(&w->failed, true);
    free(keys);
    return rc;
}

static int make_topology(const struct sl_generator *g, const struct sl_generate_common *c,
                         int threads, const struct sl_staging *st, struct sl_progress *progress,
                         struct sl_csc_summary *summary)
{
    struct edge_work work = {.g = g, .progress = progress};
    // A lane needs a few thousand edges to be worth anything.
    int lanes = (int)SL_MAX(SL_MIN((uint64_t)threads, c->memory_bytes >> 18), UINT64_C(1));
    SL_TRY(sl_edge_sort_create(st->dir, c->memory_bytes, lanes, false, &work.sort));
    sl_progress_begin(progress, "edges", g->n_edges, "edges");
    int rc = sl_threads_run(lanes, draw_lane, &work);
    if (rc == SL_OK)
        rc = sl_edge_sort_finish(work.sort);
    if (rc == SL_OK) {
        sl_progress_begin(progress, "topology", g->n_edges * (g->both_ways ? 2 : 1), "edges");
        const struct sl_csc_plan plan = {
            .n_nodes = g->n_nodes,
            .dedup = g->dedup,
            .weighted = g->weight != NULL,
            .weight = g->weight,
            .context = g->context,
        };
        rc = sl_csc_write(st, work.sort, &plan, progress, summary);
    }
    sl_edge_sort_destroy(work.sort);
    return rc;
}

// ---- metadata and summary -----------------------------------------------------------------------

static int write_metadata(const struct sl_generator *g, const struct sl_generate_common *c,
                          const struct sl_staging *st, const struct sl_csc_summary *summary)
{
    const struct sl_metadata m = {
        .name = c->name ? c->name : st->name,
        .n_nodes = summary->n_nodes,
        .n_edges = summary->n_edges,
        .feat_dim = g->feat_dim,
        .n_classes = g->n_classes,
        .directed = !g->both_ways,
    };
    cJSON *root = sl_metadata_to_json(&m);
    cJSON *parameters = cJSON_AddObjectToObject(root, "generator");
    char text[32];
    cJSON_AddStringToObject(parameters, "kind", g->kind);
    snprintf(text, sizeof text, "%" PRIu64, g->seed);
    cJSON_AddRawToObject(parameters, "seed", text); // all 64 bits, which a double does not hold
    cJSON_AddNumberToObject(parameters, "edges_drawn", (double)g->n_edges);
    cJSON_AddBoolToObject(parameters, "dedup", g->dedup);
    cJSON_AddBoolToObject(parameters, "weights", g->weight != NULL);
    g->describe(g->context, parameters);
    if (g->n_classes) {
        cJSON_AddNumberToObject(parameters, "train_ratio", c->train_ratio);
        cJSON_AddNumberToObject(parameters, "val_ratio", c->val_ratio);
    }
    return sl_metadata_write(st, root);
}

static int print_summary(const struct sl_generator *g, const struct sl_csc_summary *s,
                         const struct sl_made *made)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    struct sl_table t;
    sl_table_init(&t, "l l", NULL);
    sl_table_row(&t, "data set|%s", made->directory);
    sl_table_row(&t, "vertices|%s", sl_units_grouped(a, s->n_nodes));
    sl_table_row(&t, "edges|%s stored%s%s", sl_units_grouped(a, s->n_edges),
                 g->both_ways ? " (both directions)" : "", g->weight ? ", with weights" : "");
    if (g->dedup)
        sl_table_row(&t, "duplicates|%s dropped", sl_units_grouped(a, s->n_duplicates));
    sl_table_row(&t, "in-degree|mean %.1f, largest %s, %s vertices without",
                 (double)s->n_edges / (double)s->n_nodes, sl_units_grouped(a, s->max_degree),
                 sl_units_grouped(b, s->n_isolated));
    if (g->feat_dim)
        sl_table_row(&t, "features|%" PRIu32 " x float32", g->feat_dim);
    if (g->n_classes)
        sl_table_row(&t, "classes|%" PRIu32, g->n_classes);
    sl_table_row(&t, "size|%s", sl_units_bytes(a, made->bytes));
    sl_table_row(&t, "took|%s", sl_units_seconds(a, made->seconds));
    int rc = sl_made_print(made, &t);
    sl_table_fini(&t);
    return rc;
}

static int make_all(const struct sl_generator *g, const struct sl_generate_common *c, int threads,
                    struct sl_staging *st, struct sl_progress *progress,
                    struct sl_csc_summary *summary)
{
    const struct sl_vertex_job job = {
        .st = st,
        .n_nodes = g->n_nodes,
        .threads = threads,
        .block_bytes = SL_MAX(SL_MIN(c->memory_bytes / 16, UINT64_C(64) << 20), UINT64_C(65536)),
        .progress = progress,
    };
    SL_TRY(make_topology(g, c, threads, st, progress, summary));
    if (g->feat_dim)
        SL_TRY(sl_vertex_write_features(&job, g->feat_dim, g->features, g->context));
    if (g->n_classes) {
        SL_TRY(sl_vertex_write_labels(&job, g->label, g->context));
        if (g->list)
            SL_TRY(sl_vertex_write_lists(&job, g->list, g->context));
        else
            SL_TRY(sl_vertex_write_split(&job, g->seed, c->train_ratio, c->val_ratio));
    }
    sl_progress_end(progress);
    return write_metadata(g, c, st, summary);
}

int sl_generate_dataset(const struct sl_generator *g, const struct sl_generate_common *c)
{
    struct sl_staging st;
    struct sl_progress progress;
    struct sl_csc_summary summary;
    if (c->train_ratio + c->val_ratio > 1 + 1e-9)
        return sl_fail(SL_EINVAL,
                       "generate %s: --train-ratio %g + --val-ratio %g is %g: wanted at most 1",
                       g->kind, c->train_ratio, c->val_ratio, c->train_ratio + c->val_ratio);
    uint64_t begin = sl_now_ns();
    int threads = c->threads ? (int)c->threads : SL_MIN(sl_threads_default(), THREADS_MAX);
    sl_interrupt_catch();
    sl_progress_init(&progress, c->quiet);
    SL_TRY(sl_staging_open(c->out, c->force, &st));
    int rc = make_all(g, c, threads, &st, &progress, &summary);
    sl_progress_clear(&progress);
    uint64_t bytes = sl_staging_bytes(&st);
    if (rc == SL_OK)
        rc = sl_interrupt_check();
    if (rc == SL_OK)
        rc = sl_staging_commit(&st);
    else
        sl_staging_abort(&st);
    if (rc < 0)
        return rc;
    const struct sl_made made = {.output = c->output,
                                 .quiet = c->quiet,
                                 .directory = st.final,
                                 .bytes = bytes,
                                 .seconds = (double)(sl_now_ns() - begin) * 1e-9};
    return print_summary(g, &summary, &made);
}

// ---- the command --------------------------------------------------------------------------------

int sl_command_generate(int argc, char **argv)
{
    static const struct sl_command kinds[] = {
        {"citation", "papers that cite earlier ones of their topic; training on a few topics",
         sl_generate_citation},
        {"planted", "communities with power-law degrees; labels that can be learnt",
         sl_generate_planted},
        {"rmat", "R-MAT: power-law degrees, random features and labels", sl_generate_rmat},
    };
    const struct sl_command *kind;
    SL_TRY(sl_command_choose(kinds, SL_COUNT_OF(kinds), "kind",
                             "sluice generate planted --nodes 100000 --out data/planted", argc,
                             argv, &kind));
    return kind ? kind->run(argc - 1, argv + 1) : SL_EXIT_OK;
}
