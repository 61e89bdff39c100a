// pending.c - requests that wait for the GPUs (pending_requests.h): the list, refusals, the wait.
#include <stdlib.h>
#include <string.h>

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

// --- the list ------------------------------------------------------------------------------------

static int copy_request(const Sl__Control__Envelope *request, size_t bytes,
                        Sl__Control__Envelope **out)
{
    if (bytes > SL_BUS_REQUEST_MAX)
        return sl_fail(SL_ERANGE, "the request has %zu bytes, wanted at most %u", bytes,
                       SL_BUS_REQUEST_MAX);
    uint8_t *packed = malloc(bytes);
    *out = NULL;
    if (packed) {
        sl__control__envelope__pack(request, packed);
        *out = sl__control__envelope__unpack(NULL, bytes, packed);
    }
    free(packed);
    return *out ? SL_OK : sl_fail(SL_ENOMEM, "no memory for a request of %zu bytes", bytes);
}

int sl_pending_requests_add(struct sl_pending_requests *p, const struct sl_bus_peer *peer,
                            uint64_t job, const Sl__Control__Envelope *request)
{
    size_t bytes = sl__control__envelope__get_packed_size(request), all = bytes;
    for (uint32_t i = 0; i < p->n; i++)
        all += p->list[i].bytes;
    if (p->n == SL_PENDING_REQUEST_MAX || all > SL_PENDING_REQUEST_BYTES_MAX)
        return sl_fail(SL_EAGAIN,
                       "%u jobs wait already until the daemon knows its GPUs: try again soon",
                       p->n);
    Sl__Control__Envelope *copy;
    SL_TRY(copy_request(request, bytes, &copy));
    p->list[p->n++] = (struct sl_pending_request){
        .peer = *peer,
        .request = copy,
        .job = job,
        .told_ns = sl_now_ns(),
        .bytes = bytes,
    };
    return SL_OK;
}

struct sl_pending_request sl_pending_requests_take(struct sl_pending_requests *p, uint32_t i)
{
    struct sl_pending_request taken = p->list[i];
    memmove(p->list + i, p->list + i + 1, (p->n - i - 1) * sizeof *p->list);
    p->n--;
    return taken;
}

void sl_pending_requests_fini(struct sl_pending_requests *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        sl_bus_message_free(p->list[i].request);
    p->n = 0;
    sl_gpus_fini(&p->gpus);
}

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
