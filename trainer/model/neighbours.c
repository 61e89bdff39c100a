#include "trainer/model/neighbours.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/philox.h"

bool sl_neighbours_walks(const struct sl_config *config)
{
    return sl_sampler_flags[config->sampler.kind] & SL_SAMPLER_VISITS;
}

int sl_neighbours_init(struct sl_neighbours *n, const struct sl_config *config,
                       const struct sl_dataset *ds, const struct sl_kernels *kernels)
{
    *n = (struct sl_neighbours){
        .kernels = kernels,
        .typed = ds->typed.n_types ? &ds->typed : NULL,
        .by_relation = config->sampler.fanout_names.by_relation,
        .topology = {.n_nodes = ds->n_nodes,
                     .indptr = ds->indptr,
                     .indices = ds->indices,
                     .indices_dtype = ds->indices_dtype},
        .seed = config->seed,
        .kind = config->sampler.kind,
        .n_hops = config->sampler.n_fanout,
        .paths = config->sampler.paths,
        .length = config->sampler.length,
        .restart = (float)config->sampler.restart,
    };
    memcpy(n->fanout, config->sampler.fanout, n->n_hops * sizeof n->fanout[0]);
    uint64_t steps = (uint64_t)n->paths * n->length;
    n->capacity = (uint32_t)SL_MIN(steps + 1, ds->n_nodes);
    n->nodes = malloc(n->capacity * sizeof *n->nodes);
    n->local = malloc(n->capacity * sizeof *n->local);
    int rc = n->nodes && n->local
                 ? sl_idmap_create(n->capacity, &n->map)
                 : sl_fail(SL_ENOMEM, "inference by random walks: no memory for %u neighbours",
                           n->capacity);
    if (rc < 0)
        sl_neighbours_fini(n);
    return rc;
}

void sl_neighbours_fini(struct sl_neighbours *n)
{
    sl_idmap_destroy(n->map);
    free(n->nodes);
    free(n->local);
    memset(n, 0, sizeof *n);
}

// Layer 0 is next to the features, hop 0 next to the seeds.
static uint32_t hop_of(const struct sl_neighbours *n, uint32_t layer)
{
    return n->n_hops - 1 - layer;
}

static int64_t fanout_of(const struct sl_neighbours *n, uint32_t layer, uint32_t relation)
{
    const uint32_t hop = hop_of(n, layer);
    return n->by_relation ? n->by_relation[(uint64_t)hop * n->typed->n_relations + relation]
                          : n->fanout[hop];
}

uint32_t sl_neighbours_bound(const struct sl_neighbours *n, uint32_t layer, uint32_t relation)
{
    int64_t fanout = fanout_of(n, layer, relation);
    uint32_t most = n->capacity - 1; // the vertex itself is none of its neighbours
    return fanout < 0 ? most : (uint32_t)SL_MIN((uint64_t)fanout, (uint64_t)most);
}

// What walks of a metapath go along, and where its rows are.
static void go_along(const struct sl_neighbours *n, uint32_t relation,
                     struct sl_topology_view *view, struct sl_khop_args *args)
{
    const struct sl_relation *r = &n->typed->relation[relation];
    view->indptr = sl_relation_lists(n->typed, r, view->indptr);
    args->along.more = r->n_steps - 1;
    for (uint32_t k = 0; k < r->n_steps; k++)
        args->along.shift[k] = sl_relation_step_shift(n->typed, r, k);
    if (!sl_relation_is_round(r))
        args->restart = 1;
}

int sl_neighbours_draw(struct sl_neighbours *n, uint32_t layer, uint32_t relation, uint32_t v,
                       uint32_t *ids, float *visits, uint32_t *count)
{
    uint32_t n_nodes = 0, local, indptr[2];
    struct sl_topology_view view = n->topology;
    *count = 0;
    if (layer >= n->n_hops)
        return sl_fail(SL_EINVAL, "inference by random walks: layer %u of %u", layer, n->n_hops);
    if (sl_neighbours_bound(n, layer, relation) == 0)
        return SL_OK;
    SL_TRY(sl_idmap_reset(n->map, n->capacity));
    SL_TRY(sl_idmap_insert(n->map, v, n->nodes, &n_nodes, n->capacity, &local));
    struct sl_khop_args args = {
        .topology = &view,
        .seed = sl_rng_relation_seed(n->seed, relation),
        .stream = SL_RNG_INFER_SAMPLE,
        .batch = v,
        .hop = hop_of(n, layer),
        .fanout = fanout_of(n, layer, relation),
        .n_dst = 1,
        .nodes = n->nodes,
        .n_nodes = &n_nodes,
        .nodes_capacity = n->capacity,
        .map = n->map,
        .indptr = indptr,
        .indices = n->local,
        .indices_capacity = sl_neighbours_bound(n, layer, relation),
        .n_edges = count,
        .paths = n->paths,
        .length = n->length,
        .restart = n->restart,
        .visits = visits,
    };
    if (n->typed)
        go_along(n, relation, &view, &args);
    SL_TRY(n->kernels->sample[n->kind](&args));
    for (uint32_t e = 0; e < *count; e++)
        ids[e] = n->nodes[n->local[e]];
    return SL_OK;
}
