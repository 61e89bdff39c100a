/*
 * rank.c - marking a batch with its places in the hotness order, and splitting it by them.
 *
 * Marking costs memory, not arithmetic: a vertex is anywhere, and after a batch was sampled little
 * of what marking reads is in a cache. An array of all ranks (4 V bytes) is a miss of the
 * second-level cache a vertex. A table of the hot ones alone is small, but a hit then needs two
 * reads, one to find that it is hot and one for its rank, and hits are most of a batch. So ranks
 * are counted and not stored (struct sl_rank_index): one read a vertex, from V/4 bytes. Sixteen
 * vertices at once have their words gathered whole, which takes half the loads that gathering both
 * halves takes; as much is in flight then as a core can have, and asking ahead gained nothing.
 * Streaming stores beside gathers made it five times as slow.
 *
 *      vertices, 36 ns each to sample     1 M, 24 % hits    8 M, 28 % hits    8 M, 70 % hits
 *      array of all ranks, huge pages     7.0 ns a vertex   10.8 ns           11.0 ns
 *      V/4 bytes, and a rank a hot one    3.6               9.2               15.6
 *      counted (this)                     2.3               5.5               5.5
 *
 * Vertices are compared with the bound on the way, and one beyond it reads the last vertex's word.
 *
 * Splitting looks at ranks that are as good as random, so a branch would be mispredicted once for
 * every few rows. Both lists are written for each row and only one of them grows; with AVX-512
 * sixteen rows at once are squeezed together in registers. What is written behind the end of a list
 * lies within its room for n: a list is never longer than the rows seen so far.
 */
#include "kernels/kernels_internal.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "kernels/check.h"
#include "kernels/cpu/cpu_internal.h"

#if defined(__x86_64__) && !defined(SL_SANITIZED)
#include <immintrin.h>
#define HAVE_X86 1
#endif

enum {
    AHEAD = 24,
    GRAIN_NODES = 1 << 14,
};

// What marking and splitting are told to do without.
static _Atomic int forced_path = SL_CPU_RANK_AUTO;

void sl_cpu_rank_set_path(enum sl_cpu_rank_path path)
{
    atomic_store_explicit(&forced_path, (int)path, memory_order_relaxed);
}

struct mark {
    const struct sl_rank_index *index;
    const uint32_t *nodes;
    uint32_t *ranks;
    bool vectors;
    _Atomic bool beyond; // a node is no vertex
};

// Rank of one vertex among those of `word`, all bits set when it is none of them.
static inline uint32_t rank_in(uint64_t word, uint32_t node)
{
    uint32_t bit = 1u << node % 32, members = (uint32_t)word;
    uint32_t rank = (uint32_t)(word >> 32) + (uint32_t)__builtin_popcount(members & (bit - 1));
    return rank | (((members & bit) != 0) - 1u);
}

// Returns the largest of the nodes. n_tiers is index->n_tiers: a constant where most jobs are.
static inline __attribute__((always_inline)) uint32_t mark_scalar(const struct sl_rank_index *index,
                                                                  uint32_t n_tiers,
                                                                  const uint32_t *nodes, uint64_t n,
                                                                  uint32_t *ranks)
{
    const uint64_t *words = index->words;
    const uint32_t last = (uint32_t)(index->n_nodes - 1);
    uint32_t largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t ahead = SL_MIN(nodes[SL_MIN(i + AHEAD, n - 1)], last);
        __builtin_prefetch(&words[(uint64_t)(ahead / 32) * n_tiers]);
        largest = SL_MAX(largest, nodes[i]);
        uint32_t node = SL_MIN(nodes[i], last), rank = SL_RANK_NONE;
        for (uint32_t t = 0; t < n_tiers; t++) // a vertex is in one of them, or none
            rank &= rank_in(words[(uint64_t)(node / 32) * n_tiers + t], node);
        ranks[i] = rank;
    }
    return largest;
}

// SL_SIMD: counting bits is an instruction of the better ones.
SL_SIMD(uint32_t, mark_plain,
        (const struct sl_rank_index *index, const uint32_t *nodes, uint64_t n, uint32_t *ranks),
        (index, nodes, n, ranks))
{
    return index->n_tiers == 1 ? mark_scalar(index, 1, nodes, n, ranks)
                               : mark_scalar(index, index->n_tiers, nodes, n, ranks);
}

#ifdef HAVE_X86
#define TARGET_VECTORS __attribute__((target("avx512f,avx512bw")))

// How many bits are set in each lane: a table of half bytes, then sums of neighbours.
TARGET_VECTORS static inline __m512i count_bits(__m512i x)
{
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i table =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    __m512i a = _mm512_shuffle_epi8(table, _mm512_and_si512(x, low));
    __m512i b = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi32(x, 4), low));
    __m512i pairs = _mm512_maddubs_epi16(_mm512_add_epi8(a, b), _mm512_set1_epi8(1));
    return _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}

// The tier's members among these vertices, whose words are at `at`, get their ranks.
TARGET_VECTORS static inline __m512i mark_tier(const uint64_t *words, __m512i at, __m512i node,
                                               __m512i rank)
{
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    __m512i a = _mm512_i32gather_epi64(_mm512_castsi512_si256(at), words, 8);
    __m512i b = _mm512_i32gather_epi64(_mm512_extracti64x4_epi64(at, 1), words, 8);
    __m512i members = _mm512_permutex2var_epi32(a, even, b);
    __m512i first = _mm512_permutex2var_epi32(a, _mm512_add_epi32(even, one), b);
    __m512i bit = _mm512_sllv_epi32(one, _mm512_and_si512(node, _mm512_set1_epi32(31)));
    __m512i below = _mm512_and_si512(members, _mm512_sub_epi32(bit, one));
    return _mm512_mask_add_epi32(rank, _mm512_test_epi32_mask(members, bit), first,
                                 count_bits(below));
}

// Sixteen vertices below the bound. There are fewer than 2^27 words a tier: 32-bit offsets do.
TARGET_VECTORS static inline __m512i mark_sixteen(const struct sl_rank_index *index,
                                                  uint32_t n_tiers, __m512i node)
{
    __m512i rank = _mm512_set1_epi32((int)SL_RANK_NONE), at = _mm512_srli_epi32(node, 5);
    if (n_tiers > 1)
        at = _mm512_mullo_epi32(at, _mm512_set1_epi32((int)n_tiers));
    for (uint32_t t = 0; t < n_tiers; t++)
        rank = mark_tier(index->words + t, at, node, rank);
    return rank;
}

// As mark_scalar().
TARGET_VECTORS static inline uint32_t mark_vectors(const struct sl_rank_index *index,
                                                   uint32_t n_tiers, const uint32_t *nodes,
                                                   uint64_t n, uint32_t *ranks)
{
    const __m512i last = _mm512_set1_epi32((int)(uint32_t)(index->n_nodes - 1));
    __m512i largest = _mm512_setzero_si512();
    uint64_t i = 0;
    for (; n - i >= 16; i += 16) {
        __m512i node = _mm512_loadu_si512(nodes + i);
        largest = _mm512_max_epu32(largest, node);
        _mm512_storeu_si512(ranks + i, mark_sixteen(index, n_tiers, _mm512_min_epu32(node, last)));
    }
    if (i < n) {
        __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
        __m512i node = _mm512_maskz_loadu_epi32(rest, nodes + i);
        largest = _mm512_max_epu32(largest, node);
        _mm512_mask_storeu_epi32(ranks + i, rest,
                                 mark_sixteen(index, n_tiers, _mm512_min_epu32(node, last)));
    }
    return _mm512_reduce_max_epu32(largest);
}

TARGET_VECTORS static uint32_t mark_avx512(const struct sl_rank_index *index, const uint32_t *nodes,
                                           uint64_t n, uint32_t *ranks)
{
    switch (index->n_tiers) {
    case 1: return mark_vectors(index, 1, nodes, n, ranks);
    case 2: return mark_vectors(index, 2, nodes, n, ranks);
    default: return mark_vectors(index, index->n_tiers, nodes, n, ranks);
    }
}

static bool has_vectors(void)
{
    return sl_isa() >= SL_ISA_AVX512;
}

#endif

static void mark_range(void *context, uint64_t begin, uint64_t end)
{
    struct mark *mark = context;
    const uint32_t *nodes = mark->nodes + begin;
    uint32_t largest, *ranks = mark->ranks + begin;
#ifdef HAVE_X86
    if (mark->vectors)
        largest = mark_avx512(mark->index, nodes, end - begin, ranks);
    else
#endif
        largest = mark_plain(mark->index, nodes, end - begin, ranks);
    if (largest >= mark->index->n_nodes)
        atomic_store_explicit(&mark->beyond, true, memory_order_relaxed);
}

int sl_cpu_mark_ranks(const struct sl_rank_index *index, const uint32_t *nodes, uint32_t n,
                      uint32_t *ranks)
{
    SL_TRY(sl_check_mark_ranks(index, nodes, n, ranks));
    if (n == 0)
        return SL_OK;
    if (index->n_nodes == 0 || index->n_tiers == 0) {
        SL_TRY(sl_check_node_range(nodes, n, index->n_nodes));
        memset(ranks, 0xff, n * sizeof *ranks);
        return SL_OK;
    }
    struct mark mark = {.index = index, .nodes = nodes, .ranks = ranks};
#ifdef HAVE_X86
    mark.vectors = atomic_load_explicit(&forced_path, memory_order_relaxed) == SL_CPU_RANK_AUTO &&
                   has_vectors();
#endif
    sl_cpu_parallel_range(n, GRAIN_NODES, 16, mark_range, &mark);
    return atomic_load(&mark.beyond) ? sl_check_node_range(nodes, n, index->n_nodes) : SL_OK;
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

int sl_cpu_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n, uint32_t capacity,
                      struct sl_row_split *out)
{
    SL_TRY(sl_check_split_rows(nodes, ranks, n, out));
    out->n_hits = out->n_misses = 0;
#ifdef HAVE_X86
    if (atomic_load_explicit(&forced_path, memory_order_relaxed) == SL_CPU_RANK_AUTO &&
        sl_isa() >= SL_ISA_AVX512) {
        split_avx512(nodes, ranks, n, capacity, out);
        return SL_OK;
    }
#endif
    split_plain(nodes, ranks, 0, n, capacity, out);
    return SL_OK;
}
