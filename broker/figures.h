/*
 * figures.h - what one epoch was like, computed from its batches' entries.
 *
 * Every batch leaves exact times in its ledger entry, so percentiles, queue depth and waiting are
 * computed from all batches and not from a sample of moments.
 *
 *   sample        drawing and renumbering                        one a batch, on the samplers
 *   mark          looking up ranks (0 before there are any)      one a batch
 *   copy          putting its vertices behind the hops           one a batch
 *   backpressure  samplers waiting for payload memory            one a batch
 *   extract       gathering feature rows                         one a batch, on the trainers
 *   train         forward, backward, update                      one a batch
 *   wait          trainers waiting for a batch or for a version  one a batch
 *   evaluate      all cells of the epoch's evaluation, sampling and extraction included
 *
 * A stage's seconds are summed over workers, so they may exceed the epoch's wall-clock time. Of a
 * batch that was trained before the job was resumed no times are known: it counts in losses, bytes
 * and numbers of batches alone, and a stage's count says of how many batches its times are.
 *
 * THE PROFILE. T_s, T_t and T_t' of FGNN 5.3 are medians over the epoch's batches, so that a batch
 * that was preempted does not count; the first SL_FIGURES_WARM_UP batches of each worker's life are
 * left out where others are left (cold caches, pages touched for the first time).
 *
 *   T_s    sample + mark + copy
 *   T_t    max(extract, train) on normal trainers, which do the two at the same time
 *   T_t'   the same on standby trainers
 *
 * SAVED BY SWITCHING. n batches trained by standby trainers would have been n T_t / N_t seconds'
 * more work for the N_t normal ones, all of which were busy, or there would have been no profit to
 * switch for. An estimate: it takes T_t as it was with the standby trainers' company. Without
 * normal trainers there is no pipeline to compare with: then it is not a number.
 */
#ifndef SL_BROKER_FIGURES_H
#define SL_BROKER_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/metrics.h"
#include "broker/pauses.h"
#include "common/ipc/ledger.h"

enum {
    SL_FIGURES_WARM_UP = 3,
    SL_FIGURES_WORKERS = 1 << 16, // ids that a ledger's cell can hold
};

struct sl_stage_figures {
    double seconds;
    uint64_t count;
    double p50, p99; // seconds
};

struct sl_epoch_figures {
    uint32_t epoch;
    uint64_t batches;
    double seconds;          // wall-clock, training alone, pauses left out
    double evaluate_seconds; // wall-clock, evaluation, pauses left out
    // Likewise, of the evaluation while the next epoch was trained: in that one's seconds, and not
    // in evaluate_seconds.
    double overlapped_seconds;
    double paused_seconds; // in the first two
    double loss;           // mean
    double train_accuracy; // NaN where nothing can be right or wrong (regression)
    bool evaluated, tested;
    struct sl_evaluation val, test; // test: with evaluate.test "each"

    uint64_t sampled_edges, input_nodes;
    uint64_t block_bytes, feature_bytes;
    struct sl_stage_figures sample, mark, copy, extract, train, wait, backpressure, evaluate;
    double heaviest_seconds; // of one phase of the evaluation: whose percentiles these are

    double queue_mean; // batches that lay ready, over time
    uint64_t queue_max;
    uint64_t resampled, retrained; // leases of dead workers
    uint64_t evicted;              // ready batches given up for memory
    uint32_t samplers, trainers;   // N_s, N_t at the epoch's end
    char bottleneck[256];

    // cache
    bool ranked;           // its blocks carried ranks
    uint64_t cache_rows;   // capacity of the largest cache of a normal trainer
    uint64_t hits, misses; // of input nodes
    uint64_t hit_bytes, miss_bytes;
    bool has_optimal; // optimal_hit_rate is set (NaN: it could not be found out)
    double optimal_hit_rate;

    // profile, seconds; 0 = no batch to tell from
    double t_sample, t_train, t_standby;

    // switching
    uint64_t switches; // times a standby trainer was switched on
    uint64_t standby_batches;
    double seconds_saved;

    const struct sl_pauses *pauses; // of the job, borrowed; NULL: none

    // updates
    bool async;
    double staleness_mean;
    uint64_t staleness_max;

    // of extract, train and wait: the part that was spent on normal trainers
    double normal_extract, normal_train, normal_wait;
};

// Trainers that wait for less than this share of the time are not who is held up.
#define SL_FIGURES_STARVED 0.2

// How updates are made, which decides what trainers wait for.
struct sl_update_rule {
    bool async;
    uint32_t batches_per_update; // ordered
    uint32_t staleness;          // async: the bound
    bool in_turn;                // an update's batches are dealt out to trainers (group.h)
};

// Room for the times of the largest phase, so that no epoch allocates.
struct sl_figures_scratch {
    uint64_t *a, *b;
    uint64_t capacity;
    uint8_t *warm; // (SL_FIGURES_WORKERS) batches seen of each worker id, up to SL_FIGURES_WARM_UP
};
int sl_figures_scratch_init(struct sl_figures_scratch *s, uint64_t n_cells);
void sl_figures_scratch_fini(struct sl_figures_scratch *s); // safe on a zeroed struct

// Nearest-rank percentile of sorted values: the smallest one that at least p percent do not exceed.
// n >= 1, 0 < p <= 100.
uint64_t sl_figures_percentile(const uint64_t *sorted, uint64_t n, double p);

// Fills what the entries of a TRAIN phase's n batches and of its updates (n, at their last batches;
// the others zero) say; epoch, samplers, trainers, async, ranked, switches and
// pauses are set by the caller before. Epochs must be taken in order: warm-up is a worker's, not an
// epoch's.
void sl_figures_take_training(struct sl_epoch_figures *f, const struct sl_batch_entry *entries,
                              const struct sl_update_entry *updates, uint64_t n,
                              struct sl_span when, struct sl_figures_scratch *scratch);

// When the first of these updates (n, not applied or restored ones zero) was applied; 0: none was.
uint64_t sl_figures_first_update_ns(const struct sl_update_entry *updates, uint64_t n);

// Adds the cells of one phase of the epoch's evaluation. The percentiles are those of the phase
// with the most time.
void sl_figures_take_evaluation(struct sl_epoch_figures *f, const struct sl_batch_entry *entries,
                                uint64_t n, struct sl_span when,
                                struct sl_figures_scratch *scratch);

// This part of the evaluation's time was beside the training of the next epoch, whose time it is.
void sl_figures_take_overlap(struct sl_epoch_figures *f, struct sl_span beside);

// Training, or the evaluation so far, ended where `late` begins and not where it ends: the broker
// learns of it through a wake-up, and the trainers go on meanwhile, or are paused. Nothing where
// `late` is no time at all.
void sl_figures_end_earlier(struct sl_epoch_figures *f, bool training, struct sl_span late);

// Names what limits the epoch, with the evidence, in f->bottleneck. Once all has been taken.
void sl_figures_name_bottleneck(struct sl_epoch_figures *f, const struct sl_update_rule *rule);

// Share of the input nodes that caches had. 0 without any.
static inline double sl_figures_hit_rate(const struct sl_epoch_figures *f)
{
    uint64_t all = f->hits + f->misses;
    return all ? (double)f->hits / (double)all : 0;
}

#endif
