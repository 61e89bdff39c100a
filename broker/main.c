/*
 * main.c - the broker process: the daemon of a machine, or the private broker of one job.
 *
 *   sluice-broker [--runtime-dir DIR] ...                              the daemon (daemon/)
 *   sluice-broker --private --endpoint E --key-fd K --config-fd N ...  one job, for the process
 *                                                                      that started it
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/daemon/daemon.h"
#include "broker/http/guard.h"
#include "broker/http/http.h"
#include "broker/job/job.h"
#include "common/text/options.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/isa.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/data/dataset_fault.h"
#include "common/bus/assignment.h"
#include "common/bus/bus.h"

enum { EXIT_USAGE = 2 };

struct options {
    bool private, version, checks, has_level, has_owner, no_output, over_nodes;
    uint32_t key_fd, config_fd, owner_fd, nodes, node;
    int log_level; // enum sl_log_level
    const char *endpoint, *report, *resume, *job, *output, *id;
    struct sl_daemon_options daemon; // http, http_token_file, http_open: of a private one too
};

#define AT(kind, field) SL_OPTION_AT(kind, options, field)
#define TEXT(field, of) AT(TEXT, field), .placeholder = of
// As programs give it.
#define GIVEN(field, of) TEXT(field, of), .verbatim = true
#define FD(field)                                                                                  \
    AT(UINT, field), .placeholder = "FD", .max = INT32_MAX, .no_default = true, .required = true

// clang-format off
static const struct sl_option of_daemon[] = {
    {.name = "runtime-dir", TEXT(daemon.runtime_dir, "DIR"),
     .help = "where its sockets are (default: $SLUICE_RUNTIME_DIR, else $XDG_RUNTIME_DIR/sluice, "
             "else /tmp/sluice-<uid>, unless a daemon lives in another of them); made with mode "
             "0700"},
    {.name = "state-dir", TEXT(daemon.state_dir, "DIR"),
     .help = "where it remembers its jobs (default: DIR/jobs of the above); choose one that "
             "survives a reboot to go on with jobs after it"},
    {.name = "cores", TEXT(daemon.cores, "LIST"),
     .help = "cores that it gives away, such as 0-7 (default: all it may run on)"},
    {.name = "listen", TEXT(daemon.listen, "ENDPOINT"),
     .help = "control messages over TCP too, such as tcp://0.0.0.0:7400; needs --keys"},
    {.name = "stats-listen", TEXT(daemon.stats_listen, "ENDPOINT"),
     .help = "statistics over TCP too; needs --keys"},
    {.name = "keys", TEXT(daemon.keys, "FILE"),
     .help = "daemon.key of 'sluice keygen': who may connect over TCP"},
    {.name = "output-root", TEXT(daemon.output_root, "DIR"),
     .help = "below which jobs of clients over TCP may write their output and report (default: "
             "the directory that the daemon is started in)"},
    {0},
};
static const struct sl_option of_both[] = {
    {.name = "http", TEXT(daemon.http, "PORT"),
     .help = "page, metrics and JSON on http://127.0.0.1:PORT/ (0: any free port)"},
    {.name = "http-token", TEXT(daemon.http_token_file, "FILE"),
     .help = "a token that lets the page change things; without it it only shows"},
    {.name = "http-open", AT(FLAG, daemon.http_open),
     .help = "lets other users of this machine see it without the token, too"},
    {.name = "log-level", AT(CHOICE, log_level), .choices = sl_log_levels, .no_default = true,
     SL_OPTION_GIVEN(options, has_level), .help = "default: $SLUICE_LOG, else info"},
    {.name = "version", AT(FLAG, version), .help = "version and protocol"},
    {.name = "private", AT(FLAG, private),
     .help = "run one job: 'sluice-broker --private --help'"},
    {0},
};
static const struct sl_option of_private[] = {
    {.name = "endpoint", GIVEN(endpoint, "E"), .required = true,
     .help = "where workers and clients connect"},
    {.name = "key-fd", FD(key_fd),
     .help = "descriptor with the key by which they and this process know one another"},
    {.name = "config-fd", FD(config_fd),
     .help = "descriptor with the resolved job file, and behind it what is known of its data set"},
    {.name = "owner-fd", AT(UINT, owner_fd), .placeholder = "FD", .max = INT32_MAX,
     .no_default = true, SL_OPTION_GIVEN(options, has_owner),
     .help = "pidfd of the process with which the job ends"},
    {.name = "report", GIVEN(report, "FILE"), .help = "write the report here too"},
    {.name = "resume", GIVEN(resume, "NAME"),
     .help = "go on from this checkpoint of the job's output directory"},
    {.name = "checks", AT(FLAG, checks),
     .help = "check the data set, and look for a checkpoint, first"},
    {.name = "id", GIVEN(id, "ID"), .help = "the daemon's number of the job"},
    {.name = "job", GIVEN(job, "NAME"), .help = "what clients find this process by"},
    {.name = "output", GIVEN(output, "DIR"), .help = "the same"},
    {.name = "nodes", AT(UINT, nodes), .placeholder = "N", .max = UINT16_MAX, .no_default = true,
     SL_OPTION_GIVEN(options, over_nodes),
     .help = "how many nodes run the job together, as their launcher says; 0: it does not"},
    {.name = "node", AT(UINT, node), .placeholder = "K", .max = UINT16_MAX, .no_default = true,
     .help = "which of them this is; 0 writes the results"},
    {.name = "no-output", AT(FLAG, no_output), .help = "write no files: there is no run directory"},
    {0},
};
// clang-format on

static const struct sl_command the_daemon = {
    .name = "sluice-broker",
    .is_program = true,
    .about = "The daemon: owns this machine's cores, queues jobs over them and runs each under a "
             "broker of its own. 'sluice submit', 'ps', 'logs', 'stats', 'scale', 'stop' and so "
             "on talk to it. A job starts when all cores that it names are free and no job that "
             "waits longer wants one of them.\n"
             "SIGTERM or SIGINT: jobs write a checkpoint and stop, then it ends; a second one "
             "kills them. Jobs with \"resume\": \"auto\" go on when the daemon is started again, "
             "the others wait for 'sluice resume'. Exit status: 0 stopped by a signal, 2 it could "
             "not start.",
    .example = "sluice-broker &\n"
               "sluice-broker --runtime-dir /run/sluice --state-dir /var/lib/sluice --cores 2-15 "
               "--http 8080\n"
               "sluice-broker --listen tcp://0.0.0.0:7400 --keys /etc/sluice/daemon.key",
    .options = {{of_daemon}, {of_both}},
};

static const struct sl_command the_broker_of_a_job = {
    .name = "sluice-broker --private",
    .is_program = true,
    .about = "The broker of one job. 'sluice run JOB.json' and the daemon start it.",
    .options = {{of_both}, {of_private}},
};

static bool is_private(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--private") == 0)
            return true;
    return false;
}

static int run_private(const struct options *o, int *status)
{
    char key[SL_BUS_KEY_TEXT];
    struct sl_assignment told;
    struct sl_http *http = NULL;
    struct sl_job_options job = {
        .endpoint = o->endpoint,
        .report_path = o->report,
        .resume = o->resume,
        .id = o->id,
        .checks = o->checks,
        .no_output = o->no_output,
        .owner_fd = o->has_owner ? (int)o->owner_fd : 0,
        .over_nodes = o->over_nodes,
        .nodes = o->nodes,
        .node = o->node,
    };
    SL_TRY(sl_bus_key_read((int)o->key_fd, key));
    fcntl((int)o->key_fd, F_SETFD, FD_CLOEXEC); // workers are given it, and nobody else
    if (job.owner_fd > 0)
        fcntl(job.owner_fd, F_SETFD, FD_CLOEXEC);
    SL_TRY(sl_failpoint_init());
    SL_FAILPOINT(BROKER_START);
    // A client of the job's like any other; it connects once the job has bound.
    const struct sl_http_options page = {
        .listen = o->daemon.http,
        .token_file = o->daemon.http_token_file,
        .open = o->daemon.http_open,
        .endpoint = o->endpoint,
        .key = key,
    };
    int rc = sl_assignment_read((int)o->config_fd, &told);
    if (rc == SL_OK && page.listen)
        rc = sl_http_start(&page, &http);
    if (rc == SL_OK) {
        job.key = key;
        job.key_fd = (int)o->key_fd;
        job.page = http ? sl_http_url(http) : NULL;
        job.config_text = told.job;
        job.config_bytes = told.job_bytes;
        job.dataset_record = told.record;
        *status = sl_job_run(&job);
    }
    sl_http_stop(http);
    sl_assignment_fini(&told);
    return rc;
}

static int run(const struct options *o, int *status)
{
    struct sl_guard_address page;
    sl_log_init(o->private ? "broker" : "daemon");
    if (o->has_level)
        sl_log_set_level((enum sl_log_level)o->log_level);
    if (o->daemon.http)
        SL_TRY(sl_guard_parse_listen(o->daemon.http, &page));
    SL_TRY(sl_isa_init()); // this process reports it, its workers compute with it
    if (o->private)
        return run_private(o, status);
    *status = sl_daemon_run(&o->daemon);
    return SL_OK;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    int status = 0;
    // A client that leaves while it is written to is no reason to die.
    signal(SIGPIPE, SIG_IGN);
    sl_dataset_name_faults("sluice-broker");
    int rc = sl_options_parse(is_private(argc, argv) ? &the_broker_of_a_job : &the_daemon, &o, argc,
                              argv);
    if (rc == SL_OPTIONS_HELP)
        return 0;
    if (rc == SL_OK && o.version) {
        printf("sluice-broker %s (protocol %u)\n", SL_VERSION, SL_PROTOCOL_VERSION);
        return 0;
    }
    if (rc == SL_OK)
        rc = run(&o, &status);
    if (rc < 0) {
        fprintf(stderr, "sluice-broker: %s\n", sl_error_message());
        return EXIT_USAGE;
    }
    return status;
}
