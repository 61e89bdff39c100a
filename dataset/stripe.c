#include "dataset/stripe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/interrupt.h"
#include "common/data/atomic_file.h"
#include "common/data/dataset_files.h"
#include "common/data/features_kind.h"
#include "common/text/progress.h"
#include "dataset/metadata.h"

enum { PIECE_BYTES = 4 << 20 }; // written at once, so that Ctrl-C is heard

struct work {
    struct sl_stripe_making *m;
    struct sl_dataset ds;
    struct sl_progress progress;
    struct sl_atomic_file file[SL_STRIPES_MAX];
    uint64_t set;
};

// "TO/NAME.feat.K", absolute.
static int name_file(struct work *w, uint32_t i)
{
    struct sl_stripes *s = &w->m->made;
    const char *slash = strrchr(w->ds.path, '/');
    char *dir = realpath(w->m->to[i], NULL);
    if (!dir)
        return sl_fail_errno(errno == EACCES ? SL_EACCESS : SL_ENOENT, errno,
                             "stripe: --to %s: wanted a directory", w->m->to[i]);
    int n = asprintf(&s->file[i].path, "%s/%s.feat.%u", dir, slash ? slash + 1 : w->ds.path, i);
    free(dir);
    if (n < 0) {
        s->file[i].path = NULL;
        return sl_fail(SL_ENOMEM, "stripe: no memory for a path");
    }
    s->n = i + 1;
    for (uint32_t k = 0; k < w->ds.files->stripes.n; k++)
        if (strcmp(w->ds.files->stripes.file[k].path, s->file[i].path) == 0)
            return sl_fail(SL_EEXIST,
                           "stripe: %s: is read as features of the data set already: "
                           "choose other directories",
                           s->file[i].path);
    if (!w->m->force && access(s->file[i].path, F_OK) == 0)
        return sl_fail(SL_EEXIST, "stripe: %s: exists: remove it, or replace it with --force",
                       s->file[i].path);
    return SL_OK;
}

// Room for all of it, so that a full disk is told before anything is written.
static int begin_file(struct work *w, uint32_t i)
{
    const struct sl_stripes *s = &w->m->made;
    const struct sl_dataset *ds = &w->ds;
    struct sl_stripe_head head = {.version = SL_STRIPE_VERSION,
                                  .number = i,
                                  .n = s->n,
                                  .dtype = (uint32_t)ds->feat_dtype,
                                  .set = w->set,
                                  .unit_bytes = s->unit_bytes,
                                  .rows = ds->n_nodes,
                                  .columns = ds->feat_dim};
    memcpy(head.magic, sl_stripe_magic, sizeof head.magic);
    SL_TRY(sl_atomic_file_open(s->file[i].path, &w->file[i]));
    const uint64_t wanted = sl_stripes_file_bytes(s, i);
    int err = posix_fallocate(w->file[i].fd, 0, (off_t)wanted);
    if (err)
        return sl_fail_errno(SL_EIO, err, "stripe: %s: no room for its %" PRIu64 " bytes",
                             s->file[i].path, wanted);
    if (pwrite(w->file[i].fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return sl_fail_errno(SL_EIO, errno, "stripe: %s: cannot be written", s->file[i].path);
    return SL_OK;
}

static int write_at(struct work *w, uint32_t file, uint64_t offset, const char *from, uint64_t n)
{
    while (n > 0) {
        ssize_t done = pwrite(w->file[file].fd, from, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return sl_fail_errno(SL_EIO, errno, "stripe: %s: cannot be written",
                                 w->m->made.file[file].path);
        from += done;
        offset += (uint64_t)done;
        n -= (uint64_t)done;
    }
    return SL_OK;
}

// Front to back, what is read asked for ahead and given up behind.
static int write_units(struct work *w)
{
    const struct sl_stripes *s = &w->m->made;
    const char *from = w->ds.feat;
    uint64_t n;
    sl_advise(from, s->matrix_bytes, MADV_SEQUENTIAL);
    for (uint64_t at = 0; at < s->matrix_bytes; at += n) {
        uint32_t file;
        uint64_t offset;
        sl_stripes_place(s->unit_bytes, s->n, at, &file, &offset);
        n = SL_MIN(SL_MIN(s->unit_bytes - at % s->unit_bytes, s->matrix_bytes - at),
                   (uint64_t)PIECE_BYTES);
        SL_TRY(sl_interrupt_check());
        SL_TRY(write_at(w, file, offset, from + at, n));
        sl_progress_add(&w->progress, n);
    }
    return SL_OK;
}

static int write_metadata(const struct work *w)
{
    char path[PATH_MAX + 32];
    cJSON *root = sl_metadata_read(w->ds.path);
    if (!root)
        return SL_EIO;
    cJSON_DeleteItemFromObjectCaseSensitive(root, "feat_stripes");
    cJSON *files = cJSON_AddArrayToObject(cJSON_AddObjectToObject(root, "feat_stripes"), "files");
    const size_t n_dir = strlen(w->ds.path);
    for (uint32_t i = 0; i < w->m->made.n; i++) {
        const char *to = w->m->made.file[i].path;
        const bool inside = strncmp(to, w->ds.path, n_dir) == 0 && to[n_dir] == '/';
        cJSON_AddItemToArray(files, cJSON_CreateString(inside ? to + n_dir + 1 : to));
    }
    snprintf(path, sizeof path, "%s/metadata.json", w->ds.path);
    return sl_metadata_save(path, root);
}

// Rows of several widths are in a file for each type.
static int refuse_types(const struct sl_dataset *ds)
{
    if (ds->typed.n_types == 0)
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED,
                   "stripe: data set %s: found several types, whose features are a file each, "
                   "wanted one node_feat.npy: move node_feat.TYPE.npy of the types with most bytes "
                   "(`sluice inspect`) to other drives, and leave links in their places (ln -s)",
                   ds->path);
}

static int make(struct work *w)
{
    struct sl_stripe_making *m = w->m;
    struct sl_stripes *s = &m->made;
    const uint64_t row = w->ds.feat_dim * sl_dtype_bytes(w->ds.feat_dtype);
    SL_TRY(refuse_types(&w->ds));
    if (m->n < 1 || m->n > SL_STRIPES_MAX)
        return sl_fail(SL_EINVAL, "stripe: found %u times --to, wanted 1 to %d directories", m->n,
                       SL_STRIPES_MAX);
    s->matrix_bytes = sl_features_bytes(&w->ds);
    s->unit_bytes =
        sl_stripes_unit(row, SL_MAX(m->unit_bytes, s->matrix_bytes / SL_STRIPE_UNITS_MAX + 1));
    if (getrandom(&w->set, sizeof w->set, 0) != (ssize_t)sizeof w->set)
        return sl_fail_errno(SL_ESYS, errno, "stripe: no random number for the set");
    for (uint32_t i = 0; i < m->n; i++)
        SL_TRY(name_file(w, i));
    for (uint32_t i = 0; i < m->n; i++)
        SL_TRY(begin_file(w, i));
    sl_progress_begin(&w->progress, "features", s->matrix_bytes, "B");
    SL_TRY(write_units(w));
    SL_FAILPOINT(COMMAND_STAGED);
    for (uint32_t i = 0; i < m->n; i++)
        SL_TRY(sl_atomic_file_commit(&w->file[i]));
    return write_metadata(w);
}

int sl_stripe_make(struct sl_stripe_making *m)
{
    struct work *w = calloc(1, sizeof *w);
    const uint64_t start = sl_now_ns();
    if (!w)
        return sl_fail(SL_ENOMEM, "stripe: no memory");
    w->m = m;
    sl_progress_init(&w->progress, m->quiet);
    sl_interrupt_catch();
    int rc = sl_failpoint_init();
    if (rc == SL_OK)
        rc = sl_dataset_open(m->dataset, SL_NEED_TOPOLOGY | SL_NEED_FEATURES | SL_TAKES_TYPES,
                             SL_CHECK_CACHED, 0, &w->ds);
    if (rc == SL_OK)
        rc = make(w);
    sl_progress_clear(&w->progress);
    for (uint32_t i = 0; i < SL_STRIPES_MAX; i++)
        sl_atomic_file_abort(&w->file[i]);
    sl_dataset_close(&w->ds);
    free(w);
    m->seconds = (double)(sl_now_ns() - start) * 1e-9;
    return rc;
}
