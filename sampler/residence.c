#include "sampler/residence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
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
    const char *what;
    bool in_file; // a mapping of it; otherwise memory of this process
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

static int map_copy(const struct sl_device *device, struct sl_resident_array *a,
                    const struct source *s)
{
    // Memory is given out whether it is there or not, and the system ends who comes last.
    uint64_t available = sl_device_memory_available(), most = available / COPY_DIVISOR;
    if (s->bytes <= most)
        a->copy = sl_pages_alloc(s->bytes);
    if (!a->copy)
        return fail_room(s, most, available);
    a->copied = s->bytes;
    memcpy(a->copy, s->p, s->bytes);
    SL_TRY(device->map(a->copy, s->bytes, true, &a->p));
    a->mapped = a->copy;
    return SL_OK;
}

// In place; where the file's mapping is not for devices, a copy of it.
static int map(const struct sl_device *device, struct sl_resident_array *a, const struct source *s)
{
    void *from = (void *)(uintptr_t)s->p;
    if (s->in_file) {
        uint64_t available = sl_device_memory_available();
        if (s->bytes > available) // it would have to stay in memory
            return fail_room(s, available, available);
        sl_advise(s->p, s->bytes, MADV_WILLNEED);
    }
    int rc = device->map(from, s->bytes, true, &a->p);
    if (rc == SL_OK) {
        a->mapped = from;
        return SL_OK;
    }
    if (!s->in_file) // a copy would be refused as well
        return rc;
    sl_log_info("sampling: %s cannot be read by the device where they are mapped (%s); they are "
                "copied to %" PRIu64 " MiB of memory that can",
                s->what, sl_error_message(), s->bytes >> 20);
    return map_copy(device, a, s);
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

static int place_far(struct sl_residence *r, const struct source *s, void **out)
{
    struct sl_resident_array *a = &r->array[r->n_arrays++];
    SL_TRY(map(r->device, a, s));
    *out = a->p;
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
    int rc = place(r, room, &(struct source){degrees, bytes, "the degrees", false}, &p);
    struct sl_resident_array *a = &r->array[r->n_arrays - 1];
    if (rc == SL_OK && a->mapped == degrees) { // it is read there from now on
        a->copy = degrees;
        a->copied = bytes;
        r->degree_of = p;
        return SL_OK;
    }
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
    const struct source first = {all->p, r->view.n_near * each, all->what, all->in_file};
    void *p = NULL, *q = NULL;
    int rc = first.bytes > 0 ? place_near(r, room, &first, &p) : SL_OK;
    if (rc == SL_ENOMEM)
        r->n_resident = 0;
    else if (rc < 0)
        return rc;
    const uint64_t there = p ? first.bytes : 0;
    const struct source rest = {(const char *)all->p + there, all->bytes - there, all->what,
                                all->in_file};
    if (rest.bytes > 0)
        SL_TRY(place_far(r, &rest, &q));
    *far = q ? (const void *)((uintptr_t)q - there) : p;
    *near = p ? p : *far;
    return SL_OK;
}

static int place_all(struct sl_residence *r, const struct sl_topology *t, bool degrees,
                     struct room *room)
{
    const struct sl_topology_view *v = &t->view;
    const uint64_t each = sl_dtype_bytes(v->indices_dtype);
    const struct source rows = {v->indptr, (v->n_nodes + 1) * sizeof *v->indptr,
                                "the rows' places (indptr.npy)", true};
    const struct source neighbours = {v->indices, r->n_edges * each, "the neighbours (indices.npy)",
                                      true};
    const struct source sums = {v->weight_prefix, r->n_edges * sizeof *v->weight_prefix,
                                "the running sums of the weights", false};
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
                 "(sluice reorder --by hotness puts those first that are read most)",
                 100.0 * (double)r->n_resident / (double)r->n_edges);
    sl_log_info("sampling: %" PRIu64 " MiB of the graph in device memory%s",
                sl_residence_bytes(r) >> 20, where);
}

int sl_residence_open(struct sl_residence *r, const struct sl_topology *topology, bool degrees,
                      double share, const struct sl_device *device,
                      const struct sl_kernels *kernels)
{
    uint64_t free_bytes, total_bytes;
    *r = (struct sl_residence){.device = device,
                               .kernels = kernels,
                               .view = topology->view,
                               .n_edges = topology->dataset.n_edges};
    int rc = device->space(&free_bytes, &total_bytes);
    struct room room = {.left = (uint64_t)((double)free_bytes * share)};
    if (rc == SL_OK)
        rc = place_all(r, topology, degrees, &room);
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
        sl_pages_free(a->copy, a->copied);
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
