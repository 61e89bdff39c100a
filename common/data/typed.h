/*
 * typed.h - a graph of several types of vertices and several relations.
 *
 * All vertices have one numbering: those of a type are a contiguous range of it, the types one
 * after another. Users see a vertex as its type and its number in that range.
 *
 * A relation is the edges of one name from one type to one type. It has a *row* for each vertex of
 * its target type, in their order; the rows of relation 0 come first, then those of relation 1, ...
 * So one CSC holds all: the row of vertex v in a relation is v plus a constant, its sources are
 * indices[indptr[row]] to indices[indptr[row + 1] - 1] (ids of the one numbering), the edges of a
 * relation lie together, and what there is of them by edge lies together, too.
 *
 * A METAPATH is relations that a walk goes along, against their edges: from a vertex of the first
 * one's target type to one of its source type, from there by the second, and so on. Where walks
 * along metapaths draw (sl_typed_set_paths()) these are the relations that mini-batches, models and
 * figures have: from the type that a metapath ends with to the type that it begins with. Their rows
 * are those of their first step; edges of their own they have none.
 *
 * A plain graph is the same with one type and one relation: its rows are its vertices. It has no
 * tables.
 */
#ifndef SL_DATA_TYPED_H
#define SL_DATA_TYPED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/dtype.h"

enum { SL_TYPES_MAX = 256, SL_RELATIONS_MAX = 4096, SL_TYPE_NAME_BYTES = 64 };
enum { SL_RELATION_FILES_MAX = 256 }; // relations whose edges have times, or features
enum { SL_METAPATH_STEPS_MAX = 8 };
#define SL_NO_RELATION UINT32_MAX

struct sl_vertex_type {
    char name[SL_TYPE_NAME_BYTES]; // letters, digits, '_' and '-'
    uint64_t first, n;             // its vertices are first to first + n - 1
    uint64_t n_local;              // of a shard those of its part: sl_dataset_type_rows()
    uint32_t feat_dim;             // 0 = no features
    enum sl_dtype feat_dtype;      // F32 or F16
    const void *feat; // (sl_dataset_type_rows(), feat_dim) or NULL, as of a described data set
};

struct sl_relation {
    char name[SL_TYPE_NAME_BYTES]; // of relations between the same types no two have the same
    uint32_t source, target;       // types
    uint64_t first_row;            // of as many rows as the target type has vertices
    uint64_t first_edge, n_edges;
    // The relation that has the reverse of each edge; itself where it is symmetric. SL_NO_RELATION:
    // nothing says so.
    uint32_t reverse_of;
    // (n_edges) rising in each row; NULL: none, or SL_NEED_TIMES is not needed.
    const int64_t *time;
    // Features of its edges; 0: none, or SL_NEED_EDGE_FEATURES is not needed.
    uint32_t feat_dim;
    enum sl_dtype feat_dtype; // F32 or F16
    const void *feat;         // (n_edges, feat_dim) or NULL, as of a described data set always
    // Of a metapath: the relations that it goes along, by their numbers. 0: it is none.
    uint32_t n_steps, step[SL_METAPATH_STEPS_MAX];
};

struct sl_typed {
    uint32_t n_types, n_relations; // 0: a plain graph
    // Where the n_relations are metapaths: the graph's own, which stand behind them. Else 0.
    uint32_t n_walked;
    uint64_t n_rows;             // of all relations
    struct sl_vertex_type *type; // the first is the one with labels
    struct sl_relation *relation;
    struct sl_relation plain; // of a plain graph: all its edges; else empty
    uint32_t listed;          // the type that train_idx.npy and so on list vertices of
    // The relation of the pairs in train_edges.npy and so on, and of a job of links that which it
    // learns (sl_config_choose_items()). SL_NO_RELATION: nothing says which.
    uint32_t linked;
};

// Sets of edges that may have features: relations, or all edges of a plain graph.
static inline uint32_t sl_typed_edge_sets(const struct sl_typed *t)
{
    return t->n_types ? t->n_relations : 1;
}
static inline const struct sl_relation *sl_typed_edge_set(const struct sl_typed *t, uint32_t i)
{
    return t->n_types ? &t->relation[i] : &t->plain;
}

// The row of vertex v, which is of the relation's target type.
static inline uint64_t sl_relation_row(const struct sl_typed *t, const struct sl_relation *r,
                                       uint64_t v)
{
    return r->first_row + (v - t->type[r->target].first);
}

// indptr of all rows, as one by vertex: v's row in the relation is at [v] and [v + 1]. The first
// vertex may stand behind its row: numbers wrap, as pointers must not.
static inline const uint64_t *sl_relation_lists(const struct sl_typed *t,
                                                const struct sl_relation *r, const uint64_t *indptr)
{
    const uintptr_t shift = (uintptr_t)sl_relation_row(t, r, 0);
    return (const uint64_t *)((uintptr_t)indptr + shift * sizeof *indptr);
}

// What the row of a vertex in step k of a metapath is behind its row in the first step; numbers
// wrap.
static inline uint64_t sl_relation_step_shift(const struct sl_typed *t,
                                              const struct sl_relation *metapath, uint32_t k)
{
    return sl_relation_row(t, &t->relation[metapath->step[k]], 0) - sl_relation_row(t, metapath, 0);
}

// Whether a metapath ends at the type that it begins with.
static inline bool sl_relation_is_round(const struct sl_relation *metapath)
{
    return metapath->source == metapath->target;
}

// Edges in the lists that its rows are of.
static inline uint64_t sl_relation_list_edges(const struct sl_typed *t, const struct sl_relation *r)
{
    return r->n_steps > 0 ? t->relation[r->step[0]].n_edges : r->n_edges;
}

// Of one vertex's features; 0: it has none.
static inline uint64_t sl_type_row_bytes(const struct sl_vertex_type *type)
{
    return type->feat_dim ? type->feat_dim * sl_dtype_bytes(type->feat_dtype) : 0;
}

// Of the features of all its vertices; 0: it has none.
static inline uint64_t sl_type_feature_bytes(const struct sl_vertex_type *type)
{
    return type->n * sl_type_row_bytes(type);
}

// Of one edge's features; 0: it has none that are read.
static inline uint64_t sl_relation_row_bytes(const struct sl_relation *r)
{
    return r->feat_dim ? r->feat_dim * sl_dtype_bytes(r->feat_dtype) : 0;
}

// Of the features of all its edges; 0: likewise.
static inline uint64_t sl_relation_feature_bytes(const struct sl_relation *r)
{
    return r->n_edges * sl_relation_row_bytes(r);
}

// Vertices of the types before that one that have no features; n_types: of all. Learned rows
// (features.kind) are theirs: type after type.
uint64_t sl_typed_bare_before(const struct sl_typed *t, uint32_t type);

// The type that a vertex is of.
uint32_t sl_typed_type_of(const struct sl_typed *t, uint64_t v);
// The relation that a row is of.
uint32_t sl_typed_relation_of(const struct sl_typed *t, uint64_t row);

// "author -writes-> paper"
struct sl_relation_text {
    char text[3 * SL_TYPE_NAME_BYTES + 8];
};
struct sl_relation_text sl_relation_text(const struct sl_typed *t, uint32_t relation);
// The linked relation's, in `to`; NULL: there is none.
const char *sl_typed_linked_text(const struct sl_typed *t, struct sl_relation_text *to);

// The relation `name` from type `source` to type `target`, or SL_NO_RELATION.
uint32_t sl_typed_find_relation(const struct sl_typed *t, uint32_t source, const char *name,
                                uint32_t target);
// The relation that a user's name means: "author -writes-> paper", or "writes" where no other has
// that name. SL_NO_RELATION; *n_found: how many it may mean.
uint32_t sl_typed_relation_named(const struct sl_typed *t, const char *name, uint32_t *n_found);
// The relation that has the reverse of its edges, as either of the two says; of one within a type
// of which nothing says so itself, as the edges of a plain graph. SL_NO_RELATION.
uint32_t sl_typed_reverse(const struct sl_typed *t, uint32_t relation);
// The type of that name, n_types where there is none.
uint32_t sl_typed_find_type(const struct sl_typed *t, const char *name);

struct sl_metapath {
    const char *name;
    uint32_t n_steps, step[SL_METAPATH_STEPS_MAX]; // relations, of which each leads to the next
};
// Makes these (n, at least 1) the relations, as far as this process is concerned. SL_ENOMEM.
int sl_typed_set_paths(struct sl_typed *t, const struct sl_metapath *path, uint32_t n);

// Whether `name` may be one of a type or a relation.
bool sl_typed_is_name(const char *name);

#endif
