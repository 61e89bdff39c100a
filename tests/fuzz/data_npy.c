// A .npy file: what is accepted fills the file exactly, and who maps sees what who converts sees.
#include <string.h>

#include "common/base/error.h"
#include "common/data/npy.h"
#include "tests/fuzz/fuzz.h"

static void check_size(const struct sl_npy_header *h, size_t n)
{
    FUZZ_WANT(h->data_offset <= n && h->data_bytes == n - h->data_offset);
    FUZZ_WANT(h->ndim >= 0 && h->ndim <= SL_NPY_MAX_DIMS);
    unsigned __int128 bytes = sl_dtype_bytes(h->dtype);
    for (int i = 0; i < h->ndim; i++)
        bytes = h->shape[i] == 0 ? 0 : bytes * h->shape[i] > n ? n + 1 : bytes * h->shape[i];
    for (int i = 0; i < h->ndim; i++)
        bytes = h->shape[i] == 0 ? 0 : bytes;
    FUZZ_WANT(bytes == h->data_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sl_npy_header head, foreign, text;
    struct sl_npy npy;
    char shape[128];
    int mapped = sl_npy_parse_header(data, n, n, "a.npy", &head);
    int converted = sl_npy_parse_foreign(data, n, n, "a.npy", &foreign);
    if (converted == SL_OK)
        check_size(&foreign, n);
    if (sl_npy_parse_text(data, n, n, "a.npy", &text) == SL_OK) {
        check_size(&text, n);
        FUZZ_WANT(converted != SL_OK);
    }
    int rc = sl_npy_open(fuzz_file(0, data, n), &npy);
    FUZZ_WANT((rc == SL_OK) == (mapped == SL_OK));
    if (rc < 0)
        return 0;
    check_size(&head, n);
    FUZZ_WANT(converted == SL_OK && foreign.data_offset == head.data_offset);
    FUZZ_WANT(npy.n_elems * sl_dtype_bytes(head.dtype) == head.data_bytes);
    fuzz_touch(npy.data, head.data_bytes);
    sl_npy_shape_text(&npy.head, shape, sizeof shape);
    sl_npy_close(&npy);
    return 0;
}
