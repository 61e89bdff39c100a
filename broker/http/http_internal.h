// http_internal.h - the server's own structures: connections, requests, event streams.
#ifndef SL_BROKER_HTTP_HTTP_INTERNAL_H
#define SL_BROKER_HTTP_HTTP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <microhttpd.h>

#include "broker/http/guard.h"
#include "broker/http/watch.h"
#include "common/base/late_library.h"

enum {
    SL_HTTP_CONNECTIONS = 256,
    SL_HTTP_STREAMS = 64,
    SL_HTTP_FOREIGN = 64,         // connections of other users, of those 256
    SL_HTTP_FOREIGN_STREAMS = 32, // that they may have, of those 64
    SL_HTTP_BODY_MAX = 16 << 10,
    SL_HTTP_CONNECTION_BYTES = 32 << 10, // request line and headers
    SL_HTTP_IDLE_S = 10,                 // without a byte
    SL_HTTP_REQUEST_S = 15,              // for the whole of a request, drop by drop
    SL_HTTP_ANSWER_S = 60,               // for the reading of an answer
};

// libmicrohttpd, which brings GnuTLS along: a broker without a page does without.
#define SL_HTTP_FUNCTIONS(X)                                                                       \
    X(MHD_add_response_header)                                                                     \
    X(MHD_create_response_from_buffer)                                                             \
    X(MHD_create_response_from_callback)                                                           \
    X(MHD_destroy_response)                                                                        \
    X(MHD_get_connection_info)                                                                     \
    X(MHD_lookup_connection_value)                                                                 \
    X(MHD_queue_response)                                                                          \
    X(MHD_resume_connection)                                                                       \
    X(MHD_start_daemon)                                                                            \
    X(MHD_stop_daemon)                                                                             \
    X(MHD_suspend_connection)
struct sl_http_library {
    SL_HTTP_FUNCTIONS(SL_LATE_POINTER)
};
extern struct sl_http_library sl_mhd; // to be used while there is a struct sl_http
int sl_http_library_open(void);

// One TCP connection, in a list that the deadlines are looked for in.
struct sl_http_connection {
    struct sl_http_connection *next, *previous;
    int fd;
    bool foreign;         // of another user, or of one that the kernel does not tell
    uint64_t deadline_ns; // 0: none
};

struct sl_http_stream; // stream.c

struct sl_http {
    struct MHD_Daemon *server;
    struct sl_watch watch;
    char url[64];
    bool has_token;
    bool open; // other users may read
    struct sl_guard_token token;
    struct sl_http_stream *streams;                // guarded by watch.lock
    _Atomic uint32_t n_streams, n_foreign_streams; // only counted
    _Atomic uint64_t n_requests, n_refused;

    pthread_mutex_t connections_lock; // guards the list and what is in it, and all below
    struct sl_http_connection *connections;
    uint32_t n_connections, n_foreign;
    uint32_t n_open;             // requests whose answer has not been sent, streams among them
    pthread_cond_t all_answered; // n_open is 0
};

enum sl_http_target {
    SL_TARGET_UNKNOWN,
    SL_TARGET_FILE, // of the page
    SL_TARGET_METRICS,
    SL_TARGET_JOBS,
    SL_TARGET_STREAM,
    SL_TARGET_JOB, // with `job`
    SL_TARGET_STATS,
    SL_TARGET_HISTORY,
    SL_TARGET_ACTION, // POST; with `job` and `action`
};

// One request, from its headers to the end of its answer.
struct sl_http_request {
    struct sl_watch_waiter waiter; // first: the waiter is the request
    struct sl_http *http;
    struct MHD_Connection *connection;
    enum sl_http_target target;
    bool foreign; // of another user, and without the token
    enum sl_control_call_kind action;
    char job[SL_CONTROL_CALL_JOB_BYTES];
    char body[SL_HTTP_BODY_MAX + 1];
    size_t n_body;
    bool asked; // the question is with the watch thread, or has come back
};

// --- answer.c ------------------------------------------------------------------------------------

// Answers with `n` bytes, which are compressed when they are many and the client can take it.
enum MHD_Result sl_http_answer(struct sl_http_request *r, unsigned status, const char *type,
                               const char *bytes, size_t n);
// The same with a text, which is freed; a text that failed is answered by 503.
enum MHD_Result sl_http_answer_text(struct sl_http_request *r, unsigned status, const char *type,
                                    struct sl_text *text);
// {"error": "..."}; for what is not below /api/ plain text.
enum MHD_Result sl_http_answer_error(struct sl_http_request *r, unsigned status, const char *fmt,
                                     ...) __attribute__((format(printf, 3, 4)));
// What every answer carries.
void sl_http_add_headers(struct MHD_Response *response);

// --- routes.c ------------------------------------------------------------------------------------

// What the path means; `action` is set for those that change a job.
void sl_http_route(const char *path, struct sl_http_request *r);
// Whether the request may go on: 0, or the HTTP status it was refused with (an answer is queued).
unsigned sl_http_admit(struct sl_http_request *r, const char *method, enum MHD_Result *queued);
// The request is complete: answers it, or suspends it until the watch thread has an answer.
enum MHD_Result sl_http_serve(struct sl_http_request *r, const char *path);

// --- stream.c ------------------------------------------------------------------------------------

enum MHD_Result sl_http_stream_open(struct sl_http_request *r);
// Resumes the streams for which there is something to send, or all at the end. With the lock.
void sl_http_stream_wake(struct sl_http *http);
// Cuts off those that do not read and have fallen behind.
void sl_http_stream_reap(struct sl_http *http);

// --- connection.c --------------------------------------------------------------------------------

void sl_http_connection_open(struct sl_http *http, struct MHD_Connection *connection,
                             void **context);
void sl_http_connection_close(struct sl_http *http, struct sl_http_connection *c); // NULL is fine
void sl_http_connections_reap(struct sl_http *http); // cuts off those whose time is over

// When this connection is cut off; 0 seconds: never.
void sl_http_set_deadline(struct MHD_Connection *connection, struct sl_http *http,
                          unsigned seconds);
void sl_http_cut_off(struct MHD_Connection *connection, struct sl_http *http);
// Whether it is of another user than this process's and root.
bool sl_http_is_foreign(struct MHD_Connection *connection);

#endif
