#include "kernels/kernels_internal.h"

#include <math.h>

#include "common/base/error.h"
#include "kernels/check.h"

int sl_ref_adam(const struct sl_adam_step *step, uint64_t n, const float *g, const float *p,
                const float *m, const float *v, float *p_out, float *m_out, float *v_out,
                uint32_t *broken)
{
    SL_TRY(sl_check_adam(step, n, g, p, m, v, p_out, m_out, v_out, broken));
    double beta1 = step->beta1, beta2 = step->beta2;
    double correction1 = 1.0 - pow(beta1, (double)step->t);
    double correction2 = 1.0 - pow(beta2, (double)step->t);
    for (uint64_t i = 0; i < n; i++) {
        double grad = g[i], kept = p[i];
        if (step->decoupled)
            kept -= (double)step->lr * (double)step->weight_decay * p[i];
        else
            grad += (double)step->weight_decay * p[i];
        double mean = beta1 * m[i] + (1.0 - beta1) * grad;
        double square = beta2 * v[i] + (1.0 - beta2) * grad * grad;
        double denominator = sqrt(square) / sqrt(correction2) + step->eps;
        p_out[i] = (float)(kept - step->lr / correction1 * mean / denominator);
        m_out[i] = (float)mean;
        v_out[i] = (float)square;
        if (broken && !(isfinite(p_out[i]) && isfinite(m_out[i]) && isfinite(v_out[i])))
            *broken = 1;
    }
    return SL_OK;
}

int sl_ref_sgd(const struct sl_sgd_step *step, uint64_t n, const float *g, const float *p,
               const float *m, float *p_out, float *m_out, uint32_t *broken)
{
    SL_TRY(sl_check_sgd(step, n, g, p, m, p_out, m_out, broken));
    for (uint64_t i = 0; i < n; i++) {
        double grad = g[i] + (double)step->weight_decay * p[i];
        double velocity = (double)step->momentum * m[i] + grad;
        p_out[i] = (float)(p[i] - step->lr * velocity);
        m_out[i] = (float)velocity;
        if (broken && !(isfinite(p_out[i]) && isfinite(m_out[i])))
            *broken = 1;
    }
    return SL_OK;
}
