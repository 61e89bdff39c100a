// predict.h - `sluice embed` as a step of another command.
#ifndef SL_CLI_PREDICT_H
#define SL_CLI_PREDICT_H

#include <stdbool.h>

#include "common/data/dataset.h"

// What the rows are of.
struct sl_embedded {
    char dataset[sizeof(((struct sl_dataset *)0)->path)];
    bool val_edges; // its graph had the validation edges
};

// What the last hidden layer of a run gives for each vertex of `dataset` (NULL: the run's), into
// the file `out` (.npy). Errors of the command.
int sl_embed_run(const char *run, const char *dataset, const char *out, bool quiet,
                 struct sl_embedded *used);

#endif
