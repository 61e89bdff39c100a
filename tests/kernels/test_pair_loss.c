// pair_loss.
#include "tests/kernels/harness.h"

#include <math.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

// Positives, and negatives of each, below and above a vector and a warp; more than a segment.
static const struct {
    uint32_t positives, per_positive;
} shapes[] = {{0, 1},   {1, 1},  {1, 40},   {17, 1},  {5, 3},   {64, 2},
              {33, 16}, {9, 33}, {3000, 1}, {700, 5}, {20, 300}};

enum { PLAIN, TIES, LARGE, KINDS };

static float *random_scores(struct suite *t, size_t n, int kind)
{
    float *x = t_random_floats(t, n);
    for (size_t i = 0; i < n; i++)
        x[i] = kind == TIES    ? (float)t_random_below(t, 3) - 1
               : kind == LARGE ? x[i] * 1e4f
                               : x[i] * 5;
    return x;
}

// Some pairs are not there; their scores are no numbers.
static float *random_weights(struct suite *t, float *scores, size_t n)
{
    float *weight = t_alloc(t, n * sizeof *weight, t_random_below(t, 4) * 4);
    for (size_t i = 0; i < n; i++) {
        weight[i] = t_random_below(t, 4) == 0 ? 0.0f : 0.25f + fabsf(t_random_float(t));
        if (weight[i] == 0.0f && t_random_below(t, 2))
            scores[i] = NAN;
    }
    return weight;
}

static void close_results(struct suite *t, const struct sl_loss_result *got,
                          const struct sl_loss_result *want)
{
    t_expect(t, got->correct == want->correct && got->counted == want->counted,
             "%llu of %llu correct, wanted %llu of %llu", (unsigned long long)got->correct,
             (unsigned long long)got->counted, (unsigned long long)want->correct,
             (unsigned long long)want->counted);
    const double bound = 2e-6 * (fabs(want->loss) + want->weight);
    t_expect(t, fabs(got->loss - want->loss) <= bound, "loss %.12g, wanted %.12g", got->loss,
             want->loss);
    t_expect(t, fabs(got->weight - want->weight) <= 1e-14 * want->weight,
             "weight %.17g, wanted %.17g", got->weight, want->weight);
}

static void compare_loss(struct suite *t, size_t s, enum sl_pair_loss loss, int kind, bool weighted)
{
    const uint32_t positives = shapes[s].positives, per = shapes[s].per_positive;
    const uint64_t n = (uint64_t)positives * (1 + per);
    if (!t_affords(t, (double)n * 16))
        return;
    t_begin(t, "pair_loss loss=%d positives=%u per_positive=%u kind=%d weighted=%d", (int)loss,
            positives, per, kind, weighted);
    float *scores = random_scores(t, n, kind);
    struct sl_pair_loss_args args = {.loss = loss,
                                     .n = n,
                                     .n_positive = positives,
                                     .per_positive = per,
                                     .margin = 0.75f,
                                     .score = scores};
    if (weighted) {
        args.weight = random_weights(t, scores, n);
        args.shift = t_random_floats(t, n);
    }
    const size_t bytes = n * sizeof(float);
    float *want = args.dscore = t_alloc(t, bytes, 0), *first = NULL;
    struct sl_loss_result want_result, result, first_result = {0};
    t_expect_ok(t, t->ref->pair_loss(&args, &want_result), "ref");
    for (const int *threads = t_threads; *threads; threads++) {
        sl_kernels_set_threads(*threads);
        args.dscore = NULL;
        t_expect_ok(t, t->dev->pair_loss(&args, &result), "dev evaluation");
        const struct sl_loss_result evaluated = result;
        args.dscore = t_alloc(t, bytes, t_random_below(t, 4) * 4);
        t_expect_ok(t, t->dev->pair_loss(&args, &result), "dev");
        // Scores of 1e4 less a shift of 1 are rounded to 5e-4.
        t_close(t, "dscore", args.dscore, want, n, kind == LARGE ? 2e-3 : 1e-5,
                2e-6 * (1 + per) + (kind == LARGE ? 2e-3 : 0));
        close_results(t, &result, &want_result);
        t_same_results(t, "with a gradient", &result, &evaluated);
        if (first)
            t_same_results(t, "with more threads", &result, &first_result);
        first_result = result;
        T_REPEATS(t, "dscore", args.dscore, first, bytes);
    }
    t_end(t);
}

static void all_losses(struct suite *t)
{
    for (size_t s = 0; s < SL_COUNT_OF(shapes); s++)
        for (int loss = 0; loss <= SL_LOSS_PAIR_SOFTMAX; loss++)
            for (int kind = 0; kind < KINDS; kind++)
                compare_loss(t, s, (enum sl_pair_loss)loss, kind, (s + (size_t)kind) & 1);
}

// One of each, worked out by hand: torch's binary_cross_entropy_with_logits, margin_ranking_loss,
// -logsigmoid of a difference, and cross_entropy of class 0.
static void known_losses(struct suite *t)
{
    t_begin(t, "pair_loss of two positives and two negatives each, by hand");
    // The second negative of the first positive is not there; the second positive counts twice.
    float score[6] = {2, -1, 1, NAN, -1.5f, 0.5f}, weight[6] = {1, 2, 1, 0, 1, 1}, dscore[6];
    const double s2 = 1 / (1 + exp(-2.0)), s1 = 1 / (1 + exp(-1.0)), s15 = 1 / (1 + exp(1.5)),
                 s05 = 1 / (1 + exp(-0.5));
    const double bpr[3] = {1 / (1 + exp(1.0)), 1 / (1 + exp(0.5)), 1 / (1 + exp(-1.5))};
    const double sums[2] = {1 + exp(-1.0), 1 + exp(-0.5) + exp(1.5)};
    const struct {
        double loss, weight, dscore[6];
        uint64_t correct, counted;
    } want[] = {
        {-log(s2) + 2 * log1p(exp(1.0)) + log1p(exp(1.0)) + log1p(exp(-1.5)) + log1p(exp(0.5)),
         6,
         {s2 - 1, -2 * s1, s1, 0, s15, s05},
         2, // 2, and -1.5
         5},
        // 1 - 2 + 1 = 0; 1 + 1 - 1.5, 1 + 1 + 0.5
        {2 * 0.5 + 2 * 2.5, 5, {0, -4, 0, 0, 2, 2}, 2, 3},
        {log1p(exp(-1.0)) + 2 * log1p(exp(-0.5)) + 2 * log1p(exp(1.5)),
         5,
         {-bpr[0], -2 * (bpr[1] + bpr[2]), bpr[0], 0, 2 * bpr[1], 2 * bpr[2]},
         2,
         3},
        {log(sums[0]) + 2 * log(sums[1]),
         3,
         {1 / sums[0] - 1, 2 * (1 / sums[1] - 1), exp(-1.0) / sums[0], 0, 2 * exp(-0.5) / sums[1],
          2 * exp(1.5) / sums[1]},
         2,
         3},
    };
    for (int loss = 0; loss <= SL_LOSS_PAIR_SOFTMAX; loss++) {
        const struct sl_pair_loss_args args = {.loss = (enum sl_pair_loss)loss,
                                               .n = 6,
                                               .n_positive = 2,
                                               .per_positive = 2,
                                               .margin = 1,
                                               .score = score,
                                               .weight = weight,
                                               .dscore = dscore};
        struct sl_loss_result r;
        t_expect_ok(t, t->dev->pair_loss(&args, &r), "dev");
        t_expect(t, fabs(r.loss - want[loss].loss) < 2e-6 && r.weight == want[loss].weight,
                 "loss %d is %.9g of %g, wanted %.9g of %g", loss, r.loss, r.weight,
                 want[loss].loss, want[loss].weight);
        t_expect(t, r.correct == want[loss].correct && r.counted == want[loss].counted,
                 "loss %d: %llu of %llu", loss, (unsigned long long)r.correct,
                 (unsigned long long)r.counted);
        for (int p = 0; p < 6; p++)
            t_expect(t, fabs((double)dscore[p] - want[loss].dscore[p]) < 1e-6,
                     "loss %d: dscore[%d] is %.9g, wanted %.9g", loss, p, (double)dscore[p],
                     want[loss].dscore[p]);
    }
    t_end(t);
}

// What does not count changes nothing; what counts and is no number shows.
static void broken_scores(struct suite *t)
{
    t_begin(t, "pair_loss without terms, with a NaN, bad arguments");
    float score[3] = {1, NAN, NAN}, weight[3] = {1, 0, 0}, dscore[3];
    struct sl_loss_result r;
    for (int loss = SL_LOSS_PAIR_MARGIN; loss <= SL_LOSS_PAIR_SOFTMAX; loss++) {
        struct sl_pair_loss_args args = {.loss = (enum sl_pair_loss)loss,
                                         .n = 3,
                                         .n_positive = 1,
                                         .per_positive = 2,
                                         .margin = 1,
                                         .score = score,
                                         .weight = weight,
                                         .dscore = dscore};
        t_expect_ok(t, t->dev->pair_loss(&args, &r), "no negative is there");
        t_expect(t, r.loss == 0 && r.weight == 0 && r.counted == 0, "loss %g of %g", r.loss,
                 r.weight);
        t_expect(t, dscore[0] == 0 && dscore[1] == 0 && dscore[2] == 0, "gradient %g %g %g",
                 (double)dscore[0], (double)dscore[1], (double)dscore[2]);
        weight[2] = 1;
        t_expect_ok(t, t->dev->pair_loss(&args, &r), "one is, and is no number");
        t_expect(t, isnan(r.loss) && isnan(dscore[0]), "loss %d is %g, gradient %g", loss, r.loss,
                 (double)dscore[0]);
        weight[2] = 0;
        args.n = 2;
        t_expect_code(t, t->dev->pair_loss(&args, &r), SL_EINVAL, "pairs of no positive");
    }
    const struct sl_pair_loss_args each = {
        .n = 3, .n_positive = 2, .score = score, .dscore = dscore};
    t_expect_ok(t, t->dev->pair_loss(&each, &r), "each pair by itself");
    t_expect(t, isnan(r.loss) && r.weight == 3, "loss %g of %g", r.loss, r.weight);
    t_expect_code(t, t->dev->pair_loss(&each, NULL), SL_EINVAL, "no result");
    t_end(t);
}

void test_pair_loss(struct suite *t)
{
    t_each_isa(t, all_losses);
    known_losses(t);
    broken_scores(t);
}
