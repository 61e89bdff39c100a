#include "partition/remote_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/philox.h"
#include "common/base/threads.h"
#include "dataset/permutation.h"
#include "partition/one_batch.h"

enum { BATCHES = 64 };

_Static_assert(SL_ESTIMATE_MAX_HOPS <= SL_MAX_HOPS, "a block has room for all hops of --fanout");

struct counting {
    const struct sl_parts_task *task;
    const uint16_t *part;
    uint64_t seed;
    struct sl_draw_plan plan;
    struct sl_topology topology;
    struct sl_drawer drawer;
    struct sl_one_batch drawn;
    uint64_t *ends;     // (n_parts + 1) of the training vertices of part p at p + 1
    uint32_t *training; // by part
    uint32_t *seeds;    // (batch size)
    struct sl_remote_rows *out;
};

double sl_remote_rows_at_random(const struct sl_remote_rows *found, uint32_t n_parts,
                                uint64_t n_nodes)
{
    if (found->rows == found->seeds)
        return 0;
    // The seeds are of one part, so that fewer of what is left are.
    const double n = (double)n_nodes, seeds = (double)found->seeds / (double)found->n_batches;
    return (1 - 1.0 / n_parts) * n / (n - seeds) * (double)(found->rows - found->seeds) /
           (double)found->rows;
}

static int sort_by_part(struct counting *c)
{
    const struct sl_vertex_list *train = &c->task->ds->split[SL_SPLIT_TRAIN];
    const uint32_t n_parts = c->task->n_parts;
    c->ends = calloc(n_parts + 2, sizeof *c->ends);
    c->training = malloc((train->n + 1) * sizeof *c->training);
    if (!c->ends || !c->training)
        return sl_fail(SL_ENOMEM, "partition: no memory for the training vertices by part");
    for (uint64_t i = 0; i < train->n; i++)
        c->ends[c->part[sl_vertex_at(train, i)] + 2]++;
    for (uint32_t p = 0; p < n_parts; p++)
        c->ends[p + 1] += c->ends[p];
    for (uint64_t i = 0; i < train->n; i++) {
        const uint32_t v = sl_vertex_at(train, i);
        c->training[c->ends[c->part[v] + 1]++] = v;
    }
    return SL_OK;
}

// Whether a vertex with features of so many bytes counts: of types those that have some.
static bool has_row(const struct counting *c, uint64_t bytes)
{
    return c->task->ds->typed.n_types == 0 || bytes > 0;
}

static int count_batch(struct counting *c, uint32_t p, uint32_t n_seeds)
{
    struct sl_draw_job job = {.plan = &c->plan,
                              .batch = (uint32_t)c->out->n_batches,
                              .seeds = c->seeds,
                              .n_seeds = n_seeds};
    SL_TRY(sl_one_batch_draw(&c->drawn, &c->drawer, &job));
    const uint32_t *nodes = sl_block_nodes(c->drawn.block), n = c->drawn.block->n_input;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t bytes = sl_dataset_table_of(c->task->ds, nodes[i]).row_bytes;
        const bool remote = c->part[nodes[i]] != p;
        if (!has_row(c, bytes))
            continue;
        c->out->rows++;
        c->out->remote += remote;
        c->out->remote_bytes += remote ? bytes : 0;
    }
    for (uint32_t i = 0; i < n_seeds; i++)
        c->out->seeds += has_row(c, sl_dataset_table_of(c->task->ds, c->seeds[i]).row_bytes);
    c->out->n_batches++;
    sl_progress_add(c->task->progress, 1);
    return sl_interrupt_check();
}

// The first batches of a part's epoch.
static int count_part(struct counting *c, uint32_t p, uint64_t batch_size, uint32_t n_batches)
{
    const uint32_t *training = c->training + c->ends[p];
    const uint64_t n = c->ends[p + 1] - c->ends[p];
    struct sl_permutation order;
    if (n == 0)
        return SL_OK;
    sl_permutation_init(&order, n, c->seed, p);
    for (uint64_t first = 0; first < n && n_batches-- > 0; first += batch_size) {
        const uint32_t n_seeds = (uint32_t)SL_MIN(batch_size, n - first);
        for (uint32_t i = 0; i < n_seeds; i++)
            c->seeds[i] = training[sl_permutation_apply(&order, first + i)];
        SL_TRY(count_batch(c, p, n_seeds));
    }
    return SL_OK;
}

static int count(struct counting *c, uint64_t batch_size)
{
    const uint32_t n_parts = c->task->n_parts, n = SL_MIN(n_parts, (uint32_t)BATCHES);
    sl_progress_begin(c->task->progress, "draw batches", 0, "batches");
    for (uint32_t i = 0; i < n; i++)
        SL_TRY(count_part(c, (uint32_t)((uint64_t)i * n_parts / n), batch_size, BATCHES / n));
    return SL_OK;
}

static int open_graph(struct counting *c, uint64_t batch_size)
{
    const struct sl_dataset *ds = c->task->ds;
    char *record = sl_dataset_record(ds);
    c->seeds = malloc(SL_MIN(batch_size, ds->n_nodes) * sizeof *c->seeds);
    int rc = record && c->seeds
                 ? sl_topology_open(&c->topology, ds->path, record, 0, -1, sl_kernels_rows(),
                                    sl_threads_default())
                 : sl_fail(SL_ENOMEM, "partition: no memory for the seeds of a batch");
    free(record);
    return rc < 0 ? rc : sl_drawer_init(&c->drawer, &c->topology, sl_kernels_rows());
}

int sl_remote_rows_count(const struct sl_parts_task *t, const uint16_t *part,
                         const struct sl_batch_estimate *hops, uint64_t seed,
                         struct sl_remote_rows *out)
{
    struct counting c = {
        .task = t,
        .part = part,
        .seed = seed,
        .plan = {.n_hops = hops->n_hops, .stream = SL_RNG_SAMPLE, .seed = seed},
        .out = out,
    };
    int rc;
    *out = (struct sl_remote_rows){0};
    memcpy(c.plan.fanout, hops->fanout, hops->n_hops * sizeof hops->fanout[0]);
    SL_TRY_OUT(sort_by_part(&c));
    SL_TRY_OUT(open_graph(&c, hops->batch_size));
    rc = count(&c, hops->batch_size);
out:
    sl_one_batch_fini(&c.drawn);
    sl_drawer_fini(&c.drawer);
    sl_topology_close(&c.topology);
    free(c.ends);
    free(c.training);
    free(c.seeds);
    return rc;
}
