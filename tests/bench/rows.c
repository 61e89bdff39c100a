/*
 * rows.c - what an update of learned rows costs (trainer/model/row_step.h), beside its floor: those
 * rows and their two moments read and written once where they lie.
 *
 *   rows [--rows 1000000] [--dim 64] [--met 200000] [--batches 1] [--rounds 15]
 *
 * Each round meets other rows, `met` of them in each batch, a third of them among the first tenth
 * of all vertices, so that batches meet rows again. One thread; processor time, which neighbours
 * disturb less than the clock: medians. The digest is of all rows' bits behind the last round: two
 * builds that agree on it compute the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "common/base/threads.h"
#include "kernels/kernels.h"
#include "tests/bench/bench.h"
#include "trainer/model/row_step.h"

enum { ROUNDS_MAX = 1001, WARM_UP = 2 };

struct options {
    uint32_t rows, dim, met, batches, rounds;
};

static uint32_t word(uint64_t stream, uint64_t i)
{
    return sl_philox(1, (uint32_t)i, (uint32_t)(i >> 32), (uint32_t)stream, 0).w[0];
}

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

// All rows of the last sum, read and written once.
static double floor_of(const struct sl_row_step *s)
{
    enum { AHEAD = 24 };
    const struct sl_row_table *t = s->table;
    const uint32_t dim = t->shape.dim;
    float *const arrays[] = {t->values, t->state[0], t->state[1]};
    const uint64_t start = sl_thread_cpu_ns();
    for (uint32_t i = 0; i < s->n; i++)
        for (int a = 0; a < 3; a++) {
            const char *next =
                (char *)(arrays[a] + (uint64_t)s->ids[SL_MIN(i + AHEAD, s->n - 1)] * dim);
            float *row = arrays[a] + (uint64_t)s->ids[i] * dim;
            for (uint32_t b = 0; b < dim * sizeof *row; b += SL_CACHE_LINE)
                __builtin_prefetch(next + b, 0, 2);
            for (uint32_t c = 0; c < dim; c++)
                row[c] = -row[c];
        }
    return (double)(sl_thread_cpu_ns() - start);
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

static void update(struct sl_row_step *s, const struct options *o, uint32_t round, double ns[3])
{
    const struct sl_update u = {
        .version = round, .first_cell = round * o->batches, .n_cells = o->batches};
    struct sl_row_rates rates = {.scale = 1.0f / 3, .version = round};
    double squares;
    rates.adam = (struct sl_adam_step){
        .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .t = round + 1};
    uint64_t start = sl_thread_cpu_ns();
    must_ok(sl_row_step_sum(s, &u, &squares));
    ns[0] = (double)(sl_thread_cpu_ns() - start);
    start = sl_thread_cpu_ns();
    must_ok(sl_row_step_apply(s, &rates));
    ns[1] = (double)(sl_thread_cpu_ns() - start);
    ns[2] = floor_of(s);
    floor_of(s); // the signs are back
}

static const struct sl_option options[] = {
    ARGUMENT_NUMBER("rows", options, rows, 1, 1u << 30),
    ARGUMENT_NUMBER("dim", options, dim, 1, 1u << 16),
    ARGUMENT_NUMBER("met", options, met, 1, 1u << 30),
    ARGUMENT_NUMBER("batches", options, batches, 1, 1024),
    ARGUMENT_NUMBER("rounds", options, rounds, 1, ROUNDS_MAX),
    {0},
};
static const struct sl_command command = {.name = "rows",
                                          .is_program = true,
                                          .about = "What an update of learned rows costs.",
                                          .options = {{options}}};

int main(int argc, char **argv)
{
    struct options o = {.rows = 1000000, .dim = 64, .met = 200000, .batches = 1, .rounds = 15};
    static double ns[3][ROUNDS_MAX];
    struct sl_row_table table;
    struct sl_row_step step;
    uint64_t rows = 0;
    arguments_parse(&command, &o, argc, argv);
    const struct sl_row_table_shape shape = {o.rows, o.dim, 2, o.batches};
    sl_kernels_set_threads(1);
    must_ok(sl_row_table_create(memfd_create("rows", 0), memfd_create("work", 0), &shape, false,
                                &table));
    must_ok(sl_row_table_fill(&table, 7, sl_threads_default(), NULL));
    must_ok(sl_row_step_init(&step, &table, sl_kernels_cpu(), SL_OPTIMIZER_ADAM));
    uint8_t *seen = must(malloc(o.rows));
    for (uint32_t r = 0; r < WARM_UP + o.rounds; r++) {
        double of[3];
        for (uint32_t c = 0; c < o.batches; c++)
            meet(&table, r * o.batches + c, o.met, seen);
        update(&step, &o, r, of);
        for (int k = 0; r >= WARM_UP && k < 3; k++)
            ns[k][r - WARM_UP] = of[k] / step.n;
        rows = step.n;
    }
    const double sum = median(ns[0], o.rounds), apply = median(ns[1], o.rounds);
    const double least = median(ns[2], o.rounds);
    printf("%u batches of %u rows, %llu different, dim %u\n", o.batches, o.met,
           (unsigned long long)rows, o.dim);
    printf("  sum %.0f ns a row, step %.0f, floor %.0f: %.2f times\n", sum, apply, least,
           (sum + apply) / least);
    printf("{\"sum_ns\": %.1f, \"step_ns\": %.1f, \"floor_ns\": %.1f, \"times\": %.3f, "
           "\"digest\": \"%016llx\"}\n",
           sum, apply, least, (sum + apply) / least, (unsigned long long)digest(&table));
    return 0;
}
