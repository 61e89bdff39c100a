/*
 * The files of a data set, held open to see whether they are changed in place.
 *
 * Who opens a data set later compares it with what was validated; that finds files that took the
 * place of others, and changed ones when somebody opens them next. What is mapped already is these
 * very files, whatever their names stand for by now, so they are asked themselves.
 *
 * Limits: what is written through a shared mapping shows in a file's time when the kernel writes it
 * back or msync(2) is called; what is written within a tick of the kernel's clock after validation
 * may carry the same time; times may be set back. And between a change and the look that finds it
 * workers read what is there: ids that were never checked. So a changed data set ends its job, and
 * whoever changes one in place may crash it before.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/open_file.h"
#include "common/data/dataset_files.h"

typedef char part_path[sizeof(((struct sl_dataset *)0)->path) + 32];

static const char *path_of(const struct sl_dataset *ds, const char *name, part_path out)
{
    if (name[0] == '/')
        return name;
    snprintf(out, sizeof(part_path), "%s/%s", ds->path, name);
    return out;
}

int sl_dataset_hold(struct sl_dataset *ds)
{
    struct sl_dataset_part parts[SL_DATASET_PARTS_MAX];
    struct sl_dataset_files *files = ds->files;
    const uint32_t n = sl_dataset_parts(ds, parts);
    part_path path;
    struct stat st;
    while (files->n_held < n) {
        const char *name = path_of(ds, parts[files->n_held].name, path);
        int fd = sl_open_regular_file(name, &st);
        SL_TRY(fd);
        files->held[files->n_held++] = fd;
        SL_TRY(sl_file_id_check(name, parts[files->n_held - 1].id, &st));
    }
    return SL_OK;
}

int sl_dataset_check_held(const struct sl_dataset *ds)
{
    struct sl_dataset_part parts[SL_DATASET_PARTS_MAX];
    part_path path;
    struct stat st;
    if (!ds->files || ds->files->n_held == 0)
        return SL_OK;
    sl_dataset_parts(ds, parts);
    for (uint32_t i = 0; i < ds->files->n_held; i++) {
        const char *name = path_of(ds, parts[i].name, path);
        if (fstat(ds->files->held[i], &st) < 0)
            return sl_fail_errno(SL_EIO, errno, "%s: cannot be asked for its size", name);
        SL_TRY(sl_file_id_check(name, parts[i].id, &st));
    }
    return SL_OK;
}

void sl_dataset_release(struct sl_dataset *ds)
{
    while (ds->files->n_held > 0)
        close(ds->files->held[--ds->files->n_held]);
}
