#include "common/device/device.h"

#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/memory.h"

static void *alloc(size_t n)
{
    void *p = sl_pages_alloc(n);
    if (!p)
        sl_fail(SL_ENOMEM, "the system has no %zu MiB of memory left for this process", n >> 20);
    return p;
}

static int copy(void *to, const void *from, size_t n)
{
    if (n)
        memmove(to, from, n);
    return SL_OK;
}

static int copy_2d(void *to, size_t to_stride, const void *from, size_t from_stride, size_t columns,
                   size_t rows)
{
    for (size_t i = 0; columns && i < rows; i++)
        memmove((char *)to + i * to_stride, (const char *)from + i * from_stride, columns);
    return SL_OK;
}

static int fill(void *p, int byte, size_t n)
{
    if (n)
        memset(p, byte, n);
    return SL_OK;
}

static int sync_nothing(void)
{
    return SL_OK;
}

static void use_queue(uint32_t i)
{
    (void)i; // everything is done when a call returns
}

static int map(void *p, size_t n, bool read_only, void **out)
{
    (void)n;
    (void)read_only;
    *out = p;
    return SL_OK;
}

static void unmap(void *p)
{
    (void)p;
}

static void *pinned(const void *p)
{
    return (void *)(uintptr_t)p;
}

static int space(uint64_t *free_bytes, uint64_t *total_bytes)
{
    *free_bytes = sl_device_memory_available();
    *total_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return SL_OK;
}

static int usage(uint64_t *used_bytes, uint64_t *total_bytes)
{
    uint64_t free_bytes;
    SL_TRY(space(&free_bytes, total_bytes));
    *used_bytes = *total_bytes - SL_MIN(free_bytes, *total_bytes);
    return SL_OK;
}

static bool load(struct sl_device_load *out)
{
    (void)out;
    return false; // of processes and cores the operating system tells
}

static uint64_t held(void)
{
    return 0; // what a process holds is the operating system's to say
}

static void trim(void) {}

static int not_shared(void)
{
    return sl_fail(SL_EUNSUPPORTED, "a CPU device's memory cannot be shared with other processes");
}

static int share(const void *p, struct sl_device_share *out)
{
    (void)p;
    (void)out;
    return not_shared();
}

static int attach(const struct sl_device_share *from, void **out)
{
    (void)from;
    (void)out;
    return not_shared();
}

static bool is_open(const void *p)
{
    (void)p;
    return false;
}

static const struct sl_device HOST = {
    .kind = "cpu",
    .is_host = true,
    .memory = {.alloc = alloc, .free = sl_pages_free},
    .copy = copy,
    .copy_2d = copy_2d,
    .fill = fill,
    .sync = sync_nothing,
    .use_queue = use_queue,
    .host_alloc = alloc,
    .host_free = sl_pages_free,
    .map = map,
    .unmap = unmap,
    .pinned = pinned,
    .space = space,
    .usage = usage,
    .load = load,
    .held = held,
    .trim = trim,
    .share = share,
    .attach = attach,
    .detach = unmap,
    .is_open = is_open,
};

const struct sl_device *sl_device_host(void)
{
    return &HOST;
}
