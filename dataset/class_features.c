#include "dataset/class_features.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

// Two independent standard normal numbers from two words (Box and Muller).
static void gaussian_pair(uint32_t w0, uint32_t w1, float *x, float *y)
{
    float radius = sqrtf(-2 * logf(1 - sl_rng_unit(w0)));
    float angle = (float)(2 * M_PI) * sl_rng_unit(w1);
    *x = radius * cosf(angle);
    *y = radius * sinf(angle);
}

void sl_gaussian_row(uint64_t seed, enum sl_draw_purpose purpose, uint64_t item, uint32_t dim,
                     float *row)
{
    for (uint32_t d = 0; d < dim; d += 4) {
        float x[4];
        struct sl_rng_block b = sl_draw(seed, purpose, item, d / 4);
        gaussian_pair(b.w[0], b.w[1], &x[0], &x[1]);
        gaussian_pair(b.w[2], b.w[3], &x[2], &x[3]);
        for (uint32_t k = 0; k < 4 && d + k < dim; k++)
            row[d + k] = x[k];
    }
}

int sl_class_features_init(struct sl_class_features *f, uint64_t seed, uint32_t n_classes,
                           uint32_t dim, double noise)
{
    *f = (struct sl_class_features){
        .seed = seed, .n_classes = n_classes, .dim = dim, .noise = (float)noise};
    f->means = calloc((size_t)n_classes * dim + 1, sizeof *f->means);
    if (!f->means)
        return sl_fail(SL_ENOMEM, "generate: no memory for %u class means of %u features",
                       n_classes, dim);
    for (uint32_t c = 0; c < n_classes; c++) {
        float *row = &f->means[(size_t)c * dim];
        double sum = 0;
        sl_gaussian_row(seed, SL_DRAW_CLASS_MEAN, c, dim, row);
        for (uint32_t d = 0; d < dim; d++)
            sum += (double)row[d] * row[d];
        float scale = sum > 0 ? (float)(1 / sqrt(sum)) : 0;
        for (uint32_t d = 0; d < dim; d++)
            row[d] *= scale;
    }
    return SL_OK;
}

void sl_class_features_fini(struct sl_class_features *f)
{
    free(f->means);
    memset(f, 0, sizeof *f);
}

void sl_class_features_row(const struct sl_class_features *f, uint32_t class, uint64_t vertex,
                           float *row)
{
    const float *mean = &f->means[(size_t) class * f->dim];
    float noise = f->noise;
    sl_gaussian_row(f->seed, SL_DRAW_FEATURE, vertex, f->dim, row);
    for (uint32_t d = 0; d < f->dim; d++)
        row[d] = mean[d] + noise * row[d];
}
