/*
 * http.h - the page, the metrics and a JSON interface on a loopback port.
 *
 * The server is a client of the control bus like any other: a thread of its own subscribes to
 * everything, keeps the newest state of each job (watch.h), and libmicrohttpd's thread serves from
 * that. The broker's loop never waits for a browser, and whatever a browser sends cannot reach it
 * but as a control message.
 *
 *   GET  /                          the page (and /page.js, /page.css)
 *   GET  /metrics                   Prometheus text
 *   GET  /api/jobs                  sluice.jobs/1
 *   GET  /api/jobs/ID               sluice.describe/1 (ID: number or name)
 *   GET  /api/jobs/ID/stats         the newest sluice.stats/1
 *   GET  /api/jobs/ID/history       sluice.history/1: the last quarter of an hour
 *   GET  /api/stream                server-sent events: hello, stats, event, epoch, state, finished
 *   POST /api/jobs/ID/scale|pause|resume|stop   with the token; answered by 200, or 409 and why
 *
 * Who may ask is in guard.h, what is asked for and answered in README.md.
 */
#ifndef SL_BROKER_HTTP_HTTP_H
#define SL_BROKER_HTTP_HTTP_H

#include <stdbool.h>
#include <stdint.h>

struct sl_http;

struct sl_http_options {
    const char *listen;     // "8080", "0" (any free port) or "127.0.0.1:8080"
    const char *token_file; // NULL: read-only
    bool open;              // other users of this machine may read without it
    const char *endpoint;   // of the control bus
    const char *key;        // of a job's bus; NULL: a daemon's
    unsigned last_word_ms;  // see watch.h; 0: LAST_WORD_MS. For tests that outlast it
};

// Starts the threads. SL_EINVAL (a listen text that is none, an address that is not loopback),
// SL_EEXIST (the port is taken), SL_EACCESS (token file).
int sl_http_start(const struct sl_http_options *options, struct sl_http **out);
const char *sl_http_url(const struct sl_http *http); // "http://127.0.0.1:8080/"
// Sends what is still to be said, and ends. Returns how many answers were cut off, since who asked
// did not read them within two seconds. NULL is fine.
uint32_t sl_http_stop(struct sl_http *http);

#endif
