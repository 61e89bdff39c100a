/*
 * Files of edges that are of no relation.
 *
 * "edge_time.SOURCE.NAME.TARGET.npy" is found by its name, and a relation may be without: so a name
 * that is misspelt would make its edges ones of any time, and nothing would say so.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "common/base/error.h"
#include "common/data/dataset_internal.h"

// Whether `name` is WHAT.<anything>.npy.
static bool is_of(const char *name, const char *what)
{
    const size_t n = strlen(name), n_what = strlen(what), n_end = strlen(".npy");
    return n > n_what + n_end && strncmp(name, what, n_what) == 0 && name[n_what] == '.' &&
           strcmp(name + n - n_end, ".npy") == 0;
}

static bool is_known(const struct sl_typed_file *files, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(files[i].name, name) == 0)
            return true;
    return false;
}

int sl_dataset_refuse_strays(const struct sl_dataset *ds, const char *what,
                             const struct sl_typed_file *files)
{
    const uint32_t n = ds->typed.n_relations;
    char stray[sizeof((struct dirent *)0)->d_name] = "";
    DIR *dir = opendir(ds->path);
    if (!dir)
        return SL_OK; // which may be opened by their names all the same
    for (struct dirent *e; (e = readdir(dir));)
        if (is_of(e->d_name, what) && !is_known(files, n, e->d_name) &&
            (!*stray || strcmp(e->d_name, stray) < 0))
            snprintf(stray, sizeof stray, "%s", e->d_name);
    closedir(dir);
    if (!*stray)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "data set %s: has %s, which is of none of its relations: wanted "
                   "%s.SOURCE.NAME.TARGET.npy of one, such as %s: rename it, or move it away",
                   ds->path, stray, what, files[0].name);
}
