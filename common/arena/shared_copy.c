#include "common/arena/shared_copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/threads.h"

enum { PART_BYTES = 32 << 20 }; // whole huge pages: taken by a thread at a time

struct copying {
    const struct sl_shared_copy *copy;
    char *to;
    _Atomic uint64_t next; // part
};

static int copy_parts(void *ctx, int thread)
{
    struct copying *c = ctx;
    const struct sl_shared_copy *s = c->copy;
    const uint64_t parts = sl_div_up(s->bytes, (uint64_t)PART_BYTES);
    uint64_t part;
    (void)thread;
    while ((part = atomic_fetch_add(&c->next, 1)) < parts) {
        const uint64_t at = part * PART_BYTES, n = SL_MIN(s->bytes - at, (uint64_t)PART_BYTES);
        const char *from = (const char *)s->from + at;
        if (s->stops && atomic_load_explicit(s->stops, memory_order_relaxed))
            return sl_fail(SL_EABORTED, "stopped while copying");
        sl_advise(from, n, MADV_WILLNEED); // the disk serves it while pages are made
        sl_shared_array_ask_huge(c->to + at, n);
        memcpy(c->to + at, from, n);
        if (part == parts / 2)
            SL_FAILPOINT(SHARED_COPY);
    }
    return SL_OK;
}

static int make(void *ctx, void *data)
{
    const struct sl_shared_copy *s = ctx;
    struct copying c = {.copy = s, .to = data};
    if (s->may)
        SL_TRY(s->may(s->ctx, s->bytes));
    return sl_threads_run(s->threads, copy_parts, &c);
}

int sl_shared_copy_open(const struct sl_shared_copy *copy, struct sl_shared_array *out)
{
    const struct sl_shared_array_spec spec = {.fd = copy->fd,
                                              .bytes = copy->bytes,
                                              .make = make,
                                              .ctx = (void *)(uintptr_t)copy,
                                              .stops = copy->stops};
    SL_TRY(sl_shared_array_open(&spec, out));
    int rc = sl_shared_array_let_pin(out);
    if (rc < 0)
        sl_shared_array_close(out);
    return rc;
}

const char *sl_shared_copy_text(const struct sl_shared_array *a, uint64_t bytes, uint64_t ns,
                                char out[SL_SHARED_COPY_TEXT_BYTES])
{
    snprintf(out, SL_SHARED_COPY_TEXT_BYTES, "%" PRIu64 " MiB in pages of %s, %s in %.3f s",
             bytes >> 20, a->huge ? "2 MiB" : "4 KiB", a->made_here ? "made here" : "found made",
             (double)ns * 1e-9);
    return out;
}
