/*
 * shuffle.h - the order in which an epoch walks through the training vertices.
 *
 * A Fisher-Yates shuffle of the data set's list whose draws come from Philox keyed by (seed, epoch,
 * index): a function of seed and epoch alone, whoever computes it and whatever was shuffled before.
 */
#ifndef SL_DATA_SHUFFLE_H
#define SL_DATA_SHUFFLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * out (n) becomes a permutation of list (n), n < 2^32. Looks at *cancel (may be NULL) now and then;
 * false when it was set: out is then in no particular state.
 */
bool sl_shuffle_order(uint64_t seed, uint32_t epoch, const uint32_t *list, uint64_t n,
                      const atomic_bool *cancel, uint32_t *out);
// Shuffles what stands in out[place[i]] for i in [first, end), with draws that no other range has.
bool sl_shuffle_places(uint64_t seed, uint32_t epoch, const uint32_t *place, uint64_t first,
                       uint64_t end, const atomic_bool *cancel, uint32_t *out);

#endif
