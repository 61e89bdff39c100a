/*
 * nodes.c - the other nodes of a job: what its broker does about them.
 *
 * Each node has a broker that runs the whole plan, and a link (link/loop.h), which is started
 * before any worker: without a world there is nothing to do. Brokers meet in notes only:
 *
 *      CHECKPOINT   the first node says where the job goes on, and all start their workers
 *      FITS         a node is ready to begin, and what its trainers are on, which must be alike.
 *                   The first waits for all of them, so that a job that one of them refuses leaves
 *                   nothing anywhere
 *      BEGUN        its run directory is there: the others make a folder in it for their logs, and
 *                   begin
 *      END          how the job ended on a node. Done: the others will be as well, each by itself,
 *                   for all do the same. Stopped or failed: so are they
 *      WARNING      what the user of a node that is not the first should know
 *
 * A launcher that sees a process of one node die ends all of them, before their brokers can know.
 * So one that is stopped waits until all have said END: a node that has failed gives the reason.
 * One whose link has died cannot: it is named, with what its log says where that is within reach.
 *
 * What clients ask the first node's broker of all nodes, `scale` and `trace`, goes to the brokers
 * of all of them, its own too, with a number: to a broker its link is a client like any other
 * (link/relay.h). Their answers come back with the node and the number.
 *
 * Only the first node writes results, and its link leaves after they are written: until then the
 * other nodes wait for it, since a launcher ends all once one has left.
 */
#include "broker/job/job.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/sharding/gpus.h"
#include "broker/workers/run_jobs.h"
#include "common/arena/nodes.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"

// For the link to leave together with those of all other nodes: another node may still evaluate, or
// write to a slow file system, and one that is silent or whose broker stands still ends this sooner
// (link/loop.h). The second where this node is left alone by what started it.
enum { LEAVE_MS = 3600 * 1000, STOPPED_MS = SL_NODES_HOLD_MS };
enum { FIGURES_MS = 1000 };  // for the last rows of all nodes to come
enum { STOPPED_LOOKS = 10 }; // a second apart, at a link that stands still
enum { DOUBT_MS = 500 }; // a node that has said no END is told of; Open MPI kills after a second

static const char *host_of(const struct sl_job *job, uint32_t node)
{
    return node < job->nodes.n && job->nodes.hosts ? job->nodes.hosts + node * SL_NODES_HOST_BYTES
                                                   : "";
}

static const char *own_host(const struct sl_job *job, char buf[SL_NODES_HOST_BYTES])
{
    if (job->nodes.hosts)
        return host_of(job, job->nodes.rank);
    buf[0] = buf[SL_NODES_HOST_BYTES - 1] = '\0';
    gethostname(buf, SL_NODES_HOST_BYTES - 1);
    return buf;
}

static struct sl_pool_worker *link_of(struct sl_job *job)
{
    return job->nodes.pool.list; // NULL where there is none
}

// --- logs of other nodes -------------------------------------------------------------------------

#define FAILED_HERE "the job has failed here: "

static int open_log_of(const struct sl_job *job, uint32_t node)
{
    char path[sizeof job->nodes.path + 16];
    snprintf(path, sizeof path, "%s/" SL_RUNDIR_OF_NODE "%u/broker.log", job->config.output, node);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

// What is there is of earlier runs.
static void look_at_logs(struct sl_job *job)
{
    for (uint32_t i = 1; i < job->nodes.n; i++) {
        const int fd = open_log_of(job, i);
        job->nodes.log_at[i] = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
        if (fd >= 0)
            close(fd);
    }
}

// Why a node has failed, by its log; "": that does not say it, or is on that node alone.
static char *read_reason(const struct sl_job *job, uint32_t node, char *buf, size_t bytes)
{
    char text[8192], host[SL_NODES_HOST_BYTES + 8];
    const int fd = job->running_ns && node > 0 ? open_log_of(job, node) : -1;
    buf[0] = '\0';
    if (fd < 0)
        return buf;
    const off_t end = lseek(fd, 0, SEEK_END), from = end - (off_t)sizeof text + 1;
    const ssize_t n = pread(fd, text, sizeof text - 1, SL_MAX(from, job->nodes.log_at[node]));
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, FAILED_HERE);
    if (!at || !strchr(at, '\n'))
        return buf;
    at += sizeof FAILED_HERE - 1;
    snprintf(host, sizeof host, "host %s: ", host_of(job, node));
    at += strncmp(at, host, strlen(host)) == 0 ? strlen(host) : 0;
    snprintf(buf, bytes, "%.*s", (int)strcspn(at, "\n"), at);
    return buf;
}

// --- notes ---------------------------------------------------------------------------------------

static void say(struct sl_job *job, Sl__Control__NoteKind kind, int status, const char *text)
{
    struct sl_pool_worker *link = link_of(job);
    Sl__Control__Note note = SL__CONTROL__NOTE__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    if (!link || !link->alive || !link->greeted)
        return;
    note.kind = kind;
    note.status = status;
    note.text = (char *)text; // only read
    e.body_case = SL__CONTROL__ENVELOPE__BODY_NOTE;
    e.note = &note;
    sl_bus_send(job->bus, &link->peer, &e);
}

static int go_on_from(struct sl_job *job, const char *name)
{
    if (name[0]) {
        int rc = sl_checkpoint_open(job->config.output, name, &job->resumed);
        if (rc < 0)
            return sl_fail_prefix(rc,
                                  "host %s goes on from checkpoint '%s', which has to be in the "
                                  "output directory of each node",
                                  host_of(job, 0), name);
    }
    return sl_job_start_workers(job);
}

static int open_logs(struct sl_job *job)
{
    snprintf(job->nodes.path, sizeof job->nodes.path, "%s/" SL_RUNDIR_OF_NODE "%u",
             job->config.output, job->nodes.rank);
    SL_TRY(sl_rundir_make_folder(job->nodes.path));
    job->files.directory = job->config.output;
    SL_TRY(sl_writer_start(&job->files.writer));
    SL_TRY(sl_stream_open(&job->log.stream, job->files.writer, job->nodes.path));
    SL_TRY(sl_stream_open(&link_of(job)->log, job->files.writer, job->nodes.path));
    for (uint32_t i = 0; i < job->workers.n; i++)
        SL_TRY(sl_stream_open(&job->workers.list[i].log, job->files.writer, job->nodes.path));
    return SL_OK;
}

static const char *trainers_of(const struct sl_job *job, char buf[SL_GPUS_TRAINERS_BYTES])
{
    static const struct sl_gpu_report none;
    return sl_gpus_trainers(&job->config,
                            sl_config_gpus(&job->config) ? &sl_gpus_known()->report : &none, buf);
}

// Sums of other devices differ in their last bits. So would evaluations over all neighbours, which
// each node makes by itself, and what it concludes from them.
static int on_fits(struct sl_job *job, const Sl__Control__Note *note)
{
    char own[SL_GPUS_TRAINERS_BYTES];
    trainers_of(job, own);
    if (strcmp(own, note->text) != 0)
        return sl_fail(SL_EINVAL,
                       "devices: host %s (rank %u) trains on %s, wanted %s, as on host %s (rank "
                       "%u): results would differ in their last bits: start the job on nodes whose "
                       "trainers are alike, or set devices to \"cpu\"",
                       host_of(job, note->node), note->node, note->text, own,
                       host_of(job, job->nodes.rank), job->nodes.rank);
    if (strstr(own, SL_GPUS_AND))
        return sl_fail(SL_EINVAL,
                       "devices: the nodes train on %s, wanted one kind: sums on the others differ "
                       "in their last bits, by who had the batch: let fewer devices train, of one "
                       "kind, which are the last ones (allocation.trainers, and "
                       "allocation.switching: false)",
                       own);
    job->nodes.fit++;
    sl_job_go_on(job);
    return SL_OK;
}

static int on_begun(struct sl_job *job)
{
    SL_TRY(open_logs(job));
    look_at_logs(job);
    job->nodes.begun = true;
    sl_job_go_on(job);
    return SL_OK;
}

// The first node that has not said how the job ended there, of one that was stopped; n: all have.
static uint32_t missing_node(const struct sl_job *job)
{
    uint32_t i = 0;
    if (job->outcome != SL_OUTCOME_STOPPED || !job->nodes.met || job->nodes.killed)
        return job->nodes.n;
    while (i < job->nodes.n && job->nodes.ended[i])
        i++;
    return i;
}

// What is heard once the job ends here: why it was stopped, or that one that is done does not end
// well.
static void learn_cause(struct sl_job *job, const char *what)
{
    if (job->outcome == SL_OUTCOME_DONE)
        snprintf(job->message, sizeof job->message, "at the end%s: %.1900s",
                 job->nodes.concluded && !sl_job_follows(job) ? ", with all results written" : "",
                 what);
    else if (job->outcome == SL_OUTCOME_STOPPED && !job->nodes.concluded)
        snprintf(job->message, sizeof job->message, "%.2000s", what);
    else
        return;
    job->nodes.lost |= job->outcome == SL_OUTCOME_STOPPED && job->running_ns;
    job->outcome = SL_OUTCOME_FAILED;
}

static void on_end(struct sl_job *job, const Sl__Control__Note *note)
{
    char text[sizeof job->message + SL_NODES_HOST_BYTES + 32];
    snprintf(text, sizeof text, "host %s (rank %u): %s", host_of(job, note->node), note->node,
             note->text);
    if (note->node < job->nodes.n && job->nodes.ended)
        job->nodes.ended[note->node] = true;
    if (note->status == SL_OUTCOME_DONE)
        return;
    job->nodes.broken |= note->status < 0;
    if (job->state < SL_JOB_FINISHING) {
        job->nodes.lost |= note->status != SL_OUTCOME_STOPPED && job->state == SL_JOB_RUNNING;
        sl_job_end(job,
                   note->status == SL_OUTCOME_STOPPED ? SL_OUTCOME_STOPPED
                   : note->status == SL_OUTCOME_REFUSED && job->state == SL_JOB_STARTING
                       ? SL_OUTCOME_REFUSED
                       : SL_OUTCOME_FAILED,
                   "%s", text);
    } else if (note->status != SL_OUTCOME_STOPPED) {
        learn_cause(job, text);
    }
    // The world ends by force, this process's client with it: it is told before.
    if (job->nodes.broken && job->nodes.told_to_leave && !job->told)
        sl_job_emit_finished(job);
}

static void on_warning(struct sl_job *job, const Sl__Control__Note *note)
{
    char text[sizeof job->message + SL_NODES_HOST_BYTES + 32];
    snprintf(text, sizeof text, "host %s (rank %u): %s", host_of(job, note->node), note->node,
             note->text);
    if (!sl_job_follows(job) && !job->nodes.concluded)
        sl_job_warn(job, text);
}

static void on_note(struct sl_job *job, const Sl__Control__Note *note)
{
    int rc = SL_OK;
    if (note->kind == SL__CONTROL__NOTE_KIND__NOTE_END)
        on_end(job, note);
    if (note->kind == SL__CONTROL__NOTE_KIND__NOTE_WARNING)
        on_warning(job, note);
    if (job->state >= SL_JOB_FINISHING)
        return;
    switch (note->kind) {
    case SL__CONTROL__NOTE_KIND__NOTE_CHECKPOINT: rc = go_on_from(job, note->text); break;
    case SL__CONTROL__NOTE_KIND__NOTE_BEGUN: rc = on_begun(job); break;
    case SL__CONTROL__NOTE_KIND__NOTE_FITS: rc = on_fits(job, note); break;
    default: break; // of a newer one, which the link has refused
    }
    if (rc < 0)
        sl_job_end(job, job->state == SL_JOB_STARTING ? SL_OUTCOME_REFUSED : SL_OUTCOME_FAILED,
                   "%s", sl_error_message());
}

// --- the link ------------------------------------------------------------------------------------

static int meet(struct sl_job *job, const Sl__Control__Hello *hello)
{
    struct sl_job_nodes *nodes = &job->nodes;
    if (hello->nodes == 0 || hello->n_hosts != hello->nodes || hello->node >= hello->nodes)
        return sl_fail(SL_EPROTO, "the link says that it is node %u of %u with %zu hosts",
                       hello->node, hello->nodes, hello->n_hosts);
    if (hello->node != job->options.node)
        return sl_fail(SL_EPROTO,
                       "the launcher says that this is process %u, MPI that it is rank %u: start "
                       "the job with the launcher of that MPI",
                       job->options.node, hello->node);
    SL_TRY(sl_config_check_nodes(&job->config, hello->nodes));
    nodes->hosts = calloc(hello->nodes, SL_NODES_HOST_BYTES);
    nodes->ended = calloc(hello->nodes, sizeof *nodes->ended);
    nodes->log_at = calloc(hello->nodes, sizeof *nodes->log_at);
    if (!nodes->hosts || !nodes->ended || !nodes->log_at)
        return sl_fail(SL_ENOMEM, "%u nodes: no memory", hello->nodes);
    for (uint32_t i = 0; i < hello->nodes; i++)
        snprintf(nodes->hosts + i * SL_NODES_HOST_BYTES, SL_NODES_HOST_BYTES, "%s",
                 hello->hosts[i]);
    nodes->n = hello->nodes;
    sl_config_take_nodes(&job->config, nodes->n);
    nodes->rank = hello->node;
    nodes->met = true;
    sl_joblog_write(&job->log, SL_LOG_INFO, "%u nodes, alike; this is %u, host %s", nodes->n,
                    nodes->rank, host_of(job, nodes->rank));
    if (sl_job_follows(job))
        return SL_OK; // its workers wait for where the first node goes on
    say(job, SL__CONTROL__NOTE_KIND__NOTE_CHECKPOINT, 0,
        job->resumed.path[0] ? job->resumed.name : "");
    return sl_job_start_workers(job);
}

static void on_hello(struct sl_job *job, const struct sl_bus_peer *peer,
                     const Sl__Control__Hello *hello)
{
    struct sl_pool_worker *link = link_of(job);
    if (!link->alive || link->greeted || job->state >= SL_JOB_FINISHING)
        return;
    link->greeted = link->attached = true; // it listens from here on
    link->peer = *peer;
    sl_stream_clear_last(&link->log); // warnings of the beginning explain no death
    if (meet(job, hello) < 0)
        sl_job_end(job, SL_OUTCOME_REFUSED, "%s", sl_error_message());
}

// What is not going to be well the next time either.
static bool is_refusal(int code)
{
    return code == SL_EINVAL || code == SL_EPROTO || code == SL_ENOENT || code == SL_EUNSUPPORTED ||
           code == SL_ECHANGED;
}

// The link has failed, or is dead.
static void fail(struct sl_job *job, int code, const char *message)
{
    job->nodes.broken = true;
    if (job->state >= SL_JOB_FINISHING) {
        // Of one that was stopped on all nodes it is a consequence.
        if (job->outcome != SL_OUTCOME_STOPPED || missing_node(job) < job->nodes.n)
            learn_cause(job, message);
        return;
    }
    job->nodes.lost |= job->state == SL_JOB_RUNNING;
    sl_job_end(job,
               job->state == SL_JOB_STARTING && is_refusal(code) ? SL_OUTCOME_REFUSED
                                                                 : SL_OUTCOME_FAILED,
               "%s", message);
}

// --- what clients ask of all nodes ---------------------------------------------------------------

static int ask(struct sl_job *job, uint32_t node, uint64_t request, Sl__Control__Envelope *e)
{
    const struct sl_pool_worker *link = link_of(job);
    struct sl_bus_peer peer = link->peer;
    if (!link->alive || !link->greeted)
        return SL_EAGAIN; // the job ends, and who asks is told
    peer.request = request;
    e->node = node;
    return sl_bus_send(job->bus, &peer, e);
}

static void ask_scale(void *ctx, uint32_t node, uint64_t request, Sl__Control__Scale *scale)
{
    Sl__Control__Envelope e = SL_ENVELOPE(SCALE, scale, scale);
    ask(ctx, node, request, &e);
}

static void ask_trace(void *ctx, uint32_t node, uint64_t request, Sl__Control__Trace *trace)
{
    Sl__Control__Envelope e = SL_ENVELOPE(TRACE, trace, trace);
    ask(ctx, node, request, &e);
}

static int tell(void *ctx, const struct sl_bus_peer *client, Sl__Control__Envelope *e)
{
    struct sl_job *job = ctx;
    return sl_bus_send(job->bus, client, e);
}

// Who watches the job sees the first node's own change anyway.
static void on_scaled(void *ctx, bool ok, const char *text)
{
    struct sl_job *job = ctx;
    sl_joblog_write(&job->log, SL_LOG_INFO, "split of the nodes: %s", text);
    sl_timeline_emit(&job->timeline, "scale", ok, "%s", text);
}

static const char *host_at(void *ctx, uint32_t node)
{
    return host_of(ctx, node);
}

void sl_job_nodes_wire(struct sl_job *job)
{
    job->nodes.scale = (struct sl_node_scale){
        .job = job->config.name,
        .events = {.ask = ask_scale, .tell = tell, .on_over = on_scaled, .host = host_at},
        .ctx = job,
    };
    job->nodes.trace = (struct sl_trace_nodes){
        .events = {.ask = ask_trace, .tell = tell, .host = host_at},
        .ctx = job,
    };
}

static bool on_client(struct sl_job *job, const struct sl_bus_peer *peer,
                      const Sl__Control__Envelope *m)
{
    struct sl_job_nodes *nodes = &job->nodes;
    const bool over_nodes = link_of(job) && !sl_job_follows(job) && job->state == SL_JOB_RUNNING;
    const bool scale = m->body_case == SL__CONTROL__ENVELOPE__BODY_SCALE;
    const uint32_t n = SL_MAX(nodes->n, 1u);
    const bool elsewhere = scale && m->scale->has_node && m->scale->node >= n;
    if (scale && (over_nodes || elsewhere))
        sl_node_scale_on_request(&nodes->scale, n, peer, m->scale);
    else if (over_nodes && m->body_case == SL__CONTROL__ENVELOPE__BODY_TRACE)
        sl_trace_nodes_on_request(&nodes->trace, n, peer, m->trace);
    else
        return false;
    return true;
}

static bool on_link(struct sl_job *job, const Sl__Control__Envelope *m)
{
    switch (m->body_case) {
    case SL__CONTROL__ENVELOPE__BODY_NOTE: on_note(job, m->note); return true;
    case SL__CONTROL__ENVELOPE__BODY_SCALE:
    case SL__CONTROL__ENVELOPE__BODY_TRACE: return false; // it asks, as a client does
    case SL__CONTROL__ENVELOPE__BODY_SCALE_PROGRESS:
    case SL__CONTROL__ENVELOPE__BODY_SCALE_DONE:
        sl_node_scale_on_answer(&job->nodes.scale, m->node, m);
        return true;
    case SL__CONTROL__ENVELOPE__BODY_TRACE_CHUNK:
        sl_trace_nodes_on_chunk(&job->nodes.trace, m->node, m);
        return true;
    default: return true;
    }
}

// --- messages ------------------------------------------------------------------------------------

bool sl_job_nodes_on_message(struct sl_job *job, const struct sl_bus_peer *peer,
                             const Sl__Control__Envelope *m)
{
    struct sl_pool_worker *link = link_of(job);
    if (!link)
        return on_client(job, peer, m);
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_HELLO && m->hello->worker == link->worker) {
        on_hello(job, peer, m->hello);
        return true;
    }
    if (m->body_case == SL__CONTROL__ENVELOPE__BODY_FAILED && m->failed->worker == link->worker) {
        fail(job, m->failed->code, m->failed->message);
        return true;
    }
    return sl_worker_pool_by_peer(&job->nodes.pool, peer) == link ? on_link(job, m)
                                                                  : on_client(job, peer, m);
}

static bool on_death(void *ctx, struct sl_pool_worker *w, const struct sl_exit_status *death)
{
    struct sl_job *job = ctx;
    char how[160], last[1024], host[SL_NODES_HOST_BYTES], text[sizeof last + 512];
    sl_exit_status_describe(death, how, sizeof how);
    sl_stream_last(&w->log, last, sizeof last);
    sl_joblog_write(&job->log, SL_LOG_INFO, "%s (process %d) %s", w->name, (int)w->pid, how);
    if (w->dismissed ||
        (job->nodes.told_to_leave && !death->signal && death->exit_status == EXIT_SUCCESS))
        return true;
    // MPI ends it once the launcher is gone that stopped the job: a consequence.
    if (job->state >= SL_JOB_FINISHING && job->outcome == SL_OUTCOME_STOPPED && !death->signal)
        return true;
    // One that ends by itself does so with one of two statuses.
    if (!death->signal && death->exit_status > EXIT_FAILURE)
        snprintf(how + strlen(how), sizeof how - strlen(how),
                 ", by MPI, as when the launcher is gone");
    if (death->signal && death->signal != SIGBUS) // of which it says why (dataset_fault.h)
        last[0] = '\0';
    snprintf(text, sizeof text, "host %s: its link to the other nodes %s%s%s", own_host(job, host),
             how, last[0] ? ": " : "", last);
    fail(job, SL_EFAILED, text);
    return false;
}

static void on_left(void *ctx, struct sl_pool_worker *w)
{
    struct sl_job *job = ctx;
    if (job->nodes.concluded)
        sl_job_conclude(job);
}

static void on_give_up(void *ctx, struct sl_pool_worker *w, const char *why)
{
    fail(ctx, SL_EFAILED, why);
}

static void on_line(void *ctx, struct sl_pool_worker *w, int level, const char *text)
{
    struct sl_job *job = ctx;
    if (level == SL_LOG_ERROR || level == SL_LOG_WARN)
        sl_clients_send_line(&job->clients, level, text);
}

static bool has_left(void *ctx, const struct sl_pool_worker *w)
{
    return false;
}

static void on_gone(void *ctx)
{
    on_left(ctx, NULL);
}

// --- the life of a job ---------------------------------------------------------------------------

// MPICH's launcher talks to the link by a descriptor (nodes/launcher.h), which workers do not get.
static int keep_descriptor(void)
{
    const char *text = getenv("PMI_FD");
    const int fd = text ? atoi(text) : 0;
    if (fd > 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

int sl_job_nodes_start(struct sl_job *job)
{
    struct sl_job_nodes *nodes = &job->nodes;
    struct sl_worker_pool_setup setup;
    SL_TRY(sl_job_pool_setup(job, &setup));
    setup.keep_fd = keep_descriptor();
    if (sl_config_gpus(&job->config))
        sl_gpus_expect(); // what they are is told while workers load
    setup.events = (struct sl_worker_pool_events){.on_death = on_death,
                                                  .on_left = on_left,
                                                  .on_give_up = on_give_up,
                                                  .on_line = on_line,
                                                  .has_left = has_left,
                                                  .on_gone = on_gone};
    SL_TRY(sl_worker_pool_init(&nodes->pool, &setup, 1));
    sl_worker_pool_place_link(&nodes->pool);
    int rc = sl_pool_worker_want(link_of(job));
    link_of(job)->wanted = false; // once: the others do not wait for a second one
    return rc;
}

void sl_job_nodes_attach(struct sl_job *job)
{
    if (link_of(job) && link_of(job)->alive)
        sl_job_send_attach(job, link_of(job));
}

bool sl_job_nodes_may_begin(struct sl_job *job)
{
    struct sl_job_nodes *nodes = &job->nodes;
    if (!link_of(job))
        return true;
    if (!sl_job_follows(job))
        return nodes->fit + 1 == nodes->n;
    if (!nodes->told_fit)
        say(job, SL__CONTROL__NOTE_KIND__NOTE_FITS, 0,
            trainers_of(job, (char[SL_GPUS_TRAINERS_BYTES]){0}));
    nodes->told_fit = true;
    return nodes->begun;
}

// Parts save little where the mini-batches of a node are of all of them.
static void announce_order(struct sl_job *job)
{
    const struct sl_order_kind *order = &sl_order_kinds[job->config.order.kind];
    if (job->dataset.shard.count == 0 || order->parts)
        return;
    sl_joblog_announce(&job->log,
                       "order.kind \"%s\": mini-batches of a node have training vertices of all %u "
                       "parts, and most of their features come from other nodes; with \"parts\" "
                       "they have vertices of its own part, in another order of training",
                       order->word, job->dataset.shard.count);
}

int sl_job_nodes_begin(struct sl_job *job)
{
    if (!link_of(job) || sl_job_follows(job))
        return SL_OK;
    SL_TRY(sl_stream_open(&link_of(job)->log, job->files.writer, job->rundir.log));
    look_at_logs(job);
    say(job, SL__CONTROL__NOTE_KIND__NOTE_BEGUN, 0, "");
    announce_order(job);
    return SL_OK;
}

void sl_job_nodes_check_start(struct sl_job *job)
{
    if (link_of(job) && !job->workers_placed)
        sl_job_end(job, SL_OUTCOME_FAILED, "the nodes have not met within %d s",
                   SL_WORKER_START_SECONDS);
}

void sl_job_nodes_end(struct sl_job *job)
{
    sl_node_scale_end(&job->nodes.scale);
    job->nodes.ended_ns = sl_now_ns();
    if (job->nodes.ended)
        job->nodes.ended[job->nodes.rank] = true;
    if (sl_job_follows(job) && job->outcome == SL_OUTCOME_FAILED)
        sl_joblog_write(&job->log, SL_LOG_INFO, FAILED_HERE "%s", job->message);
    say(job, SL__CONTROL__NOTE_KIND__NOTE_END, (int)job->outcome, job->message);
}

// Before it has met the others nobody else can say which one does not come.
static void check_link(struct sl_job *job)
{
    struct sl_pool_worker *link = link_of(job);
    char host[SL_NODES_HOST_BYTES];
    if (!link->alive || link->greeted || job->state != SL_JOB_STARTING ||
        sl_stopped_look(&job->nodes.stopped, link->pid, sl_now_ns()) < STOPPED_LOOKS)
        return;
    sl_job_end(job, SL_OUTCOME_FAILED,
               "host %s (rank %u): its link to the other nodes (process %d) was stopped (SIGSTOP: "
               "look by whom) before it met them, and has not gone on for %d s",
               own_host(job, host), job->options.node, (int)link->pid, STOPPED_LOOKS);
}

void sl_job_nodes_poll(struct sl_job *job)
{
    sl_node_scale_poll(&job->nodes.scale);
    sl_trace_nodes_poll(&job->nodes.trace);
    if (!link_of(job) || job->state == SL_JOB_ENDED)
        return;
    check_link(job);
    if (!job->nodes.warned && job->files.lost[0] && sl_job_follows(job)) {
        job->nodes.warned = true;
        say(job, SL__CONTROL__NOTE_KIND__NOTE_WARNING, 0, job->files.lost);
    }
}

// A job that all stop has its last checkpoint still to write, with what the others have of it.
static uint32_t patience_ms(const struct sl_job *job)
{
    if (!job->nodes.abandoned)
        return LEAVE_MS;
    return job->outcome == SL_OUTCOME_STOPPED && !job->nodes.killed ? STOPPED_MS : 0;
}

void sl_job_nodes_abandon(struct sl_job *job, bool kill)
{
    job->nodes.abandoned = true;
    job->nodes.killed |= kill;
    if (link_of(job) && (job->nodes.told_to_leave || kill))
        sl_worker_pool_stop(&job->nodes.pool, patience_ms(job));
}

// Of a job that went well on all of them the others' last rows come within a moment.
static bool has_figures(struct sl_job *job)
{
    const uint64_t now = sl_now_ns();
    if (sl_job_follows(job) || job->nodes.abandoned || !job->running_ns ||
        (job->outcome != SL_OUTCOME_DONE && job->outcome != SL_OUTCOME_STOPPED))
        return true;
    job->nodes.awaits_ns = job->nodes.awaits_ns ? job->nodes.awaits_ns : now;
    return sl_live_nodes_poll(&job->live.nodes, &job->arena) < 0 ||
           sl_live_nodes_are_last(&job->live.nodes) ||
           now - job->nodes.awaits_ns >= FIGURES_MS * UINT64_C(1000000);
}

static bool all_have_ended(struct sl_job *job)
{
    struct sl_job_nodes *nodes = &job->nodes;
    const uint32_t i = missing_node(job);
    const uint64_t waited_ms = (sl_now_ns() - nodes->ended_ns) / 1000000;
    char reason[1024];
    if (i == nodes->n || *read_reason(job, i, reason, sizeof reason))
        return true;
    if (waited_ms >= DOUBT_MS && !nodes->doubted && !sl_job_follows(job)) {
        nodes->doubted = true;
        sl_joblog_write(&job->log, SL_LOG_WARN,
                        "the job is stopped, and host %s (rank %u) says nothing: a process of it "
                        "may have died",
                        host_of(job, i), i);
    }
    return waited_ms >= SL_NODES_HOLD_MS;
}

static void name_missing(struct sl_job *job)
{
    struct sl_job_nodes *nodes = &job->nodes;
    const uint32_t i = missing_node(job);
    char folder[32] = "log", reason[1024], text[sizeof job->message];
    if (i == nodes->n)
        return;
    if (i > 0)
        snprintf(folder, sizeof folder, SL_RUNDIR_OF_NODE "%u", i);
    if (*read_reason(job, i, reason, sizeof reason))
        snprintf(text, sizeof text, "host %s (rank %u): %s", host_of(job, i), i, reason);
    else
        snprintf(
            text, sizeof text,
            "host %s (rank %u) did not say how the job ended there when the launcher stopped "
            "this node (a process of it may have died: what it printed, or '%.1024s/%s', may say "
            "why)",
            host_of(job, i), i, job->config.output, folder);
    job->nodes.broken = true;
    learn_cause(job, text);
}

bool sl_job_nodes_have_state(struct sl_job *job)
{
    struct sl_pool_worker *link = link_of(job);
    const bool before = job->nodes.awaits_state, alive = link && link->alive;
    const bool ended = !alive || all_have_ended(job);
    if (ended)
        name_missing(job);
    job->nodes.awaits_state = alive && !job->nodes.lost &&
                              (!sl_saving_has_state(&job->saving) || !has_figures(job) || !ended);
    if (job->nodes.awaits_state && !before)
        sl_job_emit_saving(job);
    return !job->nodes.awaits_state;
}

bool sl_job_nodes_left(struct sl_job *job)
{
    Sl__Control__Stop stop = SL__CONTROL__STOP__INIT;
    Sl__Control__Envelope e = SL__CONTROL__ENVELOPE__INIT;
    struct sl_job_nodes *nodes = &job->nodes;
    struct sl_pool_worker *link = link_of(job);
    nodes->concluded = true;
    sl_trace_nodes_end(&nodes->trace);
    if (!link || !link->alive)
        return true;
    if (nodes->told_to_leave)
        return false;
    nodes->told_to_leave = true;
    // A link that has failed ends the world, this process's client with it, and a launcher that
    // stops the job kills that soon: it is told before.
    if (nodes->broken || job->outcome == SL_OUTCOME_STOPPED)
        sl_job_emit_finished(job);
    else
        sl_job_emit_saving(job);
    e.body_case = SL__CONTROL__ENVELOPE__BODY_STOP;
    e.stop = &stop;
    if (link->greeted)
        sl_bus_send(job->bus, &link->peer, &e);
    sl_worker_pool_stop(&nodes->pool, patience_ms(job));
    return false;
}

void sl_job_nodes_fini(struct sl_job *job)
{
    sl_worker_pool_fini(&job->nodes.pool);
    sl_node_scale_fini(&job->nodes.scale);
    free(job->nodes.trace.of);
    free(job->nodes.hosts);
    free(job->nodes.ended);
    free(job->nodes.log_at);
    job->nodes.hosts = NULL;
    job->nodes.ended = NULL;
    job->nodes.log_at = NULL;
}
