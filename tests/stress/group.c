/*
 * group.c - trainers that sum gradients among themselves under load, while they are killed.
 *
 * As ledger.c, with a group (common/arena/group.h): samplers and trainers are processes, the parent
 * is the broker. It kills random workers with SIGKILL at random moments, takes dead trainers off
 * the group, gives their batches back and starts others; and now and then it turns the ranks of
 * the living round, which makes everybody meet anew in the middle of whatever he does.
 *
 * A trainer's sum is its own memory and dies with it. In place of NCCL stands a collective in
 * shared memory that never notices a death: it waits for the dead until it is given up.
 *
 * Gradients are whole numbers, so that sums are exact in any order, and depend on the parameters
 * that they are computed on. What must hold at the end:
 *
 *   - the parameters equal those of a plain sequential loop over all batches: no batch lost,
 *     counted twice, or computed on another version;
 *   - each payload carried the pattern of its batch; all payload memory is free.
 *
 * --threads runs the same bodies as threads of one process (for ThreadSanitizer); nobody is killed
 * then, and the ranks turn all the more.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/arena.h"
#include "common/arena/param_store.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/group.h"
#include "common/arena/ledger.h"
#include "tests/arguments.h"
#include "tests/stress/mortal.h"

enum {
    TRAINERS_MAX = 8,
    WORKERS_MAX = 16,
    PER_UPDATE_MAX = 16,
    PARAMS = 24,
    CELLS = 500,
    LEASES = 2,
    BLOCK_CHUNKS_MAX = 4,
    COMMS = 1 << 16, // none is used twice; kills end with them
    TIMEOUT_S = 500,
};

struct options {
    uint64_t batches;
    uint32_t samplers, trainers, per_update;
    uint32_t chunks;        // of payload memory, 0 = what a job takes at least
    uint32_t kill_every;    // mean claims of a worker's life, 0 = nobody dies
    uint32_t turn_every_us; // mean time between, 0 = never
    bool threads;
    uint64_t seed;
};

static struct options opt = {.batches = 100000,
                             .samplers = 2,
                             .trainers = 3,
                             .per_update = 5,
                             .chunks = 64,
                             .kill_every = 300,
                             .turn_every_us = 20000,
                             .seed = 1};

// --- what all processes share besides the arena ---

struct comm {
    _Atomic uint32_t met; // a bit for each rank
    _Atomic uint32_t given[TRAINERS_MAX];
    float in[2][TRAINERS_MAX][PARAMS];
};

struct shared {
    _Atomic uint32_t next_comm;
    _Atomic uint64_t payloads, stale_sums; // what workers find wrong; sums that came too late
    _Atomic uint32_t ready[TRAINERS_MAX];  // worker that has come, by device
    struct comm comm[COMMS];
};
static struct shared *shared;

struct worker {
    struct sl_arena *arena;
    uint32_t id, device;
    bool trainer;
    pid_t pid;
    pthread_t thread;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ull;
    return x ^ x >> 33;
}

// Adds the gradient of a batch to a sum.
static void add_gradient(uint32_t epoch, uint32_t cell, const float *params, float *sum)
{
    for (uint32_t i = 0; i < PARAMS; i++) {
        uint64_t noise = mix((uint64_t)epoch << 40 | (uint64_t)cell << 8 | i);
        sum[i] += (float)(noise % 5) - 2 - fmodf(params[i], 3);
    }
}

// --- sampler ---

static void *sampler_body(void *arg)
{
    struct worker *w = arg;
    struct sl_arena *a = w->arena;
    struct mortal life = mortal_born(w->id, opt.kill_every, mix(opt.seed + w->id));
    for (;;) {
        struct sl_lease lease;
        struct sl_extent extent;
        int rc = sl_ledger_claim_sample(a, w->id, SL_AHEAD_ALL, 100, &lease);
        if (rc == SL_EABORTED)
            return NULL;
        if (rc < 0)
            continue;
        mortal_claims(&life);
        uint64_t bytes = (1 + mix(lease.tag) % BLOCK_CHUNKS_MAX) * SL_ARENA_CHUNK_BYTES;
        do
            rc = sl_payload_alloc(a, &lease, bytes, 10, &extent);
        while (rc == SL_ETIMEDOUT && !sl_ledger_older_is_pending(a, &lease));
        if (rc == SL_ETIMEDOUT) {
            sl_ledger_return(a, &lease);
            continue;
        }
        if (rc < 0)
            return NULL;
        lease.entry->payload_offset = extent.offset;
        lease.entry->payload_bytes = extent.bytes;
        uint64_t *block = (uint64_t *)(a->base + extent.offset);
        for (uint64_t at = 0; at < extent.bytes / 8; at += 1024)
            block[at] = lease.tag ^ at;
        if (sl_ledger_publish(a, &lease) < 0)
            sl_payload_free(a, lease.tag, extent.offset, extent.bytes);
    }
}

// --- trainer ---

struct trainer {
    struct sl_arena *a;
    uint32_t id, device;
    struct sl_group_view view;
    struct comm *comm; // NULL: apart
    bool together, counted;
    struct sl_lease lease[LEASES], held[PER_UPDATE_MAX];
    uint32_t n_leases, n_held;
    uint64_t version, counted_version;
    float sum[PARAMS], total[PARAMS];
};

// One look at the group and one step towards it.
static void follow(struct trainer *t)
{
    struct sl_group_view now;
    uint8_t name[SL_GROUP_NAME_BYTES] = {0};
    uint32_t i = 0;
    if (!sl_group_read(t->a, t->id, &now))
        return;
    if (now.generation != t->view.generation) {
        t->comm = NULL;
        t->together = t->counted = false;
        t->view = now;
    }
    if (t->view.rank == t->view.n)
        return;
    if (!t->comm && t->view.rank == 0) {
        i = atomic_fetch_add(&shared->next_comm, 1) % COMMS;
        memcpy(name, &i, sizeof i);
        sl_group_name(t->a, &t->view, name);
    } else if (!t->comm) {
        if (sl_group_read_name(t->a, &t->view, name) < 0)
            return;
        memcpy(&i, name, sizeof i);
    }
    if (!t->comm) {
        t->comm = &shared->comm[i];
        atomic_fetch_or(&t->comm->met, 1u << t->view.rank);
    }
    t->together = atomic_load(&t->comm->met) == (1u << t->view.n) - 1;
}

// The sum of all members, or SL_ESTALE when the group is another one before all have come.
static int all_reduce(struct trainer *t)
{
    struct comm *c = t->comm;
    uint32_t rank = t->view.rank, round = atomic_load(&c->given[rank]) + 1;
    memcpy(c->in[round & 1][rank], t->sum, sizeof t->sum);
    atomic_store(&c->given[rank], round);
    memset(t->total, 0, sizeof t->total);
    for (uint32_t r = 0; r < t->view.n; r++) {
        while (atomic_load(&c->given[r]) < round) {
            if (!sl_group_is_current(t->a, t->view.generation))
                return SL_ESTALE;
            if (sl_arena_aborted(t->a))
                return SL_EABORTED;
            usleep(20);
        }
        for (uint32_t i = 0; i < PARAMS; i++)
            t->total[i] += c->in[round & 1][r][i];
    }
    return SL_OK;
}

static void sum_update(struct trainer *t, uint64_t version)
{
    const uint32_t rank = t->view.rank, n = t->view.n;
    int rc = all_reduce(t);
    if (rc == SL_OK) {
        float *slot = sl_param_store_gradient(t->a, 0);
        for (uint32_t i = PARAMS * rank / n; i < PARAMS * (rank + 1) / n; i++)
            slot[i] = t->total[i];
        rc = sl_group_count_written(t->a, &t->view, version);
    }
    if (rc < 0) {
        atomic_fetch_add(&shared->stale_sums, 1);
        return;
    }
    t->counted = true;
    t->counted_version = version;
}

static void apply(struct trainer *t)
{
    struct sl_update u;
    while (sl_param_store_begin_update(t->a, t->id, &u) == SL_OK) {
        const float *from = sl_param_store_params(t->a, u.version);
        const float *sum = sl_param_store_update_gradient(t->a, &u, 0);
        float *to = sl_param_store_params(t->a, u.version + 1);
        for (uint32_t i = 0; i < PARAMS; i++)
            to[i] = from[i] + sum[i];
        sl_param_store_commit_update(t->a, &u);
    }
}

// True when something was done.
static bool exchange(struct trainer *t)
{
    struct sl_update next;
    follow(t);
    if (t->n_held > 0 && sl_group_is_reduced(t->a, t->version)) {
        for (; t->n_held > 0; t->n_held--)
            sl_ledger_complete(t->a, &t->held[t->n_held - 1]);
        memset(t->sum, 0, sizeof t->sum);
        return true;
    }
    apply(t);
    if (!t->together || sl_param_store_next_held(t->a, &next) < 0 ||
        (t->counted && t->counted_version == next.version) ||
        sl_group_is_reduced(t->a, next.version))
        return false;
    sum_update(t, next.version);
    return true;
}

static void check_payload(const struct sl_arena *a, const struct sl_batch_entry *e)
{
    const uint64_t *block = (const uint64_t *)(a->base + e->payload_offset);
    for (uint64_t at = 0; at < e->payload_bytes / 8; at += 1024)
        if (block[at] != (e->payload_tag ^ at))
            atomic_fetch_add(&shared->payloads, 1);
}

// A batch of the version that there is. False when it has none.
static bool train(struct trainer *t)
{
    for (uint32_t i = 0; i < t->n_leases; i++) {
        struct sl_lease l = t->lease[i];
        uint64_t version = sl_param_store_cell_version(t->a, l.phase, l.cell);
        if (sl_param_store_version(t->a) != version)
            continue;
        check_payload(t->a, l.entry);
        t->version = version;
        add_gradient(l.phase->spec.epoch, l.cell, sl_param_store_params(t->a, version), t->sum);
        t->held[t->n_held] = l;
        if (sl_ledger_hold(t->a, &t->held[t->n_held]) == SL_OK)
            t->n_held++;
        t->lease[i] = t->lease[--t->n_leases];
        return true;
    }
    return false;
}

// An older batch is its turn, and there is no room for it: the newest lease goes back.
static bool make_room(struct trainer *t)
{
    struct sl_lease *l = &t->lease[0];
    for (uint32_t i = 1; i < t->n_leases; i++)
        l = t->lease[i].cell > l->cell ? &t->lease[i] : l;
    for (uint32_t i = 0; i < l->cell; i++)
        if (sl_cell_state(sl_ledger_word(t->a, l->seq, i)) == SL_CELL_READY &&
            sl_ledger_is_turn(t->a, t->id, l->phase, i)) {
            sl_ledger_return(t->a, l);
            *l = t->lease[--t->n_leases];
            return true;
        }
    return false;
}

static void *trainer_body(void *arg)
{
    const struct worker *w = arg;
    struct trainer t = {.a = w->arena, .id = w->id, .device = w->device};
    struct mortal life = mortal_born(w->id, opt.kill_every, mix(opt.seed + w->id));
    if (atomic_load(&shared->next_comm) > COMMS - 1000)
        life.left = 0;
    atomic_store(&shared->ready[t.device], t.id);
    for (;;) {
        uint32_t seen = sl_event_read(&t.a->h->progress);
        if (sl_arena_aborted(t.a))
            return NULL;
        if (exchange(&t) || train(&t))
            continue;
        bool idle = t.n_leases + t.n_held == 0;
        if (t.n_leases < LEASES &&
            sl_ledger_claim_train(t.a, t.id, idle ? 1 : 0, &t.lease[t.n_leases]) == SL_OK) {
            t.n_leases++;
            mortal_claims(&life);
            continue;
        }
        if (t.n_leases == LEASES && make_room(&t))
            continue;
        if (!idle)
            sl_event_wait(&t.a->h->progress, seen, 1);
    }
}

// --- the broker's part ---

struct broker {
    struct sl_arena *a;
    struct worker workers[WORKERS_MAX];
    uint32_t n_workers, next_id, turn; // turn: by how much ranks are turned round
    uint32_t member[TRAINERS_MAX];     // worker, 0 = none, by device
    uint64_t kills, resampled, retrained, finished, groups;
};

static void start(struct worker *w)
{
    void *(*body)(void *) = w->trainer ? trainer_body : sampler_body;
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

static void form_group(struct broker *b)
{
    struct sl_group_member list[TRAINERS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < opt.trainers; i++) {
        uint32_t d = (i + b->turn) % opt.trainers;
        if (b->member[d])
            list[n++] = (struct sl_group_member){b->member[d], d};
    }
    b->groups += sl_group_form(b->a, list, n);
}

static void bury(struct broker *b, struct worker *w)
{
    struct sl_reclaimed r;
    if (w->trainer) { // nobody sums before what it had is back
        b->groups += sl_group_form(b->a, NULL, 0);
        b->member[w->device] = 0;
        atomic_store(&shared->ready[w->device], 0);
    }
    sl_ledger_reclaim(b->a, w->id, &r);
    form_group(b);
    b->resampled += r.resample;
    b->retrained += r.retrain;
    b->finished += r.finished;
    w->id = b->next_id++;
    start(w);
}

static void reap(struct broker *b)
{
    pid_t pid;
    int status;
    while (!opt.threads && (pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (uint32_t i = 0; i < b->n_workers; i++)
            if (b->workers[i].pid == pid) {
                b->kills += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
                bury(b, &b->workers[i]);
            }
}

// Those who have come become members.
static void admit(struct broker *b)
{
    for (uint32_t i = 0; i < b->n_workers; i++) {
        const struct worker *w = &b->workers[i];
        if (w->trainer && atomic_load(&shared->ready[w->device]) == w->id)
            b->member[w->device] = w->id;
    }
    form_group(b);
}

static void reference(uint64_t epochs, float *params)
{
    memset(params, 0, PARAMS * sizeof *params);
    for (uint32_t epoch = 0; epoch < epochs; epoch++)
        for (uint32_t first = 0; first < CELLS; first += opt.per_update) {
            float sum[PARAMS] = {0};
            for (uint32_t c = first; c < SL_MIN(first + opt.per_update, (uint32_t)CELLS); c++)
                add_gradient(epoch, c, params, sum);
            for (uint32_t i = 0; i < PARAMS; i++)
                params[i] += sum[i];
        }
}

// Opens phases, kills and turns until all is trained. False: stuck.
static bool preside(struct broker *b, uint64_t epochs)
{
    uint64_t began = sl_now_ns(), next_turn = began, seq = 0;
    uint64_t random = opt.seed, updates = sl_div_up(CELLS, opt.per_update);
    while (!sl_ledger_phase_complete(b->a, epochs)) {
        struct sl_phase_spec p = {.kind = SL_PHASE_TRAIN,
                                  .epoch = (uint32_t)seq,
                                  .batch_size = 1,
                                  .n_items = CELLS,
                                  .first_version = seq * updates};
        if (seq < epochs && sl_ledger_open_phase(b->a, &p, &seq) == SL_OK)
            continue;
        uint64_t now = sl_now_ns();
        if (opt.turn_every_us && now >= next_turn) {
            random = mix(random + 1);
            b->turn += atomic_load(&shared->next_comm) < COMMS - 1000;
            next_turn = now + (random >> 20) % (2000ull * opt.turn_every_us);
        }
        reap(b);
        admit(b);
        if (now - began > (uint64_t)TIMEOUT_S * 1000000000) {
            fprintf(stderr, "group: stuck at version %llu\n",
                    (unsigned long long)sl_param_store_version(b->a));
            return false;
        }
        usleep(200);
    }
    return true;
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_NUMBER("batches", options, batches, 1, 1e12),
    ARGUMENT_NUMBER("samplers", options, samplers, 1, WORKERS_MAX),
    ARGUMENT_NUMBER("trainers", options, trainers, 1, TRAINERS_MAX),
    ARGUMENT_NUMBER("per-update", options, per_update, 1, PER_UPDATE_MAX),
    ARGUMENT_NUMBER("kill-every", options, kill_every, 0, 1e9),
    ARGUMENT_FLAG("threads", options, threads),
    ARGUMENT_NUMBER("seed", options, seed, 0, 9e15),
    ARGUMENT_NUMBER("turn-us", options, turn_every_us, 0, 1e9),
    ARGUMENT_NUMBER("chunks", options, chunks, 0, 1e6),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "group",
    .is_program = true,
    .about = "Trainers as a group add up gradients while they are killed; nothing may be lost.",
    .options = {{options}},
};

static int parse(int argc, char **argv)
{
    arguments_parse(&command, &opt, argc, argv);
    if (opt.threads)
        opt.kill_every = 0;
    // As broker/scheduler/capacity.c: what all hold at once, and one more.
    uint32_t least = BLOCK_CHUNKS_MAX * (LEASES * opt.trainers + opt.samplers + 1);
    opt.chunks = SL_MAX(opt.chunks, least);
    return opt.samplers + opt.trainers <= WORKERS_MAX ? 0 : -1;
}

static uint64_t payload_left(struct broker *b, uint64_t began)
{
    struct sl_ledger_depth depth;
    do { // a sampler may be on its way to nothing
        reap(b);
        usleep(1000);
        sl_ledger_depth(b->a, &depth);
    } while (depth.payload_bytes && sl_now_ns() - began < (uint64_t)TIMEOUT_S * 1000000000);
    return depth.payload_bytes;
}

static int judge(const struct broker *b, uint64_t epochs, bool ended, uint64_t left)
{
    float want[PARAMS];
    reference(epochs, want);
    bool equal =
        memcmp(want, sl_param_store_params(b->a, sl_param_store_version(b->a)), sizeof want) == 0;
    uint64_t damaged = atomic_load(&shared->payloads);
    uint64_t least = mortal_least(epochs * CELLS, b->n_workers, opt.kill_every);
    bool ok = b->kills >= least && ended && equal && damaged == 0 && left == 0 &&
              sl_param_store_version(b->a) == epochs * sl_div_up(CELLS, opt.per_update);
    printf("group: %llu kills (%llu at least), %llu resampled, %llu retrained, %llu finished for "
           "the dead, "
           "%llu groups, %llu sums too late\n",
           (unsigned long long)b->kills, (unsigned long long)least,
           (unsigned long long)b->resampled, (unsigned long long)b->retrained,
           (unsigned long long)b->finished, (unsigned long long)b->groups,
           (unsigned long long)atomic_load(&shared->stale_sums));
    printf("group: parameters %s, %llu damaged payloads, %llu bytes leaked: %s\n",
           equal ? "equal" : "DIFFER", (unsigned long long)damaged, (unsigned long long)left,
           ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (parse(argc, argv) < 0)
        return 2;
    const struct sl_arena_spec spec = {.n_devices = SL_MAX(opt.samplers, opt.trainers),
                                       .n_cells = CELLS,
                                       .n_params = PARAMS,
                                       .exchange = 1,
                                       .batches_per_update = opt.per_update,
                                       .payload_bytes =
                                           (uint64_t)opt.chunks * SL_ARENA_CHUNK_BYTES};
    struct sl_arena arena;
    int fd = sl_arena_memfd();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fd < 0 || shared == MAP_FAILED || sl_arena_create(fd, &spec, &arena) < 0) {
        fprintf(stderr, "group: %s\n", sl_error_message());
        return 1;
    }
    static struct broker b;
    b = (struct broker){.a = &arena, .n_workers = opt.samplers + opt.trainers, .next_id = 1};
    for (uint32_t i = 0; i < b.n_workers; i++) {
        bool trainer = i >= opt.samplers;
        b.workers[i] = (struct worker){.arena = &arena,
                                       .id = b.next_id++,
                                       .device = trainer ? i - opt.samplers : i,
                                       .trainer = trainer};
        start(&b.workers[i]);
    }
    uint64_t epochs = SL_MAX(opt.batches / CELLS, (uint64_t)1), began = sl_now_ns();
    bool ended = preside(&b, epochs);
    printf("group: %llu batches in %.2f s, %u samplers, %u trainers, %s\n",
           (unsigned long long)(epochs * CELLS), (double)(sl_now_ns() - began) * 1e-9, opt.samplers,
           opt.trainers, opt.threads ? "threads" : "processes");
    uint64_t left = payload_left(&b, began);
    sl_arena_abort(&arena, SL_ABORT_STOP);
    for (uint32_t i = 0; i < b.n_workers; i++) {
        if (opt.threads)
            pthread_join(b.workers[i].thread, NULL);
        else
            waitpid(b.workers[i].pid, NULL, 0);
    }
    int failed = judge(&b, epochs, ended, left);
    sl_arena_detach(&arena);
    return failed;
}
