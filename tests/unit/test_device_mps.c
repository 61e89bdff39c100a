// MPS: what is said of a daemon that listens, of what an earlier one has left, and of none. The
// daemon is a socket of the test's; that it hears nothing of the question is tested too.
#include "common/device/mps.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[64], path[128];

static void begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/test_mps.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/control", folder);
    setenv("CUDA_MPS_PIPE_DIRECTORY", folder, 1);
}

static void end(void)
{
    char pid[128];
    snprintf(pid, sizeof pid, "%s/nvidia-cuda-mps-control.pid", folder);
    unlink(pid);
    unlink(path);
    rmdir(folder);
}

static int daemon_socket(int type)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", path);
    int fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    if (type != SOCK_DGRAM)
        ck_assert_int_eq(listen(fd, 4), 0);
    return fd;
}

static void write_pid(const char *text)
{
    char file[128];
    snprintf(file, sizeof file, "%s/nvidia-cuda-mps-control.pid", folder);
    FILE *f = fopen(file, "we");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static struct sl_mps look(void)
{
    struct sl_mps mps;
    sl_mps_look(&mps);
    return mps;
}

static void finds(bool serves, const char *words)
{
    struct sl_mps mps = look();
    ck_assert_msg(mps.serves == serves, "%s", mps.found);
    ck_assert_msg(strstr(mps.found, words) != NULL, "'%s' is not in: %s", words, mps.found);
    ck_assert_msg(strstr(mps.found, folder) != NULL, "%s", mps.found);
}

TEST(nothing_is_none)
{
    finds(false, "no MPS control daemon at ");
    rmdir(folder);
    finds(false, "no MPS control daemon at ");
    ck_assert_int_eq(mkdir(folder, 0700), 0);
}

LOOP_TEST(a_daemon_that_listens_serves_and_hears_nothing, 0, 2)
{
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
    int fd = daemon_socket(types[_i]);
    finds(true, "the MPS control daemon at ");
    ck_assert_ptr_null(strstr(look().found, "process"));
    write_pid("4711\n");
    finds(true, " (process 4711)");
    write_pid("nonsense");
    ck_assert_ptr_null(strstr(look().found, "process"));
    ck_assert_int_eq(accept(fd, NULL, NULL), -1);
    ck_assert_int_eq(errno, EAGAIN);
    close(fd);
}

TEST(what_an_earlier_one_has_left_serves_nobody)
{
    close(daemon_socket(SOCK_STREAM));
    write_pid("1\n"); // a process that lives
    finds(false, "no MPS control daemon listens at ");
}

TEST(a_socket_that_this_user_may_not_use_says_so)
{
    int fd = daemon_socket(SOCK_STREAM);
    ck_assert_int_eq(chmod(path, 0), 0);
    if (geteuid() != 0)
        finds(false, "Permission denied");
    else if (chown(path, 65534, 65534) == 0) // root may, but is not whom it serves
        finds(false, "is another user's (65534)");
    close(fd);
}

TEST(a_folder_whose_name_is_too_long_for_a_socket_says_so)
{
    char name[300];
    memset(name, 'x', sizeof name - 1);
    name[0] = '/';
    name[sizeof name - 1] = '\0';
    setenv("CUDA_MPS_PIPE_DIRECTORY", name, 1);
    struct sl_mps mps = look();
    ck_assert(!mps.serves);
    ck_assert_ptr_nonnull(strstr(mps.found, "File name too long"));
}

TEST(an_empty_name_is_the_usual_folder)
{
    setenv("CUDA_MPS_PIPE_DIRECTORY", "", 1);
    ck_assert_ptr_nonnull(strstr(look().found, "/tmp/nvidia-mps"));
}

RUN_TESTS(.setup = begin, .teardown = end, .timeout_s = 20)
