// The runtime directory: which one, who may enter it, who holds it.
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/bus/runtime_dir.h"
#include "tests/unit/bus_fixture.h"
#include "tests/unit/suite.h"

static char dir[128];

static void make_dir_name(void)
{
    make_base();
    snprintf(dir, sizeof dir, "%s/run", base);
    unsetenv("SLUICE_RUNTIME_DIR");
    unsetenv("XDG_RUNTIME_DIR");
}

static int take(void)
{
    return sl_runtime_dir_take(dir, "1.2.3");
}

// --- which ---------------------------------------------------------------------------------------

TEST(an_option_wins_over_the_environment)
{
    char out[SL_RUNTIME_DIR_BYTES];
    setenv("SLUICE_RUNTIME_DIR", "/tmp/b", 1);
    setenv("XDG_RUNTIME_DIR", base, 1);
    ck_assert_int_eq(sl_runtime_dir_find("/tmp/a", out), SL_OK);
    ck_assert_str_eq(out, "/tmp/a");
    ck_assert_int_eq(sl_runtime_dir_find(NULL, out), SL_OK);
    ck_assert_str_eq(out, "/tmp/b");
    setenv("SLUICE_RUNTIME_DIR", "", 1); // as good as unset
    ck_assert_int_eq(sl_runtime_dir_find("", out), SL_OK);
    ck_assert_int_eq(strncmp(out, base, strlen(base)), 0);
    ck_assert_str_eq(out + strlen(base), "/sluice");
}

TEST(without_a_session_it_is_below_tmp)
{
    char out[SL_RUNTIME_DIR_BYTES], want[64], session[64];
    struct sl_runtime_holder holder;
    snprintf(session, sizeof session, "/run/user/%u/sluice", (unsigned)geteuid());
    if (sl_runtime_dir_look(session, &holder) == SL_OK && holder.alive) {
        printf("SKIP: a daemon of this user's lives\n");
        return;
    }
    snprintf(want, sizeof want, "/tmp/sluice-%u", (unsigned)geteuid());
    ck_assert_int_eq(sl_runtime_dir_find(NULL, out), SL_OK);
    ck_assert_str_eq(out, want);
    // What sudo or a container left behind is no session.
    setenv("XDG_RUNTIME_DIR", "/nonexistent/run/user/77", 1);
    ck_assert_int_eq(sl_runtime_dir_find(NULL, out), SL_OK);
    ck_assert_str_eq(out, want);
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    ck_assert_int_eq(sl_runtime_dir_find(NULL, out), SL_OK);
    ck_assert_str_eq(out, want);
}

// A daemon that was started in a session is found by who is in none, and the other way round.
TEST(a_place_where_a_daemon_lives_comes_first)
{
    char second[128];
    snprintf(second, sizeof second, "%s/second", base);
    const char *dirs[] = {dir, "/nonexistent", second};
    ck_assert_uint_eq(sl_runtime_dir_choose(dirs, 3), 0); // no daemon lives
    int fd = sl_runtime_dir_take(second, "1.2.3");
    ck_assert_int_ge(fd, 0);
    ck_assert_uint_eq(sl_runtime_dir_choose(dirs, 3), 2);
    int first = take();
    ck_assert_uint_eq(sl_runtime_dir_choose(dirs, 3), 0);
    close(first); // what it has left is none
    ck_assert_uint_eq(sl_runtime_dir_choose(dirs, 3), 2);
    close(fd);
    ck_assert_uint_eq(sl_runtime_dir_choose(dirs, 3), 0);
}

TEST(what_is_found_is_where_a_daemon_lives)
{
    char out[SL_RUNTIME_DIR_BYTES], usual[64], mine[128];
    setenv("XDG_RUNTIME_DIR", base, 1);
    snprintf(usual, sizeof usual, "/tmp/sluice-%u", (unsigned)geteuid());
    snprintf(mine, sizeof mine, "%s/sluice", base);
    if (access(usual, F_OK) == 0) {
        printf("SKIP: %s is in use\n", usual);
        return;
    }
    int fd = sl_runtime_dir_take(usual, "1.2.3");
    ck_assert_msg(fd >= 0, "%s", sl_error_message());
    ck_assert_int_eq(sl_runtime_dir_find(NULL, out), SL_OK);
    ck_assert_str_eq(out, usual);
    ck_assert_int_eq(sl_runtime_dir_find(mine, out), SL_OK); // who says where means it
    ck_assert_str_eq(out, mine);
    close(fd);
    ck_assert_int_eq(sl_runtime_dir_find(NULL, out), SL_OK);
    ck_assert_str_eq(out, mine);
    char lock[128];
    snprintf(lock, sizeof lock, "%s/daemon.lock", usual);
    unlink(lock);
    rmdir(usual);
}

TEST(a_path_becomes_absolute_and_tidy)
{
    char out[SL_RUNTIME_DIR_BYTES], want[SL_RUNTIME_DIR_BYTES];
    ck_assert_int_eq(chdir(base), 0);
    snprintf(want, sizeof want, "%s/a/b", base);
    ck_assert_int_eq(sl_runtime_dir_find("./a//b/./", out), SL_OK);
    ck_assert_str_eq(out, want);
    ck_assert_int_eq(sl_runtime_dir_find("/", out), SL_OK);
    ck_assert_str_eq(out, "/");
}

TEST(the_longest_name_fits_and_one_more_does_not)
{
    char out[SL_RUNTIME_DIR_BYTES], given[200], endpoint[300];
    size_t most = SL_RUNTIME_SOCKET_MAX - strlen("/control.sock");
    memset(given, 'x', sizeof given);
    given[0] = '/';
    given[most] = '\0';
    ck_assert_int_eq(sl_runtime_dir_find(given, out), SL_OK);
    sl_runtime_dir_endpoint(out, "control.sock", endpoint, sizeof endpoint);
    ck_assert_uint_eq(strlen(endpoint), strlen("ipc://") + SL_RUNTIME_SOCKET_MAX);
    given[most] = 'x';
    given[most + 1] = '\0';
    ck_assert_int_eq(sl_runtime_dir_find(given, out), SL_ERANGE);
    expect_message("108 bytes");
    expect_message("at most 107");
    expect_message("at most 94 bytes");
    expect_message("--runtime-dir");
}

TEST(a_path_beyond_all_bounds_is_an_error)
{
    char out[SL_RUNTIME_DIR_BYTES];
    size_t n = 3 * SL_RUNTIME_DIR_BYTES;
    char *given = malloc(n);
    memset(given, 'x', n);
    given[0] = '/';
    given[n - 1] = '\0';
    ck_assert_int_eq(sl_runtime_dir_find(given, out), SL_ERANGE);
    given[SL_RUNTIME_DIR_BYTES + 5] = '\0';
    ck_assert_int_eq(sl_runtime_dir_find(given, out), SL_ERANGE);
    free(given);
}

// --- taking it -----------------------------------------------------------------------------------

TEST(a_daemon_makes_it_and_is_seen)
{
    struct sl_runtime_holder holder;
    struct stat st;
    umask(0); // the mode does not hang on it
    int fd = take();
    ck_assert_msg(fd >= 0, "%s", sl_error_message());
    ck_assert_int_eq(stat(dir, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0700);
    ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_OK);
    ck_assert(holder.alive);
    ck_assert_int_eq(holder.pid, getpid());
    ck_assert_uint_eq(holder.protocol, SL_PROTOCOL_VERSION);
    ck_assert_str_eq(holder.version, "1.2.3");
    // Looking has not let it go.
    ck_assert_int_eq(take(), SL_EEXIST);
    close(fd);
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_OK);
    ck_assert(!holder.alive);
    ck_assert_int_eq(holder.pid, getpid());
}

// Whether a process has the file open.
static bool has_open(pid_t pid, const char *path)
{
    char folder[64], link[400], target[256];
    snprintf(folder, sizeof folder, "/proc/%ld/fd", (long)pid);
    DIR *d = opendir(folder);
    bool found = false;
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(link, sizeof link, "%s/%s", folder, e->d_name);
        ssize_t n = readlink(link, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        found = found || strcmp(target, path) == 0;
    }
    if (d)
        closedir(d);
    return found;
}

// It has the lock before it can write who it is, which it does here once somebody looks.
TEST(a_daemon_that_begins_is_waited_for)
{
    struct sl_runtime_holder holder;
    const char *path = in_base("run/daemon.lock");
    int ready[2];
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        bool held = fcntl(fd, F_OFD_SETLK, &whole) == 0 && write(ready[1], "x", 1) == 1;
        while (!has_open(getppid(), path))
            usleep(200);
        _exit(held && dprintf(fd, "4711 2 1.2.3\n") > 0 ? pause() : 1);
    }
    char x;
    ck_assert_int_eq(read(ready[0], &x, 1), 1);
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_OK);
    ck_assert(holder.alive);
    ck_assert_int_eq(holder.pid, 4711);
    ck_assert_str_eq(holder.version, "1.2.3");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TEST(nothing_there_is_said)
{
    struct sl_runtime_holder holder;
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_ENOENT);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_ENOENT);
    ck_assert(!holder.alive);
}

TEST(a_second_daemon_is_told_of_the_first)
{
    char part[32];
    int fd = take();
    ck_assert_int_ge(fd, 0);
    put_file(in_base("run/control.sock"), "");
    snprintf(part, sizeof part, "process %ld,", (long)getpid());
    ck_assert_int_eq(take(), SL_EEXIST);
    expect_message(part);
    expect_message("1.2.3");
    expect_message(dir);
    ck_assert_msg(access(in_base("run/control.sock"), F_OK) == 0,
                  "the second daemon removed the first one's socket");
    close(fd);
}

TEST(what_a_killed_daemon_left_is_taken_over)
{
    int ready[2];
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool held = take() >= 0;
        put_file(in_base("run/control.sock"), "");
        put_file(in_base("run/stats.sock"), "");
        if (write(ready[1], held ? "y" : "n", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char answer = 0;
    ck_assert_int_eq(read(ready[0], &answer, 1), 1);
    ck_assert_int_eq(answer, 'y');
    ck_assert_int_eq(take(), SL_EEXIST);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);

    struct sl_runtime_holder holder;
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_OK);
    ck_assert(!holder.alive);
    ck_assert_int_eq(holder.pid, pid);
    int fd = take();
    ck_assert_msg(fd >= 0, "%s", sl_error_message());
    ck_assert_int_ne(access(in_base("run/control.sock"), F_OK), 0);
    ck_assert_int_ne(access(in_base("run/stats.sock"), F_OK), 0);
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_OK);
    ck_assert_int_eq(holder.pid, getpid());
    close(fd);
}

TEST(a_damaged_lock_file_harms_nobody)
{
    static const char *const texts[] = {"", "garbage\n", "-5 2 x\n", "12", "99999999999 7 9.9.9\n"};
    struct sl_runtime_holder holder;
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put_file(in_base("run/daemon.lock"), texts[i]);
        ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_OK);
        ck_assert(!holder.alive);
    }
    char text[4096];
    memset(text, '7', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    put_file(in_base("run/daemon.lock"), text);
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_OK);
    int fd = take();
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_OK);
    ck_assert_int_eq(holder.pid, getpid());
    ck_assert_str_eq(holder.version, "1.2.3");
    close(fd);
}

// --- who may not ---------------------------------------------------------------------------------

TEST(a_directory_open_to_others_is_refused)
{
    static const mode_t modes[] = {0755, 0701, 0710, 0770, 0777, 01777};
    struct sl_runtime_holder holder;
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    put_file(in_base("run/control.sock"), "");
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        ck_assert_int_eq(chmod(dir, modes[i]), 0);
        ck_assert_int_eq(take(), SL_EACCESS);
        expect_message("chmod 700");
        ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_EACCESS);
    }
    ck_assert_int_eq(access(in_base("run/control.sock"), F_OK), 0); // nothing was touched
}

TEST(another_user_s_directory_is_refused)
{
    if (geteuid() != 0) {
        printf("SKIP: only root can make another user's directory\n");
        return;
    }
    struct sl_runtime_holder holder;
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(chown(dir, 65534, 65534), 0);
    ck_assert_int_eq(take(), SL_EACCESS);
    expect_message("65534");
    expect_message("--runtime-dir DIR");
    expect_message("SLUICE_RUNTIME_DIR=DIR");
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_EACCESS);
}

TEST(a_link_is_not_followed)
{
    struct sl_runtime_holder holder;
    char target[128], path[256];
    snprintf(target, sizeof target, "%s/target", base);
    ck_assert_int_eq(mkdir(target, 0700), 0);
    ck_assert_int_eq(symlink(target, dir), 0);
    ck_assert_int_eq(take(), SL_EACCESS);
    expect_message("a link");
    ck_assert_int_eq(sl_runtime_dir_look(dir, &holder), SL_EACCESS);
    // Nor one in place of the lock: it would write into a file of the attacker's choice.
    ck_assert_int_eq(unlink(dir), 0);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    snprintf(path, sizeof path, "%s/precious", target);
    FILE *f = fopen(path, "w");
    fputs("precious", f);
    fclose(f);
    ck_assert_int_eq(symlink(path, in_base("run/daemon.lock")), 0);
    ck_assert_int_eq(take(), SL_EACCESS);
    char text[16] = "";
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
    fclose(f);
    ck_assert_str_eq(text, "precious");
}

TEST(a_file_or_a_missing_parent_is_named)
{
    FILE *f = fopen(dir, "w");
    fclose(f);
    ck_assert_int_eq(take(), SL_EACCESS);
    expect_message(dir);
    ck_assert_int_eq(sl_runtime_dir_take("/tmp/sl-none/there/is", "1"), SL_ENOENT);
    expect_message("directory above it");
}

RUN_TESTS(.setup = make_dir_name, .teardown = remove_base, .timeout_s = 60)
