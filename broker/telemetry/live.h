/*
 * live.h - live statistics of a job: measured ten times a second (meter.h), sent once a second.
 *
 * The result is one line of JSON, schema sluice.stats/1. README.md explains every key.
 *
 * THE BOTTLENECK is named in words with its evidence, and, where another split of the same devices
 * would be faster by the model of allocate.h, with what that would give (live_bottleneck.h).
 *
 * COST. Nothing is allocated but the line, whose memory is kept, and the line is written only when
 * a client wants it.
 */
#ifndef SL_BROKER_TELEMETRY_LIVE_H
#define SL_BROKER_TELEMETRY_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/telemetry/job_view.h"
#include "broker/log/json_writer.h"
#include "broker/meter/meter.h"
#include "broker/epochs/phases.h"
#include "broker/telemetry/live_nodes.h"

struct sl_clients;
struct sl_joblog;

struct sl_live {
    // borrowed
    const struct sl_job_view *job;
    struct sl_meter *meter; // which it makes look
    struct sl_clients *clients;
    struct sl_joblog *log;

    // where the job was when the newest line was made
    struct sl_loss_sum loss;
    struct sl_phases_view view;
    bool trains;                // and does nothing else
    struct sl_live_nodes nodes; // of the job, on the first of them
    bool rests[SL_METER_SEATS]; // while it is paused: the worker in this seat has come to rest

    struct sl_json_writer line; // the newest one
    uint64_t line_at_ns;        // 0: there is none
    const char *line_state;     // of the job, in it
    uint64_t tell_at_ns;        // when the next second is over
    uint64_t tick_ns, ticks;    // what looking and telling took, in all
    uint64_t lines, told;       // made in all; of these sent, one a second
    uint64_t questions;         // for a line
    uint64_t longest_tick_ns;
    uint64_t cpu_ns; // of a core, without what the machine gave to others meanwhile
};

void sl_live_fini(struct sl_live *live); // safe on a zeroed struct

// On each tick: looks, and each second makes a new line and sends it to subscribers.
void sl_live_poll(struct sl_live *live);
void sl_live_log(const struct sl_live *live); // what looking has cost
// A line that is at most 100 ms old and of the job's state. NULL without memory; valid until the
// next call or tick.
const char *sl_live_line(struct sl_live *live);
bool sl_live_is_there(const struct sl_live *live); // the arena is, and its words may be read

/*
 * Of a job on several nodes: writes down what this node's workers do, for its link (live_nodes.h).
 * On each second; and when the job ends, before the link is told so.
 */
void sl_live_publish_node(struct sl_live *live);

// live_json.c
// What of a line this node's row has (common/arena/node_figures.h), but its moment.
void sl_live_find_work(const struct sl_live *live, struct sl_node_work *out);
void sl_live_write(const struct sl_live *live, struct sl_json_writer *w);
// The devices as they are in a line; once there has been one.
void sl_live_write_devices(const struct sl_live *live, struct sl_json_writer *w, const char *key);

#endif
