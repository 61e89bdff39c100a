// backends.c - the tables of operations that there are: ref, cpu, and that of a plug-in's GPU.
#include "kernels/kernels.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/device/cores.h"
#include "common/base/error.h"
#include "common/device/plugin.h"
#include "kernels/kernels_internal.h"

#define SAMPLE(backend, constant, word, kernel, flags) sl_##backend##_##kernel,
#define TABLE(backend)                                                                             \
    {                                                                                              \
        .name = #backend, .gather_rows = sl_##backend##_gather_rows,                               \
        .edge_softmax = sl_##backend##_edge_softmax,                                               \
        .edge_softmax_backward = sl_##backend##_edge_softmax_backward,                             \
        .edge_scores = sl_##backend##_edge_scores,                                                 \
        .edge_scores_backward = sl_##backend##_edge_scores_backward,                               \
        .aggregate_heads = sl_##backend##_aggregate_heads, .edge_dot = sl_##backend##_edge_dot,    \
        .aggregate_max = sl_##backend##_aggregate_max,                                             \
        .aggregate_max_backward = sl_##backend##_aggregate_max_backward,                           \
        .normalize_rows = sl_##backend##_normalize_rows,                                           \
        .normalize_rows_backward = sl_##backend##_normalize_rows_backward,                         \
        .aggregate = sl_##backend##_aggregate, .transpose = sl_##backend##_transpose,              \
        .gemm = sl_##backend##_gemm, .bias_act = sl_##backend##_bias_act,                          \
        .bias_act_backward = sl_##backend##_bias_act_backward, .dropout = sl_##backend##_dropout,  \
        .softmax_xent = sl_##backend##_softmax_xent, .sigmoid_bce = sl_##backend##_sigmoid_bce,    \
        .squared_error = sl_##backend##_squared_error, .batch_norm = sl_##backend##_batch_norm,    \
        .batch_norm_backward = sl_##backend##_batch_norm_backward,                                 \
        .layer_norm = sl_##backend##_layer_norm,                                                   \
        .layer_norm_backward = sl_##backend##_layer_norm_backward,                                 \
        .scale_columns = sl_##backend##_scale_columns, .sum_squares = sl_##backend##_sum_squares,  \
        .reduce = sl_##backend##_reduce, .adam = sl_##backend##_adam, .sgd = sl_##backend##_sgd,   \
        .sample = {SL_SAMPLER_LIST(SAMPLE, backend)},                                              \
        .weight_prefix = sl_##backend##_weight_prefix, .mark_ranks = sl_##backend##_mark_ranks,    \
        .split_rows = sl_##backend##_split_rows, .gather_rows_to = sl_##backend##_gather_rows_to,  \
        .gather_ranked = sl_##backend##_gather_ranked,                                             \
        .scatter_rows = sl_##backend##_scatter_rows,                                               \
        .gemm_bias_act = sl_##backend##_gemm_bias_act,                                             \
        .weight_gradients = sl_##backend##_weight_gradients, .row_sums = sl_##backend##_row_sums,  \
        .count_loops = sl_##backend##_count_loops, .fix_loops = sl_##backend##_fix_loops,          \
        .gcn_scales = sl_##backend##_gcn_scales, .block_diagonal = sl_##backend##_block_diagonal,  \
        .add_block_diagonal = sl_##backend##_add_block_diagonal,                                   \
        .sum_heads = sl_##backend##_sum_heads, .spread_heads = sl_##backend##_spread_heads,        \
        .fill_sum = sl_##backend##_fill_sum, .add_scaled = sl_##backend##_add_scaled,              \
        .add_dot = sl_##backend##_add_dot, .maximum = sl_##backend##_maximum,                      \
        .maximum_backward = sl_##backend##_maximum_backward,                                       \
        .running_scale = sl_##backend##_running_scale,                                             \
        .running_backward = sl_##backend##_running_backward,                                       \
        .running_average = sl_##backend##_running_average,                                         \
    }

static const struct sl_kernels table_ref = TABLE(ref);
static const struct sl_kernels table_cpu = TABLE(cpu);

static const struct sl_kernels *const tables[] = {&table_ref, &table_cpu};

const struct sl_kernels *sl_kernels_ref(void)
{
    return &table_ref;
}

const struct sl_kernels *sl_kernels_cpu(void)
{
    return &table_cpu;
}

// The table of a plug-in whose GPU is open. SL_EPROTO when it is of another build.
static int table_of(const struct sl_plugin *plugin, const struct sl_kernels **out)
{
    if (plugin->kernels_bytes != sizeof *plugin->kernels)
        return sl_fail(SL_EPROTO,
                       "%s is of another build: its table of operations has %u bytes, this "
                       "program's %zu: build both together",
                       sl_plugin_path(), plugin->kernels_bytes, sizeof *plugin->kernels);
    *out = plugin->kernels;
    return SL_OK;
}

int sl_kernels_open_gpu(uint32_t index, uint64_t budget_bytes, const struct sl_device **device,
                        const struct sl_kernels **kernels)
{
    const struct sl_plugin *plugin;
    SL_TRY(sl_plugin_open(&plugin));
    SL_TRY(plugin->open(index, budget_bytes));
    *device = plugin->device;
    return table_of(plugin, kernels);
}

static const struct sl_kernels *find_cuda(void)
{
    const struct sl_plugin *plugin = sl_plugin_opened();
    const struct sl_kernels *table = NULL;
    return plugin && plugin->kernels && table_of(plugin, &table) == SL_OK ? table : NULL;
}

const struct sl_kernels *sl_kernels_find(const char *name)
{
    if (name && strcmp(name, "cuda") == 0)
        return find_cuda();
    for (size_t i = 0; i < SL_COUNT_OF(tables); i++)
        if (name && strcmp(tables[i]->name, name) == 0)
            return tables[i];
    return NULL;
}
