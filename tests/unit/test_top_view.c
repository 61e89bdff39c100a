// Pictures of a job at every size that a terminal may have.

#include "common/base/utf8.h"
#include "tests/unit/suite.h"
#include "tests/unit/top_fixture.h"

static struct sl_top_model *m;
static char *text;

static void set_up(void)
{
    const struct sample s = usual_sample();
    m = malloc(sizeof *m);
    sl_top_init(m);
    run_for(m, &s, 71);
    sl_top_on_jobs(m, jobs_line());
}

static void tear_down(void)
{
    sl_top_fini(m);
    free(m);
    free(text);
    text = NULL;
}

static void draw(int width, int height, bool ascii)
{
    free(text);
    text = drawn(m, width, height, ascii);
}

static void has(const char *words)
{
    ck_assert_msg(strstr(text, words) != NULL, "no '%s' in\n%.3500s", words, text);
}

static void has_not(const char *words)
{
    ck_assert_msg(strstr(text, words) == NULL, "'%s' in\n%.3500s", words, text);
}

// Every line of the picture is within the width, and there are as many as the screen has rows.
static void fits(int width, int height)
{
    int rows = 0;
    for (char *line = text; *line; rows++) {
        char one[8192];
        size_t n = strcspn(line, "\n");
        snprintf(one, sizeof one, "%.*s", (int)n, line);
        ck_assert_msg(sl_text_columns(one) <= width, "%d columns in a line of %d x %d:\n%s",
                      sl_text_columns(one), width, height, text);
        line += n + 1;
    }
    ck_assert_int_eq(rows, height);
}

TEST(all_that_matters_is_on_a_usual_terminal)
{
    draw(80, 24, false);
    fits(80, 24);
    has("products-sage");
    has("running");
    has("epoch 4 of 20");
    has("12/90");
    has("0:52 left");
    has("accuracy 0.8100");
    has("best 0.8234 in epoch 2");
    has("1 sampler : 3 trainers");
    has("╭─ 1 sampler ");
    has("╭─ queue ");
    has("╭─ 3 trainers ");
    has("sample   11 ms  22 ms");
    has("train    61 ms 122 ms");
    has("───▶");
    has("62 MiB of 512 MiB");
    has("hits (presc)     52 %");
    has("updates (ordered) 123");
    has(" Bottleneck  trainers wait for samplers 62 % of the time: a second sampler would\n");
    has("shorten the epoch by about 0.8 s\n");
    has("0 sampler ");
    has("3 trainer ");
    has("queue  ");
    has("batches/s  ");
    has("loss  ");
    has("trainer 2 died of signal 9");
    has("q quit");
}

TEST(a_large_terminal_shows_more)
{
    draw(160, 50, false);
    fits(160, 50);
    has("products-sage (job 3)");
    has("trainer 2  ");
    has("batch 19  ");
    has("better split: 2 : 2, an epoch in 2.3 s, not 3.1 s");
    has("cpu 3    trainer");
    has("123 MiB of 456 MiB");
    has("waiting 62 %  (the last 1:");
    has("2 samplers and 2 trainers: K = 0.9");
}

TEST(a_small_terminal_gets_words)
{
    draw(40, 10, false);
    fits(40, 10);
    has("products-sage");
    has("epoch 4 of 20: train 12/90");
    has("1 sampler : 3 trainers");
    has("trainers wait for samplers");
    has("needs 60 x 15");
    draw(30, 6, false);
    fits(30, 6);
    sl_top_key(m, '+');
    draw(40, 10, false);
    has("Change to 2 samplers");
}

TEST(no_size_is_too_odd)
{
    static const int widths[] = {1, 2, 5, 20, 59, 60, 61, 79, 100, 119, 120, 150, 200, 999, 1500};
    static const int heights[] = {1, 2, 3, 10, 14, 15, 16, 20, 25, 34, 60, 200};
    struct sample s = usual_sample();
    s.sharing = 4;
    s.near = true;
    run_for(m, &s, 5);
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        for (size_t h = 0; h < sizeof heights / sizeof *heights; h++) {
            for (int view = 0; view < SL_TOP_VIEWS; view++) {
                m->view = (enum sl_top_view)view;
                m->help = (w + h) % 5 == 0;
                draw(widths[w], heights[h], w % 2);
                fits(widths[w] < 1000 ? widths[w] : 1000, heights[h]);
            }
        }
    }
}

TEST(an_ascii_terminal_gets_ascii)
{
    for (int view = 0; view < SL_TOP_VIEWS; view++) {
        m->view = (enum sl_top_view)view;
        draw(80, 24, true);
        for (const char *p = text; *p; p++)
            ck_assert_msg(*p == '\n' || (*p >= ' ' && *p <= '~'), "byte %d in\n%s", *p, text);
    }
    m->view = SL_TOP_OVERVIEW;
    draw(80, 24, true);
    has("+- 1 sampler ");
    has("--->");
}

TEST(many_devices_and_workers_are_counted_not_lost)
{
    struct sample s = usual_sample();
    s.samplers = 3;
    s.trainers = 13;
    run_for(m, &s, 5);
    draw(80, 24, false);
    has("and 11 more");
    draw(160, 50, false);
    has("cpu 15");
    has("trainer 5  ");
    has("and 9 more");
    m->view = SL_TOP_WORKERS;
    draw(80, 24, false);
    has("sampler 0");
    has("standby 0");
}

// Of a device with a GPU the load is the GPU's, where it is known.
TEST(a_gpu_s_load_goes_before_that_of_the_cores)
{
    struct sample s = usual_sample();
    struct line l = {.n = 0};
    s.second = 90;
    add(&l, "%s", stats_line(&s));
    char *last = NULL;
    for (char *at = l.text; (at = strstr(at, "\"gpu_load\":null")) != NULL; at++)
        last = at;
    ck_assert_ptr_nonnull(last);
    sl_top_on_stats(m, l.text);
    draw(160, 50, false);
    has("91 %");
    has_not("37 %");
    memcpy(last, "\"gpu_load\":0.37", 15);
    sl_top_on_stats(m, l.text);
    draw(160, 50, false);
    has("37 %");
}

TEST(a_long_list_scrolls_and_stops_at_its_end)
{
    struct sample s = usual_sample();
    s.samplers = 20;
    s.trainers = 20;
    run_for(m, &s, 2);
    m->view = SL_TOP_WORKERS;
    draw(80, 24, false);
    has("sampler 0 ");
    has_not("standby 19");
    for (int i = 0; i < 100; i++)
        sl_top_key(m, SL_KEY_DOWN);
    draw(80, 24, false);
    has_not("sampler 0 ");
    has("standby 19");
    has("39 trainer"); // the devices stand below
    has_not("standby 16");
    sl_top_key(m, SL_KEY_UP); // one key is enough to see that it moves
    draw(80, 24, false);
    has("standby 16");
}

TEST(links_say_how_much_is_read_from_where)
{
    struct sample s = usual_sample();
    s.sharing = 2;
    m->view = SL_TOP_WORKERS;
    draw(80, 24, false);
    has_not("read by each device");
    run_for(m, &s, 5);
    draw(80, 24, false);
    fits(80, 24);
    has("features read by each device, from where: bytes/s now, share of all ──");
    has("\ncpu 2    own      3.0 MiB  50 %  cpu 3    1.0 MiB  17 %  memory   2.0 MiB  33 %\n"
        "cpu 3    own      3.0 MiB  50 %  cpu 2    1.0 MiB  17 %  memory   2.0 MiB  33 %\n");
    has("cpu 0    sampler + standby load ");
    m->view = SL_TOP_OVERVIEW;
    draw(80, 24, false); // where the workers have them
    has_not("read by each device");
    draw(120, 40, false);
    has("\ncpu 2    own      3.0 MiB  50 %");
    sl_top_on_finished(m, 0, "");
    draw(120, 40, false);
    has("from where: bytes in all, share ──");
    has("\ncpu 2    own       15 MiB  50 %");
}

TEST(many_links_are_summed_then_counted)
{
    struct sample s = usual_sample();
    s.samplers = 4;
    s.trainers = 8;
    s.sharing = 8;
    run_for(m, &s, 5);
    m->view = SL_TOP_WORKERS;
    draw(160, 60, false);
    has("\ncpu 4    own      3.0 MiB  25 %  cpu 5    1.0 MiB   8 %");
    has("\n         cpu 10 "); // a reader goes on
    draw(120, 40, false);
    has("\ncpu 4    own      3.0 MiB  25 %  others   7.0 MiB  58 %  memory   2.0 MiB  17 %\n");
    has("\ncpu 11   own ");
    draw(80, 24, false); // below the workers there is no room
    has_not("read by each device");
    for (int i = 0; i < 100; i++)
        sl_top_key(m, SL_KEY_DOWN);
    draw(80, 24, false);
    has("\ncpu 11   own ");
    s.sharing = 12;
    run_for(m, &s, 5);
    for (int i = 0; i < 100; i++)
        sl_top_key(m, SL_KEY_DOWN);
    draw(80, 18, false);
    fits(80, 18);
    has("others    11 MiB  69 %");
    has("and 8 more");
}

TEST(types_and_relations_are_shown_when_asked_for)
{
    struct sample s = usual_sample();
    sl_top_key(m, 'r'); // of a plain graph there is nothing to show
    draw(80, 24, false);
    has("one type of vertices");
    has("0 sampler");
    s.typed = true;
    run_for(m, &s, 5);
    draw(80, 24, false);
    has_not("author");
    sl_top_key(m, 'r');
    draw(80, 24, false);
    fits(80, 24);
    has("type                                    rows    per s     hits  cache/s  store/s\n");
    has("\npaper                                   5000     1000     50 %  2.0 MiB  2.0 MiB\n");
    has("\nauthor                                     0        0        -        -        -\n");
    has("\npaper -cites-> paper                                      1125      225     75 %\n");
    has("\nauthor -writes-> paper                                     375       75     25 %\n");
    has("\nheld by                                                            rows    bytes\n");
    has("\ntrainer 0: paper                                                    600  1.0 MiB\n");
    draw(60, 15, false);
    fits(60, 15);
    draw(80, 10, false); // too small for pictures
    sl_top_key(m, SL_KEY_ESCAPE);
    draw(80, 24, false);
    has_not("author");
    sl_top_key(m, 'r');
    sl_top_key(m, '2');
    draw(80, 24, false);
    has_not("author");
}

TEST(links_of_a_typed_graph_name_their_relation)
{
    struct sample s = usual_sample();
    run_for(m, &s, 2);
    draw(80, 24, false);
    has_not("-likes->");
    s.linked = "user -likes-> item";
    s.typed = true;
    run_for(m, &s, 2);
    draw(120, 24, false);
    fits(120, 24);
    has("in epoch 2  of user -likes-> item ");
    draw(80, 24, false);
    has_not("-likes->"); // there is no room
    sl_top_key(m, 'r');
    draw(80, 24, false);
    fits(80, 24);
    has("\nrelation (pairs are of user -likes-> item) ");
}

TEST(nodes_have_a_row_each)
{
    struct sample s = usual_sample();
    draw(80, 30, false);
    has_not("nodes:");
    s.nodes = 2;
    run_for(m, &s, 2);
    draw(80, 30, false);
    fits(80, 30);
    has("\nnode host     split  per s queue train  wait  late  wire     in/s remote   after\n"
        "   0 host-0.… 1S 3T     12     2  50 %  25 %  20 %   5 %  2.0 MiB   30 %  2.0 ms\n"
        "   1 host-1.… 1S 3T     12     3  50 %  25 %  20 %   5 %  2.0 MiB      -  2.0 ms\n");
    s.nodes = 40;
    run_for(m, &s, 2);
    draw(80, 24, false);
    fits(80, 24);
    has("and 38 more");
}

TEST(blocks_that_stay_on_a_gpu_have_a_row)
{
    struct sample s = usual_sample();
    draw(120, 40, false);
    has_not("near/s");
    s.near = true;
    run_for(m, &s, 5);
    draw(120, 40, false);
    has(" near/s                  10 MiB ");
    m->view = SL_TOP_STAGES_VIEW;
    draw(160, 50, false);
    has("blocks near/s ");
}

TEST(hostile_text_does_not_reach_the_terminal)
{
    sl_top_on_event(m, event_line(30, "scale", true, "a\\u001b[2Jb\\u0007"));
    draw(80, 24, false);
    has("a?[2Jb?");
    has_not("\033");
}

TEST(stages_show_how_times_are_spread)
{
    m->view = SL_TOP_STAGES_VIEW;
    draw(80, 24, false);
    has("sample   ████░░  70 %    11 ms    22 ms       30");
    has("evaluate ░░░░░░   0 %        -        -");
    has("train ──");
    has("> 100 ms");
    draw(160, 50, false);
    has("draw neighbours");
    has("since the job began");
    has("batches trained");
}

TEST(the_overview_leaves_out_what_every_epoch_brings)
{
    sl_top_on_event(m, event_line(40, "epoch", true, "epoch 7 of 20: loss 0.5"));
    draw(80, 24, false);
    has("trainer 2 died of signal 9");
    has_not("epoch 7 of 20: loss");
    m->view = SL_TOP_EVENTS_VIEW;
    draw(80, 24, false);
    has("epoch 7 of 20: loss");
}

TEST(jobs_are_listed_with_what_they_wait_for)
{
    m->view = SL_TOP_JOBS_VIEW;
    sl_top_key(m, 'j');
    draw(80, 24, false);
    has("jobs of daemon 4711, version 0.2.0, cores 0-1, free none");
    has("▸    4 cora-gcn");
    has("cora-gcn: waits for core 0, which job 3 'products-sage' has");
    has("/runs/b");
    has("run by-hand");
    has("Enter");
}

TEST(a_queued_job_says_why_it_waits)
{
    sl_top_open(m, "cora-gcn", "4", "queued");
    sl_top_on_jobs(m, jobs_line());
    draw(80, 24, false);
    has("queued");
    has("waits for core 0, which job 3 'products-sage' has");
    for (int view = 0; view < SL_TOP_VIEWS; view++) {
        m->view = (enum sl_top_view)view;
        draw(80, 24, false);
    }
}

TEST(the_end_is_shown_and_stays)
{
    sl_top_on_finished(m, 1, "trainer 0 failed: no memory");
    m->now_ns += 100000000000ull;
    draw(80, 24, false);
    has(" failed ");
    has("trainer 0 failed: no memory");
    has_not("no news");
    has_not("pause");
}

TEST(old_statistics_are_marked)
{
    draw(80, 24, false);
    has_not("no news");
    m->now_ns += 7000000000ull;
    draw(80, 24, false);
    has("! no news of the job for 7 s");
}

TEST(a_question_shows_what_would_happen)
{
    sl_top_key(m, '+');
    draw(80, 24, false);
    fits(80, 24);
    has("Change to 2 samplers and 2 trainers?");
    has(" y yes  n no ");
    has("asking what it would do");
    sl_top_on_scale_done(m, true, "trainer 2 leaves and sampler 1 starts", "");
    draw(80, 24, false);
    has("trainer 2 leaves and sampler 1 starts");
}

TEST(messages_go_after_a_while)
{
    sl_top_notice(m, true, "it cannot be");
    draw(80, 24, false);
    has("! it cannot be");
    struct sample s = usual_sample();
    s.second = 80;
    m->now_ns += (SL_TOP_NOTICE_S + 1) * 1000000000ull;
    sl_top_on_stats(m, stats_line(&s));
    draw(80, 24, false);
    has_not("it cannot be");
    has("q quit");
}

// What stands in the last row, from the next picture on.
static const char *last_row(int width, int height)
{
    draw(width, height, false);
    fits(width, height);
    char *end = strrchr(text, '\n');
    *end = '\0';
    return strrchr(text, '\n') + 1;
}

// Whatever is said, and however long, stands above the keys as a whole.
TEST(the_keys_stay_while_something_is_said)
{
    const char *long_text = "2 samplers and 3 trainers: wanted at most 4 roles on 4 devices, since "
                            "the third has been lent to another job until the end of its epoch; "
                            "take a trainer away first, or wait for the other job to be OVER";
    const char *keys = " q quit  h help  Tab view  p pause  + - samplers  t T trainers";
    ck_assert_str_eq(last_row(80, 24), keys);
    sl_top_notice(m, true, long_text);
    ck_assert_str_eq(last_row(80, 24), keys);
    has("! 2 samplers and 3 trainers: wanted");
    has("to be OVER");
    for (int view = 0; view < SL_TOP_VIEWS; view++) {
        m->view = (enum sl_top_view)view;
        ck_assert_ptr_nonnull(strstr(last_row(80, 24), " q quit "));
        has("to be OVER");
    }
    m->view = SL_TOP_OVERVIEW;
    m->now_ns += (SL_TOP_NOTICE_S + 1) * 1000000000ull; // no news of the job meanwhile
    ck_assert_str_eq(last_row(80, 24), keys);
    has("no news of the job");
    sl_top_key(m, '+');
    sl_top_on_scale_done(m, true, long_text, "");
    ck_assert_str_eq(last_row(80, 24), " y yes  n no  q quit  + - samplers  t T trainers");
    has("Change to 2 samplers and 2 trainers?");
    has("to be OVER");
    struct sample s = usual_sample();
    s.second = 90;
    sl_top_on_stats(m, stats_line(&s));
    sl_top_key(m, 'y');
    sl_top_on_scale_step(m, "trainer 2 finishes its batch");
    ck_assert_str_eq(last_row(80, 24), keys);
    has("changing the split: trainer 2 finishes its batch");
}

TEST(how_a_job_failed_is_told_to_its_end)
{
    sl_top_on_finished(m, 1,
                       "trainer 0 died of signal 9 five times in an epoch, the last time in "
                       "batch 12: the log says why: sluice logs products-sage --worker "
                       "'trainer 0', then go on with the SAME command");
    draw(80, 24, false);
    fits(80, 24);
    has("SAME command");
    has("q quit");
}

TEST(the_bottleneck_and_its_advice_are_whole_on_a_usual_terminal)
{
    struct sample s = usual_sample();
    s.bottleneck = "trainers wait for one another's gradients 48 % of the time while 38.8 batches "
                   "lie ready (updates of 1 batch), and samplers wait 47 % for memory that batches "
                   "hold: a second sampler in place of the third trainer would shorten the epoch "
                   "by about 0.8 SECONDS";
    s.samplers = 4; // their rows come after it
    run_for(m, &s, 40);
    draw(80, 24, false);
    fits(80, 24);
    has("about 0.8 SECONDS");
    sl_top_notice(m, true, "it cannot be");
    draw(80, 24, false);
    has("about 0.8 SECONDS");
    draw(80, 18, false);
    has("about 0.8 SECONDS");
}

TEST(what_is_left_out_is_told)
{
    struct sample s = usual_sample();
    s.samplers = s.trainers = 10;
    run_for(m, &s, 2);
    for (int i = 0; i < 40; i++)
        sl_top_on_event(m, event_line(50 + i, "epoch", true, "epoch 7 of 20"));
    m->view = SL_TOP_WORKERS;
    draw(80, 24, false);
    has(" memory …\n"); // columns
    has("and 12 more, and devices: j");
    draw(160, 24, false);
    has_not(" memory …");
    m->view = SL_TOP_EVENTS_VIEW;
    draw(80, 24, false);
    has("what happened: 25 to 43 of 43; older: j");
    sl_top_key(m, 'j');
    draw(80, 24, false);
    has("what happened: 24 to 42 of 43");
    m->view = SL_TOP_STAGES_VIEW;
    draw(140, 40, false);
    has("and 5 more: sluice stats");
    m->help = true;
    draw(80, 16, false);
    has("more in a higher window");
    draw(80, 24, false);
    has_not("higher window");
    m->help = false;
    m->view = SL_TOP_JOBS_VIEW;
    draw(80, 24, false);
    has(" progress ");
    draw(60, 15, false);
    has("left");
}

// The model on such a screen with ANSI sequences; the caller frees it.
static char *coloured_text(int width, int height)
{
    struct sl_screen screen = {0};
    char *coloured;
    size_t n;
    FILE *out = open_memstream(&coloured, &n);
    ck_assert_int_eq(sl_screen_init(&screen, width, height, false), 0);
    sl_top_draw(m, &screen);
    sl_screen_print(&screen, true, out);
    fclose(out);
    sl_screen_fini(&screen);
    return coloured;
}

static void warns(bool wanted)
{
    static const char *const alarm = "38;5;197", *const reverse = "1;7m Bottleneck ";
    char *overview, *workers;
    m->view = SL_TOP_OVERVIEW;
    overview = coloured_text(80, 24);
    m->view = SL_TOP_WORKERS;
    workers = coloured_text(80, 24);
    ck_assert_msg((strstr(workers, alarm) != NULL) == wanted, "%s", workers);
    ck_assert_msg((strstr(overview, reverse) != NULL) == wanted, "%s", overview);
    ck_assert_msg(wanted || !strstr(overview, alarm), "%s", overview);
    free(overview);
    free(workers);
}

// Samplers that wait before a full queue while trainers compute are how it should be.
TEST(a_full_queue_is_no_alarm)
{
    struct sample s = usual_sample();
    s.bottleneck = "trainers compute 97 % of the time, samplers wait 95 % for memory";
    s.role = "trainers";
    s.blocked = true;
    sl_top_open(m, s.name, "3", "running");
    sl_top_on_stats(m, stats_line(&s));
    sl_top_on_event(m, event_line(31, "end", false, "stopped: 5 of 20 epochs"));
    warns(false);
    s.role = "memory"; // trainers wait, too
    s.second++;
    sl_top_on_stats(m, stats_line(&s));
    warns(true);
}

TEST(colours_are_only_where_they_are_asked_for)
{
    char *coloured = coloured_text(80, 24);
    ck_assert_ptr_nonnull(strstr(coloured, "\033[0;38;5;33;1m"));
    ck_assert_ptr_nonnull(strstr(coloured, "\033[0;38;5;172"));
    ck_assert_ptr_null(strstr(coloured, "\033[0m\033[0m"));
    free(coloured);
    draw(80, 24, false);
    has_not("\033");
}

RUN_TESTS(.setup = set_up, .teardown = tear_down, .timeout_s = 60)
