#include "common/data/shuffle.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/philox.h"

enum {
    // Draws do not depend on the swaps, so a group of them is made ahead and its targets
    // prefetched: the swaps of a large list are cache misses otherwise.
    GROUP = 32,
    CANCEL_EVERY = 1 << 16,
};

// Uniform in [0, bound), bound >= 1. A rejected word (rare) is followed by the next one of the
// counter's block, then by those of the next group.
static uint32_t draw(uint64_t seed, uint32_t epoch, uint32_t index, uint32_t bound)
{
    for (uint32_t group = 0;; group++) {
        struct sl_rng_block b =
            sl_philox(seed, sl_rng_word0(SL_RNG_SHUFFLE, 0, group), index, 0, epoch);
        for (int i = 0; i < 4; i++) {
            uint32_t below;
            if (sl_rng_below(b.w[i], bound, &below))
                return below;
        }
    }
}

bool sl_shuffle_order(uint64_t seed, uint32_t epoch, const uint32_t *list, uint64_t n,
                      const atomic_bool *cancel, uint32_t *out)
{
    uint32_t target[GROUP];
    for (uint64_t i = 0; !list && i < n; i++)
        out[i] = (uint32_t)i;
    if (list)
        memcpy(out, list, n * sizeof *out);
    for (uint64_t left = n; left > 1;) {
        if (cancel && left % CANCEL_EVERY < GROUP && atomic_load(cancel))
            return false;
        uint32_t group = (uint32_t)SL_MIN(left - 1, (uint64_t)GROUP);
        for (uint32_t i = 0; i < group; i++) {
            uint32_t index = (uint32_t)(left - 1) - i;
            target[i] = draw(seed, epoch, index, index + 1);
            __builtin_prefetch(&out[target[i]], 1);
        }
        for (uint32_t i = 0; i < group; i++) {
            uint64_t index = left - 1 - i;
            uint32_t swap = out[index];
            out[index] = out[target[i]];
            out[target[i]] = swap;
        }
        left -= group;
    }
    return true;
}

bool sl_shuffle_places(uint64_t seed, uint32_t epoch, const uint32_t *place, uint64_t first,
                       uint64_t end, const atomic_bool *cancel, uint32_t *out)
{
    for (uint64_t i = end; i-- > first + 1;) {
        if (cancel && i % CANCEL_EVERY == 0 && atomic_load(cancel))
            return false;
        const uint32_t bound = (uint32_t)(i - first) + 1;
        const uint64_t other = first + draw(seed, epoch, (uint32_t)i, bound);
        const uint32_t swap = out[place[i]];
        out[place[i]] = out[place[other]];
        out[place[other]] = swap;
    }
    return !cancel || !atomic_load(cancel);
}
