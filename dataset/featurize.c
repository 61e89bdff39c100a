/*
 *   data set --> plan: types and relations, in rounds
 *                  |
 *   a type:  blocks of its vertices, whose sums fit the memory
 *              by each relation, by each window of its source type's rows
 *                every vertex of the block adds its neighbours in the window
 *              sums / numbers of edges --> node_feat.TYPE.npy
 *
 * The lists of neighbours rise, so a vertex takes them in their order whatever the windows are: a
 * cursor for each vertex stands where the last window ended. Sums are the same to the bit, with any
 * memory and any number of threads. Where the sources fit into the memory there is one window; else
 * each is read ahead as a whole, from the beginning to the end of the file, once for each block:
 * never here and there. (Lists that do not rise, which a data set of somebody else's may have, have
 * one window.)
 *
 * Each edge counts once, whatever it weighs. Sums are float32.
 */
#include "dataset/featurize.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "common/base/advise.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/half.h"
#include "common/base/interrupt.h"
#include "common/base/memory.h"
#include "common/base/simd.h"
#include "common/base/threads.h"
#include "common/data/dataset.h"
#include "common/data/npy.h"
#include "common/text/units.h"
#include "dataset/featurize_plan.h"
#include "dataset/metadata.h"

enum {
    CHUNK = 64,              // rows that a thread takes
    AHEAD = 8,               // edges
    AHEAD_BYTES = 1024,      // of a row
    BLOCK_BYTES = 256 << 20, // of sums, where the sources are read once
};

struct features {
    const void *data;  // borrowed
    struct sl_npy npy; // of those that were made
};

struct pass {
    struct sl_featurize *run;
    struct sl_dataset ds;
    struct sl_featurize_plan plan;
    struct features *of; // (n_types)
    uint64_t *n_bare;    // (n_steps) vertices without neighbours
    int n_threads;

    // A block.
    const struct sl_featurize_step *step;
    uint64_t first, n_rows; // of the type's vertices
    float *sums;            // (n_rows, dim)
    uint64_t *cursor;       // (n_rows) the next edge
    // Of it a relation and a window.
    const struct sl_relation *relation;
    uint64_t end; // the id behind the window's last vertex
    _Atomic uint64_t next, bare, bad;
};

// ---- sums ---------------------------------------------------------------------------------------

SL_SIMD_VOID(add_floats, (float *sum, const float *x, uint32_t n), (sum, x, n))
{
    for (uint32_t i = 0; i < n; i++)
        sum[i] += x[i];
}

// Finite numbers without a branch: the exponent is moved by a product, which is exact.
SL_SIMD_VOID(add_halves, (float *sum, const uint16_t *x, uint32_t n), (sum, x, n))
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)(x[i] & 0x8000u) << 16 | (uint32_t)(x[i] & 0x7fffu) << 13;
        sum[i] += sl_float_of_bits(bits) * 0x1p112f;
    }
}

static void prefetch(const char *row, size_t bytes)
{
    for (size_t at = 0; at < SL_MIN(bytes, (size_t)AHEAD_BYTES); at += 64)
        __builtin_prefetch(row + at);
}

// Adds the neighbours of row i of the block that are in the window; how many.
static uint64_t add_row(struct pass *p, uint64_t i)
{
    const struct sl_vertex_type *source = &p->ds.typed.type[p->relation->source];
    const char *from = p->of[p->relation->source].data;
    const uint32_t dim = p->step->dim;
    const bool half = p->plan.dtype[p->relation->source] == SL_DTYPE_F16;
    const size_t bytes = dim * (half ? sizeof(uint16_t) : sizeof(float));
    const uint64_t end = p->ds.indptr[p->relation->first_row + p->first + i + 1];
    float *sum = p->sums + i * dim;
    uint64_t e = p->cursor[i], begin = e;
    for (; e < end; e++) {
        const uint64_t v = sl_dataset_source(&p->ds, e);
        if (v >= p->end)
            break;
        if (e + AHEAD < end)
            prefetch(from + (sl_dataset_source(&p->ds, e + AHEAD) - source->first) * bytes, bytes);
        const char *x = from + (v - source->first) * bytes;
        if (half)
            add_halves(sum, (const uint16_t *)(const void *)x, dim);
        else
            add_floats(sum, (const float *)(const void *)x, dim);
    }
    p->cursor[i] = e;
    return e - begin;
}

static bool take(struct pass *p, uint64_t *begin, uint64_t *end)
{
    *begin = CHUNK * atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
    *end = SL_MIN(*begin + CHUNK, p->n_rows);
    return *begin < p->n_rows && !sl_interrupt_seen();
}

static int add_rows(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end;
    while (take(p, &begin, &end)) {
        uint64_t n = 0;
        for (uint64_t i = begin; i < end; i++)
            n += add_row(p, i);
        sl_progress_add(&p->run->making.progress, n);
    }
    return SL_OK;
}

// Edges of row i by all relations of the step.
static uint64_t degree_of(const struct pass *p, uint64_t i)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < p->step->n_relations; k++) {
        const struct sl_relation *r = &p->ds.typed.relation[p->step->relation[k]];
        n += sl_dataset_degree(&p->ds, r->first_row + p->first + i);
    }
    return n;
}

// A row's sums become its features, float16 in the place of the first half of them.
static bool finish_row(struct pass *p, uint64_t i, uint64_t n)
{
    const uint32_t dim = p->step->dim;
    float *sum = p->sums + i * dim;
    bool finite = true;
    for (uint32_t d = 0; d < dim; d++) {
        const float x = n ? sum[d] / (float)n : 0;
        finite = finite && isfinite(x);
        if (p->step->dtype == SL_DTYPE_F16) {
            const uint16_t h = sl_half_from_float(x);
            memcpy((char *)sum + d * sizeof h, &h, sizeof h);
        } else {
            sum[d] = x;
        }
    }
    return finite;
}

static int finish_rows(void *context, int thread)
{
    struct pass *p = context;
    uint64_t begin, end;
    while (take(p, &begin, &end))
        for (uint64_t i = begin; i < end; i++) {
            const uint64_t n = degree_of(p, i);
            uint64_t bad = atomic_load(&p->bad);
            if (n == 0)
                atomic_fetch_add(&p->bare, 1);
            if (finish_row(p, i, n))
                continue;
            while (p->first + i < bad && !atomic_compare_exchange_weak(&p->bad, &bad, p->first + i))
                ;
        }
    return SL_OK;
}

static int run_threads(struct pass *p, int (*body)(void *, int))
{
    p->next = 0;
    SL_TRY(sl_threads_run(p->n_threads, body, p));
    return sl_interrupt_check();
}

// ---- blocks and windows -------------------------------------------------------------------------

// Rows of the type that a window has, of the memory that is for it.
static uint64_t window_rows(const struct pass *p, uint32_t type)
{
    const uint64_t n = p->ds.typed.type[type].n,
                   bytes = (uint64_t)p->step->dim * sl_dtype_bytes(p->plan.dtype[type]),
                   rows = SL_MAX(p->run->memory_bytes / 2 / bytes, (uint64_t)1);
    return p->ds.lists_rise ? SL_MIN(rows, n) : n;
}

// Whether n rows of the relation's sources, which are about to be read, are worth reading whole: a
// window's always, all there are once and where there are as many edges.
static bool is_read_ahead(const struct pass *p, uint64_t n, size_t bytes)
{
    const uint64_t all = p->ds.typed.type[p->relation->source].n;
    return n * bytes <= p->run->memory_bytes / 2 &&
           (n < all || (p->first == 0 && p->relation->n_edges >= all));
}

static int add_relation(struct pass *p, uint32_t relation)
{
    const struct sl_relation *r = p->relation = &p->ds.typed.relation[relation];
    const struct sl_vertex_type *source = &p->ds.typed.type[r->source];
    const uint64_t rows = window_rows(p, r->source);
    const size_t bytes = p->step->dim * sl_dtype_bytes(p->plan.dtype[r->source]);
    for (uint64_t i = 0; i < p->n_rows; i++)
        p->cursor[i] = p->ds.indptr[r->first_row + p->first + i];
    for (uint64_t at = 0; at < source->n; at += rows) {
        const uint64_t n = SL_MIN(rows, source->n - at);
        p->end = source->first + at + n;
        if (is_read_ahead(p, n, bytes))
            sl_advise((const char *)p->of[r->source].data + at * bytes, n * bytes, MADV_WILLNEED);
        SL_TRY(run_threads(p, add_rows));
    }
    return SL_OK;
}

static int append_block(const struct pass *p, struct sl_npy_writer *w)
{
    const size_t bytes = p->step->dim * sl_dtype_bytes(p->step->dtype);
    if (p->step->dtype == SL_DTYPE_F32)
        return sl_npy_writer_append(w, p->sums, p->n_rows * bytes);
    for (uint64_t i = 0; i < p->n_rows; i++)
        SL_TRY(sl_npy_writer_append(w, p->sums + i * p->step->dim, bytes));
    return SL_OK;
}

static int make_block(struct pass *p, struct sl_npy_writer *w)
{
    memset(p->sums, 0, p->n_rows * p->step->dim * sizeof *p->sums);
    for (uint32_t k = 0; k < p->step->n_relations; k++)
        SL_TRY(add_relation(p, p->step->relation[k]));
    SL_TRY(run_threads(p, finish_rows));
    if (p->bad != UINT64_MAX)
        return sl_fail(SL_EFORMAT,
                       "featurize %s: type %s, vertex %" PRIu64
                       ": the sum of its neighbours' features is beyond float32: scale the "
                       "features first",
                       p->ds.path, p->ds.typed.type[p->step->type].name, p->bad);
    return append_block(p, w);
}

// As many rows as the memory has room for; fewer where nothing is read again for another block.
static uint64_t block_rows(const struct pass *p)
{
    const uint64_t row = p->step->dim * sizeof *p->sums + sizeof *p->cursor;
    uint64_t bytes = p->run->memory_bytes / 2;
    bool once = true;
    for (uint32_t k = 0; k < p->step->n_relations; k++) {
        const uint32_t source = p->ds.typed.relation[p->step->relation[k]].source;
        once = once && window_rows(p, source) >= p->ds.typed.type[source].n;
    }
    if (once)
        bytes = SL_MIN(bytes, (uint64_t)BLOCK_BYTES);
    return SL_MIN(SL_MAX(bytes / row, (uint64_t)1), p->ds.typed.type[p->step->type].n);
}

static void begin_step(struct pass *p, const struct sl_featurize_step *step)
{
    uint64_t n_edges = 0;
    p->step = step;
    p->bare = 0;
    p->bad = UINT64_MAX;
    for (uint32_t k = 0; k < step->n_relations; k++)
        n_edges += p->ds.typed.relation[step->relation[k]].n_edges;
    sl_progress_begin(&p->run->making.progress, p->ds.typed.type[step->type].name, n_edges,
                      "edges");
}

static int make_blocks(struct pass *p, struct sl_npy_writer *w)
{
    const uint64_t n = p->ds.typed.type[p->step->type].n, rows = block_rows(p);
    p->sums = malloc(rows * p->step->dim * sizeof *p->sums);
    p->cursor = malloc(rows * sizeof *p->cursor);
    int rc = p->sums && p->cursor ? SL_OK
                                  : sl_fail(SL_ENOMEM,
                                            "featurize %s: no memory for the sums of %" PRIu64
                                            " vertices: give a smaller --memory",
                                            p->ds.path, rows);
    for (uint64_t at = 0; at < n && rc == SL_OK; at += rows) {
        p->first = at;
        p->n_rows = SL_MIN(rows, n - at);
        rc = make_block(p, w);
    }
    free(p->sums);
    free(p->cursor);
    p->sums = NULL;
    p->cursor = NULL;
    return rc;
}

static int make_step(struct pass *p, uint32_t number)
{
    const struct sl_featurize_step *s = &p->plan.step[number];
    const struct sl_vertex_type *type = &p->ds.typed.type[s->type];
    const uint64_t shape[2] = {type->n, s->dim};
    char path[SL_STAGING_PATH_BYTES], name[SL_TYPE_NAME_BYTES + 16];
    struct sl_npy_writer *w = NULL;
    begin_step(p, s);
    snprintf(name, sizeof name, "node_feat.%s.npy", type->name);
    sl_staging_file(&p->run->making.st, name, path);
    SL_TRY(sl_npy_writer_open(path, s->dtype, 2, shape, &w));
    int rc = sl_npy_writer_reserve(w);
    if (rc == SL_OK)
        rc = make_blocks(p, w);
    SL_TRY(sl_npy_writer_close(&w, rc));
    p->n_bare[number] = p->bare;
    SL_TRY(sl_npy_open(path, &p->of[s->type].npy));
    p->of[s->type].data = p->of[s->type].npy.data;
    return SL_OK;
}

// ---- the other files ----------------------------------------------------------------------------

static int is_shared(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return e->d_name[0] != '.' && dot && strcmp(dot, ".npy") == 0;
}

static int share_files(struct pass *p)
{
    char from[SL_STAGING_PATH_BYTES + 300], to[SL_STAGING_PATH_BYTES];
    struct dirent **entries;
    int n = scandir(p->ds.path, &entries, is_shared, alphasort), rc = SL_OK;
    if (n < 0)
        return sl_fail(SL_EIO, "%s: cannot be listed", p->ds.path);
    for (int i = 0; i < n; i++) {
        snprintf(from, sizeof from, "%s/%s", p->ds.path, entries[i]->d_name);
        sl_staging_file(&p->run->making.st, entries[i]->d_name, to);
        if (rc == SL_OK)
            rc = sl_file_share(&p->run->shared, from, to);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

static int write_metadata(struct pass *p)
{
    const struct sl_typed *t = &p->ds.typed;
    cJSON *root = sl_metadata_read(p->ds.path);
    if (!root)
        return SL_EIO;
    sl_metadata_keep_stripes(root, &p->ds);
    sl_metadata_rename(root, sl_dataset_builder_name(&p->run->making));
    cJSON *types = cJSON_GetObjectItemCaseSensitive(root, "types");
    cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "featurized");
    if (!cJSON_IsArray(list))
        list = cJSON_AddArrayToObject(root, "featurized");
    for (uint32_t i = 0; i < p->plan.n_steps; i++) {
        const struct sl_featurize_step *s = &p->plan.step[i];
        cJSON *type = cJSON_GetArrayItem(types, (int)s->type), *o = cJSON_CreateObject();
        cJSON_DeleteItemFromObjectCaseSensitive(type, "feat_dim");
        cJSON_AddNumberToObject(type, "feat_dim", s->dim);
        cJSON_AddStringToObject(o, "type", t->type[s->type].name);
        cJSON *by = cJSON_AddArrayToObject(o, "by");
        for (uint32_t k = 0; k < s->n_relations; k++)
            cJSON_AddItemToArray(by, cJSON_CreateString(sl_relation_text(t, s->relation[k]).text));
        cJSON_AddNumberToObject(o, "zeros", (double)p->n_bare[i]);
        cJSON_AddItemToArray(list, o);
    }
    return sl_metadata_write(&p->run->making.st, root);
}

// ---- the whole ----------------------------------------------------------------------------------

static int write_all(void *context)
{
    struct pass *p = context;
    SL_TRY(sl_metadata_check_stripes(&p->ds, &p->run->making.st));
    SL_TRY(share_files(p));
    for (uint32_t i = 0; i < p->plan.n_steps; i++)
        SL_TRY(make_step(p, i));
    return write_metadata(p);
}

static void summarise(void *context, struct sl_table *table)
{
    const struct pass *p = context;
    const struct sl_typed *t = &p->ds.typed;
    char a[SL_UNITS_BYTES];
    for (uint32_t i = 0; i < p->plan.n_steps; i++) {
        const struct sl_featurize_step *s = &p->plan.step[i];
        sl_table_row(table, "%s|%" PRIu32 " x %s, in round %" PRIu32, t->type[s->type].name, s->dim,
                     sl_npy_dtype_name(s->dtype), s->round);
        for (uint32_t k = 0; k < s->n_relations; k++)
            sl_table_row(table, "|mean by %s", sl_relation_text(t, s->relation[k]).text);
        if (p->n_bare[i])
            sl_table_row(table, "|zeros: %s vertices without such neighbours",
                         sl_units_grouped(a, p->n_bare[i]));
    }
    for (uint32_t i = 0; i < t->n_types; i++)
        if (p->plan.wanted[i] && !p->plan.dim[i])
            sl_table_row(table, "%s|without features still: no relation leads there from any",
                         t->type[i].name);
    if (p->run->shared.n_copied)
        sl_table_row(table, "files|%" PRIu64 " copied, as a link cannot be made: %s",
                     p->run->shared.n_copied, p->run->shared.why);
}

static int open_pass(struct sl_featurize *run, struct pass *p)
{
    const unsigned need = SL_NEED_TOPOLOGY;
    p->run = run;
    p->n_threads = run->n_threads ? (int)run->n_threads
                                  : SL_MIN(sl_threads_default(), (int)SL_FEATURIZE_THREADS_MAX);
    if (!run->memory_bytes)
        run->memory_bytes =
            SL_MAX(sl_device_memory_available() / 2, (uint64_t)SL_FEATURIZE_MIN_BYTES);
    SL_TRY(sl_dataset_open(run->source, need, SL_CHECK_CACHED, 0, &p->ds));
    SL_TRY(sl_featurize_plan_make(&p->ds, run->types, run->by, &p->plan));
    p->of = calloc(p->ds.typed.n_types, sizeof *p->of);
    p->n_bare = calloc(p->plan.n_steps, sizeof *p->n_bare);
    if (!p->of || !p->n_bare)
        return sl_fail(SL_ENOMEM, "featurize %s: no memory", run->source);
    for (uint32_t i = 0; i < p->ds.typed.n_types; i++)
        p->of[i].data = p->ds.typed.type[i].feat;
    return SL_OK;
}

int sl_featurize_run(struct sl_featurize *run)
{
    struct pass *p = calloc(1, sizeof *p);
    if (!p)
        return sl_fail(SL_ENOMEM, "featurize: no memory");
    int rc = open_pass(run, p);
    if (rc == SL_OK)
        rc = sl_dataset_builder_run(&run->making, p, write_all, summarise);
    for (uint32_t i = 0; p->of && i < p->ds.typed.n_types; i++)
        sl_npy_close(&p->of[i].npy);
    sl_file_share_fini(&run->shared);
    sl_featurize_plan_fini(&p->plan);
    sl_dataset_close(&p->ds);
    free(p->of);
    free(p->n_bare);
    free(p);
    return rc;
}
