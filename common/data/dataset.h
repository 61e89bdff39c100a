/*
 * dataset.h - a data set directory, mapped.
 *
 * A directory of plain NumPy files (see common/data/README.md): metadata.json, indptr.npy and
 * indices.npy (CSC: for vertex v the sources of its in-edges), and optionally edge_weight.npy,
 * node_feat.npy, node_label.npy, train_idx.npy, val_idx.npy, test_idx.npy, vertex_map.npy,
 * train_edges.npy, val_edges.npy, test_edges.npy, and beside each its weights and its negatives,
 * edge_time.npy, node_time.npy and edge_feat.npy.
 * Files are mapped read-only and shared, so every process of a job uses the same page-cache pages;
 * nothing is copied. Only indptr given as 32-bit integers, labels not given as int32, and lists,
 * pairs and a vertex map of 64 bits are converted into private memory.
 */
#ifndef SL_DATA_DATASET_H
#define SL_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/dtype.h"
#include "common/data/shard.h"
#include "common/data/typed.h"

enum sl_split { SL_SPLIT_TRAIN, SL_SPLIT_VAL, SL_SPLIT_TEST, SL_SPLIT_COUNT };

enum sl_task {
    SL_TASK_NONE,
    SL_TASK_MULTICLASS, // node_label.npy (n_nodes) class ids, -1 or NaN = unlabelled
    SL_TASK_MULTILABEL, // (n_nodes, n_classes) 0 or 1; negative or NaN = unlabelled
    SL_TASK_REGRESSION, // (n_nodes) or (n_nodes, n_classes) numbers; NaN = unlabelled
    SL_TASK_LINK,       // of a job, never of a file: items are pairs of vertices (link_items.h)
};

extern const char *const sl_task_names[]; // by enum sl_task: "none", "multiclass", ...

struct sl_vertex_list {
    uint64_t n;
    const uint32_t *ids; // (n); NULL: 0, 1, ..., n - 1
};

static inline uint32_t sl_vertex_at(const struct sl_vertex_list *list, uint64_t i)
{
    return list->ids ? list->ids[i] : (uint32_t)i;
}

// Pairs of vertices, source first: edges that a model of links learns, or is judged by.
struct sl_pair_list {
    uint64_t n;
    const uint32_t *ids; // (n, 2), or NULL: there is no such file
    const float *weight; // (n) of the pair in the loss, finite and not negative; NULL: 1 each
};

// Pairs that are no edges, given beside the edges of a split. Of per_positive targets for each edge
// negative j of edge i is the pair (source of edge i, ids[i * per_positive + j]).
struct sl_negatives {
    uint64_t n;            // pairs
    uint32_t per_positive; // 0: ids are pairs, which all edges of the split share
    const uint32_t *ids;   // (n, 2), else (edges, per_positive); NULL: none are given
};

struct sl_dataset {
    char path[4096];
    char name[128];
    enum sl_task task;

    uint64_t n_nodes; // below 2^32 - 1
    uint64_t n_edges;
    struct sl_typed typed;  // types and relations, where there are several; else empty
    uint64_t first_side;    // of a graph of two sides: its vertices are 0 to first_side - 1; else 0
    const uint64_t *indptr; // (sl_dataset_lists() + 1)
    const void *indices;    // (n_edges)
    enum sl_dtype indices_dtype; // I32, U32, I64 or U64

    const float *edge_weight; // (n_edges) or NULL
    // Where edges of weight 0 are none (weightless.h): an edge is there if this is above 0.
    const float *present;           // (n_edges); NULL: all are there
    const uint32_t *present_degree; // (lists) edges that are there, or NULL: not counted

    // Only where SL_NEED_TIMES is needed; else NULL.
    const int64_t *edge_time; // (n_edges) rising in each list; of a typed graph by relation
    const int64_t *node_time; // (sl_dataset_labelled()) of each vertex as a seed

    uint32_t feat_dim;        // 0 = no features
    enum sl_dtype feat_dtype; // F32 or F16
    const void *feat;         // (sl_dataset_rows(), feat_dim) or NULL
    struct sl_shard shard;    // which rows these are, where they are not those of all vertices

    uint32_t n_classes;   // of MULTILABEL the labels, of REGRESSION the numbers of a vertex
    const int32_t *label; // MULTICLASS: (sl_dataset_labelled()) or NULL; -1 = unlabelled
    // Others: (the same, n_classes) or NULL, as the file has it (mapped); sl_dataset_targets().
    enum sl_dtype target_dtype; // F32, F64, I8, U8, I32, I64
    const void *target;

    struct sl_vertex_list split[SL_SPLIT_COUNT];
    struct sl_pair_list edges[SL_SPLIT_COUNT]; // of training NULL: all edges of the graph
    struct sl_negatives negatives[SL_SPLIT_COUNT];
    bool may_overlap; // metadata.json says so: else no two of them have a vertex in common
    // metadata.json alone says what the data set would have: sizes are known, and no array is there
    // (dataset_described.c). Only with SL_TAKES_DESCRIBED.
    bool described;

    // Of a data set whose vertices were put in another order (`sluice reorder`): (n_nodes) the id
    // that each had before, a permutation of 0 .. n_nodes - 1; else NULL.
    const uint32_t *vertex_map;

    // Found by validation (or remembered from it).
    uint64_t max_degree;
    uint64_t weightless_edges;    // of weight 0
    uint64_t weightless_vertices; // that have in-edges (of typed graphs: in one relation), all of
                                  // weight 0
    bool loop_free;     // no vertex has an edge from itself; false: some has, or nobody has checked
    bool lists_rise;    // each vertex's neighbours stand in rising order; false: likewise
    bool times_rise;    // there are times of edges, and they rise in each list; false: likewise
    uint64_t digest;    // of headers, sizes, metadata and the files' ends: names this version
    bool validated_now; // this open passed over the data: no record of an earlier pass was used
    uint64_t feat_checked; // bytes of features that validation looked at, now or then: a sample
                           // where they are large and nobody asked for more

    struct sl_dataset_files *files; // private: dataset_files.h
};

// What a caller needs; a missing part is then an error that names the file.
enum sl_dataset_need {
    SL_NEED_TOPOLOGY = 1,
    SL_NEED_FEATURES = 2,
    SL_NEED_LABELS = 4,
    SL_NEED_TRAIN = 8, // a non-empty training set
    SL_NEED_TRAINING = 15,
    SL_NEED_WEIGHTS = 16, // edge weights, for weighted sampling
    // Times of edges and of seeds, for sampling by time.
    SL_NEED_TIMES = 128,
    // Features of edges, of a typed graph those of some relation.
    SL_NEED_EDGE_FEATURES = 256,
    // Whoever gives this looks for features by ds->shard. For others a shard is an error.
    SL_TAKES_SHARD = 32,
    // Whoever gives this reads sizes where ds->described. For others such a data set is an error.
    SL_TAKES_DESCRIBED = 512,
};

// How much checking an open does.
enum sl_dataset_check {
    SL_CHECK_CACHED, // unless a record says that exactly these files passed before; of features
                     // of more than 1 GiB 256 MiB, spread evenly over the file
    SL_CHECK_FULL,   // in full, always
};

// Callbacks that follow a validation's progress, from any thread.
struct sl_dataset_watch {
    void (*begin)(void *ctx, uint64_t bytes); // so many are looked at
    void (*add)(void *ctx, uint64_t bytes);
    void *ctx;
};

/*
 * Opens a data set. `threads` = 0 means all cores for the validation. Errors: SL_ENOENT,
 * SL_EACCESS, SL_EFORMAT, SL_EUNSUPPORTED with a message that names file, field, found and wanted.
 * On failure nothing is left open.
 */
int sl_dataset_open(const char *path, unsigned need, enum sl_dataset_check check, int threads,
                    struct sl_dataset *out);
// The same, reporting the progress of the validation if there is one. watch may be NULL.
int sl_dataset_open_watched(const char *path, unsigned need, enum sl_dataset_check check,
                            int threads, const struct sl_dataset_watch *watch,
                            struct sl_dataset *out);

/*
 * Opens the data set that another process has validated: `record` is that one's
 * sl_dataset_record(). Contents are not checked again, but every file has to be the validated one,
 * unchanged (file_id.h): else SL_ECHANGED names it.
 */
int sl_dataset_open_recorded(const char *path, unsigned need, const char *record, int threads,
                             struct sl_dataset *out);
// What was validated, in text, for other processes (owned: free()); NULL: no memory.
char *sl_dataset_record(const struct sl_dataset *ds);

/*
 * For the process that leads the work on an open data set: holds its files open, so that
 * sl_dataset_check_held() finds out, without reading, whether one was changed in place: SL_ECHANGED
 * names it. A file that was replaced under its name does not count as changed. Errors of the first
 * as sl_dataset_open_recorded().
 */
int sl_dataset_hold(struct sl_dataset *ds);
int sl_dataset_check_held(const struct sl_dataset *ds); // SL_OK where nothing is held

void sl_dataset_close(struct sl_dataset *ds); // safe on a zeroed struct

// The directory in which passed validations are remembered, or NULL where there is none (owned:
// free()). It need not exist yet.
char *sl_dataset_cache_dir(void);

// Targets of vertex v as floats, NaN = unlabelled. out (n_classes). MULTILABEL and REGRESSION.
void sl_dataset_targets(const struct sl_dataset *ds, uint64_t v, float *out);

// Vertices whose features are here.
static inline uint64_t sl_dataset_rows(const struct sl_dataset *ds)
{
    return ds->shard.count ? ds->shard.n_local : ds->n_nodes;
}

// ... of a type, as far as it has some.
static inline uint64_t sl_dataset_type_rows(const struct sl_dataset *ds,
                                            const struct sl_vertex_type *type)
{
    return ds->shard.count ? type->n_local : type->n;
}

// Rows of features of one width that lie together: of all vertices, or of a type's.
struct sl_feature_table {
    uint64_t first, n;    // vertices
    uint64_t n_rows;      // that are here: n, or of a shard those of its part
    uint64_t rows_before; // of the types before it, likewise
    uint64_t row_bytes;   // 0: they have none
    const void *rows;
};

// That of a type; of a plain data set of all. O(types).
struct sl_feature_table sl_dataset_table(const struct sl_dataset *ds, uint32_t type);
// That of vertex v (below n_nodes).
struct sl_feature_table sl_dataset_table_of(const struct sl_dataset *ds, uint64_t v);
// Rows that are here of vertices with features: of types of those with some, else of all.
uint64_t sl_dataset_feature_rows(const struct sl_dataset *ds);
// The most bytes that a row has; 0: nothing has features.
uint64_t sl_dataset_widest_row(const struct sl_dataset *ds);

// Rows that may be learned: one for each vertex, or for those of types without features.
static inline uint64_t sl_dataset_learned_rows(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? sl_typed_bare_before(&ds->typed, ds->typed.n_types) : ds->n_nodes;
}

// Vertices that may have a label: of a typed graph those of the first type, so their ids are their
// numbers in it.
static inline uint64_t sl_dataset_labelled(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? ds->typed.type[0].n : ds->n_nodes;
}

// Names the data set, whole or spread over any number of shards: of a whole one its digest.
static inline uint64_t sl_dataset_identity(const struct sl_dataset *ds)
{
    return ds->shard.count ? ds->shard.whole : ds->digest;
}

// Names the graph alone, its vertices as they are numbered: of windows spread evenly over offsets
// and edges, whatever else the data set has and however its edges are written.
uint64_t sl_dataset_topology_digest(const struct sl_dataset *ds);

// 4-byte words that an evaluation leaves for each vertex or pair (sl_arena_predictions).
static inline uint32_t sl_dataset_predict_words(const struct sl_dataset *ds)
{
    return ds->task == SL_TASK_MULTICLASS || ds->task == SL_TASK_LINK ? 1 : ds->n_classes;
}

// Vertices that lists may have: of a typed graph those of one type.
static inline uint64_t sl_dataset_listed(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? ds->typed.type[ds->typed.listed].n : ds->n_nodes;
}

// The relation that a job of links learns; NULL of a plain graph. There is one, or pairs are not
// asked for.
static inline const struct sl_relation *sl_dataset_linked(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? &ds->typed.relation[ds->typed.linked] : (struct sl_relation *)0;
}

// The row of a pair's target: in that relation, else its own.
static inline uint64_t sl_dataset_linked_row(const struct sl_dataset *ds, uint32_t target)
{
    const struct sl_relation *r = sl_dataset_linked(ds);
    return r ? sl_relation_row(&ds->typed, r, target) : target;
}

// Lists of sources: a row for each vertex, of a typed graph for each target of each relation.
static inline uint64_t sl_dataset_lists(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? ds->typed.n_rows : ds->n_nodes;
}

// The vertex whose list it is.
static inline uint64_t sl_dataset_list_vertex(const struct sl_dataset *ds, uint64_t list)
{
    if (ds->typed.n_types == 0)
        return list;
    const struct sl_relation *r = &ds->typed.relation[sl_typed_relation_of(&ds->typed, list)];
    return ds->typed.type[r->target].first + (list - r->first_row);
}

// The lists of vertex v, one after the other; *relation is 0 at first. False: there are no more.
static inline bool sl_dataset_next_list(const struct sl_dataset *ds, uint64_t v, uint32_t *relation,
                                        uint64_t *list)
{
    const struct sl_typed *t = &ds->typed;
    *list = v;
    if (t->n_types == 0)
        return (*relation)++ == 0;
    while (*relation < t->n_relations) {
        const struct sl_relation *r = &t->relation[(*relation)++];
        const struct sl_vertex_type *target = &t->type[r->target];
        if (v >= target->first && v - target->first < target->n) {
            *list = sl_relation_row(t, r, v);
            return true;
        }
    }
    return false;
}

// In-degree of v, of a typed graph of row v.
static inline uint64_t sl_dataset_degree(const struct sl_dataset *ds, uint64_t v)
{
    return ds->indptr[v + 1] - ds->indptr[v];
}

// The row of n_rows from first_row on in whose list the edge stands.
static inline uint64_t sl_row_of_edge(const struct sl_dataset *ds, uint64_t first_row,
                                      uint64_t n_rows, uint64_t edge)
{
    // indptr[low] <= edge < indptr[high]
    uint64_t low = first_row, high = first_row + n_rows;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (ds->indptr[middle] <= edge)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Source of edge e.
static inline uint32_t sl_dataset_source(const struct sl_dataset *ds, uint64_t e)
{
    bool wide = ds->indices_dtype == SL_DTYPE_I64 || ds->indices_dtype == SL_DTYPE_U64;
    return wide ? (uint32_t)((const uint64_t *)ds->indices)[e] : ((const uint32_t *)ds->indices)[e];
}

#endif
