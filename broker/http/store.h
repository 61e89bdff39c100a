/*
 * store.h - what is known of each job: its newest statistics, and the last quarter of an hour.
 *
 * A job is known from its first line of sluice.stats/1. The history keeps, of each line, the few
 * numbers that the page draws over time. States are kept apart from that: a job that waits in the
 * queue, or ended before this server began, has no line and has a state. Not safe for threads: the
 * owner's lock guards all of it.
 */
#ifndef SL_BROKER_HTTP_STORE_H
#define SL_BROKER_HTTP_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "common/schema/history.h"
#include "common/text/text.h"

enum {
    SL_STORE_HISTORY = 900, // lines; one comes a second
    SL_STORE_JOBS_MAX = 256,
    SL_STORE_KEY_BYTES = 64,
    SL_STORE_FRESH_S = 300,     // how long after its last line a job is still told to Prometheus
    SL_STORE_STATES_MAX = 1280, // more than a daemon lists
    SL_STORE_STATE_BYTES = 16,
};

enum sl_store_column {
#define SL_STORE_COLUMN(name, path) SL_STORE_COLUMN_##name,
    SL_HISTORY_COLUMNS(SL_STORE_COLUMN)
#undef SL_STORE_COLUMN
        SL_STORE_N_COLUMNS,
};

struct sl_store_job {
    char key[SL_STORE_KEY_BYTES];          // the daemon's number; "0" of a job that has none
    char *name;                            // owned
    char *line;                            // owned; the newest line
    cJSON *stats;                          // owned; the same
    uint64_t at_ns;                        // when it came
    bool over;                             // it has ended
    uint32_t n, next;                      // history: lines, place of the next one
    double (*history)[SL_STORE_N_COLUMNS]; // owned, (SL_STORE_HISTORY); NaN = not known
};

// The state of a job as the daemon's list has it, whether there are statistics of it or not.
struct sl_store_state {
    char key[SL_STORE_KEY_BYTES];
    char *name; // owned
    char state[SL_STORE_STATE_BYTES];
};

struct sl_store {
    struct sl_store_job *jobs; // (n_jobs), in the order in which they came
    uint32_t n_jobs;
    struct sl_store_state *states; // (n_states), likewise
    uint32_t n_states;
};

void sl_store_fini(struct sl_store *s); // safe on a zeroed struct

// Takes one line. `key` is the envelope's job; "" = the line's own id, or "0": the line's state is
// then the job's, while a daemon's word on it goes before the line's. NULL when it is no
// sluice.stats/1 or memory is out; else the job, valid until the next call.
struct sl_store_job *sl_store_take(struct sl_store *s, const char *key, const char *line,
                                   uint64_t now_ns);
void sl_store_end(struct sl_store *s, const char *key);

// What a job's state is from now on. An unknown state is kept as it is.
void sl_store_set_state(struct sl_store *s, const char *key, const char *name, const char *state);
// Takes an entry of sluice.jobs/1, or (`take_list`) all of a list, after which other jobs have no
// state. What is neither changes nothing.
void sl_store_take_entry(struct sl_store *s, const char *json);
void sl_store_take_list(struct sl_store *s, const char *json);
// "" for a job that nothing was heard of.
const char *sl_store_state(const struct sl_store *s, const char *key);

// By key, else the newest of that name; NULL.
struct sl_store_job *sl_store_find(const struct sl_store *s, const char *job);

// schema sluice.history/1: an array of numbers for each column, the oldest first.
void sl_store_write_history(const struct sl_store_job *job, struct sl_text *out);

#endif
