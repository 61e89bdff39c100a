// view_parts.c - what several parts of the view draw with.
#include "cli/top/view_internal.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"

struct sl_area sl_view_heading(struct sl_area a, const char *title)
{
    const struct sl_glyphs *g = sl_screen_glyphs(a.screen);
    int x = sl_area_text(a, 0, 0, SL_STYLE_BOLD, title) + 1;
    for (; x < a.w; x++)
        sl_area_glyph(a, x, 0, SL_STYLE_DIM, g->horizontal);
    return sl_area_part(a, 0, 1, a.w, a.h - 1);
}

int sl_view_role_style(const char *role)
{
    if (strncmp(role, "sampler", 7) == 0)
        return SL_SAMPLERS_STYLE;
    return SL_TRAINERS_STYLE;
}

double sl_view_busy(const struct sl_stats *s, const char *role)
{
    double sum = 0;
    int n = 0;
    for (size_t i = 0; i < s->n_workers; i++) {
        const struct sl_stats_worker *w = &s->workers[i];
        if (strcmp(w->role, role) != 0 || !isfinite(w->busy))
            continue;
        sum += w->busy;
        n++;
    }
    return n > 0 ? sum / n : NAN;
}

void sl_view_clamp_scroll(int *scroll, int rows, int room)
{
    *scroll = SL_MAX(0, SL_MIN(*scroll, rows - room));
}

int sl_view_text_rows(struct sl_area a, const char *text)
{
    a.h = 0;
    return sl_area_wrap(a, SL_STYLE_PLAIN, text);
}
