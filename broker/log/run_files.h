/*
 * run_files.h - the files of the run directory that a job adds to while it runs: logs,
 * metrics.jsonl, events.jsonl, TensorBoard's.
 *
 * One writer (writer.h) writes all of them, so nothing on the loop waits for a file while batches
 * are in flight. (A checkpoint has the thread pool: saving.h; the parameters and the report are
 * written when no worker is left.)
 */
#ifndef SL_BROKER_LOG_RUN_FILES_H
#define SL_BROKER_LOG_RUN_FILES_H

struct sl_joblog;
struct sl_writer_file;

// Files are NULL until the run directory is there, which takes what is added to them.
struct sl_run_files {
    const char *directory;                   // borrowed: the run directory
    struct sl_joblog *log;                   // borrowed
    struct sl_writer *writer;                // owned
    struct sl_writer_file *metrics, *events; // those of logs are their streams'
    char lost[512];                          // the first that was said to be missing; "": nothing
};

int sl_run_files_open(struct sl_run_files *f); // the run directory is there. SL_EIO, SL_EACCESS
// From time to time: says what cannot be written.
void sl_run_files_watch(struct sl_run_files *f);
// The job is over: all that was said is on the disk.
void sl_run_files_flush(struct sl_run_files *f);
void sl_run_files_close(struct sl_run_files *f); // safe on a zeroed struct

#endif
