/*
 * memory.cc - the devices' memory, and what host memory a device may use.
 *
 * DESIGN. One region of addresses is reserved for device memory, a part of it for each device; it
 * is a file of the process's memory (memfd), so that another process can map a piece of it
 * (peers.cc). Nobody may touch it while no window is open: the region is PROT_NONE then, so host
 * code that follows a pointer to device memory dies at once (report.cc says why). Windows are
 * opened by launches and by the runtime's copies, and may nest. Where the processor has protection
 * keys a window is the calling thread's alone and costs nothing; otherwise it is the process's, by
 * mprotect().
 *
 *      | guard | allocation, 512-aligned | guard | free ... | guard | allocation | guard |
 *
 * Fresh memory is filled with 0xff (NaN as floats) and freed memory with 0xdb; guards are looked at
 * when an allocation is freed and when the device is synchronised.
 */
#include "tests/simt/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace simt {

heap &the_heap()
{
    static heap *h = NULL;
    if (h)
        return *h;
    h = new heap();
    // Twice a device's memory of addresses, so that gaps between allocations do not matter.
    size_t each = (settings().memory_bytes * 2 + (64 << 20) + PAGE - 1) / PAGE * PAGE;
    int n = settings().devices;
    h->bytes = each * (size_t)(n ? n : 1);
    h->file = memfd_create("simt-device", MFD_CLOEXEC);
    void *p = MAP_FAILED;
    if (h->file >= 0 && ftruncate(h->file, (off_t)h->bytes) == 0)
        p = mmap(NULL, h->bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, h->file, 0);
    if (p == MAP_FAILED)
        report("OUT OF MEMORY", "no region of %zu bytes for device memory", h->bytes);
    const char *keys = getenv("SLUICE_SIMT_KEYS");
    h->key = keys && *keys == '0' ? -1 : pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (h->key >= 0 && pkey_mprotect(p, h->bytes, PROT_READ | PROT_WRITE, h->key) != 0)
        h->key = -1;
    h->base = static_cast<unsigned char *>(p);
    for (int i = 0; i < n; i++) {
        uintptr_t begin = (uintptr_t)p + each * (size_t)i;
        h->devices[i] = {begin, begin + each, 0};
    }
    return *h;
}

namespace {

enum : size_t {
    ALIGNMENT = 512,
    GUARD = 512,
    FILLED_BYTES = 16 << 20, // of a large allocation: its begin and its end
};
enum { GUARD_BYTE = 0xc9, FRESH_BYTE = 0xff };

thread_local int chosen_device;

void protect(int how)
{
    heap &h = the_heap();
    if (h.key >= 0) {
        pkey_set(h.key, how == PROT_NONE ? PKEY_DISABLE_ACCESS : 0);
        return;
    }
    size_t n = (h.touched + PAGE - 1) / PAGE * PAGE;
    if (n && mprotect(h.base, n, how) != 0)
        report("SYSTEM", "mprotect of device memory failed: %m");
    for (auto &r : h.ranges) // what other processes gave
        if (r.second.kind == RANGE_PEER && !r.second.is_lost)
            mprotect((void *)r.first, (r.second.end - r.first + PAGE - 1) / PAGE * PAGE, how);
}

void check_guards(const range &r)
{
    const unsigned char *begin = (const unsigned char *)r.begin,
                        *end = (const unsigned char *)r.end;
    for (size_t i = 0; i < GUARD; i++) {
        if (begin[-1 - (ptrdiff_t)i] != GUARD_BYTE)
            report("OUT OF BOUNDS", "byte %zu before allocation %llu of %zu bytes was written",
                   i + 1, (unsigned long long)r.number, (size_t)(end - begin));
        if (end[i] != GUARD_BYTE)
            report("OUT OF BOUNDS", "byte %zu behind allocation %llu of %zu bytes was written", i,
                   (unsigned long long)r.number, (size_t)(end - begin));
    }
}

void fill(uintptr_t p, size_t n, int byte)
{
    if (n <= 2 * FILLED_BYTES) {
        memset((void *)p, byte, n);
        return;
    }
    memset((void *)p, byte, FILLED_BYTES);
    memset((void *)(p + n - FILLED_BYTES), byte, FILLED_BYTES);
}

// The first gap of a device's part that n bytes and their guards fit into; 0 where there is none.
uintptr_t find_gap(const device &d, size_t n)
{
    heap &h = the_heap();
    uintptr_t at = d.begin;
    for (auto i = h.ranges.lower_bound(d.begin); i != h.ranges.end() && i->first < d.end; ++i) {
        if (i->second.kind != RANGE_DEVICE)
            continue;
        if (i->first - GUARD >= at + 2 * GUARD + n)
            break;
        at = (i->second.end + GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return at + 2 * GUARD + n + ALIGNMENT <= d.end ? at + GUARD : 0;
}

bool overlaps(uintptr_t begin, uintptr_t end)
{
    heap &h = the_heap();
    auto next = h.ranges.lower_bound(begin);
    if (next != h.ranges.end() && next->first < end)
        return true;
    return next != h.ranges.begin() && std::prev(next)->second.end > begin;
}

long malloc_calls;

bool there_are_devices()
{
    return settings().devices > 0 && !settings().no_device && !settings().old_driver;
}

} // namespace

window::window()
{
    lock().lock();
    if (the_heap().windows++ == 0) {
        protect(PROT_READ | PROT_WRITE);
        drop_the_dead();
    }
}

void window::reopen()
{
    protect(PROT_READ | PROT_WRITE);
}

window::~window()
{
    if (--the_heap().windows == 0)
        protect(PROT_NONE);
    lock().unlock();
}

const range *find_range(const void *p)
{
    heap &h = the_heap();
    auto next = h.ranges.upper_bound((uintptr_t)p);
    if (next == h.ranges.begin())
        return NULL;
    const range &r = std::prev(next)->second;
    return (uintptr_t)p < r.end ? &r : NULL;
}

bool touches_range(const void *p, size_t bytes)
{
    return bytes > 0 && overlaps((uintptr_t)p, (uintptr_t)p + bytes);
}

bool in_region(const void *p)
{
    heap &h = the_heap();
    return (uintptr_t)p - (uintptr_t)h.base < h.bytes;
}

void describe_address(const void *p, char *out, size_t bytes)
{
    static const char *const kinds[] = {"device memory", "pinned host memory",
                                        "registered host memory", "another process's memory"};
    heap &h = the_heap();
    uintptr_t at = (uintptr_t)p;
    auto next = h.ranges.upper_bound(at);
    const range *r = next == h.ranges.begin() ? NULL : &std::prev(next)->second;
    if (r && at < r->end)
        snprintf(out, bytes, "%p, byte %zu of %zu of allocation %llu, %s", p, at - r->begin,
                 r->end - r->begin, (unsigned long long)r->number, kinds[r->kind]);
    else if (r && at - r->end < PAGE)
        snprintf(out, bytes, "%p, %zu bytes behind the %zu of allocation %llu, %s", p, at - r->end,
                 r->end - r->begin, (unsigned long long)r->number, kinds[r->kind]);
    else if (in_region(p))
        snprintf(out, bytes, "%p, device memory that is not allocated", p);
    else
        snprintf(out, bytes, "%p, memory that is not the device's", p);
}

int current_device()
{
    return chosen_device;
}

bool device_is_lost()
{
    return the_heap().lost != cudaSuccess;
}

void lose_device(cudaError_t why)
{
    the_heap().lost = why;
}

} // namespace simt

using namespace simt;

cudaError_t simt::stop_device(const char *what)
{
    refuse_in_a_sum(what);
    counts().stops++;
    return wait_for_device();
}

static cudaError_t no_devices()
{
    return settings().old_driver ? cudaErrorInsufficientDriver : cudaErrorNoDevice;
}

cudaError_t simt::device_error()
{
    return there_are_devices() ? the_heap().lost : no_devices();
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    if (!there_are_devices())
        return failed(no_devices());
    *count = settings().devices;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    SIMT_ENTRY();
    if (device < 0 || device >= settings().devices)
        return failed(cudaErrorInvalidDevice);
    chosen_device = device;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    SIMT_ENTRY();
    size_t used = the_heap().devices[chosen_device].used;
    *total_bytes = settings().memory_bytes;
    *free_bytes = *total_bytes - (used < *total_bytes ? used : *total_bytes);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = NULL;
    SIMT_ENTRY();
    if (++malloc_calls == settings().fail_malloc)
        return failed(cudaErrorMemoryAllocation);
    if (bytes == 0)
        return cudaSuccess;
    heap &h = the_heap();
    device &d = h.devices[chosen_device];
    size_t taken = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (taken > settings().memory_bytes || d.used > settings().memory_bytes - taken)
        return failed(cudaErrorMemoryAllocation);
    uintptr_t p = find_gap(d, bytes);
    if (!p)
        return failed(cudaErrorMemoryAllocation);
    h.touched = std::max<size_t>(h.touched, p + bytes + GUARD - (uintptr_t)h.base);
    d.used += taken;
    h.ranges[p] = {p, p + bytes, RANGE_DEVICE, chosen_device, false, ++h.numbers};
    {
        window open;
        memset((void *)(p - GUARD), GUARD_BYTE, GUARD);
        memset((void *)(p + bytes), GUARD_BYTE, GUARD);
        fill(p, bytes, FRESH_BYTE);
    }
    *out = (void *)p;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    SIMT_ENTRY();
    if (!p)
        return cudaSuccess;
    cudaError_t rc = stop_device("cudaFree()"); // as the real one does
    if (rc != cudaSuccess)
        return rc;
    heap &h = the_heap();
    auto found = h.ranges.find((uintptr_t)p);
    if (found == h.ranges.end() || found->second.kind != RANGE_DEVICE)
        return failed(cudaErrorInvalidValue);
    range r = found->second;
    refuse_to_free_what_is_open(r);
    {
        window open;
        check_guards(r);
        fill(r.begin, r.end - r.begin, FREED_BYTE);
        uintptr_t first = (r.begin + PAGE - 1) / PAGE * PAGE, last = r.end / PAGE * PAGE;
        if (last > first && last - first > 2 * FILLED_BYTES) // the system's again
            madvise((void *)first, last - first, MADV_REMOVE);
    }
    h.devices[r.device].used -= (r.end - r.begin + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    h.ranges.erase(found);
    return cudaSuccess;
}

void simt::check_all_guards()
{
    heap &h = the_heap();
    window open;
    for (auto &r : h.ranges)
        if (r.second.kind == RANGE_DEVICE)
            check_guards(r.second);
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    *out = NULL;
    SIMT_ENTRY();
    if (bytes == 0)
        return cudaSuccess;
    size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    void *p = mmap(NULL, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return failed(cudaErrorMemoryAllocation);
    heap &h = the_heap();
    h.ranges[(uintptr_t)p] = {(uintptr_t)p, (uintptr_t)p + bytes, RANGE_PINNED, chosen_device,
                              false,        ++h.numbers};
    *out = p;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    SIMT_ENTRY();
    if (!p)
        return cudaSuccess;
    cudaError_t rc = stop_device("cudaFreeHost()");
    if (rc != cudaSuccess)
        return rc;
    heap &h = the_heap();
    auto found = h.ranges.find((uintptr_t)p);
    if (found == h.ranges.end() || found->second.kind != RANGE_PINNED)
        return failed(cudaErrorInvalidValue);
    munmap(p, (found->second.end - found->second.begin + PAGE - 1) / PAGE * PAGE);
    h.ranges.erase(found);
    return cudaSuccess;
}

// For tests that count: whole lines, also of several processes.
static void tell_registered(const void *p, size_t bytes)
{
    char line[96];
    int file = settings().registered
                   ? open(settings().registered, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644)
                   : -1;
    if (file < 0)
        return;
    int n = snprintf(line, sizeof line, "%d %p %zu\n", (int)getpid(), p, bytes);
    if (write(file, line, (size_t)n) != n)
        report("SYSTEM", "SLUICE_SIMT_REGISTERED: %m");
    close(file);
}

// Whether the process may write to all of it: a driver pins pages as if the device were to.
static bool is_writable(uintptr_t begin, uintptr_t end)
{
    unsigned long from, to;
    char line[4200], may[8];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        report("SYSTEM", "/proc/self/maps: %m");
    while (begin < end && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &from, &to, may) == 3 && from <= begin && begin < to &&
            may[1] == 'w')
            begin = to;
    fclose(maps);
    return begin >= end;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    SIMT_ENTRY();
    bool read_only = (flags & cudaHostRegisterReadOnly) != 0;
    if (settings().no_register)
        return failed(cudaErrorMemoryAllocation);
    if (!p || bytes == 0 || in_region(p))
        return failed(cudaErrorInvalidValue);
    if (read_only && !settings().maps_read_only)
        return failed(cudaErrorNotSupported);
    uintptr_t begin = (uintptr_t)p;
    if (!read_only && !is_writable(begin, begin + bytes))
        return failed(cudaErrorInvalidValue);
    if (overlaps(begin, begin + bytes))
        return failed(cudaErrorHostMemoryAlreadyRegistered);
    heap &h = the_heap();
    h.ranges[begin] = {begin,         begin + bytes, RANGE_REGISTERED,
                       chosen_device, read_only,     ++h.numbers};
    tell_registered(p, bytes);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    SIMT_ENTRY();
    heap &h = the_heap();
    auto found = h.ranges.find((uintptr_t)p);
    if (found == h.ranges.end() || found->second.kind != RANGE_REGISTERED)
        return failed(cudaErrorHostMemoryNotRegistered);
    cudaError_t rc = stop_device("cudaHostUnregister()");
    h.ranges.erase((uintptr_t)p);
    return rc;
}

cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned)
{
    SIMT_ENTRY();
    const range *r = find_range(p);
    *out = NULL;
    if (!r || r->kind == RANGE_DEVICE)
        return failed(cudaErrorInvalidValue);
    *out = p;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *out, const void *p)
{
    SIMT_ENTRY();
    const range *r = find_range(p);
    memset(out, 0, sizeof *out);
    out->device = r ? r->device : -2;
    if (!r) {
        out->type = cudaMemoryTypeUnregistered;
        out->hostPointer = const_cast<void *>(p);
        return cudaSuccess;
    }
    bool host = r->kind == RANGE_PINNED || r->kind == RANGE_REGISTERED;
    out->type = host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    out->devicePointer = const_cast<void *>(p);
    out->hostPointer = host ? const_cast<void *>(p) : NULL;
    return cudaSuccess;
}
