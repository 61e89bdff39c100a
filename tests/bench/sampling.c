/*
 * sampling.c - how fast one thread samples and renumbers, against what this memory can do.
 *
 *   sampling [--scale 23] [--edge-factor 16] [--fanout 15,10,5] [--batch 1000] [--rounds 41]
 *            [--weighted]
 *
 * An R-MAT graph (a, b, c = 0.57, 0.19, 0.19; vertices relabelled by a bijection) is made in
 * memory with huge pages. Then rounds of one mini-batch by the cpu kernel, a pass of random 4-byte
 * reads of the very same indices array (16 independent loads at a time), and, every eighth round,
 * the same batch by the ref kernel. A sampled edge is two dependent misses (the neighbour's id,
 * its slot in the map), so half the random reads a second is what a sampler without locality could
 * reach; the aim is 1.2 times that. Medians of processor time, since neighbours make noise.
 *
 * --weighted: edges have random weights, and each round draws from the batch's seeds by weight too,
 * with the same map and arrays: at most 1.5 times the time of uniform sampling an edge is the aim.
 *
 * Prints lines for people and, last, one JSON object.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/philox.h"
#include "common/base/simd.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/kernels.h"
#include "tests/bench/bench.h"

enum {
    LANES = 16,
    HOPS_MAX = 8,
    READS = 1 << 20, // random reads a round
    REF_EVERY = 8,
    WARM_UP = 3,
};
#define SEED UINT64_C(7)

struct options {
    const char *of_hops; // --fanout
    uint32_t scale, edge_factor, batch, rounds, n_hops;
    bool weighted;
    int64_t fanout[HOPS_MAX];
};

struct graph {
    uint32_t n_nodes;
    uint64_t n_edges;
    uint64_t *indptr;
    uint32_t *indices;
    double *weight_prefix; // or NULL
};

struct batch {
    struct sl_idmap *map;
    uint32_t *seeds; // (batch)
    uint32_t *nodes, nodes_capacity, n_nodes;
    uint32_t *indptr[HOPS_MAX];
    uint32_t *indices[HOPS_MAX];
    uint64_t indices_capacity[HOPS_MAX];
    uint32_t n_dst[HOPS_MAX], n_edges[HOPS_MAX];
};

// ---- graph --------------------------------------------------------------------------------------

// A bijection of 0 .. 2^scale - 1, so that a vertex's number says nothing about its degree.
static inline uint32_t relabel(uint32_t x, uint32_t scale)
{
    uint32_t mask = (uint32_t)(((uint64_t)1 << scale) - 1);
    for (int i = 0; i < 2; i++) {
        x = (x * 0x9E3779B1u + 0x7F4A7C15u) & mask;
        x ^= x >> (scale / 2 + 1);
        x = (x * 0x85EBCA6Bu) & mask;
        x ^= x >> (scale / 3 + 1);
    }
    return x;
}

// LANES edges from edge `first` on: 16 random bits a level of the recursion.
SL_SIMD_VOID(rmat_lanes, (uint64_t first, uint32_t scale, uint32_t *src, uint32_t *dst),
             (first, scale, src, dst))
{
    uint32_t u[LANES] = {0}, v[LANES] = {0}, w[4][LANES];
    for (uint32_t level = 0; level < scale; level++) {
        if (level % 8 == 0)
            for (int l = 0; l < LANES; l++) {
                struct sl_rng_block b =
                    sl_philox(SEED, sl_rng_word0(SL_RNG_GENERATE, 0, level / 8),
                              (uint32_t)(first + (uint64_t)l), (uint32_t)(first >> 32), 0);
                w[0][l] = b.w[0];
                w[1][l] = b.w[1];
                w[2][l] = b.w[2];
                w[3][l] = b.w[3];
            }
        const uint32_t *word = w[level % 8 / 2];
        for (int l = 0; l < LANES; l++) {
            uint32_t r = level & 1 ? word[l] >> 16 : word[l] & 0xffff;
            uint32_t down = r >= 49807;                               // 0.76
            uint32_t right = (r >= 37355 && r < 49807) || r >= 62259; // 0.57 .. 0.76, 0.95 ..
            u[l] = u[l] << 1 | down;
            v[l] = v[l] << 1 | right;
        }
    }
    for (int l = 0; l < LANES; l++) {
        src[l] = relabel(u[l], scale);
        dst[l] = relabel(v[l], scale);
    }
}

// CSC of the edges. Two threads: each counts and places the edges that end in its half of the
// vertices, so the order within a row is that of the edges and does not depend on timing.
static void make_graph(const struct options *o, struct graph *g)
{
    g->n_nodes = (uint32_t)1 << o->scale;
    g->n_edges = (uint64_t)g->n_nodes * o->edge_factor;
    size_t edge_bytes = g->n_edges * sizeof(uint32_t);
    size_t indptr_bytes = ((size_t)g->n_nodes + 1) * sizeof(uint64_t);
    uint32_t *src = must(sl_pages_alloc(edge_bytes));
    uint32_t *dst = must(sl_pages_alloc(edge_bytes));
    uint64_t *next = must(sl_pages_alloc(indptr_bytes));
    g->indptr = must(sl_pages_alloc(indptr_bytes));
    g->indices = must(sl_pages_alloc(edge_bytes));

#pragma omp parallel for schedule(static) num_threads(2)
    for (uint64_t e = 0; e < g->n_edges; e += LANES)
        rmat_lanes(e, o->scale, src + e, dst + e);

    uint32_t half = g->n_nodes / 2;
#pragma omp parallel for schedule(static, 1) num_threads(2)
    for (int side = 0; side < 2; side++)
        for (uint64_t e = 0; e < g->n_edges; e++)
            if ((dst[e] >= half) == side)
                g->indptr[dst[e] + 1]++;
    for (uint32_t v = 0; v < g->n_nodes; v++)
        g->indptr[v + 1] += g->indptr[v];
    memcpy(next, g->indptr, indptr_bytes);
#pragma omp parallel for schedule(static, 1) num_threads(2)
    for (int side = 0; side < 2; side++)
        for (uint64_t e = 0; e < g->n_edges; e++) {
            if (e + 32 < g->n_edges && (dst[e + 32] >= half) == side)
                __builtin_prefetch(&next[dst[e + 32]], 1);
            if ((dst[e] >= half) == side)
                g->indices[next[dst[e]]++] = src[e];
        }
    sl_pages_free(src, edge_bytes);
    sl_pages_free(dst, edge_bytes);
    sl_pages_free(next, indptr_bytes);
}

// Weights in (0, 1], and their running sums.
static void make_weights(struct graph *g)
{
    size_t weight_bytes = g->n_edges * sizeof(float);
    float *weight = must(sl_pages_alloc(weight_bytes));
    g->weight_prefix = must(sl_pages_alloc(g->n_edges * sizeof(double)));
    for (uint64_t e = 0; e < g->n_edges; e++) {
        uint64_t x = (e + 1) * 0x9E3779B97F4A7C15u;
        x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
        weight[e] = (float)((x >> 40) + 1) * 0x1p-24f;
    }
    const struct sl_topology_view topology = {.n_nodes = g->n_nodes, .indptr = g->indptr};
    must_ok(sl_kernels_cpu()->weight_prefix(&topology, weight, g->weight_prefix));
    sl_pages_free(weight, weight_bytes);
}

// ---- what is measured ---------------------------------------------------------------------------

static void make_batch(const struct options *o, const struct graph *g, struct batch *b)
{
    uint64_t n = o->batch;
    must_ok(sl_idmap_create(o->batch, &b->map));
    b->seeds = must(sl_pages_alloc(n * sizeof *b->seeds));
    for (uint32_t h = 0; h < o->n_hops; h++) {
        uint64_t edges = o->fanout[h] < 0 ? g->n_edges : n * (uint64_t)o->fanout[h];
        edges = SL_MIN(edges, SL_MIN(g->n_edges, (uint64_t)UINT32_MAX));
        b->indices_capacity[h] = edges;
        b->indptr[h] = must(sl_pages_alloc((n + 1) * sizeof(uint32_t)));
        b->indices[h] = must(sl_pages_alloc(SL_MAX(edges, (uint64_t)1) * sizeof(uint32_t)));
        n = SL_MIN(n + edges, (uint64_t)g->n_nodes);
    }
    b->nodes_capacity = (uint32_t)n;
    b->nodes = must(sl_pages_alloc(n * sizeof *b->nodes));
}

static uint32_t count_reached(const struct graph *g)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < g->n_nodes; v++)
        n += g->indptr[v + 1] > g->indptr[v];
    return n;
}

// Distinct vertices with neighbours; uses the map, which is reset before each batch anyway.
static void choose_seeds(const struct options *o, const struct graph *g, struct batch *b,
                         uint32_t number)
{
    uint32_t n = 0;
    must_ok(sl_idmap_reset(b->map, o->batch));
    for (uint32_t try = 0; n < o->batch; try++) {
        uint32_t word0 = sl_rng_word0(SL_RNG_SHUFFLE, 0, 0);
        uint32_t v = sl_philox(SEED, word0, try, number, 0).w[0] & (g->n_nodes - 1);
        uint32_t local;
        if (g->indptr[v + 1] > g->indptr[v])
            must_ok(sl_idmap_insert(b->map, v, b->seeds, &n, o->batch, &local));
    }
}

// Returns the number of edges.
static uint64_t sample(const struct sl_kernels *kernels, enum sl_sampler_kind kind,
                       const struct options *o, const struct graph *g, struct batch *b,
                       uint32_t number)
{
    uint64_t edges = 0;
    struct sl_topology_view topology = {.n_nodes = g->n_nodes,
                                        .indptr = g->indptr,
                                        .indices = g->indices,
                                        .indices_dtype = SL_DTYPE_I32,
                                        .weight_prefix = g->weight_prefix,
                                        .weights_positive = 1};
    must_ok(sl_idmap_reset(b->map, o->batch));
    b->n_nodes = 0;
    for (uint32_t i = 0; i < o->batch; i++) {
        uint32_t local;
        must_ok(
            sl_idmap_insert(b->map, b->seeds[i], b->nodes, &b->n_nodes, b->nodes_capacity, &local));
    }
    for (uint32_t h = 0; h < o->n_hops; h++) {
        b->n_dst[h] = b->n_nodes;
        struct sl_khop_args args = {.topology = &topology,
                                    .seed = SEED,
                                    .stream = SL_RNG_SAMPLE,
                                    .batch = number,
                                    .hop = h,
                                    .fanout = o->fanout[h],
                                    .n_dst = b->n_nodes,
                                    .nodes = b->nodes,
                                    .n_nodes = &b->n_nodes,
                                    .nodes_capacity = b->nodes_capacity,
                                    .map = b->map,
                                    .indptr = b->indptr[h],
                                    .indices = b->indices[h],
                                    .indices_capacity = b->indices_capacity[h],
                                    .n_edges = &b->n_edges[h]};
        must_ok(kernels->sample[kind](&args));
        edges += b->n_edges[h];
    }
    return edges;
}

static volatile uint64_t sink;

static void read_random(const struct graph *g, uint64_t round)
{
    uint64_t mask = sl_pow2_at_least(g->n_edges) - 1, sum = 0, state = round * READS;
    if (mask >= g->n_edges)
        mask >>= 1;
    for (uint32_t i = 0; i < READS; i += 16) {
        uint64_t at[16];
        for (int j = 0; j < 16; j++) {
            uint64_t x = ++state * 0x9E3779B97F4A7C15u;
            x = (x ^ x >> 29) * 0xBF58476D1CE4E5B9u;
            at[j] = x >> 20 & mask;
        }
        for (int j = 0; j < 16; j++)
            sum += g->indices[at[j]];
    }
    sink += sum;
}

// As many Philox blocks as the batch's draws took, by the instructions that the kernel uses.
static void philox_alone(uint64_t blocks, uint32_t number)
{
    uint32_t words[4 * SL_CPU_PHILOX_LANES];
    for (uint64_t i = 0; i < blocks; i += SL_CPU_PHILOX_LANES) {
        sl_cpu_philox_words(SEED, SL_RNG_SAMPLE, 0, number, 0, i, SL_CPU_PHILOX_LANES, words);
        sink += words[0];
    }
}

static uint64_t philox_blocks(const struct options *o, const struct graph *g, const struct batch *b)
{
    uint64_t blocks = 0;
    for (uint32_t h = 0; h < o->n_hops; h++)
        for (uint32_t i = 0; o->fanout[h] > 0 && i < b->n_dst[h]; i++) {
            uint32_t v = b->nodes[i];
            if (g->indptr[v + 1] - g->indptr[v] > (uint64_t)o->fanout[h])
                blocks += sl_div_up((uint64_t)o->fanout[h], 4);
        }
    return blocks;
}

// ---- the run ------------------------------------------------------------------------------------

static double seconds_since(uint64_t start_ns)
{
    return (double)(sl_now_ns() - start_ns) * 1e-9;
}

// Processor time of this thread, which other programs on the same cores do not lengthen.
static uint64_t own_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double own_seconds_since(uint64_t start_ns)
{
    return (double)(own_ns() - start_ns) * 1e-9;
}

static void run(const struct options *o, const struct graph *g)
{
    const struct sl_kernels *cpu = sl_kernels_cpu(), *ref = sl_kernels_ref();
    struct batch b = {0};
    make_batch(o, g, &b);
    double *rate = must(calloc(o->rounds * 6, sizeof *rate));
    double *reads = rate + o->rounds, *share = reads + o->rounds;
    double *ref_rate = share + o->rounds, *ratio = ref_rate + o->rounds;
    double *by_weight = ratio + o->rounds;
    uint32_t n_ref = 0;
    double total_edges = 0, total_nodes = 0;

    for (uint32_t i = 0; i < o->rounds + WARM_UP; i++) {
        choose_seeds(o, g, &b, i);
        uint64_t start = own_ns();
        uint64_t edges = sample(cpu, SL_SAMPLER_KHOP, o, g, &b, i);
        double seconds = own_seconds_since(start);
        uint64_t blocks = philox_blocks(o, g, &b);
        start = own_ns();
        philox_alone(blocks, i);
        double philox_seconds = own_seconds_since(start);
        start = own_ns();
        read_random(g, i);
        double read_seconds = own_seconds_since(start);
        double weighted_seconds = 0, weighted_edges = 1;
        if (o->weighted) {
            struct batch again = b;
            start = own_ns();
            weighted_edges = (double)sample(cpu, SL_SAMPLER_WEIGHTED, o, g, &again, i);
            weighted_seconds = own_seconds_since(start);
        }
        if (i < WARM_UP)
            continue;
        uint32_t r = i - WARM_UP;
        rate[r] = (double)edges / seconds;
        reads[r] = READS / read_seconds;
        ratio[r] = rate[r] / (reads[r] / 2);
        share[r] = philox_seconds / seconds;
        by_weight[r] = weighted_seconds / weighted_edges * rate[r];
        total_edges += (double)edges;
        total_nodes += b.n_nodes;
        if (r % REF_EVERY == 0) {
            start = own_ns();
            edges = sample(ref, SL_SAMPLER_KHOP, o, g, &b, i);
            ref_rate[n_ref++] = (double)edges / own_seconds_since(start);
        }
    }

    double edges_per_s = median(rate, o->rounds), reads_per_s = median(reads, o->rounds);
    double ref_edges_per_s = median(ref_rate, n_ref), philox_share = median(share, o->rounds);
    double to_half = median(ratio, o->rounds), per_batch = total_edges / o->rounds;
    double weighted = median(by_weight, o->rounds);
    printf("batch            %.0f edges, %.0f vertices, map %.1f MiB\n", per_batch,
           total_nodes / o->rounds, (double)sl_idmap_bytes(b.map) / (1 << 20));
    printf("sampling         %.1f M edges/s (%.2f ms a batch)\n", edges_per_s * 1e-6,
           per_batch / edges_per_s * 1e3);
    printf("random reads     %.1f M/s (4 bytes, 16 in flight)\n", reads_per_s * 1e-6);
    printf("ratio            %.2f of half the random reads (aim: 1.20)\n", to_half);
    printf("philox           %.1f %% of the time\n", philox_share * 100);
    printf("ref kernel       %.1f M edges/s, cpu is %.2f times as fast\n", ref_edges_per_s * 1e-6,
           edges_per_s / ref_edges_per_s);
    if (o->weighted)
        printf("by weight        %.2f times the time of an edge (aim: at most 1.50)\n", weighted);
    printf("{\"bench\": \"sampling\", \"scale\": %u, \"edge_factor\": %u, \"batch\": %u, "
           "\"edges_per_batch\": %.0f, \"edges_per_s\": %.0f, \"random_reads_per_s\": %.0f, "
           "\"ratio_to_half_random_reads\": %.3f, \"aim\": 1.2, \"philox_share\": %.4f, "
           "\"ref_edges_per_s\": %.0f, \"weighted_to_uniform_time\": %.3f}\n",
           o->scale, o->edge_factor, o->batch, per_batch, edges_per_s, reads_per_s, to_half,
           philox_share, ref_edges_per_s, weighted);
    free(rate);
    sl_idmap_destroy(b.map);
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_NUMBER("scale", options, scale, 4, 30),
    ARGUMENT_NUMBER("edge-factor", options, edge_factor, 1, 256),
    ARGUMENT_TEXT("fanout", options, of_hops),
    ARGUMENT_NUMBER("batch", options, batch, 1, 1 << 24),
    ARGUMENT_NUMBER("rounds", options, rounds, 1, 100000),
    ARGUMENT_FLAG("weighted", options, weighted),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "sampling",
    .is_program = true,
    .about = "Edges a second that are sampled on a graph with a power law.",
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {
        .scale = 23, .edge_factor = 16, .batch = 1000, .rounds = 41, .of_hops = "15,10,5"};
    double fanout[HOPS_MAX];
    arguments_parse(&command, &o, argc, argv);
    o.n_hops = arguments_numbers("fanout", o.of_hops, -1, 1 << 18, HOPS_MAX, fanout);
    for (uint32_t h = 0; h < o.n_hops; h++)
        o.fanout[h] = (int64_t)fanout[h];
    struct graph g = {0};
    uint64_t start = sl_now_ns();
    make_graph(&o, &g);
    if (o.weighted)
        make_weights(&g);
    printf("graph            R-MAT scale %u, edge factor %u: %u vertices, %" PRIu64
           " edges, made in %.1f s\n",
           o.scale, o.edge_factor, g.n_nodes, g.n_edges, seconds_since(start));
    fflush(stdout);
    if (o.batch > count_reached(&g) / 2) {
        fprintf(stderr,
                "sampling: --batch %u: wanted at most half of the %u vertices that have "
                "neighbours\n",
                o.batch, count_reached(&g));
        return 2;
    }
    run(&o, &g);
    return 0;
}
