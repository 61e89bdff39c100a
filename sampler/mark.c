#include "sampler/mark.h"

#include <inttypes.h>
#include <string.h>

#include "common/text/units.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/mempool.h"
#include "common/arena/visit_counts.h"

_Static_assert((int)SL_VISIT_COUNTS_TIERS_MAX <= (int)SL_RANK_TIERS_MAX,
               "every tier has its words");

static bool is_away(const struct sl_marker *m)
{
    return m->device && !m->device->is_host;
}

void sl_marker_fini(struct sl_marker *m)
{
    if (is_away(m) && m->index.words)
        m->device->memory.free((void *)(uintptr_t)m->index.words, m->bytes);
    sl_pages_free(m->words, m->bytes);
    *m = (struct sl_marker){.device = m->device};
}

// The words go to the device; the process needs them no longer.
static int send(struct sl_marker *m)
{
    void *there = m->device->memory.alloc(m->bytes);
    m->index.words = there;
    if (!there)
        return SL_ENOMEM;
    SL_TRY(m->device->copy(there, m->words, m->bytes));
    SL_TRY(m->device->sync());
    sl_pages_free(m->words, m->bytes);
    m->words = NULL;
    return SL_OK;
}

// Ranks [first, end) of the order are tier t of n_tiers, by rising vertex.
static int add_tier(uint64_t *words, uint32_t t, uint32_t n_tiers, const uint32_t *order,
                    uint64_t first, uint64_t end, uint64_t n_nodes)
{
    uint64_t least = 0; // that the next vertex may be
    for (uint64_t rank = first; rank < end; rank++) {
        uint32_t v = order[rank];
        if (v < least || v >= n_nodes)
            return sl_fail(SL_EPROTO,
                           "sampling: vertex %" PRIu32 " at rank %" PRIu64
                           " of the hotness order, wanted %" PRIu64 " to %" PRIu64
                           ": broker and sampler are not of the same build",
                           v, rank, least, n_nodes - 1);
        uint64_t *word = &words[(uint64_t)(v / 32) * n_tiers + t];
        if (*word == 0)
            *word = rank << 32;
        *word |= 1ull << v % 32;
        least = (uint64_t)v + 1;
    }
    return SL_OK;
}

static int add_tiers(uint64_t *words, const struct sl_visit_counts_tiers *tiers,
                     const uint32_t *order, uint64_t n_nodes)
{
    uint64_t first = 0;
    for (uint32_t t = 0; t < tiers->n; t++) {
        SL_TRY(add_tier(words, t, tiers->n, order, first, tiers->end[t], n_nodes));
        first = tiers->end[t];
    }
    return SL_OK;
}

static int build(struct sl_marker *m, const struct sl_arena *arena, uint64_t n_nodes)
{
    const struct sl_visit_counts_tiers *tiers = sl_visit_counts_tiers(arena);
    uint64_t limit = tiers->n ? tiers->end[tiers->n - 1] : 0;
    if (arena->h->spec.hot_rows < n_nodes || limit > n_nodes ||
        tiers->n > SL_VISIT_COUNTS_TIERS_MAX)
        return sl_fail(SL_EPROTO,
                       "sampling: a hotness order of %" PRIu64 " vertices with %" PRIu64
                       " hot ones in %u tiers, for a graph of %" PRIu64
                       ": broker and sampler are not of the same build",
                       arena->h->spec.hot_rows, limit, tiers->n, n_nodes);
    m->index.n_nodes = n_nodes;
    m->index.n_tiers = tiers->n;
    if (tiers->n == 0)
        return SL_OK;
    m->bytes = sl_marker_bytes(n_nodes, tiers->n);
    m->words = sl_pages_alloc(m->bytes);
    if (!m->words)
        return sl_fail(SL_ENOMEM,
                       "sampling: no memory for the ranks of %" PRIu64 " hot vertices: %zu bytes, "
                       "a quarter of a byte for each of %" PRIu64
                       " vertices and %u cache sizes: free memory, or set cache.policy to \"none\"",
                       limit, m->bytes, n_nodes, tiers->n);
    SL_TRY(add_tiers(m->words, tiers, sl_visit_counts_order(arena), n_nodes));
    if (is_away(m))
        return send(m);
    m->index.words = m->words;
    return SL_OK;
}

int sl_marker_refresh(struct sl_marker *m, const struct sl_arena *arena, uint64_t n_nodes)
{
    uint32_t generation = sl_visit_counts_generation(arena);
    if (generation == m->generation)
        return SL_OK;
    uint64_t began = sl_now_ns();
    sl_marker_fini(m);
    int rc = build(m, arena, n_nodes);
    if (rc < 0) {
        sl_marker_fini(m);
        return rc;
    }
    m->generation = generation;
    const struct sl_visit_counts_tiers *tiers = sl_visit_counts_tiers(arena);
    sl_log_info("ranks: %" PRIu64 " of %" PRIu64 " vertices in %s, %zu KiB, made in %.3f s",
                tiers->n ? tiers->end[tiers->n - 1] : 0, n_nodes, SL_PLURAL(tiers->n, "tier"),
                m->bytes >> 10, (double)(sl_now_ns() - began) * 1e-9);
    return SL_OK;
}
