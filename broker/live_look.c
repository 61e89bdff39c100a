/*
 * live_look.c - looking at a job: cells that have become done, seats, processes.
 *
 * CELLS. Of each open phase the leading cells that are done, and of training those whose update has
 * been applied, have been taken; a look goes on from there and stops at the first one that is not.
 * So entries are read once, when they are final (ledger.h); sl_live_take_phase() takes what is left
 * before the slot is used again. Cells that come from a checkpoint have no times; they count
 * nowhere, since they are not of this process.
 *
 * SEATS. A worker's figures grow while it lives. Another worker in its seat begins at zero: figures
 * of another one than the last are only remembered, so a sum never falls and never jumps.
 *
 * A batch's times reach the slot when it is over. So of whoever has had one batch in hand for the
 * whole window what counts is how often it was seen with it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/job.h"
#include "broker/live_internal.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/ipc/board.h"
#include "common/ipc/seat.h"

// Upper bounds of the histograms' buckets: 0.1 ms .. 100 s, three a decade.
const uint64_t sl_live_bounds_ns[SL_LIVE_BUCKETS - 1] = {
    100000,     200000,      500000,      1000000,     2000000,      5000000,    10000000,
    20000000,   50000000,    100000000,   200000000,   500000000,    1000000000, 2000000000,
    5000000000, 10000000000, 20000000000, 50000000000, 100000000000,
};

// --- cells ---------------------------------------------------------------------------------------

static void add_to_ring(struct sl_live_ring *ring, uint64_t ns)
{
    ring->ns[ring->n++ % SL_LIVE_RING] = ns;
}

static void add_time(struct sl_living *l, enum sl_live_stage stage, uint64_t ns)
{
    struct sl_live_times *t = &l->times[stage];
    uint32_t i = 0;
    while (i < SL_LIVE_BUCKETS - 1 && ns > sl_live_bounds_ns[i])
        i++;
    t->bucket[i]++;
    t->count++;
    t->ns += ns;
    add_to_ring(&t->ring, ns);
    l->sums.count[stage]++;
    l->sums.ns[stage] += ns;
}

static void take_sampling(struct sl_living *l, const struct sl_batch_entry *e)
{
    add_time(l, SL_LIVE_SAMPLE, e->sample_ns);
    add_time(l, SL_LIVE_MARK, e->mark_ns);
    add_time(l, SL_LIVE_COPY, e->copy_ns);
    add_time(l, SL_LIVE_BACKPRESSURE, e->sample_wait_ns);
    l->sums.block_bytes += e->payload_bytes;
}

static void take_extraction(struct sl_living *l, const struct sl_batch_entry *e,
                            const struct sl_pauses *pauses)
{
    const struct sl_span queued = {e->ready_at_ns, e->claimed_at_ns};
    add_time(l, SL_LIVE_EXTRACT, e->extract_ns);
    add_time(l, SL_LIVE_WAIT, e->train_wait_ns);
    l->sums.hits += e->hits;
    l->sums.misses += e->n_input - SL_MIN(e->hits, (uint64_t)e->n_input);
    l->sums.hit_bytes += e->hit_bytes;
    l->sums.miss_bytes += e->miss_bytes;
    if (queued.to_ns > queued.from_ns)
        l->sums.queued_ns += queued.to_ns - queued.from_ns - sl_pauses_within_ns(pauses, queued);
}

// A trainer's threads share the loops' work evenly, so what its own took beyond that can not be
// shared; of one thread nothing is known of it.
static void take_cores(struct sl_living *l, const struct sl_batch_entry *e)
{
    if (e->draw_cpu_ns)
        add_to_ring(&l->draw_cpu, e->draw_cpu_ns);
    if (e->train_cpu_ns)
        add_to_ring(&l->train_cpu, e->train_cpu_ns + e->helpers_cpu_ns);
    if (e->train_cpu_ns && e->train_threads > 1)
        add_to_ring(&l->shared_cpu, e->helpers_cpu_ns * e->train_threads / (e->train_threads - 1));
}

static void take_training(struct sl_living *l, const struct sl_batch_entry *e,
                          const struct sl_update_entry *u, bool async)
{
    uint64_t train_ns = e->train_ns + u->took_ns;
    add_time(l, SL_LIVE_TRAIN, train_ns);
    add_to_ring(&l->sampling, e->sample_ns + e->mark_ns + e->copy_ns);
    add_to_ring(e->standby ? &l->standing_by : &l->training, SL_MAX(e->extract_ns, train_ns));
    take_cores(l, e);
    l->sums.batches++;
    l->sums.standby_batches += e->standby;
    if (!async)
        return;
    uint64_t stale = u->applied_version - SL_MIN(u->base_version, u->applied_version);
    l->sums.trained++;
    l->sums.stale += stale;
    l->staleness_max = SL_MAX(l->staleness_max, stale);
}

static void take_cell(struct sl_job *job, const struct sl_open_phase *phase, uint32_t cell)
{
    const struct sl_batch_entry *e = sl_ledger_entry(&job->arena, phase->seq, cell);
    const uint32_t kind = phase->spec.kind;
    struct sl_living *l = job->live.living;
    if (e->restored)
        return;
    l->sums.cells++;
    l->sums.edges += e->n_edges;
    l->sums.input_nodes += e->n_input;
    if (kind != SL_PHASE_INFER)
        take_sampling(l, e);
    if (kind == SL_PHASE_PRESAMPLE)
        return;
    if (kind != SL_PHASE_INFER)
        take_extraction(l, e, &job->pauses);
    if (kind == SL_PHASE_TRAIN)
        take_training(l, e, sl_ledger_update(&job->arena, phase->seq, cell),
                      job->config.updates.mode == SL_UPDATE_ASYNC);
    else
        add_time(l, SL_LIVE_EVALUATE, e->extract_ns + e->train_ns);
}

static bool is_over(const struct sl_job *job, const struct sl_open_phase *phase, uint32_t cell)
{
    return phase->spec.kind == SL_PHASE_TRAIN
               ? sl_board_is_applied(&job->arena, phase->seq, cell)
               : sl_cell_state(sl_ledger_word(&job->arena, phase->seq, cell)) == SL_CELL_DONE;
}

void sl_live_take_phase(struct sl_job *job, const struct sl_open_phase *phase)
{
    struct sl_living *l = job->live.living;
    uint64_t slot = phase->seq % SL_COUNT_OF(l->seen);
    uint64_t n = sl_div_up(phase->spec.n_items, phase->spec.batch_size);
    if (l->seen[slot].seq != phase->seq) {
        l->seen[slot].seq = phase->seq;
        l->seen[slot].cells = 0;
    }
    uint64_t i = l->seen[slot].cells;
    for (; i < n; i++) {
        job->live.entries++;
        if (!is_over(job, phase, (uint32_t)i))
            break;
        take_cell(job, phase, (uint32_t)i);
    }
    l->seen[slot].cells = i;
}

// --- seats ---------------------------------------------------------------------------------------

static void add_figures(struct sl_live_seat *s, const struct sl_worker_figures *now)
{
    s->sums.batches += now->batches - s->last.batches;
    s->sums.edges += now->edges - s->last.edges;
    s->sums.bytes += now->bytes - s->last.bytes;
    for (int i = 0; i < SL_STAGE_COUNT; i++)
        s->sums.stage_ns[i] += now->stage_ns[i] - s->last.stage_ns[i];
}

static void look_at_seat(struct sl_job *job, const struct sl_member *m)
{
    struct sl_live_seat *s = &job->live.living->seat[m->slot];
    const struct sl_worker_slot *slot = sl_stats_slot(&job->arena, m->slot);
    struct sl_worker_figures now;
    if (!m->alive || !m->ready) {
        s->held = false;
        return;
    }
    if (sl_stats_read(slot, &now)) {
        if (now.worker == s->last.worker)
            add_figures(s, &now);
        s->last = now;
        s->held = now.current_tag != 0;
    }
    if (sl_pauses_is_open(&job->pauses))
        return;
    uint32_t activity = atomic_load(&sl_seat(&job->arena, m->slot)->activity);
    s->sums.looks++;
    s->sums.held += s->held;
    s->sums.blocked += activity == SL_ACTIVITY_BLOCKED;
    s->sums.asleep += activity == SL_ACTIVITY_ASLEEP;
}

// --- looks ---------------------------------------------------------------------------------------

static void remember(struct sl_job *job)
{
    struct sl_living *l = job->live.living;
    struct sl_live_look *look = &l->looks[l->n_looks++ % SL_LIVE_LOOKS];
    look->ns = sl_now_ns();
    look->version = sl_board_version(&job->arena);
    look->staleness_max = l->staleness_max;
    look->sums = l->sums;
    for (uint32_t i = 0; i < job->crew.n; i++)
        look->seat[i] = l->seat[i].sums;
    l->staleness_max = 0;
}

void sl_live_take_cells(struct sl_job *job)
{
    for (uint32_t i = 0; i < job->phases.n_open; i++)
        sl_live_take_phase(job, sl_phases_at(&job->phases, i));
}

void sl_live_look(struct sl_job *job)
{
    sl_live_take_cells(job);
    for (uint32_t i = 0; i < job->crew.n; i++)
        look_at_seat(job, &job->crew.members[i]);
    remember(job);
}

bool sl_live_window(const struct sl_living *l, const struct sl_live_look **from,
                    const struct sl_live_look **to)
{
    if (l->n_looks < 2)
        return false;
    uint64_t last = l->n_looks - 1;
    uint64_t first = last - SL_MIN(last, (uint64_t)(SL_LIVE_LOOKS - 1));
    *to = &l->looks[last % SL_LIVE_LOOKS];
    *from = &l->looks[first % SL_LIVE_LOOKS];
    return (*to)->ns > (*from)->ns;
}

static int compare(const void *left, const void *right)
{
    uint64_t x = *(const uint64_t *)left, y = *(const uint64_t *)right;
    return (x > y) - (x < y);
}

double sl_live_percentile(struct sl_living *l, const struct sl_live_ring *ring, double p)
{
    uint64_t n = SL_MIN(ring->n, (uint64_t)SL_LIVE_RING);
    if (n == 0)
        return NAN;
    if (l->sorted_ring != ring || l->sorted_n != ring->n) {
        memcpy(l->sorted, ring->ns, n * sizeof *l->sorted);
        qsort(l->sorted, n, sizeof *l->sorted, compare);
        l->sorted_ring = ring;
        l->sorted_n = ring->n;
    }
    return (double)sl_figures_percentile(l->sorted, n, p) * 1e-9;
}

// --- processes -----------------------------------------------------------------------------------

// CPU time of a process, all threads; 0 when it is gone.
static uint64_t cpu_ns(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    // The name in parentheses may have anything in it; utime and stime are fields 14 and 15.
    const char *at = strrchr(text, ')');
    unsigned long long user, system;
    if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                      &system) != 2)
        return 0;
    return (user + system) * (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void look_at_process(struct sl_live_process *p, pid_t pid, double seconds)
{
    uint64_t ns = pid > 0 ? cpu_ns(pid) : 0;
    bool same = pid > 0 && pid == p->pid && ns >= p->cpu_ns && seconds > 0;
    p->load = same ? (double)(ns - p->cpu_ns) * 1e-9 / seconds : 0;
    p->pid = pid;
    p->cpu_ns = ns;
}

void sl_live_look_at_processes(struct sl_job *job)
{
    struct sl_living *l = job->live.living;
    uint64_t now = sl_now_ns();
    double seconds = l->processes_at_ns ? (double)(now - l->processes_at_ns) * 1e-9 : 0;
    l->processes_at_ns = now;
    look_at_process(&l->broker, getpid(), seconds);
    for (uint32_t i = 0; i < job->crew.n; i++) {
        const struct sl_member *m = &job->crew.members[i];
        look_at_process(&l->process[i], m->alive ? m->pid : 0, seconds);
    }
}
