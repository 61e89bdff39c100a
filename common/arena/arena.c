#include "common/arena/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/arena/asks.h"
#include "common/arena/param_store.h"
#include "common/arena/group.h"
#include "common/arena/node_figures.h"
#include "common/arena/node_parts.h"
#include "common/arena/visit_counts.h"
#include "common/arena/peer_memory.h"
#include "common/arena/phase.h"
#include "common/arena/seat.h"
#include "common/arena/stats.h"
#include "common/arena/type_counts.h"

enum { COUNT_BITS = 38, WIDTH_BITS = 20 }; // check_spec()

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared words need lock-free 64-bit atomics");

uint64_t sl_arena_layout(const struct sl_arena_spec *spec, struct sl_arena_header *out)
{
    // Devices use whole pages in place, and what shares one with others cannot be copied.
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct sl_arena_header h = {
        .magic = SL_ARENA_MAGIC,
        .version = SL_ARENA_VERSION,
        .header_bytes = sizeof h,
        .spec = *spec,
    };
    h.n_chunks = sl_div_up(spec->payload_bytes, SL_ARENA_CHUNK_BYTES);
    h.spec.payload_bytes = h.n_chunks * SL_ARENA_CHUNK_BYTES;
    h.param_stride = sl_align_up(spec->n_params, 16);
    h.act_stride =
        sl_align_up(spec->act_rows * spec->act_width * sizeof(float), page) / sizeof(float);

    uint64_t cells = (uint64_t)SL_ARENA_PHASES * spec->n_cells;
    uint64_t seats = 2 * (uint64_t)spec->n_devices;
    // Two banks of {parameters, state...}, the best and the pinned parameters, the gradient slots.
    uint64_t slots = spec->async ? spec->n_devices : spec->batches_per_update;
    uint64_t arrays = 2 * (1 + (uint64_t)spec->n_state) + 2 + slots;
    const uint64_t bytes[SL_REGION_COUNT] = {
        [SL_REGION_HEADER] = sizeof(struct sl_arena_header),
        [SL_REGION_PHASES] = sizeof(struct sl_ledger) + SL_ARENA_PHASES * sizeof(struct sl_phase),
        [SL_REGION_CELLS] = cells * sizeof(uint64_t),
        [SL_REGION_ENTRIES] = cells * sizeof(struct sl_batch_entry),
        [SL_REGION_UPDATES] = cells * sizeof(struct sl_update_entry),
        [SL_REGION_ORDER] = sl_arena_order_bytes(spec->n_train),
        [SL_REGION_CHUNKS] = h.n_chunks * sizeof(uint64_t),
        [SL_REGION_WORKERS] = seats * sizeof(struct sl_worker_slot),
        [SL_REGION_SEATS] = sizeof(struct sl_schedule) + seats * sizeof(struct sl_seat),
        [SL_REGION_GROUP] = sl_group_bytes(spec),
        [SL_REGION_LENT] = sl_peer_memory_bytes(spec),
        [SL_REGION_BOARD] =
            sizeof(struct sl_param_store) + spec->n_devices * sizeof(struct sl_param_store_seat),
        [SL_REGION_PARAMS] = arrays * h.param_stride * sizeof(float),
        [SL_REGION_ACTS] =
            (spec->act_banks * h.act_stride + spec->act_rows * spec->jumping_width) * sizeof(float),
        [SL_REGION_PREDICT] = spec->predict_rows * spec->predict_words * sizeof(uint32_t),
        [SL_REGION_VISITS] = spec->visit_rows * sizeof(uint32_t),
        [SL_REGION_HOT] = sl_visit_counts_bytes(spec),
        [SL_REGION_PROBE] = spec->probe_bytes,
        [SL_REGION_ROWS] = sl_row_cache_bytes(&spec->rows),
        [SL_REGION_ASKS] = sl_asks_bytes(&spec->asks),
        [SL_REGION_NODES] = sl_node_figures_bytes(spec),
        [SL_REGION_TYPES] = sl_type_counts_bytes(spec),
        [SL_REGION_PAYLOAD] = h.spec.payload_bytes,
    };
    uint64_t at = 0;
    for (int i = 0; i < SL_REGION_COUNT; i++) {
        h.region[i] = (struct sl_region){.offset = at, .bytes = bytes[i]};
        at += sl_align_up(bytes[i], page);
    }
    h.total_bytes = at;
    if (out)
        *out = h;
    return at;
}

int sl_arena_memfd(void)
{
    int fd = memfd_create("sluice-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "arena: memfd_create");
    return fd;
}

static int map(int fd, uint64_t bytes, struct sl_arena *out)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return sl_fail_errno(SL_ENOMEM, errno, "arena: mapping %llu bytes",
                             (unsigned long long)bytes);
    *out = (struct sl_arena){.fd = fd, .doorbell = -1, .bytes = bytes, .base = p, .h = p};
    return SL_OK;
}

static int check_rows(const struct sl_row_cache_shape *s)
{
    uint64_t bytes = 0, slots = 0;
    for (uint32_t w = 0; w < SL_MIN(s->n_widths, (uint32_t)SL_ROW_WIDTHS_MAX); w++) {
        bytes = SL_MAX(bytes, s->width[w].row_bytes);
        slots += SL_MIN(s->width[w].n_slots, s->n_slots);
    }
    if (s->n_slots >= UINT32_MAX || slots != s->n_slots || bytes >> WIDTH_BITS ||
        s->window > SL_ROW_CACHE_WINDOW_MAX || s->n_widths > SL_ROW_WIDTHS_MAX)
        return sl_fail(SL_EINVAL,
                       "arena: %llu rows (%llu by width) of up to %llu bytes and %u widths from "
                       "the drive for %u batches ahead, wanted less than 2^32, 2^%d, and at most "
                       "%d and %d",
                       (unsigned long long)s->n_slots, (unsigned long long)slots,
                       (unsigned long long)bytes, s->n_widths, s->window, WIDTH_BITS,
                       SL_ROW_WIDTHS_MAX, SL_ROW_CACHE_WINDOW_MAX);
    return SL_OK;
}

/*
 * What no arena is made of. The limits are far beyond any that is meant: below them no product and
 * no sum of sl_arena_layout() overflows.
 */
static int check_spec(const struct sl_arena_spec *s)
{
    const uint64_t counts[] = {s->n_train,    s->n_params, s->act_rows,   s->predict_rows,
                               s->visit_rows, s->hot_rows, s->rows.n_rows};
    const uint32_t widths[] = {s->n_state,       s->batches_per_update, s->act_width,
                               s->jumping_width, s->predict_words,      s->n_types,
                               s->n_relations};
    uint64_t count = 0, bytes = SL_MAX(s->probe_bytes, s->payload_bytes);
    uint32_t width = s->n_devices;
    for (size_t i = 0; i < SL_COUNT_OF(counts); i++)
        count = SL_MAX(count, counts[i]);
    for (size_t i = 0; i < SL_COUNT_OF(widths); i++)
        width = SL_MAX(width, widths[i]);
    if (count >> COUNT_BITS || width >> WIDTH_BITS || bytes >> (COUNT_BITS + WIDTH_BITS))
        return sl_fail(SL_EINVAL,
                       "arena: counts up to %llu, widths up to %u and regions of %llu bytes, "
                       "wanted less than 2^%d, 2^%d and 2^%d",
                       (unsigned long long)count, width, (unsigned long long)bytes, COUNT_BITS,
                       WIDTH_BITS, COUNT_BITS + WIDTH_BITS);
    SL_TRY(check_rows(&s->rows));
    const struct sl_asks_shape *k = &s->asks;
    if (k->n_slots && (k->n_slots >> WIDTH_BITS || k->n_nodes > UINT16_MAX ||
                       k->max_rows - 1 >= SL_ASKS_ROWS_MAX || (k->row_bytes - 1) >> WIDTH_BITS))
        return sl_fail(
            SL_EINVAL,
            "arena: %u asks for %u rows of %u bytes from %u nodes, wanted less than 2^%d "
            "for 1 to %d rows of 1 to 2^%d bytes from at most %d nodes",
            k->n_slots, k->max_rows, k->row_bytes, k->n_nodes, WIDTH_BITS, SL_ASKS_ROWS_MAX,
            WIDTH_BITS, UINT16_MAX);
    if (s->act_banks > 2)
        return sl_fail(SL_EINVAL, "arena: %u banks of activations, wanted 2 at most", s->act_banks);
    if (s->n_devices == 0 || s->batches_per_update == 0)
        return sl_fail(SL_EINVAL, "arena: %u devices and %u batches an update, wanted 1 at least",
                       s->n_devices, s->batches_per_update);
    if (s->async && s->batches_per_update != 1)
        return sl_fail(SL_EINVAL, "arena: %u batches an update in async mode, wanted 1",
                       s->batches_per_update);
    if (s->exchange && (s->async || s->n_devices > SL_GROUP_MAX))
        return sl_fail(SL_EINVAL,
                       "arena: an exchange among trainers of %u devices with %s updates, wanted "
                       "at most %d and ordered ones",
                       s->n_devices, s->async ? "async" : "ordered", SL_GROUP_MAX);
    return sl_nodes_check(s);
}

int sl_arena_create(int fd, const struct sl_arena_spec *spec, struct sl_arena *out)
{
    struct sl_arena_header h;
    SL_TRY(check_spec(spec));
    uint64_t bytes = sl_arena_layout(spec, &h);
    if (ftruncate(fd, (off_t)bytes) < 0)
        return sl_fail_errno(SL_ENOMEM, errno, "arena: sizing it to %llu bytes",
                             (unsigned long long)bytes);
    // A sealed size means that no process can make another one fault by truncating.
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return sl_fail_errno(SL_ESYS, errno, "arena: sealing its size");
    SL_TRY(map(fd, bytes, out));
    memcpy(out->h, &h, sizeof h);
    for (int lane = 0; lane < SL_LANES; lane++)
        atomic_store(&sl_ledger_of(out)->current[lane], 1);
    atomic_store(&out->h->memory_left, UINT64_MAX);
    return SL_OK;
}

// The rest of the header follows from the spec alone.
static int check_layout(const struct sl_arena_header *h)
{
    struct sl_arena_header wanted;
    SL_TRY(check_spec(&h->spec));
    sl_arena_layout(&h->spec, &wanted);
    for (int i = 0; i < SL_REGION_COUNT; i++)
        if (memcmp(&h->region[i], &wanted.region[i], sizeof wanted.region[i]) != 0)
            return sl_fail(SL_EFORMAT,
                           "arena: damaged: region %d is %llu bytes at %llu, by its header's own "
                           "counts it is %llu at %llu",
                           i, (unsigned long long)h->region[i].bytes,
                           (unsigned long long)h->region[i].offset,
                           (unsigned long long)wanted.region[i].bytes,
                           (unsigned long long)wanted.region[i].offset);
    if (h->total_bytes != wanted.total_bytes || h->n_chunks != wanted.n_chunks ||
        h->spec.payload_bytes != wanted.spec.payload_bytes ||
        h->param_stride != wanted.param_stride || h->act_stride != wanted.act_stride)
        return sl_fail(SL_EFORMAT, "arena: damaged: its header's sizes contradict one another");
    return SL_OK;
}

int sl_arena_attach(int fd, struct sl_arena *out)
{
    struct stat st;
    memset(out, 0, sizeof *out);
    if (fstat(fd, &st) < 0)
        return sl_fail_errno(SL_ESYS, errno, "arena: descriptor %d", fd);
    if ((uint64_t)st.st_size < sizeof(struct sl_arena_header))
        return sl_fail(SL_EFORMAT, "arena: descriptor %d holds %lld bytes, wanted at least %zu", fd,
                       (long long)st.st_size, sizeof(struct sl_arena_header));
    SL_TRY(map(fd, (uint64_t)st.st_size, out));
    const struct sl_arena_header *h = out->h;
    int rc = SL_OK;
    if (h->magic != SL_ARENA_MAGIC)
        rc = sl_fail(SL_EFORMAT, "arena: magic 0x%llx, wanted 0x%llx", (unsigned long long)h->magic,
                     SL_ARENA_MAGIC);
    else if (h->version != SL_ARENA_VERSION || h->header_bytes != sizeof *h)
        rc = sl_fail(SL_EFORMAT,
                     "arena: version %u with a header of %u bytes, wanted %d with %zu: the broker "
                     "and the workers are of different builds",
                     h->version, h->header_bytes, SL_ARENA_VERSION, sizeof *h);
    else if (h->total_bytes != (uint64_t)st.st_size)
        rc = sl_fail(SL_EFORMAT, "arena: header says %llu bytes, the segment has %lld",
                     (unsigned long long)h->total_bytes, (long long)st.st_size);
    else
        rc = check_layout(h);
    if (rc < 0)
        sl_arena_detach(out);
    return rc;
}

int sl_arena_map_acts(struct sl_arena *a, int fd)
{
    const struct sl_region *acts = &a->h->region[SL_REGION_ACTS];
    struct stat st;
    if (fstat(fd, &st) < 0)
        return sl_fail_errno(SL_ESYS, errno, "activations: descriptor %d", fd);
    if (st.st_size == 0)
        return SL_OK;
    if ((uint64_t)st.st_size != acts->bytes)
        return sl_fail(SL_EFORMAT, "activations: a file of %lld bytes, the arena wants %llu",
                       (long long)st.st_size, (unsigned long long)acts->bytes);
    // Nobody has touched these pages of the arena, so they never were memory.
    void *at = a->base + acts->offset;
    if (mmap(at, acts->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != at)
        return sl_fail_errno(SL_ENOMEM, errno, "activations: mapping a file of %llu bytes",
                             (unsigned long long)acts->bytes);
    // Rows are read here and there: what stands beside them would push other rows out.
    sl_advise(at, acts->bytes, MADV_RANDOM);
    a->acts_filed = true;
    return SL_OK;
}

void sl_arena_detach(struct sl_arena *a)
{
    if (a->base)
        munmap(a->base, a->bytes);
    a->base = NULL;
    a->h = NULL;
}

struct sl_row_cache sl_arena_rows(const struct sl_arena *a)
{
    struct sl_row_cache c;
    sl_row_cache_view(sl_arena_region(a, SL_REGION_ROWS), &a->h->spec.rows, &c);
    return c;
}

uint64_t sl_arena_order_bytes(uint64_t n_train)
{
    return 2 * n_train * sizeof(uint32_t);
}

uint32_t *sl_arena_order(const struct sl_arena *a, uint32_t bank)
{
    return (uint32_t *)sl_arena_region(a, SL_REGION_ORDER) + (bank & 1) * a->h->spec.n_train;
}

float *sl_arena_acts(const struct sl_arena *a, uint32_t layer)
{
    return (float *)sl_arena_region(a, SL_REGION_ACTS) +
           layer % a->h->spec.act_banks * a->h->act_stride;
}

float *sl_arena_jumping(const struct sl_arena *a)
{
    return (float *)sl_arena_region(a, SL_REGION_ACTS) + a->h->spec.act_banks * a->h->act_stride;
}

void *sl_arena_predictions(const struct sl_arena *a)
{
    return sl_arena_region(a, SL_REGION_PREDICT);
}
