// view_lists.c - devices, workers, events and jobs: a line each.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/top/charts.h"
#include "common/text/units.h"
#include "cli/top/view_internal.h"
#include "common/base/bits.h"
#include "common/base/utf8.h"

// A column of a table: where it begins, how wide it is, whether it ends at its right edge.
struct column {
    const char *title;
    int w;
    bool right;
};

// One that does not fit as a whole is not drawn.

static struct sl_area column_area(struct sl_area row, const struct column *columns, int i)
{
    int x = 0;
    for (int k = 0; k < i; k++)
        x += columns[k].w + 1;
    return sl_area_part(row, x, 0, x + columns[i].w > row.w ? 0 : columns[i].w, 1);
}

static void put(struct sl_area row, const struct column *columns, int i, int style,
                const char *text)
{
    struct sl_area a = column_area(row, columns, i);
    if (columns[i].right)
        sl_area_right(a, 0, style, text);
    else
        sl_area_text(a, 0, 0, style, text);
}

// Where columns are left out, a sign at the right edge says so.
static void put_titles(struct sl_area row, const struct column *columns, int n)
{
    bool whole = true;
    for (int i = 0; i < n; i++) {
        put(row, columns, i, SL_STYLE_DIM, columns[i].title);
        whole = whole && (columns[i].w == 0 || column_area(row, columns, i).w > 0);
    }
    if (!whole)
        sl_area_glyph(row, row.w - 1, 0, SL_STYLE_DIM, sl_screen_glyphs(row.screen)->cut);
}

// --- devices -------------------------------------------------------------------------------------

enum { DEVICE_COLUMNS = 76, DEVICE_GAP = 2, SHORT_DEVICE_COLUMNS = 24 };

static double load_of(const struct sl_stats_device *d)
{
    return isfinite(d->gpu_load) ? d->gpu_load : d->cpu_load;
}

static int device_style(const struct sl_stats_device *d)
{
    return d->roles[0] ? sl_view_role_style(d->roles) : SL_STYLE_PLAIN;
}

static void draw_device(const struct sl_stats_device *d, struct sl_area a)
{
    char percent[SL_UNITS_BYTES], used[SL_UNITS_BYTES], of[SL_UNITS_BYTES], memory[80];
    enum { NAME = 9, ROLES = 18, PERCENT = 6, MEMORY = 20 };
    int bars = SL_MAX(0, a.w - NAME - ROLES - 5 - PERCENT - 8 - MEMORY);
    int load = bars / 2, part = bars - load, x = 0;
    bool bounded = d->memory_budget > 0;
    sl_area_field(a, x, 0, NAME - 1, SL_STYLE_BOLD, d->name);
    x += NAME;
    sl_area_field(a, x, 0, ROLES - 1, device_style(d), d->roles[0] ? d->roles : "free");
    x += ROLES;
    x = sl_area_text(a, x, 0, SL_STYLE_PLAIN, "load ");
    sl_chart_bar(a, x, 0, load, device_style(d), load_of(d));
    x += load;
    sl_area_right(sl_area_part(a, x, 0, PERCENT, 1), 0, SL_STYLE_BOLD,
                  sl_units_percent(percent, load_of(d)));
    x = sl_area_text(a, x + PERCENT, 0, SL_STYLE_PLAIN, "  mem ");
    if (bounded)
        sl_chart_bar(a, x, 0, part, device_style(d), d->memory_used / d->memory_budget);
    snprintf(memory, sizeof memory, bounded ? "%s of %s" : "%s%s",
             sl_units_brief_bytes(used, d->memory_used),
             bounded ? sl_units_brief_bytes(of, d->memory_budget) : "");
    if (bounded)
        sl_area_right(a, 0, SL_STYLE_PLAIN, memory);
    else
        sl_area_text(a, x, 0, SL_STYLE_PLAIN, memory);
}

static void draw_short_device(const struct sl_stats_device *d, struct sl_area a)
{
    char percent[SL_UNITS_BYTES];
    enum { WHAT = 12, PERCENT = 5 };
    char what[SL_TOP_NAME + 16];
    const char *roles = d->roles[0] ? d->roles : "free";
    snprintf(what, sizeof what, "%d %.*s", sl_view_count(d->index), (int)strcspn(roles, " "),
             roles);
    sl_area_field(a, 0, 0, WHAT, device_style(d), what);
    sl_chart_bar(a, WHAT + 1, 0, a.w - WHAT - 1 - PERCENT, device_style(d), load_of(d));
    sl_area_right(a, 0, SL_STYLE_BOLD, sl_units_percent(percent, load_of(d)));
}

int sl_view_device_rows(const struct sl_top_model *m, int columns, int easily)
{
    int each = SL_MAX(1, columns / (DEVICE_COLUMNS + DEVICE_GAP));
    if ((int)m->stats.n_devices <= easily)
        each = 1;
    return (int)sl_div_up(m->stats.n_devices, (uint64_t)each);
}

const char *sl_view_devices_title(const struct sl_top_model *m)
{
    return strcmp(m->stats.cores, "pool") == 0 ? "cores" : "devices";
}

void sl_view_devices(const struct sl_top_model *m, struct sl_area a)
{
    int n = (int)m->stats.n_devices, each = SL_MAX(1, a.w / (DEVICE_COLUMNS + DEVICE_GAP));
    bool in_full = n <= each * a.h;
    if (n <= a.h)
        each = 1;
    if (!in_full)
        each = SL_MAX(1, a.w / (SHORT_DEVICE_COLUMNS + DEVICE_GAP));
    int w = (a.w + DEVICE_GAP) / each;
    for (int i = 0; i < n && i / each < a.h; i++) {
        struct sl_area place = sl_area_part(a, i % each * w, i / each, w - DEVICE_GAP, 1);
        if (i == each * a.h - 1 && n > each * a.h)
            sl_area_printf(place, 0, 0, SL_STYLE_DIM, "and %d more", n - i);
        else if (in_full)
            draw_device(&m->stats.devices[i], place);
        else
            draw_short_device(&m->stats.devices[i], place);
    }
}

// Rows in which each can still be told.
static int least_device_rows(const struct sl_top_model *m, int columns)
{
    const int each = SL_MAX(1, (columns + DEVICE_GAP) / (SHORT_DEVICE_COLUMNS + DEVICE_GAP));
    return (int)sl_div_up(m->stats.n_devices, (uint64_t)each);
}

// With a heading each, and a blank row before them.
static int least_rows_below_workers(const struct sl_top_model *m, int columns)
{
    const int links = sl_view_link_rows(m, columns, 0);
    return 2 + least_device_rows(m, columns) + (links > 0 ? 1 + links : 0);
}

// Devices, and below them what they read of what GPUs hold together.
static void draw_devices_and_links(const struct sl_top_model *m, struct sl_area a)
{
    const int least = 1 + least_device_rows(m, a.w);
    const int links = sl_view_link_rows(m, a.w, a.h - least - 1), room = a.h - links - 1;
    const int most = 1 + sl_view_device_rows(m, a.w, room - 1);
    const int rows = links > 0 ? SL_MAX(least, SL_MIN(room, most)) : a.h;
    sl_view_devices(m, sl_view_heading(sl_area_part(a, 0, 0, a.w, rows), sl_view_devices_title(m)));
    sl_view_links(m, sl_area_part(a, 0, rows + 1, a.w, a.h - rows - 1));
}

// --- nodes ---------------------------------------------------------------------------------------

int sl_view_node_rows(const struct sl_top_model *m)
{
    return m->stats.n_nodes > 0 ? 2 + (int)m->stats.n_nodes : 0;
}

static void draw_node(const struct sl_stats_node *n, const struct column *c, struct sl_area row)
{
    char text[SL_UNITS_BYTES], split[SL_UNITS_BYTES] = "-";
    if (isfinite(n->samplers))
        snprintf(split, sizeof split, "%.0fS %.0fT", n->samplers, n->trainers);
    put(row, c, 0, SL_STYLE_BOLD, sl_units_whole(text, n->rank));
    sl_area_field(column_area(row, c, 1), 0, 0, c[1].w, SL_STYLE_PLAIN, n->host);
    put(row, c, 2, SL_STYLE_PLAIN, split);
    put(row, c, 3, SL_STYLE_PLAIN, sl_units_brief_count(text, n->batches_per_second));
    put(row, c, 4, SL_STYLE_PLAIN, sl_units_whole(text, n->queue));
    put(row, c, 5, SL_TRAINERS_STYLE, sl_units_percent(text, n->trains));
    put(row, c, 6, SL_STYLE_PLAIN, sl_units_percent(text, n->waits));
    put(row, c, 7, SL_STYLE_PLAIN, sl_units_percent(text, n->late));
    put(row, c, 8, SL_STYLE_PLAIN, sl_units_percent(text, n->wire));
    put(row, c, 9, SL_STYLE_PLAIN, sl_units_brief_bytes(text, n->received_per_second));
    put(row, c, 10, SL_STYLE_PLAIN, sl_units_percent(text, n->remote_share));
    put(row, c, 11, SL_STYLE_PLAIN, sl_units_brief_seconds(text, n->remote_seconds));
}

void sl_view_nodes(const struct sl_top_model *m, struct sl_area a)
{
    static const struct column columns[] = {
        {"node", 4, true},  {"host", 8, false}, {"split", 6, false}, {"per s", 5, true},
        {"queue", 5, true}, {"train", 5, true}, {"wait", 5, true},   {"late", 5, true},
        {"wire", 5, true},  {"in/s", 8, true},  {"remote", 6, true}, {"after", 7, true},
    };
    const struct sl_stats *s = &m->stats;
    const int n = (int)s->n_nodes;
    a = sl_view_heading(a, "nodes: what their trainers do, whom updates wait for, rows of others");
    put_titles(sl_area_part(a, 0, 0, a.w, 1), columns, (int)SL_COUNT_OF(columns));
    for (int i = 0; i < n && i + 1 < a.h; i++) {
        struct sl_area row = sl_area_part(a, 0, 1 + i, a.w, 1);
        if (i + 2 == a.h && i + 1 < n)
            sl_area_printf(row, 0, 0, SL_STYLE_DIM, "and %d more", n - i);
        else
            draw_node(&s->nodes[i], columns, row);
    }
}

// --- workers -------------------------------------------------------------------------------------

// Whether workers that wait for room in the queue are a fault: where trainers are what takes the
// time, a full queue is as it should be.
static bool blocking_is_bad(const struct sl_stats *s)
{
    return strcmp(s->bottleneck_role, "memory") == 0;
}

static void draw_worker(const struct sl_stats_worker *w, bool blocked_is_bad,
                        const struct column *c, struct sl_area row)
{
    char text[SL_UNITS_BYTES];
    bool odd = strcmp(w->state, "gone") == 0 || (blocked_is_bad && !strcmp(w->state, "blocked"));
    int style = sl_view_role_style(w->role);
    put(row, c, 0, style | SL_STYLE_BOLD, w->name);
    put(row, c, 1, style, w->role);
    put(row, c, 2, SL_STYLE_PLAIN, sl_units_whole(text, w->device));
    put(row, c, 3, odd ? SL_STYLE_ALARM | SL_STYLE_BOLD : SL_STYLE_PLAIN, w->state);
    sl_chart_bar(column_area(row, c, 4), 0, 0, c[4].w, style, w->busy);
    put(row, c, 5, SL_STYLE_BOLD, sl_units_percent(text, w->busy));
    put(row, c, 6, SL_STYLE_PLAIN, sl_units_percent(text, w->wait));
    put(row, c, 7, SL_STYLE_PLAIN, sl_units_whole(text, w->batches));
    put(row, c, 8, SL_STYLE_PLAIN, sl_units_brief_count(text, w->batches_per_second));
    put(row, c, 9, SL_STYLE_PLAIN, sl_units_brief_bytes(text, w->memory));
    put(row, c, 10, w->restarts > 0 ? SL_STYLE_BOLD : SL_STYLE_PLAIN,
        sl_units_whole(text, w->restarts));
    put(row, c, 11, SL_STYLE_PLAIN, sl_units_brief_bytes(text, w->bytes_per_second));
    put(row, c, 12, SL_STYLE_PLAIN, sl_units_whole(text, w->pid));
    put(row, c, 13, SL_STYLE_PLAIN, w->batch);
}

void sl_view_workers(struct sl_top_model *m, struct sl_area a)
{
    int bar = SL_MAX(6, SL_MIN(24, (a.w - 70) / 3));
    const struct column columns[] = {
        {"worker", 11, false}, {"role", 7, false},
        {"device", 6, true},   {"state", 8, false},
        {"busy", bar, false},  {"", 5, true},
        {"wait", 5, true},     {"batches", 7, true},
        {"per s", 6, true},    {"memory", 8, true},
        {"restarts", 8, true}, {"bytes/s", 8, true},
        {"pid", 8, true},      {"in hand", SL_MAX(0, a.w - 110 - bar), false},
    };
    const struct sl_stats *s = &m->stats;
    int n = (int)s->n_workers, room = a.h - 1;
    if (!m->have_stats) {
        sl_area_text(a, 0, 1, SL_STYLE_PLAIN, "No worker has said anything yet.");
        return;
    }
    sl_view_clamp_scroll(&m->scroll, n + SL_MIN(least_rows_below_workers(m, a.w), room), room);
    put_titles(sl_area_part(a, 0, 0, a.w, 1), columns, (int)SL_COUNT_OF(columns));
    for (int i = 0; i < room && i + m->scroll < n; i++) {
        struct sl_area row = sl_area_part(a, 0, 1 + i, a.w, 1);
        if (i == room - 1 && i + m->scroll < n - 1)
            sl_area_printf(row, 0, 0, SL_STYLE_DIM,
                           "and %d more, and devices: j, or the arrow down", n - i - m->scroll);
        else
            draw_worker(&s->workers[i + m->scroll], blocking_is_bad(s), columns, row);
    }
    int y = 2 + SL_MIN(n - m->scroll, room);
    if (y + 1 < a.h)
        draw_devices_and_links(m, sl_area_part(a, 0, y, a.w, a.h - y));
}

// --- events --------------------------------------------------------------------------------------

// A job that somebody stopped has ended as it was told to.
static bool is_bad(const struct sl_top_event *e)
{
    const bool stopped = strcmp(e->kind, "end") == 0 && strncmp(e->text, "stopped", 7) == 0;
    return (!e->ok && !stopped) || strcmp(e->kind, "death") == 0;
}

static int event_style(const struct sl_top_event *e)
{
    if (is_bad(e))
        return SL_STYLE_ALARM | SL_STYLE_BOLD;
    return SL_STYLE_BOLD;
}

static bool is_rare(const struct sl_top_event *e)
{
    return strcmp(e->kind, "epoch") != 0 && strcmp(e->kind, "switch") != 0 &&
           strcmp(e->kind, "checkpoint") != 0;
}

enum { EVENT_CLOCK = 7, EVENT_KIND = 8, EVENT_TEXT = 20 };

static void draw_event(const struct sl_top_event *e, struct sl_area a)
{
    char clock[SL_UNITS_BYTES], text[SL_TOP_SENTENCE + 2];
    snprintf(text, sizeof text, "%s%s", is_bad(e) ? "! " : "", e->text);
    sl_area_right(sl_area_part(a, 0, 0, EVENT_CLOCK, 1), 0, SL_STYLE_DIM,
                  sl_units_clock(clock, e->seconds));
    sl_area_field(a, EVENT_KIND, 0, EVENT_TEXT - EVENT_KIND - 1, event_style(e), e->kind);
    sl_area_wrap(sl_area_part(a, EVENT_TEXT, 0, a.w - EVENT_TEXT, a.h), SL_STYLE_PLAIN, text);
}

// Rows that an event takes: as many as its text needs, or one.
static int event_rows(const struct sl_top_event *e, struct sl_area a, bool brief)
{
    struct sl_area column = sl_area_part(a, EVENT_TEXT, 0, a.w - EVENT_TEXT, 0);
    return brief ? 1 : SL_MAX(1, sl_view_text_rows(column, e->text));
}

// Whether the rare ones need more rows than there are to be told in full.
static bool are_too_long(const struct sl_top_model *m, struct sl_area a)
{
    int rows = 0;
    for (size_t i = 0; i < m->n_events && rows <= a.h; i++)
        rows += is_rare(sl_top_event_at(m, i)) ? event_rows(sl_top_event_at(m, i), a, false) : 0;
    return rows > a.h;
}

int sl_view_event_lines(const struct sl_top_model *m, struct sl_area a, size_t skip, bool rare)
{
    const struct sl_top_event *shown[SL_TOP_EVENTS];
    const bool brief = rare && are_too_long(m, a);
    int n = 0, rows = 0, drawn = 0;
    for (size_t i = 0; i < m->n_events && rows < a.h; i++) {
        const struct sl_top_event *e = sl_top_event_at(m, i);
        if (rare && !is_rare(e))
            continue;
        if (skip > 0) {
            skip--;
            continue;
        }
        if (rows > 0 && rows + event_rows(e, a, brief) > a.h)
            break;
        rows += event_rows(e, a, brief);
        shown[n++] = e;
    }
    drawn = n;
    for (int y = 0; n > 0; n--) {
        int h = event_rows(shown[n - 1], a, brief);
        draw_event(shown[n - 1], sl_area_part(a, 0, y, a.w, h));
        y += h;
    }
    if (rows == 0 && a.h > 0)
        sl_area_text(a, 0, 0, SL_STYLE_DIM, "nothing has happened yet");
    return drawn;
}

void sl_view_events(struct sl_top_model *m, struct sl_area a)
{
    char title[80] = "what happened, since the job began; the newest last";
    struct sl_area lines = sl_area_part(a, 0, 1, a.w, a.h - 1);
    const int n = (int)m->n_events;
    sl_view_clamp_scroll(&m->scroll, n, lines.h);
    // Scrolling down goes to what is older: the newest ones are what a user comes for.
    const int drawn = sl_view_event_lines(m, lines, (size_t)m->scroll, false);
    if (drawn < n)
        snprintf(title, sizeof title, "what happened: %d to %d of %d; older: j, newer: k",
                 n - m->scroll - drawn + 1, n - m->scroll, n);
    sl_view_heading(a, title);
}

// --- jobs ----------------------------------------------------------------------------------------

static void draw_job(const struct sl_top_job *j, const struct column *c, struct sl_area row,
                     bool selected)
{
    char text[64], number[SL_UNITS_BYTES];
    int style = selected ? SL_STYLE_REVERSE : SL_STYLE_PLAIN;
    bool failed = !strcmp(j->state, "failed") || !strcmp(j->state, "interrupted");
    if (selected)
        sl_area_fill(row, style, ' ');
    char mark[4];
    mark[sl_utf8_put(selected ? sl_screen_glyphs(row.screen)->selected : ' ', mark)] = 0;
    put(row, c, 0, style, mark);
    put(row, c, 1, style, j->id[0] ? j->id : "run");
    put(row, c, 2, style | SL_STYLE_BOLD, j->name);
    put(row, c, 3, style | (failed ? SL_STYLE_ALARM | SL_STYLE_BOLD : SL_STYLE_PLAIN), j->state);
    if (isfinite(j->progress)) {
        sl_chart_bar(column_area(row, c, 4), 0, 0, c[4].w, style, j->progress);
        put(row, c, 5, style, sl_units_percent(number, j->progress));
    }
    if (isfinite(j->epoch)) {
        snprintf(text, sizeof text, j->epochs > 0 ? "%d/%d" : "%d", sl_view_count(j->epoch) + 1,
                 sl_view_count(j->epochs));
        put(row, c, 6, style, text);
    }
    if (isfinite(j->samplers)) {
        snprintf(text, sizeof text, "%d:%d", sl_view_count(j->samplers),
                 sl_view_count(j->trainers));
        put(row, c, 7, style, text);
    }
    put(row, c, 8, style, j->cores);
    if (isfinite(j->seconds_left))
        put(row, c, 9, style, sl_units_clock(number, j->seconds_left));
}

// What the selected job waits for or how it ended, and where its results are.
static void draw_choice(const struct sl_top_job *j, struct sl_area a)
{
    char text[SL_TOP_SENTENCE + SL_TOP_NAME + 8];
    const char *why = j->why[0] ? j->why : j->message;
    snprintf(text, sizeof text, "%s%s%s", j->name, why[0] ? ": " : "", why);
    int y = sl_area_wrap(sl_area_part(a, 0, 0, a.w, a.h - 1), SL_STYLE_PLAIN, text);
    sl_area_text(a, 0, SL_MIN(y, a.h - 1), SL_STYLE_DIM, j->output);
}

void sl_view_jobs(struct sl_top_model *m, struct sl_area a)
{
    enum { CHOICE_ROWS = 4 };
    int spare = SL_MAX(0, SL_MIN(a.w - 80, 40));
    const struct column columns[] = {
        {"", 1, false},
        {"id", 4, true},
        {"name", 14 + spare / 2, false},
        {"state", 11, false},
        {"progress", 8 + spare / 2, false},
        {"", 5, true},
        {"epoch", 9, true},
        {"split", 5, true},
        {"cores", 6, false},
        {"left", 8, true},
    };
    const struct sl_top_jobs *jobs = &m->jobs;
    char title[256];
    snprintf(title, sizeof title, "jobs of daemon %.0f, version %s, cores %s, free %s",
             jobs->daemon_pid, jobs->version, jobs->cores,
             jobs->free_cores[0] ? jobs->free_cores : "none");
    a = sl_view_heading(a, !m->have_jobs  ? "asking for the list of jobs ..."
                           : jobs->daemon ? title
                                          : "jobs of `sluice run`; no daemon is running");
    put_titles(sl_area_part(a, 0, 0, a.w, 1), columns, (int)SL_COUNT_OF(columns));
    int room = SL_MAX(1, a.h - 1 - CHOICE_ROWS), n = (int)jobs->n;
    int first = SL_MAX(0, SL_MIN(m->selected - room / 2, n - room));
    for (int i = 0; i < room && first + i < n; i++)
        draw_job(&jobs->jobs[first + i], columns, sl_area_part(a, 0, 1 + i, a.w, 1),
                 first + i == m->selected);
    if (m->have_jobs && n == 0)
        sl_area_text(a, 0, 2, SL_STYLE_PLAIN, "There is no job.");
    if (m->selected < n)
        draw_choice(&jobs->jobs[m->selected],
                    sl_area_part(a, 0, 1 + SL_MIN(room, n) + 1, a.w, CHOICE_ROWS - 1));
}
