/*
 * worker_fds.h - the descriptors that a worker has of its job (worker.h): by these numbers where
 * the broker starts it, by whatever numbers it got where it attaches (attach.h).
 */
#ifndef SL_BUS_WORKER_FDS_H
#define SL_BUS_WORKER_FDS_H

enum {
    SL_WORKER_FD_ARENA = 3,
    SL_WORKER_FD_CONFIG = 4,
    SL_WORKER_FD_DOORBELL = 5,
    SL_WORKER_FD_ACTS = 6,
    SL_WORKER_FD_KEY = 7,
    SL_WORKER_FD_SHARED = 8,
};

// Arrays that workers share beside the arena.
enum sl_shared {
    SL_SHARED_SUMS, // of weights
    // Learned rows and what their updates are made of (row_table.h).
    SL_SHARED_ROWS,
    SL_SHARED_ROWS_WORK,
    SL_SHARED_WIDER_GRAPH, // (wider_graph.h)
    // What GPUs read in the machine's memory where the data set's files cannot be pinned.
    SL_SHARED_FEATURES,
    SL_SHARED_OFFSETS,
    SL_SHARED_DEGREES,
    SL_SHARED_NEIGHBOURS,
    SL_SHARED_COUNT,
};

struct sl_worker_fds {
    int arena, config, doorbell, acts, key;
    int shared[SL_SHARED_COUNT];
};

#endif
