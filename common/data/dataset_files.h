// dataset_files.h - the files of a data set that is being opened: mappings, and copies where those
// do not serve as they are.
#ifndef SL_DATA_DATASET_FILES_H
#define SL_DATA_DATASET_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/data/dataset.h"
#include "common/data/npy.h"
#include "common/data/stripes.h"

// In the order in which they are checked, so that the first error is always the same one.
enum sl_dataset_file {
    SL_FILE_INDPTR,
    SL_FILE_INDICES,
    SL_FILE_EDGE_WEIGHT,
    SL_FILE_FEAT,
    SL_FILE_LABEL,
    SL_FILE_TRAIN, // SL_FILE_TRAIN + enum sl_split
    SL_FILE_VAL,
    SL_FILE_TEST,
    SL_FILE_VERTEX_MAP,
    SL_FILE_PART, // these two of shards alone
    SL_FILE_ROW,
    SL_FILE_TRAIN_EDGES, // SL_FILE_TRAIN_EDGES + enum sl_split
    SL_FILE_VAL_EDGES,
    SL_FILE_TEST_EDGES,
    SL_FILE_TRAIN_EDGE_WEIGHT, // these three, too
    SL_FILE_VAL_EDGE_WEIGHT,
    SL_FILE_TEST_EDGE_WEIGHT,
    SL_FILE_TRAIN_NEG,
    SL_FILE_VAL_NEG,
    SL_FILE_TEST_NEG,
    SL_FILE_TRAIN_NEG_TARGET,
    SL_FILE_VAL_NEG_TARGET,
    SL_FILE_TEST_NEG_TARGET,
    SL_FILE_EDGE_TIME,
    SL_FILE_NODE_TIME,
    SL_FILE_EDGE_FEAT,
    SL_FILE_COUNT,
};

enum {
    SL_DATASET_PARTS_MAX =
        SL_FILE_COUNT + SL_STRIPE_FILES_MAX + SL_TYPES_MAX + 2 * SL_RELATION_FILES_MAX
};

// Features of one type of a typed graph, or times or features of one relation.
struct sl_typed_file {
    char name[3 * SL_TYPE_NAME_BYTES + 24]; // "edge_time.author.writes.paper.npy"
    struct sl_npy npy;                      // .map is NULL where the file does not exist
};

struct sl_dataset_files {
    char directory[sizeof(((struct sl_dataset *)0)->path)];
    struct sl_npy npy[SL_FILE_COUNT]; // .map is NULL where the file does not exist
    // (n_ranges: types, or 1) that features of a type, or npy[SL_FILE_FEAT], are mapped from; n 0:
    // a file. NULL: all are files
    struct sl_stripes *stripes;
    uint32_t n_ranges;
    uint64_t n_units; // of them that are mapped
    // (n_typed) of a typed graph: npy[SL_FILE_FEAT] by type, then npy[SL_FILE_EDGE_TIME] by
    // relation, then, where they are read, features of edges by relation
    struct sl_typed_file *typed;
    uint32_t n_typed;
    void *owned[SL_FILE_COUNT];     // converted copy, or NULL where the mapping serves as it is
    int held[SL_DATASET_PARTS_MAX]; // of the first n_held parts: their files, held open
    uint32_t n_held;
    bool temporary;         // the directory goes away soon
    uint32_t n_shards;      // it holds so many data sets, and is none
    char *whole;            // path of the data set that was spread into shards, or NULL (owned)
    uint64_t partition;     // digest of a shard's node_part.npy, without its header
    uint64_t metadata_hash; // of the text of metadata.json
    uint64_t opened_ns;     // wall clock (CLOCK_REALTIME) just before they were mapped
};

const char *sl_dataset_file_name(enum sl_dataset_file f); // "indptr.npy"

// The files of a data set as they were validated: out of a record (dataset_record.c).
struct sl_dataset_known_files {
    uint32_t n;
    struct {
        const char *name;
        struct sl_file_id id;
    } file[SL_DATASET_PARTS_MAX];
};
const struct sl_file_id *sl_dataset_known_file(const struct sl_dataset_known_files *known,
                                               const char *name);

// Maps the files into ds->files. SL_ENOENT where one that is needed (SL_NEED_*) is not there;
// errors of sl_npy_open(). known: only the files that it has, and SL_ECHANGED where one of them is
// not what it was; NULL: whatever is there.
int sl_dataset_map_files(struct sl_dataset *ds, unsigned need,
                         const struct sl_dataset_known_files *known);

// Those of them that are of types and relations (dataset_typed.c).
int sl_dataset_map_types(struct sl_dataset *ds, unsigned need,
                         const struct sl_dataset_known_files *known);
// The times of a relation's edges: .npy.map is NULL where it has none.
static inline struct sl_typed_file *sl_dataset_time_file(const struct sl_dataset *ds, uint32_t r)
{
    return &ds->files->typed[ds->typed.n_types + r];
}
// The features of its edges likewise; NULL: nobody reads those of any relation.
static inline struct sl_typed_file *sl_dataset_edge_feat_file(const struct sl_dataset *ds,
                                                              uint32_t r)
{
    const uint32_t at = ds->typed.n_types + ds->typed.n_relations + r;
    return at < ds->files->n_typed ? &ds->files->typed[at] : (struct sl_typed_file *)0;
}

// SL_EFORMAT for a file WHAT.*.npy that is none of `files`, those of all relations.
int sl_dataset_refuse_strays(const struct sl_dataset *ds, const char *what,
                             const struct sl_typed_file *files);

// The stripes that features of a type are mapped from, or those of a plain data set (type 0). NULL:
// they are a file.
static inline struct sl_stripes *sl_dataset_stripes(const struct sl_dataset_files *files,
                                                    uint32_t type)
{
    const bool any = type < files->n_ranges && files->stripes[type].n > 0;
    return any ? &files->stripes[type] : (struct sl_stripes *)0;
}
// Maps them.
int sl_dataset_map_stripes(struct sl_dataset *ds, uint32_t type,
                           const struct sl_dataset_known_files *known, struct sl_npy *out);
// What errors call these features: the file's name, or the path of the first stripe.
const char *sl_dataset_feat_name(const struct sl_dataset *ds, uint32_t type);

// The files that are mapped, stripes one by one. Returns how many. Borrowed from ds.
struct sl_dataset_part {
    const char *name; // in the data set's directory; of a stripe its path
    const struct sl_file_id *id;
};
uint32_t sl_dataset_parts(const struct sl_dataset *ds,
                          struct sl_dataset_part out[SL_DATASET_PARTS_MAX]);

void sl_dataset_release(struct sl_dataset *ds); // what sl_dataset_hold() holds

// dataset_fault.c: between the two a SIGBUS in one of these files names it.
void sl_dataset_faults_begin(const struct sl_dataset_files *files);
void sl_dataset_faults_end(const struct sl_dataset_files *files);

// The part of an error that names the file, in the data set's directory or a path, and what was
// found: "DIR/FILE: is float64 (3, 4)".
struct sl_dataset_found {
    char text[sizeof(((struct sl_dataset *)0)->path) + 256];
};
struct sl_dataset_found sl_dataset_describe(const struct sl_dataset *ds, enum sl_dataset_file f);

struct sl_dataset_found sl_dataset_describe_npy(const struct sl_dataset *ds, const char *file,
                                                const struct sl_npy *npy);

// Private memory for a copy of file f, freed with the data set. SL_ENOMEM.
int sl_dataset_own(struct sl_dataset *ds, enum sl_dataset_file f, size_t elem_bytes, void **out);
// Fills it from an integer file, as 32-bit or 64-bit integers; truncates what does not fit.
void sl_dataset_convert(struct sl_dataset *ds, enum sl_dataset_file f, size_t elem_bytes,
                        int threads);

#endif
