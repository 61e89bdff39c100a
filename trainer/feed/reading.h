// reading.h - a reader of rows on the drive, of one thread of a worker (common/storage).
#ifndef SL_TRAINER_FEED_READING_H
#define SL_TRAINER_FEED_READING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/heartbeat.h"
#include "common/storage/row_reader.h"

struct sl_reading {
    struct sl_heartbeat pulse; // of the thread that reads
    struct sl_row_reader *reader;
};

// As sl_row_reader_open(): so many reads at once. It gives up when the pulse's job or worker stops.
// The struct must not move.
int sl_reading_open(struct sl_reading *r, const struct sl_dataset *dataset,
                    const struct sl_heartbeat *pulse, uint32_t depth);

#endif
