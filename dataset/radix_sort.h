/*
 * radix_sort.h - stable sort of 64-bit keys, with or without a 32-bit payload.
 */
#ifndef SL_DATASET_RADIX_SORT_H
#define SL_DATASET_RADIX_SORT_H

#include <stddef.h>
#include <stdint.h>

struct sl_radix_array {
    uint64_t *keys; // (n)
    float *values;  // (n) or NULL
};

/*
 * Sorts `data` ascending by key; equal keys keep their order. `scratch` is as large. The sorted
 * elements are left in *data: the two arrays are swapped when an odd number of passes was needed.
 * Bytes that are the same in all keys cost nothing.
 */
void sl_radix_sort(struct sl_radix_array *data, struct sl_radix_array *scratch, size_t n);

#endif
