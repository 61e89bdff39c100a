/*
 * Each check is one expression over element v[i], from which SCAN() makes two functions: any_NAME()
 * ORs it over a block without a branch (one vector compare a register), and first_NAME() looks for
 * the position. They cannot disagree.
 *
 * Signed ids are compared as unsigned: a negative one is then larger than any limit.
 *
 * Mapped pages come in through the loop's own page faults. Populating each block with one system
 * call instead (MADV_POPULATE_READ) was measured and costs the same. The next blocks are asked for
 * with MADV_WILLNEED, so that a cold file is read ahead while this one is reduced. Advice is only
 * advice: its errors are ignored.
 *
 * A sample is blocks at equal distances. What is looked at of features is not wanted again soon:
 * its pages are the first to go where memory is short (MADV_COLD), before those of the graph.
 */
#include "common/data/scan.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "common/base/threads.h"

enum {
    BLOCK_BYTES = 1 << 20,
    AHEAD_BYTES = 8 << 20,
    PAGE_BYTES = 4096,
    COLD_BYTES = 1 << 30, // smaller files may well be wanted in memory
};

typedef bool any_bad_fn(const void *v, uint64_t n, uint64_t limit);
typedef uint64_t first_bad_fn(const void *v, uint64_t n, uint64_t limit);

struct check {
    any_bad_fn *any;
    first_bad_fn *first;
};

// `word` is the accumulator's, an integer of the data's size: a lane of it is a lane of the data.
#define SCAN_AS(name, type, word, bad)                                                             \
    SL_SIMD(bool, any_##name, (const void *data, uint64_t n, uint64_t limit), (data, n, limit))    \
    {                                                                                              \
        const type *v = data;                                                                      \
        const type max = (type)limit;                                                              \
        word acc = 0;                                                                              \
        (void)max;                                                                                 \
        for (uint64_t i = 0; i < n; i++)                                                           \
            acc |= (word)(bad);                                                                    \
        return acc != 0;                                                                           \
    }                                                                                              \
    static uint64_t first_##name(const void *data, uint64_t n, uint64_t limit)                     \
    {                                                                                              \
        const type *v = data;                                                                      \
        const type max = (type)limit;                                                              \
        uint64_t i = 0;                                                                            \
        (void)max;                                                                                 \
        while (i < n && !(bad))                                                                    \
            i++;                                                                                   \
        return i;                                                                                  \
    }
#define SCAN(name, type, bad) SCAN_AS(name, type, type, bad)

SCAN(id32, uint32_t, v[i] >= max)
SCAN(id64, uint64_t, v[i] >= max)
// The limit holds two numbers: ids from `limit >> 32` on, as many as the lower half says.
SCAN(range32, uint32_t, v[i] - (uint32_t)(limit >> 32) >= max)
SCAN(range64, uint64_t, v[i] - (limit >> 32) >= (max & UINT32_MAX))

// v + 1 as unsigned puts -1 at 0 and other negatives at the top: in range means v + 1 <= n_classes.
SCAN(label8, uint8_t, (uint8_t)(v[i] + 1) > max)
SCAN(label16, uint16_t, (uint16_t)(v[i] + 1) > max)
SCAN(label32, uint32_t, v[i] + 1 > max)
SCAN(label64, uint64_t, v[i] + 1 > max)
// Unsigned labels have no -1: in range means v < n_classes.
SCAN(ulabel8, uint8_t, v[i] >= max)
SCAN(ulabel16, uint16_t, v[i] >= max)

SCAN(f32, uint32_t, (v[i] & 0x7f800000u) == 0x7f800000u)
SCAN(f16, uint16_t, (v[i] & 0x7c00u) == 0x7c00u)

// A fall wraps around to a huge rise: offsets before the first bad one are at most limit < 2^63.
SCAN(offset, uint64_t, (v[i] - v[i - 1] > UINT32_MAX) | (v[i] > max))
SCAN(descent32, uint32_t, v[i] <= v[i - 1])
SCAN(descent64, uint64_t, v[i] <= v[i - 1])

// Floating point: NaN compares false. The limit is rounded to the type. Where that makes it larger,
// no value lies between the two; where smaller, from 2^24 classes in float32 on, the last class is
// refused.
SCAN_AS(class_f32, float, uint32_t,
        (v[i] < -1) | (v[i] >= max) | ((truncf(v[i]) != v[i]) & (v[i] == v[i])))
SCAN_AS(class_f64, double, uint64_t,
        (v[i] < -1) | (v[i] >= max) | ((trunc(v[i]) != v[i]) & (v[i] == v[i])))
SCAN_AS(flag_f32, float, uint32_t, (v[i] > 0) & (v[i] != 1))
SCAN_AS(flag_f64, double, uint64_t, (v[i] > 0) & (v[i] != 1))
SCAN_AS(number_f32, float, uint32_t, (v[i] > FLT_MAX) | (v[i] < -FLT_MAX))
SCAN_AS(number_f64, double, uint64_t, (v[i] > (double)FLT_MAX) | (v[i] < -(double)FLT_MAX))
SCAN(flag8, int8_t, v[i] > 1)
SCAN(uflag8, uint8_t, v[i] > 1)
SCAN(flag32, int32_t, v[i] > 1)
SCAN(flag64, int64_t, v[i] > 1)

// Written out: the accumulator is not of the data's type. -0.0 is not negative.
SL_SIMD(bool, any_weight, (const void *data, uint64_t n, uint64_t limit), (data, n, limit))
{
    const float *v = data;
    uint32_t acc = 0;
    for (uint64_t i = 0; i < n; i++)
        acc |= !(v[i] >= 0.0f) | !(v[i] <= FLT_MAX);
    return acc != 0;
}

static uint64_t first_weight(const void *data, uint64_t n, uint64_t limit)
{
    const float *v = data;
    uint64_t i = 0;
    while (i < n && v[i] >= 0.0f && v[i] <= FLT_MAX)
        i++;
    return i;
}

SL_SIMD(uint64_t, largest_rise, (const uint64_t *v, uint64_t n), (v, n))
{
    uint64_t most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = SL_MAX(most, v[i] - v[i - 1]);
    return most;
}

SL_SIMD(bool, any_equal32, (const uint32_t *v, uint64_t n, uint64_t id), (v, n, id))
{
    uint32_t acc = 0;
    for (uint64_t i = 0; i < n; i++)
        acc |= v[i] == (uint32_t)id;
    return acc != 0;
}

SL_SIMD(bool, any_equal64, (const uint64_t *v, uint64_t n, uint64_t id), (v, n, id))
{
    uint64_t acc = 0;
    for (uint64_t i = 0; i < n; i++)
        acc |= v[i] == id;
    return acc != 0;
}

SL_SIMD(uint64_t, falls32, (const uint32_t *v, uint64_t n), (v, n))
{
    uint64_t falls = 0;
    for (uint64_t i = 0; i < n; i++)
        falls += v[i] < v[i - 1];
    return falls;
}

SL_SIMD(uint64_t, falls64, (const uint64_t *v, uint64_t n), (v, n))
{
    uint64_t falls = 0;
    for (uint64_t i = 0; i < n; i++)
        falls += v[i] < v[i - 1];
    return falls;
}

// ---- the pass over blocks -----------------------------------------------------------------------

struct pass {
    struct check check;
    const char *data;
    uint64_t n, limit;
    size_t elem_bytes;
    uint64_t n_sampled;              // blocks that are looked at, all of them where it is 0
    bool cold;                       // not wanted again
    _Atomic uint64_t *max_rise;      // wanted for offsets only
    const struct sl_dataset *graph;  // wanted for neighbours only: what is found out of them,
    const struct sl_scan_rows *rows; // of these rows; data begins with their first edge
    _Atomic bool loops;              // there is a self-loop
    _Atomic bool falls;              // the neighbours of some vertex do not stand in rising order
    const struct sl_dataset_watch *watch;
};

static uint64_t block_elems(const struct pass *p)
{
    return BLOCK_BYTES / p->elem_bytes;
}

// Rounded outwards to whole pages; none of these advices changes what a page holds.
static void advise(const char *from, uint64_t bytes, int advice)
{
    uintptr_t begin = (uintptr_t)from & ~(uintptr_t)(PAGE_BYTES - 1);
    uintptr_t end = sl_align_up((uintptr_t)from + bytes, PAGE_BYTES);
    (void)madvise((void *)begin, end - begin, advice);
}

// Whether one of the edges begin .. end - 1 leads from a vertex to itself.
static bool has_loop(const struct pass *p, uint64_t begin, uint64_t end)
{
    const struct sl_dataset *ds = p->graph;
    uint64_t at = begin;
    for (uint64_t row = sl_row_of_edge(p->graph, p->rows->first_row, p->rows->n_rows, begin);
         at < end; row++) {
        const uint64_t stop = SL_MIN(ds->indptr[row + 1], end);
        const uint64_t v = row - p->rows->first_row + p->rows->vertex;
        const bool found = p->elem_bytes == 4
                               ? any_equal32((const uint32_t *)ds->indices + at, stop - at, v)
                               : any_equal64((const uint64_t *)ds->indices + at, stop - at, v);
        if (found)
            return true;
        at = stop;
    }
    return false;
}

// Whether one of the edges begin .. end - 1 has a smaller source than the one before it in its
// list. All falls of the block are counted at once, and then those from one list to the next.
static bool has_fall(const struct pass *p, uint64_t begin, uint64_t end)
{
    const struct sl_dataset *ds = p->graph;
    const uint64_t first = SL_MAX(begin, (uint64_t)1);
    uint64_t falls = p->elem_bytes == 4
                         ? falls32((const uint32_t *)ds->indices + first, end - first)
                         : falls64((const uint64_t *)ds->indices + first, end - first);
    uint64_t row = sl_row_of_edge(p->graph, p->rows->first_row, p->rows->n_rows, first);
    for (uint64_t at = ds->indptr[row]; falls > 0 && at < end; at = ds->indptr[++row])
        if (at >= first && ds->indptr[row + 1] > at)
            falls -= sl_dataset_source(ds, at) < sl_dataset_source(ds, at - 1);
    return falls > 0;
}

// The i-th block that is looked at.
static uint64_t block_of(const struct pass *p, uint64_t i)
{
    const uint64_t blocks = sl_div_up(p->n, block_elems(p));
    if (p->n_sampled < 2)
        return i;
    return (uint64_t)((unsigned __int128)i * (blocks - 1) / (p->n_sampled - 1));
}

static bool visit(void *ctx, uint64_t i)
{
    struct pass *p = ctx;
    uint64_t per = block_elems(p), begin = block_of(p, i) * per, n = SL_MIN(per, p->n - begin);
    const char *data = p->data + begin * p->elem_bytes;
    uint64_t left = (p->n - begin) * p->elem_bytes;
    if (p->n_sampled)
        advise(data, n * p->elem_bytes, MADV_WILLNEED);
    else if (left > AHEAD_BYTES)
        advise(data + AHEAD_BYTES, SL_MIN(left - AHEAD_BYTES, BLOCK_BYTES), MADV_WILLNEED);
    if (p->check.any(data, n, p->limit))
        return true;
    const uint64_t edge = p->graph ? p->graph->indptr[p->rows->first_row] + begin : 0;
    if (p->graph && !atomic_load_explicit(&p->loops, memory_order_relaxed) &&
        has_loop(p, edge, edge + n))
        atomic_store_explicit(&p->loops, true, memory_order_relaxed);
    if (p->graph && !atomic_load_explicit(&p->falls, memory_order_relaxed) &&
        has_fall(p, edge, edge + n))
        atomic_store_explicit(&p->falls, true, memory_order_relaxed);
    if (p->cold)
        advise(data, n * p->elem_bytes, MADV_COLD);
    sl_scan_report(p->watch, n * p->elem_bytes);
    if (p->max_rise) {
        uint64_t most = largest_rise((const uint64_t *)data, n);
        uint64_t seen = atomic_load_explicit(p->max_rise, memory_order_relaxed);
        while (most > seen &&
               !atomic_compare_exchange_weak_explicit(p->max_rise, &seen, most,
                                                      memory_order_relaxed, memory_order_relaxed))
            ;
    }
    return false;
}

static uint64_t run_pass(struct pass *p, int threads)
{
    if (p->n == 0)
        return SL_SCAN_OK;
    uint64_t per = block_elems(p);
    uint64_t n_visits = p->n_sampled ? p->n_sampled : sl_div_up(p->n, per);
    advise(p->data, p->n * p->elem_bytes, p->n_sampled ? MADV_RANDOM : MADV_SEQUENTIAL);
    if (!p->n_sampled)
        advise(p->data, SL_MIN(p->n * p->elem_bytes, AHEAD_BYTES), MADV_WILLNEED);
    uint64_t bad = sl_threads_first(n_visits, threads, visit, p);
    advise(p->data, p->n * p->elem_bytes, MADV_NORMAL);
    if (bad == SL_THREADS_NONE)
        return SL_SCAN_OK;
    uint64_t begin = block_of(p, bad) * per;
    return begin +
           p->check.first(p->data + begin * p->elem_bytes, SL_MIN(per, p->n - begin), p->limit);
}

uint64_t sl_scan_ids(const void *ids, enum sl_dtype dtype, uint64_t n, uint64_t limit, int threads)
{
    size_t bytes = sl_dtype_bytes(dtype);
    struct pass p = {.data = ids, .n = n, .limit = limit, .elem_bytes = bytes};
    p.check =
        bytes == 4 ? (struct check){any_id32, first_id32} : (struct check){any_id64, first_id64};
    return run_pass(&p, threads);
}

uint64_t sl_scan_labels(const void *labels, enum sl_dtype dtype, uint64_t n, uint32_t n_classes,
                        int threads)
{
    struct pass p = {
        .data = labels, .n = n, .limit = n_classes, .elem_bytes = sl_dtype_bytes(dtype)};
    // A type too narrow to name a class beyond the last one needs no upper bound.
    switch (dtype) {
    case SL_DTYPE_I8:
        p.limit = SL_MIN(n_classes, 128u);
        p.check = (struct check){any_label8, first_label8};
        break;
    case SL_DTYPE_I16:
        p.limit = SL_MIN(n_classes, 32768u);
        p.check = (struct check){any_label16, first_label16};
        break;
    case SL_DTYPE_I32: p.check = (struct check){any_label32, first_label32}; break;
    case SL_DTYPE_I64: p.check = (struct check){any_label64, first_label64}; break;
    case SL_DTYPE_U8:
        if (n_classes > UINT8_MAX)
            return SL_SCAN_OK;
        p.check = (struct check){any_ulabel8, first_ulabel8};
        break;
    case SL_DTYPE_U16:
        if (n_classes > UINT16_MAX)
            return SL_SCAN_OK;
        p.check = (struct check){any_ulabel16, first_ulabel16};
        break;
    case SL_DTYPE_U32: p.check = (struct check){any_id32, first_id32}; break;
    case SL_DTYPE_U64: p.check = (struct check){any_id64, first_id64}; break;
    default: return 0; // not an integer: nothing in it is a label
    }
    return run_pass(&p, threads);
}

uint64_t sl_scan_class_numbers(const void *x, enum sl_dtype dtype, uint64_t n, uint32_t n_classes,
                               int threads)
{
    struct pass p = {.data = x, .n = n, .limit = n_classes, .elem_bytes = sl_dtype_bytes(dtype)};
    p.check = dtype == SL_DTYPE_F32 ? (struct check){any_class_f32, first_class_f32}
                                    : (struct check){any_class_f64, first_class_f64};
    return run_pass(&p, threads);
}

uint64_t sl_scan_flags(const void *x, enum sl_dtype dtype, uint64_t n, int threads)
{
    struct pass p = {.data = x, .n = n, .elem_bytes = sl_dtype_bytes(dtype)};
    switch (dtype) {
    case SL_DTYPE_F32: p.check = (struct check){any_flag_f32, first_flag_f32}; break;
    case SL_DTYPE_F64: p.check = (struct check){any_flag_f64, first_flag_f64}; break;
    case SL_DTYPE_I8: p.check = (struct check){any_flag8, first_flag8}; break;
    case SL_DTYPE_U8: p.check = (struct check){any_uflag8, first_uflag8}; break;
    case SL_DTYPE_I32: p.check = (struct check){any_flag32, first_flag32}; break;
    case SL_DTYPE_I64: p.check = (struct check){any_flag64, first_flag64}; break;
    default: return 0; // nothing in it is 0 or 1
    }
    return run_pass(&p, threads);
}

uint64_t sl_scan_numbers(const void *x, enum sl_dtype dtype, uint64_t n, int threads)
{
    struct pass p = {.data = x, .n = n, .elem_bytes = sl_dtype_bytes(dtype)};
    if (dtype != SL_DTYPE_F32 && dtype != SL_DTYPE_F64)
        return SL_SCAN_OK; // every integer is a finite float
    p.check = dtype == SL_DTYPE_F32 ? (struct check){any_number_f32, first_number_f32}
                                    : (struct check){any_number_f64, first_number_f64};
    return run_pass(&p, threads);
}

uint64_t sl_scan_finite(const void *x, enum sl_dtype dtype, uint64_t n, uint64_t bytes, int threads,
                        const struct sl_dataset_watch *watch)
{
    const size_t each = sl_dtype_bytes(dtype);
    struct pass p = {.data = x, .n = n, .elem_bytes = each, .watch = watch};
    p.check = each == 2 ? (struct check){any_f16, first_f16} : (struct check){any_f32, first_f32};
    p.cold = n * each > COLD_BYTES;
    const uint64_t blocks = SL_MAX(bytes / BLOCK_BYTES, (uint64_t)2);
    if (bytes < n * each && blocks < sl_div_up(n, block_elems(&p)))
        p.n_sampled = blocks;
    return run_pass(&p, threads);
}

uint64_t sl_scan_neighbours(const struct sl_dataset *ds, const struct sl_scan_rows *rows,
                            int threads, const struct sl_dataset_watch *watch,
                            struct sl_scan_lists *found)
{
    const size_t each = sl_dtype_bytes(ds->indices_dtype);
    const uint64_t begin = ds->indptr[rows->first_row];
    struct pass p = {.data = (const char *)ds->indices + begin * each,
                     .n = ds->indptr[rows->first_row + rows->n_rows] - begin,
                     .limit = rows->first << 32 | rows->n,
                     .elem_bytes = each,
                     .graph = ds,
                     .rows = rows,
                     .watch = watch};
    if (rows->first == 0)
        p.check =
            each == 4 ? (struct check){any_id32, first_id32} : (struct check){any_id64, first_id64};
    else
        p.check = each == 4 ? (struct check){any_range32, first_range32}
                            : (struct check){any_range64, first_range64};
    const uint64_t bad = run_pass(&p, threads);
    found->have_loops = atomic_load_explicit(&p.loops, memory_order_relaxed);
    found->rise = !atomic_load_explicit(&p.falls, memory_order_relaxed);
    return bad == SL_SCAN_OK ? bad : begin + bad;
}

uint64_t sl_scan_weights(const float *w, uint64_t n, int threads)
{
    struct pass p = {
        .check = {any_weight, first_weight}, .data = (const char *)w, .n = n, .elem_bytes = 4};
    return run_pass(&p, threads);
}

uint64_t sl_scan_offsets(const uint64_t *offsets, uint64_t n_offsets, uint64_t n_edges, int threads,
                         uint64_t *max_degree)
{
    // From element 1 on: each is compared with the one before it.
    _Atomic uint64_t max_rise = 0;
    struct pass p = {.check = {any_offset, first_offset},
                     .data = (const char *)(offsets + 1),
                     .n = n_offsets - 1,
                     .limit = n_edges,
                     .elem_bytes = 8,
                     .max_rise = &max_rise};
    uint64_t bad = run_pass(&p, threads);
    *max_degree = atomic_load_explicit(&max_rise, memory_order_relaxed);
    return bad == SL_SCAN_OK ? bad : bad + 1;
}

uint64_t sl_scan_load(const void *v, enum sl_dtype dtype, uint64_t i)
{
    switch (dtype) {
    case SL_DTYPE_I8: return (uint64_t)(int64_t)((const int8_t *)v)[i];
    case SL_DTYPE_U8: return ((const uint8_t *)v)[i];
    case SL_DTYPE_I16: return (uint64_t)(int64_t)((const int16_t *)v)[i];
    case SL_DTYPE_U16: return ((const uint16_t *)v)[i];
    case SL_DTYPE_I32: return (uint64_t)(int64_t)((const int32_t *)v)[i];
    case SL_DTYPE_U32: return ((const uint32_t *)v)[i];
    default: return ((const uint64_t *)v)[i];
    }
}

// ---- duplicates ---------------------------------------------------------------------------------

struct marks {
    const void *ids;
    enum sl_dtype dtype;
    uint64_t n;
    _Atomic uint64_t *seen; // a bit for each vertex
};

// True when an id of the block was marked already, by this block or by another.
static bool visit_marks(void *ctx, uint64_t block)
{
    struct marks *m = ctx;
    uint64_t per = BLOCK_BYTES / sl_dtype_bytes(m->dtype);
    uint64_t end = SL_MIN(m->n, (block + 1) * per);
    uint64_t found = 0;
    for (uint64_t i = block * per; i < end; i++) {
        uint64_t id = sl_scan_load(m->ids, m->dtype, i);
        uint64_t bit = (uint64_t)1 << (id & 63);
        found |= atomic_fetch_or_explicit(&m->seen[id / 64], bit, memory_order_relaxed) & bit;
    }
    return found != 0;
}

bool sl_scan_ascend(const void *ids, enum sl_dtype dtype, uint64_t n, int threads)
{
    const size_t bytes = sl_dtype_bytes(dtype);
    if (n < 2)
        return true;
    struct pass p = {.data = (const char *)ids + bytes, .n = n - 1, .elem_bytes = bytes};
    p.check = bytes == 4 ? (struct check){any_descent32, first_descent32}
                         : (struct check){any_descent64, first_descent64};
    return run_pass(&p, threads) == SL_SCAN_OK;
}

int sl_scan_duplicates(const void *ids, enum sl_dtype dtype, uint64_t n, uint64_t n_nodes,
                       int threads, uint64_t *first)
{
    *first = SL_SCAN_OK;
    const size_t bytes = sl_dtype_bytes(dtype);
    if (sl_scan_ascend(ids, dtype, n, threads))
        return SL_OK;

    struct marks m = {.ids = ids, .dtype = dtype, .n = n};
    uint64_t n_words = sl_div_up(n_nodes, 64);
    m.seen = calloc(n_words, sizeof *m.seen);
    if (!m.seen)
        return sl_fail(SL_ENOMEM, "look for duplicates: no memory for %llu bytes",
                       (unsigned long long)(n_words * sizeof *m.seen));
    uint64_t hit = sl_threads_first(sl_div_up(n, BLOCK_BYTES / bytes), threads, visit_marks, &m);
    if (hit != SL_THREADS_NONE) {
        // Which of two equal ids was marked second depends on the threads; the position must not.
        for (uint64_t w = 0; w < n_words; w++)
            atomic_store_explicit(&m.seen[w], 0, memory_order_relaxed);
        for (uint64_t i = 0; i < n && *first == SL_SCAN_OK; i++) {
            uint64_t id = sl_scan_load(ids, dtype, i), bit = (uint64_t)1 << (id & 63);
            if (atomic_fetch_or_explicit(&m.seen[id / 64], bit, memory_order_relaxed) & bit)
                *first = i;
        }
    }
    free(m.seen);
    return SL_OK;
}

const char *sl_scan_int_text(const void *v, enum sl_dtype dtype, uint64_t i, char buf[32])
{
    uint64_t x = sl_scan_load(v, dtype, i);
    if (sl_dtype_is_signed(dtype))
        snprintf(buf, 32, "%" PRId64, (int64_t)x);
    else
        snprintf(buf, 32, "%" PRIu64, x);
    return buf;
}
