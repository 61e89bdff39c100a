/*
 * view.c - the frame of all views: header, tabs, footer, help, and words where there is no room.
 *
 *   row 0         name and state                                       tabs
 *   rows 1, 2     how far it is; loss, metric, split, time; or how it ended, in as many rows as
 *                 that takes
 *   ...           the view
 *   above the last row   a question or a message, as many rows as it takes
 *   last row      the keys, whatever stands above them
 */
#include "cli/top/view.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/top/charts.h"
#include "common/text/units.h"
#include "cli/top/view_internal.h"
#include "common/base/bits.h"

enum { HEADER_ROWS = 3, TAB_COLUMNS = 52, MESSAGE_ROWS_MAX = 4 };

static const char *const view_names[SL_TOP_VIEWS] = {"overview", "workers", "stages", "events",
                                                     "jobs"};

// --- helpers that all views have -----------------------------------------------------------------

static bool is_old(const struct sl_top_model *m)
{
    return m->have_stats && !m->over && m->now_ns > m->stats_at_ns + SL_TOP_OLD_S * 1000000000ull;
}

static bool has_notice(const struct sl_top_model *m)
{
    return m->notice[0] && m->now_ns < m->notice_until_ns;
}

// --- header --------------------------------------------------------------------------------------

static int state_style(const char *state)
{
    if (!strcmp(state, "failed") || !strcmp(state, "interrupted"))
        return SL_STYLE_ALARM | SL_STYLE_BOLD | SL_STYLE_REVERSE;
    return SL_STYLE_BOLD | SL_STYLE_REVERSE;
}

static void draw_tabs(const struct sl_top_model *m, struct sl_area a)
{
    int x = 0;
    for (int i = 0; i < SL_TOP_VIEWS; i++) {
        char tab[32];
        snprintf(tab, sizeof tab, " %d %s ", i + 1, view_names[i]);
        x = sl_area_text(a, x, 0, (int)m->view == i ? SL_STYLE_REVERSE : SL_STYLE_DIM, tab);
    }
}

static void draw_name(const struct sl_top_model *m, struct sl_area a)
{
    char state[SL_TOP_WORD + 16];
    if (!m->name[0]) {
        sl_area_text(a, 0, 0, SL_STYLE_BOLD, "sluice top");
        return;
    }
    snprintf(state, sizeof state, " %s ", m->state[0] ? m->state : "?");
    int room = a.w - sl_text_columns(state) - 1;
    char name[SL_TOP_NAME + SL_TOP_WORD + 16];
    snprintf(name, sizeof name, "%.127s (job %s)", m->name, m->id);
    if (!m->id[0] || sl_text_columns(name) > room)
        snprintf(name, sizeof name, "%.127s", m->name);
    int x = sl_area_field(a, 0, 0, room, SL_STYLE_BOLD, name) + 1;
    sl_area_text(a, x, 0, state_style(m->state), state);
}

static const char *split_text(const struct sl_stats *s, char *out, size_t n)
{
    int samplers = sl_view_count(s->samplers), trainers = sl_view_count(s->trainers);
    snprintf(out, n, "%s : %s", SL_PLURAL(samplers, "sampler"), SL_PLURAL(trainers, "trainer"));
    return out;
}

static void draw_progress(const struct sl_stats *s, struct sl_area a)
{
    char epoch[64], phase[96], left[SL_UNITS_BYTES], each[SL_UNITS_BYTES], right[96];
    double share = s->total > 0 ? s->done / s->total : NAN;
    char percent[SL_UNITS_BYTES];
    int last = sl_view_count(s->epochs);
    snprintf(epoch, sizeof epoch, last ? "epoch %d of %d " : "epoch %d ",
             SL_MIN(sl_view_count(s->epoch) + (isfinite(s->epoch) ? 1 : 0), last ? last : INT_MAX),
             last);
    snprintf(phase, sizeof phase, " %s %.31s  %d/%d", sl_units_percent(percent, share), s->phase,
             sl_view_count(s->done), sl_view_count(s->total));
    snprintf(right, sizeof right, "%s an epoch  %s left",
             sl_units_brief_seconds(each, s->epoch_seconds), sl_units_clock(left, s->seconds_left));
    int x = sl_area_text(a, 0, 0, SL_STYLE_BOLD, epoch);
    int taken = x + sl_text_columns(phase) + 2 + sl_text_columns(right);
    int bar = SL_MIN(a.w - taken, 60);
    if (bar >= 6) {
        sl_chart_bar(a, x, 0, bar, SL_STYLE_PLAIN, share);
        x += bar;
    }
    x = sl_area_text(a, x, 0, SL_STYLE_PLAIN, phase);
    if (x + sl_text_columns(right) >= a.w)
        snprintf(right, sizeof right, "%s left", left);
    if (x + sl_text_columns(right) < a.w)
        sl_area_right(a, 0, SL_STYLE_PLAIN, right);
}

static void draw_results(const struct sl_stats *s, struct sl_area a)
{
    char split[64], elapsed[SL_UNITS_BYTES], right[160];
    int x = 0;
    x = sl_area_text(a, x, 0, SL_STYLE_BOLD, "loss ");
    x = isfinite(s->loss) ? sl_area_printf(a, x, 0, SL_STYLE_PLAIN, "%.4f", s->loss)
                          : sl_area_text(a, x, 0, SL_STYLE_PLAIN, "-");
    if (*s->metric.name) {
        x = sl_area_printf(a, x + 2, 0, SL_STYLE_BOLD, "%s ", s->metric.title);
        x = isfinite(s->metric.value)
                ? sl_area_printf(a, x, 0, SL_STYLE_PLAIN, "%.4f", s->metric.value)
                : sl_area_text(a, x, 0, SL_STYLE_PLAIN, "unknown");
    }
    if (isfinite(s->best.value))
        x = sl_area_printf(a, x + 2, 0, SL_STYLE_PLAIN, "best %.4f in epoch %d", s->best.value,
                           sl_view_count(s->best.epoch) + 1);
    snprintf(right, sizeof right, "%s  %s", split_text(s, split, sizeof split),
             sl_units_clock(elapsed, s->seconds));
    if (x + 2 + sl_text_columns(right) > a.w)
        snprintf(right, sizeof right, "%s", split);
    if (x + 2 + sl_text_columns(right) > a.w)
        snprintf(right, sizeof right, "%d : %d", sl_view_count(s->samplers),
                 sl_view_count(s->trainers));
    if (x + 2 + sl_text_columns(right) <= a.w)
        sl_area_right(a, 0, SL_STYLE_BOLD, right);
    const char *linked = s->metric.relation ? s->metric.relation : "";
    if (*linked && x + 7 + sl_text_columns(linked) + sl_text_columns(right) <= a.w)
        sl_area_printf(a, x + 2, 0, SL_STYLE_DIM, "of %s", linked);
}

// How a job ended stands there as a whole: it ends in what to do.
static int header_rows(const struct sl_top_model *m, struct sl_area a)
{
    int rows = sl_view_text_rows(a, m->said) + (m->over && m->have_stats);
    return SL_MAX((int)HEADER_ROWS, 1 + SL_MIN(rows, (int)MESSAGE_ROWS_MAX));
}

static void draw_header(const struct sl_top_model *m, struct sl_area a)
{
    bool tabs = a.w >= TAB_COLUMNS + 24;
    draw_name(m, sl_area_part(a, 0, 0, tabs ? a.w - TAB_COLUMNS - 1 : a.w, 1));
    if (tabs)
        draw_tabs(m, sl_area_part(a, a.w - TAB_COLUMNS, 0, TAB_COLUMNS, 1));
    struct sl_area rows = sl_area_part(a, 0, 1, a.w, a.h - 1);
    if (m->have_stats && !(m->over && m->said[0])) {
        draw_progress(&m->stats, rows);
        draw_results(&m->stats, sl_area_part(rows, 0, 1, rows.w, 1));
    } else if (m->over && m->have_stats) {
        draw_results(&m->stats, rows);
        sl_area_wrap(sl_area_part(rows, 0, 1, rows.w, rows.h - 1), SL_STYLE_BOLD, m->said);
    } else if (m->said[0]) {
        sl_area_wrap(rows, SL_STYLE_PLAIN, m->said);
    } else if (!m->name[0]) {
        sl_area_text(rows, 0, 0, SL_STYLE_PLAIN,
                     "Choose a job: j and k or the arrows, then Enter.");
    } else {
        sl_area_text(rows, 0, 0, SL_STYLE_PLAIN,
                     m->over ? "The job is over."
                             : "No statistics yet: they come once the workers have started.");
    }
}

// --- footer --------------------------------------------------------------------------------------

enum { WATCHING = 1, PAUSED = 2, LISTING = 4, OVER = 8, ASKING = 16, NOT_ASKING = 15 };

static int now_of(const struct sl_top_model *m)
{
    return m->question.open                  ? ASKING
           : m->view == SL_TOP_JOBS_VIEW     ? LISTING
           : m->over || !m->name[0]          ? OVER
           : strcmp(m->state, "paused") == 0 ? PAUSED
                                             : WATCHING;
}

static void draw_keys(int now, struct sl_area a)
{
    static const struct {
        const char *key, *text;
        int when;
    } hints[] = {
        {"y", "yes", ASKING},
        {"n", "no", ASKING},
        {"q", "quit", NOT_ASKING | ASKING},
        {"h", "help", NOT_ASKING},
        {"Tab", "view", NOT_ASKING},
        {"p", "pause", WATCHING},
        {"p", "resume", PAUSED},
        {"+ -", "samplers", WATCHING | ASKING},
        {"t T", "trainers", WATCHING | ASKING},
        {"j/k", "choose", LISTING},
        {"Enter", "open", LISTING},
    };
    int x = 0;
    for (size_t i = 0; i < SL_COUNT_OF(hints); i++) {
        if (!(hints[i].when & now))
            continue;
        int columns = 3 + sl_text_columns(hints[i].key) + sl_text_columns(hints[i].text);
        if (x + columns > a.w) {
            sl_area_glyph(a, SL_MIN(x, a.w - 1), 0, SL_STYLE_PLAIN,
                          sl_screen_glyphs(a.screen)->cut);
            break;
        }
        x = sl_area_printf(a, x, 0, SL_STYLE_REVERSE, " %s ", hints[i].key);
        x = sl_area_printf(a, x, 0, SL_STYLE_PLAIN, "%s ", hints[i].text);
    }
}

struct message {
    char text[SL_TOP_SENTENCE + 32]; // "": there is none
    int style;
};

// What is to be said above the keys, the most pressing of it.
static struct message message_of(const struct sl_top_model *m)
{
    struct message to = {.style = SL_STYLE_BOLD};
    if (m->question.open) {
        to.style = SL_STYLE_PLAIN;
        snprintf(to.text, sizeof to.text, "%s",
                 m->question.answered ? m->question.answer : "asking what it would do ...");
    } else if (has_notice(m)) {
        to.style |= m->notice_bad ? SL_STYLE_ALARM : SL_STYLE_PLAIN;
        snprintf(to.text, sizeof to.text, "%s%s", m->notice_bad ? "! " : "", m->notice);
    } else if (is_old(m)) {
        to.style |= SL_STYLE_ALARM;
        snprintf(to.text, sizeof to.text, "! no news of the job for %d s",
                 (int)((m->now_ns - m->stats_at_ns) / 1000000000u));
    } else if (m->scaling) {
        snprintf(to.text, sizeof to.text, "changing the split: %s", m->scale_step);
    }
    return to;
}

// A question has two rows for its answer from the first on, so that what is above stays in place.
static int message_rows(const struct sl_top_model *m, struct sl_area a)
{
    const struct message said = message_of(m);
    const int rows = SL_MIN(sl_view_text_rows(a, said.text), (int)MESSAGE_ROWS_MAX);
    return m->question.open ? 1 + SL_MAX(rows, 2) : rows;
}

static void draw_message(const struct sl_top_model *m, struct sl_area a)
{
    const struct sl_top_question *q = &m->question;
    const struct message said = message_of(m);
    if (q->open) {
        sl_area_printf(a, 0, 0, SL_STYLE_BOLD | SL_STYLE_REVERSE, " Change to %s and %s? ",
                       SL_PLURAL(q->samplers, "sampler"), SL_PLURAL(q->trainers, "trainer"));
        a = sl_area_part(a, 0, 1, a.w, a.h - 1);
    }
    sl_area_wrap(a, said.style, said.text);
}

// --- help ----------------------------------------------------------------------------------------

static void draw_help(struct sl_area screen)
{
    static const char *const lines[][2] = {
        {"1-5, Tab", "overview, workers, stages, events, jobs"},
        {"+ =", "one sampler more: a free device, else a trainer's"},
        {"-", "one sampler less: its device trains"},
        {"t ]", "one trainer more: a free device, else a sampler's"},
        {"T [", "one trainer less: its device rests"},
        {"y n", "answer the question that these ask"},
        {"p", "pause the job, or let it go on"},
        {"r", "rows by type and edges by relation, of a graph of several types"},
        {"j k", "choose in the list of jobs; Enter opens one"},
        {"arrows", "scroll; left and right change the view"},
        {"q", "quit: the job goes on"},
    };
    static const char *const facts[] = {
        "p50 and p99: half of the batches, and all but one in a hundred, took no longer.",
        "busy, wait: shares of the last seconds. hits: features found in the device's cache.",
        "others: other GPUs' memory, memory: the machine's. near: within a GPU.",
        "A standby trainer is on a sampler's device and trains when batches pile up.",
    };
    int w = SL_MIN(screen.w, 76), h = (int)(SL_COUNT_OF(lines) + 2 + 2 * SL_COUNT_OF(facts) + 2);
    h = SL_MIN(h, screen.h);
    struct sl_area box = sl_area_part(screen, (screen.w - w) / 2, (screen.h - h) / 2, w, h);
    sl_area_fill(box, SL_STYLE_PLAIN, ' ');
    struct sl_area in = sl_area_frame(box, SL_STYLE_PLAIN, SL_STYLE_BOLD, "keys");
    int y = 0;
    struct sl_area text = sl_area_part(in, 0, 0, in.w, in.h - 1);
    for (size_t i = 0; i < SL_COUNT_OF(lines); i++, y++) {
        sl_area_text(text, 0, y, SL_STYLE_BOLD, lines[i][0]);
        sl_area_text(text, 10, y, SL_STYLE_PLAIN, lines[i][1]);
    }
    y++;
    for (size_t i = 0; i < SL_COUNT_OF(facts); i++)
        y += sl_area_wrap(sl_area_part(text, 0, y, text.w, text.h - y), SL_STYLE_PLAIN, facts[i]);
    sl_area_right(in, in.h - 1, SL_STYLE_DIM,
                  y <= text.h ? "any key goes back" : "more in a higher window; any key goes back");
}

// --- words where there is no room for pictures ---------------------------------------------------

static void draw_small(const struct sl_top_model *m, struct sl_area all)
{
    const struct sl_area a = sl_area_part(all, 0, 0, all.w, all.h - 1);
    const struct sl_stats *s = &m->stats;
    char rate[SL_UNITS_BYTES], split[64];
    int y = 0;
    draw_name(m, a);
    if (!m->have_stats) {
        sl_area_wrap(sl_area_part(a, 0, 1, a.w, a.h - 1), SL_STYLE_PLAIN, m->said);
    } else {
        char last[32] = "";
        if (s->epochs > 0) // else it goes on until it is stopped
            snprintf(last, sizeof last, " of %d", sl_view_count(s->epochs));
        sl_area_printf(a, 0, ++y, 0, "epoch %d%s: %s %d/%d", sl_view_count(s->epoch) + 1, last,
                       s->phase, sl_view_count(s->done), sl_view_count(s->total));
        if (isfinite(s->loss))
            sl_area_printf(a, 0, ++y, 0, "loss %.4f  %s batches/s", s->loss,
                           sl_units_brief_count(rate, s->rates.batches));
        sl_area_printf(a, 0, ++y, 0, "queue %d  %s", sl_view_count(s->queue.batches),
                       split_text(s, split, sizeof split));
        sl_area_wrap(sl_area_part(a, 0, y + 1, a.w, a.h - y - 1), SL_STYLE_PLAIN, s->bottleneck);
    }
    const struct sl_area last = sl_area_part(all, 0, all.h - 1, all.w, 1);
    if (m->question.open)
        draw_keys(ASKING, last);
    else
        sl_area_printf(last, 0, 0, SL_STYLE_DIM, "q quit  (the picture needs %d x %d)",
                       SL_TOP_SMALL_COLUMNS, SL_TOP_SMALL_ROWS);
}

void sl_top_draw(struct sl_top_model *m, struct sl_screen *screen)
{
    struct sl_area all = sl_screen_area(screen);
    sl_area_fill(all, SL_STYLE_PLAIN, ' ');
    // The last row is the keys'; one row at least is the view's.
    const int message = SL_MAX(0, SL_MIN(message_rows(m, all), all.h - 2));
    const struct sl_area foot = sl_area_part(all, 0, all.h - 1 - message, all.w, message);
    if (all.w < SL_TOP_SMALL_COLUMNS || all.h < SL_TOP_SMALL_ROWS) {
        draw_small(m, all);
        sl_area_fill(foot, SL_STYLE_PLAIN, ' ');
        draw_message(m, foot);
        return;
    }
    const int head = header_rows(m, all);
    struct sl_area body = sl_area_part(all, 0, head, all.w, all.h - head - message - 1);
    draw_header(m, sl_area_part(all, 0, 0, all.w, head));
    if (m->types && m->stats.n_types == 0)
        m->types = false;
    switch (m->types ? SL_TOP_VIEWS : m->view) {
    case SL_TOP_VIEWS: sl_view_types(m, body); break;
    case SL_TOP_WORKERS: sl_view_workers(m, body); break;
    case SL_TOP_STAGES_VIEW: sl_view_stages(m, body); break;
    case SL_TOP_EVENTS_VIEW: sl_view_events(m, body); break;
    case SL_TOP_JOBS_VIEW: sl_view_jobs(m, body); break;
    default: sl_view_overview(m, body);
    }
    draw_message(m, foot);
    draw_keys(now_of(m), sl_area_part(all, 0, all.h - 1, all.w, 1));
    if (m->help)
        draw_help(sl_area_part(all, 0, 0, all.w, all.h - 1));
}
