#include "sampler/hard.h"

#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "common/data/dataset.h"

#define NOBODY UINT32_MAX // no vertex has this id

static uint64_t steps_of(const struct sl_hard *h)
{
    return (uint64_t)SL_HARD_ROWS * h->paths * h->length;
}

// The relations that walks go by.
static int find_turns(struct sl_hard *h, const struct sl_dataset *ds)
{
    const struct sl_typed *t = &ds->typed;
    if (t->n_types == 0)
        return SL_OK;
    const uint32_t turn[2] = {sl_typed_reverse(t, t->linked), t->linked};
    for (int i = 0; i < 2; i++)
        h->shift[i] = sl_relation_row(t, &t->relation[turn[i]], 0);
    h->ds = ds;
    h->targets = sl_link_all_targets(ds);
    h->path = malloc(h->paths * sizeof *h->path);
    h->met = malloc((uint64_t)h->paths * h->length * sizeof *h->met);
    return h->path && h->met ? SL_OK : SL_ENOMEM;
}

int sl_hard_init(struct sl_hard *h, const struct sl_config *config, const struct sl_dataset *ds)
{
    *h = (struct sl_hard){.seed = config->seed,
                          .most = config->task.hard.per_positive,
                          .from_epoch = config->task.hard.from_epoch,
                          .first_rank = config->task.hard.first_rank,
                          .width = config->task.hard.last_rank - config->task.hard.first_rank + 1,
                          .paths = config->task.hard.paths,
                          .length = config->task.hard.length,
                          .restart = (float)config->task.hard.restart,
                          .topology = {.n_nodes = ds->n_nodes,
                                       .indptr = ds->indptr,
                                       .indices = ds->indices,
                                       .indices_dtype = ds->indices_dtype}};
    if (config->task.hard.kind == SL_HARD_NONE) {
        h->most = 0;
        return SL_OK;
    }
    SL_TRY(sl_idmap_create(1, &h->map));
    const int rc = find_turns(h, ds);
    h->nodes = malloc((SL_HARD_ROWS + steps_of(h)) * sizeof *h->nodes);
    h->indptr = malloc((SL_HARD_ROWS + 1) * sizeof *h->indptr);
    h->indices = malloc(steps_of(h) * sizeof *h->indices);
    h->visits = malloc(steps_of(h) * sizeof *h->visits);
    if (rc == SL_OK && h->nodes && h->indptr && h->indices && h->visits)
        return SL_OK;
    sl_hard_fini(h);
    return sl_fail(SL_ENOMEM, "sampling: no memory for walks to hard negatives: set "
                              "task.hard.paths or task.hard.length lower");
}

void sl_hard_fini(struct sl_hard *h)
{
    sl_idmap_destroy(h->map);
    free(h->path);
    free(h->met);
    free(h->nodes);
    free(h->indptr);
    free(h->indices);
    free(h->visits);
    free(h->candidates);
    free(h->n_candidates);
    *h = (struct sl_hard){0};
}

uint64_t sl_hard_bytes(const struct sl_hard *h)
{
    if (!h->map)
        return 0;
    return sl_idmap_bytes(h->map) + steps_of(h) * (2 * sizeof *h->nodes + sizeof *h->visits) +
           (h->path ? h->paths * (sizeof *h->path + h->length * sizeof *h->met) : 0) +
           h->capacity * (h->width + 1ull) * sizeof *h->candidates;
}

void sl_hard_begin(struct sl_hard *h, uint32_t epoch)
{
    const uint64_t n = epoch + UINT64_C(1);
    h->each = n < h->from_epoch ? 0 : (uint32_t)SL_MIN(n - h->from_epoch + 1, (uint64_t)h->most);
    h->n_missing = 0;
}

static int reserve(struct sl_hard *h, uint32_t n)
{
    if (n <= h->capacity)
        return SL_OK;
    free(h->candidates);
    free(h->n_candidates);
    h->candidates = malloc((uint64_t)n * h->width * sizeof *h->candidates);
    h->n_candidates = malloc(n * sizeof *h->n_candidates);
    h->capacity = h->candidates && h->n_candidates ? n : 0;
    return h->capacity ? SL_OK
                       : sl_fail(SL_ENOMEM,
                                 "sampling: no memory for candidates of %u sources: set "
                                 "sampler.batch_size or task.hard.last_rank lower",
                                 n);
}

// The kind of sampler that counts visits.
static enum sl_sampler_kind walks(void)
{
    int kind = 0;
    while (!(sl_sampler_flags[kind] & SL_SAMPLER_VISITS))
        kind++;
    return (enum sl_sampler_kind)kind;
}

// What the rows of a group meet, into indptr and indices.
static int walk_group(struct sl_hard *h, uint32_t epoch, uint32_t batch, uint32_t group,
                      const uint32_t *sources, uint32_t n)
{
    uint32_t n_nodes = 0, n_edges, row;
    const uint32_t capacity = (uint32_t)(SL_HARD_ROWS + steps_of(h));
    SL_TRY(sl_idmap_reset(h->map, SL_HARD_ROWS));
    for (uint32_t r = 0; r < n; r++)
        SL_TRY(sl_idmap_insert(h->map, sources[r], h->nodes, &n_nodes, capacity, &row));
    const struct sl_khop_args args = {.topology = &h->topology,
                                      .seed = h->seed + group,
                                      .stream = SL_RNG_HARD_WALK,
                                      .epoch = epoch,
                                      .batch = batch,
                                      .fanout = -1,
                                      .n_dst = n,
                                      .nodes = h->nodes,
                                      .n_nodes = &n_nodes,
                                      .nodes_capacity = capacity,
                                      .map = h->map,
                                      .indptr = h->indptr,
                                      .indices = h->indices,
                                      .indices_capacity = steps_of(h),
                                      .n_edges = &n_edges,
                                      .paths = h->paths,
                                      .length = h->length,
                                      .restart = h->restart,
                                      .visits = h->visits};
    return sl_kernels_cpu()->sample[walks()](&args);
}

// ---- by turns -----------------------------------------------------------------------------------

// Which of a walk's batch, and of its row.
struct walk {
    uint64_t seed; // plus the group
    uint32_t epoch, batch, row, source;
};

static struct sl_rng_block words(const struct walk *w, uint32_t tag, uint32_t group)
{
    return sl_philox(w->seed, sl_rng_word0(SL_RNG_HARD_WALK, tag, group), w->row, w->batch,
                     w->epoch);
}

// Chooses the edge of path p's step s; false: the path has ended.
static bool choose(struct sl_hard *h, const struct walk *w, uint32_t p, uint32_t s, int *rc)
{
    enum { RESTART = 128, ATTEMPTS = 16, ATTEMPT_BITS = 3 };
    struct sl_hard_path *path = &h->path[p];
    const uint32_t group = p * ((h->length + 3) / 4) + s / 4, word = s % 4;
    uint32_t x = 0;
    if (path->at == NOBODY)
        return false;
    if (word == 0) {
        path->move = words(w, 0, group);
        path->back = words(w, RESTART, group);
    }
    if (s > 0 && sl_rng_unit(path->back.w[word]) < h->restart) {
        path->at = w->source;
        path->turn = 0;
    }
    const uint64_t row = path->at + h->shift[path->turn], first = h->topology.indptr[row];
    const uint64_t degree = h->topology.indptr[row + 1] - first;
    if (degree >= UINT32_MAX)
        *rc = sl_fail(SL_EUNSUPPORTED,
                      "sampling: vertex %u has %llu edges, wanted less than 2^32 - 1 for walks",
                      path->at, (unsigned long long)degree);
    if (degree == 0 || *rc < 0)
        return false;
    uint32_t drawn = path->move.w[word];
    for (uint32_t a = 1; !sl_rng_below(drawn, (uint32_t)degree, &x) && a < ATTEMPTS; a++)
        drawn = words(w, a << ATTEMPT_BITS, group).w[word];
    path->position = first + x;
    return true;
}

// All paths of a row side by side, so that their loads overlap. The targets that they met: h->met,
// by path and step.
static int walk_row(struct sl_hard *h, const struct walk *w)
{
    const uint64_t width = sl_dtype_bytes(h->topology.indices_dtype);
    int rc = SL_OK;
    for (uint32_t p = 0; p < h->paths; p++)
        h->path[p] = (struct sl_hard_path){.at = w->source};
    for (uint32_t s = 0; s < h->length; s++) {
        for (uint32_t p = 0; p < h->paths; p++) {
            struct sl_hard_path *path = &h->path[p];
            if (choose(h, w, p, s, &rc))
                __builtin_prefetch((const char *)h->topology.indices + path->position * width);
            else
                path->at = NOBODY;
        }
        SL_TRY(rc);
        for (uint32_t p = 0; p < h->paths; p++) {
            struct sl_hard_path *path = &h->path[p];
            uint32_t *met = &h->met[(uint64_t)p * h->length + s];
            *met = NOBODY;
            if (path->at == NOBODY)
                continue;
            path->at = sl_dataset_source(h->ds, path->position);
            path->turn ^= 1;
            __builtin_prefetch(&h->topology.indptr[path->at + h->shift[path->turn]]);
            if (path->at != w->source && path->at - h->targets.first < h->targets.n)
                *met = path->at;
        }
    }
    return SL_OK;
}

// More often met first, among equals what was met first.
static int by_visits(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

// Different vertices that a row's paths met, in the order of first meeting, into h->nodes; their
// numbers by rank into h->indices; how many.
static int rank_row(struct sl_hard *h, uint32_t *n)
{
    const uint32_t steps = h->paths * h->length;
    uint64_t *keys = (uint64_t *)(void *)h->visits; // two floats each: of 64 rows there is room
    uint32_t local;
    *n = 0;
    SL_TRY(sl_idmap_reset(h->map, steps));
    for (uint32_t i = 0; i < steps; i++) {
        if (h->met[i] == NOBODY)
            continue;
        const uint32_t before = *n;
        SL_TRY(sl_idmap_insert(h->map, h->met[i], h->nodes, n, steps, &local));
        if (*n > before)
            keys[local] = (uint64_t)UINT32_MAX << 32 | local;
        keys[local] -= UINT64_C(1) << 32;
    }
    qsort(keys, *n, sizeof *keys, by_visits);
    for (uint32_t i = 0; i < *n; i++)
        h->indices[i] = (uint32_t)keys[i];
    return SL_OK;
}

// ---- candidates ---------------------------------------------------------------------------------

// Who may ask, and of which batch.
struct asked {
    sl_may_be_pair *may_be;
    const void *ctx;
    uint32_t epoch, batch;
    const uint32_t *sources;
};

// Of source number i: of n that it met, which are h->nodes of `order`.
static void take(struct sl_hard *h, const struct asked *q, uint32_t i, const uint32_t *order,
                 uint32_t n)
{
    uint32_t *candidates = h->candidates + (uint64_t)i * h->width;
    uint32_t rank = 0, found = 0;
    for (uint32_t e = 0; e < n && found < h->width; e++) {
        const uint32_t met = h->nodes[order[e]];
        if (q->may_be(q->ctx, q->sources[i], met) && ++rank >= h->first_rank)
            candidates[found++] = met;
    }
    h->n_candidates[i] = found;
}

static int find_by_turns(struct sl_hard *h, const struct asked *q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct walk walk = {.seed = h->seed + i / SL_HARD_ROWS,
                                  .epoch = q->epoch,
                                  .batch = q->batch,
                                  .row = i % SL_HARD_ROWS,
                                  .source = q->sources[i]};
        uint32_t n_met;
        SL_TRY(walk_row(h, &walk));
        SL_TRY(rank_row(h, &n_met));
        take(h, q, i, h->indices, n_met);
    }
    return SL_OK;
}

int sl_hard_find(struct sl_hard *h, uint32_t epoch, uint32_t batch, const uint32_t *sources,
                 uint32_t n, sl_may_be_pair *may_be, const void *ctx)
{
    const struct asked q = {may_be, ctx, epoch, batch, sources};
    SL_TRY(reserve(h, n));
    if (h->path)
        return find_by_turns(h, &q, n);
    for (uint32_t first = 0; first < n; first += SL_HARD_ROWS) {
        const uint32_t some = SL_MIN(n - first, (uint32_t)SL_HARD_ROWS);
        SL_TRY(walk_group(h, epoch, batch, first / SL_HARD_ROWS, sources + first, some));
        for (uint32_t r = 0; r < some; r++)
            take(h, &q, first + r, h->indices + h->indptr[r], h->indptr[r + 1] - h->indptr[r]);
    }
    return SL_OK;
}

bool sl_hard_draw(const struct sl_hard *h, uint32_t epoch, uint32_t batch, uint32_t q,
                  uint32_t source, uint32_t own, uint32_t *target)
{
    const uint32_t n = h->n_candidates[source];
    const uint32_t *candidates = h->candidates + (uint64_t)source * h->width;
    uint32_t x;
    for (uint32_t t = 0; n > 0 && t < SL_HARD_TRIES; t++) {
        const struct sl_rng_block r =
            sl_philox(h->seed, sl_rng_word0(SL_RNG_NEGATIVE, 1, t), q, batch, epoch);
        if (!sl_rng_below(r.w[0], n, &x) || candidates[x] == own)
            continue;
        *target = candidates[x];
        return true;
    }
    return false;
}
