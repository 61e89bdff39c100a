/*
 * widths.c - what part of a cache of rows each width should get, on a graph of several types.
 *
 *   widths DATASET [--fanout 15,10] [--batch 1024] [--epochs 6] [--ratios 0.02,0.05,0.1,0.2]
 *          [--seed 7] [--threads N]
 *
 * Draws epochs as a job would and counts how often each vertex is an input node. The first epoch
 * gives each division its hottest rows; it is judged on the others, by the blocks that a drive is
 * not asked for, the bytes that are not moved, and the rows that are found. A ratio is one of the
 * bytes of all rows and their slots' words. Divisions:
 *
 *      model      of the machine's cache (broker/scheduler/row_widths.h), of which nothing is drawn
 *      equal      each width the same, what one has no rows for to the others
 *      widest     the widest rows first; narrowest: the narrowest
 *      drive      by what a row saves a byte, counted in the first epoch, in blocks of the drive
 *      memory     the same in time of memory, as trainers' caches (broker/epochs/ranking.h)
 *
 * Prints a table for people and, last, one JSON object.
 */
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/scheduler/row_widths.h"
#include "common/base/philox.h"
#include "common/data/hotness.h"
#include "tests/arguments.h"
#include "tests/bench/lane.h"

enum { RATIOS_MAX = 16, SLOT_BYTES = 8, READ_BYTES = 256 };

struct options {
    const char *path, *fanout, *of_ratios;
    struct sl_draw_plan plan;
    uint32_t batch, epochs, threads;
    uint32_t n_ratios;
    double ratios[RATIOS_MAX];
};

struct counts {
    uint32_t *first, *later; // (n_nodes) visits in the first epoch, and in those behind it
    uint32_t *metric, *order;
};

// ---- drawing ------------------------------------------------------------------------------------

static void draw_epoch(const struct options *o, const struct sl_topology *t,
                       const struct sl_epoch_order *order, struct lane *lanes, uint32_t epoch,
                       uint32_t *seeds, uint32_t *visits)
{
    const uint64_t n = t->dataset.split[SL_SPLIT_TRAIN].n;
    sl_epoch_order_fill(order, epoch, seeds);
#pragma omp parallel for schedule(dynamic, 1) num_threads(o->threads)
    for (uint64_t from = 0; from < n; from += o->batch) {
        struct lane *lane = &lanes[omp_get_thread_num()];
        lane_draw(lane, &o->plan, epoch, (uint32_t)(from / o->batch), seeds + from,
                  (uint32_t)SL_MIN(n - from, (uint64_t)o->batch));
        for (uint32_t i = 0; i < lane->block->n_input; i++) {
#pragma omp atomic
            visits[sl_block_nodes(lane->block)[i]]++;
        }
    }
}

static void draw_all(const struct options *o, const struct sl_topology *t, struct counts *c)
{
    struct lane lanes[LANE_THREADS_MAX] = {0};
    struct sl_epoch_order order;
    uint32_t *seeds = must(malloc(t->dataset.split[SL_SPLIT_TRAIN].n * sizeof *seeds));
    lane_open_order(&order, SL_ORDER_SHUFFLED, 0, &t->dataset, o->plan.seed, o->batch, 1);
    for (uint32_t i = 0; i < o->threads; i++)
        must_ok(sl_drawer_init(&lanes[i].drawer, t, sl_kernels_cpu()));
    for (uint32_t epoch = 0; epoch < o->epochs; epoch++)
        draw_epoch(o, t, &order, lanes, epoch, seeds, epoch ? c->later : c->first);
    for (uint32_t i = 0; i < o->threads; i++)
        lane_fini(&lanes[i]);
    sl_epoch_order_close(&order);
    free(seeds);
}

// ---- divisions ----------------------------------------------------------------------------------

#define DIVISIONS(X) X(model) X(equal) X(widest) X(narrowest) X(drive) X(memory)
#define ENUM(name)   DIVISION_##name,
#define WORD(name)   #name,
enum division { DIVISIONS(ENUM) DIVISION_COUNT };
static const char *const words[] = {DIVISIONS(WORD)};

// Shares of what is asked for that a cache has.
struct rates {
    double blocks, bytes, rows;
};

struct judged {
    struct rates of[DIVISION_COUNT][RATIOS_MAX];
    struct sl_row_cache_shape model[RATIOS_MAX]; // rows of each width
};

static uint64_t row_bytes(const struct sl_typed *typed, uint32_t v)
{
    return sl_type_row_bytes(&typed->type[sl_typed_type_of(typed, v)]);
}

// By visits alone, or by what a row saves a byte.
static void make_order(const struct sl_dataset *ds, enum division d, struct counts *c)
{
    for (uint64_t v = 0; v < ds->n_nodes; v++) {
        const double bytes = (double)row_bytes(&ds->typed, (uint32_t)v), visits = c->first[v];
        double x = bytes > 0 ? visits : 0;
        if (bytes > 0 && d == DIVISION_drive)
            x = visits * sl_row_blocks((uint64_t)bytes) / (bytes + SLOT_BYTES);
        if (bytes > 0 && d == DIVISION_memory)
            x = visits * (bytes + READ_BYTES) / bytes;
        const float as_float = (float)x;
        memcpy(&c->metric[v], &as_float, sizeof as_float);
    }
    must_ok(sl_hotness_order(c->metric, ds->n_nodes, NULL, c->order, NULL));
}

// Bytes for each width.
static void divide(const struct sl_row_widths *w, enum division d, uint64_t bytes, uint64_t *out)
{
    uint64_t left = bytes;
    memset(out, 0, SL_ROW_WIDTHS_MAX * sizeof *out);
    for (uint32_t round = 0; round < w->n; round++) {
        uint32_t best = w->n, open = 0;
        for (uint32_t i = 0; i < w->n; i++) {
            const bool full = out[i] == w->of[i].n_rows * (w->of[i].row_bytes + SLOT_BYTES);
            open += !full;
            const bool wider = best < w->n && w->of[i].row_bytes > w->of[best].row_bytes;
            if (!full && (best == w->n || wider == (d == DIVISION_widest)))
                best = i;
        }
        const uint64_t each = d == DIVISION_equal && open ? left / open : left;
        for (uint32_t i = 0; i < w->n && open; i++) {
            const uint64_t most = w->of[i].n_rows * (w->of[i].row_bytes + SLOT_BYTES);
            const uint64_t more = SL_MIN(most - out[i], each);
            if (d != DIVISION_equal && i != best)
                continue;
            out[i] += more;
            left -= more;
        }
    }
}

// The first rows of the order that there are bytes for: of their width, or of all.
static struct rates hit(const struct sl_dataset *ds, const struct sl_row_widths *w,
                        const struct counts *c, const uint64_t *of_width, uint64_t bytes)
{
    struct rates all = {0}, hits = {0};
    uint64_t left[SL_ROW_WIDTHS_MAX];
    if (of_width)
        memcpy(left, of_width, sizeof left);
    for (uint64_t i = 0; i < ds->n_nodes; i++) {
        const uint32_t v = c->order[i];
        const uint64_t row = row_bytes(&ds->typed, v);
        uint32_t k = 0;
        while (row && w->of[k].row_bytes != row)
            k++;
        if (row == 0)
            continue;
        uint64_t *room = of_width ? &left[k] : &bytes;
        const bool fits = *room >= row + SLOT_BYTES;
        const double visits = c->later[v];
        if (fits)
            *room -= row + SLOT_BYTES;
        const struct rates more = {visits * sl_row_blocks(row), visits * (double)row, visits};
        all = (struct rates){all.blocks + more.blocks, all.bytes + more.bytes, all.rows + visits};
        if (fits)
            hits = (struct rates){hits.blocks + more.blocks, hits.bytes + more.bytes,
                                  hits.rows + visits};
    }
    return (struct rates){hits.blocks / all.blocks, hits.bytes / all.bytes, hits.rows / all.rows};
}

static struct sl_config config_of(const struct options *o)
{
    struct sl_config c = {.sampler = {.batch_size = o->batch, .n_fanout = o->plan.n_hops}};
    memcpy(c.sampler.fanout, o->plan.fanout, o->plan.n_hops * sizeof *o->plan.fanout);
    return c;
}

static void judge(const struct options *o, const struct sl_dataset *ds, struct counts *c,
                  struct sl_row_widths *w, struct judged *out)
{
    const struct sl_config config = config_of(o);
    uint64_t of_width[SL_ROW_WIDTHS_MAX];
    sl_row_widths_find(&config, ds, w);
    const double all = (double)sl_row_widths_bytes(w, UINT64_MAX);
    for (enum division d = 0; d < DIVISION_COUNT; d++) {
        const bool merged = d == DIVISION_drive || d == DIVISION_memory;
        make_order(ds, d, c);
        for (uint32_t r = 0; r < o->n_ratios; r++) {
            const uint64_t bytes = (uint64_t)(o->ratios[r] * all);
            if (d == DIVISION_model) {
                sl_row_widths_divide(w, bytes, 0, &out->model[r]);
                for (uint32_t i = 0; i < w->n; i++)
                    of_width[i] =
                        out->model[r].width[i].n_slots * (w->of[i].row_bytes + SLOT_BYTES);
            } else {
                divide(w, d, bytes, of_width);
            }
            out->of[d][r] = hit(ds, w, c, merged ? NULL : of_width, bytes);
        }
    }
}

// ---- the run ------------------------------------------------------------------------------------

static void print_text(const struct options *o, const struct sl_dataset *ds,
                       const struct sl_row_widths *w, const struct judged *j)
{
    printf("%s: %" PRIu64 " vertices, batches of %" PRIu32 ", %" PRIu32 " epochs\n", ds->name,
           ds->n_nodes, o->batch, o->epochs);
    for (uint32_t i = 0; i < w->n; i++)
        printf("  %" PRIu64 " rows of %" PRIu64 " bytes, a mini-batch wants %.0f\n",
               w->of[i].n_rows, w->of[i].row_bytes, w->of[i].wanted);
    printf("%-7s %-6s", "ratio", "of");
    for (int d = 0; d < DIVISION_COUNT; d++)
        printf("%11s", words[d]);
    for (uint32_t r = 0; r < o->n_ratios; r++)
        for (int of = 0; of < 3; of++) {
            printf("\n%5.1f %% %-6s", 100 * o->ratios[r],
                   of == 0   ? "blocks"
                   : of == 1 ? "bytes"
                             : "rows");
            for (int d = 0; d < DIVISION_COUNT; d++) {
                const struct rates *found = &j->of[d][r];
                printf("%9.1f %%", 100 * (of == 0   ? found->blocks
                                          : of == 1 ? found->bytes
                                                    : found->rows));
            }
        }
    printf("\n");
}

static void print_json(const struct options *o, const struct sl_dataset *ds, const struct judged *j)
{
    printf("{\"bench\": \"widths\", \"data\": \"%s\", \"ratios\": [", ds->name);
    for (uint32_t r = 0; r < o->n_ratios; r++)
        printf("%s%g", r ? ", " : "", o->ratios[r]);
    printf("]");
    for (int d = 0; d < DIVISION_COUNT; d++) {
        printf(", \"%s\": [", words[d]);
        for (uint32_t r = 0; r < o->n_ratios; r++)
            printf("%s{\"blocks\": %.4f, \"bytes\": %.4f, \"rows\": %.4f}", r ? ", " : "",
                   j->of[d][r].blocks, j->of[d][r].bytes, j->of[d][r].rows);
        printf("]");
    }
    printf("}\n");
}

static void run(const struct options *o)
{
    struct sl_topology t;
    struct sl_row_widths widths;
    static struct judged judged;
    must_ok(sl_topology_open(&t, o->path, NULL, SL_NEED_FEATURES, -1, sl_kernels_cpu(), 0));
    const size_t n = t.view.n_nodes, bytes = sizeof(uint32_t);
    struct counts c = {must(calloc(n, bytes)), must(calloc(n, bytes)), must(calloc(n, bytes)),
                       must(calloc(n, bytes))};
    draw_all(o, &t, &c);
    judge(o, &t.dataset, &c, &widths, &judged);
    print_text(o, &t.dataset, &widths, &judged);
    print_json(o, &t.dataset, &judged);
    free(c.first);
    free(c.later);
    free(c.metric);
    free(c.order);
    sl_topology_close(&t);
}

// ---- options ------------------------------------------------------------------------------------

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_TEXT("fanout", options, fanout),
    ARGUMENT_NUMBER("batch", options, batch, 1, 1e9),
    ARGUMENT_NUMBER("epochs", options, epochs, 2, 1e6),
    ARGUMENT_TEXT("ratios", options, of_ratios),
    ARGUMENT_NUMBER("seed", options, plan.seed, 0, 9e15),
    ARGUMENT_NUMBER("threads", options, threads, 1, LANE_THREADS_MAX),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "widths",
    .is_program = true,
    .about = "Hit rates of caches of rows of several widths, by how they are divided.",
    .operands = {{"DATASET", offsetof(struct options, path)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {
        .plan = {.kind = SL_SAMPLER_KHOP, .stream = SL_RNG_SAMPLE, .seed = 7},
        .fanout = "15,10",
        .of_ratios = "0.02,0.05,0.1,0.2",
        .batch = 1024,
        .epochs = 6,
        .threads = (uint32_t)SL_MIN(omp_get_max_threads(), (int)LANE_THREADS_MAX),
    };
    arguments_parse(&command, &o, argc, argv);
    lane_fanout(o.fanout, &o.plan);
    o.n_ratios = arguments_numbers("ratios", o.of_ratios, 0, 1, RATIOS_MAX, o.ratios);
    run(&o);
    return 0;
}
