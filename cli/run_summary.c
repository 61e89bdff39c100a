#include "cli/run_summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/stats_text.h"
#include "common/text/table.h"
#include "common/text/units.h"
#include "broker/epochs/metrics.h"
#include "common/base/bits.h"
#include "common/schema/stats.h"
#include "common/text/json.h"

// Over the epochs, of the number at that place in struct sl_report_epoch; 0 where it is not known.
static double sum_of_epochs(const struct sl_read_report *r, size_t at)
{
    double sum = 0;
    for (size_t i = 0; i < r->n_epochs; i++) {
        double value = *(const double *)(const void *)((const char *)&r->epochs[i] + at);
        sum += isnan(value) ? 0 : value;
    }
    return sum;
}

#define SUM_OF_EPOCHS(r, member) sum_of_epochs(r, offsetof(struct sl_report_epoch, member))

// A stage's sums over the epochs, with the percentiles of the last epoch that has any.
static struct sl_report_stage sum_stage(const struct sl_read_report *r, const char *name)
{
    struct sl_report_stage sum = {0}, stage;
    const cJSON *epoch;
    cJSON_ArrayForEach(epoch, r->of.epochs)
    {
        sl_fields_read(&sl_report_stage_fields, sl_json_at(sl_json_at(epoch, "stages"), name),
                       &stage);
        if (!(stage.count > 0))
            continue;
        stage.seconds += sum.seconds;
        stage.count += sum.count;
        sum = stage;
    }
    return sum;
}

// What a stage took of the time of the workers that go through it, each counted by itself: 0 to 1.
// Not a number: a report of an older sluice does not say how long workers lived.
static double share_of(const struct sl_read_report *r, const struct sl_stage_text *stage,
                       double seconds)
{
    const double lived = stage->samplers ? SUM_OF_EPOCHS(r, worker_seconds.samplers)
                                         : SUM_OF_EPOCHS(r, worker_seconds.trainers);
    return lived > 0 ? SL_MIN(seconds / lived, 1.0) : NAN;
}

static void print_stages(FILE *out, const struct sl_read_report *r)
{
    struct sl_table t;
    sl_table_init(&t, "l r r r r l",
                  (const char *[]){"stage", "seconds", "per worker", "p50", "p99", ""});
    for (size_t i = 0; i < SL_LIVE_STAGES; i++) {
        const struct sl_stage_text *stage = &sl_stage_texts[i];
        const char *name = sl_stats_stage_names[stage->stage];
        struct sl_report_stage sum = sum_stage(r, name);
        char p50[SL_UNITS_BYTES], p99[SL_UNITS_BYTES], of_worker[SL_UNITS_BYTES];
        if (sum.count == 0 || sum.seconds == 0)
            continue;
        const double share = share_of(r, stage, sum.seconds);
        snprintf(of_worker, sizeof of_worker, isnan(share) ? "-" : "%.0f %%", 100 * share);
        sl_table_row(&t, "%s|%.2f|%s|%s|%s|%s", name, sum.seconds, of_worker,
                     sl_units_seconds(p50, sum.p50), sl_units_seconds(p99, sum.p99), stage->what);
    }
    sl_table_print(&t, out);
    sl_table_fini(&t);
}

void sl_run_summary_way(FILE *out, const char *what, const char *way, const char *why,
                        double copy_bytes, double page_bytes)
{
    char all[SL_UNITS_BYTES], page[SL_UNITS_BYTES];
    if (!way || way[0] == '\0')
        return;
    if (strcmp(way, "copy") == 0)
        fprintf(out, "  GPUs read %s in place, from one pinned copy of %s", what,
                sl_units_bytes(all, copy_bytes));
    else
        fprintf(out, "  GPUs %s %s %s", strcmp(way, "staged") == 0 ? "get" : "read", what,
                strcmp(way, "file") == 0     ? "in place, from the files"
                : strcmp(way, "device") == 0 ? "in their own memory"
                                             : "staged by the processor");
    if (page_bytes > 0)
        fprintf(out, " in pages of %s", sl_units_bytes(page, page_bytes));
    fprintf(out, ": %s\n", why);
}

// Of rows that a drive, or other nodes, would have to bring else.
static void print_machines_cache(FILE *out, const struct sl_report_totals *r)
{
    char rows[SL_UNITS_BYTES], bytes[SL_UNITS_BYTES];
    if (!(r->store.cache_bytes > 0) || isnan(r->store.hit_rate))
        return;
    fprintf(out, "cache       in the machine's memory: %.1f %% of the input nodes, %s rows, %s\n",
            100 * r->store.hit_rate, sl_units_grouped(rows, (uint64_t)r->store.cache_rows),
            sl_units_bytes(bytes, r->store.cache_bytes));
}

// Whether trainers have none beside the machine's.
static bool is_machines_alone(const struct sl_report_totals *r)
{
    struct sl_report_cache one;
    bool held = !(r->store.cache_bytes > 0) || r->cache.hit_rate > 0;
    SL_FOR_EACH_ENTRY(one, sl_report_cache_fields, r->cache.trainers) held |= one.rows > 0;
    return !held;
}

// Of a graph of several types: a line for each trainer.
static void print_held(FILE *out, const struct sl_report_totals *r)
{
    struct sl_stats_held h;
    char who[64] = "", rows[SL_UNITS_BYTES], bytes[SL_UNITS_BYTES];
    SL_FOR_EACH_ENTRY(h, sl_stats_held_fields, r->cache.held)
    {
        sl_units_grouped(rows, (uint64_t)h.rows);
        if (strcmp(who, h.worker) == 0)
            fprintf(out, ", %s", rows);
        else
            fprintf(out, "%s  %s holds %s rows", who[0] ? "\n" : "", h.worker, rows);
        fprintf(out, " of %s (%s)", h.type, sl_units_bytes(bytes, h.bytes));
        snprintf(who, sizeof who, "%s", h.worker);
    }
    if (who[0])
        fprintf(out, "\n");
}

static void print_cache(FILE *out, const struct sl_read_report *r)
{
    struct sl_report_cache first;
    char kept[SL_UNITS_BYTES], hit[SL_UNITS_BYTES], miss[SL_UNITS_BYTES], before[SL_UNITS_BYTES];
    const double matched = SUM_OF_EPOCHS(r, cache.matched_bytes);
    fprintf(out, "features    %s from the store",
            sl_units_bytes(miss, SUM_OF_EPOCHS(r, cache.miss_bytes)));
    if (matched > 0)
        fprintf(out, ", %s from the batch before", sl_units_bytes(before, matched));
    if (!isnan(r->of.cache.hit_rate))
        fprintf(out, ", %s from caches", sl_units_bytes(hit, SUM_OF_EPOCHS(r, cache.hit_bytes)));
    fprintf(out, "\n");
    sl_run_summary_way(out, "them", r->of.store.gpu_way, r->of.store.gpu_reason,
                       r->of.store.copy_bytes, r->of.store.copy_page_bytes);
    if (r->of.store.graph_copy_bytes > 0)
        sl_run_summary_way(out, "the graph", r->of.store.graph_way, r->of.store.graph_reason,
                           r->of.store.graph_copy_bytes, r->of.store.graph_copy_page_bytes);
    print_machines_cache(out, &r->of);
    if (isnan(r->of.cache.hit_rate) || is_machines_alone(&r->of))
        return;
    fprintf(out, "cache       %s: %.1f %% hits", r->of.cache.policy, 100 * r->of.cache.hit_rate);
    if (!isnan(r->of.cache.optimal_hit_rate))
        fprintf(out, " (optimal %.1f %%)", 100 * r->of.cache.optimal_hit_rate);
    if (r->of.cache.trainers && r->of.cache.trainers->child) {
        sl_fields_read(&sl_report_cache_fields, r->of.cache.trainers->child, &first);
        fprintf(out, ", %.3g %% of the %s, %s", 100 * first.ratio,
                r->of.types ? "features" : "vertices", sl_units_bytes(kept, first.bytes));
    }
    if (!isnan(r->of.cache.presample_cost_epochs))
        fprintf(out, "; it cost %.2g epochs", SL_MAX(r->of.cache.presample_cost_epochs, 0));
    if (r->of.cache.why[0])
        fprintf(out, "; chosen since %s", r->of.cache.why);
    fprintf(out, "\n");
    print_held(out, &r->of);
}

static void print_blocks(FILE *out, const struct sl_read_report *r)
{
    const double near = SUM_OF_EPOCHS(r, bytes.blocks_near);
    char all[SL_UNITS_BYTES], part[SL_UNITS_BYTES];
    if (near > 0)
        fprintf(out, "blocks      %s, %s of them near: within a GPU that samples and trains\n",
                sl_units_bytes(all, SUM_OF_EPOCHS(r, bytes.blocks)), sl_units_bytes(part, near));
}

// How much of a kind came from where.
static void print_ways(FILE *out, const struct sl_read_report *r, const char *kind)
{
    enum { OWN, PEERS, MEMORY, PLACES };
    char text[PLACES][SL_UNITS_BYTES];
    double n[PLACES] = {0};
    struct sl_stats_link link;
    SL_FOR_EACH_ENTRY(link, sl_stats_link_fields, r->of.store.links)
    {
        if (strcmp(link.kind, kind) != 0)
            continue;
        n[sl_stats_link_is_peer(&link)       ? PEERS
          : strcmp(link.from, "memory") == 0 ? MEMORY
                                             : OWN] += link.bytes;
    }
    if (n[OWN] + n[PEERS] + n[MEMORY] > 0)
        fprintf(out, "; %s from a GPU's own memory, %s from peers, %s from the machine's",
                sl_units_bytes(text[OWN], n[OWN]), sl_units_bytes(text[PEERS], n[PEERS]),
                sl_units_bytes(text[MEMORY], n[MEMORY]));
    fprintf(out, "\n");
}

// Who held what together.
static void print_links(FILE *out, const struct sl_read_report *r)
{
    const struct sl_report_totals *t = &r->of;
    if (t->store.placement[0]) {
        fprintf(out, "store       %s", t->store.placement);
        if (t->store.parts > 0)
            fprintf(out, ", %.0f parts", t->store.parts);
        fprintf(out, ", %.0f rows on GPUs: %s", t->store.gpu_rows, t->store.placement_reason);
        print_ways(out, r, "features");
    }
    if (t->store.graph_parts > 0) {
        fprintf(out, "graph       %s, %.0f parts, %.0f edges on GPUs: %s", t->store.graph_placement,
                t->store.graph_parts, t->store.gpu_edges, t->store.graph_placement_reason);
        print_ways(out, r, "graph");
    }
}

// Of a job on several nodes: what each did, and what it waited for.
static void print_nodes(FILE *out, const struct sl_read_report *r)
{
    struct sl_stats_node n;
    struct sl_table t;
    if (cJSON_GetArraySize(r->of.nodes) == 0)
        return;
    fprintf(out, "\n");
    sl_table_init(&t, "r l l r r r r r r r",
                  (const char *[]){"node", "host", "split", "batches", "late", "wire", "received",
                                   "remote rows", "share", "after"});
    SL_FOR_EACH_ENTRY(n, sl_stats_node_fields, r->of.nodes)
    {
        char split[SL_UNITS_BYTES] = "-";
        if (isfinite(n.samplers))
            snprintf(split, sizeof split, "%.0fS %.0fT", n.samplers, n.trainers);
#define TEXT(format, x) sl_units_##format((char[SL_UNITS_BYTES]){0}, (x))
        sl_table_row(&t, "%.0f|%s|%s|%s|%s|%s|%s|%s|%s|%s", n.rank, n.host, split,
                     TEXT(whole, n.batches), TEXT(seconds, n.late_seconds),
                     TEXT(seconds, n.wire_seconds), TEXT(bytes, n.received_bytes),
                     TEXT(whole, n.remote_rows), TEXT(percent, n.remote_share),
                     TEXT(seconds, n.remote_seconds));
#undef TEXT
    }
    sl_table_print(&t, out);
    sl_table_fini(&t);
}

static void print_precision(FILE *out, const struct sl_report_totals *r)
{
    if (!r->precision.used[0])
        return;
    fprintf(out, "precision   %s", r->precision.used);
    if (strcmp(r->precision.used, r->precision.asked) != 0)
        fprintf(out, " (of %s)", r->precision.asked);
    fprintf(out, "\n");
}

static void print_order(FILE *out, const struct sl_report_totals *r)
{
    if (isnan(r->order.sequences))
        return;
    fprintf(out, "order       %s, %s: shuffling error %.3f (uniform %.3f)", r->order.kind,
            SL_PLURAL(r->order.sequences, "sequence"), r->order.shuffling_error,
            r->order.uniform_error);
    if (r->order.input_nodes > 0 && r->order.spread_input_nodes > 0)
        fprintf(out, "; %.0f %% of the input nodes of seeds that are spread evenly",
                100 * r->order.input_nodes / r->order.spread_input_nodes);
    fprintf(out, "\n");
}

static void print_switching(FILE *out, const struct sl_report_totals *r)
{
    char time[SL_UNITS_BYTES];
    if (!(r->switching.batches > 0))
        return;
    fprintf(out, "switching   %.0f batches by standby trainers in %s", r->switching.batches,
            SL_PLURAL(r->switching.switches, "turn"));
    if (!isnan(r->switching.seconds_saved))
        fprintf(out, ", about %s saved", sl_units_seconds(time, r->switching.seconds_saved));
    fprintf(out, "\n");
}

static void print_allocation(FILE *out, const struct sl_report_allocation *a)
{
    char t_sample[SL_UNITS_BYTES], t_train[SL_UNITS_BYTES];
    fprintf(out, "allocation  from epoch %.0f: %s, %s", a->epoch + 1,
            SL_PLURAL(a->samplers, "sampler"), SL_PLURAL(a->trainers, "trainer"));
    if (!isnan(a->t_sample) && !isnan(a->t_train))
        fprintf(out, "; T_s %s, T_t %s, K %.2g", sl_units_seconds(t_sample, a->t_sample),
                sl_units_seconds(t_train, a->t_train), a->k);
    fprintf(out, "\n");
}

static void print_scale(FILE *out, const struct sl_report_scale *s)
{
    char took[SL_UNITS_BYTES];
    fprintf(out, "scale       in epoch %.0f, by the %s: ", s->epoch + 1, s->by);
    if (s->ok)
        fprintf(out, "%.0f+%.0f -> %.0f+%.0f in %s\n", s->from.samplers, s->from.trainers,
                s->to.samplers, s->to.trainers, sl_units_seconds(took, s->took_seconds));
    else
        fprintf(out, "refused, %s\n", s->message);
}

// The first decision on the split and those that changed it; changes that were asked for. The
// reasons are in the report.
static void print_decisions(FILE *out, const struct sl_report_totals *r)
{
    struct sl_report_allocation a;
    struct sl_report_scale s;
    bool first = true;
    SL_FOR_EACH_ENTRY(a, sl_report_allocation_fields, r->allocations)
    {
        if (first || a.moved)
            print_allocation(out, &a);
        first = false;
    }
    SL_FOR_EACH_ENTRY(s, sl_report_scale_fields, r->scales)
    {
        // A move by the profile that worked has been told above.
        if (strcmp(s.by, "profile") != 0 || !s.ok)
            print_scale(out, &s);
    }
}

static void print_restarts(FILE *out, const struct sl_report_totals *r)
{
    double left_out = r->restarts_left_out > 0 ? r->restarts_left_out : 0;
    double n = cJSON_GetArraySize(r->restarts) + left_out;
    if (n > 0)
        fprintf(out,
                "workers     %.0f died and were replaced; %.0f batches drawn again, %.0f trained "
                "again\n",
                n, r->batches.resampled, r->batches.retrained);
}

// An evaluation of links has the bce of its pairs, with whatever loss they were learned.
static bool has_another_loss(const struct sl_read_report *r)
{
    return strcmp(sl_json_string(r->of.config, "task.kind"), "link") == 0 &&
           strcmp(sl_json_string(r->of.config, "task.loss"), "bce") != 0;
}

// "accuracy 0.8140, micro-F1 0.8140, macro-F1 0.8011, loss 0.6203"
static void print_evaluation(FILE *out, const struct sl_read_report *r, const cJSON *found)
{
    const double k = sl_json_number(r->of.config, "evaluate.k");
    const char *separator = "";
    char value[SL_MEASURE_TEXT], title[SL_MEASURE_TITLE];
    for (enum sl_measure m = 0; m < SL_MEASURE_COUNT; m++) {
        if (!cJSON_HasObjectItem(found, sl_measure_key(m)))
            continue;
        fprintf(out, "%s%s%s %s", separator,
                m == SL_MEASURE_LOSS && has_another_loss(r) ? "bce " : "",
                sl_measure_title(m, k, title),
                sl_measure_text(sl_json_number(found, sl_measure_key(m)), value));
        separator = ", ";
    }
}

// The report names a metric as the job file does.
static const char *metric_name(const struct sl_read_report *r, char buf[SL_MEASURE_TITLE])
{
    const char *key = r->of.best_metric.name;
    for (enum sl_measure m = 0; m < SL_MEASURE_COUNT; m++)
        if (strcmp(sl_measure_key(m), key) == 0)
            return sl_measure_title(m, sl_json_number(r->of.config, "evaluate.k"), buf);
    return key;
}

// The best epoch; without one the last that was validated. NULL: none was.
static const struct sl_report_epoch *judged_epoch(const struct sl_read_report *r)
{
    const struct sl_report_epoch *last = NULL;
    for (size_t i = 0; i < r->n_epochs; i++) {
        const struct sl_report_epoch *e = &r->epochs[i];
        if (e->epoch == r->of.best_metric.epoch)
            return e;
        if (isnan(r->of.best_metric.epoch) && cJSON_IsObject(e->val))
            last = e;
    }
    return last;
}

static void print_best(FILE *out, const struct sl_read_report *r)
{
    const struct sl_report_epoch *shown = judged_epoch(r);
    char title[SL_MEASURE_TITLE];
    if (shown) {
        fprintf(out, "validation  ");
        print_evaluation(out, r, shown->val);
        fprintf(out, " (epoch %.0f, ", shown->epoch + 1);
        if (isnan(r->of.best_metric.epoch))
            fprintf(out, "the last: none is the best)\n");
        else
            fprintf(out, "the best by %s%s%s)\n", metric_name(r, title),
                    *r->of.best_metric.why ? ", chosen since " : "", r->of.best_metric.why);
    }
}

void sl_run_summary_so_far(FILE *out, const struct sl_read_report *r)
{
    if (r->last && !isnan(r->last->loss))
        fprintf(out, "loss        %.4f after epoch %.0f, the last that was completed\n",
                r->last->loss, r->last->epoch + 1);
    print_best(out, r);
}

static void print_results(FILE *out, const struct sl_read_report *r)
{
    char n[SL_UNITS_BYTES];
    if (*r->of.epochs_reason)
        fprintf(out, "trained     %s\n", r->of.epochs_reason);
    if (!isnan(r->of.stopped_early.epoch))
        fprintf(out, "stopped     early, after epoch %.0f: %s\n", r->of.stopped_early.epoch + 1,
                r->of.stopped_early.reason);
    print_best(out, r);
    if (r->of.test) {
        fprintf(out, "test        ");
        print_evaluation(out, r, r->of.test);
        fprintf(out, "\n");
        if (!isnan(r->of.val_edges_added))
            fprintf(out,
                    "            by a graph with the validation edges: %s more than in the data "
                    "set's\n",
                    sl_units_grouped(n, (uint64_t)r->of.val_edges_added));
    } else if (strcmp(sl_json_string(r->of.config, "evaluate.test"), "never") == 0) {
        fprintf(out, "test        left out, as evaluate.test says\n");
    }
}

// Of a job of links, over its epochs; a report of an older version does not say.
static void print_pairs(FILE *out, const struct sl_read_report *r)
{
    char positives[SL_UNITS_BYTES], negatives[SL_UNITS_BYTES];
    const cJSON *c = r->of.config;
    double sum[2] = {0}, hard[2] = {0}, seconds = 0;
    for (size_t i = 0; i < r->n_epochs; i++) {
        sum[0] += r->epochs[i].positives;
        sum[1] += r->epochs[i].negatives;
        hard[0] += r->epochs[i].hard_negatives;
        hard[1] += r->epochs[i].hard_missing;
        seconds += r->epochs[i].seconds;
    }
    if (strcmp(sl_json_string(c, "task.kind"), "link") != 0 || !(sum[0] > 0 && seconds > 0))
        return;
    sl_units_count(positives, sum[0] / seconds);
    sl_units_count(negatives, sum[1] / seconds);
    fprintf(out, "links       decoder %s, loss %s: %s positives and %s %s negatives a second\n",
            sl_json_string(c, "task.decoder"), sl_json_string(c, "task.loss"), positives, negatives,
            sl_json_string(c, "task.negatives"));
    if (*r->of.pair_relation)
        fprintf(out, "            of %s, as all that is said of pairs\n", r->of.pair_relation);
    if (hard[0] + hard[1] > 0)
        fprintf(out, "            %s of the negatives are hard, %s others stand for missing ones\n",
                sl_units_grouped(positives, (uint64_t)hard[0]),
                sl_units_grouped(negatives, (uint64_t)hard[1]));
}

// What was trained and how; what else is set stands in the report's "config".
static void print_settings(FILE *out, const struct sl_read_report *r)
{
    char n[SL_UNITS_BYTES];
    const cJSON *c = r->of.config;
    const char *schedule = sl_json_string(c, "optimizer.schedule");
    const double lr = sl_json_number(c, "optimizer.lr");
    if (isnan(lr))
        return;
    print_pairs(out, r);
    fprintf(out, "model       %s, layers %.0f, hidden %.0f, dropout %.10g",
            sl_json_string(c, "model.kind"), sl_json_number(c, "model.layers"),
            sl_json_number(c, "model.hidden"), sl_json_number(c, "model.dropout"));
    if (!isnan(r->of.num_params))
        fprintf(out, ": %s parameters", sl_units_grouped(n, (uint64_t)r->of.num_params));
    fprintf(out, "\noptimizer   %s, lr %.10g", sl_json_string(c, "optimizer.kind"), lr);
    if (strcmp(schedule, "constant") != 0)
        fprintf(out, " (%s)", schedule);
    if (r->last && !isnan(r->last->learning_rate) && r->last->learning_rate != lr)
        fprintf(out, ", %.3g at the end", r->last->learning_rate);
    fprintf(out, ", weight_decay %.10g\n", sl_json_number(c, "optimizer.weight_decay"));
}

void sl_run_summary_print(FILE *out, const struct sl_read_report *r, const char *run_directory)
{
    const struct sl_report_totals *all = &r->of;
    const cJSON *warning;
    char wall[SL_UNITS_BYTES], start[SL_UNITS_BYTES], n[SL_UNITS_BYTES], memory[SL_UNITS_BYTES],
        held[SL_UNITS_BYTES];
    double wall_seconds = SL_MAX(all->wall_seconds, 0);
    // Of all runs that the epochs are of; an older version does not say.
    double total = isnan(all->total_seconds) ? wall_seconds : all->total_seconds;

    fprintf(out, "%s: %s in %s", all->job, all->status, sl_units_seconds(start, total));
    if (cJSON_GetArraySize(all->resumes) > 0)
        fprintf(out, " (%s since it went on)", sl_units_seconds(wall, wall_seconds));
    fprintf(out, ", %s, %s batches\n\n", SL_PLURAL(r->n_epochs, "epoch"),
            sl_units_grouped(n, (uint64_t)all->batches.trained));
    if (r->last) {
        print_stages(out, r);
        print_nodes(out, r);
        fprintf(out, "\n");
        if (!isnan(r->last->loss))
            fprintf(out, "loss        %.4f after the last epoch\n", r->last->loss);
    }
    print_results(out, r);
    print_settings(out, r);
    cJSON_ArrayForEach(warning, all->warnings)
    {
        if (cJSON_IsString(warning))
            fprintf(out, "warning     %s\n", warning->valuestring);
    }
    if (r->last)
        fprintf(out, "bottleneck  %s\n", r->last->bottleneck);
    print_cache(out, r);
    print_blocks(out, r);
    print_links(out, r);
    print_precision(out, all);
    print_order(out, all);
    print_switching(out, all);
    print_decisions(out, all);
    print_restarts(out, all);
    if (!isnan(all->start_seconds))
        fprintf(out, "started in  %s\n", sl_units_seconds(start, all->start_seconds));
    if (!isnan(all->peak_memory))
        fprintf(out, "memory      %s at most", sl_units_bytes(memory, all->peak_memory));
    if (all->peak_held > 0)
        fprintf(out, ", %s without pages of files", sl_units_bytes(held, all->peak_held));
    if (!isnan(all->peak_memory))
        fprintf(out, "\n");
    if (*all->params_sha256)
        fprintf(out, "parameters  sha256 %s\n", all->params_sha256);
    if (*all->embedding_sha256)
        fprintf(out, "embedding   sha256 %s\n", all->embedding_sha256);
    if (*all->samples_digest)
        fprintf(out, "samples     digest %s\n", all->samples_digest);
    if (*run_directory)
        fprintf(out, "directory   %s\n", run_directory);
}
