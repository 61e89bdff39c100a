#include "common/data/shuffling_error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { SIXTEENTHS = 16 };

static uint32_t sixteenth_of(const struct sl_label_shares *s, float x)
{
    uint32_t group = 0;
    while (group < SIXTEENTHS - 1 && x >= s->bound[group])
        group++;
    return group;
}

// Counts what vertex v is labelled with.
static void count_labels(struct sl_label_shares *s, uint32_t v)
{
    const struct sl_dataset *ds = s->dataset;
    if (ds->task == SL_TASK_MULTICLASS) {
        if (ds->label[v] >= 0)
            s->count[ds->label[v]]++;
        return;
    }
    sl_dataset_targets(ds, v, s->target);
    if (ds->task == SL_TASK_REGRESSION) {
        if (!isnan(s->target[0]))
            s->count[sixteenth_of(s, s->target[0])]++;
        return;
    }
    for (uint32_t c = 0; c < ds->n_classes; c++)
        s->count[c] += s->target[c] > 0.5f;
}

static uint64_t count_all(struct sl_label_shares *s, const struct sl_vertex_list *list)
{
    uint64_t sum = 0;
    memset(s->count, 0, s->n_groups * sizeof *s->count);
    for (uint64_t i = 0; i < list->n; i++)
        count_labels(s, sl_vertex_at(list, i));
    for (uint32_t g = 0; g < s->n_groups; g++)
        sum += s->count[g];
    return sum;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int find_sixteenths(struct sl_label_shares *s, const struct sl_vertex_list *train)
{
    float *value = malloc(train->n * sizeof *value);
    uint64_t n = 0;
    if (!value)
        return sl_fail(SL_ENOMEM, "no memory for %llu targets", (unsigned long long)train->n);
    for (uint64_t i = 0; i < train->n; i++) {
        sl_dataset_targets(s->dataset, sl_vertex_at(train, i), s->target);
        if (!isnan(s->target[0]))
            value[n++] = s->target[0];
    }
    qsort(value, n, sizeof *value, by_value);
    for (uint64_t g = 1; n > 0 && g < SIXTEENTHS; g++)
        s->bound[g - 1] = value[g * n / SIXTEENTHS];
    free(value);
    return SL_OK;
}

int sl_label_shares_open(struct sl_label_shares *s, const struct sl_dataset *ds,
                         const struct sl_vertex_list *train)
{
    const uint32_t n_groups = ds->task == SL_TASK_REGRESSION ? SIXTEENTHS : ds->n_classes;
    int rc = SL_OK;
    *s = (struct sl_label_shares){
        .dataset = ds,
        .n_groups = n_groups,
        .share = calloc(n_groups, sizeof *s->share),
        .count = calloc(n_groups, sizeof *s->count),
        .target = calloc(ds->n_classes, sizeof *s->target),
    };
    if (!s->share || !s->count || !s->target)
        rc = sl_fail(SL_ENOMEM, "no memory for the shares of %u labels", n_groups);
    else if (ds->task == SL_TASK_REGRESSION)
        rc = find_sixteenths(s, train);
    if (rc < 0) {
        sl_label_shares_close(s);
        return rc;
    }
    const uint64_t sum = count_all(s, train);
    for (uint32_t g = 0; g < n_groups; g++)
        s->share[g] = (double)s->count[g] / (double)SL_MAX(sum, (uint64_t)1);
    return SL_OK;
}

void sl_label_shares_close(struct sl_label_shares *s)
{
    free(s->share);
    free(s->count);
    free(s->target);
    *s = (struct sl_label_shares){0};
}

double sl_shuffling_error(struct sl_label_shares *s, const uint32_t *order, uint64_t n,
                          uint32_t batch_size)
{
    const uint64_t n_batches = n / batch_size;
    double error = 0;
    for (uint64_t b = 0; b < n_batches; b++) {
        const uint64_t sum =
            count_all(s, &(struct sl_vertex_list){batch_size, order + b * batch_size});
        double distance = 0;
        for (uint32_t g = 0; g < s->n_groups; g++)
            distance += fabs((double)s->count[g] / (double)SL_MAX(sum, (uint64_t)1) - s->share[g]);
        error += distance / 2 / (double)n_batches;
    }
    return error;
}
