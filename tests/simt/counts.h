/*
 * counts.h - what a process has asked of the emulated GPUs so far.
 *
 * Time means nothing on the emulation; how often the processor waits for the GPU, and what crosses
 * the bus in which way, is the same on a real one. Tests find the function by its name in the
 * plug-in that is open, and look before and after what they count.
 *
 * Seen by tests in C: keep it C11 and C++17.
 */
#ifndef SL_TESTS_SIMT_COUNTS_H
#define SL_TESTS_SIMT_COUNTS_H

#include <stdint.h>

/*
 * X(name, what it counts). Copies are of one kind each: pinned ones (pinned or registered memory)
 * are queued, pageable ones are done before the call returns, and from the device that is a wait
 * for all that the stream has before them. cudaMemcpy() and cudaMemset() are a wait beside.
 */
#define SIMT_COUNTS(X)                                                                             \
    X(waits, "calls that wait for a stream, an event or the device")                               \
    X(stops, "of these those of memory given back or no longer registered: for the whole device")  \
    X(launches, "kernels")                                                                         \
    X(fills, "memsets")                                                                            \
    X(pinned_to, "copies of pinned memory to the device")                                          \
    X(pinned_to_bytes, "")                                                                         \
    X(pinned_from, "copies from the device to pinned memory")                                      \
    X(pinned_from_bytes, "")                                                                       \
    X(pageable_to, "copies of pageable memory to the device")                                      \
    X(pageable_to_bytes, "")                                                                       \
    X(pageable_from, "copies from the device to pageable memory")                                  \
    X(pageable_from_bytes, "")                                                                     \
    X(within, "copies from device memory to device memory")                                        \
    X(within_bytes, "")                                                                            \
    X(mapped_bytes, "that kernels load from pinned or registered memory: in the checked build")

enum { SIMT_DEVICES_MAX = 16 };

struct simt_counts {
#define SIMT_COUNT(name, text) uint64_t name;
    SIMT_COUNTS(SIMT_COUNT)
#undef SIMT_COUNT
    // Bytes of other processes' memory, by the device that it lies on: what is copied from there,
    // and in the checked build what kernels load. Each lane's load counts, as if nothing were
    // cached and no two lanes of a warp had the same address.
    uint64_t peer_bytes[SIMT_DEVICES_MAX];
};

// What the process has counted, in all its threads.
#define SIMT_COUNTS_SYMBOL "sluice_simt_counts"
typedef void (*simt_counts_entry)(struct simt_counts *out);

#endif
