#include "sampler/share.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"

enum { PIECE_BYTES = 8 << 20 }; // of neighbours, copied to the device at once

static uint64_t neighbour_bytes(const struct sl_graph_placement *r)
{
    return sl_dtype_bytes(r->view.indices_dtype);
}

void sl_share_init(struct sl_share *s, struct sl_graph_placement *residence, struct sl_arena *arena,
                   uint32_t device, const struct sl_heartbeat *pulse)
{
    *s = (struct sl_share){.residence = residence,
                           .arena = arena,
                           .device = device,
                           .pulse = pulse,
                           .alone = residence->view};
    sl_peer_import_init(&s->others, arena, SL_PEER_MEMORY_GRAPH, device, residence->device);
    const uint64_t sums = residence->topology->view.weight_prefix ? sizeof(double) : 0;
    sl_peer_export_init(&s->parts, arena, SL_PEER_MEMORY_GRAPH, device, residence->device,
                        (uint64_t[]){neighbour_bytes(residence), sums}, "sampling");
}

static void free_piece(struct sl_share *s)
{
    if (s->piece)
        s->residence->device->host_free(s->piece, s->piece_bytes);
    s->piece = NULL;
    s->piece_bytes = 0;
}

void sl_share_fini(struct sl_share *s)
{
    if (!s->residence)
        return;
    sl_peer_import_close(&s->others);
    sl_peer_export_fini(&s->parts);
    free_piece(s);
}

// --- what it holds -------------------------------------------------------------------------------

static bool goes_on(void *ctx)
{
    const struct sl_share *s = ctx;
    return !sl_heartbeat_stopping(s->pulse) &&
           sl_peer_memory_generation(s->arena, SL_PEER_MEMORY_GRAPH) == s->plan.generation;
}

// Runs [from, from + n) of a part, of an array with `each` bytes an edge, to the device.
static int load_array(struct sl_share *s, const void *array, uint64_t each, uint32_t part,
                      uint64_t from, uint64_t n, char *to)
{
    const struct sl_peer_export_layout *at = &s->parts.at;
    const uint64_t run = (uint64_t)1 << at->shift, n_edges = s->residence->n_edges;
    const struct sl_device *device = s->residence->device;
    uint64_t found = 0;
    for (; found < n; found += run) {
        const uint64_t number = (from + found) / run * at->n_parts + part;
        const uint64_t edge = at->first + number * run;
        if (edge + run > n_edges)
            break;
        memcpy((char *)s->piece + found * each, (const char *)array + edge * each, run * each);
    }
    SL_TRY(device->copy(to, s->piece, found * each));
    return device->sync(); // the piece is written again
}

static int load(void *ctx, uint32_t part, uint64_t from, uint64_t n, uint64_t to)
{
    struct sl_share *s = ctx;
    const struct sl_graph_placement *r = s->residence;
    const struct sl_topology_view *v = &r->topology->view;
    const uint64_t each = neighbour_bytes(r);
    SL_TRY(load_array(s, v->indices, each, part, from, n, s->parts.p + to * each));
    if (!v->weight_prefix)
        return SL_OK;
    char *sums = s->parts.p + sl_peer_export_second(&s->parts, s->parts.at.n_held, s->parts.room);
    return load_array(s, v->weight_prefix, sizeof(double), part, from, n,
                      sums + to * sizeof(double));
}

static int fill(struct sl_share *s)
{
    const struct sl_device *device = s->residence->device;
    const uint64_t run = (uint64_t)1 << s->parts.at.shift;
    const uint64_t piece = sl_align_up((uint64_t)PIECE_BYTES / sizeof(double), run);
    const struct sl_peer_export_source source = {
        .load = load, .goes_on = goes_on, .ctx = s, .piece = piece};
    s->piece_bytes = piece * sizeof(double);
    s->piece = device->host_alloc(s->piece_bytes);
    if (!s->piece)
        return sl_fail_prefix(SL_ENOMEM, "sampling: edges on their way to the device");
    int rc = sl_peer_export_fill(&s->parts, s->plan.generation, 0, &source);
    free_piece(s);
    return rc;
}

// Makes room first: what it has for itself shrinks before parts are there.
static int lay_out(struct sl_share *s, const struct sl_peer_memory_plan *plan,
                   const struct sl_peer_export_layout *layout)
{
    struct sl_graph_placement *r = s->residence;
    const uint64_t start = sl_now_ns(), before = s->parts.loaded;
    const uint64_t near = layout->held ? SL_MIN(plan->first, r->room) : r->room;
    s->plan = *plan;
    int rc = sl_graph_placement_keep(r, near);
    s->alone = r->view;
    if (rc == SL_ENOMEM) {
        sl_log_warn("sampling: the edges on this device are not shared with other GPUs: %s",
                    sl_error_message());
        s->plan.n_parts = 0;
        return SL_OK;
    }
    SL_TRY(rc);
    if (s->parts.p || (layout->held && sl_peer_export_allocate(&s->parts, layout)))
        SL_TRY(fill(s));
    if (s->parts.loaded > before)
        sl_log_info("sampling: this device holds %" PRIu64 " edges for all samplers (%" PRIu64
                    " of them loaded now) and %" PRIu64 " for itself, %.3f s",
                    sl_peer_export_elements(&s->parts), s->parts.loaded - before, r->n_resident,
                    (double)(sl_now_ns() - start) / 1e9);
    return SL_OK;
}

bool sl_share_is_current(const struct sl_share *s)
{
    return sl_peer_memory_generation(s->arena, SL_PEER_MEMORY_GRAPH) == s->plan.generation &&
           sl_peer_import_stands(&s->others);
}

int sl_share_refresh(struct sl_share *s)
{
    struct sl_peer_export_layout layout;
    struct sl_peer_memory_plan plan;
    sl_peer_import_drop(&s->others);
    while (sl_peer_memory_generation(s->arena, SL_PEER_MEMORY_GRAPH) != s->plan.generation &&
           !sl_heartbeat_stopping(s->pulse)) {
        if (!sl_peer_memory_read_plan(s->arena, SL_PEER_MEMORY_GRAPH, &plan))
            return SL_OK;
        sl_peer_export_layout(&s->parts, &plan, s->residence->room, &layout);
        if (!sl_peer_export_may_change(&s->parts, &layout))
            return SL_OK;
        sl_peer_import_close(&s->others); // filling takes long
        SL_TRY(lay_out(s, &plan, &layout));
    }
    return SL_OK;
}

// --- where edges are -----------------------------------------------------------------------------

void sl_share_open(struct sl_share *s)
{
    struct sl_graph_placement *r = s->residence;
    const struct sl_peer_memory_plan *plan = &s->plan;
    struct sl_topology_view *v = &r->view;
    *v = s->alone;
    if (plan->n_parts == 0)
        return;
    sl_peer_import_add(&s->others, plan, 0);
    v->held.n_parts = plan->n_parts;
    v->held.shift = plan->shift;
    v->held.first = plan->first;
    v->held.end = SL_MIN(plan->first + plan->n_parts * plan->part_elements, r->n_edges);
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        struct sl_peer_import_part part;
        if (!sl_peer_export_part(&s->parts, &s->others, plan, i, &part))
            continue;
        const uint64_t before = part.number * part.room;
        v->held.part[i] =
            (struct sl_part){part.memory + before * neighbour_bytes(r), part.elements};
        if (v->weight_prefix)
            v->sums[i] = (const double *)(const void *)(part.memory +
                                                        sl_peer_export_second(
                                                            &s->parts, part.n_held, part.room)) +
                         before;
    }
}

bool sl_share_is_good(struct sl_share *s)
{
    return sl_peer_import_is_good(&s->others);
}

void sl_share_count(const struct sl_share *s, const uint64_t read[SL_DRAW_PLACES])
{
    const uint32_t n_devices = s->arena->h->spec.n_devices;
    uint64_t own = read[SL_PARTS_MAX];
    for (uint32_t i = 0; i < s->plan.n_parts; i++) {
        if (s->parts.at.held >> i & 1)
            own += read[i];
        else if (read[i] > 0)
            sl_peer_memory_count(s->arena, SL_PEER_MEMORY_GRAPH, s->device,
                                 s->plan.from[s->device][i], read[i]);
    }
    if (own > 0)
        sl_peer_memory_count(s->arena, SL_PEER_MEMORY_GRAPH, s->device, s->device, own);
    if (read[SL_PARTS_MAX + 1] > 0)
        sl_peer_memory_count(s->arena, SL_PEER_MEMORY_GRAPH, s->device, n_devices,
                             read[SL_PARTS_MAX + 1]);
}

uint64_t sl_share_bytes(const struct sl_share *s)
{
    return s->parts.bytes;
}
