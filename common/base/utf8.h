/*
 * utf8.h - UTF-8 text that may be malformed.
 */
#ifndef SL_BASE_UTF8_H
#define SL_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The next character of UTF-8 text, which moves on; 0 at its end, '?' for what is malformed or a
// control character.
uint32_t sl_utf8_next(const char **text);

// Writes a character as UTF-8; how many bytes.
int sl_utf8_put(uint32_t glyph, char out[4]);

// Makes text fit for a line of JSON and for a terminal, in place: control characters become blanks,
// what is malformed (half a character at the end of a buffer, too) becomes '?'. Never longer.
void sl_utf8_clean(char *text);

// Bytes of the mark that some programs put in front of UTF-8 text: 3, or 0 without one.
size_t sl_utf8_mark(const char *text, size_t n);

// Whether text is of another encoding, by its first bytes; then `why` says which and what to do.
enum { SL_UTF8_WHY_BYTES = 128 };
bool sl_utf8_is_other(const char *text, size_t n, char why[SL_UTF8_WHY_BYTES]);

#endif
