#include "trainer/predict_pairs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/id_list.h"
#include "trainer/infer/score.h"

// The pairs' vertices become rows of `ends`. row_of (n_nodes), zeroed.
static int number_ends(struct sl_predict_pairs *p, uint64_t n_nodes, uint32_t *row_of)
{
    for (uint64_t i = 0; i < 2 * p->n; i++) {
        p->n_ends += row_of[p->pairs[i]] == 0;
        row_of[p->pairs[i]] = 1;
    }
    p->ends = malloc(SL_MAX(p->n_ends, (uint64_t)1) * sizeof *p->ends);
    if (!p->ends)
        return sl_fail(SL_ENOMEM, "no memory for %llu vertices", (unsigned long long)p->n_ends);
    uint32_t n = 0;
    for (uint64_t v = 0; v < n_nodes; v++)
        if (row_of[v]) {
            p->ends[n] = (uint32_t)v;
            row_of[v] = n++;
        }
    for (uint64_t i = 0; i < 2 * p->n; i++)
        p->pairs[i] = row_of[p->pairs[i]];
    return SL_OK;
}

// Numbers in types become vertices.
static int take_numbers(struct sl_predict_pairs *p, const char *path, const struct sl_dataset *ds)
{
    const struct sl_relation *r = sl_dataset_linked(ds);
    for (uint64_t i = 0; r && i < 2 * p->n; i++) {
        const struct sl_vertex_type *type = &ds->typed.type[i % 2 ? r->target : r->source];
        if (p->pairs[i] >= type->n)
            return sl_fail(
                SL_EFORMAT,
                "%s: the %s of pair %llu is %u, wanted a number within type %s, below its "
                "count = %llu",
                path, i % 2 ? "target" : "source", (unsigned long long)(i / 2), p->pairs[i],
                type->name, (unsigned long long)type->n);
        p->pairs[i] += (uint32_t)type->first;
    }
    return SL_OK;
}

uint64_t sl_predict_pairs_before(const struct sl_predict_pairs *p, uint64_t vertex)
{
    uint64_t n = 0;
    while (n < p->n_ends && p->ends[n] < vertex)
        n++;
    return n;
}

int sl_predict_pairs_open(struct sl_predict_pairs *p, const char *path,
                          const struct sl_dataset *dataset, const uint32_t *renamed, uint32_t width)
{
    SL_TRY(sl_id_pairs_read(path, dataset->n_nodes, &p->pairs, &p->n));
    SL_TRY(take_numbers(p, path, dataset));
    for (uint64_t i = 0; renamed && i < 2 * p->n; i++)
        p->pairs[i] = renamed[p->pairs[i]];
    uint32_t *row_of = calloc(dataset->n_nodes, sizeof *row_of);
    if (!row_of)
        return sl_fail(SL_ENOMEM, "--pairs: no memory for 4 bytes a vertex");
    int rc = number_ends(p, dataset->n_nodes, row_of);
    free(row_of);
    SL_TRY(rc);
    p->embeddings = malloc(SL_MAX(p->n_ends * width, (uint64_t)1) * sizeof *p->embeddings);
    return p->embeddings ? SL_OK
                         : sl_fail(SL_ENOMEM,
                                   "--pairs: no memory for the embeddings of %llu vertices: name "
                                   "fewer pairs at a time",
                                   (unsigned long long)p->n_ends);
}

void sl_predict_pairs_put(struct sl_predict_pairs *p, uint32_t width, uint64_t first, uint32_t n,
                          const float *rows)
{
    memcpy(p->embeddings + first * width, rows, (size_t)n * width * sizeof *rows);
}

int sl_predict_pairs_write(struct sl_predict_pairs *p, struct sl_model *model, const float *params,
                           bool sigmoid, struct sl_npy_writer *writer, uint64_t *not_finite,
                           uint64_t *first_broken)
{
    float scores[SL_SCORE_PAIRS];
    for (uint64_t at = 0; at < p->n; at += SL_SCORE_PAIRS) {
        const struct sl_score_args args = {
            .params = params,
            .embeddings = p->embeddings,
            .n_rows = p->n_ends,
            .pairs = p->pairs + 2 * at,
            .n = (uint32_t)SL_MIN(p->n - at, (uint64_t)SL_SCORE_PAIRS),
            .scores = scores,
        };
        SL_TRY(sl_score_pairs(model, &args));
        for (uint32_t i = 0; i < args.n; i++) {
            if (!isfinite(scores[i]) && (*not_finite)++ == 0)
                *first_broken = at + i;
            if (sigmoid)
                scores[i] = isfinite(scores[i]) ? (float)(1 / (1 + exp(-(double)scores[i]))) : NAN;
        }
        SL_TRY(sl_npy_writer_append(writer, scores, args.n * sizeof *scores));
    }
    return SL_OK;
}

void sl_predict_pairs_fini(struct sl_predict_pairs *p)
{
    free(p->pairs);
    free(p->ends);
    free(p->embeddings);
    *p = (struct sl_predict_pairs){0};
}
