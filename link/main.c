/*
 * main.c - the link process: started by the broker of a job over several nodes, never by hand
 * (common/bus/worker.h). What it does is loop.h's; here is what comes before: the plug-in, the
 * world, the comparison of the nodes, Hello.
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/data/dataset_fault.h"
#include "common/text/text.h"
#include "link/clocks.h"
#include "link/loop.h"
#include "link/node_facts.h"
#include "nodes/room.h"
#include "nodes/survey.h"

enum { SAID_US = 500000, TOLD_US = 1000 };

// --- what this node has --------------------------------------------------------------------------

static int add_weights(struct sl_facts *f, const struct sl_config *c)
{
    uint64_t digest;
    if (!c->model.weights[0])
        return SL_OK;
    SL_TRY(sl_node_facts_digest(c->model.weights, &digest));
    return sl_facts_add(f, SL_FACT_JOB, "model.weights", "contents %016llx",
                        (unsigned long long)digest);
}

static int look_at_all(struct sl_node_link *l, struct sl_facts *f)
{
    SL_TRY(sl_room_look(f));
    SL_TRY(sl_node_facts_add_machine(f));
    SL_TRY(sl_node_facts_add_programs(f));
    SL_TRY(sl_node_facts_add_job(f, l->worker.told.job));
    SL_TRY(add_weights(f, &l->config));
    return sl_node_facts_add_dataset(f, &l->dataset);
}

static int look(void *ctx, struct sl_facts *f)
{
    // What a node misses is for the first one to show, with all the rest.
    if (look_at_all(ctx, f) < 0)
        return sl_facts_add(f, SL_FACT_PROBLEM, "", "%s", sl_error_message());
    return SL_OK;
}

// The problems in one line, as an error. Before anybody is told: launchers end the others as soon
// as one has left with an error.
static void show(void *ctx, const struct sl_world *w, const struct sl_survey *s)
{
    struct sl_node_link *l = ctx;
    struct sl_text text = {0};
    for (size_t i = 0; i < s->notes.n; i++)
        if (s->notes.note[i].is_problem)
            sl_text_printf(&text, "%s%s", text.n ? "; " : "", s->notes.note[i].text);
        else
            sl_log_warn("nodes: %s", s->notes.note[i].text);
    char *all = sl_text_take(&text);
    if (s->notes.problems) {
        sl_worker_failed(&l->worker, sl_fail(SL_EINVAL, "the nodes differ: %s", all ? all : ""));
        usleep(SAID_US);
    }
    free(all);
}

static int compare(struct sl_node_link *l)
{
    const struct sl_survey_spec survey = {
        .look = look, .ctx = l, .show = show, .compares_only = true};
    uint32_t problems = 0;
    SL_TRY(sl_survey_run(&l->world, &survey, &problems));
    if (problems == 0)
        return SL_OK;
    if (l->world.rank == 0)
        return SL_EABORTED; // said already
    return sl_fail(SL_EINVAL, "the nodes differ: host %s says in what", l->world.member[0].host);
}

// --- the world -----------------------------------------------------------------------------------

// In the thread that watches: the first one is in a call of MPI that does not return. The broker
// quotes it.
static void give_up(const char *sentence)
{
    sl_log_error("%s", sentence);
    _exit(EXIT_FAILURE);
}

// Before MPI starts, which may not live to say more: for the broker to quote.
static int say_room(void)
{
    struct sl_facts facts = {0};
    int rc = sl_room_look(&facts);
    for (size_t i = 0; i < facts.n; i++)
        fprintf(stderr, "%s\n", facts.fact[i].value);
    sl_facts_fini(&facts);
    return rc;
}

static int open_world(struct sl_node_link *l)
{
    char host[HOST_NAME_MAX + 1] = "";
    struct sl_world_spec spec = {.host = host, .give_up = give_up};
    gethostname(host, sizeof host - 1);
    SL_TRY(say_room());
    SL_TRY(sl_launcher_read(&spec.launcher));
    SL_TRY(sl_world_plugin_open(&spec.table));
    SL_TRY(sl_world_open(&l->world, &spec));
    l->clock_ahead_ns = calloc(l->world.size, sizeof *l->clock_ahead_ns);
    if (!l->clock_ahead_ns)
        return sl_fail(SL_ENOMEM, "%u nodes: no memory", l->world.size);
    return sl_link_notes_init(&l->notes, &l->world);
}

static int say_hello(struct sl_node_link *l)
{
    Sl__Control__Hello hello = SL__CONTROL__HELLO__INIT;
    char **hosts = calloc(l->world.size, sizeof *hosts);
    if (!hosts)
        return sl_fail(SL_ENOMEM, "%u nodes: no memory", l->world.size);
    for (uint32_t i = 0; i < l->world.size; i++)
        hosts[i] = l->world.member[i].host;
    hello.nodes = l->world.size;
    hello.node = l->world.rank;
    hello.hosts = hosts;
    hello.n_hosts = l->world.size;
    int rc = sl_worker_hello(&l->worker, &hello);
    free(hosts);
    return rc;
}

static int work_in_world(struct sl_node_link *l)
{
    SL_TRY(compare(l));
    SL_TRY(sl_link_clocks(&l->world, l->clock_ahead_ns));
    SL_FAILPOINT(LINK_START);
    SL_TRY(say_hello(l));
    return sl_link_run(l);
}

// What stays stopped is killed, with its workers: nothing of it is left then, and who started it
// says whose broker it was.
static void kill_broker(struct sl_node_link *l)
{
    if (!sl_link_broker_is_stopped(l) || getppid() != l->broker)
        return;
    prctl(PR_SET_PDEATHSIG, 0);
    kill(l->broker, SIGKILL);
}

/*
 * The world is broken, or a part is: this node's broker is told, and the other nodes as far as they
 * can be reached. The broker then ends the job, and writes what there is to write; until it says
 * that it has, this process stays, since its death would end everything at once. Then it ends the
 * world. Where the broker is what stands still, the others are what is waited for.
 */
static int fail_together(struct sl_node_link *l, int rc)
{
    struct sl_link_note note = {.kind = SL__CONTROL__NOTE_KIND__NOTE_END, .status = -1};
    const bool has_world = l->notes.ended && l->world.is_open;
    const bool stopped = has_world && sl_link_broker_is_stopped(l);
    bool moved, over = false;
    snprintf(note.text, sizeof note.text, "%s", sl_error_message());
    sl_worker_failed(&l->worker, rc);
    // In place of the broker: a second time where that says nothing any more.
    if (has_world && (stopped || !l->notes.ended[l->world.rank]))
        (void)sl_link_notes_say(&l->notes, &l->world, &note);
    if (has_world)
        l->notes.ready[l->world.rank] = true; // for this process alone
    while (!atomic_load(&l->worker.stop) && !over) {
        if (!l->worker.arena.base)
            (void)sl_worker_poll_attach(&l->worker);
        if (has_world) {
            (void)sl_link_notes_poll(&l->notes, &l->world, &l->worker, &moved);
            const bool alone = sl_world_look(&l->world) < 0;
            over = stopped && (alone || sl_link_notes_all(&l->notes, &l->world, l->notes.ready));
        }
        usleep(TOLD_US);
    }
    if (over)
        kill_broker(l);
    // A launcher that is not told waits for the node that is frozen or cut off. It then ends all,
    // also the one that shows this node's last message.
    usleep(SAID_US);
    sl_world_abort(&l->world, EXIT_FAILURE);
    return SL_EABORTED;
}

static int work(void *ctx)
{
    struct sl_node_link *l = ctx;
    struct sl_worker *w = &l->worker;
    l->broker = getppid(); // with which this process dies
    SL_TRY(sl_config_parse(w->told.job, w->told.job_bytes, "the job", &l->config));
    SL_TRY(sl_dataset_open_recorded(l->config.dataset, sl_config_needs(&l->config) | SL_TAKES_SHARD,
                                    w->told.record, 1, &l->dataset));
    int rc = open_world(l);
    if (rc == SL_OK)
        rc = work_in_world(l);
    if (rc < 0 && rc != SL_EABORTED)
        rc = fail_together(l, rc);
    return rc;
}

static void release(void *ctx)
{
    sl_link_fini(ctx);
}

int main(int argc, char **argv)
{
    static struct sl_node_link l; // too large for a stack
    sl_dataset_name_faults("sluice-link");
    return sl_worker_main(&l.worker, "link", argc, argv, work, release, &l);
}
