#include "common/text/layout.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/text/units.h"

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

char *sl_layout_duration(char *buf, double seconds, bool past)
{
    static const struct {
        double length;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    size_t i = 0;
    while (i + 1 < SL_COUNT_OF(units) && seconds < 2 * units[i].length)
        i++;
    double n = SL_MAX(seconds, 0) / units[i].length;
    snprintf(buf, SL_UNITS_BYTES, "%.0f %s", past ? floor(n) : n, units[i].unit);
    return buf;
}
