/*
 * main.c - the broker process: the daemon of a machine, or the private broker of one job.
 *
 *   sluice-broker [--runtime-dir DIR] ...                              the daemon (daemon/)
 *   sluice-broker --private --endpoint E --key-fd K --config-fd N ...  one job, for the process
 *                                                                      that started it
 */
#include <errno.h>
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
#include "common/text/suggest.h"
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

static const char usage[] =
    "Usage: sluice-broker [--runtime-dir DIR] [--state-dir DIR] [--cores LIST] [--http PORT] ...\n"
    "\n"
    "The daemon: owns this machine's cores, queues jobs over them and runs each under a broker of\n"
    "its own. 'sluice submit', 'ps', 'logs', 'stats', 'scale', 'stop' and so on talk to it. A job\n"
    "starts when all cores that it names are free and no job that waits longer wants one of them.\n"
    "\n"
    "  --runtime-dir DIR     where its sockets are (default: $SLUICE_RUNTIME_DIR, else\n"
    "                        $XDG_RUNTIME_DIR/sluice, else /tmp/sluice-<uid>, unless a daemon\n"
    "                        lives in another of them); made with mode 0700\n"
    "  --state-dir DIR       where it remembers its jobs (default: DIR/jobs of the above); choose\n"
    "                        one that survives a reboot to go on with jobs after it\n"
    "  --cores LIST          cores for its jobs, such as 0-7 (default: all it may run on)\n"
    "  --listen ENDPOINT     control messages over TCP too, such as tcp://0.0.0.0:7400; needs "
    "--keys\n"
    "  --stats-listen ENDPOINT\n"
    "                        statistics over TCP too; needs --keys\n"
    "  --keys FILE           daemon.key of 'sluice keygen': who may connect over TCP\n"
    "  --output-root DIR     below which jobs of clients over TCP may write their output and "
    "report\n"
    "                        (default: the directory that the daemon is started in)\n"
    "  --http PORT           page, metrics and JSON on http://127.0.0.1:PORT/ (0: any free port)\n"
    "  --http-token FILE     a secret with which the page may change jobs; else read-only\n"
    "  --http-open           lets other users of this machine see it without the token, too\n"
    "  --log-level LEVEL     error, warn, info or debug (default: $SLUICE_LOG, else info)\n"
    "  --version             version and protocol\n"
    "  --help                this text\n"
    "\n"
    "SIGTERM or SIGINT: jobs write a checkpoint and stop, then it ends; a second one kills them.\n"
    "Jobs with \"resume\": \"auto\" go on when the daemon is started again, the others wait for\n"
    "'sluice resume'. Exit status: 0 stopped by a signal, 2 it could not start.\n"
    "\n"
    "Examples:\n"
    "  sluice-broker &\n"
    "  sluice-broker --runtime-dir /run/sluice --state-dir /var/lib/sluice --cores 2-15 --http "
    "8080\n"
    "  sluice-broker --listen tcp://0.0.0.0:7400 --keys /etc/sluice/daemon.key\n"
    "\n"
    "With --private it runs one job; 'sluice run JOB.json' and the daemon start it so:\n"
    "  --endpoint E                where workers and clients connect\n"
    "  --key-fd K                  descriptor with the key by which they and this process know "
    "one\n"
    "                              another\n"
    "  --config-fd N               descriptor with the resolved job file, and behind it what is\n"
    "                              known of its data set\n"
    "  --report FILE               write the report here too\n"
    "  --resume NAME               go on from this checkpoint of the job's output directory\n"
    "  --checks                    check the data set, and look for a checkpoint, first\n"
    "  --id ID                     the daemon's number of the job\n"
    "  --job NAME, --output DIR    by which clients find this process\n"
    "  --http PORT, --http-token FILE, --http-open\n";

struct options {
    bool private, help, version, checks;
    const char *endpoint, *key_fd, *config_fd, *report, *resume, *job, *output, *id;
    const char *log_level;
    struct sl_daemon_options daemon; // http, http_token_file, http_open: of a private one too
};

#define AT(field) offsetof(struct options, field)

static const struct option {
    const char *name;
    size_t offset; // in struct options: of a text, or of a bool
    bool is_flag;
    enum { EITHER, DAEMON, PRIVATE } mode;
} table[] = {
    {"--help", AT(help), true, EITHER},
    {"-h", AT(help), true, EITHER},
    {"--version", AT(version), true, EITHER},
    {"--log-level", AT(log_level), false, EITHER},
    {"--http", AT(daemon.http), false, EITHER},
    {"--http-token", AT(daemon.http_token_file), false, EITHER},
    {"--http-open", AT(daemon.http_open), true, EITHER},
    {"--runtime-dir", AT(daemon.runtime_dir), false, DAEMON},
    {"--state-dir", AT(daemon.state_dir), false, DAEMON},
    {"--cores", AT(daemon.cores), false, DAEMON},
    {"--listen", AT(daemon.listen), false, DAEMON},
    {"--stats-listen", AT(daemon.stats_listen), false, DAEMON},
    {"--keys", AT(daemon.keys), false, DAEMON},
    {"--output-root", AT(daemon.output_root), false, DAEMON},
    {"--private", AT(private), true, PRIVATE},
    {"--endpoint", AT(endpoint), false, PRIVATE},
    {"--key-fd", AT(key_fd), false, PRIVATE},
    {"--config-fd", AT(config_fd), false, PRIVATE},
    {"--report", AT(report), false, PRIVATE},
    {"--job", AT(job), false, PRIVATE},
    {"--output", AT(output), false, PRIVATE},
    {"--resume", AT(resume), false, PRIVATE},
    {"--id", AT(id), false, PRIVATE},
    {"--checks", AT(checks), true, PRIVATE},
};

enum { N_OPTIONS = sizeof table / sizeof *table };

// What a user may have meant: compared without the dashes, which make short words look alike.
static int fail_unknown(const char *word, bool private)
{
    const char *names[N_OPTIONS];
    size_t n = 0;
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (table[i].name[1] == '-' && (private || table[i].mode != PRIVATE))
            names[n++] = table[i].name + 2;
    const char *near = sl_suggest_closest(word + strspn(word, "-"), names, n);
    return sl_fail(SL_EINVAL, "'%s' is not an option%s%s%s: see sluice-broker --help", word,
                   near ? " (did you mean --" : "", near ? near : "", near ? "?)" : "");
}

static int parse(int argc, char **argv, struct options *o)
{
    const struct option *last[PRIVATE + 1] = {NULL}; // that was met, of each mode
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < N_OPTIONS && strcmp(argv[i], table[k].name) != 0)
            k++;
        if (k == N_OPTIONS)
            return fail_unknown(argv[i], o->private);
        last[table[k].mode] = &table[k];
        char *value = (char *)o + table[k].offset;
        if (table[k].is_flag)
            *(bool *)value = true;
        else if (++i == argc)
            return sl_fail(SL_EINVAL, "%s needs a value: see sluice-broker --help", argv[i - 1]);
        else
            *(const char **)value = argv[i];
    }
    if (o->private && last[DAEMON])
        return sl_fail(SL_EINVAL,
                       "%s is the daemon's, and --private is not: see "
                       "sluice-broker --help",
                       last[DAEMON]->name);
    if (!o->private && last[PRIVATE])
        return sl_fail(SL_EINVAL, "%s needs --private: see sluice-broker --help",
                       last[PRIVATE]->name);
    return SL_OK;
}

static int parse_number(const char *name, const char *text, unsigned long long max,
                        unsigned long long *out)
{
    char *end;
    if (!text)
        return sl_fail(SL_EINVAL, "%s is missing: see sluice-broker --help", name);
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (errno || end == text || *end || *out > max)
        return sl_fail(SL_EINVAL, "%s '%s': wanted a number from 0 to %llu", name, text, max);
    return SL_OK;
}

static int run_private(const struct options *o, int *status)
{
    unsigned long long key_fd, fd;
    char key[SL_BUS_KEY_TEXT];
    struct sl_assignment told;
    struct sl_http *http = NULL;
    struct sl_job_options job = {
        .endpoint = o->endpoint,
        .report_path = o->report,
        .resume = o->resume,
        .id = o->id,
        .checks = o->checks,
    };
    if (!o->endpoint)
        return sl_fail(SL_EINVAL, "--endpoint is missing: see sluice-broker --help");
    SL_TRY(parse_number("--key-fd", o->key_fd, INT32_MAX, &key_fd));
    SL_TRY(parse_number("--config-fd", o->config_fd, INT32_MAX, &fd));
    SL_TRY(sl_bus_key_read((int)key_fd, key));
    fcntl((int)key_fd, F_SETFD, FD_CLOEXEC); // workers are given it, and nobody else
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
    int rc = sl_assignment_read((int)fd, &told);
    if (rc == SL_OK && page.listen)
        rc = sl_http_start(&page, &http);
    if (rc == SL_OK) {
        job.key = key;
        job.key_fd = (int)key_fd;
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
    enum sl_log_level level;
    struct sl_guard_address page;
    sl_log_init(o->private ? "broker" : "daemon");
    if (o->log_level) {
        if (!sl_log_find_level(o->log_level, &level))
            return sl_fail(SL_EINVAL, "--log-level: found '%s', wanted error, warn, info or debug",
                           o->log_level);
        sl_log_set_level(level);
    }
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
    int rc = parse(argc, argv, &o);
    if (rc == SL_OK && o.help) {
        fputs(usage, stdout);
        return 0;
    }
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
