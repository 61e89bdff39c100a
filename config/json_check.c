/*
 * json_check.c - is this text JSON, and if not: where, and what was expected there.
 *
 * cJSON builds the tree, but it is lenient where a job file must not be (it takes control
 * characters as blanks, reads 010 as ten, cuts a text at \u0000) and says of an error only at
 * which byte it gave up. So every text passes here first: one pass, no recursion, no allocation,
 * one bit of state for each level of nesting. What passes here cJSON parses.
 *
 * `expect` is the whole state: what may stand at the next token. The stack says whether the
 * innermost open bracket is an object or a list.
 */
#include "config/text_internal.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/base/utf8.h"

enum { MAX_DEPTH = 32, MAX_NUMBER_CHARS = 60 };

enum expect {
    EXPECT_VALUE,
    EXPECT_VALUE_OR_CLOSE, // just after [
    EXPECT_KEY,            // after a comma in an object
    EXPECT_KEY_OR_CLOSE,   // just after {
    EXPECT_COLON,
    EXPECT_COMMA_OR_CLOSE,
    EXPECT_END,
};

struct scan {
    const unsigned char *text, *at, *end;
    struct sl_json_fault *fault;
};

// Notes the fault at `where`; always false.
static bool fault(struct scan *s, const unsigned char *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static bool fault(struct scan *s, const unsigned char *where, const char *fmt, ...)
{
    s->fault->line = 1;
    s->fault->column = 1;
    for (const unsigned char *p = s->text; p < where; p++) {
        if (*p == '\n') {
            s->fault->line++;
            s->fault->column = 1;
        } else if ((*p & 0xC0) != 0x80) {
            s->fault->column++;
        }
    }
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->fault->why, sizeof s->fault->why, fmt, ap);
    va_end(ap);
    return false;
}

static bool is_digit(const struct scan *s)
{
    return s->at < s->end && *s->at >= '0' && *s->at <= '9';
}

// Length of the UTF-8 character at p, 0 when it is none.
static size_t utf8_length(const unsigned char *p, const unsigned char *end)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (n == 0 || p[0] > 0xF4 || (size_t)(end - p) < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    // Overlong forms, surrogates, beyond U+10FFFF
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ||
        (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return n;
}

// Four hexadecimal digits at p, or -1.
static int32_t hex4(const unsigned char *p, const unsigned char *end)
{
    if (end - p < 4)
        return -1;
    int32_t value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

// One escape; s->at is on the backslash.
static bool check_escape(struct scan *s)
{
    const unsigned char *start = s->at++;
    if (s->at < s->end && *s->at && strchr("\"\\/bfnrt", *s->at)) {
        s->at++;
        return true;
    }
    if (s->at >= s->end || *s->at != 'u')
        return fault(s, start,
                     "found an unknown escape in a text, wanted one of \\\" \\\\ \\/ \\b "
                     "\\f \\n \\r \\t \\uXXXX: write a backslash itself as \\\\");
    int32_t code = hex4(s->at + 1, s->end);
    if (code < 0)
        return fault(s, start, "found \\u without four hexadecimal digits after it");
    if (code == 0)
        return fault(s, start, "found \\u0000, which no text here may hold");
    s->at += 5;
    if (code < 0xD800 || code > 0xDFFF)
        return true;
    int32_t low =
        s->end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u' ? hex4(s->at + 2, s->end) : -1;
    if (code > 0xDBFF || low < 0xDC00 || low > 0xDFFF)
        return fault(s, start, "found half of a \\u surrogate pair, wanted both halves");
    s->at += 6;
    return true;
}

static bool check_string(struct scan *s)
{
    const unsigned char *start = s->at++;
    while (s->at < s->end) {
        unsigned char c = *s->at;
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c == '\n' || c == '\r')
            return fault(s, start,
                         "found a text that is not closed on its line: add the \" at "
                         "its end");
        if (c < 0x20)
            return fault(s, s->at, "found control character 0x%02x in a text: write it as \\u%04x",
                         c, c);
        if (c == '\\') {
            if (!check_escape(s))
                return false;
            continue;
        }
        size_t n = utf8_length(s->at, s->end);
        if (n == 0)
            return fault(s, s->at, "found byte 0x%02x, which is not UTF-8: save the text as UTF-8",
                         c);
        s->at += n;
    }
    return fault(s, start, "found a text that is never closed: add the \" at its end");
}

static bool check_number(struct scan *s)
{
    const unsigned char *start = s->at;
    if (*s->at == '-')
        s->at++;
    if (!is_digit(s))
        return fault(s, start, "found \"-\" without a digit after it");
    if (*s->at == '0' && s->at + 1 < s->end && s->at[1] >= '0' && s->at[1] <= '9')
        return fault(s, start, "found a number that begins with 0: leave the 0 out");
    while (is_digit(s))
        s->at++;
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if (!is_digit(s))
            return fault(s, start, "found a number that ends in its point: write digits after it");
        while (is_digit(s))
            s->at++;
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            s->at++;
        if (!is_digit(s))
            return fault(s, start, "found a number whose exponent has no digits");
        while (is_digit(s))
            s->at++;
    }
    if (s->at - start > MAX_NUMBER_CHARS)
        return fault(s, start, "found a number of %zu characters, wanted at most %d",
                     (size_t)(s->at - start), MAX_NUMBER_CHARS);
    return true;
}

// true, false or null.
static bool check_word(struct scan *s, bool *known)
{
    static const char *const words[] = {"true", "false", "null"};
    size_t n = 0;
    while (s->at + n < s->end && ((s->at[n] | 32) >= 'a' && (s->at[n] | 32) <= 'z'))
        n++;
    *known = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        *known |= n == strlen(words[i]) && memcmp(s->at, words[i], n) == 0;
    if (*known)
        s->at += n;
    return *known;
}

static const char *wanted_of(enum expect expect, bool in_object)
{
    switch (expect) {
    case EXPECT_VALUE: return "a value";
    case EXPECT_VALUE_OR_CLOSE: return "a value or \"]\"";
    case EXPECT_KEY: return "a key in double quotes";
    case EXPECT_KEY_OR_CLOSE: return "a key in double quotes or \"}\"";
    case EXPECT_COLON: return "\":\" and a value after the key";
    case EXPECT_COMMA_OR_CLOSE: return in_object ? "\",\" or \"}\"" : "\",\" or \"]\"";
    default: return "nothing after the end of the value";
    }
}

// The token at s->at is not what may stand there; always false.
static bool unexpected(struct scan *s, enum expect expect, bool in_object)
{
    const char *wanted = wanted_of(expect, in_object);
    if (s->at >= s->end)
        return fault(s, s->at, "the text ends, wanted %s", wanted);

    unsigned char c = *s->at;
    char found[48];
    size_t letters = 0;
    while (s->at + letters < s->end && letters < 24 &&
           ((s->at[letters] | 32) >= 'a' && (s->at[letters] | 32) <= 'z'))
        letters++;
    if (letters)
        snprintf(found, sizeof found, "%.*s", (int)letters, (const char *)s->at);
    else if (c == '"')
        snprintf(found, sizeof found, "a text in quotes");
    else if (c > 0x20 && c < 0x7f)
        snprintf(found, sizeof found, "\"%c\"", c);
    else
        snprintf(found, sizeof found, "byte 0x%02x", c);

    const char *advice = "";
    if (c == '/' || c == '#')
        advice = ": JSON has no comments";
    else if (c == '\'')
        advice = ": JSON writes texts in double quotes";
    else if ((expect == EXPECT_KEY && c == '}') || (expect == EXPECT_VALUE && c == ']'))
        advice = ": take out the comma after the last entry";
    else if (letters && (expect == EXPECT_VALUE || expect == EXPECT_VALUE_OR_CLOSE))
        advice = ": texts stand in double quotes; true, false and null are in small letters";
    else if (expect == EXPECT_COMMA_OR_CLOSE && (c == '"' || c == '{' || c == '['))
        advice = ": a comma is missing before it";
    return fault(s, s->at, "found %s, wanted %s%s", found, wanted, advice);
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

bool sl_json_check(const char *text, size_t bytes, struct sl_json_fault *out)
{
    struct scan s = {.text = (const unsigned char *)text,
                     .at = (const unsigned char *)text,
                     .end = (const unsigned char *)text + bytes,
                     .fault = out};
    char open[MAX_DEPTH] = {0}; // the bracket of each level
    int depth = 0;
    enum expect expect = EXPECT_VALUE;

    char why[SL_UTF8_WHY_BYTES];
    if (sl_utf8_is_other(text, bytes, why))
        return fault(&s, s.text, "%s", why);
    s.at = s.text += sl_utf8_mark(text, bytes); // cJSON skips it as well
    for (;;) {
        skip_blanks(&s);
        unsigned char c = s.at < s.end ? *s.at : 0;
        bool in_object = depth && open[depth - 1] == '{';
        bool value = expect == EXPECT_VALUE || expect == EXPECT_VALUE_OR_CLOSE;
        bool key = expect == EXPECT_KEY || expect == EXPECT_KEY_OR_CLOSE;
        enum expect after = depth ? EXPECT_COMMA_OR_CLOSE : EXPECT_END;

        if (s.at >= s.end && expect == EXPECT_END)
            return true;
        if (value && (c == '{' || c == '[')) {
            if (depth == MAX_DEPTH)
                return fault(&s, s.at, "found brackets nested more than %d deep", MAX_DEPTH);
            open[depth++] = (char)c;
            s.at++;
            expect = c == '{' ? EXPECT_KEY_OR_CLOSE : EXPECT_VALUE_OR_CLOSE;
        } else if (value && c == '"') {
            if (!check_string(&s))
                return false;
            expect = after;
        } else if (value && (c == '-' || (c >= '0' && c <= '9'))) {
            if (!check_number(&s))
                return false;
            expect = after;
        } else if (key && c == '"') {
            if (!check_string(&s))
                return false;
            expect = EXPECT_COLON;
        } else if (expect == EXPECT_COLON && c == ':') {
            s.at++;
            expect = EXPECT_VALUE;
        } else if (expect == EXPECT_COMMA_OR_CLOSE && c == ',') {
            s.at++;
            expect = in_object ? EXPECT_KEY : EXPECT_VALUE;
        } else if ((c == '}' && in_object &&
                    (expect == EXPECT_KEY_OR_CLOSE || expect == EXPECT_COMMA_OR_CLOSE)) ||
                   (c == ']' && depth && !in_object &&
                    (expect == EXPECT_VALUE_OR_CLOSE || expect == EXPECT_COMMA_OR_CLOSE))) {
            s.at++;
            depth--;
            expect = depth ? EXPECT_COMMA_OR_CLOSE : EXPECT_END;
        } else {
            bool known = false;
            if (!value || !check_word(&s, &known))
                return unexpected(&s, expect, in_object);
            expect = after;
        }
    }
}
