/*
 * torch_file.h - files of torch.save(): a dictionary of arrays, or of dictionaries of arrays, which
 * may be tensors or NumPy's. Both forms of the file are read: the zip file of PyTorch 1.6 and
 * later, and the pickles one behind another of earlier ones.
 */
#ifndef SL_DATASET_TORCH_FILE_H
#define SL_DATASET_TORCH_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "dataset/array_reader.h"

struct sl_torch_file;

// SL_ENOENT, SL_EACCESS, SL_EIO, SL_ENOMEM, and as sl_pickle_read and sl_zip_open.
int sl_torch_open(const char *path, struct sl_torch_file **out);
void sl_torch_close(struct sl_torch_file *t); // NULL is fine

// What is under the key: of the file's dictionary, or of the one that is there under `group`.
enum sl_torch_what { SL_TORCH_NOTHING, SL_TORCH_DICT, SL_TORCH_ARRAY, SL_TORCH_OTHER };
enum sl_torch_what sl_torch_what(const struct sl_torch_file *t, const char *group, const char *key);

// SL_ENOENT where no such array is there; SL_EUNSUPPORTED for one that cannot be read. The file
// stays open as long as the reader.
int sl_torch_open_array(const struct sl_torch_file *t, const char *group, const char *key,
                        struct sl_array_reader **out);

// The keys of the file's dictionary, or of the one under `group`, but those in `used`
// (NULL-terminated; NULL: none), as "a, b"; returns buf. What does not fit is left out.
char *sl_torch_keys(const struct sl_torch_file *t, const char *group, const char *const *used,
                    char *buf, size_t n_buf);

#endif
