/*
 * main.c - the sampler process: started by the broker, never by hand (common/ipc/worker.h).
 *
 * Pin, open the graph, measure some batches, tell the broker what they are like, map the arena,
 * leave the largest of them there for the trainers to measure with, work. Exit status 0 after a
 * stop; 1 after an error, which the broker has been told.
 */
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/ipc/hot.h"
#include "common/ipc/worker.h"
#include "sampler/loop.h"

enum { ATTACH_TIMEOUT_MS = 600 * 1000 }; // the slowest worker to load decides

struct program {
    struct sl_worker worker;
    struct sl_config config;
    struct sl_topology topology;
    struct sl_drawer drawer;
    struct sl_block_estimate estimate;
};

static int prepare(struct program *p)
{
    struct sl_worker *w = &p->worker;
    SL_TRY(sl_config_take_device(w->config_json, w->config_bytes, w->device, w->name, &p->config));
    int threads = (int)p->config.devices[w->device].n_cores;
    sl_kernels_set_threads(threads);
    const struct sl_kernels *kernels = sl_kernels_cpu();
    SL_TRY(sl_topology_open(&p->topology, p->config.dataset,
                            p->config.sampler.kind == SL_SAMPLER_WEIGHTED, kernels, threads));
    if (p->config.model.kind == SL_MODEL_GCN && p->config.model.degrees == SL_DEGREES_GRAPH &&
        p->config.model.self_loops)
        SL_TRY(sl_topology_find_self_loops(&p->topology, threads));
    SL_TRY(sl_drawer_init(&p->drawer, &p->topology, kernels));
    return sl_plan_measure(&p->config, &p->drawer, &p->estimate);
}

static int work(void *ctx)
{
    struct program *p = ctx;
    SL_TRY(prepare(p));
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    hello.block_bytes_max = p->estimate.max_bytes;
    hello.block_bytes_mean = p->estimate.mean_bytes;
    hello.resident_bytes = sl_topology_resident_bytes(&p->topology) + sl_drawer_bytes(&p->drawer);
    // What ranks are looked up in comes later, and with it how many tiers there are; most jobs
    // have one or two, and each is less than a hundredth of what a graph takes.
    if (p->config.cache.policy != SL_CACHE_NONE)
        hello.resident_bytes += sl_marker_bytes(p->topology.view.n_nodes, 1);
    hello.t_sample_ns = p->estimate.t_sample_ns;
    hello.probe_bytes = p->estimate.probe ? p->estimate.probe->bytes : 0;
    SL_FAILPOINT(SAMPLER_START);
    SL_TRY(sl_worker_attach(&p->worker, &hello, ATTACH_TIMEOUT_MS));
    if (p->estimate.probe)
        sl_probe_offer(&p->worker.arena, p->worker.id, p->estimate.probe);
    sl_block_estimate_fini(&p->estimate);
    SL_TRY(sl_worker_ready(&p->worker));
    struct sl_sampler sampler = {
        .arena = &p->worker.arena,
        .worker = p->worker.id,
        .device = p->worker.device,
        .config = &p->config,
        .drawer = &p->drawer,
        .stats = p->worker.stats,
        .stop = &p->worker.stop,
        .guess_bytes = p->estimate.max_bytes,
    };
    return sl_sampler_run(&sampler);
}

static void release(void *ctx)
{
    struct program *p = ctx;
    sl_block_estimate_fini(&p->estimate);
    sl_drawer_fini(&p->drawer);
    sl_topology_close(&p->topology);
}

int main(int argc, char **argv)
{
    static struct program p; // too large for a stack
    return sl_worker_main(&p.worker, "sampler", argc, argv, work, release, &p);
}
