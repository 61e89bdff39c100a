// Whole jobs with fake workers: what the broker makes of success, deaths, errors and stops.
#include "tests/unit/broker_ring_job.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common/arena/shared_array.h"

#ifdef __SANITIZE_THREAD__
enum { THREAD_SANITIZED = 1 };
#else
enum { THREAD_SANITIZED = 0 };
#endif

// What the client does about what it hears.
static struct {
    int stop_at_epoch; // -1 = never; sends Stop when this epoch is done
    pid_t owner;       // 0, or killed when that epoch is done
    size_t grow_bytes; // that this process takes when the first epoch is done
    char *grown;
    int stop_after_growth; // 0 = never; sends Stop when so many messages of progress have followed
    const char *resume;    // the checkpoint that the job goes on from
    bool no_output;
} plan;

static void act(const Sl__Control__Envelope *m)
{
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE) {
        if (client.epochs - 1 != plan.stop_at_epoch) {
        } else if (plan.owner) {
            kill(plan.owner, SIGKILL);
        } else {
            SEND(STOP);
        }
        if (plan.grow_bytes && !plan.grown) {
            // Not of the heap, which a sanitizer keeps after free().
            plan.grown = mmap(NULL, plan.grow_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            ck_assert(plan.grown != MAP_FAILED);
            memset(plan.grown, 1, plan.grow_bytes);
        }
    } else if (m->body_case == SL__CONTROL__ENVELOPE__BODY_PROGRESS) {
        if (plan.grown && --plan.stop_after_growth == 0)
            SEND(STOP);
    }
}

static void reset_client(void)
{
    client_reset();
    client.on_message = act;
    memset(&plan, 0, sizeof plan);
    plan.stop_at_epoch = -1;
}

static void setup(void)
{
    ring_setup();
    reset_client();
}

static int run_job(const char *extra, const char *report)
{
    const struct sl_job_options options = {
        .report_path = report,
        .resume = plan.resume,
        .no_output = plan.no_output,
        .owner_fd = plan.owner ? sl_exit_status_open(plan.owner) : 0,
    };
    return ring_job_run(options, extra);
}

static cJSON *read_json(const char *name)
{
    static char text[1 << 20];
    FILE *f = fopen(name, "r");
    ck_assert_msg(f != NULL, "%s is missing", name);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    cJSON *json = cJSON_Parse(text);
    ck_assert_msg(json != NULL, "%s is no JSON", name);
    return json;
}

static bool has_output(void)
{
    return access(output, F_OK) == 0;
}

// None of the processes that the report names lives.
static void assert_nobody_lives(void)
{
    const cJSON *p;
    cJSON_ArrayForEach(p, at(client.report, "processes"))
    {
        pid_t pid = (pid_t)number(p, "pid");
        if (pid != getpid())
            ck_assert_msg(kill(pid, 0) != 0, "%s lives on", words(p, "name"));
    }
}

static void assert_exactly_once(int epochs)
{
    const cJSON *batches = at(client.report, "batches");
    ck_assert_double_eq(number(batches, "scheduled"), 5 * epochs);
    ck_assert_double_eq(number(batches, "trained"), 5 * epochs);
    // Three updates an epoch, each of which added one to every parameter.
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "epochs")), epochs);
}

#define EPOCHS_3 "\"epochs\": 3"

// --- success -------------------------------------------------------------------------------------

TEST(a_job_runs_to_its_report)
{
    char report[1200];
    snprintf(report, sizeof report, "%s/report-copy.json", dir);
    ck_assert_int_eq(
        run_job(EPOCHS_3 ", \"allocation\": {\"samplers\": 2, \"trainers\": 2}", report), 0);
    ck_assert_str_eq(client.message, "");
    ck_assert_str_eq(client.directory, output);
    ck_assert_int_eq(client.epochs, 3);
    assert_exactly_once(3);
    assert_nobody_lives();
    const cJSON *r = client.report;
    ck_assert_str_eq(words(r, "schema"), "sluice.report/1");
    ck_assert_str_eq(words(r, "status"), "done");
    ck_assert_str_eq(words(r, "job"), "fake");
    ck_assert_int_eq(cJSON_GetArraySize(at(r, "devices")), 5);
    ck_assert_int_eq(cJSON_GetArraySize(at(r, "restarts")), 0);
    ck_assert_double_eq(number(at(r, "config"), "epochs"), 3);
    const cJSON *allocation = cJSON_GetArrayItem(at(r, "allocations"), 0);
    ck_assert_double_eq(number(allocation, "samplers"), 2);
    ck_assert_msg(strstr(words(allocation, "reason"), "fixed by the job file") != NULL, "%s",
                  words(allocation, "reason"));
    ck_assert_double_gt(number(r, "wall_seconds"), 0);
    ck_assert_double_gt(number(r, "start_seconds"), 0);
    const cJSON *epoch = cJSON_GetArrayItem(at(r, "epochs"), 0);
    ck_assert_double_gt(number(r, "first_update_seconds"), number(r, "start_seconds"));
    ck_assert_double_lt(number(r, "first_update_seconds"),
                        number(r, "wall_seconds") - number(epoch, "evaluate_seconds"));
    ck_assert_double_gt(number(r, "peak_memory"), 1 << 20);
    ck_assert_uint_eq(strlen(words(r, "params_sha256")), 64);
    ck_assert_uint_eq(strlen(words(r, "samples_digest")), 32);

    // The two files are the report that the client got.
    char file[1200];
    snprintf(file, sizeof file, "%s/report.json", output);
    cJSON *one = read_json(file), *two = read_json(report);
    ck_assert(cJSON_Compare(one, r, true));
    ck_assert(cJSON_Compare(two, r, true));
    cJSON_Delete(one);
    cJSON_Delete(two);
}

TEST(an_epoch_has_all_its_figures)
{
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 0);
    const cJSON *e = cJSON_GetArrayItem(at(client.report, "epochs"), 1);
    ck_assert_double_eq(number(e, "epoch"), 1);
    ck_assert_double_eq(number(e, "batches"), 5);
    ck_assert_double_eq_tol(number(e, "loss"), 2.0, 1e-12);
    ck_assert_double_eq(number(e, "sampled_edges"), 30 * N_TRAIN);
    ck_assert_double_eq(number(e, "input_nodes"), 10 * N_TRAIN);
    ck_assert_double_eq_tol(number(e, "val_accuracy"), 0.8, 1e-12);
    // Its workers' time, all of which is time of the job.
    double samplers = 0, trainers = 0, total = number(client.report, "total_seconds");
    const cJSON *each;
    cJSON_ArrayForEach(each, at(client.report, "epochs"))
    {
        ck_assert_double_gt(number(at(each, "worker_seconds"), "samplers"), 0);
        samplers += number(at(each, "worker_seconds"), "samplers");
        trainers += number(at(each, "worker_seconds"), "trainers");
    }
    ck_assert_double_gt(trainers, number(e, "seconds"));
    const cJSON *processes = at(client.report, "processes"); // the broker, and each worker
    double workers = cJSON_GetArraySize(processes) - 1;
    ck_assert_double_le(samplers + trainers, workers * total);
    const cJSON *stages = at(e, "stages");
    static const char *const all[] = {"sample", "mark", "copy",         "extract",
                                      "train",  "wait", "backpressure", "evaluate"};
    for (size_t i = 0; i < SL_COUNT_OF(all); i++) {
        const cJSON *one = at(stages, all[i]);
        number(one, "seconds");
        number(one, "count");
        number(one, "p50");
        number(one, "p99");
    }
    ck_assert_double_eq(number(at(stages, "train"), "count"), 5);
    ck_assert_double_eq_tol(number(at(stages, "train"), "seconds"), 0.005, 1e-9);
    ck_assert_double_eq_tol(number(at(stages, "train"), "p99"), 0.001, 1e-9);
    number(at(e, "cache"), "hit_rate");
    number(at(e, "queue"), "depth_mean");
    number(e, "switches");
    ck_assert_uint_gt(strlen(words(e, "bottleneck")), 10);

    // metrics.jsonl has the same, one line an epoch.
    char file[1200], line[16384];
    snprintf(file, sizeof file, "%s/metrics.jsonl", output);
    FILE *f = fopen(file, "r");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
        cJSON *json = cJSON_Parse(line);
        ck_assert(cJSON_Compare(json, cJSON_GetArrayItem(at(client.report, "epochs"), i), true));
        cJSON_Delete(json);
    }
    ck_assert_ptr_null(fgets(line, sizeof line, f));
    fclose(f);
}

TEST(the_best_epochs_parameters_are_tested)
{
    // Epoch 1 is the best one: its parameters are those after 2 x 3 updates, of 4 x 3 in all.
    ck_assert_int_eq(run_job("\"epochs\": 4", NULL), 0);
    ck_assert_double_eq(number(client.report, "best_epoch"), 1);
    ck_assert_double_eq_tol(number(client.report, "best_val_accuracy"), 0.8, 1e-12);
    ck_assert_double_eq_tol(number(client.report, "test_accuracy"), 6.0 / N_TEST, 1e-12);
    char file[1200];
    snprintf(file, sizeof file, "%s/model.best.safetensors", output);
    ck_assert_int_eq(access(file, R_OK), 0);
    snprintf(file, sizeof file, "%s/model.safetensors", output);
    ck_assert_int_eq(access(file, R_OK), 0);
}

TEST(many_epochs_go_through_the_ring_of_phases)
{
    ck_assert_int_eq(run_job("\"epochs\": 60", NULL), 0);
    assert_exactly_once(60);
    ck_assert_double_eq(number(client.report, "best_epoch"), 1);
}

static char digest_before[40], params_before[80];

TEST(the_split_does_not_change_digests)
{
    ck_assert_int_eq(run_job(EPOCHS_3 ", \"allocation\": {\"samplers\": 1, \"trainers\": 1}", NULL),
                     0);
    snprintf(digest_before, sizeof digest_before, "%s", words(client.report, "samples_digest"));
    snprintf(params_before, sizeof params_before, "%s", words(client.report, "params_sha256"));
    reset_client();
    snprintf(output, sizeof output, "%s/again", dir);
    setenv("FAKE_WORKER", "sampler:hold3<1 trainer:hold3<3", 1);
    ck_assert_int_eq(run_job(EPOCHS_3 ", \"allocation\": {\"samplers\": 2, \"trainers\": 3}", NULL),
                     0);
    ck_assert_str_eq(words(client.report, "samples_digest"), digest_before);
    ck_assert_str_eq(words(client.report, "params_sha256"), params_before);
}

// --- deaths --------------------------------------------------------------------------------------

TEST(a_killed_sampler_is_replaced_and_its_batch_drawn_again)
{
    setenv("FAKE_WORKER", "sampler:hold<1", 1);
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 0);
    assert_exactly_once(3);
    assert_nobody_lives();
    const cJSON *restarts = at(client.report, "restarts");
    ck_assert_int_eq(cJSON_GetArraySize(restarts), 1);
    const cJSON *r = cJSON_GetArrayItem(restarts, 0);
    ck_assert_str_eq(words(r, "worker"), "sampler 0");
    ck_assert_str_eq(words(r, "held"), "batch 0 of epoch 1");
    ck_assert_msg(strstr(words(r, "cause"), "SIGKILL") != NULL, "%s", words(r, "cause"));
    ck_assert_double_eq(number(at(client.report, "batches"), "resampled"), 1);
    ck_assert_msg(strstr(client.lines, "sampler 0 (process ") &&
                      strstr(client.lines, "batch 0 of epoch 1 in hand"),
                  "%s", client.lines);
}

TEST(a_killed_trainer_is_replaced_and_its_batch_trained_again)
{
    setenv("FAKE_WORKER", "trainer:hold3=1", 1);
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 0);
    assert_exactly_once(3);
    ck_assert_double_eq(number(at(client.report, "batches"), "retrained"), 1);
    const cJSON *r = cJSON_GetArrayItem(at(client.report, "restarts"), 0);
    ck_assert_str_eq(words(r, "worker"), "trainer 0");
    ck_assert_str_eq(words(r, "held"), "batch 3 of epoch 1");
}

TEST(a_job_does_without_a_standby_trainer_that_can_not_live)
{
    setenv("FAKE_WORKER", "standby:exit", 1);
    ck_assert_int_eq(run_job(EPOCHS_3 ", \"allocation\": {\"samplers\": 1, \"trainers\": 1}", NULL),
                     0);
    assert_exactly_once(3);
    assert_nobody_lives();
    ck_assert_msg(strstr(client.lines, "device 0 gets no standby trainer any more") != NULL, "%s",
                  client.lines);
}

TEST(a_worker_that_dies_at_the_start_is_tried_again)
{
    setenv("FAKE_WORKER", "sampler:segv<2 trainer:exit<1", 1);
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 0);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "restarts")), 3);
}

TEST(a_worker_that_always_dies_at_the_start_ends_the_job)
{
    setenv("FAKE_WORKER", "trainer:abort", 1);
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 1);
    ck_assert_msg(strstr(client.message, "trainer 0 died 5 times in a row") &&
                      strstr(client.message, "SIGABRT") &&
                      strstr(client.message, "the cat is on the mat"),
                  "%s", client.message);
    ck_assert_msg(!has_output(), "something was left behind");
}

TEST(a_worker_that_always_dies_at_work_ends_the_job_with_a_report)
{
    setenv("FAKE_WORKER", "sampler:hold", 1);
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 1);
    ck_assert_msg(strstr(client.message, "sampler 0 died 5 times in a row") &&
                      strstr(client.message, "SIGKILL") &&
                      strstr(client.message, "batch 0 of epoch 1") &&
                      strstr(client.message, "log/sampler-0.log"),
                  "%s", client.message);
    ck_assert_str_eq(words(client.report, "status"), "failed");
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "restarts")), 5);
    assert_nobody_lives();
}

TEST(progress_between_deaths_keeps_a_job_alive)
{
    // Every trainer dies over its fourth batch, after three good ones: 45 cells need many lives.
    setenv("FAKE_WORKER", "trainer:hold3", 1);
    ck_assert_int_eq(run_job("\"epochs\": 4", NULL), 0);
    assert_exactly_once(4);
    ck_assert_int_gt(cJSON_GetArraySize(at(client.report, "restarts")), 5);
    ck_assert_double_eq_tol(number(client.report, "test_accuracy"), 6.0 / N_TEST, 1e-12);
}

TEST(a_worker_that_says_why_ends_the_job_at_once)
{
    setenv("FAKE_WORKER", "sampler:failed", 1);
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 2);
    ck_assert_str_eq(client.message,
                     "sampler 0: node_feat.npy: found no features, wanted 3 a vertex");
    ck_assert_msg(!has_output(), "something was left behind");
}

TEST(an_error_at_work_fails_the_job)
{
    setenv("FAKE_WORKER", "trainer:late", 1);
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 1);
    ck_assert_str_eq(client.message, "trainer 0: the disk is on fire");
    ck_assert_str_eq(words(client.report, "message"), client.message);
}

TEST(a_missing_worker_program_is_named)
{
    ck_assert_int_eq(unlink(in_dir("bin/sluice-trainer")), 0);
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 2);
    ck_assert_msg(strstr(client.message, "bin/sluice-trainer") != NULL, "%s", client.message);
    ck_assert(!has_output());
}

// --- what does not fit ---------------------------------------------------------------------------

TEST(an_arena_that_is_too_small_is_refused_with_the_number)
{
    // 100,000 bytes are two chunks; 2 trainers x 2 + 1 sampler + 1 blocks are the least.
    ck_assert_int_eq(run_job(EPOCHS_3 ", \"arena\": {\"memory\": \"256KiB\"}, "
                                      "\"allocation\": {\"samplers\": 1, \"trainers\": 2}",
                             NULL),
                     2);
    ck_assert_msg(strstr(client.message, "arena.memory: found 262144 bytes") &&
                      strstr(client.message, "wanted at least 786432 bytes"),
                  "%s", client.message);
    ck_assert(!has_output());
}

TEST(blocks_that_no_machine_can_hold_are_refused)
{
    setenv("FAKE_WORKER", "sampler:small", 1);
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 2);
    ck_assert_msg(strstr(client.message, "arena.memory") != NULL, "%s", client.message);
    ck_assert(!has_output());
}

TEST(a_bad_configuration_is_refused)
{
    ck_assert_int_eq(run_job("\"epocs\": 3", NULL), 2);
    ck_assert_msg(strstr(client.message, "epocs") != NULL, "%s", client.message);
}

// --- stops ---------------------------------------------------------------------------------------

TEST(a_stop_leaves_a_partial_report)
{
    stage->epochs = 2;
    plan.stop_at_epoch = 1;
    ck_assert_int_eq(run_job("\"epochs\": 1000", NULL), 130);
    ck_assert_str_eq(words(client.report, "status"), "stopped");
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "epochs")), 2);
    ck_assert_double_eq(number(at(client.report, "batches"), "trained"), 10);
    ck_assert_double_ge(number(at(client.report, "batches"), "scheduled"), 10);
    ck_assert_uint_eq(strlen(words(client.report, "params_sha256")), 64);
    assert_nobody_lives();
}

TEST(a_job_ends_with_its_owner)
{
    plan.owner = fork();
    if (plan.owner == 0)
        for (;;)
            pause();
    plan.stop_at_epoch = 1;
    ck_assert_int_eq(run_job("\"epochs\": 1000", NULL), 130);
    ck_assert_ptr_nonnull(strstr(client.message, "the end of the process whose job it is"));
    assert_nobody_lives();
    ck_assert_int_eq(waitpid(plan.owner, NULL, 0), plan.owner);
}

TEST(a_job_that_has_something_to_keep_needs_an_output)
{
    plan.no_output = true;
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 2);
    ck_assert_ptr_nonnull(strstr(client.message, "--no-output"));
    ck_assert(!has_output());
}

TEST(a_stop_with_kill_waits_for_nobody)
{
    setenv("FAKE_WORKER", "sampler:deaf trainer:deaf", 1);
    plan.stop_at_epoch = 0;
    client.kill = true;
    ck_assert_int_eq(run_job("\"epochs\": 100000", NULL), 130);
    assert_nobody_lives();
}

TEST(a_stop_before_the_start_leaves_nothing)
{
    client.stop_at_start = true;
    ck_assert_int_eq(run_job(EPOCHS_3, NULL), 130);
    ck_assert(!has_output());
    ck_assert_ptr_null(client.report);
}

// Living processes whose command line has `text`.
static int count_processes(const char *text)
{
    int n = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; (e = readdir(proc));) {
        char name[300], line[4096];
        snprintf(name, sizeof name, "/proc/%s/cmdline", e->d_name);
        FILE *f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(name, "r") : NULL;
        if (!f)
            continue;
        // A dead process that nobody has waited for has an empty command line.
        size_t bytes = fread(line, 1, sizeof line - 1, f);
        line[bytes] = '\0';
        for (size_t i = 0; i < bytes; i++)
            line[i] = line[i] ? line[i] : ' ';
        n += strstr(line, text) != NULL;
        fclose(f);
    }
    closedir(proc);
    return n;
}

TEST(workers_die_with_their_broker)
{
    setenv("FAKE_WORKER", "sampler:deaf trainer:deaf", 1);
    stage->epochs = 0;
    pid_t broker = fork();
    if (broker == 0) {
        run_job("\"epochs\": 100000", NULL);
        _exit(0);
    }
    char mark[64];
    snprintf(mark, sizeof mark, "--broker %d ", (int)broker);
    AWAIT(atomic_load(&stage->at_work) >= 2);
    ck_assert_int_ge(count_processes(mark), 2);
    kill(broker, SIGKILL);
    AWAIT(count_processes(mark) == 0);
}

TEST(a_worker_whose_broker_is_gone_does_not_start)
{
    // --broker names a process that is not its parent: the parent died before the worker looked.
    setenv("FAKE_WORKER", "", 1);
    pid_t worker = fork();
    if (worker == 0) {
        execl(in_dir("bin/sluice-sampler"), in_dir("bin/sluice-sampler"), "--worker", "1", "--slot",
              "0", "--role-index", "0", "--device", "0", "--endpoint", "ipc://@nobody-is-there",
              "--broker", "1", NULL);
        _exit(99);
    }
    int status;
    ck_assert_int_eq(waitpid(worker, &status, 0), worker);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0); // stopped, no failure to report
}

static unsigned long long number_behind(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    ck_assert_msg(at != NULL, "'%s' is not in: %s", words, text);
    return strtoull(at + strlen(words), NULL, 10);
}

// A job that outgrows its bound on the way says what to do, and that is done.
TEST(a_bound_that_is_outgrown_is_raised_on_the_way)
{
    if (THREAD_SANITIZED) {
        printf("SKIP: ThreadSanitizer holds several bytes for each\n");
        return;
    }
    char extra[128] = "\"epochs\": 1000, \"memory\": \"256MiB\"";
    plan.grow_bytes = 300 << 20;
    stage->epochs = 1;
    int status = run_job(extra, NULL), raised = 0;
    // Seen in the middle of its growth, it is asked for an eighth more than it had then; seen so a
    // second time, for more than it ever has.
    for (; raised == 0 || (status == 1 && raised < 2); raised++) {
        struct sl_checkpoint_list list;
        ck_assert_int_eq(status, 1);
        ck_assert_msg(strstr(client.message, "it goes on from its last checkpoint"), "%s",
                      client.message);
        snprintf(extra, sizeof extra, "\"epochs\": 1000, \"memory\": %llu",
                 number_behind(client.message, "with memory set to "));
        must(sl_checkpoint_list(output, &list));
        ck_assert_uint_ge(list.n, 1);
        munmap(plan.grown, plan.grow_bytes);
        reset_client();
        plan.resume = list.names[0];
        plan.grow_bytes = 300 << 20;
        plan.stop_after_growth = 6; // memory is looked at once in five
        stage->epochs++;
        status = run_job(extra, NULL);
        sl_checkpoint_list_fini(&list);
    }
    ck_assert_msg(status == 130, "%d, with %s: %s", status, extra, client.message);
    ck_assert_int_eq(cJSON_GetArraySize(at(client.report, "resumes")), raised);
    munmap(plan.grown, plan.grow_bytes);
}

TEST(without_checkpoints_a_raised_bound_takes_another_output)
{
    stage->epochs = 1;
    plan.grow_bytes = 300 << 20;
    ck_assert_int_eq(run_job("\"epochs\": 1000, \"memory\": \"256MiB\","
                             " \"checkpoint\": {\"every_seconds\": 0}",
                             NULL),
                     1);
    ck_assert_msg(strstr(client.message, ", and with another output: there is no checkpoint"), "%s",
                  client.message);
    munmap(plan.grown, plan.grow_bytes);
}

// Before anybody has touched it.
TEST(what_workers_copy_counts_to_the_bound)
{
    static struct sl_job job; // too large for a stack
    const uint64_t mib = 1 << 20;
    job.config.memory_bytes = 4096 * mib;
    job.arena_shared_bytes = 100 * mib;
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        must(job.shared_fd[i] = sl_shared_array_file());
    const uint64_t before = sl_job_memory_left(&job);
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        must(ftruncate(job.shared_fd[i], (off_t)((i + 1) * 100 * mib)));
    // Nobody fills the one, and the other is pages of a file.
    const uint64_t aside = (SL_SHARED_ROWS_WORK + 1 + SL_SHARED_WIDER_GRAPH + 1) * 100 * mib;
    const uint64_t all = SL_SHARED_COUNT * (SL_SHARED_COUNT + 1) / 2 * 100 * mib - aside;
    const uint64_t after = sl_job_memory_left(&job);
    ck_assert_uint_eq(job.split.memory.shared, 100 * mib + all);
    ck_assert_uint_eq(sl_job_copied_bytes(&job, SL_SHARED_SUMS), all);
    ck_assert_uint_eq(sl_job_copied_bytes(&job, SL_SHARED_FEATURES), all - 300 * mib);
    job.config.features.place = SL_ROWS_IN_FILE; // on a drive
    ck_assert_uint_eq(sl_job_copied_bytes(&job, SL_SHARED_SUMS), all - 200 * mib);
    ck_assert_uint_le(after, before - all + 50 * mib); // and what this process grew by
    ck_assert_uint_ge(after, before - all - 50 * mib);
    for (int i = 0; i < SL_SHARED_COUNT; i++)
        close(job.shared_fd[i]);
}

// The least bound that would do is for a job that has made its copies as this one has: no number is
// named that is less than what was too little.
TEST(copies_count_to_the_bound_that_would_do)
{
    static struct sl_job job; // too large for a stack
    const uint64_t mib = 1 << 20;
    memset(job.shared_fd, -1, sizeof job.shared_fd);
    job.config.n_devices = 2;
    job.config.arena_bytes = 64 * mib;
    job.config.updates.batches_per_update = 1;
    job.before = (struct sl_memory_use){.held_bytes = 30 * mib, .private_bytes = 20 * mib};
    job.capacity = (struct sl_capacity_need){
        .samplers = 1, .trainers = 1, .block_bytes_max = mib, .n_train = 10, .n_cells = 10};
    job.capacity.n_params = job.capacity.n_nodes = 10;
    const uint64_t before = sl_job_shared_under(&job, 4096 * mib);
    ck_assert_uint_ge(before, 74 * mib);
    ck_assert_uint_lt(before, 84 * mib);
    must(job.shared_fd[SL_SHARED_FEATURES] = sl_shared_array_file());
    must(ftruncate(job.shared_fd[SL_SHARED_FEATURES], (off_t)(500 * mib)));
    ck_assert_uint_eq(sl_job_shared_under(&job, 4096 * mib), before + 490 * mib);
    ck_assert_uint_eq(sl_job_shared_under(&job, 40 * mib), UINT64_MAX);
    close(job.shared_fd[SL_SHARED_FEATURES]);
}

// Samplers have made one array and trainers another one: the sum of both is held.
TEST(what_different_workers_share_is_held_together)
{
    static struct sl_job job; // too large for a stack
    const uint64_t mib = 1 << 20, page = (uint64_t)sysconf(_SC_PAGESIZE);
    int *fds[] = {&job.arena_fd, &job.acts_fd, &job.shared_fd[SL_SHARED_FEATURES],
                  &job.shared_fd[SL_SHARED_NEIGHBOURS]};
    uint64_t wanted = 0;
    memset(job.shared_fd, -1, sizeof job.shared_fd);
    for (size_t i = 0; i < SL_COUNT_OF(fds); i++) {
        must(*fds[i] = sl_shared_array_file());
        must(ftruncate(*fds[i], (off_t)(64 * mib)));
        must(fallocate(*fds[i], 0, 0, (off_t)((i + 1) * 8 * mib)));
        wanted += (i + 1) * 8 * mib;
    }
    sl_job_poll_memory(&job);
    ck_assert_uint_ge(job.memory.held_bytes, job.memory.private_bytes + wanted);
    ck_assert_uint_le(job.memory.held_bytes, job.memory.private_bytes + wanted + page);
    ck_assert_uint_eq(job.memory.held_peak_bytes, job.memory.held_bytes);
    for (size_t i = 0; i < SL_COUNT_OF(fds); i++)
        close(*fds[i]);
}

int main(int argc, char **argv)
{
    int status = fake_worker_main(argc, argv);
    if (status >= 0)
        return status;
    return run_tests((struct unit_case){
        .setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = AWAIT_CASE_S});
}
