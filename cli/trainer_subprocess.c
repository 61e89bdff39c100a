#include "cli/trainer_subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "broker/workers/worker_pool.h"
#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/base/json_print.h"
#include "common/base/open_file.h"
#include "common/bus/assignment.h"
#include "config/config.h"

enum {
    CONFIG_FD = 4, // SL_WORKER_FD_CONFIG
    PARAMS_FD = 5,
    JOB_BYTES_MAX = 16 << 20,
    HELLO_BYTES_MAX = 16 << 20,
    LEAVE_MS = 5000, // from SIGTERM to SIGKILL
};

// ---- the job ------------------------------------------------------------------------------------

static int read_text(const char *path, char **out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return sl_fail_errno(errno == ENOENT ? SL_ENOENT : SL_EACCESS, errno, "%s", path);
    int rc = sl_read_whole_file(fd, path, JOB_BYTES_MAX, out, NULL);
    close(fd);
    return rc != SL_EFORMAT
               ? rc
               : sl_fail(rc, "%s: wanted a regular file of at most %d bytes", path, JOB_BYTES_MAX);
}

int sl_trainer_subprocess_fit(const char *text, const char *origin, const char *dataset,
                              char **json)
{
    *json = NULL;
    char *fit = NULL;
    cJSON *job = cJSON_Parse(text);
    if (job && cJSON_IsObject(job)) {
        sl_config_forget_machine(job);
        if (dataset) {
            cJSON_DeleteItemFromObjectCaseSensitive(job, "dataset");
            cJSON_AddStringToObject(job, "dataset", dataset);
        }
        fit = sl_json_pages(job);
        text = fit;
    }
    cJSON_Delete(job);
    // What is no job is refused by the parser, in its words.
    struct sl_config *config = malloc(sizeof *config);
    int rc = text && config ? sl_config_parse(text, strlen(text), origin, config)
                            : sl_fail(SL_ENOMEM, "%s: no memory", origin);
    if (rc == SL_OK && !(*json = sl_config_to_json(config)))
        rc = sl_fail(SL_ENOMEM, "%s: no memory", origin);
    free(config);
    free(fit);
    return rc;
}

int sl_trainer_subprocess_job(const char *path, const char *dataset, char **json)
{
    char *text = NULL;
    *json = NULL;
    SL_TRY(read_text(path, &text));
    int rc = sl_trainer_subprocess_fit(text, path, dataset, json);
    free(text);
    return rc;
}

int sl_trainer_subprocess_trained(const char *path, bool *on_gpu)
{
    char *text = NULL;
    *on_gpu = false;
    SL_TRY(read_text(path, &text));
    cJSON *job = cJSON_Parse(text);
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(job, "devices");
    const cJSON *last = cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(last, "kind"));
    *on_gpu = kind && strcmp(kind, sl_device_kind_name(SL_DEVICE_CUDA)) == 0;
    cJSON_Delete(job);
    free(text);
    return SL_OK;
}

// ---- start --------------------------------------------------------------------------------------

// What the child gets, and this end of its pipes; -1 = closed.
struct ends {
    int in[2], out[2], config;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int make_ends(struct ends *e, struct sl_trainer_subprocess *c, const char *config_json,
                     const struct sl_dataset *dataset)
{
    if (pipe2(e->in, O_CLOEXEC) != 0 || pipe2(e->out, O_CLOEXEC) != 0)
        return sl_fail_errno(SL_ESYS, errno, "starting sluice-trainer: pipe");
    c->params_fd = memfd_create("sluice-parameters", MFD_CLOEXEC);
    if (c->params_fd < 0)
        return sl_fail_errno(SL_ESYS, errno, "starting sluice-trainer: memfd");
    char *record = sl_dataset_record(dataset);
    if (!record)
        return sl_fail(SL_ENOMEM, "starting sluice-trainer: no memory");
    e->config = sl_assignment_make(config_json, record);
    free(record);
    return SL_MIN(e->config, SL_OK);
}

// The pipes have the lowest numbers, and the memory lies behind them: copied in this order, nothing
// is written over before it has been copied.
static int spawn(const struct ends *e, const struct sl_trainer_subprocess *c, char *const *argv,
                 pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, e->in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, e->out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&files, 3);
    posix_spawn_file_actions_adddup2(&files, e->config, CONFIG_FD);
    posix_spawn_file_actions_adddup2(&files, c->params_fd, PARAMS_FD);
    posix_spawn_file_actions_addclosefrom_np(&files, PARAMS_FD + 1);
    int err = posix_spawn(pid, argv[0], &files, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return err;
}

static int start(struct sl_trainer_subprocess *c, struct ends *e, char *const *argv)
{
    pid_t pid;
    int err = spawn(e, c, argv, &pid);
    if (err)
        return sl_fail_errno(err == ENOENT ? SL_ENOENT : SL_ESYS, err, "starting '%s'", argv[0]);
    c->pid = pid;
    c->to = e->in[1];
    e->in[1] = -1;
    c->from = fdopen(e->out[0], "r");
    if (!c->from)
        return sl_fail_errno(SL_ENOMEM, errno, "starting '%s'", argv[0]);
    e->out[0] = -1;
    return SL_OK;
}

int sl_trainer_subprocess_start(struct sl_trainer_subprocess *c, const char *config_json,
                                const struct sl_dataset *dataset, const char *const *options)
{
    char directory[4096], program[4200], parent[24];
    char *argv[SL_TRAINER_SUBPROCESS_OPTIONS] = {program};
    struct ends e = {{-1, -1}, {-1, -1}, -1};
    int n = 1;
    *c = (struct sl_trainer_subprocess){.to = -1, .params_fd = -1};
    SL_TRY(sl_worker_pool_own_directory(directory, sizeof directory));
    snprintf(program, sizeof program, "%s/sluice-trainer", directory);
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    argv[n++] = (char *)options[0]; // execv() writes to none of them
    argv[n++] = (char *)"--parent";
    argv[n++] = parent;
    for (int i = 1; options[i]; i++)
        argv[n++] = (char *)options[i];
    int rc = make_ends(&e, c, config_json, dataset);
    if (rc == SL_OK)
        rc = start(c, &e, argv);
    for (int i = 0; i < 2; i++) {
        close_fd(&e.in[i]);
        close_fd(&e.out[i]);
    }
    close_fd(&e.config);
    return rc;
}

// ---- talking ------------------------------------------------------------------------------------

// Its exit status once it has closed its end.
static int ended(struct sl_trainer_subprocess *c)
{
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    c->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return SL_EAGAIN;
    if (WIFSIGNALED(status))
        return sl_fail(SL_EFAILED, "sluice-trainer died of signal %d (%s)%s", WTERMSIG(status),
                       strsignal(WTERMSIG(status)),
                       WTERMSIG(status) == SIGKILL ? ": was there too little memory?" : "");
    return sl_fail(SL_EFAILED, "sluice-trainer ended with status %d", WEXITSTATUS(status));
}

int sl_trainer_subprocess_line(struct sl_trainer_subprocess *c, char *line, size_t bytes)
{
    int code = 0, at = 0;
    while (!fgets(line, (int)bytes, c->from)) {
        SL_TRY(sl_interrupt_check());
        if (!feof(c->from) && errno == EINTR) {
            clearerr(c->from);
            continue;
        }
        return ended(c);
    }
    SL_TRY(sl_interrupt_check());
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "error %d %n", &code, &at) == 1 && at > 0 && code < 0)
        return sl_fail(code, "%s", line + at);
    return SL_OK;
}

int sl_trainer_subprocess_hello(struct sl_trainer_subprocess *c, struct sl_params *params)
{
    char line[4096];
    size_t bytes;
    int rc = sl_trainer_subprocess_line(c, line, sizeof line);
    if (rc < 0)
        return rc == SL_EAGAIN ? sl_fail(SL_EFAILED, "sluice-trainer said nothing") : rc;
    if (sscanf(line, "hello %zu", &bytes) != 1 || bytes > HELLO_BYTES_MAX)
        return sl_fail(SL_EFAILED, "sluice-trainer said '%.80s', wanted its tensors", line);
    uint8_t *packed = malloc(bytes + 1);
    Sl__Control__Hello *hello = NULL;
    if (packed && fread(packed, 1, bytes, c->from) == bytes)
        hello = sl__control__hello__unpack(NULL, bytes, packed);
    free(packed);
    rc = hello ? sl_params_from_hello(params, hello)
               : sl_fail(SL_EFAILED, "sluice-trainer: its list of tensors cannot be read");
    if (hello)
        sl__control__hello__free_unpacked(hello, NULL);
    return rc;
}

int sl_trainer_subprocess_go(struct sl_trainer_subprocess *c, const float *values, uint64_t n)
{
    const char *data = (const char *)values;
    for (uint64_t at = 0, bytes = n * sizeof *values; at < bytes;) {
        ssize_t got = pwrite(c->params_fd, data + at, bytes - at, (off_t)at);
        if (got <= 0)
            return sl_fail_errno(SL_ESYS, errno, "handing over the parameters");
        at += (uint64_t)got;
    }
    // One that has died meanwhile has told why: sl_trainer_subprocess_line().
    if (write(c->to, "go\n", 3) != 3 && errno != EPIPE)
        return sl_fail_errno(SL_EFAILED, errno, "sluice-trainer does not listen");
    return SL_OK;
}

void sl_trainer_subprocess_end(struct sl_trainer_subprocess *c)
{
    if (c->pid) {
        bool gone = false;
        kill(c->pid, SIGTERM);
        for (int ms = 0; ms < LEAVE_MS && !gone; ms += 10) {
            gone = waitpid(c->pid, NULL, WNOHANG) != 0;
            if (!gone)
                poll(NULL, 0, 10);
        }
        if (!gone) {
            kill(c->pid, SIGKILL);
            waitpid(c->pid, NULL, 0);
        }
        c->pid = 0;
    }
    if (c->from) {
        fclose(c->from);
        close_fd(&c->to);
        close_fd(&c->params_fd);
    }
    c->from = NULL;
}

int sl_trainer_subprocess_describe(const char *config_json, const struct sl_dataset *dataset,
                                   struct sl_params *params)
{
    static const char *const options[] = {"--describe", NULL};
    struct sl_trainer_subprocess child;
    char line[4096];
    int rc = sl_trainer_subprocess_start(&child, config_json, dataset, options);
    if (rc == SL_OK)
        rc = sl_trainer_subprocess_hello(&child, params);
    if (rc == SL_OK)
        rc = sl_trainer_subprocess_line(&child, line, sizeof line);
    if (rc == SL_OK)
        rc = sl_fail(SL_EFAILED, "sluice-trainer said '%.80s' after its tensors", line);
    sl_trainer_subprocess_end(&child);
    return rc == SL_EAGAIN ? SL_OK : rc;
}
