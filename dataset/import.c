#include "dataset/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/json_print.h"
#include "common/base/threads.h"
#include "common/data/dataset.h"
#include "common/text/units.h"
#include "dataset/edge_times.h"
#include "dataset/line_scan.h"

const struct sl_import_format *const sl_import_formats[] = {
    &sl_import_edgelist, &sl_import_mtx,       &sl_import_ogb,     &sl_import_igb,   &sl_import_npz,
    &sl_import_pyg,      &sl_import_graphbolt, &sl_import_dgl_csv, &sl_import_typed,
};
const size_t sl_import_n_formats = SL_COUNT_OF(sl_import_formats);
const char *const sl_duplicate_rules[] = {"first", "sum", "max", "mean", NULL};

int sl_import_init(struct sl_import *im, const struct sl_import_format *format)
{
    im->format = format;
    im->memory_bytes = UINT64_C(1) << 30;
    im->weights = true;
    im->context = calloc(1, format->context_bytes);
    if (!im->context)
        return sl_fail(SL_ENOMEM, "import %s: no memory", format->name);
    return SL_OK;
}

void sl_import_fini(struct sl_import *im)
{
    if (im->context && im->format->close)
        im->format->close(im->context);
    free(im->context);
    if (im->typed)
        im->of_typed->close(im);
    sl_dataset_builder_fini(&im->making);
}

static void summarise_direction(const struct sl_import *im, struct sl_table *t)
{
    const char *why = im->symmetrise ? "--symmetrise" : im->direction;
    if (im->edge_sink.both_ways)
        sl_table_row(t, "direction|both: every edge has its reverse (%s)", why);
    else
        sl_table_row(t, "direction|one, as the source has it (%s%s--symmetrise adds reverse edges)",
                     why, *why ? "; " : "");
}

static void summarise_edges(const struct sl_import *im, struct sl_table *t)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct sl_edge_sink *in = &im->edge_sink;
    sl_table_row(t, "edges read|%s", sl_units_grouped(a, in->n_read));
    if (!im->typed)
        summarise_direction(im, t);
    if (in->both_ways || in->n_reversed)
        sl_table_row(t, "reverse edges|%s added", sl_units_grouped(a, in->n_reversed));
    if (in->n_self_loops)
        sl_table_row(t, "self-loops|%s %s", sl_units_grouped(a, in->n_self_loops),
                     in->drop_self_loops ? "dropped" : "kept (--remove-self-loops drops them)");
    if (im->add_self_loops)
        sl_table_row(t, "self-loops added|%s%s", sl_units_grouped(a, im->csc.n_loops_added),
                     in->weighted ? ", of weight 1" : "");
    if (sl_import_keeps_once(im))
        sl_table_row(t,
                     in->weighted ? "duplicates|%s dropped, weight: %s" : "duplicates|%s dropped",
                     sl_units_grouped(a, im->csc.n_duplicates), sl_duplicate_rules[im->duplicates]);
    sl_table_row(t, "edges stored|%s%s", sl_units_grouped(a, im->csc.n_edges),
                 im->unit_weights
                     ? ", without their weights, which are all 1 (--weights keeps them)"
                 : in->weighted      ? ", with weights"
                 : im->keep_times    ? ", with times"
                 : im->edge_features ? ", with features"
                                     : "");
    if (in->n_underflows)
        sl_table_row(t,
                     "weights lost|%s became 0, for float32 holds nothing below 1.4e-45 (sampling "
                     "by weight never takes such an edge: scale the weights)",
                     sl_units_grouped(a, in->n_underflows));
    sl_table_row(t, "vertices|%s, %s %s", sl_units_grouped(a, im->csc.n_nodes),
                 sl_units_grouped(b, im->csc.n_isolated),
                 im->typed ? "rows without edges" : "without in-edges");
    sl_table_row(t, "largest in-degree|%s", sl_units_grouped(a, im->csc.max_degree));
}

static int write_metadata(struct sl_import *im)
{
    const struct sl_import_vertices *f = &im->vertices;
    const struct sl_metadata m = {
        .name = sl_dataset_builder_name(&im->making),
        .n_nodes = im->csc.n_nodes,
        .n_edges = im->csc.n_edges,
        .feat_dim = f->feat_dim,
        .n_classes = f->n_classes,
        .task = f->task > SL_TASK_MULTICLASS ? sl_label_tasks[f->task] : NULL,
        .directed = !im->edge_sink.both_ways,
        .first_side = im->first_side,
    };
    cJSON *root = sl_metadata_to_json(&m);
    if (im->typed) {
        cJSON_DeleteItemFromObject(root, "feat_dim");
        cJSON_DeleteItemFromObject(root, "directed");
        im->of_typed->describe(im, root);
    }
    cJSON *source = cJSON_AddObjectToObject(root, "source");
    cJSON_AddStringToObject(source, "format", im->format->name);
    cJSON_AddNumberToObject(source, "edges_read", (double)im->edge_sink.n_read);
    cJSON_AddBoolToObject(source, "symmetrised", im->symmetrise);
    cJSON_AddBoolToObject(source, "dedup", sl_import_keeps_once(im));
    if (sl_import_keeps_once(im) && im->edge_sink.weighted)
        cJSON_AddStringToObject(source, "duplicates", sl_duplicate_rules[im->duplicates]);
    if (im->edge_sink.n_underflows)
        cJSON_AddNumberToObject(source, "weights_lost", (double)im->edge_sink.n_underflows);
    if (im->remove_self_loops)
        cJSON_AddBoolToObject(source, "self_loops_removed", true);
    if (im->add_self_loops)
        cJSON_AddBoolToObject(source, "self_loops_added", true);
    if (f->normalised)
        cJSON_AddBoolToObject(source, "features_normalised", true);
    if (im->split) {
        cJSON_AddItemToObject(source, "split_shares",
                              cJSON_CreateDoubleArray(im->split_share, SL_SPLIT_COUNT));
        sl_json_put_whole(source, "split_seed", im->seed);
    }
    if (im->format->describe)
        im->format->describe(im, im->context, source);
    if (im->holdout) // until that is done
        cJSON_AddBoolToObject(root, "temporary", true);
    return sl_metadata_write(&im->making.st, root);
}

static int hold_out(struct sl_import *im)
{
    char who[512];
    if (!im->holdout)
        return SL_OK;
    im->held.seed = im->seed;
    snprintf(who, sizeof who, "import %s %s", im->format->name, im->source);
    return sl_edge_split_in_place(&im->held, &im->making.st, &im->making.progress, who);
}

static int read_source(void *context)
{
    struct sl_import *im = context;
    int rc = im->format->read(im, im->context);
    if (rc == SL_OK && im->reverse && !im->typed)
        rc =
            sl_fail(SL_EINVAL,
                    "import %s %s: --reverse is for graphs of several types, and this one has one: "
                    "--symmetrise adds the reverse of every edge",
                    im->format->name, im->source);
    sl_edge_sort_destroy(im->edge_sink.sort);
    im->edge_sink.sort = NULL;
    if (im->timed) // what was sorted with edges were times
        im->edge_sink.weighted = false;
    if (rc == SL_OK && im->keep_times)
        rc = sl_edge_times_write(&im->making.st, im->csc.max_degree, im->held.by_time,
                                 &im->making.progress);
    if (rc == SL_OK)
        rc = write_metadata(im);
    return rc == SL_OK ? hold_out(im) : rc;
}

static void summarise(void *context, struct sl_table *t)
{
    const struct sl_import *im = context;
    summarise_edges(im, t);
    if (im->typed)
        im->of_typed->summarise(im, t);
    im->format->summarise(im, im->context, t);
    if (im->holdout)
        sl_edge_split_summarise(&im->held, t);
}

// --split: "0.6,0.2,0.2" or "0.6,0.2" (the rest is the test set) into share[SL_SPLIT_COUNT].
static int parse_shares(const char *command, const char *text, double *share)
{
    const char *p = text;
    double sum = 0;
    int n = 0;
    for (bool more = true; more; n++) {
        char *end;
        double x = strtod(p, &end);
        if (n == SL_SPLIT_COUNT || end == p || !(x >= 0 && x <= 1) || (*end && *end != ','))
            return sl_fail(SL_EINVAL,
                           "%s: --split '%s': wanted TRAIN,VAL or TRAIN,VAL,TEST as shares from 0 "
                           "to 1, as in 0.6,0.2,0.2",
                           command, text);
        share[n] = x;
        sum += x;
        more = *end == ',';
        p = end + 1;
    }
    if (n == 1)
        return sl_fail(SL_EINVAL, "%s: --split '%s': wanted a second share, for validation",
                       command, text);
    if (sum > 1 + 1e-9)
        return sl_fail(SL_EINVAL, "%s: --split '%s': the shares are %g together: wanted at most 1",
                       command, text, sum);
    if (n == 2)
        share[SL_SPLIT_TEST] = 1 - sum > 0 ? 1 - sum : 0;
    return SL_OK;
}

// --holdout VAL,TEST; how much that may be is the split's to say.
static int parse_holdout(const char *command, struct sl_import *im)
{
    struct sl_edge_split *held = &im->held;
    char *end, *last;
    if (!im->holdout && !held->keep_one && !held->pairs && !held->by_time)
        return SL_OK;
    if (!im->holdout)
        return sl_fail(SL_EINVAL,
                       "%s: --%s without --holdout: give --holdout VAL,TEST, the shares of the "
                       "pairs that are held out, as in 0.05,0.1, or leave it out",
                       command,
                       held->keep_one ? "keep-one"
                       : held->pairs  ? "pairs"
                                      : "by-time");
    held->val = strtod(im->holdout, &end);
    held->test = strtod(*end ? end + 1 : end, &last);
    if (end == im->holdout || *end != ',' || last == end + 1 || *last)
        return sl_fail(SL_EINVAL,
                       "%s: --holdout '%s': wanted VAL,TEST, shares of the pairs that edges join, "
                       "as in 0.05,0.1",
                       command, im->holdout);
    if (!(held->val >= 0 && held->test >= 0 && held->val + held->test < 1))
        return sl_fail(SL_EINVAL,
                       "%s: --holdout '%s': wanted shares from 0, below 1 together, as in 0.05,0.1",
                       command, im->holdout);
    return SL_OK;
}

int sl_import_run(struct sl_import *im)
{
    const struct sl_import_format *format = im->format;
    char command[32];
    if (format->check)
        SL_TRY(format->check(im, im->context));
    snprintf(command, sizeof command, "import %s", format->name);
    if (im->duplicates_given && !sl_import_keeps_once(im))
        return sl_fail(SL_EINVAL,
                       "%s: --duplicates %s without --dedup or --symmetrise, which keep each edge "
                       "once: give one of them, or leave --duplicates out",
                       command, sl_duplicate_rules[im->duplicates]);
    if (im->split)
        SL_TRY(parse_shares(command, im->split, im->split_share));
    SL_TRY(parse_holdout(command, im));
    return sl_dataset_builder_run(&im->making, im, read_source, summarise);
}
