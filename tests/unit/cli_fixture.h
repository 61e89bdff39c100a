// cli_fixture.h - running commands of `sluice` inside a test and reading what they made.
#ifndef SL_TESTS_UNIT_CLI_FIXTURE_H
#define SL_TESTS_UNIT_CLI_FIXTURE_H

#include <signal.h>
#include <stdbool.h>

#include "cli/dispatch.h"
#include "tests/unit/test_data_fixture.h"

enum { FIXTURE_MAX_WORDS = 40 };

// Runs a command on words[0 .. n); NULL words are left out.
static inline int run_words(const struct sl_command *command, size_t n, const char *const *words)
{
    char *argv[FIXTURE_MAX_WORDS + 1];
    int argc = 0;
    for (size_t i = 0; i < n && argc < FIXTURE_MAX_WORDS; i++)
        if (words[i])
            argv[argc++] = (char *)words[i];
    argv[argc] = NULL;
    return sl_dispatch_command(command, argc, argv);
}

#define RUN(command, ...)                                                                          \
    run_words(&(command), sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                  \
              (const char *[]){__VA_ARGS__})

// What the test prints on standard output from here on goes to a file of its directory.
static inline void capture_begin(void)
{
    fflush(stdout);
    ck_assert_ptr_nonnull(freopen(in_dir("captured"), "w", stdout));
}

// Everything printed since; owned by the test, which ends soon.
static inline char *capture_end(void)
{
    fflush(stdout);
    FILE *f = fopen(in_dir("captured"), "r");
    ck_assert_ptr_nonnull(f);
    char *text = calloc(1, 1 << 20);
    ck_assert_ptr_nonnull(text);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static inline void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        ck_abort_msg("wanted \"%s\" in:\n%s", part, text);
}

// Whether two files of the test's directory hold the same bytes.
static inline bool same_file(const char *a, const char *b)
{
    FILE *f = fopen(in_dir(a), "rb"), *g = fopen(in_dir(b), "rb");
    bool same = f && g;
    char x[4096], y[4096];
    for (size_t n = 1; same && n > 0;) {
        n = fread(x, 1, sizeof x, f);
        same = fread(y, 1, sizeof y, g) == n && memcmp(x, y, n) == 0;
    }
    if (f)
        fclose(f);
    if (g)
        fclose(g);
    return same;
}

// Entries of the test's directory whose name begins with a dot: what a staging area left behind.
static inline int count_hidden(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

#endif
