#include "dataset/metadata.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/base/open_file.h"
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
    if (m->first_side)
        cJSON_AddNumberToObject(root, "first_side", (double)m->first_side);
    return root;
}

cJSON *sl_metadata_read(const char *dir)
{
    char path[SL_STAGING_PATH_BYTES + 32], *text = NULL;
    snprintf(path, sizeof path, "%s/metadata.json", dir);
    int fd = sl_open_file(path);
    if (fd >= 0) {
        sl_read_whole_file(fd, path, SIZE_MAX, &text, NULL);
        close(fd);
    }
    cJSON *root = text ? cJSON_Parse(text) : NULL;
    free(text);
    if (!root)
        sl_fail(SL_EIO, "%s: cannot be read again: was it replaced?", path);
    return root;
}

void sl_metadata_rename(cJSON *root, const char *name)
{
    cJSON_DeleteItemFromObjectCaseSensitive(root, "name");
    cJSON_AddStringToObject(root, "name", name);
}

void sl_metadata_put_stripes(cJSON *root, uint32_t type, const struct sl_stripes *s,
                             const char *dir)
{
    cJSON *types = cJSON_GetObjectItemCaseSensitive(root, "types");
    cJSON *of = types ? cJSON_GetArrayItem(types, (int)type) : root;
    const size_t n_dir = dir ? strlen(dir) : 0;
    cJSON_DeleteItemFromObjectCaseSensitive(of, "feat_stripes");
    if (!s)
        return;
    cJSON *files = cJSON_AddArrayToObject(cJSON_AddObjectToObject(of, "feat_stripes"), "files");
    for (uint32_t i = 0; i < s->n; i++) {
        const char *to = s->file[i].path;
        const bool inside = dir && strncmp(to, dir, n_dir) == 0 && to[n_dir] == '/';
        cJSON_AddItemToArray(files, cJSON_CreateString(inside ? to + n_dir + 1 : to));
    }
}

// Whether the file lies in that directory.
static bool lies_in(const char *path, const char *dir)
{
    const char *slash = strrchr(path, '/');
    struct stat a, b;
    char parent[SL_STAGING_PATH_BYTES];
    snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return stat(parent, &a) == 0 && stat(dir, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

void sl_metadata_keep_stripes(cJSON *root, const struct sl_dataset *ds)
{
    for (uint32_t t = 0; t < ds->files->n_ranges; t++)
        sl_metadata_put_stripes(root, t, sl_dataset_stripes(ds->files, t), NULL);
}

int sl_metadata_check_stripes(const struct sl_dataset *ds, const struct sl_staging *st)
{
    for (uint32_t t = 0; t < ds->files->n_ranges; t++) {
        const struct sl_stripes *s = sl_dataset_stripes(ds->files, t);
        for (uint32_t i = 0; s && i < s->n; i++)
            if (lies_in(s->file[i].path, st->final))
                return sl_fail(SL_EEXIST,
                               "write %s: features of data set '%s' lie in it (%s), wanted another "
                               "--out, since --force would remove them: choose one",
                               st->final, ds->path, s->file[i].path);
    }
    return SL_OK;
}

void sl_metadata_drop_stripes(cJSON *root, const struct sl_dataset *ds)
{
    for (uint32_t t = 0; t < ds->files->n_ranges; t++)
        sl_metadata_put_stripes(root, t, NULL, NULL);
}

int sl_metadata_write(const struct sl_staging *st, cJSON *root)
{
    char path[SL_STAGING_PATH_BYTES];
    return sl_metadata_save(sl_staging_file(st, "metadata.json", path), root);
}

int sl_metadata_save(const char *path, cJSON *root)
{
    char *text = root ? sl_json_pages(root) : NULL;
    cJSON_Delete(root);
    char *line = text ? realloc(text, strlen(text) + 2) : NULL;
    if (!line) {
        free(text);
        return sl_fail(SL_ENOMEM, "%s: no memory to write it", path);
    }
    strcat(line, "\n");
    int rc = sl_atomic_file_write(path, line, strlen(line));
    free(line);
    return rc;
}
