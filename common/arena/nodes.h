/*
 * nodes.h - one job on several nodes: which node trains a batch, who makes which part of the
 * parameters, and when a version is there.
 *
 * PROBLEM. A job that trains on several nodes must make the same parameters to the bit as on one,
 * so that a node can be lost and the job go on with those that are left.
 *
 * DESIGN. Each node has an arena, samplers and trainers of its own, and runs the same plan: the
 * same phases in the same order, and pre-sampling and layers of inference wholly by itself. Of a
 * TRAIN phase it has the cells whose place in their update is its rank modulo the number of nodes,
 * of an EVAL phase every n-th one. The others are *elsewhere* from the start: nobody here draws or
 * trains them. One process of the node, the *link*, carries between nodes what an update from
 * version v to v + 1 needs:
 *
 *   gather    each own cell that is done goes to the others: its entry, and of its gradient what
 *             they need. What comes from them goes straight into the gradient slots, and their
 *             cells move elsewhere -> done. A node without a cell in the update, which may be the
 *             short last one of an epoch, says so: then it is at v, too.
 *   make      once all cells are done and all have been heard, some trainer reduces the slots in
 *             batch order, as on one node, but steps its node's *slice* of the parameters and of
 *             the optimizer's state alone. Its commit says that the slice is *made*, and the
 *             version stays.
 *   spread    the slice of bank v + 1 goes to the others, and theirs come into the same bank here.
 *   flip      once all are in, and nothing of v is under way any more, the link advances the
 *             version: bank v + 1 has all parameters, of the optimizer's state its own slice.
 *
 * So every number of an update is computed by one node, of the same gradients in the same order as
 * on one node. Where the norm of gradients is clipped, each node needs all of each gradient and
 * computes the same norm.
 *
 * WHY NOTHING IS TORN. A gradient slot is free from the flip to v on, since v contains its last
 * one; the link receives into it from then on, and only then. While this node is at v no other one
 * is past v + 1, and none makes v + 2, since that wants to hear of this node's cells of v + 1: so
 * bank v lasts on every node, also on those that are ahead. A trainer that dies before its slice is
 * made has changed nothing that anybody reads; slices of others are other bytes. The link's death
 * ends the job.
 *
 * EVALUATION. Each own cell of an EVAL phase that is done goes to the others, its entry and the
 * predictions of its seeds, which there come to where they belong. So each node's broker has all of
 * them, and comes to the same by itself. The link has its own copy of what it sends: the phase is
 * over once all own results are copied (`given`) and all of others are here, and then predictions
 * are the next evaluation's. That one is gated until the broker has judged this one, and the link
 * puts nothing into a phase that is gated.
 *
 * LINKS. What a job of links has is one of these kinds, whatever its negatives are, with types or
 * without:
 *
 *   pairs, negatives   of a batch: functions of the seed, the epoch, its number and the data set
 *                      (sampler/pairs.h, hard.h), drawn by its node; a block stays on its node
 *   loss, weight, hard negatives counted   in the batch's entry, which goes to all with "gather"
 *   decoder            parameters like others: slices
 *   embeddings, scores of pairs   INFER phases: each node makes all of them by itself, of the
 *                      same parameters and the same negatives, and so metrics, best and end
 *
 * STATE. A checkpoint wants the optimizer's state of one version, and each node has its slice. The
 * broker asks (sl_nodes_ask_state); the link then gets the slices of the current version from the
 * others, which have them by what stands above, and says so. Until the broker has its copy or gives
 * up the link does not flip, but for SL_NODES_HOLD_MS at most.
 *
 * Memory orders: `made` is released by the commit, acquired by the link: the slice; the version by
 * the flip, as by a commit (param_store.h): all slices. Cells as in ledger.h.
 */
#ifndef SL_ARENA_NODES_H
#define SL_ARENA_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena/node_parts.h"

enum {
    SL_NODES_HOLD_MS = 10000, // a version waits so long for a checkpoint's copy
};

#define SL_NODES_BATCH_MAGIC  0x3148435441424c53ull // "SLBATCH1"
#define SL_NODES_SLICE_MAGIC  0x314543494c534c53ull // "SLSLICE1"
#define SL_NODES_RESULT_MAGIC 0x314c5345524c53ull   // "SLRESL1"

// --- the link ------------------------------------------------------------------------------------

// The update that the current version waits for.
struct sl_nodes_step {
    uint64_t version; // it makes version + 1
    uint64_t seq;     // phase, of this node
    uint32_t epoch;
    uint32_t first_cell, n_cells;
};
// SL_OK; SL_EAGAIN while no TRAIN phase is the current one; SL_EABORTED.
int sl_nodes_next(const struct sl_arena *a, struct sl_nodes_step *out);

// A node's cells in the step: first, first + nodes.n, ... below first_cell + n_cells. Where it has
// none, SL_NODES_NO_CELL: one header with that cell goes to the others, and no gradient.
#define SL_NODES_NO_CELL UINT32_MAX
uint32_t sl_nodes_first_cell(const struct sl_arena *a, const struct sl_nodes_step *s,
                             uint32_t node);

// What goes before a gradient. Written as it lies: all nodes are of one build.
struct sl_nodes_batch {
    uint64_t magic;
    uint64_t version;
    uint32_t epoch, cell;
    struct sl_batch_entry entry; // zero where there is no cell
};
// What goes before a slice of the parameters.
struct sl_nodes_made {
    uint64_t magic;
    uint64_t version; // that is made
    uint64_t at_ns;   // when its link saw it, by that node's clock: for figures
};

// Whether a cell of the step, own or elsewhere, is done.
bool sl_nodes_cell_is_done(const struct sl_arena *a, const struct sl_nodes_step *s, uint32_t cell);
// Of an own cell that is done, or of SL_NODES_NO_CELL.
void sl_nodes_fill_batch(const struct sl_arena *a, const struct sl_nodes_step *s, uint32_t cell,
                         struct sl_nodes_batch *out);
// The slot of the cell's gradient: of an own one that is done, or of one that is received while the
// step's version is the current one. (n_params)
float *sl_nodes_gradient(const struct sl_arena *a, uint32_t cell);
// SL_EPROTO when what node `from` sent is not this batch of this step, or no batch.
int sl_nodes_check_batch(const struct sl_arena *a, const struct sl_nodes_step *s, uint32_t from,
                         uint32_t cell, const struct sl_nodes_batch *b);
/*
 * The gradient of the cell is in its slot, all that this node needs: elsewhere -> done. Times are
 * moved by clock_ns: this node's clock minus the other's. SL_NODES_NO_CELL: the node is heard, once
 * a step. SL_EPROTO as above, and when the cell came before.
 */
int sl_nodes_batch_arrived(struct sl_arena *a, const struct sl_nodes_step *s, uint32_t from,
                           uint32_t cell, const struct sl_nodes_batch *b, int64_t clock_ns);

// Whether this node's slice of the step's next version is made.
bool sl_nodes_is_made(const struct sl_arena *a, const struct sl_nodes_step *s);
void sl_nodes_fill_made(const struct sl_nodes_step *s, struct sl_nodes_made *out);
int sl_nodes_check_made(const struct sl_nodes_step *s, uint32_t from,
                        const struct sl_nodes_made *m);
// The parameters that the step makes: its own slice once that is made, and where those of others
// go, from the flip to the step's version on. (n_params)
float *sl_nodes_params(const struct sl_arena *a, const struct sl_nodes_step *s);
// All slices are in, and nothing of the step is under way: its version is over. SL_OK; SL_EAGAIN
// while its own slice is not made, the broker or a trainer has the lock, or a checkpoint is taken;
// SL_EABORTED.
int sl_nodes_flip(struct sl_arena *a, const struct sl_nodes_step *s, uint32_t worker);

// An evaluation that is under way.
struct sl_nodes_eval {
    uint64_t seq; // phase, of this node
    uint32_t epoch, set, n_cells;
};
// SL_OK; SL_EAGAIN while no EVAL phase is the current one, or its gate is closed; SL_EABORTED.
int sl_nodes_next_eval(const struct sl_arena *a, struct sl_nodes_eval *out);
// Whether an own cell of it is done.
bool sl_nodes_result_is_there(const struct sl_arena *a, const struct sl_nodes_eval *e,
                              uint32_t cell);

// What goes before a cell's predictions. Written as it lies: all nodes are of one build.
struct sl_nodes_result {
    uint64_t magic;
    uint32_t epoch, set, cell;
    struct sl_batch_entry entry;
};
// Of a cell's message; the most of any.
size_t sl_nodes_result_bytes(const struct sl_arena *a, const struct sl_nodes_eval *e,
                             uint32_t cell);
// The message of an own cell that is there. out: (sl_nodes_result_bytes)
void sl_nodes_fill_result(const struct sl_arena *a, const struct sl_nodes_eval *e, uint32_t cell,
                          struct sl_nodes_result *out);
// Elsewhere -> done, with what node `from` sent; clock_ns as above. SL_EPROTO when it is not what
// is due.
int sl_nodes_result_arrived(struct sl_arena *a, const struct sl_nodes_eval *e, uint32_t from,
                            uint32_t cell, const struct sl_nodes_result *r, int64_t clock_ns);
// All messages of own cells have been filled: nothing of the phase is read any more.
void sl_nodes_give_results(struct sl_arena *a, const struct sl_nodes_eval *e);

// Whether the broker waits for the state of *version, the current one. Goes on after an abort.
bool sl_nodes_state_is_wanted(const struct sl_arena *a, uint64_t *version);
// Whether this node can send its slice of that version's state: it has made it.
bool sl_nodes_has_state(const struct sl_arena *a, uint64_t version);
// All slices of the state of that version are in (sl_param_store_state): of use while it is the
// current one.
void sl_nodes_state_arrived(struct sl_arena *a, uint64_t version);

// What all messages of an update of n_cells batches come to, of which `node` sends some and gets
// others. Only the spec of the arena is looked at (sl_arena_layout).
struct sl_nodes_traffic {
    uint64_t out_bytes, in_bytes;
};
struct sl_nodes_traffic sl_nodes_update_traffic(const struct sl_arena *a, uint32_t node,
                                                uint32_t n_cells);

// --- the broker ----------------------------------------------------------------------------------

// Asks for the current version's state; again: nothing. sl_nodes_end_ask() once it has been copied,
// or is not wanted any more.
void sl_nodes_ask_state(struct sl_arena *a);
void sl_nodes_end_ask(struct sl_arena *a);
// Whether nothing has been asked for, or longer ago than a version waits for it.
bool sl_nodes_hold_is_over(const struct sl_arena *a);
// Whether all of the current version's state is here. Of one node always.
bool sl_nodes_state_is_whole(const struct sl_arena *a);

#endif
