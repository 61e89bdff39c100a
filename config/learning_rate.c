#include "config/learning_rate.h"

#include <math.h>

#include "common/base/bits.h"

void sl_learning_rate_init(struct sl_learning_rate *r, const struct sl_config *config,
                           uint64_t n_train)
{
    uint64_t batches = sl_div_up(n_train, SL_MAX(config->sampler.batch_size, 1u));
    *r = (struct sl_learning_rate){
        .schedule = config->optimizer.schedule,
        .lr = config->optimizer.lr,
        .min_lr = config->optimizer.min_lr,
        .gamma = config->optimizer.gamma,
        .epochs = config->epochs,
        .warmup_epochs = config->optimizer.warmup_epochs,
        .step_epochs = config->optimizer.step_epochs,
        .updates_per_epoch = SL_MAX(
            sl_div_up(batches, (uint64_t)SL_MAX(config->updates.batches_per_update, 1u)), 1u),
    };
}

static double cosine(const struct sl_learning_rate *r, double past)
{
    double whole = r->epochs - r->warmup_epochs;
    double part = whole > 0 ? fmin(past / whole, 1) : 1;
    return r->min_lr + (r->lr - r->min_lr) * (1 + cos(M_PI * part)) / 2;
}

double sl_learning_rate_at(const struct sl_learning_rate *r, uint64_t t)
{
    double updates = (double)r->updates_per_epoch;
    double warmup_updates = r->warmup_epochs * updates;
    if ((double)t < warmup_updates)
        return r->lr * fmin(((double)t + 1) / warmup_updates, 1);
    double past = ((double)t - warmup_updates) / updates;
    switch (r->schedule) {
    case SL_LR_STEP:
        // A hundredth of an update is more than rounding makes of a quotient that should be whole.
        return r->lr * pow(r->gamma, floor((past + 0.01 / updates) / r->step_epochs));
    case SL_LR_COSINE: return cosine(r, past);
    default: return r->lr;
    }
}
