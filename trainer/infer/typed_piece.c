#include "trainer/infer/typed_piece.h"

#include "common/base/bits.h"
#include "common/base/error.h"
#include "trainer/feed/typed_block.h"
#include "trainer/infer/piece.h"

int sl_typed_pieces_init(struct sl_typed_pieces *p, const struct sl_dataset *ds)
{
    *p = (struct sl_typed_pieces){.features = {.dataset = ds}};
    return sl_vicinity_init(&p->vicinity, ds);
}

void sl_typed_pieces_fini(struct sl_typed_pieces *p)
{
    if (p->vicinity.dataset)
        sl_vicinity_fini(&p->vicinity);
    sl_row_source_fini(&p->features);
    sl_buffer_fini(&p->x);
}

uint64_t sl_typed_piece_edges(const struct sl_model *model, uint32_t l)
{
    const struct sl_typed *t = model->typed->typed;
    uint32_t width = model->typed->hidden;
    for (uint32_t i = 0; l == 0 && i < t->n_types; i++)
        width = SL_MAX(width, t->type[i].feat_dim);
    return SL_MIN((uint64_t)SL_INFER_PIECE_EDGES, (uint64_t)SL_INFER_PIECE_FLOATS / width);
}

int sl_typed_pieces_take_features(struct sl_typed_pieces *p, const struct sl_model *model)
{
    const struct sl_typed *t = model->typed->typed;
    const struct sl_block *block = p->vicinity.block;
    const uint64_t bytes = sl_typed_rows_at(block, t, t->n_types, false);
    SL_TRY(sl_buffer_grow(&p->x, model->env.device, SL_BUFFER_HOST, bytes, "features"));
    return sl_rows_copy_typed(&p->features, model->env.kernels, block, false, p->x.p);
}

static int take_activations(struct sl_typed_pieces *p, const struct sl_model *model,
                            const float *before)
{
    const struct sl_block *block = p->vicinity.block;
    const uint32_t n = block->n_input, width = model->typed->hidden;
    SL_TRY(sl_buffer_grow(&p->x, model->env.device, SL_BUFFER_HOST,
                          (uint64_t)n * width * sizeof(float), "activations"));
    return model->env.kernels->gather_rows(before, SL_DTYPE_F32, p->features.dataset->n_nodes,
                                           width, sl_block_nodes(block), n, p->x.p);
}

static uint64_t degree_of(const struct sl_typed_pieces *p, const struct sl_typed_model *m,
                          uint32_t type, uint64_t v)
{
    const struct sl_incoming *in = &m->incoming;
    uint64_t edges = 0;
    for (uint32_t i = in->first[type]; i < in->first[type + 1]; i++)
        edges +=
            sl_dataset_degree(p->features.dataset,
                              sl_relation_row(m->typed, &m->typed->relation[in->relation[i]], v));
    return edges;
}

static void cut(const struct sl_typed_pieces *p, const struct sl_model *model, uint32_t l,
                uint32_t type, struct sl_infer_range *range)
{
    const uint64_t most = sl_typed_piece_edges(model, l);
    const uint32_t limit = SL_MIN(range->n, (uint32_t)SL_INFER_PIECE_ROWS);
    uint64_t edges = 0;
    uint32_t n = 0;
    while (n < limit) {
        edges += 1 + degree_of(p, model->typed, type, sl_infer_vertex(range, n));
        if (n > 0 && edges > most)
            break;
        n++;
    }
    range->n = n;
}

int sl_typed_piece_run(struct sl_typed_pieces *p, struct sl_model *model, const float *params,
                       uint32_t l, uint32_t type, const float *before, bool outputs,
                       struct sl_infer_range *range, const float **rows)
{
    const struct sl_vertex_type *of = &model->typed->typed->type[type];
    cut(p, model, l, type, range);
    const int rc = sl_vicinity_find(&p->vicinity, type, range, 1, UINT32_MAX);
    if (rc == SL_ERANGE)
        return sl_fail(SL_EUNSUPPORTED,
                       "inference: vertex %llu of type '%s' has 2^32 in-edges or more, wanted less",
                       (unsigned long long)(sl_infer_vertex(range, 0) - of->first), of->name);
    SL_TRY(rc);
    SL_TRY(l == 0 ? sl_typed_pieces_take_features(p, model) : take_activations(p, model, before));
    return sl_model_layer(model, params, sl_block_here(p->vicinity.block), l, p->x.p, type, outputs,
                          rows);
}
