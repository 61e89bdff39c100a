/*
 * check.cc - what the checked build knows of each access of a kernel: bounds and races.
 *
 * PROBLEM. A kernel that reads a little beyond an array, or reads what another thread writes without
 * a barrier between them, mostly computes the right thing under an emulation, and on a GPU too.
 *
 * DESIGN. The kernels of the checked build are compiled for ThreadSanitizer, whose library is not
 * linked: the calls that the compiler puts before every load and store end here. Each access must
 * lie in memory that a kernel may use: an allocation of the device, host memory that is registered,
 * shared memory, constants and variables of the plug-in, the arguments, the thread's own stack.
 *
 * For device, shared and mapped memory a shadow keeps, for each four bytes, who wrote them last and
 * who read them last in this launch. Two accesses of different threads conflict when they meet in a
 * byte, one of them writes and not both are atomic (volatile ones count as atomic), and nothing
 * orders them:
 *
 *      threads of a warp     a __syncwarp() between them, or a __syncthreads()
 *      threads of a block    a __syncthreads() between them
 *      different blocks      __threadfence() in the block of the first, after the access, and in that
 *                            of the second, before (the counter between them is not looked for)
 *
 * Shuffles and votes order nothing, as CUDA has it. Launches order everything.
 *
 * MISSED. The shadow remembers one write and one reader (or "several"); a __syncwarp() of a part of
 * a warp counts as one of all of it; accesses of bytes smaller than four by several readers; what
 * memcpy() and the like do inside the C library.
 */
#include "tests/simt/internal.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace simt {

namespace {

enum : uint32_t { NO_BLOCK = UINT32_MAX };

// Who accessed four bytes last.
struct access {
    uint32_t launch, block, block_epoch, warp_epoch;
    uint16_t thread;
    uint8_t bytes;   // which of them
    uint8_t flags;   // ATOMIC, SEVERAL_THREADS, SEVERAL_BLOCKS
    uint32_t fences; // of the block before it
};
enum { ATOMIC = 1, SEVERAL_THREADS = 2, SEVERAL_WARPS = 4 }; // of one warp; of one block

struct cell {
    access write, read;
};

enum { SHADOWED_BYTES = 4096, CELLS = SHADOWED_BYTES / 4, REMEMBERED = 4096 };

struct page {
    cell cells[CELLS];
    uint8_t forbidden[SHADOWED_BYTES / 8]; // a bit a byte
    bool has_forbidden;
};

std::unordered_map<uintptr_t, page *> &pages()
{
    static auto *map = new std::unordered_map<uintptr_t, page *>;
    return *map;
}

struct {
    uintptr_t number;
    page *p;
} remembered[REMEMBERED];

page *page_of(uintptr_t address, bool make)
{
    uintptr_t number = address / SHADOWED_BYTES;
    auto &slot = remembered[number % REMEMBERED];
    if (slot.p && slot.number == number)
        return slot.p;
    auto found = pages().find(number);
    page *p = found == pages().end() ? NULL : found->second;
    if (!p && make)
        p = pages()[number] = static_cast<page *>(calloc(1, sizeof(page)));
    if (p)
        slot = {number, p};
    return p;
}

// The fences that each block of the launch has made: by its linear number.
std::unordered_map<uint32_t, uint32_t> fences;
uint32_t fences_of_block, fenced_block = NO_BLOCK;

uint32_t my_fences()
{
    if (fenced_block != running.block) {
        fenced_block = running.block;
        auto found = fences.find(running.block);
        fences_of_block = found == fences.end() ? 0 : found->second;
    }
    return fences_of_block;
}

// ---- bounds -------------------------------------------------------------------------------------

struct span {
    uintptr_t begin, end;
    bool writable;
};

// The plug-in's own variables and constants.
const std::vector<span> &module_spans()
{
    static const std::vector<span> spans = [] {
        std::vector<span> found;
        auto each = [](dl_phdr_info *info, size_t, void *data) {
            auto *list = static_cast<std::vector<span> *>(data);
            uintptr_t self = (uintptr_t)&running;
            bool ours = false;
            for (int i = 0; i < info->dlpi_phnum; i++) {
                const auto &p = info->dlpi_phdr[i];
                uintptr_t begin = info->dlpi_addr + p.p_vaddr;
                ours = ours || (p.p_type == PT_LOAD && self - begin < p.p_memsz);
            }
            for (int i = 0; ours && i < info->dlpi_phnum; i++) {
                const auto &p = info->dlpi_phdr[i];
                uintptr_t begin = info->dlpi_addr + p.p_vaddr;
                if (p.p_type == PT_LOAD)
                    list->push_back({begin, begin + p.p_memsz, (p.p_flags & PF_W) != 0});
            }
            return (int)ours;
        };
        dl_iterate_phdr(each, &found);
        return found;
    }();
    return spans;
}

enum place_kind { PLACE_NONE, PLACE_PRIVATE, PLACE_SHARED, PLACE_GLOBAL };

range last_range; // a copy: most accesses are to the same few allocations

bool inside(uintptr_t p, size_t n, uintptr_t begin, uintptr_t end)
{
    return p >= begin && p + n <= end && p + n >= p;
}

place_kind where_is(uintptr_t p, size_t n, bool write)
{
    if (inside(p, n, running.stack, running.stack_end))
        return PLACE_PRIVATE;
    if (inside(p, n, last_range.begin, last_range.end) && !(write && last_range.read_only))
        return PLACE_GLOBAL;
    uintptr_t dynamic = (uintptr_t)dynamic_shared_begin();
    if (inside(p, n, dynamic, dynamic + running.kernel->shared))
        return PLACE_SHARED;
    unsigned char *begin, *end;
    static_shared(&begin, &end);
    if (inside(p, n, (uintptr_t)begin, (uintptr_t)end))
        return PLACE_SHARED;
    const range *r = find_range(reinterpret_cast<void *>(p));
    if (r && inside(p, n, r->begin, r->end) && !(write && r->read_only)) {
        last_range = *r;
        return PLACE_GLOBAL;
    }
    uintptr_t arguments = (uintptr_t)running.kernel->arguments;
    if (!write && inside(p, n, arguments, arguments + running.kernel->argument_bytes))
        return PLACE_PRIVATE;
    for (const span &s : module_spans())
        if (!write && inside(p, n, s.begin, s.end))
            return PLACE_PRIVATE;
    return PLACE_NONE;
}

[[noreturn]] void report_bounds(uintptr_t p, size_t n, bool write, const void *code,
                                const char *why)
{
    char where[256], function[400];
    describe_address(reinterpret_cast<void *>(p), where, sizeof where);
    describe_code(code, function, sizeof function);
    report("OUT OF BOUNDS", "%s of %zu bytes at %s%s, by %s", write ? "store" : "load", n, where,
           why, function);
}

// ---- races --------------------------------------------------------------------------------------

// Whether an access before and the running thread's are not ordered.
bool unordered(const access &a, place_kind kind)
{
    if (a.launch != running.launch)
        return false;
    if (a.block != running.block) {
        if (kind == PLACE_SHARED) // each block has its own
            return false;
        auto found = fences.find(a.block);
        bool released = found != fences.end() && found->second > a.fences;
        return !(released && my_fences() > 0);
    }
    if (a.block_epoch != running.block_epoch)
        return false;
    if (a.flags & SEVERAL_WARPS || a.thread / 32 != running.thread / 32)
        return true;
    if (a.thread == running.thread && !(a.flags & SEVERAL_THREADS))
        return false;
    return a.warp_epoch == running.warp_epoch[running.thread / 32];
}

[[noreturn]] void report_race(uintptr_t p, bool write, bool with_write, const access &other,
                              place_kind kind, const void *code)
{
    char where[256], function[400];
    if (kind == PLACE_SHARED)
        snprintf(where, sizeof where, "shared memory at %p", reinterpret_cast<void *>(p));
    else
        describe_address(reinterpret_cast<void *>(p), where, sizeof where);
    describe_code(code, function, sizeof function);
    report("RACE", "%s of %s, by %s; nothing orders it with the %s of %sthread %u of block %u",
           write ? "store" : "load", where, function, with_write ? "store" : "load",
           other.flags & SEVERAL_THREADS ? "several threads, of which " : "", other.thread,
           other.block);
}

access now(uint8_t bytes, bool atomic)
{
    return {running.launch,
            running.block,
            running.block_epoch,
            running.warp_epoch[running.thread / 32],
            (uint16_t)running.thread,
            bytes,
            (uint8_t)(atomic ? ATOMIC : 0),
            my_fences()};
}

bool is_mine(const access &a)
{
    return a.launch == running.launch && a.block == running.block && a.thread == running.thread &&
           !(a.flags & SEVERAL_THREADS);
}

void note_read(cell *c, const access &mine, place_kind kind)
{
    bool whole = (mine.bytes | c->read.bytes) == 15 || mine.bytes == c->read.bytes;
    bool together = unordered(c->read, kind) && c->read.block == mine.block && !is_mine(c->read);
    if (!together) {
        c->read = mine;
        return;
    }
    // Readers of different bytes are not taken for readers of the same.
    if (whole) {
        bool other_warp = c->read.thread / 32 != mine.thread / 32;
        c->read.flags |= (uint8_t)(SEVERAL_THREADS | (other_warp ? SEVERAL_WARPS : 0));
        c->read.flags &= (uint8_t) ~(mine.flags & ATOMIC ? 0 : ATOMIC);
    } else {
        c->read = mine;
    }
}

void touch_cell(cell *c, uintptr_t p, uint8_t bytes, bool write, bool atomic, place_kind kind,
                const void *code)
{
    bool both_atomic = atomic && c->write.flags & ATOMIC;
    if (c->write.bytes & bytes && !both_atomic && unordered(c->write, kind))
        report_race(p, write, true, c->write, kind, code);
    both_atomic = atomic && c->read.flags & ATOMIC;
    if (write && c->read.bytes & bytes && !both_atomic && unordered(c->read, kind))
        report_race(p, write, false, c->read, kind, code);
    access mine = now(bytes, atomic);
    if (!write) {
        note_read(c, mine, kind);
        return;
    }
    if (is_mine(c->write) && c->write.block_epoch == mine.block_epoch)
        mine.bytes |= c->write.bytes; // its own stores to bytes beside these
    c->write = mine;
}

// Where it was; last_range has the allocation.
place_kind touch(uintptr_t p, size_t n, bool write, bool atomic, const void *code)
{
    place_kind kind = where_is(p, n, write);
    if (kind == PLACE_NONE)
        report_bounds(p, n, write, code, "");
    if (kind == PLACE_PRIVATE)
        return kind;
    for (uintptr_t at = p, end = p + n; at < end;) {
        page *shadow = page_of(at, true);
        size_t offset = at % SHADOWED_BYTES, in_word = at % 4;
        size_t here = std::min<size_t>(4 - in_word, end - at);
        if (shadow->has_forbidden)
            for (size_t i = 0; i < here; i++)
                if (shadow->forbidden[(offset + i) / 8] >> (offset + i) % 8 & 1)
                    report_bounds(p, n, write, code, ", outside of the test's array");
        uint8_t bytes = (uint8_t)(((1u << here) - 1) << in_word);
        touch_cell(&shadow->cells[offset / 4], at, bytes, write, atomic, kind, code);
        at += here;
    }
    return kind;
}

void count_load(const range &from, size_t n)
{
    if (from.kind == RANGE_PEER)
        counts().peer_bytes[from.device] += n;
    else if (from.kind != RANGE_DEVICE)
        counts().mapped_bytes += n;
}

void watch(void *p, size_t n, bool write, bool atomic, const void *code)
{
    if (!running.kernel)
        return;
    if ((uintptr_t)p - running.stack < STACK_BYTES)
        return;
    maybe_yield();
    if (touch((uintptr_t)p, n, write, atomic, code) == PLACE_GLOBAL && !write)
        count_load(last_range, n);
}

void mark(const void *p, size_t n, bool forbid)
{
    std::lock_guard<big_lock> hold(lock());
    for (uintptr_t at = (uintptr_t)p, end = at + n; at < end;) {
        size_t offset = at % SHADOWED_BYTES;
        size_t here = std::min<size_t>(SHADOWED_BYTES - offset, end - at);
        page *shadow = page_of(at, forbid);
        for (size_t i = offset; shadow && (forbid || shadow->has_forbidden) && i < offset + here;) {
            if (i % 8 == 0 && i + 8 <= offset + here) {
                shadow->forbidden[i / 8] = forbid ? 0xff : 0;
                i += 8;
            } else {
                uint8_t bit = (uint8_t)(1u << i % 8);
                if (forbid)
                    shadow->forbidden[i / 8] |= bit;
                else
                    shadow->forbidden[i / 8] &= (uint8_t)~bit;
                i++;
            }
        }
        if (shadow && forbid)
            shadow->has_forbidden = true;
        else if (shadow && here == SHADOWED_BYTES)
            shadow->has_forbidden = false;
        at += here;
    }
}

bool is_checked;

} // namespace

void check_launch()
{
    fences.clear();
    fenced_block = NO_BLOCK;
    last_range = {};
}

void check_fence()
{
    if (is_checked)
        fences_of_block = ++fences[fenced_block = running.block];
}

void check_atomic(const void *p, size_t bytes, const void *code)
{
    if (is_checked)
        touch((uintptr_t)p, bytes, true, true, code);
}

} // namespace simt

using namespace simt;

// ---- what tests call: memory that kernels must not touch, between arrays ------------------------

extern "C" __attribute__((visibility("default"))) void sluice_simt_forbid(const void *p, size_t n)
{
    if (is_checked)
        mark(p, n, true);
}

extern "C" __attribute__((visibility("default"))) void sluice_simt_allow(const void *p, size_t n)
{
    if (is_checked)
        mark(p, n, false);
}

extern "C" __attribute__((visibility("default"))) int sluice_simt_is_checked(void)
{
    return is_checked;
}

// ---- what the compiler calls --------------------------------------------------------------------

#define WATCH(name, n, write, atomic)                                                              \
    extern "C" void name(void *p)                                                                  \
    {                                                                                              \
        watch(p, n, write, atomic, __builtin_return_address(0));                                   \
    }
#define WATCH_SIZES(stem, write, atomic)                                                           \
    WATCH(stem##1, 1, write, atomic)                                                               \
    WATCH(stem##2, 2, write, atomic)                                                               \
    WATCH(stem##4, 4, write, atomic)                                                               \
    WATCH(stem##8, 8, write, atomic)                                                               \
    WATCH(stem##16, 16, write, atomic)

WATCH_SIZES(__tsan_read, false, false)
WATCH_SIZES(__tsan_write, true, false)
WATCH_SIZES(__tsan_unaligned_read, false, false)
WATCH_SIZES(__tsan_unaligned_write, true, false)
WATCH_SIZES(__tsan_volatile_read, false, true)
WATCH_SIZES(__tsan_volatile_write, true, true)
WATCH_SIZES(__tsan_unaligned_volatile_read, false, true)
WATCH_SIZES(__tsan_unaligned_volatile_write, true, true)

extern "C" void __tsan_read_range(void *p, size_t n)
{
    watch(p, n, false, false, __builtin_return_address(0));
}
extern "C" void __tsan_write_range(void *p, size_t n)
{
    watch(p, n, true, false, __builtin_return_address(0));
}
extern "C" void __tsan_vptr_update(void *, void *) {}
extern "C" void __tsan_vptr_read(void *) {}
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init()
{
    is_checked = true;
}

// Host code of the plug-in uses the compiler's atomic operations; kernels do not.
#define PLAIN_ATOMICS(bits, type)                                                                  \
    extern "C" type __tsan_atomic##bits##_load(const volatile type *p, int)                        \
    {                                                                                              \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                               \
    }                                                                                              \
    extern "C" void __tsan_atomic##bits##_store(volatile type *p, type v, int)                     \
    {                                                                                              \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                  \
    }                                                                                              \
    extern "C" type __tsan_atomic##bits##_exchange(volatile type *p, type v, int)                  \
    {                                                                                              \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                        \
    }                                                                                              \
    extern "C" type __tsan_atomic##bits##_fetch_add(volatile type *p, type v, int)                 \
    {                                                                                              \
        return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                         \
    }                                                                                              \
    extern "C" type __tsan_atomic##bits##_fetch_sub(volatile type *p, type v, int)                 \
    {                                                                                              \
        return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                         \
    }                                                                                              \
    extern "C" int __tsan_atomic##bits##_compare_exchange_strong(volatile type *p, type *old,      \
                                                                 type v, int, int)                 \
    {                                                                                              \
        return __atomic_compare_exchange_n(p, old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
    }
PLAIN_ATOMICS(8, uint8_t)
PLAIN_ATOMICS(16, uint16_t)
PLAIN_ATOMICS(32, uint32_t)
PLAIN_ATOMICS(64, uint64_t)
