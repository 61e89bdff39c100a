#include "trainer/feed/match.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"

enum { AHEAD = 16 }; // vertices whose places are on their way from memory

uint32_t sl_match_find(const struct sl_match *m, const struct sl_matchable *before,
                       struct sl_row_split *split)
{
    uint32_t *row = split->hit_row + split->n_hits, *to = split->hit_to + split->n_hits;
    const uint32_t n = m->place && before->n ? split->n_misses : 0;
    uint32_t found = 0, missing = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = split->miss_row[i], at = split->miss_to[i];
        const uint32_t later = split->miss_row[SL_MIN(i + AHEAD, n - 1)];
        if (later < m->n_nodes)
            __builtin_prefetch(&m->place[later]);
        const uint32_t place = v < m->n_nodes ? m->place[v] : before->n;
        if (place < before->n && before->vertices[place] == v) {
            row[found] = before->rows[place];
            to[found++] = at;
        } else {
            split->miss_row[missing] = v;
            split->miss_to[missing++] = at;
        }
    }
    split->n_misses -= found;
    return found;
}

// Zeroed memory that is there once it is touched.
static int make_table(struct sl_match *m, uint64_t n_nodes)
{
    m->place = sl_pages_alloc(n_nodes * sizeof *m->place);
    if (!m->place)
        return sl_fail(SL_ENOMEM, "no memory for the places of %llu vertices (%llu MiB)",
                       (unsigned long long)n_nodes,
                       (unsigned long long)(n_nodes * sizeof *m->place >> 20));
    m->n_nodes = n_nodes;
    return SL_OK;
}

int sl_match_begin(struct sl_match *m, uint64_t n_nodes, const struct sl_device *device,
                   uint32_t most, struct sl_matchable *out)
{
    out->n = 0;
    if (!m->place)
        SL_TRY(make_table(m, n_nodes));
    SL_TRY(sl_buffer_grow(&out->room, device, SL_BUFFER_HOST, 2 * most * sizeof *out->vertices,
                          "input nodes"));
    out->vertices = out->room.p;
    out->rows = out->vertices + most;
    out->n_rows = most;
    return SL_OK;
}

void sl_match_add(struct sl_match *m, const struct sl_match_batch *batch, struct sl_matchable *out)
{
    for (int list = 0; list < 2; list++)
        for (uint32_t i = 0; i < batch->n_rows[list]; i++) {
            const uint32_t row = batch->rows[list][i], v = batch->vertices[row];
            out->vertices[out->n] = v;
            out->rows[out->n] = row;
            m->place[v] = out->n++;
        }
}

int sl_match_note(struct sl_match *m, uint64_t n_nodes, const struct sl_device *device,
                  const struct sl_match_batch *batch, struct sl_matchable *out)
{
    out->n = 0;
    if (batch->n_rows[0] + batch->n_rows[1] == 0)
        return SL_OK;
    SL_TRY(sl_match_begin(m, n_nodes, device, batch->n, out));
    sl_match_add(m, batch, out);
    return SL_OK;
}

void sl_matchable_fini(struct sl_matchable *m)
{
    sl_buffer_fini(&m->room);
    sl_buffer_fini(&m->types);
    *m = (struct sl_matchable){0};
}

void sl_match_fini(struct sl_match *m)
{
    if (m->place)
        sl_pages_free(m->place, m->n_nodes * sizeof *m->place);
    *m = (struct sl_match){0};
}
