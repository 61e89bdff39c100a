/*
 * Two blocks go round between the reading thread and the caller. The reading thread fills a block
 * behind what is left of the last line of the one before, cuts it at its last newline and hands it
 * over; the caller gives it back by asking for the next.
 *
 *   state[b]: EMPTY -> (thread fills) -> FULL -> (caller parses) -> EMPTY
 *
 * `lock` guards state, over, rc and message. An error travels with the block in which it was met:
 * the caller first gets all whole lines in front of it.
 */
#include "dataset/text_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/utf8.h"

enum { BLOCKS = 2, MESSAGE_BYTES = 1024 };

#define BLOCK_BYTES ((size_t)1 << 20)
#define LINE_BYTES  ((size_t)64 << 20)

struct block {
    char *data; // (capacity + 2)
    size_t capacity, n;
    bool full;
    bool last; // nothing comes behind it
};

struct sl_text_reader {
    char *path;
    gzFile gz;
    uint64_t size;
    _Atomic uint64_t position;

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;
    struct block blocks[BLOCKS];
    int reading; // block that the caller holds, -1 before the first
    bool begun;  // the caller has had the first block
    bool over;   // the caller has had the last block
    int rc;      // what ended the file early
    char message[MESSAGE_BYTES];
};

// ---- the reading thread -------------------------------------------------------------------------

static int gzip_error(struct sl_text_reader *r)
{
    int code;
    const char *text = gzerror(r->gz, &code);
    uint64_t at = r->position;
    if (code == Z_ERRNO)
        return sl_fail_errno(SL_EIO, errno, "read %s", r->path);
    if (code == Z_MEM_ERROR)
        return sl_fail(SL_ENOMEM, "read %s: no memory to inflate it", r->path);
    return sl_fail(SL_EFORMAT,
                   "read %s: damaged gzip near byte %" PRIu64 " of %" PRIu64
                   " (%s): get the file again ('gzip -t' checks it)",
                   r->path, at, r->size, code == Z_BUF_ERROR ? "it ends too early" : text);
}

// Reads until the block is full or the file over; *got = bytes added.
static int read_some(struct sl_text_reader *r, struct block *b, size_t *got)
{
    *got = 0;
    while (b->n < b->capacity) {
        unsigned want = (unsigned)SL_MIN(b->capacity - b->n, (size_t)1 << 18);
        int n = gzread(r->gz, b->data + b->n, want);
        z_off_t at = gzoffset(r->gz);
        if (at >= 0)
            atomic_store_explicit(&r->position, (uint64_t)at, memory_order_relaxed);
        if (n < 0)
            return gzip_error(r);
        b->n += (size_t)n;
        *got += (size_t)n;
        if ((unsigned)n < want) {
            // A truncated gzip file is a short read with an error noted beside it.
            int code;
            gzerror(r->gz, &code);
            if (code != Z_OK && code != Z_STREAM_END)
                return gzip_error(r);
            if (n == 0)
                break;
        }
    }
    return SL_OK;
}

static int grow_block(struct sl_text_reader *r, struct block *b, size_t capacity)
{
    if (capacity <= b->capacity)
        return SL_OK;
    if (capacity > LINE_BYTES)
        return sl_fail(SL_EFORMAT, "read %s: a line is longer than %zu MiB: is it a text file?",
                       r->path, LINE_BYTES >> 20);
    char *data = realloc(b->data, capacity + 2);
    if (!data)
        return sl_fail(SL_ENOMEM, "read %s: no memory for a line of %zu bytes", r->path, capacity);
    b->data = data;
    b->capacity = capacity;
    return SL_OK;
}

/*
 * Fills `b`, which begins with `n_tail` bytes of an unfinished line. On return the unfinished line
 * behind its last newline is *tail (in b), and b->last says that the file is over.
 */
static int fill_block(struct sl_text_reader *r, struct block *b, size_t *tail)
{
    size_t searched = 0;
    *tail = 0;
    for (;;) {
        size_t got;
        int rc = read_some(r, b, &got);
        char *newline = memrchr(b->data + searched, '\n', b->n - searched);
        searched = b->n;
        if (rc < 0) {
            // Lines in front of the damage are whole; the broken one is not shown.
            b->n = newline ? (size_t)(newline + 1 - b->data) : 0;
            b->last = true;
            return rc;
        }
        if (b->n < b->capacity) {
            b->last = true;
            if (b->n && b->data[b->n - 1] != '\n')
                b->data[b->n++] = '\n';
            return SL_OK;
        }
        if (newline) {
            *tail = b->n - (size_t)(newline + 1 - b->data);
            b->n -= *tail;
            return SL_OK;
        }
        rc = grow_block(r, b, b->capacity * 2);
        if (rc < 0) {
            b->n = 0;
            b->last = true;
            return rc;
        }
    }
}

static void *read_ahead(void *arg)
{
    struct sl_text_reader *r = arg;
    const char *rest = NULL; // unfinished line, in the block before
    size_t n_rest = 0;
    for (int i = 0;; i = (i + 1) % BLOCKS) {
        struct block *b = &r->blocks[i];
        pthread_mutex_lock(&r->lock);
        while (b->full && !r->stop)
            pthread_cond_wait(&r->changed, &r->lock);
        bool stop = r->stop;
        pthread_mutex_unlock(&r->lock);
        if (stop)
            return NULL;
        // The block before may be with the caller, who does not write: its end stays as it is.
        int rc = grow_block(r, b, SL_MAX(n_rest * 2, BLOCK_BYTES));
        b->n = 0;
        b->last = rc < 0;
        if (rc == SL_OK) {
            memcpy(b->data, rest ? rest : "", n_rest);
            b->n = n_rest;
            rc = fill_block(r, b, &n_rest);
            rest = b->data + b->n + 1;
            // A '\0' stands between the whole lines and the rest.
            memmove(b->data + b->n + 1, b->data + b->n, n_rest);
            b->data[b->n] = '\0';
        }
        bool last = b->last;
        pthread_mutex_lock(&r->lock);
        if (rc < 0) {
            r->rc = rc;
            snprintf(r->message, sizeof r->message, "%s", sl_error_message());
        }
        b->full = true;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
        if (last)
            return NULL;
    }
}

// ---- the caller's side --------------------------------------------------------------------------

static int open_gz(struct sl_text_reader *r)
{
    bool standard_input = strcmp(r->path, "-") == 0;
    int fd = standard_input ? dup(STDIN_FILENO) : open(r->path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        int code = errno == ENOENT ? SL_ENOENT : errno == EACCES ? SL_EACCESS : SL_EIO;
        return sl_fail_errno(code, errno, "read %s", r->path);
    }
    if (S_ISDIR(st.st_mode)) {
        close(fd);
        return sl_fail(SL_EINVAL, "read %s: it is a directory: wanted a text file, plain or gzip",
                       r->path);
    }
    r->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    r->gz = gzdopen(fd, "rb");
    if (!r->gz) {
        close(fd);
        return sl_fail(SL_ENOMEM, "read %s: no memory", r->path);
    }
    gzbuffer(r->gz, 1 << 18);
    // A name that promises gzip over something else is damage, not text.
    size_t n = strlen(r->path);
    if (r->size && n > 3 && strcmp(r->path + n - 3, ".gz") == 0 && gzdirect(r->gz))
        return sl_fail(SL_EFORMAT,
                       "read %s: damaged gzip: it does not begin with gzip's mark: get the file "
                       "again, or drop .gz from its name when it is plain text",
                       r->path);
    return SL_OK;
}

int sl_text_reader_open(const char *path, struct sl_text_reader **out)
{
    *out = NULL;
    struct sl_text_reader *r = calloc(1, sizeof *r);
    if (!r)
        return sl_fail(SL_ENOMEM, "read %s: no memory", path);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->reading = -1;
    r->path = strdup(path);
    int rc = r->path ? open_gz(r) : sl_fail(SL_ENOMEM, "read %s: no memory", path);
    if (rc == SL_OK) {
        int err = pthread_create(&r->thread, NULL, read_ahead, r);
        r->started = err == 0;
        if (err)
            rc = sl_fail_errno(SL_ESYS, err, "read %s: start a thread", path);
    }
    if (rc < 0) {
        sl_text_reader_close(r);
        return rc;
    }
    *out = r;
    return SL_OK;
}

void sl_text_reader_close(struct sl_text_reader *r)
{
    if (!r)
        return;
    if (r->started) {
        pthread_mutex_lock(&r->lock);
        r->stop = true;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
        pthread_join(r->thread, NULL);
    }
    if (r->gz)
        gzclose(r->gz);
    for (int i = 0; i < BLOCKS; i++)
        free(r->blocks[i].data);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r->path);
    free(r);
}

// The beginning of the text: its mark is no part of the first line.
static int begin_text(struct sl_text_reader *r, const char **begin, const char *end)
{
    char why[SL_UTF8_WHY_BYTES];
    r->begun = true;
    if (sl_utf8_is_other(*begin, (size_t)(end - *begin), why))
        return sl_fail(SL_EFORMAT, "read %s: %s", r->path, why);
    *begin += sl_utf8_mark(*begin, (size_t)(end - *begin));
    return SL_OK;
}

int sl_text_reader_next(struct sl_text_reader *r, const char **begin, const char **end)
{
    *begin = *end = "";
    for (;;) {
        pthread_mutex_lock(&r->lock);
        if (r->reading >= 0) {
            struct block *before = &r->blocks[r->reading];
            r->over = before->last;
            if (!r->over)
                before->full = false;
            pthread_cond_broadcast(&r->changed);
        }
        if (r->over) {
            int rc = r->rc;
            pthread_mutex_unlock(&r->lock);
            return rc < 0 ? sl_fail(rc, "%s", r->message) : SL_OK;
        }
        r->reading = (r->reading + 1) % BLOCKS;
        struct block *b = &r->blocks[r->reading];
        while (!b->full)
            pthread_cond_wait(&r->changed, &r->lock);
        pthread_mutex_unlock(&r->lock);
        if (b->n == 0)
            continue; // the file is empty, or an error stood at its beginning
        *begin = b->data;
        *end = b->data + b->n;
        return r->begun ? SL_OK : begin_text(r, begin, *end);
    }
}

uint64_t sl_text_reader_position(const struct sl_text_reader *r)
{
    return atomic_load_explicit(&r->position, memory_order_relaxed);
}

uint64_t sl_text_reader_size(const struct sl_text_reader *r)
{
    return r->size;
}
