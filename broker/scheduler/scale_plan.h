/*
 * scale_plan.h - what a change of the split would do and bring, in words and as JSON.
 *
 * Made before anything is done, for the real change as for a dry run, and from the same functions
 * that worker_assign.c and allocate.h decide by. Schema sluice.scale/1:
 *
 *   {"schema", "job", "ok", "dry_run", "from" {"samplers", "trainers"}, "to", "steps" [text, one a
 *    device, or place of a pool, whose duties change], "epoch_seconds_now", "epoch_seconds_then",
 *    "gain_seconds_an_epoch", "move_seconds", "epochs_left", "pays", "took_seconds", "message"}
 *
 * null: not known, or not done. "pays": the gain over the epochs that are left is more than the
 * move costs.
 */
#ifndef SL_BROKER_SCHEDULER_SCALE_PLAN_H
#define SL_BROKER_SCHEDULER_SCALE_PLAN_H

#include "broker/scheduler/allocate.h"
#include "broker/placement/budget.h"
#include "config/config.h"

// What is asked about. Pointers are borrowed.
struct sl_scale_question {
    const struct sl_config *config;
    const struct sl_budget_need *need;
    uint64_t available_bytes;
    const bool *no_standby; // (n_devices) under the new split
    struct sl_allocation_question expect;
    struct sl_roles to;
};

enum { SL_SCALE_STEP_BYTES = 224, SL_SCALE_TEXT_BYTES = 1024 };

struct sl_scale_plan {
    struct sl_roles from, to;
    struct sl_expectation expectation;
    double move_seconds;
    uint32_t epochs_left;
    uint32_t n_steps;
    char step[SL_CONFIG_MAX_DEVICES][SL_SCALE_STEP_BYTES];
};

void sl_scale_plan_make(const struct sl_scale_question *q, struct sl_scale_plan *out);

// One line of all of it. Returns buf.
char *sl_scale_plan_text(const struct sl_scale_plan *plan, char buf[SL_SCALE_TEXT_BYTES]);

// "1 sampler and 3 trainers". Returns buf.
char *sl_scale_split_text(struct sl_roles split, char *buf, size_t bytes);

// How it went. took_seconds negative: it was not done.
struct sl_scale_result {
    const char *job;
    bool ok, dry_run;
    double took_seconds;
    const char *message;
};
// Owned: free(); NULL without memory.
char *sl_scale_plan_json(const struct sl_scale_plan *plan, const struct sl_scale_result *result);

#endif
