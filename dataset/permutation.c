#include "dataset/permutation.h"

#include "common/base/bits.h"
#include "dataset/random.h"

// Inverse of an odd number modulo 2^64: each step of Newton's method doubles the right bits.
static uint64_t invert_odd(uint64_t a)
{
    uint64_t x = a; // right to 3 bits
    for (int i = 0; i < 5; i++)
        x *= 2 - a * x;
    return x;
}

void sl_permutation_init(struct sl_permutation *s, uint64_t n, uint64_t seed, uint32_t which)
{
    uint64_t size = sl_pow2_at_least(n);
    unsigned bits = (unsigned)__builtin_ctzll(size);
    s->n = n;
    s->mask = size - 1;
    s->shift = SL_MAX((bits + 1) / 2, 1u);
    for (uint32_t r = 0; r < SL_PERMUTATION_ROUNDS; r++) {
        struct sl_rng_block b = sl_draw(seed, SL_DRAW_SCRAMBLE, which, r);
        s->multiply[r] = ((uint64_t)b.w[0] << 32 | b.w[1]) | 1;
        s->inverse[r] = invert_odd(s->multiply[r]);
        s->add[r] = (uint64_t)b.w[2] << 32 | b.w[3];
    }
}
