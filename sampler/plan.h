/*
 * plan.h - from the job file to how a phase's batches are drawn; how large blocks are, by probe
 * batches.
 */
#ifndef SL_SAMPLER_PLAN_H
#define SL_SAMPLER_PLAN_H

#include "common/arena/ledger.h"
#include "config/config.h"
#include "sampler/draw.h"
#include "sampler/pairs.h"

// How the batches of a phase of this kind are drawn: TRAIN and PRESAMPLE alike, or EVAL (INFER is
// not sampled).
struct sl_draw_plan sl_plan_of(const struct sl_config *config, enum sl_phase_kind kind);

// Sizes and times of a job's batches, measured on probe batches.
struct sl_block_estimate {
    uint64_t max_bytes; // with ranks where there is a cache, and with a margin: batches of a real
                        // epoch should not be larger
    uint64_t mean_bytes;
    uint64_t input_nodes;   // mean of the training batches, whose seeds are spread evenly
    uint64_t t_sample_ns;   // median time to draw a training batch, no less than the throttle; 0 on
                            // a pool of cores, where the first batches tell
    struct sl_block *probe; // the largest training batch of them, owned
    uint64_t probe_page_bytes; // memory that it stands in
};

/*
 * Draws a handful of probe batches, spread over the training set (and over the validation set when
 * evaluation is sampled), in private memory. They are of no epoch of the job. `pairs`: of a job of
 * links, else NULL. Errors as the kernel's, or SL_ENOMEM.
 */
int sl_plan_measure(const struct sl_config *config, struct sl_drawer *drawer,
                    struct sl_pair_maker *pairs, struct sl_block_estimate *out);
void sl_block_estimate_fini(struct sl_block_estimate *e); // safe on a zeroed struct

#endif
