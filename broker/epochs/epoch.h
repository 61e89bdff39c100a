/*
 * epoch.h - what one epoch was like, computed from its batches' entries.
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
 * that was preempted does not count; the first SL_EPOCH_WARM_UP batches of each worker's life are
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
#ifndef SL_BROKER_EPOCHS_EPOCH_H
#define SL_BROKER_EPOCHS_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/epochs/metrics.h"
#include "broker/epochs/pauses.h"
#include "common/arena/ledger.h"
#include "common/schema/report.h"

enum {
    SL_EPOCH_WARM_UP = 3,
    SL_EPOCH_WORKERS = 1 << 16, // ids that a ledger's cell can hold
};

struct sl_epoch {
    // What the report says of it (common/schema/report.h). hit_rate, val_accuracy, val and test are
    // its own (sl_report_add_epoch).
    union {
        struct sl_report_epoch entry;
        struct {
            SL_REPORT_EPOCH_MEMBERS
        };
    };
    char words[256]; // of `bottleneck`
    bool evaluated, tested;
    struct sl_evaluation on_val, on_test; // on_test: with evaluate.test "each"
    double heaviest_seconds;              // of the evaluation's phase whose percentiles these are
    const struct sl_pauses *pauses;       // of the job, borrowed; NULL: none

    // of extract, train and wait: the part that was spent on normal trainers
    double normal_extract, normal_train, normal_wait;
};

// Trainers that wait for less than this share of the time are not held up.
#define SL_EPOCH_STARVED 0.2

// How updates are made, which decides what trainers wait for.
struct sl_update_rule {
    bool async;
    uint32_t batches_per_update; // ordered
    uint32_t staleness;          // async: the bound
    bool in_turn;                // an update's batches are dealt out to trainers (group.h)
};

// Room for the times of the largest phase, so that no epoch allocates.
struct sl_epoch_scratch {
    uint64_t *a, *b;
    uint64_t capacity;
    uint8_t *warm; // (SL_EPOCH_WORKERS) batches seen of each worker id, up to SL_EPOCH_WARM_UP
};
int sl_epoch_scratch_init(struct sl_epoch_scratch *s, uint64_t n_cells);
void sl_epoch_scratch_fini(struct sl_epoch_scratch *s); // safe on a zeroed struct

// Nearest-rank percentile of sorted values: the smallest one that at least p percent do not exceed.
// n >= 1, 0 < p <= 100.
uint64_t sl_epoch_percentile(const uint64_t *sorted, uint64_t n, double p);

// On several nodes, before the next: samplers and trainers of other nodes that had some of the n
// batches count, too.
void sl_epoch_add_others(struct sl_epoch *f, const struct sl_arena *a,
                         const struct sl_batch_entry *entries, uint64_t n,
                         struct sl_epoch_scratch *scratch);

// Fills what the entries of a TRAIN phase's n batches and of its updates (n, at their last batches;
// the others zero) say; epoch, samplers, trainers, async, ranked, switches and
// pauses are set by the caller before. Epochs must be taken in order: warm-up is a worker's, not an
// epoch's.
void sl_epoch_add_training(struct sl_epoch *f, const struct sl_batch_entry *entries,
                           const struct sl_update_entry *updates, uint64_t n, struct sl_span when,
                           struct sl_epoch_scratch *scratch);

// Likewise, after it: which of several nodes the others waited for within that time, by when
// batches of each update were done.
void sl_epoch_find_latest(struct sl_epoch *f, const struct sl_arena *a,
                          const struct sl_batch_entry *entries, uint64_t n, struct sl_span when);

// When the first of these updates (n, not applied or restored ones zero) was applied; 0: none was.
uint64_t sl_epoch_first_update_ns(const struct sl_update_entry *updates, uint64_t n);

// Adds the cells of one phase of the epoch's evaluation. The percentiles are those of the phase
// with the most time.
void sl_epoch_add_evaluation(struct sl_epoch *f, const struct sl_batch_entry *entries, uint64_t n,
                             struct sl_span when, struct sl_epoch_scratch *scratch);

// This part of the evaluation's time was beside the training of the next epoch, whose time it is.
void sl_epoch_add_overlap(struct sl_epoch *f, struct sl_span beside);

// Training, or the evaluation so far, ended where `late` begins and not where it ends: the broker
// learns of it through a wake-up, and the trainers go on meanwhile, or are paused. Nothing where
// `late` is no time at all.
void sl_epoch_end_earlier(struct sl_epoch *f, bool training, struct sl_span late);

// Names what limits the epoch, with the evidence, in f->bottleneck, which stands in f->words. Once
// all has been taken.
void sl_epoch_name_bottleneck(struct sl_epoch *f, const struct sl_update_rule *rule);

// Share of the input nodes that caches had. 0 without any.
static inline double sl_epoch_hit_rate(const struct sl_epoch *f)
{
    double all = f->cache.hits + f->cache.misses;
    return all > 0 ? f->cache.hits / all : 0;
}

#endif
