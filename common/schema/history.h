// history.h - sluice.history/1: which live statistics are kept and drawn as curves.
#ifndef SL_SCHEMA_HISTORY_H
#define SL_SCHEMA_HISTORY_H

// X(name of the column, path in sluice.stats/1). The page's server keeps these columns, and the
// page's scripts add to them from each line that comes after.
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

#endif
