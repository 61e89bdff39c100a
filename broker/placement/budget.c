#include "broker/placement/budget.h"

#include <math.h>

#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/error.h"

enum {
    AVAILABLE_SHARE = 4,
    LEAST_MAX = 1 << 30, // MiB
    GROWS = 8 << 20,     // a process beside what is counted: pools are made of huge pages
    EPOCH_BYTES = 12288, // that the broker keeps of each
    VARIES = 1 << 20,    // what a process holds from one run to the next
    PIECE = 512 << 20, // the most that a piece of inference takes on a GPU (trainer/infer/piece.h)
};

static uint64_t with_margin(uint64_t step_bytes)
{
    return step_bytes + step_bytes / 4;
}

int sl_budget_check_sampler(const struct sl_config *config, uint32_t device,
                            const struct sl_budget_need *need)
{
    uint64_t budget = config->devices[device].memory_bytes;
    uint64_t wanted = need->resident_bytes + need->block_bytes;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], d[SL_UNITS_BYTES];
    if (budget == 0 || wanted <= budget)
        return SL_OK;
    return sl_fail(SL_ENOMEM,
                   "devices[%u].memory: found %s, wanted at least %s for a sampler: the topology "
                   "takes %s and the largest mini-batch %s: give the device more memory, or take a "
                   "smaller sampler.batch_size or sampler.fanout",
                   device, sl_units_exact_bytes(a, budget), sl_units_exact_bytes(b, wanted),
                   sl_units_exact_bytes(c, need->resident_bytes),
                   sl_units_exact_bytes(d, need->block_bytes));
}

// What a trainer's device has for everything but the sampler beside it; UINT64_MAX: no limit.
static uint64_t budget_of_trainer(const struct sl_config *config, uint32_t device,
                                  enum sl_duty duty, const struct sl_budget_need *need)
{
    uint64_t budget = config->devices[device].memory_bytes;
    if (budget == 0)
        return UINT64_MAX;
    uint64_t sampling = duty == SL_DUTY_STANDBY ? need->resident_bytes + need->block_bytes : 0;
    return budget - SL_MIN(budget, sampling);
}

static int check_step(const struct sl_config *config, uint32_t device, enum sl_duty duty,
                      const struct sl_budget_need *need, uint64_t budget)
{
    uint64_t wanted = with_margin(need->step_bytes);
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    if (wanted <= budget)
        return SL_OK;
    if (duty == SL_DUTY_STANDBY)
        wanted += need->resident_bytes + need->block_bytes;
    return sl_fail(SL_ENOMEM,
                   "devices[%u].memory: found %s, wanted at least %s for a %strainer: a training "
                   "step was measured with a margin of a quarter%s: give the device more memory, "
                   "or take a smaller sampler.batch_size, sampler.fanout or model.hidden",
                   device, sl_units_exact_bytes(a, config->devices[device].memory_bytes),
                   sl_units_exact_bytes(b, wanted), duty == SL_DUTY_STANDBY ? "standby " : "",
                   duty == SL_DUTY_STANDBY ? ", beside the sampler's topology" : "");
}

// Devices that may have one: of a pool there are more than trainers could ever work.
static uint32_t caches_of(const struct sl_config *config)
{
    bool pool = sl_config_is_pool(config);
    uint32_t most = pool ? sl_config_trainers_at_once(config) : UINT32_MAX;
    return SL_MAX(SL_MIN(config->n_devices, most), 1u);
}

int sl_budget_cache_rows(const struct sl_config *config, uint32_t device, enum sl_duty duty,
                         const struct sl_budget_need *need, uint64_t available_bytes,
                         uint64_t *rows)
{
    uint64_t budget = budget_of_trainer(config, device, duty, need);
    *rows = 0;
    SL_TRY(check_step(config, device, duty, need, budget));
    // Rows from the drive come by the machine's cache: a second one in its memory helps nobody.
    // "auto" has none beside the store that is in memory either.
    bool beside = config->devices[device].kind == SL_DEVICE_CPU &&
                  (config->cache.why || sl_features_kinds[config->store.features].reads);
    if (!sl_cache_keeps(config->cache.policy) || need->row_bytes == 0 || beside)
        return SL_OK;
    uint64_t left = budget == UINT64_MAX ? available_bytes / AVAILABLE_SHARE / caches_of(config)
                                         : budget - with_margin(need->step_bytes);
    // Full evaluations compute beside the cache, and a training step may be smaller than a piece.
    if (config->cache.ratio_auto && config->evaluate.full &&
        config->devices[device].kind == SL_DEVICE_CUDA)
        left -= SL_MIN(left / 4, (uint64_t)PIECE);
    uint64_t fits = SL_MIN(left / need->row_bytes, need->n_nodes);
    if (config->cache.ratio_auto) {
        *rows = fits;
        return SL_OK;
    }
    uint64_t wanted = (uint64_t)floor(config->cache.ratio * (double)need->n_nodes);
    *rows = SL_MIN(wanted, fits);
    if (wanted <= fits || duty == SL_DUTY_STANDBY)
        return SL_OK;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    double most = (double)fits / (double)need->n_nodes;
    return sl_fail(SL_ENOMEM,
                   "cache.ratio: found %g, wanted at most %.4f on device %u: %llu of %llu "
                   "%s take %s, and %s are left of its memory beside a training step: set "
                   "cache.ratio to \"auto\" or lower, or give the device more memory",
                   config->cache.ratio, floor(most * 10000) / 10000, device,
                   (unsigned long long)wanted, (unsigned long long)need->n_nodes,
                   need->typed ? "rows of the types' mean width" : "vertices",
                   sl_units_exact_bytes(a, wanted * need->row_bytes),
                   sl_units_exact_bytes(b, left));
}

bool sl_budget_expects_all_rows(const struct sl_config *config, uint32_t device, enum sl_duty duty,
                                const struct sl_budget_need *need, uint64_t available_bytes)
{
    struct sl_budget_need before = *need;
    uint64_t rows;
    before.step_bytes = 0;
    return sl_budget_cache_rows(config, device, duty, &before, available_bytes, &rows) == SL_OK &&
           rows >= need->n_nodes;
}

// Whether a job whose processes hold `others` beside what they share keeps to the bound.
static bool holds(const struct sl_budget_memory *m, uint64_t bound, uint64_t others)
{
    const uint64_t shared = m->shared_of ? m->shared_of(m->ctx, bound) : m->shared;
    return shared <= bound && others <= bound - shared;
}

// What a trainer takes in the machine's memory.
static uint64_t of_trainer(const struct sl_budget_need *need, const struct sl_budget_memory *m)
{
    return m->trainer + GROWS + with_margin(need->step_bytes);
}

static uint64_t of_trainers(const struct sl_config *config, const struct sl_budget_need *need,
                            const struct sl_budget_memory *m,
                            const struct sl_budget_workers *workers)
{
    if (sl_config_is_external(config))
        return 0; // not of the job's memory
    // A GPU's has the places of a batch's vertices in the machine's memory (trainer/feed/match.h).
    const uint64_t on_gpu = m->trainer + GROWS + need->n_nodes * sizeof(uint32_t);
    return (workers->trainers - workers->on_gpus) * of_trainer(need, m) +
           workers->on_gpus * on_gpu + workers->n_rows * need->row_bytes;
}

// Broker and samplers.
static uint64_t of_others(const struct sl_config *config, const struct sl_budget_memory *m,
                          uint32_t samplers)
{
    const uint64_t epochs = sl_config_is_external(config)
                                ? SL_MIN(config->epochs, (uint32_t)SL_CONFIG_EPOCHS_KEPT)
                                : config->epochs;
    return m->broker + GROWS + epochs * EPOCH_BYTES + samplers * (m->sampler + GROWS);
}

uint64_t sl_budget_least_memory(const struct sl_config *config, const struct sl_budget_need *need,
                                const struct sl_budget_memory *m,
                                const struct sl_budget_workers *workers)
{
    const uint64_t others = of_others(config, m, workers->samplers) +
                            of_trainers(config, need, m, workers) +
                            (1 + (uint64_t)workers->samplers + workers->trainers) * VARIES;
    uint64_t low = 0, high = 1; // in MiB: too little, and enough
    while (high < LEAST_MAX && !holds(m, high << 20, others))
        high *= 2;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (holds(m, middle << 20, others))
            high = middle;
        else
            low = middle;
    }
    return high << 20;
}

uint64_t sl_budget_spare(const struct sl_config *config, const struct sl_budget_need *need,
                         const struct sl_budget_memory *m, const struct sl_budget_workers *workers)
{
    const uint64_t bound = config->memory_bytes;
    const uint64_t taken =
        m->shared + of_others(config, m, workers->samplers) + of_trainers(config, need, m, workers);
    return bound == 0 ? UINT64_MAX : bound - SL_MIN(taken, bound);
}

int sl_budget_check_memory(const struct sl_config *config, const struct sl_budget_need *need,
                           const struct sl_budget_memory *m,
                           const struct sl_budget_workers *workers)
{
    const uint64_t bound = config->memory_bytes, others = of_others(config, m, workers->samplers);
    const uint64_t training = of_trainers(config, need, m, workers);
    const uint64_t wanted = m->shared + others + training;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], d[SL_UNITS_BYTES];
    char e[SL_UNITS_BYTES];
    if (bound == 0 || m->shared == 0 || wanted <= bound)
        return SL_OK;
    const uint64_t least = sl_budget_least_memory(config, need, m, workers);
    return sl_fail(
        SL_ENOMEM,
        "memory: found %s, wanted at least %s: the broker and %s take %s, %s %s, where a training "
        "step was measured with a margin of a quarter, "
        "and the arena %s: set memory to %llu or more, or take fewer workers, or a smaller "
        "sampler.batch_size, sampler.fanout, model.hidden, arena.memory or store.cache",
        sl_units_exact_bytes(a, bound), sl_units_exact_bytes(b, least),
        SL_PLURAL(workers->samplers, "sampler"), sl_units_exact_bytes(c, others),
        SL_PLURAL(workers->trainers, "trainer"), sl_units_exact_bytes(d, training),
        sl_units_exact_bytes(e, m->shared), (unsigned long long)least);
}

uint32_t sl_budget_trainers(const struct sl_config *config, const struct sl_budget_need *need,
                            const struct sl_budget_memory *m, uint32_t samplers)
{
    const uint64_t held = m->shared + of_others(config, m, samplers);
    const uint64_t one = of_trainer(need, m);
    if (config->memory_bytes == 0)
        return UINT32_MAX;
    return (uint32_t)SL_MIN((config->memory_bytes - SL_MIN(held, config->memory_bytes)) / one,
                            (uint64_t)UINT32_MAX);
}
