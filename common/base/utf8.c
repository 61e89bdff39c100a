#include "common/base/utf8.h"

#include <stdio.h>
#include <string.h>

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

size_t sl_utf8_mark(const char *text, size_t n)
{
    return n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

// The encoding of text that is not UTF-8, as iconv calls it; NULL: it may be UTF-8.
static const char *other_encoding(const char *text, size_t n)
{
    static const struct {
        const char *bytes, *name;
        size_t n;
    } marks[] = {{"\xFF\xFE\0\0", "UTF-32", 4},
                 {"\0\0\xFE\xFF", "UTF-32", 4},
                 {"\xFF\xFE", "UTF-16", 2},
                 {"\xFE\xFF", "UTF-16", 2}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (n >= marks[i].n && memcmp(text, marks[i].bytes, marks[i].n) == 0)
            return marks[i].name;
    // Without a mark: two characters of ASCII, as digits and brackets are.
    if (n >= 4 && text[0] && !text[1] && text[2] && !text[3])
        return "UTF-16LE";
    return n >= 4 && !text[0] && text[1] && !text[2] && text[3] ? "UTF-16BE" : NULL;
}

bool sl_utf8_is_other(const char *text, size_t n, char why[SL_UTF8_WHY_BYTES])
{
    const char *name = other_encoding(text, n);
    if (name)
        snprintf(why, SL_UTF8_WHY_BYTES,
                 "found %s text: wanted UTF-8: 'iconv -f %s -t UTF-8 FILE > NEW' converts it", name,
                 name);
    return name != NULL;
}
