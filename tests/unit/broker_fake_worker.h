/*
 * broker_fake_worker.h - samplers and trainers without a graph and without a model, for tests of
 * the broker: they speak the real protocol and work through the real ledger and board.
 *
 * The test program itself plays them: it is linked as sluice-sampler and sluice-trainer into a
 * scratch directory, and main() looks at its own name. FAKE_WORKER tells them how to behave:
 * directives "role:action" separated by blanks; "role:action<N" only for the first N processes of
 * that role, "role:action=N" for the one before which N have started, "role:action>N" for those
 * after it.
 *
 *   segv, exit, abort   die before Hello (abort: with a line on standard error)
 *   failed              says Failed instead of Hello
 *   stuck               stands still (SIGSTOP) before Hello
 *   hold                dies by SIGKILL with its first lease in hand
 *   hold3               ... with its fourth
 *   (role "standby": the trainer on device 0)
 *   late                says Failed after its first batch
 *   deaf                does not leave when told
 *   small               (sampler) says that blocks are huge
 *
 * A test holds and moves them by the stage that it shares with them (FAKE_STAGE): trainers take no
 * batch of an epoch that it has not opened, nobody says Hello before it lets them, and they tell
 * the time by its clock.
 *
 * Parameters are one number, the version, in every element, after the initial value 0. In epoch e
 * validation finds accuracy 0.8 when e is 1, else 0.3; a test finds as many right as the tested
 * parameters are updates old.
 */
#ifndef SL_TESTS_UNIT_BROKER_FAKE_WORKER_H
#define SL_TESTS_UNIT_BROKER_FAKE_WORKER_H

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/arena/param_store.h"
#include "common/arena/payload_alloc.h"
#include "common/arena/ledger.h"
#include "common/arena/seat.h"
#include "common/bus/worker.h"
#include "tests/unit/broker_predictions.h"

// The data set of its jobs (broker_ring_job.h): the lists follow one another, vertex v is of class
// v % 3.
enum { N_NODES = 400, N_TRAIN = 40, N_VAL = 10, N_TEST = 100 };

struct fake_stage {
    _Atomic uint32_t epochs; // that trainers may begin
    _Atomic bool held;       // before Hello
    _Atomic uint64_t ahead_ns;
    _Atomic uint32_t at_work; // processes that have begun to
};

static struct fake_stage *stage;

// Maps the stage, which the test makes; everybody else finds it.
static inline void fake_stage_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *stage) != 0)
        abort();
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (stage == MAP_FAILED)
        abort();
}

struct fake {
    struct sl_worker w;
    const char *role;
    unsigned long start;
    bool standby; // the trainer of the first device, where samplers sit
    struct sl_worker_totals figures;
};

static inline bool fake_stopping(const struct fake *f)
{
    return atomic_load(&f->w.stop) || sl_arena_aborted(&f->w.arena);
}

static inline bool fake_does(const struct fake *f, const char *action)
{
    char all[512];
    snprintf(all, sizeof all, "%s", getenv("FAKE_WORKER") ? getenv("FAKE_WORKER") : "");
    char *save = NULL;
    for (char *d = strtok_r(all, " ", &save); d; d = strtok_r(NULL, " ", &save)) {
        char *colon = strchr(d, ':'), *end = d + strcspn(d, "<=>");
        char which = *end;
        *end = '\0';
        bool mine = colon && (strncmp(d, f->role, (size_t)(colon - d)) == 0 ||
                              (f->standby && strncmp(d, "standby", (size_t)(colon - d)) == 0));
        if (!mine)
            continue;
        unsigned long n = which ? strtoul(end + 1, NULL, 10) : 0;
        bool chosen = which == '<'   ? f->start < n
                      : which == '=' ? f->start == n
                      : which == '>' ? f->start > n
                                     : true;
        if (strcmp(colon + 1, action) == 0 && chosen)
            return true;
    }
    return false;
}

static inline void fake_die(int signal_number)
{
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static inline void fake_with_lease(struct fake *f)
{
    if ((fake_does(f, "hold") && f->figures.batches == 0) ||
        (fake_does(f, "hold3") && f->figures.batches == 3))
        fake_die(SIGKILL);
}

static inline void fake_publish_figures(struct fake *f)
{
    f->figures.batches++;
    sl_stats_publish(f->w.stats, &f->figures);
}

static inline int fake_sample(struct fake *f)
{
    struct sl_arena *a = &f->w.arena;
    struct sl_lease l;
    struct sl_extent e;
    int rc = sl_ledger_claim_sample(a, f->w.id, SL_AHEAD_ALL, 50, &l);
    if (rc < 0)
        return rc == SL_ETIMEDOUT ? SL_OK : rc;
    sl_clock_ahead_ns = atomic_load(&stage->ahead_ns);
    fake_with_lease(f);
    while ((rc = sl_payload_alloc(a, &l, 100000, 50, &e)) == SL_ETIMEDOUT) {
    }
    if (rc < 0)
        return rc;
    l.entry->payload_offset = e.offset;
    l.entry->payload_bytes = e.bytes;
    sl_phase_range(l.phase, l.cell, &l.entry->n_seeds);
    l.entry->n_input = 10 * l.entry->n_seeds;
    l.entry->n_edges = 30 * l.entry->n_seeds;
    l.entry->sample_ns = 1000;
    // What a digest must depend on: the vertices, and nothing else.
    uint64_t digest = 0;
    uint64_t first = (uint64_t)l.cell * l.phase->spec.batch_size;
    if (l.phase->spec.kind == SL_PHASE_TRAIN)
        for (uint32_t i = 0; i < l.entry->n_seeds; i++)
            digest = digest * 1000003 + sl_arena_order(a, l.phase->spec.order_bank)[first + i] + 1;
    l.entry->digest = digest;
    l.entry->sampler = f->w.id;
    l.entry->ready_at_ns = sl_now_ns();
    rc = sl_ledger_publish(a, &l);
    fake_publish_figures(f);
    return rc == SL_ESTALE ? SL_OK : rc;
}

static inline void fake_update(struct fake *f)
{
    struct sl_arena *a = &f->w.arena;
    struct sl_update u;
    while (sl_param_store_begin_update(a, f->w.id, &u) == SL_OK) {
        for (uint64_t i = 0; i < a->h->spec.n_params; i++)
            sl_param_store_params(a, u.version + 1)[i] = sl_param_store_params(a, u.version)[i] + 1;
        *sl_param_store_update_entry(a, &u) =
            (struct sl_update_entry){.from_ns = sl_now_ns(), .applier = f->w.id};
        sl_param_store_commit_update(a, &u);
    }
}

static inline void fake_evaluate(struct fake *f, const struct sl_lease *l)
{
    struct sl_arena *a = &f->w.arena;
    const struct sl_phase_spec *spec = &l->phase->spec;
    const float *params = spec->params == SL_PARAMS_BEST ? sl_param_store_best(a)
                          : spec->params == SL_PARAMS_PINNED
                              ? sl_param_store_pinned(a)
                              : sl_param_store_params(a, sl_param_store_version(a));
    if (spec->set == SL_SET_TEST)
        leave_predictions(a, l, false, N_TRAIN + N_VAL, (uint64_t)params[0]);
    else
        leave_predictions(a, l, false, N_TRAIN,
                          (uint64_t)l->entry->n_seeds * (spec->epoch == 1 ? 8 : 3) / 10);
}

// Whether a batch before this one was taken back from a dead trainer, and nobody has it.
static inline bool fake_must_yield(const struct sl_arena *a, const struct sl_lease *l)
{
    for (uint32_t i = 0; i < l->cell; i++)
        if (sl_cell_state(sl_ledger_word(a, l->seq, i)) == SL_CELL_READY)
            return true;
    return false;
}

static inline int fake_train(struct fake *f)
{
    struct sl_arena *a = &f->w.arena;
    struct sl_lease l;
    // A standby trainer that finds no reason to wake but that there is work and no other
    // trainer. In this order: how many there are is known before the first phase is opened.
    struct sl_ledger_ahead left;
    sl_ledger_look_ahead(a, &left);
    if (atomic_load(&sl_seat(a, f->w.slot)->duty) == SL_DUTY_STANDBY &&
        (left.seq == 0 || atomic_load(&sl_schedule_of(a)->trainers) > 0)) {
        usleep(2000);
        return SL_OK;
    }
    fake_update(f);
    // An evaluation first: the stage may hold the epoch that is trained beside it.
    int rc = sl_ledger_claim_beside(a, f->w.id, SL_OCCUPATION_ASIDE, 0, &l);
    if (rc == SL_ETIMEDOUT)
        rc = sl_ledger_claim_train(a, f->w.id, 50, &l);
    if (rc < 0)
        return rc == SL_ETIMEDOUT ? SL_OK : rc;
    if (l.phase->spec.kind == SL_PHASE_TRAIN &&
        l.phase->spec.epoch >= atomic_load(&stage->epochs)) {
        sl_ledger_return(a, &l);
        usleep(1000);
        return SL_OK;
    }
    sl_clock_ahead_ns = atomic_load(&stage->ahead_ns);
    l.entry->claimed_at_ns = sl_now_ns();
    fake_with_lease(f);
    sl_phase_range(l.phase, l.cell, &l.entry->n_seeds);
    if (l.phase->spec.kind == SL_PHASE_TRAIN) {
        // Trainers compute on the version of their batch, and take an earlier one where it is.
        while (sl_param_store_version(a) < sl_param_store_cell_version(a, l.phase, l.cell)) {
            if (fake_stopping(f))
                return SL_EABORTED;
            if (fake_must_yield(a, &l)) {
                sl_ledger_return(a, &l);
                return SL_OK;
            }
            fake_update(f);
            usleep(100);
        }
        l.entry->counted = l.entry->n_seeds;
        l.entry->weight = l.entry->n_seeds;
        l.entry->loss = 2.0 * l.entry->n_seeds;
    } else {
        fake_evaluate(f, &l);
    }
    l.entry->train_ns = 1000000;
    l.entry->trainer = f->w.id;
    rc = sl_ledger_complete(a, &l);
    fake_publish_figures(f);
    fake_update(f);
    return rc == SL_ESTALE ? SL_OK : rc;
}

static inline int fake_hello(struct fake *f)
{
    uint64_t shape_w[] = {3, 2}, shape_b[] = {5};
    Sl__Control__Tensor weight = SL__CONTROL__TENSOR__INIT, bias = SL__CONTROL__TENSOR__INIT;
    Sl__Control__Tensor *tensors[] = {&weight, &bias};
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    weight.name = "convs.0.weight";
    weight.n_shape = 2;
    weight.shape = shape_w;
    bias.name = "convs.0.bias";
    bias.n_shape = 1;
    bias.shape = shape_b;
    if (strcmp(f->role, "trainer") == 0) {
        hello.n_tensors = 2;
        hello.tensors = tensors;
        hello.infer_width = 4;
        hello.n_layers = 2;
    } else {
        hello.block_bytes_max = fake_does(f, "small") ? (uint64_t)1 << 45 : 100000;
    }
    return sl_worker_attach(&f->w, &hello);
}

static inline int fake_work(struct fake *f)
{
    if (fake_does(f, "segv"))
        fake_die(SIGSEGV);
    if (fake_does(f, "exit"))
        exit(7);
    if (fake_does(f, "abort")) {
        fprintf(stderr, "assertion failed: the cat is on the mat\n");
        fake_die(SIGABRT);
    }
    if (fake_does(f, "stuck"))
        raise(SIGSTOP);
    if (fake_does(f, "failed"))
        return sl_fail(SL_EFORMAT, "node_feat.npy: found no features, wanted 3 a vertex");
    while (atomic_load(&stage->held))
        usleep(1000);
    int rc = fake_hello(f);
    if (rc == SL_OK)
        rc = sl_worker_ready(&f->w);
    atomic_fetch_add(&stage->at_work, 1);
    while (rc == SL_OK && (!fake_stopping(f) || fake_does(f, "deaf"))) {
        if (fake_stopping(f)) {
            pause(); // until it is killed
            continue;
        }
        rc = strcmp(f->role, "trainer") == 0 ? fake_train(f) : fake_sample(f);
        if (rc == SL_EABORTED && fake_does(f, "deaf"))
            rc = SL_OK;
        if (fake_does(f, "late") && f->figures.batches == 1)
            return sl_fail(SL_EIO, "the disk is on fire");
    }
    return rc;
}

// Plays a worker when the program goes by a worker's name; -1 when it does not.
static inline int fake_worker_main(int argc, char **argv)
{
    static struct fake f;
    const char *name = strrchr(argv[0], '/');
    name = name ? name + 1 : argv[0];
    if (strncmp(name, "sluice-", 7) != 0)
        return -1;
    f.role = name + 7;
    fake_stage_open(getenv("FAKE_STAGE"));
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], "--start") == 0)
            f.start = strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--device") == 0)
            f.standby = strcmp(f.role, "trainer") == 0 && strcmp(argv[i + 1], "0") == 0;
    }
    int rc = sl_worker_init(&f.w, f.role, argc, argv);
    if (rc == SL_OK)
        rc = fake_work(&f);
    if (rc < 0 && rc != SL_EABORTED) {
        sl_log_error("%s", sl_error_message());
        sl_worker_failed(&f.w, rc);
    }
    sl_worker_fini(&f.w);
    return rc < 0 && rc != SL_EABORTED ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
