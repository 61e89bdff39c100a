/*
 * reading.h - rows that are not in this process's memory, of one thread of a worker: from the drive
 * (common/storage), and of a shard from other nodes (asking.h). Rows of a shard that are this
 * node's are on the drive, or mapped and copied from there.
 */
#ifndef SL_TRAINER_FEED_READING_H
#define SL_TRAINER_FEED_READING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/arena/heartbeat.h"
#include "common/storage/row_reader.h"
#include "trainer/feed/asking.h"

struct sl_reading {
    struct sl_heartbeat pulse;   // of the thread that reads
    struct sl_row_reader *drive; // NULL: what this node has is mapped
    struct sl_asking asking;     // of a whole data set none
};

struct sl_reading_spec {
    const struct sl_dataset *dataset;
    struct sl_heartbeat pulse;
    bool drive; // what this node has is read from the drive
    uint32_t depth;
    struct sl_arena *arena; // of shards
    uint32_t worker;
};

// As sl_row_reader_open(): `depth` reads at once. It gives up when the pulse's job or worker stops.
// The struct must not move.
int sl_reading_open(struct sl_reading *r, const struct sl_reading_spec *spec);
void sl_reading_close(struct sl_reading *r); // safe on a zeroed struct

// As sl_row_reader_read(); rows are vertices.
int sl_reading_read(struct sl_reading *r, const uint32_t *rows, const uint32_t *to, uint32_t n,
                    void *out);

// Rows that this node has mapped need no reading: those of the n that others have come first in
// both lists afterwards, in their order. Returns how many these are.
uint32_t sl_reading_sort(const struct sl_reading *r, uint32_t *rows, uint32_t *at, uint32_t n);

// How many of the rows (n) are not mapped.
uint32_t sl_reading_count(const struct sl_reading *r, const uint32_t *rows, uint32_t n);

// So far: bytes read from the drive, rows that came from other nodes.
uint64_t sl_reading_bytes(const struct sl_reading *r);
struct sl_asking_count sl_reading_remote(const struct sl_reading *r);

#endif
