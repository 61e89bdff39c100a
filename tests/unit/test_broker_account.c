// What a run directory tells of its run: over, under way, killed, damaged.
#include "tests/unit/json_at.h"
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>

#include "broker/rundir/run_reader.h"

static cJSON *run;

static void describe(void)
{
    must(sl_run_reader_describe(dir, &run));
}

static int count(const cJSON *of, const char *key)
{
    const cJSON *item = at(of, key);
    ck_assert_msg(cJSON_IsArray(item), "'%s' is no list", key);
    return cJSON_GetArraySize(item);
}

static void write_begun(void)
{
    write_text("config.json", "{\"name\": \"products\", \"cache\": {\"policy\": \"presc\"}, "
                              "\"devices\": [{\"kind\": \"cpu\"}]}");
    write_text("metrics.jsonl",
               "{\"epoch\":0,\"batches\":10,\"switches\":1,\"switching\":{\"batches\":3}}\n"
               "{\"epoch\":1,\"batches\":12,\"switches\":2,\"switching\":{\"batches\":4}}\n"
               "{\"epoch\":2,\"bat"); // half a line
}

TEST(a_run_that_is_over_has_its_report)
{
    write_begun();
    write_text("report.json", "{\"schema\": \"sluice.report/1\", \"job\": \"a\", \"status\": "
                              "\"done\", \"config\": {\"name\": \"a\"}, \"devices\": [], "
                              "\"epochs\": [{\"epoch\": 0}], \"allocations\": [{}, {}], "
                              "\"restarts\": []}");
    write_text("events.jsonl", "{\"kind\": \"start\", \"time\": 1000.5}\n{\"kind\": \"end\"}\n");
    describe();
    ck_assert_str_eq(words(run, "schema"), "sluice.describe/1");
    ck_assert_str_eq(words(run, "state"), "done");
    ck_assert_str_eq(words(run, "job"), "a");
    ck_assert_str_eq(words(run, "output"), dir);
    ck_assert_double_eq(number(run, "started"), 1000.5);
    ck_assert_int_eq(count(run, "events"), 2);
    ck_assert_int_eq(count(run, "epochs"), 1);
    ck_assert_int_eq(count(run, "allocations"), 2);
    ck_assert_int_eq(count(run, "scales"), 0); // the report has none
    ck_assert_str_eq(words(at(run, "report"), "status"), "done");
    ck_assert(cJSON_IsNull(at(run, "id")));
    cJSON_Delete(run);
}

TEST(a_run_that_was_killed_is_told_so_far)
{
    write_begun();
    describe();
    const cJSON *report = at(run, "report");
    ck_assert_str_eq(words(run, "state"), "interrupted");
    ck_assert_str_eq(words(report, "job"), "products");
    ck_assert_int_eq(count(report, "epochs"), 2);
    ck_assert_double_eq(number(at(report, "batches"), "trained"), 22);
    ck_assert_double_eq(number(at(report, "switching"), "switches"), 3);
    ck_assert_double_eq(number(at(report, "switching"), "batches"), 7);
    ck_assert_str_eq(words(at(report, "cache"), "policy"), "presc");
    ck_assert_int_eq(count(report, "devices"), 1);
    ck_assert_int_eq(count(run, "events"), 0);
    ck_assert(number(run, "started") > 1e9);
    cJSON_Delete(run);
}

TEST(a_run_whose_directory_is_locked_is_running)
{
    write_begun();
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    describe();
    ck_assert_str_eq(words(run, "state"), "running");
    cJSON_Delete(run);
}

TEST(decisions_so_far_are_the_newest_checkpoints)
{
    write_begun();
    mkdir(in_dir("checkpoints"), 0777);
    mkdir(in_dir("checkpoints/000000000010"), 0777);
    mkdir(in_dir("checkpoints/000000000020"), 0777);
    write_text("checkpoints/000000000010/state.json", "{\"history\": {\"allocations\": [{}]}}");
    write_text("checkpoints/000000000020/state.json",
               "{\"history\": {\"allocations\": [{}, {}], \"restarts\": [{}], \"scales\": 3}}");
    describe();
    ck_assert_int_eq(count(run, "allocations"), 2);
    ck_assert_int_eq(count(run, "restarts"), 1);
    ck_assert_int_eq(count(run, "scales"), 0); // what is no list
    cJSON_Delete(run);
}

TEST(a_damaged_checkpoint_is_passed_over)
{
    write_begun();
    mkdir(in_dir("checkpoints"), 0777);
    mkdir(in_dir("checkpoints/000000000020"), 0777);
    write_text("checkpoints/000000000020/state.json", "{\"history\": {\"alloc");
    describe();
    ck_assert_int_eq(count(run, "allocations"), 0);
    cJSON_Delete(run);
}

TEST(a_run_that_has_just_begun_has_no_epochs)
{
    write_text("config.json", "{}");
    describe();
    ck_assert_int_eq(count(run, "epochs"), 0);
    ck_assert_str_eq(words(run, "job"), "");
    cJSON_Delete(run);
}

// files -> code, a word of the message
static const struct {
    const char *report, *config;
    int code;
    const char *word;
} damaged[] = {
    {NULL, NULL, SL_ENOENT, "no run directory"},
    {"{\"schema\": \"slu", "{}", SL_EFORMAT, "report.json' is damaged"},
    {"", "{}", SL_EFORMAT, "is damaged"},
    {"[]", "{}", SL_EFORMAT, "is damaged"},
    {"{}", "{}", SL_EFORMAT, "found schema nothing"},
    {"{\"schema\": \"other/1\", \"epochs\": []}", "{}", SL_EFORMAT, "found schema \"other/1\""},
    {"{\"schema\": \"sluice.report/1\"}", "{}", SL_EFORMAT, "epochs"},
    {NULL, "not JSON", SL_EFORMAT, "config.json' is damaged"},
};

LOOP_TEST(what_is_damaged_is_named, 0, sizeof damaged / sizeof *damaged)
{
    if (damaged[_i].report)
        write_text("report.json", damaged[_i].report);
    if (damaged[_i].config)
        write_text("config.json", damaged[_i].config);
    ck_assert_int_eq(sl_run_reader_describe(dir, &run), damaged[_i].code);
    assert_message_has(damaged[_i].word);
    ck_assert_int_eq(sl_run_reader_is_run(dir), damaged[_i].report || damaged[_i].config);
}

TEST(a_directory_that_is_not_there_is_an_error)
{
    ck_assert_int_eq(sl_run_reader_describe(in_dir("nowhere"), &run), SL_ENOENT);
    assert_message_has("nowhere");
    write_text("file", "x");
    ck_assert_int_eq(sl_run_reader_describe(in_dir("file"), &run), SL_ENOENT);
}

TEST(the_reports_text_is_as_it_stands)
{
    char *as_it_is;
    ck_assert_int_eq(sl_run_reader_report_text(dir, &as_it_is), SL_ENOENT);
    write_text("report.json", "{ \"a\":1 }");
    must(sl_run_reader_report_text(dir, &as_it_is));
    ck_assert_str_eq(as_it_is, "{ \"a\":1 }");
    free(as_it_is);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 10)
