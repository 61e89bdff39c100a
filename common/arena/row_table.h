/*
 * row_table.h - learned rows: a row of numbers for each vertex, which training changes.
 *
 * PROBLEM. Vertices without features get rows that are learned. There may be a billion of them, of
 * which a mini-batch meets some hundred thousand: two banks, as the parameter store has
 * (param_store.h), would copy all of them at every update. Rows are therefore written where they
 * lie, by an applier that may be killed at any instruction, and no reader may see half of it.
 *
 * DESIGN. Two files without names, which the broker makes and workers inherit:
 *
 *   rows   values (n_rows, dim), the optimizer's arrays (n_state of them), the best values so far.
 *          In memory, or on a drive (features.place)
 *   work   in memory: the head below, the journal, and a slot for each batch of an update. A slot
 *          has room for all vertices, and what no batch has filled is no memory
 *
 * A trainer leaves a batch's input nodes and the gradient of their rows in its slot before it
 * completes the lease. Whoever applies the update (sync.h) writes parameters into the other bank,
 * which nobody reads, and then steps the rows that the update met. They are cut into lanes, always
 * as many, which its threads take. A lane has a journal and goes a chunk at a time:
 *
 *   1. new values and optimizer state of the chunk go to the journal, which is small enough that
 *      both stay in the core's nearest caches; nothing else is written
 *   2. progress = (update, chunk, whole): from now on the chunk is in the journal
 *   3. the journal is copied to the rows
 *   4. progress = (update, next chunk)
 *
 * and behind the last chunk progress = (next update). Once that is so in all lanes the version is
 * advanced.
 *
 * WHO IS KILLED WHERE. Before 2 the rows of the chunk are as they were, and the next applier, who
 * finds the same rows in the same slots, makes the journal again. Between 2 and 4 it copies the
 * journal once more, which may be done any number of times. Chunks before are not touched again.
 * Behind the last one of all lanes, before the version says so, it makes parameters alone. Batches
 * wait for the version before they read rows (the slots of an update are free then, too), so no
 * reader ever sees an update half made; and the broker saves rows only where all lanes say that
 * they are those of the version (sl_row_table_is_at).
 *
 * Memory order: a lane's progress is released by the applier and acquired by the next one; all
 * others are ordered by the version.
 *
 * MEMORY. 4 * dim * (2 + n_state) bytes a vertex (adam: 16 * dim), of which optimizer state of rows
 * that no batch has met, and best values of a job without validation, are pages that nobody has
 * touched. Beside it a slot's largest batch: 4 + 4 * dim bytes for each of its input nodes.
 */
#ifndef SL_ARENA_ROW_TABLE_H
#define SL_ARENA_ROW_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SL_ROW_TABLE_STATES = 2, SL_ROW_TABLE_LANES = 64 };

struct sl_row_table_shape {
    uint64_t n_rows;
    uint32_t dim, n_state;
    uint32_t n_slots; // batches of an update
};

struct sl_row_table_head; // row_table.c

// One process's view. Matrices are (n_rows, dim), borrowed until it is closed.
struct sl_row_table {
    struct sl_row_table_shape shape;
    float *values, *best;
    float *state[SL_ROW_TABLE_STATES];
    void *rows;                     // the mapping
    struct sl_row_table_head *head; // the mapping of the other file; NULL: there are no rows
};

// The rows that an update met, in the memory of a batch.
struct sl_row_slot {
    uint32_t *n;     // rows
    uint32_t *ids;   // (n) their vertices, which differ
    float *gradient; // (n, dim) of the summed loss
};

struct sl_row_journal {
    uint32_t *n, *ids; // (n)
    float *values, *state[SL_ROW_TABLE_STATES];
};

// Where a lane is: chunks before `chunk` are in the rows, a `whole` one is in the journal.
struct sl_row_table_progress {
    uint64_t chunk;
    bool whole;
    bool made; // all of them are
};

// Bytes of the file of rows.
uint64_t sl_row_table_bytes(const struct sl_row_table_shape *shape);
// Rows of a chunk at most, at least 1.
uint32_t sl_row_table_chunk_rows(uint32_t dim);

// Broker: gives two files without bytes their size and maps them. All is zero. `reserve`: the first
// is on a drive, whose room is taken now. SL_ENOMEM; SL_EIO where the drive has too little room.
int sl_row_table_create(int rows_fd, int work_fd, const struct sl_row_table_shape *shape,
                        bool reserve, struct sl_row_table *out);
// Worker: maps what the broker has made. SL_EFORMAT where it is not that.
int sl_row_table_open(int rows_fd, int work_fd, struct sl_row_table *out);
void sl_row_table_close(struct sl_row_table *t); // safe on a zeroed struct

// Values that training begins with: uniform within sqrt(6 / (n_rows + dim)), as torch's
// xavier_uniform_ for this shape; a function of seed, vertex and column. On `threads` threads,
// until *cancel (or NULL) says that nobody wants them any more.
int sl_row_table_fill(struct sl_row_table *t, uint64_t seed, int threads,
                      const atomic_bool *cancel);

// The values become the best ones, while nobody changes them. On all cores.
void sl_row_table_keep_best(const struct sl_row_table *t);

// Of the batch in that cell.
struct sl_row_slot sl_row_table_slot(const struct sl_row_table *t, uint32_t cell);
struct sl_row_journal sl_row_table_journal(const struct sl_row_table *t, uint32_t lane);

// Applier: where the update from that version is. SL_EPROTO where rows are of another version.
int sl_row_table_begin(const struct sl_row_table *t, uint32_t lane, uint64_t version,
                       struct sl_row_table_progress *out);
// All before is done; with `whole` the chunk is in the journal.
void sl_row_table_advance(const struct sl_row_table *t, uint32_t lane, uint64_t version,
                          uint64_t chunk, bool whole);
// The lane's rows are those of version + 1.
void sl_row_table_end(const struct sl_row_table *t, uint32_t lane, uint64_t version);

// Whether the rows are those of that version, whole.
bool sl_row_table_is_at(const struct sl_row_table *t, uint64_t version);
// Broker, before the first update: they are.
void sl_row_table_restore(const struct sl_row_table *t, uint64_t version);

#endif
