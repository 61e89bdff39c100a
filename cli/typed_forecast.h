/*
 * typed_forecast.h - about how large the mini-batches of a job on a graph of several types are, by
 * type and relation, before anything is drawn.
 *
 * Hop by hop, from the tables of the graph: the vertices that a hop draws for have as many edges of
 * a relation as its fanout leaves of lists on average, of lists spread over the relation: of seeds
 * of all alike; others are found the more often the more edges they have, so that lists count by
 * their length, which is too much where it is another relation that finds them. Of the N vertices
 * of the source type, of which k are in the batch, m edges find (N - k)(1 - exp(-m / N)) new ones,
 * where all are drawn alike. Where there are hubs they find fewer, so memory that suffices for it
 * suffices.
 */
#ifndef SL_CLI_TYPED_FORECAST_H
#define SL_CLI_TYPED_FORECAST_H

#include <cjson/cJSON.h>

#include "common/data/dataset.h"
#include "config/config.h"

struct sl_typed_forecast {
    double *vertices; // (n_types) of a mini-batch, owned; NULL: the graph has one type
    double *edges;    // (n_relations) owned
};

// Of training; the names in sampler.fanout have been found. SL_ENOMEM.
int sl_typed_forecast_find(const struct sl_config *c, const struct sl_dataset *ds,
                           struct sl_typed_forecast *out);
void sl_typed_forecast_fini(struct sl_typed_forecast *f); // safe on a zeroed struct

// For people, and as member "mini_batch" of the plan; nothing where there is one type.
void sl_typed_forecast_print(const struct sl_typed_forecast *f, const struct sl_config *c,
                             const struct sl_dataset *ds);
void sl_typed_forecast_add(const struct sl_typed_forecast *f, const struct sl_dataset *ds,
                           cJSON *plan);

#endif
