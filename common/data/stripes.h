/*
 * stripes.h - features in several files, each on a drive of its own.
 *
 * PROBLEM. One drive serves so many reads a second and no more; several serve their sum, if a
 * mini-batch's rows lie on all of them.
 *
 * DESIGN. metadata.json names the files, in place of node_feat.npy:
 *
 *      "feat_stripes": {"files": ["feat.0", "/srv/b/feat.1"]}     (relative to the directory)
 *
 * Of a typed graph each entry of "types" may have it, in place of its node_feat.TYPE.npy.
 *
 * Each begins with a block of SL_STRIPE_HEAD_BYTES that says which one it is of which set. Behind
 * it stand units: the matrix, rows one behind the other without a header, is cut into units of
 * unit_bytes, of which file k has every n-th from the k-th on. A unit is whole rows and whole
 * pages, so a row lies in one file, and units are mapped beside one another: ds->feat is one matrix
 * for whoever reads it through memory.
 */
#ifndef SL_DATA_STRIPES_H
#define SL_DATA_STRIPES_H

#include <stdint.h>

#include "common/data/npy.h"

enum {
    SL_STRIPES_MAX = 64,
    SL_STRIPE_FILES_MAX = 512, // of all types
    SL_STRIPE_HEAD_BYTES = 4096,
    SL_STRIPE_UNITS_MAX = 60000, // of all types: a process may have 65530 mappings
};

struct sl_stripe {
    char *path;                   // (owned) as it is opened
    struct sl_file_id id;         // as it was then
    const struct sl_file_id *was; // before, where it was looked at before; else NULL. Borrowed
};

// A zeroed struct is none.
struct sl_stripes {
    uint32_t n;
    uint64_t unit_bytes, matrix_bytes;
    struct sl_stripe file[SL_STRIPES_MAX];
};

// What a file begins with: little-endian, zeros behind it.
struct sl_stripe_head {
    char magic[8];
    uint32_t version, number, n, dtype; // this one of n; enum sl_dtype
    uint64_t set;                       // the same in all files of a set, and in no other
    uint64_t unit_bytes, rows, columns;
};

extern const char sl_stripe_magic[8];
enum { SL_STRIPE_VERSION = 1 };

// The smallest unit of at least `wanted` bytes for rows of row_bytes.
uint64_t sl_stripes_unit(uint64_t row_bytes, uint64_t wanted);
// Bytes of file `number`, with its head. Of s: n, unit_bytes and matrix_bytes.
uint64_t sl_stripes_file_bytes(const struct sl_stripes *s, uint32_t number);

// Where a byte of the matrix is.
static inline void sl_stripes_place(uint64_t unit_bytes, uint32_t n, uint64_t at, uint32_t *file,
                                    uint64_t *offset)
{
    const uint64_t unit = at / unit_bytes;
    *file = (uint32_t)(unit % n);
    *offset = SL_STRIPE_HEAD_BYTES + unit / n * unit_bytes + at % unit_bytes;
}

/*
 * Maps all files of s->file[0 .. n).path as one matrix; *out is then as of an .npy file, and its
 * units are added to *n_units, those that are mapped already. Errors name the file: SL_ENOENT,
 * SL_EFORMAT for one that is none, cut, of another set or in another's place, SL_ECHANGED for one
 * that is not what it was; SL_EUNSUPPORTED for more units than can be mapped; SL_ENOMEM.
 */
int sl_stripes_map(struct sl_stripes *s, uint64_t *n_units, struct sl_npy *out);
void sl_stripes_fini(struct sl_stripes *s); // the paths; the mapping is sl_npy_close()'s

#endif
