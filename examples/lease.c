/*
 * lease.c - a training loop of its own in C: logistic regression on the vertices' own features.
 *
 *     cc examples/lease.c $(pkg-config --cflags --libs sluice) -lm -o lease
 *     ./lease DATA_SET [EPOCHS]
 *
 * It shows the whole of include/sluice.h that a loop needs: open, next, features, done, close. A
 * graph network would use hop[] of the batch, too; this one looks at the seeds alone.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <sluice.h>

static void die(const char *what)
{
    fprintf(stderr, "lease: %s: %s\n", what, sluice_error());
    exit(1);
}

// W (n_classes, dim + 1), the last column is the bias.
struct model {
    uint32_t dim, n_classes;
    double rate;
    float *w;
    double *p; // (n_classes)
};

static struct model make_model(const struct sluice_info *info)
{
    struct model m = {.dim = info->feat_dim, .n_classes = info->n_classes, .rate = 0.01};
    m.w = calloc((size_t)m.n_classes * (m.dim + 1), sizeof *m.w);
    m.p = calloc(m.n_classes, sizeof *m.p);
    if (!m.w || !m.p)
        exit(1);
    return m;
}

// Softmax of W x into m->p. Returns the class with the largest share.
static uint32_t predict(struct model *m, const float *x)
{
    uint32_t best = 0;
    double sum = 0;
    for (uint32_t c = 0; c < m->n_classes; c++) {
        const float *w = m->w + (size_t)c * (m->dim + 1);
        m->p[c] = w[m->dim];
        for (uint32_t d = 0; d < m->dim; d++)
            m->p[c] += (double)w[d] * x[d];
        best = m->p[c] > m->p[best] ? c : best;
    }
    const double most = m->p[best];
    for (uint32_t c = 0; c < m->n_classes; c++)
        sum += m->p[c] = exp(m->p[c] - most);
    for (uint32_t c = 0; c < m->n_classes; c++)
        m->p[c] /= sum;
    return best;
}

// One step down the gradient of -log p[y].
static void learn(struct model *m, const float *x, uint32_t y)
{
    for (uint32_t c = 0; c < m->n_classes; c++) {
        float *w = m->w + (size_t)c * (m->dim + 1);
        const float step = (float)(m->rate * (m->p[c] - (c == y)));
        for (uint32_t d = 0; d < m->dim; d++)
            w[d] -= step * x[d];
        w[m->dim] -= step;
    }
}

struct sums {
    unsigned long n, right;
    double loss;
};

// Trains on the labelled seeds of a batch, whose rows are the first ones of x.
static void train(struct model *m, const struct sluice_batch *b, const float *x, struct sums *s)
{
    const int32_t *labels = b->labels;
    for (uint32_t i = 0; i < b->n_seeds; i++) {
        if (labels[i] < 0)
            continue;
        const float *row = x + (size_t)i * m->dim;
        s->right += predict(m, row) == (uint32_t)labels[i];
        s->loss -= log(m->p[labels[i]] + 1e-30);
        s->n++;
        learn(m, row, (uint32_t)labels[i]);
    }
}

int main(int argc, char **argv)
{
    char job[5000];
    sluice_loader *loader;
    struct sluice_info info = {.size = sizeof info};
    struct sluice_batch batch = {.size = sizeof batch};
    const int epochs = argc > 2 ? atoi(argv[2]) : 5;
    if (argc < 2 || epochs < 1) {
        fprintf(stderr, "usage: lease DATA_SET [EPOCHS]\n");
        return 2;
    }
    // Each seed with a neighbour or two: a batch's first rows are its seeds.
    snprintf(job, sizeof job,
             "{\"dataset\": \"%s\", \"sampler\": {\"fanout\": [2], \"batch_size\": 256}, "
             "\"seed\": 7, \"epochs\": \"auto\"}",
             argv[1]);
    const struct sluice_options options = {
        .size = sizeof options, .job = job, .rank = -1, .prefetch = 1};
    if (sluice_open(&options, &loader) < 0)
        die("opening");
    if (sluice_get_info(loader, &info) < 0)
        die("info");
    if (info.feat_type != SLUICE_F32 || info.label_type != SLUICE_I32) {
        fprintf(stderr, "lease: %s: wanted features of float32, and classes\n", argv[1]);
        sluice_close(loader);
        return 1;
    }
    struct model model = make_model(&info);
    for (int epoch = 0; epoch < epochs; epoch++) {
        struct sums s = {0};
        const void *x;
        for (int rc; (rc = sluice_next(loader, 1000, &batch)) != SLUICE_END;) {
            if (rc == SLUICE_TIMEOUT)
                continue;
            if (rc < 0 || sluice_features_view(loader, &batch, &x) < 0)
                die("a batch");
            train(&model, &batch, x, &s);
            if (sluice_done(loader, batch.id) < 0)
                die("a batch");
        }
        printf("epoch %d: %lu vertices, loss %.4f, accuracy %.4f\n", epoch + 1, s.n,
               s.loss / (double)s.n, (double)s.right / (double)s.n);
    }
    sluice_close(loader);
    free(model.w);
    free(model.p);
    return 0;
}
