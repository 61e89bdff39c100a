#include "broker/epochs/link_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "broker/epochs/score_order.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/threads.h"

enum {
    BLOCK = 1 << 18, // scores that a thread takes in one go, and for which one is worth its start
    LANES = 16,
};

// --- what cannot be ranked -----------------------------------------------------------------------

struct scan {
    const float *score;
    uint64_t n;
};

static bool has_nan(void *ctx, uint64_t block)
{
    const struct scan *s = ctx;
    const uint64_t end = SL_MIN(s->n, (block + 1) * BLOCK);
    int found = 0;
    for (uint64_t i = block * BLOCK; i < end; i++)
        found |= isnan(s->score[i]) != 0;
    return found;
}

// The first NaN of n scores, or n.
static uint64_t find_nan(const float *score, uint64_t n, int threads)
{
    struct scan s = {score, n};
    uint64_t block = sl_threads_first(sl_div_up(n, BLOCK), threads, has_nan, &s);
    uint64_t i = block == SL_THREADS_NONE ? n : block * BLOCK;
    while (i < n && !isnan(score[i]))
        i++;
    return i;
}

static int check_sizes(const struct sl_link_scores *s, const uint64_t *k, uint32_t n_k)
{
    const unsigned long long p = s->n_positives, n = s->n_negatives;
    if (p == 0 || n == 0)
        return sl_fail(SL_EINVAL,
                       "metrics of links: found %llu positive and %llu negative pairs, wanted one "
                       "of each at least: without both there is nothing to rank",
                       p, n);
    if (s->own && n % p != 0)
        return sl_fail(SL_EINVAL,
                       "metrics of links: found %llu negative pairs of %llu positive ones, wanted "
                       "as many for each",
                       n, p);
    for (uint32_t i = 0; i < n_k; i++)
        if (k[i] == 0)
            return sl_fail(SL_EINVAL, "metrics of links: found Hits@0, wanted a K of 1 or more");
    return SL_OK;
}

static int check_scores(const struct sl_link_scores *s, int threads)
{
    uint64_t at = find_nan(s->positive, s->n_positives, threads);
    if (at < s->n_positives)
        return sl_fail(SL_ENOTFINITE,
                       "metrics of links: the score of positive pair %llu (of %llu, from 0) is "
                       "NaN, which has no rank: wanted a number",
                       (unsigned long long)at, (unsigned long long)s->n_positives);
    at = find_nan(s->negative, s->n_negatives, threads);
    if (at < s->n_negatives)
        return sl_fail(SL_ENOTFINITE,
                       "metrics of links: the score of negative pair %llu (of %llu, from 0) is "
                       "NaN, which has no rank: wanted a number",
                       (unsigned long long)at, (unsigned long long)s->n_negatives);
    return SL_OK;
}

// --- all negatives as one ------------------------------------------------------------------------

// The positives' scores as rungs, from the lowest up. Of equal ones the first stands for all.
struct ladder {
    const struct sl_link_scores *scores;
    uint32_t *rung; // (n_positives)
    // (threads, 2 n_positives + 1) negatives: [2 r] below rung r and above the one before it,
    // [2 r + 1] at it; the last one above all.
    uint64_t *count;
    int threads;
};

static uint64_t width(const struct ladder *l)
{
    return 2 * l->scores->n_positives + 1;
}

// The first rungs that are not below LANES scores; n_positives: all are. Searches go side by side and
// without a branch, so that one does not wait for the memory of another.
static void find_rungs(const struct ladder *l, const uint32_t *score, uint64_t *found)
{
    const uint32_t *rung = l->rung;
    for (int j = 0; j < LANES; j++)
        found[j] = 0;
    for (uint64_t n = l->scores->n_positives, half; n > 1; n -= half) {
        half = n / 2;
        for (int j = 0; j < LANES; j++)
            found[j] += half & -(uint64_t)(rung[found[j] + half - 1] < score[j]);
    }
    for (int j = 0; j < LANES; j++)
        found[j] += rung[found[j]] < score[j];
}

static int count_share(void *ctx, int thread)
{
    const struct ladder *l = ctx;
    const struct sl_link_scores *s = l->scores;
    const uint64_t share = sl_div_up(s->n_negatives, (uint64_t)l->threads);
    const uint64_t begin = SL_MIN(s->n_negatives, share * (uint64_t)thread);
    const uint64_t end = SL_MIN(s->n_negatives, begin + share);
    uint64_t *count = l->count + (uint64_t)thread * width(l);
    for (uint64_t i = begin; i < end; i += LANES) {
        const uint64_t n = SL_MIN(end - i, (uint64_t)LANES);
        uint32_t score[LANES] = {0};
        uint64_t r[LANES];
        for (uint64_t j = 0; j < n; j++)
            score[j] = (uint32_t)sl_score_ordered(s->negative[i + j], false);
        find_rungs(l, score, r);
        for (uint64_t j = 0; j < n; j++)
            count[2 * r[j] + (r[j] < s->n_positives && l->rung[r[j]] == score[j])]++;
    }
    return SL_OK;
}

// Counts further threads have are no more memory than the scores.
static int threads_for(const struct sl_link_scores *s, int threads)
{
    const uint64_t bytes = (s->n_positives + s->n_negatives) * sizeof(float);
    const uint64_t room = bytes / ((2 * s->n_positives + 1) * sizeof(uint64_t));
    const uint64_t most = SL_MIN(1 + room, sl_div_up(s->n_negatives, BLOCK));
    return (int)SL_MIN((uint64_t)(threads > 0 ? threads : sl_threads_default()), most);
}

static int climb(struct ladder *l)
{
    const struct sl_link_scores *s = l->scores;
    const uint64_t n = s->n_positives;
    uint64_t *item = l->count; // 2 n of it are room to sort in
    for (uint64_t i = 0; i < n; i++)
        item[i] = sl_score_ordered(s->positive[i], true);
    sl_score_sort(item, item + n, n);
    for (uint64_t i = 0; i < n; i++)
        l->rung[i] = (uint32_t)item[i];
    memset(l->count, 0, (uint64_t)l->threads * width(l) * sizeof *l->count);
    SL_TRY(sl_threads_run(l->threads, count_share, l));
    for (int t = 1; t < l->threads; t++)
        for (uint64_t i = 0; i < width(l); i++)
            l->count[i] += l->count[(uint64_t)t * width(l) + i];
    return SL_OK;
}

// From the highest rung down. hits and MRR are those of shared negatives.
static void descend(const struct ladder *l, const uint64_t *k, uint32_t n_k, double *hits,
                    struct sl_link_metrics *sum)
{
    const uint64_t n = l->scores->n_positives, n_negatives = l->scores->n_negatives;
    uint64_t above = l->count[2 * n];
    for (uint64_t end = n, first; end > 0; end = first) {
        first = end - 1;
        while (first > 0 && l->rung[first - 1] == l->rung[first])
            first--;
        const uint64_t ties = l->count[2 * first + 1], reached = n - first;
        const double equal = (double)(end - first), half = (double)ties / 2;
        sum->mrr += equal / (1 + (double)above + half);
        sum->roc_auc += equal * ((double)(n_negatives - above - ties) + half);
        sum->average_precision += equal * (double)reached / (double)(reached + above + ties);
        for (uint32_t i = 0; i < n_k; i++)
            hits[i] += above + ties < k[i] ? equal : 0;
        above += ties + l->count[2 * first];
    }
}

static int judge_pool(const struct sl_link_scores *s, const uint64_t *k, uint32_t n_k, int threads,
                      double *hits, struct sl_link_metrics *sum)
{
    struct ladder l = {.scores = s, .threads = threads_for(s, threads)};
    l.rung = malloc(s->n_positives * sizeof *l.rung);
    l.count = malloc((uint64_t)l.threads * width(&l) * sizeof *l.count);
    int rc = l.rung && l.count ? climb(&l)
                               : sl_fail(SL_ENOMEM, "metrics of links: no memory for %llu pairs",
                                         (unsigned long long)s->n_positives);
    if (rc == SL_OK)
        descend(&l, k, n_k, hits, sum);
    free(l.rung);
    free(l.count);
    return rc;
}

// --- each positive among its own -----------------------------------------------------------------

struct rows {
    const struct sl_link_scores *scores;
    const uint64_t *k;
    uint32_t n_k;
    uint64_t in_block; // rows
    double *sum;       // (blocks, 1 + n_k) 1 / rank, and hits
};

// 2 + twice the negatives above + the ties.
static uint64_t twice_rank(float positive, const float *negative, uint64_t n)
{
    uint64_t rank = 2;
    for (uint64_t begin = 0; begin < n; begin += BLOCK) {
        const uint64_t end = SL_MIN(n, begin + BLOCK);
        uint32_t more = 0; // of 32 bits, as scores are: vectors of both
        for (uint64_t i = begin; i < end; i++)
            more += (uint32_t)(negative[i] > positive) + (uint32_t)(negative[i] >= positive);
        rank += more;
    }
    return rank;
}

static bool rank_block(void *ctx, uint64_t block)
{
    const struct rows *r = ctx;
    const struct sl_link_scores *s = r->scores;
    const uint64_t width = s->n_negatives / s->n_positives;
    const uint64_t end = SL_MIN(s->n_positives, (block + 1) * r->in_block);
    double *sum = r->sum + block * (1 + r->n_k);
    for (uint64_t i = block * r->in_block; i < end; i++) {
        const uint64_t twice = twice_rank(s->positive[i], s->negative + i * width, width);
        sum[0] += 2 / (double)twice;
        for (uint32_t j = 0; j < r->n_k; j++)
            sum[1 + j] += sl_div_up(twice, 2) <= r->k[j];
    }
    return false; // nothing is bad
}

static int judge_rows(const struct sl_link_scores *s, const uint64_t *k, uint32_t n_k, int threads,
                      double *hits, double *mrr)
{
    struct rows r = {.scores = s, .k = k, .n_k = n_k};
    r.in_block = SL_MAX(BLOCK / (s->n_negatives / s->n_positives), (uint64_t)1);
    const uint64_t blocks = sl_div_up(s->n_positives, r.in_block);
    r.sum = calloc(blocks * (1 + n_k), sizeof *r.sum);
    if (!r.sum)
        return sl_fail(SL_ENOMEM, "metrics of links: no memory for %llu pairs",
                       (unsigned long long)s->n_positives);
    sl_threads_first(blocks, threads, rank_block, &r);
    for (uint64_t b = 0; b < blocks; b++) {
        const double *sum = r.sum + b * (1 + n_k);
        *mrr += sum[0];
        for (uint32_t j = 0; j < n_k; j++)
            hits[j] += sum[1 + j];
    }
    free(r.sum);
    return SL_OK;
}

// --- all of it -----------------------------------------------------------------------------------

int sl_link_metrics_compute(const struct sl_link_scores *scores, const uint64_t *k, uint32_t n_k,
                            int threads, double *hits, struct sl_link_metrics *out)
{
    const double n = (double)scores->n_positives;
    SL_TRY(check_sizes(scores, k, n_k));
    SL_TRY(check_scores(scores, threads));
    for (uint32_t i = 0; i < n_k; i++)
        hits[i] = 0;
    *out = (struct sl_link_metrics){0};
    SL_TRY(judge_pool(scores, k, scores->own ? 0 : n_k, threads, hits, out));
    if (scores->own) {
        out->mrr = 0;
        SL_TRY(judge_rows(scores, k, n_k, threads, hits, &out->mrr));
    }
    out->mrr /= n;
    out->roc_auc /= n * (double)scores->n_negatives;
    out->average_precision /= n;
    for (uint32_t i = 0; i < n_k; i++)
        hits[i] /= n;
    return SL_OK;
}
