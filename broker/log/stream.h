/*
 * stream.h - what one process writes on its standard error: split into lines, kept.
 *
 * Until the run directory exists, lines are held in memory (bounded: the newest are kept); from
 * then on they go to a file. The last lines stay at hand to explain a death.
 */
#ifndef SL_BROKER_LOG_STREAM_H
#define SL_BROKER_LOG_STREAM_H

#include <stddef.h>

#include "broker/log/writer.h"
#include "common/base/log.h"

enum {
    SL_STREAM_LINE_BYTES = 2560,
    SL_STREAM_LAST_LINES = 8,
    SL_STREAM_HELD_BYTES = 64 << 10,
    SL_STREAM_STAMP_BYTES = 15, // of a line's "12:34:56.789 W "
};

// The level of a line as common/base/log.c writes it, "12:34:56.789 W sampler 0: text"; -1: it is
// none.
int sl_stream_level(const char *line, size_t n);

// A complete line, without its newline and without the time that sl_log_write() put there. `level`
// is -1 for a line of another origin (a sanitizer's, an assertion's).
typedef void (*sl_stream_line_fn)(void *ctx, int level, const char *text);

struct sl_stream {
    char name[32];               // "sampler-0": the log file's name without ".log"
    struct sl_writer_file *file; // NULL until sl_stream_open()
    char *held;                  // lines from before the file (owned)
    size_t held_bytes;
    size_t held_dropped;
    char line[SL_STREAM_LINE_BYTES]; // not complete yet
    size_t line_bytes;
    char last[SL_STREAM_LAST_LINES][256]; // ring
    size_t n_last;
    sl_stream_line_fn on_line; // NULL for none
    void *ctx;
};

void sl_stream_init(struct sl_stream *s, const char *name, sl_stream_line_fn on_line, void *ctx);
void sl_stream_fini(struct sl_stream *s); // safe on a zeroed struct

// Appends <directory>/<name>.log from now on, through the writer; what was held goes first.
int sl_stream_open(struct sl_stream *s, struct sl_writer *w, const char *directory);

void sl_stream_feed(struct sl_stream *s, const char *bytes, size_t n);

// Reads a non-blocking descriptor dry. 0 = nothing more for now, 1 = the writers have gone.
int sl_stream_drain(struct sl_stream *s, int fd);

// An unfinished line counts as one: its writer has died.
void sl_stream_flush(struct sl_stream *s);

// The last lines since the stream began or was cleared, joined by " | ". Returns buf.
char *sl_stream_last(const struct sl_stream *s, char *buf, size_t bytes);
void sl_stream_clear_last(struct sl_stream *s);

#endif
