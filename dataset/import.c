#include "dataset/import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/json_print.h"
#include "common/base/narrow.h"
#include "common/base/threads.h"
#include "common/data/dataset.h"
#include "common/text/units.h"
#include "dataset/line_scan.h"

enum { MAX_LANES = 8 };

const struct sl_import_format *const sl_import_formats[] = {
    &sl_import_edgelist, &sl_import_mtx, &sl_import_ogb,       &sl_import_igb,
    &sl_import_npz,      &sl_import_pyg, &sl_import_graphbolt,
};
const size_t sl_import_n_formats = SL_COUNT_OF(sl_import_formats);
const char *const sl_label_tasks[] = {"auto", "multiclass", "multilabel", "regression", NULL};
const char sl_label_tasks_help[] =
    "what the labels are; auto: one column classes, several a 0/1 matrix; multiclass of several: "
    "one-hot classes";
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
    sl_dataset_builder_fini(&im->making);
}

// Whether each edge is kept once.
static bool keeps_once(const struct sl_import *im)
{
    return im->dedup || im->symmetrise;
}

int sl_import_start_edges(struct sl_import *im)
{
    im->edge_sink.both_ways = im->edge_sink.both_ways || im->symmetrise;
    im->edge_sink.drop_self_loops = im->remove_self_loops;
    // With weights one lane: equal edges then keep the order of the file, and the first weight
    // wins. Without, equal edges are not told apart.
    im->edge_sink.n_lanes =
        im->edge_sink.weighted ? 1 : SL_MIN(sl_threads_default(), (int)MAX_LANES);
    return sl_edge_sort_create(im->making.st.dir, im->memory_bytes - im->memory_held,
                               im->edge_sink.n_lanes, im->edge_sink.weighted, &im->edge_sink.sort);
}

int sl_import_finish_edges(struct sl_import *im, uint64_t n_nodes)
{
    struct sl_edge_sink *in = &im->edge_sink;
    uint64_t n_stored = in->n_read + in->n_reversed;
    SL_TRY(sl_edge_sink_flush(in));
    SL_TRY(sl_edge_sort_finish(in->sort));
    sl_progress_begin(&im->making.progress, "topology", n_stored, "edges");
    const struct sl_csc_plan plan = {
        .n_nodes = n_nodes,
        .duplicates = keeps_once(im) ? SL_DUPLICATES_FIRST + (enum sl_duplicates)im->duplicates
                                     : SL_DUPLICATES_KEEP,
        .weighted = in->weighted,
        .add_self_loops = im->add_self_loops,
    };
    SL_TRY(sl_csc_write(&im->making.st, in->sort, &plan, &im->making.progress, &im->csc));
    sl_edge_sort_destroy(in->sort);
    in->sort = NULL;
    // Weights that are all 1 say nothing: a matrix of 0 and 1 is no weighted graph.
    if (!in->weighted || im->csc.has_weights || im->weights_given)
        return SL_OK;
    im->unit_weights = true;
    char path[SL_STAGING_PATH_BYTES];
    if (unlink(sl_staging_file(&im->making.st, "edge_weight.npy", path)) != 0)
        return sl_fail_errno(SL_EIO, errno, "remove %s", path);
    return SL_OK;
}

void sl_import_begin_stage(struct sl_import *im, const char *what, const struct sl_text_reader *r)
{
    sl_progress_begin(&im->making.progress, what, sl_text_reader_size(r), "B");
}

static int read_blocks(struct sl_import *im, struct sl_text_reader *r, sl_import_block_fn *take,
                       void *context)
{
    const char *p, *end;
    sl_import_begin_stage(im, "edges", r);
    for (;;) {
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_text_reader_next(r, &p, &end));
        if (p == end)
            return SL_OK;
        SL_TRY(take(im, context, p, end));
        sl_progress_set(&im->making.progress, sl_text_reader_position(r));
    }
}

int sl_import_read_blocks(struct sl_import *im, sl_import_block_fn *take, void *context)
{
    struct sl_text_reader *r;
    SL_TRY(sl_text_reader_open(im->source, &r));
    int rc = read_blocks(im, r, take, context);
    sl_text_reader_close(r);
    return rc;
}

static int fail(const struct sl_import *im, const char *excerpt, const char *wanted)
{
    return sl_fail(SL_EFORMAT, "import %s: line %" PRIu64 ": found '%s': wanted %s", im->source,
                   im->line, excerpt, wanted);
}

int sl_import_fail_at(const struct sl_import *im, const char *found, const char *wanted)
{
    char text[64];
    return fail(im, sl_line_excerpt(found, text, sizeof text), wanted);
}

int sl_import_fail_field(const struct sl_import *im, const struct sl_line_field *found,
                         const char *wanted)
{
    char text[64];
    return fail(im, sl_line_excerpt_of(found->text, found->n, text, sizeof text), wanted);
}

int sl_import_scan_weight(const struct sl_import *im, const struct sl_line_field *f, double *weight)
{
    const char *end = f->n ? sl_line_scan_real(f->text, weight) : NULL;
    if (end != f->text + f->n || !sl_import_is_weight(*weight))
        return sl_import_fail_field(
            im, f, "a weight from 0 to " SL_FLOAT32_LARGEST " (float32; --no-weights reads none)");
    return SL_OK;
}

void sl_import_leave_out(struct sl_import *im, const char *fmt, ...)
{
    char name[256];
    size_t used = strlen(im->left_out);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (used + strlen(name) + 3 < sizeof im->left_out)
        sprintf(im->left_out + used, "%s%s", used ? ", " : "", name);
}

void sl_import_explain_direction(struct sl_import *im, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(im->direction, sizeof im->direction, fmt, ap);
    va_end(ap);
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
    summarise_direction(im, t);
    if (in->both_ways)
        sl_table_row(t, "reverse edges|%s added", sl_units_grouped(a, in->n_reversed));
    if (in->n_self_loops)
        sl_table_row(t, "self-loops|%s %s", sl_units_grouped(a, in->n_self_loops),
                     in->drop_self_loops ? "dropped" : "kept (--remove-self-loops drops them)");
    if (im->add_self_loops)
        sl_table_row(t, "self-loops added|%s%s", sl_units_grouped(a, im->csc.n_loops_added),
                     in->weighted ? ", of weight 1" : "");
    if (keeps_once(im))
        sl_table_row(t,
                     in->weighted ? "duplicates|%s dropped, weight: %s" : "duplicates|%s dropped",
                     sl_units_grouped(a, im->csc.n_duplicates), sl_duplicate_rules[im->duplicates]);
    sl_table_row(t, "edges stored|%s%s", sl_units_grouped(a, im->csc.n_edges),
                 im->unit_weights
                     ? ", without their weights, which are all 1 (--weights keeps them)"
                 : in->weighted ? ", with weights"
                                : "");
    if (in->n_underflows)
        sl_table_row(t,
                     "weights lost|%s became 0, for float32 holds nothing below 1.4e-45 (sampling "
                     "by weight never takes such an edge: scale the weights)",
                     sl_units_grouped(a, in->n_underflows));
    sl_table_row(t, "vertices|%s, %s without in-edges", sl_units_grouped(a, im->csc.n_nodes),
                 sl_units_grouped(b, im->csc.n_isolated));
    sl_table_row(t, "largest in-degree|%s", sl_units_grouped(a, im->csc.max_degree));
}

static int write_metadata(const struct sl_import *im)
{
    const struct sl_import_vertices *f = &im->vertices;
    const struct sl_metadata m = {
        .name = im->making.name ? im->making.name : im->making.st.name,
        .n_nodes = im->csc.n_nodes,
        .n_edges = im->csc.n_edges,
        .feat_dim = f->feat_dim,
        .n_classes = f->n_classes,
        .task = f->task > SL_TASK_MULTICLASS ? sl_label_tasks[f->task] : NULL,
        .directed = !im->edge_sink.both_ways,
    };
    cJSON *root = sl_metadata_to_json(&m);
    cJSON *source = cJSON_AddObjectToObject(root, "source");
    cJSON_AddStringToObject(source, "format", im->format->name);
    cJSON_AddNumberToObject(source, "edges_read", (double)im->edge_sink.n_read);
    cJSON_AddBoolToObject(source, "symmetrised", im->symmetrise);
    cJSON_AddBoolToObject(source, "dedup", keeps_once(im));
    if (keeps_once(im) && im->edge_sink.weighted)
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
    return sl_metadata_write(&im->making.st, root);
}

static int read_source(void *context)
{
    struct sl_import *im = context;
    int rc = im->format->read(im, im->context);
    sl_edge_sort_destroy(im->edge_sink.sort);
    im->edge_sink.sort = NULL;
    return rc == SL_OK ? write_metadata(im) : rc;
}

static void summarise(void *context, struct sl_table *t)
{
    const struct sl_import *im = context;
    summarise_edges(im, t);
    im->format->summarise(im, im->context, t);
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

int sl_import_run(struct sl_import *im)
{
    const struct sl_import_format *format = im->format;
    char command[32];
    if (format->check)
        SL_TRY(format->check(im, im->context));
    snprintf(command, sizeof command, "import %s", format->name);
    if (im->duplicates_given && !keeps_once(im))
        return sl_fail(SL_EINVAL,
                       "%s: --duplicates %s without --dedup or --symmetrise, which keep each edge "
                       "once: give one of them, or leave --duplicates out",
                       command, sl_duplicate_rules[im->duplicates]);
    if (im->split)
        SL_TRY(parse_shares(command, im->split, im->split_share));
    return sl_dataset_builder_run(&im->making, im, read_source, summarise);
}
