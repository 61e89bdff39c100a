// parse.c - what all steps of reading a job use: its messages, and finding a value in its tree.
#include "config/parse_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/error.h"
#include "common/text/json.h"
#include "config/text_internal.h"

// Whether an override that was given as "path=value" decides the value at `path`.
static bool override_decides(const char *text, const char *path)
{
    size_t n = strcspn(text, "=");
    return strncmp(text, path, n) == 0 && (path[n] == '\0' || path[n] == '.' || path[n] == '[');
}

char *sl_parse_origin(const struct sl_parse *p, char out[SL_PARSE_ORIGIN_BYTES])
{
    // The end of a long file name says more than its beginning.
    const size_t room = SL_PARSE_ORIGIN_BYTES - sizeof "...", n = strlen(p->origin);
    snprintf(out, SL_PARSE_ORIGIN_BYTES, "%s%s", n > room ? "..." : "",
             p->origin + (n > room ? n - room : 0));
    return out;
}

int sl_parse_fail(const struct sl_parse *p, const char *path, const char *fmt, ...)
{
    char why[1200], set[SL_TEXT_QUOTE_BYTES + 16] = "", origin[SL_PARSE_ORIGIN_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);

    for (size_t i = p->n_overrides; i-- > 0 && path[0];) {
        if (override_decides(p->overrides[i].text, path)) {
            char excerpt[SL_TEXT_QUOTE_BYTES];
            sl_text_excerpt(p->overrides[i].text, excerpt);
            snprintf(set, sizeof set, " with --set %s", excerpt);
            break;
        }
    }
    return sl_fail(SL_EINVAL, "%s%s: %s%s%s", sl_parse_origin(p, origin), set, path,
                   path[0] ? ": " : "", why);
}

cJSON *sl_parse_find(const cJSON *node, const char *path)
{
    return (cJSON *)sl_json_at(node, path);
}
