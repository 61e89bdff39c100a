// Random graphs with all that a data set may hold, in memory and as a data set; a task on one; a
// METIS that a test decides about.
#ifndef SL_TESTS_UNIT_PARTITION_GRAPH_H
#define SL_TESTS_UNIT_PARTITION_GRAPH_H

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "partition/parts.h"
#include "tests/unit/asserts.h"
#include "tests/unit/test_data_fixture.h"

enum { GRAPH_NODES_MAX = 400, GRAPH_EDGES_MAX = 20000 };

static struct sl_progress quiet;
static struct sl_parts_task task;
static struct sl_dataset graph;
static uint64_t indptr[GRAPH_NODES_MAX + 1];
static uint64_t indices[GRAPH_EDGES_MAX]; // of 32 or 64 bits
static uint32_t training[GRAPH_NODES_MAX];
static uint8_t *bits;

static inline void append(uint32_t u)
{
    ck_assert_uint_lt(graph.n_edges, GRAPH_EDGES_MAX);
    if (graph.indices_dtype == SL_DTYPE_I64)
        indices[graph.n_edges++] = u;
    else
        ((uint32_t *)indices)[graph.n_edges++] = u;
}

static inline void free_graph(void)
{
    free(bits);
    bits = NULL;
}

static inline void begin_graph(bool wide)
{
    free_graph();
    sl_progress_init(&quiet, true);
    graph = (struct sl_dataset){.path = "random",
                                .indptr = indptr,
                                .indices = indices,
                                .indices_dtype = wide ? SL_DTYPE_I64 : SL_DTYPE_I32};
}

static inline void end_graph(uint32_t n_training, uint32_t n_parts)
{
    graph.split[SL_SPLIT_TRAIN] = (struct sl_vertex_list){.n = n_training, .ids = training};
    bits = sl_parts_training(&graph);
    task = (struct sl_parts_task){
        .ds = &graph, .training = bits, .n_parts = n_parts, .slack = 0.03, .progress = &quiet};
}

/*
 * Of n vertices: every fifth row is empty, vertex 0 is a hub in both directions, one edge in ten is
 * a self-loop, one in five stands twice, and some edges have their reverse. One vertex in three is
 * for training.
 */
static inline void make_graph(uint32_t n, uint32_t n_parts, unsigned seed)
{
    uint32_t n_training = 0;
    srand(seed);
    begin_graph(seed % 2);
    graph.n_nodes = n;
    for (uint32_t v = 0; v < n; v++) {
        const uint32_t degree = v == 0 ? n / 2 : v % 5 == 4 ? 0 : (uint32_t)rand() % 12;
        for (uint32_t i = 0; i < degree; i++) {
            const uint32_t u = rand() % 10 == 0 ? v : rand() % 10 == 0 ? 0 : (uint32_t)rand() % n;
            for (int times = rand() % 5 == 0 ? 2 : 1; times > 0; times--)
                append(u);
        }
        indptr[v + 1] = graph.n_edges;
        if (rand() % 3 == 0)
            training[n_training++] = v;
    }
    end_graph(n_training, n_parts);
}

// Two cliques of n / 2 vertices that one edge connects; even vertices are of one, odd of the other.
static inline void make_cliques(uint32_t n)
{
    begin_graph(false);
    graph.n_nodes = n;
    for (uint32_t v = 0; v < n; v++) {
        for (uint32_t u = v % 2; u < n; u += 2)
            if (u != v)
                append(u);
        if (v < 2)
            append(1 - v);
        indptr[v + 1] = graph.n_edges;
        training[v] = v;
    }
    end_graph(n / 2, 2);
}

// make_graph() as a data set in the test's directory.
static inline void write_graph(uint32_t n_nodes, uint32_t n_parts, unsigned seed)
{
    char text[128];
    dir_begin();
    make_graph(n_nodes, n_parts, seed);
    snprintf(text, sizeof text, "{\"name\": \"random\", \"num_nodes\": %u, \"num_edges\": %llu}",
             n_nodes, (unsigned long long)graph.n_edges);
    write_text("metadata.json", text);
    write_list("indptr.npy", SL_DTYPE_I64, n_nodes + 1, indptr);
    write_list("indices.npy", graph.indices_dtype, graph.n_edges, indices);
    write_list("train_idx.npy", SL_DTYPE_I32, graph.split[SL_SPLIT_TRAIN].n, training);
}

// tests/unit/fake_metis.c, which does what is said.
static inline void use_fake_metis(const char *what)
{
    char self[PATH_MAX], file[PATH_MAX + 64];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    ck_assert_int_gt(n, 0);
    self[n] = '\0';
    for (int up = 0; up < 3; up++)
        *strrchr(self, '/') = '\0';
    snprintf(file, sizeof file, "%s/lib/fake_metis.so", self);
    setenv("SLUICE_METIS", file, 1);
    setenv("FAKE_METIS", what, 1);
}

#endif
