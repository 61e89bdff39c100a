/*
 * class_features.h - features that predict a vertex's class, more or less.
 *
 * A row is the class's mean, a random direction of length 1, and Gaussian noise of a given standard
 * deviation in each dimension: the error of the best classifier depends on the noise alone.
 */
#ifndef SL_DATASET_CLASS_FEATURES_H
#define SL_DATASET_CLASS_FEATURES_H

#include <stdint.h>

#include "dataset/random.h"

struct sl_class_features {
    uint64_t seed;
    uint32_t n_classes, dim;
    float noise;
    float *means; // (n_classes, dim)
};

// SL_ENOMEM.
int sl_class_features_init(struct sl_class_features *f, uint64_t seed, uint32_t n_classes,
                           uint32_t dim, double noise);
void sl_class_features_fini(struct sl_class_features *f); // safe on a zeroed struct

// row (dim) = the features of this vertex of this class: a function of seed, class and vertex.
void sl_class_features_row(const struct sl_class_features *f, uint32_t class, uint64_t vertex,
                           float *row);

// row (dim) = independent numbers of the standard normal distribution.
void sl_gaussian_row(uint64_t seed, enum sl_draw_purpose purpose, uint64_t item, uint32_t dim,
                     float *row);

#endif
