/*
 * link_metrics.c - the metrics of scores that somebody else has made, for comparing them with what
 * other programs say of the same scores.
 *
 *     link_metrics POSITIVE.npy NEGATIVE.npy [K]...
 *
 * Scores are float32: positives (n); negatives (m), which all share, or (n, k). Writes one JSON
 * object: mrr, roc_auc, average_precision, and hits@K of each K.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker/epochs/link_metrics.h"
#include "common/base/error.h"
#include "common/data/npy.h"

enum { KS = 16 };

static int open_scores(const char *path, int most_dims, struct sl_npy *file)
{
    SL_TRY(sl_npy_open(path, file));
    if (file->head.dtype == SL_DTYPE_F32 && file->head.ndim >= 1 && file->head.ndim <= most_dims)
        return SL_OK;
    return sl_fail(SL_EFORMAT, "%s: found %s of %d dimensions, wanted float32 of %d at most", path,
                   sl_npy_dtype_name(file->head.dtype), file->head.ndim, most_dims);
}

static int judge(struct sl_npy *positive, struct sl_npy *negative, const uint64_t *k, uint32_t n_k)
{
    double hits[KS];
    struct sl_link_metrics found;
    const struct sl_link_scores scores = {
        .positive = positive->data,
        .negative = negative->data,
        .n_positives = positive->n_elems,
        .n_negatives = negative->n_elems,
        .own = negative->head.ndim == 2,
    };
    SL_TRY(sl_link_metrics_compute(&scores, k, n_k, 0, hits, &found));
    printf("{\"mrr\": %.17g, \"roc_auc\": %.17g, \"average_precision\": %.17g", found.mrr,
           found.roc_auc, found.average_precision);
    for (uint32_t i = 0; i < n_k; i++)
        printf(", \"hits@%" PRIu64 "\": %.17g", k[i], hits[i]);
    puts("}");
    return SL_OK;
}

int main(int argc, char **argv)
{
    struct sl_npy positive = {0}, negative = {0};
    uint64_t k[KS];
    if (argc < 3 || argc > 3 + KS)
        return 2;
    for (int i = 3; i < argc; i++)
        k[i - 3] = strtoull(argv[i], NULL, 10);
    int rc = open_scores(argv[1], 1, &positive);
    if (rc == SL_OK)
        rc = open_scores(argv[2], 2, &negative);
    if (rc == SL_OK)
        rc = judge(&positive, &negative, k, (uint32_t)(argc - 3));
    if (rc < 0)
        fprintf(stderr, "link_metrics: %s\n", sl_error_message());
    sl_npy_close(&positive);
    sl_npy_close(&negative);
    return rc < 0;
}
