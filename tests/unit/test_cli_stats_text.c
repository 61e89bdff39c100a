// A line of statistics as people and spreadsheets read it.
#include "cli/stats_text.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/suite.h"

static const char full[] =
    "{\"schema\": \"sluice.stats/1\", \"time\": 1732180000.125, \"job\": \"sage\", \"id\": \"3\","
    "\"state\": \"running\", \"phase\": \"train\", \"epoch\": 3, \"epochs\": 20, \"done\": 12,"
    "\"total\": 90, \"seconds\": 31.2, \"epoch_seconds\": 1.2, \"seconds_left\": 12.3,"
    "\"loss\": 1.23456, \"metric\": {\"name\": \"accuracy\", \"value\": 0.8125, \"epoch\": 2},"
    "\"best\": {\"value\": 0.82, \"epoch\": 1}, \"samplers\": 1, \"trainers\": 2,"
    "\"standby\": {\"there\": 1, \"awake\": 0}, \"devices\": [],"
    "\"workers\": [{\"name\": \"sampler 0\", \"pid\": 4194304, \"state\": \"working\","
    "\"busy\": 0.9, \"batch\": \"batch 17 of epoch 4\", \"batches_per_second\": 28.1},"
    "{\"name\": \"trainer 0\", \"pid\": null, \"state\": \"waiting\", \"busy\": 0.25,"
    "\"batch\": null, \"batches_per_second\": 14}],"
    "\"stages\": {\"sample\": {\"busy\": 0.9, \"count\": 100, \"seconds\": 1.2, \"per_second\": 28,"
    "\"p50\": 0.01, \"p99\": 0.02}, \"train\": {\"busy\": 0.5, \"count\": 0, \"p50\": null}},"
    "\"rates\": {\"batches\": 28.1, \"edges\": 1e6, \"input_nodes\": 1e5, \"updates\": 0.8},"
    "\"bytes\": {\"blocks\": 1048576, \"blocks_near\": 524288, \"features_cache\": 0, "
    "\"features_store\": 2097152},"
    "\"queue\": {\"batches\": 4, \"bytes\": 123, \"capacity_bytes\": 4096, \"used_bytes\": 2048,"
    "\"sampling\": 1, \"training\": 2},"
    "\"cache\": {\"policy\": \"presc\", \"ranked\": true, \"hit_rate\": 0.52,"
    "\"hit_rate_total\": 0.5},"
    "\"updates\": {\"mode\": \"async\", \"version\": 123, \"staleness_mean\": 0.5,"
    "\"staleness_max\": 2}, \"memory\": {\"used\": 1048576, \"peak\": 2097152, \"limit\": null},"
    "\"totals\": {\"blocks_near_bytes\": 0},"
    "\"nodes\": [{\"rank\": 0, \"host\": \"a\", \"samplers\": 1, \"trainers\": 2,"
    "\"batches_per_second\": 14.2, \"queue\": 3, \"trains\": 0.5, \"waits\": 0.25, \"late\": 0.2,"
    "\"wire\": 0.1, \"received_per_second\": 2097152, \"remote_share\": 0.3,"
    "\"remote_seconds\": 0.002}, {\"rank\": 1, \"host\": null, \"samplers\": null}],"
    "\"cpu_load\": 1.7, \"bottleneck\": \"trainers wait, and \\\"samplers\\\" draw\","
    "\"bottleneck_role\": \"samplers\"}";

// Of a job that has only begun: almost nothing is known.
static const char bare[] =
    "{\"schema\": \"sluice.stats/1\", \"time\": 1732180000, \"job\": \"sage\", \"id\": null,"
    "\"state\": \"starting\", \"phase\": \"start\", \"epoch\": 0, \"epochs\": 20, \"done\": 0,"
    "\"total\": 0, \"loss\": null, \"metric\": null, \"samplers\": 1, \"trainers\": 1,"
    "\"stages\": {}, \"rates\": null, \"queue\": null, \"bottleneck\": null}";

enum form { LINE, NARROW_LINE, LINE_OF_80, BOTTLENECK, PAGE, CSV };

static const char *shown(const char *json, enum form form)
{
    static char *text;
    size_t n;
    struct sl_stats line, *stats = &line;
    ck_assert_int_eq(sl_stats_take(cJSON_Parse(json), stats), 0);
    free(text);
    FILE *f = open_memstream(&text, &n);
    switch (form) {
    case LINE: sl_stats_text_line(stats, 0, f); break;
    case NARROW_LINE: sl_stats_text_line(stats, 36, f); break;
    case LINE_OF_80: sl_stats_text_line(stats, 80, f); break;
    case BOTTLENECK: sl_stats_text_bottleneck(stats, 36, f); break;
    case PAGE: sl_stats_text_page(stats, f); break;
    case CSV:
        sl_stats_text_csv_head(f);
        sl_stats_text_csv(stats, f);
        break;
    }
    fclose(f);
    sl_stats_fini(stats);
    return text;
}

TEST(a_line_says_where_how_fast_and_what_limits)
{
    const char *text = shown(full, LINE);
    ck_assert_str_eq(text + 8, "  sage  epoch 4/20 12/90  28.1 batches/s  loss 1.2346  accuracy "
                               "0.8125  12.3 s left  1S 2T  queue 4  hits 52 %  trainers wait, "
                               "and \"samplers\" draw");
}

TEST(a_line_fits_the_terminal)
{
    // Whole fields are left out, the least important first.
    ck_assert_str_eq(shown(full, NARROW_LINE), "sage  epoch 4/20 12/90  loss 1.2346");
    ck_assert_str_eq(shown(full, LINE_OF_80), "sage  epoch 4/20 12/90  28.1/s  loss 1.2346  "
                                              "accuracy 0.8125  12 s left  1S 2T");
}

TEST(what_limits_it_is_wrapped)
{
    ck_assert_str_eq(shown(full, BOTTLENECK), "   bottleneck trainers wait, and\n"
                                              "              \"samplers\" draw\n");
    ck_assert_str_eq(shown(bare, BOTTLENECK), "");
}

TEST(what_limits_it_is_the_same_with_other_numbers)
{
    const struct sl_stats x = {.bottleneck = "trainers wait 36.5 % of the time"},
                          y = {.bottleneck = "trainers wait 4 % of the time"},
                          z = {.bottleneck = "samplers wait 4 % of the time"};
    char a[64], b[64];
    ck_assert_str_eq(sl_stats_text_bottleneck_kind(&x, a, sizeof a),
                     sl_stats_text_bottleneck_kind(&y, b, sizeof b));
    ck_assert_str_ne(a, sl_stats_text_bottleneck_kind(&z, b, sizeof b));
}

TEST(what_is_not_known_is_left_out)
{
    const char *text = shown(bare, LINE);
    ck_assert_str_eq(text + 8, "  sage  starting  epoch 1/20 start  1S 1T");
    text = shown(bare, PAGE);
    ck_assert_str_eq(text, "sage: starting, epoch 1 of 20\n\nsplit      1 sampler, 1 trainer\n\n");
}

// Of a job without an end, before its first evaluation.
TEST(a_page_of_what_has_no_last_epoch)
{
    const char *text =
        shown("{\"schema\": \"sluice.stats/1\", \"time\": 1732180000, \"job\": \"sage\","
              "\"id\": null, \"state\": \"running\", \"phase\": \"train\", \"epoch\": 6,"
              "\"epochs\": null, \"loss\": 0.5, \"metric\": {\"name\": \"accuracy\","
              "\"value\": null, \"epoch\": null}}",
              PAGE);
    assert_has(text, "sage: running, epoch 7\n");
    assert_has(text, "loss       0.5000, accuracy unknown\n");
}

TEST(a_page_of_links)
{
    const char *text = shown(
        "{\"schema\": \"sluice.stats/1\", \"time\": 1732180000, \"job\": \"shop\","
        "\"id\": null, \"state\": \"running\", \"phase\": \"train\", \"epoch\": 6,"
        "\"epochs\": null, \"loss\": 0.5, \"metric\": {\"name\": \"hits\", \"title\": "
        "\"Hits@20\", \"value\": 0.25, \"epoch\": 5, \"relation\": \"user -likes-> item\"},"
        "\"rates\": {\"batches\": 2, \"edges\": 4, \"positives\": 2000, \"negatives\": 6000}}",
        PAGE);
    assert_has(text, "loss       0.5000, Hits@20 0.2500 after epoch 6 of user -likes-> item\n");
    assert_has(text, "pairs      2.00 k positives/s, 6.00 k negatives/s\n");
}

TEST(a_page_has_it_all)
{
    const char *text = shown(full, PAGE);
    assert_has(text, "sage (job 3): running, epoch 4 of 20 (train, 12 of 90), for 31.2 s, 12.3 s "
                     "left\n\n");
    assert_has(text, "split      1 sampler, 2 trainers, 1 standby trainer (0 awake)\n");
    assert_has(text, "loss       1.2346, accuracy 0.8125 after epoch 3, the best 0.8200 after "
                     "epoch 2\n");
    assert_has(text, "rates      28.1 batches/s, 1.00 M edges/s, 100 k input vertices/s, ");
    assert_has(text, "bytes      blocks 1.00 MiB/s, features 2.00 MiB/s from the store, 0 B/s");
    assert_has(text, "queue      4 batches ready (2.00 KiB of 4.00 KiB used), 1 being drawn, 2 ");
    assert_has(text, "cache      presc: 52.0 % hits now, 50.0 % in all\n");
    assert_has(text, "updates    async: version 123, 0.5 behind on average, 2 at most\n");
    assert_has(
        text, "\n   0  a     1S 2T       14.2      3   50 %  25 %  20 %  10 %     2.0 MiB    30 %  "
              "2.0 ms\n   1        -              -      -      -");
    assert_has(text, "machine    1.00 MiB of memory, 2.00 MiB at most; 1.7 cores busy\n");
    assert_has(text, "bottleneck trainers wait, and \"samplers\" draw\n");
    assert_has(text, "sample  90 %        28  10.0 ms  20.0 ms  samplers draw\n");
    // Whom to kill, or to look at with a debugger.
    assert_has(text, "sampler 0  4194304  working  90 %       28.1  batch 17 of epoch 4\n");
    assert_has(text, "trainer 0        -  waiting  25 %         14\n");
    ck_assert_ptr_null(strstr(text, "trainers compute")); // has not happened yet
}

TEST(blocks_that_stay_on_a_gpu_are_told_where_there_are_any)
{
    static const char before[] = "\"blocks_near_bytes\": 0";
    char *line = strdup(full), *at = strstr(line, before);
    ck_assert_ptr_nonnull(at);
    at[sizeof before - 2] = '7';
    assert_has(shown(line, PAGE), "bytes      blocks 1.00 MiB/s (512 KiB/s near), features 2.00 ");
    free(line);
}

// Fields of a line of CSV; `at` counts from 0.
static const char *field(const char *line, int at, char out[256])
{
    size_t n = 0;
    bool quoted = false;
    for (; *line && *line != '\n' && (at > 0 || quoted || *line != ','); line++) {
        if (*line == '"' && !(quoted && line[1] == '"')) {
            quoted = !quoted;
            continue;
        }
        if (*line == '"')
            line++;
        if (!quoted && *line == ',')
            at--;
        else if (at == 0)
            out[n++] = *line;
    }
    out[n] = '\0';
    return out;
}

static int column(const char *head, const char *name)
{
    char found[256];
    for (int i = 0; i < 100; i++)
        if (strcmp(field(head, i, found), name) == 0)
            return i;
    ck_abort_msg("no column %s in %s", name, head);
    return -1;
}

TEST(csv_has_a_value_for_each_name)
{
    static const struct {
        const char *column, *value;
    } wanted[] = {
        {"time", "1732180000.125"},
        {"job", "sage"},
        {"id", "3"},
        {"epoch", "3"},
        {"loss", "1.23456"},
        {"metric_value", "0.8125"},
        {"batches_per_s", "28.1"},
        {"edges_per_s", "1000000"},
        {"sample_p99", "0.02"},
        {"train_p50", ""},
        {"wait_busy", ""},
        {"bottleneck", "trainers wait, and \"samplers\" draw"},
    };
    char text[4096], value[256];
    snprintf(text, sizeof text, "%s", shown(full, CSV));
    const char *values = strchr(text, '\n') + 1;
    ck_assert_int_eq(strncmp(text, "time,job,id,state,phase,epoch,epochs,done,total,", 48), 0);
    for (size_t i = 0; i < SL_COUNT_OF(wanted); i++)
        ck_assert_str_eq(field(values, column(text, wanted[i].column), value), wanted[i].value);
}

TEST(csv_of_little_has_as_many_fields)
{
    char text[4096];
    int commas[2] = {0};
    snprintf(text, sizeof text, "%s", shown(bare, CSV));
    int line = 0;
    for (const char *p = text; *p; p++) {
        commas[line] += *p == ',';
        line += *p == '\n' && line == 0;
    }
    ck_assert_int_gt(commas[0], 40);
    ck_assert_int_eq(commas[0], commas[1]);
}

RUN_TESTS(IN_A_DIRECTORY, .timeout_s = 60)
