#include "trainer/infer/activation_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/memory.h"
#include "common/base/mempool.h"
#include "common/data/atomic_file.h"

enum {
    PAGE = 4096,
    MEMORY_DIVISOR = 8, // there are three at most
};

int sl_activation_file_open(struct sl_activation_file *a, const char *scratch, bool bounded,
                            uint64_t rows, uint32_t width)
{
    *a = (struct sl_activation_file){
        .fd = -1, .bytes = rows * width * sizeof *a->data, .scratch = scratch};
    if (!bounded && a->bytes <= sl_device_memory_available() / MEMORY_DIVISOR)
        a->data = sl_pages_alloc(a->bytes);
    if (a->data)
        return SL_OK;
    a->fd = sl_anon_file_open(scratch);
    if (a->fd < 0)
        return sl_fail_errno(errno == EACCES ? SL_EACCESS : SL_EIO, errno,
                             "activations: a file in '%s'", scratch);
    if (ftruncate(a->fd, (off_t)a->bytes) != 0)
        return sl_fail_errno(
            SL_EIO, errno,
            "activations: a file of %llu bytes in '%s': name another directory with "
            "--scratch",
            (unsigned long long)a->bytes, scratch);
    void *map = mmap(NULL, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
    if (map == MAP_FAILED)
        return sl_fail_errno(SL_ENOMEM, errno, "activations: mapping %llu bytes of '%s'",
                             (unsigned long long)a->bytes, scratch);
    a->data = map;
    return SL_OK;
}

void sl_activation_file_close(struct sl_activation_file *a)
{
    if (a->fd < 0)
        sl_pages_free(a->data, a->bytes);
    else if (a->data)
        munmap(a->data, a->bytes);
    if (a->fd >= 0)
        close(a->fd);
    *a = (struct sl_activation_file){.fd = -1};
}

static int reserve_span(const struct sl_activation_file *a, uint64_t from, uint64_t bytes)
{
    int err = posix_fallocate(a->fd, (off_t)from, (off_t)bytes);
    if (err == 0)
        return SL_OK;
    return sl_fail_errno(SL_EIO, err,
                         "activations: reserving %llu bytes in '%s' (a layer of this model needs "
                         "%llu there): free space or name another directory with --scratch",
                         (unsigned long long)bytes, a->scratch, (unsigned long long)a->bytes);
}

int sl_activation_file_reserve(const struct sl_activation_file *a, uint32_t width, uint64_t before,
                               const struct sl_infer_range *range)
{
    const uint64_t row = (uint64_t)width * sizeof(float);
    if (a->fd < 0 || range->n == 0)
        return SL_OK;
    if (!range->ids)
        return reserve_span(a, (before + range->first) * row, range->n * row);
    uint64_t from = (before + range->ids[0]) * row, to = from + row;
    for (uint32_t i = 1; i < range->n; i++) {
        uint64_t at = (before + range->ids[i]) * row;
        if (at <= to + PAGE) { // the same page, or the next
            to = at + row;
            continue;
        }
        SL_TRY(reserve_span(a, from, to - from));
        from = at;
        to = at + row;
    }
    return reserve_span(a, from, to - from);
}
