// A frame of the control bus: what is taken is whole, and can be packed and read again.
#include <stdlib.h>
#include <string.h>

#include "common/bus/bus.h"
#include "common/bus/envelope.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    Sl__Control__Envelope *m, *again;
    if (sl_envelope_read(data, n, &m) == SL_REFUSAL_NONE) {
        FUZZ_WANT(m->protocol == SL_PROTOCOL_VERSION);
        FUZZ_WANT(m->job);
        size_t bytes = sl__control__envelope__get_packed_size(m);
        uint8_t *packed = malloc(bytes);
        FUZZ_WANT(sl__control__envelope__pack(m, packed) == bytes);
        // What a peer adds of its own is carried on: libprotobuf-c reads fields of number 0 that it
        // does not take back.
        if (sl_envelope_read(packed, bytes, &again) == SL_REFUSAL_NONE)
            FUZZ_WANT(again->body_case == m->body_case);
        else
            FUZZ_WANT(!again);
        sl_bus_message_free(again);
        free(packed);
    }
    sl_bus_message_free(m);
    return 0;
}
