// Asking for GPUs: a child that answers, takes long, hangs or dies, and nobody who waits for it.
#include "broker/sharding/gpus.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "tests/unit/await.h"
#include "tests/unit/daemon_fixture.h"
#include "tests/unit/suite.h"

#define ANSWER                                                                                     \
    "{\"schema\": \"sluice.devices/1\", \"driver_version\": 13000, \"plugin\": \"/p.so\", "        \
    "\"devices\": [{\"name\": \"A\", \"compute_capability\": \"9.0\"}]}"

static struct sl_gpus_asking asking;
static char program[300];

static void begin(void)
{
    dir_begin();
    unsetenv("SLUICE_GPU_SECONDS");
    unsetenv("SLUICE_CUDA_PLUGIN");
    snprintf(program, sizeof program, "%s/answers", dir);
    write_text(in_dir("libsluice_cuda.so"), "");
    asking = (struct sl_gpus_asking){.program = program};
}

static void end(void)
{
    sl_gpus_fini(&asking);
    dir_end();
}

// Who is asked is a script.
static void answers_by(const char *commands)
{
    char script[1024];
    snprintf(script, sizeof script, "#!/bin/sh\necho asked >> %s\n%s\n", in_dir("asked"), commands);
    write_text(program, script);
    ck_assert_int_eq(chmod(program, 0700), 0);
}

static long times_asked(void)
{
    struct stat st;
    return stat(in_dir("asked"), &st) == 0 ? (long)st.st_size / 6 : 0;
}

static void ask_and_wait(void)
{
    sl_gpus_ask(&asking);
    AWAIT(!sl_gpus_poll(&asking));
}

static void has_problem(const char *part)
{
    const char *problem = asking.known.report.problem;
    ck_assert_uint_eq(asking.known.report.n, 0);
    ck_assert_msg(strstr(problem, part) != NULL, "'%s' is not in: %s", part, problem);
}

TEST(gpus_that_are_found_are_asked_for_once)
{
    answers_by("echo '" ANSWER "'");
    ck_assert_ptr_null(sl_gpus_fresh(&asking));
    ask_and_wait();
    const struct sl_gpus *gpus = sl_gpus_fresh(&asking);
    ck_assert_ptr_nonnull(gpus);
    ck_assert(gpus->asked);
    ck_assert_uint_eq(gpus->report.n, 1);
    ck_assert_str_eq(gpus->report.gpu[0].name, "A");
    ck_assert_str_eq(gpus->plugin, "/p.so");
    asking.asked_ns = asking.known_ns -= 86400 * 1000000000ull; // a day later
    ck_assert_ptr_eq(sl_gpus_fresh(&asking), gpus);
    ck_assert_int_eq(times_asked(), 1);
}

TEST(nobody_waits_for_a_child_that_takes_long)
{
    ck_assert_int_eq(mkfifo(in_dir("go"), 0600), 0);
    answers_by("read go < ${0%/*}/go; echo '" ANSWER "'");
    sl_gpus_ask(&asking); // who waited for the child would wait for ever
    sl_gpus_ask(&asking); // who asks meanwhile asks nobody else
    ck_assert(sl_gpus_poll(&asking));
    ck_assert_ptr_null(sl_gpus_fresh(&asking));
    write_text(in_dir("go"), "go\n"); // once the child is there to read it
    ask_and_wait();
    ck_assert_uint_eq(asking.known.report.n, 1);
    ck_assert_int_eq(times_asked(), 1);
}

TEST(a_child_that_hangs_is_killed_and_that_is_the_answer)
{
    answers_by("exec sleep 60");
    setenv("SLUICE_GPU_SECONDS", "600", 1);
    sl_gpus_ask(&asking);
    pid_t pid = asking.pid;
    AWAIT(times_asked() == 1);
    sl_clock_advance(300 * 1000000000ull);
    ck_assert(sl_gpus_poll(&asking));
    sl_clock_advance(300 * 1000000000ull);
    ck_assert(!sl_gpus_poll(&asking));
    has_problem("did not answer within 600 s");
    ck_assert_ptr_eq(sl_gpus_fresh(&asking), &asking.known);
    // While it does not die the answer holds: a second one would hang beside it.
    asking.known_ns -= 3600 * 1000000000ull;
    if (asking.pid)
        ck_assert_ptr_eq(sl_gpus_fresh(&asking), &asking.known);
    AWAIT((sl_gpus_poll(&asking), !asking.pid));
    ck_assert(kill(pid, 0) != 0 && errno == ESRCH);
    has_problem("did not answer within 600 s");
    ck_assert_int_eq(times_asked(), 1);
}

TEST(where_there_was_none_it_is_asked_again)
{
    answers_by("echo '{\"schema\": \"sluice.devices/1\", \"problem\": \"no driver\"}'");
    ask_and_wait();
    has_problem("no driver");
    ck_assert(asking.known.asked);
    ck_assert_ptr_nonnull(sl_gpus_fresh(&asking));
    asking.asked_ns -= 15 * 1000000000ull; // after ten seconds ...
    asking.known_ns -= 15 * 1000000000ull;
    ck_assert_ptr_null(sl_gpus_fresh(&asking));
    asking.asked_ns -= 30 * 1000000000ull; // ... or as long as it took
    ck_assert_ptr_nonnull(sl_gpus_fresh(&asking));
    asking.known_ns -= 15 * 1000000000ull;
    ck_assert_ptr_null(sl_gpus_fresh(&asking));
    ask_and_wait();
    ck_assert_ptr_nonnull(sl_gpus_fresh(&asking));
    ck_assert_int_eq(times_asked(), 2);
}

TEST(what_is_no_answer_is_a_reason)
{
    answers_by("echo first >&2; echo no such luck >&2; exit 3");
    ask_and_wait();
    has_problem("ended with status 3: no such luck");
    ck_assert(!asking.known.asked);
    answers_by("kill -SEGV $$");
    ask_and_wait();
    has_problem("died of signal 11");
    answers_by("echo '{}'");
    ask_and_wait();
    has_problem("sluice.devices/1");
    asking.program = "/nowhere/sluice-trainer";
    sl_gpus_ask(&asking);
    ck_assert(!sl_gpus_poll(&asking)); // there at once
    has_problem("'/nowhere/sluice-trainer', which reports GPUs, cannot");
    ck_assert_ptr_nonnull(sl_gpus_fresh(&asking));
}

TEST(without_a_plugin_nobody_is_asked)
{
    answers_by("echo '" ANSWER "'");
    ck_assert_int_eq(unlink(in_dir("libsluice_cuda.so")), 0);
    sl_gpus_ask(&asking);
    ck_assert(!sl_gpus_poll(&asking)); // there at once
    ck_assert_int_eq(times_asked(), 0);
    has_problem("this build has no CUDA plug-in");
    ck_assert(asking.known.asked);
    ck_assert_str_eq(asking.known.report.nccl, "not looked for");
    ck_assert_ptr_nonnull(sl_gpus_fresh(&asking));
    ck_assert_int_eq(setenv("SLUICE_CUDA_PLUGIN", "/nowhere/plugin.so", 1), 0);
    sl_gpus_ask(&asking);
    has_problem("SLUICE_CUDA_PLUGIN names /nowhere/plugin.so");
    ck_assert_int_eq(setenv("SLUICE_CUDA_PLUGIN", program, 1), 0);
    ask_and_wait();
    ck_assert_int_eq(times_asked(), 1);
}

TEST(a_child_ends_with_who_asked)
{
    answers_by("exec sleep 60");
    sl_gpus_ask(&asking);
    pid_t pid = asking.pid;
    sl_gpus_fini(&asking);
    AWAIT(kill(pid, 0) != 0 || waitpid(pid, NULL, WNOHANG) != 0);
    ck_assert(kill(pid, 0) != 0 && errno == ESRCH);
    ck_assert(!sl_gpus_poll(&asking));
    sl_gpus_fini(&asking);
}

TEST(links_are_what_the_driver_says_or_taken_for)
{
    static struct sl_gpus gpus;
    const char *text =
        "{\"schema\":\"sluice.devices/1\",\"devices\":["
        "{\"index\":0,\"peers\":[1,2],\"links\":[2000,50,0]},"
        "{\"index\":1,\"peers\":[0,99,-1],\"links\":[-3,1e300,\"x\"]},{\"index\":2}]}";
    ck_assert_int_eq(sl_gpus_read(text, &gpus), SL_OK);
    const struct sl_gpu_report *r = &gpus.report;
    ck_assert_uint_eq(r->n, 3);
    ck_assert_double_eq(sl_gpus_link(r, 0, 0), 2000);
    ck_assert_double_eq(sl_gpus_link(r, 0, 1), 50);
    ck_assert_double_eq(sl_gpus_link(r, 0, 2), SL_GPUS_PEER_GBS);
    ck_assert_double_eq(sl_gpus_link(r, 1, 0), SL_GPUS_PEER_GBS); // no rate is negative
    ck_assert_double_eq(sl_gpus_link(r, 1, 2), 0);
    ck_assert_double_eq(sl_gpus_link(r, 2, 2), SL_GPUS_OWN_GBS);
    ck_assert_double_eq(sl_gpus_link(r, 2, 3), 0); // there is no such GPU
}

// Devices from the first; the library; who trains by default is the last.
static const struct {
    const char *devices, *allocation, *cublas, *trainers;
} trained_on[] = {
    {"CC", "", "", "cores"},
    {"C0", "", "cuBLASLt 12.8.4 (/usr/lib/libcublasLt.so.12)",
     "H (capability 9.0), cuBLASLt 12.8.4"},
    {"C0", "", "libcublasLt.so.13 and .12 are nowhere (here)", "H (capability 9.0), no cuBLASLt"},
    {"C01", "\"samplers\": 1, \"trainers\": 2", "", "H (capability 9.0), no cuBLASLt"},
    {"C02", "\"samplers\": 1, \"trainers\": 2", "",
     "H (capability 9.0) and A (capability 8.0), no cuBLASLt"},
    {"20", "\"samplers\": 1, \"trainers\": 1, \"switching\": false", "",
     "H (capability 9.0), no cuBLASLt"},
    {"20", "\"samplers\": 1, \"trainers\": 1", "",
     "A (capability 8.0) and H (capability 9.0), no cuBLASLt"},
    {"CC0", "\"samplers\": 1, \"trainers\": 2", "", "cores and H (capability 9.0), no cuBLASLt"},
    {"C3", "", "", "GPU 3, no cuBLASLt"}, // it is not answered for
};

LOOP_TEST(what_trainers_compute_on_has_a_name, 0, SL_COUNT_OF(trained_on))
{
    static struct sl_config config;
    static struct sl_gpus gpus;
    char list[512] = "", job[1024], said[SL_GPUS_TRAINERS_BYTES];
    for (const char *d = trained_on[_i].devices; *d; d++)
        snprintf(list + strlen(list), sizeof list - strlen(list),
                 *d == 'C' ? "%s{\"kind\": \"cpu\", \"cores\": 0}"
                           : "%s{\"kind\": \"cuda\", \"cores\": 0, \"index\": %c}",
                 *list ? ", " : "", *d);
    snprintf(job, sizeof job,
             "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}, \"epochs\": 3,"
             " \"devices\": [%s], \"allocation\": {%s}}",
             list, trained_on[_i].allocation);
    ck_assert_msg(sl_config_parse(job, strlen(job), "job", &config) == SL_OK, "%s",
                  sl_error_message());
    ck_assert_int_eq(sl_gpus_read("{\"schema\":\"sluice.devices/1\",\"devices\":["
                                  "{\"index\":0,\"name\":\"H\",\"compute_capability\":\"9.0\"},"
                                  "{\"index\":1,\"name\":\"H\",\"compute_capability\":\"9.0\"},"
                                  "{\"index\":2,\"name\":\"A\",\"compute_capability\":\"8.0\"}]}",
                                  &gpus),
                     SL_OK);
    snprintf(gpus.report.cublas, sizeof gpus.report.cublas, "%s", trained_on[_i].cublas);
    ck_assert_str_eq(sl_gpus_trainers(&config, &gpus.report, said), trained_on[_i].trainers);
}

RUN_TESTS(.setup = begin, .teardown = end, .timeout_s = AWAIT_CASE_S)
