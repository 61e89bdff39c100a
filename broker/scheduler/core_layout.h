/*
 * core_layout.h - how many samplers and trainers share a machine's cores, and which cores each runs
 * on: arithmetic.
 *
 * Where a job leaves its devices to the broker (allocation.cores "auto") the cores are one pool. A
 * *shape* is a split, and whether samplers have cores of their own or run on the trainers' too.
 * Every core belongs to a trainer or to a sampler; with shared cores to one of each.
 *
 * THE MODEL. A stage takes a + b / c seconds a batch on c cores: what it took on one core and on
 * all of them gives a and b. The formula of FGNN 5.3 is the case a = 0 with one core a worker. Then
 *
 *     own cores      an epoch takes the longer of sampling and training
 *     shared cores   it takes their sum: a core that samples does not train, and while one does,
 *                    the others wait at the end of each parallel loop
 *
 * where S samplers draw S batches at a time, and trainers one each, no more at once than an update
 * has batches (of an ordered update: whole rounds). All shapes are tried, as BGL (3.4) tries all
 * assignments of resources to its stages, and the soonest one is taken, of equal ones that with the
 * fewest processes. Argo (Lin et al., IPDPS 2024) searches the same space by running it.
 */
#ifndef SL_BROKER_SCHEDULER_CORE_LAYOUT_H
#define SL_BROKER_SCHEDULER_CORE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/placement/placement.h"
#include "common/arena/seat.h"

// Seconds a batch on one core, and on all of the pool.
struct sl_stage_times {
    double one, all;
};

/*
 * What a batch takes of processor time, and how much of it threads can share, say of any number of
 * cores; `shared` NaN is not known (of one thread), and then as much as before, nine tenths before
 * anything was known. A stage of SL_CORE_LAYOUT_LONG_SECONDS or more has work enough for every
 * core; where all cores together seem to gain little then, the measurement was disturbed, and the
 * least that they gain when it is not is taken instead.
 */
#define SL_CORE_LAYOUT_LONG_SECONDS 0.005
struct sl_stage_times sl_core_layout_learn(const struct sl_stage_times *before, double seconds,
                                           double shared, uint32_t n_cores);

struct sl_core_layout_question {
    struct sl_stage_times sample, train;
    uint32_t n_cores;            // 0: cores are not a pool
    uint32_t at_once;            // trainers that can work at the same time
    bool ordered;                // an update waits for all of its `at_once` batches
    uint64_t batches;            // of an epoch
    struct sl_roles least, most; // splits that may be; the same where it is given
    uint32_t places;             // workers at most; 0: no bound
    uint64_t batches_held;       // mini-batches that there is memory for; 0: not known
};

struct sl_core_layout {
    struct sl_roles split;
    uint32_t own; // cores of the samplers alone; 0: all are the trainers', and samplers share them
    double epoch_seconds; // expected
};

// The seconds a batch that a stage takes on so many cores of the pool.
double sl_core_layout_stage_seconds(const struct sl_stage_times *t, uint32_t n_cores, double cores);
// Of a shape, whatever shape->epoch_seconds is.
double sl_core_layout_epoch_seconds(const struct sl_core_layout_question *q,
                                    const struct sl_core_layout *shape);
// The soonest of all whose mini-batches there is memory for. Without measured times (all 0):
// `least`, samplers on the trainers' cores.
struct sl_core_layout sl_core_layout_best(const struct sl_core_layout_question *q);
// The soonest one of a split, whatever least and most are.
struct sl_core_layout sl_core_layout_of(const struct sl_core_layout_question *q,
                                        struct sl_roles split);

// The cores of a worker: `n` of them from `first` on, counted in the order of the pool.
struct sl_core_range {
    uint32_t first, n;
};
struct sl_core_range sl_core_layout_cores(const struct sl_core_layout *shape, uint32_t n_cores,
                                          enum sl_role role, uint32_t index);

enum { SL_CORE_LAYOUT_TEXT_BYTES = 512 };
// What was chosen and why, as a sentence. Returns buf.
char *sl_core_layout_text(const struct sl_core_layout_question *q,
                          const struct sl_core_layout *shape, char buf[SL_CORE_LAYOUT_TEXT_BYTES]);

#endif
