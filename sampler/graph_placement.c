#include "sampler/graph_placement.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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
                   "sampling: the GPU has no room for the %" PRIu64
                   " MiB of %s, and neither has the machine's memory: %" PRIu64
                   " MiB are available, of which %" PRIu64
                   " may be used: use a CPU device for sampling, or a GPU with more memory",
                   s->bytes >> 20, s->what, available >> 20, most >> 20);
}

// Memory is given out whether it is there or not, and the system ends who comes last.
static int may_copy(void *ctx, uint64_t bytes)
{
    const uint64_t available = sl_device_memory_available(), most = available / COPY_DIVISOR;
    return bytes <= most ? SL_OK : fail_room(ctx, most, available);
}

static int map_copy(struct sl_graph_placement *r, struct sl_resident_array *a,
                    const struct source *s)
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
static int map(struct sl_graph_placement *r, struct sl_resident_array *a, const struct source *s)
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
static int place_near(struct sl_graph_placement *r, enum sl_graph_placement_array which,
                      struct room *room, const struct source *s)
{
    struct sl_resident_array *a = &r->array[which];
    int rc = s->bytes <= room->left ? upload(r->device, a, s) : SL_ENOMEM;
    if (rc == SL_OK)
        room->left -= s->bytes;
    return rc;
}

// What the device has not.
static int place_far(struct sl_graph_placement *r, enum sl_graph_placement_array which,
                     const struct source *s)
{
    SL_TRY(map(r, &r->array[which], s));
    r->array[which].p = (void *)((uintptr_t)r->array[which].p - s->near);
    return SL_OK;
}

static int place(struct sl_graph_placement *r, enum sl_graph_placement_array which,
                 struct room *room, const struct source *s)
{
    int rc = place_near(r, which, room, s);
    return rc == SL_ENOMEM && !r->array[which].bytes ? place_far(r, which, s) : rc;
}

static void close_array(struct sl_graph_placement *r, enum sl_graph_placement_array which)
{
    struct sl_resident_array *a = &r->array[which];
    if (a->bytes)
        r->device->memory.free(a->p, a->bytes);
    if (a->mapped)
        r->device->unmap(a->mapped);
    sl_shared_array_close(&a->copy);
    *a = (struct sl_resident_array){0};
}

static int place_degrees(struct sl_graph_placement *r, struct room *room,
                         const struct sl_topology *t)
{
    uint64_t n = t->view.n_nodes, bytes = n * sizeof(uint32_t);
    uint32_t *degrees = sl_pages_alloc(bytes);
    if (!degrees)
        return sl_fail(SL_ENOMEM, "sampling: no memory for the degrees of %" PRIu64 " vertices", n);
    for (uint64_t v = 0; v < n; v++) {
        uint64_t degree = sl_topology_degree(t, (uint32_t)v);
        degrees[v] = (uint32_t)SL_MIN(degree, (uint64_t)UINT32_MAX);
    }
    const struct source s = {degrees, bytes, 0, "the degrees", OWN, r->files.degrees};
    int rc = place(r, SL_RESIDENT_DEGREES, room, &s);
    if (rc == SL_OK)
        rc = r->device->sync();
    sl_pages_free(degrees, bytes);
    r->degree_of = r->array[SL_RESIDENT_DEGREES].p;
    return rc;
}

// Edges of the first rows, at most so many, whose neighbours and running sums take no more than
// these bytes. A row's neighbours and sums are read together: one without the other gains little.
static uint64_t edges_in(const struct sl_topology *t, uint64_t bytes, uint64_t most)
{
    const struct sl_topology_view *v = &t->view;
    const uint64_t each =
        sl_dtype_bytes(v->indices_dtype) + (v->weight_prefix ? sizeof *v->weight_prefix : 0);
    uint64_t rows = 0, above = sl_dataset_lists(&t->dataset); // fit; the most that may
    while (rows < above) {
        uint64_t middle = above - (above - rows) / 2;
        if (v->indptr[middle] <= SL_MIN(bytes / each, most))
            rows = middle;
        else
            above = middle - 1;
    }
    return v->indptr[rows];
}

// --- edges ---------------------------------------------------------------------------------------

// The neighbours of all rows, and their running sums, which not every graph has.
static struct source neighbours_of(const struct sl_graph_placement *r)
{
    const struct sl_topology_view *v = &r->topology->view;
    return (struct source){v->indices, r->n_edges * sl_dtype_bytes(v->indices_dtype),
                           0,          "the neighbours (indices.npy)",
                           IN_FILE,    r->files.neighbours};
}

static struct source sums_of(const struct sl_graph_placement *r)
{
    const double *sums = r->topology->view.weight_prefix;
    return (struct source){sums,   sums ? r->n_edges * sizeof *sums : 0,
                           0,      "the running sums of the weights",
                           SHARED, -1};
}

// What operations read: where one part is not there, the other is all.
static void point_at_edges(struct sl_graph_placement *r)
{
    struct sl_topology_view *v = &r->view;
    const struct sl_resident_array *a = r->array;
    const void *near = a[SL_RESIDENT_NEAR_NEIGHBOURS].p, *far = a[SL_RESIDENT_FAR_NEIGHBOURS].p;
    const double *near_sums = a[SL_RESIDENT_NEAR_SUMS].p, *far_sums = a[SL_RESIDENT_FAR_SUMS].p;
    v->held = (struct sl_spread){.near = near, .n_near = r->n_resident};
    memset(v->sums, 0, sizeof v->sums);
    v->indices = far ? far : near;
    v->weight_prefix = far_sums ? far_sums : near_sums;
    v->sums[SL_PARTS_MAX] = near_sums;
}

static void drop_near(struct sl_graph_placement *r)
{
    close_array(r, SL_RESIDENT_NEAR_NEIGHBOURS);
    close_array(r, SL_RESIDENT_NEAR_SUMS);
    r->n_resident = 0;
}

// The first n edges, both arrays or, where memory turns out to be too short, neither.
static int place_first(struct sl_graph_placement *r, struct room *room, uint64_t n)
{
    struct source neighbours = neighbours_of(r), sums = sums_of(r);
    neighbours.bytes = neighbours.bytes / SL_MAX(r->n_edges, 1u) * n;
    sums.bytes = sums.bytes / SL_MAX(r->n_edges, 1u) * n;
    int rc = n > 0 ? place_near(r, SL_RESIDENT_NEAR_NEIGHBOURS, room, &neighbours) : SL_OK;
    if (rc == SL_OK && sums.bytes > 0)
        rc = place_near(r, SL_RESIDENT_NEAR_SUMS, room, &sums);
    r->n_resident = n;
    if (rc == SL_ENOMEM)
        drop_near(r);
    return rc == SL_ENOMEM ? SL_OK : rc;
}

// Those from `near` on, where they are.
static int place_rest(struct sl_graph_placement *r, uint64_t near)
{
    struct source neighbours = neighbours_of(r), sums = sums_of(r);
    if (near == r->n_edges)
        return SL_OK;
    neighbours.near = neighbours.bytes / r->n_edges * near;
    sums.near = sums.bytes / r->n_edges * near;
    SL_TRY(place_far(r, SL_RESIDENT_FAR_NEIGHBOURS, &neighbours));
    return sums.bytes > 0 ? place_far(r, SL_RESIDENT_FAR_SUMS, &sums) : SL_OK;
}

int sl_graph_placement_keep(struct sl_graph_placement *r, uint64_t n_edges)
{
    struct room room = {.left = UINT64_MAX};
    if (n_edges == r->n_resident)
        return SL_OK;
    if (!r->array[SL_RESIDENT_FAR_NEIGHBOURS].p && n_edges < r->n_edges) {
        int rc = place_rest(r, 0);
        if (rc < 0) {
            close_array(r, SL_RESIDENT_FAR_NEIGHBOURS);
            return rc;
        }
    }
    drop_near(r);
    r->device->trim();
    int rc = place_first(r, &room, n_edges);
    point_at_edges(r);
    return rc < 0 ? rc : r->device->sync();
}

// --- types ---------------------------------------------------------------------------------------

static int list_types(struct sl_graph_placement *r)
{
    const struct sl_typed *t = &r->topology->dataset.typed;
    if (t->n_types == 0)
        return SL_OK;
    struct sl_draw_relation *relation = calloc(SL_MAX(t->n_relations, 1u), sizeof *relation);
    uint64_t *n_of = calloc(t->n_types, sizeof *n_of);
    r->types = (struct sl_draw_types){t->n_types, t->n_relations, relation, n_of};
    if (!relation || !n_of)
        return sl_fail(SL_ENOMEM, "sampling: no memory for %u relations", t->n_relations);
    for (uint32_t i = 0; i < t->n_types; i++)
        n_of[i] = t->type[i].n;
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_relation *of = &t->relation[i];
        relation[i] = (struct sl_draw_relation){.source = of->source,
                                                .target = of->target,
                                                .shift = sl_relation_row(t, of, 0),
                                                .along = sl_topology_path(r->topology, i),
                                                .returns = !sl_relation_is_round(of)};
    }
    return SL_OK;
}

// --- all of it -----------------------------------------------------------------------------------

static int place_all(struct sl_graph_placement *r, const struct sl_graph_placement_spec *spec,
                     struct room *room)
{
    const struct sl_topology_view *v = &r->topology->view;
    const uint64_t lists = sl_dataset_lists(&r->topology->dataset);
    const struct source rows = {v->indptr, (lists + 1) * sizeof *v->indptr,
                                0,         "the rows' places (indptr.npy)",
                                IN_FILE,   r->files.offsets};
    SL_TRY(place(r, SL_RESIDENT_OFFSETS, room, &rows));
    r->view.indptr = r->array[SL_RESIDENT_OFFSETS].p;
    if (spec->degrees)
        SL_TRY(place_degrees(r, room, r->topology));
    if (r->n_edges == 0)
        return SL_OK;
    const double most = spec->most > 0 ? spec->most : 1;
    r->room = edges_in(r->topology, room->left, (uint64_t)(most * (double)r->n_edges));
    SL_TRY(place_first(r, room, r->room));
    SL_TRY(place_rest(r, r->shares && r->n_resident < r->n_edges ? 0 : r->n_resident));
    point_at_edges(r);
    return SL_OK;
}

static void log_residence(const struct sl_graph_placement *r)
{
    char where[160] = "";
    if (r->n_resident < r->n_edges)
        snprintf(where, sizeof where,
                 ", with %.0f %% of its neighbours; the others are read from the machine's memory "
                 "('sluice reorder --by reads' puts the most-read ones first)",
                 100.0 * (double)r->n_resident / (double)r->n_edges);
    sl_log_info("sampling: %" PRIu64 " MiB of the graph in device memory%s",
                sl_graph_placement_bytes(r) >> 20, where);
}

int sl_graph_placement_open(struct sl_graph_placement *r,
                            const struct sl_graph_placement_spec *spec,
                            const struct sl_device *device, const struct sl_kernels *kernels)
{
    uint64_t free_bytes, total_bytes;
    *r = (struct sl_graph_placement){.device = device,
                                     .kernels = kernels,
                                     .view = spec->topology->view,
                                     .n_edges = spec->topology->dataset.n_edges,
                                     .topology = spec->topology,
                                     .shares = spec->shares,
                                     .files = spec->files,
                                     .threads = SL_MAX(spec->threads, 1)};
    int rc = device->space(&free_bytes, &total_bytes);
    struct room room = {.left = (uint64_t)((double)free_bytes * spec->share)};
    if (rc == SL_OK)
        rc = list_types(r);
    if (rc == SL_OK)
        rc = place_all(r, spec, &room);
    if (rc == SL_OK)
        rc = device->sync();
    if (rc < 0) {
        sl_graph_placement_close(r);
        return rc;
    }
    log_residence(r);
    return SL_OK;
}

void sl_graph_placement_close(struct sl_graph_placement *r)
{
    for (uint32_t i = 0; i < SL_GRAPH_PLACEMENT_ARRAYS; i++)
        close_array(r, (enum sl_graph_placement_array)i);
    free((void *)(uintptr_t)r->types.relation);
    free((void *)(uintptr_t)r->types.n_of);
    memset(r, 0, sizeof *r);
}

uint64_t sl_graph_placement_bytes(const struct sl_graph_placement *r)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < SL_GRAPH_PLACEMENT_ARRAYS; i++)
        bytes += r->array[i].bytes;
    return bytes;
}

enum sl_store_way sl_graph_placement_way(const struct sl_graph_placement *r)
{
    enum sl_store_way way = SL_STORE_WAY_DEVICE;
    for (uint32_t i = 0; i < SL_GRAPH_PLACEMENT_ARRAYS; i++) {
        const struct sl_resident_array *a = &r->array[i];
        if (a->copy.data)
            way = a->copy.huge ? SL_STORE_WAY_COPY_HUGE : SL_STORE_WAY_COPY;
        else if (a->mapped && way == SL_STORE_WAY_DEVICE)
            way = SL_STORE_WAY_FILE;
    }
    return way;
}
