#include "kernels/cpu/cpu_internal.h"

#include "common/base/bits.h"

enum {
    PARTS_PER_THREAD = 8,
    PART_MIN_BYTES = 1 << 16, // less is not worth a thread
};

struct range {
    void (*body)(void *context, uint64_t begin, uint64_t end);
    void *context;
    uint64_t n, step;
};

static void run_range(void *context, uint32_t part)
{
    const struct range *range = context;
    uint64_t begin = part * range->step;
    range->body(range->context, begin, SL_MIN(begin + range->step, range->n));
}

void sl_cpu_parallel_range(uint64_t n, uint64_t grain, uint64_t align,
                           void (*body)(void *context, uint64_t begin, uint64_t end), void *context)
{
    if (n == 0)
        return;
    uint64_t threads = (uint64_t)sl_cpu_threads(), parts = 1;
    if (threads > 1)
        parts = SL_MAX(SL_MIN(threads * PARTS_PER_THREAD, n / SL_MAX(grain, 1)), 1);
    uint64_t step = sl_div_up(sl_div_up(n, parts), align) * align;
    struct range range = {.body = body, .context = context, .n = n, .step = step};
    sl_cpu_parallel_parts((uint32_t)sl_div_up(n, step), run_range, &range);
}

uint32_t sl_cpu_row_split(const struct sl_csr_view *csr, uint32_t p, uint32_t n_parts)
{
    uint64_t base = csr->indptr[0];
    uint64_t total = csr->indptr[csr->n_dst] - base + csr->n_dst;
    uint64_t want = total * p / n_parts;
    // The first row whose begin lies at or behind `want`: the sum of edges and rows grows strictly.
    uint32_t low = 0, high = csr->n_dst;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (csr->indptr[middle] - base + middle < want)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t sl_cpu_edge_parts(const struct sl_csr_view *csr, uint64_t edge_bytes)
{
    if (sl_cpu_threads() == 1)
        return SL_MIN(csr->n_dst, 1);
    uint64_t work = (uint64_t)(csr->indptr[csr->n_dst] - csr->indptr[0]) + csr->n_dst;
    // At most one part an edge or row, or the first part would begin and end before the first row.
    uint64_t most = SL_MIN((uint64_t)sl_cpu_threads() * PARTS_PER_THREAD, work);
    return (uint32_t)SL_MIN(most, work * edge_bytes / PART_MIN_BYTES + 1);
}

uint32_t sl_cpu_row_parts(const struct sl_csr_view *csr, uint64_t edge_bytes)
{
    return SL_MIN(sl_cpu_edge_parts(csr, edge_bytes), csr->n_dst);
}

struct rows {
    const struct sl_csr_view *csr;
    sl_cpu_rows_fn *body;
    const void *context;
    uint32_t n_parts;
};

static void run_rows(void *context, uint32_t part)
{
    const struct rows *rows = context;
    rows->body(rows->context, sl_cpu_row_split(rows->csr, part, rows->n_parts),
               sl_cpu_row_split(rows->csr, part + 1, rows->n_parts));
}

void sl_cpu_parallel_rows(const struct sl_csr_view *csr, uint64_t edge_bytes, sl_cpu_rows_fn *body,
                          const void *context)
{
    struct rows rows = {csr, body, context, sl_cpu_row_parts(csr, edge_bytes)};
    sl_cpu_parallel_parts(rows.n_parts, run_rows, &rows);
}
