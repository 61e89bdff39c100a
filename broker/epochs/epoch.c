#include "broker/epochs/epoch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/units.h"
#include "common/text/sentence.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/arena/nodes.h"

int sl_epoch_scratch_init(struct sl_epoch_scratch *s, uint64_t n_cells)
{
    s->capacity = n_cells;
    s->a = malloc(n_cells * sizeof *s->a);
    s->b = malloc(n_cells * sizeof *s->b);
    s->warm = calloc(SL_EPOCH_WORKERS, 1);
    if (s->a && s->b && s->warm)
        return SL_OK;
    sl_epoch_scratch_fini(s);
    return sl_fail(SL_ENOMEM, "no memory for the times of %llu batches",
                   (unsigned long long)n_cells);
}

void sl_epoch_scratch_fini(struct sl_epoch_scratch *s)
{
    free(s->a);
    free(s->b);
    free(s->warm);
    memset(s, 0, sizeof *s);
}

static int compare(const void *left, const void *right)
{
    uint64_t x = *(const uint64_t *)left, y = *(const uint64_t *)right;
    return (x > y) - (x < y);
}

uint64_t sl_epoch_percentile(const uint64_t *sorted, uint64_t n, double p)
{
    double rank = p / 100.0 * (double)n;
    uint64_t at = (uint64_t)rank;
    if ((double)at < rank)
        at++;
    return sorted[SL_MIN(SL_MAX(at, 1u), n) - 1];
}

// Sorts `ns`.
static void take_stage(struct sl_report_stage *stage, uint64_t *ns, uint64_t n)
{
    uint64_t sum = 0;
    if (n == 0)
        return;
    for (uint64_t i = 0; i < n; i++)
        sum += ns[i];
    qsort(ns, n, sizeof *ns, compare);
    stage->seconds += (double)sum * 1e-9;
    stage->count += (double)n;
    stage->p50 = (double)sl_epoch_percentile(ns, n, 50) * 1e-9;
    stage->p99 = (double)sl_epoch_percentile(ns, n, 99) * 1e-9;
}

#define TAKE_STAGE(stage_, ns_of_i_)                                                               \
    do {                                                                                           \
        uint64_t known = 0;                                                                        \
        for (uint64_t i = 0; i < n; i++)                                                           \
            if (sl_batch_is_timed(&entries[i]))                                                    \
                scratch->a[known++] = (ns_of_i_);                                                  \
        take_stage(&f->stages.stage_, scratch->a, known);                                          \
    } while (0)

/*
 * A batch lies in the queue from ready_at to claimed_at. By Little's law the mean depth is the sum
 * of these times over the epoch's; the greatest depth comes from walking through arrivals and
 * departures in order. Time before the epoch began (its first batches were drawn ahead) is left
 * out of the mean.
 */
static void take_queue(struct sl_epoch *f, const struct sl_batch_entry *entries, uint64_t n,
                       struct sl_span when, struct sl_epoch_scratch *scratch)
{
    uint64_t lain = 0, known = 0, *ready = scratch->a, *claimed = scratch->b;
    for (uint64_t i = 0; i < n; i++) {
        if (!sl_batch_is_timed(&entries[i]))
            continue;
        uint64_t from = SL_MAX(entries[i].ready_at_ns, when.from_ns);
        if (entries[i].claimed_at_ns > from)
            lain +=
                entries[i].claimed_at_ns - from -
                sl_pauses_within_ns(f->pauses, (struct sl_span){from, entries[i].claimed_at_ns});
        ready[known] = entries[i].ready_at_ns;
        claimed[known++] = SL_MAX(entries[i].claimed_at_ns, entries[i].ready_at_ns);
    }
    qsort(ready, known, sizeof *ready, compare);
    qsort(claimed, known, sizeof *claimed, compare);
    uint64_t depth = 0, deepest = 0;
    for (uint64_t i = 0, j = 0; i < known;) {
        if (ready[i] <= claimed[j]) {
            depth++;
            i++;
        } else {
            depth--;
            j++;
        }
        deepest = SL_MAX(deepest, depth);
    }
    double seconds = f->seconds;
    f->queue.depth_mean = seconds > 0 ? (double)lain * 1e-9 / seconds : 0;
    f->queue.depth_max = deepest;
}

// --- the profile ---------------------------------------------------------------------------------

// One more batch of a worker; true while it is warming up.
static bool warms_up(struct sl_epoch_scratch *scratch, uint32_t worker)
{
    // Ids of other nodes' workers differ in bits above (common/arena/nodes.h).
    uint8_t *seen = &scratch->warm[(worker ^ worker >> 24 << 8) % SL_EPOCH_WORKERS];
    if (*seen == SL_EPOCH_WARM_UP)
        return false;
    ++*seen;
    return true;
}

// Median of the times of warm workers, of all where these are all there are. Sorts.
static double median_seconds(uint64_t *warm, uint64_t n_warm, uint64_t *cold, uint64_t n_cold)
{
    uint64_t n = n_warm ? n_warm : n_cold, *ns = n_warm ? warm : cold;
    if (n == 0)
        return 0;
    qsort(ns, n, sizeof *ns, compare);
    return (double)sl_epoch_percentile(ns, n, 50) * 1e-9;
}

static uint64_t sampling_ns(const struct sl_batch_entry *e)
{
    return e->sample_ns + e->mark_ns + e->copy_ns;
}

// Of a trainer for one batch. An update's time is the batch's that it stands with.
static uint64_t training_ns(const struct sl_batch_entry *e, const struct sl_update_entry *u)
{
    return e->train_ns + u->took_ns;
}

// Warm times go to scratch->a, cold ones to scratch->b.
static void take_profile(struct sl_epoch *f, const struct sl_batch_entry *entries,
                         const struct sl_update_entry *updates, uint64_t n,
                         struct sl_epoch_scratch *scratch)
{
    uint64_t *warm = scratch->a, *cold = scratch->b, n_warm = 0, n_cold = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t ns = sampling_ns(&entries[i]);
        if (!sl_batch_is_timed(&entries[i]))
            continue;
        if (warms_up(scratch, entries[i].sampler))
            cold[n_cold++] = ns;
        else
            warm[n_warm++] = ns;
    }
    f->profile.t_sample = median_seconds(warm, n_warm, cold, n_cold);

    // Normal trainers' times from the front, standby trainers' from the back.
    uint64_t warm_back = scratch->capacity, cold_back = scratch->capacity;
    n_warm = n_cold = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct sl_batch_entry *e = &entries[i];
        uint64_t ns = SL_MAX(e->extract_ns, training_ns(e, &updates[i]));
        if (!sl_batch_is_timed(e))
            continue;
        bool is_cold = warms_up(scratch, e->trainer);
        if (e->standby && is_cold)
            cold[--cold_back] = ns;
        else if (e->standby)
            warm[--warm_back] = ns;
        else if (is_cold)
            cold[n_cold++] = ns;
        else
            warm[n_warm++] = ns;
    }
    f->profile.t_train = median_seconds(warm, n_warm, cold, n_cold);
    f->profile.t_standby = median_seconds(warm + warm_back, scratch->capacity - warm_back,
                                          cold + cold_back, scratch->capacity - cold_back);
}

static void take_switching(struct sl_epoch *f)
{
    if (f->switching.batches == 0)
        f->switching.seconds_saved = 0;
    else if (f->trainers == 0)
        f->switching.seconds_saved = NAN;
    else // where the standby trainers did it all, theirs is the only time there is
        f->switching.seconds_saved =
            (double)f->switching.batches *
            (f->profile.t_train > 0 ? f->profile.t_train : f->profile.t_standby) / f->trainers;
}

// --- an epoch ------------------------------------------------------------------------------------

static void take_sums(struct sl_epoch *f, const struct sl_batch_entry *entries,
                      const struct sl_update_entry *updates, uint64_t n)
{
    double loss = 0, weight = 0;
    uint64_t correct = 0, counted = 0, staleness = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct sl_batch_entry *e = &entries[i];
        f->left += e->left;
        if (e->left)
            continue;
        loss += e->loss;
        weight += e->weight;
        correct += e->correct;
        counted += e->counted;
        f->sampled_edges += e->n_edges;
        f->input_nodes += e->n_input;
        f->hard_negatives += e->n_hard;
        f->hard_missing += e->n_hard_missing;
        f->bytes.blocks += e->payload_bytes;
        f->bytes.blocks_near += e->near_bytes;
        f->cache.hits += e->hits;
        f->cache.misses += sl_batch_misses(e);
        f->cache.hit_bytes += e->hit_bytes;
        f->cache.matched += e->matched;
        f->cache.matched_bytes += e->matched_bytes;
        f->cache.miss_bytes += e->miss_bytes;
        f->store.cached += e->rows_found;
        f->store.read += e->rows_read;
        f->store.beside += e->rows_beside;
        f->store.read_bytes += e->drive_bytes;
        f->store.seconds += (double)e->fetch_ns * 1e-9;
        f->store.remote_rows += (double)(e->remote_rows + e->remote_beside);
        f->store.remote_bytes += (double)(e->remote_bytes + e->remote_beside_bytes);
        if (e->standby) {
            f->switching.batches++;
        } else {
            f->normal_extract += (double)e->extract_ns * 1e-9;
            f->normal_train += (double)training_ns(e, &updates[i]) * 1e-9;
            f->normal_wait += (double)e->train_wait_ns * 1e-9;
        }
        uint64_t stale = updates[i].applied_version - updates[i].base_version;
        staleness += stale;
        f->updates.staleness_max = SL_MAX(f->updates.staleness_max, stale);
    }
    f->bytes.features = f->cache.hit_bytes + f->cache.matched_bytes + f->cache.miss_bytes;
    f->batches -= f->left;
    f->loss = f->lent ? NAN : weight > 0 ? loss / weight : 0;
    f->train_accuracy = counted                 ? (double)correct / (double)counted
                        : weight > 0 || f->lent ? NAN
                                                : 0;
    if (f->async && n > 0)
        f->updates.staleness_mean = (double)staleness / (double)n;
    else
        f->updates.staleness_max = 0;
}

void sl_epoch_add_training(struct sl_epoch *f, const struct sl_batch_entry *entries,
                           const struct sl_update_entry *updates, uint64_t n, struct sl_span when,
                           struct sl_epoch_scratch *scratch)
{
    f->batches = n;
    f->seconds = sl_pauses_seconds_without(f->pauses, when);
    f->paused_seconds = sl_span_seconds(when) - f->seconds;
    take_sums(f, entries, updates, n);
    if (n == 0)
        return;
    TAKE_STAGE(sample, entries[i].sample_ns);
    TAKE_STAGE(mark, entries[i].mark_ns);
    TAKE_STAGE(copy, entries[i].copy_ns);
    TAKE_STAGE(backpressure, entries[i].sample_wait_ns);
    TAKE_STAGE(extract, entries[i].extract_ns);
    TAKE_STAGE(train, training_ns(&entries[i], &updates[i]));
    TAKE_STAGE(wait, entries[i].train_wait_ns);
    take_queue(f, entries, n, when, scratch);
    take_profile(f, entries, updates, n, scratch);
    take_switching(f);
}

// Sorts.
static uint32_t count_distinct(uint64_t *ids, uint64_t n)
{
    uint32_t distinct = 0;
    qsort(ids, n, sizeof *ids, compare);
    for (uint64_t i = 0; i < n; i++)
        distinct += i == 0 || ids[i] != ids[i - 1];
    return distinct;
}

void sl_epoch_add_others(struct sl_epoch *f, const struct sl_arena *a,
                         const struct sl_batch_entry *entries, uint64_t n,
                         struct sl_epoch_scratch *scratch)
{
    uint64_t samplers = 0, trainers = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct sl_batch_entry *e = &entries[i];
        if (sl_nodes_worker_node(a, e->trainer) == a->h->spec.nodes.rank)
            continue;
        scratch->a[samplers++] = e->sampler;
        if (!e->standby)
            scratch->b[trainers++] = e->trainer;
    }
    f->samplers += count_distinct(scratch->a, samplers);
    f->trainers += count_distinct(scratch->b, trainers);
}

// Of an update's cells, [cell, end): the node whose last batch was done last, and how long after
// those of all others. Nothing of it is before from_ns. False: only one node had any, or it is not
// known.
static bool find_last(const struct sl_arena *a, const struct sl_batch_entry *entries, uint64_t cell,
                      uint64_t end, uint64_t from_ns, uint32_t *node, struct sl_span *late)
{
    uint64_t done[SL_NODES_MAX] = {0}, last = 0, before = 0;
    for (; cell < end; cell++) {
        const uint32_t of = sl_nodes_owner(a, SL_PHASE_TRAIN, (uint32_t)cell);
        if (!sl_batch_is_timed(&entries[cell]))
            return false;
        done[of] = SL_MAX(SL_MAX(done[of], entries[cell].done_at_ns), from_ns);
    }
    for (uint32_t i = 0; i < a->h->spec.nodes.n; i++) {
        if (done[i] > last) {
            before = last;
            last = done[i];
            *node = i;
        } else {
            before = SL_MAX(before, done[i]);
        }
    }
    *late = (struct sl_span){before, last};
    return before > 0;
}

/*
 * A batch is trained with what all batches of the updates before made, and so done after them.
 * Where another node's clock says otherwise, by as little as clocks can be compared, it is wrong:
 * the time that is found is never longer than the epoch's.
 */
void sl_epoch_find_latest(struct sl_epoch *f, const struct sl_arena *a,
                          const struct sl_batch_entry *entries, uint64_t n, struct sl_span when)
{
    const uint64_t each = a->h->spec.batches_per_update;
    double seconds[SL_NODES_MAX] = {0};
    struct sl_span late = {when.from_ns, when.from_ns};
    uint32_t node = 0, latest = 0;
    for (uint64_t cell = 0; cell < n; cell += each)
        if (find_last(a, entries, cell, SL_MIN(cell + each, n), late.to_ns, &node, &late))
            seconds[node] += sl_pauses_seconds_without(f->pauses, late);
    for (uint32_t i = 1; i < a->h->spec.nodes.n; i++)
        latest = seconds[i] > seconds[latest] ? i : latest;
    f->several_nodes = true;
    f->latest.node = latest;
    f->latest.seconds = seconds[latest];
}

uint64_t sl_epoch_first_update_ns(const struct sl_update_entry *updates, uint64_t n)
{
    uint64_t first = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t applied = updates[i].from_ns + updates[i].took_ns;
        if (updates[i].from_ns && (!first || applied < first))
            first = applied;
    }
    return first;
}

void sl_epoch_add_evaluation(struct sl_epoch *f, const struct sl_batch_entry *entries, uint64_t n,
                             struct sl_span when, struct sl_epoch_scratch *scratch)
{
    struct sl_report_stage phase = {0};
    double seconds = sl_pauses_seconds_without(f->pauses, when);
    f->evaluate_seconds += seconds;
    f->paused_seconds += sl_span_seconds(when) - seconds;
    if (n == 0)
        return;
    for (uint64_t i = 0; i < n; i++)
        scratch->a[i] = sampling_ns(&entries[i]) + entries[i].extract_ns + entries[i].train_ns;
    take_stage(&phase, scratch->a, n);
    // The layers of one evaluation have cells of different weight: mixing them would say nothing.
    if (phase.seconds >= f->heaviest_seconds) {
        f->heaviest_seconds = phase.seconds;
        f->stages.evaluate.p50 = phase.p50;
        f->stages.evaluate.p99 = phase.p99;
    }
    f->stages.evaluate.seconds += phase.seconds;
    f->stages.evaluate.count += phase.count;
}

void sl_epoch_add_overlap(struct sl_epoch *f, struct sl_span beside)
{
    double seconds = sl_pauses_seconds_without(f->pauses, beside);
    f->overlapped_seconds += seconds;
    f->evaluate_seconds = SL_MAX(f->evaluate_seconds - seconds, 0.0);
    f->paused_seconds -= sl_span_seconds(beside) - seconds;
}

void sl_epoch_end_earlier(struct sl_epoch *f, bool training, struct sl_span late)
{
    if (late.from_ns >= late.to_ns)
        return;
    double worked = sl_pauses_seconds_without(f->pauses, late);
    f->paused_seconds -= sl_span_seconds(late) - worked;
    if (!training) {
        f->evaluate_seconds -= worked;
    } else if (worked < f->seconds) {
        f->queue.depth_mean *= f->seconds / (f->seconds - worked);
        f->seconds -= worked;
    }
}

// --- the bottleneck ------------------------------------------------------------------------------

// Share of `workers` x the epoch's time that so many seconds are, in percent.
static double share(double seconds, uint32_t workers, double of_seconds)
{
    double have = of_seconds * (double)SL_MAX(workers, 1u);
    return have > 0 ? SL_MIN(100.0 * seconds / have, 100.0) : 0;
}

// Where an epoch's time went, in percent. Trainers' shares are of the normal trainers' time; where
// there are none, standby trainers take turns with the samplers and all shares are of the devices'.
struct shares {
    double sampling, blocked, training, extracting, waiting, evaluating;
    double fetching; // a trainer fetches one batch at a time
    double late;     // of the epoch's time, for one node
};

static struct shares find_shares(const struct sl_epoch *f)
{
    bool normal = f->trainers > 0;
    uint32_t trainers = normal ? f->trainers : f->samplers;
    double all = f->seconds + f->evaluate_seconds;
    double sampling = f->stages.sample.seconds + f->stages.mark.seconds + f->stages.copy.seconds;
    return (struct shares){
        .sampling = share(sampling, f->samplers, f->seconds),
        .blocked = share(f->stages.backpressure.seconds, f->samplers, f->seconds),
        .training = share(normal ? f->normal_train : f->stages.train.seconds, trainers, f->seconds),
        .extracting =
            share(normal ? f->normal_extract : f->stages.extract.seconds, trainers, f->seconds),
        .waiting = share(normal ? f->normal_wait : f->stages.wait.seconds, trainers, f->seconds),
        .evaluating = all > 0 ? 100.0 * f->evaluate_seconds / all : 0,
        .fetching = share(f->store.seconds, trainers, f->seconds),
        .late = f->several_nodes ? share(f->latest.seconds, 1, f->seconds) : 0,
    };
}

// Trainers that wait although batches lie ready wait for one another. True when that is it.
static bool say_updates(struct sl_sentence *t, const struct sl_epoch *f,
                        const struct sl_update_rule *rule, double waiting)
{
    uint32_t hands = f->trainers + (f->switching.batches > 0 ? f->samplers : 0);
    if (f->lent) // there are none
        return false;
    if (f->queue.depth_mean < 1 || hands < 2)
        return false;
    if (rule->async) {
        sl_sentence_say(
            t,
            "updates: trainers waited %.0f %% of the time for the bound on staleness (%u, "
            "gradients "
            "were %.1f updates old on average) while %.1f batches lay ready",
            waiting, rule->staleness, f->updates.staleness_mean, f->queue.depth_mean);
        return true;
    }
    // Where an update leaves each of them several batches, they do not wait for long: unless each
    // has its own, which nobody takes from who is late.
    if (rule->batches_per_update >= 2 * hands && !rule->in_turn)
        return false;
    sl_sentence_say(t,
                    "updates: trainers waited %.0f %% of the time for one another's gradients (%s",
                    waiting, SL_PLURAL(f->trainers, "trainer"));
    if (hands > f->trainers)
        sl_sentence_say(t, " and %.0f standby", hands - f->trainers);
    sl_sentence_say(t, ", updates of %s) while %.1f batches lay ready",
                    SL_PLURAL(rule->batches_per_update, "batch"), f->queue.depth_mean);
    return true;
}

// Without normal trainers: each device draws all of an epoch, then trains it.
static void say_turns(struct sl_sentence *t, const struct sl_epoch *f, const struct shares *s)
{
    if (s->sampling > SL_MAX(s->training, s->extracting))
        sl_sentence_say(
            t,
            "samplers: drawing took %.0f %% of the devices' time, in turn with training, %.0f %%",
            s->sampling, s->training);
    else if (s->extracting > s->training)
        sl_sentence_say(
            t,
            "trainers: extraction took %.0f %% of the devices' time, in turn with sampling, "
            "%.0f %%",
            s->extracting, s->sampling);
    else
        sl_sentence_say(
            t,
            "trainers: forward and backward took %.0f %% of the devices' time, in turn with "
            "sampling, %.0f %%",
            s->training, s->sampling);
}

static void say_trainers(struct sl_sentence *t, const struct sl_epoch *f, const struct shares *s)
{
    if (f->lent && s->training + s->extracting + s->waiting < 50)
        sl_sentence_say(
            t,
            "trainers: external trainers asked for no batch most of the time; their own "
            "code took %.0f %% of it",
            s->training);
    else if (f->lent)
        sl_sentence_say(t,
                        "trainers: the external trainers' own code took %.0f %% of the time, "
                        "extraction %.0f %%",
                        s->training, s->extracting);
    else if (s->extracting > s->training)
        sl_sentence_say(
            t, "trainers: extraction took %.0f %% of the time, forward and backward %.0f %%",
            s->extracting, s->training);
    else
        sl_sentence_say(t, "trainers: forward and backward took %.0f %% of the time", s->training);
    if (s->blocked >= 5)
        sl_sentence_say(t, "; samplers waited for memory %.0f %%", s->blocked);
    else
        sl_sentence_say(t, "; samplers drew only %.0f %%, %.1f batches lay ready on average",
                        s->sampling, f->queue.depth_mean);
}

// What was read came from the drive, or, most of it, from other nodes.
static void say_fetching(struct sl_sentence *t, const struct sl_epoch *f, double share)
{
    if (f->store.remote_rows * 2 > f->store.read + f->store.beside)
        sl_sentence_say(t,
                        "network: features were asked for %.0f %% of the time; %.0f %% of the rows "
                        "came from other nodes (a larger store.cache, or a partition with fewer "
                        "remote rows, would ask for fewer)",
                        share, 100 * f->store.remote_rows / SL_MAX(f->input_nodes, 1.0));
    else
        sl_sentence_say(
            t,
            "drive: features were read %.0f %% of the time; %.0f %% of the rows came from the "
            "cache (a larger store.cache, or order.kind proximity, would read fewer)",
            share, 100 * f->store.cached / SL_MAX(f->input_nodes, 1.0));
}

/*
 * The question is who waits for whom; but first, whether the drive or the wire is busy for longer
 * than trainers are. Trainers that wait while batches lie ready wait for one
 * another (updates); trainers that wait in front of an empty queue wait for samplers. Samplers that
 * wait for memory wait for trainers to free it.
 */
void sl_epoch_name_bottleneck(struct sl_epoch *f, const struct sl_update_rule *rule)
{
    struct shares s = find_shares(f);
    f->bottleneck = f->words;
    struct sl_sentence t = {f->words, sizeof f->words};
    if (s.evaluating > 50) {
        sl_sentence_say(
            &t,
            "evaluation: %.0f %% of the epoch's %.3g s (set evaluate.every to evaluate less often)",
            s.evaluating, f->seconds + f->evaluate_seconds);
        return;
    }
    if (s.late >= 100 * SL_EPOCH_STARVED) {
        sl_sentence_say(&t,
                        "nodes: %.0f %% of the time all others had done their batches of an update "
                        "and waited for node %.0f",
                        s.late, f->latest.node);
        return;
    }
    if (s.fetching >= 50 && s.fetching > SL_MAX(s.training, s.extracting)) {
        say_fetching(&t, f, s.fetching);
        return;
    }
    bool starved = s.waiting >= 100 * SL_EPOCH_STARVED && s.waiting > s.blocked;
    if (starved && say_updates(&t, f, rule, s.waiting))
        return;
    if (f->trainers == 0) {
        say_turns(&t, f, &s);
    } else if (starved) {
        sl_sentence_say(
            &t,
            "samplers: trainers waited %.0f %% of the time, %.1f batches lay ready on average, "
            "samplers drew %.0f %% of the time",
            s.waiting, f->queue.depth_mean, s.sampling);
        return;
    } else {
        say_trainers(&t, f, &s);
    }
    if (s.extracting > s.training && f->cache.hits > 0)
        sl_sentence_say(&t, "; %.0f %% of the rows came from a cache", 100 * sl_epoch_hit_rate(f));
    if (f->trainers > 0 && f->switching.batches > 0)
        sl_sentence_say(&t, "; standby trainers trained %.0f %% of the batches",
                        100.0 * (double)f->switching.batches /
                            (double)SL_MAX(f->batches, (uint64_t)1));
}
