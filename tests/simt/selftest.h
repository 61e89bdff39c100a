/*
 * selftest.h - kernels with defects, which the emulation must find, and some without.
 */
#ifndef SL_TESTS_SIMT_SELFTEST_H
#define SL_TESTS_SIMT_SELFTEST_H

#include <stdint.h>

// Seen by the driver (tests/kernels/emulation.c) and by the emulated plug-in.
enum simt_defect {
    SIMT_NONE,          // a sum of 1 .. n, by a block with shared memory and warps
    SIMT_SHUFFLED_RACE, // an order that threads must not rely on: found by value, seeds from 1 on
    SIMT_DIVERGENT_BARRIER, // half of the block goes to another __syncthreads()
    SIMT_ENDED_BARRIER,     // half of the block has ended before it
    SIMT_WRONG_MASK,        // a mask with lanes that do not come
    SIMT_NOT_IN_MASK,       // a lane calls with a mask without itself
    SIMT_BEHIND_DYNAMIC,    // a store behind dynamic shared memory
    SIMT_BEHIND_DEVICE,     // a store behind an allocation
    SIMT_NULL,              // a load from address 0
    SIMT_HOST_TOUCH,        // the host follows a pointer to device memory
    // Those that the checked build finds alone.
    SIMT_MISSING_BARRIER,   // a load of what another warp stored
    SIMT_MISSING_WARP_SYNC, // a load of what another lane stored, with a shuffle between
    SIMT_BLOCK_RACE,        // two blocks store into one word
    SIMT_READ_BEHIND,       // a load behind an allocation
    SIMT_HOST_MEMORY,       // a load from host memory that is not registered
    SIMT_DEFECTS,
};

/*
 * out[b] = from[0] by block b of two. Between them, and with the seed 0 in this order, *stage
 * (pinned memory) is 1 until the host has made it 2. Returns what the runtime said, a cudaError_t.
 */
#define SIMT_READ_TWICE_SYMBOL "sluice_simt_read_twice"
typedef int (*simt_read_twice)(const uint32_t *from, uint32_t *out, volatile uint32_t *stage);

#endif
