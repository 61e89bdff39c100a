/*
 * rounded_weights.h - the weights as bf16 on a GPU, for products to read: made once a version of
 * the parameters, where each product that reads them would round them otherwise.
 *
 * Each matrix of the parameters has a copy whose rows are padded to 16 bytes, so that tensor cores
 * take any width; vectors are not multiplied. A product finds the copy by where the f32 weights
 * lie, and whoever has other parameters than those of the copies finds none and reads f32: its bits
 * are the same.
 */
#ifndef SL_TRAINER_MODEL_ROUNDED_WEIGHTS_H
#define SL_TRAINER_MODEL_ROUNDED_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/device/device.h"
#include "kernels/kernels.h"
#include "trainer/model/tensor.h"

struct sl_rounded_weights {
    const struct sl_device *device;
    const struct sl_kernels *kernels; // NULL: products want none
    const struct sl_tensor *tensor;   // of the model, in their order
    uint32_t n_tensors;
    uint64_t n_words;    // of the copies
    uint16_t *copy;      // device memory, from the first version on
    const float *params; // the device's, whose copies they are; NULL: nobody's
};

// A matrix as a product reads it: f32, or bf16 that has been rounded.
struct sl_rounded_operand {
    const void *p;
    uint64_t ld;
    bool bf16;
};

// Makes nothing yet; copies are only made on a GPU whose products are in bf16. The tensors must
// stay.
void sl_rounded_weights_init(struct sl_rounded_weights *w, const struct sl_device *device,
                             const struct sl_kernels *kernels, enum sl_precision precision,
                             const struct sl_tensor *tensors, uint32_t n_tensors);
void sl_rounded_weights_fini(struct sl_rounded_weights *w); // safe on a zeroed struct

// Rounds those of `params` (the device's), which stay as they are until the next call; NULL:
// forgets them. SL_ENOMEM.
int sl_rounded_weights_take(struct sl_rounded_weights *w, const float *params);

// The copy of a matrix that begins at `weight`, or of some of its rows or columns; without a copy
// the weights themselves, (rows, ld). `w` may be NULL.
struct sl_rounded_operand sl_rounded_weights_find(const struct sl_rounded_weights *w,
                                                  const float *weight, uint64_t ld);

#endif
