/*
 * store.h - where a GPU reads the features of all vertices in the machine's memory.
 *
 * PROBLEM. Features that no cache has are read by the GPU over the bus, if the driver pins the
 * memory that they lie in; else the processor gathers and copies them. The files of a data set are
 * mapped to be read only, and many drivers pin no such memory.
 *
 * DESIGN. Where the files are pinned the GPU reads them in place. Else, where the broker has found
 * that memory allows it (the arena's spec, sl_capacity_store_way), the first trainer makes a copy
 * for all (shared_copy.h) that is then the data set's features in this process: pinned for the GPU,
 * and in huge pages better to gather from for the processor, too. Else the features are staged
 * (gather.h). Which way it is and why stands in the trainer's seat.
 *
 * FAILURE. What cannot be pinned or made is staged, with a line in the log; no error of the job. A
 * trainer that dies while it copies is followed by another one.
 */
#ifndef SL_TRAINER_FEED_STORE_H
#define SL_TRAINER_FEED_STORE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/data/dataset.h"
#include "common/device/device.h"
#include "common/arena/shared_copy.h"
#include "common/arena/store_way.h"

struct sl_store {
    const struct sl_device *device;
    const struct sl_dataset *dataset;
    void *there;  // the device's address of its features; NULL: they are not pinned
    void **types; // (n_types) of a graph with types those of each; `there` is then one of them
    struct sl_shared_array copy;
    const void *file;       // the features that the copy is of, once there is one
    _Atomic uint32_t *told; // enum sl_store_way, for others to see; NULL: nobody does
    enum sl_store_way way;
};

// Both are borrowed. `told` may be set later.
void sl_store_init(struct sl_store *s, const struct sl_device *device,
                   const struct sl_dataset *dataset);

// How features may be placed.
struct sl_store_plan {
    enum sl_store_way way; // of the broker: COPY allows one
    bool pins;             // the device does pin memory that may be written
    int fd;                // of the copy
    int threads;
    const _Atomic bool *stops; // or NULL
};

/*
 * Finds the way before anything is gathered: `there` is not NULL where the GPU reads features in
 * place. `dataset` is the store's; its features may be a copy from then on, so no other thread may
 * be using it. SL_EABORTED.
 */
int sl_store_place(struct sl_store *s, struct sl_dataset *dataset,
                   const struct sl_store_plan *plan);

// Pins the features as they lie. False where they cannot be, or are too large to be.
bool sl_store_pin(struct sl_store *s);
void sl_store_unpin(struct sl_store *s);
void sl_store_set_way(struct sl_store *s, enum sl_store_way way);

void sl_store_fini(struct sl_store *s); // safe on a zeroed struct

#endif
