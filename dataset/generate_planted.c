/*
 * A degree-corrected planted partition (Karrer and Newman, "Stochastic blockmodels and community
 * structure in networks", 2011; the generative form with equal classes): labels that can be learnt
 * from the features a little, and from the structure much better.
 *
 * Vertices are pairs (class, rank in class), numbered rank * classes + class and then scrambled.
 * A vertex of rank r has the weight (r + 1)^(-1 / (exponent - 1)), which makes degrees a power law
 * with that exponent. An edge has one end of any class; the other end is of the same class with
 * probability `homophily` and else of one of the others. Ends are drawn in proportion to weight by
 * inverting the integral of the weights, so nothing is stored for a vertex or a class.
 *
 * Features are the class's mean, a random direction of length 1, and Gaussian noise of standard
 * deviation `noise` in each dimension: the error of the best classifier depends on noise alone,
 * not on feat_dim.
 *
 * An edge whose two ends are the same vertex has its other end drawn again (same class), so there
 * are no self-loops and the homophily stays what was asked for.
 */
#include "dataset/generate.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/class_features.h"
#include "dataset/random.h"
#include "dataset/edge_sort.h"
#include "dataset/permutation.h"

enum { MAX_ATTEMPTS = 32 };

struct planted {
    // Options.
    double degree, exponent, homophily, noise;
    bool degree_given, directed, multi_edges;

    uint64_t seed, n_nodes;
    uint32_t n_classes;
    // Of the inverse: rank = (1 + u * span)^power - 1; span for the larger and the smaller classes.
    double power, span_large, span_small;
    uint64_t n_large; // classes that have one vertex more
    struct sl_permutation scramble;
    struct sl_class_features features;
};

static uint64_t class_size(const struct planted *p, uint32_t class)
{
    return p->n_nodes / p->n_classes + (class < p->n_large);
}

static uint64_t draw_rank(const struct planted *p, uint32_t class, double u)
{
    double span = class < p->n_large ? p->span_large : p->span_small;
    uint64_t rank = (uint64_t)(pow(1 + u * span, p->power) - 1);
    return SL_MIN(rank, class_size(p, class) - 1);
}

static uint32_t vertex_of(const struct planted *p, uint32_t class, uint64_t rank)
{
    return (uint32_t)sl_permutation_apply(&p->scramble, rank * p->n_classes + class);
}

static uint32_t class_of(const struct planted *p, uint64_t vertex)
{
    return (uint32_t)(sl_permutation_invert(&p->scramble, vertex) % p->n_classes);
}

static void draw_edge(const struct planted *p, uint64_t edge, uint32_t *one, uint32_t *other)
{
    struct sl_rng_block b = sl_draw(p->seed, SL_DRAW_EDGE, edge, 0);
    uint32_t class = (uint32_t)((uint64_t)b.w[0] * p->n_classes >> 32);
    uint64_t rank = draw_rank(p, class, sl_draw_unit(b.w[1], b.w[2]));
    bool same = p->n_classes == 1 || b.w[3] * (1.0 / 4294967296.0) < p->homophily;

    b = sl_draw(p->seed, SL_DRAW_EDGE, edge, 1);
    uint32_t other_class = class;
    if (!same) {
        other_class = (uint32_t)((uint64_t)b.w[0] * (p->n_classes - 1) >> 32);
        other_class += other_class >= class;
    }
    uint64_t other_rank = draw_rank(p, other_class, sl_draw_unit(b.w[1], b.w[2]));
    for (uint32_t attempt = 1; same && other_rank == rank; attempt++) {
        if (attempt > MAX_ATTEMPTS) { // a class of two or three vertices, or hardly any skew left
            other_rank = (rank + 1) % class_size(p, class);
            break;
        }
        b = sl_draw(p->seed, SL_DRAW_EDGE, edge, attempt << 8 | 1);
        other_rank = draw_rank(p, other_class, sl_draw_unit(b.w[1], b.w[2]));
    }
    *one = vertex_of(p, class, rank);
    *other = vertex_of(p, other_class, other_rank);
}

static void draw_edges(const void *context, uint64_t first, size_t n, uint64_t *keys)
{
    const struct planted *p = context;
    uint32_t one, other;
    for (size_t i = 0; i < n; i++) {
        draw_edge(p, first + i, &one, &other);
        if (p->directed) {
            keys[i] = sl_edge_key(one, other);
        } else {
            keys[2 * i] = sl_edge_key(one, other);
            keys[2 * i + 1] = sl_edge_key(other, one);
        }
    }
}

static void label(const void *context, uint64_t vertex, void *out)
{
    *(int32_t *)out = (int32_t)class_of(context, vertex);
}

static void features(const void *context, uint64_t vertex, void *out)
{
    const struct planted *p = context;
    sl_class_features_row(&p->features, class_of(p, vertex), vertex, out);
}

static void describe(const void *context, cJSON *parameters)
{
    const struct planted *p = context;
    cJSON_AddNumberToObject(parameters, "exponent", p->exponent);
    cJSON_AddNumberToObject(parameters, "homophily", p->homophily);
    cJSON_AddNumberToObject(parameters, "noise", p->noise);
}

static void defaults(struct sl_generate *run, void *context)
{
    struct planted *p = context;
    p->degree = 18;
    p->exponent = 2.5;
    p->homophily = p->noise = 0.6;
    run->nodes = 100000;
}

#define AT(kind, field) SL_OPTION_AT(kind, planted, field)
// clang-format off
static const struct sl_option options[] = {
    {SL_GENERATE_DEGREE(planted, "degree",
         "mean number of in-neighbours before duplicates are dropped, unless --edges is given")},
    {SL_GENERATE_EXPONENT(planted, "of the power law of the degrees")},
    {SL_GENERATE_HOMOPHILY(planted, "probability that both ends of an edge are of one class")},
    {SL_GENERATE_NOISE(planted, "of the features, against class means of length 1")},
    {.name = "directed", AT(FLAG, directed), .help = "store each edge in one direction only"},
    {.name = "multi-edges", AT(FLAG, multi_edges),
     .help = "keep edges that were drawn more than once"},
    {0},
};
// clang-format on

static int prepare_classes(struct planted *p, const struct sl_generate *run)
{
    p->seed = run->seed;
    p->n_nodes = run->nodes;
    p->n_classes = (uint32_t)run->classes;
    if (p->n_classes < 1 || p->n_nodes < 2 * run->classes)
        return sl_fail(SL_EINVAL,
                       "generate planted: --classes %u with --nodes %llu: wanted 1 class or more, "
                       "with 2 vertices each at least",
                       p->n_classes, (unsigned long long)p->n_nodes);
    double steepness = 1 / (p->exponent - 1);
    uint64_t small = p->n_nodes / p->n_classes;
    p->n_large = p->n_nodes % p->n_classes;
    p->power = 1 / (1 - steepness);
    p->span_small = pow((double)small + 1, 1 - steepness) - 1;
    p->span_large = pow((double)small + 2, 1 - steepness) - 1;
    sl_permutation_init(&p->scramble, p->n_nodes, p->seed, 0);
    return sl_class_features_init(&p->features, p->seed, p->n_classes, (uint32_t)run->feat_dim,
                                  p->noise);
}

static int prepare(struct sl_generate *run, void *context, struct sl_generator *out)
{
    struct planted *p = context;
    SL_TRY(sl_generate_check_edges(run, "degree", p->degree_given));
    SL_TRY(prepare_classes(p, run));
    double wanted = p->degree * (double)p->n_nodes / (p->directed ? 1 : 2);
    *out = (struct sl_generator){
        .n_nodes = p->n_nodes,
        .n_edges = sl_generate_n_edges(run, wanted),
        .both_ways = !p->directed,
        .dedup = !p->multi_edges,
        .feat_dim = p->features.dim,
        .n_classes = p->n_classes,
        .draw_edges = draw_edges,
        .label = label,
        .features = features,
        .describe = describe,
    };
    return SL_OK;
}

static void close_features(void *context)
{
    struct planted *p = context;
    sl_class_features_fini(&p->features);
}

const struct sl_generator_kind sl_generate_planted = {
    .name = "planted",
    .help = "communities with power-law degrees; labels that can be learnt",
    .about = "Communities with power-law degrees (degree-corrected planted partition). Labels "
             "are the communities: features alone tell them modestly, features and structure "
             "together well.",
    .example = "sluice generate planted --nodes 100000 --classes 12 --out data/planted\n"
               "sluice generate planted --nodes 10M --edges 100M --feat-dim 128 --memory 2GiB "
               "--out data/planted10m",
    .context_bytes = sizeof(struct planted),
    .defaults = defaults,
    .options = options,
    .prepare = prepare,
    .close = close_features,
};
