#include "broker/epochs/phases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/data/link_items.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/arena/nodes.h"
#include "common/arena/param_store.h"
#include "common/arena/visit_counts.h"
#include "common/arena/seat.h"
#include "config/learning_rate.h"

enum { ORDER_INLINE_MAX = 1 << 18 }; // vertices; some milliseconds

// --- the orders of the epochs --------------------------------------------------------------------

static void end_with_error(struct sl_phases *p, int rc)
{
    p->stopped = true;
    p->setup.events.on_error(p->setup.ctx, rc);
}

static void open_more(struct sl_phases *p);
static void prepare_orders(struct sl_phases *p);

static int fill_bank(struct sl_phases *p, uint32_t order)
{
    const struct sl_config *config = p->setup.plan.config;
    const struct sl_order_inputs facts = {
        .dataset = p->setup.dataset,
        .train = p->setup.plan.split[SL_SPLIT_TRAIN],
        .seed = config->seed,
        .batch_size = config->sampler.batch_size,
        .batches_per_update = config->updates.batches_per_update,
        .sequences = config->order.sequences_auto ? 0 : config->order.sequences,
        .excess = config->order.excess_error,
        .epochs_per_pass = config->order.epochs_per_pass,
        .cancel = &p->cancel,
    };
    if (!p->order.kind)
        SL_TRY(sl_epoch_order_open(&p->order, config->order.kind, &facts));
    const bool filled = sl_epoch_order_fill(&p->order, sl_plan_order_epoch(&p->setup.plan, order),
                                            sl_arena_order(p->arena, order & 1));
    return filled || atomic_load(&p->cancel) ? SL_OK : SL_ENOMEM;
}

// On a thread of libuv's pool: errors are recorded for each thread, so the message is taken along.
static void order_work(uv_work_t *work)
{
    struct sl_phases *p = work->data;
    p->order_rc = fill_bank(p, p->next_order);
    if (p->order_rc < 0)
        snprintf(p->order_message, sizeof p->order_message, "%s", sl_error_message());
}

static void bank_ready(struct sl_phases *p)
{
    p->bank[p->next_order & 1] =
        (struct sl_order_bank){.order = p->next_order, .state = SL_BANK_READY};
    p->next_order++;
}

static void order_done(uv_work_t *work, int status)
{
    struct sl_phases *p = work->data;
    if (p->stopped)
        return;
    if (p->order_rc < 0) {
        end_with_error(p, sl_fail(p->order_rc, "%s", p->order_message));
        return;
    }
    bank_ready(p);
    prepare_orders(p);
    open_more(p);
}

// While the first one is being prepared it is another thread's.
struct sl_epoch_order sl_phases_order(const struct sl_phases *p)
{
    return p->next_order > 0 ? p->order : (struct sl_epoch_order){0};
}

// Whether filling a bank takes a thread of its own.
static bool takes_long(const struct sl_phases *p)
{
    return p->setup.plan.split[SL_SPLIT_TRAIN].n > ORDER_INLINE_MAX ||
           (sl_order_kinds[p->setup.plan.config->order.kind].walks && !p->order.kind);
}

static void prepare_orders(struct sl_phases *p)
{
    while (p->next_order < sl_plan_orders(&p->setup.plan) && p->next_order < p->orders_read + 2) {
        struct sl_order_bank *bank = &p->bank[p->next_order & 1];
        if (bank->state == SL_BANK_BUSY)
            return;
        p->order_work.data = p;
        if (takes_long(p)) {
            *bank = (struct sl_order_bank){.order = p->next_order, .state = SL_BANK_BUSY};
            if (uv_queue_work(p->setup.loop, &p->order_work, order_work, order_done) == 0)
                return;
        }
        order_work(&p->order_work);
        if (p->order_rc < 0) {
            end_with_error(p, p->order_rc);
            return;
        }
        bank_ready(p);
    }
}

// --- ranking -------------------------------------------------------------------------------------

static void on_ranking_done(void *ctx)
{
    struct sl_phases *p = ctx;
    if (p->stopped)
        return;
    if (p->ranking.rc < 0) {
        end_with_error(
            p, sl_fail(p->ranking.rc, "ordering vertices for the cache: %s", p->ranking.message));
        return;
    }
    sl_visit_counts_publish(p->arena, SL_PLAN_RANK_GENERATION);
    p->ranked = true;
    if (p->setup.events.on_ranked)
        p->setup.events.on_ranked(p->setup.ctx, p->ranking.seconds);
    open_more(p);
}

// Whether every cell of an open phase has been drawn at least once: its visits are counted then,
// even if it was given up for memory and is pending again.
static bool is_sampled(struct sl_phases *p, struct sl_open_phase *o)
{
    uint32_t n = (uint32_t)sl_div_up(o->spec.n_items, o->spec.batch_size);
    while (o->sampled < n &&
           sl_cell_state(sl_ledger_word(p->arena, o->seq, o->sampled)) >= SL_CELL_READY)
        o->sampled++;
    return o->sampled == n;
}

static struct sl_open_phase *open_at(struct sl_phases *p, uint32_t i)
{
    return &p->open[(p->first_open + i) % SL_ARENA_PHASES];
}

// Starts to rank once all visits that the order is made from have been counted.
static void rank_when_due(struct sl_phases *p)
{
    uint32_t counted = sl_plan_counted_orders(&p->setup.plan);
    if (p->stopped || p->ranking.state != SL_RANKING_NONE ||
        !sl_ranking_is_needed(p->setup.plan.config) || p->orders_open < counted ||
        sl_plan_first_ranked(&p->setup.plan) >= p->setup.plan.config->epochs)
        return;
    for (uint32_t i = 0; i < p->n_open; i++) {
        struct sl_open_phase *o = open_at(p, i);
        if (sl_plan_has_order(o->step) && sl_plan_order(&p->setup.plan, o->step) < counted &&
            !is_sampled(p, o))
            return;
    }
    const struct sl_ranking_setup setup = {
        .loop = p->setup.loop,
        .arena = p->arena,
        .config = p->setup.plan.config,
        .dataset = p->setup.dataset,
        .n_nodes = p->setup.plan.n_nodes,
        .on_done = on_ranking_done,
        .ctx = p,
    };
    sl_ranking_start(&p->ranking, &setup);
}

// --- opening -------------------------------------------------------------------------------------

// Whether the next epoch will perhaps not be trained: one of the validations before it may be the
// one at which patience runs out or the target is reached.
static bool is_doubtful(struct sl_phases *p)
{
    const struct sl_config *config = p->setup.plan.config;
    uint32_t patience = config->early_stopping.patience, n = 0;
    for (uint32_t i = 0; i < p->n_open; i++) {
        const struct sl_open_phase *o = sl_phases_at(p, i);
        n += o->ends_evaluation && o->step.purpose == SL_PURPOSE_VALIDATE;
    }
    return p->next.purpose == SL_PURPOSE_TRAIN && n > 0 &&
           (config->early_stopping.target > 0 || (patience > 0 && p->best.waited + n >= patience));
}

static bool can_open(struct sl_phases *p)
{
    if (!p->started || p->stopped || p->next.purpose == SL_PURPOSE_END ||
        p->n_open == SL_ARENA_PHASES || is_doubtful(p))
        return false;
    if (!sl_plan_has_order(p->next))
        return true;
    if (sl_plan_is_ranked(&p->setup.plan, p->next) && !p->ranked)
        return false;
    uint32_t order = sl_plan_order(&p->setup.plan, p->next);
    const struct sl_order_bank *bank = &p->bank[order & 1];
    return bank->state == SL_BANK_READY && bank->order == order;
}

const struct sl_open_phase *sl_phases_front(const struct sl_phases *p)
{
    for (uint32_t i = 0; i < p->n_open; i++)
        if (sl_phases_at(p, i)->spec.lane == SL_LANE_MAIN)
            return sl_phases_at(p, i);
    return NULL;
}

static void begin(struct sl_phases *p, struct sl_open_phase *o, uint64_t now)
{
    if (o->began_ns == 0)
        o->began_ns = now;
    if (p->first_ns == 0 && o->step.purpose == SL_PURPOSE_TRAIN)
        p->first_ns = o->began_ns;
}

// The oldest open phase can begin, and what is beside it.
static void begin_oldest(struct sl_phases *p)
{
    const struct sl_open_phase *front = sl_phases_front(p);
    uint64_t now = sl_now_ns();
    for (uint32_t i = 0; i < p->n_open; i++)
        if (i == 0 || open_at(p, i) == front)
            begin(p, open_at(p, i), now);
}

// False for an epoch that has to wait for something outside (a change of the split).
static bool may_begin(struct sl_phases *p, struct sl_plan_step step)
{
    const struct sl_phases_events *events = &p->setup.events;
    return step.purpose != SL_PURPOSE_TRAIN || !events->may_begin ||
           events->may_begin(p->setup.ctx, step.epoch);
}

static int open_phase(struct sl_phases *p, struct sl_open_phase *o)
{
    const struct sl_resume_point *r = &p->setup.plan.resume;
    const struct sl_cell_record *records = r->records;
    uint32_t batches = (uint32_t)sl_div_up(o->spec.n_items, o->spec.batch_size), n = 0;
    if (o->step.purpose == SL_PURPOSE_TRAIN && o->step.epoch == r->epoch) {
        n = SL_MIN(r->n_records, batches);
    } else if (o->step.purpose == SL_PURPOSE_TRAIN && o->step.epoch == r->epoch + 1 &&
               r->n_records > batches) {
        records += batches;
        n = r->n_records - batches;
    }
    return sl_ledger_open_restored(p->arena, &o->spec, records, n, &o->seq);
}

/*
 * Whether a phase has to wait for what the broker makes of one of the `before` oldest: updates
 * would write over the parameters that are evaluated or to be pinned, another evaluation over
 * predictions, and the test wants the best parameters. Not so where a phase of its lane that is
 * between the two waits for it.
 */
static bool is_held(struct sl_phases *p, uint32_t before, struct sl_plan_step step)
{
    bool trains = step.purpose == SL_PURPOSE_TRAIN;
    for (uint32_t i = 0; i < before; i++) {
        const struct sl_open_phase *o = sl_phases_at(p, i);
        bool side = o->spec.lane == SL_LANE_SIDE;
        bool next = side ? !trains : trains || i + 1 == before;
        if (o->pins || (o->ends_evaluation && next))
            return true;
    }
    return false;
}

// Of n cells of an epoch those that this node tells of: of what is lent its own, whose trainers say
// nothing to other nodes.
static uint64_t count_reported(const struct sl_phases *p, const struct sl_phase_spec *spec,
                               uint64_t n)
{
    return spec->kind == SL_PHASE_LEND ? sl_nodes_own_before(p->arena, spec->kind, (uint32_t)n) : n;
}

static void open_more(struct sl_phases *p)
{
    while (can_open(p)) {
        struct sl_open_phase o = {.step = p->next, .spec = sl_plan_spec(&p->setup.plan, p->next)};
        struct sl_plan_step after = sl_plan_after(&p->setup.plan, p->next);
        bool evaluates = !sl_plan_has_order(p->next);
        o.ends_evaluation = evaluates && after.purpose != p->next.purpose;
        o.pins =
            p->next.purpose == SL_PURPOSE_TRAIN && sl_plan_overlaps(&p->setup.plan, p->next.epoch);
        o.gated = is_held(p, p->n_open, p->next) || !may_begin(p, p->next);
        o.spec.gated = o.gated;
        SL_FAILPOINT(BROKER_PHASE);
        int rc = open_phase(p, &o);
        if (rc == SL_EAGAIN)
            return;
        if (rc < 0) {
            end_with_error(p, rc);
            return;
        }
        p->orders_open += sl_plan_has_order(p->next);
        if (p->next.purpose == SL_PURPOSE_TRAIN)
            p->scheduled +=
                count_reported(p, &o.spec, sl_div_up(o.spec.n_items, o.spec.batch_size));
        *open_at(p, p->n_open++) = o;
        begin_oldest(p);
        p->next = after;
    }
}

// --- reading -------------------------------------------------------------------------------------

// Standby trainers' switches since the last look. A seat's count starts anew when its worker dies,
// so it is looked at often.
static void watch_switches(struct sl_phases *p)
{
    uint32_t n = SL_MIN(p->arena->h->spec.n_devices, (uint32_t)SL_CONFIG_MAX_DEVICES);
    for (uint32_t d = 0; d < n; d++) {
        uint64_t now = atomic_load(&sl_seat(p->arena, sl_seat_trainer(p->arena, d))->switches);
        p->switches += now - (now < p->seen_switches[d] ? 0 : p->seen_switches[d]);
        p->seen_switches[d] = now;
    }
}

// The largest cache of a normal trainer, or of a standby trainer where there is no other.
static uint64_t cache_capacity(struct sl_phases *p)
{
    uint64_t most[2] = {0, 0};
    uint32_t normal = 0;
    for (uint32_t d = 0; d < p->arena->h->spec.n_devices; d++) {
        struct sl_seat *seat = sl_seat(p->arena, sl_seat_trainer(p->arena, d));
        uint32_t duty = atomic_load(&seat->duty);
        bool works = duty == SL_DUTY_WORK;
        normal += works;
        if (duty != SL_DUTY_NONE)
            most[works] = SL_MAX(most[works], atomic_load(&seat->cache_rows));
    }
    return most[normal > 0];
}

static void read_presample(struct sl_phases *p, struct sl_span when)
{
    p->presample_seconds += sl_pauses_seconds_without(p->setup.pauses, when);
    p->orders_read++;
}

static void add_to_digest(struct sl_phases *p, const struct sl_batch_entry *entries, uint64_t n)
{
    XXH128_canonical_t sum;
    if (!p->digest_state)
        return;
    memcpy(p->digest_before, p->digest, sizeof p->digest);
    XXH3_128bits_reset(p->digest_state);
    XXH3_128bits_update(p->digest_state, p->digest, sizeof p->digest);
    for (uint64_t i = 0; i < n; i++)
        XXH3_128bits_update(p->digest_state, &entries[i].digest, sizeof entries[i].digest);
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(p->digest_state));
    memcpy(p->digest, sum.digest, sizeof p->digest);
}

// Seats from the first one of a role on that are to work: a number of the split.
static uint32_t count_on_duty(const struct sl_arena *a, uint32_t first)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < a->h->spec.n_devices; d++)
        n += atomic_load(&sl_seat(a, first + d)->duty) == SL_DUTY_WORK;
    return n;
}

static void read_training(struct sl_phases *p, const struct sl_open_phase *o, uint64_t n,
                          struct sl_span when)
{
    const struct sl_batch_entry *entries = sl_ledger_entry(p->arena, o->seq, 0);
    const struct sl_update_entry *updates = sl_ledger_update(p->arena, o->seq, 0);
    struct sl_epoch *f = &p->epoch;
    memset(f, 0, sizeof *f);
    f->epoch = o->step.epoch;
    f->pauses = p->setup.pauses;
    f->samplers = count_on_duty(p->arena, sl_seat_sampler(p->arena, 0));
    f->trainers = count_on_duty(p->arena, sl_seat_trainer(p->arena, 0));
    if (sl_nodes_any(p->arena))
        sl_epoch_add_others(f, p->arena, entries, n, &p->scratch);
    f->async = p->setup.plan.config->updates.mode == SL_UPDATE_ASYNC;
    f->lent = o->spec.kind == SL_PHASE_LEND;
    f->links = sl_config_is_links(p->setup.plan.config);
    f->shares = p->setup.plan.config->order.epochs_per_pass > 1;
    f->passes = (f->epoch + 1) / SL_MAX(p->setup.plan.config->order.epochs_per_pass, 1u);
    f->positives = (double)o->spec.n_items;
    f->negatives = f->positives * p->setup.plan.config->task.per_positive;
    f->cache.ranked = o->spec.rank_generation != 0;
    f->cache.rows = f->cache.ranked ? cache_capacity(p) : 0;
    watch_switches(p);
    f->switches = p->switches;
    p->switches = 0;
    struct sl_learning_rate rate;
    sl_learning_rate_init(&rate, p->setup.plan.config, p->arena->h->spec.n_train);
    f->learning_rate =
        f->lent ? NAN
                : sl_learning_rate_at(&rate,
                                      (o->step.epoch + UINT64_C(1)) * rate.updates_per_epoch - 1);
    sl_epoch_add_training(f, entries, updates, n, when, &p->scratch);
    const uint64_t reported = count_reported(p, &o->spec, n);
    f->left -= n - reported; // what other nodes lend is done unseen as well
    if (sl_nodes_any(p->arena) && !f->lent)
        sl_epoch_find_latest(f, p->arena, entries, n, when);
    if (!p->first_update_ns)
        p->first_update_ns = sl_epoch_first_update_ns(updates, n);
    add_to_digest(p, entries, n);
    for (uint64_t i = 0; p->records && i < n; i++)
        sl_ledger_record(p->arena, o->seq, (uint32_t)i, &p->records[i]);
    p->done += reported;
    p->trained = o->step.epoch + 1;
    p->orders_read++;
}

/*
 * Phases follow one another without the broker, which may wake late on a busy machine: the first
 * claim in this phase is when the one before ended, but not before that one's last batch was done:
 * other nodes' clocks are not known exactly. Moves the border there and returns the start.
 */
static uint64_t true_start(struct sl_phases *p, const struct sl_open_phase *o, uint64_t n,
                           uint64_t seen_ns)
{
    const struct sl_batch_entry *entries = sl_ledger_entry(p->arena, o->seq, 0);
    uint64_t first = seen_ns;
    for (uint64_t i = 0; i < n; i++)
        if (entries[i].claimed_at_ns)
            first = SL_MIN(first, entries[i].claimed_at_ns);
    first = SL_MAX(first, p->done_ns);
    struct sl_plan_step begin = sl_plan_after_epoch(&p->setup.plan, o->step.epoch);
    bool begins = o->step.purpose == begin.purpose && o->step.layer == begin.layer;
    if (sl_plan_evaluates(o->step))
        sl_epoch_end_earlier(&p->epoch, begins, (struct sl_span){first, p->ended_ns});
    return first;
}

// Whether an evaluation that has been judged can be believed. Parameters are always finite
// (trainer/model/sync.h), but what a model makes of them may not be.
static int check_judgement(const struct sl_phases *p, const struct sl_open_phase *o)
{
    const struct sl_metrics *m = &p->metrics;
    const struct sl_evaluation *found = &m->found;
    const bool test = o->step.purpose != SL_PURPOSE_VALIDATE;
    char what[128];
    if (m->rc < 0)
        return sl_fail(m->rc, "the %s after epoch %u: %s", test ? "test" : "validation",
                       o->step.epoch + 1, m->message);
    if (isfinite(m->judged.sums.loss) && found->not_finite == 0)
        return SL_OK;
    if (found->not_finite > 0)
        snprintf(what, sizeof what, "the outputs of %llu of %llu labelled vertices are not finite",
                 (unsigned long long)found->not_finite, (unsigned long long)found->n_labelled);
    else
        snprintf(what, sizeof what, "the loss is %s",
                 isnan(m->judged.sums.loss) ? "nan" : "infinite");
    return sl_fail(SL_ENOTFINITE, "the %s after epoch %u: %s, of parameters that are all finite",
                   test ? "test" : "validation", o->step.epoch + 1, what);
}

// Nobody trains meanwhile, but beside an evaluation of pinned parameters.
static void keep_best(struct sl_phases *p, bool pinned)
{
    memcpy(sl_param_store_best(p->arena),
           pinned ? sl_param_store_pinned(p->arena)
                  : sl_param_store_params(p->arena, sl_param_store_version(p->arena)),
           p->arena->h->spec.n_params * sizeof(float));
    p->keeping.busy = p->setup.rows; // which are never pinned (sl_plan_overlaps)
}

// The oldest open phase ended an evaluation, of which everything is known now.
static void take_judgement(struct sl_phases *p, const struct sl_open_phase *o)
{
    const struct sl_config *config = p->setup.plan.config;
    const struct sl_evaluation *found = &p->metrics.found;
    if (o->step.purpose == SL_PURPOSE_TEST) {
        p->has_test = true;
        p->test = *found;
        return;
    }
    if (o->step.purpose == SL_PURPOSE_TEST_EPOCH) {
        p->epoch.tested = true;
        p->epoch.on_test = *found;
        return;
    }
    p->epoch.evaluated = true;
    p->epoch.on_val = *found;
    bool pinned = o->spec.params == SL_PARAMS_PINNED;
    // While there is no best the last ones stand in its place: something has to be tested.
    if (sl_early_stopping_on_value(&p->best, p->measure, config->early_stopping.min_delta,
                                   o->step.epoch, found->value[p->measure]) ||
        !p->best.has)
        keep_best(p, pinned);
    // Beside an evaluation the next epoch has begun: patience that a job was given when it went on
    // ends it after that one.
    if (!sl_early_stopping_ends(&p->best, config) || pinned || o->step.epoch + 1 >= config->epochs)
        return;
    p->stopped_early = true;
    p->next = sl_plan_after_training(&p->setup.plan, o->step.epoch);
}

// Which of a split's items are edges, of a job of links.
static struct sl_evaluation_links links_of(const struct sl_phases *p, enum sl_split split)
{
    const struct sl_config *config = p->setup.plan.config;
    if (!sl_config_is_links(config))
        return (struct sl_evaluation_links){0};
    const struct sl_link_items items =
        sl_link_items_of(p->setup.dataset, split, config->evaluate.negatives);
    return (struct sl_evaluation_links){
        .n_positives = items.n_positive, .k = config->evaluate.k, .own = items.per_positive > 0};
}

static void on_judged(void *ctx);

// Judges the evaluation that the phase ends. False when that goes on: on_judged() ends it.
static bool judge(struct sl_phases *p, const struct sl_open_phase *o, uint64_t n)
{
    const struct sl_batch_entry *entries = sl_ledger_entry(p->arena, o->seq, 0);
    bool test = o->step.purpose != SL_PURPOSE_VALIDATE;
    struct sl_metrics *m = &p->metrics;
    *m = (struct sl_metrics){
        .judged = {.dataset = p->setup.dataset,
                   .list = &p->setup.plan.split[test ? SL_SPLIT_TEST : SL_SPLIT_VAL],
                   .predictions = sl_arena_predictions(p->arena),
                   .links = links_of(p, test ? SL_SPLIT_TEST : SL_SPLIT_VAL)},
        .on_done = on_judged,
        .ctx = p,
    };
    for (uint64_t i = 0; i < n; i++) {
        m->judged.sums.loss += entries[i].loss;
        m->judged.sums.weight += entries[i].weight;
    }
    return sl_metrics_start(m, p->setup.loop);
}

// When the last update of a TRAIN phase that is complete had been applied; 0: not known.
static uint64_t trained_ns(struct sl_phases *p, const struct sl_open_phase *o)
{
    const struct sl_update_entry *updates = sl_ledger_update(p->arena, o->seq, 0);
    uint64_t n = sl_div_up(o->spec.n_items, o->spec.batch_size), last = 0;
    for (uint64_t i = 0; i < n; i++)
        last = SL_MAX(last, updates[i].from_ns + updates[i].took_ns);
    return last;
}

// The part of an evaluation's time in which the epoch behind it was trained.
static struct sl_span time_beside(struct sl_phases *p, struct sl_span when)
{
    const struct sl_open_phase *o = sl_phases_front(p);
    if (!o || o->step.purpose != SL_PURPOSE_TRAIN)
        return (struct sl_span){when.from_ns, when.from_ns};
    uint64_t from = SL_MAX(when.from_ns, o->began_ns), to = when.to_ns;
    if (sl_ledger_phase_complete(p->arena, o->seq))
        to = SL_MIN(to, trained_ns(p, o));
    return (struct sl_span){from, SL_MAX(from, to)};
}

// False while the evaluation that it ends is being judged: the phase stays open.
static bool read_evaluation(struct sl_phases *p, const struct sl_open_phase *o, uint64_t n,
                            struct sl_span when)
{
    const struct sl_batch_entry *entries = sl_ledger_entry(p->arena, o->seq, 0);
    bool beside = o->spec.lane == SL_LANE_SIDE;
    if (!beside)
        when.from_ns = true_start(p, o, n, when.from_ns);
    if (o->step.purpose == SL_PURPOSE_TEST)
        p->test_seconds += sl_pauses_seconds_without(p->setup.pauses, when);
    else
        sl_epoch_add_evaluation(&p->epoch, entries, n, when, &p->scratch);
    if (beside)
        sl_epoch_add_overlap(&p->epoch, time_beside(p, when));
    return !o->ends_evaluation || judge(p, o, n);
}

void sl_phases_open_gates(struct sl_phases *p)
{
    for (uint32_t i = 0; i < p->n_open; i++) {
        struct sl_open_phase *o = open_at(p, i);
        if (!o->gated || is_held(p, i, o->step) || !may_begin(p, o->step))
            continue;
        o->gated = false;
        sl_ledger_open_gate(p->arena, o->seq);
    }
}

static void emit_epoch(struct sl_phases *p)
{
    p->epoch_waits = false;
    p->told = p->epoch.epoch + 1;
    p->setup.events.on_epoch(p->setup.ctx, &p->epoch);
}

static void on_optimum(void *ctx)
{
    struct sl_phases *p = ctx;
    if (!p->epoch_waits)
        return; // stopped meanwhile: the epoch has been told
    p->epoch.cache.optimal_hit_rate = p->optimum.hit_rate;
    emit_epoch(p);
    sl_phases_poll(p); // what has been completed meanwhile was left unread
}

static void epoch_is_over(struct sl_phases *p)
{
    const struct sl_config *config = p->setup.plan.config;
    const struct sl_update_rule rule = {
        .async = config->updates.mode == SL_UPDATE_ASYNC,
        .batches_per_update = config->updates.batches_per_update,
        .staleness = config->updates.staleness,
        .in_turn = config->updates.exchange != SL_EXCHANGE_BOARD,
    };
    struct sl_epoch *f = &p->epoch;
    uint64_t evicted = atomic_load(&sl_ledger_of(p->arena)->evicted);
    f->evicted = evicted - p->evicted_before;
    p->evicted_before = evicted;
    f->resampled = p->resampled;
    f->retrained = p->retrained;
    p->resampled = p->retrained = 0;
    sl_epoch_name_bottleneck(f, &rule);
    double all = f->seconds + f->evaluate_seconds;
    p->train_share = all > 0 ? f->seconds / all : 1;
    if (f->evaluate_seconds + f->overlapped_seconds > 0)
        p->evaluate_seconds = f->evaluate_seconds + f->overlapped_seconds;
    if (!f->cache.ranked || !sl_ranking_reports_optimal(config)) {
        emit_epoch(p);
        return;
    }
    f->has_optimal = true;
    f->cache.optimal_hit_rate = NAN;
    if (p->stopped) {
        emit_epoch(p);
        return;
    }
    p->epoch_waits = !sl_optimum_start(&p->optimum, p->setup.loop, p->arena, p->setup.dataset,
                                       f->cache.rows, on_optimum, p);
    if (p->epoch_waits)
        return;
    f->cache.optimal_hit_rate = p->optimum.hit_rate;
    emit_epoch(p);
}

static bool ends_epoch(struct sl_phases *p, const struct sl_open_phase *o)
{
    bool of_epoch = o->step.purpose == SL_PURPOSE_TRAIN || sl_plan_evaluates(o->step);
    return of_epoch && !sl_plan_evaluates(sl_plan_after(&p->setup.plan, o->step));
}

// Of an epoch that is complete, while nobody may train: the parameters that it is evaluated with.
static void pin(struct sl_phases *p, uint32_t epoch)
{
    if (sl_plan_resumes_beside(&p->setup.plan) && epoch == p->setup.plan.resume.epoch)
        return; // they were the checkpoint's
    memcpy(sl_param_store_pinned(p->arena),
           sl_param_store_params(p->arena, sl_param_store_version(p->arena)),
           p->arena->h->spec.n_params * sizeof(float));
}

// All of the oldest open phase is done.
static void end_oldest(struct sl_phases *p)
{
    struct sl_open_phase o = *sl_phases_at(p, 0);
    p->first_open = (p->first_open + 1) % SL_ARENA_PHASES;
    p->n_open--;
    if (o.pins)
        pin(p, o.step.epoch);
    begin_oldest(p);
    if (o.ends_evaluation || o.pins)
        sl_phases_open_gates(p);
    if (ends_epoch(p, &o))
        epoch_is_over(p);
}

static void keep_rows(uv_work_t *work);
static void on_kept(uv_work_t *work, int status);

// Learned rows may be many: a thread of the pool copies them.
static void start_keeping(struct sl_phases *p)
{
    p->keeping.work.data = p;
    if (p->keeping.held || uv_queue_work(p->setup.loop, &p->keeping.work, keep_rows, on_kept) == 0)
        return;
    keep_rows(&p->keeping.work);
    on_kept(&p->keeping.work, 0);
}

// The oldest open phase has been read.
static void close_oldest(struct sl_phases *p)
{
    struct sl_open_phase o = *sl_phases_at(p, 0);
    int rc = o.ends_evaluation ? check_judgement(p, &o) : SL_OK;
    if (rc < 0) {
        end_with_error(p, rc);
        return;
    }
    if (o.ends_evaluation)
        take_judgement(p, &o);
    if (p->keeping.busy)
        start_keeping(p);
    else
        end_oldest(p);
}

// When the last batch of a phase's n was done; 0: not known.
static uint64_t last_done_ns(const struct sl_phases *p, const struct sl_open_phase *o, uint64_t n)
{
    const struct sl_batch_entry *entries = sl_ledger_entry(p->arena, o->seq, 0);
    uint64_t last = 0;
    for (uint64_t i = 0; i < n; i++)
        last = SL_MAX(last, entries[i].done_at_ns);
    return last;
}

// The oldest open phase is complete.
static void read_oldest(struct sl_phases *p)
{
    struct sl_open_phase o = *sl_phases_at(p, 0);
    struct sl_span when = {o.began_ns, sl_now_ns()};
    uint64_t n = sl_div_up(o.spec.n_items, o.spec.batch_size);
    if (o.step.purpose == SL_PURPOSE_TRAIN && o.began_ns < p->ended_ns) // beside an evaluation
        when.to_ns = SL_MAX(o.began_ns, SL_MIN(when.to_ns, trained_ns(p, &o)));
    if (p->setup.events.on_phase)
        p->setup.events.on_phase(p->setup.ctx, &o);
    bool open = false;
    switch (o.step.purpose) {
    case SL_PURPOSE_PRESAMPLE: read_presample(p, when); break;
    case SL_PURPOSE_TRAIN: read_training(p, &o, n, when); break;
    default: open = !read_evaluation(p, &o, n, when); break;
    }
    p->ended_ns = when.to_ns;
    if (o.spec.lane == SL_LANE_MAIN)
        p->done_ns = last_done_ns(p, &o, n);
    if (!open)
        close_oldest(p);
}

// What a phase that has been read makes possible.
static void go_on(struct sl_phases *p)
{
    rank_when_due(p);
    prepare_orders(p);
    open_more(p);
}

static void on_judged(void *ctx)
{
    struct sl_phases *p = ctx;
    if (p->stopped)
        return; // the evaluation will be made once more, should the job go on
    close_oldest(p);
    if (!p->stopped && !p->keeping.busy)
        go_on(p);
    sl_phases_poll(p); // what has been completed meanwhile was left unread
}

static void keep_rows(uv_work_t *work)
{
    const struct sl_phases *p = work->data;
    sl_row_table_keep_best(p->setup.rows);
}

// After a stop as well: the best epoch has been told, and its rows are there.
static void on_kept(uv_work_t *work, int status)
{
    struct sl_phases *p = work->data;
    (void)status;
    p->keeping.busy = false;
    end_oldest(p);
    if (p->stopped) {
        if (p->setup.events.on_kept)
            p->setup.events.on_kept(p->setup.ctx);
        return;
    }
    go_on(p);
    sl_phases_poll(p);
}

void sl_phases_hold_best(struct sl_phases *p)
{
    p->keeping.held = true;
}

void sl_phases_release_best(struct sl_phases *p)
{
    p->keeping.held = false;
    if (p->keeping.busy)
        start_keeping(p);
}

void sl_phases_read_rest(struct sl_phases *p)
{
    while (p->n_open > 0 && sl_phases_at(p, 0)->step.purpose == SL_PURPOSE_TRAIN &&
           sl_ledger_phase_complete(p->arena, sl_phases_at(p, 0)->seq))
        read_oldest(p);
}

static bool can_read(struct sl_phases *p)
{
    // The figures of an epoch are kept in one place, so the next one waits until they are told.
    return !p->stopped && !p->epoch_waits && !p->metrics.busy && !p->keeping.busy &&
           p->n_open > 0 && sl_ledger_phase_complete(p->arena, sl_phases_at(p, 0)->seq);
}

void sl_phases_poll(struct sl_phases *p)
{
    watch_switches(p);
    rank_when_due(p);
    while (can_read(p)) {
        read_oldest(p);
        if (!p->metrics.busy && !p->keeping.busy && !p->stopped)
            go_on(p);
    }
    if (!p->stopped && !p->epoch_waits && p->n_open == 0 && p->next.purpose == SL_PURPOSE_END) {
        p->stopped = true;
        p->setup.events.on_complete(p->setup.ctx);
    }
}

// --- life ----------------------------------------------------------------------------------------

// What is known of the epochs before.
static void go_on_from(struct sl_phases *p, const struct sl_resume_point *r, uint64_t batches)
{
    p->trained = p->told = r->epoch;
    p->scheduled = p->done = r->epoch * batches;
    p->best = r->best;
    p->stopped_early =
        r->epoch < p->setup.plan.config->epochs && p->next.purpose >= SL_PURPOSE_TEST;
    memcpy(p->digest, r->digest, sizeof p->digest);
}

// A run goes on with the metric that its best epoch was found by: an older version took another one
// of some data sets, and two metrics cannot be compared.
static void choose_measure(struct sl_phases *p, const struct sl_phases_setup *setup)
{
    const enum sl_metric metric = setup->plan.config->evaluate.metric;
    const struct sl_early_stopping *before = &setup->plan.resume.best;
    p->judged = setup->judged;
    if (metric == SL_METRIC_AUTO && before->has && before->measure != p->judged.measure)
        p->judged =
            (struct sl_measure_choice){.measure = before->measure < SL_MEASURE_COUNT
                                                      ? before->measure
                                                      : sl_measure_of(metric, setup->dataset->task),
                                       .share = NAN};
    p->measure = p->judged.measure;
}

int sl_phases_init(struct sl_phases *p, const struct sl_phases_setup *setup, struct sl_arena *arena)
{
    memset(p, 0, sizeof *p);
    p->setup = *setup;
    p->arena = arena;
    p->next = sl_plan_first(&setup->plan);
    p->train_share = 1;
    choose_measure(p, setup);
    SL_TRY(sl_epoch_scratch_init(&p->scratch, sl_phases_cells_max(&setup->plan)));
    uint64_t batches = sl_phases_batches(setup->plan.config, setup->plan.split[SL_SPLIT_TRAIN].n);
    if (setup->keeps_records && !(p->records = calloc(batches, sizeof *p->records)))
        return sl_fail(SL_ENOMEM, "no memory for the records of %llu batches",
                       (unsigned long long)batches);
    if (setup->plan.config->digest && !(p->digest_state = XXH3_createState()))
        return sl_fail(SL_ENOMEM, "no memory for the digest");
    go_on_from(p, &setup->plan.resume, batches);
    return SL_OK;
}

void sl_phases_prepare(struct sl_phases *p)
{
    prepare_orders(p);
}

void sl_phases_start(struct sl_phases *p)
{
    p->started = true;
    prepare_orders(p);
    rank_when_due(p);
    open_more(p);
}

void sl_phases_stop(struct sl_phases *p)
{
    p->stopped = true;
    atomic_store(&p->cancel, true);
    sl_ranking_cancel(&p->ranking);
    if (p->epoch_waits) {
        p->epoch.cache.optimal_hit_rate = NAN;
        emit_epoch(p);
    }
}

void sl_phases_fini(struct sl_phases *p)
{
    sl_epoch_scratch_fini(&p->scratch);
    XXH3_freeState(p->digest_state);
    p->digest_state = NULL;
    free(p->records);
    p->records = NULL;
    sl_epoch_order_close(&p->order);
}
