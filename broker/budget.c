#include "broker/budget.h"

#include <math.h>

#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/error.h"

enum { AVAILABLE_SHARE = 4 };

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
    bool pool = config->allocation.cores == SL_CORES_POOL;
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
    bool beside = config->devices[device].kind == SL_DEVICE_CPU &&
                  sl_features_kinds[config->store.features].reads;
    if (!sl_cache_keeps(config->cache.policy) || need->row_bytes == 0 || beside)
        return SL_OK;
    uint64_t left = budget == UINT64_MAX ? available_bytes / AVAILABLE_SHARE / caches_of(config)
                                         : budget - with_margin(need->step_bytes);
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
                   "vertices take %s, and %s are left of its memory beside a training step: set "
                   "cache.ratio to \"auto\" or lower, or give the device more memory",
                   config->cache.ratio, floor(most * 10000) / 10000, device,
                   (unsigned long long)wanted, (unsigned long long)need->n_nodes,
                   sl_units_exact_bytes(a, wanted * need->row_bytes),
                   sl_units_exact_bytes(b, left));
}
