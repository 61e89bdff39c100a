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

struct work {
    const struct sl_config *config;
    const struct sl_dataset *ds;
    const struct sl_typed *typed;
    enum sl_typed_bound bound;
    double *rows, *drawn; // (n_types) that a hop draws for, and that it finds
};

static int64_t fanout_of(const struct work *w, uint32_t h, uint32_t r)
{
    const int64_t *by_relation = w->config->sampler.fanout_names.by_relation;
    return by_relation ? by_relation[(uint64_t)h * w->typed->n_relations + r]
                       : w->config->sampler.fanout[h];
}

// Of lists that are all as long as they are on average.
static double drawn_of_mean(const struct sl_typed *t, const struct sl_relation *r, int64_t fanout)
{
    const uint64_t n = t->type[r->target].n;
    const double degree = n ? (double)r->n_edges / (double)n : 0;
    return fanout < 0 ? degree : SL_MIN(degree, (double)fanout);
}

// Vertices that the walks from one meet, at most.
static uint64_t met_by_walks(const struct sl_config *c)
{
    return (uint64_t)c->sampler.paths * c->sampler.length;
}

// What a fanout leaves of a list of the relation on average, of lists of which each counts alike,
// or as often as it has edges.
static double drawn_of_lists(const struct work *w, const struct sl_relation *r, int64_t fanout,
                             bool by_edges)
{
    const struct sl_dataset *ds = w->ds;
    const uint64_t n = w->typed->type[r->target].n, looked = SL_MIN(n, (uint64_t)LOOKED_LISTS);
    const uint64_t met = met_by_walks(w->config);
    double sum = 0, weights = 0;
    for (uint64_t i = 0; i < looked; i++) {
        // Spread evenly; n is below 2^32.
        const uint64_t degree = sl_dataset_degree(ds, r->first_row + i * n / looked);
        const double weight = by_edges ? (double)degree : 1;
        const uint64_t there = r->n_steps > 0 && degree > 0 ? met : degree;
        sum += weight * (double)(fanout < 0 ? there : SL_MIN(there, (uint64_t)fanout));
        weights += weight;
    }
    return weights > 0 ? sum / weights : 0;
}

// Edges that hop h draws of relation r for `from` vertices.
static double edges_of(const struct work *w, uint32_t h, uint32_t r, double from)
{
    const struct sl_relation *relation = &w->typed->relation[r];
    const int64_t fanout = fanout_of(w, h, r);
    const double all = (double)relation->n_edges;
    if (from <= 0)
        return 0;
    if (relation->n_steps > 0 && (w->bound == SL_TYPED_MEAN || w->ds->described))
        return from * (double)SL_MIN((uint64_t)fanout, met_by_walks(w->config));
    if (w->bound == SL_TYPED_MEAN || (w->ds->described && h == 0))
        return SL_MIN(from * drawn_of_mean(w->typed, relation, fanout), all);
    if (w->ds->described) // nothing says how long the lists are that others find
        return fanout < 0 ? all : SL_MIN(from * (double)fanout, all);
    return from * drawn_of_lists(w, relation, fanout, h > 0);
}

// Of a hop: `rows` vertices draw, and those that are new to the batch are left there.
static void add_hop(const struct work *w, uint32_t h, struct sl_typed_forecast *f)
{
    const struct sl_typed *t = w->typed;
    const double *before = f->known + (uint64_t)h * t->n_types;
    double *after = f->known + (uint64_t)(h + 1) * t->n_types;
    memset(w->drawn, 0, t->n_types * sizeof *w->drawn);
    for (uint32_t r = 0; r < t->n_relations; r++) {
        const struct sl_relation *relation = &t->relation[r];
        const double edges = edges_of(w, h, r, w->rows[relation->target]);
        f->drawn[(uint64_t)h * t->n_relations + r] = edges;
        f->edges[r] += edges;
        w->drawn[relation->source] += edges;
    }
    for (uint32_t i = 0; i < t->n_types; i++) {
        const double n = (double)t->type[i].n, found = n > 0 ? -expm1(-w->drawn[i] / n) : 0;
        const double fresh = (n - before[i]) * found;
        after[i] = before[i] + fresh;
        w->rows[i] = w->config->sampler.expand == SL_EXPAND_NEW ? fresh : after[i];
    }
}

int sl_typed_forecast_find(const struct sl_config *c, const struct sl_dataset *ds,
                           const struct sl_typed *t, enum sl_typed_bound bound,
                           struct sl_typed_forecast *out)
{
    const uint64_t items = sl_config_epoch_items(c, ds->split[SL_SPLIT_TRAIN].n);
    const uint32_t hops = c->sampler.n_fanout, relations = SL_MAX(t->n_relations, 1u);
    *out = (struct sl_typed_forecast){0};
    if (t->n_types == 0)
        return SL_OK;
    struct work w = {.config = c, .ds = ds, .typed = t, .bound = bound};
    w.rows = calloc(t->n_types, sizeof *w.rows);
    w.drawn = calloc(t->n_types, sizeof *w.drawn);
    out->known = calloc((uint64_t)(hops + 1) * t->n_types, sizeof *out->known);
    out->drawn = calloc((uint64_t)hops * relations, sizeof *out->drawn);
    out->edges = calloc(relations, sizeof *out->edges);
    const bool there = w.rows && w.drawn && out->known && out->drawn && out->edges;
    if (there) {
        out->n_hops = hops;
        out->vertices = out->known + (uint64_t)hops * t->n_types;
        w.rows[0] = out->known[0] = (double)SL_MIN(items, (uint64_t)c->sampler.batch_size);
        for (uint32_t h = 0; h < hops; h++)
            add_hop(&w, h, out);
    }
    free(w.rows);
    free(w.drawn);
    return there ? SL_OK : sl_fail(SL_ENOMEM, "no memory for %u types", t->n_types);
}

void sl_typed_forecast_fini(struct sl_typed_forecast *f)
{
    free(f->known);
    free(f->drawn);
    free(f->edges);
    *f = (struct sl_typed_forecast){0};
}

// As a trainer has them.
static double feature_bytes(const struct sl_typed_forecast *f, const struct sl_dataset *ds,
                            uint32_t type)
{
    return f->vertices[type] * ds->typed.type[type].feat_dim * sizeof(float);
}

double sl_typed_forecast_total(const double *of, uint32_t n)
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
           sl_units_grouped(a, (uint64_t)sl_typed_forecast_total(f->vertices, t->n_types)),
           sl_units_grouped(b, (uint64_t)sl_typed_forecast_total(f->edges, t->n_relations)),
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
