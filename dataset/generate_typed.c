/*
 * Papers, authors and fields: a graph whose labels only a model of relations can learn.
 *
 *   field -studied_by-> author    one field an author has, of its own area
 *   author -writes-> paper        `writers` authors of the paper's area, but for strays
 *   author -reviews-> paper       as many of each other area
 *
 * and the reverse of each. The area of a paper is its label. Only fields have features that tell
 * areas; those of papers are noise, authors have none. So a label is told by the two hops
 * paper <-writes- author <-studied_by- field.
 *
 * Of the authors that write or review a paper exactly `writers` are of each area, drawn uniformly:
 * without the names of the relations the graph is independent of the labels, whatever is done with
 * it. Who goes without them guesses the largest area, no better.
 *
 * Each writer is a stray with probability `stray`: his place is taken by a reviewer of another
 * area, who is one of them at random, and he reviews. So writers' areas are independent draws, the
 * paper's with probability 1 - stray and else any other; the best guess is the most frequent one,
 * and how often that is right is computed exactly.
 *
 * Nothing is stored for a vertex. Author a has area a % areas, field f f % areas, papers are
 * scrambled.
 */
#include "dataset/generate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/class_features.h"
#include "dataset/permutation.h"
#include "dataset/random.h"

enum { WRITERS_MAX = 64 };
enum type { PAPER, AUTHOR, FIELD, N_TYPES };
enum relation { WRITES, REVIEWS, STUDIED_BY, N_FORWARD, N_RELATIONS = 2 * N_FORWARD };

struct typed {
    // Options.
    uint64_t n_authors, n_fields, n_writers; // 0 = by the papers, and by the areas
    double stray, noise;

    uint64_t seed, n[N_TYPES], first[N_TYPES];
    uint64_t first_row[N_RELATIONS], n_edges[N_RELATIONS], n_rows;
    uint32_t n_areas, writers, paper_dim;
    struct sl_permutation scramble;
    struct sl_class_features of_fields;
    struct sl_generator_features features[2];
    double best, blind;
};

static const char *const type_names[N_TYPES] = {"paper", "author", "field"};
static const struct {
    const char *name;
    enum type source, target;
} forward[N_FORWARD] = {
    [WRITES] = {"writes", AUTHOR, PAPER},
    [REVIEWS] = {"reviews", AUTHOR, PAPER},
    [STUDIED_BY] = {"studied_by", FIELD, AUTHOR},
};

static uint32_t area_of(const struct typed *g, uint64_t paper)
{
    return (uint32_t)(sl_permutation_invert(&g->scramble, paper) % g->n_areas);
}

// Members of an area: i * areas + area for i below this.
static uint64_t area_size(const struct typed *g, enum type type, uint32_t area)
{
    return g->n[type] / g->n_areas + (area < g->n[type] % g->n_areas);
}

// ---- edges --------------------------------------------------------------------------------------

// The different authors of an area that a paper has, author[writers]: a uniform set (Floyd).
static void draw_authors(const struct typed *g, uint64_t paper, uint32_t area, uint64_t *author)
{
    const uint64_t n = area_size(g, AUTHOR, area);
    for (uint32_t i = 0; i < g->writers; i++) {
        const uint64_t last = n - g->writers + i;
        const struct sl_rng_block b =
            sl_draw_nth(g->seed, SL_DRAW_AUTHORS, paper, area * g->writers + i);
        uint64_t rank = (uint64_t)b.w[0] * (last + 1) >> 32;
        for (uint32_t k = 0; k < i; k++)
            if (author[k] == rank * g->n_areas + area)
                rank = last;
        author[i] = rank * g->n_areas + area;
    }
}

// The area of the paper's i-th writer.
static uint32_t writer_area(const struct typed *g, uint64_t paper, uint32_t own, uint32_t i)
{
    const struct sl_rng_block b = sl_draw_nth(g->seed, SL_DRAW_STRAY, paper, i);
    if (!(sl_draw_unit(b.w[0], b.w[1]) < g->stray))
        return own;
    const uint32_t other = (uint32_t)((uint64_t)b.w[2] * (g->n_areas - 1) >> 32);
    return other + (other >= own);
}

// Both ways: numbers of the two ends within their types.
static void put(const struct typed *g, enum relation r, uint64_t source, uint64_t target,
                uint64_t *keys)
{
    const enum type from = forward[r].source, to = forward[r].target;
    keys[0] =
        sl_edge_key((uint32_t)(g->first[from] + source), (uint32_t)(g->first_row[r] + target));
    keys[1] = sl_edge_key((uint32_t)(g->first[to] + target),
                          (uint32_t)(g->first_row[N_FORWARD + r] + source));
}

// Edges 0 to papers * areas * writers - 1 are of papers, in this order; then one of each author.
static void draw_edges(const void *context, uint64_t first, size_t n, uint64_t *keys)
{
    const struct typed *g = context;
    const uint64_t each = (uint64_t)g->n_areas * g->writers, of_papers = g->n[PAPER] * each;
    uint64_t author[WRITERS_MAX];
    for (size_t e = 0; e < n; e++) {
        const uint64_t edge = first + e, paper = edge / each;
        if (edge >= of_papers) {
            const uint64_t a = edge - of_papers;
            const uint32_t area = (uint32_t)(a % g->n_areas);
            const struct sl_rng_block b = sl_draw(g->seed, SL_DRAW_FIELD, a, 0);
            const uint64_t rank = (uint64_t)b.w[0] * area_size(g, FIELD, area) >> 32;
            put(g, STUDIED_BY, rank * g->n_areas + area, a, &keys[2 * e]);
            continue;
        }
        const uint32_t area = (uint32_t)(edge % each / g->writers);
        const uint32_t i = (uint32_t)(edge % g->writers);
        if (e == 0 || i == 0)
            draw_authors(g, paper, area, author);
        const bool writes = writer_area(g, paper, area_of(g, paper), i) == area;
        put(g, writes ? WRITES : REVIEWS, author[i], paper, &keys[2 * e]);
    }
}

// ---- vertices -----------------------------------------------------------------------------------

static void label(const void *context, uint64_t vertex, void *out)
{
    *(int32_t *)out = (int32_t)area_of(context, vertex);
}

static void paper_row(const void *context, uint64_t vertex, void *out)
{
    const struct typed *g = context;
    sl_gaussian_row(g->seed, SL_DRAW_PAPER, vertex, g->paper_dim, out);
}

static void field_row(const void *context, uint64_t vertex, void *out)
{
    const struct typed *g = context;
    sl_class_features_row(&g->of_fields, (uint32_t)(vertex % g->n_areas), vertex, out);
}

// ---- what can be reached ------------------------------------------------------------------------

// out *= by, of polynomials up to x^degree.
static void multiply(double *out, const double *by, uint32_t degree)
{
    double sum[WRITERS_MAX + 1] = {0};
    for (uint32_t a = 0; a <= degree; a++)
        for (uint32_t b = 0; a + b <= degree; b++)
            sum[a + b] += out[a] * by[b];
    memcpy(out, sum, (degree + 1) * sizeof *sum);
}

/*
 * How often the most frequent area among the writers is the paper's, ties broken at random. With j
 * writers of the paper's own area the other m are spread over the C - 1 others: m! / (C - 1)^m
 * times the coefficient of x^m in the product of their exponential series, each cut off at the
 * most that it may have; t of them have j, too.
 */
static double best_accuracy(uint32_t writers, uint32_t n_areas, double stray)
{
    const double others = n_areas - 1;
    double sum = 0;
    for (uint32_t j = 1; j <= writers; j++) {
        const uint32_t m = writers - j;
        double right = 0, choose = 1; // (others over t)
        for (uint32_t t = 0; t * j <= m && t <= n_areas - 1; t++) {
            double power[WRITERS_MAX + 1] = {1}, base[WRITERS_MAX + 1] = {0};
            const uint32_t degree = m - t * j;
            for (uint32_t i = 0; i < j && i <= degree; i++)
                base[i] = exp(-lgamma(i + 1.0) - i * log(others));
            for (uint32_t n = n_areas - 1 - t; n > 0; n >>= 1) {
                if (n & 1)
                    multiply(power, base, degree);
                multiply(base, base, degree);
            }
            right += choose * exp(-(double)t * (lgamma(j + 1.0) + j * log(others))) *
                     power[degree] / (1 + t);
            choose *= (others - t) / (t + 1);
        }
        const double ways = lgamma(writers + 1.0) - lgamma(j + 1.0) - lgamma(m + 1.0);
        sum += exp(ways + lgamma(m + 1.0)) * pow(1 - stray, j) * pow(stray, m) * right;
    }
    return sum;
}

// ---- metadata and summary -----------------------------------------------------------------------

static void describe(const void *context, cJSON *parameters)
{
    const struct typed *g = context;
    cJSON_AddNumberToObject(parameters, "writers", g->writers);
    cJSON_AddNumberToObject(parameters, "stray", g->stray);
    cJSON_AddNumberToObject(parameters, "noise", g->noise);
    cJSON_AddNumberToObject(parameters, "best_accuracy", g->best);
    cJSON_AddNumberToObject(parameters, "blind_accuracy", g->blind);
}

static void describe_types(const void *context, cJSON *root)
{
    const struct typed *g = context;
    cJSON *types = cJSON_AddArrayToObject(root, "types");
    for (int t = 0; t < N_TYPES; t++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", type_names[t]);
        cJSON_AddNumberToObject(o, "count", (double)g->n[t]);
        const uint32_t dim = t == PAPER ? g->paper_dim : t == FIELD ? g->of_fields.dim : 0;
        if (dim)
            cJSON_AddNumberToObject(o, "feat_dim", dim);
        cJSON_AddItemToArray(types, o);
    }
    cJSON *relations = cJSON_AddArrayToObject(root, "relations");
    for (int i = 0; i < N_RELATIONS; i++) {
        const int r = i % N_FORWARD;
        const bool reverse = i >= N_FORWARD;
        char name[32];
        snprintf(name, sizeof name, "%s%s", reverse ? "rev_" : "", forward[r].name);
        const char *ends[] = {type_names[forward[r].source], type_names[forward[r].target]};
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "source", ends[reverse]);
        cJSON_AddStringToObject(o, "name", name);
        cJSON_AddStringToObject(o, "target", ends[!reverse]);
        cJSON_AddNumberToObject(o, "edges", (double)g->n_edges[i]);
        if (reverse)
            cJSON_AddStringToObject(o, "reverse_of", forward[r].name);
        cJSON_AddItemToArray(relations, o);
    }
    cJSON_AddStringToObject(root, "label_type", type_names[PAPER]);
}

static void summarise(const void *context, struct sl_table *t)
{
    const struct typed *g = context;
    sl_table_row(t, "best accuracy|%.3f by who writes a paper, %.3f without the relations' names",
                 g->best, g->blind);
}

// ---- the kind -----------------------------------------------------------------------------------

static void defaults(struct sl_generate *run, void *context)
{
    struct typed *g = context;
    run->nodes = 20000;
    run->classes = 8;
    run->feat_dim = 32;
    g->n_writers = 5;
    g->stray = 0.4;
    g->noise = 0.3;
}

#define AT(kind, field) SL_OPTION_AT(kind, typed, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "authors", AT(UINT, n_authors), .placeholder = "N", .min = 1, .no_default = true,
     .max = SL_GENERATE_NODES_MAX, .help = "number of authors, else half as many as papers"},
    {.name = "fields", AT(UINT, n_fields), .placeholder = "N", .min = 1, .no_default = true,
     .max = SL_GENERATE_NODES_MAX, .help = "number of fields, else ten of each area"},
    {.name = "writers", AT(UINT, n_writers), .placeholder = "N", .min = 1, .max = WRITERS_MAX,
     .help = "authors that write a paper; of each other area as many review it"},
    {SL_GENERATE_REAL(typed, stray, "stray", "P", 0, 1,
         "probability that a writer is of any other area")},
    {SL_GENERATE_NOISE(typed, "of the fields' features, against area means of length 1")},
    {0},
};
// clang-format on

#define FAIL(...) sl_fail(SL_EINVAL, "generate typed: " __VA_ARGS__)

static int check_sizes(const struct typed *g, const struct sl_generate *run)
{
    if (run->edges_given && run->edges)
        return FAIL("--edges %" PRIu64 ": --writers and the numbers of vertices say how many edges "
                    "there are, wanted 0 (the same vertices without any) or no --edges",
                    run->edges);
    if (run->classes < 2)
        return FAIL("--classes %" PRIu64 ": wanted two areas or more", run->classes);
    if (g->stray > 1 - 1.0 / g->n_areas)
        return FAIL("--stray %g with --classes %" PRIu32
                    ": wanted at most %g, where writers are of "
                    "all areas alike",
                    g->stray, g->n_areas, 1 - 1.0 / g->n_areas);
    if (g->n[AUTHOR] / g->n_areas < g->writers)
        return FAIL("--authors %" PRIu64 " of %" PRIu32 " areas: wanted %" PRIu32
                    " (--writers) in each at least: take more authors, or fewer areas or writers",
                    g->n[AUTHOR], g->n_areas, g->writers);
    if (g->n[FIELD] < g->n_areas)
        return FAIL("--fields %" PRIu64 ": wanted one for each of --classes %" PRIu32 " at least",
                    g->n[FIELD], g->n_areas);
    if ((double)(g->n[PAPER] + g->n[AUTHOR] + g->n[FIELD]) > SL_GENERATE_NODES_MAX ||
        (double)g->n_rows > SL_GENERATE_NODES_MAX)
        return FAIL("%" PRIu64 " rows of all relations: wanted at most %.0f: take fewer vertices",
                    g->n_rows, SL_GENERATE_NODES_MAX);
    return SL_OK;
}

// Numbers of vertices, rows and edges.
static void lay_out(struct typed *g, const struct sl_generate *run)
{
    g->seed = run->seed;
    g->n_areas = (uint32_t)run->classes;
    g->writers = (uint32_t)g->n_writers;
    g->n[PAPER] = run->nodes;
    g->n[AUTHOR] = g->n_authors ? g->n_authors : SL_MAX(run->nodes / 2, UINT64_C(1));
    g->n[FIELD] = g->n_fields ? g->n_fields : 10 * run->classes;
    for (int t = 1; t < N_TYPES; t++)
        g->first[t] = g->first[t - 1] + g->n[t - 1];
    for (int i = 0; i < N_RELATIONS; i++) {
        const int r = i % N_FORWARD;
        g->first_row[i] = g->n_rows;
        g->n_rows += g->n[i < N_FORWARD ? forward[r].target : forward[r].source];
        g->n_edges[i] = run->edges_given ? 0
                        : r == WRITES    ? g->n[PAPER] * g->writers
                        : r == REVIEWS   ? g->n[PAPER] * g->writers * (g->n_areas - 1)
                                         : g->n[AUTHOR];
    }
}

static int prepare(struct sl_generate *run, void *context, struct sl_generator *out)
{
    struct typed *g = context;
    const uint32_t dim = (uint32_t)run->feat_dim;
    lay_out(g, run);
    SL_TRY(check_sizes(g, run));
    g->paper_dim = dim;
    g->blind = (double)sl_div_up(g->n[PAPER], (uint64_t)g->n_areas) / (double)g->n[PAPER];
    g->best = run->edges_given ? g->blind : best_accuracy(g->writers, g->n_areas, g->stray);
    sl_permutation_init(&g->scramble, g->n[PAPER], g->seed, 0);
    if (dim)
        SL_TRY(sl_class_features_init(&g->of_fields, g->seed, g->n_areas, SL_MAX(dim / 2, 1u),
                                      g->noise));
    g->features[0] =
        (struct sl_generator_features){"node_feat.paper.npy", g->n[PAPER], g->paper_dim, paper_row};
    g->features[1] = (struct sl_generator_features){"node_feat.field.npy", g->n[FIELD],
                                                    g->of_fields.dim, field_row};
    *out = (struct sl_generator){
        .n_nodes = g->first[FIELD] + g->n[FIELD],
        .n_rows = g->n_rows,
        .n_labelled = g->n[PAPER],
        .n_edges = g->n_edges[WRITES] + g->n_edges[REVIEWS] + g->n_edges[STUDIED_BY],
        .both_ways = true,
        .n_classes = g->n_areas,
        .by_type = g->features,
        .n_by_type = dim ? 2 : 0,
        .draw_edges = draw_edges,
        .label = label,
        .summarise = summarise,
        .describe = describe,
        .describe_types = describe_types,
    };
    return SL_OK;
}

static void close_features(void *context)
{
    sl_class_features_fini(&((struct typed *)context)->of_fields);
}

const struct sl_generator_kind sl_generate_typed = {
    .name = "typed",
    .help = "papers, authors and fields; labels that only relations tell",
    .about = "Papers with authors that write and authors that review them, and the fields that the "
             "authors study: three types of vertices, six relations. The label of a paper is the "
             "area of most of its writers, which only the features of their fields tell; who "
             "writes or reviews a paper together tells nothing. --nodes counts papers, --classes "
             "areas. metadata.json has best_accuracy, what a model of relations can reach, and "
             "blind_accuracy, what one without can.",
    .example = "sluice generate typed --nodes 20000 --out data/papers\n"
               "sluice generate typed --nodes 2M --writers 3 --stray 0 --out data/papers2m",
    .context_bytes = sizeof(struct typed),
    .defaults = defaults,
    .options = options,
    .prepare = prepare,
    .close = close_features,
};
