#include "broker/rundir/row_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/threads.h"
#include "common/data/npy.h"

#define EXP_AVG    "embedding.exp_avg.npy"
#define EXP_AVG_SQ "embedding.exp_avg_sq.npy"
#define MOMENTUM   "embedding.momentum_buffer.npy"

const char *const sl_row_files[SL_ROW_FILES] = {SL_ROW_FILE_VALUES, SL_ROW_FILE_BEST, EXP_AVG,
                                                EXP_AVG_SQ, MOMENTUM};

const char *sl_row_file_of_state(uint32_t n_state, uint32_t i)
{
    return n_state == 1 ? MOMENTUM : i == 0 ? EXP_AVG : EXP_AVG_SQ;
}

static uint64_t matrix_bytes(const struct sl_row_table_shape *s)
{
    return s->n_rows * s->dim * sizeof(float);
}

int sl_row_file_save(const struct sl_row_table_shape *shape, const float *values, const char *path)
{
    const uint64_t dims[] = {shape->n_rows, shape->dim};
    struct sl_npy_writer *w = NULL;
    SL_TRY(sl_npy_writer_open(path, SL_DTYPE_F32, 2, dims, &w));
    return sl_npy_writer_close(&w, sl_npy_writer_append(w, values, matrix_bytes(shape)));
}

int sl_row_file_load(const struct sl_row_table_shape *shape, const char *path, float *values,
                     const atomic_bool *cancel)
{
    struct sl_npy npy;
    char found[128];
    SL_TRY(sl_npy_open(path, &npy));
    const struct sl_npy_header *h = &npy.head;
    const bool fits = h->dtype == SL_DTYPE_F32 && h->ndim == 2 && h->shape[0] == shape->n_rows &&
                      h->shape[1] == shape->dim;
    if (fits)
        sl_threads_copy(values, npy.data, matrix_bytes(shape), cancel);
    int rc =
        fits ? SL_OK
             : sl_fail(SL_EFORMAT,
                       "%s: found %s %s, wanted float32 (%llu, %u): it is of "
                       "another job or data set",
                       path, sl_npy_dtype_name(h->dtype), sl_npy_shape_text(h, found, sizeof found),
                       (unsigned long long)shape->n_rows, shape->dim);
    sl_npy_close(&npy);
    return rc;
}

static uint64_t copy_bytes(const struct sl_row_table_shape *s)
{
    return (2 + (uint64_t)s->n_state) * matrix_bytes(s);
}

int sl_row_copy_init(struct sl_row_copy *c, const struct sl_row_table *t, int fd)
{
    const uint64_t bytes = copy_bytes(&t->shape), one = matrix_bytes(&t->shape) / sizeof(float);
    const int how = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    *c = (struct sl_row_copy){0};
    int err = fd < 0 ? 0 : posix_fallocate(fd, 0, (off_t)bytes);
    void *map = err ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, fd, 0);
    if (map == MAP_FAILED)
        return sl_fail_errno(fd < 0 ? SL_ENOMEM : SL_EIO, err ? err : errno,
                             "checkpoints of learned rows: a copy of %llu bytes",
                             (unsigned long long)bytes);
    *c = (struct sl_row_copy){.shape = t->shape, .map = map, .values = map};
    c->best = c->values + one;
    for (uint32_t i = 0; i < t->shape.n_state; i++)
        c->state[i] = c->values + (2 + i) * one;
    return SL_OK;
}

void sl_row_copy_fini(struct sl_row_copy *c)
{
    if (c->map)
        munmap(c->map, copy_bytes(&c->shape));
    *c = (struct sl_row_copy){0};
}

void sl_row_copy_take(struct sl_row_copy *c, const struct sl_row_table *t, bool best)
{
    sl_threads_copy(c->values, t->values, matrix_bytes(&c->shape), NULL);
    SL_FAILPOINT(BROKER_ROWS_COPY);
    for (uint32_t i = 0; i < c->shape.n_state; i++)
        sl_threads_copy(c->state[i], t->state[i], matrix_bytes(&c->shape), NULL);
    if (best)
        sl_threads_copy(c->best, t->best, matrix_bytes(&c->shape), NULL);
}

struct sl_row_view sl_row_copy_view(const struct sl_row_copy *c)
{
    return (struct sl_row_view){.shape = c->shape,
                                .values = c->values,
                                .best = c->best,
                                .state = {c->state[0], c->state[1]}};
}

struct sl_row_view sl_row_view_of(const struct sl_row_table *t)
{
    return (struct sl_row_view){.shape = t->shape,
                                .values = t->values,
                                .best = t->best,
                                .state = {t->state[0], t->state[1]}};
}
