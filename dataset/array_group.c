#include "dataset/array_group.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"

int sl_array_group_open(struct sl_array_group *g, const char *source)
{
    struct stat st;
    *g = (struct sl_array_group){.source = source};
    if (stat(source, &st) == 0 && S_ISDIR(st.st_mode))
        return SL_OK;
    return sl_zip_open(source, &g->zip);
}

void sl_array_group_close(struct sl_array_group *g)
{
    sl_zip_close(g->zip);
    *g = (struct sl_array_group){0};
}

struct sl_array_place sl_array_group_place(const struct sl_array_group *g, const char *key,
                                           char path[SL_ARRAY_GROUP_PATH_BYTES])
{
    if (g->zip)
        return (struct sl_array_place){.zip = g->zip, .key = key};
    snprintf(path, SL_ARRAY_GROUP_PATH_BYTES, "%s/%s.npy", g->source, key);
    return (struct sl_array_place){.path = path};
}

bool sl_array_group_has(const struct sl_array_group *g, const char *key)
{
    char path[SL_ARRAY_GROUP_PATH_BYTES];
    if (g->zip)
        return sl_array_has_member(g->zip, key);
    return access(sl_array_group_place(g, key, path).path, F_OK) == 0;
}

static void leave_out(struct sl_import *im, const char *name, const char *const *used)
{
    size_t n = strlen(name);
    n -= n > 4 && strcmp(name + n - 4, ".npy") == 0 ? 4 : 0;
    for (; used && *used; used++)
        if (strlen(*used) == n && strncmp(name, *used, n) == 0)
            return;
    sl_import_leave_out(im, "%.*s", (int)n, name);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int sl_array_group_leave_out(const struct sl_array_group *g, struct sl_import *im,
                             const char *const *used)
{
    for (size_t i = 0; g->zip && i < sl_zip_count(g->zip); i++)
        leave_out(im, sl_zip_name(g->zip, i), used);
    if (g->zip)
        return SL_OK;
    struct dirent **entry;
    int n = scandir(g->source, &entry, is_visible, alphasort);
    if (n < 0)
        return sl_fail_errno(SL_EACCESS, errno, "import %s: the folder cannot be read", g->source);
    for (int i = 0; i < n; i++) {
        leave_out(im, entry[i]->d_name, used);
        free(entry[i]);
    }
    free(entry);
    return SL_OK;
}
