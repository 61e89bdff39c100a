#include "common/data/overlap.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/dataset_files.h"
#include "common/base/threads.h"
#include "common/data/scan.h"

enum { BLOCK_IDS = 1 << 17 };

struct search {
    const struct sl_overlap_list *a, *b;
    _Atomic uint64_t *seen; // a bit for each vertex: those of a; NULL: both lists ascend
    _Atomic uint64_t n;     // that are found
};

static inline uint64_t id_of(const struct sl_overlap_list *l, uint64_t i)
{
    return sl_scan_load(l->ids, l->dtype, i);
}

// First element of an ascending list that is not below `id`.
static uint64_t find_place(const struct sl_overlap_list *l, uint64_t id)
{
    uint64_t from = 0, to = l->n;
    while (from < to) {
        const uint64_t middle = from + (to - from) / 2;
        if (id_of(l, middle) < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

// A block of a, with what of b lies in its range.
static bool merge_block(void *ctx, uint64_t block)
{
    struct search *s = ctx;
    uint64_t i = block * BLOCK_IDS, n = 0, j = find_place(s->b, id_of(s->a, i));
    const uint64_t end = SL_MIN(s->a->n, i + BLOCK_IDS);
    while (i < end && j < s->b->n) {
        const uint64_t x = id_of(s->a, i), y = id_of(s->b, j);
        n += x == y;
        i += x <= y;
        j += y <= x;
    }
    atomic_fetch_add_explicit(&s->n, n, memory_order_relaxed);
    return false;
}

static bool mark_block(void *ctx, uint64_t block)
{
    struct search *s = ctx;
    const uint64_t end = SL_MIN(s->a->n, (block + 1) * BLOCK_IDS);
    for (uint64_t i = block * BLOCK_IDS; i < end; i++) {
        const uint64_t id = id_of(s->a, i);
        atomic_fetch_or_explicit(&s->seen[id / 64], (uint64_t)1 << (id & 63), memory_order_relaxed);
    }
    return false;
}

static bool is_of_a(const struct search *s, uint64_t id)
{
    if (s->seen)
        return atomic_load_explicit(&s->seen[id / 64], memory_order_relaxed) >> (id & 63) & 1;
    const uint64_t at = find_place(s->a, id);
    return at < s->a->n && id_of(s->a, at) == id;
}

static bool count_block(void *ctx, uint64_t block)
{
    struct search *s = ctx;
    uint64_t n = 0;
    const uint64_t end = SL_MIN(s->b->n, (block + 1) * BLOCK_IDS);
    for (uint64_t i = block * BLOCK_IDS; i < end; i++)
        n += is_of_a(s, id_of(s->b, i));
    atomic_fetch_add_explicit(&s->n, n, memory_order_relaxed);
    return false;
}

// Keeps the lowest ones in order.
static void show(struct sl_overlap *out, uint64_t id)
{
    uint32_t i = out->n_shown;
    if (i == SL_OVERLAP_SHOWN && id > out->shown[i - 1])
        return;
    if (i < SL_OVERLAP_SHOWN)
        out->n_shown++;
    else
        i--;
    for (; i > 0 && out->shown[i - 1] > id; i--)
        out->shown[i] = out->shown[i - 1];
    out->shown[i] = id;
}

static void take(struct search *s, struct sl_overlap *out)
{
    out->n = s->n;
    for (uint64_t i = 0, left = out->n; i < s->b->n && left > 0; i++) {
        const uint64_t id = id_of(s->b, i);
        if (!is_of_a(s, id))
            continue;
        show(out, id);
        left--;
        if (!s->seen && out->n_shown == SL_OVERLAP_SHOWN)
            break; // all that follow are larger
    }
}

int sl_overlap_find(const struct sl_overlap_list *a, const struct sl_overlap_list *b,
                    uint64_t n_nodes, int threads, struct sl_overlap *out)
{
    struct search s = {.a = a, .b = b};
    *out = (struct sl_overlap){0};
    if (a->n == 0 || b->n == 0)
        return SL_OK;
    if (sl_scan_ascend(a->ids, a->dtype, a->n, threads) &&
        sl_scan_ascend(b->ids, b->dtype, b->n, threads)) {
        sl_threads_first(sl_div_up(a->n, BLOCK_IDS), threads, merge_block, &s);
        take(&s, out);
        return SL_OK;
    }
    const uint64_t words = sl_div_up(n_nodes, 64);
    s.seen = calloc(words, sizeof *s.seen);
    if (!s.seen)
        return sl_fail(SL_ENOMEM,
                       "looking for vertices that two lists share: no memory for %" PRIu64 " bytes",
                       words * (uint64_t)sizeof *s.seen);
    sl_threads_first(sl_div_up(a->n, BLOCK_IDS), threads, mark_block, &s);
    sl_threads_first(sl_div_up(b->n, BLOCK_IDS), threads, count_block, &s);
    take(&s, out);
    free(s.seen);
    return SL_OK;
}

char *sl_overlap_text(const struct sl_overlap *o, char buf[SL_OVERLAP_TEXT_BYTES])
{
    int n = snprintf(buf, SL_OVERLAP_TEXT_BYTES, "%" PRIu64 " %s (", o->n,
                     o->n == 1 ? "vertex" : "vertices");
    for (uint32_t i = 0; i < o->n_shown; i++)
        n += snprintf(buf + n, SL_OVERLAP_TEXT_BYTES - (size_t)n, "%s%" PRIu64, i ? ", " : "",
                      o->shown[i]);
    snprintf(buf + n, SL_OVERLAP_TEXT_BYTES - (size_t)n, "%s)", o->n > o->n_shown ? ", ..." : "");
    return buf;
}

int sl_overlaps_find(const struct sl_overlap_list list[SL_SPLIT_COUNT], uint64_t n_nodes,
                     int threads, struct sl_overlaps *out)
{
    *out = (struct sl_overlaps){0};
    for (int a = 0; a < SL_SPLIT_COUNT; a++)
        for (int b = a + 1; b < SL_SPLIT_COUNT; b++) {
            struct sl_overlap found;
            SL_TRY(sl_overlap_find(&list[a], &list[b], n_nodes, threads, &found));
            if (found.n == 0)
                continue;
            out->pair[out->n].a = (enum sl_split)a;
            out->pair[out->n].b = (enum sl_split)b;
            out->pair[out->n++].of = found;
        }
    return SL_OK;
}

static const char *file_of(enum sl_split split)
{
    return sl_dataset_file_name((enum sl_dataset_file)(SL_FILE_TRAIN + (int)split));
}

char *sl_overlaps_text(const struct sl_overlaps *o, char buf[SL_OVERLAPS_TEXT_BYTES])
{
    char one[SL_OVERLAP_TEXT_BYTES];
    size_t n = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < o->n; i++) {
        snprintf(buf + n, SL_OVERLAPS_TEXT_BYTES - n, "%s%s and %s share %s", i ? ", " : "",
                 file_of(o->pair[i].a), file_of(o->pair[i].b),
                 sl_overlap_text(&o->pair[i].of, one));
        n += strlen(buf + n);
    }
    return buf;
}
