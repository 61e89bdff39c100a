/*
 * order_kind.h - the orders in which an epoch walks through the training vertices.
 *
 * An order is a permutation of the training vertices, whose consecutive pieces are the seeds of the
 * mini-batches: a function of data set, seed, batch size and epoch alone, whoever computes it.
 * One kind is one row of SL_ORDER_KINDS and its functions in order_kind.c. From the row follow the
 * word in the job file, its description and which keys go with it (config/keys.c), what is found
 * before the first epoch (broker/epochs/phases.c) and what the report says. No other file names a
 * kind, tests apart (scripts/lint tables).
 */
#ifndef SL_DATA_ORDER_KIND_H
#define SL_DATA_ORDER_KIND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/bits.h"
#include "common/data/dataset.h"
#include "common/data/part_order.h"

// X(name, word, what it is, further fields of the row)
// clang-format off
#define SL_ORDER_KINDS(X)                                                                          \
    X(SHUFFLED,  "shuffled",  "a uniform shuffle", .fill = fill_shuffled)                          \
    X(PROXIMITY, "proximity", "neighbouring vertices are in the same mini-batch and share what "   \
      "they read",                                                                                 \
      .walks = true, .prepare = prepare_proximity, .fill = fill_proximity)                         \
    X(LISTED,    "listed",    "that of the list", .same = true, .fill = fill_listed)               \
    X(PARTS,     "parts",     "each mini-batch has vertices of one part of the data set's "        \
      "partition, so that a node of several draws around vertices of its own part",                \
      .parts = true, .prepare = prepare_parts, .fill = fill_parts)
// clang-format on

#define SL_ORDER_NAME(name, ...) SL_ORDER_##name,
enum sl_order { SL_ORDER_KINDS(SL_ORDER_NAME) SL_ORDER_COUNT };
#undef SL_ORDER_NAME

// What the orders of all epochs follow from.
struct sl_order_inputs {
    const struct sl_dataset *dataset; // topology and labels
    struct sl_vertex_list train;
    uint64_t seed; // the job's
    uint32_t batch_size;
    uint32_t batches_per_update; // parts take turns in them
    uint32_t epochs_per_pass;    // an epoch is a share of an order; 0 as 1
    uint32_t sequences;          // of a walk; 0: as few as `excess` allows
    double excess;               // of the shuffling error, over a uniform shuffle's
    const atomic_bool *cancel;   // may be NULL
};

// The orders of a job's epochs. Filled from several threads at a time once it is open.
struct sl_epoch_order {
    const struct sl_order_kind *kind;
    struct sl_order_inputs facts;
    uint32_t *walk;             // (training vertices) owned; NULL where the kind walks not
    struct sl_part_order parts; // where the kind has parts
    uint32_t n_sequences;
    double error, uniform_error; // shuffling errors (shuffling_error.h)
    double seconds;              // that opening took
};

struct sl_order_kind {
    const char *word;                             // in the job file and reports
    bool walks;                                   // over the topology, before the first epoch
    bool same;                                    // in all epochs
    bool parts;                                   // it follows from a partition, too
    int (*prepare)(struct sl_epoch_order *order); // NULL: nothing to do
    bool (*fill)(const struct sl_epoch_order *order, uint32_t epoch, uint32_t *out);
};

extern const struct sl_order_kind sl_order_kinds[SL_ORDER_COUNT]; // by enum sl_order
extern const char *const sl_order_words[SL_ORDER_COUNT + 1];      // the same, then NULL
extern const char sl_order_doc[];                                 // what each is

// Vertices of an epoch, of n that are walked through in so many epochs. All epochs have as many:
// the last one of a pass has a few of those of its first one again, where that takes some.
static inline uint64_t sl_order_items(uint64_t n, uint32_t epochs_per_pass)
{
    return epochs_per_pass > 1 ? sl_div_up(n, (uint64_t)epochs_per_pass) : n;
}

// On any thread. SL_ENOMEM, SL_EABORTED once *cancel is set; nothing is left open then.
int sl_epoch_order_open(struct sl_epoch_order *order, enum sl_order kind,
                        const struct sl_order_inputs *facts);
// out (sl_order_items() of the training vertices): the seeds of this epoch. False once *cancel is
// set, or with a message where memory is short: out is then in no particular state.
bool sl_epoch_order_fill(const struct sl_epoch_order *order, uint32_t epoch, uint32_t *out);
/*
 * Names what orders of this kind follow from besides the job's keys: the data set, and where they
 * have parts its partition. A job goes on with the same alone. Errors of part_order.h.
 */
int sl_epoch_order_identity(enum sl_order kind, const struct sl_dataset *ds, uint64_t *out);
void sl_epoch_order_close(struct sl_epoch_order *order); // safe on a zeroed struct

#endif
