/*
 * stripe.h - a data set's features, dealt out to several files (common/data/stripes.h); those of
 * each type of a typed graph to files of their own.
 *
 * Files appear complete or not at all, and metadata.json names them last. So after a kill at any
 * instant the data set is as before or complete. The features that it had stay where they are.
 */
#ifndef SL_DATASET_STRIPE_H
#define SL_DATASET_STRIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/stripes.h"
#include "common/data/typed.h"

struct sl_stripe_set {
    char type[SL_TYPE_NAME_BYTES]; // empty: a plain data set's
    struct sl_stripes stripes;
};

struct sl_stripe_making {
    const char *dataset;
    const char *const *to; // (n) directories, of which each gets one file
    uint32_t n;
    uint64_t unit_bytes; // at least
    bool force, quiet;   // force: files of that name are replaced

    // What came of it.
    struct sl_stripe_set *made; // (n_made, owned): of the types that have features
    uint32_t n_made;
    double seconds;
};

// SL_EEXIST, SL_ENOENT, SL_EACCESS, SL_EIO (a full disk), SL_EABORTED; errors of the data set.
int sl_stripe_make(struct sl_stripe_making *m);
void sl_stripe_making_fini(struct sl_stripe_making *m); // safe on a zeroed struct

#endif
