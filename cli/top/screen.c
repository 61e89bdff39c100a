#include "cli/top/screen.h"

#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/utf8.h"

enum { TEXT_BYTES = 1024 };

#define UNICODE(name, unicode, ascii) .name = unicode,
#define ASCII(name, unicode, ascii)   .name = ascii,

static const struct sl_glyphs unicode_glyphs = {
    SL_GLYPHS(UNICODE).levels = {0x2581, 0x2582, 0x2583, 0x2584, 0x2585, 0x2586, 0x2587, 0x2588}};
static const struct sl_glyphs ascii_glyphs = {
    SL_GLYPHS(ASCII).levels = {'_', '.', ',', '-', '=', '+', '*', '#'}};

int sl_screen_init(struct sl_screen *s, int width, int height, bool ascii)
{
    width = SL_MAX(1, SL_MIN(width, (int)SL_SCREEN_MAX));
    height = SL_MAX(1, SL_MIN(height, (int)SL_SCREEN_MAX));
    size_t n = (size_t)width * (size_t)height;
    if (!s->cells || n != (size_t)s->width * (size_t)s->height) {
        struct sl_screen_cell *cells = realloc(s->cells, n * sizeof *cells);
        if (!cells)
            return sl_fail(SL_ENOMEM, "no memory for a screen of %d x %d", width, height);
        s->cells = cells;
    }
    s->width = width;
    s->height = height;
    s->ascii = ascii;
    for (size_t i = 0; i < n; i++)
        s->cells[i] = (struct sl_screen_cell){.glyph = ' '};
    return SL_OK;
}

void sl_screen_fini(struct sl_screen *s)
{
    free(s->cells);
    *s = (struct sl_screen){0};
}

const struct sl_glyphs *sl_screen_glyphs(const struct sl_screen *s)
{
    return s->ascii ? &ascii_glyphs : &unicode_glyphs;
}

// --- characters ----------------------------------------------------------------------------------

// As the C library has it, and with it the terminal; but in any locale, so that a screen is the
// same everywhere. What it does not know takes one column.
int sl_glyph_columns(uint32_t glyph)
{
    static locale_t utf8;
    if (glyph < 0x300)
        return 1;
    if (!utf8)
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    locale_t before = uselocale(utf8);
    int columns = wcwidth((wchar_t)glyph);
    uselocale(before);
    return columns < 0 ? 1 : columns;
}

int sl_text_columns(const char *text)
{
    int columns = 0;
    for (uint32_t g; (g = sl_utf8_next(&text)) != 0;)
        columns += sl_glyph_columns(g);
    return columns;
}

// --- as text -------------------------------------------------------------------------------------

static void print_style(int style, FILE *out)
{
    static const char *const colours[] = {"", ";38;5;33", ";38;5;172", ";38;5;197"};
    fprintf(out, "\033[0%s%s%s%sm", colours[style & SL_STYLE_COLOUR],
            style & SL_STYLE_BOLD ? ";1" : "", style & SL_STYLE_DIM ? ";2" : "",
            style & SL_STYLE_REVERSE ? ";7" : "");
}

static bool is_blank(struct sl_screen_cell c)
{
    return c.glyph == ' ' && !(c.style & SL_STYLE_REVERSE);
}

void sl_screen_print(const struct sl_screen *s, bool colour, FILE *out)
{
    for (int y = 0; y < s->height; y++) {
        const struct sl_screen_cell *row = s->cells + (size_t)y * (size_t)s->width;
        int end = s->width, style = SL_STYLE_PLAIN;
        while (end > 0 && is_blank(row[end - 1]))
            end--;
        for (int x = 0; x < end; x++) {
            char bytes[4] = "";
            if (row[x].glyph == 0)
                continue;
            if (colour && row[x].style != style)
                print_style(style = row[x].style, out);
            int n = sl_utf8_put(row[x].glyph, bytes);
            fwrite(bytes, 1, (size_t)n, out);
        }
        if (style != SL_STYLE_PLAIN)
            print_style(SL_STYLE_PLAIN, out);
        fputc('\n', out);
    }
}

// --- areas ---------------------------------------------------------------------------------------

struct sl_area sl_screen_area(struct sl_screen *s)
{
    return (struct sl_area){.screen = s, .w = s->width, .h = s->height};
}

struct sl_area sl_area_part(struct sl_area a, int x, int y, int w, int h)
{
    int left = SL_MAX(0, SL_MIN(x, a.w)), top = SL_MAX(0, SL_MIN(y, a.h));
    int right = SL_MAX(left, SL_MIN(x + w, a.w)), bottom = SL_MAX(top, SL_MIN(y + h, a.h));
    return (struct sl_area){a.screen, a.x + left, a.y + top, right - left, bottom - top};
}

static struct sl_screen_cell *cell(struct sl_area a, int x, int y)
{
    if (x < 0 || y < 0 || x >= a.w || y >= a.h)
        return NULL;
    return a.screen->cells + (size_t)(a.y + y) * (size_t)a.screen->width + (a.x + x);
}

// Overwriting one half of a wide character leaves a blank for the other.
static void set(struct sl_area a, int x, int y, int style, uint32_t glyph)
{
    struct sl_screen_cell *c = cell(a, x, y);
    if (!c)
        return;
    bool first = a.x + x == 0, last = a.x + x + 1 == a.screen->width;
    if (c->glyph == 0 && glyph != 0 && !first)
        c[-1].glyph = ' ';
    if (!last && c[1].glyph == 0 && sl_glyph_columns(glyph ? glyph : ' ') < 2)
        c[1].glyph = ' ';
    *c = (struct sl_screen_cell){.glyph = glyph, .style = (uint8_t)style};
}

void sl_area_glyph(struct sl_area a, int x, int y, int style, uint32_t glyph)
{
    if (a.screen->ascii && glyph > 0x7e)
        glyph = '?';
    int columns = sl_glyph_columns(glyph);
    if (columns == 0)
        return;
    if (columns == 2 && x + 1 >= a.w) {
        glyph = '?';
        columns = 1;
    }
    set(a, x, y, style, glyph);
    if (columns == 2)
        set(a, x + 1, y, style, 0);
}

void sl_area_fill(struct sl_area a, int style, uint32_t glyph)
{
    for (int y = 0; y < a.h; y++)
        for (int x = 0; x < a.w; x++)
            sl_area_glyph(a, x, y, style, glyph);
}

int sl_area_text(struct sl_area a, int x, int y, int style, const char *text)
{
    bool cut = x + sl_text_columns(text) > a.w;
    int room = cut ? a.w - 1 : a.w;
    for (uint32_t g; (g = sl_utf8_next(&text)) != 0;) {
        int columns =
            a.screen->ascii && g > 0x7e ? SL_MIN(1, sl_glyph_columns(g)) : sl_glyph_columns(g);
        if (x + columns > room)
            break;
        sl_area_glyph(a, x, y, style, g);
        x += columns;
    }
    if (cut && x < a.w) {
        sl_area_glyph(a, x, y, style, sl_screen_glyphs(a.screen)->cut);
        x = a.w;
    }
    return x;
}

int sl_area_printf(struct sl_area a, int x, int y, int style, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return sl_area_text(a, x, y, style, text);
}

int sl_area_field(struct sl_area a, int x, int y, int w, int style, const char *text)
{
    return x + sl_area_text(sl_area_part(a, x, y, w, 1), 0, 0, style, text);
}

int sl_area_right(struct sl_area a, int y, int style, const char *text)
{
    int x = SL_MAX(0, a.w - sl_text_columns(text));
    sl_area_text(a, x, y, style, text);
    return x;
}

// The bytes of `text` that make its next line of at most `columns`, blanks at its end left out.
static size_t line_bytes(const char *text, int columns)
{
    const char *p = text, *good = NULL;
    int used = 0;
    for (;;) {
        const char *before = p;
        uint32_t g = sl_utf8_next(&p);
        if (g == 0)
            return (size_t)(before - text);
        if (g == ' ')
            good = before;
        used += sl_glyph_columns(g);
        if (used > columns)
            return (size_t)((good && good > text ? good : before > text ? before : p) - text);
    }
}

int sl_area_wrap(struct sl_area a, int style, const char *text)
{
    int lines = 0;
    if (a.w == 0)
        return 0;
    for (; *text == ' '; text++)
        ;
    while (*text) {
        char line[TEXT_BYTES];
        size_t n = line_bytes(text, a.w);
        bool last = lines == a.h - 1;
        snprintf(line, sizeof line, "%.*s", last ? (int)sizeof line - 1 : (int)n, text);
        if (lines < a.h)
            sl_area_text(a, 0, lines, style, line);
        lines++;
        for (text += n; *text == ' '; text++)
            ;
    }
    return lines;
}

struct sl_area sl_area_frame(struct sl_area a, int style, int title_style, const char *title)
{
    const struct sl_glyphs *g = sl_screen_glyphs(a.screen);
    for (int x = 1; x < a.w - 1; x++) {
        sl_area_glyph(a, x, 0, style, g->horizontal);
        sl_area_glyph(a, x, a.h - 1, style, g->horizontal);
    }
    for (int y = 1; y < a.h - 1; y++) {
        sl_area_glyph(a, 0, y, style, g->vertical);
        sl_area_glyph(a, a.w - 1, y, style, g->vertical);
    }
    sl_area_glyph(a, 0, 0, style, g->top_left);
    sl_area_glyph(a, a.w - 1, 0, style, g->top_right);
    sl_area_glyph(a, 0, a.h - 1, style, g->bottom_left);
    sl_area_glyph(a, a.w - 1, a.h - 1, style, g->bottom_right);
    if (a.w > 6) {
        struct sl_area edge = sl_area_part(a, 2, 0, a.w - 4, 1);
        char framed[TEXT_BYTES];
        snprintf(framed, sizeof framed, " %s ", title);
        sl_area_text(edge, 0, 0, title_style, framed);
    }
    return sl_area_part(a, 2, 1, SL_MAX(0, a.w - 4), SL_MAX(0, a.h - 2));
}
