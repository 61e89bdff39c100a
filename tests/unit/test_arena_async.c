// The board in async mode: who may join, whose gradient is next, exactly once across deaths.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/unit/suite.h"
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

TEST(a_gradient_is_an_update_of_its_own)
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

// Of four trainers three have joined: the fourth is one more than staleness + 1.
static void crowd(struct trainer t[4])
{
    open_cells(4);
    for (uint32_t d = 0; d < 4; d++)
        t[d] = seated(d);
    for (uint32_t d = 0; d < 3; d++)
        start(&t[d]);
    t[3].lease = claim_train(t[3].worker);
    ck_assert_int_eq(join(&t[3]), SL_EAGAIN);
}

// The third gradient of a fast trainer is put off: it would make version 3 without that of a slow
// one, which is on version 0, to be applied to version 2 at the latest.
static struct trainer put_off(void)
{
    struct trainer slow = seated(0), fast = seated(1);
    open_cells(8);
    start(&slow);
    for (int i = 0; i < 3; i++) {
        start(&fast);
        finish(&fast);
        ck_assert_int_eq(apply(9), i < 2 ? i + 1 : -1);
    }
    ck_assert_uint_eq(sl_param_store_version(&arena), 2);
    return slow;
}

TEST(no_more_are_outstanding_than_the_bound_admits)
{
    struct trainer t[4];
    crowd(t);
    finish(&t[0]);
    ck_assert_int_eq(join(&t[3]), SL_EAGAIN); // done, but not applied
    ck_assert_int_eq(apply(9), 0);
    ck_assert_int_eq(join(&t[3]), SL_OK);
    ck_assert_uint_eq(t[3].base, 1);
}

TEST(an_apply_waits_where_an_older_gradient_would_come_too_late)
{
    struct trainer slow = put_off();
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

TEST(the_oldest_base_is_first)
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

TEST(a_device_has_one_gradient_at_a_time)
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

TEST(a_withdrawn_gradient_makes_room)
{
    struct trainer t[4];
    crowd(t);
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

TEST(a_withdrawal_lets_what_was_put_off_go)
{
    struct trainer slow = put_off();
    sl_param_store_withdraw(&arena, 0, slow.worker);
    sl_ledger_return(&arena, &slow.lease);
    ck_assert_int_eq(apply(9), 3);
}

TEST(a_taken_lock_is_no_time_to_join)
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

// --- deaths: everything as the dead one left it, then the broker's reclaim ---

TEST(an_offer_of_a_batch_that_another_trained_never_counts)
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

TEST(a_dead_slow_one_no_longer_puts_others_off)
{
    struct trainer slow = put_off();
    uint32_t seen = sl_event_read(&arena.h->progress);
    reclaim(slow.worker);
    ck_assert(rang(&arena.h->progress, &seen));
    ck_assert_int_eq(apply(9), 3);
}

TEST(slots_of_devices_are_apart)
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

// --- random histories against the definition of the bound in param_store.h, word by word ---

// What a trainer can do next, and where it may be killed while it does.
enum deed { CLAIM, JOIN, OFFER, COMPLETE, APPLY, DEEDS };
static const char *const POINTS[DEEDS] = {NULL, "trainer_joined", "trainer_offered", "trainer_done",
                                          NULL};
static const char *const APPLY_POINTS[] = {"trainer_applied", "trainer_flipped"};

struct history {
    struct trainer t[DEVICES];
    enum deed next[DEVICES]; // of the batch in hand: JOIN, OFFER or COMPLETE; CLAIM: there is none
    uint32_t staleness, n_cells, next_worker, killed[DEEDS];
    float sum; // that the phases opened so far come to
    bool lags; // somebody died in an update, and nobody has looked since
};

// False where it has to wait.
static bool act(struct history *h, uint32_t d, enum deed deed)
{
    struct trainer *t = &h->t[d];
    switch (deed) {
    case CLAIM: return sl_ledger_claim_train(&arena, t->worker, 0, &t->lease) == SL_OK;
    case JOIN: return join(t) == SL_OK;
    case OFFER: offer(t); return true;
    case COMPLETE: return sl_ledger_complete(&arena, &t->lease) == SL_OK;
    default:
        apply(t->worker);
        h->lags = false;
        return true;
    }
}

// It dies between two deeds, or amid one.
static void die(struct history *h, uint32_t d)
{
    const enum deed deed = random() % 2 ? APPLY : h->next[d];
    const char *point = deed == APPLY ? APPLY_POINTS[random() % 2] : POINTS[deed];
    pid_t pid = point ? fork() : 0;
    int status = 0;
    if (point && pid == 0) {
        setenv("SLUICE_FAILPOINT", point, 1);
        if (sl_failpoint_init() == SL_OK)
            act(h, d, deed);
        _exit(0);
    }
    if (point)
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    h->killed[deed] += is_killed;
    struct sl_update none; // whose lock it holds
    if (is_killed && (deed == JOIN || deed == APPLY))
        ck_assert_int_eq(sl_param_store_begin_update(&arena, 9, &none), SL_EAGAIN);
    h->lags |= deed == APPLY;
    reclaim(h->t[d].worker);
    h->t[d].worker = h->next_worker++;
    h->next[d] = CLAIM;
}

// As many batches are applied as there are versions, whatever was written down of others; but for
// the last one whose applier died behind the flip, until the next one looks.
static void check_applied(const struct history *h, uint64_t seq)
{
    uint64_t applied = (seq - 1) * h->n_cells;
    for (uint32_t i = 0; i < h->n_cells; i++)
        applied += sl_param_store_is_applied(&arena, seq, i);
    const uint64_t version = sl_param_store_version(&arena);
    ck_assert(applied == version || (h->lags && applied + 1 == version));
}

static void run_phase(struct history *h, uint64_t seq)
{
    open_cells(h->n_cells);
    for (int steps = 0; !sl_ledger_phase_complete(&arena, seq); steps++) {
        ck_assert_int_lt(steps, 20000);
        const uint32_t d = (uint32_t)random() % DEVICES, what = (uint32_t)random() % 32;
        if (what == 0)
            die(h, d);
        else if (what < 10)
            act(h, d, APPLY);
        else if (act(h, d, h->next[d]))
            h->next[d] = (h->next[d] + 1) % APPLY;
        check_applied(h, seq);
    }
    h->sum += (float)((1u << h->n_cells) - 1);
    ck_assert_float_eq(now(), h->sum);
    for (uint32_t i = 0; i < h->n_cells; i++) {
        const struct sl_update_entry *e = sl_ledger_update(&arena, seq, i);
        ck_assert_uint_le(e->base_version, e->applied_version);
        ck_assert_uint_le(e->applied_version - e->base_version, h->staleness);
    }
}

// Phases enough that slots are used again.
TEST(random_histories_keep_the_bound_and_never_lock_up)
{
    uint32_t killed[DEEDS] = {0};
    srandom(11);
    for (int n = 0; n < 60; n++) {
        struct history h = {.staleness = (uint32_t)random() % 6,
                            .n_cells = 1 + (uint32_t)random() % 12,
                            .next_worker = 1000};
        destroy_arena();
        make(h.staleness);
        for (uint32_t d = 0; d < DEVICES; d++)
            h.t[d] = seated(d);
        for (uint64_t seq = 1; seq <= SL_ARENA_PHASES + 2; seq++)
            run_phase(&h, seq);
        struct sl_ledger_depth depth;
        sl_ledger_depth(&arena, &depth);
        ck_assert_uint_eq(depth.payload_bytes, 0);
        for (int i = 0; i < DEEDS; i++)
            killed[i] += h.killed[i];
    }
    for (int i = JOIN; i < DEEDS; i++)
        ck_assert_msg(killed[i] > 0, "nobody was killed in deed %d", i);
}

RUN_TESTS(.setup = setup, .teardown = destroy_arena, .timeout_s = 60)
