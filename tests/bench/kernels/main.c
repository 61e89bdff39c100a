/*
 * kernels - operations beside the ceilings of the machine, measured in the same run.
 *
 *   kernels [OP] [--backend NAME] [--threads N] [--best] [--small]
 *       On a GPU (--backend cuda: GPU 0) other cases than on cores (gpu.h). --best reports the
 *       fastest rounds, where neighbours disturb. --small makes the cases of a GPU tiny: what an
 *       emulated device can do, of which figures mean nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/arguments.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "tests/bench/kernels/gpu.h"
#include "tests/bench/kernels/perf.h"
#include "tests/kernels/backend.h"

struct measurement {
    const char *name;
    void (*on_cores)(struct perf *p);
    void (*on_gpu)(struct perf *p); // where the processor cannot read the arrays
};

static const struct measurement measurements[] = {
    {"ceilings", NULL, perf_gpu_ceilings},
    {"gather_rows", perf_gather_rows, perf_gpu_gather},
    {"aggregate", perf_aggregate, perf_gpu_aggregate},
    {"transpose", perf_transpose, perf_gpu_transpose},
    {"edge_softmax", perf_edge_softmax, perf_edge_softmax},
    {"edge_scores", perf_heads, perf_heads},
    {"aggregate_heads", perf_heads, perf_heads},
    {"edge_dot", perf_heads, perf_heads},
    {"aggregate_max", perf_aggregate_max, perf_aggregate_max},
    {"normalize_rows", perf_norm, perf_norm},
    {"gemm", perf_gemm, perf_gpu_gemm},
    {"bias_act", perf_bias_act, perf_bias_act},
    {"dropout", perf_bias_act, perf_bias_act},
    {"softmax_xent", perf_loss, perf_loss},
    {"sigmoid_bce", perf_loss, perf_loss},
    {"squared_error", perf_loss, perf_loss},
    {"batch_norm", perf_norm, perf_norm},
    {"layer_norm", perf_norm, perf_norm},
    {"scale_columns", perf_norm, perf_norm},
    {"sum_squares", perf_norm, perf_norm},
    {"reduce", perf_update, perf_update},
    {"adam", perf_update, perf_update},
    {"sgd", perf_update, perf_update},
    {"khop_uniform", perf_khop, NULL},
    {"khop_weighted", perf_khop, NULL},
    {"random_walk", perf_khop, NULL},
    {"labor", perf_khop, NULL},
    {"exclude", perf_exclude, NULL},
    {"weight_prefix", perf_weight_prefix, perf_gpu_draw},
    {"mark_ranks", perf_khop, perf_gpu_draw},
    {"split_rows", perf_split_rows, perf_gpu_draw},
    {"gather_rows_to", perf_gather_rows_to, perf_gpu_ranked},
    {"draw", NULL, perf_gpu_draw},
    {"gather_ranked", NULL, perf_gpu_ranked},
    {"scatter_rows", NULL, perf_gpu_ranked},
    {"pair_dot", perf_pairs, perf_pairs},
    {"pair_rows", perf_pairs, perf_pairs},
    {"pair_gradient", perf_pairs, perf_pairs},
    {"pair_loss", perf_pairs, perf_pairs},
};

struct options {
    const char *only; // a measurement's name or NULL
    const char *backend;
    uint32_t threads;
    bool best, is_small;
};

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_TEXT("backend", options, backend),
    ARGUMENT_NUMBER("threads", options, threads, 1, 1024),
    ARGUMENT_FLAG("best", options, best),
    ARGUMENT_FLAG("small", options, is_small),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "kernels",
    .is_program = true,
    .about = "Time of each operation beside the least that its bytes and operations take.",
    .operands = {{"OP", offsetof(struct options, only), true}},
    .options = {{options}},
};

static void (*measure_of(const struct backend *b, size_t i))(struct perf *)
{
    return b->device->is_host ? measurements[i].on_cores : measurements[i].on_gpu;
}

// Whether one before this has shown the same figures.
static int was_measured(const struct backend *b, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (measure_of(b, j) == measure_of(b, i))
            return 1;
    return 0;
}

static int measure(const struct options *o, const struct backend *b)
{
    struct perf p = {.kernels = b->kernels,
                     .device = b->device,
                     .threads = (int)o->threads,
                     .best = o->best,
                     .small = o->is_small,
                     .random = 20240607};
    int n = 0;
    sl_kernels_set_threads((int)o->threads);
    perf_begin(&p);
    for (size_t i = 0; i < SL_COUNT_OF(measurements); i++) {
        void (*body)(struct perf *) = measure_of(b, i);
        if (!body || (o->only ? strcmp(o->only, measurements[i].name) != 0 : was_measured(b, i)))
            continue;
        body(&p);
        n++;
    }
    perf_end(&p);
    if (n == 0)
        fprintf(stderr, "kernels: %s is not measured on %s\n", o->only, b->kernels->name);
    return p.failed || n == 0;
}

int main(int argc, char **argv)
{
    struct options o = {.backend = "cpu", .threads = 1};
    struct backend backend;
    arguments_parse(&command, &o, argc, argv);
    if (sl_isa_init() < 0 || backend_open(o.backend, &backend) < 0) {
        fprintf(stderr, "kernels: %s\n", sl_error_message());
        return 1;
    }
    return measure(&o, &backend);
}
