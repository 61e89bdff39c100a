#include "sampler/hard.h"

#include <stdlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"
#include "common/data/dataset.h"

static uint64_t steps_of(const struct sl_hard *h)
{
    return (uint64_t)SL_HARD_ROWS * h->paths * h->length;
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
    h->nodes = malloc((SL_HARD_ROWS + steps_of(h)) * sizeof *h->nodes);
    h->indptr = malloc((SL_HARD_ROWS + 1) * sizeof *h->indptr);
    h->indices = malloc(steps_of(h) * sizeof *h->indices);
    h->visits = malloc(steps_of(h) * sizeof *h->visits);
    if (h->nodes && h->indptr && h->indices && h->visits)
        return SL_OK;
    sl_hard_fini(h);
    return sl_fail(SL_ENOMEM, "sampling: no memory for walks to hard negatives: set "
                              "task.hard.paths or task.hard.length lower");
}

void sl_hard_fini(struct sl_hard *h)
{
    sl_idmap_destroy(h->map);
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

int sl_hard_find(struct sl_hard *h, uint32_t epoch, uint32_t batch, const uint32_t *sources,
                 uint32_t n, sl_may_be_pair *may_be, const void *ctx)
{
    SL_TRY(reserve(h, n));
    for (uint32_t first = 0; first < n; first += SL_HARD_ROWS) {
        const uint32_t some = SL_MIN(n - first, (uint32_t)SL_HARD_ROWS);
        SL_TRY(walk_group(h, epoch, batch, first / SL_HARD_ROWS, sources + first, some));
        for (uint32_t r = 0; r < some; r++) {
            uint32_t *candidates = h->candidates + (uint64_t)(first + r) * h->width;
            uint32_t rank = 0, found = 0;
            for (uint32_t e = h->indptr[r]; e < h->indptr[r + 1] && found < h->width; e++) {
                const uint32_t met = h->nodes[h->indices[e]];
                if (may_be(ctx, sources[first + r], met) && ++rank >= h->first_rank)
                    candidates[found++] = met;
            }
            h->n_candidates[first + r] = found;
        }
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
