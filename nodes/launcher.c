#include "nodes/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bits.h"
#include "common/base/error.h"

enum { KEPT_FD = 64, SAID_US = 500000 };

// The nearest launcher first: an mpirun inside an allocation of Slurm says how many it started.
// SLURM_NTASKS is that of the allocation where the step does not say.
static const struct {
    const char *size, *rank;
} variables[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_SIZE", "PMI_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    {"SLURM_NTASKS", "SLURM_PROCID"},
};

#define WITH_PMIX                                                                                  \
    "start them with 'srun --mpi=pmix' ('srun --mpi=list' says whether it has pmix), or with "     \
    "that MPI's mpirun"

static int read_number(const char *name, uint32_t *out)
{
    char *end;
    const char *text = getenv(name);
    *out = 0;
    if (!text || !*text)
        return SL_OK;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || end == text || value > UINT32_MAX || text[0] == '-')
        return sl_fail(SL_EINVAL, "%s is '%s': wanted a number, as its launcher sets it", name,
                       text);
    *out = (uint32_t)value;
    return SL_OK;
}

static bool is_slurm(const struct sl_launcher *launcher)
{
    return strncmp(launcher->variable, "SLURM", 5) == 0;
}

int sl_launcher_read(struct sl_launcher *out)
{
    *out = (struct sl_launcher){0};
    for (size_t i = 0; i < SL_COUNT_OF(variables) && !out->size; i++) {
        SL_TRY(read_number(variables[i].size, &out->size));
        if (out->size) {
            out->variable = variables[i].size;
            // Slurm's PMI2 sets PMI_SIZE, which is nearer.
            out->no_pmi = is_slurm(out) && out->size > 1 && !getenv("PMIX_RANK");
            return read_number(variables[i].rank, &out->rank);
        }
    }
    // A launcher of PMIx that says no more (prrte).
    if (getenv("PMIX_RANK")) {
        out->variable = "PMIX_RANK";
        return read_number("PMIX_RANK", &out->rank);
    }
    return sl_fail(SL_EINVAL, "no launcher started this process (none of OMPI_COMM_WORLD_SIZE, "
                              "PMI_SIZE, SLURM_NTASKS, PMIX_RANK is set): start it with 'mpirun -n "
                              "N' or 'srun --mpi=pmix -N N', a process on each node");
}

int sl_launcher_check_pmi(const struct sl_launcher *launcher)
{
    if (!launcher->no_pmi)
        return SL_OK;
    return sl_fail(SL_EINVAL,
                   "Slurm says that there are %u processes (%s), but has not told MPI of them "
                   "(neither PMIX_RANK nor PMI_SIZE is set): " WITH_PMIX,
                   launcher->size, launcher->variable);
}

uint32_t sl_launcher_size(uint32_t *rank)
{
    struct sl_launcher l;
    const int rc = sl_launcher_read(&l);
    *rank = rc == SL_OK ? l.rank : 0;
    return rc == SL_OK ? l.size : 1;
}

bool sl_launcher_is_batch(void)
{
    struct sl_launcher l;
    return sl_launcher_read(&l) == SL_OK && strcmp(l.variable, "SLURM_NTASKS") == 0;
}

int sl_launcher_keep_descriptor(void)
{
    char number[16];
    uint32_t fd;
    SL_TRY(read_number("PMI_FD", &fd));
    if (fd == 0)
        return -1;
    const int kept = fcntl((int)fd, F_DUPFD_CLOEXEC, KEPT_FD);
    if (kept < 0)
        return sl_fail_errno(SL_ESYS, errno, "PMI_FD is %u, the launcher's descriptor", fd);
    snprintf(number, sizeof number, "%d", kept);
    setenv("PMI_FD", number, 1);
    return kept;
}

void sl_launcher_abort(int status)
{
    char word[64];
    uint32_t fd = 0;
    if (read_number("PMI_FD", &fd) < 0 || fd == 0)
        return;
    usleep(SAID_US); // what this process has said is shown before
    const int n = snprintf(word, sizeof word, "cmd=abort exitcode=%d\n", status);
    (void)send((int)fd, word, (size_t)n, MSG_NOSIGNAL);
}

int sl_launcher_check(const struct sl_launcher *launcher, uint32_t size, uint32_t rank,
                      const char *mpi)
{
    const char *name = launcher->variable;
    if (launcher->size ? size == launcher->size : size > launcher->rank)
        return SL_OK;
    if (launcher->size == 0)
        return sl_fail(SL_EINVAL,
                       "%s says that this is process %u, but %s finds a world of %u: they do not "
                       "know each other: use the launcher of that MPI, or build the plug-in with "
                       "'make mpi MPICC=' of the launcher's",
                       name, launcher->rank, mpi, size);
    if (is_slurm(launcher))
        return sl_fail(SL_EINVAL,
                       "Slurm says that there are %u processes (%s), but %s finds a world of %u "
                       "(this is rank %u of it): " WITH_PMIX,
                       launcher->size, name, mpi, size, rank);
    return sl_fail(SL_EINVAL,
                   "the launcher says that there are %u processes (%s), but %s finds a world of %u "
                   "(this is rank %u of it): use the mpirun of that MPI, or build the plug-in with "
                   "'make mpi MPICC=' of the launcher's",
                   launcher->size, name, mpi, size, rank);
}
