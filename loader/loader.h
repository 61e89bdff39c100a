// loader.h - what a loader is made of (include/sluice.h says what it is).
#ifndef SL_LOADER_LOADER_H
#define SL_LOADER_LOADER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/bus/worker.h"
#include "config/config.h"
#include <sluice.h>
#include "loader/lending.h"
#include "loader/own_job.h"
#include "loader/schema.h"
#include "trainer/feed/arena_access.h"
#include "trainer/feed/reading.h"

struct sluice_loader {
    pid_t pid;         // of the process that opened it
    _Atomic bool busy; // a thread is in it
    bool prefetch, arrays, early;
    int over;                          // code of why no batch comes any more; 0: they come
    char why[2048];                    // ... its words
    struct sl_own_job own;             // launch.pid 0: attached to somebody's
    char output[SL_CONFIG_PATH_BYTES]; // the job's directory; "": it has none
    int64_t broker;
    bool attached; // `worker` is to be ended
    struct sl_worker worker;
    struct sl_config config;
    struct sl_dataset dataset;
    struct sl_schema schema;
    struct sl_compute compute;
    struct sl_gather gather;
    struct sl_arena_access access; // of a GPU
    struct sl_reading extracts, fetches;
    struct sl_lending lending;
};

// Log lines are dropped from now on, in this process.
void sl_loader_be_silent(void);

// Whether a batch has the labels of its seeds: none of links, whose seeds are ends of pairs.
static inline bool sl_has_labels(const struct sl_dataset *ds)
{
    return ds->task != SL_TASK_LINK && (ds->label || ds->target);
}

// Numbers a seed's label is of; 0: it is a class.
static inline uint32_t sl_block_targets(const struct sl_dataset *ds)
{
    return ds->target ? ds->n_classes : 0;
}

// Fills what the caller's version of a structure has of *from; its size stays as it is.
int sl_hand_over(const char *call, void *to, const void *from, size_t bytes, size_t least);

// What is known of a job's batches without a run of it; the rest is 0, feat_device -1.
void sl_info_of(const struct sl_config *c, const struct sl_dataset *ds,
                const struct sl_schema *schema, struct sluice_info *out);

// What the caller is told of a block, whose memory the pointers lead to; id and first_item are 0.
void sl_batch_describe(const struct sl_block *h, bool has_labels, struct sluice_batch *b);

// SL_EUNSUPPORTED for a job whose batches have other edges in each hop.
int sl_check_one_graph(const char *call, const struct sl_config *config);

// Of callers that were compiled before the structure had more.
#define SL_ARRAYS_SIZE_LEAST offsetof(struct sluice_arrays, places)
#define SL_BATCH_SIZE_LEAST  offsetof(struct sluice_batch, n_pairs)
#define SL_INFO_SIZE_LEAST   offsetof(struct sluice_info, feat_device)
// Of batches of a graph with types: what they are is in what was appended.
#define SL_BATCH_SIZE_TYPED sizeof(struct sluice_batch)

static inline size_t sl_batch_size_least(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? SL_BATCH_SIZE_TYPED : SL_BATCH_SIZE_LEAST;
}

static inline size_t sl_arrays_size_least(const struct sl_dataset *ds)
{
    return ds->typed.n_types ? sizeof(struct sluice_arrays) : SL_ARRAYS_SIZE_LEAST;
}

struct sluice_arrays sl_arrays_public(struct sl_arrays *a, bool has_labels, void *rows);

#endif
