/*
 * rundir.h - the run directory: config.json, report.json, metrics.jsonl, log/, checkpoints/,
 * model.safetensors.
 *
 * It is looked at before a job starts and created only once the job runs, so that a job that can
 * not run leaves nothing behind. The results of an earlier run are never written over: a job goes
 * on from its last checkpoint, and begins anew only where a run was killed before it left anything
 * (neither a checkpoint nor a report).
 *
 * While a job runs its broker holds a lock (flock) on the directory itself, which ends with the
 * process however it dies. So of two jobs one gets the directory, and one that is still ending is
 * waited for.
 */
#ifndef SL_BROKER_RUNDIR_H
#define SL_BROKER_RUNDIR_H

#include <stddef.h>
#include <stdio.h>

struct sl_rundir {
    char path[4096]; // "" until created
    char log[4120];  // path/log
    FILE *metrics;   // path/metrics.jsonl
    int lock;        // descriptor of the locked directory, valid while metrics is not NULL
};

// What a directory that a job wants is.
enum sl_rundir_content {
    SL_RUNDIR_NEW,         // not there, or empty
    SL_RUNDIR_BEGUN,       // of a run that was killed before it left a checkpoint or a report
    SL_RUNDIR_CHECKPOINTS, // of a run that has left checkpoints
};

/*
 * Says whether `path` could be created and written, without changing anything: it must not exist,
 * or be an empty directory. SL_EEXIST for one with an earlier run or anything else in it,
 * SL_EACCESS, SL_EINVAL.
 */
int sl_rundir_check(const char *path);

/*
 * The same for a job that may go on: says what is there. Waits a few seconds for a run that is
 * ending. SL_EEXIST for one that is under way, a report without checkpoints, or other files.
 */
int sl_rundir_examine(const char *path, enum sl_rundir_content *content);

// The same for a single file that will be written: its directory must exist and be writable.
int sl_rundir_check_file(const char *path, const char *what);

// Creates the directory (and its parents), log/, config.json with the given text, metrics.jsonl, or
// begins anew in one that is SL_RUNDIR_BEGUN. On an error what was created is removed again.
int sl_rundir_create(struct sl_rundir *dir, const char *path, const char *config_json);

// For a job that goes on: config.json is replaced, metrics.jsonl becomes `metrics` (the lines of
// the epochs that are complete), everything else stays.
int sl_rundir_reopen(struct sl_rundir *dir, const char *path, const char *config_json,
                     const char *metrics);

// Appends one line to metrics.jsonl. Adds the newline.
int sl_rundir_add_metrics(struct sl_rundir *dir, const char *json);

// Full name of a file in the directory. Returns buf.
char *sl_rundir_file(const struct sl_rundir *dir, const char *name, char *buf, size_t bytes);

void sl_rundir_close(struct sl_rundir *dir); // safe on a zeroed struct

#endif
