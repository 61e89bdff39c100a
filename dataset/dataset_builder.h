/*
 * dataset_builder.h - what all commands that make a data set share: the directory under
 * construction, progress, the summary, and the rename at the end, or nothing at all.
 */
#ifndef SL_DATASET_DATASET_BUILDER_H
#define SL_DATASET_DATASET_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/text/options.h"
#include "common/text/progress.h"
#include "common/text/table.h"
#include "dataset/staging.h"

struct sl_dataset_builder {
    // Options.
    const char *out, *name; // name NULL: that of the source, or else the last part of `out`
    bool force, quiet;

    // While it runs.
    struct sl_staging st;
    struct sl_progress progress;

    // Afterwards.
    struct sl_table summary; // two columns: what, and the value
    uint64_t bytes;          // of the files
    double seconds;
};

/*
 * Calls work(context) with an open staging directory and, when it succeeds, fills the summary by
 * summarise(context, table), which still sees the staging directory, and puts the data set under
 * its name. Whatever fails, or an interrupt, leaves nothing behind.
 */
int sl_dataset_builder_run(struct sl_dataset_builder *m, void *context, int (*work)(void *context),
                           void (*summarise)(void *context, struct sl_table *t));
// What the data set is called, once work() has found what its source says.
const char *sl_dataset_builder_name(const struct sl_dataset_builder *m);
void sl_dataset_builder_fini(struct sl_dataset_builder *m); // safe on a zeroed struct

#endif
