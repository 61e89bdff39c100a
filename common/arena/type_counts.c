#include "common/arena/type_counts.h"

#include <stdatomic.h>

#include "common/base/bits.h"

enum { LINE_BYTES = 64 };

// A counter is added to by one thread and read by the broker: each alone, so nothing is ordered.
typedef _Atomic uint64_t counter;

struct type_counters {
    counter rows, hits, hit_bytes, miss_bytes, held;
};

// Of a seat: its types' counters, then its relations'.
static uint64_t seat_bytes(const struct sl_arena_spec *spec)
{
    return sl_align_up(spec->n_types * sizeof(struct type_counters) +
                           spec->n_relations * sizeof(counter),
                       (uint64_t)LINE_BYTES);
}

uint64_t sl_type_counts_bytes(const struct sl_arena_spec *spec)
{
    return 2 * (uint64_t)spec->n_devices * seat_bytes(spec);
}

static struct type_counters *types_of(const struct sl_arena *a, uint32_t seat)
{
    char *region = sl_arena_region(a, SL_REGION_TYPES);
    return (struct type_counters *)(void *)(region + seat * seat_bytes(&a->h->spec));
}

static counter *relations_of(const struct sl_arena *a, uint32_t seat)
{
    return (counter *)(void *)(types_of(a, seat) + a->h->spec.n_types);
}

static void add(counter *to, uint64_t n)
{
    atomic_fetch_add_explicit(to, n, memory_order_relaxed);
}

static uint64_t look(const counter *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

void sl_type_counts_add_edges(const struct sl_arena *a, uint32_t seat, const struct sl_block *block)
{
    if (a->h->spec.n_relations == 0)
        return;
    const struct sl_block_run *runs = sl_block_runs(block);
    counter *relation = relations_of(a, seat);
    for (uint32_t i = 0; i < sl_block_typed(block)->n_runs; i++)
        add(&relation[runs[i].relation], runs[i].n_edges);
}

void sl_type_counts_add_rows(const struct sl_arena *a, uint32_t seat, uint32_t type,
                             const struct sl_type_count *rows)
{
    if (a->h->spec.n_types == 0)
        return;
    struct type_counters *to = &types_of(a, seat)[type];
    add(&to->rows, rows->rows);
    add(&to->hits, rows->hits);
    add(&to->hit_bytes, rows->hit_bytes);
    add(&to->miss_bytes, rows->miss_bytes);
}

void sl_type_counts_hold(const struct sl_arena *a, uint32_t seat, uint32_t type, uint64_t rows)
{
    if (a->h->spec.n_types > 0)
        atomic_store_explicit(&types_of(a, seat)[type].held, rows, memory_order_relaxed);
}

uint64_t sl_type_counts_held(const struct sl_arena *a, uint32_t seat, uint32_t type)
{
    return a->h->spec.n_types > 0 ? look(&types_of(a, seat)[type].held) : 0;
}

uint64_t sl_type_counts_edges(const struct sl_arena *a, uint32_t relation)
{
    uint64_t sum = 0;
    for (uint32_t seat = 0; seat < 2 * a->h->spec.n_devices; seat++)
        sum += look(&relations_of(a, seat)[relation]);
    return sum;
}

struct sl_type_count sl_type_counts_rows(const struct sl_arena *a, uint32_t type)
{
    struct sl_type_count sum = {0};
    for (uint32_t seat = 0; seat < 2 * a->h->spec.n_devices; seat++) {
        const struct type_counters *of = &types_of(a, seat)[type];
        sum.rows += look(&of->rows);
        sum.hits += look(&of->hits);
        sum.hit_bytes += look(&of->hit_bytes);
        sum.miss_bytes += look(&of->miss_bytes);
    }
    return sum;
}
