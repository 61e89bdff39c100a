// text.h - a text that grows as it is written: answers, messages of the event stream.
#ifndef SL_BROKER_HTTP_TEXT_H
#define SL_BROKER_HTTP_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct sl_text {
    char *s; // NUL-terminated; NULL while empty
    size_t n, capacity;
    bool failed; // there was no memory: everything since is dropped
};

void sl_text_add(struct sl_text *t, const char *bytes, size_t n);
void sl_text_puts(struct sl_text *t, const char *s);
void sl_text_printf(struct sl_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// As a JSON string, quotes included.
void sl_text_json_string(struct sl_text *t, const char *s);
// The shortest decimal that reads back as the same number; "null" for what JSON has no number for.
void sl_text_json_number(struct sl_text *t, double value);

// The text (owned: free()), and an empty one stays behind. NULL when there was no memory.
char *sl_text_hand_over(struct sl_text *t);
void sl_text_fini(struct sl_text *t); // safe on a zeroed struct

#endif
