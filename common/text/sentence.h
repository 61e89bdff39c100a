// sentence.h - builds a sentence piece by piece; it is cut at the buffer's end.
#ifndef SL_TEXT_SENTENCE_H
#define SL_TEXT_SENTENCE_H

#include <stddef.h>

struct sl_sentence {
    char *at;
    size_t left;
};

void sl_sentence_say(struct sl_sentence *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
