/*
 * main.c - the sampler process: started by the broker, never by hand (common/bus/worker.h).
 *
 * Pin, open the device, open the graph and bring it there, measure some batches, tell the broker
 * what they are like, map the arena, leave the largest of them there for the trainers to measure
 * with, work. Exit status 0 after a stop; 1 after an error, which the broker has been told.
 */
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/data/dataset_fault.h"
#include "common/arena/visit_counts.h"
#include "common/arena/seat.h"
#include "common/bus/worker.h"
#include "sampler/loop.h"

struct program {
    struct sl_worker worker;
    struct sl_config config;
    const struct sl_device *device;
    const struct sl_kernels *kernels;
    struct sl_topology topology;
    struct sl_graph_placement residence; // on a GPU
    struct sl_share share;               // of its edges, with other samplers' GPUs
    struct sl_heartbeat pulse;
    void *pinned; // of the arena, or NULL
    struct sl_drawer drawer;
    struct sl_pair_maker pairs; // of a job of links
    struct sl_block_estimate estimate;
    struct sl_mirror mirror; // of blocks, on a GPU that trains as well
};

static int open_device(struct program *p)
{
    const struct sl_device_config *d = &p->config.devices[p->worker.device];
    if (d->kind == SL_DEVICE_CPU || sl_config_draws_on_cores(&p->config)) {
        if (d->kind != SL_DEVICE_CPU)
            sl_log_info("sampling: on cores, as only they draw for task.kind \"link\", "
                        "sampler.subgraph, sampler.disjoint and sampler.time");
        p->device = sl_device_host();
        p->kernels = sl_kernels_cpu();
        return SL_OK;
    }
    return sl_kernels_open_gpu(d->index, d->memory_bytes, &p->device, &p->kernels);
}

static int make_drawer(struct program *p)
{
    if (p->device->is_host) {
        sl_topology_expect_draws(&p->topology);
        return sl_drawer_init(&p->drawer, &p->topology, p->kernels);
    }
    const struct sl_graph_placement_spec spec = {
        .topology = &p->topology,
        .degrees = sl_config_wants_degrees(&p->config),
        .share = sl_config_graph_shares[p->config.store.prefer],
        .shares = sl_config_gpus(&p->config) > 1,
        .most = p->config.store.graph_ratio,
        .files = {.offsets = p->worker.fd.shared[SL_SHARED_OFFSETS],
                  .degrees = p->worker.fd.shared[SL_SHARED_DEGREES],
                  .neighbours = p->worker.fd.shared[SL_SHARED_NEIGHBOURS]},
        .threads = (int)p->config.devices[p->worker.device].n_cores,
    };
    SL_TRY(sl_topology_expect_device(&p->topology));
    SL_TRY(sl_graph_placement_open(&p->residence, &spec, p->device, p->kernels));
    return sl_drawer_init_on(&p->drawer, &p->topology, &p->residence);
}

// What stays on the device, or stands for it on a CPU device.
static uint64_t resident_bytes(const struct program *p)
{
    if (p->device->is_host && p->config.devices[p->worker.device].kind != SL_DEVICE_CPU)
        return 0; // the device has nothing of it
    uint64_t graph = p->device->is_host ? sl_topology_resident_bytes(&p->topology)
                                        : sl_graph_placement_bytes(&p->residence);
    return graph + sl_drawer_bytes(&p->drawer) + sl_pair_maker_bytes(&p->pairs) + p->mirror.bytes;
}

static void share_edges(struct program *p)
{
    struct sl_worker *w = &p->worker;
    if (!p->residence.shares || p->residence.n_edges == 0)
        return;
    p->pulse = (struct sl_heartbeat){.arena = &w->arena, .stop = &w->stop, .slot = w->stats};
    sl_share_init(&p->share, &p->residence, &w->arena, w->device, &p->pulse);
    p->drawer.device.share = &p->share;
}

/*
 * Blocks then leave the device by DMA. Without it they do so at the speed of pageable memory. Only
 * where blocks go is pinned: pinning makes pages of all of a range, and the arena has room for the
 * activations of every vertex.
 */
static void pin_blocks(struct program *p)
{
    void *there;
    struct sl_arena *a = &p->worker.arena;
    const struct sl_region *payload = &a->h->region[SL_REGION_PAYLOAD];
    if (p->device->is_host || payload->bytes == 0)
        return;
    void *start = a->base + payload->offset;
    if (p->device->map(start, payload->bytes, false, &there) == SL_OK)
        p->pinned = start;
    else
        sl_log_warn("sampling: the arena cannot be pinned for the device, so blocks leave it more "
                    "slowly: %s",
                    sl_error_message());
}

static int prepare(struct program *p)
{
    struct sl_worker *w = &p->worker;
    SL_TRY(sl_config_take_device(w->told.job, w->told.job_bytes, w->device, w->name, &p->config));
    int threads = (int)p->config.devices[w->device].n_cores;
    sl_kernels_set_threads(threads);
    const bool by_weight = sl_sampler_flags[p->config.sampler.kind] & SL_SAMPLER_BY_WEIGHT;
    SL_TRY(open_device(p));
    SL_TRY(sl_topology_open(&p->topology, p->config.dataset, w->told.record,
                            sl_config_needs_to_draw(&p->config),
                            p->worker.fd.shared[SL_SHARED_SUMS], sl_kernels_cpu(), threads));
    SL_TRY(sl_config_choose_items(&p->config, &p->topology.dataset));
    SL_TRY(sl_config_find_relations(&p->config, &p->topology.dataset.typed));
    if (by_weight && sl_config_wants_degrees(&p->config))
        SL_TRY(sl_topology_drop_weightless(&p->topology, threads));
    if (sl_config_drops_self_loops(&p->config))
        SL_TRY(sl_topology_find_self_loops(&p->topology, threads));
    SL_TRY(make_drawer(p));
    if (sl_config_is_links(&p->config))
        SL_TRY(sl_pair_maker_init(&p->pairs, &p->config, &p->topology.dataset));
    SL_TRY(sl_plan_measure(&p->config, &p->drawer, &p->pairs, &p->estimate));
    if (sl_config_trains_beside(&p->config, w->device))
        sl_mirror_open(&p->mirror, p->device, p->estimate.max_bytes);
    if (p->device->is_host)
        sl_topology_log_pages();
    return SL_OK;
}

static int work(void *ctx)
{
    struct program *p = ctx;
    const struct sl_typed *typed = &p->topology.dataset.typed;
    SL_TRY(prepare(p));
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    hello.block_bytes_max = p->estimate.max_bytes;
    hello.block_bytes_mean = p->estimate.mean_bytes;
    hello.input_nodes = p->estimate.input_nodes;
    hello.resident_bytes = resident_bytes(p);
    hello.graph_edges = p->residence.room;
    // What ranks are looked up in comes later, and with it how many tiers there are; most jobs
    // have one or two, and each is less than a hundredth of what a graph takes.
    if (sl_cache_keeps(p->config.cache.policy))
        hello.resident_bytes += sl_marker_bytes(p->topology.view.n_nodes, typed->n_types, 1);
    hello.t_sample_ns = p->estimate.t_sample_ns;
    hello.probe_bytes = p->estimate.probe ? p->estimate.probe->bytes : 0;
    SL_FAILPOINT(SAMPLER_START);
    SL_TRY(sl_worker_attach(&p->worker, &hello));
    pin_blocks(p);
    share_edges(p);
    if (!p->device->is_host)
        atomic_store(&sl_seat(&p->worker.arena, p->worker.slot)->store_way,
                     sl_graph_placement_way(&p->residence));
    if (p->estimate.probe)
        sl_probe_offer(&p->worker.arena, p->worker.id, p->estimate.probe);
    sl_block_estimate_fini(&p->estimate);
    sl_mirror_lend(&p->mirror, &p->worker.arena, p->worker.device);
    SL_TRY(sl_worker_ready(&p->worker));
    struct sl_sampler sampler = {
        .arena = &p->worker.arena,
        .worker = p->worker.id,
        .device = p->worker.device,
        .config = &p->config,
        .drawer = &p->drawer,
        .pairs = &p->pairs,
        .stats = p->worker.stats,
        .stop = &p->worker.stop,
        .guess_bytes = p->estimate.max_bytes,
        .marker = {.device = typed->n_types ? NULL : p->device, .typed = typed},
        .mirror = &p->mirror,
    };
    return sl_sampler_run(&sampler);
}

static void release(void *ctx)
{
    struct program *p = ctx;
    sl_block_estimate_fini(&p->estimate);
    sl_pair_maker_fini(&p->pairs);
    sl_drawer_fini(&p->drawer);
    sl_mirror_close(&p->mirror);
    if (p->pinned)
        p->device->unmap(p->pinned);
    sl_share_fini(&p->share);
    sl_graph_placement_close(&p->residence);
    sl_topology_close(&p->topology);
    sl_config_forget_relations(&p->config);
}

int main(int argc, char **argv)
{
    static struct program p; // too large for a stack
    sl_dataset_name_faults("sluice-sampler");
    return sl_worker_main(&p.worker, "sampler", argc, argv, work, release, &p);
}
