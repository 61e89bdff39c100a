// live_internal.h - what live.c, live_look.c and live_json.c share.
#ifndef SL_BROKER_LIVE_INTERNAL_H
#define SL_BROKER_LIVE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/allocate.h"
#include "broker/live.h"
#include "common/ipc/ledger.h"
#include "common/ipc/stats.h"
#include "common/schema/stats.h"
#include "config/config.h"

enum {
    SL_LIVE_LOOKS = SL_LIVE_WINDOW_S * 10 + 1, // the window's, and the one that it is compared with
    SL_LIVE_RING = 512,                        // durations that percentiles are of
    SL_LIVE_SEATS = 2 * SL_CONFIG_MAX_DEVICES,
};

struct sl_live_ring {
    uint64_t ns[SL_LIVE_RING];
    uint64_t n; // ever; the newest is at (n - 1) % SL_LIVE_RING
};

struct sl_live_times {
    uint64_t count, ns;
    uint64_t bucket[SL_LIVE_BUCKETS];
    struct sl_live_ring ring;
};

// Sums over all batches that this process has seen done.
struct sl_live_sums {
    uint64_t cells;              // of any kind
    uint64_t batches;            // of training
    uint64_t standby_batches;    // of these, on standby trainers
    uint64_t edges, input_nodes; // of any kind
    uint64_t block_bytes;        // of what was sampled
    uint64_t hits, misses;       // input nodes that were extracted
    uint64_t hit_bytes, miss_bytes;
    uint64_t queued_ns;      // that batches lay ready
    uint64_t trained, stale; // async: gradients, and updates that they were old
    uint64_t count[SL_LIVE_STAGES], ns[SL_LIVE_STAGES];
};

// What a seat's workers have done, one after the other.
struct sl_live_seat_sums {
    uint64_t batches, edges, bytes;
    uint64_t stage_ns[SL_STAGE_COUNT];
    // Looks at it while the job was not paused; of these, with a batch in hand, ...
    uint32_t looks, held, blocked, asleep;
};

struct sl_live_seat {
    struct sl_worker_figures last; // that were read
    struct sl_live_seat_sums sums;
    bool held;
};

// One look; the window is the difference of two.
struct sl_live_look {
    uint64_t ns;            // monotonic
    uint64_t version;       // of the parameters
    uint64_t staleness_max; // of the batches since the look before
    struct sl_live_sums sums;
    struct sl_live_seat_sums seat[SL_LIVE_SEATS];
};

struct sl_live_process {
    pid_t pid;
    uint64_t cpu_ns; // at the last look
    double load;     // cores that it had since the look before
};

struct sl_living {
    bool there;             // the arena is
    uint64_t first_version; // when the job began, or went on
    struct {
        uint64_t seq, cells;
    } seen[SL_ARENA_PHASES]; // of each slot of the ledger's ring: cells whose entries were taken

    struct sl_live_times times[SL_LIVE_STAGES];
    struct sl_live_ring sampling, training, standing_by; // T_s, T_t, T_t'
    // Of a pool's cores: what batches took of them, and of training what threads can share.
    struct sl_live_ring draw_cpu, train_cpu, shared_cpu;
    struct sl_live_sums sums;
    uint64_t staleness_max; // since the last look
    struct sl_live_seat seat[SL_LIVE_SEATS];

    struct sl_live_look looks[SL_LIVE_LOOKS];
    uint64_t n_looks; // ever

    struct sl_live_process process[SL_LIVE_SEATS], broker;
    uint64_t processes_at_ns;

    double loss; // the last one known, NaN before
    bool has_metric;
    uint32_t metric_epoch;
    double metric;
    double last_epoch_seconds; // of the last complete one, NaN before

    uint64_t sorted[SL_LIVE_RING]; // what percentiles were last asked of, ...
    const struct sl_live_ring *sorted_ring;
    uint64_t sorted_n; // ... as it was then
};

// live_look.c
void sl_live_look(struct sl_job *job);
// Entries of cells that have become done; of a complete phase all that are left.
void sl_live_take_phase(struct sl_job *job, const struct sl_open_phase *phase);
void sl_live_take_cells(struct sl_job *job); // of all open phases
void sl_live_look_at_processes(struct sl_job *job);
// The newest look, and the oldest of the window. False before there are two.
bool sl_live_window(const struct sl_living *l, const struct sl_live_look **from,
                    const struct sl_live_look **to);
// Nearest-rank percentile in seconds, NaN without any.
double sl_live_percentile(struct sl_living *l, const struct sl_live_ring *ring, double p);
extern const uint64_t sl_live_bounds_ns[SL_LIVE_BUCKETS - 1];

// live_json.c
void sl_live_write(struct sl_job *job, struct sl_json_writer *w);
// The devices as they are in a line; once there has been a look.
void sl_live_write_devices(struct sl_job *job, struct sl_json_writer *w, const char *key);

#endif
