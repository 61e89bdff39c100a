#include "common/bus/envelope.h"

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
