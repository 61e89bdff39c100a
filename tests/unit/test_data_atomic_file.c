// Files that appear whole or not at all.
#include "common/data/atomic_file.h"

#include <fcntl.h>
#include <sys/wait.h>

#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

static void assert_contents(const char *name, const char *want)
{
    char text[256] = "";
    FILE *f = fopen(in_dir(name), "rb");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    ck_assert_str_eq(text, want);
}

TEST(write_creates_and_replaces)
{
    must(sl_atomic_file_write(in_dir("a.json"), "first, longer", 13));
    assert_contents("a.json", "first, longer");
    must(sl_atomic_file_write(in_dir("a.json"), "second", 6));
    assert_contents("a.json", "second");
    must(sl_atomic_file_write(in_dir("empty"), NULL, 0));
    assert_contents("empty", "");
    ck_assert_int_eq(count_entries(), 2);
}

TEST(relative_names_work)
{
    ck_assert_int_eq(chdir(dir), 0);
    must(sl_atomic_file_write("plain", "x", 1));
    must(sl_atomic_file_write("./dotted", "y", 1));
    assert_contents("plain", "x");
    assert_contents("dotted", "y");
    ck_assert_int_eq(count_entries(), 2);
}

TEST(permissions_follow_the_umask)
{
    struct stat st;
    umask(027);
    must(sl_atomic_file_write(in_dir("a"), "x", 1));
    ck_assert_int_eq(stat(in_dir("a"), &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0640);
}

TEST(abort_removes_and_keeps_the_old)
{
    struct sl_atomic_file f;
    must(sl_atomic_file_write(in_dir("a"), "old", 3));
    must(sl_atomic_file_open(in_dir("a"), &f));
    must(sl_atomic_file_append(&f, "new", 3));
    assert_contents("a", "old");
    sl_atomic_file_abort(&f);
    sl_atomic_file_abort(&f); // twice is once
    assert_contents("a", "old");
    ck_assert_int_eq(count_entries(), 1);
}

TEST(two_writers_of_one_name_do_not_meet)
{
    struct sl_atomic_file f, g;
    must(sl_atomic_file_open(in_dir("a"), &f));
    must(sl_atomic_file_open(in_dir("a"), &g));
    must(sl_atomic_file_append(&f, "ffff", 4));
    must(sl_atomic_file_append(&g, "gg", 2));
    must(sl_atomic_file_commit(&g));
    assert_contents("a", "gg");
    must(sl_atomic_file_commit(&f));
    assert_contents("a", "ffff");
    sl_atomic_file_abort(&f);
    ck_assert_int_eq(count_entries(), 1);
}

TEST(a_stale_file_of_the_same_process_id_is_stepped_over)
{
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, ".a.%ld-%d.tmp", (long)getpid(), i);
        write_text(name, "stale");
    }
    must(sl_atomic_file_write(in_dir("a"), "x", 1));
    assert_contents("a", "x");
    ck_assert_int_eq(count_entries(), 4);
}

TEST(where_it_can_not_be_written_is_said)
{
    ck_assert_int_eq(sl_atomic_file_write(in_dir("no/such/a"), "x", 1), SL_ENOENT);
    assert_message_has("no/such/a");
    ck_assert_int_eq(sl_atomic_file_write(in_dir(""), "x", 1), SL_EINVAL);
    ck_assert_int_eq(mkdir(in_dir("sub"), 0700), 0);
    ck_assert_int_eq(sl_atomic_file_write(in_dir("sub"), "x", 1), SL_EEXIST);
    assert_message_has("sub");
    ck_assert_int_eq(count_entries(), 1); // the directory, no temporary file
}

TEST(no_permission_is_said)
{
    // Root may write anywhere, so the rest of this test's process is somebody else.
    if (geteuid() == 0) {
        ck_assert_int_eq(chmod(scratch, 0755), 0);
        ck_assert_int_eq(chmod(dir, 0755), 0);
        ck_assert_int_eq(seteuid(65534), 0);
    } else {
        ck_assert_int_eq(chmod(dir, 0555), 0);
    }
    ck_assert_int_eq(sl_atomic_file_write(in_dir("a"), "x", 1), SL_EACCESS);
    assert_message_has("Permission denied");
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
    else
        ck_assert_int_eq(chmod(dir, 0700), 0);
}

TEST(a_killed_writer_leaves_the_old_file)
{
    must(sl_atomic_file_write(in_dir("a"), "old", 3));
    pid_t pid = fork();
    if (pid == 0) {
        struct sl_atomic_file f;
        if (sl_atomic_file_open(in_dir("a"), &f) == SL_OK &&
            sl_atomic_file_append(&f, "half", 4) == SL_OK)
            raise(SIGKILL);
        _exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_contents("a", "old");
    // What it wrote had no name, where the file system has such files.
    const int unnamed = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    ck_assert_int_eq(count_entries(), unnamed >= 0 ? 1 : 2);
    close(unnamed);
    must(sl_atomic_file_write(in_dir("a"), "new", 3));
    assert_contents("a", "new");
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 20)
