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
            const struct sl_param_tensor *t = &params.tensors[i];
            unsigned __int128 product = t->role != SL_PARAM_COUNTER && t->role != SL_PARAM_TWIN;
            for (uint32_t d = 0; d < t->rank; d++)
                product *= t->shape[d];
            FUZZ_WANT(t->n == product);
            FUZZ_WANT(t->offset == (t->twin ? t[-(int64_t)t->twin].offset : floats));
            FUZZ_WANT((t->twin > 0) == (t->role == SL_PARAM_TWIN) && t->twin <= i);
            FUZZ_WANT(!__builtin_add_overflow(floats, t->n, &floats));
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
