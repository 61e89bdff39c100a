#include "common/text/bytes_text.h"

#include <stdio.h>

#include "common/base/bits.h"

char *sl_bytes_text(char buf[SL_BYTES_TEXT], uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    size_t u = 0;
    for (; value >= 1024 && u + 1 < SL_COUNT_OF(units); u++)
        value /= 1024;
    snprintf(buf, SL_BYTES_TEXT, "%llu bytes (%.1f %s)", (unsigned long long)bytes, value,
             units[u]);
    return buf;
}
