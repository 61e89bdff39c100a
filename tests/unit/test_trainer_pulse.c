// Signs of life: each of a trainer's threads gives them whenever it comes round, and comes round
// while it sleeps, too. The broker takes one that gives none for one that hangs.
#include "tests/unit/suite.h"
#include "tests/unit/trainer_farm.h"

enum { DEVICE = 1 };

static uint64_t beats(struct farm *f, enum sl_thread thread)
{
    const struct sl_worker_slot *slot =
        sl_stats_slot(&f->arena, sl_seat_trainer(&f->arena, DEVICE));
    return atomic_load(&slot->words.beats[thread]);
}

static bool is_asleep(struct farm *f)
{
    return atomic_load(&farm_seat(f, DEVICE)->activity) == SL_ACTIVITY_ASLEEP;
}

// A standby trainer that has nothing to do, and a trainer whose job is paused.
LOOP_TEST(who_sleeps_gives_signs_of_life, 0, 2)
{
    struct farm f;
    farm_init_plain(&f, 4);
    if (_i)
        sl_arena_pause(&f.arena, true);
    farm_start(&f, DEVICE, _i ? SL_DUTY_WORK : SL_DUTY_STANDBY);
    farm_until(is_asleep(&f));
    for (int i = 0; i < 3; i++) {
        uint64_t before = beats(&f, SL_THREAD_EXTRACT);
        sl_event_signal(&f.arena.h->work);
        farm_until(beats(&f, SL_THREAD_EXTRACT) > before);
    }
    // Nobody wakes the other one but its own time-out: that is seen once.
    uint64_t before = beats(&f, SL_THREAD_WORK);
    if (_i == 0)
        farm_until(beats(&f, SL_THREAD_WORK) > before);
    ck_assert(is_asleep(&f));
    farm_stop_trainer(&f, &f.trainer[0]);
    farm_fini(&f);
}

RUN_TESTS(.timeout_s = 120)
