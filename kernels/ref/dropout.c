#include "kernels/kernels_internal.h"

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/ref/mask.h"

int sl_ref_dropout(float *x, uint64_t rows, uint32_t dim, const struct sl_dropout *dropout)
{
    SL_TRY(sl_check_dropout(x, rows, dim, dropout));
    for (uint64_t e = 0; e < rows * dim; e++)
        x[e] = sl_ref_survives(dropout, e) ? x[e] * sl_ref_survivor_scale(dropout) : 0.0f;
    return SL_OK;
}
