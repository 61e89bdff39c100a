#include "cli/store_view.h"

#include <string.h>

#include "broker/sharding/gpus.h"
#include "broker/epochs/phases.h"
#include "broker/placement/placement.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/text/units.h"

static const char *const elements[] = {
    [SL_PEER_MEMORY_FEATURES] = "rows", [SL_PEER_MEMORY_GRAPH] = "edges"};

// --- what is found -------------------------------------------------------------------------------

static int compare(struct sl_store_view *v)
{
    struct sl_plan_question other = v->question;
    SL_TRY(sl_shard_plan_make(&v->question, &v->plan));
    for (int i = SL_STORE_ALONE; i <= SL_STORE_ONE_COPY; i++) {
        other.placement = (enum sl_store_placement)i;
        SL_TRY(sl_shard_plan_make(&other, &v->others[i]));
    }
    v->shown = true;
    return SL_OK;
}

int sl_store_view_find(const struct sl_config *config, const struct sl_dataset *ds,
                       uint64_t available_bytes, const struct sl_store_foreseen *found,
                       struct sl_store_view out[SL_PEER_MEMORY_PLANNED])
{
    const struct sl_roles split = {config->allocation.samplers, config->allocation.trainers};
    const uint64_t row_bytes = sl_features_row_bytes(ds);
    const double n_batches = (double)sl_phases_batches(config, ds->split[SL_SPLIT_TRAIN].n);
    const struct sl_budget_need need = {
        .resident_bytes = sl_topology_bytes(ds), .row_bytes = row_bytes, .n_nodes = ds->n_nodes};
    struct sl_store_view *rows = &out[SL_PEER_MEMORY_FEATURES], *edges = &out[SL_PEER_MEMORY_GRAPH];
    struct sl_store_rates rates;
    enum sl_duty duty[SL_CONFIG_MAX_DEVICES];
    uint64_t room[SL_CONFIG_MAX_DEVICES];
    *rows = (struct sl_store_view){.element_bytes = row_bytes};
    *edges = (struct sl_store_view){.element_bytes = sl_store_edge_bytes(config, ds)};
    if (!sl_store_may_share(config, SL_PEER_MEMORY_GRAPH))
        return SL_OK;
    sl_store_find_rates(config, &sl_gpus_known()->report, &rates);
    for (uint32_t d = 0; d < config->n_devices; d++) {
        const bool switching = sl_placement_switches(config, d);
        duty[d] = sl_placement_duty(split, config->n_devices, switching, SL_ROLE_TRAINER, d);
        room[d] = sl_placement_duty(split, config->n_devices, switching, SL_ROLE_SAMPLER, d) ==
                          SL_DUTY_WORK
                      ? sl_store_graph_room(config, ds, d)
                      : 0;
    }
    if (found) {
        for (int kind = 0; kind < SL_PEER_MEMORY_PLANNED; kind++)
            out[kind].curve = found->curve[kind]; // which questions point to
        rows->foreseen = true;
        edges->foreseen = found->edge_reads > 0;
        rows->epoch_bytes = found->input_bytes * n_batches / SL_MAX(split.trainers, 1u);
        edges->epoch_bytes =
            found->edge_reads * (double)edges->element_bytes / SL_MAX(split.samplers, 1u);
    }
    const struct sl_store_site site = {
        .config = config,
        .need = &need,
        .available_bytes = available_bytes,
        .rates = &rates,
        .curve = {[SL_PEER_MEMORY_FEATURES] = rows->foreseen ? &rows->curve : NULL,
                  [SL_PEER_MEMORY_GRAPH] = edges->foreseen ? &edges->curve : NULL},
        .n_edges = ds->n_edges,
    };
    sl_store_ask_graph(&site, room, &edges->question);
    // With one GPU that samples there is nothing to plan.
    if (__builtin_popcountll(edges->question.works) > 1)
        SL_TRY(compare(edges));
    if (sl_store_may_share(config, SL_PEER_MEMORY_FEATURES)) {
        sl_store_ask(&site, duty, &rows->question);
        SL_TRY(compare(rows));
    }
    return SL_OK;
}

// Whether device d works on a GPU, or stands by on one.
static bool takes_part(const struct sl_store_view *v, uint32_t d)
{
    return (v->question.works | v->question.reads) >> d & 1;
}

// Of all that is read by those that work, the shares from their own memory, from others', and from
// the machine's.
struct shares {
    double own, peers, memory;
};

static struct shares shares_of(const struct sl_store_view *v, const struct sl_shard_plan *plan)
{
    const struct sl_plan_question *q = &v->question;
    struct shares s = {0};
    double share[SL_PEER_MEMORY_DEVICES_MAX + 1], n = __builtin_popcountll(q->works);
    for (uint32_t d = 0; d < q->n_devices; d++) {
        if (!(q->works >> d & 1))
            continue;
        sl_shard_plan_shares(q, plan, d, share);
        for (uint32_t from = 0; from < q->n_devices; from++)
            *(from == d ? &s.own : &s.peers) += share[from] / n;
        s.memory += share[q->n_devices] / n;
    }
    return s;
}

// --- for people ----------------------------------------------------------------------------------

static void print_parts(const struct sl_shard_plan *p, uint32_t d, FILE *out)
{
    const uint32_t held = p->lent.held[d];
    const char *before = __builtin_popcount(held) == 1 ? ", part " : ", parts ";
    for (uint32_t i = 0, end; i < p->lent.n_parts; i = end) {
        for (end = i; held >> end & 1;)
            end++;
        if (end > i)
            fprintf(out, "%s%u", before, i);
        if (end > i + 1)
            fprintf(out, " to %u", end - 1);
        before = end > i ? ", " : before;
        end += end == i;
    }
}

static void print_device(const struct sl_store_view *v, uint32_t d, FILE *out)
{
    const struct sl_plan_question *q = &v->question;
    const struct sl_shard_plan *p = &v->plan;
    char rows[SL_UNITS_BYTES], bytes[SL_UNITS_BYTES];
    double share[SL_PEER_MEMORY_DEVICES_MAX + 1];
    sl_shard_plan_shares(q, p, d, share);
    fprintf(out, "  device %u: %s %s (%s)", d, sl_units_grouped(rows, p->elements[d]),
            elements[q->kind], sl_units_bytes(bytes, p->elements[d] * v->element_bytes));
    print_parts(p, d, out);
    fprintf(out, "; reads");
    for (uint32_t from = 0; from <= q->n_devices; from++) {
        if (share[from] <= 0)
            continue;
        fprintf(out, " %.1f %% ", 100 * share[from]);
        if (from == d)
            fprintf(out, "at home,");
        else if (from < q->n_devices)
            fprintf(out, "of device %u (%.3g GB/s),", from, (double)q->rate[d][from]);
        else
            fprintf(out, "in the machine's memory,");
        if (v->epoch_bytes > 0 && q->works >> d & 1)
            fprintf(out, " %s;", sl_units_bytes(bytes, share[from] * v->epoch_bytes));
    }
    fprintf(out, "%s\n", v->epoch_bytes > 0 && q->works >> d & 1 ? " an epoch" : "");
}

void sl_store_view_print(const struct sl_store_view *v, FILE *out)
{
    const struct sl_plan_question *q = &v->question;
    char rows[SL_UNITS_BYTES], all[SL_UNITS_BYTES], seconds[SL_UNITS_BYTES];
    if (!v->shown)
        return;
    fprintf(out, "%-11s %s: %s of %s %s on GPUs, at most, in %u parts: %s\n",
            q->kind == SL_PEER_MEMORY_GRAPH ? "graph" : "store",
            sl_store_placement_words[v->plan.placement], sl_units_grouped(rows, v->plan.cached),
            sl_units_grouped(all, q->n_elements), elements[q->kind], v->plan.lent.n_parts,
            v->plan.reason);
    for (uint32_t d = 0; d < q->n_devices; d++)
        if (takes_part(v, d))
            print_device(v, d, out);
    fprintf(out, "  %-10s %12s %9s %9s %10s  %s\n", "placement", elements[q->kind], "at home",
            "on peers", "in memory", v->epoch_bytes > 0 ? "busiest link or bus, an epoch" : "");
    for (int i = SL_STORE_ALONE; i <= SL_STORE_ONE_COPY; i++) {
        const struct sl_shard_plan *p = &v->others[i];
        const struct shares s = shares_of(v, p);
        if ((int)p->placement != i)
            continue; // it cannot be
        fprintf(out, "  %-10s %12s %7.1f %% %7.1f %% %8.1f %%  %s\n", sl_store_placement_words[i],
                sl_units_grouped(rows, p->cached), 100 * s.own, 100 * s.peers, 100 * s.memory,
                v->epoch_bytes > 0
                    ? sl_units_seconds(seconds, p->busiest_seconds * v->epoch_bytes * 1e-9)
                    : "");
    }
    fprintf(out, "  rates %s; %s%s\n",
            "as 'sluice doctor' has them, 25 GB/s for a link that it does not know, 12 for the bus",
            v->foreseen ? "reads by expected visits" : "reads taken as equal for all ",
            v->foreseen ? "" : elements[q->kind]);
}

// --- as JSON -------------------------------------------------------------------------------------

static const char *on_gpus(const struct sl_store_view *v)
{
    return v->question.kind == SL_PEER_MEMORY_GRAPH ? "gpu_edges" : "gpu_rows";
}

static void add_way(cJSON *list, const struct sl_store_view *v, uint32_t d, uint32_t from,
                    double share)
{
    char number[16];
    cJSON *way = cJSON_CreateObject();
    snprintf(number, sizeof number, "%u", from);
    cJSON_AddNumberToObject(way, "reader", d);
    cJSON_AddStringToObject(way, "from", from < v->question.n_devices ? number : "memory");
    cJSON_AddNumberToObject(way, "share", share);
    if (v->epoch_bytes > 0 && v->question.works >> d & 1)
        cJSON_AddNumberToObject(way, "epoch_bytes", share * v->epoch_bytes);
    cJSON_AddItemToArray(list, way);
}

static void add_held(cJSON *list, const struct sl_store_view *v, uint32_t d)
{
    cJSON *held = cJSON_CreateObject();
    cJSON_AddNumberToObject(held, "device", d);
    cJSON_AddNumberToObject(held, elements[v->question.kind], (double)v->plan.elements[d]);
    cJSON_AddNumberToObject(held, "bytes", (double)(v->plan.elements[d] * v->element_bytes));
    cJSON *parts = cJSON_AddArrayToObject(held, "parts");
    for (uint32_t i = 0; i < v->plan.lent.n_parts; i++)
        if (v->plan.lent.held[d] >> i & 1)
            cJSON_AddItemToArray(parts, cJSON_CreateNumber(i));
    cJSON_AddItemToArray(list, held);
}

static void add_placement(cJSON *to, const struct sl_store_view *v, const struct sl_shard_plan *p)
{
    const struct shares s = shares_of(v, p);
    cJSON *one = cJSON_AddObjectToObject(to, sl_store_placement_words[p->placement]);
    cJSON_AddNumberToObject(one, on_gpus(v), (double)p->cached);
    cJSON_AddNumberToObject(one, "at_home", s.own);
    cJSON_AddNumberToObject(one, "on_peers", s.peers);
    cJSON_AddNumberToObject(one, "in_memory", s.memory);
    if (v->epoch_bytes > 0)
        cJSON_AddNumberToObject(one, "busiest_seconds", p->busiest_seconds * v->epoch_bytes * 1e-9);
}

void sl_store_view_add(const struct sl_store_view *v, cJSON *store)
{
    const struct sl_plan_question *q = &v->question;
    double share[SL_PEER_MEMORY_DEVICES_MAX + 1];
    const bool is_graph = q->kind == SL_PEER_MEMORY_GRAPH;
    if (!v->shown)
        return;
    cJSON_AddStringToObject(store, "placement", sl_store_placement_words[v->plan.placement]);
    cJSON_AddStringToObject(store, "placement_reason", v->plan.reason);
    cJSON_AddBoolToObject(store, "proved", v->plan.proved);
    cJSON_AddNumberToObject(store, "parts", v->plan.lent.n_parts);
    cJSON_AddNumberToObject(store, is_graph ? "first_edges" : "first_rows",
                            (double)v->plan.lent.first);
    cJSON_AddNumberToObject(store, on_gpus(v), (double)v->plan.cached);
    cJSON *held = cJSON_AddArrayToObject(store, "held");
    cJSON *links = cJSON_AddArrayToObject(store, "links");
    cJSON *placements = cJSON_AddObjectToObject(store, "placements");
    for (uint32_t d = 0; d < q->n_devices; d++) {
        if (!takes_part(v, d))
            continue;
        add_held(held, v, d);
        sl_shard_plan_shares(q, &v->plan, d, share);
        for (uint32_t from = 0; from <= q->n_devices; from++)
            if (share[from] > 0)
                add_way(links, v, d, from, share[from]);
    }
    for (int i = SL_STORE_ALONE; i <= SL_STORE_ONE_COPY; i++)
        if ((int)v->others[i].placement == i)
            add_placement(placements, v, &v->others[i]);
}
