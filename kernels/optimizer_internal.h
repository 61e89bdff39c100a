// optimizer_internal.h - the constants of a step of Adam, made once in f64.
#ifndef SL_KERNELS_OPTIMIZER_INTERNAL_H
#define SL_KERNELS_OPTIMIZER_INTERNAL_H

#include <math.h>

#include "kernels/kernels.h"

struct sl_adam_constants {
    float decay;        // of the gradient: coupled
    float kept;         // of the parameter: decoupled
    float beta1, rest1; // rest = 1 - beta
    float beta2, rest2;
    float rate;         // lr / (1 - beta1^t)
    float square_scale; // 1 / sqrt(1 - beta2^t)
    float eps;
};

static inline struct sl_adam_constants sl_adam_constants(const struct sl_adam_step *step)
{
    double beta1 = step->beta1, beta2 = step->beta2, t = (double)step->t;
    struct sl_adam_constants k;
    k.decay = step->decoupled ? 0.0f : step->weight_decay;
    k.kept = step->decoupled ? (float)(1.0 - (double)step->lr * step->weight_decay) : 1.0f;
    k.beta1 = step->beta1;
    k.rest1 = (float)(1.0 - beta1);
    k.beta2 = step->beta2;
    k.rest2 = (float)(1.0 - beta2);
    k.rate = (float)(step->lr / (1.0 - pow(beta1, t)));
    k.square_scale = (float)(1.0 / sqrt(1.0 - pow(beta2, t)));
    k.eps = step->eps;
    return k;
}

#endif
