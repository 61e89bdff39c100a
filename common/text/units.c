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

char *sl_units_bytes(char *buf, uint64_t bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    size_t i = 0;
    while (x >= 1023.5 && i + 1 < SL_COUNT_OF(names)) {
        x /= 1024;
        i++;
    }
    int decimals = i == 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2;
    snprintf(buf, SL_UNITS_BYTES, "%.*f %s", decimals, x, names[i]);
    return buf;
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
    static const char *const names[] = {"", " k", " M", " G", " T"};
    double x = count;
    size_t i = 0;
    while (x >= 999.5 && i + 1 < SL_COUNT_OF(names)) {
        x /= 1000;
        i++;
    }
    bool whole = i == 0 && x == floor(x);
    int decimals = whole || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2;
    snprintf(buf, SL_UNITS_BYTES, "%.*f%s", decimals, x, names[i]);
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
    if (seconds < 0)
        seconds = 0;
    if (seconds == 0)
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
