#include "broker/daemon/pending_requests.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/error.h"

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
