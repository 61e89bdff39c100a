/*
 * remote_rows.h - how many of a mini-batch's feature rows are another node's, counted on batches
 * that are drawn as samplers draw them.
 *
 * Node p has the rows of part p and draws for the training vertices of part p.
 */
#ifndef SL_PARTITION_REMOTE_ROWS_H
#define SL_PARTITION_REMOTE_ROWS_H

#include "dataset/batch_estimate.h"
#include "partition/parts.h"

struct sl_remote_rows {
    uint64_t n_batches;    // that were drawn
    uint64_t rows;         // their input vertices; of types those with features
    uint64_t seeds;        // of these, which are always the node's own
    uint64_t remote;       // of another part
    uint64_t remote_bytes; // of their features
};

// Share that is to be expected of random parts: of all rows but seeds.
double sl_remote_rows_at_random(const struct sl_remote_rows *found, uint32_t n_parts,
                                uint64_t n_nodes);

/*
 * Draws up to 64 batches of up to 64 parts, spread evenly over them: uniformly, hops->fanout from
 * the seeds outwards, hops->batch_size shuffled training vertices each. The same for the same seed.
 * SL_ENOMEM, SL_EABORTED, SL_ECHANGED for files that are not those of t->ds any more.
 */
int sl_remote_rows_count(const struct sl_parts_task *t, const uint16_t *part,
                         const struct sl_batch_estimate *hops, uint64_t seed,
                         struct sl_remote_rows *out);

#endif
