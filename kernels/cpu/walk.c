/*
 * walk.c - one hop of PinSAGE's random walks with their cache misses in flight together.
 *
 * PROBLEM. A step costs two misses (the offsets of the vertex it stands on, the id that it moves
 * to), and each waits for the one before: a walk is one long chain of them.
 *
 * DESIGN. Walks do not wait for each other. All paths of ROWS rows, PATHS of each at a time, take
 * their steps side by side. A step is two rounds over the walkers,
 *
 *     choose    reads the offsets, draws a position, asks for the id there
 *     move      reads the id, writes it down, asks for the offsets of that vertex
 *
 * so that as many misses are in flight as the core can have. The words of a step are drawn for all
 * rows at once (philox.c). What was met lies in the order of the definition (row, path, step); it
 * is counted row by row with a hash table that is emptied by its stamp, put into the order of
 * counts by a counting sort, and what is kept of the group is renumbered with its slots asked for
 * ahead.
 *
 * A METAPATH has lists of its own in each step, and what is met is what its last steps come to: the
 * others write nothing down.
 *
 * SCRATCH lives with the renumbering map and depends on paths, length and fanout alone.
 *
 * FAILURE. On SL_ERANGE nothing beyond the capacities has been written; nodes, map and outputs hold
 * a part of the hop and the caller starts the batch again with more room.
 */
#include <stdbool.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/khop_pipe.h"
#include "kernels/excluded_internal.h"
#include "kernels/idmap_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/walk_internal.h"

enum {
    ROWS = SL_CPU_PHILOX_LANES,
    PATHS = 8,
    WALKERS = ROWS * PATHS,
    EXCLUDE_BITS = 16, // of a vertex's hash
};

#define NOBODY UINT32_MAX // no vertex has this id: a path that has ended, or nobody met

// The vertices that a row met.
struct tally {
    uint32_t n;
    uint32_t mask, shift;
    uint64_t *slot;   // (mask + 1) stamp << 32 | vertex
    uint32_t *which;  // (mask + 1) its place in vertex and count
    uint32_t *vertex; // (steps) in the order of first meeting
    uint32_t *count;  // (steps)
    uint32_t *place;  // (steps + 2) of the counting sort
};

struct walks {
    const struct sl_khop_args *args;
    uint32_t steps;                           // of a row's paths, that may meet a vertex
    uint32_t groups;                          // Philox blocks of a path
    const uint64_t *lists[SL_PATH_STEPS_MAX]; // (1 + more) of the metapath's steps
    uint32_t take_max;                        // of a row
    uint64_t n_edges;
    uint32_t *met;    // (ROWS, steps)
    uint32_t *chosen; // (ROWS, take_max) vertices that are kept, row by row
    struct tally tally;
    uint32_t at[WALKERS];       // (PATHS, ROWS) vertex, or NOBODY
    uint64_t position[WALKERS]; // of the id to move to
    uint32_t move_words[4 * WALKERS], restart_words[4 * WALKERS];
    struct sl_walk_excluded excluded[SL_PATH_STEPS_MAX]; // (1 + more)
    bool has_excluded;                                   // of any step
    // A bit for each hash of a vertex with excluded edges: the map is asked about those alone.
    uint64_t excludes[(1 << EXCLUDE_BITS) / 64];
};

// ---- memory -------------------------------------------------------------------------------------

static void *cut(char **from, size_t bytes)
{
    void *p = *from;
    *from += sl_align_up(bytes, SL_CACHE_LINE);
    return p;
}

static int take_scratch(struct walks *w)
{
    const size_t steps = w->steps, word = sizeof(uint32_t);
    const size_t slots = sl_pow2_at_least(2 * steps);
    const size_t met_bytes = ROWS * steps * word, chosen_bytes = ROWS * w->take_max * word;
    size_t bytes = slots * (sizeof(uint64_t) + word) + met_bytes + chosen_bytes +
                   (3 * steps + 2) * word + 8 * SL_CACHE_LINE;
    void *scratch;
    SL_TRY(sl_idmap_scratch(w->args->map, bytes, &scratch));
    char *p = scratch;
    struct tally *tally = &w->tally;
    tally->mask = (uint32_t)(slots - 1);
    tally->shift = 32 - (uint32_t)__builtin_ctzll(slots);
    tally->slot = cut(&p, slots * sizeof *tally->slot);
    tally->which = cut(&p, slots * word);
    tally->vertex = cut(&p, steps * word);
    tally->count = cut(&p, steps * word);
    tally->place = cut(&p, (steps + 2) * word);
    w->met = cut(&p, met_bytes);
    w->chosen = cut(&p, chosen_bytes);
    memset(tally->slot, 0, slots * sizeof *tally->slot); // stamps begin at 1
    return SL_OK;
}

// ---- excluded edges -----------------------------------------------------------------------------

static void note_excluded(struct walks *w)
{
    w->has_excluded = false;
    for (uint32_t k = 0; k <= w->args->along.more; k++) {
        w->excluded[k] = sl_walk_excluded_of(w->args, k);
        const struct sl_excluded *of = w->excluded[k].of;
        if (of && !w->has_excluded)
            memset(w->excludes, 0, sizeof w->excludes);
        w->has_excluded |= of != NULL;
        for (uint32_t row = 0; of && row < of->n_rows; row++) {
            const uint32_t at = sl_idmap_hash(w->excluded[k].rows[row], 32 - EXCLUDE_BITS);
            const uint64_t has = of->offsets[row + 1] > of->offsets[row];
            w->excludes[at / 64] |= has << (at % 64);
        }
    }
}

// Those of a vertex that a path stands on, before step k.
SL_INLINE struct sl_excluded_row excluded_of(const struct walks *w, uint32_t k, uint32_t vertex)
{
    const uint32_t at = sl_idmap_hash(vertex, 32 - EXCLUDE_BITS);
    const struct sl_walk_excluded *of = &w->excluded[k];
    uint32_t row;
    if ((w->excludes[at / 64] >> (at % 64) & 1) && of->of && sl_idmap_lookup(of->map, vertex, &row))
        return sl_excluded_row(of->of, row);
    return (struct sl_excluded_row){0};
}

// ---- walking ------------------------------------------------------------------------------------

// The words of steps step .. step + 3 (step is a multiple of 4) for n_paths paths of the group.
static void draw_words(struct walks *w, uint32_t row, uint32_t path, uint32_t n_paths,
                       uint32_t step)
{
    const struct sl_khop_args *hop = w->args;
    for (uint32_t p = 0; p < n_paths; p++) {
        uint64_t group = (path + p) * w->groups + step / 4;
        uint64_t first = group << 32 | row;
        sl_cpu_philox_words(hop->seed, hop->stream, hop->hop, hop->batch, hop->epoch, first, ROWS,
                            w->move_words + p * 4 * ROWS);
        if (w->args->restart > 0)
            sl_cpu_philox_words(hop->seed, hop->stream, hop->hop | SL_WALK_RESTART_TAG, hop->batch,
                                hop->epoch, first, ROWS, w->restart_words + p * 4 * ROWS);
    }
}

// Draws one step's positions for the paths path .. path + n_paths - 1 of n rows. `excludes` is a
// constant: whether there are excluded edges.
SL_INLINE int choose(struct walks *w, uint32_t row, uint32_t n, uint32_t path, uint32_t n_paths,
                     uint32_t step, const bool excludes)
{
    const struct sl_khop_args *hop = w->args;
    const uint32_t k = step % (1 + hop->along.more);
    const uint64_t *indptr = w->lists[k];
    const struct sl_khop_ids ids = sl_khop_ids_of(hop->topology);
    const float restart = step > 0 && k == 0 ? w->args->restart : 0.0f;
    for (uint32_t p = 0; p < n_paths; p++) {
        for (uint32_t r = 0; r < n; r++) {
            uint32_t i = p * ROWS + r, at = w->at[i], word = 4 * i + (step & 3), x;
            if (at == NOBODY)
                continue;
            if (restart > 0 && sl_rng_unit(w->restart_words[word]) < restart)
                at = hop->rows[row + r];
            uint64_t first = indptr[at], degree = indptr[at + (uint64_t)1] - first;
            if (__builtin_expect(degree >= UINT32_MAX, 0))
                return sl_walk_fail_degree(w->args, at, degree);
            const struct sl_excluded_row out =
                excludes ? excluded_of(w, k, at) : (struct sl_excluded_row){0};
            degree -= out.n;
            if (degree == 0) {
                w->at[i] = NOBODY;
                continue;
            }
            if (__builtin_expect(!sl_rng_below(w->move_words[word], (uint32_t)degree, &x), 0)) {
                uint32_t group = (path + p) * w->groups + step / 4;
                x = sl_walk_move(hop, row + r, group, step, w->move_words[word], (uint32_t)degree);
            }
            if (excludes)
                x = sl_excluded_place(out, x);
            w->position[i] = first + x;
            sl_khop_fetch(ids, first + x);
        }
    }
    return SL_OK;
}

// `meets` is a constant: whether the metapath ends here.
SL_INLINE void move(struct walks *w, uint32_t row, uint32_t n, uint32_t path, uint32_t n_paths,
                    uint32_t step, const bool meets)
{
    const struct sl_khop_args *hop = w->args;
    const uint32_t each = 1 + hop->along.more;
    const uint64_t *next = w->lists[(step + 1) % each];
    const struct sl_khop_ids ids = sl_khop_ids_of(hop->topology);
    for (uint32_t p = 0; p < n_paths; p++) {
        uint32_t *met = w->met + (path + p) * w->args->length + step / each;
        for (uint32_t r = 0; r < n; r++, met += w->steps) {
            uint32_t i = p * ROWS + r;
            if (meets)
                *met = NOBODY;
            if (w->at[i] == NOBODY)
                continue;
            uint32_t vertex = sl_khop_read(ids, w->position[i]);
            __builtin_prefetch(&next[vertex]);
            __builtin_prefetch(&next[vertex + (uint64_t)1]); // one in eight is in the next line
            w->at[i] = vertex;
            if (meets)
                *met = vertex == hop->rows[row + r] ? NOBODY : vertex;
        }
    }
}

// All paths of the rows row .. row + n - 1.
SL_INLINE int walk(struct walks *w, uint32_t row, uint32_t n)
{
    const struct sl_khop_args *args = w->args;
    const uint32_t each = 1 + args->along.more;
    for (uint32_t path = 0; path < args->paths; path += PATHS) {
        uint32_t n_paths = SL_MIN(args->paths - path, (uint32_t)PATHS);
        for (uint32_t p = 0; p < n_paths; p++)
            memcpy(w->at + p * ROWS, args->rows + row, n * sizeof w->at[0]);
        for (uint32_t step = 0; step < args->length * each; step++) {
            if ((step & 3) == 0)
                draw_words(w, row, path, n_paths, step);
            SL_TRY(w->has_excluded ? choose(w, row, n, path, n_paths, step, true)
                                   : choose(w, row, n, path, n_paths, step, false));
            if (step % each == args->along.more)
                move(w, row, n, path, n_paths, step, true);
            else
                move(w, row, n, path, n_paths, step, false);
        }
    }
    return SL_OK;
}

// ---- counting -----------------------------------------------------------------------------------

SL_INLINE void count(struct tally *tally, uint32_t vertex, uint32_t stamp)
{
    uint64_t entry = (uint64_t)stamp << 32 | vertex;
    for (uint32_t at = sl_idmap_hash(vertex, tally->shift);; at = (at + 1) & tally->mask) {
        if (tally->slot[at] == entry) {
            tally->count[tally->which[at]]++;
            return;
        }
        if ((uint32_t)(tally->slot[at] >> 32) != stamp) {
            tally->slot[at] = entry;
            tally->which[at] = tally->n;
            tally->vertex[tally->n] = vertex;
            tally->count[tally->n++] = 1;
            return;
        }
    }
}

// The first `take` of the tally in the order of falling counts; stable.
SL_INLINE void choose_most(struct tally *tally, uint32_t take, uint32_t *chosen, float *visits)
{
    uint32_t most = 0, before = 0, *place = tally->place;
    for (uint32_t m = 0; m < tally->n; m++)
        most = SL_MAX(most, tally->count[m]);
    memset(place, 0, (most + 1) * sizeof *place);
    for (uint32_t m = 0; m < tally->n; m++)
        place[tally->count[m]]++;
    for (uint32_t c = most; c > 0; c--) {
        uint32_t n = place[c];
        place[c] = before;
        before += n;
    }
    for (uint32_t m = 0; m < tally->n; m++) {
        uint32_t at = place[tally->count[m]]++;
        if (at < take) {
            chosen[at] = tally->vertex[m];
            visits[at] = (float)tally->count[m];
        }
    }
}

// The neighbours of the group's rows, not renumbered yet; *n_chosen of them.
SL_INLINE int choose_rows(struct walks *w, uint32_t row, uint32_t n, uint32_t *n_chosen)
{
    const struct sl_khop_args *hop = w->args;
    const uint64_t room = SL_MIN(hop->indices_capacity, (uint64_t)UINT32_MAX);
    uint32_t *chosen = w->chosen;
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t *met = w->met + (size_t)r * w->steps;
        w->tally.n = 0;
        for (uint32_t s = 0; s < w->steps; s++)
            if (met[s] != NOBODY)
                count(&w->tally, met[s], row + r + 1);
        uint32_t take = SL_MIN(w->tally.n, w->take_max);
        if (w->n_edges + take > room)
            return sl_khop_fail_indices(hop, w->n_edges + take);
        choose_most(&w->tally, take, chosen, w->args->visits + w->n_edges);
        chosen += take;
        w->n_edges += take;
        hop->indptr[row + r + 1] = (uint32_t)w->n_edges;
    }
    *n_chosen = (uint32_t)(chosen - w->chosen);
    return SL_OK;
}

// ---- renumbering --------------------------------------------------------------------------------

static int renumber(const struct sl_khop_args *hop, const uint32_t *vertex, uint32_t n,
                    uint32_t *local)
{
    SL_TRY(sl_idmap_reserve(hop->map, (uint64_t)*hop->n_nodes + n));
    const struct sl_idmap map = *hop->map; // a copy: stores to the outputs cannot change it
    for (uint32_t i = 0; i < n; i++)
        __builtin_prefetch(&map.slot[sl_idmap_hash(vertex[i], map.shift)]);
    if (hop->nodes_capacity - *hop->n_nodes < n) { // near the end of nodes: looking each time
        for (uint32_t i = 0; i < n; i++)
            if (sl_idmap_insert(hop->map, vertex[i], hop->nodes, hop->n_nodes, hop->nodes_capacity,
                                &local[i]) < 0)
                return sl_khop_fail_nodes(hop);
        return SL_OK;
    }
    uint32_t n_nodes = *hop->n_nodes;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t edge = (uint64_t)vertex[i] << 32 | sl_idmap_hash(vertex[i], map.shift);
        local[i] = sl_khop_renumber(&map, edge, hop->nodes, &n_nodes);
    }
    *hop->n_nodes = hop->map->count = n_nodes;
    return SL_OK;
}

// ---- the hop ------------------------------------------------------------------------------------

SL_INLINE void prefetch_rows(const struct sl_khop_args *hop, uint64_t row)
{
    for (uint64_t end = row + ROWS; row < end; row++)
        sl_khop_fetch_row(hop, row);
}

SL_SIMD(int, sample, (const struct sl_khop_args *args), (args))
{
    struct walks w;
    w.args = args;
    w.steps = args->paths * args->length;
    w.groups = sl_walk_path_groups(sl_walk_steps(args->length, &args->along));
    for (uint32_t k = 0; k <= args->along.more; k++)
        w.lists[k] = sl_walk_lists(args->topology->indptr, &args->along, k);
    w.take_max = args->fanout < 0 ? w.steps : (uint32_t)SL_MIN(args->fanout, (int64_t)w.steps);
    w.n_edges = sl_khop_first_edge(args);
    SL_TRY(take_scratch(&w));
    note_excluded(&w);
    prefetch_rows(args, args->first_row);
    for (uint64_t row = args->first_row; row < args->n_dst; row += ROWS) {
        uint32_t n = (uint32_t)SL_MIN((uint64_t)ROWS, args->n_dst - row), n_chosen = 0;
        uint64_t before = w.n_edges;
        SL_TRY(walk(&w, (uint32_t)row, n));
        prefetch_rows(args, row + ROWS);
        SL_TRY(choose_rows(&w, (uint32_t)row, n, &n_chosen));
        SL_TRY(renumber(args, w.chosen, n_chosen, args->indices + before));
    }
    *args->n_edges = (uint32_t)w.n_edges;
    return SL_OK;
}

int sl_cpu_random_walk(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_random_walk(args));
    const struct sl_khop_args own = sl_khop_with_rows(args);
    return sample(&own);
}
