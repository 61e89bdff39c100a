/*
 * khop.c - one hop of k-hop uniform sampling with its cache misses in flight together.
 *
 * PROBLEM. A sampled edge costs two dependent misses (the neighbour's id in `indices`, its slot in
 * the renumbering map), a row costs one more (its offsets in `indptr`). Taken one after the other
 * they leave the memory idle most of the time, and so does any stretch of computing that has no
 * miss in flight.
 *
 * DESIGN. Edges flow through a pipeline. A group of rows is planned: their offsets, asked for
 * OFFSETS_AHEAD rows earlier, are read and the positions of their edges are drawn, sixteen rows at
 * once (khop_lanes.h). Then the pipeline moves on by as many edges as the group has; each step does
 * for three different edges
 *
 *     fetch     asks for the neighbour's id                     the newest edge
 *     read      reads the id, hashes it, asks for its slot      READ_LAG edges behind
 *     renumber  looks the id up or adds it, writes the local    RENUMBER_LAG edges behind that
 *
 * so misses of all kinds overlap with each other and with the computing of later stages. Edges
 * that are still in the pipeline when a group ends wait there while the next group is drawn.
 * Fanouts above SL_KHOP_LANE_FANOUT_MAX test membership with a hash set instead of lanes.
 *
 * FIGURES. build/bin/tests/bench/sampling prints edges a second against half the random 4-byte
 * reads of the same memory. On a Cascade Lake, one thread: 1.3, where groups of 32 rows whose
 * stages follow each other without overlap reach 0.95 and ref 0.17. Lags of 16 to 32 edges are
 * equally good, longer ones slowly get worse.
 *
 * INVARIANTS. Edges keep the order of the definition in kernels/khop_internal.h, so the result
 * equals ref's integer for integer. A group has at most GROUP_EDGES edges; a row that is longer
 * (all neighbours of a hub, a large fanout) is handed out over several groups.
 *
 * FAILURE. On SL_ERANGE nothing beyond the capacities has been written; nodes, map and outputs hold
 * a part of the hop and the caller starts the batch again with more room.
 */
#include <stdbool.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "kernels/cpu/khop_lanes.h"
#include "kernels/idmap_internal.h"
#include "kernels/kernels_internal.h"
#include "kernels/khop_internal.h"

enum {
    GROUP_EDGES = SL_KHOP_LANES * SL_KHOP_LANE_FANOUT_MAX,
    READ_LAG = 16, // about as many misses as a core has in flight
    RENUMBER_LAG = 16,
    OFFSETS_AHEAD = 32,
};

#define INLINE static inline __attribute__((always_inline))

// What is on its way. An edge's word is its position in `indices` until it is read, and then
// key << 32 | where the search in the map begins.
struct pipe {
    uint32_t n;    // edges in it, oldest first
    uint32_t read; // of them past the read stage
    uint64_t edge[GROUP_EDGES + READ_LAG + RENUMBER_LAG];
};

// Rows that wait for their draws.
struct drawn_rows {
    uint32_t n;
    uint64_t first[SL_KHOP_LANES]; // the row's first position in indices
    uint64_t *edge[SL_KHOP_LANES]; // where its edges stand in the pipe
    struct sl_khop_lanes lanes;
};

struct hop {
    const struct sl_khop_args *args;
    uint32_t k;              // fanout, unless it is -1
    uint32_t row;            // the next one to hand out
    uint64_t offset;         // edges of it that have been handed out already
    uint64_t n_edges;        // of the rows before it
    uint64_t n_done;         // edges renumbered
    struct sl_distinct *set; // for large fanouts
    struct drawn_rows drawn;
    struct pipe pipe;
};

// ---- plan: which edges --------------------------------------------------------------------------

INLINE void prefetch_offsets(const struct sl_khop_args *args, uint32_t row)
{
    if (row < args->n_dst) {
        const uint64_t *indptr = &args->topology->indptr[args->nodes[row]];
        __builtin_prefetch(indptr);
        __builtin_prefetch(indptr + 1); // one in eight stands in the next line
    }
}

// Robert Floyd's method for one row with a large fanout: the set's drawn[0 .. k) in their order.
static void draw_many(const struct sl_khop_args *args, uint32_t k, uint32_t row, uint32_t degree,
                      struct sl_distinct *set)
{
    sl_distinct_reset(set);
    struct sl_rng_block block;
    for (uint32_t slot = 0; slot < k; slot++) {
        uint32_t n = degree - k + slot + 1, x;
        if ((slot & 3) == 0)
            block = sl_philox(args->seed, sl_khop_word0(args->stream, args->hop, slot, 0), row,
                              args->batch, args->epoch);
        if (!sl_rng_below(block.w[slot & 3], n, &x))
            x = sl_khop_draw(args->seed, args->stream, args->epoch, args->batch, args->hop, row,
                             slot, 1, n);
        if (!sl_distinct_add(set, x)) {
            x = n - 1;
            sl_distinct_add(set, x);
        }
        set->drawn[slot] = x;
    }
}

// Draws for the rows that wait and puts their positions where they belong.
INLINE void draw_rows(struct hop *hop)
{
    struct drawn_rows *drawn = &hop->drawn;
    for (uint32_t l = drawn->n; l < SL_KHOP_LANES; l++) {
        drawn->lanes.row[l] = 0;
        drawn->lanes.degree[l] = hop->k + 1;
    }
    sl_khop_lanes_draw(hop->args, hop->k, &drawn->lanes);
    for (uint32_t l = 0; l < drawn->n; l++)
        for (uint32_t slot = 0; slot < hop->k; slot++)
            drawn->edge[l][slot] = drawn->first[l] + drawn->lanes.x[slot][l];
    drawn->n = 0;
}

// Hands out edges of the current row, which takes `take` of them, as far as the group has room.
// Returns whether it is finished.
INLINE bool hand_out(struct hop *hop, uint64_t first, uint64_t degree, uint64_t take, uint32_t room,
                     uint64_t *edge, uint32_t *n)
{
    uint32_t some = (uint32_t)SL_MIN(take - hop->offset, (uint64_t)room);
    if (take == degree) {
        for (uint32_t j = 0; j < some; j++)
            edge[j] = first + hop->offset + j;
    } else {
        if (hop->offset == 0)
            draw_many(hop->args, hop->k, hop->row, (uint32_t)degree, hop->set);
        for (uint32_t j = 0; j < some; j++)
            edge[j] = first + hop->set->drawn[hop->offset + j];
    }
    *n += some;
    hop->offset += some;
    if (hop->offset < take)
        return false;
    hop->offset = 0;
    return true;
}

// Puts the next group's edges behind those in the pipe, writes indptr for the rows it completes.
// *n is how many edges it has.
INLINE int plan(struct hop *hop, uint32_t *n)
{
    const struct sl_khop_args *args = hop->args;
    const uint64_t limit = args->fanout < 0 ? UINT64_MAX : (uint64_t)args->fanout;
    const uint64_t room = SL_MIN(args->indices_capacity, (uint64_t)UINT32_MAX);
    uint64_t *edge = hop->pipe.edge + hop->pipe.n;
    *n = 0;
    while (hop->row < args->n_dst && hop->drawn.n < SL_KHOP_LANES) {
        const uint64_t *indptr = &args->topology->indptr[args->nodes[hop->row]];
        uint64_t first = indptr[0], degree = indptr[1] - first;
        uint64_t take = SL_MIN(degree, limit);
        if (__builtin_expect(degree >= UINT32_MAX, 0))
            return sl_khop_fail_degree(args, hop->row, degree);
        if (__builtin_expect(hop->n_edges + take > room, 0))
            return sl_khop_fail_indices(args, hop->n_edges + take);
        if (take < degree && limit <= SL_KHOP_LANE_FANOUT_MAX) {
            if (GROUP_EDGES - *n < take)
                break;
            uint32_t l = hop->drawn.n++;
            hop->drawn.lanes.row[l] = hop->row;
            hop->drawn.lanes.degree[l] = (uint32_t)degree;
            hop->drawn.first[l] = first;
            hop->drawn.edge[l] = edge + *n;
            *n += (uint32_t)take;
        } else if (!hand_out(hop, first, degree, take, GROUP_EDGES - *n, edge + *n, n)) {
            break;
        }
        prefetch_offsets(args, hop->row + OFFSETS_AHEAD);
        hop->n_edges += take;
        args->indptr[++hop->row] = (uint32_t)hop->n_edges;
    }
    if (hop->drawn.n)
        draw_rows(hop);
    return SL_OK;
}

// ---- the pipeline -------------------------------------------------------------------------------

INLINE void fetch(const void *indices, bool wide, uint64_t position)
{
    __builtin_prefetch((const char *)indices + position * (wide ? 8 : 4));
}

INLINE uint64_t read_key(const void *indices, bool wide, uint64_t position,
                         const struct sl_idmap *map)
{
    uint32_t key = wide ? (uint32_t)((const uint64_t *)indices)[position]
                        : ((const uint32_t *)indices)[position];
    uint32_t at = sl_idmap_hash(key, map->shift);
    __builtin_prefetch(&map->slot[at]);
    return (uint64_t)key << 32 | at;
}

// The edge's local id; nodes and map have room for a new one.
INLINE uint32_t renumber(const struct sl_idmap *map, uint64_t edge, uint32_t *nodes,
                         uint32_t *n_nodes)
{
    uint32_t key = (uint32_t)(edge >> 32);
    bool found;
    uint64_t *slot = sl_idmap_find(map, key, (uint32_t)edge, &found);
    if (found)
        return (uint32_t)*slot - map->base;
    *slot = sl_idmap_entry(map, key, *n_nodes);
    nodes[*n_nodes] = key;
    return (*n_nodes)++;
}

// Takes n new edges in and lets as many out at the other end; with `drain`, all of them.
INLINE void advance(struct hop *hop, bool wide, uint32_t n, bool drain)
{
    const struct sl_khop_args *args = hop->args;
    const void *ids = args->topology->indices;
    const struct sl_idmap map = *args->map; // a copy: stores to the outputs can not change it
    struct pipe *pipe = &hop->pipe;
    uint32_t *nodes = args->nodes, n_nodes = *args->n_nodes;
    uint32_t *local = args->indices + hop->n_done;
    uint32_t end = pipe->n + n, read = pipe->read, done = 0;
    for (uint32_t i = pipe->n; i < end; i++) {
        fetch(ids, wide, pipe->edge[i]);
        if (i < READ_LAG + read)
            continue;
        pipe->edge[read] = read_key(ids, wide, pipe->edge[read], &map);
        read++;
        if (read <= RENUMBER_LAG + done)
            continue;
        local[done] = renumber(&map, pipe->edge[done], nodes, &n_nodes);
        done++;
    }
    if (drain) {
        for (; read < end; read++)
            pipe->edge[read] = read_key(ids, wide, pipe->edge[read], &map);
        for (; done < end; done++)
            local[done] = renumber(&map, pipe->edge[done], nodes, &n_nodes);
    }
    pipe->n = end - done;
    pipe->read = read - done;
    memmove(pipe->edge, pipe->edge + done, pipe->n * sizeof pipe->edge[0]);
    hop->n_done += done;
    *args->n_nodes = args->map->count = n_nodes;
}

// Room in the map for a new vertex an edge, and what the pipe knows of the slots kept up with it.
static int make_room(struct hop *hop, uint32_t n)
{
    struct sl_idmap *map = hop->args->map;
    uint32_t shift = map->shift;
    SL_TRY(sl_idmap_reserve(map, (uint64_t)*hop->args->n_nodes + hop->pipe.n + n));
    for (uint32_t i = 0; map->shift != shift && i < hop->pipe.read; i++) {
        uint64_t key = hop->pipe.edge[i] >> 32;
        hop->pipe.edge[i] = key << 32 | sl_idmap_hash((uint32_t)key, map->shift);
    }
    return SL_OK;
}

// The slow way, near the end of nodes: everything in the pipe and n new edges, looking each time.
static int advance_checked(struct hop *hop, bool wide, uint32_t n)
{
    const struct sl_khop_args *args = hop->args;
    struct pipe *pipe = &hop->pipe;
    for (uint32_t i = 0; i < pipe->n + n; i++) {
        if (i >= pipe->read)
            pipe->edge[i] = read_key(args->topology->indices, wide, pipe->edge[i], args->map);
        if (sl_idmap_insert(args->map, (uint32_t)(pipe->edge[i] >> 32), args->nodes, args->n_nodes,
                            args->nodes_capacity, &args->indices[hop->n_done++]) < 0)
            return sl_khop_fail_nodes(args);
    }
    pipe->n = pipe->read = 0;
    return SL_OK;
}

INLINE int khop(const struct sl_khop_args *args, bool wide)
{
    struct hop hop;
    hop.args = args;
    hop.k = args->fanout < 0 ? 0 : (uint32_t)args->fanout;
    hop.row = 0;
    hop.offset = hop.n_edges = hop.n_done = 0;
    hop.drawn.n = hop.pipe.n = hop.pipe.read = 0;
    if (hop.k > SL_KHOP_LANE_FANOUT_MAX)
        SL_TRY(sl_idmap_distinct(args->map, hop.k, &hop.set));
    args->indptr[0] = 0;
    for (uint32_t row = 0; row < OFFSETS_AHEAD; row++)
        prefetch_offsets(args, row);
    for (bool last = args->n_dst == 0; !last;) {
        uint32_t n;
        SL_TRY(plan(&hop, &n));
        last = hop.row == args->n_dst;
        SL_TRY(make_room(&hop, n));
        if (args->nodes_capacity - *args->n_nodes >= hop.pipe.n + n)
            advance(&hop, wide, n, last);
        else
            SL_TRY(advance_checked(&hop, wide, n));
    }
    *args->n_edges = (uint32_t)hop.n_edges;
    return SL_OK;
}

SL_SIMD static int khop_narrow(const struct sl_khop_args *args)
{
    return khop(args, false);
}

SL_SIMD static int khop_wide(const struct sl_khop_args *args)
{
    return khop(args, true);
}

int sl_cpu_khop_uniform(const struct sl_khop_args *args)
{
    SL_TRY(sl_check_khop_uniform(args));
    return sl_dtype_bytes(args->topology->indices_dtype) == 4 ? khop_narrow(args) : khop_wide(args);
}
