#include "broker/cli/find_job.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { COMMAND_BYTES = 16384 };

static bool is_broker(const char *program)
{
    const char *slash = strrchr(program, '/');
    return strcmp(slash ? slash + 1 : program, "sluice-broker") == 0;
}

static bool take(char *out, size_t bytes, const char *value)
{
    size_t n = strlen(value);
    if (n == 0 || n >= bytes)
        return false;
    memcpy(out, value, n + 1);
    return true;
}

// A broker of this user from the arguments of process `pid`; false for anything else.
static bool read_job(const char *pid, struct sl_found_job *out)
{
    char path[300], text[COMMAND_BYTES + 1];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool mine = fstat(fileno(f), &st) == 0 && st.st_uid == geteuid();
    size_t n = mine ? fread(text, 1, COMMAND_BYTES, f) : 0;
    fclose(f);
    text[n] = '\0';
    if (n == 0 || !is_broker(text))
        return false;
    memset(out, 0, sizeof *out);
    out->pid = (pid_t)strtol(pid, NULL, 10);
    bool token = false;
    for (const char *at = text + strlen(text) + 1; at < text + n; at += strlen(at) + 1) {
        const char *value = at + strlen(at) + 1;
        if (value >= text + n)
            break;
        if (strcmp(at, "--job") == 0)
            take(out->name, sizeof out->name, value);
        else if (strcmp(at, "--output") == 0)
            take(out->output, sizeof out->output, value);
        else if (strcmp(at, "--endpoint") == 0)
            take(out->endpoint, sizeof out->endpoint, value);
        else if (strcmp(at, "--token") == 0)
            token = sscanf(value, "%" SCNu64, &out->token) == 1;
    }
    return token && out->name[0] && out->output[0] && out->endpoint[0];
}

static bool is_meant(const struct sl_found_job *job, const char *word)
{
    char given[PATH_MAX], real[PATH_MAX];
    if (strcmp(job->name, word) == 0)
        return true;
    return realpath(word, given) && realpath(job->output, real) && strcmp(given, real) == 0;
}

int sl_find_job(const char *job, struct sl_found_job *out)
{
    char names[1024] = "";
    struct sl_found_job found;
    int n_meant = 0;
    size_t at = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        return sl_fail(SL_ESYS, "looking for job '%s': /proc can not be read", job);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (!isdigit((unsigned char)e->d_name[0]) || !read_job(e->d_name, &found))
            continue;
        if (is_meant(&found, job)) {
            *out = found;
            n_meant++;
        }
        if (at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, "%s'%s' (%s)", at ? ", " : "",
                                   found.name, found.output);
    }
    closedir(dir);
    if (n_meant == 1)
        return SL_OK;
    if (n_meant > 1)
        return sl_fail(SL_EINVAL,
                       "job '%s': %d running jobs are called so: give the run directory instead, "
                       "of %s",
                       job, n_meant, names);
    return sl_fail(SL_ENOENT, "job '%s': no running job has this name or run directory%s%s", job,
                   names[0] ? ": there is " : ": none is running: start one with 'sluice run'",
                   names);
}
