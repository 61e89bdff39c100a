#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_normalize_rows(const float *x, uint64_t rows, uint32_t dim, float *y, float *inverse)
{
    SL_TRY(sl_check_normalize_rows(x, rows, dim, y, inverse));
    for (uint64_t i = 0; i < rows; i++) {
        double squares = 0.0;
        for (uint32_t c = 0; c < dim; c++)
            squares += (double)x[i * dim + c] * (double)x[i * dim + c];
        double norm = sqrt(squares);
        double scale = norm < SL_NORMALIZE_BOUND ? SL_NORMALIZE_INVERSE_MAX : 1.0 / norm;
        for (uint32_t c = 0; c < dim; c++)
            y[i * dim + c] = (float)((double)x[i * dim + c] * scale);
        inverse[i] = (float)scale;
    }
    return SL_OK;
}

int sl_ref_normalize_rows_backward(const float *dy, const float *y, const float *inverse,
                                   uint64_t rows, uint32_t dim, float *dx)
{
    SL_TRY(sl_check_normalize_rows_backward(dy, y, inverse, rows, dim, dx));
    for (uint64_t i = 0; i < rows; i++) {
        double dot = 0.0;
        if (!(inverse[i] >= SL_NORMALIZE_INVERSE_MAX))
            for (uint32_t c = 0; c < dim; c++)
                dot += (double)y[i * dim + c] * (double)dy[i * dim + c];
        for (uint32_t c = 0; c < dim; c++)
            dx[i * dim + c] = (float)((double)inverse[i] *
                                      ((double)dy[i * dim + c] - (double)y[i * dim + c] * dot));
    }
    return SL_OK;
}
