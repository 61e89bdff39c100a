/*
 * Backward slots against finite differences of the forward slots, on the reference back end.
 *
 * For a forward y = f(x) and random weights w, L(x) = sum(w * y) in f64. The backward of dy = w
 * must equal (L(x + h) - L(x - h)) / 2h for each element of x.
 */
#include "tests/kernels/grad.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

void check_gradient(struct suite *t, const char *what, loss_function *loss, void *context, float *x,
                    const float *dx, size_t n, float h, double tolerance)
{
    for (size_t i = 0; i < n; i++) {
        float kept = x[i], above = kept + h, below = kept - h;
        x[i] = above;
        double high = loss(t, context);
        x[i] = below;
        double low = loss(t, context);
        x[i] = kept;
        double numeric = (high - low) / ((double)above - (double)below);
        double error = fabs(numeric - (double)dx[i]);
        if (!t_expect(t, error <= tolerance * (1 + fabs(numeric)),
                      "%s[%zu] is %.7g, the difference quotient %.7g", what, i, (double)dx[i],
                      numeric))
            return;
    }
}

double weighted_sum(const float *w, const float *y, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)w[i] * (double)y[i];
    return sum;
}

// ---- bias_act -----------------------------------------------------------------------------------

struct bias_act {
    float *x, *bias, *w, *y;
    uint64_t rows;
    uint32_t dim;
    enum sl_activation act;
    const struct sl_dropout *dropout;
};

static double bias_act_loss(struct suite *t, void *context)
{
    struct bias_act *c = context;
    size_t n = c->rows * c->dim;
    memcpy(c->y, c->x, n * sizeof *c->y);
    t_expect_ok(t, t->ref->bias_act(c->y, c->rows, c->dim, c->bias, c->act, c->dropout), "ref");
    return weighted_sum(c->w, c->y, n);
}

void grad_bias_act(struct suite *t)
{
    for (int kind = 0; kind < 8; kind++) {
        static const char *const names[] = {"none", "relu", "elu", "leaky_relu"};
        enum sl_activation act = (enum sl_activation)(kind >> 1);
        struct sl_dropout dropout = {.rate = 0.4f, .seed = 3, .epoch = 1, .batch = 2, .layer = 1};
        struct bias_act c = {
            .rows = 9, .dim = 13, .act = act, .dropout = kind & 1 ? &dropout : NULL};
        t_begin(t, "gradient of bias_act act=%s dropout=%d", names[act], kind & 1);
        size_t n = c.rows * c.dim;
        c.x = t_random_floats(t, n);
        c.bias = t_random_floats(t, c.dim);
        c.w = t_random_floats(t, n);
        c.y = t_alloc(t, n * sizeof(float), 0);
        const float h = 1e-2f;
        for (size_t i = 0; i < n; i++) // away from the kinks
            while (fabsf(c.x[i] + c.bias[i % c.dim]) < 4 * h)
                c.x[i] = t_random_float(t);
        bias_act_loss(t, &c);
        float *dx = t_copy(t, c.w, n * sizeof(float), 0);
        float *dbias = t_alloc(t, c.dim * sizeof(float), 0);
        memset(dbias, 0, c.dim * sizeof(float));
        int rc = t->ref->bias_act_backward(dx, c.y, 0, c.rows, c.dim, c.act, c.dropout, dbias);
        t_expect_ok(t, rc, "ref backward");
        check_gradient(t, "dx", bias_act_loss, &c, c.x, dx, n, h, 1e-4);
        check_gradient(t, "dbias", bias_act_loss, &c, c.bias, dbias, c.dim, h, 1e-4);
        t_end(t);
    }
}

// ---- softmax_xent -------------------------------------------------------------------------------

struct xent {
    float *logits;
    int32_t *labels;
    uint64_t rows;
    uint32_t classes;
    const float *weight;
};

static double xent_loss(struct suite *t, void *context)
{
    struct xent *c = context;
    struct sl_loss_result r = {0};
    t_expect_ok(
        t, t->ref->softmax_xent(c->logits, c->labels, c->rows, c->classes, c->weight, NULL, &r),
        "ref");
    return r.loss;
}

void grad_softmax_xent(struct suite *t)
{
    for (int weighted = 0; weighted < 2; weighted++) {
        struct xent c = {.rows = 12, .classes = 9};
        t_begin(t, "gradient of softmax_xent weighted=%d", weighted);
        size_t n = c.rows * c.classes;
        c.logits = t_random_floats(t, n);
        c.weight = weighted ? t_random_floats(t, c.classes) : NULL;
        c.labels = t_alloc(t, c.rows * sizeof *c.labels, 0);
        for (uint64_t i = 0; i < c.rows; i++)
            c.labels[i] = (int32_t)t_random_below(t, c.classes + 1) - 1;
        float *dx = t_alloc(t, n * sizeof *dx, 0);
        struct sl_loss_result r;
        t_expect_ok(t,
                    t->ref->softmax_xent(c.logits, c.labels, c.rows, c.classes, c.weight, dx, &r),
                    "ref");
        check_gradient(t, "dlogits", xent_loss, &c, c.logits, dx, n, 1e-2f, 1e-4);
        t_end(t);
    }
}

// ---- sigmoid_bce, squared_error -----------------------------------------------------------------

struct elements {
    float *x, *targets, *pos_weight;
    uint64_t rows;
    uint32_t dim;
    int is_bce;
};

static int elements_slot(struct suite *t, struct elements *c, float *dx, struct sl_loss_result *r)
{
    if (c->is_bce)
        return t->ref->sigmoid_bce(c->x, c->targets, c->rows, c->dim, c->pos_weight, dx, r);
    return t->ref->squared_error(c->x, c->targets, c->rows, c->dim, dx, r);
}

static double elements_loss(struct suite *t, void *context)
{
    struct sl_loss_result r = {0};
    t_expect_ok(t, elements_slot(t, context, NULL, &r), "ref");
    return r.loss;
}

static void grad_elements(struct suite *t, const char *name, int is_bce, int weighted)
{
    struct elements c = {.rows = 11, .dim = 7, .is_bce = is_bce};
    t_begin(t, "gradient of %s weighted=%d", name, weighted);
    size_t n = c.rows * c.dim;
    c.x = t_random_floats(t, n);
    c.targets = t_random_floats(t, n);
    for (size_t i = 0; i < n; i++)
        c.targets[i] = i % 6 == 5 ? NAN : fabsf(c.targets[i]);
    c.pos_weight = weighted ? t_random_floats(t, c.dim) : NULL;
    float *dx = t_alloc(t, n * sizeof *dx, 0);
    struct sl_loss_result r;
    t_expect_ok(t, elements_slot(t, &c, dx, &r), "ref");
    check_gradient(t, "dx", elements_loss, &c, c.x, dx, n, 1e-2f, 1e-4);
    t_end(t);
}

void grad_sigmoid_bce(struct suite *t)
{
    grad_elements(t, "sigmoid_bce", 1, 0);
    grad_elements(t, "sigmoid_bce", 1, 1);
}

void grad_squared_error(struct suite *t)
{
    grad_elements(t, "squared_error", 0, 0);
}

// ---- aggregate ----------------------------------------------------------------------------------

struct aggregate {
    struct sl_aggregate_args args;
    float *w;
};

static double aggregate_loss(struct suite *t, void *context)
{
    struct aggregate *c = context;
    t_expect_ok(t, t->ref->aggregate(&c->args), "ref");
    return weighted_sum(c->w, c->args.y, (size_t)c->args.csr.n_dst * c->args.dim);
}

// The backward of aggregate is aggregate over the transpose with row and column scales exchanged.
void grad_aggregate(struct suite *t)
{
    enum { N_DST = 14, N_SRC = 22, DIM = 5, N_SELF = 11 };
    t_begin(t, "gradient of aggregate through the transpose");
    struct sl_csr_view csr = t_random_csr(t, N_DST, N_SRC, 4, 15);
    uint32_t n_edges = csr.indptr[N_DST];
    float *x = t_random_floats(t, N_SRC * DIM), *dx = t_alloc(t, N_SRC * DIM * sizeof(float), 0);
    float *edge_weight = t_random_floats(t, n_edges);
    struct aggregate c = {.args = {.csr = csr,
                                   .dim = DIM,
                                   .x_dtype = SL_DTYPE_F32,
                                   .x = x,
                                   .row_scale = t_random_floats(t, N_DST),
                                   .col_scale = t_random_floats(t, N_SRC),
                                   .edge_weight = edge_weight,
                                   .self_scale = t_random_floats(t, N_SELF),
                                   .n_self = N_SELF},
                          .w = t_random_floats(t, N_DST * DIM)};
    c.args.y = t_alloc(t, N_DST * DIM * sizeof(float), 0);

    uint32_t *t_indptr = t_alloc(t, (N_SRC + 1) * sizeof(uint32_t), 0);
    uint32_t *t_indices = t_alloc(t, n_edges * sizeof(uint32_t), 0);
    uint32_t *t_edge = t_alloc(t, n_edges * sizeof(uint32_t), 0);
    t_expect_ok(t, t->ref->transpose(&csr, t_indptr, t_indices, t_edge, &t->ws), "transpose");
    float *t_weight = t_alloc(t, n_edges * sizeof(float), 0);
    for (uint32_t e = 0; e < n_edges; e++)
        t_weight[e] = edge_weight[t_edge[e]];
    struct sl_aggregate_args back = {.csr = {N_SRC, N_DST, csr.n_edges, t_indptr, t_indices},
                                     .dim = DIM,
                                     .x_dtype = SL_DTYPE_F32,
                                     .x = c.w,
                                     .row_scale = c.args.col_scale,
                                     .col_scale = c.args.row_scale,
                                     .edge_weight = t_weight,
                                     .self_scale = c.args.self_scale,
                                     .n_self = N_SELF,
                                     .y = dx};
    t_expect_ok(t, t->ref->aggregate(&back), "backward");
    check_gradient(t, "dx", aggregate_loss, &c, x, dx, N_SRC * DIM, 1e-2f, 1e-4);
    t_end(t);
}

// ---- gemm ---------------------------------------------------------------------------------------

// A linear layer: y (rows, out) = x (rows, in) W^T, W (out, in).
struct linear {
    float *x, *weight, *w, *y;
    struct sl_mempool *ws;
};

enum { ROWS = 7, IN = 6, OUT = 5 };

static double linear_loss(struct suite *t, void *context)
{
    struct linear *c = context;
    t_expect_ok(t,
                t->ref->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_TRANS, ROWS, OUT, IN, 1.0f, c->x, IN,
                             c->weight, IN, 0.0f, c->y, OUT, c->ws),
                "ref");
    return weighted_sum(c->w, c->y, ROWS * OUT);
}

void grad_gemm(struct suite *t)
{
    t_begin(t, "gradient of a linear layer through gemm");
    struct linear c = {.x = t_random_floats(t, ROWS * IN),
                       .weight = t_random_floats(t, OUT * IN),
                       .w = t_random_floats(t, ROWS * OUT),
                       .ws = &t->ws};
    c.y = t_alloc(t, ROWS * OUT * sizeof(float), 0);
    float *dx = t_alloc(t, ROWS * IN * sizeof(float), 0);
    float *dweight = t_alloc(t, OUT * IN * sizeof(float), 0);
    // dx = dy W; dW = dy^T x.
    t_expect_ok(t,
                t->ref->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_NO_TRANS, ROWS, IN, OUT, 1.0f, c.w,
                             OUT, c.weight, IN, 0.0f, dx, IN, c.ws),
                "dx");
    t_expect_ok(t,
                t->ref->gemm(SL_PRECISION_F32, SL_TRANS, SL_NO_TRANS, OUT, IN, ROWS, 1.0f, c.w, OUT,
                             c.x, IN, 0.0f, dweight, IN, c.ws),
                "dW");
    check_gradient(t, "dx", linear_loss, &c, c.x, dx, ROWS * IN, 1e-2f, 1e-4);
    check_gradient(t, "dW", linear_loss, &c, c.weight, dweight, OUT * IN, 1e-2f, 1e-4);
    t_end(t);
}
