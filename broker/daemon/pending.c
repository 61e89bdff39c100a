/*
 * pending.c - requests that wait until the GPUs of the machine are known: asking, telling,
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

#include "broker/daemon/daemon_internal.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"

enum {
    TELL_MS = 1000,   // between two words to a client
    SERVE_A_TURN = 16 // each writes a record
};

#define SLOW_SECONDS 1.0

static const char waiting_text[] =
    "the daemon first asks which GPUs there are, which takes a while when their driver wakes up";

// --- refusals ------------------------------------------------------------------------------------

static void refuse(struct sl_daemon *d, struct sl_pending_request *parked, int code,
                   const char *why)
{
    sl_daemon_refuse(d, &parked->peer, parked->request->body_case, parked->request->job, code, why);
    sl_bus_message_free(parked->request);
}

bool sl_pending_requests_refuse(struct sl_daemon *d, const struct sl_entry *e, const char *why)
{
    uint32_t before = d->parking.n;
    for (uint32_t i = before; i-- > 0;) {
        if (d->parking.list[i].job != e->number)
            continue;
        struct sl_pending_request gone = sl_pending_requests_take(&d->parking, i);
        refuse(d, &gone, SL_EABORTED, why);
    }
    return d->parking.n < before;
}

void sl_pending_requests_end(struct sl_daemon *d, const char *why)
{
    for (uint32_t i = 0; i < d->parking.n; i++)
        refuse(d, &d->parking.list[i], SL_EABORTED, why);
    d->parking.n = 0;
    d->parking.asking = false;
    sl_gpus_fini(&d->parking.gpus);
}

// --- the report ----------------------------------------------------------------------------------

const struct sl_gpus *sl_pending_requests_gpus(struct sl_daemon *d)
{
    struct sl_pending_requests *p = &d->parking;
    const struct sl_gpus *gpus = sl_gpus_fresh(&p->gpus);
    if (p->n > 0)
        return NULL; // its turn comes after theirs
    if (gpus || p->asking)
        return gpus;
    sl_gpus_ask(&p->gpus);
    p->asking = d->status_old = true;
    return NULL;
}

static void take_note(struct sl_daemon *d)
{
    const struct sl_gpus_asking *a = &d->parking.gpus;
    double seconds = (double)(a->known_ns - a->asked_ns) * 1e-9;
    d->parking.asking = false;
    d->status_old = true;
    if (a->known.report.n)
        sl_log_info("GPUs: found %u in %.1f s", a->known.report.n, seconds);
    else
        sl_log_write(seconds > SLOW_SECONDS ? SL_LOG_WARN : SL_LOG_DEBUG,
                     "GPUs: found none in %.1f s: %s", seconds, a->known.report.problem);
}

// --- the wait ------------------------------------------------------------------------------------

// False: it has gone.
static bool emit(struct sl_daemon *d, const struct sl_pending_request *parked, const char *text)
{
    Sl__Control__Waiting waiting = SL__CONTROL__WAITING__INIT;
    Sl__Control__Envelope body = SL_ENVELOPE(WAITING, waiting, &waiting);
    waiting.text = (char *)text; // only read
    body.job = parked->request->job;
    return sl_bus_send(d->bus, &parked->peer, &body) == SL_OK;
}

static bool is_dropped(struct sl_daemon *d, const struct sl_pending_request *parked,
                       const char *text)
{
    if (emit(d, parked, text) || parked->job)
        return false;
    sl_log_info("a job is dropped: its client has gone before the GPUs were known");
    return true;
}

static void emit_waiting(struct sl_daemon *d)
{
    uint64_t now = sl_now_ns();
    for (uint32_t i = d->parking.n; i-- > 0;) {
        struct sl_pending_request *parked = &d->parking.list[i];
        if (now - parked->told_ns < TELL_MS * 1000000ull)
            continue;
        parked->told_ns = now;
        if (is_dropped(d, parked, waiting_text))
            sl_bus_message_free(sl_pending_requests_take(&d->parking, i).request);
    }
}

static void serve_one(struct sl_daemon *d, struct sl_pending_request *parked,
                      sl_pending_request_serve *serve)
{
    if (!is_dropped(d, parked, ""))
        serve(d, parked, &d->parking.gpus.known);
    sl_bus_message_free(parked->request);
}

void sl_pending_requests_poll(struct sl_daemon *d, sl_pending_request_serve *serve)
{
    struct sl_pending_requests *p = &d->parking;
    bool waits = sl_gpus_poll(&p->gpus);
    if (p->asking && !waits)
        take_note(d);
    if (waits) {
        emit_waiting(d);
        return;
    }
    for (int i = 0; i < SERVE_A_TURN && p->n > 0; i++) {
        struct sl_pending_request first = sl_pending_requests_take(p, 0);
        serve_one(d, &first, serve);
    }
}
