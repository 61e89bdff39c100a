#include "cli/nodes_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "broker/epochs/phases.h"
#include "broker/scheduler/capacity.h"
#include "broker/scheduler/role_split.h"
#include "cli/json_file.h"
#include "common/arena/arena.h"
#include "common/arena/nodes.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/data/features_kind.h"
#include "common/data/hotness.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "link/rows.h"
#include "partition/parts.h"

enum {
    BATCHES = 2048,                        // that are drawn at most, of all nodes
    PHASES = 3 * SL_NODES_PLAN_EPOCHS + 1, // training, two sets that are evaluated; the test
    LINKS_BYTES = 64 << 20,                // of a file
};

// What a plan is made from.
struct making {
    const struct sl_nodes_plan_spec *spec;
    struct sl_config config;
    struct sl_nodes_plan *out;
    struct sl_plan plan;
    uint16_t *part;               // (vertices) owned; NULL: features are not spread
    uint64_t *n_local;            // (n_nodes, types or 1) owned: rows of each
    struct sl_vertex_type *types; // owned: of `spread`
    uint32_t *rank;               // (vertices) owned, or NULL
    struct sl_dataset spread;     // the data set as a node has it: borrows all
    struct sl_phase_spec phase[PHASES];
    bool is_test[PHASES]; // at the end
    uint32_t n_phases;
    struct sl_block_estimate estimate;
    struct sl_node_rows rows;
    struct sl_progress progress;
};

// Of a row: of several types the mean, of those that have features.
static uint64_t row_bytes_of(const struct sl_dataset *ds)
{
    struct sl_dataset all = *ds;
    all.shard.count = 0;
    const uint64_t n = sl_dataset_feature_rows(&all);
    return n ? sl_div_up(sl_features_bytes(&all), n) : 0;
}

static uint32_t tables_of(const struct making *m)
{
    return SL_MAX(m->spec->dataset->typed.n_types, 1u);
}

// Rows of all tables.
static uint64_t n_local_of(const struct making *m, uint32_t node)
{
    uint64_t n = 0;
    for (uint32_t t = 0; t < tables_of(m); t++)
        n += m->n_local[(uint64_t)node * tables_of(m) + t];
    return n;
}

// --- who has which features ----------------------------------------------------------------------

// The data set as that node has it.
static const struct sl_dataset *dataset_of(struct making *m, uint32_t node)
{
    m->spread = *m->spec->dataset;
    for (uint32_t t = 0; m->part && t < m->spread.typed.n_types; t++) {
        m->types[t] = m->spec->dataset->typed.type[t];
        m->types[t].n_local = m->n_local[(uint64_t)node * tables_of(m) + t];
        m->spread.typed.type = m->types;
    }
    if (m->part)
        m->spread.shard = (struct sl_shard){.count = m->spec->n_nodes,
                                            .index = node,
                                            .n_local = n_local_of(m, node),
                                            .part = m->part,
                                            .part_dtype = SL_DTYPE_U16};
    return &m->spread;
}

// Parts that have vertices, but for empty ones at the end.
static uint32_t parts_found(const struct making *m)
{
    uint32_t n = m->spec->n_nodes;
    while (n > 0 && n_local_of(m, n - 1) == 0)
        n--;
    return n;
}

// Whether the job's features may be in shards.
static bool may_spread(const struct making *m)
{
    const bool embeds = sl_config_is_links(&m->config) && !sl_config_is_external(&m->config);
    return !embeds;
}

// Of a whole data set: why its partition says nothing about these nodes. It was read with rc and is
// of n parts. Owned.
static char *why_not(const struct making *m, const char *path, int rc, uint32_t n)
{
    struct sl_text t = {0};
    const char *ds = m->spec->dataset->path;
    const uint32_t wanted = m->spec->n_nodes;
    if (!may_spread(m)) {
        sl_text_printf(&t, "each node has all features: jobs of links have no shards");
        return sl_text_take(&t);
    }
    sl_text_printf(&t, "each node has all features; ");
    if (rc == SL_ENOENT)
        sl_text_printf(&t,
                       "after 'sluice partition %s --parts %u' the plan foresees what shards would "
                       "bring",
                       ds, wanted);
    else if (rc < 0)
        sl_text_printf(&t, "nothing is foreseen of shards: %s", sl_error_message());
    else
        sl_text_printf(&t,
                       "nothing is foreseen of shards: %s is of %u parts, wanted %u: 'sluice "
                       "partition %s --parts %u --force'",
                       path, n, wanted, ds, wanted);
    return sl_text_take(&t);
}

static int find_parts(struct making *m)
{
    const struct sl_dataset *ds = m->spec->dataset;
    char path[sizeof ds->path + 16];
    m->part = malloc((ds->n_nodes + 1) * sizeof *m->part);
    m->n_local = calloc((size_t)m->spec->n_nodes * tables_of(m), sizeof *m->n_local);
    m->types = calloc(tables_of(m), sizeof *m->types);
    if (!m->part || !m->n_local || !m->types)
        return sl_fail(SL_ENOMEM, "no memory for the parts of the vertices");
    snprintf(path, sizeof path, "%s/node_part.npy", ds->path);
    const int rc = may_spread(m) ? sl_parts_read(path, m->spec->n_nodes, ds->n_nodes, m->part)
                                 : SL_EUNSUPPORTED;
    for (uint64_t v = 0, t = 0; rc == SL_OK && v < ds->n_nodes; v++) {
        while (t + 1 < tables_of(m) && v >= ds->typed.type[t + 1].first)
            t++;
        m->n_local[m->part[v] * (uint64_t)tables_of(m) + t]++;
    }
    m->out->spread = ds->shard.count ? SL_NODES_SHARDS : SL_NODES_FORESEEN;
    if (ds->shard.count || (rc == SL_OK && parts_found(m) == m->spec->n_nodes))
        return rc;
    m->out->note = why_not(m, path, rc, parts_found(m));
    m->out->spread = SL_NODES_WHOLE;
    free(m->part);
    m->part = NULL;
    return SL_OK;
}

// --- memory --------------------------------------------------------------------------------------

static struct sl_capacity_need need_of(const struct making *m, const struct sl_dataset *ds)
{
    const struct sl_config *c = &m->config;
    const struct sl_role_split split = {.config = c,
                                        .roles = {c->allocation.samplers, c->allocation.trainers},
                                        .pool.n = sl_config_is_pool(c) ? c->n_devices : 0};
    const struct sl_roles named = sl_split_largest_named(&split);
    return (struct sl_capacity_need){
        .samplers = named.samplers,
        .trainers = named.trainers,
        .batches_most = sl_split_batches_most(&split),
        .block_bytes_max = m->estimate.max_bytes,
        .block_bytes_mean = m->estimate.mean_bytes,
        .probe_bytes = m->estimate.probe ? m->estimate.probe->bytes : 0,
        .n_nodes = ds->n_nodes,
        .n_train = sl_config_epoch_items(&m->config, ds->split[SL_SPLIT_TRAIN].n),
        .n_params = m->spec->params->n,
        .n_shards = ds->shard.count,
        .infer_width = m->spec->params->infer_width,
        .jumping_width = m->spec->params->jumping_width,
        .n_evaluated = SL_MAX(m->plan.split[SL_SPLIT_VAL].n, m->plan.split[SL_SPLIT_TEST].n),
        .predict_words = sl_dataset_predict_words(ds),
        .n_cells = (uint32_t)SL_MIN(sl_phases_cells_max(&m->plan), (uint64_t)UINT32_MAX),
    };
}

// The arena of that node, if it is as this machine.
static int plan_arena(struct making *m, uint32_t node, struct sl_arena_header *out, uint64_t *bytes)
{
    const struct sl_dataset *ds = dataset_of(m, node);
    struct sl_config c = m->config;
    struct sl_arena_spec arena;
    uint64_t acts;
    sl_capacity_settle_store(&c, ds, m->spec->available_bytes);
    struct sl_capacity_need need = need_of(m, ds);
    sl_row_widths_find(&c, ds, &need.widths);
    SL_TRY(sl_capacity_plan(&c, &need, m->spec->available_bytes, &arena, &acts));
    arena.nodes = (struct sl_nodes_spec){
        .n = m->spec->n_nodes, .rank = node, .whole_gradients = c.optimizer.clip_norm > 0};
    *bytes = sl_arena_layout(&arena, out) - acts;
    return SL_OK;
}

static void note_node(struct making *m, uint32_t node, const struct sl_arena_spec *arena,
                      uint64_t bytes)
{
    const struct sl_dataset *ds = dataset_of(m, node);
    m->out->node[node] = (struct sl_nodes_plan_node){
        .feature_rows = sl_dataset_feature_rows(ds),
        .feature_bytes = sl_features_bytes(ds),
        .arena_bytes = bytes,
        .cache_rows = arena->rows.n_slots,
        .cache_bytes = sl_row_cache_bytes(&arena->rows),
    };
}

// --- rows ----------------------------------------------------------------------------------------

static void add_phase(struct making *m, struct sl_plan_step step)
{
    const struct sl_phase_spec spec = sl_plan_spec(&m->plan, step);
    if (m->n_phases == PHASES || (spec.kind != SL_PHASE_TRAIN && spec.kind != SL_PHASE_EVAL))
        return;
    m->is_test[m->n_phases] = step.purpose == SL_PURPOSE_TEST;
    m->phase[m->n_phases++] = spec;
}

// What the first two epochs train and evaluate by sampling, and the test.
static void find_phases(struct making *m)
{
    struct sl_plan_step step = {SL_PURPOSE_TRAIN, 0, 0};
    const struct sl_plan_step end = sl_plan_after_training(&m->plan, m->config.epochs - 1);
    for (; step.purpose != SL_PURPOSE_END && step.purpose != SL_PURPOSE_TEST &&
           step.epoch < SL_NODES_PLAN_EPOCHS;
         step = sl_plan_after(&m->plan, step)) {
        add_phase(m, step);
        m->out->n_epochs = step.epoch + 1;
    }
    if (end.purpose == SL_PURPOSE_TEST)
        add_phase(m, end);
}

// Where the policy is of visits that are counted, by what is nearest to them.
static int find_ranks(struct making *m)
{
    const struct sl_dataset *ds = dataset_of(m, 0);
    struct sl_config c = m->config;
    sl_capacity_settle_store(&c, ds, m->spec->available_bytes);
    const struct sl_cache_inputs facts = {
        .dataset = ds, .seed = c.seed, .sampling = sl_config_sampling(&c)};
    const struct sl_cache_kind *kind = &sl_cache_kinds[c.cache.policy];
    if (!m->part || !sl_cache_keeps(c.cache.policy))
        return SL_OK;
    if (!kind->hotness)
        kind = sl_cache_foresees(sl_sampler_flags[c.sampler.kind] & SL_SAMPLER_UNIFORM);
    uint32_t *hotness = malloc((ds->n_nodes + 1) * sizeof *hotness);
    m->rank = malloc((ds->n_nodes + 1) * sizeof *m->rank);
    int rc = hotness && m->rank
                 ? kind->hotness(&facts, hotness)
                 : sl_fail(SL_ENOMEM, "no memory for the hotness order of the vertices");
    if (rc == SL_OK)
        rc = sl_hotness_order(hotness, ds->n_nodes, NULL, NULL, m->rank);
    free(hotness);
    return rc;
}

// What was not drawn is as what was. left: rows that may still come, of a cache that keeps all.
static struct sl_nodes_plan_rows whole_phase(const struct sl_node_rows_count *c, double *left)
{
    const double all = c->batches ? (double)c->cells / (double)c->batches : 0;
    const struct sl_nodes_plan_rows r = {
        .batches = (double)c->cells,
        .inputs = (double)c->inputs * all,
        .remote = (double)c->remote * all,
        .fetched = SL_MIN((double)c->fetched * all, *left),
        .messages = (double)c->messages * all,
    };
    *left -= r.fetched;
    return r;
}

static void add(struct sl_nodes_plan_rows *to, const struct sl_nodes_plan_rows *r, double times)
{
    to->batches += r->batches * times;
    to->inputs += r->inputs * times;
    to->remote += r->remote * times;
    to->fetched += r->fetched * times;
    to->messages += r->messages * times;
}

// Messages that ask for rows, and rows.
static double bytes_of(const struct sl_nodes_plan *p, const struct sl_nodes_plan_rows *r)
{
    return r->fetched * (double)(p->row_bytes + sizeof(uint32_t)) +
           r->messages * (double)sizeof(struct sl_link_ask);
}

// What comes to the node in each epoch, and how often it waits for a way there and back: for each
// message that asks, and twice half a way for each update.
static void note_most(struct sl_nodes_plan *p, const struct sl_nodes_plan_rows *of_node,
                      double update_bytes)
{
    for (uint32_t e = 0; e < p->n_epochs; e++) {
        const double bytes =
            bytes_of(p, &of_node[e]) + update_bytes + p->epoch[e].result_bytes / p->n;
        const double trips = of_node[e].messages + (double)p->updates;
        p->most_bytes[e] = SL_MAX(p->most_bytes[e], bytes);
        p->most_trips[e] = SL_MAX(p->most_trips[e], trips);
    }
}

static double update_bytes_of(const struct making *m, struct sl_arena_header *h, uint32_t node)
{
    const struct sl_arena a = {.h = h};
    const uint32_t each = m->config.updates.batches_per_update;
    const uint64_t batches = sl_phases_batches(&m->config, m->plan.split[SL_SPLIT_TRAIN].n);
    double bytes =
        (double)(batches / each) * (double)sl_nodes_update_traffic(&a, node, each).in_bytes;
    if (batches % each)
        bytes += (double)sl_nodes_update_traffic(&a, node, (uint32_t)(batches % each)).in_bytes;
    return bytes;
}

// Each batch that is evaluated is a message to all nodes but its own.
static void add_results(struct making *m, const struct sl_arena_spec *arena)
{
    struct sl_nodes_plan *p = m->out;
    for (uint32_t i = 0; i < m->n_phases; i++) {
        const struct sl_phase_spec *phase = &m->phase[i];
        const uint64_t cells = sl_div_up(phase->n_items, phase->batch_size);
        const double bytes = (double)(cells * sizeof(struct sl_nodes_result) +
                                      phase->n_items * arena->predict_words * sizeof(uint32_t)) *
                             (p->n - 1);
        if (phase->kind == SL_PHASE_EVAL)
            *(m->is_test[i] ? &p->test_result_bytes : &p->epoch[phase->epoch].result_bytes) +=
                bytes;
    }
}

// Rows of one of the nodes that are counted, each of which stands for `times` nodes.
static int count_node(struct making *m, uint32_t node, const struct sl_arena_spec *arena,
                      double times, struct sl_nodes_plan_rows of_node[SL_NODES_PLAN_EPOCHS])
{
    struct sl_nodes_plan *p = m->out;
    const struct sl_dataset *ds = dataset_of(m, node);
    struct sl_node_rows_count count[PHASES];
    struct sl_config c = m->config;
    sl_capacity_settle_store(&c, ds, m->spec->available_bytes);
    const bool drive = sl_features_kinds[c.store.features].drive;
    struct sl_dataset all = *ds;
    all.shard.count = 0;
    const uint64_t n = sl_dataset_feature_rows(&all), elsewhere = n - sl_dataset_feature_rows(ds);
    double left = arena->rows.n_slots >= (drive ? n : elsewhere) ? (double)elsewhere : INFINITY;
    SL_TRY(sl_node_rows_count(&m->rows, node, arena, drive,
                              SL_MAX(BATCHES / PHASES / p->n_counted, 1u), count));
    for (uint32_t i = 0; i < m->n_phases; i++) {
        const struct sl_nodes_plan_rows r = whole_phase(&count[i], &left);
        const uint32_t e = m->phase[i].epoch;
        p->n_drawn += count[i].batches;
        add(m->is_test[i]                        ? &p->test
            : m->phase[i].kind == SL_PHASE_TRAIN ? &p->epoch[e].train
                                                 : &p->epoch[e].evaluation,
            &r, times);
        if (!m->is_test[i])
            add(&of_node[e], &r, 1);
    }
    return SL_OK;
}

static int plan_node(struct making *m, uint32_t node, bool counts)
{
    struct sl_nodes_plan *p = m->out;
    struct sl_arena_header header;
    struct sl_nodes_plan_rows of_node[SL_NODES_PLAN_EPOCHS] = {0};
    uint64_t bytes;
    int rc = plan_arena(m, node, &header, &bytes);
    if (rc < 0)
        return sl_fail_prefix(rc, "node %u", node);
    note_node(m, node, &header.spec, bytes);
    if (node == 0)
        add_results(m, &header.spec);
    const double update_bytes = update_bytes_of(m, &header, node);
    for (uint32_t e = 0; e < p->n_epochs; e++)
        p->epoch[e].update_bytes += update_bytes;
    if (node > 0)
        p->checkpoint_bytes += header.spec.n_state *
                               sl_nodes_slice(&(const struct sl_arena){.h = &header}, node).n *
                               sizeof(float);
    if (counts && m->part)
        SL_TRY(count_node(m, node, &header.spec, (double)p->n / p->n_counted, of_node));
    note_most(p, of_node, update_bytes);
    return SL_OK;
}

// --- the whole -----------------------------------------------------------------------------------

static void init(struct making *m, const struct sl_nodes_plan_spec *spec, struct sl_nodes_plan *out)
{
    *out = (struct sl_nodes_plan){.n = spec->n_nodes};
    *m = (struct making){.spec = spec, .config = *spec->config, .out = out};
    m->config.nodes = spec->n_nodes;
    m->plan = sl_plan_make(&m->config, spec->dataset);
    out->row_bytes = row_bytes_of(spec->dataset);
    out->graph_bytes = sl_topology_bytes(spec->dataset);
    out->updates = sl_phases_updates(&m->config, m->plan.split[SL_SPLIT_TRAIN].n);
    out->n_counted = SL_MIN(out->n, (uint32_t)SL_NODES_PLAN_COUNTED);
    sl_progress_init(&m->progress, spec->quiet);
}

static void fini(struct making *m)
{
    sl_progress_clear(&m->progress);
    sl_node_rows_close(&m->rows);
    sl_block_estimate_fini(&m->estimate);
    free(m->part);
    free(m->n_local);
    free(m->types);
    free(m->rank);
    free(m);
}

static int open_rows(struct making *m)
{
    const struct sl_node_rows_spec spec = {
        .config = &m->config,
        .ds = dataset_of(m, 0),
        .n_nodes = m->spec->n_nodes,
        .part = m->part,
        .rank = m->rank,
        .phase = m->phase,
        .n_phases = m->n_phases,
        .progress = &m->progress,
    };
    SL_TRY(sl_node_rows_open(&m->rows, &spec));
    return sl_node_rows_measure(&m->rows, &m->estimate);
}

static int find(struct making *m)
{
    struct sl_nodes_plan *p = m->out;
    SL_TRY(find_parts(m));
    find_phases(m);
    SL_TRY(find_ranks(m));
    p->node = calloc(p->n, sizeof *p->node);
    if (!p->node)
        return sl_fail(SL_ENOMEM, "no memory for a plan of %u nodes", p->n);
    SL_TRY(open_rows(m));
    sl_progress_begin(&m->progress, "draw batches", 0, "batches");
    for (uint32_t i = 0, next = 0; i < p->n; i++) {
        const bool counts = (uint64_t)next * p->n / p->n_counted == i;
        SL_TRY(plan_node(m, i, counts));
        next += counts;
    }
    for (uint32_t e = 0; e < p->n_epochs; e++)
        p->epoch[e].wire_bytes = p->epoch[e].update_bytes + bytes_of(p, &p->epoch[e].train) +
                                 bytes_of(p, &p->epoch[e].evaluation) + p->epoch[e].result_bytes;
    return SL_OK;
}

int sl_nodes_plan_find(const struct sl_nodes_plan_spec *spec, struct sl_nodes_plan *out)
{
    struct making *m = malloc(sizeof *m);
    if (!m)
        return sl_fail(SL_ENOMEM, "no memory for a plan of %u nodes", spec->n_nodes);
    init(m, spec, out);
    int rc = find(m);
    fini(m);
    return rc;
}

int sl_nodes_plan_check(const struct sl_nodes_plan_spec *spec, uint32_t node)
{
    struct sl_nodes_plan nothing;
    struct sl_arena_header header;
    uint64_t bytes;
    struct making *m = malloc(sizeof *m);
    if (!m)
        return sl_fail(SL_ENOMEM, "no memory for a plan of %u nodes", spec->n_nodes);
    init(m, spec, &nothing);
    int rc = find_parts(m);
    if (rc == SL_OK)
        rc = open_rows(m);
    if (rc == SL_OK)
        rc = plan_arena(m, node, &header, &bytes);
    fini(m);
    sl_nodes_plan_fini(&nothing);
    return rc;
}

void sl_nodes_plan_fini(struct sl_nodes_plan *p)
{
    free(p->node);
    free(p->note);
    *p = (struct sl_nodes_plan){0};
}

// --- time ----------------------------------------------------------------------------------------

void sl_nodes_plan_time(struct sl_nodes_plan *p, const struct sl_link *link, uint32_t n)
{
    p->speed = sl_link_slowest(link, n);
    for (uint32_t e = 0; e < p->n_epochs; e++)
        p->epoch[e].seconds = p->speed.bytes_per_s > 0 ? p->most_bytes[e] / p->speed.bytes_per_s +
                                                             p->most_trips[e] * p->speed.trip_s
                                                       : 0;
}

static int take_links(struct sl_nodes_plan *p, const char *path, const cJSON *root)
{
    const cJSON *links = cJSON_GetObjectItem(root, "links"), *one;
    const int n = cJSON_GetArraySize(links);
    struct sl_link *link = calloc((size_t)n + 1, sizeof *link);
    if (!link)
        return sl_fail(SL_ENOMEM, "'%s': no memory for %d links", path, n);
    int i = 0;
    cJSON_ArrayForEach(one, links)
    {
        for (int k = 0; k < SL_LINK_SIZES_COUNT; k++) {
            const cJSON *figure = cJSON_GetObjectItem(one, sl_link_keys[k]);
            link[i].figure[k] = cJSON_IsNumber(figure) ? figure->valuedouble : 0;
        }
        i++;
    }
    sl_nodes_plan_time(p, link, (uint32_t)n);
    free(link);
    if (p->speed.bytes_per_s > 0 && p->speed.trip_s > 0)
        return SL_OK;
    return sl_fail(SL_EFORMAT,
                   "--links '%s': found no link between two nodes with '%s' and '%s', wanted what "
                   "'mpirun -n N sluice doctor --nodes -o json' prints",
                   path, sl_link_keys[SL_LINK_TRIP_8], sl_link_keys[SL_LINK_RATE_1M]);
}

int sl_nodes_plan_read_links(struct sl_nodes_plan *p, const char *path)
{
    cJSON *root;
    int rc = sl_json_file_read(path, LINKS_BYTES, &root);
    if (rc < 0)
        return sl_fail_prefix(rc, "--links");
    rc = take_links(p, path, root);
    cJSON_Delete(root);
    return rc;
}

// --- for people ----------------------------------------------------------------------------------

static void print_memory(const struct sl_nodes_plan *p, FILE *out)
{
    struct sl_table t;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES], d[SL_UNITS_BYTES];
    sl_table_init(
        &t, "r r r r r r",
        (const char *[]){"node", "graph", "features", "arena", "of it row cache", "rows"});
    for (uint32_t i = 0; i < p->n; i++) {
        const struct sl_nodes_plan_node *n = &p->node[i];
        char rows[SL_UNITS_BYTES];
        sl_table_row(
            &t, "%u|%s|%s|%s|%s|%s", i, sl_units_bytes(a, (double)p->graph_bytes),
            sl_units_bytes(b, (double)n->feature_bytes), sl_units_bytes(c, (double)n->arena_bytes),
            sl_units_bytes(d, (double)n->cache_bytes), sl_units_grouped(rows, n->cache_rows));
    }
    sl_table_print(&t, out);
    sl_table_fini(&t);
}

static double share(double n, double of)
{
    return of > 0 ? n / of : 0;
}

static char *per_batch(char *buf, const struct sl_nodes_plan_rows *r, double rows)
{
    return sl_units_grouped(buf, (uint64_t)(share(rows, r->batches) + 0.5));
}

static void print_rows(const struct sl_nodes_plan *p, FILE *out)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    const struct sl_nodes_plan_rows *r = &p->epoch[0].train;
    if (p->spread == SL_NODES_WHOLE) {
        fprintf(out, "rows        %s\n", p->note ? p->note : "");
        return;
    }
    fprintf(out,
            "rows        %s a mini-batch, of which %s (%.0f %%, of %s each) are on other nodes",
            per_batch(a, r, r->inputs), per_batch(b, r, r->remote),
            100 * share(r->remote, r->inputs), sl_units_bytes(c, (double)p->row_bytes));
    fprintf(out, "\n  with the row cache %s come over the wire in the first epoch",
            per_batch(a, r, r->fetched));
    r = &p->epoch[p->n_epochs - 1].train;
    if (p->n_epochs > 1)
        fprintf(out, ", %s in the next one", per_batch(a, r, r->fetched));
    fprintf(out, " (%s drawn, of %s)\n", SL_PLURAL((double)p->n_drawn, "batch"),
            SL_PLURAL(p->n_counted, "node"));
    if (r->fetched > r->remote)
        fprintf(out, "  rows come twice: the cache is too small for what is fetched ahead: raise "
                     "store.cache, or set store.window to 0\n");
    if (p->spread == SL_NODES_FORESEEN)
        fprintf(out, "  that is of shards by node_part.npy ('sluice partition --method given "
                     "--out'); now each node has all features, and no rows come\n");
}

static void print_wire(const struct sl_nodes_plan *p, FILE *out)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    for (uint32_t e = 0; e < p->n_epochs; e++) {
        const struct sl_nodes_plan_epoch *epoch = &p->epoch[e];
        const double eval = bytes_of(p, &epoch->evaluation) + epoch->result_bytes;
        fprintf(out, "%s%s: %s of rows for training, %s for %s", e ? "  " : "wire        ",
                e ? "each later one" : "the first epoch",
                sl_units_bytes(a, bytes_of(p, &epoch->train)),
                sl_units_bytes(b, epoch->update_bytes), SL_PLURAL((double)p->updates, "update"));
        if (eval > 0)
            fprintf(out, ", %s for its evaluation", sl_units_bytes(a, eval));
        fprintf(out, ": %s of all nodes\n", sl_units_bytes(c, epoch->wire_bytes));
    }
    fprintf(out, "  a checkpoint: %s to the first node",
            sl_units_bytes(a, (double)p->checkpoint_bytes));
    const double test = bytes_of(p, &p->test) + p->test_result_bytes;
    if (test > 0)
        fprintf(out, "; the test at the end: %s", sl_units_bytes(b, test));
    fprintf(out, "\n");
}

static void print_time(const struct sl_nodes_plan *p, FILE *out)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], c[SL_UNITS_BYTES];
    if (p->speed.bytes_per_s <= 0) {
        fprintf(out,
                "time        of the wire unknown: 'mpirun -n %u sluice doctor --nodes -o json "
                "> links.json' measures it, for --links links.json\n",
                p->n);
        return;
    }
    fprintf(out, "time        of the wire at most %s for the first epoch",
            sl_units_seconds(a, p->epoch[0].seconds));
    if (p->n_epochs > 1)
        fprintf(out, ", %s for each later one",
                sl_units_seconds(b, p->epoch[p->n_epochs - 1].seconds));
    fprintf(out, ", where all wait for it:\n  the slowest link has %s/s and ",
            sl_units_bytes(c, p->speed.bytes_per_s));
    fprintf(out, "%s there and back; rows come beside training, updates between batches\n",
            sl_units_seconds(a, p->speed.trip_s));
}

void sl_nodes_plan_print(const struct sl_nodes_plan *p, FILE *out)
{
    if (p->n < 2)
        return;
    fprintf(out, "nodes       %u, as this machine; beside what is here each worker has its own\n",
            p->n);
    print_memory(p, out);
    print_rows(p, out);
    print_wire(p, out);
    print_time(p, out);
}

// --- as JSON -------------------------------------------------------------------------------------

static void add_rows(cJSON *to, const char *name, const struct sl_nodes_plan_rows *r)
{
    cJSON *o = cJSON_AddObjectToObject(to, name);
    cJSON_AddNumberToObject(o, "batches", r->batches);
    cJSON_AddNumberToObject(o, "input_nodes", r->inputs);
    cJSON_AddNumberToObject(o, "remote_rows", r->remote);
    cJSON_AddNumberToObject(o, "fetched_rows", r->fetched);
    cJSON_AddNumberToObject(o, "messages", r->messages);
}

static void add_known(cJSON *to, const char *name, double value)
{
    if (value > 0)
        cJSON_AddNumberToObject(to, name, value);
    else
        cJSON_AddNullToObject(to, name);
}

static void add_epoch(cJSON *list, const struct sl_nodes_plan_epoch *e)
{
    cJSON *o = cJSON_CreateObject();
    add_rows(o, "train", &e->train);
    add_rows(o, "evaluation", &e->evaluation);
    cJSON_AddNumberToObject(o, "update_bytes", e->update_bytes);
    cJSON_AddNumberToObject(o, "result_bytes", e->result_bytes);
    cJSON_AddNumberToObject(o, "wire_bytes", e->wire_bytes);
    add_known(o, "seconds", e->seconds);
    cJSON_AddItemToArray(list, o);
}

void sl_nodes_plan_add(const struct sl_nodes_plan *p, cJSON *plan)
{
    static const char *const words[] = {"whole", "shards", "foreseen"};
    if (p->n < 2)
        return;
    cJSON *o = cJSON_AddObjectToObject(plan, "nodes");
    cJSON_AddNumberToObject(o, "count", p->n);
    cJSON_AddStringToObject(o, "features", words[p->spread]);
    if (p->note)
        cJSON_AddStringToObject(o, "note", p->note);
    cJSON *memory = cJSON_AddArrayToObject(o, "memory");
    for (uint32_t i = 0; i < p->n; i++) {
        const struct sl_nodes_plan_node *n = &p->node[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "graph_bytes", (double)p->graph_bytes);
        cJSON_AddNumberToObject(one, "feature_rows", (double)n->feature_rows);
        cJSON_AddNumberToObject(one, "feature_bytes", (double)n->feature_bytes);
        cJSON_AddNumberToObject(one, "arena_bytes", (double)n->arena_bytes);
        cJSON_AddNumberToObject(one, "cache_rows", (double)n->cache_rows);
        cJSON_AddNumberToObject(one, "cache_bytes", (double)n->cache_bytes);
        cJSON_AddItemToArray(memory, one);
    }
    cJSON_AddNumberToObject(o, "row_bytes", (double)p->row_bytes);
    cJSON_AddNumberToObject(o, "nodes_counted", p->n_counted);
    cJSON_AddNumberToObject(o, "batches_drawn", (double)p->n_drawn);
    cJSON_AddNumberToObject(o, "checkpoint_bytes", (double)p->checkpoint_bytes);
    cJSON_AddNumberToObject(o, "test_result_bytes", p->test_result_bytes);
    cJSON *epochs = cJSON_AddArrayToObject(o, "epochs");
    for (uint32_t e = 0; e < p->n_epochs; e++)
        add_epoch(epochs, &p->epoch[e]);
    add_rows(o, "test", &p->test);
    cJSON_AddNumberToObject(o, "test_bytes", bytes_of(p, &p->test));
    cJSON *link = cJSON_AddObjectToObject(o, "slowest_link");
    add_known(link, "round_trip_s", p->speed.trip_s);
    add_known(link, "bytes_per_s", p->speed.bytes_per_s);
}
