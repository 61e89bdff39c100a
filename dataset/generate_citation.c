/*
 * A citation graph: papers in the order of time, which cite earlier ones. Vertex v cites vertices
 * below v only, and its in-neighbours are what it cites, so sampling from it walks back in time.
 *
 * The literature grows exponentially, so time is counted in papers, not in days: a topic publishes
 * one paper in every round of n_topics papers. Round r holds vertices r * topics to r * topics +
 * topics - 1, in an order of topics that is a random rotation: topic and round of a vertex, and the
 * vertex of a topic and a round, are arithmetic.
 *
 * A reference is drawn in four steps.
 *   who cites    A paper, in proportion to how many references papers like it have: (1 + 9 u^3) for
 *                a uniform u of its own; so most have few and some three times the mean.
 *   which topic  Its own with probability `homophily`, else one beside it on a ring of topics, at a
 *                distance that is uniform on a logarithmic scale.
 *   how old      An exponentially distributed number of the topic's papers ago (a mean of an eighth
 *                of all): most references are recent. Older than the first: anything earlier alike.
 *   how famous   Papers of a topic fall into eras, a 32nd of all each. In the era of that age, rank
 *                r is drawn in proportion to (r + 1)^(-1 / (exponent - 1)), which makes the numbers
 *                of citations within it a power law with that exponent; who has which rank is a
 *                random arrangement of the era's papers. (This takes the place of preferential
 *                attachment, which is the same in its result but needs the graph drawn so far.)
 * Nothing is stored for a vertex, an era or an edge. A paper cites another once: duplicates are
 * dropped, the first papers of all have few others to cite.
 *
 * Training, validation and test papers are those of the first few topics, neighbours on the ring,
 * in the order of time, as the papers with labels are in OGB's papers100M: an epoch then starts
 * from a small part of the graph and sees what that part cites, and what is famous there.
 */
#include "dataset/generate.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/class_features.h"
#include "dataset/random.h"
#include "dataset/edge_sort.h"

enum {
    ERAS = 32,
    MEAN_AGE_SHARE = 8, // mean age of a reference = papers of a topic / this
    CITING_ATTEMPTS = 64,
    FAME_ATTEMPTS = 8,
    CITED = CITING_ATTEMPTS, // groups of SL_DRAW_EDGE from here on are for the cited paper
};

struct citation {
    // Options.
    uint64_t n_topics, n_train_topics;
    double degree, exponent, homophily, noise;
    bool degree_given, weights;

    uint64_t seed, n_nodes;
    uint32_t n_classes;
    double train_ratio, val_ratio;
    uint64_t n_rounds;     // papers of a topic, the last one perhaps missing
    uint64_t era_papers;   // of one topic, a power of two
    double mean_age;       // papers of the topic
    double log_distance;   // of the farthest topic
    double power, span;    // rank = (1 + u * span)^power - 1
    uint64_t train_rounds; // papers of a topic that are trained on, and validated on
    uint64_t val_rounds;
    struct sl_class_features features;
};

// ---- who is who ---------------------------------------------------------------------------------

static uint64_t rotation_of(const struct citation *c, uint64_t round)
{
    return sl_draw(c->seed, SL_DRAW_ROUND, round, 0).w[0] % c->n_topics;
}

static uint64_t topic_of(const struct citation *c, uint64_t vertex)
{
    uint64_t place = vertex % c->n_topics, rotation = rotation_of(c, vertex / c->n_topics);
    return (place + c->n_topics - rotation) % c->n_topics;
}

static uint64_t vertex_of(const struct citation *c, uint64_t topic, uint64_t round)
{
    return round * c->n_topics + (topic + rotation_of(c, round)) % c->n_topics;
}

// ---- references ---------------------------------------------------------------------------------

// Any vertex but the first, which has nothing to cite.
static uint64_t draw_citing(const struct citation *c, uint64_t edge)
{
    uint64_t v = 1;
    for (uint32_t attempt = 0; attempt < CITING_ATTEMPTS; attempt++) {
        struct sl_rng_block b = sl_draw(c->seed, SL_DRAW_EDGE, edge, attempt);
        v = 1 + (uint64_t)(sl_draw_unit(b.w[0], b.w[1]) * (double)(c->n_nodes - 1));
        double u = sl_rng_unit(sl_draw(c->seed, SL_DRAW_REFERENCES, v, 0).w[0]);
        if (sl_rng_unit(b.w[2]) * 10 < 1 + 9 * u * u * u)
            break;
    }
    return v;
}

// Round of the cited paper: one of the topic's before `round`, which is at least 1.
static uint64_t draw_round(const struct citation *c, uint64_t edge, uint64_t topic, uint64_t round,
                           double u)
{
    double age = -log1p(-u) * c->mean_age;
    struct sl_rng_block b = sl_draw(c->seed, SL_DRAW_EDGE, edge, CITED + 1);
    uint64_t at = age < (double)round ? round - 1 - (uint64_t)age
                                      : (uint64_t)(sl_draw_unit(b.w[0], b.w[1]) * (double)round);
    uint64_t era = at / c->era_papers;
    // Who has which rank: odd factors are one-to-one modulo a power of two.
    struct sl_rng_block fame = sl_draw(c->seed, SL_DRAW_FAME, era << 32 | topic, 0);
    for (uint32_t attempt = 0; attempt < FAME_ATTEMPTS; attempt++) {
        b = sl_draw(c->seed, SL_DRAW_EDGE, edge, CITED + 2 + attempt);
        double r = pow(1 + sl_draw_unit(b.w[0], b.w[1]) * c->span, c->power) - 1;
        uint64_t rank = SL_MIN((uint64_t)r, c->era_papers - 1);
        uint64_t place = (rank * (fame.w[0] | 1) + fame.w[1]) & (c->era_papers - 1);
        if (era * c->era_papers + place < round)
            return era * c->era_papers + place;
    }
    return at; // an era that has just begun
}

static uint64_t draw_cited(const struct citation *c, uint64_t edge, uint64_t citing)
{
    struct sl_rng_block b = sl_draw(c->seed, SL_DRAW_EDGE, edge, CITED);
    uint64_t topic = topic_of(c, citing), round = citing / c->n_topics;
    double u = sl_draw_unit(b.w[2], b.w[3]);
    if (round == 0) // before its topic had a paper
        return (uint64_t)(u * (double)citing);
    if (c->n_topics > 1 && sl_rng_unit(b.w[0]) >= c->homophily) {
        uint64_t distance = (uint64_t)exp(sl_rng_unit(b.w[1]) * c->log_distance);
        topic += b.w[0] & 1 ? distance : c->n_topics - distance;
        topic %= c->n_topics;
    }
    return vertex_of(c, topic, draw_round(c, edge, topic, round, u));
}

static void draw_edges(const void *context, uint64_t first, size_t n, uint64_t *keys)
{
    const struct citation *c = context;
    for (size_t i = 0; i < n; i++) {
        uint64_t citing = draw_citing(c, first + i);
        uint64_t cited = draw_cited(c, first + i, citing);
        keys[i] = sl_edge_key((uint32_t)cited, (uint32_t)citing);
    }
}

// Time is counted in papers: a year is a 32nd of them.
static float weight(const void *context, uint32_t source, uint32_t destination)
{
    const struct citation *c = context;
    return sl_generate_year_weight((uint32_t)((uint64_t)source * SL_GENERATE_YEARS / c->n_nodes));
}

// ---- vertices -----------------------------------------------------------------------------------

static void label(const void *context, uint64_t vertex, void *out)
{
    const struct citation *c = context;
    *(int32_t *)out = (int32_t)(topic_of(c, vertex) % c->n_classes);
}

static enum sl_split list(const void *context, uint64_t vertex)
{
    const struct citation *c = context;
    uint64_t round = vertex / c->n_topics;
    if (topic_of(c, vertex) >= c->n_train_topics)
        return SL_SPLIT_COUNT;
    return round < c->train_rounds                   ? SL_SPLIT_TRAIN
           : round < c->train_rounds + c->val_rounds ? SL_SPLIT_VAL
                                                     : SL_SPLIT_TEST;
}

static void features(const void *context, uint64_t vertex, void *out)
{
    const struct citation *c = context;
    sl_class_features_row(&c->features, (uint32_t)topic_of(c, vertex), vertex, out);
}

static void describe(const void *context, cJSON *parameters)
{
    const struct citation *c = context;
    cJSON_AddNumberToObject(parameters, "topics", (double)c->n_topics);
    cJSON_AddNumberToObject(parameters, "train_topics", (double)c->n_train_topics);
    cJSON_AddNumberToObject(parameters, "exponent", c->exponent);
    cJSON_AddNumberToObject(parameters, "homophily", c->homophily);
    cJSON_AddNumberToObject(parameters, "noise", c->noise);
}

// ---- the kind -----------------------------------------------------------------------------------

static void defaults(struct sl_generate *run, void *context)
{
    struct citation *c = context;
    c->n_topics = 100;
    c->n_train_topics = 4;
    c->degree = 15;
    c->exponent = 3;
    c->homophily = 0.8;
    c->noise = 0.6;
    run->nodes = 100000;
    run->classes = SL_GENERATE_CLASSES_AUTO;
    run->train_ratio = 0.8;
    run->val_ratio = 0.1;
}

#define AT(kind, field) SL_OPTION_AT(kind, citation, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "topics", AT(UINT, n_topics), .placeholder = "T", .min = 1, .max = 1e6,
     .help = "number of topics, all of one size; a topic is a class, unless --classes groups them"},
    {.name = "train-topics", AT(UINT, n_train_topics), .placeholder = "K", .min = 1, .max = 1e6,
     .help = "topics whose papers train (the oldest), validate and test; --train-ratio and "
             "--val-ratio are shares of these papers"},
    {SL_GENERATE_DEGREE(citation, "avg-degree",
         "mean number of references of a paper before duplicates are dropped, unless --edges is "
         "given")},
    {SL_GENERATE_EXPONENT(citation, "of the power law of citations within an era of a topic")},
    {SL_GENERATE_HOMOPHILY(citation, "probability that a reference is to the paper's own topic")},
    {SL_GENERATE_NOISE(citation, "of the features, against topic means of length 1")},
    {.name = "weights", AT(FLAG, weights),
     .help = "write edge_weight.npy: newer papers weigh more"},
    {0},
};
// clang-format on

static int prepare_papers(struct citation *c, struct sl_generate *run)
{
    if (run->classes == SL_GENERATE_CLASSES_AUTO)
        run->classes = c->n_topics;
    if (c->n_train_topics > c->n_topics)
        return sl_fail(SL_EINVAL,
                       "generate citation: --train-topics %llu of --topics %llu: wanted "
                       "no more than there are",
                       (unsigned long long)c->n_train_topics, (unsigned long long)c->n_topics);
    if (run->classes > c->n_topics)
        return sl_fail(SL_EINVAL,
                       "generate citation: --classes %llu of --topics %llu: wanted no "
                       "more: a class is a topic, or some of them",
                       (unsigned long long)run->classes, (unsigned long long)c->n_topics);
    if (run->nodes < 2 * c->n_topics)
        return sl_fail(SL_EINVAL,
                       "generate citation: --nodes %llu with --topics %llu: wanted 2 "
                       "papers a topic at least",
                       (unsigned long long)run->nodes, (unsigned long long)c->n_topics);
    c->seed = run->seed;
    c->n_nodes = run->nodes;
    c->n_classes = (uint32_t)run->classes;
    c->train_ratio = run->train_ratio;
    c->val_ratio = run->val_ratio;
    c->n_rounds = sl_div_up(c->n_nodes, c->n_topics);
    c->era_papers = sl_pow2_at_least(SL_MAX(c->n_rounds / ERAS, UINT64_C(1)));
    c->mean_age = (double)c->n_rounds / MEAN_AGE_SHARE;
    c->log_distance = log((double)(c->n_topics / 2 + 1));
    double steepness = 1 / (c->exponent - 1);
    c->power = 1 / (1 - steepness);
    c->span = pow((double)c->era_papers + 1, 1 - steepness) - 1;
    c->train_rounds = (uint64_t)llround(run->train_ratio * (double)c->n_rounds);
    c->val_rounds = (uint64_t)llround(run->val_ratio * (double)c->n_rounds);
    return sl_class_features_init(&c->features, c->seed, (uint32_t)c->n_topics,
                                  (uint32_t)run->feat_dim, c->noise);
}

static int prepare(struct sl_generate *run, void *context, struct sl_generator *out)
{
    struct citation *c = context;
    SL_TRY(sl_generate_check_edges(run, "avg-degree", c->degree_given));
    SL_TRY(prepare_papers(c, run));
    double wanted = c->degree * (double)c->n_nodes;
    *out = (struct sl_generator){
        .n_nodes = c->n_nodes,
        .n_edges = sl_generate_n_edges(run, wanted),
        .dedup = true,
        .feat_dim = c->features.dim,
        .n_classes = c->n_classes,
        .draw_edges = draw_edges,
        .weight = c->weights ? weight : NULL,
        .label = label,
        .list = list,
        .features = features,
        .describe = describe,
    };
    return SL_OK;
}

static void close_features(void *context)
{
    struct citation *c = context;
    sl_class_features_fini(&c->features);
}

const struct sl_generator_kind sl_generate_citation = {
    .name = "citation",
    .help = "papers that cite earlier ones of their topic; training on a few topics",
    .about = "A directed graph of papers in the order of time, each citing earlier ones, mostly "
             "recent or famous ones of its topic. Training vertices are of a few topics only, "
             "so an epoch sees a small part of the graph.",
    .example = "sluice generate citation --nodes 1M --feat-dim 128 --out data/citation\n"
               "sluice generate citation --nodes 10M --topics 400 --train-topics 8 --weights "
               "--out data/citation10m",
    .context_bytes = sizeof(struct citation),
    .defaults = defaults,
    .options = options,
    .prepare = prepare,
    .close = close_features,
};
