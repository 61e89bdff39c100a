#include "dataset/pair_file.h"

#include "common/data/dataset_files.h"

int sl_pair_file_create(const struct sl_staging *st, enum sl_split split, uint64_t n_nodes,
                        uint64_t n, struct sl_npy_writer **w, uint32_t **pairs)
{
    char path[SL_STAGING_PATH_BYTES];
    const enum sl_dtype dtype = n_nodes > INT32_MAX ? SL_DTYPE_U32 : SL_DTYPE_I32;
    const enum sl_dataset_file f = (enum sl_dataset_file)(SL_FILE_TRAIN_EDGES + split);
    const uint64_t shape[2] = {n, 2};
    void *data = NULL;
    int rc = sl_npy_create_mapped(sl_staging_file(st, sl_dataset_file_name(f), path), dtype, 2,
                                  shape, w, &data);
    *pairs = data;
    return rc;
}
