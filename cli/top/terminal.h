/*
 * terminal.h - the real terminal: shows a screen, gives keys, knows its size.
 *
 * ncurses does the work: it writes only what has changed, handles Ctrl-Z and a change of the size.
 * There is one terminal a process. Its opener closes it on every way out; a process that is about
 * to end by a signal must close it first (sl_interrupt_catch()).
 */
#ifndef SL_CLI_TOP_TERMINAL_H
#define SL_CLI_TOP_TERMINAL_H

#include <stdbool.h>

#include "cli/top/screen.h"

// True where characters beyond ASCII can be shown: the locale is UTF-8, and the terminal (TERM, or
// NULL when output goes elsewhere) is none of those that have no such characters.
bool sl_terminal_has_unicode(const char *term);

// Whether NO_COLOR asks for none.
bool sl_terminal_wants_colour(void);

/*
 * Standard input and output become the terminal of the view. SL_EUNSUPPORTED when they are no
 * terminal or TERM is not known. A second terminal is not to be opened before the first is closed.
 */
int sl_terminal_open(bool colour);
void sl_terminal_close(void); // the terminal is as it was; safe when none is open

void sl_terminal_size(int *width, int *height);
void sl_terminal_show(const struct sl_screen *screen);

// The next key: a character or one of enum sl_top_key; 0 when there is none, -1 when the size has
// changed. Does not wait.
int sl_terminal_key(void);

#endif
