/*
 * main.c - the broker process.
 *
 *   sluice-broker --private --endpoint E --token T --config-fd N [--report FILE]
 *
 * A private broker runs one job for the `sluice run` that started it, and ends with it.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/job.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/log.h"

enum { EXIT_USAGE = 2, CONFIG_BYTES_MAX = 16 << 20 };

static const char usage[] =
    "Usage: sluice-broker --private --endpoint E --token T --config-fd N [--report FILE]\n"
    "\n"
    "Runs one job: starts samplers and trainers, replaces those that die, writes the report.\n"
    "`sluice run JOB.json` starts it; there is no reason to start it by hand.\n"
    "\n"
    "  --private       serve the one job of the process that started this one\n"
    "  --endpoint E    where workers and clients connect (ipc://@name)\n"
    "  --token T       number that every message must carry\n"
    "  --config-fd N   descriptor with the resolved job file\n"
    "  --report FILE   write the report here too\n"
    "  --resume NAME   go on from this checkpoint of the job's output directory\n"
    "  --job NAME, --output DIR   what 'sluice scale' finds this process by\n"
    "  --help          this text\n"
    "\n"
    "Example: sluice run job.json --report report.json\n";

struct options {
    bool private, help;
    const char *endpoint, *token, *config_fd, *report, *resume, *job, *output;
};

static int parse(int argc, char **argv, struct options *o)
{
    const struct {
        const char *name;
        const char **value; // NULL: a flag
        bool *flag;
    } table[] = {
        {"--private", NULL, &o->private}, {"--help", NULL, &o->help},
        {"-h", NULL, &o->help},           {"--endpoint", &o->endpoint, NULL},
        {"--token", &o->token, NULL},     {"--config-fd", &o->config_fd, NULL},
        {"--report", &o->report, NULL},   {"--job", &o->job, NULL},
        {"--output", &o->output, NULL},   {"--resume", &o->resume, NULL},
    };
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < sizeof table / sizeof *table && strcmp(argv[i], table[k].name) != 0)
            k++;
        if (k == sizeof table / sizeof *table)
            return sl_fail(SL_EINVAL, "'%s' is not an option: see sluice-broker --help", argv[i]);
        if (table[k].flag) {
            *table[k].flag = true;
        } else if (++i == argc) {
            return sl_fail(SL_EINVAL, "%s needs a value: see sluice-broker --help", argv[i - 1]);
        } else {
            *table[k].value = argv[i];
        }
    }
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

// The whole of a descriptor, from its start; NUL-terminated (owned: free()).
static int read_config(int fd, char **text, size_t *bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return sl_fail_errno(SL_EINVAL, errno, "--config-fd %d", fd);
    if (st.st_size <= 0 || st.st_size > CONFIG_BYTES_MAX)
        return sl_fail(SL_EFORMAT, "--config-fd %d: found %lld bytes, wanted 1 to %d", fd,
                       (long long)st.st_size, CONFIG_BYTES_MAX);
    *bytes = (size_t)st.st_size;
    *text = malloc(*bytes + 1);
    if (!*text)
        return sl_fail(SL_ENOMEM, "no memory for a job of %zu bytes", *bytes);
    for (size_t at = 0; at < *bytes;) {
        ssize_t n = pread(fd, *text + at, *bytes - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return sl_fail_errno(SL_EIO, n < 0 ? errno : EIO, "--config-fd %d", fd);
        at += (size_t)n;
    }
    (*text)[*bytes] = '\0';
    return SL_OK;
}

static int run(const struct options *o, int *status)
{
    unsigned long long token, fd;
    char *text = NULL;
    struct sl_job_options job = {
        .endpoint = o->endpoint, .report_path = o->report, .resume = o->resume};
    if (!o->private)
        return sl_fail(SL_EINVAL,
                       "only --private is offered: a broker runs the one job of the `sluice run` "
                       "that starts it. Run 'sluice run JOB.json'");
    if (!o->endpoint)
        return sl_fail(SL_EINVAL, "--endpoint is missing: see sluice-broker --help");
    SL_TRY(parse_number("--token", o->token, UINT64_MAX, &token));
    SL_TRY(parse_number("--config-fd", o->config_fd, INT32_MAX, &fd));
    SL_TRY(sl_failpoint_init());
    int rc = read_config((int)fd, &text, &job.config_bytes);
    if (rc == SL_OK) {
        job.token = token;
        job.config_text = text;
        *status = sl_job_run(&job);
    }
    free(text);
    return rc;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    int status = 0;
    sl_log_init("broker");
    // A client that leaves while it is written to is no reason to die.
    signal(SIGPIPE, SIG_IGN);
    int rc = parse(argc, argv, &o);
    if (rc == SL_OK && o.help) {
        fputs(usage, stdout);
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
