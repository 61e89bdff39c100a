/*
 * perf.h - measurements of one operation beside the ceilings of the machine.
 *
 * The rounds of everything that is compared are interleaved (a, b, c, a, b, c, ...), so a neighbour
 * who takes the memory bus for a second disturbs all of them alike. Medians are reported, or with
 * --best the fastest rounds. On a GPU a round is as many calls as take some milliseconds, and the
 * wait for the last of them: what a single call of microseconds costs is mostly its launch.
 */
#ifndef SL_TESTS_BENCH_KERNELS_PERF_H
#define SL_TESTS_BENCH_KERNELS_PERF_H

#include <stddef.h>
#include <stdint.h>

#include "common/device/device.h"
#include "common/arena/shared_array.h"
#include "kernels/kernels.h"

// One thing to time. `amount` is bytes, operations or elements, counted in `unit` a second.
struct perf_run {
    const char *name;
    void (*run)(void *context);
    void *context;
    double amount;
    const char *unit;    // "GB/s", "GFLOP/s", "M/s"
    double scale;        // 1e9 for GB/s and GFLOP/s, 1e6 for M/s
    const char *ceiling; // name of the run that this one is compared with, or NULL
    double seconds;      // out: median
};

struct perf_block {
    struct perf_block *next;
    void *p;
    size_t bytes;
    // Where it is from: the process, the device, or host memory that the device reaches.
    enum { PERF_OWN, PERF_DEVICE, PERF_PINNED, PERF_MAPPED } from;
    struct sl_shared_array shared; // MAPPED
};

struct perf {
    const struct sl_kernels *kernels;
    const struct sl_device *device;
    int threads;
    int small; // tiny cases: that they run is what is looked at
    int best;  // report the fastest round instead of the median: for a machine that is not quiet
    int failed;
    uint64_t random;
    struct sl_mempool ws;
    struct perf_block *blocks;
    struct perf_copy *copy; // the copy ceiling's buffers, shared by all operations
};

void perf_begin(struct perf *p);
void perf_end(struct perf *p);

// Memory on huge pages where there are any, touched, freed by perf_release().
void *perf_alloc(struct perf *p, size_t bytes);
void perf_release(struct perf *p);
// Keeps memory for perf_release(); ends the program when it is NULL.
void *perf_keep(struct perf *p, void *memory, size_t bytes, int from);

float *perf_floats(struct perf *p, size_t n);
uint32_t *perf_ids(struct perf *p, size_t n, uint32_t below);
uint64_t perf_random(struct perf *p);

// A run counted in GB/s, beside the ceiling of that name (NULL: none); and one in millions of
// things a second.
struct perf_run perf_bytes(const char *name, void (*run)(void *), void *context, double bytes,
                           const char *ceiling);
struct perf_run perf_count(const char *name, void (*run)(void *), void *context, double n,
                           const char *ceiling);

// Times all runs interleaved and prints a line for each below a title.
__attribute__((format(printf, 4, 5))) void perf_measure(struct perf *p, struct perf_run *runs,
                                                        size_t n, const char *title, ...);

// Notes that a slot failed while it was measured.
void perf_check(struct perf *p, int rc);

// ---- ceilings (ceiling.c) -----------------------------------------------------------------------

struct perf_copy {
    char *from, *to;
    size_t bytes;
    int threads;
};

// "copy": memcpy of a quarter GiB; bytes read plus bytes written.
struct perf_run perf_copy_ceiling(struct perf *p);

struct perf_rows {
    const char *table;
    const uint32_t *rows;
    uint64_t n;
    size_t row_bytes;
    char *out;
    int threads;
};

// "random rows": plain loops that copy these rows one after the other, with and without prefetch
// and streaming stores; bytes read plus bytes written. perf_measure() shows the fastest of them.
enum { PERF_ROW_VARIANTS = 4 };
void perf_row_ceilings(struct perf_rows *rows, struct perf_run out[PERF_ROW_VARIANTS]);

struct perf_words {
    const uint32_t *words; // (n_words), a power of two
    uint64_t n_words;
    uint64_t n_reads;
    int threads;
    uint32_t sink;
};

// "random 4-byte": independent reads with sixteen prefetches in flight; reads.
struct perf_run perf_word_ceiling(struct perf_words *words);

// ---- adjacencies (memory.c) ---------------------------------------------------------------------

/*
 * A block as a sampler leaves it: sources are numbered in the order of their first appearance, so
 * the share `fresh` of the edges walks forward through the sources and the rest goes back to some
 * earlier one. fresh = 0: every edge goes anywhere.
 */
struct sl_csr_view perf_block_csr(struct perf *p, uint32_t n_dst, uint32_t degree, double fresh);

// In-degrees with a heavy tail (mean 10), some vertices the source of many edges; *weight (n_edges)
// (sample.c).
struct sl_topology_view perf_graph(struct perf *p, uint32_t n, float **weight);

// ---- batches of a graph (sample.c) --------------------------------------------------------------

enum { PERF_NODES_MAX = 1 << 21, PERF_EDGES_MAX = 1 << 21, PERF_PATHS = 4, PERF_LENGTH = 3 };

struct perf_batch {
    struct perf *p;
    const struct sl_topology_view *topology;
    enum sl_sampler_kind kind;
    const int64_t *fanout; // of each hop
    struct sl_idmap *map;
    uint32_t number, n_nodes;
    uint32_t *nodes, *indptr, *indices;
    float *visits;
    uint64_t n_edges, n_steps; // a walk's steps: all of them, though some paths end early
};

void perf_batch_init(struct perf_batch *b, struct perf *p, const struct sl_topology_view *topology,
                     enum sl_sampler_kind kind, const int64_t *fanout);
void perf_batch_begin(struct perf_batch *b);                    // the next one, of no vertex
uint32_t perf_batch_add(struct perf_batch *b, uint32_t vertex); // its local number
void perf_batch_draw(struct perf_batch *b, uint32_t n_hops, const struct sl_excluded *excluded);

// ---- the operations (math.c, memory.c, sample.c) ----------------------------------------

void perf_gather_rows(struct perf *p);
void perf_gather_rows_to(struct perf *p);
void perf_aggregate(struct perf *p);
void perf_transpose(struct perf *p);
void perf_gemm(struct perf *p);

// Also on a device (dense.c, edges.c).
void perf_edge_softmax(struct perf *p);
void perf_heads(struct perf *p); // aggregate_heads, edge_dot, edge_scores
void perf_aggregate_max(struct perf *p);
void perf_bias_act(struct perf *p); // and dropout
void perf_loss(struct perf *p);
void perf_pairs(struct perf *p); // pair_dot, pair_rows, pair_gradient, pair_loss (pairs.c)
void perf_norm(struct perf *p);  // and normalize_rows, scale_columns, sum_squares
void perf_update(struct perf *p);

// Samples batches in all ways and marks them: the operations side by side (sample.c).
void perf_khop(struct perf *p);
void perf_exclude(struct perf *p);
void perf_weight_prefix(struct perf *p);
void perf_split_rows(struct perf *p);

#endif
