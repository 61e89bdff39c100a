/*
 * Job files and overrides damaged at random: whatever comes, a job is either accepted (and then its
 * resolved text parses back to the same) or refused with one line that names the file. Seeded, so a
 * failure repeats; leaks are counted by malloc's own books and, in a sanitizer build, found there.
 */
#include "config/config.h"

#include <check.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/philox.h"

enum { ROUNDS = 30000, SET_ROUNDS = 5000, TEXT_BYTES = 8192 };

static const char job[] =
    "{\"name\": \"a job\", \"dataset\": \"data/products\",\n"
    " \"model\": {\"kind\": \"graphsage\", \"layers\": 2, \"hidden\": 64, \"dropout\": 0.25},\n"
    " \"sampler\": {\"kind\": \"walk\", \"fanout\": [10, -1], \"batch_size\": 1000,\n"
    "             \"paths\": 5, \"length\": 4, \"restart\": 0.3},\n"
    " \"optimizer\": {\"kind\": \"sgd\", \"lr\": 0.1, \"weight_decay\": 5e-4, \"momentum\": 0.9},\n"
    " \"updates\": {\"mode\": \"ordered\", \"batches_per_update\": 4, \"exchange\": \"board\"},\n"
    " \"devices\": [{\"kind\": \"cpu\", \"cores\": \"0\", \"memory\": \"1.5MiB\"},\n"
    "             {\"kind\": \"cpu\", \"cores\": 0}, {\"kind\": \"cpu\", \"cores\": 0}],\n"
    " \"cache\": {\"policy\": \"presc\", \"presample_epochs\": 2, \"ratio\": 0.25,\n"
    "           \"report_optimal\": true},\n"
    " \"allocation\": {\"samplers\": \"auto\", \"trainers\": 2, \"switching\": false},\n"
    " \"schedule\": [{\"epoch\": 3, \"samplers\": 1, \"trainers\": 2},\n"
    "              {\"epoch\": 4, \"batch\": 7, \"samplers\": 2, \"trainers\": 1}],\n"
    " \"throttle\": {\"sample\": 0.5, \"standby\": 1},\n"
    " \"arena\": {\"memory\": 1000000}, \"epochs\": 12, \"seed\": 123, \"precision\": \"bf16\",\n"
    " \"digest\": true, \"evaluate\": {\"every\": 0, \"fanout\": \"full\"},\n"
    " \"output\": \"somewhere \\u00e4 \\\"else\\\"\"}\n";

static const char *const pieces[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "1e999",
    "-1",
    "0",
    "-0",
    "1e-400",
    "99999999999",
    "0.5",
    "null",
    "true",
    "false",
    "\"\"",
    "\xff",
    "\xc3",
    "\n",
    "\"model\"",
    "\"epochs\"",
    "\"devices\"",
    "\"fanout\"",
    "\"full\"",
    "\"cores\"",
    "\"0-3\"",
    "{}",
    "[]",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    "\"kind\": \"cpu\",",
    "\"9999TiB\"",
    " ",
    "/*",
    "'",
    "18446744073709551616",
    "2",
    "8",
    "[1,2,3,4,5,6,7,8,9]",
    "\"auto\"",
    "\"async\"",
    "\"none\"",
    "\"schedule\"",
    "{\"epoch\": 5, \"samplers\": 1, \"trainers\": 1},",
};

struct draws {
    uint32_t round, n;
};

// Uniform enough below n.
static uint32_t draw(struct draws *d, uint32_t n)
{
    return n ? sl_philox(4711, 0, d->n++, d->round, 0).w[0] % n : 0;
}

// One random change of text[0..n), which has room for TEXT_BYTES; returns the new length.
static size_t mutate(struct draws *d, char *text, size_t n)
{
    size_t at = draw(d, (uint32_t)n + 1), length = 1 + draw(d, 20);
    const char *piece = pieces[draw(d, sizeof pieces / sizeof pieces[0])];
    size_t m = strlen(piece);
    switch (draw(d, 6)) {
    case 0: // another byte
        if (at < n)
            text[at] = (char)draw(d, 256);
        return n;
    case 1: // something is lost
        if (at + length > n)
            length = n - at;
        memmove(text + at, text + at + length, n - at - length);
        return n - length;
    case 2: // something stands twice
        if (at + length > n)
            length = n - at;
        if (n + length > TEXT_BYTES)
            return n;
        memmove(text + at + length, text + at, n - at);
        return n + length;
    case 3: // something comes between
        if (n + m > TEXT_BYTES)
            return n;
        memmove(text + at + m, text + at, n - at);
        memcpy(text + at, piece, m);
        return n + m;
    case 4: // something stands in another's place: a number's, often
        for (size_t i = 0; i < n && !(text[at % n] >= '0' && text[at % n] <= '9'); i++)
            at++;
        at %= n ? n : 1;
        if (n == 0 || n - 1 + m > TEXT_BYTES)
            return n;
        memmove(text + at + m, text + at + 1, n - at - 1);
        memcpy(text + at, piece, m);
        return n - 1 + m;
    default: // the end is missing
        return draw(d, 8) ? n : at;
    }
}

static void check_result(int rc, const char *origin, const struct sl_config *config)
{
    static struct sl_config again;
    if (rc < 0) {
        const char *message = sl_error_message();
        ck_assert_msg(strncmp(message, origin, strlen(origin)) == 0, "no origin: %s", message);
        ck_assert_msg(!strchr(message, '\n'), "more than a line: %s", message);
        return;
    }
    char *text = sl_config_to_json(config);
    ck_assert_ptr_nonnull(text);
    rc = sl_config_parse(text, strlen(text), "resolved", &again);
    ck_assert_msg(rc == SL_OK, "%s\n%s", sl_error_message(), text);
    char *twice = sl_config_to_json(&again);
    ck_assert_str_eq(text, twice);
    free(text);
    free(twice);
}

START_TEST(damaged_jobs_are_refused_or_right)
{
    static struct sl_config config;
    char text[TEXT_BYTES];
    uint32_t accepted = 0;
    size_t in_use = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct draws d = {.round = round};
        size_t n = sizeof job - 1;
        memcpy(text, job, n);
        for (uint32_t i = 1 + draw(&d, 3); i > 0; i--)
            n = mutate(&d, text, n);
        char *exact = malloc(n ? n : 1); // a sanitizer sees a read beyond it
        memcpy(exact, text, n);
        int rc = sl_config_parse(exact, n, "damaged.json", &config);
        free(exact);
        check_result(rc, "damaged.json", &config);
        accepted += rc == SL_OK;
        if (round == ROUNDS / 2)
            in_use = mallinfo2().uordblks;
    }
    // Some must get through, or the mutations only ever reach the first check.
    ck_assert_uint_gt(accepted, ROUNDS / 50);
    ck_assert_uint_lt(accepted, ROUNDS);
    ck_assert_uint_le(mallinfo2().uordblks, in_use + 4096);
}
END_TEST

START_TEST(damaged_overrides_are_refused_or_right)
{
    static const char *const sets[] = {
        "model.layers=2",
        "sampler.fanout=[10, 5]",
        "devices[0].memory=64MiB",
        "dataset=data/x",
        "model={\"kind\": \"gcn\", \"layers\": 2}",
        "optimizer.lr=0.5",
        "devices=[{\"kind\": \"cpu\", \"cores\": \"0\"}]",
        "evaluate.fanout=[1, 2]",
        "schedule[1].batch=8",
        "schedule=[{\"epoch\": 1, \"samplers\": 1, \"trainers\": 1}]",
        "cache.ratio=auto",
        "devices=auto",
        "devices=cpu",
        "devices=[{\"kind\": \"cuda\", \"index\": 1, \"memory\": \"1GiB\"}]",
        "devices[0].index=1",
    };
    static struct sl_config config;
    char path[64], text[TEXT_BYTES + 1];
    const char *tmp = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.40s/sl_fuzz_XXXXXX", tmp ? tmp : "/tmp");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, job, sizeof job - 1), sizeof job - 1);
    close(fd);
    uint32_t accepted = 0;
    for (uint32_t round = 0; round < SET_ROUNDS; round++) {
        struct draws d = {.round = ROUNDS + round};
        const char *set = sets[draw(&d, sizeof sets / sizeof sets[0])];
        size_t n = strlen(set);
        memcpy(text, set, n);
        for (uint32_t i = 1 + draw(&d, 2); i > 0; i--)
            n = mutate(&d, text, n);
        text[n] = '\0';
        struct sl_config_override override = {text};
        int rc = sl_config_load(path, &override, 1, &config);
        check_result(rc, rc < 0 && strncmp(sl_error_message(), "--set", 5) == 0 ? "--set" : path,
                     &config);
        accepted += rc == SL_OK;
    }
    unlink(path);
    ck_assert_uint_gt(accepted, SET_ROUNDS / 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config_fuzz");
    TCase *t = tcase_create("fuzz");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, damaged_jobs_are_refused_or_right);
    tcase_add_test(t, damaged_overrides_are_refused_or_right);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
