/*
 * text_internal.h - quoting for messages, similarity of words, and the strict check of JSON syntax.
 */
#ifndef SL_CONFIG_TEXT_INTERNAL_H
#define SL_CONFIG_TEXT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

enum {
    SL_TEXT_QUOTE_BYTES = 72, // enough for what a message quotes
    SL_TEXT_FAR = 100,
};

// s in double quotes with control characters escaped, cut after about 60 bytes with "...".
void sl_text_quote(const char *s, char out[SL_TEXT_QUOTE_BYTES]);

// s as it is, but cut and without control characters.
void sl_text_excerpt(const char *s, char out[SL_TEXT_QUOTE_BYTES]);

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
