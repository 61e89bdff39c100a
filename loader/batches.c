// batches.c - the calls on an open loader.
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/version.h"
#include "loader/loader.h"

#define SAME(code) _Static_assert((int)SLUICE_##code == (int)SL_##code, "codes are promised")
SAME(OK);
SAME(EINVAL);
SAME(EFORMAT);
SAME(ENOENT);
SAME(EACCESS);
SAME(EEXIST);
SAME(ENOMEM);
SAME(EIO);
SAME(ESYS);
SAME(ERANGE);
SAME(ETIMEDOUT);
SAME(EABORTED);
SAME(ESTALE);
SAME(EUNSUPPORTED);
SAME(EPROTO);
SAME(EFAILED);
SAME(EDEVICE);
SAME(ECHANGED);
_Static_assert((int)SLUICE_EBUSY == (int)SL_EAGAIN, "codes are promised");
_Static_assert((int)SLUICE_MAX_HOPS == (int)SL_MAX_HOPS, "a batch has room for all hops");

// --- in and out of a loader ----------------------------------------------------------------------

static int enter(struct sluice_loader *l, const char *call)
{
    if (!l)
        return sl_fail(SL_EINVAL, "%s: found no loader", call);
    if (l->pid != getpid())
        return sl_fail(SL_EINVAL,
                       "%s: the loader is of process %d, of which this one was forked: open one "
                       "here, after the fork",
                       call, (int)l->pid);
    if (atomic_exchange(&l->busy, true))
        return sl_fail(SL_EAGAIN, "%s: another thread is in this loader: one at a time may use it",
                       call);
    return SL_OK;
}

static int leave(struct sluice_loader *l, int rc)
{
    atomic_store(&l->busy, false);
    return rc;
}

int sl_hand_over(const char *call, void *to, const void *from, size_t bytes, size_t least)
{
    size_t size;
    if (!to)
        return sl_fail(SL_EINVAL, "%s: found no structure to fill", call);
    memcpy(&size, to, sizeof size);
    if (size < least)
        return sl_fail(SL_EINVAL,
                       "%s: size of the structure: found %zu, wanted its sizeof, %zu here", call,
                       size, bytes);
    memcpy((char *)to + sizeof size, (const char *)from + sizeof size,
           SL_MIN(size, bytes) - sizeof size);
    return SL_OK;
}

// The job has ended: why, from now on.
static int note_end(struct sluice_loader *l)
{
    char words[2048];
    sl_worker_end_text(&l->worker, words, sizeof words);
    l->over = atomic_load(&l->worker.lost) ? SL_EFAILED : SL_EABORTED;
    snprintf(l->why, sizeof l->why, "%s", words);
    return sl_fail(l->over, "%s", l->why);
}

// What a call of the lending answers.
static int answer(struct sluice_loader *l, int rc)
{
    return rc == SL_EABORTED ? note_end(l) : rc;
}

// --- batches -------------------------------------------------------------------------------------

void sl_batch_describe(const struct sl_block *h, bool has_labels, struct sluice_batch *b)
{
    const struct sl_block_view block = sl_block_here(h); // a GPU has a copy of it
    *b = (struct sluice_batch){
        .number = h->batch,
        .epoch = h->epoch,
        .n_seeds = h->n_seeds,
        .n_nodes = h->n_input,
        .n_hops = h->n_hops,
        .n_edges = h->n_edges,
        .nodes = sl_view_nodes(block),
        .n_nodes_after = h->n_nodes,
        .labels = has_labels ? sl_view_targets(block) : NULL,
    };
    if (h->flags & SL_BLOCK_TYPED)
        sl_batch_describe_types(h, b);
    for (uint32_t i = 0; i < h->n_hops && b->n_types == 0; i++)
        b->hop[i] = (struct sluice_hop){
            .n_dst = h->hop[i].n_dst,
            .n_edges = h->hop[i].n_edges,
            .indptr = sl_view_indptr(block, i),
            .indices = sl_view_indices(block, i),
            .edge_ids = sl_view_edge_ids(block, i),
            .weights = sl_view_weights(block, i),
        };
    const struct sl_pairs pairs = sl_view_pairs(block);
    if (pairs.n == 0)
        return;
    b->n_pairs = pairs.n;
    b->n_positive = pairs.n_positive;
    b->per_positive = pairs.per_positive;
    b->pairs = pairs.ids;
    b->pair_weights = pairs.weight;
}

static void describe(const struct sluice_loader *l, const struct sl_lent *lent,
                     struct sluice_batch *b)
{
    const struct sl_lease *lease = &lent->work.lease;
    uint32_t n_seeds;
    sl_batch_describe(lent->work.block.header, sl_has_labels(&l->dataset), b);
    b->id = lease->tag;
    b->number = lease->cell;
    b->first_item = sl_phase_range(lease->phase, lease->cell, &n_seeds);
    b->epoch = lease->phase->spec.epoch;
}

static int next(struct sluice_loader *l, uint32_t timeout_ms, struct sluice_batch *out)
{
    struct sluice_batch batch;
    const struct sl_lent *lent;
    const size_t least = sl_batch_size_least(&l->dataset);
    // Before a batch is taken.
    batch = (struct sluice_batch){0};
    SL_TRY(sl_hand_over("sluice_next", out, &batch, sizeof batch, least));
    if (l->over)
        return sl_fail(l->over, "%s", l->why);
    const int rc = sl_lending_next(&l->lending, timeout_ms, &lent);
    if (rc == SL_OK) {
        describe(l, lent, &batch);
        return sl_hand_over("sluice_next", out, &batch, sizeof batch, least);
    }
    switch (rc) {
    case SL_ETIMEDOUT: return SLUICE_TIMEOUT;
    case SL_LENDING_END: return SLUICE_END;
    case SL_EABORTED: return note_end(l);
    default: return rc;
    }
}

int sluice_next(sluice_loader *l, uint32_t timeout_ms, struct sluice_batch *out)
{
    SL_TRY(enter(l, "sluice_next"));
    return leave(l, next(l, timeout_ms, out));
}

static int done(struct sluice_loader *l, uint64_t id)
{
    return answer(l, sl_lending_done(&l->lending, id));
}

int sluice_done(sluice_loader *l, uint64_t id)
{
    SL_TRY(enter(l, "sluice_done"));
    return leave(l, done(l, id));
}

int sluice_return(sluice_loader *l, uint64_t id)
{
    SL_TRY(enter(l, "sluice_return"));
    return leave(l, sl_lending_return(&l->lending, id));
}

int sluice_start(sluice_loader *l, uint32_t epoch, uint64_t number)
{
    SL_TRY(enter(l, "sluice_start"));
    const uint32_t cell = (uint32_t)SL_MIN(number, (uint64_t)UINT32_MAX);
    return leave(l, sl_lending_start(&l->lending, epoch, cell));
}

// --- features ------------------------------------------------------------------------------------

static int check_features(const struct sluice_loader *l, const char *call, const void *batch,
                          const void *to)
{
    if (!batch || !to)
        return sl_fail(SL_EINVAL, "%s: found no %s", call, batch ? "place for them" : "batch");
    if (!sl_rows_any(&l->dataset))
        return sl_fail(SL_EUNSUPPORTED, "%s: the data set '%s' has no features", call,
                       l->dataset.path);
    return SL_OK;
}

static int features(struct sluice_loader *l, const struct sluice_batch *batch, void *to, size_t n)
{
    SL_TRY(check_features(l, "sluice_features", batch, to));
    return answer(l, sl_lending_features(&l->lending, batch->id, to, n));
}

int sluice_features(sluice_loader *l, const struct sluice_batch *batch, void *to, size_t bytes)
{
    SL_TRY(enter(l, "sluice_features"));
    return leave(l, features(l, batch, to, bytes));
}

static int features_view(struct sluice_loader *l, const struct sluice_batch *batch,
                         const void **rows)
{
    SL_TRY(check_features(l, "sluice_features_view", batch, rows));
    struct sl_lent *lent = sl_lending_find(&l->lending, batch->id);
    if (!lent)
        return SL_ESTALE;
    SL_TRY(answer(l, sl_lending_settle(&l->lending, lent)));
    *rows = lent->work.x;
    return SL_OK;
}

int sluice_features_view(sluice_loader *l, const struct sluice_batch *batch, const void **rows)
{
    SL_TRY(enter(l, "sluice_features_view"));
    return leave(l, features_view(l, batch, rows));
}

// --- arrays --------------------------------------------------------------------------------------

int sl_check_one_graph(const char *call, const struct sl_config *config)
{
    if (config->sampler.expand == SL_EXPAND_NEW || config->sampler.n_fanout == 1)
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED,
                   "%s: sampler.expand: found \"all\", whose hops have edges of their own, wanted "
                   "\"new\": read batch.hop, or start the job with that",
                   call);
}

struct sluice_arrays sl_arrays_public(struct sl_arrays *a, bool has_labels, void *rows)
{
    for (uint32_t t = 0; a->types && t < a->n_types; t++)
        a->types[t].features =
            rows && a->rows_at[t] != SL_NO_ROWS ? (char *)rows + a->rows_at[t] : NULL;
    return (struct sluice_arrays){
        .memory = a,
        .n_edges = a->n_edges,
        .nodes = a->nodes,
        .edges = a->edges,
        .edge_ids = a->edge_ids,
        .weights = a->weights,
        .labels = has_labels ? a->targets : NULL,
        .features = rows,
        .places = a->places,
        .seed_of = a->seed_of,
        .pairs = a->pairs,
        .pair_weights = a->pair_weights,
        .types = a->types,
        .relations = a->relations,
    };
}

static int take(struct sluice_loader *l, const struct sluice_batch *batch,
                struct sluice_arrays *out)
{
    struct sluice_arrays arrays = {0};
    struct sl_arrays *taken;
    void *rows;
    const size_t least = sl_arrays_size_least(&l->dataset);
    // Before anything is taken.
    SL_TRY(sl_hand_over("sluice_take", out, &arrays, sizeof arrays, least));
    if (!batch)
        return sl_fail(SL_EINVAL, "sluice_take: found no batch");
    SL_TRY(sl_check_one_graph("sluice_take", &l->config));
    SL_TRY(answer(l, sl_lending_take(&l->lending, batch->id, &taken, &rows)));
    arrays = sl_arrays_public(taken, sl_has_labels(&l->dataset), rows);
    return sl_hand_over("sluice_take", out, &arrays, sizeof arrays, least);
}

int sluice_take(sluice_loader *l, const struct sluice_batch *batch, struct sluice_arrays *out)
{
    SL_TRY(enter(l, "sluice_take"));
    return leave(l, take(l, batch, out));
}

static int wait_for(struct sluice_loader *l, uint64_t id, uint32_t timeout_ms)
{
    const int rc = sl_lending_wait(&l->lending, id, timeout_ms);
    return rc == SL_ETIMEDOUT ? SLUICE_TIMEOUT : answer(l, rc);
}

int sluice_wait(sluice_loader *l, uint64_t id, uint32_t timeout_ms)
{
    SL_TRY(enter(l, "sluice_wait"));
    return leave(l, wait_for(l, id, timeout_ms));
}

void sluice_free(void *memory)
{
    sl_arrays_free(memory);
}

// --- what is known -------------------------------------------------------------------------------

static uint32_t label_type(const struct sl_dataset *ds)
{
    return !sl_has_labels(ds) ? SLUICE_NONE : ds->label ? SLUICE_I32 : SLUICE_F32;
}

void sl_info_of(const struct sl_config *c, const struct sl_dataset *ds,
                const struct sl_schema *schema, struct sluice_info *out)
{
    *out = (struct sluice_info){
        .n_nodes = ds->n_nodes,
        .n_edges = ds->n_edges,
        .seed = c->seed,
        .batch_size = (uint32_t)c->sampler.batch_size,
        .n_hops = c->sampler.n_fanout,
        .feat_dim = ds->feat_dim,
        .feat_type = ds->feat_dim == 0                ? SLUICE_NONE
                     : ds->feat_dtype == SL_DTYPE_F16 ? SLUICE_F16
                                                      : SLUICE_F32,
        .feat_row_bytes = sl_rows_bytes(ds),
        .label_type = label_type(ds),
        .n_targets = sl_has_labels(ds) ? sl_block_targets(ds) : 0,
        .n_classes = ds->n_classes,
        .has_edge_ids = c->sampler.edge_ids,
        .has_weights = (sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_VISITS) != 0,
        .dataset = ds->path,
        .feat_device = -1,
        .same_order = sl_order_kinds[c->order.kind].same,
        .has_pairs = sl_config_is_links(c),
        .per_positive = sl_config_is_links(c) ? c->task.per_positive : 0,
        .n_types = ds->typed.n_types,
        .n_relations = ds->typed.n_relations,
        .types = schema->types,
        .relations = schema->relations,
        .linked = sl_config_is_links(c) ? ds->typed.linked : ds->typed.n_relations,
    };
    memcpy(out->fanout, c->sampler.fanout, sizeof out->fanout);
}

// Nodes of the job.
static uint32_t nodes_of(const struct sluice_loader *l)
{
    return SL_MAX(l->worker.arena.h->spec.nodes.n, 1u);
}

// Of a seat of this node, among those of all: nodes take turns in the batches, then the seats of
// each.
static uint32_t rank_of(const struct sluice_loader *l, uint32_t seat)
{
    return seat * nodes_of(l) + l->worker.arena.h->spec.nodes.rank;
}

static int get_info(const struct sluice_loader *l, struct sluice_info *out)
{
    struct sluice_info info;
    const uint32_t world = l->worker.arena.h->spec.world * nodes_of(l);
    const uint32_t rank = rank_of(l, l->worker.role_index);
    sl_info_of(&l->config, &l->dataset, &l->schema, &info);
    info.n_items = l->worker.arena.h->spec.n_train;
    info.n_batches = sl_div_up(info.n_items, info.batch_size);
    info.n_own_batches = world ? (info.n_batches + world - 1 - rank) / world : info.n_batches;
    info.world = l->config.allocation.trainers * nodes_of(l);
    info.rank = rank;
    info.prefetch = l->prefetch;
    info.broker = l->broker;
    info.job_name = l->config.name;
    info.output = l->output;
    if (!l->compute.device->is_host)
        info.feat_device = (int32_t)l->config.devices[l->worker.device].index;
    return sl_hand_over("sluice_get_info", out, &info, sizeof info, SL_INFO_SIZE_LEAST);
}

int sluice_get_info(sluice_loader *l, struct sluice_info *out)
{
    SL_TRY(enter(l, "sluice_get_info"));
    return leave(l, get_info(l, out));
}

static int get_stats(const struct sluice_loader *l, struct sluice_stats *out)
{
    const struct sl_lending *from = &l->lending;
    uint32_t absent;
    const bool waits = sl_ledger_rank_is_absent(&l->worker.arena, &absent);
    const struct sluice_stats stats = {
        .batches = from->figures.batches,
        .returned = from->returned,
        .held = from->n_held,
        .edges = from->figures.edges,
        .feature_bytes = from->figures.bytes,
        .wait_ns = from->figures.stage_ns[SL_STAGE_WAIT],
        .gather_ns = from->figures.stage_ns[SL_STAGE_EXTRACT],
        .user_ns = from->figures.stage_ns[SL_STAGE_TRAIN],
        .epoch = from->epoch,
        .absent = waits ? (int32_t)rank_of(l, absent) : -1,
    };
    return sl_hand_over("sluice_stats", out, &stats, sizeof stats,
                        offsetof(struct sluice_stats, absent));
}

int sluice_stats(sluice_loader *l, struct sluice_stats *out)
{
    SL_TRY(enter(l, "sluice_stats"));
    return leave(l, get_stats(l, out));
}

const char *sluice_error(void)
{
    return sl_error_message();
}

const char *sluice_version(void)
{
    return SL_VERSION;
}
