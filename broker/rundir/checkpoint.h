/*
 * checkpoint.h - checkpoints on the disk: written whole or not at all, believed only when checked.
 *
 *     RUN/checkpoints/000000001200/       after update 1200
 *         model.safetensors               parameters, as in RUN/model.safetensors
 *         optimizer.safetensors           "exp_avg.<parameter>", "exp_avg_sq.<parameter>" or
 *                                         "momentum_buffer.<parameter>"
 *         best.safetensors                the best parameters so far, if there are any
 *         pinned.safetensors              those of an epoch that was being evaluated beside the
 *                                         training of the next one, of which batches are in
 *                                         the parameters
 *         embedding.*.npy                 learned rows (row_files.h)
 *         batches.bin                     a struct sl_cell_record for each batch of the unfinished
 *                                         epoch that is in the parameters, little endian; then
 *                                         those of the next one
 *         state.json                      schema sluice.checkpoint/1: where the job is, the job,
 *                                         its report so far, size and SHA-256 of the files, and
 *                                         of itself
 *
 * WRITING. Everything goes to a hidden directory beside it (".000000001200.<pid>.tmp"), every file
 * is synced, the directory is renamed, and its parent is synced: a name of digits is a whole
 * checkpoint. One of the same version takes the place of the older one by an exchange of the two
 * names. Of those before it `keep` - 1 stay, older ones are removed afterwards: hidden first, so
 * that a half removed one is none. A crash leaves hidden directories, which the next run clears.
 *
 * GOING BACK. A run that goes on from an older one (--checkpoint) leaves the newer ones behind: as
 * soon as it has the directory they are "000000001200.abandoned", which is no checkpoint, so the
 * next run goes on from the older one or from what came of it. They are removed with the first
 * checkpoint that is written then; until then they may be given their names back.
 *
 * READING. A checkpoint may come from anywhere: a disk that was full, another machine, an editor.
 * Sizes and sums of all files are checked before anything in them is used, and whether the counters
 * agree with one another (checkpoint_check.c): a sum says that nothing was changed, not that it was
 * right.
 */
#ifndef SL_BROKER_RUNDIR_CHECKPOINT_H
#define SL_BROKER_RUNDIR_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "broker/rundir/params.h"
#include "broker/rundir/snapshot.h"

#define SL_CHECKPOINT_SCHEMA "sluice.checkpoint/1"

#define SL_CHECKPOINT_ABANDONED ".abandoned"

enum { SL_CHECKPOINT_NAME_BYTES = 32 };

// --- writing ---

// What is written besides the snapshot. Strings are borrowed.
struct sl_checkpoint_content {
    const struct sl_snapshot *snapshot;
    const struct sl_params *params;
    const char *job;
    const char *status;      // "running", "done", "stopped", "failed"
    const char *config_json; // resolved
    uint32_t epochs;
    uint64_t dataset_digest;
    const char *history_json;    // the report so far (history.h)
    uint32_t samplers, trainers; // the split that was asked for; 0 = none was
    double seconds;              // that the job has taken so far, all its runs together
};

// Writes RUN/checkpoints/<version> and removes old ones. On any thread. SL_EIO and so on: nothing
// of it is left, and what was there is untouched.
int sl_checkpoint_write(const char *run, const struct sl_checkpoint_content *c, uint32_t keep);

// Removes what a crash has left half written or half removed.
void sl_checkpoint_clear_leftovers(const char *run);

// Sets those aside that are newer than `name`; how many. SL_EIO, SL_EACCESS, SL_ENOMEM.
int sl_checkpoint_abandon_newer(const char *run, const char *name, uint32_t *n);

// --- reading ---

struct sl_checkpoint_list {
    uint32_t n;
    char (*names)[SL_CHECKPOINT_NAME_BYTES]; // newest first (owned)
};
// Those of a run directory; none where it has none. SL_EACCESS, SL_ENOMEM.
int sl_checkpoint_list(const char *run, struct sl_checkpoint_list *out);
void sl_checkpoint_list_fini(struct sl_checkpoint_list *list); // safe on a zeroed struct

// One that has been checked.
struct sl_checkpoint {
    char path[4200];
    char name[SL_CHECKPOINT_NAME_BYTES];
    cJSON *state; // state.json (owned)
    char status[16];
    uint64_t version;
    uint32_t epoch, epochs;         // position; of the job that wrote it
    uint32_t n_batches, n_records;  // beyond n_batches: of the next epoch
    struct sl_cell_record *records; // (n_records) (owned)
    uint64_t dataset_digest;
    struct sl_early_stopping best;
    bool has_digest;
    uint8_t digest[SL_PHASES_DIGEST_BYTES];
    uint32_t samplers, trainers; // 0 = nobody has asked for a split
    double seconds;
};

// SL_ENOENT, SL_EFORMAT (damaged or of another kind) with the file, what was found and wanted.
int sl_checkpoint_open(const char *run, const char *name, struct sl_checkpoint *out);
void sl_checkpoint_close(struct sl_checkpoint *c); // safe on a zeroed struct

// Whether what state.json counts agrees with itself, as every checkpoint does that was written by a
// job. SL_EFORMAT names file, keys, found and wanted. Part of opening one.
int sl_checkpoint_check_counters(const struct sl_checkpoint *c);
// Whether each batch is an update, applied as it comes: then any of an epoch may be the first.
bool sl_checkpoint_is_async(const struct sl_checkpoint *c);

// Its parameters, optimizer arrays (n_state), best and pinned parameters (if it has them), each n
// floats.
int sl_checkpoint_load(const struct sl_checkpoint *c, const struct sl_params *params, float *values,
                       float *const *state, uint32_t n_state, float *best, float *pinned);

// Its learned rows, into a table of the job's shape; best values are the last ones where it has
// none. SL_EFORMAT where it has no rows, or others. Ends early once *cancel is set.
int sl_checkpoint_load_rows(const struct sl_checkpoint *c, struct sl_row_table *t,
                            const atomic_bool *cancel);

// Where a job goes on that begins with it. The records stay the checkpoint's.
struct sl_resume_point sl_checkpoint_resume_point(const struct sl_checkpoint *c);

#endif
