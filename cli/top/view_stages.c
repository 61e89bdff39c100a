// view_stages.c - what a batch spends its time on: every stage, and how its times are spread.
#include <math.h>
#include <stdio.h>

#include "cli/top/charts.h"
#include "common/text/units.h"
#include "cli/top/view_internal.h"
#include "common/base/bits.h"

struct stage_text {
    const char *name, *about;
    int style;
};

static const struct stage_text stage_texts[SL_LIVE_STAGES] = {
    [SL_LIVE_SAMPLE] = {"sample", "draw neighbours", SL_SAMPLERS_STYLE},
    [SL_LIVE_MARK] = {"mark", "ranks for the cache", SL_SAMPLERS_STYLE},
    [SL_LIVE_COPY] = {"copy", "block into the queue", SL_SAMPLERS_STYLE},
    [SL_LIVE_EXTRACT] = {"extract", "gather features", SL_TRAINERS_STYLE},
    [SL_LIVE_TRAIN] = {"train", "forward and backward", SL_TRAINERS_STYLE},
    [SL_LIVE_EVALUATE] = {"evaluate", "forward only", SL_TRAINERS_STYLE},
    [SL_LIVE_WAIT] = {"wait", "for a batch or update", SL_TRAINERS_STYLE},
    [SL_LIVE_BACKPRESSURE] = {"blocked", "for memory in the queue", SL_SAMPLERS_STYLE},
};

enum { NAME = 9, PERCENT = 6, NUMBER = 9, NUMBERS = 5, ABOUT = 24 };
enum { HISTOGRAM_ROWS_MIN = 12, HISTOGRAM_ROWS_MAX = 20, FACT_ROWS = 8 };

static void draw_stage_titles(struct sl_area a, int bar)
{
    static const char *const titles[NUMBERS] = {"p50", "p99", "per s", "count", "time"};
    sl_area_text(a, 0, 0, SL_STYLE_DIM, "stage");
    sl_area_text(a, NAME, 0, SL_STYLE_DIM, "busy");
    for (int i = 0; i < NUMBERS; i++)
        sl_area_right(sl_area_part(a, 0, 0, NAME + bar + PERCENT + (i + 1) * NUMBER, 1), 0,
                      SL_STYLE_DIM, titles[i]);
}

static void draw_stage(const struct sl_stats_stage *t, const struct stage_text *text, int bar,
                       struct sl_area a)
{
    char buf[NUMBERS][SL_UNITS_BYTES], percent[SL_UNITS_BYTES];
    sl_area_text(a, 0, 0, SL_STYLE_BOLD, text->name);
    sl_chart_bar(a, NAME, 0, bar, text->style, t->busy);
    sl_area_right(sl_area_part(a, 0, 0, NAME + bar + PERCENT, 1), 0, SL_STYLE_BOLD,
                  sl_units_percent(percent, t->busy));
    sl_units_brief_seconds(buf[0], t->p50);
    sl_units_brief_seconds(buf[1], t->p99);
    sl_units_brief_count(buf[2], t->per_second);
    sl_units_brief_count(buf[3], t->count);
    sl_units_brief_seconds(buf[4], t->seconds);
    for (int i = 0; i < NUMBERS; i++)
        sl_area_right(sl_area_part(a, 0, 0, NAME + bar + PERCENT + (i + 1) * NUMBER, 1), 0,
                      SL_STYLE_PLAIN, buf[i]);
    int x = NAME + bar + PERCENT + NUMBERS * NUMBER + 2;
    if (a.w - x >= ABOUT)
        sl_area_text(a, x, 0, SL_STYLE_DIM, text->about);
}

static double total(const double *counts, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += isfinite(counts[i]) ? counts[i] : 0;
    return sum;
}

// A histogram of the buckets that any stage uses, so that all have the same axis.
static void draw_histogram(const struct sl_stats *s, int h, size_t first, size_t end,
                           struct sl_area a)
{
    char title[64], low[SL_UNITS_BYTES], high[SL_UNITS_BYTES], axis[80];
    static const int styles[SL_STATS_HISTOGRAMS] = {SL_SAMPLERS_STYLE, SL_TRAINERS_STYLE,
                                                    SL_TRAINERS_STYLE, SL_STYLE_PLAIN};
    snprintf(title, sizeof title, "%s", sl_stats_stage_names[sl_stats_histograms[h]]);
    struct sl_area plot = sl_view_heading(a, title);
    size_t n = end - first;
    int each = SL_MAX(1, a.w / (int)SL_MAX(n, (size_t)1));
    if (total(s->counts[h] + first, n) <= 0) {
        sl_area_text(plot, 0, 0, SL_STYLE_DIM, "nothing yet");
        return;
    }
    sl_chart_histogram(sl_area_part(plot, 0, 0, plot.w, plot.h - 1), styles[h],
                       s->counts[h] + first, n, each);
    snprintf(axis, sizeof axis, "%s",
             first > 0 ? sl_units_brief_seconds(low, s->le[first - 1]) : "0");
    sl_area_text(plot, 0, plot.h - 1, SL_STYLE_DIM, axis);
    bool open = !isfinite(s->le[end - 1]);
    snprintf(axis, sizeof axis, "%s%s", open ? "> " : "",
             sl_units_brief_seconds(high, s->le[open && end > 1 ? end - 2 : end - 1]));
    int right = SL_MIN(plot.w, (int)n * each);
    sl_area_right(sl_area_part(plot, 0, plot.h - 1, right, 1), 0, SL_STYLE_DIM, axis);
}

static void draw_histograms(const struct sl_stats *s, struct sl_area a)
{
    size_t first = SL_STATS_BUCKETS_MAX, end = 0;
    for (int h = 0; h < SL_STATS_HISTOGRAMS; h++) {
        for (size_t i = 0; i < s->n_buckets; i++) {
            if (!(s->counts[h][i] > 0))
                continue;
            first = SL_MIN(first, i);
            end = SL_MAX(end, i + 1);
        }
    }
    if (end == 0) {
        first = 0;
        end = s->n_buckets;
    }
    int across = a.w >= 120 || a.h < 8 ? SL_STATS_HISTOGRAMS : 2,
        down = SL_STATS_HISTOGRAMS / across;
    int w = (a.w + 2) / across, h = a.h / down;
    for (int i = 0; i < SL_STATS_HISTOGRAMS && end > first; i++)
        draw_histogram(s, i, first, end, sl_area_part(a, i % across * w, i / across * h, w - 2, h));
}

// --- totals --------------------------------------------------------------------------------------

#define OF(path) offsetof(struct sl_stats, path)

// The first ones matter most.
static const struct {
    const char *name;
    char *(*text)(char *, double);
    size_t at; // of a double
} facts[] = {
    {"batches trained", sl_units_brief_count, OF(totals.batches)},
    {"edges sampled", sl_units_brief_count, OF(totals.edges)},
    {"input nodes", sl_units_brief_count, OF(totals.input_nodes)},
    {"input nodes/s", sl_units_brief_count, OF(rates.input_nodes)},
    {"updates/s", sl_units_brief_count, OF(rates.updates)},
    {"cache hits, all the run", sl_units_percent, OF(cache.hit_rate_total)},
    {"features from the cache/s", sl_units_brief_bytes, OF(bytes.features_cache)},
    {"features from the store/s", sl_units_brief_bytes, OF(bytes.features_store)},
    {"read in peers' memory", sl_units_brief_bytes, OF(totals.peer_bytes)},
    {"blocks/s", sl_units_brief_bytes, OF(bytes.blocks)},
    {"blocks near/s", sl_units_brief_bytes, OF(bytes.blocks_near)},
    {"staleness, mean", sl_units_brief_count, OF(updates.staleness_mean)},
    {"staleness, most", sl_units_brief_count, OF(updates.staleness_max)},
    {"standby trainers switched on", sl_units_brief_count, OF(totals.switches)},
    {"batches drawn again", sl_units_brief_count, OF(totals.resampled)},
    {"batches trained again", sl_units_brief_count, OF(totals.retrained)},
    {"workers started again", sl_units_brief_count, OF(totals.restarts)},
    {"checkpoints", sl_units_brief_count, OF(totals.checkpoints)},
    {"memory", sl_units_brief_bytes, OF(memory.used)},
    {"memory at most", sl_units_brief_bytes, OF(memory.peak)},
    {"memory allowed", sl_units_brief_bytes, OF(memory.limit)},
    {"cores in use", sl_units_brief_count, OF(cpu_load)},
};

// As many as there is room for, in columns; the last place says how many are left out.
static void draw_facts(const struct sl_stats *s, struct sl_area a)
{
    enum { EACH = 36 };
    char value[SL_UNITS_BYTES];
    int across = SL_MAX(1, (a.w + 2) / EACH), w = (a.w + 2) / across;
    const int n = (int)SL_COUNT_OF(facts), room = across * a.h;
    for (int i = 0; i < SL_MIN(n, room); i++) {
        struct sl_area place = sl_area_part(a, i % across * w, i / across, w - 2, 1);
        if (i == room - 1 && room < n) {
            sl_area_printf(place, 0, 0, SL_STYLE_DIM, "and %d more: sluice stats", n - i);
            break;
        }
        const void *number = (const char *)s + facts[i].at;
        sl_area_text(place, 0, 0, SL_STYLE_PLAIN, facts[i].name);
        sl_area_right(place, 0, SL_STYLE_BOLD, facts[i].text(value, *(const double *)number));
    }
}

void sl_view_stages(const struct sl_top_model *m, struct sl_area a)
{
    const struct sl_stats *s = &m->stats;
    if (!m->have_stats) {
        sl_area_text(a, 0, 1, SL_STYLE_PLAIN, "Nothing has been measured yet.");
        return;
    }
    int bar = SL_MAX(6, SL_MIN(30, a.w - NAME - PERCENT - NUMBERS * NUMBER - ABOUT - 2));
    draw_stage_titles(sl_area_part(a, 0, 0, a.w, 1), bar);
    for (int i = 0; i < SL_LIVE_STAGES; i++)
        draw_stage(&s->stages[i], &stage_texts[i], bar, sl_area_part(a, 0, 1 + i, a.w, 1));
    int y = 1 + SL_LIVE_STAGES;
    struct sl_area rest = sl_area_part(a, 0, y + 1, a.w, a.h - y - 1);
    if (rest.h < 5)
        return;
    int fact_rows = SL_MIN(FACT_ROWS, rest.h - HISTOGRAM_ROWS_MIN);
    int drawn = SL_MIN(rest.h - SL_MAX(fact_rows, 0), (int)HISTOGRAM_ROWS_MAX);
    draw_histograms(s, sl_area_part(rest, 0, 0, rest.w, drawn));
    if (fact_rows > 1)
        draw_facts(s, sl_view_heading(sl_area_part(rest, 0, drawn + 1, rest.w, rest.h - drawn - 1),
                                      "since the job began"));
}
