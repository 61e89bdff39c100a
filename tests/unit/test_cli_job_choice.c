// Which job a word on the command line means, and what is said when none or several are meant.
#include "cli/job_lookup.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

static const char daemon_jobs[] =
    "{\"jobs\": ["
    "{\"id\": \"1\", \"name\": \"sage\", \"state\": \"done\", \"output\": \"/runs/first\"},"
    "{\"id\": \"2\", \"name\": \"gat\", \"state\": \"running\", \"output\": \"/runs/gat\"},"
    "{\"id\": \"3\", \"name\": \"sage\", \"state\": \"stopped\", \"output\": \"/runs/third\"},"
    "{\"id\": \"4\", \"name\": \"2\", \"state\": \"queued\", \"output\": \"/runs/two\"},"
    "{\"id\": \"5\", \"name\": \"pin\", \"state\": \"failed\", \"output\": \"/runs/pin\"},"
    "{\"id\": \"6\", \"name\": \"pin\", \"state\": \"interrupted\", \"output\": \"/runs/pin6\"}]}";

static cJSON *jobs;
static struct sl_run_job found[2];
static struct sl_job_lookup list;

static void make_list(const char *json, size_t n_found)
{
    cJSON_Delete(jobs); // of a list that has been given back
    jobs = json ? cJSON_Parse(json) : NULL;
    snprintf(found[0].name, sizeof found[0].name, "mine");
    snprintf(found[0].output, sizeof found[0].output, "%s", in_dir("mine"));
    snprintf(found[1].name, sizeof found[1].name, "gat");
    snprintf(found[1].output, sizeof found[1].output, "/elsewhere");
    ck_assert_int_eq(sl_job_lookup_init(&list, jobs, found, n_found), SL_OK);
}

// The directory of the job that is meant, or NULL with the code.
static const char *meant(const char *word, int code)
{
    const struct sl_listed_job *job;
    ck_assert_int_eq(sl_job_lookup_find(&list, word, "", &job), code);
    return job ? job->output : NULL;
}

TEST(numbers_come_before_names_and_names_before_directories)
{
    make_list(daemon_jobs, 1);
    ck_assert_str_eq(meant("2", SL_OK), "/runs/gat"); // not the job of that name
    ck_assert_str_eq(meant("gat", SL_OK), "/runs/gat");
    ck_assert_str_eq(meant("/runs/pin", SL_OK), "/runs/pin");
    ck_assert_str_eq(meant("mine", SL_OK), in_dir("mine"));
}

TEST(of_one_name_the_living_one_is_meant_or_the_newest)
{
    make_list(daemon_jobs, 0);
    ck_assert_str_eq(meant("sage", SL_OK), "/runs/third");
    ck_assert_str_eq(meant("pin", SL_OK), "/runs/pin6");
}

TEST(a_directory_is_known_by_any_of_its_names)
{
    make_list(NULL, 1);
    ck_assert_int_eq(mkdir(in_dir("mine"), 0700), 0);
    ck_assert_int_eq(symlink(in_dir("mine"), in_dir("link")), 0);
    ck_assert_ptr_nonnull(meant(in_dir("link"), SL_OK));
    ck_assert_int_eq(chdir(dir), 0);
    ck_assert_ptr_nonnull(meant("./mine/", SL_OK));
    sl_job_lookup_fini(&list);
    make_list(daemon_jobs, 0);
    ck_assert_str_eq(meant("third", SL_OK), "/runs/third"); // its last name alone
    ck_assert_ptr_null(meant("runs", SL_ENOENT));
}

TEST(two_of_one_name_are_told_apart)
{
    make_list(daemon_jobs, 2);
    ck_assert_ptr_null(meant("gat", SL_EINVAL));
    assert_has(sl_error_message(), "job 'gat': 2 jobs are called so: 'gat' (job 2, running), "
                                   "'gat' (of 'sluice run', in '/elsewhere')");
    assert_has(sl_error_message(), "number or its run directory");
}

TEST(a_near_name_is_suggested)
{
    make_list(daemon_jobs, 1);
    ck_assert_ptr_null(meant("sgae", SL_ENOENT));
    assert_has(sl_error_message(), "job 'sgae': no job has this number, name or run directory: did "
                                   "you mean 'sage' (job 1, done), 'sage' (job 3, stopped)?");
}

TEST(without_one_the_jobs_there_are_are_named)
{
    make_list(daemon_jobs, 1);
    ck_assert_ptr_null(meant("something-else", SL_ENOENT));
    assert_has(sl_error_message(), "there is 'gat' (job 2, running)");
    ck_assert_ptr_null(strstr(sl_error_message(), "'sage'")); // over
}

TEST(without_a_daemon_it_is_said_how_to_start_one)
{
    const struct sl_listed_job *job;
    make_list(NULL, 0);
    ck_assert_int_eq(sl_job_lookup_find(&list, "x", "no daemon runs: start one", &job), SL_ENOENT);
    ck_assert_str_eq(sl_error_message(),
                     "job 'x': no running job has this name or run directory: none is running; "
                     "no daemon runs: start one");
    ck_assert_int_eq(sl_job_lookup_only(&list, "no daemon runs: start one", &job), SL_ENOENT);
    ck_assert_str_eq(sl_error_message(), "no job is running: no daemon runs: start one");
}

TEST(the_only_one_works_or_else_waits)
{
    const struct sl_listed_job *job;
    make_list(daemon_jobs, 0);
    ck_assert_int_eq(sl_job_lookup_only(&list, "", &job), SL_OK);
    ck_assert_str_eq(job->id, "2");
    sl_job_lookup_fini(&list);
    make_list(daemon_jobs, 1);
    ck_assert_int_eq(sl_job_lookup_only(&list, "", &job), SL_EINVAL);
    assert_has(sl_error_message(), "2 jobs run: name one of 'gat' (job 2, running), 'mine' (of");
    sl_job_lookup_fini(&list);
    make_list("{\"jobs\": [{\"id\": \"7\", \"name\": \"a\", \"state\": \"queued\"}, {\"id\": "
              "\"8\", \"name\": \"b\", \"state\": \"done\"}]}",
              0);
    ck_assert_int_eq(sl_job_lookup_only(&list, "", &job), SL_OK);
    ck_assert_str_eq(job->id, "7");
}

TEST(a_long_list_is_cut)
{
    char json[1 << 14] = "{\"jobs\": [";
    for (int i = 0; i < 100; i++)
        sprintf(json + strlen(json),
                "%s{\"id\": \"%d\", \"name\": \"job%d\", \"state\": \"queued\"}", i ? "," : "",
                i + 1, i);
    strcat(json, "]}");
    make_list(json, 0);
    ck_assert_ptr_null(meant("zzz", SL_ENOENT));
    assert_has(sl_error_message(), "'job7' (job 8, queued) and 92 more");
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
