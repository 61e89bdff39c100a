// joblog.h - the broker's own log lines: into log/broker.log, and to the clients if they matter.
#ifndef SL_BROKER_LOG_JOBLOG_H
#define SL_BROKER_LOG_JOBLOG_H

#include "broker/log/client.h"
#include "broker/log/stream.h"

struct sl_joblog {
    struct sl_stream stream;
    struct sl_clients *clients; // borrowed
};

void sl_joblog_init(struct sl_joblog *log, struct sl_clients *clients);
void sl_joblog_fini(struct sl_joblog *log); // safe on a zeroed struct

// One line; errors and warnings go to the clients too.
void sl_joblog_write(struct sl_joblog *log, enum sl_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// A line of level INFO that the clients shall see too: a decision and why.
void sl_joblog_announce(struct sl_joblog *log, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
