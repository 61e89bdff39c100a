/*
 * job_stats.h - what is known of each job: its newest statistics, and the last quarter of an hour.
 *
 * A job is known from its first line of sluice.stats/1. The history keeps, of each line, the few
 * numbers that the page draws over time. States are kept apart from that: a job that waits in the
 * queue, or ended before this server began, has no line and has a state. Not safe for threads: the
 * owner's lock guards all of it.
 */
#ifndef SL_BROKER_HTTP_JOB_STATS_H
#define SL_BROKER_HTTP_JOB_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/schema/history.h"

enum {
    SL_JOB_STATS_JOBS_MAX = 256,
    SL_JOB_STATS_KEY_BYTES = 64,
    SL_JOB_STATS_FRESH_S = 300, // how long after its last line a job is still told to Prometheus
    SL_JOB_STATS_STATES_MAX = 1280, // more than a daemon lists
    SL_JOB_STATS_STATE_BYTES = 16,
};

struct sl_job_stats_job {
    char key[SL_JOB_STATS_KEY_BYTES]; // the daemon's number; "0" of a job that has none
    char *name;                       // owned
    char *line;                       // owned; the newest line
    cJSON *stats;                     // owned; the same
    uint64_t at_ns;                   // when it came
    bool over;                        // it has ended
    struct sl_stats_history *history; // owned
};

// The state of a job as the daemon's list has it, whether there are statistics of it or not.
struct sl_job_stats_state {
    char key[SL_JOB_STATS_KEY_BYTES];
    char *name; // owned
    char state[SL_JOB_STATS_STATE_BYTES];
};

struct sl_job_stats {
    struct sl_job_stats_job *jobs; // (n_jobs), in the order in which they came
    uint32_t n_jobs;
    struct sl_job_stats_state *states; // (n_states), likewise
    uint32_t n_states;
};

void sl_job_stats_fini(struct sl_job_stats *s); // safe on a zeroed struct

// Takes one line. `key` is the envelope's job; "" = the line's own id, or "0": the line's state is
// then the job's, while a daemon's word on it goes before the line's. NULL when it is no
// sluice.stats/1 or memory is out; else the job, valid until the next call.
struct sl_job_stats_job *sl_job_stats_on_line(struct sl_job_stats *s, const char *key,
                                              const char *line, uint64_t now_ns);
void sl_job_stats_end(struct sl_job_stats *s, const char *key);

// What a job's state is from now on. An unknown state is kept as it is.
void sl_job_stats_set_state(struct sl_job_stats *s, const char *key, const char *name,
                            const char *state);
// Takes an entry of sluice.jobs/1, or (`take_list`) all of a list, after which other jobs have no
// state. What is neither changes nothing.
void sl_job_stats_on_entry(struct sl_job_stats *s, const char *json);
void sl_job_stats_on_list(struct sl_job_stats *s, const char *json);
// "" for a job that nothing was heard of.
const char *sl_job_stats_state(const struct sl_job_stats *s, const char *key);

// By key, else the newest of that name; NULL.
struct sl_job_stats_job *sl_job_stats_find(const struct sl_job_stats *s, const char *job);

#endif
