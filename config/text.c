// text.c - see text_internal.h. The JSON check is in json_check.c.
#include "config/text_internal.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/base/bits.h"
#include "common/text/suggest.h"
#include "common/text/text.h"

static void shorten(const char *s, char out[SL_TEXT_QUOTE_BYTES], bool quotes)
{
    enum { ROOM = SL_TEXT_QUOTE_BYTES - 14 }; // for one escape, "...", a quote and the end
    size_t n = 0;
    if (quotes)
        out[n++] = '"';
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        // A cut falls between characters, not inside one.
        if (n > ROOM || (n > ROOM - 3 && (c & 0xC0) == 0xC0)) {
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        char piece[SL_TEXT_ESCAPE_BYTES];
        size_t m = sl_text_escape(c, piece);
        if (!quotes && (c == '"' || c == '\\')) {
            piece[0] = (char)c;
            m = 1;
        }
        memcpy(out + n, piece, m);
        n += m;
    }
    if (quotes)
        out[n++] = '"';
    out[n] = '\0';
}

void sl_text_quote(const char *s, char out[SL_TEXT_QUOTE_BYTES])
{
    shorten(s, out, true);
}

void sl_text_excerpt(const char *s, char out[SL_TEXT_QUOTE_BYTES])
{
    shorten(s, out, false);
}

unsigned sl_text_nearness(const char *given, const char *known)
{
    unsigned limit = SL_MAX(1u, SL_MIN((unsigned)strlen(given) / 3, 3u));
    unsigned edits = strcasecmp(given, known) == 0 ? 0 : sl_suggest_distance(given, known);
    bool inside = (strlen(known) >= 4 && strstr(given, known)) ||
                  (strlen(given) >= 4 && strstr(known, given));
    if (edits <= limit)
        return edits;
    return inside ? 2 : SL_TEXT_FAR;
}
