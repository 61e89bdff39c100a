// What the tests of common/arena share: an arena, and batches that go through it by hand.
#ifndef SL_TESTS_UNIT_TEST_ARENA_FIXTURE_H
#define SL_TESTS_UNIT_TEST_ARENA_FIXTURE_H

#include <unistd.h>

#include "common/base/error.h"
#include "common/arena/arena.h"
#include "common/arena/param_store.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/ledger.h"
#include "tests/unit/asserts.h"

static struct sl_arena arena;
static int arena_fd;

static inline void create_arena(const struct sl_arena_spec *spec)
{
    arena_fd = sl_arena_memfd();
    ck_assert_int_ge(arena_fd, 0);
    ck_assert_msg(sl_arena_create(arena_fd, spec, &arena) == SL_OK, "%s", sl_error_message());
}

static inline void destroy_arena(void)
{
    sl_arena_detach(&arena);
    close(arena_fd);
}

// A phase of n cells of 10 vertices, the last one of 7.
static inline uint64_t open_phase(enum sl_phase_kind kind, uint64_t n, uint64_t first_version,
                                  uint32_t gated)
{
    struct sl_phase_spec p = {.kind = kind,
                              .gated = gated,
                              .batch_size = 10,
                              .n_items = n * 10 - 3,
                              .first_version = first_version};
    uint64_t seq = 0;
    ck_assert_int_eq(sl_ledger_open_phase(&arena, &p, &seq), SL_OK);
    return seq;
}

static inline uint64_t open_train(uint64_t n, uint64_t first_version, uint32_t gated)
{
    return open_phase(SL_PHASE_TRAIN, n, first_version, gated);
}

static inline struct sl_lease claim(uint32_t worker)
{
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_sample(&arena, worker, SL_AHEAD_ALL, 0, &l), SL_OK);
    return l;
}

static inline struct sl_lease sample(uint32_t worker)
{
    struct sl_lease l = claim(worker);
    struct sl_extent e;
    ck_assert_int_eq(sl_payload_alloc(&arena, &l, 100, 10, &e), SL_OK);
    l.entry->payload_offset = e.offset;
    l.entry->payload_bytes = e.bytes;
    return l;
}

static inline void sample_and_publish(uint32_t worker)
{
    struct sl_lease l = sample(worker);
    ck_assert_int_eq(sl_ledger_publish(&arena, &l), SL_OK);
}

static inline struct sl_lease claim_train(uint32_t worker)
{
    struct sl_lease l;
    ck_assert_int_eq(sl_ledger_claim_train(&arena, worker, 0, &l), SL_OK);
    return l;
}

static inline void reclaim(uint32_t worker)
{
    struct sl_reclaimed r;
    sl_ledger_reclaim(&arena, worker, &r);
}

static inline void apply_all(uint32_t worker)
{
    struct sl_update u;
    while (sl_param_store_begin_update(&arena, worker, &u) == SL_OK)
        sl_param_store_commit_update(&arena, &u);
}

// Whether an event was signalled since `seen` was read.
static inline bool rang(struct sl_event *event, uint32_t *seen)
{
    uint32_t now = sl_event_read(event);
    bool yes = now != *seen;
    *seen = now;
    return yes;
}

// Goes on once `what` holds, whoever brings it about; the test's own time-out is the only bound.
#define UNTIL(what)                                                                                \
    do {                                                                                           \
        while (!(what))                                                                            \
            usleep(200);                                                                           \
    } while (0)

// A time that no test lives to see: who waits for so long has to be woken.
enum { FOR_EVER_MS = 3600 * 1000 };

// Until n threads or processes sleep on the event. Who waits in turns of a few milliseconds is
// awake in between, for a moment.
static inline void until_asleep(struct sl_event *event, uint32_t n)
{
    UNTIL(atomic_load(&event->waiters) == n);
}

#endif
