// Files that somebody names, and how many descriptors are left to open them.
#include "common/base/open_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "tests/unit/suite.h"

// A file without a name, with this in it, to be read from its beginning.
static int file_of(const char *text, size_t bytes)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, text, bytes, 0), (ssize_t)bytes);
    return fd;
}

TEST(a_file_is_read_whole)
{
    char *text;
    size_t n;
    int fd = file_of("a\0b", 3);
    ck_assert_int_eq(sl_read_whole_file(fd, "f", 3, &text, &n), SL_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_mem_eq(text, "a\0b", 4); // and a NUL behind it
    free(text);
    // Those who share the descriptor read from its beginning, too.
    ck_assert_int_eq(lseek(fd, 0, SEEK_CUR), 0);
    ck_assert_int_eq(lseek(fd, 2, SEEK_SET), 2);
    ck_assert_int_eq(sl_read_whole_file(fd, "f", 3, &text, &n), SL_OK);
    ck_assert_uint_eq(n, 3);
    free(text);
    close(fd);
}

TEST(an_empty_file_is_an_empty_text)
{
    char *text;
    int fd = file_of("", 0);
    ck_assert_int_eq(sl_read_whole_file(fd, "f", 10, &text, NULL), SL_OK);
    ck_assert_str_eq(text, "");
    free(text);
    close(fd);
}

TEST(what_is_too_large_or_no_file_is_refused)
{
    char *text;
    int pipes[2], fd = file_of("abcd", 4);
    ck_assert_int_eq(sl_read_whole_file(fd, "f", 3, &text, NULL), SL_EFORMAT);
    ck_assert_ptr_null(text);
    close(fd);
    ck_assert_int_eq(pipe(pipes), 0);
    ck_assert_int_eq(sl_read_whole_file(pipes[0], "p", 10, &text, NULL), SL_EFORMAT);
    fd = sl_open_file("/");
    ck_assert_int_eq(sl_read_whole_file(fd, "/", 1 << 30, &text, NULL), SL_EFORMAT);
    ck_assert_ptr_null(text);
    close(fd);
}

TEST(what_can_not_be_read_is_told)
{
    char *text;
    int fd = open("/dev/shm", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, "abc", 3, 0), 3);
    ck_assert_int_eq(sl_read_whole_file(fd, "f", 10, &text, NULL), SL_EIO);
    ck_assert_ptr_null(text);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "reading 'f'"));
    close(fd);
    ck_assert_int_eq(sl_read_whole_file(fd, "g", 10, &text, NULL), SL_EIO);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "reading 'g'"));
}

TEST(descriptors_are_counted_and_given_back)
{
    struct rlimit limit;
    int next = dup(0);
    ck_assert_int_ge(next, 0);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)next + 5;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert(sl_descriptors_left(0));
    for (int i = 0; i < 3; i++) {
        ck_assert(sl_descriptors_left(5));
        ck_assert(!sl_descriptors_left(6));
    }
    ck_assert_int_eq(sl_descriptors_check(5, "this"), SL_OK);
    ck_assert_int_eq(sl_descriptors_check(6, "this"), SL_EAGAIN);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "ulimit -n"));
    int again = dup(0);
    ck_assert_int_eq(again, next);
    close(again);
}

RUN_TESTS()
