#include "broker/log/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/error.h"

struct sl_writer_file {
    struct sl_writer *writer;
    struct sl_writer_file *next;
    int fd;
    enum sl_writer_kind kind;
    char name[SL_WRITER_NAME_BYTES];

    // the thread's
    bool broken;  // its end is half a record
    uint64_t gap; // records that are missing at its end

    // under the writer's lock
    uint64_t lost;    // in all
    uint64_t dropped; // since a record was added last
    int err;          // of the first that was lost
    bool told;
};

struct record {
    struct record *next;
    struct sl_writer_file *file;
    uint64_t gap; // records of the file that were dropped right before it
    size_t n;
    char bytes[];
};

struct sl_writer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more, done; // there are records, or it ends; all are written, or it has ended
    struct sl_writer_file *files;

    // under the lock
    struct record *first, **end;
    size_t bytes;
    uint64_t n;             // records in the queue and in the thread's hands
    bool ends, ended, left; // no more is added; the thread has ended; nobody waits for it
};

// --- the thread ----------------------------------------------------------------------------------

// 0, or an errno; then nothing of it is there, or the file is broken.
static int write_whole(struct sl_writer_file *f, const char *bytes, size_t n)
{
    size_t at = 0;
    while (at < n) {
        ssize_t wrote = write(f->fd, bytes + at, n - at);
        if (wrote > 0)
            at += (size_t)wrote;
        else if (wrote == 0 || errno != EINTR)
            break;
    }
    if (at == n)
        return 0;
    int err = errno;
    struct stat st;
    if (at > 0 && (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode) ||
                   ftruncate(f->fd, st.st_size - (off_t)at) != 0))
        f->broken = true;
    return err ? err : EIO;
}

static int write_gap(struct sl_writer_file *f)
{
    char line[96];
    if (f->kind != SL_WRITER_LOG || f->gap == 0)
        return 0;
    int n =
        snprintf(line, sizeof line, "(%llu lines are missing here: they could not be written)\n",
                 (unsigned long long)f->gap);
    return write_whole(f, line, (size_t)n);
}

static int write_record(const struct record *r)
{
    struct sl_writer_file *f = r->file;
    f->gap += r->gap;
    int err = f->broken ? EIO : write_gap(f);
    err = err ? err : write_whole(f, r->bytes, r->n);
    f->gap = err ? f->gap + 1 : 0;
    return err;
}

static void count_lost(struct sl_writer_file *f, int err)
{
    if (f->lost == 0)
        f->err = err;
    f->lost++;
}

static void release(struct sl_writer *w)
{
    for (struct sl_writer_file *f = w->files, *next; f; f = next) {
        next = f->next;
        close(f->fd);
        free(f);
    }
    for (struct record *r = w->first, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    pthread_cond_destroy(&w->done);
    free(w);
}

static void *serve(void *ctx)
{
    struct sl_writer *w = ctx;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->first && !w->ends)
            pthread_cond_wait(&w->more, &w->lock);
        struct record *r = w->left ? NULL : w->first;
        if (!r)
            break;
        w->first = r->next;
        if (!w->first)
            w->end = &w->first;
        pthread_mutex_unlock(&w->lock);
        int err = write_record(r);
        pthread_mutex_lock(&w->lock);
        if (err)
            count_lost(r->file, err);
        w->bytes -= r->n;
        if (--w->n == 0)
            pthread_cond_broadcast(&w->done);
        free(r);
    }
    w->ended = true;
    bool left = w->left;
    pthread_cond_broadcast(&w->done);
    pthread_mutex_unlock(&w->lock);
    if (left)
        release(w);
    return NULL;
}

// --- life ----------------------------------------------------------------------------------------

int sl_writer_start(struct sl_writer **out)
{
    struct sl_writer *w = *out = calloc(1, sizeof *w);
    pthread_condattr_t monotonic;
    sigset_t all, before;
    if (!w)
        return sl_fail(SL_ENOMEM, "no memory for the writer of the job's files");
    w->end = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->more, NULL);
    pthread_cond_init(&w->done, &monotonic);
    pthread_condattr_destroy(&monotonic);
    // Signals are the loop's; a write must not be cut short by one either.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&w->thread, NULL, serve, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err == 0)
        return SL_OK;
    release(w);
    *out = NULL;
    return sl_fail_errno(SL_ESYS, err, "starting the thread that writes the job's files");
}

// Until it is true or the time is over. Locked.
static void wait_until(struct sl_writer *w, bool (*is_true)(const struct sl_writer *w), uint32_t ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000;
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    while (!is_true(w) && pthread_cond_timedwait(&w->done, &w->lock, &end) == 0)
        ;
}

static bool is_written(const struct sl_writer *w)
{
    return w->n == 0;
}

static bool has_ended(const struct sl_writer *w)
{
    return w->ended;
}

uint64_t sl_writer_flush(struct sl_writer *w, uint32_t wait_ms)
{
    pthread_mutex_lock(&w->lock);
    wait_until(w, is_written, wait_ms);
    uint64_t n = w->n;
    pthread_mutex_unlock(&w->lock);
    return n;
}

void sl_writer_close(struct sl_writer *w, uint32_t wait_ms)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->ends = true;
    pthread_cond_signal(&w->more);
    wait_until(w, has_ended, wait_ms);
    bool ended = w->ended;
    w->left = !ended;
    if (!ended)
        pthread_detach(w->thread);
    pthread_mutex_unlock(&w->lock);
    if (!ended)
        return;
    pthread_join(w->thread, NULL);
    release(w);
}

int sl_writer_open(struct sl_writer *w, const char *path, int flags, enum sl_writer_kind kind,
                   const char *name, struct sl_writer_file **out)
{
    struct sl_writer_file *f = *out = calloc(1, sizeof *f);
    if (!f)
        return sl_fail(SL_ENOMEM, "output: no memory for '%s'", path);
    f->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | flags, 0666);
    if (f->fd < 0 || fcntl(f->fd, F_SETFL, O_APPEND) != 0) {
        int err = errno;
        if (f->fd >= 0)
            close(f->fd);
        free(f);
        *out = NULL;
        return sl_fail_errno(err == EEXIST                   ? SL_EEXIST
                             : err == EACCES || err == EROFS ? SL_EACCESS
                                                             : SL_EIO,
                             err, "output: opening '%s'", path);
    }
    f->writer = w;
    f->kind = kind;
    snprintf(f->name, sizeof f->name, "%s", name);
    pthread_mutex_lock(&w->lock);
    f->next = w->files;
    w->files = f;
    pthread_mutex_unlock(&w->lock);
    return SL_OK;
}

// --- records -------------------------------------------------------------------------------------

static void add(struct sl_writer_file *f, const char *bytes, size_t n, const char *end)
{
    if (!f)
        return;
    struct sl_writer *w = f->writer;
    size_t all = n + strlen(end);
    struct record *r = malloc(sizeof *r + all);
    pthread_mutex_lock(&w->lock);
    if (!r || w->bytes + all > SL_WRITER_BYTES_MAX) {
        count_lost(f, r ? 0 : ENOMEM);
        f->dropped++;
        free(r);
    } else {
        *r = (struct record){.file = f, .gap = f->dropped, .n = all};
        f->dropped = 0;
        memcpy(r->bytes, bytes, n);
        memcpy(r->bytes + n, end, all - n);
        *w->end = r;
        w->end = &r->next;
        w->bytes += all;
        w->n++;
        pthread_cond_signal(&w->more);
    }
    pthread_mutex_unlock(&w->lock);
}

void sl_writer_add(struct sl_writer_file *f, const void *bytes, size_t n)
{
    add(f, bytes, n, "");
}

void sl_writer_add_line(struct sl_writer_file *f, const char *line)
{
    add(f, line, strlen(line), "\n");
}

// --- losses --------------------------------------------------------------------------------------

static void describe(const struct sl_writer_file *f, struct sl_writer_loss *out)
{
    memcpy(out->name, f->name, sizeof out->name);
    out->n = f->lost;
    out->err = f->err;
}

bool sl_writer_poll(struct sl_writer *w, struct sl_writer_loss *out)
{
    pthread_mutex_lock(&w->lock);
    struct sl_writer_file *f = w->files;
    while (f && (f->lost == 0 || f->told))
        f = f->next;
    if (f) {
        f->told = true;
        describe(f, out);
    }
    pthread_mutex_unlock(&w->lock);
    return f != NULL;
}

bool sl_writer_lost(struct sl_writer *w, uint32_t i, struct sl_writer_loss *out)
{
    pthread_mutex_lock(&w->lock);
    struct sl_writer_file *f = w->files;
    for (; f; f = f->next)
        if (f->lost > 0 && i-- == 0)
            break;
    if (f)
        describe(f, out);
    pthread_mutex_unlock(&w->lock);
    return f != NULL;
}
