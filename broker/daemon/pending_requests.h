// pending_requests.h - the list of requests that wait until the GPUs are known (pending.c).
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

#endif
