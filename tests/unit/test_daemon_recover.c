// What a daemon makes of the jobs of the one before it.
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "broker/daemon/daemon_internal.h"
#include "broker/workers/process_id.h"
#include "broker/daemon/record.h"
#include "common/base/log.h"
#include "tests/unit/daemon_fixture.h"
#include "tests/unit/suite.h"

static struct sl_daemon *d; // without sockets: nobody has subscribed

static void begin(void)
{
    dir_begin();
    sl_log_set_level(SL_LOG_ERROR);
    d = calloc(1, sizeof *d);
    ck_assert_ptr_nonnull(d);
    snprintf(d->state_dir, sizeof d->state_dir, "%s", in_dir("state"));
    ck_assert_int_eq(mkdir(d->state_dir, 0700), 0);
    d->cores = cores_of("0-3");
}

static void end(void)
{
    sl_registry_fini(&d->registry);
    free(d);
    dir_end();
}

static struct sl_entry *left(const char *name, enum sl_entry_state state)
{
    struct sl_entry *e = add_entry(&d->registry, name, "0");
    e->state = state;
    e->started = sl_daemon_now() - 10;
    ck_assert_int_eq(mkdir(e->output, 0700), 0);
    return e;
}

static void report(const struct sl_entry *e, const char *text)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/report.json", e->output);
    write_text(path, text);
}

static void checkpoint(const struct sl_entry *e, const char *name)
{
    char path[5000];
    snprintf(path, sizeof path, "%s/checkpoints", e->output);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/checkpoints/%s", e->output, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

// What the next daemon would read.
static void assert_recorded(const struct sl_entry *e)
{
    char path[5000];
    struct sl_entry *back;
    snprintf(path, sizeof path, "%s/%s.json", d->state_dir, e->id);
    ck_assert_int_eq(sl_record_read(path, &back), SL_OK);
    ck_assert_int_eq(back->state, e->state);
    ck_assert_int_eq(back->order, e->order);
    ck_assert_str_eq(back->message, e->message);
    sl_entry_free(back);
}

TEST(what_waited_waits_on)
{
    struct sl_entry *a = left("a", SL_ENTRY_QUEUED), *b = left("b", SL_ENTRY_DONE);
    a->order = 5;
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_QUEUED);
    ck_assert_int_eq(a->order, 5);
    ck_assert_int_eq(b->state, SL_ENTRY_DONE);
}

TEST(what_ran_is_interrupted)
{
    struct sl_entry *a = left("a", SL_ENTRY_STARTING), *b = left("b", SL_ENTRY_PAUSED);
    checkpoint(b, "000000000040");
    checkpoint(b, "000000000030");
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_INTERRUPTED);
    ck_assert_ptr_nonnull(strstr(a->message, "'sluice resume 1' begins it anew"));
    ck_assert_int_eq(b->state, SL_ENTRY_INTERRUPTED);
    ck_assert_ptr_nonnull(strstr(b->message, "'sluice resume 2' goes on from update 40"));
    ck_assert(b->ended > 0);
    assert_recorded(a);
    assert_recorded(b);
}

TEST(a_report_that_was_written_meanwhile_holds)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING), *b = left("b", SL_ENTRY_FINISHING);
    struct sl_entry *c = left("c", SL_ENTRY_RUNNING), *e = left("e", SL_ENTRY_FINISHING);
    report(a, "{\"status\": \"done\"}");
    report(b, "{\"status\": \"failed\", \"message\": \"no memory\"}");
    report(c, "{\"status\": \"stopped\", \"message\": \"stopped by SIGHUP\"}");
    report(e, "{\"status\": \"stopped\", \"message\": \"stopped by the user\"}");
    a->resumes = b->resumes = e->resumes = true;
    e->stopping = true;
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_DONE);
    ck_assert_int_eq(a->exit_status, 0);
    ck_assert_int_eq(b->state, SL_ENTRY_FAILED);
    ck_assert_int_eq(b->exit_status, 1);
    ck_assert_str_eq(b->message, "no memory");
    ck_assert_int_eq(c->state, SL_ENTRY_INTERRUPTED); // by the daemon's death, not by a user
    // There is no checkpoint: 'sluice resume' would be refused.
    ck_assert_ptr_nonnull(strstr(c->message, "give it to 'sluice submit' again: output: "));
    ck_assert_ptr_nonnull(strstr(c->message, "choose another directory with --set output=DIR"));
    ck_assert_int_eq(e->state, SL_ENTRY_STOPPED);
    ck_assert_int_eq(e->exit_status, 130);
    assert_recorded(a);
    assert_recorded(e);
}

// A run that goes on in its directory has the report of its last part there.
TEST(an_older_report_says_nothing)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING);
    report(a, "{\"status\": \"done\"}");
    a->started = sl_daemon_now() + 5;
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_INTERRUPTED);
}

TEST(jobs_that_resume_are_queued_before_the_others_in_their_order)
{
    struct sl_entry *w = left("w", SL_ENTRY_QUEUED), *a = left("a", SL_ENTRY_RUNNING);
    struct sl_entry *b = left("b", SL_ENTRY_INTERRUPTED);
    a->resumes = b->resumes = true;
    a->was_paused = true;
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_QUEUED);
    ck_assert_int_eq(b->state, SL_ENTRY_QUEUED);
    ck_assert_int_lt(a->order, b->order);
    ck_assert_int_lt(b->order, w->order);
    ck_assert_uint_eq(a->resumed, 1);
    ck_assert_str_eq(a->message, "");
    assert_recorded(a);
    assert_recorded(b);
}

TEST(a_checkpoint_that_was_asked_for_is_kept_until_the_job_runs)
{
    struct sl_entry *e = left("e", SL_ENTRY_STARTING);
    e->resumes = true;
    e->checkpoint = strdup("000000000001");
    sl_daemon_recover(d);
    ck_assert_int_eq(e->state, SL_ENTRY_QUEUED);
    ck_assert_str_eq(e->checkpoint, "000000000001");
    sl_daemon_set_state(d, e, SL_ENTRY_STARTING);
    ck_assert_str_eq(e->checkpoint, "000000000001");
    sl_daemon_set_state(d, e, SL_ENTRY_RUNNING);
    ck_assert_ptr_null(e->checkpoint);
    assert_recorded(e);
}

// Its disk may only not be mounted yet; to begin from nothing would not be to go on.
TEST(a_job_whose_run_directory_is_gone_does_not_begin_anew)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING), *b = left("b", SL_ENTRY_STARTING);
    a->resumes = b->resumes = true;
    a->began = true;
    ck_assert_int_eq(rmdir(a->output), 0);
    ck_assert_int_eq(rmdir(b->output), 0);
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_INTERRUPTED);
    ck_assert_ptr_nonnull(strstr(a->message, "is gone"));
    ck_assert_ptr_nonnull(strstr(a->message, "sluice submit"));
    ck_assert_int_eq(b->state, SL_ENTRY_QUEUED); // it had not begun
    ck_assert_int_eq(mkdir(a->output, 0700), 0);
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_QUEUED);
}

TEST(a_job_that_comes_no_further_is_given_up)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING);
    char name[32];
    a->resumes = true;
    int n = 0;
    // As long as each time leaves a newer checkpoint it may go on for ever.
    for (; n < 10; n++) {
        snprintf(name, sizeof name, "%012d", n + 1);
        checkpoint(a, name);
        a->state = SL_ENTRY_RUNNING;
        sl_daemon_recover(d);
        ck_assert_int_eq(a->state, SL_ENTRY_QUEUED);
    }
    for (n = 0; a->state == SL_ENTRY_QUEUED; n++) {
        ck_assert_int_lt(n, 100);
        a->state = SL_ENTRY_RUNNING;
        sl_daemon_recover(d);
    }
    ck_assert_int_eq(n, 5);
    ck_assert_int_eq(a->state, SL_ENTRY_FAILED);
    ck_assert_ptr_nonnull(strstr(a->message, "'sluice resume 1'"));
    assert_recorded(a);
}

TEST(a_job_that_waits_for_a_core_that_is_gone_fails)
{
    struct sl_entry *a = left("a", SL_ENTRY_QUEUED);
    a->cores = cores_of("2-4");
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_FAILED);
    ck_assert_ptr_nonnull(strstr(a->message, "core 4"));
    ck_assert_int_eq(a->exit_status, 2);
}

// --- brokers that still live ---------------------------------------------------------------------

static pid_t sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    ck_assert_int_gt(pid, 0);
    return pid;
}

static void bury(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

TEST(a_process_is_known_by_its_number_and_its_beginning)
{
    pid_t pid = sleeper();
    uint64_t start = sl_process_id_start(pid);
    ck_assert_uint_ne(start, 0);
    ck_assert_uint_eq(sl_process_id_start(pid), start);
    ck_assert_uint_ge(start, sl_process_id_start(getpid()));
    ck_assert(!sl_process_id_kill(pid, start + 1));
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0); // it was not meant
    ck_assert(sl_process_id_kill(pid, start));
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_uint_eq(sl_process_id_start(pid), 0); // a zombie is none
    bury(pid);
    ck_assert_uint_eq(sl_process_id_start(pid), 0);
    ck_assert_uint_eq(sl_process_id_start(0), 0);
    ck_assert_uint_eq(sl_process_id_start(-1), 0);
}

TEST(a_broker_that_still_saves_keeps_its_cores)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING), *w = left("w", SL_ENTRY_QUEUED);
    struct sl_queue_view view;
    a->resumes = true;
    a->pid = sleeper();
    a->pid_start = sl_process_id_start(a->pid);
    pid_t pid = a->pid;
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_INTERRUPTED);
    ck_assert_ptr_nonnull(strstr(a->message, "still saving"));
    struct sl_queue_item *items = sl_registry_queue(&d->registry);
    sl_queue_look(items, d->registry.n, 1, &view);
    ck_assert(!view.may_start);
    free(items);
    sl_daemon_poll_orphans(d);
    ck_assert_int_eq(a->state, SL_ENTRY_INTERRUPTED);
    bury(pid);
    sl_daemon_poll_orphans(d);
    ck_assert_int_eq(a->state, SL_ENTRY_QUEUED);
    ck_assert_int_lt(a->order, w->order);
    ck_assert_uint_eq(a->orphan_until_ns, 0);
    ck_assert_int_eq(a->pid, 0);
}

// The next daemon but one finds it, too.
TEST(a_daemon_that_dies_while_it_waits_is_made_up_for)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING);
    a->pid = sleeper();
    a->pid_start = sl_process_id_start(a->pid);
    pid_t pid = a->pid;
    sl_daemon_recover(d);
    assert_recorded(a);
    sl_registry_fini(&d->registry);
    ck_assert_int_eq(sl_record_read_all(d->state_dir, &d->registry), SL_OK);
    a = d->registry.entries[0];
    sl_daemon_recover(d);
    ck_assert_uint_ne(a->orphan_until_ns, 0);
    bury(pid);
    sl_daemon_poll_orphans(d);
    ck_assert_int_eq(a->state, SL_ENTRY_INTERRUPTED);
    ck_assert_uint_eq(a->orphan_until_ns, 0);
    ck_assert_int_eq(a->pid, 0);
}

TEST(a_broker_that_never_ends_is_killed)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING);
    pid_t pid = a->pid = sleeper();
    int status;
    a->pid_start = sl_process_id_start(a->pid);
    sl_daemon_recover(d);
    a->orphan_until_ns = 1;
    sl_daemon_poll_orphans(d);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    sl_daemon_poll_orphans(d);
    ck_assert_uint_eq(a->orphan_until_ns, 0);
}

TEST(somebody_elses_process_of_that_number_is_left_alone)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING);
    pid_t pid = a->pid = sleeper();
    a->pid_start = sl_process_id_start(pid) + 1;
    sl_daemon_recover(d);
    ck_assert_uint_eq(a->orphan_until_ns, 0);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    bury(pid);
}

// Ticks are counted from the start of the machine: the next one has the same again.
TEST(a_process_of_another_start_of_the_machine_is_left_alone)
{
    char boot[SL_BOOT_ID_BYTES];
    ck_assert_uint_eq(strlen(sl_process_id_boot(boot)), 36);
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING), *b = left("b", SL_ENTRY_RUNNING);
    pid_t pid = a->pid = b->pid = sleeper();
    a->pid_start = b->pid_start = sl_process_id_start(pid);
    snprintf(a->boot, sizeof a->boot, "00000000-0000-0000-0000-000000000000");
    snprintf(b->boot, sizeof b->boot, "%s", boot);
    sl_daemon_recover(d);
    ck_assert_uint_eq(a->orphan_until_ns, 0);
    ck_assert_uint_ne(b->orphan_until_ns, 0);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    bury(pid);
}

TEST(a_job_whose_core_is_gone_once_its_broker_is_fails)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING);
    a->resumes = true;
    a->cores = cores_of("7");
    pid_t pid = a->pid = sleeper();
    a->pid_start = sl_process_id_start(pid);
    sl_daemon_recover(d);
    ck_assert_int_eq(a->state, SL_ENTRY_INTERRUPTED);
    bury(pid);
    sl_daemon_poll_orphans(d);
    ck_assert_int_eq(a->state, SL_ENTRY_FAILED);
    ck_assert_ptr_nonnull(strstr(a->message, "core 7"));
}

TEST(a_reason_is_text_for_a_terminal)
{
    struct sl_entry *a = left("a", SL_ENTRY_RUNNING);
    sl_daemon_end_entry(d, a, SL_ENTRY_FAILED, 1, "its last lines: %s", "\x1b[2J\nStra\xc3");
    ck_assert_str_eq(a->message, "its last lines:  [2J Stra?");
    assert_recorded(a);
}

// --- the list ------------------------------------------------------------------------------------

TEST(old_jobs_are_forgotten_and_their_records)
{
    char name[32], path[5000];
    for (int i = 0; i < SL_REGISTRY_OVER_KEPT + 3; i++) {
        snprintf(name, sizeof name, "j%d", i);
        struct sl_entry *e = add_entry(&d->registry, name, "0");
        e->state = i == 0 ? SL_ENTRY_INTERRUPTED : i == 4 ? SL_ENTRY_QUEUED : SL_ENTRY_DONE;
        e->ended = 1000 + i;
        if (i < 5)
            ck_assert_int_eq(sl_daemon_save(d, e), SL_OK);
    }
    sl_daemon_forget_old(d);
    ck_assert_uint_eq(d->registry.n, SL_REGISTRY_OVER_KEPT + 1);
    // The oldest two that nothing is to be done about any more.
    ck_assert_ptr_nonnull(sl_registry_by_number(&d->registry, 1));
    ck_assert_ptr_null(sl_registry_by_number(&d->registry, 2));
    ck_assert_ptr_null(sl_registry_by_number(&d->registry, 3));
    ck_assert_ptr_nonnull(sl_registry_by_number(&d->registry, 4));
    ck_assert_ptr_nonnull(sl_registry_by_number(&d->registry, 5));
    snprintf(path, sizeof path, "%s/2.json", d->state_dir);
    ck_assert_int_ne(access(path, F_OK), 0);
}

TEST(a_record_that_could_not_be_written_is_written_later)
{
    char moved[600];
    struct sl_entry *e = add_entry(&d->registry, "a", "0");
    snprintf(moved, sizeof moved, "%.500s.away", d->state_dir);
    ck_assert_int_eq(rename(d->state_dir, moved), 0);
    sl_log_set_level(SL_LOG_ERROR);
    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
    sl_daemon_set_state(d, e, SL_ENTRY_RUNNING);
    ck_assert(e->unsaved);
    sl_daemon_save_rest(d);
    ck_assert(e->unsaved);
    ck_assert_int_eq(rename(moved, d->state_dir), 0);
    sl_daemon_save_rest(d);
    ck_assert(!e->unsaved);
    assert_recorded(e);
}

RUN_TESTS(.setup = begin, .teardown = end, .timeout_s = 60)
