#include "loader/schema.h"

#include <stdlib.h>

#include "common/arena/block.h"
#include "common/base/error.h"

_Static_assert(sizeof(struct sluice_part) == sizeof(struct sl_block_type) &&
                   offsetof(struct sluice_part, n_after) == offsetof(struct sl_block_type, n),
               "a block's table of types is what callers read");

static enum sluice_type type_of(const struct sl_vertex_type *t)
{
    if (t->feat_dim == 0)
        return SLUICE_NONE;
    return t->feat_dtype == SL_DTYPE_F16 ? SLUICE_F16 : SLUICE_F32;
}

static int64_t fanout_of(const struct sl_config *c, const struct sl_typed *typed, uint32_t relation,
                         uint32_t hop)
{
    const int64_t *all = c->sampler.fanout_names.by_relation;
    return all ? all[(uint64_t)hop * typed->n_relations + relation] : c->sampler.fanout[hop];
}

int sl_schema_init(struct sl_schema *s, const struct sl_typed *typed, const struct sl_config *c)
{
    *s = (struct sl_schema){0};
    if (typed->n_types == 0)
        return SL_OK;
    s->types = calloc(typed->n_types, sizeof *s->types);
    s->relations = calloc(typed->n_relations, sizeof *s->relations);
    if (!s->types || !s->relations) {
        sl_schema_fini(s);
        return sl_fail(SL_ENOMEM, "a loader's table of types: no memory");
    }
    for (uint32_t i = 0; i < typed->n_types; i++) {
        const struct sl_vertex_type *t = &typed->type[i];
        s->types[i] = (struct sluice_vertex_type){
            .name = t->name,
            .first = t->first,
            .n = t->n,
            .feat_dim = t->feat_dim,
            .feat_type = type_of(t),
            .feat_row_bytes = t->feat_dim * sl_dtype_bytes(t->feat_dtype),
        };
    }
    for (uint32_t i = 0; i < typed->n_relations; i++) {
        const struct sl_relation *r = &typed->relation[i];
        s->relations[i] = (struct sluice_relation){
            .name = r->name,
            .source = r->source,
            .target = r->target,
            .first_edge = r->first_edge,
            .n_edges = r->n_edges,
        };
        for (uint32_t h = 0; h < c->sampler.n_fanout; h++)
            s->relations[i].fanout[h] = fanout_of(c, typed, i, h);
    }
    return SL_OK;
}

void sl_schema_fini(struct sl_schema *s)
{
    free(s->types);
    free(s->relations);
    *s = (struct sl_schema){0};
}

void sl_batch_describe_types(const struct sl_block *h, struct sluice_batch *b)
{
    b->n_types = sl_block_typed(h)->n_types;
    b->n_runs = sl_block_typed(h)->n_runs;
    b->parts = (const struct sluice_part *)(const void *)sl_block_types(h);
    b->block = h;
}

int sluice_get_run(const struct sluice_batch *batch, uint32_t number, struct sluice_run *out)
{
    if (!batch || !out)
        return sl_fail(SL_EINVAL, "sluice_get_run: found no %s", batch ? "place" : "batch");
    const uint32_t n_runs = batch->block ? batch->n_runs : 0;
    if (number >= n_runs)
        return sl_fail(SL_EINVAL, "sluice_get_run: found run %u, wanted one below n_runs, %u",
                       number, n_runs);
    const struct sl_block_view v = sl_block_here(batch->block);
    const struct sl_block_run *run = &sl_block_runs(v.header)[number];
    *out = (struct sluice_run){
        .hop = run->hop,
        .relation = run->relation,
        .n_dst = run->n_dst,
        .n_edges = run->n_edges,
        .indptr = sl_run_indptr(v, run),
        .indices = sl_run_indices(v, run),
        .edge_ids = sl_run_edge_ids(v, run),
        .weights = sl_run_weights(v, run),
    };
    return SL_OK;
}
