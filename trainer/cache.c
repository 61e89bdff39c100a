#include "trainer/cache.h"

#include <string.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/mempool.h"
#include "common/ipc/hot.h"

// Filled between two looks at the abort word and at the seat: a few milliseconds.
enum { PIECE_BYTES = 4 << 20 };

static uint64_t row_bytes(const struct sl_cache *c)
{
    return c->dataset->feat_dim * sl_dtype_bytes(c->dataset->feat_dtype);
}

static bool stopping(const struct sl_cache *c)
{
    return sl_arena_aborted(c->arena) ||
           (c->stop && atomic_load_explicit(c->stop, memory_order_relaxed));
}

static void publish(const struct sl_cache *c)
{
    struct sl_seat *seat = c->seat;
    atomic_store_explicit(&seat->cache_generation, c->generation, memory_order_relaxed);
    atomic_store_explicit(&seat->cache_loaded, c->n_rows, memory_order_relaxed);
    atomic_store_explicit(&seat->cache_load_ns, c->load_ns, memory_order_relaxed);
}

void sl_cache_init(struct sl_cache *c, struct sl_arena *arena, uint32_t seat,
                   const struct sl_dataset *dataset, const struct sl_kernels *kernels,
                   const _Atomic bool *stop)
{
    *c = (struct sl_cache){.arena = arena,
                           .seat = sl_seat(arena, seat),
                           .dataset = dataset,
                           .kernels = kernels,
                           .stop = stop};
}

static void give_back(struct sl_cache *c)
{
    sl_pages_free(c->rows, c->bytes);
    c->rows = NULL;
    c->bytes = 0;
    c->n_rows = 0;
}

void sl_cache_fini(struct sl_cache *c)
{
    give_back(c);
}

static void shrink(struct sl_cache *c, uint32_t rows)
{
    if (rows == 0) {
        give_back(c);
        return;
    }
    c->n_rows = SL_MIN(c->n_rows, rows);
    c->bytes = sl_pages_trim(c->rows, c->bytes, rows * row_bytes(c));
}

// Memory for as many of `rows` as there is memory for; returns how many. What was loaded is gone:
// old and new memory together could be more than the device has.
static uint32_t allocate(struct sl_cache *c, uint32_t rows)
{
    give_back(c);
    // Anonymous memory is promised before it is there. An eighth of what is left stays for others.
    uint64_t available = sl_device_memory_available() / 8 * 7;
    uint32_t fit = (uint32_t)SL_MIN((uint64_t)rows, available / row_bytes(c));
    while (fit > 0 && !(c->rows = sl_pages_alloc(fit * row_bytes(c))))
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
    const struct sl_dataset *ds = c->dataset;
    uint64_t bytes = row_bytes(c);
    char *to = c->rows + c->n_rows * bytes;
    // The back end moves f32 as they are and on all cores, so rows of whole words go its way,
    // whatever they hold.
    if (bytes % sizeof(float) == 0)
        return c->kernels->gather_rows(ds->feat, SL_DTYPE_F32, ds->n_nodes,
                                       (uint32_t)(bytes / sizeof(float)), vertices, n,
                                       (float *)(void *)to);
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + i * bytes, (const char *)ds->feat + vertices[i] * bytes, bytes);
    return SL_OK;
}

// Goes on until `rows` are there, or something else is wanted.
static void fill(struct sl_cache *c, uint32_t rows)
{
    const uint32_t *order = sl_hot_order(c->arena);
    uint32_t piece = (uint32_t)SL_MAX(PIECE_BYTES / row_bytes(c), (uint64_t)1);
    uint32_t first = c->n_rows, half = first + (rows - first) / 2;
    while (c->n_rows < rows && !stopping(c) &&
           atomic_load_explicit(&c->seat->cache_rows, memory_order_relaxed) == c->asked) {
        uint32_t n = SL_MIN(piece, rows - c->n_rows);
        if (load(c, order + c->n_rows, n) < 0) {
            sl_log_warn("feature cache: %u of %u rows loaded: %s", c->n_rows, rows,
                        sl_error_message());
            return;
        }
        if (c->n_rows <= half && half < c->n_rows + n)
            SL_FAILPOINT(TRAINER_CACHE);
        c->n_rows += n;
    }
}

void sl_cache_refresh(struct sl_cache *c)
{
    for (;;) {
        uint64_t asked = atomic_load_explicit(&c->seat->cache_rows, memory_order_relaxed);
        uint32_t generation = sl_hot_generation(c->arena);
        if ((asked == c->asked && generation == c->generation) || stopping(c))
            return;
        uint64_t start = sl_now_ns();
        if (generation != c->generation)
            c->n_rows = 0;
        c->asked = asked;
        c->generation = generation;
        uint64_t most = SL_MIN(c->arena->h->spec.hot_rows, c->dataset->n_nodes);
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
                    (unsigned long long)c->dataset->n_nodes,
                    (unsigned long long)(c->n_rows * row_bytes(c) >> 20), (double)took / 1e9);
    }
}
