/*
 * hard.h - hard negatives of a mini-batch of links (Ying et al., KDD 2018, 3.3): vertices that
 * random walks from a positive's source meet often, but not most often.
 *
 * A definition, as pairs.h is. In epoch n, counted from 1, the last h of a positive's negatives are
 * hard: h = n - task.hard.from_epoch + 1, at least 0 and at most task.hard.per_positive.
 *
 * The different sources of a batch's positives, in the order in which these name them, make groups
 * of SL_HARD_ROWS. Those of group g are the rows of a hop of walks (kernels/walk_internal.h) that
 * keeps all that was met: over all edges, with task.hard's paths, length and restart, the stream
 * SL_RNG_HARD_WALK, hop 0 and the seed plus g. Of what a row met, in its order, the vertices that
 * may be a target of the source (pairs.h) have the ranks 1, 2, ..; its n candidates are those of
 * the ranks task.hard.first_rank to last_rank.
 *
 * In a graph of several types walks go by turns: from a source by the edges of the relation that
 * has the reverses of the linked one, so to a target of it; from there by the linked one, and so
 * on. So they are those of a graph that has the edges of both.
 *
 * The hard negative with the number q is drawn in tries t = 0 .. SL_HARD_TRIES - 1, of which each
 * has the first word of the Philox block with the counter
 *
 *   { sl_rng_word0(SL_RNG_NEGATIVE, 1, t), q, batch, epoch }      key: seed
 *
 * taken to 0 .. n - 1. A try fails where sl_rng_below() rejects the word, and where the candidate
 * is the positive's own target. Where there is no candidate, or all tries fail, the negative is
 * drawn as if it were not hard, and counted as missing.
 *
 * Memory is that of a group, and last_rank - first_rank + 1 ids for each source.
 */
#ifndef SL_SAMPLER_HARD_H
#define SL_SAMPLER_HARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/philox.h"
#include "common/data/link_items.h"
#include "config/config.h"
#include "kernels/kernels.h"

enum { SL_HARD_ROWS = 64, SL_HARD_TRIES = 16 };

// Of a walk by turns.
struct sl_hard_path {
    uint32_t at, turn; // the vertex it stands on, and whose lists come next
    uint64_t position; // of the id to move to
    struct sl_rng_block move, back;
};

// One for a thread.
struct sl_hard {
    uint64_t seed;
    uint32_t most, from_epoch; // hard negatives of a positive; most 0: there are none
    uint32_t first_rank, width;
    uint32_t paths, length;
    float restart;
    struct sl_topology_view topology;
    // In a graph of several types, else NULL: (paths), what they met, and where lists are: in turn
    // i vertex v has row v + shift[i] (numbers wrap).
    struct sl_hard_path *path;
    uint32_t *met; // (paths, length)
    uint64_t shift[2];
    struct sl_targets targets;
    const struct sl_dataset *ds;
    struct sl_idmap *map;   // of a group
    uint32_t *nodes;        // (SL_HARD_ROWS * (1 + steps))
    uint32_t *indptr;       // (SL_HARD_ROWS + 1)
    uint32_t *indices;      // (SL_HARD_ROWS * steps)
    float *visits;          // (SL_HARD_ROWS * steps)
    uint64_t capacity;      // sources that there is memory for
    uint32_t *candidates;   // (capacity, width)
    uint32_t *n_candidates; // (capacity)
    // The batch:
    uint32_t each;      // hard negatives of each positive
    uint32_t n_missing; // of them all
};

// SL_ENOMEM.
int sl_hard_init(struct sl_hard *h, const struct sl_config *config, const struct sl_dataset *ds);
void sl_hard_fini(struct sl_hard *h); // safe on a zeroed struct

// The next batch is of this epoch, counted from 0.
void sl_hard_begin(struct sl_hard *h, uint32_t epoch);

// Candidates of these different sources. SL_ENOMEM; SL_EUNSUPPORTED: a vertex with too many edges.
typedef bool sl_may_be_pair(const void *ctx, uint32_t source, uint32_t target);
int sl_hard_find(struct sl_hard *h, uint32_t epoch, uint32_t batch, const uint32_t *sources,
                 uint32_t n, sl_may_be_pair *may_be, const void *ctx);

// The target of negative q of a positive from the source with this number to `own`; false: none.
bool sl_hard_draw(const struct sl_hard *h, uint32_t epoch, uint32_t batch, uint32_t q,
                  uint32_t source, uint32_t own, uint32_t *target);

uint64_t sl_hard_bytes(const struct sl_hard *h);

#endif
