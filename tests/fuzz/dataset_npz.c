// A zip file (numpy's .npz), its members, and the arrays in them.
#include <stdio.h>
#include <string.h>

#include "dataset/array_reader.h"
#include "dataset/zip_reader.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "tests/fuzz/fuzz.h"

// A small file may inflate to a thousand times its size.
enum { READ_MAX = 1 << 20, BATCH = 512 };

static void read_content(const struct sl_zip *z, size_t member)
{
    struct sl_zip_stream *s;
    char bytes[4096];
    if (sl_zip_stream_open(z, member, &s) < 0)
        return;
    for (uint64_t n = 0; n < READ_MAX && sl_zip_stream_left(s);) {
        uint64_t left = sl_zip_stream_left(s), take = SL_MIN(left, (uint64_t)sizeof bytes);
        if (sl_zip_stream_read(s, bytes, take) < 0)
            break;
        FUZZ_WANT(sl_zip_stream_left(s) == left - take);
        n += take;
    }
    if (sl_zip_stream_left(s) == 0)
        FUZZ_WANT(sl_zip_stream_read(s, bytes, 1) < 0);
    sl_zip_stream_close(s);
}

static void read_array(struct sl_array_reader *r)
{
    double numbers[BATCH];
    int64_t integers[BATCH];
    float floats[BATCH];
    FUZZ_WANT(sl_array_left(r) == sl_array_count(r));
    for (int i = 0; i < 3 && sl_array_left(r); i++) {
        uint64_t n = SL_MIN(sl_array_left(r), (uint64_t)BATCH);
        int rc = i == 0   ? sl_array_read_integers(r, n, integers)
                 : i == 1 ? sl_array_read_doubles(r, n, numbers)
                          : sl_array_read_floats(r, n, floats);
        if (rc < 0)
            return;
    }
    sl_array_skip(r, SL_MIN(sl_array_left(r), (uint64_t)READ_MAX / 8));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sl_zip *z;
    struct sl_array_reader *r;
    const char *path = fuzz_file(0, data, n);
    if (sl_array_open_file(path, &r) == SL_OK) {
        read_array(r);
        sl_array_close(r);
    }
    if (sl_zip_open(path, &z) < 0)
        return 0;
    for (size_t i = 0; i < SL_MIN(sl_zip_count(z), (size_t)16); i++) {
        const char *name = sl_zip_name(z, i);
        char key[256], text[8];
        size_t length = strlen(name);
        const size_t found = sl_zip_find(z, name);
        FUZZ_WANT(found < sl_zip_count(z) && strcmp(sl_zip_name(z, found), name) == 0);
        read_content(z, i);
        if (length < 4 || length - 4 >= sizeof key || strcmp(name + length - 4, ".npy") != 0)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)length - 4, name);
        FUZZ_WANT(sl_array_has_member(z, key));
        if (sl_array_open_member(z, key, &r) == SL_OK) {
            read_array(r);
            sl_array_close(r);
        } else if (sl_array_get_text(z, key, text, sizeof text) == SL_OK) {
            FUZZ_WANT(strlen(text) < sizeof text);
        }
    }
    sl_zip_close(z);
    return 0;
}
