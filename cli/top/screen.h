/*
 * screen.h - a picture of a terminal in memory: cells with a character and a style.
 *
 * Views draw into areas of a screen and know nothing of terminals. An area clips: nothing that is
 * drawn in it can leave it, whatever its size: a view is right at 200 columns and harmless at 10.
 * terminal.h copies a screen to a real terminal; sl_screen_print() writes it as text.
 *
 * Colour is never alone: what matters has a word or a sign as well. There are two colours for the
 * two roles, blue and orange, which everybody can tell apart, and one for alarm.
 *
 * Text is UTF-8 that may come from anywhere: what is malformed or not printable becomes '?' (a
 * combining mark is left out), and on a screen without UTF-8 so does all that is not ASCII.
 */
#ifndef SL_CLI_TOP_SCREEN_H
#define SL_CLI_TOP_SCREEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// A style is one colour and any attributes.
enum sl_style {
    SL_STYLE_PLAIN = 0,
    SL_STYLE_BLUE = 1,   // samplers
    SL_STYLE_ORANGE = 2, // trainers
    SL_STYLE_ALARM = 3,
    SL_STYLE_COLOUR = 3, // mask
    SL_STYLE_BOLD = 4,
    SL_STYLE_DIM = 8,
    SL_STYLE_REVERSE = 16,
};

struct sl_screen_cell {
    uint32_t glyph; // Unicode; 0: the right half of the wide character before it
    uint8_t style;
};

// Lines and bars, in one of two alphabets: X(name, Unicode, ASCII).
// clang-format off
#define SL_GLYPHS(X) \
    X(horizontal, 0x2500, '-') X(vertical, 0x2502, '|') X(top_left, 0x256d, '+') \
    X(top_right, 0x256e, '+') X(bottom_left, 0x2570, '+') X(bottom_right, 0x256f, '+') \
    X(arrow, 0x2500, '-') X(point, 0x25b6, '>') X(full, 0x2588, '#') X(rest, 0x2591, '.') \
    X(selected, 0x25b8, '>') X(cut, 0x2026, '~')
#define SL_GLYPH_MEMBER(name, unicode, ascii) uint32_t name;
struct sl_glyphs {
    SL_GLYPHS(SL_GLYPH_MEMBER)
    uint32_t levels[8]; // of a column, from an eighth to full
};
// clang-format on

struct sl_screen {
    int width, height;
    bool ascii;
    struct sl_screen_cell *cells; // (height, width)
};

enum { SL_SCREEN_MAX = 1000 }; // columns, rows: more of a terminal stays empty

// SL_ENOMEM. Sizes are brought into [1, SL_SCREEN_MAX]. A second init of one that is in use keeps
// its memory when the size is the same; the screen is blank afterwards.
int sl_screen_init(struct sl_screen *s, int width, int height, bool ascii);
void sl_screen_fini(struct sl_screen *s); // safe on a zeroed struct

const struct sl_glyphs *sl_screen_glyphs(const struct sl_screen *s);

// Columns that a character takes: 0 for combining marks, 2 for wide ones, else 1.
int sl_glyph_columns(uint32_t glyph);
int sl_text_columns(const char *text);

// The screen as lines of text without blanks at their ends; `colour`: with ANSI sequences.
void sl_screen_print(const struct sl_screen *s, bool colour, FILE *out);

// --- drawing -------------------------------------------------------------------------------------

struct sl_area {
    struct sl_screen *screen;
    int x, y, w, h; // w and h are never negative
};

struct sl_area sl_screen_area(struct sl_screen *s);
// A part of an area, clipped to it.
struct sl_area sl_area_part(struct sl_area a, int x, int y, int w, int h);

void sl_area_glyph(struct sl_area a, int x, int y, int style, uint32_t glyph);
void sl_area_fill(struct sl_area a, int style, uint32_t glyph);
// Draws text from column x on and returns the column after it. Text that does not fit ends in a
// sign that says so.
int sl_area_text(struct sl_area a, int x, int y, int style, const char *text);
int sl_area_printf(struct sl_area a, int x, int y, int style, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
// Text from column x on in at most w columns.
int sl_area_field(struct sl_area a, int x, int y, int w, int style, const char *text);
// The same, ending in the area's last column; returns the column where it begins.
int sl_area_right(struct sl_area a, int y, int style, const char *text);
// Text broken at blanks into at most a.h lines; returns how many lines it takes (also when a.h is
// less). The last line that fits says when there is more.
int sl_area_wrap(struct sl_area a, int style, const char *text);
// A frame with a title in its upper edge; returns what is inside.
struct sl_area sl_area_frame(struct sl_area a, int style, int title_style, const char *title);

#endif
