/*
 * weighted_lane.h - the draws of one row by weight, cut into steps so that many rows take turns.
 *
 * The definition (kernels/weighted_internal.h) lays what is left of the row end to end. Here the
 * row stays where it is, in its running sums, and what has been drawn is kept in the order of the
 * file, each edge with
 *
 *     start   where its interval would begin if all that was drawn before it were closed up
 *     gone    the weight of the drawn edges before it
 *
 * so a point x lies behind the drawn edges whose start is at most x, and over the first edge
 * there with x < prefix - gone. The first is a count over a short array, the second a binary
 * search. All sums are exact (the grid), so this is the definition's edge, found another way.
 *
 * One array costs k / 2 moves an insertion, the square of the fanout in all. Beyond CHUNK drawn
 * edges it is therefore cut into chunks, whose start and gone count from the chunk's first edge on;
 * a chunk that is full is cut in two. A draw then looks at each chunk once. From hubs of 600 000
 * edges on 4 KiB pages a draw takes 0.4 us at a fanout of 64, 0.9 at 1024, 1.0 at 4096 and 1.5 at
 * SL_KHOP_FANOUT_MAX (Cascade Lake).
 *
 * Excluded edges are among the drawn ones from the start, in a lane with room for them as well.
 */
#ifndef SL_KERNELS_CPU_WEIGHTED_LANE_H
#define SL_KERNELS_CPU_WEIGHTED_LANE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/bits.h"
#include "kernels/cpu/vector.h"
#include "kernels/excluded_internal.h"

enum { SL_WEIGHTED_CHUNK = 512 };

// Drawn edges that follow each other in the file.
struct sl_weighted_chunk {
    uint32_t n;
    double *start; // (capacity)
    double *gone;  // (capacity + 1) gone[n]: all of them
    uint32_t *at;  // (capacity) positions in the row, rising
};

struct sl_weighted_lane {
    const double *prefix; // (degree)
    uint32_t degree;
    uint32_t n_drawn;
    double left; // weight that has not been drawn
    // The search in hand: the edge is one of low .. low + n - 1.
    double x, shift;
    uint32_t low, n;
    uint32_t chunk, slot; // where it will be inserted
    // What has been drawn.
    uint32_t capacity; // of a chunk
    uint32_t n_chunks, n_pool;
    struct sl_weighted_chunk **chunks; // in the order of the file, at least one
    struct sl_weighted_chunk *pool;
    uint32_t *drawn; // (fanout) in the order of the slots
};

static inline uint32_t sl_weighted_chunk_capacity(uint32_t k)
{
    return SL_MIN(k, (uint32_t)SL_WEIGHTED_CHUNK);
}

// Chunks are at least half full once there are two.
static inline uint32_t sl_weighted_chunks(uint32_t k)
{
    return k <= SL_WEIGHTED_CHUNK ? 1 : k / (SL_WEIGHTED_CHUNK / 2) + 1;
}

// Memory of a lane for rows that ask for k neighbours, a multiple of a cache line.
static inline size_t sl_weighted_lane_bytes(uint32_t k)
{
    size_t capacity = sl_weighted_chunk_capacity(k), chunks = sl_weighted_chunks(k);
    size_t doubles = chunks * (2 * capacity + 1), words = chunks * capacity + k;
    return sl_align_up(doubles * sizeof(double) + words * sizeof(uint32_t) +
                           chunks * (sizeof(struct sl_weighted_chunk) + sizeof(void *)),
                       SL_CACHE_LINE);
}

// Lays a lane out in that memory, aligned to a cache line.
static inline void sl_weighted_lane_init(struct sl_weighted_lane *lane, uint32_t k, void *memory)
{
    uint32_t capacity = sl_weighted_chunk_capacity(k), chunks = sl_weighted_chunks(k);
    lane->capacity = capacity;
    lane->pool = memory;
    lane->chunks = (struct sl_weighted_chunk **)(lane->pool + chunks);
    double *doubles = (double *)(lane->chunks + chunks);
    uint32_t *words = (void *)(doubles + (size_t)chunks * (2 * (size_t)capacity + 1));
    for (uint32_t c = 0; c < chunks; c++) {
        lane->pool[c].start = doubles;
        lane->pool[c].gone = doubles + capacity;
        lane->pool[c].at = words;
        doubles += 2 * (size_t)capacity + 1;
        words += capacity;
    }
    lane->drawn = words;
}

// Takes up a row of `degree` > 0 edges.
SL_INLINE void sl_weighted_lane_open(struct sl_weighted_lane *lane, const double *prefix,
                                     uint32_t degree)
{
    lane->prefix = prefix;
    lane->degree = degree;
    lane->left = prefix[degree - 1];
    lane->n_drawn = 0;
    lane->n_chunks = lane->n_pool = 1;
    lane->chunks[0] = &lane->pool[0];
    lane->pool[0].n = 0;
    lane->pool[0].gone[0] = 0;
}

// Takes the row's excluded edges away, before its first draw. The lane has room for them and for k
// neighbours: where that is several chunks, they are left half full.
static inline void sl_weighted_lane_exclude(struct sl_weighted_lane *lane, uint32_t k,
                                            struct sl_excluded_row out)
{
    const uint32_t fill = sl_weighted_chunks(k + out.n) > 1 ? SL_WEIGHTED_CHUNK / 2 : out.n;
    struct sl_weighted_chunk *chunk = lane->chunks[0];
    for (uint32_t i = 0; i < out.n; i++) {
        const uint32_t edge = out.at[i];
        const double begin = edge > 0 ? lane->prefix[edge - 1] : 0.0;
        const double weight = lane->prefix[edge] - begin;
        if (chunk->n == fill) {
            chunk = lane->chunks[lane->n_chunks++] = &lane->pool[lane->n_pool++];
            chunk->n = 0;
            chunk->gone[0] = 0;
        }
        chunk->at[chunk->n] = edge;
        chunk->start[chunk->n] = begin - chunk->gone[chunk->n];
        chunk->gone[chunk->n + 1] = chunk->gone[chunk->n] + weight;
        chunk->n++;
        lane->left -= weight;
    }
}

// Leaves in the chunks only what was drawn.
static inline void sl_weighted_lane_strip(struct sl_weighted_lane *lane, struct sl_excluded_row out)
{
    uint32_t next = 0;
    for (uint32_t c = 0; c < lane->n_chunks; c++) {
        struct sl_weighted_chunk *chunk = lane->chunks[c];
        uint32_t kept = 0;
        for (uint32_t j = 0; j < chunk->n; j++) {
            const uint32_t edge = chunk->at[j];
            if (next < out.n && out.at[next] == edge)
                next++;
            else
                chunk->at[kept++] = edge;
        }
        chunk->n = kept;
    }
}

// Begins the search for the edge at x, which is below lane->left.
SL_INLINE void sl_weighted_lane_begin(struct sl_weighted_lane *lane, double x)
{
    uint32_t c = 0, slot = 0;
    double shift = 0;
    while (__builtin_expect(c + 1 < lane->n_chunks, 0)) {
        double behind = shift + lane->chunks[c]->gone[lane->chunks[c]->n];
        if (!(lane->chunks[c + 1]->start[0] - behind <= x))
            break;
        shift = behind;
        c++;
    }
    const struct sl_weighted_chunk *chunk = lane->chunks[c];
    for (uint32_t j = 0; j < chunk->n; j++)
        slot += chunk->start[j] - shift <= x;
    // A chunk other than the first begins with an edge that x lies behind, so slot > 0 there.
    uint32_t end = lane->degree;
    if (slot < chunk->n)
        end = chunk->at[slot];
    else if (c + 1 < lane->n_chunks)
        end = lane->chunks[c + 1]->at[0];
    lane->low = slot > 0 ? chunk->at[slot - 1] + 1 : 0;
    lane->n = end - lane->low;
    __builtin_prefetch(&lane->prefix[lane->low + lane->n / 2 - (lane->n > 1)]);
    lane->x = x;
    lane->shift = shift + chunk->gone[slot];
    lane->chunk = c;
    lane->slot = slot;
}

// One probe, and asks for the word of the next one. Returns whether there is a next one.
SL_INLINE uint32_t sl_weighted_lane_probe(struct sl_weighted_lane *lane)
{
    uint32_t half = lane->n / 2, n = lane->n - half;
    uint32_t low = lane->low;
    low += lane->prefix[low + half - 1] - lane->shift <= lane->x ? half : 0;
    __builtin_prefetch(&lane->prefix[low + n / 2 - (n > 1)]);
    lane->low = low;
    lane->n = n;
    return n > 1;
}

// Cuts a full chunk in two.
static inline void sl_weighted_lane_split(struct sl_weighted_lane *lane, uint32_t c)
{
    struct sl_weighted_chunk *from = lane->chunks[c], *to = &lane->pool[lane->n_pool++];
    uint32_t keep = from->n / 2;
    double gone = from->gone[keep];
    to->n = from->n - keep;
    for (uint32_t j = 0; j < to->n; j++) {
        to->at[j] = from->at[keep + j];
        to->start[j] = from->start[keep + j] + gone;
        to->gone[j] = from->gone[keep + j] - gone;
    }
    to->gone[to->n] = from->gone[from->n] - gone;
    from->n = keep;
    memmove(lane->chunks + c + 2, lane->chunks + c + 1,
            (lane->n_chunks - c - 1) * sizeof lane->chunks[0]);
    lane->chunks[c + 1] = to;
    lane->n_chunks++;
}

// Notes the edge that the search has come to, which stays.
SL_INLINE void sl_weighted_lane_note(struct sl_weighted_lane *lane)
{
    lane->drawn[lane->n_drawn++] = lane->low;
}

// Notes it and takes it away.
SL_INLINE void sl_weighted_lane_take(struct sl_weighted_lane *lane)
{
    uint32_t edge = lane->low, c = lane->chunk, slot = lane->slot;
    double begin = edge > 0 ? lane->prefix[edge - 1] : 0.0, weight = lane->prefix[edge] - begin;
    struct sl_weighted_chunk *chunk = lane->chunks[c];
    if (__builtin_expect(chunk->n == lane->capacity, 0)) {
        sl_weighted_lane_split(lane, c);
        if (slot > chunk->n) {
            slot -= chunk->n;
            chunk = lane->chunks[c + 1];
        }
    }
    chunk->gone[chunk->n + 1] = chunk->gone[chunk->n] + weight;
    for (uint32_t j = chunk->n; j > slot; j--) {
        chunk->at[j] = chunk->at[j - 1];
        chunk->start[j] = chunk->start[j - 1] - weight;
        chunk->gone[j] = chunk->gone[j - 1] + weight;
    }
    chunk->at[slot] = edge;
    chunk->start[slot] = begin - chunk->gone[slot];
    chunk->n++;
    sl_weighted_lane_note(lane);
    lane->left -= weight;
}

#endif
