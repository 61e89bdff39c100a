#include "common/text/progress.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/text/units.h"

enum { TEXT_BYTES = 512, BAR_COLUMNS = 24, LINE_BYTES = TEXT_BYTES + BAR_COLUMNS + 3 };

#define BAR_INTERVAL_NS   UINT64_C(100000000)
#define PLAIN_INTERVAL_NS UINT64_C(2000000000)

// Terminals are resized: before each drawing.
static void ask_width(struct sl_progress *p)
{
    struct winsize size;
    if (p->out == stderr && p->style == SL_PROGRESS_BAR &&
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        p->columns = size.ws_col;
}

void sl_progress_init(struct sl_progress *p, bool quiet)
{
    memset(p, 0, sizeof *p);
    p->out = stderr;
    p->columns = 80;
    const char *term = getenv("TERM");
    bool terminal = isatty(STDERR_FILENO) && !(term && strcmp(term, "dumb") == 0);
    p->style = quiet ? SL_PROGRESS_QUIET : terminal ? SL_PROGRESS_BAR : SL_PROGRESS_PLAIN;
    const char *no_color = getenv("NO_COLOR");
    p->colour = terminal && !(no_color && *no_color);
    p->interval_ns = terminal ? BAR_INTERVAL_NS : PLAIN_INTERVAL_NS;
    ask_width(p);
}

static void quantity(const struct sl_progress *p, char *buf, uint64_t n)
{
    if (strcmp(p->unit, "B") == 0)
        sl_units_bytes(buf, n);
    else
        sl_units_count(buf, (double)n);
}

// A bar at position `at` of the line, as wide as the terminal allows; returns the new length.
static int insert_bar(const struct sl_progress *p, char *line, int n, int at, double share)
{
    int columns = SL_MIN(p->columns - 1 - n - 3, (int)BAR_COLUMNS);
    if (columns < BAR_COLUMNS / 4)
        return n;
    memmove(line + at + columns + 3, line + at, (size_t)(n - at) + 1);
    int filled = (int)(share * columns);
    line[at] = '[';
    memset(line + at + 1, '#', (size_t)filled);
    memset(line + at + 1 + filled, '-', (size_t)(columns - filled));
    line[at + columns + 1] = ']';
    line[at + columns + 2] = ' ';
    return n + columns + 3;
}

// --- a line of fields ----------------------------------------------------------------------------

static int field_columns(const struct sl_progress_field *f, bool brief)
{
    return 2 + (int)strlen(brief ? f->brief : f->text);
}

// The fields that fit in `columns`, and whether they must be brief.
static bool choose_fields(const struct sl_progress *p, int columns,
                          bool shown[SL_PROGRESS_FIELDS_MAX])
{
    int whole = 0, brief = 0;
    for (int i = 0; i < p->n_fields; i++) {
        shown[i] = true;
        whole += field_columns(&p->fields[i], false);
        brief += field_columns(&p->fields[i], true);
    }
    if (whole <= columns)
        return false;
    while (brief > columns) {
        int least = -1;
        for (int i = 0; i < p->n_fields; i++)
            if (shown[i] && (least < 0 || p->fields[i].keep < p->fields[least].keep))
                least = i;
        if (least < 0)
            break;
        shown[least] = false;
        brief -= field_columns(&p->fields[least], true);
    }
    return true;
}

// "epoch 3/20 [####------]  45 %  28 batches/s  loss 0.4321  2 min left"
static int compose_fields(const struct sl_progress *p, char *line, size_t n_line, double share)
{
    bool shown[SL_PROGRESS_FIELDS_MAX];
    bool bar = p->style == SL_PROGRESS_BAR;
    int n = snprintf(line, n_line, bar ? "%s " : "%s:", p->what);
    int least_bar = BAR_COLUMNS / 3 + 3;
    bool brief =
        choose_fields(p, bar && p->total ? p->columns - 1 - n - least_bar : (int)n_line, shown);
    int bar_at = n;
    const char *gap = bar ? "  " : " ";
    for (int i = 0; i < p->n_fields && (size_t)n < n_line; i++) {
        const struct sl_progress_field *f = &p->fields[i];
        if (!shown[i])
            continue;
        n += snprintf(line + n, n_line - (size_t)n, "%s%s", n == bar_at && bar ? "" : gap,
                      brief ? f->brief : f->text);
        if (!bar)
            gap = ", ";
    }
    n = SL_MIN(n, (int)n_line - 1);
    return p->total && bar ? insert_bar(p, line, n, bar_at, share) : n;
}

// --- a line of numbers ---------------------------------------------------------------------------

/*
 * "edges: 45 %, 45.0 M of 100 M edges, 12.1 M edges/s, 4.5 s left". The terminal form has
 * the bar after the name.
 */
static int compose(struct sl_progress *p, char *line, size_t n_line, bool over)
{
    char have[SL_UNITS_BYTES], all[SL_UNITS_BYTES], rate[SL_UNITS_BYTES], time[SL_UNITS_BYTES];
    uint64_t done = atomic_load_explicit(&p->done, memory_order_relaxed);
    double seconds = (double)(sl_now_ns() - p->begin_ns) * 1e-9;
    double per_second = seconds > 0 ? (double)done / seconds : 0;
    double share = p->total ? SL_MIN(1.0, (double)done / (double)p->total) : 0;
    const char *unit = strcmp(p->unit, "B") == 0 ? "" : p->unit;
    const char *gap = *unit ? " " : "";
    if (p->n_fields && !over)
        return compose_fields(p, line, n_line, share);
    int n = snprintf(line, n_line, "%s: ", p->what);
    int bar_at = n;
    quantity(p, have, done);
    quantity(p, rate, (uint64_t)per_second);
    if (over) {
        n += snprintf(line + n, n_line - (size_t)n, "%s%s%s in %s, %s%s%s/s", have, gap, unit,
                      sl_units_seconds(time, seconds), rate, gap, unit);
    } else if (p->total) {
        double left = done ? seconds * (1 - share) / SL_MAX(share, 1e-9) : 0;
        quantity(p, all, p->total);
        n += snprintf(line + n, n_line - (size_t)n, "%3.0f %%, %s of %s%s%s, %s%s%s/s", 100 * share,
                      have, all, gap, unit, rate, gap, unit);
        if (done)
            n += snprintf(line + n, n_line - (size_t)n, ", %s left", sl_units_seconds(time, left));
    } else {
        n += snprintf(line + n, n_line - (size_t)n, "%s%s%s, %s%s%s/s", have, gap, unit, rate, gap,
                      unit);
    }
    n = SL_MIN(n, (int)n_line - 1);
    if (p->total && !over && p->style == SL_PROGRESS_BAR)
        n = insert_bar(p, line, n, bar_at, share);
    return n;
}

static void wipe(struct sl_progress *p)
{
    if (p->drawn)
        fputs("\r\033[K", p->out);
    p->drawn = false;
}

static void draw(struct sl_progress *p, bool over)
{
    char line[LINE_BYTES];
    ask_width(p);
    int n = compose(p, line, TEXT_BYTES, over);
    if (p->style == SL_PROGRESS_PLAIN || over) {
        wipe(p);
        fprintf(p->out, "%s\n", line);
    } else {
        // The last column stays free: some terminals wrap when it is written.
        n = SL_MIN(n, p->columns - 1);
        fprintf(p->out, "\r%s%.*s%s\033[K", p->colour ? "\033[32m" : "", n, line,
                p->colour ? "\033[0m" : "");
        p->drawn = true;
    }
    fflush(p->out);
}

// Draws when the time has come and no other thread does.
static void tick(struct sl_progress *p)
{
    if (p->style == SL_PROGRESS_QUIET || !p->active)
        return;
    uint64_t now = sl_now_ns();
    if (now < atomic_load_explicit(&p->next_ns, memory_order_relaxed))
        return;
    // acquire pairs with the release below: what the last thread drew is known here
    if (atomic_exchange_explicit(&p->drawing, 1, memory_order_acquire))
        return;
    if (now >= atomic_load_explicit(&p->next_ns, memory_order_relaxed)) {
        draw(p, false);
        atomic_store_explicit(&p->next_ns, now + p->interval_ns, memory_order_relaxed);
    }
    atomic_store_explicit(&p->drawing, 0, memory_order_release);
}

void sl_progress_begin(struct sl_progress *p, const char *what, uint64_t total, const char *unit)
{
    if (p->active)
        sl_progress_end(p);
    snprintf(p->what, sizeof p->what, "%s", what);
    snprintf(p->unit, sizeof p->unit, "%s", unit);
    p->n_fields = 0;
    p->total = total;
    p->begin_ns = sl_now_ns();
    atomic_store(&p->done, 0);
    // A stage that is over at once shows only its last line.
    atomic_store(&p->next_ns, p->begin_ns + p->interval_ns);
    p->active = true;
}

void sl_progress_add(struct sl_progress *p, uint64_t n)
{
    atomic_fetch_add_explicit(&p->done, n, memory_order_relaxed);
    tick(p);
}

void sl_progress_set(struct sl_progress *p, uint64_t done)
{
    atomic_store_explicit(&p->done, done, memory_order_relaxed);
    tick(p);
}

void sl_progress_reset_fields(struct sl_progress *p)
{
    p->n_fields = 0;
}

void sl_progress_add_field(struct sl_progress *p, int keep, const char *text, const char *brief)
{
    if (p->n_fields == SL_PROGRESS_FIELDS_MAX)
        return;
    struct sl_progress_field *f = &p->fields[p->n_fields++];
    f->keep = keep;
    snprintf(f->text, sizeof f->text, "%s", text);
    snprintf(f->brief, sizeof f->brief, "%.23s", brief ? brief : text);
}

void sl_progress_line(struct sl_progress *p, const char *fmt, ...)
{
    if (p->style == SL_PROGRESS_QUIET)
        return;
    bool bar = p->drawn;
    wipe(p);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(p->out, fmt, ap);
    va_end(ap);
    fputc('\n', p->out);
    if (bar && p->active)
        draw(p, false);
    fflush(p->out);
}

void sl_progress_end(struct sl_progress *p)
{
    if (p->active && p->style != SL_PROGRESS_QUIET)
        draw(p, true);
    p->active = false;
}

void sl_progress_clear(struct sl_progress *p)
{
    if (p->style == SL_PROGRESS_BAR && p->out) {
        wipe(p);
        fflush(p->out);
    }
    p->active = false;
}
