/*
 * philox.h - Philox4x32-10, the only source of random numbers in sluice.
 *
 * Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011. A counter-based
 * generator: a draw is a pure function of (seed; what it is for), so samples, shuffles, dropout
 * masks and initial weights do not depend on who computes them, when, or on which device.
 *
 * The 128-bit counter is {group | tag << 16 | stream << 24, position, batch, epoch}; the 64-bit
 * key is the job's seed. What the words mean for each stream:
 *
 *   stream    tag      position             batch            epoch
 *   SAMPLE    hop      destination's index  batch in epoch   epoch     group: see below
 *   SHUFFLE   -        index                -                epoch
 *   DROPOUT   layer    element / 4          batch in epoch   epoch
 *   INIT      -        element / 4          tensor           -
 *   GENERATE  purpose  low word             high word        -
 *   HOTNESS   -        vertex / 4           its high word    -
 *   ROWS      -        column / 4           vertex           its high word
 *   INFER_SAMPLE       as SAMPLE            vertex           0
 *   NEGATIVE  0        negative's number    batch in epoch   epoch     group: try (sampler/pairs.h)
 *             1        likewise, of hard ones (sampler/hard.h)
 *   HARD_WALK          as SAMPLE for walks, from the batch's sources (sampler/hard.h)
 *   RELATION  -        relation             -                -
 *   EVAL_NEGATIVE      split                low word         high word group: try (link_items.h)
 *
 * A job samples in one way, and SAMPLE (like EVAL_SAMPLE and INFER_SAMPLE) says what the words mean
 * for it:
 *
 *   uniform   tag = hop | attempt << 3: a rejected word is drawn again; group = slot / 4
 *             (kernels/khop_internal.h)
 *   by weight group = slot / 2, two words a slot; tag = hop | the bits of group above 16 << 3
 *             (kernels/weighted_internal.h)
 *   walks     group = path * ceil(length / 4) + step / 4; tag = hop | attempt << 3 for a move with
 *             attempt < 16, hop | 128 for a restart (kernels/walk_internal.h)
 *   labor     the position is the neighbour's vertex, tag = hop (kernels/labor_internal.h)
 *
 * Used by C and by CUDA sources: keep it C11 and C++17.
 */
#ifndef SL_BASE_PHILOX_H
#define SL_BASE_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define SL_HOST_DEVICE __host__ __device__
#else
#define SL_HOST_DEVICE
#endif

enum sl_rng_stream {
    SL_RNG_SAMPLE = 1,
    SL_RNG_SHUFFLE = 2,
    SL_RNG_DROPOUT = 3,
    SL_RNG_INIT = 4,
    SL_RNG_GENERATE = 5,
    SL_RNG_EVAL_SAMPLE = 6,    // like SAMPLE, for sampled evaluation
    SL_RNG_HOTNESS = 7,        // the random cache policy
    SL_RNG_INFER_SAMPLE = 8,   // like SAMPLE, for layer-wise inference: one vertex a batch
    SL_RNG_PROXIMITY = 9,      // how far the pieces of a proximity order are turned
    SL_RNG_NEGATIVE = 10,      // negative pairs of a mini-batch
    SL_RNG_EVAL_NEGATIVE = 11, // those of an evaluation
    SL_RNG_ROWS = 12,          // learned rows of vertices, as they begin
    SL_RNG_HARD_WALK = 13,     // walks to hard negatives of a mini-batch
    SL_RNG_RELATION = 14,      // keys of the relations of a typed graph
};

struct sl_rng_block {
    uint32_t w[4];
};

static inline SL_HOST_DEVICE uint32_t sl_rng_word0(uint32_t stream, uint32_t tag, uint32_t group)
{
    return (group & 0xffffu) | (tag & 0xffu) << 16 | stream << 24;
}

// Four independent uniform 32-bit words for one counter value.
static inline SL_HOST_DEVICE struct sl_rng_block sl_philox(uint64_t seed, uint32_t c0, uint32_t c1,
                                                           uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0;
        uint64_t b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct sl_rng_block out = {{c0, c1, c2, c3}};
    return out;
}

// The key of what is drawn in one relation of a graph of several (common/data/typed.h): the job's
// own for relation 0, so that a graph of one relation draws what a plain one does.
static inline uint64_t sl_rng_relation_seed(uint64_t seed, uint32_t relation)
{
    if (relation == 0)
        return seed;
    const uint32_t word0 = sl_rng_word0(SL_RNG_RELATION, 0, 0);
    const struct sl_rng_block key = sl_philox(seed, word0, relation, 0, 0);
    return (uint64_t)key.w[1] << 32 | key.w[0];
}

// [0, 1) with 24 bits.
static inline SL_HOST_DEVICE float sl_rng_unit(uint32_t w)
{
    return (float)(w >> 8) * (1.0f / 16777216.0f);
}

/*
 * Unbiased integer in [0, n) from one word (Lemire 2019): returns 1 and sets *out, or 0 when the
 * word falls in the short rejected range; the caller then draws again with another counter.
 */
static inline SL_HOST_DEVICE int sl_rng_below(uint32_t w, uint32_t n, uint32_t *out)
{
    uint64_t m = (uint64_t)w * n;
    uint32_t low = (uint32_t)m;
    *out = (uint32_t)(m >> 32);
    if (low >= n)
        return 1;
    return low >= (uint32_t)(0u - n) % n;
}

#endif
