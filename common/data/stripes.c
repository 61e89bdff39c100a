#include "common/data/stripes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/open_file.h"

const char sl_stripe_magic[8] = {'S', 'L', 'S', 'T', 'R', 'I', 'P', 'E'};

enum { PAGE_BYTES = SL_STRIPE_HEAD_BYTES };

_Static_assert(sizeof(struct sl_stripe_head) <= SL_STRIPE_HEAD_BYTES, "a head is one block");

// Whole rows and whole pages: the least common multiple, and multiples of it.
uint64_t sl_stripes_unit(uint64_t row_bytes, uint64_t wanted)
{
    uint64_t a = row_bytes, b = PAGE_BYTES;
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    const uint64_t least = row_bytes / a * PAGE_BYTES;
    return sl_div_up(SL_MAX(wanted, (uint64_t)1), least) * least;
}

uint64_t sl_stripes_file_bytes(const struct sl_stripes *s, uint32_t number)
{
    const uint64_t whole = s->matrix_bytes / s->unit_bytes, rest = s->matrix_bytes % s->unit_bytes;
    const uint64_t units = whole / s->n + (whole % s->n > number);
    return SL_STRIPE_HEAD_BYTES + units * s->unit_bytes + (whole % s->n == number ? rest : 0);
}

// One file, as it is opened.
struct opened {
    int fd;
    struct sl_stripe_head head;
};

static int check_first(const struct sl_stripes *s, const struct sl_stripe_head *h, uint64_t before)
{
    const char *path = s->file[0].path;
    if (h->dtype != SL_DTYPE_F32 && h->dtype != SL_DTYPE_F16)
        return sl_fail(SL_EFORMAT, "%s: its head is damaged: type %u", path, h->dtype);
    const uint64_t row = h->columns * sl_dtype_bytes((enum sl_dtype)h->dtype);
    if (h->columns == 0 || h->columns > INT32_MAX || h->rows > UINT32_MAX || h->unit_bytes == 0 ||
        h->unit_bytes % PAGE_BYTES || h->unit_bytes % row || h->unit_bytes > (uint64_t)1 << 50)
        return sl_fail(SL_EFORMAT,
                       "%s: its head is damaged: %" PRIu64 " rows of %" PRIu64
                       " columns in units of %" PRIu64 " bytes",
                       path, h->rows, h->columns, h->unit_bytes);
    const uint64_t units = before + sl_div_up(h->rows * row, h->unit_bytes);
    if (units > SL_STRIPE_UNITS_MAX)
        return sl_fail(SL_EUNSUPPORTED,
                       "%s: %" PRIu64 " units with those of types before, its own of %" PRIu64
                       " bytes, at most %d can be mapped: make the stripes again with --unit "
                       "%" PRIu64,
                       path, units, h->unit_bytes, SL_STRIPE_UNITS_MAX,
                       sl_stripes_unit(row, units * h->unit_bytes / SL_STRIPE_UNITS_MAX + 1));
    return SL_OK;
}

// Whether this file is the one that stands here.
static int check_head(const struct sl_stripes *s, uint32_t number, uint64_t before,
                      const struct opened *all)
{
    const struct sl_stripe_head *h = &all[number].head, *first = &all[0].head;
    const char *path = s->file[number].path;
    if (memcmp(h->magic, sl_stripe_magic, sizeof h->magic) != 0 || h->version != SL_STRIPE_VERSION)
        return sl_fail(SL_EFORMAT,
                       "%s: is not a stripe of features: wanted a file of `sluice stripe` where "
                       "\"feat_stripes\" of metadata.json names it",
                       path);
    if (h->n != s->n)
        return sl_fail(SL_EFORMAT,
                       "%s: is one of %u stripes, and \"feat_stripes\" of metadata.json names %u",
                       path, h->n, s->n);
    if (number == 0)
        SL_TRY(check_first(s, h, before));
    if (h->set != first->set)
        return sl_fail(SL_EFORMAT, "%s: is of another set of stripes than %s", path,
                       s->file[0].path);
    if (h->number != number)
        return sl_fail(SL_EFORMAT,
                       "%s: is stripe %u of %u and stands where stripe %u belongs: put "
                       "\"feat_stripes\" of metadata.json in order",
                       path, h->number, h->n, number);
    if (memcmp(&h->unit_bytes, &first->unit_bytes,
               sizeof *h - offsetof(struct sl_stripe_head, unit_bytes)) != 0 ||
        h->dtype != first->dtype)
        return sl_fail(SL_EFORMAT,
                       "%s: its head is damaged: it says something else than that of %s", path,
                       s->file[0].path);
    return SL_OK;
}

static int open_one(struct sl_stripes *s, uint32_t number, uint64_t before, struct opened *all)
{
    struct stat st;
    struct sl_stripe *f = &s->file[number];
    const int fd = sl_open_regular_file(f->path, &st);
    if (fd == SL_ENOENT)
        return sl_fail(SL_ENOENT,
                       "%s: stripe %u of %u is missing, which \"feat_stripes\" of metadata.json "
                       "names: mount its drive, or make the stripes again with `sluice stripe`",
                       f->path, number, s->n);
    SL_TRY(fd);
    all[number].fd = fd;
    f->id = sl_file_id_of(&st);
    SL_TRY(sl_file_id_check(f->path, f->was, &st));
    const ssize_t n = pread(fd, &all[number].head, sizeof all[number].head, 0);
    if (n < 0)
        return sl_fail_errno(SL_EIO, errno, "%s: cannot be read", f->path);
    if ((size_t)n < sizeof all[number].head)
        memset(&all[number].head, 0, sizeof all[number].head); // which is none
    SL_TRY(check_head(s, number, before, all));
    s->unit_bytes = all[0].head.unit_bytes;
    s->matrix_bytes =
        all[0].head.rows * all[0].head.columns * sl_dtype_bytes((enum sl_dtype)all[0].head.dtype);
    const uint64_t wanted = sl_stripes_file_bytes(s, number);
    if (f->id.bytes == wanted)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s: has %" PRIu64 " bytes, wanted %" PRIu64
                   ": an incomplete copy: copy the file again",
                   f->path, f->id.bytes, wanted);
}

static int map_units(const struct sl_stripes *s, const struct opened *all, char *base)
{
    for (uint64_t at = 0; at < s->matrix_bytes; at += s->unit_bytes) {
        uint32_t file;
        uint64_t offset;
        sl_stripes_place(s->unit_bytes, s->n, at, &file, &offset);
        const uint64_t bytes = SL_MIN(s->unit_bytes, s->matrix_bytes - at);
        if (mmap(base + at, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, all[file].fd,
                 (off_t)offset) == MAP_FAILED)
            return sl_fail_errno(SL_ENOMEM, errno, "%s: cannot be mapped", s->file[file].path);
    }
    return SL_OK;
}

static int map_all(struct sl_stripes *s, uint64_t *n_units, struct opened *all, struct sl_npy *out)
{
    for (uint32_t i = 0; i < s->n; i++)
        SL_TRY(open_one(s, i, *n_units, all));
    *n_units += sl_div_up(s->matrix_bytes, s->unit_bytes);
    const struct sl_stripe_head *h = &all[0].head;
    out->head = (struct sl_npy_header){.dtype = (enum sl_dtype)h->dtype,
                                       .ndim = 2,
                                       .shape = {h->rows, h->columns},
                                       .data_bytes = s->matrix_bytes};
    out->n_elems = h->rows * h->columns;
    out->file_bytes = SL_MAX(s->matrix_bytes, (uint64_t)1);
    // The place for all units; PROT_NONE, so it is no memory.
    void *base = mmap(NULL, out->file_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return sl_fail_errno(SL_ENOMEM, errno, "%s: no room to map its %" PRIu64 " bytes",
                             s->file[0].path, s->matrix_bytes);
    out->map = base;
    out->data = base;
    return map_units(s, all, base);
}

int sl_stripes_map(struct sl_stripes *s, uint64_t *n_units, struct sl_npy *out)
{
    struct opened all[SL_STRIPES_MAX];
    *out = (struct sl_npy){0};
    for (uint32_t i = 0; i < s->n; i++)
        all[i].fd = -1;
    int rc = map_all(s, n_units, all, out);
    for (uint32_t i = 0; i < s->n; i++)
        if (all[i].fd >= 0)
            close(all[i].fd);
    if (rc < 0)
        sl_npy_close(out);
    return rc;
}

void sl_stripes_fini(struct sl_stripes *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        free(s->file[i].path);
    *s = (struct sl_stripes){0};
}
