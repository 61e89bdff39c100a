/*
 * safetensors.h - trained parameters as a .safetensors file.
 *
 * The format of the Hugging Face library of that name: the header's length as a little-endian
 * 64-bit number, a JSON header, then the tensors one after another. Here all tensors are float32,
 * contiguous, in the order in which they are given, and the data starts at a multiple of 8 bytes.
 */
#ifndef SL_COMMON_DATA_SAFETENSORS_H
#define SL_COMMON_DATA_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#define SL_SAFETENSORS_MAX_DIMS 4
#define SL_SHA256_HEX_BYTES     65 // 64 lowercase digits and a zero

struct sl_safetensor {
    const char *name; // "convs.0.lin_l.weight"; unique in a file
    int ndim;
    uint64_t shape[SL_SAFETENSORS_MAX_DIMS];
    const float *data; // (product of shape), row-major
};

// An entry of the header's "__metadata__".
struct sl_safetensors_note {
    const char *key;
    const char *value;
};

/*
 * Writes a file that appears whole or not at all; n_notes may be 0. SL_EINVAL for a repeated,
 * missing or reserved name or a shape that is none, else as sl_atomic_file_open and _commit.
 */
int sl_safetensors_write(const char *path, const struct sl_safetensor *tensors, size_t n_tensors,
                         const struct sl_safetensors_note *notes, size_t n_notes);

/*
 * SHA-256 over the tensors' data in the given order, that is over all bytes of the file behind its
 * header: independent of names and notes. This is the report's params_sha256.
 */
int sl_safetensors_sha256(const struct sl_safetensor *tensors, size_t n_tensors,
                          char hex[SL_SHA256_HEX_BYTES]);

#endif
