/*
 * R-MAT (Chakrabarti, Zhan and Faloutsos, SDM 2004): an edge falls into one quadrant of the
 * adjacency matrix with probabilities a, b, c, d, then into a quadrant of that, and so on, one
 * level for each bit of a vertex number. In- and out-degrees are skewed; ids are scrambled so that
 * they tell nothing about degrees. Edges that the recursion draws twice are kept, as Graph500
 * does, unless --dedup asks otherwise.
 *
 * When the number of vertices is not a power of two, edges with an end outside are drawn again.
 */
#include "dataset/generate.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "dataset/random.h"
#include "dataset/edge_sort.h"
#include "dataset/permutation.h"

enum { BATCH = 512, MAX_ATTEMPTS = 255, LEVELS_PER_BLOCK = 4 };

struct rmat {
    // Options.
    double a, b, c;
    uint64_t given_scale, edge_factor;
    bool edge_factor_given, dedup, weights;

    uint64_t seed, n_nodes;
    unsigned scale;                        // levels
    uint32_t limit_a, limit_ab, limit_abc; // cumulative, in 2^-32
    uint32_t n_classes, feat_dim;
    struct sl_permutation scramble;
};

/*
 * Source and destination ranks of edges first .. first + n (n at most BATCH). A word w chooses the
 * quadrant: w < a top left, < a+b top right (destination's bit), < a+b+c bottom left (source's
 * bit), else bottom right.
 */
SL_SIMD_VOID(draw_ranks,
             (const struct rmat *r, uint64_t first, size_t n, uint32_t attempt,
              uint32_t *restrict source, uint32_t *restrict destination),
             (r, first, n, attempt, source, destination))
{
    uint32_t w[LEVELS_PER_BLOCK][BATCH];
    const uint32_t limit_a = r->limit_a, limit_ab = r->limit_ab, limit_abc = r->limit_abc;
    for (size_t i = 0; i < n; i++)
        source[i] = destination[i] = 0;
    for (unsigned level = 0; level < r->scale; level += LEVELS_PER_BLOCK) {
        uint32_t c0 =
            sl_rng_word0(SL_RNG_GENERATE, SL_DRAW_EDGE, attempt << 8 | level / LEVELS_PER_BLOCK);
        for (size_t i = 0; i < n; i++) {
            uint64_t edge = first + i;
            struct sl_rng_block b =
                sl_philox(r->seed, c0, (uint32_t)edge, (uint32_t)(edge >> 32), 0);
            for (unsigned l = 0; l < LEVELS_PER_BLOCK; l++)
                w[l][i] = b.w[l];
        }
        unsigned n_levels = SL_MIN(r->scale - level, (unsigned)LEVELS_PER_BLOCK);
        for (unsigned l = 0; l < n_levels; l++) {
            for (size_t i = 0; i < n; i++) {
                uint32_t over_a = w[l][i] >= limit_a, over_ab = w[l][i] >= limit_ab;
                uint32_t over_abc = w[l][i] >= limit_abc;
                source[i] = source[i] << 1 | over_ab;
                destination[i] = destination[i] << 1 | (over_a ^ over_ab ^ over_abc);
            }
        }
    }
}

static void draw_edges(const void *context, uint64_t first, size_t n, uint64_t *keys)
{
    const struct rmat *r = context;
    uint32_t source[BATCH], destination[BATCH];
    for (size_t begin = 0; begin < n; begin += BATCH) {
        size_t m = SL_MIN(n - begin, (size_t)BATCH);
        draw_ranks(r, first + begin, m, 0, source, destination);
        for (size_t i = 0; i < m; i++) {
            for (uint32_t attempt = 1; source[i] >= r->n_nodes || destination[i] >= r->n_nodes;
                 attempt++) {
                if (attempt > MAX_ATTEMPTS) { // needs extreme probabilities
                    source[i] = (uint32_t)(source[i] % r->n_nodes);
                    destination[i] = (uint32_t)(destination[i] % r->n_nodes);
                } else {
                    draw_ranks(r, first + begin + i, 1, attempt, &source[i], &destination[i]);
                }
            }
            keys[begin + i] =
                sl_edge_key((uint32_t)sl_permutation_apply(&r->scramble, source[i]),
                            (uint32_t)sl_permutation_apply(&r->scramble, destination[i]));
        }
    }
}

static void label(const void *context, uint64_t vertex, void *out)
{
    const struct rmat *r = context;
    struct sl_rng_block b = sl_draw(r->seed, SL_DRAW_LABEL, vertex, 0);
    *(int32_t *)out = (int32_t)((uint64_t)b.w[0] * r->n_classes >> 32);
}

static float weight(const void *context, uint32_t source, uint32_t destination)
{
    const struct rmat *r = context;
    struct sl_rng_block b = sl_draw(r->seed, SL_DRAW_YEAR, source, 0);
    return sl_generate_year_weight(b.w[0] % SL_GENERATE_YEARS);
}

// Uniform in [-1, 1): features that say nothing, of the right size.
static void features(const void *context, uint64_t vertex, void *out)
{
    const struct rmat *r = context;
    float *row = out;
    for (uint32_t d = 0; d < r->feat_dim; d += 4) {
        struct sl_rng_block b = sl_draw(r->seed, SL_DRAW_FEATURE, vertex, d / 4);
        for (uint32_t k = 0; k < 4 && d + k < r->feat_dim; k++)
            row[d + k] = 2 * sl_rng_unit(b.w[k]) - 1;
    }
}

static void describe(const void *context, cJSON *parameters)
{
    const struct rmat *r = context;
    cJSON_AddNumberToObject(parameters, "a", r->a);
    cJSON_AddNumberToObject(parameters, "b", r->b);
    cJSON_AddNumberToObject(parameters, "c", r->c);
    cJSON_AddNumberToObject(parameters, "d", 1 - r->a - r->b - r->c);
}

// A probability as the number of 32-bit words below it.
static uint32_t limit_of(double p)
{
    return (uint32_t)SL_MIN(llround(p * 4294967296.0), (long long)UINT32_MAX);
}

static void defaults(struct sl_generate *run, void *context)
{
    struct rmat *r = context;
    r->a = 0.57;
    r->b = r->c = 0.19;
    r->edge_factor = 16;
    run->feat_dim = run->classes = 0;
}

#define AT(kind, field) SL_OPTION_AT(kind, rmat, field)
#define GIVEN(field)    SL_OPTION_GIVEN(rmat, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "scale", AT(UINT, given_scale), .placeholder = "S", .min = 1, .max = 31,
     .no_default = true, .help = "2^S vertices, instead of --nodes"},
    {.name = "edge-factor", AT(UINT, edge_factor), .placeholder = "F", .min = 1, .max = 1e6,
     GIVEN(edge_factor_given), .help = "edges = F times the vertices, unless --edges is given"},
    {.name = "a", AT(REAL, a), .placeholder = "P", .min = 0, .max = 1,
     .help = "probability of the top left quadrant"},
    {.name = "b", AT(REAL, b), .placeholder = "P", .min = 0, .max = 1,
     .help = "of the top right one"},
    {.name = "c", AT(REAL, c), .placeholder = "P", .min = 0, .max = 1,
     .help = "of the bottom left one; the last gets the rest"},
    {.name = "dedup", AT(FLAG, dedup), .help = "keep each edge once (fewer edges than asked for)"},
    {.name = "weights", AT(FLAG, weights),
     .help = "write edge_weight.npy: vertices have a random year, newer ones weigh more"},
    {0},
};
// clang-format on

static int check(const struct sl_generate *run, const struct rmat *r)
{
    if ((r->given_scale == 0) == (run->nodes == 0))
        return sl_fail(SL_EINVAL, "generate rmat: %s: give one of --scale S and --nodes N",
                       run->nodes ? "--scale and --nodes both given"
                                  : "no number of vertices given");
    SL_TRY(sl_generate_check_edges(run, "edge-factor", r->edge_factor_given));
    if (r->a + r->b + r->c > 1 + 1e-9)
        return sl_fail(SL_EINVAL, "generate rmat: --a %g + --b %g + --c %g is %g: wanted at most 1",
                       r->a, r->b, r->c, r->a + r->b + r->c);
    return SL_OK;
}

static int prepare(struct sl_generate *run, void *context, struct sl_generator *out)
{
    struct rmat *r = context;
    SL_TRY(check(run, r));
    r->n_nodes = r->given_scale ? UINT64_C(1) << r->given_scale : run->nodes;
    r->scale = (unsigned)__builtin_ctzll(sl_pow2_at_least(r->n_nodes));
    r->seed = run->seed;
    r->n_classes = (uint32_t)run->classes;
    r->feat_dim = (uint32_t)run->feat_dim;
    r->limit_a = limit_of(r->a);
    r->limit_ab = limit_of(r->a + r->b);
    r->limit_abc = limit_of(r->a + r->b + r->c);
    sl_permutation_init(&r->scramble, r->n_nodes, r->seed, 0);
    *out = (struct sl_generator){
        .n_nodes = r->n_nodes,
        .n_edges = sl_generate_n_edges(run, (double)r->edge_factor * (double)r->n_nodes),
        .dedup = r->dedup,
        .feat_dim = r->feat_dim,
        .n_classes = r->n_classes,
        .draw_edges = draw_edges,
        .weight = r->weights ? weight : NULL,
        .label = label,
        .features = features,
        .describe = describe,
    };
    return SL_OK;
}

const struct sl_generator_kind sl_generate_rmat = {
    .name = "rmat",
    .help = "R-MAT: power-law degrees, random features and labels",
    .about = "A directed graph with power-law degrees (R-MAT). Vertex ids are independent of "
             "degrees. Features and labels, when asked for, are random.",
    .example = "sluice generate rmat --scale 20 --edge-factor 16 --out data/rmat20\n"
               "sluice generate rmat --nodes 1e6 --edges 100M --feat-dim 128 --classes 40 "
               "--out data/rmat1m",
    .context_bytes = sizeof(struct rmat),
    .defaults = defaults,
    .options = options,
    .prepare = prepare,
};
