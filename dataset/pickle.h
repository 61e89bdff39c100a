/*
 * pickle.h - arrays in what Python has pickled, of NumPy and of torch.save(): a machine that
 * follows the pickle's instructions without doing anything that they say. Functions are not called
 * but recognised by name: those that make arrays; of all others nothing is known of the result.
 *
 * Contents of arrays are not read: what is known is where they lie.
 */
#ifndef SL_DATASET_PICKLE_H
#define SL_DATASET_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/npy.h"
#include "dataset/zip_reader.h"

enum sl_pickle_kind {
    SL_PICKLE_OTHER, // nothing is known of it
    SL_PICKLE_NUMBER,
    SL_PICKLE_TEXT,
    SL_PICKLE_BYTES,
    SL_PICKLE_SEQUENCE, // a tuple or a list
    SL_PICKLE_DICT,     // keys and values in turns
    SL_PICKLE_GLOBAL,   // a function or a class; its text is "module name"
    SL_PICKLE_TYPE,     // of an array's elements
    SL_PICKLE_STORAGE,  // that tensors are in; its text is its key
    SL_PICKLE_ARRAY,
};

enum { SL_PICKLE_TEXT_BYTES = 64 };

struct sl_pickle_value {
    enum sl_pickle_kind kind;
    char text[SL_PICKLE_TEXT_BYTES]; // of TEXT, GLOBAL and STORAGE; longer ones are cut
    int64_t number;                  // of NUMBER; of STORAGE its elements
    uint64_t at, n_bytes;            // of TEXT and BYTES: where they lie in the pickle
    bool utf8;                       // of BYTES: as characters in UTF-8, each of which is a byte
    uint32_t first, last, n;         // of SEQUENCE and DICT: items
    struct sl_npy_header head;       // of TYPE and STORAGE the type alone
    // Of ARRAY: the BYTES or the STORAGE that it is in; 0: nothing is known of it, as it is a view
    // that is neither in rows nor in columns.
    uint32_t content;
    uint64_t offset; // elements of the storage in front of it
};

// Where a pickle is read from. Of a zip's member `stream`, else fd from `at` on.
struct sl_pickle_source {
    const char *name; // for messages
    int fd;
    struct sl_zip_stream *stream;
    uint64_t at; // of the next byte that is read
    uint64_t size;

    uint32_t next, n; // of the buffer
    unsigned char buffer[1 << 14];
};

struct sl_pickle;

/*
 * Reads one pickle, protocols 2 to 5, and leaves src->at behind it. SL_EFORMAT for what is damaged
 * or ends early, SL_EUNSUPPORTED for instructions that no file of arrays needs, and for more than
 * 65,536 objects; SL_EIO, SL_ENOMEM.
 */
int sl_pickle_read(struct sl_pickle_source *src, struct sl_pickle **out);
void sl_pickle_close(struct sl_pickle *p); // NULL is fine

// Borrowed until the close. The pickled object is the root.
const struct sl_pickle_value *sl_pickle_root(const struct sl_pickle *p);
const struct sl_pickle_value *sl_pickle_value(const struct sl_pickle *p, uint32_t value);
// Item i of a SEQUENCE or DICT; O(i). NULL: it has no such item.
const struct sl_pickle_value *sl_pickle_item(const struct sl_pickle *p,
                                             const struct sl_pickle_value *v, uint32_t i);
// The value of a DICT under a text; NULL: v is no dictionary, or has none.
const struct sl_pickle_value *sl_pickle_get(const struct sl_pickle *p,
                                            const struct sl_pickle_value *v, const char *key);

#endif
