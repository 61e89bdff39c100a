#include "trainer/model/learned_rows.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { PART_ROWS = 512 };

// Rows side by side, or one half of them.
struct join {
    const struct sl_learned_rows *r;
    const uint32_t *ids;
    const float *x;
    float *out; // of `leave`: where the learned half goes, and x is what it is taken of
    uint32_t n;
};

static void join_part(void *context, uint32_t part)
{
    const struct join *j = context;
    const uint32_t from = j->r->from, dim = j->r->dim;
    const uint32_t end = SL_MIN((part + 1) * (uint32_t)PART_ROWS, j->n);
    for (uint32_t i = part * PART_ROWS; i < end; i++) {
        float *to = j->out + (uint64_t)i * (from + dim);
        memcpy(to, j->x + (uint64_t)i * from, from * sizeof *to);
        memcpy(to + from, j->r->rows + (uint64_t)j->ids[i] * dim, dim * sizeof *to);
    }
}

static void leave_part(void *context, uint32_t part)
{
    const struct join *j = context;
    const uint32_t from = j->r->from, dim = j->r->dim;
    const uint32_t end = SL_MIN((part + 1) * (uint32_t)PART_ROWS, j->n);
    for (uint32_t i = part * PART_ROWS; i < end; i++)
        memcpy(j->out + (uint64_t)i * dim, j->x + (uint64_t)i * (from + dim) + from,
               dim * sizeof *j->out);
}

int sl_learned_join(const struct sl_learned_rows *r, const uint32_t *ids, uint32_t n,
                    const float *x, float *out)
{
    if (r->from == 0)
        return sl_kernels_cpu()->gather_rows(r->rows, SL_DTYPE_F32, r->n_rows, r->dim, ids, n, out);
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= r->n_rows)
            return sl_fail(SL_ERANGE, "learned rows: vertex %u, wanted one below %llu", ids[i],
                           (unsigned long long)r->n_rows);
    struct join j = {.r = r, .ids = ids, .x = x, .out = out, .n = n};
    sl_kernels_run((uint32_t)sl_div_up(n, PART_ROWS), join_part, &j);
    return SL_OK;
}

int sl_learned_input(const struct sl_layer_env *env, const struct sl_learned_rows *r,
                     struct sl_block_view block, const float *x, void **out)
{
    const uint32_t n = block.header->n_input;
    float *joined = sl_layer_floats(env, (uint64_t)n * (r->from + r->dim));
    if (!joined)
        return SL_ENOMEM;
    *out = joined;
    return sl_learned_join(r, sl_view_nodes(block), n, x, joined);
}

float *sl_learned_gradient(const struct sl_layer_env *env, const struct sl_learned_rows *r,
                           uint32_t n)
{
    return r->from == 0 ? r->gradient : sl_layer_floats(env, (uint64_t)n * (r->from + r->dim));
}

int sl_learned_leave(const struct sl_layer_env *env, const struct sl_learned_rows *r,
                     const struct sl_dropout *mask, uint32_t n, float *dx)
{
    if (mask)
        SL_TRY(env->kernels->dropout(dx, n, r->from + r->dim, mask));
    if (r->from == 0)
        return SL_OK;
    struct join j = {.r = r, .x = dx, .out = r->gradient, .n = n};
    sl_kernels_run((uint32_t)sl_div_up(n, PART_ROWS), leave_part, &j);
    return SL_OK;
}
