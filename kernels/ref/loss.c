#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_softmax_xent(const float *logits, const int32_t *labels, uint64_t rows, uint32_t classes,
                        const float *class_weight, float *dlogits, struct sl_loss_result *out)
{
    SL_TRY(sl_check_softmax_xent(logits, labels, rows, classes, class_weight, dlogits, out));
    *out = (struct sl_loss_result){0};
    for (uint64_t i = 0; i < rows; i++) {
        const float *x = logits + i * classes;
        float *dx = dlogits ? dlogits + i * classes : NULL;
        int32_t label = labels[i];
        if (label < 0) {
            for (uint32_t c = 0; dx && c < classes; c++)
                dx[c] = 0.0f;
            continue;
        }
        uint32_t best = 0; // ties go to the lowest class
        for (uint32_t c = 1; c < classes; c++)
            if (x[c] > x[best])
                best = c;
        double top = x[best], sum = 0.0;
        for (uint32_t c = 0; c < classes; c++)
            sum += exp(x[c] - top);
        double weight = class_weight ? (double)class_weight[label] : 1.0;
        out->loss += weight * (log(sum) - (x[label] - top));
        out->weight += weight;
        out->correct += best == (uint32_t)label;
        out->counted += 1;
        for (uint32_t c = 0; dx && c < classes; c++)
            dx[c] = (float)(weight * (exp(x[c] - top) / sum - (c == (uint32_t)label)));
    }
    return SL_OK;
}

// log(1 + e^x) and 1 / (1 + e^-x), both without overflow and without cancellation.
static double softplus(double x)
{
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

static double sigmoid(double x)
{
    return x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
}

int sl_ref_sigmoid_bce(const float *logits, const float *targets, uint64_t rows, uint32_t dim,
                       const float *pos_weight, float *dlogits, struct sl_loss_result *out)
{
    SL_TRY(sl_check_sigmoid_bce(logits, targets, rows, dim, pos_weight, dlogits, out));
    *out = (struct sl_loss_result){0};
    for (uint64_t e = 0; e < rows * dim; e++) {
        double x = logits[e], target = targets[e];
        if (isnan(target)) {
            if (dlogits)
                dlogits[e] = 0.0f;
            continue;
        }
        double positive = (pos_weight ? (double)pos_weight[e % dim] : 1.0) * target;
        double negative = 1.0 - target;
        out->loss += negative * softplus(x) + positive * softplus(-x);
        out->counted += 1;
        out->correct += (x > 0.0) == (target > 0.5);
        if (dlogits)
            dlogits[e] = (float)(negative * sigmoid(x) - positive * sigmoid(-x));
    }
    out->weight = (double)out->counted;
    return SL_OK;
}

int sl_ref_squared_error(const float *outputs, const float *targets, uint64_t rows, uint32_t dim,
                         float *doutputs, struct sl_loss_result *out)
{
    SL_TRY(sl_check_squared_error(outputs, targets, rows, dim, doutputs, out));
    *out = (struct sl_loss_result){0};
    for (uint64_t e = 0; e < rows * dim; e++) {
        double target = targets[e], difference = isnan(target) ? 0.0 : outputs[e] - target;
        out->loss += difference * difference;
        out->weight += !isnan(target);
        if (doutputs)
            doutputs[e] = (float)(2.0 * difference);
    }
    return SL_OK;
}
