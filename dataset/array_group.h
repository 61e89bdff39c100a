// array_group.h - arrays under names: the members of an .npz file, or the .npy files of a folder.
#ifndef SL_DATASET_ARRAY_GROUP_H
#define SL_DATASET_ARRAY_GROUP_H

#include <stdbool.h>

#include "dataset/array_sink.h"

enum { SL_ARRAY_GROUP_PATH_BYTES = 4352 };

struct sl_array_group {
    const char *source; // borrowed, as it was opened
    struct sl_zip *zip; // NULL: a folder
};

// A zeroed struct is a closed one. SL_ENOENT, SL_EACCESS, and as sl_zip_open.
int sl_array_group_open(struct sl_array_group *g, const char *source);
void sl_array_group_close(struct sl_array_group *g);

bool sl_array_group_has(const struct sl_array_group *g, const char *key);

// Where the array `key` is, present or not; path holds the file's name where it is one.
struct sl_array_place sl_array_group_place(const struct sl_array_group *g, const char *key,
                                           char path[SL_ARRAY_GROUP_PATH_BYTES]);

// The names in order, those in `used` (NULL-terminated; NULL: none) left out, into im->left_out.
int sl_array_group_leave_out(const struct sl_array_group *g, struct sl_import *im,
                             const char *const *used);

#endif
