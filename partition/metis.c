#include "partition/metis.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/interrupt.h"
#include "common/text/units.h"

enum {
    LOOK_MS = 200, // between two looks at Ctrl-C
    METIS_OK = 1,
    OPTIONS = 40, // METIS_NOPTIONS
    CONSTRAINTS_MAX = 2,
};

// How the child says what METIS answered.
enum answer { ANSWER_OK, ANSWER_INPUT = 2, ANSWER_MEMORY = 3, ANSWER_ERROR = 4 };

// ---- the library --------------------------------------------------------------------------------

/*
 * Whether it counts in 32 bits, which no function of it tells: the default options are all ones, as
 * many words as there are options, and words of 64 bits reach further.
 */
static bool is_narrow(int (*set_defaults)(int32_t *))
{
    int32_t options[2 * OPTIONS] = {0};
    set_defaults(options);
    return options[OPTIONS - 1] == -1 && options[OPTIONS] == 0;
}

int sl_metis_open(struct sl_metis *out)
{
    const char *named = getenv("SLUICE_METIS");
    const char *file = named && named[0] ? named : SL_METIS_FILE;
    // Stays open until the process ends.
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return sl_fail(SL_ENOENT,
                       "METIS is not there (%s): install Debian's package libmetis5, or name its "
                       "library in SLUICE_METIS, or give --method stream",
                       dlerror());
    int (*set_defaults)(int32_t *);
    *(void **)&set_defaults = dlsym(handle, "METIS_SetDefaultOptions");
    *(void **)&out->recursive = dlsym(handle, "METIS_PartGraphRecursive");
    *(void **)&out->kway = dlsym(handle, "METIS_PartGraphKway");
    if (set_defaults && out->recursive && out->kway && is_narrow(set_defaults))
        return SL_OK;
    dlclose(handle);
    return sl_fail(SL_EUNSUPPORTED,
                   "%s is no METIS 5 of 32-bit numbers, as Debian's libmetis5 is: give --method "
                   "stream, or name another library in SLUICE_METIS",
                   file);
}

// ---- the child ----------------------------------------------------------------------------------

struct call {
    const struct sl_metis *metis;
    const struct sl_parts_task *task;
    const struct sl_symmetric_graph *graph;
    bool kway;
    int32_t *weights; // (n_nodes, 2) of a vertex and of a training vertex; NULL: vertices alone
    int32_t *part;    // (n_nodes) shared with the child
};

static enum answer answer_of(int status)
{
    switch (status) {
    case METIS_OK: return ANSWER_OK;
    case -2: return ANSWER_INPUT;
    case -3: return ANSWER_MEMORY;
    default: return ANSWER_ERROR;
    }
}

static enum answer ask(const struct call *c)
{
    const struct sl_symmetric_graph *g = c->graph;
    int32_t n = (int32_t)g->n_nodes, constraints = c->weights ? CONSTRAINTS_MAX : 1;
    int32_t cut = 0; // METIS's own count, which is not asked for
    int32_t n_parts = (int32_t)c->task->n_parts;
    // Of a bisection METIS allows each level so much, and 0.00005 more than it is told.
    double each = 1 + c->task->slack;
    if (!c->kway)
        each = pow(each, 1 / ceil(log2(c->task->n_parts)));
    float fuller[2 * CONSTRAINTS_MAX]; // a METIS of 64-bit reals finds nonsense there, and says so
    for (size_t i = 0; i < SL_COUNT_OF(fuller); i++)
        fuller[i] = (float)(each - 1e-4);
    return answer_of((c->kway ? c->metis->kway : c->metis->recursive)(
        &n, &constraints, g->offsets, g->neighbours, c->weights, NULL, NULL, &n_parts, NULL, fuller,
        NULL, &cut, c->part));
}

static void be_child(const struct call *c, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(ANSWER_ERROR);
    // Ctrl-C is the parent's, and what METIS prints is said by its answer.
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
    _exit(ask(c));
}

static void show_time(struct sl_progress *progress)
{
    char text[SL_UNITS_BYTES];
    sl_progress_reset_fields(progress);
    sl_progress_add_field(progress, 0,
                          sl_units_seconds(text, (double)(sl_now_ns() - progress->begin_ns) * 1e-9),
                          NULL);
    sl_progress_add(progress, 0);
}

// Until it is dead: by itself, or because of Ctrl-C.
static int wait_for(pid_t child, struct sl_progress *progress, int *status, uint64_t *peak_bytes)
{
    struct rusage usage = {0};
    struct pollfd death = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
    int rc = SL_OK;
    for (;;) {
        const pid_t dead = wait4(child, status, rc < 0 ? 0 : WNOHANG, &usage);
        if (dead == child)
            break;
        if (dead < 0 && errno != EINTR) { // somebody else has waited for it
            rc = sl_fail_errno(SL_ESYS, errno, "partition: wait for METIS");
            break;
        }
        rc = sl_interrupt_check();
        show_time(progress);
        if (rc < 0)
            kill(child, SIGKILL);
        else
            poll(&death, 1, LOOK_MS);
    }
    if (death.fd >= 0)
        close(death.fd);
    *peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    return rc;
}

static int judge(int status)
{
    static const char advice[] = "give --method stream, which needs no METIS";
    if (WIFSIGNALED(status))
        return sl_fail(SL_EFAILED, "METIS was ended by signal %d (%s)%s: %s", WTERMSIG(status),
                       strsignal(WTERMSIG(status)),
                       WTERMSIG(status) == SIGKILL ? ", perhaps for want of memory" : "", advice);
    switch (WEXITSTATUS(status)) {
    case ANSWER_OK: return SL_OK;
    case ANSWER_INPUT:
        return sl_fail(SL_EFAILED,
                       "METIS refuses the graph: wanted a build of 32-bit numbers and reals, as "
                       "Debian's libmetis5 is: %s",
                       advice);
    case ANSWER_MEMORY: return sl_fail(SL_EFAILED, "METIS has no memory: %s", advice);
    default: return sl_fail(SL_EFAILED, "METIS failed: %s", advice);
    }
}

static int run_child(const struct call *c, uint64_t *peak_bytes)
{
    int status;
    const pid_t parent = getpid(), child = fork();
    if (child < 0)
        return sl_fail_errno(SL_ESYS, errno, "partition: start a process for METIS");
    if (child == 0)
        be_child(c, parent);
    SL_TRY(wait_for(child, c->task->progress, &status, peak_bytes));
    return judge(status);
}

// ---- a partition --------------------------------------------------------------------------------

uint64_t sl_metis_bytes(uint64_t n_nodes, uint64_t n_entries)
{
    // Measured of power-law graphs, whose coarser levels hardly shrink: 50 to 62 an entry.
    return 64 * n_entries + 100 * n_nodes;
}

static int weigh(struct call *c)
{
    const uint64_t n = c->graph->n_nodes;
    c->weights = malloc((n + 1) * CONSTRAINTS_MAX * sizeof *c->weights);
    if (!c->weights)
        return sl_fail(SL_ENOMEM, "partition: no memory for two weights a vertex");
    for (uint64_t v = 0; v < n; v++) {
        c->weights[2 * v] = 1;
        c->weights[2 * v + 1] = sl_parts_is_training(c->task->training, v);
    }
    return SL_OK;
}

static int take(const struct call *c, uint16_t *part)
{
    for (uint64_t v = 0; v < c->graph->n_nodes; v++) {
        if (c->part[v] < 0 || (uint32_t)c->part[v] >= c->task->n_parts)
            return sl_fail(SL_EFAILED,
                           "METIS put vertex %" PRIu64 " into part %" PRId32
                           " of %u: give --method stream, which needs no METIS",
                           v, c->part[v], c->task->n_parts);
        part[v] = (uint16_t)c->part[v];
    }
    return SL_OK;
}

int sl_metis_partition(const struct sl_metis *metis, const struct sl_parts_task *t,
                       const struct sl_symmetric_graph *graph, bool kway, uint16_t *part,
                       uint64_t *peak_bytes)
{
    struct call c = {.metis = metis, .task = t, .graph = graph, .kway = kway};
    const size_t bytes = (graph->n_nodes + 1) * sizeof *c.part;
    // Where all are for training, one constraint says both.
    int rc = kway || t->ds->split[SL_SPLIT_TRAIN].n == graph->n_nodes ? SL_OK : weigh(&c);
    c.part = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rc == SL_OK && c.part == MAP_FAILED)
        rc = sl_fail_errno(SL_ENOMEM, errno, "partition: memory for what METIS answers");
    sl_progress_begin(t->progress, "METIS", 0, "edges");
    if (rc == SL_OK)
        rc = run_child(&c, peak_bytes);
    sl_progress_add(t->progress, graph->n_entries / 2);
    if (rc == SL_OK)
        rc = take(&c, part);
    if (c.part != MAP_FAILED)
        munmap(c.part, bytes);
    free(c.weights);
    return rc;
}
