#include "common/data/safetensors.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <sodium.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/data/atomic_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are written as they lie");

enum { HEADER_ALIGN = 8 };

/*
 * The data's order: integers before floats, each in the order given, so that every tensor lies at
 * a multiple of its element's size. The format does not ask for that, but readers that map the file
 * like it.
 */
static const bool passes[] = {true, false};

static bool is_wide(const struct sl_safetensor *t)
{
    return t->dtype == SL_DTYPE_I64;
}

// Bytes of a tensor's data; SL_EINVAL for a type that is not written and a shape that is none.
static int size_of(const struct sl_safetensor *t, uint64_t *bytes)
{
    if (!is_wide(t) && t->dtype != SL_DTYPE_F32 && t->dtype != SL_DTYPE_NONE)
        return sl_fail(SL_EINVAL, "tensor %s: neither float32 nor int64", t->name);
    *bytes = is_wide(t) ? sizeof(int64_t) : sizeof(float);
    bool bad = t->ndim < 0 || t->ndim > SL_SAFETENSORS_MAX_DIMS;
    for (int i = 0; !bad && i < t->ndim; i++)
        bad = __builtin_mul_overflow(*bytes, t->shape[i], bytes);
    // Offsets in the header are JSON numbers: whole up to 2^53.
    if (bad || *bytes > (uint64_t)1 << 50 || (*bytes > 0 && !t->data))
        return sl_fail(SL_EINVAL, "tensor %s: impossible shape or no data", t->name);
    return SL_OK;
}

static int add_tensor(cJSON *json, const struct sl_safetensor *t, uint64_t *offset)
{
    uint64_t bytes;
    if (!t->name || !t->name[0] || strcmp(t->name, "__metadata__") == 0)
        return sl_fail(SL_EINVAL, "a tensor without a name of its own");
    if (cJSON_GetObjectItemCaseSensitive(json, t->name))
        return sl_fail(SL_EINVAL, "tensor %s: two tensors of this name", t->name);
    SL_TRY(size_of(t, &bytes));
    cJSON *item = cJSON_AddObjectToObject(json, t->name);
    bool ok = item && cJSON_AddStringToObject(item, "dtype", is_wide(t) ? "I64" : "F32");
    cJSON *shape = cJSON_AddArrayToObject(item, "shape");
    for (int i = 0; i < t->ndim; i++)
        ok &= cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->shape[i]));
    cJSON *offsets = cJSON_AddArrayToObject(item, "data_offsets");
    ok &= cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)*offset));
    *offset += bytes;
    ok &= cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)*offset));
    return ok ? SL_OK : sl_fail(SL_ENOMEM, "out of memory");
}

// The JSON header as text (free() it); `offset` is the size of all data.
static int make_header(const struct sl_safetensor *tensors, size_t n_tensors,
                       const struct sl_safetensors_note *notes, size_t n_notes, char **text)
{
    int rc = SL_OK;
    uint64_t offset = 0;
    cJSON *json = cJSON_CreateObject();
    cJSON *meta = n_notes ? cJSON_AddObjectToObject(json, "__metadata__") : NULL;
    for (size_t i = 0; i < n_notes && rc == SL_OK; i++)
        if (!cJSON_AddStringToObject(meta, notes[i].key, notes[i].value))
            rc = sl_fail(SL_ENOMEM, "out of memory");
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < n_tensors && rc == SL_OK; i++)
            if (is_wide(&tensors[i]) == passes[pass])
                rc = add_tensor(json, &tensors[i], &offset);
    *text = rc == SL_OK ? sl_json_line(json) : NULL;
    if (rc == SL_OK && !*text)
        rc = sl_fail(SL_ENOMEM, "out of memory");
    cJSON_Delete(json);
    return rc;
}

static int append_all(struct sl_atomic_file *f, const char *header,
                      const struct sl_safetensor *tensors, size_t n_tensors)
{
    static const char spaces[HEADER_ALIGN] = "        ";
    size_t n = strlen(header);
    uint64_t padded = sl_align_up(n, HEADER_ALIGN), bytes;
    SL_TRY(sl_atomic_file_append(f, &padded, sizeof padded));
    SL_TRY(sl_atomic_file_append(f, header, n));
    SL_TRY(sl_atomic_file_append(f, spaces, padded - n));
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n_tensors; i++) {
            if (is_wide(&tensors[i]) != passes[pass])
                continue;
            SL_TRY(size_of(&tensors[i], &bytes));
            SL_TRY(sl_atomic_file_append(f, tensors[i].data, bytes));
        }
    }
    return SL_OK;
}

int sl_safetensors_write(const char *path, const struct sl_safetensor *tensors, size_t n_tensors,
                         const struct sl_safetensors_note *notes, size_t n_notes)
{
    char *header;
    struct sl_atomic_file f = {0};
    int rc = make_header(tensors, n_tensors, notes, n_notes, &header);
    if (rc < 0)
        return sl_fail_prefix(rc, "write %s", path);
    SL_TRY_OUT(sl_atomic_file_open(path, &f));
    SL_TRY_OUT(append_all(&f, header, tensors, n_tensors));
    rc = sl_atomic_file_commit(&f);
out:
    sl_atomic_file_abort(&f);
    free(header);
    return rc;
}

int sl_safetensors_sha256(const struct sl_safetensor *tensors, size_t n_tensors,
                          char hex[SL_SHA256_HEX_BYTES])
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    uint64_t bytes = 0;
    if (sodium_init() < 0)
        return sl_fail(SL_ESYS, "libsodium cannot be initialised");
    crypto_hash_sha256_init(&state);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n_tensors; i++) {
            if (is_wide(&tensors[i]) != passes[pass])
                continue;
            SL_TRY(size_of(&tensors[i], &bytes));
            crypto_hash_sha256_update(&state, (const unsigned char *)tensors[i].data, bytes);
        }
    }
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(hex, SL_SHA256_HEX_BYTES, hash, sizeof hash);
    return SL_OK;
}
