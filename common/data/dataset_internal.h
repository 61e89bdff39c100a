// dataset_internal.h - the steps of opening a data set: metadata, labels, validation, record.
#ifndef SL_DATA_DATASET_INTERNAL_H
#define SL_DATA_DATASET_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/data/dataset_files.h"

// ---- dataset_metadata.c -------------------------------------------------------------------------

struct sl_dataset_metadata {
    bool has_task; // the file names a task, be it "none"
    uint64_t feat_dim;
    char *text; // the file as it is, for the digest (owned)
    size_t n_text;
};

// Reads metadata.json of ds->path into ds (name, n_nodes, n_edges, n_classes, task) and *out.
// known: SL_ECHANGED where it is not what it was; NULL: whatever it is.
struct sl_dataset_known;
int sl_dataset_metadata_read(struct sl_dataset *ds, const struct sl_dataset_known *known,
                             struct sl_dataset_metadata *out);
void sl_dataset_metadata_fini(struct sl_dataset_metadata *m);

struct cJSON;
// A key of it that is a whole number from 0 to `most`; missing is 0 unless required. Of
// "types.count" the last word is the key, the others are for messages.
int sl_dataset_metadata_count(const struct cJSON *json, const char *path, const char *key,
                              bool required, uint64_t most, uint64_t *out);

// ---- dataset_open.c -----------------------------------------------------------------------------

// The canonical name of a directory, as ds->path, and ds->files (sl_dataset_close()).
int sl_dataset_begin(struct sl_dataset *ds, const char *path);

static inline bool sl_dataset_is_id_type(enum sl_dtype t)
{
    return t == SL_DTYPE_I32 || t == SL_DTYPE_I64 || t == SL_DTYPE_U32 || t == SL_DTYPE_U64;
}

// Ids of a file, if there is one. Those of 32 bits are used where they lie: every process of a job
// maps the same, and none copies. SL_ENOMEM.
int sl_dataset_take_ids(struct sl_dataset *ds, enum sl_dataset_file f, int threads,
                        const uint32_t **out);
// The same of numbers in types, which become ids: elements 0, 2, ... are of the type whose vertices
// begin at `even`, the others of that at `odd`.
int sl_dataset_take_numbers(struct sl_dataset *ds, enum sl_dataset_file f, int threads,
                            uint64_t even, uint64_t odd, const uint32_t **out);

// ---- dataset_labels.c ---------------------------------------------------------------------------

// Type and shape of node_label.npy; sets ds->task, and for targets n_classes, target and its type.
int sl_dataset_check_labels(struct sl_dataset *ds, const struct sl_dataset_metadata *m);
int sl_dataset_validate_labels(const struct sl_dataset *ds, int threads);
// Sets ds->label where there is one class number a vertex.
int sl_dataset_take_labels(struct sl_dataset *ds, int threads);
// Whether vertex v has a label.
bool sl_dataset_is_labelled(const struct sl_dataset *ds, uint64_t v);

// ---- dataset_pairs.c ----------------------------------------------------------------------------

// Types and shapes of what models of links learn and are judged by: pairs, weights, negatives.
int sl_dataset_check_pairs(const struct sl_dataset *ds);
int sl_dataset_validate_pairs(const struct sl_dataset *ds, int threads);
// Sets ds->edges and ds->negatives.
int sl_dataset_take_pairs(struct sl_dataset *ds, int threads);

// ---- dataset_times.c ----------------------------------------------------------------------------

// Whether there are files of edges' times, whatever is in them.
bool sl_dataset_has_times(const struct sl_dataset *ds);
// Types and shapes of edge_time.npy and node_time.npy, where the caller needs times.
int sl_dataset_check_times(const struct sl_dataset *ds, unsigned need);
// Whether the times of edges rise in each list (ds->times_rise). Offsets are valid.
void sl_dataset_validate_times(struct sl_dataset *ds, int threads);
// Sets ds->edge_time and node_time, and the times of relations, where they are needed. SL_EFORMAT:
// times do not rise.
int sl_dataset_take_times(struct sl_dataset *ds, unsigned need, int threads);

// ---- dataset_shard.c ----------------------------------------------------------------------------

// SL_EINVAL for a directory of shards, and for a shard where SL_TAKES_SHARD is not needed.
int sl_dataset_refuse_shard(const struct sl_dataset *ds, unsigned need);
// Types and shapes of node_part.npy and node_row.npy; sets ds->shard.part and row.
int sl_dataset_check_shard(struct sl_dataset *ds);
// Whether these two agree with one another and with metadata.json. O(V), by one thread.
int sl_dataset_validate_shard(const struct sl_dataset *ds);

// ---- dataset_typed.c ----------------------------------------------------------------------------

// "types", "relations" and "label_type" of metadata.json, at `path`, into ds->typed. ds->n_nodes
// and n_edges are set.
int sl_dataset_read_types(const struct cJSON *json, const char *path, struct sl_dataset *ds);
// Types and shapes of features; sets those of each type.
int sl_dataset_check_types(struct sl_dataset *ds);
// Where the offsets of one relation end and those of the next begin. Offsets are valid.
int sl_dataset_validate_bounds(const struct sl_dataset *ds);
// " (relation author -writes-> paper, paper 5)", or nothing of a plain graph, where it is clear.
struct sl_row_text {
    char text[5 * SL_TYPE_NAME_BYTES + 64];
};
struct sl_row_text sl_dataset_row_text(const struct sl_dataset *ds, uint64_t row);
void sl_dataset_close_types(struct sl_dataset *ds);

// ---- dataset_described.c ------------------------------------------------------------------------

// "described" of metadata.json, if it has that; all else of it has been read.
int sl_dataset_read_described(const struct cJSON *json, const char *path,
                              const struct sl_dataset_metadata *m, struct sl_dataset *ds);
// SL_EUNSUPPORTED for a data set that is described alone where SL_TAKES_DESCRIBED is not needed.
// SL_EFORMAT where what is needed is not described. Features of edges that are not needed go.
int sl_dataset_take_described(struct sl_dataset *ds, unsigned need);

// ---- dataset_validate.c -------------------------------------------------------------------------

/*
 * Reads an opened data set whose shapes agree, each byte once, but of features as many as
 * sl_dataset_feat_plan() says; sets ds->max_degree, loop_free, lists_rise and feat_checked.
 * ds->indptr, indices, edge_weight and feat are set; labels and index lists are read from their
 * files. watch may be NULL.
 */
int sl_dataset_validate(struct sl_dataset *ds, bool full, int threads,
                        const struct sl_dataset_watch *watch);

// Features of more bytes than `above` are checked in a sample of `sample` bytes. Tests lower them.
struct sl_dataset_sampling {
    uint64_t above, sample;
};
extern struct sl_dataset_sampling sl_dataset_sampling;

// Bytes of features that a validation looks at.
uint64_t sl_dataset_feat_plan(const struct sl_dataset *ds, bool full);

// The part of it that sets ds->max_degree.
int sl_dataset_validate_offsets(struct sl_dataset *ds, int threads);

// ---- dataset_record.c ---------------------------------------------------------------------------

// The digest of an opened data set.
uint64_t sl_dataset_digest(const struct sl_dataset *ds, const struct sl_dataset_metadata *m);

// The results of a validation, as in struct sl_dataset.
struct sl_dataset_facts {
    uint64_t max_degree, loop_free, lists_rise, times_rise, feat_checked;
    uint64_t weightless_edges, weightless_vertices;
};

// A record, read: the files as they were, and what was found in them.
struct sl_dataset_known {
    uint64_t digest, metadata; // of it all; of the text of metadata.json
    struct sl_dataset_facts facts;
    struct sl_dataset_known_files files;
    struct cJSON *json; // that has the names (owned)
};

int sl_dataset_known_read(const char *record, struct sl_dataset_known *out); // SL_EFORMAT
void sl_dataset_known_fini(struct sl_dataset_known *known); // safe on a zeroed struct

// Once the files are mapped and found to be the known ones: takes over what was found in them.
// SL_ECHANGED where their contents have changed.
int sl_dataset_known_take(const struct sl_dataset_known *known, struct sl_dataset *ds);

// Whether a record says that exactly these files have passed; then takes over what was found.
bool sl_dataset_record_load(struct sl_dataset *ds);

// Remembers that they have passed. Failures are only logged: the next open checks again.
void sl_dataset_record_save(const struct sl_dataset *ds);

#endif
