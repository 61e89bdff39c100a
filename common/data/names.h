/*
 * names.h - names of vertices or classes beside a data set, mapped: two arrays, so that a billion
 * names are two files and NumPy reads them.
 *
 *   WHAT_name_offsets.npy   int64 (n + 1)  starts at 0, never falls, ends at the number of bytes
 *   WHAT_names.npy          uint8 (bytes)  name i is bytes[offsets[i]:offsets[i + 1]]
 *
 * WHAT is "vertex" or "class". A name is any bytes but a newline. Those of vertices go by the ids
 * that the data set had before any reordering, which are the ones that its user knows.
 */
#ifndef SL_DATA_NAMES_H
#define SL_DATA_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "common/data/npy.h"

#define SL_NAMES_VERTEX "vertex"
#define SL_NAMES_CLASS  "class"

struct sl_names {
    struct sl_npy bytes, offsets;
    uint64_t n;
};

// SL_ENOENT where the directory has none; SL_EFORMAT where they are not n, or one of the files is
// missing. Offsets are checked as they are used.
int sl_names_open(const char *directory, const char *what, uint64_t n, struct sl_names *out);
void sl_names_close(struct sl_names *names); // safe on a zeroed struct

// *text (borrowed from the mapping) and *n of name i, which is below names->n. SL_EFORMAT.
int sl_names_get(const struct sl_names *names, uint64_t i, const char **text, size_t *n);

// Looks at every offset. SL_EFORMAT.
int sl_names_check(const struct sl_names *names);

// The files of one directory in another one, whose vertices are the same in another order; nothing
// where there are none. SL_EFORMAT, SL_EIO.
int sl_names_copy(const char *from, const char *to, const char *what, uint64_t n);

// ---- writing ------------------------------------------------------------------------------------

struct sl_names_writer {
    struct sl_npy_writer *bytes, *offsets;
    uint64_t n_bytes, n;
};

int sl_names_writer_open(struct sl_names_writer *w, const char *directory, const char *what);
int sl_names_writer_put(struct sl_names_writer *w, const char *text, size_t n);
// As sl_npy_writer_close(). Safe on a zeroed struct.
int sl_names_writer_close(struct sl_names_writer *w, int rc);

#endif
