// Standard error of a worker: lines, levels, what is kept before there is a file and for the end.
#include "tests/unit/test_data_fixture.h"

#include "broker/report.h"
#include "broker/stream.h"

static struct sl_stream stream;
static char seen[8192];

static void on_line(void *ctx, int level, const char *text)
{
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%d:%s\n", level, text);
}

static void setup(void)
{
    dir_begin();
    seen[0] = '\0';
    sl_stream_init(&stream, "sampler-0", on_line, NULL);
}

static void feed(const char *text)
{
    sl_stream_feed(&stream, text, strlen(text));
}

static char *log_file(void)
{
    static char text[1 << 20];
    FILE *f = fopen(in_dir("sampler-0.log"), "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

START_TEST(lines_come_out_whole_however_they_come_in)
{
    feed("on");
    feed("e\ntw");
    ck_assert_str_eq(seen, "-1:one\n");
    feed("o\n\nlast");
    ck_assert_str_eq(seen, "-1:one\n-1:two\n-1:\n");
    sl_stream_flush(&stream);
    sl_stream_flush(&stream);
    ck_assert_str_eq(seen, "-1:one\n-1:two\n-1:\n-1:last\n");
}
END_TEST

START_TEST(levels_are_read_from_log_lines_only)
{
    feed("00:01:02.003 E trainer 1: broken\n23:59:59.999 D x: y\n"
         "00:01:02.003 X trainer 1: no level\n00:01:02.003\n==1==ERROR: sanitizer\n");
    ck_assert_str_eq(seen, "0:trainer 1: broken\n3:x: y\n"
                           "-1:00:01:02.003 X trainer 1: no level\n-1:00:01:02.003\n"
                           "-1:==1==ERROR: sanitizer\n");
}
END_TEST

START_TEST(early_lines_go_to_the_file_first)
{
    feed("early 1\nearly 2\n");
    must(sl_stream_open(&stream, dir));
    feed("late\n");
    ck_assert_str_eq(log_file(), "early 1\nearly 2\nlate\n");
}
END_TEST

START_TEST(of_too_many_early_lines_the_newest_are_kept)
{
    char line[64];
    for (int i = 0; i < 20000; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        feed(line);
    }
    must(sl_stream_open(&stream, dir));
    const char *text = log_file();
    ck_assert_msg(strstr(text, "earlier lines were dropped") != NULL, "%.200s", text);
    ck_assert_msg(strstr(text, "\nline 19999\n") != NULL, "the newest is missing");
    ck_assert_uint_le(strlen(text), SL_STREAM_HELD_BYTES + 200);
    const char *first = strchr(text, '\n') + 1;
    ck_assert_msg(strncmp(first, "line ", 5) == 0, "cut in the middle of a line: %.30s", first);
}
END_TEST

START_TEST(a_line_without_end_is_cut_and_nothing_overruns)
{
    char *text = malloc(10001);
    memset(text, 'x', 10000);
    text[10000] = '\0';
    feed(text);
    sl_stream_flush(&stream);
    free(text);
    size_t x = 0;
    for (const char *p = seen; *p; p++)
        x += *p == 'x';
    ck_assert_uint_ge(x, 8000 - 20); // as much as the test's own buffer takes
    ck_assert_uint_lt(stream.line_bytes, SL_STREAM_LINE_BYTES);
}
END_TEST

START_TEST(zero_bytes_do_not_hide_the_rest)
{
    sl_stream_feed(&stream, "a\0b\n", 4);
    ck_assert_str_eq(seen, "-1:a?b\n");
}
END_TEST

START_TEST(the_last_lines_are_joined)
{
    char buf[256];
    ck_assert_str_eq(sl_stream_last(&stream, buf, sizeof buf), "");
    for (int i = 0; i < 20; i++) {
        snprintf(buf, sizeof buf, "l%d\n", i);
        feed(buf);
    }
    ck_assert_str_eq(sl_stream_last(&stream, buf, sizeof buf),
                     "l12 | l13 | l14 | l15 | l16 | l17 | l18 | l19");
    char small[10];
    ck_assert_uint_lt(strlen(sl_stream_last(&stream, small, sizeof small)), sizeof small);
    sl_stream_clear_last(&stream);
    ck_assert_str_eq(sl_stream_last(&stream, buf, sizeof buf), "");
}
END_TEST

// --- report files ---

START_TEST(a_report_replaces_a_file_and_not_a_link_or_a_device)
{
    char target[1100], link[1100], text[64];
    snprintf(target, sizeof target, "%s", in_dir("target.json"));
    snprintf(link, sizeof link, "%s", in_dir("link.json"));
    must(sl_report_write(target, "{\"old\": 1}"));
    ck_assert_int_eq(symlink("target.json", link), 0);
    must(sl_report_write(link, "{\"new\": 2}"));
    struct stat st;
    ck_assert_int_eq(lstat(link, &st), 0);
    ck_assert_msg(S_ISLNK(st.st_mode), "the link was replaced");
    FILE *f = fopen(target, "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
    fclose(f);
    ck_assert_str_eq(text, "{\"new\": 2}\n");
    must(sl_report_write("/dev/null", "{}"));
    ck_assert_int_eq(stat("/dev/null", &st), 0);
    ck_assert_msg(S_ISCHR(st.st_mode), "/dev/null was replaced");
    ck_assert_int_eq(count_entries(), 2);
}
END_TEST

START_TEST(a_report_without_results_has_all_its_keys)
{
    struct sl_report r;
    struct sl_config config = {.n_devices = 1, .name = "none"};
    config.allocation.samplers = config.allocation.trainers = 1;
    const struct sl_report_outcome outcome = {
        .status = "stopped", .message = "why", .config_json = "{}", .reason = "because"};
    must(sl_report_init(&r));
    char *text = sl_report_finish(&r, &config, &outcome);
    cJSON *json = cJSON_Parse(text);
    ck_assert_ptr_nonnull(json);
    static const char *const keys[] = {
        "schema",       "job",           "status",        "message",
        "config",       "devices",       "allocations",   "epochs",
        "batches",      "restarts",      "test_accuracy", "params_sha256",
        "wall_seconds", "start_seconds", "peak_memory",   "best_epoch"};
    for (size_t i = 0; i < SL_COUNT_OF(keys); i++)
        ck_assert_msg(cJSON_HasObjectItem(json, keys[i]), "no '%s'", keys[i]);
    ck_assert(!cJSON_HasObjectItem(json, "samples_digest"));
    ck_assert(cJSON_IsNull(cJSON_GetObjectItem(json, "test_accuracy")));
    cJSON_Delete(json);
    free(text);
    sl_report_fini(&r);
}
END_TEST

START_TEST(a_loss_that_is_no_number_is_null)
{
    struct sl_report r;
    struct sl_epoch_figures f = {.loss = 0.0 / 0.0};
    must(sl_report_init(&r));
    char *line = sl_report_add_epoch(&r, &f);
    ck_assert_msg(strstr(line, "\"loss\":null") != NULL, "%s", line);
    ck_assert_msg(strchr(line, '\n') == NULL, "more than one line");
    free(line);
    sl_report_fini(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broker stream");
    TCase *c = tcase_create("stream");
    tcase_add_unchecked_fixture(c, scratch_begin, scratch_end);
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_set_timeout(c, 10);
    tcase_add_test(c, lines_come_out_whole_however_they_come_in);
    tcase_add_test(c, levels_are_read_from_log_lines_only);
    tcase_add_test(c, early_lines_go_to_the_file_first);
    tcase_add_test(c, of_too_many_early_lines_the_newest_are_kept);
    tcase_add_test(c, a_line_without_end_is_cut_and_nothing_overruns);
    tcase_add_test(c, zero_bytes_do_not_hide_the_rest);
    tcase_add_test(c, the_last_lines_are_joined);
    tcase_add_test(c, a_report_replaces_a_file_and_not_a_link_or_a_device);
    tcase_add_test(c, a_report_without_results_has_all_its_keys);
    tcase_add_test(c, a_loss_that_is_no_number_is_null);
    suite_add_tcase(s, c);
    return run_suite(s);
}
