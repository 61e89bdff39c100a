/*
 * csc_writer.h - sorted edges into indptr.npy, indices.npy and edge_weight.npy.
 */
#ifndef SL_DATASET_CSC_WRITER_H
#define SL_DATASET_CSC_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/edge_sort.h"
#include "common/text/progress.h"
#include "dataset/staging.h"

struct sl_csc_summary {
    uint64_t n_nodes;
    uint64_t n_edges;      // written
    uint64_t n_duplicates; // dropped
    uint64_t max_degree;   // in-degree
    uint64_t n_isolated;   // vertices without in-edges
    uint64_t n_loops_added;
    bool has_weights; // one that is not 1
};

// What becomes of equal edges: all are kept, or they become one, whose weight is the first of them
// in the source, their sum, their largest or their mean. Where the source has an edge itself,
// reverse edges that were made of others (SL_EDGE_REVERSE) do not count.
enum sl_duplicates {
    SL_DUPLICATES_KEEP,
    SL_DUPLICATES_FIRST,
    SL_DUPLICATES_SUM,
    SL_DUPLICATES_MAX,
    SL_DUPLICATES_MEAN,
};

struct sl_csc_plan {
    uint64_t n_nodes; // targets
    // Of a relation of several: added to the sources' numbers.
    uint64_t first_source;
    enum sl_duplicates duplicates;
    bool add_self_loops; // an edge of weight 1 from every vertex to itself that has none
    bool weighted;       // write edge_weight.npy: the sort's weights (1 where it has none),
    // or, where this is set, a function of an edge's ends.
    float (*weight)(const void *context, uint32_t source, uint32_t destination);
    const void *context;
};

/*
 * Takes every edge of a finished sort and writes the topology files. indices are int32 where
 * n_nodes is below 2^31. SL_EIO, SL_EABORTED, SL_EFORMAT (a sum that float32 does not hold).
 */
int sl_csc_write(const struct sl_staging *st, struct sl_edge_sort *edges,
                 const struct sl_csc_plan *plan, struct sl_progress *progress,
                 struct sl_csc_summary *out);

/*
 * The same in steps, for the relations of a typed graph, one after another: n_rows of them all, ids
 * below n_ids; plan->weighted as the files. What fails is left to close(), which takes the result
 * so far. *out is of all relations together, but max_degree and n_isolated are of rows.
 */
struct sl_csc_files;
int sl_csc_open(const struct sl_staging *st, uint64_t n_rows, uint64_t n_ids, bool weighted,
                struct sl_csc_summary *out, struct sl_csc_files **files);
int sl_csc_put(struct sl_csc_files *files, struct sl_edge_sort *edges,
               const struct sl_csc_plan *plan, struct sl_progress *progress);
int sl_csc_close(struct sl_csc_files *files, int rc); // NULL is fine

#endif
