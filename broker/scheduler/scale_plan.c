#include "broker/scheduler/scale_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "broker/log/json_writer.h"
#include "common/text/units.h"
#include "common/base/bits.h"

enum { TEXT_STEPS = 4, SPLIT_BYTES = 64 };

char *sl_scale_split_text(struct sl_roles split, char *buf, size_t bytes)
{
    snprintf(buf, bytes, "%s and %s", SL_PLURAL(split.samplers, "sampler"),
             SL_PLURAL(split.trainers, "trainer"));
    return buf;
}

// --- steps ---------------------------------------------------------------------------------------

struct text {
    char *to;
    size_t n, bytes;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (t->n < t->bytes) {
        int n = vsnprintf(t->to + t->n, t->bytes - t->n, fmt, ap);
        t->n += n > 0 ? (size_t)n : 0;
    }
    va_end(ap);
}

struct duties {
    enum sl_duty samples, trains;
};

static struct duties duties_of(const struct sl_scale_question *q, struct sl_roles split,
                               uint32_t device)
{
    uint32_t n = q->config->n_devices;
    bool switching = sl_placement_switches(q->config, device) && !q->no_standby[device];
    return (struct duties){
        .samples = sl_placement_duty(split, n, switching, SL_ROLE_SAMPLER, device),
        .trains = sl_placement_duty(split, n, switching, SL_ROLE_TRAINER, device),
    };
}

// Rows of the cache that a trainer of this duty would have there.
static uint64_t rows_of(const struct sl_scale_question *q, uint32_t device, enum sl_duty duty)
{
    uint64_t rows = 0;
    if (duty != SL_DUTY_NONE && q->need->step_bytes)
        sl_budget_cache_rows(q->config, device, duty, q->need, q->available_bytes, &rows);
    return rows;
}

static void add_cache(struct text *t, const struct sl_scale_question *q, uint32_t device,
                      struct duties was, struct duties is)
{
    uint64_t before = rows_of(q, device, was.trains), rows = rows_of(q, device, is.trains);
    if (rows == before || is.trains == SL_DUTY_NONE)
        return;
    add(t, ", whose cache %s %" PRIu64 " rows",
        before == 0     ? "is loaded with"
        : rows > before ? "grows to"
                        : "shrinks to",
        rows);
}

// Workers that leave or shrink come first, since a device's memory is spent once.
static bool describe_device(const struct sl_scale_question *q, uint32_t d, char *out, size_t bytes)
{
    struct duties was = duties_of(q, q->expect.now, d), is = duties_of(q, q->to, d);
    uint32_t n = q->config->n_devices;
    uint32_t sampler = sl_placement_role_index(n, SL_ROLE_SAMPLER, d);
    uint32_t trainer = sl_placement_role_index(n, SL_ROLE_TRAINER, d);
    struct text t = {.to = out, .bytes = bytes};
    if (was.samples == is.samples && was.trains == is.trains)
        return false;
    // A place of a pool is nothing to name, and no memory is spent there.
    const bool pool = sl_config_is_pool(q->config);
    const char *then = pool ? ", " : ", then ";
    if (!pool)
        add(&t, "device %u: ", d);
    size_t head = t.n;
    if (was.samples != SL_DUTY_NONE && is.samples == SL_DUTY_NONE)
        add(&t, "sampler %u leaves", sampler);
    if (was.trains != is.trains) {
        add(&t, "%strainer %u %s", t.n > head ? then : "", trainer,
            is.trains == SL_DUTY_NONE ? "leaves"
            : was.trains == SL_DUTY_NONE
                ? is.trains == SL_DUTY_WORK ? "starts" : "starts and stands by"
            : is.trains == SL_DUTY_STANDBY ? "becomes a standby trainer"
                                           : "trains all the time");
        add_cache(&t, q, d, was, is);
    }
    if (was.samples == SL_DUTY_NONE && is.samples != SL_DUTY_NONE)
        add(&t, "%ssampler %u starts", t.n > head ? then : "", sampler);
    return true;
}

void sl_scale_plan_make(const struct sl_scale_question *q, struct sl_scale_plan *out)
{
    out->from = q->expect.now;
    out->to = q->to;
    out->move_seconds = q->expect.move_seconds;
    out->epochs_left = q->expect.epochs_left;
    out->n_steps = 0;
    sl_allocate_expect(&q->expect, q->to, &out->expectation);
    for (uint32_t d = 0; d < q->config->n_devices; d++)
        out->n_steps += describe_device(q, d, out->step[out->n_steps], sizeof out->step[0]);
}

// --- in words and as JSON ------------------------------------------------------------------------

static void add_expectation(struct text *t, const struct sl_scale_plan *plan)
{
    const struct sl_expectation *e = &plan->expectation;
    if (isnan(e->seconds_now)) {
        add(t, "; what it brings is not known before batches have been measured");
        return;
    }
    add(t, "; an epoch is expected to take %.3g s instead of %.3g s%s", e->seconds_then,
        e->seconds_now, e->quiet ? " on quiet cores" : "");
    if (plan->move_seconds > 0)
        add(t, ", the change costs about %.2g s once", plan->move_seconds);
    if (e->pays)
        return;
    if (plan->epochs_left == 0)
        add(t, ": it does not pay, since no epoch is left after this one");
    else if (e->gain_seconds > 0)
        add(t, ": it does not pay in the %s that %s left", SL_PLURAL(plan->epochs_left, "epoch"),
            plan->epochs_left == 1 ? "is" : "are");
    else
        add(t, ": nothing is gained");
}

char *sl_scale_plan_text(const struct sl_scale_plan *plan, char buf[SL_SCALE_TEXT_BYTES])
{
    char a[SPLIT_BYTES], b[SPLIT_BYTES];
    struct text t = {.to = buf, .bytes = SL_SCALE_TEXT_BYTES};
    add(&t, "from %s to %s", sl_scale_split_text(plan->from, a, sizeof a),
        sl_scale_split_text(plan->to, b, sizeof b));
    uint32_t shown = plan->n_steps > TEXT_STEPS ? TEXT_STEPS - 1 : plan->n_steps;
    for (uint32_t i = 0; i < shown; i++)
        add(&t, "; %s", plan->step[i]);
    if (shown < plan->n_steps)
        add(&t, "; and %u more", plan->n_steps - shown);
    add_expectation(&t, plan);
    return buf;
}

static void add_split(struct sl_json_writer *w, const char *key, struct sl_roles split)
{
    sl_json_open_object(w, key);
    sl_json_add_whole(w, "samplers", split.samplers);
    sl_json_add_whole(w, "trainers", split.trainers);
    sl_json_close_object(w);
}

char *sl_scale_plan_json(const struct sl_scale_plan *plan, const struct sl_scale_result *result)
{
    struct sl_json_writer w = {0};
    const struct sl_expectation *e = &plan->expectation;
    sl_json_open_object(&w, NULL);
    sl_json_add_string(&w, "schema", "sluice.scale/1");
    sl_json_add_string(&w, "job", result->job);
    sl_json_add_bool(&w, "ok", result->ok);
    sl_json_add_bool(&w, "dry_run", result->dry_run);
    add_split(&w, "from", plan->from);
    add_split(&w, "to", plan->to);
    sl_json_open_array(&w, "steps");
    for (uint32_t i = 0; i < plan->n_steps; i++)
        sl_json_add_string(&w, NULL, plan->step[i]);
    sl_json_close_array(&w);
    sl_json_add_real(&w, "epoch_seconds_now", e->seconds_now);
    sl_json_add_real(&w, "epoch_seconds_then", e->seconds_then);
    sl_json_add_real(&w, "gain_seconds_an_epoch", e->gain_seconds);
    sl_json_add_real(&w, "move_seconds", plan->move_seconds);
    sl_json_add_whole(&w, "epochs_left", plan->epochs_left);
    sl_json_add_bool(&w, "pays", e->pays);
    sl_json_add_real(&w, "took_seconds", result->took_seconds < 0 ? NAN : result->took_seconds);
    sl_json_add_string(&w, "message", result->message);
    sl_json_close_object(&w);
    char *text = sl_json_text(&w) ? strdup(sl_json_text(&w)) : NULL;
    sl_json_fini(&w);
    return text;
}
