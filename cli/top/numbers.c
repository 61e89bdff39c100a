#include "cli/top/numbers.h"

#include <math.h>
#include <stdio.h>

#include "common/base/bits.h"

static char *unknown(char *buf)
{
    snprintf(buf, SL_NUMBER_BYTES, "-");
    return buf;
}

// Two or three digits that count.
static char *scaled(char *buf, double x, const char *unit)
{
    int decimals = fabs(x) < 9.95 ? 1 : 0;
    snprintf(buf, SL_NUMBER_BYTES, "%.*f%s%s", decimals, x, *unit ? " " : "", unit);
    return buf;
}

char *sl_number_bytes(char *buf, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t u = 0;
    if (!isfinite(bytes))
        return unknown(buf);
    if (fabs(bytes) < 999.5) {
        snprintf(buf, SL_NUMBER_BYTES, "%.0f B", bytes);
        return buf;
    }
    for (; fabs(bytes) >= 999.5 && u + 1 < SL_COUNT_OF(units); u++)
        bytes /= 1024;
    return scaled(buf, bytes, units[u]);
}

char *sl_number_count(char *buf, double count)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    size_t u = 0;
    if (!isfinite(count))
        return unknown(buf);
    if (count == floor(count) && fabs(count) < 10000)
        return sl_number_whole(buf, count);
    for (; fabs(count) >= 999.5 && u + 1 < SL_COUNT_OF(units); u++)
        count /= 1000;
    return scaled(buf, count, units[u]);
}

char *sl_number_whole(char *buf, double count)
{
    if (!isfinite(count))
        return unknown(buf);
    snprintf(buf, SL_NUMBER_BYTES, "%.0f", count);
    return buf;
}

char *sl_number_seconds(char *buf, double seconds)
{
    if (!isfinite(seconds))
        return unknown(buf);
    if (fabs(seconds) < 0.9995e-3)
        snprintf(buf, SL_NUMBER_BYTES, "%.0f us", seconds * 1e6);
    else if (fabs(seconds) < 0.9995)
        scaled(buf, seconds * 1e3, "ms");
    else if (fabs(seconds) < 99.95)
        scaled(buf, seconds, "s");
    else
        sl_number_clock(buf, seconds);
    return buf;
}

char *sl_number_clock(char *buf, double seconds)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9)
        return unknown(buf);
    long s = lround(seconds);
    if (s < 3600)
        snprintf(buf, SL_NUMBER_BYTES, "%ld:%02ld", s / 60, s % 60);
    else
        snprintf(buf, SL_NUMBER_BYTES, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    return buf;
}

char *sl_number_percent(char *buf, double share)
{
    if (!isfinite(share))
        return unknown(buf);
    if (share > 0 && share < 0.005)
        snprintf(buf, SL_NUMBER_BYTES, "<1 %%");
    else
        snprintf(buf, SL_NUMBER_BYTES, "%.0f %%", share * 100);
    return buf;
}
