// What comes in becomes what a view shows; keys become what is asked of the job.

#include "common/base/error.h"
#include "tests/unit/suite.h"
#include "tests/unit/top_fixture.h"

static struct sl_top_model *m;

static void set_up(void)
{
    const struct sample s = usual_sample();
    m = malloc(sizeof *m);
    sl_top_init(m);
    run_for(m, &s, 5);
}

static void tear_down(void)
{
    sl_top_fini(m);
    free(m);
}

static void press(int key)
{
    struct sl_top_action a = sl_top_key(m, key);
    ck_assert_int_eq(a.what, SL_TOP_NOTHING);
}

// --- statistics ----------------------------------------------------------------------------------

TEST(a_line_is_taken_apart)
{
    const struct sl_stats *s = &m->stats;
    ck_assert_str_eq(s->job, "products-sage");
    ck_assert_uint_eq(s->n_devices, 4);
    ck_assert_str_eq(s->devices[0].roles, "sampler + standby");
    ck_assert_uint_eq(s->n_workers, 5);
    ck_assert_str_eq(s->workers[1].batch, "batch 17");
    ck_assert_double_eq_tol(s->stages[SL_LIVE_EXTRACT].p99, 0.0042, 1e-9);
    ck_assert_double_nan(s->stages[SL_LIVE_EVALUATE].p50);
    ck_assert_uint_eq(s->n_buckets, 5);
    ck_assert_double_eq(s->counts[2][2], 60);
    ck_assert_double_eq(s->le[3], 0.1);
    ck_assert_double_infinite(s->le[4]);
}

static double rate_of(size_t link)
{
    ck_assert_uint_gt(m->stats.n_links, link);
    return sl_top_link_rate(m, &m->stats.links[link]);
}

// Of the last seconds, as other rates are.
TEST(rates_of_links_are_differences)
{
    struct sample s = usual_sample();
    s.sharing = 2;
    sl_top_open(m, s.name, "3", "running");
    ck_assert_int_eq(sl_top_on_stats(m, stats_line(&s)), 0);
    ck_assert_double_nan(rate_of(0)); // there is nothing to compare with
    s.second = 36;
    sl_top_on_stats(m, stats_line(&s));
    ck_assert_double_eq(rate_of(0), 3 << 20);
    ck_assert_double_eq(rate_of(2), 2 << 20);
    s.sharing = 3; // links that are new have read nothing before
    s.second = 41;
    sl_top_on_stats(m, stats_line(&s));
    ck_assert_double_eq(rate_of(0), 41.0 * (3 << 20) / 10);
    s.sharing = 2;
    for (; s.second < 60; s.second++)
        sl_top_on_stats(m, stats_line(&s));
    ck_assert_double_eq(rate_of(0), 3 << 20);
    s.second = 2; // another broker of the job
    sl_top_on_stats(m, stats_line(&s));
    ck_assert_double_nan(rate_of(0));
}

TEST(what_is_missing_or_odd_is_not_known)
{
    ck_assert_int_eq(sl_top_on_stats(m, "{\"schema\":\"sluice.stats/1\",\"loss\":\"much\","
                                        "\"devices\":7,\"workers\":[3,null,{\"busy\":[]}],"
                                        "\"stages\":null,\"histograms\":{\"le\":[null],"
                                        "\"sample\":{\"counts\":[1,\"x\"]}},\"epoch\":1e300}"),
                     0);
    ck_assert_double_nan(m->stats.loss);
    ck_assert_uint_eq(m->stats.n_devices, 0);
    ck_assert_uint_eq(m->stats.n_workers, 3);
    ck_assert_double_nan(m->stats.workers[2].busy);
    for (int view = 0; view < SL_TOP_VIEWS; view++) {
        m->view = (enum sl_top_view)view;
        free(drawn(m, 80, 24, false));
    }
}

TEST(a_line_of_something_else_is_left_out)
{
    double loss = m->stats.loss;
    ck_assert_int_eq(sl_top_on_stats(m, "{\"schema\":\"sluice.stats/2\"}"), SL_EFORMAT);
    ck_assert_int_eq(sl_top_on_stats(m, "no JSON"), SL_EFORMAT);
    ck_assert_int_eq(sl_top_on_stats(m, ""), SL_EFORMAT);
    ck_assert_int_eq(sl_top_on_event(m, "[]"), SL_EFORMAT);
    ck_assert_int_eq(sl_top_on_jobs(m, "{\"schema\":7}"), SL_EFORMAT);
    ck_assert_double_eq(m->stats.loss, loss);
}

TEST(a_long_text_is_cut_between_characters)
{
    char kind[512] = "", line[1024];
    for (int i = 0; i < 100; i++)
        strcat(kind, "図");
    snprintf(line, sizeof line, "{\"schema\":\"sluice.event/1\",\"time\":9e9,\"kind\":\"%s\"}",
             kind);
    ck_assert_int_eq(sl_top_on_event(m, line), 0);
    ck_assert_uint_eq(strlen(sl_top_event_at(m, 0)->kind), 30);
    ck_assert(strncmp(sl_top_event_at(m, 0)->kind, kind, 30) == 0);
}

TEST(events_are_bounded_sorted_and_once)
{
    for (int i = 0; i < SL_TOP_EVENTS + 10; i++)
        sl_top_on_event(m, event_line(1000 + i, "epoch", true, "an epoch"));
    ck_assert_uint_eq(m->n_events, SL_TOP_EVENTS);
    ck_assert_double_eq(sl_top_event_at(m, 0)->seconds, 1000 + SL_TOP_EVENTS + 9);
    sl_top_open(m, "b", "", "running");
    ck_assert_ptr_null(sl_top_event_at(m, 0));
    sl_top_on_event(m, event_line(9, "scale", true, "later"));
    sl_top_on_event(m, event_line(5, "start", true, "earlier"));
    sl_top_on_event(m, event_line(9, "scale", true, "later"));
    ck_assert_uint_eq(m->n_events, 2);
    ck_assert_str_eq(sl_top_event_at(m, 0)->text, "later");
    ck_assert_str_eq(sl_top_event_at(m, 1)->text, "earlier");
}

TEST(a_description_brings_history_and_statistics)
{
    struct line d = {.n = 0};
    const struct sample s = usual_sample();
    sl_top_open(m, "products-sage", "3", "running");
    add(&d, "{\"schema\":\"sluice.describe/1\",\"events\":[%s",
        event_line(1, "start", true, "it began"));
    add(&d, ",%s],\"stats\":%s}", event_line(2, "pause", true, "by hand"), stats_line(&s));
    ck_assert_int_eq(sl_top_on_describe(m, d.text), 0);
    ck_assert_uint_eq(m->n_events, 2);
    ck_assert(m->have_stats);
    ck_assert_uint_eq(m->stats.n_devices, 4);
}

// --- states --------------------------------------------------------------------------------------

TEST(a_job_that_is_over_stays_so)
{
    struct sample s = usual_sample();
    sl_top_on_finished(m, 1, "trainer 0 failed: no memory");
    s.second = 99;
    sl_top_on_stats(m, stats_line(&s)); // the last one was under way
    ck_assert_str_eq(m->state, "failed");
    ck_assert_str_eq(m->said, "trainer 0 failed: no memory");
    ck_assert_int_eq(sl_top_key(m, '+').what, SL_TOP_NOTHING);
    ck_assert(m->notice_bad);
    ck_assert_int_eq(sl_top_key(m, 'p').what, SL_TOP_NOTHING);
}

TEST(how_it_ended_comes_from_its_last_event_when_nothing_else_tells)
{
    sl_top_on_event(m, event_line(60, "end", true, "done: 3 of 3 epochs in 0.3 s"));
    sl_top_on_finished(m, 0, "");
    ck_assert_str_eq(m->state, "done");
    ck_assert_str_eq(m->said, "done: 3 of 3 epochs in 0.3 s");
    sl_top_open(m, "a", "1", "done");
    ck_assert(m->over);
    sl_top_on_finished(m, 130, ""); // told again to who comes later
    ck_assert_str_eq(m->state, "done");
    sl_top_on_event(m, event_line(60, "end", true, "done in a second"));
    ck_assert_str_eq(m->said, "done in a second");
}

TEST(the_list_says_why_a_queued_job_waits)
{
    sl_top_open(m, "cora-gcn", "4", "");
    sl_top_on_jobs(m, jobs_line());
    ck_assert_str_eq(m->state, "queued");
    ck_assert_str_eq(m->said, "waits for core 0, which job 3 'products-sage' has");
    sl_top_on_job_state(m, "{\"id\":\"4\",\"name\":\"cora-gcn\",\"state\":\"starting\"}");
    ck_assert_str_eq(m->state, "starting");
    ck_assert_uint_eq(m->jobs.n, 3);
    sl_top_on_job_state(m, "{\"id\":\"5\",\"name\":\"new\",\"state\":\"queued\"}");
    ck_assert_uint_eq(m->jobs.n, 4);
}

TEST(a_job_that_is_resumed_is_not_over_any_more)
{
    sl_top_on_finished(m, 130, "stopped");
    sl_top_on_job_state(m, "{\"id\":\"3\",\"state\":\"stopped\",\"message\":\"by hand\"}");
    ck_assert(m->over);
    sl_top_on_job_state(m, "{\"id\":\"3\",\"state\":\"starting\"}");
    ck_assert(!m->over);
    const struct sample s = usual_sample();
    struct sample later = s;
    later.second = 200;
    sl_top_on_stats(m, stats_line(&later));
    ck_assert_str_eq(m->state, "running");
}

// --- keys ----------------------------------------------------------------------------------------

TEST(plus_asks_first_and_y_sends)
{
    struct sl_top_action a = sl_top_key(m, '+');
    ck_assert_int_eq(a.what, SL_TOP_SCALE);
    ck_assert(a.dry_run);
    ck_assert_uint_eq(a.samplers, 2);
    ck_assert_uint_eq(a.trainers, 2);
    a = sl_top_key(m, 'y');
    ck_assert_int_eq(a.what, SL_TOP_SCALE);
    ck_assert(!a.dry_run);
    ck_assert_uint_eq(a.samplers, 2);
    ck_assert_uint_eq(a.trainers, 2);
    ck_assert(m->scaling);
    ck_assert_int_eq(sl_top_key(m, 'y').what, SL_TOP_NOTHING);
}

TEST(further_keys_move_the_question_on)
{
    sl_top_key(m, '+');
    struct sl_top_action a = sl_top_key(m, '+');
    ck_assert_uint_eq(a.samplers, 3);
    ck_assert_uint_eq(a.trainers, 1);
    ck_assert_int_eq(sl_top_key(m, '+').what, SL_TOP_NOTHING); // nobody would train
    a = sl_top_key(m, '-');
    ck_assert_uint_eq(a.samplers, 2);
    ck_assert_uint_eq(a.trainers, 2);
    press('n');
    ck_assert(!m->question.open);
    ck_assert_int_eq(sl_top_key(m, 'y').what, SL_TOP_NOTHING);
}

TEST(the_last_sampler_stays)
{
    ck_assert_int_eq(sl_top_key(m, '-').what, SL_TOP_NOTHING);
    ck_assert(m->notice_bad);
    ck_assert(!m->question.open);
}

TEST(a_trainer_that_leaves_frees_its_device_for_the_next)
{
    struct sl_top_action a = sl_top_key(m, 'T');
    ck_assert_uint_eq(a.samplers, 1);
    ck_assert_uint_eq(a.trainers, 2);
    a = sl_top_key(m, '+'); // takes the free device
    ck_assert_uint_eq(a.samplers, 2);
    ck_assert_uint_eq(a.trainers, 2);
}

// The cores of a sampler that leaves a pool go to all others: no trainer takes its place.
TEST(a_pool_s_sampler_leaves_no_device)
{
    m->stats.cores = "pool";
    m->stats.places = 8;
    struct sl_top_action a = sl_top_key(m, '+');
    ck_assert_uint_eq(a.samplers, 2);
    ck_assert_uint_eq(a.trainers, 3);
    a = sl_top_key(m, '-');
    ck_assert_uint_eq(a.samplers, 1);
    ck_assert_uint_eq(a.trainers, 3);
}

TEST(the_answer_to_an_older_question_is_not_shown)
{
    static const char form[] =
        "{\"schema\":\"sluice.scale/1\",\"ok\":true,\"dry_run\":true,"
        "\"from\":{\"samplers\":1,\"trainers\":3},\"to\":{\"samplers\":%d,\"trainers\":%d},"
        "\"steps\":[\"trainer 2 leaves\",\"sampler 1 starts\"],\"epoch_seconds_now\":3.1,"
        "\"epoch_seconds_then\":2.3}";
    char json[1024];
    sl_top_key(m, '+');
    sl_top_key(m, '+');
    snprintf(json, sizeof json, form, 2, 2);
    sl_top_on_scale_done(m, true, "2 and 2", json);
    ck_assert(!m->question.answered);
    snprintf(json, sizeof json, form, 3, 1);
    sl_top_on_scale_done(m, true, "3 and 1", json);
    ck_assert(m->question.answered);
    ck_assert_str_eq(m->question.answer,
                     "epoch 3.1 s -> 2.3 s: trainer 2 leaves; sampler 1 starts");
}

TEST(a_refusal_closes_the_question)
{
    sl_top_key(m, '+');
    sl_top_on_scale_done(m, false, "device 1 has no memory for a sampler", "");
    ck_assert(!m->question.open);
    ck_assert(m->notice_bad);
    ck_assert_str_eq(m->notice, "device 1 has no memory for a sampler");
}

TEST(a_change_is_followed_until_it_holds)
{
    sl_top_key(m, '+');
    sl_top_key(m, SL_KEY_ENTER);
    sl_top_on_scale_step(m, "sampler 1 loads its graph");
    ck_assert_str_eq(m->scale_step, "sampler 1 loads its graph");
    sl_top_on_scale_done(m, true, "2 samplers and 2 trainers work now", "");
    ck_assert(!m->scaling);
    ck_assert_str_eq(m->notice, "2 samplers and 2 trainers work now");
}

TEST(p_pauses_and_lets_go_on)
{
    struct sample s = usual_sample();
    ck_assert_int_eq(sl_top_key(m, 'p').what, SL_TOP_PAUSE);
    s.state = "paused";
    s.second = 60;
    sl_top_on_stats(m, stats_line(&s));
    ck_assert_int_eq(sl_top_key(m, 'p').what, SL_TOP_RESUME);
}

TEST(p_twice_in_a_second_is_as_before)
{
    ck_assert_int_eq(sl_top_key(m, 'p').what, SL_TOP_PAUSE);
    sl_top_on_event(
        m, event_line(6, "pause", true, "pausing at update 13: batches in hand are finished"));
    ck_assert_int_eq(sl_top_key(m, 'p').what, SL_TOP_RESUME);
    sl_top_on_event(m, event_line(7, "resume", true, "going on"));
    ck_assert_int_eq(sl_top_key(m, 'p').what, SL_TOP_PAUSE);
    sl_top_on_event(m, event_line(2, "pause", true, "of the history"));
    ck_assert_str_eq(m->state, "running");
}

TEST(keys_change_the_view)
{
    press('3');
    ck_assert_int_eq(m->view, SL_TOP_STAGES_VIEW);
    press(SL_KEY_TAB);
    ck_assert_int_eq(m->view, SL_TOP_EVENTS_VIEW);
    press(SL_KEY_BACK_TAB);
    press(SL_KEY_LEFT);
    press(SL_KEY_LEFT);
    press(SL_KEY_LEFT);
    ck_assert_int_eq(m->view, SL_TOP_JOBS_VIEW);
    press('9');
    press(SL_KEY_OTHER);
    ck_assert_int_eq(m->view, SL_TOP_JOBS_VIEW);
    press('h');
    ck_assert(m->help);
    press('1'); // only closes the help
    ck_assert(!m->help);
    ck_assert_int_eq(m->view, SL_TOP_JOBS_VIEW);
    ck_assert_int_eq(sl_top_key(m, 'q').what, SL_TOP_QUIT);
}

TEST(enter_opens_the_selected_job)
{
    sl_top_on_jobs(m, jobs_line());
    press('5');
    press('j');
    struct sl_top_action a = sl_top_key(m, SL_KEY_ENTER);
    ck_assert_int_eq(a.what, SL_TOP_OPEN);
    ck_assert_str_eq(a.job, "4");
    press(SL_KEY_PAGE_DOWN);
    a = sl_top_key(m, SL_KEY_ENTER);
    ck_assert_str_eq(a.job, "/runs/c"); // of `sluice run`: two may have one name
    press(SL_KEY_PAGE_UP);
    ck_assert_int_eq(m->selected, 0);
}

TEST(enter_in_an_empty_list_does_nothing)
{
    sl_top_on_jobs(m, "{\"schema\":\"sluice.jobs/1\",\"daemon\":null,\"jobs\":[]}");
    press('5');
    press('j');
    press('k');
    press(SL_KEY_ENTER);
    ck_assert_int_eq(m->selected, 0);
}

RUN_TESTS(.setup = set_up, .teardown = tear_down, .timeout_s = 60)
