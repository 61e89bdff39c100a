#include "broker/sharding/shard_preference.h"

#include "broker/sharding/gpus.h"
#include "broker/epochs/phases.h"
#include "broker/placement/placement.h"
#include "common/base/bits.h"
#include "common/base/error.h"

enum { LINE_BYTES = 32 }; // of a bus or link, for an edge that is read over it (GIDS 3.2)

// Of an epoch, by all.
struct reads {
    double edges, row_bytes;
};

// By fanouts and the mean degree.
static struct reads guess(const struct sl_config *c, const struct sl_dataset *ds)
{
    const double degree = (double)ds->n_edges / (double)SL_MAX(ds->n_nodes, 1u);
    double nodes = (double)c->sampler.batch_size, edges = 0;
    for (uint32_t hop = 0; hop < c->sampler.n_fanout; hop++) {
        const double fanout = (double)c->sampler.fanout[hop];
        const double drawn = nodes * (fanout < 0 ? degree : SL_MIN(fanout, degree));
        edges += drawn;
        nodes = SL_MIN(nodes + drawn, (double)ds->n_nodes);
    }
    return (struct reads){edges, nodes * (double)sl_features_row_bytes(ds)};
}

double sl_store_guess_edges(const struct sl_config *config, const struct sl_dataset *ds)
{
    return guess(config, ds).edges;
}

static struct reads reads_of(const struct sl_config *c, const struct sl_dataset *ds,
                             const struct sl_store_foreseen *found)
{
    const double n_batches = (double)sl_phases_batches(c, ds->split[SL_SPLIT_TRAIN].n);
    struct reads r = guess(c, ds);
    r.edges *= n_batches;
    r.row_bytes *= n_batches;
    if (found && found->edge_reads > 0)
        r.edges = found->edge_reads;
    if (found && found->input_bytes > 0)
        r.row_bytes = found->input_bytes * n_batches;
    return r;
}

// Bytes of a sampler's GPU that the graph may have.
static uint64_t graph_bytes(const struct sl_config *c, const struct sl_dataset *ds, uint32_t device)
{
    const double share = sl_config_graph_shares[c->store.prefer];
    const uint64_t memory = c->devices[device].memory_bytes;
    const uint64_t all = sl_topology_bytes(ds);
    return memory ? SL_MIN((uint64_t)(share * (double)memory), all) : all;
}

struct trial {
    const struct sl_config *config; // that prefers one of them
    const struct sl_dataset *ds;
    uint64_t available_bytes;
    const struct sl_store_foreseen *found; // or NULL
    struct sl_store_rates rates;
    struct reads reads;
};

// What the busiest links and buses of all GPUs with both roles have to do in an epoch: seconds.
static int busiest(const struct trial *t, double *seconds)
{
    const struct sl_config *c = t->config;
    const struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    struct sl_budget_need need = {.row_bytes = sl_features_row_bytes(t->ds),
                                  .n_nodes = t->ds->n_nodes};
    uint64_t room[SL_CONFIG_MAX_DEVICES], both = 0;
    enum sl_duty duty[SL_CONFIG_MAX_DEVICES];
    struct sl_plan_question edges, rows;
    struct sl_shard_plan graph, features;
    for (uint32_t d = 0; d < c->n_devices; d++) {
        const bool samples = d < split.samplers;
        duty[d] =
            sl_placement_duty(split, c->n_devices, sl_placement_switches(c, d), SL_ROLE_TRAINER, d);
        room[d] = samples ? sl_store_graph_room(c, t->ds, d) : 0;
        if (sl_store_has_both(c, d)) {
            both |= UINT64_C(1) << d;
            need.resident_bytes = SL_MAX(need.resident_bytes, graph_bytes(c, t->ds, d));
        }
    }
    const struct sl_store_foreseen *found = t->found;
    const struct sl_store_site site = {
        .config = c,
        .need = &need,
        .available_bytes = t->available_bytes,
        .rates = &t->rates,
        .curve = {[SL_PEER_MEMORY_FEATURES] = found ? &found->curve[SL_PEER_MEMORY_FEATURES] : NULL,
                  [SL_PEER_MEMORY_GRAPH] =
                      found && found->edge_reads > 0 ? &found->curve[SL_PEER_MEMORY_GRAPH] : NULL},
        .n_edges = t->ds->n_edges};
    sl_store_ask_graph(&site, room, &edges);
    sl_store_ask(&site, duty, &rows);
    SL_TRY(sl_shard_plan_make(&edges, &graph));
    SL_TRY(sl_shard_plan_make(&rows, &features));
    const double edge_bytes = t->reads.edges * LINE_BYTES / split.samplers;
    const double row_bytes = t->reads.row_bytes / ((double)split.samplers + (double)split.trainers);
    *seconds = 0;
    for (uint32_t d = 0; d < c->n_devices; d++)
        if (both >> d & 1)
            *seconds += 1e-9 * (sl_shard_plan_busiest(&edges, &graph, d) * edge_bytes +
                                sl_shard_plan_busiest(&rows, &features, d) * row_bytes);
    return SL_OK;
}

void sl_store_prefer(struct sl_config *config, const struct sl_dataset *ds,
                     uint64_t available_bytes, const struct sl_store_foreseen *found)
{
    static const char *const why[] = {
        [SL_PREFER_GRAPH] = "by expected reads the links and buses of GPUs that sample and train "
                            "have less to do than with features preferred",
        [SL_PREFER_FEATURES] = "by expected reads the links and buses of GPUs that sample and "
                               "train have less to do than with the graph preferred",
    };
    struct trial t = {.config = config,
                      .ds = ds,
                      .available_bytes = available_bytes,
                      .found = found,
                      .reads = reads_of(config, ds, found)};
    double seconds[SL_PREFER_FEATURES + 1];
    int rc = SL_OK;
    config->store.prefer_why = NULL;
    if (config->store.prefer != SL_PREFER_AUTO || !sl_config_asks_for_gpus(config))
        return;
    if (!sl_store_is_open(config)) {
        config->store.prefer = SL_PREFER_GRAPH;
        config->store.prefer_why = "no GPU that samples trains as well";
        return;
    }
    if (sl_store_may_share(config, SL_PEER_MEMORY_GRAPH))
        sl_store_find_rates(config, &sl_gpus_known()->report, &t.rates);
    for (int p = SL_PREFER_GRAPH; rc == SL_OK && p <= SL_PREFER_FEATURES; p++) {
        config->store.prefer = (enum sl_store_preference)p;
        rc = busiest(&t, &seconds[p]);
    }
    const bool features = rc == SL_OK && seconds[SL_PREFER_FEATURES] < seconds[SL_PREFER_GRAPH];
    const bool differ = rc == SL_OK && seconds[SL_PREFER_FEATURES] != seconds[SL_PREFER_GRAPH];
    config->store.prefer = features ? SL_PREFER_FEATURES : SL_PREFER_GRAPH;
    config->store.prefer_why =
        differ ? why[config->store.prefer]
               : "GPUs that sample and train have room for as much of features with either";
}
