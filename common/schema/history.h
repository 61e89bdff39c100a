/*
 * history.h - sluice.history/1: which live statistics are kept over time and drawn as curves, by
 * `top`, by the page's server, and from there on by the page's scripts.
 */
#ifndef SL_SCHEMA_HISTORY_H
#define SL_SCHEMA_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/text/text.h"

// X(name of the column, path in sluice.stats/1).
#define SL_HISTORY_COLUMNS(X)                                                                      \
    X(time, "time")                                                                                \
    X(seconds, "seconds")                                                                          \
    X(epoch, "epoch")                                                                              \
    X(batches, "rates.batches")                                                                    \
    X(edges, "rates.edges")                                                                        \
    X(queue, "queue.batches")                                                                      \
    X(queue_bytes, "queue.used_bytes")                                                             \
    X(hit_rate, "cache.hit_rate")                                                                  \
    X(loss, "loss")                                                                                \
    X(sample, "stages.sample.busy")                                                                \
    X(train, "stages.train.busy")                                                                  \
    X(wait, "stages.wait.busy")                                                                    \
    X(blocked, "stages.backpressure.busy")                                                         \
    X(evaluate, "stages.evaluate.busy")                                                            \
    X(samplers, "samplers")                                                                        \
    X(trainers, "trainers")

enum sl_stats_history_column {
#define SL_HISTORY_COLUMN(name, path) SL_HISTORY_##name,
    SL_HISTORY_COLUMNS(SL_HISTORY_COLUMN)
#undef SL_HISTORY_COLUMN
        SL_HISTORY_N_COLUMNS,
};

enum {
    SL_HISTORY_LINES = 900,     // one comes a second: a quarter of an hour
    SL_HISTORY_SET_BACK_S = 10, // a line that is so much older is of a clock that was set back
};

struct sl_stats_history {
    size_t n;
    uint64_t first; // number of the oldest line since the beginning
    double values[SL_HISTORY_N_COLUMNS][SL_HISTORY_LINES]; // oldest first; NaN = not known
};

// Adds a line of sluice.stats/1, for which the oldest goes; one that is not newer than the last has
// been added before.
void sl_stats_history_add(struct sl_stats_history *h, const cJSON *line);

// As sluice.history/1: an array of numbers for each column. h NULL: an empty one.
void sl_stats_history_write(const struct sl_stats_history *h, const char *job, struct sl_text *out);

#endif
