#include "common/bus/attach.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/error.h"

int sl_attach(const struct sl_attach_spec *spec, struct sl_worker *w)
{
    const uint32_t timeout_ms = spec->timeout_ms ? spec->timeout_ms : SL_ATTACH_ANSWER_MS;
    struct sl_attach_seat seat = {0};
    memset(w, 0, sizeof *w);
    memset(&w->fd, 0xff, sizeof w->fd); // -1
    w->external = true;
    w->start_ns = sl_now_ns();
    w->until_ns = spec->timeout_ms ? w->start_ns + timeout_ms * UINT64_C(1000000) : 0;
    w->arena.fd = w->arena.doorbell = -1;
    w->broker_fd = sl_attach_connect(spec->path, timeout_ms);
    SL_TRY(w->broker_fd);
    const int rc = sl_attach_ask(w->broker_fd, spec->rank, timeout_ms, &seat);
    w->fd = seat.fd;
    SL_TRY(rc);
    w->id = seat.worker;
    w->slot = seat.slot;
    w->role_index = seat.role_index;
    w->device = seat.device;
    snprintf(w->name, sizeof w->name, "external trainer %u", w->role_index);
    return sl_worker_open(w, "trainer", seat.endpoint);
}
