#include "broker/job/divergence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/rundir/checkpoint.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/half.h"
#include "common/arena/phase.h"
#include "common/text/json.h"
#include "common/text/sentence.h"

enum { LOOKED_ROWS = 4096 }; // of the features, for their largest value

// A feature that is larger, and not scaled by a norm, makes sums and gradients that are far from 1.
static const double LARGE_FEATURE = 1e4;

// --- losses --------------------------------------------------------------------------------------

static uint64_t updates_of(const struct sl_divergence *d)
{
    return sl_phases_updates(d->config, d->phases->setup.plan.split[SL_SPLIT_TRAIN].n);
}

// Of the batches [first, end) of an epoch that is open. NaN where not all of them are done.
static double loss_of_batches(const struct sl_divergence *d, const struct sl_open_phase *o,
                              uint64_t first, uint64_t end)
{
    const struct sl_arena *a = d->phases->arena;
    double loss = 0, weight = 0;
    for (uint32_t i = (uint32_t)first; i < end; i++) {
        const struct sl_batch_entry *e = sl_ledger_entry(a, o->seq, i);
        if (sl_cell_state(sl_ledger_word(a, o->seq, i)) != SL_CELL_DONE)
            return NAN;
        loss += e->loss;
        weight += e->weight;
    }
    return weight > 0 ? loss / weight : NAN;
}

/*
 * The training loss on the parameters of a version: within the epoch that went wrong, of the update
 * that was made from it; else of all its epoch, whether or not that has been read meanwhile. NaN
 * where it is not known.
 */
static double loss_on(const struct sl_divergence *d, uint64_t version)
{
    const struct sl_phases *p = d->phases;
    const struct sl_arena_spec *spec = &p->arena->h->spec;
    const uint64_t updates = updates_of(d), epoch = version / updates, index = version % updates;
    const uint64_t per_update = spec->async ? 1 : spec->batches_per_update;
    for (uint32_t i = 0; i < p->n_open; i++) {
        const struct sl_open_phase *o = sl_phases_at(p, i);
        const uint64_t cells = sl_div_up(o->spec.n_items, o->spec.batch_size);
        if (o->step.purpose != SL_PURPOSE_TRAIN || o->step.epoch != epoch)
            continue;
        return epoch == d->version / updates
                   ? loss_of_batches(d, o, index * per_update,
                                     SL_MIN((index + 1) * per_update, cells))
                   : loss_of_batches(d, o, 0, cells);
    }
    if (p->trained > 0 && p->epoch.epoch == (double)epoch)
        return p->epoch.loss; // read, and not told yet
    const cJSON *e;
    cJSON_ArrayForEach(e, d->epochs)
    {
        if (sl_json_number(e, "epoch") == (double)epoch)
            return sl_json_number(e, "loss");
    }
    return NAN;
}

// --- how to go on --------------------------------------------------------------------------------

/*
 * The newest checkpoint on whose parameters the loss had not grown. "" without one. Where it is an
 * evaluation that went wrong, training may have gone on beside it, and what is known of the newest
 * ones is the loss of the update that made them.
 */
static void find_checkpoint(const struct sl_divergence *d, const struct sl_baseline *guess,
                            char out[SL_CHECKPOINT_NAME_BYTES])
{
    struct sl_checkpoint_list list;
    *out = '\0';
    if (sl_checkpoint_list(d->run, &list) < 0)
        return;
    for (uint32_t i = 0; i < list.n && !*out; i++) {
        const uint64_t version = strtoull(list.names[i], NULL, 10);
        const bool newest = d->evaluated && version > 0 && version >= d->version;
        const double loss = loss_on(d, newest ? version - 1 : version);
        if (isfinite(loss) && !sl_baseline_is_far_below(guess, loss))
            snprintf(out, SL_CHECKPOINT_NAME_BYTES, "%s", list.names[i]);
    }
    sl_checkpoint_list_fini(&list);
}

static void say_how_to_go_on(struct sl_sentence *s, const struct sl_divergence *d,
                             const struct sl_baseline *guess)
{
    char name[SL_CHECKPOINT_NAME_BYTES];
    find_checkpoint(d, guess, name);
    if (*name)
        sl_sentence_say(
            s,
            "; the last checkpoint whose loss had not grown is of update %llu: a new run "
            "begins with its parameters by --set "
            "model.weights=%s/checkpoints/%s/model.safetensors --set output=DIR",
            strtoull(name, NULL, 10), d->run, name);
    else
        sl_sentence_say(s, "; there is no checkpoint to go on from: begin anew, with --set "
                           "output=DIR");
}

const char *sl_divergence_advice(const struct sl_config *config, char *buf, size_t bytes)
{
    const double lr = config->optimizer.lr, clip = config->optimizer.clip_norm;
    if (clip > 0)
        snprintf(buf, bytes, "lower optimizer.lr (now %g) or optimizer.clip_norm (now %g)", lr,
                 clip);
    else
        snprintf(buf, bytes,
                 "lower optimizer.lr (now %g) or set optimizer.clip_norm (now 0, which clips "
                 "nothing)",
                 lr);
    return buf;
}

// --- why -----------------------------------------------------------------------------------------

struct features {
    const void *x; // (n, dim); NULL: they are not mapped
    enum sl_dtype dtype;
    uint64_t n, dim;
};

static double feature_at(const struct features *f, uint64_t k)
{
    return f->dtype == SL_DTYPE_F16 ? (double)sl_half_to_float(((const uint16_t *)f->x)[k])
                                    : (double)((const float *)f->x)[k];
}

// The largest feature of some rows, without its sign; 0 where they are not mapped.
static double largest_of(const struct features *f)
{
    const uint64_t rows = SL_MIN(f->n, (uint64_t)LOOKED_ROWS);
    double largest = 0;
    for (uint64_t i = 0; f->x && i < rows; i++) {
        const uint64_t row = f->n / rows * i;
        for (uint64_t k = 0; k < f->dim; k++)
            largest = fmax(largest, fabs(feature_at(f, row * f->dim + k)));
    }
    return largest;
}

// The largest of all files, and the type whose file has it.
static double largest_feature(const struct sl_dataset *ds, const char **type)
{
    const struct features plain = {ds->feat, ds->feat_dtype, ds->n_nodes, ds->feat_dim};
    double largest = largest_of(&plain);
    *type = NULL;
    for (uint32_t i = 0; i < ds->typed.n_types; i++) {
        const struct sl_vertex_type *t = &ds->typed.type[i];
        const double one =
            largest_of(&(struct features){t->feat, t->feat_dtype, t->n, t->feat_dim});
        if (one > largest)
            *type = t->name;
        largest = fmax(largest, one);
    }
    return largest;
}

// Where the loss had not grown: no step was too large but the last one, if any.
static void say_other_cause(struct sl_sentence *s, const struct sl_divergence *d, double last)
{
    const struct sl_dataset *ds = d->phases->setup.dataset;
    const char *type;
    const double largest = largest_feature(ds, &type);
    char advice[160];
    if (d->version == 0)
        sl_sentence_say(s, "no step was made before it: ");
    else if (isfinite(last))
        sl_sentence_say(s, "the loss before it was %.4g: ", last);
    if (largest > LARGE_FEATURE)
        sl_sentence_say(s, "features are as large as %.3g: scale node_feat%s%s.npy to about 1",
                        largest, type ? "." : "", type ? type : "");
    else
        sl_sentence_say(s, "%s", sl_divergence_advice(d->config, advice, sizeof advice));
    if (d->version == 0 && *d->config->model.weights)
        sl_sentence_say(s, ", or begin without model.weights");
    if (ds->feat_checked < sl_features_bytes(ds))
        sl_sentence_say(s, "; of the features a sample was checked: `sluice inspect --full` looks "
                           "whether all are finite");
}

// The loss before it went wrong, and the loss of guessing. True where it had grown.
static bool look_back(const struct sl_divergence *d, struct sl_baseline *guess, double *last)
{
    const struct sl_dataset *ds = d->phases->setup.dataset;
    *last = d->version > 0 ? loss_on(d, d->version - 1) : NAN;
    if (sl_baseline_find(guess, d->config, ds, &ds->split[SL_SPLIT_TRAIN]) < 0)
        *guess = (struct sl_baseline){0};
    return sl_baseline_is_far_below(guess, *last);
}

bool sl_divergence_has_grown(const struct sl_divergence *d)
{
    struct sl_baseline guess;
    double last;
    return look_back(d, &guess, &last);
}

void sl_divergence_describe(const struct sl_divergence *d, const char *what, char *out,
                            size_t bytes)
{
    struct sl_baseline guess;
    double last;
    char who[96], advice[160];
    struct sl_sentence s = {out, bytes};
    const bool grown = look_back(d, &guess, &last);
    sl_sentence_say(&s, "%s; ", what);
    if (grown)
        sl_sentence_say(
            &s, "the loss before it was %.4g, where %s has %.4g: steps are too large: %s", last,
            sl_baseline_text(&guess, SL_MEASURE_LOSS, who, sizeof who),
            guess.value[SL_MEASURE_LOSS], sl_divergence_advice(d->config, advice, sizeof advice));
    else
        say_other_cause(&s, d, last);
    say_how_to_go_on(&s, d, &guess);
}
