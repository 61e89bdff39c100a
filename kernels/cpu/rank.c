/*
 * rank.c - marking a batch with its places in the hotness order, and splitting it by them.
 *
 * Marking reads one word a vertex, anywhere in an array over all vertices: a cache miss each. The
 * processor would overlap some of them by itself; asked for AHEAD vertices earlier, as many are in
 * flight as the core can have (random words of 80 MB: 78 to 101 M vertices a second on a
 * Cascade Lake; vector gathers 88 M). Vertices are compared with the bound in one vector pass ahead.
 *
 * Splitting looks at ranks that are as good as random, so a branch would be mispredicted once for
 * every few rows. Both lists are written for each row and only one of them grows; with AVX-512
 * sixteen rows at once are squeezed together in registers. What is written behind the end of a list
 * lies within its room for n: a list is never longer than the rows seen so far.
 */
#include "kernels/kernels_internal.h"

#include <stdatomic.h>

#include "common/base/error.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

#if defined(__x86_64__) && !defined(SL_SANITIZED)
#include <immintrin.h>
#define HAVE_X86 1
#endif

enum {
    AHEAD = 32,
    GRAIN_NODES = 1 << 14,
};

struct mark {
    const uint32_t *rank_of, *nodes;
    uint32_t *ranks;
};

static void mark_range(void *context, uint64_t begin, uint64_t end)
{
    const struct mark *mark = context;
    const uint32_t *rank_of = mark->rank_of, *nodes = mark->nodes;
    uint64_t i = begin;
    for (; i + AHEAD < end; i++) {
        __builtin_prefetch(&rank_of[nodes[i + AHEAD]]);
        mark->ranks[i] = rank_of[nodes[i]];
    }
    for (; i < end; i++)
        mark->ranks[i] = rank_of[nodes[i]];
}

int sl_cpu_mark_ranks(const uint32_t *rank_of, uint64_t n_nodes, const uint32_t *nodes, uint32_t n,
                      uint32_t *ranks)
{
    SL_TRY(sl_check_mark_ranks(rank_of, nodes, n, ranks));
    if (n > 0 && sl_cpu_largest(nodes, n) >= n_nodes)
        return sl_check_node_range(nodes, n, n_nodes);
    struct mark mark = {.rank_of = rank_of, .nodes = nodes, .ranks = ranks};
    sl_cpu_parallel_range(n, GRAIN_NODES, 16, mark_range, &mark);
    return SL_OK;
}

// Rows i .. n, behind those that are in the lists already.
static void split_plain(const uint32_t *nodes, const uint32_t *ranks, uint32_t i, uint32_t n,
                        uint32_t capacity, struct sl_row_split *out)
{
    uint32_t hits = out->n_hits, misses = out->n_misses;
    for (; i < n; i++) {
        uint32_t rank = ranks[i], is_hit = rank < capacity;
        out->hit_row[hits] = rank;
        out->hit_to[hits] = i;
        out->miss_row[misses] = nodes[i];
        out->miss_to[misses] = i;
        hits += is_hit;
        misses += !is_hit;
    }
    out->n_hits = hits;
    out->n_misses = misses;
}

#ifdef HAVE_X86

__attribute__((target("avx512f"))) static void split_avx512(const uint32_t *nodes,
                                                            const uint32_t *ranks, uint32_t n,
                                                            uint32_t capacity,
                                                            struct sl_row_split *out)
{
    const __m512i bound = _mm512_set1_epi32((int)capacity), step = _mm512_set1_epi32(16);
    __m512i to = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    uint32_t hits = 0, misses = 0, i = 0;
    // Squeezed in a register and stored whole: the instruction that does both is slow on some
    // processors. hits and misses are at most i, so sixteen more fit the room for n.
    for (; n - i >= 16; i += 16) {
        __m512i rank = _mm512_loadu_si512(ranks + i), node = _mm512_loadu_si512(nodes + i);
        __mmask16 hit = _mm512_cmplt_epu32_mask(rank, bound), miss = _knot_mask16(hit);
        _mm512_storeu_si512(out->hit_row + hits, _mm512_maskz_compress_epi32(hit, rank));
        _mm512_storeu_si512(out->hit_to + hits, _mm512_maskz_compress_epi32(hit, to));
        _mm512_storeu_si512(out->miss_row + misses, _mm512_maskz_compress_epi32(miss, node));
        _mm512_storeu_si512(out->miss_to + misses, _mm512_maskz_compress_epi32(miss, to));
        uint32_t n_hits = (uint32_t)__builtin_popcount(hit);
        hits += n_hits;
        misses += 16 - n_hits;
        to = _mm512_add_epi32(to, step);
    }
    out->n_hits = hits;
    out->n_misses = misses;
    split_plain(nodes, ranks, i, n, capacity, out);
}

#endif

static _Atomic int forced_path = SL_CPU_SPLIT_AUTO;

void sl_cpu_split_set_path(enum sl_cpu_split_path path)
{
    atomic_store_explicit(&forced_path, (int)path, memory_order_relaxed);
}

int sl_cpu_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n, uint32_t capacity,
                      struct sl_row_split *out)
{
    SL_TRY(sl_check_split_rows(nodes, ranks, n, out));
    out->n_hits = out->n_misses = 0;
#ifdef HAVE_X86
    if (atomic_load_explicit(&forced_path, memory_order_relaxed) == SL_CPU_SPLIT_AUTO &&
        __builtin_cpu_supports("avx512f")) {
        split_avx512(nodes, ranks, n, capacity, out);
        return SL_OK;
    }
#endif
    split_plain(nodes, ranks, 0, n, capacity, out);
    return SL_OK;
}
