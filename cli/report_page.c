/*
 * report_page.c - a run's account as HTML.
 *
 * The pipeline (devices, queue, features) is boxes that the reader's browser lays out, whatever
 * their number and the lengths of their words; what has axes is SVG (report_chart.h); what
 * `sluice report` says in words stands below, in the same words. Every text that comes from the
 * run goes through sl_text_markup().
 */
#include "cli/report_page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_chart.h"
#include "cli/report_view.h"
#include "cli/run_summary.h"
#include "common/base/bits.h"
#include "common/text/json.h"
#include "common/text/units.h"

static double known(double value)
{
    return isnan(value) ? 0 : value;
}

static double number(const cJSON *object, const char *path)
{
    return known(sl_json_number(object, path));
}

static const char *bytes(char buf[SL_UNITS_BYTES], double n)
{
    return sl_units_bytes(buf, (uint64_t)SL_MIN(SL_MAX(n, 0), 1e18));
}

static const char *count(char buf[SL_UNITS_BYTES], double n)
{
    return sl_units_grouped(buf, (uint64_t)SL_MIN(SL_MAX(n, 0), 1e18));
}

// --- what it was ---------------------------------------------------------------------------------

static void write_facts(struct sl_text *t, const struct sl_report_totals *r)
{
    char n[SL_UNITS_BYTES];
    const cJSON *config = r->config, *f;
    const char *separator = "";
    sl_text_puts(t, "<p class=\"facts\">");
    if (*sl_json_string(config, "model.kind")) {
        sl_text_markup(t, sl_json_string(config, "model.kind"));
        sl_text_printf(t, ", %.0f layers of %.0f · ", number(config, "model.layers"),
                       number(config, "model.hidden"));
    }
    if (!isnan(r->num_params))
        sl_text_printf(t, "%s parameters · ", sl_units_grouped(n, (uint64_t)r->num_params));
    if (*sl_json_string(config, "sampler.kind")) {
        sl_text_markup(t, sl_json_string(config, "sampler.kind"));
        cJSON_ArrayForEach(f, sl_json_at(config, "sampler.fanout"))
        {
            if (f->valuedouble < 0)
                sl_text_printf(t, "%s all", separator);
            else
                sl_text_printf(t, "%s %.0f", separator, f->valuedouble);
            separator = ",";
        }
        sl_text_printf(t, "; %.0f seeds a batch · ", number(config, "sampler.batch_size"));
    }
    if (*sl_json_string(config, "updates.mode")) {
        sl_text_markup(t, sl_json_string(config, "updates.mode"));
        sl_text_puts(t, " updates · ");
    }
    if (*sl_json_string(config, "optimizer.kind")) {
        sl_text_markup(t, sl_json_string(config, "optimizer.kind"));
        sl_text_printf(t, ", lr %.10g · ", number(config, "optimizer.lr"));
    }
    sl_text_puts(t, "data set ");
    sl_text_markup(t, sl_json_string(config, "dataset"));
    sl_text_puts(t, "</p>\n");
}

static void write_head(struct sl_text *t, const struct sl_report_totals *r)
{
    char time[SL_UNITS_BYTES];
    const cJSON *warning;
    sl_text_puts(t, "<section class=\"card\"><div class=\"title\"><h1>");
    sl_text_markup(t, r->job);
    sl_text_puts(t, "</h1><span class=\"pill ");
    sl_text_markup(t, r->status);
    sl_text_puts(t, "\">");
    sl_text_markup(t, r->status);
    if (!isnan(r->wall_seconds))
        sl_text_printf(t, " in %s", sl_units_seconds(time, r->wall_seconds));
    sl_text_puts(t, "</span></div>\n");
    write_facts(t, r);
    if (*r->message) {
        const bool told_to = strcmp(r->status, "done") == 0 || strcmp(r->status, "stopped") == 0;
        sl_text_puts(t, told_to ? "<p class=\"facts\">" : "<p class=\"c-bad\">");
        sl_text_markup(t, r->message);
        sl_text_puts(t, "</p>\n");
    }
    cJSON_ArrayForEach(warning, r->warnings)
    {
        sl_text_puts(t, "<p class=\"c-bad\">");
        sl_text_markup(t, cJSON_IsString(warning) ? warning->valuestring : "");
        sl_text_puts(t, "</p>\n");
    }
    sl_text_puts(t, "</section>\n");
}

// --- devices -------------------------------------------------------------------------------------

static bool has_role(const cJSON *device, const char *role)
{
    const cJSON *r;
    cJSON_ArrayForEach(r, sl_json_at(device, "roles"))
    {
        if (cJSON_IsString(r) && strcmp(r->valuestring, role) == 0)
            return true;
    }
    return false;
}

// 0, 1, 2, 5 as " 0-2,5".
static void write_ranges(struct sl_text *t, const cJSON *numbers)
{
    const char *separator = " ";
    for (const cJSON *last, *n = numbers ? numbers->child : NULL; n; n = last->next) {
        for (last = n; last->next && last->next->valuedouble == last->valuedouble + 1;)
            last = last->next;
        sl_text_printf(t, "%s%.0f", separator, n->valuedouble);
        if (last != n)
            sl_text_printf(t, "-%.0f", last->valuedouble);
        separator = ",";
    }
}

static void write_worker(struct sl_text *t, const struct sl_report_totals *r, const char *worker,
                         const char *role)
{
    struct sl_report_cache c;
    char kept[SL_UNITS_BYTES];
    sl_text_puts(t, "<p><span class=\"dot c-");
    sl_text_markup(t, role);
    sl_text_puts(t, "\"></span>");
    sl_text_markup(t, worker);
    if (strcmp(role, "standby") == 0)
        sl_text_puts(t, ", standby");
    SL_FOR_EACH_ENTRY(c, sl_report_cache_fields, r->cache.trainers)
    {
        if (strcmp(c.worker, worker) == 0 && c.rows > 0)
            sl_text_printf(t, " <small>cache %s</small>", bytes(kept, c.bytes));
    }
    sl_text_puts(t, "</p>\n");
}

// Of a device that samples and trains those who have the role; all of any other.
static bool is_shown(const cJSON *d, const char *worker_role, const char *role)
{
    return !role || !(has_role(d, "sampler") && has_role(d, "trainer")) ||
           strcmp(worker_role, role) == 0;
}

static void write_device(struct sl_text *t, const struct sl_report_totals *r, const cJSON *d,
                         const char *side)
{
    const cJSON *cores = sl_json_at(d, "cores"), *workers = sl_json_at(d, "workers");
    char memory[SL_UNITS_BYTES];
    sl_text_puts(t, "<div class=\"device\"><h3><span>");
    if (*sl_json_string(d, "name")) { // older reports have none
        sl_text_markup(t, sl_json_string(d, "name"));
    } else {
        sl_text_markup(t, sl_json_string(d, "kind"));
        sl_text_printf(t, " %.0f", number(d, "index"));
    }
    sl_text_puts(t, "</span><small>");
    if (cJSON_GetArraySize(cores) > 0) {
        sl_text_puts(t, cJSON_GetArraySize(cores) == 1 ? "core" : "cores");
        write_ranges(t, cores);
    }
    if (number(d, "memory") > 0)
        sl_text_printf(t, " %s", bytes(memory, number(d, "memory")));
    sl_text_puts(t, "</small></h3>\n");
    for (int i = 0; i < cJSON_GetArraySize(workers); i++) {
        const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(workers, i));
        const char *role = cJSON_GetStringValue(cJSON_GetArrayItem(sl_json_at(d, "roles"), i));
        if (is_shown(d, role ? role : "", side))
            write_worker(t, r, name ? name : "", role ? role : "");
    }
    sl_text_puts(t, "</div>\n");
}

// Those with the role; NULL: those that neither sample nor train. How many they are.
static int write_devices(struct sl_text *t, const struct sl_report_totals *r, const char *role)
{
    const cJSON *d;
    int n = 0;
    sl_text_puts(t, "<div class=\"devices\">\n");
    cJSON_ArrayForEach(d, r->devices)
    {
        bool is_idle = !has_role(d, "sampler") && !has_role(d, "trainer");
        if (role ? has_role(d, role) : is_idle) {
            write_device(t, r, d, role);
            n++;
        }
    }
    sl_text_puts(t, "</div>\n");
    return n;
}

// A device that samples and trains is on both sides; those that do neither stand by the trainers.
static void write_trainers(struct sl_text *t, const struct sl_report_totals *r)
{
    struct sl_text idle = {0};
    sl_text_puts(t, "<section class=\"side c-trainer\"><h3>Trainers</h3>\n");
    if (write_devices(t, r, "trainer") == 0)
        sl_text_puts(t, "<p><small>No device only trains: the standby trainer takes the sampler's "
                        "device over when nothing is left to sample.</small></p>\n");
    if (write_devices(&idle, r, NULL) > 0 && idle.s)
        sl_text_printf(t, "<h3><small>without a role at the end</small></h3>\n%s", idle.s);
    t->failed = t->failed || idle.failed;
    sl_text_fini(&idle);
    sl_text_puts(t, "</section>\n");
}

static void write_samplers(struct sl_text *t, const struct sl_report_totals *r)
{
    sl_text_puts(t, "<section class=\"side c-sampler\"><h3>Samplers</h3>\n");
    write_devices(t, r, "sampler");
    sl_text_puts(t, "</section>\n");
}

// --- queue and features --------------------------------------------------------------------------

// mark: where a line stands; not a number: none.
static void write_level(struct sl_text *t, const char *colour, double share, double mark)
{
    sl_text_printf(t,
                   "<svg class=\"%s\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" "
                   "aria-hidden=\"true\"><rect fill=\"currentColor\" width=\"%.1f\" height=\"6\"/>",
                   colour, 100 * SL_MIN(SL_MAX(share, 0), 1));
    if (mark >= 0 && mark <= 1)
        sl_text_printf(t, "<rect class=\"mark-line\" x=\"%.1f\" width=\".6\" height=\"6\"/>",
                       100 * mark);
    sl_text_puts(t, "</svg>\n");
}

static void write_queue(struct sl_text *t, const struct sl_read_report *r)
{
    const struct sl_report_epoch *last = r->last;
    double most = last ? known(last->queue.depth_max) : 0;
    double mean = last ? known(last->queue.depth_mean) : 0;
    char text[SL_UNITS_BYTES];
    sl_text_puts(t, "<div class=\"device\"><h3>Queue <small>in shared memory</small></h3>\n");
    write_level(t, "c-queue", most > 0 ? mean / most : 0, NAN);
    if (last)
        sl_text_printf(t, "<p>%.1f batches ready on average, %.0f at most</p>\n", mean, most);
    if (last && last->batches > 0)
        sl_text_printf(t, "<p><small>%s a batch</small></p>\n",
                       bytes(text, known(last->bytes.blocks) / last->batches));
    if (last && last->bytes.blocks_near > 0)
        sl_text_printf(t, "<p><small>%.0f %% near: within a GPU</small></p>\n",
                       100 * last->bytes.blocks_near / last->bytes.blocks);
    if (r->of.arena.payload_bytes > 0)
        sl_text_printf(t, "<p><small>room for %s</small></p>\n",
                       bytes(text, r->of.arena.payload_bytes));
    sl_text_puts(t, "</div>\n");
}

static void write_features(struct sl_text *t, const struct sl_read_report *r)
{
    double rate = r->of.cache.hit_rate, best = r->of.cache.optimal_hit_rate;
    char hit[SL_UNITS_BYTES], miss[SL_UNITS_BYTES];
    sl_text_puts(t, "<div class=\"device\"><h3>Features <small>of input vertices</small></h3>\n");
    if (isnan(rate)) {
        sl_text_puts(t, "<p>no cache: every row comes from the store</p>\n");
    } else {
        write_level(t, "c-cache", rate, best);
        sl_text_printf(t, "<p>%.1f %% of the rows hit a cache", 100 * rate);
        if (!isnan(best))
            sl_text_printf(t, " (optimal %.1f %%)", 100 * best);
        sl_text_puts(t, "</p>\n<p><small>");
        sl_text_markup(t, r->of.cache.policy);
        sl_text_printf(t, ": %s from caches</small></p>\n",
                       bytes(hit, SL_SUM_OF_EPOCHS(r, cache.hit_bytes)));
    }
    sl_text_printf(t, "<p><small>%s from the store</small></p></div>\n",
                   bytes(miss, SL_SUM_OF_EPOCHS(r, cache.miss_bytes)));
}

static void write_arrow(struct sl_text *t, const char *colour, double batches, double standby)
{
    char n[SL_UNITS_BYTES];
    sl_text_printf(t, "<div class=\"arrow c-%s\"><b>→</b>%s batches", colour, count(n, batches));
    if (standby > 0)
        sl_text_printf(t, "<div class=\"c-standby\"><b>←</b>%s by standby trainers</div>",
                       count(n, standby));
    sl_text_puts(t, "</div>\n");
}

static void write_pipeline(struct sl_text *t, const struct sl_read_report *r)
{
    const char *limit = r->last ? r->last->bottleneck : "";
    double all = SL_SUM_OF_EPOCHS(r, batches);
    double standby = SL_SUM_OF_EPOCHS(r, switching.batches);
    sl_text_puts(t, "<section class=\"card\"><h2>Pipeline</h2>\n<div class=\"factory\">\n");
    write_samplers(t, &r->of);
    write_arrow(t, "sampler", all, standby);
    sl_text_puts(t, "<div class=\"store\">\n");
    write_queue(t, r);
    write_features(t, r);
    sl_text_puts(t, "</div>\n");
    write_arrow(t, "trainer", SL_MAX(all - standby, 0), 0);
    write_trainers(t, &r->of);
    sl_text_puts(t, "</div></section>\n");
    if (!*limit)
        return;
    // Trainers that take the time are how it should be: no colour that warns.
    const bool calm = strncmp(limit, "trainers:", 9) == 0;
    sl_text_printf(t, "<section class=\"neck%s\"><strong class=\"mark\">Bottleneck</strong><p>",
                   calm                                  ? " calm"
                   : strncmp(limit, "samplers:", 9) == 0 ? " samplers"
                                                         : "");
    sl_text_puts(t, "<span>");
    sl_text_markup(t, limit);
    sl_text_printf(t, "</span>%s</p></section>\n",
                   calm ? ". Training is the limit, as it should be." : "");
}

// --- the whole -----------------------------------------------------------------------------------

static void write_words(struct sl_text *t, const cJSON *run, const struct sl_read_report *r)
{
    char *words = NULL;
    size_t n;
    FILE *f = open_memstream(&words, &n);
    if (f)
        sl_report_view_print(f, run, r, true);
    if (!f || fclose(f) != 0 || !words) {
        t->failed = true;
    } else {
        sl_text_puts(t, "<section class=\"card\"><h2>In words</h2>\n<pre>");
        sl_text_markup(t, words);
        sl_text_puts(t, "</pre></section>\n");
    }
    free(words);
}

void sl_report_page_write(struct sl_text *t, const cJSON *run, const struct sl_read_report *r)
{
    write_head(t, &r->of);
    write_pipeline(t, r);
    sl_report_chart_stages(t, r);
    sl_text_puts(t, "<div class=\"two\">\n");
    sl_report_chart_curves(t, r);
    sl_text_puts(t, "</div>\n");
    sl_report_chart_epochs(t, r);
    write_words(t, run, r);
}
