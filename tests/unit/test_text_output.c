// Tables and the progress display.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/text/progress.h"
#include "common/text/table.h"
#include "tests/unit/suite.h"

// A stream into memory, and what is printed to it.
static FILE *file;
static char *written;
static size_t n_written;
static struct sl_table t;
static struct sl_progress p;

static void sink_open(void)
{
    file = open_memstream(&written, &n_written);
    ck_assert_ptr_nonnull(file);
}

static void sink_close(void)
{
    sl_table_fini(&t);
    fclose(file);
    free(written);
}

static const char *sink_text(void)
{
    fflush(file);
    return written;
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        ck_abort_msg("wanted \"%s\" in:\n%s", part, text);
}

// ---- tables -------------------------------------------------------------------------------------

TEST(columns_are_aligned)
{
    sl_table_init(&t, "l r", (const char *[]){"stage", "seconds"});
    sl_table_row(&t, "%s|%.1f", "sample", 1.25);
    sl_table_row(&t, "%s|%.1f", "x", 100.0);
    sl_table_print(&t, file);
    ck_assert_str_eq(sink_text(), "stage   seconds\n"
                                  "---------------\n"
                                  "sample      1.2\n"
                                  "x         100.0\n");
}

TEST(missing_cells_are_empty_and_lines_end_clean)
{
    sl_table_init(&t, "lll", NULL);
    sl_table_row(&t, "a");
    sl_table_row(&t, "|bb|");
    sl_table_row(&t, "||c|too many");
    sl_table_print(&t, file);
    ck_assert_str_eq(sink_text(), "a\n"
                                  "   bb\n"
                                  "       c\n");
}

TEST(width_counts_characters_not_bytes)
{
    sl_table_init(&t, "l l", NULL);
    sl_table_row(&t, "\xc3\xa9t\xc3\xa9|x"); // two of three characters take two bytes
    sl_table_row(&t, "abc|y");
    sl_table_print(&t, file);
    ck_assert_str_eq(sink_text(), "\xc3\xa9t\xc3\xa9  x\nabc  y\n");
}

TEST(many_rows_grow_the_table)
{
    sl_table_init(&t, "r", NULL);
    for (int i = 0; i < 1000; i++)
        sl_table_row(&t, "%d", i);
    ck_assert_uint_eq(t.n_rows, 1000);
    sl_table_print(&t, file);
    assert_has(sink_text(), "\n999\n");
}

// ---- progress -----------------------------------------------------------------------------------

static void progress_begin(enum sl_progress_style style)
{
    sl_progress_init(&p, style == SL_PROGRESS_QUIET);
    p.out = file;
    p.style = style;
    p.interval_ns = 0; // draw every time
    p.colour = false;
    p.columns = 100;
}

TEST(plain_lines_say_how_far)
{
    progress_begin(SL_PROGRESS_PLAIN);
    sl_progress_begin(&p, "edges", 200, "edges");
    sl_progress_add(&p, 50);
    assert_has(sink_text(), "edges:  25 %, 50 of 200 edges, ");
    sl_progress_set(&p, 100);
    assert_has(sink_text(), "50 %");
    sl_progress_end(&p);
    assert_has(sink_text(), "edges: 100 edges in ");
    ck_assert_ptr_null(strchr(sink_text(), '\r'));
    ck_assert_ptr_null(strchr(sink_text(), '\033'));
}

TEST(a_bar_is_redrawn_in_place_and_fits)
{
    progress_begin(SL_PROGRESS_BAR);
    for (p.columns = 20; p.columns <= 120; p.columns += 10) {
        sl_progress_begin(&p, "edges", 1000, "edges");
        sl_progress_add(&p, 500);
        const char *text = sink_text(), *line = strrchr(text, '\r') + 1;
        ck_assert_uint_lt(strcspn(line, "\033"), (size_t)p.columns);
        ck_assert_ptr_null(strchr(line, '\n'));
        if (p.columns == 120) {
            assert_has(line, "[############------------]");
            assert_has(line, "left");
        }
    }
    sl_progress_clear(&p);
    const char *text = sink_text();
    ck_assert_str_eq(text + strlen(text) - 4, "\r\033[K");
}

TEST(a_line_stands_above_the_bar)
{
    progress_begin(SL_PROGRESS_BAR);
    sl_progress_begin(&p, "epoch", 10, "batches");
    sl_progress_add(&p, 1);
    sl_progress_line(&p, "worker %d died", 3);
    assert_has(sink_text(), "\r\033[Kworker 3 died\n\repoch: ");
}

TEST(quiet_is_silent)
{
    progress_begin(SL_PROGRESS_QUIET);
    sl_progress_begin(&p, "edges", 10, "edges");
    sl_progress_add(&p, 10);
    sl_progress_line(&p, "something");
    sl_progress_end(&p);
    sl_progress_clear(&p);
    ck_assert_str_eq(sink_text(), "");
}

TEST(drawing_keeps_its_distance)
{
    progress_begin(SL_PROGRESS_PLAIN);
    p.interval_ns = UINT64_C(3600000000000);
    sl_progress_begin(&p, "edges", 1000000, "edges");
    for (int i = 0; i < 1000; i++)
        sl_progress_add(&p, 1);
    ck_assert_str_eq(sink_text(), "");
    sl_progress_end(&p);
    assert_has(sink_text(), "edges: 1.00 k edges in ");
}

TEST(an_unknown_total_and_bytes_are_shown)
{
    progress_begin(SL_PROGRESS_PLAIN);
    sl_progress_begin(&p, "reading", 0, "B");
    sl_progress_add(&p, 2048);
    assert_has(sink_text(), "reading: 2.00 KiB, ");
    ck_assert_ptr_null(strchr(sink_text(), '%'));
}

static void *add_many(void *arg)
{
    for (int i = 0; i < 20000; i++)
        sl_progress_add(arg, 1);
    return NULL;
}

TEST(threads_add_without_loss)
{
    pthread_t threads[4];
    progress_begin(SL_PROGRESS_PLAIN);
    p.interval_ns = 100000;
    sl_progress_begin(&p, "edges", 80000, "edges");
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_many, &p), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(p.done, 80000);
    sl_progress_end(&p);
    assert_has(sink_text(), "edges: 80.0 k edges in ");
}

static void add_fields(void)
{
    sl_progress_reset_fields(&p);
    sl_progress_add_field(&p, 1, "50 %", NULL);
    sl_progress_add_field(&p, 3, "28.1 batches/s", "28.1/s");
    sl_progress_add_field(&p, 4, "loss 0.4321", NULL);
    sl_progress_add_field(&p, 2, "accuracy 0.8125", "val 0.8125");
    sl_progress_add_field(&p, 0, "12 ready", NULL);
}

static const struct {
    int columns;
    const char *line;
} wanted[] = {
    {120, "epoch 3/20 [############------------] 50 %  28.1 batches/s  loss 0.4321  accuracy "
          "0.8125  12 ready"},
    {77, "epoch 3/20 [#######--------] 50 %  28.1/s  loss 0.4321  val 0.8125  12 ready"},
    {70, "epoch 3/20 [#########---------] 50 %  28.1/s  loss 0.4321  val 0.8125"},
    {50, "epoch 3/20 [########--------] 28.1/s  loss 0.4321"},
    {40, "epoch 3/20 [#######-------] loss 0.4321"},
};

LOOP_TEST(fields_are_said_briefly_and_then_left_out_on_a_narrow_terminal, 0, SL_COUNT_OF(wanted))
{
    char line[256];
    progress_begin(SL_PROGRESS_BAR);
    p.columns = wanted[_i].columns;
    sl_progress_begin(&p, "epoch 3/20", 10, "batches");
    add_fields();
    sl_progress_set(&p, 5);
    snprintf(line, sizeof line, "\r%s\033[K", wanted[_i].line);
    ck_assert_str_eq(sink_text(), line);
    ck_assert_int_lt((int)strlen(wanted[_i].line), wanted[_i].columns);
}

TEST(fields_are_all_in_a_plain_line)
{
    progress_begin(SL_PROGRESS_PLAIN);
    sl_progress_begin(&p, "epoch 3/20", 10, "batches");
    add_fields();
    sl_progress_set(&p, 5);
    ck_assert_str_eq(sink_text(), "epoch 3/20: 50 %, 28.1 batches/s, loss 0.4321, accuracy "
                                  "0.8125, 12 ready\n");
}

RUN_TESTS(.setup = sink_open, .teardown = sink_close)
