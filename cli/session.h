/*
 * session.h - a client's connection: to the daemon, or to the broker of one `sluice run`.
 *
 * Every command that talks to a job opens a session and does not care which of the two it is:
 *
 *   the daemon      control.sock of the runtime directory, or TCP with keys; it forwards what is
 *                   meant for a job
 *   `sluice run`    found in the process table (run_jobs.h); it has one job, and no list
 *
 * A job is named by id, name or run directory. When it is nowhere the error lists the nearest names
 * of both kinds, and says how to start a daemon when there is none.
 */
#ifndef SL_CLI_SESSION_H
#define SL_CLI_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "cli/job_end.h"
#include "broker/workers/run_jobs.h"
#include "common/bus/bus.h"
#include "common/bus/request.h"
#include "common/text/options.h"

// What the user said of where the daemon is; every client command has these options.
struct sl_session_where {
    const char *runtime_dir; // --runtime-dir DIR; NULL: runtime_dir.h
    const char *connect;     // --connect tcp://HOST:PORT
    const char *key;         // --key FILE: client.key, needed with --connect
};

extern const struct sl_option sl_session_options[]; // of a struct sl_session_where

struct sl_session {
    struct sl_bus *bus;
    bool daemon;        // else the broker of one `sluice run`
    char job[4096];     // what Envelope.job says: the daemon's number, or the name; "" = none
    char name[128];     // the job's own name, for messages; "" = none
    char id[24];        // the daemon's number; "" for `sluice run`
    char output[4096];  // its run directory
    char log[4200];     // daemon: what its brokers wrote on standard error; "" = not known
    char state[24];     // daemon: its state when the session was opened
    bool quiet;         // what an answer waits for is not said on standard error
    bool answered;      // what was asked last has been answered, if only by a refusal
    int64_t broker_pid; // 0: not known. Its end is the end of a session that is not the daemon's
    // How the end of the other side is seen; private.
    int64_t peer_pid; // of the daemon or the broker; 0: not known
    int peer_fd;      // pidfd of it, where peer_pid says so; -1: none
    char dir[4096];   // runtime directory of a daemon that is reached through it
    uint64_t looked_ns;
    // ... over a network
    uint64_t heard_ns;      // when the last message came, or the connection began
    struct sl_request sign; // of life: that is asked for
};

/*
 * Opens a session for a job; NULL: the only one that is not over, of the daemon's and of `sluice
 * run`'s. SL_ENOENT: nowhere (with the nearest names); SL_EINVAL: several are meant (with their
 * names); SL_EPROTO: a daemon of another version; SL_ETIMEDOUT: a daemon that does not answer;
 * SL_EACCESS: one elsewhere that does not take the key.
 */
int sl_session_open(const struct sl_session_where *where, const char *job, struct sl_session *out);

// The daemon itself. SL_ENOENT with how to start one.
int sl_session_open_daemon(const struct sl_session_where *where, struct sl_session *out);

// The same, and asks for its list (sluice.jobs/1, owned: cJSON_Delete).
int sl_session_open_listing(const struct sl_session_where *where, struct sl_session *out,
                            cJSON **list);

// A session with the daemon is about this job of its list from now on.
void sl_session_set_entry(struct sl_session *s, const cJSON *entry);

// The broker of one `sluice run`.
int sl_session_open_found(const struct sl_run_job *job, struct sl_session *out);

/*
 * Everything there is: the daemon for all its jobs, and each job of `sluice run`. *out is owned:
 * sl_session_close() each, then free(). SL_ENOENT when there is neither.
 */
int sl_session_open_all(const struct sl_session_where *where, struct sl_session **out, size_t *n);

void sl_session_close(struct sl_session *s); // safe on a zeroed struct

// Fills in the job and sends.
int sl_session_send(struct sl_session *s, Sl__Control__Envelope *body);
int sl_session_subscribe(struct sl_session *s, bool progress, bool stats);

/*
 * Next message (free it with sl_bus_message_free). SL_OK, SL_EAGAIN after timeout_ms, SL_EABORTED
 * once an interrupt was seen, SL_EFAILED when the other side is gone (a daemon that does not hold
 * its lock any more, a broker that has ended).
 */
int sl_session_receive(struct sl_session *s, int timeout_ms, Sl__Control__Envelope **out);

// Sends and waits up to timeout_ms for the Answer, or for a word that it takes longer (Waiting),
// and then as long again; what comes in between is dropped. SL_OK with *json (owned: free(); may be
// NULL) and, when not NULL, *message (likewise); the answer's own code and message when it was a
// refusal; SL_ETIMEDOUT. s->answered tells a refusal from no answer.
int sl_session_ask(struct sl_session *s, Sl__Control__Envelope *body, int timeout_ms, char **json,
                   char **message);

// Records why the job does not do what it was asked for, and returns the code. The job's broker
// gives a reason, the daemon a sentence about "job 3 'x'": the job is named once.
int sl_session_refusal(const struct sl_session *s, int code, const char *message);

// What is told between now and the end. An error ends the waiting.
typedef int sl_session_on_message(void *ctx, const Sl__Control__Envelope *m);

/*
 * Waits for the end of a session's job, which must be subscribed to. until_ns 0: without end. look
 * may be NULL. SL_OK, SL_ETIMEDOUT (no message), SL_EABORTED, look's error, SL_EFAILED when the
 * other side has gone and nothing tells how the job ended. *last, when not NULL, gets the Finished
 * message if there was one (sl_bus_message_free), else NULL.
 */
int sl_session_await_end(struct sl_session *s, uint64_t until_ns, sl_session_on_message *look,
                         void *ctx, struct sl_job_end *out, Sl__Control__Envelope **last);

#endif
