#include "broker/log/joblog.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/bits.h"

static void on_line(void *ctx, int level, const char *text)
{
    struct sl_joblog *log = ctx;
    if (level == SL_LOG_ERROR || level == SL_LOG_WARN)
        sl_clients_send_line(log->clients, level, text);
}

void sl_joblog_init(struct sl_joblog *log, struct sl_clients *clients)
{
    log->clients = clients;
    sl_stream_init(&log->stream, "broker", on_line, log);
}

void sl_joblog_fini(struct sl_joblog *log)
{
    sl_stream_fini(&log->stream);
}

void sl_joblog_write(struct sl_joblog *log, enum sl_log_level level, const char *fmt, ...)
{
    if (level > sl_log_get_level())
        return;
    // The shape of the workers' lines (common/base/log.c), so that all logs read alike.
    char line[SL_STREAM_LINE_BYTES];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    size_t at = strftime(line, sizeof line, "%H:%M:%S", &local);
    at += (size_t)snprintf(line + at, sizeof line - at, ".%03ld %c broker: ", now.tv_nsec / 1000000,
                           "EWID"[level]);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line + at, sizeof line - at - 1, fmt, ap);
    va_end(ap);
    at += n > 0 ? SL_MIN((size_t)n, sizeof line - at - 2) : 0;
    for (size_t i = 0; i < at; i++) // a message may quote several lines
        if (line[i] == '\n')
            line[i] = ' ';
    line[at++] = '\n';
    sl_stream_feed(&log->stream, line, at);
}

void sl_joblog_announce(struct sl_joblog *log, const char *fmt, ...)
{
    char text[SL_STREAM_LINE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    sl_joblog_write(log, SL_LOG_INFO, "%s", text);
    sl_clients_send_line(log->clients, SL_LOG_INFO, text);
}
