#include "broker/sharding/access_forecast.h"

#include "common/base/error.h"

enum { AT_ONCE_MOST = 1 << 16 }; // vertices and edges

static void foresee(uv_work_t *work)
{
    struct sl_access_forecast *f = work->data;
    f->rc = sl_store_foresee(f->config, f->dataset, &f->cancel, &f->found);
}

static void done(uv_work_t *work, int status)
{
    struct sl_access_forecast *f = work->data;
    (void)status;
    f->busy = false;
    f->on_done(f->ctx);
}

// Whether there is anything to find.
static bool ask(struct sl_access_forecast *f, const struct sl_config *config,
                const struct sl_dataset *dataset)
{
    f->config = config;
    f->dataset = dataset;
    f->rc = SL_EUNSUPPORTED;
    f->work.data = f;
    return sl_store_foresees(config, dataset);
}

void sl_access_forecast_now(struct sl_access_forecast *f, const struct sl_config *config,
                            const struct sl_dataset *dataset)
{
    if (ask(f, config, dataset))
        foresee(&f->work);
}

void sl_access_forecast_start(struct sl_access_forecast *f, uv_loop_t *loop,
                              const struct sl_config *config, const struct sl_dataset *dataset,
                              void (*on_done)(void *), void *ctx)
{
    if (f->config || !ask(f, config, dataset))
        return;
    f->on_done = on_done;
    f->ctx = ctx;
    f->busy = dataset->n_nodes + dataset->n_edges > AT_ONCE_MOST &&
              uv_queue_work(loop, &f->work, foresee, done) == 0;
    if (!f->busy)
        foresee(&f->work);
}

void sl_access_forecast_cancel(struct sl_access_forecast *f)
{
    atomic_store(&f->cancel, true);
}

const struct sl_store_foreseen *sl_access_forecast_found(const struct sl_access_forecast *f)
{
    return f->busy || !f->config || f->rc != SL_OK ? NULL : &f->found;
}

const struct sl_store_curve *sl_access_forecast_curve(const struct sl_access_forecast *f,
                                                      enum sl_peer_memory_kind kind)
{
    const struct sl_store_foreseen *found = sl_access_forecast_found(f);
    return !found || (kind == SL_PEER_MEMORY_GRAPH && found->edge_reads == 0) ? NULL
                                                                              : &found->curve[kind];
}
