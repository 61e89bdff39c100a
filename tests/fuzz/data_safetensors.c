// A .safetensors file of anybody's: what is accepted can be read to its last byte.
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/data/safetensors.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sl_safetensors_file f;
    char hex[SL_SHA256_HEX_BYTES];
    if (sl_safetensors_open(fuzz_file(0, data, n), &f) < 0)
        return 0;
    uint64_t bytes = 0, header;
    memcpy(&header, data, sizeof header);
    for (size_t i = 0; i < f.n_tensors; i++) {
        const struct sl_safetensor *t = &f.tensors[i];
        uint64_t count = sl_safetensor_count(t);
        FUZZ_WANT(count <= n && sl_safetensors_find(&f, t->name) == t);
        bytes += count * sl_dtype_bytes(t->dtype);
        fuzz_touch(t->data, count * sl_dtype_bytes(t->dtype));
        float *values = malloc(count * sizeof *values + 1);
        sl_safetensor_floats(t, values);
        free(values);
    }
    FUZZ_WANT(bytes == n - sizeof header - header);
    for (size_t i = 0; i < f.n_notes; i++)
        FUZZ_WANT(sl_safetensors_note(&f, f.notes[i].key));
    sl_safetensors_sha256(f.tensors, f.n_tensors, hex);
    sl_safetensors_close(&f);
    return 0;
}
