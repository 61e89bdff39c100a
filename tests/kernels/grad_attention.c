// Finite differences of attention, maximum and row length (the method: grad.c).
#include "tests/kernels/grad.h"

#include <math.h>

#include "common/base/bits.h"

// ---- edge_softmax -------------------------------------------------------------------------------

struct softmax {
    struct sl_edge_softmax_args args;
    float *w;
};

static double softmax_loss(struct suite *t, void *context)
{
    struct softmax *c = context;
    t_expect_ok(t, t->ref->edge_softmax(&c->args), "ref");
    return weighted_sum(c->w, c->args.alpha,
                        (size_t)c->args.csr.indptr[c->args.csr.n_dst] * c->args.heads);
}

void grad_edge_softmax(struct suite *t)
{
    enum { N_DST = 12, N_SRC = 20 };
    for (uint32_t heads = 1; heads <= 3; heads += 2) {
        t_begin(t, "gradient of edge_softmax heads=%u", heads);
        struct sl_csr_view csr = t_random_csr(t, N_DST, N_SRC, 4, 9);
        size_t n = (size_t)csr.indptr[N_DST] * heads;
        float *src = t_random_floats(t, (size_t)N_SRC * heads);
        float *dst = t_random_floats(t, (size_t)N_DST * heads);
        const float h = 1e-2f;
        for (uint32_t i = 0; i < N_DST * heads; i++) // sums on a grid that the kink is not on
            dst[i] = roundf(dst[i] * 8) / 8 + 0.0625f;
        for (uint32_t j = 0; j < N_SRC * heads; j++)
            src[j] = roundf(src[j] * 8) / 8;
        struct softmax c = {.args = {.csr = csr,
                                     .heads = heads,
                                     .negative_slope = 0.2f,
                                     .score_src = src,
                                     .score_dst = dst,
                                     .alpha = t_alloc(t, n * sizeof(float), 0)},
                            .w = t_random_floats(t, n)};
        softmax_loss(t, &c);
        uint32_t *t_edge;
        struct sl_csr_view transposed = t_transpose(t, &csr, &t_edge);
        float *dsrc = t_alloc(t, (size_t)N_SRC * heads * sizeof(float), 0);
        float *ddst = t_alloc(t, (size_t)N_DST * heads * sizeof(float), 0);
        struct sl_edge_softmax_grad_args grad = {.csr = csr,
                                                 .transposed = transposed,
                                                 .t_edge = t_edge,
                                                 .heads = heads,
                                                 .negative_slope = 0.2f,
                                                 .score_src = src,
                                                 .score_dst = dst,
                                                 .alpha = c.args.alpha,
                                                 .dalpha = t_copy(t, c.w, n * sizeof(float), 0),
                                                 .dscore_src = dsrc,
                                                 .dscore_dst = ddst};
        t_expect_ok(t, t->ref->edge_softmax_backward(&grad), "ref backward");
        check_gradient(t, "dscore_src", softmax_loss, &c, src, dsrc, (size_t)N_SRC * heads, h,
                       1e-4);
        check_gradient(t, "dscore_dst", softmax_loss, &c, dst, ddst, (size_t)N_DST * heads, h,
                       1e-4);
        t_end(t);
    }
}

// ---- edge_scores --------------------------------------------------------------------------------

struct edge_scores {
    struct sl_edge_scores_args args;
    float *w;
};

static double edge_scores_loss(struct suite *t, void *context)
{
    struct edge_scores *c = context;
    t_expect_ok(t, t->ref->edge_scores(&c->args), "ref");
    return weighted_sum(c->w, c->args.score,
                        (size_t)c->args.csr.indptr[c->args.csr.n_dst] * c->args.heads);
}

void grad_edge_scores(struct suite *t)
{
    enum { N_DST = 12, N_SRC = 20, HEADS = 3, DIM = 5, WIDTH = HEADS * DIM };
    t_begin(t, "gradient of edge_scores");
    struct edge_scores c = {.args = {.csr = t_random_csr(t, N_DST, N_SRC, 4, 9),
                                     .heads = HEADS,
                                     .dim = DIM,
                                     .negative_slope = 0.2f}};
    size_t n = (size_t)c.args.csr.indptr[N_DST] * HEADS;
    float *src = t_random_floats(t, N_SRC * WIDTH), *dst = t_random_floats(t, N_DST * WIDTH);
    float *att = t_random_floats(t, WIDTH), datt[WIDTH] = {0};
    for (uint32_t i = 0; i < N_DST * WIDTH; i++) // sums on a grid that the kink is not on
        dst[i] = roundf(dst[i] * 8) / 8 + 0.0625f;
    for (uint32_t j = 0; j < N_SRC * WIDTH; j++)
        src[j] = roundf(src[j] * 8) / 8;
    c.args.src = src, c.args.dst = dst, c.args.att = att;
    c.args.score = t_alloc(t, n * sizeof(float), 0);
    c.w = t_random_floats(t, n);
    struct sl_edge_scores_grad_args of_dst = {.csr = c.args.csr,
                                              .heads = HEADS,
                                              .dim = DIM,
                                              .negative_slope = 0.2f,
                                              .own = dst,
                                              .other = src,
                                              .att = att,
                                              .dscore = c.w,
                                              .down = t_alloc(t, sizeof(float[N_DST * WIDTH]), 0),
                                              .datt = t_alloc(t, sizeof(float[N_DST * WIDTH]), 0)};
    struct sl_edge_scores_grad_args of_src = of_dst;
    uint32_t *edge;
    of_src.csr = t_transpose(t, &c.args.csr, &edge);
    of_src.edge = edge;
    of_src.own = src, of_src.other = dst;
    of_src.down = t_alloc(t, sizeof(float[N_SRC * WIDTH]), 0), of_src.datt = NULL;
    t_expect_ok(t, t->ref->edge_scores_backward(&of_dst), "of dst");
    t_expect_ok(t, t->ref->edge_scores_backward(&of_src), "of src");
    for (uint32_t i = 0; i < N_DST * WIDTH; i++)
        datt[i % WIDTH] += of_dst.datt[i];
    check_gradient(t, "ddst", edge_scores_loss, &c, dst, of_dst.down, N_DST * WIDTH, 1e-2f, 1e-4);
    check_gradient(t, "dsrc", edge_scores_loss, &c, src, of_src.down, N_SRC * WIDTH, 1e-2f, 1e-4);
    check_gradient(t, "datt", edge_scores_loss, &c, att, datt, WIDTH, 1e-2f, 2e-4);
    t_end(t);
}

// ---- aggregate_heads ----------------------------------------------------------------------------

struct heads {
    struct sl_aggregate_heads_args args;
    float *w;
};

static double heads_loss(struct suite *t, void *context)
{
    struct heads *c = context;
    t_expect_ok(t, t->ref->aggregate_heads(&c->args), "ref");
    return weighted_sum(c->w, c->args.y, (size_t)c->args.csr.n_dst * c->args.heads * c->args.dim);
}

// In the rows it is aggregate_heads over the transpose, in the weights it is edge_dot.
void grad_aggregate_heads(struct suite *t)
{
    enum { N_DST = 11, N_SRC = 17, HEADS = 3, DIM = 4, WIDTH = HEADS * DIM };
    t_begin(t, "gradient of aggregate_heads through the transpose and edge_dot");
    struct sl_csr_view csr = t_random_csr(t, N_DST, N_SRC, 4, 12);
    size_t n_edges = csr.indptr[N_DST];
    float *x = t_random_floats(t, N_SRC * WIDTH), *weight = t_random_floats(t, n_edges * HEADS);
    struct heads c = {.args = {.csr = csr, .heads = HEADS, .dim = DIM, .x = x, .weight = weight},
                      .w = t_random_floats(t, N_DST * WIDTH)};
    c.args.y = t_alloc(t, N_DST * WIDTH * sizeof(float), 0);
    uint32_t *t_edge;
    struct sl_aggregate_heads_args back = {.csr = t_transpose(t, &csr, &t_edge),
                                           .heads = HEADS,
                                           .dim = DIM,
                                           .x = c.w,
                                           .weight = weight};
    back.edge = t_edge;
    back.y = t_alloc(t, N_SRC * WIDTH * sizeof(float), 0);
    t_expect_ok(t, t->ref->aggregate_heads(&back), "backward");
    float *dweight = t_alloc(t, n_edges * HEADS * sizeof(float), 0);
    t_expect_ok(t, t->ref->edge_dot(&csr, HEADS, DIM, c.w, x, dweight), "edge_dot");
    check_gradient(t, "dx", heads_loss, &c, x, back.y, N_SRC * WIDTH, 1e-2f, 1e-4);
    check_gradient(t, "dweight", heads_loss, &c, weight, dweight, n_edges * HEADS, 1e-2f, 1e-4);
    t_end(t);
}

// ---- aggregate_max ------------------------------------------------------------------------------

struct max {
    struct sl_aggregate_max_args args;
    float *w;
};

static double max_loss(struct suite *t, void *context)
{
    struct max *c = context;
    t_expect_ok(t, t->ref->aggregate_max(&c->args), "ref");
    return weighted_sum(c->w, c->args.y, (size_t)c->args.csr.n_dst * c->args.dim);
}

void grad_aggregate_max(struct suite *t)
{
    enum { N_DST = 13, N_SRC = 18, DIM = 5 };
    t_begin(t, "gradient of aggregate_max");
    struct sl_csr_view csr = t_random_csr(t, N_DST, N_SRC, 4, 10);
    float *x = t_alloc(t, N_SRC * DIM * sizeof(float), 0);
    const float h = 1e-2f;
    for (uint32_t c = 0; c < DIM; c++) // no two so close that a step exchanges them
        for (uint32_t j = 0; j < N_SRC; j++)
            x[j * DIM + c] = 0.1f * (float)(j * 7 % N_SRC) - 0.9f + 0.01f * (float)c;
    struct max c = {.args = {.csr = csr, .dim = DIM, .x_dtype = SL_DTYPE_F32, .x = x},
                    .w = t_random_floats(t, N_DST * DIM)};
    c.args.y = t_alloc(t, N_DST * DIM * sizeof(float), 0);
    c.args.from = t_alloc(t, N_DST * DIM * sizeof(uint32_t), 0);
    max_loss(t, &c);
    uint32_t *t_edge;
    struct sl_csr_view transposed = t_transpose(t, &csr, &t_edge);
    float *dx = t_alloc(t, N_SRC * DIM * sizeof(float), 0);
    struct sl_aggregate_max_grad_args grad = {.csr = csr,
                                              .transposed = transposed,
                                              .t_edge = t_edge,
                                              .dim = DIM,
                                              .from = c.args.from,
                                              .dy = c.w,
                                              .dx = dx};
    t_expect_ok(t, t->ref->aggregate_max_backward(&grad), "ref backward");
    check_gradient(t, "dx", max_loss, &c, x, dx, N_SRC * DIM, h, 1e-4);
    t_end(t);
}

// ---- normalize_rows -----------------------------------------------------------------------------

struct normalize {
    float *x, *y, *inverse, *w;
    uint64_t rows;
    uint32_t dim;
};

static double normalize_loss(struct suite *t, void *context)
{
    struct normalize *c = context;
    t_expect_ok(t, t->ref->normalize_rows(c->x, c->rows, c->dim, c->y, c->inverse), "ref");
    return weighted_sum(c->w, c->y, c->rows * c->dim);
}

void grad_normalize_rows(struct suite *t)
{
    t_begin(t, "gradient of normalize_rows");
    struct normalize c = {.rows = 8, .dim = 11};
    size_t n = c.rows * c.dim;
    c.x = t_random_floats(t, n);
    c.y = t_alloc(t, n * sizeof(float), 0);
    c.inverse = t_alloc(t, c.rows * sizeof(float), 0);
    c.w = t_random_floats(t, n);
    normalize_loss(t, &c);
    float *dx = t_alloc(t, n * sizeof(float), 0);
    t_expect_ok(t, t->ref->normalize_rows_backward(c.w, c.y, c.inverse, c.rows, c.dim, dx),
                "ref backward");
    check_gradient(t, "dx", normalize_loss, &c, c.x, dx, n, 1e-2f, 3e-4);
    t_end(t);
}
