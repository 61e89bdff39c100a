#include "common/arena/row_table.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/philox.h"
#include "common/base/threads.h"

#define MAGIC 0x32424154574f5253ull // "SROWTAB2"

enum {
    PAGE = 4096,
    CHUNK_FLOATS = 1 << 10, // of an array: the journal and what it is made of stay in a cache
    WIDTH_MAX = 1 << 20,
    FILL_ROWS = 4096,
};

struct lane {
    // The version's lowest 16 bits, the chunk, and the lowest bit: it is whole in the journal.
    _Alignas(SL_CACHE_LINE) _Atomic uint64_t progress;
};

struct sl_row_table_head {
    uint64_t magic;
    struct sl_row_table_shape shape;
    struct lane lane[SL_ROW_TABLE_LANES];
};

// Offsets of the parts of the second file.
struct layout {
    uint64_t journals, journal_bytes, slots, slot_ids, slot_bytes, bytes;
};

enum { VERSION_SHIFT = 48 };

static uint64_t word_of(uint64_t version, uint64_t chunk, bool whole)
{
    return version << VERSION_SHIFT | chunk << 1 | whole;
}

static uint64_t matrix_bytes(const struct sl_row_table_shape *s)
{
    return sl_align_up(s->n_rows * s->dim * sizeof(float), (uint64_t)PAGE);
}

uint64_t sl_row_table_bytes(const struct sl_row_table_shape *shape)
{
    return (2 + (uint64_t)shape->n_state) * matrix_bytes(shape);
}

uint32_t sl_row_table_chunk_rows(uint32_t dim)
{
    return SL_MAX((uint32_t)CHUNK_FLOATS / dim, 1u);
}

static uint64_t journal_ids_bytes(const struct sl_row_table_shape *s)
{
    return sl_align_up((1 + (uint64_t)sl_row_table_chunk_rows(s->dim)) * sizeof(uint32_t),
                       (uint64_t)SL_CACHE_LINE);
}

static uint64_t journal_array_bytes(const struct sl_row_table_shape *s)
{
    const uint64_t floats = (uint64_t)sl_row_table_chunk_rows(s->dim) * s->dim;
    return sl_align_up(floats * sizeof(float), (uint64_t)SL_CACHE_LINE);
}

static struct layout lay_out(const struct sl_row_table_shape *s)
{
    struct layout l = {.journals = sl_align_up(sizeof(struct sl_row_table_head), (uint64_t)PAGE)};
    l.journal_bytes = journal_ids_bytes(s) + (1 + (uint64_t)s->n_state) * journal_array_bytes(s);
    l.slots = l.journals + sl_align_up(SL_ROW_TABLE_LANES * l.journal_bytes, (uint64_t)PAGE);
    l.slot_ids = sl_align_up((1 + s->n_rows) * sizeof(uint32_t), (uint64_t)PAGE);
    l.slot_bytes = l.slot_ids + matrix_bytes(s);
    l.bytes = l.slots + s->n_slots * l.slot_bytes;
    return l;
}

static int check_shape(const struct sl_row_table_shape *s)
{
    if (s->n_rows == 0 || s->n_rows > UINT32_MAX || s->dim == 0 || s->dim > WIDTH_MAX ||
        s->n_state > SL_ROW_TABLE_STATES || s->n_slots == 0)
        return sl_fail(SL_EINVAL,
                       "learned rows: %llu of %u numbers with %u optimizer arrays for %u batches",
                       (unsigned long long)s->n_rows, s->dim, s->n_state, s->n_slots);
    return SL_OK;
}

static int map(int fd, uint64_t bytes, void **out)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return sl_fail_errno(SL_ENOMEM, errno, "learned rows: mapping %llu bytes",
                             (unsigned long long)bytes);
    *out = p;
    return SL_OK;
}

// Maps both files, whose shape is known.
static int map_all(int rows_fd, int work_fd, const struct sl_row_table_shape *shape,
                   struct sl_row_table *t)
{
    void *work = NULL;
    *t = (struct sl_row_table){.shape = *shape};
    SL_TRY(map(rows_fd, sl_row_table_bytes(shape), &t->rows));
    int rc = map(work_fd, lay_out(shape).bytes, &work);
    if (rc < 0) {
        sl_row_table_close(t);
        return rc;
    }
    t->head = work;
    char *at = t->rows;
    t->values = (float *)(void *)at;
    for (uint32_t i = 0; i < shape->n_state; i++)
        t->state[i] = (float *)(void *)(at += matrix_bytes(shape));
    t->best = (float *)(void *)(at + matrix_bytes(shape));
    return SL_OK;
}

int sl_row_table_create(int rows_fd, int work_fd, const struct sl_row_table_shape *shape,
                        bool reserve, struct sl_row_table *out)
{
    *out = (struct sl_row_table){0};
    SL_TRY(check_shape(shape));
    const uint64_t bytes = sl_row_table_bytes(shape);
    if (ftruncate(rows_fd, (off_t)bytes) < 0 || ftruncate(work_fd, (off_t)lay_out(shape).bytes) < 0)
        return sl_fail_errno(SL_ENOMEM, errno, "learned rows: files of %llu bytes",
                             (unsigned long long)bytes);
    int err = reserve ? posix_fallocate(rows_fd, 0, (off_t)bytes) : 0;
    if (err)
        return sl_fail_errno(SL_EIO, err,
                             "learned rows: a file of %llu bytes: free space on the drive, or take "
                             "a smaller features.dim",
                             (unsigned long long)bytes);
    SL_TRY(map_all(rows_fd, work_fd, shape, out));
    out->head->shape = *shape;
    out->head->magic = MAGIC;
    return SL_OK;
}

int sl_row_table_open(int rows_fd, int work_fd, struct sl_row_table *out)
{
    struct sl_row_table_head head;
    struct stat rows, work;
    *out = (struct sl_row_table){0};
    if (pread(work_fd, &head, sizeof head, 0) != sizeof head || head.magic != MAGIC ||
        check_shape(&head.shape) < 0 || fstat(rows_fd, &rows) < 0 || fstat(work_fd, &work) < 0 ||
        (uint64_t)rows.st_size != sl_row_table_bytes(&head.shape) ||
        (uint64_t)work.st_size != lay_out(&head.shape).bytes)
        return sl_fail(SL_EFORMAT, "learned rows: the broker has made none, or is of another build "
                                   "than the workers");
    return map_all(rows_fd, work_fd, &head.shape, out);
}

void sl_row_table_close(struct sl_row_table *t)
{
    if (t->rows)
        munmap(t->rows, sl_row_table_bytes(&t->shape));
    if (t->head)
        munmap(t->head, lay_out(&t->shape).bytes);
    *t = (struct sl_row_table){0};
}

// ---- the values that training begins with -------------------------------------------------------

struct fill {
    const struct sl_row_table *table;
    uint64_t seed;
    float bound;
    const atomic_bool *cancel;
    _Atomic uint64_t next; // row that nobody has taken
};

static void fill_row(const struct fill *f, uint64_t row)
{
    const uint32_t dim = f->table->shape.dim;
    float *out = f->table->values + row * dim;
    for (uint32_t c = 0; c < dim; c += 4) {
        const struct sl_rng_block draw = sl_philox(f->seed, sl_rng_word0(SL_RNG_ROWS, 0, 0), c / 4,
                                                   (uint32_t)row, (uint32_t)(row >> 32));
        for (uint32_t k = c; k < SL_MIN(c + 4, dim); k++)
            out[k] = f->bound * (2 * sl_rng_unit(draw.w[k - c]) - 1);
    }
}

static int fill_some(void *context, int thread)
{
    struct fill *f = context;
    const uint64_t n = f->table->shape.n_rows;
    (void)thread;
    for (uint64_t row; (row = atomic_fetch_add(&f->next, FILL_ROWS)) < n;) {
        if (f->cancel && atomic_load(f->cancel))
            break;
        for (uint64_t end = SL_MIN(row + FILL_ROWS, n); row < end; row++)
            fill_row(f, row);
    }
    return SL_OK;
}

int sl_row_table_fill(struct sl_row_table *t, uint64_t seed, int threads, const atomic_bool *cancel)
{
    const double shape = (double)t->shape.n_rows + t->shape.dim;
    struct fill f = {.table = t, .seed = seed, .bound = (float)sqrt(6.0 / shape), .cancel = cancel};
    SL_FAILPOINT(BROKER_ROWS_FILL);
    return sl_threads_run(threads, fill_some, &f);
}

void sl_row_table_keep_best(const struct sl_row_table *t)
{
    const uint64_t bytes = matrix_bytes(&t->shape), half = bytes / 2;
    sl_threads_copy(t->best, t->values, half, NULL);
    SL_FAILPOINT(BROKER_ROWS_BEST);
    sl_threads_copy((char *)t->best + half, (char *)t->values + half, bytes - half, NULL);
}

// ---- an update ----------------------------------------------------------------------------------

struct sl_row_slot sl_row_table_slot(const struct sl_row_table *t, uint32_t cell)
{
    const struct layout l = lay_out(&t->shape);
    char *at = (char *)t->head + l.slots + cell % t->shape.n_slots * l.slot_bytes;
    uint32_t *words = (uint32_t *)(void *)at;
    return (struct sl_row_slot){
        .n = words, .ids = words + 1, .gradient = (float *)(void *)(at + l.slot_ids)};
}

struct sl_row_journal sl_row_table_journal(const struct sl_row_table *t, uint32_t lane)
{
    const struct layout l = lay_out(&t->shape);
    char *at = (char *)t->head + l.journals + lane * l.journal_bytes;
    uint32_t *words = (uint32_t *)(void *)at;
    struct sl_row_journal j = {.n = words, .ids = words + 1};
    at += journal_ids_bytes(&t->shape);
    j.values = (float *)(void *)at;
    for (uint32_t i = 0; i < t->shape.n_state; i++)
        j.state[i] = (float *)(void *)(at += journal_array_bytes(&t->shape));
    return j;
}

static _Atomic uint64_t *progress_of(const struct sl_row_table *t, uint32_t lane)
{
    return &t->head->lane[lane].progress;
}

int sl_row_table_begin(const struct sl_row_table *t, uint32_t lane, uint64_t version,
                       struct sl_row_table_progress *out)
{
    const uint64_t at = atomic_load_explicit(progress_of(t, lane), memory_order_acquire);
    const uint64_t chunks = (UINT64_C(1) << VERSION_SHIFT) - 1;
    *out = (struct sl_row_table_progress){
        .chunk = (at & chunks) >> 1, .whole = at & 1, .made = at == word_of(version + 1, 0, false)};
    if (!out->made && at >> VERSION_SHIFT != (version & 0xffff))
        return sl_fail(SL_EPROTO, "learned rows are of a version that ends in %llu, wanted %llu",
                       (unsigned long long)(at >> VERSION_SHIFT),
                       (unsigned long long)(version & 0xffff));
    return SL_OK;
}

void sl_row_table_advance(const struct sl_row_table *t, uint32_t lane, uint64_t version,
                          uint64_t chunk, bool whole)
{
    atomic_store_explicit(progress_of(t, lane), word_of(version, chunk, whole),
                          memory_order_release);
}

void sl_row_table_end(const struct sl_row_table *t, uint32_t lane, uint64_t version)
{
    sl_row_table_advance(t, lane, version + 1, 0, false);
}

bool sl_row_table_is_at(const struct sl_row_table *t, uint64_t version)
{
    const uint64_t wanted = word_of(version, 0, false);
    uint32_t lane = 0;
    while (lane < SL_ROW_TABLE_LANES &&
           atomic_load_explicit(progress_of(t, lane), memory_order_acquire) == wanted)
        lane++;
    return lane == SL_ROW_TABLE_LANES;
}

void sl_row_table_restore(const struct sl_row_table *t, uint64_t version)
{
    for (uint32_t lane = 0; lane < SL_ROW_TABLE_LANES; lane++)
        sl_row_table_advance(t, lane, version, 0, false);
}
