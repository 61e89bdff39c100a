#include "trainer/infer/score.h"

#include "common/base/error.h"

// Where the device does not read the embeddings: those of the pairs' ends (2 n, width), which the
// pairs then number.
static int bring_ends(struct sl_model *model, const struct sl_score_args *a, const float **rows)
{
    const uint64_t n = 2 * (uint64_t)a->n, bytes = n * model->n_outputs * sizeof(float);
    float *host = sl_layer_note(&model->env, bytes);
    float *there = sl_layer_floats(&model->env, n * model->n_outputs);
    if (!host || !there)
        return SL_ENOMEM;
    SL_TRY(sl_kernels_cpu()->gather_rows(a->embeddings, SL_DTYPE_F32, a->n_rows, model->n_outputs,
                                         a->pairs, n, host));
    for (uint32_t i = 0; i < n; i++)
        a->pairs[i] = i;
    *rows = there;
    return model->env.device->copy(there, host, bytes);
}

int sl_score_pairs(struct sl_model *model, const struct sl_score_args *a)
{
    const struct sl_device *device = model->env.device;
    const float *rows = a->embeddings;
    const uint32_t *pairs;
    struct sl_loss_result part = {0};
    sl_mempool_reset(&model->pool);
    sl_mempool_reset(&model->notes);
    if (!device->is_host)
        SL_TRY(bring_ends(model, a, &rows));
    SL_TRY(sl_layer_upload_words(&model->env, a->pairs, 2 * (uint64_t)a->n, &pairs));
    float *scores = sl_layer_floats(&model->env, a->n);
    if (!scores)
        return SL_ENOMEM;
    SL_TRY(sl_model_score(model, a->params, rows, device->is_host ? a->n_rows : 2 * (uint64_t)a->n,
                          pairs, a->n, scores, a->result ? &part : NULL, a->n_positive));
    SL_TRY(device->copy(a->scores, scores, a->n * sizeof *scores));
    SL_TRY(device->sync());
    if (a->result)
        sl_loss_add(a->result, &part);
    return SL_OK;
}
