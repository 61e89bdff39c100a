/*
 * text.h - a text that grows as it is written.
 *
 * A zeroed struct is an empty text. Once memory runs out it stays failed, and everything since is
 * dropped, so only the end has to be checked.
 */
#ifndef SL_TEXT_TEXT_H
#define SL_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct sl_text {
    char *s; // NUL-terminated; NULL while empty
    size_t n, capacity;
    bool failed; // there was no memory
};

void sl_text_add(struct sl_text *t, const char *bytes, size_t n);
void sl_text_puts(struct sl_text *t, const char *s);
void sl_text_printf(struct sl_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// As a JSON string, quotes included. Whatever s holds, it is valid: malformed UTF-8 becomes '?'.
void sl_text_json_string(struct sl_text *t, const char *s);
// As sl_number_text(); "null" for what JSON has no number for.
void sl_text_json_number(struct sl_text *t, double value);
// As text of HTML or XML, in an element or in an attribute's quotes: < > & " ' are written as
// references, control characters other than newlines and malformed UTF-8 as '?'.
void sl_text_markup(struct sl_text *t, const char *s);

// Whether a name has this ending, and something before it.
bool sl_text_ends_in(const char *name, const char *ending);

void sl_text_clear(struct sl_text *t); // empty again; its memory stays
// The text (owned: free()), and an empty one stays behind. NULL when there was no memory.
char *sl_text_take(struct sl_text *t);
void sl_text_fini(struct sl_text *t); // safe on a zeroed struct

enum { SL_TEXT_ESCAPE_BYTES = 8 };

// A byte as JSON writes it in a string; how many bytes are in out.
size_t sl_text_escape(unsigned char c, char out[SL_TEXT_ESCAPE_BYTES]);

#endif
