// import_read.c - what importers read with: blocks of lines, edges, errors.
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/narrow.h"
#include "common/base/threads.h"
#include "dataset/edge_features.h"
#include "dataset/import.h"
#include "dataset/line_scan.h"

enum { MAX_LANES = 8 };

const char *const sl_label_tasks[] = {"auto", "multiclass", "multilabel", "regression", NULL};
const char sl_label_tasks_help[] =
    "what the labels are; auto: one column classes, several a 0/1 matrix; multiclass of several: "
    "one-hot classes";
int sl_import_start_edges(struct sl_import *im)
{
    im->edge_sink.both_ways = im->edge_sink.both_ways || im->symmetrise;
    im->edge_sink.drop_self_loops = im->remove_self_loops;
    // With weights one lane: equal edges then keep the order of the file, and the first weight
    // wins. Without, equal edges are not told apart.
    im->edge_sink.n_lanes =
        im->edge_sink.weighted ? 1 : SL_MIN(sl_threads_default(), (int)MAX_LANES);
    im->edge_sink.lane = 0; // of the sort before, if there was one
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
        .duplicates = sl_import_keeps_once(im)
                          ? SL_DUPLICATES_FIRST + (enum sl_duplicates)im->duplicates
                          : SL_DUPLICATES_KEEP,
        .weighted = in->weighted,
        .add_self_loops = im->add_self_loops,
    };
    SL_TRY(sl_csc_write(&im->making.st, in->sort, &plan, &im->making.progress, &im->csc));
    sl_edge_sort_destroy(in->sort);
    in->sort = NULL;
    return im->edge_features ? sl_edge_features_write(im) : sl_import_drop_units(im);
}

// Weights that are all 1 say nothing: a matrix of 0 and 1 is no weighted graph.
int sl_import_drop_units(struct sl_import *im)
{
    if (!im->edge_sink.weighted || im->csc.has_weights || im->weights_given)
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
        return sl_import_fail_field(im, f,
                                    im->line == 1
                                        ? "a weight from 0 to " SL_FLOAT32_LARGEST
                                          " (float32; --no-weights reads none)" SL_IMPORT_HEADING
                                        : "a weight from 0 to " SL_FLOAT32_LARGEST
                                          " (float32; --no-weights reads none)");
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
