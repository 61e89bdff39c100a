// layout.h - text for people in a given width.
#ifndef SL_TEXT_LAYOUT_H
#define SL_TEXT_LAYOUT_H

#include <stddef.h>
#include <stdio.h>

// Characters of n bytes of UTF-8.
size_t sl_layout_width(const char *text, size_t n);

// A paragraph, or several with line ends between them, broken at blanks: the first line goes on
// behind `indent` columns, the others begin there.
void sl_layout_paragraph(const char *text, size_t indent, size_t columns, FILE *out);

#endif
