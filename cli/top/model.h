/*
 * model.h - what a view shows of a job: its newest statistics, their history, its events, the list
 * of jobs, and where the user is.
 *
 * Lines and answers come in (sl_top_on_...), keys come in (sl_top_key), the view draws what has
 * come of it. Nothing here reads a clock, a terminal or a socket: the caller sets now_ns, and does
 * what a key asks for. So a whole afternoon at the keyboard is a unit test.
 *
 * A CHANGE OF THE SPLIT takes two keys. The first (+ - t T) opens a question about a new split and
 * asks the job what it would do (a dry run), whose answer is shown when it comes; further ones move
 * on from there; y sends it, n and Esc do not. Then the job's own words are shown until it holds.
 *
 * Memory is bounded: SL_HISTORY_LINES samples, SL_TOP_PAST lines and SL_TOP_EVENTS events, the
 * oldest go.
 */
#ifndef SL_CLI_TOP_MODEL_H
#define SL_CLI_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/top/stats.h"
#include "common/schema/history.h"

enum sl_top_view {
    SL_TOP_OVERVIEW,
    SL_TOP_WORKERS,
    SL_TOP_STAGES_VIEW,
    SL_TOP_EVENTS_VIEW,
    SL_TOP_JOBS_VIEW,
    SL_TOP_VIEWS
};

enum {
    SL_TOP_EVENTS = 256,
    SL_TOP_PAST = 3,     // lines before the newest one, a second apart, that rates of links are of
    SL_TOP_NOTICE_S = 8, // how long a message stays in the footer
    SL_TOP_OLD_S = 4,    // statistics that are older than this are marked
};

struct sl_top_question { // a change of the split that the user is asked about
    bool open, answered;
    uint32_t samplers, trainers;
    char answer[SL_TOP_SENTENCE];
};

struct sl_top_model {
    uint64_t now_ns;      // of the caller's monotonic clock
    char name[4096];      // of the job, "" = none is open
    char id[SL_TOP_WORD]; // "" = `sluice run`
    char state[SL_TOP_WORD];
    char said[SL_TOP_SENTENCE]; // why it waits, or how it ended
    bool over;

    bool have_stats;
    uint64_t stats_at_ns;
    struct sl_stats stats;
    struct sl_stats past[SL_TOP_PAST]; // (n_past), the oldest first
    size_t n_past;
    struct sl_stats_history history;
    struct sl_top_event events[SL_TOP_EVENTS]; // ring
    size_t first_event, n_events;
    struct sl_top_jobs jobs;
    bool have_jobs;

    enum sl_top_view view;
    bool help;
    bool types;   // rows by type and edges by relation, in the place of the view
    int selected; // in the list of jobs: the one that is shown until the user chooses
    bool chosen;
    int scroll; // rows, in views that are longer than the screen
    struct sl_top_question question;
    bool scaling;
    char scale_step[SL_TOP_SENTENCE]; // what the change that is under way waits for
    char notice[SL_TOP_SENTENCE];
    bool notice_bad;
    uint64_t notice_until_ns;
};

void sl_top_init(struct sl_top_model *m);
void sl_top_fini(struct sl_top_model *m); // safe on a zeroed struct

// Another job is shown: what was known of the last one goes. NULL: none.
void sl_top_open(struct sl_top_model *m, const char *name, const char *id, const char *state);

// Lines that are not of a known schema are left out (SL_EFORMAT).
int sl_top_on_stats(struct sl_top_model *m, const char *json);
int sl_top_on_event(struct sl_top_model *m, const char *json);
int sl_top_on_describe(struct sl_top_model *m, const char *json);
int sl_top_on_jobs(struct sl_top_model *m, const char *json);
int sl_top_on_job_state(struct sl_top_model *m, const char *json);
void sl_top_on_scale_step(struct sl_top_model *m, const char *text);
void sl_top_on_scale_done(struct sl_top_model *m, bool ok, const char *message, const char *json);
void sl_top_on_finished(struct sl_top_model *m, int exit_status, const char *message);

void sl_top_notice(struct sl_top_model *m, bool bad, const char *text);

// The i-th newest event; NULL when there are not so many.
const struct sl_top_event *sl_top_event_at(const struct sl_top_model *m, size_t i);

// Bytes a second over a link of the newest statistics, in the last seconds. NaN: not known yet.
double sl_top_link_rate(const struct sl_top_model *m, const struct sl_stats_link *link);
// ... of any total, by what it was in the oldest line that is kept.
double sl_top_rate(const struct sl_top_model *m, double before, double now);

// --- keys ----------------------------------------------------------------------------------------

enum sl_top_key { // what is no character
    SL_KEY_ESCAPE = 27,
    SL_KEY_ENTER = 10,
    SL_KEY_TAB = 9,
    SL_KEY_UP = 0x110000,
    SL_KEY_DOWN,
    SL_KEY_LEFT,
    SL_KEY_RIGHT,
    SL_KEY_PAGE_UP,
    SL_KEY_PAGE_DOWN,
    SL_KEY_BACK_TAB,
    SL_KEY_OTHER, // one that means nothing here
};

enum sl_top_what {
    SL_TOP_NOTHING,
    SL_TOP_QUIT,
    SL_TOP_SCALE,
    SL_TOP_PAUSE,
    SL_TOP_RESUME,
    SL_TOP_OPEN, // the job of that name
};

struct sl_top_action {
    enum sl_top_what what;
    uint32_t samplers, trainers; // SL_TOP_SCALE
    bool dry_run;
    const char *job; // SL_TOP_OPEN: borrowed, until the list changes
};

struct sl_top_action sl_top_key(struct sl_top_model *m, int key);

#endif
