/*
 * khop_pipe.h - from positions in `indices` to local ids, with the misses in flight together.
 *
 * The caller puts the positions of up to SL_KHOP_PIPE_GROUP edges behind those in the pipe and
 * calls sl_khop_pipe_run(); the pipeline moves on by as many edges as are new. Each step does for
 * three different edges
 *
 *     fetch     asks for the neighbour's id                     the newest edge
 *     read      reads the id, hashes it, asks for its slot      READ_LAG edges behind
 *     renumber  looks the id up or adds it, writes the local    RENUMBER_LAG edges behind that
 *
 * so misses of all kinds overlap with each other and with the computing of later stages. Edges that
 * are still in the pipeline when a group ends wait there while the next group is drawn. The order
 * of edges is kept.
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
};

// What is on its way. An edge's word is its position in `indices` until it is read, and then
// key << 32 | where the search in the map begins.
struct sl_khop_pipe {
    uint64_t n_done; // edges renumbered
    uint32_t n;      // edges in it, oldest first
    uint32_t read;   // of them past the read stage
    uint64_t edge[SL_KHOP_PIPE_GROUP + SL_KHOP_READ_LAG + SL_KHOP_RENUMBER_LAG];
};

SL_INLINE void sl_khop_fetch(const void *indices, bool wide, uint64_t position)
{
    __builtin_prefetch((const char *)indices + position * (wide ? 8 : 4));
}

SL_INLINE uint64_t sl_khop_read_key(const void *indices, bool wide, uint64_t position,
                                    const struct sl_idmap *map)
{
    uint32_t key = wide ? (uint32_t)((const uint64_t *)indices)[position]
                        : ((const uint32_t *)indices)[position];
    uint32_t at = sl_idmap_hash(key, map->shift);
    __builtin_prefetch(&map->slot[at]);
    return (uint64_t)key << 32 | at;
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

// Takes n new edges in and lets as many out at the other end; with `drain`, all of them.
SL_INLINE void sl_khop_advance(const struct sl_khop_args *args, struct sl_khop_pipe *pipe,
                               bool wide, uint32_t n, bool drain)
{
    const void *ids = args->topology->indices;
    const struct sl_idmap map = *args->map; // a copy: stores to the outputs can not change it
    uint32_t *nodes = args->nodes, n_nodes = *args->n_nodes;
    uint32_t *local = args->indices + pipe->n_done;
    uint32_t end = pipe->n + n, read = pipe->read, done = 0;
    for (uint32_t i = pipe->n; i < end; i++) {
        sl_khop_fetch(ids, wide, pipe->edge[i]);
        if (i < SL_KHOP_READ_LAG + read)
            continue;
        pipe->edge[read] = sl_khop_read_key(ids, wide, pipe->edge[read], &map);
        read++;
        if (read <= SL_KHOP_RENUMBER_LAG + done)
            continue;
        local[done] = sl_khop_renumber(&map, pipe->edge[done], nodes, &n_nodes);
        done++;
    }
    if (drain) {
        for (; read < end; read++)
            pipe->edge[read] = sl_khop_read_key(ids, wide, pipe->edge[read], &map);
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
SL_INLINE int sl_khop_make_room(const struct sl_khop_args *args, struct sl_khop_pipe *pipe,
                                uint32_t n)
{
    struct sl_idmap *map = args->map;
    uint32_t shift = map->shift;
    SL_TRY(sl_idmap_reserve(map, (uint64_t)*args->n_nodes + pipe->n + n));
    for (uint32_t i = 0; map->shift != shift && i < pipe->read; i++) {
        uint64_t key = pipe->edge[i] >> 32;
        pipe->edge[i] = key << 32 | sl_idmap_hash((uint32_t)key, map->shift);
    }
    return SL_OK;
}

// The slow way, near the end of nodes: everything in the pipe and n new edges, looking each time.
SL_INLINE int sl_khop_advance_checked(const struct sl_khop_args *args, struct sl_khop_pipe *pipe,
                                      bool wide, uint32_t n)
{
    for (uint32_t i = 0; i < pipe->n + n; i++) {
        if (i >= pipe->read)
            pipe->edge[i] =
                sl_khop_read_key(args->topology->indices, wide, pipe->edge[i], args->map);
        if (sl_idmap_insert(args->map, (uint32_t)(pipe->edge[i] >> 32), args->nodes, args->n_nodes,
                            args->nodes_capacity, &args->indices[pipe->n_done++]) < 0)
            return sl_khop_fail_nodes(args);
    }
    pipe->n = pipe->read = 0;
    return SL_OK;
}

// Takes in the n edges at pipe->edge[pipe->n ..]; with `last`, lets all out. SL_ERANGE, SL_ENOMEM.
SL_INLINE int sl_khop_pipe_run(const struct sl_khop_args *args, struct sl_khop_pipe *pipe,
                               bool wide, uint32_t n, bool last)
{
    SL_TRY(sl_khop_make_room(args, pipe, n));
    if (args->nodes_capacity - *args->n_nodes < pipe->n + n)
        return sl_khop_advance_checked(args, pipe, wide, n);
    sl_khop_advance(args, pipe, wide, n, last);
    return SL_OK;
}

#endif
