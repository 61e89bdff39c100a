/*
 * words.h - words that programs, files, pages and metrics have in common: what state a job is in,
 * and who is waited for.
 */
#ifndef SL_SCHEMA_WORDS_H
#define SL_SCHEMA_WORDS_H

#include <stdbool.h>

// WAITS for its turn; WORKS: has a broker; BROKEN: has none any more and may go on; OVER.
enum sl_job_state_kind {
    SL_JOB_STATE_WAITS,
    SL_JOB_STATE_WORKS,
    SL_JOB_STATE_OVER,
    SL_JOB_STATE_BROKEN,
};

// X(symbol, word, kind)
#define SL_JOB_STATES(X)                                                                           \
    X(QUEUED, "queued", WAITS)                                                                     \
    X(STARTING, "starting", WORKS)                                                                 \
    X(RUNNING, "running", WORKS)                                                                   \
    X(PAUSED, "paused", WORKS)                                                                     \
    X(FINISHING, "finishing", WORKS)                                                               \
    X(DONE, "done", OVER)                                                                          \
    X(FAILED, "failed", OVER)                                                                      \
    X(STOPPED, "stopped", OVER)                                                                    \
    X(INTERRUPTED, "interrupted", BROKEN)

extern const char *const sl_job_state_words[]; // in that order, then NULL

// Of a word; false for one that is none.
bool sl_job_state_works(const char *word);
bool sl_job_state_is_over(const char *word);   // done, failed or stopped
bool sl_job_state_has_ended(const char *word); // that, or interrupted

// X(symbol, word): whom a job waits for.
#define SL_BOTTLENECKS(X)                                                                          \
    X(NOBODY, "none")                                                                              \
    X(SAMPLERS, "samplers")                                                                        \
    X(TRAINERS, "trainers")                                                                        \
    X(MEMORY, "memory")                                                                            \
    X(UPDATES, "updates")                                                                          \
    X(DRIVE, "drive")                                                                              \
    X(NODES, "nodes")                                                                              \
    X(NETWORK, "network")

extern const char *const sl_bottleneck_words[]; // in that order, then NULL

#endif
