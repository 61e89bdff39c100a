/*
 * mps.h - whether NVIDIA's Multi-Process Service (MPS) serves this process.
 *
 * Processes that share a GPU take turns on it: each has a context of its own, and the driver gives
 * the GPU to one context at a time. Under MPS their work runs at once. A process that opens CUDA
 * looks for the control daemon's socket, `control` in $CUDA_MPS_PIPE_DIRECTORY or /tmp/nvidia-mps,
 * and is served where somebody listens there. This looks at the same socket, without CUDA.
 */
#ifndef SL_DEVICE_MPS_H
#define SL_DEVICE_MPS_H

#include <stdbool.h>

enum { SL_MPS_TEXT_BYTES = 512 };

struct sl_mps {
    bool serves;
    char found[SL_MPS_TEXT_BYTES]; // which daemon at which folder, or why none: half a sentence
};

// Starts nothing and does not disturb a daemon. Never fails.
void sl_mps_look(struct sl_mps *out);

#endif
