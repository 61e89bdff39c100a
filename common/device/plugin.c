#include "common/device/plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/plugin_file.h"
#include "common/base/version.h"

// Guards what follows; each is written once.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct sl_plugin *opened;
static char opened_path[SL_PLUGIN_PATH_BYTES];

// --- what the plug-in calls ----------------------------------------------------------------------

static int take_failure(int code, const char *message)
{
    return sl_fail(code, "%s", message);
}

static void take_line(int level, const char *message)
{
    sl_log_write((enum sl_log_level)level, "%s", message);
}

static const struct sl_plugin_host HOST = {
    .abi = SL_PLUGIN_ABI,
    .bytes = sizeof(struct sl_plugin_host),
    .fail = take_failure,
    .log = take_line,
};

// --- finding it ----------------------------------------------------------------------------------

static const struct sl_plugin_kind KIND = {
    .name = "CUDA",
    .file = "libsluice_cuda.so",
    .variable = "SLUICE_CUDA_PLUGIN",
    .symbol = SL_PLUGIN_SYMBOL,
    .build = "build with CUDA=1 where nvcc is",
    .load_error = SL_EDEVICE,
};

int sl_plugin_look(const char *program)
{
    char file[SL_PLUGIN_PATH_BYTES];
    return sl_plugin_file_find(&KIND, program, file);
}

void sl_plugin_report_none(struct sl_gpu_report *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->problem, sizeof out->problem, "%s", sl_error_message());
    snprintf(out->cublas, sizeof out->cublas, "not looked for");
    snprintf(out->nccl, sizeof out->nccl, "not looked for");
}

// --- opening it ----------------------------------------------------------------------------------

static int check_build(const char *file, const struct sl_plugin *found)
{
    if (!found)
        return sl_fail(
            SL_EPROTO,
            "%s is of another build: it does not take programs of ABI %d, as this one of "
            "version %s: build both together",
            file, SL_PLUGIN_ABI, SL_VERSION);
    if (found->abi != SL_PLUGIN_ABI)
        return sl_fail(SL_EPROTO,
                       "%s is of another build: its ABI is %u, this program's (version %s) is %d: "
                       "build both together",
                       file, found->abi, SL_VERSION, SL_PLUGIN_ABI);
    // Of the fields behind these two nothing is known when the sizes differ.
    if (found->bytes != sizeof *found || found->device_bytes != sizeof(struct sl_device))
        return sl_fail(SL_EPROTO,
                       "%s is of another build: its tables have %u and %u bytes, this program's "
                       "(version %s) %zu and %zu: build both together",
                       file, found->bytes, found->bytes == sizeof *found ? found->device_bytes : 0,
                       SL_VERSION, sizeof *found, sizeof(struct sl_device));
    if (strcmp(found->version, SL_VERSION) != 0)
        return sl_fail(SL_EPROTO,
                       "%s is of version %s, this program is of version %s: wanted both of one "
                       "build",
                       file, found->version, SL_VERSION);
    return SL_OK;
}

static int load(const char *file, const struct sl_plugin **out)
{
    void *symbol;
    SL_TRY(sl_plugin_file_load(&KIND, file, &symbol));
    *out = ((sl_plugin_entry)symbol)(&HOST);
    return check_build(file, *out);
}

static int open_locked(void)
{
    char file[SL_PLUGIN_PATH_BYTES];
    const struct sl_plugin *found = NULL;
    if (opened)
        return SL_OK;
    SL_TRY(sl_plugin_file_find_own(&KIND, file));
    SL_TRY(load(file, &found));
    if (!realpath(file, opened_path))
        snprintf(opened_path, sizeof opened_path, "%s", file);
    __atomic_store_n(&opened, found, __ATOMIC_RELEASE);
    return SL_OK;
}

int sl_plugin_open(const struct sl_plugin **out)
{
    pthread_mutex_lock(&lock);
    int rc = open_locked();
    pthread_mutex_unlock(&lock);
    *out = rc == SL_OK ? opened : NULL;
    return rc;
}

// Pairs with the store of open_locked(): who sees the plug-in sees its path.
const struct sl_plugin *sl_plugin_opened(void)
{
    return __atomic_load_n(&opened, __ATOMIC_ACQUIRE);
}

const char *sl_plugin_path(void)
{
    return sl_plugin_opened() ? opened_path : "";
}
