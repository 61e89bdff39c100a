/*
 * log_merge.h - the log files of a run as one, in the order of time.
 *
 * PROBLEM. Each process of a run has a file of its own (log/broker.log, log/sampler-0.log, ...),
 * and the daemon keeps what a broker said before there was a run directory. A line begins with the
 * time of day and no date: "12:34:56.789 W sampler 0: text".
 *
 * DESIGN. A file's newest line was written when the file was last changed; that gives it a date.
 * Going back from there, a time of day that is later than the one after it is of the day before.
 * Lines without a time (a sanitizer's, an assertion's) belong to the line before them. So each line
 * of each file has a time that never goes back within its file, and lines of equal time keep the
 * files' order.
 *
 * When a run is followed, files are looked at again now and then: what has been added is read, new
 * files (of workers that were started meanwhile) are found.
 */
#ifndef SL_CLI_LOG_MERGE_H
#define SL_CLI_LOG_MERGE_H

#include <stddef.h>
#include <stdint.h>

enum {
    SL_LOG_MERGE_FILES_MAX = 4096,
    SL_LOG_MERGE_FILE_BYTES_MAX = 32 << 20, // of a file that is longer, the newest part is read
};

struct sl_log_line {
    int64_t time_ms;    // since 1970
    const char *worker; // "sampler-0": the file's name (borrowed)
    int level;          // enum sl_log_level; -1: of another origin
    char *text;         // (owned)
    size_t at;          // among those of the look, before they were put in order
};

struct sl_log_file; // private

struct sl_log_merge {
    char directory[4200]; // <run directory>/log
    char extra[4200];     // one more file, "broker" before there was a run directory; "" = none
    char worker[64];      // only this one; "" = all
    struct sl_log_file *files;
    size_t n_files;
    struct sl_log_line *lines; // of the last look
    size_t n_lines, capacity;
    uint64_t left_out_bytes;
};

// worker: "sampler 0" or "sampler-0"; NULL = all. extra may be NULL.
void sl_log_merge_init(struct sl_log_merge *m, const char *run_directory, const char *extra,
                       const char *worker);
void sl_log_merge_fini(struct sl_log_merge *m); // safe on a zeroed struct

/*
 * What has been written since the last look, in order, in m->lines; complete lines only. SL_ENOENT
 * when there is nothing to look at (yet): no directory, or no file of that worker.
 */
int sl_log_merge_poll(struct sl_log_merge *m);

#endif
