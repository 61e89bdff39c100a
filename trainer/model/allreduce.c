#include "trainer/model/allreduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/spin.h"
#include "common/arena/param_store.h"

enum {
    LOOK_MS = 1, // at a meeting: the collective has no event
    // Polls of a sum before this thread sleeps in between: 0.1 ms or so; none once another thread
    // has use for the core (spin.h), which may be what the sum waits for.
    SPINS = 256,
    POLL_SLEEP_NS = 50 * 1000, // then, and longer with time
    POLL_SLEEP_MAX_NS = 1000 * 1000,
    // A death is seen by the broker once the process is gone: the kernel unpins and unmaps what it
    // had, which takes its time where that were 100 GB.
    BROKEN_PATIENCE_MS = 60 * 1000,
    MEETING_PATIENCE_MS = 600 * 1000, // NCCL takes seconds
    LONG_MS = 30 * 1000,              // a wait that is worth a line in the log
    // Of the time between two looks: a process that was stopped has not waited.
    LOOKED_MAX_MS = 1000,
    PART_FLOATS = 16, // parts of the sum begin at cache lines
};

uint64_t sl_exchange_bytes(uint64_t n_params)
{
    return 2 * n_params * sizeof(float);
}

int sl_exchange_init(struct sl_exchange *x, const struct sl_exchange_spec *spec)
{
    const struct sl_memory *memory = &spec->compute.device->memory;
    const uint64_t n_params = spec->runs->n_params;
    *x = (struct sl_exchange){.spec = *spec};
    if (!sl_group_exists(spec->arena) || !spec->collective)
        return sl_fail(SL_EPROTO, "trainer: the job has no group to exchange gradients in: broker "
                                  "and trainer are not of the same build");
    x->held = calloc(spec->arena->h->spec.batches_per_update, sizeof *x->held);
    x->sum = memory->alloc(n_params * sizeof *x->sum);
    x->total = x->sum ? memory->alloc(n_params * sizeof *x->total) : NULL;
    if (x->held && x->total)
        return SL_OK;
    sl_exchange_fini(x);
    return sl_fail_prefix(SL_ENOMEM, "trainer: sums of gradients on the device");
}

// --- time ----------------------------------------------------------------------------------------

static void begin_wait(struct sl_exchange *x)
{
    x->waited_ns = 0;
    x->looked_ns = sl_now_ns();
    x->told = false;
}

// How long this wait has taken.
static uint64_t waited_ms(struct sl_exchange *x)
{
    uint64_t now = sl_now_ns();
    x->waited_ns += SL_MIN(now - x->looked_ns, LOOKED_MAX_MS * 1000000ull);
    x->looked_ns = now;
    return x->waited_ns / 1000000;
}

// One that takes long is told once.
static void tell_wait(struct sl_exchange *x, const char *what)
{
    if (waited_ms(x) < LONG_MS || x->told)
        return;
    x->told = true;
    sl_log_warn("exchange of gradients: %s of %u trainers (generation %llu) takes longer than %d s",
                what, x->group.n, (unsigned long long)x->group.generation, LONG_MS / 1000);
}

// --- the beginning and the end -------------------------------------------------------------------

// Every batch in hand goes back, to be drawn and trained again.
static void discard(struct sl_exchange *x)
{
    for (uint32_t i = 0; i < x->n_held; i++)
        sl_ledger_return(x->spec.arena, &x->held[i]);
    x->n_held = 0;
}

void sl_exchange_leave(struct sl_exchange *x)
{
    if (x->state == SL_EXCHANGE_MEETING || x->state == SL_EXCHANGE_TOGETHER)
        x->spec.collective->abort();
    x->state = SL_EXCHANGE_OUTSIDE;
    x->counted = false;
}

void sl_exchange_fini(struct sl_exchange *x)
{
    const struct sl_memory *memory =
        x->spec.compute.device ? &x->spec.compute.device->memory : NULL;
    const uint64_t bytes = x->spec.runs ? x->spec.runs->n_params * sizeof(float) : 0;
    sl_exchange_leave(x);
    discard(x);
    if (x->sum)
        memory->free(x->sum, bytes);
    if (x->total)
        memory->free(x->total, bytes);
    free(x->held);
    *x = (struct sl_exchange){0};
}

uint32_t sl_exchange_poll_ms(const struct sl_exchange *x)
{
    return x->state == SL_EXCHANGE_MEETING ? LOOK_MS : SL_ARENA_WAIT_MS;
}

// --- a batch -------------------------------------------------------------------------------------

// Statistics of the batch, to where the update reads them.
static int deliver_statistics(struct sl_exchange *x, uint32_t cell, const float *gradient)
{
    const struct sl_update_runs *runs = x->spec.runs;
    float *slot = sl_param_store_gradient(x->spec.arena, cell);
    if (gradient == slot) // on a CPU device it is computed there
        return SL_OK;
    for (uint32_t r = 0; r < runs->n; r++) {
        const struct sl_update_run *run = &runs->run[r];
        if (run->rule == SL_UPDATE_RULE_RUNNING)
            SL_TRY(x->spec.compute.device->copy(slot + run->at, gradient + run->at,
                                                run->n * sizeof *slot));
    }
    return SL_OK;
}

// In the order of the batches that this trainer takes, as the store's slots are summed.
static int add_up(struct sl_exchange *x, const float *gradient)
{
    const uint64_t n = x->spec.runs->n_params;
    const float *slots[] = {x->sum, gradient};
    if (x->n_held == 0)
        return x->spec.compute.device->copy(x->sum, gradient, n * sizeof *x->sum);
    return x->spec.compute.kernels->reduce(slots, 2, n, 1.0f, x->sum);
}

static uint64_t version_of(const struct sl_exchange *x, const struct sl_lease *lease)
{
    return sl_param_store_cell_version(x->spec.arena, lease->phase, lease->cell);
}

int sl_exchange_add(struct sl_exchange *x, const struct sl_lease *lease, const float *gradient)
{
    const uint64_t version = version_of(x, lease);
    // A version comes only after all batches of the last one were done, the held ones too.
    if (x->n_held > 0 && x->version != version)
        return sl_fail(SL_EPROTO, "trainer: a batch of version %llu while those of %llu are held",
                       (unsigned long long)version, (unsigned long long)x->version);
    SL_TRY(deliver_statistics(x, lease->cell, gradient));
    return add_up(x, gradient);
}

int sl_exchange_keep(struct sl_exchange *x, const struct sl_lease *lease)
{
    x->version = version_of(x, lease);
    x->held[x->n_held] = *lease;
    int rc = sl_ledger_hold(x->spec.arena, &x->held[x->n_held]);
    if (rc == SL_OK)
        x->n_held++;
    else if (rc == SL_ESTALE) // somebody else's by now, and it is in the sum: none of it can count
        discard(x);
    return rc == SL_ESTALE ? SL_OK : rc;
}

// --- the group -----------------------------------------------------------------------------------

// The communicator is of no use any more. Its error, which is the last one, is kept for the case
// that nobody has died; where that cannot be the reason (there is no NCCL to be used, no peer, no
// GPU any more) it is returned at once.
static int break_up(struct sl_exchange *x, int rc)
{
    if (rc != SL_EDEVICE || x->group.n == 1)
        return sl_fail_prefix(rc, "trainer: exchange of gradients");
    snprintf(x->why, sizeof x->why, "%s", sl_error_message());
    x->spec.collective->abort();
    x->state = SL_EXCHANGE_BROKEN;
    begin_wait(x);
    return x->spec.compute.device->sync();
}

static int meet(struct sl_exchange *x)
{
    const struct sl_collective *c = x->spec.collective;
    uint8_t name[SL_GROUP_NAME_BYTES];
    _Static_assert(sizeof name == SL_COLLECTIVE_ID_BYTES, "the name is the collective's");
    int rc;
    if (x->group.rank == 0) {
        rc = c->unique_id(name);
        if (rc == SL_OK)
            sl_group_name(x->spec.arena, &x->group, name);
    } else {
        rc = sl_group_read_name(x->spec.arena, &x->group, name);
    }
    if (rc == SL_EAGAIN)
        return SL_OK;
    if (rc == SL_OK)
        rc = c->begin(name, x->group.rank, x->group.n);
    if (rc < 0)
        return break_up(x, rc);
    x->state = SL_EXCHANGE_MEETING;
    return SL_OK;
}

// One step towards the communicator of the group that there is.
static int come_together(struct sl_exchange *x)
{
    if (x->state == SL_EXCHANGE_APART)
        SL_TRY(meet(x));
    if (x->state == SL_EXCHANGE_MEETING) {
        int rc = x->spec.collective->poll();
        if (rc == SL_OK)
            x->state = SL_EXCHANGE_TOGETHER;
        else if (rc != SL_EAGAIN)
            return break_up(x, rc);
    }
    if (x->state != SL_EXCHANGE_APART && x->state != SL_EXCHANGE_MEETING)
        return SL_OK;
    tell_wait(x, "a meeting");
    if (waited_ms(x) <= MEETING_PATIENCE_MS)
        return SL_OK;
    int rc = sl_fail(SL_EDEVICE,
                     "%u trainers that are ready have not met within %d s: NCCL_DEBUG=INFO in the "
                     "environment says how far NCCL comes",
                     x->group.n, MEETING_PATIENCE_MS / 1000);
    return break_up(x, rc);
}

// One step towards being together with the group that there is.
static int follow(struct sl_exchange *x)
{
    struct sl_group_view now;
    if (!sl_group_read(x->spec.arena, x->spec.worker, &now))
        now = (struct sl_group_view){0}; // it is being changed: there is none
    if (now.generation != x->group.generation) {
        sl_exchange_leave(x);
        x->group = now;
        x->state = now.rank < now.n ? SL_EXCHANGE_APART : SL_EXCHANGE_OUTSIDE;
        begin_wait(x);
    }
    SL_TRY(come_together(x));
    if (x->state == SL_EXCHANGE_BROKEN && waited_ms(x) > BROKEN_PATIENCE_MS)
        return sl_fail(SL_EDEVICE, "trainer: exchange of gradients: %s", x->why);
    return SL_OK;
}

// --- the sum -------------------------------------------------------------------------------------

// This member's part of the sum to slot 0.
static int write_part(struct sl_exchange *x)
{
    const struct sl_update_runs *runs = x->spec.runs;
    float *slot = sl_param_store_gradient(x->spec.arena, 0);
    const uint64_t lines = sl_div_up(runs->n_params, PART_FLOATS);
    const uint64_t from = lines * x->group.rank / x->group.n * PART_FLOATS;
    const uint64_t to =
        SL_MIN(runs->n_params, lines * (x->group.rank + 1) / x->group.n * PART_FLOATS);
    for (uint32_t r = 0; r < runs->n; r++) {
        const struct sl_update_run *run = &runs->run[r];
        const uint64_t first = SL_MAX(from, run->at), end = SL_MIN(to, run->at + run->n);
        if (sl_update_run_steps(run) && first < end)
            SL_TRY(x->spec.compute.device->copy(slot + first, x->total + first,
                                                (end - first) * sizeof *slot));
    }
    return x->spec.compute.device->sync();
}

// Waits for the sum, which the device makes: the collective can be asked, and wakes nobody.
// SL_OK; SL_ESTALE when the group is another one by now; SL_EABORTED; an error of the collective.
static int wait_for_sum(struct sl_exchange *x)
{
    struct sl_spin spin = {.left = SPINS};
    begin_wait(x);
    for (;;) {
        int rc = x->spec.collective->poll();
        if (rc != SL_EAGAIN)
            return rc;
        tell_wait(x, "a sum");
        if (!sl_group_is_current(x->spec.arena, x->group.generation))
            return SL_ESTALE;
        if (sl_heartbeat_stopping(x->spec.pulse))
            return SL_EABORTED;
        const struct timespec pause = {
            .tv_nsec = (long)SL_MIN(POLL_SLEEP_NS + x->waited_ns / 32, POLL_SLEEP_MAX_NS)};
        if (!sl_spin(&spin))
            nanosleep(&pause, NULL);
    }
}

// Sums the update from `version`, of which every batch is held, with the others.
static int sum(struct sl_exchange *x, uint64_t version)
{
    const struct sl_device *device = x->spec.compute.device;
    const uint64_t n = x->spec.runs->n_params;
    SL_FAILPOINT(TRAINER_REDUCE);
    if (x->n_held == 0)
        SL_TRY(device->fill(x->sum, 0, n * sizeof *x->sum));
    int rc = x->spec.collective->all_reduce(x->sum, x->total, n);
    if (rc == SL_OK)
        rc = wait_for_sum(x);
    if (rc == SL_ESTALE || rc == SL_EABORTED)
        return rc;
    if (rc < 0)
        return break_up(x, rc);
    SL_FAILPOINT(TRAINER_REDUCED);
    SL_TRY(write_part(x));
    SL_FAILPOINT(TRAINER_WRITTEN);
    rc = sl_group_count_written(x->spec.arena, &x->group, version);
    if (rc < 0)
        return rc;
    SL_FAILPOINT(TRAINER_COUNTED);
    x->counted = true;
    x->counted_version = version;
    x->rounds++;
    return SL_OK;
}

// The held batches' gradient is safe: they are done. The sum's time stands with the last of them.
static int complete(struct sl_exchange *x, uint64_t began_ns, uint64_t took_ns)
{
    struct sl_batch_entry *last = x->held[x->n_held - 1].entry;
    last->sum_from_ns = began_ns;
    last->sum_ns = took_ns;
    last->train_ns += took_ns;
    for (uint32_t i = 0; i < x->n_held; i++) {
        int rc = sl_ledger_complete(x->spec.arena, &x->held[i]);
        if (rc < 0 && rc != SL_ESTALE)
            return rc;
        x->completed++;
    }
    x->n_held = 0;
    return SL_OK;
}

// A sum that this member has its part of written, and waits for the others' parts of.
static bool is_counted(const struct sl_exchange *x, uint64_t version)
{
    return x->counted && x->counted_version == version;
}

// Waits a moment for the parts of the others, which are on their way.
static void wait_for_parts(struct sl_exchange *x, uint64_t version)
{
    struct sl_arena *a = x->spec.arena;
    uint32_t seen = sl_event_read(&a->h->progress);
    if (!sl_group_is_reduced(a, version) && sl_group_is_current(a, x->group.generation) &&
        !sl_heartbeat_stopping(x->spec.pulse))
        sl_event_wait(&a->h->progress, seen, SL_ARENA_WAIT_MS);
}

int sl_exchange_help(struct sl_exchange *x)
{
    struct sl_arena *a = x->spec.arena;
    struct sl_update next;
    const uint64_t began = sl_now_ns();
    uint64_t took = 0;
    for (;;) {
        SL_TRY(follow(x));
        if (x->n_held > 0 && sl_group_is_reduced(a, x->version)) {
            SL_TRY(complete(x, began, took));
            break;
        }
        if (sl_heartbeat_stopping(x->spec.pulse) || x->state != SL_EXCHANGE_TOGETHER ||
            sl_param_store_next_held(a, &next) < 0)
            break;
        // In an earlier generation: those who hold its batches complete them and will not sum it.
        if (sl_group_is_reduced(a, next.version))
            break;
        if (is_counted(x, next.version)) {
            if (x->n_held == 0)
                break;
            wait_for_parts(x, next.version);
        } else {
            int rc = sum(x, next.version);
            if (rc == SL_EABORTED)
                break;
            if (rc < 0 && rc != SL_ESTALE)
                return rc;
        }
        took = sl_now_ns() - began;
    }
    x->ns += took;
    return SL_OK;
}
