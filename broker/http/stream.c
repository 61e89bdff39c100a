/*
 * stream.c - the event stream: one answer that never ends.
 *
 * libmicrohttpd asks a stream for bytes whenever its socket takes some. Where there are none the
 * connection is suspended, and the watch thread resumes it when the feed has a message for it. So
 * a stream costs nothing while nothing happens, and a browser that does not read costs only its
 * place in the feed: once that place is gone the connection is cut off.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "broker/http/http_internal.h"
#include "common/base/bits.h"
#include "common/base/version.h"

enum { BLOCK_BYTES = 16 << 10, RETRY_MS = 1000 };

// All guarded by the watch's lock.
struct sl_http_stream {
    struct sl_http_stream *next, *previous;
    struct sl_http *http;
    struct MHD_Connection *connection;
    struct sl_text first; // greeting and newest statistics, before the feed
    size_t first_at;
    struct sl_feed_place place;
    bool suspended;
    bool cut; // it was told to go
    bool foreign;
};

static ssize_t read_stream(void *ctx, uint64_t pos, char *out, size_t max)
{
    struct sl_http_stream *s = ctx;
    struct sl_watch *w = &s->http->watch;
    ssize_t n;
    pthread_mutex_lock(&w->lock);
    if (s->first_at < s->first.n) {
        n = (ssize_t)SL_MIN(max, s->first.n - s->first_at);
        memcpy(out, s->first.s + s->first_at, (size_t)n);
        s->first_at += (size_t)n;
        if (s->first_at == s->first.n)
            sl_text_fini(&s->first), s->first_at = 0;
    } else {
        n = sl_feed_read(&w->feed, &s->place, out, max);
        if (n < 0)
            n = MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (n == 0 && w->over) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else if (n == 0) {
        sl_mhd.MHD_suspend_connection(s->connection);
        s->suspended = true;
    }
    pthread_mutex_unlock(&w->lock);
    return n;
}

// Whether there is a place for one more; counted in any case.
static bool count_stream(struct sl_http *http, bool foreign)
{
    uint32_t all = atomic_fetch_add_explicit(&http->n_streams, 1, memory_order_relaxed);
    uint32_t of_others =
        atomic_fetch_add_explicit(&http->n_foreign_streams, foreign, memory_order_relaxed);
    return all < SL_HTTP_STREAMS && (!foreign || of_others < SL_HTTP_FOREIGN_STREAMS);
}

static void uncount_stream(struct sl_http *http, bool foreign)
{
    atomic_fetch_sub_explicit(&http->n_streams, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&http->n_foreign_streams, foreign, memory_order_relaxed);
}

static void close_stream(void *ctx)
{
    struct sl_http_stream *s = ctx;
    struct sl_http *http = s->http;
    pthread_mutex_lock(&http->watch.lock);
    if (s->previous)
        s->previous->next = s->next;
    else
        http->streams = s->next;
    if (s->next)
        s->next->previous = s->previous;
    uncount_stream(http, s->foreign);
    pthread_mutex_unlock(&http->watch.lock);
    sl_text_fini(&s->first);
    free(s);
}

static void put_event(struct sl_text *t, const char *kind, const char *json)
{
    sl_text_printf(t, "event: %s\ndata: ", kind);
    for (const char *c = json; *c; c++) // a line break between tokens would end the event
        sl_text_add(t, *c == '\n' || *c == '\r' ? " " : c, 1);
    sl_text_puts(t, "\n\n");
}

// Says which server this is, and the newest statistics of the jobs asked for. With the lock.
static void greet(struct sl_http_stream *s)
{
    const struct sl_http *http = s->http;
    const struct sl_job_stats *store = &http->watch.store;
    struct sl_text hello = {0};
    sl_text_printf(&hello, "{\"version\":\"%s\",\"daemon\":%s,\"steered\":%s}", SL_VERSION,
                   http->watch.daemon ? "true" : "false", http->has_token ? "true" : "false");
    sl_text_printf(&s->first, "retry: %d\n\n", RETRY_MS);
    put_event(&s->first, "hello", hello.s ? hello.s : "{}");
    sl_text_fini(&hello);
    for (uint32_t i = 0; i < store->n_jobs; i++)
        if (!store->jobs[i].over &&
            (!*s->place.key || strcmp(s->place.key, store->jobs[i].key) == 0))
            put_event(&s->first, "stats", store->jobs[i].line);
}

// Puts it into the list, greeted; NULL when there are too many or memory is out.
static struct sl_http_stream *add_stream(struct sl_http_request *r, const char *job)
{
    struct sl_http *http = r->http;
    struct sl_watch *w = &http->watch;
    struct sl_http_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->http = http;
    s->connection = r->connection;
    s->foreign = r->foreign;
    pthread_mutex_lock(&w->lock);
    const struct sl_job_stats_job *known = job ? sl_job_stats_find(&w->store, job) : NULL;
    sl_feed_join(&w->feed, known ? known->key : job ? job : "", &s->place);
    greet(s);
    s->next = http->streams;
    if (s->next)
        s->next->previous = s;
    http->streams = s;
    pthread_mutex_unlock(&w->lock);
    return s;
}

enum MHD_Result sl_http_stream_open(struct sl_http_request *r)
{
    struct sl_http *http = r->http;
    const char *job =
        sl_mhd.MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, "job");
    struct sl_http_stream *s = count_stream(http, r->foreign) ? add_stream(r, job) : NULL;
    if (!s) {
        uncount_stream(http, r->foreign);
        return sl_http_answer_error(r, MHD_HTTP_SERVICE_UNAVAILABLE,
                                    "%d event streams%s are open already; close a page",
                                    r->foreign ? SL_HTTP_FOREIGN_STREAMS : SL_HTTP_STREAMS,
                                    r->foreign ? " of other users" : "");
    }
    struct MHD_Response *response = sl_mhd.MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, s, close_stream);
    if (!response) {
        close_stream(s);
        return MHD_NO;
    }
    sl_http_add_headers(response);
    sl_mhd.MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    enum MHD_Result queued = sl_mhd.MHD_queue_response(r->connection, MHD_HTTP_OK, response);
    sl_mhd.MHD_destroy_response(response);
    sl_http_set_deadline(r->connection, http, 0);
    atomic_fetch_add_explicit(&http->n_requests, 1, memory_order_relaxed);
    return queued;
}

void sl_http_stream_wake(struct sl_http *http)
{
    for (struct sl_http_stream *s = http->streams; s; s = s->next)
        if (s->suspended && (http->watch.over || sl_feed_ready(&http->watch.feed, &s->place))) {
            s->suspended = false;
            sl_mhd.MHD_resume_connection(s->connection);
        }
}

void sl_http_stream_reap(struct sl_http *http)
{
    struct sl_watch *w = &http->watch;
    pthread_mutex_lock(&w->lock);
    for (struct sl_http_stream *s = http->streams; s; s = s->next)
        if (!s->cut && !s->suspended && s->place.at < w->feed.tail) {
            s->cut = true;
            sl_http_cut_off(s->connection, http);
        }
    pthread_mutex_unlock(&w->lock);
}
