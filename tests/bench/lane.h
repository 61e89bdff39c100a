// lane.h - one thread's drawer with the memory its blocks go to, for benches that draw as jobs do.
#ifndef SL_TESTS_BENCH_LANE_H
#define SL_TESTS_BENCH_LANE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/memory.h"
#include "kernels/kernels.h"
#include "sampler/draw.h"

enum { LANE_THREADS_MAX = 64, LANE_BLOCK_BYTES = 1 << 20 };

struct lane {
    struct sl_drawer drawer;
    struct sl_block *block; // the last batch
    uint64_t capacity;
};

static inline void must_ok(int code)
{
    if (code >= 0)
        return;
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, sl_error_message());
    exit(1);
}

static inline void *must(void *p)
{
    if (p)
        return p;
    fprintf(stderr, "%s: no memory\n", program_invocation_short_name);
    exit(1);
}

static inline void lane_draw(struct lane *lane, const struct sl_draw_plan *plan, uint32_t epoch,
                             uint32_t batch, const uint32_t *seeds, uint32_t n_seeds)
{
    for (;;) {
        uint64_t wanted = LANE_BLOCK_BYTES;
        int rc = lane->block ? sl_drawer_draw(&lane->drawer, plan, epoch, batch, seeds, n_seeds,
                                              lane->block, lane->capacity, &wanted)
                             : SL_ERANGE;
        if (rc != SL_ERANGE) {
            must_ok(rc);
            return;
        }
        sl_pages_free(lane->block, lane->capacity);
        lane->capacity = wanted;
        lane->block = must(sl_pages_alloc(wanted));
    }
}

static inline void lane_fini(struct lane *lane)
{
    sl_drawer_fini(&lane->drawer);
    sl_pages_free(lane->block, lane->capacity);
}

#endif
