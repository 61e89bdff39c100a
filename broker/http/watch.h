/*
 * watch.h - the server's client of the control bus: one thread, and what it has heard.
 *
 *     control bus -- Stats, Event, EpochDone, JobState, Finished --> watch thread --> store, feed
 *     request --> question --> watch thread --> control bus --> reply --> request
 *
 * The thread subscribes to everything, and says so again when it has heard nothing for a while: a
 * daemon drops who could not read. All of it is guarded by one lock, which nobody holds while
 * waiting for a socket.
 *
 * Behind the endpoint is a daemon (its bus has no key), or the broker of one
 * `sluice run`, which knows of no list and of no numbers: its only job has the key "0".
 */
#ifndef SL_BROKER_HTTP_WATCH_H
#define SL_BROKER_HTTP_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "broker/http/feed.h"
#include "broker/http/control_call.h"
#include "broker/http/job_stats.h"

enum {
    SL_WATCH_TICK_MS = 200,
    SL_WATCH_PING_S = 5,     // an event stream hears something at least that often
    SL_WATCH_QUESTIONS = 16, // at a time
    SL_WATCH_KEEP_MS = 500,  // a list or description that old is as good as a new one
    SL_WATCH_KEPT = 16,      // such answers that are kept
};

// Who waits for a reply: embedded in the request.
struct sl_watch_waiter {
    struct sl_watch_waiter *next;
    struct sl_reply reply;
    void (*wake)(struct sl_watch_waiter *waiter); // with the reply, once; on the watch thread
};

struct sl_watch_hooks {
    void *ctx;
    void (*on_feed)(void *ctx); // something was added to the feed; the lock is held
    void (*on_tick)(void *ctx); // every SL_WATCH_TICK_MS; the lock is not held
};

struct sl_watch {
    // Guards store, feed, stopping, over, kept, and who waits for which answer.
    pthread_mutex_t lock;
    struct sl_job_stats store;
    struct sl_feed feed;
    bool stopping; // no more questions
    bool over;     // nothing more is heard: streams end once they have read all of the feed

    const char *endpoint; // owned
    bool daemon;
    struct sl_watch_hooks hooks;
    uint64_t last_word_ms; // waited at the end for a job's broker to say how the job ended

    // private
    pthread_t thread;
    bool started, finished; // finished: a job has said how it ended
    int wake_fd;            // eventfd
    struct sl_bus *bus;
    uint64_t heard_ns;             // when something last came that nobody had asked for; 0: never
    struct sl_request listing;     // for the store
    struct sl_watch_place *places; // (SL_WATCH_QUESTIONS)
    struct sl_watch_kept *kept;    // (SL_WATCH_KEPT), of a moment ago
};

int sl_watch_start(struct sl_watch *w, const char *endpoint, const char *key,
                   const struct sl_watch_hooks *hooks);
// Takes what has still come (a job's end), ends the thread, wakes all waiters with SL_EABORTED and
// takes no more; what was heard stays.
void sl_watch_stop(struct sl_watch *w);
void sl_watch_fini(struct sl_watch *w); // stopped, or a zeroed struct

/*
 * Asks. waiter->wake() comes in any case, perhaps before this returns, and never while the lock is
 * held. A question that changes nothing shares the answer of one that is under way, or was
 * answered SL_WATCH_KEEP_MS ago.
 */
void sl_watch_ask(struct sl_watch *w, const struct sl_control_call *question,
                  struct sl_watch_waiter *waiter);

#endif
