#include "common/base/utf8.h"

#include <stdbool.h>

// Length of the sequence that a byte begins; 0 when none begins with it.
static int utf8_length(uint8_t lead)
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead < 0xe0)
        return 2;
    if (lead >= 0xe0 && lead < 0xf0)
        return 3;
    return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

uint32_t sl_utf8_next(const char **text)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *p = (const uint8_t *)*text;
    if (!*p)
        return 0;
    int n = utf8_length(*p);
    uint32_t glyph = n == 1 ? *p : n == 0 ? 0 : *p & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            n = 0;
            break;
        }
        glyph = glyph << 6 | (p[i] & 0x3fu);
    }
    *text += n ? n : 1;
    bool odd =
        n == 0 || glyph < smallest[n] || glyph > 0x10ffff || (glyph >= 0xd800 && glyph < 0xe000);
    bool control = glyph < 0x20 || (glyph >= 0x7f && glyph < 0xa0);
    return odd || control ? '?' : glyph;
}

int sl_utf8_put(uint32_t g, char out[4])
{
    int n = g < 0x80 ? 1 : g < 0x800 ? 2 : g < 0x10000 ? 3 : 4;
    if (n == 1) {
        out[0] = (char)g;
        return 1;
    }
    for (int i = n - 1; i > 0; i--, g >>= 6)
        out[i] = (char)(0x80 | (g & 0x3f));
    out[0] = (char)((0xf00 >> n & 0xf0) | g);
    return n;
}

void sl_utf8_clean(char *text)
{
    const char *from = text;
    char *to = text;
    while (*from) {
        bool control = (unsigned char)*from < 0x20 || *from == 0x7f;
        uint32_t glyph = sl_utf8_next(&from);
        to += sl_utf8_put(control ? ' ' : glyph, to);
    }
    if (to != text) // an empty text may be a constant
        *to = '\0';
}
