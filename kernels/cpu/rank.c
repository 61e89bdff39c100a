/*
 * rank.c - marking a batch with its places in the hotness order, and splitting it by them.
 *
 * Marking costs memory, not arithmetic: a vertex is anywhere, and after a batch was sampled little
 * of what marking reads is in a cache. An array of all ranks (4 V bytes) is a miss of the
 * second-level cache a vertex. A table of the hot ones alone is small, but a hit then needs two
 * reads, one to find that it is hot and one for its rank, and hits are most of a batch. So ranks
 * are counted and not stored (struct sl_rank_index): one read a vertex, from V/4 bytes. Sixteen
 * vertices at once have their words gathered whole, which takes half the loads that gathering both
 * halves takes. Words are asked for ahead all the same: a fifth to a third of the time where they
 * are not in a cache (EPYC Zen 4; it gained nothing on Cascade Lake). Streaming stores beside
 * gathers made it five times as slow.
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
 * sixteen rows at once are squeezed together in registers, with AVX2 eight by way of a table. What
 * is written behind the end of a list lies within its room for n: a list is never longer than the
 * rows seen so far.
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

struct mark {
    const struct sl_rank_index *index;
    const uint32_t *nodes;
    uint32_t *ranks;
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
// Asks for the words of these vertices; n is a constant.
SL_SIMD_INLINE void ask_ahead(const struct sl_rank_index *index, uint32_t n_tiers,
                              const uint32_t *nodes, int n)
{
    const uint32_t last = (uint32_t)(index->n_nodes - 1);
    for (int l = 0; l < n; l++)
        __builtin_prefetch(&index->words[(uint64_t)(SL_MIN(nodes[l], last) / 32) * n_tiers]);
}

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
        if (n - i >= AHEAD + 16)
            ask_ahead(index, n_tiers, nodes + i + AHEAD, 16);
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

#define TARGET_AVX2 __attribute__((target("avx2,popcnt")))

// The same for eight vertices.
TARGET_AVX2 static inline __m256i count_bits8(__m256i x)
{
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    __m256i a = _mm256_shuffle_epi8(table, _mm256_and_si256(x, low));
    __m256i b = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi32(x, 4), low));
    __m256i pairs = _mm256_maddubs_epi16(_mm256_add_epi8(a, b), _mm256_set1_epi8(1));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

TARGET_AVX2 static inline __m256i mark_tier8(const uint64_t *words, __m256i at, __m256i node,
                                             __m256i rank)
{
    const __m256i one = _mm256_set1_epi32(1);
    const long long *from = (const long long *)words;
    __m256 a = _mm256_castsi256_ps(_mm256_i32gather_epi64(from, _mm256_castsi256_si128(at), 8));
    __m256 b =
        _mm256_castsi256_ps(_mm256_i32gather_epi64(from, _mm256_extracti128_si256(at, 1), 8));
    // In the order 0 1 4 5 2 3 6 7, and then in theirs.
    __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));
    __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
    __m256i members = _mm256_permute4x64_epi64(even, _MM_SHUFFLE(3, 1, 2, 0));
    __m256i first = _mm256_permute4x64_epi64(odd, _MM_SHUFFLE(3, 1, 2, 0));
    __m256i bit = _mm256_sllv_epi32(one, _mm256_and_si256(node, _mm256_set1_epi32(31)));
    __m256i below = _mm256_and_si256(members, _mm256_sub_epi32(bit, one));
    __m256i found = _mm256_add_epi32(first, count_bits8(below));
    __m256i is_member = _mm256_cmpeq_epi32(_mm256_and_si256(members, bit), bit);
    return _mm256_blendv_epi8(rank, found, is_member);
}

TARGET_AVX2 static inline uint32_t mark_eights(const struct sl_rank_index *index, uint32_t n_tiers,
                                               const uint32_t *nodes, uint64_t n, uint32_t *ranks)
{
    const __m256i last = _mm256_set1_epi32((int)(uint32_t)(index->n_nodes - 1));
    __m256i largest = _mm256_setzero_si256();
    uint64_t i = 0;
    for (; n - i >= 8; i += 8) {
        if (n - i >= AHEAD + 8)
            ask_ahead(index, n_tiers, nodes + i + AHEAD, 8);
        __m256i node = _mm256_loadu_si256((const __m256i *)(nodes + i));
        largest = _mm256_max_epu32(largest, node);
        node = _mm256_min_epu32(node, last);
        __m256i rank = _mm256_set1_epi32(-1), at = _mm256_srli_epi32(node, 5);
        if (n_tiers > 1)
            at = _mm256_mullo_epi32(at, _mm256_set1_epi32((int)n_tiers));
        for (uint32_t t = 0; t < n_tiers; t++)
            rank = mark_tier8(index->words + t, at, node, rank);
        _mm256_storeu_si256((__m256i *)(ranks + i), rank);
    }
    uint32_t lane[8], most = mark_scalar(index, n_tiers, nodes + i, n - i, ranks + i);
    _mm256_storeu_si256((__m256i *)lane, largest);
    for (int l = 0; l < 8; l++)
        most = SL_MAX(most, lane[l]);
    return most;
}

TARGET_AVX2 static uint32_t mark_avx2(const struct sl_rank_index *index, const uint32_t *nodes,
                                      uint64_t n, uint32_t *ranks)
{
    switch (index->n_tiers) {
    case 1: return mark_eights(index, 1, nodes, n, ranks);
    case 2: return mark_eights(index, 2, nodes, n, ranks);
    default: return mark_eights(index, index->n_tiers, nodes, n, ranks);
    }
}

#endif

// As mark_scalar().
static uint32_t mark_nodes(const struct sl_rank_index *index, const uint32_t *nodes, uint64_t n,
                           uint32_t *ranks)
{
#ifdef HAVE_X86
    const enum sl_isa isa = sl_isa();
    if (isa >= SL_ISA_AVX512)
        return mark_avx512(index, nodes, n, ranks);
    if (isa >= SL_ISA_AVX2)
        return mark_avx2(index, nodes, n, ranks);
#endif
    return mark_plain(index, nodes, n, ranks);
}

static void mark_range(void *context, uint64_t begin, uint64_t end)
{
    struct mark *mark = context;
    uint32_t largest =
        mark_nodes(mark->index, mark->nodes + begin, end - begin, mark->ranks + begin);
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

// For each set of eight lanes, where its members are: a byte each, the first one lowest.
// (_pext_u64 would say it, in up to hundreds of cycles on some processors with AVX2.)
#define BEFORE(set, lane, rest)                                                                    \
    ((uint64_t)(rest) << ((set) >> (lane)&1u) * 8 | ((set) >> (lane)&1u) * (lane))
#define PLACES_OF_LOW(set, rest)                                                                   \
    BEFORE(set, 0, BEFORE(set, 1, BEFORE(set, 2, BEFORE(set, 3, rest))))
#define PLACES(set)                                                                                \
    PLACES_OF_LOW(set, BEFORE(set, 4, BEFORE(set, 5, BEFORE(set, 6, BEFORE(set, 7, 0)))))
#define PLACES_4(set)  PLACES(set), PLACES((set) + 1), PLACES((set) + 2), PLACES((set) + 3)
#define PLACES_16(set) PLACES_4(set), PLACES_4((set) + 4), PLACES_4((set) + 8), PLACES_4((set) + 12)
#define PLACES_64(set)                                                                             \
    PLACES_16(set), PLACES_16((set) + 16), PLACES_16((set) + 32), PLACES_16((set) + 48)
static const uint64_t places[256] = {PLACES_64(0u), PLACES_64(64u), PLACES_64(128u),
                                     PLACES_64(192u)};

// Stores the lanes that are in the set, in their order, and behind them anything.
TARGET_AVX2 static inline void store_set(uint32_t *to, __m256i x, uint32_t set)
{
    __m256i place = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)&places[set]));
    _mm256_storeu_si256((__m256i *)to, _mm256_permutevar8x32_epi32(x, place));
}

// As split_avx512().
TARGET_AVX2 static void split_avx2(const uint32_t *nodes, const uint32_t *ranks, uint32_t n,
                                   uint32_t capacity, struct sl_row_split *out)
{
    const __m256i bound = _mm256_set1_epi32((int)capacity), step = _mm256_set1_epi32(8);
    __m256i to = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    uint32_t hits = 0, misses = 0, i = 0;
    for (; n - i >= 8; i += 8) {
        __m256i rank = _mm256_loadu_si256((const __m256i *)(ranks + i));
        __m256i node = _mm256_loadu_si256((const __m256i *)(nodes + i));
        // rank >= bound, of numbers without a sign
        __m256i is_miss = _mm256_cmpeq_epi32(_mm256_max_epu32(rank, bound), rank);
        uint32_t miss = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(is_miss));
        uint32_t hit = ~miss & 0xFFu, n_hits = (uint32_t)__builtin_popcount(hit);
        store_set(out->hit_row + hits, rank, hit);
        store_set(out->hit_to + hits, to, hit);
        store_set(out->miss_row + misses, node, miss);
        store_set(out->miss_to + misses, to, miss);
        hits += n_hits;
        misses += 8 - n_hits;
        to = _mm256_add_epi32(to, step);
    }
    out->n_hits = hits;
    out->n_misses = misses;
    split_plain(nodes, ranks, i, n, capacity, out);
}

#endif

int sl_cpu_split_rows(const uint32_t *nodes, const uint32_t *ranks, uint32_t n,
                      const struct sl_spread *held, struct sl_row_split *out)
{
    SL_TRY(sl_check_split_rows(nodes, ranks, n, held, out));
    if (held->n_parts > 0) // of GPUs
        return sl_ref_split_rows(nodes, ranks, n, held, out);
    const uint32_t capacity = (uint32_t)SL_MIN(held->n_near, (uint64_t)UINT32_MAX);
    out->n_hits = out->n_misses = 0;
#ifdef HAVE_X86
    const enum sl_isa isa = sl_isa();
    if (isa >= SL_ISA_AVX2) {
        (isa >= SL_ISA_AVX512 ? split_avx512 : split_avx2)(nodes, ranks, n, capacity, out);
        return SL_OK;
    }
#endif
    split_plain(nodes, ranks, 0, n, capacity, out);
    return SL_OK;
}
