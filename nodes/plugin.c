#include "nodes/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/plugin_file.h"
#include "common/base/version.h"

static const struct sl_plugin_kind KIND = {
    .name = "MPI",
    .file = "libsluice_mpi.so",
    .variable = "SLUICE_MPI_PLUGIN",
    .symbol = SL_WORLD_SYMBOL,
    .build =
        "build it with 'make mpi MPICC=mpicc' of the MPI whose mpirun or srun starts it (where "
        "sluice is installed: 'share/sluice/mpi/build mpicc')",
    .load_error = SL_EUNSUPPORTED,
};

static int take_failure(int code, const char *message)
{
    return sl_fail(code, "%s", message);
}

static const struct sl_world_host HOST = {
    .abi = SL_WORLD_ABI,
    .bytes = sizeof(struct sl_world_host),
    .fail = take_failure,
};

static int check_build(const char *file, const struct sl_world_table *found)
{
    if (!found || found->abi != SL_WORLD_ABI || found->bytes != sizeof *found)
        return sl_fail(SL_EPROTO,
                       "%s is of another build than this program of version %s: wanted the table "
                       "of ABI %d: build both together",
                       file, SL_VERSION, SL_WORLD_ABI);
    if (strcmp(found->version, SL_VERSION) != 0)
        return sl_fail(SL_EPROTO,
                       "%s is of version %s, this program is of version %s: wanted both of one "
                       "build",
                       file, found->version, SL_VERSION);
    return SL_OK;
}

int sl_world_plugin_open(const struct sl_world_table **out)
{
    char file[SL_PLUGIN_PATH_BYTES];
    void *symbol;
    SL_TRY(sl_plugin_file_find_own(&KIND, file));
    // UCX, which MPI may use, takes signals from the program when it is loaded, hang-up among them.
    setenv("UCX_DEBUG_SIGNO", "0", 1);
    setenv("UCX_ERROR_SIGNALS", "", 1);
    SL_TRY(sl_plugin_file_load(&KIND, file, &symbol));
    *out = ((sl_world_entry)symbol)(&HOST);
    return check_build(file, *out);
}
