#include "loader/arrays.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/device/device.h"

enum {
    WAITING = 3, // pieces that may wait: the two of a loop that lets one go late, and one ahead
    ALIGNMENT = 64,
};

struct sl_arrays_pool {
    pid_t pid;
    pthread_mutex_t lock;
    // Below: guarded by lock.
    uint32_t users; // the loader, and pieces that are out
    uint32_t n_free;
    struct sl_arrays *free;
};

static void delete (struct sl_arrays *a)
{
    sl_buffer_fini(&a->numbers);
    sl_buffer_fini(&a->features);
    free(a);
}

int sl_arrays_pool_open(struct sl_arrays_pool **out)
{
    struct sl_arrays_pool *p = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "a loader's arrays: no memory");
    p->pid = getpid();
    p->users = 1;
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return SL_OK;
}

// One user less. The last one ends it.
static void leave(struct sl_arrays_pool *p)
{
    pthread_mutex_lock(&p->lock);
    const bool last = --p->users == 0;
    pthread_mutex_unlock(&p->lock);
    if (!last)
        return;
    for (struct sl_arrays *a = p->free, *next; a; a = next) {
        next = a->next;
        delete (a);
    }
    pthread_mutex_destroy(&p->lock);
    free(p);
}

void sl_arrays_pool_close(struct sl_arrays_pool *p)
{
    if (p && p->pid == getpid())
        leave(p);
}

int sl_arrays_get(struct sl_arrays_pool *p, struct sl_arrays **out)
{
    pthread_mutex_lock(&p->lock);
    struct sl_arrays *a = p->free;
    if (a) {
        p->free = a->next;
        p->n_free--;
    } else {
        a = calloc(1, sizeof *a);
    }
    p->users += a != NULL;
    pthread_mutex_unlock(&p->lock);
    if (!a)
        return sl_fail(SL_ENOMEM, "a batch's arrays: no memory");
    a->pool = p;
    *out = a;
    return SL_OK;
}

void sl_arrays_free(struct sl_arrays *a)
{
    struct sl_arrays_pool *p = a ? a->pool : NULL;
    if (!p || p->pid != getpid()) // a lock that another thread had at the fork stays locked
        return;
    pthread_mutex_lock(&p->lock);
    const bool waits = p->n_free < WAITING;
    if (waits) {
        a->next = p->free;
        p->free = a;
        p->n_free++;
    }
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

static void widen(int64_t *to, const uint32_t *from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] = from[i];
}

// The row that each edge is of.
static void spread_rows(int64_t *to, const uint32_t *indptr, uint32_t n_rows)
{
    for (uint32_t row = 0; row < n_rows; row++)
        for (uint32_t edge = indptr[row]; edge < indptr[row + 1]; edge++)
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

int sl_arrays_fill(struct sl_arrays *a, const struct sl_block *block)
{
    const struct sl_block_view v = sl_block_here(block);
    const uint32_t last = block->n_hops - 1;
    const struct sl_block_hop *hop = &block->hop[last];
    const uint64_t n_edges = hop->n_edges;
    const uint64_t *edge_ids = sl_view_edge_ids(v, last);
    const float *weights = sl_view_weights(v, last);
    const bool disjoint = block->flags & SL_BLOCK_DISJOINT;
    size_t bytes = 0;
    const size_t nodes = place(&bytes, sizeof(int64_t) * block->n_input),
                 edges = place(&bytes, sizeof(int64_t) * 2 * n_edges),
                 beside = place(&bytes, sizeof(int64_t) * (edge_ids || weights ? n_edges : 0)),
                 seed_of = place(&bytes, sizeof(int64_t) * (disjoint ? block->n_input : 0)),
                 targets = place(&bytes, sizeof(int64_t) * SL_MAX(block->n_targets, 1u) *
                                             (uint64_t)block->n_seeds);
    SL_TRY(sl_buffer_grow(&a->numbers, sl_device_host(), SL_BUFFER_DEVICE, bytes + ALIGNMENT,
                          "numbers of mini-batches"));
    char *base = (char *)sl_align_up((uintptr_t)a->numbers.p, (uintptr_t)ALIGNMENT);
    a->n_edges = n_edges;
    a->nodes = (int64_t *)(void *)(base + nodes);
    a->edges = (int64_t *)(void *)(base + edges);
    a->edge_ids = edge_ids ? (int64_t *)(void *)(base + beside) : NULL;
    a->weights = weights ? (float *)(void *)(base + beside) : NULL;
    a->seed_of = disjoint ? (int64_t *)(void *)(base + seed_of) : NULL;
    a->targets = base + targets;
    widen(a->nodes, sl_view_nodes(v), block->n_input);
    widen(a->edges, sl_view_indices(v, last), n_edges);
    spread_rows(a->edges + n_edges, sl_view_indptr(v, last), hop->n_dst);
    if (edge_ids)
        memcpy(a->edge_ids, edge_ids, n_edges * sizeof *edge_ids);
    if (weights)
        memcpy(a->weights, weights, n_edges * sizeof *weights);
    if (disjoint)
        follow_trees(a->seed_of, v, last);
    fill_targets(a->targets, v);
    return SL_OK;
}
