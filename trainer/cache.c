#include "trainer/cache.h"

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/mempool.h"
#include "common/ipc/hot.h"

// Filled between two looks at the abort word and at the seat: a few milliseconds.
enum { PIECE_BYTES = 4 << 20 };

static uint64_t row_bytes(const struct sl_cache *c)
{
    return sl_rows_bytes(c->source.dataset);
}

static void publish(const struct sl_cache *c)
{
    struct sl_seat *seat = c->seat;
    atomic_store_explicit(&seat->cache_generation, c->generation, memory_order_relaxed);
    atomic_store_explicit(&seat->cache_loaded, c->n_rows, memory_order_relaxed);
    atomic_store_explicit(&seat->cache_load_ns, c->load_ns, memory_order_relaxed);
}

void sl_cache_init(struct sl_cache *c, struct sl_arena *arena, uint32_t seat,
                   const struct sl_dataset *dataset, const struct sl_compute *compute,
                   const struct sl_pulse *pulse)
{
    *c = (struct sl_cache){.arena = arena,
                           .seat = sl_seat(arena, seat),
                           .source.dataset = dataset,
                           .compute = *compute,
                           .pulse = pulse};
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
    give_back(c);
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

// Rows [c->n_rows, c->n_rows + n): copies, bit for bit.
static int load(struct sl_cache *c, const uint32_t *vertices, uint32_t n)
{
    const struct sl_device *device = c->compute.device;
    const struct sl_kernels *kernels = sl_compute_on_host(&c->compute);
    char *to = c->rows + c->n_rows * row_bytes(c);
    if (device->is_host)
        return sl_rows_copy(&c->source, kernels, vertices, NULL, n, n, to);
    SL_TRY(
        sl_buffer_grow(&c->piece, device, SL_BUFFER_HOST, n * row_bytes(c), "the feature cache"));
    SL_TRY(sl_rows_copy(&c->source, kernels, vertices, NULL, n, n, c->piece.p));
    SL_TRY(device->copy(to, c->piece.p, n * row_bytes(c)));
    return device->sync();
}

// Goes on until `rows` are there, or something else is wanted.
static void fill(struct sl_cache *c, uint32_t rows)
{
    const uint32_t *order = sl_hot_order(c->arena);
    uint32_t piece = (uint32_t)SL_MAX(PIECE_BYTES / row_bytes(c), (uint64_t)1);
    uint32_t first = c->n_rows, half = first + (rows - first) / 2;
    while (c->n_rows < rows && !sl_pulse_stopping(c->pulse) &&
           atomic_load_explicit(&c->seat->cache_rows, memory_order_relaxed) == c->asked) {
        uint32_t n = SL_MIN(piece, rows - c->n_rows);
        if (load(c, order + c->n_rows, n) < 0) {
            sl_log_warn("feature cache: %u of %u rows loaded: %s", c->n_rows, rows,
                        sl_error_message());
            break;
        }
        if (c->n_rows <= half && half < c->n_rows + n)
            SL_FAILPOINT(TRAINER_CACHE);
        c->n_rows += n;
    }
    sl_buffer_fini(&c->piece);
}

void sl_cache_refresh(struct sl_cache *c)
{
    for (;;) {
        uint64_t asked = atomic_load_explicit(&c->seat->cache_rows, memory_order_relaxed);
        uint32_t generation = sl_hot_generation(c->arena);
        if ((asked == c->asked && generation == c->generation) || sl_pulse_stopping(c->pulse))
            return;
        uint64_t start = sl_now_ns();
        if (generation != c->generation)
            c->n_rows = 0;
        c->asked = asked;
        c->generation = generation;
        uint64_t most = SL_MIN(c->arena->h->spec.hot_rows, c->source.dataset->n_nodes);
        uint32_t rows =
            generation ? (uint32_t)SL_MIN(asked, SL_MIN(most, (uint64_t)UINT32_MAX)) : 0;
        if (rows * row_bytes(c) < c->bytes)
            shrink(c, rows);
        publish(c); // the broker may count on what was given back
        if (rows * row_bytes(c) > c->bytes)
            rows = allocate(c, rows);
        if (rows == c->n_rows) {
            publish(c);
            continue;
        }
        fill(c, rows);
        uint64_t took = sl_now_ns() - start;
        c->load_ns += took;
        publish(c);
        sl_log_info("feature cache: %u of %llu rows (%llu MiB) loaded in %.3f s", c->n_rows,
                    (unsigned long long)c->source.dataset->n_nodes,
                    (unsigned long long)(c->n_rows * row_bytes(c) >> 20), (double)took / 1e9);
    }
}
