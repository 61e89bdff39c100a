// dataset_check.h - opens a data set and shows the progress of its validation.
#ifndef SL_CLI_DATASET_CHECK_H
#define SL_CLI_DATASET_CHECK_H

#include <stdbool.h>

#include "common/data/dataset.h"

// As sl_dataset_open(), by all cores. Unless `quiet`, standard error says how far a pass over more
// than 256 MiB is: a bar on a terminal, elsewhere a line every two seconds.
int sl_dataset_check_open(const char *path, unsigned need, enum sl_dataset_check check, bool quiet,
                          struct sl_dataset *out);

#endif
