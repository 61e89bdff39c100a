/*
 * prometheus.h - the statistics of all jobs as Prometheus text, format 0.0.4.
 *
 * Base units (seconds, bytes, ratios from 0 to 1), counters end in _total, each family has one HELP
 * and one TYPE in front of its samples. Every sample of a job carries job (its name) and id (the
 * daemon's number, "0" without one). A counter begins at 0 again when its job starts again.
 */
#ifndef SL_BROKER_HTTP_PROMETHEUS_H
#define SL_BROKER_HTTP_PROMETHEUS_H

#include <stdint.h>

#include "broker/http/job_stats.h"
#include "common/text/text.h"

// What the server counts of itself.
struct sl_prometheus_server {
    uint64_t requests, refused; // answered; refused by guard.h or by a limit
    uint32_t connections, open, streams;
};

// Jobs whose last line is older than SL_JOB_STATS_FRESH_S are left out.
void sl_prometheus_write(const struct sl_job_stats *store, uint64_t now_ns,
                         const struct sl_prometheus_server *server, struct sl_text *out);

#endif
