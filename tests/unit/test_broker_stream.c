// Standard error of a worker: lines, levels, what is kept before there is a file and for the end.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include "broker/log/stream.h"

static struct sl_stream stream;
static struct sl_writer *writer;
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
    must(sl_writer_start(&writer));
    sl_stream_init(&stream, "sampler-0", on_line, NULL);
}

static void teardown(void)
{
    sl_stream_fini(&stream);
    sl_writer_close(writer, 60000);
}

static void feed(const char *text)
{
    sl_stream_feed(&stream, text, strlen(text));
}

static char *log_file(void)
{
    static char text[1 << 20];
    ck_assert_uint_eq(sl_writer_flush(writer, 60000), 0);
    FILE *f = fopen(in_dir("sampler-0.log"), "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

TEST(lines_come_out_whole_however_they_come_in)
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

TEST(levels_are_read_from_log_lines_only)
{
    feed("00:01:02.003 E trainer 1: broken\n23:59:59.999 D x: y\n"
         "00:01:02.003 X trainer 1: no level\n00:01:02.003\n==1==ERROR: sanitizer\n");
    ck_assert_str_eq(seen, "0:trainer 1: broken\n3:x: y\n"
                           "-1:00:01:02.003 X trainer 1: no level\n-1:00:01:02.003\n"
                           "-1:==1==ERROR: sanitizer\n");
}

TEST(early_lines_go_to_the_file_first)
{
    feed("early 1\nearly 2\n");
    must(sl_stream_open(&stream, writer, dir));
    feed("late\n");
    ck_assert_str_eq(log_file(), "early 1\nearly 2\nlate\n");
}

TEST(of_too_many_early_lines_the_newest_are_kept)
{
    char line[64];
    for (int i = 0; i < 20000; i++) {
        snprintf(line, sizeof line, "line %d\n", i);
        feed(line);
    }
    must(sl_stream_open(&stream, writer, dir));
    const char *text = log_file();
    ck_assert_msg(strstr(text, "earlier lines were dropped") != NULL, "%.200s", text);
    ck_assert_msg(strstr(text, "\nline 19999\n") != NULL, "the newest is missing");
    ck_assert_uint_le(strlen(text), SL_STREAM_HELD_BYTES + 200);
    const char *first = strchr(text, '\n') + 1;
    ck_assert_msg(strncmp(first, "line ", 5) == 0, "cut in the middle of a line: %.30s", first);
}

TEST(a_line_without_end_is_cut_and_nothing_overruns)
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

TEST(zero_bytes_do_not_hide_the_rest)
{
    sl_stream_feed(&stream, "a\0b\n", 4);
    ck_assert_str_eq(seen, "-1:a?b\n");
}

TEST(the_last_lines_are_joined)
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

RUN_TESTS(.setup = setup, .teardown = teardown, .begin = scratch_begin, .end = scratch_end,
          .timeout_s = 60)
