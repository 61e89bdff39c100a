/*
 * report_chart.c - a run's curves, stages and epochs as SVG.
 *
 * A chart has a width of its own (viewBox) and is scaled to the page's. Words that may be long
 * stand in HTML beside it; numbers in it are short, and left out where they would run into others.
 */
#include "cli/report_chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_view.h"
#include "cli/run_summary.h"
#include "cli/stats_text.h"
#include "common/base/bits.h"
#include "common/text/json.h"
#include "common/text/units.h"

enum { PAGE_WIDTH = 1120, CURVE_WIDTH = 560 }; // of pictures

// Whether a value can be drawn: infinities are not known, and differences must not overflow.
static bool drawable(double value)
{
    return fabs(value) < 1e300;
}

static double known(double value)
{
    return drawable(value) ? value : 0;
}

static double clamp(double value, double low, double high)
{
    return SL_MIN(SL_MAX(value, low), high);
}

// 1, 2 or 5 times a power of ten, so that at most `steps` of them make the span.
static double nice_step(double span, int steps)
{
    double raw = span / steps;
    if (!(raw > 1e-300 && raw < 1e300))
        return 1;
    double power = pow(10, floor(log10(raw)));
    for (int m = 1; m <= 5; m += m == 1 ? 1 : 3)
        if (m * power >= raw)
            return m * power;
    return 10 * power;
}

// A narrow screen moves a wide picture to and fro instead of making it too small to read.
static void begin_svg(struct sl_text *t, int width, int height, const char *name)
{
    sl_text_printf(t, "<div class=\"plot%s\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                   width == PAGE_WIDTH ? " wide" : "", width, height);
    sl_text_markup(t, name);
    sl_text_puts(t, "\">\n");
}

static void end_svg(struct sl_text *t)
{
    sl_text_puts(t, "</svg></div>\n");
}

static void put_line(struct sl_text *t, double x1, double y1, double x2, double y2)
{
    sl_text_printf(t, "<path class=\"axis\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x1, y1, x2, y2);
}

// anchor: start, middle or end.
static void put_tick(struct sl_text *t, double x, double y, const char *anchor, const char *text)
{
    sl_text_printf(t, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y,
                   anchor);
    sl_text_markup(t, text);
    sl_text_puts(t, "</text>\n");
}

// A bar; `hint` is shown by who points at it, and read aloud.
static void put_bar(struct sl_text *t, const char *colour, const double box[4], const char *hint)
{
    sl_text_printf(t,
                   "<rect class=\"%s\" fill=\"currentColor\" x=\"%.1f\" y=\"%.1f\" "
                   "width=\"%.1f\" height=\"%.1f\"><title>",
                   colour, box[0], box[1], SL_MAX(box[2], 0.3), SL_MAX(box[3], 0));
    sl_text_markup(t, hint);
    sl_text_puts(t, "</title></rect>\n");
}

// --- curves by epoch -----------------------------------------------------------------------------

struct curve {
    const char *name, *path, *style;
};

struct frame {
    double low, high; // of the values
    int n;            // epochs
};

enum { CURVE_HEIGHT = 210, LEFT = 58, RIGHT = 12, TOP = 8, BOTTOM = 182 };
enum { DOTS_MOST = 200 }; // epochs whose values have a dot each

static struct frame frame_of(const cJSON *epochs, const struct curve *curves, size_t n)
{
    struct frame f = {INFINITY, -INFINITY, cJSON_GetArraySize(epochs)};
    const cJSON *e;
    for (size_t i = 0; i < n; i++) {
        cJSON_ArrayForEach(e, epochs)
        {
            double value = sl_json_number(e, curves[i].path);
            if (!drawable(value))
                continue;
            f.low = SL_MIN(f.low, value);
            f.high = SL_MAX(f.high, value);
        }
    }
    double pad = f.high > f.low ? 0.05 * (f.high - f.low) : f.high != 0 ? fabs(f.high) / 2 : 1;
    f.low -= pad;
    f.high += pad;
    return f;
}

static double curve_x(const struct frame *f, int i)
{
    return LEFT + (CURVE_WIDTH - LEFT - RIGHT) * (f->n > 1 ? (double)i / (f->n - 1) : 0.5);
}

static double curve_y(const struct frame *f, double value)
{
    double range = f->high - f->low;
    return TOP + (BOTTOM - TOP) * (range > 0 ? (f->high - value) / range : 0.5);
}

static void put_axes(struct sl_text *t, const struct frame *f)
{
    char text[SL_UNITS_BYTES];
    double step = nice_step(f->high - f->low, 5), first = ceil(f->low / step);
    for (int i = 0; i < 8 && (first + i) * step <= f->high; i++) {
        double y = curve_y(f, (first + i) * step);
        put_line(t, LEFT, y, CURVE_WIDTH - RIGHT, y);
        snprintf(text, sizeof text, "%.6g", (first + i) * step);
        put_tick(t, LEFT - 6, y + 4, "end", text);
    }
    int every = (int)SL_MAX(nice_step(f->n, 10), 1);
    for (int i = 0; i < f->n; i += every) {
        snprintf(text, sizeof text, "%d", i + 1);
        put_tick(t, curve_x(f, i), BOTTOM + 18, "middle", text);
    }
}

// Epochs of which nothing is known are gaps.
static void put_curve(struct sl_text *t, const cJSON *epochs, const struct frame *f,
                      const struct curve *c)
{
    struct sl_text dots = {0};
    const cJSON *e;
    int i = 0;
    bool drawing = false;
    sl_text_printf(t, "<g class=\"%s\"><path class=\"path\" d=\"", c->style);
    cJSON_ArrayForEach(e, epochs)
    {
        double value = sl_json_number(e, c->path), x = curve_x(f, i++);
        bool there = drawable(value);
        if (there)
            sl_text_printf(t, "%s%.1f %.1f", drawing ? "L" : "M", x, curve_y(f, value));
        if (there && f->n <= DOTS_MOST)
            sl_text_printf(&dots,
                           "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\">"
                           "<title>epoch %.0f: %s %.4f</title></circle>\n",
                           x, curve_y(f, value), known(sl_json_number(e, "epoch")) + 1, c->name,
                           value);
        drawing = there;
    }
    sl_text_puts(t, "\"/>\n");
    if (dots.s)
        sl_text_add(t, dots.s, dots.n);
    t->failed = t->failed || dots.failed;
    sl_text_fini(&dots);
    sl_text_puts(t, "</g>\n");
}

// With the newest value; nothing where there is none.
static void put_legend(struct sl_text *t, const cJSON *epochs, const struct curve *c)
{
    const cJSON *e;
    double newest = NAN;
    cJSON_ArrayForEach(e, epochs)
    {
        double value = sl_json_number(e, c->path);
        newest = drawable(value) ? value : newest;
    }
    if (drawable(newest))
        sl_text_printf(t, "<span class=\"%s\"><i></i>%s <b>%.4f</b></span> ", c->style, c->name,
                       newest);
}

static void put_plot(struct sl_text *t, const cJSON *epochs, const char *title,
                     const struct curve *curves, size_t n)
{
    struct frame f = frame_of(epochs, curves, n);
    if (!(f.low <= f.high))
        return;
    sl_text_puts(t, "<section class=\"card\"><h2>");
    sl_text_markup(t, title);
    sl_text_puts(t, " <small>by epoch</small></h2>\n<p class=\"legend\">");
    for (size_t i = 0; i < n; i++)
        put_legend(t, epochs, &curves[i]);
    sl_text_puts(t, "</p>\n");
    begin_svg(t, CURVE_WIDTH, CURVE_HEIGHT, title);
    put_axes(t, &f);
    for (size_t i = 0; i < n; i++)
        put_curve(t, epochs, &f, &curves[i]);
    end_svg(t);
    sl_text_puts(t, "</section>\n");
}

void sl_report_chart_curves(struct sl_text *t, const struct sl_read_report *r)
{
    const char *metric = sl_report_view_metric(r);
    char val[128], test[128], score[128];
    snprintf(val, sizeof val, "val.%s", metric);
    snprintf(score, sizeof score, "Evaluation: %s", metric);
    snprintf(test, sizeof test, "test.%s", metric);
    const struct curve losses[] = {{"training", "loss", "c-trainer"},
                                   {"validation", "val.loss", "c-sampler s2"}};
    const struct curve scores[] = {{"training accuracy", "train_accuracy", "c-trainer"},
                                   {"validation", val, "c-sampler s2"},
                                   {"test", test, "c-cache s3"}};
    put_plot(t, r->of.epochs, "Loss", losses, SL_COUNT_OF(losses));
    put_plot(t, r->of.epochs, score, scores, SL_COUNT_OF(scores));
}

// --- stages --------------------------------------------------------------------------------------

enum { STAGE_HEIGHT = 22, MEDIANS = 290, SHARES = 710, BAR_MOST = 330 };

// most[1] is 1: shares are drawn on the whole, whose rest is shown too.
static void put_stage(struct sl_text *t, double y, const struct sl_stage_text *stage,
                      const double value[2], const double most[2])
{
    static const int at[2] = {MEDIANS, SHARES};
    const char *colour = stage->samplers ? "c-sampler" : "c-trainer";
    char said[2][SL_UNITS_BYTES];
    sl_units_seconds(said[0], value[0]);
    snprintf(said[1], sizeof said[1], "%.0f %%", 100 * value[1]);
    sl_text_printf(t,
                   "<text x=\"0\" y=\"%.1f\" class=\"strong\">%s <tspan class=\"dim\" "
                   "font-weight=\"400\">%s</tspan></text>\n",
                   y + 13, sl_stats_stage_names[stage->stage], stage->what);
    sl_text_printf(t, "<rect class=\"track\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>\n",
                   SHARES, y, BAR_MOST, STAGE_HEIGHT - 6);
    for (int i = 0; i < 2; i++) {
        double width = most[i] > 0 ? BAR_MOST * value[i] / most[i] : 0;
        put_bar(t, colour, (double[]){at[i], y, width, STAGE_HEIGHT - 6}, said[i]);
        put_tick(t, at[i] + (i == 0 ? width : BAR_MOST) + 6, y + 12, "start", said[i]);
    }
}

void sl_report_chart_stages(struct sl_text *t, const struct sl_read_report *r)
{
    double value[SL_LIVE_STAGES][2], most[2] = {0, 1};
    int n = 0;
    for (int i = 0; i < SL_LIVE_STAGES; i++) {
        struct sl_report_stage sum =
            sl_run_summary_stage(r, sl_stats_stage_names[sl_stage_texts[i].stage]);
        value[i][0] = sum.p50 > 0 ? sum.p50 : 0;
        const double share = sl_run_summary_share(r, &sl_stage_texts[i], sum.seconds);
        value[i][1] = share > 0 ? share : 0; // an older report does not say how long workers lived
        most[0] = SL_MAX(most[0], value[i][0]);
        n += value[i][1] > 0;
    }
    if (n == 0)
        return;
    sl_text_puts(t, "<section class=\"card\"><h2>Stages <small>what a batch takes in each, and "
                    "what each takes of the time of its workers; features are gathered a batch "
                    "ahead, beside training</small></h2>\n");
    begin_svg(t, PAGE_WIDTH, 24 + STAGE_HEIGHT * n, "Stages");
    put_tick(t, MEDIANS, 12, "start", "median of a batch");
    put_tick(t, SHARES, 12, "start", "of the time of the samplers, or of the trainers");
    for (int i = 0, row = 0; i < SL_LIVE_STAGES; i++)
        if (value[i][1] > 0)
            put_stage(t, 22 + STAGE_HEIGHT * row++, &sl_stage_texts[i], value[i], most);
    end_svg(t);
    sl_text_puts(t, "</section>\n");
}

// --- epochs on a time axis -----------------------------------------------------------------------

enum {
    AXIS = 70,
    AXIS_WIDTH = PAGE_WIDTH - AXIS - 6,
    BAR_HEIGHT = 150,
    FLAGS_LISTED = 20,
    LANE = 19
};

// What changed while the job ran.
struct flag {
    double seconds; // since its begin
    bool bad;
    char *words; // owned
};

struct flags {
    struct flag *all;
    int n, lanes;
    int lane[FLAGS_LISTED]; // of those that are listed
};

struct time_axis {
    double whole, scale; // seconds; pixels a second
    double most;         // batches a second
    double top, bottom;
};

static double time_x(const struct time_axis *a, double seconds)
{
    return AXIS + a->scale * clamp(seconds, 0, a->whole);
}

// Epochs are laid end to end behind the start.
static double first_begin(const struct sl_read_report *r)
{
    return known(r->of.start_seconds) + known(r->of.cache.presample_seconds);
}

static double seconds_of(const struct sl_report_epoch *e)
{
    return SL_MAX(known(e->seconds), 0) + SL_MAX(known(e->evaluate_seconds), 0);
}

static double rate_of(const struct sl_report_epoch *e)
{
    double rate = SL_MAX(known(e->batches), 0) / known(e->seconds);
    return rate > 0 && drawable(rate) ? rate : 0;
}

static void add_flag(struct flags *f, double seconds, bool bad, struct sl_text *words)
{
    char *text = sl_text_take(words);
    if (text)
        f->all[f->n++] = (struct flag){isnan(seconds) ? 0 : seconds, bad, text};
}

static void add_scale(struct flags *f, const struct sl_report_scale *s)
{
    struct sl_text words = {0};
    char took[SL_UNITS_BYTES];
    sl_text_printf(&words, "the %s ", s->by);
    if (s->ok)
        sl_text_printf(&words,
                       "changes the split from %.0f + %.0f to %.0f + %.0f; it held after %s",
                       known(s->from.samplers), known(s->from.trainers), known(s->to.samplers),
                       known(s->to.trainers), sl_units_seconds(took, known(s->took_seconds)));
    else
        sl_text_printf(&words, "asked for %.0f + %.0f: refused, %s", known(s->to.samplers),
                       known(s->to.trainers), s->message);
    add_flag(f, s->seconds, !s->ok, &words);
}

static void add_death(struct flags *f, const struct sl_report_restart *d)
{
    struct sl_text words = {0};
    sl_text_printf(&words, "%s died (%s)%s%s%s", d->worker, d->cause, *d->held ? ", with " : "",
                   d->held, *d->held ? " in hand" : "");
    add_flag(f, d->seconds, true, &words);
}

// Where the first epoch had no ranked cache and a later one has.
static void add_ranking(struct flags *f, const struct sl_read_report *r)
{
    struct sl_text words = {0};
    double begin = first_begin(r);
    size_t i = 0;
    for (; i < r->n_epochs && !r->epochs[i].cache.ranked; i++)
        begin += seconds_of(&r->epochs[i]);
    if (i == 0 || i == r->n_epochs)
        return;
    sl_text_printf(&words, "%s: vertices are ranked, and the caches fill", r->of.cache.policy);
    add_flag(f, begin, false, &words);
}

static int by_seconds(const void *a, const void *b)
{
    const struct flag *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

// Flags of one lane never cover one another.
static void place_flags(struct flags *f, const struct time_axis *a)
{
    double used[FLAGS_LISTED];
    for (int i = 0; i < SL_MIN(f->n, FLAGS_LISTED); i++) {
        double x = time_x(a, f->all[i].seconds);
        int lane = 0;
        while (lane < f->lanes && x - used[lane] < LANE)
            lane++;
        f->lanes = SL_MAX(f->lanes, lane + 1);
        f->lane[i] = lane;
        used[lane] = x;
    }
}

static void find_flags(struct flags *f, const struct sl_read_report *r)
{
    struct sl_report_scale s;
    struct sl_report_restart d;
    int most = cJSON_GetArraySize(r->of.scales) + cJSON_GetArraySize(r->of.restarts) + 1;
    f->all = malloc((size_t)most * sizeof *f->all);
    if (!f->all)
        return;
    SL_FOR_EACH_ENTRY(s, sl_report_scale_fields, r->of.scales)
    {
        add_scale(f, &s);
    }
    SL_FOR_EACH_ENTRY(d, sl_report_restart_fields, r->of.restarts)
    {
        add_death(f, &d);
    }
    add_ranking(f, r);
    qsort(f->all, (size_t)f->n, sizeof *f->all, by_seconds);
}

static void put_flags(struct sl_text *t, const struct flags *f, const struct time_axis *a)
{
    for (int i = 0; i < f->n; i++) {
        double x = time_x(a, f->all[i].seconds);
        bool listed = i < FLAGS_LISTED;
        double y = listed ? a->top - 10 - LANE * f->lane[i] : a->top;
        sl_text_printf(t,
                       "<g class=\"%s\"><path stroke=\"currentColor\" stroke-width=\"1.5\" "
                       "stroke-dasharray=\"4 3\" d=\"M%.1f %.1fV%.1f\"/>",
                       f->all[i].bad ? "c-bad" : "c-queue", x, y, a->bottom);
        if (listed)
            sl_text_printf(t,
                           "<circle fill=\"currentColor\" cx=\"%.1f\" cy=\"%.1f\" r=\"8.5\"/>"
                           "<text class=\"flag\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%d"
                           "</text>",
                           x, y, x, y + 4, i + 1);
        sl_text_puts(t, "</g>\n");
    }
}

static void list_flags(struct sl_text *t, const struct flags *f)
{
    char at[SL_UNITS_BYTES];
    if (f->n == 0)
        return;
    sl_text_puts(t, "<ol>\n");
    for (int i = 0; i < SL_MIN(f->n, FLAGS_LISTED); i++) {
        sl_text_printf(t, "<li>%s: ", sl_units_seconds(at, f->all[i].seconds));
        sl_text_markup(t, f->all[i].words);
        sl_text_puts(t, "</li>\n");
    }
    sl_text_puts(t, "</ol>\n");
    if (f->n > FLAGS_LISTED)
        sl_text_printf(t, "<p class=\"facts\">and %d more, all in words below</p>\n",
                       f->n - FLAGS_LISTED);
}

// Batches a second upward, seconds to the right.
static void put_time_axes(struct sl_text *t, const struct time_axis *a)
{
    char text[SL_UNITS_BYTES];
    double step = nice_step(a->most, 5);
    for (int i = 1; i < 8 && i * step <= a->most; i++) {
        double y = a->bottom - BAR_HEIGHT * i * step / a->most;
        put_line(t, AXIS, y, AXIS + AXIS_WIDTH, y);
        snprintf(text, sizeof text, "%g", i * step);
        put_tick(t, AXIS - 8, y + 4, "end", text);
    }
    put_tick(t, 0, a->bottom - 14, "start", "batches");
    put_tick(t, 0, a->bottom, "start", "a second");
    put_line(t, AXIS, a->bottom, AXIS + AXIS_WIDTH, a->bottom);
    step = nice_step(a->whole, 10);
    for (int i = 0; i <= 10 && i * step <= a->whole; i++) {
        double x = time_x(a, i * step);
        snprintf(text, sizeof text, i ? "%g" : "%g s", i * step);
        put_line(t, x, a->bottom, x, a->bottom + 4);
        put_tick(t, SL_MIN(x, PAGE_WIDTH - 18), a->bottom + 16, "middle", text);
    }
}

static void put_epoch(struct sl_text *t, const struct time_axis *a, const struct sl_report_epoch *e,
                      double begin)
{
    char hint[256], took[SL_UNITS_BYTES];
    double train = SL_MAX(known(e->seconds), 0), batches = known(e->batches);
    double name = known(e->epoch) + 1, standby = known(e->switching.batches);
    double x = time_x(a, begin), width = time_x(a, begin + train) - x;
    double tall = BAR_HEIGHT * rate_of(e) / a->most;
    double helped = batches > 0 ? tall * clamp(standby / batches, 0, 1) : 0;
    double thin = width > 4 ? width - 1 : width;
    snprintf(hint, sizeof hint, "epoch %.0f: %.0f batches in %s, loss %.4f", name, batches,
             sl_units_seconds(took, train), known(e->loss));
    put_bar(t, "c-trainer", (double[]){x, a->bottom - tall + helped, thin, tall - helped}, hint);
    if (helped > 0) {
        snprintf(hint, sizeof hint, "epoch %.0f: %.0f batches by standby trainers", name, standby);
        put_bar(t, "c-standby", (double[]){x, a->bottom - tall, thin, helped}, hint);
    }
    if (known(e->evaluate_seconds) > 0) {
        double end = time_x(a, begin + seconds_of(e)), low = 0.3 * BAR_HEIGHT;
        snprintf(hint, sizeof hint, "epoch %.0f: evaluation, %s", name,
                 sl_units_seconds(took, e->evaluate_seconds));
        put_bar(t, "c-dim", (double[]){x + width, a->bottom - low, end - x - width, low}, hint);
    }
}

// Numbers and splits under the bars, where they do not run into one another.
static void put_names(struct sl_text *t, const struct time_axis *a, const struct sl_read_report *r)
{
    char text[64];
    double last = -INFINITY, begin = first_begin(r);
    put_tick(t, 0, a->bottom + 36, "start", "epoch");
    put_tick(t, 0, a->bottom + 52, "start", "split");
    for (const struct sl_report_epoch *e = r->epochs; e < r->epochs + r->n_epochs; e++) {
        double middle = time_x(a, begin + known(e->seconds) / 2);
        begin += seconds_of(e);
        if (middle - last < 36)
            continue;
        last = middle;
        snprintf(text, sizeof text, "%.0f", known(e->epoch) + 1);
        put_tick(t, middle, a->bottom + 36, "middle", text);
        snprintf(text, sizeof text, "%.0f+%.0f", known(e->samplers), known(e->trainers));
        if (!isnan(e->samplers))
            put_tick(t, middle, a->bottom + 52, "middle", text);
    }
}

static void draw_epochs(struct sl_text *t, const struct sl_read_report *r, struct flags *f)
{
    double end = first_begin(r), at = end;
    struct time_axis a = {.most = 1e-9};
    for (size_t i = 0; i < r->n_epochs; i++) {
        end += seconds_of(&r->epochs[i]);
        a.most = SL_MAX(a.most, rate_of(&r->epochs[i]) * 1.05);
    }
    a.whole = SL_MAX(SL_MAX(known(r->of.wall_seconds), end), 1e-9);
    a.scale = AXIS_WIDTH / a.whole;
    place_flags(f, &a);
    a.top = 8 + LANE * f->lanes;
    a.bottom = a.top + BAR_HEIGHT;
    begin_svg(t, PAGE_WIDTH, (int)a.bottom + 60, "Epochs on a time axis");
    put_time_axes(t, &a);
    for (size_t i = 0; i < r->n_epochs; i++) {
        put_epoch(t, &a, &r->epochs[i], at);
        at += seconds_of(&r->epochs[i]);
    }
    put_names(t, &a, r);
    put_flags(t, f, &a);
    end_svg(t);
}

void sl_report_chart_epochs(struct sl_text *t, const struct sl_read_report *r)
{
    struct flags f = {0};
    sl_text_puts(t, "<section class=\"card\"><h2>Epochs <small>laid end to end; the area of a bar "
                    "is the number of batches trained</small></h2>\n");
    find_flags(&f, r);
    t->failed = t->failed || !f.all;
    if (r->n_epochs > 0 && f.all) {
        sl_text_puts(t, "<p class=\"legend\"><span><span class=\"dot c-trainer\"></span>trained by "
                        "trainers</span> <span><span class=\"dot c-standby\"></span>by standby "
                        "trainers</span> <span><span class=\"dot c-dim\"></span>evaluation</span>"
                        "</p>\n");
        draw_epochs(t, r, &f);
    } else {
        sl_text_puts(t, "<p>No epoch was completed.</p>\n");
    }
    list_flags(t, &f);
    sl_text_puts(t, "</section>\n");
    for (int i = 0; i < f.n; i++)
        free(f.all[i].words);
    free(f.all);
}
