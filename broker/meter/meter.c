#include "broker/meter/meter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/arena/nodes.h"
#include "common/arena/param_store.h"
#include "common/arena/seat.h"
#include "broker/workers/process_id.h"

enum { PACE_BATCHES = 5, PACE_READINGS = 10 };

// Upper bounds of the histograms' buckets: 0.1 ms .. 100 s, three a decade.
const uint64_t sl_meter_bounds_ns[SL_METER_BUCKETS - 1] = {
    100000,     200000,      500000,      1000000,     2000000,      5000000,    10000000,
    20000000,   50000000,    100000000,   200000000,   500000000,    1000000000, 2000000000,
    5000000000, 10000000000, 20000000000, 50000000000, 100000000000,
};

// --- cells ---------------------------------------------------------------------------------------

static void add_to_ring(struct sl_meter_ring *ring, uint64_t ns)
{
    ring->ns[ring->n++ % SL_METER_RING] = ns;
}

static void add_time(struct sl_meter *meter, enum sl_live_stage stage, uint64_t ns)
{
    struct sl_meter_times *t = &meter->times[stage];
    uint32_t i = 0;
    while (i < SL_METER_BUCKETS - 1 && ns > sl_meter_bounds_ns[i])
        i++;
    t->bucket[i]++;
    t->count++;
    t->ns += ns;
    add_to_ring(&t->ring, ns);
    meter->sums.count[stage]++;
    meter->sums.ns[stage] += ns;
}

static void add_sampling(struct sl_meter *meter, const struct sl_batch_entry *e)
{
    add_time(meter, SL_LIVE_SAMPLE, e->sample_ns);
    add_time(meter, SL_LIVE_MARK, e->mark_ns);
    add_time(meter, SL_LIVE_COPY, e->copy_ns);
    add_time(meter, SL_LIVE_BACKPRESSURE, e->sample_wait_ns);
    meter->sums.block_bytes += e->payload_bytes;
}

static uint64_t queued_ns(const struct sl_batch_entry *e, const struct sl_pauses *pauses)
{
    const struct sl_span queued = {e->ready_at_ns, e->claimed_at_ns};
    return queued.to_ns > queued.from_ns
               ? queued.to_ns - queued.from_ns - sl_pauses_within_ns(pauses, queued)
               : 0;
}

static void add_extraction(struct sl_meter *meter, const struct sl_batch_entry *e, uint64_t queued)
{
    add_time(meter, SL_LIVE_EXTRACT, e->extract_ns);
    add_time(meter, SL_LIVE_WAIT, e->train_wait_ns);
    meter->sums.blocks_near_bytes += e->near_bytes;
    meter->sums.hits += e->hits;
    meter->sums.misses += sl_batch_misses(e);
    meter->sums.hit_bytes += e->hit_bytes;
    meter->sums.matched_bytes += e->matched_bytes;
    meter->sums.miss_bytes += e->miss_bytes;
    meter->sums.fetch_ns += e->fetch_ns;
    meter->sums.queued_ns += queued;
}

// A trainer's threads share the loops' work evenly, so what its own took beyond that cannot be
// shared; of one thread nothing is known of it.
static void add_cores(struct sl_meter *meter, const struct sl_batch_entry *e)
{
    if (e->draw_cpu_ns)
        add_to_ring(&meter->draw_cpu, e->draw_cpu_ns);
    if (e->train_cpu_ns)
        add_to_ring(&meter->train_cpu, e->train_cpu_ns + e->helpers_cpu_ns);
    if (e->train_cpu_ns && e->train_threads > 1)
        add_to_ring(&meter->shared_cpu,
                    e->helpers_cpu_ns * e->train_threads / (e->train_threads - 1));
}

static void add_training(struct sl_meter *meter, const struct sl_batch_entry *e,
                         const struct sl_update_entry *u, bool async)
{
    uint64_t train_ns = e->train_ns + u->took_ns;
    add_time(meter, SL_LIVE_TRAIN, train_ns);
    add_to_ring(&meter->sampling, e->sample_ns + e->mark_ns + e->copy_ns);
    add_to_ring(e->standby ? &meter->standing_by : &meter->training,
                SL_MAX(e->extract_ns, train_ns));
    add_cores(meter, e);
    meter->sums.batches++;
    meter->sums.standby_batches += e->standby;
    if (!async)
        return;
    uint64_t stale = u->applied_version - SL_MIN(u->base_version, u->applied_version);
    meter->sums.trained++;
    meter->sums.stale += stale;
    meter->staleness_max = SL_MAX(meter->staleness_max, stale);
}

// A cell that this node's workers did.
static void add_own(struct sl_meter_own *own, const struct sl_batch_entry *e, uint32_t kind,
                    uint64_t queued)
{
    own->batches += kind == SL_PHASE_TRAIN || kind == SL_PHASE_LEND;
    own->input_nodes += e->n_input;
    own->fetch_ns += e->fetch_ns;
    own->queued_ns += queued;
}

static void add_cell(struct sl_meter *meter, const struct sl_open_phase *phase, uint32_t cell)
{
    const struct sl_batch_entry *e = sl_ledger_entry(meter->arena, phase->seq, cell);
    const uint32_t kind = phase->spec.kind;
    if (!sl_batch_is_timed(e))
        return;
    meter->sums.cells++;
    meter->sums.edges += e->n_edges;
    meter->sums.input_nodes += e->n_input;
    if (kind != SL_PHASE_INFER)
        add_sampling(meter, e);
    if (kind == SL_PHASE_PRESAMPLE)
        return;
    const uint64_t queued = kind != SL_PHASE_INFER ? queued_ns(e, meter->pauses) : 0;
    if (kind != SL_PHASE_INFER)
        add_extraction(meter, e, queued);
    if (sl_nodes_is_own(meter->arena, kind, cell))
        add_own(&meter->sums.own, e, kind, queued);
    if (kind == SL_PHASE_TRAIN || kind == SL_PHASE_LEND)
        add_training(meter, e, sl_ledger_update(meter->arena, phase->seq, cell),
                     meter->arena->h->spec.async);
    else
        add_time(meter, SL_LIVE_EVALUATE, e->extract_ns + e->train_ns);
}

static bool is_over(const struct sl_meter *meter, const struct sl_open_phase *phase, uint32_t cell)
{
    return phase->spec.kind == SL_PHASE_TRAIN
               ? sl_param_store_is_applied(meter->arena, phase->seq, cell)
               : sl_cell_state(sl_ledger_word(meter->arena, phase->seq, cell)) == SL_CELL_DONE;
}

void sl_meter_on_phase(struct sl_meter *meter, const struct sl_open_phase *phase)
{
    uint64_t slot = phase->seq % SL_COUNT_OF(meter->seen);
    uint64_t n = sl_div_up(phase->spec.n_items, phase->spec.batch_size);
    if (meter->seen[slot].seq != phase->seq) {
        meter->seen[slot].seq = phase->seq;
        meter->seen[slot].cells = 0;
    }
    uint64_t i = meter->seen[slot].cells;
    for (; i < n; i++) {
        meter->entries++;
        if (!is_over(meter, phase, (uint32_t)i))
            break;
        add_cell(meter, phase, (uint32_t)i);
    }
    meter->seen[slot].cells = i;
}

// --- seats ---------------------------------------------------------------------------------------

static void add_figures(struct sl_meter_seat *s, const struct sl_worker_totals *now)
{
    s->sums.batches += now->batches - s->last.batches;
    s->sums.training += now->training - s->last.training;
    s->sums.edges += now->edges - s->last.edges;
    s->sums.bytes += now->bytes - s->last.bytes;
    for (int i = 0; i < SL_STAGE_COUNT; i++)
        s->sums.stage_ns[i] += now->stage_ns[i] - s->last.stage_ns[i];
}

static void poll_seat(struct sl_meter *meter, const struct sl_pool_worker *w)
{
    struct sl_meter_seat *s = &meter->seat[w->slot];
    const struct sl_worker_slot *slot = sl_stats_slot(meter->arena, w->slot);
    struct sl_worker_totals now;
    if (!w->alive || !w->ready) {
        s->held = false;
        return;
    }
    if (sl_stats_read(slot, &now)) {
        if (now.worker == s->last.worker)
            add_figures(s, &now);
        s->last = now;
        s->held = now.current_tag != 0;
    }
    if (sl_pauses_is_open(meter->pauses))
        return;
    uint32_t activity = atomic_load(&sl_seat(meter->arena, w->slot)->activity);
    s->sums.readings++;
    s->sums.held += s->held;
    s->sums.blocked += activity == SL_ACTIVITY_BLOCKED;
    s->sums.asleep += activity == SL_ACTIVITY_ASLEEP;
}

// --- readings ------------------------------------------------------------------------------------

static void remember(struct sl_meter *meter)
{
    struct sl_meter_reading *now = &meter->readings[meter->n_readings++ % SL_METER_READINGS];
    now->ns = sl_now_ns();
    now->version = sl_param_store_version(meter->arena);
    now->staleness_max = meter->staleness_max;
    now->sums = meter->sums;
    for (uint32_t i = 0; i < meter->workers->n; i++)
        now->seat[i] = meter->seat[i].sums;
    meter->staleness_max = 0;
}

void sl_meter_poll_cells(struct sl_meter *meter)
{
    for (uint32_t i = 0; i < meter->phases->n_open; i++)
        sl_meter_on_phase(meter, sl_phases_at(meter->phases, i));
}

void sl_meter_begin(struct sl_meter *meter)
{
    meter->there = true;
    meter->first_version = sl_param_store_version(meter->arena);
}

void sl_meter_read(struct sl_meter *meter)
{
    sl_meter_poll_cells(meter);
    for (uint32_t i = 0; i < meter->workers->n; i++)
        poll_seat(meter, &meter->workers->list[i]);
    remember(meter);
}

bool sl_meter_window(const struct sl_meter *meter, const struct sl_meter_reading **from,
                     const struct sl_meter_reading **to)
{
    if (meter->n_readings < 2)
        return false;
    uint64_t last = meter->n_readings - 1;
    uint64_t first = last - SL_MIN(last, (uint64_t)(SL_METER_READINGS - 1));
    *to = &meter->readings[last % SL_METER_READINGS];
    *from = &meter->readings[first % SL_METER_READINGS];
    return (*to)->ns > (*from)->ns;
}

static int compare(const void *left, const void *right)
{
    uint64_t x = *(const uint64_t *)left, y = *(const uint64_t *)right;
    return (x > y) - (x < y);
}

void sl_meter_percentiles(const struct sl_meter_ring *ring, uint32_t n, const double *p,
                          double *seconds)
{
    uint64_t sorted[SL_METER_RING], kept = SL_MIN(ring->n, (uint64_t)SL_METER_RING);
    memcpy(sorted, ring->ns, kept * sizeof *sorted);
    qsort(sorted, kept, sizeof *sorted, compare);
    for (uint32_t i = 0; i < n; i++)
        seconds[i] = kept ? (double)sl_epoch_percentile(sorted, kept, p[i]) * 1e-9 : NAN;
}

double sl_meter_median(const struct sl_meter_ring *ring)
{
    double seconds = NAN;
    sl_meter_percentiles(ring, 1, &(double){50}, &seconds);
    return seconds;
}

double sl_meter_rate(const struct sl_meter *meter, bool trains)
{
    const struct sl_meter_reading *from, *to;
    if (!sl_meter_window(meter, &from, &to))
        return 0;
    double seconds = (double)(to->ns - from->ns) * 1e-9;
    uint64_t n = trains ? to->sums.batches - from->sums.batches : to->sums.cells - from->sums.cells;
    return (double)n / seconds;
}

double sl_meter_pace(const struct sl_meter *meter, uint64_t since_ns)
{
    uint64_t readings = SL_MIN(meter->n_readings, (uint64_t)SL_METER_READINGS);
    if (readings <= PACE_READINGS || sl_pauses_is_open(meter->pauses))
        return 0;
    const uint64_t end = meter->n_readings;
    const struct sl_meter_reading *to = &meter->readings[(end - 1) % SL_METER_READINGS];
    const struct sl_meter_reading *from = &meter->readings[(end - readings) % SL_METER_READINGS];
    uint64_t batches = to->sums.batches - from->sums.batches;
    uint64_t others = to->sums.cells - from->sums.cells - batches;
    double seconds = sl_pauses_seconds_without(meter->pauses, (struct sl_span){from->ns, to->ns});
    bool steady = from->ns >= since_ns && batches >= PACE_BATCHES && others == 0 && seconds > 0;
    return steady ? (double)batches / seconds : 0;
}

// --- processes -----------------------------------------------------------------------------------

// CPU time of a process, all threads; 0 when it is gone.
static uint64_t cpu_ns(pid_t pid)
{
    struct sl_process_stat stat;
    if (!sl_process_id_stat(pid, &stat))
        return 0;
    return stat.cpu_ticks * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void poll_process(struct sl_meter_process *p, pid_t pid, double seconds)
{
    uint64_t ns = pid > 0 ? cpu_ns(pid) : 0;
    bool same = pid > 0 && pid == p->pid && ns >= p->cpu_ns && seconds > 0;
    p->load = same ? (double)(ns - p->cpu_ns) * 1e-9 / seconds : 0;
    p->pid = pid;
    p->cpu_ns = ns;
}

void sl_meter_read_processes(struct sl_meter *meter)
{
    uint64_t now = sl_now_ns();
    double seconds = meter->processes_at_ns ? (double)(now - meter->processes_at_ns) * 1e-9 : 0;
    meter->processes_at_ns = now;
    poll_process(&meter->broker, getpid(), seconds);
    for (uint32_t i = 0; i < meter->workers->n; i++) {
        const struct sl_pool_worker *w = &meter->workers->list[i];
        poll_process(&meter->process[i], w->alive ? w->pid : 0, seconds);
    }
}

void sl_meter_on_epoch(struct sl_meter *meter, const struct sl_epoch *figures)
{
    meter->loss = figures->loss;
    meter->last_epoch_seconds = figures->seconds + figures->evaluate_seconds;
    if (!figures->evaluated)
        return;
    meter->has_metric = true;
    meter->metric_epoch = figures->epoch;
    meter->metric = figures->on_val.value[meter->phases->measure];
}
