/*
 * array_reader.h - arrays of other programs as streams of numbers: a .npy file, or a member of a
 * zip file (numpy's .npz), of any number type and byte order, read front to back.
 */
#ifndef SL_DATASET_ARRAY_READER_H
#define SL_DATASET_ARRAY_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/npy.h"
#include "dataset/zip_reader.h"

struct sl_array_reader;

// SL_ENOENT, SL_EACCESS, SL_EIO, and as sl_npy_parse_foreign.
int sl_array_open_file(const char *path, struct sl_array_reader **out);

// A file without a header: C order, little-endian; head->dtype, ndim and shape say what it holds,
// and its size must agree. A file that begins as a .npy file is read as one. SL_EFORMAT.
int sl_array_open_raw(const char *path, const struct sl_npy_header *head,
                      struct sl_array_reader **out);

// The member `key`.npy. SL_ENOENT when there is none; as above and as sl_zip_stream_open.
int sl_array_open_member(const struct sl_zip *zip, const char *key, struct sl_array_reader **out);
bool sl_array_has_member(const struct sl_zip *zip, const char *key);

// The text that the member `key` holds (np.array("csr"), b"csr" or "csr" in UTF-32), ASCII without
// zeros, cut to n - 1 bytes. Errors as above; SL_EUNSUPPORTED where it is no text.
int sl_array_get_text(const struct sl_zip *zip, const char *key, char *out, size_t n);

// Elements that lie somewhere in a larger file, without a header: n_bytes from `at` on, of a zip
// file's member, else of fd, which stays the caller's. utf8: bytes are the characters of a text.
struct sl_array_part {
    const char *name; // for messages
    const struct sl_npy_header *head;
    const struct sl_zip *zip; // must outlive the reader; NULL: fd
    size_t member;
    int fd;
    uint64_t size; // of fd
    uint64_t at, n_bytes;
    bool utf8;
};
int sl_array_open_part(const struct sl_array_part *part, struct sl_array_reader **out);

void sl_array_close(struct sl_array_reader *r); // NULL is fine

// Its header.
const struct sl_npy_header *sl_array_header(const struct sl_array_reader *r);
// "graph.npz: adj_data" or "DIR/edges.npy": for messages.
const char *sl_array_name(const struct sl_array_reader *r);
uint64_t sl_array_count(const struct sl_array_reader *r); // of elements
uint64_t sl_array_left(const struct sl_array_reader *r);  // of them not yet read
bool sl_array_is_integer(const struct sl_array_reader *r);
// SL_EFORMAT where it cannot be numbers of vertices: it is a mask.
int sl_array_check_ids(const struct sl_array_reader *r);

/*
 * The next n elements, in the order of the file. Reading the last element of a member verifies its
 * checksum.
 *   doubles: any number type. An integer beyond 2^53 is rounded.
 *   integers: integer types, and floats that hold whole numbers; else SL_EFORMAT with the place.
 */
int sl_array_read_doubles(struct sl_array_reader *r, uint64_t n, double *out);
int sl_array_read_integers(struct sl_array_reader *r, uint64_t n, int64_t *out);
// As doubles that are rounded, without a detour where the array is float32. SL_EFORMAT for a finite
// number that float32 does not hold; nan and inf stay what they are.
int sl_array_read_floats(struct sl_array_reader *r, uint64_t n, float *out);

// Leaves out n elements; of a compressed member they are inflated all the same.
int sl_array_skip(struct sl_array_reader *r, uint64_t n);

#endif
