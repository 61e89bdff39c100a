// The backwards of batch_norm and layer_norm against finite differences: see grad.c.
#include "tests/kernels/grad.h"

#include <string.h>

enum { ROWS = 9, DIM = 7 };

// Everything a normalisation has, whichever it is.
struct norm {
    float *x, *gamma, *beta, *w, *y;
    float *mean, *inverse, *variance; // (max(ROWS, DIM))
    int is_batch;
};

static double norm_loss(struct suite *t, void *context)
{
    struct norm *c = context;
    struct sl_norm_args batch = {.rows = ROWS,
                                 .dim = DIM,
                                 .eps = 1e-5f,
                                 .x = c->x,
                                 .gamma = c->gamma,
                                 .beta = c->beta,
                                 .y = c->y,
                                 .mean = c->mean,
                                 .inverse = c->inverse,
                                 .variance = c->variance};
    struct sl_norm_args layer = {.rows = ROWS,
                                 .dim = DIM,
                                 .eps = 1e-5f,
                                 .x = c->x,
                                 .gamma = c->gamma,
                                 .beta = c->beta,
                                 .y = c->y,
                                 .mean = c->mean,
                                 .inverse = c->inverse};
    int rc = c->is_batch ? t->ref->batch_norm(&batch, &t->ws) : t->ref->layer_norm(&layer);
    t_expect_ok(t, rc, "ref");
    return weighted_sum(c->w, c->y, ROWS * DIM);
}

static void grad_norm(struct suite *t, const char *name, int is_batch)
{
    t_begin(t, "gradient of %s", name);
    struct norm c = {.x = t_random_floats(t, ROWS * DIM),
                     .gamma = t_random_floats(t, DIM),
                     .beta = t_random_floats(t, DIM),
                     .w = t_random_floats(t, ROWS * DIM),
                     .y = t_random_floats(t, ROWS * DIM),
                     .mean = t_random_floats(t, ROWS),
                     .inverse = t_random_floats(t, ROWS),
                     .variance = t_random_floats(t, ROWS),
                     .is_batch = is_batch};
    norm_loss(t, &c);
    float *dx = t_alloc(t, ROWS * DIM * sizeof *dx, 0);
    float *dgamma = t_alloc(t, DIM * sizeof *dgamma, 0),
          *dbeta = t_alloc(t, DIM * sizeof *dbeta, 0);
    memset(dgamma, 0, DIM * sizeof *dgamma);
    memset(dbeta, 0, DIM * sizeof *dbeta);
    struct sl_norm_grad_args batch = {.rows = ROWS,
                                      .dim = DIM,
                                      .x = c.x,
                                      .gamma = c.gamma,
                                      .mean = c.mean,
                                      .inverse = c.inverse,
                                      .dy = c.w,
                                      .dx = dx,
                                      .dgamma = dgamma,
                                      .dbeta = dbeta};
    struct sl_norm_grad_args layer = {.rows = ROWS,
                                      .dim = DIM,
                                      .x = c.x,
                                      .gamma = c.gamma,
                                      .mean = c.mean,
                                      .inverse = c.inverse,
                                      .dy = c.w,
                                      .dx = dx,
                                      .dgamma = dgamma,
                                      .dbeta = dbeta};
    int rc = is_batch ? t->ref->batch_norm_backward(&batch, &t->ws)
                      : t->ref->layer_norm_backward(&layer, &t->ws);
    t_expect_ok(t, rc, "ref backward");
    // The normalisation bends: the quotient's own error is of order h^2.
    check_gradient(t, "dx", norm_loss, &c, c.x, dx, ROWS * DIM, 2e-3f, 2e-4);
    check_gradient(t, "dgamma", norm_loss, &c, c.gamma, dgamma, DIM, 1e-2f, 1e-4);
    check_gradient(t, "dbeta", norm_loss, &c, c.beta, dbeta, DIM, 1e-2f, 1e-4);
    t_end(t);
}

void grad_batch_norm(struct suite *t)
{
    grad_norm(t, "batch_norm", 1);
}

void grad_layer_norm(struct suite *t)
{
    grad_norm(t, "layer_norm", 0);
}
