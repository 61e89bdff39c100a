#include "trainer/feed/typed_block.h"

#include <inttypes.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { ROWS_ALIGN = 64 };

int sl_typed_block_check(const struct sl_block *block, const struct sl_typed *typed)
{
    const struct sl_block_type *type = sl_block_types(block);
    const struct sl_block_run *runs = sl_block_runs(block);
    const uint32_t n_runs = typed->n_types ? sl_block_typed(block)->n_runs : 0;
    uint64_t last = 0;
    for (uint32_t i = 0; i < n_runs; i++) {
        const struct sl_block_run *r = &runs[i];
        const uint64_t place = (uint64_t)r->hop * typed->n_relations + r->relation;
        if (r->relation >= typed->n_relations || (i > 0 && place <= last) ||
            r->n_dst != type[typed->relation[r->relation].target].n[r->hop])
            return sl_fail(SL_EPROTO,
                           "block of batch %" PRIu64 ": run %u is of relation %u in hop %u with %u "
                           "rows: sampler and trainer do not agree on the graph",
                           block->batch, i, r->relation, r->hop, r->n_dst);
        last = place;
    }
    return SL_OK;
}

uint64_t sl_typed_rows_at(const struct sl_block *block, const struct sl_typed *typed, uint32_t type,
                          enum sl_typed_layout layout)
{
    uint64_t at = 0;
    for (uint32_t t = 0; t < type; t++) {
        const struct sl_vertex_type *v = &typed->type[t];
        const uint64_t each =
            layout == SL_TYPED_AS_STORED ? sl_dtype_bytes(v->feat_dtype) : sizeof(float);
        at += sl_align_up(sl_typed_layout_rows(block, t, layout) * each * v->feat_dim,
                          (uint64_t)ROWS_ALIGN);
    }
    return at;
}

const struct sl_block_run *sl_typed_edge_owner(const struct sl_block *block,
                                               const struct sl_block_run *run)
{
    const struct sl_block_run *next;
    while ((next = sl_block_find_run(block, run->hop + 1, run->relation)) &&
           next->edge_ids_offset == run->edge_ids_offset)
        run = next;
    return run;
}

uint64_t sl_typed_edge_bytes(const struct sl_typed *typed, const struct sl_block_run *run)
{
    const uint64_t row_bytes = typed->relation[run->relation].feat_dim * sizeof(float);
    return sl_align_up(run->n_edges * row_bytes, (uint64_t)ROWS_ALIGN);
}

uint64_t sl_typed_edge_rows(const struct sl_block *block, const struct sl_typed *typed,
                            uint64_t first, uint64_t *at)
{
    const struct sl_block_run *runs = sl_block_runs(block);
    for (uint32_t i = sl_block_typed(block)->n_runs; i-- > 0;) { // an owner before its first part
        const uint64_t dim = typed->relation[runs[i].relation].feat_dim;
        const struct sl_block_run *owner = dim ? sl_typed_edge_owner(block, &runs[i]) : NULL;
        if (at)
            at[i] = !owner ? SL_NO_EDGE_ROWS : owner == &runs[i] ? first : at[owner - runs];
        if (owner == &runs[i])
            first += sl_typed_edge_bytes(typed, &runs[i]);
    }
    return first;
}

uint64_t sl_typed_activations_end(const struct sl_block *block, uint32_t width)
{
    return sl_align_up(block->n_input * (width * sizeof(float)), (uint64_t)ROWS_ALIGN);
}

uint64_t sl_typed_block_bytes(const struct sl_block *block, const struct sl_typed *typed,
                              enum sl_typed_layout layout)
{
    return sl_typed_edge_rows(block, typed, sl_typed_rows_at(block, typed, typed->n_types, layout),
                              NULL);
}

struct sl_csr_view sl_run_csr(struct sl_block_view block, const struct sl_typed *typed,
                              const struct sl_block_run *run)
{
    const uint32_t source = typed->relation[run->relation].source;
    return (struct sl_csr_view){
        .n_dst = run->n_dst,
        .n_src = sl_block_types(block.header)[source].n[run->hop + 1],
        .n_edges = run->n_edges,
        .indptr = sl_run_indptr(block, run),
        .indices = sl_run_indices(block, run),
    };
}

const struct sl_block_run *sl_block_find_run(const struct sl_block *block, uint32_t hop,
                                             uint32_t relation)
{
    const struct sl_block_run *runs = sl_block_runs(block);
    const uint32_t n_runs = sl_block_typed(block)->n_runs;
    uint32_t low = 0, high = n_runs;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct sl_block_run *r = &runs[middle];
        if (r->hop < hop || (r->hop == hop && r->relation < relation))
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < n_runs && runs[low].hop == hop && runs[low].relation == relation;
    return found ? &runs[low] : NULL;
}
