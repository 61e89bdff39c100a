// What the server keeps: the newest statistics and history of jobs, and the messages of the event
// stream; bounded, whatever comes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/http/feed.h"
#include "broker/http/job_stats.h"
#include "common/text/json.h"
#include "tests/unit/suite.h"

static struct sl_job_stats store;
static struct sl_feed feed;

static void begin(void)
{
    memset(&store, 0, sizeof store);
    ck_assert_int_eq(sl_feed_init(&feed), 0);
}

static void end(void)
{
    sl_job_stats_fini(&store);
    sl_feed_fini(&feed);
}

static struct sl_job_stats_job *take(const char *key, const char *name, double seconds)
{
    char line[256];
    snprintf(line, sizeof line,
             "{\"schema\":\"sluice.stats/1\",\"job\":\"%s\",\"id\":null,\"seconds\":%g,"
             "\"rates\":{\"batches\":2.5},\"loss\":null}",
             name, seconds);
    return sl_job_stats_on_line(&store, key, line, (uint64_t)(seconds * 1e9) + 1);
}

static cJSON *history(const struct sl_job_stats_job *job)
{
    struct sl_text text = {0};
    sl_stats_history_write(job->history, job->name, &text);
    ck_assert(!text.failed);
    cJSON *tree = cJSON_Parse(text.s);
    ck_assert_msg(tree != NULL, "%s", text.s);
    sl_text_fini(&text);
    return tree;
}

// --- jobs ----------------------------------------------------------------------------------------

TEST(a_line_makes_a_job_and_the_next_one_replaces_it)
{
    ck_assert_ptr_nonnull(take("3", "a", 1));
    struct sl_job_stats_job *job = take("3", "a", 2);
    ck_assert_uint_eq(store.n_jobs, 1);
    ck_assert_uint_eq(job->history->n, 2);
    ck_assert_double_eq(sl_json_number(job->stats, "seconds"), 2);
    ck_assert_double_eq(sl_json_number(job->stats, "rates.batches"), 2.5);
    ck_assert(isnan(sl_json_number(job->stats, "loss")));
    ck_assert(isnan(sl_json_number(job->stats, "rates.batches.more")));
    ck_assert(isnan(sl_json_number(job->stats, "no.such")));
    ck_assert_str_eq(sl_json_string(job->stats, "job"), "a");
    ck_assert_str_eq(sl_json_string(job->stats, "seconds"), "");
}

TEST(what_is_no_line_of_statistics_is_left)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "null",
        "{\"schema\":\"sluice.stats/2\",\"job\":\"a\"}",
        "{\"schema\":\"sluice.stats/1\"}",
        "{\"schema\":\"sluice.stats/1\",\"job\":7}",
        "{\"schema\":\"sluice.event/1\",\"job\":\"a\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_ptr_null(sl_job_stats_on_line(&store, "1", bad[i], 1));
    ck_assert_uint_eq(store.n_jobs, 0);
}

TEST(a_job_is_found_by_number_first_then_by_name_the_newest)
{
    take("1", "a", 1);
    take("2", "1", 1); // a job named like another one's number
    take("3", "a", 1);
    ck_assert_str_eq(sl_job_stats_find(&store, "1")->key, "1");
    ck_assert_str_eq(sl_job_stats_find(&store, "a")->key, "3");
    ck_assert_ptr_null(sl_job_stats_find(&store, "b"));
    ck_assert_ptr_null(sl_job_stats_find(&store, ""));
}

TEST(a_job_without_a_number_has_the_number_0)
{
    ck_assert_str_eq(take("", "a", 1)->key, "0");
    ck_assert_ptr_nonnull(sl_job_stats_find(&store, "0"));
    sl_job_stats_end(&store, "");
    ck_assert(sl_job_stats_find(&store, "0")->over);
    ck_assert(!take("", "a", 2)->over);
}

TEST(the_number_of_jobs_is_bounded_and_the_silent_one_goes)
{
    char key[16];
    for (int i = 0; i < SL_JOB_STATS_JOBS_MAX; i++) {
        snprintf(key, sizeof key, "%d", i + 1);
        take(key, "a", i == 7 ? 0 : 10 + i);
    }
    ck_assert_ptr_nonnull(take("next", "b", 1000));
    ck_assert_uint_eq(store.n_jobs, SL_JOB_STATS_JOBS_MAX);
    ck_assert_ptr_null(sl_job_stats_find(&store, "8"));
    ck_assert_ptr_nonnull(sl_job_stats_find(&store, "7"));
    ck_assert_ptr_nonnull(sl_job_stats_find(&store, "9"));
}

TEST(the_history_keeps_the_newest_in_order)
{
    struct sl_job_stats_job *job = NULL;
    for (int i = 0; i < SL_HISTORY_LINES + 5; i++)
        job = take("1", "a", i);
    cJSON *tree = history(job);
    const cJSON *seconds = cJSON_GetObjectItem(tree, "seconds");
    ck_assert_int_eq(cJSON_GetArraySize(seconds), SL_HISTORY_LINES);
    ck_assert_uint_eq(job->history->first, 5);
    ck_assert_double_eq(cJSON_GetArrayItem(seconds, 0)->valuedouble, 5);
    ck_assert_double_eq(cJSON_GetArrayItem(seconds, SL_HISTORY_LINES - 1)->valuedouble,
                        SL_HISTORY_LINES + 4);
    ck_assert(cJSON_IsNull(cJSON_GetArrayItem(cJSON_GetObjectItem(tree, "loss"), 0)));
    ck_assert_double_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(tree, "batches"), 3)->valuedouble,
                        2.5);
    cJSON_Delete(tree);
}

TEST(a_line_that_comes_twice_is_kept_once_whatever_the_clock)
{
    // Once it was kept it is not again; a clock that was set back is no reason to stop.
    static const struct {
        double time;
        size_t n;
    } lines[] = {{5000, 1}, {5000, 1}, {5001, 2}, {4999, 2}, {1000, 3}, {1000, 3}, {1001, 4}};
    struct sl_stats_history *h = calloc(1, sizeof *h);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        cJSON *line = cJSON_CreateObject();
        cJSON_AddNumberToObject(line, "time", lines[i].time);
        sl_stats_history_add(h, line);
        cJSON_Delete(line);
        ck_assert_uint_eq(h->n, lines[i].n);
    }
    free(h);
}

// --- the feed ------------------------------------------------------------------------------------

TEST(the_list_s_word_on_a_state_goes_before_the_line_s)
{
    static const char line[] = "{\"schema\":\"sluice.stats/1\",\"job\":\"a\",\"state\":\"%s\"}";
    char json[128];
    snprintf(json, sizeof json, line, "running");
    sl_job_stats_on_line(&store, "1", json, 1);
    ck_assert_str_eq(sl_job_stats_state(&store, "1"), "running");
    sl_job_stats_on_entry(&store, "{\"id\":\"1\",\"name\":\"a\",\"state\":\"finishing\"}");
    sl_job_stats_on_line(&store, "1", json, 2);
    ck_assert_str_eq(sl_job_stats_state(&store, "1"), "finishing");
    // Without a daemon there is only the line.
    sl_job_stats_on_line(&store, "", json, 1);
    snprintf(json, sizeof json, line, "paused");
    sl_job_stats_on_line(&store, "", json, 2);
    ck_assert_str_eq(sl_job_stats_state(&store, "0"), "paused");
    ck_assert_str_eq(sl_job_stats_state(&store, "9"), "");
}

TEST(what_is_no_entry_and_no_list_changes_no_state)
{
    static const char *const bad[] = {"",
                                      "[",
                                      "null",
                                      "{}",
                                      "{\"id\":\"1\",\"state\":\"done\"}",
                                      "{\"id\":\"1\",\"name\":\"a\",\"state\":7}"};
    sl_job_stats_set_state(&store, "1", "a", "running");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sl_job_stats_on_entry(&store, bad[i]);
        sl_job_stats_on_list(&store, bad[i]);
    }
    sl_job_stats_on_list(&store, "{\"schema\":\"sluice.other/1\",\"jobs\":[]}");
    ck_assert_uint_eq(store.n_states, 1);
    ck_assert_str_eq(sl_job_stats_state(&store, "1"), "running");
}

TEST(states_are_bounded_and_the_oldest_end_goes)
{
    char key[16];
    for (int i = 0; i < SL_JOB_STATS_STATES_MAX + 5; i++) {
        snprintf(key, sizeof key, "%d", i);
        sl_job_stats_set_state(&store, key, "a", i % 10 == 3 ? "done" : "queued");
    }
    ck_assert_uint_eq(store.n_states, SL_JOB_STATS_STATES_MAX);
    ck_assert_str_eq(sl_job_stats_state(&store, "3"), "");
    ck_assert_str_eq(sl_job_stats_state(&store, "43"), "");
    ck_assert_str_eq(sl_job_stats_state(&store, "53"), "done");
    ck_assert_str_eq(sl_job_stats_state(&store, "0"), "queued");
    for (int i = 0; i < SL_JOB_STATS_STATES_MAX; i++) // nobody is over: the first one goes
        sl_job_stats_set_state(&store, store.states[i].key, "a", "queued");
    sl_job_stats_set_state(&store, "x", "a", "queued");
    ck_assert_str_eq(sl_job_stats_state(&store, "0"), "");
    ck_assert_str_eq(sl_job_stats_state(&store, "x"), "queued");
}

static const char *read_all(struct sl_feed_place *place)
{
    static char text[4096];
    ssize_t n = sl_feed_read(&feed, place, text, sizeof text - 1);
    if (n < 0)
        return "behind";
    text[n] = '\0';
    return text;
}

TEST(a_listener_hears_what_comes_after_it)
{
    struct sl_feed_place place;
    sl_feed_push(&feed, "1", "stats", "{\"a\":1}");
    sl_feed_join(&feed, "", &place);
    ck_assert(!sl_feed_ready(&feed, &place));
    sl_feed_push(&feed, "1", "stats", "{\"a\":2}");
    sl_feed_push(&feed, "", "ping", "{}");
    ck_assert(sl_feed_ready(&feed, &place));
    ck_assert_str_eq(read_all(&place),
                     "event: stats\ndata: {\"a\":2}\n\nevent: ping\ndata: {}\n\n");
    ck_assert_str_eq(read_all(&place), "");
}

TEST(a_listener_of_one_job_hears_of_that_and_of_all)
{
    struct sl_feed_place place;
    sl_feed_join(&feed, "2", &place);
    sl_feed_push(&feed, "1", "stats", "1");
    ck_assert(!sl_feed_ready(&feed, &place));
    sl_feed_push(&feed, "2", "stats", "2");
    sl_feed_push(&feed, "22", "stats", "22");
    sl_feed_push(&feed, "", "ping", "{}");
    ck_assert_str_eq(read_all(&place), "event: stats\ndata: 2\n\nevent: ping\ndata: {}\n\n");
}

TEST(a_message_may_be_taken_in_parts)
{
    struct sl_feed_place place;
    char got[128] = "", part[4];
    sl_feed_join(&feed, "", &place);
    sl_feed_push(&feed, "", "ping", "{\"x\": 12345}");
    for (ssize_t n; (n = sl_feed_read(&feed, &place, part, 3)) > 0;)
        strncat(got, part, (size_t)n);
    ck_assert_str_eq(got, "event: ping\ndata: {\"x\": 12345}\n\n");
}

TEST(a_line_break_in_json_does_not_end_the_event)
{
    struct sl_feed_place place;
    sl_feed_join(&feed, "", &place);
    sl_feed_push(&feed, "", "epoch", "{\r\n\"a\":1\n}");
    ck_assert_str_eq(read_all(&place), "event: epoch\ndata: {  \"a\":1 }\n\n");
}

TEST(who_is_too_slow_falls_behind)
{
    struct sl_feed_place slow, quick;
    sl_feed_join(&feed, "", &slow);
    sl_feed_join(&feed, "", &quick);
    for (int i = 0; i < SL_FEED_MESSAGES; i++) {
        sl_feed_push(&feed, "", "ping", "{}");
        ck_assert_str_ne(read_all(&quick), "behind");
    }
    ck_assert(sl_feed_ready(&feed, &slow)); // the oldest message is just still there
    sl_feed_push(&feed, "", "ping", "{}");
    ck_assert(sl_feed_ready(&feed, &slow));
    ck_assert_str_eq(read_all(&slow), "behind");
    ck_assert_str_ne(read_all(&quick), "behind");
}

TEST(a_message_that_was_begun_and_is_gone_is_not_continued)
{
    struct sl_feed_place place;
    char part[8];
    sl_feed_join(&feed, "", &place);
    sl_feed_push(&feed, "", "ping", "{}");
    ck_assert_int_eq(sl_feed_read(&feed, &place, part, sizeof part), sizeof part);
    for (int i = 0; i < SL_FEED_MESSAGES; i++)
        sl_feed_push(&feed, "", "ping", "{}");
    ck_assert_str_eq(read_all(&place), "behind");
}

TEST(the_bytes_are_bounded)
{
    size_t large = SL_FEED_BYTES_MAX / 4;
    char *json = calloc(1, SL_FEED_BYTES_MAX + 1);
    ck_assert_ptr_nonnull(json);
    memset(json, '1', large);
    for (int i = 0; i < 20; i++) {
        sl_feed_push(&feed, "", "ping", json);
        ck_assert_uint_le(feed.bytes, SL_FEED_BYTES_MAX);
    }
    ck_assert_uint_eq(feed.head - feed.tail, 3);
    memset(json, '1', SL_FEED_BYTES_MAX);
    uint64_t head = feed.head;
    sl_feed_push(&feed, "", "ping", json); // larger than all of the ring
    ck_assert_uint_eq(feed.head, head);
    free(json);
}

RUN_TESTS(.setup = begin, .teardown = end, .timeout_s = 60)
