#include "dataset/edge_features.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "dataset/edge_facts.h"

static const char READ_FILE[] = "edge_feat.read.npy";

const char *sl_edge_features_forbidden(const struct sl_import *im)
{
    return im->add_self_loops     ? "--add-self-loops, whose edges have none"
           : im->duplicates_given ? "--duplicates, as the first of equal edges is kept"
                                  : NULL;
}

void sl_edge_features_begin(struct sl_import *im, const char *name,
                            struct sl_edge_feature_stage *stage)
{
    *stage = (struct sl_edge_feature_stage){im->vertices, im->normalise_features, name};
    im->feature_file = name;
    im->feature_rows = "edges";
    im->normalise_features = false; // of vertices
    im->vertices.n_flushed = 0;
}

int sl_edge_features_end(struct sl_import *im, const struct sl_edge_feature_stage *stage, int rc,
                         bool *there)
{
    char path[SL_STAGING_PATH_BYTES];
    const uint64_t n_flushed = im->vertices.n_flushed;
    im->feature_file = im->feature_rows = NULL;
    im->normalise_features = stage->normalises;
    im->vertices = stage->found;
    im->vertices.n_flushed += n_flushed;
    *there = rc == SL_OK && access(sl_staging_file(&im->making.st, stage->name, path), F_OK) == 0;
    return rc;
}

int sl_edge_features_take(struct sl_import *im, const char *from, bool asked,
                          int (*put)(struct sl_import *im, void *of), void *of)
{
    struct sl_edge_feature_stage stage;
    struct sl_edge_sink *in = &im->edge_sink;
    const char *odd = in->weighted ? "weights of edges, which --no-weights leaves out"
                                   : sl_edge_features_forbidden(im);
    bool there;
    if (odd && asked)
        return sl_fail(SL_EINVAL,
                       "import %s: %s: features of edges do not go with %s: leave one of them out",
                       im->source, from, odd);
    if (odd) {
        sl_import_leave_out(im, "%s (%.*s)", from, (int)strcspn(odd, ","), odd);
        return SL_OK;
    }
    sl_edge_features_begin(im, READ_FILE, &stage);
    SL_TRY(sl_edge_features_end(im, &stage, put(im, of), &there));
    im->edge_features = there ? from : NULL;
    in->numbered = in->weighted = there;
    return SL_OK;
}

// A row for each edge of the source.
static int check_rows(const struct sl_import *im, const char *path)
{
    const uint64_t n = im->edge_sink.n_read;
    struct sl_npy npy;
    SL_TRY(sl_npy_open(path, &npy));
    const uint64_t rows = npy.head.shape[0];
    sl_npy_close(&npy);
    if (rows != n)
        return sl_fail(SL_EFORMAT,
                       "import %s: %s: found %" PRIu64 " rows, wanted one for each of %" PRIu64
                       " edges: save both anew",
                       im->source, im->edge_features, rows, n);
    if (n < SL_SINK_NUMBERS)
        return SL_OK;
    return sl_fail(SL_EUNSUPPORTED,
                   "import %s: %s: found features of %" PRIu64 " edges, wanted fewer than %" PRIu32
                   ": leave them out",
                   im->source, im->edge_features, n, SL_SINK_NUMBERS);
}

int sl_edge_features_write(struct sl_import *im)
{
    char path[SL_STAGING_PATH_BYTES];
    bool weights;
    sl_staging_file(&im->making.st, READ_FILE, path);
    SL_TRY(check_rows(im, path));
    const struct sl_edge_facts facts = {.feat = path,
                                        .n_read = im->edge_sink.n_read,
                                        .n_rows = im->csc.n_nodes,
                                        .n_edges = im->csc.n_edges};
    const struct sl_edge_facts_spec spec = {&facts, 1, im->csc.max_degree, true, false};
    SL_TRY(sl_edge_facts_write(&im->making.st, &spec, &weights, &im->making.progress));
    im->edge_sink.numbered = im->edge_sink.weighted = im->csc.has_weights = false;
    if (unlink(path) != 0)
        return sl_fail_errno(SL_EIO, errno, "remove %s", path);
    return SL_OK;
}
