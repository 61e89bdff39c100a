#include "dataset/csv_reader.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "dataset/line_scan.h"

static int fail(const struct sl_csv *c, const char *excerpt, const char *wanted)
{
    return sl_fail(SL_EFORMAT, "import %s: line %" PRIu64 ": found '%s': wanted %s", c->path,
                   c->line, excerpt, wanted);
}

int sl_csv_fail(const struct sl_csv *c, const char *found, const char *wanted)
{
    char text[64];
    return fail(c, sl_line_excerpt(found, text, sizeof text), wanted);
}

int sl_csv_fail_field(const struct sl_csv *c, const struct sl_line_field *found, const char *wanted)
{
    char text[64];
    return fail(c, sl_line_excerpt_of(found->text, found->n, text, sizeof text), wanted);
}

int sl_csv_read(struct sl_csv *c, const char *what, int (*parse)(struct sl_csv *c, const char **p))
{
    struct sl_text_reader *r;
    const char *p, *end;
    uint64_t blank = 0;
    SL_TRY(sl_text_reader_open(c->path, &r));
    sl_import_begin_stage(c->im, what, r);
    int rc = SL_OK;
    c->line = 0;
    while (rc == SL_OK) {
        rc = sl_text_reader_next(r, &p, &end);
        if (rc < 0 || p == end)
            break;
        while (p < end && rc == SL_OK) {
            c->line++;
            const char *q = sl_line_skip_gap(p);
            if (*q == '\n') {
                blank++;
                p = q + 1;
                continue;
            }
            rc = blank ? sl_csv_fail(c, p, "no line behind a blank one") : parse(c, &p);
        }
        sl_progress_set(&c->im->making.progress, sl_text_reader_position(r));
        if (rc == SL_OK)
            rc = sl_interrupt_check();
    }
    c->line -= blank; // rows
    sl_text_reader_close(r);
    return rc;
}

int sl_csv_end_line(const struct sl_csv *c, const char **p, const char *wanted)
{
    const char *q = sl_line_skip_gap(*p);
    if (*q != '\n')
        return sl_csv_fail(c, q, wanted);
    *p = q + 1;
    return SL_OK;
}

int sl_csv_scan_below(const struct sl_csv *c, const char **p, uint64_t limit, const char *what,
                      uint64_t *out)
{
    char wanted[128];
    bool fits;
    const char *end = sl_line_scan_uint(*p, out, &fits);
    if (end && fits && *out < limit && (sl_line_is_gap(*end) || *end == '\n')) {
        *p = end;
        return SL_OK;
    }
    if (limit == 0)
        snprintf(wanted, sizeof wanted, "%s, of which there are none here", what);
    else
        snprintf(wanted, sizeof wanted, "%s from 0 to %" PRIu64, what, limit - 1);
    return sl_csv_fail(c, *p, wanted);
}

int sl_csv_put_edge(const struct sl_csv *c, const char **p, struct sl_edge_ends ends, double weight)
{
    uint64_t source, destination;
    SL_TRY(sl_csv_scan_below(c, p, ends.n_sources, "a vertex", &source));
    *p = sl_line_skip_gap(*p);
    SL_TRY(sl_csv_scan_below(c, p, ends.n_targets, "a vertex", &destination));
    SL_TRY(sl_csv_end_line(c, p, "two columns: source,destination"));
    return sl_edge_sink_put(&c->im->edge_sink, (uint32_t)source, (uint32_t)destination, weight);
}

uint64_t sl_csv_count_columns(const char *p)
{
    uint64_t n = 0;
    for (p = sl_line_skip_gap(p); *p != '\n'; p = sl_line_skip_gap(p)) {
        while (*p != '\n' && !sl_line_is_gap(*p))
            p++;
        n++;
    }
    return n;
}
