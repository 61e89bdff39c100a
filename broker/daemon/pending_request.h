/*
 * pending_request.h - requests that wait until the GPUs of the machine are known: asks for the
 * GPUs, tells clients that they wait, serves the requests.
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
#ifndef SL_BROKER_DAEMON_PENDING_REQUEST_H
#define SL_BROKER_DAEMON_PENDING_REQUEST_H

#include <stdbool.h>

#include "broker/daemon/daemon_internal.h"

// The GPUs, for a request that needs them; NULL: a child is being asked, park it
// (pending_requests.h).
const struct sl_gpus *sl_pending_request_gpus(struct sl_daemon *d);

// From time to time: looks after the child, tells clients, serves what can be served.
void sl_pending_request_poll(struct sl_daemon *d);

// Refuses what is parked for a job. False when there is nothing.
bool sl_pending_request_refuse(struct sl_daemon *d, const struct sl_entry *e, const char *why);

// The daemon stops: refuses all, and ends the child.
void sl_pending_request_end(struct sl_daemon *d, const char *why);

#endif
