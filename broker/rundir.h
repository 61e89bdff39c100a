/*
 * rundir.h - the run directory: config.json, report.json, metrics.jsonl, log/, model.safetensors.
 *
 * It is looked at before a job starts and created only once the job runs, so that a job that can
 * not run leaves nothing behind. The results of an earlier run are never written over.
 */
#ifndef SL_BROKER_RUNDIR_H
#define SL_BROKER_RUNDIR_H

#include <stddef.h>
#include <stdio.h>

struct sl_rundir {
    char path[4096]; // "" until created
    char log[4120];  // path/log
    FILE *metrics;   // path/metrics.jsonl
};

/*
 * Says whether `path` could be created and written, without changing anything: it must not exist,
 * or be an empty directory. SL_EEXIST for one with an earlier run or anything else in it,
 * SL_EACCESS, SL_EINVAL.
 */
int sl_rundir_check(const char *path);

// The same for a single file that will be written: its directory must exist and be writable.
int sl_rundir_check_file(const char *path, const char *what);

// Creates the directory (and its parents), log/, config.json with the given text, metrics.jsonl.
// On an error what was created is removed again.
int sl_rundir_create(struct sl_rundir *dir, const char *path, const char *config_json);

// Appends one line to metrics.jsonl. Adds the newline.
int sl_rundir_add_metrics(struct sl_rundir *dir, const char *json);

// Full name of a file in the directory. Returns buf.
char *sl_rundir_file(const struct sl_rundir *dir, const char *name, char *buf, size_t bytes);

void sl_rundir_close(struct sl_rundir *dir); // safe on a zeroed struct

#endif
