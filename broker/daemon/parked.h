/*
 * parked.h - requests that wait until the GPUs of the machine are known.
 *
 * PROBLEM. A job that asks for GPUs, by name or with "auto", can only be taken with their report,
 * which a child gives (gpus.h): in milliseconds as a rule, in many seconds where a driver wakes its
 * GPUs, never where it hangs. The daemon has one thread, whose sign of life a service manager
 * counts on, and other jobs.
 *
 * DESIGN. The report is a thing that the daemon has or is getting. Where it is needed and is not
 * fresh a child is asked, and the request (a submit, or a resume of a job that is over) is parked:
 * it is kept as it came, and nothing is recorded or told. At every tick the child is looked at.
 * Once there is an answer, or its time is over, which is one too, the parked requests are served in
 * the order in which they came, as if they had come then, all with that answer; who comes while
 * some are left is parked behind them. Everything else is served meanwhile, jobs without GPUs too.
 * A restart of the daemon needs no report: records have their jobs resolved.
 *
 * THE CLIENT is told once a second that it is being waited (Waiting in control.proto), so that its
 * time-out begins anew.
 *
 * WHAT MAY HAPPEN MEANWHILE
 *   the client goes away      a submit is dropped: nobody would learn its number. A resume is done:
 *                             to stop waiting for one is not to take it back
 *   another request waits     one child for all; two for one job, name or run directory are settled
 *                             by the order in which they came
 *   the job is stopped        a resume of it that is parked is refused, and the job stays as it is.
 *                             (A submit has no number yet: its client's Ctrl-C takes it back.)
 *   the job is forgotten, or has been put in the queue by somebody else      the resume says so
 *   the daemon is to stop     all are refused, and the child is killed; nothing waits for it
 *   the daemon is killed      the child dies with it, and nothing of a submit is left: its client
 *                             says that it has no answer
 *   too many                  more than SL_PARKED_MAX are refused, with SL_EAGAIN
 */
#ifndef SL_BROKER_DAEMON_PARKED_H
#define SL_BROKER_DAEMON_PARKED_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/gpus.h"
#include "common/ipc/bus.h"

struct sl_daemon;
struct sl_entry;

enum { SL_PARKED_MAX = 1000 };

struct sl_parked {
    struct sl_bus_peer peer;
    Sl__Control__Envelope *request; // as it came (owned)
    uint64_t job;                   // number of the job that it is about; 0: a submit
    uint64_t told_ns;               // when the client was last told
};

struct sl_parking {
    struct sl_gpus_asking gpus;
    bool asking; // the answer has not been taken note of
    uint32_t n;
    struct sl_parked list[SL_PARKED_MAX]; // (n) in the order in which they came
};

// The GPUs, for a request that needs them; NULL: a child is being asked, park it.
const struct sl_gpus *sl_parked_gpus(struct sl_daemon *d);

// Parks a request, which is copied; e is NULL for a submit. SL_EAGAIN: too many; SL_ERANGE: too
// large; SL_ENOMEM.
int sl_parked_add(struct sl_daemon *d, const struct sl_bus_peer *peer, const struct sl_entry *e,
                  const Sl__Control__Envelope *request);

// From time to time: looks after the child, tells clients, serves what can be served.
void sl_parked_poll(struct sl_daemon *d);

// Refuses what is parked for a job. False when there is nothing.
bool sl_parked_refuse(struct sl_daemon *d, const struct sl_entry *e, const char *why);

// The daemon stops: refuses all, and ends the child.
void sl_parked_end(struct sl_daemon *d, const char *why);

void sl_parking_fini(struct sl_parking *p); // safe on a zeroed struct

#endif
