/*
 * One graph of PyTorch Geometric: the tensors of a torch_geometric.data.Data under their own names,
 * in one .npz file or as the .npy files of a folder.
 *
 *   edge_index   (2, E) sources and targets, or (E, 2); (2, 2) is the first, as PyTorch Geometric
 *                has it
 *   edge_weight  (E) or (E, 1); where there is none edge_attr of one column
 *   edge_attr    (E, D) features of edges, where no weights are read
 *   x            (N, D) features
 *   y            (N), (N, 1) or (N, C): integers are classes, or 0/1 in each column; floats are
 *                numbers, but several columns of nothing else than 0 and 1 are labels too
 *   train_mask, val_mask, test_mask
 *                (N) bool or 0/1; anything else is a list of vertices. train_idx and so on, too
 *   num_nodes    a number, for graphs without x and y
 *
 * Messages go from row 0 of edge_index to row 1, so sources are in-neighbours of targets.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "dataset/array_group.h"
#include "dataset/array_sink.h"
#include "dataset/edge_features.h"
#include "dataset/import_vertices.h"
#include "dataset/vertex_sink.h"

enum { BATCH = 4096, NAMES_MAX = 16 };

// Under which names a list of vertices may stand; the first that is there counts.
static const char *const list_names[SL_SPLIT_COUNT][5] = {
    [SL_SPLIT_TRAIN] = {"train_mask", "train_idx", "train_index"},
    [SL_SPLIT_VAL] = {"val_mask", "val_idx", "val_index", "valid_mask", "valid_idx"},
    [SL_SPLIT_TEST] = {"test_mask", "test_idx", "test_index"},
};

struct pyg {
    int task; // enum sl_task, NONE = by y

    struct sl_array_group group;
    uint64_t n_nodes;
    const char *used[NAMES_MAX + 1]; // names of arrays, NULL-terminated
    const char *weights;             // the array that weights are in, or NULL
    bool two_by_two;                 // edge_index is
    bool numbers;                    // y is taken for numbers, because it is float
};

static int open_array(const struct pyg *p, const char *key, struct sl_array_reader **out)
{
    char path[SL_ARRAY_GROUP_PATH_BYTES];
    const struct sl_array_place place = sl_array_group_place(&p->group, key, path);
    return sl_array_open(&place, out);
}

// Whether the array is there; then it is one that is used.
static bool use(struct pyg *p, const char *key)
{
    size_t n = 0;
    if (!sl_array_group_has(&p->group, key))
        return false;
    while (p->used[n])
        n++;
    if (n < NAMES_MAX)
        p->used[n] = key;
    return true;
}

// ---- how many vertices --------------------------------------------------------------------------

static int get_rows(const struct pyg *p, const char *key, uint64_t *out)
{
    struct sl_array_reader *r;
    SL_TRY(open_array(p, key, &r));
    const struct sl_npy_header *h = sl_array_header(r);
    *out = h->ndim > 0 ? h->shape[0] : 0;
    sl_array_close(r);
    return SL_OK;
}

static int get_n_nodes(struct pyg *p)
{
    static const char *const with_rows[] = {"x", "y"};
    char path[SL_ARRAY_GROUP_PATH_BYTES];
    const struct sl_array_place place = sl_array_group_place(&p->group, "num_nodes", path);
    const char *from = "num_nodes";
    int64_t stated = 0;
    uint64_t n;
    if (use(p, from)) {
        SL_TRY(sl_array_get_numbers(&place, 1, &stated, &n));
        p->n_nodes = (uint64_t)SL_MAX(stated, (int64_t)0);
    }
    for (size_t i = 0; i < SL_COUNT_OF(with_rows) && !p->used[0]; i++)
        if (use(p, with_rows[i]))
            SL_TRY(get_rows(p, from = with_rows[i], &p->n_nodes));
    if (!p->used[0])
        return sl_fail(SL_EFORMAT,
                       "import %s: has none of x, y and num_nodes: the number of vertices cannot "
                       "be told from edges: wanted num_nodes=data.num_nodes",
                       p->group.source);
    if (p->n_nodes == 0 || p->n_nodes > (uint64_t)SL_IMPORT_MAX_ID + 1)
        return sl_fail(SL_EUNSUPPORTED,
                       "import %s: %s: found %" PRIu64 " vertices: wanted 1 to %" PRIu64,
                       p->group.source, from, p->n_nodes, (uint64_t)SL_IMPORT_MAX_ID + 1);
    return SL_OK;
}

// ---- labels -------------------------------------------------------------------------------------

// Whether every number of an open array is 0, 1 or (where that may be) NaN.
static int is_binary(struct sl_array_reader *r, bool *out)
{
    double x[BATCH];
    *out = true;
    while (*out && sl_array_left(r) > 0) {
        uint64_t n = SL_MIN(sl_array_left(r), (uint64_t)BATCH);
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_array_read_doubles(r, n, x));
        for (uint64_t i = 0; i < n; i++)
            *out &= x[i] == 0 || x[i] == 1 || isnan(x[i]);
    }
    return SL_OK;
}

static int choose_task(struct pyg *p, enum sl_task *task)
{
    struct sl_array_reader *r;
    *task = (enum sl_task)p->task;
    if (*task != SL_TASK_NONE)
        return SL_OK;
    SL_TRY(open_array(p, "y", &r));
    const struct sl_npy_header *h = sl_array_header(r);
    bool labels = sl_array_is_integer(r);
    int rc = SL_OK;
    if (!labels && h->ndim == 2 && h->shape[1] > 1)
        rc = is_binary(r, &labels);
    if (!labels)
        *task = SL_TASK_REGRESSION;
    p->numbers = !labels;
    sl_array_close(r);
    return rc;
}

static int read_labels(struct sl_import *im, struct pyg *p)
{
    char path[SL_ARRAY_GROUP_PATH_BYTES];
    const struct sl_array_place place = sl_array_group_place(&p->group, "y", path);
    enum sl_task task;
    if (!use(p, "y"))
        return SL_OK;
    SL_TRY(choose_task(p, &task));
    return sl_array_put_labels(im, &place, p->n_nodes, task);
}

// ---- lists of vertices --------------------------------------------------------------------------

// A list of as many vertices as there are would have all of them, each once: 0 and 1 alone are none
// but in a graph of two, where a mask is what is meant.
static int is_mask(const struct pyg *p, const char *key, bool *out)
{
    struct sl_array_reader *r;
    char shape[128];
    SL_TRY(open_array(p, key, &r));
    const struct sl_npy_header *h = sl_array_header(r);
    bool column = h->ndim == 1 || (h->ndim == 2 && h->shape[1] == 1);
    bool whole = column && h->shape[0] == p->n_nodes;
    int rc = SL_OK;
    *out = h->boolean;
    if (!column || (h->boolean && !whole))
        rc = sl_fail(SL_EFORMAT,
                     "import %s: found shape %s: wanted (%" PRIu64 ",), a mask of the vertices%s",
                     sl_array_name(r), sl_npy_shape_text(h, shape, sizeof shape), p->n_nodes,
                     h->ndim == 2 && h->shape[0] == p->n_nodes
                         ? ": of several splits save one, as in data.train_mask[:, 0]"
                         : ", or a list of them as integers");
    else if (whole && !h->boolean)
        rc = is_binary(r, out);
    sl_array_close(r);
    return rc;
}

static int put_list(struct sl_array_reader *r, bool mask, struct sl_list_sink *list)
{
    int64_t x[BATCH];
    for (uint64_t first = 0; sl_array_left(r) > 0;) {
        uint64_t n = SL_MIN(sl_array_left(r), (uint64_t)BATCH);
        SL_TRY(sl_interrupt_check());
        SL_TRY(sl_array_read_integers(r, n, x));
        for (uint64_t i = 0; i < n; i++)
            if (!mask || x[i])
                SL_TRY(
                    sl_list_sink_put(list, mask ? (int64_t)(first + i) : x[i], sl_array_name(r)));
        first += n;
    }
    return SL_OK;
}

static int read_list(struct sl_import *im, struct pyg *p, enum sl_split split)
{
    const char *key = NULL;
    struct sl_array_reader *r;
    struct sl_list_sink list;
    bool mask;
    for (size_t i = 0; i < SL_COUNT_OF(list_names[0]) && list_names[split][i] && !key; i++)
        if (use(p, list_names[split][i]))
            key = list_names[split][i];
    if (!key)
        return SL_OK;
    SL_TRY(is_mask(p, key, &mask));
    SL_TRY(open_array(p, key, &r));
    int rc = sl_list_sink_open(&list, im, split, p->n_nodes);
    if (rc == SL_OK)
        rc = sl_list_sink_close(&list, put_list(r, mask, &list), split);
    sl_array_close(r);
    return rc;
}

// ---- edges --------------------------------------------------------------------------------------

// Whether a row of the array has several numbers.
static int has_columns(const struct pyg *p, const char *key, bool *several)
{
    struct sl_array_reader *r;
    SL_TRY(open_array(p, key, &r));
    const struct sl_npy_header *h = sl_array_header(r);
    *several = h->ndim > 1 && h->shape[1] > 1;
    sl_array_close(r);
    return SL_OK;
}

static int choose_weights(struct sl_import *im, struct pyg *p)
{
    static const char *const names[] = {"edge_weight", "edge_attr"};
    bool several = false;
    for (size_t i = 0; i < SL_COUNT_OF(names) && !p->weights; i++)
        if (sl_array_group_has(&p->group, names[i]))
            p->weights = names[i];
    if (p->weights == names[1])
        SL_TRY(has_columns(p, p->weights, &several));
    if (!im->weights || (several && !im->weights_given))
        p->weights = NULL;
    im->edge_sink.weighted = im->weights && (p->weights || im->weights_given);
    if (p->weights)
        use(p, p->weights);
    if (p->weights || !im->weights_given || !im->weights)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "import %s: --weights given, but there is neither edge_weight nor edge_attr: "
                   "leave it out",
                   p->group.source);
}

struct edge_features {
    struct sl_array_place place;
    uint64_t rows;
};

static int put_edge_features(struct sl_import *im, void *of)
{
    const struct edge_features *f = of;
    return sl_array_put_features(im, &f->place, f->rows, false);
}

// edge_attr that is not read as weights, where it is a matrix.
static int take_edge_features(struct sl_import *im, struct pyg *p)
{
    char path[SL_ARRAY_GROUP_PATH_BYTES];
    struct sl_array_reader *r;
    if (!sl_array_group_has(&p->group, "edge_attr") ||
        (p->weights && strcmp(p->weights, "edge_attr") == 0))
        return SL_OK;
    SL_TRY(open_array(p, "edge_attr", &r));
    const struct sl_npy_header *h = sl_array_header(r);
    struct edge_features f = {.place = sl_array_group_place(&p->group, "edge_attr", path),
                              .rows = h->ndim == 1 || h->ndim == 2 ? h->shape[0] : 0};
    sl_array_close(r);
    if (f.rows == 0)
        return SL_OK;
    use(p, "edge_attr");
    return sl_edge_features_take(im, "edge_attr", false, put_edge_features, &f);
}

static int read_edges(struct sl_import *im, struct pyg *p)
{
    char path[SL_ARRAY_GROUP_PATH_BYTES], weights_path[SL_ARRAY_GROUP_PATH_BYTES];
    const struct sl_array_place edges = sl_array_group_place(&p->group, "edge_index", path);
    uint64_t rows;
    SL_TRY(choose_weights(im, p));
    SL_TRY(take_edge_features(im, p));
    SL_TRY(get_rows(p, "edge_index", &rows));
    const struct sl_array_place weights =
        p->weights ? sl_array_group_place(&p->group, p->weights, weights_path)
                   : (struct sl_array_place){0};
    SL_TRY(sl_array_put_edges(im, &edges, &weights, SL_EDGES_EITHER, sl_edge_ends_of(p->n_nodes)));
    p->two_by_two = rows == 2 && im->edge_sink.n_read == 2;
    return sl_import_finish_edges(im, p->n_nodes);
}

// ---- the whole ----------------------------------------------------------------------------------

static int read_features(struct sl_import *im, struct pyg *p)
{
    char path[SL_ARRAY_GROUP_PATH_BYTES];
    const struct sl_array_place place = sl_array_group_place(&p->group, "x", path);
    return use(p, "x") ? sl_array_put_features(im, &place, p->n_nodes, false) : SL_OK;
}

static int read_pyg(struct sl_import *im, void *context)
{
    struct pyg *p = context;
    SL_TRY(sl_array_group_open(&p->group, im->source));
    if (!sl_array_group_has(&p->group, "edge_index")) {
        SL_TRY(sl_array_group_leave_out(&p->group, im, NULL));
        return sl_fail(
            SL_EFORMAT,
            "import %s: found %s: wanted edge_index, x, y and so on, the tensors of "
            "PyTorch Geometric's Data: `sluice import pyg --help` says how to write them",
            im->source, im->left_out[0] ? im->left_out : "no arrays");
    }
    // Small parts first, so that their errors appear before the edges are sorted.
    SL_TRY(get_n_nodes(p));
    SL_TRY(read_labels(im, p));
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        SL_TRY(read_list(im, p, (enum sl_split)s));
    use(p, "edge_index");
    SL_TRY(read_edges(im, p));
    SL_TRY(read_features(im, p));
    SL_TRY(sl_array_group_leave_out(&p->group, im, p->used));
    return sl_import_finish_vertices(im, p->n_nodes);
}

static void summarise(const struct sl_import *im, const void *context, struct sl_table *t)
{
    const struct pyg *p = context;
    sl_import_summarise_vertices(&im->vertices, t);
    if (p->numbers)
        sl_table_row(t,
                     "y|floats, so numbers to predict (--task multiclass reads them as classes)");
    if (p->two_by_two)
        sl_table_row(t, "edge_index|2 x 2: row 0 has the sources, row 1 the targets, as in PyTorch "
                        "Geometric");
    if (im->left_out[0])
        sl_table_row(t, "arrays left out|%s", im->left_out);
}

#define AT(kind, field) SL_OPTION_AT(kind, pyg, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "task", AT(CHOICE, task), .choices = sl_label_tasks,
     .help = "what y is; auto: integers are classes, in several columns a 0/1 matrix, and floats "
             "are numbers; multiclass of several columns: one-hot classes"},
    {0},
};
// clang-format on

static void close_pyg(void *context)
{
    struct pyg *p = context;
    sl_array_group_close(&p->group);
}

const struct sl_import_format sl_import_pyg = {
    .name = "pyg",
    .help = "a graph of PyTorch Geometric: edge_index, x, y, train_mask ... as .npz or .npy",
    .source = "SRC.npz|DIR",
    .about = "Reads one graph of PyTorch Geometric from an .npz file, or a folder of .npy files, "
             "with the tensors of its Data: edge_index, x, y, train_mask, val_mask, test_mask (or "
             "lists of vertices), edge_weight, edge_attr. Integers in y are classes, floats are "
             "numbers. In "
             "Python: numpy.savez(\"mine.npz\", num_nodes=data.num_nodes, **{k: v.cpu().numpy() "
             "for k, v in data.to_dict().items() if torch.is_tensor(v)})",
    .example = "sluice import pyg cora.npz --normalize-features --out data/cora\n"
               "sluice import pyg folder --no-weights --split 0.6,0.2 --out data/mine",
    .has_features = true,
    .has_weights = true,
    .context_bytes = sizeof(struct pyg),
    .options = options,
    .read = read_pyg,
    .summarise = summarise,
    .close = close_pyg,
};
