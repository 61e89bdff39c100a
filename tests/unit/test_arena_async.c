// The board in async mode: who may join, whose gradient is next, exactly once across deaths.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/unit/test_arena_fixture.h"

enum { DEVICES = 4, CELLS = 16, PARAMS = 3, STALENESS = 2 };

static void make(uint32_t staleness)
{
    struct sl_arena_spec spec = {.n_devices = DEVICES,
                                 .n_cells = CELLS,
                                 .n_params = PARAMS,
                                 .n_state = 1,
                                 .async = 1,
                                 .staleness = staleness,
                                 .batches_per_update = 1,
                                 .payload_bytes = CELLS * SL_ARENA_CHUNK_BYTES};
    create_arena(&spec);
}

static void setup(void)
{
    make(STALENESS);
}

// A trainer on a device with a batch in hand. Worker ids are 100 + device unless said otherwise.
struct trainer {
    uint32_t device, worker;
    struct sl_lease lease;
    float params[PARAMS];
    uint64_t base;
};

static struct trainer seated(uint32_t device)
{
    return (struct trainer){.device = device, .worker = 100 + device};
}

static int join(struct trainer *t)
{
    return sl_param_store_join(&arena, t->device, t->worker, t->params, &t->base);
}

static void start(struct trainer *t)
{
    t->lease = claim_train(t->worker);
    ck_assert_int_eq(join(t), SL_OK);
}

// What its gradient adds: a bit for each cell, so that the sum tells which are in, and how often.
static float share(uint32_t cell)
{
    return (float)(1u << cell);
}

static void offer(struct trainer *t)
{
    float *g = sl_param_store_device_gradient(&arena, t->device);
    for (int i = 0; i < PARAMS; i++)
        g[i] = share(t->lease.cell);
    sl_param_store_offer(&arena, t->device, &t->lease);
}

static void finish(struct trainer *t)
{
    offer(t);
    ck_assert_int_eq(sl_ledger_complete(&arena, &t->lease), SL_OK);
}

static void write_bank(const struct sl_update *u)
{
    const float *g = sl_param_store_update_gradient(&arena, u, 0);
    for (int i = 0; i < PARAMS; i++)
        sl_param_store_params(&arena, u->version + 1)[i] =
            sl_param_store_params(&arena, u->version)[i] + g[i];
}

// Applies the next update; the cell that it was, or -1 when there is none.
static int apply(uint32_t worker)
{
    struct sl_update u;
    if (sl_param_store_begin_update(&arena, worker, &u) < 0)
        return -1;
    ck_assert_uint_eq(u.n_cells, 1);
    write_bank(&u);
    sl_param_store_commit_update(&arena, &u);
    return (int)u.first_cell;
}

static void open_cells(uint32_t n)
{
    uint64_t version = sl_param_store_version(&arena);
    open_train(n, version, 0);
    for (uint32_t i = 0; i < n; i++)
        sample_and_publish(1);
}

static float now(void)
{
    const float *p = sl_param_store_params(&arena, sl_param_store_version(&arena));
    for (int i = 1; i < PARAMS; i++)
        ck_assert_float_eq(p[i], p[0]);
    return p[0];
}

START_TEST(a_gradient_is_an_update_of_its_own)
{
    struct trainer t = seated(2);
    open_cells(2);
    start(&t);
    ck_assert_uint_eq(t.base, 0);
    ck_assert_int_eq(apply(9), -1);
    offer(&t);
    ck_assert_int_eq(apply(9), -1); // the cell is not done
    ck_assert_int_eq(sl_ledger_complete(&arena, &t.lease), SL_OK);
    ck_assert_int_eq(apply(9), 0); // by anybody
    ck_assert_uint_eq(sl_param_store_version(&arena), 1);
    ck_assert_float_eq(now(), 1);
    ck_assert_int_eq(apply(9), -1); // once
    const struct sl_update_entry *e = sl_ledger_update(&arena, 1, 0);
    ck_assert_uint_eq(e->base_version, 0);
    ck_assert_uint_eq(e->applied_version, 0);
    start(&t);
    ck_assert_float_eq(t.params[PARAMS - 1], 1);
    ck_assert_uint_eq(t.base, 1);
    finish(&t);
    ck_assert(!sl_ledger_phase_complete(&arena, 1));
    ck_assert_int_eq(apply(9), 1);
    ck_assert(sl_ledger_phase_complete(&arena, 1));
    ck_assert_float_eq(now(), 3);
}
END_TEST

START_TEST(no_more_are_outstanding_than_the_bound_admits)
{
    struct trainer t[4];
    open_cells(4);
    for (uint32_t d = 0; d < 4; d++)
        t[d] = seated(d);
    for (uint32_t d = 0; d < 3; d++)
        start(&t[d]);
    t[3].lease = claim_train(t[3].worker);
    ck_assert_int_eq(join(&t[3]), SL_EAGAIN); // staleness + 1 are there
    finish(&t[0]);
    ck_assert_int_eq(join(&t[3]), SL_EAGAIN); // done, but not applied
    ck_assert_int_eq(apply(9), 0);
    ck_assert_int_eq(join(&t[3]), SL_OK);
    ck_assert_uint_eq(t[3].base, 1);
}
END_TEST

START_TEST(an_apply_waits_where_an_older_gradient_would_come_too_late)
{
    struct trainer slow = seated(0), fast = seated(1);
    open_cells(8);
    start(&slow); // on version 0: to be applied to version 2 at the latest
    for (int i = 0; i < 2; i++) {
        start(&fast);
        finish(&fast);
        ck_assert_int_eq(apply(9), i + 1);
    }
    ck_assert_uint_eq(sl_param_store_version(&arena), 2);
    start(&fast);
    finish(&fast);
    ck_assert_int_eq(apply(9), -1); // would make version 3 without it
    finish(&slow);
    ck_assert_int_eq(apply(9), 0);
    ck_assert_int_eq(apply(9), 3);
    const struct sl_update_entry *e = sl_ledger_update(&arena, 1, 0);
    ck_assert_uint_eq(e->base_version, 0);
    ck_assert_uint_eq(e->applied_version, 2);
    e = sl_ledger_update(&arena, 1, 3);
    ck_assert_uint_eq(e->base_version, 2);
    ck_assert_uint_eq(e->applied_version, 3);
}
END_TEST

START_TEST(several_of_one_base_leave_room_for_one_another)
{
    struct trainer t[3];
    open_cells(8);
    for (uint32_t d = 0; d < 3; d++) {
        t[d] = seated(d);
        start(&t[d]); // all on version 0: versions 0, 1 and 2 are theirs
    }
    finish(&t[0]);
    ck_assert_int_eq(apply(9), 0);
    start(&t[0]); // on version 1
    finish(&t[0]);
    ck_assert_int_eq(apply(9), -1); // two of version 0 are to come: 1 and 2 are theirs
    finish(&t[2]);
    ck_assert_int_eq(apply(9), 2);
    ck_assert_int_eq(apply(9), -1);
    finish(&t[1]);
    ck_assert_int_eq(apply(9), 1);
    ck_assert_int_eq(apply(9), 3);
}
END_TEST

START_TEST(the_oldest_base_is_first)
{
    struct trainer a = seated(3), b = seated(0), c = seated(1);
    open_cells(8);
    start(&a); // version 0
    start(&c);
    finish(&c);
    ck_assert_int_eq(apply(9), 1);
    start(&b); // version 1
    finish(&b);
    finish(&a);
    ck_assert_int_eq(apply(9), 0);
    ck_assert_int_eq(apply(9), 2);
}
END_TEST

START_TEST(staleness_zero_is_one_after_the_other)
{
    destroy_arena();
    make(0);
    struct trainer a = seated(0), b = seated(1);
    open_cells(2);
    start(&a);
    b.lease = claim_train(b.worker);
    ck_assert_int_eq(join(&b), SL_EAGAIN);
    finish(&a);
    ck_assert_int_eq(join(&b), SL_EAGAIN);
    ck_assert_int_eq(apply(9), 0);
    ck_assert_int_eq(join(&b), SL_OK);
    ck_assert_uint_eq(b.base, 1);
    finish(&b);
    ck_assert_int_eq(apply(9), 1);
    for (uint32_t i = 0; i < 2; i++) {
        const struct sl_update_entry *e = sl_ledger_update(&arena, 1, i);
        ck_assert_uint_eq(e->base_version, e->applied_version);
    }
}
END_TEST

START_TEST(a_device_has_one_gradient_at_a_time)
{
    struct trainer t = seated(0), other = seated(1);
    open_cells(4);
    start(&t);
    ck_assert_int_eq(join(&t), SL_EAGAIN);
    finish(&t);
    t.lease = claim_train(t.worker);
    ck_assert_int_eq(join(&t), SL_EAGAIN); // its slot is still needed
    start(&other);
    ck_assert_int_eq(apply(9), 0);
    ck_assert_int_eq(join(&t), SL_OK);
}
END_TEST

START_TEST(a_withdrawn_gradient_makes_room)
{
    struct trainer t[4];
    open_cells(4);
    for (uint32_t d = 0; d < 4; d++)
        t[d] = seated(d);
    for (uint32_t d = 0; d < 3; d++)
        start(&t[d]);
    t[3].lease = claim_train(t[3].worker);
    ck_assert_int_eq(join(&t[3]), SL_EAGAIN);
    uint32_t seen = sl_event_read(&arena.h->progress);
    sl_param_store_withdraw(&arena, 1, t[1].worker);
    sl_ledger_return(&arena, &t[1].lease);
    ck_assert(rang(&arena.h->progress, &seen));
    ck_assert_int_eq(join(&t[3]), SL_OK);
    sl_param_store_withdraw(&arena, 0, 55); // not its own
    ck_assert_int_eq(join(&t[1]), SL_EAGAIN);
    finish(&t[0]);
    sl_param_store_withdraw(&arena, 0, t[0].worker); // too late: it counts
    ck_assert_int_eq(apply(9), 0);
}
END_TEST

START_TEST(a_withdrawal_lets_what_was_put_off_go)
{
    struct trainer slow = seated(0), fast = seated(1);
    open_cells(8);
    start(&slow);
    for (int i = 0; i < 3; i++) {
        start(&fast);
        finish(&fast);
        ck_assert_int_eq(apply(9), i < 2 ? i + 1 : -1);
    }
    sl_param_store_withdraw(&arena, 0, slow.worker);
    sl_ledger_return(&arena, &slow.lease);
    ck_assert_int_eq(apply(9), 3);
}
END_TEST

START_TEST(a_taken_lock_is_no_time_to_join)
{
    struct trainer t = seated(0), other = seated(1);
    struct sl_update u, v;
    open_cells(2);
    start(&t);
    finish(&t);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 9, &u), SL_OK);
    other.lease = claim_train(other.worker);
    ck_assert_int_eq(join(&other), SL_EAGAIN);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 8, &v), SL_EAGAIN);
    uint32_t seen = sl_event_read(&arena.h->progress);
    write_bank(&u);
    sl_param_store_commit_update(&arena, &u);
    ck_assert(rang(&arena.h->progress, &seen));
    ck_assert_int_eq(join(&other), SL_OK);
}
END_TEST

// --- deaths: everything as the dead one left it, then the broker's reclaim ---

START_TEST(death_while_computing)
{
    struct trainer t = seated(0), heir = {.device = 0, .worker = 200};
    open_cells(1);
    start(&t);
    heir.base = 99;
    ck_assert_int_eq(sl_param_store_join(&arena, 0, heir.worker, heir.params, &heir.base),
                     SL_EAGAIN);
    reclaim(t.worker);
    start(&heir);
    finish(&heir);
    ck_assert_int_eq(apply(9), 0);
    ck_assert_float_eq(now(), 1);
    ck_assert(sl_ledger_phase_complete(&arena, 1));
}
END_TEST

START_TEST(death_between_offer_and_completion)
{
    struct trainer t = seated(0), heir = seated(1);
    open_cells(2);
    start(&t);
    offer(&t);
    reclaim(t.worker);
    ck_assert_int_eq(apply(9), -1);
    start(&heir); // the same cell
    ck_assert_uint_eq(heir.lease.cell, 0);
    finish(&heir);
    ck_assert_int_eq(sl_ledger_complete(&arena, &t.lease), SL_ESTALE);
    ck_assert_int_eq(apply(9), 0);
    ck_assert_int_eq(apply(9), -1);
    ck_assert_float_eq(now(), 1);
}
END_TEST

START_TEST(an_offer_of_a_batch_that_another_trained_never_counts)
{
    struct trainer t = seated(0), heir = seated(1);
    open_cells(2);
    start(&t);
    offer(&t);
    // Its lease is gone and the batch is done, but its seat has not been seen to yet.
    sl_ledger_return(&arena, &t.lease);
    start(&heir);
    finish(&heir);
    ck_assert_int_eq(apply(9), 0);
    ck_assert_int_eq(apply(9), -1);
    reclaim(t.worker);
    ck_assert_int_eq(apply(9), -1);
    ck_assert_float_eq(now(), 1);
}
END_TEST

START_TEST(death_between_completion_and_apply)
{
    struct trainer t = seated(0), heir = {.device = 0, .worker = 200};
    open_cells(2);
    start(&t);
    finish(&t);
    struct sl_reclaimed r;
    sl_ledger_reclaim(&arena, t.worker, &r);
    ck_assert_uint_eq(r.retrain, 0);
    heir.lease = claim_train(heir.worker);
    ck_assert_int_eq(sl_param_store_join(&arena, 0, heir.worker, heir.params, &heir.base),
                     SL_EAGAIN);
    ck_assert_int_eq(apply(heir.worker), 0);
    ck_assert_int_eq(sl_param_store_join(&arena, 0, heir.worker, heir.params, &heir.base), SL_OK);
    finish(&heir);
    ck_assert_int_eq(apply(9), 1);
    ck_assert_float_eq(now(), 3);
}
END_TEST

START_TEST(death_in_the_middle_of_an_apply)
{
    struct trainer a = seated(0), b = seated(1), c = seated(2);
    struct sl_update u;
    open_cells(4);
    start(&a);
    start(&b);
    finish(&b);
    ck_assert_int_eq(sl_param_store_begin_update(&arena, 9, &u), SL_OK);
    ck_assert_uint_eq(u.first_cell, 1);
    sl_param_store_params(&arena, u.version + 1)[0] = 1e9f;
    ck_assert_int_eq(apply(8), -1);
    c.lease = claim_train(c.worker);
    ck_assert_int_eq(join(&c), SL_EAGAIN);
    finish(&a); // meanwhile another one, of the same base and an earlier cell, is there
    reclaim(9);
    ck_assert_int_eq(apply(8), 0);
    ck_assert_int_eq(apply(8), 1);
    ck_assert_float_eq(now(), 3);
    ck_assert_int_eq(join(&c), SL_OK);
}
END_TEST

// Kills a child at a named point within `what`.
static void die_at(const char *point, void (*what)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SLUICE_FAILPOINT", point, 1);
        if (sl_failpoint_init() == SL_OK)
            what();
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s was not reached", point);
}

static struct trainer shared_trainer;

static void apply_by_nine(void)
{
    apply(9);
}

START_TEST(death_between_flip_and_clearing)
{
    struct trainer t = seated(0), other = seated(1);
    open_cells(3);
    start(&t);
    start(&other);
    finish(&t);
    finish(&other);
    die_at("trainer_flipped", apply_by_nine);
    ck_assert_uint_eq(sl_param_store_version(&arena), 1);
    ck_assert_int_eq(apply(8), -1); // its lock
    reclaim(9);
    ck_assert_int_eq(apply(8), 1); // not the first one again
    ck_assert_int_eq(apply(8), -1);
    ck_assert_float_eq(now(), 3);
    start(&t);
    ck_assert_uint_eq(t.base, 2);
}
END_TEST

// Whether it is applied may be asked without the lock: no sooner than the version says so.
START_TEST(death_before_the_flip_leaves_nothing_final)
{
    struct trainer t = seated(0), other = seated(1);
    open_cells(2);
    start(&other);
    start(&t);
    finish(&t);
    die_at("trainer_applied", apply_by_nine);
    ck_assert(!sl_param_store_is_applied(&arena, 1, 1));
    reclaim(9);
    finish(&other); // goes first now, to the version that the dead one had written down
    ck_assert_int_eq(apply(8), 0);
    ck_assert(sl_param_store_is_applied(&arena, 1, 0));
    ck_assert(!sl_param_store_is_applied(&arena, 1, 1));
    ck_assert_int_eq(apply(8), 1);
    ck_assert(sl_param_store_is_applied(&arena, 1, 1));
    ck_assert_uint_eq(sl_ledger_update(&arena, 1, 1)->applied_version, 1);
}
END_TEST

START_TEST(the_last_update_of_a_phase_whose_applier_died_is_not_applied_in_the_next)
{
    struct trainer t = seated(0), other = seated(1);
    open_cells(1);
    start(&t);
    finish(&t);
    die_at("trainer_flipped", apply_by_nine);
    reclaim(9);
    ck_assert(sl_ledger_phase_complete(&arena, 1));
    for (int round = 0; round < 2 * SL_ARENA_PHASES; round++) { // its slot is used again
        float before = now();
        open_cells(1);
        start(&other);
        finish(&other);
        ck_assert_int_eq(apply(8), 0);
        ck_assert_int_eq(apply(8), -1);
        ck_assert_float_eq(now(), before + 1);
    }
    open_cells(1);
    start(&t); // its device is free
}
END_TEST

START_TEST(a_join_finds_a_gradient_used_whose_applier_died)
{
    destroy_arena();
    make(0);
    struct trainer t = seated(0);
    open_cells(2);
    start(&t);
    finish(&t);
    die_at("trainer_flipped", apply_by_nine);
    reclaim(9);
    // Nobody looks for updates in between: joining alone must see that the bound has room.
    start(&t);
    ck_assert_uint_eq(t.base, 1);
}
END_TEST

static void join_shared(void)
{
    join(&shared_trainer);
}

START_TEST(death_while_copying_in_join)
{
    struct trainer other = seated(1);
    shared_trainer = seated(0);
    open_cells(2);
    shared_trainer.lease = claim_train(shared_trainer.worker);
    die_at("trainer_joined", join_shared);
    other.lease = claim_train(other.worker);
    ck_assert_int_eq(join(&other), SL_EAGAIN); // its lock
    reclaim(shared_trainer.worker);
    ck_assert_int_eq(join(&other), SL_OK);
    shared_trainer.worker = 200;
    start(&shared_trainer);
    ck_assert_uint_eq(shared_trainer.lease.cell, 0);
}
END_TEST

static void offer_shared(void)
{
    offer(&shared_trainer);
}

START_TEST(death_right_after_an_offer)
{
    struct trainer heir = {.device = 0, .worker = 200};
    shared_trainer = seated(0);
    open_cells(1);
    start(&shared_trainer);
    die_at("trainer_offered", offer_shared);
    reclaim(shared_trainer.worker);
    start(&heir);
    finish(&heir);
    ck_assert_int_eq(apply(9), 0);
    ck_assert_float_eq(now(), 1);
}
END_TEST

static void complete_shared(void)
{
    sl_ledger_complete(&arena, &shared_trainer.lease);
}

START_TEST(death_right_after_completion)
{
    shared_trainer = seated(0);
    open_cells(1);
    start(&shared_trainer);
    offer(&shared_trainer);
    die_at("trainer_done", complete_shared);
    reclaim(shared_trainer.worker);
    ck_assert_int_eq(apply(9), 0);
    ck_assert_float_eq(now(), 1);
    ck_assert(sl_ledger_phase_complete(&arena, 1));
    struct sl_ledger_depth d;
    sl_ledger_depth(&arena, &d);
    ck_assert_uint_eq(d.payload_bytes, 0);
}
END_TEST

START_TEST(a_dead_slow_one_no_longer_puts_others_off)
{
    struct trainer slow = seated(0), fast = seated(1);
    open_cells(8);
    start(&slow);
    for (int i = 0; i < 3; i++) {
        start(&fast);
        finish(&fast);
        ck_assert_int_eq(apply(9), i < 2 ? i + 1 : -1);
    }
    uint32_t seen = sl_event_read(&arena.h->progress);
    reclaim(slow.worker);
    ck_assert(rang(&arena.h->progress, &seen));
    ck_assert_int_eq(apply(9), 3);
}
END_TEST

START_TEST(slots_of_devices_are_apart)
{
    float *before = sl_param_store_best(&arena);
    for (uint32_t d = 0; d < DEVICES; d++) {
        float *g = sl_param_store_device_gradient(&arena, d);
        ck_assert_int_ge(g - before, PARAMS);
        before = g;
    }
    const struct sl_region *r = &arena.h->region[SL_REGION_PARAMS];
    ck_assert((char *)(before + PARAMS) <= arena.base + r->offset + r->bytes);
}
END_TEST

// Random histories against the definition of the bound, taken from param_store.h word by word.
START_TEST(random_histories_keep_the_bound_and_never_lock_up)
{
    srandom(11);
    for (int history = 0; history < 300; history++) {
        uint32_t staleness = (uint32_t)random() % 6;
        destroy_arena();
        make(staleness);
        open_cells(CELLS);
        struct trainer t[DEVICES];
        bool has_lease[DEVICES] = {0}, joined[DEVICES] = {0};
        uint32_t next_worker = 1000;
        for (uint32_t d = 0; d < DEVICES; d++)
            t[d] = seated(d);
        int steps = 0;
        while (!sl_ledger_phase_complete(&arena, 1)) {
            ck_assert_int_lt(steps++, 20000);
            struct trainer *x = &t[(uint32_t)random() % DEVICES];
            uint32_t d = x->device;
            switch (random() % 8) {
            case 0: // dies
                if (random() % 4)
                    break;
                reclaim(x->worker);
                x->worker = next_worker++;
                has_lease[d] = joined[d] = false;
                break;
            case 1:
            case 2:
            case 3:
                if (!has_lease[d])
                    has_lease[d] = sl_ledger_claim_train(&arena, x->worker, 0, &x->lease) == SL_OK;
                else if (!joined[d])
                    joined[d] = join(x) == SL_OK;
                break;
            case 4:
            case 5:
                if (joined[d]) {
                    finish(x);
                    has_lease[d] = joined[d] = false;
                }
                break;
            default: apply(x->worker);
            }
        }
        ck_assert_float_eq(now(), (float)((1u << CELLS) - 1));
        for (uint32_t i = 0; i < CELLS; i++) {
            const struct sl_update_entry *e = sl_ledger_update(&arena, 1, i);
            ck_assert_uint_le(e->base_version, e->applied_version);
            ck_assert_uint_le(e->applied_version - e->base_version, staleness);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ipc_async");
    TCase *c = tcase_create("async");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, destroy_arena);
    tcase_add_test(c, a_gradient_is_an_update_of_its_own);
    tcase_add_test(c, no_more_are_outstanding_than_the_bound_admits);
    tcase_add_test(c, an_apply_waits_where_an_older_gradient_would_come_too_late);
    tcase_add_test(c, several_of_one_base_leave_room_for_one_another);
    tcase_add_test(c, the_oldest_base_is_first);
    tcase_add_test(c, staleness_zero_is_one_after_the_other);
    tcase_add_test(c, a_device_has_one_gradient_at_a_time);
    tcase_add_test(c, a_withdrawn_gradient_makes_room);
    tcase_add_test(c, a_withdrawal_lets_what_was_put_off_go);
    tcase_add_test(c, a_taken_lock_is_no_time_to_join);
    tcase_add_test(c, death_while_computing);
    tcase_add_test(c, death_between_offer_and_completion);
    tcase_add_test(c, an_offer_of_a_batch_that_another_trained_never_counts);
    tcase_add_test(c, death_between_completion_and_apply);
    tcase_add_test(c, death_in_the_middle_of_an_apply);
    tcase_add_test(c, death_between_flip_and_clearing);
    tcase_add_test(c, death_before_the_flip_leaves_nothing_final);
    tcase_add_test(c, the_last_update_of_a_phase_whose_applier_died_is_not_applied_in_the_next);
    tcase_add_test(c, a_join_finds_a_gradient_used_whose_applier_died);
    tcase_add_test(c, death_while_copying_in_join);
    tcase_add_test(c, death_right_after_an_offer);
    tcase_add_test(c, death_right_after_completion);
    tcase_add_test(c, a_dead_slow_one_no_longer_puts_others_off);
    tcase_add_test(c, slots_of_devices_are_apart);
    tcase_add_test(c, random_histories_keep_the_bound_and_never_lock_up);
    suite_add_tcase(s, c);
    return run_suite(s);
}
