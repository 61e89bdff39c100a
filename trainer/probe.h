/*
 * probe.h - measures the memory and the time of a training step before the first batch.
 *
 * The samplers leave the largest block they measured with in the arena
 * (common/arena/visit_counts.h). Two steps are trained on it, extraction from the store included:
 * the first one grows the pools, faults their pages in and finds the way in which features get to a
 * GPU, which extraction goes on with (gather.h); the second one is timed. What the step needs at
 * its peak is known then, and the broker gives the rest of the device's budget to the feature cache
 * (FGNN 6.1, after PaGraph). The gradient goes into memory of its own: nothing of the job is
 * changed. A pool of cores without a cache has no probe: its first batches tell.
 */
#ifndef SL_TRAINER_PROBE_H
#define SL_TRAINER_PROBE_H

#include <stdint.h>

#include "trainer/loop.h"

struct sl_trainer_probe {
    // Of a CPU device: activations, two batches' features, lists of hits and misses, parameters
    // that are copied in async mode, the gradient where it is clipped. Of a GPU: all that this
    // process holds there, with two batches' blocks and features. The cache is left out.
    uint64_t step_bytes;
    uint64_t train_ns; // extraction, forward and backward; not less than the job's throttle
};

// Waits for the probe block. SL_EABORTED when the job stops; SL_ETIMEDOUT when no sampler leaves
// one within ten minutes; SL_EPROTO when it is not of this model. All 0 where the arena has no room
// for one.
int sl_trainer_probe(const struct sl_trainer_spec *spec, struct sl_trainer_probe *out);

#endif
