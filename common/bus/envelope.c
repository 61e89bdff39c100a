#include "common/bus/envelope.h"
#include "common/base/clock.h"
#include "common/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// A version above is taken for garbage that happens to parse.
enum { VERSION_MAX = 1000 };

enum sl_refusal sl_envelope_read(const void *bytes, size_t n, Sl__Control__Envelope **out)
{
    *out = NULL;
    if (n > SL_BUS_MESSAGE_MAX)
        return SL_REFUSAL_OVERSIZED;
    Sl__Control__Envelope *m = sl__control__envelope__unpack(NULL, n, bytes);
    if (!m)
        return SL_REFUSAL_MALFORMED;
    *out = m;
    if (m->protocol == 0 || m->protocol > VERSION_MAX)
        return SL_REFUSAL_MALFORMED;
    if (m->protocol != SL_PROTOCOL_VERSION)
        return SL_REFUSAL_OTHER_VERSION;
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY__NOT_SET)
        return SL_REFUSAL_MALFORMED;
    return SL_REFUSAL_NONE;
}

// --- messages that were not taken ----------------------------------------------------------------

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
    sl_log_warn("control bus: %" PRIu64 " message%s refused: %s", untold, untold == 1 ? "" : "s",
                why);
}
