/*
 * view_overview.c - the pipeline as a picture, and what it does over time.
 *
 *   samplers -> queue -> trainers      a box each: busy, times of a batch, rates
 *   bottleneck                         in words, with what would help
 *   nodes                              of a job on several: who waits for whom
 *   devices                            load, memory, roles
 *   links                              where GPUs read what they hold together
 *   curves                             queue, rate, loss, waiting over the last minutes
 *   events                             the newest ones
 *
 * WHO GETS THE ROWS. Sections stand in a table with the rows that they need at least, want to be of
 * use, and like to have. First each gets what it needs, in the order of the table; one that does
 * not fit is left out. Then each gets what it wants, then what it likes, in the same order; what is
 * left over goes to the events.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/top/charts.h"
#include "common/text/units.h"
#include "cli/top/view_internal.h"
#include "common/base/bits.h"

enum {
    BOX_ROWS = 9,
    BOX_WORKERS_MAX = 8,
    NUMBER_COLUMNS = 7,
    PERCENT_COLUMNS = 6,
    NARROW = 76,     // below: shorter arrows, p50 alone
    WIDE = 120,      // from here on curves stand side by side
    VERY_WIDE = 150, // and there are four of them
    CURVE_ROWS = 6,
    OTHER_ROWS = 28, // of a large terminal, for all but the curves
    LINK_ROWS = 28,  // of the overview: with fewer, links are with the workers alone
    WITH_BATCH = 46, // columns of a box from which a worker's line says what it has in hand
    BATCH_COLUMNS = 22,
};

// --- boxes of the picture ------------------------------------------------------------------------

static void draw_busy(struct sl_area a, int y, int style, const char *label, double share)
{
    char percent[SL_UNITS_BYTES];
    int x = sl_area_text(a, 0, y, SL_STYLE_PLAIN, label) + 1;
    sl_chart_bar(a, x, y, a.w - x - PERCENT_COLUMNS, style, share);
    sl_area_right(a, y, SL_STYLE_BOLD, sl_units_percent(percent, share));
}

// p50 and p99, or p50 alone where both have no room beside the label.
static void draw_pair(struct sl_area a, int y, int style, const char *label, const char *left,
                      const char *right)
{
    bool both = a.w >= 3 * NUMBER_COLUMNS;
    int label_columns = a.w - (both ? 2 : 1) * NUMBER_COLUMNS;
    sl_area_field(a, 0, y, label_columns, style, label);
    sl_area_right(sl_area_part(a, 0, y, both ? a.w - NUMBER_COLUMNS : a.w, 1), 0, style, left);
    if (both)
        sl_area_right(a, y, style, right);
}

static void draw_stage(struct sl_area a, int y, const struct sl_stats *s, enum sl_live_stage i)
{
    char p50[SL_UNITS_BYTES], p99[SL_UNITS_BYTES];
    draw_pair(a, y, SL_STYLE_PLAIN, sl_stats_stage_names[i],
              sl_units_brief_seconds(p50, s->stages[i].p50),
              sl_units_brief_seconds(p99, s->stages[i].p99));
}

static void draw_fact(struct sl_area a, int y, const char *label, const char *value)
{
    int x = sl_area_right(a, y, SL_STYLE_BOLD, value);
    sl_area_field(a, 0, y, x - 1, SL_STYLE_PLAIN, label);
}

static bool has_role(const struct sl_stats_worker *w, const char *role, const char *or_role)
{
    return strcmp(w->role, role) == 0 || strcmp(w->role, or_role) == 0;
}

static int workers_of(const struct sl_stats *s, const char *role, const char *or_role)
{
    int n = 0;
    for (size_t i = 0; i < s->n_workers; i++)
        n += has_role(&s->workers[i], role, or_role);
    return n;
}

// Name, how busy it is or why it is not, and where there is room, what it has in hand.
static void draw_box_worker(const struct sl_stats_worker *w, struct sl_area a)
{
    enum { NAME = 11 };
    char percent[SL_UNITS_BYTES];
    bool works = strcmp(w->state, "working") == 0 || strcmp(w->state, "waiting") == 0;
    int style = sl_view_role_style(w->role), in_hand = a.w >= WITH_BATCH ? BATCH_COLUMNS : 0;
    const char *right = works ? sl_units_percent(percent, w->busy) : w->state;
    struct sl_area left = sl_area_part(a, 0, 0, a.w - in_hand, 1);
    int columns = SL_MAX((int)PERCENT_COLUMNS, sl_text_columns(right) + 1);
    sl_area_field(left, 0, 0, NAME - 1, SL_STYLE_PLAIN, w->name);
    sl_chart_bar(left, NAME, 0, left.w - NAME - columns, style, w->busy);
    sl_area_right(left, 0, works ? SL_STYLE_BOLD : SL_STYLE_DIM, right);
    if (in_hand > 0)
        sl_area_field(a, left.w + 2, 0, in_hand - 2, SL_STYLE_DIM, w->batch);
}

// A line for each worker, in what the box has left.
static void draw_box_workers(struct sl_area a, const struct sl_stats *s, const char *role,
                             const char *or_role)
{
    int n = workers_of(s, role, or_role), y = 0;
    for (size_t i = 0; i < s->n_workers && y < a.h; i++) {
        const struct sl_stats_worker *w = &s->workers[i];
        if (!has_role(w, role, or_role))
            continue;
        if (y == a.h - 1 && n > a.h) {
            sl_area_printf(a, 0, y, SL_STYLE_DIM, "and %d more", n - y);
            return;
        }
        draw_box_worker(w, sl_area_part(a, 0, y, a.w, 1));
        y++;
    }
}

static void draw_samplers(const struct sl_stats *s, struct sl_area a)
{
    char title[64], rate[SL_UNITS_BYTES];
    int n = sl_view_count(s->samplers), standby = sl_view_count(s->standby.there);
    snprintf(title, sizeof title, "%s", SL_PLURAL(n, "sampler"));
    a = sl_area_frame(a, SL_SAMPLERS_STYLE, SL_SAMPLERS_STYLE | SL_STYLE_BOLD, title);
    draw_busy(a, 0, SL_SAMPLERS_STYLE, "busy", sl_view_busy(s, "sampler"));
    draw_pair(a, 1, SL_STYLE_DIM, "a batch", "p50", "p99");
    draw_stage(a, 2, s, SL_LIVE_SAMPLE);
    draw_stage(a, 3, s, SL_LIVE_MARK);
    draw_stage(a, 4, s, SL_LIVE_COPY);
    draw_fact(a, 5, "edges/s", sl_units_brief_count(rate, s->rates.edges));
    if (standby > 0) {
        char text[32];
        snprintf(text, sizeof text, "%d of %d train", sl_view_count(s->standby.awake), standby);
        draw_fact(a, 6, "standby", text);
    } else {
        draw_fact(a, 6, "blocked", sl_units_percent(rate, s->stages[SL_LIVE_BACKPRESSURE].busy));
    }
    draw_box_workers(sl_area_part(a, 0, 7, a.w, a.h - 7), s, "sampler", "sampler");
}

static void draw_queue(const struct sl_stats *s, struct sl_area a)
{
    char text[SL_UNITS_BYTES], whole[SL_UNITS_BYTES];
    a = sl_area_frame(a, SL_STYLE_PLAIN, SL_STYLE_BOLD, "queue");
    draw_fact(a, 0, "batches ready", sl_units_whole(text, s->queue.batches));
    draw_fact(a, 1, "being sampled", sl_units_whole(text, s->queue.sampling));
    draw_fact(a, 2, "in training", sl_units_whole(text, s->queue.training));
    draw_busy(a, 3, SL_STYLE_PLAIN, "memory",
              s->queue.capacity_bytes > 0 ? s->queue.used_bytes / s->queue.capacity_bytes : NAN);
    sl_area_printf(a, 0, 4, SL_STYLE_PLAIN, "%s of %s",
                   sl_units_brief_bytes(text, s->queue.used_bytes),
                   sl_units_brief_bytes(whole, s->queue.capacity_bytes));
    draw_fact(a, 5, "batches/s", sl_units_brief_count(text, s->rates.batches));
    draw_fact(a, 6, "bytes/s", sl_units_brief_bytes(text, s->bytes.blocks));
    int y = 7;
    if (a.h > y && s->totals.blocks_near_bytes > 0)
        draw_fact(a, y++, "near/s", sl_units_brief_bytes(text, s->bytes.blocks_near));
    if (a.h > y && isfinite(s->rates.positives))
        draw_fact(a, y++, "pairs/s",
                  sl_units_brief_count(text, s->rates.positives + s->rates.negatives));
    if (a.h > y)
        draw_fact(a, y++, "updates/s", sl_units_brief_count(text, s->rates.updates));
    if (a.h > y)
        draw_fact(a, y, "blocked", sl_units_percent(text, s->stages[SL_LIVE_BACKPRESSURE].busy));
}

static void draw_trainers(const struct sl_stats *s, struct sl_area a)
{
    char title[64], text[SL_UNITS_BYTES], label[64];
    int n = sl_view_count(s->trainers);
    snprintf(title, sizeof title, "%s", SL_PLURAL(n, "trainer"));
    a = sl_area_frame(a, SL_TRAINERS_STYLE, SL_TRAINERS_STYLE | SL_STYLE_BOLD, title);
    draw_busy(a, 0, SL_TRAINERS_STYLE, "busy", sl_view_busy(s, "trainer"));
    draw_pair(a, 1, SL_STYLE_DIM, "a batch", "p50", "p99");
    draw_stage(a, 2, s, SL_LIVE_EXTRACT);
    draw_stage(a, 3, s, SL_LIVE_TRAIN);
    draw_fact(a, 4, "waiting", sl_units_percent(text, s->stages[SL_LIVE_WAIT].busy));
    const char *policy = s->cache.policy;
    const double hits = isfinite(s->cache.hit_rate) ? s->cache.hit_rate : s->cache.hit_rate_total;
    snprintf(label, sizeof label, "hits (%s)", policy);
    if (policy[0] && strcmp(policy, "none") != 0)
        draw_fact(a, 5, label, sl_units_percent(text, hits));
    else
        draw_fact(a, 5, "cache", "none");
    snprintf(label, sizeof label, "updates (%.16s)", s->updates.mode);
    draw_fact(a, 6, label, sl_units_whole(text, s->updates.version));
    draw_box_workers(sl_area_part(a, 0, 7, a.w, a.h - 7), s, "trainer", "standby");
}

static void draw_arrow(struct sl_area a)
{
    const struct sl_glyphs *g = sl_screen_glyphs(a.screen);
    int y = 4;
    for (int x = 0; x + 1 < a.w; x++)
        sl_area_glyph(a, x, y, SL_STYLE_BOLD, g->arrow);
    sl_area_glyph(a, a.w - 1, y, SL_STYLE_BOLD, g->point);
}

static void draw_pipeline(const struct sl_top_model *m, struct sl_area a)
{
    int arrow = a.w < NARROW ? 2 : 4, room = a.w - 2 * arrow;
    int queue = SL_MIN(room * 31 / 100, 40), left = (room - queue) / 2;
    int right = room - queue - left;
    draw_samplers(&m->stats, sl_area_part(a, 0, 0, left, a.h));
    draw_arrow(sl_area_part(a, left, 0, arrow, a.h));
    draw_queue(&m->stats, sl_area_part(a, left + arrow, 0, queue, a.h));
    draw_arrow(sl_area_part(a, left + arrow + queue, 0, arrow, a.h));
    draw_trainers(&m->stats, sl_area_part(a, a.w - right, 0, right, a.h));
}

static int pipeline_rows(const struct sl_stats *s)
{
    int n = SL_MAX(workers_of(s, "sampler", "sampler"), workers_of(s, "trainer", "standby"));
    return BOX_ROWS + SL_MIN(n, (int)BOX_WORKERS_MAX);
}

// --- bottleneck ----------------------------------------------------------------------------------

static bool has_advice(const struct sl_stats *s)
{
    return isfinite(s->advice.samplers) && isfinite(s->advice.epoch_seconds_then) &&
           (s->advice.samplers != s->samplers || s->advice.trainers != s->trainers);
}

enum { BOTTLENECK_LABEL = 13 };

static const char *bottleneck_text(const struct sl_stats *s)
{
    return s->bottleneck[0] ? s->bottleneck : "not known yet";
}

// Something that one may want to change. That trainers are what takes the time is as it should be,
// unless another split would shorten it.
static bool is_held_up(const struct sl_stats *s)
{
    const char *role = s->bottleneck_role;
    return role[0] && strcmp(role, "none") != 0 && (strcmp(role, "trainers") != 0 || has_advice(s));
}

static struct sl_area beside_label(struct sl_area a)
{
    return sl_area_part(a, BOTTLENECK_LABEL, 0, a.w - BOTTLENECK_LABEL, a.h);
}

static int bottleneck_text_rows(const struct sl_top_model *m, struct sl_area a)
{
    return sl_view_text_rows(beside_label(a), bottleneck_text(&m->stats));
}

static void draw_bottleneck(const struct sl_top_model *m, struct sl_area a)
{
    const struct sl_stats *s = &m->stats;
    char now[SL_UNITS_BYTES], then[SL_UNITS_BYTES];
    sl_area_text(a, 0, 0, SL_STYLE_BOLD | (is_held_up(s) ? SL_STYLE_REVERSE : SL_STYLE_PLAIN),
                 is_held_up(s) ? " Bottleneck " : " Bottleneck:");
    a = beside_label(a);
    int lines = sl_area_wrap(a, SL_STYLE_PLAIN, bottleneck_text(s));
    if (has_advice(s) && lines < a.h)
        sl_area_printf(a, 0, lines, SL_STYLE_PLAIN, "better split: %d : %d, an epoch in %s, not %s",
                       sl_view_count(s->advice.samplers), sl_view_count(s->advice.trainers),
                       sl_units_brief_seconds(then, s->advice.epoch_seconds_then),
                       sl_units_brief_seconds(now, s->advice.epoch_seconds_now));
}

// --- curves --------------------------------------------------------------------------------------

struct curve {
    enum sl_stats_history_column column;
    const char *name;
    int style;
    bool from_zero;
    char *(*text)(char *, double);
};

static char *loss_text(char *buf, double x)
{
    if (!isfinite(x))
        return sl_units_brief_count(buf, x);
    snprintf(buf, SL_UNITS_BYTES, "%.4f", x);
    return buf;
}

static const struct curve curves[] = {
    {SL_HISTORY_queue, "queue", SL_STYLE_PLAIN, true, sl_units_whole},
    {SL_HISTORY_batches, "batches/s", SL_SAMPLERS_STYLE, true, sl_units_brief_count},
    {SL_HISTORY_loss, "loss", SL_TRAINERS_STYLE, false, loss_text},
    {SL_HISTORY_wait, "waiting", SL_STYLE_PLAIN, true, sl_units_percent},
};

static struct sl_curve_values values_of(const struct sl_top_model *m, const struct curve *c)
{
    struct sl_curve_values v = {
        .values = m->history.values[c->column], .n = m->history.n, .first = m->history.first};
    v.low = INFINITY;
    v.high = -INFINITY;
    for (size_t i = 0; i < v.n; i++) {
        if (!isfinite(v.values[i]))
            continue;
        v.low = SL_MIN(v.low, v.values[i]);
        v.high = SL_MAX(v.high, v.values[i]);
    }
    if (v.low > v.high)
        v.low = v.high = NAN;
    else if (c->from_zero)
        v.low = SL_MIN(v.low, 0.0);
    return v;
}

static double newest(const struct sl_curve_values *v)
{
    return v->n > 0 ? v->values[v->n - 1] : NAN;
}

// How long a curve of so many columns reaches back.
static const char *span_text(const struct sl_top_model *m, int columns, char *out, size_t n)
{
    char time[SL_UNITS_BYTES];
    size_t group = sl_chart_group(columns, m->history.n);
    size_t seconds = SL_MIN(m->history.n, group * (size_t)SL_MAX(columns, 0));
    snprintf(out, n, "the last %s", sl_units_clock(time, (double)seconds));
    return out;
}

// A line each: name, curve, newest value.
static void draw_sparklines(const struct sl_top_model *m, struct sl_area a)
{
    enum { NAME = 10, VALUE = 9 };
    char title[64], text[SL_UNITS_BYTES];
    int columns = a.w - NAME - VALUE;
    a = sl_view_heading(a, span_text(m, columns, title, sizeof title));
    int n = SL_MIN((int)SL_COUNT_OF(curves), a.h), each = n > 0 ? a.h / n : 0;
    for (int i = 0; i < n; i++) {
        struct sl_curve_values v = values_of(m, &curves[i]);
        struct sl_area row = sl_area_part(a, 0, i * each, a.w, each);
        sl_area_text(row, 0, each - 1, SL_STYLE_PLAIN, curves[i].name);
        sl_chart_curve(sl_area_part(row, NAME, 0, columns, each), curves[i].style, &v);
        sl_area_right(sl_area_part(row, 0, each - 1, a.w, 1), 0, SL_STYLE_BOLD,
                      curves[i].text(text, newest(&v)));
    }
}

// A heading and a curve each, with the values of its lower and upper edge.
static void draw_graph(const struct sl_top_model *m, const struct curve *c, struct sl_area a)
{
    char title[96], text[SL_UNITS_BYTES], span[64];
    enum { EDGE = 9 };
    struct sl_curve_values v = values_of(m, c);
    struct sl_area plot = sl_area_part(a, EDGE, 1, a.w - EDGE, a.h - 1);
    snprintf(title, sizeof title, "%s %s  (%s)", c->name, c->text(text, newest(&v)),
             span_text(m, plot.w, span, sizeof span));
    sl_view_heading(a, title);
    sl_chart_curve(plot, c->style, &v);
    sl_area_right(sl_area_part(a, 0, 1, EDGE - 1, 1), 0, SL_STYLE_DIM, c->text(text, v.high));
    if (a.h > 2)
        sl_area_right(sl_area_part(a, 0, a.h - 1, EDGE - 1, 1), 0, SL_STYLE_DIM,
                      c->text(text, v.low));
}

static void draw_curves(const struct sl_top_model *m, struct sl_area a)
{
    if (a.w < WIDE || a.h < 3) {
        draw_sparklines(m, a);
        return;
    }
    // Two rows of two when there is the height, so that they reach further back.
    int n = a.h >= 2 * CURVE_ROWS ? 4 : a.w < VERY_WIDE ? 3 : 4;
    int down = a.h >= 2 * CURVE_ROWS ? 2 : 1, across = n / down;
    int w = (a.w + 2) / across, h = a.h / down;
    for (int i = 0; i < n; i++)
        draw_graph(m, &curves[i], sl_area_part(a, i % across * w, i / across * h, w - 2, h));
}

// --- the whole -----------------------------------------------------------------------------------

static void draw_devices(const struct sl_top_model *m, struct sl_area a)
{
    sl_view_devices(m, sl_view_heading(a, sl_view_devices_title(m)));
}

static void draw_events(const struct sl_top_model *m, struct sl_area a)
{
    sl_view_event_lines(m, sl_view_heading(a, "events"), 0, true);
}

struct section {
    void (*draw)(const struct sl_top_model *m, struct sl_area a);
    int needs, wants, likes; // at least; to be of use; all that it has to show
    int rows;
};

static void grow(struct section *sections, size_t n, bool to_likes, int *left)
{
    for (size_t i = 0; i < n; i++) {
        struct section *s = &sections[i];
        int more = (to_likes ? s->likes : SL_MIN(s->wants, s->likes)) - s->rows;
        if (s->rows == 0 || more <= 0)
            continue;
        more = SL_MIN(more, *left);
        s->rows += more;
        *left -= more;
    }
}

static void share_rows(struct section *sections, size_t n, int rows)
{
    for (size_t i = 0; i < n; i++) {
        sections[i].rows = sections[i].needs <= rows ? sections[i].needs : 0;
        rows -= sections[i].rows;
    }
    grow(sections, n, false, &rows);
    grow(sections, n, true, &rows);
    if (sections[n - 1].rows > 0)
        sections[n - 1].rows += rows;
}

// That curves like to have: more where there is more than the other sections need.
static int curve_rows(struct sl_area a)
{
    if (a.w < WIDE)
        return 1 + (int)SL_COUNT_OF(curves);
    return SL_MAX(2 * CURVE_ROWS, SL_MIN(3 * CURVE_ROWS, a.h - OTHER_ROWS));
}

void sl_view_overview(const struct sl_top_model *m, struct sl_area a)
{
    if (!m->have_stats) {
        draw_events(m, a);
        return;
    }
    bool wide = a.w >= WIDE;
    const int said = bottleneck_text_rows(m, a);
    const int links = sl_view_link_rows(m, a.w, a.h / 8), nodes = sl_view_node_rows(m);
    struct section sections[] = {
        {draw_pipeline, BOX_ROWS, BOX_ROWS, pipeline_rows(&m->stats), 0},
        {draw_bottleneck, SL_MIN(said, SL_MAX(2, a.h - BOX_ROWS)), said,
         said + has_advice(&m->stats), 0},
        {sl_view_nodes, nodes > 0 ? SL_MIN(nodes, 4) : a.h + 1, SL_MIN(nodes, 6), nodes, 0},
        {draw_devices, 2, 3, 1 + sl_view_device_rows(m, a.w, a.h / 8), 0},
        {sl_view_links, links > 0 && a.h >= LINK_ROWS ? SL_MIN(links, 4) : a.h + 1, links, links,
         0},
        {draw_curves, wide ? 4 : 2, wide ? 5 : 4, curve_rows(a), 0},
        {draw_events, 2, 2, 6, 0},
    };
    int y = 0;
    share_rows(sections, SL_COUNT_OF(sections), a.h);
    for (size_t i = 0; i < SL_COUNT_OF(sections); i++) {
        if (sections[i].rows > 0)
            sections[i].draw(m, sl_area_part(a, 0, y, a.w, sections[i].rows));
        y += sections[i].rows;
    }
}
