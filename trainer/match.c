#include "trainer/match.h"

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
        if (later < m->n_rows)
            __builtin_prefetch(&m->place[later]);
        const uint32_t place = v < m->n_rows ? m->place[v] : before->n;
        if (place < before->n && before->vertices[place] == v) {
            row[found] = place;
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
static int make_table(struct sl_match *m, uint64_t n_rows)
{
    m->place = sl_pages_alloc(n_rows * sizeof *m->place);
    if (!m->place)
        return sl_fail(SL_ENOMEM, "no memory for the places of %llu vertices (%llu MiB)",
                       (unsigned long long)n_rows,
                       (unsigned long long)(n_rows * sizeof *m->place >> 20));
    m->n_rows = n_rows;
    return SL_OK;
}

int sl_match_note(struct sl_match *m, uint64_t n_rows, const struct sl_device *device,
                  const struct sl_match_batch *batch, struct sl_matchable *out)
{
    const size_t bytes = batch->n * sizeof *batch->vertices;
    if (!m->place)
        SL_TRY(make_table(m, n_rows));
    SL_TRY(sl_room_grow(&out->room, device, SL_ROOM_HOST, bytes, "input nodes"));
    out->vertices = out->room.p;
    memcpy(out->vertices, batch->vertices, bytes);
    for (uint32_t i = 0; i < batch->n; i++)
        if (!batch->capacity || batch->ranks[i] >= batch->capacity)
            m->place[batch->vertices[i]] = i;
    out->n = batch->n;
    return SL_OK;
}

void sl_matchable_fini(struct sl_matchable *m)
{
    sl_room_fini(&m->room);
    *m = (struct sl_matchable){0};
}

void sl_match_fini(struct sl_match *m)
{
    if (m->place)
        sl_pages_free(m->place, m->n_rows * sizeof *m->place);
    *m = (struct sl_match){0};
}
