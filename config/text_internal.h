/*
 * text_internal.h - text that config/ builds and checks: a growing buffer, quoting for messages,
 * numbers that read back as themselves, and the strict check of JSON syntax.
 */
#ifndef SL_CONFIG_TEXT_INTERNAL_H
#define SL_CONFIG_TEXT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SL_TEXT_QUOTE_BYTES = 72, // enough for what a message quotes
    SL_TEXT_NUMBER_BYTES = 40,
    SL_TEXT_FAR = 100,
};

// A text under construction. A zeroed struct is valid; once memory runs out it stays failed.
struct sl_text {
    char *data;
    size_t bytes, capacity;
    bool failed;
};

void sl_text_put(struct sl_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sl_text_put_quoted(struct sl_text *t, const char *s); // as a JSON string
void sl_text_put_number(struct sl_text *t, double value);  // as a JSON number
char *sl_text_take(struct sl_text *t); // owned, NULL when it failed; the struct is empty again

// s in double quotes with control characters escaped, cut after about 60 bytes with "...".
void sl_text_quote(const char *s, char out[SL_TEXT_QUOTE_BYTES]);

// s as it is, but cut and without control characters.
void sl_text_excerpt(const char *s, char out[SL_TEXT_QUOTE_BYTES]);

// The shortest decimal text that reads back as `value`, with a point whatever the locale.
void sl_text_number(double value, char out[SL_TEXT_NUMBER_BYTES]);

// How near a given word is to a known one: 0 equal but for case, then the number of edits, of which
// a third of the letters may be; a word inside the other (num_layers, layers) counts as two edits.
// SL_TEXT_FAR when they are not near.
unsigned sl_text_nearness(const char *given, const char *known);

// Where and why a text is not JSON.
struct sl_json_fault {
    size_t line, column; // from 1; a column is a character
    char why[200];       // found, wanted, what to do
};

/*
 * Whether text[0..bytes) is exactly one JSON value (RFC 8259) that sluice reads without loss:
 * nested at most 32 deep, numbers at most 60 characters long, no NUL in texts. On false *fault says
 * where and why. Records no error: the caller knows what the text is.
 */
bool sl_json_check(const char *text, size_t bytes, struct sl_json_fault *fault);

#endif
