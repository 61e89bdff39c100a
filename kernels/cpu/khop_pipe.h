/*
 * khop_pipe.h - from positions in `indices` to local ids, with the misses in flight together.
 *
 * The caller puts the positions of up to SL_KHOP_PIPE_GROUP fresh edges behind those in the pipe
 * and calls sl_khop_pipe_run(); the pipeline moves on by as many edges as are fresh. Each step does
 * for three different edges
 *
 *     fetch     asks for the neighbour's id                     the newest edge
 *     read      reads the id, hashes it, asks for its slot      READ_LAG edges behind
 *     renumber  looks the id up or adds it, writes the local    RENUMBER_LAG edges behind that
 *
 * so misses of all kinds overlap with each other and with the computing of later stages. Edges that
 * are still in the pipeline when a group ends wait there while the next group is drawn. The order
 * of edges is kept.
 *
 * Fresh edges are still positions, which is when their numbers are written where these are wanted.
 *
 * Ids are below 2^32 in arrays of 8 bytes an id too, of which the first four are read.
 *
 * FAILURE. Near the end of nodes' room the slow way looks at each edge; on SL_ERANGE nothing beyond
 * it has been written.
 */
#ifndef SL_KERNELS_CPU_KHOP_PIPE_H
#define SL_KERNELS_CPU_KHOP_PIPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/error.h"
#include "kernels/cpu/vector.h"
#include "kernels/idmap_internal.h"
#include "kernels/khop_internal.h"

enum {
    SL_KHOP_PIPE_GROUP = 1024, // edges that are taken in at once
    SL_KHOP_READ_LAG = 16,     // about as many misses as a core has in flight
    SL_KHOP_RENUMBER_LAG = 16,
    SL_KHOP_PIPE_STRIDE = 8, // edges that may be written at once, of which the first ones count
};

// What is on its way. An edge's word is its position in `indices` until it is read, and then
// key << 32 | where the search in the map begins.
struct sl_khop_pipe {
    uint64_t n_done;  // edges renumbered
    uint32_t n;       // edges in it, oldest first
    uint32_t read;    // of them past the read stage
    uint32_t n_fresh; // edges behind these, not taken in yet
    uint64_t
        edge[SL_KHOP_PIPE_GROUP + SL_KHOP_READ_LAG + SL_KHOP_RENUMBER_LAG + SL_KHOP_PIPE_STRIDE];
};

// Where ids stand.
struct sl_khop_ids {
    const char *first;
    uint32_t shift; // an id is 1 << shift bytes
};
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low word of 8 bytes comes first");

SL_INLINE struct sl_khop_ids sl_khop_ids_of(const struct sl_topology_view *t)
{
    return (struct sl_khop_ids){t->indices, sl_dtype_bytes(t->indices_dtype) == 8 ? 3 : 2};
}

SL_INLINE void sl_khop_fetch(struct sl_khop_ids ids, uint64_t position)
{
    __builtin_prefetch(ids.first + (position << ids.shift));
}

SL_INLINE uint32_t sl_khop_read(struct sl_khop_ids ids, uint64_t position)
{
    uint32_t id;
    memcpy(&id, ids.first + (position << ids.shift), sizeof id);
    return id;
}

SL_INLINE uint64_t sl_khop_read_key(struct sl_khop_ids ids, uint64_t position,
                                    const struct sl_idmap *map)
{
    uint32_t key = sl_khop_read(ids, position);
    uint32_t at = sl_idmap_hash(key, map->shift);
    __builtin_prefetch(&map->slot[at]);
    return (uint64_t)key << 32 | at;
}

SL_INLINE void sl_khop_fetch_offsets(const struct sl_topology_view *t, uint32_t vertex)
{
    __builtin_prefetch(&t->indptr[vertex]);
    __builtin_prefetch(&t->indptr[vertex + 1]); // one in eight stands in the next line
}

// Of a row that may lie behind the last one.
SL_INLINE void sl_khop_fetch_row(const struct sl_khop_args *args, uint64_t row)
{
    if (row < args->n_dst)
        sl_khop_fetch_offsets(args->topology, args->rows[row]);
}

// The edge's local id; nodes and map have room for a new one.
SL_INLINE uint32_t sl_khop_renumber(const struct sl_idmap *map, uint64_t edge, uint32_t *nodes,
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

// Takes the fresh edges in and lets as many out at the other end; with `drain`, all of them.
SL_INLINE void sl_khop_advance(const struct sl_khop_args *args, struct sl_khop_pipe *pipe,
                               uint32_t shift, bool drain)
{
    const struct sl_khop_ids ids = {args->topology->indices, shift};
    const struct sl_idmap map = *args->map; // a copy: stores to the outputs cannot change it
    uint32_t *nodes = args->nodes, n_nodes = *args->n_nodes;
    uint32_t *local = args->indices + pipe->n_done;
    uint32_t end = pipe->n + pipe->n_fresh, read = pipe->read, done = 0;
    for (uint32_t i = pipe->n; i < end; i++) {
        sl_khop_fetch(ids, pipe->edge[i]);
        if (i < SL_KHOP_READ_LAG + read)
            continue;
        pipe->edge[read] = sl_khop_read_key(ids, pipe->edge[read], &map);
        read++;
        if (read <= SL_KHOP_RENUMBER_LAG + done)
            continue;
        local[done] = sl_khop_renumber(&map, pipe->edge[done], nodes, &n_nodes);
        done++;
    }
    if (drain) {
        for (; read < end; read++)
            pipe->edge[read] = sl_khop_read_key(ids, pipe->edge[read], &map);
        for (; done < end; done++)
            local[done] = sl_khop_renumber(&map, pipe->edge[done], nodes, &n_nodes);
    }
    pipe->n = end - done;
    pipe->read = read - done;
    memmove(pipe->edge, pipe->edge + done, pipe->n * sizeof pipe->edge[0]);
    pipe->n_done += done;
    *args->n_nodes = args->map->count = n_nodes;
}

// Room in the map for a new vertex an edge, and what the pipe knows of the slots kept up with it.
SL_INLINE int sl_khop_make_room(const struct sl_khop_args *args, struct sl_khop_pipe *pipe)
{
    struct sl_idmap *map = args->map;
    uint32_t shift = map->shift;
    SL_TRY(sl_idmap_reserve(map, (uint64_t)*args->n_nodes + pipe->n + pipe->n_fresh));
    for (uint32_t i = 0; map->shift != shift && i < pipe->read; i++) {
        uint64_t key = pipe->edge[i] >> 32;
        pipe->edge[i] = key << 32 | sl_idmap_hash((uint32_t)key, map->shift);
    }
    return SL_OK;
}

// The slow way, near the end of nodes: everything in the pipe and what is fresh, looking each time.
SL_INLINE int sl_khop_advance_checked(const struct sl_khop_args *args, struct sl_khop_pipe *pipe)
{
    const struct sl_khop_ids ids = sl_khop_ids_of(args->topology);
    for (uint32_t i = 0; i < pipe->n + pipe->n_fresh; i++) {
        if (i >= pipe->read)
            pipe->edge[i] = sl_khop_read_key(ids, pipe->edge[i], args->map);
        if (sl_idmap_insert(args->map, (uint32_t)(pipe->edge[i] >> 32), args->nodes, args->n_nodes,
                            args->nodes_capacity, &args->indices[pipe->n_done++]) < 0)
            return sl_khop_fail_nodes(args);
    }
    pipe->n = pipe->read = 0;
    return SL_OK;
}

// Takes in the fresh edges; with `last`, lets all out. SL_ERANGE, SL_ENOMEM.
SL_INLINE int sl_khop_pipe_run(const struct sl_khop_args *args, struct sl_khop_pipe *pipe,
                               bool last)
{
    if (args->edge_ids)
        memcpy(args->edge_ids + pipe->n_done + pipe->n, pipe->edge + pipe->n,
               pipe->n_fresh * sizeof *args->edge_ids);
    SL_TRY(sl_khop_make_room(args, pipe));
    if (args->nodes_capacity - *args->n_nodes < pipe->n + pipe->n_fresh)
        SL_TRY(sl_khop_advance_checked(args, pipe));
    else if (sl_khop_ids_of(args->topology).shift == 2) // a constant in the loop
        sl_khop_advance(args, pipe, 2, last);
    else
        sl_khop_advance(args, pipe, 3, last);
    pipe->n_fresh = 0;
    return SL_OK;
}

// One more fresh edge.
SL_INLINE int sl_khop_pipe_push(const struct sl_khop_args *args, struct sl_khop_pipe *pipe,
                                uint64_t position)
{
    if (pipe->n_fresh == SL_KHOP_PIPE_GROUP)
        SL_TRY(sl_khop_pipe_run(args, pipe, false));
    pipe->edge[pipe->n + pipe->n_fresh++] = position;
    return SL_OK;
}

#endif
