#include "cli/machine_plan.h"

#include <stdio.h>
#include <string.h>

#include "broker/epochs/phases.h"
#include "broker/placement/placement.h"
#include "broker/scheduler/allocate.h"
#include "broker/scheduler/capacity.h"
#include "broker/sharding/shard_inputs.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/table.h"
#include "common/text/units.h"

enum {
    SHOWN = 24, // types and relations
    PASSES = 3, // forward, and backward by inputs and by weights
    BLOCK_BYTES = 4096,
};

static const struct stage {
    const char *name, *unit; // NULL: bytes
    const char *example;     // what gives its rate
} stages[SL_MACHINE_STAGES] = {
    [SL_MACHINE_DRAW] = {"draw", "edges", "edges=20M"},
    [SL_MACHINE_READ] = {"read", NULL, "read=200GB"},
    [SL_MACHINE_DRIVE] = {"drive", NULL, "drive=6GB"},
    [SL_MACHINE_BUS] = {"bus", NULL, "bus=25GB"},
    [SL_MACHINE_TRAIN] = {"train", "operations", "products=40T"},
};

// --- a mini-batch --------------------------------------------------------------------------------

static void take_types(struct sl_machine_plan *p)
{
    const struct sl_dataset *ds = p->spec.dataset;
    p->typed = ds->typed;
    if (ds->typed.n_types > 0)
        return;
    p->one_type = (struct sl_vertex_type){.name = "vertices",
                                          .n = ds->n_nodes,
                                          .feat_dim = ds->feat_dim,
                                          .feat_dtype = ds->feat_dtype};
    p->one_relation = ds->typed.plain; // with its features, where they are read
    p->one_relation.n_edges = ds->n_edges;
    snprintf(p->one_relation.name, sizeof p->one_relation.name, "edges");
    p->typed = (struct sl_typed){.n_types = 1,
                                 .n_relations = 1,
                                 .n_rows = ds->n_nodes,
                                 .type = &p->one_type,
                                 .relation = &p->one_relation};
}

// Numbers of a vertex that the first layer reads.
static double width_of(const struct sl_machine_plan *p, uint32_t type)
{
    const struct sl_vertex_type *t = &p->typed.type[type];
    const uint32_t learned = sl_config_learned_dim(p->spec.config);
    if (p->spec.dataset->typed.n_types > 0)
        return t->feat_dim ? t->feat_dim : SL_MAX(learned, 1u);
    return SL_MAX(t->feat_dim + learned, 1u);
}

// As they lie in the files.
static double stored_bytes(const struct sl_machine_plan *p, const struct sl_typed_forecast *f,
                           uint32_t type)
{
    return f->vertices[type] * (double)sl_type_row_bytes(&p->typed.type[type]);
}

static double all_stored_bytes(const struct sl_machine_plan *p, const struct sl_typed_forecast *f)
{
    double sum = 0;
    for (uint32_t t = 0; t < p->typed.n_types; t++)
        sum += stored_bytes(p, f, t);
    return sum;
}

// Features of a mini-batch's edges, each number of so many bytes; 0: as it lies in the file. Where
// the job reads none no relation has any.
static double edge_bytes(const struct sl_machine_plan *p, const struct sl_typed_forecast *f,
                         size_t bytes_each)
{
    double sum = 0;
    for (uint32_t r = 0; r < p->typed.n_relations; r++) {
        const struct sl_relation *relation = &p->typed.relation[r];
        sum += f->edges[r] * (double)(bytes_each ? relation->feat_dim * bytes_each
                                                 : sl_relation_row_bytes(relation));
    }
    return sum;
}

// Of those that are not in memory: they are mapped, a block or more for each edge.
static double edge_drive_bytes(const struct sl_machine_plan *p, const struct sl_typed_forecast *f)
{
    double blocks = 0;
    for (uint32_t r = 0; r < p->typed.n_relations; r++) {
        const uint64_t bytes = sl_relation_row_bytes(&p->typed.relation[r]);
        if (bytes > 0)
            blocks += f->edges[r] * sl_row_blocks(bytes);
    }
    return (1 - p->edge_feature_share) * blocks * BLOCK_BYTES;
}

// Blocks that the drive reads for rows that are not in memory.
static double drive_bytes(const struct sl_machine_plan *p, const struct sl_typed_forecast *f)
{
    double blocks = 0;
    for (uint32_t t = 0; t < p->typed.n_types; t++)
        if (stored_bytes(p, f, t) > 0)
            blocks += f->vertices[t] * sl_row_blocks(sl_type_row_bytes(&p->typed.type[t]));
    return (1 - p->kept_share) * (1 - p->feature_share) * blocks * BLOCK_BYTES;
}

// As a GPU gets them.
static double f32_bytes(const struct sl_machine_plan *p, const struct sl_typed_forecast *f)
{
    double numbers = 0;
    for (uint32_t t = 0; t < p->typed.n_types; t++)
        numbers += f->vertices[t] * width_of(p, t);
    return numbers * sizeof(float);
}

// Of a relation in the layer that reads what hop h has drawn: edges, and the rows at both ends.
struct run {
    double edges, sources, targets, d_in[2]; // of source and target
};

static struct run run_of(const struct sl_machine_plan *p, const struct sl_typed_forecast *f,
                         uint32_t h, uint32_t r)
{
    const struct sl_config *c = p->spec.config;
    const struct sl_typed *t = &p->typed;
    const struct sl_relation *relation = &t->relation[r];
    const bool widest = h + 1 == f->n_hops;
    const double *before = f->known + (uint64_t)h * t->n_types, *after = before + t->n_types;
    struct run run = {0};
    for (uint32_t hop = c->sampler.expand == SL_EXPAND_NEW ? 0 : h; hop <= h; hop++)
        run.edges += f->drawn[(uint64_t)hop * t->n_relations + r];
    run.sources = SL_MIN(after[relation->source], run.edges);
    run.targets = SL_MIN(before[relation->target], run.edges);
    run.d_in[0] = widest ? width_of(p, relation->source) : c->model.hidden;
    run.d_in[1] = widest ? width_of(p, relation->target) : c->model.hidden;
    return run;
}

static double products_of(const struct sl_machine_plan *p, const struct sl_typed_forecast *f)
{
    const double hidden = p->spec.config->model.hidden;
    double sum = f->known[0] * hidden * p->spec.dataset->n_classes;
    for (uint32_t h = 0; h < f->n_hops; h++)
        for (uint32_t r = 0; r < p->typed.n_relations; r++) {
            const struct run run = run_of(p, f, h, r);
            sum += hidden * (run.sources * run.d_in[0] + run.targets * run.d_in[1] + run.edges);
        }
    return 2 * sum; // a product and a sum
}

// About what a GPU that trains holds: this mini-batch's input and the next one's, what each
// relation makes of its rows, and parameters with their gradient.
static double step_bytes(const struct sl_machine_plan *p)
{
    const struct sl_typed_forecast *f = &p->train.mean;
    double rows = 0;
    for (uint32_t h = 0; h < f->n_hops; h++)
        for (uint32_t r = 0; r < p->typed.n_relations; r++) {
            const struct run run = run_of(p, f, h, r);
            rows += run.sources + run.targets;
        }
    return 2 * (f32_bytes(p, f) + edge_bytes(p, f, sizeof(float))) +
           sizeof(float) * (rows * p->spec.config->model.hidden + 2 * (double)p->spec.n_params);
}

// --- memory --------------------------------------------------------------------------------------

// A mini-batch in the arena, about: ids, ranks and offsets of rows, and edges, with their numbers
// where their features are read.
static uint64_t block_bytes(const struct sl_machine_plan *p, const struct sl_typed_forecast *f)
{
    return (uint64_t)(sizeof(uint32_t) *
                      (3 * sl_typed_forecast_total(f->vertices, p->typed.n_types) +
                       (p->spec.config->model.edge_features ? 3 : 1) *
                           sl_typed_forecast_total(f->edges, p->typed.n_relations)));
}

static uint32_t gpu_trainers(const struct sl_config *c)
{
    const struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    uint32_t n = 0;
    for (uint32_t d = 0; d < c->n_devices; d++)
        n += c->devices[d].kind == SL_DEVICE_CUDA &&
             sl_placement_duty(split, c->n_devices, sl_placement_switches(c, d), SL_ROLE_TRAINER,
                               d) != SL_DUTY_NONE;
    return n;
}

static int find_memory(struct sl_machine_plan *p)
{
    const struct sl_machine_plan_spec *s = &p->spec;
    const struct sl_config *c = s->config;
    const struct sl_dataset *ds = s->dataset;
    const uint64_t n_train = ds->split[SL_SPLIT_TRAIN].n, memory = s->memory_bytes;
    struct sl_capacity_need need = {
        .samplers = SL_MAX(c->allocation.samplers, 1u),
        .trainers = SL_MAX(c->allocation.trainers, 1u),
        .block_bytes_max = block_bytes(p, &p->most),
        .block_bytes_mean = block_bytes(p, &p->train.mean),
        .n_nodes = ds->n_nodes,
        .n_train = sl_config_epoch_items(c, n_train),
        .n_params = s->n_params,
        .infer_width = s->infer_width,
        .jumping_width = s->jumping_width,
        .n_evaluated = SL_MAX(ds->split[SL_SPLIT_VAL].n, ds->split[SL_SPLIT_TEST].n),
        .predict_words = sl_dataset_predict_words(ds),
        .n_cells = (uint32_t)SL_MIN(sl_phases_batches(c, n_train), (uint64_t)UINT32_MAX),
    };
    struct sl_arena_spec arena;
    struct sl_arena_header layout;
    uint64_t acts;
    sl_row_widths_find(c, ds, &need.widths);
    SL_TRY(sl_capacity_plan(c, &need, memory, &arena, &acts));
    p->cache_bytes = sl_row_cache_bytes(&arena.rows);
    p->arena_bytes = sl_arena_layout(&arena, &layout) - acts - p->cache_bytes;
    p->places_bytes = gpu_trainers(c) * ds->n_nodes * sizeof(uint32_t);
    p->held_bytes = p->arena_bytes + p->cache_bytes + p->places_bytes;
    p->graph_bytes = sl_topology_bytes(ds);
    p->feature_bytes = sl_features_bytes(ds);
    for (uint32_t r = 0; r < p->typed.n_relations; r++)
        p->edge_feature_bytes += sl_relation_feature_bytes(&p->typed.relation[r]);
    if (p->held_bytes > memory) {
        char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
        return sl_fail(
            SL_ENOMEM,
            "--machine: memory: found %s, wanted at least %s, for the arena and the "
            "notes of %s on GPUs, and more for graph and features: take more memory, or a "
            "smaller sampler.batch_size or sampler.fanout",
            sl_units_exact_bytes(a, memory), sl_units_exact_bytes(b, p->held_bytes),
            SL_PLURAL(gpu_trainers(c), "trainer"));
    }
    double left = (double)(memory - p->held_bytes);
    p->graph_share = SL_MIN(1, left / SL_MAX((double)p->graph_bytes, 1.0));
    left -= p->graph_share * (double)p->graph_bytes;
    p->feature_share = SL_MIN(1, left / SL_MAX((double)p->feature_bytes, 1.0));
    if (!sl_features_kinds[c->store.features].drive)
        left -= p->feature_share * (double)p->feature_bytes;
    p->edge_feature_share = SL_MIN(1, left / SL_MAX((double)p->edge_feature_bytes, 1.0));
    if (sl_features_kinds[c->store.features].drive)
        p->feature_share = s->hit_rate > 0 ? s->hit_rate
                           : arena.rows.n_slots
                               ? (double)p->cache_bytes / SL_MAX((double)p->feature_bytes, 1.0)
                               : 0;
    p->feature_share = SL_MIN(1, p->feature_share);
    return SL_OK;
}

static double with_margin(double step)
{
    return step + step / 4; // as budgets have it (broker/placement/budget.h)
}

// Bytes of the graph on a GPU that samples.
static double graph_of_gpu(const struct sl_machine_plan *p)
{
    const struct sl_dataset *ds = p->spec.dataset;
    return p->graph_room < 0 ? 0
                             : (double)(p->typed.n_rows * sizeof *ds->indptr) +
                                   p->graph_room * (double)sl_store_edge_bytes(p->spec.config, ds);
}

static void find_gpus(struct sl_machine_plan *p)
{
    const struct sl_config *c = p->spec.config;
    p->step_bytes = step_bytes(p);
    p->graph_room = -1;
    if (c->n_devices == 0 || c->devices[c->n_devices - 1].kind != SL_DEVICE_CUDA)
        return;
    p->gpu_bytes = (double)c->devices[c->n_devices - 1].memory_bytes;
    for (uint32_t d = 0; d < SL_MIN(c->allocation.samplers, c->n_devices); d++)
        if (c->devices[d].kind == SL_DEVICE_CUDA && !sl_config_draws_on_cores(c))
            p->graph_room = (double)sl_store_graph_room(c, p->spec.dataset, d);
    p->gpu_need = with_margin(p->step_bytes) + (c->n_devices == 1 ? graph_of_gpu(p) : 0);
    if (sl_cache_keeps(c->cache.policy) && p->gpu_bytes > p->gpu_need && p->feature_bytes > 0)
        p->kept_share = SL_MIN(1, (p->gpu_bytes - p->gpu_need) / (double)p->feature_bytes);
}

// --- time ----------------------------------------------------------------------------------------

static double rate_of(const struct sl_machine *m, enum sl_machine_stage stage)
{
    const uint64_t rates[SL_MACHINE_STAGES] = {[SL_MACHINE_DRAW] = m->edges,
                                               [SL_MACHINE_READ] = m->read,
                                               [SL_MACHINE_DRIVE] = m->drive,
                                               [SL_MACHINE_BUS] = m->bus,
                                               [SL_MACHINE_TRAIN] = m->products};
    return (double)rates[stage];
}

// Of one mini-batch on one worker.
static double batch_seconds(const struct sl_machine_plan *p, const struct sl_machine_phase *f,
                            enum sl_machine_stage stage)
{
    const double rate = rate_of(p->spec.machine, stage);
    return rate > 0 ? f->units[stage] / rate : 0;
}

static void find_split(struct sl_machine_plan *p)
{
    const struct sl_config *c = p->spec.config;
    const double train = SL_MAX(batch_seconds(p, &p->train, SL_MACHINE_BUS),
                                batch_seconds(p, &p->train, SL_MACHINE_TRAIN));
    struct sl_roles split = {c->allocation.samplers, c->allocation.trainers};
    const struct sl_allocation_question q = {
        .profile = {.t_sample = batch_seconds(p, &p->train, SL_MACHINE_DRAW), .t_train = train},
        .n_devices = c->n_devices,
        .batches = p->train.n_batches,
        .at_once = sl_config_trainers_at_once(c),
        .batch_size = c->sampler.batch_size,
    };
    p->alternates = c->n_devices == 1;
    p->chosen = c->allocation.samplers_auto && c->allocation.trainers_auto && c->n_devices > 1 &&
                !sl_config_is_pool(c) && q.profile.t_sample > 0 && train > 0;
    if (p->chosen)
        split = sl_allocate_formula(&q);
    p->samplers = SL_MAX(split.samplers, 1u);
    p->trainers = SL_MAX(split.trainers, 1u);
    p->working = SL_MIN(p->trainers, q.at_once);
}

// What a mini-batch of the phase is to each stage.
static void find_units(const struct sl_machine_plan *p, bool trains, struct sl_machine_phase *f)
{
    const bool gpus = sl_config_trains_on(p->spec.config, SL_DEVICE_CUDA);
    const double both_ways = trains ? 2 * sizeof(float) * (double)p->spec.n_params : 0;
    f->units[SL_MACHINE_DRAW] = sl_typed_forecast_total(f->mean.edges, p->typed.n_relations);
    f->units[SL_MACHINE_READ] =
        (1 - p->kept_share) * all_stored_bytes(p, &f->mean) + edge_bytes(p, &f->mean, 0);
    f->units[SL_MACHINE_DRIVE] = drive_bytes(p, &f->mean) + edge_drive_bytes(p, &f->mean);
    f->units[SL_MACHINE_BUS] = gpus ? (1 - p->kept_share) * f32_bytes(p, &f->mean) +
                                          edge_bytes(p, &f->mean, sizeof(float)) + both_ways
                                    : 0;
    f->units[SL_MACHINE_TRAIN] = (trains ? PASSES : 1) * products_of(p, &f->mean);
}

// Of all its mini-batches, where so many trainers work at once.
static void find_seconds(const struct sl_machine_plan *p, uint32_t working,
                         struct sl_machine_phase *f)
{
    const uint32_t workers[SL_MACHINE_STAGES] = {[SL_MACHINE_DRAW] = p->samplers,
                                                 [SL_MACHINE_READ] = 1,
                                                 [SL_MACHINE_DRIVE] = 1,
                                                 [SL_MACHINE_BUS] = working,
                                                 [SL_MACHINE_TRAIN] = working};
    double others = 0; // than drawing
    for (enum sl_machine_stage s = 0; s < SL_MACHINE_STAGES; s++) {
        f->seconds[s] = (double)f->n_batches * batch_seconds(p, f, s) / workers[s];
        if (f->seconds[s] > f->seconds[f->slowest])
            f->slowest = s;
        if (s != SL_MACHINE_DRAW)
            others = SL_MAX(others, f->seconds[s]);
    }
    f->total = p->alternates ? f->seconds[SL_MACHINE_DRAW] + others : f->seconds[f->slowest];
}

// The job's mini-batches as evaluations draw them.
static int find_evaluation(struct sl_machine_plan *p)
{
    const struct sl_config *c = p->spec.config;
    const uint64_t n = p->spec.dataset->split[SL_SPLIT_VAL].n;
    struct sl_config as = *c;
    if (c->evaluate.full || c->evaluate.every == 0 || n == 0 || sl_config_is_external(c))
        return SL_OK;
    as.sampler.n_fanout = c->evaluate.n_fanout;
    memcpy(as.sampler.fanout, c->evaluate.fanout, sizeof as.sampler.fanout);
    as.sampler.fanout_names = c->evaluate.fanout_names;
    as.sampler.batch_size = c->evaluate.batch_size;
    p->evaluation.n_batches = sl_div_up(n, c->evaluate.batch_size);
    return sl_typed_forecast_find(&as, p->spec.dataset, &p->typed, SL_TYPED_MEAN,
                                  &p->evaluation.mean);
}

static void find_time(struct sl_machine_plan *p)
{
    const struct sl_config *c = p->spec.config;
    p->train.n_batches = sl_phases_batches(c, p->spec.dataset->split[SL_SPLIT_TRAIN].n);
    find_units(p, true, &p->train);
    find_split(p);
    find_seconds(p, p->working, &p->train);
    p->epoch_seconds = p->train.total;
    if (p->evaluation.n_batches == 0)
        return;
    find_units(p, false, &p->evaluation);
    find_seconds(p, p->trainers, &p->evaluation);
    p->epoch_seconds += p->evaluation.total / c->evaluate.every;
}

// Lists that were looked at are a sample: what is expected is not above what is the most.
static void raise_most(struct sl_machine_plan *p)
{
    double *vertices = p->most.known + (uint64_t)p->most.n_hops * p->typed.n_types;
    for (uint32_t t = 0; t < p->typed.n_types; t++)
        vertices[t] = SL_MAX(vertices[t], p->train.mean.vertices[t]);
    for (uint32_t r = 0; r < p->typed.n_relations; r++)
        p->most.edges[r] = SL_MAX(p->most.edges[r], p->train.mean.edges[r]);
}

int sl_machine_plan_find(const struct sl_machine_plan_spec *spec, struct sl_machine_plan *out)
{
    *out = (struct sl_machine_plan){.spec = *spec};
    take_types(out);
    SL_TRY(sl_typed_forecast_find(spec->config, spec->dataset, &out->typed, SL_TYPED_MEAN,
                                  &out->train.mean));
    SL_TRY(sl_typed_forecast_find(spec->config, spec->dataset, &out->typed, SL_TYPED_MOST,
                                  &out->most));
    raise_most(out);
    SL_TRY(find_evaluation(out));
    SL_TRY(find_memory(out));
    find_gpus(out);
    find_time(out);
    return SL_OK;
}

void sl_machine_plan_fini(struct sl_machine_plan *p)
{
    sl_typed_forecast_fini(&p->train.mean);
    sl_typed_forecast_fini(&p->evaluation.mean);
    sl_typed_forecast_fini(&p->most);
}

// --- showing -------------------------------------------------------------------------------------

// Rows and edges of a relation.
static double relation_bytes(const struct sl_machine_plan *p, uint32_t r)
{
    const struct sl_dataset *ds = p->spec.dataset;
    const struct sl_relation *relation = &p->typed.relation[r];
    return (double)(p->typed.type[relation->target].n * sizeof *ds->indptr +
                    relation->n_edges * sl_dtype_bytes(ds->indices_dtype));
}

static const char *relation_name(const struct sl_machine_plan *p, uint32_t r,
                                 struct sl_relation_text *text)
{
    *text = sl_relation_text(&p->typed, r);
    return p->spec.dataset->typed.n_types ? text->text : p->typed.relation[r].name;
}

static void print_types(const struct sl_machine_plan *p)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], d[SL_UNITS_BYTES],
        e[SL_UNITS_BYTES];
    struct sl_table t;
    sl_table_init(&t, "l r r r r r",
                  (const char *[]){"type", "vertices", "features", "in a mini-batch", "at most",
                                   "features of it"});
    for (uint32_t i = 0; i < SL_MIN(p->typed.n_types, (uint32_t)SHOWN); i++)
        sl_table_row(&t, "%s|%s|%s|%s|%s|%s", p->typed.type[i].name,
                     sl_units_grouped(a, p->typed.type[i].n),
                     sl_units_bytes(b, (double)sl_type_feature_bytes(&p->typed.type[i])),
                     sl_units_grouped(c, (uint64_t)(p->train.mean.vertices[i] + 0.5)),
                     sl_units_grouped(d, (uint64_t)(p->most.vertices[i] + 0.5)),
                     sl_units_bytes(e, stored_bytes(p, &p->train.mean, i)));
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
}

static void print_relations(const struct sl_machine_plan *p)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], d[SL_UNITS_BYTES];
    struct sl_relation_text name;
    struct sl_table t;
    sl_table_init(
        &t, "l r r r r",
        (const char *[]){"relation", "edges", "with offsets", "in a mini-batch", "at most"});
    for (uint32_t r = 0; r < SL_MIN(p->typed.n_relations, (uint32_t)SHOWN); r++)
        sl_table_row(&t, "%s|%s|%s|%s|%s", relation_name(p, r, &name),
                     sl_units_grouped(a, p->typed.relation[r].n_edges),
                     sl_units_bytes(b, relation_bytes(p, r)),
                     sl_units_grouped(c, (uint64_t)(p->train.mean.edges[r] + 0.5)),
                     sl_units_grouped(d, (uint64_t)(p->most.edges[r] + 0.5)));
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
}

static void print_machine(const struct sl_machine_plan *p)
{
    const struct sl_machine *m = p->spec.machine;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    printf("machine     ");
    if (m->gpus)
        printf("%s of %s, each fed by %s/s; ", SL_PLURAL((double)m->gpus, "GPU"),
               sl_units_bytes(a, (double)m->gpu_memory), sl_units_bytes(b, (double)m->bus));
    printf("%s of memory", sl_units_bytes(a, (double)m->memory));
    if (m->drive)
        printf("; a drive of %s/s", sl_units_bytes(b, (double)m->drive));
    printf(": assumed, nothing was measured\n");
}

static void print_memory(const struct sl_machine_plan *p)
{
    const bool drive = sl_features_kinds[p->spec.config->store.features].drive;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    printf("memory      %s for the arena (arena.memory bounds it)",
           sl_units_bytes(a, (double)p->arena_bytes));
    if (p->places_bytes)
        printf(", %s for notes of trainers on GPUs", sl_units_bytes(b, (double)p->places_bytes));
    printf("\n  graph: %s, of which %.3g %% are there", sl_units_bytes(a, (double)p->graph_bytes),
           100 * p->graph_share);
    printf("\n  features: %s, of which %.3g %% are there",
           sl_units_bytes(a, (double)p->feature_bytes), 100 * p->feature_share);
    if (drive)
        printf(", in a cache of %s", sl_units_bytes(b, (double)p->cache_bytes));
    if (p->edge_feature_bytes > 0)
        printf("\n  features of edges: %s, of which %.3g %% are there",
               sl_units_bytes(b, (double)p->edge_feature_bytes), 100 * p->edge_feature_share);
    printf("; the drive reads %s for a mini-batch\n",
           sl_units_bytes(b, p->train.units[SL_MACHINE_DRIVE]));
    if (!drive && p->feature_share < 1)
        printf("  mapped rows that are not there come page by page, which takes longer than the "
               "drive's rate says\n");
}

static void print_gpus(const struct sl_machine_plan *p)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    if (p->gpu_bytes <= 0)
        return;
    printf("GPUs        one that trains: about %s for a step, %.3g %% of the features\n",
           sl_units_bytes(a, p->step_bytes), 100 * p->kept_share);
    if (p->graph_room >= 0)
        printf("  one that samples: %s of the graph, with %.3g %% of the edges\n",
               sl_units_bytes(a, graph_of_gpu(p)),
               100 * p->graph_room / SL_MAX((double)p->spec.dataset->n_edges, 1.0));
    if (p->gpu_need > p->gpu_bytes)
        printf("  too small: %s%s and a quarter more for steps are %s, and a device may take %s: "
               "%stake a smaller sampler.batch_size or sampler.fanout\n",
               p->alternates && p->graph_room >= 0 ? "the graph, " : "", "a step",
               sl_units_bytes(a, p->gpu_need), sl_units_bytes(b, p->gpu_bytes),
               p->alternates ? "set store.prefer to \"features\", or " : "");
}

static void print_split(const struct sl_machine_plan *p)
{
    const struct sl_config *c = p->spec.config;
    printf("split       ");
    if (p->alternates)
        printf("one device, which samples and trains in turn\n");
    else
        printf("%s, %s (%s)\n", SL_PLURAL(p->samplers, "sampler"),
               SL_PLURAL(p->trainers, "trainer"),
               p->chosen ? "by the times below" : "a first guess, or as the job file says");
    if (p->working < p->trainers || (p->chosen && p->samplers + p->trainers < c->n_devices))
        printf("  %s can work at once: set updates.batches_per_update higher for more\n",
               SL_PLURAL(p->working, "trainer"));
}

static void print_phase(const struct sl_machine_plan *p, const char *what,
                        const struct sl_machine_phase *f)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], d[SL_UNITS_BYTES];
    if (f->n_batches == 0)
        return;
    printf("%-12s%s mini-batches", what, sl_units_grouped(a, f->n_batches));
    if (f->total > 0)
        printf(", at least %s: %s is the slowest stage", sl_units_seconds(b, f->total),
               stages[f->slowest].name);
    printf("\n");
    for (enum sl_machine_stage s = 0; f == &p->train && s < SL_MACHINE_STAGES; s++) {
        const bool bytes = stages[s].unit == NULL;
        const double rate = rate_of(p->spec.machine, s);
        if (f->seconds[s] <= 0)
            continue;
        printf("  %-7s%s%s%s of each at %s/s: %s\n", stages[s].name,
               bytes ? sl_units_bytes(a, f->units[s]) : sl_units_count(a, f->units[s]),
               bytes ? "" : " ", bytes ? "" : stages[s].unit,
               bytes ? sl_units_bytes(b, rate) : sl_units_count(b, rate),
               sl_units_seconds(d, f->seconds[s]));
    }
}

static void print_time(const struct sl_machine_plan *p)
{
    const struct sl_config *c = p->spec.config;
    const uint32_t epochs = c->order.epochs_per_pass;
    char a[SL_UNITS_BYTES];
    print_phase(p, "an epoch", &p->train);
    print_phase(p, "evaluation", &p->evaluation);
    if (p->epoch_seconds > 0 && epochs > 1)
        printf("a pass      of %u epochs with their evaluations: at least %s\n", epochs,
               sl_units_seconds(a, p->epoch_seconds * epochs));
    if (c->evaluate.full)
        printf(
            "  not counted: evaluation layer by layer, which evaluate.fanout \"full\" asks for\n");
    for (enum sl_machine_stage s = 0; s < SL_MACHINE_STAGES; s++)
        if (p->train.units[s] > 0 && rate_of(p->spec.machine, s) <= 0)
            printf("  %s is not counted: --machine gives no rate, as %s would\n", stages[s].name,
                   stages[s].example);
}

void sl_machine_plan_print(const struct sl_machine_plan *p)
{
    const struct sl_config *c = p->spec.config;
    char a[SL_UNITS_BYTES];
    printf("job         %s: ", c->name);
    if (sl_config_is_external(c))
        printf("model external\n");
    else
        printf("%s, layers %u, hidden %u: %s parameters\n", sl_model_kind_name(c->model.kind),
               c->model.layers, c->model.hidden, sl_units_grouped(a, p->spec.n_params));
    printf("data set    %s%s\n", c->dataset,
           p->spec.dataset->described ? ": described, so that sizes alone are known" : "");
    print_machine(p);
    printf("\n");
    print_types(p);
    printf("\n");
    print_relations(p);
    printf("if lists of a relation are equally long and reach all alike; hubs make it less\n\n");
    print_memory(p);
    print_gpus(p);
    print_split(p);
    print_time(p);
}

static void add_batch(const struct sl_machine_plan *p, cJSON *to)
{
    struct sl_relation_text name;
    cJSON *types = cJSON_AddObjectToObject(to, "types");
    for (uint32_t i = 0; i < p->typed.n_types; i++) {
        const struct sl_vertex_type *t = &p->typed.type[i];
        cJSON *o = cJSON_AddObjectToObject(types, t->name);
        cJSON_AddNumberToObject(o, "feature_bytes", (double)sl_type_feature_bytes(t));
        cJSON_AddNumberToObject(o, "vertices", p->train.mean.vertices[i]);
        cJSON_AddNumberToObject(o, "vertices_most", p->most.vertices[i]);
    }
    cJSON *relations = cJSON_AddObjectToObject(to, "relations");
    for (uint32_t r = 0; r < p->typed.n_relations; r++) {
        cJSON *o = cJSON_AddObjectToObject(relations, relation_name(p, r, &name));
        cJSON_AddNumberToObject(o, "bytes", relation_bytes(p, r));
        cJSON_AddNumberToObject(o, "feature_bytes",
                                (double)sl_relation_feature_bytes(&p->typed.relation[r]));
        cJSON_AddNumberToObject(o, "edges", p->train.mean.edges[r]);
        cJSON_AddNumberToObject(o, "edges_most", p->most.edges[r]);
    }
}

static void add_phase(const struct sl_machine_plan *p, const struct sl_machine_phase *f,
                      const char *name, cJSON *to)
{
    if (f->n_batches == 0)
        return;
    cJSON *o = cJSON_AddObjectToObject(to, name);
    cJSON_AddNumberToObject(o, "batches", (double)f->n_batches);
    cJSON_AddNumberToObject(o, "seconds", f->total);
    cJSON_AddStringToObject(o, "slowest", stages[f->slowest].name);
    cJSON *each = cJSON_AddObjectToObject(o, "mini_batch");
    cJSON *all = cJSON_AddObjectToObject(o, "stages");
    for (enum sl_machine_stage s = 0; s < SL_MACHINE_STAGES; s++) {
        cJSON_AddNumberToObject(each, stages[s].name, f->units[s]);
        if (rate_of(p->spec.machine, s) > 0)
            cJSON_AddNumberToObject(all, stages[s].name, f->seconds[s]);
    }
}

void sl_machine_plan_add(const struct sl_machine_plan *p, cJSON *plan)
{
    cJSON *to = cJSON_AddObjectToObject(plan, "machine");
    cJSON_AddItemToObject(to, "given", sl_machine_to_json(p->spec.machine));
    add_batch(p, to);
    cJSON *memory = cJSON_AddObjectToObject(to, "memory");
    cJSON_AddNumberToObject(memory, "arena_bytes", (double)p->arena_bytes);
    cJSON_AddNumberToObject(memory, "cache_bytes", (double)p->cache_bytes);
    cJSON_AddNumberToObject(memory, "notes_bytes", (double)p->places_bytes);
    cJSON_AddNumberToObject(memory, "graph_bytes", (double)p->graph_bytes);
    cJSON_AddNumberToObject(memory, "feature_bytes", (double)p->feature_bytes);
    cJSON_AddNumberToObject(memory, "graph_share", p->graph_share);
    cJSON_AddNumberToObject(memory, "feature_share", p->feature_share);
    cJSON_AddNumberToObject(memory, "edge_feature_bytes", (double)p->edge_feature_bytes);
    cJSON_AddNumberToObject(memory, "edge_feature_share", p->edge_feature_share);
    cJSON *gpu = cJSON_AddObjectToObject(to, "gpu");
    cJSON_AddNumberToObject(gpu, "step_bytes", p->step_bytes);
    cJSON_AddNumberToObject(gpu, "feature_share", p->kept_share);
    cJSON_AddBoolToObject(gpu, "fits", p->gpu_need <= p->gpu_bytes);
    if (p->graph_room >= 0)
        cJSON_AddNumberToObject(gpu, "edges", p->graph_room);
    cJSON *split = cJSON_AddObjectToObject(to, "split");
    cJSON_AddNumberToObject(split, "samplers", p->samplers);
    cJSON_AddNumberToObject(split, "trainers", p->trainers);
    cJSON_AddNumberToObject(split, "working", p->working);
    add_phase(p, &p->train, "train", to);
    add_phase(p, &p->evaluation, "evaluation", to);
    cJSON_AddNumberToObject(to, "epoch_seconds", p->epoch_seconds);
}
