#include "cli/top/charts.h"

#include <math.h>

#include "common/base/bits.h"

enum { STEPS = 8 }; // of a character's height

void sl_chart_bar(struct sl_area a, int x, int y, int w, int style, double share)
{
    const struct sl_glyphs *g = sl_screen_glyphs(a.screen);
    struct sl_area bar = sl_area_part(a, x, y, w, 1);
    double part = isfinite(share) ? SL_MAX(0.0, SL_MIN(1.0, share)) : 0;
    int full = (int)lround(part * w);
    // Something is never drawn as nothing, nor not quite all as all.
    if (part > 0 && full == 0)
        full = 1;
    if (part < 0.995 && full == w)
        full = w - 1;
    for (int i = 0; i < bar.w; i++)
        sl_area_glyph(bar, i, 0, i < full ? style : SL_STYLE_DIM, i < full ? g->full : g->rest);
}

// A column from the area's bottom, `steps` eighths high.
static void column(struct sl_area a, int x, int style, int steps)
{
    const struct sl_glyphs *g = sl_screen_glyphs(a.screen);
    for (int y = a.h - 1; y >= 0 && steps > 0; y--, steps -= STEPS)
        sl_area_glyph(a, x, y, style, g->levels[SL_MIN(steps, (int)STEPS) - 1]);
}

size_t sl_chart_group(int columns, size_t n)
{
    size_t group = 1;
    while (columns > 0 && n / (2 * group) >= (size_t)columns)
        group *= 2;
    return group;
}

void sl_chart_curve(struct sl_area a, int style, const struct sl_curve_values *v)
{
    int top = a.h * STEPS;
    if (a.w == 0 || a.h == 0 || v->n == 0)
        return;
    size_t group = sl_chart_group(a.w, v->n);
    uint64_t end = v->first + v->n, last = (end - 1) / group;
    for (int x = a.w - 1; x >= 0; x--) {
        uint64_t back = (uint64_t)(a.w - 1 - x);
        if (back > last || (last - back + 1) * group <= v->first)
            break;
        uint64_t from = SL_MAX((last - back) * group, v->first);
        uint64_t to = SL_MIN((last - back + 1) * group, end);
        double sum = 0;
        int known = 0;
        for (uint64_t i = from; i < to; i++) {
            double value = v->values[i - v->first];
            sum += isfinite(value) ? value : 0;
            known += isfinite(value);
        }
        if (known == 0)
            continue;
        double share = v->high > v->low ? (sum / known - v->low) / (v->high - v->low) : 0;
        share = SL_MAX(0.0, SL_MIN(1.0, share));
        column(a, x, style, 1 + (int)lround(share * (top - 1)));
    }
}

void sl_chart_histogram(struct sl_area a, int style, const double *counts, size_t n,
                        int columns_each)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = SL_MAX(most, isfinite(counts[i]) ? counts[i] : 0);
    for (size_t i = 0; i < n && most > 0; i++) {
        if (!(counts[i] > 0))
            continue;
        int steps = SL_MAX(1, (int)lround(counts[i] / most * a.h * STEPS));
        for (int k = 0; k < columns_each; k++)
            column(a, (int)i * columns_each + k, style, steps);
    }
}
