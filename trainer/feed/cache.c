#include "trainer/feed/cache.h"

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/mempool.h"
#include "common/arena/type_counts.h"
#include "common/arena/visit_counts.h"
#include "common/data/features_kind.h"

enum {
    ALIGN = 16, // of a type's rows in a part
    // Filled between two looks at the abort word and at the seat: a few milliseconds.
    PIECE_BYTES = 4 << 20,
};

static uint64_t row_bytes(const struct sl_cache *c, uint32_t range)
{
    return sl_row_range(c->source.dataset, range).row_bytes;
}

// Rows that have a rank and may be held.
static uint64_t most_rows(const struct sl_cache *c)
{
    const uint64_t most = SL_MIN(c->arena->h->spec.hot_rows, c->source.dataset->n_nodes);
    return SL_MIN(most, (uint64_t)UINT32_MAX);
}

static uint64_t rows_near(const struct sl_cache *c)
{
    uint64_t rows = 0;
    for (uint32_t r = 0; r < c->n_ranges; r++)
        rows += c->near[r].n_rows;
    return rows;
}

// --- what is held --------------------------------------------------------------------------------

// The rows of a range in a part.
struct place {
    uint64_t at;   // byte where they begin
    uint64_t rows; // room for so many
};

// Bytes of a part that alignment takes where rows are of several widths.
static uint64_t bytes_lost(const struct sl_cache *c)
{
    return c->parts.is_mixed ? ALIGN : 0;
}

// That each of the parts gets.
static uint64_t rows_dealt(const struct sl_cache *c, uint32_t range, uint64_t first,
                           uint32_t n_parts, uint64_t room)
{
    const uint64_t end = sl_visit_counts_rows(c->arena, range, first + n_parts * room);
    return (end - sl_visit_counts_rows(c->arena, range, first)) / n_parts;
}

// Range after range, as many as there is room for: the same for lender and readers.
static struct place place_of(const struct sl_cache *c, uint32_t range, uint64_t first,
                             uint32_t n_parts, uint64_t room)
{
    const uint64_t bytes = room * c->unit - SL_MIN(room * c->unit, bytes_lost(c));
    struct place p = {0};
    for (uint32_t r = 0; r <= range; r++) {
        const uint64_t each = row_bytes(c, r);
        p.at += r ? sl_align_up(p.rows * row_bytes(c, r - 1), (uint64_t)ALIGN) : 0;
        const uint64_t fit = each ? (bytes - SL_MIN(p.at, bytes)) / each : 0;
        p.rows = SL_MIN(rows_dealt(c, r, first, n_parts, room), fit);
    }
    return p;
}

// Those that are there once so many elements are.
static uint64_t rows_there(const struct sl_cache *c, uint32_t range, const struct place *p,
                           uint64_t elements)
{
    const uint64_t each = row_bytes(c, range), taken = p->at + bytes_lost(c);
    const uint64_t bytes = elements * c->unit;
    return each ? SL_MIN(p->rows, (bytes - SL_MIN(bytes, taken)) / each) : 0;
}

// Rows of a range that are held, near and in parts.
static uint64_t rows_held(const struct sl_cache *c, uint32_t range)
{
    const struct sl_peer_export_layout *at = &c->parts.at;
    if (at->n_held == 0 || c->source.dataset->typed.n_types == 0)
        return c->near[range].n_rows + sl_peer_export_elements(&c->parts);
    const struct place p = place_of(c, range, at->first, at->n_parts, c->parts.room);
    return c->near[range].n_rows + at->n_held * rows_there(c, range, &p, c->parts.elements);
}

struct held {
    uint64_t rows, bytes;
};

static struct held all_held(const struct sl_cache *c)
{
    struct held all = {0};
    for (uint32_t r = 0; r < c->n_ranges; r++) {
        all.rows += rows_held(c, r);
        all.bytes += rows_held(c, r) * row_bytes(c, r);
    }
    return all;
}

static void tell_types(const struct sl_cache *c)
{
    const uint32_t seat = sl_seat_trainer(c->arena, c->device);
    for (uint32_t r = 0; r < c->n_ranges; r++)
        sl_type_counts_hold(c->arena, seat, r, rows_held(c, r));
}

// With room in parts, as the broker counts it.
static uint64_t bytes_loaded(const struct sl_cache *c)
{
    uint64_t bytes = sl_peer_export_elements(&c->parts) * c->unit;
    for (uint32_t r = 0; r < c->n_ranges; r++)
        bytes += c->near[r].n_rows * row_bytes(c, r);
    return bytes;
}

// Whether as many rows of each type are near as a cache of so many rows of the mean width has.
static bool is_near(const struct sl_cache *c, uint64_t size)
{
    bool all = true;
    for (uint32_t r = 0; r < c->n_ranges; r++)
        all = all &&
              (!row_bytes(c, r) || c->near[r].n_rows >= sl_visit_counts_rows(c->arena, r, size));
    return all;
}

// What others may count on, who know of a number of rows alone. Types are filled one after the
// other, and there may be memory for fewer rows of one: until all are there, it is the size whose
// rows all are.
static uint64_t size_loaded(const struct sl_cache *c)
{
    const uint64_t loaded = c->unit ? sl_div_up(bytes_loaded(c), c->unit) : 0;
    uint64_t low = 0, high = c->plan.n_parts ? SL_MIN(loaded, c->plan.first) : loaded;
    if (c->source.dataset->typed.n_types == 0 || is_near(c, high))
        return loaded;
    while (low + 1 < high) {
        const uint64_t middle = low + (high - low) / 2;
        *(is_near(c, middle) ? &low : &high) = middle;
    }
    return low;
}

static void publish(const struct sl_cache *c)
{
    struct sl_seat *seat = c->seat;
    atomic_store_explicit(&seat->cache_generation, c->generation, memory_order_relaxed);
    atomic_store_explicit(&seat->cache_loaded, size_loaded(c), memory_order_relaxed);
    atomic_store_explicit(&seat->cache_load_ns, c->load_ns, memory_order_relaxed);
    tell_types(c);
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
                           .pulse = pulse,
                           .n_ranges = sl_row_ranges(dataset),
                           .unit = sl_features_row_bytes(dataset)};
    sl_peer_import_init(&c->borrowed, arena, SL_PEER_MEMORY_FEATURES, c->device, compute->device);
    sl_peer_export_init(&c->parts, arena, SL_PEER_MEMORY_FEATURES, c->device, compute->device,
                        (uint64_t[]){c->unit, 0}, "feature cache");
    c->parts.is_mixed = dataset->typed.n_types > 0;
    tell_types(c); // what an earlier worker held is gone
}

static void give_back(struct sl_cache *c, uint32_t range)
{
    struct sl_cache_near *near = &c->near[range];
    if (near->rows) {
        c->compute.device->memory.free(near->rows, near->bytes);
        c->compute.device->trim();
    }
    *near = (struct sl_cache_near){0};
}

void sl_cache_fini(struct sl_cache *c)
{
    sl_peer_import_close(&c->borrowed);
    if (c->compute.device) {
        sl_peer_export_fini(&c->parts);
        for (uint32_t r = 0; r < c->n_ranges; r++)
            give_back(c, r);
    }
    sl_buffer_fini(&c->piece);
    sl_row_source_fini(&c->source);
}

// A device gives memory back as a whole: what stays moves to less of it, and where there is no room
// for both it is given up, to be filled again.
static void move_to_less(struct sl_cache *c, uint32_t range, uint32_t rows)
{
    const struct sl_device *device = c->compute.device;
    const struct sl_cache_near near = c->near[range];
    uint32_t kept = SL_MIN(near.n_rows, rows);
    uint64_t bytes = rows * row_bytes(c, range);
    char *less = device->memory.alloc(bytes);
    if (less && device->copy(less, near.rows, kept * row_bytes(c, range)) == SL_OK &&
        device->sync() == SL_OK) {
        give_back(c, range);
        c->near[range] = (struct sl_cache_near){less, bytes, kept};
        return;
    }
    if (less)
        device->memory.free(less, bytes);
    give_back(c, range);
}

static void shrink(struct sl_cache *c, uint32_t range, uint32_t rows)
{
    struct sl_cache_near *near = &c->near[range];
    if (rows == 0) {
        give_back(c, range);
    } else if (!c->compute.device->is_host) {
        move_to_less(c, range, rows);
    } else {
        near->n_rows = SL_MIN(near->n_rows, rows);
        near->bytes = sl_pages_trim(near->rows, near->bytes, rows * row_bytes(c, range));
    }
}

// Memory for as many of `rows` as there is memory for; returns how many. What was loaded is gone:
// old and new memory together could be more than the device has.
static uint32_t allocate(struct sl_cache *c, uint32_t range, uint32_t rows)
{
    const struct sl_device *device = c->compute.device;
    struct sl_cache_near *near = &c->near[range];
    const uint64_t each = row_bytes(c, range);
    uint64_t available = 0, total;
    give_back(c, range);
    if (device->space(&available, &total) < 0)
        return 0;
    // Memory of the machine is promised before it is there. An eighth of what is left stays for
    // others.
    uint32_t fit = (uint32_t)SL_MIN((uint64_t)rows, available / 8 * 7 / each);
    while (fit > 0 && !(near->rows = device->memory.alloc(fit * each)))
        fit /= 2;
    near->bytes = near->rows ? fit * each : 0;
    if (fit < rows)
        sl_log_warn("feature cache: there is memory for %u of the %u rows (%llu of %llu MiB) that "
                    "this device may cache; the others are read from the store",
                    fit, rows, (unsigned long long)(fit * each >> 20),
                    (unsigned long long)(rows * each >> 20));
    return fit;
}

// Rows of `vertices`, of one range, to the device's memory at `to`: copies, bit for bit.
static int load(struct sl_cache *c, uint32_t range, const uint32_t *vertices, uint32_t n, char *to)
{
    const struct sl_device *device = c->compute.device;
    const struct sl_kernels *kernels = c->compute.host;
    const uint64_t bytes = n * row_bytes(c, range);
    if (device->is_host)
        return sl_rows_copy_of(&c->source, range, kernels, vertices, NULL, n, n, to);
    SL_TRY(sl_buffer_grow(&c->piece, device, SL_BUFFER_HOST, bytes, "the feature cache"));
    SL_TRY(sl_rows_copy_of(&c->source, range, kernels, vertices, NULL, n, n, c->piece.p));
    SL_TRY(device->copy(to, c->piece.p, bytes));
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

// Of rows without bytes none is asked for.
static uint32_t rows_a_piece(const struct sl_cache *c, uint32_t range)
{
    return (uint32_t)SL_MAX(PIECE_BYTES / SL_MAX(row_bytes(c, range), (uint64_t)1), (uint64_t)1);
}

static void warn_of_fill(const struct sl_cache *c)
{
    sl_log_warn("feature cache: %llu rows loaded, and no more: %s",
                (unsigned long long)all_held(c).rows, sl_error_message());
}

// The vertices of a range from this rank on that stand side by side in the order; how many: *n.
static const uint32_t *vertices_from(const struct sl_cache *c, uint32_t range, uint64_t rank,
                                     uint64_t *n)
{
    const uint32_t *order = sl_visit_counts_order(c->arena);
    const uint32_t n_tiers = sl_visit_counts_tiers(c->arena)->n;
    for (uint32_t t = 0; t < n_tiers; t++) {
        const struct sl_visit_counts_run run = sl_visit_counts_run(c->arena, t, range);
        *n = run.rank + run.n - SL_MIN(rank, run.rank + run.n);
        if (*n > 0)
            return order + run.place + (rank - run.rank);
    }
    *n = most_rows(c) - SL_MIN(rank, most_rows(c)); // of a plain graph: the order goes on
    return order + rank;
}

// Goes on until `rows` of a range are near, or something else is wanted. False: no more are.
static bool fill(struct sl_cache *c, uint32_t range, uint32_t rows)
{
    struct sl_cache_near *near = &c->near[range];
    const uint32_t piece = rows_a_piece(c, range);
    const uint32_t first = near->n_rows, half = first + (rows - first) / 2;
    while (near->n_rows < rows && goes_on(c)) {
        uint64_t there;
        const uint32_t *vertices = vertices_from(c, range, near->n_rows, &there);
        const uint32_t n = (uint32_t)SL_MIN(SL_MIN(piece, rows - near->n_rows), there);
        if (load(c, range, vertices, n, near->rows + near->n_rows * row_bytes(c, range)) < 0) {
            warn_of_fill(c);
            return false;
        }
        if (near->n_rows <= half && half < near->n_rows + n)
            SL_FAILPOINT(TRAINER_CACHE);
        near->n_rows += n;
    }
    return near->n_rows == rows;
}

// --- the parts that it holds ---------------------------------------------------------------------

// Where the `number`-th part begins in memory of parts that have room for so many elements each.
static char *part_of(const struct sl_cache *c, const char *memory, uint32_t number, uint64_t room)
{
    const uint64_t at = number * room * c->unit;
    return (char *)memory + (c->parts.is_mixed ? sl_align_up(at, (uint64_t)ALIGN) : at);
}

// The vertices of n ranks of a range, each `step` behind the one before, as far as there are some.
static uint32_t list_ranks(const struct sl_cache *c, uint32_t range, uint64_t first, uint64_t step,
                           uint64_t n, uint32_t *out)
{
    uint32_t found = 0;
    while (found < n) {
        uint64_t there;
        const uint32_t *vertices = vertices_from(c, range, first + found * step, &there);
        if (there == 0)
            break;
        for (uint64_t i = 0; i < there && found < n; i += step)
            out[found++] = vertices[i];
    }
    return found;
}

// Of a range the rows of a part that come with elements [from, from + n).
static int load_range(struct sl_cache *c, uint32_t range, uint32_t part, uint64_t from, uint64_t n,
                      char *memory)
{
    const struct sl_peer_export_layout *at = &c->parts.at;
    const struct place p = place_of(c, range, at->first, at->n_parts, c->parts.room);
    const uint64_t row = rows_there(c, range, &p, from);
    const uint64_t rows = rows_there(c, range, &p, from + n) - row;
    const uint64_t first = sl_visit_counts_rows(c->arena, range, at->first);
    if (rows == 0)
        return SL_OK;
    SL_TRY(sl_buffer_grow(&c->ids, c->compute.device, SL_BUFFER_HOST, rows * sizeof(uint32_t),
                          "the feature cache"));
    const uint32_t found =
        list_ranks(c, range, first + row * at->n_parts + part, at->n_parts, rows, c->ids.p);
    return found ? load(c, range, c->ids.p, found, memory + p.at + row * row_bytes(c, range))
                 : SL_OK;
}

// Elements [from, from + n) of a part, as far as there are vertices for them.
static int load_part(void *ctx, uint32_t part, uint64_t from, uint64_t n, uint64_t to)
{
    struct sl_cache *c = ctx;
    const uint32_t number = (uint32_t)((to - from) / c->parts.room);
    char *memory = part_of(c, c->parts.p, number, c->parts.room);
    for (uint32_t r = 0; r < c->n_ranges; r++)
        SL_TRY(load_range(c, r, part, from, n, memory));
    return SL_OK;
}

static bool fills_on(void *ctx)
{
    return goes_on(ctx);
}

// Goes on until all rows of the parts are there, or something else is wanted.
static void fill_parts(struct sl_cache *c)
{
    const struct sl_peer_export_source source = {
        .load = load_part,
        .goes_on = fills_on,
        .ctx = c,
        .piece = SL_MAX(PIECE_BYTES / SL_MAX(c->unit, (uint64_t)1), (uint64_t)1)};
    if (sl_peer_export_fill(&c->parts, c->plan.generation, c->generation, &source) < 0)
        warn_of_fill(c);
    sl_buffer_fini(&c->ids);
}

// --- what is wanted ------------------------------------------------------------------------------

struct wish {
    uint64_t asked;
    uint32_t generation;
    struct sl_peer_memory_plan plan;
    uint64_t near;                      // rows, with types of the mean width
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
    w->near = rows;
    if (sl_peer_export_layout(&c->parts, &w->plan, rows, &w->parts))
        w->near = w->plan.first;
    return true;
}

// That are to be near; none of a type without features.
static uint32_t rows_of(const struct sl_cache *c, const struct wish *w, uint32_t range)
{
    const uint64_t rows =
        w->generation && row_bytes(c, range) ? sl_visit_counts_rows(c->arena, range, w->near) : 0;
    return (uint32_t)SL_MIN(rows, most_rows(c));
}

// What is less than there is first, so that the others find its memory free.
static void make_room(struct sl_cache *c, const struct wish *w)
{
    for (uint32_t r = 0; r < c->n_ranges; r++) {
        if (w->generation != c->generation)
            c->near[r].n_rows = 0;
        if (rows_of(c, w, r) * row_bytes(c, r) < c->near[r].bytes)
            shrink(c, r, rows_of(c, w, r));
    }
}

static void fill_near(struct sl_cache *c, const struct wish *w)
{
    bool goes_on = true;
    for (uint32_t r = 0; r < c->n_ranges && goes_on; r++) {
        uint32_t rows = rows_of(c, w, r);
        if (rows * row_bytes(c, r) > c->near[r].bytes)
            rows = allocate(c, r, rows);
        goes_on = fill(c, r, rows);
    }
}

static void lay_out(struct sl_cache *c, const struct wish *w)
{
    const uint64_t start = sl_now_ns();
    make_room(c, w);
    c->asked = w->asked;
    c->generation = w->generation;
    c->plan = w->plan;
    publish(c); // the broker may count on what was given back
    const uint64_t before = rows_near(c);
    const uint64_t parts_before = c->parts.loaded;
    fill_near(c, w);
    if (c->parts.p || (w->parts.held && sl_peer_export_allocate(&c->parts, &w->parts)))
        fill_parts(c);
    sl_buffer_fini(&c->piece);
    const uint64_t loaded = rows_near(c) - before + c->parts.loaded - parts_before;
    if (loaded > 0) {
        const uint64_t took = sl_now_ns() - start;
        const struct held held = all_held(c);
        c->load_ns += took;
        sl_log_info("feature cache: %llu of %llu rows (%llu MiB), %llu of them loaded in %.3f s",
                    (unsigned long long)held.rows, (unsigned long long)c->source.dataset->n_nodes,
                    (unsigned long long)(held.bytes >> 20), (unsigned long long)loaded,
                    (double)took / 1e9);
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

void sl_cache_open(struct sl_cache *c)
{
    if (c->plan.n_parts > 0)
        sl_peer_import_open(&c->borrowed, &c->plan, c->generation);
}

void sl_cache_spread(struct sl_cache *c, const struct sl_block *block, uint32_t type,
                     struct sl_spread *out)
{
    const struct sl_peer_memory_plan *plan = &c->plan;
    *out = (struct sl_spread){0};
    if (!(block->flags & SL_BLOCK_HAS_RANKS) || block->rank_generation != c->generation)
        return;
    out->near = c->near[type].rows;
    out->n_near = c->near[type].n_rows;
    if (plan->n_parts == 0)
        return;
    const uint64_t end = plan->first + plan->n_parts * plan->part_elements;
    out->n_parts = plan->n_parts;
    out->first = SL_MIN(sl_visit_counts_rows(c->arena, type, plan->first), most_rows(c));
    out->end = SL_MIN(sl_visit_counts_rows(c->arena, type, end), most_rows(c));
    for (uint32_t i = 0; i < plan->n_parts; i++) {
        struct sl_peer_import_part part;
        if (!sl_peer_export_part(&c->parts, &c->borrowed, plan, i, &part))
            continue;
        const struct place p = place_of(c, type, plan->first, plan->n_parts, part.room);
        out->part[i] = (struct sl_part){part_of(c, part.memory, part.number, part.room) + p.at,
                                        rows_there(c, type, &p, part.elements)};
    }
}

bool sl_cache_is_good(struct sl_cache *c)
{
    return sl_peer_import_is_good(&c->borrowed);
}

void sl_cache_count(struct sl_cache *c, uint32_t type, const struct sl_hits *hits, uint64_t misses)
{
    const uint32_t n_devices = c->arena->h->spec.n_devices;
    const uint64_t each = row_bytes(c, type);
    uint64_t own = hits->near;
    for (uint32_t i = 0; i < c->plan.n_parts; i++) {
        const uint64_t rows = hits->part[i];
        if (c->parts.at.held >> i & 1)
            own += rows;
        else if (rows > 0)
            sl_peer_memory_count(c->arena, SL_PEER_MEMORY_FEATURES, c->device,
                                 c->plan.from[c->device][i], rows * each);
    }
    if (own > 0)
        sl_peer_memory_count(c->arena, SL_PEER_MEMORY_FEATURES, c->device, c->device, own * each);
    if (misses > 0)
        sl_peer_memory_count(c->arena, SL_PEER_MEMORY_FEATURES, c->device, n_devices,
                             misses * each);
}
