// What `sluice doctor` says of what is around a job: daemon, container, terminal, systemd.
#include "cli/doctor.h"

#include "cli/session.h"
#include "common/bus/runtime_dir.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

#include <fcntl.h>

static struct sl_doctor doctor;

static const struct sl_doctor_check *check_of(const char *key, const struct sl_session_where *where)
{
    doctor.n = 0;
    sl_doctor_check_service(&doctor, where);
    for (size_t i = 0; i < doctor.n; i++)
        if (strcmp(doctor.checks[i].key, key) == 0)
            return &doctor.checks[i];
    ck_abort_msg("no check of '%s'", key);
}

static void expect(const char *key, const struct sl_session_where *where, enum sl_verdict verdict,
                   const char *found, const char *advice)
{
    const struct sl_doctor_check *c = check_of(key, where);
    assert_has(c->found, found);
    ck_assert_int_eq(c->verdict, verdict);
    if (verdict == SL_VERDICT_OK)
        ck_assert_str_eq(c->advice, "");
    else
        assert_has(c->advice, advice);
}

static struct sl_session_where here(char out[SL_RUNTIME_DIR_BYTES])
{
    snprintf(out, SL_RUNTIME_DIR_BYTES, "%s", in_dir("runtime"));
    return (struct sl_session_where){.runtime_dir = out};
}

TEST(no_daemon_is_no_matter)
{
    char path[SL_RUNTIME_DIR_BYTES];
    const struct sl_session_where where = here(path);
    expect("daemon", &where, SL_VERDICT_OK, "none at ", "");
    close(sl_runtime_dir_take(path, "0.0.0")); // one that has died
    expect("daemon", &where, SL_VERDICT_OK, "none at ", "");
}

// In a process of its own: a lock is seen by others alone.
static pid_t daemon_of(const char *path, const char *version)
{
    int ends[2];
    char one;
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        if (sl_runtime_dir_take(path, version) >= 0 && write(ends[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &one, 1), 1);
    close(ends[0]);
    return pid;
}

TEST(a_daemon_of_another_version_is_to_be_restarted)
{
    char path[SL_RUNTIME_DIR_BYTES];
    const struct sl_session_where where = here(path);
    const pid_t pid = daemon_of(path, "0.0.0");
    expect("daemon", &where, SL_VERDICT_WARNING, ", version 0.0.0, at ", "restart the daemon");
    kill(pid, SIGKILL);
}

TEST(a_directory_that_is_not_ours_alone_is_not_looked_into)
{
    char path[SL_RUNTIME_DIR_BYTES];
    const struct sl_session_where where = here(path);
    close(sl_runtime_dir_take(path, "0.0.0"));
    ck_assert_int_eq(chmod(path, 0755), 0);
    expect("daemon", &where, SL_VERDICT_WARNING, "not known, at ", path);
}

TEST(a_directory_whose_sockets_have_too_long_names)
{
    char path[300];
    memset(path, 'd', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    const struct sl_session_where where = {.runtime_dir = path};
    expect("daemon", &where, SL_VERDICT_WARNING, "its directory has no name", "107");
}

TEST(what_can_not_be_an_address_is_said)
{
    const struct sl_session_where where = {.connect = "gpu7:7400", .key = "client.key"};
    expect("daemon", &where, SL_VERDICT_WARNING, "at gpu7:7400", "--connect: found 'gpu7:7400'");
}

TEST(what_surrounds_a_job_is_told_by_the_environment)
{
    const struct sl_session_where where = {0};
    setenv("container", "podman", 1);
    setenv("TERM", "xterm-256color", 1);
    setenv("NO_COLOR", "1", 1);
    setenv("NOTIFY_SOCKET", "/run/notify", 1);
    setenv("WATCHDOG_USEC", "3000000", 1);
    expect("container", &where, SL_VERDICT_OK, "podman; /dev/shm is ", "");
    expect("terminal", &where, SL_VERDICT_OK, "TERM=xterm-256color, ", "");
    assert_has(check_of("terminal", &where)->found, ", NO_COLOR");
    expect("systemd", &where, SL_VERDICT_OK, "at /run/notify, watchdog us 3000000", "");
    setenv("container", "", 1);
    setenv("TERM", "", 1);
    unsetenv("WATCHDOG_USEC");
    expect("terminal", &where, SL_VERDICT_OK, "TERM=(not set), ", "");
    ck_assert_ptr_null(strstr(check_of("systemd", &where)->found, "watchdog"));
    unsetenv("NOTIFY_SOCKET");
    assert_has(check_of("systemd", &where)->found, "this machine");
}

// ---- a terminal ---------------------------------------------------------------------------------

// Standard output is one.
static void on_a_terminal(void)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(master, 0);
    ck_assert_int_eq(grantpt(master) | unlockpt(master), 0);
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(slave, 0);
    ck_assert_int_eq(dup2(slave, STDOUT_FILENO), STDOUT_FILENO);
}

LOOP_TEST(what_a_terminal_lacks_is_said, 0, 3)
{
    static const struct {
        const char *term, *locale, *advice;
    } cases[] = {
        {"dumb", "C.UTF-8", "set TERM to what the terminal is"},
        {"xterm", "C", "a UTF-8 locale"},
        {"xterm", "C.UTF-8", NULL},
    };
    const struct sl_session_where where = {0};
    const int out = dup(STDOUT_FILENO);
    setenv("TERM", cases[_i].term, 1);
    setenv("LC_ALL", cases[_i].locale, 1);
    unsetenv("NO_COLOR");
    on_a_terminal();
    const struct sl_doctor_check c = *check_of("terminal", &where);
    dup2(out, STDOUT_FILENO);
    ck_assert_int_eq(c.verdict, cases[_i].advice ? SL_VERDICT_WARNING : SL_VERDICT_OK);
    assert_has(c.advice, cases[_i].advice ? cases[_i].advice : "");
    ck_assert_ptr_null(strstr(c.found, "no terminal"));
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
