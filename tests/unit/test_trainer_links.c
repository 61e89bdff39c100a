// Decoders and losses of links: against naive ones in double precision, gradients of whole models
// against finite differences, scores of an evaluation, bits with any number of threads.

#include "common/base/error.h"
#include "tests/unit/suite.h"
#include "tests/unit/trainer_naive.h"
#include "trainer/model/decoder.h"

enum { NODES = 50, FEATURES = 5, HIDDEN = 4, DIM = 3, SEEDS = 12, POSITIVES = 7 };
enum { LOSSES = SL_PAIR_LOSS_SOFTMAX + 1 };

static const uint32_t SEED_IDS[SEEDS] = {5, 3, 0, 40, 13, 37, 4, 21, 49, 8, 9, 33};
static const int64_t FANOUT[] = {4, 3};

static const struct {
    enum sl_decoder_kind decoder;
    enum sl_combine_kind combine;
} DECODERS[] = {
    {SL_DECODER_DOT, 0},
    {SL_DECODER_COSINE, 0},
    {SL_DECODER_DISTMULT, 0},
    {SL_DECODER_BILINEAR, 0},
    {SL_DECODER_MLP, SL_COMBINE_PRODUCT},
    {SL_DECODER_MLP, SL_COMBINE_CONCAT},
    {SL_DECODER_MLP, SL_COMBINE_DIFFERENCE},
};

static const struct sl_kernels *table(int i)
{
    return i ? sl_kernels_cpu() : sl_kernels_ref();
}

// ---- the same, naively --------------------------------------------------------------------------

// weights: of the decoder, one tensor behind the other.
static double naive_score(const struct sl_config *c, const double *weights, const double *u,
                          const double *v)
{
    const uint32_t dim = c->task.dim, hidden = c->task.hidden;
    double x[2 * 64], score = 0, lengths = 1;
    switch (c->task.decoder) {
    case SL_DECODER_DOT: return naive_dot(u, v, dim);
    case SL_DECODER_COSINE:
        lengths = sqrt(naive_dot(u, u, dim)) * sqrt(naive_dot(v, v, dim));
        return naive_dot(u, v, dim) / lengths;
    case SL_DECODER_DISTMULT:
        for (uint32_t k = 0; k < dim; k++)
            score += weights[k] * u[k] * v[k];
        return score;
    case SL_DECODER_BILINEAR:
        for (uint32_t i = 0; i < dim; i++)
            score += u[i] * naive_dot(weights + (uint64_t)i * dim, v, dim);
        return score;
    case SL_DECODER_MLP: break;
    }
    const uint32_t in = c->task.combine == SL_COMBINE_CONCAT ? 2 * dim : dim;
    for (uint32_t k = 0; k < in; k++)
        x[k] = c->task.combine == SL_COMBINE_PRODUCT      ? u[k] * v[k]
               : c->task.combine == SL_COMBINE_DIFFERENCE ? fabs(u[k] - v[k])
               : k < dim                                  ? u[k]
                                                          : v[k - dim];
    const double *bias1 = weights + (uint64_t)hidden * in, *lin2 = bias1 + hidden;
    for (uint32_t h = 0; h < hidden; h++)
        score += lin2[h] * fmax(0, bias1[h] + naive_dot(weights + (uint64_t)h * in, x, in));
    return score + lin2[hidden];
}

static double naive_softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

// Of scores less their shifts.
static double naive_pair_loss(const struct sl_config *c, const struct sl_pairs *p, const double *s,
                              double *weight)
{
    double loss = 0;
    *weight = 0;
    for (uint32_t i = 0; c->task.loss == SL_PAIR_LOSS_BCE && i < p->n; i++) {
        loss += p->weight[i] * naive_softplus(i < p->n_positive ? -s[i] : s[i]);
        *weight += p->weight[i];
    }
    for (uint32_t i = 0; c->task.loss != SL_PAIR_LOSS_BCE && i < p->n_positive; i++) {
        double sum = exp(s[i]);
        uint32_t there = 0;
        for (uint32_t j = 0; j < p->per_positive; j++) {
            const uint32_t k = p->n_positive + i * p->per_positive + j;
            if (p->weight[k] == 0)
                continue;
            there++;
            sum += exp(s[k]);
            if (c->task.loss == SL_PAIR_LOSS_MARGIN)
                loss += p->weight[i] * fmax(0, c->task.margin - s[i] + s[k]);
            if (c->task.loss == SL_PAIR_LOSS_BPR)
                loss += p->weight[i] * naive_softplus(s[k] - s[i]);
        }
        const bool softmax = c->task.loss == SL_PAIR_LOSS_SOFTMAX;
        if (softmax && there)
            loss += p->weight[i] * (log(sum) - s[i]);
        *weight += p->weight[i] * (softmax ? there > 0 : there);
    }
    return loss;
}

static double naive_loss_of(const struct naive *n, const struct sl_model *m, const double *params,
                            double *weight)
{
    const struct sl_pairs p = sl_view_pairs(sl_block_here(n->block));
    double *rows = naive_forward(n, params), *scores = fixture_alloc(p.n * sizeof *scores);
    for (uint32_t i = 0; i < p.n; i++)
        scores[i] = naive_score(&n->config, params + m->decoder.offset[0],
                                rows + (uint64_t)p.ids[2 * i] * DIM,
                                rows + (uint64_t)p.ids[2 * i + 1] * DIM) -
                    (double)p.shift[i];
    const double loss = naive_pair_loss(&n->config, &p, scores, weight);
    free(rows);
    free(scores);
    return loss;
}

// ---- whole models -------------------------------------------------------------------------------

struct world {
    struct fixture_graph g;
    struct sl_config config;
    struct sl_objective objective;
    struct sl_model model;
    struct sl_block *block;
    float *x, *kept, *params, *gradient;
};

static void world_init(struct world *w, const struct sl_config *c, uint32_t n_positive,
                       const struct sl_kernels *kernels)
{
    *w = (struct world){.g = fixture_graph(NODES, FEATURES, DIM, 8), .config = *c};
    w->g.ds.task = SL_TASK_LINK;
    ck_assert_int_eq(sl_objective_init(&w->objective, c, &w->g.ds), SL_OK);
    ck_assert_int_eq(
        sl_model_init(&w->model, c, FEATURES, NULL, &w->objective, sl_device_host(), kernels),
        SL_OK);
    w->block = fixture_pair(fixture_block(&w->g.ds, SEED_IDS, SEEDS, c->model.layers, FANOUT, 3, 5),
                            n_positive, c->task.per_positive, 77);
    w->x = fixture_input(&w->g.ds, w->block);
    w->kept = fixture_input(&w->g.ds, w->block);
    w->params = fixture_params(&w->model, 3);
    w->gradient = fixture_alloc(w->model.n_params * sizeof *w->gradient);
}

static void world_fini(struct world *w)
{
    free(w->x);
    free(w->kept);
    free(w->params);
    free(w->gradient);
    free(w->block);
    sl_model_fini(&w->model);
    sl_objective_fini(&w->objective);
    fixture_graph_free(&w->g);
}

static void check_gradients(struct world *w)
{
    struct sl_model *m = &w->model;
    struct sl_loss_result result;
    ck_assert_msg(
        sl_model_train(m, w->params, sl_block_here(w->block), w->x, w->gradient, &result) == SL_OK,
        "%s", sl_error_message());
    struct naive n = naive_make(&w->config, &w->g.ds, w->block, w->kept, true);
    double *p = fixture_alloc(m->n_params * sizeof *p), weight;
    for (uint64_t i = 0; i < m->n_params; i++)
        p[i] = w->params[i];
    ck_assert_double_eq_tol(result.loss, naive_loss_of(&n, m, p, &weight), 1e-4);
    ck_assert_double_eq_tol(result.weight, weight, 1e-9);
    for (uint64_t i = 0; i < m->n_params; i++) {
        p[i] = w->params[i] + 1e-5;
        const double up = naive_loss_of(&n, m, p, &weight);
        p[i] = w->params[i] - 1e-5;
        const double g = (up - naive_loss_of(&n, m, p, &weight)) / 2e-5;
        p[i] = w->params[i];
        ck_assert_msg(fabs(g - w->gradient[i]) < 3e-4 * (1 + fabs(g)),
                      "parameter %llu of %llu: found %.7g, wanted %.7g", (unsigned long long)i,
                      (unsigned long long)m->n_params, (double)w->gradient[i], g);
    }
    free(p);
    naive_free(&n);
}

static struct sl_config config_of(int decoder, int loss, enum sl_model_kind kind)
{
    struct sl_config c = fixture_config(kind, 2, HIDDEN);
    fixture_link(&c, DIM, DECODERS[decoder].decoder, DECODERS[decoder].combine,
                 (enum sl_pair_loss_kind)loss);
    return c;
}

LOOP_TEST(gradients_through_a_whole_model, 0, SL_COUNT_OF(DECODERS))
{
    for (int loss = 0; loss < LOSSES; loss++)
        for (int back = 0; back < 2; back++) {
            struct sl_config c = config_of(_i, loss, SL_MODEL_GRAPHSAGE);
            struct world w;
            world_init(&w, &c, POSITIVES, table(back));
            check_gradients(&w);
            world_fini(&w);
        }
}

// The loss of the parameters and `times` their gradient.
static double loss_along(struct world *w, double times)
{
    struct sl_loss_result result;
    float *params = fixture_alloc(w->model.n_params * sizeof *params);
    for (uint64_t i = 0; i < w->model.n_params; i++)
        params[i] = (float)(w->params[i] + times * w->gradient[i]);
    ck_assert_int_eq(
        sl_model_evaluate(&w->model, params, sl_block_here(w->block), w->x, &result, NULL), SL_OK);
    free(params);
    return result.loss;
}

// Behind jumping knowledge and norms, which the naive models lack: along the gradient the loss
// grows as much as the gradient says.
LOOP_TEST(gradients_behind_other_layers, 0, SL_COUNT_OF(DECODERS))
{
    for (int jumping = SL_JUMPING_LAST; jumping <= SL_JUMPING_MAX; jumping++) {
        struct sl_config c = config_of(_i, (_i + jumping) % LOSSES, SL_MODEL_GCN);
        c.model.jumping = (enum sl_jumping_kind)jumping;
        c.model.norm = SL_NORM_LAYER;
        c.model.activation = SL_CONFIG_ELU;
        struct world w;
        struct sl_loss_result result;
        world_init(&w, &c, POSITIVES, sl_kernels_cpu());
        ck_assert_int_eq(
            sl_model_train(&w.model, w.params, sl_block_here(w.block), w.x, w.gradient, &result),
            SL_OK);
        double squares = 0;
        for (uint64_t i = 0; i < w.model.n_params; i++)
            squares += (double)w.gradient[i] * (double)w.gradient[i];
        const double step = 2e-3 / squares;
        const double slope = (loss_along(&w, step) - loss_along(&w, -step)) / (2 * step);
        ck_assert_msg(fabs(slope - squares) < 0.03 * squares, "found %g, wanted %g", slope,
                      squares);
        world_fini(&w);
    }
}

LOOP_TEST(gradients_of_one_positive_behind_dropout, 0, SL_COUNT_OF(DECODERS))
{
    struct sl_config c = config_of(_i, SL_PAIR_LOSS_BCE, SL_MODEL_GRAPHSAGE);
    c.task.per_positive = 1;
    c.model.dropout = 0.3;
    struct world w;
    world_init(&w, &c, 1, sl_kernels_cpu());
    check_gradients(&w);
    world_fini(&w);
}

// Scores in the place of outputs, and the loss of training where there is no dropout. Shifts count
// in it.
LOOP_TEST(an_evaluation_gives_scores, 0, SL_COUNT_OF(DECODERS))
{
    struct sl_config c = config_of(_i, SL_PAIR_LOSS_BPR, SL_MODEL_GRAPHSAGE);
    struct world w;
    world_init(&w, &c, POSITIVES, sl_kernels_cpu());
    struct sl_loss_result trained, evaluated;
    const float *scores;
    const struct sl_block_view here = sl_block_here(w.block);
    ck_assert_int_eq(sl_model_train(&w.model, w.params, here, w.x, w.gradient, &trained), SL_OK);
    ck_assert_int_eq(sl_model_evaluate(&w.model, w.params, here, w.x, &evaluated, &scores), SL_OK);
    ck_assert_double_eq_tol(trained.loss, evaluated.loss, 1e-5 * trained.loss);
    ck_assert_uint_eq(trained.correct, evaluated.correct);
    const struct sl_pairs p = sl_view_pairs(here);
    struct naive n = naive_make(&c, &w.g.ds, w.block, w.kept, false);
    double *params = fixture_alloc(w.model.n_params * sizeof *params);
    for (uint64_t i = 0; i < w.model.n_params; i++)
        params[i] = w.params[i];
    double *rows = naive_forward(&n, params);
    for (uint32_t i = 0; i < p.n; i++)
        ck_assert_double_eq_tol(scores[i],
                                naive_score(&c, params + w.model.decoder.offset[0],
                                            rows + (uint64_t)p.ids[2 * i] * DIM,
                                            rows + (uint64_t)p.ids[2 * i + 1] * DIM),
                                1e-4);
    free(rows);
    free(params);
    naive_free(&n);
    world_fini(&w);
}

// ---- tensors ------------------------------------------------------------------------------------

TEST(tensors_of_decoders_stand_behind_the_models)
{
    static const char *const names[][SL_DECODER_TENSORS + 1] = {
        {NULL},
        {NULL},
        {"decoder.weight", NULL},
        {"decoder.weight", NULL},
        {"decoder.lin1.weight", "decoder.lin1.bias", "decoder.lin2.weight", "decoder.lin2.bias"},
        {"decoder.lin1.weight", "decoder.lin1.bias", "decoder.lin2.weight", "decoder.lin2.bias"},
        {"decoder.lin1.weight", "decoder.lin1.bias", "decoder.lin2.weight", "decoder.lin2.bias"},
    };
    for (int d = 0; d < (int)SL_COUNT_OF(DECODERS); d++) {
        struct sl_config c = config_of(d, SL_PAIR_LOSS_BCE, SL_MODEL_GRAPHSAGE);
        c.model.jumping = SL_JUMPING_CAT; // whose linear layer is the last otherwise
        struct world w;
        world_init(&w, &c, 1, sl_kernels_cpu());
        const struct sl_model *m = &w.model;
        uint32_t n = 0;
        while (names[d][n])
            n++;
        ck_assert_str_eq(m->tensor[m->n_tensors - n - 1].name, "lin.bias");
        for (uint32_t t = 0; t < n; t++)
            ck_assert_str_eq(m->tensor[m->n_tensors - n + t].name, names[d][t]);
        const struct sl_tensor *first = &m->tensor[m->n_tensors - n];
        if (DECODERS[d].decoder == SL_DECODER_DISTMULT) {
            ck_assert_double_eq(first->init_constant, 1);
            ck_assert_double_eq(first->init_bound, 0);
        }
        if (DECODERS[d].decoder == SL_DECODER_MLP)
            ck_assert_uint_eq(first->shape[1], d == 5 ? 2 * DIM : DIM);
        const struct sl_block_shape shape = sl_model_block_shape(m);
        ck_assert_uint_eq(shape.n_targets, c.task.per_positive);
        ck_assert(shape.has_pairs);
        ck_assert_int_eq(sl_block_check_shape(w.block, w.block->bytes, shape), SL_OK);
        world_fini(&w);
    }
}

// ---- decoders by themselves ---------------------------------------------------------------------

// Pairs of rows; all of them have row 0 where `hub`, and the last one twice.
struct pairs {
    struct sl_decoder_pairs of;
    struct sl_decoder decoder;
    struct sl_mempool pool, notes;
    struct sl_layer_env env;
    float *x, *params, *scores, *dscores, *gradient, *dx;
    uint32_t *ids;
    uint64_t n_params;
};

static void pairs_init(struct pairs *p, const struct sl_config *c, uint32_t n, uint32_t rows,
                       bool hub, const struct sl_kernels *kernels)
{
    struct fixture_rng r = {.seed = 12};
    struct sl_tensor tensors[SL_DECODER_TENSORS];
    const uint64_t count = (uint64_t)rows * c->task.dim;
    *p = (struct pairs){.decoder = sl_decoder_of(c)};
    sl_mempool_init(&p->pool);
    sl_mempool_init(&p->notes);
    p->env = (struct sl_layer_env){
        .kernels = kernels, .device = sl_device_host(), .pool = &p->pool, .notes = &p->notes};
    const uint32_t n_tensors = sl_decoder_describe(&p->decoder, tensors);
    for (uint32_t t = 0; t < n_tensors; t++) {
        p->decoder.offset[t] = p->n_params;
        p->n_params += sl_tensor_count(&tensors[t]);
    }
    p->params = fixture_alloc(p->n_params * sizeof *p->params);
    p->gradient = fixture_alloc(p->n_params * sizeof *p->gradient);
    for (uint64_t i = 0; i < p->n_params; i++)
        p->params[i] = fixture_float(&r, 0.7f);
    p->x = fixture_alloc(count * sizeof *p->x);
    p->dx = fixture_alloc(count * sizeof *p->dx);
    for (uint64_t i = 0; i < count; i++)
        p->x[i] = fixture_float(&r, 1);
    p->ids = fixture_alloc(2ull * n * sizeof *p->ids);
    p->scores = fixture_alloc(n * sizeof *p->scores);
    p->dscores = fixture_alloc(n * sizeof *p->dscores);
    for (uint32_t i = 0; i < n; i++) {
        p->ids[2 * i] = hub && i % 2 ? 0 : fixture_word(&r) % rows;
        p->ids[2 * i + 1] = hub && i % 2 == 0 ? 0 : fixture_word(&r) % rows;
        p->dscores[i] = fixture_float(&r, 2);
    }
    if (n > 1)
        memcpy(p->ids + 2 * (n - 1), p->ids + 2 * (n - 2), 2 * sizeof *p->ids);
    p->of = (struct sl_decoder_pairs){.x = p->x, .rows = rows, .ids = p->ids, .n = n};
}

static void pairs_fini(struct pairs *p)
{
    sl_mempool_fini(&p->pool);
    sl_mempool_fini(&p->notes);
    free(p->x);
    free(p->dx);
    free(p->params);
    free(p->gradient);
    free(p->ids);
    free(p->scores);
    free(p->dscores);
}

static void pairs_run(struct pairs *p, float *dscores)
{
    struct sl_decoder_tape tape;
    ck_assert_int_eq(sl_decoder_forward(&p->env, &p->decoder, p->params, &p->of, p->scores, &tape),
                     SL_OK);
    ck_assert_int_eq(
        sl_decoder_backward(&p->env, &p->decoder, p->params, &tape, dscores, p->gradient, p->dx),
        SL_OK);
}

// sum of dscore * score
static double naive_sum(const struct pairs *p, const struct sl_config *c, const double *x,
                        const double *params)
{
    const uint32_t dim = c->task.dim;
    double sum = 0;
    for (uint64_t i = 0; i < p->of.n; i++)
        sum += (double)p->dscores[i] * naive_score(c, params, x + (uint64_t)p->ids[2 * i] * dim,
                                                   x + (uint64_t)p->ids[2 * i + 1] * dim);
    return sum;
}

static void check_slopes(struct pairs *p, const struct sl_config *c, const float *found,
                         const float *at, uint64_t n, double *x, double *params, double *moved)
{
    for (uint64_t i = 0; i < n; i++) {
        moved[i] = at[i] + 1e-6;
        const double up = naive_sum(p, c, x, params);
        moved[i] = at[i] - 1e-6;
        const double g = (up - naive_sum(p, c, x, params)) / 2e-6;
        moved[i] = at[i];
        ck_assert_msg(fabs(g - found[i]) < 1e-4 * (1 + fabs(g)),
                      "%s %llu of %llu: found %.7g, wanted %.7g",
                      moved == x ? "row element" : "parameter", (unsigned long long)i,
                      (unsigned long long)n, (double)found[i], g);
    }
}

LOOP_TEST(gradients_of_decoders, 0, SL_COUNT_OF(DECODERS))
{
    static const struct {
        uint32_t n, rows, dim;
        bool hub;
    } shapes[] = {{1, 2, 3, 0}, {1, 1, 4, 0}, {2, 3, 1, 0}, {30, 9, 17, 0}, {40, 12, 8, 1}};
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        for (int back = 0; back < 2; back++) {
            struct sl_config c = config_of(_i, 0, SL_MODEL_GRAPHSAGE);
            struct pairs p;
            c.task.dim = shapes[s].dim;
            pairs_init(&p, &c, shapes[s].n, shapes[s].rows, shapes[s].hub, table(back));
            const uint64_t count = (uint64_t)shapes[s].rows * c.task.dim;
            double *x = fixture_alloc(count * sizeof *x);
            double *params = fixture_alloc(p.n_params * sizeof *params);
            for (uint64_t i = 0; i < count; i++)
                x[i] = p.x[i];
            for (uint64_t i = 0; i < p.n_params; i++)
                params[i] = p.params[i];
            float *dscores = fixture_alloc(shapes[s].n * sizeof *dscores); // is overwritten
            memcpy(dscores, p.dscores, shapes[s].n * sizeof *dscores);
            pairs_run(&p, dscores);
            // One pair of a row with itself has no kink at a difference of 0: it is 0 all around.
            check_slopes(&p, &c, p.dx, p.x, count, x, params, x);
            check_slopes(&p, &c, p.gradient, p.params, p.n_params, x, params, params);
            free(dscores);
            free(x);
            free(params);
            pairs_fini(&p);
        }
}

LOOP_TEST(threads_do_not_change_a_bit, 0, SL_COUNT_OF(DECODERS))
{
    enum { N = 6000, ROWS = 900, WIDTH = 40 };
    struct sl_config c = config_of(_i, 0, SL_MODEL_GRAPHSAGE);
    c.task.dim = WIDTH;
    c.task.hidden = 24;
    struct pairs first;
    for (int threads = 1; threads <= 4; threads *= 2) {
        struct pairs p;
        sl_kernels_set_threads(threads);
        pairs_init(&p, &c, N, ROWS, threads > 0, sl_kernels_cpu());
        pairs_run(&p, p.dscores);
        if (threads == 1) {
            first = p;
            continue;
        }
        ck_assert_mem_eq(p.scores, first.scores, N * sizeof *p.scores);
        ck_assert_mem_eq(p.dx, first.dx, ROWS * WIDTH * sizeof *p.dx);
        ck_assert_mem_eq(p.gradient, first.gradient, p.n_params * sizeof *p.gradient);
        pairs_fini(&p);
    }
    pairs_fini(&first);
}

// ---- scores of an evaluation --------------------------------------------------------------------

// More pairs than are scored at a time, with the bits of training's; the pool of a batch stays.
LOOP_TEST(scores_are_those_of_training, 0, SL_COUNT_OF(DECODERS))
{
    enum { N = 33000, ROWS = 60, N_POSITIVE = 9000 };
    struct sl_config c = config_of(_i, SL_PAIR_LOSS_MARGIN, SL_MODEL_GRAPHSAGE);
    struct world w;
    struct pairs p;
    world_init(&w, &c, 1, sl_kernels_cpu());
    pairs_init(&p, &c, N, ROWS, false, sl_kernels_cpu());
    memcpy(w.params + w.model.n_params - p.n_params, p.params, p.n_params * sizeof *p.params);
    pairs_run(&p, p.dscores);
    float *scores = fixture_alloc(N * sizeof *scores), *of_batch;
    sl_model_forward(&w.model, w.params, sl_block_here(w.block), w.x, false, &of_batch);
    const float kept = of_batch[0];
    const size_t used = w.model.pool.used_bytes;
    struct sl_loss_result r;
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(sl_model_score(&w.model, w.params, p.x, ROWS, p.ids, N, scores,
                                        again ? &r : NULL, N_POSITIVE),
                         SL_OK);
        ck_assert_mem_eq(scores, p.scores, N * sizeof *scores);
    }
    double loss = 0;
    uint64_t right = 0;
    for (uint32_t i = 0; i < N; i++) {
        loss += naive_softplus(i < N_POSITIVE ? -(double)scores[i] : (double)scores[i]);
        right += (scores[i] > 0) == (i < N_POSITIVE);
    }
    ck_assert_double_eq_tol(r.loss, loss, 1e-6 * loss);
    ck_assert_double_eq(r.weight, N);
    ck_assert_uint_eq(r.correct, right);
    ck_assert_uint_eq(r.counted, N);
    ck_assert_uint_eq(w.model.pool.used_bytes, used);
    ck_assert_float_eq(of_batch[0], kept);
    const size_t peak = w.model.scoring.peak_bytes;
    ck_assert_int_eq(sl_model_score(&w.model, w.params, p.x, ROWS, p.ids, 1, scores, NULL, 0),
                     SL_OK);
    ck_assert_mem_eq(scores, p.scores, sizeof *scores);
    ck_assert_uint_eq(w.model.scoring.peak_bytes, peak);
    free(scores);
    pairs_fini(&p);
    world_fini(&w);
}

RUN_TESTS()
