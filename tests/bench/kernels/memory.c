// Operations whose ceiling is the memory: gather_rows, aggregate, transpose.
#include "tests/bench/kernels/perf.h"

#include <stdio.h>

#include "common/base/bits.h"

// ---- gather_rows --------------------------------------------------------------------------------

struct gather {
    struct perf *p;
    const void *table;
    enum sl_dtype dtype;
    uint32_t n_rows, dim;
    const uint32_t *rows, *to;
    uint64_t n;
    float *out;
};

static void run_gather_to(void *context)
{
    const struct gather *g = context;
    perf_check(g->p, g->p->kernels->gather_rows_to(g->table, g->dtype, g->n_rows, g->dim, g->rows,
                                                   g->to, g->n, 2 * g->n, g->out));
}

static void run_gather(void *context)
{
    const struct gather *g = context;
    perf_check(g->p, g->p->kernels->gather_rows(g->table, g->dtype, g->n_rows, g->dim, g->rows,
                                                g->n, g->out));
}

static void gather_case(struct perf *p, uint32_t dim, enum sl_dtype dtype)
{
    size_t row_bytes = dim * sl_dtype_bytes(dtype);
    uint32_t n_rows = (uint32_t)((512u << 20) / row_bytes);
    struct gather g = {.p = p, .dtype = dtype, .n_rows = n_rows, .dim = dim, .n = 200000};
    g.table = perf_alloc(p, n_rows * row_bytes);
    g.rows = perf_ids(p, g.n, n_rows);
    g.out = perf_alloc(p, g.n * dim * sizeof(float));
    struct perf_rows plain = {.table = g.table,
                              .rows = g.rows,
                              .n = g.n,
                              .row_bytes = row_bytes,
                              .out = (char *)g.out,
                              .threads = p->threads};
    struct perf_run runs[PERF_ROW_VARIANTS + 2];
    perf_row_ceilings(&plain, runs);
    runs[PERF_ROW_VARIANTS] = perf_copy_ceiling(p);
    runs[PERF_ROW_VARIANTS + 1] =
        perf_bytes("gather_rows", run_gather, &g, (double)g.n * ((double)row_bytes + dim * 4.0),
                   "random rows");
    perf_measure(p, runs, SL_COUNT_OF(runs),
                 "gather_rows: %llu random rows of %u %s from %u MiB (bytes read + written)",
                 (unsigned long long)g.n, dim, dtype == SL_DTYPE_F16 ? "f16" : "f32",
                 (unsigned)(n_rows * row_bytes >> 20));
    perf_release(p);
}

void perf_gather_rows(struct perf *p)
{
    gather_case(p, 100, SL_DTYPE_F32);
    gather_case(p, 128, SL_DTYPE_F32);
    gather_case(p, 256, SL_DTYPE_F32);
    gather_case(p, 128, SL_DTYPE_F16);
}

// To every second place or so of an output of twice the rows, as a split leaves them, beside
// gather_rows of the same rows.
void perf_gather_rows_to(struct perf *p)
{
    enum { DIM = 128 };
    struct gather g = {.p = p, .dtype = SL_DTYPE_F32, .n_rows = 1 << 20, .dim = DIM, .n = 200000};
    g.table = perf_alloc(p, (size_t)g.n_rows * DIM * sizeof(float));
    g.rows = perf_ids(p, g.n, g.n_rows);
    g.out = perf_alloc(p, 2 * g.n * DIM * sizeof(float));
    uint32_t *to = perf_ids(p, g.n, 2);
    for (uint32_t i = 0; i < g.n; i++)
        to[i] += 2 * i;
    g.to = to;
    struct perf_run runs[] = {
        perf_bytes("gather_rows", run_gather, &g, (double)g.n * DIM * 8.0, NULL),
        perf_bytes("gather_rows_to", run_gather_to, &g, (double)g.n * DIM * 8.0, "gather_rows"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs),
                 "gather_rows_to: 200000 random rows of 128 f32 (bytes read + written)");
    perf_release(p);
}

// ---- adjacencies --------------------------------------------------------------------------------

struct sl_csr_view perf_block_csr(struct perf *p, uint32_t n_dst, uint32_t degree, double fresh)
{
    uint32_t n_edges = n_dst * degree;
    uint32_t *indptr = perf_alloc(p, ((size_t)n_dst + 1) * sizeof *indptr);
    uint32_t *indices = perf_alloc(p, (size_t)n_edges * sizeof *indices);
    uint32_t n_src = n_dst + (uint32_t)(0.5 * n_edges);
    if (fresh > 0)
        n_src = n_dst;
    for (uint32_t i = 0; i < n_dst; i++)
        indptr[i + 1] = indptr[i] + degree;
    for (uint32_t e = 0; e < n_edges; e++) {
        if (fresh > 0 && (double)(perf_random(p) >> 40) < fresh * 16777216.0)
            indices[e] = n_src++;
        else
            indices[e] = (uint32_t)(perf_random(p) % n_src);
    }
    return (struct sl_csr_view){n_dst, n_src, n_edges, indptr, indices};
}

// ---- aggregate ----------------------------------------------------------------------------------

struct aggregate {
    struct perf *p;
    struct sl_aggregate_args args;
};

static void run_aggregate(void *context)
{
    const struct aggregate *a = context;
    perf_check(a->p, a->p->kernels->aggregate(&a->args));
}

static void aggregate_case(struct perf *p, uint32_t dim, uint32_t degree, double fresh,
                           enum sl_dtype dtype, int scaled)
{
    uint32_t n_dst = 600000 / degree;
    struct sl_csr_view csr = perf_block_csr(p, n_dst, degree, fresh);
    size_t row_bytes = dim * sl_dtype_bytes(dtype);
    uint32_t n_edges = csr.indptr[n_dst];
    struct aggregate a = {.p = p, .args = {.csr = csr, .dim = dim, .x_dtype = dtype}};
    a.args.x = perf_alloc(p, csr.n_src * row_bytes);
    a.args.row_scale = perf_floats(p, n_dst);
    a.args.y = perf_alloc(p, (size_t)n_dst * dim * sizeof(float));
    if (scaled) {
        a.args.col_scale = perf_floats(p, csr.n_src);
        a.args.self_scale = perf_floats(p, n_dst);
        a.args.n_self = n_dst;
    }
    // The plain loop copies the same rows that the kernel reads.
    struct perf_rows plain = {.table = a.args.x,
                              .rows = csr.indices,
                              .n = n_edges,
                              .row_bytes = row_bytes,
                              .threads = p->threads};
    plain.out = perf_alloc(p, plain.n * row_bytes);
    double bytes = (double)n_edges * ((double)row_bytes + 4) + (double)n_dst * (dim * 4.0 + 8) +
                   (scaled ? (double)n_dst * (double)row_bytes : 0);
    struct perf_run runs[PERF_ROW_VARIANTS + 2];
    perf_row_ceilings(&plain, runs);
    runs[PERF_ROW_VARIANTS] = perf_copy_ceiling(p);
    runs[PERF_ROW_VARIANTS + 1] = perf_bytes("aggregate", run_aggregate, &a, bytes, "copy");
    perf_measure(
        p, runs, SL_COUNT_OF(runs),
        "aggregate: %u x %u edges%s, dim %u %s, sources %s (%u MiB) (bytes read + written)", n_dst,
        degree, scaled ? ", scales and self term" : "", dim, dtype == SL_DTYPE_F16 ? "f16" : "f32",
        fresh > 0 ? "as sampled" : "anywhere", (unsigned)(csr.n_src * row_bytes >> 20));
    perf_release(p);
}

void perf_aggregate(struct perf *p)
{
    aggregate_case(p, 128, 10, 0.5, SL_DTYPE_F32, 0);
    aggregate_case(p, 256, 10, 0.5, SL_DTYPE_F32, 0);
    aggregate_case(p, 100, 5, 0.5, SL_DTYPE_F32, 0);
    aggregate_case(p, 128, 10, 0.5, SL_DTYPE_F32, 1);
    aggregate_case(p, 128, 10, 0.5, SL_DTYPE_F16, 0);
    aggregate_case(p, 128, 10, 0.0, SL_DTYPE_F32, 0);
    aggregate_case(p, 256, 10, 0.0, SL_DTYPE_F32, 0);
}

// ---- transpose ----------------------------------------------------------------------------------

struct transpose {
    struct perf *p;
    struct sl_csr_view csr;
    uint32_t *t_indptr, *t_indices, *t_edge;
};

static void run_transpose(void *context)
{
    struct transpose *t = context;
    sl_mempool_reset(&t->p->ws);
    perf_check(t->p,
               t->p->kernels->transpose(&t->csr, t->t_indptr, t->t_indices, t->t_edge, &t->p->ws));
}

static void transpose_case(struct perf *p, double fresh, int with_edge)
{
    struct transpose t = {.p = p, .csr = perf_block_csr(p, 100000, 10, fresh)};
    uint32_t n_edges = t.csr.indptr[t.csr.n_dst];
    t.t_indptr = perf_alloc(p, ((size_t)t.csr.n_src + 1) * 4);
    t.t_indices = perf_alloc(p, (size_t)n_edges * 4);
    t.t_edge = with_edge ? perf_alloc(p, (size_t)n_edges * 4) : NULL;
    struct perf_words words = {.n_words = 1u << 22, .n_reads = 1u << 22, .threads = p->threads};
    words.words = perf_alloc(p, words.n_words * 4);
    struct perf_run runs[] = {
        perf_word_ceiling(&words),
        perf_count("transpose", run_transpose, &t, n_edges, "random 4-byte"),
    };
    perf_measure(p, runs, SL_COUNT_OF(runs),
                 "transpose: %u edges, %u sources %s%s (edges; reads from 16 MiB)", n_edges,
                 t.csr.n_src, fresh > 0 ? "as sampled" : "anywhere",
                 with_edge ? ", with t_edge" : "");
    perf_release(p);
}

void perf_transpose(struct perf *p)
{
    transpose_case(p, 0.5, 0);
    transpose_case(p, 0.5, 1);
    transpose_case(p, 0.0, 0);
}
