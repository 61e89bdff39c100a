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
#include <math.h>
#include <string.h>

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

// --- radix sort ----------------------------------------------------------------------------------

// 64-bit keys, with or without a 32-bit payload.
struct sl_radix_array {
    uint64_t *keys; // (n)
    float *values;  // (n) or NULL
};

/*
 * Sorts `data` ascending by key; equal keys keep their order. `scratch` is as large. The sorted
 * elements are left in *data: the two arrays are swapped when an odd number of passes was needed.
 * Bytes that are the same in all keys cost nothing.
 */
void sl_radix_sort(struct sl_radix_array *data, struct sl_radix_array *scratch, size_t n);

// --- edge sink -----------------------------------------------------------------------------------

/*
 * Edges as an importer reads them, on their way to the sort.
 *
 * Adds reverse edges and drops self-loops, as every importer offers; counts what was read and
 * dropped. One thread.
 */

enum { SL_SINK_BATCH = 8192 };
#define SL_SINK_NUMBERS UINT32_C(0x7f800000) // the bits of infinity

struct sl_edge_sink {
    // Set before the first edge.
    struct sl_edge_sort *sort;
    int n_lanes; // of the sort; batches go to each in turn, so that several threads sort at the end
    bool weighted;
    bool both_ways;  // also the reverse of each edge; a self-loop has none,
    bool twin_loops; // unless this is set: then it is there twice
    bool drop_self_loops;
    bool swapped; // edges are stored as their reverse, in place of themselves
    bool of_two;  // the ends are of different types: none is a self-loop
    // In the place of a weight an edge has the bits of its number in the source, from 0 on: finite
    // as floats are below SL_SINK_NUMBERS.
    bool numbered;
    uint32_t number; // of the next edge

    // Counted.
    uint64_t n_read;       // edges of the source
    uint64_t n_self_loops; // of them, kept or not
    uint64_t n_reversed;   // reverse edges added
    uint64_t n_underflows; // edges of the source whose positive weight is 0 as float32
    uint32_t max_id;

    int lane; // the next
    size_t n;
    uint64_t keys[SL_SINK_BATCH];
    float weights[SL_SINK_BATCH];
};

int sl_edge_sink_flush(struct sl_edge_sink *in);

static inline int sl_edge_sink_put(struct sl_edge_sink *in, uint32_t source, uint32_t destination,
                                   double weight)
{
    float stored = fabsf((float)weight); // -0 is none of the marks below
    uint32_t larger = source > destination ? source : destination;
    bool loop = source == destination && !in->of_two;
    in->n_read++;
    in->n_self_loops += loop;
    in->n_underflows += weight > 0 && stored == 0;
    if (in->numbered)
        memcpy(&stored, &in->number, sizeof stored);
    in->number++;
    in->max_id = larger > in->max_id ? larger : in->max_id;
    if (loop && in->drop_self_loops)
        return 0;
    in->keys[in->n] =
        in->swapped ? sl_edge_key(destination, source) : sl_edge_key(source, destination);
    in->weights[in->n++] = stored;
    if (in->both_ways && (!loop || in->twin_loops)) {
        in->keys[in->n] = sl_edge_key(destination, source);
        in->weights[in->n++] = SL_EDGE_REVERSE(stored);
        in->n_reversed++;
    }
    return in->n > SL_SINK_BATCH - 2 ? sl_edge_sink_flush(in) : 0;
}

#endif
