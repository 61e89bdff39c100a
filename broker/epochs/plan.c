#include "broker/epochs/plan.h"

#include <string.h>

#include "broker/placement/placement.h"
#include "broker/epochs/ranking.h"
#include "common/base/bits.h"

enum {
    INFER_CELLS = 64,       // enough to balance and to lose little with a dead trainer
    INFER_CELLS_MAX = 4096, // of graphs whose cells would be of more than INFER_ROWS_MOST
    INFER_ROWS_MIN = 1024,
    INFER_ROWS_MOST = 4096, // more gain nothing: handing a cell over takes tens of microseconds
};

struct sl_plan sl_plan_make(const struct sl_config *config, const struct sl_dataset *dataset)
{
    struct sl_plan plan = {.config = config, .n_nodes = dataset->n_nodes};
    memcpy(plan.split, dataset->split, sizeof plan.split);
    if (config->evaluate.test == SL_TEST_NEVER)
        plan.split[SL_SPLIT_TEST] = (struct sl_vertex_list){0};
    return plan;
}

uint64_t sl_phases_batches(const struct sl_config *config, uint64_t n_train)
{
    return sl_div_up(sl_config_epoch_items(config, n_train), config->sampler.batch_size);
}

uint64_t sl_phases_pass_batches(const struct sl_config *config, uint64_t n_train)
{
    return sl_div_up(n_train, config->sampler.batch_size);
}

uint64_t sl_phases_updates(const struct sl_config *config, uint64_t n_train)
{
    uint64_t batches = sl_phases_batches(config, n_train);
    if (config->updates.mode == SL_UPDATE_ASYNC)
        return batches; // each gradient is an update
    return sl_div_up(batches, config->updates.batches_per_update);
}

uint64_t sl_phases_batches_of(const struct sl_config *config, uint64_t n_train, uint64_t version)
{
    uint64_t batches = sl_phases_batches(config, n_train);
    uint64_t updates = SL_MAX(sl_phases_updates(config, n_train), 1u);
    uint64_t per_update =
        config->updates.mode == SL_UPDATE_ASYNC ? 1 : config->updates.batches_per_update;
    // An epoch's last update may be of fewer.
    return version / updates * batches + SL_MIN(version % updates * per_update, batches);
}

static bool is_evaluated(const struct sl_config *config, uint32_t epoch)
{
    const uint32_t every = (uint32_t)config->evaluate.every;
    return epoch + 1 == config->epochs || (every != 0 && (epoch + 1) % every == 0);
}

// Of links the embeddings of all vertices, and then the pairs (sl_plan_spec).
static uint32_t last_layer(const struct sl_plan *plan)
{
    const uint32_t pairs = sl_config_is_links(plan->config);
    return plan->config->evaluate.full ? plan->config->model.layers - 1 + pairs : 0;
}

// Whether a validation behind a test has the hidden layers of that: not those of another graph.
static bool shares_layers(const struct sl_plan *plan)
{
    return !plan->config->evaluate.val_edges_as_input;
}

bool sl_plan_evaluates(struct sl_plan_step step)
{
    return step.purpose == SL_PURPOSE_TEST_EPOCH || step.purpose == SL_PURPOSE_VALIDATE;
}

uint32_t sl_plan_presample_phases(const struct sl_plan *plan)
{
    uint32_t n = sl_ranking_presample_phases(plan->config);
    return n - SL_MIN(n, plan->resume.epoch);
}

uint32_t sl_plan_first_ranked(const struct sl_plan *plan)
{
    const struct sl_config *config = plan->config;
    uint32_t counted = sl_ranking_first_epoch(config), first = plan->resume.epoch;
    // Of an epoch that was begun before only the rest is drawn: it is counted beside the K.
    if (counted > 0 && counted < config->epochs)
        first += (plan->resume.n_records > 0) + sl_plan_resumes_beside(plan);
    return SL_MIN(first + counted, config->epochs);
}

struct sl_plan_step sl_plan_after_training(const struct sl_plan *plan, uint32_t epoch)
{
    bool tests = plan->split[SL_SPLIT_TEST].n != 0;
    return (struct sl_plan_step){tests ? SL_PURPOSE_TEST : SL_PURPOSE_END, epoch, 0};
}

static struct sl_plan_step next_epoch(const struct sl_plan *plan, uint32_t epoch)
{
    if (epoch + 1 < plan->config->epochs)
        return (struct sl_plan_step){SL_PURPOSE_TRAIN, epoch + 1, 0};
    return sl_plan_after_training(plan, epoch);
}

struct sl_plan_step sl_plan_after_epoch(const struct sl_plan *plan, uint32_t epoch)
{
    const struct sl_config *config = plan->config;
    bool evaluated = is_evaluated(config, epoch);
    if (evaluated && config->evaluate.test == SL_TEST_EACH && plan->split[SL_SPLIT_TEST].n != 0)
        return (struct sl_plan_step){SL_PURPOSE_TEST_EPOCH, epoch, 0};
    if (evaluated && plan->split[SL_SPLIT_VAL].n != 0)
        return (struct sl_plan_step){SL_PURPOSE_VALIDATE, epoch, 0};
    return next_epoch(plan, epoch);
}

// Where the job file says how many trainers there are, and nobody stands by, these are all.
static bool has_free_trainers(const struct sl_config *config)
{
    bool fixed = config->allocation.trainers > 0 && config->n_schedule == 0 &&
                 !sl_placement_switches(config, 0);
    uint32_t trainers = fixed ? config->allocation.trainers : config->n_devices;
    for (uint32_t d = 0; d < config->n_devices; d++)
        if (config->devices[d].kind != SL_DEVICE_CPU)
            return false;
    return config->allocation.cores == SL_CORES_FIXED &&
           trainers > sl_config_trainers_at_once(config);
}

bool sl_plan_resumes_beside(const struct sl_plan *plan)
{
    const uint64_t n_train = plan->split[SL_SPLIT_TRAIN].n;
    return plan->resume.n_records > sl_phases_batches(plan->config, n_train);
}

bool sl_plan_overlaps(const struct sl_plan *plan, uint32_t epoch)
{
    const struct sl_config *config = plan->config;
    if (!config->evaluate.full || epoch + 1 >= config->epochs ||
        !sl_plan_evaluates(sl_plan_after_epoch(plan, epoch)))
        return false;
    if (sl_plan_resumes_beside(plan) && epoch == plan->resume.epoch)
        return true;
    // Learned rows are changed where they lie: what an evaluation reads must stay.
    return config->evaluate.overlap && sl_config_learned_dim(config) == 0 &&
           config->early_stopping.patience == 0 && config->early_stopping.target == 0 &&
           config->updates.exchange == SL_EXCHANGE_BOARD && has_free_trainers(config);
}

struct sl_plan_step sl_plan_first(const struct sl_plan *plan)
{
    uint32_t first = plan->resume.epoch;
    if (first >= plan->config->epochs)
        return sl_plan_after_training(plan, plan->config->epochs - 1);
    // It had stopped early, and was killed before it was tested.
    if (first > 0 && plan->resume.n_records == 0 &&
        sl_early_stopping_ends(&plan->resume.best, plan->config))
        return sl_plan_after_training(plan, first - 1);
    bool presample = sl_plan_presample_phases(plan) > 0;
    return (struct sl_plan_step){presample ? SL_PURPOSE_PRESAMPLE : SL_PURPOSE_TRAIN, first, 0};
}

struct sl_plan_step sl_plan_after(const struct sl_plan *plan, struct sl_plan_step step)
{
    if (!sl_plan_has_order(step) && step.purpose != SL_PURPOSE_END && step.layer < last_layer(plan))
        return (struct sl_plan_step){step.purpose, step.epoch, step.layer + 1};
    switch (step.purpose) {
    case SL_PURPOSE_PRESAMPLE:
        if (step.epoch + 1 < sl_ranking_presample_phases(plan->config))
            return (struct sl_plan_step){SL_PURPOSE_PRESAMPLE, step.epoch + 1, 0};
        return (struct sl_plan_step){SL_PURPOSE_TRAIN, plan->resume.epoch, 0};
    case SL_PURPOSE_TRAIN: return sl_plan_after_epoch(plan, step.epoch);
    case SL_PURPOSE_TEST_EPOCH:
        if (plan->split[SL_SPLIT_VAL].n != 0)
            return (struct sl_plan_step){SL_PURPOSE_VALIDATE, step.epoch,
                                         shares_layers(plan) ? last_layer(plan) : 0};
        return next_epoch(plan, step.epoch);
    case SL_PURPOSE_VALIDATE: return next_epoch(plan, step.epoch);
    case SL_PURPOSE_TEST:
    case SL_PURPOSE_END: break;
    }
    return (struct sl_plan_step){SL_PURPOSE_END, step.epoch, 0};
}

bool sl_plan_has_order(struct sl_plan_step step)
{
    return step.purpose == SL_PURPOSE_PRESAMPLE || step.purpose == SL_PURPOSE_TRAIN;
}

uint32_t sl_plan_order(const struct sl_plan *plan, struct sl_plan_step step)
{
    return step.epoch - plan->resume.epoch +
           (step.purpose == SL_PURPOSE_TRAIN ? sl_plan_presample_phases(plan) : 0);
}

uint32_t sl_plan_order_epoch(const struct sl_plan *plan, uint32_t order)
{
    uint32_t presample = sl_plan_presample_phases(plan);
    return plan->resume.epoch + (order < presample ? order : order - presample);
}

uint32_t sl_plan_orders(const struct sl_plan *plan)
{
    uint32_t epochs = plan->config->epochs;
    return epochs - SL_MIN(epochs, plan->resume.epoch) + sl_plan_presample_phases(plan);
}

uint32_t sl_plan_counted_orders(const struct sl_plan *plan)
{
    uint32_t ranked = sl_plan_first_ranked(plan), first = plan->resume.epoch;
    bool needed = sl_ranking_is_needed(plan->config);
    return sl_plan_presample_phases(plan) + (needed ? ranked - SL_MIN(ranked, first) : 0);
}

bool sl_plan_is_ranked(const struct sl_plan *plan, struct sl_plan_step step)
{
    return step.purpose != SL_PURPOSE_PRESAMPLE && step.epoch >= sl_plan_first_ranked(plan);
}

static struct sl_phase_spec sampling_spec(const struct sl_plan *plan, struct sl_plan_step step)
{
    const struct sl_config *config = plan->config;
    uint32_t order = sl_plan_order(plan, step);
    bool ranked = sl_plan_is_ranked(plan, step);
    struct sl_phase_spec spec = {
        .kind = step.purpose != SL_PURPOSE_TRAIN ? SL_PHASE_PRESAMPLE
                : sl_config_is_external(config)  ? SL_PHASE_LEND
                                                 : SL_PHASE_TRAIN,
        .set = SL_SET_TRAIN,
        .epoch = step.epoch,
        .order_bank = order & 1,
        .count_visits =
            order < sl_plan_counted_orders(plan) || (ranked && sl_ranking_reports_optimal(config)),
        .rank_generation = ranked ? SL_PLAN_RANK_GENERATION : 0,
        .batch_size = (uint32_t)config->sampler.batch_size,
        .n_items = sl_config_epoch_items(config, plan->split[SL_SPLIT_TRAIN].n),
    };
    if (spec.kind == SL_PHASE_TRAIN)
        spec.first_version = step.epoch * sl_phases_updates(config, plan->split[SL_SPLIT_TRAIN].n);
    return spec;
}

// For whom the hidden layers of an evaluation are computed: also for the validation that follows.
static uint32_t wanted_splits(const struct sl_plan *plan, enum sl_purpose purpose)
{
    const uint32_t val = 1u << SL_SPLIT_VAL, test = 1u << SL_SPLIT_TEST;
    if (purpose == SL_PURPOSE_VALIDATE)
        return val;
    bool shared = purpose == SL_PURPOSE_TEST_EPOCH && plan->split[SL_SPLIT_VAL].n != 0;
    return shared ? val | test : test;
}

static uint32_t cell_rows(uint64_t n_items)
{
    const uint64_t most = SL_MIN(sl_div_up(n_items, INFER_CELLS), (uint64_t)INFER_ROWS_MOST);
    const uint64_t least = SL_MAX(sl_div_up(n_items, INFER_CELLS_MAX), (uint64_t)INFER_ROWS_MIN);
    return (uint32_t)SL_MAX(most, least);
}

struct sl_phase_spec sl_plan_spec(const struct sl_plan *plan, struct sl_plan_step step)
{
    const struct sl_config *config = plan->config;
    struct sl_phase_spec spec = {.epoch = step.epoch};
    if (sl_plan_has_order(step))
        return sampling_spec(plan, step);
    bool test = step.purpose != SL_PURPOSE_VALIDATE;
    // Without any validation there is no best: then the final parameters are tested.
    bool best = step.purpose == SL_PURPOSE_TEST && plan->split[SL_SPLIT_VAL].n != 0;
    spec.params = best ? SL_PARAMS_BEST : SL_PARAMS_CURRENT;
    if (sl_plan_evaluates(step) && sl_plan_overlaps(plan, step.epoch)) {
        spec.params = SL_PARAMS_PINNED;
        spec.lane = SL_LANE_SIDE;
    }
    spec.set = test ? SL_SET_TEST : SL_SET_VAL;
    spec.n_items = plan->split[test ? SL_SPLIT_TEST : SL_SPLIT_VAL].n;
    if (!config->evaluate.full) {
        spec.kind = SL_PHASE_EVAL;
        spec.rank_generation = sl_plan_is_ranked(plan, step) ? SL_PLAN_RANK_GENERATION : 0;
        spec.batch_size = (uint32_t)config->evaluate.batch_size;
        if (spec.batch_size == 0)
            spec.batch_size = (uint32_t)config->sampler.batch_size;
        return spec;
    }
    spec.kind = SL_PHASE_INFER;
    spec.layer = step.layer;
    spec.last_layer = step.layer == last_layer(plan);
    if (!spec.last_layer) {
        spec.set = SL_SET_ALL;
        spec.n_items = plan->n_nodes;
        spec.val_edges = test && config->evaluate.val_edges_as_input;
        if (!sl_config_is_links(config))
            spec.wanted_splits = wanted_splits(plan, step.purpose);
    }
    spec.batch_size = cell_rows(spec.n_items);
    return spec;
}

uint64_t sl_phases_cells_max(const struct sl_plan *plan)
{
    // One step of each kind; layers in between have the cells of the first.
    const struct sl_plan_step steps[] = {
        {SL_PURPOSE_TRAIN, 0, 0},
        {SL_PURPOSE_VALIDATE, 0, 0},
        {SL_PURPOSE_VALIDATE, 0, last_layer(plan)},
        {SL_PURPOSE_TEST, 0, 0},
        {SL_PURPOSE_TEST, 0, last_layer(plan)},
    };
    uint64_t most = 1;
    for (size_t i = 0; i < SL_COUNT_OF(steps); i++) {
        struct sl_phase_spec spec = sl_plan_spec(plan, steps[i]);
        most = SL_MAX(most, sl_div_up(spec.n_items, spec.batch_size));
    }
    return most;
}
