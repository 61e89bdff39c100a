// The list of jobs as a table.
#include "cli/job_table.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

#define NOW 10000.0

static const char jobs[] =
    "{\"daemon\": {\"pid\": 42, \"version\": \"0.2.0\", \"seconds\": 12.1, \"cores\": \"0-1\","
    "\"free_cores\": \"\", \"page\": \"http://127.0.0.1:8080/\"}, \"jobs\": ["
    "{\"id\": \"1\", \"name\": \"sage\", \"state\": \"running\", \"position\": null, \"epoch\": 3,"
    "\"epochs\": 20, \"loss\": 0.25, \"samplers\": 1, \"trainers\": 3, \"cores\": \"0-1\","
    "\"started\": 9000, \"ended\": null, \"seconds_left\": 200, \"resumed\": 2},"
    "{\"id\": \"2\", \"name\": \"gat\", \"state\": \"queued\", \"position\": 1, \"why\": \"waits "
    "for core 0, which job 1 'sage' has\", \"epoch\": null, \"epochs\": 5, \"cores\": \"0\","
    "\"submitted\": 9990, \"started\": null, \"ended\": null},"
    "{\"id\": \"3\", \"name\": \"pin\", \"state\": \"failed\", \"epoch\": 0, \"epochs\": 5,"
    "\"samplers\": 1, \"trainers\": 1, \"message\": \"trainer 0 | died\\nagain\", \"cores\": \"0\","
    "\"started\": 1, \"ended\": 9000},"
    "{\"id\": null, \"name\": \"mine\", \"state\": \"running\", \"epochs\": null, \"cores\": null,"
    "\"started\": 2800},"
    "{\"id\": null, \"name\": \"wide\", \"state\": \"running\", \"epochs\": null, \"cores\": null,"
    "\"started\": 2800, \"nodes\": [\"a\", \"b\", \"c\", \"\", \"e\"]},"
    "{\"id\": null, \"name\": \"one\", \"state\": \"running\", \"epochs\": null, \"cores\": null,"
    "\"started\": 2800, \"nodes\": []}]}";

static char *text; // what was printed last (owned)

static const char *print(unsigned columns, size_t n_left_out)
{
    size_t n;
    cJSON *list = cJSON_Parse(jobs);
    ck_assert_ptr_nonnull(list);
    free(text);
    FILE *f = open_memstream(&text, &n);
    sl_job_table_print(list, NOW, columns, n_left_out, f);
    fclose(f);
    cJSON_Delete(list);
    return text;
}

TEST(a_table_with_what_they_wait_for)
{
    print(0, 1);
    assert_has(text, "daemon 0.2.0, process 42, for 12.1 s: cores 0-1, free none; page "
                     "http://127.0.0.1:8080/\n\n");
    assert_has(text, "  1  sage  running   4/20  0.2500  1S 3T  0-1    3 min left  resumed 2 "
                     "times\n");
    assert_has(text, "  2  gat   queued     -/5                 0        for 10 s  number 1 in "
                     "the queue: waits for core 0, which job 1 'sage' has\n");
    assert_has(text, "  3  pin   failed     1/5                 0      16 min ago  trainer 0 / "
                     "died again\n");
    assert_has(text, "run  mine  running                                  for 2 h\n");
    assert_has(text,
               "run  wide  running                                  for 2 h  on 5 nodes: a, b, "
               "c, ?, ...\n");
    assert_has(text, "run  one   running                                  for 2 h\n");
    assert_has(text, "\n1 more is over: 'sluice ps --all' lists them\n");
}

TEST(lines_fit_the_terminal)
{
    print(100, 0);
    size_t widest = 0;
    for (const char *line = strstr(text, "\n\n") + 2; *line; line += strcspn(line, "\n") + 1)
        widest = SL_MAX(widest, strcspn(line, "\n"));
    ck_assert_uint_le(widest, 100);
    assert_has(text, "for 10 s\n     number 1 in the queue: waits for core 0, which job 1 'sage' "
                     "has\n");
    assert_has(text, "3 min left  resumed 2 times\n"); // it fits
    assert_has(text, "free none; page http://127.0.0.1:8080/\n");
    print(64, 0);
    assert_has(text, "free none\npage http://127.0.0.1:8080/\n");
    assert_has(text,
               "\n     number 1 in the queue: waits for core 0, which job 1 'sage'\n     has\n");
}

TEST(the_rule_is_as_wide_as_the_table)
{
    print(0, 0);
    const char *rule = strstr(text, "\n---") + 1;
    const char *row = strstr(text, "  1  sage");
    ck_assert_uint_eq(strcspn(rule, "\n"), (size_t)(strstr(row, "  resumed") - row));
}

TEST(what_ended_long_ago_is_not_recent)
{
    cJSON *list = cJSON_Parse(jobs);
    const cJSON *all = cJSON_GetObjectItem(list, "jobs");
    ck_assert(sl_job_table_is_recent(cJSON_GetArrayItem(all, 0), NOW));
    ck_assert(sl_job_table_is_recent(cJSON_GetArrayItem(all, 1), NOW));
    ck_assert(!sl_job_table_is_recent(cJSON_GetArrayItem(all, 2), NOW));
    ck_assert(sl_job_table_is_recent(cJSON_GetArrayItem(all, 2), 9000 + 299));
    cJSON_Delete(list);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
