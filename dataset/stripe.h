/*
 * stripe.h - a data set's features, dealt out to several files (common/data/stripes.h).
 *
 * Files appear complete or not at all, and metadata.json names them last. So after a kill at any
 * instant the data set is as before or complete. The features that it had stay where they are.
 */
#ifndef SL_DATASET_STRIPE_H
#define SL_DATASET_STRIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/stripes.h"

struct sl_stripe_making {
    const char *dataset;
    const char *const *to; // (n) directories, of which each gets one file
    uint32_t n;
    uint64_t unit_bytes; // at least
    bool force, quiet;   // force: files of that name are replaced

    // What came of it.
    struct sl_stripes made; // (sl_stripes_fini)
    double seconds;
};

// SL_EEXIST, SL_ENOENT, SL_EACCESS, SL_EIO (a full disk), SL_EABORTED; errors of the data set.
int sl_stripe_make(struct sl_stripe_making *m);

#endif
