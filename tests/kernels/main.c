/*
 * kernels - the driver of all kernel tests and measurements.
 *
 *   kernels test [OP] [--backend NAME] [--seed N]
 *       every slot against the reference
 *   kernels grad [OP]
 *       backward slots by finite differences
 *   kernels perf [OP] [--backend NAME] [--threads N] [--best]
 *       speed, beside ceilings of the same run
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/perf.h"

struct operation {
    const char *name;
    void (*test)(struct suite *t);
    void (*grad)(struct suite *t);
    void (*perf)(struct perf *p);
};

static const struct operation operations[] = {
    {"gather_rows", test_gather_rows, NULL, perf_gather_rows},
    {"aggregate", test_aggregate, grad_aggregate, perf_aggregate},
    {"transpose", test_transpose, NULL, perf_transpose},
    {"edge_softmax", test_edge_softmax, grad_edge_softmax, perf_edge_softmax},
    {"aggregate_heads", test_aggregate_heads, grad_aggregate_heads, perf_aggregate_heads},
    {"edge_dot", test_edge_dot, NULL, perf_edge_dot},
    {"aggregate_max", test_aggregate_max, grad_aggregate_max, perf_aggregate_max},
    {"normalize_rows", test_normalize_rows, grad_normalize_rows, perf_normalize_rows},
    {"gemm", test_gemm, grad_gemm, perf_gemm},
    {"bias_act", test_bias_act, grad_bias_act, perf_bias_act},
    {"dropout", test_dropout, NULL, perf_dropout},
    {"softmax_xent", test_softmax_xent, grad_softmax_xent, perf_softmax_xent},
    {"sigmoid_bce", test_sigmoid_bce, grad_sigmoid_bce, perf_sigmoid_bce},
    {"squared_error", test_squared_error, grad_squared_error, perf_sigmoid_bce},
    {"batch_norm", test_batch_norm, grad_batch_norm, perf_norm},
    {"layer_norm", test_layer_norm, grad_layer_norm, perf_norm},
    {"scale_columns", test_scale_columns, NULL, perf_norm},
    {"sum_squares", test_sum_squares, NULL, perf_norm},
    {"reduce", test_reduce, NULL, perf_reduce},
    {"adam", test_adam, NULL, perf_adam},
    {"sgd", test_sgd, NULL, perf_sgd},
    {"khop_uniform", test_khop, NULL, perf_khop},
    {"khop_weighted", test_khop_weighted, NULL, perf_khop},
    {"random_walk", test_random_walk, NULL, perf_khop},
    {"weight_prefix", test_weight_prefix, NULL, perf_weight_prefix},
    {"mark_ranks", test_mark_ranks, NULL, perf_khop},
    {"split_rows", test_split_rows, NULL, perf_split_rows},
    {"gather_rows_to", test_gather_rows_to, NULL, perf_gather_rows_to},
};

enum mode { MODE_TEST, MODE_GRAD, MODE_PERF };

struct options {
    enum mode mode;
    const char *only; // an operation's name or NULL
    const struct sl_kernels *backend;
    uint64_t seed;
    int threads;
    int best;
};

static int usage(const char *why, const char *what)
{
    fprintf(stderr,
            "kernels: %s%s\n"
            "usage: kernels test|grad|perf [OP] [--backend NAME] [--threads N] [--seed N] "
            "[--best]\n"
            "operations:",
            why, what);
    for (size_t i = 0; i < SL_COUNT_OF(operations); i++)
        fprintf(stderr, " %s", operations[i].name);
    fputc('\n', stderr);
    return 2;
}

static int is_operation(const char *name)
{
    for (size_t i = 0; i < SL_COUNT_OF(operations); i++)
        if (strcmp(operations[i].name, name) == 0)
            return 1;
    return 0;
}

// 0, or the exit status of a command line that makes no sense.
static int parse(int argc, char **argv, struct options *o)
{
    static const char *const modes[] = {"test", "grad", "perf"};
    int mode = -1;
    for (int i = 0; argc > 1 && i < 3; i++)
        if (strcmp(argv[1], modes[i]) == 0)
            mode = i;
    if (mode < 0)
        return usage("which mode? ", argc > 1 ? argv[1] : "");
    o->mode = (enum mode)mode;
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--backend") == 0 && value) {
            o->backend = sl_kernels_find(value);
            if (!o->backend)
                return usage("no back end is named ", value);
            i++;
        } else if (strcmp(argv[i], "--seed") == 0 && value) {
            o->seed = strtoull(value, NULL, 0);
            i++;
        } else if (strcmp(argv[i], "--threads") == 0 && value && atoi(value) > 0) {
            o->threads = atoi(value);
            i++;
        } else if (strcmp(argv[i], "--best") == 0) {
            o->best = 1;
        } else if (!o->only && is_operation(argv[i])) {
            o->only = argv[i];
        } else {
            return usage("what is ", argv[i]);
        }
    }
    return 0;
}

static int run_checks(const struct options *o)
{
    struct suite t = {.ref = sl_kernels_ref(), .dev = o->backend, .random = o->seed};
    sl_mempool_init(&t.ws);
    for (size_t i = 0; i < SL_COUNT_OF(operations); i++) {
        const struct operation *op = &operations[i];
        void (*body)(struct suite *) = o->mode == MODE_TEST ? op->test : op->grad;
        if (!body || (o->only && strcmp(o->only, op->name) != 0))
            continue;
        int passed = t.passed, failed = t.failed;
        body(&t);
        printf("%-14s %d passed, %d failed\n", op->name, t.passed - passed, t.failed - failed);
        fflush(stdout);
    }
    sl_mempool_fini(&t.ws);
    printf("kernels: %d passed, %d failed\n", t.passed, t.failed);
    return t.failed > 0 || t.passed == 0;
}

// Whether an operation before this one has shown the same figures.
static int was_measured(size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (operations[j].perf == operations[i].perf)
            return 1;
    return 0;
}

static int run_perf(const struct options *o)
{
    struct perf p = {
        .kernels = o->backend, .threads = o->threads, .best = o->best, .random = o->seed};
    sl_kernels_set_threads(o->threads);
    perf_begin(&p);
    for (size_t i = 0; i < SL_COUNT_OF(operations); i++)
        if (operations[i].perf &&
            (o->only ? strcmp(o->only, operations[i].name) == 0 : !was_measured(i)))
            operations[i].perf(&p);
    perf_end(&p);
    return p.failed;
}

int main(int argc, char **argv)
{
    struct options o = {.backend = sl_kernels_cpu(), .seed = 20240607, .threads = 1};
    int status = parse(argc, argv, &o);
    if (status)
        return status;
    return o.mode == MODE_PERF ? run_perf(&o) : run_checks(&o);
}
