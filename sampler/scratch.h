// scratch.h - memory of a drawer that grows to the largest batch and is kept.
#ifndef SL_SAMPLER_SCRATCH_H
#define SL_SAMPLER_SCRATCH_H

#include <stdint.h>

struct sl_scratch_array {
    void *p;
    uint64_t bytes;
};

// Room for n elements of `each` bytes, keeping the first `keep`; there are never more than `most`.
// SL_ENOMEM.
int sl_scratch_reserve(struct sl_scratch_array *a, uint64_t n, uint64_t keep, uint64_t most,
                       uint64_t each);
void sl_scratch_free(struct sl_scratch_array *a); // safe on a zeroed struct

#endif
