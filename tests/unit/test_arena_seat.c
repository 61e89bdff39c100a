// Seats: duties, activities, and who is woken by a change of them.
#include "common/arena/seat.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum { DEVICES = 3 };

static void setup(void)
{
    struct sl_arena_spec spec = {.n_devices = DEVICES,
                                 .n_cells = 4,
                                 .n_params = 1,
                                 .batches_per_update = 1,
                                 .payload_bytes = SL_ARENA_CHUNK_BYTES};
    create_arena(&spec);
}

TEST(seats_are_apart_and_within_their_region)
{
    const struct sl_region *r = &arena.h->region[SL_REGION_SEATS];
    const char *end = arena.base + r->offset + r->bytes;
    const char *last = (const char *)(sl_schedule_of(&arena) + 1);
    ck_assert_ptr_eq((char *)sl_schedule_of(&arena), arena.base + r->offset);
    for (uint32_t i = 0; i < 2 * DEVICES; i++) {
        ck_assert_ptr_eq((char *)sl_seat(&arena, i), last);
        ck_assert_uint_eq((uintptr_t)last % 64, 0);
        last = (const char *)(sl_seat(&arena, i) + 1);
    }
    ck_assert(last <= end);
    ck_assert_uint_eq(sl_seat_sampler(&arena, 2), 2);
    ck_assert_uint_eq(sl_seat_trainer(&arena, 0), DEVICES);
    ck_assert_uint_eq(sl_seat_trainer(&arena, 2), DEVICES + 2);
}

TEST(awake_are_standby_trainers_at_work_alone)
{
    ck_assert_uint_eq(sl_seat_awake(&arena), 0);
    sl_seat_set_duty(&arena, sl_seat_sampler(&arena, 0), SL_DUTY_WORK);
    sl_seat_set_activity(&arena, sl_seat_sampler(&arena, 0), SL_ACTIVITY_BUSY);
    sl_seat_set_duty(&arena, sl_seat_trainer(&arena, 2), SL_DUTY_WORK);
    sl_seat_set_activity(&arena, sl_seat_trainer(&arena, 2), SL_ACTIVITY_BUSY);
    sl_seat_set_duty(&arena, sl_seat_trainer(&arena, 0), SL_DUTY_STANDBY);
    sl_seat_set_activity(&arena, sl_seat_trainer(&arena, 0), SL_ACTIVITY_ASLEEP);
    ck_assert_uint_eq(sl_seat_awake(&arena), 0);
    sl_seat_set_activity(&arena, sl_seat_trainer(&arena, 0), SL_ACTIVITY_BUSY);
    ck_assert_uint_eq(sl_seat_awake(&arena), 1);
    sl_seat_set_duty(&arena, sl_seat_trainer(&arena, 2), SL_DUTY_STANDBY);
    ck_assert_uint_eq(sl_seat_awake(&arena), 2);
}

TEST(a_change_of_duty_wakes_whom_it_may_concern)
{
    uint32_t standby = sl_event_read(&arena.h->work), ready = sl_event_read(&arena.h->progress);
    uint32_t seat = sl_seat_trainer(&arena, 1);
    sl_seat_set_duty(&arena, seat, SL_DUTY_STANDBY);
    ck_assert_uint_eq(sl_seat(&arena, seat)->duty, SL_DUTY_STANDBY);
    ck_assert(rang(&arena.h->work, &standby));
    ck_assert(rang(&arena.h->progress, &ready));
    sl_seat_set_duty(&arena, seat, SL_DUTY_STANDBY); // no change
    ck_assert(!rang(&arena.h->work, &standby));
}

TEST(a_blocked_sampler_wakes_standby_trainers)
{
    uint32_t standby = sl_event_read(&arena.h->work), seat = sl_seat_sampler(&arena, 1);
    sl_seat_set_activity(&arena, seat, SL_ACTIVITY_BUSY);
    ck_assert(!rang(&arena.h->work, &standby));
    sl_seat_set_activity(&arena, seat, SL_ACTIVITY_BLOCKED);
    ck_assert(rang(&arena.h->work, &standby));
    sl_seat_set_activity(&arena, seat, SL_ACTIVITY_BLOCKED);
    ck_assert(!rang(&arena.h->work, &standby));
}

TEST(a_standby_trainer_that_falls_asleep_lets_the_sampler_go_on)
{
    uint32_t work = sl_event_read(&arena.h->work), seat = sl_seat_trainer(&arena, 1);
    sl_seat_set_activity(&arena, seat, SL_ACTIVITY_BUSY);
    ck_assert(!rang(&arena.h->work, &work));
    sl_seat_set_activity(&arena, seat, SL_ACTIVITY_ASLEEP);
    ck_assert(rang(&arena.h->work, &work));
}

TEST(a_standby_trainer_that_falls_asleep_leaves_its_place_to_another)
{
    uint32_t standby = sl_event_read(&arena.h->work), seat = sl_seat_trainer(&arena, 1);
    sl_seat_set_activity(&arena, seat, SL_ACTIVITY_BUSY);
    ck_assert(!rang(&arena.h->work, &standby));
    sl_seat_set_activity(&arena, seat, SL_ACTIVITY_ASLEEP);
    ck_assert(rang(&arena.h->work, &standby));
    sl_seat_set_activity(&arena, seat,
                         SL_ACTIVITY_ASLEEP); // once: it does not wake itself for ever
    ck_assert(!rang(&arena.h->work, &standby));
}

TEST(a_dead_workers_words_are_reset_and_its_counters_stay)
{
    struct sl_seat *s = sl_seat(&arena, sl_seat_trainer(&arena, 1));
    sl_seat_set_duty(&arena, sl_seat_trainer(&arena, 1), SL_DUTY_STANDBY);
    sl_seat_set_activity(&arena, sl_seat_trainer(&arena, 1), SL_ACTIVITY_BUSY);
    s->cache_rows = 10;
    s->cache_generation = 1;
    s->cache_loaded = 10;
    s->switches = 7;
    uint32_t work = sl_event_read(&arena.h->work);
    sl_seat_vacate(&arena, sl_seat_trainer(&arena, 1));
    ck_assert_uint_eq(s->activity, SL_ACTIVITY_NONE);
    ck_assert_uint_eq(s->cache_generation, 0);
    ck_assert_uint_eq(s->cache_loaded, 0);
    ck_assert_uint_eq(sl_seat_awake(&arena), 0);
    ck_assert(rang(&arena.h->work, &work)); // the sampler beside it was held back
    ck_assert_uint_eq(s->duty, SL_DUTY_STANDBY);
    ck_assert_uint_eq(s->cache_rows, 10);
    ck_assert_uint_eq(s->switches, 7);
}

TEST(cores_are_taken_once_and_never_half_changed)
{
    uint32_t seat = sl_seat_trainer(&arena, 1), seen = 0;
    struct sl_cores given = {{3, 0, 1}}, others = {{4}}, taken;
    ck_assert(!sl_seat_take_cores(&arena, seat, &seen, &taken)); // nobody has given any
    sl_seat_set_cores(&arena, seat, &given);
    ck_assert(sl_seat_take_cores(&arena, seat, &seen, &taken));
    ck_assert_mem_eq(&taken, &given, sizeof given);
    ck_assert(!sl_seat_take_cores(&arena, seat, &seen, &taken));
    sl_seat_set_cores(&arena, seat, &given); // the same
    ck_assert(!sl_seat_take_cores(&arena, seat, &seen, &taken));
    // While they are being changed nobody takes them, and then they come.
    struct sl_seat *s = sl_seat(&arena, seat);
    s->cores_version++;
    ck_assert(!sl_seat_take_cores(&arena, seat, &seen, &taken));
    s->cores_version--;
    sl_seat_set_cores(&arena, seat, &others);
    ck_assert(sl_seat_take_cores(&arena, seat, &seen, &taken));
    ck_assert_mem_eq(&taken, &others, sizeof others);
    // Whoever sits down there later begins with them.
    seen = 0;
    sl_seat_vacate(&arena, seat);
    ck_assert(sl_seat_take_cores(&arena, seat, &seen, &taken));
}

RUN_TESTS(.setup = setup, .teardown = destroy_arena)
