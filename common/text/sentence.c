#include "common/text/sentence.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/bits.h"

void sl_sentence_say(struct sl_sentence *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(s->at, s->left, fmt, ap);
    va_end(ap);
    size_t written = n < 0 ? 0 : SL_MIN((size_t)n, s->left - 1);
    s->at += written;
    s->left -= written;
}
