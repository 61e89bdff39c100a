/*
 * tensorboard.h - TensorBoard event files: <run directory>/tensorboard/events.out.tfevents.*
 *
 * A file is a sequence of records (TFRecord): length (u64), masked CRC32C of it, the bytes, masked
 * CRC32C of them; each record is an Event message (broker/rundir/tfevent.proto: the fields that are
 * used of tensorflow/core/util/event.proto and framework/summary.proto). One Event an epoch, its
 * step the number of updates, with scalars loss/train, loss/val, accuracy/train, METRIC/val,
 * time/epoch_seconds, cache/hit_rate, ... What is not defined is left out. The test at the end is
 * METRIC/test_final, at the step of the parameters that were tested. For the page of
 * hyperparameters the file begins with the job's settings, by their keys ("optimizer.lr"), and ends
 * with how the run ended.
 *
 * A resumed job begins another file, which TensorBoard shows as the same run. Epochs that were
 * trained again come again: a session-start record before the first one says from which step on the
 * earlier files do not count.
 *
 * The writer (writer.h) adds a record whole or not at all; one that is missing is an epoch's.
 */
#ifndef SL_BROKER_RUNDIR_TENSORBOARD_H
#define SL_BROKER_RUNDIR_TENSORBOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "broker/epochs/epoch.h"
#include "broker/log/writer.h"

struct sl_tensorboard {
    struct sl_writer_file *file; // NULL: not open yet
    bool begun;                  // the session-start record is there
};

// In `run_directory`, which exists; the file is the writer's. SL_EIO, SL_EACCESS.
int sl_tensorboard_open(struct sl_tensorboard *t, struct sl_writer *w, const char *run_directory);

// The settings of the run: config is the resolved job.
void sl_tensorboard_begin_run(struct sl_tensorboard *t, const cJSON *config, uint64_t num_params);

// How it ended. test: NULL where there was none; `updates` made the parameters that were tested.
void sl_tensorboard_end_run(struct sl_tensorboard *t, bool done, const struct sl_evaluation *test,
                            uint64_t updates);

// One Event with everything that the epoch's figures say. `updates`: in it and in all before. Does
// nothing when not open.
void sl_tensorboard_add_epoch(struct sl_tensorboard *t, const struct sl_epoch *figures,
                              uint64_t updates);

// CRC32C (Castagnoli), and masked as records have it. Exported for tests.
uint32_t sl_crc32c(const void *bytes, size_t n);
uint32_t sl_crc32c_masked(const void *bytes, size_t n);

#endif
