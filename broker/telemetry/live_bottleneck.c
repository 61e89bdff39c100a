#include "broker/telemetry/live_bottleneck.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/epochs/epoch.h"
#include "common/text/units.h"
#include "common/text/sentence.h"
#include "common/base/bits.h"

// Less than this share of the time is nothing to speak of.
#define WORTH_SAYING 0.1

void sl_live_advise(const struct sl_allocation_question *q, struct sl_live_advice *out)
{
    *out = (struct sl_live_advice){.has = false, .to = q->now};
    if (!(q->profile.t_sample > 0) || !(q->profile.t_train > 0) || q->now.samplers == 0)
        return;
    if (q->shape.n_cores) // what would be better is what the broker takes
        return;
    struct sl_expectation e;
    sl_allocate_expect(q, q->now, &e);
    out->seconds_now = out->seconds_then = e.seconds_now;
    uint32_t best_moves = 0;
    for (uint32_t samplers = 1; samplers < q->n_devices; samplers++) {
        const struct sl_roles to = {samplers, q->n_devices - samplers};
        sl_allocate_expect(q, to, &e);
        double seconds = e.seconds_then;
        uint32_t moves = (uint32_t)abs((int)samplers - (int)q->now.samplers);
        // Of splits that are as good the nearest.
        bool better = seconds < out->seconds_then * (1 - 1e-9);
        bool nearer = seconds <= out->seconds_then * (1 + 1e-9) && moves < best_moves;
        if (!better && !nearer)
            continue;
        out->seconds_then = seconds;
        out->to = to;
        best_moves = moves;
    }
    double gain = out->seconds_now - out->seconds_then;
    out->has = isfinite(out->seconds_then) && gain > SL_ALLOCATE_GAIN_MIN * out->seconds_now;
    if (!out->has)
        out->to = q->now;
}

// "second", "11th"
static const char *ordinal(uint32_t n, char buf[16])
{
    static const char *const words[] = {"0th",   "first", "second",  "third",  "fourth",
                                        "fifth", "sixth", "seventh", "eighth", "ninth"};
    if (n < SL_COUNT_OF(words))
        return words[n];
    uint32_t last = n % 100 >= 11 && n % 100 <= 13 ? 0 : n % 10;
    snprintf(buf, 16, "%u%s", n, last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
    return buf;
}

static const char *article(uint32_t n)
{
    return n == 8 || n == 11 || n == 18 || (n >= 80 && n < 90) ? "an" : "a";
}

// "a second sampler in place of the third trainer would shorten the epoch by about 0.8 s"
static void say_advice(struct sl_sentence *t, const struct sl_live_shares *s,
                       const struct sl_live_advice *advice)
{
    char buf[16], other[16];
    double gain = advice->seconds_now - advice->seconds_then;
    struct sl_roles now = s->split, to = advice->to;
    bool vacant = now.samplers + now.trainers < to.samplers + to.trainers;
    if (to.samplers == now.samplers + 1 && now.trainers == to.trainers + 1)
        sl_sentence_say(t, ": %s %s sampler in place of the %s trainer", article(to.samplers),
                        ordinal(to.samplers, buf), ordinal(now.trainers, other));
    else if (to.trainers == now.trainers + 1 && now.samplers == to.samplers + 1)
        sl_sentence_say(t, ": %s %s trainer in place of the %s sampler", article(to.trainers),
                        ordinal(to.trainers, buf), ordinal(now.samplers, other));
    else if (vacant && to.samplers == now.samplers + 1 && to.trainers == now.trainers)
        sl_sentence_say(t, ": %s %s sampler", article(to.samplers), ordinal(to.samplers, buf));
    else if (vacant && to.trainers == now.trainers + 1 && to.samplers == now.samplers)
        sl_sentence_say(t, ": %s %s trainer", article(to.trainers), ordinal(to.trainers, buf));
    else
        sl_sentence_say(t, ": %s and %s", SL_PLURAL(to.samplers, "sampler"),
                        SL_PLURAL(to.trainers, "trainer"));
    sl_sentence_say(t, " would shorten the epoch by about %.2g s", gain);
}

static enum sl_live_role say_updates(struct sl_sentence *t, const struct sl_live_shares *s)
{
    if (s->async)
        sl_sentence_say(
            t,
            "trainers wait for the bound on staleness (%u) %.0f %% of the time while %.1f batches "
            "lie ready",
            s->staleness, 100 * s->waiting, s->queue);
    else
        sl_sentence_say(
            t,
            "trainers wait for one another's gradients %.0f %% of the time while %.1f batches lie "
            "ready (updates of %s)",
            100 * s->waiting, s->queue, SL_PLURAL(s->batches_per_update, "batch"));
    return SL_LIVE_UPDATES;
}

// Trainers are what takes the time.
static enum sl_live_role say_trainers(struct sl_sentence *t, const struct sl_live_shares *s)
{
    if (s->lent)
        sl_sentence_say(t,
                        "the external trainers' own code takes %.0f %% of the time, gathering "
                        "features %.0f %%",
                        100 * s->training, 100 * s->extracting);
    else if (s->extracting > s->training)
        sl_sentence_say(t, "trainers gather features %.0f %% of the time", 100 * s->extracting);
    else
        sl_sentence_say(t, "trainers compute %.0f %% of the time", 100 * s->training);
    if (s->blocked >= WORTH_SAYING)
        sl_sentence_say(t, ", samplers wait %.0f %% for memory that batches hold",
                        100 * s->blocked);
    else
        sl_sentence_say(t, ", samplers draw %.0f %%, %.1f batches lie ready", 100 * s->sampling,
                        s->queue);
    return SL_LIVE_TRAINERS;
}

// Whether nodes wait for one another, or for the wire. False: neither is what limits the job.
static bool say_nodes(struct sl_sentence *t, const struct sl_live_shares *s,
                      enum sl_live_role *role)
{
    const struct sl_live_node_waits *n = s->nodes;
    char bytes[SL_UNITS_BYTES];
    if (n->wire >= SL_EPOCH_STARVED && n->wire >= n->late) {
        sl_sentence_say(t,
                        "nodes wait for gradients and parameters on the wire %.0f %% of the time, "
                        "most of it %s for those of %s, at %s/s",
                        100 * n->wire, n->wire_at, n->wire_from,
                        sl_units_bytes(bytes, n->wire_bytes));
        *role = SL_LIVE_NETWORK;
        return true;
    }
    if (n->late < SL_EPOCH_STARVED || n->late_is_own)
        return false;
    sl_sentence_say(t, "nodes wait for batches of %s %.0f %% of the time, whose trainers ",
                    n->late_of, 100 * n->late);
    if (n->waiting > SL_MAX(n->training, n->extracting))
        sl_sentence_say(t, "wait for samplers %.0f %%", 100 * n->waiting);
    else if (n->extracting > n->training)
        sl_sentence_say(t, "gather features %.0f %%", 100 * n->extracting);
    else
        sl_sentence_say(t, "compute %.0f %%", 100 * n->training);
    *role = SL_LIVE_NODES;
    return true;
}

static enum sl_live_role say_fetching(struct sl_sentence *t, const struct sl_live_shares *s)
{
    char seconds[SL_UNITS_BYTES], bytes[SL_UNITS_BYTES];
    if (!s->nodes || !s->nodes->asks_of) {
        sl_sentence_say(t, "the drive is read for features %.0f %% of the time", 100 * s->fetching);
        return SL_LIVE_DRIVE;
    }
    sl_sentence_say(t,
                    "features of other nodes are fetched %.0f %% of the time: those of %s come "
                    "after %s, %s/s",
                    100 * s->fetching, s->nodes->asks_of,
                    sl_units_seconds(seconds, s->nodes->ask_seconds),
                    sl_units_bytes(bytes, s->nodes->row_bytes));
    return SL_LIVE_NETWORK;
}

enum sl_live_role sl_live_name_bottleneck(const struct sl_live_shares *s,
                                          const struct sl_live_advice *advice, char *out)
{
    struct sl_sentence t = {out, SL_LIVE_SENTENCE_BYTES};
    enum sl_live_role role = SL_LIVE_NOBODY;
    uint32_t hands = s->split.trainers + s->standby;
    double busiest = SL_MAX(s->training, s->extracting);
    out[0] = '\0';
    if (s->preparing) {
        sl_sentence_say(
            &t, "vertices are ranked before the first epoch: samplers draw %.0f %% of the time",
            100 * s->sampling);
        return SL_LIVE_NOBODY;
    }
    if (SL_MAX(SL_MAX(s->sampling, s->waiting), SL_MAX(busiest, s->evaluating)) < 0.01) {
        sl_sentence_say(&t, "nothing has been measured yet");
        return role;
    }
    if (s->evaluating > SL_MAX(busiest, s->waiting)) {
        sl_sentence_say(&t, "evaluation takes %.0f %% of the trainers' time", 100 * s->evaluating);
        return role;
    }
    if (s->nodes && say_nodes(&t, s, &role))
        return role;
    if (s->fetching >= 0.5 && s->fetching > busiest)
        return say_fetching(&t, s);
    if (s->waiting >= SL_EPOCH_STARVED) {
        if (s->queue >= 1 && hands > 1 && !s->lent &&
            (s->async || s->in_turn || s->batches_per_update < 2 * hands))
            role = say_updates(&t, s);
        else if (s->blocked > s->sampling) {
            sl_sentence_say(
                &t,
                "samplers wait %.0f %% of the time for memory while trainers wait %.0f %%: a "
                "larger \"arena\" would help",
                100 * s->blocked, 100 * s->waiting);
            return SL_LIVE_MEMORY;
        } else {
            sl_sentence_say(&t, "trainers wait for samplers %.0f %% of the time", 100 * s->waiting);
            role = SL_LIVE_SAMPLERS;
        }
    } else {
        role = say_trainers(&t, s);
    }
    if (s->nodes && s->nodes->late_is_own && s->nodes->late >= SL_EPOCH_STARVED)
        sl_sentence_say(&t, "; the other nodes wait for this one %.0f %% of the time",
                        100 * s->nodes->late);
    // Advice to take workers from the role that limits the job is of a moment that has passed.
    bool fits = advice && advice->has &&
                !(role == SL_LIVE_SAMPLERS && advice->to.samplers < s->split.samplers) &&
                !(role == SL_LIVE_TRAINERS && advice->to.trainers < s->split.trainers);
    if (fits)
        say_advice(&t, s, advice);
    return role;
}
