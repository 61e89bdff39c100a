/*
 * typed_forecast.h - about how large the mini-batches of a job on a graph of several types are, by
 * type and relation, before anything is drawn.
 *
 * Hop by hop, from the tables of the graph: the vertices that a hop draws for have as many edges of
 * a relation as its fanout leaves of lists on average. Of the N vertices of the source type, of
 * which k are in the batch, m edges find (N - k)(1 - exp(-m / N)) new ones, where all are drawn
 * alike. How long the lists are:
 *
 *   MOST  lists spread over the relation are looked at: of seeds all count alike; others are found
 *         the more often the more edges they have, so that lists count by their length, which is
 *         too much where it is another relation that finds them. Of a data set that is described
 *         alone there are none to look at, so others than seeds have as many as the fanout takes.
 *         Where there are hubs fewer new vertices are found, so memory that suffices suffices.
 *   MEAN  all lists of a relation are as long as they are on average.
 */
#ifndef SL_CLI_TYPED_FORECAST_H
#define SL_CLI_TYPED_FORECAST_H

#include <cjson/cJSON.h>

#include "common/data/dataset.h"
#include "config/config.h"

enum sl_typed_bound { SL_TYPED_MOST, SL_TYPED_MEAN };

struct sl_typed_forecast {
    const double *vertices; // (n_types) of a mini-batch, in `known`; NULL: there are no types
    double *edges;          // (n_relations) owned
    uint32_t n_hops;
    double *known; // (n_hops + 1, n_types) vertices of it before a hop and, last, after all; owned
    double *drawn; // (n_hops, n_relations) edges of a hop; owned
};

// Of training, on a graph of the types `typed`: ds->typed; a plain graph's has none. The names in
// sampler.fanout have been found. SL_ENOMEM.
int sl_typed_forecast_find(const struct sl_config *c, const struct sl_dataset *ds,
                           const struct sl_typed *typed, enum sl_typed_bound bound,
                           struct sl_typed_forecast *out);
void sl_typed_forecast_fini(struct sl_typed_forecast *f); // safe on a zeroed struct

// The sum of n numbers, such as its vertices of all types.
double sl_typed_forecast_total(const double *of, uint32_t n);

// For people, and as member "mini_batch" of the plan; nothing where there is one type.
void sl_typed_forecast_print(const struct sl_typed_forecast *f, const struct sl_config *c,
                             const struct sl_dataset *ds);
void sl_typed_forecast_add(const struct sl_typed_forecast *f, const struct sl_dataset *ds,
                           cJSON *plan);

#endif
