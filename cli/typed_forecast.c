#include "cli/typed_forecast.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/epochs/phases.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/units.h"

// Lists of a relation that are looked at, at most; types that are shown.
enum { LOOKED_LISTS = 1 << 16, SHOWN = 16 };

static int64_t fanout_of(const struct sl_config *c, const struct sl_typed *t, uint32_t h,
                         uint32_t r)
{
    const int64_t *by_relation = c->sampler.fanout_names.by_relation;
    return by_relation ? by_relation[(uint64_t)h * t->n_relations + r] : c->sampler.fanout[h];
}

// What a fanout leaves of a list of the relation on average, of lists of which each counts alike,
// or as often as it has edges.
static double mean_drawn(const struct sl_dataset *ds, const struct sl_relation *r, int64_t fanout,
                         bool by_edges)
{
    const uint64_t n = ds->typed.type[r->target].n, looked = SL_MIN(n, (uint64_t)LOOKED_LISTS);
    double sum = 0, weights = 0;
    for (uint64_t i = 0; i < looked; i++) {
        // Spread evenly; n is below 2^32.
        const uint64_t degree = sl_dataset_degree(ds, r->first_row + i * n / looked);
        const double weight = by_edges ? (double)degree : 1;
        sum += weight * (double)(fanout < 0 ? degree : SL_MIN(degree, (uint64_t)fanout));
        weights += weight;
    }
    return weights > 0 ? sum / weights : 0;
}

// Of a hop: `rows` (n_types) vertices draw, and those that are new to the batch are left there.
static void add_hop(const struct sl_config *c, const struct sl_dataset *ds, uint32_t h,
                    double *rows, double *drawn, struct sl_typed_forecast *f)
{
    const struct sl_typed *t = &ds->typed;
    memset(drawn, 0, t->n_types * sizeof *drawn);
    for (uint32_t r = 0; r < t->n_relations; r++) {
        const struct sl_relation *relation = &t->relation[r];
        const double from = rows[relation->target];
        const double edges =
            from > 0 ? from * mean_drawn(ds, relation, fanout_of(c, t, h, r), h > 0) : 0;
        f->edges[r] += edges;
        drawn[relation->source] += edges;
    }
    for (uint32_t i = 0; i < t->n_types; i++) {
        const double n = (double)t->type[i].n, found = n > 0 ? -expm1(-drawn[i] / n) : 0;
        const double fresh = (n - f->vertices[i]) * found;
        f->vertices[i] += fresh;
        rows[i] = c->sampler.expand == SL_EXPAND_NEW ? fresh : f->vertices[i];
    }
}

int sl_typed_forecast_find(const struct sl_config *c, const struct sl_dataset *ds,
                           struct sl_typed_forecast *out)
{
    const struct sl_typed *t = &ds->typed;
    const uint64_t items = sl_config_epoch_items(c, ds->split[SL_SPLIT_TRAIN].n);
    *out = (struct sl_typed_forecast){0};
    if (t->n_types == 0)
        return SL_OK;
    double *rows = calloc(t->n_types, sizeof *rows), *drawn = calloc(t->n_types, sizeof *drawn);
    out->vertices = calloc(t->n_types, sizeof *out->vertices);
    out->edges = calloc(SL_MAX(t->n_relations, 1u), sizeof *out->edges);
    const bool there = rows && drawn && out->vertices && out->edges;
    if (there) {
        rows[0] = out->vertices[0] = (double)SL_MIN(items, (uint64_t)c->sampler.batch_size);
        for (uint32_t h = 0; h < c->sampler.n_fanout; h++)
            add_hop(c, ds, h, rows, drawn, out);
    }
    free(rows);
    free(drawn);
    return there ? SL_OK : sl_fail(SL_ENOMEM, "no memory for %u types", t->n_types);
}

void sl_typed_forecast_fini(struct sl_typed_forecast *f)
{
    free(f->vertices);
    free(f->edges);
    *f = (struct sl_typed_forecast){0};
}

// As a trainer has them.
static double feature_bytes(const struct sl_typed_forecast *f, const struct sl_dataset *ds,
                            uint32_t type)
{
    return f->vertices[type] * ds->typed.type[type].feat_dim * sizeof(float);
}

static double total(const double *of, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += of[i];
    return sum;
}

static double all_bytes(const struct sl_typed_forecast *f, const struct sl_dataset *ds)
{
    double sum = 0;
    for (uint32_t i = 0; i < ds->typed.n_types; i++)
        sum += feature_bytes(f, ds, i);
    for (uint32_t r = 0; r < ds->typed.n_relations; r++) // of edges, where they are read
        sum += f->edges[r] * ds->typed.relation[r].feat_dim * sizeof(float);
    return sum;
}

void sl_typed_forecast_print(const struct sl_typed_forecast *f, const struct sl_config *c,
                             const struct sl_dataset *ds)
{
    const struct sl_typed *t = &ds->typed;
    const uint64_t n_batches = sl_phases_batches(c, ds->split[SL_SPLIT_TRAIN].n);
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], bytes[SL_UNITS_BYTES], epoch[SL_UNITS_BYTES];
    if (!f->vertices)
        return;
    printf("mini-batch  at most about %s vertices, %s edges, and %s of features in f32; %s an "
           "epoch\n",
           sl_units_grouped(a, (uint64_t)total(f->vertices, t->n_types)),
           sl_units_grouped(b, (uint64_t)total(f->edges, t->n_relations)),
           sl_units_bytes(bytes, all_bytes(f, ds)),
           sl_units_bytes(epoch, all_bytes(f, ds) * (double)n_batches));
    for (uint32_t i = 0; i < SL_MIN(t->n_types, (uint32_t)SHOWN); i++)
        if (f->vertices[i] > 0)
            printf("  %s: %s vertices, %s\n", t->type[i].name,
                   sl_units_grouped(a, (uint64_t)f->vertices[i]),
                   sl_units_bytes(bytes, feature_bytes(f, ds, i)));
    printf("topology    %s, mapped\n", sl_units_bytes(bytes, sl_topology_bytes(ds)));
}

void sl_typed_forecast_add(const struct sl_typed_forecast *f, const struct sl_dataset *ds,
                           cJSON *plan)
{
    const struct sl_typed *t = &ds->typed;
    if (!f->vertices)
        return;
    cJSON *batch = cJSON_AddObjectToObject(plan, "mini_batch");
    cJSON *types = cJSON_AddObjectToObject(batch, "vertices");
    for (uint32_t i = 0; i < t->n_types; i++)
        cJSON_AddNumberToObject(types, t->type[i].name, round(f->vertices[i]));
    cJSON *relations = cJSON_AddObjectToObject(batch, "edges");
    for (uint32_t r = 0; r < t->n_relations; r++)
        cJSON_AddNumberToObject(relations, sl_relation_text(t, r).text, round(f->edges[r]));
    cJSON_AddNumberToObject(batch, "feature_bytes", round(all_bytes(f, ds)));
    cJSON_AddNumberToObject(plan, "topology_bytes", (double)sl_topology_bytes(ds));
}
