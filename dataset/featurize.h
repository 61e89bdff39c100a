/*
 * featurize.h - the same data set in which types without features have some: of each vertex the
 * mean of its neighbours', as MAG240M's baseline and IGBH have it.
 */
#ifndef SL_DATASET_FEATURIZE_H
#define SL_DATASET_FEATURIZE_H

#include <stdint.h>

#include "dataset/dataset_builder.h"
#include "dataset/file_share.h"

enum { SL_FEATURIZE_MIN_BYTES = 1 << 20, SL_FEATURIZE_THREADS_MAX = 256 };

struct sl_featurize {
    struct sl_dataset_builder making;
    const char *source;
    const char *types, *by; // as sl_featurize_plan_make()
    uint64_t memory_bytes;  // 0 = half of what is available
    uint64_t n_threads;     // 0 = all cores

    struct sl_file_share shared; // files that did not change
};

// SL_EINVAL, and what reading the data set and writing files fail with.
int sl_featurize_run(struct sl_featurize *run);

#endif
