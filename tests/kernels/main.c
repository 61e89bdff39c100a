/*
 * kernels - the driver of all kernel tests.
 *
 *   kernels test [OP] [--backend NAME] [--seed N] [--small] [--apart]
 *       every slot against the reference; --small leaves most of the large cases out; --apart maps
 *       each array by itself for a GPU, so that compute-sanitizer sees what lies between them
 *       --backend cuda: on GPU 0, or on an emulated one when SLUICE_CUDA_PLUGIN names the emulation
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/isa.h"
#include "kernels/cpu/cpu_internal.h"
#include "tests/kernels/backend.h"
#include "tests/arguments.h"
#include "tests/kernels/harness.h"

struct operation {
    const char *name;
    void (*test)(struct suite *t);
};

static const struct operation operations[] = {
#define OPERATION(name) {#name, test_##name},
    T_OPERATIONS(OPERATION)
#undef OPERATION
};

struct slot {
    const char *name;
    size_t at;
};

static const struct slot slots[] = {
#define SLOT(extra, name) {#name, offsetof(struct sl_kernels, name)},
    SL_KERNELS_SLOTS(SLOT, ) SL_KERNELS_DRAW_SLOTS(SLOT, )
#undef SLOT
#define SAMPLER(extra, constant, word, kernel, flags)                                              \
    {#kernel, offsetof(struct sl_kernels, sample[SL_SAMPLER_##constant])},
        SL_SAMPLER_LIST(SAMPLER, )
#undef SAMPLER
};

// Every slot is in the list.
_Static_assert(offsetof(struct sl_kernels, gather_rows) + sizeof(void *) * SL_COUNT_OF(slots) ==
                   sizeof(struct sl_kernels),
               "a slot is missing in SL_KERNELS_SLOTS");

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
    {"draw", "draw_wait"},
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

struct options {
    const char *mode;
    const char *only; // an operation's name or NULL
    const char *backend;
    bool is_small, is_apart;
    uint64_t seed;
};

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_TEXT("backend", options, backend),
    ARGUMENT_NUMBER("seed", options, seed, 0, 9e15),
    ARGUMENT_FLAG("small", options, is_small),
    ARGUMENT_FLAG("apart", options, is_apart),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "kernels",
    .is_program = true,
    .about = "Compares a back end with the reference, operation by operation.",
    .operands = {{"test", offsetof(struct options, mode)},
                 {"OP", offsetof(struct options, only), true}},
    .options = {{options}},
};

static bool is_operation(const char *name)
{
    for (size_t i = 0; i < SL_COUNT_OF(operations); i++)
        if (strcmp(operations[i].name, name) == 0)
            return true;
    return false;
}

struct checks {
    const struct options *o;
    const struct backend *backend;
    struct suite t;
    int skipped;
};

static void check_all(void *context)
{
    struct checks *c = context;
    struct suite *t = &c->t;
    for (size_t i = 0; i < SL_COUNT_OF(operations); i++) {
        const struct operation *op = &operations[i];
        if (op->test == test_emulation && !c->backend->is_emulated)
            continue;
        if (c->o->only && strcmp(c->o->only, op->name) != 0)
            continue;
        const char *missing = missing_slot(t->dev, op);
        if (missing) {
            printf("SKIP: %s: the table of %s has no %s\n", op->name, t->dev->name, missing);
            c->skipped++;
            continue;
        }
        int passed = t->passed, failed = t->failed;
        op->test(t);
        printf("%-14s %d passed, %d failed\n", op->name, t->passed - passed, t->failed - failed);
        fflush(stdout);
    }
}

static int run_checks(const struct options *o, const struct backend *b)
{
    struct checks c = {
        .o = o, .backend = b, .t = {.ref = sl_kernels_ref(), .dev = b->kernels, .random = o->seed}};
    if (t_open_device(&c.t, b->device, b->is_emulated) != SL_OK) {
        fprintf(stderr, "kernels: %s\n", sl_error_message());
        return 1;
    }
    c.t.is_checked = b->is_checked;
    c.t.is_small = o->is_small;
    c.t.is_apart = o->is_apart;
    c.t.forbid = b->forbid;
    c.t.allow = b->allow;
    t_run(&c.t, check_all, &c);
    t_close_device(&c.t);
    if (c.t.left_out)
        printf("%d cases were too large%s\n", c.t.left_out,
               o->is_small ? "" : " for the emulated device");
    printf("kernels: %d passed, %d failed, %d skipped\n", c.t.passed, c.t.failed, c.skipped);
    return c.t.failed > 0 || c.t.passed == 0;
}

int main(int argc, char **argv)
{
    struct options o = {.backend = "cpu", .seed = 20240607};
    struct backend backend;
    arguments_parse(&command, &o, argc, argv);
    if (strcmp(o.mode, "test") != 0 || (o.only && !is_operation(o.only))) {
        sl_fail(SL_EINVAL, "'%s %s': wanted test, and one of the operations if any", o.mode,
                o.only ? o.only : "");
        arguments_refuse();
    }
    if (sl_isa_init() < 0 || backend_open(o.backend, &backend) < 0) {
        fprintf(stderr, "kernels: %s\n", sl_error_message());
        return 1;
    }
    return run_checks(&o, &backend);
}
