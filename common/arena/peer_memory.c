#include "common/arena/peer_memory.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/arena/seat.h"

/*
 * Memory orders: what stands behind a version is written between two changes of it and read between
 * two looks at it, word by word (relaxed), with fences as a sequence lock has them.
 */

// A plan as words, so that it may be read while it is written.
enum { PLAN_WORDS = sizeof(struct sl_peer_memory_plan) / sizeof(uint64_t) };
enum { SHARE_WORDS = sizeof(struct sl_device_share) / sizeof(uint64_t) };

_Static_assert(sizeof(struct sl_peer_memory_plan) % sizeof(uint64_t) == 0, "a plan is whole words");
_Static_assert(sizeof(struct sl_device_share) % sizeof(uint64_t) == 0, "a share is whole words");

struct plan_words {
    _Alignas(64) _Atomic uint64_t version; // odd: being written
    _Atomic uint64_t generation;
    _Atomic uint64_t word[PLAN_WORDS];
};

// Of a device's worker in one role: its thread; FUTEX_OWNER_DIED: it is gone. 0: none.
struct life_word {
    _Alignas(64) _Atomic uint32_t alive;
};

// A lender's place, and what it reads of others.
struct place {
    _Alignas(64) _Atomic uint64_t version; // 0 nothing was ever lent; odd: nothing is
    _Atomic uint64_t plan, order, room, elements;
    _Atomic uint64_t share[SHARE_WORDS];
    _Alignas(64) _Atomic uint64_t readers; // bit d
    _Alignas(64) _Atomic uint64_t bytes[SL_PEER_MEMORY_DEVICES_MAX + 1];
};

static const struct {
    enum sl_peer_memory_role lender, reader;
} roles[SL_PEER_MEMORY_KINDS] = {
    [SL_PEER_MEMORY_FEATURES] = {SL_PEER_MEMORY_TRAINER, SL_PEER_MEMORY_TRAINER},
    [SL_PEER_MEMORY_GRAPH] = {SL_PEER_MEMORY_SAMPLER, SL_PEER_MEMORY_SAMPLER},
    [SL_PEER_MEMORY_BLOCKS] = {SL_PEER_MEMORY_SAMPLER, SL_PEER_MEMORY_TRAINER},
};

enum { LEAVE_MS = 1000 }; // that a lender who ends waits for readers

static struct plan_words *plan_of(const struct sl_arena *a, enum sl_peer_memory_kind kind)
{
    return (struct plan_words *)sl_arena_region(a, SL_REGION_LENT) + kind;
}

static struct place *place_of(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                              uint32_t device)
{
    struct place *first = (struct place *)(plan_of(a, SL_PEER_MEMORY_KINDS));
    return first + (uint64_t)kind * a->h->spec.n_devices + device;
}

static _Atomic uint32_t *life_of(const struct sl_arena *a, enum sl_peer_memory_role role,
                                 uint32_t device)
{
    struct life_word *first = (struct life_word *)place_of(a, SL_PEER_MEMORY_KINDS, 0);
    return &first[(uint64_t)role * a->h->spec.n_devices + device].alive;
}

uint64_t sl_peer_memory_bytes(const struct sl_arena_spec *spec)
{
    if (spec->n_devices > SL_PEER_MEMORY_DEVICES_MAX)
        return 0;
    return SL_PEER_MEMORY_KINDS *
               (sizeof(struct plan_words) + (uint64_t)spec->n_devices * sizeof(struct place)) +
           SL_PEER_MEMORY_ROLES * (uint64_t)spec->n_devices * sizeof(struct life_word);
}

static bool exists(const struct sl_arena *a)
{
    return a->h->region[SL_REGION_LENT].bytes > 0;
}

// --- the plan ------------------------------------------------------------------------------------

void sl_peer_memory_give_rows(struct sl_arena *a, const uint64_t *rows)
{
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++)
        atomic_store(&sl_seat(a, sl_seat_trainer(a, d))->cache_rows, rows[d]);
}

void sl_peer_memory_publish(struct sl_arena *a, enum sl_peer_memory_kind kind,
                            const struct sl_peer_memory_plan *plan, const uint64_t *rows)
{
    struct plan_words *p = plan_of(a, kind);
    uint64_t words[PLAN_WORDS];
    if (!exists(a))
        return;
    memcpy(words, plan, sizeof words);
    atomic_fetch_add(&p->version, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (rows)
        sl_peer_memory_give_rows(a, rows);
    SL_FAILPOINT(LENT_PLANNING);
    for (uint32_t i = 0; i < PLAN_WORDS; i++)
        atomic_store_explicit(&p->word[i], words[i], memory_order_relaxed);
    atomic_store(&p->generation, plan->generation);
    atomic_fetch_add(&p->version, 1);
    sl_arena_wake_all(a);
}

uint64_t sl_peer_memory_generation(const struct sl_arena *a, enum sl_peer_memory_kind kind)
{
    return exists(a) ? atomic_load_explicit(&plan_of(a, kind)->generation, memory_order_relaxed)
                     : 0;
}

// `given`: a word that is published with the plan; NULL: none.
static bool read_plan(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                      struct sl_peer_memory_plan *out, const _Atomic uint64_t *given,
                      uint64_t *value)
{
    const struct plan_words *p = plan_of(a, kind);
    uint64_t words[PLAN_WORDS];
    *out = (struct sl_peer_memory_plan){0};
    if (!exists(a)) {
        if (given)
            *value = atomic_load_explicit(given, memory_order_relaxed);
        return true;
    }
    uint64_t version = atomic_load(&p->version);
    if (given)
        *value = atomic_load_explicit(given, memory_order_relaxed);
    for (uint32_t i = 0; i < PLAN_WORDS; i++)
        words[i] = atomic_load_explicit(&p->word[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    if (version % 2 != 0 || atomic_load(&p->version) != version)
        return false;
    memcpy(out, words, sizeof words);
    return true;
}

bool sl_peer_memory_read_plan(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                              struct sl_peer_memory_plan *out)
{
    return read_plan(a, kind, out, NULL, NULL);
}

bool sl_peer_memory_read_rows(const struct sl_arena *a, uint32_t device,
                              struct sl_peer_memory_plan *out, uint64_t *rows)
{
    return read_plan(a, SL_PEER_MEMORY_FEATURES, out,
                     &sl_seat(a, sl_seat_trainer(a, device))->cache_rows, rows);
}

// --- alive ---------------------------------------------------------------------------------------

// Of the one thread of this process that holds a word.
static struct {
    pthread_mutex_t lock;
    _Atomic uint32_t *word;  // that it holds
    _Atomic uint32_t thread; // its number, once the kernel knows of the word
    _Atomic bool ready;
} life = {.lock = PTHREAD_MUTEX_INITIALIZER};

/*
 * Holds the word as a robust futex. The list has one entry, which lies here; the kernel finds the
 * word at a distance from it. It marks what has the number of the thread that leaves.
 */
static void *live(void *ctx)
{
    struct robust_list entry;
    struct robust_list_head head = {.list.next = &entry};
    sigset_t all;
    (void)ctx;
    entry.next = &head.list;
    head.futex_offset = (long)((uintptr_t)life.word - (uintptr_t)&entry);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    if (syscall(SYS_set_robust_list, &head, sizeof head) == 0)
        atomic_store(&life.thread, (uint32_t)syscall(SYS_gettid));
    atomic_store(&life.ready, true);
    for (;;)
        pause();
    return NULL;
}

static int start_thread(_Atomic uint32_t *word)
{
    pthread_t thread;
    life.word = word;
    int rc = pthread_create(&thread, NULL, live, NULL);
    if (rc != 0) {
        life.word = NULL;
        return sl_fail(SL_ESYS, "starting the thread that marks this process as alive: %s",
                       strerror(rc));
    }
    pthread_detach(thread);
    while (!atomic_load(&life.ready))
        sched_yield();
    return SL_OK;
}

int sl_peer_memory_live(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device)
{
    int rc = SL_OK;
    if (!exists(a))
        return sl_fail(SL_ESYS, "GPU memory is not shared in jobs of more than %d devices",
                       SL_PEER_MEMORY_DEVICES_MAX);
    _Atomic uint32_t *word = life_of(a, roles[kind].lender, device);
    pthread_mutex_lock(&life.lock);
    if (!life.word)
        rc = start_thread(word);
    if (rc == SL_OK && life.word != word)
        rc = sl_fail(SL_ESYS, "this process already shares the memory of a device, and a process "
                              "can share that of one");
    else if (rc == SL_OK && !life.thread)
        rc = sl_fail(SL_ESYS, "this kernel does not support robust futexes (set_robust_list), so "
                              "GPU memory is not shared");
    if (rc == SL_OK)
        atomic_store(word, atomic_load(&life.thread));
    pthread_mutex_unlock(&life.lock);
    return rc;
}

bool sl_peer_memory_is_alive(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                             uint32_t lender)
{
    uint32_t word = atomic_load(life_of(a, roles[kind].lender, lender));
    return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
}

// Pairs with sl_peer_memory_vacate(), which clears the bit before another one can live there: so
// the life is looked at first.
bool sl_peer_memory_is_good(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                            uint32_t lender, uint32_t reader)
{
    atomic_thread_fence(memory_order_seq_cst); // behind what was read
    return sl_peer_memory_is_alive(a, kind, lender) &&
           (atomic_load(&place_of(a, kind, lender)->readers) >> reader & 1) != 0;
}

// --- lenders -------------------------------------------------------------------------------------

void sl_peer_memory_withdraw(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device)
{
    atomic_fetch_or(&place_of(a, kind, device)->version, 1);
}

uint64_t sl_peer_memory_offer(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device,
                              const struct sl_peer_memory_offer *offer)
{
    struct place *p = place_of(a, kind, device);
    uint64_t words[SHARE_WORDS];
    memcpy(words, &offer->share, sizeof words);
    uint64_t version = atomic_fetch_or(&p->version, 1) | 1;
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < SHARE_WORDS; i++)
        atomic_store_explicit(&p->share[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&p->plan, offer->plan, memory_order_relaxed);
    atomic_store_explicit(&p->order, offer->order, memory_order_relaxed);
    atomic_store_explicit(&p->room, offer->room, memory_order_relaxed);
    atomic_store_explicit(&p->elements, offer->elements, memory_order_relaxed);
    atomic_store(&p->version, version + 1);
    return version + 1;
}

void sl_peer_memory_grow(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device,
                         uint64_t elements)
{
    atomic_store(&place_of(a, kind, device)->elements, elements);
}

bool sl_peer_memory_is_read(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                            uint32_t device)
{
    return atomic_load(&place_of(a, kind, device)->readers) != 0;
}

bool sl_peer_memory_leave(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t device)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    sl_peer_memory_withdraw(a, kind, device);
    for (int i = 0; i < LEAVE_MS && sl_peer_memory_is_read(a, kind, device); i++)
        nanosleep(&moment, NULL);
    atomic_store(life_of(a, roles[kind].lender, device), 0);
    return !sl_peer_memory_is_read(a, kind, device);
}

// --- readers -------------------------------------------------------------------------------------

static bool stands(uint64_t version)
{
    return version != 0 && version % 2 == 0;
}

bool sl_peer_memory_read(const struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t lender,
                         struct sl_peer_memory_offer *out)
{
    const struct place *p = place_of(a, kind, lender);
    uint64_t words[SHARE_WORDS];
    out->version = atomic_load(&p->version);
    if (!stands(out->version) || !sl_peer_memory_is_alive(a, kind, lender))
        return false;
    out->plan = atomic_load_explicit(&p->plan, memory_order_relaxed);
    out->order = atomic_load_explicit(&p->order, memory_order_relaxed);
    out->room = atomic_load_explicit(&p->room, memory_order_relaxed);
    out->elements = atomic_load(&p->elements);
    for (uint32_t i = 0; i < SHARE_WORDS; i++)
        words[i] = atomic_load_explicit(&p->share[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    memcpy(&out->share, words, sizeof words);
    return atomic_load(&p->version) == out->version;
}

bool sl_peer_memory_open(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t lender,
                         uint32_t reader, uint64_t version)
{
    struct place *p = place_of(a, kind, lender);
    atomic_fetch_or(&p->readers, (uint64_t)1 << reader);
    if (atomic_load(&p->version) == version)
        return true;
    sl_peer_memory_close(a, kind, lender, reader);
    return false;
}

bool sl_peer_memory_stands(const struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t lender,
                           uint64_t version, uint64_t *elements)
{
    const struct place *p = place_of(a, kind, lender);
    const uint64_t there = atomic_load(&p->elements);
    if (atomic_load(&p->version) != version)
        return false;
    *elements = there;
    return true;
}

void sl_peer_memory_close(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t lender,
                          uint32_t reader)
{
    atomic_fetch_and(&place_of(a, kind, lender)->readers, ~((uint64_t)1 << reader));
}

// --- all of them ---------------------------------------------------------------------------------

static bool is_at_work(const struct sl_seat *trainer)
{
    const uint32_t duty = atomic_load_explicit(&trainer->duty, memory_order_acquire);
    return duty == SL_DUTY_WORK ||
           (duty == SL_DUTY_STANDBY &&
            atomic_load_explicit(&trainer->activity, memory_order_acquire) == SL_ACTIVITY_BUSY);
}

static bool reads_all_parts(const struct sl_peer_memory_plan *plan, uint32_t device)
{
    for (uint32_t p = 0; p < plan->n_parts; p++)
        if (plan->from[device][p] == SL_PEER_MEMORY_NOBODY)
            return false;
    return true;
}

// Elements of each part that its holders have by now.
static uint64_t elements_lent(const struct sl_arena *a, const struct sl_peer_memory_plan *plan,
                              uint32_t order)
{
    struct sl_peer_memory_offer offer;
    uint64_t elements = plan->part_elements;
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++) {
        if (plan->held[d] == 0)
            continue;
        if (!sl_peer_memory_read(a, SL_PEER_MEMORY_FEATURES, d, &offer) ||
            offer.plan != plan->generation || offer.order != order)
            return 0;
        elements = SL_MIN(elements, offer.elements);
    }
    return elements;
}

uint64_t sl_peer_memory_rows_held(const struct sl_arena *a, uint32_t order)
{
    struct sl_peer_memory_plan plan;
    uint64_t near = UINT64_MAX;
    bool parts = true;
    if (order == 0 || !sl_peer_memory_read_plan(a, SL_PEER_MEMORY_FEATURES, &plan))
        return 0;
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++) {
        const struct sl_seat *s = sl_seat(a, sl_seat_trainer(a, d));
        if (!is_at_work(s))
            continue;
        if (atomic_load_explicit(&s->cache_generation, memory_order_relaxed) != order)
            return 0;
        near = SL_MIN(near, atomic_load_explicit(&s->cache_loaded, memory_order_relaxed));
        parts = parts && plan.n_parts && reads_all_parts(&plan, d);
    }
    if (near == UINT64_MAX)
        return 0;
    if (plan.n_parts == 0 || near < plan.first)
        return near;
    return plan.first + (parts ? elements_lent(a, &plan, order) * plan.n_parts : 0);
}

// --- what was read -------------------------------------------------------------------------------

void sl_peer_memory_count(struct sl_arena *a, enum sl_peer_memory_kind kind, uint32_t reader,
                          uint32_t from, uint64_t bytes)
{
    if (exists(a))
        atomic_fetch_add_explicit(&place_of(a, kind, reader)->bytes[from], bytes,
                                  memory_order_relaxed);
}

uint64_t sl_peer_memory_counted(const struct sl_arena *a, enum sl_peer_memory_kind kind,
                                uint32_t reader, uint32_t from)
{
    return exists(a)
               ? atomic_load_explicit(&place_of(a, kind, reader)->bytes[from], memory_order_relaxed)
               : 0;
}

// --- broker --------------------------------------------------------------------------------------

void sl_peer_memory_vacate(struct sl_arena *a, enum sl_peer_memory_role role, uint32_t device)
{
    if (!exists(a))
        return;
    for (int kind = 0; kind < SL_PEER_MEMORY_KINDS; kind++)
        if (roles[kind].lender == role)
            sl_peer_memory_withdraw(a, (enum sl_peer_memory_kind)kind, device);
    atomic_store(life_of(a, role, device), 0);
    for (int kind = 0; kind < SL_PEER_MEMORY_KINDS; kind++) {
        if (roles[kind].lender == role) // what it lent is gone for all of them
            atomic_store(&place_of(a, (enum sl_peer_memory_kind)kind, device)->readers, 0);
        for (uint32_t d = 0; roles[kind].reader == role && d < a->h->spec.n_devices; d++)
            sl_peer_memory_close(a, (enum sl_peer_memory_kind)kind, d, device);
    }
}
