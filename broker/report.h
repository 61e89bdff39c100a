/*
 * report.h - the account of a run: report.json, one line of metrics.jsonl an epoch.
 *
 * Schema "sluice.report/1" (broker/README.md lists the keys). Keys may be added; those that exist
 * keep their meaning. A run that was stopped or failed has a report of what was done by then.
 */
#ifndef SL_BROKER_REPORT_H
#define SL_BROKER_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "broker/figures.h"
#include "common/data/safetensors.h"
#include "config/config.h"

struct sl_report {
    cJSON *epochs;                        // owned
    cJSON *restarts;                      // owned
    cJSON *processes;                     // owned
    double sample_seconds, train_seconds; // over all epochs, for the rates of the allocation
    uint64_t batches, resampled, retrained, evicted;
};

// A worker that died and was replaced, or was not.
struct sl_report_restart {
    const char *name; // "sampler 0"
    int64_t pid;
    double seconds; // since the job began
    const char *cause;
    const char *held; // "batch 17 of epoch 3", or NULL
    uint32_t resampled, retrained;
};

// What is known at the end.
struct sl_report_outcome {
    const char *status;  // "done", "failed", "stopped"
    const char *message; // why, or NULL
    const char *config_json;
    const char *reason; // of the allocation
    uint64_t scheduled, trained;
    bool has_best;
    uint32_t best_epoch;
    double best_val_accuracy;
    bool has_test;
    double test_accuracy, test_seconds;
    const char *params_sha256;  // NULL: no parameters
    const char *samples_digest; // NULL: not asked for
    double start_seconds, wall_seconds;
    uint64_t peak_memory;
    uint64_t arena_bytes, payload_bytes, block_bytes_max;
};

int sl_report_init(struct sl_report *r);
void sl_report_fini(struct sl_report *r); // safe on a zeroed struct

// Adds an epoch and returns its entry as one line of JSON (owned: free()); NULL without memory.
char *sl_report_add_epoch(struct sl_report *r, const struct sl_epoch_figures *f);
void sl_report_add_restart(struct sl_report *r, const struct sl_report_restart *restart);
void sl_report_add_process(struct sl_report *r, const char *name, int64_t pid, uint64_t peak_bytes,
                           uint32_t starts);

// The whole report as indented JSON text (owned: free()); NULL without memory. Once, at the end.
char *sl_report_finish(struct sl_report *r, const struct sl_config *config,
                       const struct sl_report_outcome *outcome);

// Writes it; the file appears whole or not at all.
int sl_report_write(const char *path, const char *text);

#endif
