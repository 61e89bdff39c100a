/*
 * edge_sort.h - sorts any number of edges in bounded memory.
 *
 * An edge u -> v is the key v << 32 | u, so sorted keys are the columns of a CSC matrix one after
 * another with sorted rows. Several threads add edges, each to a lane of its own; then one thread
 * takes them in order. When the edges do not fit, sorted runs go to an unlinked file in `dir`.
 */
#ifndef SL_DATASET_EDGE_SORT_H
#define SL_DATASET_EDGE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SL_EDGE_SORT_MIN_BYTES = 1 << 20 };

struct sl_edge_sort;

struct sl_edge_sort_stats {
    uint64_t n_edges;     // added
    uint64_t n_runs;      // sorted runs written to the file; 0 when all fitted in memory
    uint64_t spill_bytes; // size of the file
};

static inline uint64_t sl_edge_key(uint32_t source, uint32_t destination)
{
    return (uint64_t)destination << 32 | source;
}

// Marks a weight (0 or more) as that of an edge that was added as the reverse of another: a minus.
#define SL_EDGE_REVERSE(weight) (-(weight))

/*
 * memory_bytes (at least SL_EDGE_SORT_MIN_BYTES) bounds the buffers of all lanes, sorting and
 * merging included, and so do three quarters of the memory that is free; only what is used of it is
 * touched. Weighted edges carry a float. SL_ENOMEM.
 */
int sl_edge_sort_create(const char *dir, uint64_t memory_bytes, int n_lanes, bool weighted,
                        struct sl_edge_sort **out);
void sl_edge_sort_destroy(struct sl_edge_sort *s); // NULL is fine

/*
 * One thread a lane at a time. `weights` only when weighted. With one lane equal keys come out in
 * the order in which they were added; with several their order is not defined, so weighted edges
 * that must be reproducible use one. SL_EIO when the disk is full.
 */
int sl_edge_sort_add(struct sl_edge_sort *s, int lane, const uint64_t *keys, const float *weights,
                     size_t n);

// No more edges; sorts what is left on one thread a lane.
int sl_edge_sort_finish(struct sl_edge_sort *s);

/*
 * The next edges in order: *keys (borrowed until the next call, as *weights) and *n, which is 0
 * after the last.
 */
int sl_edge_sort_next(struct sl_edge_sort *s, const uint64_t **keys, const float **weights,
                      size_t *n);

void sl_edge_sort_get_stats(const struct sl_edge_sort *s, struct sl_edge_sort_stats *out);

#endif
