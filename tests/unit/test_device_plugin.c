// Finding and opening the plug-in: where it is looked for, and files that are none or of another
// build. The plug-ins here are false ones (fake_plugin.c); test_device_cuda.c opens a true one.
#include "common/device/plugin.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/version.h"
#include "tests/unit/suite.h"

static char folder[PATH_MAX / 2]; // of this program
static char box[] = "/tmp/sluice-plugin-XXXXXX";

static void find_folder(void)
{
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    ck_assert_int_gt(n, 0);
    folder[n] = '\0';
    *strrchr(folder, '/') = '\0';
    ck_assert_ptr_nonnull(mkdtemp(box));
    unsetenv("FAKE_PLUGIN");
    unsetenv("SLUICE_CUDA_PLUGIN");
}

static void remove_box(void)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/plugin.so", box);
    unlink(name);
    rmdir(box);
}

static void name_fake(const char *wrong)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/../../lib/fake_plugin.so", folder);
    setenv("SLUICE_CUDA_PLUGIN", path, 1);
    setenv("FAKE_PLUGIN", wrong, 1);
}

// Opening fails with this code, and the message has all of the words (ended by NULL).
static void expect(int code, const char *const *words)
{
    const struct sl_plugin *plugin = (const struct sl_plugin *)box;
    ck_assert_int_eq(sl_plugin_open(&plugin), code);
    ck_assert_ptr_null(plugin);
    ck_assert_ptr_null(sl_plugin_opened());
    ck_assert_str_eq(sl_plugin_path(), "");
    for (; *words; words++)
        ck_assert_msg(strstr(sl_error_message(), *words), "'%s' is not in '%s'", *words,
                      sl_error_message());
}

TEST(a_named_file_that_is_not_there_is_named)
{
    setenv("SLUICE_CUDA_PLUGIN", "/nowhere/plugin.so", 1);
    expect(SL_ENOENT,
           (const char *[]){"SLUICE_CUDA_PLUGIN", "/nowhere/plugin.so", "No such file", NULL});
}

// Only the file that is named is looked at: a library of that name elsewhere does not count.
TEST(a_name_without_a_folder_is_of_this_folder)
{
    setenv("SLUICE_CUDA_PLUGIN", "libm.so.6", 1);
    expect(SL_ENOENT, (const char *[]){"names libm.so.6", "No such file", NULL});
}

TEST(a_file_that_is_no_library_is_said_to_be_none)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/plugin.so", box);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("this is a text\n", file);
    fclose(file);
    setenv("SLUICE_CUDA_PLUGIN", path, 1);
    expect(SL_EDEVICE, (const char *[]){"cannot be loaded", path, NULL});
}

TEST(a_library_that_is_no_plugin_is_said_to_be_none)
{
    // The C library that this program runs with, wherever the system has it.
    char line[PATH_MAX + 128], *path = NULL;
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    while (!path && fgets(line, sizeof line, maps))
        if (strstr(line, "/libm.so") || strstr(line, "/libm-"))
            path = strchr(line, '/');
    fclose(maps);
    ck_assert_ptr_nonnull(path);
    path[strcspn(path, "\n")] = '\0';
    setenv("SLUICE_CUDA_PLUGIN", path, 1);
    expect(SL_EPROTO, (const char *[]){path, "is no CUDA plug-in", "sluice_plugin", NULL});
}

static const struct {
    const char *wrong;
    const char *words[4];
} builds[] = {
    {"refuses", {"fake_plugin.so", "another build", SL_VERSION}},
    {"abi", {"fake_plugin.so", "its ABI is 1000", "build both together"}},
    {"bytes", {"fake_plugin.so", "another build", "8 and 0 bytes"}},
    {"device", {"fake_plugin.so", "another build", "and 16 bytes"}},
    {"version", {"fake_plugin.so", "version 0.0.1", "version " SL_VERSION}},
};

LOOP_TEST(a_plugin_of_another_build_is_refused, 0, SL_COUNT_OF(builds))
{
    name_fake(builds[_i].wrong);
    expect(SL_EPROTO, builds[_i].words);
}

TEST(a_plugin_is_opened_once_and_stays)
{
    const struct sl_plugin *first = NULL, *second = NULL;
    name_fake("");
    ck_assert_msg(sl_plugin_open(&first) == SL_OK, "%s", sl_error_message());
    ck_assert_ptr_eq(sl_plugin_opened(), first);
    ck_assert_ptr_nonnull(strstr(sl_plugin_path(), "/lib/fake_plugin.so"));
    ck_assert_int_eq(sl_plugin_path()[0], '/');
    setenv("SLUICE_CUDA_PLUGIN", "/nowhere/plugin.so", 1);
    ck_assert_int_eq(sl_plugin_open(&second), SL_OK);
    ck_assert_ptr_eq(first, second);
}

// A failure is not kept: the file may be put in order while the program lives.
TEST(a_plugin_is_looked_for_again_after_a_failure)
{
    const struct sl_plugin *plugin = NULL;
    name_fake("version");
    ck_assert_int_eq(sl_plugin_open(&plugin), SL_EPROTO);
    name_fake("");
    ck_assert_int_eq(sl_plugin_open(&plugin), SL_OK);
}

TEST(what_the_plugin_says_is_the_programs_message)
{
    const struct sl_plugin *plugin = NULL;
    name_fake("speaks");
    ck_assert_int_eq(sl_plugin_open(&plugin), SL_OK);
    ck_assert_str_eq(sl_error_message(), "said by the plug-in");
}

static void *open_it(void *out)
{
    if (sl_plugin_open(out) != SL_OK)
        *(const struct sl_plugin **)out = NULL;
    return NULL;
}

TEST(threads_that_open_it_at_once_get_the_same)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    const struct sl_plugin *found[THREADS];
    name_fake("");
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, open_it, &found[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        ck_assert_ptr_eq(found[i], sl_plugin_opened());
    ck_assert_ptr_nonnull(found[0]);
}

RUN_TESTS(.setup = find_folder, .teardown = remove_box, .timeout_s = 20)
