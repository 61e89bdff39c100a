/*
 * kernels - the driver of all kernel tests and measurements.
 *
 *   kernels test [OP] [--backend NAME] [--seed N] [--small] [--apart]
 *       every slot against the reference; --small leaves most of the large cases out; --apart maps
 *       each array by itself for a GPU, so that compute-sanitizer sees what lies between them
 *   kernels grad [OP]
 *       backward slots by finite differences
 *       --backend cuda: on GPU 0, or on an emulated one when SLUICE_CUDA_PLUGIN names the emulation
 *   kernels perf [OP] [--backend NAME] [--threads N] [--best] [--small]
 *       speed, beside ceilings of the same run. On a GPU other cases than on cores (perf_gpu.h),
 *       and --small makes them tiny: what an emulated device can do, of which figures mean nothing
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "common/device/plugin.h"
#include "tests/kernels/harness.h"
#include "tests/kernels/perf.h"
#include "tests/kernels/perf_gpu.h"

struct operation {
    const char *name;
    void (*test)(struct suite *t);
    void (*grad)(struct suite *t);
    void (*perf)(struct perf *p);     // on cores
    void (*perf_gpu)(struct perf *p); // where the processor can not read the arrays
};

static const struct operation operations[] = {
    {"emulation", test_emulation, NULL, NULL, NULL},
    {"ceilings", NULL, NULL, NULL, perf_gpu_ceilings},
    {"gather_rows", test_gather_rows, NULL, perf_gather_rows, perf_gpu_gather},
    {"aggregate", test_aggregate, grad_aggregate, perf_aggregate, perf_gpu_aggregate},
    {"transpose", test_transpose, NULL, perf_transpose, perf_gpu_transpose},
    {"edge_softmax", test_edge_softmax, grad_edge_softmax, perf_edge_softmax, perf_gpu_attention},
    {"aggregate_heads", test_aggregate_heads, grad_aggregate_heads, perf_aggregate_heads,
     perf_gpu_heads},
    {"edge_dot", test_edge_dot, NULL, perf_edge_dot, perf_gpu_heads},
    {"aggregate_max", test_aggregate_max, grad_aggregate_max, perf_aggregate_max, perf_gpu_max},
    {"normalize_rows", test_normalize_rows, grad_normalize_rows, perf_normalize_rows,
     perf_gpu_norm},
    {"gemm", test_gemm, grad_gemm, perf_gemm, perf_gpu_gemm},
    {"bias_act", test_bias_act, grad_bias_act, perf_bias_act, perf_gpu_bias_act},
    {"dropout", test_dropout, NULL, perf_dropout, perf_gpu_bias_act},
    {"softmax_xent", test_softmax_xent, grad_softmax_xent, perf_softmax_xent, perf_gpu_loss},
    {"sigmoid_bce", test_sigmoid_bce, grad_sigmoid_bce, perf_sigmoid_bce, perf_gpu_loss},
    {"squared_error", test_squared_error, grad_squared_error, perf_sigmoid_bce, perf_gpu_loss},
    {"batch_norm", test_batch_norm, grad_batch_norm, perf_norm, perf_gpu_norm},
    {"layer_norm", test_layer_norm, grad_layer_norm, perf_norm, perf_gpu_norm},
    {"scale_columns", test_scale_columns, NULL, perf_norm, perf_gpu_norm},
    {"sum_squares", test_sum_squares, NULL, perf_norm, perf_gpu_norm},
    {"reduce", test_reduce, NULL, perf_reduce, perf_gpu_update},
    {"adam", test_adam, NULL, perf_adam, perf_gpu_update},
    {"sgd", test_sgd, NULL, perf_sgd, perf_gpu_update},
    {"khop_uniform", test_khop, NULL, perf_khop, NULL},
    {"khop_weighted", test_khop_weighted, NULL, perf_khop, NULL},
    {"random_walk", test_random_walk, NULL, perf_khop, NULL},
    {"weight_prefix", test_weight_prefix, NULL, perf_weight_prefix, perf_gpu_draw},
    {"mark_ranks", test_mark_ranks, NULL, perf_khop, perf_gpu_draw},
    {"split_rows", test_split_rows, NULL, perf_split_rows, perf_gpu_draw},
    {"gather_rows_to", test_gather_rows_to, NULL, perf_gather_rows_to, perf_gpu_ranked},
    {"draw", test_draw, NULL, NULL, perf_gpu_draw},
    {"gather_ranked", test_gather_ranked, NULL, NULL, perf_gpu_ranked},
    {"scatter_rows", test_scatter_rows, NULL, NULL, perf_gpu_ranked},
    {"gemm_bias_act", test_gemm_bias_act, NULL, NULL, NULL},
    {"row_sums", test_row_sums, NULL, NULL, NULL},
    {"fix_loops", test_fix_loops, NULL, NULL, NULL},
    {"gcn_scales", test_gcn_scales, NULL, NULL, NULL},
    {"block_diagonal", test_block_diagonal, NULL, NULL, NULL},
    {"sum_heads", test_sum_heads, NULL, NULL, NULL},
    {"add_scaled", test_add_scaled, NULL, NULL, NULL},
    {"maximum", test_maximum, NULL, NULL, NULL},
    {"running_scale", test_running_scale, NULL, NULL, NULL},
};

#define SLOTS(X)                                                                                   \
    X(gather_rows)                                                                                 \
    X(aggregate)                                                                                   \
    X(transpose)                                                                                   \
    X(gemm)                                                                                        \
    X(bias_act)                                                                                    \
    X(bias_act_backward)                                                                           \
    X(dropout)                                                                                     \
    X(softmax_xent)                                                                                \
    X(sigmoid_bce)                                                                                 \
    X(squared_error)                                                                               \
    X(edge_softmax)                                                                                \
    X(edge_softmax_backward)                                                                       \
    X(aggregate_heads)                                                                             \
    X(edge_dot)                                                                                    \
    X(aggregate_max)                                                                               \
    X(aggregate_max_backward)                                                                      \
    X(batch_norm)                                                                                  \
    X(batch_norm_backward)                                                                         \
    X(layer_norm)                                                                                  \
    X(layer_norm_backward)                                                                         \
    X(scale_columns)                                                                               \
    X(normalize_rows)                                                                              \
    X(normalize_rows_backward)                                                                     \
    X(reduce)                                                                                      \
    X(sum_squares)                                                                                 \
    X(adam)                                                                                        \
    X(sgd)                                                                                         \
    X(khop_uniform)                                                                                \
    X(khop_weighted)                                                                               \
    X(random_walk)                                                                                 \
    X(weight_prefix)                                                                               \
    X(mark_ranks)                                                                                  \
    X(split_rows)                                                                                  \
    X(gather_rows_to)                                                                              \
    X(gather_ranked)                                                                               \
    X(scatter_rows)                                                                                \
    X(draw)                                                                                        \
    X(draw_end)                                                                                    \
    X(draw_bytes)                                                                                  \
    X(gemm_bias_act)                                                                               \
    X(row_sums)                                                                                    \
    X(count_loops)                                                                                 \
    X(fix_loops)                                                                                   \
    X(gcn_scales)                                                                                  \
    X(block_diagonal)                                                                              \
    X(add_block_diagonal)                                                                          \
    X(sum_heads)                                                                                   \
    X(spread_heads)                                                                                \
    X(fill_sum)                                                                                    \
    X(add_scaled)                                                                                  \
    X(add_dot)                                                                                     \
    X(maximum) X(maximum_backward) X(running_scale) X(running_backward) X(running_average)

struct slot {
    const char *name;
    size_t at;
};

static const struct slot slots[] = {
#define SLOT(name) {#name, offsetof(struct sl_kernels, name)},
    SLOTS(SLOT)
#undef SLOT
};

// Every slot is in the list.
_Static_assert(offsetof(struct sl_kernels, gather_rows) + sizeof(void *) * SL_COUNT_OF(slots) ==
                   sizeof(struct sl_kernels),
               "a slot of kernels.h is missing here");

// Slots that an operation's tests call besides those of its name.
static const struct {
    const char *operation, *slot;
} also_called[] = {
    {"fix_loops", "count_loops"},
    {"block_diagonal", "add_block_diagonal"},
    {"sum_heads", "spread_heads"},
    {"add_scaled", "fill_sum"},
    {"add_scaled", "add_dot"},
    {"running_scale", "running_backward"},
    {"running_scale", "running_average"},
    {"draw", "draw_end"},
    {"draw", "draw_bytes"},
};

static int has_slot(const struct sl_kernels *kernels, size_t at)
{
    void (*slot)(void);
    memcpy(&slot, (const char *)kernels + at, sizeof slot);
    return slot != NULL;
}

// What an operation needs and the table has not: the slot of its name, that with _backward behind
// it, or one of those that it names. NULL: nothing.
static const char *missing_slot(const struct sl_kernels *kernels, const struct operation *op)
{
    for (size_t i = 0; i < SL_COUNT_OF(slots); i++) {
        size_t n = strlen(op->name);
        const char *name = slots[i].name;
        int needed =
            strncmp(name, op->name, n) == 0 && (name[n] == 0 || strcmp(name + n, "_backward") == 0);
        for (size_t k = 0; k < SL_COUNT_OF(also_called); k++)
            needed = needed || (strcmp(op->name, also_called[k].operation) == 0 &&
                                strcmp(name, also_called[k].slot) == 0);
        if (needed && !has_slot(kernels, slots[i].at))
            return name;
    }
    return NULL;
}

enum mode { MODE_TEST, MODE_GRAD, MODE_PERF };

struct options {
    enum mode mode;
    const char *only; // an operation's name or NULL
    const struct sl_kernels *backend;
    const struct sl_device *device;
    int is_emulated, is_checked, is_small, is_apart;
    const struct sl_cuda_measure *measure;
    void (*forbid)(const void *p, size_t n), (*allow)(const void *p, size_t n);
    uint64_t seed;
    int threads;
    int best;
};

static int usage(const char *why, const char *what)
{
    fprintf(stderr,
            "kernels: %s%s\n"
            "usage: kernels test|grad|perf [OP] [--backend NAME] [--threads N] [--seed N] "
            "[--best] [--small] [--apart]\n"
            "operations:",
            why, what);
    for (size_t i = 0; i < SL_COUNT_OF(operations); i++)
        fprintf(stderr, " %s", operations[i].name);
    fputc('\n', stderr);
    return 2;
}

// GPU 0 as the back end. The emulation has functions beside the plug-in's symbols, which say what
// kernels must not touch.
static int open_cuda(struct options *o)
{
    SL_TRY(sl_kernels_open_gpu(0, 0, &o->device, &o->backend));
    void *library = dlopen(sl_plugin_path(), RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        return SL_OK;
    sl_cuda_measure_entry entry = NULL;
    *(void **)&entry = dlsym(library, SL_CUDA_MEASURE_SYMBOL);
    o->measure = entry && entry()->bytes == sizeof *o->measure ? entry() : NULL;
    *(void **)&o->forbid = dlsym(library, "sluice_simt_forbid");
    *(void **)&o->allow = dlsym(library, "sluice_simt_allow");
    o->is_emulated = o->forbid != NULL;
    int (*is_checked)(void) = NULL;
    *(void **)&is_checked = dlsym(library, "sluice_simt_is_checked");
    o->is_checked = is_checked && is_checked();
    return SL_OK;
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
        if (strcmp(argv[i], "--backend") == 0 && value && strcmp(value, "cuda") == 0) {
            if (open_cuda(o) != SL_OK) {
                fprintf(stderr, "kernels: %s\n", sl_error_message());
                return 1;
            }
            i++;
        } else if (strcmp(argv[i], "--backend") == 0 && value) {
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
        } else if (strcmp(argv[i], "--small") == 0) {
            o->is_small = 1;
        } else if (strcmp(argv[i], "--apart") == 0) {
            o->is_apart = 1;
        } else if (!o->only && is_operation(argv[i])) {
            o->only = argv[i];
        } else {
            return usage("what is ", argv[i]);
        }
    }
    return 0;
}

struct checks {
    const struct options *o;
    struct suite t;
    int skipped;
};

static void check_all(void *context)
{
    struct checks *c = context;
    struct suite *t = &c->t;
    for (size_t i = 0; i < SL_COUNT_OF(operations); i++) {
        const struct operation *op = &operations[i];
        void (*body)(struct suite *) = c->o->mode == MODE_TEST ? op->test : op->grad;
        if (op->test == test_emulation && !c->o->is_emulated)
            continue;
        if (!body || (c->o->only && strcmp(c->o->only, op->name) != 0))
            continue;
        const char *missing = missing_slot(t->dev, op);
        if (missing) {
            printf("SKIP: %s: the table of %s has no %s\n", op->name, t->dev->name, missing);
            c->skipped++;
            continue;
        }
        int passed = t->passed, failed = t->failed;
        body(t);
        printf("%-14s %d passed, %d failed\n", op->name, t->passed - passed, t->failed - failed);
        fflush(stdout);
    }
}

static int run_checks(const struct options *o)
{
    struct checks c = {.o = o,
                       .t = {.ref = sl_kernels_ref(), .dev = o->backend, .random = o->seed}};
    if (t_open_device(&c.t, o->device, o->is_emulated) != SL_OK) {
        fprintf(stderr, "kernels: %s\n", sl_error_message());
        return 1;
    }
    c.t.is_checked = o->is_checked;
    c.t.is_small = o->is_small;
    c.t.is_apart = o->is_apart;
    c.t.forbid = o->forbid;
    c.t.allow = o->allow;
    t_run(&c.t, check_all, &c);
    t_close_device(&c.t);
    if (c.t.left_out)
        printf("%d cases were too large%s\n", c.t.left_out,
               o->is_small ? "" : " for the emulated device");
    printf("kernels: %d passed, %d failed, %d skipped\n", c.t.passed, c.t.failed, c.skipped);
    return c.t.failed > 0 || c.t.passed == 0;
}

static void (*measurement(const struct options *o, size_t i))(struct perf *)
{
    return o->device->is_host ? operations[i].perf : operations[i].perf_gpu;
}

// Whether an operation before this one has shown the same figures.
static int was_measured(const struct options *o, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (measurement(o, j) == measurement(o, i))
            return 1;
    return 0;
}

static int run_perf(const struct options *o)
{
    struct perf p = {.kernels = o->backend,
                     .device = o->device,
                     .measure = o->measure,
                     .threads = o->threads,
                     .best = o->best,
                     .small = o->is_small,
                     .random = o->seed};
    int n = 0;
    sl_kernels_set_threads(o->threads);
    perf_begin(&p);
    for (size_t i = 0; i < SL_COUNT_OF(operations); i++) {
        void (*perf)(struct perf *) = measurement(o, i);
        if (!perf || (o->only ? strcmp(o->only, operations[i].name) != 0 : was_measured(o, i)))
            continue;
        perf(&p);
        n++;
    }
    perf_end(&p);
    if (n == 0)
        fprintf(stderr, "kernels: %s is not measured on %s\n", o->only, o->backend->name);
    return p.failed || n == 0;
}

int main(int argc, char **argv)
{
    struct options o = {
        .backend = sl_kernels_cpu(), .device = sl_device_host(), .seed = 20240607, .threads = 1};
    int status = parse(argc, argv, &o);
    if (status)
        return status;
    if (sl_isa_init() < 0) {
        fprintf(stderr, "kernels: %s\n", sl_error_message());
        return 2;
    }
    return o.mode == MODE_PERF ? run_perf(&o) : run_checks(&o);
}
