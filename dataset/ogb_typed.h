// ogb_typed.h - OGB's layout of graphs of several types (ogbn-mag, ogbl-biokg), for import_ogb.c.
#ifndef SL_DATASET_OGB_TYPED_H
#define SL_DATASET_OGB_TYPED_H

#include <stdbool.h>
#include <stdint.h>

#include "dataset/import.h"
#include "dataset/zip_reader.h"

#define SL_OGB_TYPED_EDGES "raw/edge_index_dict.npz" // of the binary layout

// Whether im->source is one, in one of the two layouts.
bool sl_ogb_is_typed(const struct sl_import *im);

// All of it. scheme: the directory of split/, "" for none.
int sl_ogb_typed_read(struct sl_import *im, enum sl_task task, const char *scheme);

// The one number of the one graph in a list of the binary layout.
int sl_ogb_get_size(const struct sl_zip *zip, const char *key, uint64_t *out);

#endif
