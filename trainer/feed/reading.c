#include "trainer/feed/reading.h"

#include <string.h>

#include "common/base/error.h"

static bool stops(void *ctx)
{
    return sl_heartbeat_stopping(ctx);
}

int sl_reading_open(struct sl_reading *r, const struct sl_reading_spec *spec)
{
    *r = (struct sl_reading){.pulse = spec->pulse};
    const struct sl_row_options options = {
        .depth = spec->depth, .stopping = stops, .ctx = &r->pulse};
    if (spec->dataset->shard.count)
        SL_TRY(sl_asking_init(&r->asking, spec->dataset, spec->arena, spec->worker));
    return spec->drive ? sl_row_reader_open(spec->dataset, &options, &r->drive) : SL_OK;
}

void sl_reading_close(struct sl_reading *r)
{
    sl_row_reader_close(r->drive);
    sl_asking_fini(&r->asking);
    r->drive = NULL;
}

// Of a shard.
static int read_own(void *ctx, const uint32_t *rows, const uint32_t *to, uint32_t n, void *out)
{
    const struct sl_reading *r = ctx;
    const struct sl_feature_table *table = &r->asking.table;
    const size_t bytes = table->row_bytes;
    if (r->drive)
        return sl_row_reader_read(r->drive, rows, to, n, out);
    for (uint32_t i = 0; i < n; i++)
        memcpy((char *)out + to[i] * bytes,
               (const char *)table->rows + (rows[i] - table->rows_before) * bytes, bytes);
    return SL_OK;
}

int sl_reading_read(struct sl_reading *r, const uint32_t *rows, const uint32_t *to, uint32_t n,
                    void *out)
{
    if (!r->asking.dataset)
        return sl_row_reader_read(r->drive, rows, to, n, out);
    return sl_asking_read(&r->asking, &r->pulse, read_own, r, rows, to, n, out);
}

static bool is_mapped(const struct sl_reading *r, uint32_t row)
{
    const struct sl_dataset *ds = r->asking.dataset;
    return ds && !r->drive && row < ds->n_nodes &&
           sl_shard_place(&ds->shard, row).part == ds->shard.index;
}

uint32_t sl_reading_sort(const struct sl_reading *r, uint32_t *rows, uint32_t *at, uint32_t n)
{
    uint32_t others = 0;
    if (!r->asking.dataset || r->drive)
        return n;
    for (uint32_t i = 0; i < n; i++) {
        if (is_mapped(r, rows[i]))
            continue;
        const uint32_t row = rows[i], where = at[i];
        rows[i] = rows[others];
        at[i] = at[others];
        rows[others] = row;
        at[others++] = where;
    }
    return others;
}

uint32_t sl_reading_count(const struct sl_reading *r, const uint32_t *rows, uint32_t n)
{
    uint32_t count = 0;
    if (!r->asking.dataset || r->drive)
        return n;
    for (uint32_t i = 0; i < n; i++)
        count += !is_mapped(r, rows[i]);
    return count;
}

uint64_t sl_reading_bytes(const struct sl_reading *r)
{
    return r->drive ? sl_row_reader_bytes(r->drive) : 0;
}

struct sl_asking_count sl_reading_remote(const struct sl_reading *r)
{
    return r->asking.come;
}
