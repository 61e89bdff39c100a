/*
 * live.h - live statistics of a job: looked at ten times a second, told once a second.
 *
 * Three sources, none of which costs a worker anything: the seqlock slots that workers write anyway
 * (busy and wait times, what they have in hand), the ledger's entries of batches that have become
 * done since the last look (percentiles, histograms, bytes by tier, staleness), and /proc of the
 * worker processes (memory, CPU). Rates and shares are of the last SL_LIVE_WINDOW_S seconds.
 *
 * The result is one line of JSON, schema sluice.stats/1. broker/README.md documents every key.
 *
 * THE BOTTLENECK is named in words with its evidence, and, where another split of the same devices
 * would be faster by the model of allocate.h, with what that would give (live_bottleneck.h).
 *
 * COST. A look reads two words and a slot of each worker and the entries of cells that have become
 * done; what is looked at again is O(devices). Nothing is allocated but the line, whose memory is
 * kept, and the line is written only when somebody wants it.
 */
#ifndef SL_BROKER_LIVE_H
#define SL_BROKER_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/json_writer.h"
#include "broker/phases.h"

enum {
    SL_LIVE_WINDOW_S = 3,
    SL_LIVE_BUCKETS = 20, // of a stage's histogram; the last one is +Inf
};

struct sl_job;
struct sl_open_phase;
struct sl_epoch_figures;
struct sl_living; // private (live_internal.h): windows, histograms, the last look

struct sl_live {
    struct sl_loss_sum loss;
    struct sl_living *living;   // owned; NULL before the first look
    struct sl_json_writer line; // the newest one
    uint64_t line_at_ns;        // 0: there is none
    const char *line_state;     // of the job, in it
    uint64_t tell_at_ns;        // when the next second is over
    uint64_t tick_ns, ticks;    // what looking and telling took, in all
    uint64_t entries;           // of the ledger that were read for it, in all
    uint64_t lines, told;       // that were made, in all; of these for who wants one each second
    uint64_t questions;         // for a line
    uint64_t longest_tick_ns;
    uint64_t cpu_ns; // of a core, without what the machine gave to others meanwhile
};

int sl_live_init(struct sl_job *job);    // once the arena is there
void sl_live_fini(struct sl_live *live); // safe on a zeroed struct

// On each tick: looks, and each second makes a new line and sends it to who wants it.
void sl_job_poll_live(struct sl_job *job);
// Before the ledger may reuse a complete phase's entries.
void sl_job_live_phase(struct sl_job *job, const struct sl_open_phase *phase);
// An epoch is complete, its evaluation too.
void sl_job_live_epoch(struct sl_job *job, const struct sl_epoch_figures *figures);

// What looking has cost, in the log.
void sl_job_log_live(struct sl_job *job);

// Batches a second, of the last seconds: of training, or all cells where it does not train.
double sl_job_live_rate(const struct sl_job *job, bool trains);
// Batches of training a second, of the last seconds, where they were training alone and all of them
// after that moment. 0: they were not.
double sl_job_live_pace(const struct sl_job *job, uint64_t since_ns);
// Batches that standby trainers have trained in all.
uint64_t sl_job_live_standby_batches(const struct sl_job *job);
// The last evaluation; false when there has been none.
bool sl_job_live_metric(const struct sl_job *job, double *value);

// A line that is at most 100 ms old and of the job's state. NULL without memory; valid until the
// next call or tick.
const char *sl_job_live_json(struct sl_job *job);

#endif
