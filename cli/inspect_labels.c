#include "cli/inspect_labels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/text/units.h"
#include "common/base/bits.h"
#include "common/base/error.h"

enum { SHOWN = 20 };

// ---- looking ------------------------------------------------------------------------------------

static void add_value(struct sl_label_column *c, double x)
{
    c->min = c->known ? fmin(c->min, x) : x;
    c->max = c->known ? fmax(c->max, x) : x;
    c->known++;
    c->positive += x > 0.5;
    // Welford: exact enough for numbers far from 0.
    double before = x - c->mean;
    c->mean += before / (double)c->known;
    c->squares += before * (x - c->mean);
}

static void count_classes(struct sl_label_summary *s, const struct sl_dataset *ds)
{
    for (uint64_t v = 0; v < sl_dataset_labelled(ds); v++) {
        if (ds->label[v] < 0)
            s->n_unlabelled++;
        else
            s->column[ds->label[v]].positive++;
    }
}

static int count_targets(struct sl_label_summary *s, const struct sl_dataset *ds)
{
    float *row = malloc(s->n * sizeof *row);
    if (!row)
        return sl_fail(SL_ENOMEM, "inspect %s: no memory for %" PRIu32 " labels", ds->path, s->n);
    for (uint64_t v = 0; v < sl_dataset_labelled(ds); v++) {
        uint32_t known = 0;
        sl_dataset_targets(ds, v, row);
        for (uint32_t c = 0; c < s->n; c++) {
            if (isnan(row[c]))
                continue;
            known++;
            s->n_positive += row[c] > 0.5f;
            add_value(&s->column[c], (double)row[c]);
        }
        s->n_unlabelled += known == 0;
    }
    free(row);
    return SL_OK;
}

int sl_label_summary_make(struct sl_label_summary *s, const struct sl_dataset *ds)
{
    *s = (struct sl_label_summary){.n_nodes = sl_dataset_labelled(ds)};
    if ((!ds->label && !ds->target) || ds->n_classes == 0)
        return SL_OK;
    s->task = ds->task;
    s->n = ds->n_classes;
    s->column = calloc(s->n, sizeof *s->column);
    if (!s->column)
        return sl_fail(SL_ENOMEM, "inspect %s: no memory for %" PRIu32 " classes", ds->path, s->n);
    if (ds->target)
        return count_targets(s, ds);
    count_classes(s, ds);
    return SL_OK;
}

void sl_label_summary_fini(struct sl_label_summary *s)
{
    free(s->column);
    *s = (struct sl_label_summary){0};
}

// ---- text ---------------------------------------------------------------------------------------

void sl_label_summary_row(const struct sl_label_summary *s, struct sl_table *overview)
{
    char a[SL_UNITS_BYTES];
    sl_units_grouped(a, s->n_unlabelled);
    uint64_t labelled = s->n_nodes - s->n_unlabelled;
    switch (s->task) {
    case SL_TASK_LINK: // of jobs alone
    case SL_TASK_NONE: sl_table_row(overview, "classes|none"); break;
    case SL_TASK_MULTICLASS:
        sl_table_row(overview, "classes|%" PRIu32 ", %s vertices unlabelled", s->n, a);
        break;
    case SL_TASK_MULTILABEL:
        sl_table_row(overview,
                     "labels|%" PRIu32 ", of which a labelled vertex has %.2f, %s vertices "
                     "unlabelled",
                     s->n, labelled ? (double)s->n_positive / (double)labelled : 0, a);
        break;
    case SL_TASK_REGRESSION:
        sl_table_row(overview, "targets|%s a vertex, %s vertices unlabelled",
                     SL_PLURAL(s->n, "number"), a);
        break;
    }
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static double deviation(const struct sl_label_column *c)
{
    return c->known ? sqrt(c->squares / (double)c->known) : 0;
}

static void add_row(struct sl_table *t, const struct sl_label_summary *s, uint32_t i)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct sl_label_column *c = &s->column[i];
    sl_units_grouped(a, c->positive);
    sl_units_grouped(b, c->known);
    if (s->task == SL_TASK_MULTICLASS)
        sl_table_row(t, "%" PRIu32 "|%s|%.1f %%", i, a, share(c->positive, s->n_nodes));
    else if (s->task == SL_TASK_MULTILABEL)
        sl_table_row(t, "%" PRIu32 "|%s|%s|%.1f %%", i, b, a, share(c->positive, c->known));
    else
        sl_table_row(t, "%" PRIu32 "|%s|%.6g|%.6g|%.6g|%.6g", i, b, c->min, c->mean, c->max,
                     deviation(c));
}

void sl_label_summary_print(const struct sl_label_summary *s)
{
    struct sl_table t;
    const char *many = "classes";
    if (s->task == SL_TASK_NONE)
        return;
    if (s->task == SL_TASK_MULTICLASS) {
        sl_table_init(&t, "r r r", (const char *[]){"class", "vertices", "share"});
    } else if (s->task == SL_TASK_MULTILABEL) {
        many = "labels";
        sl_table_init(&t, "r r r r", (const char *[]){"label", "known", "positive", "share"});
    } else {
        many = "numbers";
        sl_table_init(&t, "r r r r r r",
                      (const char *[]){"number", "known", "min", "mean", "max", "deviation"});
    }
    uint32_t shown = SL_MIN(s->n, (uint32_t)SHOWN);
    for (uint32_t c = 0; c < shown; c++)
        add_row(&t, s, c);
    printf("\n");
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
    if (shown < s->n)
        printf("... and %" PRIu32 " more %s ('-o json' has them all)\n", s->n - shown, many);
}

// ---- JSON ---------------------------------------------------------------------------------------

void sl_label_summary_to_json(const struct sl_label_summary *s, cJSON *root)
{
    cJSON_AddStringToObject(root, "task", sl_task_names[s->task]);
    if (s->task == SL_TASK_NONE)
        return;
    bool numbers = s->task == SL_TASK_REGRESSION;
    cJSON *list = cJSON_AddArrayToObject(root, s->task == SL_TASK_MULTICLASS ? "class_counts"
                                               : numbers                     ? "targets"
                                                                             : "labels");
    for (uint32_t i = 0; i < s->n; i++) {
        const struct sl_label_column *c = &s->column[i];
        if (s->task == SL_TASK_MULTICLASS) {
            cJSON_AddItemToArray(list, cJSON_CreateNumber((double)c->positive));
            continue;
        }
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "known", (double)c->known);
        if (numbers) {
            cJSON_AddNumberToObject(item, "min", c->min);
            cJSON_AddNumberToObject(item, "mean", c->mean);
            cJSON_AddNumberToObject(item, "max", c->max);
            cJSON_AddNumberToObject(item, "deviation", deviation(c));
        } else {
            cJSON_AddNumberToObject(item, "positive", (double)c->positive);
        }
        cJSON_AddItemToArray(list, item);
    }
    cJSON_AddNumberToObject(root, "unlabelled", (double)s->n_unlabelled);
}
