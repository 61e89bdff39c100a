/*
 * split_draw.h - draws --split, by shares and seed, when the rest of an import is done.
 */
#ifndef SL_DATASET_SPLIT_DRAW_H
#define SL_DATASET_SPLIT_DRAW_H

#include "dataset/import.h"

/*
 * Where --split was given: writes train_idx.npy, val_idx.npy and test_idx.npy of the labelled
 * vertices (of all, where there are no labels), in rising order. The labels, if any, are in the
 * staging directory. How many vertices a part gets is rounded to the nearest; which ones depends on
 * the seed and on their number among the labelled vertices alone.
 */
int sl_split_draw(struct sl_import *im, uint64_t n_nodes);

#endif
