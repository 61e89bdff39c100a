// A trainer's Hello in a frame of the control bus: the tensors that the broker makes of it.
#include <stdlib.h>

#include "broker/rundir/params.h"
#include "common/base/error.h"
#include "common/bus/bus.h"
#include "common/bus/envelope.h"
#include "tests/fuzz/fuzz.h"

enum { FLOATS_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    Sl__Control__Envelope *m;
    struct sl_params params = {0};
    if (sl_envelope_read(data, n, &m) == SL_REFUSAL_NONE &&
        m->body_case == SL__CONTROL__ENVELOPE__BODY_HELLO &&
        sl_params_from_hello(&params, m->hello) == SL_OK) {
        uint64_t floats = 0;
        FUZZ_WANT(sl_params_agree(&params, m->hello));
        for (uint32_t i = 0; i < params.n_tensors; i++) {
            unsigned __int128 product = params.tensors[i].role != SL_PARAM_COUNTER;
            for (uint32_t d = 0; d < params.tensors[i].rank; d++)
                product *= params.tensors[i].shape[d];
            FUZZ_WANT(params.tensors[i].offset == floats && params.tensors[i].n == product);
            FUZZ_WANT(!__builtin_add_overflow(floats, params.tensors[i].n, &floats));
        }
        FUZZ_WANT(floats == params.n);
        float *values = params.n <= FLOATS_MAX ? malloc(params.n * sizeof *values + 1) : NULL;
        if (values)
            sl_params_initialise(&params, 7, values);
        free(values);
    }
    sl_params_fini(&params);
    sl_bus_message_free(m);
    return 0;
}
