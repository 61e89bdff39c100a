#include "sampler/mark.h"

#include <inttypes.h>
#include <string.h>

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
    *m = (struct sl_marker){.device = m->device, .typed = m->typed};
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

static uint32_t types_of(const struct sl_marker *m)
{
    return m->typed ? m->typed->n_types : 0;
}

// A run of the order is tier t of n_tiers, by rising vertex, each of [least, end).
static int add_run(uint64_t *words, uint32_t t, uint32_t n_tiers, const uint32_t *order,
                   const struct sl_visit_counts_run *run, uint64_t least, uint64_t end)
{
    for (uint64_t i = 0; i < run->n; i++) {
        uint32_t v = order[run->place + i];
        if (v < least || v >= end)
            return sl_fail(SL_EPROTO,
                           "sampling: vertex %" PRIu32 " at place %" PRIu64
                           " of the hotness order, wanted %" PRIu64 " to %" PRIu64
                           ": broker and sampler are not of the same build",
                           v, run->place + i, least, end - 1);
        uint64_t *word = &words[(uint64_t)(v / 32) * n_tiers + t];
        if (*word == 0)
            *word = (run->rank + i) << 32;
        *word |= 1ull << v % 32;
        least = (uint64_t)v + 1;
    }
    return SL_OK;
}

// The vertices of a type; 0: of a plain graph.
static int add_type(const struct sl_marker *m, const struct sl_arena *arena, uint32_t type)
{
    const uint32_t n_tiers = m->index.n_tiers;
    const struct sl_vertex_type all = {.n = m->index.n_nodes};
    const struct sl_vertex_type *of = types_of(m) ? &m->typed->type[type] : &all;
    for (uint32_t t = 0; t < n_tiers; t++) {
        const struct sl_visit_counts_run run = sl_visit_counts_run(arena, t, type);
        if (run.place > m->index.n_nodes || run.n > m->index.n_nodes - run.place)
            return sl_fail(SL_EPROTO,
                           "sampling: a run of %" PRIu64 " vertices at place %" PRIu64
                           " of the hotness order, wanted at most %" PRIu64
                           ": broker and sampler are not of the same build",
                           run.n, run.place, m->index.n_nodes);
        SL_TRY(add_run(m->words + (uint64_t)type * n_tiers, t, n_tiers,
                       sl_visit_counts_order(arena), &run, of->first, of->first + of->n));
    }
    return SL_OK;
}

static int build(struct sl_marker *m, const struct sl_arena *arena, uint64_t n_nodes)
{
    const struct sl_visit_counts_tiers *tiers = sl_visit_counts_tiers(arena);
    uint64_t limit = tiers->n ? tiers->end[tiers->n - 1] : 0;
    if (arena->h->spec.hot_rows < n_nodes || limit > n_nodes ||
        tiers->n > SL_VISIT_COUNTS_TIERS_MAX || arena->h->spec.n_types != types_of(m))
        return sl_fail(SL_EPROTO,
                       "sampling: a hotness order of %" PRIu64 " vertices with %" PRIu64
                       " hot ones in %u tiers, for a graph of %" PRIu64
                       ": broker and sampler are not of the same build",
                       arena->h->spec.hot_rows, limit, tiers->n, n_nodes);
    m->index.n_nodes = n_nodes;
    m->index.n_tiers = tiers->n;
    if (tiers->n == 0)
        return SL_OK;
    m->bytes = sl_marker_bytes(n_nodes, types_of(m), tiers->n);
    m->words = sl_pages_alloc(m->bytes);
    if (!m->words)
        return sl_fail(SL_ENOMEM,
                       "sampling: no memory for the ranks of %" PRIu64 " hot vertices: %zu bytes, "
                       "a quarter of a byte for each of %" PRIu64
                       " vertices and %u cache sizes: free memory, or set cache.policy to \"none\"",
                       limit, m->bytes, n_nodes, tiers->n);
    for (uint32_t t = 0; t < SL_MAX(types_of(m), 1u); t++)
        SL_TRY(add_type(m, arena, t));
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
    sl_log_info("ranks: %" PRIu64 " of %" PRIu64 " vertices in %u tier%s, %zu KiB, made in %.3f s",
                tiers->n ? tiers->end[tiers->n - 1] : 0, n_nodes, tiers->n,
                tiers->n == 1 ? "" : "s", m->bytes >> 10, (double)(sl_now_ns() - began) * 1e-9);
    return SL_OK;
}
