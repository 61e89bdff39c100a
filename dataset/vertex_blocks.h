/*
 * vertex_blocks.h - all vertices of a data set, in blocks, by several threads: what commands that
 * write a data set anew do with each of its files.
 */
#ifndef SL_DATASET_VERTEX_BLOCKS_H
#define SL_DATASET_VERTEX_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/text/progress.h"

enum { SL_VERTEX_BLOCK = 4096, SL_VERTEX_THREADS_MAX = 256 };

struct sl_vertex_blocks {
    uint64_t n_nodes;
    int n_threads;
    struct sl_progress *progress;
    _Atomic uint64_t next;
};

// n_threads 0: all cores, SL_VERTEX_THREADS_MAX at most.
void sl_vertex_blocks_init(struct sl_vertex_blocks *b, uint64_t n_nodes, uint64_t n_threads,
                           struct sl_progress *progress);

// body(context, thread) on every thread, which takes blocks until there are none. `what` is the
// stage that progress shows. What a body fails with; SL_EABORTED after an interrupt.
int sl_vertex_blocks_run(struct sl_vertex_blocks *b, const char *what, int (*body)(void *, int),
                         void *context);

// The next vertices, from *begin to *end - 1; false: there are none, or there was an interrupt.
bool sl_vertex_blocks_take(struct sl_vertex_blocks *b, uint64_t *begin, uint64_t *end);

#endif
