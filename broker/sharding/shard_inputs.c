#include "broker/sharding/shard_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "broker/sharding/gpus.h"
#include "broker/epochs/phases.h"
#include "broker/epochs/ranking.h"
#include "broker/placement/placement.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/sampler_kind.h"
#include "common/data/cache_kind.h"
#include "common/data/expected_visits.h"

_Static_assert((int)SL_CONFIG_MAX_DEVICES == (int)SL_PEER_MEMORY_DEVICES_MAX,
               "every device may lend");

#define FORESEEN_EDGES_MOST (UINT64_C(1) << 26)

static bool is_gpu(const struct sl_config *config, uint32_t d)
{
    return config->devices[d].kind == SL_DEVICE_CUDA;
}

bool sl_store_may_share(const struct sl_config *config, enum sl_peer_memory_kind kind)
{
    return sl_config_gpus(config) > 1 &&
           (kind == SL_PEER_MEMORY_GRAPH || sl_cache_keeps(config->cache.policy));
}

bool sl_store_has_both(const struct sl_config *c, uint32_t device)
{
    const struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    return is_gpu(c, device) && device < split.samplers &&
           sl_placement_duty(split, c->n_devices, sl_placement_switches(c, device), SL_ROLE_TRAINER,
                             device) != SL_DUTY_NONE;
}

bool sl_store_is_open(const struct sl_config *c)
{
    bool both = false;
    for (uint32_t d = 0; d < c->n_devices; d++)
        both |= sl_store_has_both(c, d);
    return both && c->store.prefer == SL_PREFER_AUTO;
}

void sl_store_find_rates(const struct sl_config *c, const struct sl_gpu_report *gpus,
                         struct sl_store_rates *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t d = 0; d < c->n_devices; d++)
        for (uint32_t e = 0; e < c->n_devices; e++)
            if (is_gpu(c, d) && is_gpu(c, e))
                out->of[d][e] = (float)sl_gpus_link(gpus, c->devices[d].index, c->devices[e].index);
}

// Rows that GPUs may hold, all together.
static uint64_t most_rows(const struct sl_store_site *site)
{
    const double n = (double)site->need->n_nodes;
    return site->config->store.feature_ratio_auto
               ? site->need->n_nodes
               : (uint64_t)(site->config->store.feature_ratio * n);
}

uint64_t sl_store_room(const struct sl_store_site *site, uint32_t device, enum sl_duty duty)
{
    uint64_t rows = 0;
    // A split whose budgets do not fit is refused before it is wanted; then it is a smaller cache.
    if (duty != SL_DUTY_NONE)
        sl_budget_cache_rows(site->config, device, duty, site->need, site->available_bytes, &rows);
    return is_gpu(site->config, device) ? SL_MIN(rows, most_rows(site)) : rows;
}

void sl_store_ask(const struct sl_store_site *site, const enum sl_duty *duty,
                  struct sl_plan_question *out)
{
    const struct sl_config *c = site->config;
    *out = (struct sl_plan_question){
        .n_devices = c->n_devices,
        .host = SL_GPUS_HOST_GBS,
        .n_elements = site->need->n_nodes,
        .most = most_rows(site),
        .placement = c->store.placement,
        .curve = site->curve[SL_PEER_MEMORY_FEATURES],
    };
    memcpy(out->rate, site->rates->of, sizeof out->rate);
    for (uint32_t d = 0; d < c->n_devices; d++) {
        out->room[d] = sl_store_room(site, d, duty[d]);
        if (is_gpu(c, d) && duty[d] == SL_DUTY_WORK)
            out->works |= UINT64_C(1) << d;
        if (is_gpu(c, d) && duty[d] == SL_DUTY_STANDBY)
            out->reads |= UINT64_C(1) << d;
    }
}

// --- the graph -----------------------------------------------------------------------------------

uint64_t sl_store_edge_bytes(const struct sl_config *config, const struct sl_dataset *ds)
{
    const bool by_weight = sl_sampler_flags[config->sampler.kind] & SL_SAMPLER_BY_WEIGHT;
    return sl_dtype_bytes(ds->indices_dtype) + (by_weight ? sizeof(double) : 0);
}

uint64_t sl_store_graph_room(const struct sl_config *config, const struct sl_dataset *ds,
                             uint32_t device)
{
    const uint64_t each = sl_store_edge_bytes(config, ds);
    const uint64_t rows = (sl_dataset_lists(ds) + 1) * sizeof(uint64_t) +
                          (sl_config_wants_degrees(config) ? ds->n_nodes * sizeof(uint32_t) : 0);
    const double share = sl_config_graph_shares[config->store.prefer];
    const uint64_t bytes = (uint64_t)(share * (double)config->devices[device].memory_bytes);
    if (!is_gpu(config, device))
        return 0;
    if (config->devices[device].memory_bytes == 0)
        return ds->n_edges;
    return SL_MIN((bytes - SL_MIN(bytes, rows)) / each, ds->n_edges);
}

void sl_store_ask_graph(const struct sl_store_site *site, const uint64_t *room,
                        struct sl_plan_question *out)
{
    const struct sl_config *c = site->config;
    *out = (struct sl_plan_question){
        .kind = SL_PEER_MEMORY_GRAPH,
        .n_devices = c->n_devices,
        .host = SL_GPUS_HOST_GBS,
        .n_elements = site->n_edges,
        .most = c->store.graph_ratio_auto
                    ? site->n_edges
                    : (uint64_t)(c->store.graph_ratio * (double)site->n_edges),
        .placement = c->store.placement,
        .curve = site->curve[SL_PEER_MEMORY_GRAPH],
    };
    memcpy(out->rate, site->rates->of, sizeof out->rate);
    for (uint32_t d = 0; d < c->n_devices; d++) {
        out->room[d] = SL_MIN(room[d], out->most);
        if (is_gpu(c, d) && room[d] > 0)
            out->works |= UINT64_C(1) << d;
    }
}

// --- how often rows are read ---------------------------------------------------------------------

bool sl_store_foresees(const struct sl_config *config, const struct sl_dataset *ds)
{
    return (sl_store_may_share(config, SL_PEER_MEMORY_GRAPH) || sl_store_is_open(config)) &&
           ds->n_edges <= FORESEEN_EDGES_MOST;
}

struct foresight {
    const struct sl_dataset *ds;
    double n_batches;
    bool replaces;              // neighbours are drawn with replacement
    const int64_t *by_relation; // fanouts of the next hop, or NULL
    float *visits, *edge_reads; // (n_nodes); (lists)
    uint32_t *hotness;          // (n_nodes)
};

// How many mini-batches of an epoch meet a vertex that an epoch is expected to visit so often.
static double batches_of(double visits, double n_batches)
{
    return n_batches * -expm1(-visits / n_batches);
}

// Of the n lists from `row` on, which are those of the vertices from `first` on.
static void add_lists(const struct foresight *f, int64_t fanout, uint64_t row, uint64_t first,
                      uint64_t n, const double *drawn_for)
{
    for (uint64_t i = 0; i < n; i++) {
        const double degree = (double)sl_dataset_degree(f->ds, row + i);
        const bool all = fanout < 0 || (!f->replaces && (double)fanout > degree);
        const double edges = all || degree == 0 ? degree : (double)fanout;
        f->edge_reads[row + i] += (float)(batches_of(drawn_for[first + i], f->n_batches) * edges);
    }
}

// A mini-batch that knows a vertex reads as many of its edges, in each relation, as it samples.
static void add_edges(void *ctx, int64_t fanout, const double *drawn_for)
{
    struct foresight *f = ctx;
    const struct sl_typed *t = &f->ds->typed;
    const int64_t *by_relation = f->by_relation;
    if (by_relation) // of the next hop then
        f->by_relation += t->n_relations;
    if (t->n_types == 0)
        add_lists(f, fanout, 0, 0, f->ds->n_nodes, drawn_for);
    for (uint32_t r = 0; r < t->n_relations; r++) {
        const struct sl_vertex_type *target = &t->type[t->relation[r].target];
        add_lists(f, by_relation ? by_relation[r] : fanout, t->relation[r].first_row, target->first,
                  target->n, drawn_for);
    }
}

static float value_of(uint32_t hotness)
{
    float x;
    memcpy(&x, &hotness, sizeof x);
    return x;
}

// Bytes of all rows that are read in an epoch.
static double bytes_read(const struct foresight *f)
{
    const struct sl_typed *t = &f->ds->typed;
    const struct sl_vertex_type all = {.n = f->ds->n_nodes};
    double bytes = 0;
    for (uint32_t i = 0; i < SL_MAX(t->n_types, 1u); i++) {
        const struct sl_vertex_type *type = t->n_types ? &t->type[i] : &all;
        const uint64_t each = t->n_types ? sl_type_row_bytes(type) : sl_features_row_bytes(f->ds);
        double rows = 0;
        for (uint64_t v = type->first; v < type->first + type->n; v++)
            rows += (double)f->visits[v];
        bytes += rows * (double)each;
    }
    return bytes;
}

static int foresee(const struct sl_config *c, struct foresight *f, const atomic_bool *cancel,
                   struct sl_store_foreseen *out)
{
    const struct sl_cache_inputs facts = {
        .dataset = f->ds,
        .seed = c->seed,
        .sampling = sl_config_sampling(c),
        .cancel = cancel,
        .on_hop = add_edges,
        .ctx = f,
    };
    const struct sl_cache_kind *kind = &sl_cache_kinds[c->cache.policy];
    const struct sl_cache_kind *reads =
        sl_cache_foresees(sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_UNIFORM);
    const struct sl_typed *typed = &f->ds->typed;
    const uint64_t n_lists = sl_dataset_lists(f->ds);
    SL_TRY(reads->hotness(&facts, f->hotness));
    for (uint64_t v = 0; v < f->ds->n_nodes; v++)
        f->visits[v] = reads->is_visits
                           ? (float)batches_of((double)value_of(f->hotness[v]), f->n_batches)
                           : (float)f->hotness[v];
    for (uint64_t list = 0; list < n_lists; list++)
        out->edge_reads += (double)f->edge_reads[list];
    out->input_bytes = reads->is_visits ? bytes_read(f) / f->n_batches : 0;
    if (out->edge_reads > 0)
        sl_store_curve_of_edges(f->ds->indptr, f->edge_reads, n_lists,
                                &out->curve[SL_PEER_MEMORY_GRAPH]);
    if (kind->hotness && kind != reads)
        SL_TRY(kind->hotness(&facts, f->hotness));
    if (typed->n_types > 0)
        sl_ranking_weigh(typed, (kind->hotness ? kind : reads)->is_visits, f->hotness);
    return sl_store_curve_make(typed, f->hotness, f->visits, f->ds->n_nodes,
                               &out->curve[SL_PEER_MEMORY_FEATURES]);
}

int sl_store_foresee(const struct sl_config *config, const struct sl_dataset *ds,
                     const atomic_bool *cancel, struct sl_store_foreseen *out)
{
    const uint64_t n = SL_MAX(ds->n_nodes, 1u);
    struct foresight f = {
        .ds = ds,
        .replaces = config->sampler.replace,
        .by_relation = sl_config_sampling(config).by_relation,
        .n_batches = (double)sl_phases_pass_batches(config, ds->split[SL_SPLIT_TRAIN].n),
        .visits = malloc(n * sizeof *f.visits),
        .edge_reads = calloc(SL_MAX(sl_dataset_lists(ds), 1u), sizeof *f.edge_reads),
        .hotness = malloc(n * sizeof *f.hotness),
    };
    memset(out, 0, sizeof *out);
    int rc = f.visits && f.edge_reads && f.hotness
                 ? foresee(config, &f, cancel, out)
                 : sl_fail(SL_ENOMEM, "no memory for the expected visits of %llu vertices",
                           (unsigned long long)ds->n_nodes);
    free(f.visits);
    free(f.edge_reads);
    free(f.hotness);
    out->edge_reads /= SL_MAX(config->order.epochs_per_pass, 1u); // they were a whole pass's
    return rc;
}
