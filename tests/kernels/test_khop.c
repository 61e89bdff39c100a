// khop_uniform: one hop over a random graph, integer for integer the reference's.
#include "tests/kernels/harness.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

enum { N_NODES = 3000 };

struct hop {
    uint32_t *nodes, *indptr, *indices;
    uint32_t n_nodes, n_edges;
};

static struct hop run(struct suite *t, const struct sl_kernels *kernels,
                      const struct sl_topology_view *topology, const uint32_t *seeds,
                      uint32_t n_seeds, int64_t fanout, uint64_t capacity)
{
    struct hop h = {0};
    struct sl_idmap *map = NULL;
    h.nodes = t_alloc(t, N_NODES * sizeof(uint32_t), 0);
    h.indptr = t_alloc(t, (n_seeds + 1) * sizeof(uint32_t), 0);
    h.indices = t_alloc(t, capacity * sizeof(uint32_t), 0);
    t_expect_ok(t, sl_idmap_create(64, &map), "idmap");
    for (uint32_t i = 0; i < n_seeds; i++) {
        uint32_t local;
        t_expect_ok(t, sl_idmap_insert(map, seeds[i], h.nodes, &h.n_nodes, N_NODES, &local),
                    "seed");
    }
    struct sl_khop_args args = {.topology = topology,
                                .seed = 42,
                                .stream = SL_RNG_SAMPLE,
                                .epoch = 3,
                                .batch = 5,
                                .hop = 1,
                                .fanout = fanout,
                                .n_dst = n_seeds,
                                .nodes = h.nodes,
                                .n_nodes = &h.n_nodes,
                                .nodes_capacity = N_NODES,
                                .map = map,
                                .indptr = h.indptr,
                                .indices = h.indices,
                                .indices_capacity = capacity,
                                .n_edges = &h.n_edges};
    t_expect_ok(t, kernels->khop_uniform(&args), kernels->name);
    sl_idmap_destroy(map);
    return h;
}

static void compare(struct suite *t, uint32_t n_seeds, int64_t fanout, int wide)
{
    t_begin(t, "khop_uniform seeds=%u fanout=%lld %s", n_seeds, (long long)fanout,
            wide ? "i64" : "i32");
    struct sl_csr_view csr = t_random_csr(t, N_NODES, N_NODES, 12, 500);
    uint64_t *indptr = t_alloc(t, (N_NODES + 1) * sizeof *indptr, 0);
    for (uint32_t i = 0; i <= N_NODES; i++)
        indptr[i] = csr.indptr[i];
    uint64_t n_edges = indptr[N_NODES];
    int64_t *longs = t_alloc(t, n_edges * sizeof *longs, 0);
    for (uint64_t e = 0; e < n_edges; e++)
        longs[e] = csr.indices[e];
    struct sl_topology_view topology = {.n_nodes = N_NODES,
                                        .indptr = indptr,
                                        .indices = wide ? (void *)longs : (void *)csr.indices,
                                        .indices_dtype = wide ? SL_DTYPE_I64 : SL_DTYPE_I32};
    uint32_t *seeds = t_alloc(t, n_seeds * sizeof *seeds, 0);
    for (uint32_t i = 0; i < n_seeds; i++)
        seeds[i] = i * (N_NODES / n_seeds); // different ones, the hub 0 among them
    struct hop want = run(t, t->ref, &topology, seeds, n_seeds, fanout, n_edges);
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        struct hop got = run(t, t->dev, &topology, seeds, n_seeds, fanout, n_edges);
        t_expect(t, got.n_nodes == want.n_nodes && got.n_edges == want.n_edges,
                 "%u nodes and %u edges, wanted %u and %u", got.n_nodes, got.n_edges, want.n_nodes,
                 want.n_edges);
        t_same_bits(t, "indptr", got.indptr, want.indptr, (n_seeds + 1) * sizeof(uint32_t));
        t_same_bits(t, "indices", got.indices, want.indices, want.n_edges * sizeof(uint32_t));
        t_same_bits(t, "nodes", got.nodes, want.nodes, want.n_nodes * sizeof(uint32_t));
    }
    t_end(t);
}

void test_khop(struct suite *t)
{
    static const int64_t fanouts[] = {1, 2, 5, 15, 64, 65, 300, -1};
    static const uint32_t seeds[] = {1, 15, 33, 1000};
    for (size_t f = 0; f < SL_COUNT_OF(fanouts); f++)
        for (size_t s = 0; s < SL_COUNT_OF(seeds); s++)
            compare(t, seeds[s], fanouts[f], (int)(s & 1));
}
