/*
 * learned_rows.h - rows of vertices that training changes, as a model reads them.
 *
 * A batch's input nodes get their rows once the parameters' version is there, since the update
 * before may have changed them; features of the file, which the extracting thread has brought
 * ahead, come before them in the input. Backward leaves the rows' gradient where the caller says:
 * in the batch's slot of the table (common/arena/row_table.h). On cores.
 */
#ifndef SL_TRAINER_MODEL_LEARNED_ROWS_H
#define SL_TRAINER_MODEL_LEARNED_ROWS_H

#include <stdint.h>

#include "common/arena/block.h"
#include "trainer/model/layer.h"

struct sl_learned_rows {
    uint32_t from, dim; // columns [from, from + dim) of the input; dim 0: there are none
    // What the caller sets before a batch or a layer: the rows of all vertices (n_rows, dim), and
    // of training where their gradient goes: (n_input, dim).
    uint64_t n_rows;
    const float *rows;
    float *gradient;
};

// *out (n_input, from + dim), in the pool: the batch's input, where the file's features are x
// (n_input, from). SL_ENOMEM; SL_ERANGE for what is no vertex.
int sl_learned_input(const struct sl_layer_env *env, const struct sl_learned_rows *r,
                     struct sl_block_view block, const float *x, void **out);

// Puts rows of `ids` behind the file's columns: out (n, from + dim), x (n, from) or NULL where from
// is 0. SL_ERANGE.
int sl_learned_join(const struct sl_learned_rows *r, const uint32_t *ids, uint32_t n,
                    const float *x, float *out);

// Where backward puts the gradient of the input (n, from + dim): NULL without memory.
float *sl_learned_gradient(const struct sl_layer_env *env, const struct sl_learned_rows *r,
                           uint32_t n);
// Leaves what of it is the rows' at r->gradient; `mask` is what the input was masked with, or NULL.
int sl_learned_leave(const struct sl_layer_env *env, const struct sl_learned_rows *r,
                     const struct sl_dropout *mask, uint32_t n, float *dx);

#endif
