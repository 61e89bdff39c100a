/*
 * An external merge sort of records of any length.
 *
 *   buffer:  | records, as added  ->            scratch  |  <-  entries: prefix, offset |
 *
 * A full buffer sorts its entries (the first eight bytes of a key decide nearly always) and is
 * written as a run. At the end the runs are merged through a heap; when there are more than can be
 * merged at once, groups of neighbours become longer runs first, which keeps the order of equal
 * keys: it is the one of the runs, and in a run the one of the offsets.
 */
#include "dataset/record_sort.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"
#include "dataset/spill.h"

enum {
    HEAD_BYTES = 8, // of a record: the lengths of key and payload
    MIN_BYTES = 4096,
    MIN_SOURCE_BYTES = 16384, // of a run in memory while merging
    MAX_SOURCE_BYTES = 1 << 20,
    MAX_FAN_IN = 1024,
};

struct entry {
    uint64_t prefix; // the key's first bytes, as a number that compares as they do
    uint64_t offset; // of the record in the buffer
};

struct run {
    uint64_t offset, bytes;
};

// A run being read, or written.
struct stream {
    struct run rest; // that is not in the buffer
    char *buffer;    // (capacity)
    size_t capacity, n, at;
    struct sl_record head; // the record at `at`; key NULL: there is none
    uint64_t prefix;
};

struct merge {
    struct stream *streams; // (n)
    uint32_t *heap;         // (n_heap) streams, the least at the top
    size_t n, n_heap;
    bool taken; // the top's record was handed out
    void *memory;
    size_t memory_bytes;
};

struct sl_record_sort {
    struct sl_spill spill;
    uint64_t memory_bytes, max_record_bytes;
    char *buffer; // (capacity)
    size_t capacity, used, n;

    struct run *runs;
    size_t n_runs, runs_capacity;
    uint64_t n_spilled;

    struct merge merge;
    struct entry *sorted; // (n) when nothing was spilled
    size_t at;
};

// ---- records ------------------------------------------------------------------------------------

static size_t record_bytes(const struct sl_record *r)
{
    return HEAD_BYTES + (size_t)r->key_bytes + r->payload_bytes;
}

static struct sl_record load_record(const char *p)
{
    struct sl_record r;
    memcpy(&r.key_bytes, p, 4);
    memcpy(&r.payload_bytes, p + 4, 4);
    r.key = p + HEAD_BYTES;
    r.payload = p + HEAD_BYTES + r.key_bytes;
    return r;
}

static void store_record(char *p, const struct sl_record *r)
{
    memcpy(p, &r->key_bytes, 4);
    memcpy(p + 4, &r->payload_bytes, 4);
    if (r->key_bytes)
        memcpy(p + HEAD_BYTES, r->key, r->key_bytes);
    if (r->payload_bytes)
        memcpy(p + HEAD_BYTES + r->key_bytes, r->payload, r->payload_bytes);
}

static uint64_t prefix_of(const struct sl_record *r)
{
    unsigned char bytes[8] = {0};
    uint64_t x;
    memcpy(bytes, r->key, SL_MIN(r->key_bytes, (uint32_t)8));
    memcpy(&x, bytes, 8);
    return __builtin_bswap64(x);
}

static int compare_keys(const struct sl_record *a, const struct sl_record *b)
{
    int order = memcmp(a->key, b->key, SL_MIN(a->key_bytes, b->key_bytes));
    if (order != 0)
        return order;
    return a->key_bytes < b->key_bytes ? -1 : a->key_bytes > b->key_bytes;
}

// ---- life ---------------------------------------------------------------------------------------

static int hold_buffer(struct sl_record_sort *s, size_t bytes)
{
    sl_pages_free(s->buffer, s->capacity);
    s->capacity = sl_align_up(SL_MAX(bytes, (size_t)MIN_BYTES), sizeof(struct entry));
    s->buffer = sl_pages_alloc(s->capacity);
    return s->buffer ? SL_OK
                     : sl_fail(SL_ENOMEM, "%s: no %zu bytes of memory: give a smaller --memory",
                               s->spill.doing, s->capacity);
}

int sl_record_sort_create(const char *dir, uint64_t memory_bytes, struct sl_record_sort **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return sl_fail(SL_ENOMEM, "sort names: no memory");
    (*out)->memory_bytes = memory_bytes;
    int rc = sl_spill_init(&(*out)->spill, dir, "sort names");
    if (rc == SL_OK)
        rc = hold_buffer(*out, (size_t)memory_bytes);
    if (rc < 0) {
        sl_record_sort_destroy(*out);
        *out = NULL;
    }
    return rc;
}

static void merge_fini(struct merge *m)
{
    sl_pages_free(m->memory, m->memory_bytes);
    free(m->streams);
    free(m->heap);
    memset(m, 0, sizeof *m);
}

void sl_record_sort_destroy(struct sl_record_sort *s)
{
    if (!s)
        return;
    merge_fini(&s->merge);
    sl_pages_free(s->buffer, s->capacity);
    sl_spill_fini(&s->spill);
    free(s->runs);
    free(s);
}

uint64_t sl_record_sort_runs(const struct sl_record_sort *s)
{
    return s->n_spilled;
}

// ---- sorting what is in memory ------------------------------------------------------------------

static struct entry *entries(const struct sl_record_sort *s)
{
    return (struct entry *)(void *)(s->buffer + s->capacity) - s->n;
}

static bool entry_before(const struct sl_record_sort *s, const struct entry *a,
                         const struct entry *b)
{
    if (a->prefix != b->prefix)
        return a->prefix < b->prefix;
    const struct sl_record x = load_record(s->buffer + a->offset),
                           y = load_record(s->buffer + b->offset);
    int order = compare_keys(&x, &y);
    return order < 0 || (order == 0 && a->offset < b->offset);
}

static void merge_halves(const struct sl_record_sort *s, const struct entry *from, size_t half,
                         size_t n, struct entry *to)
{
    size_t a = 0, b = half;
    for (size_t i = 0; i < n; i++)
        to[i] =
            a < half && (b == n || !entry_before(s, &from[b], &from[a])) ? from[a++] : from[b++];
}

// Sorted entries, which lie in one of the buffer's two places for them.
static struct entry *sort_entries(const struct sl_record_sort *s)
{
    struct entry *data = entries(s), *scratch = data - s->n;
    bool sorted = true;
    for (size_t i = 0; i < s->n / 2; i++) { // they were put from the end on
        struct entry swap = data[i];
        data[i] = data[s->n - 1 - i];
        data[s->n - 1 - i] = swap;
    }
    for (size_t i = 1; i < s->n && sorted; i++)
        sorted = entry_before(s, &data[i - 1], &data[i]);
    for (size_t width = 1; width < s->n && !sorted; width *= 2) {
        for (size_t i = 0; i < s->n; i += 2 * width) {
            size_t n = SL_MIN(2 * width, s->n - i);
            merge_halves(s, data + i, SL_MIN(width, n), n, scratch + i);
        }
        struct entry *swap = data;
        data = scratch;
        scratch = swap;
    }
    return data;
}

// ---- runs ---------------------------------------------------------------------------------------

static int list_run(struct sl_record_sort *s, const struct run *run)
{
    if (s->n_runs == s->runs_capacity) {
        size_t capacity = SL_MAX(s->runs_capacity * 2, (size_t)64);
        struct run *runs = realloc(s->runs, capacity * sizeof *runs);
        if (!runs)
            return sl_fail(SL_ENOMEM, "%s: no memory for %zu runs", s->spill.doing, capacity);
        s->runs = runs;
        s->runs_capacity = capacity;
    }
    s->runs[s->n_runs++] = *run;
    return SL_OK;
}

// A run of so many bytes, to be written through `w`.
static int begin_run(struct sl_record_sort *s, uint64_t bytes, struct stream *w, struct run *run)
{
    *run = (struct run){.bytes = bytes};
    SL_TRY(sl_spill_reserve(&s->spill, bytes, &run->offset));
    *w = (struct stream){.rest = *run, .capacity = (size_t)SL_MIN(bytes, MAX_SOURCE_BYTES / 4)};
    w->buffer = malloc(w->capacity);
    return w->buffer ? SL_OK : sl_fail(SL_ENOMEM, "%s: no memory", s->spill.doing);
}

static int flush_run(struct sl_record_sort *s, struct stream *w)
{
    SL_TRY(sl_spill_write(&s->spill, w->buffer, w->n, w->rest.offset));
    w->rest.offset += w->n;
    w->n = 0;
    return SL_OK;
}

static int write_bytes(struct sl_record_sort *s, struct stream *w, const char *p, size_t n)
{
    while (n > 0) {
        if (w->n == w->capacity)
            SL_TRY(flush_run(s, w));
        size_t take = SL_MIN(n, w->capacity - w->n);
        memcpy(w->buffer + w->n, p, take);
        w->n += take;
        p += take;
        n -= take;
    }
    return SL_OK;
}

static int spill_buffer(struct sl_record_sort *s)
{
    struct stream w = {0};
    struct run run;
    const struct entry *sorted = sort_entries(s);
    int rc;
    SL_TRY_OUT(begin_run(s, s->used, &w, &run));
    for (size_t i = 0; i < s->n; i++) {
        const char *p = s->buffer + sorted[i].offset;
        const struct sl_record r = load_record(p);
        SL_TRY_OUT(write_bytes(s, &w, p, record_bytes(&r)));
    }
    SL_TRY_OUT(flush_run(s, &w));
    s->used = s->n = 0;
    s->n_spilled++;
    rc = list_run(s, &run);
out:
    free(w.buffer);
    return rc;
}

int sl_record_sort_add(struct sl_record_sort *s, const struct sl_record *r)
{
    size_t bytes = record_bytes(r), with_entries = bytes + 2 * sizeof(struct entry);
    if (s->used + (s->n + 1) * 2 * sizeof(struct entry) + bytes > s->capacity) {
        if (s->n > 0)
            SL_TRY(spill_buffer(s));
        if (with_entries > s->capacity)
            SL_TRY(hold_buffer(s, with_entries));
    }
    store_record(s->buffer + s->used, r);
    s->n++;
    *entries(s) = (struct entry){prefix_of(r), s->used};
    s->used += bytes;
    s->max_record_bytes = SL_MAX(s->max_record_bytes, bytes);
    return SL_OK;
}

// ---- merging ------------------------------------------------------------------------------------

// The record behind the one that `t` has.
static int load_head(struct sl_record_sort *s, struct stream *t)
{
    if (t->head.key)
        t->at += record_bytes(&t->head);
    for (;;) {
        size_t left = t->n - t->at;
        if (left >= HEAD_BYTES) {
            t->head = load_record(t->buffer + t->at);
            if (record_bytes(&t->head) <= left) {
                t->prefix = prefix_of(&t->head);
                return SL_OK;
            }
        }
        t->head.key = NULL;
        size_t take = (size_t)SL_MIN(t->rest.bytes, (uint64_t)(t->capacity - left));
        if (take == 0)
            return SL_OK;
        memmove(t->buffer, t->buffer + t->at, left);
        SL_TRY(sl_spill_read(&s->spill, t->buffer + left, take, t->rest.offset));
        t->rest.offset += take;
        t->rest.bytes -= take;
        t->n = left + take;
        t->at = 0;
    }
}

static bool stream_before(const struct merge *m, uint32_t a, uint32_t b)
{
    const struct stream *x = &m->streams[a], *y = &m->streams[b];
    if (x->prefix != y->prefix)
        return x->prefix < y->prefix;
    int order = compare_keys(&x->head, &y->head);
    return order < 0 || (order == 0 && a < b);
}

static void sift_down(struct merge *m, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= m->n_heap)
            return;
        if (child + 1 < m->n_heap && stream_before(m, m->heap[child + 1], m->heap[child]))
            child++;
        if (!stream_before(m, m->heap[child], m->heap[at]))
            return;
        uint32_t swap = m->heap[at];
        m->heap[at] = m->heap[child];
        m->heap[child] = swap;
        at = child;
    }
}

static int merge_open(struct sl_record_sort *s, struct merge *m, const struct run *runs, size_t n)
{
    uint64_t share = SL_MIN(s->memory_bytes / n, (uint64_t)MAX_SOURCE_BYTES);
    size_t capacity = (size_t)SL_MAX(SL_MAX(share, (uint64_t)MIN_BYTES), s->max_record_bytes);
    *m = (struct merge){.n = n, .memory_bytes = n * capacity};
    m->streams = calloc(n, sizeof *m->streams);
    m->heap = calloc(n, sizeof *m->heap);
    m->memory = sl_pages_alloc(m->memory_bytes);
    if (!m->streams || !m->heap || !m->memory)
        return sl_fail(SL_ENOMEM, "%s: no memory to merge %zu runs", s->spill.doing, n);
    for (size_t i = 0; i < n; i++) {
        struct stream *t = &m->streams[i];
        t->rest = runs[i];
        t->buffer = (char *)m->memory + i * capacity;
        t->capacity = capacity;
        SL_TRY(load_head(s, t));
        m->heap[i] = (uint32_t)i; // a run is never empty
    }
    m->n_heap = n;
    for (size_t i = n / 2; i-- > 0;)
        sift_down(m, i);
    return SL_OK;
}

static int merge_next(struct sl_record_sort *s, struct merge *m, struct sl_record *out, bool *more)
{
    if (m->taken) {
        struct stream *t = &m->streams[m->heap[0]];
        SL_TRY(load_head(s, t));
        if (!t->head.key)
            m->heap[0] = m->heap[--m->n_heap];
        sift_down(m, 0);
    }
    *more = m->taken = m->n_heap > 0;
    if (*more)
        *out = m->streams[m->heap[0]].head;
    return SL_OK;
}

// Merges runs[0..n) into one new run.
static int combine_runs(struct sl_record_sort *s, const struct run *runs, size_t n, struct run *out)
{
    struct merge m = {0};
    struct stream w = {0};
    struct sl_record r;
    uint64_t bytes = 0;
    bool more;
    for (size_t i = 0; i < n; i++)
        bytes += runs[i].bytes;
    int rc;
    SL_TRY_OUT(merge_open(s, &m, runs, n));
    SL_TRY_OUT(begin_run(s, bytes, &w, out));
    for (;;) {
        SL_TRY_OUT(merge_next(s, &m, &r, &more));
        if (!more)
            break;
        SL_TRY_OUT(write_bytes(s, &w, (const char *)r.key - HEAD_BYTES, record_bytes(&r)));
    }
    SL_TRY_OUT(flush_run(s, &w));
    for (size_t i = 0; i < n; i++)
        sl_spill_release(&s->spill, runs[i].offset, runs[i].bytes);
out:
    free(w.buffer);
    merge_fini(&m);
    return rc;
}

static int reduce_runs(struct sl_record_sort *s)
{
    uint64_t most = s->memory_bytes / SL_MAX((uint64_t)MIN_SOURCE_BYTES, s->max_record_bytes);
    size_t fan_in = (size_t)SL_MAX(SL_MIN(most, (uint64_t)MAX_FAN_IN), (uint64_t)2);
    while (s->n_runs > fan_in) {
        size_t kept = 0;
        for (size_t i = 0; i < s->n_runs; i += fan_in) {
            struct run run = s->runs[i];
            size_t n = SL_MIN(fan_in, s->n_runs - i);
            if (n > 1)
                SL_TRY(combine_runs(s, s->runs + i, n, &run));
            s->runs[kept++] = run;
        }
        s->n_runs = kept;
    }
    return SL_OK;
}

int sl_record_sort_finish(struct sl_record_sort *s)
{
    if (s->n_spilled == 0) {
        s->sorted = sort_entries(s);
        return SL_OK;
    }
    if (s->n > 0)
        SL_TRY(spill_buffer(s));
    sl_pages_free(s->buffer, s->capacity);
    s->buffer = NULL;
    SL_TRY(reduce_runs(s));
    return merge_open(s, &s->merge, s->runs, s->n_runs);
}

int sl_record_sort_next(struct sl_record_sort *s, struct sl_record *out, bool *more)
{
    if (!s->sorted)
        return merge_next(s, &s->merge, out, more);
    *more = s->at < s->n;
    if (*more)
        *out = load_record(s->buffer + s->sorted[s->at++].offset);
    return SL_OK;
}
