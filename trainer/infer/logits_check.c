#include "trainer/infer/logits_check.h"

#include <inttypes.h>
#include <math.h>

#include "common/base/bits.h"
#include "common/base/error.h"

int sl_logits_check_open(struct sl_logits_check *c, const char *path, uint64_t rows,
                         uint64_t columns)
{
    char shape[128];
    *c = (struct sl_logits_check){
        .path = path, .columns = columns, .largest = -1, .log_probabilities = columns > 1};
    SL_TRY(sl_npy_open(path, &c->original));
    const struct sl_npy_header *h = &c->original.head;
    if (h->dtype != SL_DTYPE_F32 && h->dtype != SL_DTYPE_F64)
        return sl_fail(SL_EFORMAT,
                       "%s: found %s, wanted the original's logits in float32 or float64", path,
                       sl_npy_dtype_name(h->dtype));
    bool matrix = h->ndim == 2 && h->shape[1] == columns;
    if ((matrix || (h->ndim == 1 && columns == 1)) && h->shape[0] == rows)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "%s: found shape %s, wanted (%" PRIu64 ", %" PRIu64
                   "): the original's logits of all vertices",
                   path, sl_npy_shape_text(h, shape, sizeof shape), rows, columns);
}

void sl_logits_check_close(struct sl_logits_check *c)
{
    sl_npy_close(&c->original);
}

static double original_at(const struct sl_logits_check *c, uint64_t row, uint64_t column)
{
    uint64_t i = row * c->columns + column;
    return c->original.head.dtype == SL_DTYPE_F64 ? ((const double *)c->original.data)[i]
                                                  : (double)((const float *)c->original.data)[i];
}

static int put_row(struct sl_logits_check *c, uint64_t row, const float *found)
{
    double scale = 1, sum = 0;
    for (uint64_t k = 0; k < c->columns; k++) {
        double x = original_at(c, row, k);
        if (!isfinite(x))
            return sl_fail(SL_EFORMAT,
                           "%s: row %" PRIu64 ", column %" PRIu64
                           ": found %g, wanted the original's logits, which are finite",
                           c->path, row, k, x);
        scale = SL_MAX(scale, fabs(x));
        sum += exp(x);
    }
    c->log_probabilities &= fabs(sum - 1) < 1e-3;
    for (uint64_t k = 0; k < c->columns; k++) {
        double x = original_at(c, row, k);
        double difference = isfinite(found[k]) ? fabs(found[k] - x) / scale : INFINITY;
        if (difference <= c->largest)
            continue;
        c->largest = difference;
        c->row = row;
        c->column = k;
        c->found = (double)found[k];
        c->wanted = x;
    }
    return SL_OK;
}

int sl_logits_check_put(struct sl_logits_check *c, uint64_t first, uint64_t n, const float *rows)
{
    for (uint64_t i = 0; i < n; i++)
        SL_TRY(put_row(c, first + i, rows + i * c->columns));
    return SL_OK;
}
