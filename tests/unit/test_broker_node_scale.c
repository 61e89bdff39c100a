// A change of the split of a job over nodes: what its nodes are asked, and what the client hears.
#include "broker/scheduler/node_scale.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "tests/unit/json_at.h"
#include "tests/unit/suite.h"

enum { NODES = 3, SECOND = 1000000000 };

static const struct sl_bus_peer client = {.n = 1, .request = 7};
static struct sl_node_scale s;

// What nodes have been asked last, and how often in all.
static struct {
    uint32_t asks, of[NODES];
    uint64_t request;
    Sl__Control__Scale scale;
} asked;

// What the client has been told last.
static struct {
    uint32_t steps, answers, overs;
    bool ok;
    char step[1024], message[2048];
    cJSON *json;
} told;

static void on_ask(void *ctx, uint32_t node, uint64_t request, Sl__Control__Scale *scale)
{
    asked.asks++;
    asked.of[node]++;
    asked.request = request;
    asked.scale = *scale;
}

static void take_json(const char *json)
{
    cJSON_Delete(told.json);
    told.json = *json ? cJSON_Parse(json) : NULL;
}

static int on_tell(void *ctx, const struct sl_bus_peer *to, Sl__Control__Envelope *e)
{
    ck_assert(sl_bus_same_peer(to, &client) && to->request == 7);
    if (e->body_case == SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS) {
        told.steps++;
        snprintf(told.step, sizeof told.step, "%s", e->scale_progress->text);
        take_json(e->scale_progress->json);
        return SL_OK;
    }
    told.answers++;
    told.ok = e->scale_done->ok;
    snprintf(told.message, sizeof told.message, "%s", e->scale_done->message);
    take_json(e->scale_done->json);
    return SL_OK;
}

static void on_over(void *ctx, bool ok, const char *text)
{
    told.overs++;
    ck_assert_int_eq(ok, told.ok);
    ck_assert_str_eq(text, told.message);
}

static const char *host(void *ctx, uint32_t node)
{
    static const char *const hosts[NODES] = {"a", "b", "c"};
    return hosts[node];
}

static void setup(void)
{
    memset(&asked, 0, sizeof asked);
    memset(&told, 0, sizeof told);
    s = (struct sl_node_scale){
        .job = "unit",
        .events = {.ask = on_ask, .tell = on_tell, .on_over = on_over, .host = host}};
}

static void teardown(void)
{
    sl_node_scale_fini(&s);
    cJSON_Delete(told.json);
}

static void request(Sl__Control__Scale scale)
{
    sl_node_scale_on_request(&s, NODES, &client, &scale);
}

static Sl__Control__Scale wanted(void)
{
    Sl__Control__Scale scale = SL__CONTROL__SCALE__INIT;
    scale.has_samplers = true;
    scale.samplers = 2;
    return scale;
}

static void step(uint32_t node, const char *text, const char *json)
{
    Sl__Control__ScaleProgress progress = SL__CONTROL__SCALE_PROGRESS__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE_PROGRESS, scale_progress, &progress);
    e.request = asked.request;
    progress.text = (char *)text;
    progress.json = (char *)json;
    sl_node_scale_on_answer(&s, node, &e);
}

static void answer_to(uint64_t number, uint32_t node, bool ok, const char *text)
{
    Sl__Control__ScaleDone done = SL__CONTROL__SCALE_DONE__INIT;
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE_DONE, scale_done, &done);
    char json[512];
    snprintf(json, sizeof json,
             "{\"schema\":\"sluice.scale/1\",\"ok\":%s,\"to\":{\"samplers\":2},\"steps\":[\"%s\"],"
             "\"epoch_seconds_now\":%u,\"epoch_seconds_then\":2,\"move_seconds\":1,"
             "\"epochs_left\":1,\"took_seconds\":null}",
             ok ? "true" : "false", text, 3 + node);
    e.request = number;
    done.ok = ok;
    done.message = (char *)text;
    done.json = json;
    sl_node_scale_on_answer(&s, node, &e);
}

static void answer(uint32_t node, bool ok, const char *text)
{
    answer_to(asked.request, node, ok, text);
}

static void plans(void)
{
    for (uint32_t i = 0; i < NODES; i++)
        answer(i, true, "plan");
}

CASE(.name = "all", .setup = setup, .teardown = teardown)

TEST(plans_come_first_then_changes)
{
    request(wanted());
    ck_assert(asked.asks == NODES && asked.scale.dry_run && asked.scale.samplers == 2);
    plans();
    ck_assert(asked.asks == 2 * NODES && !asked.scale.dry_run && asked.scale.samplers == 2);
    ck_assert_str_eq(told.step, "host a (rank 0): plan; host b (rank 1): plan; "
                                "host c (rank 2): plan");
    ck_assert_double_eq(number(told.json, "epoch_seconds_now"), 5); // of the slowest
    ck_assert_double_eq(number(told.json, "gain_seconds_an_epoch"), 3);
    ck_assert(cJSON_IsTrue(at(told.json, "pays")) && cJSON_IsNull(at(told.json, "took_seconds")));
    ck_assert_str_eq(at(told.json, "steps.2")->valuestring, "host c (rank 2): plan");
    ck_assert_str_eq(at(told.json, "nodes.1.host")->valuestring, "b");
    step(1, "plan", "{}"); // which is known
    ck_assert_uint_eq(told.steps, 1);
    step(1, "sampler 1 loads", "");
    ck_assert_str_eq(told.step, "host b (rank 1): sampler 1 loads");
    answer(2, true, "holds");
    answer(0, true, "holds");
    ck_assert_uint_eq(told.answers, 0);
    answer(1, true, "holds");
    ck_assert(told.answers == 1 && told.ok && told.overs == 1);
    ck_assert_ptr_nonnull(strstr(told.message, "host b (rank 1): holds; host c"));
}

TEST(a_dry_run_ends_with_plans)
{
    Sl__Control__Scale scale = wanted();
    scale.dry_run = true;
    request(scale);
    plans();
    ck_assert(told.answers == 1 && told.ok && told.steps == 0 && asked.asks == NODES);
    ck_assert_uint_eq(told.overs, 0); // nothing was to be done
    ck_assert(cJSON_IsTrue(at(told.json, "dry_run")));
}

TEST(nothing_is_changed_where_one_node_refuses)
{
    request(wanted());
    answer(0, true, "plan");
    answer(1, false, "found 9");
    answer(2, true, "plan");
    ck_assert(told.answers == 1 && !told.ok && asked.asks == NODES);
    ck_assert_str_eq(told.message, "nothing has been changed: host b (rank 1): found 9; "
                                   "'sluice scale unit ... --node N' changes one node alone");
    ck_assert(cJSON_IsFalse(at(told.json, "ok")) && cJSON_IsTrue(at(told.json, "nodes.0.ok")));
}

TEST(what_all_refuse_is_said_as_of_one)
{
    request(wanted());
    for (uint32_t i = 0; i < NODES; i++)
        answer(i, false, "found 9");
    ck_assert_str_eq(told.message, "found 9");
}

TEST(where_it_does_not_hold_is_said)
{
    request(wanted());
    plans();
    answer(0, true, "holds");
    answer(1, false, "rolled back");
    answer(2, true, "holds");
    ck_assert(told.answers == 1 && !told.ok);
    ck_assert_str_eq(told.message,
                     "the new split does not hold everywhere: host a (rank 0): holds; "
                     "host b (rank 1): rolled back; host c (rank 2): holds");
}

TEST(a_node_that_does_not_answer_is_named)
{
    request(wanted());
    answer(0, true, "plan");
    answer(2, true, "plan");
    sl_clock_advance((SL_NODE_SCALE_ANSWER_S - 1) * (uint64_t)SECOND);
    sl_node_scale_poll(&s);
    ck_assert_uint_eq(told.answers, 0);
    const uint64_t late = asked.request;
    sl_clock_advance(SECOND);
    sl_node_scale_poll(&s);
    ck_assert(told.answers == 1 && !told.ok && asked.asks == NODES);
    ck_assert_ptr_nonnull(strstr(told.message, "host b (rank 1): no answer within 10 s"));
    ck_assert_str_eq(at(told.json, "nodes.1.message")->valuestring,
                     "no answer within 10 s: is its broker stopped?");
    request(wanted());
    answer_to(late, 1, true, "plan"); // of the question before
    answer(0, true, "plan");
    answer(2, true, "plan");
    ck_assert_uint_eq(told.steps, 0);
}

TEST(the_end_of_the_job_is_an_answer)
{
    request(wanted());
    answer(1, true, "plan");
    sl_node_scale_end(&s);
    ck_assert(told.answers == 1 && !told.ok);
    ck_assert_ptr_nonnull(
        strstr(told.message, "host c (rank 2): the job ended before it answered"));
    request(wanted());
    plans();
    answer(0, true, "holds");
    sl_node_scale_end(&s);
    ck_assert(told.answers == 2 && !told.ok);
    ck_assert_ptr_nonnull(strstr(told.message, "host a (rank 0): holds; host b (rank 1): the job "
                                               "ended before the new split held"));
    sl_node_scale_end(&s);
    ck_assert_uint_eq(told.answers, 2);
}

TEST(one_at_a_time)
{
    request(wanted());
    request(wanted());
    ck_assert(told.answers == 1 && !told.ok && asked.asks == NODES);
    ck_assert_ptr_nonnull(strstr(told.message, "is under way since"));
    plans();
    for (uint32_t i = 0; i < NODES; i++)
        answer(i, true, "holds");
    ck_assert(told.answers == 2 && told.ok);
}

TEST(one_node_alone_and_an_undo_of_it)
{
    Sl__Control__Scale scale = wanted(), undo = SL__CONTROL__SCALE__INIT;
    scale.has_node = true;
    scale.node = NODES;
    request(scale);
    ck_assert(told.answers == 1 && !told.ok && asked.asks == 0);
    ck_assert_str_eq(told.message, "found node 3, wanted a rank below 3: the job runs on 3 nodes");
    scale.node = 1;
    request(scale);
    answer(0, true, "plan"); // nobody asked it
    answer(1, true, "plan");
    step(1, "plan", "{}");
    answer(1, true, "holds");
    ck_assert(told.answers == 2 && told.ok && asked.of[1] == 2 && asked.asks == 2);
    ck_assert_int_eq(cJSON_GetArraySize(at(told.json, "nodes")), 1);
    undo.undo = true;
    request(undo);
    ck_assert(asked.of[1] == 3 && asked.asks == 3 && asked.scale.undo);
}

TEST(an_undo_is_of_the_nodes_that_were_moved)
{
    Sl__Control__Scale undo = SL__CONTROL__SCALE__INIT;
    undo.undo = true;
    request(undo);
    ck_assert_uint_eq(asked.asks, NODES); // each says that there is nothing
    for (uint32_t i = 0; i < NODES; i++)
        answer(i, false, "nothing");
    request(wanted());
    plans();
    for (uint32_t i = 0; i < NODES; i++) {
        if (i != 1) // has that split already
            step(i, "plan", "{}");
        answer(i, i != 2, "held, or not");
    }
    request(undo);
    ck_assert(asked.of[0] == 4 && asked.of[1] == 3 && asked.of[2] == 3);
}

RUN_TESTS()
