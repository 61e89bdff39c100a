#include "cli/dry_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "broker/epochs/phases.h"
#include "broker/placement/budget.h"
#include "broker/placement/placement.h"
#include "broker/rundir/saving.h"
#include "broker/scheduler/capacity.h"
#include "broker/sharding/gpus.h"
#include "broker/sharding/shard_preference.h"
#include "cli/dispatch.h"
#include "cli/machine_plan.h"
#include "cli/nodes_plan.h"
#include "cli/run_summary.h"
#include "cli/store_view.h"
#include "cli/trainer_subprocess.h"
#include "cli/typed_forecast.h"
#include "cli/world_command.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/memory.h"
#include "common/arena/arena.h"
#include "common/arena/row_table.h"
#include "common/data/wider_graph.h"
#include "common/data/edge_lookup.h"
#include "common/data/expected_visits.h"
#include "common/data/link_items.h"
#include "common/data/typed_json.h"
#include "common/storage/row_reader.h"
#include "common/text/json.h"
#include "common/text/units.h"
#include "link/node_facts.h"

enum { ROLES_BYTES = 2048 }; // of a pool all of them

static enum sl_duty duty_of(const struct sl_config *c, enum sl_role role, uint32_t device)
{
    const struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    return sl_placement_duty(split, c->n_devices, sl_placement_switches(c, device), role, device);
}

// "sampler 0, standby trainer 1"
static const char *roles_text(const struct sl_config *c, uint32_t shown, char out[ROLES_BYTES])
{
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t d = 0; d < c->n_devices; d++)
        for (enum sl_role role = SL_ROLE_SAMPLER; role < SL_ROLE_COUNT; role++) {
            const enum sl_duty duty = duty_of(c, role, d);
            if (sl_placement_shown(c, d) == shown && duty != SL_DUTY_NONE && n < ROLES_BYTES)
                n += (size_t)snprintf(out + n, ROLES_BYTES - n, "%s%s%s %u", n ? ", " : "",
                                      duty == SL_DUTY_STANDBY ? "standby " : "", sl_role_name(role),
                                      sl_placement_role_index(c->n_devices, role, d));
        }
    return out[0] ? out : "nothing";
}

static void add_role_devices(cJSON *to, const char *key, const struct sl_config *c,
                             enum sl_role role, enum sl_duty duty)
{
    cJSON *list = cJSON_AddArrayToObject(to, key);
    for (uint32_t shown = 0; shown < sl_placement_shown_devices(c); shown++) {
        bool has = false;
        for (uint32_t d = 0; d < c->n_devices; d++)
            has |= sl_placement_shown(c, d) == shown && duty_of(c, role, d) == duty;
        if (has)
            cJSON_AddItemToArray(list, cJSON_CreateNumber(shown));
    }
}

// Where features would be on this machine, now, and what of them the machine's cache would have.
struct store {
    enum sl_features features;
    enum sl_cache_policy policy;
    const char *why;                // "auto" became that policy, or NULL
    struct sl_row_widths widths;    // of all rows
    struct sl_row_cache_shape rows; // no slots: there is none
    double inputs, hit_rate;        // of a mini-batch, as sampling is expected to be; 0: not known
    double input_bytes, blocks;     // likewise; of 4 KiB that are read for what the cache lacks
    double reads_per_s;             // of blocks, by the drive; 0: not measured
    double drive_seconds;           // that it takes for a mini-batch's other rows
    enum sl_store_way way;          // how GPUs get what no cache has
    struct sl_store_view view[SL_PEER_MEMORY_PLANNED]; // who holds what together
    struct sl_config config;                           // with what "auto" is here
};

static int goes_on(void *ctx, uint64_t n)
{
    (void)ctx;
    (void)n;
    return SL_OK;
}

// Adds n vertices from the first on, whose rows are of one width: they have their share of its
// slots.
static int forecast_rows(const uint32_t *visits, const struct sl_vertex_type *type,
                         uint64_t row_bytes, uint64_t n_batches, struct store *out)
{
    double inputs, rate;
    uint32_t w = 0;
    while (w < out->rows.n_widths && out->rows.width[w].row_bytes != row_bytes)
        w++;
    if (w == out->rows.n_widths)
        return SL_OK;
    const double share = (double)type->n / (double)SL_MAX(out->widths.of[w].n_rows, (uint64_t)1);
    const uint64_t slots = (uint64_t)((double)out->rows.width[w].n_slots * share);
    SL_TRY(sl_visits_forecast(visits + type->first, type->n, n_batches, slots, &inputs, &rate));
    out->hit_rate += inputs * rate; // hits, until the share of all is known
    out->inputs += inputs;
    out->input_bytes += inputs * (double)row_bytes;
    out->blocks += inputs * (1 - rate) * sl_row_blocks(row_bytes);
    return SL_OK;
}

// Of each type, a plain graph's vertices being of one.
static int forecast_types(const struct sl_dataset *ds, const uint32_t *visits, uint64_t n_batches,
                          struct store *out)
{
    const struct sl_vertex_type all = {.n = ds->n_nodes};
    const uint32_t n = ds->typed.n_types;
    if (n == 0)
        SL_TRY(forecast_rows(visits, &all, ds->feat_dim * sl_dtype_bytes(ds->feat_dtype), n_batches,
                             out));
    for (uint32_t t = 0; t < n; t++)
        SL_TRY(forecast_rows(visits, &ds->typed.type[t], sl_type_row_bytes(&ds->typed.type[t]),
                             n_batches, out));
    out->hit_rate = out->inputs > 0 ? out->hit_rate / out->inputs : 0;
    return SL_OK;
}

// What the hottest vertices are to a mini-batch; only of uniform sampling something is known.
static int forecast(const struct sl_config *c, const struct sl_dataset *ds, struct store *out)
{
    const struct sl_visits_watch watch = {.on_vertices = goes_on};
    const struct sl_visits_sampling sampling = sl_config_sampling(c);
    if (!(sl_sampler_flags[c->sampler.kind] & SL_SAMPLER_UNIFORM) || ds->described)
        return SL_OK;
    uint32_t *visits = malloc(SL_MAX(ds->n_nodes, (uint64_t)1) * sizeof *visits);
    if (!visits)
        return sl_fail(SL_ENOMEM, "no memory for the expected visits of the vertices");
    int rc = sl_visits_expect(ds, &sampling, &watch, visits);
    if (rc == SL_OK)
        rc =
            forecast_types(ds, visits, sl_phases_pass_batches(c, ds->split[SL_SPLIT_TRAIN].n), out);
    free(visits);
    return rc;
}

// How long the drive takes for the rows that the cache does not have, as fast as it is right now.
static int measure_drive(const struct sl_dataset *ds, struct store *out)
{
    const struct sl_row_options options = {0};
    struct sl_row_reader *reader;
    if (ds->described)
        return SL_OK; // nothing is there to be read
    SL_TRY(sl_row_reader_open(ds, &options, &reader));
    out->reads_per_s = sl_row_reader_profile(reader).reads_per_s;
    sl_row_reader_close(reader);
    if (out->reads_per_s > 0)
        out->drive_seconds = out->blocks / out->reads_per_s;
    return SL_OK;
}

static bool reads_files(const struct sl_gpus *gpus, const struct sl_device_config *d)
{
    return d->index < gpus->report.n && gpus->report.gpu[d->index].maps_files;
}

// As the broker finds it once it knows what the arena and a step take.
static enum sl_store_way find_way(const struct sl_config *c, const struct sl_dataset *ds,
                                  uint64_t available)
{
    const struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    const struct sl_budget_need need = {.row_bytes = sl_features_row_bytes(ds),
                                        .n_nodes = ds->n_nodes};
    struct sl_shard_inputs q = {.types = ds->typed.n_types > 0,
                                .cached = true,
                                .feature_bytes = sl_features_bytes(ds),
                                .available_bytes = available,
                                .spare_bytes = UINT64_MAX};
    bool files = true;
    for (uint32_t i = 0; i < c->n_devices; i++) {
        const struct sl_device_config *d = &c->devices[i];
        const enum sl_duty duty =
            sl_placement_duty(split, c->n_devices, sl_placement_switches(c, i), SL_ROLE_TRAINER, i);
        if (d->kind == SL_DEVICE_CPU || duty == SL_DUTY_NONE)
            continue;
        q.gpus = true;
        q.cached &= sl_budget_expects_all_rows(c, i, duty, &need, available);
        files = files && reads_files(sl_gpus_known(), d);
    }
    const enum sl_store_way way = sl_capacity_store_way(c, &q);
    return (way == SL_STORE_WAY_COPY || way == SL_STORE_WAY_TYPES) && files ? SL_STORE_WAY_FILE
                                                                            : way;
}

// What the machine can still give, or another one has, within the job's bound.
static uint64_t available_to(const struct sl_job_check *r)
{
    const uint64_t bound = r->config.memory_bytes;
    const uint64_t available = r->machine ? r->machine->memory : sl_device_memory_available();
    return bound ? SL_MIN(available, bound) : available;
}

static int find_store(const struct sl_job_check *r, struct store *out)
{
    struct sl_config c = r->config;
    const struct sl_dataset *ds = &r->dataset;
    const uint64_t available = available_to(r);
    sl_capacity_settle_store(&c, ds, available);
    struct sl_store_foreseen found;
    const bool foreseen = !ds->described && sl_store_foresees(&c, ds);
    if (foreseen)
        SL_TRY(sl_store_foresee(&c, ds, NULL, &found));
    sl_store_prefer(&c, ds, available, foreseen ? &found : NULL);
    *out = (struct store){.features = c.store.features,
                          .policy = c.cache.policy,
                          .why = c.cache.why,
                          .way = find_way(&c, ds, available),
                          .config = c};
    SL_TRY(sl_store_view_find(&out->config, ds, available, foreseen ? &found : NULL, out->view));
    sl_row_widths_find(&c, ds, &out->widths);
    SL_TRY(sl_capacity_rows(&c, ds->n_nodes, &out->widths, available, &out->rows));
    if (!sl_features_kinds[c.store.features].drive)
        out->rows = (struct sl_row_cache_shape){0}; // its cache is for rows of other nodes
    if (!out->rows.n_slots)
        return SL_OK;
    SL_TRY(forecast(&c, ds, out));
    return r->machine ? SL_OK : measure_drive(ds, out);
}

struct plan {
    struct store store; // of this node
    struct sl_params params;
    struct sl_nodes_plan nodes;
    struct sl_typed_forecast typed;
    struct sl_machine_plan machine; // where it is for another one
};

// Of a graph with types.
static void print_widths(const struct store *s)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], d[SL_UNITS_BYTES];
    for (uint32_t w = 0; s->rows.n_widths > 1 && w < s->rows.n_widths; w++) {
        const struct sl_row_need *need = &s->widths.of[w];
        printf("\n  of %s bytes: %s of %s rows; a mini-batch wants about %s",
               sl_units_grouped(a, need->row_bytes), sl_units_grouped(b, s->rows.width[w].n_slots),
               sl_units_grouped(c, need->n_rows),
               sl_units_grouped(d, (uint64_t)(need->wanted + 0.5)));
    }
}

static void add_widths(const struct store *s, cJSON *to)
{
    if (s->rows.n_widths <= 1)
        return;
    cJSON *list = cJSON_AddArrayToObject(to, "widths");
    for (uint32_t w = 0; w < s->rows.n_widths; w++) {
        const struct sl_row_need *need = &s->widths.of[w];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "row_bytes", (double)need->row_bytes);
        cJSON_AddNumberToObject(one, "rows", (double)need->n_rows);
        cJSON_AddNumberToObject(one, "cache_rows", (double)s->rows.width[w].n_slots);
        cJSON_AddNumberToObject(one, "wanted", need->wanted);
        cJSON_AddItemToArray(list, one);
    }
}

static void print_rows(const struct store *s, uint64_t n_batches)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    uint64_t n_rows = 0;
    for (uint32_t w = 0; w < s->rows.n_widths; w++)
        n_rows += s->widths.of[w].n_rows;
    if (!s->rows.n_slots)
        return;
    printf("cache       %s for %s of these rows, %.3g %%, in the memory of the machine",
           sl_units_bytes(a, sl_row_cache_bytes(&s->rows)), sl_units_grouped(b, s->rows.n_slots),
           100.0 * (double)s->rows.n_slots / (double)n_rows);
    print_widths(s);
    if (s->inputs > 0)
        printf("\n  a mini-batch has at most about %s input nodes (%s), of which the hottest rows "
               "there are about %.0f %%",
               sl_units_grouped(a, (uint64_t)s->inputs), sl_units_bytes(c, s->input_bytes),
               100 * s->hit_rate);
    printf("\n");
    if (s->reads_per_s > 0)
        printf("drive       %s blocks of 4 KiB a second, measured now",
               sl_units_grouped(a, (uint64_t)s->reads_per_s));
    if (s->drive_seconds > 0)
        printf(": at most about %s for a mini-batch, %s an epoch, beside training",
               sl_units_seconds(b, s->drive_seconds),
               sl_units_seconds(c, s->drive_seconds * (double)n_batches));
    if (s->reads_per_s > 0)
        printf("\n");
}

// What learned rows take: of a vertex, and of all.
static struct sl_row_table_shape learned_shape(const struct sl_config *c,
                                               const struct sl_dataset *ds)
{
    return (struct sl_row_table_shape){.n_rows = sl_dataset_learned_rows(ds),
                                       .dim = sl_config_learned_dim(c),
                                       .n_state = c->optimizer.kind == SL_OPTIMIZER_SGD ? 1 : 2};
}

static void print_learned(const struct sl_config *c, const struct sl_dataset *ds)
{
    const struct sl_row_table_shape shape = learned_shape(c, ds);
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], saved[SL_UNITS_BYTES];
    if (shape.dim == 0)
        return;
    const uint64_t all = sl_row_table_bytes(&shape);
    const uint64_t one = sizeof(float) * shape.dim * (2 + (uint64_t)shape.n_state);
    printf("learned     %u numbers a vertex: %s each with the optimizer's and the best ones, %s in "
           "all, in %s",
           shape.dim, sl_units_bytes(a, one), sl_units_bytes(b, all),
           c->features.place == SL_ROWS_IN_FILE ? "a file beside the output" : "memory");
    if (sl_saving_is_wanted(c))
        printf("; as much again (%s) while checkpoints are made", sl_units_bytes(saved, all));
    printf("\n");
}

static void print_warnings(const struct sl_judging *j)
{
    for (int i = 0; i < SL_SPLIT_COUNT; i++) {
        if (*j->warning[i])
            printf("  %s\n", j->warning[i]);
        if (*j->leak[i])
            printf("  %s\n", j->leak[i]);
    }
}

// Memory that a sampler looks listed edges up in, which no negative may be.
static uint64_t strict_bytes(const struct sl_config *c, const struct sl_dataset *ds)
{
    return sl_config_is_links(c) ? sl_edge_lookup_bytes(ds, c->task.strict == SL_STRICT_ALL) : 0;
}

// Of a job of links: what it learns from, and what it is judged by.
static void print_links(const struct sl_config *c, const struct sl_dataset *ds)
{
    static const char *const uses[SL_SPLIT_COUNT] = {"to train with", "to validate", "to test"};
    char n[SL_UNITS_BYTES], negatives[SL_UNITS_BYTES], orders[SL_UNITS_BYTES];
    if (!sl_config_is_links(c))
        return;
    char *resolved = sl_config_to_json(c);
    cJSON *job = cJSON_Parse(resolved); // has the keys' words
    printf("links       ");
    if (!sl_config_is_external(c))
        printf("decoder %s of %u numbers, loss %s, ", sl_json_string(job, "task.decoder"),
               c->task.dim, sl_json_string(job, "task.loss"));
    printf("%s negatives, %u a positive\n", sl_json_string(job, "task.negatives"),
           c->task.per_positive);
    cJSON_Delete(job);
    free(resolved);
    for (enum sl_split s = 0; s < SL_SPLIT_COUNT; s++) {
        const struct sl_link_items items = sl_link_items_of(ds, s, c->evaluate.negatives);
        if (items.n_positive == 0 || (s != SL_SPLIT_TRAIN && sl_config_is_external(c)))
            continue;
        printf("  %s edges %s", sl_units_grouped(n, items.n_positive), uses[s]);
        if (s == SL_SPLIT_TRAIN)
            printf(", whose orders of two epochs take %s of memory",
                   sl_units_bytes(
                       orders, sl_arena_order_bytes(sl_config_epoch_items(c, items.n_positive))));
        if (s != SL_SPLIT_TRAIN && items.per_positive > 0)
            printf(", each against %u negatives of its own", items.per_positive);
        else if (s != SL_SPLIT_TRAIN)
            printf(", against %s negatives%s", sl_units_grouped(negatives, items.n_negative),
                   items.given.ids ? "" : " that are drawn once");
        printf("\n");
    }
    if (strict_bytes(c, ds) > 0)
        printf("  task.strict \"all\" takes 8 bytes for each listed edge: %s of memory, in each "
               "sampler\n",
               sl_units_bytes(n, strict_bytes(c, ds)));
    if (sl_config_widens(c, ds))
        printf("  test edges are scored by a graph that has the validation edges: at most %s in a "
               "file beside the output\n",
               sl_units_bytes(n, sl_wider_graph_bytes(ds, &ds->edges[SL_SPLIT_VAL])));
}

// What walks go along.
static void print_metapath(const struct sl_typed *t, uint32_t relation)
{
    const struct sl_relation *r = &t->relation[relation];
    printf("  %s: walks along", sl_relation_text(t, relation).text);
    for (uint32_t k = 0; k < r->n_steps; k++)
        printf("%s %s", k ? "," : "", sl_relation_text(t, r->step[k]).text);
    printf("\n");
}

// Of the edges of a relation, or of a plain graph.
static void print_edge_features(const struct sl_relation *r)
{
    char a[SL_UNITS_BYTES];
    if (r->feat_dim > 0)
        printf(", %u features of each, %s, mapped", r->feat_dim,
               sl_units_bytes(a, (double)sl_relation_feature_bytes(r)));
}

static void print_dataset(const struct sl_config *c, const struct sl_dataset *ds)
{
    enum { SHOWN = 20 }; // `sluice inspect` has all
    const struct sl_typed *t = &ds->typed;
    const uint32_t n_paths = t->n_walked > 0 ? t->n_relations : 0;
    const uint32_t n_own = n_paths > 0 ? t->n_walked : t->n_relations;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    printf("data set    %s: %s vertices, %s edges", c->dataset, sl_units_grouped(a, ds->n_nodes),
           sl_units_grouped(b, ds->n_edges));
    print_edge_features(&t->plain);
    printf(", ");
    if (t->n_types > 0)
        printf("%s, %s", SL_PLURAL(t->n_types, "type"), SL_PLURAL(n_own, "relation"));
    else
        printf("%u features", ds->feat_dim);
    if (!sl_config_is_links(c))
        printf(", %u classes", ds->n_classes);
    printf("\n");
    for (uint32_t i = 0; i < SL_MIN(t->n_types, (uint32_t)SHOWN); i++) {
        const struct sl_vertex_type *type = &t->type[i];
        const uint64_t bytes = sl_dataset_type_rows(ds, type) * sl_type_row_bytes(type);
        printf("  %s: %s vertices, ", type->name, sl_units_grouped(a, type->n));
        if (bytes > 0)
            printf("%u features, %s\n", type->feat_dim, sl_units_bytes(b, bytes));
        else
            printf("no features\n");
    }
    for (uint32_t i = n_paths; i < n_paths + SL_MIN(n_own, (uint32_t)SHOWN); i++) {
        printf("  %s: %s edges", sl_relation_text(t, i).text,
               sl_units_grouped(a, t->relation[i].n_edges));
        print_edge_features(&t->relation[i]);
        printf("\n");
    }
    for (uint32_t i = 0; i < n_paths; i++)
        print_metapath(t, i);
}

// A GPU that samples, whose part of the graph no plan of several GPUs shows.
static bool holds_graph(const struct sl_config *c, const struct store *s, uint32_t device)
{
    return device < c->allocation.samplers && c->devices[device].kind != SL_DEVICE_CPU &&
           !sl_config_draws_on_cores(c) && !s->view[SL_PEER_MEMORY_GRAPH].shown;
}

// What the graph takes of the memory of GPUs that sample.
static void print_graph(const struct store *s, const struct sl_dataset *ds)
{
    const struct sl_config *c = &s->config;
    const uint64_t rows = (sl_dataset_lists(ds) + 1) * sizeof(uint64_t);
    const uint64_t each = sl_store_edge_bytes(c, ds);
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    bool any = false;
    for (uint32_t d = 0; d < c->n_devices; d++) {
        if (!holds_graph(c, s, d))
            continue;
        if (!any)
            printf("graph       %s where GPUs sample: %s of rows, %llu bytes an edge\n",
                   sl_units_bytes(a, rows + each * ds->n_edges), sl_units_bytes(b, rows),
                   (unsigned long long)each);
        any = true;
        const uint64_t edges = sl_store_graph_room(c, ds, d);
        printf("  GPU %u has room for %.3g %% of the edges (%s)%s\n", c->devices[d].index,
               ds->n_edges ? 100.0 * (double)edges / (double)ds->n_edges : 100.0,
               sl_units_bytes(a, edges * each),
               edges < ds->n_edges ? ", the others are read from the machine's memory" : "");
    }
}

static void add_graph(const struct store *s, const struct sl_dataset *ds, cJSON *store)
{
    const struct sl_config *c = &s->config;
    cJSON *list = cJSON_CreateArray();
    for (uint32_t d = 0; d < c->n_devices; d++) {
        if (!holds_graph(c, s, d))
            continue;
        const uint64_t edges = sl_store_graph_room(c, ds, d);
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "device", d);
        cJSON_AddNumberToObject(item, "edges", (double)edges);
        cJSON_AddNumberToObject(item, "bytes", (double)(edges * sl_store_edge_bytes(c, ds)));
        cJSON_AddItemToArray(list, item);
    }
    cJSON_AddItemToObject(store, "graph_room", list);
}

// How much of the graph an evaluation looks at.
static void print_evaluation(const struct sl_config *c, const struct sl_dataset *ds)
{
    char a[SL_UNITS_BYTES];
    if (ds->typed.n_types == 0 || sl_config_is_external(c) || sl_config_is_links(c))
        return;
    if (c->evaluate.full)
        printf("evaluation  layer by layer over %s\n",
               ds->typed.n_walked > 0 ? "what walks meet" : "all neighbours");
    else
        printf("evaluation  mini-batches of %s vertices, %s\n",
               sl_units_grouped(a, c->evaluate.batch_size),
               sl_config_evaluates_all(c) ? "with all their neighbours"
                                          : "as evaluate.fanout samples them");
}

static void print_plan_text(const struct sl_job_check *r, const struct plan *p)
{
    const struct sl_config *c = &r->config;
    const struct sl_dataset *ds = &r->dataset;
    const struct store *store = &p->store;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], reason[192], device[512], roles[ROLES_BYTES],
        because[192], title[SL_MEASURE_TITLE];
    uint64_t n_train = ds->split[SL_SPLIT_TRAIN].n;
    printf("job         %s\n", c->name);
    const char *why = sl_measure_reason(&r->judging.choice, because, sizeof because);
    print_dataset(c, ds);
    print_links(c, ds);
    if (sl_config_is_external(c))
        printf("model       external: batches are for %s that attach\n",
               SL_PLURAL(c->allocation.trainers, "trainer"));
    else
        printf("model       %s, layers %u, hidden %u: %s parameters\n",
               sl_model_kind_name(c->model.kind), c->model.layers, c->model.hidden,
               sl_units_grouped(a, p->params.n));
    if (sl_config_is_endless(c))
        printf("epochs      until it is stopped, of %s mini-batches\n",
               sl_units_grouped(a, sl_phases_batches(c, n_train)));
    else if (sl_config_is_external(c))
        printf("epochs      %u of %s mini-batches\n", c->epochs,
               sl_units_grouped(a, sl_phases_batches(c, n_train)));
    else
        printf("epochs      %u of %s mini-batches, %s updates each\n", c->epochs,
               sl_units_grouped(a, sl_phases_batches(c, n_train)),
               sl_units_grouped(b, sl_phases_updates(c, n_train)));
    if (c->order.epochs_per_pass > 1)
        printf("  %u of them walk through the training set once, of %s mini-batches\n",
               c->order.epochs_per_pass, sl_units_grouped(a, sl_phases_pass_batches(c, n_train)));
    printf("split       %s, %s (%s)\n", SL_PLURAL(c->allocation.samplers, "sampler"),
           SL_PLURAL(c->allocation.trainers, "trainer"),
           sl_placement_reason(c, reason, sizeof reason));
    for (uint32_t i = 0; i < sl_placement_shown_devices(c); i++)
        printf("  %s: %s\n", sl_placement_device_text(c, i, device, sizeof device),
               roles_text(c, i, roles));
    print_graph(store, ds);
    print_learned(c, ds);
    sl_typed_forecast_print(&p->typed, c, ds);
    if (sl_features_bytes(ds) > 0 || sl_config_learned_dim(c) == 0)
        printf("features    %s, %s\n", sl_units_bytes(a, sl_features_bytes(ds)),
               sl_features_kinds[store->features].drive
                   ? "read from the drive"
                   : "mapped, in memory as far as there is room");
    sl_run_summary_way(stdout, "them", sl_store_ways[store->way].word,
                       sl_store_ways[store->way].why, (double)sl_features_bytes(ds), 0);
    printf("kept        %s%s%s\n", sl_cache_words[store->policy],
           store->why ? ", chosen automatically: " : "", store->why ? store->why : "");
    print_rows(store, sl_phases_batches(c, n_train));
    sl_nodes_plan_print(&p->nodes, stdout);
    if (store->config.store.prefer_why && sl_config_gpus(c) > 0)
        printf("prefer      %s, chosen automatically: %s\n",
               sl_store_preference_words[store->config.store.prefer],
               store->config.store.prefer_why);
    for (int kind = 0; kind < SL_PEER_MEMORY_PLANNED; kind++)
        sl_store_view_print(&store->view[kind], stdout);
    print_evaluation(c, ds);
    if (!sl_config_is_external(c))
        printf("judged by   %s%s%s\n",
               sl_measure_title(r->judging.choice.measure, c->evaluate.k, title),
               *why ? ", chosen automatically: " : "", why);
    print_warnings(&r->judging);
    if (!sl_config_is_external(c))
        printf("precision   %s%s\n", sl_precision_words[sl_config_precision(c)],
               c->precision == SL_CONFIG_PRECISION_AUTO ? ", chosen automatically" : "");
    if (c->memory_bytes)
        printf("memory      at most %s for all processes, pages of files aside\n",
               sl_units_bytes(a, c->memory_bytes));
    else
        printf("memory      what there is: %s now\n",
               sl_units_bytes(a, sl_device_memory_available()));
    printf("output      %s\n\nNothing was started. '-o json' has this and the resolved job.\n",
           c->output);
}

// Of all edges whose features the model reads.
static uint64_t edge_feature_bytes(const struct sl_dataset *ds)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sl_typed_edge_sets(&ds->typed); i++)
        sum += sl_relation_feature_bytes(sl_typed_edge_set(&ds->typed, i));
    return sum;
}

static int print_plan_json(const struct sl_job_check *r, const struct plan *p)
{
    const struct sl_config *c = &r->config;
    const struct store *s = &p->store;
    uint64_t n_train = r->dataset.split[SL_SPLIT_TRAIN].n;
    char reason[192];
    cJSON *plan = cJSON_CreateObject();
    cJSON_AddStringToObject(plan, "schema", "sluice.plan/1");
    char *resolved = sl_config_to_json(c);
    cJSON_AddItemToObject(plan, "config", cJSON_Parse(resolved));
    free(resolved);
    cJSON_AddNumberToObject(plan, "num_nodes", (double)r->dataset.n_nodes);
    cJSON_AddNumberToObject(plan, "num_edges", (double)r->dataset.n_edges);
    if (r->dataset.typed.n_types > 0) {
        cJSON_AddItemToObject(plan, "types", sl_typed_types_to_json(&r->dataset));
        cJSON_AddItemToObject(plan, "relations", sl_typed_relations_to_json(&r->dataset));
    }
    cJSON_AddNumberToObject(plan, "num_params", (double)p->params.n);
    cJSON_AddNumberToObject(plan, "batches_per_epoch", (double)sl_phases_batches(c, n_train));
    cJSON_AddNumberToObject(plan, "updates_per_epoch", (double)sl_phases_updates(c, n_train));
    if (*r->epochs_note)
        cJSON_AddStringToObject(plan, "epochs_reason", r->epochs_note);
    cJSON_AddNumberToObject(plan, "order_bytes",
                            (double)sl_arena_order_bytes(sl_config_epoch_items(c, n_train)));
    if (strict_bytes(c, &r->dataset) > 0)
        cJSON_AddNumberToObject(plan, "strict_bytes", (double)strict_bytes(c, &r->dataset));
    sl_typed_forecast_add(&p->typed, &r->dataset, plan);
    const struct sl_row_table_shape learned = learned_shape(c, &r->dataset);
    if (learned.dim > 0)
        cJSON_AddNumberToObject(plan, "learned_bytes", (double)sl_row_table_bytes(&learned));
    if (sl_config_widens(c, &r->dataset))
        cJSON_AddNumberToObject(
            plan, "test_graph_bytes",
            (double)sl_wider_graph_bytes(&r->dataset, &r->dataset.edges[SL_SPLIT_VAL]));
    cJSON *precision = cJSON_AddObjectToObject(plan, "precision");
    cJSON_AddStringToObject(precision, "asked", sl_precision_words[c->precision]);
    cJSON_AddStringToObject(precision, "used", sl_precision_words[sl_config_precision(c)]);
    cJSON *cache = cJSON_AddObjectToObject(plan, "cache");
    cJSON_AddStringToObject(cache, "policy", sl_cache_words[s->policy]);
    if (s->why)
        cJSON_AddStringToObject(cache, "why", s->why);
    cJSON *store = cJSON_AddObjectToObject(plan, "store");
    cJSON_AddStringToObject(store, "features", sl_features_kinds[s->features].word);
    cJSON_AddNumberToObject(store, "feature_bytes", (double)sl_features_bytes(&r->dataset));
    cJSON_AddNumberToObject(store, "edge_feature_bytes", (double)edge_feature_bytes(&r->dataset));
    if (s->way != SL_STORE_WAY_NONE) {
        cJSON_AddStringToObject(store, "gpu_way", sl_store_ways[s->way].word);
        cJSON_AddStringToObject(store, "gpu_reason", sl_store_ways[s->way].why);
    }
    cJSON_AddNumberToObject(store, "cache_rows", (double)s->rows.n_slots);
    cJSON_AddNumberToObject(store, "cache_bytes", (double)sl_row_cache_bytes(&s->rows));
    add_widths(s, store);
    cJSON_AddNumberToObject(store, "reads_per_second", s->reads_per_s);
    cJSON_AddNumberToObject(store, "drive_seconds", s->drive_seconds);
    cJSON_AddNumberToObject(store, "input_nodes", s->inputs);
    cJSON_AddNumberToObject(store, "hit_rate", s->hit_rate);
    cJSON_AddStringToObject(store, "prefer", sl_store_preference_words[s->config.store.prefer]);
    if (s->config.store.prefer_why)
        cJSON_AddStringToObject(store, "prefer_reason", s->config.store.prefer_why);
    add_graph(s, &r->dataset, store);
    sl_store_view_add(&s->view[SL_PEER_MEMORY_FEATURES], store);
    if (s->view[SL_PEER_MEMORY_GRAPH].shown)
        sl_store_view_add(&s->view[SL_PEER_MEMORY_GRAPH], cJSON_AddObjectToObject(store, "graph"));
    cJSON *split = cJSON_AddObjectToObject(plan, "allocation");
    cJSON_AddStringToObject(split, "reason", sl_placement_reason(c, reason, sizeof reason));
    add_role_devices(split, "sampler_devices", c, SL_ROLE_SAMPLER, SL_DUTY_WORK);
    add_role_devices(split, "trainer_devices", c, SL_ROLE_TRAINER, SL_DUTY_WORK);
    add_role_devices(split, "standby_devices", c, SL_ROLE_TRAINER, SL_DUTY_STANDBY);
    sl_nodes_plan_add(&p->nodes, plan);
    if (r->machine)
        sl_machine_plan_add(&p->machine, plan);
    return sl_output_json_pages(plan, "the plan");
}

// --- the whole -----------------------------------------------------------------------------------

// The trainer says what the model is, as before the first epoch of a job.
static int find_params(const struct sl_job_check *r, struct sl_params *out)
{
    char *job = NULL;
    if (sl_config_is_external(&r->config))
        return SL_OK; // a model of the user's
    SL_TRY(sl_trainer_subprocess_fit(r->config_json, r->job, r->dataset.path, &job));
    int rc = sl_trainer_subprocess_describe(job, &r->dataset, out);
    free(job);
    return rc;
}

static struct sl_nodes_plan_spec spec_of_nodes(const struct sl_job_check *r, const struct plan *p)
{
    return (struct sl_nodes_plan_spec){.config = &r->config,
                                       .dataset = &r->dataset,
                                       .params = &p->params,
                                       .n_nodes = r->nodes,
                                       .available_bytes = available_to(r),
                                       .quiet = r->quiet};
}

// Of another machine than this one.
static int find_machine(const struct sl_job_check *r, struct plan *p)
{
    const struct sl_machine_plan_spec spec = {.machine = r->machine,
                                              .config = &p->store.config,
                                              .dataset = &r->dataset,
                                              .memory_bytes = available_to(r),
                                              .n_params = p->params.n,
                                              .infer_width = p->params.infer_width,
                                              .jumping_width = p->params.jumping_width,
                                              .hit_rate = p->store.hit_rate};
    return sl_machine_plan_find(&spec, &p->machine);
}

static int find_plan(const struct sl_job_check *r, struct plan *p)
{
    SL_TRY(find_store(r, &p->store));
    SL_TRY(find_params(r, &p->params));
    SL_TRY(sl_typed_forecast_find(&r->config, &r->dataset, &r->dataset.typed, SL_TYPED_MOST,
                                  &p->typed));
    if (r->machine)
        SL_TRY(find_machine(r, p));
    const struct sl_nodes_plan_spec spec = spec_of_nodes(r, p);
    return r->nodes > 1 ? sl_nodes_plan_find(&spec, &p->nodes) : SL_OK;
}

static int print_plan(const struct sl_job_check *r, enum sl_output output, const struct plan *p)
{
    if (output == SL_OUTPUT_JSON)
        return print_plan_json(r, p);
    if (r->machine)
        sl_machine_plan_print(&p->machine);
    else
        print_plan_text(r, p);
    return SL_OK;
}

static int show_plan(const struct sl_job_check *r, enum sl_output output, const char *links,
                     struct plan *p)
{
    SL_TRY(find_plan(r, p));
    if (links)
        SL_TRY(sl_nodes_plan_read_links(&p->nodes, links));
    return print_plan(r, output, p);
}

// --- on several nodes ----------------------------------------------------------------------------

struct together {
    const struct sl_job_check *check;
    enum sl_output output;
    const char *links;
    struct plan *plan;
    int rc;
};

// What a job on these nodes compares when it begins, and whether it fits.
static int look_at_all(struct together *t, struct sl_facts *f)
{
    const struct sl_job_check *r = t->check;
    SL_TRY(sl_node_facts_add_machine(f));
    SL_TRY(sl_node_facts_add_programs(f));
    SL_TRY(sl_node_facts_add_job(f, r->config_json));
    SL_TRY(sl_node_facts_add_dataset(f, &r->dataset));
    if (r->node == 0)
        return find_plan(r, t->plan);
    SL_TRY(find_params(r, &t->plan->params));
    const struct sl_nodes_plan_spec spec = spec_of_nodes(r, t->plan);
    return sl_nodes_plan_check(&spec, r->node);
}

static int look(void *ctx, struct sl_facts *f)
{
    // What a node misses is for the first one to show, with all the rest.
    if (look_at_all(ctx, f) < 0)
        return sl_facts_add(f, SL_FACT_PROBLEM, "", "%s", sl_error_message());
    return SL_OK;
}

static void show(void *ctx, const struct sl_world *w, const struct sl_survey *s)
{
    struct together *t = ctx;
    (void)w;
    for (size_t i = 0; i < s->notes.n; i++)
        fprintf(stderr, "sluice: %s%s\n",
                s->notes.note[i].is_problem ? "" : "warning: ", s->notes.note[i].text);
    if (s->notes.problems)
        return;
    if (t->links)
        t->rc = sl_nodes_plan_read_links(&t->plan->nodes, t->links);
    else
        sl_nodes_plan_time(&t->plan->nodes, s->link, s->n_links);
    if (t->rc == SL_OK)
        t->rc = print_plan(t->check, t->output, t->plan);
    fflush(stdout);
}

static int run_together(struct together *t)
{
    const struct sl_survey_spec survey = {
        .look = look, .ctx = t, .show = show, .compares_only = t->links != NULL};
    uint32_t problems = 0;
    SL_TRY(sl_world_command_run("run", &survey, &problems));
    SL_TRY(t->rc);
    return problems ? SL_EXIT_USAGE : SL_EXIT_OK;
}

int sl_dry_run(const struct sl_job_check *check, enum sl_output output, const char *links)
{
    static struct plan plan; // too large for a stack
    struct together t = {.check = check, .output = output, .links = links, .plan = &plan};
    int rc;
    if (links && check->nodes < 2)
        rc = sl_fail(SL_EINVAL,
                     "--links '%s': the job is for one node, which has no links: set "
                     "nodes to their number (--set nodes=N)",
                     links);
    else
        rc = check->over_nodes ? run_together(&t) : show_plan(check, output, links, &plan);
    sl_params_fini(&plan.params);
    sl_nodes_plan_fini(&plan.nodes);
    sl_typed_forecast_fini(&plan.typed);
    sl_machine_plan_fini(&plan.machine);
    return rc;
}
