/*
 * labor.c - one hop of layer-neighbour sampling: a row's numbers in vectors, the smallest chosen.
 *
 * PROBLEM. Unlike khop, which looks at as many edges as it takes, each of a row's edges has a
 * number that must be drawn: the cost is by degree. Numbers are Philox blocks (philox.c makes
 * SL_CPU_PHILOX_LANES at once), and which k are the smallest is known when all have been seen.
 *
 * DESIGN. A row is read front to back, which memory is good at; the beginnings of rows to come are
 * asked for ahead. An edge whose key (number, place) is not below a bound is dropped, without a
 * branch; the others are put into a list. The bound begins where a little more than k of d uniform
 * numbers are expected below it; a row with fewer is looked at again without one. When the list is
 * full, and at the end, the k smallest of it are found by quickselect, the rest drops out, and the
 * bound is the largest of them. The list stays in the order of the file, and nothing is sorted.
 * What is left goes through the pipeline of khop_pipe.h.
 *
 * SCRATCH lives with the renumbering map and depends on the fanout alone.
 *
 * FAILURE. As khop.c.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "kernels/cpu/cpu_internal.h"
#include "kernels/cpu/khop_pipe.h"
#include "kernels/excluded_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/labor_internal.h"

enum {
    LANES = SL_CPU_PHILOX_LANES,
    OFFSETS_AHEAD = 16, // rows
    ROWS_AHEAD = 8,     // rows whose first neighbours are asked for
    LIST_LEAST = 64,    // keys
};

struct hop {
    const struct sl_khop_args *args;
    uint64_t n_edges;
    uint32_t k, n, room;
    uint32_t expected;     // numbers below the bound that a row begins with
    uint64_t bound;        // keys below it are candidates
    uint64_t *list, *copy; // (room) number << 32 | place; n of them, by rising place
    struct sl_khop_pipe pipe;
};

// ---- the k smallest -----------------------------------------------------------------------------

// The k-th smallest of n different keys, which change places.
static uint64_t kth_smallest(uint64_t *key, uint32_t n, uint32_t k)
{
    uint32_t low = 0, end = n; // it is in low .. end - 1
    while (end - low > 1) {
        // Numbers are random and in no order, so that any pivot is a good one.
        uint64_t pivot = key[low + (end - low) / 2];
        uint32_t i = low, j = end - 1;
        for (;;) {
            while (key[i] < pivot)
                i++;
            while (key[j] > pivot)
                j--;
            if (i >= j)
                break;
            uint64_t t = key[i];
            key[i] = key[j];
            key[j] = t;
        }
        if (k - 1 < i)
            end = i;
        else if (k - 1 > i)
            low = i + 1;
        else
            return pivot;
    }
    return key[low];
}

// Keeps the k smallest of the list.
SL_INLINE void shorten(struct hop *hop)
{
    memcpy(hop->copy, hop->list, hop->n * sizeof *hop->list);
    uint64_t last = kth_smallest(hop->copy, hop->n, hop->k);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < hop->n; i++) {
        hop->list[kept] = hop->list[i];
        kept += hop->list[i] <= last;
    }
    hop->n = kept;
    hop->bound = last;
}

SL_INLINE void read_ids(struct sl_khop_ids ids, uint64_t first, uint32_t n, uint32_t *vertex)
{
    for (uint32_t l = 0; l < n; l++)
        vertex[l] = sl_khop_read(ids, first + l);
}

// Puts the candidates among the n <= LANES edges at `first` + j into the list.
SL_INLINE void look_at(struct hop *hop, uint64_t first, uint32_t j, uint32_t n)
{
    const struct sl_khop_args *args = hop->args;
    const struct sl_khop_ids ids = sl_khop_ids_of(args->topology);
    uint32_t vertex[LANES], number[LANES];
    if (ids.shift == 2) // a constant, for vectors
        read_ids((struct sl_khop_ids){ids.first, 2}, first + j, n, vertex);
    else
        read_ids((struct sl_khop_ids){ids.first, 3}, first + j, n, vertex);
    for (uint32_t l = n; l < LANES; l++)
        vertex[l] = 0;
    sl_cpu_philox_numbers(args->seed, sl_rng_word0(args->stream, args->hop, 0), vertex, args->batch,
                          args->epoch, number);
    const uint64_t bound = hop->bound; // copies: stores to the list cannot change them
    uint64_t *list = hop->list;
    uint32_t at = hop->n;
    for (uint32_t l = 0; l < n; l++) {
        uint64_t key = (uint64_t)number[l] << 32 | (j + l);
        list[at] = key;
        at += key < bound;
    }
    hop->n = at;
    if (hop->room - at < LANES)
        shorten(hop);
}

// The k smallest of a row with more than k edges that are not excluded, in the list.
SL_INLINE void choose(struct hop *hop, uint64_t first, uint32_t degree, struct sl_excluded_row out)
{
    // Below it there are `expected` of the row's numbers, more or less: it is rare that they are
    // fewer than k, and then all are looked at again.
    uint64_t bound = ((uint64_t)hop->expected << 32) / (degree - out.n);
    hop->bound = bound <= UINT32_MAX ? bound << 32 : UINT64_MAX;
    for (;;) {
        hop->n = 0;
        for (uint32_t i = 0, from = 0; i <= out.n; i++) { // the edges between excluded ones
            const uint32_t end = i < out.n ? out.at[i] : degree;
            for (uint32_t j = from; j < end; j += LANES)
                look_at(hop, first, j, SL_MIN(end - j, (uint32_t)LANES));
            from = end + 1;
        }
        if (hop->n >= hop->k)
            break;
        hop->bound = UINT64_MAX;
    }
    if (hop->n > hop->k)
        shorten(hop);
}

// ---- the hop ------------------------------------------------------------------------------------

SL_INLINE int sample_row(struct hop *hop, uint32_t row)
{
    const struct sl_khop_args *args = hop->args;
    const uint64_t *indptr = &args->topology->indptr[args->rows[row]];
    const uint64_t room = SL_MIN(args->indices_capacity, (uint64_t)UINT32_MAX);
    uint64_t first = indptr[0], degree = indptr[1] - first;
    if (__builtin_expect(degree >= UINT32_MAX, 0))
        return sl_khop_fail_degree(args, row, degree);
    const struct sl_excluded_row out = sl_excluded_row(args->excluded, row);
    const uint64_t left = degree - out.n;
    bool all = left <= hop->k;
    uint64_t take = all ? left : hop->k;
    if (__builtin_expect(hop->n_edges + take > room, 0))
        return sl_khop_fail_indices(args, hop->n_edges + take);
    hop->n_edges += take;
    args->indptr[row + 1] = (uint32_t)hop->n_edges;
    if (all) {
        for (uint64_t i = 0, j = 0; i <= out.n; i++, j++)
            for (const uint64_t end = i < out.n ? out.at[i] : degree; j < end; j++)
                SL_TRY(sl_khop_pipe_push(args, &hop->pipe, first + j));
        return SL_OK;
    }
    choose(hop, first, (uint32_t)degree, out);
    for (uint32_t i = 0; i < hop->k; i++)
        SL_TRY(sl_khop_pipe_push(args, &hop->pipe, first + (uint32_t)hop->list[i]));
    return SL_OK;
}

SL_INLINE void prefetch_row(const struct sl_khop_args *args, uint64_t row)
{
    if (row < args->n_dst)
        sl_khop_fetch(sl_khop_ids_of(args->topology), args->topology->indptr[args->rows[row]]);
}

SL_SIMD(int, sample, (const struct sl_khop_args *args), (args))
{
    struct hop hop;
    hop.args = args;
    hop.k = args->fanout < 0 ? UINT32_MAX : (uint32_t)args->fanout;
    hop.n_edges = hop.pipe.n_done = sl_khop_first_edge(args);
    hop.pipe.n_fresh = hop.pipe.n = hop.pipe.read = 0;
    if (args->fanout > 0) {
        void *scratch;
        hop.expected = hop.k + 3 * (uint32_t)sqrtf((float)hop.k) + 3;
        hop.room = 2 * hop.k + LIST_LEAST;
        SL_TRY(sl_idmap_scratch(args->map, 2 * sizeof(uint64_t) * hop.room, &scratch));
        hop.list = scratch;
        hop.copy = hop.list + hop.room;
    }
    for (uint64_t row = 0; row < OFFSETS_AHEAD; row++)
        sl_khop_fetch_row(args, args->first_row + row);
    for (uint64_t row = args->first_row; row < args->n_dst; row++) {
        sl_khop_fetch_row(args, row + OFFSETS_AHEAD);
        prefetch_row(args, row + ROWS_AHEAD);
        SL_TRY(sample_row(&hop, (uint32_t)row));
    }
    SL_TRY(sl_khop_pipe_run(args, &hop.pipe, true));
    *args->n_edges = (uint32_t)hop.n_edges;
    return SL_OK;
}

int sl_cpu_labor(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_labor(args));
    const struct sl_khop_args own = sl_khop_with_rows(args);
    return sample(&own);
}
