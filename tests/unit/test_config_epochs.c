// How long a job trains that does not say so, and defaults that go with another key's word.
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "tests/unit/suite.h"

#define JOB(rest) "{\"dataset\": \"d\", \"model\": {\"kind\": \"gcn\"}" rest "}"

static struct sl_config config;
static char note[SL_CONFIG_EPOCHS_TEXT];

static int parse(const char *text)
{
    return sl_config_parse(text, strlen(text), "jobs/t.json", &config);
}

// Settles a job for an epoch of so many updates.
static void settle(const char *text, uint64_t updates)
{
    ck_assert_msg(parse(text) == SL_OK, "%s: %s", text, sl_error_message());
    ck_assert_ptr_eq(sl_config_settle_epochs(&config, updates, true, note), note);
    ck_assert(!config.epochs_auto && !config.early_stopping.patience_auto);
}

static void expect(uint32_t epochs, uint32_t patience)
{
    ck_assert_uint_eq(config.epochs, epochs);
    ck_assert_uint_eq(config.early_stopping.patience, patience);
}

TEST(epochs_follow_from_their_updates)
{
    static const struct {
        uint64_t updates;
        uint32_t epochs, patience;
        const char *said;
    } cases[] = {
        {0, 200, 100, "200 epochs of 1 update each"},
        {1, 200, 100, "fewer once 100 evaluations in a row are no better"},
        {2, 200, 100, "200 epochs of 2 updates each"},
        {3, 167, 83, "as many as have 500 updates, but 10 to 200"},
        {5, 100, 50, "100 epochs of 5 updates each"},
        {45, 12, 6, "12 epochs of 45 updates each"},
        // The least: all of them, so that evaluations may overlap with training.
        {50, 10, 0, "10 epochs of 50 updates each"},
        {1u << 30, 10, 0, "10 epochs of 1073741824 updates each"},
        {UINT64_MAX, 10, 0, "10 epochs"},
    };
    for (size_t i = 0; i < SL_COUNT_OF(cases); i++) {
        settle(JOB(""), cases[i].updates);
        expect(cases[i].epochs, cases[i].patience);
        ck_assert_msg(strstr(note, cases[i].said), "\"%s\" is not in: %s", cases[i].said, note);
        ck_assert_int_eq(strstr(note, "fewer once") != NULL, cases[i].patience > 0);
    }
}

TEST(a_number_is_left_as_it_is)
{
    settle(JOB(", \"epochs\": 3"), 1);
    expect(3, 0);
    ck_assert_str_eq(note, "");
    settle(JOB(", \"epochs\": 3, \"early_stopping\": {\"patience\": \"auto\"}"), 1);
    expect(3, 0);
    settle(JOB(", \"epochs\": 3, \"early_stopping\": {\"patience\": 2}"), 1);
    expect(3, 2);
}

TEST(patience_may_be_given_alone)
{
    settle(JOB(", \"early_stopping\": {\"patience\": 7}"), 5);
    expect(100, 7);
    settle(JOB(", \"early_stopping\": {\"patience\": 0}"), 5);
    expect(100, 0);
    ck_assert_ptr_null(strstr(note, "fewer once"));
    // It counts evaluations.
    settle(JOB(", \"evaluate\": {\"every\": 4}"), 5);
    expect(100, 12);
    settle(JOB(", \"evaluate\": {\"every\": 1000}"), 5);
    expect(100, 1);
    settle(JOB(", \"evaluate\": {\"every\": 0}"), 5);
    expect(100, 0);
}

// Where no evaluation can be better than another there is nothing to wait for.
TEST(patience_wants_a_best_evaluation)
{
    ck_assert_int_eq(parse(JOB("")), SL_OK);
    sl_config_settle_epochs(&config, 5, false, note);
    expect(100, 0);
    ck_assert_ptr_null(strstr(note, "fewer once"));
}

// What other keys say of single epochs is trained.
TEST(other_keys_ask_for_epochs)
{
    static const struct {
        const char *text;
        uint32_t epochs;
    } cases[] = {
        {JOB(", \"optimizer\": {\"warmup_epochs\": 12.5}"), 13},
        {JOB(", \"optimizer\": {\"warmup_epochs\": 1000000}"), 1000000},
        {JOB(", \"cache\": {\"policy\": \"presc\", \"presample_epochs\": 30}"), 31},
        {JOB(", \"cache\": {\"policy\": \"presc\", \"presample_epochs\": 999999}"), 1000000},
        {JOB(", \"schedule\": [{\"epoch\": 2, \"samplers\": 1, \"trainers\": 1}, "
             "{\"epoch\": 25, \"samplers\": 1, \"trainers\": 1}]"),
         26},
    };
    for (size_t i = 0; i < SL_COUNT_OF(cases); i++) {
        settle(cases[i].text, 1000);
        expect(cases[i].epochs, 0);
        ck_assert_msg(strstr(note, "other keys need as many"), "%s", note);
        char *text = sl_config_to_json(&config);
        ck_assert_msg(parse(text) == SL_OK, "%s", sl_error_message());
        expect(cases[i].epochs, 0);
        free(text);
    }
    ck_assert_int_eq(
        parse(JOB(", \"cache\": {\"policy\": \"presc\", \"presample_epochs\": 1000000}")),
        SL_EINVAL);
}

// As a job is sent before its data set is opened, and as it is kept after.
TEST(auto_stays_until_it_is_settled)
{
    ck_assert_int_eq(parse(JOB("")), SL_OK);
    char *open = sl_config_to_json(&config);
    ck_assert_ptr_nonnull(strstr(open, "\"epochs\": \"auto\""));
    ck_assert_ptr_nonnull(strstr(open, "\"patience\": \"auto\""));
    settle(open, 5);
    expect(100, 50);
    char *settled = sl_config_to_json(&config);
    ck_assert_ptr_nonnull(strstr(settled, "\"epochs\": 100"));
    ck_assert_ptr_nonnull(strstr(settled, "\"patience\": 50"));
    settle(settled, 1);
    expect(100, 50);
    ck_assert_str_eq(note, "");
    free(open);
    free(settled);
}

TEST(a_default_goes_with_the_kind_of_model)
{
    static const char *const gin = "{\"dataset\": \"d\", \"model\": {\"kind\": \"gin\"%s}}";
    char text[128];
    snprintf(text, sizeof text, gin, "");
    ck_assert_int_eq(parse(text), SL_OK);
    ck_assert_int_eq(config.model.norm, SL_NORM_BATCH);
    ck_assert_int_eq(config.model.degrees, SL_DEGREES_GRAPH);
    ck_assert(sl_config_wants_degrees(&config) && !sl_config_drops_self_loops(&config));
    snprintf(text, sizeof text, gin, ", \"norm\": \"none\", \"degrees\": \"block\"");
    ck_assert_int_eq(parse(text), SL_OK);
    ck_assert_int_eq(config.model.norm, SL_NORM_NONE);
    ck_assert(!sl_config_wants_degrees(&config));
    ck_assert_int_eq(parse(JOB("")), SL_OK);
    ck_assert_int_eq(config.model.norm, SL_NORM_NONE);
    ck_assert(sl_config_wants_degrees(&config) && sl_config_drops_self_loops(&config));
    // The message says both.
    snprintf(text, sizeof text, gin, ", \"norm\": 1");
    ck_assert_int_eq(parse(text), SL_EINVAL);
    ck_assert_msg(strstr(sl_error_message(), "\"none\"; with model.kind \"gin\" \"batch\""), "%s",
                  sl_error_message());
}

TEST(unscaled_sums_may_differ_in_evaluations)
{
    static const struct {
        const char *kind, *rest;
        bool differ;
    } cases[] = {
        {"gin\", \"degrees\": \"block", "", true},
        {"gcn\", \"degrees\": \"block", "", true},
        {"gin", "", false},
        {"graphsage", "", false},
        {"gin\", \"degrees\": \"block", ", \"sampler\": {\"fanout\": [-1, -1, -1]}", false},
        {"gin\", \"degrees\": \"block", ", \"evaluate\": {\"fanout\": [15, 10, 5]}", false},
        {"gin\", \"degrees\": \"block", ", \"evaluate\": {\"fanout\": [15, 10, 9]}", true},
    };
    for (size_t i = 0; i < SL_COUNT_OF(cases); i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"dataset\": \"d\", \"model\": {\"kind\": \"%s\"}%s}",
                 cases[i].kind, cases[i].rest);
        ck_assert_msg(parse(text) == SL_OK, "%s", sl_error_message());
        ck_assert_msg(sl_config_sums_differ(&config) == cases[i].differ, "%s", text);
    }
}

RUN_TESTS()
