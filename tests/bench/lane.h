// lane.h - one thread's drawer with the memory its blocks go to, for benches that draw as jobs do.
#ifndef SL_TESTS_BENCH_LANE_H
#define SL_TESTS_BENCH_LANE_H

#include <inttypes.h>
#include <stdint.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/memory.h"
#include "common/data/order_kind.h"
#include "kernels/kernels.h"
#include "sampler/draw.h"
#include "sampler/pairs.h"
#include "tests/bench/bench.h"

enum { LANE_THREADS_MAX = 64, LANE_BLOCK_BYTES = 1 << 20 };

struct lane {
    struct sl_drawer drawer;
    struct sl_block *block; // the last batch
    uint64_t capacity;
    bool is_of_pairs; // its batches
    struct sl_pair_maker pairs;
    uint64_t pairs_ns; // that these took
};

// --fanout, a list of numbers.
static inline void lane_fanout(const char *text, struct sl_draw_plan *plan)
{
    double fanout[SL_MAX_HOPS];
    plan->n_hops = arguments_numbers("fanout", text, -1, 1e6, SL_MAX_HOPS, fanout);
    for (uint32_t h = 0; h < plan->n_hops; h++)
        plan->fanout[h] = (int64_t)fanout[h];
}

// The epochs' orders as a job has them; sequences 0: as many as the default of a job chooses.
static inline void lane_open_order(struct sl_epoch_order *order, enum sl_order kind,
                                   uint32_t sequences, const struct sl_dataset *ds, uint64_t seed,
                                   uint32_t batch_size, uint32_t per_update)
{
    const struct sl_order_inputs facts = {
        .dataset = ds,
        .train = ds->split[SL_SPLIT_TRAIN],
        .seed = seed,
        .batch_size = batch_size,
        .batches_per_update = per_update,
        .sequences = sequences,
        .excess = 0.02,
    };
    must_ok(sl_epoch_order_open(order, kind, &facts));
    if (order->n_sequences)
        printf("%s: %" PRIu32 " sequences, shuffling error %.4f (uniform %.4f), %.3f s\n",
               order->kind->word, order->n_sequences, order->error, order->uniform_error,
               order->seconds);
}

// Of these seeds, or training pairs.
static inline void lane_draw(struct lane *lane, const struct sl_draw_plan *plan, uint32_t epoch,
                             uint32_t batch, const uint32_t *seeds, uint32_t n_seeds)
{
    for (;;) {
        uint64_t wanted = LANE_BLOCK_BYTES;
        struct sl_draw_job job = {.plan = plan,
                                  .epoch = epoch,
                                  .batch = batch,
                                  .seeds = seeds,
                                  .n_seeds = n_seeds,
                                  .block = lane->block,
                                  .capacity = lane->capacity};
        const uint64_t t0 = sl_now_ns();
        if (lane->is_of_pairs)
            must_ok(sl_pair_maker_find_seeds(&lane->pairs, &job));
        lane->pairs_ns += sl_now_ns() - t0;
        int rc = lane->block ? sl_drawer_draw(&lane->drawer, &job, &wanted) : SL_ERANGE;
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
    sl_pair_maker_fini(&lane->pairs);
    sl_drawer_fini(&lane->drawer);
    sl_pages_free(lane->block, lane->capacity);
}

#endif
