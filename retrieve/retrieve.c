#include "retrieve/retrieve.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/mempool.h"
#include "common/base/simd.h"
#include "common/base/threads.h"
#include "kernels/kernels.h"
#include "retrieve/known.h"

enum {
    CHUNK = 1024,           // targets at a time, whose rows stay in the cache
    BLOCK = 256,            // sources at a time
    STRIDE = 64,            // scores that are looked at together
    GROUP_BYTES = 256 << 20 // of what is kept of the sources of a group
};

struct answer {
    float score;
    uint32_t id;
};

// The best so far of a source: a heap whose first is the worst.
struct best {
    uint32_t n;
    struct answer *of; // (k)
};

struct thread {
    struct best *best; // (sources of a group)
    struct answer *answers;
    float *targets; // (CHUNK, dim), where they are not all rows
    float *scores;  // (BLOCK, CHUNK)
    float *scales;  // (CHUNK)
    struct sl_mempool pool;
};

struct work {
    const struct sl_retrieval *r;
    const uint32_t *sources; // of the group
    uint64_t n_sources;
    float *queries; // (n_sources, dim)
    struct sl_known known;
    struct thread *thread;
    struct sl_retrieval_range range; // of targets
    _Atomic uint64_t next;           // chunk
    _Atomic bool failed;
};

// ---- the best k ---------------------------------------------------------------------------------

static bool is_better(struct answer a, struct answer b)
{
    return a.score > b.score || (a.score == b.score && a.id < b.id);
}

static void sink(struct best *b, uint32_t i)
{
    for (;;) {
        uint32_t worst = i, left = 2 * i + 1, right = 2 * i + 2;
        if (left < b->n && is_better(b->of[worst], b->of[left]))
            worst = left;
        if (right < b->n && is_better(b->of[worst], b->of[right]))
            worst = right;
        if (worst == i)
            return;
        struct answer kept = b->of[i];
        b->of[i] = b->of[worst];
        b->of[worst] = kept;
        i = worst;
    }
}

static void put(struct best *b, uint32_t k, struct answer a)
{
    if (b->n == k) {
        if (!is_better(a, b->of[0]))
            return;
        b->of[0] = a;
        sink(b, 0);
        return;
    }
    b->of[b->n++] = a;
    if (b->n == k)
        for (uint32_t i = k / 2; i-- > 0;)
            sink(b, i);
}

SL_SIMD(uint32_t, count_from, (const float *scores, float least), (scores, least))
{
    uint32_t n = 0;
    for (int j = 0; j < STRIDE; j++)
        n += scores[j] >= least;
    return n;
}

// ---- a chunk of targets -------------------------------------------------------------------------

static uint32_t target_at(const struct sl_retrieval *r, uint64_t i)
{
    return r->targets ? r->targets[i] : (uint32_t)i;
}

struct sl_retrieval_range sl_retrieval_range(const struct sl_retrieval *r, const uint32_t *sources,
                                             uint64_t n_sources)
{
    uint64_t of_first = 0;
    for (uint64_t s = 0; s < n_sources; s++)
        of_first += sources[s] < r->first_side;
    if (r->targets)
        return (struct sl_retrieval_range){0, r->n_targets};
    if (of_first > 0 && of_first == n_sources)
        return (struct sl_retrieval_range){r->first_side, r->n - r->first_side};
    return (struct sl_retrieval_range){0, r->first_side && of_first == 0 ? r->first_side : r->n};
}

static bool may_answer(const struct work *w, uint32_t source, uint32_t target)
{
    const uint64_t first = w->r->targets ? 0 : w->r->first_side;
    const bool is_self = target == source && !w->r->source_rows;
    return !is_self && !(first && (target < first) == (source < first)) &&
           !sl_known_has(&w->known, source, target);
}

static const float *chunk_rows(const struct work *w, struct thread *t, uint64_t first, uint64_t n)
{
    const struct sl_retrieval *r = w->r;
    if (!r->targets)
        return r->rows + first * r->dim;
    for (uint64_t i = 0; i < n; i++)
        memcpy(t->targets + i * r->dim, r->rows + (uint64_t)r->targets[first + i] * r->dim,
               r->dim * sizeof(float));
    return t->targets;
}

// What a row's products are multiplied with; NaN: it is not finite.
static float scale_of(const struct sl_retrieval *r, const float *row)
{
    double sum = 0;
    for (uint32_t i = 0; i < r->dim; i++)
        sum += (double)row[i] * (double)row[i];
    if (!isfinite(sum))
        return NAN;
    if (!r->cosine)
        return 1;
    return sum > 0 ? (float)(1 / sqrt(sum)) : 0;
}

static int scale_rows(const struct work *w, struct thread *t, const float *rows, uint64_t first,
                      uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        t->scales[i] = scale_of(w->r, rows + i * w->r->dim);
        if (isnan(t->scales[i]))
            return sl_fail(SL_EFORMAT, "row %u is not finite, wanted numbers",
                           target_at(w->r, first + i));
    }
    return SL_OK;
}

// Scores of one source (n, and -inf up to a whole stride).
static void take_scores(const struct work *w, struct thread *t, uint64_t source, float *scores,
                        uint64_t first, uint64_t n)
{
    const struct sl_retrieval *r = w->r;
    struct best *b = &t->best[source];
    const uint32_t self = w->sources[source];
    if (r->cosine)
        for (uint64_t j = 0; j < n; j++)
            scores[j] *= t->scales[j];
    for (uint64_t j = n; j < sl_align_up(n, STRIDE); j++)
        scores[j] = -INFINITY;
    for (uint64_t at = 0; at < n; at += STRIDE) {
        const float least = b->n == r->k ? b->of[0].score : -INFINITY;
        if (count_from(scores + at, least) == 0)
            continue;
        for (uint64_t j = at; j < SL_MIN(at + STRIDE, n); j++) {
            const struct answer a = {scores[j], target_at(r, first + j)};
            if ((b->n < r->k || is_better(a, b->of[0])) && may_answer(w, self, a.id))
                put(b, r->k, a);
        }
    }
}

static int take_chunk(struct work *w, struct thread *t, uint64_t first, uint64_t n)
{
    const struct sl_retrieval *r = w->r;
    const float *rows = chunk_rows(w, t, first, n);
    SL_TRY(scale_rows(w, t, rows, first, n));
    for (uint64_t s = 0; s < w->n_sources; s += BLOCK) {
        const uint64_t m = SL_MIN(w->n_sources - s, (uint64_t)BLOCK);
        sl_mempool_reset(&t->pool);
        SL_TRY(sl_kernels_cpu()->gemm(SL_PRECISION_F32, SL_NO_TRANS, SL_TRANS, m, n, r->dim, 1,
                                      w->queries + s * r->dim, r->dim, rows, r->dim, 0, t->scores,
                                      CHUNK, &t->pool));
        for (uint64_t i = 0; i < m; i++)
            take_scores(w, t, s + i, t->scores + i * CHUNK, first, n);
        if (r->on_progress)
            r->on_progress(r->ctx, m * n);
    }
    return SL_OK;
}

static int take_chunks(void *context, int thread)
{
    struct work *w = context;
    int rc = SL_OK;
    while (rc == SL_OK && !sl_interrupt_seen() && !w->failed) {
        const uint64_t first = atomic_fetch_add(&w->next, 1) * CHUNK;
        if (first >= w->range.n)
            break;
        rc = take_chunk(w, &w->thread[thread], w->range.first + first,
                        SL_MIN(w->range.n - first, (uint64_t)CHUNK));
    }
    if (rc < 0)
        w->failed = true;
    return rc;
}

// ---- a group of sources -------------------------------------------------------------------------

static int better_first(const void *x, const void *y)
{
    const struct answer *a = x, *b = y;
    return is_better(*b, *a) - is_better(*a, *b);
}

static int make_queries(struct work *w)
{
    const struct sl_retrieval *r = w->r;
    const float *rows = r->source_rows ? r->source_rows : r->rows;
    for (uint64_t i = 0; i < w->n_sources; i++) {
        const float *row = rows + (uint64_t)w->sources[i] * r->dim, scale = scale_of(r, row);
        if (isnan(scale))
            return sl_fail(SL_EFORMAT, "row %u%s is not finite, wanted numbers", w->sources[i],
                           r->source_rows ? " of the sources' type" : "");
        for (uint32_t j = 0; j < r->dim; j++)
            w->queries[i * r->dim + j] = scale * row[j];
    }
    return SL_OK;
}

// The best of all threads, into the caller's arrays.
static void merge(const struct work *w, struct answer *all, uint32_t *ids, float *scores)
{
    const uint32_t k = w->r->k;
    for (uint64_t s = 0; s < w->n_sources; s++) {
        uint64_t n = 0;
        for (int t = 0; t < w->r->n_threads; t++) {
            const struct best *b = &w->thread[t].best[s];
            memcpy(all + n, b->of, b->n * sizeof *all);
            n += b->n;
        }
        qsort(all, n, sizeof *all, better_first);
        for (uint32_t i = 0; i < k; i++) {
            ids[s * k + i] = i < n ? all[i].id : SL_RETRIEVE_NONE;
            scores[s * k + i] = i < n ? all[i].score : NAN;
        }
    }
}

static int take_group(struct work *w, struct answer *all, uint32_t *ids, float *scores)
{
    for (int t = 0; t < w->r->n_threads; t++)
        for (uint64_t s = 0; s < w->n_sources; s++)
            w->thread[t].best[s] = (struct best){.of = w->thread[t].answers + s * w->r->k};
    SL_TRY(make_queries(w));
    if (w->r->known)
        SL_TRY(sl_known_find(&w->known, w->r->known, w->sources, w->n_sources));
    w->range = sl_retrieval_range(w->r, w->sources, w->n_sources);
    w->next = 0;
    SL_TRY(sl_threads_run(w->r->n_threads, take_chunks, w));
    SL_TRY(sl_interrupt_check());
    merge(w, all, ids, scores);
    return SL_OK;
}

static bool allocate_thread(const struct work *w, struct thread *t, uint64_t group)
{
    const struct sl_retrieval *r = w->r;
    sl_mempool_init(&t->pool);
    t->best = malloc(group * sizeof *t->best);
    t->answers = malloc(group * r->k * sizeof *t->answers);
    t->scores = malloc((size_t)BLOCK * CHUNK * sizeof *t->scores);
    t->scales = malloc(CHUNK * sizeof *t->scales);
    t->targets = r->targets ? malloc((size_t)CHUNK * r->dim * sizeof *t->targets) : NULL;
    return t->best && t->answers && t->scores && t->scales && (t->targets || !r->targets);
}

static void release(struct work *w)
{
    for (int i = 0; w->thread && i < w->r->n_threads; i++) {
        struct thread *t = &w->thread[i];
        sl_mempool_fini(&t->pool);
        free(t->best);
        free(t->answers);
        free(t->targets);
        free(t->scores);
        free(t->scales);
    }
    free(w->thread);
    free(w->queries);
    sl_known_fini(&w->known);
}

static int take_groups(struct work *w, uint64_t group, uint32_t *ids, float *scores)
{
    const struct sl_retrieval *r = w->r;
    struct answer *all = malloc((size_t)r->n_threads * r->k * sizeof *all);
    bool ok = all && (w->thread = calloc((size_t)r->n_threads, sizeof *w->thread)) != NULL;
    ok = ok && (w->queries = malloc(group * r->dim * sizeof *w->queries)) != NULL;
    for (int t = 0; ok && t < r->n_threads; t++)
        ok = allocate_thread(w, &w->thread[t], group);
    int rc = ok ? SL_OK : sl_fail(SL_ENOMEM, "no memory for the best %u of each source", r->k);
    for (uint64_t s = 0; rc == SL_OK && s < r->n_sources; s += group) {
        w->sources = r->sources + s;
        w->n_sources = SL_MIN(r->n_sources - s, group);
        rc = take_group(w, all, ids + s * r->k, scores + s * r->k);
    }
    free(all);
    return rc;
}

int sl_retrieve(const struct sl_retrieval *r, uint32_t *ids, float *scores)
{
    struct work w = {.r = r};
    const uint64_t each =
        (uint64_t)r->n_threads * (r->k * sizeof(struct answer) + 16) + r->dim * sizeof(float);
    const uint64_t group = SL_MAX((uint64_t)1, SL_MIN(r->n_sources, GROUP_BYTES / each));
    int rc = take_groups(&w, group, ids, scores);
    release(&w);
    return rc;
}
