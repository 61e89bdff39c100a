#include "sampler/residence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/mempool.h"

enum {
    PART_BYTES = 16 << 20, // asked of the disk while the part before goes to the device
    COPY_DIVISOR = 2,      // of the machine's available memory that a copy may take
};

// Where the next array may go.
struct room {
    uint64_t left; // bytes of the device
};

// An array of the graph as the processor has it.
struct source {
    const void *p;
    uint64_t bytes;
    uint64_t near; // of the first bytes those that the device has already
    const char *what;
    // Where it lies: in the mapping of a file, in memory that samplers share, or in this process's.
    enum { IN_FILE, SHARED, OWN } from;
    int fd; // of a copy, but of what is SHARED
};

static int upload(const struct sl_device *device, struct sl_resident_array *a,
                  const struct source *s)
{
    const char *from = s->p;
    a->p = device->memory.alloc(s->bytes);
    if (!a->p)
        return SL_ENOMEM; // said by the device
    a->bytes = s->bytes;
    for (uint64_t at = 0, n; at < s->bytes; at += n) {
        n = SL_MIN(s->bytes - at, (uint64_t)PART_BYTES);
        sl_advise(from + at, SL_MIN(s->bytes - at, 2 * (uint64_t)PART_BYTES), MADV_WILLNEED);
        SL_TRY(device->copy((char *)a->p + at, from + at, n));
    }
    return SL_OK;
}

static int fail_room(const struct source *s, uint64_t most, uint64_t available)
{
    return sl_fail(SL_ENOMEM,
                   "sampling: the GPU has no room for the %" PRIu64 " MiB of %s, and the machine's "
                   "memory has none either: %" PRIu64 " MiB of it are available, of which they may "
                   "take %" PRIu64 ": use a CPU device for sampling, or a GPU with more memory",
                   s->bytes >> 20, s->what, available >> 20, most >> 20);
}

// Memory is given out whether it is there or not, and the system ends who comes last.
static int may_copy(void *ctx, uint64_t bytes)
{
    const uint64_t available = sl_device_memory_available(), most = available / COPY_DIVISOR;
    return bytes <= most ? SL_OK : fail_room(ctx, most, available);
}

static int map_copy(struct sl_residence *r, struct sl_resident_array *a, const struct source *s)
{
    const struct sl_shared_copy copy = {.fd = s->fd,
                                        .from = s->p,
                                        .bytes = s->bytes,
                                        .threads = r->threads,
                                        .may = may_copy,
                                        .ctx = (void *)(uintptr_t)s};
    char text[SL_SHARED_COPY_TEXT_BYTES];
    const uint64_t start = sl_now_ns();
    SL_TRY(sl_shared_copy_open(&copy, &a->copy));
    sl_log_info("sampling: one copy of %s for the GPUs of all samplers: %s", s->what,
                sl_shared_copy_text(&a->copy, s->bytes, sl_now_ns() - start, text));
    void *from = (char *)a->copy.data + s->near;
    SL_TRY(r->device->map(from, s->bytes - s->near, true, &a->p));
    a->mapped = from;
    return SL_OK;
}

// In place; where the file's mapping is not for devices, a copy of it.
static int map(struct sl_residence *r, struct sl_resident_array *a, const struct source *s)
{
    void *from = (void *)((uintptr_t)s->p + s->near);
    const uint64_t bytes = s->bytes - s->near;
    if (s->from == OWN)
        return map_copy(r, a, s);
    if (s->from == IN_FILE) {
        uint64_t available = sl_device_memory_available();
        if (bytes > available) // it would have to stay in memory
            return fail_room(s, available, available);
        sl_advise(from, bytes, MADV_WILLNEED);
    }
    int rc = r->device->map(from, bytes, true, &a->p);
    if (rc == SL_OK) {
        a->mapped = from;
        return SL_OK;
    }
    if (s->from == SHARED) // a copy would be refused as well
        return rc;
    sl_log_info("sampling: %s cannot be read by the device where they are mapped (%s)", s->what,
                sl_error_message());
    return map_copy(r, a, s);
}

// SL_ENOMEM, with nothing said or done, where there is no room; others on the device may be faster.
static int place_near(struct sl_residence *r, struct room *room, const struct source *s, void **out)
{
    struct sl_resident_array *a = &r->array[r->n_arrays];
    int rc = s->bytes <= room->left ? upload(r->device, a, s) : SL_ENOMEM;
    if (rc == SL_ENOMEM && !a->bytes)
        return rc;
    r->n_arrays++;
    SL_TRY(rc);
    room->left -= s->bytes;
    *out = a->p;
    return SL_OK;
}

// What the device has not; *out is where the first byte would be.
static int place_far(struct sl_residence *r, const struct source *s, void **out)
{
    struct sl_resident_array *a = &r->array[r->n_arrays++];
    SL_TRY(map(r, a, s));
    *out = (void *)((uintptr_t)a->p - s->near);
    return SL_OK;
}

static int place(struct sl_residence *r, struct room *room, const struct source *s, void **out)
{
    int rc = place_near(r, room, s, out);
    return rc == SL_ENOMEM ? place_far(r, s, out) : rc;
}

static int place_degrees(struct sl_residence *r, struct room *room, const struct sl_topology *t)
{
    uint64_t n = t->view.n_nodes, bytes = n * sizeof(uint32_t);
    uint32_t *degrees = sl_pages_alloc(bytes);
    void *p = NULL;
    if (!degrees)
        return sl_fail(SL_ENOMEM, "sampling: no memory for the degrees of %" PRIu64 " vertices", n);
    for (uint64_t v = 0; v < n; v++) {
        uint64_t degree = t->self_loops.has ? sl_self_loops_degree(&t->self_loops, v)
                                            : t->view.indptr[v + 1] - t->view.indptr[v];
        degrees[v] = (uint32_t)SL_MIN(degree, (uint64_t)UINT32_MAX);
    }
    const struct source s = {degrees, bytes, 0, "the degrees", OWN, r->files.degrees};
    int rc = place(r, room, &s, &p);
    if (rc == SL_OK)
        rc = r->device->sync();
    sl_pages_free(degrees, bytes);
    r->degree_of = p;
    return rc;
}

// Edges of the first rows whose neighbours and running sums take at most so many bytes. A row's
// neighbours and their sums are read together: one without the other gains little.
static uint64_t edges_in(const struct sl_topology_view *v, uint64_t bytes)
{
    const uint64_t each =
        sl_dtype_bytes(v->indices_dtype) + (v->weight_prefix ? sizeof *v->weight_prefix : 0);
    uint64_t rows = 0, above = v->n_nodes; // fit; the most that may
    while (rows < above) {
        uint64_t middle = above - (above - rows) / 2;
        if (v->indptr[middle] <= bytes / each)
            rows = middle;
        else
            above = middle - 1;
    }
    return v->indptr[rows];
}

// An array with `each` bytes an edge: the first view.n_near edges in the device's memory, others
// where they are, each pointer to where edge 0 is or would be. Where one part is not there, the
// other is all.
static int place_edges(struct sl_residence *r, struct room *room, const struct source *all,
                       uint64_t each, const void **near, const void **far)
{
    struct source first = *all, rest = *all;
    void *p = NULL, *q = NULL;
    first.bytes = r->view.n_near * each;
    int rc = first.bytes > 0 ? place_near(r, room, &first, &p) : SL_OK;
    if (rc == SL_ENOMEM)
        r->n_resident = 0;
    else if (rc < 0)
        return rc;
    rest.near = p ? first.bytes : 0;
    if (rest.bytes > rest.near)
        SL_TRY(place_far(r, &rest, &q));
    *far = q ? q : p;
    *near = p ? p : q;
    return SL_OK;
}

static int place_all(struct sl_residence *r, const struct sl_topology *t, bool degrees,
                     struct room *room)
{
    const struct sl_topology_view *v = &t->view;
    const uint64_t each = sl_dtype_bytes(v->indices_dtype);
    const struct source rows = {v->indptr, (v->n_nodes + 1) * sizeof *v->indptr,
                                0,         "the rows' places (indptr.npy)",
                                IN_FILE,   r->files.offsets};
    const struct source neighbours = {v->indices, r->n_edges * each,
                                      0,          "the neighbours (indices.npy)",
                                      IN_FILE,    r->files.neighbours};
    const struct source sums = {v->weight_prefix,
                                r->n_edges * sizeof *v->weight_prefix,
                                0,
                                "the running sums of the weights",
                                SHARED,
                                -1};
    void *p;
    const void *near, *far;
    SL_TRY(place(r, room, &rows, &p));
    r->view.indptr = p;
    if (degrees)
        SL_TRY(place_degrees(r, room, t));
    if (r->n_edges == 0)
        return SL_OK;
    r->view.n_near = r->n_resident = edges_in(v, room->left);
    SL_TRY(place_edges(r, room, &neighbours, each, &r->view.near_indices, &r->view.indices));
    if (v->weight_prefix) {
        SL_TRY(place_edges(r, room, &sums, sizeof *v->weight_prefix, &near, &far));
        r->view.near_prefix = near;
        r->view.weight_prefix = far;
    }
    return SL_OK;
}

static void log_residence(const struct sl_residence *r)
{
    char where[160] = "";
    if (r->n_resident < r->n_edges)
        snprintf(where, sizeof where,
                 ", of its neighbours %.0f %%; the others are read in the machine's memory "
                 "(sluice reorder --by reads puts those first that are read most)",
                 100.0 * (double)r->n_resident / (double)r->n_edges);
    sl_log_info("sampling: %" PRIu64 " MiB of the graph in device memory%s",
                sl_residence_bytes(r) >> 20, where);
}

int sl_residence_open(struct sl_residence *r, const struct sl_residence_spec *spec,
                      const struct sl_device *device, const struct sl_kernels *kernels)
{
    uint64_t free_bytes, total_bytes;
    *r = (struct sl_residence){.device = device,
                               .kernels = kernels,
                               .view = spec->topology->view,
                               .n_edges = spec->topology->dataset.n_edges,
                               .files = spec->files,
                               .threads = SL_MAX(spec->threads, 1)};
    int rc = device->space(&free_bytes, &total_bytes);
    struct room room = {.left = (uint64_t)((double)free_bytes * spec->share)};
    if (rc == SL_OK)
        rc = place_all(r, spec->topology, spec->degrees, &room);
    if (rc == SL_OK)
        rc = device->sync();
    if (rc < 0) {
        sl_residence_close(r);
        return rc;
    }
    log_residence(r);
    return SL_OK;
}

void sl_residence_close(struct sl_residence *r)
{
    for (uint32_t i = 0; i < r->n_arrays; i++) {
        struct sl_resident_array *a = &r->array[i];
        if (a->bytes)
            r->device->memory.free(a->p, a->bytes);
        if (a->mapped)
            r->device->unmap(a->mapped);
        sl_shared_array_close(&a->copy);
    }
    memset(r, 0, sizeof *r);
}

uint64_t sl_residence_bytes(const struct sl_residence *r)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < r->n_arrays; i++)
        bytes += r->array[i].bytes;
    return bytes;
}

enum sl_store_way sl_residence_way(const struct sl_residence *r)
{
    enum sl_store_way way = SL_STORE_WAY_DEVICE;
    for (uint32_t i = 0; i < r->n_arrays; i++) {
        const struct sl_resident_array *a = &r->array[i];
        if (a->copy.data)
            way = a->copy.huge ? SL_STORE_WAY_COPY_HUGE : SL_STORE_WAY_COPY;
        else if (a->mapped && way == SL_STORE_WAY_DEVICE)
            way = SL_STORE_WAY_FILE;
    }
    return way;
}
