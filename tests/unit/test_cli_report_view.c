// What `sluice report` prints of a run.
#include "cli/command.h"
#include "cli/report_view.h"
#include "common/text/json.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

// Valid until the next one.
static const char *print(const char *json, bool all)
{
    static char text[1 << 16];
    cJSON *run = cJSON_Parse(json);
    ck_assert_msg(run != NULL, "the test's JSON is none: %s", json);
    struct sl_read_report r;
    must(sl_read_report_init(&r, sl_json_at(run, "report")));
    capture_begin();
    sl_report_view_print(stdout, run, &r, all);
    sl_read_report_fini(&r);
    cJSON_Delete(run);
    char *printed = capture_end();
    snprintf(text, sizeof text, "%s", printed);
    free(printed);
    return text;
}

static void assert_has_not(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) == NULL, "\"%s\" is in: %s", part, text);
}

#define EPOCH(n, rest, limit)                                                                      \
    "{\"epoch\":" #n ",\"loss\":0.5,\"seconds\":1.5,\"samplers\":1,\"trainers\":3," rest           \
    "\"bottleneck\":\"" limit "\"}"
#define RUN_OF(epochs, rest)                                                                       \
    "{\"output\":\"/runs/a\",\"report\":{\"job\":\"a\",\"status\":\"done\",\"wall_seconds\":3,"    \
    "\"batches\":{\"trained\":9}" rest ",\"epochs\":[" epochs "]}}"

TEST(epochs_stand_in_a_table_without_empty_columns)
{
    const char *text = print(
        RUN_OF(EPOCH(0, "", "samplers: slow") "," EPOCH(1, "", "samplers: slower"), ""), false);
    assert_has(text, "a: done in 3.0 s, 2 epochs, 9 batches\n");
    assert_has(text, "epoch    loss  seconds  split  bottleneck\n");
    assert_has(text, "    1  0.5000    1.5 s    1+3  samplers\n");
    assert_has(text, "    2  0.5000    1.5 s    1+3  samplers\n");
    assert_has(text, "directory   /runs/a\n");
}

TEST(the_best_epoch_is_marked)
{
    const char *text =
        print(RUN_OF(EPOCH(0,
                           "\"val\":{\"micro_f1\":0.25,\"macro_f1\":0.75},\"evaluate_seconds\":"
                           "0.25,\"overlapped_seconds\":3,",
                           "x") "," EPOCH(1, "\"val\":{\"micro_f1\":0.5,\"macro_f1\":0.5},", "x"),
                     ",\"best_metric\":{\"name\":\"macro_f1\",\"value\":0.75,\"epoch\":0}"),
              false);
    assert_has(text, "epoch    loss  macro_f1  seconds            evaluation  split  bottleneck\n");
    assert_has(text, "    1  0.5000  0.7500 *    1.5 s  250 ms, beside 3.0 s    1+3  x\n");
    assert_has(text, "    2  0.5000  0.5000      1.5 s");
}

// Of a run that diverged, say.
TEST(a_value_that_is_too_long_for_its_cell_is_cut)
{
    const char *text =
        print(RUN_OF(EPOCH(0, "\"val\":{\"accuracy\":1e300},", "x"),
                     ",\"best_metric\":{\"name\":\"accuracy\",\"value\":1e300,\"epoch\":0}"),
              false);
    assert_has(text, "\nepoch    loss  accuracy ");
    assert_has(text, "\n    1  0.5000  1000000000000000052504760255204420248704468581108159");
}

TEST(tests_of_epochs_are_a_column)
{
    const char *text =
        print(RUN_OF(EPOCH(0, "\"val\":{\"accuracy\":0.25},\"test\":{\"accuracy\":0.75},", "x"),
                     ",\"best_metric\":{\"name\":\"accuracy\",\"value\":0.25,\"epoch\":0}"),
              false);
    assert_has(text, "epoch    loss  accuracy    test  seconds  split  bottleneck\n");
    assert_has(text, "    1  0.5000  0.2500 *  0.7500    1.5 s    1+3  x\n");
}

TEST(epochs_with_one_limit_are_one_line)
{
    const char *text =
        print(RUN_OF(EPOCH(0, "", "samplers: a") "," EPOCH(1, "", "trainers: b") "," EPOCH(
                         2, "", "trainers: c") "," EPOCH(3, "", "samplers: d"),
                     ""),
              false);
    assert_has(text, "\nBottlenecks\n"
                     "  epoch 1: samplers: a\n"
                     "  epochs 2 to 3: trainers: c (epoch 3)\n"
                     "  epoch 4: samplers: d\n");
}

TEST(only_the_newest_epochs_are_shown_unless_all_are_wanted)
{
    static char json[1 << 14];
    size_t n = (size_t)snprintf(json, sizeof json, "{\"report\":{\"epochs\":[");
    for (int i = 0; i < 25; i++)
        n += (size_t)snprintf(json + n, sizeof json - n,
                              "%s{\"epoch\":%d,\"loss\":%d,\"seconds\":1}", i ? "," : "", i, i);
    snprintf(json + n, sizeof json - n, "]}}");
    const char *text = print(json, false);
    assert_has(text, "(5 earlier epochs: --all shows them)\n");
    assert_has(text, "\n    6   5.0000    1.0 s\n");
    assert_has_not(text, "\n    5   4.0000    1.0 s\n");
    text = print(json, true);
    assert_has_not(text, "--all");
    assert_has(text, "\n    1   0.0000    1.0 s\n");
}

TEST(decisions_deaths_and_events_are_told_where_there_are_any)
{
    const char *text = print(RUN_OF("", ""), false);
    static const char *const headings[] = {
        "Epochs", "Bottlenecks", "Decisions", "Changes", "Workers that died", "Gone on", "Events"};
    for (size_t i = 0; i < SL_COUNT_OF(headings); i++)
        assert_has_not(text, headings[i]);
    text = print(
        "{\"events\":[{\"kind\":\"start\",\"seconds\":0.5,\"text\":\"1 sampler | 2 trainers\"},"
        "{\"kind\":\"epoch\",\"seconds\":2,\"text\":\"epoch 1\"}],"
        "\"report\":{\"job\":\"a\",\"message\":\"no memory\",\"epochs\":[],"
        "\"allocations\":[{\"epoch\":0,\"samplers\":1,\"trainers\":2,\"reason\":\"the formula\"}],"
        "\"scales\":[{\"seconds\":3,\"epoch\":1,\"by\":\"user\",\"from\":{\"samplers\":1,"
        "\"trainers\":2},\"to\":{\"samplers\":2,\"trainers\":1},\"took_seconds\":0.25,\"ok\":true,"
        "\"message\":\"done\"},{\"seconds\":4,\"epoch\":1,\"by\":\"schedule\",\"from\":{},"
        "\"to\":{},\"ok\":false,\"message\":\"no room\"}],"
        "\"restarts\":[{\"worker\":\"sampler 0\",\"pid\":7,\"seconds\":1.5,\"cause\":\"SIGKILL\","
        "\"held\":\"batch 3\"},{\"worker\":\"trainer 1\",\"pid\":8,\"seconds\":1.5,\"cause\":"
        "\"exit 1\",\"held\":null}],"
        "\"resumes\":[{\"update\":12,\"epoch\":1,\"batch\":3,\"seconds_before\":2}]}}",
        false);
    assert_has(text, "message     no memory\n");
    assert_has(text, "\nDecisions on the split\n  epoch 1: 1+2: the formula\n");
    assert_has(text, "  3.0 s, epoch 2, by the user: 1+2 -> 2+1 in 250 ms: done\n");
    assert_has(text, "refused: no room\n");
    assert_has(text, "  1.5 s, sampler 0 (process 7): SIGKILL; it held batch 3\n");
    assert_has(text, "  1.5 s, trainer 1 (process 8): exit 1\n");
    assert_has(text, "  after update 12, in epoch 2, 2.0 s from the start\n");
    assert_has(text, "\nEvents\n     500 ms  start       1 sampler | 2 trainers\n");
    assert_has_not(text, "epoch 1\n"); // ends of epochs stand in the table
}

TEST(nodes_have_a_row_each)
{
    const char *text = print(
        RUN_OF(EPOCH(0, "", "x"),
               ",\"nodes\":[{\"rank\":0,\"host\":\"a\",\"samplers\":1,\"trainers\":3,\"batches\":5,"
               "\"late_seconds\":1.5,\"wire_seconds\":0.25,\"received_bytes\":1048576,"
               "\"remote_rows\":700,\"remote_share\":0.25,\"remote_seconds\":0.002},"
               "{\"rank\":1,\"host\":null}]"),
        false);
    assert_has(text,
               "\n   0  a     1S 3T        5  1.5 s  250 ms  1.00 MiB          700   25 %  2.0 ms\n"
               "   1        -            -      -       -         -            -      -       -\n");
    assert_has_not(print(RUN_OF(EPOCH(0, "", "x"), ""), false), "remote rows");
}

TEST(the_commands_options_are_checked)
{
    static const struct {
        const char *words[5];
        const char *message;
    } wrong[] = {
        {{"report"}, "RUN is missing"},
        {{"report", "runs/a", "--out", "x.html"}, "give --html with it"},
        {{"report", "runs/a", "--html", "-o", "json"}, "two things"},
    };
    for (size_t i = 0; i < SL_COUNT_OF(wrong); i++) {
        ck_assert_int_eq(run_words(&sl_command_report, 5, wrong[i].words), SL_EINVAL);
        assert_message_has(wrong[i].message);
    }
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
