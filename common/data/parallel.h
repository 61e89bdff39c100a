/*
 * parallel.h - one pass over numbered blocks by a few threads.
 *
 * For work that is bound by memory and done once (validation and conversion when a data set is
 * opened), so threads are started for a pass and gone after it. Private to common/data.
 */
#ifndef SL_DATA_PARALLEL_H
#define SL_DATA_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#define SL_PARALLEL_NONE UINT64_MAX

/*
 * Calls visit(ctx, b) for b = 0 .. n_blocks - 1, each at most once, from up to `threads` threads
 * (0 = all cores of this process), the caller among them. visit() returns true when the block is
 * bad. Returns the lowest bad block, or SL_PARALLEL_NONE: every block below the one returned has
 * been visited and is good, however many threads ran; blocks above it may have been left out.
 */
uint64_t sl_parallel_first(uint64_t n_blocks, int threads, bool (*visit)(void *ctx, uint64_t block),
                           void *ctx);

#endif
