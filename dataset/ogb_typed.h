// ogb_typed.h - OGB's layout of graphs of several types (ogbn-mag, ogbl-biokg), for import_ogb.c.
#ifndef SL_DATASET_OGB_TYPED_H
#define SL_DATASET_OGB_TYPED_H

#include <stdbool.h>

#include "dataset/import.h"

// Whether im->source is one, in its csv layout.
bool sl_ogb_is_typed(const struct sl_import *im);

// All of it. scheme: the directory of split/, "" for none.
int sl_ogb_typed_read(struct sl_import *im, enum sl_task task, const char *scheme);

#endif
