/*
 * trace_events.h - batches as Chrome trace events: writes the text, does not send it.
 *
 *   process = device; the first process is the job itself, with its events and counters. Of a job
 *             over nodes each node has processes of its own, node after node, named after it
 *   thread  = sampler, trainer (extract), trainer (train): extraction overlaps training
 *
 *   sample     "X" on the sampler: claimed until ready; inside it, one after the other, how long it
 *              waited for memory, drew, copied and marked, each in one piece even if the batch was
 *              drawn twice for want of room
 *   queued     an async span "b", "e" of the job: ready until claimed by a trainer
 *   extract    "X" on the trainer: gathering feature rows
 *   wait       "X": taken by the computing thread until the parameters' version was there
 *   train      "X": forward and backward. "evaluate" for evaluation, by the layer or sampled
 *   sum        "X": gradients added up with the other trainers, where they form a group
 *   apply      "X" on the worker that applied the update whose last batch this is
 *   arrows     a flow "s", "t", "f" from sample to extract to train
 *
 * What is not there on a thread is waiting for work. Times are microseconds since the trace began.
 *
 * Source: Trace Event Format,
 * https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
 */
#ifndef SL_BROKER_TELEMETRY_TRACE_EVENTS_H
#define SL_BROKER_TELEMETRY_TRACE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/log/json_writer.h"
#include "common/arena/ledger.h"

enum sl_trace_thread {
    SL_TRACE_SAMPLE = 1,
    SL_TRACE_EXTRACT,
    SL_TRACE_TRAIN,
    SL_TRACE_THREADS, // one more than the last
};

// Processes; of node k with k * SL_TRACE_NODE_PROCESSES more.
enum { SL_TRACE_JOB = 1, SL_TRACE_FIRST_DEVICE = 2, SL_TRACE_NODE_PROCESSES = 1000 };

struct sl_trace_events {
    struct sl_json_writer json; // events separated by commas
    uint64_t n;                 // of them
    uint64_t from_ns, to_ns;    // of the trace; what begins later is left out
    uint32_t node;
    char place[96]; // what stands before names of processes: "host b (rank 1)", ""
};

// Which batch, and which thread of which device each stage belongs to.
struct sl_trace_batch {
    uint64_t seq;
    uint32_t cell;
    const struct sl_phase_spec *spec;
    const struct sl_batch_entry *entry;
    uint32_t device; // of the stage that is drawn
};

// Forgets the events; memory stays.
void sl_trace_events_reset(struct sl_trace_events *e);
// Takes back what was added since json.text.n and n were these.
void sl_trace_events_cut(struct sl_trace_events *e, size_t bytes, uint64_t n);

void sl_trace_add_process(struct sl_trace_events *e, uint32_t process, const char *name);
void sl_trace_add_thread(struct sl_trace_events *e, uint32_t process, uint32_t thread,
                         const char *name);
void sl_trace_add_counter(struct sl_trace_events *e, const char *name, uint64_t at_ns,
                          uint64_t value);
void sl_trace_add_instant(struct sl_trace_events *e, const char *kind, uint64_t at_ns,
                          const char *text);

// A batch that has been drawn: what its sampler wrote is read, and nothing else.
void sl_trace_add_drawn(struct sl_trace_events *e, const struct sl_trace_batch *b);
// One that has been trained or evaluated. sampler_device: of the arrow; negative: no arrow.
void sl_trace_add_trained(struct sl_trace_events *e, const struct sl_trace_batch *b,
                          int64_t sampler_device);
// The update whose last batch this is.
void sl_trace_add_applied(struct sl_trace_events *e, const struct sl_trace_batch *b,
                          const struct sl_update_entry *update);

#endif
