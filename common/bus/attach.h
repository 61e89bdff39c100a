/*
 * attach.h - takes a seat of a job that runs, in a process that the job's broker did not start.
 *
 * How, and what is safe about it: attach_protocol.h. From here on the process is a worker like any
 * other (worker.h), and nothing else of it is changed, but that SLUICE_FAILPOINT counts in it.
 */
#ifndef SL_BUS_ATTACH_H
#define SL_BUS_ATTACH_H

#include <stdint.h>

#include "common/bus/attach_protocol.h"
#include "common/bus/worker.h"

struct sl_attach_spec {
    const char *path;    // sl_attach_path()
    int32_t rank;        // or SL_ATTACH_ANY_RANK: any free seat
    uint32_t timeout_ms; // for an answer, and then for the job to start; 0: a minute, without bound
};

/*
 * Fills *w: id, slot, device, role_index (its rank), the job (told), descriptors; connects to the
 * bus. Then sl_worker_attach(), sl_worker_ready(), work with the ledger; when all leases are given
 * back sl_worker_fini(), which needs to be called after an error too.
 *
 * SL_ENOENT: nobody listens there (yet). SL_EACCESS: of another user. SL_EAGAIN: no free seat, the
 * message says who has them. SL_EPROTO: another version. SL_ETIMEDOUT. SL_EABORTED: the job ends.
 */
int sl_attach(const struct sl_attach_spec *spec, struct sl_worker *w);

#endif
