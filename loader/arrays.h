/*
 * arrays.h - a batch as PyTorch wants it: numbers of 64 bits and rows, in memory that outlives it.
 *
 * PROBLEM. A block has numbers of 32 bits, and its memory is the arena's: PyTorch asks for 64 bits,
 * and a training loop keeps what it likes for as long as it likes. A copy made in the loop's own
 * thread costs more than the rest of the loader does there, most of all of the rows.
 *
 * DESIGN. Each batch has a piece of memory of its own. Whoever gathers its rows (the thread that
 * does so a batch ahead, or the caller) fills in the numbers beside them, and the caller takes all
 * of it. What comes back (sluice_free) waits for one of the next batches: memory that is new to a
 * process costs a page fault each 4 KiB, together more than filling it.
 *
 * There are two pieces, the loop's and the one ahead, as long as that will do: a `for` of Python
 * lets its batch go just behind the moment when it gets the next one, and whoever is ahead waits
 * for that. A loop that keeps more asks for a batch while all are out, and there are twice as many.
 *
 * OWNERSHIP. A piece belongs to whoever took it, and while rows are being written to it to the
 * writer, too. The pool is the loader's and its pieces': it goes when the loader has let go of it
 * and the last piece is back, so a tensor outlives its loader. Pieces may come back in any thread.
 * In a forked process they are left alone.
 */
#ifndef SL_LOADER_ARRAYS_H
#define SL_LOADER_ARRAYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena/block.h"
#include "common/data/dataset.h"
#include <sluice.h>
#include "trainer/feed/compute.h"

#define SL_NO_ROWS UINT64_MAX

struct sl_arrays_pool;

struct sl_arrays_spec {
    struct sl_vertex_list seeds;  // of all epochs, each once; borrowed
    const struct sl_typed *typed; // of a graph with types; borrowed until the pool is closed
    void (*freed)(void *ctx); // a piece is back, by any thread until the pool is closed; or NULL
    void *ctx;
};

struct sl_arrays {
    struct sl_arrays_pool *pool;
    struct sl_arrays *next;   // of those that wait
    _Atomic uint32_t holders; // who took it, and who still writes its rows
    struct sl_buffer numbers;
    struct sl_buffer features; // (n_input, feat_dim); its owner fills it in
    uint64_t n_edges;
    // In `numbers`:
    int64_t *nodes;      // (n_input)
    int64_t *edges;      // (2, n_edges) of the last hop: sources, then destinations
    int64_t *edge_ids;   // (n_edges); NULL: the block has none
    float *weights;      // likewise
    int64_t *places;     // (n_seeds) of the seeds in spec.seeds; (n_positive) of the pairs
    int64_t *seed_of;    // (n_input) number of the seed in whose tree each is; NULL: not disjoint
    void *targets;       // (n_seeds) int64, or (n_seeds, n_targets) float; of pairs nothing
    int64_t *pairs;      // (2, n_pairs) sources, then targets; NULL: the block has none
    float *pair_weights; // (n_pairs) likewise
    // Of a graph with types, else NULL; `edges` and `edge_ids` are NULL then.
    struct sluice_type_arrays *types; // (n_types) but for features
    uint64_t *rows_at;                // (n_types) byte where these are in all, or SL_NO_ROWS
    struct sluice_relation_arrays *relations; // (n_relations)
    uint32_t n_types;
};

int sl_arrays_pool_open(const struct sl_arrays_spec *spec,
                        struct sl_arrays_pool **out); // SL_ENOMEM
void sl_arrays_pool_close(struct sl_arrays_pool *p);  // NULL is allowed

// wanted: a batch waits for it. SL_EAGAIN without a message where it is not, and one is soon to
// come back; SL_ENOMEM.
int sl_arrays_get(struct sl_arrays_pool *p, bool wanted, struct sl_arrays **out);
void sl_arrays_free(struct sl_arrays *a); // NULL is allowed
// One holder more, who frees it as well: it is back with the last one.
void sl_arrays_hold(struct sl_arrays *a);

// The block's numbers, whose seeds are of spec.seeds. Of a block of pairs `items` are the numbers
// of its positives (n_positive); else NULL. SL_ENOMEM.
int sl_arrays_fill(struct sl_arrays *a, const struct sl_block *block, const uint32_t *items);

#endif
