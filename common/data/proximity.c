#include "common/data/proximity.h"

#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "common/data/shuffle.h"

enum {
    CANCEL_EVERY = 1 << 12, // vertices
    AHEAD = 16,             // of the queue, whose rows are asked for
    ROOTS = UINT32_MAX,     // the epoch of the roots' own shuffle
};

static inline bool is_set(const uint64_t *set, uint32_t v)
{
    return set[v / 64] >> v % 64 & 1;
}

static inline void put(uint64_t *set, uint32_t v)
{
    set[v / 64] |= 1ull << v % 64;
}

struct walker {
    const struct sl_dataset *ds;
    uint64_t *met, *train; // sets of vertices
    uint32_t *queue;       // (n_nodes) vertices in the order in which they were met
    uint64_t n_met, n_done;
    uint32_t *walk;
    uint64_t n_walk;
};

static void meet(struct walker *w, uint32_t v)
{
    if (is_set(w->met, v))
        return;
    put(w->met, v);
    w->queue[w->n_met++] = v;
    if (is_set(w->train, v))
        w->walk[w->n_walk++] = v;
}

static void follow(struct walker *w, uint32_t v)
{
    for (uint64_t e = w->ds->indptr[v]; e < w->ds->indptr[v + 1]; e++)
        meet(w, sl_dataset_source(w->ds, e));
}

// All that can be reached from the vertices in the queue. False when it was cancelled.
static bool follow_all(struct walker *w, uint64_t n_train, const atomic_bool *cancel)
{
    while (w->n_done < w->n_met && w->n_walk < n_train) {
        if (w->n_done % CANCEL_EVERY == 0 && cancel &&
            atomic_load_explicit(cancel, memory_order_relaxed))
            return false;
        if (w->n_done + AHEAD < w->n_met)
            __builtin_prefetch(&w->ds->indptr[w->queue[w->n_done + AHEAD]]);
        follow(w, w->queue[w->n_done++]);
    }
    return true;
}

static int walk_from(struct walker *w, const uint32_t *root, uint64_t n, const atomic_bool *cancel)
{
    for (uint64_t i = 0; i < n; i++)
        put(w->train, root[i]);
    for (uint64_t i = 0; i < n && w->n_walk < n; i++) {
        meet(w, root[i]);
        if (!follow_all(w, n, cancel))
            return sl_fail(SL_EABORTED, "proximity order: stopped on request");
    }
    return SL_OK;
}

int sl_proximity_walk(const struct sl_dataset *ds, const struct sl_vertex_list *train,
                      uint64_t seed, const atomic_bool *cancel, uint32_t *walk)
{
    const uint64_t n_words = sl_div_up(ds->n_nodes, 64);
    uint32_t *root = malloc(train->n * sizeof *root);
    struct walker w = {
        .ds = ds,
        .met = calloc(n_words, sizeof *w.met),
        .train = calloc(n_words, sizeof *w.train),
        .queue = malloc(ds->n_nodes * sizeof *w.queue),
        .walk = walk,
    };
    int rc = SL_OK;
    if (!root || !w.met || !w.train || !w.queue)
        rc = sl_fail(SL_ENOMEM, "no memory for a walk over %llu vertices",
                     (unsigned long long)ds->n_nodes);
    else if (!sl_shuffle_order(seed, ROOTS, train->ids, train->n, cancel, root))
        rc = sl_fail(SL_EABORTED, "proximity order: stopped on request");
    else
        rc = walk_from(&w, root, train->n, cancel);
    free(root);
    free(w.met);
    free(w.train);
    free(w.queue);
    return rc;
}

// By how much a piece is turned in an epoch, below its length.
static uint64_t turn_of(uint64_t seed, uint32_t epoch, uint32_t piece, uint64_t length)
{
    struct sl_rng_block b = sl_philox(seed, sl_rng_word0(SL_RNG_PROXIMITY, 0, 0), piece, 0, epoch);
    return (uint64_t)((unsigned __int128)((uint64_t)b.w[0] << 32 | b.w[1]) * length >> 64);
}

void sl_proximity_order(const uint32_t *walk, uint64_t n, uint32_t n_pieces, uint64_t seed,
                        uint32_t epoch, uint32_t *out)
{
    const uint64_t rows = n / n_pieces, longer = n % n_pieces; // pieces of one vertex more
    for (uint32_t piece = 0; piece < n_pieces; piece++) {
        const uint64_t length = rows + (piece < longer);
        const uint32_t *own = walk + piece * rows + SL_MIN((uint64_t)piece, longer);
        uint64_t at = turn_of(seed, epoch, piece, length);
        for (uint64_t row = 0; row < length; row++) {
            out[row * n_pieces + piece] = own[at++];
            at = at == length ? 0 : at;
        }
    }
}
