#include "broker/log/stream.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

void sl_stream_init(struct sl_stream *s, const char *name, sl_stream_line_fn on_line, void *ctx)
{
    memset(s, 0, sizeof *s);
    snprintf(s->name, sizeof s->name, "%s", name);
    s->on_line = on_line;
    s->ctx = ctx;
}

void sl_stream_fini(struct sl_stream *s)
{
    free(s->held);
    s->file = NULL;
    s->held = NULL;
}

int sl_stream_open(struct sl_stream *s, struct sl_writer *w, const char *directory)
{
    char path[4200], name[SL_WRITER_NAME_BYTES], note[80];
    const char *folder = strrchr(directory, '/');
    snprintf(path, sizeof path, "%s/%s.log", directory, s->name);
    snprintf(name, sizeof name, "%.24s/%s.log", folder ? folder + 1 : directory, s->name);
    SL_TRY(sl_writer_open(w, path, 0, SL_WRITER_LOG, name, &s->file));
    snprintf(note, sizeof note, "(%zu bytes of earlier lines were dropped)", s->held_dropped);
    if (s->held_dropped)
        sl_writer_add_line(s->file, note);
    if (s->held_bytes)
        sl_writer_add(s->file, s->held, s->held_bytes);
    free(s->held);
    s->held = NULL;
    s->held_bytes = 0;
    return SL_OK;
}

// Keeps the newest SL_STREAM_HELD_BYTES, cut at a line's start.
static void hold(struct sl_stream *s, const char *line, size_t n)
{
    if (!s->held) {
        s->held = malloc(SL_STREAM_HELD_BYTES);
        if (!s->held)
            return;
    }
    if (s->held_bytes + n + 1 > SL_STREAM_HELD_BYTES) {
        size_t cut = s->held_bytes / 2;
        const char *newline = memchr(s->held + cut, '\n', s->held_bytes - cut);
        cut = newline ? (size_t)(newline - s->held) + 1 : s->held_bytes;
        memmove(s->held, s->held + cut, s->held_bytes - cut);
        s->held_bytes -= cut;
        s->held_dropped += cut;
    }
    memcpy(s->held + s->held_bytes, line, n);
    s->held[s->held_bytes + n] = '\n';
    s->held_bytes += n + 1;
}

int sl_stream_level(const char *line, size_t n)
{
    static const char shape[SL_STREAM_STAMP_BYTES + 1] = "00:00:00.000 L ";
    static const char tags[] = "EWID";
    for (size_t i = 0; i < SL_STREAM_STAMP_BYTES; i++) {
        char c = i < n ? line[i] : '\0';
        bool fits = shape[i] == '0'   ? c >= '0' && c <= '9'
                    : shape[i] == 'L' ? c != '\0' && strchr(tags, c) != NULL
                                      : c == shape[i];
        if (!fits)
            return -1;
    }
    return (int)(strchr(tags, line[13]) - tags);
}

static void on_line(struct sl_stream *s)
{
    s->line[s->line_bytes] = '\0';
    if (s->file)
        sl_writer_add_line(s->file, s->line);
    else
        hold(s, s->line, s->line_bytes);
    const int level = sl_stream_level(s->line, s->line_bytes);
    const char *text = s->line + (level < 0 ? 0 : SL_STREAM_STAMP_BYTES);
    if (*text) {
        char *last = s->last[s->n_last++ % SL_STREAM_LAST_LINES];
        snprintf(last, sizeof s->last[0], "%.255s", text);
    }
    s->line_bytes = 0;
    if (s->on_line)
        s->on_line(s->ctx, level, text);
}

void sl_stream_feed(struct sl_stream *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            on_line(s);
            continue;
        }
        if (s->line_bytes == SL_STREAM_LINE_BYTES - 1)
            on_line(s);
        s->line[s->line_bytes++] = bytes[i] ? bytes[i] : '?';
    }
}

void sl_stream_flush(struct sl_stream *s)
{
    if (s->line_bytes)
        on_line(s);
}

int sl_stream_drain(struct sl_stream *s, int fd)
{
    char bytes[8192];
    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n > 0) {
            sl_stream_feed(s, bytes, (size_t)n);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        return n < 0 && errno == EAGAIN ? 0 : 1;
    }
}

char *sl_stream_last(const struct sl_stream *s, char *buf, size_t bytes)
{
    size_t at = 0;
    size_t n = SL_MIN(s->n_last, (size_t)SL_STREAM_LAST_LINES);
    buf[0] = '\0';
    for (size_t i = s->n_last - n; i < s->n_last && at + 1 < bytes; i++) {
        int w = snprintf(buf + at, bytes - at, "%s%s", at ? " | " : "",
                         s->last[i % SL_STREAM_LAST_LINES]);
        at += w > 0 ? (size_t)w : 0;
    }
    return buf;
}

void sl_stream_clear_last(struct sl_stream *s)
{
    s->n_last = 0;
}
