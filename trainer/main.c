/*
 * main.c - the trainer process: started by the broker, never by hand (common/ipc/worker.h).
 *
 * Pin, open the data set, lay the model out, tell the broker its tensors, map the arena, measure a
 * training step, work.
 * Exit status 0 after a stop; 1 after an error, which the broker has been told.
 */
#include <string.h>

#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/ipc/worker.h"
#include "trainer/loop.h"
#include "trainer/probe.h"

enum { ATTACH_TIMEOUT_MS = 600 * 1000 }; // the slowest worker to load decides

struct program {
    struct sl_worker worker;
    struct sl_config config;
    struct sl_dataset dataset;
    struct sl_model model;
};

static int prepare(struct program *p)
{
    struct sl_worker *w = &p->worker;
    SL_TRY(sl_config_take_device(w->config_json, w->config_bytes, w->device, w->name, &p->config));
    int threads = (int)p->config.devices[w->device].n_cores;
    sl_kernels_set_threads(threads);
    SL_TRY(
        sl_dataset_open(p->config.dataset, SL_NEED_TRAINING, SL_CHECK_TRUST, threads, &p->dataset));
    return sl_model_init(&p->model, &p->config, p->dataset.feat_dim, p->dataset.n_classes,
                         sl_kernels_cpu());
}

// Says Hello with the parameter tensors and waits for the arena.
static int attach(struct program *p)
{
    enum { MAX = SL_CONFIG_MAX_LAYERS * SL_LAYER_TENSORS };
    const struct sl_model *m = &p->model;
    Sl__Control__Tensor tensor[MAX], *list[MAX];
    uint64_t shape[MAX][2];
    for (uint32_t t = 0; t < m->n_tensors; t++) {
        sl__control__tensor__init(&tensor[t]);
        memcpy(shape[t], m->tensor[t].shape, sizeof shape[t]);
        tensor[t].name = (char *)m->tensor[t].name; // only read
        tensor[t].n_shape = m->tensor[t].rank;
        tensor[t].shape = shape[t];
        tensor[t].init_constant = m->tensor[t].init_constant;
        tensor[t].init_bound = m->tensor[t].init_bound;
        list[t] = &tensor[t];
    }
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    hello.n_tensors = m->n_tensors;
    hello.tensors = list;
    hello.infer_width = sl_model_infer_width(m);
    hello.n_layers = m->n_layers;
    SL_FAILPOINT(TRAINER_START);
    return sl_worker_attach(&p->worker, &hello, ATTACH_TIMEOUT_MS);
}

static int work(void *ctx)
{
    struct program *p = ctx;
    SL_TRY(prepare(p));
    SL_TRY(attach(p));
    const struct sl_trainer_spec spec = {
        .arena = &p->worker.arena,
        .worker = p->worker.id,
        .device = p->worker.device,
        .config = &p->config,
        .dataset = &p->dataset,
        .model = &p->model,
        .stats = p->worker.stats,
        .stop = &p->worker.stop,
    };
    struct sl_trainer_probe probe;
    SL_TRY(sl_trainer_probe(&spec, &probe));
    p->worker.step_bytes = probe.step_bytes;
    p->worker.t_train_ns = probe.train_ns;
    SL_TRY(sl_worker_ready(&p->worker));
    return sl_trainer_run(&spec);
}

static void release(void *ctx)
{
    struct program *p = ctx;
    sl_model_fini(&p->model);
    sl_dataset_close(&p->dataset);
}

int main(int argc, char **argv)
{
    static struct program p; // too large for a stack
    return sl_worker_main(&p.worker, "trainer", argc, argv, work, release, &p);
}
