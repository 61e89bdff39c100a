// The run directory: refused where it would harm, made whole, and not at all before the job runs.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "broker/rundir/rundir.h"

static char path[1100];

static void setup(void)
{
    dir_begin();
    snprintf(path, sizeof path, "%s/run", dir);
}

// What a file of the test's directory holds.
static char *held(const char *name)
{
    static char text[4096];
    FILE *f = fopen(in_dir(name), "r");
    ck_assert_msg(f != NULL, "%s is missing", name);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

// Root may write anywhere: such a test goes on as somebody else (it is a process of its own).
static void become_an_ordinary_user(void)
{
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chmod(scratch, 0755), 0);
    ck_assert_int_eq(chmod(dir, 0755), 0);
    ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
}

TEST(a_new_directory_is_made_with_its_parents)
{
    struct sl_rundir run;
    char deep[1200];
    snprintf(deep, sizeof deep, "%s/a//b/c", path);
    ck_assert_int_eq(sl_rundir_check(deep), SL_OK);
    ck_assert_msg(!exists("run"), "a check has made something");
    must(sl_rundir_create(&run, deep, "{\"epochs\": 3}"));
    sl_rundir_close(&run);
    ck_assert_str_eq(held("run/a/b/c/config.json"), "{\"epochs\": 3}");
    ck_assert_str_eq(held("run/a/b/c/metrics.jsonl"), "");
    ck_assert(exists("run/a/b/c/log"));
}

TEST(an_empty_directory_is_taken)
{
    struct sl_rundir run;
    ck_assert_int_eq(mkdir(path, 0777), 0);
    must(sl_rundir_check(path));
    must(sl_rundir_create(&run, path, "{}"));
    sl_rundir_close(&run);
}

TEST(an_earlier_run_is_refused_and_kept)
{
    struct sl_rundir run;
    enum sl_rundir_content content;
    must(sl_rundir_create(&run, path, "{\"first\": true}"));
    sl_rundir_close(&run);
    write_text("run/report.json", "{}");
    ck_assert_int_eq(sl_rundir_examine(path, NULL, &content), SL_EEXIST);
    ck_assert_int_eq(sl_rundir_check(path), SL_EEXIST);
    assert_message_has("earlier run");
    assert_message_has("--set output=");
    ck_assert_int_eq(sl_rundir_create(&run, path, "{\"second\": true}"), SL_EEXIST);
    ck_assert_str_eq(held("run/config.json"), "{\"first\": true}");
}

TEST(a_report_alone_is_an_earlier_run)
{
    ck_assert_int_eq(mkdir(path, 0777), 0);
    write_text("run/report.json", "{}");
    ck_assert_int_eq(sl_rundir_check(path), SL_EEXIST);
    assert_message_has("report.json");
}

TEST(a_directory_with_other_files_is_refused)
{
    ck_assert_int_eq(mkdir(path, 0777), 0);
    write_text("run/thesis.tex", "precious");
    ck_assert_int_eq(sl_rundir_check(path), SL_EEXIST);
    assert_message_has("thesis.tex");
    assert_message_has("not empty");
}

TEST(a_file_is_no_directory)
{
    write_text("run", "x");
    ck_assert_int_eq(sl_rundir_check(path), SL_EINVAL);
    assert_message_has("not a directory");
    char below[1200];
    snprintf(below, sizeof below, "%s/x/y", path);
    ck_assert_int_eq(sl_rundir_check(below), SL_EINVAL);
}

TEST(no_permission_is_said_before_anything_is_made)
{
    ck_assert_int_eq(mkdir(path, 0555), 0);
    become_an_ordinary_user();
    char below[1200];
    snprintf(below, sizeof below, "%s/x/y", path);
    ck_assert_int_eq(sl_rundir_check(below), SL_EACCESS);
    assert_message_has("cannot be written");
    ck_assert_int_eq(sl_rundir_check(path), SL_EACCESS);
}

TEST(an_empty_name_is_refused)
{
    ck_assert_int_eq(sl_rundir_check(""), SL_EINVAL);
}

TEST(a_dangling_link_is_refused)
{
    ck_assert_int_eq(symlink("nowhere", path), 0);
    ck_assert_int_lt(sl_rundir_check(path), 0);
}

TEST(of_two_jobs_one_gets_the_directory)
{
    // Both have checked; the other one has taken it a moment ago.
    struct sl_rundir run, other;
    must(sl_rundir_check(path));
    must(sl_rundir_create(&other, path, "{\"other\": true}"));
    ck_assert_int_eq(sl_rundir_create(&run, path, "{}"), SL_EEXIST);
    assert_message_has("in use by a job that is running, process ");
    assert_message_has("stop that one first");
    ck_assert_msg(exists("run/log"), "the other job's log/ is gone");
    ck_assert_str_eq(held("run/config.json"), "{\"other\": true}");
    sl_rundir_close(&other);
    must(sl_rundir_create(&run, path, "{}"));
    sl_rundir_close(&run);
}

// Who was waited for, and a pipe that tells somebody that it was so (0: nobody).
static struct sl_rundir_user waited;
static int n_waited;
static int waiting;

static void note_wait(const char *where, const struct sl_rundir_user *user)
{
    ck_assert_str_eq(where, path);
    waited = *user;
    n_waited++;
    if (waiting)
        ck_assert_int_eq(write(waiting, "w", 1), 1);
}

static int examine(void)
{
    enum sl_rundir_content content;
    return sl_rundir_examine(path, note_wait, &content);
}

TEST(a_job_that_runs_is_refused_with_its_process_and_nobody_waits_for_its_end)
{
    struct sl_rundir other;
    char who[64];
    sl_rundir_grace_ms = 1;
    must(sl_rundir_create(&other, path, "{}"));
    snprintf(who, sizeof who, "process %d", (int)getpid());
    ck_assert_int_eq(examine(), SL_EEXIST);
    assert_message_has(who);
    assert_message_has("a job that is running");
    ck_assert_int_eq(n_waited, 0);
    sl_rundir_close(&other);
    must(examine());
    ck_assert_int_eq(n_waited, 0);
}

// A byte comes, or the test gives up.
static bool comes(int pipe_end)
{
    struct pollfd p = {.fd = pipe_end, .events = POLLIN};
    return poll(&p, 1, 60000) == 1;
}

// What came before this moment.
static bool has_come(int pipe_end)
{
    struct pollfd p = {.fd = pipe_end, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

// Whether somebody waits for the lock of a file of the run, by the kernel's list.
static bool is_waited_for(const char *name)
{
    struct stat st;
    char file[1300], line[256], inode[32];
    snprintf(file, sizeof file, "%s/%s", path, name);
    if (stat(file, &st) != 0)
        return false;
    snprintf(inode, sizeof inode, ":%lu ", (unsigned long)st.st_ino);
    FILE *f = fopen("/proc/locks", "r");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f))
        found = strstr(line, "-> FLOCK") && strstr(line, inode);
    if (f)
        fclose(f);
    return found;
}

// In a child: it has been told to end, and has not heard it until somebody waits for that.
static bool hears_it_late(struct sl_rundir *run)
{
    for (int i = 0; i < 60000 && !is_waited_for("events.jsonl"); i++)
        usleep(1000);
    bool ok = is_waited_for("events.jsonl");
    sl_rundir_end(run);
    return ok;
}

LOOP_TEST(a_job_that_is_ending_is_waited_for, 0, 2)
{
    struct sl_rundir other;
    int rc, ready[2], waits[2], gone[2];
    char byte;
    sl_rundir_grace_ms = 60000;
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(waits), 0);
    ck_assert_int_eq(pipe(gone), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = sl_rundir_create(&other, path, "{}") == SL_OK;
        if (_i == 0)
            sl_rundir_end(&other);
        ok = ok && write(ready[1], "x", 1) == 1;
        ok = ok && (_i == 0 || hears_it_late(&other));
        ok = ok && comes(waits[0]);
        ok = ok && write(gone[1], "g", 1) == 1;
        _exit(!ok);
    }
    waiting = waits[1];
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    must(examine());
    ck_assert(has_come(gone[0]));
    ck_assert_int_eq(n_waited, 1);
    ck_assert(waited.ending);
    ck_assert_int_eq(waited.pid, pid);
    ck_assert_int_eq(waitpid(pid, &rc, 0), pid);
    ck_assert_int_eq(rc, 0);
}

// Between its two locks it looks as one that is ending does.
TEST(a_job_that_is_beginning_is_refused_once_it_runs)
{
    int rc, ready[2], waits[2];
    char byte, events[1300];
    snprintf(events, sizeof events, "%s/events.jsonl", path);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(waits), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int directory = open(path, O_RDONLY | O_DIRECTORY);
        bool ok = flock(directory, LOCK_EX) == 0 && write(ready[1], "x", 1) == 1;
        ok = ok && comes(waits[0]);
        ok = ok && flock(open(events, O_WRONLY | O_CREAT, 0666), LOCK_EX) == 0;
        _exit(ok ? pause() : 1);
    }
    waiting = waits[1];
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(examine(), SL_EEXIST);
    assert_message_has("a job that is running");
    ck_assert_int_eq(n_waited, 1);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &rc, 0), pid);
    ck_assert(WIFSIGNALED(rc));
}

// The locks stay where its child has the descriptors, as with a process that takes its time to go.
TEST(a_job_that_was_killed_is_waited_for_until_it_is_gone)
{
    struct sl_rundir other;
    siginfo_t dead;
    int rc, waits[2], gone[2];
    ck_assert_int_eq(pipe(waits), 0);
    ck_assert_int_eq(pipe(gone), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (sl_rundir_create(&other, path, "{}") != SL_OK)
            _exit(1);
        if (fork() == 0) {
            bool ok = comes(waits[0]) && write(gone[1], "g", 1) == 1;
            _exit(!ok);
        }
        raise(SIGKILL);
    }
    waiting = waits[1];
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &dead, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(dead.si_status, SIGKILL);
    must(examine());
    ck_assert(has_come(gone[0]));
    ck_assert_int_eq(n_waited, 1);
    ck_assert_int_eq(waitpid(pid, &rc, 0), pid);
    ck_assert(WIFSIGNALED(rc));
}

TEST(a_run_that_was_killed_early_is_begun_anew)
{
    struct sl_rundir run;
    enum sl_rundir_content content;
    must(sl_rundir_create(&run, path, "{\"first\": true}"));
    sl_rundir_close(&run);
    write_text("run/metrics.jsonl", "{\"epoch\":0}\n");
    write_text("run/events.jsonl", "{\"kind\":\"start\"}\n");
    write_text("run/log/broker.log", "as it was\n");
    write_text("run/.report.json.17-0.tmp", "half a rep");
    ck_assert_int_eq(mkdir(in_dir("run/checkpoints"), 0777), 0);
    ck_assert_int_eq(mkdir(in_dir("run/checkpoints/.000000000007.12.tmp"), 0777), 0);
    must(sl_rundir_examine(path, NULL, &content));
    ck_assert_int_eq(content, SL_RUNDIR_BEGUN);
    must(sl_rundir_create(&run, path, "{\"second\": true}"));
    sl_rundir_close(&run);
    ck_assert_msg(!exists("run/.report.json.17-0.tmp"), "half a report is still there");
    ck_assert_msg(!exists("run/checkpoints/.000000000007.12.tmp"),
                  "half a checkpoint is still there");
    ck_assert_str_eq(held("run/config.json"), "{\"second\": true}");
    ck_assert_str_eq(held("run/metrics.jsonl"), "");
    ck_assert_str_eq(held("run/events.jsonl"), "");
    ck_assert_str_eq(held("run/log/broker.log"), "as it was\n");
    // Something of somebody's beside it, and it is his.
    write_text("run/notes.txt", "precious");
    ck_assert_int_eq(sl_rundir_examine(path, NULL, &content), SL_EEXIST);
    assert_message_has("notes.txt");
}

TEST(a_run_with_checkpoints_is_gone_on_with)
{
    struct sl_rundir run;
    enum sl_rundir_content content;
    must(sl_rundir_create(&run, path, "{\"epochs\": 2}"));
    sl_rundir_close(&run);
    write_text("run/metrics.jsonl", "{\"epoch\":0}\n{\"epoch\":1}\n");
    write_text("run/events.jsonl", "{\"kind\":\"start\"}\n");
    write_text("run/report.json", "{}");
    ck_assert_int_eq(mkdir(in_dir("run/checkpoints"), 0777), 0);
    ck_assert_int_eq(sl_rundir_examine(path, NULL, &content), SL_EEXIST); // none there
    ck_assert_int_eq(mkdir(in_dir("run/checkpoints/.000000000007.12.tmp"), 0777), 0);
    ck_assert_int_eq(sl_rundir_examine(path, NULL, &content), SL_EEXIST); // none that is whole
    ck_assert_int_eq(mkdir(in_dir("run/checkpoints/000000000006"), 0777), 0);
    must(sl_rundir_examine(path, NULL, &content));
    ck_assert_int_eq(content, SL_RUNDIR_CHECKPOINTS);
    ck_assert_int_eq(sl_rundir_check(path), SL_EEXIST);
    ck_assert_int_eq(sl_rundir_create(&run, path, "{}"), SL_EEXIST);
    // metrics.jsonl is cut back to what the checkpoint knows; events have happened.
    ck_assert_int_eq(mkdir(in_dir("run/checkpoints/000000000008"), 0777), 0);
    must(sl_rundir_reopen(&run, path, "{\"epochs\": 4}", "{\"epoch\":0}\n", "000000000006"));
    ck_assert_uint_eq(run.n_abandoned, 1);
    ck_assert_msg(!exists("run/checkpoints/000000000008"), "a newer checkpoint is still one");
    sl_rundir_close(&run);
    // A report is of the last part of a run, or there is none.
    ck_assert(!sl_rundir_is_reported(path));
    ck_assert_str_eq(held("run/report.before.json"), "{}");
    ck_assert_str_eq(held("run/events.jsonl"), "{\"kind\":\"start\"}\n");
    ck_assert_str_eq(held("run/metrics.jsonl"), "{\"epoch\":0}\n");
    ck_assert_str_eq(held("run/config.json"), "{\"epochs\": 4}");
    ck_assert_msg(!exists("run/checkpoints/.000000000007.12.tmp"),
                  "what a crash had left is still there");
}

TEST(a_file_without_a_name_is_where_the_run_will_be)
{
    char deep[1200], name[64], found[1300] = "";
    snprintf(deep, sizeof deep, "%s/a/b", path);
    int fd = sl_rundir_nameless(deep);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert(!exists("run"));
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ck_assert_int_gt(readlink(name, found, sizeof found - 1), 0);
    ck_assert_msg(strncmp(found, dir, strlen(dir)) == 0 && strstr(found, "(deleted)"), "%s", found);
    close(fd);
    ck_assert_int_eq(rmdir(dir), 0); // nothing is left in it
    ck_assert_int_lt(sl_rundir_nameless("/dev/null/run"), 0);
}

TEST(a_report_needs_a_directory_that_exists)
{
    must(sl_rundir_check_file(in_dir("report.json"), "--report"));
    must(sl_rundir_check_file("report.json", "--report"));
    must(sl_rundir_check_file("/dev/null", "--report"));
    ck_assert_int_eq(sl_rundir_check_file(in_dir("missing/report.json"), "--report"), SL_ENOENT);
    assert_message_has("--report");
    ck_assert_int_eq(sl_rundir_check_file(dir, "--report"), SL_EINVAL);
    ck_assert_int_eq(sl_rundir_check_file("", "--report"), SL_EINVAL);
}

RUN_TESTS(.setup = setup, .begin = scratch_begin, .end = scratch_end, .timeout_s = 120)
