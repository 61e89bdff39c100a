/*
 * progress.h - how far a long command is.
 *
 * On a terminal: one line with a bar, a rate and the time left, redrawn at most 10 times a second.
 * Elsewhere: a plain line at most every 2 seconds. Quiet: nothing. All on standard error.
 *
 * A line says how much of how much, the rate and the time left, all of the stage; or, where
 * somebody knows better, fields that are given. On a narrow terminal fields are first said briefly,
 * then left out, the least important ones first. The width is asked for each time: terminals are
 * resized.
 *
 * One thread begins and ends stages and prints lines; any number of threads may add work while a
 * stage runs. NO_COLOR (not empty) turns colours off, TERM=dumb turns the bar off.
 */
#ifndef SL_TEXT_PROGRESS_H
#define SL_TEXT_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum sl_progress_style { SL_PROGRESS_QUIET, SL_PROGRESS_PLAIN, SL_PROGRESS_BAR };

enum { SL_PROGRESS_FIELDS_MAX = 8 };

struct sl_progress_field {
    char text[40], brief[24];
    int keep; // of two fields the one with the smaller number goes first
};

struct sl_progress {
    FILE *out; // standard error unless a test sets it
    enum sl_progress_style style;
    bool colour;
    int columns;
    uint64_t interval_ns; // between two drawings

    char what[48];  // the stage: "edges", "epoch 3/20"
    char unit[16];  // "edges", "batches"; "B" shows bytes
    struct sl_progress_field fields[SL_PROGRESS_FIELDS_MAX]; // instead of numbers
    int n_fields;
    uint64_t total; // 0 = not known
    uint64_t begin_ns;
    bool active;
    bool drawn; // a bar stands on the line

    _Atomic uint64_t done;
    _Atomic uint64_t next_ns; // when it may be drawn again
    _Atomic uint32_t drawing; // 1 while a thread draws
};

// Chooses the style: quiet when asked, a bar when standard error is a terminal, else plain lines.
void sl_progress_init(struct sl_progress *p, bool quiet);

// A stage of `total` units begins (0 = not known). Ends the one before.
void sl_progress_begin(struct sl_progress *p, const char *what, uint64_t total, const char *unit);

void sl_progress_add(struct sl_progress *p, uint64_t n);    // any thread
void sl_progress_set(struct sl_progress *p, uint64_t done); // the thread that began it

// Fields shown from the next drawing on, in this order; none are left after the first call and when
// a stage begins. brief NULL: as text. The thread that began the stage.
void sl_progress_reset_fields(struct sl_progress *p);
void sl_progress_add_field(struct sl_progress *p, int keep, const char *text, const char *brief);

// A permanent line (without newline); a bar is moved below it. Not shown when quiet.
void sl_progress_line(struct sl_progress *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

// The stage is complete: its line stays, with the whole time and the mean rate.
void sl_progress_end(struct sl_progress *p);

// The stage is over and its line is wiped: before an error or a summary. Safe at any time.
void sl_progress_clear(struct sl_progress *p);

#endif
