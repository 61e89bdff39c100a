/*
 * ledger.c - the ledger, the payload memory and the board under load, while workers are killed.
 *
 * Several sampler and trainer processes push batches through a small arena; the parent plays the
 * broker: it opens phases, kills random workers with SIGKILL at random moments, reclaims what they
 * held and starts others. What must hold at the end:
 *
 *   - the parameters equal, bit for bit, those of a plain sequential loop over all batches. Every
 *     gradient depends on the batch and on the parameters it was computed on, so one batch lost,
 *     counted twice, reduced out of order or computed on another version shows;
 *   - every payload carried the pattern of its batch when it was read, so no two batches ever
 *     shared memory;
 *   - every inference cell was done once; all payload memory is free in the end.
 *
 * --threads runs the same bodies as threads of one process (for ThreadSanitizer, which does not see
 * races between processes); nobody is killed then.
 */
#include <getopt.h>
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
#include "common/ipc/board.h"
#include "common/ipc/extent.h"

enum {
    WORKERS_MAX = 32,
    PARAMS = 24,
    CELLS = 1000,
    INFER_CELLS = 37,
    HOLD = 2, // leases a trainer holds at once, as its extraction thread makes it do
    CHUNKS = 96,
    BLOCK_CHUNKS_MAX = 7,
    TIMEOUT_S = 500,
};

struct options {
    uint64_t batches;
    uint32_t samplers, trainers, per_update;
    uint32_t kill_every_us; // mean time between kills, 0 = none
    bool threads;
    uint64_t seed;
};

struct worker {
    struct sl_arena *arena;
    uint32_t id;
    bool trainer;
    pid_t pid;
    pthread_t thread;
};

static struct options opt = {.batches = 200000,
                             .samplers = 3,
                             .trainers = 3,
                             .per_update = 4,
                             .kill_every_us = 3000,
                             .seed = 1};
static _Atomic uint64_t bad_payloads_local;
static _Atomic uint64_t *bad_payloads = &bad_payloads_local; // shared word when processes

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

static void step(const float *const *slots, uint32_t n, const float *from, float *to)
{
    for (uint32_t i = 0; i < PARAMS; i++) {
        float sum = 0;
        for (uint32_t s = 0; s < n; s++)
            sum += slots[s][i];
        to[i] = from[i] - 0.1f * sum / (float)n;
    }
}

static void *sampler_body(void *arg)
{
    struct worker *w = arg;
    struct sl_arena *a = w->arena;
    uint64_t random = mix(opt.seed + w->id);
    for (;;) {
        struct sl_lease lease;
        int rc = sl_ledger_claim_sample(a, w->id, 100, &lease);
        if (rc == SL_EABORTED)
            return NULL;
        if (rc < 0)
            continue;
        random = mix(random + 1);
        // As a real sampler does: ask for more than needed, trim, sometimes give up and ask again.
        uint64_t bytes = (1 + random % BLOCK_CHUNKS_MAX) * SL_ARENA_CHUNK_BYTES;
        struct sl_extent extent;
        do
            rc = sl_extent_alloc(a, &lease, bytes, 50, &extent);
        while (rc == SL_ETIMEDOUT);
        if (rc == SL_EABORTED)
            return NULL;
        uint64_t *block = (uint64_t *)(a->base + extent.offset);
        uint64_t used = SL_MAX(bytes / 2, (uint64_t)SL_ARENA_CHUNK_BYTES);
        sl_extent_trim(a, lease.tag, &extent, used);
        for (uint64_t at = 0; at < extent.bytes / 8; at += 1024)
            block[at] = lease.tag ^ at;
        lease.entry->payload_offset = extent.offset;
        lease.entry->payload_bytes = extent.bytes;
        if (sl_ledger_publish(a, &lease) < 0)
            sl_extent_free(a, lease.tag, extent.offset, extent.bytes);
    }
}

static void help(struct sl_arena *a, uint32_t id)
{
    struct sl_update u;
    while (sl_board_begin_update(a, id, &u) == SL_OK) {
        const float *slots[64];
        for (uint32_t i = 0; i < u.n_cells; i++)
            slots[i] = sl_board_gradient(a, u.first_cell + i);
        step(slots, u.n_cells, sl_board_params(a, u.version), sl_board_params(a, u.version + 1));
        sl_board_commit_update(a, &u);
    }
}

static void train_one(struct sl_arena *a, uint32_t id, const struct sl_lease *lease)
{
    const struct sl_phase_spec *spec = &lease->phase->spec;
    if (spec->kind == SL_PHASE_TRAIN) {
        const struct sl_batch_entry *e = lease->entry;
        const uint64_t *block = (const uint64_t *)(a->base + e->payload_offset);
        for (uint64_t at = 0; at < e->payload_bytes / 8; at += 1024)
            if (block[at] != (e->payload_tag ^ at))
                atomic_fetch_add(bad_payloads, 1);
        uint64_t version = sl_board_cell_version(a, lease->phase, lease->cell);
        for (;;) {
            uint32_t seen = sl_event_read(&a->h->update);
            help(a, id);
            if (sl_board_version(a) == version)
                break;
            if (sl_arena_aborted(a))
                return;
            sl_event_wait(&a->h->update, seen, SL_ARENA_WAIT_MS);
        }
        gradient(spec->epoch, lease->cell, sl_board_params(a, version),
                 sl_board_gradient(a, lease->cell));
    }
    lease->entry->counted = 1;
    sl_ledger_complete(a, lease);
    help(a, id);
}

static void *trainer_body(void *arg)
{
    struct worker *w = arg;
    struct sl_arena *a = w->arena;
    struct sl_lease held[HOLD];
    uint32_t n = 0;
    for (;;) {
        int rc = sl_ledger_claim_train(a, w->id, n ? 0 : 20, &held[n]);
        if (rc == SL_EABORTED)
            return NULL;
        n += rc == SL_OK;
        help(a, w->id);
        if (n == 0 || (rc == SL_OK && n < HOLD))
            continue;
        train_one(a, w->id, &held[0]);
        memmove(&held[0], &held[1], (HOLD - 1) * sizeof held[0]);
        n--;
    }
}

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

static void reference(uint64_t epochs, float *out)
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
            step(slots, n, bank[version & 1], bank[(version + 1) & 1]);
            version++;
        }
    memcpy(out, bank[version & 1], sizeof bank[0]);
}

static uint32_t next_id = 1;

struct tally {
    uint64_t kills, resampled, retrained, infer_errors, train_errors;
};

static void reap(struct sl_arena *a, struct worker *workers, uint32_t n, struct tally *t)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        for (uint32_t i = 0; i < n; i++)
            if (workers[i].pid == pid) {
                struct sl_reclaimed r;
                sl_ledger_reclaim(a, workers[i].id, &r);
                t->resampled += r.resample;
                t->retrained += r.retrain;
                workers[i].id = next_id++;
                start(&workers[i]);
            }
}

static void harvest(struct sl_arena *a, uint64_t seq, uint32_t kind, struct tally *t)
{
    uint32_t n = kind == SL_PHASE_INFER ? INFER_CELLS : CELLS, counted = 0;
    for (uint32_t i = 0; i < n; i++)
        counted += sl_ledger_entry(a, seq, i)->counted == 1;
    if (kind == SL_PHASE_INFER)
        t->infer_errors += counted != n;
    else
        t->train_errors += counted != n;
}

static int parse(int argc, char **argv)
{
    static const struct option longs[] = {{"batches", 1, 0, 'b'},  {"samplers", 1, 0, 's'},
                                          {"trainers", 1, 0, 't'}, {"kill-us", 1, 0, 'k'},
                                          {"threads", 0, 0, 'T'},  {"per-update", 1, 0, 'u'},
                                          {"seed", 1, 0, 'S'},     {0}};
    int c;
    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 'b': opt.batches = strtoull(optarg, NULL, 10); break;
        case 's': opt.samplers = (uint32_t)atoi(optarg); break;
        case 't': opt.trainers = (uint32_t)atoi(optarg); break;
        case 'k': opt.kill_every_us = (uint32_t)atoi(optarg); break;
        case 'u': opt.per_update = (uint32_t)atoi(optarg); break;
        case 'S': opt.seed = strtoull(optarg, NULL, 10); break;
        case 'T': opt.threads = true; break;
        default:
            fprintf(stderr, "usage: ledger [--batches N] [--samplers N] [--trainers N] "
                            "[--per-update N<=64] [--kill-us N] [--threads] [--seed N]\n");
            return -1;
        }
    }
    if (opt.threads)
        opt.kill_every_us = 0;
    return opt.samplers + opt.trainers <= WORKERS_MAX && opt.per_update <= 64 && opt.per_update
               ? 0
               : -1;
}

int main(int argc, char **argv)
{
    if (parse(argc, argv) < 0)
        return 2;
    struct sl_arena_spec spec = {
        .n_workers = WORKERS_MAX,
        .n_cells = CELLS,
        .n_train = 1,
        .n_params = PARAMS,
        .batches_per_update = opt.per_update,
        .payload_bytes = (uint64_t)CHUNKS * SL_ARENA_CHUNK_BYTES,
    };
    struct sl_arena arena;
    int fd = sl_arena_memfd();
    if (fd < 0 || sl_arena_create(fd, &spec, &arena) < 0) {
        fprintf(stderr, "ledger: %s\n", sl_error_message());
        return 1;
    }
    // The order region is not used here: its first word counts damaged payloads for all processes.
    bad_payloads = (_Atomic uint64_t *)sl_arena_region(&arena, SL_REGION_ORDER);

    struct worker workers[WORKERS_MAX];
    uint32_t n_workers = opt.samplers + opt.trainers;
    for (uint32_t i = 0; i < n_workers; i++) {
        workers[i] =
            (struct worker){.arena = &arena, .id = next_id++, .trainer = i >= opt.samplers};
        start(&workers[i]);
    }

    uint64_t epochs = SL_MAX(opt.batches / CELLS, (uint64_t)1), opened_epochs = 0, closed = 0;
    uint64_t updates = sl_div_up(CELLS, opt.per_update), random = opt.seed;
    uint64_t began = sl_now_ns(), next_kill = began, seq = 0;
    struct tally t = {0};
    uint32_t kinds[SL_ARENA_PHASES] = {0};
    bool infer_next = false;
    int failed = 0;
    // Every third epoch is followed by a phase of inference; every TRAIN phase is gated.
    for (;;) {
        while (closed < seq && sl_ledger_phase_complete(&arena, closed + 1)) {
            closed++;
            harvest(&arena, closed, kinds[closed % SL_ARENA_PHASES], &t);
        }
        if (closed == seq && opened_epochs == epochs && !infer_next)
            break;
        while (seq - closed < SL_ARENA_PHASES - 1 && (opened_epochs < epochs || infer_next)) {
            struct sl_phase_spec p = {.kind = infer_next ? SL_PHASE_INFER : SL_PHASE_TRAIN,
                                      .epoch = (uint32_t)opened_epochs,
                                      .gated = !infer_next,
                                      .batch_size = 1,
                                      .n_items = infer_next ? INFER_CELLS : CELLS,
                                      .first_version = opened_epochs * updates};
            if (sl_ledger_open_phase(&arena, &p, &seq) < 0)
                break;
            kinds[seq % SL_ARENA_PHASES] = p.kind;
            sl_ledger_open_gate(&arena, seq);
            if (infer_next)
                infer_next = false;
            else
                infer_next = opened_epochs++ % 3 == 2;
        }
        uint64_t now = sl_now_ns();
        if (opt.kill_every_us && now >= next_kill) {
            random = mix(random + 1);
            // Kills stop while ids last; 16 bits are plenty for a real job, few for this one.
            if (next_id < 60000 && kill(workers[random % n_workers].pid, SIGKILL) == 0)
                t.kills++;
            next_kill = now + (random >> 20) % (2000ull * opt.kill_every_us);
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
    for (int i = 0; i < 50; i++) {
        sl_ledger_depth(&arena, &depth);
        if ((left = depth.payload_bytes) == 0)
            break;
        usleep(10000);
    }
    sl_arena_abort(&arena, SL_ABORT_STOP);
    for (uint32_t i = 0; i < n_workers; i++) {
        if (opt.threads)
            pthread_join(workers[i].thread, NULL);
        else
            waitpid(workers[i].pid, NULL, 0);
    }

    float want[PARAMS];
    reference(epochs, want);
    const float *got = sl_board_params(&arena, sl_board_version(&arena));
    bool equal = memcmp(want, got, sizeof want) == 0;
    uint64_t total = epochs * CELLS;
    printf("ledger: %llu batches in %.2f s (%.0f ns a batch), %u samplers, %u trainers, %s\n",
           (unsigned long long)total, seconds, seconds * 1e9 / (double)total, opt.samplers,
           opt.trainers, opt.threads ? "threads" : "processes");
    printf("ledger: %llu kills, %llu resampled, %llu retrained, %llu evicted\n",
           (unsigned long long)t.kills, (unsigned long long)t.resampled,
           (unsigned long long)t.retrained, (unsigned long long)atomic_load(&arena.h->evicted));
    failed += !equal + (atomic_load(bad_payloads) != 0) + (left != 0) + (t.infer_errors != 0) +
              (t.train_errors != 0) + (sl_board_version(&arena) != epochs * updates);
    printf(
        "ledger: parameters %s, %llu damaged payloads, %llu bytes leaked, %llu + %llu bad phases: "
        "%s\n",
        equal ? "equal" : "DIFFER", (unsigned long long)atomic_load(bad_payloads),
        (unsigned long long)left, (unsigned long long)t.train_errors,
        (unsigned long long)t.infer_errors, failed ? "FAILED" : "ok");
    sl_arena_detach(&arena);
    return failed ? 1 : 0;
}
