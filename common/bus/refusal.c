#include "common/text/units.h"
#include "common/bus/refusal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"

#define LOG_EVERY_NS UINT64_C(1000000000)

static const char *const names[SL_REFUSAL_COUNT] = {"malformed or unknown", "too large",
                                                    "of a stranger", "of another protocol version"};

void sl_refusals_count(struct sl_refusals *r, enum sl_refusal why)
{
    r->total++;
    r->untold[why]++;
    sl_refusals_log(r, false);
}

void sl_refusals_log(struct sl_refusals *r, bool now)
{
    uint64_t untold = 0;
    for (int i = 0; i < SL_REFUSAL_COUNT; i++)
        untold += r->untold[i];
    if (untold == 0)
        return;
    uint64_t time = sl_now_ns();
    if (!now && r->told_ns && time - r->told_ns < LOG_EVERY_NS)
        return;
    char why[160] = "";
    for (int i = 0; i < SL_REFUSAL_COUNT; i++) {
        size_t used = strlen(why);
        if (r->untold[i] == untold)
            snprintf(why, sizeof why, "%s", names[i]);
        else if (r->untold[i])
            snprintf(why + used, sizeof why - used, "%s%" PRIu64 " %s", used ? ", " : "",
                     r->untold[i], names[i]);
    }
    r->told_ns = time;
    memset(r->untold, 0, sizeof r->untold);
    sl_log_warn("control bus: %s refused: %s", SL_PLURAL(untold, "message"), why);
}
