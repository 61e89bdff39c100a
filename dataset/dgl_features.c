#include "dataset/dgl_features.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "dataset/vertex_sink.h"

void sl_dgl_features_add(struct sl_dgl_features *f, int column)
{
    if (column >= 0 && f->n < SL_FIELDS_MAX)
        f->column[f->n++] = column;
}

int sl_dgl_features_choose(struct sl_dgl_features *f, const struct sl_csv_table *t,
                           const char *option, const char *names)
{
    char name[256];
    for (const char *at = names, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, ",");
        if ((size_t)(end - at) >= sizeof name)
            return sl_fail(SL_EINVAL,
                           "import: --%s: found a name of %zu bytes: wanted "
                           "shorter ones",
                           option, (size_t)(end - at));
        snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        sl_dgl_features_add(f, sl_csv_table_find(t, name));
    }
    return SL_OK;
}

int sl_dgl_features_begin(struct sl_dgl_features *f, const struct sl_csv_table *t)
{
    f->dim = 0;
    f->values = malloc(SL_SINK_MAX_DIM * sizeof *f->values);
    return f->values ? SL_OK : sl_fail(SL_ENOMEM, "import %s: no memory", t->csv.path);
}

int sl_dgl_features_open(struct sl_dgl_features *f, const struct sl_csv_table *t)
{
    uint64_t dim = 0;
    for (int i = 0; i < f->n; i++) {
        SL_TRY(sl_csv_table_numbers(t, f->column[i], SL_SINK_MAX_DIM, f->values, &f->width[i]));
        if (f->width[i] == 0)
            return sl_csv_table_fail(t, f->column[i], "a number");
        dim += f->width[i];
    }
    if (dim > SL_SINK_MAX_DIM)
        return sl_csv_table_fail(t, f->column[0], "at most 65536 features, found more");
    f->dim = (uint32_t)dim;
    f->row = malloc((dim + 1) * sizeof *f->row);
    return f->row ? SL_OK : sl_fail(SL_ENOMEM, "import %s: no memory for a row", t->csv.path);
}

int sl_dgl_features_scan(struct sl_dgl_features *f, const struct sl_csv_table *t)
{
    float *to = f->row;
    uint32_t n;
    for (int i = 0; i < f->n; i++) {
        SL_TRY(sl_csv_table_numbers(t, f->column[i], SL_SINK_MAX_DIM, f->values, &n));
        bool finite = true;
        for (uint32_t d = 0; d < n; d++)
            finite = finite && isfinite((float)f->values[d]);
        if (n != f->width[i] || !finite) {
            char wanted[128];
            snprintf(wanted, sizeof wanted, "%" PRIu32 " finite float32 number%s, as line 2 has,",
                     f->width[i], f->width[i] == 1 ? "" : "s");
            return sl_csv_table_fail(t, f->column[i], wanted);
        }
        for (uint32_t d = 0; d < n; d++)
            *to++ = (float)f->values[d];
    }
    return SL_OK;
}

void sl_dgl_features_end(struct sl_dgl_features *f)
{
    free(f->values);
    free(f->row);
    f->values = NULL;
    f->row = NULL;
}
