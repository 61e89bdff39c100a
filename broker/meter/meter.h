/*
 * meter.h - what a job does, measured ten times a second: sums, windows, percentiles.
 *
 * Three sources, none of which costs a worker anything: the seqlock slots that workers write anyway
 * (busy and wait times, what they have in hand), the ledger's entries of batches that have become
 * done since the last reading (percentiles, histograms, bytes by tier, staleness), and /proc of the
 * worker processes (CPU). Rates and shares are of the last SL_METER_WINDOW_S seconds.
 *
 * CELLS. Of each open phase the leading cells that are done, and of training those whose update has
 * been applied, have been taken; a look goes on from there and stops at the first one that is not.
 * So entries are read once, when they are final (ledger.h); sl_meter_on_phase() takes what is
 * left before the slot is used again. Cells that come from a checkpoint have no times; they count
 * nowhere, since they are not of this process.
 *
 * SEATS. A worker's figures grow while it lives. Another worker in its seat begins at zero: figures
 * of another one than the last are only remembered, so a sum never falls and never jumps.
 *
 * A batch's times reach the slot when it is over. So for a worker that has had one batch in hand
 * for the whole window it counts how often it was seen with it.
 *
 * COST. A look reads two words and a slot of each worker and the entries of cells that have become
 * done; what is looked at again is O(devices). Nothing is allocated.
 */
#ifndef SL_BROKER_METER_METER_H
#define SL_BROKER_METER_METER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/epochs/phases.h"
#include "broker/workers/worker_pool.h"
#include "common/arena/ledger.h"
#include "common/arena/stats.h"
#include "common/schema/stats.h"
#include "config/config.h"

enum {
    SL_METER_WINDOW_S = 3,
    SL_METER_BUCKETS = 20, // of a stage's histogram; the last one is +Inf
    SL_METER_READINGS =
        SL_METER_WINDOW_S * 10 + 1, // the window's, and the one that it is compared with
    SL_METER_RING = 512,            // durations that percentiles are of
    SL_METER_SEATS = 2 * SL_CONFIG_MAX_DEVICES,
};

struct sl_meter_ring {
    uint64_t ns[SL_METER_RING];
    uint64_t n; // ever; the newest is at (n - 1) % SL_METER_RING
};

struct sl_meter_times {
    uint64_t count, ns;
    uint64_t bucket[SL_METER_BUCKETS];
    struct sl_meter_ring ring;
};

// Sums over all batches that this process has seen done.
struct sl_meter_sums {
    uint64_t cells;              // of any kind
    uint64_t batches;            // of training
    uint64_t standby_batches;    // of these, on standby trainers
    uint64_t edges, input_nodes; // of any kind
    uint64_t block_bytes;        // of what was sampled
    uint64_t blocks_near_bytes;  // of what was extracted, copied within a GPU
    uint64_t hits, misses;       // input nodes that were extracted
    uint64_t hit_bytes, matched_bytes, miss_bytes;
    uint64_t fetch_ns;  // reading their rows from the drive
    uint64_t queued_ns; // that batches lay ready
    // Of a job on several nodes all of the above is the whole job's; of this node's workers:
    struct sl_meter_own {
        uint64_t batches, input_nodes, fetch_ns, queued_ns;
    } own;
    uint64_t trained, stale; // async: gradients, and updates that they were old
    uint64_t count[SL_LIVE_STAGES], ns[SL_LIVE_STAGES];
};

// What a seat's workers have done, one after the other.
struct sl_meter_seat_sums {
    uint64_t batches, training, edges, bytes; // batches of any kind, and those of training
    uint64_t stage_ns[SL_STAGE_COUNT];
    // Looks at it while the job was not paused; of these, with a batch in hand, ...
    uint32_t readings, held, blocked, asleep;
};

struct sl_meter_seat {
    struct sl_worker_totals last; // that were read
    struct sl_meter_seat_sums sums;
    bool held;
};

// One reading; the window is the difference of two.
struct sl_meter_reading {
    uint64_t ns;            // monotonic
    uint64_t version;       // of the parameters
    uint64_t staleness_max; // of the batches since the reading before
    struct sl_meter_sums sums;
    struct sl_meter_seat_sums seat[SL_METER_SEATS];
};

struct sl_meter_process {
    pid_t pid;
    uint64_t cpu_ns; // at the last reading
    double load;     // cores that it had since the reading before
};

struct sl_meter {
    // borrowed
    const struct sl_arena *arena;
    const struct sl_worker_pool *workers;
    const struct sl_phases *phases;
    const struct sl_pauses *pauses;

    bool there;             // the arena is
    uint64_t first_version; // when the job began, or went on
    struct {
        uint64_t seq, cells;
    } seen[SL_ARENA_PHASES]; // of each slot of the ledger's ring: cells whose entries were taken

    struct sl_meter_times times[SL_LIVE_STAGES];
    struct sl_meter_ring sampling, training, standing_by; // T_s, T_t, T_t'
    // Of a pool's cores: what batches took of them, and of training what threads can share.
    struct sl_meter_ring draw_cpu, train_cpu, shared_cpu;
    struct sl_meter_sums sums;
    uint64_t staleness_max; // since the last reading
    struct sl_meter_seat seat[SL_METER_SEATS];

    struct sl_meter_reading readings[SL_METER_READINGS];
    uint64_t n_readings; // ever
    uint64_t entries;    // of the ledger that were read for it, in all

    struct sl_meter_process process[SL_METER_SEATS], broker;
    uint64_t processes_at_ns;

    double loss; // the last one known, NaN before
    bool has_metric;
    uint32_t metric_epoch;
    double metric;
    double last_epoch_seconds; // of the last complete one, NaN before
};

void sl_meter_begin(struct sl_meter *meter); // the arena is there
void sl_meter_read(struct sl_meter *meter);
// Entries of cells that have become done; of a complete phase all that are left, before the ledger
// may reuse them.
void sl_meter_on_phase(struct sl_meter *meter, const struct sl_open_phase *phase);
void sl_meter_poll_cells(struct sl_meter *meter); // of all open phases
void sl_meter_read_processes(struct sl_meter *meter);
// An epoch is complete, its evaluation too.
void sl_meter_on_epoch(struct sl_meter *meter, const struct sl_epoch *figures);

// The newest reading, and the oldest of the window. False before there are two.
bool sl_meter_window(const struct sl_meter *meter, const struct sl_meter_reading **from,
                     const struct sl_meter_reading **to);
// Nearest-rank percentiles in seconds, NaN without any.
void sl_meter_percentiles(const struct sl_meter_ring *ring, uint32_t n, const double *p,
                          double *seconds);
double sl_meter_median(const struct sl_meter_ring *ring);
// Batches a second, of the last seconds: of training, or all cells where it does not train.
double sl_meter_rate(const struct sl_meter *meter, bool trains);
// Batches of training a second, of the last seconds, where they were training alone and all of them
// after that moment. 0: they were not.
double sl_meter_pace(const struct sl_meter *meter, uint64_t since_ns);
extern const uint64_t sl_meter_bounds_ns[SL_METER_BUCKETS - 1];

#endif
