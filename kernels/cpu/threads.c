/*
 * threads.c - the threads that the operations of this process share.
 *
 * PROBLEM. A trainer computes on one thread and extracts features on another, and both want all of
 * its cores; samplers may have the same cores. A team of threads for each of the two would be twice
 * as many as there are cores, and a team's barrier waits for whichever of them has no core now.
 *
 * DESIGN. One set of helpers for all callers. A caller posts its call in a slot and works at it
 * itself; helpers that are free join in. Parts are handed out one by one, so the caller finishes a
 * call alone where nobody comes (their cores are taken, or this process has just been forked), and
 * waits at the end only for parts that somebody has begun. How many threads an operation has is its
 * caller's: it does not change in the middle of one, whatever another caller is told.
 *
 * A helper looks for another call for some ten microseconds, then sleeps; so does a caller that
 * waits for the last part. Both bounds are what waking somebody costs.
 *
 * Memory orders: a helper announces itself in `inside` and reads `call` then; a caller takes `call`
 * back and reads `inside` then. All four are sequentially consistent, so either the helper sees
 * that the call is over or the caller that somebody is inside.
 */
#include "kernels/cpu/cpu_internal.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/threads.h"
#include "common/device/cores.h"

enum {
    SLOTS = 4,    // calls at a time that helpers join in; a fifth caller works alone
    SPINS = 1000, // pauses of 10 to 40 ns
    HELPERS_MAX = SL_CORES_MAX - 1,
};

struct call {
    void (*body)(void *context, uint32_t part);
    void *context;
    uint32_t n_parts, n_threads; // threads: no more than parts
    _Atomic uint32_t next, joined;
};

struct slot {
    _Alignas(SL_CACHE_LINE) _Atomic bool taken;
    _Atomic(struct call *) call;
    _Atomic uint32_t inside; // helpers
    _Atomic bool waiting;    // its caller sleeps until nobody is inside
};

static struct slot slots[SLOTS];
static _Atomic uint32_t posted;   // calls ever: what helpers wait for
static _Atomic uint32_t sleepers; // helpers that sleep
static _Atomic int n_threads = 1; // of a caller that was given no cores of its own
static _Atomic uint32_t n_wanted; // helpers that anybody may use
static _Atomic bool measures;
static _Atomic uint64_t helped_ns; // while `measures`: what helpers took of their cores in calls

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER; // a call was posted
static pthread_cond_t left = PTHREAD_COND_INITIALIZER; // the last helper has left a call
// Changed under the lock.
static _Atomic uint32_t n_helpers; // started
static bool no_more;               // the system refused one
static uint16_t core[SL_CORES_MAX];
static uint32_t n_cores;
static _Atomic uint32_t cores_version;

static _Thread_local uint32_t number; // among the threads of the call that it is in
static _Thread_local bool busy;       // in a call: one within it is this thread's alone
static _Thread_local int own_threads; // of a caller that was given cores; 0: n_threads

uint32_t sl_cpu_thread_number(void)
{
    return number;
}

static inline void pause_a_moment(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void work_at(struct call *call)
{
    uint32_t part;
    while ((part = atomic_fetch_add_explicit(&call->next, 1, memory_order_relaxed)) < call->n_parts)
        call->body(call->context, part);
}

static void leave(struct slot *slot)
{
    if (atomic_fetch_sub(&slot->inside, 1) == 1 && atomic_load(&slot->waiting)) {
        pthread_mutex_lock(&lock);
        pthread_cond_broadcast(&left);
        pthread_mutex_unlock(&lock);
    }
}

static void join_in(struct slot *slot)
{
    if (!atomic_load_explicit(&slot->call, memory_order_relaxed))
        return;
    atomic_fetch_add(&slot->inside, 1);
    struct call *call = atomic_load(&slot->call);
    number = call ? atomic_fetch_add_explicit(&call->joined, 1, memory_order_relaxed) + 1 : 0;
    if (call && number < call->n_threads) {
        bool measured = atomic_load_explicit(&measures, memory_order_relaxed);
        uint64_t start = measured ? sl_thread_cpu_ns() : 0;
        work_at(call);
        if (measured)
            atomic_fetch_add(&helped_ns, sl_thread_cpu_ns() - start);
    }
    leave(slot);
}

// --- helpers -------------------------------------------------------------------------------------

// helper: from 1 on
static bool is_wanted(uint32_t helper)
{
    return helper <= atomic_load_explicit(&n_wanted, memory_order_relaxed);
}

static void take_cores(uint32_t *seen)
{
    uint16_t list[SL_CORES_MAX];
    if (atomic_load_explicit(&cores_version, memory_order_relaxed) == *seen)
        return;
    pthread_mutex_lock(&lock);
    *seen = atomic_load(&cores_version);
    uint32_t n = n_cores;
    for (uint32_t i = 0; i < n; i++)
        list[i] = core[i];
    pthread_mutex_unlock(&lock);
    sl_device_pin(list, n); // which whoever gave them could have
}

static void wait_for_call(uint32_t helper, uint32_t seen)
{
    for (int i = 0; i < SPINS && is_wanted(helper); i++) {
        if (atomic_load_explicit(&posted, memory_order_acquire) != seen)
            return;
        pause_a_moment();
    }
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&sleepers, 1);
    while (atomic_load(&posted) == seen)
        pthread_cond_wait(&bell, &lock);
    atomic_fetch_sub(&sleepers, 1);
    pthread_mutex_unlock(&lock);
}

static void *help(void *arg)
{
    uint32_t cores_seen = 0;
    const uint32_t helper = (uint32_t)(uintptr_t)arg;
    busy = true;
    sl_cores_long_slices();
    for (;;) {
        uint32_t seen = atomic_load(&posted);
        if (is_wanted(helper)) {
            take_cores(&cores_seen);
            for (uint32_t i = 0; i < SLOTS; i++)
                join_in(&slots[i]);
        }
        wait_for_call(helper, seen);
    }
    return NULL;
}

// A child of fork() has none of them.
static void forget_helpers(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&bell, NULL);
    pthread_cond_init(&left, NULL);
    atomic_store(&n_helpers, 0);
    atomic_store(&sleepers, 0);
    for (uint32_t i = 0; i < SLOTS; i++) {
        atomic_store(&slots[i].taken, false);
        atomic_store(&slots[i].call, NULL);
        atomic_store(&slots[i].inside, 0);
    }
}

// As many as are wanted, or as the system gives: callers do without.
static void start_helpers(uint32_t wanted)
{
    static bool prepared;
    pthread_mutex_lock(&lock);
    if (!prepared)
        pthread_atfork(NULL, NULL, forget_helpers);
    prepared = true;
    while (!no_more && atomic_load(&n_helpers) < SL_MIN(wanted, (uint32_t)HELPERS_MAX)) {
        pthread_t thread;
        uintptr_t of_it = atomic_load(&n_helpers) + 1;
        no_more = sl_thread_start(&thread, help, (void *)of_it) != 0;
        if (no_more)
            break;
        pthread_detach(thread);
        atomic_fetch_add(&n_helpers, 1);
    }
    pthread_mutex_unlock(&lock);
}

// --- how many, and where -------------------------------------------------------------------------

static int allowed(int n)
{
    return SL_MAX(n, 1);
}

int sl_cpu_threads(void)
{
    return own_threads ? own_threads : atomic_load_explicit(&n_threads, memory_order_relaxed);
}

void sl_kernels_set_threads(int n)
{
    own_threads = 0;
    atomic_store(&n_threads, allowed(n));
    atomic_store(&n_wanted, (uint32_t)allowed(n) - 1);
}

void sl_kernels_measure(bool on)
{
    atomic_store(&measures, on);
}

struct sl_core_time sl_kernels_core_time(void)
{
    return (struct sl_core_time){.own_ns = sl_thread_cpu_ns(),
                                 .helpers_ns = atomic_load(&helped_ns),
                                 .threads = (uint32_t)sl_cpu_threads()};
}

int sl_kernels_take_cores(const struct sl_cores *cores)
{
    uint16_t list[SL_CORES_MAX];
    uint32_t n = sl_cores_list(cores, list, SL_CORES_MAX);
    SL_TRY(sl_device_pin(list, n));
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n; i++)
        core[i] = list[i];
    n_cores = n;
    atomic_fetch_add(&cores_version, 1);
    pthread_mutex_unlock(&lock);
    own_threads = allowed((int)n);
    atomic_store(&n_wanted, (uint32_t)own_threads - 1);
    return SL_OK;
}

// --- callers -------------------------------------------------------------------------------------

static void wake(uint32_t helpers)
{
    if (atomic_load(&sleepers) == 0)
        return;
    pthread_mutex_lock(&lock);
    if (helpers < atomic_load(&n_wanted) && atomic_load(&n_helpers) <= atomic_load(&n_wanted))
        for (; helpers > 0; helpers--)
            pthread_cond_signal(&bell);
    else
        pthread_cond_broadcast(&bell); // some that sleep there are not wanted
    pthread_mutex_unlock(&lock);
}

static struct slot *post(struct call *call)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        bool no = false;
        if (!atomic_compare_exchange_strong(&slots[i].taken, &no, true))
            continue;
        atomic_store(&slots[i].call, call);
        atomic_fetch_add(&posted, 1);
        wake(call->n_threads - 1);
        return &slots[i];
    }
    return NULL;
}

// Nobody else comes in, and whoever is inside has left.
static void take_back(struct slot *slot)
{
    atomic_store(&slot->call, NULL);
    for (int i = 0; i < SPINS && atomic_load(&slot->inside) > 0; i++)
        pause_a_moment();
    if (atomic_load(&slot->inside) > 0) {
        pthread_mutex_lock(&lock);
        atomic_store(&slot->waiting, true);
        while (atomic_load(&slot->inside) > 0)
            pthread_cond_wait(&left, &lock);
        atomic_store(&slot->waiting, false);
        pthread_mutex_unlock(&lock);
    }
    atomic_store(&slot->taken, false);
}

void sl_cpu_parallel_parts(uint32_t n_parts, void (*body)(void *context, uint32_t part),
                           void *context)
{
    uint32_t threads = (uint32_t)sl_cpu_threads();
    struct call call = {.body = body,
                        .context = context,
                        .n_parts = n_parts,
                        .n_threads = SL_MIN(threads, n_parts)};
    struct slot *slot = NULL;
    if (call.n_threads > 1 && !busy) {
        if (atomic_load_explicit(&n_helpers, memory_order_relaxed) < threads - 1)
            start_helpers(threads - 1);
        slot = post(&call);
    }
    bool outer = busy;
    busy = true;
    work_at(&call);
    busy = outer;
    if (slot)
        take_back(slot);
}

void sl_kernels_run(uint32_t n_parts, void (*body)(void *context, uint32_t part), void *context)
{
    sl_cpu_parallel_parts(n_parts, body, context);
}
