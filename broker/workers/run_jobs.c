#include "broker/workers/run_jobs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/workers/process_id.h"
#include "common/base/error.h"
#include "common/text/sentence.h"

// More than a broker's arguments come to, of which four are paths.
enum { COMMAND_BYTES = 5 * PATH_MAX };

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

// What a process's environment says of SLUICE_SCOPE; "" where it says nothing.
static void read_scope(const char *pid, char *out, size_t bytes)
{
    static const char name[] = "SLUICE_SCOPE=";
    char path[300], *entry = NULL;
    size_t room = 0;
    out[0] = '\0';
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return;
    while (getdelim(&entry, &room, '\0', f) > 0)
        if (strncmp(entry, name, sizeof name - 1) == 0) {
            take(out, bytes, entry + sizeof name - 1);
            break;
        }
    free(entry);
    fclose(f);
}

// Jobs of another scope are none of ours: accounts that several people or scripts share keep theirs
// apart.
static bool in_scope(const char *pid)
{
    char theirs[256];
    const char *ours = getenv("SLUICE_SCOPE");
    read_scope(pid, theirs, sizeof theirs);
    return strcmp(theirs, ours ? ours : "") == 0;
}

// The bus's key, from the descriptor that the process has it in.
static bool take_key(const char *pid, const char *number, char key[SL_BUS_KEY_TEXT])
{
    char path[300];
    if (strspn(number, "0123456789") != strlen(number))
        return false;
    snprintf(path, sizeof path, "/proc/%s/fd/%s", pid, number);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool taken = fd >= 0 && sl_bus_key_read(fd, key) == SL_OK;
    if (fd >= 0)
        close(fd);
    return taken;
}

// A broker of a job of this user and scope from the arguments of process `pid`; false for
// anything else.
static bool read_job(const char *pid, struct sl_run_job *out)
{
    char path[300], text[COMMAND_BYTES];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool mine = fstat(fd, &st) == 0 && st.st_uid == geteuid();
    // One read: between two the process may become another program, and half of each is neither.
    ssize_t n = mine ? read(fd, text, sizeof text) : 0;
    close(fd);
    // Nor is a part enough: what is cut off may be the word that tells a daemon's.
    if (n <= 0 || n == sizeof text || text[n - 1] || !is_broker(text))
        return false;
    memset(out, 0, sizeof *out);
    out->pid = (pid_t)strtol(pid, NULL, 10);
    bool has_key = false;
    for (const char *at = text + strlen(text) + 1; at < text + n; at += strlen(at) + 1) {
        const char *value = at + strlen(at) + 1;
        if (value >= text + n)
            break;
        if (strcmp(at, "--id") == 0)
            out->of_daemon = true;
        if (strcmp(at, "--node") == 0)
            out->node = (uint32_t)strtoul(value, NULL, 10);
        if (strcmp(at, "--job") == 0)
            take(out->name, sizeof out->name, value);
        else if (strcmp(at, "--output") == 0)
            take(out->output, sizeof out->output, value);
        else if (strcmp(at, "--endpoint") == 0)
            take(out->endpoint, sizeof out->endpoint, value);
        else if (strcmp(at, "--key-fd") == 0)
            has_key = take_key(pid, value, out->key);
    }
    return has_key && out->name[0] && out->endpoint[0] && in_scope(pid);
}

// When the system started, in Unix seconds; 0 when it does not say.
static double boot_time(void)
{
    char line[256];
    unsigned long long seconds = 0;
    FILE *f = fopen("/proc/stat", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "btime %llu", &seconds) == 1)
            break;
    if (f)
        fclose(f);
    return (double)seconds;
}

static int by_age(const void *a, const void *b)
{
    const struct sl_run_job *x = a, *y = b;
    if (x->started != y->started)
        return x->started < y->started ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

// Of processes with the same endpoint the oldest one is the broker; another one is a worker that it
// has just forked, and that has not become its own program yet. By age, oldest first.
static size_t drop_forked(struct sl_run_job *jobs, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < kept && strcmp(jobs[k].endpoint, jobs[i].endpoint) != 0)
            k++;
        if (k == kept)
            jobs[kept++] = jobs[i];
    }
    return kept;
}

// `all`: also those that a daemon, or the first node of their job, answers for.
static int find(bool all, struct sl_run_job **jobs, size_t *n)
{
    struct sl_run_job found;
    double boot = boot_time();
    *jobs = NULL;
    *n = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        return sl_fail(SL_ESYS, "looking for running jobs: /proc cannot be read");
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (!isdigit((unsigned char)e->d_name[0]) || !read_job(e->d_name, &found) ||
            ((found.of_daemon || found.node) && !all))
            continue;
        double since_boot = (double)sl_process_id_start(found.pid) / (double)sysconf(_SC_CLK_TCK);
        found.started = boot > 0 && since_boot > 0 ? boot + since_boot : 0;
        struct sl_run_job *more = realloc(*jobs, (*n + 1) * sizeof *more);
        if (!more) {
            closedir(dir);
            free(*jobs);
            *jobs = NULL;
            return sl_fail(SL_ENOMEM, "looking for running jobs: no memory for %zu", *n + 1);
        }
        *jobs = more;
        more[(*n)++] = found;
    }
    closedir(dir);
    if (*n) {
        qsort(*jobs, *n, sizeof **jobs, by_age);
        *n = drop_forked(*jobs, *n);
    }
    return SL_OK;
}

int sl_run_jobs_find(struct sl_run_job **jobs, size_t *n)
{
    return find(false, jobs, n);
}

static bool same_directory(const char *a, const char *b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];
    return realpath(a, real_a) && realpath(b, real_b) && strcmp(real_a, real_b) == 0;
}

// Whether it is the one that answers, or a node that is called by the folder of its logs.
static bool is_called(const struct sl_run_job *job, const char *word)
{
    char own[sizeof job->output + 32];
    if (job->node == 0)
        return strcmp(job->name, word) == 0 || same_directory(job->output, word);
    snprintf(own, sizeof own, "%s/" SL_RUNDIR_OF_NODE "%u", job->output, job->node);
    return same_directory(own, word);
}

// Whether it is a node of a job that is called so, and whose first node may be elsewhere.
static bool is_of(const struct sl_run_job *job, const char *word)
{
    return job->node > 0 && (strcmp(job->name, word) == 0 || same_directory(job->output, word));
}

static size_t count_meant(const char *word, const struct sl_run_job *jobs, size_t n,
                          bool (*is_meant)(const struct sl_run_job *job, const char *word),
                          const struct sl_run_job **out)
{
    size_t n_meant = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_meant(&jobs[i], word))
            continue;
        *out = &jobs[i];
        n_meant++;
    }
    return n_meant;
}

// Of n jobs the one that is meant; its message else.
static int choose(const char *word, const struct sl_run_job *jobs, size_t n,
                  const struct sl_run_job **out)
{
    char names[1024];
    struct sl_sentence s = {names, sizeof names};
    names[0] = '\0';
    size_t n_meant = count_meant(word, jobs, n, is_called, out);
    if (n_meant == 0)
        n_meant = count_meant(word, jobs, n, is_of, out);
    for (size_t i = 0; i < n; i++) {
        sl_sentence_say(&s, "%s'%s'", i ? ", " : "", jobs[i].name);
        if (jobs[i].output[0])
            sl_sentence_say(&s, " (in '%.160s')", jobs[i].output);
    }
    if (n_meant > 1)
        return sl_fail(SL_EINVAL, "job '%s': %zu jobs are called so: name it by its run directory",
                       word, n_meant);
    return n_meant
               ? SL_OK
               : sl_fail(SL_ENOENT, "job '%s': no running job has this name or run directory: %s%s",
                         word, n ? "there is " : "none is running", names);
}

int sl_run_jobs_find_one(const char *word, struct sl_run_job *out)
{
    struct sl_run_job *jobs;
    const struct sl_run_job *meant;
    size_t n;
    SL_TRY(find(true, &jobs, &n));
    const int rc = choose(word, jobs, n, &meant);
    if (rc == SL_OK)
        *out = *meant;
    free(jobs);
    return rc;
}
