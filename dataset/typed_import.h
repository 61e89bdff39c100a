/*
 * typed_import.h - a graph of several types of vertices and relations, as an importer finds it.
 *
 * An importer lists types and relations with their files; what follows is common to all: the type
 * with labels is put first, relations the other way are added (--reverse), features are copied,
 * and each relation's edges are sorted by themselves and written behind those of the one before,
 * so memory is that of one sort.
 *
 * The reverse of a relation between two types is a relation of its own, rev_NAME, for which the
 * source is read a second time; one within a type becomes symmetric, each edge kept once: as
 * torch_geometric's ToUndirected() does.
 */
#ifndef SL_DATASET_TYPED_IMPORT_H
#define SL_DATASET_TYPED_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/typed.h"
#include "dataset/array_sink.h"
#include "dataset/import.h"

struct sl_import_file {
    char *path; // owned; NULL: there is none
    bool text;  // lines of CSV, plain or gzip; else an array
    bool heading;
    const struct sl_zip *zip; // of a member (borrowed), which path only names; else NULL
    const char *key;          // of the member, in path
    struct sl_npy_header raw; // of an array without a header; ndim 0: it has one
};

struct sl_import_type {
    char name[SL_TYPE_NAME_BYTES];
    uint64_t n;
    struct sl_import_file feat, times; // times: of its vertices, an array
    // Once they are read.
    uint32_t feat_dim; // 0 = no features
    bool half;
};

struct sl_import_relation {
    char name[SL_TYPE_NAME_BYTES];
    uint32_t source, target; // types
    struct sl_import_file edges;
    enum sl_edge_shape shape; // of an array
    struct sl_import_file
        weights; // an array; none: of a text the third column is, where `weighted`
    bool weighted;
    // Arrays with a row for each edge (edge_facts.h). Features may also be a member, or lines of
    // text of n_wanted edges: they are copied into an array first.
    struct sl_import_file times, feat;
    // Of an importer that has no such file: puts them into a struct sl_feature_sink. NULL: none.
    int (*put_features)(struct sl_import *im, void *of);
    bool staged;       // feat is such a copy, which goes away
    uint64_t n_read;   // edges of the source
    uint64_t n_wanted; // edges of the source; UINT64_MAX: any number
    // Of an importer that has no such files: starts the sort and puts the edges. NULL: files.
    int (*read)(struct sl_import *im, void *of);
    void *of;
    // Of --reverse: edges are those of relation `reverse_of`, each the other way; of itself: both.
    uint32_t reverse_of; // SL_NO_RELATION
    bool swapped;
    uint64_t n_edges; // written
};

struct sl_typed_import {
    uint32_t n_types, n_relations, n_files; // n_files: the first relations, that have files
    struct sl_import_type type[SL_TYPES_MAX];
    struct sl_import_relation relation[SL_RELATIONS_MAX];
    bool has_labels;
    uint64_t n_nodes, n_rows;
    uint32_t n_symmetric;
    char feature_file[SL_TYPE_NAME_BYTES + 16];
    uint64_t n_flushed; // of the types so far
};

// im->typed, empty (sl_import_fini() frees it). SL_ENOMEM; SL_EINVAL for options that it cannot
// have.
int sl_typed_import_begin(struct sl_import *im);

// Both check names, of which `from` is the file; *out (borrowed) has them and nothing else.
int sl_typed_import_add_type(struct sl_import *im, const char *from, const char *name, uint64_t n,
                             struct sl_import_type **out);
int sl_typed_import_add_relation(struct sl_import *im, const char *from, const char *source,
                                 const char *name, const char *target,
                                 struct sl_import_relation **out);
// A path relative to the directory `dir` (NULL: as it is), by its ending text or an array.
int sl_typed_import_set_file(struct sl_import_file *file, const char *dir, const char *name);
// A member KEY.npy of a zip file, which outlives the import.
int sl_typed_import_set_member(struct sl_import_file *file, const struct sl_zip *zip,
                               const char *key);

// The number of a type, SL_TYPES_MAX where there is none of that name.
uint32_t sl_typed_import_find(const struct sl_typed_import *t, const char *name);

// Makes the type with labels and lists of vertices the first, so that its ids are its numbers.
void sl_typed_import_put_first(struct sl_typed_import *t, uint32_t type);

// Files of the first type: a row a vertex; a list of ids.
int sl_typed_import_labels(struct sl_import *im, const struct sl_import_file *file,
                           enum sl_task task);
int sl_typed_import_list(struct sl_import *im, const struct sl_import_file *file,
                         enum sl_split split);

// Around an importer's own writing of a type's features, by feature_sink; the second takes its
// result and returns it.
void sl_typed_import_begin_features(struct sl_import *im, const struct sl_import_type *type);
int sl_typed_import_end_features(struct sl_import *im, struct sl_import_type *type, int rc);

// All the rest, once labels and lists are read.
int sl_typed_import_finish(struct sl_import *im);

#endif
