// loader.h - what a loader is made of (include/sluice.h says what it is).
#ifndef SL_LOADER_LOADER_H
#define SL_LOADER_LOADER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/bus/worker.h"
#include "config/config.h"
#include <sluice.h>
#include "loader/lending.h"
#include "loader/own_job.h"
#include "trainer/feed/arena_access.h"
#include "trainer/feed/reading.h"

struct sluice_loader {
    pid_t pid;         // of the process that opened it
    _Atomic bool busy; // a thread is in it
    bool prefetch, arrays;
    int over;                          // code of why no batch comes any more; 0: they come
    char why[2048];                    // ... its words
    struct sl_own_job own;             // launch.pid 0: attached to somebody's
    char output[SL_CONFIG_PATH_BYTES]; // the job's directory; "": it has none
    int64_t broker;
    bool attached; // `worker` is to be ended
    struct sl_worker worker;
    struct sl_config config;
    struct sl_dataset dataset;
    struct sl_compute compute;
    struct sl_gather gather;
    struct sl_arena_access access; // of a GPU
    struct sl_reading extracts, fetches;
    struct sl_lending lending;
};

#endif
