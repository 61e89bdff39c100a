// activation_file.h - a layer's rows of all vertices, outside of a job: in a file without a name,
// or in memory where this has plenty of room, which saves clearing and writing pages of the file.
#ifndef SL_TRAINER_INFER_ACTIVATION_FILE_H
#define SL_TRAINER_INFER_ACTIVATION_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/infer/piece.h"

struct sl_activation_file {
    int fd;      // -1: there is none, or the rows are in memory
    float *data; // (rows, width); of a file disk space is reserved before it is written to
    uint64_t bytes;
    const char *scratch; // the directory
};

// `bounded`: never in memory. SL_EACCESS, SL_EIO, SL_ENOMEM. `scratch` is borrowed.
int sl_activation_file_open(struct sl_activation_file *a, const char *scratch, bool bounded,
                            uint64_t rows, uint32_t width);
void sl_activation_file_close(struct sl_activation_file *a);

// Disk space for the rows of a range, which is ascending where it is a list, of a matrix with
// `before` rows in front of it; nothing where there is no file. SL_EIO.
int sl_activation_file_reserve(const struct sl_activation_file *a, uint32_t width, uint64_t before,
                               const struct sl_infer_range *range);

#endif
