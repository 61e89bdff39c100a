#include "dataset/line_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"

enum { EXACT_POWER = 22, DIGITS_MAX = 19, TOKEN_BYTES = 512, EXCERPT = 40 };

// Powers of ten that a double holds exactly.
static const double powers[EXACT_POWER + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

// What the quick way below cannot round correctly: the C library does.
static const char *scan_slowly(const char *begin, const char *end, double *out)
{
    char token[TOKEN_BYTES];
    size_t n = (size_t)(end - begin);
    if (n >= sizeof token)
        return NULL;
    memcpy(token, begin, n);
    token[n] = '\0';
    char *stop;
    *out = strtod(token, &stop);
    return *stop ? NULL : end;
}

const char *sl_line_scan_real(const char *p, double *out)
{
    const char *begin = p;
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    uint64_t mantissa = 0;
    unsigned digit;
    int n_digits = 0, exponent = 0; // leading zeros count, which only costs speed
    const char *digits = p;
    for (; (digit = (unsigned)(unsigned char)*p - '0') <= 9; p++, n_digits++)
        mantissa = mantissa * 10 + digit;
    if (*p == '.') {
        const char *point = p++;
        for (; (digit = (unsigned)(unsigned char)*p - '0') <= 9; p++, n_digits++)
            mantissa = mantissa * 10 + digit;
        exponent = -(int)SL_MIN(p - point - 1, (ptrdiff_t)100000);
        if (p == digits + 1)
            return NULL; // a lone point
    }
    if (n_digits == 0)
        return NULL;
    if (*p == 'e' || *p == 'E') {
        const char *q = p + 1;
        bool below = *q == '-';
        q += *q == '-' || *q == '+';
        int e = 0;
        const char *first = q;
        for (; (digit = (unsigned)(unsigned char)*q - '0') <= 9; q++)
            e = e < 100000 ? e * 10 + (int)digit : e;
        if (q == first)
            return NULL;
        exponent += below ? -e : e;
        p = q;
    }
    // Both factors exact, one rounding (Clinger 1990).
    if (n_digits > DIGITS_MAX || mantissa > UINT64_C(1) << 53 || exponent > EXACT_POWER ||
        exponent < -EXACT_POWER)
        return scan_slowly(begin, p, out);
    double x = (double)mantissa;
    x = exponent < 0 ? x / powers[-exponent] : x * powers[exponent];
    *out = negative ? -x : x;
    return p;
}

const char *sl_line_excerpt_of(const char *text, size_t n_text, char *buf, size_t n)
{
    size_t length = 0, most = SL_MIN(SL_MIN(n - 1, (size_t)EXCERPT), n_text);
    for (; length < most; length++) {
        unsigned char c = (unsigned char)text[length];
        buf[length] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    buf[length] = '\0';
    if (length == 0)
        snprintf(buf, n, *text == '\n' ? "the end of the line" : "an empty field");
    return buf;
}

const char *sl_line_excerpt(const char *p, char *buf, size_t n)
{
    size_t n_text = 0;
    while (p[n_text] && p[n_text] != '\n' && !sl_line_is_gap(p[n_text]) && n_text < EXCERPT)
        n_text++;
    return n_text ? sl_line_excerpt_of(p, n_text, buf, n) : sl_line_excerpt_of("\n", 0, buf, n);
}
