// Which run a word means when no job of that name is known any more.
#include "cli/run_name.h"
#include "common/base/error.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

static char found[SL_RUN_NAME_BYTES];

static void make_run(const char *path, const char *job)
{
    char name[512], text[256];
    ck_assert_int_eq(mkdir(in_dir(path), 0700), 0);
    snprintf(name, sizeof name, "%s/config.json", path);
    snprintf(text, sizeof text, "{\"name\": \"%s\"}", job);
    write_text(name, text);
}

static void begin(void)
{
    dir_begin();
    ck_assert_int_eq(chdir(dir), 0);
    ck_assert_int_eq(mkdir("runs", 0700), 0);
}

TEST(a_directory_is_meant_by_itself)
{
    make_run("mine", "other");
    make_run("runs/mine", "mine");
    ck_assert_int_eq(sl_run_name_find("mine", found), SL_OK);
    ck_assert_str_eq(found, "mine");
    ck_assert_int_eq(sl_run_name_find("runs/mine", found), SL_OK);
    ck_assert_str_eq(found, "runs/mine");
}

TEST(names_of_directories_and_of_jobs_are_looked_for)
{
    make_run("runs/first", "sage");
    make_run("here", "gat");
    write_text("runs/report.txt", "");
    ck_assert_int_eq(sl_run_name_find("first", found), SL_OK);
    ck_assert_str_eq(found, "runs/first");
    ck_assert_int_eq(sl_run_name_find("sage", found), SL_OK);
    ck_assert_str_eq(found, "runs/first");
    ck_assert_int_eq(sl_run_name_find("gat", found), SL_OK);
    ck_assert_str_eq(found, "here");
    ck_assert_int_eq(sl_run_name_find("gcn", found), SL_ENOENT);
    ck_assert_int_eq(sl_run_name_find("", found), SL_ENOENT);
}

TEST(of_several_none_is_guessed)
{
    make_run("runs/a", "sage");
    make_run("runs/b", "sage");
    make_run("runs/sage2", "gat");
    ck_assert_int_eq(sl_run_name_find("sage", found), SL_EINVAL);
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "'runs/a'"));
    ck_assert_ptr_nonnull(strstr(sl_error_message(), "'runs/b'"));
    ck_assert_int_eq(sl_run_name_find("sage2", found), SL_OK);
}

TEST(a_run_goes_on_where_its_output_counts_from)
{
    make_run("runs/a", "sage");
    write_text("runs/a/config.json", "{\"name\": \"sage\", \"output\": \"runs/a\"}");
    ck_assert(sl_run_name_is_output("runs/a"));
    ck_assert(sl_run_name_is_output(in_dir("runs/a")));
    ck_assert_int_eq(chdir("runs"), 0);
    ck_assert(!sl_run_name_is_output("a"));
    ck_assert(!sl_run_name_is_output("nothing"));
}

TEST(nothing_is_looked_for_deeper_nor_without_end)
{
    char name[64];
    ck_assert_int_eq(mkdir("runs/more", 0700), 0);
    make_run("runs/more/deep", "deep");
    ck_assert_int_eq(sl_run_name_find("deep", found), SL_ENOENT);
    for (int i = 0; i < SL_RUN_NAME_ENTRIES; i++) {
        snprintf(name, sizeof name, "runs/many%d", i);
        make_run(name, "many");
    }
    ck_assert_int_eq(sl_run_name_find("many", found), SL_EINVAL);
    unsigned n = 0;
    ck_assert_int_eq(sscanf(sl_error_message(), "job 'many': %u runs", &n), 1);
    ck_assert_uint_lt(n, SL_RUN_NAME_ENTRIES); // "." and ".." count, too
}

RUN_TESTS(.setup = begin, .begin = scratch_begin, .end = scratch_end, .timeout_s = 60)
