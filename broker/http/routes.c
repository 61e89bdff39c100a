/*
 * routes.c - what each path means, which requests are allowed, and the answers.
 *
 * What the watch thread has heard is answered at once. What only the daemon or the job knows (list,
 * description, everything that changes a job) is asked on the control bus: the connection is
 * suspended meanwhile, and this file is entered a second time with the reply.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/http/http_internal.h"
#include "broker/http/prometheus.h"
#include "broker/page/page.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/text/json.h"

static const char json_type[] = "application/json";

// --- paths ---------------------------------------------------------------------------------------

static const struct {
    const char *name;
    enum sl_http_target target;
    enum sl_control_call_kind action;
} below_job[] = {
    {"/stats", SL_TARGET_STATS, 0},
    {"/history", SL_TARGET_HISTORY, 0},
    {"/scale", SL_TARGET_ACTION, SL_CONTROL_CALL_SCALE},
    {"/pause", SL_TARGET_ACTION, SL_CONTROL_CALL_PAUSE},
    {"/resume", SL_TARGET_ACTION, SL_CONTROL_CALL_RESUME},
    {"/stop", SL_TARGET_ACTION, SL_CONTROL_CALL_STOP},
};

// "ID" or "ID/what".
static void route_job(const char *rest, struct sl_http_request *r)
{
    size_t n = strlen(rest);
    r->target = SL_TARGET_JOB;
    for (size_t i = 0; i < sizeof below_job / sizeof *below_job; i++) {
        size_t tail = strlen(below_job[i].name);
        if (n <= tail || strcmp(rest + n - tail, below_job[i].name) != 0)
            continue;
        r->target = below_job[i].target;
        r->action = below_job[i].action;
        n -= tail;
        break;
    }
    if (n == 0 || n >= sizeof r->job || memchr(rest, '/', n)) {
        r->target = SL_TARGET_UNKNOWN;
        return;
    }
    memcpy(r->job, rest, n);
    r->job[n] = '\0';
}

void sl_http_route(const char *path, struct sl_http_request *r)
{
    static const char jobs[] = "/api/jobs/";
    if (strcmp(path, "/metrics") == 0)
        r->target = SL_TARGET_METRICS;
    else if (strcmp(path, "/api/jobs") == 0)
        r->target = SL_TARGET_JOBS;
    else if (strcmp(path, "/api/stream") == 0)
        r->target = SL_TARGET_STREAM;
    else if (strncmp(path, jobs, sizeof jobs - 1) == 0)
        route_job(path + sizeof jobs - 1, r);
    else if (strncmp(path, "/api", 4) == 0)
        r->target = SL_TARGET_UNKNOWN;
    else
        r->target = SL_TARGET_FILE;
}

// --- who may ask ---------------------------------------------------------------------------------

static const char *header(const struct sl_http_request *r, const char *name)
{
    return sl_mhd.MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

static bool is_read(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

// A body that is too long, or does not say how long it is, is not read at all.
static unsigned check_length(const struct sl_http_request *r)
{
    const char *length = header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    char *end;
    if (header(r, MHD_HTTP_HEADER_TRANSFER_ENCODING))
        return MHD_HTTP_LENGTH_REQUIRED;
    if (!length)
        return 0;
    unsigned long long n = strtoull(length, &end, 10);
    return n > SL_HTTP_BODY_MAX ? MHD_HTTP_CONTENT_TOO_LARGE : 0;
}

// Whether the request has the token: in its header, or, as a browser's event stream can send no
// header, among its arguments.
static bool has_token(const struct sl_http_request *r)
{
    const char *given = header(r, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!r->http->has_token)
        return false;
    if (given || r->target != SL_TARGET_STREAM)
        return sl_guard_token_fits(&r->http->token, given);
    char bearer[SL_GUARD_TOKEN_MAX + 16];
    given = sl_mhd.MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, "token");
    int n = snprintf(bearer, sizeof bearer, "Bearer %s", given ? given : "");
    return given && n < (int)sizeof bearer && sl_guard_token_fits(&r->http->token, bearer);
}

// Another user of this machine, from whom jobs are kept. The page's own files tell nothing.
static bool is_kept_out(const struct sl_http_request *r)
{
    return r->foreign && !r->http->open && r->target != SL_TARGET_FILE;
}

static unsigned check(const struct sl_http_request *r, const char *method, const char **why)
{
    const char *host = header(r, MHD_HTTP_HEADER_HOST);
    bool post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
    unsigned status = check_length(r);
    *why = status == MHD_HTTP_LENGTH_REQUIRED ? "a body needs a Content-Length"
                                              : "the body is longer than 16 KiB";
    if (status)
        return status;
    if (!sl_guard_host_is_ours(host)) {
        *why = "the Host header names another machine; open http://127.0.0.1:PORT/ or "
               "http://localhost:PORT/";
        return MHD_HTTP_FORBIDDEN;
    }
    if (!sl_guard_origin_is_ours(header(r, MHD_HTTP_HEADER_ORIGIN), host)) {
        *why = "a page of another origin may not ask here";
        return MHD_HTTP_FORBIDDEN;
    }
    if (r->target == SL_TARGET_ACTION ? !post : !is_read(method)) {
        *why = r->target == SL_TARGET_ACTION ? "this changes a job: send it with POST and the token"
                                             : "this can only be read: send GET or HEAD";
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    }
    if (post && !r->http->has_token) {
        *why = "this server is read-only: start it with --http-token FILE to steer jobs from here";
        return MHD_HTTP_FORBIDDEN;
    }
    if (is_kept_out(r) && r->http->has_token) {
        *why = "these jobs are another user's: send 'Authorization: Bearer TOKEN' with the text of "
               "the file that --http-token names (a browser: open the page with #token=TOKEN)";
        return MHD_HTTP_UNAUTHORIZED;
    }
    if (is_kept_out(r)) {
        *why = "these jobs are another user's, or this system does not say whose a connection is: "
               "start the server with --http-token FILE and send that token, or with --http-open "
               "to let every user of this machine read";
        return MHD_HTTP_FORBIDDEN;
    }
    if (post && !has_token(r)) {
        *why = "the token is missing or wrong: send 'Authorization: Bearer TOKEN' with the text "
               "of the file that --http-token names";
        return MHD_HTTP_UNAUTHORIZED;
    }
    return 0;
}

unsigned sl_http_admit(struct sl_http_request *r, const char *method, enum MHD_Result *queued)
{
    const char *why;
    r->foreign = sl_http_is_foreign(r->connection) && !has_token(r);
    unsigned status = check(r, method, &why);
    if (status == 0)
        return 0;
    atomic_fetch_add_explicit(&r->http->n_refused, 1, memory_order_relaxed);
    *queued = sl_http_answer_error(r, status, "%s", why);
    return status;
}

// --- asking on the bus ---------------------------------------------------------------------------

static void wake_request(struct sl_watch_waiter *waiter)
{
    struct sl_http_request *r = (struct sl_http_request *)waiter;
    sl_mhd.MHD_resume_connection(r->connection);
}

static enum MHD_Result ask(struct sl_http_request *r, struct sl_control_call *q)
{
    struct sl_http *http = r->http;
    if (http->watch.daemon) // a job's own broker has but one job, however it is called
        snprintf(q->job, sizeof q->job, "%s", r->job);
    r->asked = true;
    r->waiter.wake = wake_request;
    sl_http_set_deadline(r->connection, http, 0);
    sl_mhd.MHD_suspend_connection(r->connection);
    sl_watch_ask(&http->watch, q, &r->waiter);
    return MHD_YES;
}

static unsigned status_of(int code)
{
    switch (code) {
    case SL_OK: return MHD_HTTP_OK;
    case SL_ENOENT: return MHD_HTTP_NOT_FOUND;
    case SL_ETIMEDOUT: return MHD_HTTP_GATEWAY_TIMEOUT;
    case SL_EAGAIN:
    case SL_ENOMEM:
    case SL_EABORTED: return MHD_HTTP_SERVICE_UNAVAILABLE;
    default: return MHD_HTTP_CONFLICT;
    }
}

static enum MHD_Result answer_failure(struct sl_http_request *r)
{
    const struct sl_reply *reply = &r->waiter.reply;
    return sl_http_answer_error(r, status_of(reply->code), "%s",
                                reply->message ? reply->message : sl_strerror(reply->code));
}

// --- answers -------------------------------------------------------------------------------------

static enum MHD_Result serve_file(struct sl_http_request *r, const char *path)
{
    const struct sl_page_file *file = sl_page_find(path);
    if (!file)
        return sl_http_answer_error(r, MHD_HTTP_NOT_FOUND,
                                    "nothing is at '%.200s': the page is at /, metrics at "
                                    "/metrics, JSON at /api/jobs",
                                    path);
    return sl_http_answer(r, MHD_HTTP_OK, file->type, file->bytes, file->n);
}

static enum MHD_Result serve_metrics(struct sl_http_request *r)
{
    struct sl_http *http = r->http;
    struct sl_text text = {0};
    struct sl_prometheus_server server = {
        .requests = atomic_load_explicit(&http->n_requests, memory_order_relaxed),
        .refused = atomic_load_explicit(&http->n_refused, memory_order_relaxed),
        .streams = atomic_load_explicit(&http->n_streams, memory_order_relaxed),
    };
    pthread_mutex_lock(&http->connections_lock);
    server.connections = http->n_connections;
    server.open = http->n_open;
    pthread_mutex_unlock(&http->connections_lock);
    pthread_mutex_lock(&http->watch.lock);
    sl_prometheus_write(&http->watch.store, sl_now_ns(), &server, &text);
    pthread_mutex_unlock(&http->watch.lock);
    return sl_http_answer_text(r, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", &text);
}

// A job's own broker knows its job as "0" and by its name alone.
static bool is_only_job(struct sl_http_request *r)
{
    struct sl_watch *w = &r->http->watch;
    pthread_mutex_lock(&w->lock);
    bool known = w->daemon || w->store.n_jobs == 0 || sl_job_stats_find(&w->store, r->job);
    pthread_mutex_unlock(&w->lock);
    return known || strcmp(r->job, "0") == 0;
}

// Statistics and history of a job, from what was heard. A job that starts is known to the broker
// before its first statistics are heard: its history is empty then, and statistics it has none.
static enum MHD_Result serve_known(struct sl_http_request *r)
{
    struct sl_control_call q = {.kind = SL_CONTROL_CALL_DESCRIBE};
    struct sl_watch *w = &r->http->watch;
    struct sl_text text = {0};
    pthread_mutex_lock(&w->lock);
    const struct sl_job_stats_job *job = sl_job_stats_find(&w->store, r->job);
    if (job && r->target == SL_TARGET_STATS)
        sl_text_puts(&text, job->line);
    else if (job)
        sl_stats_history_write(job->history, job->name, &text);
    pthread_mutex_unlock(&w->lock);
    if (!job && r->target == SL_TARGET_HISTORY && is_only_job(r)) {
        if (!r->asked)
            return ask(r, &q);
        if (r->waiter.reply.code != SL_OK)
            return answer_failure(r);
        cJSON *describe = cJSON_Parse(r->waiter.reply.json ? r->waiter.reply.json : "");
        const char *name = sl_json_string(describe, "job");
        sl_stats_history_write(NULL, *name ? name : r->job, &text);
        cJSON_Delete(describe);
    } else if (!job)
        return sl_http_answer_error(r, MHD_HTTP_NOT_FOUND,
                                    "no statistics of a job '%s': it does not run, or has only "
                                    "just been started; /api/jobs lists what there is",
                                    r->job);
    return sl_http_answer_text(r, MHD_HTTP_OK, json_type, &text);
}

static void put_member(struct sl_text *t, const cJSON *tree, const char *path, const char *name)
{
    const char *string = cJSON_GetStringValue(sl_json_at(tree, path));
    sl_text_printf(t, ",\"%s\":", name);
    if (string)
        sl_text_json_string(t, string);
    else
        sl_text_json_number(t, sl_json_number(tree, path));
}

// The list of a job's own broker: its job, as it describes itself.
static void put_only_job(struct sl_text *t, const cJSON *describe)
{
    static const char *const members[][2] = {
        {"job", "name"},
        {"state", "state"},
        {"output", "output"},
        {"pid", "pid"},
        {"started", "started"},
        {"stats.epoch", "epoch"},
        {"stats.samplers", "samplers"},
        {"stats.trainers", "trainers"},
        {"stats.loss", "loss"},
        {"stats.seconds_left", "seconds_left"},
    };
    double epoch = sl_json_number(describe, "stats.epoch");
    double epochs = sl_json_number(describe, "stats.epochs");
    double done = sl_json_number(describe, "stats.done");
    double total = sl_json_number(describe, "stats.total");
    const char *phase = sl_json_string(describe, "stats.phase");
    if (isnan(epochs))
        epochs = sl_json_number(describe, "config.epochs");
    double part = strcmp(phase, "train") == 0 && total > 0 ? done / total : 0;
    sl_text_puts(t, "{\"schema\":\"sluice.jobs/1\",\"daemon\":null,\"jobs\":[{\"id\":null");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        put_member(t, describe, members[i][0], members[i][1]);
    sl_text_puts(t, ",\"epochs\":");
    sl_text_json_number(t, epochs);
    sl_text_puts(t, ",\"progress\":");
    sl_text_json_number(t, epochs > 0 ? (epoch + part) / epochs : NAN);
    sl_text_puts(t, ",\"position\":null,\"why\":null,\"submitted\":null,\"ended\":null,"
                    "\"exit_status\":null,\"message\":null,\"resumed\":0}]}");
}

static enum MHD_Result serve_list(struct sl_http_request *r)
{
    struct sl_control_call q = {0};
    struct sl_text text = {0};
    q.kind = r->http->watch.daemon ? SL_CONTROL_CALL_LIST : SL_CONTROL_CALL_DESCRIBE;
    if (!r->asked)
        return ask(r, &q);
    if (r->waiter.reply.code != SL_OK)
        return answer_failure(r);
    const char *json = r->waiter.reply.json ? r->waiter.reply.json : "";
    if (r->http->watch.daemon)
        return sl_http_answer(r, MHD_HTTP_OK, json_type, json, strlen(json));
    cJSON *describe = cJSON_Parse(json);
    put_only_job(&text, describe);
    cJSON_Delete(describe);
    return sl_http_answer_text(r, MHD_HTTP_OK, json_type, &text);
}

static enum MHD_Result serve_job(struct sl_http_request *r)
{
    struct sl_control_call q = {.kind = SL_CONTROL_CALL_DESCRIBE};
    if (!r->asked)
        return ask(r, &q);
    if (r->waiter.reply.code != SL_OK)
        return answer_failure(r);
    const char *json = r->waiter.reply.json ? r->waiter.reply.json : "{}";
    return sl_http_answer(r, MHD_HTTP_OK, json_type, json, strlen(json));
}

// --- actions -------------------------------------------------------------------------------------

static enum MHD_Result serve_action(struct sl_http_request *r)
{
    const struct sl_reply *reply = &r->waiter.reply;
    struct sl_control_call q = {.kind = r->action};
    struct sl_text text = {0};
    char why[256];
    if (!r->asked) {
        if (!sl_control_call_read_body(r->body, r->n_body, &q, why, sizeof why))
            return sl_http_answer_error(r, MHD_HTTP_BAD_REQUEST, "%s", why);
        return ask(r, &q);
    }
    if (reply->code != SL_OK && reply->code != SL_EFAILED && reply->code != SL_EINVAL &&
        !reply->json)
        return answer_failure(r);
    if (r->action == SL_CONTROL_CALL_SCALE && reply->json) {
        sl_text_puts(&text, reply->json);
    } else {
        sl_text_printf(&text, "{\"ok\":%s,\"message\":", reply->code == SL_OK ? "true" : "false");
        sl_text_json_string(&text, reply->message ? reply->message : sl_strerror(reply->code));
        sl_text_puts(&text, "}");
    }
    return sl_http_answer_text(r, status_of(reply->code), json_type, &text);
}

enum MHD_Result sl_http_serve(struct sl_http_request *r, const char *path)
{
    bool of_job = r->target == SL_TARGET_JOB || r->target == SL_TARGET_ACTION;
    if (of_job && !is_only_job(r))
        return sl_http_answer_error(r, MHD_HTTP_NOT_FOUND,
                                    "no job '%s': /api/jobs lists what there is", r->job);
    switch (r->target) {
    case SL_TARGET_FILE: return serve_file(r, path);
    case SL_TARGET_METRICS: return serve_metrics(r);
    case SL_TARGET_JOBS: return serve_list(r);
    case SL_TARGET_STREAM: return sl_http_stream_open(r);
    case SL_TARGET_JOB: return serve_job(r);
    case SL_TARGET_STATS:
    case SL_TARGET_HISTORY: return serve_known(r);
    case SL_TARGET_ACTION: return serve_action(r);
    default:
        return sl_http_answer_error(r, MHD_HTTP_NOT_FOUND,
                                    "nothing is at '%.200s': known are /api/jobs, /api/jobs/ID, "
                                    "/api/jobs/ID/stats, /api/jobs/ID/history, /api/stream, and "
                                    "POST /api/jobs/ID/scale, pause, resume, stop",
                                    path);
    }
}
