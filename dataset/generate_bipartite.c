/*
 * Users and items with planted tastes (bipartite.h): a graph for models of links, of which the best
 * possible ranking, and its share of hits, is known.
 *
 *   users in blocks -> each one's items -> training pairs, both ways -> edge sort
 *                                       -> pairs of the three lists  -> their files, mapped
 *                                       -> hits of the best ranking
 *
 * Users come first, items behind them. Where a user's pairs lie in the lists is known before they
 * are drawn, as how many he has is a function of his rank: lists, edges and hits come of one pass.
 *
 * Features are, but for their first number, the mean direction of an item's taste, or those of a
 * user's tastes in his shares, and noise; the first is the logarithm of how popular or active the
 * vertex is, and noise.
 *
 * Memory: a few words a block of users, and a thread's list of the most active user's items.
 */
#include "dataset/generate.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/npy.h"
#include "common/text/units.h"
#include "dataset/bipartite.h"
#include "dataset/class_features.h"
#include "dataset/edge_sort.h"
#include "dataset/pair_file.h"
#include "dataset/random.h"
#include "dataset/vertex_blocks.h"

enum { EDGES_AT_ONCE = 16384 };

struct bipartite {
    // Options.
    struct sl_bipartite plant;
    uint64_t n_tastes, tastes_each;
    double degree, val, test, noise;
    bool degree_given, with_truth;

    struct sl_class_features features; // of what follows the first number
    uint64_t n_found[SL_SPLIT_COUNT];  // pairs of the lists
    uint64_t n_hits[SL_SPLIT_COUNT];   // of them, by the best ranking
};

// ---- vertices -----------------------------------------------------------------------------------

static void add_mean(const struct sl_class_features *f, uint32_t taste, double share, float *row)
{
    const float *mean = &f->means[(size_t)taste * f->dim];
    for (uint32_t d = 0; d < f->dim; d++)
        row[d] += (float)share * mean[d];
}

static void features(const void *context, uint64_t vertex, void *out)
{
    const struct bipartite *b = context;
    const struct sl_bipartite *plant = &b->plant;
    float *row = out;
    sl_gaussian_row(plant->seed, SL_DRAW_FEATURE, vertex, b->features.dim + 1, row);
    for (uint32_t d = 0; d <= b->features.dim; d++)
        row[d] *= b->features.noise;
    if (vertex < plant->n_users) {
        struct sl_bipartite_user user;
        sl_bipartite_user_init(plant, vertex, &user);
        row[0] += (float)sl_bipartite_log_activity(plant, vertex);
        for (uint32_t i = 0; i < plant->tastes_each; i++)
            add_mean(&b->features, user.taste[i], user.share[i], row + 1);
    } else {
        uint32_t taste;
        sl_bipartite_popularity(plant, vertex - plant->n_users, &taste);
        row[0] += (float)sl_bipartite_log_popularity(plant, vertex - plant->n_users);
        add_mean(&b->features, taste, 1, row + 1);
    }
}

static void truth(const void *context, uint64_t vertex, void *out)
{
    const struct sl_bipartite *plant = &((const struct bipartite *)context)->plant;
    float *row = out;
    uint32_t taste;
    if (vertex < plant->n_users) {
        struct sl_bipartite_user user;
        sl_bipartite_user_init(plant, vertex, &user);
        for (uint32_t c = 0; c < plant->n_tastes; c++)
            row[c] = sl_bipartite_taste(plant, &user, c);
        return;
    }
    for (uint32_t c = 0; c < plant->n_tastes; c++)
        row[c] = 0;
    const float popularity = sl_bipartite_popularity(plant, vertex - plant->n_users, &taste);
    row[taste] = popularity;
}

// ---- edges and lists ----------------------------------------------------------------------------

struct lane {
    struct sl_bipartite_list list;
    uint64_t *keys; // (EDGES_AT_ONCE)
    size_t n;
};

struct pass {
    struct bipartite *of;
    struct sl_edge_sort *sort;
    struct sl_vertex_blocks blocks;
    uint64_t *first[SL_SPLIT_COUNT]; // (blocks + 1) pairs of the lists before each block's
    uint32_t *out[SL_SPLIT_COUNT];   // (n_found, 2)
    struct lane lanes[SL_VERTEX_THREADS_MAX];
    _Atomic uint64_t n_hits[SL_SPLIT_COUNT];
    _Atomic bool failed;
};

static void count_of(const struct sl_bipartite_user *user, uint64_t n[SL_SPLIT_COUNT])
{
    n[SL_SPLIT_TRAIN] = user->n_items - user->n_val - user->n_test;
    n[SL_SPLIT_VAL] = user->n_val;
    n[SL_SPLIT_TEST] = user->n_test;
}

static int count_pairs(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end, n[SL_SPLIT_COUNT];
    (void)thread;
    while (sl_vertex_blocks_take(&p->blocks, &begin, &end))
        for (uint64_t u = begin; u < end; u++) {
            struct sl_bipartite_user user;
            sl_bipartite_user_init(&p->of->plant, u, &user);
            count_of(&user, n);
            for (int s = 0; s < SL_SPLIT_COUNT; s++)
                p->first[s][begin / SL_VERTEX_BLOCK + 1] += n[s];
        }
    return SL_OK;
}

static int flush(struct pass *p, int thread)
{
    struct lane *lane = &p->lanes[thread];
    const size_t n = lane->n;
    lane->n = 0;
    return n ? sl_edge_sort_add(p->sort, thread, lane->keys, NULL, n) : SL_OK;
}

static int put_edges(struct pass *p, int thread, uint32_t user, const uint32_t *items, uint64_t n)
{
    struct lane *lane = &p->lanes[thread];
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t item = (uint32_t)p->of->plant.n_users + items[i];
        if (lane->n + 2 > EDGES_AT_ONCE)
            SL_TRY(flush(p, thread));
        lane->keys[lane->n++] = sl_edge_key(user, item);
        lane->keys[lane->n++] = sl_edge_key(item, user);
    }
    return SL_OK;
}

static uint64_t count_hits(const uint32_t *items, uint64_t n, const uint32_t *best, uint32_t n_best)
{
    uint64_t hits = 0;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n_best; k++)
            hits += items[i] == best[k];
    return hits;
}

// `at`: where this user's pairs begin in each list; moved behind them.
static int put_user(struct pass *p, int thread, uint64_t id, uint64_t at[SL_SPLIT_COUNT])
{
    const struct sl_bipartite *plant = &p->of->plant;
    const struct sl_bipartite_list *list = &p->lanes[thread].list;
    const uint32_t *items = list->items;
    struct sl_bipartite_user user;
    uint64_t n[SL_SPLIT_COUNT];
    uint32_t best[SL_BIPARTITE_BEST], n_best = 0;
    sl_bipartite_user_init(plant, id, &user);
    sl_bipartite_draw(plant, &user, list);
    count_of(&user, n);
    if (n[SL_SPLIT_VAL] + n[SL_SPLIT_TEST])
        n_best = sl_bipartite_best(plant, &user, list, best);
    for (int s = 0; s < SL_SPLIT_COUNT; items += n[s++]) {
        uint32_t *pair = p->out[s] + 2 * at[s];
        for (uint64_t i = 0; i < n[s]; i++) {
            *pair++ = (uint32_t)id;
            *pair++ = (uint32_t)plant->n_users + items[i];
        }
        at[s] += n[s];
        if (s != SL_SPLIT_TRAIN)
            atomic_fetch_add_explicit(&p->n_hits[s], count_hits(items, n[s], best, n_best),
                                      memory_order_relaxed);
    }
    return put_edges(p, thread, (uint32_t)id, list->items, n[SL_SPLIT_TRAIN]);
}

static int put_users(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end, at[SL_SPLIT_COUNT];
    int rc = SL_OK;
    while (rc == SL_OK && !p->failed && sl_vertex_blocks_take(&p->blocks, &begin, &end)) {
        for (int s = 0; s < SL_SPLIT_COUNT; s++)
            at[s] = p->first[s][begin / SL_VERTEX_BLOCK];
        for (uint64_t u = begin; u < end && rc == SL_OK; u++)
            rc = put_user(p, thread, u, at);
    }
    if (rc == SL_OK)
        rc = flush(p, thread);
    if (rc < 0)
        p->failed = true;
    return rc;
}

static int write_pairs(struct pass *p, const struct sl_staging *st, uint64_t n_nodes)
{
    struct sl_npy_writer *w[SL_SPLIT_COUNT] = {NULL};
    int rc = SL_OK;
    for (int s = 0; s < SL_SPLIT_COUNT && rc == SL_OK; s++)
        if (s == SL_SPLIT_TRAIN || p->of->n_found[s])
            rc = sl_pair_file_create(st, (enum sl_split)s, n_nodes, p->of->n_found[s], &w[s],
                                     &p->out[s]);
    if (rc == SL_OK)
        rc = sl_vertex_blocks_run(&p->blocks, "pairs", put_users, p);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        if (w[s])
            rc = sl_npy_writer_close(&w[s], rc);
    return rc;
}

// Ids of a side.
static int write_ids(const struct sl_staging *st, const char *name, uint64_t begin, uint64_t end)
{
    char path[SL_STAGING_PATH_BYTES];
    struct sl_npy_writer *w;
    int rc = SL_OK;
    SL_TRY(sl_npy_writer_open_ids(sl_staging_file(st, name, path), end, &w));
    for (uint64_t v = begin; rc == SL_OK && v < end; v++)
        rc = sl_npy_writer_append_id(w, v);
    return sl_npy_writer_close(&w, rc);
}

static int allocate(struct pass *p, int n_lanes, uint64_t n_blocks)
{
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        if (!(p->first[s] = calloc(n_blocks + 1, sizeof *p->first[s])))
            return sl_fail(SL_ENOMEM, "generate bipartite: no memory for a word a block of users");
    for (int i = 0; i < n_lanes; i++) {
        SL_TRY(sl_bipartite_list_init(&p->of->plant, &p->lanes[i].list));
        if (!(p->lanes[i].keys = malloc(EDGES_AT_ONCE * sizeof *p->lanes[i].keys)))
            return sl_fail(SL_ENOMEM, "generate bipartite: no memory for a thread's edges");
    }
    return SL_OK;
}

static int draw(struct pass *p, const struct sl_generate *run, int n_lanes)
{
    struct bipartite *b = p->of;
    const struct sl_staging *st = &run->making.st;
    const uint64_t n_blocks = sl_div_up(b->plant.n_users, SL_VERTEX_BLOCK);
    SL_TRY(allocate(p, n_lanes, n_blocks));
    SL_TRY(sl_vertex_blocks_run(&p->blocks, "users", count_pairs, p));
    for (int s = 0; s < SL_SPLIT_COUNT; s++) {
        for (uint64_t i = 0; i < n_blocks; i++)
            p->first[s][i + 1] += p->first[s][i];
        b->n_found[s] = p->first[s][n_blocks];
    }
    SL_TRY(write_pairs(p, st, run->generator.n_nodes));
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        b->n_hits[s] = p->n_hits[s];
    SL_TRY(write_ids(st, "users.npy", 0, b->plant.n_users));
    return write_ids(st, "items.npy", b->plant.n_users, run->generator.n_nodes);
}

static int draw_all(struct sl_generate *run, struct sl_edge_sort *sort, int n_lanes)
{
    struct pass *p = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "generate bipartite: no memory");
    p->of = run->context;
    p->sort = sort;
    sl_vertex_blocks_init(&p->blocks, p->of->plant.n_users, (uint64_t)n_lanes,
                          &run->making.progress);
    int rc = draw(p, run, n_lanes);
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        free(p->first[s]);
    for (int i = 0; i < n_lanes; i++) {
        sl_bipartite_list_fini(&p->lanes[i].list);
        free(p->lanes[i].keys);
    }
    free(p);
    return rc;
}

// ---- what is said of it -------------------------------------------------------------------------

static double best_hits(const struct bipartite *b, enum sl_split split)
{
    return (double)b->n_hits[split] / (double)b->n_found[split];
}

static void describe(const void *context, cJSON *parameters)
{
    const struct bipartite *b = context;
    cJSON_AddNumberToObject(parameters, "users", (double)b->plant.n_users);
    cJSON_AddNumberToObject(parameters, "items", (double)b->plant.n_items);
    cJSON_AddNumberToObject(parameters, "tastes", b->plant.n_tastes);
    cJSON_AddNumberToObject(parameters, "tastes_each", b->plant.tastes_each);
    cJSON_AddNumberToObject(parameters, "stray", b->plant.stray);
    cJSON_AddNumberToObject(parameters, "exponent", b->plant.item_exponent);
    cJSON_AddNumberToObject(parameters, "user_exponent", b->plant.user_exponent);
    cJSON_AddNumberToObject(parameters, "noise", b->noise);
    cJSON_AddNumberToObject(parameters, "val", b->val);
    cJSON_AddNumberToObject(parameters, "test", b->test);
    cJSON *best = cJSON_AddObjectToObject(parameters, "best_hits");
    cJSON_AddNumberToObject(best, "k", SL_BIPARTITE_BEST);
    if (b->n_found[SL_SPLIT_VAL])
        cJSON_AddNumberToObject(best, "val", best_hits(b, SL_SPLIT_VAL));
    if (b->n_found[SL_SPLIT_TEST])
        cJSON_AddNumberToObject(best, "test", best_hits(b, SL_SPLIT_TEST));
}

static void summarise(const void *context, struct sl_table *t)
{
    static const char *const names[SL_SPLIT_COUNT] = {"training", "validation", "test"};
    char a[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    const struct bipartite *b = context;
    sl_table_row(t, "sides|%s users, then %s items", sl_units_grouped(a, b->plant.n_users),
                 sl_units_grouped(c, b->plant.n_items));
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        if (s == SL_SPLIT_TRAIN || b->n_found[s] == 0)
            sl_table_row(t, "%s|%s pairs", names[s], sl_units_grouped(a, b->n_found[s]));
        else
            sl_table_row(t,
                         "%s|%s pairs, the best %d answers for each user have at most %.4f of them",
                         names[s], sl_units_grouped(a, b->n_found[s]), SL_BIPARTITE_BEST,
                         best_hits(b, (enum sl_split)s));
}

// ---- the kind -----------------------------------------------------------------------------------

static void defaults(struct sl_generate *run, void *context)
{
    struct bipartite *b = context;
    b->plant.n_users = 50000;
    b->plant.n_items = 10000;
    b->plant.stray = 0.1;
    b->plant.item_exponent = 2.5;
    b->plant.user_exponent = 4;
    b->n_tastes = 200;
    b->tastes_each = 3;
    b->degree = 20;
    b->val = b->test = 0.05;
    b->noise = 0.3;
    run->classes = 0;
}

#define AT(kind, field) SL_OPTION_AT(kind, bipartite, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "users", AT(UINT, plant.n_users), .placeholder = "N", .min = 1,
     .max = SL_GENERATE_NODES_MAX, .help = "vertices 0 to N - 1"},
    {.name = "items", AT(UINT, plant.n_items), .placeholder = "N", .min = 1,
     .max = SL_GENERATE_NODES_MAX, .help = "vertices behind the users"},
    {SL_GENERATE_DEGREE(bipartite, "degree",
         "mean number of items of a user, all different, unless --edges is given")},
    {.name = "tastes", AT(UINT, n_tastes), .placeholder = "C", .min = 1, .max = 1e6,
     .help = "number of tastes; an item is of one"},
    {.name = "tastes-each", AT(UINT, tastes_each), .placeholder = "C", .min = 1,
     .max = SL_BIPARTITE_TASTES_MAX, .help = "tastes of a user, in random shares"},
    {SL_GENERATE_REAL(bipartite, plant.stray, "stray", "P", 0, 1,
         "probability that an item is of any taste, not of the user's")},
    {SL_GENERATE_REAL(bipartite, plant.item_exponent, "exponent", "X", 2.05, 100,
         "of the power law of items of a taste: 100 makes them nearly alike")},
    {SL_GENERATE_REAL(bipartite, plant.user_exponent, "user-exponent", "X", 2.05, 100,
         "of the power law of users")},
    {SL_GENERATE_NOISE(bipartite, "of the features, against means of tastes of length 1")},
    {SL_GENERATE_REAL(bipartite, val, "val", "P", 0, 1, "share of the edges held out to validate")},
    {SL_GENERATE_REAL(bipartite, test, "test", "P", 0, 1,
         "share held out to test; a user keeps one edge at least")},
    {.name = "truth", AT(FLAG, with_truth),
     .help = "write node_truth.npy: products of its rows, of a user and an item, are the chances"},
    {0},
};
// clang-format on

#define FAIL(...) sl_fail(SL_EINVAL, "generate bipartite: " __VA_ARGS__)

static int check_sizes(const struct bipartite *b)
{
    const struct sl_bipartite *p = &b->plant;
    if ((double)p->n_users + (double)p->n_items > SL_GENERATE_NODES_MAX)
        return FAIL("--users %" PRIu64 " and --items %" PRIu64 ": wanted at most %.0f together",
                    p->n_users, p->n_items, SL_GENERATE_NODES_MAX);
    if (b->n_tastes > p->n_items)
        return FAIL("--tastes %" PRIu64 " of --items %" PRIu64 ": wanted an item each at least",
                    b->n_tastes, p->n_items);
    if (b->tastes_each > b->n_tastes)
        return FAIL("--tastes-each %" PRIu64 " of --tastes %" PRIu64
                    ": wanted no more than there are",
                    b->tastes_each, b->n_tastes);
    return SL_OK;
}

static int check_pairs(const struct bipartite *b)
{
    const struct sl_bipartite *p = &b->plant;
    if (p->n_pairs && p->n_pairs < p->n_users)
        return FAIL("%" PRIu64 " edges for --users %" PRIu64
                    ": wanted one each at least, or --edges 0",
                    p->n_pairs, p->n_users);
    if ((double)p->n_pairs > (double)p->n_users * (double)p->n_items)
        return FAIL("%" PRIu64 " edges, and --users %" PRIu64 " times --items %" PRIu64
                    " are only %.0f pairs: wanted fewer edges",
                    p->n_pairs, p->n_users, p->n_items, (double)p->n_users * (double)p->n_items);
    const uint64_t most = sl_bipartite_most(p), offer = sl_bipartite_offer(p);
    if (most > offer)
        return FAIL("of %" PRIu64 " edges the most active of --users %" PRIu64 " gets %" PRIu64
                    ", wanted no more than the %" PRIu64 " items %s: take fewer edges, more --items"
                    " or a larger --user-exponent",
                    p->n_pairs, p->n_users, most, offer,
                    p->stray > 0 ? "that there are" : "of a user's tastes (--stray is 0)");
    return SL_OK;
}

static int check_shares(struct bipartite *b)
{
    struct sl_bipartite *p = &b->plant;
    p->n_val = (uint64_t)llround(b->val * (double)p->n_pairs);
    p->n_test = (uint64_t)llround(b->test * (double)p->n_pairs);
    if (b->val + b->test < 1 && p->n_val + p->n_test <= p->n_spare)
        return SL_OK;
    return FAIL("--val %g and --test %g hold out %" PRIu64 " of %" PRIu64 " edges, wanted %" PRIu64
                " at most, as each user keeps one: take smaller shares",
                b->val, b->test, p->n_val + p->n_test, p->n_pairs, p->n_spare);
}

static int prepare(struct sl_generate *run, void *context, struct sl_generator *out)
{
    struct bipartite *b = context;
    struct sl_bipartite *p = &b->plant;
    SL_TRY(sl_generate_check_edges(run, "degree", b->degree_given));
    SL_TRY(check_sizes(b));
    p->seed = run->seed;
    p->n_tastes = (uint32_t)b->n_tastes;
    p->tastes_each = (uint32_t)b->tastes_each;
    p->n_pairs = sl_generate_n_edges(run, b->degree * (double)p->n_users);
    sl_bipartite_init(p);
    SL_TRY(check_pairs(b));
    SL_TRY(check_shares(b));
    *out = (struct sl_generator){
        .n_nodes = p->n_users + p->n_items,
        .n_edges = p->n_pairs,
        .both_ways = true,
        .feat_dim = (uint32_t)run->feat_dim,
        .first_side = p->n_users,
        .draw_all = draw_all,
        .features = features,
        .truth_dim = b->with_truth ? p->n_tastes : 0,
        .truth = truth,
        .summarise = summarise,
        .describe = describe,
    };
    return out->feat_dim ? sl_class_features_init(&b->features, p->seed, p->n_tastes,
                                                  out->feat_dim - 1, b->noise)
                         : SL_OK;
}

static void close_features(void *context)
{
    sl_class_features_fini(&((struct bipartite *)context)->features);
}

const struct sl_generator_kind sl_generate_bipartite = {
    .name = "bipartite",
    .help = "users and items with planted tastes; held-out edges, the best ranking is known",
    .about = "Users and the items that they have, by tastes that are known: edges in both "
             "directions, val_edges.npy and test_edges.npy held out, train_edges.npy those of the "
             "graph from users to items. The summary and metadata.json have the "
             "best that a model can reach: the share of held-out items among the 20 items with the "
             "largest chance for their user, of those that the graph does not join to him.",
    .example = "sluice generate bipartite --users 50000 --items 10000 --out data/shop\n"
               "sluice generate bipartite --users 5M --items 500k --edges 100M --feat-dim 0 "
               "--out data/shop5m",
    .context_bytes = sizeof(struct bipartite),
    .defaults = defaults,
    .options = options,
    .of_sides = true,
    .prepare = prepare,
    .close = close_features,
};
