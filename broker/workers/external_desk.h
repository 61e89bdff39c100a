/*
 * external_desk.h - where external trainers come: listens, looks who it is, gives them seats.
 *
 * A seat is given at once or refused at once, with the reason in words (who has the others). Nobody
 * waits in line: who wants to tries again.
 */
#ifndef SL_BROKER_WORKERS_EXTERNAL_DESK_H
#define SL_BROKER_WORKERS_EXTERNAL_DESK_H

#include <stdbool.h>
#include <uv.h>

#include "broker/workers/worker_pool.h"

struct sl_joblog;
struct sl_visitor; // private

struct sl_external_desk {
    // borrowed
    struct sl_worker_pool *workers;
    struct sl_joblog *log;

    char path[SL_ATTACH_PATH_BYTES]; // of the socket
    int fd;                          // that it listens on
    bool open;
    uv_poll_t listener;
    struct sl_visitor *visitors; // who have connected and asked for nothing yet
};

// Of the job whose bus is there. SL_ESYS.
int sl_external_desk_open(struct sl_external_desk *d, const char *endpoint);
// Nobody is let in any more. The loop must run once more.
void sl_external_desk_close(struct sl_external_desk *d); // safe where it is not open

#endif
