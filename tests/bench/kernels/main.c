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
    {"edge_softmax", perf_edge_softmax, perf_gpu_attention},
    {"edge_scores", perf_edge_scores, NULL},
    {"aggregate_heads", perf_aggregate_heads, perf_gpu_heads},
    {"edge_dot", perf_edge_dot, perf_gpu_heads},
    {"aggregate_max", perf_aggregate_max, perf_gpu_max},
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
    {"weight_prefix", perf_weight_prefix, perf_gpu_draw},
    {"mark_ranks", perf_khop, perf_gpu_draw},
    {"split_rows", perf_split_rows, perf_gpu_draw},
    {"gather_rows_to", perf_gather_rows_to, perf_gpu_ranked},
    {"draw", NULL, perf_gpu_draw},
    {"gather_ranked", NULL, perf_gpu_ranked},
    {"scatter_rows", NULL, perf_gpu_ranked},
};

struct options {
    const char *only; // a measurement's name or NULL
    const char *backend;
    int threads;
    int best, is_small;
};

static int usage(const char *what)
{
    fprintf(stderr,
            "kernels: what is %s\n"
            "usage: kernels [OP] [--backend NAME] [--threads N] [--best] [--small]\n"
            "operations:",
            what);
    for (size_t i = 0; i < SL_COUNT_OF(measurements); i++)
        fprintf(stderr, " %s", measurements[i].name);
    fputc('\n', stderr);
    return 2;
}

static int is_measured(const char *name)
{
    for (size_t i = 0; i < SL_COUNT_OF(measurements); i++)
        if (strcmp(measurements[i].name, name) == 0)
            return 1;
    return 0;
}

// 0, or the exit status of a command line that makes no sense.
static int parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--backend") == 0 && value) {
            o->backend = value;
            i++;
        } else if (strcmp(argv[i], "--threads") == 0 && value && atoi(value) > 0) {
            o->threads = atoi(value);
            i++;
        } else if (strcmp(argv[i], "--best") == 0) {
            o->best = 1;
        } else if (strcmp(argv[i], "--small") == 0) {
            o->is_small = 1;
        } else if (!o->only && is_measured(argv[i])) {
            o->only = argv[i];
        } else {
            return usage(argv[i]);
        }
    }
    return 0;
}

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
                     .threads = o->threads,
                     .best = o->best,
                     .small = o->is_small,
                     .random = 20240607};
    int n = 0;
    sl_kernels_set_threads(o->threads);
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
    int status = parse(argc, argv, &o);
    if (status)
        return status;
    if (sl_isa_init() < 0 || backend_open(o.backend, &backend) < 0) {
        fprintf(stderr, "kernels: %s\n", sl_error_message());
        return 1;
    }
    return measure(&o, &backend);
}
