#include "common/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static enum sl_log_level threshold = SL_LOG_INFO;
static char process_name[32] = "sluice";

void sl_log_init(const char *who)
{
    snprintf(process_name, sizeof process_name, "%s", who);
    const char *want = getenv("SLUICE_LOG");
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; want && i < 4; i++)
        if (strcmp(want, names[i]) == 0)
            threshold = (enum sl_log_level)i;
}

void sl_log_set_level(enum sl_log_level level)
{
    threshold = level;
}

enum sl_log_level sl_log_get_level(void)
{
    return threshold;
}

void sl_log_write(enum sl_log_level level, const char *fmt, ...)
{
    static const char tags[] = "EWID";
    if (level > threshold)
        return;
    char line[2304];
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    int n = snprintf(line, sizeof line, "%02d:%02d:%02d.%03ld %c %s: ", local.tm_hour, local.tm_min,
                     local.tm_sec, now.tv_nsec / 1000000, tags[level], process_name);
    va_list ap;
    va_start(ap, fmt);
    int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    if (m < 0)
        m = 0;
    size_t len = (size_t)n + (size_t)m;
    if (len > sizeof line - 2)
        len = sizeof line - 2;
    line[len++] = '\n';
    // Nothing sensible can be done when standard error itself fails.
    ssize_t ignored = write(STDERR_FILENO, line, len);
    (void)ignored;
}
