/*
 * epochs.c - resolves "auto" of epochs and early_stopping.patience.
 *
 * A model needs a number of updates to learn, and an epoch of a small training set has few of them
 * (one, where a mini-batch holds all of it). So "auto" is as many epochs as have UPDATES of them,
 * within bounds: graphs with many updates an epoch are done after LEAST, and MOST keeps the
 * evaluations, which cost the same whatever the training set is, from being nearly all that a job
 * does. The figures are measured (trainer/MODELS.md). Epochs that other keys name (a schedule,
 * warm-up) are trained.
 *
 * A job that trains longer than LEAST ends early when half of its epochs went by without a better
 * evaluation. Shorter ones do not, because an evaluation that may end training cannot overlap with
 * it. Nor do jobs whose evaluations cannot be compared, without validation vertices or labels.
 */
#include "config/config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/base/bits.h"
#include "common/data/cache_kind.h"

// What the other keys speak of.
static uint32_t least_of(const struct sl_config *c)
{
    uint32_t least = SL_EPOCHS_LEAST;
    least = SL_MAX(least, (uint32_t)ceil(c->optimizer.warmup_epochs));
    if (c->n_schedule > 0)
        least = SL_MAX(least, c->schedule[c->n_schedule - 1].epoch + 1);
    if (sl_cache_kinds[c->cache.policy].counts == SL_VISITS_FIRST)
        least = SL_MAX(least, c->cache.presample_epochs + 1);
    return least;
}

static uint32_t patience_of(const struct sl_config *c, bool longer)
{
    if (!longer || c->evaluate.every == 0)
        return 0;
    return SL_MAX(c->epochs / 2 / c->evaluate.every, 1u);
}

char *sl_config_settle_epochs(struct sl_config *c, uint64_t updates, bool finds_best,
                              char note[SL_CONFIG_EPOCHS_TEXT])
{
    note[0] = '\0';
    if (!c->epochs_auto || sl_config_is_endless(c))
        return note;
    const uint64_t each = SL_MAX(updates, (uint64_t)1);
    const uint32_t wanted = (uint32_t)SL_MIN(sl_div_up(SL_EPOCHS_UPDATES, each), SL_EPOCHS_MOST);
    const uint32_t least = least_of(c);
    c->epochs = SL_MAX(wanted, least);
    c->epochs_auto = false;
    char why[96] = "other keys need as many";
    if (least == SL_EPOCHS_LEAST || wanted >= least)
        snprintf(why, sizeof why, "as many as have %d updates, but %d to %d", SL_EPOCHS_UPDATES,
                 SL_EPOCHS_LEAST, SL_EPOCHS_MOST);
    int n = snprintf(note, SL_CONFIG_EPOCHS_TEXT,
                     "%u epochs of %" PRIu64 " update%s each, by "
                     "themselves: %s",
                     c->epochs, each, each == 1 ? "" : "s", why);
    if (!c->early_stopping.patience_auto)
        return note;
    c->early_stopping.patience = patience_of(c, finds_best && wanted > SL_EPOCHS_LEAST);
    c->early_stopping.patience_auto = false;
    if (c->early_stopping.patience > 0)
        snprintf(note + n, SL_CONFIG_EPOCHS_TEXT - (size_t)n,
                 "; fewer once %u evaluations in a row are no better", c->early_stopping.patience);
    return note;
}
