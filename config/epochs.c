/*
 * epochs.c - resolves fractions of evaluate.every, and "auto" of epochs and of
 * early_stopping.patience.
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
#include "config/parse_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/cache_kind.h"

// Passes of n epochs each.
static int multiply(const struct sl_parse *p, const char *path, double passes, uint32_t n,
                    double *epochs)
{
    *epochs = passes * n;
    if (*epochs <= SL_CONFIG_MAX_EPOCHS)
        return SL_OK;
    return sl_parse_fail(p, path,
                         "found %g with evaluate.every %g, wanted at most %g, which are %d epochs "
                         "then: lower it, or raise evaluate.every",
                         passes, p->out->evaluate.fraction, (double)SL_CONFIG_MAX_EPOCHS / n,
                         SL_CONFIG_MAX_EPOCHS);
}

static int multiply_whole(const struct sl_parse *p, const char *path, uint32_t n, uint32_t *epochs)
{
    double all;
    SL_TRY(multiply(p, path, *epochs, n, &all));
    *epochs = (uint32_t)all;
    return SL_OK;
}

// What keys count in passes becomes so many epochs.
static int multiply_keys(const struct sl_parse *p, uint32_t n)
{
    struct sl_config *c = p->out;
    SL_TRY(multiply_whole(p, "epochs", n, &c->epochs));
    SL_TRY(multiply(p, "optimizer.warmup_epochs", c->optimizer.warmup_epochs, n,
                    &c->optimizer.warmup_epochs));
    if (c->optimizer.schedule == SL_LR_STEP)
        SL_TRY(multiply_whole(p, "optimizer.step_epochs", n, &c->optimizer.step_epochs));
    if (sl_parse_find(p->root, "cache.presample_epochs"))
        SL_TRY(multiply_whole(p, "cache.presample_epochs", n, &c->cache.presample_epochs));
    for (uint32_t i = 0; i < c->n_schedule; i++)
        SL_TRY(multiply_whole(p, "schedule", n, &c->schedule[i].epoch));
    return SL_OK;
}

// What does not go with a fraction, or NULL.
static const char *misfit_of(const struct sl_parse *p)
{
    const struct sl_config *c = p->out;
    if (!sl_key_applies(sl_key_find("order.epochs_per_pass"), c))
        return "order.kind";
    if (c->order.epochs_per_pass > 1)
        return "order.epochs_per_pass"; // said twice
    // Their number grows with each epoch.
    return sl_config_is_links(c) && c->task.hard.kind != SL_HARD_NONE ? "task.hard.kind" : NULL;
}

int sl_parse_resolve_fraction(const struct sl_parse *p)
{
    struct sl_config *c = p->out;
    const double every = c->evaluate.every, most = sl_key_find("order.epochs_per_pass")->max;
    if (every == floor(every))
        return SL_OK;
    const double n = round(1 / every);
    if (n < 2 || n > most || fabs(n * every - 1) > 0.002)
        return sl_parse_fail(p, "evaluate.every",
                             "found %g, wanted a whole number of epochs, or 1/n of one from 0.5 to "
                             "%g, such as 0.05 for 20 evaluations an epoch: correct it",
                             every, 1 / most);
    const char *misfit = misfit_of(p);
    if (misfit)
        return sl_parse_fail(p, "evaluate.every",
                             "found %g beside %s, wanted a whole number there: a fraction divides "
                             "shuffled epochs that nothing else divides or counts: take one of "
                             "the two out",
                             every, misfit);
    c->evaluate.fraction = every;
    c->evaluate.every = 1;
    c->order.epochs_per_pass = (uint32_t)n;
    return multiply_keys(p, (uint32_t)n);
}

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
    return SL_MAX(c->epochs / 2 / (uint32_t)c->evaluate.every, 1u);
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
