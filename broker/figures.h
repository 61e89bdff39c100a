/*
 * figures.h - what one epoch was like, computed from its batches' entries.
 *
 * Every batch leaves exact times in its ledger entry, so percentiles, queue depth and waiting are
 * computed from all batches and not from a sample of moments.
 *
 *   sample        drawing and renumbering                        one a batch, on the samplers
 *   backpressure  samplers waiting for payload memory            one a batch
 *   extract       gathering feature rows                         one a batch, on the trainers
 *   train         forward, backward, update                      one a batch
 *   wait          trainers waiting for a batch or for a version  one a batch
 *   evaluate      all cells of the epoch's evaluation, sampling and extraction included
 *   mark, copy    without a cache no slots are marked; blocks are drawn in place, never copied
 *
 * A stage's seconds are summed over workers, so they may exceed the epoch's wall-clock time.
 */
#ifndef SL_BROKER_FIGURES_H
#define SL_BROKER_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/ipc/ledger.h"

struct sl_stage_figures {
    double seconds;
    uint64_t count;
    double p50, p99; // seconds
};

struct sl_epoch_figures {
    uint32_t epoch;
    uint64_t batches;
    double seconds;          // wall-clock, training alone
    double evaluate_seconds; // wall-clock, evaluation
    double loss;             // mean over counted seeds
    double train_accuracy;
    bool evaluated;
    double val_accuracy;

    uint64_t sampled_edges, input_nodes;
    uint64_t block_bytes, feature_bytes;
    struct sl_stage_figures sample, extract, train, wait, backpressure, evaluate;
    double heaviest_seconds; // of one phase of the evaluation: whose percentiles these are

    double queue_mean; // batches that lay ready, over time
    uint64_t queue_max;
    uint64_t resampled, retrained; // leases of dead workers
    uint64_t evicted;              // ready batches given up for memory
    uint32_t samplers, trainers;
    char bottleneck[256];
};

// A span of monotonic time.
struct sl_span {
    uint64_t from_ns, to_ns;
};

static inline double sl_span_seconds(struct sl_span s)
{
    return s.to_ns > s.from_ns ? (double)(s.to_ns - s.from_ns) * 1e-9 : 0;
}

// Room for the times of the largest phase, so that no epoch allocates.
struct sl_figures_scratch {
    uint64_t *a, *b;
    uint64_t capacity;
};
int sl_figures_scratch_init(struct sl_figures_scratch *s, uint64_t n_cells);
void sl_figures_scratch_fini(struct sl_figures_scratch *s); // safe on a zeroed struct

// Nearest-rank percentile of sorted values: the smallest one that at least p percent do not exceed.
// n >= 1, 0 < p <= 100.
uint64_t sl_figures_percentile(const uint64_t *sorted, uint64_t n, double p);

// Fills what the TRAIN phase's entries say; epoch, samplers and trainers are set by the caller.
void sl_figures_take_training(struct sl_epoch_figures *f, const struct sl_batch_entry *entries,
                              uint64_t n, struct sl_span when, struct sl_figures_scratch *scratch);

// Adds the cells of one phase of the epoch's evaluation. The percentiles are those of the phase
// with the most time.
void sl_figures_take_evaluation(struct sl_epoch_figures *f, const struct sl_batch_entry *entries,
                                uint64_t n, struct sl_span when,
                                struct sl_figures_scratch *scratch);

// Training ended that much earlier than the broker saw it: it learns of it through a wake-up, and
// the trainers go on meanwhile.
void sl_figures_end_earlier(struct sl_epoch_figures *f, uint64_t ns);

// Names what limits the epoch, with the evidence, in f->bottleneck. Once all has been taken.
void sl_figures_name_bottleneck(struct sl_epoch_figures *f, uint32_t batches_per_update);

#endif
