// Files that a job adds to: in order, whole records, never waited for, and what is lost is counted.
#include "tests/unit/suite.h"
#include "tests/unit/test_data_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "broker/log/writer.h"

enum { LONG_MS = 60000 };

static struct sl_writer *writer;

static void setup(void)
{
    dir_begin();
    must(sl_writer_start(&writer));
}

static void teardown(void)
{
    sl_writer_close(writer, LONG_MS);
}

static struct sl_writer_file *open_file(const char *name, enum sl_writer_kind kind)
{
    struct sl_writer_file *f;
    must(sl_writer_open(writer, in_dir(name), 0, kind, name, &f));
    return f;
}

static void flush(void)
{
    ck_assert_uint_eq(sl_writer_flush(writer, LONG_MS), 0);
}

static char *text_of(const char *name)
{
    static char text[1 << 20];
    FILE *f = fopen(in_dir(name), "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

static struct sl_writer_loss loss_of(const char *name)
{
    struct sl_writer_loss loss;
    for (uint32_t i = 0; sl_writer_lost(writer, i, &loss); i++)
        if (strcmp(loss.name, name) == 0)
            return loss;
    return (struct sl_writer_loss){0};
}

TEST(records_come_in_the_order_in_which_they_were_added)
{
    struct sl_writer_file *a = open_file("a", SL_WRITER_RECORDS);
    struct sl_writer_file *b = open_file("b", SL_WRITER_LOG);
    char line[32], wanted[1 << 16] = "";
    size_t n = 0;
    for (int i = 0; i < 3000; i++) {
        snprintf(line, sizeof line, "line %d", i);
        sl_writer_add_line(a, line);
        sl_writer_add(b, line, strlen(line));
        sl_writer_add(b, "\n", 1);
        n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s\n", line);
    }
    flush();
    ck_assert_str_eq(text_of("a"), wanted);
    ck_assert_str_eq(text_of("b"), wanted);
    struct sl_writer_loss loss;
    ck_assert(!sl_writer_poll(writer, &loss));
    ck_assert(!sl_writer_lost(writer, 0, &loss));
}

TEST(a_file_is_added_to)
{
    write_text("a", "before\n");
    sl_writer_add_line(open_file("a", SL_WRITER_RECORDS), "after");
    flush();
    ck_assert_str_eq(text_of("a"), "before\nafter\n");
    struct sl_writer_file *f;
    ck_assert_int_eq(sl_writer_open(writer, in_dir("a"), O_EXCL, SL_WRITER_LOG, "a", &f),
                     SL_EEXIST);
    ck_assert_ptr_null(f);
    sl_writer_add_line(f, "nowhere");
    ck_assert_int_lt(sl_writer_open(writer, in_dir("no/a"), 0, SL_WRITER_LOG, "a", &f), 0);
    assert_message_has("no/a");
}

TEST(closing_writes_what_was_added)
{
    sl_writer_add_line(open_file("a", SL_WRITER_RECORDS), "last");
    sl_writer_close(writer, LONG_MS);
    ck_assert_str_eq(text_of("a"), "last\n");
    writer = NULL;
}

// --- a file system that hangs: a pipe that nobody reads ---

// It has a reader who does not read, and is full: its writer hangs at once.
static int make_pipe(const char *name)
{
    static const char filler[4096];
    ck_assert_int_eq(mkfifo(in_dir(name), 0666), 0);
    int fd = open(in_dir(name), O_RDWR | O_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    while (write(fd, filler, sizeof filler) > 0)
        ;
    ck_assert_int_eq(errno, EAGAIN);
    return fd;
}

TEST(a_pipe_without_a_reader_is_an_error)
{
    struct sl_writer_file *f;
    ck_assert_int_eq(mkfifo(in_dir("pipe"), 0666), 0);
    ck_assert_int_eq(sl_writer_open(writer, in_dir("pipe"), 0, SL_WRITER_LOG, "pipe", &f), SL_EIO);
}

enum { RECORD_BYTES = 4096, FIT = SL_WRITER_BYTES_MAX / RECORD_BYTES };

// Twice what the queue takes: if adding waited the test would not come to its end.
static void overfill(struct sl_writer_file *f)
{
    char record[RECORD_BYTES];
    memset(record, 'x', sizeof record);
    record[sizeof record - 1] = '\n';
    for (int i = 0; i < 2 * FIT; i++)
        sl_writer_add(f, record, sizeof record);
}

TEST(nobody_waits_for_a_file_that_hangs_and_what_is_dropped_is_counted)
{
    int fd = make_pipe("pipe");
    struct sl_writer_file *pipe = open_file("pipe", SL_WRITER_LOG);
    struct sl_writer_file *other = open_file("other", SL_WRITER_LOG);
    overfill(pipe);
    struct sl_writer_loss loss, none;
    ck_assert(sl_writer_poll(writer, &loss));
    ck_assert_str_eq(loss.name, "pipe");
    ck_assert_int_eq(loss.err, 0);
    ck_assert_uint_eq(loss.n, FIT);
    ck_assert(!sl_writer_poll(writer, &none)); // told once
    // What another file gets while the queue is full is lost as well, and it says so afterwards.
    sl_writer_add_line(other, "one");
    sl_writer_add_line(other, "two");
    ck_assert_uint_eq(loss_of("other").n, 2);
    ck_assert_uint_eq(sl_writer_flush(writer, 1), FIT);
    // Somebody reads: all that was in the queue comes, and all after the gap.
    static char got[1 << 16];
    int lines = 0;
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
    while (lines < FIT) {
        ssize_t r = read(fd, got, sizeof got);
        ck_assert_int_gt(r, 0);
        for (ssize_t i = 0; i < r; i++)
            lines += got[i] == '\n';
    }
    flush();
    sl_writer_add_line(other, "again");
    flush();
    ck_assert_str_eq(text_of("other"),
                     "(2 lines are missing here: they could not be written)\nagain\n");
    close(fd);
}

TEST(closing_leaves_a_thread_that_hangs_behind)
{
    int fd = make_pipe("pipe");
    sl_writer_add_line(open_file("pipe", SL_WRITER_RECORDS), "line");
    ck_assert_uint_eq(sl_writer_flush(writer, 1), 1);
    sl_writer_close(writer, 1);
    writer = NULL;
    close(fd); // a broken pipe: the thread comes back, finds nobody there and ends
}

// --- a file system that is full ---

static void limit_files_to(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(half_a_record_is_cut_off_and_the_next_is_tried)
{
    struct sl_writer_file *f = open_file("a", SL_WRITER_RECORDS);
    sl_writer_add_line(f, "0123456789");
    flush();
    limit_files_to(16); // the next one ends in its middle
    sl_writer_add_line(f, "0123456789");
    sl_writer_add_line(f, "0123456789");
    sl_writer_add_line(f, "abc");
    flush();
    ck_assert_str_eq(text_of("a"), "0123456789\nabc\n");
    struct sl_writer_loss loss;
    ck_assert(sl_writer_poll(writer, &loss));
    ck_assert_uint_eq(loss.n, 2);
    ck_assert_int_eq(loss.err, EFBIG);
    limit_files_to(RLIM_INFINITY);
    sl_writer_add_line(f, "0123456789");
    flush();
    ck_assert_str_eq(text_of("a"), "0123456789\nabc\n0123456789\n");
    ck_assert(!sl_writer_poll(writer, &loss));
}

TEST(a_log_says_where_lines_are_missing)
{
    struct sl_writer_file *f = open_file("a", SL_WRITER_LOG);
    sl_writer_add_line(f, "first");
    flush();
    limit_files_to(8);
    for (int i = 0; i < 3; i++)
        sl_writer_add_line(f, "lost");
    flush();
    limit_files_to(RLIM_INFINITY);
    sl_writer_add_line(f, "last");
    flush();
    ck_assert_str_eq(text_of("a"),
                     "first\n(3 lines are missing here: they could not be written)\nlast\n");
}

TEST(a_device_that_is_full_loses_everything)
{
    struct sl_writer_file *f;
    must(sl_writer_open(writer, "/dev/full", 0, SL_WRITER_RECORDS, "full", &f));
    for (int i = 0; i < 5; i++)
        sl_writer_add_line(f, "line");
    flush();
    ck_assert_uint_eq(loss_of("full").n, 5);
    ck_assert_int_eq(loss_of("full").err, ENOSPC);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return run_tests((struct unit_case){.setup = setup,
                                        .teardown = teardown,
                                        .begin = scratch_begin,
                                        .end = scratch_end,
                                        .timeout_s = 120});
}
