/*
 * metadata.h - metadata.json of a data set under construction.
 */
#ifndef SL_DATASET_METADATA_H
#define SL_DATASET_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/data/dataset_files.h"
#include "dataset/staging.h"

struct sl_metadata {
    const char *name;
    uint64_t n_nodes, n_edges;
    uint32_t feat_dim;  // 0 = none
    uint32_t n_classes; // 0 = no labels, and no task
    const char *task;   // NULL = "multiclass"
    bool directed;
    uint64_t first_side; // of a graph of two sides: its vertices are 0 to first_side - 1; else 0
};

// The keys of the format (owned: cJSON_Delete, or sl_metadata_write); NULL without memory.
cJSON *sl_metadata_to_json(const struct sl_metadata *m);

// metadata.json of the data set in `dir` (owned: cJSON_Delete, or sl_metadata_write); NULL after
// sl_fail().
cJSON *sl_metadata_read(const char *dir);

void sl_metadata_rename(cJSON *root, const char *name);

// Names the stripes that features of a type lie in, of a plain data set (type 0) those of all;
// NULL: none. Paths in `dir` are relative to it; NULL: all are whole. SL_ENOMEM shows when it is
// saved.
void sl_metadata_put_stripes(cJSON *root, uint32_t type, const struct sl_stripes *s,
                             const char *dir);
// Those of a data set stay where they are: their paths become whole.
void sl_metadata_keep_stripes(cJSON *root, const struct sl_dataset *ds);
// SL_EEXIST where they lie in the directory that the new data set replaces.
int sl_metadata_check_stripes(const struct sl_dataset *ds, const struct sl_staging *st);
// Features are whole files now.
void sl_metadata_drop_stripes(cJSON *root, const struct sl_dataset *ds);

// Writes and frees `root`; NULL is SL_ENOMEM.
int sl_metadata_save(const char *path, cJSON *root);
int sl_metadata_write(const struct sl_staging *st, cJSON *root);

#endif
