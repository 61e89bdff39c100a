#include "broker/scheduler/node_scale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "broker/scheduler/scale_plan.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/json_print.h"
#include "common/bus/request.h"
#include "common/bus/worker.h"
#include "common/text/units.h"

#define SECOND UINT64_C(1000000000)

enum { NAME_BYTES = 128 };

static const char *name_of(const struct sl_node_scale *s, uint32_t i, char buf[NAME_BYTES])
{
    const uint32_t node = s->of[i].node;
    snprintf(buf, NAME_BYTES, "host %s (rank %u)", s->events.host(s->ctx, node), node);
    return buf;
}

static uint32_t count(const struct sl_node_scale *s, bool ok)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += s->of[i].ok == ok;
    return n;
}

static void forget_answers(struct sl_node_scale *s)
{
    for (uint32_t i = 0; i < s->n && s->of; i++) {
        free(s->of[i].message);
        free(s->of[i].json);
        s->of[i] = (struct sl_node_answer){.node = s->of[i].node};
    }
}

void sl_node_scale_fini(struct sl_node_scale *s)
{
    forget_answers(s);
    free(s->of);
    s->of = NULL;
    s->n = 0;
    s->stage = SL_NODE_SCALE_NONE;
}

// --- what all of them say ------------------------------------------------------------------------

// Of one that has answered; there may have been no memory for it.
static const char *said(const struct sl_node_answer *a)
{
    return a->message ? a->message : "";
}

// Whether several refuse, all of them and in the same words.
static bool is_one_refusal(const struct sl_node_scale *s)
{
    const char *first = said(&s->of[0]);
    if (count(s, false) < 2)
        return false;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->of[i].ok || strcmp(said(&s->of[i]), first) != 0)
            return false;
    return true;
}

// In words, those of refusals alone or of all. Owned by the caller; NULL without memory.
static char *words_of(const struct sl_node_scale *s, const char *head, bool refusals,
                      const char *tail)
{
    char name[NAME_BYTES], *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (!f)
        return NULL;
    if (is_one_refusal(s)) {
        fputs(said(&s->of[0]), f);
    } else {
        fputs(head, f);
        const char *between = "";
        for (uint32_t i = 0; i < s->n; i++) {
            if (refusals && s->of[i].ok)
                continue;
            fprintf(f, "%s%s: %s", between, name_of(s, i, name), said(&s->of[i]));
            between = "; ";
        }
        fputs(tail, f);
    }
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

// Its JSON, or what there is of one that has not answered.
static cJSON *object_of(const struct sl_node_answer *a)
{
    cJSON *o = a->json && *a->json ? cJSON_Parse(a->json) : NULL;
    if (cJSON_IsObject(o))
        return o;
    cJSON_Delete(o);
    const struct sl_scale_plan none = {.expectation = {NAN, NAN, NAN, false, false},
                                       .move_seconds = NAN};
    const struct sl_scale_result result = {.ok = a->ok, .took_seconds = -1, .message = said(a)};
    char *text = sl_scale_plan_json(&none, &result);
    o = text ? cJSON_Parse(text) : NULL;
    free(text);
    return o;
}

static void put(cJSON *o, const char *key, cJSON *value)
{
    if (!cJSON_ReplaceItemInObjectCaseSensitive(o, key, value))
        cJSON_AddItemToObject(o, key, value);
}

// All go on once the slowest one does.
static double slowest(cJSON *nodes, const char *key)
{
    double most = -INFINITY;
    const cJSON *o;
    cJSON_ArrayForEach(o, nodes)
    {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(o, key);
        most = cJSON_IsNumber(value) ? SL_MAX(most, value->valuedouble) : INFINITY;
        if (most == INFINITY)
            break;
    }
    return isfinite(most) ? most : NAN;
}

static cJSON *number(double value)
{
    return isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull();
}

static cJSON *steps_of(const struct sl_node_scale *s, cJSON *nodes)
{
    cJSON *all = cJSON_CreateArray();
    char name[NAME_BYTES], text[NAME_BYTES + SL_SCALE_STEP_BYTES];
    for (uint32_t i = 0; i < s->n; i++) {
        const cJSON *o = cJSON_GetArrayItem(nodes, (int)i), *step;
        cJSON_ArrayForEach(step, cJSON_GetObjectItemCaseSensitive(o, "steps"))
        {
            snprintf(text, sizeof text, "%s: %s", name_of(s, i, name),
                     cJSON_IsString(step) ? step->valuestring : "");
            cJSON_AddItemToArray(all, cJSON_CreateString(text));
        }
    }
    return all;
}

static void sum_up(cJSON *all, cJSON *nodes)
{
    static const char *const times[] = {"epoch_seconds_now", "epoch_seconds_then", "move_seconds",
                                        "took_seconds"};
    double value[SL_COUNT_OF(times)];
    for (size_t i = 0; i < SL_COUNT_OF(times); i++) {
        value[i] = slowest(nodes, times[i]);
        put(all, times[i], number(value[i]));
    }
    const cJSON *left = cJSON_GetObjectItemCaseSensitive(all, "epochs_left");
    const double gain = value[0] - value[1], epochs = cJSON_IsNumber(left) ? left->valuedouble : 0;
    put(all, "gain_seconds_an_epoch", number(gain));
    put(all, "pays", cJSON_CreateBool(gain * epochs > value[2]));
}

// Owned by the caller; NULL without memory.
static char *json_of(const struct sl_node_scale *s, bool ok, const char *message)
{
    cJSON *nodes = cJSON_CreateArray();
    for (uint32_t i = 0; i < s->n; i++) {
        cJSON *o = object_of(&s->of[i]);
        cJSON_DeleteItemFromObject(o, "schema");
        cJSON_DeleteItemFromObject(o, "job");
        cJSON_AddNumberToObject(o, "node", s->of[i].node);
        cJSON_AddStringToObject(o, "host", s->events.host(s->ctx, s->of[i].node));
        cJSON_AddItemToArray(nodes, o);
    }
    cJSON *all = object_of(&s->of[0]);
    put(all, "job", cJSON_CreateString(s->job));
    put(all, "ok", cJSON_CreateBool(ok));
    put(all, "dry_run", cJSON_CreateBool(s->asked.dry_run));
    put(all, "message", cJSON_CreateString(message));
    put(all, "steps", steps_of(s, nodes));
    sum_up(all, nodes);
    cJSON_AddItemToObject(all, "nodes", nodes);
    char *text = sl_json_line(all);
    cJSON_Delete(all);
    return text;
}

// --- the client ----------------------------------------------------------------------------------

static void tell_done(struct sl_node_scale *s, const struct sl_bus_peer *client, bool ok,
                      const char *message, char *json)
{
    Sl__Control__ScaleDone done = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE_DONE, scale_done, &done);
    done.ok = ok;
    done.message = (char *)message; // only read
    done.json = json ? json : "";
    if (s->of) {
        const struct sl_node_answer *first = &s->of[0];
        done.samplers = first->samplers;
        done.trainers = first->trainers;
        for (uint32_t i = 0; i < s->n; i++)
            done.seconds = SL_MAX(done.seconds, s->of[i].seconds);
    }
    s->events.tell(s->ctx, client, &e);
}

static void refuse(struct sl_node_scale *s, const struct sl_bus_peer *client, bool dry_run,
                   const char *why)
{
    const struct sl_scale_plan none = {.expectation = {NAN, NAN, NAN, false, false},
                                       .move_seconds = NAN};
    const struct sl_scale_result result = {
        .job = s->job, .dry_run = dry_run, .took_seconds = -1, .message = why};
    char *json = sl_scale_plan_json(&none, &result);
    Sl__Control__ScaleDone done = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE_DONE, scale_done, &done);
    done.message = (char *)why; // only read
    done.json = json ? json : "";
    s->events.tell(s->ctx, client, &e);
    free(json);
}

static void tell_plan(struct sl_node_scale *s, char *text)
{
    Sl__Control__ScaleProgress progress = SL__CONTROL__SCALE_PROGRESS__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE_PROGRESS, scale_progress, &progress);
    char *json = json_of(s, true, text);
    progress.text = text;
    progress.json = json ? json : "";
    s->events.tell(s->ctx, &s->client, &e);
    free(json);
}

static void tell_step(struct sl_node_scale *s, uint32_t i, const char *step)
{
    Sl__Control__ScaleProgress progress = SL__CONTROL__SCALE_PROGRESS__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE_PROGRESS, scale_progress, &progress);
    char name[NAME_BYTES], text[512];
    snprintf(text, sizeof text, "%s: %s", name_of(s, i, name), step);
    progress.text = text;
    s->events.tell(s->ctx, &s->client, &e);
}

// --- the stages ----------------------------------------------------------------------------------

static void ask_all(struct sl_node_scale *s, enum sl_node_scale_stage stage, uint64_t seconds)
{
    Sl__Control__Scale scale = s->asked;
    forget_answers(s);
    s->stage = stage;
    s->request = sl_request_begin(0).id;
    s->until_ns = sl_now_ns() + seconds * SECOND;
    scale.dry_run = stage == SL_NODE_SCALE_PLANS;
    scale.has_node = false;
    for (uint32_t i = 0; i < s->n; i++)
        s->events.ask(s->ctx, s->of[i].node, s->request, &scale);
}

static void finish(struct sl_node_scale *s, bool ok, char *text)
{
    const char *message = text ? text : "there is no memory for what the nodes say";
    char *json = json_of(s, ok, message);
    tell_done(s, &s->client, ok, message, json);
    if (!s->asked.dry_run)
        s->events.on_over(s->ctx, ok, message);
    free(json);
    sl_node_scale_fini(s);
}

static void on_plans(struct sl_node_scale *s)
{
    const bool ok = count(s, false) == 0;
    char one[256];
    snprintf(one, sizeof one, "; 'sluice scale %s ... --node N' changes one node alone", s->job);
    char *text = words_of(s, ok ? "" : "nothing has been changed: ", !ok,
                          !ok && count(s, true) > 0 ? one : "");
    if (!ok || s->asked.dry_run || !text) {
        finish(s, ok && text, text);
    } else {
        tell_plan(s, text); // so the client knows that it is accepted
        ask_all(s, SL_NODE_SCALE_CHANGES, SL_WORKER_START_SECONDS + SL_NODE_SCALE_ANSWER_S);
    }
    free(text);
}

// What an undo takes back.
static void remember(struct sl_node_scale *s)
{
    bool moved[SL_NODES_MAX] = {0}, any = false;
    for (uint32_t i = 0; i < s->n; i++)
        any |= moved[s->of[i].node] = s->of[i].moves && s->of[i].ok;
    if (any)
        memcpy(s->last, moved, sizeof s->last);
}

static void on_changes(struct sl_node_scale *s)
{
    const bool ok = count(s, false) == 0;
    remember(s);
    char *text = words_of(s, ok ? "" : "the new split does not hold everywhere: ", false, "");
    finish(s, ok && text, text);
    free(text);
}

static void go_on(struct sl_node_scale *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (!s->of[i].done)
            return;
    if (s->stage == SL_NODE_SCALE_PLANS)
        on_plans(s);
    else
        on_changes(s);
}

// Those that have not answered will not.
static void give_up(struct sl_node_scale *s, const char *why)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (!s->of[i].done) {
            s->of[i].done = true;
            s->of[i].message = strdup(why);
        }
    go_on(s);
}

void sl_node_scale_on_answer(struct sl_node_scale *s, uint32_t node, const Sl__Control__Envelope *m)
{
    // An answer to what is not asked any more has another number.
    uint32_t i = 0;
    if (s->stage == SL_NODE_SCALE_NONE || m->request != s->request)
        return;
    while (i < s->n && s->of[i].node != node)
        i++;
    if (i == s->n || s->of[i].done)
        return;
    struct sl_node_answer *a = &s->of[i];
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS) {
        a->moves = true;
        if (!*m->scale_progress->json) // its plan is told
            tell_step(s, i, m->scale_progress->text);
        return;
    }
    a->done = true;
    a->ok = m->scale_done->ok;
    a->samplers = m->scale_done->samplers;
    a->trainers = m->scale_done->trainers;
    a->seconds = m->scale_done->seconds;
    a->message = strdup(m->scale_done->message);
    a->json = strdup(m->scale_done->json);
    go_on(s);
}

void sl_node_scale_poll(struct sl_node_scale *s)
{
    char why[128];
    if (s->stage == SL_NODE_SCALE_NONE || sl_now_ns() < s->until_ns)
        return;
    snprintf(why, sizeof why, "no answer within %u s: is its broker stopped?",
             SL_NODE_SCALE_ANSWER_S +
                 (s->stage == SL_NODE_SCALE_PLANS ? 0u : (unsigned)SL_WORKER_START_SECONDS));
    give_up(s, why);
}

void sl_node_scale_end(struct sl_node_scale *s)
{
    if (s->stage != SL_NODE_SCALE_NONE)
        give_up(s, s->stage == SL_NODE_SCALE_PLANS ? "the job ended before it answered"
                                                   : "the job ended before the new split held");
}

// An undo is of the last change, on the nodes whose split it has moved.
static void choose(struct sl_node_scale *s, uint32_t n, const Sl__Control__Scale *scale)
{
    const bool some = scale->undo && memchr(s->last, 1, sizeof s->last);
    s->n = 0;
    for (uint32_t node = 0; node < n; node++)
        if (scale->has_node ? node == scale->node : !some || s->last[node])
            s->of[s->n++].node = node;
}

void sl_node_scale_on_request(struct sl_node_scale *s, uint32_t n, const struct sl_bus_peer *client,
                              const Sl__Control__Scale *scale)
{
    char why[160];
    if (scale->has_node && scale->node >= n) {
        snprintf(why, sizeof why, "found node %u, wanted a rank below %u: the job runs on %s",
                 scale->node, n, SL_PLURAL(n, "node"));
    } else if (s->stage != SL_NODE_SCALE_NONE) {
        snprintf(why, sizeof why,
                 "a change that somebody asked for is under way since %.1f s: wait until it holds",
                 (double)(sl_now_ns() - s->began_ns) * 1e-9);
    } else if (!(s->of = calloc(n, sizeof *s->of))) {
        snprintf(why, sizeof why, "there is no memory for the answers of %u nodes", n);
    } else {
        choose(s, n, scale);
        s->asked = *scale;
        s->client = *client;
        s->began_ns = sl_now_ns();
        ask_all(s, SL_NODE_SCALE_PLANS, SL_NODE_SCALE_ANSWER_S);
        return;
    }
    refuse(s, client, scale->dry_run, why);
}
