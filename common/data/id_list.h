// id_list.h - vertex ids of a user's .npy file.
#ifndef SL_DATA_ID_LIST_H
#define SL_DATA_ID_LIST_H

#include <stdint.h>

// *ids: (*n) below n_nodes, in the file's order (owned: free()). One dimension of int32, uint32,
// int64 or uint64, perhaps empty. SL_EFORMAT, SL_EINVAL for an id that is no vertex, SL_ENOMEM, and
// errors of opening it.
int sl_id_list_read(const char *path, uint64_t n_nodes, uint32_t **ids, uint64_t *n);

// *pairs: (*n, 2) of them, from an array of that shape. Likewise.
int sl_id_pairs_read(const char *path, uint64_t n_nodes, uint32_t **pairs, uint64_t *n);

#endif
