/*
 * foresight.h - how often rows and edges are expected to be read (store_question.h), found while
 * workers load: on libuv's thread pool, since it takes a pass over the edges for each hop. Small
 * graphs at once.
 */
#ifndef SL_BROKER_FORESIGHT_H
#define SL_BROKER_FORESIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "broker/store_question.h"

struct sl_foresight {
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
void sl_foresight_start(struct sl_foresight *f, uv_loop_t *loop, const struct sl_config *config,
                        const struct sl_dataset *dataset, void (*on_done)(void *), void *ctx);
// At once, whatever it takes; start() finds it done then.
void sl_foresight_now(struct sl_foresight *f, const struct sl_config *config,
                      const struct sl_dataset *dataset);
// Ends it soon.
void sl_foresight_cancel(struct sl_foresight *f);

// NULL where nothing could be foreseen, or not yet.
const struct sl_store_foreseen *sl_foresight_found(const struct sl_foresight *f);
const struct sl_store_curve *sl_foresight_curve(const struct sl_foresight *f,
                                                enum sl_lent_kind kind);

#endif
