#include "trainer/gather.h"

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/mempool.h"

// What was there is lost. An eighth more: batches of one job differ by a few per cent.
static void *grow(void *p, size_t *have, size_t bytes)
{
    if (bytes <= *have)
        return p;
    sl_pages_free(p, *have);
    size_t want = bytes + bytes / 8;
    p = sl_pages_alloc(want);
    *have = p ? want : 0;
    if (!p)
        sl_fail(SL_ENOMEM,
                "no memory for %zu MiB of input features: make sampler.batch_size or the fanout "
                "smaller",
                want >> 20);
    return p;
}

static int from_both(struct sl_gather *g, const struct sl_cache *cache,
                     const struct sl_block *block, uint32_t capacity, float *to, uint32_t *hits)
{
    const struct sl_dataset *ds = g->dataset;
    uint32_t n = block->n_input;
    g->lists = grow(g->lists, &g->lists_bytes, (size_t)n * SL_GATHER_LISTS * sizeof *g->lists);
    if (!g->lists)
        return SL_ENOMEM;
    struct sl_row_split split = {
        .hit_row = g->lists,
        .hit_to = g->lists + n,
        .miss_row = g->lists + 2 * (size_t)n,
        .miss_to = g->lists + 3 * (size_t)n,
    };
    SL_TRY(
        g->kernels->split_rows(sl_block_nodes(block), sl_block_ranks(block), n, capacity, &split));
    SL_TRY(g->kernels->gather_rows_to(cache->rows, ds->feat_dtype, capacity, ds->feat_dim,
                                      split.hit_row, split.hit_to, split.n_hits, n, to));
    *hits = split.n_hits;
    return g->kernels->gather_rows_to(ds->feat, ds->feat_dtype, ds->n_nodes, ds->feat_dim,
                                      split.miss_row, split.miss_to, split.n_misses, n, to);
}

int sl_gather_block(struct sl_gather *g, const struct sl_cache *cache, const struct sl_block *block,
                    struct sl_feature_buffer *to, struct sl_gathered *out)
{
    const struct sl_dataset *ds = g->dataset;
    to->p = grow(to->p, &to->bytes, (size_t)block->n_input * ds->feat_dim * sizeof *to->p);
    if (!to->p)
        return SL_ENOMEM;
    uint32_t hits = 0, capacity = cache ? sl_cache_capacity(cache, block) : 0;
    uint64_t start = sl_now_ns();
    if (capacity)
        SL_TRY(from_both(g, cache, block, capacity, to->p, &hits));
    else
        SL_TRY(g->kernels->gather_rows(ds->feat, ds->feat_dtype, ds->n_nodes, ds->feat_dim,
                                       sl_block_nodes(block), block->n_input, to->p));
    uint64_t row_bytes = ds->feat_dim * sl_dtype_bytes(ds->feat_dtype);
    *out = (struct sl_gathered){
        .ns = sl_now_ns() - start,
        .hits = hits,
        .hit_bytes = hits * row_bytes,
        .miss_bytes = (block->n_input - hits) * row_bytes,
    };
    return SL_OK;
}

void sl_feature_buffer_fini(struct sl_feature_buffer *b)
{
    sl_pages_free(b->p, b->bytes);
    *b = (struct sl_feature_buffer){0};
}

void sl_gather_fini(struct sl_gather *g)
{
    sl_pages_free(g->lists, g->lists_bytes);
    g->lists = NULL;
    g->lists_bytes = 0;
}
