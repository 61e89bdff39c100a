/*
 * node_rows.h - how many rows of features a node of a job gets from other nodes, before the job
 * runs: `sluice run --dry-run`.
 *
 * The node's batches of some phases of the job are drawn as its samplers would draw them, and their
 * rows go through a cache as its trainers have it (common/arena/row_cache.h, without the rows
 * themselves): drawn, fetched and gathered as far ahead of training as the arena has room for. A
 * job that is not ahead as far reads fewer rows twice; and it begins with batches that it measures
 * with, which are not counted here.
 */
#ifndef SL_PARTITION_NODE_ROWS_H
#define SL_PARTITION_NODE_ROWS_H

#include "common/arena/segment.h"
#include "common/data/order_kind.h"
#include "common/text/progress.h"
#include "partition/one_batch.h"
#include "sampler/pairs.h"
#include "sampler/plan.h"

struct sl_node_rows_spec {
    const struct sl_config *config;
    const struct sl_dataset *ds;       // the vertices that the job walks through are chosen
    uint32_t n_nodes;                  // of the job
    const uint16_t *part;              // (vertices) below n_nodes; NULL: batches are measured alone
    const uint32_t *rank;              // (vertices) in the hotness order; NULL: nothing is hot
    const struct sl_phase_spec *phase; // (n_phases) TRAIN and EVAL, in the order of the job
    uint32_t n_phases;
    struct sl_progress *progress;
};

struct sl_node_rows {
    struct sl_node_rows_spec spec;
    struct sl_topology topology;
    struct sl_drawer drawer;
    struct sl_pair_maker pairs; // of a job of links, whose batches are measured alone
    struct sl_one_batch drawn;
    struct sl_epoch_order order;
    uint32_t *seeds;     // (training vertices) owned, of the epoch that is drawn
    uint64_t mean_bytes; // of a batch; 0: not measured
};

// What a node's batches of a phase come to.
struct sl_node_rows_count {
    uint64_t cells;    // of the phase that are the node's
    uint64_t batches;  // of these that were drawn, from the first on; the rest is of them
    uint64_t inputs;   // rows that they want
    uint64_t remote;   // ... that other nodes have
    uint64_t fetched;  // rows that come over the wire: some twice, where they lost their slot
    uint64_t messages; // that ask for these
};

// Everything is borrowed until sl_node_rows_close(), which is to be called after an error, too.
// SL_ENOMEM; SL_ECHANGED; errors of the order.
int sl_node_rows_open(struct sl_node_rows *r, const struct sl_node_rows_spec *spec);
// Sizes of the job's batches, as its samplers find them.
int sl_node_rows_measure(struct sl_node_rows *r, struct sl_block_estimate *out);
/*
 * Of a node whose arena is of this spec: its cache, its asks. drive: the node's own rows come
 * through the cache, too. At most `most` batches a phase. out (n_phases). SL_ENOMEM; SL_EABORTED
 * after Ctrl-C.
 */
int sl_node_rows_count(struct sl_node_rows *r, uint32_t node, const struct sl_arena_spec *arena,
                       bool drive, uint64_t most, struct sl_node_rows_count *out);
void sl_node_rows_close(struct sl_node_rows *r); // safe on a zeroed struct

#endif
