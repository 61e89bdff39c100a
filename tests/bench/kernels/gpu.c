// Memory and ceilings of a device, and moving rows: what extraction is made of.
#include "tests/bench/kernels/gpu.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bits.h"

uint64_t perf_size(const struct perf *p, uint64_t full, uint64_t small)
{
    return p->small ? small : full;
}

// ---- memory -------------------------------------------------------------------------------------

void *perf_gpu_alloc(struct perf *p, size_t bytes)
{
    if (p->device->is_host)
        return perf_alloc(p, bytes);
    void *memory = perf_keep(p, p->device->memory.alloc(bytes), bytes, PERF_DEVICE);
    perf_check(p, p->device->fill(memory, 0, bytes));
    return memory;
}

void *perf_gpu_pinned(struct perf *p, size_t bytes)
{
    void *memory = perf_keep(p, p->device->host_alloc(bytes), bytes, PERF_PINNED);
    memset(memory, 0, bytes);
    return memory;
}

static int touch(void *ctx, void *data)
{
    const size_t bytes = *(const size_t *)ctx;
    sl_shared_array_ask_huge(data, bytes);
    memset(data, 0, bytes);
    return 0;
}

void *perf_gpu_mapped(struct perf *p, size_t bytes, void **seen)
{
    const struct sl_shared_array_spec spec = {
        .fd = -1, .bytes = bytes, .make = touch, .ctx = &bytes};
    struct sl_shared_array shared;
    perf_check(p, sl_shared_array_open(&spec, &shared));
    perf_check(p, sl_shared_array_let_pin(&shared));
    perf_keep(p, shared.data, bytes, PERF_MAPPED);
    p->blocks->shared = shared;
    *seen = NULL;
    perf_check(p, p->device->map(shared.data, bytes, true, seen));
    return shared.data;
}

// Of what was mapped last: a machine that grants no huge pages reads more slowly.
static void say_pages(const struct perf *p)
{
    const struct perf_block *block = p->blocks;
    while (block && block->from != PERF_MAPPED)
        block = block->next;
    printf("  mapped in pages of %s\n", block && block->shared.huge ? "2 MiB" : "4 KiB");
}

void *perf_upload(struct perf *p, const void *from, size_t bytes)
{
    if (p->device->is_host)
        return (void *)(uintptr_t)from;
    void *to = perf_keep(p, p->device->memory.alloc(bytes), bytes, PERF_DEVICE);
    perf_check(p, p->device->copy(to, from, bytes));
    perf_check(p, p->device->sync());
    return to;
}

// A piece of random numbers again and again: values do not matter to the time, their number does.
float *perf_gpu_floats(struct perf *p, size_t n)
{
    enum { PIECE = 1 << 20 };
    if (p->device->is_host)
        return perf_floats(p, n);
    size_t piece = SL_MIN(n, (size_t)PIECE);
    float *from = perf_floats(p, piece), *to = perf_gpu_alloc(p, n * sizeof *to);
    for (size_t at = 0; at < n; at += piece)
        perf_check(p, p->device->copy(to + at, from, SL_MIN(piece, n - at) * sizeof *to));
    perf_check(p, p->device->sync());
    return to;
}

uint32_t *perf_gpu_ids(struct perf *p, size_t n, uint32_t below)
{
    return perf_upload(p, perf_ids(p, n, below), n * sizeof(uint32_t));
}

struct sl_csr_view perf_upload_csr(struct perf *p, const struct sl_csr_view *csr)
{
    struct sl_csr_view on = *csr;
    on.indptr = perf_upload(p, csr->indptr, ((size_t)csr->n_dst + 1) * sizeof *csr->indptr);
    on.indices = perf_upload(p, csr->indices, (size_t)csr->n_edges * sizeof *csr->indices);
    return on;
}

struct sl_csr_view perf_gpu_transposed(struct perf *p, const struct sl_csr_view *csr,
                                       uint32_t **t_edge)
{
    uint32_t *indptr = perf_gpu_alloc(p, ((size_t)csr->n_src + 1) * sizeof *indptr);
    uint32_t *indices = perf_gpu_alloc(p, (size_t)csr->n_edges * sizeof *indices);
    *t_edge = perf_gpu_alloc(p, (size_t)csr->n_edges * sizeof **t_edge);
    perf_check(p, p->kernels->transpose(csr, indptr, indices, *t_edge, &p->ws));
    perf_check(p, p->device->sync());
    sl_mempool_reset(&p->ws);
    return (struct sl_csr_view){csr->n_src, csr->n_dst, csr->n_edges, indptr, indices};
}

// ---- ceilings -----------------------------------------------------------------------------------

static void run_transfer(void *context)
{
    const struct perf_transfer *t = context;
    perf_check(t->p, t->p->device->copy(t->to, t->from, t->bytes));
}

struct perf_run perf_gpu_transfer(struct perf_transfer *transfer, const char *name)
{
    return perf_bytes(name, run_transfer, transfer, (double)transfer->bytes, NULL);
}

struct perf_run perf_gpu_copy(struct perf *p)
{
    if (p->device->is_host)
        return perf_copy_ceiling(p);
    struct perf_transfer *t = perf_alloc(p, sizeof *t);
    size_t bytes = perf_size(p, 256 << 20, 1 << 20);
    *t = (struct perf_transfer){p, perf_gpu_alloc(p, bytes), perf_gpu_alloc(p, bytes), bytes};
    return perf_bytes("copy", run_transfer, t, 2.0 * (double)bytes, NULL);
}

// ---- gather_rows --------------------------------------------------------------------------------

struct gather {
    struct perf *p;
    const void *table;
    enum sl_dtype dtype;
    uint64_t n_rows, n;
    uint32_t dim;
    const uint32_t *rows;
    float *out;
};

static void run_gather(void *context)
{
    const struct gather *g = context;
    perf_check(g->p, g->p->kernels->gather_rows(g->table, g->dtype, g->n_rows, g->dim, g->rows,
                                                g->n, g->out));
}

static uint32_t *rows_in_order(struct perf *p, uint32_t n)
{
    uint32_t *rows = perf_alloc(p, n * sizeof *rows);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = i;
    return perf_upload(p, rows, n * sizeof *rows);
}

void perf_gpu_ceilings(struct perf *p)
{
    enum { DIM = 256 };
    size_t bytes = perf_size(p, 256 << 20, 1 << 17);
    uint32_t n = (uint32_t)(bytes / (DIM * sizeof(float)));
    uint32_t n_words = (uint32_t)perf_size(p, 64 << 20, 1 << 12);
    void *on = perf_gpu_alloc(p, bytes), *pinned = perf_gpu_pinned(p, bytes), *seen;
    perf_gpu_mapped(p, bytes, &seen);
    struct perf_transfer down = {p, on, pinned, bytes}, up = {p, pinned, on, bytes};
    struct gather mapped = {p, seen, SL_DTYPE_F32, n, n, DIM, rows_in_order(p, n), on};
    struct gather words = {.p = p, .dtype = SL_DTYPE_F32, .n_rows = n_words, .dim = 1};
    words.n = n_words / 4;
    words.table = perf_gpu_alloc(p, (size_t)n_words * sizeof(float));
    words.rows = perf_gpu_ids(p, words.n, n_words);
    words.out = perf_gpu_alloc(p, words.n * sizeof(float));
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_gpu_transfer(&down, "host to device"),
        perf_gpu_transfer(&up, "device to host"),
        perf_bytes("rows in order, mapped", run_gather, &mapped, (double)bytes, "host to device"),
        perf_count("random words", run_gather, &words, (double)words.n, NULL),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs), "ceilings: %zu KiB; random words of %zu KiB",
                 bytes >> 10, (size_t)n_words >> 8);
    perf_release(p);
}

// What a trainer does without mapped memory: the processor gathers into pinned memory, which is
// copied and scattered. The memory is used again at once, so each call waits for the one before.
struct staged {
    struct gather from; // host memory: table, rows, out (pinned)
    float *stage;       // the device's, as many rows
    const uint32_t *to; // the device's
    uint64_t n_out;
    float *out;
};

static void run_staged(void *context)
{
    const struct staged *s = context;
    const struct gather *g = &s->from;
    struct perf *p = g->p;
    perf_check(p, p->device->sync());
    perf_check(p, sl_kernels_cpu()->gather_rows(g->table, g->dtype, g->n_rows, g->dim, g->rows,
                                                g->n, g->out));
    perf_check(p, p->device->copy(s->stage, g->out, g->n * g->dim * sizeof(float)));
    perf_check(p, p->kernels->scatter_rows(s->stage, g->dim, s->to, g->n, s->n_out, s->out));
}

static void gather_case(struct perf *p, uint32_t dim, enum sl_dtype dtype)
{
    size_t row_bytes = dim * sl_dtype_bytes(dtype);
    uint32_t n_rows = (uint32_t)(perf_size(p, 1 << 30, 1 << 20) / row_bytes);
    uint64_t n = perf_size(p, 400000, 300);
    void *seen;
    const void *store = perf_gpu_mapped(p, n_rows * row_bytes, &seen);
    const uint32_t *rows = perf_ids(p, n, n_rows);
    struct gather near = {.p = p, .dtype = dtype, .n_rows = n_rows, .n = n, .dim = dim};
    near.table = perf_gpu_alloc(p, n_rows * row_bytes);
    near.rows = perf_upload(p, rows, n * sizeof *rows);
    near.out = perf_gpu_alloc(p, n * dim * sizeof(float));
    struct gather far = near, host = near;
    far.table = seen;
    host.table = store;
    host.rows = rows;
    host.out = perf_gpu_pinned(p, n * dim * sizeof(float));
    struct staged staged = {host, perf_gpu_alloc(p, n * dim * sizeof(float)),
                            rows_in_order(p, (uint32_t)n), n, near.out};
    struct perf_transfer transfer = {p, near.out, host.out, n * row_bytes};
    double bytes = (double)n * (double)row_bytes;
    struct perf_run runs[] = {
        perf_gpu_copy(p),
        perf_gpu_transfer(&transfer, "host to device"),
        perf_bytes("gather_rows", run_gather, &near, bytes + 4.0 * (double)n * dim, "copy"),
        perf_bytes("gather_rows, mapped", run_gather, &far, bytes, "host to device"),
        perf_bytes("staged by the processor", run_staged, &staged, bytes, "gather_rows, mapped"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs), "gather_rows: %llu random rows of %u %s from %zu MiB",
                 (unsigned long long)n, dim, dtype == SL_DTYPE_F16 ? "f16" : "f32",
                 n_rows * row_bytes >> 20);
    say_pages(p);
    perf_release(p);
}

void perf_gpu_gather(struct perf *p)
{
    gather_case(p, 100, SL_DTYPE_F32);
    gather_case(p, 128, SL_DTYPE_F32);
    gather_case(p, 256, SL_DTYPE_F32);
    gather_case(p, 128, SL_DTYPE_F16);
}

// ---- gather_ranked ------------------------------------------------------------------------------

struct ranked {
    struct perf *p;
    struct sl_gather_ranked_args args;
    // The staged way: hits are gathered on the device, misses come from the processor.
    struct staged misses;
    const uint32_t *hit_row, *hit_to; // the device's
    uint32_t n_hits;
};

static void run_ranked(void *context)
{
    const struct ranked *r = context;
    perf_check(r->p, r->p->kernels->gather_ranked(&r->args));
}

static void run_ranked_staged(void *context)
{
    struct ranked *r = context;
    const struct sl_gather_ranked_args *a = &r->args;
    if (r->n_hits)
        perf_check(r->p,
                   r->p->kernels->gather_rows_to(a->cache.near, a->dtype, a->cache.n_near, a->dim,
                                                 r->hit_row, r->hit_to, r->n_hits, a->n, a->out));
    if (r->misses.from.n)
        run_staged(&r->misses);
}

// The first `share` of the batch's rows in 100 are in the cache; which ones is random.
static void split_batch(struct ranked *r, uint32_t share, uint32_t *ranks, const uint32_t *nodes)
{
    struct perf *p = r->p;
    uint32_t n = r->args.n, hits = 0, misses = 0;
    uint32_t *hit_row = perf_alloc(p, n * 4), *hit_to = perf_alloc(p, n * 4);
    uint32_t *miss_row = perf_alloc(p, n * 4), *miss_to = perf_alloc(p, n * 4);
    for (uint32_t i = 0; i < n; i++) {
        bool hit = perf_random(p) % 100 < share;
        ranks[i] = hit ? (uint32_t)(perf_random(p) % r->args.cache.n_near) : SL_RANK_NONE;
        *(hit ? &hit_row[hits] : &miss_row[misses]) = hit ? ranks[i] : nodes[i];
        *(hit ? &hit_to[hits++] : &miss_to[misses++]) = i;
    }
    r->n_hits = hits;
    r->hit_row = perf_upload(p, hit_row, n * 4);
    r->hit_to = perf_upload(p, hit_to, n * 4);
    r->misses.from.n = misses;
    r->misses.from.rows = miss_row;
    r->misses.to = perf_upload(p, miss_to, n * 4);
}

static void ranked_case(struct perf *p, uint32_t share)
{
    enum { DIM = 128, ROW = DIM * sizeof(float) };
    uint32_t n = (uint32_t)perf_size(p, 400000, 200),
             n_rows = (uint32_t)perf_size(p, 2 << 20, 2000);
    void *seen;
    const void *store = perf_gpu_mapped(p, (size_t)n_rows * ROW, &seen);
    struct ranked r = {.p = p, .args = {.dtype = SL_DTYPE_F32, .dim = DIM, .n = n}};
    const uint32_t *nodes = perf_ids(p, n, n_rows);
    uint32_t *ranks = perf_alloc(p, n * sizeof *ranks);
    r.args.cache.n_near = n_rows / 4;
    split_batch(&r, share, ranks, nodes);
    r.args.cache.near = perf_gpu_alloc(p, (size_t)r.args.cache.n_near * ROW);
    r.args.store = seen;
    r.args.n_rows = n_rows;
    r.args.nodes = perf_upload(p, nodes, n * sizeof *nodes);
    r.args.ranks = perf_upload(p, ranks, n * sizeof *ranks);
    r.args.out = perf_gpu_alloc(p, (size_t)n * ROW);
    struct gather *from = &r.misses.from;
    *from = (struct gather){p, store, SL_DTYPE_F32, n_rows, from->n, DIM, from->rows, NULL};
    from->out = perf_gpu_pinned(p, (size_t)n * ROW);
    r.misses.stage = perf_gpu_alloc(p, (size_t)n * ROW);
    r.misses.n_out = n;
    r.misses.out = r.args.out;
    struct perf_transfer all = {p, r.args.out, from->out, (size_t)n * ROW};
    double bytes = (double)n * ROW;
    struct perf_run runs[] = {
        perf_gpu_transfer(&all, "host to device"),
        perf_bytes("gather_ranked", run_ranked, &r, bytes, "host to device"),
        perf_bytes("staged by the processor", run_ranked_staged, &r, bytes, "gather_ranked"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs),
                 "gather_ranked: %u rows of %u f32, %u %% from the cache", n, DIM, share);
    say_pages(p);
    perf_release(p);
}

void perf_gpu_ranked(struct perf *p)
{
    ranked_case(p, 0);
    ranked_case(p, 50);
    ranked_case(p, 90);
    ranked_case(p, 100);
}
