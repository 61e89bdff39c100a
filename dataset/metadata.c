#include "dataset/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/data/atomic_file.h"

cJSON *sl_metadata_to_json(const struct sl_metadata *m)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "name", m->name);
    cJSON_AddNumberToObject(root, "num_nodes", (double)m->n_nodes);
    cJSON_AddNumberToObject(root, "num_edges", (double)m->n_edges);
    cJSON_AddNumberToObject(root, "feat_dim", m->feat_dim);
    if (m->n_classes) {
        cJSON_AddNumberToObject(root, "num_classes", m->n_classes);
        cJSON_AddStringToObject(root, "task", m->task ? m->task : "multiclass");
    }
    cJSON_AddBoolToObject(root, "directed", m->directed);
    return root;
}

int sl_metadata_write(const struct sl_staging *st, cJSON *root)
{
    char path[SL_STAGING_PATH_BYTES];
    char *text = root ? cJSON_Print(root) : NULL;
    cJSON_Delete(root);
    char *line = text ? realloc(text, strlen(text) + 2) : NULL;
    if (!line) {
        free(text);
        return sl_fail(SL_ENOMEM, "write %s/metadata.json: no memory", st->final);
    }
    strcat(line, "\n");
    int rc = sl_atomic_file_write(sl_staging_file(st, "metadata.json", path), line, strlen(line));
    free(line);
    return rc;
}
