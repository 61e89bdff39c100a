/*
 * rundir.h - the run directory: config.json, report.json, metrics.jsonl, events.jsonl, log/,
 * checkpoints/, tensorboard/, model.safetensors.
 *
 * It is looked at before a job starts and created only once the job runs, so that a job that cannot
 * run leaves nothing behind. The results of an earlier run are never written over: a job goes
 * on from its last checkpoint, and begins anew only where a run was killed before it left anything
 * (neither a checkpoint nor a report).
 *
 * While a job runs its broker holds a lock (flock) on the directory itself, which ends with the
 * process however it dies. So of two jobs one gets the directory. A second lock, on events.jsonl,
 * ends when the job begins to end: a job that runs is refused at once, one that is ending is waited
 * for.
 */
#ifndef SL_BROKER_RUNDIR_RUNDIR_H
#define SL_BROKER_RUNDIR_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sl_rundir {
    char path[4096]; // "" until created
    char log[4120];  // path/log
    bool open;
    int lock;             // descriptor of the directory, locked
    int working;          // of events.jsonl, locked until the job begins to end
    uint32_t n_abandoned; // checkpoints that reopening set aside
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

// The same whatever it holds: there, or could be made in the nearest directory above that is.
int sl_rundir_check_place(const char *path);

// A file without a name in `path`, or in the nearest directory above that is there: its disk is
// where the run will be. Its descriptor, close-on-exec; SL_EACCESS, SL_EIO.
int sl_rundir_nameless(const char *path);

// Who uses a directory.
struct sl_rundir_user {
    bool ending;    // it is no longer under way
    pid_t pid;      // 0: not known
    char who[224];  // "job 3 'x' (process 12)", "process 12"
    char word[128]; // what `sluice stop` calls it; "" for none
};

// Is told once whose end is waited for, when that takes longer than a look of another job's.
typedef void (*sl_rundir_waits)(const char *path, const struct sl_rundir_user *user);

// How long a job that runs is given to begin to end: what was told to a moment ago may not have
// heard it yet. For a test that cannot be sure to be quicker.
extern int sl_rundir_grace_ms;

/*
 * The same for a job that may go on: says what is there. Waits up to half a minute for a run that
 * is ending, and tells `waits` (NULL: nobody). SL_EEXIST for one that is under way, at once and
 * with its name; for a report without checkpoints, or other files.
 */
int sl_rundir_examine(const char *path, sl_rundir_waits waits, enum sl_rundir_content *content);

// The same without a look at who uses the directory: at once.
int sl_rundir_look(const char *path, enum sl_rundir_content *content);

// Whether a single file could be written: its directory must exist and be writable.
int sl_rundir_check_file(const char *path, const char *what);

// Whether the last run in the directory has left its report.
bool sl_rundir_is_reported(const char *path);

// Creates the directory (and its parents), log/, config.json with the given text, metrics.jsonl and
// events.jsonl without a line, or begins anew in one that is SL_RUNDIR_BEGUN. On an error what was
// created is removed again.
int sl_rundir_create(struct sl_rundir *dir, const char *path, const char *config_json);

// For a job that goes on: config.json is replaced, metrics.jsonl becomes `metrics` (the lines of
// the epochs that are complete), events.jsonl goes on, checkpoints that are newer than the one that
// it goes on from are set aside (checkpoint.h), and so is report.json, which is of an earlier part
// of the run, as report.before.json; everything else stays.
int sl_rundir_reopen(struct sl_rundir *dir, const char *path, const char *config_json,
                     const char *metrics, const char *checkpoint);

// Makes a directory, and those above it that are missing. SL_EACCESS, SL_EIO.
int sl_rundir_make_folder(const char *path);

// Full name of a file in the directory. Returns buf.
char *sl_rundir_file(const struct sl_rundir *dir, const char *name, char *buf, size_t bytes);

// The job begins to end: another job that needs the directory waits for that.
void sl_rundir_end(const struct sl_rundir *dir);

void sl_rundir_close(struct sl_rundir *dir); // safe on a zeroed struct

#endif
