// draws.c - batches of given seeds, drawn in the thread that asks: what a sampler process does, on
// the same files, with nothing around it.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/mempool.h"
#include "common/base/threads.h"
#include "loader/loader.h"
#include "sampler/draw.h"
#include "sampler/plan.h"

enum { FIRST_BYTES = 1 << 16 };

struct sluice_sampler {
    _Atomic bool busy; // a thread is in it
    bool features;
    struct sl_config config;
    struct sl_topology topology;
    struct sl_drawer drawer;
    struct sl_draw_plan plan;
    struct sl_schema schema;
    struct sl_row_source rows;
    struct sl_block *block; // of the last draw
    uint64_t block_bytes;   // there
    // Of the process that `pool_pid` is: pieces of one that was forked from stay where they are.
    struct sl_arrays_pool *pool;
    pid_t pool_pid;
};

// --- open ----------------------------------------------------------------------------------------

static int open_graph(struct sluice_sampler *s)
{
    if (sl_config_is_links(&s->config))
        return sl_fail(
            SL_EUNSUPPORTED,
            "sluice_sampler_open: task.kind: found \"link\", wanted \"node\": batches of "
            "given seeds are of vertices: pairs come by sluice_open()");
    SL_TRY(sl_topology_open(&s->topology, s->config.dataset, NULL,
                            sl_config_needs_to_draw(&s->config), -1, sl_kernels_rows(),
                            sl_threads_default()));
    SL_TRY(sl_config_check_types(&s->config, &s->topology.dataset));
    SL_TRY(sl_config_choose_paths(&s->config, &s->topology.dataset));
    SL_TRY(sl_config_find_relations(&s->config, &s->topology.dataset.typed));
    SL_TRY(sl_schema_init(&s->schema, &s->topology.dataset.typed, &s->config));
    s->rows.dataset = &s->topology.dataset;
    s->plan = sl_plan_of(&s->config, SL_PHASE_TRAIN);
    return sl_drawer_init(&s->drawer, &s->topology, sl_kernels_rows());
}

int sluice_sampler_open(const struct sluice_sampler_options *options, sluice_sampler **out)
{
    struct sluice_sampler_options o = {0};
    bool has_output;
    sl_loader_be_silent();
    if (!options || options->size < sizeof o || !out)
        return sl_fail(SL_EINVAL, "sluice_sampler_open: found no %s, wanted %s",
                       options && out ? "options of that size"
                       : options      ? "place"
                                      : "options",
                       "struct sluice_sampler_options, with its size, and a place for the sampler");
    *out = NULL;
    memcpy(&o, options, sizeof o);
    if (!o.job || o.features > 1)
        return sl_fail(SL_EINVAL, "sluice_sampler_open: options.%s: found %s, wanted %s",
                       o.job ? "features" : "job", o.job ? "another number" : "none",
                       o.job ? "0 or 1" : "the text of a job");
    struct sluice_sampler *s = calloc(1, sizeof *s);
    if (!s)
        return sl_fail(SL_ENOMEM, "sluice_sampler_open: no memory");
    s->features = o.features;
    int rc = sl_own_job_read(o.job, o.origin ? o.origin : "job", &s->config, &has_output);
    if (rc == SL_OK)
        rc = open_graph(s);
    if (rc < 0) {
        sluice_sampler_close(s);
        return rc;
    }
    *out = s;
    return SL_OK;
}

void sluice_sampler_close(sluice_sampler *s)
{
    if (!s)
        return;
    sl_arrays_pool_close(s->pool);
    sl_row_source_fini(&s->rows);
    sl_schema_fini(&s->schema);
    sl_config_forget_relations(&s->config);
    sl_pages_free(s->block, s->block_bytes);
    sl_drawer_fini(&s->drawer);
    sl_topology_close(&s->topology);
    free(s);
}

int sluice_sampler_get_info(sluice_sampler *s, struct sluice_info *out)
{
    struct sluice_info info;
    if (!s)
        return sl_fail(SL_EINVAL, "sluice_sampler_get_info: found no sampler");
    sl_info_of(&s->config, &s->topology.dataset, &s->schema, &info);
    return sl_hand_over("sluice_sampler_get_info", out, &info, sizeof info, SL_INFO_SIZE_LEAST);
}

// --- draw ----------------------------------------------------------------------------------------

static int make_room(struct sluice_sampler *s, uint64_t bytes)
{
    sl_pages_free(s->block, s->block_bytes);
    s->block = sl_pages_alloc(bytes);
    s->block_bytes = s->block ? bytes : 0;
    return s->block ? SL_OK
                    : sl_fail(SL_ENOMEM, "sluice_sampler_draw: no memory for a batch of %llu bytes",
                              (unsigned long long)bytes);
}

static int draw_block(struct sluice_sampler *s, struct sl_draw_job *job)
{
    for (uint64_t wanted = FIRST_BYTES;;) {
        if (s->block_bytes < wanted)
            SL_TRY(make_room(s, wanted));
        job->block = s->block;
        job->capacity = s->block_bytes;
        const int rc = sl_drawer_draw(&s->drawer, job, &wanted);
        if (rc == SL_EPROTO) // in a job nobody names seeds
            return sl_fail_prefix(SL_EINVAL, "sluice_sampler_draw");
        if (rc != SL_ERANGE)
            return rc;
    }
}

static int fill_rows(struct sluice_sampler *s, struct sl_arrays *a)
{
    SL_TRY(sl_buffer_grow(&a->features, sl_device_host(), SL_BUFFER_DEVICE,
                          sl_rows_block_bytes(s->rows.dataset, s->block), "input features"));
    return sl_rows_copy_block(&s->rows, sl_kernels_rows(), s->block, a->features.p);
}

static int fill_arrays(struct sluice_sampler *s, struct sluice_arrays *out)
{
    const struct sl_dataset *ds = &s->topology.dataset;
    const bool has_rows = s->features && sl_rows_any(ds);
    struct sl_arrays *a;
    if (s->pool_pid != getpid()) {
        const struct sl_arrays_spec vertices = {.typed = &ds->typed}; // seeds are any
        SL_TRY(sl_arrays_pool_open(&vertices, &s->pool));
        s->pool_pid = getpid();
    }
    SL_TRY(sl_arrays_get(s->pool, true, &a));
    int rc = sl_arrays_fill(a, s->block, NULL);
    if (rc == SL_OK && has_rows)
        rc = fill_rows(s, a);
    if (rc < 0) {
        sl_arrays_free(a);
        return rc;
    }
    const struct sluice_arrays arrays =
        sl_arrays_public(a, sl_has_labels(ds), has_rows ? a->features.p : NULL);
    return sl_hand_over("sluice_sampler_draw", out, &arrays, sizeof arrays,
                        sl_arrays_size_least(ds));
}

static int draw(struct sluice_sampler *s, struct sl_draw_job *job, struct sluice_batch *batch,
                struct sluice_arrays *arrays)
{
    static const char call[] = "sluice_sampler_draw";
    struct sluice_batch b = {0};
    const struct sluice_arrays none = {0};
    const struct sl_dataset *ds = &s->topology.dataset;
    const size_t least = sl_batch_size_least(ds);
    // Before anything is drawn.
    SL_TRY(sl_hand_over(call, batch, &b, sizeof b, least));
    if (arrays) {
        SL_TRY(sl_hand_over(call, arrays, &none, sizeof none, sl_arrays_size_least(ds)));
        SL_TRY(sl_check_one_graph(call, &s->config));
    }
    if (!job->seeds || job->n_seeds == 0)
        return sl_fail(SL_EINVAL, "%s: found no seeds, wanted a vertex or more", call);
    SL_TRY(draw_block(s, job));
    sl_batch_describe(s->block, sl_has_labels(ds), &b);
    SL_TRY(sl_hand_over(call, batch, &b, sizeof b, least));
    return arrays ? fill_arrays(s, arrays) : SL_OK;
}

int sluice_sampler_draw(sluice_sampler *s, uint32_t epoch, uint32_t number, const uint32_t *seeds,
                        uint32_t n_seeds, struct sluice_batch *batch, struct sluice_arrays *arrays)
{
    if (!s)
        return sl_fail(SL_EINVAL, "sluice_sampler_draw: found no sampler");
    if (atomic_exchange(&s->busy, true))
        return sl_fail(SL_EAGAIN,
                       "sluice_sampler_draw: another thread is in this sampler: one at a "
                       "time may use it");
    const uint64_t first = (uint64_t)number * s->config.sampler.batch_size;
    struct sl_draw_job job = {
        .plan = &s->plan, .epoch = epoch, .batch = number, .seeds = seeds, .n_seeds = n_seeds};
    job.first_seed = (uint32_t)first; // where it would stand in an epoch
    const int rc = draw(s, &job, batch, arrays);
    atomic_store(&s->busy, false);
    return rc;
}
