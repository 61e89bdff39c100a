/*
 * devices.h - `sluice-trainer --devices`: what GPUs there are, for those who must not open CUDA.
 *
 * The broker and the command line start this program as a child and read one JSON object from its
 * standard output:
 *
 *   {"schema": "sluice.devices/1",
 *    "plugin": FILE or "",                    "" = none was opened
 *    "driver_version": 13000, "runtime_version": 13000,     13000 = 13.0, 0 = none
 *    "cublas": TEXT, "nccl": TEXT,            version and file, or why there is none
 *    "problem": TEXT,                         why there is no device, and what to do; "" otherwise
 *    "devices": [{"index": 0, "name": TEXT, "compute_capability": "9.0", "processors": 132,
 *                 "memory_total": BYTES, "memory_free": BYTES, "bus_id": "0000:3b:00.0",
 *                 "cores": "0-15", "peers": [1], "links": [2000, 50], "maps_files": BOOL}, ...]}
 *
 * "links" is GB/s at which this GPU reads the memory of each, 0 where it cannot or nobody knows.
 *
 * The exit status is 0 with and without GPUs; 1 when the answer could not be written.
 */
#ifndef SL_TRAINER_FEED_DEVICES_H
#define SL_TRAINER_FEED_DEVICES_H

#include <stdbool.h>

// Whether the arguments ask for this and not for a worker.
bool sl_devices_asked(int argc, char **argv);

// The whole program; returns the exit status.
int sl_devices_main(void);

#endif
