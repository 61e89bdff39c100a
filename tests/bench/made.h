// made.h - what benches make up in place of data: random words and floats, blocks laid out, and the
// digest of what was computed of them.
#ifndef SL_TESTS_BENCH_MADE_H
#define SL_TESTS_BENCH_MADE_H

#include "common/base/bits.h"
#include "common/base/mempool.h"
#include "common/base/philox.h"
#include "tests/bench/bench.h"

// Word i of a stream.
static inline uint32_t word(uint64_t stream, uint64_t i)
{
    return sl_philox(1, (uint32_t)i, (uint32_t)(i >> 32), (uint32_t)stream, 0).w[0];
}

static inline float *random_floats(uint32_t stream, uint64_t n, float bound)
{
    float *x = must(sl_pages_alloc(n * sizeof *x));
    for (uint64_t i = 0; i < n; i++)
        x[i] = (2 * sl_rng_unit(word(stream, i)) - 1) * bound;
    return x;
}

// Where an array of 32-bit words lies in a block.
static inline uint64_t place(uint64_t *at, uint64_t words)
{
    const uint64_t offset = *at;
    *at = sl_align_up(offset + words * sizeof(uint32_t), (uint64_t)64);
    return offset;
}

// FNV-1a over the bits.
static inline uint64_t digest_floats(const float *x, uint64_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 0x100000001b3u;
    }
    return h;
}

#endif
