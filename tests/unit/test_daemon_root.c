// Where jobs of clients from afar may write: below the root, whatever links and dots say.
#include "broker/daemon/root.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/error.h"
#include "tests/unit/daemon_fixture.h"
#include "tests/unit/suite.h"

static char root[PATH_MAX];

static void begin(void)
{
    dir_begin();
    ck_assert_int_eq(mkdir(in_dir("root"), 0700), 0);
    ck_assert_int_eq(mkdir(in_dir("root/runs"), 0700), 0);
    ck_assert_int_eq(mkdir(in_dir("rootless"), 0700), 0);
    ck_assert_int_eq(symlink(in_dir("rootless"), in_dir("root/out")), 0);
    ck_assert_int_eq(symlink(in_dir("not-made-yet"), in_dir("root/nowhere")), 0);
    ck_assert_int_eq(symlink("runs", in_dir("root/in")), 0);
    ck_assert_int_eq(symlink(in_dir("root"), in_dir("link")), 0);
    ck_assert_int_eq(sl_root_find(in_dir("link"), root, sizeof root), SL_OK);
    char whole[PATH_MAX];
    ck_assert_str_eq(root, realpath(in_dir("root"), whole));
}

static const char *const inside[] = {
    "root/runs",      "root/runs/a/b/c", "root/new",        "link/new",
    "root/runs/../x", "root/in/a",       "root//runs/./a/",
};
static const char *const outside[] = {
    "x",           "rootless",        "rootless/a",   "root/../x",      "root/runs/../../x",
    "root/out/a",  "root/out",        "root/nowhere", "root/nowhere/a", "root/new/../../x",
    "root/new/..", "root/in/../../x",
};

LOOP_TEST(what_is_below_may_be_written, 0, sizeof inside / sizeof *inside)
{
    ck_assert_msg(sl_root_check(root, "output", in_dir(inside[_i])) == SL_OK, "%s: %s", inside[_i],
                  sl_error_message());
}

LOOP_TEST(what_is_not_may_not, 0, sizeof outside / sizeof *outside)
{
    ck_assert_msg(sl_root_check(root, "output", in_dir(outside[_i])) < 0, "%s", outside[_i]);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "output: "));
}

TEST(the_message_names_the_root)
{
    ck_assert_int_eq(sl_root_check(root, "--report", "/etc/x.json"), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "--report: found '/etc/x.json'"));
    ck_assert_ptr_nonnull(strstr(sl_error_message(), root));
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "--output-root"));
    ck_assert_int_eq(sl_root_check(root, "output", "relative"), SL_EINVAL);
    ck_assert_int_eq(sl_root_check("/", "output", "/etc/x"), SL_OK); // said by whoever runs it
}

TEST(without_one_it_is_where_the_daemon_starts)
{
    char found[PATH_MAX];
    ck_assert_int_eq(chdir(in_dir("link/runs")), 0);
    ck_assert_int_eq(sl_root_find(NULL, found, sizeof found), SL_OK);
    ck_assert_int_eq(strncmp(found, root, strlen(root)), 0);
    ck_assert_str_eq(found + strlen(root), "/runs");
    ck_assert_int_eq(sl_root_find(in_dir("none"), found, sizeof found), SL_EACCESS);
    ck_assert_int_eq(chdir("/"), 0); // as a service manager does
    ck_assert_int_eq(sl_root_find(NULL, found, sizeof found), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "--output-root DIR"));
    ck_assert_int_eq(sl_root_find("/", found, sizeof found), SL_OK);
}

RUN_TESTS(.setup = begin, .teardown = dir_end)
