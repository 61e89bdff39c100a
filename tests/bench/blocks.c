/*
 * blocks.c - BGL's partitioner (Liu et al., NSDI 2023, section 3.3), to compare with those of
 * `sluice partition`.
 *
 *   blocks DATASET PART.npy [--parts 4] [--block 1000] [--seed 7]
 *
 * Breadth-first searches from many sources at once make blocks of up to --block vertices; the
 * tenth that is largest takes in the small ones beside it, the others are merged at random; each
 * block then goes to the part that has most of the blocks within two hops of it, times the room
 * that the part has left for training vertices, times that for vertices. Neither falls below zero:
 * of two negative ones the product would draw blocks to parts that are full twice over. The order
 * of the blocks, which the paper does not give, is by falling size.
 *
 * One thread, the graph in both directions. Prints one JSON object.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/base/bits.h"
#include "dataset/permutation.h"
#include "partition/symmetric.h"
#include "tests/arguments.h"

enum { NONE = UINT32_MAX };

struct options {
    const char *path, *out;
    uint32_t parts, block;
    uint64_t seed;
};

struct blocks {
    const struct options *o;
    struct sl_dataset ds;
    struct sl_progress quiet;
    struct sl_parts_task task;
    struct sl_symmetric_graph graph;
    struct sl_permutation order;
    uint32_t n;        // blocks
    uint32_t *of;      // (n_nodes) of a vertex
    uint32_t *size;    // (n_nodes) of a block, its vertices
    uint32_t *vertex;  // (n_nodes) by block
    uint32_t *begin;   // (n + 1) of a block's vertices
    uint32_t *sizes;   // (n) sorted
    uint32_t *votes;   // (n) zero between blocks
    uint32_t *touched; // (n) those that are not
};

static void must(int rc)
{
    if (rc < 0)
        arguments_refuse();
}

static void *zeros(uint64_t n)
{
    void *p = calloc(n + 1, sizeof(uint32_t));
    if (!p)
        must(sl_fail(SL_ENOMEM, "no memory"));
    return p;
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// ---- blocks -------------------------------------------------------------------------------------

static void search(struct blocks *b)
{
    const uint64_t n_nodes = b->ds.n_nodes, n_sources = sl_div_up(n_nodes, b->o->block);
    uint64_t head = 0, tail = 0, next = 0;
    memset(b->of, 0xff, n_nodes * sizeof *b->of);
    while (tail < n_nodes || head < tail) {
        while (next < n_nodes && (next < n_sources || head == tail)) {
            const uint32_t source = (uint32_t)sl_permutation_apply(&b->order, next++);
            if (b->of[source] != NONE)
                continue;
            b->of[source] = b->n;
            b->size[b->n++] = 1;
            b->vertex[tail++] = source;
        }
        const uint32_t v = b->vertex[head++], block = b->of[v];
        for (int32_t e = b->graph.offsets[v]; e < b->graph.offsets[v + 1]; e++) {
            const uint32_t u = (uint32_t)b->graph.neighbours[e];
            if (b->of[u] != NONE || b->size[block] >= b->o->block)
                continue;
            b->of[u] = block;
            b->size[block]++;
            b->vertex[tail++] = u;
        }
    }
}

// Vertices by block; the sizes of blocks counted again.
static void sort(struct blocks *b)
{
    memset(b->size, 0, b->n * sizeof *b->size);
    for (uint64_t v = 0; v < b->ds.n_nodes; v++)
        b->size[b->of[v]]++;
    b->begin[0] = 0;
    for (uint32_t i = 0; i < b->n; i++)
        b->begin[i + 1] = b->begin[i] + b->size[i];
    for (uint64_t v = 0; v < b->ds.n_nodes; v++)
        b->vertex[b->begin[b->of[v]]++] = (uint32_t)v;
    for (uint32_t i = b->n; i > 0; i--)
        b->begin[i] = b->begin[i - 1];
    b->begin[0] = 0;
}

// Edges to each other block, in votes; touched says to which. Returns how many these are.
static uint32_t look_around(struct blocks *b, uint32_t block)
{
    uint32_t n = 0;
    for (uint32_t i = b->begin[block]; i < b->begin[block + 1]; i++) {
        const uint32_t v = b->vertex[i];
        for (int32_t e = b->graph.offsets[v]; e < b->graph.offsets[v + 1]; e++) {
            const uint32_t other = b->of[b->graph.neighbours[e]];
            if (other != block && b->votes[other]++ == 0)
                b->touched[n++] = other;
        }
    }
    return n;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

// Renumbers blocks by to (n), whose numbers have gaps.
static void renumber(struct blocks *b, const uint32_t *to)
{
    uint32_t *name = zeros(b->n), n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (to[i] == i)
            name[i] = n++;
    for (uint64_t v = 0; v < b->ds.n_nodes; v++)
        b->of[v] = name[to[b->of[v]]];
    b->n = n;
    free(name);
    sort(b);
}

static void merge(struct blocks *b)
{
    uint32_t *to = zeros(b->n), group = NONE, filled = 0;
    memcpy(b->sizes, b->size, b->n * sizeof *b->sizes);
    qsort(b->sizes, b->n, sizeof *b->sizes, by_number);
    const uint32_t large = b->sizes[(uint64_t)b->n * 9 / 10];
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t best = NONE;
        to[i] = i;
        if (b->size[i] >= large)
            continue;
        for (uint32_t k = look_around(b, i); k-- > 0;) {
            const uint32_t other = b->touched[k];
            if (b->size[other] >= large && (best == NONE || b->votes[other] > b->votes[best]))
                best = other;
        }
        for (uint32_t v = b->begin[i]; v < b->begin[i + 1]; v++)
            for (int32_t e = b->graph.offsets[b->vertex[v]]; e < b->graph.offsets[b->vertex[v] + 1];
                 e++)
                b->votes[b->of[b->graph.neighbours[e]]] = 0;
        if (best != NONE) {
            to[i] = best;
        } else if (group == NONE || filled >= b->o->block) {
            group = i;
            filled = b->size[i];
        } else {
            to[i] = group;
            filled += b->size[i];
        }
    }
    renumber(b, to);
    free(to);
}

// ---- assignment ---------------------------------------------------------------------------------

// The block graph, each pair in both rows once.
struct around {
    uint64_t *begin; // (n + 1)
    uint32_t *other;
};

static void connect(struct blocks *b, struct around *a)
{
    uint64_t n = 0, room = 0;
    *a = (struct around){.begin = malloc((b->n + 1) * sizeof *a->begin)};
    for (uint32_t i = 0; i < b->n; i++) {
        a->begin[i] = n;
        const uint32_t found = look_around(b, i);
        if (n + found > room) {
            room = 2 * (n + found);
            a->other = realloc(a->other, room * sizeof *a->other);
            if (!a->other)
                must(sl_fail(SL_ENOMEM, "no memory"));
        }
        for (uint32_t k = 0; k < found; k++) {
            a->other[n++] = b->touched[k];
            b->votes[b->touched[k]] = 0;
        }
    }
    a->begin[b->n] = n;
}

static const uint32_t *sizes_to_sort;

static int by_falling_size(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const uint32_t of_x = sizes_to_sort[x], of_y = sizes_to_sort[y];
    return of_x != of_y ? (of_x > of_y ? -1 : 1) : x < y ? -1 : x > y;
}

// Blocks of each part within one hop and within exactly two, in found (n_parts).
static void count_around(const struct around *a, uint32_t block, const uint32_t *part,
                         uint32_t *seen, uint64_t *found)
{
    seen[block] = block + 1;
    for (int hops = 1; hops <= 2; hops++) {
        for (uint64_t e = a->begin[block]; e < a->begin[block + 1]; e++) {
            const uint32_t near = a->other[e];
            const uint64_t first = hops == 1 ? e : a->begin[near];
            const uint64_t last = hops == 1 ? e + 1 : a->begin[near + 1];
            for (uint64_t f = first; f < last; f++) {
                const uint32_t other = a->other[f];
                if (seen[other] != block + 1 && part[other] != NONE)
                    found[part[other]]++;
                seen[other] = block + 1;
            }
        }
    }
}

static uint32_t choose(const uint64_t *found, const uint64_t *load, const uint64_t *training,
                       uint32_t n_parts, double room, double room_training)
{
    uint32_t best = 0, emptiest = 0;
    double most = 0;
    for (uint32_t p = 0; p < n_parts; p++) {
        const double left = SL_MAX(0, 1 - (double)load[p] / room);
        const double left_training = SL_MAX(0, 1 - (double)training[p] / room_training);
        const double score = (double)found[p] * left * left_training;
        if (score > most)
            best = p;
        most = SL_MAX(most, score);
        emptiest = load[p] < load[emptiest] ? p : emptiest;
    }
    return most > 0 ? best : emptiest;
}

static void assign(struct blocks *b, uint16_t *out)
{
    const uint32_t k = b->o->parts;
    struct around around;
    uint32_t *order = zeros(b->n), *part = zeros(b->n), *seen = zeros(b->n);
    uint32_t *training = zeros(b->n);
    uint64_t *count = calloc(3 * (size_t)k, sizeof *count);
    uint64_t *found = count, *load = count + k, *load_training = count + 2 * (size_t)k, all = 0;
    connect(b, &around);
    for (uint64_t v = 0; v < b->ds.n_nodes; v++) {
        training[b->of[v]] += sl_parts_is_training(b->task.training, v);
        all += sl_parts_is_training(b->task.training, v);
    }
    for (uint32_t i = 0; i < b->n; i++) {
        order[i] = i;
        part[i] = NONE;
    }
    sizes_to_sort = b->size;
    qsort(order, b->n, sizeof *order, by_falling_size);
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t block = order[i];
        memset(found, 0, k * sizeof *found);
        count_around(&around, block, part, seen, found);
        const uint32_t p = choose(found, load, load_training, k, (double)b->ds.n_nodes / k,
                                  (double)SL_MAX(all, 1u) / k);
        part[block] = p;
        load[p] += b->size[block];
        load_training[p] += training[block];
    }
    for (uint64_t v = 0; v < b->ds.n_nodes; v++)
        out[v] = (uint16_t)part[b->of[v]];
    free(around.begin);
    free(around.other);
    free(order);
    free(part);
    free(seen);
    free(training);
    free(count);
}

static void run(const struct options *o)
{
    static struct blocks b;
    struct rusage usage;
    b.o = o;
    must(sl_dataset_open(o->path, SL_NEED_TOPOLOGY | SL_NEED_TRAIN, SL_CHECK_CACHED, 0, &b.ds));
    const uint64_t n = b.ds.n_nodes, start = cpu_ns();
    sl_progress_init(&b.quiet, true);
    b.task = (struct sl_parts_task){.ds = &b.ds,
                                    .training = sl_parts_training(&b.ds),
                                    .n_parts = o->parts,
                                    .progress = &b.quiet};
    must(sl_symmetric_graph_make(&b.task, &b.graph));
    sl_permutation_init(&b.order, n, o->seed, 0);
    uint32_t **arrays[] = {&b.of, &b.size, &b.vertex, &b.begin, &b.sizes, &b.votes, &b.touched};
    for (size_t i = 0; i < SL_COUNT_OF(arrays); i++)
        *arrays[i] = zeros(n);
    uint16_t *part = zeros(n);
    search(&b);
    sort(&b);
    const uint32_t n_blocks = b.n;
    merge(&b);
    assign(&b, part);
    const double seconds = (double)(cpu_ns() - start) * 1e-9;
    must(sl_parts_write(o->out, o->parts, n, part));
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"cpu_seconds\": %.3f, \"blocks\": %u, \"merged\": %u, \"peak_bytes\": %llu}\n",
           seconds, n_blocks, b.n, (unsigned long long)usage.ru_maxrss * 1024);
    for (size_t i = 0; i < SL_COUNT_OF(arrays); i++)
        free(*arrays[i]);
    free(part);
    free((void *)(uintptr_t)b.task.training);
    sl_symmetric_graph_free(&b.graph);
    sl_dataset_close(&b.ds);
}

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_NUMBER("parts", options, parts, 2, SL_PARTITION_PARTS_MAX),
    ARGUMENT_NUMBER("block", options, block, 1, 1000000000),
    ARGUMENT_NUMBER("seed", options, seed, 0, 9e15),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "blocks",
    .is_program = true,
    .about = "Partitions a data set as BGL does.",
    .operands = {{"DATASET", offsetof(struct options, path)},
                 {"PART.npy", offsetof(struct options, out)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {.parts = 4, .block = 1000, .seed = 7};
    arguments_parse(&command, &o, argc, argv);
    run(&o);
    return 0;
}
