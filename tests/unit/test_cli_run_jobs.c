// Which processes are jobs of `sluice run`: shells that have a broker's arguments.
#include "broker/workers/run_jobs.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/base/bits.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

enum { MAX_WORDS = 24 };

static struct sl_run_job *jobs;
static size_t n_jobs;
static char key[SL_BUS_KEY_TEXT];

static void begin(void)
{
    char scope[32];
    dir_begin();
    snprintf(scope, sizeof scope, "find-job-%d", (int)getpid());
    ck_assert_int_eq(setenv("SLUICE_SCOPE", scope, 1), 0);
    ck_assert_int_eq(sl_bus_key_make(key), SL_OK);
}

// A process with the arguments of a broker, and these; it is there when this returns, and ends with
// the test.
static pid_t start_broker(size_t n, const char *const *words)
{
    const char *argv[MAX_WORDS] = {"/somewhere/sluice-broker",
                                   "-c",
                                   "echo; read end",
                                   "--private",
                                   "--endpoint",
                                   "ipc:///somewhere/x",
                                   "--key-fd",
                                   "4",
                                   "--job",
                                   "x",
                                   "--output",
                                   "/somewhere/out"};
    size_t at = 0;
    int in[2], out[2];
    char byte;
    while (argv[at])
        at++;
    ck_assert_uint_lt(at + n, MAX_WORDS);
    memcpy(argv + at, words, n * sizeof *words);
    ck_assert_int_eq(pipe(in), 0);
    ck_assert_int_eq(pipe(out), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(fcntl(sl_bus_key_hand_over(key), F_DUPFD, 10), 4);
        execv("/bin/sh", (char **)argv);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    ck_assert_int_eq(read(out[0], &byte, 1), 1);
    close(out[0]);
    return pid;
}

#define START_BROKER(...)                                                                          \
    start_broker(SL_COUNT_OF(((const char *[]){__VA_ARGS__})), (const char *[]){__VA_ARGS__})

static void end_broker(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static void find(void)
{
    free(jobs);
    ck_assert_int_eq(sl_run_jobs_find(&jobs, &n_jobs), SL_OK);
}

TEST(a_job_of_sluice_run_is_found_while_it_runs)
{
    pid_t pid = START_BROKER("--report", "report.json");
    find();
    ck_assert_uint_eq(n_jobs, 1);
    ck_assert_int_eq(jobs[0].pid, pid);
    ck_assert_str_eq(jobs[0].name, "x");
    ck_assert_str_eq(jobs[0].output, "/somewhere/out");
    ck_assert_str_eq(jobs[0].endpoint, "ipc:///somewhere/x");
    ck_assert_str_eq(jobs[0].key, key);
    end_broker(pid);
    find();
    ck_assert_uint_eq(n_jobs, 0);
}

TEST(one_of_another_scope_is_none_of_ours)
{
    pid_t pid = START_BROKER("--report", "report.json");
    ck_assert_int_eq(setenv("SLUICE_SCOPE", "find-job-of-another", 1), 0);
    find();
    ck_assert_uint_eq(n_jobs, 0);
    end_broker(pid);
}

static pid_t called(const char *word)
{
    struct sl_run_job found;
    return sl_run_jobs_find_one(word, &found) == SL_OK ? found.pid : 0;
}

TEST(who_attaches_finds_the_node_of_his_machine)
{
    char output[600], own[620];
    snprintf(output, sizeof output, "%s/out", dir);
    snprintf(own, sizeof own, "%s/node-2", output);
    ck_assert_int_eq(mkdir(output, 0755), 0);
    ck_assert_int_eq(mkdir(own, 0755), 0);
    pid_t third = START_BROKER("--output", output, "--nodes", "3", "--node", "2");
    ck_assert_int_eq(called("x"), third);
    ck_assert_int_eq(called(output), third);
    ck_assert_int_eq(called(own), third);
    // Of several here the first one is called by the job's name, others by their folders.
    pid_t second =
        START_BROKER("--output", output, "--nodes", "3", "--node", "1", "--endpoint", "y");
    ck_assert_int_eq(called("x"), 0);
    ck_assert_int_eq(called(own), third);
    pid_t first =
        START_BROKER("--output", output, "--nodes", "3", "--node", "0", "--endpoint", "z");
    ck_assert_int_eq(called("x"), first);
    ck_assert_int_eq(called(output), first);
    ck_assert_int_eq(called(own), third);
    end_broker(first);
    end_broker(second);
    end_broker(third);
}

TEST(of_several_nodes_the_first_one_answers)
{
    pid_t other = START_BROKER("--nodes", "2", "--node", "1");
    find();
    ck_assert_uint_eq(n_jobs, 0);
    pid_t first = START_BROKER("--nodes", "2", "--node", "0");
    find();
    ck_assert_uint_eq(n_jobs, 1);
    ck_assert_int_eq(jobs[0].pid, first);
    end_broker(other);
    end_broker(first);
}

// Also where what tells it stands behind all that is looked at.
TEST(a_daemons_job_is_left_out)
{
    static char path[64 << 10];
    memset(path, 'r', sizeof path - 1);
    pid_t near = START_BROKER("--id", "3", "--report", "report.json");
    pid_t far = START_BROKER("--report", path, "--id", "3");
    find();
    ck_assert_uint_eq(n_jobs, 0);
    end_broker(near);
    end_broker(far);
}

RUN_TESTS(.setup = begin, .begin = scratch_begin, .end = scratch_end, .timeout_s = 60)
