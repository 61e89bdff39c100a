#include "common/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"

enum { MESSAGE_BYTES = 2048 };

static _Thread_local char message[MESSAGE_BYTES];
static int (*sink)(int code, const char *text);

const char *sl_strerror(int code)
{
    switch (code) {
    case SL_OK: return "success";
#define SL_ERROR_TEXT(name, value, text)                                                           \
    case -(value): return text;
        SL_ERROR_MAP(SL_ERROR_TEXT)
#undef SL_ERROR_TEXT
    default: return "unknown error";
    }
}

static void record(int code, const char *tail, const char *fmt, va_list ap)
{
    // A message may quote the one before, so it is built aside first.
    char fresh[MESSAGE_BYTES];
    int n = vsnprintf(fresh, sizeof fresh, fmt, ap);
    if (n < 0)
        n = 0;
    if ((size_t)n >= sizeof fresh)
        n = (int)sizeof fresh - 1;
    if (tail)
        snprintf(fresh + n, sizeof fresh - (size_t)n, ": %s", tail);
    memcpy(message, fresh, sizeof message);
    message[MESSAGE_BYTES - 1] = '\0';
    if (sink)
        sink(code, message);
}

int sl_fail(int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    record(code, NULL, fmt, ap);
    va_end(ap);
    return code;
}

int sl_fail_errno(int code, int err, const char *fmt, ...)
{
    char text[128];
    va_list ap;
    va_start(ap, fmt);
    // GNU strerror_r returns the text, which may or may not be in the buffer.
    record(code, strerror_r(err, text, sizeof text), fmt, ap);
    va_end(ap);
    return code;
}

int sl_fail_prefix(int code, const char *fmt, ...)
{
    char before[MESSAGE_BYTES];
    memcpy(before, message, sizeof before);
    va_list ap;
    va_start(ap, fmt);
    record(code, before, fmt, ap);
    va_end(ap);
    return code;
}

void sl_error_set_sink(int (*to)(int code, const char *text))
{
    sink = to;
}

const char *sl_error_message(void)
{
    return message[0] ? message : "no message recorded";
}

void sl_error_trace(const char *file, int line, const char *func, int code)
{
    sl_log_debug("%s:%d %s: %s", file, line, func, sl_strerror(code));
}
