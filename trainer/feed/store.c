#include "trainer/feed/store.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/data/features_kind.h"
#include "trainer/feed/rows.h"

enum { PIN_DIVISOR = 2 }; // of the machine's available memory that may be pinned

void sl_store_init(struct sl_store *s, const struct sl_device *device,
                   const struct sl_dataset *dataset)
{
    *s = (struct sl_store){.device = device, .dataset = dataset};
}

static uint64_t bytes_of(const struct sl_store *s)
{
    return s->dataset->typed.n_types ? sl_features_bytes(s->dataset)
                                     : s->dataset->n_nodes * sl_rows_bytes(s->dataset);
}

// As map() and unmap() take it.
static void *host(const struct sl_store *s)
{
    return (void *)(uintptr_t)s->dataset->feat;
}

void sl_store_set_way(struct sl_store *s, enum sl_store_way way)
{
    s->way = way;
    if (s->told)
        atomic_store_explicit(s->told, way, memory_order_relaxed);
}

static void *host_of_type(const struct sl_store *s, uint32_t type)
{
    return (void *)(uintptr_t)s->dataset->typed.type[type].feat;
}

void sl_store_unpin(struct sl_store *s)
{
    if (s->there && !s->types)
        s->device->unmap(host(s));
    for (uint32_t t = 0; s->types && t < s->dataset->typed.n_types; t++)
        if (s->types[t])
            s->device->unmap(host_of_type(s, t));
    free(s->types);
    s->types = NULL;
    s->there = NULL;
}

// The features of each type that has some; all or none.
static int map_types(struct sl_store *s)
{
    const struct sl_typed *typed = &s->dataset->typed;
    s->types = calloc(typed->n_types, sizeof *s->types);
    if (!s->types)
        return sl_fail(SL_ENOMEM, "no memory for %u types", typed->n_types);
    for (uint32_t t = 0; t < typed->n_types; t++) {
        const uint64_t bytes = sl_type_feature_bytes(&typed->type[t]);
        if (bytes == 0)
            continue;
        int rc = s->device->map(host_of_type(s, t), bytes, true, &s->types[t]);
        if (rc < 0) {
            s->types[t] = NULL;
            return rc;
        }
        s->there = s->types[t];
    }
    return s->there ? SL_OK : sl_fail(SL_EUNSUPPORTED, "no type has features");
}

static int map_all(struct sl_store *s)
{
    const void *feat = s->dataset->feat;
    const uint64_t bytes = bytes_of(s);
    sl_advise(feat, bytes, MADV_SEQUENTIAL); // what is not in memory yet is read
    int rc = s->device->map(host(s), bytes, true, &s->there);
    sl_advise(feat, bytes, MADV_NORMAL);
    if (rc < 0)
        s->there = NULL;
    return rc;
}

// A file's pages are pinned where they may stay in memory; a copy does so anyway.
static bool may_stay(const struct sl_store *s)
{
    const uint64_t bytes = bytes_of(s), available = sl_device_memory_available();
    if (s->copy.data || bytes <= available / PIN_DIVISOR)
        return true;
    sl_log_info("features: the files' %" PRIu64 " MiB are more than half of the %" PRIu64
                " MiB of available memory, too much to be pinned",
                bytes >> 20, available >> 20);
    return false;
}

bool sl_store_pin(struct sl_store *s)
{
    const uint64_t bytes = bytes_of(s), start = sl_now_ns();
    if (s->there)
        return true;
    if (!may_stay(s))
        return false;
    int rc = s->dataset->typed.n_types ? map_types(s) : map_all(s);
    if (rc < 0) {
        sl_store_unpin(s);
        sl_log_info("features: the %s cannot be read in place: %s", s->copy.data ? "copy" : "files",
                    sl_error_message());
        return false;
    }
    sl_store_set_way(s, !s->copy.data  ? SL_STORE_WAY_FILE
                        : s->copy.huge ? SL_STORE_WAY_COPY_HUGE
                                       : SL_STORE_WAY_COPY);
    sl_log_debug("features: %" PRIu64 " MiB pinned for the device in %.3f s", bytes >> 20,
                 (double)(sl_now_ns() - start) / 1e9);
    return true;
}

static int open_copy(struct sl_store *s, struct sl_dataset *dataset,
                     const struct sl_store_plan *plan)
{
    const struct sl_shared_copy copy = {
        .fd = plan->fd,
        .from = dataset->feat,
        .bytes = bytes_of(s),
        .threads = plan->threads,
        .stops = plan->stops,
    };
    char text[SL_SHARED_COPY_TEXT_BYTES];
    const uint64_t start = sl_now_ns();
    SL_TRY(sl_shared_copy_open(&copy, &s->copy));
    s->file = dataset->feat;
    dataset->feat = s->copy.data;
    sl_log_info("features: one copy for the GPUs of all trainers: %s",
                sl_shared_copy_text(&s->copy, copy.bytes, sl_now_ns() - start, text));
    return SL_OK;
}

int sl_store_place(struct sl_store *s, struct sl_dataset *dataset, const struct sl_store_plan *plan)
{
    sl_store_set_way(s, plan->way);
    if (plan->way == SL_STORE_WAY_DRIVE || plan->way == SL_STORE_WAY_CACHED || sl_store_pin(s))
        return SL_OK;
    if (plan->way != SL_STORE_WAY_COPY) {
        sl_log_info("features: rows go to the device through copies: %s",
                    sl_store_ways[plan->way].why);
        return SL_OK;
    }
    if (!plan->pins) {
        sl_store_set_way(s, SL_STORE_WAY_UNPINNABLE);
        return SL_OK;
    }
    int rc = open_copy(s, dataset, plan);
    if (rc == SL_EABORTED)
        return rc;
    if (rc < 0) {
        sl_store_set_way(s, SL_STORE_WAY_FAILED);
        sl_log_warn("features: rows go to the device through copies: %s", sl_error_message());
    } else if (!sl_store_pin(s)) {
        sl_store_set_way(s, SL_STORE_WAY_UNPINNABLE);
    }
    return SL_OK;
}

void sl_store_fini(struct sl_store *s)
{
    sl_store_unpin(s);
    sl_shared_array_close(&s->copy);
    *s = (struct sl_store){0};
}
