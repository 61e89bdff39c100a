// A file of torch.save(): a zip file or pickles, and the arrays in its dictionaries.
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/torch_file.h"
#include "tests/fuzz/fuzz.h"

// An array's shape may promise more than is worth reading.
enum { READ_MAX = 1 << 17, BATCH = 512 };

static void read_array(struct sl_array_reader *r)
{
    double x[BATCH];
    uint64_t n = sl_array_count(r);
    FUZZ_WANT(sl_array_left(r) == n);
    for (uint64_t done = 0; sl_array_left(r) > 0 && done < READ_MAX; done += BATCH) {
        const uint64_t some = SL_MIN(sl_array_left(r), (uint64_t)BATCH);
        if (sl_array_read_doubles(r, some, x) < 0)
            return;
        n -= some;
        FUZZ_WANT(sl_array_left(r) == n);
    }
}

static void look(const struct sl_torch_file *t, const char *group)
{
    static const char *const keys[] = {"edge", "edge_neg", "weight", "year", NULL};
    char text[64];
    FUZZ_WANT(strlen(sl_torch_keys(t, group, keys, text, sizeof text)) < sizeof text);
    for (size_t i = 0; keys[i]; i++) {
        struct sl_array_reader *r;
        const enum sl_torch_what what = sl_torch_what(t, group, keys[i]);
        if (sl_torch_open_array(t, group, keys[i], &r) < 0)
            continue;
        FUZZ_WANT(what == SL_TORCH_ARRAY);
        read_array(r);
        sl_array_close(r);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sl_torch_file *t;
    if (sl_torch_open(fuzz_file(0, data, n), &t) < 0) {
        FUZZ_WANT(!t && sl_error_message()[0]);
        return 0;
    }
    look(t, NULL);
    look(t, "train");
    sl_torch_close(t);
    return 0;
}
