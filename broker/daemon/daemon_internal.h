// daemon_internal.h - what the files of the daemon share: its state, and what changes it.
#ifndef SL_BROKER_DAEMON_DAEMON_INTERNAL_H
#define SL_BROKER_DAEMON_DAEMON_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/daemon/notify.h"
#include "broker/daemon/options.h"
#include "broker/daemon/pending_requests.h"
#include "broker/daemon/registry.h"
#include "broker/daemon/route.h"
#include "broker/daemon/subscriber.h"
#include "broker/job/loop.h"
#include "common/bus/bus.h"
#include "common/bus/runtime_dir.h"

struct sl_http;
struct sl_publisher;

struct sl_daemon {
    struct sl_daemon_options options;
    char runtime_dir[SL_RUNTIME_DIR_BYTES];
    char state_dir[SL_RUNTIME_DIR_BYTES + 8];
    char output_root[SL_CONFIG_PATH_BYTES];
    int lock_fd, state_fd, wake_fd; // -1 when closed
    struct sl_cores cores;          // that it gives away

    struct sl_bus *bus;
    struct sl_publisher *publisher;
    struct sl_http *http; // NULL: no page
    struct sl_loop loop;
    struct sl_notify notify;

    struct sl_registry registry;
    struct sl_subscribers subscribers;
    struct sl_routes routes;
    struct sl_pending_requests parking;

    uint64_t start_ns, ticks;
    bool stopping;         // no job is started any more
    bool look_at_queue;    // something has changed: perhaps a job may start
    bool status_old;       // what the service manager was told
    uint32_t n_processes;  // whose handles are on the loop
    uint32_t n_archived;   // requests under way on the thread pool (archive.h)
    uint64_t refused_told; // messages that the bus had refused at the last line about it
};

// The time for people: Unix seconds.
double sl_daemon_now(void);

/*
 * transition.c: the one way to a new state. Writes the record, then says so: to the log, to
 * subscribers. A record that cannot be written is tried again later; sl_daemon_save() says why.
 */
void sl_daemon_set_state(struct sl_daemon *d, struct sl_entry *e, enum sl_entry_state state);
// The same with a reason, which the list shows as the job's message.
void sl_daemon_end_entry(struct sl_daemon *d, struct sl_entry *e, enum sl_entry_state state,
                         int exit_status, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
int sl_daemon_save(struct sl_daemon *d, struct sl_entry *e);
void sl_daemon_save_rest(struct sl_daemon *d); // what could not be written before
void sl_daemon_forget_old(struct sl_daemon *d);
// A JobState to subscribers, or to one client (not NULL).
void sl_daemon_emit_state(struct sl_daemon *d, const struct sl_entry *e,
                          const struct sl_bus_peer *to);
// To the job's subscribers, with its id in the envelope. wants: SL_WANTS_*, 0 = all of them.
void sl_daemon_emit(struct sl_daemon *d, const struct sl_entry *e, unsigned wants,
                    Sl__Control__Envelope *body);
// Finished, of a job that is over and had no last word of its broker's.
void sl_daemon_emit_finished(struct sl_daemon *d, const struct sl_entry *e);
// Queued once more: a place in the queue, how often. Not saved and not told yet.
void sl_daemon_requeue(struct sl_entry *e, int64_t order);

// process.c: starts every job that may start.
void sl_daemon_start_jobs(struct sl_daemon *d);

// recovery.c: what the daemon before this one has left
void sl_daemon_recover(struct sl_daemon *d);
void sl_daemon_poll_orphans(struct sl_daemon *d);
// A job that has run and whose run directory is not there any more cannot go on. SL_ENOENT.
int sl_daemon_check_run(const struct sl_entry *e);
// What can be done with a job whose broker is gone: who goes on with it and from where, or why that
// is not possible. Returns buf.
char *sl_daemon_outlook(const struct sl_entry *e, bool by_itself, char *buf, size_t bytes);
// A job whose daemon goes away, or went: INTERRUPTED, with what is to be done about it.
void sl_daemon_interrupt(struct sl_daemon *d, struct sl_entry *e);

// requests.c: what clients ask for
void sl_daemon_on_message(struct sl_daemon *d, const struct sl_bus_peer *peer,
                          Sl__Control__Envelope *m);
// Serves a request that was parked, as if it had come now, with the GPUs.
void sl_daemon_serve_parked(struct sl_daemon *d, const struct sl_pending_request *parked,
                            const struct sl_gpus *gpus);

// pending.c: requests that wait for the GPUs. What may happen meanwhile is said there.
// The GPUs, for a request that needs them; NULL: a child is being asked, park it.
const struct sl_gpus *sl_pending_requests_gpus(struct sl_daemon *d);

// Serves a request, as if it had come now, with the GPUs.
typedef void sl_pending_request_serve(struct sl_daemon *d, const struct sl_pending_request *parked,
                                      const struct sl_gpus *gpus);

// From time to time: looks after the child, tells clients, serves what can be served.
void sl_pending_requests_poll(struct sl_daemon *d, sl_pending_request_serve *serve);

// Refuses what is parked for a job. False when there is nothing.
bool sl_pending_requests_refuse(struct sl_daemon *d, const struct sl_entry *e, const char *why);

// The daemon stops: refuses all, and ends the child.
void sl_pending_requests_end(struct sl_daemon *d, const char *why);

// answer.c
void sl_daemon_answer(struct sl_daemon *d, const struct sl_bus_peer *peer, int code,
                      const char *message, const char *json);
// A refusal in the form that this request is answered in.
void sl_daemon_refuse(struct sl_daemon *d, const struct sl_bus_peer *peer,
                      Sl__Control__Envelope__BodyCase request, const char *job, int code,
                      const char *message);

#endif
