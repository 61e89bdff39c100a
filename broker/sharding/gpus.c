#include "broker/sharding/gpus.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "common/text/units.h"
#include "broker/workers/exit_status.h"
#include "broker/workers/worker_pool.h"
#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/device/mps.h"

enum {
    ANSWER_BYTES_MAX = 1 << 20,
    REASON_BYTES = 320,
    PROGRAM_BYTES = SL_GPUS_PATH_BYTES + 32,
    AGAIN_SECONDS = 10,
    LOOK_MS = 5,
    KILL_MS = 2000,
    LINK_MOST = 1000000, // GB/s
};

// ---- the answer ---------------------------------------------------------------------------------

static void take_text(const cJSON *from, const char *key, char *out, size_t bytes)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(from, key));
    snprintf(out, bytes, "%s", text ? text : "");
}

static double number_at(const cJSON *from, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);
    return cJSON_IsNumber(item) && item->valuedouble > 0 ? item->valuedouble : 0;
}

static void take_gpu(const cJSON *from, struct sl_gpu *gpu)
{
    char capability[16];
    unsigned major = 0, minor = 0;
    take_text(from, "name", gpu->name, sizeof gpu->name);
    take_text(from, "bus_id", gpu->bus_id, sizeof gpu->bus_id);
    take_text(from, "cores", gpu->cores, sizeof gpu->cores);
    take_text(from, "compute_capability", capability, sizeof capability);
    if (sscanf(capability, "%u.%u", &major, &minor) == 2) {
        gpu->major = major;
        gpu->minor = minor;
    }
    gpu->maps_files = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(from, "maps_files"));
    gpu->processors = (uint32_t)number_at(from, "processors");
    const cJSON *peer, *rates = cJSON_GetObjectItemCaseSensitive(from, "links");
    cJSON_ArrayForEach(peer, cJSON_GetObjectItemCaseSensitive(from, "peers"))
    {
        if (cJSON_IsNumber(peer) && peer->valuedouble >= 0 &&
            peer->valuedouble < SL_PLUGIN_DEVICES_MAX)
            gpu->peers |= UINT64_C(1) << (uint32_t)peer->valuedouble;
    }
    for (int i = 0; i < SL_MIN(cJSON_GetArraySize(rates), (int)SL_PLUGIN_DEVICES_MAX); i++) {
        const double rate = cJSON_GetNumberValue(cJSON_GetArrayItem(rates, i));
        gpu->link[i] = rate > 0 && rate < LINK_MOST ? (float)rate : 0;
    }
    gpu->total_bytes = (uint64_t)number_at(from, "memory_total");
    gpu->free_bytes = (uint64_t)number_at(from, "memory_free");
}

int sl_gpus_read(const char *text, struct sl_gpus *out)
{
    struct sl_gpu_report *r = &out->report;
    cJSON *root = cJSON_Parse(text);
    const char *schema = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, "schema"));
    memset(out, 0, sizeof *out);
    if (!schema || strcmp(schema, "sluice.devices/1") != 0) {
        int rc = sl_fail(SL_EPROTO,
                         "found schema '%.40s', wanted sluice.devices/1: are the "
                         "programs of one build?",
                         schema ? schema : "none");
        cJSON_Delete(root);
        return rc;
    }
    r->driver_version = (uint32_t)number_at(root, "driver_version");
    r->runtime_version = (uint32_t)number_at(root, "runtime_version");
    take_text(root, "cublas", r->cublas, sizeof r->cublas);
    take_text(root, "nccl", r->nccl, sizeof r->nccl);
    take_text(root, "problem", r->problem, sizeof r->problem);
    take_text(root, "plugin", out->plugin, sizeof out->plugin);
    const cJSON *gpu;
    cJSON_ArrayForEach(gpu, cJSON_GetObjectItemCaseSensitive(root, "devices"))
    {
        if (r->n < SL_PLUGIN_DEVICES_MAX)
            take_gpu(gpu, &r->gpu[r->n++]);
    }
    if (r->n == 0 && !r->problem[0])
        snprintf(r->problem, sizeof r->problem, "CUDA reports no GPU");
    cJSON_Delete(root);
    out->asked = true;
    return SL_OK;
}

double sl_gpus_link(const struct sl_gpu_report *report, uint32_t reader, uint32_t owner)
{
    if (reader >= report->n || owner >= report->n)
        return 0;
    const struct sl_gpu *gpu = &report->gpu[reader];
    if (reader != owner && !(gpu->peers >> owner & 1))
        return 0;
    const double nominal = reader == owner ? SL_GPUS_OWN_GBS : SL_GPUS_PEER_GBS;
    return gpu->link[owner] > 0 ? gpu->link[owner] : nominal;
}

// ---- the child ----------------------------------------------------------------------------------

// In the child, between fork and exec: system calls only. Returns only on an error.
static void become_trainer(char **argv, pid_t parent, int answer, int errors)
{
    sigset_t none;
    int null = open("/dev/null", O_RDONLY);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent || null < 0)
        return;
    // Above the numbers that are about to be taken.
    answer = fcntl(answer, F_DUPFD_CLOEXEC, 16);
    errors = fcntl(errors, F_DUPFD_CLOEXEC, 16);
    if (dup2(null, STDIN_FILENO) < 0 || dup2(answer, STDOUT_FILENO) < 0 ||
        dup2(errors, STDERR_FILENO) < 0)
        return;
    close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    execv(argv[0], argv);
}

// All of a memfd with a NUL behind it, owned by the caller; NULL when there is too much of it.
static char *text_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size > ANSWER_BYTES_MAX)
        return NULL;
    char *text = calloc((size_t)st.st_size + 1, 1);
    if (text && pread(fd, text, (size_t)st.st_size, 0) != st.st_size) {
        free(text);
        return NULL;
    }
    return text;
}

// The last line that it wrote to its standard error, without the end; "" = none.
static void last_line(int fd, char out[REASON_BYTES])
{
    char *text = text_of(fd), *at;
    out[0] = '\0';
    if (!text)
        return;
    for (size_t n = strlen(text); n > 0 && text[n - 1] == '\n'; n--)
        text[n - 1] = '\0';
    at = strrchr(text, '\n');
    snprintf(out, REASON_BYTES, "%s", at ? at + 1 : text);
    free(text);
}

static void cannot(struct sl_gpus *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void cannot(struct sl_gpus *out, const char *fmt, ...)
{
    va_list ap;
    memset(out, 0, sizeof *out);
    va_start(ap, fmt);
    vsnprintf(out->report.problem, sizeof out->report.problem, fmt, ap);
    va_end(ap);
}

static uint32_t limit_s(void)
{
    const char *text = getenv("SLUICE_GPU_SECONDS");
    long seconds = text ? strtol(text, NULL, 10) : 0;
    return seconds >= 1 && seconds <= 600 ? (uint32_t)seconds : SL_GPUS_LIMIT_S;
}

static int find_program(const struct sl_gpus_asking *a, char out[PROGRAM_BYTES])
{
    char directory[SL_GPUS_PATH_BYTES];
    if (a->program) {
        snprintf(out, PROGRAM_BYTES, "%s", a->program);
    } else {
        SL_TRY(sl_worker_pool_own_directory(directory, sizeof directory));
        snprintf(out, PROGRAM_BYTES, "%s/sluice-trainer", directory);
    }
    if (access(out, X_OK) == 0)
        return SL_OK;
    return sl_fail_errno(SL_EACCESS, errno, "'%.360s', which reports GPUs, cannot be started", out);
}

// Its output goes to the two memfds.
static int start_child(struct sl_gpus_asking *a, char *program)
{
    char *argv[] = {program, (char *)"--devices", NULL};
    a->answer = memfd_create("sluice-devices", MFD_CLOEXEC);
    a->errors = memfd_create("sluice-devices-errors", MFD_CLOEXEC);
    if (a->answer < 0 || a->errors < 0)
        return sl_fail_errno(SL_ESYS, errno, "asking 'sluice-trainer --devices': memfd_create");
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return sl_fail_errno(SL_ESYS, errno, "asking 'sluice-trainer --devices': fork");
    if (pid == 0) {
        become_trainer(argv, parent, a->answer, a->errors);
        _exit(127);
    }
    a->pid = pid;
    a->pidfd = sl_exit_status_open(pid);
    return SL_OK;
}

static void close_all(struct sl_gpus_asking *a)
{
    int *const fds[] = {&a->answer, &a->errors, &a->pidfd};
    for (size_t i = 0; i < SL_COUNT_OF(fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

// What its end says.
static void on_end(struct sl_gpus_asking *a, int status)
{
    char reason[REASON_BYTES], *text = text_of(a->answer);
    struct sl_gpus *out = &a->known;
    last_line(a->errors, reason);
    if (WIFSIGNALED(status))
        cannot(out, "'sluice-trainer --devices' died of signal %d (%s)%s%s", WTERMSIG(status),
               strsignal(WTERMSIG(status)), *reason ? ": " : "", reason);
    else if (WEXITSTATUS(status) != 0)
        cannot(out, "'sluice-trainer --devices' ended with status %d%s%s", WEXITSTATUS(status),
               *reason ? ": " : "", reason);
    else if (!text || sl_gpus_read(text, out) < 0)
        cannot(out, "'sluice-trainer --devices' gave an answer that cannot be read%s%.300s",
               text ? ": " : "", text ? sl_error_message() : "");
    free(text);
}

static void give_up(struct sl_gpus_asking *a)
{
    sl_exit_status_send(a->pidfd, a->pid, SIGKILL);
    a->killed = true;
    cannot(&a->known,
           "'sluice-trainer --devices' did not answer within %u s and was killed: does the driver "
           "hang? 'nvidia-smi' tells; SLUICE_GPU_SECONDS gives it longer",
           limit_s());
    a->known_ns = sl_now_ns();
}

// Without a plug-in the child could only say so, and starting it takes longer than all else that a
// command does before its job.
static int ask(struct sl_gpus_asking *a)
{
    char program[PROGRAM_BYTES];
    SL_TRY(find_program(a, program));
    if (sl_plugin_look(program) != SL_ENOENT)
        return start_child(a, program);
    memset(&a->known, 0, sizeof a->known);
    sl_plugin_report_none(&a->known.report);
    a->known.asked = true;
    a->known_ns = sl_now_ns();
    return SL_OK;
}

void sl_gpus_ask(struct sl_gpus_asking *a)
{
    if (a->pid)
        return;
    a->answer = a->errors = a->pidfd = -1;
    a->killed = false;
    a->asked_ns = sl_now_ns();
    if (ask(a) == SL_OK)
        return;
    cannot(&a->known, "%.500s", sl_error_message());
    a->known_ns = sl_now_ns();
    close_all(a);
}

bool sl_gpus_poll(struct sl_gpus_asking *a)
{
    int status = 0;
    if (!a->pid)
        return false;
    pid_t got = waitpid(a->pid, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) {
        if (!a->killed && sl_now_ns() - a->asked_ns >= limit_s() * 1000000000ull)
            give_up(a);
        return !a->killed;
    }
    if (!a->killed) {
        if (got > 0)
            on_end(a, status);
        else
            cannot(&a->known, "asking 'sluice-trainer --devices': its exit status is lost");
        a->known_ns = sl_now_ns();
    }
    a->pid = 0;
    close_all(a);
    return false;
}

const struct sl_gpus *sl_gpus_fresh(const struct sl_gpus_asking *a)
{
    if (a->assumed)
        return &a->known;
    if (!a->known_ns || (a->pid && !a->killed))
        return NULL;
    uint64_t holds = SL_MAX(a->known_ns - a->asked_ns, AGAIN_SECONDS * 1000000000ull);
    bool holds_still = a->known.report.n || a->pid || sl_now_ns() - a->known_ns <= holds;
    return holds_still ? &a->known : NULL;
}

void sl_gpus_fini(struct sl_gpus_asking *a)
{
    if (!a->pid)
        return;
    sl_exit_status_send(a->pidfd, a->pid, SIGKILL);
    waitpid(a->pid, NULL, WNOHANG);
    a->pid = 0;
    close_all(a);
}

// A process that a driver keeps from dying is left behind.
static void wait_for(struct sl_gpus_asking *a)
{
    while (sl_gpus_poll(a)) {
        // Without a pidfd (an old kernel) look again now and then.
        struct pollfd fd = {.fd = a->pidfd, .events = POLLIN};
        uint64_t now = sl_now_ns(), until = a->asked_ns + limit_s() * 1000000000ull;
        int left_ms = now < until ? (int)((until - now) / 1000000u) + 1 : 0;
        poll(&fd, 1, a->pidfd >= 0 ? left_ms : LOOK_MS);
    }
    for (int ms = 0; ms < KILL_MS && a->pid; ms += LOOK_MS) {
        poll(NULL, 0, LOOK_MS);
        sl_gpus_poll(a);
    }
}

// Of this process.
static struct sl_gpus_asking asking;

void sl_gpus_assume(const struct sl_gpus *gpus)
{
    sl_gpus_fini(&asking);
    asking = (struct sl_gpus_asking){.known = *gpus, .assumed = true};
}

void sl_gpus_expect(void)
{
    if (!sl_gpus_fresh(&asking))
        sl_gpus_ask(&asking);
}

const struct sl_gpus *sl_gpus_known(void)
{
    if (!sl_gpus_fresh(&asking)) {
        sl_gpus_ask(&asking);
        wait_for(&asking);
    }
    return &asking.known;
}

// A plug-in that was asked for, or stands where it belongs.
static bool has_plugin(void)
{
    char directory[SL_GPUS_PATH_BYTES], path[SL_GPUS_PATH_BYTES + 40];
    const char *given = getenv("SLUICE_CUDA_PLUGIN");
    if (given && *given)
        return true;
    if (sl_worker_pool_own_directory(directory, sizeof directory) < 0)
        return false;
    snprintf(path, sizeof path, "%s/../lib/libsluice_cuda.so", directory);
    return access(path, F_OK) == 0;
}

bool sl_gpus_is_odd(const struct sl_gpus *gpus)
{
    const struct sl_gpu_report *r = &gpus->report;
    bool device = access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
    bool refused = gpus->asked && r->runtime_version == 0 && has_plugin();
    return r->n == 0 && (r->driver_version || device || refused);
}

// ---- a job --------------------------------------------------------------------------------------

// Once each.
static void add_model(char buf[SL_GPUS_TRAINERS_BYTES], const char *model)
{
    const size_t n = strlen(buf);
    if (!strstr(buf, model))
        snprintf(buf + n, SL_GPUS_TRAINERS_BYTES - n, "%s%s", n ? SL_GPUS_AND : "", model);
}

char *sl_gpus_trainers(const struct sl_config *c, const struct sl_gpu_report *gpus,
                       char buf[SL_GPUS_TRAINERS_BYTES])
{
    static const char library[] = "cuBLASLt "; // then its version, and in brackets where it lies
    buf[0] = '\0';
    for (uint32_t d = 0; d < c->n_devices; d++) {
        const struct sl_device_config *device = &c->devices[d];
        char model[SL_DEVICE_NAME_BYTES + 64] = "cores";
        if (!sl_config_may_train(c, d))
            continue;
        if (device->kind == SL_DEVICE_CUDA && device->index < gpus->n)
            snprintf(model, sizeof model, "%s (capability %u.%u)", gpus->gpu[device->index].name,
                     gpus->gpu[device->index].major, gpus->gpu[device->index].minor);
        else if (device->kind == SL_DEVICE_CUDA)
            snprintf(model, sizeof model, "GPU %u", device->index);
        add_model(buf, model);
    }
    const size_t n = strlen(buf);
    const bool has = strncmp(gpus->cublas, library, strlen(library)) == 0;
    const char *where = strstr(gpus->cublas, " (");
    if (sl_config_trains_on(c, SL_DEVICE_CUDA))
        snprintf(buf + n, SL_GPUS_TRAINERS_BYTES - n, ", %.*s",
                 has && where ? (int)(where - gpus->cublas) : 64,
                 has ? gpus->cublas : "no cuBLASLt");
    return buf;
}

static void add_note(char note[SL_GPUS_NOTE_BYTES], const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void add_note(char note[SL_GPUS_NOTE_BYTES], const char *fmt, ...)
{
    size_t n = strlen(note);
    va_list ap;
    if (n)
        n += (size_t)snprintf(note + n, SL_GPUS_NOTE_BYTES - n, "; ");
    if (n >= SL_GPUS_NOTE_BYTES)
        return;
    va_start(ap, fmt);
    vsnprintf(note + n, SL_GPUS_NOTE_BYTES - n, fmt, ap);
    va_end(ap);
}

// Budgets that were named, beyond what is free now: the rest may be freed in time.
static void note_budgets(const struct sl_config *c, const struct sl_gpu_report *report,
                         char note[SL_GPUS_NOTE_BYTES])
{
    for (uint32_t i = 0; i < report->n; i++) {
        uint64_t named = 0;
        char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES];
        for (uint32_t d = 0; d < c->n_devices; d++)
            if (c->devices[d].kind == SL_DEVICE_CUDA && c->devices[d].index == i)
                named += c->devices[d].memory_bytes;
        if (report->gpu[i].free_bytes && named > report->gpu[i].free_bytes) {
            add_note(note,
                     "the devices on GPU %u may take %s of its memory, but %s are free: other "
                     "processes have the rest ('nvidia-smi' lists them)",
                     i, sl_units_exact_bytes(a, named),
                     sl_units_exact_bytes(b, report->gpu[i].free_bytes));
            return;
        }
    }
}

// Trainers of two kinds: the sums of a CPU and of a GPU differ in their last bits.
static void note_kinds(const struct sl_config *c, char note[SL_GPUS_NOTE_BYTES])
{
    uint32_t n = c->n_devices, trainers = SL_MIN(c->allocation.trainers, n);
    for (uint32_t d = n - trainers; d + 1 < n; d++)
        if (c->devices[d].kind != c->devices[n - 1].kind) {
            add_note(note,
                     "device %u and device %u train, a CPU and a GPU: results cannot be repeated "
                     "bit for bit, since who trains which mini-batch depends on time",
                     d, n - 1);
            return;
        }
}

// Trainers that sum gradients among themselves take an update's batches in turn.
static void note_turns(const struct sl_config *c, char note[SL_GPUS_NOTE_BYTES])
{
    uint32_t trainers = c->allocation.trainers, batches = c->updates.batches_per_update;
    if (c->updates.exchange == SL_EXCHANGE_NCCL && trainers > batches)
        add_note(note,
                 "%u trainers for updates of %s: %u of them will have nothing to "
                 "train; set updates.batches_per_update to %u, or a multiple of it",
                 trainers, SL_PLURAL(batches, "mini-batch"), trainers - batches, trainers);
}

// Several devices on one GPU: whether their processes run there at once is not the job's to say.
static void note_sharing(const struct sl_config *c, char note[SL_GPUS_NOTE_BYTES])
{
    uint32_t devices[SL_PLUGIN_DEVICES_MAX] = {0};
    struct sl_mps mps;
    for (uint32_t d = 0; d < c->n_devices; d++) {
        if (c->devices[d].kind != SL_DEVICE_CUDA || ++devices[c->devices[d].index] != 2)
            continue;
        sl_mps_look(&mps);
        if (!mps.serves)
            add_note(note,
                     "several devices are on GPU %u, and their workers take turns there: %s; "
                     "'scripts/mps run COMMAND' has them run at once",
                     c->devices[d].index, mps.found);
        return;
    }
}

// What the GPUs' report says of NCCL is its version and file, or "none: ", why, and what to do.
static int check_nccl(const struct sl_config *c, const struct sl_gpu_report *report,
                      const char *origin)
{
    const bool found = *report->nccl && strncmp(report->nccl, "none", 4) != 0;
    if (c->updates.exchange != SL_EXCHANGE_NCCL || found)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "%s: updates.exchange: found \"nccl\", and there is no NCCL to do it (%s); set "
                   "updates.exchange to \"board\" to do without",
                   origin, *report->nccl ? report->nccl : "none: it was not looked for");
}

int sl_gpus_resolve_with(struct sl_config *config, const struct sl_gpus *gpus, bool budgets,
                         const char *origin, char note[SL_GPUS_NOTE_BYTES])
{
    note[0] = '\0';
    if (!sl_config_asks_for_gpus(config))
        return SL_OK;
    const struct sl_gpu_report *report = &gpus->report;
    if (config->devices_auto && sl_gpus_is_odd(gpus))
        add_note(note, "no GPU is used: %s", report->problem);
    if (config->devices_auto && report->n == 0 &&
        (config->store.placement > SL_STORE_ALONE || !config->store.feature_ratio_auto ||
         !config->store.graph_ratio_auto || config->store.prefer != SL_PREFER_AUTO))
        add_note(note, "store.placement, store.feature_ratio, store.graph_ratio and store.prefer "
                       "apply to GPUs: without any they change nothing");
    if (!config->devices_auto) // before budgets are given where none is named
        note_budgets(config, report, note);
    SL_TRY(sl_config_use_gpus(config, report, budgets, origin));
    SL_TRY(check_nccl(config, report, origin));
    note_kinds(config, note);
    note_turns(config, note);
    note_sharing(config, note);
    return SL_OK;
}

int sl_gpus_resolve(struct sl_config *config, const char *origin, char note[SL_GPUS_NOTE_BYTES])
{
    note[0] = '\0';
    if (!sl_config_asks_for_gpus(config))
        return SL_OK;
    return sl_gpus_resolve_with(config, sl_gpus_known(), true, origin, note);
}
