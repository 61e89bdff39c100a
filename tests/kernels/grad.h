// grad.h - what the files of finite differences share (defined in grad.c).
#ifndef SL_TESTS_KERNELS_GRAD_H
#define SL_TESTS_KERNELS_GRAD_H

#include "tests/kernels/harness.h"

// L as a function of whatever `context` holds; x is one of its arrays.
typedef double loss_function(struct suite *t, void *context);

// dx[i] = (L(x + h) - L(x - h)) / 2h within tolerance * (1 + |that|) for each of the n elements.
void check_gradient(struct suite *t, const char *what, loss_function *loss, void *context, float *x,
                    const float *dx, size_t n, float h, double tolerance);

// sum of w * y in f64.
double weighted_sum(const float *w, const float *y, size_t n);

#endif
