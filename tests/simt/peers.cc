/*
 * peers.cc - memory of other processes' devices (CUDA IPC), and what becomes of it when they die.
 *
 * DESIGN. Device memory is a file, which another process maps (memory.cc). With CUDA such memory
 * belongs to the process that allocated it: when that one dies it goes, whoever has it open and
 * whatever kernel is reading it. So for each piece that is open a pidfd is watched, when device
 * memory is first touched after some time that it was not and before each block of a kernel. What
 * has lost its owner is taken away, and there is in its place, for as long as it is open:
 *
 *      rubbish     the bytes that freed memory has, as where others have got it since
 *      a fault     (SLUICE_SIMT_DEAD=fault) the launch or copy that touches it ends where it is, and
 *                  the device is lost to this process
 *
 * While a piece is open its bytes are locked in the owner's file, by the open file that the mapping
 * is of, and so until it is closed or its process is gone. Whoever frees what others have open is
 * told so (CUDA says that the result is undefined).
 *
 * A process is dead when its pidfd says so, which is after the kernel has closed its files and
 * marked its robust futexes: what looks at those after a read sees the death of whatever was read.
 */
#include "tests/simt/internal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

namespace simt {

namespace {

struct ipc {
    uint64_t magic;
    int32_t pid, file, device;
    uint64_t offset, bytes;
};
const uint64_t IPC_MAGIC = 0x53494d54495043ull;

// Owners that live, by pidfd, and the range of each; guarded by lock().
std::vector<pollfd> owners;
std::vector<uintptr_t> owned;

size_t mapped_bytes(const range &r)
{
    return (r.end - r.begin + PAGE - 1) / PAGE * PAGE;
}

void forget(size_t i)
{
    close(owners[i].fd);
    owners[i] = owners.back();
    owned[i] = owned.back();
    owners.pop_back();
    owned.pop_back();
}

// The owner of a range is dead.
void drop(range &r)
{
    heap &h = the_heap();
    size_t bytes = mapped_bytes(r);
    bool faults = settings().dead_faults;
    void *p = mmap((void *)r.begin, bytes, faults ? PROT_NONE : PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (p == MAP_FAILED)
        report("SYSTEM", "a dead process's memory cannot be taken away: %m");
    r.is_lost = faults;
    if (faults)
        return;
    memset(p, FREED_BYTE, bytes);
    if (h.key >= 0 && pkey_mprotect(p, bytes, PROT_READ | PROT_WRITE, h.key) != 0)
        report("SYSTEM", "pkey_mprotect of a dead process's memory failed: %m");
}

} // namespace

void drop_the_dead()
{
    if (owners.empty() || poll(owners.data(), owners.size(), 0) <= 0)
        return;
    for (size_t i = owners.size(); i-- > 0;) {
        if (!owners[i].revents)
            continue;
        drop(the_heap().ranges.at(owned[i]));
        forget(i);
    }
}

bool is_lost_memory(const void *p)
{
    const range *r = find_range(p);
    return r && r->is_lost;
}

// Of [begin, end) of an owner's file, for as long as the file is open or mapped.
static void lock_piece(int file, uint64_t begin, uint64_t end)
{
    struct flock piece = {};
    piece.l_type = F_RDLCK;
    piece.l_start = (off_t)begin;
    piece.l_len = (off_t)(end - begin);
    if (fcntl(file, F_OFD_SETLK, &piece) != 0)
        report("SYSTEM", "another process's memory cannot be locked: %m");
}

void refuse_to_free_what_is_open(const range &r)
{
    heap &h = the_heap();
    struct flock piece = {};
    piece.l_type = F_WRLCK;
    piece.l_start = (off_t)(r.begin - (uintptr_t)h.base);
    piece.l_len = (off_t)(r.end - r.begin);
    if (fcntl(h.file, F_OFD_GETLK, &piece) != 0)
        report("SYSTEM", "who has memory open cannot be asked: %m");
    if (piece.l_type != F_UNLCK)
        report("FREED WHILE OPEN", "allocation %llu of %zu bytes is open in another process",
               (unsigned long long)r.number, (size_t)(r.end - r.begin));
}

} // namespace simt

using namespace simt;

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p)
{
    SIMT_ENTRY();
    const range *r = find_range(p);
    if (!r || r->kind != RANGE_DEVICE || r->begin != (uintptr_t)p)
        return failed(cudaErrorInvalidValue);
    heap &h = the_heap();
    ipc handle = {
        IPC_MAGIC,        (int32_t)getpid(), h.file, r->device, r->begin - (uintptr_t)h.base,
        r->end - r->begin};
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle, unsigned)
{
    *out = NULL;
    SIMT_ENTRY();
    ipc from;
    memcpy(&from, &handle, sizeof from);
    if (from.magic != IPC_MAGIC || from.pid == getpid()) // CUDA refuses the owner too
        return failed(cudaErrorInvalidValue);
    if (from.device != current_device() && !reaches(current_device(), from.device))
        return failed(cudaErrorPeerAccessUnsupported);
    // The process is named before its file is: a file that is there is that one's.
    char path[64];
    int owner = (int)syscall(SYS_pidfd_open, from.pid, 0);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", from.pid, from.file);
    int file = owner < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) {
        close(owner);
        return failed(cudaErrorInvalidResourceHandle);
    }
    heap &h = the_heap();
    size_t skip = from.offset % PAGE, bytes = (skip + from.bytes + PAGE - 1) / PAGE * PAGE;
    void *p = mmap(NULL, bytes, h.windows ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, file,
                   (off_t)(from.offset - skip));
    if (p != MAP_FAILED)
        lock_piece(file, from.offset, from.offset + from.bytes);
    close(file);
    if (p == MAP_FAILED) {
        close(owner);
        return failed(cudaErrorMemoryAllocation);
    }
    if (h.key >= 0 && pkey_mprotect(p, bytes, PROT_READ | PROT_WRITE, h.key) != 0)
        report("SYSTEM", "pkey_mprotect of another process's memory failed: %m");
    uintptr_t begin = (uintptr_t)p; // the range begins with the page; *out lies in it
    h.ranges[begin] = {begin,      begin + skip + from.bytes, RANGE_PEER, from.device, false,
                       ++h.numbers};
    owners.push_back({owner, POLLIN, 0});
    owned.push_back(begin);
    *out = (void *)(begin + skip);
    return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void *p)
{
    SIMT_ENTRY();
    const range *r = find_range(p);
    if (!r || r->kind != RANGE_PEER)
        return failed(cudaErrorInvalidValue);
    cudaError_t rc = stop_device("cudaIpcCloseMemHandle()");
    for (size_t i = owners.size(); i-- > 0;)
        if (owned[i] == r->begin)
            forget(i);
    munmap((void *)r->begin, mapped_bytes(*r));
    the_heap().ranges.erase(r->begin);
    return rc;
}
