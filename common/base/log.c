#include "common/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bits.h"

static enum sl_log_level threshold = SL_LOG_INFO;
static char process_name[32] = "sluice";
static bool to_journal;
static void (*sink)(int level, const char *text);

const char *const sl_log_levels[] = {"error", "warn", "info", "debug", NULL};

bool sl_log_find_level(const char *name, enum sl_log_level *out)
{
    for (size_t i = 0; sl_log_levels[i]; i++) {
        if (strcmp(name, sl_log_levels[i]) != 0)
            continue;
        *out = (enum sl_log_level)i;
        return true;
    }
    return false;
}

// systemd names the device and inode of the stream that it reads; standard error may have been sent
// elsewhere since.
static bool is_journal(void)
{
    const char *text = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat st;
    return text && sscanf(text, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void sl_log_init(const char *who)
{
    snprintf(process_name, sizeof process_name, "%s", who);
    const char *want = getenv("SLUICE_LOG");
    if (want)
        sl_log_find_level(want, &threshold);
    to_journal = is_journal();
}

void sl_log_set_level(enum sl_log_level level)
{
    threshold = level;
}

enum sl_log_level sl_log_get_level(void)
{
    return threshold;
}

// What stands before the text; returns its length.
static int write_head(enum sl_log_level level, char *line, size_t bytes)
{
    static const char tags[] = "EWID";
    static const int priorities[] = {3, 4, 6, 7}; // of syslog
    struct timespec now;
    struct tm local;
    if (to_journal)
        return snprintf(line, bytes, "<%d>%s: ", priorities[level], process_name);
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    return snprintf(line, bytes, "%02d:%02d:%02d.%03ld %c %s: ", local.tm_hour, local.tm_min,
                    local.tm_sec, now.tv_nsec / 1000000, tags[level], process_name);
}

void sl_log_set_sink(void (*to)(int level, const char *text))
{
    sink = to;
}

static void write_sink(enum sl_log_level level, const char *fmt, va_list ap)
{
    char text[2048];
    vsnprintf(text, sizeof text, fmt, ap);
    sink((int)level, text);
}

void sl_log_write(enum sl_log_level level, const char *fmt, ...)
{
    va_list ap;
    if (sink) {
        va_start(ap, fmt);
        write_sink(level, fmt, ap);
        va_end(ap);
        return;
    }
    if (level > threshold)
        return;
    char line[2304];
    int n = write_head(level, line, sizeof line);
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
