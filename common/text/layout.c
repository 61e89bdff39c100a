#include "common/text/layout.h"

#include <string.h>

size_t sl_layout_width(const char *text, size_t n)
{
    size_t width = 0;
    for (size_t i = 0; i < n; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

void sl_layout_paragraph(const char *text, size_t indent, size_t columns, FILE *out)
{
    size_t column = indent;
    while (*text) {
        size_t n = strcspn(text, " \n"), width = sl_layout_width(text, n);
        if (column > indent && column + 1 + width > columns) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, n, out);
        column += width;
        text += n;
        if (*text == '\n') {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        }
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}
