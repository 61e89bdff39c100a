// Tables and the progress display.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/text/progress.h"
#include "common/text/table.h"
#include "tests/unit/suite.h"

// A stream into memory.
struct sink {
    FILE *file;
    char *text;
    size_t n;
};

static FILE *sink_open(struct sink *s)
{
    s->file = open_memstream(&s->text, &s->n);
    ck_assert_ptr_nonnull(s->file);
    return s->file;
}

static void sink_close(struct sink *s)
{
    fclose(s->file);
    free(s->text);
}

static const char *sink_text(struct sink *s)
{
    fflush(s->file);
    return s->text;
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        ck_abort_msg("wanted \"%s\" in:\n%s", part, text);
}

// ---- tables -------------------------------------------------------------------------------------

TEST(columns_are_aligned)
{
    struct sink s;
    struct sl_table t;
    sl_table_init(&t, "l r", (const char *[]){"stage", "seconds"});
    sl_table_row(&t, "%s|%.1f", "sample", 1.25);
    sl_table_row(&t, "%s|%.1f", "x", 100.0);
    sl_table_print(&t, sink_open(&s));
    ck_assert_str_eq(sink_text(&s), "stage   seconds\n"
                                    "---------------\n"
                                    "sample      1.2\n"
                                    "x         100.0\n");
    sl_table_fini(&t);
    sink_close(&s);
}

TEST(missing_cells_are_empty_and_lines_end_clean)
{
    struct sink s;
    struct sl_table t;
    sl_table_init(&t, "lll", NULL);
    sl_table_row(&t, "a");
    sl_table_row(&t, "|bb|");
    sl_table_row(&t, "||c|too many");
    sl_table_print(&t, sink_open(&s));
    ck_assert_str_eq(sink_text(&s), "a\n"
                                    "   bb\n"
                                    "       c\n");
    sl_table_fini(&t);
    sink_close(&s);
}

TEST(width_counts_characters_not_bytes)
{
    struct sink s;
    struct sl_table t;
    sl_table_init(&t, "l l", NULL);
    sl_table_row(&t, "\xc3\xa9t\xc3\xa9|x"); // two of three characters take two bytes
    sl_table_row(&t, "abc|y");
    sl_table_print(&t, sink_open(&s));
    ck_assert_str_eq(sink_text(&s), "\xc3\xa9t\xc3\xa9  x\nabc  y\n");
    sl_table_fini(&t);
    sink_close(&s);
}

TEST(many_rows_grow_the_table)
{
    struct sink s;
    struct sl_table t;
    sl_table_init(&t, "r", NULL);
    for (int i = 0; i < 1000; i++)
        sl_table_row(&t, "%d", i);
    ck_assert_uint_eq(t.n_rows, 1000);
    sl_table_print(&t, sink_open(&s));
    assert_has(sink_text(&s), "\n999\n");
    sl_table_fini(&t);
    sink_close(&s);
}

// ---- progress -----------------------------------------------------------------------------------

static void progress_begin(struct sl_progress *p, struct sink *s, enum sl_progress_style style)
{
    sl_progress_init(p, style == SL_PROGRESS_QUIET);
    p->out = sink_open(s);
    p->style = style;
    p->interval_ns = 0; // draw every time
    p->colour = false;
    p->columns = 100;
}

TEST(plain_lines_say_how_far)
{
    struct sink s;
    struct sl_progress p;
    progress_begin(&p, &s, SL_PROGRESS_PLAIN);
    sl_progress_begin(&p, "edges", 200, "edges");
    sl_progress_add(&p, 50);
    assert_has(sink_text(&s), "edges:  25 %, 50 of 200 edges, ");
    sl_progress_set(&p, 100);
    assert_has(sink_text(&s), "50 %");
    sl_progress_end(&p);
    assert_has(sink_text(&s), "edges: 100 edges in ");
    ck_assert_ptr_null(strchr(sink_text(&s), '\r'));
    ck_assert_ptr_null(strchr(sink_text(&s), '\033'));
    sink_close(&s);
}

TEST(a_bar_is_redrawn_in_place_and_fits)
{
    struct sink s;
    struct sl_progress p;
    progress_begin(&p, &s, SL_PROGRESS_BAR);
    for (p.columns = 20; p.columns <= 120; p.columns += 10) {
        sl_progress_begin(&p, "edges", 1000, "edges");
        sl_progress_add(&p, 500);
        const char *text = sink_text(&s), *line = strrchr(text, '\r') + 1;
        ck_assert_uint_lt(strcspn(line, "\033"), (size_t)p.columns);
        ck_assert_ptr_null(strchr(line, '\n'));
        if (p.columns == 120) {
            assert_has(line, "[############------------]");
            assert_has(line, "left");
        }
    }
    sl_progress_clear(&p);
    const char *text = sink_text(&s);
    ck_assert_str_eq(text + strlen(text) - 4, "\r\033[K");
    sink_close(&s);
}

TEST(a_line_stands_above_the_bar)
{
    struct sink s;
    struct sl_progress p;
    progress_begin(&p, &s, SL_PROGRESS_BAR);
    sl_progress_begin(&p, "epoch", 10, "batches");
    sl_progress_add(&p, 1);
    sl_progress_line(&p, "worker %d died", 3);
    assert_has(sink_text(&s), "\r\033[Kworker 3 died\n\repoch: ");
    sink_close(&s);
}

TEST(quiet_is_silent)
{
    struct sink s;
    struct sl_progress p;
    progress_begin(&p, &s, SL_PROGRESS_QUIET);
    sl_progress_begin(&p, "edges", 10, "edges");
    sl_progress_add(&p, 10);
    sl_progress_line(&p, "something");
    sl_progress_end(&p);
    sl_progress_clear(&p);
    ck_assert_str_eq(sink_text(&s), "");
    sink_close(&s);
}

TEST(drawing_keeps_its_distance)
{
    struct sink s;
    struct sl_progress p;
    progress_begin(&p, &s, SL_PROGRESS_PLAIN);
    p.interval_ns = UINT64_C(3600000000000);
    sl_progress_begin(&p, "edges", 1000000, "edges");
    for (int i = 0; i < 1000; i++)
        sl_progress_add(&p, 1);
    ck_assert_str_eq(sink_text(&s), "");
    sl_progress_end(&p);
    assert_has(sink_text(&s), "edges: 1.00 k edges in ");
    sink_close(&s);
}

TEST(an_unknown_total_and_bytes_are_shown)
{
    struct sink s;
    struct sl_progress p;
    progress_begin(&p, &s, SL_PROGRESS_PLAIN);
    sl_progress_begin(&p, "reading", 0, "B");
    sl_progress_add(&p, 2048);
    assert_has(sink_text(&s), "reading: 2.00 KiB, ");
    ck_assert_ptr_null(strchr(sink_text(&s), '%'));
    sink_close(&s);
}

static void *add_many(void *arg)
{
    for (int i = 0; i < 20000; i++)
        sl_progress_add(arg, 1);
    return NULL;
}

TEST(threads_add_without_loss)
{
    struct sink s;
    struct sl_progress p;
    pthread_t threads[4];
    progress_begin(&p, &s, SL_PROGRESS_PLAIN);
    p.interval_ns = 100000;
    sl_progress_begin(&p, "edges", 80000, "edges");
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, add_many, &p), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(p.done, 80000);
    sl_progress_end(&p);
    assert_has(sink_text(&s), "edges: 80.0 k edges in ");
    sink_close(&s);
}

static void add_fields(struct sl_progress *p)
{
    sl_progress_reset_fields(p);
    sl_progress_add_field(p, 1, "50 %", NULL);
    sl_progress_add_field(p, 3, "28.1 batches/s", "28.1/s");
    sl_progress_add_field(p, 4, "loss 0.4321", NULL);
    sl_progress_add_field(p, 2, "accuracy 0.8125", "val 0.8125");
    sl_progress_add_field(p, 0, "12 ready", NULL);
}

TEST(fields_are_said_briefly_and_then_left_out_on_a_narrow_terminal)
{
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
    for (size_t i = 0; i < SL_COUNT_OF(wanted); i++) {
        struct sink s;
        struct sl_progress p;
        char line[256];
        progress_begin(&p, &s, SL_PROGRESS_BAR);
        p.columns = wanted[i].columns;
        p.colour = false;
        sl_progress_begin(&p, "epoch 3/20", 10, "batches");
        add_fields(&p);
        sl_progress_set(&p, 5);
        snprintf(line, sizeof line, "\r%s\033[K", wanted[i].line);
        ck_assert_str_eq(sink_text(&s), line);
        ck_assert_int_lt((int)strlen(wanted[i].line), wanted[i].columns);
        sink_close(&s);
    }
}

TEST(fields_are_all_in_a_plain_line)
{
    struct sink s;
    struct sl_progress p;
    progress_begin(&p, &s, SL_PROGRESS_PLAIN);
    sl_progress_begin(&p, "epoch 3/20", 10, "batches");
    add_fields(&p);
    sl_progress_set(&p, 5);
    ck_assert_str_eq(sink_text(&s), "epoch 3/20: 50 %, 28.1 batches/s, loss 0.4321, accuracy "
                                    "0.8125, 12 ready\n");
    sink_close(&s);
}

RUN_TESTS()
