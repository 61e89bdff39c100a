#include "broker/http/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/log.h"

enum {
    SILENCE_S = 10,    // subscribe again after so long without a message
    LAST_WAIT_MS = 30, // for the next of the last messages at the end
    LINGER_MS = 200,
};

// A question's place. `waiters` is guarded by the lock; a place without waiters is free, and only
// the watch thread frees one.
struct sl_watch_place {
    struct sl_control_call question;
    struct sl_watch_waiter *waiters;
    bool running;              // its question is on its way
    struct sl_request request; // of the watch thread alone
};

struct sl_watch_kept {
    struct sl_control_call question;
    struct sl_reply reply;
    uint64_t at_ns; // 0: free
};

static bool changes_nothing(const struct sl_control_call *q)
{
    return q->kind == SL_CONTROL_CALL_LIST || q->kind == SL_CONTROL_CALL_DESCRIBE;
}

static bool same_question(const struct sl_control_call *a, const struct sl_control_call *b)
{
    return a->kind == b->kind && strcmp(a->job, b->job) == 0;
}

static void ring_bell(struct sl_watch *w)
{
    uint64_t one = 1;
    if (write(w->wake_fd, &one, sizeof one) < 0) {
        // Full: it is rung already.
    }
}

// Gives each of the list a copy of the reply. Without the lock.
static void wake_all(struct sl_watch_waiter *list, const struct sl_reply *reply)
{
    while (list) {
        struct sl_watch_waiter *waiter = list;
        list = list->next;
        sl_reply_copy(reply, &waiter->reply);
        waiter->wake(waiter);
    }
}

// --- asking --------------------------------------------------------------------------------------

static const struct sl_watch_kept *find_kept(const struct sl_watch *w,
                                             const struct sl_control_call *q)
{
    uint64_t now = sl_now_ns();
    for (int i = 0; i < SL_WATCH_KEPT; i++) {
        const struct sl_watch_kept *k = &w->kept[i];
        if (k->at_ns && now - k->at_ns < SL_WATCH_KEEP_MS * 1000000ull &&
            same_question(&k->question, q))
            return k;
    }
    return NULL;
}

static void forget_kept(struct sl_watch *w)
{
    for (int i = 0; i < SL_WATCH_KEPT; i++)
        w->kept[i].at_ns = 0;
}

static void keep(struct sl_watch *w, const struct sl_control_call *q, const struct sl_reply *reply)
{
    struct sl_watch_kept *oldest = &w->kept[0];
    for (int i = 1; i < SL_WATCH_KEPT; i++)
        if (w->kept[i].at_ns < oldest->at_ns)
            oldest = &w->kept[i];
    sl_reply_fini(&oldest->reply);
    oldest->question = *q;
    oldest->at_ns = sl_reply_copy(reply, &oldest->reply) == SL_OK ? sl_now_ns() : 0;
}

// The place where this question is asked, a free one when it is new; NULL when all are taken.
// A place's question is written only here and only while the place is free: the thread that asks
// the broker reads it without the lock.
static struct sl_watch_place *find_place(struct sl_watch *w, const struct sl_control_call *q)
{
    struct sl_watch_place *free_place = NULL;
    for (int i = 0; i < SL_WATCH_QUESTIONS; i++) {
        struct sl_watch_place *p = &w->places[i];
        if (p->waiters && changes_nothing(q) && same_question(&p->question, q))
            return p;
        if (!p->waiters && !p->running && !free_place)
            free_place = p;
    }
    if (free_place)
        free_place->question = *q;
    return free_place;
}

void sl_watch_ask(struct sl_watch *w, const struct sl_control_call *question,
                  struct sl_watch_waiter *waiter)
{
    const struct sl_watch_kept *kept;
    struct sl_watch_place *place;
    bool waits = false;
    waiter->next = NULL;
    waiter->reply = (struct sl_reply){0};

    pthread_mutex_lock(&w->lock);
    if (w->stopping) {
        waiter->reply.code = SL_EABORTED;
        waiter->reply.message = strdup("the server is being stopped");
    } else if (changes_nothing(question) && (kept = find_kept(w, question))) {
        sl_reply_copy(&kept->reply, &waiter->reply);
    } else if (!(place = find_place(w, question))) {
        waiter->reply.code = SL_EAGAIN;
        waiter->reply.message = strdup("too many questions at a time; ask again in a second");
    } else {
        waiter->next = place->waiters;
        place->waiters = waiter;
        waits = true;
    }
    pthread_mutex_unlock(&w->lock);

    if (waits)
        ring_bell(w);
    else
        waiter->wake(waiter);
}

// --- questions under way -------------------------------------------------------------------------

// What does not say itself whose it is: {"id": key, MEMBER: json}. With the lock.
static void push_wrapped(struct sl_watch *w, const char *key, const char *kind, const char *member,
                         const char *json)
{
    struct sl_text text = {0};
    sl_text_puts(&text, "{\"id\":");
    sl_text_json_string(&text, key);
    sl_text_printf(&text, ",\"%s\":%s}", member, *json ? json : "null");
    if (!text.failed)
        sl_feed_push(&w->feed, key, kind, text.s);
    sl_text_fini(&text);
}

static void emit_progress(struct sl_watch *w, const struct sl_control_call *q, const char *progress)
{
    struct sl_text text = {0};
    sl_text_json_string(&text, progress);
    pthread_mutex_lock(&w->lock);
    if (!text.failed)
        push_wrapped(w, w->daemon ? q->job : "0", "progress", "text", text.s);
    w->hooks.on_feed(w->hooks.ctx);
    pthread_mutex_unlock(&w->lock);
    sl_text_fini(&text);
}

// Gives the reply, which is released, to all who wait at this place. The place is free then.
static void answer(struct sl_watch *w, struct sl_watch_place *p, struct sl_reply *reply)
{
    pthread_mutex_lock(&w->lock);
    struct sl_watch_waiter *waiters = p->waiters;
    p->waiters = NULL;
    p->running = false;
    if (changes_nothing(&p->question))
        keep(w, &p->question, reply);
    else
        forget_kept(w);
    pthread_mutex_unlock(&w->lock);
    wake_all(waiters, reply);
    sl_reply_fini(reply);
}

static void refuse(int code, struct sl_reply *reply)
{
    reply->code = code;
    if (code != SL_EAGAIN) // a full queue, which has no message
        reply->message = strdup(sl_error_message());
}

// Sends what is new, and gives up what has had its time.
static void see_to_place(struct sl_watch *w, struct sl_watch_place *p, bool fresh)
{
    struct sl_reply reply = {0};
    if (fresh) {
        p->request = sl_request_begin(sl_control_call_patience_ms(&p->question));
        int rc = sl_control_call_send(&p->question, p->request.id, w->bus);
        if (rc == SL_OK)
            return;
        refuse(rc, &reply);
    } else if (sl_request_left_ms(&p->request) > 0) {
        return;
    } else {
        sl_control_call_give_up(&p->question, &reply);
    }
    answer(w, p, &reply);
}

static void see_to_questions(struct sl_watch *w)
{
    for (int i = 0; i < SL_WATCH_QUESTIONS; i++) {
        struct sl_watch_place *p = &w->places[i];
        pthread_mutex_lock(&w->lock);
        bool wanted = p->waiters != NULL, fresh = !p->running;
        p->running = wanted;
        pthread_mutex_unlock(&w->lock);
        if (wanted)
            see_to_place(w, p, fresh);
    }
}

// What answers a question: of a place, or the watch's own for the list.
static void on_answer(struct sl_watch *w, const Sl__Control__Envelope *m)
{
    struct sl_reply reply = {0};
    for (int i = 0; i < SL_WATCH_QUESTIONS; i++) {
        struct sl_watch_place *p = &w->places[i];
        if (!p->running || p->request.id != m->request)
            continue;
        if (m->body_case == SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS && *m->scale_progress->text)
            emit_progress(w, &p->question, m->scale_progress->text);
        if (sl_request_on_message(&p->request, m, &reply))
            answer(w, p, &reply);
        return;
    }
    if (sl_request_on_message(&w->listing, m, &reply)) {
        pthread_mutex_lock(&w->lock);
        sl_job_stats_on_list(&w->store, reply.json ? reply.json : "");
        w->hooks.on_feed(w->hooks.ctx);
        pthread_mutex_unlock(&w->lock);
        sl_reply_fini(&reply);
    }
}

// --- listening -----------------------------------------------------------------------------------

static int subscribe(struct sl_watch *w)
{
    Sl__Control__Subscribe body = SL__CONTROL__SUBSCRIBE__INIT;
    Sl__Control__Envelope m = SL__CONTROL__ENVELOPE__INIT;
    body.stats = true;
    m.body_case = SL__CONTROL__ENVELOPE__BODY_SUBSCRIBE;
    m.subscribe = &body;
    return sl_bus_send(w->bus, NULL, &m);
}

// The daemon's list, for the states of all jobs: from then on JobState tells what changes.
static void ask_list(struct sl_watch *w)
{
    w->listing = sl_request_begin(0);
    sl_control_call_send(&(struct sl_control_call){.kind = SL_CONTROL_CALL_LIST}, w->listing.id,
                         w->bus);
}

static void on_stats(struct sl_watch *w, const char *key, const char *json)
{
    struct sl_job_stats_job *job = sl_job_stats_on_line(&w->store, key, json, sl_now_ns());
    if (job)
        sl_feed_push(&w->feed, job->key, "stats", json);
}

static const char *state_of_exit(int status)
{
    return status == 0 ? "done" : status == 130 ? "stopped" : "failed";
}

static void on_finished(struct sl_watch *w, const char *key, const Sl__Control__Finished *m)
{
    struct sl_text text = {0};
    const struct sl_job_stats_job *job = w->daemon ? NULL : sl_job_stats_find(&w->store, key);
    sl_job_stats_end(&w->store, key);
    w->finished = true;
    if (job) // nobody else tells: a daemon has JobState for it
        sl_job_stats_set_state(&w->store, job->key, job->name, state_of_exit(m->exit_status));
    forget_kept(w);
    sl_text_printf(&text, "{\"exit_status\":%d,\"message\":", (int)m->exit_status);
    sl_text_json_string(&text, m->message);
    sl_text_puts(&text, "}");
    if (!text.failed)
        push_wrapped(w, key, "finished", "finished", text.s);
    sl_text_fini(&text);
}

static void on_message(struct sl_watch *w, const Sl__Control__Envelope *m)
{
    const char *key = *m->job ? m->job : w->daemon ? "" : "0";
    pthread_mutex_lock(&w->lock);
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_STATS: on_stats(w, m->job, m->stats->json); break;
    case SL__CONTROL__ENVELOPE__BODY_EVENT:
        forget_kept(w);
        push_wrapped(w, key, "event", "event", m->event->json);
        break;
    case SL__CONTROL__ENVELOPE__BODY_EPOCH_DONE:
        forget_kept(w);
        push_wrapped(w, key, "epoch", "epoch", m->epoch_done->json);
        break;
    case SL__CONTROL__ENVELOPE__BODY_JOB_STATE:
        forget_kept(w);
        sl_job_stats_on_entry(&w->store, m->job_state->json);
        sl_feed_push(&w->feed, "", "state", m->job_state->json);
        break;
    case SL__CONTROL__ENVELOPE__BODY_FINISHED: on_finished(w, key, m->finished); break;
    default: break;
    }
    w->hooks.on_feed(w->hooks.ctx);
    pthread_mutex_unlock(&w->lock);
}

// Takes all that has come, and comes within so long of one another.
static void drain(struct sl_watch *w, int wait_ms)
{
    Sl__Control__Envelope *m;
    int rc;
    while ((rc = sl_bus_receive(w->bus, wait_ms, NULL, &m)) == SL_OK) {
        if (m->request) {
            on_answer(w, m);
        } else {
            on_message(w, m);
            w->heard_ns = sl_now_ns();
        }
        sl_bus_message_free(m);
    }
    if (rc != SL_EAGAIN)
        sl_log_warn("the page: %s", sl_error_message());
}

// The broker of one job says last how the job ended: that is waited for where it has been heard
// at all. A daemon has no last word: what comes is taken.
static void drain_last(struct sl_watch *w)
{
    uint64_t until = sl_now_ns() + w->last_word_ms * 1000000ull;
    do
        drain(w, LAST_WAIT_MS);
    while (w->heard_ns && !w->daemon && !w->finished && sl_now_ns() < until);
}

static void ping(struct sl_watch *w)
{
    pthread_mutex_lock(&w->lock);
    sl_feed_push(&w->feed, "", "ping", "{}");
    w->hooks.on_feed(w->hooks.ctx);
    pthread_mutex_unlock(&w->lock);
}

static void wait_for_something(struct sl_watch *w)
{
    struct pollfd fds[] = {
        {.fd = w->wake_fd, .events = POLLIN},
        {.fd = sl_bus_fd(w->bus), .events = POLLIN},
    };
    uint64_t rung;
    poll(fds, sizeof fds / sizeof *fds, SL_WATCH_TICK_MS);
    if (read(w->wake_fd, &rung, sizeof rung) < 0) {
        // Nobody rang.
    }
}

static void *watch_main(void *arg)
{
    struct sl_watch *w = arg;
    uint64_t subscribed = 0, pinged = sl_now_ns(), ticked = 0;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        bool stopping = w->stopping;
        pthread_mutex_unlock(&w->lock);
        if (stopping) {
            drain_last(w);
            return NULL;
        }
        drain(w, 0);
        uint64_t now = sl_now_ns(), silent_since = SL_MAX(w->heard_ns, subscribed);
        if (!subscribed || now - silent_since > SILENCE_S * 1000000000ull) {
            subscribe(w); // its failure is a full queue: the next one will do
            if (w->daemon)
                ask_list(w);
            subscribed = now;
        }
        see_to_questions(w);
        drain(w, 0); // the descriptor tells nothing of what came while sending
        if (now - ticked > SL_WATCH_TICK_MS * 1000000ull) {
            w->hooks.on_tick(w->hooks.ctx);
            ticked = now;
        }
        if (now - pinged > SL_WATCH_PING_S * 1000000000ull) {
            ping(w);
            pinged = now;
        }
        wait_for_something(w);
    }
}

// --- start and end -------------------------------------------------------------------------------

int sl_watch_start(struct sl_watch *w, const char *endpoint, const char *key,
                   const struct sl_watch_hooks *hooks)
{
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    w->daemon = !key;
    w->hooks = *hooks;
    w->endpoint = strdup(endpoint);
    w->places = calloc(SL_WATCH_QUESTIONS, sizeof *w->places);
    w->kept = calloc(SL_WATCH_KEPT, sizeof *w->kept);
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!w->endpoint || !w->places || !w->kept)
        return sl_fail(SL_ENOMEM, "the page: no memory");
    if (w->wake_fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "the page: making an event descriptor");
    SL_TRY(sl_feed_init(&w->feed));
    SL_TRY(sl_bus_connect(endpoint, key, &w->bus));

    // Signals are for the thread that runs the program's loop.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&w->thread, NULL, watch_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        return sl_fail_errno(SL_ESYS, err, "the page: starting a thread");
    w->started = true;
    return SL_OK;
}

void sl_watch_stop(struct sl_watch *w)
{
    const struct sl_reply ended = {.code = SL_EABORTED,
                                   .message = (char *)"the server is being stopped"};
    // A job's own server ends with its job, which is what was asked for.
    const struct sl_reply stopped = {.code = SL_OK, .message = (char *)"the job stops"};
    if (!w->started)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_mutex_unlock(&w->lock);
    ring_bell(w);
    pthread_join(w->thread, NULL);
    w->started = false;
    pthread_mutex_lock(&w->lock);
    w->over = true;
    w->hooks.on_feed(w->hooks.ctx);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < SL_WATCH_QUESTIONS; i++) {
        struct sl_watch_place *p = &w->places[i];
        pthread_mutex_lock(&w->lock);
        struct sl_watch_waiter *waiters = p->waiters;
        p->waiters = NULL;
        pthread_mutex_unlock(&w->lock);
        wake_all(waiters, p->question.kind == SL_CONTROL_CALL_STOP ? &stopped : &ended);
    }
}

void sl_watch_fini(struct sl_watch *w)
{
    if (!w->places) // zeroed, or there was no memory for anything
        return;
    sl_bus_close(w->bus, LINGER_MS);
    close(w->wake_fd);
    sl_feed_fini(&w->feed);
    sl_job_stats_fini(&w->store);
    for (int i = 0; w->kept && i < SL_WATCH_KEPT; i++)
        sl_reply_fini(&w->kept[i].reply);
    free(w->kept);
    free(w->places);
    free((char *)w->endpoint);
    pthread_mutex_destroy(&w->lock);
    memset(w, 0, sizeof *w);
}
