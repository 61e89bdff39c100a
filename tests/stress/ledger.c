/*
 * ledger.c - the ledger, the payload memory and the board under load, while workers are killed.
 *
 * Several sampler and trainer processes push batches through a small arena; the parent plays the
 * broker: it opens phases, reclaims what workers held that died of SIGKILL at a random moment
 * (mortal.h), and starts others. What must hold at the end:
 *
 *   - the parameters equal, bit for bit, those of a plain sequential loop over all batches. Every
 *     gradient depends on the batch and on the parameters it was computed on, so one batch lost,
 *     counted twice, reduced out of order or computed on another version shows;
 *   - every payload carried the pattern of its batch when it was read, so no two batches ever
 *     shared memory;
 *   - every inference and pre-sampling cell was done once; all payload memory is free in the end.
 *
 * --async lets gradients be applied as they come, within --staleness. Order is not fixed then, so
 * they are small integers, whose sums in floats are exact whatever the order, and what must hold is
 *
 *   - the parameters equal the sum over all batches, each once; within a phase every version was
 *     made by exactly one batch;
 *   - no gradient was applied to parameters more than `staleness` newer than those it was computed
 *     on, and no trainer ever saw half an update (a version's parameters add up to zero).
 *
 * --standby lets trainers change between duty and standby at random, down to none on duty. A
 * standby trainer works only while its device is free of sampling, and sleeps otherwise. It must
 * be woken: one that finds work to do when its own time-out wakes it counts as an error.
 *
 * --side has the inference in the side lane, gated with the epoch behind it until the epoch before
 * is complete and its parameters pinned; every cell of it must have seen just those.
 *
 * --lend has phases of batches that are lent, with --dynamic to whoever comes first, else by rank,
 * which a successor takes over. Some epochs are left half way. What must hold: of a rank's cells
 * each was consumed once, by that rank, or is marked as left, and none is left that nobody left.
 *
 * --nodes has as many arenas, each with a broker and workers of its own, and this process as the
 * links between them (tests/unit/nodes_link.h). The parameters must be the same on all.
 *
 * --threads runs the same bodies as threads of one process (for ThreadSanitizer, which does not see
 * races between processes); nobody is killed then.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/arena.h"
#include "common/arena/param_store.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/ledger.h"
#include "common/arena/seat.h"
#include "tests/arguments.h"
#include "tests/stress/mortal.h"
#include "tests/unit/nodes_link.h"

enum {
    WORKERS_MAX = 32,
    PARAMS = 24,
    CELLS = 1000,
    INFER_CELLS = 37,
    PRESAMPLE_CELLS = 200,
    HOLD = 2, // leases a trainer holds at once, as its extraction thread makes it do
    CHUNKS = 96,
    BLOCK_CHUNKS_MAX = 7,
    TIMEOUT_S = 500,
};

struct options {
    uint64_t batches;
    uint32_t samplers, trainers, per_update, nodes;
    uint32_t kill_every; // mean claims of a worker's life, 0 = nobody dies
    uint32_t staleness;
    bool async, standby, side, lend, dynamic, threads;
    uint64_t seed;
};

struct worker {
    struct sl_arena *arena;
    uint32_t id, device;
    bool trainer;
    pid_t pid;
    pthread_t thread;
};

static struct options opt = {.batches = 200000,
                             .samplers = 3,
                             .trainers = 3,
                             .per_update = 4,
                             .nodes = 1,
                             .kill_every = 300,
                             .staleness = 4,
                             .seed = 1};

// What workers of all processes find wrong. It lies in the order region, which is not used here.
struct findings {
    _Atomic uint64_t payloads, torn, lost_wakes;
    _Atomic uint64_t switches; // not wrong: times a standby trainer began to work
};
static struct findings *found;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

// The gradient of a batch: a function of epoch, cell and the parameters it is computed on.
static void gradient(uint32_t epoch, uint32_t cell, const float *params, float *g)
{
    for (uint32_t i = 0; i < PARAMS; i++) {
        float noise =
            (float)(mix((uint64_t)epoch << 40 | (uint64_t)cell << 8 | i) >> 40) / 16777216.0f;
        g[i] = params[i] * 0.25f + noise - 0.5f;
    }
}

// The same for --async: integers that add up to zero, independent of the parameters.
static void gradient_async(uint32_t epoch, uint32_t cell, float *g)
{
    float sum = 0;
    for (uint32_t i = 0; i + 1 < PARAMS; i++) {
        g[i] = (float)(mix((uint64_t)epoch << 40 | (uint64_t)cell << 8 | i) % 3) - 1;
        sum += g[i];
    }
    g[PARAMS - 1] = -sum;
}

static void step(const float *const *slots, uint32_t n, const float *from, float *to,
                 struct sl_nodes_part part)
{
    for (uint64_t i = part.first; i < part.first + part.n; i++) {
        float sum = 0;
        for (uint32_t s = 0; s < n; s++)
            sum += slots[s][i];
        to[i] = from[i] - 0.1f * sum / (float)n;
    }
}

// --- sampler ---

// True when the standby trainer on this device has it: then nothing is drawn ahead.
static bool is_beside_work(const struct worker *w)
{
    const struct sl_seat *s = sl_seat(w->arena, sl_seat_trainer(w->arena, w->device));
    return atomic_load(&s->duty) == SL_DUTY_STANDBY &&
           atomic_load(&s->activity) == SL_ACTIVITY_BUSY;
}

// As a real sampler does: ask for more than needed, trim, sometimes give up and ask again.
static int take_memory(struct worker *w, const struct sl_lease *lease, uint64_t random,
                       struct sl_extent *extent)
{
    struct sl_arena *a = w->arena;
    uint64_t bytes = (1 + random % BLOCK_CHUNKS_MAX) * SL_ARENA_CHUNK_BYTES;
    int rc;
    while ((rc = sl_payload_alloc(a, lease, bytes, 10, extent)) == SL_ETIMEDOUT &&
           !sl_ledger_older_is_pending(a, lease))
        sl_seat_set_activity(a, sl_seat_sampler(a, w->device), SL_ACTIVITY_BLOCKED);
    sl_seat_set_activity(a, sl_seat_sampler(a, w->device), SL_ACTIVITY_BUSY);
    if (rc < 0)
        return rc;
    sl_payload_trim(a, lease->tag, extent, SL_MAX(bytes / 2, (uint64_t)SL_ARENA_CHUNK_BYTES));
    lease->entry->payload_offset = extent->offset;
    lease->entry->payload_bytes = extent->bytes;
    return SL_OK;
}

static void *sampler_body(void *arg)
{
    struct worker *w = arg;
    struct sl_arena *a = w->arena;
    uint64_t random = mix(opt.seed + w->id);
    struct mortal life = mortal_born(w->id, opt.kill_every, mix(random));
    sl_seat_set_activity(a, sl_seat_sampler(a, w->device), SL_ACTIVITY_BUSY);
    for (;;) {
        struct sl_lease lease;
        enum sl_ahead ahead = is_beside_work(w) ? SL_AHEAD_CURRENT_ONLY : SL_AHEAD_ALL;
        int rc = sl_ledger_claim_sample(a, w->id, ahead, 100, &lease);
        if (rc == SL_EABORTED)
            return NULL;
        if (rc < 0)
            continue;
        mortal_claims(&life);
        random = mix(random + 1);
        bool presample = lease.phase->spec.kind == SL_PHASE_PRESAMPLE;
        if (presample && random & 8) { // one that draws into memory of its own
            lease.entry->counted = 1;
            sl_ledger_complete(a, &lease);
            continue;
        }
        struct sl_extent extent;
        rc = take_memory(w, &lease, random >> 8, &extent);
        if (rc == SL_ETIMEDOUT) {
            sl_ledger_return(a, &lease);
            continue;
        }
        if (rc < 0)
            return NULL;
        uint64_t *block = (uint64_t *)(a->base + extent.offset);
        for (uint64_t at = 0; at < extent.bytes / 8; at += 1024)
            block[at] = lease.tag ^ at;
        lease.entry->counted = presample;
        rc = presample ? sl_ledger_complete(a, &lease) : sl_ledger_publish(a, &lease);
        if (rc < 0)
            sl_payload_free(a, lease.tag, extent.offset, extent.bytes);
    }
}

// --- trainer ---

static void help(struct sl_arena *a, uint32_t id)
{
    struct sl_update u;
    while (sl_param_store_begin_update(a, id, &u) == SL_OK) {
        const float *slots[64];
        const float *from = sl_param_store_params(a, u.version);
        float *to = sl_param_store_params(a, u.version + 1);
        for (uint32_t i = 0; i < u.n_cells; i++)
            slots[i] = sl_param_store_update_gradient(a, &u, i);
        if (opt.async)
            for (uint32_t i = 0; i < PARAMS; i++)
                to[i] = from[i] + slots[0][i];
        else
            step(slots, u.n_cells, from, to, sl_nodes_slice(a, a->h->spec.nodes.rank));
        sl_param_store_commit_update(a, &u);
    }
}

static void check_payload(const struct sl_arena *a, const struct sl_batch_entry *e)
{
    const uint64_t *block = (const uint64_t *)(a->base + e->payload_offset);
    for (uint64_t at = 0; at < e->payload_bytes / 8; at += 1024)
        if (block[at] != (e->payload_tag ^ at))
            atomic_fetch_add(&found->payloads, 1);
}

// Waits for the version that the batch needs, or until the bound admits its gradient. False: leave.
static bool wait_for_turn(struct worker *w, const struct sl_lease *lease, float *params)
{
    struct sl_arena *a = w->arena;
    uint64_t version = sl_param_store_cell_version(a, lease->phase, lease->cell);
    for (;;) {
        uint32_t seen = sl_event_read(&a->h->progress);
        help(a, w->id);
        if (opt.async ? sl_param_store_join(a, w->device, w->id, params, &version) == SL_OK
                      : sl_param_store_version(a) == version)
            return true;
        if (sl_arena_aborted(a))
            return false;
        sl_event_wait(&a->h->progress, seen, SL_ARENA_WAIT_MS);
    }
}

static void train_async(struct worker *w, const struct sl_lease *lease, uint64_t random)
{
    struct sl_arena *a = w->arena;
    float params[PARAMS], sum = 0;
    if (!wait_for_turn(w, lease, params))
        return;
    for (uint32_t i = 0; i < PARAMS; i++)
        sum += params[i];
    if (sum != 0)
        atomic_fetch_add(&found->torn, 1);
    if (random % 64 == 0)
        usleep(random >> 8 & 1023); // a slow one holds the others back
    if (random % 256 == 1) {        // one that has to leave
        sl_param_store_withdraw(a, w->device, w->id);
        sl_ledger_return(a, lease);
        return;
    }
    gradient_async(lease->phase->spec.epoch, lease->cell,
                   sl_param_store_device_gradient(a, w->device));
    lease->entry->counted = 1;
    sl_param_store_offer(a, w->device, lease);
    if (sl_ledger_complete(a, lease) < 0)
        sl_param_store_withdraw(a, w->device, w->id);
}

// What a cell of the side lane sees of the pinned parameters.
static uint64_t look_at_pinned(const struct sl_arena *a)
{
    const float *pinned = sl_param_store_pinned(a);
    uint64_t sum = 1;
    for (uint32_t i = 0; i < PARAMS; i++) {
        uint32_t bits;
        memcpy(&bits, &pinned[i], sizeof bits);
        sum = mix(sum + bits);
    }
    return sum;
}

static void train_one(struct worker *w, const struct sl_lease *lease, uint64_t random)
{
    struct sl_arena *a = w->arena;
    bool train = lease->phase->spec.kind == SL_PHASE_TRAIN;
    if (train)
        check_payload(a, lease->entry);
    if (train && opt.async) {
        train_async(w, lease, random);
    } else {
        if (train && !wait_for_turn(w, lease, NULL))
            return;
        if (train)
            gradient(
                lease->phase->spec.epoch, lease->cell,
                sl_param_store_params(a, sl_param_store_cell_version(a, lease->phase, lease->cell)),
                sl_param_store_gradient(a, lease->cell));
        lease->entry->counted = 1;
        lease->entry->digest = look_at_pinned(a);
        sl_ledger_complete(a, lease);
    }
    help(a, w->id);
}

// On duty; or, on standby, its device is free of sampling and it would be of use (FGNN 5.3).
static bool may_work(const struct worker *w)
{
    struct sl_arena *a = w->arena;
    if (atomic_load(&sl_seat(a, sl_seat_trainer(a, w->device))->duty) == SL_DUTY_WORK)
        return true;
    struct sl_ledger_ahead look, side;
    uint32_t n = atomic_load(&sl_schedule_of(a)->trainers);
    sl_ledger_look_aside(a, &side);
    sl_ledger_look_ahead(a, &look);
    if (side.seq != 0 && !side.gated && side.unclaimed > n)
        return true;
    if (look.seq == 0 || look.gated || look.unclaimed == 0)
        return false;
    const struct sl_seat *sampler = sl_seat(a, sl_seat_sampler(a, w->device));
    bool is_free = w->device >= opt.samplers || look.unsampled == 0 ||
                   atomic_load(&sampler->activity) == SL_ACTIVITY_BLOCKED;
    return is_free && (n == 0 || look.unclaimed > n); // T_t' = T_t
}

// A standby trainer's way to its next fetch. False: nothing to fetch now, look again.
static bool stand_by(struct worker *w)
{
    struct sl_arena *a = w->arena;
    uint32_t seat = sl_seat_trainer(a, w->device), seen = sl_event_read(&a->h->work);
    if (may_work(w)) {
        if (atomic_load(&sl_seat(a, seat)->activity) != SL_ACTIVITY_BUSY)
            atomic_fetch_add(&found->switches, 1);
        sl_seat_set_activity(a, seat, SL_ACTIVITY_BUSY);
        return true;
    }
    sl_seat_set_activity(a, seat, SL_ACTIVITY_ASLEEP);
    if (sl_arena_aborted(a))
        return false;
    sl_event_wait(&a->h->work, seen, SL_STANDBY_WAIT_MS);
    // What makes work is done before it is told, so it is looked for once more.
    if (sl_event_read(&a->h->work) == seen && may_work(w) &&
        (sl_event_wait(&a->h->work, seen, SL_ARENA_WAIT_MS), sl_event_read(&a->h->work) == seen))
        atomic_fetch_add(&found->lost_wakes, 1);
    return false;
}

// What decides between the lanes: what it has in hand.
static enum sl_occupation occupation(const struct sl_lease *held, uint32_t n)
{
    if (n == 0)
        return SL_OCCUPATION_NONE;
    return held->phase->spec.lane == SL_LANE_SIDE ? SL_OCCUPATION_ASIDE : SL_OCCUPATION_TRAINS;
}

static void *trainer_body(void *arg)
{
    struct worker *w = arg;
    struct sl_arena *a = w->arena;
    struct sl_lease held[HOLD];
    uint64_t random = mix(opt.seed + w->id);
    struct mortal life = mortal_born(w->id, opt.kill_every, mix(random));
    uint32_t n = 0;
    for (;;) {
        bool fetch = !opt.standby || (n > 0 ? may_work(w) : stand_by(w));
        int rc = fetch ? sl_ledger_claim_beside(a, w->id, occupation(held, n), n ? 0 : 20, &held[n])
                       : (sl_arena_aborted(a) ? SL_EABORTED : SL_ETIMEDOUT);
        if (rc == SL_EABORTED)
            return NULL;
        if (rc == SL_OK) {
            mortal_claims(&life);
            if (n++ > 0 && held[1].tag < held[0].tag) { // a dead trainer's: the others wait for it
                struct sl_lease later = held[0];
                held[0] = held[1];
                held[1] = later;
            }
        }
        help(a, w->id);
        if (n == 0 || (rc == SL_OK && n < HOLD))
            continue;
        random = mix(random + 1);
        train_one(w, &held[0], random);
        memmove(&held[0], &held[1], (HOLD - 1) * sizeof held[0]);
        n--;
    }
}

/*
 * An external trainer: one batch in hand and the next one, epoch after epoch from the one that is
 * lent when it comes. `correct` says who has consumed a cell, `counted` how often.
 */
static void *borrower_body(void *arg)
{
    struct worker *w = arg;
    struct sl_arena *a = w->arena;
    uint64_t random = mix(opt.seed + w->id);
    struct mortal life = mortal_born(w->id, opt.kill_every, mix(random));
    struct sl_ledger_lent lent = {0};
    sl_ledger_look_lent(a, &lent);
    for (uint32_t epoch = lent.epoch;; epoch++) {
        // Leaving is a matter of the epoch alone, so that all ranks do, and their successors.
        const uint64_t fate = mix(epoch + opt.seed);
        const uint32_t last = fate % 4 ? CELLS : (uint32_t)(fate >> 8) % CELLS;
        struct sl_lease held[HOLD];
        uint32_t n = 0;
        bool over = false;
        while (!over || n > 0) {
            int rc = over || n == HOLD
                         ? SL_ETIMEDOUT
                         : sl_ledger_claim_lent(a, w->id, w->device, epoch, n ? 0 : 20, &held[n]);
            if (rc == SL_EABORTED)
                return NULL;
            over |= rc == SL_ERANGE;
            if (rc == SL_OK) {
                mortal_claims(&life);
                if (held[n].cell >= last) {
                    sl_ledger_return(a, &held[n]);
                    sl_ledger_leave(a, w->device, epoch + 1, 0);
                    over = true;
                } else {
                    n++;
                }
            }
            if (n == 0 || (rc == SL_OK && n < HOLD && !over))
                continue;
            check_payload(a, held[0].entry);
            held[0].entry->counted = 1;
            held[0].entry->correct = 1 + w->device;
            random = mix(random + 1);
            if (random % 64 == 0 && !over)
                sl_ledger_return(a, &held[0]); // consumed by whoever gets it next
            else
                sl_ledger_complete(a, &held[0]);
            held[0] = held[--n];
        }
    }
}

// --- the broker's part ---

static void start(struct worker *w)
{
    void *(*body)(void *) = !w->trainer ? sampler_body : opt.lend ? borrower_body : trainer_body;
    if (opt.threads) {
        pthread_create(&w->thread, NULL, body, w);
        return;
    }
    pid_t parent = getpid();
    w->pid = fork();
    if (w->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        body(w);
        _exit(0);
    }
}

static void reference_ordered(uint64_t epochs, float *out)
{
    float bank[2][PARAMS] = {{0}};
    static float slot[64][PARAMS];
    uint64_t version = 0;
    for (uint32_t epoch = 0; epoch < epochs; epoch++)
        for (uint32_t first = 0; first < CELLS; first += opt.per_update) {
            uint32_t n = SL_MIN(opt.per_update, CELLS - first);
            const float *slots[64];
            for (uint32_t i = 0; i < n; i++) {
                gradient(epoch, first + i, bank[version & 1], slot[i]);
                slots[i] = slot[i];
            }
            step(slots, n, bank[version & 1], bank[(version + 1) & 1],
                 (struct sl_nodes_part){0, PARAMS});
            version++;
        }
    memcpy(out, bank[version & 1], sizeof bank[0]);
}

static void reference_async(uint64_t epochs, float *out)
{
    float g[PARAMS];
    memset(out, 0, sizeof g);
    for (uint32_t epoch = 0; epoch < epochs; epoch++)
        for (uint32_t cell = 0; cell < CELLS; cell++) {
            gradient_async(epoch, cell, g);
            for (uint32_t i = 0; i < PARAMS; i++)
                out[i] += g[i];
        }
}

static uint32_t next_id = 1;

struct tally {
    uint64_t kills, resampled, retrained, bad_phases, late, duties;
    uint64_t pinned, pinned_for; // what cells of the side lane must see; their phase
    uint64_t stale_max, stale_sum;
};

static uint32_t seat_of(const struct worker *w)
{
    return w->trainer ? sl_seat_trainer(w->arena, w->device) : sl_seat_sampler(w->arena, w->device);
}

static void reap(struct sl_arena *a, struct worker *workers, uint32_t n, struct tally *t)
{
    pid_t pid;
    int status;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < n; i++)
            if (workers[i].pid == pid) {
                struct sl_reclaimed r;
                t->kills += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
                sl_ledger_reclaim(a, workers[i].id, &r);
                sl_seat_vacate(a, seat_of(&workers[i]));
                t->resampled += r.resample;
                t->retrained += r.retrain;
                workers[i].id = next_id++;
                start(&workers[i]);
            }
}

static uint32_t cells_of(uint32_t kind)
{
    return kind == SL_PHASE_INFER ? INFER_CELLS
                                  : (kind == SL_PHASE_PRESAMPLE ? PRESAMPLE_CELLS : CELLS);
}

// Every cell was done, and with --async every version of the phase was made once and in time.
static void harvest(struct sl_arena *a, uint64_t seq, uint32_t kind, struct tally *t)
{
    uint32_t n = cells_of(kind), counted = 0, distinct = 0;
    uint64_t first = atomic_load(&sl_ledger_phase(a, seq)->first_version);
    static bool made[CELLS];
    const uint64_t fate = mix(atomic_load(&sl_ledger_phase(a, seq)->epoch) + opt.seed);
    const uint32_t left_from = fate % 4 ? CELLS : (uint32_t)(fate >> 8) % CELLS;
    memset(made, 0, sizeof made);
    for (uint32_t i = 0; i < n; i++) {
        const struct sl_batch_entry *e = sl_ledger_entry(a, seq, i);
        if (kind == SL_PHASE_LEND) { // what a dead one had that had left is left
            const bool is_left = left_from < CELLS;
            const bool own = opt.dynamic || e->correct == 1 + i % opt.trainers;
            counted += e->left ? is_left : e->counted == 1 && own && i < left_from;
            continue;
        }
        counted +=
            e->counted == 1 && (!opt.side || kind != SL_PHASE_INFER || e->digest == t->pinned);
        if (!opt.async || kind != SL_PHASE_TRAIN)
            continue;
        const struct sl_update_entry *u = sl_ledger_update(a, seq, i);
        uint64_t by = u->applied_version - u->base_version, k = u->applied_version - first;
        t->late += by > opt.staleness;
        t->stale_max = SL_MAX(t->stale_max, by);
        t->stale_sum += by;
        distinct += k < n && !made[k];
        if (k < n)
            made[k] = true;
    }
    bool versions_differ = opt.async && kind == SL_PHASE_TRAIN && distinct != n;
    t->bad_phases += counted != n || versions_differ;
}

/*
 * Opens gates, with --side: what stands behind an inference waits until all before that is complete
 * and the parameters are pinned.
 */
static void open_gates(struct sl_arena *a, uint64_t closed, uint64_t opened, struct tally *t)
{
    for (uint64_t seq = closed + 1; seq <= opened; seq++) {
        bool infer = sl_ledger_phase(a, seq)->spec.kind == SL_PHASE_INFER;
        if (opt.side && infer && seq != closed + 1)
            return;
        if (opt.side && infer && t->pinned_for != seq) {
            memcpy(sl_param_store_pinned(a), sl_param_store_params(a, sl_param_store_version(a)),
                   PARAMS * sizeof(float));
            t->pinned = look_at_pinned(a);
            t->pinned_for = seq;
        }
        sl_ledger_open_gate(a, seq);
    }
}

// Somebody goes on duty or on standby.
static void change_duty(struct sl_arena *a, uint64_t random, struct tally *t)
{
    uint32_t seat = sl_seat_trainer(a, (uint32_t)(random % opt.trainers)), on_duty = 0;
    bool standby = random >> 32 & 1;
    for (uint32_t k = 0; k < opt.trainers; k++) {
        uint32_t s = sl_seat_trainer(a, k);
        on_duty += s == seat ? !standby : atomic_load(&sl_seat(a, s)->duty) == SL_DUTY_WORK;
    }
    atomic_store(&sl_schedule_of(a)->trainers, on_duty);
    sl_seat_set_duty(a, seat, standby ? SL_DUTY_STANDBY : SL_DUTY_WORK);
    t->duties++;
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_NUMBER("batches", options, batches, 1, 1e12),
    ARGUMENT_NUMBER("samplers", options, samplers, 1, WORKERS_MAX),
    ARGUMENT_NUMBER("trainers", options, trainers, 1, WORKERS_MAX),
    ARGUMENT_NUMBER("per-update", options, per_update, 1, 64),
    ARGUMENT_NUMBER("nodes", options, nodes, 1, LINK_NODES),
    ARGUMENT_NUMBER("kill-every", options, kill_every, 0, 1e9),
    ARGUMENT_FLAG("threads", options, threads),
    ARGUMENT_NUMBER("seed", options, seed, 0, 9e15),
    ARGUMENT_FLAG("async", options, async),
    ARGUMENT_NUMBER("staleness", options, staleness, 0, 1000),
    ARGUMENT_FLAG("standby", options, standby),
    ARGUMENT_FLAG("side", options, side),
    ARGUMENT_FLAG("lend", options, lend),
    ARGUMENT_FLAG("dynamic", options, dynamic),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "ledger",
    .is_program = true,
    .about = "Workers lease batches while they are killed; each batch counts once.",
    .options = {{options}},
};

static int parse(int argc, char **argv)
{
    arguments_parse(&command, &opt, argc, argv);
    if (opt.threads)
        opt.kill_every = 0;
    if (opt.async)
        opt.per_update = 1;
    return opt.samplers + opt.trainers <= WORKERS_MAX ? 0 : -1;
}

// An arena that lives as long as this process and its children.
static int create(struct sl_arena *arena, uint32_t node)
{
    const struct sl_arena_spec spec = {
        .n_devices = SL_MAX(opt.samplers, opt.trainers),
        .n_cells = CELLS,
        .n_train = sizeof(struct findings) / sizeof(uint32_t),
        .n_params = PARAMS,
        .world = opt.lend && !opt.dynamic ? opt.trainers : 0,
        .async = opt.async,
        .staleness = opt.staleness,
        .batches_per_update = opt.per_update,
        .nodes = {.n = opt.nodes, .rank = node},
        .payload_bytes = (uint64_t)CHUNKS * SL_ARENA_CHUNK_BYTES,
    };
    int fd = sl_arena_memfd();
    if (fd < 0 || sl_arena_create(fd, &spec, arena) < 0)
        fprintf(stderr, "ledger: %s\n", sl_error_message());
    return arena->base ? 0 : -1;
}

// One node's broker: starts its workers, opens the phases, and looks at what came of it.
static int run(struct sl_arena arena)
{
    found = (struct findings *)sl_arena_region(&arena, SL_REGION_ORDER);

    struct worker workers[WORKERS_MAX];
    uint32_t n_workers = opt.samplers + opt.trainers;
    for (uint32_t i = 0; i < n_workers; i++) {
        bool trainer = i >= opt.samplers;
        workers[i] = (struct worker){.arena = &arena,
                                     .id = next_id++,
                                     .device = trainer ? i - opt.samplers : i,
                                     .trainer = trainer};
        sl_seat_set_duty(&arena, seat_of(&workers[i]), SL_DUTY_WORK);
        start(&workers[i]);
    }

    uint64_t epochs = SL_MAX(opt.batches / CELLS, (uint64_t)1), opened_epochs = 0, closed = 0;
    uint64_t updates = sl_div_up(CELLS, opt.per_update), random = opt.seed;
    uint64_t began = sl_now_ns(), next_duty = began, seq = 0;
    struct tally t = {0};
    uint32_t kinds[SL_ARENA_PHASES] = {0};
    // Every third epoch is followed by a phase of inference and one of pre-sampling; every TRAIN
    // phase is gated.
    static const uint32_t cycle[] = {SL_PHASE_TRAIN, SL_PHASE_TRAIN, SL_PHASE_TRAIN, SL_PHASE_INFER,
                                     SL_PHASE_PRESAMPLE};
    uint64_t n_opened = 0;
    int failed = 0;
    atomic_store(&sl_schedule_of(&arena)->trainers, opt.trainers);
    for (;;) {
        while (closed < seq && sl_ledger_phase_complete(&arena, closed + 1)) {
            closed++;
            harvest(&arena, closed, kinds[closed % SL_ARENA_PHASES], &t);
            open_gates(&arena, closed, seq, &t);
        }
        uint32_t kind = opt.lend ? SL_PHASE_LEND : cycle[n_opened % SL_COUNT_OF(cycle)];
        bool epoch = kind == SL_PHASE_TRAIN || kind == SL_PHASE_LEND;
        bool more = opened_epochs < epochs || !epoch;
        if (closed == seq && !more)
            break;
        if (seq - closed < SL_ARENA_PHASES - 1 && more) {
            struct sl_phase_spec p = {.kind = kind,
                                      .epoch = (uint32_t)opened_epochs,
                                      .lane = opt.side && kind == SL_PHASE_INFER,
                                      .gated = kind != SL_PHASE_PRESAMPLE,
                                      .batch_size = 1,
                                      .n_items = cells_of(kind),
                                      .first_version = opened_epochs * updates};
            if (sl_ledger_open_phase(&arena, &p, &seq) == SL_OK) {
                kinds[seq % SL_ARENA_PHASES] = p.kind;
                open_gates(&arena, closed, seq, &t);
                opened_epochs += epoch;
                n_opened++;
                continue;
            }
        }
        uint64_t now = sl_now_ns();
        if (opt.standby && now >= next_duty) {
            random = mix(random + 1);
            change_duty(&arena, random, &t);
            next_duty = now + (random >> 20) % 10000000;
        }
        if (!opt.threads)
            reap(&arena, workers, n_workers, &t);
        if (now - began > (uint64_t)TIMEOUT_S * 1000000000) {
            fprintf(stderr, "ledger: stuck in phase %llu of %llu\n", (unsigned long long)closed + 1,
                    (unsigned long long)seq);
            failed++;
            break;
        }
        usleep(200);
    }
    double seconds = (double)(sl_now_ns() - began) * 1e-9;
    uint64_t left = 0;
    struct sl_ledger_depth depth;
    do { // a sampler may be on its way to nothing
        sl_ledger_depth(&arena, &depth);
        left = depth.payload_bytes;
        reap(&arena, workers, opt.threads ? 0 : n_workers, &t);
        usleep(1000);
    } while (left != 0 && sl_now_ns() - began < (uint64_t)TIMEOUT_S * 1000000000);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    for (uint32_t i = 0; i < n_workers; i++) {
        if (opt.threads)
            pthread_join(workers[i].thread, NULL);
        else
            waitpid(workers[i].pid, NULL, 0);
    }

    float want[PARAMS];
    if (opt.async)
        reference_async(epochs, want);
    else
        reference_ordered(opt.lend ? 0 : epochs, want);
    const float *got = sl_param_store_params(&arena, sl_param_store_version(&arena));
    bool equal = memcmp(want, got, sizeof want) == 0;
    uint64_t least = mortal_least(epochs * CELLS / opt.nodes, n_workers, opt.kill_every);
    uint64_t total = epochs * CELLS, bad_payloads = atomic_load(&found->payloads);
    uint64_t torn = atomic_load(&found->torn), lost_wakes = atomic_load(&found->lost_wakes);
    printf("ledger: %llu batches in %.2f s (%.0f ns a batch), %u samplers, %u trainers, %s\n",
           (unsigned long long)total, seconds, seconds * 1e9 / (double)total, opt.samplers,
           opt.trainers, opt.threads ? "threads" : "processes");
    printf("ledger: %llu kills (%llu at least), %llu resampled, %llu retrained, %llu evicted\n",
           (unsigned long long)t.kills, (unsigned long long)least, (unsigned long long)t.resampled,
           (unsigned long long)t.retrained,
           (unsigned long long)atomic_load(&sl_ledger_of(&arena)->evicted));
    if (opt.async)
        printf("ledger: staleness %u: %llu too late, %.2f in the mean, %llu at most, %llu torn\n",
               opt.staleness, (unsigned long long)t.late, (double)t.stale_sum / (double)total,
               (unsigned long long)t.stale_max, (unsigned long long)torn);
    if (opt.standby)
        printf("ledger: %llu changes of duty, %llu switches, %llu lost wakes\n",
               (unsigned long long)t.duties, (unsigned long long)atomic_load(&found->switches),
               (unsigned long long)lost_wakes);
    failed += !equal + (bad_payloads != 0) + (left != 0) + (t.bad_phases != 0) + (t.late != 0) +
              (torn != 0) + (lost_wakes != 0) + (t.kills < least) +
              (sl_param_store_version(&arena) != (opt.lend ? 0 : epochs * updates));
    printf("ledger: parameters %s, %llu damaged payloads, %llu bytes leaked, %llu bad phases: %s\n",
           equal ? "equal" : "DIFFER", (unsigned long long)bad_payloads, (unsigned long long)left,
           (unsigned long long)t.bad_phases, failed ? "FAILED" : "ok");
    sl_arena_detach(&arena);
    return failed ? 1 : 0;
}

// Each node is a process with its workers, and this one carries between their arenas.
static int run_nodes(struct sl_arena *arenas)
{
    struct link link = {.n = opt.nodes, .random = opt.seed};
    uint32_t left = opt.nodes;
    int failed = 0, status;
    for (uint32_t i = 0; i < opt.nodes; i++) {
        link.arena[i] = &arenas[i];
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(run(arenas[i]));
        }
    }
    while (left > 0) {
        if (!link_poll(&link))
            usleep(50);
        for (; left > 0 && waitpid(-1, &status, WNOHANG) > 0; left--)
            failed += status != 0;
    }
    if (link.rc < 0)
        fprintf(stderr, "ledger: %s\n", sl_error_message());
    printf("ledger: %u nodes, %llu flips: %s\n", opt.nodes, (unsigned long long)link.flips,
           failed || link.rc < 0 ? "FAILED" : "ok");
    return failed || link.rc < 0;
}

int main(int argc, char **argv)
{
    struct sl_arena arenas[LINK_NODES] = {{0}};
    if (parse(argc, argv) < 0)
        return 2;
    for (uint32_t i = 0; i < opt.nodes; i++)
        if (create(&arenas[i], i) < 0)
            return 1;
    return opt.nodes > 1 ? run_nodes(arenas) : run(arenas[0]);
}
