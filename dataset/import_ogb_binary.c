/*
 * OGB's binary layout (ogbn-papers100M, and what OGB's DatasetSaver writes):
 *
 *   raw/data.npz        num_nodes_list, num_edges_list (1 each), edge_index (2, edges),
 *                       node_feat (vertices, columns; optional), further node_* and edge_*
 *   raw/node-label.npz  node_label (vertices, 1 or more; optional)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "dataset/array_sink.h"
#include "dataset/import_ogb.h"

enum { PATH_BYTES = 4352 };

// A list with the one number of the one graph.
static int get_size(const struct sl_zip *zip, const char *key, uint64_t *out)
{
    const struct sl_array_place place = {.zip = zip, .key = key};
    int64_t x[1];
    uint64_t n = 0;
    int rc = sl_array_get_numbers(&place, 1, x, &n);
    if (rc == SL_EFORMAT && n > 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: %s: %" PRIu64 " graphs: wanted a node property prediction data "
                       "set, which has one",
                       sl_zip_path(zip), key, n);
    SL_TRY(rc);
    if (x[0] < 0)
        return sl_fail(SL_EFORMAT, "import %s: %s: found %" PRId64 ": wanted a size",
                       sl_zip_path(zip), key, x[0]);
    *out = (uint64_t)x[0];
    return SL_OK;
}

static int read_sizes(struct sl_ogb *ogb, const struct sl_zip *zip)
{
    SL_TRY(get_size(zip, "num_nodes_list", &ogb->n_nodes));
    SL_TRY(get_size(zip, "num_edges_list", &ogb->n_edges));
    if (ogb->n_nodes == 0)
        return sl_fail(SL_EFORMAT, "import %s: found no vertices: wanted the number of them",
                       sl_zip_path(zip));
    if (ogb->n_nodes > (uint64_t)SL_IMPORT_MAX_ID + 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: num_nodes_list: found %" PRIu64 " vertices: wanted at most "
                       "%" PRIu32,
                       sl_zip_path(zip), ogb->n_nodes, SL_IMPORT_MAX_ID + 1);
    return SL_OK;
}

static void list_left_out(struct sl_import *im, const struct sl_zip *zip)
{
    static const char *const used[] = {"edge_index.npy", "num_nodes_list.npy", "num_edges_list.npy",
                                       "node_feat.npy"};
    for (size_t i = 0; i < sl_zip_count(zip); i++) {
        const char *name = sl_zip_name(zip, i);
        bool is_used = false;
        for (size_t k = 0; k < sizeof used / sizeof *used; k++)
            is_used |= strcmp(name, used[k]) == 0;
        if (!is_used)
            sl_import_leave_out(im, "%s", name);
    }
}

static int read_graph(struct sl_import *im, struct sl_ogb *ogb, const struct sl_zip *zip)
{
    const struct sl_array_place edges = {.zip = zip, .key = "edge_index"};
    const struct sl_array_place features = {.zip = zip, .key = "node_feat"};
    SL_TRY(read_sizes(ogb, zip));
    list_left_out(im, zip);
    SL_TRY(sl_array_put_edges(im, &edges, NULL, SL_EDGES_2_E, ogb->n_nodes));
    if (im->edge_sink.n_read != ogb->n_edges)
        return sl_fail(SL_EFORMAT,
                       "import %s: edge_index: found %" PRIu64 " edges: wanted %" PRIu64
                       " (num_edges_list): get the data set again",
                       sl_zip_path(zip), im->edge_sink.n_read, ogb->n_edges);
    SL_TRY(sl_import_finish_edges(im, ogb->n_nodes));
    if (!sl_array_has_member(zip, features.key))
        return SL_OK;
    return sl_array_put_features(im, &features, ogb->n_nodes, false);
}

int sl_ogb_read_binary(struct sl_import *im, struct sl_ogb *ogb)
{
    char path[PATH_BYTES];
    struct sl_zip *zip;
    snprintf(path, sizeof path, "%s/raw/data.npz", im->source);
    SL_TRY(sl_zip_open(path, &zip));
    int rc = read_graph(im, ogb, zip);
    sl_zip_close(zip);
    SL_TRY(rc);
    snprintf(path, sizeof path, "%s/raw/node-label.npz", im->source);
    if (access(path, F_OK) != 0)
        return SL_OK;
    SL_TRY(sl_zip_open(path, &zip));
    const struct sl_array_place labels = {.zip = zip, .key = "node_label"};
    rc = sl_array_put_labels(im, &labels, ogb->n_nodes, (enum sl_task)ogb->task);
    sl_zip_close(zip);
    return rc;
}
