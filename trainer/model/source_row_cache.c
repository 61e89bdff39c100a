#include "trainer/model/source_row_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/memory.h"

enum { MEMORY_DIVISOR = 4, CHUNK_ROWS = 4096 };

// ---- memory -------------------------------------------------------------------------------------

void sl_source_row_cache_begin(struct sl_source_row_cache *kept, uint64_t tag)
{
    if (kept->tag == tag)
        return;
    kept->tag = tag;
    kept->refused = false;
    kept->n = 0;
}

void sl_source_row_cache_free(struct sl_source_row_cache *kept)
{
    sl_pages_free(kept->memory, kept->bytes);
    free(kept->has);
    *kept = (struct sl_source_row_cache){0};
}

// Room for so many bytes of rows and for a bit each; false where that is too much.
static bool make_room(struct sl_source_row_cache *kept, uint64_t bytes, uint64_t n_nodes)
{
    if (kept->bytes < bytes) {
        const uint64_t may = sl_device_memory_available() / MEMORY_DIVISOR / kept->sharers;
        sl_pages_free(kept->memory, kept->bytes);
        kept->memory = bytes <= may + kept->bytes ? sl_pages_alloc(bytes) : NULL;
        kept->bytes = kept->memory ? bytes : 0;
    }
    if (kept->has_rows < n_nodes) {
        free(kept->has);
        kept->has = malloc((n_nodes / 64 + 1) * sizeof *kept->has);
        kept->has_rows = kept->has ? n_nodes : 0;
    }
    return kept->memory && kept->has;
}

// Lays the matrices out, without any row.
static bool lay_out(struct sl_source_row_cache *kept, uint64_t n_nodes, uint32_t n,
                    const uint32_t *width)
{
    uint64_t floats = 0, at[SL_KEPT_MATRICES];
    for (uint32_t m = 0; m < n; m++) {
        at[m] = floats;
        floats += sl_align_up(n_nodes * width[m], SL_CACHE_LINE / sizeof(float));
    }
    if (!make_room(kept, floats * sizeof(float), n_nodes))
        return false;
    memset(kept->has, 0, (n_nodes / 64 + 1) * sizeof *kept->has);
    for (uint32_t m = 0; m < n; m++) {
        kept->matrix[m] = kept->memory + at[m];
        kept->width[m] = width[m];
    }
    kept->n_nodes = n_nodes;
    kept->n = n;
    return true;
}

// ---- rows of sources ----------------------------------------------------------------------------

// Those of n vertices whose rows are not there, each once; from now on they count as there.
static uint32_t take_missing(struct sl_source_row_cache *kept, const uint32_t *ids, uint32_t n,
                             uint32_t *missing)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t bit = (uint64_t)1 << (ids[i] % 64);
        uint64_t *word = &kept->has[ids[i] / 64];
        if (*word & bit)
            continue;
        *word |= bit;
        missing[count++] = ids[i];
    }
    return count;
}

struct workshop {
    const struct sl_layer_env *env;
    const struct sl_layer *layer;
    const float *params;
    const struct sl_infer_piece *piece;
    sl_source_row_cache_make *make;
    float *x, *out[SL_KEPT_MATRICES];
};

static int make_chunk(struct workshop *w, const uint32_t *ids, uint32_t n)
{
    struct sl_source_row_cache *kept = w->piece->kept;
    const struct sl_kernels *kernels = w->env->kernels;
    SL_TRY(kernels->gather_rows(w->piece->x, w->piece->x_dtype, kept->n_nodes, w->layer->d_in, ids,
                                n, w->x));
    SL_TRY(w->make(w->env, w->layer, w->params, w->x, n, w->out));
    for (uint32_t m = 0; m < kept->n; m++)
        SL_TRY(kernels->scatter_rows(w->out[m], kept->width[m], ids, n, kept->n_nodes,
                                     kept->matrix[m]));
    kept->made += n;
    return SL_OK;
}

static int make_rows(struct workshop *w, const uint32_t *ids, uint32_t n)
{
    const struct sl_source_row_cache *kept = w->piece->kept;
    const uint64_t rows = SL_MIN(n, (uint32_t)CHUNK_ROWS);
    if (n == 0)
        return SL_OK;
    w->x = sl_layer_floats(w->env, rows * w->layer->d_in);
    if (!w->x)
        return SL_ENOMEM;
    for (uint32_t m = 0; m < kept->n; m++)
        if (!(w->out[m] = sl_layer_floats(w->env, rows * kept->width[m])))
            return SL_ENOMEM;
    for (uint32_t at = 0; at < n; at += CHUNK_ROWS)
        SL_TRY(make_chunk(w, ids + at, SL_MIN(n - at, (uint32_t)CHUNK_ROWS)));
    return SL_OK;
}

int sl_source_row_cache_bring(const struct sl_layer_env *env, const struct sl_layer *layer,
                              const float *params, const struct sl_infer_piece *piece, uint32_t n,
                              const uint32_t *width, sl_source_row_cache_make *make, bool *there)
{
    struct sl_source_row_cache *kept = piece->kept;
    const struct sl_csr_view *lists = &piece->lists;
    *there = false;
    if (!kept || kept->refused)
        return SL_OK;
    kept->refused = kept->n == 0 && !lay_out(kept, lists->n_src, n, width);
    if (kept->refused)
        return SL_OK;
    uint32_t *missing =
        sl_layer_note(env, ((size_t)lists->n_edges + lists->n_dst) * sizeof *missing);
    if (!missing)
        return SL_ENOMEM;
    uint32_t count = take_missing(kept, lists->indices, lists->n_edges, missing);
    count += take_missing(kept, piece->ids, lists->n_dst, missing + count);
    struct workshop w = {
        .env = env, .layer = layer, .params = params, .piece = piece, .make = make};
    int rc = make_rows(&w, missing, count);
    if (rc < 0)
        kept->n = 0; // rows that count as there are not: all begin anew
    *there = rc == SL_OK;
    return rc;
}

// ---- sums ---------------------------------------------------------------------------------------

static bool has_all(const struct sl_source_row_cache *kept, const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(kept->has[ids[i] / 64] >> (ids[i] % 64) & 1))
            return false;
    return true;
}

// Whether sums of this piece are kept at all, with room for them.
static bool keeps_sums(const struct sl_infer_piece *piece, uint32_t dim)
{
    struct sl_source_row_cache *kept = piece->kept_sums;
    if (!kept || kept->refused)
        return false;
    kept->refused = kept->n == 0 && !lay_out(kept, piece->lists.n_src, 1, &dim);
    return !kept->refused;
}

int sl_kept_sums_take(const struct sl_layer_env *env, const struct sl_infer_piece *piece,
                      uint32_t dim, float **rows, bool *there)
{
    const struct sl_source_row_cache *kept = piece->kept_sums;
    const uint32_t n = piece->lists.n_dst;
    const bool keeps = keeps_sums(piece, dim);
    *there = keeps && has_all(kept, piece->ids, n);
    // A run of vertices is added up and read where it is kept.
    if (keeps && piece->is_run) {
        *rows = kept->matrix[0] + (uint64_t)piece->ids[0] * dim;
        return SL_OK;
    }
    *rows = sl_layer_floats(env, (uint64_t)n * dim);
    if (!*rows)
        return SL_ENOMEM;
    return *there ? env->kernels->gather_rows(kept->matrix[0], SL_DTYPE_F32, kept->n_nodes, dim,
                                              piece->ids, n, *rows)
                  : SL_OK;
}

int sl_kept_sums_leave(const struct sl_infer_piece *piece, uint32_t dim, const float *rows)
{
    struct sl_source_row_cache *kept = piece->kept_sums;
    const uint32_t n = piece->lists.n_dst;
    if (!keeps_sums(piece, dim))
        return SL_OK;
    if (!piece->is_run)
        SL_TRY(sl_kernels_cpu()->scatter_rows(rows, dim, piece->ids, n, kept->n_nodes,
                                              kept->matrix[0]));
    for (uint32_t i = 0; i < n; i++)
        kept->has[piece->ids[i] / 64] |= (uint64_t)1 << (piece->ids[i] % 64);
    kept->made += n;
    return SL_OK;
}
