/*
 * neighbours.h - the neighbourhoods of layer-wise inference in jobs that sample by random walks.
 *
 * Such a model was trained on the vertices that walks meet most often, weighted by their visits,
 * and not on lists of neighbours. Inference therefore walks too. Each vertex is drawn by itself, in
 * a stream of its own (SL_RNG_INFER_SAMPLE) and with a key of the job's seed, its hop and its
 * number alone: its neighbourhood is the same whichever piece it falls into and whoever computes
 * it, in every evaluation of the job. Of a graph of several types it has one for each metapath, by
 * a key of the metapath's own; a plain graph has relation 0 alone.
 */
#ifndef SL_TRAINER_MODEL_NEIGHBOURS_H
#define SL_TRAINER_MODEL_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "config/config.h"
#include "kernels/kernels.h"

struct sl_neighbours {
    const struct sl_kernels *kernels;
    const struct sl_typed *typed; // NULL: a plain graph
    struct sl_topology_view topology;
    enum sl_sampler_kind kind;
    uint64_t seed;
    uint32_t n_hops, paths, length;
    float restart;
    int64_t fanout[SL_CONFIG_MAX_LAYERS]; // of hop 0, next to the seeds, and so on
    const int64_t *by_relation;           // (n_hops, metapaths) in its place, borrowed; or NULL
    struct sl_idmap *map;
    uint32_t *nodes, *local; // scratch for one vertex
    uint32_t capacity;       // vertices that walks can meet, and the vertex itself
};

// Whether inference of this job walks.
bool sl_neighbours_walks(const struct sl_config *config);

// For a job of which that is true, whose relations are looked up (sl_config_find_relations()). It
// and the data set must outlive it. SL_ENOMEM.
int sl_neighbours_init(struct sl_neighbours *n, const struct sl_config *config,
                       const struct sl_dataset *ds, const struct sl_kernels *kernels);
void sl_neighbours_fini(struct sl_neighbours *n); // safe on a zeroed struct

// The most neighbours that a vertex has in this layer (0: next to the features).
uint32_t sl_neighbours_bound(const struct sl_neighbours *n, uint32_t layer, uint32_t relation);

// The neighbours of v as `layer` sees them, falling by visits: ids and visits have room for the
// bound. Errors as the kernel's.
int sl_neighbours_draw(struct sl_neighbours *n, uint32_t layer, uint32_t relation, uint32_t v,
                       uint32_t *ids, float *visits, uint32_t *count);

#endif
