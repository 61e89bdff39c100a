/*
 * safetensors.h - trained parameters as a .safetensors file.
 *
 * The format of the Hugging Face library of that name: the header's length as a little-endian
 * 64-bit number, a JSON header, then the tensors one after another. What is written here is int64
 * and then float32, each in the order in which they are given, contiguous, and the data starts at a
 * multiple of 8 bytes: so every tensor is aligned.
 *
 * Reading: safetensors_read.c.
 */
#ifndef SL_DATA_SAFETENSORS_H
#define SL_DATA_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/dtype.h"

#define SL_SAFETENSORS_MAX_DIMS 4
#define SL_SHA256_HEX_BYTES     65 // 64 lowercase digits and a zero

struct sl_safetensor {
    const char *name;    // "convs.0.lin_l.weight"; unique in a file
    enum sl_dtype dtype; // when written: F32 (also NONE) or I64
    int ndim;            // 0 = a scalar
    uint64_t shape[SL_SAFETENSORS_MAX_DIMS];
    const void *data; // (product of shape), row-major
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
 * SHA-256 over the tensors' data in the file's order, that is over all bytes of the file behind its
 * header: independent of names and notes. This is the report's params_sha256.
 */
int sl_safetensors_sha256(const struct sl_safetensor *tensors, size_t n_tensors,
                          char hex[SL_SHA256_HEX_BYTES]);

// A file that is open for reading, mapped.
struct sl_safetensors_file {
    char path[4096];
    size_t n_tensors;
    // In the order of their data, which points into the mapping (or, where a writer left it
    // unaligned for its type, at an aligned copy); borrowed, valid until close.
    struct sl_safetensor *tensors;
    size_t n_notes;
    struct sl_safetensors_note *notes;
    struct sl_safetensors_mapping *mapping; // private
};

/*
 * Opens a file that anybody may have written. Everything is checked before it is believed: the
 * header's length and JSON, names, types (F32, F16, BF16, F64, I64, I32; others are
 * SL_EUNSUPPORTED), shapes, and that the tensors' bytes cover the data exactly, without holes and
 * overlaps. SL_EFORMAT says which tensor, what was found and what was wanted. SL_ENOENT and
 * SL_EACCESS; SL_EUNSUPPORTED also for more than SL_SAFETENSORS_MAX_DIMS dimensions.
 */
int sl_safetensors_open(const char *path, struct sl_safetensors_file *out);
void sl_safetensors_close(struct sl_safetensors_file *f); // safe on a zeroed struct

// NULL when there is none.
const struct sl_safetensor *sl_safetensors_find(const struct sl_safetensors_file *f,
                                                const char *name);
const char *sl_safetensors_note(const struct sl_safetensors_file *f, const char *key);

// Elements of a tensor.
uint64_t sl_safetensor_count(const struct sl_safetensor *t);
// Where an element is, "[3, 0]", into text; returns text.
char *sl_safetensor_place(const struct sl_safetensor *t, uint64_t element, char text[96]);
// Its values as float32, out (count). SL_EUNSUPPORTED for an integer tensor, SL_EFORMAT for a
// finite number that float32 does not hold; nan and inf stay what they are.
int sl_safetensor_floats(const struct sl_safetensor *t, float *out);

#endif
