#include "broker/epochs/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/epochs/link_metrics.h"
#include "broker/epochs/score_order.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/prediction.h"

enum {
    INLINE_MAX = 1 << 16, // predictions below which it takes no millisecond
    GROUP = 8,            // columns that are taken out of the rows in one go
};

const char *sl_measure_key(enum sl_measure measure)
{
    return sl_measure_kinds[measure].key;
}

const char *sl_measure_name(enum sl_measure measure)
{
    return sl_measure_kinds[measure].name;
}

static void set(struct sl_evaluation *e, enum sl_measure measure, double value)
{
    e->applies[measure] = true;
    e->value[measure] = isfinite(value) ? value : NAN;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

// --- F1 ------------------------------------------------------------------------------------------

// Predictions of one class: those that are right, those that are not, and those that should be.
struct hits {
    uint64_t right, wrong, missed;
};

static void count(struct hits *all, const struct hits *h)
{
    all->right += h->right;
    all->wrong += h->wrong;
    all->missed += h->missed;
}

static uint64_t occurrences(const struct hits *h)
{
    return h->right + h->wrong + h->missed;
}

// 0 where nothing occurs.
static double f1_of(const struct hits *h)
{
    double all = 2 * (double)h->right + (double)h->wrong + (double)h->missed;
    return all > 0 ? 2 * (double)h->right / all : 0;
}

// --- ROC-AUC -------------------------------------------------------------------------------------

// Probability that a positive has a higher score than a negative, ties being half. Sorts. NaN
// without both.
static double roc_auc(uint64_t *items, uint64_t *spare, uint64_t n)
{
    double ranks = 0, positives = 0;
    sl_score_sort(items, spare, n);
    for (uint64_t i = 0, j; i < n; i = j) {
        uint64_t of_tie = 0;
        for (j = i; j < n && (uint32_t)items[j] == (uint32_t)items[i]; j++)
            of_tie += items[j] >> 32;
        positives += (double)of_tie;
        ranks += (double)of_tie * ((double)(i + 1) + (double)j) / 2; // ranks count from 1
    }
    double negatives = (double)n - positives;
    return ratio(ranks - positives * (positives + 1) / 2, positives * negatives);
}

// --- multi-class ---------------------------------------------------------------------------------

static double two_class_auc(const struct sl_dataset *ds, const struct sl_vertex_list *list,
                            const uint32_t *predicted, uint64_t *items, uint64_t *spare)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < list->n; i++) {
        int32_t label = ds->label[list->ids[i]];
        if (label >= 0)
            items[n++] = sl_score_ordered(sl_prediction_margin(predicted[i]), label == 1);
    }
    return roc_auc(items, spare, n);
}

static double macro_over_occurring(const struct hits *h, uint32_t n)
{
    double sum = 0;
    uint32_t occur = 0;
    for (uint32_t c = 0; c < n; c++) {
        occur += occurrences(&h[c]) > 0;
        sum += f1_of(&h[c]);
    }
    return ratio(sum, occur);
}

static int judge_classes(const struct sl_dataset *ds, const struct sl_vertex_list *list,
                         const uint32_t *predicted, struct sl_evaluation *out)
{
    const uint32_t n = ds->n_classes;
    const bool two = n == 2;
    struct hits *hits = calloc(n + 1, sizeof *hits); // the last one is of no class
    uint64_t *items = two ? malloc((2 * list->n + 1) * sizeof *items) : NULL;
    if (!hits || (two && !items)) {
        free(hits);
        free(items);
        return sl_fail(SL_ENOMEM, "metrics: no memory for %llu predictions",
                       (unsigned long long)list->n);
    }
    for (uint64_t i = 0; i < list->n; i++) {
        int32_t label = ds->label[list->ids[i]];
        int32_t class = sl_prediction_class(predicted[i], n);
        if (label < 0)
            continue;
        out->n_labelled++;
        hits[label].right += class == label;
        hits[label].missed += class != label;
        hits[class == SL_NO_CLASS ? n : (uint32_t) class].wrong += class != label;
    }
    const double labelled = (double)out->n_labelled;
    struct hits all = {0};
    for (uint32_t c = 0; c <= n; c++)
        count(&all, &hits[c]);
    out->not_finite = hits[n].wrong;
    set(out, SL_MEASURE_ACCURACY, ratio((double)all.right, labelled));
    set(out, SL_MEASURE_MICRO_F1, labelled > 0 ? f1_of(&all) : NAN);
    set(out, SL_MEASURE_MACRO_F1, macro_over_occurring(hits, n));
    if (two)
        set(out, SL_MEASURE_ROC_AUC, two_class_auc(ds, list, predicted, items, items + list->n));
    free(hits);
    free(items);
    return SL_OK;
}

// --- multi-label ---------------------------------------------------------------------------------

// SAYS_NOTHING stands beside one of the others: an output of the vertex is not finite.
enum mark { NEGATIVE, POSITIVE, UNLABELLED, SAYS_NOTHING = 4 };

// Labels of the list's vertices, a byte each (list->n, n_classes): conversion and mapped pages are
// paid for once, not once a column.
static int take_marks(const struct sl_dataset *ds, const struct sl_vertex_list *list,
                      const float *logits, uint8_t *marks, struct sl_evaluation *out)
{
    const uint32_t n = ds->n_classes;
    float *target = malloc(n * sizeof *target);
    if (!target)
        return SL_ENOMEM;
    for (uint64_t i = 0; i < list->n; i++, marks += n, logits += n) {
        const bool finite = sl_outputs_are_finite(logits, n);
        bool labelled = false;
        sl_dataset_targets(ds, list->ids[i], target);
        for (uint32_t c = 0; c < n; c++) {
            marks[c] = isnan(target[c]) ? UNLABELLED : target[c] > 0.5f;
            labelled |= marks[c] != UNLABELLED;
            marks[c] |= finite ? 0 : SAYS_NOTHING;
        }
        out->n_labelled += labelled;
        out->not_finite += labelled && !finite;
    }
    free(target);
    return SL_OK;
}

static enum mark label_of(uint8_t mark)
{
    return mark & ~(unsigned)SAYS_NOTHING;
}

static void count_hits(const uint8_t *marks, const float *logits, uint64_t rows, uint32_t n,
                       struct hits *hits, uint64_t *labelled)
{
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t c = 0; c < n; c++) {
            const enum mark mark = label_of(marks[i * n + c]);
            const bool answers = marks[i * n + c] == mark;
            const bool positive = answers ? logits[i * n + c] > 0 : mark == NEGATIVE;
            if (mark == UNLABELLED)
                continue;
            labelled[c]++;
            hits[c].right += positive && mark == POSITIVE;
            hits[c].wrong += positive && mark == NEGATIVE;
            hits[c].missed += !positive && mark == POSITIVE;
        }
    }
}

// ROC-AUC of the columns from `first`, GROUP of them at most, summed; *n_defined counts those that
// have both classes. room: (GROUP + 1, rows)
static double sum_auc(const uint8_t *marks, const float *logits, uint64_t rows, uint32_t n,
                      uint32_t first, uint64_t *room, uint32_t *n_defined)
{
    uint64_t counts[GROUP] = {0};
    uint32_t group = SL_MIN(n - first, (uint32_t)GROUP);
    double sum = 0;
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t g = 0; g < group; g++) {
            uint64_t at = i * n + first + g;
            const enum mark mark = label_of(marks[at]);
            if (mark != UNLABELLED)
                room[g * rows + counts[g]++] =
                    sl_score_ordered(marks[at] == mark ? logits[at] : NAN, mark == POSITIVE);
        }
    }
    for (uint32_t g = 0; g < group; g++) {
        double auc = roc_auc(room + g * rows, room + GROUP * rows, counts[g]);
        if (isnan(auc))
            continue;
        sum += auc;
        ++*n_defined;
    }
    return sum;
}

// Room for all of it.
struct label_room {
    uint8_t *marks;
    struct hits *hits;
    uint64_t *labelled, *scores;
};

static void judge_label_room(const struct label_room *r, const float *logits, uint64_t rows,
                             uint32_t n, struct sl_evaluation *out)
{
    double macro = 0, auc = 0, pairs = 0;
    uint32_t known = 0, defined = 0;
    struct hits all = {0};
    count_hits(r->marks, logits, rows, n, r->hits, r->labelled);
    for (uint32_t c = 0; c < n; c++) {
        count(&all, &r->hits[c]);
        pairs += (double)r->labelled[c];
        known += r->labelled[c] > 0;
        macro += f1_of(&r->hits[c]); // 0 of a label that nobody has
    }
    for (uint32_t c = 0; c < n; c += GROUP)
        auc += sum_auc(r->marks, logits, rows, n, c, r->scores, &defined);
    set(out, SL_MEASURE_ACCURACY, ratio(pairs - (double)all.wrong - (double)all.missed, pairs));
    set(out, SL_MEASURE_MICRO_F1, known ? f1_of(&all) : NAN);
    set(out, SL_MEASURE_MACRO_F1, ratio(macro, known));
    set(out, SL_MEASURE_ROC_AUC, ratio(auc, defined));
}

static int judge_labels(const struct sl_dataset *ds, const struct sl_vertex_list *list,
                        const float *logits, struct sl_evaluation *out)
{
    const uint32_t n = ds->n_classes;
    struct label_room r = {
        .marks = malloc(list->n * n + 1),
        .hits = calloc(n, sizeof *r.hits),
        .labelled = calloc(n, sizeof *r.labelled),
        .scores = malloc((GROUP + 1) * list->n * sizeof *r.scores + 1),
    };
    int rc = r.marks && r.hits && r.labelled && r.scores
                 ? take_marks(ds, list, logits, r.marks, out)
                 : SL_ENOMEM;
    if (rc == SL_OK)
        judge_label_room(&r, logits, list->n, n, out);
    else
        rc = sl_fail(rc, "metrics: no memory for %llu predictions of %u labels",
                     (unsigned long long)list->n, n);
    free(r.marks);
    free(r.hits);
    free(r.labelled);
    free(r.scores);
    return rc;
}

// --- regression ----------------------------------------------------------------------------------

struct column {
    double mean, m2; // of the targets: Welford's sums, since means may be large
    double squares;  // of the errors
    double absolutes;
    uint64_t n;
};

static double r2_of(const struct column *column, uint32_t n)
{
    double sum = 0;
    uint32_t defined = 0;
    for (uint32_t c = 0; c < n; c++) {
        if (column[c].n < 2)
            continue;
        sum += column[c].m2 > 0 ? 1 - column[c].squares / column[c].m2 : column[c].squares == 0;
        defined++;
    }
    return ratio(sum, defined);
}

static int judge_numbers(const struct sl_dataset *ds, const struct sl_vertex_list *list,
                         const float *outputs, struct sl_evaluation *out)
{
    const uint32_t n = ds->n_classes;
    struct column *column = calloc(n, sizeof *column);
    float *target = malloc(n * sizeof *target);
    if (!column || !target) {
        free(column);
        free(target);
        return sl_fail(SL_ENOMEM, "metrics: no memory for %u columns", n);
    }
    for (uint64_t i = 0; i < list->n; i++) {
        bool labelled = false;
        sl_dataset_targets(ds, list->ids[i], target);
        for (uint32_t c = 0; c < n; c++) {
            struct column *to = &column[c];
            double y = target[c], error = (double)outputs[i * n + c] - y;
            if (isnan(y))
                continue;
            labelled = true;
            double away = y - to->mean;
            to->mean += away / (double)++to->n;
            to->m2 += away * (y - to->mean);
            to->squares += error * error;
            to->absolutes += fabs(error);
        }
        out->n_labelled += labelled;
        out->not_finite += labelled && !sl_outputs_are_finite(outputs + i * n, n);
    }
    double absolutes = 0, labelled = 0;
    for (uint32_t c = 0; c < n; c++) {
        absolutes += column[c].absolutes;
        labelled += (double)column[c].n;
    }
    set(out, SL_MEASURE_MAE, ratio(absolutes, labelled));
    set(out, SL_MEASURE_R2, r2_of(column, n));
    free(column);
    free(target);
    return SL_OK;
}

// --- all of it -----------------------------------------------------------------------------------

static int judge_links(const struct sl_judged *j, struct sl_evaluation *out)
{
    const struct sl_evaluation_links *links = &j->links;
    struct sl_link_metrics found;
    double hits;
    const uint64_t positives = SL_MIN(links->n_positives, j->list->n);
    const struct sl_link_scores scores = {
        .positive = j->predictions,
        .negative = (const float *)j->predictions + positives,
        .n_positives = positives,
        .n_negatives = j->list->n - positives,
        .own = links->own,
    };
    SL_TRY(sl_link_metrics_compute(&scores, &links->k, 1, 0, &hits, &found));
    out->n_labelled = j->list->n;
    set(out, SL_MEASURE_HITS, hits);
    set(out, SL_MEASURE_MRR, found.mrr);
    set(out, SL_MEASURE_ROC_AUC, found.roc_auc);
    set(out, SL_MEASURE_AVERAGE_PRECISION, found.average_precision);
    return SL_OK;
}

static int judge(const struct sl_judged *j, struct sl_evaluation *out)
{
    switch (j->dataset->task) {
    case SL_TASK_LINK: return judge_links(j, out);
    case SL_TASK_REGRESSION: return judge_numbers(j->dataset, j->list, j->predictions, out);
    case SL_TASK_MULTILABEL: return judge_labels(j->dataset, j->list, j->predictions, out);
    default: return judge_classes(j->dataset, j->list, j->predictions, out);
    }
}

int sl_metrics_compute(const struct sl_judged *judged, struct sl_evaluation *out)
{
    static const enum sl_measure of_errors[] = {SL_MEASURE_LOSS, SL_MEASURE_MAE, SL_MEASURE_R2};
    memset(out, 0, sizeof *out);
    for (int i = 0; i < SL_MEASURE_COUNT; i++)
        out->value[i] = NAN;
    set(out, SL_MEASURE_LOSS, ratio(judged->sums.loss, judged->sums.weight));
    SL_TRY(judge(judged, out));
    for (size_t i = 0; out->not_finite > 0 && i < SL_COUNT_OF(of_errors); i++)
        out->value[of_errors[i]] = NAN;
    return SL_OK;
}

// On a thread of libuv's pool: errors are recorded for each thread, so the message is taken along.
static void work(uv_work_t *request)
{
    struct sl_metrics *m = request->data;
    m->rc = sl_metrics_compute(&m->judged, &m->found);
    if (m->rc < 0)
        snprintf(m->message, sizeof m->message, "%s", sl_error_message());
}

static void done(uv_work_t *request, int status)
{
    struct sl_metrics *m = request->data;
    m->busy = false;
    m->on_done(m->ctx);
}

bool sl_metrics_start(struct sl_metrics *m, uv_loop_t *loop)
{
    m->work.data = m;
    m->busy = true;
    uint64_t size = m->judged.list->n * sl_dataset_predict_words(m->judged.dataset);
    if (size > INLINE_MAX && uv_queue_work(loop, &m->work, work, done) == 0)
        return false;
    work(&m->work);
    m->busy = false;
    return true;
}
