#include "tests/kernels/perf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/error.h"

enum { ROUNDS = 9, RUNS_MAX = 32 };

void perf_begin(struct perf *p)
{
    sl_mempool_init(&p->ws);
    printf("back end %s, %d thread%s; %s of %d interleaved rounds\n", p->kernels->name, p->threads,
           p->threads == 1 ? "" : "s", p->best ? "the fastest" : "medians", ROUNDS);
}

void perf_end(struct perf *p)
{
    perf_release(p);
    sl_mempool_fini(&p->ws);
}

void *perf_alloc(struct perf *p, size_t bytes)
{
    struct perf_block *block = malloc(sizeof *block);
    void *memory = sl_pages_alloc(bytes);
    if (!block || !memory) {
        fprintf(stderr, "kernels: out of memory for %zu bytes\n", bytes);
        exit(1);
    }
    *block = (struct perf_block){.next = p->blocks, .p = memory, .bytes = bytes};
    p->blocks = block;
    memset(memory, 0, bytes);
    return memory;
}

void perf_release(struct perf *p)
{
    while (p->blocks) {
        struct perf_block *block = p->blocks;
        p->blocks = block->next;
        sl_pages_free(block->p, block->bytes);
        free(block);
    }
    p->copy = NULL;
    sl_mempool_reset(&p->ws);
}

uint64_t perf_random(struct perf *p)
{
    uint64_t z = p->random += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

float *perf_floats(struct perf *p, size_t n)
{
    float *x = perf_alloc(p, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(perf_random(p) >> 40) / 8388608.0f - 1.0f;
    return x;
}

uint32_t *perf_ids(struct perf *p, size_t n, uint32_t below)
{
    uint32_t *ids = perf_alloc(p, n * sizeof *ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)(perf_random(p) % below);
    return ids;
}

void perf_check(struct perf *p, int rc)
{
    if (rc == SL_OK)
        return;
    if (!p->failed)
        fprintf(stderr, "kernels: %s\n", sl_error_message());
    p->failed = 1;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double rate(const struct perf_run *run)
{
    return run->amount / run->seconds / run->scale;
}

// The fastest of the runs that carry this name.
static const struct perf_run *ceiling_of(const struct perf_run *runs, size_t n, const char *name)
{
    const struct perf_run *best = NULL;
    for (size_t i = 0; name && i < n; i++)
        if (strcmp(runs[i].name, name) == 0 && (!best || rate(&runs[i]) > rate(best)))
            best = &runs[i];
    return best;
}

void perf_measure(struct perf *p, const char *title, struct perf_run *runs, size_t n)
{
    static double seconds[RUNS_MAX][ROUNDS];
    if (n > RUNS_MAX)
        abort();
    for (size_t i = 0; i < n; i++) // caches, page tables, code that is compiled at first use
        runs[i].run(runs[i].context);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < n; i++) {
            uint64_t before = sl_now_ns();
            runs[i].run(runs[i].context);
            seconds[i][round] = (double)(sl_now_ns() - before) * 1e-9;
        }
    for (size_t i = 0; i < n; i++) {
        qsort(seconds[i], ROUNDS, sizeof seconds[i][0], by_value);
        runs[i].seconds = seconds[i][p->best ? 0 : ROUNDS / 2];
    }
    printf("\n%s\n", title);
    for (size_t i = 0; i < n; i++) {
        const struct perf_run *same = ceiling_of(runs, n, runs[i].name);
        if (!runs[i].ceiling && same != &runs[i])
            continue; // a slower variant of a ceiling
        const struct perf_run *top = ceiling_of(runs, n, runs[i].ceiling);
        printf("  %-34s %9.3f ms %9.2f %-7s", runs[i].name, runs[i].seconds * 1e3, rate(&runs[i]),
               runs[i].unit);
        if (top)
            printf("  %5.1f %% of %s", 100 * rate(&runs[i]) / rate(top), top->name);
        putchar('\n');
    }
    fflush(stdout);
}
