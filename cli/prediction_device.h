/*
 * prediction_device.h - where `sluice predict` and `embed` compute.
 *
 * By default on the kind of device that the run trained on: a user who trained on a GPU expects its
 * speed, and one who trained on cores may need the GPUs for other work. Where the GPU of such a run
 * is not there, or others have its memory, the cores do, and a note says so. What is asked for by
 * name is taken or refused. Of several GPUs "cuda" is the one with the most memory free.
 *
 * GPUs are looked for only where one may be used (gpus.h): it takes a process that opens CUDA.
 */
#ifndef SL_CLI_PREDICTION_DEVICE_H
#define SL_CLI_PREDICTION_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/device/device.h"

enum { SL_PREDICTION_NOTE_BYTES = 1024 };

struct sl_prediction_device {
    bool cuda;
    uint32_t index;                      // of the GPU
    char gpu[SL_DEVICE_NAME_BYTES];      // its name
    uint64_t memory_bytes;               // of the GPU that may be taken, more than 0
    char text[16];                       // "cpu", "cuda:0"
    char note[SL_PREDICTION_NOTE_BYTES]; // what a user should know; "" = nothing
};

/*
 * Decides for the run in directory `run`. `asked` is what --device says: auto (also NULL), cpu,
 * cuda or cuda:N; memory_bytes what --gpu-memory does, 0 for nothing. `command` names who asks in
 * messages. SL_EINVAL: it is none of these, there is no such GPU (what there is), or more memory
 * than it has.
 */
int sl_prediction_device_choose(const char *command, const char *run, const char *asked,
                                uint64_t memory_bytes, struct sl_prediction_device *out);

#endif
