/*
 *   data set -> order -> every array permuted -> directory of its own
 *
 * The order of ids is the order of rows in memory: vertices that are visited often, or together,
 * share cache lines, pages and what a disk reads at once when their ids are near.
 *
 * Invariants: the new graph is the old one under a bijection. A vertex's in-edges keep their order,
 * so sums over all its neighbours are the same to the bit; index lists keep their order, so the
 * same seed makes mini-batches of the same vertices. vertex_map.npy leads back to the ids of the
 * data set that was first reordered, however often that was done.
 *
 * A graph of several types keeps each type's range of ids: the order of all vertices is taken apart
 * by type, and each relation's lists follow the vertices of its target type.
 *
 * Memory: 8 bytes a vertex beside what the order takes; arrays go from mapped
 * files to mapped files, whose pages the kernel writes and drops when it needs memory. Threads take
 * blocks of new vertices or lists, each with a place of its own in the output.
 */
#include "dataset/reorder.h"

#include <dirent.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/memory.h"
#include "common/data/dataset.h"
#include "common/data/dataset_files.h"
#include "common/data/expected_visits.h"
#include "common/data/hotness.h"
#include "common/data/names.h"
#include "common/data/npy.h"
#include "dataset/metadata.h"
#include "dataset/vertex_blocks.h"
#include "common/text/units.h"

enum { VERTICES_PER_TICK = 65536 };

const char *const sl_reorder_kinds[] = {"degree", "hotness", "reads", "bfs", NULL};

// What the rows of a file are of: vertices, or the edges of lists, in a contiguous range.
struct range {
    bool by_edge;
    uint64_t first, n; // vertices, lists
    uint64_t first_edge, n_rows;
};

struct pass {
    struct sl_reorder *run;
    struct sl_dataset ds;
    uint32_t *order; // (n_nodes) new id -> old
    uint32_t *rank;  // (n_nodes) old id -> new
    struct sl_vertex_blocks blocks;

    // Of the arrays in work.
    const int64_t *offsets; // (sl_dataset_lists() + 1) new
    void *sources;
    bool wide; // sources are int64
    struct {
        const char *from;
        char *to;
        size_t row_bytes;
        struct range of;
    } rows;

    // Found by each thread, before [0] and after [1]: how near what is used together lies.
    struct {
        double first_tenth[2]; // edges whose source is among the first tenth of its type's ids
        double length[2];      // sum of |u - v| over edges
    } found[SL_VERTEX_THREADS_MAX];
};

// ---- passes by all threads ----------------------------------------------------------------------

// Over n vertices or lists.
static int run_pass(struct pass *r, const char *what, uint64_t n, int (*body)(void *, int))
{
    r->blocks.n_nodes = n;
    return sl_vertex_blocks_run(&r->blocks, what, body, r);
}

// A list of the new graph.
struct list {
    uint64_t v, old_v; // the vertex whose list it is, and by its present id
    uint64_t old;      // the list by its present number
    uint64_t first, n; // vertices that its sources are among
};

static struct list list_at(const struct pass *r, uint64_t number)
{
    const struct sl_dataset *ds = &r->ds;
    const struct sl_typed *t = &ds->typed;
    const uint64_t v = sl_dataset_list_vertex(ds, number);
    struct list list = {.v = v, .old_v = r->order[v], .old = r->order[v], .n = ds->n_nodes};
    if (t->n_types == 0)
        return list;
    const struct sl_relation *of = &t->relation[sl_typed_relation_of(t, number)];
    list.old = sl_relation_row(t, of, list.old_v);
    list.first = t->type[of->source].first;
    list.n = t->type[of->source].n;
    return list;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static int move_edges(void *context, int thread)
{
    struct pass *r = context;
    const struct sl_dataset *ds = &r->ds;
    uint64_t begin, end;
    while (sl_vertex_blocks_take(&r->blocks, &begin, &end)) {
        uint64_t near[2] = {0}, sum[2] = {0};
        for (uint64_t number = begin; number < end; number++) {
            const struct list list = list_at(r, number);
            const uint64_t tenth = list.first + list.n / 10;
            uint64_t at = (uint64_t)r->offsets[number];
            for (uint64_t e = ds->indptr[list.old]; e < ds->indptr[list.old + 1]; e++, at++) {
                uint32_t before = sl_dataset_source(ds, e), after = r->rank[before];
                if (r->wide)
                    ((int64_t *)r->sources)[at] = after;
                else
                    ((int32_t *)r->sources)[at] = (int32_t)after;
                near[0] += before < tenth;
                near[1] += after < tenth;
                sum[0] += distance(before, list.old_v);
                sum[1] += distance(after, list.v);
            }
        }
        for (int i = 0; i < 2; i++) {
            r->found[thread].first_tenth[i] += (double)near[i];
            r->found[thread].length[i] += (double)sum[i];
        }
    }
    return SL_OK;
}

static int move_rows(void *context, int thread)
{
    struct pass *r = context;
    uint64_t begin, end;
    size_t bytes = r->rows.row_bytes;
    const uint64_t first = r->rows.of.first;
    while (sl_vertex_blocks_take(&r->blocks, &begin, &end)) {
        for (uint64_t i = begin; i < end; i++)
            memcpy(r->rows.to + i * bytes, r->rows.from + (r->order[first + i] - first) * bytes,
                   bytes);
    }
    return SL_OK;
}

static int move_edge_rows(void *context, int thread)
{
    struct pass *r = context;
    uint64_t begin, end;
    size_t bytes = r->rows.row_bytes;
    const struct range *of = &r->rows.of;
    (void)thread;
    while (sl_vertex_blocks_take(&r->blocks, &begin, &end)) {
        for (uint64_t i = begin; i < end; i++) {
            const uint64_t old = list_at(r, of->first + i).old;
            const uint64_t to = (uint64_t)r->offsets[of->first + i] - of->first_edge;
            memcpy(r->rows.to + to * bytes,
                   r->rows.from + (r->ds.indptr[old] - of->first_edge) * bytes,
                   sl_dataset_degree(&r->ds, old) * bytes);
        }
    }
    return SL_OK;
}

// ---- files --------------------------------------------------------------------------------------

static int create(struct pass *r, const char *name, enum sl_dtype dtype, int ndim,
                  const uint64_t *shape, struct sl_npy_writer **w, void **data)
{
    char path[SL_STAGING_PATH_BYTES];
    return sl_npy_create_mapped(sl_staging_file(&r->run->making.st, name, path), dtype, ndim, shape,
                                w, data);
}

static int write_offsets(struct pass *r, struct sl_npy_writer **w)
{
    const uint64_t n_lists = sl_dataset_lists(&r->ds), n = n_lists + 1;
    void *data;
    SL_TRY(create(r, "indptr.npy", SL_DTYPE_I64, 1, &n, w, &data));
    int64_t *offsets = data;
    offsets[0] = 0;
    for (uint64_t i = 0; i < n_lists; i++)
        offsets[i + 1] = offsets[i] + (int64_t)sl_dataset_degree(&r->ds, list_at(r, i).old);
    r->offsets = offsets;
    return SL_OK;
}

static int write_topology(struct pass *r)
{
    struct sl_npy_writer *w;
    r->wide = r->ds.n_nodes > INT32_MAX;
    SL_TRY(create(r, "indices.npy", r->wide ? SL_DTYPE_I64 : SL_DTYPE_I32, 1, &r->ds.n_edges, &w,
                  &r->sources));
    return sl_npy_writer_close(&w, run_pass(r, "edges", sl_dataset_lists(&r->ds), move_edges));
}

static struct range vertices(uint64_t first, uint64_t n)
{
    return (struct range){.first = first, .n = n, .n_rows = n};
}

// A file with a row for each of shape[0] vertices or edges.
static int write_rows(struct pass *r, const char *name, enum sl_dtype dtype, int ndim,
                      const uint64_t *shape, const void *from, struct range of)
{
    struct sl_npy_writer *w;
    void *to;
    SL_TRY(create(r, name, dtype, ndim, shape, &w, &to));
    r->rows.of = of;
    r->rows.from = from;
    r->rows.to = to;
    r->rows.row_bytes = sl_dtype_bytes(dtype);
    for (int i = 1; i < ndim; i++)
        r->rows.row_bytes *= shape[i];
    return sl_npy_writer_close(&w,
                               run_pass(r, name, of.n, of.by_edge ? move_edge_rows : move_rows));
}

// Rows are read in any order: what is larger than the memory is not to be read ahead.
static void advise_features(const void *feat, uint64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)feat / page * page;
    if (bytes > sl_device_memory_available() / 2)
        madvise((void *)begin, bytes + ((uintptr_t)feat - begin), MADV_RANDOM);
}

static int write_features(struct pass *r, const char *name, enum sl_dtype dtype, uint64_t first,
                          const uint64_t shape[2], const void *feat)
{
    if (!feat)
        return SL_OK;
    advise_features(feat, shape[0] * shape[1] * sl_dtype_bytes(dtype));
    return write_rows(r, name, dtype, 2, shape, feat, vertices(first, shape[0]));
}

static int write_vertices(struct pass *r)
{
    const struct sl_dataset *ds = &r->ds;
    const uint64_t labels[] = {sl_dataset_labelled(ds), ds->n_classes};
    SL_TRY(write_features(r, "node_feat.npy", ds->feat_dtype, 0,
                          (const uint64_t[]){ds->n_nodes, ds->feat_dim}, ds->feat));
    for (uint32_t i = 0; i < ds->typed.n_types; i++) {
        const struct sl_vertex_type *t = &ds->typed.type[i];
        const uint64_t shape[] = {t->n, t->feat_dim};
        const char *name = ds->files->typed[i].name;
        SL_TRY(write_features(r, name, t->feat_dtype, t->first, shape, t->feat));
    }
    const struct range of = vertices(0, labels[0]);
    if (ds->label)
        SL_TRY(write_rows(r, "node_label.npy", SL_DTYPE_I32, 1, labels, ds->label, of));
    if (ds->target)
        SL_TRY(write_rows(r, "node_label.npy", ds->target_dtype, 2, labels, ds->target, of));
    return SL_OK;
}

// `first`: the vertex that ids in the file are counted from.
static int write_ids(struct pass *r, const char *name, uint64_t n, const uint32_t *ids,
                     const uint32_t *through, uint32_t first)
{
    struct sl_npy_writer *w;
    void *data;
    bool wide = r->ds.n_nodes > INT32_MAX;
    SL_TRY(create(r, name, wide ? SL_DTYPE_U32 : SL_DTYPE_I32, 1, &n, &w, &data));
    uint32_t *to = data;
    for (uint64_t i = 0; i < n; i++)
        to[i] = (through ? through[ids[i]] : ids[i]) - first;
    return sl_npy_writer_close(&w, SL_OK);
}

// Rows of ids as the data set has them, by their new numbers, which are counted from the first
// vertex that even and odd ones may be.
static int write_rows_of_ids(struct pass *r, enum sl_dataset_file f, const uint32_t *ids,
                             uint32_t even, uint32_t odd)
{
    struct sl_npy_writer *w;
    const struct sl_npy *npy = &r->ds.files->npy[f];
    void *data;
    if (!npy->map)
        return SL_OK;
    SL_TRY(create(r, sl_dataset_file_name(f), SL_DTYPE_U32, 2, npy->head.shape, &w, &data));
    uint32_t *to = data;
    for (uint64_t i = 0; i < npy->n_elems; i++)
        to[i] = r->rank[ids[i]] - (i % 2 ? odd : even);
    return sl_npy_writer_close(&w, SL_OK);
}

// What models of links learn and are judged by; pairs keep their order, and so their weights.
static int write_pairs(struct pass *r, int s)
{
    char path[SL_STAGING_PATH_BYTES];
    const enum sl_dataset_file weight = (enum sl_dataset_file)(SL_FILE_TRAIN_EDGE_WEIGHT + s);
    const struct sl_pair_list *list = &r->ds.edges[s];
    const uint32_t *negatives = r->ds.negatives[s].ids;
    const struct sl_typed *t = &r->ds.typed;
    const struct sl_relation *of = sl_dataset_linked(&r->ds);
    const uint32_t source = of ? (uint32_t)t->type[of->source].first : 0;
    const uint32_t target = of ? (uint32_t)t->type[of->target].first : 0;
    SL_TRY(write_rows_of_ids(r, (enum sl_dataset_file)(SL_FILE_TRAIN_EDGES + s), list->ids, source,
                             target));
    SL_TRY(write_rows_of_ids(r, (enum sl_dataset_file)(SL_FILE_TRAIN_NEG + s), negatives, source,
                             target));
    SL_TRY(write_rows_of_ids(r, (enum sl_dataset_file)(SL_FILE_TRAIN_NEG_TARGET + s), negatives,
                             target, target));
    if (!list->weight)
        return SL_OK;
    struct sl_npy_writer *w;
    sl_staging_file(&r->run->making.st, sl_dataset_file_name(weight), path);
    SL_TRY(sl_npy_writer_open(path, SL_DTYPE_F32, 1, &list->n, &w));
    return sl_npy_writer_close(&w, sl_npy_writer_append(w, list->weight, list->n * sizeof(float)));
}

static int write_lists(struct pass *r)
{
    const struct sl_typed *t = &r->ds.typed;
    const uint32_t listed = t->n_types ? (uint32_t)t->type[t->listed].first : 0;
    for (int s = 0; s < SL_SPLIT_COUNT && (!t->n_types || t->linked != SL_NO_RELATION); s++)
        SL_TRY(write_pairs(r, s));
    for (int s = 0; s < SL_SPLIT_COUNT; s++)
        if (r->ds.split[s].ids)
            SL_TRY(write_ids(r, sl_dataset_file_name((enum sl_dataset_file)(SL_FILE_TRAIN + s)),
                             r->ds.split[s].n, r->ds.split[s].ids, r->rank, listed));
    return write_ids(r, "vertex_map.npy", r->ds.n_nodes, r->order, r->ds.vertex_map, 0);
}

// Whether a file of the source has a place in what was written.
static bool is_known(const struct pass *r, const char *name)
{
    char path[SL_STAGING_PATH_BYTES];
    return access(sl_staging_file(&r->run->making.st, name, path), F_OK) == 0;
}

// By a file's name: edge_*.npy and node_*.npy; node_*.TYPE.npy of the vertices of one type, and
// edge_*.SOURCE.NAME.TARGET.npy of the edges of one relation. False: none of these.
static bool find_range(const struct sl_dataset *ds, const char *name, struct range *of)
{
    const struct sl_typed *t = &ds->typed;
    char pattern[3 * SL_TYPE_NAME_BYTES + 16];
    const bool by_edge = fnmatch("edge_*.npy", name, 0) == 0;
    *of = by_edge ? (struct range){true, 0, sl_dataset_lists(ds), 0, ds->n_edges}
                  : vertices(0, ds->n_nodes);
    if (strcmp(name, sl_dataset_file_name(SL_FILE_NODE_TIME)) == 0) // of seeds
        *of = vertices(0, sl_dataset_labelled(ds));
    for (uint32_t i = 0; i < t->n_types; i++) {
        snprintf(pattern, sizeof pattern, "node_*.%s.npy", t->type[i].name);
        if (fnmatch(pattern, name, 0) == 0)
            *of = vertices(t->type[i].first, t->type[i].n);
    }
    for (uint32_t i = 0; i < t->n_relations; i++) {
        const struct sl_relation *r = &t->relation[i];
        snprintf(pattern, sizeof pattern, "edge_*.%s.%s.%s.npy", t->type[r->source].name, r->name,
                 t->type[r->target].name);
        if (fnmatch(pattern, name, 0) == 0)
            *of =
                (struct range){true, r->first_row, t->type[r->target].n, r->first_edge, r->n_edges};
    }
    return by_edge || fnmatch("node_*.npy", name, 0) == 0;
}

// node_id.npy of `import --relabel`, edge_weight.npy, edge_feat.npy and whatever else has a row a
// vertex or an edge.
static int write_extra(struct pass *r, const char *name)
{
    char path[SL_STAGING_PATH_BYTES + 300];
    struct sl_npy npy;
    struct range of;
    snprintf(path, sizeof path, "%s/%s", r->ds.path, name);
    if (!find_range(&r->ds, name, &of) || is_known(r, name))
        return SL_OK;
    // What is no array of rows is left out, which the summary tells.
    if (sl_npy_open(path, &npy) < 0)
        return SL_OK;
    int rc = SL_OK;
    if (npy.head.ndim >= 1 && npy.head.shape[0] == of.n_rows)
        rc = write_rows(r, name, npy.head.dtype, npy.head.ndim, npy.head.shape, npy.data, of);
    sl_npy_close(&npy);
    return rc;
}

static int write_extras(struct pass *r)
{
    struct dirent **entries;
    int n = scandir(r->ds.path, &entries, NULL, alphasort), rc = SL_OK;
    for (int i = 0; i < n; i++) {
        if (rc == SL_OK)
            rc = write_extra(r, entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return rc;
}

// Names go by the ids from before any reordering: they stay as they are.
static int write_names(struct pass *r)
{
    const char *to = r->run->making.st.dir;
    SL_TRY(sl_names_copy(r->ds.path, to, SL_NAMES_VERTEX, r->ds.n_nodes));
    return sl_names_copy(r->ds.path, to, SL_NAMES_CLASS, r->ds.n_classes);
}

// The keys that the data set has, its user's own among them, with the order beside them.
static int write_metadata(struct pass *r)
{
    cJSON *root = sl_metadata_read(r->ds.path);
    if (!root)
        return SL_EIO;
    sl_metadata_drop_stripes(root, &r->ds);
    cJSON_DeleteItemFromObjectCaseSensitive(root, "first_side"); // sides are mixed now
    sl_metadata_rename(root, sl_dataset_builder_name(&r->run->making));
    cJSON_DeleteItemFromObjectCaseSensitive(root, "order");
    cJSON *order = cJSON_AddObjectToObject(root, "order");
    cJSON_AddStringToObject(order, "by", sl_reorder_kinds[r->run->by]);
    if (sl_reorder_samples(r->run->by)) {
        cJSON *fanout = cJSON_AddArrayToObject(order, "fanout");
        for (uint32_t i = 0; i < r->run->hops.n_hops; i++)
            cJSON_AddItemToArray(fanout, cJSON_CreateNumber((double)r->run->hops.fanout[i]));
    }
    cJSON_AddStringToObject(order, "of", r->ds.name);
    return sl_metadata_write(&r->run->making.st, root);
}

// ---- summary ------------------------------------------------------------------------------------

// Files that sluice does not know may hold ids or edges: they stay where they are, and are named.
static void list_left_out(const struct pass *r, struct sl_table *t)
{
    struct dirent **entries;
    int n = scandir(r->ds.path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.' && !is_known(r, entries[i]->d_name))
            sl_table_row(t,
                         "left out|%s: no array with a row a vertex (node_*.npy) or an edge "
                         "(edge_*.npy)",
                         entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

static void summarise(void *context, struct sl_table *t)
{
    const struct pass *r = context;
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
    const struct sl_dataset *ds = &r->ds;
    double n_edges = (double)SL_MAX(ds->n_edges, 1), near[2] = {0}, length[2] = {0};
    for (int i = 0; i < SL_VERTEX_THREADS_MAX; i++) {
        for (int after = 0; after < 2; after++) {
            near[after] += r->found[i].first_tenth[after];
            length[after] += r->found[i].length[after];
        }
    }
    sl_table_row(t, "order|by %s%s", sl_reorder_kinds[r->run->by],
                 ds->vertex_map ? "; the map leads back to the ids before the earlier reordering"
                                : "");
    sl_table_row(t, "vertices|%s", sl_units_grouped(a, ds->n_nodes));
    sl_table_row(t, "edges|%s", sl_units_grouped(a, ds->n_edges));
    sl_table_row(t, "from first tenth|%.1f %% of the edges, before %.1f %%",
                 100 * near[1] / n_edges, 100 * near[0] / n_edges);
    sl_table_row(t, "edge length|%s ids on average, before %s",
                 sl_units_count(a, length[1] / n_edges), sl_units_count(b, length[0] / n_edges));
    list_left_out(r, t);
}

// ---- orders -------------------------------------------------------------------------------------

// Each fills order (n_nodes) with all vertices; order[new id] = present id. An order is a function
// of the data set alone: ties go to the lower id. One thread.

static int fail_memory(const struct sl_dataset *ds)
{
    return sl_fail(SL_ENOMEM, "reorder %s: no memory for a few words a vertex", ds->path);
}

// By falling out-degree: how often a vertex is the source of an edge, which is how often it is
// drawn when every vertex is expanded. O(E), 4 bytes a vertex.
static int by_degree(const struct sl_dataset *ds, uint32_t *order)
{
    uint32_t *degree = calloc(ds->n_nodes + 1, sizeof *degree);
    if (!degree)
        return fail_memory(ds);
    int rc =
        sl_hotness_degree(ds->indices, ds->indices_dtype, ds->n_edges, ds->n_nodes, NULL, degree);
    if (rc == SL_OK)
        rc = sl_hotness_order(degree, ds->n_nodes, NULL, order, NULL);
    free(degree);
    return rc;
}

static int on_vertices(void *progress, uint64_t n)
{
    SL_TRY(sl_interrupt_check());
    sl_progress_add(progress, n);
    return SL_OK;
}

// hotness[v] *= the share of its lists that a hop reads.
static void by_entry(const struct sl_dataset *ds, int64_t fanout, uint32_t *hotness)
{
    for (uint64_t v = 0; v < ds->n_nodes; v++) {
        uint64_t list, entries = 0, read = 0;
        for (uint32_t relation = 0; sl_dataset_next_list(ds, v, &relation, &list);) {
            const uint64_t degree = sl_dataset_degree(ds, list);
            entries += degree;
            read += fanout < 0 ? degree : SL_MIN(degree, (uint64_t)fanout);
        }
        float visits;
        memcpy(&visits, &hotness[v], sizeof visits);
        if (read < entries)
            visits *= (float)read / (float)entries;
        memcpy(&hotness[v], &visits, sizeof visits);
    }
}

/*
 * By falling number of visits that an epoch of uniform sampling is expected to make
 * (common/data/expected_visits.h). fanout (n_hops) from the seeds outwards, -1 = all. O(n_hops E),
 * 20 bytes a vertex.
 *
 * `last`, or NULL: the fanout of one more hop, which does nearly all reads. Then by reads of each
 * entry of a vertex's list: visits before that hop, times min(1, fanout / in-degree). A GPU that
 * holds the first rows then serves as many reads as possible; by hotness these rows are hubs, of
 * whose long lists few entries are read.
 */
static int by_visits(const struct sl_dataset *ds, const int64_t *fanout, uint32_t n_hops,
                     const int64_t *last, struct sl_progress *progress, uint32_t *order)
{
    if (ds->split[SL_SPLIT_TRAIN].n == 0)
        return sl_fail(SL_EINVAL,
                       "reorder %s: --by %s starts from the training vertices, and the data set "
                       "has none: add train_idx.npy, or take --by degree or bfs",
                       ds->path, last ? "reads" : "hotness");
    uint32_t *hotness = malloc((ds->n_nodes + 1) * sizeof *hotness);
    if (!hotness)
        return fail_memory(ds);
    const struct sl_visits_watch watch = {.on_vertices = on_vertices, .ctx = progress};
    sl_progress_begin(progress, "hotness", ds->n_nodes * n_hops, "vertices");
    const struct sl_visits_sampling sampling = {.fanout = fanout, .n_hops = n_hops};
    int rc = sl_visits_expect(ds, &sampling, &watch, hotness);
    if (rc == SL_OK && last)
        by_entry(ds, *last, hotness);
    if (rc == SL_OK)
        rc = sl_hotness_order(hotness, ds->n_nodes, NULL, order, NULL);
    free(hotness);
    return rc;
}

// In-degrees are below 2^32 (validation); of several lists as far as that goes.
static int by_in_degree(const struct sl_dataset *ds, uint32_t *degree, uint32_t *starts)
{
    for (uint64_t v = 0; v < ds->n_nodes; v++) {
        uint64_t list, n = 0;
        for (uint32_t relation = 0; sl_dataset_next_list(ds, v, &relation, &list);)
            n += sl_dataset_degree(ds, list);
        degree[v] = (uint32_t)SL_MIN(n, (uint64_t)UINT32_MAX);
    }
    return sl_hotness_order(degree, ds->n_nodes, NULL, starts, NULL);
}

// Appends the sources of a list that have not been seen.
static uint64_t append_new(const struct sl_dataset *ds, uint64_t list, uint8_t *seen,
                           uint32_t *order, uint64_t n)
{
    for (uint64_t e = ds->indptr[list]; e < ds->indptr[list + 1]; e++) {
        uint32_t u = sl_dataset_source(ds, e);
        if (!seen[u]) {
            seen[u] = 1;
            order[n++] = u;
        }
    }
    return n;
}

static int search(const struct sl_dataset *ds, const uint32_t *starts, uint8_t *seen,
                  struct sl_progress *progress, uint32_t *order)
{
    // The order is its own queue: vertices from `head` on are to be expanded.
    uint64_t n = 0, head = 0, next_start = 0;
    while (head < ds->n_nodes) {
        if (head == n) {
            while (seen[starts[next_start]])
                next_start++;
            seen[starts[next_start]] = 1;
            order[n++] = starts[next_start];
        }
        uint32_t v = order[head++];
        uint64_t list;
        for (uint32_t relation = 0; sl_dataset_next_list(ds, v, &relation, &list);)
            n = append_new(ds, list, seen, order, n);
        if (head % VERTICES_PER_TICK == 0) {
            SL_TRY(sl_interrupt_check());
            sl_progress_set(progress, head);
        }
    }
    return SL_OK;
}

// Breadth first against the edges, as sampling goes: from the vertex of the largest in-degree to
// its in-neighbours in their order, and so on; then from the largest that is left. O(E), 8 bytes a
// vertex.
static int breadth_first(const struct sl_dataset *ds, struct sl_progress *progress, uint32_t *order)
{
    uint32_t *starts = calloc(ds->n_nodes + 1, sizeof *starts);
    uint32_t *degree = calloc(ds->n_nodes + 1, sizeof *degree);
    uint8_t *seen = NULL;
    int rc = starts && degree ? by_in_degree(ds, degree, starts) : fail_memory(ds);
    free(degree);
    if (rc == SL_OK && !(seen = calloc(ds->n_nodes + 1, 1)))
        rc = fail_memory(ds);
    sl_progress_begin(progress, "search", ds->n_nodes, "vertices");
    if (rc == SL_OK)
        rc = search(ds, starts, seen, progress, order);
    free(starts);
    free(seen);
    return rc;
}

// ---- the command --------------------------------------------------------------------------------

// Takes the order apart by type: each has its own ids, in the order that its vertices had.
static void keep_types(struct pass *r)
{
    const struct sl_typed *t = &r->ds.typed;
    uint64_t next[SL_TYPES_MAX];
    if (t->n_types == 0)
        return;
    for (uint32_t i = 0; i < t->n_types; i++)
        next[i] = t->type[i].first;
    memcpy(r->rank, r->order, r->ds.n_nodes * sizeof *r->rank);
    for (uint64_t i = 0; i < r->ds.n_nodes; i++)
        r->order[next[sl_typed_type_of(t, r->rank[i])]++] = r->rank[i];
}

static int make_order(struct pass *r)
{
    const struct sl_dataset *ds = &r->ds;
    r->order = malloc((ds->n_nodes + 1) * sizeof *r->order);
    r->rank = malloc((ds->n_nodes + 1) * sizeof *r->rank);
    if (!r->order || !r->rank)
        return sl_fail(SL_ENOMEM, "reorder %s: no memory for two ids a vertex", ds->path);
    const struct sl_batch_estimate *hops = &r->run->hops;
    struct sl_progress *progress = &r->run->making.progress;
    const uint32_t n_hops = hops->n_hops;
    switch ((enum sl_reorder_kind)r->run->by) {
    case SL_REORDER_BY_DEGREE: SL_TRY(by_degree(ds, r->order)); break;
    case SL_REORDER_BY_HOTNESS:
        SL_TRY(by_visits(ds, hops->fanout, n_hops, NULL, progress, r->order));
        break;
    case SL_REORDER_BY_READS:
        SL_TRY(
            by_visits(ds, hops->fanout, n_hops - 1, &hops->fanout[n_hops - 1], progress, r->order));
        break;
    case SL_REORDER_BY_BFS: SL_TRY(breadth_first(ds, progress, r->order)); break;
    }
    keep_types(r);
    for (uint64_t v = 0; v < ds->n_nodes; v++)
        r->rank[r->order[v]] = (uint32_t)v;
    return sl_interrupt_check();
}

static int write_arrays(struct pass *r)
{
    SL_TRY(write_topology(r));
    SL_TRY(write_vertices(r));
    SL_TRY(write_lists(r));
    SL_TRY(write_extras(r));
    return write_names(r);
}

static int write_all(void *context)
{
    struct pass *r = context;
    struct sl_npy_writer *offsets = NULL; // of which each file by edge has use
    SL_TRY(make_order(r));
    int rc = write_offsets(r, &offsets);
    if (rc == SL_OK)
        rc = write_arrays(r);
    SL_TRY(sl_npy_writer_close(&offsets, rc));
    return write_metadata(r);
}

int sl_reorder_run(struct sl_reorder *run)
{
    struct pass *r = calloc(1, sizeof *r);
    if (!r)
        return sl_fail(SL_ENOMEM, "reorder: no memory");
    r->run = run;
    int rc = sl_dataset_open(run->source, SL_NEED_TOPOLOGY, SL_CHECK_CACHED, 0, &r->ds);
    sl_vertex_blocks_init(&r->blocks, r->ds.n_nodes, run->n_threads, &run->making.progress);
    if (rc == SL_OK)
        rc = sl_dataset_builder_run(&run->making, r, write_all, summarise);
    sl_dataset_close(&r->ds);
    free(r->order);
    free(r->rank);
    free(r);
    return rc;
}
