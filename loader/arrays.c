#include "loader/arrays.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "common/device/device.h"
#include "kernels/kernels.h"
#include "trainer/feed/typed_block.h"

enum {
    PIECES = 2, // the loop's, and the one ahead
    ALIGNMENT = 64,
    PART_EDGES = 1 << 14, // of a batch, that a thread fills in at a time
    AT_ONCE = 16,
};

// Places of vertices in a list, by search in one that ascends.
struct places {
    const uint32_t *vertex; // (n) ascending; NULL: 0, 1, ..., n - 1
    const uint32_t *place;  // (n) of each in the list; NULL: their own
    uint64_t n;
    uint32_t *owned; // both, where the list does not ascend
};

struct sl_arrays_pool {
    pid_t pid;
    struct sl_vertex_list seeds;
    const struct sl_typed *typed;
    pthread_mutex_t lock;
    // Below: guarded by lock.
    bool has_places;      // since the first piece was asked for
    struct places places; // then only read
    void (*freed)(void *ctx);
    void *ctx;
    uint32_t users;           // the loader, and pieces that are out
    uint32_t n_pieces, limit; // that there are, and may be while nobody waits for one
    uint32_t n_free;
    struct sl_arrays *free;
};

// --- places --------------------------------------------------------------------------------------

static bool ascends(const struct sl_vertex_list *list)
{
    for (uint64_t i = 1; list->ids && i < list->n; i++)
        if (list->ids[i - 1] >= list->ids[i])
            return false;
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int open_places(struct places *p, const struct sl_vertex_list *list)
{
    *p = (struct places){.vertex = list->ids, .n = list->n};
    if (ascends(list))
        return SL_OK;
    uint64_t *keys = malloc(list->n * sizeof *keys);
    p->owned = malloc(2 * list->n * sizeof *p->owned);
    if (!keys || !p->owned) {
        free(keys);
        free(p->owned);
        p->owned = NULL;
        return sl_fail(SL_ENOMEM, "places of %" PRIu64 " seeds: no memory", list->n);
    }
    for (uint64_t i = 0; i < list->n; i++)
        keys[i] = (uint64_t)list->ids[i] << 32 | i;
    qsort(keys, list->n, sizeof *keys, compare_keys);
    for (uint64_t i = 0; i < list->n; i++) {
        p->owned[i] = (uint32_t)(keys[i] >> 32);
        p->owned[list->n + i] = (uint32_t)keys[i];
    }
    free(keys);
    p->vertex = p->owned;
    p->place = p->owned + list->n;
    return SL_OK;
}

// Of n vertices. Each search waits for memory at every step: several go side by side, without a
// branch that is often guessed wrong.
static void find_places(const struct places *p, const uint32_t *vertices, uint64_t n, int64_t *to)
{
    for (uint64_t begin = 0; p->vertex && begin < n; begin += AT_ONCE) {
        const uint32_t count = (uint32_t)SL_MIN(n - begin, (uint64_t)AT_ONCE);
        const uint32_t *wanted = vertices + begin;
        uint64_t low[AT_ONCE] = {0};
        for (uint64_t left = p->n; left > 1; left -= left / 2)
            for (uint32_t i = 0; i < count; i++)
                low[i] += p->vertex[low[i] + left / 2] <= wanted[i] ? left / 2 : 0;
        for (uint32_t i = 0; i < count; i++)
            to[begin + i] = (int64_t)(p->place ? p->place[low[i]] : low[i]);
    }
    for (uint64_t i = 0; !p->vertex && i < n; i++)
        to[i] = vertices[i];
}

// --- pieces --------------------------------------------------------------------------------------

static void delete (struct sl_arrays *a)
{
    sl_buffer_fini(&a->numbers);
    sl_buffer_fini(&a->features);
    free(a);
}

int sl_arrays_pool_open(const struct sl_arrays_spec *spec, struct sl_arrays_pool **out)
{
    struct sl_arrays_pool *p = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "a loader's arrays: no memory");
    p->pid = getpid();
    p->users = 1;
    p->limit = PIECES;
    p->freed = spec->freed;
    p->ctx = spec->ctx;
    p->seeds = spec->seeds;
    p->typed = spec->typed;
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return SL_OK;
}

static void end(struct sl_arrays_pool *p)
{
    for (struct sl_arrays *a = p->free, *next; a; a = next) {
        next = a->next;
        delete (a);
    }
    pthread_mutex_destroy(&p->lock);
    free(p->places.owned);
    free(p);
}

// One user less. The last one ends it.
static void leave(struct sl_arrays_pool *p)
{
    pthread_mutex_lock(&p->lock);
    const bool last = --p->users == 0;
    pthread_mutex_unlock(&p->lock);
    if (last)
        end(p);
}

void sl_arrays_pool_close(struct sl_arrays_pool *p)
{
    if (!p || p->pid != getpid())
        return;
    pthread_mutex_lock(&p->lock);
    p->freed = NULL;
    pthread_mutex_unlock(&p->lock);
    leave(p);
}

static int get_locked(struct sl_arrays_pool *p, bool wanted, struct sl_arrays **out)
{
    struct sl_arrays *a = p->free;
    if (!p->has_places)
        SL_TRY(open_places(&p->places, &p->seeds));
    p->has_places = true;
    if (!a && p->n_pieces >= p->limit) {
        if (!wanted)
            return SL_EAGAIN;
        p->limit *= 2;
    }
    if (a) {
        p->free = a->next;
        p->n_free--;
    } else {
        a = calloc(1, sizeof *a);
        if (!a)
            return sl_fail(SL_ENOMEM, "a batch's arrays: no memory");
        p->n_pieces++;
    }
    p->users++;
    a->pool = p;
    atomic_store(&a->holders, 1);
    *out = a;
    return SL_OK;
}

int sl_arrays_get(struct sl_arrays_pool *p, bool wanted, struct sl_arrays **out)
{
    pthread_mutex_lock(&p->lock);
    const int rc = get_locked(p, wanted, out);
    pthread_mutex_unlock(&p->lock);
    return rc;
}

void sl_arrays_hold(struct sl_arrays *a)
{
    atomic_fetch_add(&a->holders, 1);
}

void sl_arrays_free(struct sl_arrays *a)
{
    struct sl_arrays_pool *p = a ? a->pool : NULL;
    if (!p || p->pid != getpid()) // a lock that another thread had at the fork stays locked
        return;
    if (atomic_fetch_sub(&a->holders, 1) > 1)
        return;
    pthread_mutex_lock(&p->lock);
    const bool waits = p->n_free < PIECES;
    if (waits) {
        a->next = p->free;
        p->free = a;
        p->n_free++;
    } else {
        p->n_pieces--;
        p->limit = SL_MAX(p->n_pieces, (uint32_t)PIECES);
    }
    if (p->freed)
        p->freed(p->ctx);
    pthread_mutex_unlock(&p->lock);
    if (!waits)
        delete (a);
    leave(p);
}

// --- numbers -------------------------------------------------------------------------------------

// Where the next `bytes` begin.
static size_t place(size_t *used, uint64_t bytes)
{
    const size_t at = *used;
    *used = sl_align_up(at + bytes, (size_t)ALIGNMENT);
    return at;
}

SL_SIMD_VOID(widen,
             (int64_t * to, const uint32_t *from, int64_t less, uint64_t begin, uint64_t end),
             (to, from, less, begin, end))
{
    for (uint64_t i = begin; i < end; i++)
        to[i] = from[i] - less;
}

// The row that each of the edges begin .. end is of. A row's number is written AT_ONCE times, for
// most rows have fewer edges and a loop of a few steps is mostly guessed wrong; the next row writes
// over what was too much.
SL_SIMD_VOID(spread_rows,
             (int64_t * to, const uint32_t *indptr, uint32_t n_rows, uint64_t begin, uint64_t end),
             (to, indptr, n_rows, begin, end))
{
    uint32_t row = 0;
    for (uint32_t n = n_rows; n > 1; n -= n / 2) // the last one that begins at or before `begin`
        row += indptr[row + n / 2] <= begin ? n / 2 : 0;
    uint64_t edge = begin;
    for (; edge + AT_ONCE <= end; row++) {
        const uint64_t stop = SL_MIN((uint64_t)indptr[row + 1], end);
        do {
            for (uint32_t i = 0; i < AT_ONCE; i++)
                to[edge + i] = row;
            edge += AT_ONCE;
        } while (edge < stop && edge + AT_ONCE <= end);
        edge = SL_MIN(edge, stop);
        if (edge < stop)
            break;
    }
    for (; edge < end; row++)
        for (const uint64_t stop = SL_MIN((uint64_t)indptr[row + 1], end); edge < stop; edge++)
            to[edge] = row;
}

static void fill_targets(void *to, struct sl_block_view block)
{
    const uint64_t n = block.header->n_seeds;
    const uint32_t width = block.header->n_targets;
    const int32_t *class = sl_view_targets(block);
    if (width)
        memcpy(to, sl_view_targets(block), n * width * sizeof(float));
    for (uint64_t i = 0; i < n && !width; i++)
        ((int64_t *)to)[i] = class[i];
}

// The 64-bit numbers of pairs, ends apart, from the seed on that is number 0 of each end's part.
static void fill_pairs(struct sl_arrays *a, const struct sl_pairs *pairs, const uint32_t *items,
                       uint32_t source, uint32_t target)
{
    for (uint64_t i = 0; i < pairs->n; i++) {
        a->pairs[i] = pairs->ids[2 * i] - source;
        a->pairs[pairs->n + i] = pairs->ids[2 * i + 1] - target;
    }
    memcpy(a->pair_weights, pairs->weight, pairs->n * sizeof *a->pair_weights);
    for (uint32_t i = 0; i < pairs->n_positive; i++)
        a->places[i] = items[i];
}

struct fill {
    struct sl_arrays *a;
    struct sl_block_view block;
    uint32_t n_parts;
};

static void fill_part(void *context, uint32_t part)
{
    const struct fill *f = context;
    struct sl_arrays *a = f->a;
    const struct sl_block_view v = f->block;
    const uint32_t last = v.header->n_hops - 1;
    const uint64_t n = a->n_edges, n_nodes = v.header->n_input,
                   n_seeds = a->pairs ? 0 : v.header->n_seeds;
    const uint64_t begin = n * part / f->n_parts, end = n * (part + 1) / f->n_parts;
    widen(a->nodes, sl_view_nodes(v), 0, n_nodes * part / f->n_parts,
          n_nodes * (part + 1) / f->n_parts);
    widen(a->edges, sl_view_indices(v, last), 0, begin, end);
    spread_rows(a->edges + n, sl_view_indptr(v, last), v.header->hop[last].n_dst, begin, end);
    if (a->edge_ids)
        memcpy(a->edge_ids + begin, sl_view_edge_ids(v, last) + begin,
               (end - begin) * sizeof *a->edge_ids);
    if (a->weights)
        memcpy(a->weights + begin, sl_view_weights(v, last) + begin,
               (end - begin) * sizeof *a->weights);
    const uint64_t first = n_seeds * part / f->n_parts;
    find_places(&a->pool->places, sl_view_nodes(v) + first,
                n_seeds * (part + 1) / f->n_parts - first, a->places + first);
}

// A vertex is of its seed's tree, or of the row's that has found it, which stands before it.
static void follow_trees(int64_t *seed_of, struct sl_block_view block, uint32_t hop)
{
    const uint32_t *indptr = sl_view_indptr(block, hop), *indices = sl_view_indices(block, hop);
    for (uint32_t i = 0; i < block.header->n_seeds; i++)
        seed_of[i] = i;
    for (uint32_t row = 0; row < block.header->hop[hop].n_dst; row++)
        for (uint32_t edge = indptr[row]; edge < indptr[row + 1]; edge++)
            seed_of[indices[edge]] = seed_of[row];
}

// --- of a graph with types -----------------------------------------------------------------------

// The edges of a run, which has all those of its relation.
struct fill_run {
    const struct sluice_relation_arrays *to;
    struct sl_block_view block;
    const struct sl_block_run *run;
    uint64_t first_edge; // of the relation
    uint32_t n_parts;
};

static void fill_run_part(void *context, uint32_t part)
{
    const struct fill_run *f = context;
    const uint64_t n = f->run->n_edges;
    const uint64_t begin = n * part / f->n_parts, end = n * (part + 1) / f->n_parts;
    const uint64_t *ids = sl_run_edge_ids(f->block, f->run);
    widen(f->to->edges, sl_run_indices(f->block, f->run), 0, begin, end);
    spread_rows(f->to->edges + n, sl_run_indptr(f->block, f->run), f->run->n_dst, begin, end);
    for (uint64_t i = begin; ids && i < end; i++)
        f->to->edge_ids[i] = (int64_t)(ids[i] - f->first_edge);
    if (f->to->weights)
        memcpy(f->to->weights + begin, sl_run_weights(f->block, f->run) + begin,
               (end - begin) * sizeof *f->to->weights);
}

// The next `bytes` of a piece.
static void *take(char **at, uint64_t bytes)
{
    void *taken = *at;
    *at += sl_align_up(bytes, (uint64_t)ALIGNMENT);
    return taken;
}

// Bytes of an edge's numbers.
static uint64_t edge_bytes(const struct sl_block *block)
{
    return sizeof(int64_t) * (block->flags & SL_BLOCK_HAS_EDGE_IDS ? 3 : 2) +
           (block->flags & SL_BLOCK_HAS_WEIGHTS ? sizeof(float) : 0);
}

static uint64_t labels_of(const struct sl_block *block)
{
    return block->flags & SL_BLOCK_HAS_PAIRS
               ? 0
               : (uint64_t)block->n_seeds * SL_MAX(block->n_targets, 1u);
}

// As follow_trees(). Rows that a hop has from the one before have been followed there.
static void follow_typed_trees(int64_t *seed_of, const struct sl_block *block,
                               const struct sl_typed *typed)
{
    const struct sl_block_type *part = sl_block_types(block);
    const struct sl_block_view view = sl_block_here(block);
    for (uint32_t t = 0, seed = 0; t < typed->n_types; t++)
        for (uint32_t i = 0; i < part[t].n[0]; i++)
            seed_of[part[t].first + i] = seed++;
    for (uint32_t i = 0; i < sl_block_typed(block)->n_runs; i++) {
        const struct sl_block_run *run = &sl_block_runs(block)[i];
        const struct sl_relation *relation = &typed->relation[run->relation];
        const uint32_t *indptr = sl_run_indptr(view, run), *indices = sl_run_indices(view, run);
        int64_t *of_source = seed_of + part[relation->source].first;
        const int64_t *of_target = seed_of + part[relation->target].first;
        const uint32_t known = run->hop > 0 ? part[relation->target].n[run->hop - 1] : 0;
        for (uint32_t row = known; row < run->n_dst; row++)
            for (uint32_t edge = indptr[row]; edge < indptr[row + 1]; edge++)
                of_source[indices[edge]] = of_target[row];
    }
}

// What fill_typed() takes, and no more than some bytes above it.
static uint64_t typed_bytes(const struct sl_block *block, const struct sl_typed *typed)
{
    const struct sl_block_run *runs = sl_block_runs(block);
    uint64_t bytes = (sizeof(struct sluice_type_arrays) + sizeof(uint64_t)) * typed->n_types +
                     sizeof(struct sluice_relation_arrays) * typed->n_relations +
                     sizeof(int64_t) * (block->n_input + block->n_seeds + labels_of(block)) +
                     (2 * sizeof(int64_t) + sizeof(float)) * sl_view_pairs(sl_block_here(block)).n +
                     (uint64_t)ALIGNMENT * (9 + 1); // pieces, and where the first one begins
    if (block->flags & SL_BLOCK_DISJOINT)
        bytes += sizeof(int64_t) * block->n_input;
    for (uint32_t i = 0; i < sl_block_typed(block)->n_runs; i++)
        if (runs[i].hop + 1 == block->n_hops)
            bytes += runs[i].n_edges * edge_bytes(block) + 2 * ALIGNMENT;
    return bytes;
}

static void fill_types(struct sl_arrays *a, const struct sl_block *block,
                       const struct sl_typed *typed)
{
    const struct sl_block_type *part = sl_block_types(block);
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const uint32_t n = part[t].n[block->n_hops];
        a->types[t] = (struct sluice_type_arrays){.n_nodes = n, .nodes = a->nodes + part[t].first};
        a->rows_at[t] = typed->type[t].feat_dim
                            ? sl_typed_rows_at(block, typed, t, SL_TYPED_AS_STORED)
                            : SL_NO_ROWS;
        widen(a->types[t].nodes, sl_block_nodes(block) + part[t].first,
              (int64_t)typed->type[t].first, 0, n);
    }
}

static void fill_relations(struct sl_arrays *a, const struct sl_block *block,
                           const struct sl_typed *typed, char *at)
{
    const struct sl_block_run *runs = sl_block_runs(block);
    memset(a->relations, 0, sizeof *a->relations * typed->n_relations);
    for (uint32_t i = 0; i < sl_block_typed(block)->n_runs; i++) {
        const struct sl_block_run *run = &runs[i];
        struct sluice_relation_arrays *to = &a->relations[run->relation];
        to->n_after[run->hop] = run->n_edges;
        if (run->hop + 1 < block->n_hops)
            continue;
        to->n_edges = run->n_edges;
        to->edges = take(&at, sizeof *to->edges * 2 * run->n_edges);
        if (block->flags & SL_BLOCK_HAS_EDGE_IDS)
            to->edge_ids = take(&at, sizeof *to->edge_ids * run->n_edges);
        if (block->flags & SL_BLOCK_HAS_WEIGHTS)
            to->weights = take(&at, sizeof *to->weights * run->n_edges);
        struct fill_run fill = {to, sl_block_here(block), run,
                                typed->relation[run->relation].first_edge,
                                run->n_edges / PART_EDGES + 1};
        sl_kernels_run(fill.n_parts, fill_run_part, &fill);
    }
}

// The number of a type's first seed.
static uint32_t first_seed(const struct sl_block *block, uint32_t type)
{
    uint32_t first = 0;
    for (uint32_t t = 0; t < type; t++)
        first += sl_block_types(block)[t].n[0];
    return first;
}

static void fill_places(struct sl_arrays *a, const struct sl_block *block)
{
    const struct sl_block_type *part = sl_block_types(block);
    int64_t *place = a->places;
    for (uint32_t t = 0; t < a->n_types; place += part[t++].n[0])
        find_places(&a->pool->places, sl_block_nodes(block) + part[t].first, part[t].n[0], place);
}

static int fill_typed(struct sl_arrays *a, const struct sl_block *block,
                      const struct sl_typed *typed, const uint32_t *items)
{
    const struct sl_pairs pairs = sl_view_pairs(sl_block_here(block));
    SL_TRY(sl_buffer_grow(&a->numbers, sl_device_host(), SL_BUFFER_DEVICE,
                          typed_bytes(block, typed), "numbers of mini-batches"));
    char *at = (char *)sl_align_up((uintptr_t)a->numbers.p, (uintptr_t)ALIGNMENT);
    a->n_types = typed->n_types;
    a->types = take(&at, sizeof *a->types * typed->n_types);
    a->rows_at = take(&at, sizeof *a->rows_at * typed->n_types);
    a->relations = take(&at, sizeof *a->relations * typed->n_relations);
    a->nodes = take(&at, sizeof *a->nodes * block->n_input);
    a->places = take(&at, sizeof *a->places * block->n_seeds);
    a->targets = take(&at, sizeof(int64_t) * labels_of(block));
    a->pairs = pairs.n ? take(&at, sizeof *a->pairs * 2 * pairs.n) : NULL;
    a->pair_weights = pairs.n ? take(&at, sizeof *a->pair_weights * pairs.n) : NULL;
    a->n_edges = block->hop[block->n_hops - 1].n_edges;
    if (block->flags & SL_BLOCK_DISJOINT) {
        a->seed_of = take(&at, sizeof *a->seed_of * block->n_input);
        follow_typed_trees(a->seed_of, block, typed);
    }
    fill_types(a, block, typed);
    if (pairs.n) {
        const struct sl_relation *linked = &typed->relation[typed->linked];
        fill_pairs(a, &pairs, items, first_seed(block, linked->source),
                   first_seed(block, linked->target));
    } else {
        fill_places(a, block);
        fill_targets(a->targets, sl_block_here(block));
    }
    fill_relations(a, block, typed, at);
    return SL_OK;
}

// -------------------------------------------------------------------------------------------------

int sl_arrays_fill(struct sl_arrays *a, const struct sl_block *block, const uint32_t *items)
{
    if (block->flags & SL_BLOCK_TYPED)
        return fill_typed(a, block, a->pool->typed, items);
    const struct sl_block_view v = sl_block_here(block);
    const uint32_t last = block->n_hops - 1;
    const struct sl_block_hop *hop = &block->hop[last];
    const uint64_t n_edges = hop->n_edges;
    const uint64_t *edge_ids = sl_view_edge_ids(v, last);
    const float *weights = sl_view_weights(v, last);
    const bool disjoint = block->flags & SL_BLOCK_DISJOINT;
    const struct sl_pairs pairs = sl_view_pairs(v);
    const uint64_t n_labels = pairs.n ? 0 : (uint64_t)block->n_seeds * SL_MAX(block->n_targets, 1u);
    size_t bytes = 0;
    const size_t nodes = place(&bytes, sizeof(int64_t) * block->n_input),
                 edges = place(&bytes, sizeof(int64_t) * 2 * n_edges),
                 beside = place(&bytes, sizeof(int64_t) * (edge_ids || weights ? n_edges : 0)),
                 places =
                     place(&bytes, sizeof(int64_t) * (pairs.n ? pairs.n_positive : block->n_seeds)),
                 seed_of = place(&bytes, sizeof(int64_t) * (disjoint ? block->n_input : 0)),
                 ends = place(&bytes, sizeof(int64_t) * 2 * pairs.n),
                 pair_weights = place(&bytes, sizeof(float) * pairs.n),
                 targets = place(&bytes, sizeof(int64_t) * n_labels);
    SL_TRY(sl_buffer_grow(&a->numbers, sl_device_host(), SL_BUFFER_DEVICE, bytes + ALIGNMENT,
                          "numbers of mini-batches"));
    char *base = (char *)sl_align_up((uintptr_t)a->numbers.p, (uintptr_t)ALIGNMENT);
    a->n_edges = n_edges;
    a->nodes = (int64_t *)(void *)(base + nodes);
    a->edges = (int64_t *)(void *)(base + edges);
    a->edge_ids = edge_ids ? (int64_t *)(void *)(base + beside) : NULL;
    a->weights = weights ? (float *)(void *)(base + beside) : NULL;
    a->places = (int64_t *)(void *)(base + places);
    a->seed_of = disjoint ? (int64_t *)(void *)(base + seed_of) : NULL;
    a->targets = base + targets;
    a->pairs = pairs.n ? (int64_t *)(void *)(base + ends) : NULL;
    a->pair_weights = pairs.n ? (float *)(void *)(base + pair_weights) : NULL;
    struct fill fill = {a, v, (uint32_t)(n_edges / PART_EDGES) + 1};
    sl_kernels_run(fill.n_parts, fill_part, &fill);
    if (disjoint)
        follow_trees(a->seed_of, v, last);
    if (pairs.n)
        fill_pairs(a, &pairs, items, 0, 0);
    else
        fill_targets(a->targets, v);
    return SL_OK;
}
