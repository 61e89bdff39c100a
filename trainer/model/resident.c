#include "trainer/model/resident.h"

#include <string.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "trainer/model/sources.h"

enum {
    PART_BYTES = 8 << 20, // read and copied at a time
    FREE_DIVISOR = 8,     // of the device that a copy leaves free
    PIN_DIVISOR = 2,      // of the machine's available memory that may be pinned
};

// ---- the whole matrix ---------------------------------------------------------------------------

void sl_resident_release(struct sl_resident *r)
{
    if (r->copy)
        r->device->memory.free(r->copy, r->bytes);
    if (r->mapped && r->mapped != r->kept.mapped)
        r->device->unmap((void *)(uintptr_t)r->host);
    r->copy = r->mapped = NULL;
    r->host = NULL;
    r->too_large = r->unmappable = false;
    r->gathered = 0;
}

void sl_resident_fini(struct sl_resident *r)
{
    sl_resident_release(r);
    if (r->kept.mapped)
        r->device->unmap((void *)(uintptr_t)r->kept.host);
    r->kept.mapped = NULL;
    sl_buffer_fini(&r->staging);
    sl_buffer_fini(&r->raw);
}

bool sl_resident_has(const struct sl_resident *r, const void *host, uint64_t tag)
{
    return r->copy && r->host == host && r->tag == tag;
}

bool sl_resident_shrink(struct sl_resident *r)
{
    if (!r->copy)
        return false;
    r->device->memory.free(r->copy, r->bytes);
    r->copy = NULL;
    r->too_large = true;
    sl_log_debug("inference: %llu MiB on the device are freed for the work",
                 (unsigned long long)(r->bytes >> 20));
    return true;
}

static bool allows(const struct sl_resident *r, enum sl_resident_way way)
{
    return r->way == SL_RESIDENT_AUTO || r->way == way;
}

// Whether a copy may be made now; r->too_large where there will be none.
static int may_copy(struct sl_resident *r, bool range, bool *out)
{
    *out = false;
    if (r->too_large || !allows(r, SL_RESIDENT_COPY))
        return SL_OK;
    uint64_t room, total;
    SL_TRY(r->device->space(&room, &total));
    r->too_large = r->bytes + total / FREE_DIVISOR > room;
    *out = !r->too_large && (range || r->gathered >= r->bytes || r->way == SL_RESIDENT_COPY);
    return SL_OK;
}

static int fill_copy(const struct sl_resident *r)
{
    const struct sl_resident_watch *watch = &r->watch;
    for (uint64_t at = 0, n; at < r->bytes; at += n) {
        n = SL_MIN(r->bytes - at, (uint64_t)PART_BYTES);
        if (watch->before)
            SL_TRY(watch->before(watch->ctx, n));
        sl_advise((const char *)r->host + at, SL_MIN(r->bytes - at, 2 * (uint64_t)PART_BYTES),
                  MADV_WILLNEED); // the next part, while this one is copied
        SL_TRY(r->device->copy((char *)r->copy + at, (const char *)r->host + at, n));
        if (watch->bounded)
            SL_TRY(r->device->sync()); // its pages may be taken away now
    }
    return r->device->sync();
}

static int make_copy(struct sl_resident *r)
{
    r->copy = r->device->memory.alloc(r->bytes);
    if (!r->copy) { // others were faster
        r->too_large = true;
        return SL_OK;
    }
    int rc = fill_copy(r);
    if (rc < 0) {
        sl_resident_shrink(r);
        return rc;
    }
    sl_log_debug("inference: %llu MiB are copied to the device",
                 (unsigned long long)(r->bytes >> 20));
    return SL_OK;
}

static bool pin(struct sl_resident *r)
{
    const bool stays = r->stays && r->host == r->stays;
    if (r->watch.bounded || (!stays && r->bytes > sl_device_memory_available() / PIN_DIVISOR))
        return false;
    sl_advise(r->host, r->bytes, MADV_SEQUENTIAL); // what is not in memory yet is read now
    int rc = r->device->map((void *)(uintptr_t)r->host, r->bytes, true, &r->mapped);
    sl_advise(r->host, r->bytes, MADV_NORMAL);
    return rc == SL_OK;
}

// Only what is too large for a copy.
static void try_map(struct sl_resident *r)
{
    bool wanted = r->way == SL_RESIDENT_MAPPED || (r->way == SL_RESIDENT_AUTO && r->too_large);
    if (!wanted || r->unmappable)
        return;
    if (r->kept.mapped && r->kept.host == r->host && r->kept.bytes == r->bytes) {
        r->mapped = r->kept.mapped;
        return;
    }
    r->unmappable = !pin(r);
    if (r->unmappable)
        r->mapped = NULL;
    else if (r->lasting && !r->kept.mapped) {
        r->kept.host = r->host;
        r->kept.bytes = r->bytes;
        r->kept.mapped = r->mapped;
    }
    sl_log_debug("inference: %llu MiB are %s", (unsigned long long)(r->bytes >> 20),
                 r->unmappable ? "gathered by the processor" : "read in place");
}

// *out: where the device reads the matrix; NULL: rows have to be brought to it.
static int find_matrix(struct sl_resident *r, const struct sl_layer_env *env,
                       const struct sl_resident_matrix *m, bool range, const void **out)
{
    uint64_t bytes = m->n_rows * m->dim * sl_dtype_bytes(m->dtype);
    if (r->host != m->p || r->tag != m->tag || r->bytes != bytes) {
        sl_resident_release(r);
        r->host = m->p;
        r->bytes = bytes;
        r->tag = m->tag;
        r->device = env->device;
        r->lasting = m->lasting;
        r->too_large = r->unmappable = m->partial;
    }
    bool copies = false;
    if (!r->copy && !r->mapped)
        SL_TRY(may_copy(r, range, &copies));
    if (copies)
        SL_TRY(make_copy(r));
    if (!r->copy && !r->mapped)
        try_map(r);
    *out = r->copy ? r->copy : r->mapped;
    return SL_OK;
}

// ---- some rows of it ----------------------------------------------------------------------------

// x (n, dim), the processor's = the rows of `ids`, as f32.
static int take_file_rows(struct sl_resident *r, const struct sl_layer_env *env,
                          const struct sl_resident_matrix *m, const uint32_t *ids, uint32_t n,
                          float *x)
{
    const struct sl_kernels *kernels = sl_kernels_cpu();
    if (!m->source)
        return kernels->gather_rows(m->p, m->dtype, m->n_rows, m->dim, ids, n, x);
    if (m->dtype == SL_DTYPE_F32)
        return sl_rows_copy(m->source, kernels, ids, NULL, n, n, x);
    uint32_t *places = sl_layer_note(env, n * sizeof *places);
    if (!places)
        return SL_ENOMEM;
    SL_TRY(sl_buffer_grow(&r->raw, env->device, SL_BUFFER_HOST,
                          (size_t)n * m->dim * sl_dtype_bytes(m->dtype), "rows that were read"));
    SL_TRY(sl_rows_copy(m->source, kernels, ids, NULL, n, n, r->raw.p));
    for (uint32_t i = 0; i < n; i++)
        places[i] = i;
    return kernels->gather_rows(r->raw.p, m->dtype, n, m->dim, places, n, x);
}

// The same, with learned columns behind those of the file.
static int take_rows(struct sl_resident *r, const struct sl_layer_env *env,
                     const struct sl_resident_matrix *m, const uint32_t *ids, uint32_t n, float *x)
{
    const struct sl_learned_rows *learned = m->learned;
    if (!learned)
        return take_file_rows(r, env, m, ids, n, x);
    struct sl_resident_matrix file = *m;
    file.learned = NULL;
    file.dim = learned->from;
    float *own = sl_layer_floats(env, (uint64_t)n * file.dim);
    if (!own)
        return SL_ENOMEM;
    SL_TRY(take_file_rows(r, env, &file, ids, n, own));
    return sl_learned_join(learned, ids, n, own, x);
}

// x (n, dim), the device's = the rows of `ids`, as f32.
static int bring_rows(struct sl_resident *r, const struct sl_layer_env *env,
                      const struct sl_resident_matrix *m, const uint32_t *ids, uint32_t n, float *x)
{
    const size_t row = m->dim * sizeof(float);
    const uint32_t part = (uint32_t)SL_MAX(PART_BYTES / row, (size_t)1);
    if (env->device->is_host)
        return take_rows(r, env, m, ids, n, x);
    SL_TRY(sl_buffer_grow(&r->staging, env->device, SL_BUFFER_HOST, 2 * part * row,
                          "rows on their way to the device"));
    for (uint32_t at = 0, k = 0; at < n; at += part, k ^= 1) {
        const uint32_t rows = SL_MIN(part, n - at);
        float *half = (float *)r->staging.p + (size_t)k * part * m->dim;
        SL_TRY(take_rows(r, env, m, ids + at, rows, half));
        SL_TRY(env->device->sync()); // the part before: its half is the next one's
        SL_TRY(env->device->copy(x + (size_t)at * m->dim, half, rows * row));
    }
    r->gathered += n * row;
    return env->device->sync();
}

// The different vertices of the piece, sources and rows, get the first rows of an x of their own.
static int gather_piece(struct sl_resident *r, const struct sl_layer_env *env,
                        const struct sl_resident_matrix *m, struct sl_infer_piece *piece)
{
    const struct sl_csr_view *lists = &piece->lists;
    const uint64_t n = (uint64_t)lists->n_edges + lists->n_dst;
    uint32_t *all = sl_layer_note(env, n * sizeof *all);
    if (!all)
        return SL_ENOMEM;
    memcpy(all, lists->indices, lists->n_edges * sizeof *all);
    memcpy(all + lists->n_edges, piece->ids, lists->n_dst * sizeof *all);
    struct sl_source_numbering different;
    SL_TRY(sl_sources_number(env, all, n, lists->n_src, &different));
    float *x = sl_layer_floats(env, (uint64_t)different.n * m->dim);
    if (!x)
        return SL_ENOMEM;
    SL_TRY(bring_rows(r, env, m, different.ids, different.n, x));
    piece->x = x;
    piece->x_dtype = SL_DTYPE_F32;
    piece->x_ids = different.ids;
    piece->csr.n_src = different.n;
    SL_TRY(sl_layer_upload_words(env, different.local, lists->n_edges, &piece->csr.indices));
    return sl_layer_upload_words(env, different.local + lists->n_edges, lists->n_dst, &piece->self);
}

int sl_resident_place(struct sl_resident *r, const struct sl_layer_env *env,
                      const struct sl_resident_matrix *matrix, bool range,
                      struct sl_infer_piece *piece)
{
    const struct sl_csr_view *lists = &piece->lists;
    const void *x = matrix->p;
    piece->csr = *lists;
    piece->x_ids = NULL;
    SL_TRY(
        sl_layer_upload_words(env, lists->indptr, (uint64_t)lists->n_dst + 1, &piece->csr.indptr));
    SL_TRY(sl_layer_upload_floats(env, piece->list_weights, lists->n_edges, &piece->weights));
    if (matrix->source || matrix->learned)
        x = NULL;
    else if (!env->device->is_host)
        SL_TRY(find_matrix(r, env, matrix, range, &x));
    if (!x)
        return gather_piece(r, env, matrix, piece);
    piece->x = x;
    piece->x_dtype = matrix->dtype;
    SL_TRY(sl_layer_upload_words(env, lists->indices, lists->n_edges, &piece->csr.indices));
    return sl_layer_upload_words(env, piece->ids, lists->n_dst, &piece->self);
}
