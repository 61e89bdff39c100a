/*
 * pending_requests.h - requests that wait until the GPUs of the machine are known: asking, telling,
 * serving.
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
 * the order in which they came, as if they had come then, all with that answer; a request that
 * comes while some are left waits behind them. Everything else is served meanwhile, jobs without
 * GPUs too. A restart of the daemon needs no report: records have their jobs resolved.
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
 *   too many                  more than SL_PENDING_REQUEST_MAX are refused, with SL_EAGAIN
 */
#ifndef SL_BROKER_DAEMON_PENDING_REQUESTS_H
#define SL_BROKER_DAEMON_PENDING_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/sharding/gpus.h"
#include "common/bus/bus.h"

enum {
    SL_PENDING_REQUEST_MAX = 1000,
    SL_PENDING_REQUEST_BYTES_MAX = 32 << 20, // of all of them
};

struct sl_daemon;
struct sl_entry;

struct sl_pending_request {
    struct sl_bus_peer peer;
    Sl__Control__Envelope *request; // as it came (owned)
    uint64_t job;                   // number of the job that it is about; 0: a submit
    uint64_t told_ns;               // when the client was last told
    size_t bytes;                   // of the request, as it was sent
};

struct sl_pending_requests {
    struct sl_gpus_asking gpus;
    bool asking; // the answer has not been taken note of
    uint32_t n;
    struct sl_pending_request list[SL_PENDING_REQUEST_MAX]; // (n) in the order in which they came
};

// Parks a request, which is copied; job as above. SL_EAGAIN: too many, or too large together;
// SL_ERANGE: too large; SL_ENOMEM.
int sl_pending_requests_add(struct sl_pending_requests *p, const struct sl_bus_peer *peer,
                            uint64_t job, const Sl__Control__Envelope *request);

// Takes one out; its request is the caller's.
struct sl_pending_request sl_pending_requests_take(struct sl_pending_requests *p, uint32_t i);

void sl_pending_requests_fini(struct sl_pending_requests *p); // safe on a zeroed struct

// The GPUs, for a request that needs them; NULL: a child is being asked, park it.
const struct sl_gpus *sl_pending_requests_gpus(struct sl_daemon *d);

// Serves a request, as if it had come now, with the GPUs.
typedef void sl_pending_request_serve(struct sl_daemon *d, const struct sl_pending_request *parked,
                                      const struct sl_gpus *gpus);

// From time to time: looks after the child, tells clients, serves what can be served.
void sl_pending_requests_poll(struct sl_daemon *d, sl_pending_request_serve *serve);

// Refuses what is parked for a job. False when there is nothing.
bool sl_pending_requests_refuse(struct sl_daemon *d, const struct sl_entry *e, const char *why);

// The daemon stops: refuses all, and ends the child.
void sl_pending_requests_end(struct sl_daemon *d, const char *why);

#endif
