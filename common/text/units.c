#include "common/text/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"

/*
 * Digits with underscores, a fraction, a power of ten. Whole numbers are exact to 64 bits, others
 * go through a double. Returns the end of the number, or NULL.
 */
static const char *parse_number(const char *text, uint64_t *whole, double *real, bool *is_whole)
{
    char digits[64];
    size_t n = 0;
    bool plain = true;
    const char *p = text;
    if (!isdigit((unsigned char)*p) && !(*p == '.' && isdigit((unsigned char)p[1])))
        return NULL;
    for (; *p; p++) {
        if (*p == '_' && isdigit((unsigned char)p[1]) && p > text)
            continue;
        bool exponent = (*p == 'e' || *p == 'E') &&
                        (isdigit((unsigned char)p[1]) ||
                         ((p[1] == '+' || p[1] == '-') && isdigit((unsigned char)p[2])));
        if (*p == '.' && !isdigit((unsigned char)p[1]))
            return NULL;
        if (!isdigit((unsigned char)*p) && *p != '.' && !exponent)
            break;
        plain = plain && isdigit((unsigned char)*p);
        if (n + 2 >= sizeof digits)
            return NULL;
        digits[n++] = *p;
        if (exponent)
            digits[n++] = *++p;
    }
    digits[n] = '\0';
    char *end;
    *real = strtod(digits, &end);
    if (*end)
        return NULL;
    errno = 0;
    *whole = plain ? strtoull(digits, NULL, 10) : 0;
    if (plain && errno)
        return NULL;
    *is_whole = plain;
    return p;
}

// Whether to round down what is no whole number of bytes ("1.1GiB"), or to refuse it (2.5 edges).
enum rounding { EXACT, DOWN };

static int scale(uint64_t whole, double real, bool is_whole, uint64_t factor,
                 enum rounding rounding, uint64_t *out)
{
    if (is_whole) {
        if (__builtin_mul_overflow(whole, factor, out) || *out > INT64_MAX)
            return -1;
        return 0;
    }
    double x = real * (double)factor;
    if (!(x >= 0 && x < 9.2e18))
        return -1;
    // 2.5e3 is a count, 2.5 is not.
    double rounded = nearbyint(x);
    bool exact = fabs(x - rounded) <= 1e-6 * SL_MAX(1.0, x);
    if (!exact && rounding == EXACT)
        return -1;
    *out = (uint64_t)(exact ? rounded : floor(x));
    return 0;
}

static uint64_t power(uint64_t base, int exponent)
{
    uint64_t p = 1;
    for (int i = 0; i < exponent; i++)
        p *= base;
    return p;
}

// Position in "kMGT" from 1; 0 when c is none of them.
static int prefix_of(char c)
{
    switch (c) {
    case 'k':
    case 'K': return 1;
    case 'm':
    case 'M': return 2;
    case 'g':
    case 'G': return 3;
    case 't':
    case 'T': return 4;
    default: return 0;
    }
}

// "64k"; of bytes also "64 KiB".
static int parse(const char *text, bool bytes, uint64_t *out)
{
    uint64_t whole, factor = 1;
    double real;
    bool is_whole;
    const char *p = parse_number(text, &whole, &real, &is_whole);
    if (!p)
        return -1;
    while (bytes && *p == ' ')
        p++;
    int prefix = prefix_of(*p);
    if (prefix) {
        bool binary = bytes && p[1] == 'i';
        factor = power(binary ? 1024 : 1000, prefix);
        p += binary ? 2 : 1;
    }
    if (bytes && (*p == 'B' || *p == 'b'))
        p++;
    if (*p)
        return -1;
    return scale(whole, real, is_whole, factor, bytes && factor > 1 ? DOWN : EXACT, out);
}

int sl_units_parse_bytes(const char *text, uint64_t *bytes)
{
    return parse(text, true, bytes);
}

int sl_units_parse_count(const char *text, uint64_t *count)
{
    return parse(text, false, count);
}

// --- writing -------------------------------------------------------------------------------------

static char *unknown(char *buf)
{
    snprintf(buf, SL_UNITS_BYTES, "-");
    return buf;
}

struct scale {
    double step, most; // from one unit to the next; from what on the next is taken
    const char *units[6];
    bool whole; // there are no parts of the first unit
};

static const struct scale bytes_scale = {
    1024, 1023.5, {" B", " KiB", " MiB", " GiB", " TiB", " PiB"}, true};
static const struct scale brief_bytes_scale = {
    1024, 999.5, {" B", " KiB", " MiB", " GiB", " TiB", " PiB"}, true};
static const struct scale count_scale = {1000, 999.5, {"", " k", " M", " G", " T", " P"}, false};

// So many digits that count, before the point all of them.
static int decimals_of(double x, int digits)
{
    int decimals = digits - 1;
    double bound = 10; // the first number that has a digit more before the point
    for (; decimals > 0 && fabs(x) >= bound - 0.5 * pow(10, -decimals); decimals--)
        bound *= 10;
    return decimals;
}

static char *scaled(char *buf, double x, const struct scale *s, int digits)
{
    size_t u = 0;
    if (!isfinite(x))
        return unknown(buf);
    for (; fabs(x) >= s->most && u + 1 < SL_COUNT_OF(s->units); u++)
        x /= s->step;
    int decimals = u == 0 && (s->whole || x == floor(x)) ? 0 : decimals_of(x, digits);
    snprintf(buf, SL_UNITS_BYTES, "%.*f%s", decimals, x, s->units[u]);
    return buf;
}

char *sl_units_bytes(char *buf, double bytes)
{
    return scaled(buf, bytes < 0 ? 0 : bytes, &bytes_scale, 3);
}

char *sl_units_brief_bytes(char *buf, double bytes)
{
    return scaled(buf, bytes, &brief_bytes_scale, 2);
}

char *sl_units_size(char *buf, uint64_t bytes)
{
    static const char *const names[] = {"", "KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;
    for (; bytes && bytes % 1024 == 0 && i + 1 < SL_COUNT_OF(names); i++)
        bytes /= 1024;
    snprintf(buf, SL_UNITS_BYTES, "%llu%s", (unsigned long long)bytes, names[i]);
    return buf;
}

char *sl_units_exact_bytes(char *buf, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    size_t u = 0;
    for (; value >= 1024 && u + 1 < SL_COUNT_OF(units); u++)
        value /= 1024;
    snprintf(buf, SL_UNITS_BYTES, "%llu bytes (%.1f %s)", (unsigned long long)bytes, value,
             units[u]);
    return buf;
}

char *sl_units_count(char *buf, double count)
{
    return scaled(buf, count, &count_scale, 3);
}

char *sl_units_brief_count(char *buf, double count)
{
    if (count == floor(count) && fabs(count) < 10000)
        return sl_units_whole(buf, count);
    return scaled(buf, count, &count_scale, 2);
}

char *sl_units_whole(char *buf, double count)
{
    if (!isfinite(count))
        return unknown(buf);
    snprintf(buf, SL_UNITS_BYTES, "%.0f", count);
    return buf;
}

char *sl_units_grouped(char *buf, uint64_t number)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    char *out = buf;
    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return buf;
}

char *sl_units_seconds(char *buf, double seconds)
{
    if (!isfinite(seconds))
        return unknown(buf);
    if (seconds <= 0)
        snprintf(buf, SL_UNITS_BYTES, "0 s");
    else if (seconds < 0.5e-6)
        snprintf(buf, SL_UNITS_BYTES, "<1 us");
    else if (seconds < 0.9995e-3)
        snprintf(buf, SL_UNITS_BYTES, "%.0f us", seconds * 1e6);
    else if (seconds < 0.0995)
        snprintf(buf, SL_UNITS_BYTES, "%.1f ms", seconds * 1e3);
    else if (seconds < 0.9995)
        snprintf(buf, SL_UNITS_BYTES, "%.0f ms", seconds * 1e3);
    else if (seconds < 59.95)
        snprintf(buf, SL_UNITS_BYTES, "%.1f s", seconds);
    else if (seconds < 3599.5)
        snprintf(buf, SL_UNITS_BYTES, "%d min %02d s", (int)(seconds + 0.5) / 60,
                 (int)(seconds + 0.5) % 60);
    else
        snprintf(buf, SL_UNITS_BYTES, "%.0f h %02d min", floor((seconds + 30) / 3600),
                 (int)fmod((seconds + 30) / 60, 60));
    return buf;
}

char *sl_units_brief_seconds(char *buf, double seconds)
{
    double ms = seconds * 1e3;
    if (!isfinite(seconds))
        return unknown(buf);
    if (fabs(ms) < 0.9995)
        snprintf(buf, SL_UNITS_BYTES, "%.0f us", ms * 1e3);
    else if (fabs(ms) < 999.5)
        snprintf(buf, SL_UNITS_BYTES, "%.*f ms", decimals_of(ms, 2), ms);
    else if (fabs(seconds) < 99.95)
        snprintf(buf, SL_UNITS_BYTES, "%.*f s", decimals_of(seconds, 2), seconds);
    else
        sl_units_clock(buf, seconds);
    return buf;
}

char *sl_units_rough_seconds(char *buf, double seconds, bool past)
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

char *sl_units_clock(char *buf, double seconds)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9)
        return unknown(buf);
    long s = lround(seconds);
    if (s < 3600)
        snprintf(buf, SL_UNITS_BYTES, "%ld:%02ld", s / 60, s % 60);
    else
        snprintf(buf, SL_UNITS_BYTES, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    return buf;
}

char *sl_units_percent(char *buf, double share)
{
    if (!isfinite(share))
        return unknown(buf);
    if (share > 0 && share < 0.005)
        snprintf(buf, SL_UNITS_BYTES, "<1 %%");
    else
        snprintf(buf, SL_UNITS_BYTES, "%.0f %%", share * 100);
    return buf;
}

char *sl_units_plural(char *buf, double n, const char *one)
{
    const size_t length = strlen(one);
    const bool es = length > 3 && strcmp(one + length - 3, "tch") == 0; // but: epochs
    snprintf(buf, SL_UNITS_BYTES, "%.0f %s%s", n, one, n == 1 ? "" : es ? "es" : "s");
    return buf;
}
