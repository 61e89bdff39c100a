// predict.h - `sluice embed` as a step of another command.
#ifndef SL_CLI_PREDICT_H
#define SL_CLI_PREDICT_H

#include <stdbool.h>

#include "common/data/dataset.h"

// What the last hidden layer of a run gives for each vertex of `dataset` (NULL: the run's), into
// the file `out` (.npy). `used`: which data set that was. Errors of the command.
int sl_embed_run(const char *run, const char *dataset, const char *out, bool quiet,
                 char used[sizeof(((struct sl_dataset *)0)->path)]);

#endif
