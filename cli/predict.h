// predict.h - `sluice embed` as a step of another command.
#ifndef SL_CLI_PREDICT_H
#define SL_CLI_PREDICT_H

#include <stdbool.h>

#include "common/data/dataset.h"

// What the rows are of.
struct sl_embedded {
    char dataset[sizeof(((struct sl_dataset *)0)->path)];
    bool val_edges; // its graph had the validation edges
    // Of a graph of several types: the relation that the run has learned; else SL_NO_RELATION.
    uint32_t linked;
    bool joins_types; // its sources are of another type than its targets
};

// Whose rows, where there are several types; of a plain graph each vertex is both.
enum sl_embed_end { SL_EMBED_SOURCES, SL_EMBED_TARGETS };

// What the last hidden layer of a run gives for each vertex of `dataset` (NULL: the run's), or for
// each that may be that end of a link, into the file `out` (.npy). Errors of the command.
int sl_embed_run(const char *run, const char *dataset, enum sl_embed_end end, const char *out,
                 bool quiet, struct sl_embedded *used);

#endif
