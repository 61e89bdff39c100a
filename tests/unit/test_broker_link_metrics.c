// Metrics of links against definitions written out: each positive compared with each negative, the
// K-th best negative of a sorted copy, a threshold for each score. Random scores with many ties.
#include "broker/epochs/link_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "tests/unit/suite.h"

enum { MOST = 1 << 12, KS = 5 };

static float positive[MOST], negative[MOST];
static struct sl_link_metrics found;
static double hits[KS];

static uint64_t state;
static uint32_t take(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 40);
}

// Of `values` different ones, below and above 0, in which positives are somewhat higher.
static void draw(uint64_t n_positives, uint64_t n_negatives, uint32_t values)
{
    for (uint64_t i = 0; i < n_positives; i++)
        positive[i] = ((float)(take() % values) - (float)(values / 2)) / 16 + 0.25f;
    for (uint64_t i = 0; i < n_negatives; i++)
        negative[i] = ((float)(take() % values) - (float)(values / 2)) / 16;
}

static struct sl_link_scores scores_of(uint64_t n_positives, uint64_t n_negatives, bool own)
{
    return (struct sl_link_scores){positive, negative, n_positives, n_negatives, own};
}

// --- written out ---------------------------------------------------------------------------------

static int falling(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static double naive_hits(const struct sl_link_scores *s, uint64_t k)
{
    static float sorted[MOST];
    uint64_t n = 0;
    if (s->n_negatives < k)
        return 1;
    memcpy(sorted, s->negative, s->n_negatives * sizeof *sorted);
    qsort(sorted, s->n_negatives, sizeof *sorted, falling);
    for (uint64_t i = 0; i < s->n_positives; i++)
        n += s->positive[i] > sorted[k - 1];
    return (double)n / (double)s->n_positives;
}

static double naive_rank(const struct sl_link_scores *s, uint64_t i)
{
    const uint64_t width = s->own ? s->n_negatives / s->n_positives : s->n_negatives;
    const float *negatives = s->negative + (s->own ? i * width : 0);
    uint64_t optimistic = 0, pessimistic = 0;
    for (uint64_t j = 0; j < width; j++) {
        optimistic += negatives[j] > s->positive[i];
        pessimistic += negatives[j] >= s->positive[i];
    }
    return 0.5 * (double)(optimistic + pessimistic) + 1;
}

static double naive_auc(const struct sl_link_scores *s)
{
    double sum = 0;
    for (uint64_t i = 0; i < s->n_positives; i++)
        for (uint64_t j = 0; j < s->n_negatives; j++)
            sum += s->positive[i] > s->negative[j] ? 1 : s->positive[i] == s->negative[j] ? 0.5 : 0;
    return sum / ((double)s->n_positives * (double)s->n_negatives);
}

// A positive's share of the recall is reached at the threshold that is its score.
static double naive_precision(const struct sl_link_scores *s)
{
    double sum = 0;
    for (uint64_t i = 0; i < s->n_positives; i++) {
        uint64_t right = 0, wrong = 0;
        for (uint64_t j = 0; j < s->n_positives; j++)
            right += s->positive[j] >= s->positive[i];
        for (uint64_t j = 0; j < s->n_negatives; j++)
            wrong += s->negative[j] >= s->positive[i];
        sum += (double)right / (double)(right + wrong);
    }
    return sum / (double)s->n_positives;
}

static void expect(const char *what, double value, double wanted)
{
    ck_assert_msg(fabs(value - wanted) < 1e-12, "%s: found %.17g, wanted %.17g", what, value,
                  wanted);
}

static void check_all(const struct sl_link_scores *s, const uint64_t *k, uint32_t n_k)
{
    double mrr = 0;
    ck_assert_msg(sl_link_metrics_compute(s, k, n_k, 1, hits, &found) == SL_OK, "%s",
                  sl_error_message());
    for (uint64_t i = 0; i < s->n_positives; i++)
        mrr += 1 / naive_rank(s, i) / (double)s->n_positives;
    expect("MRR", found.mrr, mrr);
    expect("ROC-AUC", found.roc_auc, naive_auc(s));
    expect("average precision", found.average_precision, naive_precision(s));
    for (uint32_t j = 0; j < n_k; j++) {
        double wanted = 0;
        for (uint64_t i = 0; i < s->n_positives && s->own; i++)
            wanted += (naive_rank(s, i) <= (double)k[j]) / (double)s->n_positives;
        expect("Hits@K", hits[j], s->own ? wanted : naive_hits(s, k[j]));
    }
}

TEST(shared_negatives_are_as_written_out)
{
    static const uint64_t sizes[] = {1, 2, 3, 7, 50, 301};
    state = 1;
    for (size_t p = 0; p < SL_COUNT_OF(sizes); p++)
        for (size_t n = 0; n < SL_COUNT_OF(sizes); n++)
            for (uint32_t values = 1; values < 5000; values *= 8) {
                const struct sl_link_scores s = scores_of(sizes[p], sizes[n], false);
                const uint64_t k[KS] = {1, SL_MAX(sizes[n] - 1, (uint64_t)1), sizes[n],
                                        sizes[n] + 1, UINT64_MAX};
                draw(sizes[p], sizes[n], values);
                check_all(&s, k, KS);
            }
}

TEST(own_negatives_are_as_written_out)
{
    static const uint64_t sizes[] = {1, 2, 7, 50}, widths[] = {1, 2, 9, 40};
    static const uint64_t k[KS] = {1, 3, 10, 41, UINT64_MAX};
    state = 2;
    for (size_t p = 0; p < SL_COUNT_OF(sizes); p++)
        for (size_t w = 0; w < SL_COUNT_OF(widths); w++)
            for (uint32_t values = 1; values < 5000; values *= 8) {
                const struct sl_link_scores s = scores_of(sizes[p], sizes[p] * widths[w], true);
                draw(sizes[p], sizes[p] * widths[w], values);
                check_all(&s, k, KS);
            }
}

// --- by hand -------------------------------------------------------------------------------------

static void judge(uint64_t n_positives, uint64_t n_negatives, bool own, uint64_t k)
{
    const struct sl_link_scores s = scores_of(n_positives, n_negatives, own);
    ck_assert_int_eq(sl_link_metrics_compute(&s, &k, 1, 0, hits, &found), SL_OK);
}

TEST(a_tie_with_the_kth_negative_is_a_miss)
{
    memcpy(negative, (const float[]){3, 1, 2}, 3 * sizeof(float));
    memcpy(positive, (const float[]){2, 2.5f, 4, -INFINITY}, 4 * sizeof(float));
    judge(4, 3, false, 2); // of these 2.5 and 4 are above 2
    expect("Hits@2", hits[0], 0.5);
    judge(4, 3, false, 3);
    expect("Hits@3", hits[0], 0.75);
    judge(4, 3, false, 4); // fewer negatives than that: even the worst
    expect("Hits@4", hits[0], 1);
}

TEST(of_its_own_negatives_ties_count_by_halves)
{
    memcpy(positive, (const float[]){1, 1}, 2 * sizeof(float));
    memcpy(negative, (const float[]){1, 1, 0, 1, 1, 1}, 6 * sizeof(float));
    judge(2, 6, true, 2); // ranks 2 and 2.5
    expect("Hits@2", hits[0], 0.5);
    expect("MRR", found.mrr, (1 / 2.0 + 1 / 2.5) / 2);
}

// As OGB's evaluator and as scikit-learn would have it of one score for all.
TEST(one_score_for_all_is_worth_nothing)
{
    for (int i = 0; i < 400; i++)
        positive[i % 100] = negative[i] = i % 2 ? -0.0f : 0.0f; // -0 is 0
    judge(100, 400, false, 400);
    expect("Hits@400", hits[0], 0);
    expect("MRR", found.mrr, 1.0 / 201);
    expect("ROC-AUC", found.roc_auc, 0.5);
    expect("average precision", found.average_precision, 0.2);
    judge(100, 400, true, 2);
    expect("Hits@2", hits[0], 0);
    expect("MRR", found.mrr, 1.0 / 3);
}

TEST(infinite_scores_are_ranked)
{
    memcpy(positive, (const float[]){INFINITY, -INFINITY}, 2 * sizeof(float));
    memcpy(negative, (const float[]){INFINITY, 0, -INFINITY, -1e38f}, 4 * sizeof(float));
    judge(2, 4, false, 1);
    expect("ROC-AUC", found.roc_auc, (3.5 + 0.5) / 8);
    expect("MRR", found.mrr, (1 / 1.5 + 1 / 4.5) / 2);
    expect("average precision", found.average_precision, (1 / 2.0 + 2 / 6.0) / 2);
    expect("Hits@1", hits[0], 0);
}

// --- threads -------------------------------------------------------------------------------------

// Blocks of several threads, and of one; an odd number of rows, and one row that is long.
TEST(threads_change_no_bit)
{
    enum { N = 1500000 };
    static const uint64_t k[KS] = {1, 3, 10, 100, 1000};
    static const struct {
        uint64_t n_positives, n_negatives;
        bool own;
    } cases[] = {{1001, N, false}, {1001, 1001 * 700, true}, {1, N, true}, {N / 3, N / 3, true}};
    float *many = malloc(2 * N * sizeof *many);
    state = 3;
    for (uint64_t i = 0; i < 2 * N; i++)
        many[i] = (float)take() / 65536;
    for (size_t c = 0; c < SL_COUNT_OF(cases); c++) {
        const struct sl_link_scores s = {many, many + N, cases[c].n_positives, cases[c].n_negatives,
                                         cases[c].own};
        struct sl_link_metrics one, more;
        double hits_of_one[KS];
        ck_assert_int_eq(sl_link_metrics_compute(&s, k, KS, 1, hits_of_one, &one), SL_OK);
        for (int threads = 2; threads < 8; threads += 3) {
            ck_assert_int_eq(sl_link_metrics_compute(&s, k, KS, threads, hits, &more), SL_OK);
            ck_assert_int_eq(memcmp(&one, &more, sizeof one), 0);
            ck_assert_int_eq(memcmp(hits_of_one, hits, sizeof hits), 0);
        }
        ck_assert(one.mrr > 0 && one.average_precision > 0);
    }
    free(many);
}

// --- what is refused -----------------------------------------------------------------------------

static void refused(int code, const struct sl_link_scores *s, uint64_t k, const char *part)
{
    ck_assert_int_eq(sl_link_metrics_compute(s, &k, 1, 2, hits, &found), code);
    ck_assert_msg(strstr(sl_error_message(), part), "no '%s' in: %s", part, sl_error_message());
}

TEST(what_cannot_be_ranked_is_refused)
{
    struct sl_link_scores s = scores_of(6, 12, true);
    draw(6, 12, 9);
    negative[7] = NAN;
    refused(SL_ENOTFINITE, &s, 1, "negative pair 7 (of 12, from 0) is NaN");
    positive[5] = -NAN;
    refused(SL_ENOTFINITE, &s, 1, "positive pair 5 (of 6, from 0) is NaN");
    s.own = false;
    s.n_positives = 5;
    s.n_negatives = 7;
    ck_assert_int_eq(sl_link_metrics_compute(&s, NULL, 0, 2, NULL, &found), SL_OK);
}

TEST(nothing_is_no_number)
{
    struct sl_link_scores s = scores_of(0, 12, false);
    refused(SL_EINVAL, &s, 1, "found 0 positive and 12 negative pairs");
    s = scores_of(6, 0, true);
    refused(SL_EINVAL, &s, 1, "found 6 positive and 0 negative pairs");
    s = scores_of(5, 12, true);
    refused(SL_EINVAL, &s, 1, "found 12 negative pairs of 5 positive ones");
    s.own = false;
    refused(SL_EINVAL, &s, 0, "found Hits@0");
}

RUN_TESTS()
