/*
 * doctor.c - `sluice doctor`: tries out what a job needs, instead of guessing from versions.
 *
 * Each check adds one line: what there is, and, where a job could not run or would run badly, why
 * and what to do. Only a problem (not a warning) makes the exit status 1.
 */
#include "cli/doctor.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "common/base/bits.h"
#include "common/base/error.h"
#include "common/base/failpoint.h"
#include "common/base/isa.h"
#include "common/base/memory.h"
#include "common/data/dataset.h"
#include "common/device/cores.h"
#include "common/arena/shared_array.h"
#include "common/storage/row_reader.h"
#include "broker/workers/worker_pool.h"
#include "cli/output.h"
#include "cli/command.h"
#include "cli/session.h"
#include "common/text/table.h"
#include "common/text/units.h"

enum {
    // Descriptors of a broker: pipe, pidfd and socket of each worker, files, libraries.
    FILES_NEEDED = 64,
    FILES_WANTED = 512,
    PROCESSES_NEEDED = 32,
    PROCESSES_WANTED = 256,
    NUMA_NODES_MAX = 64,
};

#define MEMORY_NEEDED (UINT64_C(256) << 20)
#define MEMORY_WANTED (UINT64_C(2) << 30)

static const char *const verdict_names[] = {"ok", "warning", "problem"};

// ---- one line -----------------------------------------------------------------------------------

// ---- the machine --------------------------------------------------------------------------------

static void check_kernel(struct sl_doctor *d)
{
    struct utsname u;
    if (uname(&u) == 0)
        sl_doctor_add(d, "kernel", "system", "%s %s, %s", u.sysname, u.release, u.machine);
}

static void check_cores(struct sl_doctor *d)
{
    struct sl_cores allowed;
    char text[256];
    if (sl_cores_allowed(&allowed) < 0) {
        sl_doctor_advise(sl_doctor_add(d, "cores", "cores", "not known"), SL_VERDICT_PROBLEM, "%s",
                         sl_error_message());
        return;
    }
    sl_cores_format(&allowed, text, sizeof text);
    sl_doctor_add(d, "cores", "cores", "%u of %ld may be used (%s)", sl_cores_count(&allowed),
                  sysconf(_SC_NPROCESSORS_ONLN), text);
}

// A container's CPU limit: time on any of the cores, not cores.
static void check_quota(struct sl_doctor *d)
{
    struct sl_cores physical;
    double quota = sl_cores_quota();
    if (!isfinite(quota)) {
        sl_doctor_add(d, "cpu_quota", "CPU quota", "none");
        return;
    }
    struct sl_doctor_check *c = sl_doctor_add(
        d, "cpu_quota", "CPU quota", "the control group grants the time of %.4g cores", quota);
    if (sl_cores_physical(&physical) == SL_OK && sl_cores_keep_quota(&physical, quota))
        sl_doctor_advise(c, SL_VERDICT_WARNING,
                         "\"devices\": \"auto\" takes %s; several such containers on one "
                         "machine would all take its first cores: give each its own (docker run "
                         "--cpuset-cpus) instead of a quota",
                         SL_PLURAL(sl_cores_count(&physical), "core"));
}

static void check_isa(struct sl_doctor *d)
{
#if defined(__x86_64__)
    const enum sl_isa best = sl_isa_of_processor(), used = sl_isa();
    struct sl_doctor_check *c =
        sl_doctor_add(d, "isa", "instruction set", "%s%s", sl_isa_name(used),
                      sl_isa_has_bf16() ? ", native bf16" : ", no native bf16");
    if (used < best)
        sl_doctor_advise(c, SL_VERDICT_WARNING,
                         "the processor has %s: SLUICE_ISA=%s limits it, unset it for full speed",
                         sl_isa_name(best), getenv("SLUICE_ISA"));
    else if (best == SL_ISA_BASELINE)
        sl_doctor_advise(c, SL_VERDICT_WARNING, "no AVX2: everything works, several times slower");
#else
    sl_doctor_add(d, "isa", "instruction set", "what the compiler was told to use");
#endif
}

static uint64_t meminfo(const char *name)
{
    char line[256];
    unsigned long long kib = 0;
    size_t length = strlen(name);
    FILE *f = fopen("/proc/meminfo", "re");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, name, length) && line[length] == ':')
            kib = strtoull(line + length + 1, NULL, 10);
    fclose(f);
    return kib * 1024;
}

static void check_memory(struct sl_doctor *d)
{
    char a[SL_UNITS_BYTES], b[SL_UNITS_BYTES], e[SL_UNITS_BYTES];
    uint64_t usable = sl_device_memory_available(), available = meminfo("MemAvailable");
    struct sl_doctor_check *c =
        sl_doctor_add(d, "memory", "memory", "%s usable, of %s; %s free on the machine",
                      sl_units_bytes(a, usable), sl_units_bytes(b, meminfo("MemTotal")),
                      sl_units_bytes(e, available));
    const char *limited = usable + (available >> 3) < available
                              ? " (a control group or RLIMIT_AS sets the limit)"
                              : "";
    if (usable < MEMORY_NEEDED)
        sl_doctor_advise(c, SL_VERDICT_PROBLEM,
                         "less than %s%s: end other programs or raise the limit",
                         sl_units_bytes(b, MEMORY_NEEDED), limited);
    else if (usable < MEMORY_WANTED)
        sl_doctor_advise(c, SL_VERDICT_WARNING, "enough for small graphs only%s", limited);
    else if (*limited)
        snprintf(c->found + strlen(c->found), sizeof c->found - strlen(c->found), "%s", limited);
}

// The first line of a file; false where there is none.
static bool line_of(const char *path, char *line, size_t bytes)
{
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(line, (int)bytes, f);
    if (f)
        fclose(f);
    return ok;
}

// Features, activations and what samplers draw into are asked for in huge pages: random rows then
// cost fewer look-ups of addresses.
static void check_huge_pages(struct sl_doctor *d)
{
    char line[64];
    if (!line_of("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line)) {
        sl_doctor_add(d, "huge_pages", "huge pages", "unknown: the system does not say");
        return;
    }
    bool never = strstr(line, "[never]") != NULL;
    struct sl_doctor_check *c = sl_doctor_add(
        d, "huge_pages", "huge pages", "%s; shared memory: %s", never ? "never" : "when asked for",
        sl_doctor_shares_huge_pages() ? "moved to them" : "never");
    if (never)
        sl_doctor_advise(c, SL_VERDICT_WARNING,
                         "random rows are read more slowly: 'echo madvise > "
                         "/sys/kernel/mm/transparent_hugepage/enabled' as root");
}

static void check_numa(struct sl_doctor *d)
{
    uint32_t nodes = 0, empty = 0, first = 0;
    for (uint32_t node = 0; node < NUMA_NODES_MAX; node++) {
        char path[96], line[128];
        unsigned long long kib = 0;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%u/meminfo", node);
        if (!line_of(path, line, sizeof line))
            continue;
        nodes++;
        const char *total = strstr(line, "MemTotal:");
        if (total && sscanf(total, "MemTotal: %llu", &kib) == 1 && kib == 0 && empty++ == 0)
            first = node;
    }
    struct sl_doctor_check *c =
        sl_doctor_add(d, "numa", "memory nodes", nodes ? "%u" : "not known", nodes);
    if (empty)
        sl_doctor_advise(c, SL_VERDICT_WARNING,
                         "node %u%s has no memory: workers on its cores read that of others; leave "
                         "its cores out of devices[].cores ('lscpu' lists them)",
                         first, empty > 1 ? " and others" : "");
}

// ---- limits -------------------------------------------------------------------------------------

static const char *limit_text(char *buf, rlim_t x)
{
    if (x == RLIM_INFINITY)
        snprintf(buf, SL_UNITS_BYTES, "unlimited");
    else
        snprintf(buf, SL_UNITS_BYTES, "%llu", (unsigned long long)x);
    return buf;
}

static void check_limit(struct sl_doctor *d, __rlimit_resource_t which, const char *key,
                        const char *name, const char *flag, rlim_t needed, rlim_t wanted)
{
    struct rlimit r;
    char soft[SL_UNITS_BYTES], hard[SL_UNITS_BYTES];
    if (getrlimit(which, &r) != 0)
        return;
    struct sl_doctor_check *c =
        sl_doctor_add(d, key, name, "%s (at most %s)", limit_text(soft, r.rlim_cur),
                      limit_text(hard, r.rlim_max));
    if (r.rlim_cur < needed)
        sl_doctor_advise(c, SL_VERDICT_PROBLEM,
                         "no job can start with fewer than %llu: 'ulimit %s %llu'",
                         (unsigned long long)needed, flag, (unsigned long long)wanted);
    else if (r.rlim_cur < wanted)
        sl_doctor_advise(c, SL_VERDICT_WARNING,
                         "jobs with many workers need more: 'ulimit %s %llu'", flag,
                         (unsigned long long)wanted);
}

// ---- the kernel's parts that a job is built on --------------------------------------------------

// `err` is what the call `call` left in errno, or 0; `needed` says what for, and what to do.
static void add_descriptor(struct sl_doctor *d, const char *key, const char *name, const char *call,
                           int err, const char *needed)
{
    struct sl_doctor_check *c =
        sl_doctor_add(d, key, name, "%s %s", key, err ? "does not work" : "works");
    if (err)
        sl_doctor_advise(c, SL_VERDICT_PROBLEM, "%s: %s: %s", call, strerror(err), needed);
}

// Closes what a call gave; returns errno when that was no descriptor, else 0.
static int close_descriptor(int fd)
{
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static void check_memfd(struct sl_doctor *d)
{
    const size_t bytes = 1 << 20;
    int fd = memfd_create("sluice-doctor", MFD_CLOEXEC);
    char *p = fd < 0 || ftruncate(fd, (off_t)bytes) != 0
                  ? MAP_FAILED
                  : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int err = p == MAP_FAILED ? errno : 0;
    if (!err) {
        p[0] = 1;
        munmap(p, bytes);
    }
    if (fd >= 0)
        close(fd);
    add_descriptor(d, "memfd", "shared memory", "memfd_create", err,
                   "a job's memory is one memfd: allow it in the sandbox, or use Linux 3.17 or "
                   "newer");
}

static void check_pidfd(struct sl_doctor *d)
{
    int err = close_descriptor((int)syscall(SYS_pidfd_open, getpid(), 0));
    add_descriptor(d, "pidfd", "supervision", "pidfd_open", err,
                   "dead workers are noticed through it: allow it in the sandbox, or use Linux 5.3 "
                   "or newer");
}

static void check_eventfd(struct sl_doctor *d)
{
    int err = close_descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    add_descriptor(d, "eventfd", "doorbell", "eventfd", err, "workers wake the broker through it");
}

// What feature rows are read through that do not fit in memory.
static void check_drive_reads(struct sl_doctor *d)
{
    if (sl_row_reader_try_uring() == SL_OK)
        sl_doctor_add(d, "drive_reads", "drive reads", "through io_uring");
    else
        sl_doctor_add(d, "drive_reads", "drive reads", "through threads: %s", sl_error_message());
}

// ---- files --------------------------------------------------------------------------------------

static void check_programs(struct sl_doctor *d)
{
    static const char *const programs[] = {"sluice-broker", "sluice-sampler", "sluice-trainer"};
    char dir[4096], missing[256] = "";
    if (sl_worker_pool_own_directory(dir, sizeof dir) < 0) {
        sl_doctor_advise(sl_doctor_add(d, "programs", "programs", "not known"), SL_VERDICT_PROBLEM,
                         "%s", sl_error_message());
        return;
    }
    for (size_t i = 0; i < SL_COUNT_OF(programs); i++) {
        char path[4200];
        size_t used = strlen(missing);
        snprintf(path, sizeof path, "%s/%s", dir, programs[i]);
        if (access(path, X_OK) != 0)
            snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", programs[i]);
    }
    struct sl_doctor_check *c = sl_doctor_add(d, "programs", "programs", "%.900s", dir);
    if (*missing)
        sl_doctor_advise(c, SL_VERDICT_PROBLEM,
                         "not there: %s: 'make' builds them, and they belong beside this program",
                         missing);
}

static void check_cache(struct sl_doctor *d)
{
    char *dir = sl_dataset_cache_dir();
    if (!dir) {
        struct sl_doctor_check *c = sl_doctor_add(d, "cache", "cache directory", "none");
        sl_doctor_advise(
            c, SL_VERDICT_WARNING,
            "data sets are validated in full at every start: set HOME or SLUICE_CACHE_DIR");
        return;
    }
    struct sl_doctor_check *c = sl_doctor_add(d, "cache", "cache directory", "%.900s", dir);
    // The nearest part of the path that exists decides whether the rest can be made.
    char *slash;
    while (access(dir, F_OK) != 0 && (slash = strrchr(dir, '/')) && slash > dir)
        *slash = '\0';
    if (access(access(dir, F_OK) == 0 ? dir : "/", W_OK | X_OK) != 0)
        sl_doctor_advise(
            c, SL_VERDICT_WARNING,
            "it cannot be written to (%s), so data sets are validated in full at every start: "
            "set SLUICE_CACHE_DIR to a directory that can",
            strerror(errno));
    free(dir);
}

static void check_failpoints(struct sl_doctor *d)
{
    const char *armed = getenv("SLUICE_FAILPOINT");
    if (!armed || !*armed)
        return;
    struct sl_doctor_check *c =
        sl_doctor_add(d, "failpoint", "failpoint", "SLUICE_FAILPOINT=%.900s", armed);
    if (sl_failpoint_init() < 0)
        sl_doctor_advise(c, SL_VERDICT_PROBLEM, "%s", sl_error_message());
    else
        sl_doctor_advise(c, SL_VERDICT_WARNING,
                         "processes of a job will kill themselves there: unset it unless "
                         "that is what you are testing");
}

// ---- output -------------------------------------------------------------------------------------

static void print_text(const struct sl_doctor *d, enum sl_verdict worst)
{
    struct sl_table t;
    sl_table_init(&t, "l l l", NULL);
    for (size_t i = 0; i < d->n; i++) {
        const struct sl_doctor_check *c = &d->checks[i];
        sl_table_row(&t, "%s|%s|%s", verdict_names[c->verdict], c->name, c->found);
        if (c->advice[0])
            sl_table_row(&t, "||  %s", c->advice);
    }
    sl_table_print(&t, stdout);
    sl_table_fini(&t);
    printf("\n%s\n", worst == SL_VERDICT_PROBLEM
                         ? "A job cannot run here until the problems are solved."
                     : worst == SL_VERDICT_WARNING ? "A job can run here; mind the warnings."
                                                   : "A job can run here.");
}

static int print_json(const struct sl_doctor *d, enum sl_verdict worst)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "sluice.doctor/1");
    cJSON_AddStringToObject(root, "verdict", verdict_names[worst]);
    cJSON *checks = cJSON_AddObjectToObject(root, "checks");
    for (size_t i = 0; i < d->n; i++) {
        const struct sl_doctor_check *c = &d->checks[i];
        cJSON *one = cJSON_AddObjectToObject(checks, c->key);
        cJSON_AddStringToObject(one, "verdict", verdict_names[c->verdict]);
        cJSON_AddStringToObject(one, "found", c->found);
        if (c->advice[0])
            cJSON_AddStringToObject(one, "advice", c->advice);
    }
    return sl_output_json_pages(root, "doctor");
}

static int list_failpoints(bool json)
{
    if (!json) {
        struct sl_table t;
        sl_table_init(&t, "l l", (const char *[]){"failpoint", "where"});
        for (int i = 0; i < SL_FAILPOINT_COUNT; i++)
            sl_table_row(&t, "%s|%s", sl_failpoint_name((enum sl_failpoint)i),
                         sl_failpoint_where((enum sl_failpoint)i));
        sl_table_print(&t, stdout);
        sl_table_fini(&t);
        printf(
            "\nSLUICE_FAILPOINT=name[:count][:stop] makes the process that reaches that point for "
            "the count-th\ntime in the run kill itself with SIGKILL, or with 'stop' stand still "
            "until it gets SIGCONT.\n");
        return SL_EXIT_OK;
    }
    cJSON *root = cJSON_CreateObject();
    for (int i = 0; i < SL_FAILPOINT_COUNT; i++)
        cJSON_AddStringToObject(root, sl_failpoint_name((enum sl_failpoint)i),
                                sl_failpoint_where((enum sl_failpoint)i));
    return sl_output_json_pages(root, "doctor");
}

struct request {
    struct sl_session_where where;
    bool failpoints, nodes;
    const char *job;
    int output;
};

static int examine(const struct request *r)
{
    struct sl_doctor *d = calloc(1, sizeof *d);
    if (!d)
        return sl_fail(SL_ENOMEM, "doctor: no memory");
    check_kernel(d);
    check_cores(d);
    check_quota(d);
    check_isa(d);
    check_memory(d);
    check_huge_pages(d);
    check_numa(d);
    check_limit(d, RLIMIT_NOFILE, "nofile", "open files", "-n", FILES_NEEDED, FILES_WANTED);
    check_limit(d, RLIMIT_NPROC, "nproc", "processes", "-u", PROCESSES_NEEDED, PROCESSES_WANTED);
    check_memfd(d);
    check_pidfd(d);
    check_eventfd(d);
    check_drive_reads(d);
    check_programs(d);
    check_cache(d);
    sl_doctor_check_gpus(d);
    sl_doctor_check_service(d, &r->where);
    check_failpoints(d);
    enum sl_verdict worst = SL_VERDICT_OK;
    for (size_t i = 0; i < d->n; i++)
        worst = SL_MAX(worst, d->checks[i].verdict);
    int rc = SL_OK;
    if (r->output == SL_OUTPUT_JSON)
        rc = print_json(d, worst);
    else
        print_text(d, worst);
    free(d);
    return rc < 0 ? rc : worst == SL_VERDICT_PROBLEM ? SL_EXIT_FAILED : SL_EXIT_OK;
}

static int doctor(void *state)
{
    const struct request *r = state;
    if (r->where.key && !r->where.connect)
        return sl_fail(SL_EINVAL, "doctor: --key '%s' without --connect: wanted both or neither",
                       r->where.key);
    if (r->job && !r->nodes)
        return sl_fail(SL_EINVAL, "doctor: '%s' without --nodes: a job file is compared over nodes",
                       r->job);
    if (r->nodes)
        return sl_doctor_nodes(r->job, r->output);
    return r->failpoints ? list_failpoints(r->output == SL_OUTPUT_JSON) : examine(r);
}

#define AT(kind, field) SL_OPTION_AT(kind, request, field)
// clang-format off
static const struct sl_option options[] = {
    {.name = "failpoints", AT(FLAG, failpoints),
     .help = "list the points at which crash tests can kill a process"},
    {.name = "nodes", AT(FLAG, nodes),
     .help = "started by mpirun or srun: compare the nodes and measure the network between them"},
    {0},
};
// clang-format on

const struct sl_command sl_command_doctor = {
    .name = "doctor",
    .help = "what this machine offers and what would stop a job",
    .about =
        "Looks for what a job needs on this machine: cores, memory, limits, kernel "
        "features, programs, GPUs, the daemon. Says what is wrong and what to do about "
        "it. Exit status 1 when a job could not run.\n"
        "With --nodes, started as one process on each of several nodes: whether they have the "
        "same sluice, instruction set, job file and data set, whose clock is off, what an MPI "
        "has left, and round trips and bandwidth of each pair. Exit status 2 when they differ.",
    .example = "sluice doctor\nsluice doctor --connect tcp://gpu7:7400 --key client.key\n"
               "sluice doctor --failpoints\n"
               "mpirun -n 4 --map-by ppr:1:node --bind-to none sluice doctor --nodes job.json\n"
               "srun --mpi=pmix -N 4 sluice doctor --nodes job.json",
    .operands = {{.name = "JOB.json", .offset = offsetof(struct request, job), .optional = true}},
    .options = {{options},
                {sl_output_option, offsetof(struct request, output)},
                {sl_session_options, offsetof(struct request, where)}},
    .bytes = sizeof(struct request),
    .run = doctor,
};
