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
#include "common/base/open_file.h"
#include "common/data/atomic_file.h"
#include "common/data/dataset_files.h"
#include "common/data/features_kind.h"
#include "common/text/progress.h"
#include "dataset/metadata.h"

enum { PIECE_BYTES = 4 << 20 }; // written at once, so that Ctrl-C is heard

// Features of one width: of all vertices, or of a type's.
struct source {
    const void *rows;
    uint64_t n_rows, row_bytes;
    uint32_t type, columns;
    enum sl_dtype dtype;
};

struct work {
    struct sl_stripe_making *m;
    struct sl_dataset ds;
    struct sl_progress progress;
    struct source *source;       // (n_made) of each set
    struct sl_atomic_file *file; // (n_made, m->n)
};

static struct sl_atomic_file *file_of(const struct work *w, uint32_t set, uint32_t i)
{
    return &w->file[(uint64_t)set * w->m->n + i];
}

// Whether the data set reads this file.
static bool is_in_use(const struct work *w, const char *path)
{
    struct sl_dataset_part parts[SL_DATASET_PARTS_MAX];
    const uint32_t n = sl_dataset_parts(&w->ds, parts);
    bool found = false;
    for (uint32_t k = 0; k < n; k++)
        found |= strcmp(parts[k].name, path) == 0;
    return found;
}

// "TO/NAME.feat.K", of a type "TO/NAME.feat.TYPE.K"; absolute.
static int name_file(struct work *w, uint32_t set, uint32_t i)
{
    const char *type = w->m->made[set].type, *slash = strrchr(w->ds.path, '/');
    struct sl_stripes *s = &w->m->made[set].stripes;
    char *dir = realpath(w->m->to[i], NULL);
    if (!dir)
        return sl_fail_errno(errno == EACCES ? SL_EACCESS : SL_ENOENT, errno,
                             "stripe: --to %s: wanted a directory", w->m->to[i]);
    int n = asprintf(&s->file[i].path, "%s/%s.feat.%s%s%u", dir, slash ? slash + 1 : w->ds.path,
                     type, type[0] ? "." : "", i);
    free(dir);
    if (n < 0) {
        s->file[i].path = NULL;
        return sl_fail(SL_ENOMEM, "stripe: no memory for a path");
    }
    s->n = i + 1;
    if (is_in_use(w, s->file[i].path))
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
static int begin_file(struct work *w, uint32_t set, uint32_t i, uint64_t number)
{
    const struct sl_stripes *s = &w->m->made[set].stripes;
    const struct source *from = &w->source[set];
    struct sl_stripe_head head = {.version = SL_STRIPE_VERSION,
                                  .number = i,
                                  .n = s->n,
                                  .dtype = (uint32_t)from->dtype,
                                  .set = number,
                                  .unit_bytes = s->unit_bytes,
                                  .rows = from->n_rows,
                                  .columns = from->columns};
    memcpy(head.magic, sl_stripe_magic, sizeof head.magic);
    SL_TRY(sl_atomic_file_open(s->file[i].path, file_of(w, set, i)));
    const int fd = file_of(w, set, i)->fd;
    const uint64_t wanted = sl_stripes_file_bytes(s, i);
    int err = posix_fallocate(fd, 0, (off_t)wanted);
    if (err)
        return sl_fail_errno(SL_EIO, err, "stripe: %s: no room for its %" PRIu64 " bytes",
                             s->file[i].path, wanted);
    if (pwrite(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return sl_fail_errno(SL_EIO, errno, "stripe: %s: cannot be written", s->file[i].path);
    return SL_OK;
}

static int begin_files(struct work *w, uint32_t set)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return sl_fail_errno(SL_ESYS, errno, "stripe: no random number for the set");
    for (uint32_t i = 0; i < w->m->n; i++)
        SL_TRY(begin_file(w, set, i, number));
    return SL_OK;
}

static int write_at(const char *path, int fd, uint64_t offset, const char *from, uint64_t n)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, from, n, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return sl_fail_errno(SL_EIO, errno, "stripe: %s: cannot be written", path);
        from += done;
        offset += (uint64_t)done;
        n -= (uint64_t)done;
    }
    return SL_OK;
}

// Front to back, what is read asked for ahead and given up behind.
static int write_units(struct work *w, uint32_t set)
{
    const struct sl_stripes *s = &w->m->made[set].stripes;
    const char *from = w->source[set].rows;
    uint64_t n;
    sl_advise(from, s->matrix_bytes, MADV_SEQUENTIAL);
    for (uint64_t at = 0; at < s->matrix_bytes; at += n) {
        uint32_t file;
        uint64_t offset;
        sl_stripes_place(s->unit_bytes, s->n, at, &file, &offset);
        n = SL_MIN(SL_MIN(s->unit_bytes - at % s->unit_bytes, s->matrix_bytes - at),
                   (uint64_t)PIECE_BYTES);
        SL_TRY(sl_interrupt_check());
        SL_TRY(write_at(s->file[file].path, file_of(w, set, file)->fd, offset, from + at, n));
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
    for (uint32_t i = 0; i < w->m->n_made; i++)
        sl_metadata_put_stripes(root, w->source[i].type, &w->m->made[i].stripes, w->ds.path);
    snprintf(path, sizeof path, "%s/metadata.json", w->ds.path);
    return sl_metadata_save(path, root);
}

// A set for each width of rows: of all vertices one, of types those that have features.
static void find_sets(struct work *w)
{
    struct sl_stripe_making *m = w->m;
    const struct sl_dataset *ds = &w->ds;
    if (ds->feat)
        w->source[m->n_made++] = (struct source){
            ds->feat, sl_dataset_rows(ds), ds->feat_dim * sl_dtype_bytes(ds->feat_dtype),
            0,        ds->feat_dim,        ds->feat_dtype};
    for (uint32_t t = 0; t < ds->typed.n_types; t++) {
        const struct sl_vertex_type *type = &ds->typed.type[t];
        if (!type->feat)
            continue;
        strcpy(m->made[m->n_made].type, type->name);
        w->source[m->n_made++] = (struct source){
            type->feat, type->n, sl_type_row_bytes(type), t, type->feat_dim, type->feat_dtype};
    }
}

static int plan(struct work *w)
{
    struct sl_stripe_making *m = w->m;
    const uint32_t n_most = SL_MAX(w->ds.typed.n_types, 1u);
    if (m->n < 1 || m->n > SL_STRIPES_MAX)
        return sl_fail(SL_EINVAL, "stripe: found %u times --to, wanted 1 to %d directories", m->n,
                       SL_STRIPES_MAX);
    m->made = calloc(n_most, sizeof *m->made);
    w->source = calloc(n_most, sizeof *w->source);
    w->file = calloc((size_t)n_most * m->n, sizeof *w->file);
    if (!m->made || !w->source || !w->file)
        return sl_fail(SL_ENOMEM, "stripe: no memory");
    find_sets(w);
    if (m->n_made == 0)
        return sl_fail(SL_ENOENT,
                       "stripe: data set %s: no type has features, wanted one with some: `sluice "
                       "import typed` takes them",
                       w->ds.path);
    if (m->n_made * m->n > SL_STRIPE_FILES_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "stripe: found %u times --to for each of %u types, wanted at most %d files: "
                       "give at most %u directories",
                       m->n, m->n_made, SL_STRIPE_FILES_MAX, SL_STRIPE_FILES_MAX / m->n_made);
    // Units of all types are mapped; each type's last one may be of few bytes.
    const uint64_t least =
        SL_MAX(m->unit_bytes, sl_features_bytes(&w->ds) / (SL_STRIPE_UNITS_MAX - SL_TYPES_MAX) + 1);
    for (uint32_t i = 0; i < m->n_made; i++) {
        struct sl_stripes *s = &m->made[i].stripes;
        s->matrix_bytes = w->source[i].n_rows * w->source[i].row_bytes;
        s->unit_bytes = sl_stripes_unit(w->source[i].row_bytes, least);
        for (uint32_t k = 0; k < m->n; k++)
            SL_TRY(name_file(w, i, k));
    }
    return sl_descriptors_check(m->n_made * m->n, "stripe");
}

static int make(struct work *w)
{
    const struct sl_stripe_making *m = w->m;
    SL_TRY(plan(w));
    for (uint32_t i = 0; i < m->n_made; i++)
        SL_TRY(begin_files(w, i));
    sl_progress_begin(&w->progress, "features", sl_features_bytes(&w->ds), "B");
    for (uint32_t i = 0; i < m->n_made; i++)
        SL_TRY(write_units(w, i));
    SL_FAILPOINT(COMMAND_STAGED);
    for (uint32_t i = 0; i < m->n_made * m->n; i++) {
        SL_TRY(sl_atomic_file_commit(&w->file[i]));
        SL_FAILPOINT(COMMAND_STAGED);
    }
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
        rc = sl_dataset_open(m->dataset, SL_NEED_TOPOLOGY | SL_NEED_FEATURES, SL_CHECK_CACHED, 0,
                             &w->ds);
    if (rc == SL_OK)
        rc = make(w);
    sl_progress_clear(&w->progress);
    for (uint32_t i = 0; w->file && i < m->n_made * m->n; i++)
        sl_atomic_file_abort(&w->file[i]);
    sl_dataset_close(&w->ds);
    free(w->file);
    free(w->source);
    free(w);
    m->seconds = (double)(sl_now_ns() - start) * 1e-9;
    return rc;
}

void sl_stripe_making_fini(struct sl_stripe_making *m)
{
    for (uint32_t i = 0; i < m->n_made; i++)
        sl_stripes_fini(&m->made[i].stripes);
    free(m->made);
    m->made = NULL;
    m->n_made = 0;
}
