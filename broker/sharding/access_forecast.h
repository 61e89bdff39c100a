/*
 * access_forecast.h - how often rows and edges are expected to be read (shard_inputs.h), found
 * while workers load: on libuv's thread pool, since it takes a pass over the edges for each hop.
 * Small graphs at once.
 */
#ifndef SL_BROKER_SHARDING_ACCESS_FORECAST_H
#define SL_BROKER_SHARDING_ACCESS_FORECAST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "broker/sharding/shard_inputs.h"

struct sl_access_forecast {
    const struct sl_config *config;
    const struct sl_dataset *dataset;
    void (*on_done)(void *ctx); // on the loop
    void *ctx;
    bool busy;
    int rc; // once it is not busy; SL_EUNSUPPORTED before
    struct sl_store_foreseen found;
    uv_work_t work;
    atomic_bool cancel;
};

// On a zeroed struct, which must stay where it is until it is no longer busy. on_done is not called
// where the answer is there at once.
void sl_access_forecast_start(struct sl_access_forecast *f, uv_loop_t *loop,
                              const struct sl_config *config, const struct sl_dataset *dataset,
                              void (*on_done)(void *), void *ctx);
// At once, whatever it takes; start() finds it done then.
void sl_access_forecast_now(struct sl_access_forecast *f, const struct sl_config *config,
                            const struct sl_dataset *dataset);
// Ends it soon.
void sl_access_forecast_cancel(struct sl_access_forecast *f);

// NULL where nothing could be foreseen, or not yet.
const struct sl_store_foreseen *sl_access_forecast_found(const struct sl_access_forecast *f);
const struct sl_store_curve *sl_access_forecast_curve(const struct sl_access_forecast *f,
                                                      enum sl_peer_memory_kind kind);

#endif
