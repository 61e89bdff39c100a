/*
 * stats.h - the JSON lines that a view shows, taken apart: sluice.stats/1, sluice.event/1 and
 * sluice.jobs/1. broker/README.md says where they are explained.
 *
 * A line comes from another process, perhaps of another version: what is missing, null or of the
 * wrong type is NaN or "", and what is not known here is left alone.
 */
#ifndef SL_CLI_TOP_STATS_H
#define SL_CLI_TOP_STATS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/schema/stats.h"

enum {
    SL_TOP_NAME = 128,
    SL_TOP_WORD = 32,
    SL_TOP_SENTENCE = 512,
};

// *out is replaced as a whole, or left as it was; workers by role and number, what they have in
// hand without the epoch. SL_EFORMAT: not a line of this schema; SL_ENOMEM.
int sl_top_stats_parse(const char *json, struct sl_stats *out);

struct sl_top_event {
    double time, seconds;
    bool ok;
    char kind[SL_TOP_WORD], text[SL_TOP_SENTENCE];
};

int sl_top_event_parse(const char *json, struct sl_top_event *out);

struct sl_top_job {
    char id[SL_TOP_WORD], name[SL_TOP_NAME], state[SL_TOP_WORD], why[SL_TOP_SENTENCE];
    char message[SL_TOP_SENTENCE], output[4096], cores[SL_TOP_WORD];
    double epoch, epochs, progress, samplers, trainers, seconds_left;
};

struct sl_top_jobs {
    struct sl_top_job *jobs; // owned
    size_t n;
    bool daemon;
    double daemon_pid;
    char version[SL_TOP_WORD], cores[SL_TOP_WORD], free_cores[SL_TOP_WORD], page[SL_TOP_NAME];
};

// The list (sluice.jobs/1). As sl_top_stats_parse().
int sl_top_jobs_parse(const char *json, struct sl_top_jobs *out);
// One entry of the list, as the daemon tells of a change: it replaces the one of its id, or is new.
int sl_top_jobs_update(struct sl_top_jobs *jobs, const char *json);
void sl_top_jobs_fini(struct sl_top_jobs *jobs);

/*
 * A job's history (sluice.describe/1): calls `on_event` for each event in order, and *stats gets
 * the newest statistics as text (owned: free()), or NULL.
 */
int sl_top_describe_parse(const char *json, void (*on_event)(void *arg, const char *line),
                          void *arg, char **stats);

struct sl_top_scale {
    bool dry_run;
    double samplers, trainers, now, then;
    char steps[SL_TOP_SENTENCE]; // joined by "; "
};

// The answer to a change of the split (sluice.scale/1).
int sl_top_scale_parse(const char *json, struct sl_top_scale *out);

#endif
