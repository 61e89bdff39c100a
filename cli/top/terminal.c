#include "cli/top/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ncurses.h>

#include "cli/top/model.h"
#include "common/base/error.h"

enum { ESCAPE_MS = 25, RUN_MAX = 256 };

static SCREEN *terminal;
static bool colours;

bool sl_terminal_has_unicode(const char *term)
{
    static const char *const plain[] = {"linux", "dumb", "vt100", "vt102", "vt220", "ansi"};
    for (size_t i = 0; term && i < sizeof plain / sizeof *plain; i++)
        if (strcmp(term, plain[i]) == 0)
            return false;
    setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

bool sl_terminal_wants_colour(void)
{
    const char *no = getenv("NO_COLOR");
    return !no || !*no;
}

// Blue and orange differ for everybody; with eight colours cyan and yellow do.
static void set_colours(void)
{
    start_color();
    bool many = COLORS >= 256;
    int background = use_default_colors() == OK ? -1 : COLOR_BLACK;
    init_pair(SL_STYLE_BLUE, many ? 33 : COLOR_CYAN, (short)background);
    init_pair(SL_STYLE_ORANGE, many ? 172 : COLOR_YELLOW, (short)background);
    init_pair(SL_STYLE_ALARM, many ? 197 : COLOR_MAGENTA, (short)background);
}

int sl_terminal_open(bool colour)
{
    const char *term = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return sl_fail(SL_EUNSUPPORTED, "standard input and output are not a terminal");
    sl_terminal_has_unicode(term); // the locale, for ncurses
    terminal = newterm(NULL, stdout, stdin);
    if (!terminal)
        return sl_fail(SL_EUNSUPPORTED, "TERM '%s' is not a terminal that is known here",
                       term ? term : "");
    if (!tigetstr("cup")) {
        endwin();
        delscreen(terminal);
        terminal = NULL;
        return sl_fail(SL_EUNSUPPORTED, "TERM '%s' is a terminal without a cursor to move", term);
    }
    set_term(terminal);
    cbreak();
    noecho();
    nonl();
    curs_set(0);
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    colours = colour && has_colors();
    if (colours)
        set_colours();
    return SL_OK;
}

void sl_terminal_close(void)
{
    if (!terminal)
        return;
    // A multiplexer whose window has grown may bring rows of the picture back with the old screen.
    erase();
    refresh();
    endwin();
    delscreen(terminal);
    terminal = NULL;
}

void sl_terminal_size(int *width, int *height)
{
    *width = COLS;
    *height = LINES;
}

static attr_t attributes(int style)
{
    return (style & SL_STYLE_BOLD ? A_BOLD : 0) | (style & SL_STYLE_DIM ? A_DIM : 0) |
           (style & SL_STYLE_REVERSE ? A_REVERSE : 0);
}

static void show_row(const struct sl_screen *s, int y)
{
    const struct sl_screen_cell *row = s->cells + (size_t)y * (size_t)s->width;
    wchar_t run[RUN_MAX];
    for (int x = 0; x < s->width;) {
        int begin = x, n = 0, style = row[x].style;
        for (; x < s->width && n < RUN_MAX && row[x].style == style; x++)
            if (row[x].glyph)
                run[n++] = (wchar_t)row[x].glyph;
        attr_set(attributes(style), (short)(colours ? style & SL_STYLE_COLOUR : 0), NULL);
        mvaddnwstr(y, begin, run, n);
    }
}

void sl_terminal_show(const struct sl_screen *s)
{
    for (int y = 0; y < s->height && y < LINES; y++)
        show_row(s, y);
    refresh();
}

int sl_terminal_key(void)
{
    int key = getch();
    switch (key) {
    case ERR: return 0;
    case KEY_RESIZE: return -1;
    case KEY_UP: return SL_KEY_UP;
    case KEY_DOWN: return SL_KEY_DOWN;
    case KEY_LEFT: return SL_KEY_LEFT;
    case KEY_RIGHT: return SL_KEY_RIGHT;
    case KEY_PPAGE: return SL_KEY_PAGE_UP;
    case KEY_NPAGE: return SL_KEY_PAGE_DOWN;
    case KEY_BTAB: return SL_KEY_BACK_TAB;
    case KEY_ENTER:
    case '\r': return SL_KEY_ENTER;
    default: return key > 0 && key < KEY_MIN ? key : SL_KEY_OTHER;
    }
}
