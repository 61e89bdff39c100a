#include "dataset/id_map.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { WORDS_PER_COUNT = 8 };

void sl_id_map_fini(struct sl_id_map *m)
{
    free(m->bits);
    free(m->before);
    memset(m, 0, sizeof *m);
}

int sl_id_map_grow(struct sl_id_map *m, uint32_t id)
{
    uint64_t want = sl_align_up((uint64_t)id / 64 + 1, WORDS_PER_COUNT);
    uint64_t n_words = SL_MAX(want, SL_MIN(m->n_words * 2, (uint64_t)1 << 26));
    uint64_t *bits = realloc(m->bits, n_words * sizeof *bits);
    if (!bits)
        return sl_fail(SL_ENOMEM, "renumber vertices: no memory for a map of ids up to %u", id);
    memset(bits + m->n_words, 0, (n_words - m->n_words) * sizeof *bits);
    m->bits = bits;
    m->n_words = n_words;
    return SL_OK;
}

int sl_id_map_finish(struct sl_id_map *m)
{
    uint64_t n_counts = m->n_words / WORDS_PER_COUNT;
    m->before = malloc((n_counts + 1) * sizeof *m->before);
    if (!m->before)
        return sl_fail(SL_ENOMEM, "renumber vertices: no memory");
    uint64_t sum = 0;
    for (uint64_t c = 0; c < n_counts; c++) {
        m->before[c] = (uint32_t)sum;
        for (uint64_t w = 0; w < WORDS_PER_COUNT; w++)
            sum += (uint64_t)__builtin_popcountll(m->bits[c * WORDS_PER_COUNT + w]);
    }
    m->before[n_counts] = (uint32_t)sum;
    m->n_ids = sum;
    return SL_OK;
}
