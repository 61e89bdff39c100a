/*
 * line_scan.h - numbers out of text, quickly.
 *
 * Every function takes a position in a block of text_reader.h (which ends in '\n' and '\0', so a
 * scan needs no end) and returns the position behind what it took, or NULL when that is not there.
 */
#ifndef SL_DATASET_LINE_SCAN_H
#define SL_DATASET_LINE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Between columns: blanks, tabs, commas, semicolons; a carriage return before the newline.
static inline bool sl_line_is_gap(char c)
{
    return c == ' ' || c == '\t' || c == ',' || c == ';' || c == '\r';
}

static inline const char *sl_line_skip_gap(const char *p)
{
    while (sl_line_is_gap(*p))
        p++;
    return p;
}

static inline bool sl_line_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

// Blanks beside a separator; a tab only where it is none.
static inline const char *sl_line_skip_blanks(const char *p, char separator)
{
    while (sl_line_is_blank(*p) && *p != separator)
        p++;
    return p;
}

/*
 * A whole number without sign. *ok is false when it does not fit 64 bits. NULL without a digit.
 */
static inline const char *sl_line_scan_uint(const char *p, uint64_t *out, bool *ok)
{
    const char *begin = p;
    uint64_t x = 0;
    unsigned digit;
    // 19 digits fit whatever they are.
    while ((digit = (unsigned)(unsigned char)*p - '0') <= 9 && p - begin < 19) {
        x = x * 10 + digit;
        p++;
    }
    *ok = true;
    while ((digit = (unsigned)(unsigned char)*p - '0') <= 9) {
        if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, digit, &x))
            *ok = false;
        p++;
    }
    *out = x;
    return p == begin ? NULL : p;
}

/*
 * A decimal number, correctly rounded to double. NULL for anything else, "nan" and "inf"
 * included; *out may be infinite when the number is beyond double.
 */
const char *sl_line_scan_real(const char *p, double *out);

// The word at p for a message: up to 40 printable characters, "the end of the line" when none.
const char *sl_line_excerpt(const char *p, char *buf, size_t n);

// The same of a text of n_text bytes.
const char *sl_line_excerpt_of(const char *text, size_t n_text, char *buf, size_t n);

#endif
