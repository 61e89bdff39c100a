/*
 * engine.cc - runs a launch: its blocks in turn, a block's threads as fibres.
 *
 * DESIGN. A fibre is a stack and a stack pointer; 1024 of them are made when they are first needed
 * and kept. A block starts all its fibres; each runs until it waits or ends, and then switches to
 * one that can run. A barrier opens when all threads of the block have come to it; a *_sync()
 * function when all lanes of its mask have, and the last to come computes the results of all. When
 * nobody can run and not all have ended, somebody waits for what cannot come: who, where and for
 * whom is reported.
 *
 * ORDER. Which of the threads that could run does is decided by the seed: the first, the last or
 * any of them, and blocks go upwards, downwards or shuffled. But for the shuffled order a warp goes
 * on until it comes to a barrier: its stacks stay in the cache, and warps are as far apart as a
 * kernel lets them be. Under a shuffled order threads give way at some of their atomic operations too
 * (in the checked build at any access), since that is where kernels depend on order. A thread that
 * spins gives way after a number of atomic operations.
 *
 * Blocks are never interleaved: a kernel whose blocks wait for each other never ends on a GPU that
 * runs fewer of them at once than there are, so kernels here must not; it is found as a hang.
 *
 * Differences from a GPU: a lane that a mask names must come, ended lanes are not excused; nor are
 * ended threads at __syncthreads(), and all must come to the same one. GPUs since Volta forgive both.
 */
#include "tests/simt/internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#ifndef __x86_64__
#include <ucontext.h>
#endif

extern unsigned char __start_simt_shared[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_simt_shared[] __attribute__((weak, visibility("hidden")));

namespace simt {

uint3 thread_idx, block_idx;
dim3 block_dim, grid_dim;
struct running running;

namespace {

enum state { READY, AT_BARRIER, AT_WARP, ENDED };

#ifdef __x86_64__
typedef void *context;
#else
typedef ucontext_t context;
#endif

struct alignas(64) fibre {
    context saved;
    // what it waits with
    uint64_t value, result;
    enum state state;
    warp_kind warp;
    unsigned mask, argument;
    int width;
    place at;
    bool counted; // in its warp's gathering

    unsigned char *stack;
    uint3 idx;
    unsigned linear;
    unsigned atomics; // since it last gave way
};

// Lanes of a warp that have come to the same *_sync() with the same mask. Where lanes wait in several
// groups at once only the first is counted so, and the others are looked for one by one.
struct gathering {
    unsigned mask, here;
    warp_kind kind;
    unsigned others; // lanes that wait and are not counted
};

enum { ATOMICS_BEFORE_YIELD = 64, YIELDS_BETWEEN_LOOKS = 1 << 14, HANG_S = 60 };

fibre fibres[THREADS_MAX];
gathering gatherings[WARPS_MAX];
fibre *current;
context host_context;
unsigned made; // fibres with a stack
unsigned n_threads, n_ended, n_at_barrier;
bool is_abandoned;         // the block was left in the middle
fibre *ready[THREADS_MAX]; // a ring; shuffled order takes any of it
unsigned ready_head, n_ready;
unsigned char *dynamic_memory;
uint64_t random_state;
uint64_t yields;
timespec started;

// ---- contexts -----------------------------------------------------------------------------------

void fibre_main();

#ifdef __x86_64__
enum : size_t { COLOURS = 16, COLOUR_BYTES = 4096 / COLOURS };

extern "C" void simt_switch(void **from, void *to);
// Callee-saved registers go to the stack that is left, and come from the one that is entered.
__asm__(".text\n"
        ".hidden simt_switch\n"
        ".type simt_switch, @function\n"
        "simt_switch:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size simt_switch, .-simt_switch\n");

void switch_context(context *from, context *to)
{
    simt_switch(from, *to);
}

void make_context(fibre *f)
{
    // As simt_switch() left it: six registers, then the address to return to, with the stack as the
    // ABI wants it at a function's first instruction. Stacks begin at different places of their
    // pages: at the same one they would push each other out of the processor's cache.
    const size_t off = f->linear % COLOURS * COLOUR_BYTES;
    void **top = reinterpret_cast<void **>(f->stack + STACK_BYTES - off);
    top[-2] = reinterpret_cast<void *>(fibre_main);
    for (int i = 3; i <= 8; i++)
        top[-i] = NULL;
    f->saved = top - 8;
}
#else
void switch_context(context *from, context *to)
{
    swapcontext(from, to);
}

void make_context(fibre *f)
{
    getcontext(&f->saved);
    f->saved.uc_stack.ss_sp = f->stack;
    f->saved.uc_stack.ss_size = STACK_BYTES;
    f->saved.uc_link = NULL;
    makecontext(&f->saved, fibre_main, 0);
}
#endif

void make_fibres(unsigned n)
{
    static const size_t guard = 64 << 10; // any page size
    for (; made < n; made++) {
        void *p = mmap(NULL, guard + STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED ||
            mprotect((unsigned char *)p + guard, STACK_BYTES, PROT_READ | PROT_WRITE) != 0)
            report("OUT OF MEMORY", "no stack for thread %u of a block", made);
        fibres[made].stack = (unsigned char *)p + guard;
        fibres[made].linear = made;
        make_context(&fibres[made]);
    }
}

// ---- who runs -----------------------------------------------------------------------------------

void push_ready(fibre *f)
{
    f->state = READY;
    ready[(ready_head + n_ready++) % THREADS_MAX] = f;
}

// Before all others.
void push_first(fibre *f)
{
    f->state = READY;
    ready_head = (ready_head + THREADS_MAX - 1) % THREADS_MAX;
    ready[ready_head] = f;
    n_ready++;
}

fibre *pop_ready()
{
    if (settings().order == ORDER_SHUFFLED) {
        unsigned other = (ready_head + (unsigned)(random_word() % n_ready)) % THREADS_MAX;
        fibre *kept = ready[other];
        ready[other] = ready[ready_head];
        ready[ready_head] = kept;
    }
    fibre *f = ready[ready_head];
    ready_head = (ready_head + 1) % THREADS_MAX;
    n_ready--;
    return f;
}

// To a fibre that can run, or to the block's runner when there is none.
void leave()
{
    fibre *from = current;
    fibre *to = n_ready ? pop_ready() : NULL;
    if (to == from)
        return;
    current = to;
    if (to) {
        thread_idx = to->idx;
        running.thread = to->linear;
        running.stack = (uintptr_t)to->stack;
        running.stack_end = running.stack + STACK_BYTES;
    }
    switch_context(&from->saved, to ? &to->saved : &host_context);
}

void fibre_main()
{
    for (;;) {
        running.kernel->run();
        current->state = ENDED;
        n_ended++;
        leave();
    }
}

void look_for_a_hang()
{
    if (++yields % YIELDS_BETWEEN_LOOKS)
        return;
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec - started.tv_sec > HANG_S)
        report("HANG", "the block has run for %d s; does it wait for another block?", HANG_S);
}

void give_way()
{
    current->atomics = 0;
    look_for_a_hang();
    push_ready(current);
    leave();
}

const char *const WARP_NAMES[] = {
    "__syncwarp",    "__shfl_sync", "__shfl_up_sync",   "__shfl_down_sync",  "__shfl_xor_sync",
    "__ballot_sync", "__any_sync",  "__match_any_sync", "__reduce_add_sync", "__reduce_or_sync",
};

const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Nobody can run and not all have ended: says what they wait for.
[[noreturn]] void report_stuck()
{
    fibre *first = NULL, *other = NULL;
    for (unsigned i = 0; i < n_threads; i++) {
        fibre *f = &fibres[i];
        if (f->state == ENDED)
            continue;
        if (!first)
            first = f;
        else if (!other &&
                 (f->state != first->state || f->at.line != first->at.line ||
                  strcmp(f->at.file, first->at.file) != 0 ||
                  (f->state == AT_WARP && (f->warp != first->warp || f->mask != first->mask))))
            other = f;
    }
    running.thread = first->linear;
    char also[160] = "";
    if (other)
        snprintf(also, sizeof also, "; thread %u waits at %s:%d (%s)", other->linear,
                 base_name(other->at.file), other->at.line,
                 other->state == AT_BARRIER ? "__syncthreads" : WARP_NAMES[other->warp]);
    if (first->state == AT_BARRIER)
        report("DIVERGENT BARRIER",
               "waits at %s:%d (__syncthreads) with %u of %u threads; %u have left the kernel%s",
               base_name(first->at.file), first->at.line, n_at_barrier, n_threads, n_ended, also);
    unsigned base = first->linear / 32 * 32, missing = 0, ended = 0;
    for (unsigned lane = 0; lane < 32; lane++) {
        if (!(first->mask >> lane & 1))
            continue;
        const fibre *f = &fibres[base + lane];
        if (base + lane >= n_threads || f->state == ENDED)
            ended |= 1u << lane;
        if (base + lane >= n_threads || f->state != AT_WARP || f->mask != first->mask ||
            f->warp != first->warp)
            missing |= 1u << lane;
    }
    report("WRONG MASK",
           "waits at %s:%d (%s, mask %08x) for lanes %08x, of which %08x have left the kernel%s",
           base_name(first->at.file), first->at.line, WARP_NAMES[first->warp], first->mask, missing,
           ended, also);
}

// ---- blocks -------------------------------------------------------------------------------------

// Static shared memory that a kernel has been seen to write, in pieces.
struct used_shared {
    std::set<size_t> pieces;
    unsigned launches = 0;
    bool is_learning = false; // all of it was filled before this block
};
enum : size_t { PIECE = 256 };

unsigned char rubbish()
{
    return running.block & 1 ? 0xa7 : 0xff; // of floats NaN
}

// Shared memory has nothing in it that a block could rely on. That of all kernels of the plug-in is
// large: all of it is filled before some blocks, which show what the kernel writes; that alone is
// filled before the others.
void spoil_shared(const call &k, used_shared *used, bool first)
{
    enum { LAUNCHES = 16, BLOCKS = 64 };
    size_t all = (size_t)(__stop_simt_shared - __start_simt_shared);
    if (first)
        used->launches++;
    used->is_learning =
        (first && used->launches % LAUNCHES == 1) || running.block % BLOCKS == BLOCKS - 1;
    if (used->is_learning && all)
        memset(__start_simt_shared, rubbish(), all);
    else
        for (size_t at : used->pieces)
            memset(__start_simt_shared + at, rubbish(), std::min<size_t>(PIECE, all - at));
    memset(dynamic_memory, rubbish(), k.shared);
}

void learn_shared(used_shared *used)
{
    const unsigned char *shared = __start_simt_shared;
    size_t all = (size_t)(__stop_simt_shared - __start_simt_shared);
    for (size_t at = 0; used->is_learning && at < all; at += PIECE) {
        size_t n = std::min<size_t>(PIECE, all - at);
        // All of its bytes are rubbish when the first is and each is as the one before it.
        if (shared[at] != rubbish() || memcmp(shared + at, shared + at + 1, n - 1) != 0)
            used->pieces.insert(at);
    }
}

void check_dynamic_zone(const call &k)
{
    enum { ZONE = 256 };
    for (size_t i = 0; i < ZONE; i++)
        if (dynamic_memory[k.shared + i] != 0xc3)
            report("OUT OF BOUNDS",
                   "byte %zu behind %zu bytes of dynamic shared memory was written", i, k.shared);
}

void set_block(uint32_t linear)
{
    running.block = linear;
    block_idx.x = linear % grid_dim.x;
    block_idx.y = linear / grid_dim.x % grid_dim.y;
    block_idx.z = linear / grid_dim.x / grid_dim.y;
    running.block_epoch = 0;
    memset(running.warp_epoch, 0, sizeof running.warp_epoch);
}

void run_block(call &k)
{
    ready_head = n_ready = n_ended = n_at_barrier = 0;
    memset(gatherings, 0, sizeof gatherings);
    bool reverse = settings().order == ORDER_REVERSE;
    for (unsigned i = 0; i < n_threads; i++) {
        fibre *f = &fibres[reverse ? n_threads - 1 - i : i];
        f->atomics = 0;
        push_ready(f);
    }
    clock_gettime(CLOCK_MONOTONIC, &started);
    fibre *to = current = pop_ready();
    thread_idx = to->idx;
    running.thread = to->linear;
    running.stack = (uintptr_t)to->stack;
    running.stack_end = running.stack + STACK_BYTES;
    switch_context(&host_context, &to->saved);
    if (is_abandoned) {
        is_abandoned = false;
        for (unsigned i = 0; i < made; i++)
            make_context(&fibres[i]);
        window::reopen();
        return;
    }
    if (n_ended != n_threads)
        report_stuck();
    check_dynamic_zone(k);
}

// The i-th block to run of n. Shuffled: a random cycle through all of them, i * step + start with a
// step that has no factor in common with n.
struct block_order {
    uint64_t n, start, step;
    explicit block_order(uint64_t blocks) : n(blocks), start(0), step(1)
    {
        if (settings().order == ORDER_REVERSE)
            start = n - 1, step = n - 1;
        if (settings().order != ORDER_SHUFFLED)
            return;
        start = random_word() % n;
        for (step = random_word() % n | 1; has_common_factor(step, n);)
            step = random_word() % n + 1;
    }
    static bool has_common_factor(uint64_t a, uint64_t b)
    {
        while (b) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        return a != 1;
    }
    uint64_t at(uint64_t i) const
    {
        return (uint64_t)(((unsigned __int128)i * step + start) % n);
    }
};

} // namespace

uint64_t random_word()
{
    uint64_t z = random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

cudaError_t validate(const call &k)
{
    uint64_t threads = (uint64_t)k.block.x * k.block.y * k.block.z;
    if (threads == 0 || threads > THREADS_MAX || k.block.z > 64)
        return cudaErrorInvalidConfiguration;
    if (k.grid.x == 0 || k.grid.y == 0 || k.grid.z == 0 || k.grid.x > 0x7fffffffu ||
        k.grid.y > 65535 || k.grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    return k.shared > (48u << 10) ? cudaErrorInvalidValue : cudaSuccess;
}

void execute(call &k)
{
    if (!dynamic_memory)
        dynamic_memory = static_cast<unsigned char *>(aligned_alloc(256, SHARED_MAX + 1024));
    catch_faults();
    n_threads = k.block.x * k.block.y * k.block.z;
    make_fibres(n_threads);
    grid_dim = k.grid;
    block_dim = k.block;
    for (unsigned i = 0; i < n_threads; i++)
        fibres[i].idx = {i % k.block.x, i / k.block.x % k.block.y, i / k.block.x / k.block.y};
    running.kernel = &k;
    running.launch++;
    random_state = settings().seed * 0x9E3779B97F4A7C15u + running.launch;
    check_launch();
    memset(dynamic_memory + k.shared, 0xc3, 256);
    uint64_t n = (uint64_t)k.grid.x * k.grid.y * k.grid.z;
    block_order order(n);
    static std::map<const void *, used_shared> used_by;
    used_shared &used = used_by[k.function];
    {
        window open;
        for (uint64_t i = 0; i < n && !device_is_lost(); i++) {
            drop_the_dead();
            set_block((uint32_t)order.at(i));
            spoil_shared(k, &used, i == 0);
            run_block(k);
            learn_shared(&used);
        }
    }
    running.kernel = NULL;
}

void abandon(cudaError_t why)
{
    static context nowhere;
    lose_device(why);
    is_abandoned = true;
    switch_context(&nowhere, &host_context);
    __builtin_unreachable();
}

unsigned char *dynamic_shared_begin()
{
    return dynamic_memory;
}

void static_shared(unsigned char **begin, unsigned char **end)
{
    *begin = __start_simt_shared;
    *end = __stop_simt_shared;
}

// ---- what kernels call --------------------------------------------------------------------------

uint3 get_thread_idx()
{
    return thread_idx;
}
uint3 get_block_idx()
{
    return block_idx;
}
dim3 get_block_dim()
{
    return block_dim;
}
dim3 get_grid_dim()
{
    return grid_dim;
}

void *dynamic_shared()
{
    return dynamic_memory;
}

long long clock()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

void trap(place at)
{
    report("TRAP", "the kernel called __trap() at %s:%d", at.file, at.line);
}

void barrier(place at)
{
    fibre *self = current;
    self->at = at;
    self->state = AT_BARRIER;
    if (++n_at_barrier < n_threads) {
        leave();
        return;
    }
    for (unsigned i = 0; i < n_threads; i++) {
        const fibre *f = &fibres[i];
        if (f->at.line != at.line || (f->at.file != at.file && strcmp(f->at.file, at.file) != 0))
            report("DIVERGENT BARRIER", "waits at %s:%d, thread %u at %s:%d", base_name(at.file),
                   at.line, i, base_name(f->at.file), f->at.line);
    }
    n_at_barrier = 0;
    running.block_epoch++;
    bool reverse = settings().order == ORDER_REVERSE;
    for (unsigned i = 0; i < n_threads; i++) {
        fibre *f = &fibres[reverse ? n_threads - 1 - i : i];
        push_ready(f);
    }
    leave();
}

// Where a lane's shuffle reads from; itself where that is out of its part of the warp.
static unsigned shuffle_source(const fibre *f, unsigned lane)
{
    unsigned width = (unsigned)f->width, first = lane & ~(width - 1), last = first + width - 1;
    unsigned from = lane;
    switch (f->warp) {
    case WARP_SHFL: return first + (f->argument & (width - 1));
    case WARP_SHFL_UP: from = lane - f->argument; return f->argument > lane - first ? lane : from;
    case WARP_SHFL_DOWN: from = lane + f->argument; return from > last ? lane : from;
    default: from = lane ^ f->argument; return from > last ? lane : from;
    }
}

static uint64_t reduce(warp_kind kind, uint64_t a, uint64_t b)
{
    uint32_t x = (uint32_t)a, y = (uint32_t)b;
    return kind == WARP_ADD ? x + y : x | y;
}

static bool is_shuffle(warp_kind kind)
{
    return kind >= WARP_SHFL && kind <= WARP_SHFL_XOR;
}

static void complete_shuffle(fibre *warp, unsigned mask)
{
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        unsigned lane = (unsigned)__builtin_ctz(rest), from = shuffle_source(&warp[lane], lane);
        // From a lane that does not take part: undefined on a GPU; here a value that shows.
        warp[lane].result = mask >> from & 1 ? warp[from].value : 0xdeadbeefdeadbeefu;
    }
}

// What is the same for all lanes.
static uint64_t common_result(const fibre *warp, warp_kind kind, unsigned mask)
{
    unsigned first = (unsigned)__builtin_ctz(mask), ballot = 0;
    uint64_t value = warp[first].value;
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        unsigned lane = (unsigned)__builtin_ctz(rest);
        ballot |= (unsigned)(warp[lane].value & 1) << lane;
        if (lane != first && kind >= WARP_ADD)
            value = reduce(kind, value, warp[lane].value);
    }
    switch (kind) {
    case WARP_SYNC: return 0;
    case WARP_BALLOT: return ballot;
    case WARP_ANY: return ballot != 0;
    default: return value;
    }
}

static uint64_t matching(const fibre *warp, unsigned lane, unsigned mask)
{
    unsigned same = 0;
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        unsigned other = (unsigned)__builtin_ctz(rest);
        same |= (unsigned)(warp[other].value == warp[lane].value) << other;
    }
    return same;
}

// All lanes of the mask are here: what each gets.
static void complete_warp(fibre *warp, warp_kind kind, unsigned mask)
{
    if (is_shuffle(kind)) {
        complete_shuffle(warp, mask);
        return;
    }
    uint64_t result = kind == WARP_MATCH_ANY ? 0 : common_result(warp, kind, mask);
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        unsigned lane = (unsigned)__builtin_ctz(rest);
        warp[lane].result = kind == WARP_MATCH_ANY ? matching(warp, lane, mask) : result;
    }
}

static bool all_wait(const fibre *warp, unsigned n, warp_kind kind, unsigned mask)
{
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        unsigned lane = (unsigned)__builtin_ctz(rest);
        if (lane >= n || warp[lane].state != AT_WARP || warp[lane].mask != mask ||
            warp[lane].warp != kind)
            return false;
    }
    return true;
}

// Notes that a lane waits; whether it was the last that its group waited for.
static bool gather(fibre *warp, unsigned n, fibre *self, unsigned lane)
{
    gathering *g = &gatherings[self->linear / 32];
    if (g->others == 0 && g->here == 0) {
        g->mask = self->mask;
        g->kind = self->warp;
    }
    self->counted = g->others == 0 && g->mask == self->mask && g->kind == self->warp;
    if (!self->counted) {
        g->others++;
        return all_wait(warp, n, self->warp, self->mask);
    }
    g->here |= 1u << lane;
    return g->here == g->mask;
}

// The group goes on.
static void release(fibre *warp, unsigned mask)
{
    gathering *g = &gatherings[warp->linear / 32];
    bool reverse = settings().order == ORDER_REVERSE;
    for (unsigned i = 0; i < 32; i++) {
        unsigned lane = reverse ? i : 31 - i; // the last to go first is the first to run
        if (!(mask >> lane & 1))
            continue;
        if (warp[lane].counted)
            g->here &= ~(1u << lane);
        else
            g->others--;
        push_first(&warp[lane]);
    }
}

static void check_call(warp_kind kind, unsigned mask, int width, unsigned lane, place at)
{
    if (!(mask >> lane & 1))
        report("WRONG MASK", "lane %u calls %s at %s:%d with mask %08x, which is without it", lane,
               WARP_NAMES[kind], base_name(at.file), at.line, mask);
    if (width <= 0 || width > 32 || (width & (width - 1)))
        report("WRONG WIDTH", "%s at %s:%d with width %d, wanted a power of two up to 32",
               WARP_NAMES[kind], base_name(at.file), at.line, width);
}

uint64_t warp(warp_kind kind, unsigned mask, uint64_t value, unsigned argument, int width, place at)
{
    fibre *self = current;
    unsigned lane = self->linear % 32, base = self->linear - lane;
    check_call(kind, mask, width, lane, at);
    self->warp = kind;
    self->mask = mask;
    self->value = value;
    self->argument = argument;
    self->width = width;
    self->at = at;
    self->state = AT_WARP;
    if (!gather(&fibres[base], n_threads - base, self, lane)) {
        leave();
        return self->result;
    }
    complete_warp(&fibres[base], kind, mask);
    if (kind == WARP_SYNC)
        running.warp_epoch[base / 32]++;
    release(&fibres[base], mask);
    leave();
    return self->result;
}

void pause()
{
    give_way();
}

void maybe_yield()
{
    if (settings().order == ORDER_SHUFFLED && random_word() % 16 == 0)
        give_way();
    else if (++current->atomics >= 4096)
        give_way();
}

static void after_atomic()
{
    if (++current->atomics >= ATOMICS_BEFORE_YIELD ||
        (settings().order == ORDER_SHUFFLED && random_word() % 4 == 0))
        give_way();
}

void fence()
{
    check_fence();
}

// Real atomic operations: mapped memory is shared with other processes.
template <class T, class S> static T atomic(atomic_kind kind, void *p, T value, T compare)
{
    if ((uintptr_t)p % sizeof(T))
        report("MISALIGNED", "atomic operation on %zu bytes at %p", sizeof(T), p);
    check_atomic(p, sizeof(T), __builtin_return_address(0));
    T *word = static_cast<T *>(p), old = __atomic_load_n(word, __ATOMIC_RELAXED), next = 0;
    do {
        S a = (S)old, b = (S)value;
        switch (kind) {
        case ATOMIC_ADD: next = old + value; break;
        case ATOMIC_ADD_FLOAT:
            if constexpr (sizeof(T) == 4)
                next = simt_bits<T>(simt_bits<float>(old) + simt_bits<float>(value));
            break;
        case ATOMIC_ADD_DOUBLE:
            if constexpr (sizeof(T) == 8)
                next = simt_bits<T>(simt_bits<double>(old) + simt_bits<double>(value));
            break;
        case ATOMIC_EXCHANGE: next = value; break;
        case ATOMIC_CAS: next = old == compare ? value : old; break;
        case ATOMIC_MIN: next = old < value ? old : value; break;
        case ATOMIC_MIN_SIGNED: next = a < b ? old : value; break;
        case ATOMIC_OR: next = old | value; break;
        case ATOMIC_XOR: next = old ^ value; break;
        }
    } while (
        !__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    after_atomic();
    return old;
}

uint16_t atomic16(atomic_kind kind, void *p, uint16_t value, uint16_t compare)
{
    return atomic<uint16_t, int16_t>(kind, p, value, compare);
}
uint32_t atomic32(atomic_kind kind, void *p, uint32_t value, uint32_t compare)
{
    return atomic<uint32_t, int32_t>(kind, p, value, compare);
}
uint64_t atomic64(atomic_kind kind, void *p, uint64_t value, uint64_t compare)
{
    return atomic<uint64_t, int64_t>(kind, p, value, compare);
}

} // namespace simt

void simt::note_loaded(const void *function, const char *name)
{
    static std::set<const void *> loaded;
    if (!loaded.insert(function).second)
        return;
    char what[200];
    snprintf(what, sizeof what, "loading %.160s", name);
    refuse_in_a_sum(what);
}

cudaError_t simt_func_get_attributes(cudaFuncAttributes *out, const void *function)
{
    std::lock_guard<simt::big_lock> hold(simt::lock());
    simt::note_loaded(function, "a kernel");
    memset(out, 0, sizeof *out);
    out->maxThreadsPerBlock = simt::THREADS_MAX;
    out->numRegs = 32;
    return cudaSuccess;
}
