// What of a job is told to who only knows its model, and what is made of what that one says.
#include "cli/trainer_subprocess.h"
#include "common/base/error.h"
#include "config/config.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct sl_config config;

TEST(where_it_trained_is_no_matter)
{
    char *json = NULL;
    const char *job = "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\", \"weights\": \"w\"},"
                      " \"updates\": {\"batches_per_update\": 2, \"exchange\": \"nccl\"},"
                      " \"store\": {\"features\": \"memory\", \"prefer\": \"features\","
                      " \"placement\": \"cliques\", \"feature_ratio\": 0.5, \"graph_ratio\": 0.5},"
                      " \"devices\": [{\"kind\": \"cuda\", \"index\": 0},"
                      " {\"kind\": \"cuda\", \"index\": 1}, {\"kind\": \"cuda\", \"index\": 2}],"
                      " \"allocation\": {\"samplers\": 1, \"trainers\": 2, \"switching\": false}}";
    must(sl_trainer_subprocess_fit(job, "job.json", "elsewhere", &json));
    must(sl_config_parse(json, strlen(json), "fit", &config));
    free(json);
    ck_assert_str_eq(config.dataset, "elsewhere");
    ck_assert_str_eq(config.model.weights, "");
    ck_assert_uint_eq(sl_config_gpus(&config), 0);
    ck_assert_int_eq(config.updates.exchange, SL_EXCHANGE_BOARD);
    ck_assert_int_eq(config.store.prefer, SL_PREFER_AUTO);
    ck_assert_int_eq(config.store.features, SL_FEATURES_MEMORY);
    ck_assert_uint_eq(config.updates.batches_per_update, 2);
}

TEST(what_is_no_job_is_refused_in_the_parsers_words)
{
    char *json = NULL;
    ck_assert_int_eq(sl_trainer_subprocess_fit("[1]", "job.json", NULL, &json), SL_EINVAL);
    assert_message_has("job.json: found list");
    ck_assert_int_eq(sl_trainer_subprocess_fit("{", "job.json", NULL, &json), SL_EFORMAT);
    ck_assert_ptr_null(json);
}

TEST(a_job_that_can_not_be_read_is_named)
{
    bool on_gpu;
    char *json;
    ck_assert_int_eq(sl_trainer_subprocess_job(in_dir("no.json"), NULL, &json), SL_ENOENT);
    assert_message_has("no.json");
    ck_assert_int_eq(sl_trainer_subprocess_trained(dir, &on_gpu), SL_EFORMAT);
    assert_message_has("wanted a regular file");
}

// ---- what it says -------------------------------------------------------------------------------

// A child that says this and ends so: with a status, or of a signal where that is negative.
static struct sl_trainer_subprocess child_that(const char *says, int end)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    struct sl_trainer_subprocess c = {.to = -1, .params_fd = -1, .pid = fork()};
    if (c.pid == 0) {
        signal(SIGTERM, SIG_DFL); // Check's handler would end the test, too
        if (write(ends[1], says, strlen(says)) < 0)
            _exit(99);
        if (end < 0)
            kill(getpid(), -end);
        _exit(end);
    }
    close(ends[1]);
    c.from = fdopen(ends[0], "r");
    ck_assert_ptr_nonnull(c.from);
    return c;
}

LOOP_TEST(what_is_no_hello_is_told_in_its_words, 0, 7)
{
    static const struct {
        const char *says;
        int end, rc;
        const char *message;
    } cases[] = {
        {"", 0, SL_EFAILED, "sluice-trainer said nothing"},
        {"", 3, SL_EFAILED, "sluice-trainer ended with status 3"},
        {"", -SIGKILL, SL_EFAILED, "died of signal 9 (Killed): was there too little memory?"},
        {"", -SIGUSR1, SL_EFAILED, "died of signal 10 (User defined signal 1)"},
        {"goodbye\n", 0, SL_EFAILED, "said 'goodbye', wanted its tensors"},
        {"hello 99\nnot so many", 0, SL_EFAILED, "its list of tensors cannot be read"},
        {"error -3 the third layer is broken\n", 1, -3, "the third layer is broken"},
    };
    struct sl_params params = {0};
    struct sl_trainer_subprocess c = child_that(cases[_i].says, cases[_i].end);
    ck_assert_int_eq(sl_trainer_subprocess_hello(&c, &params), cases[_i].rc);
    assert_message_has(cases[_i].message);
    sl_trainer_subprocess_end(&c);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); // nobody is left
    ck_assert_ptr_null(c.from);
}

TEST(parameters_are_handed_over_or_the_error_says_why)
{
    const float values[] = {1, 2, 3};
    float got[3];
    int ends[2];
    struct sl_trainer_subprocess c = {.to = -1, .params_fd = -1};
    ck_assert_int_eq(sl_trainer_subprocess_go(&c, values, 3), SL_ESYS);
    assert_message_has("handing over the parameters");
    c.params_fd = memfd_create("parameters", MFD_CLOEXEC);
    ck_assert_int_eq(sl_trainer_subprocess_go(&c, values, 3), SL_EFAILED);
    assert_message_has("sluice-trainer does not listen");
    // One that has just died is asked why, not told.
    signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    c.to = ends[1];
    ck_assert_int_eq(sl_trainer_subprocess_go(&c, values, 3), SL_OK);
    ck_assert_int_eq(pread(c.params_fd, got, sizeof got, 0), sizeof got);
    ck_assert_mem_eq(got, values, sizeof got);
    close(c.to);
    close(c.params_fd);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
