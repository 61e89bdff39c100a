#include "dataset/split_writer.h"

#include "common/base/error.h"
#include "common/data/dataset_files.h"

int sl_split_writer_open_list(const struct sl_staging *st, enum sl_split split, uint64_t n_nodes,
                              struct sl_npy_writer **out)
{
    char path[SL_STAGING_PATH_BYTES];
    const char *name = sl_dataset_file_name((enum sl_dataset_file)(SL_FILE_TRAIN + (int)split));
    return sl_npy_writer_open_ids(sl_staging_file(st, name, path), n_nodes, out);
}

int sl_split_writer_open(struct sl_split_writer *s, const struct sl_staging *st, uint64_t n_nodes)
{
    for (int i = 0; i < SL_SPLIT_COUNT; i++)
        SL_TRY(sl_split_writer_open_list(st, (enum sl_split)i, n_nodes, &s->w[i]));
    return SL_OK;
}

int sl_split_writer_put(struct sl_split_writer *s, enum sl_split split, uint64_t vertex)
{
    if (split >= SL_SPLIT_COUNT)
        return SL_OK;
    s->n[split]++;
    return sl_npy_writer_append_id(s->w[split], vertex);
}

int sl_split_writer_close(struct sl_split_writer *s, int rc)
{
    for (int i = 0; i < SL_SPLIT_COUNT; i++)
        rc = sl_npy_writer_close(&s->w[i], rc);
    return rc;
}
