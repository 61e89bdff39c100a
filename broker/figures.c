#include "broker/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

int sl_figures_scratch_init(struct sl_figures_scratch *s, uint64_t n_cells)
{
    s->capacity = n_cells;
    s->a = malloc(n_cells * sizeof *s->a);
    s->b = malloc(n_cells * sizeof *s->b);
    if (s->a && s->b)
        return SL_OK;
    sl_figures_scratch_fini(s);
    return sl_fail(SL_ENOMEM, "no memory for the times of %llu batches",
                   (unsigned long long)n_cells);
}

void sl_figures_scratch_fini(struct sl_figures_scratch *s)
{
    free(s->a);
    free(s->b);
    memset(s, 0, sizeof *s);
}

static int compare(const void *left, const void *right)
{
    uint64_t x = *(const uint64_t *)left, y = *(const uint64_t *)right;
    return (x > y) - (x < y);
}

uint64_t sl_figures_percentile(const uint64_t *sorted, uint64_t n, double p)
{
    double rank = p / 100.0 * (double)n;
    uint64_t at = (uint64_t)rank;
    if ((double)at < rank)
        at++;
    return sorted[SL_MIN(SL_MAX(at, 1u), n) - 1];
}

// Sorts `ns`.
static void take_stage(struct sl_stage_figures *stage, uint64_t *ns, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += ns[i];
    qsort(ns, n, sizeof *ns, compare);
    stage->seconds += (double)sum * 1e-9;
    stage->count += n;
    stage->p50 = (double)sl_figures_percentile(ns, n, 50) * 1e-9;
    stage->p99 = (double)sl_figures_percentile(ns, n, 99) * 1e-9;
}

#define TAKE_STAGE(stage_, field_)                                                                 \
    do {                                                                                           \
        for (uint64_t i = 0; i < n; i++)                                                           \
            scratch->a[i] = entries[i].field_;                                                     \
        take_stage(&f->stage_, scratch->a, n);                                                     \
    } while (0)

/*
 * A batch lies in the queue from ready_at to claimed_at. By Little's law the mean depth is the sum
 * of these times over the epoch's; the greatest depth comes from walking through arrivals and
 * departures in order. Time before the epoch began (its first batches were drawn ahead) is left
 * out of the mean.
 */
static void take_queue(struct sl_epoch_figures *f, const struct sl_batch_entry *entries, uint64_t n,
                       struct sl_span when, struct sl_figures_scratch *scratch)
{
    uint64_t lain = 0, *ready = scratch->a, *claimed = scratch->b;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t from = SL_MAX(entries[i].ready_at_ns, when.from_ns);
        if (entries[i].claimed_at_ns > from)
            lain += entries[i].claimed_at_ns - from;
        ready[i] = entries[i].ready_at_ns;
        claimed[i] = SL_MAX(entries[i].claimed_at_ns, entries[i].ready_at_ns);
    }
    qsort(ready, n, sizeof *ready, compare);
    qsort(claimed, n, sizeof *claimed, compare);
    uint64_t depth = 0, deepest = 0;
    for (uint64_t i = 0, j = 0; i < n;) {
        if (ready[i] <= claimed[j]) {
            depth++;
            i++;
        } else {
            depth--;
            j++;
        }
        deepest = SL_MAX(deepest, depth);
    }
    double seconds = sl_span_seconds(when);
    f->queue_mean = seconds > 0 ? (double)lain * 1e-9 / seconds : 0;
    f->queue_max = deepest;
}

void sl_figures_take_training(struct sl_epoch_figures *f, const struct sl_batch_entry *entries,
                              uint64_t n, struct sl_span when, struct sl_figures_scratch *scratch)
{
    double loss = 0;
    uint64_t correct = 0, counted = 0;
    f->batches = n;
    f->seconds = sl_span_seconds(when);
    for (uint64_t i = 0; i < n; i++) {
        loss += entries[i].loss;
        correct += entries[i].correct;
        counted += entries[i].counted;
        f->sampled_edges += entries[i].n_edges;
        f->input_nodes += entries[i].n_input;
        f->block_bytes += entries[i].payload_bytes;
        f->feature_bytes += entries[i].extract_bytes;
    }
    f->loss = counted ? loss / (double)counted : 0;
    f->train_accuracy = counted ? (double)correct / (double)counted : 0;
    if (n == 0)
        return;
    TAKE_STAGE(sample, sample_ns);
    TAKE_STAGE(backpressure, sample_wait_ns);
    TAKE_STAGE(extract, extract_ns);
    TAKE_STAGE(train, train_ns);
    TAKE_STAGE(wait, train_wait_ns);
    take_queue(f, entries, n, when, scratch);
}

void sl_figures_take_evaluation(struct sl_epoch_figures *f, const struct sl_batch_entry *entries,
                                uint64_t n, struct sl_span when, struct sl_figures_scratch *scratch)
{
    struct sl_stage_figures phase = {0};
    f->evaluate_seconds += sl_span_seconds(when);
    if (n == 0)
        return;
    for (uint64_t i = 0; i < n; i++)
        scratch->a[i] = entries[i].sample_ns + entries[i].extract_ns + entries[i].train_ns;
    take_stage(&phase, scratch->a, n);
    // The layers of one evaluation have cells of different weight: mixing them would say nothing.
    if (phase.seconds >= f->heaviest_seconds) {
        f->heaviest_seconds = phase.seconds;
        f->evaluate.p50 = phase.p50;
        f->evaluate.p99 = phase.p99;
    }
    f->evaluate.seconds += phase.seconds;
    f->evaluate.count += phase.count;
}

void sl_figures_end_earlier(struct sl_epoch_figures *f, uint64_t ns)
{
    double seconds = f->seconds - (double)ns * 1e-9;
    if (seconds <= 0)
        return;
    f->queue_mean *= f->seconds / seconds;
    f->seconds = seconds;
}

// --- the bottleneck ------------------------------------------------------------------------------

// Share of `workers` x the epoch's time that a stage took, in percent.
static double share(const struct sl_stage_figures *stage, uint32_t workers, double seconds)
{
    double have = seconds * (double)SL_MAX(workers, 1u);
    return have > 0 ? SL_MIN(100.0 * stage->seconds / have, 100.0) : 0;
}

/*
 * The question is who waits for whom. Trainers that wait while batches lie ready wait for one
 * another (ordered updates); trainers that wait in front of an empty queue wait for samplers.
 * Samplers that wait for memory wait for trainers to free it.
 */
void sl_figures_name_bottleneck(struct sl_epoch_figures *f, uint32_t batches_per_update)
{
    double waited = share(&f->wait, f->trainers, f->seconds);
    double blocked = share(&f->backpressure, f->samplers, f->seconds);
    double sampling = share(&f->sample, f->samplers, f->seconds);
    double training = share(&f->train, f->trainers, f->seconds);
    double extracting = share(&f->extract, f->trainers, f->seconds);
    double all = f->seconds + f->evaluate_seconds;
    double evaluating = all > 0 ? 100.0 * f->evaluate_seconds / all : 0;
    char *out = f->bottleneck;
    const size_t bytes = sizeof f->bottleneck;

    if (evaluating > 50) {
        snprintf(out, bytes,
                 "evaluation: %.0f %% of the epoch's %.3g s (set evaluate.every to evaluate less "
                 "often)",
                 evaluating, all);
        return;
    }
    if (waited >= 20 && waited > blocked) {
        if (f->trainers > 1 && f->queue_mean >= 1 && batches_per_update < 2 * f->trainers)
            snprintf(out, bytes,
                     "updates: trainers waited %.0f %% of the time for one another's gradients "
                     "(%u trainers, updates of %u batch%s) while %.1f batches lay ready",
                     waited, f->trainers, batches_per_update, batches_per_update == 1 ? "" : "es",
                     f->queue_mean);
        else
            snprintf(out, bytes,
                     "samplers: trainers waited %.0f %% of the time, %.1f batches lay ready on "
                     "average, samplers drew %.0f %% of the time",
                     waited, f->queue_mean, sampling);
        return;
    }
    int n = 0;
    if (extracting > training)
        n = snprintf(out, bytes,
                     "trainers: extraction took %.0f %% of the time, forward and backward %.0f %%",
                     extracting, training);
    else
        n = snprintf(out, bytes, "trainers: forward and backward took %.0f %% of the time",
                     training);
    if (n > 0 && (size_t)n < bytes) {
        if (blocked >= 5)
            snprintf(out + n, bytes - (size_t)n, "; samplers waited for memory %.0f %%", blocked);
        else
            snprintf(out + n, bytes - (size_t)n,
                     "; samplers drew only %.0f %%, %.1f batches lay "
                     "ready on average",
                     sampling, f->queue_mean);
    }
}
