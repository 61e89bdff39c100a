/*
 * retrieve.h - for some rows of a matrix the k other rows with the largest products: who is near
 * whom among embeddings. Exact: all products are computed.
 *
 *   targets, in chunks  \
 *                        > products (kernels' gemm) -> each source's best k, by thread -> merged
 *   sources, in blocks  /
 *
 * Invariants: of equal scores the lower id is better, so the answer is one, whatever the number of
 * threads. Rows are read once for each group of sources whose best fit in 256 MiB together.
 */
#ifndef SL_RETRIEVE_RETRIEVE_H
#define SL_RETRIEVE_RETRIEVE_H

#include <stdbool.h>
#include <stdint.h>

struct sl_dataset;

#define SL_RETRIEVE_NONE UINT32_MAX // a place behind the last target

struct sl_retrieval {
    const float *rows; // (n, dim) of targets
    uint64_t n;        // below 2^32 - 1
    uint32_t dim;
    // (n_source_rows, dim) of sources where these are of another type than targets are; NULL: rows.
    const float *source_rows;
    uint64_t n_source_rows;
    const uint32_t *sources; // (n_sources) rows of theirs
    uint64_t n_sources;
    const uint32_t *targets; // (n_targets) below n, ascending, each once; NULL: all rows
    uint64_t n_targets;
    // Where targets is NULL, of a graph of two sides how many rows, the first ones, are of the
    // first side: answers are of the other side than their source. Else 0.
    uint64_t first_side;
    uint32_t k;                     // at least 1
    bool cosine;                    // products of rows of length 1; a row of zeros has product 0
    const struct sl_dataset *known; // its edges from a source lead to no answer; or NULL
    int n_threads;
    void (*on_progress)(void *ctx, uint64_t products); // from any thread; may be NULL
    void *ctx;
};

// Rows that may be an answer of one of the sources.
struct sl_retrieval_range {
    uint64_t first, n; // of targets, or of rows
};
struct sl_retrieval_range sl_retrieval_range(const struct sl_retrieval *r, const uint32_t *sources,
                                             uint64_t n_sources);

/*
 * ids, scores (n_sources, k): best first; SL_RETRIEVE_NONE and NaN where there are fewer. A source
 * is no answer to itself. SL_EFORMAT where a row is not finite (the message says which; of a source
 * of another type that it is one), SL_ENOMEM, SL_EABORTED.
 */
int sl_retrieve(const struct sl_retrieval *r, uint32_t *ids, float *scores);

#endif
