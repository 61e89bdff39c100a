/*
 * row_files.h - learned rows in files, and the copy of them that a checkpoint is written from.
 *
 *     RUN/embedding.npy               the values at the end, (vertices, features.dim) float32
 *     RUN/embedding.best.npy          those of the best epoch, if there is one
 *     RUN/checkpoints/N/              both likewise, and the optimizer's arrays:
 *                                     embedding.exp_avg.npy, embedding.exp_avg_sq.npy or
 *                                     embedding.momentum_buffer.npy
 */
#ifndef SL_BROKER_RUNDIR_ROW_FILES_H
#define SL_BROKER_RUNDIR_ROW_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/row_table.h"

enum { SL_ROW_FILES = 5 };

// The names of all of them, values first.
extern const char *const sl_row_files[SL_ROW_FILES];
#define SL_ROW_FILE_VALUES "embedding.npy"
#define SL_ROW_FILE_BEST   "embedding.best.npy"

// The optimizer's array i of n_state.
const char *sl_row_file_of_state(uint32_t n_state, uint32_t i);

// A matrix of the rows' shape. Errors of npy.h; SL_EFORMAT where the file has another shape.
// Loading ends early once *cancel says that nobody wants it any more.
int sl_row_file_save(const struct sl_row_table_shape *shape, const float *values, const char *path);
int sl_row_file_load(const struct sl_row_table_shape *shape, const char *path, float *values,
                     const atomic_bool *cancel);

// Rows as they are written: a table's own, or a copy's.
struct sl_row_view {
    struct sl_row_table_shape shape; // n_rows 0: there are no rows
    const float *values, *best, *state[SL_ROW_TABLE_STATES];
};
struct sl_row_view sl_row_view_of(const struct sl_row_table *t);

// A copy of a table.
struct sl_row_copy {
    struct sl_row_table_shape shape; // n_rows 0: there are no rows
    void *map;
    float *values, *best, *state[SL_ROW_TABLE_STATES];
};

// In the file fd, which may be closed then, or (below 0) in memory, which is taken as it is filled.
// SL_ENOMEM, SL_EIO.
int sl_row_copy_init(struct sl_row_copy *c, const struct sl_row_table *t, int fd);
void sl_row_copy_fini(struct sl_row_copy *c); // safe on a zeroed struct
// All of a table whose values and arrays nobody changes meanwhile; best ones where they are asked
// for, too. On all cores: at the rate of memory, or of the drive where they lie.
void sl_row_copy_take(struct sl_row_copy *c, const struct sl_row_table *t, bool best);
struct sl_row_view sl_row_copy_view(const struct sl_row_copy *c);

#endif
