#include "broker/phases.h"

#include <stdio.h>
#include <string.h>

#include "broker/shuffle.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/ipc/board.h"

enum {
    INFER_CELLS_MAX = 4096, // enough to balance and to lose little with a dead trainer
    INFER_ROWS_MIN = 1024,
    SHUFFLE_INLINE_MAX = 1 << 16, // below a millisecond
};

// --- the plan ------------------------------------------------------------------------------------

uint64_t sl_phases_batches(const struct sl_config *config, uint64_t n_train)
{
    return sl_div_up(n_train, config->sampler.batch_size);
}

uint64_t sl_phases_updates(const struct sl_config *config, uint64_t n_train)
{
    return sl_div_up(sl_phases_batches(config, n_train), config->updates.batches_per_update);
}

bool sl_plan_validates(const struct sl_phases_setup *setup, uint32_t epoch)
{
    uint32_t every = setup->config->evaluate.every;
    if (setup->split[SL_SPLIT_VAL].n == 0)
        return false;
    return epoch + 1 == setup->config->epochs || (every != 0 && (epoch + 1) % every == 0);
}

static uint32_t evaluation_phases(const struct sl_phases_setup *setup)
{
    return setup->config->evaluate.full ? setup->config->model.layers : 1;
}

struct sl_plan_step sl_plan_after(const struct sl_phases_setup *setup, struct sl_plan_step step)
{
    uint32_t last_layer = evaluation_phases(setup) - 1;
    switch (step.purpose) {
    case SL_PURPOSE_TRAIN:
        if (sl_plan_validates(setup, step.epoch))
            return (struct sl_plan_step){SL_PURPOSE_VALIDATE, step.epoch, 0};
        break;
    case SL_PURPOSE_VALIDATE:
    case SL_PURPOSE_TEST:
        if (step.layer < last_layer)
            return (struct sl_plan_step){step.purpose, step.epoch, step.layer + 1};
        break;
    case SL_PURPOSE_END: return step;
    }
    if (step.purpose != SL_PURPOSE_TEST && step.epoch + 1 < setup->config->epochs)
        return (struct sl_plan_step){SL_PURPOSE_TRAIN, step.epoch + 1, 0};
    if (step.purpose != SL_PURPOSE_TEST && setup->split[SL_SPLIT_TEST].n != 0)
        return (struct sl_plan_step){SL_PURPOSE_TEST, step.epoch, 0};
    return (struct sl_plan_step){SL_PURPOSE_END, step.epoch, 0};
}

struct sl_phase_spec sl_plan_spec(const struct sl_phases_setup *setup, struct sl_plan_step step)
{
    const struct sl_config *config = setup->config;
    struct sl_phase_spec spec = {.epoch = step.epoch};
    if (step.purpose == SL_PURPOSE_TRAIN) {
        spec.kind = SL_PHASE_TRAIN;
        spec.set = SL_SET_TRAIN;
        spec.n_items = setup->split[SL_SPLIT_TRAIN].n;
        spec.batch_size = (uint32_t)config->sampler.batch_size;
        spec.first_version = step.epoch * sl_phases_updates(config, spec.n_items);
        return spec;
    }
    bool test = step.purpose == SL_PURPOSE_TEST;
    // Without any validation there is no best: then the final parameters are tested.
    bool best = test && setup->split[SL_SPLIT_VAL].n != 0;
    spec.params = best ? SL_PARAMS_BEST : SL_PARAMS_CURRENT;
    spec.set = test ? SL_SET_TEST : SL_SET_VAL;
    spec.n_items = setup->split[test ? SL_SPLIT_TEST : SL_SPLIT_VAL].n;
    if (!config->evaluate.full) {
        spec.kind = SL_PHASE_EVAL;
        spec.batch_size = (uint32_t)config->evaluate.batch_size;
        if (spec.batch_size == 0)
            spec.batch_size = (uint32_t)config->sampler.batch_size;
        return spec;
    }
    spec.kind = SL_PHASE_INFER;
    spec.layer = step.layer;
    spec.last_layer = step.layer + 1 == config->model.layers;
    if (!spec.last_layer) {
        spec.set = SL_SET_ALL;
        spec.n_items = setup->n_nodes;
    }
    spec.batch_size =
        (uint32_t)SL_MAX(sl_div_up(spec.n_items, INFER_CELLS_MAX), (uint64_t)INFER_ROWS_MIN);
    return spec;
}

uint64_t sl_phases_cells_max(const struct sl_phases_setup *setup)
{
    // One step of each kind; layers in between have the cells of the first.
    const struct sl_plan_step steps[] = {
        {SL_PURPOSE_TRAIN, 0, 0},
        {SL_PURPOSE_VALIDATE, 0, 0},
        {SL_PURPOSE_VALIDATE, 0, evaluation_phases(setup) - 1},
        {SL_PURPOSE_TEST, 0, 0},
        {SL_PURPOSE_TEST, 0, evaluation_phases(setup) - 1},
    };
    uint64_t most = 1;
    for (size_t i = 0; i < SL_COUNT_OF(steps); i++) {
        struct sl_phase_spec spec = sl_plan_spec(setup, steps[i]);
        most = SL_MAX(most, sl_div_up(spec.n_items, spec.batch_size));
    }
    return most;
}

// --- the orders of the epochs --------------------------------------------------------------------

static void open_more(struct sl_phases *p);
static void prepare_orders(struct sl_phases *p);

static void shuffle_bank(struct sl_phases *p, uint32_t epoch)
{
    const struct sl_vertex_list *train = &p->setup.split[SL_SPLIT_TRAIN];
    sl_shuffle_order(p->setup.config->seed, epoch, train->ids, train->n, &p->cancel,
                     sl_arena_order(p->arena, epoch));
}

// On a thread of libuv's pool.
static void shuffle_work(uv_work_t *work)
{
    struct sl_phases *p = work->data;
    shuffle_bank(p, p->next_order);
}

static void order_ready(struct sl_phases *p)
{
    p->bank[p->next_order & 1] =
        (struct sl_order_bank){.epoch = p->next_order, .state = SL_ORDER_READY};
    p->next_order++;
}

static void shuffle_done(uv_work_t *work, int status)
{
    struct sl_phases *p = work->data;
    order_ready(p);
    if (p->stopped)
        return;
    prepare_orders(p);
    open_more(p);
}

static void prepare_orders(struct sl_phases *p)
{
    const struct sl_config *config = p->setup.config;
    while (p->next_order < config->epochs && p->next_order < p->trained + 2) {
        struct sl_order_bank *bank = &p->bank[p->next_order & 1];
        if (bank->state == SL_ORDER_BUSY)
            return;
        if (p->setup.split[SL_SPLIT_TRAIN].n > SHUFFLE_INLINE_MAX) {
            *bank = (struct sl_order_bank){.epoch = p->next_order, .state = SL_ORDER_BUSY};
            p->shuffle.data = p;
            if (uv_queue_work(p->setup.loop, &p->shuffle, shuffle_work, shuffle_done) == 0)
                return;
        }
        shuffle_bank(p, p->next_order);
        order_ready(p);
    }
}

// --- opening -------------------------------------------------------------------------------------

static struct sl_open_phase *open_at(struct sl_phases *p, uint32_t i)
{
    return &p->open[(p->first_open + i) % SL_ARENA_PHASES];
}

static bool evaluation_is_open(struct sl_phases *p)
{
    for (uint32_t i = 0; i < p->n_open; i++)
        if (open_at(p, i)->ends_evaluation)
            return true;
    return false;
}

static bool can_open(struct sl_phases *p)
{
    if (p->stopped || p->next.purpose == SL_PURPOSE_END || p->n_open == SL_ARENA_PHASES)
        return false;
    const struct sl_order_bank *bank = &p->bank[p->next.epoch & 1];
    return p->next.purpose != SL_PURPOSE_TRAIN ||
           (bank->state == SL_ORDER_READY && bank->epoch == p->next.epoch);
}

static void open_more(struct sl_phases *p)
{
    while (can_open(p)) {
        struct sl_open_phase o = {.step = p->next, .spec = sl_plan_spec(&p->setup, p->next)};
        struct sl_plan_step after = sl_plan_after(&p->setup, p->next);
        bool evaluates = p->next.purpose != SL_PURPOSE_TRAIN;
        o.ends_evaluation = evaluates && after.purpose != p->next.purpose;
        // What follows an evaluation needs what the broker makes of its result: updates would
        // write over the parameters that were evaluated, the test wants the best ones.
        bool follows = p->next.purpose == SL_PURPOSE_TRAIN ||
                       (p->next.purpose == SL_PURPOSE_TEST && p->next.layer == 0);
        o.gated = follows && evaluation_is_open(p);
        o.spec.gated = o.gated;
        SL_FAILPOINT(BROKER_PHASE);
        int rc = sl_ledger_open_phase(p->arena, &o.spec, &o.seq);
        if (rc == SL_EAGAIN)
            return;
        if (rc < 0) {
            p->stopped = true;
            p->setup.events.on_error(p->setup.ctx);
            return;
        }
        if (p->n_open == 0)
            p->began_ns = sl_now_ns();
        if (p->first_ns == 0)
            p->first_ns = p->began_ns;
        if (p->next.purpose == SL_PURPOSE_TRAIN)
            p->scheduled += sl_div_up(o.spec.n_items, o.spec.batch_size);
        *open_at(p, p->n_open++) = o;
        p->next = after;
    }
}

// --- reading -------------------------------------------------------------------------------------

static void read_training(struct sl_phases *p, const struct sl_open_phase *o, uint64_t n,
                          struct sl_span when)
{
    const struct sl_batch_entry *entries = sl_ledger_entry(p->arena, o->seq, 0);
    memset(&p->epoch, 0, sizeof p->epoch);
    p->epoch.epoch = o->step.epoch;
    p->epoch.samplers = p->setup.config->allocation.samplers;
    p->epoch.trainers = p->setup.config->allocation.trainers;
    sl_figures_take_training(&p->epoch, entries, n, when, &p->scratch);
    for (uint64_t i = 0; p->digest && i < n; i++)
        XXH3_128bits_update(p->digest, &entries[i].digest, sizeof entries[i].digest);
    p->done += n;
    p->trained = o->step.epoch + 1;
}

/*
 * Phases follow one another without the broker, which may wake late on a busy machine: the first
 * claim in this phase is when the one before ended. Moves the border there and returns the start.
 */
static uint64_t true_start(struct sl_phases *p, const struct sl_open_phase *o, uint64_t n,
                           uint64_t seen_ns)
{
    const struct sl_batch_entry *entries = sl_ledger_entry(p->arena, o->seq, 0);
    uint64_t first = seen_ns;
    for (uint64_t i = 0; i < n; i++)
        if (entries[i].claimed_at_ns)
            first = SL_MIN(first, entries[i].claimed_at_ns);
    if (o->step.purpose == SL_PURPOSE_VALIDATE && o->step.layer == 0)
        sl_figures_end_earlier(&p->epoch, seen_ns - first);
    else if (o->step.purpose == SL_PURPOSE_VALIDATE)
        p->epoch.evaluate_seconds -= (double)(seen_ns - first) * 1e-9;
    return first;
}

static void read_evaluation(struct sl_phases *p, const struct sl_open_phase *o, uint64_t n,
                            struct sl_span when)
{
    const struct sl_batch_entry *entries = sl_ledger_entry(p->arena, o->seq, 0);
    bool test = o->step.purpose == SL_PURPOSE_TEST;
    when.from_ns = true_start(p, o, n, when.from_ns);
    if (test)
        p->test_seconds += sl_span_seconds(when);
    else
        sl_figures_take_evaluation(&p->epoch, entries, n, when, &p->scratch);
    if (!o->ends_evaluation)
        return;
    uint64_t correct = 0, counted = 0;
    for (uint64_t i = 0; i < n; i++) {
        correct += entries[i].correct;
        counted += entries[i].counted;
    }
    double accuracy = counted ? (double)correct / (double)counted : 0;
    if (test) {
        p->has_test = true;
        p->test_accuracy = accuracy;
        return;
    }
    p->epoch.evaluated = true;
    p->epoch.val_accuracy = accuracy;
    if (p->has_best && accuracy <= p->best_accuracy)
        return;
    p->has_best = true;
    p->best_accuracy = accuracy;
    p->best_epoch = o->step.epoch;
    memcpy(sl_board_best(p->arena), sl_board_params(p->arena, sl_board_version(p->arena)),
           p->arena->h->spec.n_params * sizeof(float));
}

static void open_gates(struct sl_phases *p)
{
    for (uint32_t i = 0; i < p->n_open; i++) {
        struct sl_open_phase *o = open_at(p, i);
        if (o->gated) {
            o->gated = false;
            sl_ledger_open_gate(p->arena, o->seq);
        }
        if (o->ends_evaluation)
            return; // what is gated behind the next evaluation waits for that one
    }
}

static void epoch_is_over(struct sl_phases *p)
{
    struct sl_epoch_figures *f = &p->epoch;
    uint64_t evicted = atomic_load(&p->arena->h->evicted);
    f->evicted = evicted - p->evicted_before;
    p->evicted_before = evicted;
    f->resampled = p->resampled;
    f->retrained = p->retrained;
    p->resampled = p->retrained = 0;
    sl_figures_name_bottleneck(f, p->setup.config->updates.batches_per_update);
    double all = f->seconds + f->evaluate_seconds;
    p->train_share = all > 0 ? f->seconds / all : 1;
    p->setup.events.on_epoch(p->setup.ctx, f);
}

// The oldest open phase is complete.
static void read_oldest(struct sl_phases *p)
{
    struct sl_open_phase o = *open_at(p, 0);
    struct sl_span when = {p->began_ns, sl_now_ns()};
    uint64_t n = sl_div_up(o.spec.n_items, o.spec.batch_size);
    if (o.step.purpose == SL_PURPOSE_TRAIN)
        read_training(p, &o, n, when);
    else
        read_evaluation(p, &o, n, when);
    p->first_open = (p->first_open + 1) % SL_ARENA_PHASES;
    p->n_open--;
    if (o.ends_evaluation)
        open_gates(p);
    p->began_ns = sl_now_ns();

    bool epoch_ends =
        o.step.purpose == SL_PURPOSE_VALIDATE
            ? o.ends_evaluation
            : o.step.purpose == SL_PURPOSE_TRAIN && !sl_plan_validates(&p->setup, o.step.epoch);
    if (epoch_ends)
        epoch_is_over(p);
}

void sl_phases_poll(struct sl_phases *p)
{
    while (!p->stopped && p->n_open > 0 && sl_ledger_phase_complete(p->arena, open_at(p, 0)->seq)) {
        read_oldest(p);
        prepare_orders(p);
        open_more(p);
    }
    if (!p->stopped && p->n_open == 0 && p->next.purpose == SL_PURPOSE_END) {
        p->stopped = true;
        p->setup.events.on_complete(p->setup.ctx);
    }
}

// --- life ----------------------------------------------------------------------------------------

int sl_phases_init(struct sl_phases *p, const struct sl_phases_setup *setup, struct sl_arena *arena)
{
    memset(p, 0, sizeof *p);
    p->setup = *setup;
    p->arena = arena;
    p->train_share = 1;
    SL_TRY(sl_figures_scratch_init(&p->scratch, sl_phases_cells_max(setup)));
    if (setup->config->digest) {
        p->digest = XXH3_createState();
        if (!p->digest)
            return sl_fail(SL_ENOMEM, "no memory for the digest");
        XXH3_128bits_reset(p->digest);
    }
    return SL_OK;
}

void sl_phases_start(struct sl_phases *p)
{
    prepare_orders(p);
    open_more(p);
}

void sl_phases_stop(struct sl_phases *p)
{
    p->stopped = true;
    atomic_store(&p->cancel, true);
}

void sl_phases_fini(struct sl_phases *p)
{
    sl_figures_scratch_fini(&p->scratch);
    XXH3_freeState(p->digest);
    p->digest = NULL;
}

// --- the live view -------------------------------------------------------------------------------

static uint64_t cells_done(struct sl_phases *p, const struct sl_open_phase *o)
{
    uint64_t cursor = atomic_load(&sl_ledger_phase(p->arena, o->seq)->done_cursor);
    return cursor >> 32 == o->seq ? (uint32_t)cursor : 0;
}

// Sums the loss of batches that have become done since the last look.
static double running_loss(struct sl_phases *p, const struct sl_open_phase *o, uint64_t done)
{
    if (p->seen_seq != o->seq) {
        p->seen_seq = o->seq;
        p->seen_cells = p->seen_counted = 0;
        p->seen_loss = 0;
    }
    for (; p->seen_cells < done; p->seen_cells++) {
        const struct sl_batch_entry *e = sl_ledger_entry(p->arena, o->seq, (uint32_t)p->seen_cells);
        p->seen_loss += e->loss;
        p->seen_counted += e->counted;
    }
    return p->seen_counted ? p->seen_loss / (double)p->seen_counted : 0;
}

void sl_phases_view(struct sl_phases *p, struct sl_phases_view *out)
{
    *out = (struct sl_phases_view){.phase = "train", .seconds_left = -1};
    if (p->n_open == 0)
        return;
    const struct sl_open_phase *o = open_at(p, 0);
    struct sl_plan_step step = o->step;
    out->epoch = step.epoch;
    out->done = cells_done(p, o);
    out->total = sl_div_up(o->spec.n_items, o->spec.batch_size);
    double within = out->total ? (double)out->done / (double)out->total : 0;
    if (step.purpose == SL_PURPOSE_TRAIN) {
        out->loss = running_loss(p, o, out->done);
        within *= p->train_share;
    } else {
        // The layers of one evaluation are shown as one stage.
        out->phase = step.purpose == SL_PURPOSE_TEST ? "test" : "evaluate";
        out->loss = p->epoch.loss;
        uint64_t before = 0, all = 0;
        for (uint32_t l = 0; l < evaluation_phases(&p->setup); l++) {
            step.layer = l;
            struct sl_phase_spec spec = sl_plan_spec(&p->setup, step);
            uint64_t n = sl_div_up(spec.n_items, spec.batch_size);
            before += l < o->step.layer ? n : 0;
            all += n;
        }
        out->done += before;
        out->total = all;
        within = p->train_share + (1 - p->train_share) * (double)out->done / (double)all;
    }
    if (step.purpose == SL_PURPOSE_TEST)
        return;
    double fraction = (step.epoch + within) / p->setup.config->epochs;
    double elapsed = (double)(sl_now_ns() - p->first_ns) * 1e-9;
    if (fraction > 0 && elapsed > 0.5)
        out->seconds_left = elapsed * (1 - fraction) / fraction;
}

bool sl_phases_digest(const struct sl_phases *p, char hex[33])
{
    if (!p->digest || p->done == 0)
        return false;
    XXH128_hash_t h = XXH3_128bits_digest(p->digest);
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    return true;
}
