/*
 * resident.h - brings rows of a matrix of all vertices to where the device reads them, for a piece
 * of inference.
 *
 * PROBLEM. Layer-wise inference reads features and activations of all vertices, in the machine's
 * memory, and a GPU reads its own. The matrix may be larger than that; or a piece may want a few
 * rows of it.
 *
 * DESIGN. On a CPU device rows are read where they lie. A GPU has them in one of three ways, which
 * is found for each matrix anew:
 *
 *      copy     the whole matrix in the device's memory, where it fits and an eighth of the device
 *               stays free for the work. It is copied at once for a range of vertices, which is a
 *               part of all of them; for lists, which may touch little of it, once rows for as many
 *               bytes have been gathered
 *      mapped   the machine's memory in place, over the bus, where the system lets it be pinned.
 *               Not where it is more than half of what is available, since pinned memory cannot be
 *               given back: but for a copy that is there for that (store.h)
 *      gather   the processor finds the different vertices that a piece needs and gathers their
 *               rows, through pinned memory, one part while the one before is copied
 *
 * A copy is of one matrix, named by its address and by a tag that changes with its rows, and is
 * released when another is asked for, or by the next training step; and when a piece finds no room
 * beside it, which is then gathered as all that follow. Whatever the way, the piece has the same
 * rows and is computed alike: results are the same to the bit.
 *
 * Pinning takes a third of a second a GB, and features are asked for at every evaluation: what is
 * lasting and was mapped once stays mapped.
 *
 * Features that are on the drive are gathered, on CPU devices too: the different rows of a piece
 * are read together.
 *
 * A matrix of which only some rows are there (`partial`) is always gathered: the others may be
 * holes of a file, and reading these takes disk space. Who bounds the machine's memory is asked
 * before a copy reads each part of it, and nothing is then mapped, since pinned pages stay.
 */
#ifndef SL_TRAINER_MODEL_RESIDENT_H
#define SL_TRAINER_MODEL_RESIDENT_H

#include <stdbool.h>
#include <stdint.h>

#include "trainer/model/layer.h"
#include "trainer/model/learned_rows.h"
#include "trainer/feed/compute.h"
#include "trainer/feed/rows.h"

enum sl_resident_way {
    SL_RESIDENT_AUTO,
    // For tests: this one alone.
    SL_RESIDENT_COPY,
    SL_RESIDENT_MAPPED,
    SL_RESIDENT_GATHER,
};

// A matrix of the machine's memory.
struct sl_resident_matrix {
    enum sl_dtype dtype; // F32 or F16
    const void *p;       // (n_rows, dim)
    uint64_t n_rows;
    uint32_t dim;
    uint64_t tag;
    bool partial; // only the rows that pieces name are there
    bool lasting; // its memory and its rows stay as they are until sl_resident_fini()
    // What is at p is not to be touched: rows come from here (features on the drive). NULL: from p.
    struct sl_row_source *source;
    // Rows of dim - learned->from columns of what is at p or `source` is, with learned ones behind
    // them: always gathered. NULL: there are none.
    const struct sl_learned_rows *learned;
};

// Called before a copy reads the machine's memory; zeroed: nobody is.
struct sl_resident_watch {
    int (*before)(void *ctx, uint64_t bytes); // so many are about to be read; its error ends it
    void *ctx;
    bool bounded; // what was read may be given back, so nothing is pinned
};

struct sl_resident {
    enum sl_resident_way way;
    struct sl_resident_watch watch;
    const void *stays; // where a matrix in memory that is taken for good lies, or NULL
    // What is known of the last matrix.
    const void *host;
    uint64_t bytes, tag;
    const struct sl_device *device;
    void *copy;   // device memory, or NULL
    void *mapped; // the device's address of it in place, or NULL
    bool too_large, unmappable, lasting;
    uint64_t gathered; // bytes
    // A lasting matrix that is mapped, whatever the last one is.
    struct {
        const void *host;
        uint64_t bytes;
        void *mapped; // NULL: there is none
    } kept;
    struct sl_buffer staging; // of what goes to a GPU
    struct sl_buffer raw;     // rows that were read, in the store's type
};

/*
 * Fills what of *piece is the device's, but y: adjacency, weights and x. `range`: the piece is of a
 * range of vertices. Lists and matrix must stay as they are until the next sync(). SL_ENOMEM, and
 * errors of the device.
 */
int sl_resident_place(struct sl_resident *r, const struct sl_layer_env *env,
                      const struct sl_resident_matrix *matrix, bool range,
                      struct sl_infer_piece *piece);

// Whether the device has a copy of the matrix at `host` with that tag.
bool sl_resident_has(const struct sl_resident *r, const void *host, uint64_t tag);

// Frees the copy, and makes no other of this matrix. False where there was none.
bool sl_resident_shrink(struct sl_resident *r);

// Forgets the matrix and frees its copy. Nothing may be reading it.
void sl_resident_release(struct sl_resident *r);
void sl_resident_fini(struct sl_resident *r); // safe on a zeroed struct

#endif
