/*
 * view_links.c - what each GPU reads of features and graph that GPUs share, and from where.
 *
 *   features read by each device, from where: bytes/s now, share of all ----------------
 *   cuda 2   own      6.2 MiB  52 %   cuda 3   3.1 MiB  25 %   memory   2.9 MiB  23 %
 *
 * A reader takes as many rows as its ways need at this width. Where not all rows fit, those from
 * other devices are one sum; so three ways are the most that a reader has.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/units.h"
#include "cli/top/view_internal.h"
#include "common/base/bits.h"

enum { READER = 9, FROM = 8, BYTES = 8, SHARE = 6, GAP = 2, CELL = FROM + BYTES + SHARE };

// What one device reads of one kind.
struct reader {
    const struct sl_stats_link *links; // (n)
    size_t n;
    bool first; // of its kind
};

// A way, or several as one.
struct way {
    const char *from;
    double bytes, rate;
};

enum { OWN, PEERS, MEMORY, PLACES };

static int place_of(const struct sl_stats_link *link)
{
    return sl_stats_link_is_peer(link) ? PEERS : strcmp(link->from, "memory") == 0 ? MEMORY : OWN;
}

// The reader whose links begin there; false: there is none.
static bool reader_at(const struct sl_stats *s, size_t at, struct reader *out)
{
    *out = (struct reader){.links = s->links + at, .first = at == 0};
    if (at >= s->n_links)
        return false;
    out->first = at == 0 || strcmp(out->links[-1].kind, out->links->kind) != 0;
    while (at + out->n < s->n_links && out->links[out->n].reader == out->links->reader &&
           strcmp(out->links[out->n].kind, out->links->kind) == 0)
        out->n++;
    return true;
}

static int cells_across(int columns)
{
    return SL_MAX(1, (columns - READER + GAP) / (CELL + GAP));
}

// Ways that are drawn of a reader.
static size_t n_ways(const struct reader *r, bool sums)
{
    bool has[PLACES] = {false};
    for (size_t i = 0; i < r->n; i++)
        has[place_of(&r->links[i])] = true;
    return sums ? (size_t)has[OWN] + has[PEERS] + has[MEMORY] : r->n;
}

// With the heading of its kind.
static int rows_of(const struct reader *r, int columns, bool sums)
{
    return r->first + (int)sl_div_up(n_ways(r, sums), (uint64_t)cells_across(columns));
}

static int all_rows(const struct sl_stats *s, int columns, bool sums)
{
    struct reader r;
    int rows = 0;
    for (size_t at = 0; reader_at(s, at, &r); at += r.n)
        rows += rows_of(&r, columns, sums);
    return rows;
}

int sl_view_link_rows(const struct sl_top_model *m, int columns, int easily)
{
    const int in_full = all_rows(&m->stats, columns, false);
    return in_full <= easily ? in_full : all_rows(&m->stats, columns, true);
}

static const char *device_name(const struct sl_stats *s, double index, char out[SL_TOP_WORD])
{
    snprintf(out, SL_TOP_WORD, "device %.0f", index);
    for (size_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].index == index && s->devices[i].name[0])
            snprintf(out, SL_TOP_WORD, "%s", s->devices[i].name);
    return out;
}

static double rate_of(const struct sl_top_model *m, const struct sl_stats_link *link)
{
    return m->over ? NAN : sl_top_link_rate(m, link);
}

// Draws its ways one after the other, `across` in a row.
static void draw_way(const struct way *w, double total, int i, int across, struct sl_area a)
{
    char bytes[SL_UNITS_BYTES], percent[SL_UNITS_BYTES];
    struct sl_area cell = sl_area_part(a, READER + i % across * (CELL + GAP), i / across, CELL, 1);
    sl_area_field(cell, 0, 0, FROM - 1, SL_STYLE_PLAIN, w->from);
    sl_area_right(sl_area_part(cell, 0, 0, FROM + BYTES, 1), 0, SL_STYLE_PLAIN,
                  sl_units_brief_bytes(bytes, isnan(w->rate) ? w->bytes : w->rate));
    sl_area_right(cell, 0, SL_STYLE_BOLD,
                  sl_units_percent(percent, total > 0 ? w->bytes / total : NAN));
}

static const char *from_text(const struct sl_top_model *m, const struct sl_stats_link *link,
                             char out[SL_TOP_WORD])
{
    const int place = place_of(link);
    if (place == PEERS)
        return device_name(&m->stats, strtod(link->from, NULL), out);
    return place == OWN ? "own" : "memory";
}

static void draw_reader(const struct sl_top_model *m, const struct reader *r, bool sums,
                        struct sl_area a)
{
    struct way sum[PLACES] = {
        [OWN] = {.from = "own"}, [PEERS] = {.from = "others"}, [MEMORY] = {.from = "memory"}};
    char name[SL_TOP_WORD];
    double total = 0;
    int across = cells_across(a.w), drawn = 0;
    const int style = strcmp(r->links->kind, "graph") == 0 ? SL_SAMPLERS_STYLE : SL_TRAINERS_STYLE;
    sl_area_field(a, 0, 0, READER - 1, style | SL_STYLE_BOLD,
                  device_name(&m->stats, r->links->reader, name));
    for (size_t i = 0; i < r->n; i++) {
        struct way *to = &sum[place_of(&r->links[i])];
        total += r->links[i].bytes;
        to->bytes += r->links[i].bytes;
        to->rate += rate_of(m, &r->links[i]);
    }
    for (int place = OWN; place < PLACES; place++) {
        if (sums && sum[place].bytes > 0)
            draw_way(&sum[place], total, drawn++, across, a);
        for (size_t i = 0; !sums && i < r->n; i++)
            if (place_of(&r->links[i]) == place)
                draw_way(&(struct way){from_text(m, &r->links[i], name), r->links[i].bytes,
                                       rate_of(m, &r->links[i])},
                         total, drawn++, across, a);
    }
}

static void draw_heading(const struct sl_top_model *m, const struct reader *r, struct sl_area a)
{
    char title[128];
    snprintf(title, sizeof title, "%s read by each device, from where: %s", r->links->kind,
             isnan(rate_of(m, r->links)) ? "bytes in all, share" : "bytes/s now, share of all");
    sl_view_heading(a, title);
}

void sl_view_links(const struct sl_top_model *m, struct sl_area a)
{
    const struct sl_stats *s = &m->stats;
    const bool sums = all_rows(s, a.w, false) > a.h, cut = sums && all_rows(s, a.w, true) > a.h;
    struct reader r;
    int y = 0, left_out = 0;
    for (size_t at = 0; reader_at(s, at, &r); at += r.n) {
        const int rows = rows_of(&r, a.w, sums);
        left_out += left_out > 0 || y + rows > a.h - cut;
        if (left_out > 0)
            continue;
        if (r.first)
            draw_heading(m, &r, sl_area_part(a, 0, y, a.w, 1));
        draw_reader(m, &r, sums && r.n > n_ways(&r, true),
                    sl_area_part(a, 0, y + r.first, a.w, rows - r.first));
        y += rows;
    }
    if (left_out > 0 && y > 0)
        sl_area_printf(a, 0, y, SL_STYLE_DIM, "and %d more", left_out);
}
