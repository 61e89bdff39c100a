/*
 * rows.c - what an update of learned rows costs (trainer/model/row_step.h), beside its floors:
 * those rows and their two moments read and written once where they lie, in no order, as batches
 * meet them, and in the order of memory.
 *
 *   rows [--rows 1000000] [--dim 64] [--met 200000] [--batches 1] [--rounds 15] [--clip]
 *
 * Each round meets other rows, `met` of them in each batch, a third of them among the first tenth
 * of all vertices, so that batches meet rows again. One thread; processor time, which neighbours
 * disturb less than the clock: medians, and of the ratios by themselves. Step and floors take
 * turns in being first, since whoever comes later finds rows in the last cache. With --clip the
 * squares of the gradients are asked for, too. The digest is of all rows' bits behind the last
 * round: two builds that agree on it compute the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/simd.h"
#include "common/base/threads.h"
#include "kernels/kernels.h"
#include "tests/bench/made.h"
#include "trainer/model/row_step.h"

enum { ROUNDS_MAX = 1001, WARM_UP = 2 };

struct options {
    uint32_t rows, dim, met, batches, rounds;
    bool clip;
};

// Of a row, in nanoseconds.
struct times {
    double find, step, scattered, sorted;
};

// Different rows in no order: a third of the draws go to the first tenth.
static void meet(const struct sl_row_table *t, uint32_t cell, uint32_t met, uint8_t *seen)
{
    const struct sl_row_slot slot = sl_row_table_slot(t, cell);
    const uint32_t n_rows = (uint32_t)t->shape.n_rows;
    uint32_t n = 0;
    memset(seen, 0, n_rows);
    for (uint64_t i = 0; n < met; i++) {
        const uint32_t draw = word(cell, i), among = draw % 3 ? n_rows : n_rows / 10 + 1;
        const uint32_t id = (uint32_t)((uint64_t)word(cell + (1u << 20), i) * among >> 32);
        if (!seen[id])
            slot.ids[n++] = id;
        seen[id] = 1;
    }
    *slot.n = n;
    for (uint64_t i = 0; i < (uint64_t)n * t->shape.dim; i++)
        slot.gradient[i] = (float)(int32_t)((uint32_t)i * 2654435761u + cell) * 1e-10f;
}

// All those rows, read and written once in that order. Of `nothing` the compiler does not know.
SL_SIMD_VOID(touch_rows,
             (uint32_t *const arrays[3], const uint32_t *ids, uint32_t n, uint32_t dim,
              uint32_t nothing),
             (arrays, ids, n, dim, nothing))
{
    enum { AHEAD = 24 };
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t next = (uint64_t)ids[SL_MIN(i + AHEAD, n - 1)] * dim;
        for (int a = 0; a < 3; a++)
            for (uint32_t b = 0; b < dim; b += SL_CACHE_LINE / sizeof(float))
                __builtin_prefetch(arrays[a] + next + b, 0, 2);
        for (int a = 0; a < 3; a++) {
            uint32_t *row = arrays[a] + (uint64_t)ids[i] * dim;
            for (uint32_t c = 0; c < dim; c++)
                row[c] ^= nothing;
        }
    }
}

static double floor_of(const struct sl_row_step *s, const uint32_t *ids)
{
    const struct sl_row_table *t = s->table;
    uint32_t *const arrays[] = {(uint32_t *)(void *)t->values, (uint32_t *)(void *)t->state[0],
                                (uint32_t *)(void *)t->state[1]};
    uint32_t nothing = 0;
    __asm__("" : "+r"(nothing));
    const uint64_t start = sl_thread_cpu_ns();
    touch_rows(arrays, ids, s->n, t->shape.dim, nothing);
    return (double)(sl_thread_cpu_ns() - start);
}

// The same rows in no order.
static void shuffle(const struct sl_row_step *s, uint32_t round, uint32_t *ids)
{
    memcpy(ids, s->ids, s->n * sizeof *ids);
    for (uint32_t i = s->n; i > 1; i--) {
        const uint32_t k = (uint32_t)((uint64_t)word((1u << 21) + round, i) * i >> 32);
        const uint32_t id = ids[k];
        ids[k] = ids[i - 1];
        ids[i - 1] = id;
    }
}

static uint64_t digest(const struct sl_row_table *t)
{
    const uint64_t n = sl_row_table_bytes(&t->shape) / sizeof(uint32_t);
    const uint32_t *words = t->rows;
    uint64_t sum = 1469598103934665603u;
    for (uint64_t i = 0; i < n; i++)
        sum = (sum ^ words[i]) * 1099511628211u;
    return sum;
}

static double apply(struct sl_row_step *s, uint32_t round)
{
    struct sl_row_rates rates = {.scale = 1.0f / 3, .version = round};
    rates.adam = (struct sl_adam_step){
        .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .t = round + 1};
    const uint64_t start = sl_thread_cpu_ns();
    must_ok(sl_row_step_apply(s, &rates));
    return (double)(sl_thread_cpu_ns() - start);
}

static struct times update(struct sl_row_step *s, const struct options *o, uint32_t round,
                           uint32_t *ids)
{
    const struct sl_update u = {
        .version = round, .first_cell = round * o->batches, .n_cells = o->batches};
    struct times t = {0};
    double squares;
    const uint64_t start = sl_thread_cpu_ns();
    must_ok(sl_row_step_meet(s, &u, o->clip ? &squares : NULL));
    t.find = (double)(sl_thread_cpu_ns() - start) / s->n;
    shuffle(s, round, ids);
    for (uint32_t turn = round; turn < round + 3; turn++) {
        if (turn % 3 == 0)
            t.step = apply(s, round) / s->n;
        else if (turn % 3 == 1)
            t.scattered = floor_of(s, ids) / s->n;
        else
            t.sorted = floor_of(s, s->ids) / s->n;
    }
    return t;
}

enum figure { FIND, STEP, SCATTERED, SORTED, OF_SCATTERED, OF_SORTED, FIGURES };

static double figure_of(const struct times *t, int figure)
{
    const double whole = t->find + t->step;
    const double figures[FIGURES] = {
        t->find, t->step, t->scattered, t->sorted, whole / t->scattered, whole / t->sorted};
    return figures[figure];
}

static void print(const struct options *o, const struct times *all, uint32_t rows, uint64_t sum)
{
    static double values[ROUNDS_MAX];
    double f[FIGURES];
    for (int k = 0; k < FIGURES; k++) {
        for (uint32_t r = 0; r < o->rounds; r++)
            values[r] = figure_of(&all[r], k);
        f[k] = median(values, o->rounds);
    }
    printf("%u batches of %u rows, %u different, dim %u\n", o->batches, o->met, rows, o->dim);
    printf(
        "  finding %.0f ns a row, step %.0f; floor in no order %.0f: %.2f times; in that of memory "
        "%.0f: %.2f times\n",
        f[FIND], f[STEP], f[SCATTERED], f[OF_SCATTERED], f[SORTED], f[OF_SORTED]);
    printf("{\"find_ns\": %.1f, \"step_ns\": %.1f, \"floor_ns\": %.1f, \"times\": %.3f, "
           "\"floor_sorted_ns\": %.1f, \"times_sorted\": %.3f, \"digest\": \"%016llx\"}\n",
           f[FIND], f[STEP], f[SCATTERED], f[OF_SCATTERED], f[SORTED], f[OF_SORTED],
           (unsigned long long)sum);
}

static const struct sl_option options[] = {
    ARGUMENT_NUMBER("rows", options, rows, 1, 1u << 30),
    ARGUMENT_NUMBER("dim", options, dim, 1, 1u << 16),
    ARGUMENT_NUMBER("met", options, met, 1, 1u << 30),
    ARGUMENT_NUMBER("batches", options, batches, 1, 1024),
    ARGUMENT_NUMBER("rounds", options, rounds, 1, ROUNDS_MAX),
    ARGUMENT_FLAG("clip", options, clip),
    {0},
};
static const struct sl_command command = {.name = "rows",
                                          .is_program = true,
                                          .about = "What an update of learned rows costs.",
                                          .options = {{options}}};

int main(int argc, char **argv)
{
    struct options o = {.rows = 1000000, .dim = 64, .met = 200000, .batches = 1, .rounds = 15};
    static struct times all[ROUNDS_MAX];
    struct sl_row_table table;
    struct sl_row_step step;
    arguments_parse(&command, &o, argc, argv);
    const struct sl_row_table_shape shape = {o.rows, o.dim, 2, o.batches};
    sl_kernels_set_threads(1);
    must_ok(sl_row_table_create(memfd_create("rows", 0), memfd_create("work", 0), &shape, false,
                                &table));
    must_ok(sl_row_table_fill(&table, 7, sl_threads_default(), NULL));
    sl_row_step_init(&step, &table, sl_kernels_cpu(), SL_OPTIMIZER_ADAM);
    uint8_t *seen = must(malloc(o.rows));
    uint32_t *ids = must(malloc(o.rows * sizeof *ids));
    for (uint32_t r = 0; r < WARM_UP + o.rounds; r++) {
        for (uint32_t c = 0; c < o.batches; c++)
            meet(&table, r * o.batches + c, o.met, seen);
        const struct times t = update(&step, &o, r, ids);
        if (r >= WARM_UP)
            all[r - WARM_UP] = t;
    }
    print(&o, all, step.n, digest(&table));
    return 0;
}
