#include "broker/daemon/pending_request.h"

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

bool sl_pending_request_refuse(struct sl_daemon *d, const struct sl_entry *e, const char *why)
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

void sl_pending_request_end(struct sl_daemon *d, const char *why)
{
    for (uint32_t i = 0; i < d->parking.n; i++)
        refuse(d, &d->parking.list[i], SL_EABORTED, why);
    d->parking.n = 0;
    d->parking.asking = false;
    sl_gpus_fini(&d->parking.gpus);
}

// --- the report ----------------------------------------------------------------------------------

const struct sl_gpus *sl_pending_request_gpus(struct sl_daemon *d)
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
static bool tell(struct sl_daemon *d, const struct sl_pending_request *parked, const char *text)
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
    if (tell(d, parked, text) || parked->job)
        return false;
    sl_log_info("a job is dropped: its client has gone before the GPUs were known");
    return true;
}

static void tell_all(struct sl_daemon *d)
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

static void serve(struct sl_daemon *d, struct sl_pending_request *parked)
{
    if (!is_dropped(d, parked, ""))
        sl_daemon_serve_parked(d, parked, &d->parking.gpus.known);
    sl_bus_message_free(parked->request);
}

void sl_pending_request_poll(struct sl_daemon *d)
{
    struct sl_pending_requests *p = &d->parking;
    bool waits = sl_gpus_poll(&p->gpus);
    if (p->asking && !waits)
        take_note(d);
    if (waits) {
        tell_all(d);
        return;
    }
    for (int i = 0; i < SERVE_A_TURN && p->n > 0; i++) {
        struct sl_pending_request first = sl_pending_requests_take(p, 0);
        serve(d, &first);
    }
}
