// Asks for rows: who may use a slot when, and what becomes of a dead worker's.
#include "common/arena/asks.h"

#include <unistd.h>

#include "common/arena/ledger.h"
#include "tests/unit/shards_fixture.h"
#include "tests/unit/suite.h"

enum { SLOTS = 3, WORKER = 9, OTHER = 10 };

static struct shards shards;
static struct sl_arena arena;
static struct sl_asks asks;
static int fd;

static void begin(void)
{
    shards = shards_make(40, 3, 4, SL_DTYPE_F32, false);
    fd = shards_arena(&shards, SLOTS, 5, &arena);
    asks = sl_asks_of(&arena);
}

static void end(void)
{
    sl_arena_detach(&arena);
    close(fd);
    shards_free(&shards);
}

static struct sl_ask take(uint32_t worker)
{
    struct sl_ask ask;
    ck_assert(sl_asks_take(&asks, worker, &ask));
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_TAKEN);
    return ask;
}

static struct sl_ask ask_for(uint32_t worker)
{
    const struct sl_ask ask = take(worker);
    sl_asks_send(&arena, &asks, &ask);
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_ASKED);
    return ask;
}

static void die(uint32_t worker)
{
    struct sl_reclaimed back;
    sl_ledger_reclaim(&arena, worker, &back);
}

static bool full(void)
{
    struct sl_ask ask;
    return !sl_asks_take(&asks, OTHER, &ask);
}

CASE(.setup = begin, .teardown = end)

TEST(slots_do_not_overlap)
{
    const struct sl_region *region = &arena.h->region[SL_REGION_ASKS];
    const char *end = arena.base + region->offset + region->bytes;
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct sl_ask ask = sl_asks_at(&asks, i);
        const char *next = i + 1 < SLOTS ? (const char *)sl_asks_at(&asks, i + 1).head : end;
        ck_assert((char *)ask.vertices >= (char *)(ask.head->end + 3));
        ck_assert(ask.rows >= (char *)(ask.vertices + 5));
        ck_assert(ask.rows + 5 * shards.row_bytes <= next);
    }
}

TEST(an_ask_goes_round)
{
    const uint64_t calls = atomic_load(asks.calls);
    const uint32_t progress = sl_event_read(&arena.h->progress);
    struct sl_ask ask = ask_for(WORKER);
    ck_assert_uint_gt(atomic_load(asks.calls), calls);
    ck_assert_uint_ne(sl_event_read(&arena.h->progress), progress);
    const uint32_t answered = sl_event_read(&ask.head->answered);
    sl_asks_answer(&ask);
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_ANSWERED);
    ck_assert_uint_ne(sl_event_read(&ask.head->answered), answered);
    sl_asks_give_back(&arena, &asks, &ask);
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_FREE);
}

TEST(a_slot_has_one_asker)
{
    struct sl_ask all[SLOTS];
    for (int i = 0; i < SLOTS; i++) {
        all[i] = take(WORKER);
        for (int j = 0; j < i; j++)
            ck_assert_ptr_ne(all[i].head, all[j].head);
    }
    ck_assert(full());
    sl_asks_give_back(&arena, &asks, &all[1]);
    ck_assert_ptr_eq(take(OTHER).head, all[1].head);
}

// While rows may still come into it nobody else gets the slot.
TEST(a_dead_workers_ask_stays_until_nothing_comes)
{
    const struct sl_ask written = take(WORKER), asked = ask_for(WORKER), there = ask_for(WORKER);
    sl_asks_answer(&there);
    const uint64_t calls = atomic_load(asks.calls);
    die(WORKER);
    ck_assert_int_eq(sl_ask_state(&written), SL_ASK_FREE);
    ck_assert_int_eq(sl_ask_state(&asked), SL_ASK_ORPHAN);
    ck_assert_int_eq(sl_ask_state(&there), SL_ASK_FREE);
    ck_assert_uint_gt(atomic_load(asks.calls), calls);
    take(OTHER);
    take(OTHER);
    ck_assert(full());
    sl_asks_answer(&asked);
    ck_assert_int_eq(sl_ask_state(&asked), SL_ASK_FREE);
}

TEST(who_stops_waiting_leaves_an_orphan)
{
    const struct sl_ask ask = ask_for(WORKER);
    sl_asks_give_back(&arena, &asks, &ask);
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_ORPHAN);
    die(WORKER); // changes nothing
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_ORPHAN);
    sl_asks_free(&ask);
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_FREE);
}

TEST(others_asks_stay)
{
    const struct sl_ask ask = ask_for(OTHER);
    die(WORKER);
    ck_assert_int_eq(sl_ask_state(&ask), SL_ASK_ASKED);
}

TEST(slots_go_by_rows_and_devices)
{
    struct sl_asks_shape s = sl_asks_shape(2, 4, 1 << 20, 512);
    ck_assert_uint_eq(s.n_slots, 2 * SL_ASKS_A_DEVICE);
    ck_assert_uint_eq(s.max_rows, SL_ASKS_ROWS_BYTES / 512);
    ck_assert_uint_eq(sl_asks_shape(2, 4, 1 << 20, 4).max_rows, SL_ASKS_ROWS_MAX);
    ck_assert_uint_eq(sl_asks_shape(2, 4, 100, 4).max_rows, 100);
    ck_assert_uint_eq(sl_asks_shape(2, 4, 100, SL_ASKS_ROWS_BYTES * 2).max_rows, 1);
    s.n_slots = 0;
    ck_assert_uint_eq(sl_asks_bytes(&s), 0);
}

TEST(an_arena_of_wrong_asks_is_refused)
{
    struct sl_arena_spec spec = arena.h->spec;
    struct sl_arena none;
    spec.asks.max_rows = 0;
    const int other = sl_arena_memfd();
    ck_assert_int_eq(sl_arena_create(other, &spec, &none), SL_EINVAL);
    spec.asks.max_rows = 1;
    spec.asks.row_bytes = 0;
    ck_assert_int_eq(sl_arena_create(other, &spec, &none), SL_EINVAL);
    close(other);
}

RUN_TESTS()
