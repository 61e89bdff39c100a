/*
 * view_types.c - of a graph of several types: the rows of each type that trainers gather, the edges
 * of each relation that samplers draw, and what trainers' caches hold of each type.
 *
 *   type                    rows    per s   hits  cache/s  store/s
 *   paper                   1.2M      12k   52 %   1.2 MiB  1.1 MiB
 *
 *   relation               edges    per s  share
 *   author -writes-> paper  8.1M      90k   41 %
 *
 *   held by                           rows    bytes
 *   trainer 0: paper                   60k  7.3 MiB
 */
#include <math.h>
#include <stdio.h>

#include "common/text/units.h"
#include "cli/top/view_internal.h"

enum { NUMBER = 9, NUMBERS = 5, HEADING = 2 }; // an empty row and one of titles

static void draw_titles(struct sl_area a, const char *name, const char *const titles[NUMBERS])
{
    sl_area_text(a, 0, 0, SL_STYLE_DIM, name);
    for (int i = 0; i < NUMBERS; i++)
        sl_area_right(sl_area_part(a, 0, 0, a.w - (NUMBERS - 1 - i) * NUMBER, 1), 0, SL_STYLE_DIM,
                      titles[i]);
}

static void draw_row(struct sl_area a, int style, const char *name,
                     char numbers[NUMBERS][SL_UNITS_BYTES])
{
    sl_area_field(a, 0, 0, a.w - NUMBERS * NUMBER, style, name);
    for (int i = 0; i < NUMBERS; i++)
        sl_area_right(sl_area_part(a, 0, 0, a.w - (NUMBERS - 1 - i) * NUMBER, 1), 0, SL_STYLE_PLAIN,
                      numbers[i]);
}

static void draw_type(const struct sl_top_model *m, size_t i, struct sl_area a)
{
    const struct sl_stats_type *now = &m->stats.types[i];
    const struct sl_stats *past = m->n_past > 0 ? &m->past[0] : NULL;
    const struct sl_stats_type *before = past && i < past->n_types ? &past->types[i] : NULL;
    char n[NUMBERS][SL_UNITS_BYTES];
#define RATE(member) before ? sl_top_rate(m, before->member, now->member) : NAN
    sl_units_brief_count(n[0], now->input_nodes);
    sl_units_brief_count(n[1], RATE(input_nodes));
    sl_units_percent(n[2], now->input_nodes > 0 ? now->hits / now->input_nodes : NAN);
    sl_units_brief_bytes(n[3], RATE(hit_bytes));
    sl_units_brief_bytes(n[4], RATE(miss_bytes));
    draw_row(a, SL_TRAINERS_STYLE, now->name, n);
}

static void draw_relation(const struct sl_top_model *m, size_t i, double all, struct sl_area a)
{
    const struct sl_stats_relation *now = &m->stats.relations[i];
    const struct sl_stats *past = m->n_past > 0 ? &m->past[0] : NULL;
    const struct sl_stats_relation *before =
        past && i < past->n_relations ? &past->relations[i] : NULL;
    char n[NUMBERS][SL_UNITS_BYTES] = {"", ""}, name[512];
    snprintf(name, sizeof name, "%.127s -%.127s-> %.127s", now->source, now->name, now->target);
    sl_units_brief_count(n[2], now->sampled_edges);
    sl_units_brief_count(n[3], RATE(sampled_edges));
    sl_units_percent(n[4], all > 0 ? now->sampled_edges / all : NAN);
    draw_row(a, SL_SAMPLERS_STYLE, name, n);
}

static void draw_held(const struct sl_top_model *m, size_t i, struct sl_area a)
{
    const struct sl_stats_held *now = &m->stats.held[i];
    char n[NUMBERS][SL_UNITS_BYTES] = {"", "", ""}, name[256];
    snprintf(name, sizeof name, "%.100s: %.127s", now->worker, now->type);
    sl_units_brief_count(n[3], now->rows);
    sl_units_brief_bytes(n[4], now->bytes);
    draw_row(a, SL_TRAINERS_STYLE, name, n);
}

// Rows of all: types below their titles, an empty row, relations below theirs, and so on.
static int rows_of(const struct sl_stats *s)
{
    return 1 + (int)(s->n_types + HEADING + s->n_relations + (s->n_held ? HEADING : 0) + s->n_held);
}

// With links, and metapaths in the place of relations, it says of which relation the pairs are.
static void draw_relation_titles(const struct sl_top_model *m, struct sl_area a)
{
    static const char *const titles[NUMBERS] = {"", "", "edges", "per s", "share"};
    const char *linked = m->stats.metric.relation ? m->stats.metric.relation : "";
    char name[512] = "relation";
    if (*linked)
        snprintf(name, sizeof name, "relation (pairs are of %.400s)", linked);
    draw_titles(a, name, titles);
}

static void draw_any(const struct sl_top_model *m, size_t i, double all, struct sl_area a)
{
    static const char *const of_types[NUMBERS] = {"rows", "per s", "hits", "cache/s", "store/s"};
    static const char *const of_held[NUMBERS] = {"", "", "", "rows", "bytes"};
    const size_t relations = m->stats.n_types + HEADING; // their titles
    const size_t held = relations + m->stats.n_relations + HEADING;
    if (i == 0)
        draw_titles(a, "type", of_types);
    else if (i <= m->stats.n_types)
        draw_type(m, i - 1, a);
    else if (i == relations)
        draw_relation_titles(m, a);
    else if (i > relations && i + HEADING <= held)
        draw_relation(m, i - relations - 1, all, a);
    else if (i == held)
        draw_titles(a, "held by", of_held);
    else if (i > held)
        draw_held(m, i - held - 1, a);
}

void sl_view_types(struct sl_top_model *m, struct sl_area a)
{
    const struct sl_stats *s = &m->stats;
    const int rows = rows_of(s);
    double all = 0;
    for (size_t i = 0; i < s->n_relations; i++)
        all += s->relations[i].sampled_edges > 0 ? s->relations[i].sampled_edges : 0;
    sl_view_clamp_scroll(&m->scroll, rows, a.h);
    for (int y = 0; y < a.h && m->scroll + y < rows; y++) {
        const int left = rows - m->scroll - y;
        if (y == a.h - 1 && left > 1)
            sl_area_printf(a, 0, y, SL_STYLE_DIM, "and %d more", left);
        else
            draw_any(m, (size_t)(m->scroll + y), all, sl_area_part(a, 0, y, a.w, 1));
    }
}
