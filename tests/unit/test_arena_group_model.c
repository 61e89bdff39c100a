/*
 * test_arena_group_model.c - members that sum gradients while they are killed, one step at a time.
 *
 * The protocol of group.h, written down here a second time as a machine of small steps: each step
 * is one operation on the arena, or one float written to the slot. A scheduler draws whose step is
 * next (a sampler, a member, the broker), from a seed, so that every order of steps may come and
 * each one can be had again. Between any two steps a member may die, be told to leave, or stand
 * still for long; the broker notices later, in steps of its own, and starts another one.
 *
 * The collective is memory of the test. It is of the worst kind: it does not notice that somebody
 * is gone, and its operations wait for him until they are given up.
 *
 * The gradient of batch i of update v is v + 1 in place i and zero elsewhere. What must hold when
 * an update is applied: each of its batches is in slot 0 once, and nothing else is. In the end all
 * updates were made, no memory is left, nobody holds anything; and that end comes.
 *
 * Two rules can be broken on request, to show that this would notice: nobody sums between a
 * member's death and the return of its leases, and nobody sums again what is reduced.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/arena/group.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_arena_fixture.h"

enum {
    MEMBERS_MAX = 4,
    PER_UPDATE_MAX = 5,
    PARAMS = 8,
    LEASES = 2, // that a member has before they are held
    COMMS_MAX = 512,
    STEPS_MAX = 300000,
    DRAIN_STEPS = 2000, // after the last phase: who holds nothing needs few
    SAMPLER = 1,
    PHASES = 4,
};

// How the broker takes a dead member off, and what the members look at.
enum burial {
    BURY_APART,    // empty group, reclaim, then the group of the rest
    BURY_IN_ONE,   // the group of the rest, then reclaim; members look whose the held batches are
    BURY_UNLOOKED, // the same, and they do not look: a rule broken
};

struct rules {
    enum burial burial;
    bool sums_again; // a rule broken: members do not ask whether the update is reduced
    bool quiet;      // nobody dies, leaves or stands still
};

struct comm {
    uint32_t n;
    bool met[MEMBERS_MAX];
    uint32_t given[MEMBERS_MAX]; // sums that each has begun
    float in[2][MEMBERS_MAX][PARAMS];
};

enum meeting { APART, MEETING, TOGETHER };
enum doing { TRAINING, REDUCING, WRITING, COUNTING, APPLYING };

struct member {
    bool alive, ready, leaving;
    uint32_t worker, device, still; // steps that it stands still
    struct sl_group_view view;
    enum meeting meeting;
    struct comm *comm;
    struct sl_lease lease[LEASES], held[PER_UPDATE_MAX];
    uint32_t n_leases, n_held;
    float sum[PARAMS], total[PARAMS];
    uint64_t version; // of what is held
    enum doing doing;
    uint64_t summing; // version
    uint32_t at;      // next float to write
    bool counted;     // in this generation
    uint64_t counted_version;
    struct sl_update update;
};

static struct world {
    struct rules rules;
    uint64_t random, seed;
    uint32_t n_devices, per_update, n_cells;
    struct member member[MEMBERS_MAX]; // by device
    bool grouped[MEMBERS_MAX];         // whom the broker has in the group
    int burying;                       // device, -1 = nobody
    uint32_t burial_step, next_worker, kills_left, opened;
    uint64_t version; // updates that must have been applied
    struct comm comm[COMMS_MAX];
    uint32_t n_comms;
    uint64_t kills, finished, retrained, changes;
    char error[200];
} w;

// The first thing that went wrong.
static void wrong(const char *format, ...)
{
    va_list args;
    if (w.error[0])
        return;
    va_start(args, format);
    vsnprintf(w.error, sizeof w.error, format, args);
    va_end(args);
}

static uint32_t draw(uint32_t n)
{
    w.random = w.random * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((w.random >> 33) % n);
}

// --- the collective ---

static struct comm *make_comm(uint32_t n, uint8_t name[SL_GROUP_NAME_BYTES])
{
    uint32_t i = w.n_comms++;
    ck_assert_uint_lt(i, COMMS_MAX);
    memset(&w.comm[i], 0, sizeof w.comm[i]);
    w.comm[i].n = n;
    memset(name, (int)i, SL_GROUP_NAME_BYTES);
    memcpy(name, &i, sizeof i);
    return &w.comm[i];
}

static struct comm *find_comm(const uint8_t name[SL_GROUP_NAME_BYTES])
{
    uint32_t i;
    memcpy(&i, name, sizeof i);
    ck_assert_uint_lt(i, w.n_comms);
    return &w.comm[i];
}

static bool all_met(const struct comm *c)
{
    bool met = true;
    for (uint32_t r = 0; r < c->n; r++)
        met &= c->met[r];
    return met;
}

static void begin_sum(struct member *m)
{
    struct comm *c = m->comm;
    uint32_t rank = m->view.rank, round = ++c->given[rank];
    memcpy(c->in[round & 1][rank], m->sum, sizeof m->sum);
}

// The sum of the round that this member has begun, once all have.
static bool poll_sum(struct member *m)
{
    const struct comm *c = m->comm;
    uint32_t round = c->given[m->view.rank];
    memset(m->total, 0, sizeof m->total);
    for (uint32_t r = 0; r < c->n; r++) {
        if (c->given[r] < round)
            return false;
        for (uint32_t i = 0; i < PARAMS; i++)
            m->total[i] += c->in[round & 1][r][i];
    }
    return true;
}

// --- a member ---

static bool is_member(const struct member *m)
{
    return m->view.rank < m->view.n;
}

// Gives the communicator up, whatever it is doing.
static void part(struct member *m)
{
    m->meeting = APART;
    m->comm = NULL;
    m->counted = false;
    if (m->doing == REDUCING)
        m->doing = TRAINING;
}

// True when it had a step to make towards the others.
static bool follow(struct member *m)
{
    struct sl_group_view now;
    uint8_t name[SL_GROUP_NAME_BYTES];
    if (!sl_group_read(&arena, m->worker, &now))
        return true;
    if (now.generation != m->view.generation) {
        part(m);
        m->view = now;
        return true;
    }
    if (!is_member(m) || m->meeting == TOGETHER)
        return false;
    if (m->meeting == MEETING) {
        m->meeting = all_met(m->comm) ? TOGETHER : MEETING;
        return m->meeting == TOGETHER;
    }
    if (m->view.rank == 0) {
        m->comm = make_comm(m->view.n, name);
        sl_group_name(&arena, &m->view, name);
    } else if (sl_group_read_name(&arena, &m->view, name) == SL_OK) {
        m->comm = find_comm(name);
    } else {
        return false;
    }
    if (m->comm->n != m->view.n || m->comm->met[m->view.rank])
        wrong("worker %u met the wrong group", m->worker);
    m->comm->met[m->view.rank] = true;
    m->meeting = MEETING;
    return true;
}

// All of the update's batches are in sums of members of this generation.
static bool held_by_members(const struct member *m, const struct sl_update *u)
{
    bool all = true;
    for (uint32_t i = 0; i < u->n_cells && all; i++) {
        struct sl_group_view owner;
        uint64_t word = sl_ledger_word(&arena, u->seq, u->first_cell + i);
        all = sl_group_read(&arena, sl_cell_owner(word), &owner) &&
              owner.generation == m->view.generation && owner.rank < owner.n;
    }
    return all;
}

static bool begin_reduction(struct member *m)
{
    struct sl_update u;
    if (m->meeting != TOGETHER || sl_param_store_next_held(&arena, &u) != SL_OK)
        return false;
    if (m->counted && m->counted_version == u.version)
        return false;
    if (!w.rules.sums_again && sl_group_is_reduced(&arena, u.version))
        return false;
    if (w.rules.burial == BURY_IN_ONE && !held_by_members(m, &u))
        return false;
    m->summing = u.version;
    m->doing = REDUCING;
    begin_sum(m);
    return true;
}

// One float of its part of the sum.
static void write_part(struct member *m)
{
    uint32_t end = PARAMS * (m->view.rank + 1) / m->view.n;
    if (m->at < end)
        sl_param_store_gradient(&arena, 0)[m->at] = m->total[m->at];
    m->at++;
    if (m->at >= end)
        m->doing = COUNTING;
}

static void count_part(struct member *m)
{
    int rc = sl_group_count_written(&arena, &m->view, m->summing);
    m->doing = TRAINING;
    if (rc == SL_OK) {
        m->counted = true;
        m->counted_version = m->summing;
    } else if (rc != SL_ESTALE || sl_group_is_current(&arena, m->view.generation)) {
        wrong("worker %u could not count: %d", m->worker, rc);
    }
}

static void complete_one(struct member *m)
{
    if (sl_ledger_complete(&arena, &m->held[--m->n_held]) != SL_OK)
        wrong("worker %u could not complete what it holds", m->worker);
    if (m->n_held == 0)
        memset(m->sum, 0, sizeof m->sum);
}

static void commit(struct member *m)
{
    float *slot = sl_param_store_gradient(&arena, 0);
    for (uint32_t i = 0; i < PARAMS; i++) {
        float want = i < m->update.n_cells ? (float)(m->update.version + 1) : 0;
        if (slot[i] != want)
            wrong("update %llu: found %g of batch %u, wanted %g",
                  (unsigned long long)m->update.version, (double)slot[i], i, (double)want);
        slot[i] = NAN; // nobody may need it any more
    }
    if (m->update.version != w.version++)
        wrong("update %llu applied after %llu", (unsigned long long)m->update.version,
              (unsigned long long)w.version - 1);
    sl_param_store_commit_update(&arena, &m->update);
    m->doing = TRAINING;
}

// Trains a batch of the current version. False when it has none.
static bool train(struct member *m)
{
    for (uint32_t i = 0; i < m->n_leases; i++) {
        struct sl_lease l = m->lease[i];
        bool is_train = l.phase->spec.kind == SL_PHASE_TRAIN;
        uint64_t version = sl_param_store_cell_version(&arena, l.phase, l.cell);
        if (is_train && sl_param_store_version(&arena) != version)
            continue;
        m->lease[i] = m->lease[--m->n_leases];
        if (!is_train) {
            if (sl_ledger_complete(&arena, &l) != SL_OK)
                wrong("worker %u could not complete an evaluation", m->worker);
            return true;
        }
        if (m->n_held > 0 && m->version != version)
            wrong("worker %u holds batches of two updates", m->worker);
        m->version = version;
        m->sum[l.cell % w.per_update] += (float)(version + 1);
        m->held[m->n_held++] = l;
        if (sl_ledger_hold(&arena, &m->held[m->n_held - 1]) != SL_OK)
            wrong("worker %u could not hold its batch", m->worker);
        if (w.rules.quiet && l.cell % w.per_update % m->view.n != m->view.rank)
            wrong("worker %u trained batch %u out of turn", m->worker, l.cell);
        return true;
    }
    return false;
}

// A batch of the update that is next is its turn, and it has no room: the newest lease goes back.
static void make_room(struct member *m)
{
    uint32_t newest = 0;
    for (uint32_t i = 1; i < m->n_leases; i++)
        if (m->lease[i].cell > m->lease[newest].cell)
            newest = i;
    const struct sl_lease *l = &m->lease[newest];
    for (uint32_t i = 0; i < l->cell; i++)
        if (sl_cell_state(sl_ledger_word(&arena, l->seq, i)) == SL_CELL_READY &&
            sl_ledger_is_turn(&arena, m->worker, l->phase, i)) {
            sl_ledger_return(&arena, l);
            m->lease[newest] = m->lease[--m->n_leases];
            return;
        }
}

static void leave(struct member *m)
{
    part(m);
    if (m->n_leases > 0)
        sl_ledger_return(&arena, &m->lease[--m->n_leases]);
    else if (m->n_held > 0)
        sl_ledger_return(&arena, &m->held[--m->n_held]);
    else
        m->alive = false;
}

// What it does unless it is in the middle of something; true when there was something.
static bool step_together(struct member *m)
{
    if (follow(m))
        return true;
    if (m->doing == REDUCING) {
        if (poll_sum(m)) {
            m->at = PARAMS * m->view.rank / m->view.n;
            m->doing = WRITING;
        }
        return true;
    }
    if (m->n_held > 0 && sl_group_is_reduced(&arena, m->version)) {
        complete_one(m);
        return true;
    }
    if (sl_param_store_begin_update(&arena, m->worker, &m->update) == SL_OK) {
        m->doing = APPLYING;
        return true;
    }
    return begin_reduction(m);
}

static void step_member(struct member *m)
{
    if (m->still > 0) {
        m->still--;
        return;
    }
    switch (m->doing) {
    case WRITING: write_part(m); return;
    case COUNTING: count_part(m); return;
    case APPLYING: commit(m); return;
    case REDUCING:
    case TRAINING: break;
    }
    if (m->leaving) {
        leave(m);
        return;
    }
    if (step_together(m) || train(m))
        return;
    if (m->n_leases == LEASES)
        make_room(m);
    else if (sl_ledger_claim_train(&arena, m->worker, 0, &m->lease[m->n_leases]) == SL_OK)
        m->n_leases++;
}

// --- the others ---

static void step_sampler(void)
{
    struct sl_lease l;
    struct sl_extent e;
    if (sl_ledger_claim_sample(&arena, SAMPLER, SL_AHEAD_ALL, 0, &l) != SL_OK)
        return;
    if (sl_payload_alloc(&arena, &l, 1, 1, &e) != SL_OK) {
        sl_ledger_return(&arena, &l);
        return;
    }
    l.entry->payload_offset = e.offset;
    l.entry->payload_bytes = e.bytes;
    if (sl_ledger_publish(&arena, &l) != SL_OK)
        wrong("the sampler could not publish");
}

static void start_member(uint32_t device)
{
    w.member[device] = (struct member){.alive = true, .device = device, .worker = w.next_worker++};
}

static void form_group(bool empty)
{
    struct sl_group_member list[MEMBERS_MAX];
    uint32_t n = 0;
    for (uint32_t d = 0; d < w.n_devices; d++)
        if (w.grouped[d] && !empty)
            list[n++] = (struct sl_group_member){w.member[d].worker, d};
    w.changes += sl_group_form(&arena, list, n);
}

static void step_burial(void)
{
    struct member *m = &w.member[w.burying];
    struct sl_reclaimed r;
    switch (w.burial_step++) {
    case 0:
        w.grouped[w.burying] = false;
        form_group(w.rules.burial == BURY_APART);
        return;
    case 1:
        sl_ledger_reclaim(&arena, m->worker, &r);
        w.finished += r.finished;
        w.retrained += r.retrain;
        return;
    default:
        form_group(false);
        start_member((uint32_t)w.burying);
        w.burying = -1;
        return;
    }
}

// Sees one thing of those that have happened. Members are added as they come, or all at once.
static void step_broker(void)
{
    uint32_t d = draw(w.n_devices), waiting = 0;
    struct member *m = &w.member[d];
    if (w.burying >= 0) {
        step_burial();
    } else if (!m->alive) {
        w.burying = (int)d;
        w.burial_step = 0;
    } else if (!m->ready) {
        m->ready = draw(8) == 0;
    } else if (!w.grouped[d]) {
        for (uint32_t i = 0; i < w.n_devices; i++)
            waiting += !w.member[i].ready || !w.member[i].alive;
        if (waiting > 0 && (w.seed & 1 || draw(16) > 0))
            return;
        for (uint32_t i = 0; i < w.n_devices; i++)
            w.grouped[i] |= w.member[i].ready && w.member[i].alive;
        form_group(false);
    }
}

static void strike(struct member *m)
{
    if (w.rules.quiet || w.kills_left == 0 || draw(40) > 0)
        return;
    switch (draw(8)) {
    case 0: m->leaving = m->ready; break;
    case 1:
    case 2: m->still = draw(400); return;
    default: m->alive = false; break;
    }
    w.kills_left--;
    w.kills++;
}

// --- a run ---

static void open_phases(void)
{
    uint64_t updates = sl_div_up(w.n_cells, w.per_update);
    for (uint32_t i = 0; i < PHASES; i++) {
        if (i == 2)
            open_phase(SL_PHASE_EVAL, 3, 0, 0);
        else
            open_train(w.n_cells, w.opened++ * updates, 0);
    }
}

static void check_end(void)
{
    struct sl_ledger_depth depth;
    uint64_t updates = w.opened * sl_div_up(w.n_cells, w.per_update);
    sl_ledger_depth(&arena, &depth);
    if (!sl_ledger_phase_complete(&arena, PHASES))
        wrong("stuck at version %llu of %llu", (unsigned long long)sl_param_store_version(&arena),
              (unsigned long long)updates);
    if (sl_param_store_version(&arena) != updates || w.version != updates)
        wrong("%llu updates, wanted %llu", (unsigned long long)w.version,
              (unsigned long long)updates);
    if (depth.payload_bytes)
        wrong("%llu bytes left", (unsigned long long)depth.payload_bytes);
    for (uint32_t d = 0; d < w.n_devices; d++)
        if (w.member[d].alive && w.member[d].n_held + w.member[d].n_leases > 0)
            wrong("worker %u holds something in the end", w.member[d].worker);
}

// Empty when all was well, else what went wrong.
static const char *run(uint64_t seed, struct rules rules)
{
    struct sl_arena_spec spec = {.n_cells = 32,
                                 .n_params = PARAMS,
                                 .exchange = 1,
                                 .payload_bytes = 128 * SL_ARENA_CHUNK_BYTES};
    memset(&w, 0, offsetof(struct world, comm));
    w.n_comms = 0;
    w.kills = w.finished = w.retrained = w.changes = 0;
    w.error[0] = 0;
    w.rules = rules;
    w.seed = seed;
    w.random = seed * 0x9e3779b97f4a7c15ull;
    w.burying = -1;
    w.next_worker = SAMPLER + 1;
    w.n_devices = spec.n_devices = 1 + draw(MEMBERS_MAX);
    w.per_update = spec.batches_per_update = 1 + draw(PER_UPDATE_MAX);
    w.n_cells = 1 + draw(spec.n_cells);
    w.kills_left = draw(30);
    create_arena(&spec);
    for (uint32_t d = 0; d < w.n_devices; d++)
        start_member(d);
    open_phases();
    for (uint32_t d = 0; d < w.n_devices && rules.quiet; d++)
        w.grouped[d] = w.member[d].ready = true;
    form_group(false);
    uint32_t left = DRAIN_STEPS;
    for (uint32_t i = 0; i < STEPS_MAX && left > 0 && !w.error[0]; i++) {
        uint32_t who = draw(w.n_devices + 2);
        if (who == w.n_devices)
            step_sampler();
        else if (who > w.n_devices)
            step_broker();
        else if (w.member[who].alive) {
            strike(&w.member[who]);
            if (w.member[who].alive && w.member[who].ready)
                step_member(&w.member[who]);
        }
        left -= sl_ledger_phase_complete(&arena, PHASES);
    }
    if (!w.error[0])
        check_end();
    destroy_arena();
    return w.error;
}

static void all_seeds(uint64_t n, struct rules rules)
{
    uint64_t kills = 0, finished = 0, retrained = 0, changes = 0;
    for (uint64_t seed = 1; seed <= n; seed++) {
        const char *error = run(seed, rules);
        ck_assert_msg(!error[0], "seed %llu: %s", (unsigned long long)seed, error);
        kills += w.kills;
        finished += w.finished;
        retrained += w.retrained;
        changes += w.changes;
    }
    // What the runs were made for did happen.
    ck_assert(rules.quiet || (kills > n && retrained > n / 2 && finished > n / 20));
    ck_assert(!rules.quiet || (kills == 0 && changes == n));
}

// The seed at which a broken rule is noticed first.
static uint64_t noticed(uint64_t n, struct rules rules)
{
    uint64_t seed = 1;
    while (seed <= n && !run(seed, rules)[0])
        seed++;
    return seed;
}

enum { SEEDS = 1500 };

TEST(nothing_is_lost_or_counted_twice_while_members_die)
{
    all_seeds(SEEDS, (struct rules){.burial = BURY_APART});
}

TEST(nor_where_members_look_whose_the_held_batches_are)
{
    all_seeds(SEEDS, (struct rules){.burial = BURY_IN_ONE});
}

TEST(while_nobody_dies_each_trains_in_turn)
{
    all_seeds(SEEDS / 5, (struct rules){.burial = BURY_APART, .quiet = true});
}

// The rest may sum while the dead one's batches are still held: its gradients are lost.
TEST(a_sum_before_the_dead_ones_leases_are_back_is_noticed)
{
    ck_assert_uint_le(noticed(SEEDS, (struct rules){.burial = BURY_UNLOOKED}), SEEDS);
}

// One who comes when the update is reduced and all its batches are still held would wait for ever.
TEST(a_second_sum_of_what_is_reduced_is_noticed)
{
    ck_assert_uint_le(noticed(20 * SEEDS, (struct rules){.sums_again = true}), 20 * SEEDS);
}

RUN_TESTS(.timeout_s = 110)
