/*
 * placement.c - what a cache over several GPUs would serve under each plan (XGNN 4.2, Figure 13).
 *
 *   placement DATASET [--fanout 15,10,5] [--batch 1024] [--epochs 2] [--ratios 0.02,0.05,0.1]
 *             [--host 12] [--seed 7]
 *
 * Draws epochs as a job would. The first one gives the hotness of rows, the others are what is
 * judged: each batch gathers its inputs on one of the machine's GPUs, all of which train. A ratio
 * is a GPU's room as a share of all rows. The plans: `solver`, the project's own; `cliques`, in
 * each of which all partitions lie once (Quiver); `one copy`, each partition on one GPU, read over
 * the bus where no link goes (WholeGraph); `alone`, each GPU the same hottest rows.
 *
 * Prints of each machine, plan and ratio the share of the rows that are at home, on a peer and in
 * the machine's memory, and the seconds of an epoch's features over the busiest way, each way at
 * its rate (GB/s; --host for a GPU's bus): all ways serve at the same time.
 */
#include <math.h>

#include "common/base/clock.h"
#include "common/base/philox.h"
#include "common/data/hotness.h"
#include "common/store/placement.h"
#include "sampler/topology.h"
#include "tests/bench/lane.h"
#include "tests/arguments.h"

enum { RATIOS_MAX = 8, MACHINES = 5 };

#define OWN    900.0
#define SINGLE 25.0
#define DOUBLE 50.0

struct options {
    const char *path, *fanout, *of_ratios;
    struct sl_draw_plan plan;
    uint32_t batch, epochs, n_ratios;
    double ratios[RATIOS_MAX], host;
};

struct visits {
    uint32_t *of; // (n_nodes) in the order of hotness
    uint64_t n_nodes, total, n_epochs, row_bytes;
};

struct machine {
    const char *name;
    struct sl_links links;
};

// ---- machines -----------------------------------------------------------------------------------

static void join(struct sl_links *l, uint32_t a, uint32_t b, double rate)
{
    l->rate[a][b] = l->rate[b][a] = rate;
}

static void make_machines(struct machine *m)
{
    m[0] = (struct machine){"2 linked", {.n = 2}};
    m[1] = (struct machine){"4 linked", {.n = 4}};
    m[2] = (struct machine){"ring of 4", {.n = 4}};
    m[3] = (struct machine){"8 V100 (cube mesh)", {.n = 8}};
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t g = 0; g < m[i].links.n; g++)
            m[i].links.rate[g][g] = OWN;
    join(&m[0].links, 0, 1, DOUBLE);
    for (uint32_t g = 0; g < 4; g++) {
        for (uint32_t other = 0; other < g; other++)
            join(&m[1].links, g, other, DOUBLE);
        join(&m[2].links, g, (g + 1) % 4, SINGLE);
        join(&m[3].links, g, 4 + (g + 2) % 4, DOUBLE);
    }
    for (uint32_t q = 0; q < 8; q += 4)
        for (uint32_t g = 0; g < 4; g++)
            for (uint32_t other = 0; other < g; other++)
                join(&m[3].links, q + g, q + other, g + other == 3 ? DOUBLE : SINGLE);
    m[4] = (struct machine){"6 of these", m[3].links};
    m[4].links.n = 6;
}

// ---- visits -------------------------------------------------------------------------------------

static void count(const struct options *o, const struct sl_topology *t, uint32_t epoch,
                  struct lane *lane, uint32_t *visits)
{
    const struct sl_vertex_list *train = &t->dataset.split[SL_SPLIT_TRAIN];
    uint32_t *seeds = must(malloc(train->n * sizeof *seeds));
    struct sl_epoch_order order;
    lane_open_order(&order, SL_ORDER_SHUFFLED, 0, &t->dataset, o->plan.seed, o->batch);
    sl_epoch_order_fill(&order, epoch, seeds);
    for (uint64_t first = 0, b = 0; first < train->n; first += o->batch, b++) {
        uint32_t n = (uint32_t)SL_MIN((uint64_t)o->batch, train->n - first);
        lane_draw(lane, &o->plan, epoch, (uint32_t)b, seeds + first, n);
        const uint32_t *nodes = sl_block_nodes(lane->block);
        for (uint32_t i = 0; i < lane->block->n_input; i++)
            visits[nodes[i]]++;
    }
    sl_epoch_order_close(&order);
    free(seeds);
}

static void count_all(const struct options *o, const struct sl_topology *t, struct visits *v)
{
    const uint64_t n = t->view.n_nodes;
    struct lane lane = {0};
    uint32_t *hotness = must(calloc(n, sizeof *hotness)), *later = must(calloc(n, sizeof *later)),
             *order = must(calloc(n, sizeof *order));
    *v = (struct visits){.of = must(calloc(n, sizeof *v->of)),
                         .n_nodes = n,
                         .n_epochs = o->epochs - 1,
                         .row_bytes = t->dataset.feat_dim * sl_dtype_bytes(t->dataset.feat_dtype)};
    must_ok(sl_drawer_init(&lane.drawer, t, sl_kernels_cpu()));
    for (uint32_t epoch = 0; epoch < o->epochs; epoch++)
        count(o, t, epoch, &lane, epoch == 0 ? hotness : later);
    must_ok(sl_hotness_order(hotness, n, NULL, order, NULL));
    for (uint64_t r = 0; r < n; r++) {
        v->of[r] = later[order[r]];
        v->total += v->of[r];
    }
    lane_fini(&lane);
    free(hotness);
    free(later);
    free(order);
}

// ---- plans --------------------------------------------------------------------------------------

// Each partition on its own GPU; what no link reaches comes over the bus.
static void one_copy(const struct sl_links *l, struct sl_placement *p)
{
    *p = (struct sl_placement){.n = l->n, .most = 1, .total = l->n};
    for (uint32_t g = 0; g < l->n; g++) {
        p->held[g] = 1u << g;
        for (uint32_t q = 0; q < l->n; q++)
            p->from[g][q] = (uint8_t)q;
    }
}

static void alone(const struct sl_links *l, struct sl_placement *p)
{
    *p = (struct sl_placement){.n = l->n, .most = l->n, .total = l->n * l->n};
    for (uint32_t g = 0; g < l->n; g++) {
        p->held[g] = (1u << l->n) - 1;
        memset(p->from[g], (int)g, sizeof p->from[g]);
    }
}

static void judge(const struct options *o, const struct machine *m, const char *name,
                  const struct sl_placement *p, const struct visits *v, double ratio)
{
    const uint32_t n = p->n;
    const uint64_t room = (uint64_t)(ratio * (double)v->n_nodes);
    const uint64_t cached = SL_MIN(v->n_nodes, (uint64_t)((double)room * sl_placement_capacity(p)));
    double of[SL_PLACEMENT_DEVICES] = {0}, host = (double)v->total, home = 0, peers = 0,
           slowest = 0;
    for (uint64_t r = 0; r < cached; r++) {
        of[r % n] += v->of[r];
        host -= v->of[r];
    }
    // Of one GPU, in rows of an epoch; every GPU trains its part of the batches.
    const double each = 1.0 / n / (double)v->n_epochs, gb = (double)v->row_bytes * 1e-9;
    for (uint32_t g = 0; g < n; g++) {
        double over[SL_PLACEMENT_DEVICES] = {0}, bus = host * each;
        for (uint32_t q = 0; q < n; q++) {
            uint32_t from = p->from[g][q];
            if (from == g)
                home += of[q] / n;
            else
                peers += of[q] / n;
            if (m->links.rate[g][from] > 0)
                over[from] += of[q] * each;
            else
                bus += of[q] * each;
        }
        slowest = fmax(slowest, bus * gb / o->host);
        for (uint32_t from = 0; from < n; from++)
            if (over[from] > 0)
                slowest = fmax(slowest, over[from] * gb / m->links.rate[g][from]);
    }
    const double all = (double)v->total / 100;
    printf("%-20s %5.1f %%  %-9s %6.1f %% %7.1f %% %7.1f %% %7.1f %% %9.1f ms\n", m->name,
           ratio * 100, name, 100.0 * (double)cached / (double)v->n_nodes, home / all, peers / all,
           host / all, slowest * 1e3);
}

static void judge_all(const struct options *o, const struct visits *v)
{
    static const char *const names[] = {"solver", "cliques", "one copy", "alone"};
    struct machine machines[MACHINES];
    make_machines(machines);
    printf("%-20s %7s  %-9s %8s %9s %9s %9s %12s\n", "machine", "room", "plan", "cached", "at home",
           "on peers", "in memory", "busiest way");
    for (uint32_t i = 0; i < MACHINES; i++) {
        struct sl_placement p[SL_COUNT_OF(names)];
        uint64_t begin = sl_now_ns();
        must_ok(sl_placement_solve(&machines[i].links, &p[0]));
        double took_ms = (double)(sl_now_ns() - begin) * 1e-6;
        must_ok(sl_placement_cliques(&machines[i].links, &p[1]));
        one_copy(&machines[i].links, &p[2]);
        alone(&machines[i].links, &p[3]);
        for (uint32_t r = 0; r < o->n_ratios; r++)
            for (size_t k = 0; k < SL_COUNT_OF(names); k++)
                judge(o, &machines[i], names[k], &p[k], v, o->ratios[r]);
        printf("%-20s solver: %.3f ms, %" PRIu64 " steps, at most %" PRIu32 " of %" PRIu32
               " partitions a GPU, %" PRIu32 " in all, %g GB/s for each%s\n",
               machines[i].name, took_ms, p[0].steps, p[0].most, p[0].n, p[0].total, p[0].bandwidth,
               p[0].proved ? "" : " (not proved)");
    }
}

// ---- options ------------------------------------------------------------------------------------

// clang-format off
static const struct sl_option options[] = {
    ARGUMENT_TEXT("fanout", options, fanout),
    ARGUMENT_NUMBER("batch", options, batch, 1, 1e9),
    ARGUMENT_NUMBER("epochs", options, epochs, 2, 1e6),
    ARGUMENT_TEXT("ratios", options, of_ratios),
    {.name = "host", SL_OPTION_AT(REAL, options, host), .placeholder = "R", .min = 0.001,
     .max = 1e6, .help = ""},
    ARGUMENT_NUMBER("seed", options, plan.seed, 0, 9e15),
    {0},
};
// clang-format on
static const struct sl_command command = {
    .name = "placement",
    .is_program = true,
    .about = "What rows of features cost by where they are placed.",
    .operands = {{"DATASET", offsetof(struct options, path)}},
    .options = {{options}},
};

int main(int argc, char **argv)
{
    struct options o = {
        .plan = {.kind = SL_SAMPLER_KHOP, .stream = SL_RNG_SAMPLE, .seed = 7},
        .fanout = "15,10,5",
        .of_ratios = "0.02,0.05,0.1",
        .batch = 1024,
        .epochs = 2,
        .host = 12,
    };
    arguments_parse(&command, &o, argc, argv);
    lane_fanout(o.fanout, &o.plan);
    o.n_ratios = arguments_numbers("ratios", o.of_ratios, 0, 1, RATIOS_MAX, o.ratios);
    struct sl_topology t;
    struct visits v;
    must_ok(sl_topology_open(&t, o.path, NULL, false, -1, sl_kernels_cpu(), 0));
    count_all(&o, &t, &v);
    printf("%s: %" PRIu64 " rows of %" PRIu64 " bytes, %" PRIu64 " read in an epoch\n",
           t.dataset.name, v.n_nodes, v.row_bytes, v.total / v.n_epochs);
    judge_all(&o, &v);
    free(v.of);
    sl_topology_close(&t);
    return 0;
}
