/*
 * check.h - validation of every operation's arguments, once, for all back ends.
 *
 * Each sl_check_<op> returns 0, or SL_EINVAL / SL_ERANGE with a message that begins with the
 * operation's name. The loops behind it do not check again. Edge indices are not looked at:
 * blocks come from our own samplers and whole graphs were validated when the data set was opened.
 */
#ifndef SL_KERNELS_CHECK_H
#define SL_KERNELS_CHECK_H

#include <stdbool.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// sl_check_<slot> for each slot, with the slot's own arguments.
SL_KERNELS_SLOTS(SL_KERNELS_DECLARE, check)

// What several operations ask, in the words of `op`: that there is an adjacency with its arrays,
// and that rows of `heads` runs of `dim` columns are counted in 32 bits.
int sl_check_csr(const char *op, const struct sl_csr_view *csr);
int sl_check_heads(const char *op, uint32_t heads, uint32_t dim);

// Names the first row id that is not below n_rows.
int sl_check_row_range(const uint32_t *rows, uint64_t n, uint64_t n_rows);
// Names the first destination that is not below n_out.
int sl_check_to_range(const uint32_t *to, uint64_t n, uint64_t n_out);
// Fails, naming the edge and its row: its weight is negative or no finite number.
int sl_check_fail_weight(const struct sl_topology_view *topology, const float *weight,
                         uint64_t edge);
// Names the first vertex that is not below n_nodes.
int sl_check_node_range(const uint32_t *nodes, uint32_t n, uint64_t n_nodes);
// Whether there is anything to do before.
static inline bool sl_gradient_changes(const struct sl_bias_act_gradient *g)
{
    return g->act != SL_ACT_NONE || g->dropout.rate > 0.0f || g->dbias;
}
// The arguments alone, for devices whose arrays the processor cannot read: sl_check_softmax_xent
// also looks at every label (-1 or below `classes`), sl_check_sigmoid_bce at every target (0 to 1
// or NaN).
int sl_check_softmax_xent_args(const float *logits, const int32_t *labels, uint64_t rows,
                               uint32_t classes, const struct sl_loss_result *out);
int sl_check_sigmoid_bce_args(const float *logits, const float *targets, uint64_t rows,
                              uint32_t dim, const struct sl_loss_result *out);

// Names the first vertex that neither the cache nor the store has.
int sl_check_ranked_range(const struct sl_gather_ranked_args *args);
// Names the first destination that is not below n_out.
int sl_check_scatter_range(const uint32_t *to, uint64_t n, uint64_t n_out);

#ifdef __cplusplus
}
#endif

#endif
