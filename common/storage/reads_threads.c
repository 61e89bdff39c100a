#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/threads.h"
#include "common/storage/reads.h"

// More of them cost more than they hide: each is a stack, and a switch a read.
enum { THREADS_MAX = 64 };

struct state {
    pthread_mutex_t lock;
    pthread_cond_t work, over; // there are runs; one has ended, or a thread rests
    // Below: guarded by the lock.
    uint32_t n_runs;     // of the call that is under way
    uint32_t next;       // run that nobody has
    uint32_t ended;      // runs
    uint32_t busy;       // threads that have one
    uint32_t delivering; // ... whose rows go to their places
    bool given_up;       // the drive fell silent: what still comes goes nowhere
    uint32_t allowed;    // threads that may have one
    int failed;          // code of the first error, 0 = none
    char message[512];
    bool quit;

    uint32_t n;
    struct reading {
        struct sl_row_reader *r;
        pthread_t thread;
        uint32_t number;
    } threads[THREADS_MAX];
};

static int read_run(struct sl_row_reader *r, const struct sl_row_run *run, char *to)
{
    struct sl_row_progress progress = {0};
    enum sl_row_step step = SL_ROW_AGAIN;
    int rc = SL_OK;
    while (step == SL_ROW_AGAIN) {
        progress.direct = atomic_load(&r->direct);
        ssize_t n = pread(r->part[run->part].fd, to + progress.got, run->bytes - progress.got,
                          (off_t)(run->at + progress.got));
        if (n > 0)
            atomic_fetch_add_explicit(&r->bytes, (uint64_t)n, memory_order_relaxed);
        step = sl_row_take(r, run, &progress, n < 0 ? -errno : n, &rc);
    }
    return rc;
}

// Under the lock, which is let go of meanwhile. Whose call has been given up has its memory back.
static void deliver(struct sl_row_reader *r, struct state *s, struct sl_row_run *run,
                    const char *bytes)
{
    if (s->given_up)
        return;
    s->delivering++;
    pthread_mutex_unlock(&s->lock);
    sl_row_deliver(r, run, bytes);
    pthread_mutex_lock(&s->lock);
    s->delivering--;
}

// A run for the thread, under the lock; false while there is none.
static bool take_run(struct state *s, uint32_t number, uint32_t *run)
{
    if (s->failed || number >= s->allowed || s->next >= s->n_runs)
        return false;
    *run = s->next++;
    s->busy++;
    return true;
}

static void *read_runs_of(void *arg)
{
    const struct reading *me = arg;
    struct sl_row_reader *r = me->r;
    struct state *s = r->state;
    uint32_t run;
    pthread_mutex_lock(&s->lock);
    while (!s->quit) {
        if (!take_run(s, me->number, &run)) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        char *bytes = sl_row_slot(r, me->number);
        int rc = read_run(r, &r->runs[run], bytes);
        pthread_mutex_lock(&s->lock);
        if (rc == SL_OK)
            deliver(r, s, &r->runs[run], bytes);
        s->busy--;
        s->ended++;
        if (rc < 0 && !s->failed) {
            s->failed = rc;
            snprintf(s->message, sizeof s->message, "%s", sl_error_message());
        }
        if (s->busy == 0 || s->failed || s->given_up)
            pthread_cond_signal(&s->over);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void close_threads(struct sl_row_reader *r)
{
    struct state *s = r->state;
    pthread_mutex_lock(&s->lock);
    s->quit = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (uint32_t i = 0; i < s->n; i++)
        if (r->broken)
            pthread_detach(s->threads[i].thread); // it may hang in the kernel
        else
            pthread_join(s->threads[i].thread, NULL);
    if (r->broken)
        return;
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->over);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static int open_threads(struct sl_row_reader *r)
{
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return sl_fail(SL_ENOMEM, "%s: no memory to read it", r->path[0]);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    r->state = s;
    for (; s->n < THREADS_MAX; s->n++) {
        s->threads[s->n].r = r;
        s->threads[s->n].number = s->n;
        int err = sl_thread_start(&s->threads[s->n].thread, read_runs_of, &s->threads[s->n]);
        if (err && s->n == 0)
            return sl_fail_errno(SL_ESYS, err, "%s: no thread to read it", r->path[0]);
        if (err)
            break;
    }
    return SL_OK;
}

// Under the lock: until a thread says something, for a while.
static void wait_a_while(struct state *s)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SL_ROW_LOOK_MS * 1000000l;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&s->over, &s->lock, &until);
}

static int read_runs(struct sl_row_reader *r)
{
    struct state *s = r->state;
    int rc = SL_OK;
    uint32_t ended = 0;
    uint64_t last_ns = sl_now_ns();
    pthread_mutex_lock(&s->lock);
    s->n_runs = r->n_runs;
    s->next = s->ended = 0;
    s->failed = SL_OK;
    s->allowed = SL_MIN(r->facts.depth, s->n);
    pthread_cond_broadcast(&s->work);
    while (rc == SL_OK && (s->busy > 0 || (!s->failed && s->ended < s->n_runs))) {
        wait_a_while(s);
        if (s->ended != ended)
            last_ns = sl_now_ns();
        else
            rc = sl_row_check_patience(r, last_ns);
        ended = s->ended;
        if (!s->failed && sl_row_stopping(r)) {
            s->failed = SL_EABORTED;
            snprintf(s->message, sizeof s->message, "reading features: stopped on request");
        }
    }
    s->n_runs = 0;
    s->given_up = s->busy > 0;
    while (s->delivering > 0)
        wait_a_while(s);
    if (rc == SL_OK && s->failed)
        rc = sl_fail(s->failed, "%s", s->message);
    pthread_mutex_unlock(&s->lock);
    return rc;
}

const struct sl_row_reads sl_row_reads_threads = {"threads", open_threads, read_runs,
                                                  close_threads};
