/*
 * One graph in one .npz file (arrays saved by numpy.savez or savez_compressed), in two layouts:
 *
 *   gnn-benchmark (Shchur et al. 2018: Cora-ML, Amazon, Coauthor, CoraFull)
 *     adj_indptr, adj_indices, adj_data, adj_shape     the adjacency, compressed by rows
 *     attr_indptr, attr_indices, attr_data, attr_shape features, compressed by rows; or
 *     attr_matrix                                      features, dense; or neither
 *     labels                                           a class a vertex, or a 0/1 matrix (optional)
 *   scipy.sparse.save_npz of a CSR, CSC or COO matrix
 *     format, shape, data, and indptr + indices, or row + col (or coords)
 *
 * An entry (i, j) is the edge i -> j, as scipy's row and col become PyTorch Geometric's
 * edge_index: i is an in-neighbour of j. Entries are edges whatever their value, a stored 0 too;
 * the values are weights. Nothing is symmetrised, merged or dropped unless
 * an option says so: PyTorch Geometric's loaders of the first layout do
 * --symmetrise --remove-self-loops --binary-features.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "dataset/array_group.h"
#include "dataset/array_sink.h"
#include "dataset/import_vertices.h"

struct npz {
    bool binary;
    int task; // enum sl_task, NONE = by the labels' shape

    struct sl_zip *zip;
    const char *layout;
    uint64_t n_nodes;
};

static struct sl_array_place member(const struct npz *npz, const char *key)
{
    return (struct sl_array_place){.zip = npz->zip, .key = key};
}

static bool has(const struct npz *npz, const char *key)
{
    return sl_array_has_member(npz->zip, key);
}

// The values of entries are weights, where there are any.
static void take_weights(struct sl_import *im, const struct npz *npz, const char *key)
{
    im->edge_sink.weighted = im->weights && (im->weights_given || has(npz, key));
}

// Rows and columns of the matrix `key` describes.
static int get_shape(const struct npz *npz, const char *key, int64_t shape[2])
{
    const struct sl_array_place place = member(npz, key);
    uint64_t n;
    SL_TRY(sl_array_get_numbers(&place, 2, shape, &n));
    if (n != 2 || shape[0] < 0 || shape[1] < 0)
        return sl_fail(SL_EFORMAT, "import %s: %s: wanted rows and columns, two numbers",
                       sl_zip_path(npz->zip), key);
    return SL_OK;
}

// The adjacency's: as many rows as columns, at least one.
static int get_n_nodes(struct npz *npz, const char *key)
{
    int64_t shape[2];
    SL_TRY(get_shape(npz, key, shape));
    if (shape[0] != shape[1])
        return sl_fail(SL_EFORMAT,
                       "import %s: %s: found a matrix of %" PRId64 " x %" PRId64
                       ": wanted a square one: an adjacency has a row and a column for each vertex",
                       sl_zip_path(npz->zip), key, shape[0], shape[1]);
    if (shape[0] == 0)
        return sl_fail(SL_EFORMAT, "import %s: %s: found no vertices: wanted some",
                       sl_zip_path(npz->zip), key);
    if (shape[0] > (int64_t)SL_IMPORT_MAX_ID + 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: %s: found %" PRId64 " vertices: wanted at most "
                       "%" PRIu32,
                       sl_zip_path(npz->zip), key, shape[0], SL_IMPORT_MAX_ID + 1);
    npz->n_nodes = (uint64_t)shape[0];
    return SL_OK;
}

// ---- gnn-benchmark ------------------------------------------------------------------------------

static int read_attributes(struct sl_import *im, struct npz *npz)
{
    if (has(npz, "attr_matrix")) {
        const struct sl_array_place place = member(npz, "attr_matrix");
        return sl_array_put_features(im, &place, npz->n_nodes, npz->binary);
    }
    if (!has(npz, "attr_indptr"))
        return SL_OK;
    const struct sl_compressed_edges rows = {.indptr = member(npz, "attr_indptr"),
                                             .indices = member(npz, "attr_indices"),
                                             .weights = member(npz, "attr_data")};
    int64_t shape[2];
    SL_TRY(get_shape(npz, "attr_shape", shape));
    if ((uint64_t)shape[0] != npz->n_nodes)
        return sl_fail(SL_EFORMAT,
                       "import %s: attr_shape: found features of %" PRId64
                       " vertices: wanted %" PRIu64 " (adj_shape)",
                       sl_zip_path(npz->zip), shape[0], npz->n_nodes);
    return sl_array_put_sparse_features(im, &rows, npz->n_nodes, (uint64_t)shape[1], npz->binary);
}

static int read_benchmark(struct sl_import *im, struct npz *npz)
{
    const struct sl_array_place labels = member(npz, "labels");
    const struct sl_compressed_edges adjacency = {.indptr = member(npz, "adj_indptr"),
                                                  .indices = member(npz, "adj_indices"),
                                                  .weights = member(npz, "adj_data")};
    npz->layout = "gnn-benchmark";
    if (has(npz, "labels_indptr"))
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: labels_indptr: the labels are a sparse matrix: save them as "
                       "labels=matrix.toarray()",
                       sl_zip_path(npz->zip));
    SL_TRY(get_n_nodes(npz, "adj_shape"));
    take_weights(im, npz, "adj_data");
    SL_TRY(sl_array_put_compressed(im, &adjacency, npz->n_nodes));
    SL_TRY(sl_import_finish_edges(im, npz->n_nodes));
    SL_TRY(read_attributes(im, npz));
    if (!has(npz, "labels"))
        return SL_OK;
    return sl_array_put_labels(im, &labels, npz->n_nodes, (enum sl_task)npz->task);
}

// ---- scipy --------------------------------------------------------------------------------------

static int read_scipy(struct sl_import *im, struct npz *npz)
{
    char format[8];
    npz->layout = "scipy";
    SL_TRY(sl_array_get_text(npz->zip, "format", format, sizeof format));
    bool csr = strcmp(format, "csr") == 0, csc = strcmp(format, "csc") == 0;
    if (!csr && !csc && strcmp(format, "coo") != 0)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: format: found '%s': wanted csr, csc or coo: save matrix.tocsr()",
                       sl_zip_path(npz->zip), format);
    SL_TRY(get_n_nodes(npz, "shape"));
    take_weights(im, npz, "data");
    const struct sl_compressed_edges compressed = {.indptr = member(npz, "indptr"),
                                                   .indices = member(npz, "indices"),
                                                   .weights = member(npz, "data"),
                                                   .by_columns = csc};
    const struct sl_coordinate_edges coordinates = {.sources = member(npz, "row"),
                                                    .destinations = member(npz, "col"),
                                                    .weights = member(npz, "data")};
    const struct sl_array_place pairs = member(npz, "coords"), values = member(npz, "data");
    if (csr || csc)
        SL_TRY(sl_array_put_compressed(im, &compressed, npz->n_nodes));
    else if (has(npz, "row") || !has(npz, "coords"))
        SL_TRY(sl_array_put_coordinates(im, &coordinates, npz->n_nodes));
    else
        SL_TRY(
            sl_array_put_edges(im, &pairs, &values, SL_EDGES_2_E, sl_edge_ends_of(npz->n_nodes)));
    return sl_import_finish_edges(im, npz->n_nodes);
}

// ---- the whole ----------------------------------------------------------------------------------

static const char *const used_of_benchmark[] = {
    "adj_indptr", "adj_indices", "adj_data",    "adj_shape", "attr_indptr", "attr_indices",
    "attr_data",  "attr_shape",  "attr_matrix", "labels",    NULL};
static const char *const used_of_scipy[] = {"format", "shape", "data",   "indptr",    "indices",
                                            "row",    "col",   "coords", "_is_array", NULL};

static void describe(const struct sl_import *im, const void *context, cJSON *source)
{
    const struct npz *npz = context;
    cJSON_AddStringToObject(source, "file", basename(im->source));
    cJSON_AddStringToObject(source, "layout", npz->layout);
}

static int read_npz(struct sl_import *im, void *context)
{
    struct npz *npz = context;
    SL_TRY(sl_zip_open(im->source, &npz->zip));
    const struct sl_array_group group = {.source = im->source, .zip = npz->zip};
    if (has(npz, "adj_indptr")) {
        SL_TRY(read_benchmark(im, npz));
        SL_TRY(sl_array_group_leave_out(&group, im, used_of_benchmark));
    } else if (has(npz, "format")) {
        SL_TRY(read_scipy(im, npz));
        SL_TRY(sl_array_group_leave_out(&group, im, used_of_scipy));
    } else {
        SL_TRY(sl_array_group_leave_out(&group, im, NULL));
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: found the arrays %s: wanted adj_indptr and its like "
                       "(gnn-benchmark), or what scipy.sparse.save_npz writes (format, shape, "
                       "...)%s",
                       im->source, im->left_out[0] ? im->left_out : "(none)",
                       has(npz, "edge_index") ? ": with edge_index it is for sluice import pyg"
                                              : "");
    }
    return sl_import_finish_vertices(im, npz->n_nodes);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    const struct npz *npz = context;
    sl_table_row(t, "layout|%s", npz->layout);
    sl_import_summarise_vertices(&im->vertices, t);
    if (im->left_out[0])
        sl_table_row(t, "arrays left out|%s", im->left_out);
}

#define AT(kind, field) SL_OPTION_AT(kind, npz, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "binary-features", AT(FLAG, binary),
     .help = "positive features become 1, as PyTorch Geometric's loader does"},
    {.name = "task", AT(CHOICE, task), .choices = sl_label_tasks,
     .help = sl_label_tasks_help},
    {0},
};
// clang-format on

static void close_npz(void *context)
{
    struct npz *npz = context;
    sl_zip_close(npz->zip);
}

const struct sl_import_format sl_import_npz = {
    .name = "npz",
    .help = "a graph in one .npz: the gnn-benchmark layout, or scipy's save_npz",
    .source = "SRC.npz",
    .about = "Reads a graph from one .npz file: the gnn-benchmark layout (adj_*, attr_*, "
             "labels) or a CSR, CSC or COO matrix of scipy.sparse.save_npz. An entry (i, j) "
             "makes i an in-neighbour of j.",
    .example = "sluice import npz cora_ml.npz --symmetrise --remove-self-loops "
               "--binary-features --out data/cora_ml\n"
               "sluice import npz graph_csr.npz --no-weights --out data/mine",
    .has_features = true,
    .has_weights = true,
    .context_bytes = sizeof(struct npz),
    .options = options,
    .read = read_npz,
    .describe = describe,
    .summarise = summarise,
    .close = close_npz,
};
