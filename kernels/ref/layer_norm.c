#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_layer_norm(const struct sl_norm_args *args)
{
    SL_TRY(sl_check_layer_norm(args));
    uint32_t dim = args->dim;
    for (uint64_t r = 0; r < args->rows; r++) {
        const float *x = args->x + r * dim;
        double sum = 0.0, squares = 0.0;
        for (uint32_t c = 0; c < dim; c++)
            sum += x[c];
        double mean = sum / dim;
        for (uint32_t c = 0; c < dim; c++)
            squares += (x[c] - mean) * (x[c] - mean);
        double inverse = 1.0 / sqrt(squares / dim + (double)args->eps);
        if (args->mean) {
            args->mean[r] = (float)mean;
            args->inverse[r] = (float)inverse;
        }
        for (uint32_t c = 0; c < dim; c++)
            args->y[r * dim + c] =
                (float)((x[c] - mean) * inverse * (double)args->gamma[c] + (double)args->beta[c]);
    }
    return SL_OK;
}

int sl_ref_layer_norm_backward(const struct sl_norm_grad_args *args, struct sl_mempool *ws)
{
    SL_TRY(sl_check_layer_norm_backward(args, ws));
    uint32_t dim = args->dim;
    // The parameters' gradients first: dx may be dy.
    for (uint32_t c = 0; c < dim; c++) {
        double sum = 0.0, product = 0.0;
        for (uint64_t r = 0; r < args->rows; r++) {
            double dy = args->dy[r * dim + c], x = args->x[r * dim + c];
            sum += dy;
            product += dy * (x - (double)args->mean[r]) * (double)args->inverse[r];
        }
        args->dgamma[c] += (float)product;
        args->dbeta[c] += (float)sum;
    }
    for (uint64_t r = 0; r < args->rows; r++) {
        const float *x = args->x + r * dim, *dy = args->dy + r * dim;
        double mean = args->mean[r], inverse = args->inverse[r], sum = 0.0, product = 0.0;
        for (uint32_t c = 0; c < dim; c++) {
            double dnormal = (double)dy[c] * (double)args->gamma[c];
            sum += dnormal;
            product += dnormal * (x[c] - mean) * inverse;
        }
        for (uint32_t c = 0; c < dim; c++) {
            double normal = (x[c] - mean) * inverse;
            double dnormal = (double)dy[c] * (double)args->gamma[c];
            args->dx[r * dim + c] = (float)(inverse * (dnormal - (sum + normal * product) / dim));
        }
    }
    return SL_OK;
}
