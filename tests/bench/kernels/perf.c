#include "tests/bench/kernels/perf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"

enum { ROUNDS = 9, SMALL_ROUNDS = 1, RUNS_MAX = 32, REPEATS_MAX = 50 };
static const double ROUND_S = 2e-3; // of a run on a GPU, at least, while REPEATS_MAX allow it

void perf_begin(struct perf *p)
{
    sl_mempool_init_on(&p->ws, p->device->is_host ? NULL : &p->device->memory);
    printf("back end %s, %d thread%s; %s of %d interleaved rounds\n", p->kernels->name, p->threads,
           p->threads == 1 ? "" : "s", p->best ? "the fastest" : "medians",
           p->small ? SMALL_ROUNDS : ROUNDS);
}

void perf_end(struct perf *p)
{
    perf_release(p);
    sl_mempool_fini(&p->ws);
}

void *perf_keep(struct perf *p, void *memory, size_t bytes, int from)
{
    struct perf_block *block = malloc(sizeof *block);
    if (!block || !memory) {
        fprintf(stderr, "kernels: out of memory for %zu bytes%s%s\n", bytes, from ? ": " : "",
                from ? sl_error_message() : "");
        exit(1);
    }
    *block = (struct perf_block){.next = p->blocks, .p = memory, .bytes = bytes};
    block->from = from;
    p->blocks = block;
    return memory;
}

void *perf_alloc(struct perf *p, size_t bytes)
{
    void *memory = perf_keep(p, sl_pages_alloc(bytes), bytes, PERF_OWN);
    memset(memory, 0, bytes);
    return memory;
}

static void release(const struct perf *p, struct perf_block *block)
{
    switch (block->from) {
    case PERF_DEVICE: p->device->memory.free(block->p, block->bytes); break;
    case PERF_PINNED: p->device->host_free(block->p, block->bytes); break;
    case PERF_MAPPED:
        p->device->unmap(block->p);
        sl_shared_array_close(&block->shared);
        break;
    default: sl_pages_free(block->p, block->bytes);
    }
}

void perf_release(struct perf *p)
{
    perf_check(p, p->device->sync());
    while (p->blocks) {
        struct perf_block *block = p->blocks;
        p->blocks = block->next;
        release(p, block);
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

// Seconds of a call, on average over so many that are waited for together.
static double time_run(struct perf *p, const struct perf_run *run, int repeats)
{
    uint64_t before = sl_now_ns();
    for (int i = 0; i < repeats; i++)
        run->run(run->context);
    perf_check(p, p->device->sync());
    return (double)(sl_now_ns() - before) * 1e-9 / repeats;
}

struct perf_run perf_bytes(const char *name, void (*run)(void *), void *context, double bytes,
                           const char *ceiling)
{
    return (struct perf_run){.name = name,
                             .run = run,
                             .context = context,
                             .amount = bytes,
                             .unit = "GB/s",
                             .scale = 1e9,
                             .ceiling = ceiling};
}

struct perf_run perf_count(const char *name, void (*run)(void *), void *context, double n,
                           const char *ceiling)
{
    struct perf_run made = perf_bytes(name, run, context, n, ceiling);
    made.unit = "M/s";
    made.scale = 1e6;
    return made;
}

void perf_measure(struct perf *p, struct perf_run *runs, size_t n, const char *title, ...)
{
    va_list values;
    static double seconds[RUNS_MAX][ROUNDS];
    int repeats[RUNS_MAX], rounds = p->small ? SMALL_ROUNDS : ROUNDS;
    if (n > RUNS_MAX)
        abort();
    for (size_t i = 0; i < n; i++) { // caches, page tables, code that is compiled at first use
        time_run(p, &runs[i], 1);
        repeats[i] = 1;
        if (!p->device->is_host && !p->small)
            repeats[i] = (int)(SL_MIN(ROUND_S / time_run(p, &runs[i], 1), REPEATS_MAX - 1.0) + 1.0);
    }
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < n; i++)
            seconds[i][round] = time_run(p, &runs[i], repeats[i]);
    for (size_t i = 0; i < n; i++) {
        qsort(seconds[i], (size_t)rounds, sizeof seconds[i][0], by_value);
        runs[i].seconds = seconds[i][p->best ? 0 : rounds / 2];
    }
    putchar('\n');
    va_start(values, title);
    vprintf(title, values);
    va_end(values);
    putchar('\n');
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
