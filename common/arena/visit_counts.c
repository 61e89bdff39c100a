#include "common/arena/visit_counts.h"

#include <fcntl.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"

/*
 * Memory orders (the edges they pair with):
 *
 *   visits            relaxed: sums, read once the phase that counted them is complete, which
 *                     orders them
 *   generation        release by publish     acquire by sl_visit_counts_generation: tiers and order
 *   probe             release by offer       acquire by wait: the block
 */

/*
 * Counting waits for memory more than for the lock. A visit of 160000 vertices, EPYC (Zen 4), of 1;
 * 8; 100 M: 3.5; 9.3; 11.1 ns, with lines asked for ahead 3.7; 7.0; 9.6. A table of bytes for each
 * sampler, added to without a lock and summed by the broker, would take 1.2; 5.6; 8.6 ns, and a
 * byte a vertex for each sampler.
 *
 * Not taken: order that would save misses, and locks on parts of the counters in place of locked
 * adds. A batch's vertices are all different, so that no two adds can be one. Of graphs of 1; 2; 8
 * M vertices (R-MAT; vertices from anywhere differ by less than 0.3 ns), two at once: 5.1; 6.4; 9.7
 * ns as it is, 3.6; 5.0; 9.1 with plain adds, which would lose some, 4.0; 5.4; 9.2 for reading the
 * counters alone. Partitioned by high bits first 7.6; 8.1; 13.8, of which the partitioning takes
 * 3.5; 3.5; 4.6: a batch meets each line of a part of them about once. A buffer of twelve batches
 * gives 3.3; 4.8; 8.7 ns, and a sampler that dies would take the visits of all twelve with it.
 */
enum { VISITS_AHEAD = 16 };

_Atomic uint32_t *sl_visit_counts_visits(const struct sl_arena *a)
{
    return a->h->spec.visit_rows ? sl_arena_region(a, SL_REGION_VISITS) : NULL;
}

void sl_visit_counts_count(struct sl_arena *a, const uint32_t *nodes, uint32_t n)
{
    _Atomic uint32_t *visits = sl_visit_counts_visits(a);
    if (!visits)
        return;
    for (uint32_t i = 0; i < SL_MIN(n, (uint32_t)VISITS_AHEAD); i++)
        __builtin_prefetch((const void *)&visits[nodes[i]], 1);
    for (uint32_t i = 0; i < n; i++) {
        if (n - i > VISITS_AHEAD)
            __builtin_prefetch((const void *)&visits[nodes[i + VISITS_AHEAD]], 1);
        atomic_fetch_add_explicit(&visits[nodes[i]], 1, memory_order_relaxed);
    }
}

void sl_visit_counts_forget_visits(struct sl_arena *a)
{
    _Atomic uint32_t *visits = sl_visit_counts_visits(a);
    if (!visits)
        return;
    const struct sl_region *r = &a->h->region[SL_REGION_VISITS];
    // A hole reads as zeros and takes no memory; where the system makes none, zeros have to do.
    if (fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)r->offset,
                  (off_t)r->bytes) == 0)
        return;
    for (uint64_t v = 0; v < a->h->spec.visit_rows; v++)
        atomic_store_explicit(&visits[v], 0, memory_order_relaxed);
}

// Of the tables by type.
static uint64_t held_bytes(const struct sl_arena_spec *spec)
{
    return spec->hot_rows ? (uint64_t)SL_VISIT_COUNTS_TIERS_MAX * spec->n_types * sizeof(uint64_t)
                          : 0;
}

uint64_t sl_visit_counts_bytes(const struct sl_arena_spec *spec)
{
    return sizeof(struct sl_visit_counts) + held_bytes(spec) + spec->hot_rows * sizeof(uint32_t);
}

uint32_t *sl_visit_counts_order(const struct sl_arena *a)
{
    char *held = (char *)(sl_visit_counts_of(a) + 1);
    return a->h->spec.hot_rows ? (uint32_t *)(void *)(held + held_bytes(&a->h->spec)) : NULL;
}

uint64_t *sl_visit_counts_held(const struct sl_arena *a, uint32_t tier)
{
    uint64_t *held = (uint64_t *)(sl_visit_counts_of(a) + 1);
    return held_bytes(&a->h->spec) ? held + (uint64_t)tier * a->h->spec.n_types : NULL;
}

// Rows of a type in the first n tiers.
static uint64_t rows_in(const struct sl_arena *a, uint32_t n, uint32_t type)
{
    const uint64_t *held = n ? sl_visit_counts_held(a, n - 1) : NULL;
    return n == 0 ? 0 : held ? held[type] : sl_visit_counts_of(a)->tiers.end[n - 1];
}

struct sl_visit_counts_run sl_visit_counts_run(const struct sl_arena *a, uint32_t tier,
                                               uint32_t type)
{
    const uint32_t n_types = SL_MAX(a->h->spec.n_types, 1u);
    const uint64_t rank = rows_in(a, tier, type);
    struct sl_visit_counts_run run = {.rank = rank, .n = rows_in(a, tier + 1, type) - rank};
    for (uint32_t t = 0; t < n_types; t++)
        run.place += rows_in(a, tier + (t < type), t);
    return run;
}

uint64_t sl_visit_counts_rows(const struct sl_arena *a, uint32_t type, uint64_t size)
{
    const struct sl_visit_counts_tiers *tiers = &sl_visit_counts_of(a)->tiers;
    uint32_t t = 0;
    if (a->h->spec.n_types == 0)
        return size;
    while (t < tiers->n && tiers->end[t] <= size)
        t++;
    const uint64_t rows = rows_in(a, t, type), from = t ? tiers->end[t - 1] : 0;
    if (t == tiers->n)
        return rows;
    const double share = (double)(size - from) / (double)(tiers->end[t] - from);
    return rows + (uint64_t)(share * (double)(rows_in(a, t + 1, type) - rows));
}

// The smallest of the capacities that is above `last`, 0 when there is none.
static uint64_t next_capacity(const uint64_t *capacity, uint32_t n, uint64_t most, uint64_t last)
{
    uint64_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t c = SL_MIN(capacity[i], most);
        if (c > last && (next == 0 || c < next))
            next = c;
    }
    return next;
}

void sl_visit_counts_set_tiers(struct sl_arena *a, const uint64_t *capacity, uint32_t n)
{
    struct sl_visit_counts_tiers *tiers = &sl_visit_counts_of(a)->tiers;
    uint64_t most = a->h->spec.hot_rows, c = 0;
    uint32_t different = 0, seen = 0;
    while ((c = next_capacity(capacity, n, most, c)) != 0)
        different++;
    uint32_t n_tiers = SL_MIN(different, (uint32_t)SL_VISIT_COUNTS_TIERS_MAX);
    tiers->n = 0;
    while ((c = next_capacity(capacity, n, most, c)) != 0) {
        seen++;
        if (seen * n_tiers / different > tiers->n)
            tiers->end[tiers->n++] = c;
    }
}

const struct sl_visit_counts_tiers *sl_visit_counts_tiers(const struct sl_arena *a)
{
    return &sl_visit_counts_of(a)->tiers;
}

uint32_t sl_visit_counts_generation(const struct sl_arena *a)
{
    return atomic_load_explicit(&sl_visit_counts_of(a)->generation, memory_order_acquire);
}

void sl_visit_counts_publish(struct sl_arena *a, uint32_t generation)
{
    atomic_store_explicit(&sl_visit_counts_of(a)->generation, generation, memory_order_release);
    sl_event_signal(&a->h->work);
}

// --- probe ---

enum { PROBE_NONE, PROBE_WRITING, PROBE_THERE };

static uint64_t writing_by(uint32_t worker)
{
    return (uint64_t)worker << 8 | PROBE_WRITING;
}

void sl_probe_offer(struct sl_arena *a, uint32_t worker, const struct sl_block *block)
{
    uint64_t none = PROBE_NONE, mine = writing_by(worker);
    if (block->bytes > a->h->spec.probe_bytes ||
        !atomic_compare_exchange_strong(&sl_visit_counts_of(a)->probe, &none, mine))
        return;
    memcpy(sl_arena_region(a, SL_REGION_PROBE), block, block->bytes);
    atomic_compare_exchange_strong(&sl_visit_counts_of(a)->probe, &mine, PROBE_THERE);
    sl_event_signal(&a->h->progress);
}

static int is_there(struct sl_arena *a, void *what)
{
    (void)what;
    return atomic_load_explicit(&sl_visit_counts_of(a)->probe, memory_order_acquire) == PROBE_THERE
               ? SL_OK
               : SL_EAGAIN;
}

int sl_probe_wait(struct sl_arena *a, uint32_t timeout_ms, const struct sl_block **out)
{
    *out = sl_arena_region(a, SL_REGION_PROBE);
    return sl_arena_try(a, &a->h->progress, timeout_ms, is_there, NULL);
}

void sl_probe_reclaim(struct sl_arena *a, uint32_t worker)
{
    uint64_t its = writing_by(worker);
    atomic_compare_exchange_strong(&sl_visit_counts_of(a)->probe, &its, PROBE_NONE);
}
