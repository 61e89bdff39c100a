#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

// Column by column, so that a column of x is read to its end before y, which may be x, is written.
int sl_ref_batch_norm(const struct sl_norm_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_batch_norm(args, ws));
    uint64_t rows = args->rows;
    uint32_t dim = args->dim;
    for (uint32_t c = 0; c < dim; c++) {
        double sum = 0.0, squares = 0.0;
        for (uint64_t r = 0; r < rows; r++)
            sum += args->x[r * dim + c];
        double mean = sum / (double)rows;
        for (uint64_t r = 0; r < rows; r++) {
            double d = args->x[r * dim + c] - mean;
            squares += d * d;
        }
        double inverse = 1.0 / sqrt(squares / (double)rows + (double)args->eps);
        args->mean[c] = (float)mean;
        args->inverse[c] = (float)inverse;
        args->variance[c] = (float)(squares / (double)(rows > 1 ? rows - 1 : 1));
        double gamma = args->gamma[c], beta = args->beta[c];
        for (uint64_t r = 0; r < rows; r++)
            args->y[r * dim + c] = (float)((args->x[r * dim + c] - mean) * inverse * gamma + beta);
    }
    return SL_OK;
}

int sl_ref_batch_norm_backward(const struct sl_norm_grad_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_batch_norm_backward(args, ws));
    uint64_t rows = args->rows;
    uint32_t dim = args->dim;
    for (uint32_t c = 0; c < dim; c++) {
        double mean = args->mean[c], inverse = args->inverse[c], gamma = args->gamma[c];
        double sum = 0.0, product = 0.0; // of dy; of dy and the normalised x
        for (uint64_t r = 0; r < rows; r++) {
            double dy = args->dy[r * dim + c];
            sum += dy;
            product += dy * (args->x[r * dim + c] - mean) * inverse;
        }
        if (args->dgamma) {
            args->dgamma[c] += (float)product;
            args->dbeta[c] += (float)sum;
        }
        for (uint64_t r = 0; r < rows; r++) {
            double normal = (args->x[r * dim + c] - mean) * inverse;
            double centred = args->dy[r * dim + c] - (sum + normal * product) / (double)rows;
            args->dx[r * dim + c] = (float)(gamma * inverse * centred);
        }
    }
    return SL_OK;
}

int sl_ref_scale_columns(float *x, uint64_t rows, uint32_t dim, const float *scale,
                         const float *shift)
{
    SL_TRY(sl_check_scale_columns(x, rows, dim, scale, shift));
    for (uint64_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < dim; c++) {
            float *element = x + r * dim + c;
            *element = (float)((double)*element * (double)scale[c] + (double)shift[c]);
        }
    return SL_OK;
}
