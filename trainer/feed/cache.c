#include "trainer/feed/cache.h"

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/mempool.h"
#include "common/arena/visit_counts.h"

enum {
    // Filled between two looks at the abort word and at the seat: a few milliseconds.
    PIECE_BYTES = 4 << 20,
};

static uint64_t row_bytes(const struct sl_cache *c)
{
    return sl_rows_bytes(c->source.dataset);
}

// Rows that have a rank and may be held.
static uint64_t most_rows(const struct sl_cache *c)
{
    const uint64_t most = SL_MIN(c->arena->h->spec.hot_rows, c->source.dataset->n_nodes);
    return SL_MIN(most, (uint64_t)UINT32_MAX);
}

static uint64_t rows_loaded(const struct sl_cache *c)
{
    return c->n_rows + sl_peer_export_elements(&c->parts);
}

static void publish(const struct sl_cache *c)
{
    struct sl_seat *seat = c->seat;
    atomic_store_explicit(&seat->cache_generation, c->generation, memory_order_relaxed);
    atomic_store_explicit(&seat->cache_loaded, rows_loaded(c), memory_order_relaxed);
    atomic_store_explicit(&seat->cache_load_ns, c->load_ns, memory_order_relaxed);
}

void sl_cache_init(struct sl_cache *c, struct sl_arena *arena, uint32_t seat,
                   const struct sl_dataset *dataset, const struct sl_compute *compute,
                   const struct sl_heartbeat *pulse)
{
    *c = (struct sl_cache){.arena = arena,
                           .device = seat - sl_seat_trainer(arena, 0),
                           .seat = sl_seat(arena, seat),
                           .source.dataset = dataset,
                           .compute = *compute,
                           .pulse = pulse};
    sl_peer_import_init(&c->borrowed, arena, SL_PEER_MEMORY_FEATURES, c->device, compute->device);
    sl_peer_export_init(&c->parts, arena, SL_PEER_MEMORY_FEATURES, c->device, compute->device,
                        (uint64_t[]){sl_rows_bytes(dataset), 0}, "feature cache");
}

static void give_back(struct sl_cache *c)
{
    if (c->rows) {
        c->compute.device->memory.free(c->rows, c->bytes);
        c->compute.device->trim();
    }
    c->rows = NULL;
    c->bytes = 0;
    c->n_rows = 0;
}

void sl_cache_fini(struct sl_cache *c)
{
    sl_peer_import_close(&c->borrowed);
    if (c->compute.device) {
        sl_peer_export_fini(&c->parts);
        give_back(c);
    }
    sl_buffer_fini(&c->piece);
    sl_row_source_fini(&c->source);
}

// A device gives memory back as a whole: what stays moves to less of it, and where there is no room
// for both it is given up, to be filled again.
static void move_to_less(struct sl_cache *c, uint32_t rows)
{
    const struct sl_device *device = c->compute.device;
    uint32_t kept = SL_MIN(c->n_rows, rows);
    uint64_t bytes = rows * row_bytes(c);
    char *less = device->memory.alloc(bytes);
    if (less && device->copy(less, c->rows, kept * row_bytes(c)) == SL_OK &&
        device->sync() == SL_OK) {
        give_back(c);
        c->rows = less;
        c->bytes = bytes;
        c->n_rows = kept;
        return;
    }
    if (less)
        device->memory.free(less, bytes);
    give_back(c);
}

static void shrink(struct sl_cache *c, uint32_t rows)
{
    if (rows == 0) {
        give_back(c);
    } else if (!c->compute.device->is_host) {
        move_to_less(c, rows);
    } else {
        c->n_rows = SL_MIN(c->n_rows, rows);
        c->bytes = sl_pages_trim(c->rows, c->bytes, rows * row_bytes(c));
    }
}

// Memory for as many of `rows` as there is memory for; returns how many. What was loaded is gone:
// old and new memory together could be more than the device has.
static uint32_t allocate(struct sl_cache *c, uint32_t rows)
{
    const struct sl_device *device = c->compute.device;
    uint64_t available = 0, total;
    give_back(c);
    if (device->space(&available, &total) < 0)
        return 0;
    // Memory of the machine is promised before it is there. An eighth of what is left stays for
    // others.
    uint32_t fit = (uint32_t)SL_MIN((uint64_t)rows, available / 8 * 7 / row_bytes(c));
    while (fit > 0 && !(c->rows = device->memory.alloc(fit * row_bytes(c))))
        fit /= 2;
    c->bytes = c->rows ? fit * row_bytes(c) : 0;
    if (fit < rows)
        sl_log_warn("feature cache: there is memory for %u of the %u rows (%llu of %llu MiB) that "
                    "this device may cache; the others are read from the store",
                    fit, rows, (unsigned long long)(fit * row_bytes(c) >> 20),
                    (unsigned long long)(rows * row_bytes(c) >> 20));
    return fit;
}

// Rows of `vertices` to the device's memory at `to`: copies, bit for bit.
static int load(struct sl_cache *c, const uint32_t *vertices, uint32_t n, char *to)
{
    const struct sl_device *device = c->compute.device;
    const struct sl_kernels *kernels = c->compute.host;
    if (device->is_host)
        return sl_rows_copy(&c->source, kernels, vertices, NULL, n, n, to);
    SL_TRY(
        sl_buffer_grow(&c->piece, device, SL_BUFFER_HOST, n * row_bytes(c), "the feature cache"));
    SL_TRY(sl_rows_copy(&c->source, kernels, vertices, NULL, n, n, c->piece.p));
    SL_TRY(device->copy(to, c->piece.p, n * row_bytes(c)));
    return device->sync();
}

// The plan that there is; on cores there is none.
static uint64_t plan_generation(const struct sl_cache *c)
{
    return c->compute.device->is_host
               ? 0
               : sl_peer_memory_generation(c->arena, SL_PEER_MEMORY_FEATURES);
}

// Whether what it was last laid out for is what is wanted.
static bool is_as_asked(const struct sl_cache *c)
{
    return atomic_load_explicit(&c->seat->cache_rows, memory_order_relaxed) == c->asked &&
           sl_visit_counts_generation(c->arena) == c->generation &&
           plan_generation(c) == c->plan.generation;
}

static bool goes_on(const struct sl_cache *c)
{
    return !sl_heartbeat_stopping(c->pulse) && is_as_asked(c);
}

// Of rows of several widths, which have no bytes here, none is asked for.
static uint32_t rows_a_piece(const struct sl_cache *c)
{
    return (uint32_t)SL_MAX(PIECE_BYTES / SL_MAX(row_bytes(c), (uint64_t)1), (uint64_t)1);
}

static void warn_of_fill(const struct sl_cache *c)
{
    sl_log_warn("feature cache: %llu rows loaded, and no more: %s",
                (unsigned long long)rows_loaded(c), sl_error_message());
}

// Goes on until `rows` are near, or something else is wanted.
static void fill(struct sl_cache *c, uint32_t rows)
{
    const uint32_t *order = sl_visit_counts_order(c->arena);
    const uint32_t piece = rows_a_piece(c);
    uint32_t first = c->n_rows, half = first + (rows - first) / 2;
    while (c->n_rows < rows && goes_on(c)) {
        uint32_t n = SL_MIN(piece, rows - c->n_rows);
        if (load(c, order + c->n_rows, n, c->rows + c->n_rows * row_bytes(c)) < 0) {
            warn_of_fill(c);
            break;
        }
        if (c->n_rows <= half && half < c->n_rows + n)
            SL_FAILPOINT(TRAINER_CACHE);
        c->n_rows += n;
    }
}

// --- the parts that it holds ---------------------------------------------------------------------

// Rows [from, from + n) of a part, as far as there are vertices for them.
static int load_part(void *ctx, uint32_t part, uint64_t from, uint64_t n, uint64_t to)
{
    struct sl_cache *c = ctx;
    const struct sl_peer_export_layout *at = &c->parts.at;
    const uint32_t *order = sl_visit_counts_order(c->arena);
    const uint64_t most = most_rows(c);
    uint64_t rank = at->first + from * at->n_parts + part;
    uint32_t found = 0, *ids;
    SL_TRY(sl_buffer_grow(&c->ids, c->compute.device, SL_BUFFER_HOST, n * sizeof *ids,
                          "the feature cache"));
    ids = c->ids.p;
    for (; found < n && rank < most; rank += at->n_parts)
        ids[found++] = order[rank];
    return found ? load(c, ids, found, c->parts.p + to * row_bytes(c)) : SL_OK;
}

static bool fills_on(void *ctx)
{
    return goes_on(ctx);
}

// Goes on until all rows of the parts are there, or something else is wanted.
static void fill_parts(struct sl_cache *c)
{
    const struct sl_peer_export_source source = {
        .load = load_part, .goes_on = fills_on, .ctx = c, .piece = rows_a_piece(c)};
    if (sl_peer_export_fill(&c->parts, c->plan.generation, c->generation, &source) < 0)
        warn_of_fill(c);
    sl_buffer_fini(&c->ids);
}

// --- what is wanted ------------------------------------------------------------------------------

struct wish {
    uint64_t asked;
    uint32_t generation;
    struct sl_peer_memory_plan plan;
    uint32_t near;                      // rows
    struct sl_peer_export_layout parts; // held 0: none
};

// False while the plan is being changed.
static bool look(const struct sl_cache *c, struct wish *w)
{
    *w = (struct wish){.generation = sl_visit_counts_generation(c->arena)};
    if (c->compute.device->is_host)
        w->asked = atomic_load_explicit(&c->seat->cache_rows, memory_order_relaxed);
    else if (!sl_peer_memory_read_rows(c->arena, c->device, &w->plan, &w->asked))
        return false;
    const uint64_t rows = w->generation ? SL_MIN(w->asked, most_rows(c)) : 0;
    w->near = (uint32_t)rows;
    if (sl_peer_export_layout(&c->parts, &w->plan, rows, &w->parts))
        w->near = (uint32_t)w->plan.first;
    return true;
}

static void lay_out(struct sl_cache *c, const struct wish *w)
{
    const uint64_t start = sl_now_ns();
    uint32_t rows = w->near;
    if (w->generation != c->generation)
        c->n_rows = 0;
    c->asked = w->asked;
    c->generation = w->generation;
    c->plan = w->plan;
    if (rows * row_bytes(c) < c->bytes)
        shrink(c, rows);
    publish(c); // the broker may count on what was given back
    if (rows * row_bytes(c) > c->bytes)
        rows = allocate(c, rows);
    const uint64_t before = c->n_rows, parts_before = c->parts.loaded;
    fill(c, rows);
    if (c->parts.p || (w->parts.held && sl_peer_export_allocate(&c->parts, &w->parts)))
        fill_parts(c);
    sl_buffer_fini(&c->piece);
    const uint64_t loaded = c->n_rows - before + c->parts.loaded - parts_before;
    if (loaded > 0) {
        const uint64_t took = sl_now_ns() - start;
        c->load_ns += took;
        sl_log_info("feature cache: %llu of %llu rows (%llu MiB), %llu of them loaded in %.3f s",
                    (unsigned long long)rows_loaded(c),
                    (unsigned long long)c->source.dataset->n_nodes,
                    (unsigned long long)(rows_loaded(c) * row_bytes(c) >> 20),
                    (unsigned long long)loaded, (double)took / 1e9);
    }
    publish(c);
}

void sl_cache_refresh(struct sl_cache *c)
{
    struct wish w;
    sl_peer_import_drop(&c->borrowed);
    while (!is_as_asked(c) && !sl_heartbeat_stopping(c->pulse)) {
        if (!look(c, &w) ||
            !sl_peer_export_may_change(&c->parts, w.generation == c->generation ? &w.parts : NULL))
            return;
        sl_peer_import_close(
            &c->borrowed); // filling takes long, and what follows is another spread
        lay_out(c, &w);
    }
}

// --- where rows are ------------------------------------------------------------------------------

bool sl_cache_rest(struct sl_cache *c)
{
    return sl_peer_import_close(&c->borrowed);
}

void sl_cache_spread(struct sl_cache *c, const struct sl_block *block, struct sl_spread *out)
{
    const struct sl_peer_memory_plan *plan = &c->plan;
    *out = (struct sl_spread){0};
    if (!(block->flags & SL_BLOCK_HAS_RANKS) || block->rank_generation != c->generation)
        return;
    out->near = c->rows;
    out->n_near = c->n_rows;
    if (plan->n_parts == 0)
        return;
    sl_peer_import_open(&c->borrowed, plan, c->generation);
    out->n_parts = plan->n_parts;
    out->first = SL_MIN(plan->first, most_rows(c));
    out->end = SL_MIN(plan->first + plan->n_parts * plan->part_elements, most_rows(c));
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        struct sl_peer_import_part part;
        if (sl_peer_export_part(&c->parts, &c->borrowed, plan, i, &part))
            out->part[i] = (struct sl_part){part.memory + part.number * part.room * row_bytes(c),
                                            part.elements};
    }
}

bool sl_cache_is_good(struct sl_cache *c)
{
    return sl_peer_import_is_good(&c->borrowed);
}

void sl_cache_count(struct sl_cache *c, const struct sl_hits *hits, uint64_t misses)
{
    const uint32_t n_devices = c->arena->h->spec.n_devices;
    uint64_t own = hits->near;
    for (uint32_t i = 0; i < c->plan.n_parts; i++) {
        const uint64_t rows = hits->part[i];
        if (c->parts.at.held >> i & 1)
            own += rows;
        else if (rows > 0)
            sl_peer_memory_count(c->arena, SL_PEER_MEMORY_FEATURES, c->device,
                                 c->plan.from[c->device][i], rows * row_bytes(c));
    }
    if (own > 0)
        sl_peer_memory_count(c->arena, SL_PEER_MEMORY_FEATURES, c->device, c->device,
                             own * row_bytes(c));
    if (misses > 0)
        sl_peer_memory_count(c->arena, SL_PEER_MEMORY_FEATURES, c->device, n_devices,
                             misses * row_bytes(c));
}
